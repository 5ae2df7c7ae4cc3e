//! A figure as data: what is drawn is decided once, how it is drawn by each kind of report.

use super::{
    check::{Checked, identifier, invalid, same_length, same_length_or_empty},
    rounded,
};
use serde::{Deserialize, Serialize};

/// A plot with two axes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Figure {
    /// A short name for links and files.
    pub id: String,
    /// What it shows.
    pub title: String,
    /// What is on the horizontal axis, with its unit.
    pub x_label: String,
    /// What is on the vertical axis, with its unit.
    pub y_label: String,
    /// Where the vertical axis begins: 0 unless that hides what there is to see.
    #[serde(default)]
    pub y_from: f64,
    /// Names along the horizontal axis, at 0, 1, 2, ...; empty for an axis of numbers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub categories: Vec<String>,
    /// What is drawn.
    pub series: Vec<Series>,
    /// What to see in it.
    pub caption: String,
}

/// Points that belong together.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Series {
    /// Its name in the legend.
    pub name: String,
    /// How it is drawn.
    pub kind: SeriesKind,
    /// Series of one group have the same colour.
    pub group: usize,
    pub x: Vec<f64>,
    pub y: Vec<f64>,
    /// Nine tenths of the predictions lie between these; empty where nothing is uncertain.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub low: Vec<f64>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub high: Vec<f64>,
    /// A text for each point; empty for none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub labels: Vec<String>,
}

/// How a series is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SeriesKind {
    Line,
    Points,
    Bars,
}

impl Figure {
    /// Whether it can be drawn; `field` is what errors call it.
    ///
    /// # Errors
    /// With the first field that cannot.
    pub fn check(&self, field: &str) -> Checked {
        identifier(format!("{field}.id"), &self.id)?;
        for (at, series) in self.series.iter().enumerate() {
            let field = format!("{field}.series[{at}]");
            let points = series.x.len();
            same_length(format!("{field}.y"), series.y.len(), points, "x")?;
            same_length_or_empty(format!("{field}.low"), series.low.len(), points, "x")?;
            same_length(format!("{field}.high"), series.high.len(), series.low.len(), "low")?;
            same_length_or_empty(format!("{field}.labels"), series.labels.len(), points, "x")?;
            let names = self.categories.len();
            let is_name = |x: f64| (0..names).any(|name| name as f64 == x);
            if series.kind == SeriesKind::Bars && !series.x.iter().all(|x| is_name(*x)) {
                let problem = format!("bars stand at 0 to the last of {names} categories");
                return invalid(format!("{field}.x"), problem);
            }
        }
        Ok(())
    }
}

impl Series {
    pub fn new(
        name: impl Into<String>,
        kind: SeriesKind,
        group: usize,
        points: impl IntoIterator<Item = (f64, f64)>,
    ) -> Self {
        let (x, y) = points.into_iter().map(|(x, y)| (rounded(x), rounded(y))).unzip();
        let (low, high, labels) = (vec![], vec![], vec![]);
        Self { name: name.into(), kind, group, x, y, low, high, labels }
    }

    pub fn with_labels(self, labels: Vec<String>) -> Self {
        Self { labels, ..self }
    }

    pub fn with_interval(self, interval: impl IntoIterator<Item = (f64, f64)>) -> Self {
        let (low, high) = interval.into_iter().map(|(a, b)| (rounded(a), rounded(b))).unzip();
        Self { low, high, ..self }
    }
}
