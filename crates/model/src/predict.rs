//! Predicts bandwidth, latency and speed-up for several weights: of a workload, or of a mix at a
//! given load.

mod best;
mod fit;
mod load;
mod program;
mod workload;

pub use best::{best_of_each_set, rows_near_best};
pub use fit::RunFit;
pub use load::{LoadPoint, MixLoad, MixLoadAt, load_curve, load_steps, saturating_load};
pub use program::{ActivePhase, Program, ProgramPhase, RATE_RUN_S};
pub use workload::{Forecast, ForecastAt, SpeedupLimits};

use crate::{platform::Platform, provenance::Provenance, statistics, weights::Weights};

/// The probability that the interval of an [`Estimate`] contains the true value.
pub const INTERVAL: f64 = 0.9;

/// Half of the width, in standard deviations, of an interval that contains the fraction
/// [`INTERVAL`] of a normal distribution.
pub const Z_OF_INTERVAL: f64 = 1.645;

/// Standard deviation of the error of a predicted figure, as a fraction of the figure. It is the
/// root mean square error of the speed-ups in `reproduce cxl-interleaving` and `reproduce
/// gnr120-interleaving`, with equal weight of all workloads. The second command also makes a
/// cross-validation: it computes each workload's intervals from the error of the other workloads,
/// and reports the fraction of all rows that are within their intervals.
pub const MODEL_SPREAD: f64 = 0.025;

/// The highest speed-up that means that DRAM does not limit the workload. If the interval of the
/// speed-up begins at `NO_GAIN` or below and ends at [`GAIN`] or above, the measured runs leave
/// open whether DRAM limits the workload.
const NO_GAIN: f64 = 1.03;
/// The lowest speed-up that means that DRAM limits the workload. See [`NO_GAIN`].
const GAIN: f64 = 1.15;

/// A predicted figure: its mean, and an interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// The mean. In a prediction for a workload, it is the mean over all behaviours (sets of thread
    /// properties) that agree with the measured runs.
    pub mean: f64,
    /// The lower end of the interval, which is described at `high`.
    pub low: f64,
    /// The upper end of the interval. The interval contains the true value with the probability
    /// [`INTERVAL`]. Both ends of an exact figure are equal to its mean.
    pub high: f64,
}

impl Estimate {
    /// Widens the interval by the error of the model, [`MODEL_SPREAD`]: the distance of each end
    /// from the mean and the error of the model are added like independent errors (root of the sum
    /// of squares). Predictions with pages on more than one tier have this error, and so have
    /// speeds relative to another platform.
    #[must_use]
    pub fn with_model_spread(self) -> Self {
        let miss = Z_OF_INTERVAL * MODEL_SPREAD * self.mean;
        let wider = |distance: f64| (distance * distance + miss * miss).sqrt();
        let (low, high) = (self.mean - self.low, self.high - self.mean);
        Self { low: self.mean - wider(low), high: self.mean + wider(high), ..self }
    }

    /// The estimate from `values` (not empty) of equal weight: their mean, and the interval that
    /// contains the fraction [`INTERVAL`] of them.
    pub fn of(values: Vec<f64>) -> Self {
        let values = statistics::sorted(values);
        let mean = statistics::mean(&values);
        let quantile = |part: f64| statistics::quantile(&values, part);
        let (low, high) = (quantile(0.5 - INTERVAL / 2.0), quantile(0.5 + INTERVAL / 2.0));
        Self { mean, low, high }
    }

    /// An exact figure, without an interval.
    pub const fn exact(value: f64) -> Self {
        Self { mean: value, low: value, high: value }
    }

    /// Multiplies the mean and the interval by `factor`, for a conversion to another unit.
    pub fn scaled(self, factor: f64) -> Self {
        Self { mean: self.mean * factor, low: self.low * factor, high: self.high * factor }
    }
}

/// The prediction for one set of weights.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// The weights to which the prediction applies.
    pub weights: Weights,
    /// Bandwidth of reads and writes at the memory controllers, GB/s.
    pub bandwidth_gbps: Estimate,
    /// Mean bandwidth of each tier, GB/s.
    pub tier_bandwidth_gbps: Vec<f64>,
    /// The latency of a line from each tier, ns.
    pub tier_latency_ns: Vec<f64>,
    /// The mean latency of a line, ns.
    pub latency_ns: f64,
    /// The predicted result in the workload's own metric; `None` if the prediction is for a mix.
    pub result: Option<Estimate>,
    /// Performance divided by the performance with all pages on the first tier.
    pub speedup: Estimate,
    /// The lowest index of a tier that cannot hold its share of the footprint; `None` if all tiers
    /// can, or if the footprint is unknown.
    pub too_small: Option<usize>,
    /// The reasons why the prediction is an extrapolation; empty if it is not an extrapolation.
    pub extrapolated: Vec<String>,
}

/// The predictions for all requested weights, and the best of them.
#[derive(Clone, Debug, PartialEq)]
pub struct Prediction {
    /// The number of threads.
    pub threads: f64,
    /// One row for each of the requested weights, in the order of the request.
    pub rows: Vec<Row>,
    /// The index into `rows` of the best weights whose pages fit into the tiers; `None` if no row's
    /// pages fit.
    pub best: Option<usize>,
    /// The names of the prediction's inputs, each with the weakest provenance of its figures.
    pub inputs: Vec<(String, Provenance)>,
    /// `None` if the measured runs determine whether DRAM limits the workload. Otherwise the index
    /// into `rows` of the row whose speed-up has the highest upper end: in this row, no speed-up
    /// and a speed-up of 15 % or more both agree with the runs. A run with the weights of this row
    /// would decide.
    pub undecided: Option<usize>,
}

impl Prediction {
    fn new(threads: f64, rows: Vec<Row>, inputs: Vec<(String, Provenance)>) -> Self {
        let best = best::best_of(rows.iter());
        Self { threads, rows, best, inputs, undecided: None }
    }

    /// Sets [`Self::undecided`], from the rows whose pages fit into the tiers: the row at which the
    /// runs leave open whether DRAM limits the workload.
    fn with_undecided(self) -> Self {
        let fits = self.rows.iter().enumerate().filter(|(_, row)| row.too_small.is_none());
        let undecided = widest_undecided(fits.map(|(at, row)| (at, row.speedup)));
        Self { undecided: undecided.map(|(at, _)| at), ..self }
    }
}

/// Each of `speedups` is a pair of a label and a speed-up. Returns the pair whose interval ends
/// highest, if this interval contains both no gain ([`NO_GAIN`]) and a gain of [`GAIN`] or more.
/// The runs then leave open whether DRAM limits the workload.
fn widest_undecided<T>(speedups: impl Iterator<Item = (T, Estimate)>) -> Option<(T, Estimate)> {
    let widest = speedups.max_by(|(_, a), (_, b)| a.high.total_cmp(&b.high));
    widest.filter(|(_, speedup)| speedup.low <= NO_GAIN && speedup.high >= GAIN)
}

/// Returns the inputs of `rows` that come from `platform`, with their provenance: the curves of the
/// tiers that the rows use, and the constants of `platform`.
fn platform_provenance(platform: &Platform, rows: &[Row]) -> Vec<(String, Provenance)> {
    let used = |tier: usize| rows.iter().any(|row| row.weights.as_slice()[tier] > 0);
    let mut inputs: Vec<_> = platform
        .tiers
        .iter()
        .enumerate()
        .filter(|(at, _)| used(*at))
        .map(|(_, tier)| {
            let weakest = tier.curves.iter().map(|curve| curve.curve.provenance()).max();
            (format!("curves of {}", tier.name), weakest.unwrap_or(Provenance::Assumed))
        })
        .collect();
    if inputs.len() > 1 {
        let streams = platform.interleaving.figure.provenance;
        inputs.push(("page streams".into(), streams));
        for coupling in &platform.couplings {
            let [from, to] = [coupling.from, coupling.to].map(|at| &platform.tiers[at].name);
            inputs.push((format!("coupling of {from} to {to}"), coupling.figure.provenance));
        }
    }
    inputs
}
