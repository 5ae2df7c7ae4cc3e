//! The exit status of a command, and the end of several runs of a command.

use interleaf_console::Failure;
use std::{
    os::unix::process::ExitStatusExt,
    process::{ExitCode, ExitStatus},
    time::Duration,
};

/// Exit status and run time of a command.
#[derive(Clone, Copy, Debug)]
pub struct Ended {
    /// The status of the command; `None` if a signal came before the command was started.
    pub status: Option<ExitStatus>,
    /// The time from start to end.
    pub elapsed: Duration,
    /// The first signal that this process received.
    pub signal: Option<i32>,
}

/// The reason for the end of several runs of a command.
pub enum RunsEnd {
    /// The run was dry: the command was not started.
    DryRun,
    /// The search or comparison has its result, or has reached the maximum number of runs or the
    /// time limit.
    Done,
    /// This process received a signal.
    Signal(i32),
    Failed(Failure),
}

impl Ended {
    /// Returns the result for a command that was not started because of a signal.
    pub fn not_started(signal: i32) -> Self {
        Self { status: None, elapsed: Duration::ZERO, signal: Some(signal) }
    }

    /// Returns the exit status for this process, which passes on the status of the command: 128
    /// plus the signal's number if a signal ended the command or kept it from being started.
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
