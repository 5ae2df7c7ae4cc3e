//! Where the content of pages is that is not in memory.

#![expect(unsafe_code, reason = "the kernel is handed addresses of frames")]

use io_uring::{IoUring, opcode, types};
use std::{
    fs::{File, OpenOptions},
    io,
    os::{
        fd::{AsFd, AsRawFd, BorrowedFd},
        unix::fs::OpenOptionsExt,
    },
    path::Path,
};

/// Transfers that may be under way at once.
const DEPTH: u32 = 256;

/// A transfer of a piece of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transfer {
    /// What it is called when it is done.
    pub token: u64,
    /// Whether it goes to the store.
    pub is_write: bool,
    /// Where in the store, bytes.
    pub offset: u64,
    /// Where in memory.
    pub address: usize,
    /// How much, bytes.
    pub bytes: usize,
}

/// A place for pages.
pub trait Store: Send {
    /// Begins a transfer.
    ///
    /// # Safety
    /// The memory is mapped until the transfer is done, nobody writes to it meanwhile, and of a
    /// read nobody else uses it.
    ///
    /// # Errors
    /// When it cannot be begun: it is as if it had failed.
    unsafe fn begin(&mut self, transfer: Transfer) -> io::Result<()>;

    /// Makes a part zeros, as far as the store can: what is never read again need not be.
    fn erase(&mut self, offset: u64, bytes: u64);

    /// Hands what was begun to whoever does it.
    ///
    /// # Errors
    /// When nothing can be handed on any more.
    fn submit(&mut self) -> io::Result<()>;

    /// What is done, with what came of it; what is short has failed.
    fn done(&mut self) -> Vec<(u64, io::Result<()>)>;

    /// Parts from a child that is about to be forked, with nothing under way: gives the store of
    /// the child, which has what is stored now. What either stores from now on the other has not.
    ///
    /// # Errors
    /// When there cannot be two.
    fn fork(&mut self) -> io::Result<Box<dyn Store>> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// What is readable when something is done.
    fn ready(&self) -> BorrowedFd<'_>;
}

/// A file or a block device, past the page cache.
pub struct FileStore {
    file: File,
    ring: IoUring,
    /// How much each transfer under way should be, by its token.
    lengths: std::collections::HashMap<u64, usize>,
}

impl FileStore {
    /// An unnamed file in `folder`, or the block device `folder`, private to its owner.
    ///
    /// # Errors
    /// When it cannot be made, or the kernel has no `io_uring`.
    pub fn open(path: &Path) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).mode(0o600);
        let flags = if path.is_dir() { libc::O_TMPFILE | libc::O_DIRECT } else { libc::O_DIRECT };
        let file = options.custom_flags(flags).open(path)?;
        Ok(Self { file, ring: IoUring::new(DEPTH)?, lengths: Default::default() })
    }
}

impl Store for FileStore {
    unsafe fn begin(&mut self, transfer: Transfer) -> io::Result<()> {
        let Transfer { token, is_write, offset, address, bytes } = transfer;
        let fd = types::Fd(self.file.as_raw_fd());
        let length = u32::try_from(bytes).map_err(io::Error::other)?;
        let entry = if is_write {
            opcode::Write::new(fd, address as *const u8, length).offset(offset).build()
        } else {
            opcode::Read::new(fd, address as *mut u8, length).offset(offset).build()
        };
        let entry = entry.user_data(token);
        // SAFETY: by the caller the memory is there until the transfer is done.
        if unsafe { self.ring.submission().push(&entry) }.is_err() {
            self.ring.submit()?;
            // SAFETY: as before; the queue was emptied just now.
            unsafe { self.ring.submission().push(&entry) }.map_err(io::Error::other)?;
        }
        self.lengths.insert(token, bytes);
        Ok(())
    }

    fn erase(&mut self, offset: u64, bytes: u64) {
        let flags = rustix::fs::FallocateFlags::PUNCH_HOLE | rustix::fs::FallocateFlags::KEEP_SIZE;
        let _ = rustix::fs::fallocate(&self.file, flags, offset, bytes);
    }

    fn submit(&mut self) -> io::Result<()> {
        self.ring.submit().map(drop)
    }

    fn done(&mut self) -> Vec<(u64, io::Result<()>)> {
        let entries = self.ring.completion();
        let lengths = &mut self.lengths;
        let outcome = |entry: io_uring::cqueue::Entry| {
            let (token, result) = (entry.user_data(), entry.result());
            let wanted = lengths.remove(&token).unwrap_or(0);
            let outcome = match usize::try_from(result) {
                Err(_) => Err(io::Error::from_raw_os_error(-result)),
                Ok(bytes) if bytes < wanted => Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(_) => Ok(()),
            };
            (token, outcome)
        };
        entries.map(outcome).collect()
    }

    fn ready(&self) -> BorrowedFd<'_> {
        // SAFETY: the ring lives as long as what is given back.
        unsafe { BorrowedFd::borrow_raw(self.ring.as_raw_fd()) }
    }
}

impl std::fmt::Debug for FileStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "FileStore({:?})", self.file.as_fd())
    }
}
