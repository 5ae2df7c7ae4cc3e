//! Converts a measurement to a platform, with a tier for each node that has a measured curve.
//!
//! A mix may have a measured maximum bandwidth, but no curve. Then a curve of two points is derived
//! from the first measured curve of the node. The first point has the lowest latency of the
//! measured curve. The second point is at the mix's maximum bandwidth. The bytes in flight of the
//! second point are assumed to equal the maximum of the measured curve, so Little's law gives its
//! latency: bytes in flight / bandwidth. Example: 60 GB/s at 200 ns are 12000 bytes in flight, so a
//! maximum of 50 GB/s is reached at 240 ns. The provenance of the second point is `assumed`.

use super::{MeasureDocument, MeasuredPoint, PointKind};
use crate::rounded;
use interleaf_linux::machine::id_list::IdList;
use interleaf_model::{
    curve::{Curve, CurvePoint},
    format::{curve_csv, platform_toml},
    mix::Mix,
    provenance::{Figure, Provenance},
    tier::{Curves, MixCurve},
    units::LINE_BYTES,
};

/// The texts of the files of an exported platform.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exported {
    /// The text of the platform file.
    pub toml: String,
    /// The files of curves, one for each tier, as pairs of (suffix to the platform's name, text).
    pub curves: Vec<(String, String)>,
    /// The keys of the platform file whose values are not in the record, such as `cores`. The file
    /// has assumed values for them.
    pub assumed: Vec<String>,
}

/// Returns the suffixes that [`Exported::curves`] may have if memory on `nodes` is measured.
pub fn curve_suffixes(nodes: &IdList) -> Vec<String> {
    let of_node = nodes.iter().map(|node| suffix(&tier_name(node)));
    [ONE_TIER.to_string()].into_iter().chain(of_node).collect()
}

/// The suffix of the file of curves of a platform with a single tier.
const ONE_TIER: &str = ".csv";

/// Returns the suffix of the file of curves of the tier `tier`, for a platform with several tiers.
fn suffix(tier: &str) -> String {
    format!("-{tier}.csv")
}

fn tier_name(node: u32) -> String {
    format!("node{node}")
}

/// A measured node, which becomes a tier of the platform.
struct Tier {
    node: u32,
    has_cpus: bool,
    capacity_bytes: u64,
    curves: Curves,
    /// A text for each curve from which noisy points were left out.
    left_out: Vec<String>,
}

/// Converts a record to a platform with the name `stem`. The platform file gives `source` as the
/// source of its numbers.
///
/// # Errors
/// When the record has no curve, or when the points of a mix do not form a curve. The error is a
/// text with the reason.
pub fn platform(record: &MeasureDocument, stem: &str, source: &str) -> Result<Exported, String> {
    let mut tiers = vec![];
    for node in &record.machine.nodes {
        let Some((curves, left_out)) = curves(record, node.node, source)? else { continue };
        tiers.push(Tier {
            node: node.node,
            has_cpus: !node.cpus.is_empty(),
            capacity_bytes: node.capacity_bytes,
            curves,
            left_out,
        });
    }
    if tiers.is_empty() {
        return Err("the record has no curve of latency against load".into());
    }
    tiers.sort_by(|a, b| idle_ns(a).total_cmp(&idle_ns(b)).then(a.node.cmp(&b.node)));
    let mut assumed = vec![];
    let cores = match record.machine.cpus {
        0 => {
            assumed.extend(["cores".into(), "outstanding_lines_per_core".into()]);
            format!("1 {UNKNOWN_CORES}")
        }
        cores => cores.to_string(),
    };
    let mut toml = format!(
        "# Made by `interleaf` of a measurement.\nschema = \"{}\"\nname = {}\n\
         source = {}\n\n[cpu]\ncores = {cores}\noutstanding_lines_per_core = {}\n\
         uncore_latency_ns = {}\n",
        platform_toml::SCHEMA,
        quoted(stem),
        quoted(source),
        rounded(lines_per_core(record, &tiers[0])),
        // The platform's uncore latency is 0: curves that were measured from a core already include
        // the path to the memory controller.
        0.0,
    );
    let mut files = vec![];
    for tier in &tiers {
        toml.extend(tier.left_out.iter().map(|line| format!("\n# {line}")));
        let (kind, name) = (if tier.has_cpus { "dram" } else { "cxl" }, tier_name(tier.node));
        if tier.capacity_bytes == 0 {
            assumed.push(format!("the capacity of {name}"));
        }
        let file = if tiers.len() == 1 { ONE_TIER.into() } else { suffix(&name) };
        toml += &format!(
            "\n[[tier]]\nname = \"{name}\"\nkind = \"{kind}\"\ncapacity = {}\n\
             curves = {}\n",
            capacity_text(tier.capacity_bytes),
            quoted(&format!("{stem}{file}")),
        );
        files.push((file, curve_csv::text(&tier.curves)));
    }
    Ok(Exported { toml, curves: files, assumed })
}

/// The comment on the number of cores in the platform file, if the record does not have this
/// number.
const UNKNOWN_CORES: &str =
    "# assumed: the record does not have it. Write the number of cores, and divide the lines by it";

fn capacity_text(bytes: u64) -> String {
    match bytes {
        0 => "\"1TiB\" # assumed: the record does not have it".into(),
        _ => format!("\"{}MiB\"", (bytes >> 20).max(1)),
    }
}

fn quoted(text: &str) -> String {
    toml::Value::String(text.into()).to_string()
}

fn idle_ns(tier: &Tier) -> f64 {
    let idle = tier.curves.iter().map(|curve| curve.curve.idle_latency_ns());
    idle.fold(f64::INFINITY, f64::min)
}

/// Returns the number of outstanding lines per core. By Little's law, it is the product of
/// bandwidth and latency, divided by the bytes of a line and the number of threads. The result is
/// the maximum over the loaded-latency points of `tier`, limited to 1 to 10000.
fn lines_per_core(record: &MeasureDocument, tier: &Tier) -> f64 {
    let loaded = points_on_node(record, PointKind::Loaded, tier.node);
    let lines = loaded.filter_map(|point| {
        let bytes = controller_gbps(point)? * point.latency_ns?;
        Some(bytes / LINE_BYTES / f64::from(point.threads.max(1)))
    });
    lines.fold(1.0, f64::max).min(1e4)
}

/// Returns the points of a kind whose memory is on `node` only. If several CPU nodes measured such
/// points, returns those of the CPUs of `node`. If these measured none, returns those of the CPU
/// node that measured first.
fn points_on_node<'a>(
    record: &'a MeasureDocument,
    kind: PointKind,
    node: u32,
) -> impl Iterator<Item = &'a MeasuredPoint> + 'a {
    let of =
        move |point: &&MeasuredPoint| point.memory_node == Some(node) && point.weights.is_none();
    let mut nodes = record.points_of_kind(kind).filter(of).map(|point| point.cpu_node);
    let first = nodes.next();
    let near = if nodes.any(|cpu| cpu == node) { Some(node) } else { first };
    record.points_of_kind(kind).filter(of).filter(move |point| Some(point.cpu_node) == near)
}

/// Returns the bandwidth at the memory controller, GB/s: the counted bandwidth, or else the
/// bandwidth that is computed from the mix and the program's traffic.
pub(super) fn controller_gbps(point: &MeasuredPoint) -> Option<f64> {
    point.measured_gbps.or(point.modelled_gbps)
}

pub(super) fn mix(point: &MeasuredPoint) -> Option<Mix> {
    let name = point.mix.as_deref()?;
    // If the name of the mix cannot be parsed, take the mix from the read share of the point.
    let of_share = || Mix::new(point.read_share?, name.ends_with("nt")).ok();
    let named: Mix = name.parse().ok().or_else(of_share)?;
    Some(if point.pattern == "random" { named.in_random_order() } else { named })
}

/// Returns the curves of a node, and a text for each curve from which noisy points were left out.
/// Returns `None` if the node has no loaded-latency points.
fn curves(
    record: &MeasureDocument,
    node: u32,
    source: &str,
) -> Result<Option<(Curves, Vec<String>)>, String> {
    let measured = |provenance| Figure { provenance, source: source.into() };
    let mut groups: Vec<(Mix, Vec<CurvePoint>)> = vec![];
    for point in points_on_node(record, PointKind::Loaded, node) {
        let (Some(mix), Some(gbps), Some(ns)) =
            (mix(point), controller_gbps(point), point.latency_ns)
        else {
            continue;
        };
        let (bandwidth_gbps, latency_ns) = (rounded(gbps), rounded(ns));
        let figure = measured(Provenance::Measured);
        let point = CurvePoint { bandwidth_gbps, latency_ns, figure };
        match groups.iter_mut().find(|(known, _)| *known == mix) {
            Some((_, points)) => points.push(point),
            None => groups.push((mix, vec![point])),
        }
    }
    let Some((_, known)) = groups.first() else { return Ok(None) };
    let idle = known.iter().map(|point| point.latency_ns).fold(f64::INFINITY, f64::min);
    let in_flight = known.iter().map(CurvePoint::in_flight_bytes).fold(0.0, f64::max);
    for point in points_on_node(record, PointKind::Bandwidth, node) {
        let (Some(mix), Some(gbps)) = (mix(point), controller_gbps(point)) else { continue };
        if groups.iter().any(|(known, _)| *known == mix) || gbps <= 0.0 {
            continue;
        }
        let figure = Figure {
            provenance: Provenance::Assumed,
            source: format!("{source}; latency by the bytes on their way of the measured curve"),
        };
        let latency_ns = rounded((in_flight / gbps).max(1.001 * idle));
        let first = CurvePoint {
            bandwidth_gbps: 0.0,
            latency_ns: idle,
            figure: measured(Provenance::Measured),
        };
        let most = CurvePoint { bandwidth_gbps: rounded(gbps), latency_ns, figure };
        groups.push((mix, vec![first, most]));
    }
    let (mut curves, mut left_out) = (vec![], vec![]);
    for (mix, points) in groups {
        let count = points.len();
        let (curve, noisy) = Curve::from_measured(points)
            .map_err(|why| format!("the curve of {mix} on node {node}: {why}"))?;
        if noisy > 0 {
            left_out.push(format!(
                "node {node}, {mix}: {noisy} of {count} points are left out, since noise put them \
                 in the way of a curve"
            ));
        }
        curves.push(MixCurve { domain: None, mix, curve });
    }
    Curves::new(curves).map(|curves| Some((curves, left_out))).map_err(|why| why.to_string())
}
