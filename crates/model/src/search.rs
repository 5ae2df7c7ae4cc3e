//! Searches for the best division of a workload's pages among tiers, in whole percentage points.

/// Possible step sizes of the first, coarse search over all divisions of the pages among tiers, in
/// percentage points; the finest step is first.
const COARSE: [u16; 5] = [5, 10, 20, 25, 50];

/// Maximum number of divisions of the pages that the coarse search tries. It uses the finest step
/// of `COARSE` that needs at most this number of tries.
const TRIES_MAX: u64 = 60_000;

/// Returns the division of 100 percentage points among `tiers` tiers with the highest score, and
/// this score. A first, coarse search tries all divisions in steps of five points (larger steps
/// with more than six tiers). A second search climbs in steps of one point from the best coarse
/// division. `score` returns `None` for a division that is not allowed. The result is `None` if the
/// coarse search finds no allowed division.
///
/// Among divisions of the coarse search with the same score, the division with the most points on
/// the first tier wins.
pub fn best_points(
    tiers: usize,
    mut score: impl FnMut(&[u16]) -> Option<f64>,
) -> Option<(Vec<u16>, f64)> {
    let mut best: Option<(Vec<u16>, f64)> = None;
    let mut consider = |points: Vec<u16>, best: &mut Option<(Vec<u16>, f64)>| {
        let Some(score) = score(&points) else { return false };
        let better =
            best.as_ref().is_none_or(|(_, most)| score > most + 1e-9 * most.abs().max(1e-3));
        if better {
            *best = Some((points, score));
        }
        better
    };
    let few = |step: &u16| tries(100 / step, tiers) <= TRIES_MAX;
    let step = COARSE.into_iter().find(few).unwrap_or(100);
    for parts in compositions(100 / step, tiers) {
        consider(parts.into_iter().map(|part| step * part).collect(), &mut best);
    }
    loop {
        let (from, _) = best.clone()?;
        let mut rose = false;
        for (a, b) in (0..tiers).flat_map(|a| (0..tiers).map(move |b| (a, b))) {
            if a != b && from[a] > 0 {
                let mut points = from.clone();
                points[a] -= 1;
                points[b] += 1;
                rose |= consider(points, &mut best);
            }
        }
        if !rose {
            return best;
        }
    }
}

/// Returns the number of ways to divide `sum` points among `parts` tiers: the binomial coefficient
/// of `parts + sum - 1` over `sum`.
fn tries(sum: u16, parts: usize) -> u64 {
    let parts = parts.max(1) as u64;
    (1..=u64::from(sum)).fold(1, |ways: u64, n| ways.saturating_mul(parts + n - 1) / n)
}

/// Returns all ways to divide `sum` points among `parts` tiers, in falling order of the points of
/// the first tier.
fn compositions(sum: u16, parts: usize) -> Vec<Vec<u16>> {
    if parts <= 1 {
        return vec![vec![sum]; parts];
    }
    let rest = |first: u16| {
        compositions(sum - first, parts - 1).into_iter().map(move |mut rest| {
            rest.insert(0, first);
            rest
        })
    };
    (0..=sum).rev().flat_map(rest).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_top_of_a_hill() {
        let hill = |points: &[u16]| {
            let far =
                |at: usize, top: f64| (f64::from(points[at]) - top) * (f64::from(points[at]) - top);
            Some(-far(0, 63.0) - far(1, 26.0))
        };
        assert_eq!(best_points(3, hill).map(|(points, _)| points), Some(vec![63, 26, 11]));
        assert_eq!(best_points(1, |_| Some(1.0)).map(|(points, _)| points), Some(vec![100]));
        let flat = best_points(2, |_| Some(1.0));
        assert_eq!(flat.map(|(points, _)| points), Some(vec![100, 0]));
        let bounded = |points: &[u16]| (points[0] <= 40).then(|| f64::from(points[0]));
        assert_eq!(best_points(2, bounded).map(|(points, _)| points), Some(vec![40, 60]));
        assert_eq!(best_points(2, |_| None), None);
    }

    #[test]
    fn many_tiers_are_searched_in_coarser_steps() {
        let mut tried = 0;
        let best = best_points(16, |points| {
            tried += 1;
            Some(f64::from(points[3].min(70)) + f64::from(points[9].min(30)))
        });
        let (points, _) = best.unwrap();
        assert_eq!((points[3], points[9]), (70, 30));
        assert!(tried < 60_000, "{tried}");
    }

    #[test]
    fn every_composition_once() {
        assert_eq!(compositions(20, 3).len(), 231);
        for (sum, parts) in [(20, 1), (20, 3), (20, 5), (10, 7), (4, 16)] {
            assert_eq!(compositions(sum, parts).len() as u64, tries(sum, parts));
        }
        assert_eq!(compositions(2, 2), [[2, 0], [1, 1], [0, 2]]);
    }
}
