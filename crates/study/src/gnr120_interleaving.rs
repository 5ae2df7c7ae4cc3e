//! Predicts weighted interleaving of STREAM and CloverLeaf on a 120-core Granite Rapids server: the
//! server of the slides on dynamic memory interleaving.
//!
//! The published logs have runtimes and counted traffic at several weights. The model is fitted
//! only to the runs with all pages on DRAM, and predicts the speed-ups at the other weights.

use super::{
    advance,
    coverage::{self, Case},
    cxl_interleaving,
    published::{mean_and_max, table, weights},
};
use interleaf_console::Failure;
use interleaf_job::Progress;
use interleaf_model::{
    predict::{Forecast, Row},
    weights::Weights,
};
use interleaf_record::{
    figure::{Figure, Scale, Series, SeriesKind},
    reproduce::{ReproduceRow, StudyDocument},
};
use serde::Deserialize;
use std::collections::BTreeSet;

pub(super) const NAME: &str = "gnr120-interleaving";

/// Number of progress steps: one for each workload.
pub(super) const STEPS: u64 = WORKLOADS.len() as u64;

const TITLE: &str = "STREAM and CloverLeaf at static weights, predicted from DRAM-only runs";
const SOURCE: &str = "published raw logs of the authors of DMI, spring 2025: 120-core Granite \
                      Rapids, 12 x DDR5, 8 x CZ122";
const COUNTERS: &str = include_str!("../../../reproduce/gnr120-interleaving/counters.csv");

/// The workloads that the logs have at several weights.
const WORKLOADS: [&str; 2] = ["stream", "cloverleaf"];

#[derive(Deserialize)]
struct CounterRow {
    workload: String,
    threads: u32,
    local_pct: u16,
    result: f64,
    dram_read_gbps: f64,
    dram_write_gbps: f64,
    cxl_read_gbps: f64,
    cxl_write_gbps: f64,
}

impl CounterRow {
    fn counted_gbps(&self) -> f64 {
        self.dram_read_gbps + self.dram_write_gbps + self.cxl_read_gbps + self.cxl_write_gbps
    }
}

/// Largest relative difference at which the predicted and the counted traffic count as equal. If
/// they are equal, the predicted traffic does not explain an error of the predicted speed-up: the
/// program's result did not follow its traffic.
const SAME_TRAFFIC: f64 = 0.03;

/// The measured and the predicted speed-up of a workload with `local_pct` percent of its pages on
/// DRAM.
struct WeightsPoint {
    threads: u32,
    local_pct: u16,
    published: f64,
    ours: Row,
}

fn published() -> Result<Vec<CounterRow>, Failure> {
    table("counters.csv", COUNTERS)
}

/// Returns the pairs of a workload and a number of threads for which the logs have a run with
/// static weights and some pages on the expanders.
pub(super) fn static_runs() -> Result<BTreeSet<(String, u32)>, Failure> {
    let rows = published()?.into_iter().filter(|row| row.local_pct < 100);
    Ok(rows.map(|row| (row.workload, row.threads)).collect())
}

pub(super) fn reproduce(progress: &dyn Progress) -> Result<StudyDocument, Failure> {
    let platform = interleaf_catalog::platform("gnr120-cz122")?;
    let published = published()?;
    let mut rows = vec![];
    let mut figures = vec![];
    let mut remarks = vec![];
    let mut cases = vec![];
    for workload in WORKLOADS {
        let demand = interleaf_catalog::workload(workload)?;
        let forecast = Forecast::new(&platform, &platform, &demand);
        let own = || published.iter().filter(|row| row.workload == workload);
        let mut points = vec![];
        for row in own().filter(|row| row.local_pct < 100) {
            let alone =
                |other: &&CounterRow| other.threads == row.threads && other.local_pct == 100;
            let Some(local) = own().find(alone) else { continue };
            let speedup = demand.speedup(row.result, local.result);
            let weights: Weights = weights(row.local_pct, 100 - row.local_pct)?;
            let tried = [Weights::first_tier(2), weights];
            let mut prediction = forecast.predict(f64::from(row.threads), &tried);
            let [ours_local_gbps, ours_gbps] =
                [0, 1].map(|at| prediction.rows[at].bandwidth_gbps.mean);
            let ours = prediction.rows.remove(1);
            let what = format!("{} threads, {} % on DRAM", row.threads, row.local_pct);
            let counted = row.counted_gbps() / local.counted_gbps();
            let gains = [counted, ours_gbps / ours_local_gbps];
            let row_document = ReproduceRow::new(workload, what, "x", speedup, ours.speedup.mean);
            rows.push(row_document.explained(|| reason(speedup, gains)));
            let (threads, local_pct) = (row.threads, row.local_pct);
            points.push(WeightsPoint { threads, local_pct, published: speedup, ours });
        }
        cases.extend(points.iter().map(|point| Case {
            workload: workload.into(),
            measured: point.published,
            ours: point.ours.speedup,
            is_outlier: false,
        }));
        figures.push(figure(workload, &points));
        remarks.push(workload_remark(workload, &points));
        advance(progress, 1)?;
    }
    rows.push(coverage::row(&cases));
    cases.extend(cxl_interleaving::cases()?);
    let (left_out, remark) = coverage::left_out(&cases);
    rows.push(left_out);
    remarks.push(remark);
    let fitted = vec![
        "how the threads of each workload behave, from its runs with all pages on DRAM".into(),
        "constants of interleaving: as fitted on xeon6-cz122".into(),
    ];
    let mut study = StudyDocument::new(NAME, TITLE, SOURCE, rows, fitted);
    study.remarks = remarks;
    study.figures = figures;
    Ok(study)
}

/// Explains the error of a predicted speed-up. `published` is the measured speed-up. The traffics
/// `counted` and `ours` (predicted) are relative to the traffic with DRAM only.
fn reason(published: f64, [counted, ours]: [f64; 2]) -> String {
    if (ours / counted - 1.0).abs() <= SAME_TRAFFIC {
        return format!(
            "the counted traffic rose {counted:.2} times, ours {ours:.2}: the result, \
             {published:.2} times, did not follow its own traffic"
        );
    }
    format!("not explained: the counted traffic rose {counted:.2} times, ours {ours:.2}")
}

fn workload_remark(workload: &str, points: &[WeightsPoint]) -> String {
    let errors: Vec<f64> =
        points.iter().map(|point| point.ours.speedup.mean / point.published - 1.0).collect();
    let (mean, max) = mean_and_max(&errors);
    let inside = |point: &&WeightsPoint| {
        let speedup = point.ours.speedup;
        (speedup.low..=speedup.high).contains(&point.published)
    };
    format!(
        "{workload}: mean error {:.1} %, max {:.1} %; {} of {} measured speed-ups lie within the \
         predicted interval",
        100.0 * mean,
        100.0 * max,
        points.iter().filter(inside).count(),
        points.len(),
    )
}

fn figure(workload: &str, points: &[WeightsPoint]) -> Figure {
    let mut threads: Vec<u32> = points.iter().map(|point| point.threads).collect();
    threads.dedup();
    let mut series = vec![];
    for (group, threads) in threads.into_iter().enumerate() {
        let own: Vec<&WeightsPoint> =
            points.iter().filter(|point| point.threads == threads).collect();
        let at = |value: &dyn Fn(&WeightsPoint) -> f64| {
            let all_local = [(100.0, 1.0)];
            own.iter()
                .map(|point| (f64::from(point.local_pct), value(point)))
                .chain(all_local)
                .collect::<Vec<_>>()
        };
        let interval = own.iter().map(|point| (point.ours.speedup.low, point.ours.speedup.high));
        let interval = interval.chain([(1.0, 1.0)]).collect::<Vec<_>>();
        let ours = at(&|point| point.ours.speedup.mean);
        let name = format!("{threads} threads, ours");
        series.push(Series::new(name, SeriesKind::Line, group, ours).with_interval(interval));
        let published = at(&|point| point.published);
        let name = format!("{threads} threads, measured");
        series.push(Series::new(name, SeriesKind::Points, group, published));
    }
    Figure {
        id: workload.into(),
        title: format!("{workload}: speed-up over DRAM only"),
        y_from: 0.0,
        scale: Scale::Linear,
        x_label: "pages on DRAM, %".into(),
        y_label: "speed-up".into(),
        categories: vec![],
        series,
        caption: "Lines are predicted from runs with all pages on DRAM alone.".into(),
    }
}
