//! What the processes of a session share: the budget, and who has how much of it.
//!
//! The board is a file that all of them map, so that what one writes the others see at once, and
//! what one wrote is there when it has been killed. Each process has a *slot*:
//!
//! ```text
//! owner    who it belongs to; nobody: 0
//! wanted   pages of its regions: more than that it cannot use
//! target   pages of the budget that are meant for it
//! held     pages that it has
//! resident pages of its regions that are in DRAM
//! left     bytes of large allocations that are not extended
//! counts   what its pager did
//! ```
//!
//! Nothing is locked, since whoever holds a lock may be killed. Who wants more pages first says so
//! in its slot, and then adds up what all hold: of two that do so at once, one at least sees the
//! other. So the sum is never more than the budget once both have looked, and nobody uses pages
//! before it has looked.

#![expect(unsafe_code, reason = "memory is shared with other processes")]

use crate::{cache::Counts, prefetch::Tally, session::fair_share::share};
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
        atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::SeqCst},
    },
    thread,
    time::Duration,
};

/// Processes that have pages at the same time.
pub const SLOTS: usize = 256;

/// Numbers of [`Counts`], and a few to come.
const COUNTS: usize = 16;

/// Each process has so many pages at least, even where that is more than the budget: with fewer
/// nothing moves any more, since what is brought in and what is in use have to fit.
pub const LEAST: u64 = 1024;

/// Wanted by a process whose pages are no part of the budget.
pub const OWN: u64 = u64::MAX;

/// So often a process that begins looks at who may just have ended, a millisecond apart.
const LOOKS: u32 = 200;

/// Changes with everything below.
const VERSION: u32 = 2;

/// The slot is being cleared by somebody.
const CLEARING: u64 = u64::MAX;

/// A process, for good: its number may be given to another one later, at another time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Its number.
    pub pid: u32,
    /// When it began, ticks after boot; the lower half of them.
    pub start: u32,
}

/// All that is shared.
#[repr(C)]
struct Page {
    version: AtomicU32,
    /// Counts changes of targets: who waits for one waits for this.
    changes: AtomicU32,
    /// Pages that all may have together.
    budget: AtomicU64,
    /// The process that was started first, where only that one is extended.
    first: AtomicU64,
    /// What those did whose slots have been cleared.
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
    left_bytes: AtomicU64,
    counts: [AtomicU64; COUNTS],
}

/// The board of a session.
#[derive(Debug)]
pub struct Board {
    page: NonNull<Page>,
}

// SAFETY: all that is in it is atomic.
unsafe impl Send for Board {}
// SAFETY: as before.
unsafe impl Sync for Board {}

/// A process that has pages of the budget, or had.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Process {
    /// Which.
    pub identity: Identity,
    /// Its name, of at most 15 bytes.
    pub name: String,
    /// Pages of its regions.
    pub wanted: u64,
    /// Pages that are meant for it.
    pub target: u64,
    /// Pages that it has.
    pub held: u64,
    /// Pages of its regions that are in DRAM.
    pub resident: u64,
    /// Bytes of allocations of 128 KiB and more that are not extended.
    pub left_bytes: u64,
    /// What its pager did.
    pub counts: Counts,
}

/// The slot of this process, which is cleared when it is dropped.
#[derive(Debug)]
pub struct Seat {
    board: Arc<Board>,
    at: usize,
    identity: Identity,
    has_left: AtomicBool,
}

impl Identity {
    /// That of this process.
    ///
    /// # Errors
    /// When `/proc` cannot be read.
    pub fn own() -> io::Result<Self> {
        Self::of(std::process::id())?.ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    /// That of a process that runs; `None` where there is none, or it has ended.
    ///
    /// # Errors
    /// When `/proc` cannot be read.
    pub fn of(pid: u32) -> io::Result<Option<Self>> {
        let text = match std::fs::read(format!("/proc/{pid}/stat")) {
            Ok(text) => text,
            Err(why) if why.kind() == io::ErrorKind::NotFound => return Ok(None),
            // It has ended since the file was opened.
            Err(why) if why.raw_os_error() == Some(libc::ESRCH) => return Ok(None),
            Err(why) => return Err(why),
        };
        // The name before is in brackets, and may have any character in it.
        let rest = text.iter().rposition(|byte| *byte == b')').map(|at| &text[at + 1..]);
        let fields = String::from_utf8_lossy(rest.unwrap_or_default()).into_owned();
        let fields: Vec<&str> = fields.split_whitespace().collect();
        // Fields are numbered from 1, and the state is the third.
        let is_there = fields.first().is_some_and(|state| !matches!(*state, "Z" | "X"));
        let start = fields.get(19).and_then(|start| start.parse::<u64>().ok());
        Ok(start.filter(|_| is_there).map(|start| Self { pid, start: start as u32 }))
    }

    /// Whether it still runs. That it cannot be seen is no proof that it does not.
    pub fn is_alive(&self) -> bool {
        match Self::of(self.pid) {
            Ok(found) => found == Some(*self),
            Err(_) => true,
        }
    }

    fn word(self) -> u64 {
        u64::from(self.start) << 32 | u64::from(self.pid)
    }

    fn from_word(word: u64) -> Option<Self> {
        let is_owner = word != 0 && word != CLEARING;
        is_owner.then_some(Self { pid: word as u32, start: (word >> 32) as u32 })
    }
}

impl Board {
    /// A new board at `path`, private to its owner.
    ///
    /// # Errors
    /// When there is something at `path`, or it cannot be made.
    pub fn create(path: &Path, budget: u64) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        let file = options.read(true).write(true).create_new(true).mode(0o600).open(path)?;
        file.set_len(size_of::<Page>() as u64)?;
        let board = Self::map(&file)?;
        board.page().budget.store(budget, SeqCst);
        board.page().version.store(VERSION, SeqCst);
        Ok(board)
    }

    /// The board at `path`.
    ///
    /// # Errors
    /// When there is none, or it is of another version.
    pub fn open(path: &Path) -> io::Result<Self> {
        let file = OpenOptions::new().read(true).write(true).open(path)?;
        if file.metadata()?.len() != size_of::<Page>() as u64 {
            return Err(io::Error::other("it is of another version"));
        }
        let board = Self::map(&file)?;
        match board.page().version.load(SeqCst) {
            VERSION => Ok(board),
            _ => Err(io::Error::other("it is of another version")),
        }
    }

    fn map(file: &File) -> io::Result<Self> {
        let (protection, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED);
        let length = size_of::<Page>();
        // SAFETY: a new mapping at an address that the kernel chooses overlaps no other.
        let page = unsafe { mm::mmap(ptr::null_mut(), length, protection, flags, file, 0) }?;
        Ok(Self { page: NonNull::new(page.cast()).ok_or(io::ErrorKind::OutOfMemory)? })
    }

    fn page(&self) -> &Page {
        // SAFETY: it is mapped as long as the value lives, the file is as long as that and nobody
        // makes it shorter (it is private to its owner), and any bytes are such a page.
        unsafe { self.page.as_ref() }
    }

    /// Pages that all may have together.
    pub fn budget(&self) -> u64 {
        self.page().budget.load(SeqCst)
    }

    /// Pages of the budget that processes have.
    pub fn held(&self) -> u64 {
        let slots = self.page().slots.iter();
        slots.map(|slot| slot.held.load(SeqCst)).fold(0, u64::saturating_add)
    }

    /// The process that was started first; `None` as long as nobody has said.
    pub fn first(&self) -> Option<u32> {
        u32::try_from(self.page().first.load(SeqCst)).ok().filter(|pid| *pid != 0)
    }

    /// Says which process was started first.
    pub fn set_first(&self, pid: u32) {
        self.page().first.store(pid.into(), SeqCst);
    }

    /// Those that have a slot.
    pub fn processes(&self) -> Vec<Process> {
        let found = |slot: &Slot| {
            let owner = slot.owner.load(SeqCst);
            let process = slot.process(Identity::from_word(owner)?);
            // What was read may be of the next one.
            (slot.owner.load(SeqCst) == owner).then_some(process)
        };
        self.page().slots.iter().filter_map(found).collect()
    }

    /// What those did whose slots have been cleared.
    pub fn past(&self) -> Counts {
        counts(&self.page().past)
    }

    /// Clears the slots of those who have gone, and says who they were.
    pub fn recover(&self) -> Vec<Process> {
        let mut gone = vec![];
        for slot in &self.page().slots {
            let identity = Identity::from_word(slot.owner.load(SeqCst));
            let Some(identity) = identity.filter(|identity| !identity.is_alive()) else { continue };
            gone.extend(self.clear(slot, identity));
        }
        if !gone.is_empty() {
            self.rebalance();
        }
        gone
    }

    /// Clears a slot of this owner: of several who try, one does.
    fn clear(&self, slot: &Slot, identity: Identity) -> Option<Process> {
        slot.owner.compare_exchange(identity.word(), CLEARING, SeqCst, SeqCst).ok()?;
        let process = slot.process(identity);
        for (past, count) in self.page().past.iter().zip(&slot.counts) {
            past.fetch_add(count.swap(0, SeqCst), SeqCst);
        }
        for word in [&slot.wanted, &slot.target, &slot.held, &slot.resident, &slot.left_bytes] {
            word.store(0, SeqCst);
        }
        slot.owner.store(0, SeqCst);
        Some(process)
    }

    /// A slot for this process, which wants so many pages; `None` when all are taken.
    pub fn join(self: Arc<Self>, identity: Identity, name: &str, wanted: u64) -> Option<Seat> {
        for slot in &self.page().slots {
            // A program that became another one has the same number, but no pages any more.
            if slot.owner.load(SeqCst) == identity.word() {
                self.clear(slot, identity);
            }
        }
        let at = self.free().or_else(|| {
            self.recover();
            self.free()
        })?;
        let slot = &self.page().slots[at];
        let mut bytes = [0; 16];
        let length = name.len().min(15);
        bytes[..length].copy_from_slice(&name.as_bytes()[..length]);
        for (word, bytes) in slot.name.iter().zip(bytes.chunks_exact(8)) {
            word.store(u64::from_ne_bytes(bytes.try_into().unwrap_or_default()), SeqCst);
        }
        slot.wanted.store(wanted, SeqCst);
        slot.owner.store(identity.word(), SeqCst);
        let seat =
            Seat { board: Arc::clone(&self), at, identity, has_left: AtomicBool::new(false) };
        self.rebalance();
        Some(seat)
    }

    /// A free slot, which is being made ready.
    fn free(&self) -> Option<usize> {
        let take = |slot: &Slot| slot.owner.compare_exchange(0, CLEARING, SeqCst, SeqCst).is_ok();
        self.page().slots.iter().position(take)
    }

    /// Says anew how many pages are meant for each. Whoever does it at the same time comes to the
    /// same, or to what is right a moment later.
    pub fn rebalance(&self) {
        let page = self.page();
        let owned = |slot: &&Slot| {
            let is_owned = Identity::from_word(slot.owner.load(SeqCst)).is_some();
            is_owned && slot.wanted.load(SeqCst) != OWN
        };
        let slots: Vec<&Slot> = page.slots.iter().filter(owned).collect();
        let wanted: Vec<u64> = slots.iter().map(|slot| slot.wanted.load(SeqCst)).collect();
        let targets = share(self.budget(), &wanted);
        let mut changed = false;
        for (slot, target) in slots.iter().zip(targets) {
            changed |= slot.target.swap(target, SeqCst) != target;
        }
        if changed {
            self.call();
        }
    }

    /// Wakes all who wait for a change.
    fn call(&self) {
        let changes = &self.page().changes;
        changes.fetch_add(1, SeqCst);
        // It fails of wrong arguments only.
        let _ = futex::wake(changes, futex::Flags::empty(), i32::MAX as u32);
    }
}

impl Drop for Board {
    fn drop(&mut self) {
        // SAFETY: the mapping is the value's own. It can fail only of arguments that are wrong.
        let _ = unsafe { mm::munmap(self.page.as_ptr().cast(), size_of::<Page>()) };
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
            left_bytes: self.left_bytes.load(SeqCst),
            counts: counts(&self.counts),
        }
    }
}

impl Seat {
    fn slot(&self) -> &Slot {
        &self.board.page().slots[self.at]
    }

    /// Pages that are meant for this process.
    pub fn target(&self) -> u64 {
        match self.slot().wanted.load(SeqCst) {
            OWN => self.held(),
            _ => self.slot().target.load(SeqCst),
        }
    }

    /// Pages that it has.
    pub fn held(&self) -> u64 {
        self.slot().held.load(SeqCst)
    }

    /// Pages of its regions, as they are now.
    pub fn want(&self, pages: u64) {
        let wanted = self.slot().wanted.load(SeqCst);
        if wanted != OWN && wanted != pages {
            self.slot().wanted.store(pages, SeqCst);
            self.board.rebalance();
        }
    }

    /// Takes pages, up to `to` if there are so many, and says how many it has then.
    pub fn grow(&self, to: u64) -> u64 {
        let held = &self.slot().held;
        let was = held.load(SeqCst);
        if to <= was {
            return was;
        }
        held.store(to, SeqCst);
        let all = self.board.held();
        let has = to.saturating_sub(all.saturating_sub(self.board.budget())).max(was);
        held.store(has, SeqCst);
        has
    }

    /// The first pages of a process that begins: so many, or what is left of the budget, or
    /// [`LEAST`]. Who had the others may just have ended, or be about to.
    pub fn begin(&self, part: u64) -> u64 {
        let mut has = self.grow(part);
        for _ in 0..LOOKS {
            if has >= part.min(LEAST) {
                break;
            }
            self.board.recover();
            has = self.grow(part);
            thread::sleep(Duration::from_millis(1));
        }
        self.own(has.max(LEAST))
    }

    /// The seat of a child of this process, which has just forked; the pages that it begins with.
    ///
    /// # Errors
    /// When there is no room for one more process.
    pub fn child(&self) -> io::Result<(Self, u64)> {
        let name = self.slot().process(self.identity).name;
        let wanted = self.slot().wanted.load(SeqCst);
        let seat = Arc::clone(&self.board).join(Identity::own()?, &name, wanted);
        let seat = seat.ok_or_else(|| io::Error::other("the session has no room for it"))?;
        let part = match wanted {
            // It has pages of its own, and so will its child.
            OWN => seat.own(self.held()),
            // Most children begin another program soon: nobody waits for their parts.
            _ => seat.own(seat.grow(self.held()).max(LEAST)),
        };
        Ok((seat, part))
    }

    /// Has so many pages that are no part of the budget.
    pub fn own(&self, pages: u64) -> u64 {
        self.slot().held.store(pages, SeqCst);
        pages
    }

    /// Gives pages back, which it does not use any more, but for so many.
    pub fn shrink(&self, to: u64) {
        if self.slot().held.fetch_min(to, SeqCst) > to {
            // Somebody may wait for them.
            self.board.call();
        }
    }

    /// Gives all back: nobody has pages any more.
    pub fn leave(&self) {
        // A child has the value too, but the slot is its parent's.
        if self.identity.pid == std::process::id() && !self.has_left.swap(true, SeqCst) {
            self.board.clear(self.slot(), self.identity);
            self.board.rebalance();
        }
    }

    /// Says what its pager has done, and how many pages of its regions are in DRAM.
    pub fn tell(&self, counts: &Counts, resident: u64) {
        self.slot().resident.store(resident, SeqCst);
        for (word, count) in self.slot().counts.iter().zip(words(counts)) {
            word.store(count, SeqCst);
        }
    }

    /// Says how many bytes of allocations of 128 KiB and more are not extended.
    pub fn tell_left(&self, bytes: u64) {
        self.slot().left_bytes.store(bytes, SeqCst);
    }

    /// How often targets have changed, to wait for the next time.
    pub fn changes(&self) -> u32 {
        self.board.page().changes.load(SeqCst)
    }

    /// Waits until targets have changed since.
    pub fn wait(&self, since: u32) {
        // Woken for another reason, or not asleep at all: the caller looks.
        let _ = futex::wait(&self.board.page().changes, futex::Flags::empty(), since, None);
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.leave();
    }
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
    let Counts { stalled_ns, history, .. } = *counts;
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
        stalled_ns,
        ..,
    ] = words;
    let [.., asked, touched, untouched, _, _, _, _] = words;
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
        stalled_ns,
        history,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;
    use std::{process::Command, thread};

    fn board(budget: u64) -> (tempfile::TempDir, Arc<Board>) {
        let folder = tempfile::tempdir().unwrap();
        let board = Arc::new(Board::create(&folder.path().join("board"), budget).unwrap());
        (folder, board)
    }

    /// Some process, whether there is one or not.
    fn some(pid: u32) -> Identity {
        Identity { pid, start: 1 }
    }

    fn targets(board: &Board) -> Vec<(u32, u64)> {
        let processes = board.processes().into_iter();
        processes.map(|process| (process.identity.pid, process.target)).collect()
    }

    #[test]
    fn a_process_is_known_by_its_number_and_its_start() {
        let own = Identity::own().unwrap();
        assert!(own.is_alive());
        assert!(!Identity { start: own.start.wrapping_add(1), ..own }.is_alive());
        let mut child = Command::new("true").spawn().unwrap();
        let pid = child.id();
        child.wait().unwrap();
        assert_eq!(Identity::of(pid).unwrap(), None);
    }

    #[test]
    fn who_comes_later_has_its_part_meant_for_it() {
        let (folder, board) = board(1000);
        let first = Arc::clone(&board).join(some(1), "solver", 5000).unwrap();
        assert_eq!((first.target(), first.grow(1000)), (1000, 1000));
        // Another process has the board from its file.
        let other = Arc::new(Board::open(&folder.path().join("board")).unwrap());
        let second = Arc::clone(&other).join(some(2), "a name of more than 15 bytes", 300).unwrap();
        assert_eq!(targets(&board), [(1, 700), (2, 300)]);
        assert_eq!(second.grow(300), 0, "nothing is left as long as the first has all");
        first.shrink(first.target());
        assert_eq!(second.grow(300), 300);
        let names: Vec<String> = board.processes().into_iter().map(|it| it.name).collect();
        assert_eq!(names, ["solver", "a name of more "]);
    }

    #[test]
    fn who_waits_for_a_change_is_woken() {
        let (_folder, board) = board(1000);
        let seat = Arc::clone(&board).join(some(1), "first", 1000).unwrap();
        let since = seat.changes();
        thread::scope(|scope| {
            let waits = scope.spawn(|| {
                while seat.changes() == since {
                    seat.wait(since);
                }
                seat.target()
            });
            let _second = Arc::clone(&board).join(some(2), "second", 1000).unwrap();
            assert_eq!(waits.join().unwrap(), 500);
        });
    }

    #[test]
    fn the_slots_of_those_who_were_killed_are_free_again_and_their_counts_stay() {
        let (_folder, board) = board(1000);
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        let identity = Identity::of(child.id()).unwrap().unwrap();
        let seat = Arc::clone(&board).join(identity, "sleep", 1000).unwrap();
        seat.grow(600);
        seat.tell(&Counts { read: 7, stalled_ns: 9, ..Counts::default() }, 500);
        assert_eq!(board.recover(), []);
        child.kill().unwrap();
        child.wait().unwrap();
        let gone = board.recover();
        assert_eq!((gone.len(), gone[0].held, gone[0].counts.read), (1, 600, 7));
        assert_eq!(board.processes(), []);
        let past = Counts { read: 7, stalled_ns: 9, ..Counts::default() };
        assert_eq!(board.past(), past);
        assert_eq!(board.recover(), [], "nobody goes twice");
        let next = Arc::clone(&board).join(some(1), "next", 1000).unwrap();
        assert_eq!(next.grow(1000), 1000);
    }

    #[test]
    fn a_program_that_became_another_begins_anew() {
        let (_folder, board) = board(1000);
        let before = Arc::clone(&board).join(some(1), "sh", 1000).unwrap();
        before.grow(1000);
        before.tell(&Counts { faults: 3, ..Counts::default() }, 0);
        let after = Arc::clone(&board).join(some(1), "solver", 1000).unwrap();
        assert_eq!((after.held(), after.grow(1000)), (0, 1000));
        assert_eq!((board.processes().len(), board.past().faults), (1, 3));
    }

    #[test]
    fn there_are_as_many_slots_as_are_said() {
        let (_folder, board) = board(1000);
        let own = Identity::own().unwrap();
        // All of the same process, which lives, or else the slots would be cleared.
        for slot in &board.page().slots {
            slot.owner.store(own.word(), SeqCst);
        }
        assert!(Arc::clone(&board).join(some(1), "one more", 1).is_none());
        assert_eq!(board.processes().len(), SLOTS);
    }

    #[test]
    fn what_all_hold_is_never_more_than_the_budget() {
        let (_folder, board) = board(1000);
        let held = AtomicU64::new(0);
        thread::scope(|scope| {
            for at in 1..=4_u32 {
                let (board, held) = (&board, &held);
                scope.spawn(move || {
                    let seat = Arc::clone(board).join(some(at), "one of them", 1000).unwrap();
                    for lap in 0..2000_u64 {
                        let has = seat.grow((u64::from(at) * 97 + lap * 31) % 900);
                        // What it has it uses, and only then gives back.
                        let all = held.fetch_add(has, SeqCst) + has;
                        assert!(all <= 1000, "{all}");
                        held.fetch_sub(has, SeqCst);
                        seat.shrink(0);
                    }
                });
            }
        });
        assert!(board.processes().iter().all(|process| process.held == 0));
    }

    #[test]
    fn what_is_no_board_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("board");
        std::fs::write(&path, "short").unwrap();
        assert_eq!(Board::open(&path).unwrap_err().to_string(), "it is of another version");
        std::fs::write(&path, vec![0; size_of::<Page>()]).unwrap();
        assert_eq!(Board::open(&path).unwrap_err().to_string(), "it is of another version");
        assert!(Board::create(&path, 1).is_err(), "it is there already");
    }
}
