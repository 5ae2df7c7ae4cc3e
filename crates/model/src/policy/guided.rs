//! Guided: the tiers' curves propose shares; observed bandwidths accept or reject them.
//!
//! Hill climbing tests each step on the machine and takes a period for the test. Curves predict the
//! optimum without a test, but they do not describe this workload and may be wrong. Guided combines
//! both:
//!
//! 1. *Look*: observe the traffic at the current placement. Bandwidth and latency of each tier give
//!    the bytes in flight, and the factor by which each tier deviates from its curve ([`fit`]).
//! 2. *Propose* the shares that maximize the bandwidth of threads with these bytes in flight, and
//!    migrate pages to these shares at once if the gain is worth the migration.
//! 3. *Look again.* The new observation corrects the factors of the tiers and separates compute
//!    time from memory latency; the next proposal is close to the optimum. The policy makes at
//!    most two corrections. After the proposal and after each correction, the policy returns to
//!    earlier shares of the search if their measured bandwidth was higher.
//! 4. *Settle.* No page moves until the traffic has changed by more than noise in two consecutive
//!    periods. Then the search begins again with *Look*, from the current placement. If the first
//!    tier alone is as good, pages return to it. If the demand rises again soon after a return, the
//!    wait before the next return doubles: a return gains little, and the migrations cost much.
//!
//! The curves shorten the search, and measured bandwidths decide: the policy leaves a proposal if
//! it measured a higher bandwidth at earlier shares.
//!
//! Example: CloverLeaf with 119 threads on gnr120-cz122. DRAM alone carries 410 GB/s at 475 ns; its
//! curve has 500 GB/s at that latency, so the factor of this access pattern is 0.82. The best
//! shares for these threads are 63:37, with 550 GB/s. Hill climbing in steps of 8 percentage points
//! needs five periods to reach these shares, and five more to settle.

mod fit;

use super::{Observation, Policy, TierObservation, Verdict, fixed::first_only};
use crate::{
    mix::Mix, platform::Platform, search::best_points, tier::QueueCounters, units::LINE_BYTES,
};
use fit::{Belief, Fit, ObservedTraffic};

/// The number of quiet samples (samples without migration) that suffice for an observation during
/// the search: 10 samples of 200 ms are 2 s.
const LOOK_SAMPLES: usize = 10;

/// Minimum gain of bandwidth, as a fraction, for a migration to the first proposal of a search. A
/// smaller gain is within the error of the model (2.5 %, `docs/model.md`).
const WORTH_MOVING: f64 = 0.03;

/// A correction is a later proposal of the same search. It is made if it gains more than the
/// fraction `WORTH_CORRECTING` of the bandwidth, and changes the share of some tier by at least
/// `CORRECTION_POINTS` percentage points.
const WORTH_CORRECTING: f64 = 0.001;
const CORRECTION_POINTS: f64 = 1.0;

/// Maximum number of corrections (later proposals of shares in the same search).
const CORRECTIONS: u32 = 2;

/// `THERE_POINTS`, in percentage points: a migration counts as complete if each tier's share of the
/// traffic is within this distance of its target share. `WAIT_PERIODS` is the maximum number of
/// periods for which the policy waits for a migration to complete.
const THERE_POINTS: f64 = 4.0;
const WAIT_PERIODS: u32 = 4;

/// The search restarts if the bandwidth has changed in two consecutive periods. It has changed if
/// it differs from the settled bandwidth by more than the fraction `CHANGE`, and by more than
/// `CHANGE_ERRORS` standard errors of the difference.
const CHANGE: f64 = 0.04;
const CHANGE_ERRORS: f64 = 5.0;

/// Queue counters may saturate at a maximum number of outstanding reads. They count as saturated if
/// the counted number differs from the maximum by less than this fraction, which is the measurement
/// error of a period. A higher count shows that the counters do not have this maximum.
const LIMIT_ERROR: f64 = 0.05;

/// Two choices of shares are equally good if their predicted bandwidths differ by at most this
/// fraction. Of all shares that are as good as the best, those nearest to the current placement are
/// proposed.
const EQUALLY_GOOD: f64 = 0.0005;

/// A machine is unsaturated if its traffic, with all pages on the first tier, would need less than
/// this fraction of the first tier's bandwidth.
const UNSATURATED: f64 = 0.6;

/// Pages of an unsaturated machine may return to the first tier if the predicted loss of bandwidth
/// is at most this fraction. A loss of this size is too small to be measured.
const LOCAL_IS_AS_GOOD: f64 = 0.005;

/// Initial and maximum patience of the policy. The patience is the number of consecutive periods
/// whose bandwidth must differ from that of [`State::Settled`] before pages of an unsaturated
/// machine return to the first tier. It doubles if the demand rises again within [`SOON_S`] after a
/// return, because such a return gains too little to pay for its migrations. If the demand rises
/// later, the patience is reset to the initial value.
const PATIENCE: (u32, u32) = (2, 64);

/// If the demand rises within this time, s, after pages returned to the first tier, the wait before
/// they return the next time doubles.
const SOON_S: f64 = 120.0;

/// A policy that proposes shares by the curves of the tiers, and goes back to earlier shares if a
/// higher bandwidth was measured with them. See the module header.
pub struct Guided {
    platform: Platform,
    domain: usize,
    near: Vec<usize>,
    state: State,
    fit: Option<Fit>,
    seen: Vec<ObservedTraffic>,
    /// The current patience in periods ([`PATIENCE`]): for this number of periods the traffic must
    /// differ from the settled traffic before pages return to the first tier.
    patience: u32,
    /// The time of the last return of the pages to the first tier, s; `None` before the first
    /// return, and after the demand has risen again.
    went_back_s: Option<f64>,
}

/// The state of the policy's search for the best shares.
#[derive(Clone, Debug, PartialEq)]
enum State {
    /// Observes the traffic at the current placement.
    Look,
    /// Waits until the pages have migrated. `corrections` is the number of corrections that are
    /// left; `None` after a return to shares that were measured before, or to the first tier: the
    /// policy then settles without a comparison. `waited` is the number of periods waited so far.
    Moving { corrections: Option<u32>, waited: u32 },
    /// Keeps the current shares. `gbps` is their bandwidth and `error_gbps` its standard error,
    /// GB/s. `changed` is the number of consecutive periods in which the bandwidth has differed
    /// from `gbps`.
    Settled { gbps: f64, error_gbps: f64, changed: u32 },
}

impl Guided {
    /// Creates the policy for the traffic of the domain `domain` to the tiers `near`, the fastest
    /// first. `domain` and `near` are indices into the domains and the tiers of `platform`.
    pub fn new(platform: Platform, domain: usize, near: Vec<usize>) -> Self {
        Self {
            platform,
            domain,
            near,
            state: State::Look,
            fit: None,
            seen: vec![],
            patience: PATIENCE.0,
            went_back_s: None,
        }
    }

    /// Adds `seen` to the observations of this search, fits the model to all of them, and returns
    /// the shares that the fitted model proposes.
    fn propose(&mut self, seen: &Observation) -> Proposal {
        let traffic = self.traffic(seen);
        let belief = Belief::new(&self.platform, self.domain, &self.near, mix(seen));
        self.seen.push(traffic.clone());
        let from = self.fit.clone().unwrap_or_else(|| belief.prior());
        let fit = belief.fit(&self.seen, from);
        let here = belief.reach(&fit, &traffic.shares).bandwidth_gbps;
        let proposal = propose(&belief, &fit, &traffic.shares, here, seen.tiers.len());
        self.fit = Some(fit);
        proposal
    }

    fn traffic(&self, seen: &Observation) -> ObservedTraffic {
        traffic(&self.platform, &self.near, seen)
    }

    fn settle(&mut self, seen: &Observation) {
        let (gbps, error_gbps) = (seen.mean_gbps, seen.error_gbps);
        self.state = State::Settled { gbps, error_gbps, changed: 0 };
        self.seen.clear();
    }

    /// Proposes shares at the start of a search. `changed` is the number of consecutive periods in
    /// which the traffic has differed from the settled traffic. If no traffic has settled yet, the
    /// caller passes the maximum of [`PATIENCE`], so that pages may return to the first tier at
    /// once.
    fn first_look(&mut self, seen: &Observation, changed: u32) -> Verdict {
        self.seen.clear();
        let proposal = self.propose(seen);
        if proposal.first_tier_used < UNSATURATED && proposal.local_gain > -LOCAL_IS_AS_GOOD {
            return self.unsaturated(seen, &proposal, changed);
        }
        let gain = proposal.gain;
        if gain < WORTH_MOVING {
            self.settle(seen);
            let reason = format!(
                "no shares promise more than {:.1} % over the {:.0} GB/s of now",
                100.0 * gain.max(0.0),
                seen.mean_gbps
            );
            return Verdict::interleave(seen.target.clone(), "hold", reason);
        }
        if let Some(went_back_s) = self.went_back_s.take() {
            let soon = seen.time_s - went_back_s < SOON_S;
            self.patience = if soon { PATIENCE.1.min(2 * self.patience) } else { PATIENCE.0 };
        }
        self.state = State::Moving { corrections: Some(CORRECTIONS), waited: 0 };
        let reason = format!(
            "{:.0} GB/s at {}: the curves, corrected by that, promise {:.0} GB/s at {}",
            seen.mean_gbps,
            text(&seen.target),
            seen.mean_gbps * (1.0 + gain),
            text(&proposal.shares)
        );
        Verdict::interleave(proposal.shares, "propose", reason)
    }

    /// Decides for an unsaturated machine, on which the first tier alone is as good as
    /// interleaving. Pages return to the first tier once the traffic has differed from the settled
    /// traffic for `patience` consecutive periods; `changed` is their number so far.
    fn unsaturated(&mut self, seen: &Observation, proposal: &Proposal, changed: u32) -> Verdict {
        let local = first_only(seen.tiers.len());
        let reason = format!(
            "{:.0} GB/s do not saturate the first tier ({:.0} % of it): it alone is as good",
            seen.mean_gbps,
            100.0 * proposal.first_tier_used
        );
        if seen.target[0] > 1.0 - 1e-9 {
            self.settle(seen);
            return Verdict::interleave(local, "hold", reason);
        }
        if changed < self.patience {
            let reason = format!("{reason}; but demand has come back soon: wait");
            return Verdict::interleave(seen.target.clone(), "hold", reason);
        }
        self.went_back_s = Some(seen.time_s);
        self.state = State::Moving { corrections: None, waited: 0 };
        Verdict::interleave(local, "local", reason)
    }

    /// Evaluates `seen`, the first observation after the migration to proposed shares or after the
    /// maximum wait for it. Decides whether to return to earlier shares, to make one of the
    /// `corrections` that are left, or to settle.
    fn look_again(&mut self, seen: &Observation, corrections: u32) -> Verdict {
        let before = self.best_measured();
        let proposal = self.propose(seen);
        let here = self.traffic(seen);
        // Returns to the best shares that were measured earlier, but only if their bandwidth was
        // higher by more than two standard errors.
        if let Some(best) = before
            && best.bandwidth_gbps > here.bandwidth_gbps + 2.0 * seen.error_gbps
        {
            let shares = whole_points(&best.shares);
            let reason = format!(
                "{:.0} GB/s, but {:.0} were measured at {}: back there",
                seen.mean_gbps,
                best.bandwidth_gbps,
                text(&shares)
            );
            self.state = State::Moving { corrections: None, waited: 0 };
            return Verdict::interleave(shares, "back", reason);
        }
        let points = 100.0 * distance(&proposal.shares, &seen.target);
        if corrections > 0 && proposal.gain > WORTH_CORRECTING && points >= CORRECTION_POINTS {
            self.state = State::Moving { corrections: Some(corrections - 1), waited: 0 };
            let reason = format!(
                "{:.0} GB/s measured at {}; by what was seen there {} is better by {:.1} %",
                seen.mean_gbps,
                text(&seen.target),
                text(&proposal.shares),
                100.0 * proposal.gain
            );
            return Verdict::interleave(proposal.shares, "correct", reason);
        }
        self.settled(seen)
    }

    /// Ends the search: keeps the current shares.
    fn settled(&mut self, seen: &Observation) -> Verdict {
        self.settle(seen);
        let reason = format!("{:.0} GB/s measured at {}", seen.mean_gbps, text(&seen.target));
        Verdict::interleave(seen.target.clone(), "settle", reason)
    }

    fn best_measured(&self) -> Option<ObservedTraffic> {
        let most = |a: &&ObservedTraffic, b: &&ObservedTraffic| {
            a.bandwidth_gbps.total_cmp(&b.bandwidth_gbps)
        };
        self.seen.iter().max_by(most).cloned()
    }
}

impl Policy for Guided {
    fn start(&self) -> Vec<f64> {
        first_only(self.near.len())
    }

    fn enough(&self, quiet: usize) -> bool {
        !matches!(self.state, State::Settled { .. }) && quiet >= LOOK_SAMPLES
    }

    fn decide(&mut self, seen: &Observation) -> Verdict {
        if seen.tiers.len() < 2 || seen.mean_gbps <= 0.0 {
            let reason = "there is nothing to interleave";
            return Verdict::interleave(seen.target.clone(), "hold", reason);
        }
        match self.state.clone() {
            State::Look => self.first_look(seen, PATIENCE.1),
            State::Moving { corrections, waited } => {
                let far = 100.0 * distance(&self.traffic(seen).shares, &seen.target);
                if far > THERE_POINTS && waited < WAIT_PERIODS {
                    self.state = State::Moving { corrections, waited: waited + 1 };
                    let reason = format!("the traffic is {far:.0} points from its target");
                    return Verdict::interleave(seen.target.clone(), "wait", reason);
                }
                match corrections {
                    Some(corrections) => self.look_again(seen, corrections),
                    None => self.settled(seen),
                }
            }
            State::Settled { gbps, error_gbps, changed } => {
                let change = seen.mean_gbps - gbps;
                let error = (error_gbps * error_gbps + seen.error_gbps * seen.error_gbps).sqrt();
                if change.abs() <= (CHANGE * gbps).max(CHANGE_ERRORS * error) {
                    self.state = State::Settled { gbps, error_gbps, changed: 0 };
                    let reason = format!("{:.0} GB/s, as when it settled", seen.mean_gbps);
                    return Verdict::interleave(seen.target.clone(), "hold", reason);
                }
                let changed = changed + 1;
                self.state = State::Settled { gbps, error_gbps, changed };
                if changed < 2 {
                    let reason = format!(
                        "{:.0} GB/s in place of {gbps:.0}: if that lasts, the demand has changed",
                        seen.mean_gbps
                    );
                    return Verdict::interleave(seen.target.clone(), "hold", reason);
                }
                self.first_look(seen, changed)
            }
        }
    }
}

/// Shares that the fitted model proposes, and the gain of bandwidth that it predicts.
struct Proposal {
    shares: Vec<f64>,
    /// Gain of bandwidth over the current placement, as a fraction.
    gain: f64,
    /// Gain of bandwidth over the current placement if all pages were on the first tier, as a
    /// fraction; negative for a loss.
    local_gain: f64,
    /// Fraction of the first tier's bandwidth that the traffic would use if all pages were on the
    /// first tier.
    first_tier_used: f64,
}

/// Returns the shares that maximize the bandwidth of threads with the parameters `fit` on `tiers`
/// tiers, with their gain. `here` has the shares of the current placement, and `here_gbps` its
/// predicted bandwidth.
fn propose(belief: &Belief<'_>, fit: &Fit, here: &[f64], here_gbps: f64, tiers: usize) -> Proposal {
    let shares = |points: &[u16]| -> Vec<f64> {
        points.iter().map(|points| f64::from(*points) / 100.0).collect()
    };
    let reach = |points: &[u16]| Some(belief.reach(fit, &shares(points)).bandwidth_gbps);
    let best = best_points(tiers, reach);
    let (points, most) = best.unwrap_or_else(|| (vec![], here_gbps));
    let mut chosen = if points.is_empty() { here.to_vec() } else { shares(&points) };
    // Of equally good shares, those nearest to `here`, the current placement, are taken: the loop
    // steps from the best shares towards `here` while the bandwidth stays within [`EQUALLY_GOOD`]
    // of `most`.
    let start = chosen.clone();
    for step in 1..=100 {
        let part = f64::from(step) / 100.0;
        let between: Vec<f64> =
            start.iter().zip(here).map(|(to, from)| to + part * (from - to)).collect();
        let between = whole_points(&between);
        if belief.reach(fit, &between).bandwidth_gbps < (1.0 - EQUALLY_GOOD) * most {
            break;
        }
        chosen = between;
    }
    let local = belief.reach(fit, &first_only(tiers));
    Proposal {
        gain: belief.reach(fit, &chosen).bandwidth_gbps / here_gbps - 1.0,
        shares: chosen,
        local_gain: local.bandwidth_gbps / here_gbps - 1.0,
        first_tier_used: belief.used(fit, local.bandwidth_gbps),
    }
}

/// The gain that the curves forecast from observed traffic, before any page migrates.
#[derive(Clone, Debug, PartialEq)]
pub struct GainForecast {
    /// The shares to which the forecast applies.
    pub shares: Vec<f64>,
    /// Gain of bandwidth over the current placement, as a fraction.
    pub gain: f64,
    /// True if the first tier is not saturated and is, alone, as good as interleaving. Always false
    /// if the caller chose the shares.
    pub is_unsaturated: bool,
}

impl GainForecast {
    /// Computes the forecast from the curves of `platform`, corrected by `seen`, the traffic of
    /// domain `domain` to its near tiers `near`. If the caller chooses shares (`wanted`), the
    /// forecast is for them. Otherwise it is for the first tier alone if the machine is
    /// unsaturated; for the current shares of the traffic if the best shares gain too little to be
    /// worth the migration; else for the best shares.
    ///
    /// `None` with a single tier, or without counted traffic.
    pub fn new(
        platform: &Platform,
        domain: usize,
        near: &[usize],
        seen: &Observation,
        wanted: Option<&[f64]>,
    ) -> Option<Self> {
        if seen.tiers.len() < 2 || seen.mean_gbps <= 0.0 {
            return None;
        }
        let traffic = traffic(platform, near, seen);
        let belief = Belief::new(platform, domain, near, mix(seen));
        let fit = belief.fit(std::slice::from_ref(&traffic), belief.prior());
        let here = belief.reach(&fit, &traffic.shares).bandwidth_gbps;
        if let Some(wanted) = wanted {
            let gain = belief.reach(&fit, wanted).bandwidth_gbps / here - 1.0;
            return Some(Self { shares: wanted.to_vec(), gain, is_unsaturated: false });
        }
        let proposal = propose(&belief, &fit, &traffic.shares, here, seen.tiers.len());
        let unsaturated =
            proposal.first_tier_used < UNSATURATED && proposal.local_gain > -LOCAL_IS_AS_GOOD;
        let (shares, gain) = match (unsaturated, proposal.gain < WORTH_MOVING) {
            (true, _) => (first_only(seen.tiers.len()), proposal.local_gain.max(0.0)),
            (false, true) => (whole_points(&traffic.shares), 0.0),
            (false, false) => (proposal.shares, proposal.gain),
        };
        Some(Self { shares, gain, is_unsaturated: unsaturated })
    }
}

/// The traffic of `seen` to the tiers `near` of the platform. The latency of a tier is `None` if
/// its queue counters were at their limit: the true latency is then higher than the counted
/// latency.
fn traffic(platform: &Platform, near: &[usize], seen: &Observation) -> ObservedTraffic {
    let all: f64 = seen.tiers.iter().map(|tier| tier.bandwidth_gbps).sum();
    let latency_ns = |(tier, at): (&TierObservation, &usize)| {
        let limit = platform.tiers[*at].queue_counters.as_ref();
        tier.latency_ns.filter(|latency_ns| !limit.is_some_and(|it| is_at(it, tier, *latency_ns)))
    };
    ObservedTraffic {
        shares: seen.tiers.iter().map(|tier| tier.bandwidth_gbps / all).collect(),
        bandwidth_gbps: all,
        latency_ns: seen.tiers.iter().zip(near).map(latency_ns).collect(),
    }
}

/// True if the queue counters of `tier` were at their limit, so that `latency_ns`, which was
/// computed from them, is too low.
fn is_at(limit: &QueueCounters, tier: &TierObservation, latency_ns: f64) -> bool {
    let reads_per_ns = tier.read_share.unwrap_or(1.0) * tier.bandwidth_gbps / LINE_BYTES;
    (reads_per_ns * latency_ns / limit.reads_max - 1.0).abs() < LIMIT_ERROR
}

/// The mix of all observed traffic. Its stores are assumed to be ordinary stores.
fn mix(seen: &Observation) -> Mix {
    let reads =
        |tier: &TierObservation| tier.read_share.map_or(0.0, |share| share * tier.bandwidth_gbps);
    let all: f64 = seen.tiers.iter().map(|tier| tier.bandwidth_gbps).sum();
    let share = seen.tiers.iter().map(reads).sum::<f64>() / all;
    Mix::new(share.clamp(0.0, 1.0), false).unwrap_or(Mix::READ)
}

/// The largest absolute difference between the shares of a tier in `a` and in `b`, 0 to 1.
fn distance(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max)
}

/// Rounds `shares` to whole percents that sum to 100.
fn whole_points(shares: &[f64]) -> Vec<f64> {
    crate::weights::Weights::percent(shares).shares()
}

fn text(shares: &[f64]) -> String {
    crate::weights::Weights::percent(shares).to_string()
}
