//! What is handed to the loops.

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

/// What a kernel is given, and its sum.
#[repr(C, align(64))]
pub(super) struct Job {
    /// The sum of what was loaded, in parts.
    pub(super) sum: [u64; 8],
    /// What is loaded from, in turn where there are two.
    pub(super) read: [*const u8; 2],
    /// What is stored to.
    pub(super) write: *mut u8,
    /// Units of a group that are loaded.
    pub(super) loads: u64,
    /// Of those that are stored.
    pub(super) stores: u64,
    /// How many groups.
    pub(super) groups: u64,
    /// What is stored.
    pub(super) word: u64,
}
