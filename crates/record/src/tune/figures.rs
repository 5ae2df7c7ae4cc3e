//! The results of a search for each choice of weights, and their figure.

use super::{TrialDocument, TuneDocument};
use crate::{
    figure::{Figure, Series, SeriesKind},
    weights_text,
};

/// The results of all successful runs with one choice of weights.
#[derive(Debug)]
pub struct TuneResult<'a> {
    pub first: &'a TrialDocument,
    /// The metric of each run, or its runtime, s, if there is no metric.
    pub values: Vec<f64>,
}

impl TuneResult<'_> {
    /// Returns the geometric mean of `values`.
    pub fn mean(&self) -> f64 {
        let sum: f64 = self.values.iter().map(|value| libm::log(*value)).sum();
        libm::exp(sum / self.values.len() as f64)
    }

    /// Returns the share of the pages on the first tier, percent.
    pub fn first_tier_percent(&self) -> f64 {
        100.0 * self.first.tier_share[0]
    }
}

impl TuneDocument {
    /// Returns the name, with the unit, of the quantity by which runs are compared.
    pub fn quantity(&self) -> &'static str {
        if self.metric.is_some() { "metric" } else { "runtime, s" }
    }

    /// Returns the value by which the run `trial` is compared, or `None` if the run failed.
    pub fn value(&self, trial: &TrialDocument) -> Option<f64> {
        let value = if self.metric.is_some() { trial.value } else { Some(trial.seconds) };
        value.filter(|_| trial.exit_code == Some(0))
    }

    /// Returns the results of each choice of weights, in the order of their first runs. The result
    /// with all pages on the first tier comes first.
    pub fn results(&self) -> Vec<TuneResult<'_>> {
        let mut results: Vec<TuneResult<'_>> = vec![];
        for trial in &self.runs {
            let Some(value) = self.value(trial) else { continue };
            match results.iter_mut().find(|it| it.first.tier_share == trial.tier_share) {
                Some(result) => result.values.push(value),
                None => results.push(TuneResult { first: trial, values: vec![value] }),
            }
        }
        results
    }

    /// Returns the figure of each run's value against the share of pages on the first tier, with
    /// the geometric mean for each choice of weights.
    pub fn figures(&self) -> Vec<Figure> {
        let mut results = self.results();
        if results.is_empty() {
            return vec![];
        }
        results.sort_by(|a, b| a.first_tier_percent().total_cmp(&b.first_tier_percent()));
        let means = results.iter().map(|it| (it.first_tier_percent(), it.mean()));
        let runs = results
            .iter()
            .flat_map(|it| it.values.iter().map(|value| (it.first_tier_percent(), *value)));
        let weights =
            results.iter().flat_map(|it| it.values.iter().map(|_| weights_text(&it.first.weights)));
        let all = || results.iter().flat_map(|it| &it.values).copied();
        let (least, most) = (all().fold(f64::MAX, f64::min), all().fold(0.0, f64::max));
        let better = if self.higher_is_better { "Higher" } else { "Lower" };
        vec![Figure {
            // The axis begins below the smallest value, by half of the values' range, so that
            // differences are visible.
            y_from: (least - 0.5 * (most - least)).max(0.0),
            series: vec![
                Series::new("geometric mean", SeriesKind::Line, 0, means),
                Series::new("run", SeriesKind::Points, 1, runs).with_labels(weights.collect()),
            ],
            caption: format!(
                "{better} is better. At 100 % all pages are on the first tier. The axis does not \
                 begin at 0."
            ),
            ..Figure::new("runs", "Runs by weights", "pages on the first tier, %", self.quantity())
        }]
    }
}
