//! The end of a command.

use std::{
    os::unix::process::ExitStatusExt,
    process::{ExitCode, ExitStatus},
    time::Duration,
};

/// The exit status of a command, and its run time.
#[derive(Clone, Copy, Debug)]
pub struct Ended {
    /// The status of the command; `None` when a signal came before it was started.
    pub status: Option<ExitStatus>,
    /// The time from its start to its end.
    pub elapsed: Duration,
    /// The first signal that came to this process.
    pub signal: Option<i32>,
}

impl Ended {
    /// The end of a command that a signal kept from being started.
    pub fn unstarted(signal: i32) -> Self {
        Self { status: None, elapsed: Duration::ZERO, signal: Some(signal) }
    }

    /// The exit status of a process that ran the command and exits as the command did.
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

/// The exit status that shells give a process which a signal ended: 128 and its number.
pub fn signal_status(signal: i32) -> ExitCode {
    ExitCode::from((128 + signal) as u8)
}
