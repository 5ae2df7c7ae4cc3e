//! Records: the JSON documents of measurements, predictions, simulations, benchmarks and runs.
//!
//! A document is a struct with a schema and its version, such as `interleaf.measure/1`. Other
//! programs rely on the schema: while the version stays the same, a field keeps its name and
//! meaning. A module has the schemas of one command. For each schema it has the struct, the
//! construction of the struct from the types of other crates (the model, the simulator, the readers
//! of kernel files), and the check ([`check::Check`]) that a record from a file can be rendered.
//! [`read`] reads a record of any schema that `interleaf report` renders. [`json`] returns the text
//! of a record.
//!
//! The name of a field has its unit: `_ns`, `_s`, `_bytes`, `_w` (watts), `_j` (joules), and
//! `_gbps` for gigabytes (10^9 bytes) per second. Shares are fractions from 0 to 1. Numbers are
//! rounded to six significant digits, so the same input gives the same bytes on any machine.

#![forbid(unsafe_code)]
#![allow(missing_docs, reason = "a field of a document is named by its quantity and unit")]

/// Implements `Display` for an enum: it displays a variant by the variant's name in documents.
macro_rules! display_word {
    ($name:ty) => {
        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                serde::Serialize::serialize(self, f)
            }
        }
    };
}

pub mod balance;
pub mod bench;
pub mod bench_compare;
pub mod card;
pub mod card_cost;
pub mod card_test;
pub mod check;
pub mod compare_records;
pub mod compare_runs;
pub mod dimm;
pub mod extend;
pub mod figure;
pub mod measure;
pub mod measure_app;
pub mod plan;
pub mod predict;
pub mod reproduce;
pub mod run;
pub mod show;
pub mod show_machine;
pub mod simulate_machine;
pub mod sweep;
pub mod tune;
pub mod warning;

use check::{Check, InvalidField};
use interleaf_model::{format::FileError, provenance::Provenance, tier::TierKind};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use std::fmt;

/// Returns the distinct items, in the order in which they first occur.
pub fn distinct<T: PartialEq>(items: impl IntoIterator<Item = T>) -> Vec<T> {
    let mut found: Vec<T> = vec![];
    for item in items {
        if !found.contains(&item) {
            found.push(item);
        }
    }
    found
}

/// The error about a text that is not a valid record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordError {
    /// The text of the error: the name of the file, the line, column or field, and the problem.
    pub problem: String,
    /// Advice on how the user can solve the problem.
    pub hint: String,
}

impl RecordError {
    fn new(problem: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { problem: problem.into(), hint: hint.into() }
    }
}

impl From<FileError> for RecordError {
    fn from(why: FileError) -> Self {
        Self::new(why.to_string(), why.hint)
    }
}

impl std::error::Error for RecordError {}

impl fmt::Display for RecordError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.problem)
    }
}

/// A record that `interleaf report` can render.
#[derive(Debug)]
pub enum Document {
    Predict(Box<predict::PredictDocument>),
    Plan(Box<plan::PlanDocument>),
    Reproduce(Box<reproduce::ReproduceDocument>),
    Machine(Box<simulate_machine::SimulateDocument>),
    Dimm(Box<dimm::DimmDocument>),
    Card(Box<card::CardDocument>),
    Measure(Box<measure::MeasureDocument>),
    Compare(Box<compare_records::CompareDocument>),
    CompareRuns(Box<compare_runs::CompareRunsDocument>),
    Profile(Box<measure_app::ProfileDocument>),
    Bench(Box<bench_compare::BenchCompareDocument>),
    BenchRun(Box<bench::BenchDocument>),
    Extend(Box<extend::ExtendDocument>),
    ExtendForecast(Box<extend::ForecastDocument>),
    ExtendPlan(Box<extend::ExtendPlanDocument>),
    Tune(Box<tune::TuneDocument>),
    Run(Box<run::RunDocument>),
    Balance(Box<balance::BalanceLog>),
    BalancePlan(Box<balance::BalancePlanDocument>),
    Advice(Box<balance::SummaryDocument>),
    CardTest(Box<card_test::CardTestDocument>),
    CardCost(Box<card_cost::CardCostDocument>),
    Doctor(Box<show_machine::DoctorDocument>),
    ShowMachine(Box<show_machine::MachineDocument>),
    ShowPlatform(Box<show::ShowDocument>),
    Sweep(Box<sweep::SweepDocument>),
    DimmSweep(Box<sweep::dimm::DimmSweepDocument>),
}

impl Document {
    /// Returns the figures in a report of the record.
    pub fn figures(&self) -> Vec<figure::Figure> {
        match self {
            Self::Predict(document) => document.figures(),
            Self::Plan(document) => document.figures(),
            Self::Machine(document) => document.figures(),
            Self::Dimm(document) => document.figures(),
            Self::Card(document) => document.figures(),
            Self::Measure(document) => document.figures(),
            Self::Compare(document) => document.figures(),
            Self::CompareRuns(document) => document.figures(),
            Self::Profile(document) => document.figures(),
            Self::Bench(document) => document.figures(),
            Self::BenchRun(document) => document.figures(),
            Self::Extend(document) => document.figures(),
            Self::ExtendForecast(document) => document.figures.clone(),
            Self::Tune(document) => document.figures(),
            Self::Run(document) => document.figures(),
            Self::Balance(document) => document.figures(),
            Self::ShowPlatform(document) => document.figures(),
            Self::Sweep(document) => document.figures(),
            Self::DimmSweep(document) => document.figures(),
            Self::Reproduce(document) => {
                document.studies.iter().flat_map(|study| study.figures.clone()).collect()
            }
            Self::ExtendPlan(_)
            | Self::BalancePlan(_)
            | Self::Advice(_)
            | Self::CardTest(_)
            | Self::CardCost(_)
            | Self::Doctor(_)
            | Self::ShowMachine(_) => vec![],
        }
    }

    /// Returns the schema of the document. For a record of `balance`, it is the schema of a
    /// period's line. A sweep is CSV and has no schema; the name of its format is returned.
    pub fn schema(&self) -> &'static str {
        match self {
            Self::Predict(_) => predict::SCHEMA,
            Self::Plan(_) => plan::SCHEMA,
            Self::Reproduce(_) => reproduce::SCHEMA,
            Self::Machine(_) => simulate_machine::SCHEMA,
            Self::Dimm(_) => dimm::SCHEMA,
            Self::Card(_) => card::SCHEMA,
            Self::Measure(_) | Self::Profile(_) => measure::SCHEMA,
            Self::Compare(_) => compare_records::SCHEMA,
            Self::CompareRuns(_) => compare_runs::SCHEMA,
            Self::Bench(_) => bench_compare::SCHEMA,
            Self::BenchRun(_) => bench::SCHEMA,
            Self::Extend(_) => extend::SCHEMA,
            Self::ExtendForecast(_) => extend::FORECAST_SCHEMA,
            Self::ExtendPlan(_) => extend::PLAN_SCHEMA,
            Self::Tune(_) => tune::SCHEMA,
            Self::Run(_) => run::SCHEMA,
            Self::Balance(_) => balance::SCHEMA,
            Self::BalancePlan(_) => balance::PLAN_SCHEMA,
            Self::Advice(_) => balance::SUMMARY_SCHEMA,
            Self::CardTest(_) => card_test::SCHEMA,
            Self::CardCost(_) => card_cost::SCHEMA,
            Self::Doctor(_) => show_machine::DOCTOR_SCHEMA,
            Self::ShowMachine(_) | Self::ShowPlatform(_) => show::SCHEMA,
            Self::Sweep(_) | Self::DimmSweep(_) => sweep::SCHEMA,
        }
    }

    /// Returns the text of the document, as a command writes it: JSON, a line of JSON for each
    /// period of `balance`, or the CSV of a sweep.
    pub fn text(&self) -> String {
        match self {
            Self::Predict(document) => json(document),
            Self::Plan(document) => json(document),
            Self::Reproduce(document) => json(document),
            Self::Machine(document) => json(document),
            Self::Dimm(document) => json(document),
            Self::Card(document) => json(document),
            Self::Measure(document) => json(document),
            Self::Compare(document) => json(document),
            Self::CompareRuns(document) => json(document),
            Self::Profile(document) => json(document),
            Self::Bench(document) => json(document),
            Self::BenchRun(document) => json(document),
            Self::Extend(document) => json(document),
            Self::ExtendForecast(document) => json(document),
            Self::ExtendPlan(document) => json(document),
            Self::Tune(document) => json(document),
            Self::Run(document) => json(document),
            Self::Balance(document) => document.text(),
            Self::BalancePlan(document) => json(document),
            Self::Advice(document) => json(document),
            Self::CardTest(document) => json(document),
            Self::CardCost(document) => json(document),
            Self::Doctor(document) => json(document),
            Self::ShowMachine(document) => json(document),
            Self::ShowPlatform(document) => json(document),
            Self::Sweep(document) => document.text().into(),
            Self::DimmSweep(document) => document.text().into(),
        }
    }
}

/// The inputs of a prediction or simulation, grouped by their provenance.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ProvenanceDocument {
    pub measured: Vec<String>,
    pub published: Vec<String>,
    pub simulated: Vec<String>,
    pub assumed: Vec<String>,
}

impl ProvenanceDocument {
    pub fn new(figures: &[(String, Provenance)]) -> Self {
        let mut lists = Self::default();
        for (name, provenance) in figures {
            let list = match provenance {
                Provenance::Measured => &mut lists.measured,
                Provenance::Published => &mut lists.published,
                Provenance::Simulated => &mut lists.simulated,
                Provenance::Assumed => &mut lists.assumed,
            };
            list.push(name.clone());
        }
        lists
    }
}

/// The kind of memory of a tier.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TierKindName {
    Dram,
    Cxl,
    Nvram,
    Storage,
}

display_word!(TierKindName);

impl From<TierKind> for TierKindName {
    fn from(kind: TierKind) -> Self {
        match kind {
            TierKind::Dram => Self::Dram,
            TierKind::Cxl => Self::Cxl,
            TierKind::Nvram => Self::Nvram,
            TierKind::Storage => Self::Storage,
        }
    }
}

/// The schemas of the documents that `interleaf report` renders.
pub const REPORTED: [&str; 23] = [
    measure::SCHEMA,
    bench_compare::SCHEMA,
    compare_records::SCHEMA,
    compare_runs::SCHEMA,
    predict::SCHEMA,
    plan::SCHEMA,
    reproduce::SCHEMA,
    simulate_machine::SCHEMA,
    dimm::SCHEMA,
    card::SCHEMA,
    card_test::SCHEMA,
    card_cost::SCHEMA,
    extend::SCHEMA,
    extend::FORECAST_SCHEMA,
    extend::PLAN_SCHEMA,
    tune::SCHEMA,
    run::SCHEMA,
    balance::SCHEMA,
    balance::SUMMARY_SCHEMA,
    balance::PLAN_SCHEMA,
    bench::SCHEMA,
    show_machine::DOCTOR_SCHEMA,
    show::SCHEMA,
];

/// Parses a document and checks it, so that rendering it neither panics nor shows a number that is
/// not finite. Errors call the document `name`, usually its path. The text may also be the CSV file
/// of a sweep, or the output of Intel MLC or the curves of the Mess benchmark, which are converted
/// to a measurement.
///
/// # Errors
/// When the text is not JSON, has an unknown schema, lacks a field, or has a value out of range.
pub fn read(name: &str, text: &str) -> Result<Document, RecordError> {
    #[derive(Deserialize)]
    struct Head {
        schema: String,
        /// Of the records with the schema `interleaf.measure/1`, only those of `measure app` have
        /// this field.
        app: Option<serde::de::IgnoredAny>,
        /// Of the records with the schema `interleaf.show/1`, only those of `show --platform` have
        /// this field.
        platform: Option<serde::de::IgnoredAny>,
        /// Of the records with the schema `interleaf.show/1`, only those of `show` about a machine
        /// have this field.
        nodes: Option<serde::de::IgnoredAny>,
        /// All records of a run have this field. The list of settings that `run --restore` prints
        /// has the same schema, `interleaf.run/1`, without this field.
        command: Option<serde::de::IgnoredAny>,
    }
    if let Some(record) = measure::foreign::read(name, text) {
        let record = record?;
        let value = serde_json::to_value(&record).map_err(|why| unparsable(name, "", &why))?;
        check::check_numbers(&value)
            .and_then(|()| record.check())
            .map_err(|why| invalid_record(name, &why))?;
        return Ok(Document::Measure(Box::new(record)));
    }
    if sweep::SweepDocument::is_start(text) {
        return sweep::SweepDocument::read(name, text).map(|it| Document::Sweep(Box::new(it)));
    }
    if sweep::dimm::DimmSweepDocument::is_start(text) {
        let read = sweep::dimm::DimmSweepDocument::read(name, text);
        return read.map(|it| Document::DimmSweep(Box::new(it)));
    }
    check_start(name, text)?;
    // A record of `balance` has a document per line, so take the schema of the first document.
    let first = serde_json::Deserializer::from_str(text).into_iter::<Head>().next();
    let first = first.unwrap_or_else(|| serde_json::from_str(text));
    let Head { schema, app, platform, nodes, command } =
        first.map_err(|why| unparsable(name, "", &why))?;
    match schema.as_str() {
        predict::SCHEMA => checked(name, text).map(Document::Predict),
        plan::SCHEMA => checked(name, text).map(Document::Plan),
        reproduce::SCHEMA => checked(name, text).map(Document::Reproduce),
        simulate_machine::SCHEMA => checked(name, text).map(Document::Machine),
        dimm::SCHEMA => checked(name, text).map(Document::Dimm),
        card::SCHEMA => checked(name, text).map(Document::Card),
        measure::SCHEMA if app.is_some() => checked(name, text).map(Document::Profile),
        measure::SCHEMA => checked(name, text).map(Document::Measure),
        compare_records::SCHEMA => checked(name, text).map(Document::Compare),
        compare_runs::SCHEMA => checked(name, text).map(Document::CompareRuns),
        bench_compare::SCHEMA => checked(name, text).map(Document::Bench),
        bench::SCHEMA => checked(name, text).map(Document::BenchRun),
        extend::SCHEMA => checked(name, text).map(Document::Extend),
        extend::FORECAST_SCHEMA => checked(name, text).map(Document::ExtendForecast),
        extend::PLAN_SCHEMA => checked(name, text).map(Document::ExtendPlan),
        tune::SCHEMA => checked(name, text).map(Document::Tune),
        run::SCHEMA if command.is_some() => checked(name, text).map(Document::Run),
        run::SCHEMA => Err(RecordError::new(
            format!("{name}: command: it is missing: these may be the settings of --restore"),
            "give the document of a run: run --json or -o FILE; --restore without --json prints \
             the settings",
        )),
        balance::SCHEMA => balance_log(name, text).map(Document::Balance),
        balance::PLAN_SCHEMA => checked(name, text).map(Document::BalancePlan),
        balance::SUMMARY_SCHEMA => checked(name, text).map(Document::Advice),
        card_test::SCHEMA => checked(name, text).map(Document::CardTest),
        card_cost::SCHEMA => checked(name, text).map(Document::CardCost),
        show_machine::DOCTOR_SCHEMA => checked(name, text).map(Document::Doctor),
        show::SCHEMA if platform.is_some() => checked(name, text).map(Document::ShowPlatform),
        show::SCHEMA if nodes.is_some() => checked(name, text).map(Document::ShowMachine),
        _ => Err(RecordError::new(
            format!("{name}: schema: no report is made of \"{schema}\""),
            "give a document that a command wrote with -o, --stats or --json; `interleaf show \
             --schema list` names them",
        )),
    }
}

/// Parses a document of a known schema. Checks the ranges of its numbers and the lengths of its
/// lists.
fn checked<T: Check + DeserializeOwned>(name: &str, text: &str) -> Result<Box<T>, RecordError> {
    let document: T =
        serde_path_to_error::deserialize(&mut serde_json::Deserializer::from_str(text))
            .map_err(|why| unparsable(name, &why.path().to_string(), why.inner()))?;
    let value = serde_json::from_str(text).map_err(|why| unparsable(name, "", &why))?;
    check::check_numbers(&value)
        .and_then(|()| document.check())
        .map_err(|why| invalid_record(name, &why))?;
    Ok(Box::new(document))
}

/// Reads a record of `interleaf balance`: a line for each period and each advice.
fn balance_log(name: &str, text: &str) -> Result<Box<balance::BalanceLog>, RecordError> {
    let mut log = balance::BalanceLog::default();
    for (at, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let name = format!("{name}: line {}", at + 1);
        // A line with the schema of an advice is an advice. Read any other line as a period.
        if line.contains(balance::SUMMARY_SCHEMA) {
            log.add_advice(*checked(&name, line)?);
        } else {
            log.add_period(*checked(&name, line)?);
        }
    }
    Ok(Box::new(log))
}

/// Checks that `text`, which is not the CSV file of a sweep, begins as JSON does. For a file of
/// another kind, the errors of the JSON parser would not help the user.
fn check_start(name: &str, text: &str) -> Result<(), RecordError> {
    let start = text.trim_start();
    if start.is_empty() || start.starts_with('{') {
        return Ok(());
    }
    let problem = match serde_json::from_str(start) {
        Ok(serde_json::Value::Array(_)) => {
            "it is a list in JSON, and a document is an object: {...}"
        }
        Ok(_) => "it is a single value in JSON, and a document is an object: {...}",
        Err(_) => "the file is neither a JSON document nor the CSV file of a sweep",
    };
    let hint = "give a document that a command recorded with -o, or the rows of --sweep";
    Err(RecordError::new(format!("{name}: {problem}"), hint))
}

/// Returns the error about a text that is not JSON, or whose value at `field` has the wrong type.
/// `field` is empty or "." for the whole document.
fn unparsable(name: &str, field: &str, why: &serde_json::Error) -> RecordError {
    let field = match field {
        "" | "." => String::new(),
        field => format!("{field}: "),
    };
    let (line, column) = (why.line(), why.column());
    // The message of serde_json ends with the line and the column. Remove them: they are printed
    // before the message.
    let message = why.to_string();
    let problem = message.trim_end_matches(&format!(" at line {line} column {column}"));
    RecordError::new(
        format!("{name}:{line}:{column}: {field}{problem}"),
        "give a document that a command recorded with -o, or extend with --stats",
    )
}

fn invalid_record(name: &str, why: &InvalidField) -> RecordError {
    RecordError::new(
        format!("{name}: {}: {}", why.field, why.problem),
        "give the document as it was recorded: this one was altered since, or damaged",
    )
}

/// Returns the text of a CSV file without the byte order mark with which a spreadsheet begins it.
pub fn without_byte_order_mark(text: &str) -> &str {
    text.strip_prefix('\u{feff}').unwrap_or(text)
}

/// Returns the JSON text of a document, indented and with a line feed at the end.
///
/// # Panics
/// When a map of the document has a key that is not a string: a defect of the document's type.
pub fn json(document: &impl Serialize) -> String {
    let text = serde_json::to_string_pretty(document);
    text.unwrap_or_else(|why| panic!("a document has no JSON: {why}")) + "\n"
}

/// Returns the JSON text of a document on one line, without a line feed.
///
/// # Panics
/// When a map of the document has a key that is not a string, as with [`json`].
pub fn json_line(document: &impl Serialize) -> String {
    let text = serde_json::to_string(document);
    text.unwrap_or_else(|why| panic!("a document has no JSON: {why}"))
}

/// Rounds `value` to six significant digits.
pub fn rounded(value: f64) -> f64 {
    // Formatting as a decimal text rounds exactly, and equally on all machines. The addition of 0
    // turns -0, the sum of an empty list, into 0.
    format!("{value:.5e}").parse().unwrap_or(value) + 0.0
}

/// Rounds each of `values` to six significant digits.
pub fn all_rounded(values: &[f64]) -> Vec<f64> {
    values.iter().copied().map(rounded).collect()
}

/// Returns `weights` in the notation of the command line: `3:1`.
pub fn weights_text(weights: &[u16]) -> String {
    weights.iter().map(u16::to_string).collect::<Vec<_>>().join(":")
}

#[cfg(test)]
mod tests {
    use super::distinct;

    #[test]
    fn names_that_alternate_occur_once() {
        let names = ["seq", "triad", "seq", "random", "triad"];
        assert_eq!(distinct(names), ["seq", "triad", "random"]);
    }
}
