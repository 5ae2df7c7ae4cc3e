//! Computes the median and the spread of repeated measurements.

use interleaf_model::statistics::{self, quantile};

/// The median and the relative spread of repeated measurements.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    pub median: f64,
    /// The distance between the first and the third quartile, divided by the median; 0 for a median
    /// of 0.
    pub relative: f64,
    /// The number of repetitions.
    pub count: usize,
}

/// Returns the median and the spread of `values`; `None` without values, or if a value is not
/// finite.
pub fn spread(values: &[f64]) -> Option<Spread> {
    if values.is_empty() || values.iter().any(|value| !value.is_finite()) {
        return None;
    }
    let sorted = statistics::sorted(values.to_vec());
    let median = quantile(&sorted, 0.5);
    let apart = quantile(&sorted, 0.75) - quantile(&sorted, 0.25);
    let relative = if median == 0.0 { 0.0 } else { apart / median };
    Some(Spread { median, relative, count: sorted.len() })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;

    #[test]
    fn half_of_all_lie_between_the_quartiles() {
        let of = |values: &[f64]| spread(values).unwrap();
        assert_eq!(of(&[3.0]), Spread { median: 3.0, relative: 0.0, count: 1 });
        assert_eq!(of(&[4.0, 1.0, 2.0, 3.0, 5.0]).median, 3.0);
        assert_eq!(of(&[4.0, 1.0, 2.0, 3.0, 5.0]).relative, 2.0 / 3.0);
        assert_eq!(of(&[1.0, 2.0]).median, 1.5);
        assert_eq!((spread(&[]), spread(&[1.0, f64::NAN])), (None, None));
    }
}
