//! The curve file of the Mess benchmark (`memory_curves.csv`).
//!
//! One row is one measured point. `pause` is the time that the benchmark's kernels wait between
//! accesses; bandwidth is in GB/s and latency in ns. The points are noisy, and past saturation the
//! bandwidth falls while the load rises, so that an order by bandwidth is not an order by load.
//! [`Curve::from_measured`] sorts the points by the bytes in flight.

use super::{FileError, table::Table};
use crate::{
    curve::{Curve, CurvePoint},
    mix::Mix,
    provenance::{Figure, Provenance},
    tier::{Curves, MixCurve},
};

const REQUIRED: [&str; 4] = ["read_pct_rounded", "pause", "bandwidth_mean", "latency_mean"];

/// The columns that the Mess plotter writes.
const COLUMNS: [&str; 10] = [
    "read_pct_rounded",
    "pause",
    "bandwidth_mean",
    "bandwidth_std",
    "rd_percentage_actual_mean",
    "latency_mean",
    "latency_std",
    "bandwidth_smooth",
    "latency_smooth",
    "rw_ratio",
];

/// Minimum number of measured points for the curve of a read share.
const POINTS_MIN: usize = 3;

/// The curves of a file, and the points and mixes that were left out.
#[derive(Clone, Debug, PartialEq)]
pub struct MessCurves {
    /// One curve for each read share with enough points.
    pub curves: Curves,
    /// Number of points, over all curves, that were left out as outliers
    /// ([`Curve::from_measured`]).
    pub points_left_out: usize,
    /// Read shares, in percent, that have fewer than three points and therefore no curve.
    pub mixes_left_out: Vec<u32>,
}

/// Reads the curves in `text`. `figure` becomes the provenance and source of their points.
///
/// # Errors
/// If one of the four required columns is missing, if a value is invalid, or if no curve is left.
pub fn parse(file: &str, text: &str, figure: &Figure) -> Result<MessCurves, FileError> {
    let table = Table::read(file, text, &REQUIRED, None)?;
    let mut mixes: Vec<(u32, Vec<CurvePoint>, usize)> = vec![];
    for row in table.rows() {
        let percent = table.number(row, "read_pct_rounded")?;
        if !(0.0..=100.0).contains(&percent) || percent.fract() != 0.0 {
            let problem = format!("{percent} is not a whole number from 0 to 100");
            let hint = "it is the share of reads in percent";
            return Err(table.error(row, "read_pct_rounded", problem, hint.into()));
        }
        table.number(row, "pause")?;
        let point = CurvePoint {
            bandwidth_gbps: table.number(row, "bandwidth_mean")?,
            latency_ns: table.number(row, "latency_mean")?,
            figure: figure.clone(),
        };
        let percent = percent as u32;
        match mixes.iter_mut().find(|(known, ..)| *known == percent) {
            Some((_, points, _)) => points.push(point),
            None => mixes.push((percent, vec![point], row.line)),
        }
    }
    mixes.sort_by_key(|(percent, ..)| *percent);
    let mut points_left_out = 0;
    let mut mixes_left_out = vec![];
    let mut curves = vec![];
    for (percent, points, line) in mixes {
        if points.len() < POINTS_MIN {
            mixes_left_out.push(percent);
            continue;
        }
        let (curve, left_out) = Curve::from_measured(points).map_err(|why| FileError {
            file: file.into(),
            line: Some(line),
            field: Some(format!("curve of {percent} % reads")),
            problem: why.to_string(),
            hint: "bandwidth_mean is in GB/s and latency_mean in ns".into(),
        })?;
        points_left_out += left_out;
        let mix = Mix::new(f64::from(percent) / 100.0, false).unwrap_or(Mix::READ);
        curves.push(MixCurve { domain: None, mix, curve });
    }
    let curves = Curves::new(curves).map_err(|_| FileError {
        file: file.into(),
        line: None,
        field: None,
        problem: format!("no mix has {POINTS_MIN} points"),
        hint: "this is the memory_curves.csv that the Mess plotter writes".into(),
    })?;
    Ok(MessCurves { curves, points_left_out, mixes_left_out })
}

/// The provenance and the source of points that the Mess benchmark measured on the platform itself.
/// `source` is the name of their file, or a description of the run.
pub fn measured(source: &str) -> Figure {
    Figure { provenance: Provenance::Measured, source: source.into() }
}

/// True if `text` is a file of the Mess benchmark: its header has the required columns.
pub fn is_one(text: &str) -> bool {
    let header = text.lines().find(|line| !line.starts_with('#')).unwrap_or_default();
    REQUIRED.iter().all(|name| header.split(',').any(|column| column.trim() == *name))
}

/// A measured point: one row of a Mess file.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MessPoint {
    /// Read share in percent.
    pub read_percent: u32,
    /// The pause of the benchmark's kernels between accesses, in the benchmark's own unit.
    pub pause: f64,
    /// Bandwidth of the point, GB/s.
    pub bandwidth_gbps: f64,
    /// The largest difference between the bandwidths of two repetitions of this point, GB/s.
    pub bandwidth_apart_gbps: f64,
    /// Latency at this bandwidth, ns.
    pub latency_ns: f64,
    /// The largest difference between the latencies of two repetitions of this point, ns.
    pub latency_apart_ns: f64,
}

/// Converts all points of `curves` to rows of a Mess file. Mixes with non-temporal stores or random
/// accesses do not fit into a Mess file: they are left out, and returned as the second value. As
/// the pauses are unknown, the pause of each point is a rank: 0 for the highest load of the curve,
/// and more for lower loads.
pub fn points(curves: &Curves) -> (Vec<MessPoint>, Vec<Mix>) {
    let (mut points, mut left_out) = (vec![], vec![]);
    for MixCurve { mix, curve, .. } in curves.iter() {
        let stores_pass = mix.nontemporal() && mix.read_share() < 1.0;
        if stores_pass || mix.random() {
            left_out.push(*mix);
            continue;
        }
        let ranks = (0..curve.points().len()).rev();
        points.extend(curve.points().iter().zip(ranks).map(|(point, rank)| MessPoint {
            read_percent: (100.0 * mix.read_share()).round() as u32,
            pause: rank as f64,
            bandwidth_gbps: point.bandwidth_gbps,
            bandwidth_apart_gbps: 0.0,
            latency_ns: point.latency_ns,
            latency_apart_ns: 0.0,
        }));
    }
    (points, left_out)
}

/// Writes `points` as a file with the columns of the Mess plotter. The columns of smoothed values
/// get the measured values.
pub fn text(points: &[MessPoint]) -> String {
    let mut writer = csv::Writer::from_writer(vec![]);
    // Writing to memory does not fail, so the result is ignored.
    let _ = writer.write_record(COLUMNS);
    for point in points {
        let share = f64::from(point.read_percent) / 100.0;
        let writes_per_read = if share > 0.0 { (1.0 - share) / share } else { f64::INFINITY };
        let (bandwidth, latency) = (point.bandwidth_gbps, point.latency_ns);
        let numbers = [
            f64::from(point.read_percent),
            point.pause,
            bandwidth,
            point.bandwidth_apart_gbps,
            share,
            latency,
            point.latency_apart_ns,
            bandwidth,
            latency,
            writes_per_read,
        ];
        let _ = writer.write_record(numbers.map(|number| number.to_string()));
    }
    let bytes = writer.into_inner().unwrap_or_default();
    String::from_utf8_lossy(&bytes).into_owned()
}
