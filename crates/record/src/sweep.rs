//! The CSV file of a sweep (`interleaf simulate machine --sweep`): its rows, a summary of each
//! policy, and figures.

pub mod dimm;
mod number;

pub use number::Number;

use crate::{
    RecordError,
    figure::{Figure, Series, SeriesKind},
};
use interleaf_model::{parameters, policy::PolicyKind, statistics::quantile};
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};

/// The name of the format. A CSV file has no schema, so this name takes its place.
pub const SCHEMA: &str = "CSV of a sweep";

/// A column of the CSV file of a sweep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Column {
    pub name: &'static str,
    pub kind: ColumnKind,
}

/// The type of the cells in a column. An empty cell is a missing value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ColumnKind {
    /// Whole numbers from 0.
    Whole,
    Number,
    Text,
}

impl Column {
    const fn whole(name: &'static str) -> Self {
        Self { name, kind: ColumnKind::Whole }
    }

    const fn number(name: &'static str) -> Self {
        Self { name, kind: ColumnKind::Number }
    }

    const fn text(name: &'static str) -> Self {
        Self { name, kind: ColumnKind::Text }
    }
}

/// The columns of the file. The last two are fingerprints. `sweep` is the fingerprint of the
/// sweep's input: a sweep that is continued keeps only rows with the fingerprint of its own input.
/// `row` is the fingerprint of the row itself, by which altered rows are detected.
pub const COLUMNS: [Column; 25] = [
    Column::whole("case"),
    Column::text("platform"),
    Column::text("scenario"),
    Column::text("workload"),
    Column::whole("threads"),
    Column::whole("footprint_bytes"),
    Column::text("policy"),
    Column::text("weights"),
    Column::number("counter_noise"),
    Column::number("curve_error"),
    Column::number("migration_rate_gbps"),
    Column::whole("seed"),
    Column::number("runtime_s"),
    Column::number("speedup"),
    Column::text("best_static_weights"),
    Column::number("best_static_runtime_s"),
    Column::number("regret"),
    Column::number("regret_over_duration"),
    Column::number("converged_after_s"),
    Column::text("final_weights"),
    Column::number("unsettled_share"),
    Column::whole("migrated_bytes"),
    Column::number("energy_per_run_j"),
    Column::text("sweep"),
    Column::text("row"),
];

/// Returns the first line of a CSV file with `columns`: `name,name,...`.
pub fn header(columns: &[Column]) -> String {
    columns.iter().map(|column| column.name).collect::<Vec<_>>().join(",")
}

/// Returns the names of the columns, with or without quotes, in the first line of a CSV file.
/// Returns none if the line is not CSV.
pub fn column_names(text: &str) -> Vec<String> {
    let text = crate::without_byte_order_mark(text);
    // A text that begins with `{` is a JSON document, perhaps on a single long line, and not CSV.
    let line = text.lines().next().filter(|line| !line.starts_with('{')).unwrap_or_default();
    let mut reader = csv::ReaderBuilder::new().has_headers(false).from_reader(line.as_bytes());
    let first = reader.records().next().and_then(Result::ok).unwrap_or_default();
    first.iter().map(String::from).collect()
}

/// True if the first line of `text` begins with the first two of `columns`.
fn starts_with(text: &str, columns: &[Column]) -> bool {
    let names = column_names(text);
    let first = columns.iter().take(2).map(|column| column.name);
    names.iter().take(2).map(String::as_str).eq(first)
}

/// True if `text` begins as the CSV file of a sweep does, of machines or of memory modules.
pub fn is_start(text: &str) -> bool {
    SweepDocument::is_start(text) || dimm::DimmSweepDocument::is_start(text)
}

/// Reads the rows of a CSV file, and checks each with `check`. The file must have all `columns`, in
/// any order. Errors name the file, `name`, and the command that writes such files, `command`.
fn rows<T: serde::de::DeserializeOwned>(
    name: &str,
    text: &str,
    columns: &[Column],
    command: &str,
    check: impl Fn(&T) -> Result<(), String>,
) -> Result<Vec<T>, RecordError> {
    let again = format!("give the file as `{command}` wrote it");
    let text = crate::without_byte_order_mark(text);
    let mut reader = csv::Reader::from_reader(text.as_bytes());
    let header = reader.headers().cloned().unwrap_or_default();
    if let Some(missing) = columns.iter().find(|column| !header.iter().any(|it| it == column.name))
    {
        let problem = format!("{name}: line 1: no column {}", missing.name);
        return Err(RecordError::new(problem, again));
    }
    let mut rows: Vec<T> = vec![];
    for row in reader.deserialize() {
        let row: T = row.map_err(|why| {
            RecordError::new(format!("{name}: {}", problem(&why, &header)), again.clone())
        })?;
        check(&row).map_err(|problem| {
            RecordError::new(format!("{name}: line {}: {problem}", rows.len() + 2), again.clone())
        })?;
        rows.push(row);
    }
    if rows.is_empty() {
        return Err(RecordError::new(
            format!("{name}: the sweep has no row yet"),
            format!("run it: {command} FILE -o FILE.csv"),
        ));
    }
    Ok(rows)
}

/// Returns an error if a number is not finite, or if its magnitude exceeds `NUMBER_MAX`.
fn check_numbers(numbers: &[(&str, Option<f64>)]) -> Result<(), String> {
    let is_wrong = |value: f64| !value.is_finite() || value.abs() > NUMBER_MAX;
    let wrong = numbers.iter().find_map(|(name, value)| {
        let value = value.filter(|value| is_wrong(*value))?;
        Some(format!("{name}: {value} is out of range"))
    });
    wrong.map_or(Ok(()), Err)
}

fn count_cases(numbers: impl Iterator<Item = u64>) -> usize {
    numbers.collect::<BTreeSet<u64>>().len()
}

/// Returns the distinct values, in ascending order.
fn distinct(values: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values.dedup();
    values
}

/// The largest magnitude that a number may have: sums and differences of such numbers are finite.
const NUMBER_MAX: f64 = 1e18;

/// Maximum number of parts of a sweep (groups of rows) that have figures of their own. If there are
/// more parts, all rows share the figures.
const FIGURES_MAX: usize = 6;

/// The quantiles at the ends of an interval in a figure: nine tenths of the rows are within it.
const INTERVAL: [f64; 2] = [0.05, 0.95];

/// The rows of a sweep of machines, and the text of the CSV file.
#[derive(Clone, Debug, PartialEq)]
pub struct SweepDocument {
    pub name: String,
    pub rows: Vec<SweepRow>,
    text: String,
}

/// A row of the CSV file: the results of one workload in one case.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct SweepRow {
    /// Number of the case, counted from 0.
    pub case: u64,
    pub platform: String,
    pub scenario: String,
    pub workload: String,
    pub threads: u32,
    pub footprint_bytes: u64,
    pub policy: String,
    /// Weights of the policy `static`; empty for the best static weights, and for other policies.
    pub weights: String,
    /// Relative standard deviation of the counters' readings, a fraction.
    pub counter_noise: f64,
    /// Relative error of the curves that the policy uses for its decisions.
    pub curve_error: f64,
    pub migration_rate_gbps: f64,
    pub seed: u64,
    pub runtime_s: Option<f64>,
    /// Speed-up over all pages on the first tier.
    pub speedup: Option<f64>,
    /// Runtime divided by the runtime with the best static weights, minus 1. If the run did not
    /// end, it equals `regret_over_duration`.
    pub regret: Option<f64>,
    /// Work that would be done with the best static weights in the simulated time, divided by the
    /// work that was done under the policy, minus 1.
    pub regret_over_duration: Option<f64>,
    pub migrated_bytes: u64,
    pub energy_per_run_j: Option<f64>,
}

/// A column of numbers that can differ between the rows of a sweep.
#[derive(Clone, Copy, Debug)]
pub struct Varied {
    /// Name of the column in the CSV file.
    pub column: &'static str,
    /// Name of the number with its unit, for an axis.
    pub label: &'static str,
    /// Returns the value of the column in a row, in the unit of `label`.
    pub value: fn(&SweepRow) -> f64,
}

const VARIED: [Varied; 5] = [
    Varied {
        column: "curve_error",
        label: "error of the curves, %",
        value: |row| 100.0 * row.curve_error,
    },
    Varied {
        column: "counter_noise",
        label: "noise of a counter, %",
        value: |row| 100.0 * row.counter_noise,
    },
    Varied { column: "threads", label: "threads", value: |row| f64::from(row.threads) },
    Varied {
        column: "footprint_bytes",
        label: "footprint, GiB",
        value: |row| row.footprint_bytes as f64 / f64::from(1 << 30),
    },
    Varied {
        column: "migration_rate_gbps",
        label: "highest migration rate, GB/s",
        value: |row| row.migration_rate_gbps,
    },
];

/// A metric by which policies are compared.
#[derive(Clone, Copy, Debug)]
pub struct Metric {
    /// ID of the metric's figure in documents and pages.
    pub id: &'static str,
    pub name: &'static str,
    /// Unit of the metric after a space; empty for a ratio.
    pub unit: &'static str,
    /// Number of decimals of a printed value, enough to show differences between policies.
    pub decimals: usize,
    /// True if a lower value is better.
    pub lower_is_better: bool,
    value: fn(&SweepRow) -> Option<f64>,
}

const REGRET: Metric = Metric {
    id: "regret",
    name: "regret of a run",
    unit: " %",
    decimals: 2,
    lower_is_better: true,
    value: |row| Some(100.0 * row.regret?),
};

const REGRET_OVER_DURATION: Metric = Metric {
    id: "regret-over-duration",
    name: "regret over the duration",
    unit: " %",
    decimals: 2,
    lower_is_better: true,
    value: |row| Some(100.0 * row.regret_over_duration?),
};

const SPEEDUP: Metric = Metric {
    id: "speed-up",
    name: "speed-up over the first tier alone",
    unit: "",
    decimals: 3,
    lower_is_better: false,
    value: |row| row.speedup,
};

impl Metric {
    /// Returns the name of the metric with its unit, for an axis.
    pub fn label(&self) -> String {
        match self.unit.trim() {
            "" => self.name.into(),
            unit => format!("{}, {unit}", self.name),
        }
    }

    /// Formats a value of the metric without its unit.
    pub fn text(&self, value: f64) -> String {
        let text = format!("{value:.*}", self.decimals);
        // A value that rounds to zero is printed without a minus sign.
        let is_zero = text.trim_start_matches('-').chars().all(|it| it == '0' || it == '.');
        if is_zero { text.trim_start_matches('-').into() } else { text }
    }
}

/// The distribution of a metric over several rows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    pub count: usize,
    pub mean: f64,
    /// `low` is the 5th percentile, and `high` is the 95th.
    pub low: f64,
    pub high: f64,
    pub least: f64,
    pub most: f64,
}

/// The distribution of a metric over the rows that have one policy and one value of another
/// property, as (label of the policy, value, distribution).
pub type PolicySpread<K> = (String, K, Spread);

impl Spread {
    /// Returns the distribution of `values`, or `None` if there are none.
    fn of(mut values: Vec<f64>) -> Option<Self> {
        values.sort_by(f64::total_cmp);
        let (least, most) = (*values.first()?, *values.last()?);
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        let [low, high] = INTERVAL.map(|part| quantile(&values, part));
        Some(Self { count: values.len(), mean, low, high, least, most })
    }
}

impl SweepRow {
    /// True if the policy is `static` with the best weights: the reference of the regret.
    pub fn is_reference(&self) -> bool {
        self.policy == PolicyKind::Static.to_string() && self.weights.is_empty()
    }

    /// Returns the name of the policy with its weights: "static 65:35".
    pub fn policy_label(&self) -> String {
        match self.weights.as_str() {
            "" => self.policy.clone(),
            weights => format!("{} {weights}", self.policy),
        }
    }
}

impl SweepDocument {
    /// True if `text` begins as the CSV file of a sweep of machines does.
    pub fn is_start(text: &str) -> bool {
        starts_with(text, &COLUMNS)
    }

    /// Reads the CSV file of a sweep. Errors have the name of the file, `name`.
    ///
    /// # Errors
    /// When a column is missing, a value has the wrong type or is out of range, or there is no row.
    pub fn read(name: &str, text: &str) -> Result<Self, RecordError> {
        let command = "interleaf simulate machine --sweep";
        let rows = rows(name, text, &COLUMNS, command, |row: &SweepRow| {
            let numbers = VARIED.map(|it| (it.column, Some((it.value)(row))));
            let results =
                [REGRET, REGRET_OVER_DURATION, SPEEDUP].map(|it| (it.id, (it.value)(row)));
            check_numbers(&[&numbers[..], &results[..]].concat())
        })?;
        Ok(Self { name: name.into(), rows, text: text.into() })
    }

    pub fn text(&self) -> &str {
        &self.text
    }

    pub fn cases(&self) -> usize {
        count_cases(self.rows.iter().map(|row| row.case))
    }

    /// Returns the numbers that the sweep varies, each with its values, beginning with the most
    /// values. A number that follows from the workload, such as its footprint, is not varied.
    pub fn varied(&self) -> Vec<(Number, Vec<f64>)> {
        let load =
            |row: &SweepRow| (row.platform.clone(), row.scenario.clone(), row.workload.clone());
        let mut loads = BTreeMap::new();
        self.rows.iter().for_each(|row| loads.entry(load(row)).or_insert_with(Vec::new).push(row));
        let is_varied = |varied: &Varied| {
            let value = varied.value;
            loads.values().any(|rows| rows.iter().any(|row| value(row) != value(rows[0])))
        };
        let values = |varied: Number| {
            let values = distinct(self.rows.iter().map(|row| varied.value(row)));
            (varied, values)
        };
        let columns = VARIED.into_iter().filter(is_varied).map(Number::Column);
        let parameter = Number::of_parameters(&self.rows).into_iter();
        let mut all: Vec<_> = parameter.chain(columns).map(values).collect();
        all.sort_by_key(|(_, values)| std::cmp::Reverse(values.len()));
        all
    }

    /// Returns the metrics of which the rows have values: regret and speed-up. If no row has a
    /// regret, the regret over the duration takes its place.
    pub fn metrics(&self) -> Vec<Metric> {
        let has = |metric: &Metric| self.rows.iter().any(|row| (metric.value)(row).is_some());
        let regret = [REGRET, REGRET_OVER_DURATION].into_iter().find(has);
        regret.into_iter().chain(Some(SPEEDUP).filter(has)).collect()
    }

    /// Returns the label of the best static weights, the reference of regret, if a row has them.
    pub fn reference(&self) -> Option<String> {
        self.rows.iter().find(|row| row.is_reference()).map(SweepRow::policy_label)
    }

    /// Returns pairs of (label of a policy, distribution of a metric), in the order of the file.
    pub fn by_policy(&self, metric: Metric) -> Vec<(String, Spread)> {
        self.spreads(metric, |_| 0)
            .into_iter()
            .map(|(policy, _, spread)| (policy, spread))
            .collect()
    }

    /// Returns the distribution of a metric for each policy and each value of another property.
    /// `of` returns this property of a row. The policies are in the order of the file, and the
    /// values in ascending order.
    pub fn spreads<K: Ord + Clone>(
        &self,
        metric: Metric,
        of: impl Fn(&SweepRow) -> K,
    ) -> Vec<PolicySpread<K>> {
        let rows: Vec<&SweepRow> = self.rows.iter().collect();
        spreads(&rows, metric, of)
    }

    /// Returns a figure for each metric, with a line for each policy. The varied number with the
    /// most values is on the horizontal axis. If there are only a few combinations of platform,
    /// workload and threads, each combination has its own figures. If no number varies, a figure
    /// has a group of bars for each workload, with a bar for each policy.
    pub fn figures(&self) -> Vec<Figure> {
        let varied = self.varied();
        let varied = varied.first();
        let names = self.part_names(varied);
        let parts = self.parts(&names);
        let mut figures = vec![];
        for metric in self.metrics() {
            for (at, part) in parts.iter().enumerate() {
                let of_part = |row: &SweepRow| *part == part_label(&names, row);
                let rows: Vec<&SweepRow> =
                    self.rows.iter().filter(|row| part.is_empty() || of_part(row)).collect();
                let figure = figure(&rows, metric, varied);
                let (title, id) = match part.as_str() {
                    "" => (figure.title, figure.id),
                    part => (format!("{}: {part}", figure.title), format!("{}-{at}", figure.id)),
                };
                figures.push(Figure { title, id, ..figure });
            }
        }
        figures
    }

    /// Returns the labels of the parts of the sweep, each with its own figures. A part has the rows
    /// with equal `names`. If there are too many parts, one empty label stands for all rows.
    fn parts(&self, names: &[Name]) -> Vec<String> {
        let mut parts: Vec<String> = vec![];
        for row in &self.rows {
            let part = part_label(names, row);
            if !parts.contains(&part) {
                parts.push(part);
            }
            if parts.len() > FIGURES_MAX {
                return vec![String::new()];
            }
        }
        parts
    }

    /// Returns the properties that distinguish the parts of the sweep: platform, workload and
    /// threads, without those equal in all rows or on the horizontal axis. Returns none if no
    /// number varies.
    fn part_names(&self, varied: Option<&(Number, Vec<f64>)>) -> Vec<Name> {
        let Some((varied, _)) = varied else { return vec![] };
        let first = &self.rows[0];
        let differs = |of: &Name| self.rows.iter().any(|row| of(row) != of(first));
        let platform: Name = match varied {
            Number::Parameter(_) => |row| parameters::split(&row.platform).0.into(),
            Number::Column(_) => |row| row.platform.clone(),
        };
        let mut names: Vec<Name> = vec![platform, |row| row.workload.clone()];
        if varied.name() != "threads" {
            names.push(|row| format!("{} threads", row.threads));
        }
        names.retain(differs);
        names
    }
}

/// A function that returns a row's platform, workload or number of threads as a text.
type Name = fn(&SweepRow) -> String;

fn part_label(names: &[Name], row: &SweepRow) -> String {
    names.iter().map(|of| of(row)).collect::<Vec<_>>().join(", ")
}

/// Returns the figure of a metric: lines over the number `varied`, or bars for each workload.
fn figure(rows: &[&SweepRow], metric: Metric, varied: Option<&(Number, Vec<f64>)>) -> Figure {
    let (label, values, categories) = match varied {
        Some((varied, values)) => (varied.label(), values.clone(), vec![]),
        None => {
            let mut names: Vec<String> = rows.iter().map(|row| row.workload.clone()).collect();
            names.sort_unstable();
            names.dedup();
            ("workload".into(), (0..names.len()).map(|at| at as f64).collect(), names)
        }
    };
    let at = |row: &SweepRow| match varied {
        Some((varied, _)) => values.iter().position(|it| *it == varied.value(row)),
        None => categories.iter().position(|name| *name == row.workload),
    };
    let kind = if categories.is_empty() { SeriesKind::Line } else { SeriesKind::Bars };
    let x = |at: Option<usize>| at.map_or(0.0, |at| values[at]);
    let spreads = spreads(rows, metric, at);
    let of_policies = spreads.chunk_by(|(a, ..), (b, ..)| a == b);
    let of_policy = |(group, points): (usize, &[PolicySpread<Option<usize>>])| {
        let means = points.iter().map(|(_, at, spread)| (x(*at), spread.mean));
        Series::new(points[0].0.clone(), kind, group, means)
            .with_interval(points.iter().map(|(.., spread)| (spread.low, spread.high)))
    };
    let series: Vec<Series> = of_policies.enumerate().map(of_policy).collect();
    let ends = || series.iter().flat_map(|series| series.low.iter().chain(&series.high)).copied();
    let (least, most) = (ends().fold(f64::MAX, f64::min), ends().fold(f64::MIN, f64::max));
    let better = if metric.lower_is_better { "Lower" } else { "Higher" };
    Figure {
        // Bars begin at 0. The axis of lines may begin near the smallest value, so that differences
        // are visible.
        y_from: match kind {
            SeriesKind::Bars => 0.0,
            _ if least > most => 0.0,
            _ if least < 0.0 => least,
            _ if metric.lower_is_better => 0.0,
            _ => (least - 0.5 * (most - least)).max(0.0),
        },
        categories,
        series,
        caption: format!(
            "{better} is better. Each point is the mean of the cases of a policy with this value; \
             the interval holds nine tenths of them."
        ),
        ..Figure::new(metric.id, metric.name, &label, &metric.label())
    }
}

/// Returns the distribution of a metric for each policy, in the order of the rows, and for each
/// value of another property, in ascending order. `of` returns this property of a row.
fn spreads<'a, K: Ord + Clone>(
    rows: impl IntoIterator<Item = &'a &'a SweepRow>,
    metric: Metric,
    of: impl Fn(&SweepRow) -> K,
) -> Vec<PolicySpread<K>> {
    let mut groups: BTreeMap<(usize, K), Vec<f64>> = BTreeMap::new();
    let mut policies: Vec<String> = vec![];
    for row in rows {
        let policy = row.policy_label();
        let at = policies.iter().position(|it| *it == policy).unwrap_or_else(|| {
            policies.push(policy);
            policies.len() - 1
        });
        let values = groups.entry((at, of(row))).or_default();
        values.extend((metric.value)(row));
    }
    let spread = |((at, key), values): ((usize, K), Vec<f64>)| {
        Some((policies[at].clone(), key, Spread::of(values)?))
    };
    groups.into_iter().filter_map(spread).collect()
}

/// Returns the message about a row that cannot be parsed: its line, column and problem.
fn problem(why: &csv::Error, header: &csv::StringRecord) -> String {
    match why.kind() {
        csv::ErrorKind::Deserialize { pos, err } => {
            let line = pos.as_ref().map_or(0, csv::Position::line);
            let column = err.field().and_then(|at| header.get(at as usize)).unwrap_or("row");
            format!("line {line}: {column}: {}", err.kind())
        }
        csv::ErrorKind::UnequalLengths { pos, expected_len, len } => {
            let line = pos.as_ref().map_or(0, csv::Position::line);
            format!("line {line}: {len} cells, not {expected_len}")
        }
        _ => why.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(case: u64, policy: &str, curve_error: f64, regret: &str) -> String {
        format!(
            "{case},p,s,lbm,4,1073741824,{policy},,0.02,{curve_error},2,1,10,1.2,3:1,9,{regret},\
             0.01,5,3:1,0,0,100,a,b"
        )
    }

    fn text(rows: &[String]) -> String {
        format!("{}\n{}\n", header(&COLUMNS), rows.join("\n"))
    }

    #[test]
    fn policies_are_summarized_and_drawn() {
        let rows: Vec<String> = (0..40)
            .map(|case| {
                let (policy, error) = (["dmi", "guided"][case % 2], (case / 2 % 2) as f64 / 10.0);
                row(
                    case as u64,
                    policy,
                    error,
                    &format!("{}", (case % 2 + case / 2 % 2) as f64 / 50.0),
                )
            })
            .collect();
        let text = text(&rows);
        assert!(SweepDocument::is_start(&text));
        assert!(SweepDocument::is_start("\u{feff}\"case\",\"platform\",\"scenario\"\r\n"));
        assert!(!SweepDocument::is_start("case\n") && !SweepDocument::is_start(""));
        let sweep = SweepDocument::read("a.csv", &text).unwrap();
        assert_eq!((sweep.rows.len(), sweep.cases(), sweep.text()), (40, 40, text.as_str()));
        let regret = sweep.metrics()[0];
        let means: Vec<(String, f64)> =
            sweep.by_policy(regret).into_iter().map(|(name, spread)| (name, spread.mean)).collect();
        assert_eq!(means, [("dmi".into(), 1.0), ("guided".into(), 3.0)]);
        let figures = sweep.figures();
        assert_eq!(figures.len(), 2, "regret and speed-up");
        let figure = &figures[0];
        assert_eq!(figure.x_label, "error of the curves, %");
        assert_eq!((&figure.series[1].x, &figure.series[1].y), (&vec![0.0, 10.0], &vec![2.0, 4.0]));
        assert!(figures.iter().all(|figure| figure.check("figure").is_ok()));
    }

    #[test]
    fn a_number_that_follows_from_the_workload_is_not_varied() {
        let of = |case, workload: &str, footprint: &str| {
            let row = row(case, "dmi", 0.0, "0.1").replace(",lbm,", &format!(",{workload},"));
            row.replace("1073741824", footprint)
        };
        let varied = |rows: &[String]| {
            let sweep = SweepDocument::read("a.csv", &text(rows)).unwrap();
            let names = sweep.varied().into_iter().map(|(varied, _)| varied.name().to_string());
            names.collect::<Vec<_>>()
        };
        let [lbm, pr] = [of(0, "lbm", "1073741824"), of(1, "pr", "2147483648")];
        assert!(varied(&[lbm.clone(), pr.clone()]).is_empty());
        let more = of(2, "pr", "4294967296");
        assert_eq!(varied(&[lbm, pr, more]), ["footprint_bytes"]);
    }

    #[test]
    fn a_sweep_that_varies_no_number_is_drawn_by_workload() {
        let sweep = SweepDocument::read("a.csv", &text(&[row(0, "dmi", 0.0, "")])).unwrap();
        let [regret, speedup] = &sweep.figures()[..] else { panic!("two figures") };
        assert_eq!((&regret.id[..], &speedup.id[..]), ("regret-over-duration", "speed-up"));
        assert_eq!(regret.categories, ["lbm"]);
        assert_eq!((regret.series[0].kind, regret.series[0].y[0]), (SeriesKind::Bars, 1.0));
        assert!(regret.check("figure").is_ok());
    }

    /// Some spreadsheets begin the file with a byte order mark, and write the column names in
    /// quotes.
    #[test]
    fn a_header_with_quotes_is_that_of_a_sweep() {
        let saved = text(&[row(0, "dmi", 0.0, "0.1")]);
        let (names, rows) = saved.split_once('\n').unwrap();
        let quoted = format!("\"{}\"\r\n{rows}", names.replace(',', "\",\""));
        for text in [quoted.clone(), format!("\u{feff}{quoted}")] {
            let read = crate::read("a.csv", &text).unwrap();
            assert_eq!(read.schema(), SCHEMA);
        }
        let other = crate::read("a.csv", "\"a\",\"b\"\n1,2\n").unwrap_err().problem;
        assert!(other.starts_with("a.csv: the file is neither a JSON document nor"), "{other}");
    }

    #[test]
    fn errors_name_line_and_column() {
        let problem = |text: &str| SweepDocument::read("a.csv", text).unwrap_err().problem;
        let good = row(0, "dmi", 0.0, "0.1");
        assert_eq!(problem("case,platform\n"), "a.csv: line 1: no column scenario");
        assert_eq!(problem(&text(&[])), "a.csv: the sweep has no row yet");
        let bad = [good.clone(), row(1, "dmi", 0.0, "much")];
        assert_eq!(problem(&text(&bad)), "a.csv: line 3: regret: invalid float literal");
        let bad = [good.clone(), row(1, "dmi", 1e300, "")];
        assert!(problem(&text(&bad)).starts_with("a.csv: line 3: curve_error: "));
        let bad = [good, "1,p".into()];
        assert_eq!(problem(&text(&bad)), "a.csv: line 3: 2 cells, not 25");
    }
}
