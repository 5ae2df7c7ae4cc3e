//! Reads, checks and renders records, the JSON documents that commands write.

use crate::{call, error::exception};
use interleaf_console::Failure;
use interleaf_record::{Document, RecordError, reproduce::ReproduceDocument};
use pyo3::prelude::*;
use std::path::Path;

/// Reads and checks the record in the file `path`. Returns (schema, JSON text). The output of Intel
/// MLC and the curves of Mess are converted to a measurement.
#[pyfunction]
fn read_record(py: Python<'_>, path: String) -> PyResult<(String, String)> {
    call::short(py, || {
        let hint = "name a document that was recorded with -o FILE";
        let text = interleaf_catalog::document(Path::new(&path), hint)?;
        checked(&path, &text)
    })
}

/// Checks the JSON text of a record. Returns (schema, JSON text as Interleaf writes it).
#[pyfunction]
fn parse_record(py: Python<'_>, name: String, text: String) -> PyResult<(String, String)> {
    call::short(py, || checked(&name, &text))
}

fn checked(name: &str, text: &str) -> Result<(String, String), Failure> {
    let document = parsed(name, text)?;
    if matches!(document, Document::Balance(_)) {
        return Err(Failure::new(
            format!("{name}: it is a document a line, and not one record"),
            "read the lines as JSON, or let `interleaf report` make a page",
        ));
    }
    if matches!(document, Document::Sweep(_) | Document::DimmSweep(_)) {
        return Err(Failure::new(
            format!("{name}: it is the CSV file of a sweep, and not one record"),
            "read it with pandas.read_csv, or draw it with interleaf.plot.sweep",
        ));
    }
    Ok((document.schema().to_string(), document.text()))
}

fn parsed(name: &str, text: &str) -> Result<Document, Failure> {
    let of_record = |why: RecordError| Failure::new(why.problem, why.hint);
    interleaf_record::read(name, text).map_err(of_record)
}

/// The content of a sweep file, as (name of the simulation that runs its cases, `machine` or
/// `dimm`; the arguments in the file).
type Arguments = (&'static str, Vec<interleaf_job::sweep::Argument>);

/// Reads a sweep file. Returns the name of the simulation that runs its cases, and the arguments in
/// the file. An argument has its values as texts, in the order of the cases.
#[pyfunction]
fn read_sweep(py: Python<'_>, path: String) -> PyResult<Arguments> {
    call::short(py, || interleaf_job::sweep::arguments(Path::new(&path)))
}

/// Returns, as JSON, the figures of the record with the JSON text `text`.
#[pyfunction]
fn figures(py: Python<'_>, text: String) -> PyResult<String> {
    call::short(py, || Ok(interleaf_record::json_line(&parsed("record", &text)?.figures())))
}

/// Returns the figures of a record as pairs of (caption, SVG picture). Leaves out figures without
/// points.
#[pyfunction]
fn pictures(py: Python<'_>, text: String) -> PyResult<Vec<(String, String)>> {
    call::short(py, || {
        let figures = parsed("record", &text)?.figures();
        let drawn = figures.into_iter().filter_map(|figure| {
            let picture = interleaf_report::svg::picture(&figure).ok()?;
            Some((figure.caption, picture))
        });
        Ok(drawn.collect())
    })
}

/// Returns a record as an HTML page: a single file that works offline.
#[pyfunction]
fn page(py: Python<'_>, text: String) -> PyResult<String> {
    call::short(py, || Ok(interleaf_report::html::page(&parsed("record", &text)?)))
}

/// Reproduces the study `study`, or "all" studies. Returns the record as JSON text
/// (`interleaf.reproduce/1`).
#[pyfunction]
#[pyo3(signature = (study, progress=None))]
fn reproduce(py: Python<'_>, study: String, progress: Option<Py<PyAny>>) -> PyResult<String> {
    let names = interleaf_study::NAMES;
    if study != "all" && !names.contains(&study.as_str()) {
        let hint = format!("write one of {}, or all", names.join(", "));
        let failure = Failure::new(format!("there is no study \"{study}\""), hint);
        return Err(exception(py, failure));
    }
    call::long(py, progress, move |steps| {
        let studies = interleaf_study::reproduce(&study, steps)?;
        let schema = interleaf_record::reproduce::SCHEMA.into();
        Ok(interleaf_record::json(&ReproduceDocument { schema, studies }))
    })
}

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("PALETTE", interleaf_report::PALETTE.to_vec())?;
    module.add_function(wrap_pyfunction!(read_record, module)?)?;
    module.add_function(wrap_pyfunction!(parse_record, module)?)?;
    module.add_function(wrap_pyfunction!(read_sweep, module)?)?;
    module.add_function(wrap_pyfunction!(figures, module)?)?;
    module.add_function(wrap_pyfunction!(pictures, module)?)?;
    module.add_function(wrap_pyfunction!(page, module)?)?;
    module.add_function(wrap_pyfunction!(reproduce, module)?)
}
