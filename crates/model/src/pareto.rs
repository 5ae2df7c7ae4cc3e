//! Choices between alternatives with several merits, without converting one merit into another.
//!
//! One alternative *dominates* another if it is at least as good in every merit and better in one.
//! The Pareto front has all alternatives that no other alternative dominates. Whatever a buyer
//! prefers, one of the best alternatives for this buyer is on the front.

/// The merits of an alternative as losses: a lower value is better.
pub type Losses = Vec<f64>;

/// True if `a` dominates `b`: it is at least as good as `b` in each merit, and better in one.
pub fn dominates(a: &Losses, b: &Losses) -> bool {
    let pairs = || a.iter().zip(b);
    pairs().all(|(a, b)| a <= b) && pairs().any(|(a, b)| a < b)
}

/// Returns the Pareto front: the alternatives that no other alternative dominates, as indices into
/// `alternatives`, in rising order.
pub fn front(alternatives: &[Losses]) -> Vec<usize> {
    let is_free = |at: &usize| !alternatives.iter().any(|by| dominates(by, &alternatives[*at]));
    (0..alternatives.len()).filter(is_free).collect()
}

/// Returns the index of the alternative with the lowest `loss`; among alternatives of equal loss,
/// one that no other alternative dominates. `None` if there are no alternatives. `loss` must not
/// fall if a merit worsens.
pub fn best(alternatives: &[Losses], loss: impl Fn(usize) -> f64) -> Option<usize> {
    // If alternative x dominates y, the loss of x is at most the loss of y. Therefore at least one
    // alternative with the lowest loss is on the front.
    front(alternatives).into_iter().min_by(|a, b| loss(*a).total_cmp(&loss(*b)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_front_of_five_alternatives() {
        let all = [[1.0, 4.0], [2.0, 2.0], [3.0, 3.0], [4.0, 1.0], [2.0, 2.0]].map(Vec::from);
        assert_eq!(front(&all), [0, 1, 3, 4]);
        assert_eq!(best(&all, |at| all[at][0] * all[at][1]), Some(0));
        assert_eq!(best(&[], |_| 0.0), None);
    }

    proptest! {
        #[test]
        fn the_best_is_dominated_by_none_and_every_other_by_the_front(
            all in prop::collection::vec(prop::collection::vec(0_u8..6, 3), 1..20),
            weights in prop::collection::vec(0_u8..4, 3),
        ) {
            let all: Vec<Losses> =
                all.into_iter().map(|one| one.into_iter().map(f64::from).collect()).collect();
            // A weight may be 0; its merit then does not change the loss. Equal losses are
            // therefore frequent.
            let loss = |at: usize| -> f64 {
                all[at].iter().zip(&weights).map(|(own, weight)| own * f64::from(*weight)).sum()
            };
            let best = best(&all, loss).unwrap();
            prop_assert!(!all.iter().any(|by| dominates(by, &all[best])));
            prop_assert!((0..all.len()).all(|at| loss(best) <= loss(at)));
            let front = front(&all);
            for at in (0..all.len()).filter(|at| !front.contains(at)) {
                prop_assert!(front.iter().any(|by| dominates(&all[*by], &all[at])));
            }
        }
    }
}
