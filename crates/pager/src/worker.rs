//! The loop that only translates between the kernel, the drive and the state machine.

#![expect(unsafe_code, reason = "pages are moved under the program")]

use crate::{
    cache::{Action, Cache, Event, Failed, Settings, Span},
    digest::Digests,
    memory::{HUGE_BYTES, Memory},
    pager::{PAGE, Request, Shared, lock},
    pool::ORDER_MAX,
    predict::Page,
    store::Store,
    transfers::{Part, Transfers},
};
use rustix::{
    event::{PollFd, PollFlags, poll},
    io::Errno,
};
use std::{
    cell::Cell,
    collections::BTreeSet,
    ops::Range,
    sync::{Arc, mpsc::SyncSender},
    time::{Duration, Instant},
};

/// After the last thing that happened the next is waited for without sleeping so long: about what it
/// takes to fall asleep and be woken.
const SPIN: Duration = Duration::from_micros(50);

thread_local! {
    static IS_WORKER: Cell<bool> = const { Cell::new(false) };
}

/// Whether the calling thread is a pager's own, which must not wait for itself: it has to take its
/// memory elsewhere.
pub fn is_worker() -> bool {
    IS_WORKER.get()
}

/// What a pager's own thread has.
pub(crate) struct Worker {
    shared: Arc<Shared>,
    frames: Memory,
    store: Box<dyn Store>,
    cache: Cache,
    digests: Digests,
    transfers: Transfers,
    /// Blocks of the size of a huge page in which single pages have been mapped: the kernel has a
    /// table of them, and a huge page moves only to where none is.
    tables: BTreeSet<Page>,
    /// Who waits for pages from this one on to be zeros.
    erased: Vec<(Page, SyncSender<()>)>,
    /// Regions that are given back once they are zeros, by their first page.
    gone: Vec<Page>,
}

impl Worker {
    pub(crate) fn new(
        shared: Arc<Shared>,
        frames: Memory,
        settings: Settings,
        store: Box<dyn Store>,
    ) -> Self {
        Self {
            shared,
            frames,
            store,
            cache: Cache::new(settings),
            digests: Digests::new(settings.frames as usize),
            transfers: Transfers::default(),
            tables: BTreeSet::new(),
            erased: vec![],
            gone: vec![],
        }
    }

    /// Serves faults until it is asked to stop, or nothing can be served any more.
    pub(crate) fn run(&mut self) {
        IS_WORKER.set(true);
        let mut actions = vec![];
        let mut last = Instant::now();
        loop {
            let Some(is_busy) = self.step(&mut actions) else { return };
            if is_busy {
                last = Instant::now();
            } else if last.elapsed() < SPIN {
                std::thread::yield_now();
            } else {
                if self.sleep().is_err() {
                    return;
                }
                last = Instant::now();
            }
        }
    }

    /// Does what there is to do, and says whether there was something; `None` when all is over.
    fn step(&mut self, actions: &mut Vec<Action>) -> Option<bool> {
        let shared = Arc::clone(&self.shared);
        let mut is_busy = false;
        for (token, outcome) in self.store.done() {
            is_busy = true;
            if let Err(lost) = &outcome {
                shared.tell(lost);
            }
            self.transferred(token, outcome.is_ok(), actions);
        }
        let faults: Vec<_> = shared.faults.faults().ok()?.collect();
        // What a thread was given it may touch before we have seen that it was asked for.
        if self.is_stopped(actions) {
            return None;
        }
        for fault in faults {
            is_busy = true;
            let page = shared.page(fault.address);
            let (thread, is_write) = (fault.thread, fault.is_write);
            self.cache.on(Event::Touched { thread, page, is_write }, actions);
            self.act(actions);
        }
        is_busy |= !actions.is_empty();
        self.act(actions);
        while !self.transfers.are_begun() {
            // SAFETY: the frames are the extents' until the transfers are done, and their content
            // is in nobody's address space meanwhile.
            for token in unsafe { self.transfers.begin(&self.frames, &mut *self.store) } {
                self.transferred(token, false, actions);
            }
            self.act(actions);
        }
        if is_busy {
            self.store.submit().ok()?;
            *lock(&shared.counts) = *self.cache.counts();
        }
        Some(is_busy)
    }

    /// Waits until there is something to do.
    fn sleep(&self) -> Result<(), Errno> {
        let ready = self.store.ready();
        let mut fds = [
            PollFd::new(&self.shared.faults, PollFlags::IN),
            PollFd::new(&ready, PollFlags::IN),
            PollFd::new(&self.shared.called, PollFlags::IN),
        ];
        match poll(&mut fds, None) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(why) => return Err(why),
        }
        if !fds[2].revents().is_empty() {
            let _ = rustix::io::read(&self.shared.called, &mut [0_u8; 8]);
        }
        Ok(())
    }

    /// Sees to what was asked for, and says whether that was to stop.
    fn is_stopped(&mut self, actions: &mut Vec<Action>) -> bool {
        for request in std::mem::take(&mut *lock(&self.shared.asked)) {
            match request {
                Request::Add(pages) => self.cache.add(pages),
                Request::Give(pages) => {
                    self.gone.push(pages.start);
                    self.cache.on(Event::Discarded(pages), actions);
                }
                Request::Discard(pages, done) => {
                    self.erased.push((pages.start, done));
                    self.cache.on(Event::Discarded(pages), actions);
                }
                Request::Advise(pages, advice) => {
                    self.cache.on(Event::Advised(pages, advice), actions);
                }
                Request::Stop => return true,
            }
        }
        false
    }

    /// Pages from this one on are zeros everywhere.
    fn erased(&mut self, page: Page, actions: &mut Vec<Action>) {
        if let Some(at) = self.gone.iter().position(|gone| *gone == page) {
            self.gone.swap_remove(at);
            self.cache.remove(page);
            lock(&self.shared.arena).give(self.shared.address(page));
        }
        if let Some(at) = self.erased.iter().position(|(first, _)| *first == page) {
            // Who asked may be gone.
            let _ = self.erased.swap_remove(at).1.send(());
        }
        self.cache.on(Event::Erased(page), actions);
    }

    fn act(&mut self, actions: &mut Vec<Action>) {
        let mut at = 0;
        while at < actions.len() {
            let action = actions[at];
            at += 1;
            match action {
                Action::Zero(id, span) => {
                    // SAFETY: the frames are free, so that nobody uses them.
                    unsafe { self.frames.zero(bytes(span)) };
                    self.digests.zero(span);
                    self.cache.on(Event::Filled(id, Ok(())), actions);
                }
                Action::Read(id, span) => self.transfers.read(id, span),
                Action::Write(id, span, changed) => self.transfers.write(id, span, &changed),
                Action::MoveIn(id, span) => {
                    self.move_in(span);
                    self.cache.on(Event::MovedIn(id), actions);
                }
                Action::MoveOut { id, span, is_changed } => {
                    self.move_span(span, false);
                    let changed = self.digests.changed(&self.frames, span, is_changed);
                    self.cache.on(Event::MovedOut(id, changed), actions);
                }
                Action::Wake(page, pages) => {
                    let address = self.shared.address(page);
                    let end = address + pages as usize * PAGE;
                    let _ = self.shared.faults.wake(&(address..end));
                }
                Action::Erase(page, pages) => {
                    self.store.erase(page * PAGE as u64, pages * PAGE as u64);
                    self.erased(page, actions);
                }
                Action::Poison(page) => {
                    let address = self.shared.address(page);
                    let _ = self.shared.faults.poison(&(address..address + PAGE));
                }
            }
        }
        actions.clear();
    }

    /// A transfer is done, and with it perhaps what is under way with some extents.
    fn transferred(&mut self, token: u64, is_done: bool, actions: &mut Vec<Action>) {
        for Part { id, span, is_write, is_done } in self.transfers.done(token, is_done) {
            let result = if is_done { Ok(()) } else { Err(Failed) };
            if is_done {
                self.digests.learn(&self.frames, span);
            }
            let event = if is_write { Event::Wrote(id, result) } else { Event::Filled(id, result) };
            self.cache.on(event, actions);
        }
    }

    fn move_in(&mut self, span: Span) {
        let block = span.page >> ORDER_MAX;
        if span.order < ORDER_MAX {
            self.tables.insert(block);
        } else if self.tables.remove(&block) {
            // No page is there; since 6.14 the empty table goes too.
            let address = self.shared.address(span.page);
            self.shared.forget(address..address + HUGE_BYTES);
        }
        self.move_span(span, true);
    }

    fn move_span(&self, span: Span, is_in: bool) {
        let address = self.shared.address(span.page);
        let range = bytes(span);
        let frame = self.frames.start() + range.start;
        let (dst, src) = if is_in { (address, frame) } else { (frame, address) };
        // SAFETY: by the state machine the extent's pages are at `src`, none are at `dst`, and both
        // are ours to manage.
        let moved = unsafe { self.shared.faults.move_pages(dst, src, range.len()) };
        assert!(moved.is_ok(), "pages do not move: {moved:?} {span:?} in {is_in}");
    }
}

/// Where the frames of a span are, bytes from the first frame.
pub(crate) fn bytes(span: Span) -> Range<usize> {
    let start = span.frame as usize * PAGE;
    start..start + (PAGE << span.order)
}
