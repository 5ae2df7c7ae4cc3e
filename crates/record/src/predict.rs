//! A prediction of bandwidth, latency and runtime for different weights, as `interleaf.predict/1`.
//!
//! `interleaf predict` writes the document, with a row for each choice of weights. Lists with an
//! element per tier are in the order of `tiers`. Intervals contain the true value with a
//! probability of 90 %. They combine two uncertainties: the range of the behaviours that agree with
//! the workload's measured runs, and the error of the model. A mix has no measured runs, so its
//! intervals have only the error of the model.

use super::{
    ProvenanceDocument, all_rounded,
    check::{Check, Checked, in_order, not_empty, same_length},
    figure::{Figure, Scale, Series, SeriesKind},
    rounded,
};
pub use crate::weights_text;
use interleaf_model::{
    demand::Demand,
    platform::{Domain, Platform},
    predict::{Estimate, LoadPoint, Prediction, Row, RunFit},
    weights::Weights,
};
use serde::{Deserialize, Serialize};

pub const SCHEMA: &str = "interleaf.predict/1";

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PredictDocument {
    pub schema: String,
    pub platform: String,
    pub workload: String,
    pub tiers: Vec<String>,
    pub threads: f64,
    /// Number of threads in each domain; left out on a machine with one domain.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub domain_threads: Vec<DomainThreadsDocument>,
    /// Unit of the workload's result: "s", or the unit of a rate; null for a mix.
    pub result_unit: Option<String>,
    pub rows: Vec<PredictRow>,
    /// Number of ratios that were tried, if `rows` has only the best weights of each set of tiers;
    /// left out if `rows` has all of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ratios_tried: Option<u64>,
    pub best: Option<PredictBest>,
    /// Weights for a measurement that would show whether the workload gains. Its measured runs
    /// agree with no speed-up, and also with a large one. Left out if they already show whether it
    /// gains.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub undecided: Option<Vec<u16>>,
    /// Best weights at each load; left out without a sweep of loads.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub load_curve: Vec<LoadPointDocument>,
    pub provenance: ProvenanceDocument,
    /// Reasons to doubt the prediction, each with a measurement that would remove the doubt.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DomainThreadsDocument {
    pub domain: String,
    pub threads: f64,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PredictRow {
    pub weights: Vec<u16>,
    pub tier_share: Vec<f64>,
    pub bandwidth_gbps: f64,
    pub bandwidth_interval_gbps: [f64; 2],
    pub tier_bandwidth_gbps: Vec<f64>,
    pub tier_latency_ns: Vec<f64>,
    pub latency_ns: f64,
    /// Runtime, s, if the workload's result is a time.
    pub runtime_s: Option<f64>,
    /// Rate, in `result_unit`, if the workload's result is a rate.
    pub rate: Option<f64>,
    pub speedup: f64,
    /// 90 % interval of the speed-up: its range over the behaviours that agree with the measured
    /// runs, widened by the error of the model.
    pub speedup_interval: [f64; 2],
    /// True if each tier has room for its share of the footprint.
    pub fits: bool,
    pub extrapolated: bool,
    /// The reasons why the row is extrapolated, or why the pages do not fit.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PredictBest {
    pub weights: Vec<u16>,
    pub speedup: f64,
    pub speedup_interval: [f64; 2],
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LoadPointDocument {
    pub pause_ns: f64,
    pub first_tier_bandwidth_gbps: f64,
    pub first_tier_latency_ns: f64,
    pub best_weights: Vec<u16>,
    pub best_bandwidth_gbps: f64,
    pub best_latency_ns: f64,
}

/// The subject of a prediction: the name of a workload or mix, and the unit of its result.
pub struct Subject {
    pub workload: String,
    pub result_unit: Option<String>,
}

impl PredictDocument {
    pub fn new(
        platform: &Platform,
        subject: Subject,
        prediction: &Prediction,
        load_curve: &[LoadPoint],
    ) -> Self {
        let is_time = subject.result_unit.as_deref() == Some("s");
        let row = |row: &Row| PredictRow::new(platform, row, is_time);
        Self {
            schema: SCHEMA.into(),
            platform: platform.name.clone(),
            workload: subject.workload,
            tiers: platform.tiers.iter().map(|tier| tier.name.clone()).collect(),
            threads: prediction.threads,
            domain_threads: domain_threads(platform, prediction.threads),
            result_unit: subject.result_unit,
            rows: prediction.rows.iter().map(row).collect(),
            ratios_tried: None,
            best: prediction.best.map(|at| {
                let row = &prediction.rows[at];
                PredictBest {
                    weights: row.weights.as_slice().to_vec(),
                    speedup: rounded(row.speedup.mean),
                    speedup_interval: interval(row.speedup),
                }
            }),
            undecided: prediction
                .undecided
                .map(|at| prediction.rows[at].weights.as_slice().to_vec()),
            load_curve: load_curve.iter().map(LoadPointDocument::new).collect(),
            provenance: ProvenanceDocument::new(&prediction.inputs),
            warnings: prediction
                .undecided
                .map(|at| undecided(&prediction.rows[at].weights, prediction.rows[at].speedup))
                .into_iter()
                .collect(),
        }
    }

    /// Returns the figures of the prediction. With two tiers, a figure shows bandwidth or speed-up
    /// against the share of pages on the first tier. With a sweep of loads, a figure shows latency
    /// against bandwidth.
    pub fn figures(&self) -> Vec<Figure> {
        let mut figures = vec![];
        if self.tiers.len() == 2 && self.rows.len() > 1 {
            figures.push(self.over_share());
        }
        if !self.load_curve.is_empty() {
            figures.push(self.over_load());
        }
        figures
    }

    fn over_share(&self) -> Figure {
        let of_mix = self.result_unit.is_none();
        let mut rows: Vec<&PredictRow> = self.rows.iter().collect();
        rows.sort_by(|a, b| a.tier_share[0].total_cmp(&b.tier_share[0]));
        let value = |row: &PredictRow| if of_mix { row.bandwidth_gbps } else { row.speedup };
        let points = rows.iter().map(|row| (row.tier_share[0] * 100.0, value(row)));
        let labels = rows.iter().map(|row| weights_text(&row.weights)).collect();
        let mut line =
            Series::new(self.workload.clone(), SeriesKind::Line, 0, points).with_labels(labels);
        if !of_mix {
            let interval =
                rows.iter().map(|row| (row.speedup_interval[0], row.speedup_interval[1]));
            line = line.with_interval(interval);
        }
        let y_label = if of_mix { "bandwidth, GB/s" } else { "speed-up over the first tier alone" };
        Figure {
            id: "weights".into(),
            title: format!("{} on {}", self.workload, self.platform),
            y_from: 0.0,
            scale: Scale::Linear,
            x_label: format!("pages on {}, %", self.tiers[0]),
            y_label: y_label.into(),
            categories: vec![],
            series: vec![line],
            caption: "Each point is one choice of weights.".into(),
        }
    }

    fn over_load(&self) -> Figure {
        let first = self
            .load_curve
            .iter()
            .map(|point| (point.first_tier_bandwidth_gbps, point.first_tier_latency_ns));
        let best =
            self.load_curve.iter().map(|point| (point.best_bandwidth_gbps, point.best_latency_ns));
        let labels =
            self.load_curve.iter().map(|point| weights_text(&point.best_weights)).collect();
        Figure {
            id: "load".into(),
            title: format!("Latency against bandwidth, {} on {}", self.workload, self.platform),
            y_from: 0.0,
            scale: Scale::Linear,
            x_label: "bandwidth, GB/s".into(),
            y_label: "latency, ns".into(),
            categories: vec![],
            series: vec![
                Series::new(format!("{} only", self.tiers[0]), SeriesKind::Line, 0, first),
                Series::new("with the best weights", SeriesKind::Line, 1, best).with_labels(labels),
            ],
            caption: "The best weights at each load stand at the points.".into(),
        }
    }
}

impl Check for PredictDocument {
    fn check(&self) -> Checked {
        let tiers = self.tiers.len();
        not_empty("tiers", tiers)?;
        let of_tiers = |field: String, found: usize| same_length(field, found, tiers, "tiers");
        for (at, row) in self.rows.iter().enumerate() {
            of_tiers(format!("rows[{at}].weights"), row.weights.len())?;
            of_tiers(format!("rows[{at}].tier_share"), row.tier_share.len())?;
            of_tiers(format!("rows[{at}].tier_bandwidth_gbps"), row.tier_bandwidth_gbps.len())?;
            of_tiers(format!("rows[{at}].tier_latency_ns"), row.tier_latency_ns.len())?;
            in_order(format!("rows[{at}].bandwidth_interval_gbps"), row.bandwidth_interval_gbps)?;
            in_order(format!("rows[{at}].speedup_interval"), row.speedup_interval)?;
        }
        if let Some(best) = &self.best {
            of_tiers("best.weights".into(), best.weights.len())?;
            in_order("best.speedup_interval", best.speedup_interval)?;
        }
        for (at, point) in self.load_curve.iter().enumerate() {
            of_tiers(format!("load_curve[{at}].best_weights"), point.best_weights.len())?;
        }
        Ok(())
    }
}

impl PredictRow {
    fn new(platform: &Platform, row: &Row, is_time: bool) -> Self {
        let mut notes = row.extrapolated.clone();
        if let Some(tier) = row.too_small {
            let tier = &platform.tiers[tier];
            notes.push(format!("its pages do not fit into the {} of {}", tier.capacity, tier.name));
        }
        let result = row.result.map(|result| rounded(result.mean));
        Self {
            weights: row.weights.as_slice().to_vec(),
            tier_share: all_rounded(&row.weights.shares()),
            bandwidth_gbps: rounded(row.bandwidth_gbps.mean),
            bandwidth_interval_gbps: interval(row.bandwidth_gbps),
            tier_bandwidth_gbps: all_rounded(&row.tier_bandwidth_gbps),
            tier_latency_ns: all_rounded(&row.tier_latency_ns),
            latency_ns: rounded(row.latency_ns),
            runtime_s: result.filter(|_| is_time),
            rate: result.filter(|_| !is_time),
            speedup: rounded(row.speedup.mean),
            speedup_interval: interval(row.speedup),
            fits: row.too_small.is_none(),
            extrapolated: !row.extrapolated.is_empty(),
            notes,
        }
    }
}

impl LoadPointDocument {
    fn new(point: &LoadPoint) -> Self {
        Self {
            pause_ns: rounded(point.pause_ns),
            first_tier_bandwidth_gbps: rounded(point.local.0),
            first_tier_latency_ns: rounded(point.local.1),
            best_weights: point.best_weights.as_slice().to_vec(),
            best_bandwidth_gbps: rounded(point.best.0),
            best_latency_ns: rounded(point.best.1),
        }
    }
}

/// Returns the warning that the measured runs of a workload do not show whether DRAM limits its
/// speed. Its speed-up at `weights` may be anywhere in the interval of `speedup`.
pub fn undecided(weights: &Weights, speedup: Estimate) -> String {
    let [low, high] = interval(speedup);
    format!(
        "this may not be limited by memory: the runs agree with a program that DRAM limits and \
         with one that limits itself (locks, barriers, bandwidth of caches), so that {weights} may \
         give {low:.2} or {high:.2} times the speed. One run with a fifth of the pages on another \
         tier (80:20) would tell"
    )
}

/// A forecast misses a measured run if it differs from the run's result by more than this fraction.
/// Results of repeated runs usually differ by less.
const MISS: f64 = 0.05;

/// Returns the warning that the forecast misses measured runs, or `None` if it misses none. The
/// warning lists all of `fits`, so that the user also sees the runs that agree. Results are in
/// `unit`. Each verb with a forecast prints this warning.
pub fn missed_runs(fits: &[RunFit], unit: Option<&str>) -> Option<String> {
    let missed = |fit: &&RunFit| fit.miss().abs() > MISS;
    fits.iter().find(missed)?;
    let unit = unit.map_or(String::new(), |unit| format!(" {unit}"));
    let list = fits.iter().map(|fit| {
        let RunFit { weights, threads, measured, forecast } = fit;
        let [measured, forecast] = [measured, forecast].map(|result| in_digits(*result));
        // Adding 0 turns -0, which would be printed with a sign, into 0.
        let miss = (100.0 * fit.miss()).round() + 0.0;
        format!(
            "{threads} threads at {weights} {forecast}{unit}, measured {measured} ({miss:+.0} %)"
        )
    });
    let list: Vec<String> = list.collect();
    let is_local = fits.iter().filter(missed).any(|fit| fit.weights.one_tier());
    // If a forecast misses a run with all pages on one tier, the reason is that bandwidth was
    // counted in some of the runs and not in others.
    let remedy = if is_local { ". With bandwidth_gbps of every run it meets them" } else { "" };
    Some(format!("the forecast misses measured runs: {}{remedy}", list.join("; ")))
}

/// Returns the warning that the predicted speed-ups are those of a typical program: the demand has
/// only one run, and its bandwidth was not counted. Returns `None` for any other demand.
pub fn not_counted(demand: &Demand) -> Option<String> {
    let [run] = &demand.local[..] else { return None };
    let is_known = run.bandwidth_gbps.is_some() || !demand.interleaved.is_empty();
    (!is_known).then(|| {
        format!(
            "{} has one run, whose bandwidth was not counted: GB/s and speed-ups are those of a \
             typical program with {} threads. Runs with other threads or weights, or \
             bandwidth_gbps of the run, make them those of the program",
            demand.name, run.threads
        )
    })
}

/// Returns the warning that a demand does not name the platform of its measured runs, or `None` if
/// it does.
pub fn no_platform(demand: &Demand, platform: &str) -> Option<String> {
    demand.platform.is_none().then(|| {
        format!(
            "{} does not name the platform of its runs: they are taken as runs on {platform}",
            demand.name
        )
    })
}

/// Rounds `value` to four significant digits.
fn in_digits(value: f64) -> f64 {
    format!("{value:.3e}").parse().unwrap_or(value)
}

/// Returns the number of threads in each domain, or nothing on a platform with one domain.
fn domain_threads(platform: &Platform, threads: f64) -> Vec<DomainThreadsDocument> {
    if platform.domains.len() < 2 {
        return vec![];
    }
    let parts = platform.domains.iter().zip(platform.spread());
    let of = |(domain, part): (&Domain, f64)| DomainThreadsDocument {
        domain: domain.name.clone(),
        threads: rounded(part * threads),
    };
    parts.map(of).collect()
}

fn interval(estimate: Estimate) -> [f64; 2] {
    [rounded(estimate.low), rounded(estimate.high)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missed_runs_are_listed_with_all_others() {
        let fit = |weights: &[u16], threads, measured, forecast| RunFit {
            weights: Weights::new(weights.to_vec()).unwrap_or_else(|_| Weights::first_tier(2)),
            threads,
            measured,
            forecast,
        };
        let met = [fit(&[1, 0], 64, 210.0, 210.0), fit(&[5, 2], 128, 150.0, 156.0)];
        assert_eq!(missed_runs(&met, Some("s")), None);
        let missed = [met[0].clone(), fit(&[1, 0], 128, 160.0, 184.04)];
        let expected = "the forecast misses measured runs: 64 threads at 1:0 210 s, measured 210 \
                        (+0 %); 128 threads at 1:0 184 s, measured 160 (+15 %). With \
                        bandwidth_gbps of every run it meets them";
        assert_eq!(missed_runs(&missed, Some("s")).as_deref(), Some(expected));
        let interleaved = missed_runs(&[fit(&[5, 2], 128, 113.0, 100.0)], Some("GFlop/s"));
        let expected = "the forecast misses measured runs: 128 threads at 5:2 100 GFlop/s, \
                        measured 113 (-12 %)";
        assert_eq!(interleaved.as_deref(), Some(expected));
    }
}
