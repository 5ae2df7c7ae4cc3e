//! Forks: a child has the memory content of its parent at the time of the fork, and a pager of its
//! own.
//!
//! A frame belongs to one process. Before a fork, therefore, all pages are unmapped, and dirty
//! pages are written back. After the fork, parent and child each load the pages that they touch
//! into frames of their own. Parent and child each write dirty pages back to their own layer of the
//! store ([`interleaf_store::Store::fork`]).

#![expect(unsafe_code, reason = "descriptors of a parent are closed by number")]

use crate::{
    cache::Counts,
    kernel::{frames::Frames, handle::FaultHandle, memory},
    pager::Pager,
    ranges::Ranges,
    serve::{
        arena::{Arena, Owner},
        context::{Child, Context, Freeze, Inherit, Request},
        fault_server::FaultServer,
    },
    session::ledger::SlotGuard,
};
use interleaf_procfs::page::PAGE_BYTES;
use interleaf_store::descriptor;
use interleaf_thread::{
    channel::{self, Sender},
    lock,
};
use rustix::{mm::Advice, process::getpid};
use std::{
    io,
    mem::{self, ManuallyDrop},
    ops::Range,
    os::fd::{AsFd, AsRawFd},
    sync::{Arc, MutexGuard, PoisonError, RwLockWriteGuard, atomic::Ordering},
};

/// `PROT_NONE`: each access raises SIGSEGV.
const NO_ACCESS: u32 = 0;

/// A process that is ready to fork. The value holds all locks of the pager during the fork. If
/// another thread held one of them instead, the child could never take this lock, because that
/// thread does not exist in the child.
#[derive(Debug)]
pub struct Fork<'a> {
    pager: &'a Pager,
    child: io::Result<Child>,
    /// Resumes the fault server of the parent. Never dropped in a child: the parent's fault server,
    /// which does not exist in the child, may hold the channel's lock.
    thaw: ManuallyDrop<Sender<()>>,
    arena: MutexGuard<'a, Arena>,
    requests: MutexGuard<'a, Vec<Request>>,
    _counts: MutexGuard<'a, Counts>,
    slot: MutexGuard<'a, Option<Arc<SlotGuard>>>,
    pinned: MutexGuard<'a, Ranges<()>>,
    inherit: MutexGuard<'a, Ranges<Inherit>>,
    handle: RwLockWriteGuard<'a, Arc<FaultHandle>>,
}

impl Pager {
    /// True if the pager handles faults of this process. False in a child that the program has
    /// forked by a system call that the preloaded library did not see. The pager then still belongs
    /// to the parent.
    pub fn is_served(&self) -> bool {
        self.context.is_served()
    }

    /// Sets how `pages` are treated in a forked child. `None` is the default: the child has a copy
    /// of the pages.
    pub fn set_inherit(&self, pages: &Range<usize>, inherit: Option<Inherit>) {
        lock(&self.context.inherit).set(&self.context.pages(pages), inherit);
    }

    /// Prepares a fork. The caller must fork at once. Until it calls `in_parent` or `in_child`, the
    /// caller must not touch regions, and other threads that fault on regions wait.
    pub fn before_fork(&self) -> Fork<'_> {
        let (frozen, is_frozen) = channel::channel();
        let (thaw, is_thawed) = channel::channel();
        self.context.send(Request::Freeze(Freeze { frozen, thaw: is_thawed }));
        let child = is_frozen.receive().unwrap_or_else(|| Err(io::ErrorKind::BrokenPipe.into()));
        let Context { arena, requests, counts, slot, pinned, inherit, handle, .. } = &*self.context;
        let fork = Fork {
            pager: self,
            child,
            thaw: ManuallyDrop::new(thaw),
            arena: lock(arena),
            requests: lock(requests),
            _counts: lock(counts),
            slot: lock(slot),
            pinned: lock(pinned),
            inherit: lock(inherit),
            handle: handle.write().unwrap_or_else(PoisonError::into_inner),
        };
        if fork.child.is_ok() {
            fork.advise(Advice::LinuxDoFork);
        }
        fork
    }
}

impl Fork<'_> {
    /// Gives advice about the address range that the pager reserves, except where the program has
    /// mapped other memory. Afterwards, pages with [`Inherit::Omitted`] have `MADV_DONTFORK` again.
    fn advise(&self, advice: Advice) {
        let context = &self.pager.context;
        for addresses in reserved(&self.arena, context) {
            // SAFETY: the callers pass `MADV_DOFORK` or `MADV_DONTFORK`, which change no content.
            let _ = unsafe { memory::advise(&addresses, advice) };
        }
        for (pages, inherit) in self.inherit.iter() {
            if inherit == Inherit::Omitted {
                let addresses = context.addresses(&pages);
                // SAFETY: `MADV_DONTFORK` changes no content.
                let _ = unsafe { memory::advise(&addresses, Advice::LinuxDontFork) };
            }
        }
    }

    /// Resumes the pager in the parent. Must also be called after a failed fork.
    pub fn in_parent(self) {
        self.advise(Advice::LinuxDontFork);
        ManuallyDrop::into_inner(self.thaw).send(());
    }

    /// Sets up the pager in the child: starts a fault server of its own.
    ///
    /// # Errors
    /// When the child's pager cannot be set up. The child then has no access to the extended
    /// memory, because no thread would handle its faults, and the kernel would map zeros.
    pub fn in_child(mut self) -> io::Result<()> {
        let outcome = self.serve_in_child();
        if outcome.is_err() {
            for addresses in reserved(&self.arena, &self.pager.context) {
                // SAFETY: the pager keeps no Rust object at the reserved addresses. If the fork
                // could not be prepared, the child has no mapping at these addresses, and the call
                // fails.
                let _ = unsafe { memory::protect(&addresses, NO_ACCESS) };
            }
        }
        outcome
    }

    fn serve_in_child(&mut self) -> io::Result<()> {
        let context = &self.pager.context;
        // Reserve the omitted addresses first: otherwise the kernel could place the next mapping,
        // such as the stack of a thread, at these addresses.
        for (pages, inherit) in self.inherit.iter() {
            if inherit == Inherit::Omitted {
                // SAFETY: the child has no mapping at these addresses, which the pager reserves.
                unsafe { memory::reserve_again(&context.addresses(&pages)) }?;
            }
        }
        let fds = [self.handle.userfault.as_fd().as_raw_fd(), self.handle.doorbell.as_raw_fd()];
        for request in &mut *self.requests {
            // Forget the sender instead of dropping it. A drop takes the lock of the channel, and a
            // thread that exists only in the parent may hold this lock.
            if let Request::Discard(_, done) = request {
                mem::forget(mem::replace(done, channel::channel().0));
            }
        }
        let child = mem::replace(&mut self.child, Err(io::ErrorKind::Other.into()))?;
        self.advise(Advice::LinuxDontFork);
        let Child { mut cache, store } = child;
        // Pins are not inherited (mlock(2)).
        *self.pinned = Ranges::new();
        for (pages, inherit) in self.inherit.iter() {
            if inherit == Inherit::Wiped {
                cache.reset_to_zeros(&pages);
            }
        }
        // The parent keeps its slot in the ledger, and the child takes a new one.
        if let Some((slot, frames)) = self.slot.as_ref().map(|slot| slot.for_child()).transpose()? {
            let slot = Arc::new(slot);
            *self.slot = Some(Arc::clone(&slot));
            context.follow_share(slot)?;
            cache.resize(u32::try_from(frames).unwrap_or(u32::MAX));
        }
        let frames = Frames::new(cache.division(), context.nodes.numbers())?;
        let addresses = reserved(&self.arena, context);
        let handle = Arc::new(FaultHandle::new(addresses, &frames, context.mode)?);
        // The parent's fault server holds a reference to the old handle that is never dropped in
        // the child. So the old handle would never be freed. Forget it, and close its descriptors
        // by number.
        mem::forget(mem::replace(&mut *self.handle, Arc::clone(&handle)));
        for fd in fds {
            // SAFETY: the descriptors belong to the parent's handle, which the child does not use
            // any more.
            unsafe { descriptor::close(fd) };
        }
        let mut store = store()?;
        for (pages, inherit) in self.inherit.iter() {
            if inherit == Inherit::Wiped {
                // Also erase the pages in the store. A later read of an extent reads all pages of
                // the extent from the store, even those that the cache takes for zeros.
                let bytes = |pages: u64| pages * PAGE_BYTES as u64;
                store.erase(bytes(pages.start), bytes(pages.end - pages.start));
            }
        }
        let server = FaultServer::new(Arc::clone(context), handle, frames, cache, store)?;
        context.process.store(getpid().as_raw_nonzero().get(), Ordering::Relaxed);
        self.pager.replace_server(server)
    }
}

/// The address ranges that the pager reserves, except those at which the program has mapped other
/// memory.
fn reserved(arena: &Arena, context: &Context) -> Vec<Range<usize>> {
    let mut reserved: Vec<Range<usize>> = vec![];
    for (piece, owner) in arena.pieces(context.memory.addresses()) {
        match reserved.last_mut().filter(|last| last.end == piece.start) {
            _ if owner == Owner::Foreign => {}
            Some(last) => last.end = piece.end,
            None => reserved.push(piece),
        }
    }
    reserved
}
