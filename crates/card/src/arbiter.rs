//! Arbitrates among submission queues (NVMe 1.1, 4.11): chooses the queue to fetch from next. The
//! engine of the simulated card and the NVMe controller of an emulated card use the arbiter.

use crate::settings::{Arbitration, Priority};

/// The state of the arbitration. The queues of a priority class take turns. Plain round robin is
/// the special case in which all queues are in one class, the urgent class.
#[derive(Clone, Debug)]
pub(crate) struct Arbiter {
    /// The indices of the queues in each class, by descending priority: urgent, high, medium, low.
    classes: [Vec<u16>; 4],
    /// For each class: the position in the list `classes[class]` at which the next search for a
    /// queue with commands begins.
    next: [usize; 4],
    weights: [u32; 3],
    /// The number of commands that arbitration may still take from each weighted class (high,
    /// medium, low) in this round of weighted round robin.
    left: [u32; 3],
}

impl Arbiter {
    pub(crate) fn new(arbitration: &Arbitration, queues: usize) -> Self {
        let mut classes: [Vec<u16>; 4] = Default::default();
        let mut weights = [1; 3];
        for queue in 0..queues {
            let class = match arbitration {
                Arbitration::RoundRobin => Priority::Urgent,
                Arbitration::Weighted { priorities, .. } => {
                    priorities.get(queue).copied().unwrap_or_default()
                }
            };
            classes[class as usize].push(queue as u16);
        }
        if let Arbitration::Weighted { weights: given, .. } = arbitration {
            weights = given.map(|weight| weight.clamp(1, 256));
        }
        Self { classes, next: [0; 4], weights, left: weights }
    }

    /// Chooses the next queue with commands. Returns the index of the queue, and the number of
    /// commands to take, at most `burst` (the arbitration burst); `None` if no queue has commands.
    /// `pending` returns the number of commands that wait in the queue with a given index.
    #[inline]
    pub(crate) fn next(
        &mut self,
        burst: u32,
        pending: impl Fn(usize) -> u32,
    ) -> Option<(usize, u32)> {
        if let Some((queue, count)) = self.of_class(0, &pending) {
            return Some((queue, count.min(burst)));
        }
        if self.classes[1..].iter().all(Vec::is_empty) {
            return None;
        }
        // The first pass finds nothing if each class with commands has used up its weight in this
        // round. A new round then begins, and the second pass searches it.
        for _ in 0..2 {
            for class in 1..4 {
                let left = self.left[class - 1];
                if left == 0 {
                    continue;
                }
                if let Some((queue, count)) = self.of_class(class, &pending) {
                    let count = count.min(burst).min(left);
                    self.left[class - 1] -= count;
                    return Some((queue, count));
                }
            }
            self.left = self.weights;
        }
        None
    }

    #[inline]
    fn of_class(&mut self, class: usize, pending: &impl Fn(usize) -> u32) -> Option<(usize, u32)> {
        let queues = &self.classes[class];
        let mut place = self.next[class];
        for _ in 0..queues.len() {
            let queue = usize::from(queues[place]);
            place = if place + 1 < queues.len() { place + 1 } else { 0 };
            let count = pending(queue);
            if count > 0 {
                self.next[class] = place;
                return Some((queue, count));
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(arbiter: &mut Arbiter, pending: &mut [u32], turns: usize) -> Vec<(usize, u32)> {
        let mut taken = vec![];
        for _ in 0..turns {
            let Some((queue, count)) = arbiter.next(4, |queue| pending[queue]) else { break };
            pending[queue] -= count;
            taken.push((queue, count));
        }
        taken
    }

    #[test]
    fn round_robin_takes_bursts_in_turn() {
        let mut arbiter = Arbiter::new(&Arbitration::RoundRobin, 3);
        let mut pending = [6, 0, 5];
        let expected = [(0, 4), (2, 4), (0, 2), (2, 1)];
        assert_eq!(taken(&mut arbiter, &mut pending, 9), expected);
    }

    #[test]
    fn urgent_queues_precede_and_classes_share_by_weight() {
        let priorities = vec![Priority::Low, Priority::Urgent, Priority::High, Priority::Medium];
        let weights = [8, 3, 1];
        let mut arbiter = Arbiter::new(&Arbitration::Weighted { priorities, weights }, 4);
        let mut pending = [1000, 2, 1000, 1000];
        let order = taken(&mut arbiter, &mut pending, 301);
        assert_eq!(order[0], (1, 2));
        let of = |queue| -> u32 { order.iter().filter(|t| t.0 == queue).map(|t| t.1).sum() };
        assert_eq!((of(2), of(3), of(0)), (600, 225, 75));
    }

    #[test]
    fn a_class_alone_gets_everything() {
        let weights = [1, 1, 1];
        let arbitration = Arbitration::Weighted { priorities: vec![Priority::Low], weights };
        let mut arbiter = Arbiter::new(&arbitration, 1);
        assert_eq!(taken(&mut arbiter, &mut [3], 9), [(0, 1), (0, 1), (0, 1)]);
    }
}
