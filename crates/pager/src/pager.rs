//! A pager, and the regions whose page faults the pager handles. The regions may be larger than the
//! budget.

#![expect(unsafe_code, reason = "regions are memory that the fault server fills")]

use crate::{
    cache::{self, Cache, Counts, Settings},
    kernel::{
        address_space::{AddressSpace, PrivateSpace},
        frames::Frames,
        handle::FaultHandle,
        memory::{self, Memory},
        sigbus::{self, Registration},
        uffd::FaultMode,
    },
    nodes::Nodes,
    serve::{
        arena::{Arena, Owner},
        context::{Context, Request},
        fault_server::{self, FaultServer},
    },
    session::ledger::SlotGuard,
};
use interleaf_prefetch::advice::Advice;
use interleaf_procfs::page::PAGE_BYTES;
use interleaf_store::Store;
use interleaf_thread::{Thread, channel, lock};
use rustix::process::getpid;
use std::{
    io, mem,
    ops::Range,
    sync::{Arc, Mutex, RwLock, atomic::AtomicI32},
};

/// The default protection of a region: `PROT_READ | PROT_WRITE`.
pub const READ_WRITE: u32 = 3;

/// Maximum total size of a pager's regions, bytes: page numbers have 32 bits.
pub const ADDRESSES_MAX: usize = PAGE_BYTES << 32;

#[derive(Debug)]
pub struct Pager {
    pub(crate) context: Arc<Context>,
    thread: Mutex<Option<Thread>>,
    /// The registration with the handler of SIGBUS in [`FaultMode::Signal`]; `None` in the other
    /// mode.
    registration: Option<Registration>,
}

/// The kind of address space into which a pager maps its pages.
enum PageSpace {
    /// Private memory of this process, with frames on the given nodes.
    Private(Nodes),
    /// Memory that several processes map.
    Shared(Box<dyn AddressSpace>),
}

/// Allocates the frames of a pager, and binds them to `nodes`. Returns the frames, and the nodes
/// that they are bound to. The frames are not bound, and all count as one node, if the process has
/// a NUMA memory policy of its own (`set_mempolicy(2)`) or may not use one of the nodes.
fn placed_frames(
    settings: Settings,
    nodes: &Nodes,
    memory: &Memory,
) -> io::Result<(Frames, Nodes)> {
    if !nodes.numbers().is_empty() && !memory::has_policy() {
        let frames = Frames::new(&nodes.division(settings.frames), nodes.numbers());
        if let Ok(frames) = frames
            && memory::keep_on_nodes(&memory.addresses()).is_ok()
        {
            return Ok((frames, nodes.clone()));
        }
    }
    let nodes = Nodes::single();
    Ok((Frames::new(&nodes.division(settings.frames), &[])?, nodes))
}

/// Memory whose faults a pager handles. The size of a region may exceed the budget.
#[derive(Debug)]
pub struct Region {
    addresses: Range<usize>,
    context: Arc<Context>,
}

impl Pager {
    /// Starts a pager. `bytes` is the maximum size of all its regions together.
    ///
    /// # Errors
    /// When this user may not use `userfaultfd`, when memory cannot be mapped, or when `bytes` is
    /// more than [`ADDRESSES_MAX`].
    pub fn new(settings: Settings, bytes: usize, store: impl Store + 'static) -> io::Result<Self> {
        Self::with_slot(settings, bytes, store, None, FaultMode::Thread, Nodes::single())
    }

    /// Starts a pager of a process that may share the budget with other processes. `slot` is the
    /// process's slot in the ledger, and the initial number of frames of the process. The frames
    /// are bound to `nodes` if the process has no memory policy of its own and may use all of the
    /// nodes.
    ///
    /// # Errors
    /// The errors of [`Pager::new`].
    pub fn with_slot(
        settings: Settings,
        bytes: usize,
        store: impl Store + 'static,
        slot: Option<(SlotGuard, u32)>,
        mode: FaultMode,
        nodes: Nodes,
    ) -> io::Result<Self> {
        Self::start(settings, bytes, Box::new(store), slot, mode, PageSpace::Private(nodes))
    }

    /// Starts a pager whose pages are mapped into `space` instead of private memory of this
    /// process.
    pub(crate) fn with_space(
        space: Box<dyn AddressSpace>,
        settings: Settings,
        bytes: usize,
        store: impl Store + 'static,
        slot: (SlotGuard, u32),
    ) -> io::Result<Self> {
        let page_space = PageSpace::Shared(space);
        Self::start(settings, bytes, Box::new(store), Some(slot), FaultMode::Thread, page_space)
    }

    fn start(
        settings: Settings,
        bytes: usize,
        store: Box<dyn Store>,
        slot: Option<(SlotGuard, u32)>,
        mode: FaultMode,
        page_space: PageSpace,
    ) -> io::Result<Self> {
        if bytes > ADDRESSES_MAX {
            let why = format!("{bytes} bytes of addresses are more than {ADDRESSES_MAX} (16 TiB)");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
        }
        let memory = Memory::reserve(bytes)?;
        let (frames, nodes, served) = match &page_space {
            PageSpace::Private(nodes) => {
                let (frames, nodes) = placed_frames(settings, nodes, &memory)?;
                (frames, nodes, Some(memory.addresses()))
            }
            PageSpace::Shared(_) => (Frames::plain(settings.frames)?, Nodes::single(), None),
        };
        let handle = Arc::new(FaultHandle::new(served, &frames, mode)?);
        let space = match page_space {
            PageSpace::Private(_) => Box::new(PrivateSpace::new(Arc::clone(&handle))?),
            PageSpace::Shared(space) => space,
        };
        let mut cache = Cache::with_nodes(settings, nodes.division(settings.frames));
        let context = Arc::new(Context {
            handle: RwLock::new(Arc::clone(&handle)),
            arena: Mutex::new(Arena::new(memory.addresses())),
            memory,
            requests: Mutex::default(),
            counts: Mutex::default(),
            slot: Mutex::new(None),
            inherit: Mutex::default(),
            pinned: Mutex::default(),
            pinned_max: u64::from(cache::pinned_max(settings)),
            process: AtomicI32::new(getpid().as_raw_nonzero().get()),
            mode,
            nodes,
        });
        if let Some((slot, frames)) = slot {
            cache.resize(frames);
            context.set_slot(slot)?;
        }
        let server =
            FaultServer::with_space(space, Arc::clone(&context), handle, frames, cache, store);
        let (server, served) = server.into_shared();
        let registration = served.map(sigbus::register).transpose()?;
        let thread = Mutex::new(Some(fault_server::start(server)?));
        Ok(Self { context, thread, registration })
    }

    /// Starts `server` as the fault server of this process, which is a child that was just forked.
    pub(crate) fn replace_server(&self, server: FaultServer) -> io::Result<()> {
        let (server, served) = server.into_shared();
        if let Some((registration, served)) = self.registration.as_ref().zip(served) {
            sigbus::replace(registration, served);
        }
        // Forget the handle of the parent's pager thread instead of dropping it: this thread does
        // not exist in the child.
        std::mem::forget(lock(&self.thread).replace(fault_server::start(server)?));
        Ok(())
    }

    /// True if an address is in the address range that the pager reserves for regions.
    pub fn contains(&self, address: usize) -> bool {
        self.context.memory.addresses().contains(&address)
    }

    /// Allocates whole pages that read as zeros; `None` when no addresses are left.
    pub fn allocate(&self, bytes: usize, align: usize) -> Option<Range<usize>> {
        self.allocate_protected(bytes, align, READ_WRITE)
    }

    /// Allocates like [`Pager::allocate`], with the given protection (bits of `PROT_...`).
    pub fn allocate_protected(
        &self,
        bytes: usize,
        align: usize,
        protection: u32,
    ) -> Option<Range<usize>> {
        let region = lock(&self.context.arena).allocate(bytes, align)?;
        if protection != 0 && self.context.protect(&region, protection).is_err() {
            lock(&self.context.arena).set(region, Owner::Free);
            return None;
        }
        self.context.queue(Request::Add(self.context.pages(&region)));
        Some(region)
    }

    /// Frees pages of regions that the program does not use any more. The pager later reuses their
    /// addresses.
    pub fn free(&self, pages: &Range<usize>) {
        let numbers = self.context.pages(pages);
        self.context.forget_advice(&numbers);
        self.context.send(Request::Free(numbers));
    }

    /// Discards whole pages, and waits until the pages read as zeros.
    pub fn discard(&self, addresses: &Range<usize>) {
        let (done, is_done) = channel::channel();
        self.context.send(Request::Discard(self.context.pages(addresses), done));
        // `receive` returns without a reply if the fault server has ended. In that case no page of
        // a region can be accessed any more.
        let _ = is_done.receive();
    }

    /// Allocates a region of `bytes` that reads as zeros.
    ///
    /// # Errors
    /// When no addresses are left.
    pub fn region(&self, bytes: usize) -> io::Result<Region> {
        let pages = self.allocate(bytes, PAGE_BYTES).ok_or(io::ErrorKind::OutOfMemory)?;
        let addresses = pages.start..pages.start + bytes;
        Ok(Region { addresses, context: Arc::clone(&self.context) })
    }

    pub fn counts(&self) -> Counts {
        *lock(&self.context.counts)
    }

    /// Publishes `bytes` in the ledger: the sum of the sizes of the allocations of 128 KiB and more
    /// that are not in extended memory.
    pub fn publish_unextended(&self, bytes: u64) {
        // Only try the lock: in a child that was just forked, a thread that exists only in the
        // parent may hold the lock for ever.
        if let Ok(slot) = self.context.slot.try_lock()
            && let Some(slot) = &*slot
        {
            slot.publish_unextended(bytes);
        }
    }
}

impl Drop for Pager {
    fn drop(&mut self) {
        if !self.is_served() {
            // The pager belongs to the parent: its threads do not exist in this forked child, its
            // slot is the parent's, and other threads may have held its locks at the fork.
            mem::forget(mem::take(&mut self.thread));
            mem::forget(Arc::clone(&self.context));
            return;
        }
        self.context.send(Request::Stop);
        if let Some(thread) = lock(&self.thread).take() {
            thread.join();
        }
        if let Some(registration) = &self.registration {
            sigbus::unregister(registration);
        }
        // Clear this process's slot in the ledger explicitly. Dropping the reference to the slot is
        // not enough, because the thread that `Context::follow_share` has started may still hold
        // another reference.
        if let Some(slot) = &*lock(&self.context.slot) {
            slot.release();
        }
    }
}

impl Region {
    pub fn bytes(&self) -> &[u8] {
        let address = self.addresses.start as *const u8;
        // SAFETY: the region is accessible as long as this `Region` exists: the pager maps missing
        // pages on faults.
        unsafe { std::slice::from_raw_parts(address, self.addresses.len()) }
    }

    /// The bytes of the region, writable.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        let address = self.addresses.start as *mut u8;
        // SAFETY: the region is accessible as long as this `Region` exists, and the `Region` is
        // borrowed exclusively.
        unsafe { std::slice::from_raw_parts_mut(address, self.addresses.len()) }
    }

    /// Gives advice about a range of the region's bytes; bytes beyond the end of the region are
    /// ignored.
    pub fn advise(&self, range: Range<usize>, advice: Advice) {
        let end = range.end.min(self.addresses.len());
        if range.start < end {
            let at = |offset: usize| self.addresses.start + offset;
            let pages =
                at(range.start) / PAGE_BYTES * PAGE_BYTES..at(end).next_multiple_of(PAGE_BYTES);
            self.context.send(Request::Advise(
                self.context.pages(&pages),
                advice,
                self.context.node_here(),
            ));
        }
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        if !self.context.is_served() {
            // A forked child does not have the region, and cannot free the region of its parent.
            return;
        }
        let end = self.addresses.end.next_multiple_of(PAGE_BYTES);
        let pages = self.context.pages(&(self.addresses.start..end));
        self.context.send(Request::Free(pages));
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;
    use interleaf_prefetch::Limits;
    use interleaf_store::FileStore;

    const SETTINGS: Settings =
        Settings { frames: 2048, order: 2, prefetch: Limits { initial: 16, max: 256 } };

    #[test]
    fn more_is_kept_than_fits() {
        let folder = tempfile::tempdir_in(".").unwrap();
        let store = FileStore::open(folder.path()).unwrap();
        let pager = Pager::new(SETTINGS, 1 << 30, store).unwrap();
        let mut region = pager.region(32 << 20).unwrap();
        let word = |at: usize, lap: usize| (at as u64).wrapping_mul(0x9e37_79b9) ^ lap as u64;
        for lap in 0..3 {
            for (at, bytes) in region.bytes_mut().chunks_exact_mut(8).enumerate() {
                if lap > 0 {
                    assert_eq!(bytes, word(at, lap - 1).to_ne_bytes(), "word {at} in lap {lap}");
                }
                bytes.copy_from_slice(&word(at, lap).to_ne_bytes());
            }
        }
        let counts = pager.counts();
        assert!(counts.read > 0 && counts.written > 0, "{counts:?}");
    }
}
