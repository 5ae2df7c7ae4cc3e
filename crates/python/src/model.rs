//! Platforms, demands, curves, mixes and weights for the Python package.
//!
//! A platform or a demand keeps the texts that it was parsed from. Two platforms, or two demands,
//! are equal if their texts are equal. An object is pickled as its texts.

use crate::{call, error::exception};
use interleaf_catalog::{DemandSource, PlatformSource};
use interleaf_console::Failure;
use interleaf_job::option;
use interleaf_model::{
    curve::{Curve, CurvePoint},
    demand::Demand,
    mix::Mix,
    platform::Platform,
    provenance::Figure,
    weights::Weights,
};
use pyo3::prelude::*;
use std::{collections::BTreeMap, path::Path, sync::Arc};

/// The points of a curve, as pairs of (bandwidth in GB/s, latency in ns).
type Points = Vec<(f64, f64)>;

/// The texts of a platform, as (label, TOML text, map from the path of each file of curves to its
/// CSV text).
type PlatformTexts = (String, String, BTreeMap<String, String>);

/// A platform, with the texts that it was parsed from.
#[pyclass(frozen, name = "PlatformHandle", module = "interleaf._core")]
pub(crate) struct PlatformHandle {
    pub(crate) platform: Arc<Platform>,
    source: PlatformSource,
}

#[pymethods]
impl PlatformHandle {
    /// Returns the built-in platform `name`, or the platform in the file `name`.
    #[staticmethod]
    fn find(py: Python<'_>, name: String) -> PyResult<Self> {
        let (platform, source) = call::short(py, || interleaf_catalog::platform_and_source(&name))?;
        Ok(Self { platform: Arc::new(platform), source })
    }

    /// Parses a platform from the TOML text `text`. `curves` maps the path of each file of curves
    /// to its CSV text. Errors call the platform `label`.
    #[staticmethod]
    fn parse(
        py: Python<'_>,
        label: String,
        text: String,
        curves: BTreeMap<String, String>,
    ) -> PyResult<Self> {
        let source = PlatformSource { label, text, curves };
        let platform = call::short(py, || source.parse())?;
        Ok(Self { platform: Arc::new(platform), source })
    }

    /// Returns the texts that the platform was parsed from.
    fn texts(&self) -> PlatformTexts {
        let PlatformSource { label, text, curves } = self.source.clone();
        (label, text, curves)
    }

    /// Returns (name, number of cores, outstanding lines per core, source of the figures).
    fn head(&self) -> (String, u32, f64, String) {
        let platform = &self.platform;
        let cpu = &platform.cpu;
        let (name, source) = (platform.name.clone(), platform.source.clone());
        (name, cpu.cores, cpu.outstanding_lines_per_core, source)
    }

    /// Returns (name, kind, capacity in bytes) for each tier.
    fn tiers(&self) -> Vec<(String, String, u64)> {
        let tiers = self.platform.tiers.iter();
        tiers.map(|it| (it.name.clone(), it.kind.to_string(), it.capacity.get())).collect()
    }

    /// Returns (domain, mix, points, provenance) for each curve of the tier with the index `tier`.
    fn curves(&self, tier: usize) -> Vec<(Option<String>, String, Points, String)> {
        let Some(tier) = self.platform.tiers.get(tier) else { return vec![] };
        let curve = |it: &interleaf_model::tier::MixCurve| {
            let points = it.curve.points().iter();
            let points = points.map(|point| (point.bandwidth_gbps, point.latency_ns)).collect();
            let provenance = it.curve.provenance().to_string();
            (it.domain.clone(), it.mix.to_string(), points, provenance)
        };
        tier.curves.iter().map(curve).collect()
    }
}

/// A demand, with the text that it was parsed from.
#[pyclass(frozen, name = "DemandHandle", module = "interleaf._core")]
pub(crate) struct DemandHandle {
    pub(crate) demand: Arc<Demand>,
    source: DemandSource,
}

#[pymethods]
impl DemandHandle {
    /// Returns the demand of the built-in workload `name`.
    #[staticmethod]
    fn workload(py: Python<'_>, name: String) -> PyResult<Self> {
        Self::new(py, || interleaf_catalog::workload_source(&name))
    }

    /// Reads the demand in the file `path`.
    #[staticmethod]
    fn read(py: Python<'_>, path: String) -> PyResult<Self> {
        Self::new(py, || interleaf_catalog::demand_source(Path::new(&path)))
    }

    /// Parses a demand from the TOML text `text`. Errors call the demand `label`.
    #[staticmethod]
    fn parse(py: Python<'_>, label: String, text: String) -> PyResult<Self> {
        Self::new(py, || Ok(DemandSource { label, text }))
    }

    /// Returns the label of the demand, and the text that it was parsed from.
    fn texts(&self) -> (String, String) {
        (self.source.label.clone(), self.source.text.clone())
    }

    /// Returns (name, mix, number of threads of the largest run, footprint in bytes if it is
    /// known).
    fn head(&self) -> (String, String, u32, Option<u64>) {
        let demand = &self.demand;
        let footprint = demand.footprint.map(|bytes| bytes.get());
        (demand.name.clone(), demand.mix.to_string(), demand.threads(), footprint)
    }
}

impl DemandHandle {
    fn new(
        py: Python<'_>,
        source: impl FnOnce() -> Result<DemandSource, Failure> + Send,
    ) -> PyResult<Self> {
        let parsed = || {
            let source = source()?;
            Ok((source.parse()?, source))
        };
        let (demand, source) = call::short(py, parsed)?;
        Ok(Self { demand: Arc::new(demand), source })
    }
}

/// Returns the idle latency, ns, and the maximum bandwidth, GB/s, of the curve through `points`.
#[pyfunction]
fn curve_limits(py: Python<'_>, points: Points) -> PyResult<(f64, f64)> {
    let curve = curve(py, points)?;
    Ok((curve.idle_latency_ns(), curve.max_bandwidth_gbps()))
}

/// Returns points of the curve through `points`, as pairs of (bandwidth in GB/s, latency in ns):
/// the point with each number of bytes in flight in `in_flight_bytes`.
#[pyfunction]
fn curve_at(py: Python<'_>, points: Points, in_flight_bytes: Vec<f64>) -> PyResult<Points> {
    let curve = curve(py, points)?;
    let bytes = in_flight_bytes.into_iter();
    let flows = bytes.map(|bytes| curve.response().at(bytes));
    Ok(flows.map(|flow| (flow.bandwidth_gbps, flow.latency_ns)).collect())
}

fn curve(py: Python<'_>, points: Points) -> PyResult<Curve> {
    let point = |(bandwidth_gbps, latency_ns)| CurvePoint {
        bandwidth_gbps,
        latency_ns,
        figure: Figure::assumed("a point given from Python"),
    };
    let curve = Curve::new(points.into_iter().map(point).collect());
    curve.map_err(|why| {
        let place = why.point().map_or("points".into(), |at| format!("points[{at}]"));
        exception(py, Failure::new(format!("{place}: {why}"), why.hint()))
    })
}

/// Parses a mix. Returns (name, read share, true if it has non-temporal stores, true if its
/// accesses are in random order).
#[pyfunction]
fn mix(py: Python<'_>, text: &str) -> PyResult<(String, f64, bool, bool)> {
    let mix: Mix = option::mix(text)
        .map_err(|why| exception(py, crate::options::refused("mix", text, &why)))?;
    Ok((mix.to_string(), mix.read_share(), mix.nontemporal(), mix.random()))
}

/// Parses weights from a text such as `3:1`.
#[pyfunction]
fn weights(py: Python<'_>, text: &str) -> PyResult<Vec<u16>> {
    let weights: Weights = option::weights(text)
        .map_err(|why| exception(py, crate::options::refused("weights", text, &why)))?;
    Ok(weights.as_slice().to_vec())
}

/// Returns the names of the built-in objects of a kind: "platforms", "workloads", "scenarios",
/// "cards", "devices" (memory modules) or "studies".
#[pyfunction]
fn names(kind: &str) -> Vec<String> {
    match kind {
        "platforms" => interleaf_catalog::platform_names(),
        "workloads" => interleaf_catalog::workload_names(),
        "scenarios" => interleaf_catalog::scenario_names(),
        "cards" => interleaf_card::card::names().iter().map(ToString::to_string).collect(),
        "devices" => interleaf_sim::dimm::device::names().iter().map(ToString::to_string).collect(),
        "studies" => interleaf_study::NAMES.map(String::from).to_vec(),
        _ => vec![],
    }
}

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<PlatformHandle>()?;
    module.add_class::<DemandHandle>()?;
    module.add_function(wrap_pyfunction!(curve_limits, module)?)?;
    module.add_function(wrap_pyfunction!(curve_at, module)?)?;
    module.add_function(wrap_pyfunction!(mix, module)?)?;
    module.add_function(wrap_pyfunction!(weights, module)?)?;
    module.add_function(wrap_pyfunction!(names, module)?)
}
