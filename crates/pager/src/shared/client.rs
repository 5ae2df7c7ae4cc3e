//! A process that shares memory.

#![expect(unsafe_code, reason = "memory files are mapped")]

use super::{
    SOCKET,
    pieces::Pieces,
    wire::{Message, Wire},
};
use crate::{
    fatal::fatal,
    kernel::{memory, thread, uffd::Userfault},
    page::PAGE_BYTES,
};
use rustix::{
    event::{PollFd, PollFlags, poll},
    io::Errno,
    mm::{self, Advice, MapFlags, ProtFlags},
};
use std::{
    io,
    ops::Range,
    os::fd::{AsFd, AsRawFd},
    path::{Path, PathBuf},
    ptr,
    sync::Arc,
};

/// What this process shares with others.
#[derive(Debug)]
pub struct Client {
    path: PathBuf,
    wire: Arc<Wire>,
    /// Kept as long as anything is mapped: without it there would be zeros where pages are missing.
    faults: Userfault,
    pieces: Pieces,
}

/// What a child is to share: addresses, and what may be done there (`PROT_...`).
pub type Shares = Vec<(Range<usize>, u32)>;

impl Client {
    /// Joins those that share memory in the session that has this folder.
    ///
    /// # Errors
    /// When nobody serves them, or there is no right to `userfaultfd`.
    pub fn join(folder: &Path) -> io::Result<Self> {
        let path = folder.join(SOCKET);
        let (wire, faults) = join(&path)?;
        let client = Self { path, wire, faults, pieces: Pieces::default() };
        client.watch()?;
        Ok(client)
    }

    /// Maps new memory of so many bytes, all of them zero, and says where.
    ///
    /// # Errors
    /// When there is no room, or it cannot be served.
    pub fn take(&mut self, bytes: usize, protection: u32) -> io::Result<usize> {
        let bytes = bytes.checked_next_multiple_of(PAGE_BYTES).ok_or(io::ErrorKind::OutOfMemory)?;
        let (page, fd) = self.wire.ask(Message::Take { bytes: bytes as u64 }, None)?;
        let fd = fd.ok_or(Errno::NOMEM)?;
        // SAFETY: a new mapping at an address that the kernel chooses overlaps no other.
        let address = unsafe {
            mm::mmap(ptr::null_mut(), bytes, ProtFlags::empty(), MapFlags::SHARED, fd, 0)
        }?;
        let start = address as usize;
        self.serve(&(start..start + bytes), page, protection)?;
        Ok(start)
    }

    /// Whether some of these addresses are shared.
    pub fn has(&self, addresses: &Range<usize>) -> bool {
        !self.pieces.parts(addresses).is_empty()
    }

    /// Something else is mapped at these addresses, or nothing.
    pub fn unmapped(&mut self, addresses: &Range<usize>) {
        self.pieces.remove(addresses);
        let (address, bytes) = (addresses.start as u64, addresses.len() as u64);
        // Without a server there is nobody to know.
        let _ = self.wire.ask(Message::Unmap { address, bytes }, None);
    }

    /// What a child that is forked now is to share: all, as far as `protections` has it.
    pub fn shares(&self, protections: impl Iterator<Item = (Range<usize>, u32)>) -> Shares {
        let part = |(addresses, protection)| {
            let parts = self.pieces.parts(&addresses).into_iter();
            parts.map(move |(part, _)| (part, protection))
        };
        protections.flat_map(part).collect()
    }

    /// Maps in a child what its parent had when it was forked.
    ///
    /// # Errors
    /// When it cannot be served: then nothing is mapped there.
    pub fn in_child(&mut self, shares: &Shares) -> io::Result<()> {
        let pieces = std::mem::take(&mut self.pieces);
        let (wire, faults) = join(&self.path)?;
        // The connection of the parent has kept the files until here, and from here on its own
        // does once all are mapped.
        let parents = std::mem::replace(&mut self.wire, wire);
        self.faults = faults;
        for (addresses, protection) in shares {
            let Some(page) = pieces.page(addresses.start) else { continue };
            let (first, fd) = self.wire.ask(Message::Get { page: page as u64 }, None)?;
            let (fd, offset) = (fd.ok_or(Errno::NOMEM)?, (page - first) as u64);
            let flags = MapFlags::SHARED | MapFlags::FIXED_NOREPLACE;
            let (to, bytes) = (addresses.start as *mut _, addresses.len());
            // SAFETY: nothing is there, or it fails.
            unsafe { mm::mmap(to, bytes, ProtFlags::empty(), flags, fd, offset) }?;
            self.serve(addresses, page, *protection)?;
        }
        let fd = parents.as_fd().as_raw_fd();
        // A thread of the parent's that watched it has it too, and does not let go of it here.
        std::mem::forget(parents);
        // SAFETY: it was the parent's, and nobody here uses it any more.
        unsafe { rustix::io::close(fd) };
        self.watch()
    }

    /// Has a new mapping served, and lets it be used then; or removes it.
    fn serve(&mut self, addresses: &Range<usize>, page: usize, protection: u32) -> io::Result<()> {
        let served = self.begin(addresses, page, protection);
        if served.is_err() {
            // SAFETY: it was just mapped, and nobody knows of it.
            let _ = unsafe { mm::munmap(addresses.start as *mut _, addresses.len()) };
            self.unmapped(addresses);
        }
        served
    }

    fn begin(&mut self, addresses: &Range<usize>, page: usize, protection: u32) -> io::Result<()> {
        for advice in [Advice::LinuxNoHugepage, Advice::LinuxDontFork] {
            // SAFETY: advice of these kinds changes no content.
            let advised = unsafe { memory::advise(addresses, advice) };
            // Where the kernel has no huge pages, there are none.
            if advice == Advice::LinuxDontFork {
                advised?;
            }
        }
        self.faults.register_shared(addresses)?;
        let (address, bytes) = (addresses.start as u64, addresses.len() as u64);
        self.wire.ask(Message::Map { page: page as u64, address, bytes }, None)?;
        self.pieces.insert(addresses, page);
        // SAFETY: nobody knows the mapping yet.
        Ok(unsafe { memory::protect(addresses, protection) }?)
    }

    /// A thread that ends the process when nobody serves it any more: others would wait for ever.
    fn watch(&self) -> io::Result<()> {
        let wire = Arc::clone(&self.wire);
        thread::spawn("pager-shared", move || {
            loop {
                let mut fds = [PollFd::new(&*wire, PollFlags::RDHUP)];
                match poll(&mut fds, None) {
                    Err(Errno::INTR) => {}
                    Ok(_) if fds[0].revents().contains(PollFlags::HUP) => {
                        fatal(format_args!("who serves shared memory has gone"))
                    }
                    _ => return,
                }
            }
        })
        .map(drop)
    }
}

/// A connection, and what the faults of this process are heard by.
fn join(path: &Path) -> io::Result<(Arc<Wire>, Userfault)> {
    let faults = Userfault::of_shared()?;
    let wire = Wire::connect(path)?;
    wire.ask(Message::Hello, Some(faults.as_fd()))?;
    Ok((Arc::new(wire), faults))
}
