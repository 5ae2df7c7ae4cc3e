//! The fault server: the loop that translates between the kernel, the store and the cache.
//!
//! ```text
//!   fault          ->  Event::Fault      Action::Read, Zero      ->  store, frames
//!   transfer done  ->  Event::Filled     Action::MoveIn, Wake    ->  address space
//!   page moved     ->  Event::MovedIn    Action::MoveOut, Write  ->  address space, store
//! ```
//!
//! The cache ([`crate::cache`]) makes all decisions. The fault server executes the decisions, and
//! owns everything that touches the kernel.

#![expect(unsafe_code, reason = "pages are moved under the program")]

mod budget_share;

use crate::{
    cache::{
        Action, Cache, DirtyPages, Event, Failed, MapAttempt, PageFault, Span, index::ExtentId,
    },
    fatal::fatal,
    kernel::{
        address_space::{AddressSpace, PrivateSpace},
        cpu_contention::CpuContention,
        cpu_sharing::CpuSharing,
        frames::Frames,
        handle::FaultHandle,
        relocate::Pinned,
        sigbus::Served,
        uffd::{Fault, FaultMode},
        waiters::{MapOutcome, TryMap, Waiters},
    },
    nodes::ThreadNodes,
    serve::{
        arena::{Arena, Owner},
        context::{Child, Context, Freeze, Request},
        dirty::DirtyTracker,
        error_log::ErrorLog,
        stall::Stalls,
        transfers::{Finished, Transfers},
        wake_sources::WakeSources,
    },
};
use interleaf_prefetch::page::Page;
use interleaf_procfs::page::{HUGE_BYTES, PAGE_BYTES};
use interleaf_store::Store;
use interleaf_thread::{Thread, channel::Sender, lock, spawn};
use std::{
    cell::Cell,
    collections::{BTreeSet, VecDeque},
    io, mem,
    ops::Range,
    os::fd::AsRawFd as _,
    panic::{self, AssertUnwindSafe},
    sync::{Arc, Mutex, MutexGuard},
    time::{Duration, Instant},
};

/// Time to spin before blocking in poll(2). It is about the time that it takes to block and to be
/// woken.
const SPIN: Duration = Duration::from_micros(50);

/// Time to spin while transfers are in flight. A fast drive reads a page within this time.
const SPIN_FOR_DRIVE: Duration = Duration::from_micros(200);

/// Number of unmapped pages after which the fault server reads new faults. To unmap and hash 64
/// pages takes about 30 microseconds.
const MOVED_OUT_AT_ONCE: u64 = 64;

/// `MAPPED_MAX` is the capacity of the log of extents that faulting threads have mapped. At the
/// length `MAPPED_NOTIFY`, a faulting thread wakes the fault server, which empties the log.
const MAPPED_MAX: usize = 128;
const MAPPED_NOTIFY: usize = 64;

/// Maximum number of times that a faulting thread retries the move of a pinned page before it
/// leaves the move to the fault server.
const TRY_MAP_TRIES: u32 = 10;

thread_local! {
    static IS_FAULT_SERVER: Cell<bool> = const { Cell::new(false) };
}

/// True if the calling thread is the thread of the fault server. This thread must not allocate
/// memory from regions, because it would wait for itself.
pub fn is_fault_server() -> bool {
    IS_FAULT_SERVER.get()
}

/// Starts the thread of a fault server. The thread blocks all signals, because the signal handlers
/// of the program may touch pages that only this thread maps. If the thread fails, it ends the
/// program, because the program's threads would wait for ever.
pub(crate) fn start(server: Arc<Mutex<FaultServer>>) -> io::Result<Thread> {
    spawn("pager", move || {
        let outcome = panic::catch_unwind(AssertUnwindSafe(|| run(&server)));
        match outcome {
            Ok(Ok(())) => {}
            Ok(Err(why)) => fatal(format_args!("{why}")),
            Err(_) => fatal(format_args!("the pager has failed")),
        }
    })
}

/// Serves faults until a request to stop arrives.
///
/// # Errors
/// When faults cannot be served any more.
fn run(server: &Mutex<FaultServer>) -> io::Result<()> {
    IS_FAULT_SERVER.set(true);
    lock(server).cpu_sharing = CpuSharing::of_this_thread();
    let mut contention = CpuContention::new(Instant::now());
    let mut actions = vec![];
    let mut last = Instant::now();
    loop {
        // This wait for the lock is short: in signal mode, a faulting thread holds the lock for at
        // most one move of pages.
        let mut own = lock(server);
        let Some(is_busy) = own.step(&mut actions)? else { return Ok(()) };
        let now = Instant::now();
        let is_contended = contention.is_contended(now);
        own.cpu_sharing.set_contended(is_contended);
        if is_busy && !own.has_pinned {
            last = now;
        } else if !is_contended && now - last < own.spin_time() && !own.has_pinned {
            drop(own);
            contention.yield_cpu();
        } else {
            let sources = own.wake_sources();
            drop(own);
            // SAFETY: the store and the address space belong to the fault server, which is borrowed
            // and therefore still exists.
            unsafe { sources.wait() }?;
            last = Instant::now();
        }
    }
}

/// The state of the pager's thread.
pub(crate) struct FaultServer {
    context: Arc<Context>,
    handle: Arc<FaultHandle>,
    frames: Frames,
    space: Box<dyn AddressSpace>,
    store: Box<dyn Store>,
    cache: Cache,
    dirty: DirtyTracker,
    transfers: Transfers,
    /// Extents to be unmapped, in the order in which the cache has requested this.
    moving_out: VecDeque<(ExtentId, Span)>,
    /// Pages whose accesses raise SIGBUS.
    poisoned: BTreeSet<Page>,
    error_log: ErrorLog,
    stalls: Stalls,
    cpu_sharing: CpuSharing,
    thread_nodes: ThreadNodes,
    discards: Discards,
    /// A fork that waits until all pages are unmapped; `None` if no fork is being prepared.
    freeze: Option<Freeze>,
    /// True if a page could not be unmapped because the kernel has pinned it.
    has_pinned: bool,
    /// Threads that wait for pages in a handler of SIGBUS; `None` in thread mode.
    waiters: Option<Arc<Waiters>>,
    /// The log of extents that faulting threads have mapped since it was last emptied. It never
    /// grows beyond its capacity, because a signal handler must not allocate.
    mapped: Vec<MappedExtent>,
    /// Extents that were moved from `mapped`, and that the cache is processing.
    draining: Vec<MappedExtent>,
}

#[derive(Debug, Default)]
struct Discards {
    /// Threads that wait for the end of a discard, each with the first page of this discard.
    waiting: Vec<(Page, Sender<()>)>,
    /// Freed pages. Their addresses return to the arena as soon as the pages read as zeros.
    frees: Vec<Range<Page>>,
}

/// An extent that the faulting thread has mapped without the pager's thread.
#[derive(Clone, Copy, Debug)]
struct MappedExtent {
    fault: PageFault,
    id: ExtentId,
    /// Number of bytes of the extent that the thread has moved. The fault server moves the rest.
    moved_bytes: usize,
}

impl TryMap for FaultServer {
    fn try_map(&mut self, page: Page, fault: Fault) -> MapOutcome {
        if self.mapped.len() == self.mapped.capacity() {
            return MapOutcome::Defer;
        }
        let (id, span, is_prefetched) = match self.cache.try_map(page) {
            MapAttempt::Move { id, span, is_prefetched } => (id, span, is_prefetched),
            MapAttempt::AlreadyMapped => return MapOutcome::Mapped,
            MapAttempt::Wait => return MapOutcome::Defer,
        };
        let (to, part) = (self.context.address(span.page), bytes(span));
        let (frame, length) = (self.frames.start() + part.start, part.len());
        if length == HUGE_BYTES {
            // `UFFDIO_MOVE` moves a huge page only to an address without a page table: see
            // `PrivateSpace::map_in`.
            self.space.clear(&(to..to + length));
        }
        self.frames.note_move(&part);
        // SAFETY: the cache returns `MapAttempt::Move` only for an extent whose content is in its
        // frames and whose pages belong to a region.
        let moved = unsafe { self.handle.userfault.uffdio_move(to, frame, length, TRY_MAP_TRIES) };
        let moved_bytes = moved.map_or_else(|(bytes, _)| bytes, |()| length);
        let Fault { thread, offset, .. } = fault;
        let node = self.context.node_here();
        let fault = PageFault { thread, page, offset, node };
        self.mapped.push(MappedExtent { fault, id, moved_bytes });
        if moved_bytes < length {
            // The fault server maps the rest of the extent, if necessary by a copy instead of a
            // move.
            MapOutcome::Defer
        } else if is_prefetched || self.mapped.len() >= MAPPED_NOTIFY {
            MapOutcome::MappedAndNotify
        } else {
            MapOutcome::Mapped
        }
    }
}

impl FaultServer {
    pub(crate) fn new(
        context: Arc<Context>,
        handle: Arc<FaultHandle>,
        frames: Frames,
        cache: Cache,
        store: Box<dyn Store>,
    ) -> io::Result<Self> {
        let space = Box::new(PrivateSpace::new(Arc::clone(&handle))?);
        Ok(Self::with_space(space, context, handle, frames, cache, store))
    }

    /// A fault server that maps pages into `space`.
    pub(crate) fn with_space(
        space: Box<dyn AddressSpace>,
        context: Arc<Context>,
        handle: Arc<FaultHandle>,
        frames: Frames,
        cache: Cache,
        store: Box<dyn Store>,
    ) -> Self {
        let waiters = match context.mode {
            FaultMode::Thread => None,
            FaultMode::Signal => Some(Arc::default()),
        };
        Self {
            context,
            handle,
            frames,
            space,
            store,
            cache,
            dirty: DirtyTracker::new(),
            transfers: Transfers::default(),
            moving_out: VecDeque::new(),
            poisoned: BTreeSet::new(),
            error_log: ErrorLog::default(),
            stalls: Stalls::default(),
            cpu_sharing: CpuSharing::default(),
            thread_nodes: ThreadNodes::default(),
            discards: Discards::default(),
            freeze: None,
            has_pinned: false,
            waiters,
            mapped: Vec::with_capacity(MAPPED_MAX),
            draining: Vec::with_capacity(MAPPED_MAX),
        }
    }

    /// Puts the fault server into a lock. Returns the lock, and in signal mode also the state that
    /// the handlers of SIGBUS use.
    pub(crate) fn into_shared(self) -> (Arc<Mutex<Self>>, Option<Served>) {
        let (addresses, handle) = (self.context.memory.addresses(), Arc::clone(&self.handle));
        let waiters = self.waiters.clone();
        let server = Arc::new(Mutex::new(self));
        let served = waiters.map(|waiters| {
            let server: Arc<Mutex<FaultServer>> = Arc::clone(&server);
            Served { addresses, handle, server, waiters }
        });
        (server, served)
    }

    /// Reports to the cache the extents that faulting threads have mapped, if any. This must happen
    /// before all other events. Returns true if an extent was reported.
    fn drain_mapped(&mut self, actions: &mut Vec<Action>) -> io::Result<bool> {
        if self.mapped.is_empty() {
            return Ok(false);
        }
        mem::swap(&mut self.mapped, &mut self.draining);
        self.cache.commit_mapped(self.draining.iter().map(|mapped| mapped.fault), actions);
        self.execute(actions)?;
        debug_assert!(self.draining.is_empty(), "the cache confirms each mapped extent");
        Ok(true)
    }

    /// The time to spin before blocking in poll(2).
    fn spin_time(&self) -> Duration {
        match self.transfers.are_done() {
            true => SPIN,
            false => SPIN_FOR_DRIVE,
        }
    }

    /// Handles finished transfers, requests and faults. Returns true if there was work to do, and
    /// `None` after a request to stop.
    fn step(&mut self, actions: &mut Vec<Action>) -> io::Result<Option<bool>> {
        let mut is_busy = self.drain_mapped(actions)?;
        for (token, outcome) in self.store.done() {
            is_busy = true;
            if let Err(error) = &outcome {
                self.error_log.transfer_failed(error);
            }
            self.finish_transfer(token, outcome.is_ok(), actions);
        }
        if mem::take(&mut self.has_pinned) {
            self.cache.react(Event::RetryPinned, actions);
        }
        // Execute the actions for known faults before reading new faults.
        is_busy |= !actions.is_empty();
        self.execute(actions)?;
        // Read no faults while a fork is prepared, because no page may be mapped in that time.
        let faults: Vec<_> = match (&self.freeze, &self.waiters) {
            (Some(_), _) => vec![],
            (None, Some(waiters)) => waiters.faults(),
            (None, None) => self.space.faults()?,
        };
        // Read the requests after the faults: a request to add the region of a fault is queued
        // before the fault, and is then handled before it.
        if self.handle_requests(actions) {
            return Ok(None);
        }
        let now = Instant::now();
        for Fault { address, offset, thread } in faults {
            is_busy = true;
            let page = self.context.page(address);
            match &self.waiters {
                Some(waiters) if self.is_foreign(address) => {
                    waiters.wake(&(address..address + PAGE_BYTES), false);
                    continue;
                }
                Some(_) => {}
                None if self.space.has_threads_here() => {
                    self.cpu_sharing.note_fault(thread, self.cache.counts());
                }
                None => {}
            }
            self.stalls.begin(page, now);
            let node = self.thread_nodes.node_of(&self.context.nodes, thread, now);
            let fault = PageFault { thread, page, offset, node };
            self.cache.react(Event::Fault(fault), actions);
            self.execute(actions)?;
        }
        is_busy |= !actions.is_empty();
        self.execute(actions)?;
        is_busy |= self.start_transfers(actions)?;
        // Prefetch and evict only now, while the drive reads the pages that threads wait for, and
        // while other threads use mapped pages.
        is_busy |= self.progress(actions)? | self.start_transfers(actions)?;
        is_busy |= self.evict(actions)?;
        is_busy |= self.progress(actions)? | self.start_transfers(actions)?;
        self.release_frames();
        is_busy |= self.continue_fork(actions)?;
        self.end_period(now);
        if is_busy {
            self.publish_counts();
        }
        Ok(Some(is_busy))
    }

    /// Plans and executes the actions that no thread waits for, but only when no extent is left to
    /// unmap. All evicted frames are then free, so a prefetch has many free frames and therefore
    /// long transfers. Returns true if there is work, either done or left.
    fn progress(&mut self, actions: &mut Vec<Action>) -> io::Result<bool> {
        let mut is_busy = !self.moving_out.is_empty();
        while self.moving_out.is_empty() && self.cache.progress(actions) {
            is_busy |= !actions.is_empty();
            self.execute(actions)?;
        }
        Ok(is_busy)
    }

    /// Unmaps some of the extents in `moving_out`. A fault that arrives meanwhile must not wait
    /// long. Therefore the call stops as soon as at least [`MOVED_OUT_AT_ONCE`] pages are unmapped,
    /// or as soon as a transfer has finished while a thread waits for a page. While a page is
    /// pinned, the call does not stop early, because the fault server then sleeps between two
    /// calls. Returns true if any extent was unmapped.
    fn evict(&mut self, actions: &mut Vec<Action>) -> io::Result<bool> {
        let mut pages = 0;
        while let Some((id, span)) = self.moving_out.pop_front() {
            self.move_out(id, span, actions);
            self.execute(actions)?;
            pages += 1 << span.order;
            let has_read = self.stalls.is_waiting() && self.store.has_done();
            if (pages >= MOVED_OUT_AT_ONCE || has_read) && !self.has_pinned {
                break;
            }
        }
        Ok(pages > 0)
    }

    /// Submits all queued transfers. Returns true if a transfer was queued.
    fn start_transfers(&mut self, actions: &mut Vec<Action>) -> io::Result<bool> {
        if self.transfers.are_started() {
            return Ok(false);
        }
        while !self.transfers.are_started() {
            // SAFETY: until a transfer is done, its frames belong to its extents, whose pages are
            // not mapped.
            let failed = unsafe { self.transfers.start(self.frames.start(), &mut *self.store) };
            for token in failed {
                self.finish_transfer(token, false, actions);
            }
            self.execute(actions)?;
        }
        self.store.submit()?;
        Ok(true)
    }

    fn wake_sources(&self) -> WakeSources {
        WakeSources {
            handle: Arc::clone(&self.handle),
            store: self.store.ready().as_raw_fd(),
            faults: self.space.fd().as_raw_fd(),
            reads_faults: self.freeze.is_none(),
            has_pinned: self.has_pinned,
        }
    }

    /// True if the program has mapped other memory at an address. Only tries to lock the arena,
    /// because the faulting thread may hold this lock itself: a signal handler may have interrupted
    /// it. The result is false if the lock is held. A wrong `false` only makes the thread repeat
    /// its access.
    fn is_foreign(&self, address: usize) -> bool {
        let is_foreign = |arena: MutexGuard<'_, Arena>| {
            let pieces = arena.pieces(address..address + PAGE_BYTES);
            pieces.iter().any(|(_, owner)| *owner == Owner::Foreign)
        };
        self.context.arena.try_lock().is_ok_and(is_foreign)
    }

    /// Lets the process fork once all pages are unmapped and no transfer is in flight, and waits
    /// until the fork has succeeded or failed. Returns false if no fork is requested, or if it is
    /// not yet possible.
    fn continue_fork(&mut self, actions: &mut Vec<Action>) -> io::Result<bool> {
        let is_quiescent = self.cache.is_quiescent()
            && self.transfers.are_done()
            && self.discards.frees.is_empty();
        let Some(freeze) = self.freeze.take_if(|_| is_quiescent) else { return Ok(false) };
        let child = match self.cache.for_child() {
            Some(cache) => self.store.fork().map(|store| Child { cache, store }),
            None => Err(io::Error::other("some of it could not be stored")),
        };
        self.cpu_sharing.separate();
        // Neither `send` nor `receive` fails: the forking thread waits for `frozen`, and later
        // sends to `thaw`.
        freeze.frozen.send(child);
        let _ = freeze.thaw.receive();
        self.cache.react(Event::Thaw, actions);
        self.execute(actions)?;
        Ok(true)
    }

    /// Handles all requests. Returns true after a request to stop.
    fn handle_requests(&mut self, actions: &mut Vec<Action>) -> bool {
        let requests = mem::take(&mut *lock(&self.context.requests));
        if requests.is_empty() {
            return false;
        }
        for request in requests {
            match request {
                Request::Add(pages) => self.cache.add_region(pages),
                Request::Free(pages) => {
                    self.discards.frees.push(pages.clone());
                    self.cache.react(Event::Discarded(pages), actions);
                }
                Request::Discard(pages, done) => {
                    self.discards.waiting.push((pages.start, done));
                    self.cache.react(Event::Discarded(pages), actions);
                }
                Request::Remove(pages) => self.cache.remove_region(&pages),
                Request::Budget => self.rebalance(actions),
                Request::Advise(pages, advice, node) => {
                    self.cache.react(Event::Advised(pages, advice, node), actions);
                }
                Request::Freeze(freeze) if self.freeze.is_none() => {
                    self.freeze = Some(freeze);
                    self.store.before_fork();
                    self.cache.react(Event::Freeze, actions);
                }
                // Another fork is in progress. Queue this request again, so that it is handled
                // after that fork.
                Request::Freeze(freeze) => self.context.send(Request::Freeze(freeze)),
                Request::Stop => {
                    self.error_log.flush();
                    return true;
                }
            }
        }
        self.publish_wanted();
        false
    }

    /// Completes the discard that begins at `page`, whose pages read as zeros now, in DRAM and in
    /// the store. Returns the addresses of freed pages to the arena, and answers the thread that
    /// waits for the discard.
    fn finish_discard(&mut self, page: Page, actions: &mut Vec<Action>) {
        if let Some(at) = self.discards.frees.iter().position(|pages| pages.start == page) {
            let pages = self.discards.frees.swap_remove(at);
            self.cache.remove_region(&pages);
            self.publish_wanted();
            self.context.release(&self.context.addresses(&pages));
        }
        if let Some(at) = self.discards.waiting.iter().position(|(first, _)| *first == page) {
            self.discards.waiting.swap_remove(at).1.send(());
        }
        self.cache.react(Event::Erased(page), actions);
    }

    fn execute(&mut self, actions: &mut Vec<Action>) -> io::Result<()> {
        let mut at = 0;
        while at < actions.len() {
            let action = actions[at];
            at += 1;
            match action {
                Action::Zero(id, span) => {
                    self.frames.make(&bytes(span), &self.handle.userfault)?;
                    // SAFETY: the frames have pages, and belong to an extent that is being filled,
                    // so no other code uses them.
                    unsafe { self.frames.zero(bytes(span)) };
                    self.dirty.record_zeros(span);
                    self.cache.react(Event::Filled(id, Ok(())), actions);
                }
                Action::Read(id, span) => {
                    self.frames.make(&bytes(span), &self.handle.userfault)?;
                    self.frames.note_fill(&bytes(span));
                    self.transfers.read(id, span);
                }
                Action::MoveMemory { from, to, order } => {
                    let [from, to] = [from, to].map(|frame| bytes(Span { page: 0, frame, order }));
                    self.frames.make(&from, &self.handle.userfault)?;
                    self.space.move_memory(&mut self.frames, &from, &to);
                }
                Action::Write(id, span, dirty) => self.transfers.write(id, span, &dirty),
                Action::MoveIn(id, span) => {
                    self.move_in(id, span);
                    self.end_waits(span.pages(), true);
                    self.cache.react(Event::MovedIn(id), actions);
                }
                Action::MoveOut(id, span) => self.moving_out.push_back((id, span)),
                Action::Drop(id, span) => {
                    let page = self.context.address(span.page);
                    self.space.drop_pinned(&mut self.frames, &bytes(span), page);
                    self.dirty.forget(span.pages());
                    self.cache
                        .react(Event::MovedOut(id, DirtyPages::all(1 << span.order)), actions);
                }
                Action::Wake(page, pages) => {
                    let addresses = self.context.addresses(&(page..page + pages));
                    self.space.wake(&addresses);
                    self.end_waits(page..page + pages, true);
                }
                Action::Erase(page, pages) => {
                    self.store.erase(page * PAGE_BYTES as u64, pages * PAGE_BYTES as u64);
                    self.dirty.forget(page..page + pages);
                    self.clear_poison(page..page + pages);
                    self.finish_discard(page, actions);
                }
                Action::Poison(page) => {
                    let addresses = self.context.addresses(&(page..page + 1));
                    self.error_log.page_poisoned(addresses.start);
                    self.poisoned.insert(page);
                    self.space.poison(&addresses);
                    // In signal mode, `false` makes the waiting thread pass its SIGBUS on to the
                    // program. If it repeated the access instead, it could wait again: on a kernel
                    // without `CONFIG_MEMORY_FAILURE`, the `si_code` of SIGBUS is the same for a
                    // poisoned and for a missing page.
                    self.end_waits(page..page + 1, false);
                }
            }
        }
        actions.clear();
        Ok(())
    }

    /// Ends the waits for `pages`: in signal mode wakes the threads that wait, and in each mode
    /// ends their stall time. `may_access` is false if the pages are poisoned.
    fn end_waits(&mut self, pages: Range<Page>, may_access: bool) {
        if let Some(waiters) = &self.waiters {
            waiters.wake(&self.context.addresses(&pages), may_access);
        }
        self.stalls.end(pages);
    }

    /// Maps an extent, or the rest of an extent of which a faulting thread has mapped a part.
    fn move_in(&mut self, id: ExtentId, span: Span) {
        let (part, page) = (bytes(span), self.context.address(span.page));
        let mapped = self.draining.iter().position(|mapped| mapped.id == id);
        let moved_bytes = mapped.map_or(0, |at| self.draining.swap_remove(at).moved_bytes);
        let rest = part.start + moved_bytes..part.end;
        if !rest.is_empty() {
            if self.stalls.is_waiting() {
                self.cpu_sharing.begin_wake();
            }
            self.space.map_in(&mut self.frames, &rest, page + moved_bytes);
            self.cpu_sharing.end_wake();
        }
    }

    fn move_out(&mut self, id: ExtentId, span: Span, to: &mut Vec<Action>) {
        let page = self.context.address(span.page);
        let event = match self.space.unmap_out(&mut self.frames, &bytes(span), page) {
            // Some pages of the extent were missing, and their frames are zeros now. `unmap_out`
            // does not report which pages, so all pages of the extent count as dirty.
            Ok(true) => {
                self.dirty.forget(span.pages());
                Event::MovedOut(id, DirtyPages::all(1 << span.order))
            }
            Ok(false) => Event::MovedOut(id, self.dirty.find(&self.frames, span)),
            Err(Pinned) => {
                self.has_pinned = true;
                Event::Pinned(id)
            }
        };
        self.cache.react(event, to);
    }

    /// Clears the poison of discarded pages, so that they read as zeros.
    fn clear_poison(&mut self, pages: Range<Page>) {
        for page in self.poisoned.extract_if(pages, |_| true) {
            self.space.clear(&self.context.addresses(&(page..page + 1)));
        }
    }

    /// Handles the end of the transfer `token`. The reads or writes of some extents may be complete
    /// then.
    fn finish_transfer(&mut self, token: u64, is_done: bool, actions: &mut Vec<Action>) {
        for Finished { id, span, is_write, is_done } in self.transfers.finish(token, is_done) {
            let result = if is_done { Ok(()) } else { Err(Failed) };
            match (is_done, is_write) {
                (true, true) => self.dirty.record_written(span),
                (true, false) => self.dirty.record_read(&self.frames, span),
                (false, _) => self.dirty.forget(span.pages()),
            }
            let event = if is_write { Event::Wrote(id, result) } else { Event::Filled(id, result) };
            self.cache.react(event, actions);
        }
    }
}

/// The frames of a span, as a range of bytes from the first frame of the pager.
fn bytes(span: Span) -> Range<usize> {
    let start = span.frame as usize * PAGE_BYTES;
    start..start + (PAGE_BYTES << span.order)
}
