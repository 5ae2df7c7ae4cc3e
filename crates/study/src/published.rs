//! Parses the published tables in `reproduce/`, and computes statistics of errors.

use interleaf_console::Failure;
use interleaf_model::weights::Weights;
use serde::de::DeserializeOwned;

/// Parses a built-in table in CSV, whose comment lines begin with `#`.
pub(super) fn table<T: DeserializeOwned>(name: &str, text: &str) -> Result<Vec<T>, Failure> {
    let reader = csv::ReaderBuilder::new().comment(Some(b'#')).from_reader(text.as_bytes());
    reader.into_deserialize().collect::<Result<_, _>>().map_err(|why: csv::Error| {
        Failure::new(format!("{name}: {why}"), "the table is part of the program: report it")
    })
}

/// Returns the weights of DRAM and CXL from two columns of a published table.
pub(super) fn weights(dram: u16, cxl: u16) -> Result<Weights, Failure> {
    Weights::new(vec![dram, cxl])
        .map_err(|why| Failure::new(why.to_string(), "the table is part of the program: report it"))
}

/// Returns the mean and the maximum of the absolute values of `errors`.
pub(super) fn mean_and_max(errors: &[f64]) -> (f64, f64) {
    let mean = errors.iter().map(|error| error.abs()).sum::<f64>() / errors.len().max(1) as f64;
    (mean, errors.iter().fold(0.0, |most: f64, error| most.max(error.abs())))
}

/// Returns the constant that predicts `values` with the least mean relative error, and this error.
/// A useful prediction must have a smaller error than this constant.
pub(super) fn best_constant(values: &[f64]) -> (f64, f64) {
    let error = |constant: f64| {
        values.iter().map(|value| (constant / value - 1.0).abs()).sum::<f64>() / values.len() as f64
    };
    // As a function of the constant, the sum of the relative errors is piecewise linear and bends
    // only where the constant equals one of the values. So its minimum is at one of the values, and
    // only the values are tried.
    let candidates = values.iter().map(|value| (*value, error(*value)));
    candidates.min_by(|a, b| a.1.total_cmp(&b.1)).unwrap_or((1.0, 0.0))
}
