//! Memory that is larger than what of it is in DRAM, and how it is asked for.

#![expect(unsafe_code, reason = "regions are memory that a thread of ours fills")]

use crate::{
    advice::Advice,
    arena::Arena,
    cache::{Counts, Settings},
    memory::Memory,
    predict::Page,
    store::{Lost, Store},
    uffd::Userfault,
    worker::Worker,
};
use rustix::event::{EventfdFlags, eventfd};
use std::{
    io::{self, Write},
    ops::Range,
    os::fd::OwnedFd,
    sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc},
    thread::{self, JoinHandle},
};

/// Bytes of a page.
pub(crate) const PAGE: usize = 4096;

/// A pager, and the thread in which it works.
#[derive(Debug)]
pub struct Pager {
    shared: Arc<Shared>,
    worker: Option<JoinHandle<()>>,
}

/// What the threads of a program and the pager's own have in common.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) faults: Userfault,
    /// Readable when there is something in `asked` that does not wait for the next fault.
    pub(crate) called: OwnedFd,
    memory: Memory,
    pub(crate) arena: Mutex<Arena>,
    pub(crate) asked: Mutex<Vec<Request>>,
    pub(crate) counts: Mutex<Counts>,
}

/// What the worker is asked for.
#[derive(Debug)]
pub(crate) enum Request {
    /// Pages of a new region.
    Add(Range<Page>),
    /// The pages of a region that nobody touches any more: it goes back to the arena.
    Give(Range<Page>),
    /// Pages are to be zeros: it is said when they are.
    Discard(Range<Page>, mpsc::SyncSender<()>),
    /// What the program says about pages.
    Advise(Range<Page>, Advice),
    /// All is over.
    Stop,
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
        let mut worker = Worker::new(Arc::clone(&shared), frames, settings, Box::new(store));
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
        lock(&self.shared.asked).push(Request::Add(self.shared.pages(&region)));
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

    /// Makes whole pages zeros, and waits until they are.
    pub fn discard(&self, addresses: &Range<usize>) {
        let (done, is_done) = mpsc::sync_channel(1);
        self.shared.ask(Request::Discard(self.shared.pages(addresses), done));
        // The worker has ended, and so has all that could see the pages.
        let _ = is_done.recv();
    }

    /// Says something about pages of regions.
    pub fn advise(&self, pages: &Range<usize>, advice: Advice) {
        self.shared.ask(Request::Advise(self.shared.pages(pages), advice));
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
        self.shared.ask(Request::Stop);
        if let Some(worker) = self.worker.take() {
            let _ = worker.join();
        }
    }
}

impl Shared {
    /// The page that an address is in.
    pub(crate) fn page(&self, address: usize) -> Page {
        ((address - self.memory.start()) / PAGE) as Page
    }

    /// The pages of a region, whole ones.
    fn pages(&self, region: &Range<usize>) -> Range<Page> {
        self.page(region.start)..self.page(region.end.next_multiple_of(PAGE))
    }

    pub(crate) fn address(&self, page: Page) -> usize {
        self.memory.start() + page as usize * PAGE
    }

    /// Lets the kernel forget what it has for addresses where no page is.
    pub(crate) fn forget(&self, addresses: Range<usize>) {
        self.memory.forget(addresses);
    }

    /// Tells the user what was lost.
    pub(crate) fn tell(&self, lost: &Lost) {
        let _ = writeln!(io::stderr(), "interleaf: {lost}");
    }

    fn give(&self, start: usize) {
        let Some(region) = lock(&self.arena).region(start) else { return };
        self.ask(Request::Give(self.pages(&region)));
    }

    /// Asks for something now.
    fn ask(&self, request: Request) {
        lock(&self.asked).push(request);
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

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;
    use crate::{predict::Limits, store::FileStore};

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
    }
}
