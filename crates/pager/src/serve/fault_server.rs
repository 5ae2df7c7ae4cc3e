//! The loop that only translates between the kernel, the drive and the state machine.

#![expect(unsafe_code, reason = "pages are moved under the program")]

use crate::{
    cache::{
        Action, Cache, Counts, DirtyPages, Event, Failed, MapAttempt, PageFault, Span,
        index::ExtentId,
    },
    fatal::fatal,
    kernel::{
        address_space::{Own, Space},
        cpu_sharing::Beside,
        frames::Frames,
        relocate::Held,
        sigbus::{Outcome, Served, Waiting},
        thread::{Thread, spawn},
        uffd::{Fault, Faults},
    },
    page::{HUGE_BYTES, PAGE_BYTES, Page},
    pager::{Kernel, Request, Shared, lock},
    reply::Sender,
    serve::{
        arena::{Arena, Owner},
        dirty::Digests,
        error_log::Teller,
        fork::{Child, Freeze},
        stall::Stalls,
        transfers::{Part, Transfers},
    },
    session::ledger::LEAST,
    store::Store,
};
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::Errno,
};
use std::{
    cell::Cell,
    collections::BTreeSet,
    io, mem,
    ops::Range,
    os::fd::{AsRawFd as _, BorrowedFd, RawFd},
    panic::{self, AssertUnwindSafe},
    sync::{Arc, Mutex, MutexGuard},
    time::{Duration, Instant},
};

/// After the last thing that happened the next is waited for without sleeping so long: about what
/// it takes to fall asleep and be woken.
const SPIN: Duration = Duration::from_micros(50);

/// The same while a drive is at work: what a page takes from a fast one.
const SPIN_FOR_DRIVE: Duration = Duration::from_micros(200);

/// After so long, what something held is tried again: nobody says when it is not held any more.
const AGAIN: Timespec = Timespec { tv_sec: 0, tv_nsec: 5_000_000 };

/// So many extents threads map by themselves before they have to ask; the pager's thread is called
/// before it comes to that.
const TAKEN_MAX: usize = 128;
const TAKEN_MANY: usize = 64;

/// So often they try a page that something holds: what takes longer is for the pager's thread.
const TAKE_TRIES: u32 = 10;

thread_local! {
    static IS_WORKER: Cell<bool> = const { Cell::new(false) };
}

/// Whether the calling thread is a pager's own, which must not wait for itself: it has to take its
/// memory elsewhere.
pub fn is_worker() -> bool {
    IS_WORKER.get()
}

/// Starts the thread of a worker. Signals are the program's, whose handlers may touch what only
/// this thread can bring; and if it ends, so must all who would wait for it.
pub(crate) fn start(worker: Arc<Mutex<Worker>>) -> io::Result<Thread> {
    spawn("pager", move || {
        let outcome = panic::catch_unwind(AssertUnwindSafe(|| run(&worker)));
        match outcome {
            Ok(Ok(())) => {}
            Ok(Err(why)) => fatal(format_args!("{why}")),
            Err(_) => fatal(format_args!("the pager has failed")),
        }
    })
}

/// Does something with all signals of the calling thread blocked.
pub(crate) fn without_signals<T>(work: impl FnOnce() -> T) -> T {
    // SAFETY: sets of signals are plain numbers, which the calls fill, and the mask is put back.
    unsafe {
        let (mut all, mut before) = (mem::zeroed(), mem::zeroed());
        libc::sigfillset(&mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &all, &mut before);
        let outcome = work();
        libc::pthread_sigmask(libc::SIG_SETMASK, &before, std::ptr::null_mut());
        outcome
    }
}

/// Serves faults until it is asked to stop.
///
/// # Errors
/// When nothing can be served any more.
fn run(worker: &Mutex<Worker>) -> io::Result<()> {
    IS_WORKER.set(true);
    let mut actions = vec![];
    let mut last = Instant::now();
    loop {
        // Nobody else has it for longer than a move of pages takes: who serves faults of its own.
        let mut own = lock(worker);
        let Some(is_busy) = own.step(&mut actions)? else { return Ok(()) };
        if is_busy && !own.is_held {
            last = Instant::now();
        } else if last.elapsed() < own.patience() && !own.is_held {
            match own.waiting {
                None => own.beside.give_way(),
                Some(_) => {
                    drop(own);
                    std::thread::yield_now();
                }
            }
        } else {
            let waits = own.waits();
            drop(own);
            // SAFETY: the store lives as long as the worker does, which is ours.
            unsafe { waits.wait() }?;
            last = Instant::now();
        }
    }
}

/// What is waited for when there is nothing to do.
struct Waits {
    kernel: Arc<Kernel>,
    /// What is readable when the store has done something.
    ready: RawFd,
    /// The same when somebody has touched what was not there.
    touched: RawFd,
    has_faults: bool,
    /// Whether something is to be tried again.
    is_held: bool,
}

impl Waits {
    /// Waits until there is something to do.
    ///
    /// # Safety
    /// The store is there that `ready` is of, and the memory that `touched` is of.
    unsafe fn wait(&self) -> io::Result<()> {
        // SAFETY: by the caller.
        let ready = unsafe { BorrowedFd::borrow_raw(self.ready) };
        // SAFETY: the same.
        let touched = unsafe { BorrowedFd::borrow_raw(self.touched) };
        let faults = if self.has_faults { PollFlags::IN } else { PollFlags::empty() };
        let mut fds = [
            PollFd::new(&self.kernel.called, PollFlags::IN),
            PollFd::new(&ready, PollFlags::IN),
            PollFd::new(&touched, faults),
        ];
        match poll(&mut fds, self.is_held.then_some(&AGAIN)) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(why) => return Err(why.into()),
        }
        if !fds[0].revents().is_empty() {
            let _ = rustix::io::read(&self.kernel.called, &mut [0_u8; 8]);
        }
        Ok(())
    }
}

/// What a pager's own thread has.
pub(crate) struct Worker {
    shared: Arc<Shared>,
    kernel: Arc<Kernel>,
    frames: Frames,
    space: Box<dyn Space>,
    store: Box<dyn Store>,
    cache: Cache,
    digests: Digests,
    transfers: Transfers,
    /// What is to leave the address space, and whether it has changed for sure.
    leaving: Vec<(ExtentId, Span, bool)>,
    /// Pages of which who touches them gets a signal.
    poisoned: BTreeSet<Page>,
    teller: Teller,
    stalls: Stalls,
    beside: Beside,
    /// Who waits for pages from this one on to be zeros.
    erased: Vec<(Page, Sender<()>)>,
    /// Pages that are given back once they are zeros.
    gone: Vec<Range<Page>>,
    /// A fork that waits until nothing is in the address space.
    freeze: Option<Freeze>,
    /// Whether something holds pages.
    is_held: bool,
    /// Who waits, where faults are served by the threads that take them.
    waiting: Option<Arc<Waiting>>,
    /// What they have mapped by themselves since that was looked at; there is room since the start.
    taken: Vec<Taken>,
    /// The same of what is being looked at.
    noted: Vec<Taken>,
}

/// An extent that a thread has mapped by itself.
#[derive(Clone, Copy, Debug)]
struct Taken {
    touch: PageFault,
    id: ExtentId,
    /// As far as it has moved, bytes.
    done: usize,
}

impl Worker {
    pub(crate) fn new(
        shared: Arc<Shared>,
        kernel: Arc<Kernel>,
        frames: Frames,
        cache: Cache,
        store: Box<dyn Store>,
    ) -> io::Result<Self> {
        let space = Box::new(Own::new(Arc::clone(&kernel))?);
        Ok(Self::over(space, shared, kernel, frames, cache, store))
    }

    /// The same over pages that are not this process's alone.
    pub(crate) fn over(
        space: Box<dyn Space>,
        shared: Arc<Shared>,
        kernel: Arc<Kernel>,
        frames: Frames,
        cache: Cache,
        store: Box<dyn Store>,
    ) -> Self {
        let count = cache.settings().frames;
        let waiting = match shared.by {
            Faults::Thread => None,
            Faults::Signal => Some(Arc::default()),
        };
        Self {
            shared,
            kernel,
            frames,
            space,
            store,
            cache,
            digests: Digests::new(count as usize),
            transfers: Transfers::default(),
            leaving: vec![],
            poisoned: BTreeSet::new(),
            teller: Teller::default(),
            stalls: Stalls::default(),
            beside: Beside::default(),
            erased: vec![],
            gone: vec![],
            freeze: None,
            is_held: false,
            waiting,
            taken: Vec::with_capacity(TAKEN_MAX),
            noted: Vec::with_capacity(TAKEN_MAX),
        }
    }

    /// What the thread has that is its own, and what handlers of signals need of it if they serve
    /// faults.
    pub(crate) fn shared(self) -> (Arc<Mutex<Self>>, Option<Served>) {
        let (addresses, kernel) = (self.shared.memory.addresses(), Arc::clone(&self.kernel));
        let waiting = self.waiting.clone();
        let worker = Arc::new(Mutex::new(self));
        let own = Arc::clone(&worker);
        (own, waiting.map(|waiting| Served { addresses, kernel, worker, waiting }))
    }

    /// A thread has touched a page, and maps it if that is all there is to do; in a handler of
    /// signals, of which `signal` says what it may do.
    pub(crate) fn take(&mut self, page: Page, fault: Fault) -> Outcome {
        if self.taken.len() == self.taken.capacity() {
            return Outcome::Ask;
        }
        let (id, span, is_prefetched) = match self.cache.try_map(page) {
            MapAttempt::Move { id, span, is_prefetched } => (id, span, is_prefetched),
            MapAttempt::AlreadyMapped => return Outcome::Here,
            MapAttempt::Wait => return Outcome::Ask,
        };
        let (to, part) = (self.shared.address(span.page), bytes(span));
        let (frame, length) = (self.frames.start() + part.start, part.len());
        if length == HUGE_BYTES {
            // As whoever brings a huge page does.
            self.space.clear(&(to..to + length));
        }
        self.frames.moves(&part);
        // SAFETY: by the state machine the content is in the frames, and the pages are ours.
        let moved = unsafe { self.kernel.faults.move_pages(to, frame, length, TAKE_TRIES) };
        let done = moved.map_or_else(|(done, _)| done, |()| length);
        let Fault { thread, offset, is_write, .. } = fault;
        let touch = PageFault { thread, page, offset, is_write };
        self.taken.push(Taken { touch, id, done });
        if done < length {
            // The rest is for who can do more than move pages.
            Outcome::Ask
        } else if is_prefetched || self.taken.len() >= TAKEN_MANY {
            Outcome::Noted
        } else {
            Outcome::Here
        }
    }

    /// Takes in what threads have mapped by themselves, before anything else is decided.
    fn note(&mut self, actions: &mut Vec<Action>) -> io::Result<bool> {
        if self.taken.is_empty() {
            return Ok(false);
        }
        mem::swap(&mut self.taken, &mut self.noted);
        self.cache.commit_mapped(self.noted.iter().map(|taken| taken.touch), actions);
        self.act(actions)?;
        debug_assert!(self.noted.is_empty(), "each of them was to be mapped");
        Ok(true)
    }

    /// So long it is not worth to fall asleep.
    fn patience(&self) -> Duration {
        match (self.beside.is_shared(), self.transfers.are_done()) {
            (false, true) => SPIN,
            (false, false) => SPIN_FOR_DRIVE,
            // Who is served needs the CPU.
            (true, _) if self.stalls.are_over() => Duration::ZERO,
            (true, _) => SPIN_FOR_DRIVE,
        }
    }

    /// Does what there is to do, and says whether there was something; `None` when all is over.
    fn step(&mut self, actions: &mut Vec<Action>) -> io::Result<Option<bool>> {
        let mut is_busy = self.note(actions)?;
        for (token, outcome) in self.store.done() {
            is_busy = true;
            if let Err(lost) = &outcome {
                self.teller.lost(lost);
            }
            self.transferred(token, outcome.is_ok(), actions);
        }
        if mem::take(&mut self.is_held) {
            self.cache.on(Event::RetryPinned, actions);
        }
        // Who waits is served before it is asked who else does.
        is_busy |= !actions.is_empty();
        self.act(actions)?;
        // Before a fork nothing more comes in.
        let faults: Vec<_> = match (&self.freeze, &self.waiting) {
            (Some(_), _) => vec![],
            (None, Some(waiting)) => waiting.faults(),
            (None, None) => self.space.faults()?,
        };
        // What a thread was given it may touch before we have seen that it was asked for.
        if self.is_stopped(actions) {
            return Ok(None);
        }
        let now = Instant::now();
        for Fault { address, offset, is_write, thread } in faults {
            is_busy = true;
            let page = self.shared.page(address);
            match &self.waiting {
                Some(waiting) if self.is_foreign(address) => {
                    waiting.wake(&(address..address + PAGE_BYTES), false);
                    continue;
                }
                Some(_) => {}
                None if self.space.has_threads_here() => {
                    self.beside.begin(thread, page, now, self.stalls.total());
                }
                None => {}
            }
            self.stalls.begin(page, now);
            self.cache.on(Event::Fault(PageFault { thread, page, offset, is_write }), actions);
            self.act(actions)?;
        }
        is_busy |= !actions.is_empty();
        self.act(actions)?;
        is_busy |= self.begin_transfers(actions)?;
        // What a thread waits for is under way: now there is time to make room.
        for (id, span, is_changed) in mem::take(&mut self.leaving) {
            is_busy = true;
            self.move_out(id, span, is_changed, actions);
            self.act(actions)?;
        }
        is_busy |= !self.leaving.is_empty() | self.begin_transfers(actions)?;
        self.lend();
        self.forks(actions)?;
        if is_busy {
            let stalled = self.stalls.total().as_nanos();
            let stalled_ns = u64::try_from(stalled).unwrap_or(u64::MAX);
            let counts = Counts { stalled_ns, ..*self.cache.counts() };
            self.shared.tell(counts, self.cache.resident_frames().into());
        }
        Ok(Some(is_busy))
    }

    /// Takes the part of the budget that is meant for this process, as far as others have left it.
    fn rebalance(&mut self, actions: &mut Vec<Action>) {
        let Some(seat) = lock(&self.shared.seat).clone() else { return };
        let target = seat.target().max(LEAST);
        let frames = if target > seat.held() { seat.grow(target) } else { target };
        let frames = u32::try_from(frames).unwrap_or(u32::MAX);
        self.cache.on(Event::Budget(frames), actions);
    }

    /// Gives back the memory of frames that are others' now.
    fn lend(&mut self) {
        let mut has_lent = false;
        for (frame, order) in self.cache.newly_released() {
            let start = *frame as usize * PAGE_BYTES;
            self.frames.release(&(start..start + (PAGE_BYTES << order)));
            has_lent = true;
        }
        if has_lent && let Some(seat) = &*lock(&self.shared.seat) {
            seat.shrink(self.cache.used_frames().into());
        }
    }

    /// Hands all to the drive that waits for it, and says whether there was something.
    fn begin_transfers(&mut self, actions: &mut Vec<Action>) -> io::Result<bool> {
        if self.transfers.are_begun() {
            return Ok(false);
        }
        while !self.transfers.are_begun() {
            // SAFETY: the frames are the extents' until the transfers are done, and their content
            // is in nobody's address space meanwhile.
            let failed = unsafe { self.transfers.begin(self.frames.start(), &mut *self.store) };
            for token in failed {
                self.transferred(token, false, actions);
            }
            self.act(actions)?;
        }
        self.store.submit()?;
        Ok(true)
    }

    fn waits(&self) -> Waits {
        Waits {
            kernel: Arc::clone(&self.kernel),
            ready: self.store.ready().as_raw_fd(),
            touched: self.space.fd().as_raw_fd(),
            has_faults: self.freeze.is_none(),
            is_held: self.is_held,
        }
    }

    /// Whether the program has mapped something else at an address; not while that cannot be said,
    /// when the thread touches it again and asks again. Who asks may have the lock himself, if what
    /// touches is a handler of signals.
    fn is_foreign(&self, address: usize) -> bool {
        let is_foreign = |arena: MutexGuard<'_, Arena>| {
            let pieces = arena.pieces(address..address + PAGE_BYTES);
            pieces.iter().any(|(_, owner)| *owner == Owner::Foreign)
        };
        self.shared.arena.try_lock().is_ok_and(is_foreign)
    }

    /// Lets a process fork once nothing is under way, and waits until it has.
    fn forks(&mut self, actions: &mut Vec<Action>) -> io::Result<()> {
        let is_still =
            self.cache.is_quiescent() && self.transfers.are_done() && self.gone.is_empty();
        let Some(freeze) = self.freeze.take_if(|_| is_still) else { return Ok(()) };
        let child = match self.cache.for_child() {
            Some(cache) => self.store.fork().map(|store| Child { cache, store }),
            None => Err(io::Error::other("some of it could not be stored")),
        };
        self.beside.part();
        // Who asked waits for both.
        freeze.frozen.send(child);
        let _ = freeze.thaw.receive();
        self.cache.on(Event::Thaw, actions);
        self.act(actions)
    }

    /// Sees to what was asked for, and says whether that was to stop.
    fn is_stopped(&mut self, actions: &mut Vec<Action>) -> bool {
        let asked = mem::take(&mut *lock(&self.shared.asked));
        if asked.is_empty() {
            return false;
        }
        for request in asked {
            match request {
                Request::Add(pages) => self.cache.add_region(pages),
                Request::Give(pages) => {
                    self.gone.push(pages.clone());
                    self.cache.on(Event::Discarded(pages), actions);
                }
                Request::Discard(pages, done) => {
                    self.erased.push((pages.start, done));
                    self.cache.on(Event::Discarded(pages), actions);
                }
                Request::Remove(pages) => self.cache.remove_region(&pages),
                Request::Budget => self.rebalance(actions),
                Request::Advise(pages, advice) => {
                    self.cache.on(Event::Advised(pages, advice), actions);
                }
                Request::Freeze(freeze) if self.freeze.is_none() => {
                    self.freeze = Some(freeze);
                    self.cache.on(Event::Freeze, actions);
                }
                // One fork at a time.
                Request::Freeze(freeze) => self.shared.ask(Request::Freeze(freeze)),
                Request::Stop => return true,
            }
        }
        self.want();
        false
    }

    /// Says how many pages there are to be had in memory.
    fn want(&self) {
        if let Some(seat) = &*lock(&self.shared.seat) {
            seat.want(self.cache.region_pages());
        }
    }

    /// Pages from this one on are zeros everywhere.
    fn erased(&mut self, page: Page, actions: &mut Vec<Action>) {
        if let Some(at) = self.gone.iter().position(|gone| gone.start == page) {
            let pages = self.gone.swap_remove(at);
            self.cache.remove_region(&pages);
            self.want();
            self.shared.release(&self.shared.addresses(&pages));
        }
        if let Some(at) = self.erased.iter().position(|(first, _)| *first == page) {
            // Who asked may be gone.
            self.erased.swap_remove(at).1.send(());
        }
        self.cache.on(Event::Erased(page), actions);
    }

    fn act(&mut self, actions: &mut Vec<Action>) -> io::Result<()> {
        let mut at = 0;
        while at < actions.len() {
            let action = actions[at];
            at += 1;
            match action {
                Action::Zero(id, span) => {
                    self.frames.make(&bytes(span), &self.kernel.faults)?;
                    // SAFETY: the frames are free, so that nobody uses them.
                    unsafe { self.frames.zero(bytes(span)) };
                    self.digests.zero(span);
                    self.cache.on(Event::Filled(id, Ok(())), actions);
                }
                Action::Read(id, span) => {
                    self.frames.make(&bytes(span), &self.kernel.faults)?;
                    self.transfers.read(id, span);
                }
                Action::Write(id, span, changed) => self.transfers.write(id, span, &changed),
                Action::MoveIn(id, span) => {
                    match self.noted.iter().position(|taken| taken.id == id) {
                        Some(at) => {
                            let done = self.noted.swap_remove(at).done;
                            let Range { start, end } = bytes(span);
                            let (rest, page) = (start + done..end, self.shared.address(span.page));
                            if !rest.is_empty() {
                                self.space.bring(&mut self.frames, &rest, page + done);
                            }
                        }
                        None => self.move_in(span),
                    }
                    self.wakes(span.pages());
                    self.cache.on(Event::MovedIn(id), actions);
                }
                Action::MoveOut { id, span, is_dirty } => {
                    self.leaving.push((id, span, is_dirty));
                }
                Action::Drop(id, span) => {
                    self.space.drop_held(
                        &mut self.frames,
                        &bytes(span),
                        self.shared.address(span.page),
                    );
                    self.digests.forget(span);
                    self.cache.on(Event::MovedOut(id, DirtyPages::all(1 << span.order)), actions);
                }
                Action::Wake(page, pages) => {
                    let addresses = self.shared.addresses(&(page..page + pages));
                    self.space.wake(&addresses);
                    self.wakes(page..page + pages);
                }
                Action::Erase(page, pages) => {
                    self.store.erase(page * PAGE_BYTES as u64, pages * PAGE_BYTES as u64);
                    self.cure(page..page + pages);
                    self.erased(page, actions);
                }
                Action::Poison(page) => {
                    let addresses = self.shared.addresses(&(page..page + 1));
                    self.teller.signal(addresses.start);
                    self.poisoned.insert(page);
                    self.space.poison(&addresses);
                }
            }
        }
        actions.clear();
        Ok(())
    }

    /// Who waited for these pages has been woken.
    fn wakes(&mut self, pages: Range<Page>) {
        if let Some(waiting) = &self.waiting {
            waiting.wake(&self.shared.addresses(&pages), true);
        }
        self.beside.end(&pages);
        self.stalls.end(pages);
    }

    fn move_in(&mut self, span: Span) {
        self.space.bring(&mut self.frames, &bytes(span), self.shared.address(span.page));
    }

    fn move_out(&mut self, id: ExtentId, span: Span, is_changed: bool, to: &mut Vec<Action>) {
        let page = self.shared.address(span.page);
        let event = match self.space.fetch(&mut self.frames, &bytes(span), page) {
            // Nobody knows which are zeros now.
            Ok(true) => {
                self.digests.forget(span);
                Event::MovedOut(id, DirtyPages::all(1 << span.order))
            }
            Ok(false) => Event::MovedOut(id, self.digests.changed(&self.frames, span, is_changed)),
            Err(Held) => {
                self.is_held = true;
                Event::Pinned(id)
            }
        };
        self.cache.on(event, to);
    }

    /// Lets pages that were lost be zeros like others.
    fn cure(&mut self, pages: Range<Page>) {
        for page in self.poisoned.extract_if(pages, |_| true) {
            self.space.clear(&self.shared.addresses(&(page..page + 1)));
        }
    }

    /// A transfer is done, and with it perhaps what is under way with some extents.
    fn transferred(&mut self, token: u64, is_done: bool, actions: &mut Vec<Action>) {
        for Part { id, span, is_write, is_done } in self.transfers.done(token, is_done) {
            let result = if is_done { Ok(()) } else { Err(Failed) };
            match (is_done, is_write) {
                (true, true) => self.digests.wrote(span),
                (true, false) => self.digests.learn(&self.frames, span),
                (false, _) => self.digests.forget(span),
            }
            let event = if is_write { Event::Wrote(id, result) } else { Event::Filled(id, result) };
            self.cache.on(event, actions);
        }
    }
}

/// Where the frames of a span are, bytes from the first frame.
fn bytes(span: Span) -> Range<usize> {
    let start = span.frame as usize * PAGE_BYTES;
    start..start + (PAGE_BYTES << span.order)
}
