//! Computes the coverage: the fraction of the measured speed-ups that lie within the 90 % interval
//! of their prediction.
//!
//! The interval has two parts: the spread of the behaviours that agree with a workload's runs, and
//! the error of the model ([`MODEL_SPREAD`]). If the model error were computed from the same
//! speed-ups that are tested, the coverage would be too high. Therefore each workload is also
//! tested with the root mean square error of the *other* workloads in place of [`MODEL_SPREAD`].

use super::published::mean_and_max;
use interleaf_model::{
    predict::{Estimate, MODEL_SPREAD, Z_OF_INTERVAL},
    statistics,
};
use interleaf_record::reproduce::{Published, ReproduceRow};

/// The title of the section of a study's document that has the coverage rows.
pub(super) const SECTION: &str = "coverage of the 90 % interval";

/// The range of coverages, as fractions, that count as 90 %. The studies have only a few dozen
/// speed-ups, many of the same workload. So few speed-ups cannot distinguish a coverage in this
/// range from 90 %.
const RANGE: (f64, f64) = (0.86, 0.94);

/// The measured speed-up of a workload at some weights, and its predicted speed-up.
pub(super) struct Case {
    pub(super) workload: String,
    pub(super) measured: f64,
    pub(super) ours: Estimate,
    /// True if the model has no term that explains the measured speed-up. Such a case counts for
    /// the coverage, but is left out when the model error is computed.
    pub(super) is_outlier: bool,
}

impl Case {
    fn error(&self) -> f64 {
        self.ours.mean / self.measured - 1.0
    }

    /// True if the measured speed-up lies within the 90 % interval that the prediction would have
    /// with the model error `spread` (a relative standard deviation).
    fn is_covered(&self, spread: f64) -> bool {
        let Estimate { mean, low, high } = self.ours;
        let variance =
            |spread: f64| (Z_OF_INTERVAL * spread * mean) * (Z_OF_INTERVAL * spread * mean);
        let wider = |distance: f64| {
            let of_behaviours = (distance * distance - variance(MODEL_SPREAD)).max(0.0);
            libm::sqrt(of_behaviours + variance(spread))
        };
        (mean - wider(mean - low)..=mean + wider(high - mean)).contains(&self.measured)
    }
}

/// Returns a row with the coverage of `cases`: the fraction whose measured speed-up lies within the
/// predicted interval. The intervals have the model error [`MODEL_SPREAD`].
pub(super) fn row(cases: &[Case]) -> ReproduceRow {
    let covered = cases.iter().filter(|case| case.is_covered(MODEL_SPREAD)).count();
    coverage(format!("{} speed-ups", cases.len()), covered, cases.len())
}

/// Returns the coverage of `cases` as a row, and a remark. The interval of each workload has the
/// root mean square error of the other workloads in place of [`MODEL_SPREAD`]. The remark has the
/// range of these errors.
pub(super) fn left_out(cases: &[Case]) -> (ReproduceRow, String) {
    let mut workloads: Vec<&str> = cases.iter().map(|case| case.workload.as_str()).collect();
    workloads.sort_unstable();
    workloads.dedup();
    let spread_without = |left_out: Option<&str>| {
        let others = workloads.iter().filter(|workload| Some(**workload) != left_out);
        let square = |workload: &&str| {
            let own = cases.iter().filter(|case| case.workload == *workload && !case.is_outlier);
            let squares: Vec<f64> = own.map(|case| case.error() * case.error()).collect();
            statistics::mean(&squares)
        };
        let squares: Vec<f64> = others.map(square).filter(|square| square.is_finite()).collect();
        libm::sqrt(statistics::mean(&squares))
    };
    let covered = |workload: &str| {
        let spread = spread_without(Some(workload));
        let own = cases.iter().filter(|case| case.workload == workload);
        own.filter(|case| case.is_covered(spread)).count()
    };
    let sum = workloads.iter().map(|workload| covered(workload)).sum();
    let errors: Vec<f64> = cases.iter().filter(|case| !case.is_outlier).map(Case::error).collect();
    let (mean, max) = mean_and_max(&errors);
    let spreads: Vec<f64> =
        workloads.iter().map(|workload| 100.0 * spread_without(Some(workload))).collect();
    let spreads = statistics::sorted(spreads);
    let remark = format!(
        "both studies of weights, {} workloads, each with the model's error of the others \
         ({:.1} to {:.1} %; of all {:.1} %, in use {:.1} %): mean error {:.1} %, max {:.1} % over \
         {} speed-ups \
         without the outlier of xcompact3d",
        workloads.len(),
        spreads[0],
        spreads[spreads.len() - 1],
        100.0 * spread_without(None),
        100.0 * MODEL_SPREAD,
        100.0 * mean,
        100.0 * max,
        errors.len(),
    );
    let what = format!("{} speed-ups of both studies, workload left out", cases.len());
    (coverage(what, sum, cases.len()), remark)
}

fn coverage(what: String, covered: usize, of: usize) -> ReproduceRow {
    let range = Published::between(RANGE.0, RANGE.1);
    let row = ReproduceRow::new(SECTION, what, "of 1", range, covered as f64 / of as f64);
    let note = format!("{covered} of {of}; the range is what a 90 % interval should cover");
    row.with_note(note).uncounted()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn case(workload: &str, measured: f64) -> Case {
        let half = Z_OF_INTERVAL * MODEL_SPREAD;
        let ours = Estimate { mean: 1.0, low: 1.0 - half, high: 1.0 + half };
        Case { workload: workload.into(), measured, ours, is_outlier: false }
    }

    #[test]
    fn a_workload_does_not_widen_its_own_interval() {
        // The forecast of workload a is 1 % too low, the forecast of workload b 9.1 %. The interval
        // of a uses the error of b, so it is wide and covers the measured speed-up of a. The
        // interval of b uses the error of a, so it is narrow and does not cover the measured
        // speed-up of b.
        let cases = [case("a", 1.01), case("b", 1.1)];
        let (row, remark) = left_out(&cases);
        assert_eq!(row.ours, 0.5, "{remark}");
        assert_eq!(super::row(&cases).ours, 0.5);
        assert!(remark.contains("(1.0 to 9.1 %"), "{remark}");
    }

    #[test]
    fn an_outlier_counts_for_the_coverage_only() {
        let outlier = Case { is_outlier: true, ..case("a", 1.4) };
        let (row, remark) = left_out(&[case("a", 1.01), outlier, case("b", 1.01)]);
        assert!((row.ours - 2.0 / 3.0).abs() < 1e-3, "{row:?}");
        assert!(remark.contains("max 1.0 % over 2 speed-ups"), "{remark}");
    }
}
