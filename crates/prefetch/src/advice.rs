//! Advice that a program gives about its memory.

/// Advice of the program about some of its pages: by `madvise(2)`, or by `mlock(2)` for pins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Advice {
    /// No special order of touches.
    Normal,
    /// The pages will be touched in random order: no prefetch and no fault-around.
    Random,
    /// The pages will be touched in ascending order: prefetch begins with the first fault.
    Sequential,
    /// The pages will be touched soon: prefetch them now.
    WillNeed,
    /// The pages will not be touched soon: unmap them now, and write dirty pages back to the store.
    Cold,
    /// The pages are pinned: they are never evicted.
    Pin,
    /// The pages are no longer pinned.
    Unpin,
}
