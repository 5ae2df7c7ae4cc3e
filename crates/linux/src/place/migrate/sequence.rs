//! A fair sequence of members (the nodes of a plan) in an integer ratio. At any time, the number of
//! turns that a member has had differs from the member's exact share of all turns by less than one.
//!
//! For 3:2 the sequence is 0 1 0 0 1, repeated. Two simpler methods are not fair in this sense. One
//! rounds the shares of each range of pages separately, so the rounding errors add up. The other
//! gives the next turn to the member with the largest deficit, and fails with more than two
//! members. This module uses earliest deadline first among the eligible members (see
//! [`Sequence::next_member`]). Its error stays below one turn (Liu and Layland 1973; Baruah et al.,
//! "Proportionate progress", 1996).

use interleaf_model::weights::gcd;

/// A sequence that gives turns to members (the nodes of a plan) in the ratio of their weights. It
/// is deterministic and periodic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Sequence {
    /// The weights of the members, divided by their greatest common divisor.
    weights: Vec<u64>,
    /// The sum of `weights`, which is the period; below 2^32.
    period: u64,
    /// The number of turns since the period of the sequence began.
    turns: u64,
    /// The number of turns that each member (node) has had in this period.
    had: Vec<u64>,
}

impl Sequence {
    /// Returns a sequence for `weights`. At least one weight must be above zero. The sum must be
    /// below 2^32, so that products of weights and turns fit into 64 bits.
    pub(crate) fn new(weights: &[u64]) -> Self {
        let divisor = weights.iter().copied().fold(0, gcd).max(1);
        let weights: Vec<u64> = weights.iter().map(|weight| weight / divisor).collect();
        let period: u64 = weights.iter().sum();
        assert!(period > 0 && period <= u64::from(u32::MAX), "weights of a sequence");
        Self { had: vec![0; weights.len()], weights, period, turns: 0 }
    }

    /// Advances by one turn, and returns the index of the member (node) whose turn it is.
    pub(crate) fn next_member(&mut self) -> usize {
        let turn = self.turns + 1;
        let waiting = self.weights.iter().zip(&self.had).enumerate();
        // A member has had `had` turns. It is eligible if its share of all turns, this turn
        // included, exceeds `had`. Its deadline is the turn at which its share reaches `had + 1`.
        let due = waiting.filter(|(_, (weight, had))| **had * self.period < turn * **weight);
        let deadline = |(at, (weight, had)): (usize, (&u64, &u64))| {
            (((had + 1) * self.period).div_ceil(*weight), at)
        };
        let (_, next) = due.map(deadline).min().expect("in each turn someone is due");
        self.had[next] += 1;
        self.turns = turn;
        if turn == self.period {
            self.turns = 0;
            self.had.fill(0);
        }
        next
    }

    /// Advances by `count` turns, and adds the number of turns of each member to `counts`.
    pub(crate) fn count_turns(&mut self, count: u64, counts: &mut [u64]) {
        for (counted, weight) in counts.iter_mut().zip(&self.weights) {
            *counted += weight * (count / self.period);
        }
        for _ in 0..count % self.period {
            counts[self.next_member()] += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn turns_are_spread() {
        let mut sequence = Sequence::new(&[60, 40]);
        let turns: Vec<usize> = (0..10).map(|_| sequence.next_member()).collect();
        assert_eq!(turns, [0, 1, 0, 0, 1, 0, 1, 0, 0, 1]);
        let mut sequence = Sequence::new(&[0, 3, 1]);
        let turns: Vec<usize> = (0..8).map(|_| sequence.next_member()).collect();
        assert_eq!(turns, [1, 1, 1, 2, 1, 1, 1, 2]);
    }

    fn weights() -> impl Strategy<Value = Vec<u64>> {
        let some = |weights: &Vec<u64>| weights.iter().sum::<u64>() > 0;
        let range = prop_oneof![Just(0), 1..12_u64, 1..100_000_000_u64];
        prop::collection::vec(range, 1..12).prop_filter("all zero", some)
    }

    proptest! {
        /// After any number of turns, the number of turns of each member differs from the member's
        /// exact share by less than one turn.
        #[test]
        fn shares_are_kept(weights in weights()) {
            let sum: u64 = weights.iter().sum();
            let mut sequence = Sequence::new(&weights);
            let mut had = vec![0_u64; weights.len()];
            for turn in 1..=500 {
                had[sequence.next_member()] += 1;
                for (had, weight) in had.iter().zip(&weights) {
                    prop_assert!((had * sum).abs_diff(turn * weight) < sum);
                }
            }
        }

        /// Advancing by many turns at once gives each member as many turns as advancing turn by
        /// turn.
        #[test]
        fn many_turns_are_turns(
            weights in weights(),
            counts in prop::collection::vec(0..300_u64, 5),
        ) {
            let (mut at_once, mut singly) = (Sequence::new(&weights), Sequence::new(&weights));
            for count in counts {
                let mut taken = vec![0; weights.len()];
                at_once.count_turns(count, &mut taken);
                for _ in 0..count {
                    taken[singly.next_member()] -= 1;
                }
                prop_assert!(taken.iter().all(|left| *left == 0));
                prop_assert_eq!(&at_once, &singly);
            }
        }
    }
}
