//! Implements a queue in a ring, for timed entries that are added almost in order of time.
//!
//! An insertion moves only the entries that are later than the new entry, usually none.

/// A queue of entries, each with a time and a value of 64 bits.
#[derive(Clone, Debug)]
pub(crate) struct Ring {
    /// The slots of the ring, each with a time and a value. The number of slots is a power of two,
    /// so that a mask computes the index of a slot.
    entries: Vec<(u64, u64)>,
    head: usize,
    count: usize,
}

impl Ring {
    /// Creates an empty ring with room for `capacity` entries. The ring grows when it is full.
    pub(crate) fn new(capacity: usize) -> Self {
        let entries = vec![(0, 0); capacity.next_power_of_two().max(2)];
        Self { entries, head: 0, count: 0 }
    }

    #[inline]
    fn at(&self, place: usize) -> usize {
        self.head.wrapping_add(place) & (self.entries.len() - 1)
    }

    #[inline]
    pub(crate) fn front(&self) -> Option<(u64, u64)> {
        (self.count > 0).then(|| self.entries[self.head & (self.entries.len() - 1)])
    }

    #[inline]
    pub(crate) fn pop(&mut self) {
        if self.count > 0 {
            self.head = self.head.wrapping_add(1);
            self.count -= 1;
        }
    }

    /// Adds an entry in order of time, after the entries with an equal time. Returns true if the
    /// new entry is the first of the ring.
    #[inline]
    pub(crate) fn push(&mut self, time: u64, value: u64) -> bool {
        if self.count == self.entries.len() {
            self.grow();
        }
        let mut place = self.count;
        while place > 0 {
            let before = self.entries[self.at(place - 1)];
            if before.0 <= time {
                break;
            }
            let to = self.at(place);
            self.entries[to] = before;
            place -= 1;
        }
        let to = self.at(place);
        self.entries[to] = (time, value);
        self.count += 1;
        place == 0
    }

    /// Returns all entries, in order of time.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        (0..self.count).map(|place| self.entries[self.at(place)])
    }

    #[cold]
    fn grow(&mut self) {
        let mut larger: Vec<(u64, u64)> = self.iter().collect();
        larger.resize(2 * self.entries.len(), (0, 0));
        (self.entries, self.head) = (larger, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_in_order_of_time_and_then_of_arrival() {
        let mut ring = Ring::new(2);
        let times = [5, 7, 7, 6, 9, 5, 1];
        let first = times.iter().enumerate().map(|(value, time)| ring.push(*time, value as u64));
        assert_eq!(first.filter(|first| *first).count(), 2);
        let all: Vec<_> = ring.iter().collect();
        assert_eq!(all, [(1, 6), (5, 0), (5, 5), (6, 3), (7, 1), (7, 2), (9, 4)]);
        for expected in all {
            assert_eq!(ring.front(), Some(expected));
            ring.pop();
        }
        assert_eq!(ring.front(), None);
    }
}
