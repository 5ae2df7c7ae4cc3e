//! Queues the events of the engine in order of time.
//!
//! Most events follow an earlier event after a constant delay, or when a first-in-first-out (FIFO)
//! server finishes. Therefore the events of one kind (such as "a doorbell arrives at the card") are
//! created almost in order of time. Each kind has a *lane*: a queue in order of time. An event that
//! is earlier than the last entry of its lane is inserted before the later entries. Such events are
//! rare. A tournament tree finds the lane with the earliest event. Queueing and removing an event
//! takes some tens of instructions, however many events are pending.

use crate::ring::Ring;

/// Number of lanes (a lane is the queue of one kind of event): a power of two.
pub(crate) const LANES: usize = 16;

/// The time in `EventQueue::first` that marks an empty lane.
const NEVER: u64 = u64::MAX;

/// An event: its time, its lane (kind of event), and the payload that the engine stored with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Event {
    pub(crate) at: u64,
    pub(crate) lane: usize,
    pub(crate) payload: u64,
}

#[derive(Clone, Debug)]
pub(crate) struct EventQueue {
    lanes: [Ring; LANES],
    /// The time of each lane's first event, fs; `NEVER` for an empty lane.
    first: [u64; LANES],
    /// The nodes of the tournament tree. A node contains the index of the lane with the earliest
    /// event of all lanes below the node. Node 1 is the root. The nodes 2n and 2n + 1 are the
    /// children of node n. The lanes 2i and 2i + 1 are below node `LANES / 2 + i`.
    winners: [u8; LANES],
}

impl EventQueue {
    pub(crate) fn new(capacity: usize) -> Self {
        let mut lanes = Self {
            lanes: std::array::from_fn(|_| Ring::new(capacity)),
            first: [NEVER; LANES],
            winners: [0; LANES],
        };
        (0..LANES).for_each(|lane| lanes.set_first(lane, NEVER));
        lanes
    }

    /// Adds an event. Events with equal times in one lane keep the order in which they were added.
    /// Of events with equal times in two lanes, those of the lane with the lower number come first.
    #[inline]
    pub(crate) fn push(&mut self, lane: usize, at: u64, payload: u64) {
        if self.lanes[lane % LANES].push(at, payload) {
            self.set_first(lane % LANES, at);
        }
    }

    /// Returns the time of the next event, fs; `None` if the queue is empty.
    #[inline]
    pub(crate) fn next_at(&self) -> Option<u64> {
        let at = self.first[usize::from(self.winners[1]) % LANES];
        (at != NEVER).then_some(at)
    }

    /// Removes the next event and returns it; `None` if no event has a time up to `until`.
    #[inline]
    pub(crate) fn pop(&mut self, until: u64) -> Option<Event> {
        let lane = usize::from(self.winners[1]) % LANES;
        let at = self.first[lane];
        if at > until || at == NEVER {
            return None;
        }
        let (_, payload) = self.lanes[lane].front()?;
        self.lanes[lane].pop();
        let first = self.lanes[lane].front().map_or(NEVER, |(at, _)| at);
        self.set_first(lane, first);
        Some(Event { at, lane, payload })
    }

    #[inline]
    fn set_first(&mut self, lane: usize, at: u64) {
        self.first[lane] = at;
        let mut winner = self.earlier(lane & !1, lane | 1);
        let mut node = (LANES + lane) / 2;
        self.winners[node] = winner;
        while node > 1 {
            let sibling = self.winners[node ^ 1];
            let (left, right) = if node & 1 == 0 { (winner, sibling) } else { (sibling, winner) };
            winner = self.earlier(left.into(), right.into());
            node /= 2;
            self.winners[node] = winner;
        }
    }

    #[inline]
    fn earlier(&self, left: usize, right: usize) -> u8 {
        let later = self.first[right % LANES] < self.first[left % LANES];
        (if later { right } else { left }) as u8
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn events_come_in_order_of_time(
            events in proptest::collection::vec((0..LANES, 0_u64..50), 1..200),
        ) {
            let mut queue = EventQueue::new(4);
            for (number, (lane, at)) in events.iter().enumerate() {
                queue.push(*lane, *at, number as u64);
            }
            let mut expected: Vec<_> = events.iter().enumerate().collect();
            expected.sort_by_key(|(number, (lane, at))| (*at, *lane, *number));
            for (number, (lane, at)) in expected {
                prop_assert_eq!(queue.next_at(), Some(*at));
                if *at > 0 {
                    prop_assert_eq!(queue.pop(at - 1), None);
                }
                let event = Event { at: *at, lane: *lane, payload: number as u64 };
                prop_assert_eq!(queue.pop(NEVER - 1), Some(event));
            }
            prop_assert_eq!(queue.next_at(), None);
            prop_assert_eq!(queue.pop(NEVER - 1), None);
        }
    }
}
