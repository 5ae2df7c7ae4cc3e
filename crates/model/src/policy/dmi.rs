//! The calibrator of dynamic memory interleaving: hill climbing to the highest bandwidth.
//!
//! The problem: of each hundred pages, find the number (the *points*) on the first tier at which
//! all tiers together have the highest bandwidth. The optimum depends on the program, so the
//! calibrator searches for it on the running machine: it takes a step, waits for the migration, and
//! compares the bandwidth.
//!
//! Terms. The *ratio* is the number of points on the first tier. The *step* is the last change of
//! the ratio; it is negative if pages left the first tier. Memory is *saturated* when the bandwidth
//! is at least the cutoff; below the cutoff latency matters, and pages belong on the first tier.
//! The search is *at rest* when its step is 0.
//!
//! At the end of each period of some seconds:
//!
//! - Not saturated: step towards the first tier. If the last step had this direction, it is
//!   repeated; otherwise the step has half the points of the last step, at least 2. Repeat this
//!   step while memory stays unsaturated. At a ratio of 100 the last step is forgotten: the next
//!   search begins like the first one.
//! - At rest: search again only if ratio × relative change of the bandwidth is 4 points or more.
//! - At a ratio of 100: probe. Half of the points of the last step leave the first tier.
//! - Bandwidth rose: repeat the step, with 8 points at most. A step away from the first tier whose
//!   gain in percent was less than 90 % of its points is shortened: the next step has as many
//!   points as the gain has percent.
//! - Bandwidth fell: make a step of half the length in the opposite direction.
//! - The next step would be below 2 points: rest. If the bandwidth was higher at the previous
//!   ratio, return to that ratio.
//!
//! Example: the log of a real server (CloverLeaf, 119 threads). The bandwidths are 409, 441, 483,
//! 515, 558 and 587 GB/s at the ratios 100, 92, 84, 76, 69 and 62. At 56 the bandwidth is lower,
//! and the search rests at 65, after about 11 periods. From 100 to 92 the bandwidth rises by 7.8 %
//! for 8 points, so the step is repeated. From 84 to 76 the bandwidth rises by only 6.6 % for 8
//! points. Therefore the next step has 6.6 points, rounded up to 7, and leads to 69. The step of 7
//! points is repeated, and leads to 62. There, 587 GB/s are 5.2 % more than 558 GB/s, so a step of
//! 5.2 points follows, rounded up to 6. It leads to 56, where the bandwidth falls. Then the search
//! steps back by 3 points, three times.
//!
//! The slides and the log leave some details open. Here, steps are whole points, rounded up, as the
//! log suggests. Steps towards the first tier are not shortened: this tier has the lowest latency,
//! so pages return to it even if the bandwidth gains little. If bandwidth rises at rest, demand has
//! grown, so the new search begins with a step away from the first tier. If bandwidth falls at
//! rest, it begins with a step towards the first tier. At a ratio of 0 or 100 the first step leads
//! away from this end. After a return to the previous ratio, the bandwidth that was measured at
//! that ratio is the reference again. Otherwise the change by the return itself would start a
//! search.
//!
//! # The dead band
//!
//! Counters are noisy: a program has phases, and 30 samples that scatter by 5 % give a 90th
//! percentile that scatters by 1.6 %. The prototype attributes every change of bandwidth to its
//! step; at rest, it compares single periods. Noise therefore sometimes starts a search (on the
//! server, ±6 points at 30 threads). With a dead band ([`DmiSettings::documented`]):
//!
//! - At rest, a change counts when it is worth 4 points *and* exceeds 4 standard errors *and*
//!   appears in two consecutive periods. The reference is the mean of all periods of this rest, not
//!   the last period.
//! - While searching, a change within 1 standard error of the difference is measured again, for up
//!   to three periods, whose mean counts. If the change is then still within the error, it is not a
//!   gain: the next step has half of the length and goes towards the first tier. The gain that is
//!   required for a full step is reduced by the same error.
//! - Memory becomes saturated only 4 standard errors above the cutoff, and unsaturated only 4
//!   standard errors below it. At rest, the end of saturation must also appear in two consecutive
//!   periods.
//!
//! The table is from simulations with 30 samples a period, of 100 periods for each of 300 seeds, on
//! two tiers with a maximum of 601 GB/s together. *Away* is the fraction of periods after the first
//! rest that are more than 3 points from the ratio of that rest. The bandwidth is the mean over all
//! periods, search included.
//!
//! | samples scatter by | prototype | dead band |
//! | --- | --- | --- |
//! | 5 % | 3.4 % away, 590 GB/s | never away, 592 GB/s |
//! | 10 % | 54 % away, 567 GB/s | never away, 578 GB/s |
//!
//! The cost of the dead band: the policy reacts to a change of demand one period later, and ignores
//! a change below 4 standard errors.
//!
//! Source: Mirakhur, "Dynamic memory interleaving for tiered memory" (slides, 7 August 2025), and
//! the log of its prototype.

use super::{Observation, Policy, Verdict, shares_with_first};
use crate::machine::TierLayout;

/// The bandwidth from which memory counts as saturated, as a fraction of the first tier's rated
/// bandwidth. With a rated bandwidth of 556 GB/s the cutoff is 250 GB/s; the prototype's manual
/// settings are 200 to 250 GB/s.
const CUTOFF_SHARE: f64 = 0.45;

/// While the search rests and memory is saturated, a new search begins only if the ratio (points on
/// the first tier) times the relative change of the bandwidth, in either direction, is at least
/// this number of points. The first step of the new search has this number of points.
const RESEARCH_POINTS: f64 = 4.0;

/// A step away from the first tier is repeated in full length if its gain of bandwidth, in percent,
/// is at least this multiple of its length in points.
const FULL_GAIN: f64 = 0.9;

/// The standard error of a 90th percentile divided by the standard error of the mean, for a normal
/// distribution: √(0.9 · 0.1) / φ(1.28). φ is the density of the standard normal distribution, and
/// 1.28 its 90th percentile.
const PERCENTILE_ERRORS: f64 = 1.71;

/// The step sizes and thresholds of the calibrator. A point is a percent of the pages.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DmiSettings {
    /// The cutoff below which memory is not saturated, GB/s; at least 0.
    pub cutoff_gbps: f64,
    /// The largest step of the search, points (percent of the pages); at least `min_step`.
    pub max_step: f64,
    /// The smallest step of the search, points (percent of the pages); above 0.
    pub min_step: f64,
    /// The step, in points, that is assumed to have come before a search that begins with all pages
    /// on the first tier. It is negative, because it leads away from the first tier. The first
    /// probe is half of this step.
    pub first_step: f64,
    /// The noise model, by which small changes of bandwidth are ignored; `None` for no dead band,
    /// as in the prototype.
    pub dead_band: Option<DeadBand>,
}

/// The noise model of the dead band. The calibrator reacts to a change of bandwidth only if it is
/// large enough and appears in enough periods.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DeadBand {
    /// A change of bandwidth must exceed this number of standard errors to restart a search that is
    /// at rest, or to count as a crossing of the cutoff between saturated and unsaturated memory.
    pub change_errors: f64,
    /// While searching, a change must exceed this number of standard errors to count as a gain or a
    /// loss.
    pub gain_errors: f64,
    /// The number of consecutive periods that must have a change of bandwidth before a search that
    /// is at rest restarts; at least 1.
    pub periods: u32,
    /// Maximum number of periods over which a change is measured during a search. If the change is
    /// then still within the error, it counts as no gain. At least 1.
    pub looks: u32,
}

impl Default for DeadBand {
    fn default() -> Self {
        Self { change_errors: 4.0, gain_errors: 1.0, periods: 2, looks: 3 }
    }
}

impl DmiSettings {
    /// The settings of the prototype. The cutoff is a fraction of the rated bandwidth of the first
    /// of `tiers`.
    pub fn prototype(tiers: &[TierLayout]) -> Self {
        let first_gbps = tiers.first().map_or(0.0, |tier| tier.rated_gbps);
        Self {
            cutoff_gbps: CUTOFF_SHARE * first_gbps,
            max_step: 8.0,
            min_step: 2.0,
            first_step: -16.0,
            dead_band: None,
        }
    }

    /// The settings of the prototype for `tiers`, with a dead band.
    pub fn documented(tiers: &[TierLayout]) -> Self {
        Self { dead_band: Some(DeadBand::default()), ..Self::prototype(tiers) }
    }
}

/// The bandwidth of one period with its standard error, or the mean bandwidth of several periods
/// with the standard error of this mean.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Level {
    gbps: f64,
    error_gbps: f64,
}

impl Level {
    fn of(seen: &Observation) -> Self {
        // The error is not finite if it could not be estimated. It then counts as 0.
        let error = if seen.error_gbps.is_finite() { seen.error_gbps.max(0.0) } else { 0.0 };
        Self { gbps: seen.bandwidth_gbps.max(0.0), error_gbps: PERCENTILE_ERRORS * error }
    }

    /// The standard error of the difference between the two bandwidths, GB/s.
    fn error_to(self, other: Self) -> f64 {
        libm::hypot(self.error_gbps, other.error_gbps)
    }

    /// The gain of bandwidth over `other`, as a fraction of the bandwidth of `other`.
    fn gain_over(self, other: Self) -> f64 {
        (self.gbps - other.gbps) / other.gbps.max(f64::MIN_POSITIVE)
    }
}

/// Sums over periods at the same ratio of pages: the number of periods, the sum of their
/// bandwidths, and the sum of the squares of their standard errors. [`Mean::level`] computes the
/// mean.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Mean {
    periods: f64,
    gbps: f64,
    square_errors: f64,
}

impl Mean {
    fn add(&mut self, level: Level) {
        self.periods += 1.0;
        self.gbps += level.gbps;
        self.square_errors += level.error_gbps * level.error_gbps;
    }

    fn level(&self) -> Option<Level> {
        let error_gbps = libm::sqrt(self.square_errors) / self.periods;
        (self.periods > 0.0).then(|| Level { gbps: self.gbps / self.periods, error_gbps })
    }
}

/// A change of bandwidth while the search is at rest that is not confirmed yet: its direction, and
/// the number of consecutive periods in which it was observed.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Suspicion {
    rise: bool,
    periods: u32,
}

/// The next action: keep the ratio, or change it by a number of points. The `str` is the name of
/// the action, the `String` the reason.
enum Next {
    Stay(&'static str, String),
    Step(f64, &'static str, String),
}

/// The calibrator: a policy that searches, by hill climbing, for the share of the first tier at
/// which the bandwidth is highest. See the module header.
#[derive(Clone, Debug, PartialEq)]
pub struct Calibrator {
    tiers: Vec<TierLayout>,
    settings: DmiSettings,
    /// Points on the first tier (percent of the pages), 0 to 100.
    ratio: f64,
    /// The last change of the ratio, points; 0 while the search is at rest.
    step: f64,
    saturated: bool,
    /// True if the search was at rest when memory became unsaturated: the cause was a fall of
    /// demand, not a step of the search.
    fell_at_rest: bool,
    /// The ratio and the bandwidth before the last step or, while the search is at rest, those of
    /// the previous period. `None` before the first period.
    before: Option<(f64, Level)>,
    /// The mean bandwidth over several periods: while the search is at rest, over all periods of
    /// this rest; otherwise, over the periods since the last step of the search.
    here: Mean,
    suspicion: Suspicion,
}

impl Calibrator {
    /// Creates the policy for `tiers`, the fastest first. The policy starts with all pages on the
    /// first tier.
    pub fn new(tiers: Vec<TierLayout>, settings: DmiSettings) -> Self {
        Self {
            tiers,
            settings,
            ratio: 100.0,
            step: settings.first_step,
            saturated: false,
            fell_at_rest: false,
            before: None,
            here: Mean::default(),
            suspicion: Suspicion::default(),
        }
    }

    fn next(&mut self, now: Level) -> Next {
        let saturated = self.is_saturated(now);
        if self.saturated && self.step == 0.0 {
            return self.at_rest(now, saturated);
        }
        let begins = saturated && self.fell_at_rest && self.ratio >= 100.0;
        self.saturated = saturated;
        if begins {
            // Normally, `towards_first` resets the step in the first period with unsaturated memory
            // at a ratio of 100. Here there was no such period: the demand rose in the period in
            // which the last pages returned to the first tier. The step is therefore reset now.
            (self.step, self.fell_at_rest) = (self.settings.first_step, false);
        }
        if !saturated {
            self.towards_first(now)
        } else if self.ratio >= 100.0 {
            let reason = format!("{:.0} GB/s, all from the first tier", now.gbps);
            Next::Step(-self.step.abs() / 2.0, "probe", reason)
        } else {
            self.search(now)
        }
    }

    /// True if memory is saturated in the period of `now`. Within the dead band around the cutoff,
    /// the previous state is kept.
    fn is_saturated(&self, now: Level) -> bool {
        let errors = self.settings.dead_band.map_or(0.0, |band| band.change_errors);
        let margin = if self.saturated { -errors } else { errors } * now.error_gbps;
        now.gbps >= self.settings.cutoff_gbps + margin
    }

    /// Counts a period in which the search was at rest and the bandwidth changed: it rose, or it
    /// fell if `rise` is false. Returns true once enough consecutive periods have had a change in
    /// this direction.
    fn confirmed(&mut self, rise: bool) -> bool {
        let again = self.suspicion.rise == rise;
        self.suspicion = Suspicion { rise, periods: 1 + again as u32 * self.suspicion.periods };
        self.suspicion.periods >= self.settings.dead_band.map_or(1, |band| band.periods)
    }

    fn towards_first(&mut self, now: Level) -> Next {
        let (gbps, cutoff) = (now.gbps, self.settings.cutoff_gbps);
        let reason = format!("{gbps:.0} GB/s is below the cutoff of {cutoff:.0}");
        if self.ratio >= 100.0 {
            self.step = self.settings.first_step;
            return Next::Stay("local", format!("{reason}: all pages stay on the first tier"));
        }
        self.here = Mean::default();
        let half = (self.step.abs() / 2.0).max(self.settings.min_step);
        let step = if self.step > 0.0 { self.step } else { half };
        Next::Step(step, "local", reason)
    }

    fn at_rest(&mut self, now: Level, saturated: bool) -> Next {
        let band = self.settings.dead_band;
        let reference = match band {
            Some(_) => self.here.level(),
            None => self.before.map(|(_, level)| level),
        };
        let reference = reference.unwrap_or(now);
        let points = self.ratio * now.gain_over(reference);
        let (old, new) = (reference.gbps, now.gbps);
        let noise = band.map_or(0.0, |band| band.change_errors * now.error_to(reference));
        if saturated && (points.abs() < RESEARCH_POINTS || (new - old).abs() <= noise) {
            self.suspicion = Suspicion::default();
            self.here.add(now);
            return Next::Stay("hold", format!("{new:.0} GB/s is as before ({old:.0})"));
        }
        let rise = saturated && points > 0.0;
        let change = format!("bandwidth went from {old:.0} to {new:.0} GB/s at rest");
        if !self.confirmed(rise) {
            return Next::Stay("hold", format!("{change}: a search starts if it stays there"));
        }
        self.saturated = saturated;
        self.here = Mean::default();
        self.fell_at_rest = !saturated;
        if !saturated {
            return self.towards_first(now);
        }
        // A higher demand needs more pages on the other tiers, so the ratio is lowered after a rise
        // of bandwidth. At a ratio of 0 or 100 the only possible step leads away from this end.
        let down = (rise && self.ratio > 0.0) || self.ratio >= 100.0;
        let step = if down { -RESEARCH_POINTS } else { RESEARCH_POINTS };
        Next::Step(step, "probe", change)
    }

    fn search(&mut self, seen: Level) -> Next {
        self.here.add(seen);
        let now = self.here.level().unwrap_or(seen);
        let Some((_, before)) = self.before else {
            return Next::Step(0.0, "settle", "nothing to compare with".into());
        };
        let error = now.error_to(before);
        let noise = self.settings.dead_band.map_or(0.0, |band| band.gain_errors * error);
        let difference = now.gbps - before.gbps;
        let gain = now.gain_over(before);
        let percent = (100.0 * gain).abs();
        let (old, new) = (before.gbps, now.gbps);
        let change = format!("bandwidth {} {percent:.1} % ({old:.0} to {new:.0} GB/s)", word(gain));
        if difference > noise {
            let gain = 100.0 * (gain + noise / before.gbps.max(f64::MIN_POSITIVE));
            let short = self.step < 0.0 && gain < FULL_GAIN * self.step.abs();
            let damping = if short { gain / self.step.abs() } else { 1.0 };
            Next::Step(self.step * damping, "step", change)
        } else if self.settings.dead_band.is_some() && difference >= -noise {
            let looks = self.settings.dead_band.map_or(1.0, |band| f64::from(band.looks));
            if noise > 0.0 && self.here.periods < looks {
                return Next::Stay("hold", format!("{change}, which may be noise: look again"));
            }
            Next::Step(self.step.abs() / 2.0, "back", format!("{change}, which may be noise"))
        } else {
            Next::Step(-self.step / 2.0, "back", change)
        }
    }

    /// Changes the ratio by `step` points. The step is rounded up to whole points, limited to the
    /// largest step, and cut so that the ratio stays between 0 and 100. A step below the minimum,
    /// or one that would not change the ratio, ends the search.
    fn apply_step(&mut self, step: f64, now: Level) -> (Option<&'static str>, String) {
        let limit = self.settings.max_step;
        let whole = libm::copysign(libm::ceil(step.abs()).min(limit), step);
        let ratio = (self.ratio + whole).clamp(0.0, 100.0);
        if step.abs() >= self.settings.min_step && ratio != self.ratio {
            let points = (ratio - self.ratio).abs();
            let way = if whole < 0.0 { "off" } else { "onto" };
            let level = self.here.level().unwrap_or(now);
            self.before = Some((self.ratio, level));
            self.here = Mean::default();
            (self.ratio, self.step) = (ratio, whole);
            return (None, format!("{points:.0} points {way} the first tier"));
        }
        let now = self.here.level().unwrap_or(now);
        self.step = 0.0;
        self.here = Mean::default();
        self.suspicion = Suspicion::default();
        match self.before {
            Some((ratio, before)) if before.gbps > now.gbps && ratio != self.ratio => {
                self.ratio = ratio;
                let gbps = before.gbps;
                (Some("revert"), format!("back to {ratio:.0} points, which gave {gbps:.0} GB/s"))
            }
            _ => {
                self.before = Some((self.ratio, now));
                (Some("settle"), format!("rest at {:.0} points", self.ratio))
            }
        }
    }
}

impl Policy for Calibrator {
    fn start(&self) -> Vec<f64> {
        shares_with_first(100.0, &self.tiers)
    }

    fn decide(&mut self, seen: &Observation) -> Verdict {
        let now = Level::of(seen);
        if self.tiers.len() < 2 {
            return Verdict::interleave(self.start(), "hold", "there is only one tier");
        }
        let (action, reason) = match self.next(now) {
            Next::Stay(action, reason) => {
                // The effect of the last step may be uncertain (`looking`). The calibrator then
                // measures it again in the next period, against the bandwidth before the step, so
                // `before` is not replaced.
                let looking = self.step != 0.0 && self.ratio < 100.0;
                if !looking {
                    self.before = Some((self.ratio, now));
                }
                (action, reason)
            }
            Next::Step(step, action, why) => {
                let (rest, what) = self.apply_step(step, now);
                (rest.unwrap_or(action), format!("{why}: {what}"))
            }
        };
        Verdict::interleave(shares_with_first(self.ratio, &self.tiers), action, reason)
    }
}

fn word(change: f64) -> &'static str {
    if change < 0.0 { "fell" } else { "rose" }
}

#[cfg(test)]
mod tests;
