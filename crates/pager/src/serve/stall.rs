//! Measures the stall time: the time for which threads wait for pages.

use interleaf_prefetch::page::Page;
use std::{
    collections::BTreeMap,
    ops::Range,
    time::{Duration, Instant},
};

/// Minimum length of a period. For each period, [`Stalls::end_period`] returns the stall time
/// divided by the length of the period.
const PERIOD: Duration = Duration::from_secs(1);

/// The waits of threads for pages, and the total stall time.
#[derive(Debug, Default)]
pub(crate) struct Stalls {
    /// The start of each thread's wait, keyed by the page that the thread waits for.
    waiting: BTreeMap<Page, Vec<Instant>>,
    total: Duration,
    /// The start of the current period, and the total stall time at that start. The total includes
    /// the waits in progress, except at the start of the first period.
    period: Option<(Instant, Duration)>,
}

impl Stalls {
    /// Notes that a thread begins to wait for a page.
    pub(crate) fn begin(&mut self, page: Page, now: Instant) {
        self.waiting.entry(page).or_default().push(now);
    }

    /// Ends the waits of all threads for `pages`.
    pub(crate) fn end(&mut self, pages: Range<Page>) {
        let mut now = None;
        while let Some((&page, _)) = self.waiting.range(pages.clone()).next() {
            let now = *now.get_or_insert_with(Instant::now);
            for since in self.waiting.remove(&page).into_iter().flatten() {
                self.total += now.saturating_duration_since(since);
            }
        }
    }

    pub(crate) fn is_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// The sum of the lengths of all waits that have ended.
    pub(crate) const fn total(&self) -> Duration {
        self.total
    }

    /// Ends the current period if it has lasted for a second. Returns the stall time in the period
    /// divided by the length of the period: 1 if one thread has waited all the time. Waits that
    /// have not ended are included. `None` if the period has not lasted for a second.
    pub(crate) fn end_period(&mut self, now: Instant) -> Option<f64> {
        let (began, before) = *self.period.get_or_insert((now, self.total));
        let time = now.saturating_duration_since(began);
        if time < PERIOD {
            return None;
        }
        let waits = self.waiting.values().flatten();
        let ongoing = waits.map(|since| now.saturating_duration_since(*since));
        let stalled = self.total + ongoing.sum::<Duration>();
        self.period = Some((now, stalled));
        Some(stalled.saturating_sub(before).div_duration_f64(time))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_period_reports_the_share_of_its_stalls() {
        let (mut stalls, began) = (Stalls::default(), Instant::now());
        let at = |seconds: f64| began + Duration::from_secs_f64(seconds);
        assert_eq!(stalls.end_period(at(0.0)), None);
        stalls.begin(7, at(0.5));
        assert_eq!(stalls.end_period(at(0.9)), None);
        assert_eq!(stalls.end_period(at(2.0)), Some(0.75), "not ended yet");
    }

    #[test]
    fn the_time_of_each_counts_once() {
        let mut stalls = Stalls::default();
        let second = Duration::from_secs(1);
        let began = Instant::now() - second;
        stalls.begin(7, began);
        stalls.begin(7, began);
        stalls.begin(9, began);
        stalls.end(0..8);
        let (two, passed) = (stalls.total(), began.elapsed());
        assert!((2 * second..=2 * passed).contains(&two), "{two:?} in {passed:?}");
        stalls.end(0..8);
        assert_eq!(stalls.total(), two);
        assert!(!stalls.waiting.is_empty());
        stalls.end(9..10);
        assert!(stalls.total() >= two + second);
        assert!(stalls.waiting.is_empty());
    }
}
