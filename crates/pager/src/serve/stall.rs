//! Accounts the time for which threads wait for pages.

use crate::page::Page;
use std::{
    collections::BTreeMap,
    ops::Range,
    time::{Duration, Instant},
};

/// Threads that wait, and the total stall time.
#[derive(Debug, Default)]
pub(crate) struct Stalls {
    /// The start of each thread's wait, by the page that it waits for.
    waiting: BTreeMap<Page, Vec<Instant>>,
    total: Duration,
}

impl Stalls {
    /// A thread begins to wait for a page.
    pub(crate) fn begin(&mut self, page: Page, now: Instant) {
        self.waiting.entry(page).or_default().push(now);
    }

    /// Ends the wait of all threads for these pages.
    pub(crate) fn end(&mut self, pages: Range<Page>) {
        let mut now = None;
        while let Some((&page, _)) = self.waiting.range(pages.clone()).next() {
            let now = *now.get_or_insert_with(Instant::now);
            for since in self.waiting.remove(&page).into_iter().flatten() {
                self.total += now.saturating_duration_since(since);
            }
        }
    }

    /// The sum of all waits that have ended.
    pub(crate) const fn total(&self) -> Duration {
        self.total
    }

    /// True if no thread waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_of_each_counts_once() {
        let mut stalls = Stalls::default();
        let second = Duration::from_secs(1);
        let began = Instant::now() - second;
        stalls.begin(7, began);
        stalls.begin(7, began);
        stalls.begin(9, began);
        stalls.end(0..8);
        let two = stalls.total();
        assert!((2 * second..3 * second).contains(&two), "{two:?}");
        stalls.end(0..8);
        assert_eq!(stalls.total(), two);
        assert!(!stalls.is_empty());
        stalls.end(9..10);
        assert!(stalls.total() >= two + second);
        assert!(stalls.is_empty());
    }
}
