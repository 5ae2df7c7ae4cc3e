//! A job is a value with the options of a prediction or a simulation; its run returns a record.
//!
//! The command line and the Python package make the same jobs, so the same options give the same
//! record, byte by byte. [`option`] parses the text of an option with its unit and range. A job
//! prints nothing. While it runs, it reports its progress to a [`Progress`], which may stop the
//! job.

#![forbid(unsafe_code)]

pub mod card;
pub mod dimm;
pub mod machine;
pub mod option;
pub mod plan;
pub mod predict;
pub mod sweep;

use interleaf_console::Failure;

/// Receives the progress of a long computation, in steps such as points or cases, and may stop the
/// computation. Several threads report steps at the same time, so an implementation must be `Sync`.
pub trait Progress: Sync {
    /// A task of `steps` steps begins, and the previous task, if any, ends.
    fn begin(&self, steps: u64, task: &str);

    /// Renames the current task.
    fn describe(&self, task: &str);

    /// `steps` more steps of the current task are done.
    fn advance(&self, steps: u64);

    /// The last task ends.
    fn end(&self);

    /// True if the computation must stop. The computation then fails with [`stopped`].
    fn is_stopped(&self) -> bool {
        false
    }
}

/// The progress of a computation that nobody watches: reports are ignored, and the computation is
/// never stopped.
impl Progress for () {
    fn begin(&self, _steps: u64, _task: &str) {}

    fn describe(&self, _task: &str) {}

    fn advance(&self, _steps: u64) {}

    fn end(&self) {}
}

/// Returns the failure of a computation that its [`Progress`] stopped.
pub fn stopped() -> Failure {
    Failure::new("the computation was stopped", "start it again")
}

/// Fails if `progress` stopped the computation.
///
/// # Errors
/// When `progress` stopped the computation; the error is that of [`stopped`].
pub fn check(progress: &dyn Progress) -> Result<(), Failure> {
    if progress.is_stopped() { Err(stopped()) } else { Ok(()) }
}
