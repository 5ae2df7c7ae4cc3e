//! Advice of a program about its memory.

/// Advice about pages, as by `madvise(2)` and `mlock(2)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Advice {
    /// No special pattern.
    Normal,
    /// Touched in random order: no prefetch and no fault-around.
    Random,
    /// Touched in ascending order: prefetched from the first fault on.
    Sequential,
    /// Touched soon: prefetched now.
    WillNeed,
    /// Not touched soon: unmapped now, and written back if dirty.
    Cold,
    /// Pinned: never evicted.
    Pin,
    /// No longer pinned.
    Unpin,
}
