//! Converts failures and panics of Rust to Python exceptions.

use interleaf_console::Failure;
use pyo3::{exceptions::PyRuntimeError, prelude::*};

/// The Python module that defines the exception classes.
const MODULE: &str = "interleaf._errors";

/// Converts a failure, with its hint, to the Python exception `interleaf.InputError`.
pub(crate) fn exception(py: Python<'_>, failure: Failure) -> PyErr {
    let (problem, hint) = match failure {
        Failure::Error { problem, hint } => (problem, hint),
        other @ (Failure::Shown(_) | Failure::BrokenPipe) => (other.to_string(), String::new()),
    };
    let raised = || py.import(MODULE)?.getattr("InputError")?.call1((problem, hint));
    match raised() {
        Ok(error) => PyErr::from_value(error),
        Err(why) => why,
    }
}

/// Returns the Python exception for a panic. A panic is a defect of this library.
pub(crate) fn defect(panic: &(dyn core::any::Any + Send)) -> PyErr {
    let text = panic.downcast_ref::<&str>().map(ToString::to_string);
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
    let text = text.unwrap_or_else(|| "no message".into());
    PyRuntimeError::new_err(format!("a defect of interleaf, please report it: {text}"))
}
