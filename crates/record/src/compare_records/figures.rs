//! Figures of a comparison of two records: the difference of each point, and its noise.

use super::{CompareDocument, CompareRow, Verdict};
use crate::figure::{Figure, Series, SeriesKind};

/// Maximum number of points in a figure. Each point is a row.
const ROWS_MAX: usize = 40;

/// The verdicts in the order of the legend, as (verdict, name, index of its colour).
const VERDICTS: [(Verdict, &str, usize); 4] = [
    (Verdict::Better, "better", 2),
    (Verdict::Worse, "worse", 1),
    (Verdict::Same, "within noise", 0),
    (Verdict::Unknown, "unknown noise", 3),
];

impl CompareDocument {
    /// Returns a figure of the differences of bandwidth, and one of the differences of latency.
    /// Each point is a row.
    pub fn figures(&self) -> Vec<Figure> {
        let bandwidth = self.figure("bandwidth", "GB/s", "more");
        bandwidth.into_iter().chain(self.figure("latency", "ns", "less")).collect()
    }

    /// Returns the figure of the points with the unit `unit`, or `None` if there are none. `better`
    /// is the direction of an improvement: "more" or "less".
    fn figure(&self, quantity: &str, unit: &str, better: &str) -> Option<Figure> {
        let all: Vec<&CompareRow> = self.rows.iter().filter(|row| row.unit == unit).collect();
        let rows = largest(&all);
        let (names, shared) = names(&rows);
        let of_verdict = |(verdict, name, group): (Verdict, &str, usize)| {
            let own = || rows.iter().enumerate().filter(move |(_, row)| row.verdict == verdict);
            let points = own().map(|(at, row)| (at as f64, 100.0 * row.difference));
            let series = Series::new(name, SeriesKind::Points, group, points);
            let interval = |row: &CompareRow| {
                let noise = row.noise.unwrap_or(0.0);
                (100.0 * (row.difference - noise), 100.0 * (row.difference + noise))
            };
            match own().any(|(_, row)| row.noise.is_some()) {
                true => series.with_interval(own().map(|(_, row)| interval(row))),
                false => series,
            }
        };
        let mut series: Vec<Series> = VERDICTS.into_iter().map(of_verdict).collect();
        series.retain(|series| !series.x.is_empty());
        let ends = series.iter().flat_map(|series| series.y.iter().chain(&series.low));
        let least = ends.fold(0.0, |least: f64, end| least.min(*end));
        let mut caption = format!("{} {quantity} is better.", capitalized(better));
        if rows.iter().any(|row| row.noise.is_some()) {
            caption += " The line of a point extends by the noise to both sides: a difference is \
                        beyond the noise if its line does not cross 0.";
        }
        if !shared.is_empty() {
            caption += &format!(" All points: {}.", shared.join(", "));
        }
        if rows.len() < all.len() {
            caption += &format!(" The {ROWS_MAX} largest of {} differences.", all.len());
        }
        (!rows.is_empty()).then(|| Figure {
            y_from: least,
            categories: names,
            series,
            caption,
            ..Figure::new(
                quantity,
                &format!("{}, B against A", capitalized(quantity)),
                "point",
                &format!("difference of {quantity}, %"),
            )
        })
    }
}

/// Returns the `ROWS_MAX` rows with the largest absolute differences, in the document's order.
fn largest<'a>(all: &[&'a CompareRow]) -> Vec<&'a CompareRow> {
    let mut order: Vec<usize> = (0..all.len()).collect();
    let size = |at: &usize| all[*at].difference.abs();
    order.sort_by(|a, b| size(b).total_cmp(&size(a)));
    order.truncate(ROWS_MAX);
    order.sort_unstable();
    order.into_iter().map(|at| all[at]).collect()
}

/// Returns a name for each row, and the words that all rows have in common. The names lack these
/// words.
fn names(rows: &[&CompareRow]) -> (Vec<String>, Vec<String>) {
    let words = |row: &CompareRow| row.setting.split(", ").map(String::from).collect::<Vec<_>>();
    let mut shared = if rows.len() > 1 { words(rows[0]) } else { vec![] };
    shared.retain(|word| rows.iter().all(|row| words(row).contains(word)));
    let name = |row: &&CompareRow| {
        let mut own = words(row);
        own.retain(|word| !shared.contains(word));
        // In a damaged document, all rows may have the same setting, so that they have all words in
        // common. Then each row has the whole setting as its name.
        if own.is_empty() { row.setting.clone() } else { own.join(", ") }
    };
    (rows.iter().map(name).collect(), shared)
}

fn capitalized(word: &str) -> String {
    let (first, rest) = word.split_at(word.len().min(1));
    first.to_uppercase() + rest
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;
    use crate::{
        compare_records::{RecordDocument, SCHEMA},
        measure::Quality,
    };

    fn row(setting: &str, unit: &str, difference: f64, noise: Option<f64>) -> CompareRow {
        let beyond_spread = noise.is_some_and(|noise| difference.abs() > noise);
        let verdict = match (noise, beyond_spread, (difference > 0.0) == (unit == "GB/s")) {
            (None, ..) => Verdict::Unknown,
            (_, false, _) => Verdict::Same,
            (_, true, true) => Verdict::Better,
            (_, true, false) => Verdict::Worse,
        };
        CompareRow {
            setting: setting.into(),
            unit: unit.into(),
            first: 1.0,
            second: 1.0 + difference,
            difference,
            spread: noise,
            noise,
            beyond_spread,
            verdict,
            trusted: true,
        }
    }

    fn compared(rows: Vec<CompareRow>) -> CompareDocument {
        let record = |name: &str| RecordDocument {
            name: name.into(),
            what: "all".into(),
            quality: Quality::Good,
        };
        CompareDocument {
            schema: SCHEMA.into(),
            of: "measure".into(),
            first: record("a"),
            second: record("b"),
            differences: vec![],
            rows,
            only_in_first: vec![],
            only_in_second: vec![],
        }
    }

    #[test]
    fn each_quantity_has_a_row_for_each_point() {
        let document = compared(vec![
            row("idle, node 0", "ns", 0.2, Some(0.05)),
            row("bandwidth, node 0, R", "GB/s", 0.1, Some(0.05)),
            row("bandwidth, node 0, 2:1", "GB/s", -0.02, Some(0.05)),
            row("bandwidth, node 0, 1:1", "GB/s", 0.01, None),
        ]);
        let figures = document.figures();
        let [bandwidth, latency] = &figures[..] else { panic!("{figures:?}") };
        assert_eq!(bandwidth.categories, ["R", "2:1", "1:1"]);
        assert!(bandwidth.caption.ends_with(" All points: bandwidth, node 0."));
        let names: Vec<&str> = bandwidth.series.iter().map(|it| it.name.as_str()).collect();
        assert_eq!(names, ["better", "within noise", "unknown noise"]);
        let better = &bandwidth.series[0];
        assert_eq!(
            (better.x[0], better.y[0], better.low[0], better.high[0]),
            (0.0, 10.0, 5.0, 15.0)
        );
        assert!(bandwidth.series[2].low.is_empty());
        assert_eq!(bandwidth.y_from, -7.0);
        assert_eq!(
            (&latency.series[0].name[..], &latency.categories[0][..]),
            ("worse", "idle, node 0")
        );
        assert!(figures.iter().all(|it| it.has_rows() && it.check("figure").is_ok()));
    }

    #[test]
    fn many_points_are_reduced_to_the_largest_differences() {
        let point = |at: usize| row(&format!("{at}"), "ns", at as f64 / 1000.0, Some(0.01));
        let figures = compared((0..100).map(point).collect()).figures();
        assert_eq!(figures.len(), 1);
        assert_eq!((figures[0].categories.len(), &figures[0].categories[0][..]), (ROWS_MAX, "60"));
        assert!(figures[0].caption.ends_with("The 40 largest of 100 differences."));
    }
}
