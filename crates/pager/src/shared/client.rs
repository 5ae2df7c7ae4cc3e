//! The client side of shared memory: a process that shares memory, and its connection to the
//! server.

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
    io, mem,
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
    /// The userfaultfd of this process. The descriptor stays open as long as shared memory is
    /// mapped: missing pages would read as zeros after it was closed.
    faults: Userfault,
    /// The number by which the server identifies the address space of this process.
    space: u64,
    pieces: MappedPieces,
}

/// The shared memory that a forked child takes over from its parent.
#[derive(Debug)]
pub struct Inheritance {
    /// The child's connection to the server, which keeps the parent's files for this connection;
    /// `None` if the parent has no shared memory.
    wire: Option<io::Result<Wire>>,
    /// The address ranges of the shared memory, each with its protection (`PROT_...`).
    ranges: Vec<(Range<usize>, u32)>,
}

impl Client {
    /// Connects to the server of the session whose folder is `folder`.
    ///
    /// # Errors
    /// When the server does not run, or this user may not use `userfaultfd`.
    pub fn join(folder: &Path) -> io::Result<Self> {
        let path = folder.join(SOCKET);
        let wire = connect(&path)?;
        let client = Self::greet(path, wire)?;
        client.watch_server()?;
        Ok(client)
    }

    /// Passes a userfaultfd of this process to the server.
    fn greet(path: PathBuf, wire: Wire) -> io::Result<Self> {
        let faults = Userfault::of_shared()?;
        let (space, _) = request(&wire, Message::Hello, Some(faults.as_fd()))?;
        let (wire, space) = (Arc::new(wire), space as u64);
        Ok(Self { path, wire, faults, space, pieces: MappedPieces::default() })
    }

    /// Maps `bytes` bytes of new shared memory, which reads as zeros, and returns its address.
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

    /// True if shared memory is mapped at some of `addresses`.
    pub fn overlaps(&self, addresses: &Range<usize>) -> bool {
        !self.pieces.parts(addresses).is_empty()
    }

    /// Tells the server that this process has unmapped `addresses`, or mapped other memory at them.
    pub fn unmapped(&mut self, addresses: &Range<usize>) {
        self.pieces.remove(addresses);
        let (address, bytes) = (addresses.start as u64, addresses.len() as u64);
        // The error is ignored: the request fails only if the server has ended.
        let _ = request(&self.wire, Message::Unmap { address, bytes }, None);
    }

    /// Prepares a fork. `protections` has the ranges of addresses of this process, each with its
    /// protection. From now on, the server keeps the shared memory for the child, even if this
    /// process unmaps it before the child has mapped it.
    pub fn before_fork(
        &self,
        protections: impl Iterator<Item = (Range<usize>, u32)>,
    ) -> Inheritance {
        let part = |(addresses, protection)| {
            let parts = self.pieces.parts(&addresses).into_iter();
            parts.map(move |(part, _)| (part, protection))
        };
        let ranges: Vec<_> = protections.flat_map(part).collect();
        let connect_child = || {
            let wire = connect(&self.path)?;
            request(&wire, Message::Fork { space: self.space }, None)?;
            Ok(wire)
        };
        let wire = (!ranges.is_empty()).then(connect_child);
        Inheritance { wire, ranges }
    }

    /// Maps the shared memory of the parent in its child. Returns the client of the child; `None`
    /// if the child shares no memory.
    ///
    /// # Errors
    /// The first error, when a range cannot be mapped, or the server refuses a request. The ranges
    /// that fail are not mapped.
    pub fn in_child(self, inheritance: Inheritance) -> (Option<Self>, io::Result<()>) {
        let Self { path, wire: parents, faults, pieces, .. } = self;
        drop(faults);
        let fd = parents.as_fd().as_raw_fd();
        // A thread of the parent, which does not exist in the child, holds a reference to the
        // connection too. So a drop would never close the descriptor. Close it by number.
        mem::forget(parents);
        // SAFETY: the descriptor belongs to the parent's connection, which this process does not
        // use any more.
        unsafe { descriptor::close(fd) };
        let Inheritance { wire, ranges } = inheritance;
        let Some(wire) = wire else { return (None, Ok(())) };
        let mut client = match wire.and_then(|wire| Self::greet(path, wire)) {
            Ok(client) => client,
            Err(why) => return (None, Err(why)),
        };
        let mut outcome = Ok(());
        for (addresses, protection) in &ranges {
            if let Some(page) = pieces.page(addresses.start) {
                outcome = outcome.and(client.map_again(addresses, page, *protection));
            }
        }
        let is_told = request(&client.wire, Message::Forked, None);
        let is_told = is_told.map(drop).map_err(io::Error::from);
        let is_watched = client.watch_server();
        (Some(client), outcome.and(is_told).and(is_watched))
    }

    /// Maps the shared pages from `page` on in a forked child, at the same addresses as in its
    /// parent. The server sends the file of these pages.
    fn map_again(
        &mut self,
        addresses: &Range<usize>,
        page: usize,
        protection: u32,
    ) -> io::Result<()> {
        let (first, fd) = request(&self.wire, Message::Get { page: page as u64 }, None)?;
        let (fd, offset) = (fd.ok_or(Errno::NOMEM)?, (page - first) as u64);
        let flags = MapFlags::SHARED | MapFlags::FIXED_NOREPLACE;
        let (to, bytes) = (addresses.start as *mut _, addresses.len());
        // SAFETY: with `MAP_FIXED_NOREPLACE`, the call fails if another mapping is at these
        // addresses.
        unsafe { mm::mmap(to, bytes, ProtFlags::empty(), flags, fd, offset) }?;
        self.serve(addresses, page, protection)
    }

    /// Tells the server that the shared pages from `page` on are newly mapped at `addresses`, and
    /// makes the mapping accessible. Removes the mapping on failure.
    fn serve(&mut self, addresses: &Range<usize>, page: usize, protection: u32) -> io::Result<()> {
        let served = self.start_serving(addresses, page, protection);
        if served.is_err() {
            // SAFETY: the mapping was just made, and no other code knows of it.
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
            // SAFETY: neither advice changes the content of the memory.
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
        // SAFETY: the mapping was just made, and no other code knows of it.
        Ok(unsafe { memory::protect(addresses, protection) }?)
    }

    /// Starts a thread that ends this process when the server has ended. Otherwise the other
    /// threads would wait for missing pages for ever.
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

/// Connects to the server whose socket is at `path`.
fn connect(path: &Path) -> io::Result<Wire> {
    Ok(Wire::connect(path)?.renumbered(descriptor::protected))
}
