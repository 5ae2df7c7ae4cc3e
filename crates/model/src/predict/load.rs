//! Predictions for a traffic mix at a given load. As in Intel MLC, each thread requests the next
//! line when a line returns, or after a pause.

use super::{Estimate, Prediction, Row, platform_provenance};
use crate::{
    equilibrium::{BandwidthLimits, Load, LoadEquilibrium, System},
    mix::Mix,
    platform::Platform,
    units::LINE_BYTES,
    weights::Weights,
};

/// Maximum number of threads of [`saturating_load`], for each core.
const THREADS_MAX: f64 = 1024.0;

/// A series of rising loads begins with equal steps of the first tier's bandwidth, up to this
/// fraction of its maximum. At higher loads the bandwidth hardly rises; there, the pause falls in
/// equal steps instead.
const NEARLY_SATURATED: f64 = 0.97;

/// A load of one mix, from threads that pause after each line.
#[derive(Clone, Debug, PartialEq)]
pub struct MixLoad {
    /// The mix of the traffic.
    pub mix: Mix,
    /// The number of threads.
    pub threads: f64,
    /// Pause of a thread after each line, ns; 0 for the maximum load.
    pub pause_ns: f64,
}

/// Returns the load whose threads are enough to saturate each tier on its own. It has at least one
/// and at most 1024 threads for each core.
pub fn saturating_load(platform: &Platform, mix: Mix) -> MixLoad {
    let from = platform.spread();
    let bytes = (0..platform.tiers.len())
        .map(|tier| platform.answer(tier, &from, mix).response.saturating_bytes())
        .fold(0.0, f64::max);
    let cores = f64::from(platform.cpu.cores);
    let needed = bytes / (platform.cpu.outstanding_lines_per_core * LINE_BYTES);
    let threads = needed.ceil().clamp(cores, cores * THREADS_MAX);
    MixLoad { mix, threads, pause_ns: 0.0 }
}

impl MixLoad {
    /// Returns this load with the pause at which the first tier, if it has all pages, has the
    /// bandwidth `bandwidth_gbps`. If its maximum bandwidth is lower, the pause is 0.
    pub fn at_bandwidth(&self, platform: &Platform, bandwidth_gbps: f64) -> Self {
        let answer = platform.answer(0, &platform.spread(), self.mix);
        let latency_ns = answer.response.at_bandwidth(bandwidth_gbps).latency_ns;
        let lines = platform.cpu.outstanding_lines_per_core;
        let round_ns = self.threads * lines * LINE_BYTES / bandwidth_gbps;
        Self { pause_ns: ((round_ns - latency_ns) / lines).max(0.0), ..self.clone() }
    }

    fn load(&self, platform: &Platform, shares: Vec<f64>) -> Load {
        Load {
            threads: self.threads,
            lines_per_thread: platform.cpu.outstanding_lines_per_core,
            line_compute_ns: self.pause_ns,
            overlap: 0.0,
            mixes: vec![self.mix; shares.len()],
            shares,
            domain_parts: platform.spread(),
            bandwidth_factors: vec![1.0; platform.tiers.len()],
        }
    }

    /// Predicts this load with each of `weights`.
    pub fn predict(&self, platform: &Platform, weights: &[Weights]) -> Prediction {
        let at = self.at(platform);
        at.prediction(weights.iter().map(|weights| at.row(weights)).collect())
    }

    /// Prepares this load on `platform` for predictions.
    pub fn at<'a>(&'a self, platform: &'a Platform) -> MixLoadAt<'a> {
        let local = self.reach(platform, &Weights::first_tier(platform.tiers.len())).0;
        MixLoadAt { load: self, platform, local_gbps: local.bandwidth_gbps }
    }

    /// Predicts this load on the first tier alone, and with the best of `weights`.
    pub fn point(&self, platform: &Platform, weights: &[Weights]) -> LoadPoint {
        let local = self.reach(platform, &Weights::first_tier(platform.tiers.len())).0;
        let prediction = self.predict(platform, weights);
        let best = &prediction.rows[prediction.best.unwrap_or(0)];
        LoadPoint {
            pause_ns: self.pause_ns,
            local: (local.bandwidth_gbps, local.latency_ns),
            best: (best.bandwidth_gbps.mean, best.latency_ns),
            best_weights: best.weights.clone(),
        }
    }

    fn reach(&self, platform: &Platform, weights: &Weights) -> (LoadEquilibrium, Vec<String>) {
        let loads = [self.load(platform, weights.shares())];
        let mut reached = System::new(platform, &loads).solve(&loads);
        (reached.loads.remove(0), reached.extrapolated)
    }
}

/// A load on a platform, prepared for predictions. The predictions for different weights (rows) can
/// be computed in any order and on any thread.
pub struct MixLoadAt<'a> {
    load: &'a MixLoad,
    platform: &'a Platform,
    /// The bandwidth with all pages on the first tier, GB/s.
    local_gbps: f64,
}

impl MixLoadAt<'_> {
    /// Predicts the load with `weights`.
    pub fn row(&self, weights: &Weights) -> Row {
        let (reached, extrapolated) = self.load.reach(self.platform, weights);
        let speedup = reached.bandwidth_gbps / self.local_gbps;
        let estimate = |value| {
            let exact = Estimate::exact(value);
            if weights.one_tier() { exact } else { exact.with_model_spread() }
        };
        Row {
            weights: weights.clone(),
            bandwidth_gbps: estimate(reached.bandwidth_gbps),
            tier_bandwidth_gbps: reached.tier_bandwidth_gbps,
            tier_latency_ns: reached.tier_latency_ns,
            latency_ns: reached.latency_ns,
            result: None,
            speedup: estimate(speedup),
            too_small: None,
            extrapolated,
        }
    }

    /// Upper bounds of the bandwidth of the load at any weights. Divided by [`Self::local_gbps`],
    /// they are upper bounds of the speed-up.
    pub fn limits(&self) -> BandwidthLimits {
        let first_tier = Weights::first_tier(self.platform.tiers.len());
        let load = self.load.load(self.platform, first_tier.shares());
        System::new(self.platform, std::slice::from_ref(&load)).limits(&load)
    }

    /// The bandwidth with all pages on the first tier, GB/s.
    pub const fn local_gbps(&self) -> f64 {
        self.local_gbps
    }

    /// Combines `rows`, the predictions for single weights, into one prediction. The rows keep
    /// their order.
    pub fn prediction(&self, rows: Vec<Row>) -> Prediction {
        let inputs = platform_provenance(self.platform, &rows);
        Prediction::new(self.load.threads, rows, inputs)
    }
}

/// The predictions for one of a series of loads, from almost no load to the maximum load.
#[derive(Clone, Debug, PartialEq)]
pub struct LoadPoint {
    /// Pause of a thread after each line, ns.
    pub pause_ns: f64,
    /// Bandwidth (GB/s) and latency (ns) with all pages on the first tier.
    pub local: (f64, f64),
    /// Bandwidth (GB/s) and latency (ns) with the best weights.
    pub best: (f64, f64),
    /// The best weights.
    pub best_weights: Weights,
}

/// Predicts each of `steps` rising loads ([`load_steps`]), on the first tier alone and with the
/// best of `weights`. `None` for `threads` stands for enough threads to saturate each tier on its
/// own.
pub fn load_curve(
    platform: &Platform,
    mix: Mix,
    threads: Option<f64>,
    weights: &[Weights],
    steps: usize,
) -> Vec<LoadPoint> {
    let loads = load_steps(platform, mix, threads, steps);
    loads.iter().map(|load| load.point(platform, weights)).collect()
}

/// Returns `steps` loads, from nearly none to the maximum. The first loads are in even steps of the
/// first tier's bandwidth, up to near its saturation; the others are in even steps of the pause,
/// down to no pause. `None` for `threads` stands for enough threads to saturate each tier on its
/// own.
pub fn load_steps(
    platform: &Platform,
    mix: Mix,
    threads: Option<f64>,
    steps: usize,
) -> Vec<MixLoad> {
    let most = saturating_load(platform, mix);
    let most = MixLoad { threads: threads.unwrap_or(most.threads), ..most };
    let local = Weights::first_tier(platform.tiers.len());
    let max_gbps = most.predict(platform, std::slice::from_ref(&local)).rows[0].bandwidth_gbps.mean;
    let rising = steps * 3 / 5;
    let knee = most.at_bandwidth(platform, max_gbps * NEARLY_SATURATED);
    let load = |step: usize| {
        if step <= rising {
            let part = NEARLY_SATURATED * step as f64 / rising as f64;
            return most.at_bandwidth(platform, max_gbps * part);
        }
        let left = (steps - step) as f64 / (steps - rising) as f64;
        MixLoad { pause_ns: knee.pause_ns * left, ..most.clone() }
    };
    (1..=steps).map(load).collect()
}
