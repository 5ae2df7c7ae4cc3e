//! Defines the arguments of the assembly loops.

use super::BATCH;

/// The loop of a kernel. One call makes the accesses of all `groups` of the job.
///
/// # Safety
/// Each buffer of the job is mapped and large enough for the job. The address of each buffer is a
/// page boundary plus a whole number of blocks. No other thread uses the buffer that the kernel
/// stores to.
pub(super) type Run = unsafe fn(&mut Job);

/// Loads or stores the lines of a batch, and prefetches the lines of a batch that a later call
/// accesses. The first array has the byte offsets in the buffer of the lines to access, the second
/// array has the byte offsets of the lines to prefetch. Without this prefetch few loads overlap,
/// because the many instructions that compute a random line fill the core's instruction window.
///
/// # Safety
/// The lines of both batches are mapped, and no other thread uses lines that the call stores to.
pub(super) type Touch = unsafe fn(&mut Job, &[usize; BATCH], &[usize; BATCH]);

/// Input and output of a kernel: the buffers, the loop counts and the sum of the loaded values.
#[repr(C, align(64))]
pub(super) struct Job {
    /// Sums of the loaded words, one for each of the eight words of a line.
    pub(super) sum: [u64; 8],
    /// The buffers to load from; `null` for a missing buffer. The loads use two buffers in turn.
    pub(super) read: [*const u8; 2],
    /// The buffer to store to.
    pub(super) write: *mut u8,
    /// The number of units that each group loads.
    pub(super) loads: u64,
    /// The number of units that each group stores.
    pub(super) stores: u64,
    /// The number of groups in one call. A group has `loads` units to load and `stores` units to
    /// store. In a kernel that only loads or only stores, each unit counts as a group.
    pub(super) groups: u64,
    /// The word to store.
    pub(super) word: u64,
}
