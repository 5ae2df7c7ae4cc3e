//! Simulates a pool of equal units that are taken and returned later: credits, buffers, tags, DMA
//! engines.
//!
//! The time at which units are returned may be known in advance. Such a return waits in a queue,
//! sorted by time, until the next request for units, so the engine needs no event for the return.

use crate::ring::Ring;

/// The base-2 logarithm of a tick in femtoseconds. `Pool::held` counts ticks, because a sum over
/// all units in femtoseconds would overflow within hours.
const TICK: u32 = 10;

#[derive(Clone, Debug)]
pub(crate) struct Pool {
    total: u32,
    free: u32,
    /// The returns of units that are known in advance, in order of time: the time of each return
    /// (fs) and its number of units.
    returns: Ring,
    /// The time at which the last call of [`Pool::take_from`] took units, fs. The units of a later
    /// call are taken at this time or later.
    last: u64,
    /// The sum, over all units, of the ticks for which the unit was taken, modulo 2^64. For each
    /// unit, [`Pool::take`] subtracts the tick of the take, and [`Pool::give`] or
    /// [`Pool::give_now`] adds the tick of the return.
    held: u64,
    /// The total time for which requests waited for units, fs, without the present wait.
    waited: u64,
    /// The start of the present wait, fs; `None` if no request waits.
    waits_since: Option<u64>,
    limited: bool,
}

impl Pool {
    pub(crate) fn new(total: u32, limited: bool) -> Self {
        // Each return has at least one unit, so at most `total` returns wait at once, and a ring of
        // `total` entries never grows. A pool of more than 4096 units begins with a ring of 4096
        // entries, which grows if necessary.
        let returns = Ring::new(total.min(4096) as usize);
        let (last, held, waited, waits_since) = (0, 0, 0, None);
        Self { total, free: total, returns, last, held, waited, waits_since, limited }
    }

    #[inline]
    fn collect(&mut self, now: u64) {
        while let Some((at, units)) = self.returns.front() {
            if at > now {
                break;
            }
            self.free += units as u32;
            self.returns.pop();
        }
    }

    /// Takes `units` units and returns true if they are free at the time `now` (fs). Otherwise
    /// returns false; a wait for units then begins, unless an earlier request waits already.
    #[inline]
    pub(crate) fn take(&mut self, now: u64, units: u32) -> bool {
        if !self.limited {
            return true;
        }
        self.collect(now);
        if self.free < units {
            self.waits_since.get_or_insert(now);
            return false;
        }
        if let Some(since) = self.waits_since.take() {
            self.waited += now - since;
        }
        self.free -= units;
        self.held = self.held.wrapping_sub(u64::from(units) * (now >> TICK));
        true
    }

    /// Gives `units` units back to the pool at the time `now` (fs).
    #[inline]
    pub(crate) fn give_now(&mut self, now: u64, units: u32) {
        if self.limited {
            self.free += units;
            self.held = self.held.wrapping_add(u64::from(units) * (now >> TICK));
        }
    }

    /// Returns the maximum number of units that a request can take at once.
    pub(crate) fn most(&self) -> u32 {
        if self.limited { self.total } else { u32::MAX }
    }

    /// Takes `units` units, at most [`most`](Self::most), at the first time from `now` on at which
    /// they are free and no earlier request waits. Returns that time, fs. All units in use must
    /// have a known time of return.
    #[inline]
    pub(crate) fn take_from(&mut self, now: u64, units: u32) -> u64 {
        // More units than the pool has are never free.
        assert!(units <= self.most(), "{units} units of {}", self.total);
        let mut at = now.max(self.last);
        while !self.take(at, units) {
            at = self.next_return().unwrap_or(at).max(at + 1);
        }
        self.last = at;
        at
    }

    /// Gives `units` units back to the pool at the time `at` (fs), which may be in the future.
    #[inline]
    pub(crate) fn give(&mut self, at: u64, units: u32) {
        if !self.limited {
            return;
        }
        self.held = self.held.wrapping_add(u64::from(units) * (at >> TICK));
        self.returns.push(at, units.into());
    }

    /// Returns the time of the next known return of units, fs; `None` if no return is known.
    pub(crate) fn next_return(&self) -> Option<u64> {
        self.returns.front().map(|(at, _)| at)
    }

    /// Returns the number of units in use at `now`.
    pub(crate) fn in_use(&mut self, now: u64) -> u32 {
        self.collect(now);
        self.total - self.free
    }

    /// Returns the total time, up to `now`, for which requests waited for units, fs. It includes
    /// the present wait.
    pub(crate) fn waited(&self, now: u64) -> u64 {
        self.waited + self.waits_since.map_or(0, |since| now.saturating_sub(since))
    }

    /// Returns the time, up to `now`, for which a unit was in use, fs: the mean over all units.
    pub(crate) fn busy(&self, now: u64) -> u64 {
        let future = |(at, units): (u64, u64)| units * (at.saturating_sub(now) >> TICK);
        let returning: u64 = self.returns.iter().map(|(_, units)| units).sum();
        let used = u64::from(self.total - self.free) - returning;
        let held = self.held.wrapping_add(used * (now >> TICK));
        let held = held.wrapping_sub(self.returns.iter().map(future).sum());
        // Each take and each return is rounded to ticks, so the sum may be slightly below 0, by at
        // most one tick for each unit. A sum below 0 counts as 0.
        let held = if held > u64::MAX / 2 { 0 } else { held };
        (held / u64::from(self.total.max(1))) << TICK
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_return_in_order_of_time() {
        let at = |time: u64| time << TICK;
        let mut pool = Pool::new(4, true);
        assert!(pool.take(at(10), 3) && !pool.take(at(11), 2));
        pool.give(at(30), 1);
        pool.give(at(20), 2);
        assert_eq!((pool.next_return(), pool.in_use(at(19))), (Some(at(20)), 3));
        assert_eq!(pool.take_from(at(15), 4), at(30));
        assert_eq!(pool.in_use(at(30)), 4);
        pool.give(at(40), 4);
        // 2 units are in use for 10 ticks, and 1 unit for 20 ticks. Then all 4 units are in use for
        // 5 ticks (at tick 35) or 10 ticks (at tick 40).
        assert_eq!(pool.busy(at(35)), at((20 + 20 + 20) / 4));
        assert_eq!(pool.busy(at(40)), at((20 + 20 + 40) / 4));
        // The request at tick 11 fails, and that at tick 15 succeeds at 30: one wait from 11 to 30.
        assert_eq!(pool.waited(at(40)), at(30 - 11));
        assert_eq!((pool.in_use(at(39)), pool.in_use(at(40))), (4, 0));
        assert_eq!(pool.busy(at(40)), at((20 + 20 + 40) / 4));
    }

    #[test]
    fn a_later_request_does_not_pass_one_that_waits() {
        let mut pool = Pool::new(4, true);
        let mut request = |now, units, back| {
            let at = pool.take_from(now, units);
            pool.give(back, units);
            (at, pool.in_use(at))
        };
        assert_eq!(request(0, 3, 100), (0, 3));
        assert_eq!(request(5, 2, 200), (100, 2));
        assert_eq!(request(6, 2, 300), (100, 4));
        assert_eq!(request(7, 4, 400), (300, 4));
    }

    #[test]
    #[should_panic(expected = "5 units of 4")]
    fn more_units_than_the_pool_has_are_refused() {
        Pool::new(4, true).take_from(0, 5);
    }

    #[test]
    fn a_pool_without_limit_is_never_empty() {
        let mut pool = Pool::new(1, false);
        assert!(pool.take(0, 5) && pool.take(0, 5));
        assert_eq!((pool.take_from(7, 9), pool.busy(100)), (7, 0));
    }
}
