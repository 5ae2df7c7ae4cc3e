//! The documents that verbs write: versioned structs, whose JSON others rely on.
//!
//! Units are part of the names. Numbers are rounded to six significant digits, so that the same
//! input gives the same bytes on any machine.

pub(crate) mod balance;
pub(crate) mod bench;
pub(crate) mod bench_compare;
pub(crate) mod compare;
pub(crate) mod dimm;
pub(crate) mod extend;
pub(crate) mod figure;
pub(crate) mod machine;
pub(crate) mod measure;
pub(crate) mod predict;
pub(crate) mod profile;
pub(crate) mod reproduce;
pub(crate) mod run;
pub(crate) mod show;
pub(crate) mod simulate;
pub(crate) mod tune;

use crate::failure::Failure;
use interleaf_model::provenance::Provenance;
use serde::{Deserialize, Serialize};

/// Something that was recorded.
#[derive(Debug)]
pub(crate) enum Document {
    Predict(Box<predict::PredictDocument>),
    Reproduce(reproduce::ReproduceDocument),
    Machine(Box<simulate::MachineDocument>),
    Measure(Box<measure::MeasureDocument>),
    Compare(Box<compare::CompareDocument>),
    Profile(Box<profile::ProfileDocument>),
    Bench(Box<bench_compare::CompareDocument>),
}

/// What a document leans on, by the strength of it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct LeansOn {
    pub(crate) measured: Vec<String>,
    pub(crate) published: Vec<String>,
    pub(crate) simulated: Vec<String>,
    pub(crate) assumed: Vec<String>,
}

impl LeansOn {
    pub(crate) fn of(figures: &[(String, Provenance)]) -> Self {
        let mut leans_on = Self::default();
        for (what, provenance) in figures {
            let list = match provenance {
                Provenance::Measured => &mut leans_on.measured,
                Provenance::Published => &mut leans_on.published,
                Provenance::Simulated => &mut leans_on.simulated,
                Provenance::Assumed => &mut leans_on.assumed,
            };
            list.push(what.clone());
        }
        leans_on
    }
}

/// Reads a recorded document. `name` is what errors call it.
pub(crate) fn read(name: &str, text: &str) -> Result<Document, Failure> {
    #[derive(Deserialize)]
    struct Head {
        schema: String,
        /// Only the record of an application has one.
        app: Option<serde::de::IgnoredAny>,
    }
    let broken = |why: serde_json::Error| {
        Failure::new(
            format!("{name}:{}:{}: {why}", why.line(), why.column()),
            "give a document that measure, predict, simulate or reproduce recorded with -o",
        )
    };
    if let Some(record) = measure::foreign::read(name, text) {
        return Ok(Document::Measure(Box::new(record?)));
    }
    let Head { schema, app } = serde_json::from_str(text).map_err(broken)?;
    match schema.as_str() {
        predict::SCHEMA => {
            serde_json::from_str(text).map(Box::new).map(Document::Predict).map_err(broken)
        }
        reproduce::SCHEMA => serde_json::from_str(text).map(Document::Reproduce).map_err(broken),
        simulate::SCHEMA => {
            serde_json::from_str(text).map(Box::new).map(Document::Machine).map_err(broken)
        }
        measure::SCHEMA if app.is_some() => {
            serde_json::from_str(text).map(Box::new).map(Document::Profile).map_err(broken)
        }
        measure::SCHEMA => {
            serde_json::from_str(text).map(Box::new).map(Document::Measure).map_err(broken)
        }
        compare::SCHEMA => {
            serde_json::from_str(text).map(Box::new).map(Document::Compare).map_err(broken)
        }
        bench_compare::SCHEMA => {
            serde_json::from_str(text).map(Box::new).map(Document::Bench).map_err(broken)
        }
        _ => Err(Failure::new(
            format!("{name}: schema: no report is made of \"{schema}\""),
            format!(
                "give a document with the schema {}, {}, {}, {}, {} or {}",
                measure::SCHEMA,
                bench_compare::SCHEMA,
                compare::SCHEMA,
                predict::SCHEMA,
                reproduce::SCHEMA,
                simulate::SCHEMA
            ),
        )),
    }
}

/// The JSON text of a document.
pub(crate) fn json(document: &impl Serialize) -> Result<String, Failure> {
    match serde_json::to_string_pretty(document) {
        Ok(text) => Ok(text + "\n"),
        Err(why) => {
            Err(Failure::new(format!("the document cannot be written: {why}"), "report it"))
        }
    }
}

/// `value` rounded to six significant digits.
pub(crate) fn rounded(value: f64) -> f64 {
    // Through decimal text, which is exact and the same everywhere.
    format!("{value:.5e}").parse().unwrap_or(value)
}

/// All of `values`, rounded.
pub(crate) fn all_rounded(values: &[f64]) -> Vec<f64> {
    values.iter().copied().map(rounded).collect()
}
