//! The CSV file of a sweep of memory modules (`interleaf simulate dimm --sweep`).

use super::{Column, FIGURES_MAX, Spread, check_numbers, count_cases, distinct, rows};
use crate::{
    RecordError,
    figure::{Figure, Series, SeriesKind},
};
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};

/// The columns of the file. The last two are fingerprints, as in [`super::COLUMNS`].
pub const COLUMNS: [Column; 28] = [
    Column::whole("case"),
    Column::text("device"),
    Column::text("module"),
    Column::text("server"),
    Column::text("density"),
    Column::text("width"),
    Column::whole("channels"),
    Column::text("pattern"),
    Column::whole("outstanding"),
    Column::number("uncore_ns"),
    Column::text("row_policy"),
    Column::text("refresh"),
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

/// Maximum number of lines in a figure: the first number if colours distinguish the lines, and the
/// second if colours and dashes do.
const LINES_MAX: [usize; 2] = [8, 16];

/// A row of the CSV file: the results of a case at one mix and one offered load. Its fields are the
/// columns. Bandwidth and power are sums over all channels.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct DimmSweepRow {
    /// Number of the case, counted from 0.
    pub case: u64,
    /// Name or file of the module in the sweep file; empty for a server.
    pub device: String,
    /// Name of the module in its device file.
    pub module: String,
    /// Name of the server; empty for a module.
    pub server: String,
    pub density: String,
    pub width: String,
    pub channels: u32,
    pub pattern: String,
    /// Maximum number of outstanding lines in a channel.
    pub outstanding: u64,
    pub uncore_ns: f64,
    /// Row policy of the memory controller.
    pub row_policy: String,
    pub refresh: String,
    pub requests: u64,
    pub seed: u64,
    pub mix: String,
    /// Offered load, GB/s; missing for the maximum load.
    pub offered_gbps: Option<f64>,
    pub bandwidth_gbps: f64,
    /// Bandwidth as a fraction of the peak bandwidth.
    pub bus_utilisation: f64,
    /// Mean latency of reads, from the core's cache miss until the data arrive. The mean and the
    /// percentiles are missing if no read was measured.
    pub latency_mean_ns: Option<f64>,
    pub latency_p50_ns: Option<u64>,
    pub latency_p99_ns: Option<u64>,
    pub latency_p99_9_ns: Option<u64>,
    pub row_hit_rate: f64,
    /// Mean power, W. `power_w`, `energy_pj_per_bit` and `gbps_per_w` are missing if the module's
    /// supply currents are unknown.
    pub power_w: Option<f64>,
    pub energy_pj_per_bit: Option<f64>,
    pub gbps_per_w: Option<f64>,
    /// Name of the module or server in figures and tables. It is not a column of the file: the
    /// function `label` computes it.
    #[serde(skip)]
    pub label: String,
}

/// The rows of a sweep of memory modules, and the text of the CSV file.
#[derive(Clone, Debug, PartialEq)]
pub struct DimmSweepDocument {
    pub name: String,
    pub rows: Vec<DimmSweepRow>,
    text: String,
}

/// A metric by which rows are compared.
#[derive(Clone, Copy, Debug)]
pub struct DimmMetric {
    /// ID of the metric's figure in documents and pages.
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
    value: |row| row.latency_mean_ns,
};

const ENERGY: DimmMetric = DimmMetric {
    id: "energy",
    name: "energy",
    unit: "pJ/bit",
    lower_is_better: true,
    value: |row| row.energy_pj_per_bit,
};

/// A number that a sweep can vary. It can be on the horizontal axis of a figure.
#[derive(Clone, Copy, Debug)]
pub struct DimmAxis {
    /// Short name of the number, for columns of tables and lines of figures.
    pub name: &'static str,
    /// Name of the number with its unit, for an axis.
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

/// Functions that return the row policy or the refresh mode of a result row as a text.
const CONTROLLER_TEXTS: [fn(&DimmSweepRow) -> String; 2] =
    [|row| format!("{} rows", row.row_policy), |row| format!("refresh {}", row.refresh)];

/// Functions that return the textual properties of a row: label, mix, pattern, row policy and
/// refresh mode.
const TEXTS: [fn(&DimmSweepRow) -> String; 5] = [
    |row| row.label.clone(),
    |row| row.mix.clone(),
    |row| row.pattern.clone(),
    CONTROLLER_TEXTS[0],
    CONTROLLER_TEXTS[1],
];

/// A function that returns a property of a row as a text.
type Name = Box<dyn Fn(&DimmSweepRow) -> String>;

impl DimmSweepRow {
    /// Returns the name of the row's module or server in the sweep file.
    fn named(&self) -> &str {
        if self.server.is_empty() { &self.device } else { &self.server }
    }
}

impl DimmSweepDocument {
    /// True if `text` begins as the CSV file of a sweep of memory modules does.
    pub fn is_start(text: &str) -> bool {
        super::starts_with(text, &COLUMNS)
    }

    /// Reads the CSV file of a sweep. Errors have the name of the file, `name`.
    ///
    /// # Errors
    /// When a column is missing, a value has the wrong type or is out of range, or there is no row.
    pub fn read(name: &str, text: &str) -> Result<Self, RecordError> {
        let command = "interleaf simulate dimm --sweep";
        let mut rows = rows(name, text, &COLUMNS, command, |row: &DimmSweepRow| {
            check_numbers(&[
                ("uncore_ns", Some(row.uncore_ns)),
                ("offered_gbps", row.offered_gbps),
                ("bandwidth_gbps", Some(row.bandwidth_gbps)),
                ("bus_utilisation", Some(row.bus_utilisation)),
                ("latency_mean_ns", row.latency_mean_ns),
                ("row_hit_rate", Some(row.row_hit_rate)),
                ("power_w", row.power_w),
                ("energy_pj_per_bit", row.energy_pj_per_bit),
                ("gbps_per_w", row.gbps_per_w),
            ])
        })?;
        label(&mut rows);
        Ok(Self { name: name.into(), rows, text: text.into() })
    }

    pub fn text(&self) -> &str {
        &self.text
    }

    pub fn cases(&self) -> usize {
        count_cases(self.rows.iter().map(|row| row.case))
    }

    /// Returns the numbers that the sweep varies, each with its values. The number with the most
    /// values comes first.
    pub fn varied(&self) -> Vec<(DimmAxis, Vec<f64>)> {
        let values = |axis: DimmAxis| {
            let values = distinct(self.rows.iter().map(axis.value));
            (axis, values)
        };
        let mut all: Vec<_> = AXES.into_iter().map(values).collect();
        all.retain(|(_, values)| values.len() > 1);
        all.sort_by_key(|(_, values)| std::cmp::Reverse(values.len()));
        all
    }

    /// Returns the numbers that are equal in all rows, each with its value.
    pub fn constants(&self) -> Vec<(DimmAxis, f64)> {
        let first = &self.rows[0];
        let is_constant =
            |axis: &DimmAxis| self.rows.iter().all(|row| (axis.value)(row) == (axis.value)(first));
        let constants = AXES.into_iter().filter(is_constant);
        constants.map(|axis| (axis, (axis.value)(first))).collect()
    }

    /// Returns the metrics of which the rows have values.
    pub fn metrics(&self) -> Vec<DimmMetric> {
        let has = |metric: &DimmMetric| self.rows.iter().any(|row| (metric.value)(row).is_some());
        [BANDWIDTH, LATENCY, ENERGY].into_iter().filter(has).collect()
    }

    /// Returns the rows at the maximum load, which have no `offered_gbps`. If there are none,
    /// returns the rows at the highest offered load.
    pub fn loaded(&self) -> Vec<&DimmSweepRow> {
        let load = |row: &&DimmSweepRow| row.offered_gbps.unwrap_or(f64::INFINITY);
        let most = self.rows.iter().map(|row| load(&row)).fold(0.0, f64::max);
        self.rows.iter().filter(|row| load(row) == most).collect()
    }

    /// Returns the distribution, over the seeds, of a metric at the maximum load, for each setting.
    /// A setting is a combination of module, mix, pattern, row policy, refresh mode and numbers. It
    /// is represented by its first row. The settings are in the order of the file.
    pub fn by_setting(&self, metric: DimmMetric) -> Vec<(&DimmSweepRow, Spread)> {
        let mut groups: Vec<(&DimmSweepRow, Vec<f64>)> = vec![];
        let key = |row: &DimmSweepRow| {
            let numbers = AXES.map(|axis| (axis.value)(row).to_bits());
            (TEXTS.map(|text| text(row)), numbers)
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

    /// Returns the figures of the sweep. If a case has several loads, the first figure shows
    /// latency against bandwidth. The other figures show a metric at the maximum load: against the
    /// varied number with the most values, or for each module if no number varies. A figure with
    /// too many lines is split into several, by the last of the properties that differ between
    /// rows.
    pub fn figures(&self) -> Vec<Figure> {
        let loaded = self.loaded();
        let mut figures = vec![];
        if loaded.len() < self.rows.len() {
            let rows: Vec<&DimmSweepRow> = self.rows.iter().collect();
            let all = parts(&rows, &self.names(0)).into_iter();
            figures.extend(all.enumerate().map(|(at, part)| of_part(at, &part, loaded_latency)));
        }
        let metrics = self.metrics();
        let Some((axis, _)) = self.varied().into_iter().next() else {
            figures.extend(metrics.into_iter().map(|metric| by_module(&loaded, metric)));
            return figures;
        };
        let parts = parts(&loaded, &self.names(1));
        for metric in metrics {
            let figure = |lines: &[Line<'_>]| against(lines, metric, axis);
            figures.extend(parts.iter().enumerate().map(|(at, part)| of_part(at, part, figure)));
        }
        figures
    }

    /// Returns the properties that distinguish the lines of a figure: module, mix, pattern, row
    /// policy, refresh mode, and the varied numbers. The first `on_axis` varied numbers are left
    /// out, because they are on the horizontal axis.
    fn names(&self, on_axis: usize) -> Vec<Name> {
        let others = self.varied().into_iter().skip(on_axis).map(|(axis, _)| -> Name {
            Box::new(move |row| format!("{} {}", axis.name, (axis.value)(row)))
        });
        let texts = TEXTS.map(|text| -> Name { Box::new(text) });
        texts.into_iter().chain(others).collect()
    }
}

/// Sets the field `label` of each row. The label of a server is its name in the sweep file. The
/// label of a module is its name in the device file, unless the sweep file has several names for
/// the module: then it is the name in the sweep file. The density and width of a module are
/// appended if they differ between rows.
fn label(rows: &mut [DimmSweepRow]) {
    let mut named: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for row in &*rows {
        named.entry(row.module.clone()).or_default().insert(row.named().into());
    }
    let chips = |row: &DimmSweepRow| (row.density.clone(), row.width.clone());
    let differ = rows.iter().any(|row| chips(row) != chips(&rows[0]));
    for row in rows {
        let is_alone = row.server.is_empty() && named[&row.module].len() == 1;
        let name = if is_alone { row.module.clone() } else { row.named().into() };
        row.label = match differ && row.server.is_empty() {
            true => format!("{name} {} {}", row.density, row.width),
            false => name,
        };
    }
}

/// A line of a figure, as (name of the line, its rows).
type Line<'a> = (String, Vec<&'a DimmSweepRow>);

/// One of the figures into which a figure is split, as (end of its title, its lines). The end of
/// the title is empty if the figure is not split.
type Part<'a> = (String, Vec<Line<'a>>);

/// Groups the rows into parts of a figure, and each part into lines, in the order of the file. Only
/// the properties `names` that differ between rows count. The last of them distinguish parts, and
/// the others distinguish lines. As few properties as possible distinguish parts, but no part may
/// have too many lines. If there would be too many parts, returns a single part, whose lines are
/// means over the last properties.
fn parts<'a>(rows: &[&'a DimmSweepRow], names: &[Name]) -> Vec<Part<'a>> {
    let Some(first) = rows.first() else { return vec![] };
    let differs = |of: &&Name| rows.iter().any(|row| of(row) != of(first));
    let differing: Vec<&Name> = names.iter().filter(differs).collect();
    let joined = |names: &[&Name], row: &DimmSweepRow| {
        names.iter().map(|of| of(row)).collect::<Vec<_>>().join(", ")
    };
    let line = |names: &[&Name], row: &DimmSweepRow| match names {
        [] => first.label.clone(),
        names => joined(names, row),
    };
    let split = |count: usize| -> Vec<Part<'a>> {
        let (of_lines, of_parts) = differing.split_at(count);
        let parts = grouped(rows, |row| joined(of_parts, row)).into_iter();
        parts.map(|(title, rows)| (title, grouped(&rows, |row| line(of_lines, row)))).collect()
    };
    let mean = |count: usize| -> Vec<Part<'a>> {
        vec![(String::new(), grouped(rows, |row| line(&differing[..count], row)))]
    };
    let fits = |limit: usize| {
        move |parts: &Vec<Part<'a>>| {
            parts.len() <= FIGURES_MAX && parts.iter().all(|(_, lines)| lines.len() <= limit)
        }
    };
    let found = LINES_MAX
        .into_iter()
        .find_map(|limit| (0..=differing.len()).rev().map(split).find(fits(limit)));
    found
        .or_else(|| (1..=differing.len()).rev().map(mean).find(fits(LINES_MAX[1])))
        .unwrap_or_else(|| mean(differing.len().min(1)))
}

/// Groups the rows by the text that `key` returns for a row. The groups are in the order of the
/// file.
fn grouped<'a>(
    rows: &[&'a DimmSweepRow],
    key: impl Fn(&DimmSweepRow) -> String,
) -> Vec<(String, Vec<&'a DimmSweepRow>)> {
    let mut groups: Vec<(String, Vec<&DimmSweepRow>)> = vec![];
    for row in rows {
        let key = key(row);
        match groups.iter_mut().find(|(other, _)| *other == key) {
            Some((_, group)) => group.push(row),
            None => groups.push((key, vec![row])),
        }
    }
    groups
}

/// Calls `draw` for a part of a figure. If the figure is split, appends the part's title to the
/// title, and the part's index `at` to the ID.
fn of_part(at: usize, (title, lines): &Part<'_>, draw: impl Fn(&[Line<'_>]) -> Figure) -> Figure {
    let figure = draw(lines);
    match title.as_str() {
        "" => figure,
        title => Figure {
            title: format!("{}: {title}", figure.title),
            id: format!("{}-{at}", figure.id),
            ..figure
        },
    }
}

/// Returns a figure of latency against bandwidth. A point of a line is the mean of the line's rows
/// with the same offered load.
fn loaded_latency(lines: &[Line<'_>]) -> Figure {
    let of_line = |(group, (name, rows)): (usize, &Line<'_>)| {
        let mut loads: BTreeMap<u64, Vec<&DimmSweepRow>> = BTreeMap::new();
        for row in rows.iter().filter(|row| row.latency_mean_ns.is_some()) {
            // The key is the offered load as the bits of an `f64`, which is not `Ord`. The bits of
            // numbers from 0 have the same order as the numbers. The maximum load has no number,
            // and gets the largest key.
            let load = row.offered_gbps.unwrap_or(f64::MAX).max(0.0).to_bits();
            loads.entry(load).or_default().push(row);
        }
        let mean = |rows: &[&DimmSweepRow], value: fn(&DimmSweepRow) -> Option<f64>| {
            rows.iter().filter_map(|row| value(row)).sum::<f64>() / rows.len() as f64
        };
        let points = loads.values().map(|rows| {
            (mean(rows, |row| Some(row.bandwidth_gbps)), mean(rows, |row| row.latency_mean_ns))
        });
        Series::new(name, SeriesKind::Line, group, points)
    };
    Figure {
        series: lines.iter().enumerate().map(of_line).collect(),
        caption: "Each point is one load, the mean of its cases; latency is of reads, from the \
                  core's miss to its data."
            .into(),
        ..Figure::new("loaded-latency", "loaded latency", "bandwidth, GB/s", "latency, ns")
    }
}

/// Returns a figure with `metric` on the vertical axis and the number `axis` on the horizontal
/// axis.
fn against(lines: &[Line<'_>], metric: DimmMetric, axis: DimmAxis) -> Figure {
    let of_line = |(group, (name, rows)): (usize, &Line<'_>)| {
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
        of_spreads(name, SeriesKind::Line, group, spreads.collect())
    };
    titled(metric, axis.label, lines.iter().enumerate().map(of_line).collect(), vec![])
}

/// Returns a figure of a metric, with a group of bars for each module. A group has a bar for each
/// mix and pattern, and for each row policy and refresh mode if they differ between rows.
fn by_module(rows: &[&DimmSweepRow], metric: DimmMetric) -> Figure {
    let differs = |text: &fn(&DimmSweepRow) -> String| {
        rows.first().is_some_and(|first| rows.iter().any(|row| text(row) != text(first)))
    };
    let controller: Vec<_> = CONTROLLER_TEXTS.into_iter().filter(differs).collect();
    let bar = |row: &DimmSweepRow| {
        let controller: String = controller.iter().map(|text| format!(", {}", text(row))).collect();
        format!("{}, {} pattern{controller}", row.mix, row.pattern)
    };
    let modules: Vec<String> =
        grouped(rows, |row| row.label.clone()).into_iter().map(|(module, _)| module).collect();
    let of_line = |(group, (name, rows)): (usize, Line<'_>)| {
        let bars = modules.iter().enumerate().filter_map(|(at, module)| {
            let of_module = rows.iter().filter(|row| row.label == *module);
            let values = of_module.filter_map(|row| (metric.value)(row)).collect();
            Some((at as f64, Spread::of(values)?))
        });
        of_spreads(&name, SeriesKind::Bars, group, bars.collect())
    };
    let lines = grouped(rows, bar);
    titled(metric, "module", lines.into_iter().enumerate().map(of_line).collect(), modules)
}

/// Returns a series with the mean of each of `spreads` at its position `x`. Its interval is from
/// the 5th to the 95th percentile.
fn of_spreads(name: &str, kind: SeriesKind, group: usize, spreads: Vec<(f64, Spread)>) -> Series {
    Series::new(name, kind, group, spreads.iter().map(|(x, it)| (*x, it.mean)))
        .with_interval(spreads.iter().map(|(_, it)| (it.low, it.high)))
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
            "{better} is better. Under the maximum load; the mean of the cases, and the interval \
             that holds nine tenths of them."
        ),
        ..Figure::new(metric.id, metric.name, x_label, &y_label)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;

    /// Returns the figures of bandwidth, as pairs of (title, number of lines), of a sweep with
    /// these numbers of modules, mixes, channels and outstanding lines.
    fn figures(
        modules: usize,
        mixes: usize,
        channels: usize,
        lines: usize,
    ) -> Vec<(String, usize)> {
        let mut text = super::super::header(&COLUMNS) + "\n";
        for module in 0..modules {
            for (mix, channels, lines) in (0..mixes).flat_map(|mix| {
                (1..=channels)
                    .flat_map(move |count| (1..=lines).map(move |lines| (mix, count, lines)))
            }) {
                text += &format!(
                    "0,m{module},m{module},,16Gb,x4,{channels},stream,{lines},65.0,adaptive,\
                     all-bank,100,1,W{mix},,80.5,0.8,200.5,190,400,500,0.5,,,,a,b\n"
                );
            }
        }
        let document = DimmSweepDocument::read("a.csv", &text).unwrap();
        let figures = document.figures().into_iter();
        let of_bandwidth = figures.filter(|figure| figure.title.starts_with("bandwidth"));
        of_bandwidth.map(|figure| (figure.title, figure.series.len())).collect()
    }

    #[test]
    fn figures_have_few_lines_and_no_means_of_different_settings() {
        let named = |title: &str, lines: usize| (title.to_string(), lines);
        assert_eq!(figures(2, 2, 2, 3), [named("bandwidth", 8)]);
        let [one, two] = ["bandwidth: channels 1", "bandwidth: channels 2"].map(|it| named(it, 8));
        assert_eq!(figures(4, 2, 2, 3), [one, two]);
        let [w0, w1] = ["bandwidth: W0", "bandwidth: W1"].map(|it| named(it, 10));
        assert_eq!(figures(10, 2, 1, 3), [w0, w1]);
        // A figure for each combination of mix and channels would be too many figures. The single
        // figure has lines that are means over mixes and channels.
        assert_eq!(figures(20, 4, 3, 4), [named("bandwidth", 20)]);
    }

    #[test]
    fn bars_are_no_means_of_different_refresh_modes() {
        let row = |refresh: &str, gbps: f64| {
            format!(
                "0,m,m,,16Gb,x4,1,stream,288,65.0,adaptive,{refresh},100,1,R,,{gbps:?},0.8,200.5,\
                 190,400,500,0.5,,,,a,b\n"
            )
        };
        let rows = row("all-bank", 46.0) + &row("none", 50.0);
        let text = format!("{}\n{rows}", super::super::header(&COLUMNS));
        let document = DimmSweepDocument::read("a.csv", &text).unwrap();
        let series = &document.figures()[0].series;
        let bars: Vec<_> = series.iter().map(|bars| (&bars.name[..], bars.y[0])).collect();
        let expected = [
            ("R, stream pattern, refresh all-bank", 46.0),
            ("R, stream pattern, refresh none", 50.0),
        ];
        assert_eq!(bars, expected);
    }
}
