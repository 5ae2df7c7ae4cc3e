//! The command line: its verbs and options, and the errors of wrong arguments.

mod balance;
mod bench;
mod bench_compare;
mod card;
mod compare;
mod configuration;
mod extend;
mod help;
mod measure;
mod measure_app;
mod nearest;
mod plan;
mod report;
mod run;
mod simulate;
mod tune;

pub(crate) use balance::BalanceArgs;
pub(crate) use bench::{ArrayMemory, Bench, BenchInstallArgs, BenchListArgs, BenchRunArgs};
pub(crate) use bench_compare::BenchCompareArgs;
pub(crate) use card::{
    AccessChoice, CardArgs, CardCostArgs, CardLoadArgs, CardTestArgs, CardVerb, LatencyChoice,
};
pub(crate) use compare::{CompareArgs, QuantityChoice};
pub(crate) use extend::{EXAMPLE as EXTEND_EXAMPLE, ExtendArgs};
pub(crate) use measure::{
    ChaseArgs, CommonArgs, InterleaveArgs, LoadArgs, Measure, MeasureArgs, TrafficArgs,
};
pub(crate) use measure_app::AppArgs;
pub(crate) use plan::ServerPlanArgs;
pub(crate) use report::{ReportArgs, ReportFormat};
pub(crate) use run::RunArgs;
pub(crate) use simulate::{DimmArgs, PatternChoice, Simulate};
pub(crate) use tune::TuneArgs;

use crate::comparison::pattern::STUDY_WORKLOADS;
use clap::{
    ArgGroup, Args, CommandFactory, FromArgMatches as _, Parser, Subcommand,
    builder::{PossibleValue, PossibleValuesParser, TypedValueParser},
    error::ErrorKind,
};
use interleaf_console::{Failure, support::OutputOptions};
use interleaf_job::option::{
    LoadChoice, WeightsChoice, curve_error, load, mix, multiple, noise, percent, quantity, rate,
    seed, size, threads, time, weights, weights_choice, within,
};
use interleaf_launch::extend::Dram;
use interleaf_model::{
    mix::Mix,
    policy::PolicyKind,
    units::{Bandwidth, Bytes, Percent, Time},
    weights::Weights,
};
use interleaf_policy_process::PREFIX;
use std::{
    ffi::{OsStr, OsString},
    path::PathBuf,
    sync::LazyLock,
};

/// The default folder of the store (the files that extend DRAM) in the runs of `reproduce imdt`.
pub(crate) const STUDY_STORE: &str = "/var/tmp";

const VERBS: &str = "\
Look:
  show       memory of this machine, or tiers of a platform with their sources
  doctor     features of this machine, and a remedy for each missing one
  measure    latency and bandwidth of memory, idle and loaded, by node and mix

Decide:
  predict    bandwidth, latency, runtime at each choice of weights; the best
  plan       which server to buy: speed, cost and energy of each
  tune       the best static weights for a command, in a few runs of it
  compare    configurations of a command, by runs in turn; or two records

Act:
  run        a command, or a running program, with its pages over the nodes
  balance    pages continuously: measures bandwidth, decides, migrates
  extend     DRAM by a drive, for a command that needs more memory

Try and prove:
  simulate   policies, memory modules or NVRAM cards, without the hardware
  bench      workloads of any footprint whose results are checked
  reproduce  a published study: each number, the computed one, the error
  report     a record as a page, as Markdown, as CSV or as a picture

`interleaf help VERB` or `interleaf VERB --help` has examples and all options,
`interleaf VERB -h` is short. Sizes, bandwidths and times take units (64MiB,
150GB/s, 600s). With --json stdout holds the document and nothing else.
Exit status: 0 done, 1 the answer is no, 2 error.";

/// The version, with the commit if the build has one in `INTERLEAF_COMMIT`: `0.1.0 (1a2b3c4)`.
static VERSION: LazyLock<String> = LazyLock::new(|| match option_env!("INTERLEAF_COMMIT") {
    Some(commit) => format!("{} ({commit})", env!("CARGO_PKG_VERSION")),
    None => env!("CARGO_PKG_VERSION").into(),
});

/// Spreads pages over memory tiers of unequal speed: predicts the gain, and places the pages.
#[derive(Debug, Parser)]
#[command(name = "interleaf", version = VERSION.as_str(), disable_help_subcommand = true)]
#[command(override_usage = "interleaf <VERB> [OPTIONS]")]
#[command(help_template = "{about}\n\n{usage-heading} {usage}{after-help}\n\n{options}")]
#[command(after_help = VERBS)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) verb: Option<Verb>,
    /// Read a captured machine in place of this one (`interleaf doctor --capture DIR` makes one)
    #[arg(long, global = true, value_name = "DIR", display_order = 900)]
    pub(crate) root: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    Show(ShowArgs),
    Doctor(DoctorArgs),
    Measure(Box<MeasureArgs>),
    Compare(Box<CompareArgs>),
    Predict(PredictArgs),
    Plan(ServerPlanArgs),
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

/// Shows the memory of this machine: its nodes, the fastest first, with their ratings by the
/// firmware, weights, and nearest CPUs. With --platform, shows the tiers of a platform with their
/// curves, its links and the constants of interleaving, each with its source.
#[derive(Debug, Default, Args)]
pub(crate) struct ShowArgs {
    /// A platform by name, or a platform file, in place of this machine; `list` lists all platforms
    #[arg(long, value_name = "NAME|FILE", conflicts_with = "root")]
    pub(crate) platform: Option<String>,
    /// Print the JSON Schema of a file or a document, with which editors complete and check files;
    /// `list` lists all schemas
    #[arg(long, value_name = "NAME", conflicts_with_all = ["root", "platform", "json"])]
    pub(crate) schema: Option<String>,
    /// Print a JSON document (interleaf.show/1)
    #[arg(long)]
    pub(crate) json: bool,
}

/// Shows the capabilities of this machine: available (yes), missing with the reason and a remedy
/// (no), or unknown (?), and other programs that move pages (CONFLICT). Changes nothing, except
/// with --probe.
///
/// Examples:
///   interleaf doctor                           this machine, as far as this user may see it
///   sudo interleaf doctor --probe              with all that DAMON can do
///   sudo interleaf doctor --capture machine    a copy of its files, for a bug report
///   interleaf doctor --root machine            the same from these files, on any machine
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct DoctorArgs {
    /// Also set up a DAMON thread without starting it, to see which actions and goals the kernel
    /// accepts, and remove it; needs root, and no DAMON thread of another program
    #[arg(long)]
    pub(crate) probe: bool,
    /// Copy all files that were read to a new folder, for a bug report, a test, or --root
    #[arg(long, value_name = "DIR")]
    pub(crate) capture: Option<PathBuf>,
    /// Print a JSON document (interleaf.doctor/1)
    #[arg(long)]
    pub(crate) json: bool,
}

/// Predicts bandwidth, latency and speed-up at each choice of weights: of a workload, from measured
/// runs, or of the traffic mix of a bandwidth benchmark.
///
/// Examples:
///   interleaf predict --platform xeon6-cz122 --workload hpcg
///   interleaf predict --platform xeon6-cz122 --mix R --weights 1:0,3:1,5:2
///   interleaf predict --platform xeon6-cz122 --mix R --load sweep
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
#[command(override_usage = "interleaf predict [OPTIONS] --platform <NAME|FILE>\n       \
    <--workload <NAME>|--demand <FILE>|--mix <MIX>>")]
#[command(group = ArgGroup::new("traffic").required(true).args(["workload", "demand", "mix"]))]
pub(crate) struct PredictArgs {
    /// A platform by name, or a platform file; `NAME:cxl.count=4` has four expanders
    #[arg(long, value_name = "NAME|FILE")]
    pub(crate) platform: String,
    /// A workload that comes with the tool (`interleaf show --platform list` lists them)
    #[arg(long, value_name = "NAME")]
    pub(crate) workload: Option<String>,
    /// A file with measured runs of a workload, as `interleaf measure app --demand` writes it
    #[arg(long, value_name = "FILE")]
    pub(crate) demand: Option<PathBuf>,
    /// A traffic mix, named as MLC names it (R, W2, W5, W10, ...), or a read share (0.62, 0.62nt)
    #[arg(long, value_parser = mix, value_name = "MIX")]
    pub(crate) mix: Option<Mix>,
    /// Number of threads [default: that of the workload's largest run, at most the platform's
    /// cores; with --mix as many as saturate the platform]
    #[arg(long, value_name = "N", value_parser = threads)]
    pub(crate) threads: Option<u32>,
    /// Weights to try: a list such as 3:1,2:1, or `all` for each ratio of whole numbers up to 10
    /// [default: these ratios, of which the table shows some]
    #[arg(long, value_parser = weights_choice, value_name = "all|LIST")]
    pub(crate) weights: Option<WeightsChoice>,
    /// With --mix, the load: the maximum, a bandwidth of the first tier alone, or a sweep that
    /// shows the best weights at each load
    #[arg(long, value_parser = load, value_name = "max|sweep|150GB/s", default_value = "max")]
    pub(crate) load: LoadChoice,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
    /// Also write the report as one HTML page
    #[arg(long, value_name = "FILE.html")]
    pub(crate) report: Option<PathBuf>,
}

/// Simulates a machine with page migration under a policy, which sees only counters. Reports the
/// counters, the decision and its reason for each period with a new decision, and at the end the
/// speed compared with the best static weights.
///
/// Examples:
///   interleaf simulate machine --platform gnr120-cz122 --workload cloverleaf --policy dmi
///   interleaf simulate machine --scenario shifting-demand --policy guided --compare
///   interleaf simulate machine --scenario dma --policy "exec:./policy.py --gain 2"
///   interleaf simulate machine --sweep sweep.toml -o sweep.csv
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
#[command(override_usage = "interleaf simulate machine [OPTIONS]\n       \
    <--workload <NAME>|--demand <FILE>|--scenario <NAME|FILE>|--sweep <FILE>>")]
#[command(group = ArgGroup::new("what").required(true)
    .args(["workload", "demand", "scenario", "sweep"]))]
pub(crate) struct MachineArgs {
    /// A platform by name, or a platform file; `NAME:cxl.count=4` has four expanders [default:
    /// that of the scenario]
    #[arg(long, value_name = "NAME|FILE")]
    pub(crate) platform: Option<String>,
    /// A workload that comes with the tool (`interleaf show --platform list` lists them)
    #[arg(long, value_name = "NAME")]
    pub(crate) workload: Option<String>,
    /// A file with measured runs of a workload, as `interleaf measure app --demand` writes it
    #[arg(long, value_name = "FILE")]
    pub(crate) demand: Option<PathBuf>,
    /// A scenario by name, or a scenario file: workloads, devices with traffic, memory in use
    #[arg(long, value_name = "NAME|FILE")]
    pub(crate) scenario: Option<String>,
    /// A sweep file: simulates every combination of its lists, on all cores, and writes CSV
    #[arg(long, value_name = "FILE", conflicts_with_all = [
        "platform", "threads", "policy", "policy_limit", "weights", "duration", "footprint",
        "migration_rate", "counter_noise", "curve_error", "seed", "compare", "json", "csv",
    ])]
    pub(crate) sweep: Option<PathBuf>,
    /// With --sweep, also write the rows as Parquet
    #[arg(long, value_name = "FILE.parquet")]
    pub(crate) parquet: Option<PathBuf>,
    /// Number of threads [default: that of the workload's largest run, at most the cores of a
    /// socket]
    #[arg(long, value_name = "N", value_parser = threads)]
    pub(crate) threads: Option<u32>,
    /// Policy that places the pages
    #[arg(long, value_name = "POLICY", default_value = "dmi", value_parser = PolicyParser)]
    pub(crate) policy: String,
    /// With --policy exec:COMMAND, the time that the command has for each answer [default: 10s]
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub(crate) policy_limit: Option<Time>,
    /// With --policy static, the weights [default: the best static weights]
    #[arg(long, value_name = "65:35", value_parser = weights)]
    pub(crate) weights: Option<Weights>,
    /// Simulated time [default: that of the scenario, else 600s]
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub(crate) duration: Option<Time>,
    /// The memory that the workload touches [default: the footprint of its demand]
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub(crate) footprint: Option<Bytes>,
    /// Highest migration rate [default: that of the scenario, else 4GB/s]
    #[arg(long, value_name = "BANDWIDTH", value_parser = rate)]
    pub(crate) migration_rate: Option<Bandwidth>,
    /// Standard deviation of counter readings [default: that of the scenario, else 2%]
    #[arg(long, value_name = "PERCENT", value_parser = noise)]
    pub(crate) counter_noise: Option<Percent>,
    /// Error of the policy's curves: the bandwidth of the first tier is too low by this fraction,
    /// that of every other tier too high; a negative error is the reverse
    #[arg(long, value_name = "PERCENT", value_parser = curve_error, default_value = "0%",
        allow_hyphen_values = true)]
    pub(crate) curve_error: Percent,
    /// The seed of all randomness [default: that of the scenario, else 1]
    #[arg(long, value_name = "N", value_parser = seed)]
    pub(crate) seed: Option<u64>,
    /// Simulate every other policy too, and compare the speeds
    #[arg(long)]
    pub(crate) compare: bool,
    /// Also write one HTML page: the decisions over time, or the policies of a sweep
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
    /// The output options as plain values, for code that does not know clap.
    pub(crate) fn options(&self) -> OutputOptions<'_> {
        OutputOptions { json: self.json, csv: self.csv, output: self.output.as_deref() }
    }
}

/// Computes every number of a published study, and compares it with the published one.
#[derive(Debug, Args)]
pub(crate) struct ReproduceArgs {
    /// The study, or `all`
    #[arg(value_name = "NAME|all", value_parser = study_name())]
    pub(crate) study: String,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
    /// Also write the report as one HTML page
    #[arg(long, value_name = "FILE.html")]
    pub(crate) report: Option<PathBuf>,
    /// With imdt: do not measure this machine; `all` never measures it
    #[arg(long)]
    pub(crate) predicted: bool,
    /// With imdt: few workloads with a small budget, under three minutes
    #[arg(long, conflicts_with = "predicted")]
    pub(crate) quick: bool,
    /// With imdt: a folder on the drive that extends DRAM; created files are removed afterwards
    #[arg(long, value_name = "DIR", default_value = STUDY_STORE)]
    pub(crate) store: PathBuf,
    /// With imdt: the budget of DRAM [default: 256MiB, with --quick 24MiB]
    #[arg(long, value_name = "SIZE", value_parser = dram_size, conflicts_with = "predicted")]
    pub(crate) dram: Option<Bytes>,
    /// With imdt: only these workloads, named as in `bench compare`
    #[arg(long, value_name = "LIST", value_delimiter = ',', conflicts_with = "predicted",
        value_parser = PossibleValuesParser::new(STUDY_WORKLOADS))]
    pub(crate) workload: Vec<String>,
}

/// Parses a budget of DRAM. A percentage, and sizes for single nodes, are rejected.
fn dram_size(text: &str) -> Result<Bytes, String> {
    match text.parse()? {
        Dram::Size(bytes) => Ok(bytes),
        Dram::Percent(_) | Dram::ByNode(_) => {
            Err(format!("{text} is not a size: write one such as 8GiB"))
        }
    }
}

fn pid(text: &str) -> Result<u32, String> {
    let pid = text.parse::<u32>().ok().filter(|pid| (1..=1 << 22).contains(pid));
    pid.ok_or_else(|| "it is not a process: write its number, such as 4242".into())
}

fn policy_name() -> PossibleValuesParser {
    PossibleValuesParser::new(PolicyKind::of_commands().map(policy_value))
}

fn policy_value((_, name, does): &(PolicyKind, &'static str, &'static str)) -> PossibleValue {
    PossibleValue::new(*name).help(*does)
}

/// Parses a policy: the name of a built-in policy, or `exec:COMMAND` for a command as the policy.
#[derive(Clone, Debug)]
pub(crate) struct PolicyParser;

impl TypedValueParser for PolicyParser {
    type Value = String;

    fn parse_ref(
        &self,
        command: &clap::Command,
        argument: Option<&clap::Arg>,
        value: &OsStr,
    ) -> Result<String, clap::Error> {
        match value.to_str() {
            Some(text) if text.starts_with(PREFIX) => Ok(text.into()),
            _ => {
                let values = self.possible_values().into_iter().flatten();
                PossibleValuesParser::new(values).parse_ref(command, argument, value)
            }
        }
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        let help = "a program that reads observations and writes weights (docs/policies.md)";
        let command = PossibleValue::new("exec:COMMAND").help(help);
        Some(Box::new(PolicyKind::ALL.iter().map(policy_value).chain([command])))
    }
}

fn study_name() -> PossibleValuesParser {
    let names = interleaf_study::NAMES.iter().copied().chain(["all"]);
    PossibleValuesParser::new(names)
}

pub(crate) fn command() -> clap::Command {
    help::refilled(Cli::command())
}

/// Parses the command line `arguments`, whose first element is the name of the program.
pub(crate) fn parse(arguments: impl IntoIterator<Item = OsString>) -> Result<Cli, Failure> {
    let arguments = help::help_verb(arguments.into_iter().collect());
    let verb = verb_of(&arguments);
    let matches = command().try_get_matches_from(arguments);
    matches.and_then(|matches| Cli::from_arg_matches(&matches)).map_err(|error| {
        match error.kind() {
            ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
                Failure::Shown(error.render().to_string())
            }
            ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
                let names = nearest::subcommands(&verb).join(&format!(", {verb} "));
                let hint = format!("write {verb} {names}; `{verb} --help` describes each");
                Failure::new(format!("{verb}: the subcommand is missing"), hint)
            }
            _ => refused(&error, &verb),
        }
    })
}

/// The name of the program, the verb in `arguments` and its subcommand, if any: `interleaf simulate
/// card`.
fn verb_of(arguments: &[OsString]) -> String {
    let mut command = command();
    let mut words = vec!["interleaf".to_string()];
    for argument in arguments.iter().skip(1).map(|argument| argument.to_string_lossy()) {
        let Some(known) = command.find_subcommand(argument.as_ref()) else { break };
        words.push(argument.into_owned());
        command = known.clone();
    }
    words.join(" ")
}

/// Converts a tip of clap to a hint.
fn hint(tip: &str) -> String {
    match tip.strip_prefix("[possible values: ").and_then(|rest| rest.strip_suffix(']')) {
        Some(values) => format!("write one of {values}"),
        None => tip.trim_start_matches("tip: ").to_string(),
    }
}

/// True if `problem` is about a negative number, which clap takes for an option.
fn is_negative(problem: &str) -> bool {
    let number = problem.split("argument '-").nth(1);
    number.is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit() || c == '.'))
}

/// Converts an error of clap to a failure: the problem, and a hint.
fn refused(error: &clap::Error, verb: &str) -> Failure {
    let text = error.render().to_string();
    let usage = text.find("\n\nUsage:").or_else(|| text.find("\n\nFor more information"));
    let body = text[..usage.unwrap_or(text.len())].trim().trim_start_matches("error: ");
    let (problem, tips): (Vec<_>, Vec<_>) = body
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty())
        .partition(|line| !line.starts_with("tip:") && !line.starts_with("[possible values"));
    let own = nearest::nearest(error, verb);
    let is_replaced = own.is_some();
    let tips = tips.iter().filter(|tip| !nearest::is_about_values(tip));
    let tips = tips.filter(|tip| !is_replaced || !nearest::is_about_names(tip));
    let mut hints: Vec<String> = tips.map(|tip| hint(tip)).chain(own).collect();
    // Value parsers return errors of the form `PROBLEM: write HINT`, some with a suggestion before
    // `write`.
    let mut problem = problem.join(" ");
    if error.kind() == ErrorKind::ValueValidation
        && let Some(at) = problem.find(": did you mean ").or(problem.rfind(": write "))
    {
        hints.push(problem.split_off(at).trim_start_matches(": ").to_string());
    }
    let is_of_value = error.kind() == ErrorKind::ValueValidation;
    let is_sweep = problem.contains("--sweep <FILE>");
    let is_of_traffic = problem.contains("--demand <") || problem.contains("--workload <");
    if problem.contains("--mix <MIX>") && is_of_traffic && !is_of_value && !is_sweep {
        // Other verbs with `--mix` have neither `--workload` nor `--demand`.
        match verb {
            "interleaf plan" => hints.push("give --demand NAME or FILE, or --mix MIX".into()),
            "interleaf predict" => {
                hints.push("give one of --workload NAME, --demand FILE and --mix MIX".into());
            }
            _ => {}
        }
    }
    let missing = error.kind() == ErrorKind::MissingRequiredArgument;
    if missing && problem.contains("--scenario <NAME|FILE>|") {
        hints.push("name what to simulate; --scenario shifting-demand needs nothing else".into());
    }
    let example = match verb {
        "interleaf tune" => "write for example interleaf tune -- ./solver input.dat",
        "interleaf run" => run::EXAMPLE,
        "interleaf compare" => compare::EXAMPLE,
        "interleaf extend" => extend::EXAMPLE,
        "interleaf measure app" => measure_app::hint(&problem),
        _ if verb.starts_with("interleaf simulate card") => card::hint(verb),
        _ => "",
    };
    hints.extend((missing && !example.is_empty()).then(|| example.to_string()));
    if error.kind() == ErrorKind::UnknownArgument && is_negative(&problem) {
        hints.push("no weight, size, time, rate or other number here is negative".into());
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
