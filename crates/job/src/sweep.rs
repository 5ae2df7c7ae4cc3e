//! Runs sweeps. A sweep file has lists of values, and each combination of their values is a case.
//!
//! Cases are independent of each other: the command line computes them on all cores, in any order.

pub mod dimm;
mod fingerprint;
pub mod lists;
pub mod machine;
pub mod parquet;
mod record;

pub use record::Record;

use interleaf_console::Failure;
use interleaf_model::format::{shell_text, toml_text::TomlText};
use interleaf_record::sweep::Column;
use serde::Deserialize;
use std::path::Path;
use toml::Spanned;

/// The cases of a sweep.
pub trait Cases: Sync {
    /// Returns the name of the sweep.
    fn name(&self) -> &str;

    /// Returns the number of cases.
    fn count(&self) -> usize;

    /// Returns the columns of a row. The last columns are the fingerprints, from which a sweep
    /// detects changed input and changed rows.
    fn columns(&self) -> &'static [Column];

    /// Returns all texts that the rows depend on, such as the sweep file and the files that it
    /// names. A sweep continues a file of rows only if the rows were computed from the same texts.
    fn input(&self) -> Vec<String>;

    /// Notes on the results that are known before the cases are simulated, such as runs that are
    /// too short for an accurate bandwidth.
    fn notes(&self) -> &[String];

    /// Returns the number of rows of the case with the 0-based index `case`.
    fn rows_of(&self, case: usize) -> usize;

    /// Computes data that several of `cases` share, such as the best static weights. Call it before
    /// `rows` is called for one of these cases.
    fn prepare(&mut self, cases: &[usize]);

    /// Simulates a case. Returns the cells of its rows, without the cells of the columns for
    /// fingerprints.
    ///
    /// # Errors
    /// When the simulation is impossible.
    fn rows(&self, case: usize) -> Result<Vec<Vec<String>>, Failure>;
}

/// Returns the fingerprint (hash) of everything that the rows of a sweep depend on: its input, the
/// columns, and the version of Interleaf.
pub fn fingerprint(cases: &dyn Cases) -> String {
    let columns = cases.columns().iter().map(|column| column.name.to_string());
    let tool = std::iter::once(env!("CARGO_PKG_VERSION").to_string()).chain(columns);
    fingerprint::of(cases.input().into_iter().chain(tool))
}

/// The name of an argument of the simulation (`policy`, `seed`), and the text of its value in each
/// case. `None` marks a case without this argument.
pub type Argument = (&'static str, Vec<Option<String>>);

/// Reads a sweep file of machines or of memory modules. Returns the command that simulates the
/// cases (`machine` or `dimm`), and the arguments that the file lists, each with the text of its
/// value in each case.
///
/// # Errors
/// When the file cannot be read, a field is invalid, or there are too many cases.
pub fn arguments(path: &Path) -> Result<(&'static str, Vec<Argument>), Failure> {
    let text = text_of(path)?;
    let is_dimm = head_of(&text).is_some_and(|head| head.schema.get_ref() == dimm::SCHEMA);
    Ok(match is_dimm {
        true => ("dimm", dimm::DimmSweep::read(path)?.arguments()),
        false => ("machine", machine::MachineSweep::read(path)?.arguments()),
    })
}

fn text_of(path: &Path) -> Result<String, Failure> {
    interleaf_catalog::text(path, "name a sweep file; docs/simulate.md shows one")
}

#[derive(Deserialize)]
struct Head {
    schema: Spanned<String>,
}

/// Parses the head of a sweep file, with its schema. Returns `None` if the text cannot be parsed:
/// the caller parses the whole file later, which reports the error.
fn head_of(text: &str) -> Option<Head> {
    toml::from_str(text).ok()
}

/// Reads the text of the sweep file `path`, whose schema must be `schema`. If the file is a sweep
/// of another command, the error names that command.
fn file_of(path: &Path, schema: &str) -> Result<String, Failure> {
    let text = text_of(path)?;
    let file = path.display().to_string();
    let commands = [(machine::SCHEMA, "machine"), (dimm::SCHEMA, "dimm")];
    if let Some(head) = head_of(&text) {
        let found = commands.iter().find(|(other, _)| other == head.schema.get_ref());
        if let Some((_, command)) = found.filter(|(other, _)| *other != schema) {
            let problem = format!("it is a sweep of `interleaf simulate {command}`");
            let hint =
                format!("run interleaf simulate {command} --sweep {}", shell_text::word(&file));
            let toml = TomlText::new(&file, &text);
            return Err(toml.error("schema", &head.schema, problem, hint).into());
        }
    }
    Ok(text)
}
