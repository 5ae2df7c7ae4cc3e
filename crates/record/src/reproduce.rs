//! Published studies, reproduced by Interleaf, as `interleaf.reproduce/1`.
//!
//! `interleaf reproduce` writes the document. A row has a published figure or range, and the figure
//! that Interleaf computes (`ours`). Its error is ours / published - 1. Rows that were used to fit
//! constants are marked, and do not count in the errors of a study.

use super::{
    check::{Check, Checked, identifier, in_order, same_length},
    figure::Figure,
    rounded,
};
use serde::{Deserialize, Serialize};

pub const SCHEMA: &str = "interleaf.reproduce/1";

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ReproduceDocument {
    pub schema: String,
    pub studies: Vec<StudyDocument>,
}

/// The results of one study: those that the publication prints, and those of Interleaf.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StudyDocument {
    pub name: String,
    pub title: String,
    pub source: String,
    pub rows: Vec<ReproduceRow>,
    pub fitted_constants: Vec<String>,
    /// Mean absolute error, a fraction, of the rows that count: those that are neither
    /// `used_for_fit` nor `uncounted`.
    pub mean_abs_error: f64,
    /// Largest absolute error, a fraction, of the rows that count: those that are neither
    /// `used_for_fit` nor `uncounted`.
    pub max_abs_error: f64,
    pub sections: Vec<SectionDocument>,
    /// Remarks on the study as a whole.
    pub remarks: Vec<String>,
    pub figures: Vec<Figure>,
    /// Tables of other results of Interleaf, which the publication does not have.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tables: Vec<TableDocument>,
}

/// A table with texts in its cells.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TableDocument {
    pub title: String,
    pub header: Vec<String>,
    pub rows: Vec<Vec<String>>,
}

/// A row whose absolute error exceeds this fraction needs a note with the reason for the error.
const REASON_FROM: f64 = 0.05;

/// A published value: a number, a range, or null if the publication prints no number.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Published {
    Figure(f64),
    Range([f64; 2]),
    NotPrinted,
}

impl Published {
    /// Returns the published range from `low` to `high`, or a single number if both are equal.
    pub fn between(low: f64, high: f64) -> Self {
        if low == high {
            Self::Figure(rounded(low))
        } else {
            Self::Range([rounded(low), rounded(high)])
        }
    }

    /// Returns the error of `ours`, the computed value: ours / published - 1. Within a published
    /// range it is 0, and outside it is relative to the nearer end. Returns `None` if no number was
    /// published.
    fn error_of(self, ours: f64) -> Option<f64> {
        match self {
            Self::Figure(published) => Some(ours / published - 1.0),
            Self::Range([low, high]) => Some(ours / ours.clamp(low, high) - 1.0),
            Self::NotPrinted => None,
        }
    }
}

impl From<f64> for Published {
    fn from(value: f64) -> Self {
        Self::Figure(rounded(value))
    }
}

/// A published figure, and the same figure computed by Interleaf.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ReproduceRow {
    pub section: String,
    pub what: String,
    pub unit: String,
    pub published: Published,
    pub ours: f64,
    /// Relative error: ours / published - 1; 0 within a published range; null when no number was
    /// published.
    pub error: Option<f64>,
    pub used_for_fit: bool,
    /// True if the row does not count in the errors of its study: it repeats another row in another
    /// unit, or the study did not publish its figure.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub uncounted: bool,
    pub note: Option<String>,
}

/// The errors of the rows in one section of a study.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SectionDocument {
    pub section: String,
    pub rows: usize,
    pub used_for_fit: usize,
    /// Mean absolute error, a fraction, of the rows that count (neither `used_for_fit` nor
    /// `uncounted`), or of all rows if none counts.
    pub mean_abs_error: f64,
    /// Largest absolute error, a fraction, of the same rows as in `mean_abs_error`.
    pub max_abs_error: f64,
}

impl Check for ReproduceDocument {
    fn check(&self) -> Checked {
        for (at, study) in self.studies.iter().enumerate() {
            let field = format!("studies[{at}]");
            identifier(format!("{field}.name"), &study.name)?;
            for (at, row) in study.rows.iter().enumerate() {
                if let Published::Range(range) = row.published {
                    in_order(format!("{field}.rows[{at}].published"), range)?;
                }
            }
            for (at, figure) in study.figures.iter().enumerate() {
                figure.check(&format!("{field}.figures[{at}]"))?;
            }
            for (at, table) in study.tables.iter().enumerate() {
                for (row, cells) in table.rows.iter().enumerate() {
                    let row = format!("{field}.tables[{at}].rows[{row}]");
                    same_length(row, cells.len(), table.header.len(), "header")?;
                }
            }
        }
        Ok(())
    }
}

impl ReproduceRow {
    pub fn new(
        section: &str,
        what: impl Into<String>,
        unit: &str,
        published: impl Into<Published>,
        ours: f64,
    ) -> Self {
        let published = published.into();
        Self {
            section: section.into(),
            what: what.into(),
            unit: unit.into(),
            published,
            ours: rounded(ours),
            error: published.error_of(ours).map(rounded),
            used_for_fit: false,
            uncounted: false,
            note: None,
        }
    }

    pub fn used_for_fit(self, used_for_fit: bool) -> Self {
        Self { used_for_fit, ..self }
    }

    /// True if the mean and maximum errors of the study include the row.
    pub fn is_prediction(&self) -> bool {
        !self.used_for_fit && !self.uncounted
    }

    /// Marks the row, so that the mean and maximum errors of its study leave the row out.
    pub fn uncounted(self) -> Self {
        Self { uncounted: true, ..self }
    }

    /// True if the absolute error is above 5 %. Then the note must explain the error, or say "not
    /// explained".
    pub fn needs_reason(&self) -> bool {
        self.error.is_some_and(|error| error.abs() > REASON_FROM)
    }

    /// Appends `reason` to the note if the row's error needs a reason.
    pub fn explained(self, reason: impl FnOnce() -> String) -> Self {
        if !self.needs_reason() {
            return self;
        }
        let note = match &self.note {
            Some(note) => format!("{note}; {}", reason()),
            None => reason(),
        };
        self.with_note(note)
    }

    pub fn with_note(self, note: impl Into<String>) -> Self {
        Self { note: Some(note.into()), ..self }
    }
}

impl StudyDocument {
    /// Creates the document of a study: groups the rows by section, and computes the mean and the
    /// maximum error of each section and of the study.
    pub fn new(
        name: &str,
        title: &str,
        source: &str,
        rows: Vec<ReproduceRow>,
        fitted_constants: Vec<String>,
    ) -> Self {
        let mut names: Vec<&str> = rows.iter().map(|row| row.section.as_str()).collect();
        names.dedup();
        let sections = names
            .iter()
            .map(|section| {
                let own: Vec<&ReproduceRow> =
                    rows.iter().filter(|row| row.section == **section).collect();
                let used_for_fit = own.iter().filter(|row| row.used_for_fit).count();
                let is_any_counted = own.iter().any(|row| row.is_prediction());
                let (mean, max) = errors(
                    own.iter().copied().filter(|row| !is_any_counted || row.is_prediction()),
                );
                SectionDocument {
                    section: (*section).into(),
                    rows: own.len(),
                    used_for_fit,
                    mean_abs_error: mean,
                    max_abs_error: max,
                }
            })
            .collect();
        let (mean_abs_error, max_abs_error) = errors(rows.iter().filter(|row| row.is_prediction()));
        Self {
            name: name.into(),
            title: title.into(),
            source: source.into(),
            rows,
            fitted_constants,
            mean_abs_error,
            max_abs_error,
            sections,
            remarks: vec![],
            figures: vec![],
            tables: vec![],
        }
    }
}

/// Returns the mean and the maximum of the rows' absolute errors, or 0 without rows.
pub fn errors<'a>(rows: impl Iterator<Item = &'a ReproduceRow>) -> (f64, f64) {
    let errors: Vec<f64> = rows.filter_map(|row| Some(row.error?.abs())).collect();
    let mean = errors.iter().sum::<f64>() / errors.len().max(1) as f64;
    (rounded(mean), rounded(errors.iter().copied().fold(0.0, f64::max)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_of_figures_and_ranges() {
        let row =
            |published: Published, ours: f64| ReproduceRow::new("", "", "", published, ours).error;
        assert_eq!(row(Published::from(2.0), 1.0), Some(-0.5));
        let range = Published::between(2.0, 4.0);
        assert_eq!(
            [row(range, 3.0), row(range, 1.0), row(range, 5.0)],
            [0.0, -0.5, 0.25].map(Some)
        );
        assert_eq!(row(Published::NotPrinted, 3.0), None);
        let text = serde_json::to_string(&[Published::NotPrinted, range]).unwrap_or_default();
        assert_eq!(text, "[null,[2.0,4.0]]");
        let read: Vec<Published> = serde_json::from_str(&text).unwrap_or_default();
        assert_eq!(read, [Published::NotPrinted, range]);
        assert_eq!(Published::between(2.0, 2.0), Published::Figure(2.0));
    }
}
