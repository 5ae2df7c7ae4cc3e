//! The loop that only translates between the kernel, the drive and the state machine.

#![expect(unsafe_code, reason = "pages are moved under the program")]

use crate::{
    cache::{Action, Cache, Content, Event, Failed, Span},
    fatal::fatal,
    fork::{Child, Freeze},
    frames::Frames,
    index::ExtentId,
    mover::{Held, Mover},
    pager::{Kernel, PAGE, Request, Shared, lock},
    predict::Page,
    store::{Piece, Store, Transfer},
};
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::Errno,
};
use std::{
    cell::Cell,
    collections::BTreeMap,
    io, mem,
    ops::Range,
    panic::{self, AssertUnwindSafe},
    ptr,
    sync::{Arc, mpsc::SyncSender},
    thread::{self, JoinHandle},
};
use xxhash_rust::xxh3::xxh3_64;

/// After so long, what something held is tried again: nobody says when it is not held any more.
const AGAIN: Timespec = Timespec { tv_sec: 0, tv_nsec: 5_000_000 };

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
pub(crate) fn start(mut worker: Worker) -> io::Result<JoinHandle<()>> {
    let before = block_signals();
    let run = move || {
        let outcome = panic::catch_unwind(AssertUnwindSafe(|| worker.run()));
        match outcome {
            Ok(Ok(())) => {}
            Ok(Err(why)) => fatal(format_args!("{why}")),
            Err(_) => fatal(format_args!("the pager has failed")),
        }
    };
    let thread = thread::Builder::new().name("pager".into()).spawn(run);
    // SAFETY: it is the mask that the thread had.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &before, ptr::null_mut()) };
    thread
}

/// Blocks all signals in the calling thread, and gives those that were.
fn block_signals() -> libc::sigset_t {
    // SAFETY: sets of signals are plain numbers, which the calls fill.
    unsafe {
        let (mut all, mut before) = (mem::zeroed(), mem::zeroed());
        libc::sigfillset(&mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &all, &mut before);
        before
    }
}

/// What a pager's own thread has.
pub(crate) struct Worker {
    shared: Arc<Shared>,
    kernel: Arc<Kernel>,
    frames: Frames,
    mover: Mover,
    store: Box<dyn Store>,
    cache: Cache,
    /// What frames held when they were as stored.
    digests: Vec<u64>,
    under_way: BTreeMap<u64, (bool, Span)>,
    /// Who waits for pages from this one on to be zeros.
    erased: Vec<(Page, SyncSender<()>)>,
    /// Pages that are given back once they are zeros.
    gone: Vec<Range<Page>>,
    /// A fork that waits until nothing is in the address space.
    freeze: Option<Freeze>,
    /// Whether something holds pages.
    is_held: bool,
}

impl Worker {
    pub(crate) fn new(
        shared: Arc<Shared>,
        kernel: Arc<Kernel>,
        frames: Frames,
        cache: Cache,
        store: Box<dyn Store>,
    ) -> io::Result<Self> {
        let count = cache.settings().frames;
        Ok(Self {
            shared,
            kernel,
            frames,
            mover: Mover::new()?,
            store,
            cache,
            digests: vec![0; count as usize],
            under_way: BTreeMap::new(),
            erased: vec![],
            gone: vec![],
            freeze: None,
            is_held: false,
        })
    }

    /// Serves faults until it is asked to stop.
    ///
    /// # Errors
    /// When nothing can be served any more.
    pub(crate) fn run(&mut self) -> io::Result<()> {
        IS_WORKER.set(true);
        let kernel = Arc::clone(&self.kernel);
        let mut actions = vec![];
        loop {
            let is_called = self.wait(&kernel)?;
            if is_called {
                let _ = rustix::io::read(&kernel.called, &mut [0_u8; 8]);
                if self.is_stopped(&mut actions) {
                    return Ok(());
                }
            }
            for (token, outcome) in self.store.done() {
                self.transferred(token, outcome.is_ok(), &mut actions);
            }
            if mem::take(&mut self.is_held) {
                self.cache.on(Event::Again, &mut actions);
            }
            // Before a fork nothing more comes in.
            let faults: Vec<_> = match self.freeze {
                None => kernel.faults.faults()?.collect(),
                Some(_) => vec![],
            };
            // What a thread was given it may touch before we have seen that it was asked for.
            if !faults.is_empty() && self.is_stopped(&mut actions) {
                return Ok(());
            }
            for fault in faults {
                let page = self.shared.page(fault.address);
                let (thread, is_write) = (fault.thread, fault.is_write);
                self.cache.on(Event::Touched { thread, page, is_write }, &mut actions);
            }
            self.act(&mut actions)?;
            self.forks(&mut actions)?;
            self.store.submit()?;
            *lock(&self.shared.counts) = *self.cache.counts();
        }
    }

    /// Waits until there is something to do, and says whether somebody has called.
    fn wait(&self, kernel: &Kernel) -> io::Result<bool> {
        let ready = self.store.ready();
        let faults = match self.freeze {
            None => PollFlags::IN,
            Some(_) => PollFlags::empty(),
        };
        let mut fds = [
            PollFd::new(&kernel.called, PollFlags::IN),
            PollFd::new(&ready, PollFlags::IN),
            PollFd::new(&kernel.faults, faults),
        ];
        match poll(&mut fds, self.is_held.then_some(&AGAIN)) {
            Ok(_) | Err(Errno::INTR) => Ok(!fds[0].revents().is_empty()),
            Err(why) => Err(why.into()),
        }
    }

    /// Lets a process fork once nothing is under way, and waits until it has.
    fn forks(&mut self, actions: &mut Vec<Action>) -> io::Result<()> {
        let is_still = self.cache.is_still() && self.under_way.is_empty() && self.gone.is_empty();
        let Some(freeze) = self.freeze.take_if(|_| is_still) else { return Ok(()) };
        let child = match self.cache.of_child() {
            Some(cache) => self.store.fork().map(|store| Child { cache, store }),
            None => Err(io::Error::other("some of it could not be stored")),
        };
        // Who asked waits for both.
        let _ = freeze.frozen.send(child);
        let _ = freeze.thaw.recv();
        self.cache.on(Event::Thaw, actions);
        self.act(actions)
    }

    /// Sees to what was asked for, and says whether that was to stop.
    fn is_stopped(&mut self, actions: &mut Vec<Action>) -> bool {
        let asked = mem::take(&mut *lock(&self.shared.asked));
        for request in asked {
            match request {
                Request::Add(pages) => self.cache.add(pages),
                Request::Give(pages) => {
                    self.gone.push(pages.clone());
                    self.cache.on(Event::Discarded(pages), actions);
                }
                Request::Discard(pages, done) => {
                    self.erased.push((pages.start, done));
                    self.cache.on(Event::Discarded(pages), actions);
                }
                Request::Remove(pages) => self.cache.remove(&pages),
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
        false
    }

    /// Pages from this one on are zeros everywhere.
    fn erased(&mut self, page: Page, actions: &mut Vec<Action>) {
        if let Some(at) = self.gone.iter().position(|gone| gone.start == page) {
            let pages = self.gone.swap_remove(at);
            self.cache.remove(&pages);
            self.shared.release(&self.shared.addresses(&pages));
        }
        if let Some(at) = self.erased.iter().position(|(first, _)| *first == page) {
            // Who asked may be gone.
            let _ = self.erased.swap_remove(at).1.send(());
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
                    self.digest(span);
                    self.cache.on(Event::Filled(id, Ok(())), actions);
                }
                Action::Read(id, span) => {
                    self.frames.make(&bytes(span), &self.kernel.faults)?;
                    self.transfer(id, span, false, actions);
                }
                Action::Write(id, span) => self.transfer(id, span, true, actions),
                Action::MoveIn(id, span) => {
                    let (page, frame, length) = self.places(span);
                    self.mover.bring(&self.kernel.faults, page, frame, length);
                    self.cache.on(Event::MovedIn(id), actions);
                }
                Action::MoveOut { id, span, is_changed } => {
                    self.move_out(id, span, is_changed, actions);
                }
                Action::Drop(id, span) => {
                    let (page, frame, length) = self.places(span);
                    self.mover.drop_held(&self.kernel.faults, frame, page, length);
                    self.cache.on(Event::MovedOut(id, Content::Changed), actions);
                }
                Action::Wake(page, pages) => {
                    let addresses = self.shared.addresses(&(page..page + pages));
                    let _ = self.kernel.faults.wake(&addresses);
                }
                Action::Erase(page, pages) => {
                    self.store.erase(page * PAGE as u64, pages * PAGE as u64);
                    self.erased(page, actions);
                }
                Action::Poison(page) => {
                    let addresses = self.shared.addresses(&(page..page + 1));
                    let _ = self.kernel.faults.poison(&addresses);
                }
            }
        }
        actions.clear();
        Ok(())
    }

    fn move_out(&mut self, id: ExtentId, span: Span, is_changed: bool, to: &mut Vec<Action>) {
        let (page, frame, length) = self.places(span);
        let event = match self.mover.fetch(&self.kernel.faults, frame, page, length) {
            Ok(is_missing) => {
                let is_same = !is_changed && !is_missing && self.is_as_stored(span);
                let content = if is_same { Content::Same } else { Content::Changed };
                Event::MovedOut(id, content)
            }
            Err(Held) => {
                self.is_held = true;
                Event::Held(id)
            }
        };
        self.cache.on(event, to);
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

    /// Where the pages of a span are, where its frames, and how many bytes.
    fn places(&self, span: Span) -> (usize, usize, usize) {
        let range = bytes(span);
        (self.shared.address(span.page), self.frames.start() + range.start, range.len())
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
