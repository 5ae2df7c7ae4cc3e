//! Divides a budget evenly among processes. If a process cannot use its whole even share, the rest
//! of the share goes to the processes that can use more.

/// Returns the share of each process in `budget`, pages. `wanted[n]` is the maximum number of pages
/// that process n can use. The pages of its even share that a process cannot use are divided among
/// the other processes (max-min fairness: Bertsekas and Gallager, Data Networks, section 6.5.2).
/// Pages that no process can use are divided evenly.
pub fn share(budget: u64, wanted: &[u64]) -> Vec<u64> {
    let mut order: Vec<usize> = (0..wanted.len()).collect();
    order.sort_by_key(|at| wanted[*at]);
    let mut shares = vec![0; wanted.len()];
    let mut left = budget;
    for (done, at) in order.iter().enumerate() {
        let even = left / (wanted.len() - done) as u64;
        shares[*at] = wanted[*at].min(even);
        left -= shares[*at];
    }
    for (done, share) in shares.iter_mut().enumerate() {
        let even = left / (wanted.len() - done) as u64;
        *share += even;
        left -= even;
    }
    shares
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_unneeded_part_of_a_share_is_divided() {
        assert_eq!(share(100, &[10, 200, 30]), [10, 60, 30]);
        assert_eq!(share(100, &[200]), [100]);
        assert_eq!(share(100, &[20]), [100]);
        assert_eq!(share(100, &[20, 40]), [40, 60]);
        assert_eq!(share(100, &[]), [0; 0]);
        assert_eq!(share(3, &[9, 9]), [1, 2]);
    }

    proptest! {
        #[test]
        fn the_whole_budget_is_divided_and_no_share_is_below_an_even_one(
            budget in 0_u64..1 << 40,
            wanted in proptest::collection::vec(0_u64..1 << 40, 1..50),
        ) {
            let shares = share(budget, &wanted);
            let all: u64 = shares.iter().sum();
            prop_assert_eq!(all, budget);
            let is_plenty = budget >= wanted.iter().sum();
            let even = budget / wanted.len() as u64;
            for (share, wanted) in shares.iter().zip(&wanted) {
                prop_assert!(*share >= even.min(*wanted) && (is_plenty || share <= wanted));
            }
        }
    }
}
