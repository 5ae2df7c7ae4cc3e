//! Mean and quantiles of samples.
//!
//! Two definitions of a quantile are in use (Hyndman and Fan, "Sample Quantiles in Statistical
//! Packages", 1996). [`quantile`] interpolates between neighbouring values (type 7, the default of
//! R and NumPy), which suits estimates from few values. [`nearest_rank`] returns one of the values
//! (type 1), which suits a percentile of observed samples.

/// Sorts values in ascending order by [`f64::total_cmp`], so that a positive NaN is last.
pub fn sorted(mut values: Vec<f64>) -> Vec<f64> {
    values.sort_by(f64::total_cmp);
    values
}

/// Returns the arithmetic mean; NaN if there are no values.
pub fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// Returns the quantile at `part` (0 to 1) of `sorted` (ascending, not empty), interpolated between
/// neighbouring values.
pub fn quantile(sorted: &[f64], part: f64) -> f64 {
    let at = part * (sorted.len() - 1) as f64;
    let (below, above) = (sorted[at.floor() as usize], sorted[at.ceil() as usize]);
    below + (above - below) * at.fract()
}

/// Returns the median of `values`, the mean of both middle values if their number is even; `None`
/// without values.
pub fn median(values: Vec<f64>) -> Option<f64> {
    let sorted = sorted(values);
    (!sorted.is_empty()).then(|| quantile(&sorted, 0.5))
}

/// Returns the smallest value in `sorted` to which at least the fraction `part` (0 to 1) of all
/// values is equal or smaller; `None` without values. At 0.5 it is the lower median.
pub fn nearest_rank(sorted: &[f64], part: f64) -> Option<f64> {
    let rank = (part * sorted.len() as f64).ceil() as usize;
    sorted.get(rank.clamp(1, sorted.len().max(1)) - 1).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_interpolate() {
        let five = sorted(vec![4.0, 1.0, 2.0, 3.0, 5.0]);
        for (part, expected) in [(0.0, 1.0), (0.25, 2.0), (0.5, 3.0), (0.6, 3.4), (1.0, 5.0)] {
            assert!((quantile(&five, part) - expected).abs() < 1e-12, "{part}");
        }
        assert_eq!((quantile(&[7.0], 0.3), quantile(&[1.0, 2.0], 0.5)), (7.0, 1.5));
        assert_eq!(mean(&five), 3.0);
        assert_eq!((median(vec![4.0, 1.0, 2.0, 3.0]), median(vec![])), (Some(2.5), None));
    }

    #[test]
    fn nearest_ranks_are_values() {
        let ten: Vec<f64> = (1..=10).map(f64::from).collect();
        for (part, expected) in [(0.9, 9.0), (0.91, 10.0), (0.0, 1.0), (1.0, 10.0), (0.5, 5.0)] {
            assert_eq!(nearest_rank(&ten, part), Some(expected), "{part}");
        }
        assert_eq!((nearest_rank(&[], 0.5), nearest_rank(&[1.0, 2.0], 0.5)), (None, Some(1.0)));
    }
}
