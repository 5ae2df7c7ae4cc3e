//! Parsers of files into the types of this crate.
//!
//! The structs that mirror a file are private to their module; they change with the format, not
//! with the model. Every error names the file, the problem and the remedy. It also names the line
//! and the field, unless the file as a whole is wrong. No function here opens a file: the caller
//! passes the text and the name of the file.

pub mod configuration_toml;
pub mod curve_csv;
pub mod demand_toml;
pub mod inherit;
pub mod mess_csv;
pub mod mlc_text;
pub mod names;
pub mod parts_toml;
pub mod platform_toml;
pub mod price_text;
pub mod shell_text;
mod table;
pub mod toml_text;

use std::fmt;

/// An error in a file: its position, the problem, and the remedy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileError {
    /// The file name, as the caller passed it.
    pub file: String,
    /// The 1-based line of the file; `None` if the error is not about a line.
    pub line: Option<usize>,
    /// The name of the field with its table, or of the column; `None` if the error is about neither
    /// of them.
    pub field: Option<String>,
    /// The problem, such as a wrong value or a missing key.
    pub problem: String,
    /// The remedy: what to write instead.
    pub hint: String,
}

impl FileError {
    /// The name of the missing key, if the problem is a missing key.
    pub fn missing_key(&self) -> Option<&str> {
        self.problem.strip_prefix("missing field `")?.strip_suffix('`')
    }

    /// Replaces the hint of this error if the problem is a missing key and `hints` has a hint for
    /// this key. Each of `hints` is a pair of a key and a hint.
    #[must_use]
    pub fn with_hint_of_missing(self, hints: &[(&str, &str)]) -> Self {
        let hint = hints.iter().find(|(key, _)| self.missing_key() == Some(*key));
        match hint {
            Some((_, hint)) => Self { hint: (*hint).into(), ..self },
            None => self,
        }
    }
}

impl std::error::Error for FileError {}

impl fmt::Display for FileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.file)?;
        if let Some(line) = self.line {
            write!(f, ":{line}")?;
        }
        if let Some(field) = &self.field {
            write!(f, ": {field}")?;
        }
        write!(f, ": {}", self.problem)
    }
}
