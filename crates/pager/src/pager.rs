//! Memory that is larger than what of it is in DRAM, and how it is asked for.

#![expect(unsafe_code, reason = "regions are memory that a thread of ours fills")]

use crate::{
    advice::Advice,
    cache::{self, Cache, Counts, Settings},
    kernel::{
        address_space::{Own, Space},
        frames::Frames,
        memory::{self, Memory},
        sigbus::{self, Place},
        thread::{self, Thread},
        uffd::{Faults, Userfault},
    },
    page::{PAGE_BYTES, Page},
    ranges::Ranges,
    reply::{self, Sender},
    serve::{
        arena::{Arena, Owner},
        fault_server::{self, Worker},
        fork::{Freeze, Inherit},
    },
    session::ledger::Seat,
    store::Store,
};
use rustix::{
    event::{EventfdFlags, eventfd},
    process::getpid,
};
use std::{
    io,
    ops::Range,
    os::fd::OwnedFd,
    sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, atomic::AtomicI32},
};

/// What may be done with the memory of a region as a rule: it is read and written.
pub const READ_WRITE: u32 = 3;

/// A pager, and the thread in which it works.
#[derive(Debug)]
pub struct Pager {
    pub(crate) shared: Arc<Shared>,
    worker: Mutex<Option<Thread>>,
    /// Where handlers of signals find it, if faults are served there.
    place: Option<Place>,
}

/// What the threads of a program and the pager's own have in common.
#[derive(Debug)]
pub(crate) struct Shared {
    /// Those of this process: a child that was forked gets its own.
    pub(crate) kernel: RwLock<Arc<Kernel>>,
    pub(crate) memory: Memory,
    pub(crate) arena: Mutex<Arena>,
    pub(crate) asked: Mutex<Vec<Request>>,
    pub(crate) counts: Mutex<Counts>,
    /// Where others see what was done.
    pub(crate) seat: Mutex<Option<Arc<Seat>>>,
    pub(crate) inherit: Mutex<Ranges<Inherit>>,
    /// Pages that are to stay, and how many may.
    pub(crate) pinned: Mutex<Ranges<()>>,
    pub(crate) pinned_max: u64,
    /// The process whose memory it is.
    pub(crate) process: AtomicI32,
    /// Who serves faults.
    pub(crate) by: Faults,
}

/// What of the kernel's is one process's.
#[derive(Debug)]
pub(crate) struct Kernel {
    pub(crate) faults: Userfault,
    /// Where the frames are.
    pub(crate) frames: Range<usize>,
    /// Readable when there is something in `asked` that does not wait for the next fault.
    pub(crate) called: OwnedFd,
}

/// What the worker is asked for.
#[derive(Debug)]
pub(crate) enum Request {
    /// Pages of a new region, or new pages of one beside them.
    Add(Range<Page>),
    /// Pages of a region that nobody touches any more: they go back to the arena.
    Give(Range<Page>),
    /// Pages are to be zeros: it is said when they are.
    Discard(Range<Page>, Sender<()>),
    /// Pages are of no region any more; they were discarded.
    Remove(Range<Page>),
    /// Another part of the budget is meant for this process.
    Budget,
    /// What the program says about pages.
    Advise(Range<Page>, Advice),
    /// The process is about to fork.
    Freeze(Freeze),
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
        Self::seated(settings, bytes, store, None, Faults::Thread)
    }

    /// The same for a process that may share the budget with others, and begins with so many frames
    /// then, with the choice of who serves faults.
    ///
    /// # Errors
    /// As of [`Pager::new`].
    pub fn seated(
        settings: Settings,
        bytes: usize,
        store: impl Store + 'static,
        seat: Option<(Seat, u32)>,
        by: Faults,
    ) -> io::Result<Self> {
        Self::begin(settings, bytes, Box::new(store), seat, by, None)
    }

    /// The same for pages that are not this process's alone.
    pub(crate) fn over(
        space: Box<dyn Space>,
        settings: Settings,
        bytes: usize,
        store: impl Store + 'static,
        seat: (Seat, u32),
    ) -> io::Result<Self> {
        Self::begin(settings, bytes, Box::new(store), Some(seat), Faults::Thread, Some(space))
    }

    fn begin(
        settings: Settings,
        bytes: usize,
        store: Box<dyn Store>,
        seat: Option<(Seat, u32)>,
        by: Faults,
        space: Option<Box<dyn Space>>,
    ) -> io::Result<Self> {
        let memory = Memory::reserve(bytes)?;
        let (frames, own) = match &space {
            None => (Frames::new(settings.frames)?, Some(memory.addresses())),
            Some(_) => (Frames::plain(settings.frames)?, None),
        };
        let kernel = Arc::new(Kernel::new(own, &frames, by)?);
        let space = match space {
            None => Box::new(Own::new(Arc::clone(&kernel))?),
            Some(space) => space,
        };
        let shared = Arc::new(Shared {
            kernel: RwLock::new(Arc::clone(&kernel)),
            arena: Mutex::new(Arena::new(memory.addresses())),
            memory,
            asked: Mutex::default(),
            counts: Mutex::default(),
            seat: Mutex::new(None),
            inherit: Mutex::default(),
            pinned: Mutex::default(),
            pinned_max: u64::from(cache::pinned_max(settings)),
            process: AtomicI32::new(getpid().as_raw_nonzero().get()),
            by,
        });
        let mut cache = Cache::new(settings);
        if let Some((seat, frames)) = seat {
            cache.resize(frames);
            shared.take_seat(seat)?;
        }
        let worker = Worker::over(space, Arc::clone(&shared), kernel, frames, cache, store);
        let (worker, served) = worker.shared();
        let place = served.map(sigbus::register).transpose()?;
        let worker = Mutex::new(Some(fault_server::start(worker)?));
        Ok(Self { shared, worker, place })
    }

    /// The pager of a child that was just forked.
    pub(crate) fn replace_worker(&self, worker: Worker) -> io::Result<()> {
        let (worker, served) = worker.shared();
        if let Some((place, served)) = self.place.as_ref().zip(served) {
            sigbus::replace(place, served);
        }
        // The thread of the parent is none of the child's.
        std::mem::forget(lock(&self.worker).replace(fault_server::start(worker)?));
        Ok(())
    }

    /// Whether an address is one of its regions, as far as it can be.
    pub fn has(&self, address: usize) -> bool {
        self.shared.memory.addresses().contains(&address)
    }

    /// Addresses of so many bytes, in whole pages, all of them zero; `None` when there are no more.
    pub fn take(&self, bytes: usize, align: usize) -> Option<Range<usize>> {
        self.take_protected(bytes, align, READ_WRITE)
    }

    /// As `take`; the memory may be used as said.
    pub fn take_protected(
        &self,
        bytes: usize,
        align: usize,
        protection: u32,
    ) -> Option<Range<usize>> {
        let region = lock(&self.shared.arena).take(bytes, align)?;
        if protection != 0 && self.shared.protect(&region, protection).is_err() {
            lock(&self.shared.arena).set(region, Owner::Free);
            return None;
        }
        lock(&self.shared.asked).push(Request::Add(self.shared.pages(&region)));
        Some(region)
    }

    /// Gives back pages of regions, soon: nobody touches them any more.
    pub fn give(&self, pages: Range<usize>) {
        self.shared.give(&pages);
    }

    /// Makes whole pages zeros, and waits until they are.
    pub fn discard(&self, addresses: &Range<usize>) {
        let (done, is_done) = reply::channel();
        self.shared.ask(Request::Discard(self.shared.pages(addresses), done));
        // The worker has ended, and so has all that could see the pages.
        let _ = is_done.receive();
    }

    /// Memory of so many bytes, all of them zero.
    ///
    /// # Errors
    /// When there are not so many addresses.
    pub fn region(&self, bytes: usize) -> io::Result<Region> {
        let pages = self.take(bytes, PAGE_BYTES).ok_or(io::ErrorKind::OutOfMemory)?;
        let addresses = pages.start..pages.start + bytes;
        Ok(Region { addresses, shared: Arc::clone(&self.shared) })
    }

    /// What was done so far.
    pub fn counts(&self) -> Counts {
        *lock(&self.shared.counts)
    }
}

impl Pager {
    /// Tells the session how many bytes of allocations of 128 KiB and more are not extended.
    pub fn tell_left(&self, bytes: u64) {
        // In a child that was just forked the lock may be held by a thread that it has not.
        if let Ok(seat) = self.shared.seat.try_lock()
            && let Some(seat) = &*seat
        {
            seat.tell_left(bytes);
        }
    }
}

impl Drop for Pager {
    fn drop(&mut self) {
        self.shared.ask(Request::Stop);
        if let Some(worker) = lock(&self.worker).take() {
            worker.join();
        }
        if let Some(place) = &self.place {
            sigbus::unregister(place);
        }
        // A thread that follows it may have it still.
        if let Some(seat) = &*lock(&self.shared.seat) {
            seat.leave();
        }
    }
}

impl Kernel {
    /// Takes charge of the missing pages of a reservation.
    pub(crate) fn new(
        addresses: impl IntoIterator<Item = Range<usize>>,
        frames: &Frames,
        by: Faults,
    ) -> io::Result<Self> {
        let called = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let kernel = Self { faults: Userfault::open(by)?, frames: frames.addresses(), called };
        addresses.into_iter().try_for_each(|addresses| kernel.faults.register(&addresses))?;
        Ok(kernel)
    }

    /// Has the pager's thread look what there is to do.
    pub(crate) fn call(&self) {
        // It cannot fail but when it was called 2^64 times before.
        let _ = rustix::io::write(&self.called, &1_u64.to_ne_bytes());
    }
}

impl Shared {
    /// The page that an address is in.
    pub(crate) fn page(&self, address: usize) -> Page {
        ((address - self.memory.start()) / PAGE_BYTES) as Page
    }

    /// The pages of a region, whole ones.
    pub(crate) fn pages(&self, region: &Range<usize>) -> Range<Page> {
        self.page(region.start)..self.page(region.end.next_multiple_of(PAGE_BYTES))
    }

    pub(crate) fn address(&self, page: Page) -> usize {
        self.memory.start() + page as usize * PAGE_BYTES
    }

    /// Where the frames are.
    pub(crate) fn frames(&self) -> Range<usize> {
        self.kernel().frames.clone()
    }

    pub(crate) fn kernel(&self) -> Arc<Kernel> {
        Arc::clone(&self.kernel.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Says what may be done with pages of regions.
    pub(crate) fn protect(&self, pages: &Range<usize>, protection: u32) -> io::Result<()> {
        debug_assert!(self.memory.addresses().contains(&pages.start));
        // SAFETY: they are pages of regions, and what a program may do with them is its affair.
        Ok(unsafe { memory::protect(pages, protection) }?)
    }

    /// Keeps addresses free again where something else was mapped.
    pub(crate) fn reserve_again(&self, pages: &Range<usize>) -> io::Result<()> {
        // SAFETY: they are the reservation's, and what was mapped there is to go.
        unsafe { memory::reserve_again(pages) }?;
        Ok(self.kernel().faults.register(pages)?)
    }

    /// Has this seat from now on, and looks after what is meant for it.
    pub(crate) fn take_seat(self: &Arc<Self>, seat: Seat) -> io::Result<()> {
        let seat = Arc::new(seat);
        *lock(&self.seat) = Some(Arc::clone(&seat));
        self.follow(seat)
    }

    /// A thread that asks for what is meant for a seat, whenever that changes.
    pub(crate) fn follow(self: &Arc<Self>, seat: Arc<Seat>) -> io::Result<()> {
        let shared = Arc::downgrade(self);
        thread::spawn("pager-budget", move || {
            let mut since = seat.changes();
            while let Some(shared) = shared.upgrade() {
                shared.ask(Request::Budget);
                drop(shared);
                seat.wait(since);
                since = seat.changes();
            }
        })
        .map(drop)
    }

    /// Says what was done so far.
    pub(crate) fn tell(&self, counts: Counts, resident: u64) {
        *lock(&self.counts) = counts;
        if let Some(seat) = &*lock(&self.seat) {
            seat.tell(&counts, resident);
        }
    }

    fn give(&self, pages: &Range<usize>) {
        self.ask(Request::Give(self.pages(pages)));
    }

    /// Pages are of no region any more, and nobody may touch them.
    pub(crate) fn release(&self, pages: &Range<usize>) {
        // Where it fails there are too many mappings, and the pages are zeros all the same.
        let _ = self.protect(pages, 0);
        lock(&self.arena).set(pages.clone(), Owner::Free);
    }

    /// The addresses of pages.
    pub(crate) fn addresses(&self, pages: &Range<Page>) -> Range<usize> {
        self.address(pages.start)..self.address(pages.end)
    }

    /// Asks for something now.
    pub(crate) fn ask(&self, request: Request) {
        lock(&self.asked).push(request);
        self.kernel().call();
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

    /// Says something about a part of its bytes; what lies beyond its end is left out.
    pub fn advise(&self, part: Range<usize>, advice: Advice) {
        let end = part.end.min(self.addresses.len());
        if part.start < end {
            let at = |offset: usize| self.addresses.start + offset;
            let pages =
                at(part.start) / PAGE_BYTES * PAGE_BYTES..at(end).next_multiple_of(PAGE_BYTES);
            self.shared.ask(Request::Advise(self.shared.pages(&pages), advice));
        }
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        let end = self.addresses.end.next_multiple_of(PAGE_BYTES);
        self.shared.give(&(self.addresses.start..end));
    }
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;
    use crate::{prefetch::Limits, store::FileStore};

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
