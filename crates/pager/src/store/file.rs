//! A file or a block device, past the page cache.

#![expect(unsafe_code, reason = "the kernel is handed addresses of frames")]

use super::{Lost, Piece, Store, Transfer};
use io_uring::{IoUring, opcode, types};
use std::{
    collections::HashMap,
    fs::{File, OpenOptions},
    io,
    os::{
        fd::{AsRawFd, BorrowedFd},
        unix::fs::OpenOptionsExt,
    },
    path::{Path, PathBuf},
};

/// Transfers that may be under way at once.
const DEPTH: u32 = 256;

/// A file or a block device.
#[derive(Debug)]
pub struct FileStore {
    path: PathBuf,
    file: File,
    ring: Ring,
    under_way: HashMap<u64, UnderWay>,
}

struct Ring(IoUring);

#[derive(Debug)]
struct UnderWay {
    is_write: bool,
    offset: u64,
    bytes: usize,
    /// The kernel reads them when it takes the transfer over.
    pieces: Pieces,
}

/// What the kernel takes pieces of memory as.
#[derive(Debug)]
struct Pieces(Vec<libc::iovec>);

// SAFETY: they are addresses, and nothing is done with what is there.
unsafe impl Send for Pieces {}

impl FileStore {
    /// An unnamed file in the folder `path`, or the block device `path`, private to its owner.
    ///
    /// # Errors
    /// When it cannot be made, or the kernel has no `io_uring`.
    pub fn open(path: &Path) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).mode(0o600);
        let flags = if path.is_dir() { libc::O_TMPFILE | libc::O_DIRECT } else { libc::O_DIRECT };
        let file = options.custom_flags(flags).open(path)?;
        let ring = Ring(IoUring::new(DEPTH)?);
        Ok(Self { path: path.into(), file, ring, under_way: HashMap::new() })
    }
}

impl Store for FileStore {
    unsafe fn begin(&mut self, transfer: Transfer<'_>) -> io::Result<()> {
        let Transfer { token, is_write, offset, pieces } = transfer;
        let piece = |piece: &Piece| libc::iovec {
            iov_base: piece.address as *mut libc::c_void,
            iov_len: piece.bytes,
        };
        let under_way = UnderWay {
            is_write,
            offset,
            bytes: transfer.bytes(),
            pieces: Pieces(pieces.iter().map(piece).collect()),
        };
        let fd = types::Fd(self.file.as_raw_fd());
        let (first, count) = (under_way.pieces.0.as_ptr(), pieces.len() as u32);
        let entry = if is_write {
            opcode::Writev::new(fd, first, count).offset(offset).build()
        } else {
            opcode::Readv::new(fd, first, count).offset(offset).build()
        };
        let entry = entry.user_data(token);
        let ring = &mut self.ring.0;
        // SAFETY: by the caller the memory is there until the transfer is done, and so is the list
        // of its pieces.
        if unsafe { ring.submission().push(&entry) }.is_err() {
            ring.submit()?;
            // SAFETY: as before; the queue was emptied just now.
            unsafe { ring.submission().push(&entry) }.map_err(io::Error::other)?;
        }
        self.under_way.insert(token, under_way);
        Ok(())
    }

    fn erase(&mut self, offset: u64, bytes: u64) {
        let flags = rustix::fs::FallocateFlags::PUNCH_HOLE | rustix::fs::FallocateFlags::KEEP_SIZE;
        let _ = rustix::fs::fallocate(&self.file, flags, offset, bytes);
    }

    fn submit(&mut self) -> io::Result<()> {
        self.ring.0.submit().map(drop)
    }

    fn done(&mut self) -> Vec<(u64, Result<(), Lost>)> {
        let entries = self.ring.0.completion();
        let (path, under_way) = (&self.path, &mut self.under_way);
        let outcome = |entry: io_uring::cqueue::Entry| {
            let (token, result) = (entry.user_data(), entry.result());
            let UnderWay { is_write, offset, bytes, .. } = under_way.remove(&token)?;
            let why = match usize::try_from(result) {
                Err(_) => io::Error::from_raw_os_error(-result),
                Ok(done) if done < bytes => io::ErrorKind::UnexpectedEof.into(),
                Ok(_) => return Some((token, Ok(()))),
            };
            let store = path.display().to_string();
            Some((token, Err(Lost { store, is_write, offset, bytes, why })))
        };
        entries.filter_map(outcome).collect()
    }

    fn ready(&self) -> BorrowedFd<'_> {
        // SAFETY: the ring lives as long as what is given back.
        unsafe { BorrowedFd::borrow_raw(self.ring.0.as_raw_fd()) }
    }
}

impl std::fmt::Debug for Ring {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Ring")
    }
}
