//! The context of a pager: the state that the threads of a program share with the pager's thread,
//! and their requests to this thread.

#![expect(unsafe_code, reason = "regions are protected and reserved")]

use crate::{
    cache::{Cache, Counts, node::Node},
    kernel::{
        handle::FaultHandle,
        memory::{self, Memory},
        uffd::FaultMode,
    },
    nodes::Nodes,
    ranges::Ranges,
    serve::arena::{Arena, Owner},
    session::ledger::SlotGuard,
};
use interleaf_prefetch::{advice::Advice, page::Page};
use interleaf_procfs::page::PAGE_BYTES;
use interleaf_store::ChildStore;
use interleaf_thread::{
    channel::{Receiver, Sender},
    lock,
};
use rustix::{process::getpid, thread::sched_getcpu};
use std::{
    io,
    ops::Range,
    sync::{
        Arc, Mutex, PoisonError, RwLock,
        atomic::{AtomicI32, Ordering},
    },
};

/// The state that the threads of a program share with the pager's thread.
#[derive(Debug)]
pub(crate) struct Context {
    /// The kernel objects of the pager. A forked child replaces them with new ones.
    pub(crate) handle: RwLock<Arc<FaultHandle>>,
    pub(crate) memory: Memory,
    pub(crate) arena: Mutex<Arena>,
    pub(crate) requests: Mutex<Vec<Request>>,
    pub(crate) counts: Mutex<Counts>,
    /// The slot of this process in the ledger of the session.
    pub(crate) slot: Mutex<Option<Arc<SlotGuard>>>,
    pub(crate) inherit: Mutex<Ranges<Inherit>>,
    /// Pages that the program has pinned (`mlock(2)`).
    pub(crate) pinned: Mutex<Ranges<()>>,
    /// Maximum number of pages that may be pinned.
    pub(crate) pinned_max: u64,
    /// ID of the process whose faults the pager handles. A forked child has the ID of its parent
    /// here until the child has a fault server of its own.
    pub(crate) process: AtomicI32,
    pub(crate) mode: FaultMode,
    /// The NUMA nodes to which the frames are bound.
    pub(crate) nodes: Nodes,
}

/// A request to the fault server.
#[derive(Debug)]
pub(crate) enum Request {
    /// Adds pages to the regions. These are the pages of a new region, pages at the end of a
    /// region, or pages that the program maps at an address of its choice.
    Add(Range<Page>),
    /// Discards pages of a region that the program does not use any more, and returns their
    /// addresses to the arena.
    Free(Range<Page>),
    /// Discards pages, and sends a reply as soon as the pages read as zeros.
    Discard(Range<Page>, Sender<()>),
    /// Removes discarded pages from their region.
    Remove(Range<Page>),
    /// Adopts the share of the budget that the ledger assigns to this process. The share may have
    /// changed.
    Budget,
    /// Applies advice about pages. The node is that of the thread that gives the advice.
    Advise(Range<Page>, Advice, Node),
    /// Prepares a fork of the process.
    Freeze(Freeze),
    /// Ends the fault server.
    Stop,
}

/// A fork that the fault server prepares.
#[derive(Debug)]
pub(crate) struct Freeze {
    /// Sends the child's initial state to the forking thread when no page is mapped any more.
    pub(crate) frozen: Sender<io::Result<Child>>,
    /// Receives the end of the fork. The fault server continues when it receives a value here, or
    /// when the channel is closed.
    pub(crate) thaw: Receiver<()>,
}

/// The initial state of a child's pager.
pub(crate) struct Child {
    pub(crate) cache: Cache,
    pub(crate) store: ChildStore,
}

impl std::fmt::Debug for Child {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Child")
    }
}

/// The treatment of pages in a forked child, which the program sets by `madvise(2)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Inherit {
    /// The pages are not mapped in the child (`MADV_DONTFORK`).
    Omitted,
    /// The pages are zeros in the child (`MADV_WIPEONFORK`).
    Wiped,
}

impl Context {
    /// True if the pager handles faults of this process ([`Pager::is_served`]).
    ///
    /// [`Pager::is_served`]: crate::pager::Pager::is_served
    pub(crate) fn is_served(&self) -> bool {
        self.process.load(Ordering::Relaxed) == getpid().as_raw_nonzero().get()
    }

    /// The node that the calling thread runs on.
    pub(crate) fn node_here(&self) -> Node {
        match self.nodes.numbers().len() {
            0 | 1 => 0,
            _ => self.nodes.of_cpu(sched_getcpu()),
        }
    }

    /// The page that contains an address.
    pub(crate) fn page(&self, address: usize) -> Page {
        ((address - self.memory.start()) / PAGE_BYTES) as Page
    }

    /// The pages that a range of addresses covers, wholly or in part.
    pub(crate) fn pages(&self, region: &Range<usize>) -> Range<Page> {
        self.page(region.start)..self.page(region.end.next_multiple_of(PAGE_BYTES))
    }

    pub(crate) fn address(&self, page: Page) -> usize {
        self.memory.start() + page as usize * PAGE_BYTES
    }

    pub(crate) fn addresses(&self, pages: &Range<Page>) -> Range<usize> {
        self.address(pages.start)..self.address(pages.end)
    }

    /// The addresses of the frames.
    pub(crate) fn frames(&self) -> Range<usize> {
        self.handle().frames.clone()
    }

    pub(crate) fn handle(&self) -> Arc<FaultHandle> {
        Arc::clone(&self.handle.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Forgets the pins of `pages`, and their treatment in a forked child, because the program
    /// frees or unmaps the pages.
    pub(crate) fn forget_advice(&self, pages: &Range<Page>) {
        lock(&self.pinned).set(pages, None);
        lock(&self.inherit).set(pages, None);
    }

    /// Sets the protection (bits of `PROT_...`) of `pages`, which belong to regions.
    pub(crate) fn protect(&self, pages: &Range<usize>, protection: u32) -> io::Result<()> {
        debug_assert!(self.memory.addresses().contains(&pages.start));
        // SAFETY: the pages belong to regions, whose protection the program may choose.
        Ok(unsafe { memory::protect(pages, protection) }?)
    }

    /// Reserves `pages` again, at which the program had mapped other memory.
    pub(crate) fn reserve_again(&self, pages: &Range<usize>) -> io::Result<()> {
        // SAFETY: the addresses are in the range that the pager reserves, and the program's mapping
        // at these addresses is not needed any more.
        unsafe { memory::reserve_again(pages) }?;
        if !self.nodes.numbers().is_empty() {
            memory::keep_on_nodes(pages)?;
        }
        Ok(self.handle().userfault.register(pages)?)
    }

    /// Makes pages of a region inaccessible, and returns their addresses to the arena.
    pub(crate) fn release(&self, pages: &Range<usize>) {
        // The error is ignored. The call fails if the process has too many mappings. The pages then
        // stay accessible, and read as zeros.
        let _ = self.protect(pages, 0);
        lock(&self.arena).set(pages.clone(), Owner::Free);
    }

    /// Sets the slot of this process in the ledger, and starts to follow the process's share of the
    /// budget.
    pub(crate) fn set_slot(self: &Arc<Self>, slot: SlotGuard) -> io::Result<()> {
        let slot = Arc::new(slot);
        *lock(&self.slot) = Some(Arc::clone(&slot));
        self.follow_share(slot)
    }

    /// Starts a thread that notifies the fault server whenever a share in the ledger changes, or a
    /// process releases frames.
    pub(crate) fn follow_share(self: &Arc<Self>, slot: Arc<SlotGuard>) -> io::Result<()> {
        let context = Arc::downgrade(self);
        interleaf_thread::spawn("pager-budget", move || {
            let mut since = slot.changes();
            while let Some(context) = context.upgrade() {
                context.send(Request::Budget);
                drop(context);
                slot.wait(since);
                since = slot.changes();
            }
        })
        .map(drop)
    }

    /// Publishes the counters of the pager, the number of pages with content, and the number of
    /// resident pages of each node.
    pub(crate) fn publish(&self, counts: Counts, content: u64, by_node: &[u64]) {
        *lock(&self.counts) = counts;
        if let Some(slot) = &*lock(&self.slot) {
            slot.publish(&counts, content, by_node);
        }
    }

    /// Queues a request without waking the fault server. The fault server handles the request
    /// before the next fault.
    pub(crate) fn queue(&self, request: Request) {
        lock(&self.requests).push(request);
    }

    /// Queues a request, and wakes the fault server.
    pub(crate) fn send(&self, request: Request) {
        self.queue(request);
        self.handle().ring();
    }
}
