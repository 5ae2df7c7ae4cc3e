//! The loop that only translates between the kernel, the drive and the state machine.

#![expect(unsafe_code, reason = "pages are moved under the program")]

use crate::{
    cache::{Action, Cache, Content, Counts, Event, Failed, Settings, Span},
    index::ExtentId,
    memory::Memory,
    pager::{PAGE, Request, Shared, lock},
    predict::Page,
    stall::Stalls,
    store::{Piece, Store, Transfer},
};
use rustix::{
    event::{PollFd, PollFlags, poll},
    io::Errno,
};
use std::{
    cell::Cell,
    collections::BTreeMap,
    ops::Range,
    sync::{Arc, mpsc::SyncSender},
    time::Instant,
};
use xxhash_rust::xxh3::xxh3_64;

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
    /// What frames held when they were as stored.
    digests: Vec<u64>,
    under_way: BTreeMap<u64, (bool, Span)>,
    /// Who waits for pages from this one on to be zeros.
    erased: Vec<(Page, SyncSender<()>)>,
    /// Regions that are given back once they are zeros, by their first page.
    gone: Vec<Page>,
    stalls: Stalls,
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
            digests: vec![0; settings.frames as usize],
            under_way: BTreeMap::new(),
            erased: vec![],
            gone: vec![],
            stalls: Stalls::default(),
        }
    }

    /// Serves faults until it is asked to stop, or nothing can be served any more.
    pub(crate) fn run(&mut self) {
        IS_WORKER.set(true);
        let mut actions = vec![];
        loop {
            let shared = Arc::clone(&self.shared);
            let ready = self.store.ready();
            let mut fds = [
                PollFd::new(&shared.faults, PollFlags::IN),
                PollFd::new(&ready, PollFlags::IN),
                PollFd::new(&shared.called, PollFlags::IN),
            ];
            match poll(&mut fds, None) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(_) => return,
            }
            if !fds[2].revents().is_empty() {
                let _ = rustix::io::read(&shared.called, &mut [0_u8; 8]);
                if self.is_stopped(&mut actions) {
                    return;
                }
            }
            for (token, outcome) in self.store.done() {
                self.transferred(token, outcome.is_ok(), &mut actions);
            }
            let Ok(faults) = shared.faults.faults() else { return };
            let faults: Vec<_> = faults.collect();
            // What a thread was given it may touch before we have seen that it was asked for.
            if !faults.is_empty() && self.is_stopped(&mut actions) {
                return;
            }
            let now = Instant::now();
            for fault in faults {
                let page = shared.page(fault.address);
                self.stalls.begin(page, now);
                let (thread, is_write) = (fault.thread, fault.is_write);
                self.cache.on(Event::Touched { thread, page, is_write }, &mut actions);
            }
            self.act(&mut actions);
            if self.store.submit().is_err() {
                return;
            }
            let stalled_ns = self.stalls.nanoseconds();
            shared.tell(Counts { stalled_ns, ..*self.cache.counts() });
        }
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
                    self.digest(span);
                    self.cache.on(Event::Filled(id, Ok(())), actions);
                }
                Action::Read(id, span) => self.transfer(id, span, false, actions),
                Action::Write(id, span) => self.transfer(id, span, true, actions),
                Action::MoveIn(id, span) => {
                    self.move_span(span, true);
                    self.stalls.end(span.pages());
                    self.cache.on(Event::MovedIn(id), actions);
                }
                Action::MoveOut { id, span, is_changed } => {
                    self.move_span(span, false);
                    let is_same = !is_changed && self.is_as_stored(span);
                    let content = if is_same { Content::Same } else { Content::Changed };
                    self.cache.on(Event::MovedOut(id, content), actions);
                }
                Action::Wake(page, pages) => {
                    self.stalls.end(page..page + pages);
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

    fn transfer(&mut self, id: ExtentId, span: Span, is_write: bool, actions: &mut Vec<Action>) {
        let range = bytes(span);
        let piece = Piece { address: self.frames.start() + range.start, bytes: range.len() };
        let transfer = Transfer {
            token: id.into(),
            is_write,
            offset: span.page * PAGE as u64,
            pieces: &[piece],
        };
        self.under_way.insert(id.into(), (is_write, span));
        // SAFETY: the frames are the extent's until the transfer is done, and its content is in
        // nobody's address space meanwhile.
        if unsafe { self.store.begin(transfer) }.is_err() {
            self.transferred(id.into(), false, actions);
        }
    }

    fn transferred(&mut self, token: u64, is_done: bool, actions: &mut Vec<Action>) {
        let Some((is_write, span)) = self.under_way.remove(&token) else { return };
        let result = if is_done { Ok(()) } else { Err(Failed) };
        if is_done {
            self.digest(span);
        }
        let id = token as ExtentId;
        let event = if is_write { Event::Wrote(id, result) } else { Event::Filled(id, result) };
        self.cache.on(event, actions);
    }

    fn move_span(&self, span: Span, is_in: bool) {
        let address = self.shared.address(span.page);
        let range = bytes(span);
        let frame = self.frames.start() + range.start;
        let (dst, src) = if is_in { (address, frame) } else { (frame, address) };
        // SAFETY: by the state machine the extent's pages are at `src`, none are at `dst`, and both
        // are ours to manage.
        let moved = unsafe { self.shared.faults.move_pages(dst, src, range.len()) };
        assert!(moved.is_ok(), "pages do not move: {moved:?}");
    }

    fn digest(&mut self, span: Span) {
        for frame in span.frame..span.frame + (1 << span.order) {
            self.digests[frame as usize] = self.digest_of(frame);
        }
    }

    fn is_as_stored(&self, span: Span) -> bool {
        let mut frames = span.frame..span.frame + (1 << span.order);
        frames.all(|frame| self.digests[frame as usize] == self.digest_of(frame))
    }

    fn digest_of(&self, frame: u32) -> u64 {
        let start = frame as usize * PAGE;
        // SAFETY: the frame has its page, and its extent is in nobody's address space.
        xxh3_64(unsafe { self.frames.part(start..start + PAGE) })
    }
}

/// Where the frames of a span are, bytes from the first frame.
fn bytes(span: Span) -> Range<usize> {
    let start = span.frame as usize * PAGE;
    start..start + (PAGE << span.order)
}
