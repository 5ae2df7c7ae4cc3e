//! Migrates the pages of one process: locates them, plans moves, moves them, locates them again.
//!
//! Difficulties of `move_pages`, from `mm/migrate.c` of Linux 6.1 to 6.12:
//! - The call stops at the first group of pages that it cannot move as a whole, and reports nothing
//!   about the pages of this group and the pages after it. These pages are requested again until a
//!   call makes no progress.
//! - When a node is full, the call returns an error, even if it has moved pages before.
//! - A page of a large folio (THP) migrates with the whole folio. If other pages of the folio are
//!   also requested, the call reports them as busy. Therefore only the first address of a huge page
//!   is passed.
//! - The kernel does not report the size of other folios. Therefore the first page of a mapping is
//!   requested alone, and the pages that migrate with it show the folio size.
//! - The status that the call writes for a page can be outdated. Therefore pages are located again
//!   after the call, and only these locations count.

use super::{
    Progress,
    area::Area,
    batch::{Batch, Units},
    memory::Memory,
    outcome::{Reason, RefusalReason},
    pace::Pace,
    plan::{Move, Plan, Planner},
};
use crate::process::numa_maps::NodeBytes;
use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    io,
    ops::{ControlFlow, Range},
    time::Duration,
};

/// Minimum number of resident pages in a batch. Memory is read in slices, which are ranges of
/// addresses in one area (mapping), until the slices together have so many resident pages. Each
/// slice spans at least as many base pages, except the first and the last slice of an area.
const BATCH_PAGES: u64 = 1 << 16;

/// The planner's window has this number of units (pages or huge pages) if a unit is larger than 32
/// KiB; for smaller units the window is 2 MiB. Each slice, except the first and the last of an
/// area, consists of whole windows.
const WINDOW_UNITS: u64 = 64;

/// Maximum number of bytes that one call migrates. Each call drains the per-CPU LRU batches of all
/// CPUs (`lru_cache_disable`), so many small calls are slow; a large call reports no progress for a
/// long time.
const MOVE_BYTES: u64 = 32 << 20;

/// Maximum number of plans for one batch. Each plan after the first moves other pages in place of
/// pages that failed, or continues an exchange between two nearly full nodes.
const ROUNDS_MAX: u32 = 32;

/// Work on a batch ends after this number of consecutive plans by which no page moved.
const IDLE_ROUNDS_MAX: u32 = 3;

/// Work on a batch ends when more bytes have moved than this multiple of the bytes in the batch's
/// first plan, because another program may keep moving the pages back. The check is between two
/// plans, so the last plan can exceed the limit.
const MOVES_MAX_FACTOR: u64 = 3;

/// Maximum number of calls of `move_pages` for the same pages. The calls end when the status of
/// each page is known.
const CALLS_MAX: u32 = 64;

/// The longest wait before the stop request is checked again.
const PAUSE_MAX: Duration = Duration::from_millis(100);

/// The status of a page before a call, and after it if the call reports nothing about the page.
const NOT_TRIED: i32 = i32::MIN;

/// The reason why work on a process ends early.
#[derive(Debug)]
pub(super) enum Halt {
    /// The caller requested that the migration stops.
    Stopped,
    Ended,
    /// The process may not or cannot be migrated further.
    Refused(RefusalReason),
}

/// The results of earlier passes over a process that its later passes need.
#[derive(Debug, Default)]
pub(super) struct Memo {
    /// The reasons why pages did not migrate, by the addresses of the pages.
    pub(super) stuck: HashMap<u64, Reason>,
    /// The folio size, in pages, of each area (mapping) in which a migration was tried, by the
    /// area's first address.
    learned: HashMap<u64, u32>,
}

/// The result of a pass over a process.
#[derive(Debug, Default)]
pub(super) struct Tally {
    /// The placement of the pages when they were located first.
    pub(super) before: NodeBytes,
    /// The placement of the pages when they were located last.
    pub(super) after: NodeBytes,
    /// Bytes that the pass migrated.
    pub(super) moved_bytes: u64,
    /// Bytes that should have been migrated and were not, for each reason. In a forecast, these are
    /// all planned bytes, because a forecast moves no page.
    pub(super) left: BTreeMap<Reason, u64>,
}

/// The state of a pass that is common to all its processes.
pub(super) struct PassState<'a, M> {
    pub(super) memory: &'a mut M,
    pub(super) planner: Planner,
    pub(super) pace: Pace,
    /// Free bytes of each node when the pass began.
    pub(super) free: BTreeMap<u32, u64>,
    /// Nodes that accept no more pages.
    pub(super) full: BTreeSet<u32>,
    /// True for a forecast, which moves no page.
    pub(super) dry: bool,
    pub(super) watch: &'a mut dyn FnMut(&Progress<'_>) -> ControlFlow<()>,
}

/// A pass over one process.
pub(super) struct ProcessPass<'a, 'b, M> {
    pub(super) shared: &'a mut PassState<'b, M>,
    pub(super) memo: &'a mut Memo,
    pub(super) progress: Progress<'a>,
    pub(super) areas: Vec<Area>,
    pub(super) tally: Tally,
}

impl<M: Memory> ProcessPass<'_, '_, M> {
    /// Runs the pass. If the pass ends early, `tally` has the results up to that moment.
    pub(super) fn pass(&mut self) -> Result<(), Halt> {
        for area in &mut self.areas {
            if let Some(learned) = self.memo.learned.get(&area.addresses.start) {
                area.unit_pages = area.unit_pages.max(*learned);
            }
        }
        let mut batch = Batch::default();
        let (mut behind, mut found) = (0, vec![]);
        for (area, Range { start, end }) in self.slices() {
            let pid = self.progress.process.pid;
            // Mappings that changed while they were read may overlap. Skip the addresses that this
            // pass has read already, so that no page is listed twice.
            let start = start.max(behind);
            if start < end {
                behind = end;
                found.clear();
                self.shared.memory.resident(pid, &self.areas[area], start..end, &mut found);
                batch.add(area, &found);
            }
            if batch.pages.len() as u64 >= BATCH_PAGES {
                self.settle(std::mem::take(&mut batch))?;
            }
        }
        self.settle(batch)
    }

    /// Returns the slices of the areas (mappings): ranges of addresses, each with the index of its
    /// area. Within an area the slices begin and end at borders of the planner's windows, so that
    /// no window is divided.
    fn slices(&self) -> Vec<(usize, Range<u64>)> {
        let mut slices = vec![];
        for (at, area) in self.areas.iter().enumerate() {
            let units = WINDOW_UNITS * u64::from(area.unit_pages);
            let (page_bytes, _) = self.shared.memory.page_sizes();
            let bytes = (units * area.page_bytes).max(BATCH_PAGES * page_bytes);
            let Range { mut start, end } = area.addresses;
            while start < end {
                let next = (start / bytes + 1).saturating_mul(bytes).min(end);
                slices.push((at, start..next));
                start = next;
            }
        }
        slices
    }

    /// Migrates the pages of a batch to their target nodes, as far as they can be migrated.
    fn settle(&mut self, mut batch: Batch) -> Result<(), Halt> {
        let all = 0..batch.pages.len();
        self.locate(&mut batch, all)?;
        let before = batch.bytes(&self.areas);
        self.tally.before.add(&before);
        self.progress.scanned_bytes += before.total();
        let done = self.rounds(&mut batch);
        // Add the placement of the batch even if a stop was requested, because some pages have
        // migrated.
        self.tally.after.add(&batch.bytes(&self.areas));
        done?;
        self.report()
    }

    fn rounds(&mut self, batch: &mut Batch) -> Result<(), Halt> {
        let (mut barren, mut budget) = (0, None);
        let first = self.tally.moved_bytes;
        for round in 1..=ROUNDS_MAX {
            let units = self.units(batch);
            let mut planner = self.shared.planner.clone();
            let Plan { moves, unmovable } = planner.plan(&units.units);
            let is_futile = |found: &Move| self.shared.full.contains(&found.to);
            let (futile, mut moves): (Vec<_>, Vec<_>) = moves.into_iter().partition(is_futile);
            let moved_bytes = self.tally.moved_bytes;
            let planned = || moves.iter().map(|it| self.unit_bytes(batch, &units.pages[it.unit]));
            let budget = budget.get_or_insert_with(|| MOVES_MAX_FACTOR * planned().sum::<u64>());
            let is_spent = moved_bytes - first > *budget;
            let is_last = round == ROUNDS_MAX || barren == IDLE_ROUNDS_MAX || is_spent;
            let is_last = is_last || self.shared.dry;
            if moves.is_empty() || is_last {
                self.shared.planner = planner;
                let bytes = |at: usize| self.unit_bytes(batch, &units.pages[at]);
                let unmovable =
                    unmovable.iter().map(|at| (self.reason(batch, units.pages[*at].start), *at));
                let futile = futile.iter().map(|found| (Reason::Full(found.to), found.unit));
                // Pages that can migrate have migrated in earlier rounds, so the pages that are
                // still planned to move count as busy. In a forecast, which migrates no page, all
                // planned pages count as busy.
                let rest = moves.iter().map(|found| (Reason::Busy, found.unit));
                let left = unmovable.chain(futile).chain(rest);
                let left: Vec<_> = left.map(|(reason, at)| (reason, bytes(at))).collect();
                for (reason, bytes) in left {
                    *self.tally.left.entry(reason).or_default() += bytes;
                }
                return Ok(());
            }
            self.keep_to_trials(batch, &units, &mut moves);
            self.carry_out(batch, &units, moves)?;
            barren = if self.tally.moved_bytes > moved_bytes { 0 } else { barren + 1 };
        }
        Ok(())
    }

    fn units(&self, batch: &Batch) -> Units {
        let (page_bytes, _) = self.shared.memory.page_sizes();
        batch.units(&self.areas, page_bytes, |address| self.memo.stuck.contains_key(&address))
    }

    /// Returns the reason why the page with the index `at` is not tried. Without a recorded reason,
    /// other processes map the page too.
    fn reason(&self, batch: &Batch, at: usize) -> Reason {
        let stuck = self.memo.stuck.get(&batch.pages[at].address);
        stuck.copied().unwrap_or(Reason::Shared)
    }

    fn unit_bytes(&self, batch: &Batch, pages: &Range<usize>) -> u64 {
        self.areas[batch.pages[pages.start].area].page_bytes * pages.len() as u64
    }

    /// Keeps only one of the `moves` in each area (mapping) whose folio size is not known yet, as a
    /// trial. The pages that migrate together with the page of this move show the folio size.
    fn keep_to_trials(&mut self, batch: &Batch, units: &Units, moves: &mut Vec<Move>) {
        let mut trying = BTreeSet::new();
        moves.retain(|found| {
            let at = batch.pages[units.pages[found.unit].start].area;
            let area = &self.areas[at];
            // Areas that have huge pages according to `smaps` need no trial.
            let known =
                area.unit_pages > 1 || self.memo.learned.contains_key(&area.addresses.start);
            known || trying.insert(at)
        });
        for area in trying {
            self.memo.learned.insert(self.areas[area].addresses.start, 1);
        }
    }

    /// Carries out `moves`. Moves from the node with the least free memory come first, because they
    /// free memory on that node.
    fn carry_out(
        &mut self,
        batch: &mut Batch,
        units: &Units,
        moves: Vec<Move>,
    ) -> Result<(), Halt> {
        let mut groups: BTreeMap<(u64, u32, u32), Vec<Range<usize>>> = BTreeMap::new();
        let mut requested: Vec<(usize, u32)> = vec![];
        for Move { unit, from, to } in moves {
            let free = self.shared.free.get(&from).copied().unwrap_or(0);
            let pages = units.pages[unit].clone();
            requested.extend(pages.clone().map(|page| (page, to)));
            groups.entry((free, from, to)).or_default().push(pages);
        }
        requested.sort_unstable();
        let before: Vec<Option<u32>> = batch.pages.iter().map(|page| page.node).collect();
        for ((_, from, to), spans) in groups {
            let portion = self.shared.pace.portion(MOVE_BYTES);
            let mut rest = &spans[..];
            while !rest.is_empty() {
                let mut bytes = 0;
                let fits = |span: &&Range<usize>| {
                    bytes += self.unit_bytes(batch, span);
                    bytes <= portion
                };
                let count = rest.iter().take_while(fits).count().max(1);
                let (now, later) = rest.split_at(count);
                rest = later;
                if !self.shared.full.contains(&to) {
                    self.portion(batch, now, from, to)?;
                }
            }
        }
        self.locate(batch, 0..batch.pages.len())?;
        self.learn(batch, &before, &requested);
        Ok(())
    }

    /// Moves units from the node `from` to the node `to`, and counts the bytes that arrived. Each
    /// range in `spans` has the indices of a unit's pages in the batch. Only the first page of each
    /// unit is requested, because the kernel migrates the whole folio.
    fn portion(
        &mut self,
        batch: &mut Batch,
        spans: &[Range<usize>],
        from: u32,
        to: u32,
    ) -> Result<(), Halt> {
        self.wait()?;
        let start = self.shared.memory.now();
        let firsts: Vec<usize> = spans.iter().map(|span| span.start).collect();
        let (mut statuses, mut is_full) = self.call(batch, &firsts, to)?;
        self.locate(batch, spans.iter().flat_map(Clone::clone))?;
        // A unit of which only the first page migrated is not one folio. Request its other pages.
        let arrived = |span: &&Range<usize>| batch.pages[span.start].node == Some(to);
        let behind = spans.iter().filter(arrived).flat_map(Clone::clone);
        let behind: Vec<usize> = behind.filter(|at| batch.pages[*at].node == Some(from)).collect();
        if !behind.is_empty() {
            let (more, full) = self.call(batch, &behind, to)?;
            statuses.extend(more);
            is_full |= full;
            self.locate(batch, behind.iter().copied())?;
        }
        let pages = spans.iter().flat_map(Clone::clone);
        let moved = pages.filter(|at| batch.pages[*at].node == Some(to));
        let bytes: u64 = moved.map(|at| self.areas[batch.pages[at].area].page_bytes).sum();
        self.shared.pace.spend(bytes, start);
        self.tally.moved_bytes += bytes;
        self.progress.moved_bytes += bytes;
        if bytes > 0 {
            // The node that the moved pages have left has free memory again.
            self.shared.full.remove(&from);
        } else if is_full {
            self.shared.full.insert(to);
        }
        for (at, status) in firsts.iter().chain(&behind).zip(statuses) {
            let page = &batch.pages[*at];
            let Some(reason) = reason(status, is_full) else { continue };
            // Record the reason only if the page is still on the node `from`. Otherwise another
            // program has migrated the page, or the page was freed.
            if page.node == Some(from) {
                self.memo.stuck.insert(page.address, reason);
            }
        }
        Ok(())
    }

    /// Requests the migration of pages to the node `to`. `pages` has the indices of the pages in
    /// the batch. Pages about which a call reported nothing are requested again. Returns the status
    /// of each page, and true if the node is full.
    fn call(&mut self, batch: &Batch, pages: &[usize], to: u32) -> Result<(Vec<i32>, bool), Halt> {
        let pid = self.progress.process.pid;
        let mut statuses = vec![NOT_TRIED; pages.len()];
        let mut rest: Vec<usize> = (0..pages.len()).collect();
        for _ in 0..CALLS_MAX {
            let addresses: Vec<u64> =
                rest.iter().map(|at| batch.pages[pages[*at]].address).collect();
            let mut status = vec![NOT_TRIED; rest.len()];
            let result = self.shared.memory.move_to(pid, &addresses, to, &mut status);
            for (at, status) in rest.iter().zip(&status) {
                statuses[*at] = *status;
            }
            match result {
                Ok(0) => break,
                Ok(_) => {}
                Err(why) if why.raw_os_error() == Some(libc::ENOMEM) => {
                    return Ok((statuses, true));
                }
                Err(why) => return Err(halt(why)),
            }
            let count = rest.len();
            rest.retain(|at| statuses[*at] == NOT_TRIED);
            if rest.is_empty() || rest.len() == count {
                break;
            }
        }
        Ok((statuses, false))
    }

    /// Learns the folio size of areas (mappings). A page that was not requested, but migrated
    /// together with a requested page, belongs to the same folio. `before` has the node of each
    /// page of the batch before the moves. `requested` has the index and the target node of each
    /// page of the units that were to move, in order of the indices.
    fn learn(&mut self, batch: &Batch, before: &[Option<u32>], requested: &[(usize, u32)]) {
        for (at, was) in before.iter().enumerate() {
            let page = &batch.pages[at];
            let Some(node) = page.node.filter(|node| was.is_some_and(|was| was != *node)) else {
                continue;
            };
            let behind = requested.partition_point(|(other, _)| *other < at);
            if requested.get(behind).is_some_and(|(other, _)| *other == at) {
                continue;
            }
            let neighbours = [behind.checked_sub(1), Some(behind)];
            let near = neighbours.into_iter().flatten().filter_map(|near| requested.get(near));
            let with = near.filter(|(_, to)| *to == node);
            let units: Vec<u32> =
                with.filter_map(|(other, _)| self.common_block_pages(batch, at, *other)).collect();
            let Some(unit_pages) = units.into_iter().min() else { continue };
            let area = &mut self.areas[page.area];
            self.tally.moved_bytes += area.page_bytes;
            self.progress.moved_bytes += area.page_bytes;
            if unit_pages > area.unit_pages {
                area.unit_pages = unit_pages;
                self.memo.learned.insert(area.addresses.start, unit_pages);
            }
            // Exclude a folio that is only partly resident. The planner would treat its pages one
            // by one, but each move migrates all of them, so the pages would migrate back and
            // forth.
            let unit_pages = u64::from(area.unit_pages);
            let block = batch.block_around(at, unit_pages * area.page_bytes);
            if (block.len() as u64) < unit_pages && !self.memo.stuck.contains_key(&page.address) {
                let with = batch.pages[block].iter().filter(|other| other.node == page.node);
                self.memo.stuck.extend(with.map(|other| (other.address, Reason::Joined)));
            }
        }
    }

    /// Returns the length, in pages, of the smallest aligned block that contains the pages with the
    /// indices `at` and `other`. Returns `None` if the two pages cannot have migrated as parts of
    /// one folio: the block is larger than a huge page, or its pages are now on several nodes.
    fn common_block_pages(&self, batch: &Batch, at: usize, other: usize) -> Option<u32> {
        let (page_bytes, huge_bytes) = self.shared.memory.page_sizes();
        let (one, other) = (&batch.pages[at], &batch.pages[other]);
        if one.area != other.area || self.areas[one.area].page_bytes != page_bytes {
            return None;
        }
        let apart = (one.address / page_bytes) ^ (other.address / page_bytes);
        let count = (apart + 1).checked_next_power_of_two()?;
        let bytes = count.checked_mul(page_bytes).filter(|bytes| *bytes <= huge_bytes)?;
        let mut block = batch.pages[batch.block_around(at, bytes)].iter();
        block.all(|page| page.node == one.node).then_some(count as u32)
    }

    fn locate(
        &mut self,
        batch: &mut Batch,
        pages: impl Iterator<Item = usize>,
    ) -> Result<(), Halt> {
        let pages: Vec<usize> = pages.collect();
        batch.locate(self.shared.memory, self.progress.process.pid, &pages).map_err(halt)
    }

    /// Waits until the rate limit allows the next portion. Fails early if a stop is requested.
    fn wait(&mut self) -> Result<(), Halt> {
        loop {
            self.report()?;
            let left = self.shared.pace.wait(self.shared.memory.now());
            if left.is_zero() {
                return Ok(());
            }
            self.shared.memory.pause(left.min(PAUSE_MAX));
        }
    }

    fn report(&mut self) -> Result<(), Halt> {
        match (self.shared.watch)(&self.progress) {
            ControlFlow::Continue(()) => Ok(()),
            ControlFlow::Break(()) => Err(Halt::Stopped),
        }
    }
}

/// Returns the reason to end the work on a process, from the error of a call of `move_pages`.
fn halt(why: io::Error) -> Halt {
    match why.raw_os_error() {
        // `EINVAL` means that the process is about to end and has released its memory already.
        Some(libc::ESRCH | libc::EINVAL) => Halt::Ended,
        Some(libc::EPERM) => Halt::Refused(RefusalReason::Permission),
        _ => Halt::Refused(RefusalReason::System(why)),
    }
}

/// Returns the reason why a page did not migrate, from the `status` that `move_pages` wrote for it;
/// `None` if the target node is full, or the page was freed.
fn reason(status: i32, is_full: bool) -> Option<Reason> {
    match status.checked_neg() {
        Some(libc::ENOMEM) => None,
        _ if status == NOT_TRIED && is_full => None,
        // The page is in use, or the kernel reported nothing about it. In the second case the
        // status is `NOT_TRIED` (`i32::MIN`), for which `checked_neg` returns `None`.
        None | Some(libc::EBUSY) => Some(Reason::Busy),
        Some(libc::EACCES) => Some(Reason::Shared),
        Some(libc::EFAULT | libc::ENOENT) => None,
        Some(errno) if errno > 0 => Some(Reason::Other(errno)),
        Some(_) => Some(Reason::Returned),
    }
}
