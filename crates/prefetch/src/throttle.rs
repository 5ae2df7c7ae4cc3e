//! The accuracy throttle: wasted prefetches raise the confidence that a stream needs for a
//! prefetch.
//!
//! Random accesses contain short sequences that look like a stream. While prefetches are wasted, a
//! stream must therefore predict more faults correctly before it prefetches, so that random
//! accesses cost little.

/// Number of wasted pages that raises the confidence threshold by one correct prediction.
const PAGES_PER_STEP: u64 = 8;

/// Number of prefetch hits (touches of prefetched pages) that compensates for one wasted page.
const HITS_PER_WASTED: u64 = 16;

/// Largest rise of the confidence threshold, in correct predictions.
pub(super) const CONFIDENCE_MAX: u32 = 64;

/// Counts the wasted pages that prefetch hits have not compensated. The count determines the
/// confidence that a stream needs for a prefetch.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct AccuracyThrottle {
    /// Wasted pages times [`HITS_PER_WASTED`], minus prefetch hits; not below 0.
    wasted: u64,
}

impl AccuracyThrottle {
    pub(super) const fn new() -> Self {
        Self { wasted: 0 }
    }

    /// Returns the confidence that a prefetch needs now: `min`, plus one for each
    /// [`PAGES_PER_STEP`] wasted pages that prefetch hits have not compensated.
    pub(super) fn confidence_min(self, min: u32) -> u32 {
        let steps = self.wasted / HITS_PER_WASTED / PAGES_PER_STEP;
        min + u32::try_from(steps).unwrap_or(CONFIDENCE_MAX)
    }

    /// Counts `pages` prefetched pages that were evicted untouched.
    pub(super) fn on_wasted(&mut self, pages: u64) {
        let max = u64::from(CONFIDENCE_MAX) * PAGES_PER_STEP * HITS_PER_WASTED;
        let wasted = self.wasted.saturating_add(pages.saturating_mul(HITS_PER_WASTED));
        self.wasted = wasted.min(max);
    }

    /// Counts `pages` prefetched pages that were touched.
    pub(super) fn on_hit(&mut self, pages: u64) {
        self.wasted = self.wasted.saturating_sub(pages);
    }
}
