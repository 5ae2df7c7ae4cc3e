//! Reproduces slides that compare two NVRAM cards, DRAM with flash and STT-MRAM alone: IOPS and
//! latency of 4 KB random writes and reads by queue depth.
//!
//! The slides print no number of the four comparisons, only their conclusions: "the same
//! performance" and "almost the same latency". This study expresses each conclusion as a range for
//! the ratio of the MRAM card to the DRAM card at each queue depth. The simulated IOPS and
//! latencies are rows without a published number.

mod figures;

use super::{advance, published::table};
use interleaf_card::{
    card::Card,
    load::{Access, Group, Load, Outcome, Stop},
    settings::{Component, Ideal, Settings},
};
use interleaf_console::Failure;
use interleaf_job::Progress;
use interleaf_record::reproduce::{Published, ReproduceRow, StudyDocument};
use interleaf_report::number;
use rayon::prelude::*;
use serde::Deserialize;
use std::collections::BTreeMap;

pub(super) const NAME: &str = "nvram";

/// Number of progress steps: one for each simulated point.
pub(super) const STEPS: u64 = (2 * 2 * DEPTHS.len() * 2 + 1) as u64;

const TITLE: &str = "NVRAM cards of DRAM with flash and of STT-MRAM: IOPS and latency by depth";
const SOURCE: &str = "Zuolo, Zambelli, Hulett, Cooke, Micheloni, Olivo: IOPS and QoS Analysis of \
                      DRAM-based and MRAM-based NVRAM Cards, Flash Memory Summit 2017";
const CONCLUSIONS: &str = include_str!("../../../reproduce/nvram/conclusions.csv");
const OUTSIDE: &str = include_str!("../../../reproduce/nvram/outside.csv");

const DRAM: &str = "flashtec-dram";
const MRAM: &str = "all-mram";
/// The built-in card with MRAM devices of 1 Gb, as on nvNITRO cards.
const MRAM_1GB: &str = "all-mram-1gb";

const DEPTHS: [u32; 9] = [1, 2, 4, 8, 16, 32, 64, 128, 256];
const ACCESSES: [Access; 2] = [Access::RandomWrite, Access::RandomRead];

/// Simulated times, fs: 1 ms of ramp before the measurement, and 20 ms of measurement.
const RAMP_FS: u64 = 1_000_000_000_000;
const RUNTIME_FS: u64 = 20_000_000_000_000;

/// A row of the published tables: a conclusion of the slides, as a range of a ratio or a value.
#[derive(Deserialize)]
struct Conclusion {
    key: String,
    section: String,
    what: String,
    unit: String,
    low: f64,
    high: f64,
    words: String,
}

/// A simulated point: the card, the access and the queue depth. If `is_memory_ideal` is true, the
/// card's memory does not limit the card.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct CardPoint {
    card: &'static str,
    is_write: bool,
    depth: u32,
    is_memory_ideal: bool,
}

/// The result of a simulated point: IOPS, mean latency, and the name of the component that limits
/// the card.
struct Simulated {
    iops: f64,
    latency_us: f64,
    bound_by: &'static str,
}

struct CardResults(BTreeMap<CardPoint, Simulated>);

impl CardResults {
    fn of(&self, card: &'static str, access: Access, depth: u32) -> Option<&Simulated> {
        self.0.get(&CardPoint::new(card, access, depth))
    }

    /// Returns the ratio of the MRAM card to the DRAM card in the quantity that `of` returns: IOPS
    /// or latency.
    fn ratio(
        &self,
        access: Access,
        depth: u32,
        is_memory_ideal: bool,
        of: fn(&Simulated) -> f64,
    ) -> f64 {
        let value = |card| {
            let point = CardPoint { is_memory_ideal, ..CardPoint::new(card, access, depth) };
            self.0.get(&point).map_or(f64::NAN, of)
        };
        value(MRAM) / value(DRAM)
    }
}

impl CardPoint {
    fn new(card: &'static str, access: Access, depth: u32) -> Self {
        let is_write = access == Access::RandomWrite;
        Self { card, is_write, depth, is_memory_ideal: false }
    }

    fn simulated(self) -> Result<Simulated, Failure> {
        let card = Card::by_name(self.card)
            .map_err(|why| Failure::new(why.to_string(), why.hint().to_string()))?;
        let access = if self.is_write { Access::RandomWrite } else { Access::RandomRead };
        let group = Group { access, depth: self.depth, ..Group::default() };
        let load =
            Load { groups: vec![group], ramp_fs: RAMP_FS, stop: Stop::Time(RUNTIME_FS), seed: 1 };
        let mut settings = Settings::default();
        if self.is_memory_ideal {
            settings.ideal = Ideal::of(Component::Memory);
        }
        let outcome: Outcome = load
            .run(&card, &settings, &mut ())
            .map_err(|why| Failure::new(why.to_string(), why.hint))?;
        Ok(Simulated {
            iops: outcome.iops(),
            latency_us: 1e-3 * outcome.mean_ns(),
            bound_by: outcome.bound_by.name(),
        })
    }
}

pub(super) fn reproduce(progress: &dyn Progress) -> Result<StudyDocument, Failure> {
    let simulated = |point: &CardPoint| {
        let result = point.simulated()?;
        advance(progress, 1)?;
        Ok((*point, result))
    };
    let results: Result<BTreeMap<_, _>, Failure> = points().par_iter().map(simulated).collect();
    let results = CardResults(results?);
    let conclusions: Vec<Conclusion> = table("conclusions.csv", CONCLUSIONS)?;
    let mut rows = vec![];
    for conclusion in &conclusions {
        rows.extend(DEPTHS.map(|depth| compared(&results, conclusion, depth)));
    }
    for outside in table::<Conclusion>("outside.csv", OUTSIDE)? {
        let deepest = DEPTHS[DEPTHS.len() - 1];
        let ours = results.of(MRAM_1GB, Access::RandomWrite, deepest);
        let ours = ours.map_or(f64::NAN, |point| point.iops);
        let published = Published::between(outside.low, outside.high);
        let what = format!("{}, depth {deepest}", outside.what);
        let row = ReproduceRow::new(&outside.section, what, &outside.unit, published, ours);
        rows.push(row.with_note(outside.words));
    }
    rows.extend(unprinted(&results));
    let fitted = vec![
        "none: the slides print no number to fit to. Each number of a card that is assumed says \
         so in devices/cards/"
            .into(),
    ];
    let mut study = StudyDocument::new(NAME, TITLE, SOURCE, rows, fitted);
    study.remarks = remarks(&conclusions, &study);
    study.figures = figures::all(&results);
    Ok(study)
}

/// Returns all points that the study simulates: each combination of card, access and queue depth,
/// with and without the limits of the card's memory, and one point of the card [`MRAM_1GB`].
fn points() -> Vec<CardPoint> {
    let mut points = vec![];
    for card in [DRAM, MRAM] {
        for access in ACCESSES {
            for depth in DEPTHS {
                let point = CardPoint::new(card, access, depth);
                points.extend([point, CardPoint { is_memory_ideal: true, ..point }]);
            }
        }
    }
    points.push(CardPoint::new(MRAM_1GB, Access::RandomWrite, DEPTHS[DEPTHS.len() - 1]));
    points
}

/// Returns the access and the quantity (latency or IOPS) that the conclusion `key` is about.
fn quantity(key: &str) -> (Access, fn(&Simulated) -> f64) {
    let access = if key.ends_with("write") { Access::RandomWrite } else { Access::RandomRead };
    if key.starts_with("latency") {
        (access, |point| point.latency_us)
    } else {
        (access, |point| point.iops)
    }
}

/// Makes a row that compares a conclusion with the simulated ratio of the MRAM card to the DRAM
/// card at a queue depth. If the ratio is outside the published range, a run without the limits of
/// the card's memory shows whether the memory is the cause.
fn compared(results: &CardResults, conclusion: &Conclusion, depth: u32) -> ReproduceRow {
    let (access, of) = quantity(&conclusion.key);
    let ours = results.ratio(access, depth, false, of);
    let published = Published::between(conclusion.low, conclusion.high);
    let what = format!("{}, depth {depth}", conclusion.what);
    let row = ReproduceRow::new(&conclusion.section, what, &conclusion.unit, published, ours);
    let words = &conclusion.words;
    if row.error == Some(0.0) {
        return row.with_note(words);
    }
    let ideal = results.ratio(access, depth, true, of);
    let cause = match (conclusion.low..=conclusion.high).contains(&ideal) {
        true => "the cause is the memory",
        false => "the memory is not the only cause",
    };
    let ideal = number(ideal);
    row.with_note(format!("{words}; {cause}: with memories without limits the ratio is {ideal}"))
}

/// Makes rows of the IOPS and the latency of both cards at each queue depth. These rows have no
/// published number, because the slides plot IOPS and latency without printing numbers.
fn unprinted(results: &CardResults) -> Vec<ReproduceRow> {
    let mut rows = vec![];
    for (access, name, page) in
        [(Access::RandomWrite, "write", 11), (Access::RandomRead, "read", 12)]
    {
        for card in [DRAM, MRAM] {
            for depth in DEPTHS {
                let Some(point) = results.of(card, access, depth) else { continue };
                let what = format!("{card}, 4 KB random {name}, depth {depth}");
                let row = |quantity: &str, unit: &str, ours: f64, page: u32| {
                    let what = format!("{quantity}, {what}");
                    let section = "figures without printed numbers";
                    let row = ReproduceRow::new(section, what, unit, Published::NotPrinted, ours);
                    row.with_note(format!("page {page} has a chart without numbers in its text"))
                };
                let limited = format!("limited by the {}", point.bound_by);
                let iops = row("IOPS", "IOPS", point.iops, page);
                let note = format!("{}; {limited}", iops.note.clone().unwrap_or_default());
                rows.push(iops.with_note(note));
                rows.push(row("mean latency", "us", point.latency_us, page + 2));
            }
        }
    }
    rows
}

/// Returns a sentence for each conclusion of the slides, with the number of queue depths at which
/// the conclusion holds.
fn remarks(conclusions: &[Conclusion], study: &StudyDocument) -> Vec<String> {
    let mut remarks: Vec<String> = conclusions
        .iter()
        .map(|conclusion| {
            let own = study.rows.iter().filter(|row| row.what.starts_with(&conclusion.what));
            let (all, held) = own.clone().fold((0, 0), |(all, held), row| {
                (all + 1, held + u32::from(row.error == Some(0.0)))
            });
            let farthest = own.max_by(|a, b| (a.ours - 1.0).abs().total_cmp(&(b.ours - 1.0).abs()));
            let farthest = farthest.map_or(f64::NAN, |row| row.ours);
            format!(
                "{}: holds at {held} of {all} depths; the ratio that is farthest from 1 is {}",
                conclusion.words,
                number(farthest)
            )
        })
        .collect();
    remarks.push(
        "page 10 claims a simulation error below 1 % against a measured card: not checkable, \
         since the measured values are not in the text"
            .into(),
    );
    remarks
}
