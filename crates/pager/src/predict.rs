//! What will be touched next, from what was.
//!
//! A program shows the pager little: that a thread touched a page that was not mapped. Most loops
//! over arrays are still plain to see in it. A [`streams::Streams`] finds *runs* of neighbouring
//! pages, and how far apart one run is from the next:
//!
//! ```text
//! a sweep          one run that does not end       0 1 2 3 4 5 6 ...
//! a column         runs of one page, jumps of 100  0 100 200 300 ...
//! rows of a tile   runs of 3, jumps of 100         0 1 2 100 101 102 200 201 202 ...
//! backwards        the same, from behind           9 8 7 6 ...
//! ```
//!
//! What is brought in and not used costs the drive and drives out what is used. So nothing is asked
//! for before it was foreseen twice, little at first, and less where it was in vain.

pub mod streams;

use std::ops::Range;

/// A page, by its number over all regions of a process. Regions are numbered apart from each other,
/// so that no run goes from one to the next.
pub type Page = u64;

/// A touch of pages that were not mapped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Touch {
    /// The thread.
    pub thread: u32,
    /// The pages that are mapped for it: the one that was touched, and what comes with it.
    pub pages: Range<Page>,
    /// The region that they are in: nothing is foreseen beyond it.
    pub within: Range<Page>,
}
