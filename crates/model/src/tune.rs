//! Finds the best static weights in few runs. [`Search::next`] takes the results of the runs so
//! far, and returns the weights to run next or, at the end, the best weights.
//!
//! Weights are proposed from rated bandwidths or curves. The proposal may be wrong, so runs decide.
//! The first run has all pages on the first tier (the reference); the next run has the proposed
//! weights. Later runs have weights that may be better still. All other weights are excluded by
//! lower bounds of the run time. The bounds hold for every curve of the run time over the share on
//! the first tier that satisfies the assumptions of [`curve`]. Example: the optimum is 3:1, and the
//! machine is rated 22:9:
//!
//! ```text
//! run  weights  time    conclusion
//!   1  1:0      1.333   time >= 1.333 x (share on the first tier), such as 0.667 at 1:1
//!   2  22:9     1.161   time >= 4.0 x (share on the second tier); both bounds meet at 3:1: 1.0
//!   3  5:9      2.571   on the bound of run 2: fewer pages on the first tier are slower
//!   4  3:1      1.000   no weights can be better by more than 2 %
//!   5  3:1      1.004   repetition, to measure the noise
//!   6  1:0      1.331   repetition: 3:1 is 1.33 times as fast, +- 0.02
//! ```
//!
//! Then runs are repeated while it is uncertain which weights are better. The repetitions end when
//! no run is left, or when the remaining runs could not decide. Intervals are computed with
//! Student's t at the probability [`INTERVAL`]. The noise of a run is pooled over all weights; the
//! expected noise ([`Search::noise`]) is pooled with it, and weighs as much as two degrees of
//! freedom of measured noise.
//!
//! With more than two tiers, the tiers after the first divide the remaining pages in the ratio of
//! the proposal. The search therefore has one variable, the share of the first tier.

mod curve;
mod noise;

use crate::{
    predict::{Estimate, INTERVAL},
    statistics,
    weights::{WEIGHT_MAX, Weights},
};
use curve::TimeCurve;
use noise::Noise;

/// The number of equal steps from 0 to 1 in the share of pages on the first tier. The lower bound
/// of the run time is evaluated at each step.
const STEPS: u32 = 1000;

/// Minimum tolerance of [`Search::along`]. Weights are accepted if the share of pages on each tier
/// (0 to 1) differs from the wanted share by at most the tolerance.
const NEAR_LEAST: f64 = 1e-3;

/// Maximum number of pages in a round of the weights that [`Search::along`] proposes.
const ROUND_MAX: u16 = 100;

/// The smallest share of pages on the first tier that the next run may have, as a fraction of the
/// smallest such share in the runs so far. A run at a much smaller share may take ten times as
/// long, and tightens the bounds only a little.
const REACH: f64 = 0.5;

/// Once a run had at most this share of pages on the first tier, [`REACH`] does not apply: the next
/// run may have any smaller share, down to 0.
const LEAST_SHARE: f64 = 0.2;

/// Two weights are equally good if the mean natural logarithms of their results differ by less than
/// this, which is 0.0001 % of the result.
const SAME: f64 = 1e-6;

/// The weights with which a search may run a program, and the conditions under which it stops.
#[derive(Clone, Debug, PartialEq)]
pub struct Search {
    /// The proposed weights, which are run after the first tier alone; one weight for each tier.
    pub proposal: Weights,
    /// If given, the search runs only these weights and the first tier alone.
    pub only: Option<Vec<Weights>>,
    /// Maximum number of runs of the search.
    pub runs: usize,
    /// Minimum gain that matters, as a fraction, such as 0.02.
    pub min_gain: f64,
    /// The expected standard deviation of the values of runs with the same weights, as a fraction
    /// of the values.
    pub noise: f64,
}

/// A completed run of a program, with its pages placed by weights.
#[derive(Clone, Debug, PartialEq)]
pub struct Run {
    /// The weights by which the pages were placed in the run.
    pub weights: Weights,
    /// The measured value, such as the run time. It is above 0; a lower value is better.
    pub value: f64,
}

/// The next step of a search for the best weights.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Make a run with these weights.
    Run(Weights, Why),
    /// The search has ended with this result.
    Done(Finding),
}

/// The reason why a run is made.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Why {
    /// All pages on the first tier: the reference.
    First,
    /// The weights are [`Search::proposal`].
    Proposed,
    /// The weights are in `Search::only`, the user's list.
    Listed,
    /// The weights may be better than the best weights so far. The field is the possible gain, as a
    /// fraction of the best weights' value.
    Promising(f64),
    /// A repetition of earlier weights: the second run of the best weights or of the first tier
    /// alone, or a further run because the results are too noisy to decide.
    Again,
}

/// The result of a search for the best weights.
#[derive(Clone, Debug, PartialEq)]
pub struct Finding {
    /// The best weights that were run.
    pub best: Weights,
    /// The value of the best weights, such as the run time: the geometric mean of their runs, and
    /// its interval.
    pub value: Estimate,
    /// The speed-up by the best weights: the value of the first tier alone, divided by the value of
    /// the best weights.
    pub speedup: Estimate,
    /// True if the best weights gain more than [`Search::min_gain`] over the first tier alone, and
    /// the interval of [`Finding::speedup`] is above 1.
    pub is_better: bool,
    /// The standard deviation of the values of runs with the same weights, as a fraction of the
    /// values.
    pub noise: f64,
    /// The reason why the search stopped.
    pub stop: Stop,
}

/// The reason why a search stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// No other weights can be better by [`Search::min_gain`] or more.
    Settled,
    /// The best weights and other weights differ by less than the noise, and the remaining runs
    /// would be too few to decide between them.
    Noise,
    /// The maximum number of runs was made.
    Runs,
}

/// All runs with the same weights.
#[derive(Clone, Debug)]
struct Repetitions {
    weights: Weights,
    /// The share of pages on the first tier.
    share: f64,
    /// The logarithms of the runs' values.
    logs: Vec<f64>,
}

impl Repetitions {
    /// The mean logarithm of the runs' values.
    fn mean(&self) -> f64 {
        statistics::mean(&self.logs)
    }
}

impl Search {
    /// The weights that the search certainly runs, besides the first tier alone: the proposal, or
    /// the listed weights.
    pub fn tried(&self) -> &[Weights] {
        self.only.as_deref().unwrap_or(std::slice::from_ref(&self.proposal))
    }

    /// Returns the next step after the runs `runs`, which may be in any order.
    pub fn next(&self, runs: &[Run]) -> Step {
        let first = Weights::first_tier(self.proposal.as_slice().len());
        let points = points(runs);
        let has = |weights: &Weights| points.iter().any(|point| is_same(&point.weights, weights));
        if !has(&first) {
            return Step::Run(first, Why::First);
        }
        let judged = Judged::new(self, points.clone(), runs.len());
        if runs.len() >= self.runs {
            return Step::Done(judged.finding(Stop::Runs));
        }
        match &self.only {
            Some(only) => {
                if let Some(weights) = only.iter().find(|weights| !has(weights)) {
                    return Step::Run(weights.clone(), Why::Listed);
                }
            }
            None if !has(&self.proposal) => {
                return Step::Run(self.proposal.clone(), Why::Proposed);
            }
            None => {
                // The last run is not used for promising weights, but kept for a repetition of the
                // best weights.
                if runs.len() + 1 < self.runs
                    && let Some((weights, part)) = judged.promising()
                {
                    return Step::Run(weights, Why::Promising(part));
                }
            }
        }
        match judged.again() {
            Ok(at) => Step::Run(points[at].weights.clone(), Why::Again),
            Err(stop) => Step::Done(judged.finding(stop)),
        }
    }

    /// Returns the result of `runs`, even if the search has not ended; `None` if no run has all
    /// pages on the first tier yet.
    pub fn finding_so_far(&self, runs: &[Run]) -> Option<Finding> {
        let points = points(runs);
        let first = Weights::first_tier(self.proposal.as_slice().len());
        points.iter().find(|point| is_same(&point.weights, &first))?;
        Some(Judged::new(self, points, runs.len()).finding(Stop::Runs))
    }

    /// Returns weights with about the fraction `share` of the pages on the first tier. The other
    /// tiers divide the rest in the ratio of the proposal. Of all weights within a tolerance, those
    /// with the fewest pages in a round are returned. If even these have more than [`ROUND_MAX`]
    /// pages in a round, the nearest whole percentages are returned.
    fn along(&self, share: f64) -> Weights {
        let proposed = &self.proposal.shares()[1..];
        let rest: f64 = proposed.iter().sum();
        let even = 1.0 / proposed.len().max(1) as f64;
        let part = |of: &f64| if rest > 0.0 { of / rest } else { even };
        let mut shares = vec![share];
        shares.extend(proposed.iter().map(|of| (1.0 - share) * part(of)));
        // By the assumptions of [`curve`], a change of the share by 1 % of its distance from 0 or
        // from 1 changes the run time by at most about 1 %. The tolerance is therefore a fraction
        // of the shorter of the two distances. It has a minimum, because it would be 0 at a share
        // of 0 or 1.
        let near = (self.min_gain / 2.0 * share.min(1.0 - share)).max(NEAR_LEAST);
        let simple = |round: u16| {
            let parts = shares.iter().map(|share| libm::round(share * f64::from(round)) as u16);
            let weights = Weights::new(parts.collect()).ok()?;
            let far = |(a, b): (&f64, f64)| (a - b).abs() > near + 1e-9;
            let is_far = shares.iter().zip(weights.shares()).any(far);
            (!is_far).then_some(weights)
        };
        let percent = || {
            let weights = Weights::percent(&shares);
            let parts = weights.as_slice().iter().map(|part| (*part).min(1)).collect();
            if weights.one_tier() { Weights::new(parts).unwrap_or(weights) } else { weights }
        };
        (1..=ROUND_MAX).find_map(simple).unwrap_or_else(percent)
    }
}

/// Groups `runs` by their weights. The groups are in the order of their first runs.
fn points(runs: &[Run]) -> Vec<Repetitions> {
    let mut points: Vec<Repetitions> = vec![];
    for Run { weights, value } in runs {
        let log = libm::log(*value);
        match points.iter_mut().find(|point| is_same(&point.weights, weights)) {
            Some(point) => point.logs.push(log),
            None => {
                let share = weights.shares()[0];
                points.push(Repetitions { weights: weights.clone(), share, logs: vec![log] });
            }
        }
    }
    points
}

/// True if `a` and `b` give the same placement of pages.
fn is_same(a: &Weights, b: &Weights) -> bool {
    let (a, b) = (a.shares(), b.shares());
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| (a - b).abs() < 1e-9)
}

/// The evaluation of the runs so far, at least one of which has all pages on the first tier.
struct Judged<'a> {
    search: &'a Search,
    points: Vec<Repetitions>,
    noise: Noise,
    /// The curve of the run time, fitted to the runs; `None` if the search is among listed weights.
    curve: Option<TimeCurve>,
    /// The index, in `points`, of the weights with all pages on the first tier ([`Why::First`]).
    first: usize,
    /// The index, in `points`, of the best weights.
    best: usize,
    /// The number of further runs that the search may make.
    left: usize,
}

impl<'a> Judged<'a> {
    fn new(search: &'a Search, points: Vec<Repetitions>, made: usize) -> Self {
        let noise = Noise::of(points.iter().map(|point| &point.logs[..]), search.noise);
        let first = points.iter().position(|point| point.share > 1.0 - 1e-9).unwrap_or(0);
        let curve = search.only.is_none().then(|| {
            let known =
                |point: &Repetitions| (point.share, libm::exp(point.mean()), point.logs.len());
            TimeCurve::fit(points.iter().map(known).collect(), noise.sigma)
        });
        let value = |at: usize| match &curve {
            Some(curve) => curve.at(points[at].share),
            None => libm::exp(points[at].mean()),
        };
        let lowest = |a: &usize, b: &usize| value(*a).total_cmp(&value(*b));
        let best = (0..points.len()).min_by(lowest).unwrap_or(first);
        // If no weights are better than the first tier alone, the first tier alone counts as the
        // best.
        let gains = points[first].mean() > points[best].mean() + SAME;
        let best = if gains { best } else { first };
        Self { search, points, noise, curve, first, best, left: search.runs.saturating_sub(made) }
    }

    /// Returns weights that were not run yet and may be better than the best weights so far by more
    /// than the minimum gain. Also returns the possible gain, as a fraction of the best weights'
    /// value.
    fn promising(&self) -> Option<(Weights, f64)> {
        let curve = self.curve.as_ref()?;
        let best = curve.least();
        let least_share = self.points.iter().map(|point| point.share).fold(1.0, f64::min);
        let reach = if least_share > LEAST_SHARE { REACH * least_share } else { 0.0 };
        let enough = best * (1.0 - self.search.min_gain);
        let candidate = |step: u32| {
            let share = f64::from(step) / f64::from(STEPS);
            if share < reach || curve.bound(share) >= enough {
                return None;
            }
            let weights = self.search.along(share);
            let share = weights.shares()[0];
            let bound = curve.bound(share);
            let is_new = !self.points.iter().any(|point| is_same(&point.weights, &weights));
            (bound < enough && is_new).then_some((bound, weights))
        };
        let candidates = (0..=STEPS).rev().filter_map(candidate);
        let (bound, weights) = candidates.min_by(|a, b| a.0.total_cmp(&b.0))?;
        Some((weights, 1.0 - bound / best))
    }

    /// Returns the index, in `points`, of the weights to run again, or the reason to stop.
    fn again(&self) -> Result<usize, Stop> {
        let runs = |at: usize| self.points[at].logs.len();
        let fewer = |a: usize, b: usize| if runs(a) <= runs(b) { a } else { b };
        if let Some(once) = [self.best, self.first].into_iter().find(|at| runs(*at) == 1) {
            return Ok(once);
        }
        let min_gain = libm::log1p(self.search.min_gain);
        let gain = self.behind(self.first);
        // Half of the width that the interval of the gain would have if all remaining runs were
        // made.
        let most = self
            .noise
            .half(runs(self.best) + self.left.div_ceil(2), runs(self.first) + self.left / 2);
        let futile = gain < min_gain && most > min_gain;
        if self.best != self.first {
            let half = self.half(self.first);
            if gain - half <= 0.0 && gain + half >= min_gain {
                return if futile { Err(Stop::Noise) } else { Ok(fewer(self.best, self.first)) };
            }
        }
        let doubt = |at: &usize| self.half(*at) - self.behind(*at) - min_gain;
        let rivals = (0..self.points.len()).filter(|at| *at != self.best && doubt(at) > 0.0);
        match rivals.max_by(|a, b| doubt(a).total_cmp(&doubt(b))) {
            Some(_) if futile => Err(Stop::Noise),
            Some(rival) => Ok(fewer(rival, self.best)),
            None => Err(Stop::Settled),
        }
    }

    /// The mean logarithm of the values of `points[at]`, minus that of the best weights: positive
    /// if `points[at]` is worse.
    fn behind(&self, at: usize) -> f64 {
        self.points[at].mean() - self.points[self.best].mean()
    }

    /// Half of the width of the confidence interval of [`Judged::behind`], as a logarithm of the
    /// value.
    fn half(&self, at: usize) -> f64 {
        self.noise.half(self.points[at].logs.len(), self.points[self.best].logs.len())
    }

    fn finding(&self, stop: Stop) -> Finding {
        let best = &self.points[self.best];
        let (gain, half) = (self.behind(self.first), self.half(self.first));
        let half = if self.best == self.first { 0.0 } else { half };
        let around = |log: f64, half: f64| Estimate {
            mean: libm::exp(log),
            low: libm::exp(log - half),
            high: libm::exp(log + half),
        };
        let is_better = gain > libm::log1p(self.search.min_gain) && gain > half;
        Finding {
            best: best.weights.clone(),
            value: around(best.mean(), self.noise.half_of_one(best.logs.len())),
            speedup: around(gain, half),
            is_better,
            noise: self.noise.sigma,
            stop,
        }
    }
}

// The table of quantiles in the module `noise` is for an interval with the probability 0.9. If
// [`INTERVAL`] changes, the table must change with it.
const _: () = assert!(INTERVAL == 0.9);

// The kernel must accept the weights that [`Search::along`] proposes, which have at most
// `ROUND_MAX` pages in a round.
const _: () = assert!(ROUND_MAX <= WEIGHT_MAX);
