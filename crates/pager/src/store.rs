//! Where the content of pages is that is not in memory.

#![expect(unsafe_code, reason = "memory is handed to drives")]

pub mod striped;

pub mod snapshot;

pub mod retry;

pub mod engine;

pub mod fault_injection;

pub mod backing;

pub mod release;

pub mod file;

pub use file::{FileStore, Options};
pub use retry::Job;

use std::{io, os::fd::BorrowedFd};

/// Transfers of so many pieces of memory at most: `UIO_MAXIOV` of the kernel.
pub const PIECES_MAX: usize = 1024;

/// Offsets and lengths are multiples of a page.
const BLOCK: u64 = 4096;

/// A piece of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Where.
    pub address: usize,
    /// How much.
    pub bytes: usize,
}

/// A transfer between one place in the store and one or several in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transfer<'a> {
    /// What it is called when it is done.
    pub token: u64,
    /// Whether it goes to the store.
    pub is_write: bool,
    /// Where in the store, bytes.
    pub offset: u64,
    /// Where in memory, at most [`PIECES_MAX`]: as they follow each other in the store.
    pub pieces: &'a [Piece],
}

impl Transfer<'_> {
    /// How much, bytes.
    pub fn bytes(&self) -> usize {
        self.pieces.iter().map(|piece| piece.bytes).sum()
    }
}

/// What could not be read or written, after all that could be tried.
#[derive(Debug, thiserror::Error)]
#[error("the store {store} cannot {} {bytes} bytes at byte {offset}: {why}",
    if *is_write { "take" } else { "give back" })]
pub struct Lost {
    /// The file, device or folder, as the user named it.
    pub store: String,
    /// Whether it was to be written.
    pub is_write: bool,
    /// Where in the store.
    pub offset: u64,
    /// How much.
    pub bytes: usize,
    /// Why.
    pub why: io::Error,
}

/// A store that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the store {store}: {why}")]
pub struct Refused {
    /// The file, device or folder, as the user named it.
    pub store: String,
    /// Why.
    pub why: String,
    /// What the user can do.
    pub hint: String,
}

impl From<Refused> for io::Error {
    fn from(refused: Refused) -> Self {
        Self::other(refused)
    }
}

/// What makes the store of a child, in the child.
pub type Born = Box<dyn FnOnce() -> io::Result<Box<dyn Store>> + Send>;

/// A place for pages. What was never written is zeros.
pub trait Store: Send {
    /// Begins a transfer.
    ///
    /// # Safety
    /// The memory is mapped until the transfer is done, nobody writes to it meanwhile, and of a
    /// read nobody else uses it.
    ///
    /// # Errors
    /// When it cannot be begun: it is as if it had failed.
    unsafe fn begin(&mut self, transfer: Transfer<'_>) -> io::Result<()>;

    /// Makes a part zeros, as far as the store can: what is never read again need not be.
    fn erase(&mut self, offset: u64, bytes: u64);

    /// Hands what was begun to whoever does it.
    ///
    /// # Errors
    /// When nothing can be handed on any more.
    fn submit(&mut self) -> io::Result<()>;

    /// What is done, with what came of it; what is short has failed.
    fn done(&mut self) -> Vec<(u64, Result<(), Lost>)>;

    /// What is readable when something is done.
    fn ready(&self) -> BorrowedFd<'_>;

    /// Gets ready for a child that is forked now: it has the same pages, and what either writes
    /// from now on the other does not see. What is given back is called in the child, once; here it
    /// is dropped as soon as the child is there. The child has no use for its copy of this store,
    /// and does not drop it.
    ///
    /// # Errors
    /// When something is being written, or the store cannot be shared.
    fn fork(&mut self) -> io::Result<Born> {
        Err(io::ErrorKind::Unsupported.into())
    }
}
