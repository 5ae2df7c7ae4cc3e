//! The command line.

mod balance;
mod bench;
mod bench_compare;
mod extend;
mod measure;
mod measure_app;
mod report;
mod run;
mod simulate;
mod tune;

pub(crate) use balance::BalanceArgs;
#[cfg(test)]
pub(crate) use bench::bench_run;
pub(crate) use bench::{Bench, BenchInstallArgs, BenchListArgs, BenchRunArgs, Place};
pub(crate) use bench_compare::BenchCompareArgs;
pub(crate) use extend::{EXAMPLE as EXTEND_EXAMPLE, ExtendArgs};
pub(crate) use measure::{
    ChaseArgs, CommonArgs, InterleaveArgs, LoadArgs, Measure, MeasureArgs, TrafficArgs,
};
pub(crate) use measure_app::AppArgs;
pub(crate) use report::{CompareArgs, ReportArgs, ReportFormat};
pub(crate) use run::RunArgs;
pub(crate) use simulate::{DimmArgs, PatternChoice, Simulate};
pub(crate) use tune::TuneArgs;

use clap::{ArgGroup, Args, CommandFactory, Parser, Subcommand, error::ErrorKind};
use interleaf_console::{Failure, support::OutputOptions};
use interleaf_model::{
    mix::Mix,
    policy::PolicyKind,
    units::{Bandwidth, Bytes, Percent, Time, UnitError},
    weights::Weights,
};
use interleaf_sim::machine::scenario::{BANDWIDTH_MAX_GBPS, DURATION_S, NOISE_MAX};
use std::{ffi::OsString, path::PathBuf, str::FromStr};

/// The highest number of threads of a prediction or a simulation.
pub(crate) const THREADS_MAX: u32 = 65536;

/// The highest error of believed curves.
pub(crate) const CURVE_ERROR_MAX: f64 = 0.9;

const VERBS: &str = "\
Look:
  show       the memory of this machine, or the tiers of a platform and where their figures are from
  doctor     what this machine can do, why not, what to do about it, and who else moves pages
  measure    latency and bandwidth of this machine's memory, idle and loaded, by node, mix, weights

Decide:
  predict    bandwidth, latency and runtime at each choice of weights, and the best
  tune       the best static weights for a command on this machine, in a few runs of it
  compare    two records side by side: what differs, and whether it is more than noise

Act:
  run        a command under a placement of its pages, or the pages of a program that runs already
  balance    pages all the time: observes, decides, moves them
  extend     a command that needs more memory than there is: DRAM is a cache over a drive

Try and prove:
  simulate   a policy on a machine, or memory modules, that one need not own
  bench      workloads of any footprint whose results are checked
  reproduce  a published study: its figure, ours, the error
  report     a recorded document as one HTML page, as Markdown, as CSV or as a picture

Sizes, bandwidths and times take units (64MiB, 150GB/s, 600s). With --json stdout holds the
document and nothing else. Exit status: 0 done, 1 the answer is no, 2 error.";

/// Spreads pages over memory tiers of unequal speed: what will it give, and how should it be done?
#[derive(Debug, Parser)]
#[command(name = "interleaf", version, disable_help_subcommand = true)]
#[command(override_usage = "interleaf <VERB> [OPTIONS]")]
#[command(help_template = "{about}\n\n{usage-heading} {usage}{after-help}\n\n{options}")]
#[command(after_help = VERBS)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) verb: Option<Verb>,
    /// A captured machine in place of this one (`interleaf doctor --capture DIR` makes one)
    #[arg(long, global = true, value_name = "DIR")]
    pub(crate) root: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    Show(ShowArgs),
    Doctor(DoctorArgs),
    Measure(Box<MeasureArgs>),
    Compare(CompareArgs),
    Predict(PredictArgs),
    Tune(TuneArgs),
    Run(RunArgs),
    Balance(BalanceArgs),
    Extend(Box<ExtendArgs>),
    #[command(subcommand)]
    Simulate(Simulate),
    Reproduce(ReproduceArgs),
    Report(ReportArgs),
    #[command(subcommand)]
    Bench(Bench),
}

/// Shows the memory of this machine: its nodes, the fastest first, with what the firmware rates
/// them at, their weights and who is near. With --platform, the tiers of a platform with their
/// curves, its links and the constants of interleaving, each with its source.
#[derive(Debug, Default, Args)]
pub(crate) struct ShowArgs {
    /// A platform by name, or a platform file, in place of this machine; `list` for all there are
    #[arg(long, value_name = "NAME|FILE", conflicts_with = "root")]
    pub(crate) platform: Option<String>,
    /// Print a JSON document (interleaf.show/1)
    #[arg(long)]
    pub(crate) json: bool,
}

/// Says what this machine can do: each capability (yes), or why not and what to do about it (no);
/// who else moves pages (RIVAL); and what cannot be known so (?). Changes nothing, but for --probe.
///
/// Examples:
///   interleaf doctor                           this machine, as far as this user may see it
///   sudo interleaf doctor --probe              with all that DAMON can do
///   sudo interleaf doctor --capture machine    to send with a report
///   interleaf doctor --root machine            the same machine, elsewhere
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct DoctorArgs {
    /// Also set up a DAMON thread that is not started, to see which actions and goals the kernel
    /// takes, and remove it again; only root may, and only where nobody else has set one up
    #[arg(long)]
    pub(crate) probe: bool,
    /// Save what was read in a new folder, for a bug report, a test, or --root
    #[arg(long, value_name = "DIR")]
    pub(crate) capture: Option<PathBuf>,
    /// Print a JSON document (interleaf.doctor/1)
    #[arg(long)]
    pub(crate) json: bool,
}

/// Predicts what each choice of weights gives: for a workload that was measured with all pages on
/// the first tier, or for a traffic mix as a bandwidth benchmark makes it.
///
/// Examples:
///   interleaf predict --platform xeon6-cz122 --workload hpcg
///   interleaf predict --platform xeon6-cz122 --mix R --weights 1:0,3:1,5:2
///   interleaf predict --platform xeon6-cz122 --mix R --load sweep
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
#[command(group = ArgGroup::new("traffic").required(true).args(["workload", "demand", "mix"]))]
pub(crate) struct PredictArgs {
    /// A platform by name, or a platform file
    #[arg(long, value_name = "NAME|FILE")]
    pub(crate) platform: String,
    /// A workload that comes with the tool (`interleaf show --platform list` lists them)
    #[arg(long, value_name = "NAME")]
    pub(crate) workload: Option<String>,
    /// A demand file: what a workload asked of the first tier alone
    #[arg(long, value_name = "FILE")]
    pub(crate) demand: Option<PathBuf>,
    /// A traffic mix, named as MLC names it (R, W2, W5, W10, ...), or a read share (0.62, 0.62nt)
    #[arg(long, value_parser = mix, value_name = "MIX")]
    pub(crate) mix: Option<Mix>,
    /// Threads [default: the most that the workload's runs had, at most the platform's cores; with
    /// --mix as many as saturate it]
    #[arg(long, value_name = "N", value_parser = threads)]
    pub(crate) threads: Option<u32>,
    /// Weights to try: a list such as 3:1,2:1, or `all` for each ratio of whole numbers up to 10
    /// [default: all; the table then shows a choice of them]
    #[arg(long, value_parser = weights_choice, value_name = "all|LIST")]
    pub(crate) weights: Option<WeightsChoice>,
    /// With --mix, how much is asked for: all there is, what makes the first tier carry so much,
    /// or a sweep that shows how the best weights move with the load
    #[arg(long, value_parser = load, value_name = "max|sweep|150GB/s", default_value = "max")]
    pub(crate) load: LoadChoice,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// Simulates a machine whose pages move, under a policy that sees what counters show and decides
/// where pages go: every period, what it saw, what it decided and why, and in the end what it gave
/// beside the best static weights.
///
/// Examples:
///   interleaf simulate machine --platform gnr120-cz122 --workload cloverleaf --policy dmi
///   interleaf simulate machine --scenario shifting-demand --policy guided --compare
///   interleaf simulate machine --sweep sweep.toml -o sweep.csv
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
#[command(group = ArgGroup::new("what").required(true)
    .args(["workload", "demand", "scenario", "sweep"]))]
pub(crate) struct MachineArgs {
    /// A platform by name, or a platform file [default: the scenario's]
    #[arg(long, value_name = "NAME|FILE")]
    pub(crate) platform: Option<String>,
    /// A workload that comes with the tool (`interleaf show --platform list` lists them)
    #[arg(long, value_name = "NAME")]
    pub(crate) workload: Option<String>,
    /// A demand file: what a workload asked of the first tier alone
    #[arg(long, value_name = "FILE")]
    pub(crate) demand: Option<PathBuf>,
    /// A scenario by name, or a scenario file: several workloads, phases, devices, little memory
    #[arg(long, value_name = "NAME|FILE")]
    pub(crate) scenario: Option<String>,
    /// A sweep file: every combination of what it lists, on all cores, as CSV
    #[arg(long, value_name = "FILE", conflicts_with_all = [
        "platform", "threads", "policy", "weights", "duration", "footprint", "migration_rate",
        "counter_noise", "curve_error", "seed", "compare", "json", "csv", "report",
    ])]
    pub(crate) sweep: Option<PathBuf>,
    /// Threads [default: the most that the workload's runs had, at most the cores of a socket]
    #[arg(long, value_name = "N", value_parser = threads)]
    pub(crate) threads: Option<u32>,
    /// Policy that places the pages
    #[arg(long, value_name = "POLICY", default_value = "dmi", value_parser = policy_name())]
    pub(crate) policy: String,
    /// With --policy static, the weights [default: the best there are]
    #[arg(long, value_name = "65:35", value_parser = weights)]
    pub(crate) weights: Option<Weights>,
    /// Simulated time [default: the scenario's, else 600s]
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub(crate) duration: Option<Time>,
    /// The memory that the workload touches [default: its demand's]
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub(crate) footprint: Option<Bytes>,
    /// Highest migration rate [default: 4GB/s, or the scenario's]
    #[arg(long, value_name = "BANDWIDTH", value_parser = rate)]
    pub(crate) migration_rate: Option<Bandwidth>,
    /// Standard deviation of a reading of a counter [default: 2%, or the scenario's]
    #[arg(long, value_name = "PERCENT", value_parser = noise)]
    pub(crate) counter_noise: Option<Percent>,
    /// Error of the curves that the policy believes: the first tier carries less by this fraction,
    /// the others more; negative for the other way round
    #[arg(long, value_name = "PERCENT", value_parser = curve_error, default_value = "0%",
        allow_hyphen_values = true)]
    pub(crate) curve_error: Percent,
    /// The seed of all randomness [default: 1, or the scenario's]
    #[arg(long, value_name = "N", value_parser = seed)]
    pub(crate) seed: Option<u64>,
    /// Run every other policy too, and compare
    #[arg(long)]
    pub(crate) compare: bool,
    /// Write a page with the decisions over time, too
    #[arg(long, value_name = "FILE.html")]
    pub(crate) report: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

#[derive(Debug, Args)]
pub(crate) struct OutputArgs {
    /// Print a JSON document in place of tables
    #[arg(long, conflicts_with = "csv")]
    pub(crate) json: bool,
    /// Print CSV in place of tables
    #[arg(long)]
    pub(crate) csv: bool,
    /// Record the JSON document in FILE (- is stdout), for `interleaf report`
    #[arg(short = 'o', long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
}

impl OutputArgs {
    /// The same as plain values.
    pub(crate) fn options(&self) -> OutputOptions<'_> {
        OutputOptions { json: self.json, csv: self.csv, output: self.output.as_deref() }
    }
}

/// Computes every number of a published study and puts it beside the published one.
#[derive(Debug, Args)]
pub(crate) struct ReproduceArgs {
    /// The study, or `all`
    #[arg(value_name = "NAME|all", value_parser = study_name())]
    pub(crate) study: String,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
    /// Write the report as one HTML page, too
    #[arg(long, value_name = "FILE.html")]
    pub(crate) report: Option<PathBuf>,
}

/// The weights to try.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum WeightsChoice {
    All,
    List(Vec<Weights>),
}

/// The demand of a mix.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum LoadChoice {
    Max,
    Sweep,
    At(Bandwidth),
}

fn mix(text: &str) -> Result<Mix, String> {
    text.parse().map_err(|why| format!("{why}: {}", interleaf_model::mix::MixError::hint()))
}

fn weights_choice(text: &str) -> Result<WeightsChoice, String> {
    if text == "all" {
        return Ok(WeightsChoice::All);
    }
    let list = text.split(',').map(|weights| weights.trim().parse());
    let list: Result<Vec<Weights>, _> = list.collect();
    list.map(WeightsChoice::List)
        .map_err(|why| format!("{why}: write pages on each tier in one round, such as 3:1,2:1"))
}

fn weights(text: &str) -> Result<Weights, String> {
    text.parse().map_err(|why| format!("{why}: write pages on each tier in one round, such as 3:1"))
}

fn pid(text: &str) -> Result<u32, String> {
    let pid = text.parse::<u32>().ok().filter(|pid| (1..=1 << 22).contains(pid));
    pid.ok_or_else(|| "it is no process: write its number, such as 4242".into())
}

fn threads(text: &str) -> Result<u32, String> {
    text.parse().ok().filter(|threads| (1..=THREADS_MAX).contains(threads)).ok_or_else(|| {
        format!("it is no whole number from 1 to {THREADS_MAX}: write one such as 16")
    })
}

fn seed(text: &str) -> Result<u64, String> {
    let problem = |_| format!("it is no whole number from 0 to {}: write one such as 1", u64::MAX);
    text.parse().map_err(problem)
}

fn load(text: &str) -> Result<LoadChoice, String> {
    match text {
        "max" => Ok(LoadChoice::Max),
        "sweep" => Ok(LoadChoice::Sweep),
        _ => match text.parse::<Bandwidth>() {
            Ok(bandwidth) if bandwidth.gbps() > 0.0 => Ok(LoadChoice::At(bandwidth)),
            Ok(_) => Err("a load of nothing has no answer: write max, sweep or 150GB/s".into()),
            Err(why) => {
                Err(format!("{why}: write max, sweep, or a number with one of {}", why.allowed))
            }
        },
    }
}

/// A quantity with a unit; `allowed` is what may be written in its place.
fn quantity<T: FromStr<Err = UnitError>>(text: &str, example: &str) -> Result<T, String> {
    text.parse().map_err(|why: UnitError| {
        let one_of = if why.allowed.contains(',') { "one of" } else { "the unit" };
        format!("{why}: write a number with {one_of} {}, such as {example}", why.allowed)
    })
}

fn time(text: &str) -> Result<Time, String> {
    let time: Time = quantity(text, "600s")?;
    let [least, most] = DURATION_S;
    if (least..=most).contains(&time.seconds()) {
        return Ok(time);
    }
    Err(format!("{text} is not between 1ms and 24h: write a time such as 600s"))
}

fn size(text: &str) -> Result<Bytes, String> {
    let size: Bytes = quantity(text, "48GiB")?;
    if size.get() > 0 {
        return Ok(size);
    }
    Err("a workload touches at least a byte: write a size such as 48GiB".into())
}

fn rate(text: &str) -> Result<Bandwidth, String> {
    let rate: Bandwidth = quantity(text, "4GB/s")?;
    if rate.gbps() > 0.0 && rate.gbps() <= BANDWIDTH_MAX_GBPS {
        return Ok(rate);
    }
    Err(format!("{text} is not above 0 and at most 100 TB/s: write a bandwidth such as 4GB/s"))
}

fn noise(text: &str) -> Result<Percent, String> {
    let noise: Percent = quantity(text, "2%")?;
    if (0.0..=NOISE_MAX).contains(&noise.part()) {
        return Ok(noise);
    }
    Err(format!("a noise of {text} is not between 0% and 50%: write a percentage such as 2%"))
}

fn curve_error(text: &str) -> Result<Percent, String> {
    let error: Percent = quantity(text, "20%")?;
    if error.part().abs() <= CURVE_ERROR_MAX {
        return Ok(error);
    }
    Err(format!("an error of {text} is not between -90% and 90%: write a percentage such as 20%"))
}

fn policy_name() -> clap::builder::PossibleValuesParser {
    let policies = PolicyKind::ALL.iter();
    let values =
        policies.map(|(_, name, does)| clap::builder::PossibleValue::new(*name).help(*does));
    clap::builder::PossibleValuesParser::new(values)
}

fn study_name() -> clap::builder::PossibleValuesParser {
    let names = interleaf_study::NAMES.iter().copied().chain(["all"]);
    clap::builder::PossibleValuesParser::new(names)
}

/// The command line in `arguments`.
pub(crate) fn parse(arguments: impl IntoIterator<Item = OsString>) -> Result<Cli, Failure> {
    let arguments: Vec<OsString> = arguments.into_iter().collect();
    let verb = verb_of(&arguments);
    Cli::try_parse_from(arguments).map_err(|error| match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
            Failure::Shown(error.render().to_string())
        }
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            let problem = format!("{verb} does not say what to {}", verb.replace("interleaf ", ""));
            let what = match verb.ends_with("measure") {
                true => format!("{verb} app -- COMMAND"),
                false => format!("{verb} machine or {verb} dimm"),
            };
            Failure::new(problem, format!("write {what}; `{verb} --help` tells more"))
        }
        _ => refused(&error, &verb),
    })
}

/// The command with the verb at the start of `arguments`, and its subcommand if one is named.
fn verb_of(arguments: &[OsString]) -> String {
    let mut command = Cli::command();
    let mut words = vec!["interleaf".to_string()];
    for argument in arguments.iter().skip(1).map(|argument| argument.to_string_lossy()) {
        let Some(known) = command.find_subcommand(argument.as_ref()) else { break };
        words.push(argument.into_owned());
        command = known.clone();
    }
    words.join(" ")
}

/// Turns a tip of the parser into a hint.
fn hint(tip: &str) -> String {
    match tip.strip_prefix("[possible values: ").and_then(|rest| rest.strip_suffix(']')) {
        Some(values) => format!("write one of {values}"),
        None => tip.trim_start_matches("tip: ").to_string(),
    }
}

/// Checks whether `problem` is about a negative number, which the parser takes for an option.
fn is_negative(problem: &str) -> bool {
    let number = problem.split("argument '-").nth(1);
    number.is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit() || c == '.'))
}

/// An error of the command line in the form of all errors: the problem, and a hint.
fn refused(error: &clap::Error, verb: &str) -> Failure {
    let text = error.render().to_string();
    let usage = text.find("\n\nUsage:").or_else(|| text.find("\n\nFor more information"));
    let body = text[..usage.unwrap_or(text.len())].trim().trim_start_matches("error: ");
    let (problem, tips): (Vec<_>, Vec<_>) = body
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty())
        .partition(|line| !line.starts_with("tip:") && !line.starts_with("[possible values"));
    let mut hints: Vec<String> = tips.iter().map(|tip| hint(tip)).collect();
    // Parsers of this crate write `PROBLEM: write HINT`.
    let mut problem = problem.join(" ");
    if error.kind() == ErrorKind::ValueValidation
        && let Some(at) = problem.rfind(": write ")
    {
        hints.push(problem.split_off(at).trim_start_matches(": ").to_string());
    }
    if problem.contains("--mix <MIX>") && error.kind() != ErrorKind::ValueValidation {
        hints.push("give one of --workload NAME, --demand FILE and --mix MIX".into());
    }
    let missing = error.kind() == ErrorKind::MissingRequiredArgument;
    if missing && problem.contains("--scenario <NAME|FILE>|") {
        hints.push("name what to simulate; --scenario shifting-demand needs nothing else".into());
    }
    let example = match verb {
        "interleaf tune" => "write for example interleaf tune -- ./solver input.dat",
        "interleaf run" => run::EXAMPLE,
        "interleaf extend" => extend::EXAMPLE,
        "interleaf measure app" => measure_app::hint(&problem),
        _ => "",
    };
    hints.extend((missing && !example.is_empty()).then(|| example.to_string()));
    if error.kind() == ErrorKind::UnknownArgument && is_negative(&problem) {
        hints.push("no size, time, rate or seed is negative".into());
    }
    if error.kind() == ErrorKind::ArgumentConflict && hints.is_empty() {
        let twice = problem.contains("multiple times");
        hints.push(
            match problem.strip_prefix("the subcommand '").and_then(|it| it.split_once('\'')) {
                Some((word, _)) => format!("write options behind the word {word}"),
                None if twice => "give it once".into(),
                None => "leave one of the two out".into(),
            },
        );
    }
    if hints.is_empty() {
        hints.push(match verb {
            "interleaf" => "`interleaf --help` lists the verbs".into(),
            _ => format!("`{verb} --help` lists the options"),
        });
    }
    Failure::new(problem, hints.join("; "))
}
