//! `interleaf tune`.

use crate::args::TuneArgs;
use interleaf_console::{
    Failure, output,
    support::{self, OutputOptions},
    system,
};
use interleaf_launch::{
    signal_status,
    tune::{self, SearchEnd, TuneOptions},
};
use std::{path::Path, process::ExitCode};

pub(super) fn run(args: &TuneArgs, root: Option<&Path>) -> Result<ExitCode, Failure> {
    let root = system::open_root(root)?;
    output::check_writable(args.output.as_deref())?;
    output::check_writable(args.log.as_deref())?;
    let machine = Machine::read(&root).map_err(system::read_failure)?;
    let allowed = allowed_nodes(&root, "self").map_err(system::read_failure)?;
    let proposal = proposal::of(args, &machine)?;
    let search = Search {
        proposal: proposal.weights.clone(),
        only: (!args.weights.is_empty()).then(|| args.weights.clone()),
        runs: args.runs,
        worth: args.worth.part(),
        noise: NOISE,
    };
    let mut document = TuneDocument::new(request(args), &search, &proposal.source);
    let tuner = Tuner { args, root: &root, machine: &machine, allowed, search };
    let first = Weights::first_tier(proposal.weights.as_slice().len());
    let begin = [first.clone(), proposal.weights].into_iter().chain(args.weights.iter().cloned());
    let mut settings = vec![];
    for weights in begin {
        let (_, planned) = tuner.planned(&weights)?;
        document.add_plan(&weights, &planned);
        settings = if planned.settings.is_empty() { settings } else { planned.settings };
    }
    if args.dry_run {
        return give(args, &document).map(|()| ExitCode::SUCCESS);
    }
    system::check_live(&root)?;
    if !settings.is_empty() {
        // Before minutes go by: whoever may not set weights learns it now.
        let opened = Journal::open(&root);
        let (_, undone) = opened.map_err(system::journal_failure)?;
        placed::tell_put_back(args.quiet, &undone.iter().map(Into::into).collect::<Vec<_>>());
    }
    let ended = tuner.search(&first, &mut document)?;
    give(args, &document)?;
    match ended {
        Ended::Done => Ok(ExitCode::from(u8::from(!document.is_better))),
        Ended::Signal(number) => Ok(placed::signal_status(number)),
        Ended::Failed(why) => Err(why),
    }
}

fn options(args: &TuneArgs) -> TuneOptions {
    TuneOptions {
        command: args.command.clone(),
        weights: args.weights.clone(),
        nodes: args.nodes.clone(),
        platform: args.platform.clone(),
        runs: args.runs,
        worth: args.worth,
        metric: args.metric.clone(),
        higher_is_better: args.higher_is_better,
        warm_up: args.warm_up,
        migration_rate: args.migration_rate,
        dry_run: args.dry_run,
        quiet: args.quiet,
        output: args.output.clone(),
        log: args.log.clone(),
    }
}

/// Records and prints the document as the options say; on stdout stands one thing.
fn give(args: &TuneArgs, document: &TuneDocument) -> Result<(), Failure> {
    let json = interleaf_record::json(document);
    if let Some(target) = &args.output {
        output::file(target, &json)?;
        if target.as_os_str() == "-" {
            return Ok(());
        }
    }
    output::data(&if args.json { json } else { interleaf_report::tune::text(document) })
}

/// How a search ended.
enum Ended {
    Done,
    Signal(i32),
    Failed(Failure),
}

/// How a run ended.
enum Outcome {
    Value(f64),
    Signal(i32),
    Failed(Failure),
}

struct Tuner<'a> {
    args: &'a TuneArgs,
    root: &'a Root,
    machine: &'a Machine,
    allowed: Option<List>,
    search: Search,
}

impl Tuner<'_> {
    /// What weights mean here, and the document of a run under them.
    fn planned(&self, weights: &Weights) -> Result<(Placement, RunDocument), Failure> {
        let nodes = self.args.nodes.as_deref();
        let placement = Placement::new(self.machine, weights, nodes, self.allowed.as_ref())
            .map_err(|why: PlacementError| Failure::new(why.to_string(), why.hint()))?;
        let mut document = RunDocument::new(weights.to_string(), &placement, vec![]);
        document.settings = placed::settings(self.root, self.machine, &placement)?;
        Ok((placement, document))
    }

    /// Runs the command until the best weights are known.
    fn search(&self, first: &Weights, document: &mut TuneDocument) -> Result<Ended, Failure> {
        let signals = Signals::hold().map_err(system::signal_failure)?;
        let bar = output::progress(self.args.runs as u64, "warming up");
        let mut log = Log::open(self.args)?;
        let mut runs: Vec<Run> = vec![];
        for _ in 0..self.args.warm_up {
            match self.once(first, "warm-up", &signals, &mut log, &bar)?.0 {
                Outcome::Value(_) => {}
                other => return Ok(ended(other, document)),
            }
        }
        let done = loop {
            let (weights, why) = match self.search.next(&runs) {
                Step::Run(weights, why) => (weights, why),
                Step::Done(finding) => {
                    document.finish(&finding);
                    break Ended::Done;
                }
            };
            bar.set_message(format!("run {}: {weights}", runs.len() + 1));
            let why = interleaf_report::tune::why(why);
            let (outcome, trial) = self.once(&weights, &why, &signals, &mut log, &bar)?;
            document.runs.push(trial);
            let Outcome::Value(value) = outcome else { break ended(outcome, document) };
            runs.push(Run { weights, value });
            document.update(self.search.so_far(&runs).as_ref());
            bar.set_position(runs.len() as u64);
            self.record(document)?;
        };
        bar.finish_and_clear();
        Ok(done)
    }

    /// Writes what is known so far, so that nothing is lost.
    fn record(&self, document: &TuneDocument) -> Result<(), Failure> {
        let file = self.args.output.as_deref().filter(|file| *file != Path::new("-"));
        file.map_or(Ok(()), |file| output::file(file, &interleaf_record::json(document)))
    }

    /// Runs the command once.
    fn once(
        &self,
        weights: &Weights,
        why: &str,
        signals: &Signals,
        log: &mut Log,
        bar: &ProgressBar,
    ) -> Result<(Outcome, TrialDocument), Failure> {
        let (placement, mut document) = self.planned(weights)?;
        log.begin();
        let job = Job {
            root: self.root,
            command: &self.args.command,
            output: Some(log.file()),
            rate: self.args.migration_rate,
            look_cost: LOOK_COST,
            quiet: true,
        };
        let mut interrupted: Option<Instant> = None;
        let mut shown = log.shown();
        let mut meanwhile = |running: &mut Running<'_>| {
            bar.tick();
            shown.go_on(bar);
            if running.came().is_some() {
                let since = interrupted.get_or_insert_with(Instant::now);
                if since.elapsed() > GRACE {
                    running.signal(SIGKILL);
                }
            }
        };
        let meanwhile: placed::Meanwhile<'_> = &mut meanwhile;
        let ended = placed::under(&job, signals, &placement, &mut document, Some(meanwhile))?;
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
        self.tell(&trial, &document, bar);
        Ok((outcome, trial))
    }

    /// What a run gave: its metric where there is one, and what of it is lower when it is better.
    fn value(&self, seconds: f64, text: &str) -> Result<(Option<f64>, f64), Failure> {
        let Some(metric) = &self.args.metric else { return Ok((None, seconds.max(1e-9))) };
        let found = log::number(metric, text).map_err(|problem| {
            let hint = "try the pattern on what the command writes: it takes the last match, and \
                        of that the first group, such as --metric 'Triad: +([0-9.]+)'";
            Failure::new(problem, hint)
        })?;
        let cost = if self.args.higher_is_better { 1.0 / found } else { found };
        Ok((Some(found), cost))
    }

    fn failed(
        &self,
        weights: &Weights,
        document: &RunDocument,
        log: &Log,
    ) -> Result<Failure, Failure> {
        let program = self.args.command[0].to_string_lossy();
        let how = match (document.exit_code, document.signal) {
            (Some(code), _) => format!("ended with status {code}"),
            (None, signal) => format!("was ended by signal {}", signal.unwrap_or(0)),
        };
        let last = log.last_lines()?;
        let said = if last.is_empty() { "; it said nothing".into() } else { format!(":\n{last}") };
        Ok(Failure::new(
            format!("{program} {how} under {weights}{said}"),
            format!("see whether it runs by itself: interleaf run --weights {weights} -- ..."),
        ))
    }

    /// Tells of a run.
    fn tell(&self, trial: &TrialDocument, document: &RunDocument, bar: &ProgressBar) {
        bar.suspend(|| {
            placed::say(self.args.quiet, &interleaf_report::tune::trial(trial));
            let memory = document.memory.as_ref();
            let bytes = memory.map_or(0.0, |memory| memory.total_bytes as f64);
            let escaped = memory.map_or(0.0, |memory| memory.escaped_share);
            if escaped > ESCAPED_MAX && escaped * bytes > ESCAPED_BYTES {
                let text = format!(
                    "interleaf: {:.0} % of its memory escaped {}: `interleaf run` says why",
                    100.0 * escaped,
                    interleaf_record::weights_text(&trial.weights)
                );
                output::message(&text);
            }
        });
    }
}

fn ended(outcome: Outcome, document: &mut TuneDocument) -> Ended {
    match outcome {
        Outcome::Value(_) => Ended::Done,
        Outcome::Signal(number) => {
            document.stop("signal", format!("signal {number} came"));
            Ended::Signal(number)
        }
        Outcome::Failed(why) => {
            document.stop("failed", "the command failed".into());
            Ended::Failed(why)
        }
    }
}

/// What no process can hold back.
const SIGKILL: i32 = 9;
