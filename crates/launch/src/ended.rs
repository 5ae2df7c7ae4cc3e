//! Exit status of a command, and the end of several runs of a command.

use interleaf_console::Failure;
use std::{
    os::unix::process::ExitStatusExt,
    process::{ExitCode, ExitStatus},
    time::Duration,
};

/// Exit status and run time of a command.
#[derive(Clone, Copy, Debug)]
pub struct Ended {
    /// The status of the command; `None` when a signal came before the command was started.
    pub status: Option<ExitStatus>,
    /// The run time.
    pub elapsed: Duration,
    /// The first signal that this process received.
    pub signal: Option<i32>,
}

/// The end of several runs of a command.
pub enum RunsEnd {
    /// The run was dry: the command was not started.
    DryRun,
    /// The search or comparison has its result, or the maximum number of runs or the time limit is
    /// reached.
    Done,
    /// This process received a signal.
    Signal(i32),
    Failed(Failure),
}

impl Ended {
    /// Returns the result of a command that a signal kept from being started.
    pub fn not_started(signal: i32) -> Self {
        Self { status: None, elapsed: Duration::ZERO, signal: Some(signal) }
    }

    /// Returns the exit status of this process, which passes on the status of the command.
    pub fn exit_code(&self) -> ExitCode {
        match (self.status, self.signal) {
            (Some(status), _) => match (status.code(), status.signal()) {
                (Some(code), _) => ExitCode::from(code as u8),
                (None, signal) => signal_status(signal.unwrap_or(0)),
            },
            (None, signal) => signal_status(signal.unwrap_or(0)),
        }
    }
}

/// Returns the exit status that shells give a process which a signal ended: 128 plus the signal's
/// number.
pub fn signal_status(signal: i32) -> ExitCode {
    ExitCode::from((128 + signal) as u8)
}
