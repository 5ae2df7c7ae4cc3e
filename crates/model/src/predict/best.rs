//! Finds the best of many weights without predicting all of them.

use super::Row;
use crate::weights::Weights;
use std::collections::BTreeMap;

/// Speed-ups that differ by at most this fraction count as equal.
const EQUAL: f64 = 1e-6;

/// Number of weights that are predicted in one call of `predict`, so that several threads have
/// work.
const TOGETHER: usize = 16;

/// Returns the index of the best row among the rows whose pages fit into the tiers: the row with
/// the highest mean speed-up. Among rows of equal speed-up, it is the row with the largest share on
/// the first tier, and among these the first row. `None` if no row's pages fit.
pub(super) fn best_of<'a>(rows: impl Iterator<Item = &'a Row> + Clone) -> Option<usize> {
    let fitting = || rows.clone().enumerate().filter(|(_, row)| row.too_small.is_none());
    let most = fitting().map(|(_, row)| row.speedup.mean).fold(f64::NEG_INFINITY, f64::max);
    let first_share = |row: &Row| row.weights.shares()[0];
    let equals = fitting().filter(|(_, row)| row.speedup.mean >= most - EQUAL * most.abs());
    let best = equals.reduce(
        |best, other| {
            if first_share(other.1) > first_share(best.1) { other } else { best }
        },
    );
    best.map(|(at, _)| at)
}

/// Groups `weights` by the set of tiers that they use, and returns the best row of each set, in the
/// order of `weights`. The returned rows are those of an exhaustive search, but weights with a low
/// upper bound are not predicted.
///
/// - `at_most` has, for each of `weights`, an upper bound of the mean speed-up, or `None` if the
///   pages do not fit into the tiers with these weights.
/// - `predict` returns a row for each of the given weights.
/// - `done` is called after each set with the number of weights in the set.
///
/// If no weights of a set fit, the result has a row for this set only if the set is a single tier.
///
/// # Errors
/// The first error of `predict`.
pub fn best_of_each_set<E>(
    weights: &[Weights],
    at_most: &[Option<f64>],
    mut predict: impl FnMut(&[&Weights]) -> Result<Vec<Row>, E>,
    mut done: impl FnMut(usize),
) -> Result<Vec<Row>, E> {
    let mut sets: BTreeMap<Vec<bool>, Vec<usize>> = BTreeMap::new();
    for (at, own) in weights.iter().enumerate() {
        let used = own.as_slice().iter().map(|weight| *weight > 0).collect();
        sets.entry(used).or_default().push(at);
    }
    let mut best: Vec<(usize, Row)> = vec![];
    for set in sets.into_values() {
        let limit = |at: &usize| at_most[*at].unwrap_or(f64::NEG_INFINITY);
        let single = |at: &usize| weights[*at].one_tier();
        let mut open: Vec<usize> =
            set.iter().copied().filter(|at| single(at) || at_most[*at].is_some()).collect();
        open.sort_by(|a, b| limit(b).total_cmp(&limit(a)));
        let mut rows: Vec<(usize, Row)> = vec![];
        let mut most = f64::NEG_INFINITY;
        while !open.is_empty() {
            let next = open.split_off(open.len().min(TOGETHER));
            let now = std::mem::replace(&mut open, next);
            let own: Vec<&Weights> = now.iter().map(|at| &weights[*at]).collect();
            rows.extend(now.into_iter().zip(predict(&own)?));
            let fitting = rows.iter().filter(|(_, row)| row.too_small.is_none());
            most = fitting.map(|(_, row)| row.speedup.mean).fold(most, f64::max);
            open.retain(|at| limit(at) >= least_bound(most));
        }
        rows.sort_by_key(|(at, _)| *at);
        let own = best_of(rows.iter().map(|(_, row)| row));
        if let Some(own) = own.or((rows.len() == 1).then_some(0)) {
            best.push(rows.swap_remove(own));
        }
        done(set.len());
    }
    best.sort_by_key(|(at, _)| *at);
    Ok(best.into_iter().map(|(_, row)| row).collect())
}

/// Returns the lowest upper bound at which weights may still be as good as the weights with the
/// known speed-up `most`. The margin below `most` is twice `EQUAL`: once because bound and speed-up
/// are summed in different orders and rounded differently, and once because close speed-ups count
/// as equal.
fn least_bound(most: f64) -> f64 {
    most - 2.0 * EQUAL * most.abs()
}

/// Predicts those of `weights` that can have the highest speed-up, also if their pages do not fit
/// into the tiers, and returns their rows in the order of `weights`. `at_most` returns an upper
/// bound of the speed-up; weights with an infinite bound are always predicted.
pub fn rows_near_best(
    weights: &[&Weights],
    at_most: impl Fn(&Weights) -> f64,
    row: impl Fn(&Weights) -> Row,
) -> Vec<Row> {
    let bounds: Vec<f64> = weights.iter().map(|own| at_most(own)).collect();
    let mut open: Vec<usize> = (0..weights.len()).collect();
    open.sort_by(|a, b| bounds[*b].total_cmp(&bounds[*a]));
    let mut most = f64::NEG_INFINITY;
    let mut rows = vec![];
    for at in open {
        if bounds[at] < least_bound(most) {
            break;
        }
        let own = row(weights[at]);
        most = most.max(own.speedup.mean);
        rows.push((at, own));
    }
    rows.sort_by_key(|(at, _)| *at);
    rows.into_iter().map(|(_, row)| row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::predict::Estimate;
    use proptest::prelude::*;

    fn row(weights: &Weights, speedup: f64) -> Row {
        Row {
            weights: weights.clone(),
            bandwidth_gbps: Estimate::exact(speedup),
            tier_bandwidth_gbps: vec![],
            tier_latency_ns: vec![],
            latency_ns: 100.0,
            result: None,
            speedup: Estimate::exact(speedup),
            too_small: None,
            extrapolated: vec![],
        }
    }

    proptest! {
        /// Asserts that [`rows_near_best`] returns every row that has the highest speed-up.
        #[test]
        fn no_row_of_the_highest_speedup_is_left_out(
            cases in prop::collection::vec((0..20u32, 0..10u32), 65),
        ) {
            let weights = Weights::every_ratio(2, 10);
            let weights: Vec<&Weights> = weights.iter().collect();
            let case = |own: &Weights| {
                let at = weights.iter().position(|other| *other == own).unwrap();
                let (speedup, above) = cases[at];
                (f64::from(speedup), f64::from(speedup + above))
            };
            let rows = rows_near_best(&weights, |own| case(own).1, |own| row(own, case(own).0));
            let most = cases.iter().map(|(speedup, _)| *speedup).max().unwrap();
            let best = weights.iter().filter(|own| case(own).0 == f64::from(most));
            let found = rows.iter().filter(|row| row.speedup.mean == f64::from(most));
            prop_assert!(best.copied().eq(found.map(|row| &row.weights)));
        }

        /// The upper bounds are equal to the speed-ups, or above them by up to 0.9. Asserts that
        /// the result equals the result of an exhaustive search.
        #[test]
        fn finds_what_an_exhaustive_search_finds(
            cases in prop::collection::vec((0..20u32, 0..10u32, prop::bool::weighted(0.9)), 65),
        ) {
            let weights = Weights::every_ratio(4, 2);
            let case = |at: usize| cases[at % cases.len()];
            let speedup = |at: usize| 1.0 + f64::from(case(at).0) / 10.0;
            let fits = |at: usize| case(at).2;
            let of = |own: &Weights| {
                let at = weights.iter().position(|other| other == own).unwrap();
                Row { too_small: (!fits(at)).then_some(0), ..row(own, speedup(at)) }
            };
            let at_most = |at: usize| fits(at).then(|| speedup(at) + f64::from(case(at).1) / 10.0);
            let at_most: Vec<Option<f64>> = (0..weights.len()).map(at_most).collect();
            let mut decided = 0;
            let found = best_of_each_set(
                &weights,
                &at_most,
                |some| Ok::<_, ()>(some.iter().map(|own| of(own)).collect()),
                |more| decided += more,
            ).unwrap();
            prop_assert_eq!(decided, weights.len());

            let all: Vec<Row> = weights.iter().map(of).collect();
            let best = |rows: &[Row]| best_of(rows.iter()).map(|at| rows[at].weights.clone());
            prop_assert_eq!(best(&found), best(&all));
            let used = |row: &Row| -> Vec<bool> {
                row.weights.as_slice().iter().map(|weight| *weight > 0).collect()
            };
            for row in &found {
                let of_set = all.iter().filter(|other| used(other) == used(row));
                let set: Vec<Row> = of_set.cloned().collect();
                let expected = best(&set).unwrap_or_else(|| row.weights.clone());
                prop_assert_eq!(&expected, &row.weights);
            }
        }
    }

    #[test]
    fn weights_below_the_best_are_not_predicted() {
        let weights = Weights::every_ratio(2, 10);
        let speedup = |own: &Weights| 2.0 - (own.shares()[0] - 0.7).abs();
        let at_most: Vec<Option<f64>> = weights.iter().map(|own| Some(speedup(own))).collect();
        let mut predicted = 0;
        let rows = best_of_each_set(
            &weights,
            &at_most,
            |some| {
                predicted += some.len();
                Ok::<_, ()>(some.iter().map(|own| row(own, speedup(own))).collect())
            },
            |_| (),
        );
        let rows: Vec<String> = rows.unwrap().iter().map(|row| row.weights.to_string()).collect();
        assert_eq!(rows, ["1:0", "7:3", "0:1"]);
        assert_eq!(predicted, TOGETHER + 2, "of {}", weights.len());
    }
}
