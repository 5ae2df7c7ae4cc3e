//! The error of a command: a problem and a hint.

use interleaf_model::format::FileError;
use std::fmt;

/// The reason why a command did not complete.
#[derive(Debug)]
pub enum Failure {
    /// An error, with a hint. Exit status 2.
    Error {
        /// The problem, in a sentence without a full stop.
        problem: String,
        /// Advice to the user: how to solve or avoid the problem.
        hint: String,
    },
    /// Help or the version, to be printed. Exit status 0.
    Shown(String),
    /// The reader of stdout closed the pipe. Exit status 0, as for other tools in a pipe.
    BrokenPipe,
}

impl Failure {
    /// Creates an error with a hint.
    pub fn new(problem: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::Error { problem: problem.into(), hint: hint.into() }
    }

    /// Puts the location of the cause, such as a file and its field, in front of the problem.
    pub fn within(self, place: &str) -> Self {
        match self {
            Self::Error { problem, hint } => {
                Self::Error { problem: format!("{place}: {problem}"), hint }
            }
            other => other,
        }
    }
}

impl std::error::Error for Failure {}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Error { problem, hint } => write!(f, "{problem}; hint: {hint}"),
            Self::Shown(text) => f.write_str(text),
            Self::BrokenPipe => f.write_str("the reader of stdout has gone"),
        }
    }
}

impl From<FileError> for Failure {
    fn from(error: FileError) -> Self {
        Self::new(error.to_string(), error.hint)
    }
}
