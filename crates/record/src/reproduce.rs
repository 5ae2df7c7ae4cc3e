//! `interleaf.reproduce/1`.

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

/// A study beside its publication.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StudyDocument {
    pub name: String,
    pub title: String,
    pub source: String,
    pub rows: Vec<ReproduceRow>,
    pub fitted_constants: Vec<String>,
    /// Over the rows that were not used for fitting.
    pub mean_abs_error: f64,
    pub max_abs_error: f64,
    pub sections: Vec<SectionDocument>,
    /// What the figures above do not say.
    pub remarks: Vec<String>,
    pub figures: Vec<Figure>,
    /// What is ours alone.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tables: Vec<TableDocument>,
}

/// Cells under a header.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TableDocument {
    pub title: String,
    pub header: Vec<String>,
    pub rows: Vec<Vec<String>>,
}

/// Errors above this part get a reason.
const REASON_FROM: f64 = 0.05;

/// What was published: a figure, or between what it lies.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Published {
    Figure(f64),
    Range([f64; 2]),
}

impl Published {
    /// A range, or a figure where both ends are one.
    pub fn between(low: f64, high: f64) -> Self {
        if low == high {
            Self::Figure(rounded(low))
        } else {
            Self::Range([rounded(low), rounded(high)])
        }
    }

    /// ours / published - 1, and 0 within a range.
    fn error_of(self, ours: f64) -> f64 {
        match self {
            Self::Figure(published) => ours / published - 1.0,
            Self::Range([low, high]) => ours / ours.clamp(low, high) - 1.0,
        }
    }
}

impl From<f64> for Published {
    fn from(value: f64) -> Self {
        Self::Figure(rounded(value))
    }
}

/// One published figure, and ours.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ReproduceRow {
    pub section: String,
    pub what: String,
    pub unit: String,
    pub published: Published,
    pub ours: f64,
    /// ours / published - 1; within a range 0.
    pub error: f64,
    pub used_for_fit: bool,
    pub note: Option<String>,
}

/// The rows of one section together.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SectionDocument {
    pub section: String,
    pub rows: usize,
    pub used_for_fit: usize,
    /// Of the rows that were not used for fitting, or of all where each was.
    pub mean_abs_error: f64,
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
            error: rounded(published.error_of(ours)),
            used_for_fit: false,
            note: None,
        }
    }

    pub fn used_for_fit(self, used_for_fit: bool) -> Self {
        Self { used_for_fit, ..self }
    }

    /// Whether the error is so large that the note has to say why, or that it is not explained.
    pub fn needs_reason(&self) -> bool {
        self.error.abs() > REASON_FROM
    }

    /// The same with `reason` after the note, where the error needs one.
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
    /// Puts the rows of a study together, with their errors.
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
                let all_used = used_for_fit == own.len();
                let (mean, max) =
                    errors(own.iter().copied().filter(|row| all_used || !row.used_for_fit));
                SectionDocument {
                    section: (*section).into(),
                    rows: own.len(),
                    used_for_fit,
                    mean_abs_error: mean,
                    max_abs_error: max,
                }
            })
            .collect();
        let (mean_abs_error, max_abs_error) = errors(rows.iter().filter(|row| !row.used_for_fit));
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

/// Mean and maximum of the absolute errors; 0 of none.
pub fn errors<'a>(rows: impl Iterator<Item = &'a ReproduceRow>) -> (f64, f64) {
    let errors: Vec<f64> = rows.map(|row| row.error.abs()).collect();
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
        assert_eq!(row(Published::from(2.0), 1.0), -0.5);
        let range = Published::between(2.0, 4.0);
        assert_eq!([row(range, 3.0), row(range, 1.0), row(range, 5.0)], [0.0, -0.5, 0.25]);
        assert_eq!(Published::between(2.0, 2.0), Published::Figure(2.0));
    }
}
