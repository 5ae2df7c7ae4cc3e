//! Reproduces the paper on Intel Memory Drive Technology: DRAM as a cache of Optane drives, for
//! scientific programs.
//!
//! The paper compares a node of 256 GB of DRAM and four Optane drives with a node of 1536 GB of
//! DRAM. This module computes the paper's efficiencies with the planner
//! (`interleaf_extend_forecast`). The traffic of each workload comes from its trace, and the time
//! of the drives from their data sheet. The time of both nodes comes from a roofline with the
//! limits that the paper states ([`node`]). Only one constant of Hartree-Fock is fitted to the
//! paper ([`hartree_fock`]). The paper does not publish the product's replacement policy. Our value
//! is for random replacement, and each note has the values for LRU and optimal replacement.
//!
//! [`measured`] adds the results of runs on this machine, which `interleaf reproduce imdt` makes.

mod figures;
mod hartree_fock;
mod measured;
mod node;
mod points;

pub use measured::{MeasuredRun, with_measured};

use super::{advance, published::table};
use hartree_fock::HartreeFock;
use interleaf_console::Failure;
use interleaf_job::Progress;
use interleaf_record::reproduce::{Published, ReproduceRow, StudyDocument, TableDocument};
use interleaf_report::number;
use node::{Predicted, StudyNode};
use rayon::prelude::*;
use serde::Deserialize;

pub const NAME: &str = "imdt";

/// Number of progress steps: one for each workload.
pub(super) const STEPS: u64 = 11;

const TITLE: &str = "Intel Memory Drive Technology: efficiency of DRAM as a cache of Optane drives";
const SOURCE: &str = "Mironov, Alexeev, Mulligan, D'mello, Kudryavtsev: Evaluation of Intel Memory \
                      Drive Technology Performance for Scientific Applications, MCHPC'18";
const EFFICIENCY: &str = include_str!("../../../reproduce/imdt/efficiency.csv");
const WORKLOADS: &str = include_str!("../../../reproduce/imdt/workloads.csv");

/// Footprints at which the efficiency is computed, as multiples of the cache, which is the DRAM of
/// the node with drives.
const RATIOS: [f64; 9] = [0.25, 0.5, 1.0, 1.25, 1.5, 1.95, 2.0, 3.0, 4.0];

/// Degrees of the polynomial workloads in the paper's figure 2. A higher degree needs more
/// operations per byte.
const DEGREES: [u32; 9] = [16, 64, 128, 256, 512, 768, 1024, 2048, 8192];

/// The degree of the polynomial workloads wherever the study does not vary the degree.
const DEGREE: u32 = 1024;

/// A row of `efficiency.csv`: the published efficiency of a workload at a footprint, or a published
/// range (from `low` to `high`).
#[derive(Clone, Debug, Deserialize)]
struct PublishedEfficiency {
    key: String,
    section: String,
    what: String,
    ratio: f64,
    low: f64,
    high: f64,
    words: String,
}

impl PublishedEfficiency {
    fn middle(&self) -> f64 {
        f64::midpoint(self.low, self.high)
    }

    /// Formats the published value, or the published range.
    fn text(&self) -> String {
        match self.low == self.high {
            true => number(self.low),
            false => format!("{}..{}", number(self.low), number(self.high)),
        }
    }
}

/// An ordering that the paper states: the workload `first` is more efficient than the workload
/// `second`. Each is a pair: the workload's key, and the ratio of its footprint to DRAM.
struct Ordering {
    words: &'static str,
    first: (&'static str, f64),
    second: (&'static str, f64),
    /// The ordering holds if the efficiency of `first` is at least this number times the efficiency
    /// of `second`.
    least: f64,
}

const fn ordering(
    words: &'static str,
    first: (&'static str, f64),
    second: (&'static str, f64),
    least: f64,
) -> Ordering {
    Ordering { words, first, second, least }
}

/// The comparisons of efficiencies in the text of the paper. Each has a summary of the paper's
/// statement, the more efficient workload, the less efficient workload, and the least ratio of the
/// two efficiencies. A workload is a pair of its key and its footprint, in multiples of the node's
/// DRAM.
const ORDERINGS: [Ordering; 12] = [
    ordering("STREAM is the worst case: FFT", ("fft-3d", 4.0), ("stream", 1.95), 1.0),
    ordering("STREAM is the worst case: LU", ("lu", 1.25), ("stream", 1.95), 1.0),
    ordering("STREAM is the worst case: AstroPhi", ("gas", 4.0), ("stream", 1.95), 1.0),
    ordering("STREAM is the worst case: Intel-QS", ("qft", 4.0), ("stream", 1.95), 1.0),
    ordering("GEMM by tiles beats FFT", ("gemm-tiled", 4.0), ("fft-3d", 4.0), 2.0),
    ordering("tiles raise LU to three times", ("lu-tiled", 2.0), ("lu", 1.25), 2.0),
    ordering("tiles raise LU, missing pivots do not", ("lu-tiled", 2.0), ("lu-plain", 1.25), 2.0),
    ordering("PARDISO is the best application", ("cholesky", 3.0), ("gas", 4.0), 1.0),
    ordering("AstroPhi beats FFT", ("gas", 4.0), ("fft-3d", 4.0), 1.0),
    ordering("Intel-QS beats FFT almost twice", ("qft", 4.0), ("fft-3d", 4.0), 1.0),
    ordering("degree 1024 beats STREAM", ("polynomial-1", 2.0), ("stream", 1.95), 4.0),
    ordering("LU gains in DRAM, not beyond", ("lu", 0.5), ("lu", 1.25), 2.0),
];

/// Predicts the efficiencies of the paper's machine with the planner, and compares them with the
/// published efficiencies.
pub(super) fn reproduce(progress: &dyn Progress) -> Result<StudyDocument, Failure> {
    let node = StudyNode::new()?;
    let workloads: Vec<node::Workload> = table("workloads.csv", WORKLOADS)?;
    let predicted: Result<Vec<Predicted>, Failure> = workloads
        .par_iter()
        .map(|workload| {
            let predicted = node.predicted(workload)?;
            advance(progress, 1)?;
            Ok(predicted)
        })
        .collect();
    let predicted = predicted?;
    let published: Vec<PublishedEfficiency> = table("efficiency.csv", EFFICIENCY)?;
    let gamess = HartreeFock::new(node.drive);
    let rows = published.iter().map(|row| compared(row, &predicted, &gamess)).collect();
    let fitted = vec![
        format!(
            "Hartree-Fock: computing an integral takes {} times as long as adding it, from the \
             gain of {} of small stacks with integrals in memory",
            number(gamess.compute_ratio()),
            hartree_fock::GAIN
        ),
        "of the other workloads none: shares of the peak and of remote accesses are assumed in \
         reproduce/imdt/workloads.csv, each with its basis"
            .into(),
    ];
    let mut study = StudyDocument::new(NAME, TITLE, SOURCE, rows, fitted);
    study.tables = vec![orderings(&predicted)];
    study.tables.extend(degrees(&predicted));
    study.remarks = vec![
        "not predicted: LAMMPS, whose published efficiencies are above 1 below the size of DRAM, \
         and 0.5 for large footprints (section 5.3.3); it is a recipe of `interleaf bench list`"
            .into(),
        "GAMESS is a formula here (figure 6)".into(),
        "the figures are those of the planner on the study's machine, whose drives are \
         devices/drives/p4800x-4.toml; `interleaf reproduce imdt` also measures this machine"
            .into(),
    ];
    study.figures = figures::all(&predicted, &gamess, &published);
    Ok(study)
}

fn compared(
    published: &PublishedEfficiency,
    predicted: &[Predicted],
    gamess: &HartreeFock,
) -> ReproduceRow {
    let PublishedEfficiency { key, ratio, words, low, high, .. } = published;
    let [ours, lru, optimal] = match predicted.iter().find(|it| it.key == *key) {
        Some(it) => it.efficiency(*ratio, DEGREE),
        None => gamess.efficiency(key, *ratio),
    };
    let what = format!("{}, {ratio} x DRAM", published.what);
    let unit = "of DRAM only";
    let between = Published::between(*low, *high);
    let row = ReproduceRow::new(&published.section, what, unit, between, ours)
        .used_for_fit(key == hartree_fock::AGAINST_DIRECT && *ratio < 1.0);
    let note = format!("{words}; LRU {}, optimal replacement {}", number(lru), number(optimal));
    row.with_note(note).explained(|| reason(key, *ratio, ours < *low).into())
}

/// Returns the reason for an error above 5 % in the predicted efficiency of the workload `key`,
/// whose footprint is `ratio` times the node's DRAM. `is_below` is true if the prediction is below
/// the published range.
fn reason(key: &str, ratio: f64, is_below: bool) -> &'static str {
    match (key, ratio > 1.0, is_below) {
        ("stream", true, _) => {
            "the paper's bandwidth is rounded to 10 GB/s, and the share of the arrays that the \
             product keeps is not known"
        }
        (_, false, _) => {
            "the paper explains efficiencies above 1 with the placement of pages on the node that \
             uses them; how many accesses are remote without it is assumed"
        }
        ("cholesky", ..) => {
            "the gain is that of local placement on a matrix that is compute-bound here; \
             PARDISO's own placement is not known"
        }
        ("fft-3d" | "gas", ..) => {
            "the rate with DRAM only is not printed; a node that reaches less of its bandwidth, as \
             without placement, has a higher efficiency"
        }
        ("qft", ..) => {
            "Intel-QS applies hundreds of phase gates one by one and copies messages between \
             ranks; both slow the node with DRAM only, which is not printed"
        }
        ("lu" | "lu-plain", ..) => {
            "the product may keep less of the matrix than random replacement does, as LRU would"
        }
        (hartree_fock::KEY | hartree_fock::AGAINST_DIRECT, ..) => {
            "the time of adding an integral is assumed, and so is the footprint of the largest \
             stacks"
        }
        ("gemm-tiled" | "lu-tiled", ..) => {
            "the time that the product's own software takes is not published, and not modelled"
        }
        _ => "not explained",
    }
}

/// Returns the paper's figure 2 as two tables, for polynomial workloads with one stream and with
/// two streams: the efficiency by degree and footprint.
fn degrees(predicted: &[Predicted]) -> Vec<TableDocument> {
    let of = |key: &str, streams: &str| {
        let polynomial = predicted.iter().find(|it| it.key == key)?;
        let names = RATIOS.iter().map(|ratio| format!("{ratio} x"));
        let rows = DEGREES.iter().map(|degree| {
            let cells = RATIOS.iter().map(|at| number(polynomial.efficiency(*at, *degree)[0]));
            [degree.to_string(), number(f64::from(*degree) / 4.0)]
                .into_iter()
                .chain(cells)
                .collect()
        });
        Some(TableDocument {
            title: format!("Efficiency of polynomials, {streams}, by footprint (figure 2)"),
            header: ["degree".into(), "operations per byte".into()]
                .into_iter()
                .chain(names)
                .collect(),
            rows: rows.collect(),
        })
    };
    let streams = [("polynomial-1", "one stream"), ("polynomial-2", "two streams")];
    streams.into_iter().filter_map(|(key, streams)| of(key, streams)).collect()
}

/// Returns a table that lists the orderings that the paper states, and for each whether it holds
/// for the predicted efficiencies.
fn orderings(predicted: &[Predicted]) -> TableDocument {
    let of = |(key, ratio): (&str, f64)| {
        let found = predicted.iter().find(|it| it.key == key);
        found.map_or(f64::NAN, |it| it.efficiency(ratio, DEGREE)[0])
    };
    let rows = ORDERINGS.iter().map(|ordering| {
        let (first, second) = (of(ordering.first), of(ordering.second));
        let holds = first >= ordering.least * second;
        let name = |(key, ratio): (&str, f64)| format!("{key} at {ratio} x");
        vec![
            ordering.words.into(),
            format!("{}: {}", name(ordering.first), number(first)),
            format!("{}: {}", name(ordering.second), number(second)),
            if holds { "holds".into() } else { "does not hold".into() },
        ]
    });
    TableDocument {
        title: "Orderings of the study, by the planner".into(),
        header: ["ordering", "more efficient", "less efficient", ""].map(String::from).into(),
        rows: rows.collect(),
    }
}
