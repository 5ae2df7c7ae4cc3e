//! The arguments of the loops.

use super::BATCH;

/// Goes through so many groups of a job.
///
/// # Safety
/// The buffers of the job are mapped and aligned to a block each, with as many bytes as the rounds
/// take of them; nobody else uses what is stored to.
pub(super) type Run = unsafe fn(&mut Job);

/// Loads or stores lines at distances from the start of a buffer, and fetches others, of a later
/// batch: a core sees only so many instructions ahead, and those that find the lines are many.
///
/// # Safety
/// The lines are mapped, and nobody else uses what is stored to.
pub(super) type Touch = unsafe fn(&mut Job, &[usize; BATCH], &[usize; BATCH]);

/// Input and output of a kernel: the buffers, the loop counts and the sum of the loaded values.
#[repr(C, align(64))]
pub(super) struct Job {
    /// The sum of what was loaded, in parts.
    pub(super) sum: [u64; 8],
    /// The buffers to load from, used in turn if there are two.
    pub(super) read: [*const u8; 2],
    /// The buffer to store to.
    pub(super) write: *mut u8,
    /// Units of a group that are loaded.
    pub(super) loads: u64,
    /// Lines to store.
    pub(super) stores: u64,
    /// The number of groups.
    pub(super) groups: u64,
    /// The word to store.
    pub(super) word: u64,
}
