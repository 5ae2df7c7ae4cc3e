//! Predictions: one prediction as a JSON record, or the predictions of many weights as rows of
//! numbers.

use crate::{
    call,
    model::{DemandHandle, PlatformHandle},
    options::{Texts, parsed},
};
use interleaf_console::Failure;
use interleaf_job::{
    Progress,
    option::{self, LoadChoice, WeightsChoice},
    predict::{PredictJob, Traffic},
};
use interleaf_model::{
    demand::Demand, mix::Mix, platform::Platform, predict::Row, weights::Weights,
};
use pyo3::{prelude::*, types::PyBytes};
use std::sync::Arc;

/// Maximum number of weights whose predictions run without checks for signals. Each prediction
/// takes tens of microseconds.
const SHORT_MAX: usize = 16;

/// The options of a prediction, parsed.
struct Request {
    platform: Arc<Platform>,
    demand: Option<Arc<Demand>>,
    mix: Option<Mix>,
    threads: Option<u32>,
    weights: Option<WeightsChoice>,
    load: LoadChoice,
}

impl Request {
    fn new(
        platform: &PlatformHandle,
        demand: Option<&DemandHandle>,
        texts: &Texts,
    ) -> Result<Self, Failure> {
        Ok(Self {
            platform: Arc::clone(&platform.platform),
            demand: demand.map(|it| Arc::clone(&it.demand)),
            mix: parsed(texts, "mix", option::mix)?,
            threads: parsed(texts, "threads", option::threads)?,
            weights: parsed(texts, "weights", option::weights_choice)?,
            load: parsed(texts, "load", option::load)?.unwrap_or(LoadChoice::Max),
        })
    }

    fn job(&self) -> Result<PredictJob<'_>, Failure> {
        let traffic = match (&self.mix, &self.demand) {
            (Some(mix), None) => Traffic::Mix(*mix),
            (None, Some(demand)) => Traffic::Demand(demand),
            _ => {
                let problem = "a prediction is for a mix, a workload or a demand: give one of them";
                return Err(Failure::new(problem, "write for example mix=\"R\""));
            }
        };
        Ok(PredictJob {
            platform: &self.platform,
            traffic,
            threads: self.threads,
            weights: self.weights.clone(),
            load: self.load,
        })
    }

    fn json(&self, progress: &dyn Progress) -> Result<String, Failure> {
        Ok(interleaf_record::json(&self.job()?.run(progress)?))
    }

    /// True if the prediction takes milliseconds at most.
    fn is_short(&self) -> bool {
        let few =
            matches!(&self.weights, Some(WeightsChoice::List(list)) if list.len() <= SHORT_MAX);
        few && self.load != LoadChoice::Sweep
    }
}

/// Predicts, and returns the record as JSON text (`interleaf.predict/1`).
#[pyfunction]
#[pyo3(signature = (platform, demand, texts, progress=None))]
fn predict(
    py: Python<'_>,
    platform: &PlatformHandle,
    demand: Option<&DemandHandle>,
    texts: Texts,
    progress: Option<Py<PyAny>>,
) -> PyResult<String> {
    let request = Request::new(platform, demand, &texts);
    let request = request.map_err(|why| crate::error::exception(py, why))?;
    if request.is_short() {
        return call::short(py, || request.json(&()));
    }
    call::long(py, progress, move |steps| request.json(steps))
}

/// Number of values in a row of `predict_rows`. The values of each tier do not count.
const SCALARS: usize = 10;

/// Predicts the results of many choices of weights, without rounding. In `weights`, each choice has
/// one byte per tier, the tier's weight. Returns two byte strings: the rows of all choices as
/// float64 values, and a byte of flags for each row. A row has the bandwidth (mean, low, high), the
/// latency, the speed-up (mean, low, high), the result (mean, low, high; NaN for a mix), the
/// bandwidth of each tier, and the latency of each tier. Flag 1 is set if the pages fit, and flag 2
/// if the row is extrapolated.
#[pyfunction]
#[pyo3(signature = (platform, demand, texts, weights, progress=None))]
fn predict_rows<'py>(
    py: Python<'py>,
    platform: &PlatformHandle,
    demand: Option<&DemandHandle>,
    texts: Texts,
    weights: &[u8],
    progress: Option<Py<PyAny>>,
) -> PyResult<(Bound<'py, PyBytes>, Bound<'py, PyBytes>)> {
    let request = Request::new(platform, demand, &texts);
    let request = request.map_err(|why| crate::error::exception(py, why))?;
    let tiers = request.platform.tiers.len();
    let weights = weights.to_vec();
    let compute = move |steps: &call::Steps| -> Result<(Vec<u8>, Vec<u8>), Failure> {
        let weights = checked_rows(&weights, tiers)?;
        let rows = request.job()?.rows(&weights, steps, |row| values(&row))?;
        let width = SCALARS + 2 * tiers;
        let mut bytes = Vec::with_capacity(8 * width * rows.len());
        let mut flags = Vec::with_capacity(rows.len());
        for (row, flag) in rows {
            row.iter().for_each(|value| bytes.extend_from_slice(&value.to_ne_bytes()));
            flags.push(flag);
        }
        Ok((bytes, flags))
    };
    let (bytes, flags) = call::long(py, progress, compute)?;
    Ok((PyBytes::new(py, &bytes), PyBytes::new(py, &flags)))
}

fn checked_rows(weights: &[u8], tiers: usize) -> Result<Vec<Weights>, Failure> {
    let row = |(at, row): (usize, &[u8])| {
        let weights = Weights::new(row.iter().map(|weight| u16::from(*weight)).collect());
        weights.map_err(|why| {
            let hint = "give each row a weight above 0";
            Failure::new(format!("weights[{at}]: {why}"), hint)
        })
    };
    weights.chunks_exact(tiers).enumerate().map(row).collect()
}

fn values(row: &Row) -> (Vec<f64>, u8) {
    let (bandwidth, speedup) = (row.bandwidth_gbps, row.speedup);
    let result = row.result.map_or([f64::NAN; 3], |it| [it.mean, it.low, it.high]);
    let mut values = vec![bandwidth.mean, bandwidth.low, bandwidth.high, row.latency_ns];
    values.extend([speedup.mean, speedup.low, speedup.high]);
    values.extend(result);
    values.extend(&row.tier_bandwidth_gbps);
    values.extend(&row.tier_latency_ns);
    let extrapolated = u8::from(!row.extrapolated.is_empty());
    (values, u8::from(row.too_small.is_none()) + 2 * extrapolated)
}

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(predict, module)?)?;
    module.add_function(wrap_pyfunction!(predict_rows, module)?)
}
