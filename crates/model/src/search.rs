//! The best way to divide a hundred points among tiers.

/// Steps of the first search, in points.
const COARSE: u16 = 5;

/// Points of a hundred for each of `tiers` tiers with the highest score: all in steps of five
/// points are tried, and from the best of them the search climbs in steps of one. `score` is `None`
/// where points are not allowed; so is the answer when none are.
///
/// Among points with the same score the first tier gets the most.
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
    for parts in compositions(100 / COARSE, tiers) {
        consider(parts.into_iter().map(|part| COARSE * part).collect(), &mut best);
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

/// The ways to divide `sum` among `parts`, from the most for the first.
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
    fn every_composition_once() {
        assert_eq!(compositions(20, 3).len(), 231);
        assert_eq!(compositions(2, 2), [[2, 0], [1, 1], [0, 2]]);
    }
}
