//! The address spaces of the processes that share memory files. The server maps pages into these
//! address spaces and unmaps pages from them.

use super::pieces::MappedPieces;
use crate::{
    fatal::fatal,
    kernel::{
        address_space::AddressSpace,
        frames::Frames,
        relocate::Pinned,
        uffd::{Fault, Messages, Userfault},
    },
};
use interleaf_procfs::page::PAGE_BYTES;
use rustix::{
    event::{Timespec, epoll},
    fs::{
        FallocateFlags, MemfdFlags, SealFlags, fallocate, fcntl_add_seals, ftruncate, memfd_create,
    },
    io::{self, Errno},
};
use std::{
    collections::{BTreeMap, BTreeSet},
    fs::File,
    mem::MaybeUninit,
    ops::Range,
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::fs::FileExt,
    },
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// Maximum number of processes whose faults one call of [`AddressSpace::faults`] reads.
const EVENTS: usize = 16;

/// The address at which [`Peers::has_ended`] removes write protection, to test whether an address
/// space still exists. No memory needs to be mapped at this address. If a thread happens to wait
/// for a page at this address, the thread only repeats its access.
const PROBE_ADDRESS: usize = 1 << 30;

/// Size of the range after a faulting page in which pages are mapped too, if the file contains them
/// already. Together with the faulting page, the range has 64 KiB, like the fault-around of the
/// kernel for files (`fault_around_bytes`).
const FAULT_AROUND: usize = 15 * PAGE_BYTES;

/// A timeout of zero, with which a poll does not wait.
const NO_WAIT: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };

/// The memory files and the processes that map them.
#[derive(Debug)]
pub(super) struct Peers {
    table: Mutex<Table>,
    epoll: OwnedFd,
}

#[derive(Debug, Default)]
struct Table {
    /// The memory files, keyed by their first address in the range that the server has reserved.
    files: BTreeMap<usize, MemoryFile>,
    /// The address spaces of the processes that share files, keyed by the identifiers that
    /// [`Peers::add_space`] has returned.
    spaces: BTreeMap<u64, PeerSpace>,
    last_id: u64,
}

#[derive(Debug)]
struct MemoryFile {
    file: File,
    bytes: usize,
}

#[derive(Debug)]
struct PeerSpace {
    faults: Userfault,
    pieces: MappedPieces,
}

impl Peers {
    pub(super) fn new() -> io::Result<Arc<Self>> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        Ok(Arc::new(Self { table: Mutex::default(), epoll }))
    }

    /// Adds an address space, whose faults are read from `faults`. Returns the identifier of the
    /// address space.
    pub(super) fn add_space(&self, faults: Userfault) -> io::Result<u64> {
        let mut table = self.table();
        table.last_id += 1;
        let id = table.last_id;
        let data = epoll::EventData::new_u64(id);
        epoll::add(&self.epoll, &faults, data, epoll::EventFlags::IN)?;
        table.spaces.insert(id, PeerSpace { faults, pieces: MappedPieces::default() });
        Ok(id)
    }

    /// Makes the memory file of `pages`, which are addresses in the range that the server has
    /// reserved.
    pub(super) fn add_file(&self, pages: &Range<usize>) -> io::Result<File> {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let file = memfd_create("interleaf-shared", flags)?;
        ftruncate(&file, pages.len() as u64)?;
        fcntl_add_seals(&file, SealFlags::GROW | SealFlags::SHRINK | SealFlags::SEAL)?;
        let file = File::from(file);
        let other = file.try_clone().map_err(|_| Errno::MFILE)?;
        self.table().files.insert(pages.start, MemoryFile { file, bytes: pages.len() });
        Ok(other)
    }

    /// Returns the file that contains `page`, with the first page of this file.
    pub(super) fn file(&self, page: usize) -> Option<(usize, File)> {
        let table = self.table();
        let (file, offset) = table.file_of(page)?;
        Some((page - usize::try_from(offset).ok()?, file.try_clone().ok()?))
    }

    /// Records that the address space `space` maps the pages from `page` on at `addresses`. Returns
    /// false if there is no such address space, or if no file contains all of the pages.
    pub(super) fn map(&self, space: u64, addresses: &Range<usize>, page: usize) -> bool {
        let mut table = self.table();
        let Some(last) = page.checked_add(addresses.len()).and_then(|end| end.checked_sub(1))
        else {
            return false;
        };
        let start = |page: usize| table.file_of(page).map(|(_, offset)| page as u64 - offset);
        if addresses.is_empty() || start(page).is_none() || start(page) != start(last) {
            return false;
        }
        let Some(space) = table.spaces.get_mut(&space) else { return false };
        space.pieces.insert(addresses, page);
        true
    }

    /// Records that the address space `space` has unmapped `addresses`.
    pub(super) fn unmap(&self, space: u64, addresses: &Range<usize>) {
        if let Some(space) = self.table().spaces.get_mut(&space) {
            space.pieces.remove(addresses);
        }
    }

    /// Returns the first page of each file of which the address space `space` maps at least one
    /// page.
    pub(super) fn files_of(&self, space: u64) -> Vec<usize> {
        let table = self.table();
        let Some(space) = table.spaces.get(&space) else { return vec![] };
        let is_mapped =
            |start: usize, file: &MemoryFile| space.pieces.has_pages(&(start..start + file.bytes));
        let mapped = table.files.iter().filter(|(start, file)| is_mapped(**start, file));
        mapped.map(|(start, _)| *start).collect()
    }

    /// True if the address space `space` has ended: its process has exited, or runs another
    /// program.
    pub(super) fn has_ended(&self, space: u64) -> bool {
        let table = self.table();
        let Some(space) = table.spaces.get(&space) else { return true };
        space.faults.write_protect(&(PROBE_ADDRESS..PROBE_ADDRESS + PAGE_BYTES), false)
            == Err(Errno::SRCH)
    }

    /// Removes an address space that has ended.
    pub(super) fn remove_space(&self, space: u64) {
        if let Some(space) = self.table().spaces.remove(&space) {
            // Remove the userfaultfd from the epoll set explicitly. It is not enough to close the
            // server's descriptor, because another process may still have a copy of it open.
            let _ = epoll::delete(&self.epoll, &space.faults);
        }
    }

    /// Removes the files of which no process maps a page, except those whose first page is in
    /// `but`. Returns the page range of each removed file.
    pub(super) fn sweep(&self, but: &[usize]) -> Vec<Range<usize>> {
        let mut table = self.table();
        let Table { files, spaces, .. } = &mut *table;
        let is_used =
            |pages: &Range<usize>| spaces.values().any(|space| space.pieces.has_pages(pages));
        let gone = files.extract_if(.., |start, file| {
            !but.contains(start) && !is_used(&(*start..*start + file.bytes))
        });
        gone.map(|(start, file)| start..start + file.bytes).collect()
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Table {
    /// The file that contains a page, and the offset of the page in the file.
    fn file_of(&self, page: usize) -> Option<(&File, u64)> {
        let (start, shared) = self.files.range(..=page).next_back()?;
        let offset = page - start;
        (offset < shared.bytes).then_some((&shared.file, offset as u64))
    }
}

impl PeerSpace {
    /// Write-protects the pages at `addresses`. Pages that the process has unmapped are skipped.
    fn protect(&self, addresses: &Range<usize>) -> Result<(), Pinned> {
        match self.faults.write_protect(addresses, true) {
            Ok(()) => Ok(()),
            // The process has ended, so no page is mapped any more.
            Err(Errno::SRCH) => Ok(()),
            // The process has unmapped a part of the addresses, and its message about this has not
            // arrived yet. Protect the remaining pages one by one.
            Err(Errno::NOENT | Errno::INVAL) if addresses.len() > PAGE_BYTES => addresses
                .clone()
                .step_by(PAGE_BYTES)
                .try_for_each(|page| self.protect(&(page..page + PAGE_BYTES))),
            Err(Errno::NOENT | Errno::INVAL) => Ok(()),
            // The kernel has no memory for page tables. Report the pages as pinned, so that the
            // unmap is retried.
            Err(_) => Err(Pinned),
        }
    }

    /// Maps the faulting page at `address`, and those pages in the [`FAULT_AROUND`] bytes after it
    /// that the file contains. If the faulting page is mapped already or missing in the file, only
    /// wakes the thread, which repeats the access.
    fn map_resident(&self, address: usize) {
        let page = address..address + PAGE_BYTES;
        match self.faults.continue_pages(&page) {
            Ok(()) => {
                for (part, _) in self.pieces.parts(&(page.end..page.end + FAULT_AROUND)) {
                    // The error is ignored: the call stops at the first page that is missing in the
                    // file or mapped already.
                    let _ = self.faults.continue_pages(&part);
                }
                return;
            }
            Err(Errno::EXIST) => {
                let _ = self.faults.write_protect(&page, false);
            }
            Err(_) => {}
        }
        let _ = self.faults.wake(&page);
    }
}

/// A thread of a process with the address space `space`. It waits for the page `page`, at the
/// address `address`.
#[derive(Clone, Copy, Debug)]
struct Waiter {
    space: u64,
    address: usize,
    page: usize,
}

/// The address spaces of all processes that share memory files. To the server's pager, they are one
/// [`AddressSpace`].
#[derive(Debug)]
pub(super) struct SharedSpace {
    peers: Arc<Peers>,
    waiters: Vec<Waiter>,
    messages: Messages,
}

impl SharedSpace {
    pub(super) fn new(peers: Arc<Peers>) -> Self {
        Self { peers, waiters: vec![], messages: Messages::default() }
    }

    /// Removes the threads that wait for `pages` from `waiters`, and returns them.
    fn take_waiters(&mut self, pages: &Range<usize>) -> Vec<Waiter> {
        self.waiters.extract_if(.., |waiter| pages.contains(&waiter.page)).collect()
    }
}

impl AddressSpace for SharedSpace {
    fn faults(&mut self) -> std::io::Result<Vec<Fault>> {
        let mut events = [MaybeUninit::uninit(); EVENTS];
        let (events, _) = match epoll::wait(&self.peers.epoll, &mut events, Some(&NO_WAIT)) {
            Err(Errno::INTR) => return Ok(vec![]),
            events => events?,
        };
        let mut found = vec![];
        let table = self.peers.table();
        for event in events {
            let id = event.data.u64();
            let Some(space) = table.spaces.get(&id) else { continue };
            let Ok(faults) = space.faults.faults(&mut self.messages) else { continue };
            for fault in faults {
                let Some(page) = space.pieces.page(fault.address) else {
                    // The page was unmapped after the thread had faulted.
                    let _ = space.faults.wake(&(fault.address..fault.address + PAGE_BYTES));
                    continue;
                };
                self.waiters.push(Waiter { space: id, address: fault.address, page });
                found.push(Fault { address: page, ..fault });
            }
        }
        Ok(found)
    }

    fn fd(&self) -> BorrowedFd<'_> {
        self.peers.epoll.as_fd()
    }

    fn has_threads_here(&self) -> bool {
        false
    }

    fn move_memory(&mut self, frames: &mut Frames, from: &Range<usize>, _: &Range<usize>) {
        // Nothing needs to be moved: release the memory of the frames in `from`. The kernel
        // allocates memory for the destination frames at their first touch.
        frames.release(from);
    }

    fn map_in(&mut self, frames: &mut Frames, part: &Range<usize>, page: usize) {
        let pages = page..page + part.len();
        let waiters = self.take_waiters(&pages);
        let table = self.peers.table();
        // If the file was removed, no process maps the page, and its content is dropped.
        if let Some((file, offset)) = table.file_of(page)
            && let Err(why) = file.write_all_at(frames.part(part.clone()), offset)
        {
            fatal(format_args!("shared memory cannot be brought in: {why}"));
        }
        frames.release(part);
        let spaces: BTreeSet<u64> = waiters.iter().map(|waiter| waiter.space).collect();
        for id in spaces {
            let Some(space) = table.spaces.get(&id) else { continue };
            let mapped = space.pieces.addresses(&pages);
            if mapped.iter().all(|range| space.faults.continue_pages(range).is_ok()) {
                continue;
            }
            // The call above has failed for a range: map the pages that threads wait for one by
            // one.
            waiters
                .iter()
                .filter(|it| it.space == id)
                .for_each(|it| space.map_resident(it.address));
        }
    }

    fn unmap_out(
        &mut self,
        frames: &mut Frames,
        part: &Range<usize>,
        page: usize,
    ) -> Result<bool, Pinned> {
        let pages = page..page + part.len();
        let table = self.peers.table();
        let Some((file, offset)) = table.file_of(page) else {
            frames.part_mut(part.clone()).fill(0);
            return Ok(true);
        };
        for space in table.spaces.values() {
            space.pieces.addresses(&pages).iter().try_for_each(|range| space.protect(range))?;
        }
        if let Err(why) = file.read_exact_at(frames.part_mut(part.clone()), offset) {
            fatal(format_args!("shared memory cannot be given up: {why}"));
        }
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        if let Err(why) = fallocate(file, flags, offset, part.len() as u64) {
            fatal(format_args!("shared memory cannot be given back: {why}"));
        }
        Ok(false)
    }

    fn drop_pinned(&mut self, frames: &mut Frames, part: &Range<usize>, page: usize) {
        // These pages count as pinned only because their write protection has failed ([`Pinned`]).
        // Pages are discarded only when no process maps their file any more, so the unmap can
        // succeed now.
        if self.unmap_out(frames, part, page).is_err() {
            frames.part_mut(part.clone()).fill(0);
        }
    }

    fn wake(&mut self, pages: &Range<usize>) {
        let waiters = self.take_waiters(pages);
        let table = self.peers.table();
        for Waiter { space, address, .. } in waiters {
            if let Some(space) = table.spaces.get(&space) {
                space.map_resident(address);
            }
        }
    }

    fn poison(&mut self, pages: &Range<usize>) {
        self.take_waiters(pages);
        for space in self.peers.table().spaces.values() {
            for range in space.pieces.addresses(pages) {
                let _ = space.faults.poison(&range);
            }
        }
    }

    /// Does nothing. Pages are discarded only when no process maps their file any more, so there is
    /// no page table entry to clear.
    fn clear(&mut self, _: &Range<usize>) {}
}
