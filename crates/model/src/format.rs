//! The text of files into the types of this crate.
//!
//! The structs that mirror a file are of their own and private to their module; they change when
//! the format does, not when the model does. Every error names the file, the line, the field, what
//! is wrong with it and how to mend it. Nothing here opens a file: who reads one passes its text
//! and its name.

pub mod curve_csv;
pub mod demand_toml;
pub mod mess_csv;
pub mod mlc_text;
pub mod platform_toml;
mod table;
pub mod toml_text;

use std::fmt;

/// An error in a file: its position, the problem, and the remedy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileError {
    /// The file, as it was named.
    pub file: String,
    /// The line, from 1, where it is known.
    pub line: Option<usize>,
    /// The field or column, with the table it is in.
    pub field: Option<String>,
    /// The problem.
    pub problem: String,
    /// The remedy.
    pub hint: String,
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
