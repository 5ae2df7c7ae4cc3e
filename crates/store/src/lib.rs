//! Stores: the files and devices that hold pages which are not in DRAM.

#![expect(unsafe_code, reason = "memory is handed to drives")]

pub mod striped;

pub mod snapshot;

pub mod retry;

pub mod engine;

pub mod descriptor;

pub mod fault_injection;

pub mod backing;

mod file_lock;

mod file_extents;

pub mod release;

pub mod file;

pub mod speed;

pub use file::{FileStore, Options};
pub use retry::Job;

use std::{io, os::fd::BorrowedFd};

/// Maximum number of pieces of memory in a transfer: `UIO_MAXIOV` of the kernel.
pub const PIECES_MAX: usize = 1024;

/// The index of a page in the store: the offset of the page divided by the page size.
pub type Page = u64;

/// Unit of transfers, bytes: the offset and the length of a transfer are multiples of it.
const BLOCK: u64 = interleaf_procfs::page::PAGE_BYTES as u64;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// The address of the first byte.
    pub address: usize,
    /// The length of the piece, bytes.
    pub bytes: usize,
}

/// A transfer between one range of the store and one or several pieces of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transfer<'a> {
    /// The identifier of the transfer, which [`Store::done`] returns with the result.
    pub token: u64,
    /// True if the transfer writes to the store.
    pub is_write: bool,
    /// The offset of the range in the store, bytes.
    pub offset: u64,
    /// The pieces of memory, at most [`PIECES_MAX`], in the order of the bytes in the store.
    pub pieces: &'a [Piece],
}

impl Transfer<'_> {
    /// The length of the transfer, bytes.
    pub fn bytes(&self) -> usize {
        self.pieces.iter().map(|piece| piece.bytes).sum()
    }
}

/// A transfer that failed after all retries.
#[derive(Debug, thiserror::Error)]
#[error("the store {store} cannot {} {bytes} bytes at byte {offset}: {why}",
    if *is_write { "take" } else { "give back" })]
pub struct TransferError {
    /// The file, device or folder, as the user named it.
    pub store: String,
    /// True if the transfer was a write.
    pub is_write: bool,
    /// The offset of the transfer in the store, bytes.
    pub offset: u64,
    /// The length of the transfer, bytes.
    pub bytes: usize,
    /// The error of the last try.
    pub why: io::Error,
}

/// The error for a store that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the store {store}: {why}")]
pub struct StoreRefused {
    /// The file, device or folder, as the user named it.
    pub store: String,
    /// The reason, for the user.
    pub why: String,
    /// The remedy for the user.
    pub hint: String,
}

impl From<StoreRefused> for io::Error {
    fn from(refused: StoreRefused) -> Self {
        Self::other(refused)
    }
}

/// The function that [`Store::fork`] returns. It is called in the forked child, and makes the store
/// of the child.
pub type ChildStore = Box<dyn FnOnce() -> io::Result<Box<dyn Store>> + Send>;

/// A store of pages. A page that was never written reads as zeros.
pub trait Store: Send {
    /// Starts a transfer.
    ///
    /// # Safety
    /// Until the transfer is done, the memory of its pieces stays mapped, and no other code writes
    /// to this memory. If the transfer is a read, no other code uses the memory at all.
    ///
    /// # Errors
    /// When the transfer cannot be started. It then counts as failed.
    unsafe fn begin(&mut self, transfer: Transfer<'_>) -> io::Result<()>;

    /// Erases a range of the store, so that it reads as zeros.
    fn erase(&mut self, offset: u64, bytes: u64);

    /// Submits all transfers that `Store::begin` has started.
    ///
    /// # Errors
    /// When the store can submit no transfers any more.
    fn submit(&mut self) -> io::Result<()>;

    /// True if a transfer may have finished since the last call of [`Store::done`].
    fn has_done(&mut self) -> bool;

    /// Returns the token and the result of each transfer that finished since the last call of this
    /// function. A transfer of which only a part was done counts as failed.
    fn done(&mut self) -> Vec<(u64, Result<(), TransferError>)>;

    /// A descriptor that is readable while finished transfers wait for [`Store::done`].
    fn ready(&self) -> BorrowedFd<'_>;

    /// Announces a fork, so that the store can make pages writable that are no longer shared. The
    /// caller then writes its dirty pages back, calls [`Store::fork`], and forks.
    fn before_fork(&mut self) {}

    /// Prepares the store for a child that is about to be forked. The child begins with the pages
    /// of the parent. Later writes of one process are invisible to the other. The child calls the
    /// returned function once, and the parent drops the function as soon as the child runs. The
    /// child neither uses nor drops its copy of this store.
    ///
    /// # Errors
    /// When a write is outstanding, or the store cannot be shared.
    fn fork(&mut self) -> io::Result<ChildStore> {
        Err(io::ErrorKind::Unsupported.into())
    }
}
