//! How long threads wait for pages.

use crate::predict::Page;
use std::{
    collections::BTreeMap,
    ops::Range,
    time::{Duration, Instant},
};

/// Who waits, and how long all waited that wait no more.
#[derive(Debug, Default)]
pub(crate) struct Stalls {
    /// Since when each thread waits, by the page that it waits for.
    waiting: BTreeMap<Page, Vec<Instant>>,
    total: Duration,
}

impl Stalls {
    /// A thread waits for a page from now on.
    pub(crate) fn begin(&mut self, page: Page, now: Instant) {
        self.waiting.entry(page).or_default().push(now);
    }

    /// All go on who wait for one of these pages.
    pub(crate) fn end(&mut self, pages: Range<Page>) {
        let mut now = None;
        while let Some((&page, _)) = self.waiting.range(pages.clone()).next() {
            let now = *now.get_or_insert_with(Instant::now);
            for since in self.waiting.remove(&page).into_iter().flatten() {
                self.total += now.saturating_duration_since(since);
            }
        }
    }

    /// How long all waited, added up.
    pub(crate) fn nanoseconds(&self) -> u64 {
        u64::try_from(self.total.as_nanos()).unwrap_or(u64::MAX)
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
        let two = stalls.nanoseconds();
        assert!((2_000_000_000..3_000_000_000).contains(&two), "{two}");
        stalls.end(0..8);
        assert_eq!(stalls.nanoseconds(), two);
        stalls.end(9..10);
        assert!(stalls.nanoseconds() >= two + 1_000_000_000);
    }
}
