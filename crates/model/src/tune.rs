//! The best static weights in few runs: which to run next, given what the runs so far gave, or that
//! it is done, and what the best is.
//!
//! The proposal may be wrong, so runs decide: first with all pages on the first tier, which is what
//! the rest is compared with, then as proposed (by rated bandwidths, or by curves), then where
//! something better may still be. Bounds that hold for every curve of the time over the share on
//! the first tier exclude the other weights ([`curve`]). For 3:1 on a machine that is rated 22:9:
//!
//! ```text
//! run  weights  time    what may still be there
//!   1  1:0      1.333   the first tier's pages take their part of that: half of them 0.667
//!   2  22:9     1.161   and those of the second theirs: the two meet at a share of 0.75, at 1.0
//!   3  5:9      2.571   what lies beyond 22:9 is worse: the curve is above the line through both
//!   4  3:1      1.000   nothing that is better by more than 2 %
//!   5  3:1      1.004   again, to know how much of it is noise
//!   6  1:0      1.331   the same: 3:1 is 1.33 times as fast, +- 0.02
//! ```
//!
//! Then runs are repeated where it is open which weights are better, as long as there are runs
//! left and they can tell. Intervals are those of Student's t at [`INTERVAL`], the noise of a run
//! being pooled over all weights, with what is expected of it beforehand worth two runs.
//!
//! With more than two tiers, those behind the first share the rest as the proposal has it: one
//! number is searched for, not several.

mod curve;
mod noise;

use crate::{
    predict::{Estimate, INTERVAL},
    statistics,
    weights::{WEIGHT_MAX, Weights},
};
use curve::TimeCurve;
use noise::Noise;

/// Shares that are looked at, between 0 and 1.
const STEPS: u32 = 1000;

/// The least distance of weights to a share that counts as reached.
const NEAR_LEAST: f64 = 1e-3;

/// Whole numbers in a round beyond which weights are no longer made simpler.
const ROUND_MAX: u16 = 100;

/// A step beyond the least share so far goes to this fraction of it: a run that takes ten times as
/// long is not worth its information.
const REACH: f64 = 0.5;

/// A share below which the next step down is to nothing.
const LEAST_SHARE: f64 = 0.2;

/// Values that differ less are the same.
const SAME: f64 = 1e-6;

/// The space of a search, and its stop conditions.
#[derive(Clone, Debug, PartialEq)]
pub struct Search {
    /// The proposal, one weight for each tier.
    pub proposal: Weights,
    /// Run only these, and all on the first tier.
    pub only: Option<Vec<Weights>>,
    /// The most runs.
    pub runs: usize,
    /// The part by which weights have to be better to count: 0.02.
    pub worth: f64,
    /// The standard deviation of a run as a part of it, as it is expected to be.
    pub noise: f64,
}

/// A run that was made.
#[derive(Clone, Debug, PartialEq)]
pub struct Run {
    /// The weights.
    pub weights: Weights,
    /// Its result: above 0, and lower is better.
    pub value: f64,
}

/// The next step of a search.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Make a run.
    Run(Weights, Why),
    /// The end, with the result.
    Done(Finding),
}

/// The reason of a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Why {
    /// All pages on the first tier: the reference.
    First,
    /// The proposal.
    Proposed,
    /// Listed by the user.
    Listed,
    /// It may be better than the best so far by this fraction.
    Promising(f64),
    /// A repetition, since one run is too noisy.
    Again,
}

/// The result of a search.
#[derive(Clone, Debug, PartialEq)]
pub struct Finding {
    /// The best weights.
    pub best: Weights,
    /// Their value.
    pub value: Estimate,
    /// The value of all pages on the first tier, divided by that.
    pub speedup: Estimate,
    /// Whether they are better than all on the first tier by the least worthwhile gain, beyond
    /// noise.
    pub is_better: bool,
    /// The standard deviation of a run, as a part of it.
    pub noise: f64,
    /// The reason of the stop.
    pub stop: Stop,
}

/// The reason of a stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// No other weights can be better by the least worthwhile gain.
    Settled,
    /// The difference is noise, and the remaining runs would not change that.
    Noise,
    /// All runs are made.
    Runs,
}

/// The runs with the same weights.
#[derive(Clone, Debug)]
struct Repetitions {
    weights: Weights,
    /// Their share on the first tier.
    share: f64,
    /// The logarithms of what they gave.
    logs: Vec<f64>,
}

impl Repetitions {
    /// Their mean.
    fn mean(&self) -> f64 {
        statistics::mean(&self.logs)
    }
}

impl Search {
    /// The next step after these runs, given in any order.
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
                // The last run is for the best so far.
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

    /// The weights that are known for the best of these runs, however few they are; `None` before
    /// there is one with all pages on the first tier.
    pub fn so_far(&self, runs: &[Run]) -> Option<Finding> {
        let points = points(runs);
        let first = Weights::first_tier(self.proposal.as_slice().len());
        points.iter().find(|point| is_same(&point.weights, &first))?;
        Some(Judged::new(self, points, runs.len()).finding(Stop::Runs))
    }

    /// Weights with this share on the first tier and the rest as the proposal has it: the simplest
    /// that are near enough.
    fn along(&self, share: f64) -> Weights {
        let proposed = &self.proposal.shares()[1..];
        let rest: f64 = proposed.iter().sum();
        let even = 1.0 / proposed.len().max(1) as f64;
        let part = |of: &f64| if rest > 0.0 { of / rest } else { even };
        let mut shares = vec![share];
        shares.extend(proposed.iter().map(|of| (1.0 - share) * part(of)));
        // Near a share the value changes at most in proportion to the distance, by the bounds of a
        // curve. Near the ends that has no meaning.
        let near = (self.worth / 2.0 * share.min(1.0 - share)).max(NEAR_LEAST);
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

/// Runs, by their weights, in the order in which these came first.
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

/// Whether two weights are the same placement.
fn is_same(a: &Weights, b: &Weights) -> bool {
    let (a, b) = (a.shares(), b.shares());
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| (a - b).abs() < 1e-9)
}

/// The evaluation of some runs, one of which has all pages on the first tier.
struct Judged<'a> {
    search: &'a Search,
    points: Vec<Repetitions>,
    noise: Noise,
    /// The curve that fits, where there is one: on the line of the proposal.
    curve: Option<TimeCurve>,
    /// The point with all pages on the first tier.
    first: usize,
    best: usize,
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
        // Among equals, all on the first tier.
        let gains = points[first].mean() > points[best].mean() + SAME;
        let best = if gains { best } else { first };
        Self { search, points, noise, curve, first, best, left: search.runs.saturating_sub(made) }
    }

    /// Weights that were not run, and may be better by more than counts; and by how much.
    fn promising(&self) -> Option<(Weights, f64)> {
        let curve = self.curve.as_ref()?;
        let best = curve.least();
        let least_share = self.points.iter().map(|point| point.share).fold(1.0, f64::min);
        let reach = if least_share > LEAST_SHARE { REACH * least_share } else { 0.0 };
        let enough = best * (1.0 - self.search.worth);
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

    /// The weights to run again, or the reason to stop.
    fn again(&self) -> Result<usize, Stop> {
        let runs = |at: usize| self.points[at].logs.len();
        let fewer = |a: usize, b: usize| if runs(a) <= runs(b) { a } else { b };
        if let Some(once) = [self.best, self.first].into_iter().find(|at| runs(*at) == 1) {
            return Ok(once);
        }
        let worth = libm::log1p(self.search.worth);
        let gain = self.behind(self.first);
        // The certainty that all remaining runs would give.
        let most = self
            .noise
            .half(runs(self.best) + self.left.div_ceil(2), runs(self.first) + self.left / 2);
        let futile = gain < worth && most > worth;
        if self.best != self.first {
            let half = self.half(self.first);
            if gain - half <= 0.0 && gain + half >= worth {
                return if futile { Err(Stop::Noise) } else { Ok(fewer(self.best, self.first)) };
            }
        }
        let doubt = |at: &usize| self.half(*at) - self.behind(*at) - worth;
        let rivals = (0..self.points.len()).filter(|at| *at != self.best && doubt(at) > 0.0);
        match rivals.max_by(|a, b| doubt(a).total_cmp(&doubt(b))) {
            Some(_) if futile => Err(Stop::Noise),
            Some(rival) => Ok(fewer(rival, self.best)),
            None => Err(Stop::Settled),
        }
    }

    /// The logarithm of the ratio to the best.
    fn behind(&self, at: usize) -> f64 {
        self.points[at].mean() - self.points[self.best].mean()
    }

    /// Half the interval of that.
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
        let is_better = gain > libm::log1p(self.search.worth) && gain > half;
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

// The interval is stated once, and the quantiles in `noise` are for it.
const _: () = assert!(INTERVAL == 0.9);

// Weights that are made simpler are ones that the kernel takes.
const _: () = assert!(ROUND_MAX <= WEIGHT_MAX);
