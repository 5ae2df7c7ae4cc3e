//! The ledger of a session: its budget, and the pages that each process holds.
//!
//! The ledger is a file that all processes map. A write of one process is visible to the other
//! processes at once, and remains when the writer is killed. Each process has a *slot*:
//!
//! ```text
//! owner    process ID and start time of the process; 0 if the slot is free
//! wanted   pages of the process's regions: more frames would be of no use to the process
//! target   share of the budget that the process should hold, pages
//! held     pages of the budget that the process has reserved
//! resident pages of the process's regions that are in DRAM
//! by_node  resident pages on each NUMA node of the budget
//! unextended bytes of allocations of 128 KiB and more that are not extended
//! content  pages with content: resident, or stored, or both
//! counts   counters of the process's pager
//! ```
//!
//! The ledger has no lock, because the holder of a lock may be killed. A process that needs more
//! pages takes three steps. First, it writes the new number of pages into `held` of its slot.
//! Second, it sums `held` over all slots, and lowers its own `held` by the excess of the sum over
//! the budget. Third, it uses the pages that are left in `held`. If two processes do this at the
//! same time, at least one of them sees the new number of the other. Therefore the pages that
//! processes take in this way never exceed the budget.

#![expect(unsafe_code, reason = "memory is shared with other processes")]

use crate::{
    cache::{Counts, node::NODES_MAX},
    session::{
        fair_share::share,
        identity::{CLEARING, Identity, proc_device},
    },
};
use interleaf_prefetch::Tally;
use rustix::{
    mm::{self, MapFlags, ProtFlags},
    thread::futex,
};
use std::{
    fs::{File, OpenOptions},
    io,
    os::unix::fs::OpenOptionsExt,
    path::Path,
    ptr::{self, NonNull},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering::SeqCst},
    },
    thread,
    time::Duration,
};

/// Maximum number of processes that have a slot at the same time. A reader skips all slots after
/// the last one that was ever in use.
pub const SLOTS: usize = 4096;

/// Number of 64-bit words that a slot has for the counters of [`Counts`]. The last three words are
/// not used yet.
const COUNTS: usize = 16;

/// The index of [`Counts::footprint`] among the counter words of a slot.
const FOOTPRINT: usize = 8;

/// Minimum number of pages that a process holds, even if all processes together then exceed the
/// budget. With fewer pages, it could not hold both the pages in use and the pages being read.
pub const PAGES_MIN: u64 = 1024;

/// The value of `wanted` of a process whose pages do not count for the budget.
pub const OUTSIDE_BUDGET: u64 = u64::MAX;

/// A new process that finds fewer than [`PAGES_MIN`] free pages checks at most this number of
/// times, 1 ms apart, whether ending processes have released pages.
const POLLS_MAX: u32 = 200;

/// The version of [`Layout`].
const VERSION: u32 = 7;

/// The error for a ledger of another [`VERSION`]. It occurs because `interleaf` makes the file, and
/// the library in the extended program opens it.
const OTHER_VERSION: &str = "interleaf and libinterleaf_preload.so are of different versions; \
                             install both from the same build";

#[repr(C)]
struct Layout {
    version: AtomicU32,
    /// Number of changes of targets, plus number of releases of pages. Processes wait on this futex
    /// for the next change or release.
    changes: AtomicU32,
    /// The budget, pages.
    budget: AtomicU64,
    /// ID of the process that the session started first; 0 until it is recorded.
    first: AtomicU64,
    /// Device number of the `/proc` whose process IDs are in the slots.
    proc_device: AtomicU64,
    /// One more than the highest index of a slot that was ever in use.
    used_slots: AtomicU64,
    /// `content` is the number of pages with content in all slots together, and `footprint` is the
    /// peak of `content`. If a process is killed while it publishes its counters, `content` may
    /// stay wrong by the pages of its last change.
    content: AtomicU64,
    footprint: AtomicU64,
    /// Sums of the counters of all slots that were cleared. For the footprint, the largest value
    /// instead of the sum.
    past: [AtomicU64; COUNTS],
    slots: [Slot; SLOTS],
}

#[repr(C)]
struct Slot {
    owner: AtomicU64,
    name: [AtomicU64; 2],
    wanted: AtomicU64,
    target: AtomicU64,
    held: AtomicU64,
    resident: AtomicU64,
    unextended_bytes: AtomicU64,
    content: AtomicU64,
    counts: [AtomicU64; COUNTS],
    by_node: [AtomicU64; NODES_MAX],
}

#[derive(Debug)]
pub struct BudgetLedger {
    layout: NonNull<Layout>,
}

// SAFETY: all shared memory is accessed by atomic operations.
unsafe impl Send for BudgetLedger {}
// SAFETY: all shared memory is accessed by atomic operations.
unsafe impl Sync for BudgetLedger {}

/// A process that has a slot, or had one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Process {
    /// ID and start time of the process.
    pub identity: Identity,
    /// The process's name, at most 15 bytes.
    pub name: String,
    /// Pages of the process's regions; [`OUTSIDE_BUDGET`] if they do not count for the budget.
    pub wanted: u64,
    /// The process's share of the budget, pages.
    pub target: u64,
    /// Pages of the budget that the process has reserved.
    pub held: u64,
    /// Pages of the process's regions that are in DRAM, as the process has published them.
    pub resident: u64,
    /// Bytes of the process's allocations of 128 KiB and more that are not extended.
    pub unextended_bytes: u64,
    /// Counters of the process's pager.
    pub counts: Counts,
    /// Resident pages of the process on each node of the budget, in the order of the nodes.
    pub by_node: [u64; NODES_MAX],
}

/// The slot of this process in the ledger. When the guard is dropped, the slot is cleared.
#[derive(Debug)]
pub struct SlotGuard {
    ledger: Arc<BudgetLedger>,
    index: usize,
    identity: Identity,
    /// `getpid(2)` of the process that took the slot. In a PID namespace other than that of
    /// `/proc`, it differs from the process ID in `identity`.
    pid: u32,
    is_released: AtomicBool,
    /// The counters that this process had when it called `execve(2)` last.
    carried: [u64; COUNTS],
    /// Number of calls of [`SlotGuard::recover_next`] so far.
    checks: AtomicUsize,
}

impl BudgetLedger {
    /// Makes the file of a new ledger at `path`. Only this user can open the file. `budget` is in
    /// pages.
    ///
    /// # Errors
    /// When `path` exists, or the file cannot be made.
    pub fn create(path: &Path, budget: u64) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        let file = options.read(true).write(true).create_new(true).mode(0o600).open(path)?;
        file.set_len(size_of::<Layout>() as u64)?;
        let ledger = Self::map(&file)?;
        ledger.layout().budget.store(budget, SeqCst);
        ledger.layout().proc_device.store(proc_device()?, SeqCst);
        ledger.layout().version.store(VERSION, SeqCst);
        Ok(ledger)
    }

    /// Opens the ledger at `path`.
    ///
    /// # Errors
    /// When the file does not exist, or has another version.
    pub fn open(path: &Path) -> io::Result<Self> {
        let file = OpenOptions::new().read(true).write(true).open(path)?;
        if file.metadata()?.len() != size_of::<Layout>() as u64 {
            return Err(io::Error::other(OTHER_VERSION));
        }
        let ledger = Self::map(&file)?;
        match ledger.layout().version.load(SeqCst) {
            VERSION => Ok(ledger),
            _ => Err(io::Error::other(OTHER_VERSION)),
        }
    }

    fn map(file: &File) -> io::Result<Self> {
        let (protection, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED);
        let length = size_of::<Layout>();
        // SAFETY: a new mapping at an address that the kernel chooses overlaps no other mapping.
        let address = unsafe { mm::mmap(ptr::null_mut(), length, protection, flags, file, 0) }?;
        Ok(Self { layout: NonNull::new(address.cast()).ok_or(io::ErrorKind::OutOfMemory)? })
    }

    fn layout(&self) -> &Layout {
        // SAFETY: the file is mapped as long as `self` lives. No other user can open the file, and
        // its owner does not truncate it. Any bytes are a valid layout.
        unsafe { self.layout.as_ref() }
    }

    /// The slots that were ever in use, as a range from the first slot on.
    fn slots(&self) -> &[Slot] {
        let used = self.layout().used_slots.load(SeqCst).min(SLOTS as u64) as usize;
        &self.layout().slots[..used]
    }

    /// The budget, pages.
    pub fn budget(&self) -> u64 {
        self.layout().budget.load(SeqCst)
    }

    /// Number of pages that all processes hold together.
    pub fn held(&self) -> u64 {
        let slots = self.slots().iter();
        slots.map(|slot| slot.held.load(SeqCst)).fold(0, u64::saturating_add)
    }

    /// The ID of the process that the session started first; `None` before the ID was recorded.
    pub fn first_process(&self) -> Option<u32> {
        u32::try_from(self.layout().first.load(SeqCst)).ok().filter(|pid| *pid != 0)
    }

    /// Records the ID of the process that the session started first.
    pub fn set_first_process(&self, pid: u32) {
        self.layout().first.store(pid.into(), SeqCst);
    }

    /// The processes that have a slot.
    pub fn processes(&self) -> Vec<Process> {
        let found = |slot: &Slot| {
            let owner = slot.owner.load(SeqCst);
            let process = slot.process(Identity::from_word(owner)?);
            // Skip a slot that another process has taken while this process read it.
            (slot.owner.load(SeqCst) == owner).then_some(process)
        };
        self.slots().iter().filter_map(found).collect()
    }

    /// The footprint of the session: the peak of the number of pages with content in all processes
    /// together. A page that a forked child shares with its parent counts for both.
    pub fn footprint(&self) -> u64 {
        self.layout().footprint.load(SeqCst)
    }

    /// Sums of the counters of processes whose slots were cleared. For the footprint, the largest
    /// value instead of the sum.
    pub fn past_counts(&self) -> Counts {
        counts(&self.layout().past)
    }

    /// The identity of this process, as the owner of a slot of this ledger.
    ///
    /// # Errors
    /// When `/proc` cannot be read, or belongs to another PID namespace than the process IDs in the
    /// slots.
    pub fn own_identity(&self) -> io::Result<Identity> {
        match self.has_ids_of_slots() {
            true => Identity::own(),
            false => Err(io::Error::other("it belongs to another PID namespace than the session")),
        }
    }

    /// True if the `/proc` of this process belongs to the PID namespace of the IDs in the slots.
    fn has_ids_of_slots(&self) -> bool {
        proc_device().is_ok_and(|device| device == self.layout().proc_device.load(SeqCst))
    }

    /// Clears the slots of processes that have ended, and returns these processes. In another PID
    /// namespace, this process cannot tell which processes have ended, and clears no slot.
    pub fn recover(&self) -> Vec<Process> {
        let mut gone = vec![];
        if !self.has_ids_of_slots() {
            return gone;
        }
        for slot in self.slots() {
            gone.extend(self.clear_if_ended(slot));
        }
        if !gone.is_empty() {
            self.rebalance();
        }
        gone
    }

    /// Clears a slot if its process has ended. Returns the ended process; `None` if the slot was
    /// not cleared.
    fn clear_if_ended(&self, slot: &Slot) -> Option<Process> {
        let identity = Identity::from_word(slot.owner.load(SeqCst))?;
        if identity.is_alive() { None } else { self.clear(slot, identity) }
    }

    /// Clears a slot, adds its counters to `past`, and returns its former content. `None` if
    /// `identity` does not own the slot. If several processes call this for one slot, only one
    /// clears it.
    fn clear(&self, slot: &Slot, identity: Identity) -> Option<Process> {
        let (process, counts) = self.take_content(slot, identity)?;
        for (at, (past, count)) in self.layout().past.iter().zip(counts).enumerate() {
            match at {
                FOOTPRINT => past.fetch_max(count, SeqCst),
                _ => past.fetch_add(count, SeqCst),
            };
        }
        Some(process)
    }

    /// Clears a slot, and returns its former content and its counters. `None` if `identity` does
    /// not own the slot.
    fn take_content(&self, slot: &Slot, identity: Identity) -> Option<(Process, [u64; COUNTS])> {
        slot.owner.compare_exchange(identity.word(), CLEARING, SeqCst, SeqCst).ok()?;
        let process = slot.process(identity);
        let counts = slot.counts.each_ref().map(|count| count.swap(0, SeqCst));
        self.layout().content.fetch_sub(slot.content.swap(0, SeqCst), SeqCst);
        for word in [&slot.wanted, &slot.target, &slot.held, &slot.resident, &slot.unextended_bytes]
        {
            word.store(0, SeqCst);
        }
        slot.by_node.iter().for_each(|pages| pages.store(0, SeqCst));
        slot.owner.store(0, SeqCst);
        Some((process, counts))
    }

    /// Takes a slot for the process `identity`; `None` when all slots are taken. `wanted` is the
    /// maximum number of pages that the process can use.
    pub fn join(self: Arc<Self>, identity: Identity, name: &str, wanted: u64) -> Option<SlotGuard> {
        let mut carried = [0; COUNTS];
        for slot in self.slots() {
            // A slot with this identity is left from before an `execve(2)` of the process, which
            // changes neither process ID nor start time. The pages of that slot are gone, and its
            // counters continue in the new slot.
            if slot.owner.load(SeqCst) == identity.word()
                && let Some((_, counts)) = self.take_content(slot, identity)
            {
                carried = sum(&carried, &counts);
            }
        }
        let index = self.claim().or_else(|| {
            self.recover();
            self.claim()
        })?;
        let slot = &self.layout().slots[index];
        let mut bytes = [0; 16];
        let length = name.len().min(15);
        bytes[..length].copy_from_slice(&name.as_bytes()[..length]);
        for (word, bytes) in slot.name.iter().zip(bytes.chunks_exact(8)) {
            word.store(u64::from_ne_bytes(bytes.try_into().unwrap_or_default()), SeqCst);
        }
        slot.wanted.store(wanted, SeqCst);
        slot.set_counts(&carried);
        slot.owner.store(identity.word(), SeqCst);
        let guard = SlotGuard {
            ledger: Arc::clone(&self),
            index,
            identity,
            pid: std::process::id(),
            is_released: AtomicBool::new(false),
            carried,
            checks: AtomicUsize::new(0),
        };
        self.rebalance();
        Some(guard)
    }

    /// Claims a free slot and returns its index.
    fn claim(&self) -> Option<usize> {
        let claim = |slot: &Slot| slot.owner.compare_exchange(0, CLEARING, SeqCst, SeqCst).is_ok();
        let index = self.layout().slots.iter().position(claim)?;
        self.layout().used_slots.fetch_max(index as u64 + 1, SeqCst);
        Some(index)
    }

    /// Computes the share of each process, and wakes the processes if a share has changed. Starts
    /// again if a process has joined, left or changed `wanted` in the meantime: otherwise, of two
    /// concurrent callers, the one with older values of `wanted` could store its shares last.
    pub fn rebalance(&self) {
        let mut changed = false;
        let mut demand = self.demand();
        loop {
            let wanted: Vec<u64> = demand.iter().map(|(_, wanted)| *wanted).collect();
            let targets = share(self.budget(), &wanted);
            for ((slot, _), target) in demand.iter().zip(targets) {
                changed |= self.layout().slots[*slot].target.swap(target, SeqCst) != target;
            }
            let now = self.demand();
            if now == demand {
                break;
            }
            demand = now;
        }
        if changed {
            self.notify();
        }
    }

    /// The processes that share the budget: the index of each slot, and the number of pages that
    /// its process wants.
    fn demand(&self) -> Vec<(usize, u64)> {
        let slots = self.slots().iter().enumerate();
        let owned =
            slots.filter(|(_, slot)| Identity::from_word(slot.owner.load(SeqCst)).is_some());
        let wanted = owned.map(|(at, slot)| (at, slot.wanted.load(SeqCst)));
        wanted.filter(|(_, wanted)| *wanted != OUTSIDE_BUDGET).collect()
    }

    /// Wakes all processes that wait in [`SlotGuard::wait`].
    fn notify(&self) {
        let changes = &self.layout().changes;
        changes.fetch_add(1, SeqCst);
        // The error is ignored: the call fails only for invalid arguments.
        let _ = futex::wake(changes, futex::Flags::empty(), i32::MAX as u32);
    }
}

impl Drop for BudgetLedger {
    fn drop(&mut self) {
        // SAFETY: no other value uses the mapping. `munmap` fails only for invalid arguments.
        let _ = unsafe { mm::munmap(self.layout.as_ptr().cast(), size_of::<Layout>()) };
    }
}

impl Slot {
    fn process(&self, identity: Identity) -> Process {
        let words = self.name.iter().map(|word| word.load(SeqCst).to_ne_bytes());
        let bytes: Vec<u8> = words.flatten().take_while(|byte| *byte != 0).collect();
        Process {
            identity,
            name: String::from_utf8_lossy(&bytes).into_owned(),
            wanted: self.wanted.load(SeqCst),
            target: self.target.load(SeqCst),
            held: self.held.load(SeqCst),
            resident: self.resident.load(SeqCst),
            unextended_bytes: self.unextended_bytes.load(SeqCst),
            counts: counts(&self.counts),
            by_node: self.by_node.each_ref().map(|pages| pages.load(SeqCst)),
        }
    }

    fn set_counts(&self, counts: &[u64; COUNTS]) {
        for (word, count) in self.counts.iter().zip(counts) {
            word.store(*count, SeqCst);
        }
    }
}

impl SlotGuard {
    fn slot(&self) -> &Slot {
        &self.ledger.layout().slots[self.index]
    }

    /// The share of this process, pages. If its pages do not count for the budget, the number of
    /// pages that it holds.
    pub fn target(&self) -> u64 {
        match self.slot().wanted.load(SeqCst) {
            OUTSIDE_BUDGET => self.held(),
            _ => self.slot().target.load(SeqCst),
        }
    }

    /// The budget of the session, pages; `None` if the pages of this process do not count for it.
    pub fn session_budget(&self) -> Option<u64> {
        let is_inside = self.slot().wanted.load(SeqCst) != OUTSIDE_BUDGET;
        is_inside.then(|| self.ledger.budget())
    }

    /// Pages of the budget that this process has reserved.
    pub fn held(&self) -> u64 {
        self.slot().held.load(SeqCst)
    }

    /// Checks one slot, and clears it if its process has ended. The next call checks the next slot.
    /// These calls recover the shares of killed processes even if the keeper of the session, which
    /// checks all slots, was killed. A call takes the same time for any number of processes.
    pub fn recover_next(&self) {
        let slots = self.ledger.slots();
        let next = self.checks.fetch_add(1, SeqCst) % slots.len().max(1);
        if let Some(slot) = slots.get(next)
            && self.ledger.has_ids_of_slots()
            && self.ledger.clear_if_ended(slot).is_some()
        {
            self.ledger.rebalance();
        }
    }

    /// Sets the number of pages that this process can use, unless they do not count for the budget.
    pub fn set_wanted(&self, pages: u64) {
        let wanted = self.slot().wanted.load(SeqCst);
        if wanted != OUTSIDE_BUDGET && wanted != pages {
            self.slot().wanted.store(pages, SeqCst);
            self.ledger.rebalance();
        }
    }

    /// Raises the number of held pages to `to`, or as far as the budget allows if other processes
    /// hold too much of it. Returns the new number of held pages.
    pub fn grow(&self, to: u64) -> u64 {
        let held = &self.slot().held;
        let was = held.load(SeqCst);
        if to <= was {
            return was;
        }
        held.store(to, SeqCst);
        let all = self.ledger.held();
        let has = to.saturating_sub(all.saturating_sub(self.ledger.budget())).max(was);
        held.store(has, SeqCst);
        has
    }

    /// Takes the first pages of a new process: `part` pages, or fewer if less of the budget is
    /// free, but at least [`PAGES_MIN`]. If fewer than [`PAGES_MIN`] are free, first waits up to
    /// [`POLLS_MAX`] ms for pages of processes that have just ended or are about to end.
    pub fn take_first(&self, part: u64) -> u64 {
        let mut has = self.grow(part);
        for poll in 0..POLLS_MAX {
            if has >= part.min(PAGES_MIN) {
                break;
            }
            if poll > 0 {
                thread::sleep(Duration::from_millis(1));
            }
            self.ledger.recover();
            has = self.grow(part);
        }
        self.hold(has.max(PAGES_MIN))
    }

    /// Takes a slot for the calling process, a child that the process of this slot has just forked.
    /// Returns the child's slot and its initial number of held pages.
    ///
    /// # Errors
    /// When all slots are taken, or `own_identity` fails.
    pub fn for_child(&self) -> io::Result<(Self, u64)> {
        let name = self.slot().process(self.identity).name;
        let wanted = self.slot().wanted.load(SeqCst);
        let guard = Arc::clone(&self.ledger).join(self.ledger.own_identity()?, &name, wanted);
        let guard = guard.ok_or_else(|| io::Error::other("the session has no room for it"))?;
        let part = match wanted {
            // If the parent's pages do not count for the budget, the child's do not either.
            OUTSIDE_BUDGET => guard.hold(self.held()),
            // Do not wait for a share, because most children soon call `execve(2)`.
            _ => guard.hold(guard.grow(self.held()).max(PAGES_MIN)),
        };
        Ok((guard, part))
    }

    /// Sets the number of held pages, whatever the budget is, and returns this number.
    pub fn hold(&self, pages: u64) -> u64 {
        self.slot().held.store(pages, SeqCst);
        pages
    }

    /// Lowers the number of held pages to `to`. A number that is lower already stays unchanged.
    pub fn shrink(&self, to: u64) {
        if self.slot().held.fetch_min(to, SeqCst) > to {
            // Another process may wait for the released pages.
            self.ledger.notify();
        }
    }

    /// Clears the slot, because this process holds no pages any more.
    pub fn release(&self) {
        // Do nothing in a forked child: it has a copy of the guard, but the slot belongs to the
        // parent.
        if self.pid == std::process::id() && !self.is_released.swap(true, SeqCst) {
            self.ledger.clear(self.slot(), self.identity);
            self.ledger.rebalance();
        }
    }

    /// Publishes in the slot the counters of the pager, the number of pages with content, and the
    /// number of resident pages of each node.
    pub fn publish(&self, counts: &Counts, content: u64, by_node: &[u64]) {
        self.slot().resident.store(by_node.iter().sum(), SeqCst);
        for (word, pages) in self.slot().by_node.iter().zip(by_node) {
            word.store(*pages, SeqCst);
        }
        self.slot().set_counts(&sum(&self.carried, &words(counts)));
        let before = self.slot().content.swap(content, SeqCst);
        if before != content {
            let layout = self.ledger.layout();
            let change = content.wrapping_sub(before);
            let all = layout.content.fetch_add(change, SeqCst).wrapping_add(change);
            layout.footprint.fetch_max(all, SeqCst);
        }
    }

    /// Publishes in the slot the bytes of allocations of 128 KiB and more that are not extended.
    pub fn publish_unextended(&self, bytes: u64) {
        self.slot().unextended_bytes.store(bytes, SeqCst);
    }

    /// The argument for the next call of [`SlotGuard::wait`]: the number of changes so far.
    pub fn changes(&self) -> u32 {
        self.ledger.layout().changes.load(SeqCst)
    }

    /// Waits until a target has changed or pages were released since [`SlotGuard::changes`]
    /// returned `since`. The call may also return earlier.
    pub fn wait(&self, since: u32) {
        // Errors and early returns are ignored: the caller checks its target again in any case.
        let _ = futex::wait(&self.ledger.layout().changes, futex::Flags::empty(), since, None);
    }
}

impl Drop for SlotGuard {
    fn drop(&mut self) {
        self.release();
    }
}

/// Sums of the counters of a process before and after an `execve(2)`. The footprint is the larger
/// of both, not the sum, because the memory of the first program is gone.
fn sum(before: &[u64; COUNTS], after: &[u64; COUNTS]) -> [u64; COUNTS] {
    let mut sum = *before;
    sum.iter_mut().zip(after).for_each(|(sum, count)| *sum += count);
    sum[FOOTPRINT] = before[FOOTPRINT].max(after[FOOTPRINT]);
    sum
}

fn words(counts: &Counts) -> [u64; COUNTS] {
    let Counts {
        faults,
        minor_faults,
        read,
        written,
        prefetched,
        prefetch_hits,
        prefetch_wasted,
        evicted,
        ..
    } = *counts;
    let Counts { footprint, stalled_ns, history, .. } = *counts;
    let mut words = [0; COUNTS];
    let numbers = [
        faults,
        minor_faults,
        read,
        written,
        prefetched,
        prefetch_hits,
        prefetch_wasted,
        evicted,
        footprint,
        stalled_ns,
    ];
    let of_history = [history.prefetched, history.hits, history.wasted];
    words[..numbers.len()].copy_from_slice(&numbers);
    words[numbers.len()..][..of_history.len()].copy_from_slice(&of_history);
    words
}

fn counts(words: &[AtomicU64; COUNTS]) -> Counts {
    let words = words.each_ref().map(|word| word.load(SeqCst));
    let [
        faults,
        minor_faults,
        read,
        written,
        prefetched,
        prefetch_hits,
        prefetch_wasted,
        evicted,
        footprint,
        stalled_ns,
        ..,
    ] = words;
    let [.., asked, touched, untouched, _, _, _] = words;
    let history = Tally { prefetched: asked, hits: touched, wasted: untouched };
    Counts {
        faults,
        minor_faults,
        read,
        written,
        prefetched,
        prefetch_hits,
        prefetch_wasted,
        evicted,
        footprint,
        stalled_ns,
        history,
    }
}

#[cfg(test)]
mod tests;
