//! Records: the JSON documents of measurements, predictions, simulations, benchmarks and runs.
//!
//! A document is a struct with a schema and its version, `interleaf.measure/1`, which other programs
//! rely on: a field keeps its name and meaning for as long as the version stands. Each module has
//! one schema: the struct, its construction from the types of the model, the simulator and the
//! kernel's readers, and the check ([`check::Check`]) that a record which was read back can be
//! rendered. [`read`] reads a record of any schema that a report is made of, [`json`] writes one.
//!
//! Units are part of the names (`latency_ns`, `bandwidth_gbps`, `elapsed_s`). Numbers are rounded to
//! six significant digits, so that the same input gives the same bytes on any machine.

#![forbid(unsafe_code)]
#![allow(missing_docs, reason = "a field of a document is named by its quantity and unit")]

pub mod balance;
pub mod bench;
pub mod bench_compare;
pub mod check;
pub mod compare;
pub mod dimm;
pub mod extend;
pub mod figure;
pub mod machine;
pub mod measure;
pub mod predict;
pub mod profile;
pub mod reproduce;
pub mod run;
pub mod show;
pub mod simulate;
pub mod tune;

use check::{Check, InvalidField};
use interleaf_model::{format::FileError, provenance::Provenance};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use std::fmt;

/// A text that is no valid record, and how to mend it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordError {
    /// The problem, with the name of the text and the place in it.
    pub problem: String,
    /// How to mend it.
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

/// A record that a report can be made of.
#[derive(Debug)]
pub enum Document {
    Predict(Box<predict::PredictDocument>),
    Reproduce(Box<reproduce::ReproduceDocument>),
    Machine(Box<simulate::SimulateDocument>),
    Dimm(Box<dimm::DimmDocument>),
    Measure(Box<measure::MeasureDocument>),
    Compare(Box<compare::CompareDocument>),
    Profile(Box<profile::ProfileDocument>),
    Bench(Box<bench_compare::BenchCompareDocument>),
}

/// What a document leans on, by the strength of it.
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
        for (what, provenance) in figures {
            let list = match provenance {
                Provenance::Measured => &mut lists.measured,
                Provenance::Published => &mut lists.published,
                Provenance::Simulated => &mut lists.simulated,
                Provenance::Assumed => &mut lists.assumed,
            };
            list.push(what.clone());
        }
        lists
    }
}

/// The schemas that a report can be made of.
pub const REPORTED: [&str; 7] = [
    measure::SCHEMA,
    bench_compare::SCHEMA,
    compare::SCHEMA,
    predict::SCHEMA,
    reproduce::SCHEMA,
    simulate::SCHEMA,
    dimm::SCHEMA,
];

/// Reads a recorded document and checks it, so that rendering it cannot panic, nor show a number
/// that is not finite. `name` is what errors call it.
pub fn read(name: &str, text: &str) -> Result<Document, RecordError> {
    #[derive(Deserialize)]
    struct Head {
        schema: String,
        /// Only the record of an application has one.
        app: Option<serde::de::IgnoredAny>,
    }
    if let Some(record) = measure::foreign::read(name, text) {
        let record = record?;
        let value = serde_json::to_value(&record).map_err(|why| unparsable(name, "", &why))?;
        check::check_numbers(&value)
            .and_then(|()| record.check())
            .map_err(|why| invalid_record(name, &why))?;
        return Ok(Document::Measure(Box::new(record)));
    }
    let Head { schema, app } =
        serde_json::from_str(text).map_err(|why| unparsable(name, "", &why))?;
    match schema.as_str() {
        predict::SCHEMA => checked(name, text).map(Document::Predict),
        reproduce::SCHEMA => checked(name, text).map(Document::Reproduce),
        simulate::SCHEMA => checked(name, text).map(Document::Machine),
        dimm::SCHEMA => checked(name, text).map(Document::Dimm),
        measure::SCHEMA if app.is_some() => checked(name, text).map(Document::Profile),
        measure::SCHEMA => checked(name, text).map(Document::Measure),
        compare::SCHEMA => checked(name, text).map(Document::Compare),
        bench_compare::SCHEMA => checked(name, text).map(Document::Bench),
        _ => Err(RecordError::new(
            format!("{name}: schema: no report is made of \"{schema}\""),
            format!("give a document with one of the schemas {}", REPORTED.join(", ")),
        )),
    }
}

/// A document of a schema whose fields are there, of their types, in range, and agree.
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

/// A document that is no JSON, or has another type at `field`; that is "." of the whole.
fn unparsable(name: &str, field: &str, why: &serde_json::Error) -> RecordError {
    let field = match field {
        "" | "." => String::new(),
        field => format!("{field}: "),
    };
    RecordError::new(
        format!("{name}:{}:{}: {field}{why}", why.line(), why.column()),
        "give a document that measure, predict, simulate or reproduce recorded with -o",
    )
}

fn invalid_record(name: &str, why: &InvalidField) -> RecordError {
    RecordError::new(
        format!("{name}: {}: {}", why.field, why.problem),
        "give the document as it was recorded with -o: this one was altered since, or damaged",
    )
}

/// The JSON text of a document, indented, with a newline at the end.
///
/// # Panics
/// Where a document has a map whose keys are no text, which is a defect of its type.
pub fn json(document: &impl Serialize) -> String {
    let text = serde_json::to_string_pretty(document);
    text.unwrap_or_else(|why| panic!("a document has no JSON: {why}")) + "\n"
}

/// The JSON text of a document on one line, without a newline.
///
/// # Panics
/// As [`json`].
pub fn json_line(document: &impl Serialize) -> String {
    let text = serde_json::to_string(document);
    text.unwrap_or_else(|why| panic!("a document has no JSON: {why}"))
}

/// `value` rounded to six significant digits.
pub fn rounded(value: f64) -> f64 {
    // Through decimal text, which is exact and the same everywhere. An empty sum is -0 in Rust.
    format!("{value:.5e}").parse().unwrap_or(value) + 0.0
}

/// All of `values`, rounded.
pub fn all_rounded(values: &[f64]) -> Vec<f64> {
    values.iter().copied().map(rounded).collect()
}

/// Weights in the notation of the command line: `3:1`.
pub fn weights_text(weights: &[u16]) -> String {
    weights.iter().map(u16::to_string).collect::<Vec<_>>().join(":")
}
