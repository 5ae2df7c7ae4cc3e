//! Searches for the best static weights of a command, in a few runs.

mod proposal;

use crate::{
    RunsEnd,
    log::{self, Log},
    placed::{self, PlacedCommand},
    restore::report_restored,
    tree_end::Orphans,
};
use indicatif::ProgressBar;
use interleaf_console::{Failure, output, system};
use interleaf_linux::{
    launch::command::{Running, Signals},
    machine::{id_list::IdList, topology::Machine},
    place::{
        journal::Journal,
        placement::{Placement, PlacementError},
    },
    process::allowed_nodes,
    root::Root,
};
use interleaf_model::{
    tune::{Run, Search, Step},
    units::{Bandwidth, Percent},
    weights::Weights,
};
use interleaf_record::{
    run::RunDocument,
    tune::{TrialDocument, TrialReason, TuneDocument, TuneRequest, TuneStop},
    warning::Warning,
};
use regex_lite::Regex;
use std::{
    ffi::OsString,
    path::PathBuf,
    time::{Duration, Instant},
};

/// Value of [`PlacedCommand::audit_cost`]: placement audits take at most 1 % of the command's time,
/// so that they do not distort the measurement.
const AUDIT_COST: u32 = 100;

/// The expected standard deviation of the metric between runs with the same weights, as a fraction
/// of the metric's mean. The search pools this value with the measured standard deviation of such
/// runs. In the pool, the value weighs as much as two degrees of freedom.
const NOISE: f64 = 0.01;

/// The time that a command has to end after a signal before it is killed.
const GRACE: Duration = Duration::from_secs(10);

/// A run gets a warning if more than this fraction of its memory bypasses the placement, and if
/// this memory has more than [`BYPASSED_BYTES`].
const BYPASSED_MAX: f64 = 0.1;
/// The second limit for the warning, bytes. Pages of libraries bypass the placement. In a small
/// program they are most of the memory, so the fraction is high although the program's own pages
/// are placed.
const BYPASSED_BYTES: f64 = (64 << 20) as f64;

/// Options of a search for the best static weights of a command.
#[derive(Clone, Debug)]
pub struct TuneOptions {
    /// The command and its arguments; never empty.
    pub command: Vec<OsString>,
    /// The weights to try, besides the weights that put all pages on the first tier. Empty to
    /// search among all weights.
    pub weights: Vec<Weights>,
    /// The nodes to interleave over, in numactl's syntax; `None` for the nodes of all tiers.
    pub nodes: Option<String>,
    /// The platform whose curves give the first weights; `None` to use the rated bandwidths.
    pub platform: Option<String>,
    /// Maximum number of runs, not counting warm-up runs.
    pub runs: usize,
    /// The least gain: weights are chosen only if they improve the metric by at least this
    /// percentage, compared with the weights that put all pages on the first tier.
    pub min_gain: Percent,
    /// The pattern that finds the metric in the output; `None` to compare run times.
    pub metric: Option<Regex>,
    pub higher_is_better: bool,
    /// The number of warm-up runs, whose results are ignored.
    pub warm_up: usize,
    /// The highest rate at which pages are migrated. Pages are migrated only on a kernel without
    /// weighted interleaving.
    pub migration_rate: Bandwidth,
    /// True if the command is not run, and the document has only the plan.
    pub dry_run: bool,
    /// True if only errors are printed.
    pub quiet: bool,
    /// The file for the document. A regular file is written after each run, stdout (`-`) only once.
    pub output: Option<PathBuf>,
    /// The file to which the command's output is appended; `None` to pass the output on to stderr.
    pub log: Option<PathBuf>,
}

/// Searches for the best weights of a command on the machine whose `/proc` and `/sys` are read
/// below `root`.
///
/// # Errors
/// When the search cannot begin, or the command cannot be run. A command that runs and fails is not
/// an error here. It ends the search ([`RunsEnd::Failed`]), and the document has the runs before
/// the failure.
pub fn tune(options: &TuneOptions, root: &Root) -> Result<(TuneDocument, RunsEnd), Failure> {
    let machine = Machine::read(root).map_err(system::read_failure)?;
    let allowed = allowed_nodes(root, "self").map_err(system::read_failure)?;
    let proposal = proposal::propose(options, &machine)?;
    let search = Search {
        proposal: proposal.weights.clone(),
        only: (!options.weights.is_empty()).then(|| options.weights.clone()),
        runs: options.runs,
        min_gain: options.min_gain.fraction(),
        noise: NOISE,
    };
    let mut document = TuneDocument::new(request(options), &search, &proposal.source);
    let tuner = Tuner { options, root, machine: &machine, allowed, search };
    let first = Weights::first_tier(proposal.weights.as_slice().len());
    let mut settings = vec![];
    for weights in [&first].into_iter().chain(tuner.search.tried()) {
        let (_, planned) = tuner.planned(weights)?;
        document.add_plan(weights, &planned);
        settings = if planned.settings.is_empty() { settings } else { planned.settings };
    }
    if options.dry_run {
        return Ok((document, RunsEnd::DryRun));
    }
    system::check_live(root)?;
    if !settings.is_empty() {
        // Opening the journal fails if the user may not set weights. Open it before the first run,
        // so that the search does not fail after minutes.
        let (_, undone) = Journal::open(root).map_err(system::journal_failure)?;
        report_restored(options.quiet, &undone.iter().map(Into::into).collect::<Vec<_>>());
    }
    let end = tuner.search(&first, &mut document)?;
    Ok((document, end))
}

/// Returns the part of the options that the document contains.
fn request(options: &TuneOptions) -> TuneRequest {
    TuneRequest {
        command: options.command.iter().map(|word| word.to_string_lossy().into_owned()).collect(),
        metric: options.metric.as_ref().map(ToString::to_string),
        higher_is_better: options.higher_is_better,
        warm_up: options.warm_up,
        dry_run: options.dry_run,
    }
}

/// The result of a run: its cost (less is better), or the signal that interrupted the run, or the
/// run's failure.
enum Outcome {
    Value(f64),
    Signal(i32),
    Failed(Failure),
}

struct Tuner<'a> {
    options: &'a TuneOptions,
    root: &'a Root,
    machine: &'a Machine,
    allowed: Option<IdList>,
    search: Search,
}

impl Tuner<'_> {
    /// Returns the placement that `weights` give on this machine, and the document of a run under
    /// it.
    fn planned(&self, weights: &Weights) -> Result<(Placement, RunDocument), Failure> {
        let nodes = self.options.nodes.as_deref();
        let placement = Placement::new(self.machine, weights, nodes, self.allowed.as_ref())
            .map_err(|why: PlacementError| Failure::new(why.to_string(), why.hint()))?;
        let mut document = RunDocument::new(weights.to_string(), &placement, vec![]);
        document.settings = placed::settings(self.root, self.machine, &placement)?;
        Ok((placement, document))
    }

    /// Runs the command again and again, until the best weights are found, all runs are made, a
    /// signal arrives, or the command fails. The warm-up runs have the weights `first`.
    fn search(&self, first: &Weights, document: &mut TuneDocument) -> Result<RunsEnd, Failure> {
        let signals = Signals::hold().map_err(system::signal_failure)?;
        let orphans = Orphans::adopt().map_err(system::wait_failure)?;
        let bar = output::progress(self.options.runs as u64, "warming up");
        let mut log = Log::open(self.options.log.as_deref(), self.options.quiet)?;
        let mut runs: Vec<Run> = vec![];
        for _ in 0..self.options.warm_up {
            let run = self.run_once(first, TrialReason::WarmUp, &signals, &mut log, &bar);
            self.end_orphans(&orphans, &bar);
            match run?.0 {
                Outcome::Value(_) => {}
                other => return Ok(ended(other, document)),
            }
        }
        let done = loop {
            let (weights, why) = match self.search.next(&runs) {
                Step::Run(weights, why) => (weights, why),
                Step::Done(finding) => {
                    document.finish(&finding);
                    break RunsEnd::Done;
                }
            };
            bar.set_message(format!("run {}: {weights}", runs.len() + 1));
            let run = self.run_once(&weights, why.into(), &signals, &mut log, &bar);
            self.end_orphans(&orphans, &bar);
            let (outcome, trial) = run?;
            document.runs.push(trial);
            let Outcome::Value(value) = outcome else { break ended(outcome, document) };
            runs.push(Run { weights, value });
            document.update(self.search.finding_so_far(&runs).as_ref());
            bar.set_position(runs.len() as u64);
            self.record(document)?;
        };
        bar.finish_and_clear();
        Ok(done)
    }

    /// Ends the processes that a run has left running: they would take bandwidth from the next run.
    fn end_orphans(&self, orphans: &Orphans, bar: &ProgressBar) {
        let count = orphans.end(self.root);
        if count > 0 {
            let text = format!("the command left {count} processes running, which were ended");
            bar.suspend(|| output::note(self.options.quiet, &text));
        }
    }

    /// Writes the document after a run, so that the file has the results of the runs so far even if
    /// this process is killed.
    fn record(&self, document: &TuneDocument) -> Result<(), Failure> {
        let file = self.options.output.as_deref();
        file.map_or(Ok(()), |file| output::interim(file, &interleaf_record::json(document)))
    }

    /// Runs the command once under `weights`. `why` is the reason for the run, which the run's
    /// document shows.
    fn run_once(
        &self,
        weights: &Weights,
        why: TrialReason,
        signals: &Signals,
        log: &mut Log,
        bar: &ProgressBar,
    ) -> Result<(Outcome, TrialDocument), Failure> {
        let (placement, mut document) = self.planned(weights)?;
        log.begin_run();
        let job = PlacedCommand {
            root: self.root,
            command: &self.options.command,
            output: Some(log.file()),
            interim: None,
            rate: self.options.migration_rate,
            audit_cost: AUDIT_COST,
            quiet: true,
        };
        let mut interrupted: Option<Instant> = None;
        let mut shown = log.shown();
        let mut meanwhile = |running: &mut Running<'_>| {
            bar.tick();
            shown.print_new(bar);
            if running.arrived_signal().is_some() {
                let since = interrupted.get_or_insert_with(Instant::now);
                if since.elapsed() > GRACE {
                    running.signal(SIGKILL);
                }
            }
        };
        let meanwhile: placed::Meanwhile<'_> = &mut meanwhile;
        let ended = placed::run_placed(&job, signals, &placement, &mut document, Some(meanwhile))?;
        let mut trial = TrialDocument::new(weights, why, ended.elapsed, &document);
        let outcome = match (ended.signal, ended.status) {
            (Some(number), _) => Outcome::Signal(number),
            (None, Some(status)) if status.success() => {
                match self.value(ended.elapsed.as_secs_f64(), &log.text()?) {
                    Ok((value, cost)) => {
                        trial.value = value;
                        Outcome::Value(cost)
                    }
                    Err(why) => Outcome::Failed(why),
                }
            }
            _ => Outcome::Failed(self.failed(weights, &document, log)?),
        };
        self.print_run(&trial, &document, bar);
        Ok((outcome, trial))
    }

    /// Returns the metric of a run and the cost of the run. `text` is the run's output. The metric
    /// is `None` if none is requested: the cost is then the run time. Otherwise the cost is the
    /// metric, converted so that less is better.
    fn value(&self, seconds: f64, text: &str) -> Result<(Option<f64>, f64), Failure> {
        let Some(metric) = &self.options.metric else { return Ok((None, seconds.max(1e-9))) };
        let found = log::number(metric, text).map_err(|problem| {
            let hint = "try the pattern on the output of the command: the value is the first \
                 group of the last match, such as --metric 'Triad: +([0-9.]+)'";
            Failure::new(problem, hint)
        })?;
        let cost = if self.options.higher_is_better { 1.0 / found } else { found };
        Ok((Some(found), cost))
    }

    fn failed(
        &self,
        weights: &Weights,
        document: &RunDocument,
        log: &Log,
    ) -> Result<Failure, Failure> {
        let program = self.options.command[0].to_string_lossy();
        let how = match (document.exit_code, document.signal) {
            (Some(code), _) => format!("ended with status {code}"),
            (None, signal) => format!("was ended by signal {}", signal.unwrap_or(0)),
        };
        let last = log.last_lines()?;
        let output =
            if last.is_empty() { "; it printed nothing".into() } else { format!(":\n{last}") };
        Ok(Failure::new(
            format!("{program} {how} under {weights}{output}"),
            format!("see whether it runs by itself: interleaf run --weights {weights} -- ..."),
        ))
    }

    /// Prints the result of a run, and a warning if much memory bypassed the placement.
    fn print_run(&self, trial: &TrialDocument, document: &RunDocument, bar: &ProgressBar) {
        bar.suspend(|| {
            output::note(self.options.quiet, &interleaf_report::tune::trial(trial));
            let memory = document.memory.as_ref();
            let bytes = memory.map_or(0.0, |memory| memory.total_bytes as f64);
            let bypassed = memory.map_or(0.0, |memory| memory.escaped_share);
            if bypassed > BYPASSED_MAX && bypassed * bytes > BYPASSED_BYTES {
                let weights = interleaf_record::weights_text(&trial.weights);
                let warning = Warning::Bypassed { share: bypassed, weights };
                output::message(&format!("interleaf: {warning}"));
            }
        });
    }
}

fn ended(outcome: Outcome, document: &mut TuneDocument) -> RunsEnd {
    match outcome {
        Outcome::Value(_) => RunsEnd::Done,
        Outcome::Signal(number) => {
            document.stop(TuneStop::Signal, format!("signal {number} came"));
            RunsEnd::Signal(number)
        }
        Outcome::Failed(why) => {
            document.stop(TuneStop::Failed, "the command failed".into());
            RunsEnd::Failed(why)
        }
    }
}

/// The signal that no process can catch.
const SIGKILL: i32 = 9;
