//! Fits the two constants of interleaving to the bandwidths that MLC measured with pages on both
//! tiers.
//!
//! *Page streams* are pages that threads walk one after the other. With few page streams, a tier
//! occasionally has no outstanding requests. *Coupling* is the bandwidth that DRAM loses for
//! traffic on CXL, because the traffic of both tiers crosses the same mesh. Few page streams cost
//! bandwidth if both tiers are near their maximum. Coupling costs bandwidth if DRAM is the limit.
//! The two losses are largest at different points, so the points determine both constants.

use crate::published::weights;
use interleaf_console::Failure;
use interleaf_model::{
    mix::{Mix, MixError},
    platform::Platform,
    predict::saturating_load,
    weights::Weights,
};
use interleaf_record::distinct;
use serde::Deserialize;

#[derive(Deserialize)]
pub(super) struct MlcRow {
    mix: String,
    weight_dram: u16,
    weight_cxl: u16,
    bandwidth_gbps: f64,
}

#[derive(Clone)]
pub(super) struct MlcPoint {
    pub(super) mix: Mix,
    pub(super) weights: Weights,
    pub(super) published_gbps: f64,
}

impl MlcPoint {
    /// True if both tiers have pages at this point.
    pub(super) fn is_mixed(&self) -> bool {
        self.weights.as_slice().iter().all(|weight| *weight > 0)
    }
}

pub(super) fn points(rows: Vec<MlcRow>) -> Result<Vec<MlcPoint>, Failure> {
    let point = |row: MlcRow| {
        let mix = row.mix.parse().map_err(|why: MixError| {
            Failure::new(format!("mlc.csv: {why}"), "the table is part of the program: report it")
        })?;
        let weights = weights(row.weight_dram, row.weight_cxl)?;
        Ok(MlcPoint { mix, weights, published_gbps: row.bandwidth_gbps })
    };
    rows.into_iter().map(point).collect()
}

pub(super) fn mixes(points: &[MlcPoint]) -> Vec<Mix> {
    distinct(points.iter().map(|point| point.mix))
}

/// The two constants of interleaving: the number of page streams, and the coupling loss, which is
/// the bandwidth, GB/s, that DRAM loses for each GB/s of traffic on CXL.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Constants {
    pub(super) page_streams: u32,
    pub(super) loss: f64,
}

/// The values that the fit tries for the two constants. The number of page streams is in
/// `PAGE_STREAMS`. The coupling loss is the DRAM bandwidth that is lost for each GB/s of CXL
/// traffic: `LOSSES` values from 0 to 0.2, in steps of `LOSS_STEP`.
const PAGE_STREAMS: std::ops::RangeInclusive<u32> = 6..=40;
const LOSSES: usize = 41;
const LOSS_STEP: f64 = 0.005;

impl Constants {
    /// Returns the constants in the platform file.
    pub(super) fn from_platform(platform: &Platform) -> Self {
        let loss = platform.couplings.first().map_or(0.0, |coupling| coupling.loss);
        Self { page_streams: platform.interleaving.page_streams, loss }
    }

    /// Returns the constants with the least mean square of the relative errors at those `points`
    /// that have pages on both tiers.
    pub(super) fn fit(platform: &Platform, points: &[MlcPoint]) -> Self {
        let miss = |constants: &Self| {
            let square = |point: &MlcPoint| {
                let error = constants.bandwidth_gbps(platform, point) / point.published_gbps - 1.0;
                error * error
            };
            points.iter().filter(|point| point.is_mixed()).map(square).sum::<f64>()
        };
        let tried = PAGE_STREAMS.flat_map(|page_streams| {
            (0..LOSSES).map(move |step| Self { page_streams, loss: step as f64 * LOSS_STEP })
        });
        let judged = tried.map(|constants| (constants, miss(&constants)));
        let best = judged.min_by(|a, b| a.1.total_cmp(&b.1));
        best.map_or_else(|| Self::from_platform(platform), |(constants, _)| constants)
    }

    /// Returns the bandwidth, GB/s, that the model predicts with these constants for the mix and
    /// the weights of `point`.
    pub(super) fn bandwidth_gbps(self, platform: &Platform, point: &MlcPoint) -> f64 {
        let mut platform = platform.clone();
        platform.interleaving.page_streams = self.page_streams;
        for coupling in &mut platform.couplings {
            coupling.loss = self.loss;
        }
        let load = saturating_load(&platform, point.mix);
        let prediction = load.predict(&platform, std::slice::from_ref(&point.weights));
        prediction.rows[0].bandwidth_gbps.mean
    }
}
