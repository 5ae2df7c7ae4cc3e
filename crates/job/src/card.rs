//! The job of `interleaf simulate card` simulates NVRAM cards under loads that options of fio
//! describe.

mod access;
mod groups;
mod power;

pub use power::Moments;

use crate::{Progress, check};
use groups::Group;
use interleaf_card::{
    card::Card,
    fio::{FioOptions, Job, memory::MemoryOptions, value::Depths},
    load::Outcome,
    memory_mode::{Initiator, MemoryOutcome},
    settings::Settings,
};
use interleaf_console::Failure;
use interleaf_model::format::shell_text;
use interleaf_record::{
    card::{CardDocument, CardPoint, CardPowerFailure},
    rounded,
};
use rayon::prelude::*;
use std::path::PathBuf;

/// Minimum number of I/Os for a meaningful 99.9999th percentile of latency: of a million I/Os, one
/// is slower than this percentile.
const IOS_OF_TAIL: u64 = 1_000_000;

/// A load, the cards that it runs on, and all options of the simulation.
#[derive(Clone, Debug)]
pub struct CardJob {
    /// The cards that the load runs on, with distinct names.
    pub cards: Vec<Card>,
    /// The fio job files that describe the load. If there are none, [`Self::options`] describes it.
    pub files: Vec<PathBuf>,
    /// Options of fio that replace the same options of every fio job. The queue depths are in
    /// [`Self::depths`].
    pub options: FioOptions,
    /// Queue depths, in outstanding requests. Each fio job is simulated at each of these depths.
    /// With `None`, each fio job is simulated at its own depth.
    pub depths: Option<Depths>,
    /// The initiator of loads and stores to the BAR; `None` for accesses through NVMe.
    pub initiator: Option<Initiator>,
    /// The number of stores to the BAR after which a thread reads from the BAR. The read makes the
    /// earlier stores durable.
    pub fsync: Option<u32>,
    /// The moments at which the power fails; `None` to simulate no power failure.
    pub power_failures: Option<Moments>,
    /// True if the results become the curves of a platform (`--curves`). Without job files, default
    /// queue depths replace a missing depth, and default patterns a missing pattern. `fsync`,
    /// rates, fio jobs that run together and several block sizes are errors.
    pub for_curves: bool,
    /// True if the user gave fio's option `direct`, which makes fio bypass the page cache.
    pub is_direct: bool,
}

/// The results of a group of fio jobs on a card. `Storage` has the results of accesses through
/// NVMe, `Memory` those of loads and stores to the BAR.
enum GroupResult {
    Storage(Box<Outcome>, Option<CardPowerFailure>),
    /// The options of loads and stores to the BAR, and the outcome of each fio job.
    Memory(MemoryOptions, Vec<MemoryOutcome>),
}

/// A card job whose options were checked against each other and against each card.
pub struct CheckedCardJob<'a> {
    job: &'a CardJob,
    memory: Option<MemoryOptions>,
    groups: Vec<Group>,
    seed: u64,
}

impl CardJob {
    /// Creates a job that simulates the load `options` on `cards`, through NVMe, with defaults for
    /// all other options.
    pub fn new(cards: Vec<Card>, options: FioOptions) -> Self {
        Self {
            cards,
            files: vec![],
            options,
            depths: None,
            initiator: None,
            fsync: None,
            power_failures: None,
            for_curves: false,
            is_direct: false,
        }
    }

    /// Checks the options of the job against each other and against each card.
    ///
    /// # Errors
    /// When an option is invalid, has no meaning for the kind of access (`--access`), or does not
    /// fit a card. The error names the first such option.
    pub fn checked(&self) -> Result<CheckedCardJob<'_>, Failure> {
        let memory = access::memory_options(self)?;
        let groups = groups::groups(self, memory.as_ref())?;
        power::check_moments(self.power_failures, &groups)?;
        if self.for_curves {
            groups::check_curves(&groups)?;
        }
        let seed = groups::seed(&groups)?;
        Ok(CheckedCardJob { job: self, memory, groups, seed })
    }
}

impl CheckedCardJob<'_> {
    /// Returns a command line for each point of the document. The command simulates only this
    /// point. `card` is the name or the file of the job's only card.
    pub fn commands(&self, card: &str) -> Vec<String> {
        let jobs = self.groups.iter().flat_map(|group| &group.jobs);
        let options = jobs.map(|job| groups::options(job, self.job.initiator));
        let card = shell_text::word(card);
        options.map(|it| format!("interleaf simulate card --card {card} {it}")).collect()
    }

    /// Simulates each group of fio jobs on each card.
    ///
    /// # Errors
    /// When a card does not support a load, when no I/O ends within a measurement, or when
    /// `progress` stops the job.
    pub fn run(&self, progress: &dyn Progress) -> Result<CardDocument, Failure> {
        let (cards, groups, moments) = (&self.job.cards, &self.groups, self.job.power_failures);
        let runs: Vec<(&Card, &Group)> =
            cards.iter().flat_map(|card| groups.iter().map(move |group| (card, group))).collect();
        progress.begin(runs.len() as u64, "points");
        let run = |(card, group): &(&Card, &Group)| {
            check(progress)?;
            let result = match (self.memory, moments) {
                (Some(options), _) => {
                    let each = group.jobs.iter().map(|job| access::simulated(card, job, &options));
                    each.collect::<Result<_, _>>().map(|each| GroupResult::Memory(options, each))
                }
                (None, None) => simulated(card, &group.jobs)
                    .map(|outcome| GroupResult::Storage(Box::new(outcome), None)),
                (None, Some(moments)) => {
                    power::simulated(card, group, moments).map(|(outcome, failure)| {
                        GroupResult::Storage(Box::new(outcome), Some(failure))
                    })
                }
            };
            progress.advance(1);
            result
        };
        let results: Result<Vec<_>, Failure> = runs.par_iter().map(run).collect();
        progress.end();
        let mut document = CardDocument::new(cards, self.seed);
        for ((card, group), found) in runs.iter().zip(results?) {
            match found {
                GroupResult::Storage(outcome, failure) => {
                    document.add(card, group.number, &group.jobs, &outcome);
                    failure.into_iter().for_each(|failure| document.add_power_failure(failure));
                }
                GroupResult::Memory(options, outcomes) => {
                    for (job, outcome) in group.jobs.iter().zip(&outcomes) {
                        document.add_memory(card, group.number, job, &options, outcome);
                    }
                }
            }
        }
        check_counts(&document)?;
        document.notes = notes(&document);
        Ok(document)
    }
}

/// Fails if a point of the document has no I/O, and so neither a bandwidth nor latencies.
fn check_counts(document: &CardDocument) -> Result<(), Failure> {
    let Some(point) = document.points.iter().find(|point| point.ios == 0) else { return Ok(()) };
    let CardPoint { card, iodepth, measured_s, .. } = point;
    let (title, ms) = (point.title(), rounded(1e3 * measured_s));
    Err(Failure::new(
        format!("{card}: {title}, depth {iodepth}: no I/O ended in the {ms} ms of the measurement"),
        "raise --runtime",
    ))
}

/// Returns the cards that `names` lists. Each entry is the name of a built-in card, or the path of
/// a card file.
///
/// # Errors
/// When a card is unknown, a file is invalid, or a card is given twice.
pub fn cards(names: &[String]) -> Result<Vec<Card>, Failure> {
    let mut cards: Vec<Card> = vec![];
    for name in names {
        let card = interleaf_catalog::card(name)?;
        if cards.iter().any(|known| known.name == card.name) {
            return Err(Failure::new(
                format!("--card {name}: there are two cards \"{}\"", card.name),
                "name each card once, or change the name in one of the files",
            ));
        }
        cards.push(card);
    }
    Ok(cards)
}

fn simulated(card: &Card, jobs: &[Job]) -> Result<Outcome, Failure> {
    let load = groups::load(jobs, card)?;
    load.run(card, &Settings::default(), &mut ())
        .map_err(|why| Failure::new(why.to_string(), why.hint))
}

/// Returns a note with the number of points that have fewer than [`IOS_OF_TAIL`] I/Os, too few for
/// the 99.9999th percentile; no note if there are no such points.
fn notes(document: &CardDocument) -> Vec<String> {
    let few = document.points.iter().filter(|point| point.ios < IOS_OF_TAIL).count();
    let note = || {
        format!(
            "{few} of {} points have fewer than a million I/Os: their p99.9999 is the largest \
             latency or near it; a longer --runtime gives more",
            document.points.len()
        )
    };
    (few > 0).then(note).into_iter().collect()
}
