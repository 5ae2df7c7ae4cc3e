//! Limits the rate of a migration.

use std::time::Duration;

/// A rate limiter for pages that migrate in portions, each by one or more calls of `move_pages`.
/// After the start of a portion of `n` bytes, the next portion waits for `n` / rate seconds. Time
/// without migration is not saved up: the rate afterwards stays within the limit.
#[derive(Clone, Debug, Default)]
pub(super) struct Pace {
    /// The limit of the rate, bytes per second; `None` for no limit.
    bytes_per_s: Option<u64>,
    /// The earliest time, on the caller's clock, at which the next portion may begin.
    done: Duration,
}

impl Pace {
    /// Returns a limiter for this rate. A rate of 0 counts as 1 byte per second.
    pub(super) fn new(bytes_per_s: Option<u64>) -> Self {
        Self { bytes_per_s: bytes_per_s.map(|rate| rate.max(1)), done: Duration::ZERO }
    }

    /// Returns the time to wait, from `now` on, before the next portion may migrate.
    pub(super) fn wait(&self, now: Duration) -> Duration {
        self.done.saturating_sub(now)
    }

    /// Counts `bytes`, which a portion that began at `now` has migrated.
    pub(super) fn spend(&mut self, bytes: u64, now: Duration) {
        if let Some(rate) = self.bytes_per_s {
            let seconds = bytes as f64 / rate as f64;
            // Limit the time to 1e9 s: longer than any wait, but small enough for a `Duration`.
            let takes = Duration::try_from_secs_f64(seconds.min(1e9)).unwrap_or_default();
            self.done = self.done.max(now).saturating_add(takes);
        }
    }

    /// Returns the size of the next portion, bytes: as much as the rate allows in a tenth of a
    /// second, but at most `most`. Small portions keep the rate even, and let a stop take effect
    /// soon.
    pub(super) fn portion(&self, most: u64) -> u64 {
        self.bytes_per_s.map_or(most, |rate| (rate / 10).min(most))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_kept() {
        let seconds = Duration::from_secs_f64;
        let mut pace = Pace::new(Some(1000));
        assert_eq!(pace.wait(seconds(5.0)), Duration::ZERO);
        pace.spend(500, seconds(5.0));
        assert_eq!(pace.wait(seconds(5.1)), seconds(0.4));
        pace.spend(500, seconds(5.5));
        assert_eq!(pace.wait(seconds(5.5)), seconds(0.5));
        assert_eq!(pace.wait(seconds(60.0)), Duration::ZERO);
        pace.spend(1000, seconds(60.0));
        assert_eq!(pace.wait(seconds(60.0)), seconds(1.0), "nothing was saved up");
        assert_eq!((pace.portion(10), pace.portion(1 << 20)), (10, 100));
    }

    #[test]
    fn without_a_rate_there_is_no_wait() {
        let mut pace = Pace::new(None);
        pace.spend(u64::MAX, Duration::ZERO);
        assert_eq!((pace.wait(Duration::ZERO), pace.portion(7)), (Duration::ZERO, 7));
        let mut pace = Pace::new(Some(0));
        pace.spend(u64::MAX, Duration::MAX);
        assert!(pace.wait(Duration::ZERO) > Duration::ZERO);
    }
}
