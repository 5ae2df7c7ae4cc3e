//! Compares configurations of a server (`interleaf plan`), and returns the record as JSON text.

use crate::{
    call,
    options::{Texts, parsed},
};
use interleaf_console::{Failure, support};
use interleaf_job::{
    Progress, option,
    plan::{PlanJob, Planned, configurations, demand_shares},
};
use interleaf_record::plan::Goal;
use pyo3::prelude::*;
use std::path::Path;

/// Pairs of (text of the option `goal`, goal).
const GOALS: [(&str, Goal); 4] = [
    ("value", Goal::Value),
    ("speed", Goal::Speed),
    ("energy", Goal::Energy),
    ("cost", Goal::Cost),
];

/// Compares the configurations `names` for `demands`. The record has the schema `interleaf.plan/1`.
#[pyfunction]
#[pyo3(signature = (demands, names, texts, future, progress=None))]
fn plan(
    py: Python<'_>,
    demands: Vec<String>,
    names: Vec<String>,
    texts: Texts,
    future: bool,
    progress: Option<Py<PyAny>>,
) -> PyResult<String> {
    call::long(py, progress, move |steps| record(&demands, &names, &texts, future, steps))
}

fn record(
    demands: &[String],
    names: &[String],
    texts: &Texts,
    future: bool,
    progress: &dyn Progress,
) -> Result<String, Failure> {
    let mix = parsed(texts, "mix", option::mix)?;
    let demands = demand_shares(demands)?;
    let planned = match (mix, demands.is_empty()) {
        (Some(mix), true) => Planned::Mix(mix),
        (None, false) => Planned::Demands(&demands),
        _ => {
            let problem = "a plan is for a mix or for demands: give one of them";
            return Err(Failure::new(problem, "write for example demand=\"hpcg\""));
        }
    };
    if mix.is_some() {
        let of_demand = ["footprint", "threads"].map(|name| (texts.contains_key(name), name));
        support::reject_given(&of_demand, "goes with demand, not with mix", "give demand")?;
    }
    let parts = interleaf_catalog::parts(texts.get("prices").map(Path::new))?;
    let job = PlanJob {
        planned,
        configurations: configurations(names)?,
        parts: &parts,
        baseline: texts.get("baseline").cloned(),
        footprint: parsed(texts, "footprint", option::size)?,
        threads: parsed(texts, "threads", option::threads)?,
        goal: parsed(texts, "goal", goal)?.unwrap_or_default(),
        future,
        vary: parsed(texts, "vary", option::vary)?.unwrap_or(0.2),
    };
    Ok(interleaf_record::json(&job.run(progress)?))
}

fn goal(text: &str) -> Result<Goal, String> {
    let known = GOALS.iter().find(|(name, _)| *name == text);
    known.map(|(_, goal)| *goal).ok_or_else(|| {
        let names: Vec<&str> = GOALS.iter().map(|(name, _)| *name).collect();
        format!("there is no goal \"{text}\": write one of {}", names.join(", "))
    })
}

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(plan, module)?)
}
