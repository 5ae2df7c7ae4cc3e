//! Moving the pages of one process: look, plan, move, look again.
//!
//! What `move_pages` makes hard, as read in `mm/migrate.c` of Linux 6.1 to 6.12:
//! - It stops at the first group of pages of which it cannot move all, without a word about those
//!   behind. So the rest is asked for again, as long as a call comes further.
//! - When a node is full, the call fails as a whole, whatever it had moved before.
//! - A page that is part of a large one (THP) takes all of it along, and the other parts, asked
//!   for as well, are reported busy. So of a huge page only the first address is given. Where large
//!   pages of other sizes are, nobody says; the first page of a mapping goes alone, and those that
//!   went along with it tell.
//! - What it reports may no longer be true. So what counts is only where pages are found to be.

use super::{
    Progress,
    area::Area,
    batch::{Batch, Units},
    memory::Memory,
    outcome::{Reason, Why},
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

/// Pages in a batch, and the addresses of a slice of an area: so many are planned at a time.
const BATCH_PAGES: u64 = 1 << 16;

/// The most units of which a window of the planner is, so that a slice is of whole windows.
const WINDOW_UNITS: u64 = 64;

/// The most bytes of one call that moves: each makes all CPUs hand over the pages that they hold
/// back, so that small calls are slow; large ones are long without news.
const MOVE_BYTES: u64 = 32 << 20;

/// How often a batch is planned anew: with other pages in place of those that did not move, or as
/// two nodes that are nearly full make room for each other.
const ROUNDS_MAX: u32 = 32;

/// How many rounds may move nothing before a batch is left as it is.
const BARREN_MAX: u32 = 3;

/// How many times what a batch was to move at first is moved at most: someone else may be moving
/// the pages too, and the other way.
const TO_AND_FRO: u64 = 3;

/// How often the rest of a call is asked for again.
const CALLS_MAX: u32 = 64;

/// The longest wait without asking whether to stop.
const PAUSE_MAX: Duration = Duration::from_millis(100);

/// What a status holds that the kernel did not come to.
const UNTOLD: i32 = i32::MIN;

/// Why work on a process ends early.
#[derive(Debug)]
pub(super) enum Halt {
    /// Whoever watches wants it.
    Stopped,
    /// The process has ended.
    Ended,
    /// It may not or cannot go on.
    Refused(Why),
}

/// What is remembered of a process from pass to pass.
#[derive(Debug, Default)]
pub(super) struct Memo {
    /// Pages that did not move, by address, with the reason.
    pub(super) stuck: HashMap<u64, Reason>,
    /// How many pages go as one, of areas by their first address; areas that have been tried.
    learned: HashMap<u64, u32>,
}

/// What a pass over a process found and did.
#[derive(Debug, Default)]
pub(super) struct Tally {
    /// Where pages were when first looked at.
    pub(super) before: NodeBytes,
    /// And when last looked at.
    pub(super) after: NodeBytes,
    /// What moved, bytes.
    pub(super) moved_bytes: u64,
    /// What should move and could not or, where pages are only looked at, was not to; bytes.
    pub(super) left: BTreeMap<Reason, u64>,
}

/// What is the same for all processes.
pub(super) struct Common<'a, M> {
    pub(super) memory: &'a mut M,
    pub(super) planner: Planner,
    pub(super) pace: Pace,
    /// What is free on each node, bytes, as it was when the pass began.
    pub(super) free: BTreeMap<u32, u64>,
    /// Nodes that took no page any more.
    pub(super) full: BTreeSet<u32>,
    /// Whether pages are only looked at.
    pub(super) dry: bool,
    pub(super) watch: &'a mut dyn FnMut(&Progress<'_>) -> ControlFlow<()>,
}

/// One pass over one process.
pub(super) struct Work<'a, 'b, M> {
    pub(super) shared: &'a mut Common<'b, M>,
    pub(super) memo: &'a mut Memo,
    pub(super) progress: Progress<'a>,
    pub(super) areas: Vec<Area>,
    pub(super) tally: Tally,
}

impl<M: Memory> Work<'_, '_, M> {
    /// Does it. What was done up to a halt is in the tally.
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
            // Mappings that changed while they were read may overlap; no page is to come twice.
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

    /// Stretches of addresses, aligned so that windows are whole.
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

    /// Brings the pages of a batch to where they should be, as far as it goes.
    fn settle(&mut self, mut batch: Batch) -> Result<(), Halt> {
        let all = 0..batch.pages.len();
        self.locate(&mut batch, all)?;
        let before = batch.bytes(&self.areas);
        self.tally.before.add(&before);
        self.progress.looked_bytes += before.total();
        let done = self.rounds(&mut batch);
        // Also when stopped: what was moved before counts.
        self.tally.after.add(&batch.bytes(&self.areas));
        done?;
        self.tell()
    }

    fn rounds(&mut self, batch: &mut Batch) -> Result<(), Halt> {
        let (mut barren, mut budget) = (0, None);
        let first = self.tally.moved_bytes;
        for round in 1..=ROUNDS_MAX {
            let units = self.units(batch);
            let mut planner = self.shared.planner.clone();
            let Plan { moves, kept } = planner.plan(&units.units);
            let is_futile = |found: &Move| self.shared.full.contains(&found.to);
            let (futile, mut moves): (Vec<_>, Vec<_>) = moves.into_iter().partition(is_futile);
            let moved_bytes = self.tally.moved_bytes;
            let planned = || moves.iter().map(|it| self.unit_bytes(batch, &units.pages[it.unit]));
            let budget = budget.get_or_insert_with(|| TO_AND_FRO * planned().sum::<u64>());
            let is_spent = moved_bytes - first > *budget;
            let is_last = round == ROUNDS_MAX || barren == BARREN_MAX || is_spent;
            let is_last = is_last || self.shared.dry;
            if moves.is_empty() || is_last {
                self.shared.planner = planner;
                let bytes = |at: usize| self.unit_bytes(batch, &units.pages[at]);
                let kept = kept.iter().map(|at| (self.reason(batch, units.pages[*at].start), *at));
                let futile = futile.iter().map(|found| (Reason::Full(found.to), found.unit));
                // There would be rounds enough, if pages moved when they are asked to.
                let rest = moves.iter().map(|found| (Reason::Busy, found.unit));
                let left = kept.chain(futile).chain(rest);
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

    /// Why a page is not tried.
    fn reason(&self, batch: &Batch, at: usize) -> Reason {
        let stuck = self.memo.stuck.get(&batch.pages[at].address);
        stuck.copied().unwrap_or(Reason::Shared)
    }

    fn unit_bytes(&self, batch: &Batch, pages: &Range<usize>) -> u64 {
        self.areas[batch.pages[pages.start].area].page_bytes * pages.len() as u64
    }

    /// Of areas from which nothing has gone yet, keeps only the first move.
    fn keep_to_trials(&mut self, batch: &Batch, units: &Units, moves: &mut Vec<Move>) {
        let mut trying = BTreeSet::new();
        moves.retain(|found| {
            let at = batch.pages[units.pages[found.unit].start].area;
            let area = &self.areas[at];
            // What smaps says has huge pages needs no trial.
            let known =
                area.unit_pages > 1 || self.memo.learned.contains_key(&area.addresses.start);
            known || trying.insert(at)
        });
        for area in trying {
            self.memo.learned.insert(self.areas[area].addresses.start, 1);
        }
    }

    /// Carries out moves, those from the nodes with the least room first, so that there is room.
    fn carry_out(
        &mut self,
        batch: &mut Batch,
        units: &Units,
        moves: Vec<Move>,
    ) -> Result<(), Halt> {
        let mut groups: BTreeMap<(u64, u32, u32), Vec<Range<usize>>> = BTreeMap::new();
        let mut asked: Vec<(usize, u32)> = vec![];
        for Move { unit, from, to } in moves {
            let free = self.shared.free.get(&from).copied().unwrap_or(0);
            let pages = units.pages[unit].clone();
            asked.extend(pages.clone().map(|page| (page, to)));
            groups.entry((free, from, to)).or_default().push(pages);
        }
        asked.sort_unstable();
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
        self.learn(batch, &before, &asked);
        Ok(())
    }

    /// Moves a portion of units to a node, and sees how far it went.
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
        let (mut told, mut is_full) = self.call(batch, &firsts, to)?;
        self.locate(batch, spans.iter().flat_map(Clone::clone))?;
        // What was taken for a huge page and was not: its other pages are still there.
        let arrived = |span: &&Range<usize>| batch.pages[span.start].node == Some(to);
        let behind = spans.iter().filter(arrived).flat_map(Clone::clone);
        let behind: Vec<usize> = behind.filter(|at| batch.pages[*at].node == Some(from)).collect();
        if !behind.is_empty() {
            let (more, full) = self.call(batch, &behind, to)?;
            told.extend(more);
            is_full |= full;
            self.locate(batch, behind.iter().copied())?;
        }
        let pages = spans.iter().flat_map(Clone::clone);
        let there = pages.filter(|at| batch.pages[*at].node == Some(to));
        let bytes: u64 = there.map(|at| self.areas[batch.pages[at].area].page_bytes).sum();
        self.shared.pace.spend(bytes, start);
        self.tally.moved_bytes += bytes;
        self.progress.moved_bytes += bytes;
        if bytes > 0 {
            // There may be room again where they were.
            self.shared.full.remove(&from);
        } else if is_full {
            self.shared.full.insert(to);
        }
        for (at, status) in firsts.iter().chain(&behind).zip(told) {
            let page = &batch.pages[*at];
            let Some(reason) = reason(status, is_full) else { continue };
            // What is nowhere now has gone, and what is elsewhere moved by itself.
            if page.node == Some(from) {
                self.memo.stuck.insert(page.address, reason);
            }
        }
        Ok(())
    }

    /// Asks the kernel to move pages to a node, and again for those that it did not come to. Gives
    /// back what it said of each, and whether the node is full.
    fn call(&mut self, batch: &Batch, pages: &[usize], to: u32) -> Result<(Vec<i32>, bool), Halt> {
        let pid = self.progress.process.pid;
        let mut told = vec![UNTOLD; pages.len()];
        let mut rest: Vec<usize> = (0..pages.len()).collect();
        for _ in 0..CALLS_MAX {
            let addresses: Vec<u64> =
                rest.iter().map(|at| batch.pages[pages[*at]].address).collect();
            let mut status = vec![UNTOLD; rest.len()];
            let result = self.shared.memory.move_to(pid, &addresses, to, &mut status);
            for (at, status) in rest.iter().zip(&status) {
                told[*at] = *status;
            }
            match result {
                Ok(0) => break,
                Ok(_) => {}
                Err(why) if why.raw_os_error() == Some(libc::ENOMEM) => return Ok((told, true)),
                Err(why) => return Err(halt(why)),
            }
            let count = rest.len();
            rest.retain(|at| told[*at] == UNTOLD);
            if rest.is_empty() || rest.len() == count {
                break;
            }
        }
        Ok((told, false))
    }

    /// Learns from pages that went along with others how many go as one.
    fn learn(&mut self, batch: &Batch, before: &[Option<u32>], asked: &[(usize, u32)]) {
        for (at, was) in before.iter().enumerate() {
            let page = &batch.pages[at];
            let Some(node) = page.node.filter(|node| was.is_some_and(|was| was != *node)) else {
                continue;
            };
            let behind = asked.partition_point(|(other, _)| *other < at);
            if asked.get(behind).is_some_and(|(other, _)| *other == at) {
                continue;
            }
            let neighbours = [behind.checked_sub(1), Some(behind)];
            let near = neighbours.into_iter().flatten().filter_map(|near| asked.get(near));
            let with = near.filter(|(_, to)| *to == node);
            let units: Vec<u32> =
                with.filter_map(|(other, _)| self.went_as_one(batch, at, *other)).collect();
            let Some(unit_pages) = units.into_iter().min() else { continue };
            let area = &mut self.areas[page.area];
            self.tally.moved_bytes += area.page_bytes;
            self.progress.moved_bytes += area.page_bytes;
            if unit_pages > area.unit_pages {
                area.unit_pages = unit_pages;
                self.memo.learned.insert(area.addresses.start, unit_pages);
            }
            // Of a large page that is not all there, the parts would go to and fro.
            let unit_pages = u64::from(area.unit_pages);
            let block = batch.block_around(at, unit_pages * area.page_bytes);
            if (block.len() as u64) < unit_pages && !self.memo.stuck.contains_key(&page.address) {
                let with = batch.pages[block].iter().filter(|other| other.node == page.node);
                self.memo.stuck.extend(with.map(|other| (other.address, Reason::Joined)));
            }
        }
    }

    /// How many pages are in the smallest block with both of two pages, if all of it is on one
    /// node now and it is no larger than a huge page.
    fn went_as_one(&self, batch: &Batch, at: usize, other: usize) -> Option<u32> {
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

    /// Waits until the rate allows more, and asks whether there should be more.
    fn wait(&mut self) -> Result<(), Halt> {
        loop {
            self.tell()?;
            let left = self.shared.pace.wait(self.shared.memory.now());
            if left.is_zero() {
                return Ok(());
            }
            self.shared.memory.pause(left.min(PAUSE_MAX));
        }
    }

    fn tell(&mut self) -> Result<(), Halt> {
        match (self.shared.watch)(&self.progress) {
            ControlFlow::Continue(()) => Ok(()),
            ControlFlow::Break(()) => Err(Halt::Stopped),
        }
    }
}

/// What a call that failed means.
fn halt(why: io::Error) -> Halt {
    match why.raw_os_error() {
        // A process that is about to end has given its memory back already: `EINVAL`.
        Some(libc::ESRCH | libc::EINVAL) => Halt::Ended,
        Some(libc::EPERM) => Halt::Refused(Why::Permission),
        _ => Halt::Refused(Why::System(why)),
    }
}

/// Why a page did not move that should have; `None` when that is up to the node, or the page went
/// away.
fn reason(status: i32, is_full: bool) -> Option<Reason> {
    match status.checked_neg() {
        Some(libc::ENOMEM) => None,
        _ if status == UNTOLD && is_full => None,
        // The kernel came to it, or says nothing of what is in the way.
        None | Some(libc::EBUSY) => Some(Reason::Busy),
        Some(libc::EACCES) => Some(Reason::Shared),
        Some(libc::EFAULT | libc::ENOENT) => None,
        Some(errno) if errno > 0 => Some(Reason::Other(errno)),
        Some(_) => Some(Reason::Returned),
    }
}
