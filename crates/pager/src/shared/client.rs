//! The client of the server of shared memory: a process that shares memory.

#![expect(unsafe_code, reason = "memory files are mapped")]

use super::{
    SOCKET,
    message::{Message, request},
    pieces::MappedPieces,
};
use crate::{
    fatal::fatal,
    kernel::{memory, uffd::Userfault},
};
use interleaf_poll_server::wire::Wire;
use interleaf_procfs::page::PAGE_BYTES;
use interleaf_store::descriptor;
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

/// The connection of this process to the server of shared memory, and the mapped shared memory.
#[derive(Debug)]
pub struct Client {
    path: PathBuf,
    wire: Arc<Wire>,
    /// The userfaultfd of this process. It stays open as long as shared memory is mapped, because
    /// missing pages would read as zeros after a close.
    faults: Userfault,
    pieces: MappedPieces,
}

/// Addresses of shared memory that a forked child must map again, with their protection
/// (`PROT_...`).
pub type SharedRanges = Vec<(Range<usize>, u32)>;

impl Client {
    /// Connects to the server of the session whose folder is `folder`.
    ///
    /// # Errors
    /// When the server does not run, or this user may not use `userfaultfd`.
    pub fn join(folder: &Path) -> io::Result<Self> {
        let path = folder.join(SOCKET);
        let (wire, faults) = connect(&path)?;
        let client = Self { path, wire, faults, pieces: MappedPieces::default() };
        client.watch_server()?;
        Ok(client)
    }

    /// Maps new memory of `bytes` that reads as zeros, and returns its address.
    ///
    /// # Errors
    /// When the memory cannot be mapped, or the server refuses the request.
    pub fn allocate(&mut self, bytes: usize, protection: u32) -> io::Result<usize> {
        let bytes = bytes.checked_next_multiple_of(PAGE_BYTES).ok_or(io::ErrorKind::OutOfMemory)?;
        let (page, fd) = request(&self.wire, Message::Allocate { bytes: bytes as u64 }, None)?;
        let fd = fd.ok_or(Errno::NOMEM)?;
        // SAFETY: a new mapping at an address that the kernel chooses overlaps no other mapping.
        let address = unsafe {
            mm::mmap(ptr::null_mut(), bytes, ProtFlags::empty(), MapFlags::SHARED, fd, 0)
        }?;
        let start = address as usize;
        self.serve(&(start..start + bytes), page, protection)?;
        Ok(start)
    }

    /// True if shared memory is mapped at some of these addresses.
    pub fn overlaps(&self, addresses: &Range<usize>) -> bool {
        !self.pieces.parts(addresses).is_empty()
    }

    /// Reports to the server that these addresses were unmapped, or mapped to other memory.
    pub fn unmapped(&mut self, addresses: &Range<usize>) {
        self.pieces.remove(addresses);
        let (address, bytes) = (addresses.start as u64, addresses.len() as u64);
        // A failure is ignored: the request fails only if the server has ended.
        let _ = request(&self.wire, Message::Unmap { address, bytes }, None);
    }

    /// The address ranges of shared memory that a child has to map if the process forks now.
    /// `protections` has the protection of each range of addresses.
    pub fn shared_ranges(
        &self,
        protections: impl Iterator<Item = (Range<usize>, u32)>,
    ) -> SharedRanges {
        let part = |(addresses, protection)| {
            let parts = self.pieces.parts(&addresses).into_iter();
            parts.map(move |(part, _)| (part, protection))
        };
        protections.flat_map(part).collect()
    }

    /// Maps in a child the memory that its parent shared at the fork.
    ///
    /// # Errors
    /// When a range cannot be mapped, or the server refuses the request. This range and the ranges
    /// after it are then not mapped.
    pub fn in_child(&mut self, shares: &SharedRanges) -> io::Result<()> {
        let pieces = std::mem::take(&mut self.pieces);
        let (wire, faults) = connect(&self.path)?;
        // The server keeps the files of the parent while the parent's connection is open, even if
        // the parent has exited. So the child's copy of this connection is closed only after the
        // child has mapped the files.
        let parents = std::mem::replace(&mut self.wire, wire);
        self.faults = faults;
        for (addresses, protection) in shares {
            let Some(page) = pieces.page(addresses.start) else { continue };
            let (first, fd) = request(&self.wire, Message::Get { page: page as u64 }, None)?;
            let (fd, offset) = (fd.ok_or(Errno::NOMEM)?, (page - first) as u64);
            let flags = MapFlags::SHARED | MapFlags::FIXED_NOREPLACE;
            let (to, bytes) = (addresses.start as *mut _, addresses.len());
            // SAFETY: with `MAP_FIXED_NOREPLACE` the call fails if another mapping is at these
            // addresses.
            unsafe { mm::mmap(to, bytes, ProtFlags::empty(), flags, fd, offset) }?;
            self.serve(addresses, page, *protection)?;
        }
        let fd = parents.as_fd().as_raw_fd();
        // A thread of the parent also holds a reference to the connection, which is never dropped
        // in the child. Therefore the descriptor is closed by number.
        std::mem::forget(parents);
        // SAFETY: the descriptor is that of the parent's connection, which this process does not
        // use any more.
        unsafe { descriptor::close(fd) };
        self.watch_server()
    }

    /// Reports to the server that the shared pages from `page` on are newly mapped at `addresses`,
    /// and makes the mapping accessible. Removes the mapping on failure.
    fn serve(&mut self, addresses: &Range<usize>, page: usize, protection: u32) -> io::Result<()> {
        let served = self.start_serving(addresses, page, protection);
        if served.is_err() {
            // SAFETY: the mapping was just made, and no other code knows the mapping.
            let _ = unsafe { mm::munmap(addresses.start as *mut _, addresses.len()) };
            self.unmapped(addresses);
        }
        served
    }

    fn start_serving(
        &mut self,
        addresses: &Range<usize>,
        page: usize,
        protection: u32,
    ) -> io::Result<()> {
        for advice in [Advice::LinuxNoHugepage, Advice::LinuxDontFork] {
            // SAFETY: advice of these kinds changes no content.
            let advised = unsafe { memory::advise(addresses, advice) };
            // A kernel without huge pages refuses `NOHUGEPAGE`, which is harmless.
            if advice == Advice::LinuxDontFork {
                advised?;
            }
        }
        self.faults.register_shared(addresses)?;
        let (address, bytes) = (addresses.start as u64, addresses.len() as u64);
        request(&self.wire, Message::Map { page: page as u64, address, bytes }, None)?;
        self.pieces.insert(addresses, page);
        // SAFETY: no other code knows the mapping yet.
        Ok(unsafe { memory::protect(addresses, protection) }?)
    }

    /// Starts a thread that ends the process when the server has ended, because the other threads
    /// would wait for ever on missing pages.
    fn watch_server(&self) -> io::Result<()> {
        let wire = Arc::clone(&self.wire);
        interleaf_thread::spawn("pager-shared", move || {
            loop {
                let mut fds = [PollFd::new(&*wire, PollFlags::RDHUP)];
                match poll(&mut fds, None) {
                    Err(Errno::INTR) => {}
                    Ok(_) if fds[0].revents().contains(PollFlags::HUP) => {
                        fatal(format_args!("the server of shared memory has ended"))
                    }
                    _ => return,
                }
            }
        })
        .map(drop)
    }
}

/// Connects to the server, and passes a userfaultfd of this process to the server.
fn connect(path: &Path) -> io::Result<(Arc<Wire>, Userfault)> {
    let faults = Userfault::of_shared()?;
    let wire = Wire::connect(path)?.renumbered(descriptor::protected);
    request(&wire, Message::Hello, Some(faults.as_fd()))?;
    Ok((Arc::new(wire), faults))
}
