//! The difference between a forecast and the measured runs from which it was inferred.
//!
//! For the local runs (all pages on the first tier) that [`Demand::nearest_run`] can return, the
//! forecast equals the measured result. These are the runs of one series with a counted bandwidth
//! or, if no run has a counted bandwidth, the runs of the first run's series. For all other runs
//! the forecast may differ from the measured result, because these runs only exclude behaviours.

use super::Forecast;
use crate::{demand::Demand, weights::Weights};

/// A measured run, and the forecast of this run.
#[derive(Clone, Debug, PartialEq)]
pub struct RunFit {
    /// The weights with which the run was measured.
    pub weights: Weights,
    /// The number of threads.
    pub threads: u32,
    /// The measured result, in the demand's metric.
    pub measured: f64,
    /// The result of the forecast, in the same metric.
    pub forecast: f64,
}

impl RunFit {
    /// The forecast minus the measured result, as a fraction of the measured result.
    pub fn miss(&self) -> f64 {
        self.forecast / self.measured - 1.0
    }
}

impl Forecast<'_> {
    /// Each run of the demand, with the forecast of this run on the platform on which it was
    /// measured. The forecast is scaled from the result of [`Demand::nearest_run`]. Local runs of
    /// another series than the nearest run are left out, because results of different series are
    /// not comparable.
    pub fn fits(&self) -> Vec<RunFit> {
        let Demand { local, interleaved, .. } = self.demand;
        let there = self.on(self.measured_on);
        let fit = |weights: Weights, threads: u32, measured: f64| {
            let row = there.at(f64::from(threads)).row(&weights);
            let forecast = row.result.map_or(measured, |result| result.mean);
            RunFit { weights, threads, measured, forecast }
        };
        let first_tier = Weights::first_tier(self.measured_on.tiers.len());
        let comparable = |threads: u32| &self.demand.nearest_run(f64::from(threads)).series;
        let local = local
            .iter()
            .filter(|run| run.series == *comparable(run.threads))
            .map(|run| fit(first_tier.clone(), run.threads, run.result));
        let interleaved =
            interleaved.iter().map(|run| fit(run.weights.clone(), run.threads, run.result));
        local.chain(interleaved).collect()
    }
}
