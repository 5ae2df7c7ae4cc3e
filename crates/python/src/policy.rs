//! Policies written in Python, for the simulated machine.
//!
//! The package wraps the user's object in an adapter (`interleaf._policy.Adapter`). The adapter
//! gets plain values, and returns shares, whether the decision is a step, and a reason. If the
//! adapter raises, the simulation ends and the exception is raised from the call.

use interleaf_job::Progress;
use interleaf_model::{
    machine::TierLayout,
    policy::{Observation, Policy, Verdict},
};
use pyo3::{prelude::*, types::PyDict};
use std::sync::{Arc, Mutex, PoisonError};

/// The first exception that a policy of a simulation raised.
#[derive(Clone, Default)]
pub(crate) struct Raised(Arc<Mutex<Option<PyErr>>>);

impl Raised {
    /// Returns the exception, and forgets it.
    pub(crate) fn take(&self) -> Option<PyErr> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn set(&self, why: PyErr) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(why);
    }
}

impl Progress for Raised {
    fn begin(&self, _steps: u64, _task: &str) {}

    fn describe(&self, _task: &str) {}

    fn advance(&self, _steps: u64) {}

    fn end(&self) {}

    fn is_stopped(&self) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).is_some()
    }
}

/// A policy written in Python, for a single domain.
pub(crate) struct PythonPolicy {
    adapter: Option<Py<PyAny>>,
    start: Vec<f64>,
    raised: Raised,
}

impl PythonPolicy {
    /// Creates the policy of the domain with the index `domain` by calling `factory(domain,
    /// tiers)`. If the call raises, `raised` gets the exception, and the policy begins with all
    /// pages on the first tier and never decides.
    pub(crate) fn new(
        factory: &Py<PyAny>,
        raised: &Raised,
        domain: usize,
        tiers: &[TierLayout],
    ) -> Self {
        let made = Python::attach(|py| {
            let tiers: Vec<Bound<'_, PyDict>> =
                tiers.iter().map(|tier| layout(py, tier)).collect::<PyResult<_>>()?;
            let adapter = factory.call1(py, (domain, tiers))?;
            let start: Vec<f64> = adapter.call_method0(py, "start")?.extract(py)?;
            Ok((adapter, start))
        });
        let first = (0..tiers.len()).map(|tier| if tier == 0 { 1.0 } else { 0.0 }).collect();
        let (adapter, start) = match made {
            Ok((adapter, start)) => (Some(adapter), start),
            Err(why) => {
                raised.set(why);
                (None, first)
            }
        };
        Self { adapter, start, raised: raised.clone() }
    }
}

impl Policy for PythonPolicy {
    fn start(&self) -> Vec<f64> {
        self.start.clone()
    }

    fn decide(&mut self, seen: &Observation) -> Verdict {
        let decided = Python::attach(|py| {
            py.check_signals()?;
            let Some(adapter) = &self.adapter else { return Ok(None) };
            let decided = adapter.call_method1(py, "decide", (observation(py, seen)?,))?;
            decided.extract::<(Vec<f64>, bool, String)>(py).map(Some)
        });
        match decided {
            Ok(Some((shares, is_step, reason))) => {
                Verdict::interleave(shares, if is_step { "step" } else { "hold" }, reason)
            }
            Ok(None) => Verdict::interleave(seen.target.clone(), "hold", "the simulation ends"),
            Err(why) => {
                self.raised.set(why);
                Verdict::interleave(seen.target.clone(), "hold", "the policy raised an exception")
            }
        }
    }
}

fn layout<'py>(py: Python<'py>, tier: &TierLayout) -> PyResult<Bound<'py, PyDict>> {
    let values = PyDict::new(py);
    values.set_item("name", &tier.name)?;
    values.set_item("kind", tier.kind.to_string())?;
    values.set_item("capacity_bytes", tier.capacity_bytes)?;
    values.set_item("rated_gbps", tier.rated_gbps)?;
    values.set_item("rated_latency_ns", tier.rated_latency_ns)?;
    Ok(values)
}

fn observation<'py>(py: Python<'py>, seen: &Observation) -> PyResult<Bound<'py, PyDict>> {
    let values = PyDict::new(py);
    values.set_item("time_s", seen.time_s)?;
    values.set_item("samples", seen.quiet)?;
    values.set_item("bandwidth_gbps", seen.bandwidth_gbps)?;
    values.set_item("mean_gbps", seen.mean_gbps)?;
    values.set_item("error_gbps", seen.error_gbps)?;
    values.set_item("target", &seen.target)?;
    values.set_item("steered_bytes", seen.steered_bytes)?;
    let tier = |tier: &interleaf_model::policy::TierObservation| {
        (tier.bandwidth_gbps, tier.read_share, tier.latency_ns, tier.free_bytes)
    };
    values.set_item("tiers", seen.tiers.iter().map(tier).collect::<Vec<_>>())?;
    Ok(values)
}
