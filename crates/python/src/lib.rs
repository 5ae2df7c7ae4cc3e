//! The native module `interleaf._core` of the Python package.
//!
//! The module parses options, runs the jobs of `interleaf_job`, and returns records as JSON texts,
//! with the same bytes that the command prints. The package's typed classes (`python/interleaf`)
//! parse these texts. Objects of this module are immutable. Computations release the GIL. A long
//! computation runs on a separate thread, while the calling thread waits for the result and for
//! signals ([`call`]).

mod call;
mod error;
mod model;
mod options;
mod plan;
mod policy;
mod predict;
mod record;
mod simulate;

use pyo3::prelude::*;

/// Defines the native module `interleaf._core`.
#[pymodule]
#[pyo3(name = "_core")]
fn interleaf_python(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("VERSION", env!("CARGO_PKG_VERSION"))?;
    model::register(module)?;
    predict::register(module)?;
    plan::register(module)?;
    simulate::register(module)?;
    record::register(module)
}
