//! Adds the runs on this machine to the study of Intel Memory Drive Technology: the measured
//! efficiencies, compared with the predictions of the planner and with the efficiencies in the
//! paper.
//!
//! The planner is fitted to the run at one footprint, twice the budget, and predicts the efficiency
//! at other footprints. The run at twice the budget gives compute time, overlap and traffic. The
//! trace of the workload gives the traffic at other footprints. The budget is constant, because
//! efficiency depends only on the ratio of footprint to budget.

use super::{
    EFFICIENCY, PublishedEfficiency, figures,
    points::{Curve, MeasuredPoint, SEEN},
};
use crate::published::table;
use interleaf_console::Failure;
use interleaf_extend_forecast::{
    access::Trace,
    drive::Drive,
    forecast::{Model, Run},
    miss_curve::{MissCurve, Point, Traffic},
    pager_curve::{PagerCurves, RandomShare, curve_of_runs},
};
use interleaf_record::{
    bench_compare::{BenchCompareDocument, BenchRow},
    reproduce::{StudyDocument, TableDocument},
};
use interleaf_report::number;
use interleaf_workload::{
    kind::{Kind, Setting},
    trace::{rounds, trace},
};

/// `BLOCK` is the size of a block of a trace in bytes. `STEPS` is the number of budgets in the miss
/// curve of the trace, and `SAMPLE` the maximum number of blocks that are sampled for it.
const BLOCK: usize = 64 << 10;
const STEPS: u32 = 24;
const SAMPLE: usize = 4096;

/// A comparison (`bench compare`) that was measured on this machine, with the workloads that ran.
pub struct MeasuredRun<'a> {
    /// The runs of the patterns at all footprints, with the same number of threads.
    pub document: &'a BenchCompareDocument,
    /// Returns the kind and the setting of the workload that a pattern names.
    pub settings: &'a dyn Fn(&str) -> Option<(Kind, Setting)>,
    /// The drive of the store, with its measured speed.
    pub drive: &'a Drive,
}

/// Adds tables and figures of the runs on this machine to the study.
///
/// # Errors
/// When a table of the study is invalid.
pub fn with_measured(study: &mut StudyDocument, runs: &[MeasuredRun<'_>]) -> Result<(), Failure> {
    let published: Vec<PublishedEfficiency> = table("efficiency.csv", EFFICIENCY)?;
    let mut errors = vec![];
    for run in runs {
        let curves: Vec<Curve> =
            run.document.patterns().into_iter().map(|pattern| curve(run, pattern)).collect();
        for curve in &curves {
            errors.extend(curve.points.iter().filter_map(MeasuredPoint::error).map(f64::abs));
        }
        study.tables.push(efficiencies(run.document, &curves, &published));
        study.tables.extend(degrees(run.document, &curves));
        study.figures.extend(figures::measured(run.document, &curves, &published));
    }
    study.remarks.push(summary(&errors));
    Ok(())
}

fn title(document: &BenchCompareDocument, what: &str) -> String {
    let threads = document.threads;
    let plural = if threads == 1 { "" } else { "s" };
    format!(
        "This machine: {} ({} CPUs), budget {} MiB, {threads} thread{plural}: {what}",
        document.machine.cpu,
        document.machine.cpus,
        document.dram_bytes >> 20
    )
}

/// Returns a table of the efficiencies of all workloads: measured, predicted by the planner, and
/// published. Each workload has a row for each footprint.
fn efficiencies(
    document: &BenchCompareDocument,
    curves: &[Curve],
    published: &[PublishedEfficiency],
) -> TableDocument {
    let header = [
        "workload",
        "ratio",
        "DRAM",
        "pager",
        "swap",
        "mapped file",
        "planner",
        "error",
        "paper",
        "remark",
    ];
    let text = |value: Option<f64>| value.map_or("-".into(), number);
    let cells = |curve: &Curve, point: &MeasuredPoint| {
        let paper = nearest(published, &curve.pattern, point.ratio);
        vec![
            curve.pattern.clone(),
            number(point.footprint_bytes as f64 / document.dram_bytes as f64),
            format!("{} {}", text(point.dram), point.dram_unit),
            text(point.pager),
            text(point.swap),
            text(point.mmap),
            text(point.planned),
            point.error().map_or("-".into(), |error| format!("{:+.0} %", 100.0 * error)),
            paper.map_or("-".into(), |it| format!("{} at {} x", it.text(), it.ratio)),
            remark(paper, point.ratio, point.pager),
        ]
    };
    let rows = curves.iter().flat_map(|it| it.points.iter().map(|point| cells(it, point)));
    TableDocument {
        title: title(document, "efficiency"),
        header: header.map(String::from).into(),
        rows: rows.collect(),
    }
}

/// Returns the paper's figure 2 as a table: the efficiency with the pager by degree and footprint;
/// `None` if the run has fewer than two polynomials.
fn degrees(document: &BenchCompareDocument, curves: &[Curve]) -> Option<TableDocument> {
    let polynomials: Vec<&Curve> = curves.iter().filter(|it| it.intensity.is_some()).collect();
    if polynomials.len() < 2 {
        return None;
    }
    let mut ratios: Vec<f64> =
        polynomials.iter().flat_map(|it| it.points.iter().map(|point| point.ratio)).collect();
    ratios.sort_by(f64::total_cmp);
    ratios.dedup();
    let names = ratios.iter().map(|ratio| format!("{ratio} x"));
    let row = |it: &&Curve| {
        let at = |ratio: &f64| it.points.iter().find(|point| point.ratio == *ratio)?.pager;
        let cells = ratios.iter().map(|ratio| at(ratio).map_or("-".into(), number));
        [number(it.intensity.unwrap_or(0.0))].into_iter().chain(cells).collect()
    };
    Some(TableDocument {
        title: title(document, "polynomials with the pager (figure 2)"),
        header: ["operations per byte".to_string()].into_iter().chain(names).collect(),
        rows: polynomials.iter().map(row).collect(),
    })
}

/// Returns a sentence on the errors of the planner at footprints that it was not fitted to.
fn summary(errors: &[f64]) -> String {
    if errors.is_empty() {
        return "the planner could not be checked on this machine: it needs runs of the pager at \
                twice the budget and at other footprints"
            .into();
    }
    let mean = errors.iter().sum::<f64>() / errors.len() as f64;
    let most = errors.iter().copied().fold(0.0, f64::max);
    format!(
        "planner against this machine, at {} footprints it has not seen: mean error {:.0} %, \
         largest {:.0} %",
        errors.len(),
        100.0 * mean,
        100.0 * most
    )
}

/// Returns the measured efficiencies of the workload `pattern` by footprint, with the efficiencies
/// that the planner predicts.
fn curve(run: &MeasuredRun<'_>, pattern: &str) -> Curve {
    let document = run.document;
    let planner = planner(run, pattern);
    let own = document.rows.iter().filter(|row| row.pattern == pattern && row.way == "dram");
    let point = |dram: &BenchRow| {
        let ratio = dram.ratio;
        let of = |way: &str| find(document, pattern, ratio, way).and_then(|row| row.efficiency);
        MeasuredPoint {
            ratio,
            footprint_bytes: dram.footprint_bytes,
            dram: dram.rate,
            dram_unit: dram.rate_unit.clone(),
            pager: of("pager"),
            swap: of("swap"),
            mmap: of("mmap"),
            planned: planner.as_ref().map(|it| it.efficiency(run, dram)),
        }
    };
    let mut points: Vec<MeasuredPoint> = own.map(point).collect();
    points.sort_by(|a, b| a.ratio.total_cmp(&b.ratio));
    let intensity = pattern.strip_prefix("polynomial-").and_then(|it| it.parse().ok());
    Curve { pattern: pattern.into(), intensity, points }
}

fn find<'a>(
    document: &'a BenchCompareDocument,
    pattern: &str,
    ratio: f64,
    way: &str,
) -> Option<&'a BenchRow> {
    let is_it = |row: &&BenchRow| row.pattern == pattern && row.ratio == ratio && row.way == way;
    document.rows.iter().find(is_it)
}

/// Returns the published efficiency of the workload `pattern` at the footprint nearest to `ratio`.
/// Only footprints on the same side of the budget (a ratio of 1) as `ratio` are considered.
fn nearest<'a>(
    published: &'a [PublishedEfficiency],
    pattern: &str,
    ratio: f64,
) -> Option<&'a PublishedEfficiency> {
    let key = if pattern.starts_with("polynomial") { "polynomial-2" } else { pattern };
    let own = published.iter().filter(|it| it.key == key && (it.ratio > 1.0) == (ratio > 1.0));
    own.min_by(|a, b| (a.ratio - ratio).abs().total_cmp(&(b.ratio - ratio).abs()))
}

/// Returns the reason for a large difference between `ours`, the efficiency on this machine, and
/// the published efficiency; an empty text if the difference is small or has no known reason.
fn remark(paper: Option<&PublishedEfficiency>, ratio: f64, ours: Option<f64>) -> String {
    let Some((paper, ours)) = paper.zip(ours) else { return String::new() };
    let text = match ratio > 1.0 {
        false if paper.low > 1.05 && ours < paper.low => {
            "one memory node: no gain of local placement"
        }
        true if ours < 0.8 * paper.low => {
            "this drive is slower against these processors than four Optane drives against 44 cores"
        }
        true if ours > 1.25 * paper.high => {
            "these processors are slower against this drive, so that computing hides more of it"
        }
        _ => "",
    };
    text.into()
}

/// The model of one workload, which predicts the workload's efficiency at other footprints. The
/// model is fitted to the runs at a footprint of [`SEEN`] times the budget.
struct Planner {
    model: Model,
    kind: Kind,
    setting: Setting,
    /// The compute time: seconds of a round in DRAM at a footprint of [`SEEN`] times the budget.
    compute_s: f64,
    /// The miss curve (traffic by DRAM budget) of a workload without a trace. It follows from the
    /// traffic that was counted at a footprint of [`SEEN`] times the budget.
    line: MissCurve,
    /// The position of the pager's measured traffic between the traffic of optimal replacement and
    /// that of random replacement.
    share: RandomShare,
}

fn planner(run: &MeasuredRun<'_>, pattern: &str) -> Option<Planner> {
    let dram = find(run.document, pattern, SEEN, "dram")?;
    let pager = find(run.document, pattern, SEEN, "pager")?;
    let (kind, setting) = (run.settings)(pattern)?;
    let traffic = Traffic {
        read_bytes: pager.read_bytes? as f64,
        written_bytes: pager.written_bytes? as f64,
    };
    let budget_bytes = run.document.dram_bytes;
    let observed = Run {
        budget_bytes,
        seconds: pager.round_s?,
        dram_s: dram.round_s,
        stall_s: 0.0,
        threads: run.document.threads,
        cpu: None,
        traffic,
        demand_reads: demand_reads(kind, pager, traffic),
    };
    let demand_share = observed.demand_share();
    let point = Point { budget_bytes, traffic };
    let line = curve_of_runs(dram.footprint_bytes, &[point], demand_share);
    let curves = pager_curves(kind, &setting, dram.footprint_bytes, demand_share);
    let share = curves.as_ref().map(|curves| curves.share_of(&point));
    let share = share.unwrap_or_default();
    let curve = curves.map_or_else(|| line.clone(), |curves| curves.curve(share));
    let model = Model::of_run(&observed, &curve, run.drive);
    Some(Planner { model, kind, setting, compute_s: dram.round_s?, line, share })
}

/// Returns the number of page reads in a round that threads wait for. With the pager, threads wait
/// for all page reads of the random pattern. For all other patterns the number is 0, because the
/// pager prefetches their pages.
fn demand_reads(kind: Kind, pager: &BenchRow, traffic: Traffic) -> f64 {
    let is_random = kind == Kind::Random && pager.pager.is_some();
    if is_random { traffic.read_bytes / interleaf_extend_forecast::drive::PAGE_BYTES } else { 0.0 }
}

/// Returns the miss curves (traffic by DRAM budget) of a round of the workload; `None` if the
/// workload has no trace. `demand_share` is the fraction of page reads that threads wait for.
fn pager_curves(
    kind: Kind,
    setting: &Setting,
    footprint: u64,
    demand_share: f64,
) -> Option<PagerCurves> {
    let touches = trace(kind, setting, footprint, BLOCK)?;
    let trace = Trace { block_bytes: BLOCK as u64, touches };
    let curves = PagerCurves::of_trace(&trace, STEPS, SAMPLE, demand_share);
    Some(curves.per_round(rounds(kind)))
}

impl Planner {
    /// Returns the predicted efficiency of the pager at the footprint of `dram`, which is a run in
    /// DRAM. The time of a round of `dram` is taken as the compute time.
    fn efficiency(&self, run: &MeasuredRun<'_>, dram: &BenchRow) -> f64 {
        let footprint = dram.footprint_bytes;
        let budget = run.document.dram_bytes;
        let model = Model { compute_s: dram.round_s.unwrap_or(self.compute_s), ..self.model };
        let curves = pager_curves(self.kind, &self.setting, footprint, model.demand_share);
        let curve = curves.map(|curves| curves.curve(self.share));
        let scaled = footprint as f64 / self.line.footprint_bytes().max(1) as f64;
        match curve {
            Some(curve) => model.forecast(&curve, run.drive, true, budget).efficiency,
            // Without a trace, traffic is assumed to be proportional to the footprint if the ratio
            // of footprint to budget stays the same. The forecast is therefore that of a run at the
            // footprint of the fit, with budget and compute time divided by `scaled`, the ratio of
            // the footprints.
            None => {
                let seen = (budget as f64 / scaled) as u64;
                let compute_s = model.compute_s / scaled;
                let model = Model { compute_s, ..model };
                model.forecast(&self.line, run.drive, true, seen).efficiency
            }
        }
    }
}
