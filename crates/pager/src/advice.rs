//! What a program says about its memory.

/// Advice, as of `madvise(2)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Advice {
    /// No pattern is known.
    Normal,
    /// Pages are touched in no order: nothing is brought in beside them.
    Random,
    /// Pages are touched in order, once.
    Sequential,
    /// Pages will be touched soon.
    WillNeed,
    /// Pages will not be touched soon.
    Cold,
    /// Pages stay in memory.
    Pin,
    /// They need not any more.
    Unpin,
}
