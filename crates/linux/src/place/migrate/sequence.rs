//! Turns: a fair sequence of whole things in a ratio, in which no one is ever a whole turn early or
//! late.
//!
//! For 3:2 it is 0 1 0 0 1, and again. After any number of turns each has had its share of them,
//! rounded up or down. Rounding shares of each stretch by itself does not give that, nor does
//! giving the next turn to whom most is due when there are more than two; taking turns by deadline
//! does (earliest deadline first among those whose time has come: Liu and Layland 1973; that the
//! shares can be kept to less than one is Baruah et al., "Proportionate progress", 1996).

use interleaf_model::weights::gcd;

/// A sequence of turns in a ratio of weights. It is the same each time, and repeats itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Sequence {
    /// Without common divisor.
    weights: Vec<u64>,
    /// Their sum, and so the turns until it repeats itself; below 2^32.
    period: u64,
    /// Turns since it last began.
    turns: u64,
    /// Those of each.
    had: Vec<u64>,
}

impl Sequence {
    /// A sequence for weights of which at least one is not zero, and whose sum is below 2^32: then
    /// no product here is above 64 bits.
    pub(crate) fn new(weights: &[u64]) -> Self {
        let divisor = weights.iter().copied().fold(0, gcd).max(1);
        let weights: Vec<u64> = weights.iter().map(|weight| weight / divisor).collect();
        let period: u64 = weights.iter().sum();
        assert!(period > 0 && period <= u64::from(u32::MAX), "weights of a sequence");
        Self { had: vec![0; weights.len()], weights, period, turns: 0 }
    }

    /// Whose turn it is.
    pub(crate) fn turn(&mut self) -> usize {
        let turn = self.turns + 1;
        let waiting = self.weights.iter().zip(&self.had).enumerate();
        // Its next turn is due as soon as its share of all turns is above those it has had, and
        // before the share reaches one more.
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

    /// Takes `count` turns, and adds to `counts` how many of them each had.
    pub(crate) fn count_turns(&mut self, count: u64, counts: &mut [u64]) {
        for (counted, weight) in counts.iter_mut().zip(&self.weights) {
            *counted += weight * (count / self.period);
        }
        for _ in 0..count % self.period {
            counts[self.turn()] += 1;
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
        let turns: Vec<usize> = (0..10).map(|_| sequence.turn()).collect();
        assert_eq!(turns, [0, 1, 0, 0, 1, 0, 1, 0, 0, 1]);
        let mut sequence = Sequence::new(&[0, 3, 1]);
        let turns: Vec<usize> = (0..8).map(|_| sequence.turn()).collect();
        assert_eq!(turns, [1, 1, 1, 2, 1, 1, 1, 2]);
    }

    fn weights() -> impl Strategy<Value = Vec<u64>> {
        let some = |weights: &Vec<u64>| weights.iter().sum::<u64>() > 0;
        let range = prop_oneof![Just(0), 1..12_u64, 1..100_000_000_u64];
        prop::collection::vec(range, 1..12).prop_filter("all zero", some)
    }

    proptest! {
        /// After any number of turns, nobody is a whole turn early or late.
        #[test]
        fn shares_are_kept(weights in weights()) {
            let sum: u64 = weights.iter().sum();
            let mut sequence = Sequence::new(&weights);
            let mut had = vec![0_u64; weights.len()];
            for turn in 1..=500 {
                had[sequence.turn()] += 1;
                for (had, weight) in had.iter().zip(&weights) {
                    prop_assert!((had * sum).abs_diff(turn * weight) < sum);
                }
            }
        }

        /// Many turns at once are the same as one after the other.
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
                    taken[singly.turn()] -= 1;
                }
                prop_assert!(taken.iter().all(|left| *left == 0));
                prop_assert_eq!(&at_once, &singly);
            }
        }
    }
}
