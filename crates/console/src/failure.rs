//! Defines the error of a command: a problem and a hint.

use interleaf_model::format::FileError;
use std::{collections::BTreeSet, fmt};

/// The reason why a command did not complete.
#[derive(Debug)]
pub enum Failure {
    /// The command failed: an error with a hint. Exit status 2.
    Error {
        /// The problem, in a sentence without a full stop.
        problem: String,
        /// Advice to the user: how to solve or avoid the problem.
        hint: String,
    },
    /// The text of `--help` or `--version`, to be printed on stdout. Exit status 0.
    Shown(String),
    /// The reader of stdout closed the pipe. The exit status is 0, as that of other tools in a
    /// pipe.
    BrokenPipe,
}

impl Failure {
    /// Creates an error with a hint.
    pub fn new(problem: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::Error { problem: problem.into(), hint: hint.into() }
    }

    /// Prefixes the problem with `place`, the location of its cause, such as a file and a field.
    pub fn within(self, place: &str) -> Self {
        match self {
            Self::Error { problem, hint } => {
                Self::Error { problem: format!("{place}: {problem}"), hint }
            }
            other => other,
        }
    }
}

/// Checks that all names in the list of the option `option` are different.
///
/// # Errors
/// When a name is in the list twice.
pub fn check_distinct<'n>(
    option: &str,
    names: impl IntoIterator<Item = &'n str>,
) -> Result<(), Failure> {
    let mut known = BTreeSet::new();
    match names.into_iter().find(|name| !known.insert(*name)) {
        Some(name) => {
            let hint = format!("name each {} once", option.trim_start_matches('-'));
            Err(Failure::new(format!("{option}: {name} is there twice"), hint))
        }
        None => Ok(()),
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
