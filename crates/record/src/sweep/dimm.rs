//! The CSV file of a sweep of memory modules (`interleaf simulate dimm --sweep`).

use super::{Column, Spread, check_numbers, rows};
use crate::{
    RecordError,
    figure::{Figure, Series, SeriesKind},
};
use serde::Deserialize;
use std::collections::BTreeMap;

/// The columns of a row. The last two are fingerprints, as in [`super::COLUMNS`].
pub const COLUMNS: [Column; 25] = [
    Column::whole("case"),
    Column::text("device"),
    Column::text("server"),
    Column::text("density"),
    Column::text("width"),
    Column::whole("channels"),
    Column::text("pattern"),
    Column::whole("outstanding"),
    Column::number("uncore_ns"),
    Column::whole("requests"),
    Column::whole("seed"),
    Column::text("mix"),
    Column::number("offered_gbps"),
    Column::number("bandwidth_gbps"),
    Column::number("bus_utilisation"),
    Column::number("latency_mean_ns"),
    Column::whole("latency_p50_ns"),
    Column::whole("latency_p99_ns"),
    Column::whole("latency_p99_9_ns"),
    Column::number("row_hit_rate"),
    Column::number("power_w"),
    Column::number("energy_pj_per_bit"),
    Column::number("gbps_per_w"),
    Column::text("sweep"),
    Column::text("row"),
];

/// The most lines of a figure that a reader can tell apart.
const LINES_MAX: usize = 10;

/// A load of a case; its fields are the columns. Bandwidth and power are of all channels.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct DimmSweepRow {
    /// The 0-based number of the case.
    pub case: u64,
    /// The module, as the sweep file names it; of a server, the name of its modules.
    pub device: String,
    /// The server; empty for modules.
    pub server: String,
    pub density: String,
    pub width: String,
    pub channels: u32,
    pub pattern: String,
    /// Limit of the outstanding lines of a channel.
    pub outstanding: u64,
    pub uncore_ns: f64,
    pub requests: u64,
    pub seed: u64,
    pub mix: String,
    /// Offered load; absent for the maximum.
    pub offered_gbps: Option<f64>,
    pub bandwidth_gbps: f64,
    /// Bandwidth as a fraction of the peak.
    pub bus_utilisation: f64,
    /// Latency of reads, from the miss of the core to its data.
    pub latency_mean_ns: f64,
    pub latency_p50_ns: u64,
    pub latency_p99_ns: u64,
    pub latency_p99_9_ns: u64,
    pub row_hit_rate: f64,
    /// Absent if the currents of the module are unknown, as are energy and efficiency.
    pub power_w: Option<f64>,
    pub energy_pj_per_bit: Option<f64>,
    pub gbps_per_w: Option<f64>,
}

/// The rows of a sweep of memory modules.
#[derive(Clone, Debug, PartialEq)]
pub struct DimmSweepDocument {
    /// The name of the file.
    pub name: String,
    pub rows: Vec<DimmSweepRow>,
    text: String,
}

/// A number by which rows are compared.
#[derive(Clone, Copy, Debug)]
pub struct DimmMetric {
    /// A short name for links.
    pub id: &'static str,
    pub name: &'static str,
    pub unit: &'static str,
    /// True if a lower value is better.
    pub lower_is_better: bool,
    pub value: fn(&DimmSweepRow) -> Option<f64>,
}

const BANDWIDTH: DimmMetric = DimmMetric {
    id: "bandwidth",
    name: "bandwidth",
    unit: "GB/s",
    lower_is_better: false,
    value: |row| Some(row.bandwidth_gbps),
};

const LATENCY: DimmMetric = DimmMetric {
    id: "latency",
    name: "mean latency",
    unit: "ns",
    lower_is_better: true,
    value: |row| Some(row.latency_mean_ns),
};

const ENERGY: DimmMetric = DimmMetric {
    id: "energy",
    name: "energy",
    unit: "pJ/bit",
    lower_is_better: true,
    value: |row| row.energy_pj_per_bit,
};

/// A number that a sweep can vary.
#[derive(Clone, Copy, Debug)]
pub struct DimmAxis {
    /// A short name for columns and lines.
    pub name: &'static str,
    /// The name with its unit, for an axis.
    pub label: &'static str,
    pub value: fn(&DimmSweepRow) -> f64,
}

const AXES: [DimmAxis; 4] = [
    DimmAxis { name: "channels", label: "channels", value: |row| f64::from(row.channels) },
    DimmAxis {
        name: "outstanding",
        label: "outstanding lines of a channel",
        value: |row| row.outstanding as f64,
    },
    DimmAxis {
        name: "uncore ns",
        label: "latency between core and controller, ns",
        value: |row| row.uncore_ns,
    },
    DimmAxis { name: "requests", label: "lines at each point", value: |row| row.requests as f64 },
];

/// A property of a row by its name.
type Name = Box<dyn Fn(&DimmSweepRow) -> String>;

impl DimmSweepRow {
    /// The module with its devices, or the server.
    pub fn module(&self) -> String {
        match self.server.as_str() {
            "" => format!("{} {} {}", self.device, self.density, self.width),
            server => server.into(),
        }
    }
}

impl DimmSweepDocument {
    /// True for the beginning of the CSV file of a sweep of memory modules.
    pub fn is_start(text: &str) -> bool {
        text.starts_with(&super::header(&COLUMNS[..2]))
    }

    /// Reads the CSV file of a sweep. Errors name the file `name`.
    ///
    /// # Errors
    /// When columns are missing, a value has the wrong type or is out of range, or there is no row.
    pub fn read(name: &str, text: &str) -> Result<Self, RecordError> {
        let command = "interleaf simulate dimm --sweep";
        let rows = rows(name, text, &COLUMNS, command, |row: &DimmSweepRow| {
            check_numbers(&[
                ("uncore_ns", Some(row.uncore_ns)),
                ("offered_gbps", row.offered_gbps),
                ("bandwidth_gbps", Some(row.bandwidth_gbps)),
                ("bus_utilisation", Some(row.bus_utilisation)),
                ("latency_mean_ns", Some(row.latency_mean_ns)),
                ("row_hit_rate", Some(row.row_hit_rate)),
                ("power_w", row.power_w),
                ("energy_pj_per_bit", row.energy_pj_per_bit),
                ("gbps_per_w", row.gbps_per_w),
            ])
        })?;
        Ok(Self { name: name.into(), rows, text: text.into() })
    }

    /// The CSV file.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The number of cases.
    pub fn cases(&self) -> usize {
        let mut cases: Vec<u64> = self.rows.iter().map(|row| row.case).collect();
        cases.sort_unstable();
        cases.dedup();
        cases.len()
    }

    /// The numbers that the sweep varies, the one with the most values first.
    pub fn varied(&self) -> Vec<(DimmAxis, Vec<f64>)> {
        let values = |axis: DimmAxis| {
            let mut values: Vec<f64> = self.rows.iter().map(axis.value).collect();
            values.sort_by(f64::total_cmp);
            values.dedup();
            (axis, values)
        };
        let mut all: Vec<_> = AXES.into_iter().map(values).collect();
        all.retain(|(_, values)| values.len() > 1);
        all.sort_by_key(|(_, values)| std::cmp::Reverse(values.len()));
        all
    }

    /// The metrics that rows have.
    pub fn metrics(&self) -> Vec<DimmMetric> {
        let has = |metric: &DimmMetric| self.rows.iter().any(|row| (metric.value)(row).is_some());
        [BANDWIDTH, LATENCY, ENERGY].into_iter().filter(has).collect()
    }

    /// The rows of the maximum load. If there are none, those of the highest offered load.
    pub fn loaded(&self) -> Vec<&DimmSweepRow> {
        let load = |row: &&DimmSweepRow| row.offered_gbps.unwrap_or(f64::INFINITY);
        let most = self.rows.iter().map(|row| load(&row)).fold(0.0, f64::max);
        self.rows.iter().filter(|row| load(row) == most).collect()
    }

    /// The distribution of a metric under the maximum load, in the order of the file: over the
    /// seeds of each combination of the other values. Each has one of its rows.
    pub fn by_setting(&self, metric: DimmMetric) -> Vec<(&DimmSweepRow, Spread)> {
        let mut groups: Vec<(&DimmSweepRow, Vec<f64>)> = vec![];
        let key = |row: &DimmSweepRow| {
            let numbers = AXES.map(|axis| (axis.value)(row).to_bits());
            (row.module(), row.mix.clone(), row.pattern.clone(), numbers)
        };
        let mut places = BTreeMap::new();
        for row in self.loaded() {
            let at = *places.entry(key(row)).or_insert(groups.len());
            if at == groups.len() {
                groups.push((row, vec![]));
            }
            groups[at].1.extend((metric.value)(row));
        }
        groups.into_iter().filter_map(|(row, values)| Some((row, Spread::of(values)?))).collect()
    }

    /// Latency against bandwidth, if a case has several loads; then each metric under the maximum
    /// load against the number with the most values, or by module.
    pub fn figures(&self) -> Vec<Figure> {
        let loaded = self.loaded();
        let mut figures = vec![];
        if loaded.len() < self.rows.len() {
            figures.push(self.loaded_latency());
        }
        let axes = self.varied();
        figures.extend(self.metrics().into_iter().map(|metric| match axes.first() {
            Some((axis, _)) => against(&loaded, metric, *axis, &self.names(1)),
            None => by_module(&loaded, metric),
        }));
        figures
    }

    /// The properties that distinguish lines: module, mix, pattern, and the varied numbers without
    /// the first `on_axis`.
    fn names(&self, on_axis: usize) -> Vec<Name> {
        let others = self.varied().into_iter().skip(on_axis).map(|(axis, _)| -> Name {
            Box::new(move |row| format!("{} {}", (axis.value)(row), axis.name))
        });
        let texts: [Name; 3] = [
            Box::new(DimmSweepRow::module),
            Box::new(|row| row.mix.clone()),
            Box::new(|row| row.pattern.clone()),
        ];
        texts.into_iter().chain(others).collect()
    }

    fn loaded_latency(&self) -> Figure {
        let rows: Vec<&DimmSweepRow> = self.rows.iter().collect();
        let of_line = |(group, (name, rows)): (usize, (String, Vec<&DimmSweepRow>))| {
            // Each offered load of a line is a point: the mean of its rows.
            let mut loads: BTreeMap<u64, Vec<&DimmSweepRow>> = BTreeMap::new();
            for row in rows {
                let load = row.offered_gbps.unwrap_or(f64::MAX).max(0.0).to_bits();
                loads.entry(load).or_default().push(row);
            }
            let mean = |rows: &[&DimmSweepRow], value: fn(&DimmSweepRow) -> f64| {
                rows.iter().map(|row| value(row)).sum::<f64>() / rows.len() as f64
            };
            let points = loads.values().map(|rows| {
                (mean(rows, |row| row.bandwidth_gbps), mean(rows, |row| row.latency_mean_ns))
            });
            Series::new(name, SeriesKind::Line, group, points)
        };
        let series = lines(&rows, &self.names(0)).into_iter().enumerate().map(of_line).collect();
        Figure {
            series,
            caption: "Each point is one load; latency is of reads, from the core's miss to its \
                      data. Cases with equal names are drawn as their mean."
                .into(),
            ..Figure::new("loaded-latency", "loaded latency", "bandwidth, GB/s", "latency, ns")
        }
    }
}

/// The rows by the names that differ between them, in the order of the file. If there are too many
/// lines, the last names are left out.
fn lines<'a>(rows: &[&'a DimmSweepRow], names: &[Name]) -> Vec<(String, Vec<&'a DimmSweepRow>)> {
    let Some(first) = rows.first() else { return vec![] };
    let differs = |of: &&Name| rows.iter().any(|row| of(row) != of(first));
    let differing: Vec<&Name> = names.iter().filter(differs).collect();
    let mut count = differing.len();
    loop {
        let label = |row: &DimmSweepRow| match count {
            0 => first.module(),
            _ => differing[..count].iter().map(|of| of(row)).collect::<Vec<_>>().join(", "),
        };
        let mut lines: Vec<(String, Vec<&DimmSweepRow>)> = vec![];
        for row in rows {
            let label = label(row);
            match lines.iter_mut().find(|(name, _)| *name == label) {
                Some((_, of_line)) => of_line.push(row),
                None => lines.push((label, vec![row])),
            }
        }
        if lines.len() <= LINES_MAX || count <= 1 {
            return lines;
        }
        count -= 1;
    }
}

/// A metric against a number: a line for each combination of the other values.
fn against(rows: &[&DimmSweepRow], metric: DimmMetric, axis: DimmAxis, names: &[Name]) -> Figure {
    let of_line = |(group, (name, rows)): (usize, (String, Vec<&DimmSweepRow>))| {
        let mut points: Vec<(f64, Vec<f64>)> = vec![];
        for row in rows {
            let x = (axis.value)(row);
            let at = points.iter().position(|(at, _)| *at == x).unwrap_or_else(|| {
                points.push((x, vec![]));
                points.len() - 1
            });
            points[at].1.extend((metric.value)(row));
        }
        points.sort_by(|(a, _), (b, _)| a.total_cmp(b));
        let spreads = points.into_iter().filter_map(|(x, values)| Some((x, Spread::of(values)?)));
        let spreads: Vec<(f64, Spread)> = spreads.collect();
        Series::new(name, SeriesKind::Line, group, spreads.iter().map(|(x, it)| (*x, it.mean)))
            .with_interval(spreads.iter().map(|(_, it)| (it.low, it.high)))
    };
    let series = lines(rows, names).into_iter().enumerate().map(of_line).collect();
    titled(metric, axis.label, series, vec![])
}

/// A metric by module: bars for each mix and pattern.
fn by_module(rows: &[&DimmSweepRow], metric: DimmMetric) -> Figure {
    let module: [Name; 1] = [Box::new(DimmSweepRow::module)];
    let modules: Vec<String> = lines(rows, &module).into_iter().map(|(module, _)| module).collect();
    let load: [Name; 2] = [Box::new(|row| row.mix.clone()), Box::new(|row| row.pattern.clone())];
    let of_line = |(group, (name, rows)): (usize, (String, Vec<&DimmSweepRow>))| {
        let bars = modules.iter().enumerate().filter_map(|(at, module)| {
            let of_module = rows.iter().filter(|row| modules.len() == 1 || row.module() == *module);
            Some((
                at as f64,
                Spread::of(of_module.filter_map(|row| (metric.value)(row)).collect())?,
            ))
        });
        let bars: Vec<(f64, Spread)> = bars.collect();
        Series::new(name, SeriesKind::Bars, group, bars.iter().map(|(x, it)| (*x, it.mean)))
            .with_interval(bars.iter().map(|(_, it)| (it.low, it.high)))
    };
    let series = lines(rows, &load).into_iter().enumerate().map(of_line).collect();
    titled(metric, "module", series, modules)
}

fn titled(
    metric: DimmMetric,
    x_label: &str,
    series: Vec<Series>,
    categories: Vec<String>,
) -> Figure {
    let better = if metric.lower_is_better { "Lower" } else { "Higher" };
    let y_label = format!("{}, {}", metric.name, metric.unit);
    Figure {
        series,
        categories,
        caption: format!(
            "{better} is better. Under the maximum load; each point is the mean of the cases with \
             these names, the interval holds nine tenths of them."
        ),
        ..Figure::new(metric.id, metric.name, x_label, &y_label)
    }
}
