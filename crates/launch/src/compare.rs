//! Compares configurations of a command: runs the command several times under each configuration.
//!
//! First, each configuration is warmed up. Then each round runs all configurations once, in an
//! order that cancels drift (`interleaf_model::paired`). Rounds repeat until each comparison has a
//! result, the maximum number of rounds is reached or the time limit has passed.
//!
//! A configuration with a placement starts the command by `interleaf run` or `interleaf extend`.
//! Both verbs restore the settings that they change, even when the comparison is interrupted.

mod configuration;
mod measured;

use configuration::Prefix;
pub use configuration::{Configuration, HugePages, MemoryChoice};

use crate::{RunsEnd, log::Log, tree_end};
use indicatif::ProgressBar;
use interleaf_console::{Failure, output, system};
use interleaf_linux::{
    launch::command::{Signals, without_huge_pages},
    machine::{hardware::Hardware, topology::Machine},
    place::mempolicy::Policy,
    root::Root,
};
use interleaf_model::{
    format::shell_text,
    paired::Design,
    units::{Bytes, Time},
};
use interleaf_record::{
    compare_runs::{
        CompareRunsDocument, ComparedRun, ComparedWorkload, ConfigurationDocument, DesignDocument,
        RunsStop,
    },
    measure::MeasuredMachine,
};
use regex_lite::Regex;
use std::{
    ffi::OsString,
    io,
    os::unix::process::ExitStatusExt as _,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};
use tempfile::NamedTempFile;

#[derive(Clone, Debug, PartialEq)]
pub enum Compared {
    /// A program and its arguments; never empty.
    Command(Vec<OsString>),
    /// A workload or recipe of `interleaf bench`, with its footprint and the unit of its result.
    Bench { name: String, footprint: Bytes, rate_unit: String },
}

/// A metric that is measured from outside the command.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Quantity {
    /// Time from the start of the command to its end.
    #[default]
    WallTime,
    /// CPU time of all processes and threads of the command, in user mode and in the kernel.
    CpuTime,
    /// Peak resident memory of the command's largest process.
    Memory,
}

#[derive(Clone, Debug)]
pub struct CompareOptions {
    /// Two or more configurations. The first is the reference: the others are compared with it.
    pub configurations: Vec<Configuration>,
    /// The workloads, which are compared one after the other.
    pub workloads: Vec<Compared>,
    pub design: Design,
    /// Number of runs of each configuration before the first round. Their measurements are ignored.
    pub warm_up: usize,
    /// The time limit for all workloads together. When it passes, the current round is completed.
    pub time_limit: Option<Time>,
    /// The pattern that finds the metric in the output. With `None` the metric of a command is
    /// `quantity`, and the metric of a workload of `interleaf bench` is its own result.
    pub metric: Option<Regex>,
    pub higher_is_better: bool,
    /// The metric of a command if `metric` is `None`.
    pub quantity: Quantity,
    pub dry_run: bool,
    pub quiet: bool,
    /// The file for the document. A regular file is written after each round, stdout (`-`) only
    /// once at the end.
    pub output: Option<PathBuf>,
    /// The file to which the commands' output is appended; `None` to pass the output on to stderr.
    pub log: Option<PathBuf>,
}

/// Compares the configurations on the machine whose `/proc` and `/sys` are read below `root`.
///
/// # Errors
/// When the comparison cannot begin, or a file of a run cannot be written or read. A command that
/// cannot be started, or that fails, is not an error here. It ends the comparison
/// ([`RunsEnd::Failed`]), and the document has the rounds before the failure.
pub fn compare(
    options: &CompareOptions,
    root: &Root,
) -> Result<(CompareRunsDocument, RunsEnd), Failure> {
    let machine = Machine::read(root).map_err(system::read_failure)?;
    let hardware = Hardware::read(root).map_err(system::read_failure)?;
    let machine = MeasuredMachine::new(&machine, &hardware);
    let interleaf = std::env::current_exe().map_err(start_failure)?;
    let huge_pages = machine.transparent_huge_pages.clone();
    let prefix = |it: &Configuration| it.prefix(&interleaf, huge_pages.as_deref());
    let prefixes: Vec<Prefix> =
        options.configurations.iter().map(prefix).collect::<Result<_, _>>()?;
    let mut document = document(options, machine, &prefixes, &interleaf);
    check_names(&document.configurations)?;
    if options.dry_run {
        document.stop(RunsStop::DryRun, "nothing was run");
        return Ok((document, RunsEnd::DryRun));
    }
    system::check_live(root)?;
    let signals = Signals::hold().map_err(system::signal_failure)?;
    let rounds = options.design.rounds_max() + options.warm_up;
    let steps = rounds * prefixes.len() * options.workloads.len();
    let mut comparer = Comparer {
        options,
        root,
        signals: &signals,
        interleaf,
        prefixes,
        log: Log::open(options.log.as_deref(), options.quiet)?,
        bar: output::progress(steps as u64, "warming up"),
    };
    let end = comparer.compare(&mut document);
    comparer.bar.finish_and_clear();
    Ok((document, end?))
}

/// Returns an error if two configurations have the same name. A configuration to which the user
/// gave no name has a letter as its name.
fn check_names(configurations: &[ConfigurationDocument]) -> Result<(), Failure> {
    let names: Vec<&str> = configurations.iter().map(|it| it.name.as_str()).collect();
    match (1..names.len()).find(|at| names[..*at].contains(&names[*at])) {
        Some(twice) => Err(Failure::new(
            format!("two configurations have the name {}", names[twice]),
            "give each its own name: name=LABEL",
        )),
        None => Ok(()),
    }
}

/// Returns the document of a comparison before its first run: the machine, the configurations and
/// the workloads, without runs.
fn document(
    options: &CompareOptions,
    machine: MeasuredMachine,
    prefixes: &[Prefix],
    interleaf: &Path,
) -> CompareRunsDocument {
    let texts = |words: &[OsString]| {
        words.iter().map(|word| word.to_string_lossy().into_owned()).collect::<Vec<_>>()
    };
    let configuration =
        |(at, (it, prefix)): (usize, (&Configuration, &Prefix))| ConfigurationDocument {
            name: it.name.clone().unwrap_or_else(|| interleaf_report::compare_runs::letter(at)),
            setting: it.setting.clone(),
            prefix: texts(&prefix.shell_words()),
            suffix: texts(&options.workloads.first().map_or(vec![], |first| first.suffix(it))),
        };
    let configurations = options.configurations.iter().zip(prefixes).enumerate();
    let workload = |it: &Compared| {
        let command = texts(&it.words(interleaf, Path::new("RECORD")));
        ComparedWorkload {
            name: it.name(),
            command,
            metric: measured::metric(options, it),
            unit: measured::unit(options, it).into(),
            higher_is_better: measured::higher_is_better(options, it),
            runs: vec![],
            results: vec![],
        }
    };
    let design = &options.design;
    CompareRunsDocument::new(
        machine,
        DesignDocument {
            looks: design.looks.clone(),
            confidence: design.confidence,
            min_difference: design.min_difference,
            warm_up: options.warm_up,
            time_limit_s: options.time_limit.map(|limit| limit.seconds()),
            seed: design.seed,
        },
        configurations.map(configuration).collect(),
        options.workloads.iter().map(workload).collect(),
    )
}

impl Compared {
    fn name(&self) -> String {
        match self {
            Self::Command(words) => {
                let program = Path::new(&words[0]);
                program.file_name().unwrap_or(&words[0]).to_string_lossy().into_owned()
            }
            Self::Bench { name, .. } => name.clone(),
        }
    }

    /// Returns the command and its arguments, without the arguments that a configuration adds. For
    /// a workload of `interleaf bench`, the command is this program (`interleaf` is its path), and
    /// writes the document of the workload to the file `record`.
    fn words(&self, interleaf: &Path, record: &Path) -> Vec<OsString> {
        match self {
            Self::Command(words) => words.clone(),
            Self::Bench { name, footprint, .. } => {
                let footprint = format!("{}B", footprint.get());
                let mut words: Vec<OsString> = vec![interleaf.into()];
                words.extend(["bench", "run", name, "--footprint", &footprint].map(OsString::from));
                words.extend(["-o".into(), record.into()]);
                words
            }
        }
    }

    /// Returns the arguments that a configuration puts after the command: the number of threads for
    /// a workload of `interleaf bench`. Other commands get the number of threads in environment
    /// variables.
    fn suffix(&self, configuration: &Configuration) -> Vec<OsString> {
        match (self, configuration.threads) {
            (Self::Bench { .. }, Some(threads)) => {
                vec!["--threads".into(), threads.to_string().into()]
            }
            _ => vec![],
        }
    }
}

/// The outcome of a run: its measurements, the signal that interrupted it, or its failure.
enum RunEnd {
    Done(ComparedRun),
    Signal(i32),
    /// The description of a failure, such as `it ended with status 3`, and the last lines of the
    /// output.
    Failed(String),
}

struct Comparer<'a> {
    options: &'a CompareOptions,
    root: &'a Root,
    signals: &'a Signals,
    /// The path of this program.
    interleaf: PathBuf,
    /// For each configuration, the environment variables of the command, and the arguments that go
    /// before the command.
    prefixes: Vec<Prefix>,
    log: Log,
    bar: ProgressBar,
}

impl Comparer<'_> {
    /// Compares the configurations for all workloads. The time limit is divided evenly among the
    /// workloads.
    fn compare(&mut self, document: &mut CompareRunsDocument) -> Result<RunsEnd, Failure> {
        let count = self.options.workloads.len();
        let limit = self.options.time_limit.map(|limit| limit.seconds() / count as f64);
        let mut stops = vec![];
        for workload in 0..count {
            let deadline = limit.map(|limit| Instant::now() + Duration::from_secs_f64(limit));
            if let Some(end) = self.warm_up(workload, document)? {
                return Ok(end);
            }
            match self.rounds(workload, deadline, document)? {
                Ok(stop) => stops.push(stop),
                Err(end) => return Ok(end),
            }
        }
        let is = |stop: RunsStop| stops.contains(&stop);
        match (is(RunsStop::Time), is(RunsStop::Rounds)) {
            (true, _) => document.stop(RunsStop::Time, "the time is up"),
            (_, true) => document.stop(RunsStop::Rounds, "all rounds are made"),
            _ => document.stop(RunsStop::Settled, "each comparison has an answer"),
        }
        Ok(RunsEnd::Done)
    }

    /// Runs each configuration `warm_up` times before the first round. A configuration that fails
    /// is not run again; the others are, so that the error names all configurations that fail.
    /// Returns `None` if all runs succeed, and otherwise the end of the comparison: a failure or a
    /// signal.
    fn warm_up(
        &mut self,
        workload: usize,
        document: &mut CompareRunsDocument,
    ) -> Result<Option<RunsEnd>, Failure> {
        let mut failed = vec![];
        for at in 0..self.prefixes.len() {
            for _ in 0..self.options.warm_up {
                self.bar.set_message(format!("warming up {}", document.configurations[at].name));
                match self.run_once(workload, at, &mut document.workloads[workload])? {
                    RunEnd::Done(_) => {}
                    RunEnd::Signal(number) => return Ok(Some(interrupted(number, document))),
                    RunEnd::Failed(how) => {
                        failed.push((at, how));
                        break;
                    }
                }
            }
        }
        if failed.is_empty() {
            return Ok(None);
        }
        Ok(Some(self.failed(workload, &failed, "in its warm-up", document)))
    }

    /// Runs rounds until each comparison has a result, the maximum number of rounds is reached, or
    /// the deadline has passed. Returns which of these three was the reason. If a signal or a
    /// failed command ends the whole comparison, returns this end as the inner error.
    fn rounds(
        &mut self,
        workload: usize,
        deadline: Option<Instant>,
        document: &mut CompareRunsDocument,
    ) -> Result<Result<RunsStop, RunsEnd>, Failure> {
        let design = &self.options.design;
        let configurations = self.prefixes.len();
        for round in 0..design.rounds_max() {
            for at in design.order(round, configurations) {
                let name = document.configurations[at].name.clone();
                let label =
                    format!("{}, round {}: {name}", document.workloads[workload].name, round + 1);
                self.bar.set_message(label);
                let compared = &mut document.workloads[workload];
                match self.run_once(workload, at, compared)? {
                    RunEnd::Done(run) => {
                        let run = ComparedRun { round: round + 1, configuration: at, ..run };
                        let line = interleaf_report::compare_runs::run(compared, &name, &run);
                        self.bar.suspend(|| output::note(self.options.quiet, &line));
                        compared.runs.push(run);
                    }
                    RunEnd::Signal(number) => return Ok(Err(interrupted(number, document))),
                    RunEnd::Failed(how) => {
                        let when = format!("in round {}", round + 1);
                        return Ok(Err(self.failed(workload, &[(at, how)], &when, document)));
                    }
                }
            }
            document.update(workload, design);
            self.record(document)?;
            let is_look = design.looks.contains(&(round + 1));
            if is_look && document.workloads[workload].is_settled() {
                return Ok(Ok(RunsStop::Settled));
            }
            if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                return Ok(Ok(RunsStop::Time));
            }
        }
        Ok(Ok(RunsStop::Rounds))
    }

    /// Writes the document after a round, so that the file has the results of the rounds so far
    /// even if this process is killed.
    fn record(&self, document: &CompareRunsDocument) -> Result<(), Failure> {
        let file = self.options.output.as_deref();
        file.map_or(Ok(()), |file| output::interim(file, &interleaf_record::json(document)))
    }

    /// Returns the command line of a run: the arguments `prefix` of the configuration, the command
    /// of the workload, and the arguments that the configuration puts after the command.
    fn words(
        &self,
        workload: usize,
        configuration: usize,
        prefix: &[OsString],
        record: &Path,
    ) -> Vec<OsString> {
        let compared = &self.options.workloads[workload];
        let suffix = compared.suffix(&self.options.configurations[configuration]);
        let words = compared.words(&self.interleaf, record);
        [prefix, &words, &suffix].concat()
    }

    /// Runs a workload once under a configuration.
    fn run_once(
        &mut self,
        workload: usize,
        configuration: usize,
        document: &mut ComparedWorkload,
    ) -> Result<RunEnd, Failure> {
        if let Some(signal) = self.signals.arrived_signal() {
            return Ok(RunEnd::Signal(signal));
        }
        let compared = &self.options.workloads[workload];
        let setting = &self.options.configurations[configuration];
        let record = NamedTempFile::new().map_err(start_failure)?;
        let prefix = &self.prefixes[configuration];
        let words = self.words(workload, configuration, &prefix.words, record.path());
        self.log.begin_run();
        let (program, arguments) = words.split_first().unwrap_or_else(|| unreachable!());
        let start = || {
            let output = Some(self.log.file());
            let variables = &prefix.variables;
            self.signals.start_into(output, variables, &Policy::Default, program, arguments)
        };
        let started = match setting.huge_pages {
            Some(HugePages::Never) => without_huge_pages(start).map_err(start_failure)?,
            _ => start(),
        };
        let mut running = match started {
            Ok(running) => running,
            Err(why) => return Ok(RunEnd::Failed(why.to_string())),
        };
        let mut shown = self.log.shown();
        tree_end::wait_for_end(self.root, &mut running, || {
            self.bar.tick();
            shown.print_new(&self.bar);
        });
        shown.print_new(&self.bar);
        let resources = running.resources().map_err(system::wait_failure)?;
        let status = running.status().map_err(system::wait_failure)?;
        self.bar.inc(1);
        if let Some(signal) = running.arrived_signal() {
            return Ok(RunEnd::Signal(signal));
        }
        if !status.success() {
            let how = match (status.code(), status.signal()) {
                (Some(code), _) => format!("it ended with status {code}"),
                (None, signal) => format!("signal {} ended it", signal.unwrap_or(0)),
            };
            return Ok(RunEnd::Failed(self.with_last_lines(&how)?));
        }
        let text = self.log.text()?;
        let run = measured::run(self.options.quantity, running.elapsed(), &resources);
        let measured = run.and_then(|mut run| {
            measured::measure(self.options, compared, &text, record.path(), &mut run)
                .map(|found| (run, found))
        });
        Ok(match measured {
            Ok((run, found)) => {
                document.unit = found.unit;
                document.higher_is_better = found.higher_is_better;
                RunEnd::Done(run)
            }
            Err(why) => RunEnd::Failed(self.with_last_lines(&why)?),
        })
    }

    fn with_last_lines(&self, how: &str) -> Result<String, Failure> {
        let last = self.log.last_lines()?;
        Ok(match last.is_empty() {
            true => format!("{how}; it printed nothing"),
            false => format!("{how}:\n{last}"),
        })
    }

    /// Ends the comparison after failed runs, and returns this end. `failed` has the index of each
    /// configuration under which the command failed, with a description of the failure. `when`
    /// names the phase of the comparison for the message.
    fn failed(
        &self,
        workload: usize,
        failed: &[(usize, String)],
        when: &str,
        document: &mut CompareRunsDocument,
    ) -> RunsEnd {
        let name = |at: usize| {
            let it = &document.configurations[at];
            match it.name == it.setting {
                true => it.name.clone(),
                false => format!("{} ({})", it.name, it.setting),
            }
        };
        let has_failed = |at: &usize| failed.iter().any(|(failed, _)| failed == at);
        // Name a configuration as a success only if the command has run under it. Without warm-up
        // runs, a failure in the first round may precede the first run of other configurations.
        let runs = &document.workloads[workload].runs;
        let has_run = |at: &usize| {
            self.options.warm_up > 0 || runs.iter().any(|run| run.configuration == *at)
        };
        let succeeded = (0..self.prefixes.len()).filter(|at| has_run(at) && !has_failed(at));
        let others: Vec<String> = succeeded.map(name).collect();
        let (at, how) = &failed[0];
        let names: Vec<String> = failed.iter().map(|(at, _)| name(*at)).collect();
        let under = if failed.len() == self.prefixes.len() {
            "every configuration".into()
        } else if others.is_empty() {
            names.join(", ")
        } else {
            format!("{}, and not under {}", names.join(", "), others.join(", "))
        };
        let program = self.options.workloads[workload].name();
        let problem = format!("{program} failed {when} under {under}: {how}");
        document.stop(RunsStop::Failed, format!("{program} failed {when} under {under}"));
        let prefix = self.prefixes[*at].shell_words();
        let words = self.words(workload, *at, &prefix, Path::new("record.json"));
        let words: Vec<_> = words.iter().map(|word| word.to_string_lossy()).collect();
        let command = shell_text::command(&words);
        let hint = match &self.options.metric {
            Some(_) => format!("see whether it runs, and prints the metric, by itself: {command}"),
            None => format!("see whether it runs by itself: {command}"),
        };
        RunsEnd::Failed(Failure::new(problem, hint))
    }
}

/// Records in the document that the signal `number` has ended the comparison. Returns the end of
/// the comparison.
fn interrupted(number: i32, document: &mut CompareRunsDocument) -> RunsEnd {
    document.stop(RunsStop::Signal, format!("signal {number} came"));
    RunsEnd::Signal(number)
}

fn start_failure(why: io::Error) -> Failure {
    Failure::new(
        format!("a run cannot be started: {why}"),
        "see that there is room in the folder for temporary files",
    )
}
