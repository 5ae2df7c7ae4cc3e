//! All runs of one pattern on one kind of memory (way), and the summary of the runs.

use super::child::{Done, RunOutcome};
use crate::comparison::{memory_kind::MemoryKind, pattern::Pattern};
use interleaf_model::statistics::median;
use interleaf_record::{
    all_rounded,
    bench::BenchDocument,
    bench_compare::{BenchRow, PagerDocument, TriedDocument},
    rounded,
};

/// The error message for a run that the OOM killer ended.
pub(super) const OOM_KILLED: &str = "the kernel killed it: its control group had no memory left";

#[derive(Debug)]
pub(super) struct Series {
    pattern: &'static Pattern,
    ratio: f64,
    way: MemoryKind,
    runs: Vec<MeasuredRun>,
    /// The errors of the failed runs, as pairs of (advice (`madvise`) of the run, message).
    problems: Vec<(Option<&'static str>, String)>,
}

#[derive(Debug)]
struct MeasuredRun {
    hint: Option<&'static str>,
    document: BenchDocument,
    used_max: Option<u64>,
    limit: Option<u64>,
    pager: Option<PagerDocument>,
}

impl Series {
    pub(super) fn new(pattern: &'static Pattern, ratio: f64, way: MemoryKind) -> Self {
        Self { pattern, ratio, way, runs: vec![], problems: vec![] }
    }

    pub(super) fn way(&self) -> MemoryKind {
        self.way
    }

    /// Returns the advice (`madvise`) for each run of the next round. On a mapped file, the first
    /// round has a run for each advice of the pattern, and each later round one run with the advice
    /// of the fastest run. Other kinds of memory have one run without advice. After a first round
    /// in which all runs failed, there are no runs.
    pub(super) fn hints(&self) -> Vec<Option<&'static str>> {
        let all: Vec<Option<&'static str>> = match self.way {
            MemoryKind::Mmap => self.pattern.hints.iter().map(|hint| Some(*hint)).collect(),
            _ => vec![None],
        };
        if self.runs.is_empty() && self.problems.is_empty() {
            return all;
        }
        // If all runs of the first round failed, later runs would fail too.
        self.best().into_iter().collect()
    }

    pub(super) fn add(&mut self, hint: Option<&'static str>, ended: RunOutcome) {
        match ended {
            RunOutcome::Done(done) => {
                let Done { document, used_max, limit, pager } = *done;
                self.runs.push(MeasuredRun { hint, document, used_max, limit, pager });
            }
            RunOutcome::TooLong => self.problems.push((hint, "it took too long".into())),
            RunOutcome::Failed(why) => self.problems.push((hint, why)),
            RunOutcome::OomKilled => self.problems.push((hint, OOM_KILLED.into())),
            RunOutcome::Signal(_) => {}
        }
    }

    /// Returns the advice of the fastest run. The outer option is `None` if no run has succeeded.
    fn best(&self) -> Option<Option<&'static str>> {
        let rate = |run: &&MeasuredRun| run.document.rate;
        let best = self.runs.iter().max_by(|a, b| rate(a).total_cmp(&rate(b)));
        best.map(|run| run.hint)
    }

    pub(super) fn document(&self) -> BenchRow {
        let best = self.best().flatten();
        let runs: Vec<&MeasuredRun> = self.runs.iter().filter(|run| run.hint == best).collect();
        let of = |value: &dyn Fn(&BenchDocument) -> Option<f64>| {
            median(runs.iter().filter_map(|run| value(&run.document)).collect())
        };
        let rounds = |it: &BenchDocument| it.round_seconds.len().max(1) as f64;
        let drive = |bytes: &dyn Fn(&BenchDocument) -> Option<u64>| {
            of(&|it| Some(bytes(it)? as f64 / rounds(it))).map(|bytes| bytes as u64)
        };
        let last = runs.last().map(|run| &run.document);
        let tried = |run: &MeasuredRun| {
            let hint = run.hint?.to_string();
            Some(TriedDocument { hint, rate: run.document.rate })
        };
        let problems = self.problems.iter().map(|(hint, why)| match hint {
            Some(hint) => format!("{hint}: {why}"),
            None => why.clone(),
        });
        BenchRow {
            pattern: self.pattern.name.into(),
            ratio: self.ratio,
            footprint_bytes: last.map_or(0, |it| it.footprint_bytes),
            way: self.way.name().into(),
            hint: best.map(String::from),
            tried: self.runs.iter().filter_map(tried).collect(),
            rate: of(&|it| Some(it.rate)).map(rounded),
            rate_unit: self.pattern.kind.unit().text().into(),
            rates: all_rounded(&runs.iter().map(|run| run.document.rate).collect::<Vec<_>>()),
            round_s: of(&|it| Some(it.seconds / rounds(it))).map(rounded),
            efficiency: None,
            of_ceiling: None,
            drive_busy: None,
            cpus_busy: of(&|it| Some(it.cpu_s / it.seconds)).map(rounded),
            read_bytes: drive(&|it| Some(it.drive.as_ref()?.read_bytes)),
            written_bytes: drive(&|it| Some(it.drive.as_ref()?.written_bytes)),
            limit_bytes: runs.iter().filter_map(|run| run.limit).max(),
            used_max_bytes: runs.iter().filter_map(|run| run.used_max).max(),
            resident_max_bytes: runs.iter().filter_map(|run| run.document.resident_max_bytes).max(),
            verified: !runs.is_empty() && runs.iter().all(|run| run.document.verified),
            pager: runs.last().and_then(|run| run.pager.clone()),
            same_as_dram: None,
            checksum: last.map_or(String::new(), |it| it.checksum.clone()),
            problem: Some(problems.collect::<Vec<_>>().join("; ")).filter(|it| !it.is_empty()),
        }
    }
}

/// Returns the peak memory of the pager's last run, bytes. It includes the program's own memory.
pub(super) fn memory_of_pager(all: &[Series]) -> Option<u64> {
    all.iter().find(|series| series.way == MemoryKind::Pager)?.runs.last()?.used_max
}
