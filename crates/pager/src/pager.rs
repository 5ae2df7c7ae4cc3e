//! The loop that only translates between the kernel, the drive and the state machine.

#![expect(unsafe_code, reason = "pages are moved under the program")]

use crate::{
    arena::Arena,
    cache::{Action, Cache, Content, Counts, Event, Failed, Settings, Span},
    index::ExtentId,
    memory::Memory,
    predict::Page,
    store::{Store, Transfer},
    uffd::Userfault,
};
use rustix::{
    event::{EventfdFlags, PollFd, PollFlags, eventfd, poll},
    io::Errno,
};
use std::{
    cell::Cell,
    collections::BTreeMap,
    io,
    ops::Range,
    os::fd::OwnedFd,
    sync::{Arc, Mutex, PoisonError},
    thread::{self, JoinHandle},
};
use xxhash_rust::xxh3::xxh3_64;

/// Bytes of a page.
const PAGE: usize = 4096;

thread_local! {
    static IS_WORKER: Cell<bool> = const { Cell::new(false) };
}

/// Whether the calling thread is a pager's own, which must not wait for itself: it has to take its
/// memory elsewhere.
pub fn is_worker() -> bool {
    IS_WORKER.get()
}

/// A pager, and the thread in which it works.
#[derive(Debug)]
pub struct Pager {
    shared: Arc<Shared>,
    worker: Option<JoinHandle<()>>,
}

/// What the threads of a program and the pager's own have in common.
#[derive(Debug)]
struct Shared {
    faults: Userfault,
    /// Readable when there is something in `asked`.
    called: OwnedFd,
    memory: Memory,
    arena: Mutex<Arena>,
    asked: Mutex<Asked>,
    counts: Mutex<Counts>,
}

/// What the worker is asked for.
#[derive(Debug, Default)]
struct Asked {
    stop: bool,
    new: Vec<Range<Page>>,
    gone: Vec<Range<Page>>,
}

/// Memory that is as large as asked for, whatever the budget.
#[derive(Debug)]
pub struct Region {
    addresses: Range<usize>,
    shared: Arc<Shared>,
}

impl Pager {
    /// Starts a pager with so much DRAM, for regions of so many bytes in all.
    ///
    /// # Errors
    /// When there is no right to `userfaultfd`, or not so much memory.
    pub fn new(settings: Settings, bytes: usize, store: impl Store + 'static) -> io::Result<Self> {
        let frames = Memory::new(settings.frames as usize * PAGE, true)?;
        // SAFETY: the frames were just mapped. Each gets its page, which it keeps for good.
        unsafe { frames.zero(0..frames.bytes()) };
        let memory = Memory::new(bytes, false)?;
        let shared = Arc::new(Shared {
            faults: Userfault::open()?,
            called: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?,
            arena: Mutex::new(Arena::new(memory.addresses())),
            memory,
            asked: Mutex::default(),
            counts: Mutex::default(),
        });
        shared.faults.register(&shared.memory.addresses())?;
        // Pages come back to their frames by a move too.
        shared.faults.register(&frames.addresses())?;
        let mut worker = Worker {
            shared: Arc::clone(&shared),
            frames,
            store: Box::new(store),
            cache: Cache::new(settings),
            digests: vec![0; settings.frames as usize],
            under_way: BTreeMap::new(),
        };
        let worker = thread::Builder::new().name("pager".into()).spawn(move || worker.run())?;
        Ok(Self { shared, worker: Some(worker) })
    }

    /// Whether an address is one of its regions, as far as it can be.
    pub fn has(&self, address: usize) -> bool {
        self.shared.memory.addresses().contains(&address)
    }

    /// Addresses of so many bytes, all of them zero; `None` when there are no more.
    pub fn take(&self, bytes: usize, align: usize) -> Option<Range<usize>> {
        let region = lock(&self.shared.arena).take(bytes, align)?;
        lock(&self.shared.asked).new.push(self.shared.pages(&region));
        Some(region)
    }

    /// The region that begins at an address.
    pub fn of(&self, start: usize) -> Option<Range<usize>> {
        lock(&self.shared.arena).region(start)
    }

    /// Gives back the region that begins at an address: nobody touches it any more.
    pub fn give(&self, start: usize) {
        self.shared.give(start);
    }

    /// Memory of so many bytes, all of them zero.
    ///
    /// # Errors
    /// When there are not so many addresses.
    pub fn region(&self, bytes: usize) -> io::Result<Region> {
        let addresses = self.take(bytes, PAGE).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Region { addresses, shared: Arc::clone(&self.shared) })
    }

    /// What was done so far.
    pub fn counts(&self) -> Counts {
        *lock(&self.shared.counts)
    }
}

impl Drop for Pager {
    fn drop(&mut self) {
        lock(&self.shared.asked).stop = true;
        self.shared.call();
        if let Some(worker) = self.worker.take() {
            let _ = worker.join();
        }
    }
}

impl Shared {
    /// The pages of a region, whole ones.
    fn pages(&self, region: &Range<usize>) -> Range<Page> {
        let page = |address: usize| ((address - self.memory.start()) / PAGE) as Page;
        page(region.start)..page(region.end.next_multiple_of(PAGE))
    }

    fn address(&self, page: Page) -> usize {
        self.memory.start() + page as usize * PAGE
    }

    fn give(&self, start: usize) {
        let Some(region) = lock(&self.arena).region(start) else { return };
        lock(&self.asked).gone.push(self.pages(&region));
        self.call();
    }

    fn call(&self) {
        // It cannot fail but when it was called 2^64 times before.
        let _ = rustix::io::write(&self.called, &1_u64.to_ne_bytes());
    }
}

impl Region {
    /// Its bytes.
    pub fn bytes(&self) -> &[u8] {
        let address = self.addresses.start as *const u8;
        // SAFETY: all of it is mapped for as long as the value lives; a page that is not there is
        // brought in when it is touched.
        unsafe { std::slice::from_raw_parts(address, self.addresses.len()) }
    }

    /// Its bytes, to write.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        let address = self.addresses.start as *mut u8;
        // SAFETY: as of `bytes`; the value is ours alone.
        unsafe { std::slice::from_raw_parts_mut(address, self.addresses.len()) }
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        self.shared.give(self.addresses.start);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

struct Worker {
    shared: Arc<Shared>,
    frames: Memory,
    store: Box<dyn Store>,
    cache: Cache,
    /// What frames held when they were as stored.
    digests: Vec<u64>,
    under_way: BTreeMap<u64, (bool, Span)>,
}

impl Worker {
    fn run(&mut self) {
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
            let is_called = !fds[2].revents().is_empty();
            if is_called && self.is_stopped(&mut actions) {
                return;
            }
            for (token, outcome) in self.store.done() {
                self.transferred(token, outcome.is_ok(), &mut actions);
            }
            let Ok(faults) = shared.faults.faults() else { return };
            for fault in faults {
                self.learn();
                let page = ((fault.address - shared.memory.start()) / PAGE) as Page;
                let (thread, is_write) = (fault.thread, fault.is_write);
                self.cache.on(Event::Touched { thread, page, is_write }, &mut actions);
            }
            self.act(&mut actions);
            if self.store.submit().is_err() {
                return;
            }
            *lock(&shared.counts) = *self.cache.counts();
        }
    }

    /// Regions that are new become known.
    fn learn(&mut self) {
        for region in std::mem::take(&mut lock(&self.shared.asked).new) {
            self.cache.add(region);
        }
    }

    /// Sees to what was asked for, and says whether that was to stop.
    fn is_stopped(&mut self, actions: &mut Vec<Action>) -> bool {
        self.learn();
        let _ = rustix::io::read(&self.shared.called, &mut [0_u8; 8]);
        let gone = std::mem::take(&mut lock(&self.shared.asked).gone);
        for region in gone {
            self.cache.on(Event::Discarded(region), actions);
        }
        lock(&self.shared.asked).stop
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
                    self.cache.on(Event::MovedIn(id), actions);
                }
                Action::MoveOut { id, span, is_changed } => {
                    self.move_span(span, false);
                    let is_same = !is_changed && self.is_as_stored(span);
                    let content = if is_same { Content::Same } else { Content::Changed };
                    self.cache.on(Event::MovedOut(id, content), actions);
                }
                Action::Wake(page, pages) => {
                    let address = self.shared.address(page);
                    let end = address + pages as usize * PAGE;
                    let _ = self.shared.faults.wake(&(address..end));
                }
                Action::Erase(page, pages) => {
                    self.store.erase(page * PAGE as u64, pages * PAGE as u64);
                    self.cache.remove(page);
                    lock(&self.shared.arena).give(self.shared.address(page));
                    self.cache.on(Event::Erased(page), actions);
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
        let transfer = Transfer {
            token: id.into(),
            is_write,
            offset: span.page * PAGE as u64,
            address: self.frames.start() + range.start,
            bytes: range.len(),
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;
    use crate::{predict::streams::Limits, store::FileStore};

    const SETTINGS: Settings =
        Settings { frames: 2048, order: 2, ahead: Limits { first: 16, most: 256 } };

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
        println!("{counts:?}");
    }
}
