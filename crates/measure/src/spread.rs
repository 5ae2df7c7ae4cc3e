//! The median and the spread of repetitions.

/// The middle of repeats, and how far they are apart.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    /// The median.
    pub median: f64,
    /// The distance of the quartiles, divided by the median: half of all repeats are that close.
    pub relative: f64,
    /// The number of repetitions.
    pub count: usize,
}

/// The middle of `values`; `None` of none, or where one of them is not a finite number.
pub fn spread(values: &[f64]) -> Option<Spread> {
    if values.is_empty() || values.iter().any(|value| !value.is_finite()) {
        return None;
    }
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let median = quantile(&sorted, 0.5);
    let apart = quantile(&sorted, 0.75) - quantile(&sorted, 0.25);
    let relative = if median == 0.0 { 0.0 } else { apart / median };
    Some(Spread { median, relative, count: sorted.len() })
}

/// The value below which a part `p` of `sorted` lies, between neighbours in proportion (type 7 of
/// Hyndman and Fan, "Sample Quantiles in Statistical Packages", 1996).
pub(crate) fn quantile(sorted: &[f64], p: f64) -> f64 {
    let at = p * (sorted.len() - 1) as f64;
    let (below, above) = (sorted[at.floor() as usize], sorted[at.ceil() as usize]);
    below + (above - below) * at.fract()
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
