//! The native module `interleaf._core` of the Python package.
//!
//! It parses options, runs the jobs of `interleaf_job`, and returns records as their JSON text,
//! the same bytes that the command prints. The typed classes of the package (`python/interleaf`)
//! read that text. Objects of this module are immutable. Computations release the GIL; a long one
//! runs on a thread of its own, while the calling thread waits for it and for signals ([`call`]).

mod call;
mod error;
mod model;
mod options;
mod policy;
mod predict;
mod record;
mod simulate;

use pyo3::prelude::*;

/// The native module.
#[pymodule]
#[pyo3(name = "_core")]
fn interleaf_python(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("VERSION", env!("CARGO_PKG_VERSION"))?;
    model::register(module)?;
    predict::register(module)?;
    simulate::register(module)?;
    record::register(module)
}
