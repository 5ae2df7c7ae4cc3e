//! How a command fails: what is wrong, and how to mend it.

use interleaf_model::format::FileError;

/// The reason why a command did not do what was asked.
#[derive(Debug)]
pub(crate) enum Failure {
    /// An error, with a hint. Exit status 2.
    Error {
        /// What is wrong.
        problem: String,
        /// How to mend it.
        hint: String,
    },
    /// Nothing failed: help or the version was asked for. Exit status 0.
    Shown(String),
    /// Whoever read the output has gone. Exit status 0, as for every tool in a pipe.
    BrokenPipe,
}

impl Failure {
    pub(crate) fn new(problem: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::Error { problem: problem.into(), hint: hint.into() }
    }

    /// The same failure, met while `place` was looked at.
    pub(crate) fn within(self, place: &str) -> Self {
        match self {
            Self::Error { problem, hint } => {
                Self::Error { problem: format!("{place}: {problem}"), hint }
            }
            other => other,
        }
    }
}

impl From<FileError> for Failure {
    fn from(error: FileError) -> Self {
        Self::new(error.to_string(), error.hint)
    }
}
