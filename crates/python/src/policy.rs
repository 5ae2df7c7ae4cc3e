//! Policies that are written in Python, for the simulated machine.
//!
//! The Python package wraps the user's policy in an adapter (`interleaf._policy.Adapter`). The
//! adapter receives plain values. It returns the target shares, a flag that is true if the shares
//! change, and a reason. If the adapter raises an exception, the simulation ends, and the call that
//! started the simulation raises this exception.

use crate::call::{self, SIGNAL_CHECK, Steps};
use interleaf_console::Failure;
use interleaf_job::Progress;
use interleaf_model::{
    machine::TierLayout,
    policy::{Observation, Policy, Verdict},
};
use pyo3::{prelude::*, types::PyDict};
use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Instant,
};

/// The progress of a simulation with policies in Python, and the exception that ends it: the first
/// exception that a policy, a signal handler or the caller's progress function raises.
///
/// The simulation runs on the calling thread, so it checks for signals and reports progress itself,
/// at its first step after each [`SIGNAL_CHECK`].
#[derive(Clone)]
pub(crate) struct Watch(Arc<Watched>);

struct Watched {
    steps: Arc<Steps>,
    callback: Option<Py<PyAny>>,
    raised: Mutex<Option<PyErr>>,
    checked: Mutex<Instant>,
}

impl Watch {
    pub(crate) fn new(callback: Option<Py<PyAny>>) -> Self {
        Self(Arc::new(Watched {
            steps: Arc::default(),
            callback,
            raised: Mutex::default(),
            checked: Mutex::new(Instant::now()),
        }))
    }

    /// Runs `compute`, a part of the simulation that calls no policy in Python, on a separate
    /// thread, as [`call::long`] does. If `compute` fails or is interrupted, returns `None`, and
    /// keeps the exception for [`Self::end`].
    pub(crate) fn part<T: Send + 'static>(
        &self,
        compute: impl FnOnce() -> Result<T, Failure> + Send + 'static,
    ) -> Option<T> {
        let Watched { steps, callback, .. } = &*self.0;
        let done = Python::attach(|py| call::part(py, steps, callback.as_ref(), |_| compute()));
        done.map_err(|why| self.raise(why)).ok()
    }

    /// Reports the progress for the last time, or returns the exception that `raise` has kept.
    pub(crate) fn end(&self, py: Python<'_>) -> PyResult<()> {
        let raised = self.0.raised.lock().unwrap_or_else(PoisonError::into_inner).take();
        raised.map_or_else(|| self.0.steps.report(py, self.0.callback.as_ref()), Err)
    }

    fn raise(&self, why: PyErr) {
        self.0.raised.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(why);
    }

    /// True if the last check for signals was at least [`SIGNAL_CHECK`] ago. The caller must check
    /// then: this method sets the time of the last check to now.
    fn is_due(&self) -> bool {
        let mut checked = self.0.checked.lock().unwrap_or_else(PoisonError::into_inner);
        let is_due = checked.elapsed() >= SIGNAL_CHECK;
        if is_due {
            *checked = Instant::now();
        }
        is_due
    }
}

impl Progress for Watch {
    fn begin(&self, steps: u64, task: &str) {
        self.0.steps.begin(steps, task);
    }

    fn describe(&self, task: &str) {
        self.0.steps.describe(task);
    }

    fn advance(&self, steps: u64) {
        self.0.steps.advance(steps);
    }

    fn end(&self) {
        self.0.steps.end();
    }

    fn is_stopped(&self) -> bool {
        if self.is_due() {
            let callback = self.0.callback.as_ref();
            let checked = Python::attach(|py| {
                py.check_signals().and_then(|()| self.0.steps.report(py, callback))
            });
            if let Err(why) = checked {
                self.raise(why);
            }
        }
        self.0.raised.lock().unwrap_or_else(PoisonError::into_inner).is_some()
    }
}

/// A policy that is written in Python, for one domain.
pub(crate) struct PythonPolicy {
    adapter: Option<Py<PyAny>>,
    start: Vec<f64>,
    watch: Watch,
}

impl PythonPolicy {
    /// Creates the policy of the domain with the index `domain`, by a call of `factory` with the
    /// domain and its tiers. If the call raises an exception, `watch` keeps it. The policy then
    /// begins with all pages on the first tier, and never decides.
    pub(crate) fn new(
        factory: &Py<PyAny>,
        watch: &Watch,
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
                watch.raise(why);
                (None, first)
            }
        };
        Self { adapter, start, watch: watch.clone() }
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
                self.watch.raise(why);
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
