//! Figures as data. This crate decides which series a figure has, and `interleaf_report` draws the
//! figure, for a terminal, as SVG and in HTML. The documents `interleaf.reproduce/1` and
//! `interleaf.extend.forecast/1` contain their figures. The figures of other documents are computed
//! from their fields when a document is rendered.

use super::{
    check::{Checked, identifier, invalid, same_length, same_length_or_empty},
    rounded,
};
use serde::{Deserialize, Serialize};

/// A plot with two axes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Figure {
    /// Short name of the figure, for links and file names.
    pub id: String,
    pub title: String,
    /// Label of the horizontal axis: its quantity and unit.
    pub x_label: String,
    /// Label of the vertical axis: its quantity and unit.
    pub y_label: String,
    /// Lower end of the vertical axis: 0, unless differences would be too small to see.
    #[serde(default)]
    pub y_from: f64,
    /// Scales of the two axes.
    #[serde(default, skip_serializing_if = "Scale::is_linear")]
    pub scale: Scale,
    /// Names on the horizontal axis, at the positions 0, 1, 2, ...; empty for an axis of numbers.
    /// If all series are points, the names are rows instead, and the values are on the horizontal
    /// axis.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub categories: Vec<String>,
    pub series: Vec<Series>,
    /// One or two sentences below the figure.
    pub caption: String,
}

/// A line, a set of points or a set of bars in a figure.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Series {
    /// Name of the series in the legend.
    pub name: String,
    pub kind: SeriesKind,
    /// Number of the group of the series. All series of a group have the same colour.
    pub group: usize,
    pub x: Vec<f64>,
    pub y: Vec<f64>,
    /// Lower end of an interval at each point, such as a 90 % interval or the range of the noise;
    /// empty without intervals.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub low: Vec<f64>,
    /// Upper end of the interval at each point; empty without intervals.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub high: Vec<f64>,
    /// Text that is drawn at each point; empty without texts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub labels: Vec<String>,
}

/// The scales of a figure's axes. A point at or below 0 on a logarithmic axis is not drawn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Scale {
    /// Both axes are linear.
    #[default]
    Linear,
    /// Both axes are linear, and the horizontal axis begins at 0.
    LinearFromZero,
    /// The horizontal axis is logarithmic.
    LogX,
    /// Both axes are logarithmic. `y_from` has no effect.
    LogXy,
}

/// The way in which a series is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SeriesKind {
    Line,
    Points,
    Bars,
}

impl Figure {
    /// Creates a figure without series. Both axes are linear, and the vertical axis begins at 0.
    pub fn new(id: &str, title: &str, x_label: &str, y_label: &str) -> Self {
        Self {
            id: id.into(),
            title: title.into(),
            x_label: x_label.into(),
            y_label: y_label.into(),
            y_from: 0.0,
            scale: Scale::Linear,
            categories: vec![],
            series: vec![],
            caption: String::new(),
        }
    }

    /// True if the categories are drawn as rows, one below the other: if all series are points over
    /// categories.
    pub fn has_rows(&self) -> bool {
        let is_points = |series: &Series| series.kind == SeriesKind::Points;
        !self.categories.is_empty() && self.series.iter().all(is_points)
    }

    /// Checks that the figure can be drawn. Errors name the figure by `field`, its path in the
    /// document.
    ///
    /// # Errors
    /// The first invalid field: an ID with a character that [`identifier`] does not allow, lists of
    /// different lengths, or bars or rows without a category.
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
            let has_names = series.kind == SeriesKind::Bars || self.has_rows();
            if has_names && !series.x.iter().all(|x| is_name(*x)) {
                let problem = format!("bars and rows are at 0 to the last of {names} categories");
                return invalid(format!("{field}.x"), problem);
            }
        }
        Ok(())
    }
}

impl Scale {
    fn is_linear(&self) -> bool {
        *self == Self::Linear
    }

    /// True if the horizontal axis is logarithmic.
    pub fn is_x_log(self) -> bool {
        matches!(self, Self::LogX | Self::LogXy)
    }

    /// True if the vertical axis is logarithmic.
    pub fn is_y_log(self) -> bool {
        self == Self::LogXy
    }

    /// True if the horizontal axis begins at 0.
    pub fn is_x_from_zero(self) -> bool {
        self == Self::LinearFromZero
    }

    /// Returns the coordinates of a point on the two axes. On a logarithmic axis, a coordinate is
    /// the decimal logarithm of the value. Returns `None` if the point cannot be drawn.
    pub fn position(self, (x, y): (f64, f64)) -> Option<(f64, f64)> {
        let along = |is_log: bool, value: f64| match is_log {
            true if value > 0.0 => Some(libm::log10(value)),
            true => None,
            false => Some(value),
        };
        let (x, y) = (along(self.is_x_log(), x)?, along(self.is_y_log(), y)?);
        (x.is_finite() && y.is_finite()).then_some((x, y))
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
