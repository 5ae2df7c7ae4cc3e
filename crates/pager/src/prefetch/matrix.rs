//! Blocks of matrices whose rows are no whole number of pages long.
//!
//! Where rows are 26,728 bytes long, what is touched of them lies 6 or 7 pages apart and is 1 or 2
//! pages, in no order that pages show. In bytes it is plain: the kernel says where in its page a
//! touch was, and those at the beginning of a row lie exactly one *pitch* apart. Once that is
//! known, each touch has a row and a column, and a *block* shows: rows that come one after the
//! other, of each the same columns.
//!
//! ```text
//!             base           width
//!  row 0  .....|===============|............
//!  row 1  .....|===============|............    one pitch later
//!  row 2  .....|==>                             here it is now, and these columns of more rows
//!  row 3                                        will be touched
//! ```
//!
//! Whether it goes along rows, along columns or by a few rows at once, as panels are packed, makes
//! no difference: rows come in their order, and the columns show as they are touched.

use super::{FaultContext, Limits, Prefetch};
use crate::page::{PAGE_BYTES, Page};
use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    ops::Range,
};

const PAGE_LENGTH: i64 = PAGE_BYTES as i64;

/// How many blocks are followed at once: a few of each of some threads. The one that was silent for
/// longest makes room.
const BLOCKS_MAX: usize = 32;

/// So many touches of a thread that nothing explains are remembered.
const REMEMBERED: usize = 16;

/// Threads of which they are, and regions whose pitch is known: beyond, all are forgotten.
const KNOWN_MAX: usize = 256;

/// Of rows that are nearer to each other all pages are touched, and what is farther apart is not of
/// one matrix.
const PITCH: Range<u64> = 2 * PAGE_LENGTH as u64..1 << 26;

/// Three touches begin a block that are within so many rows.
const NEAR: i64 = 16;

/// So many rows behind where it is, columns of a row may still come: panels that are packed column
/// by column are no higher.
const BEHIND: i64 = 512;

/// Columns that were not touched for so many rows, and twice as many as it is high, are not of a
/// block any more, if there were so many touches.
const OLD: i64 = 256;
const MANY: u32 = 32;

/// One row in so many shows what is touched of it; pages of the others are mapped as map_early as those
/// of one before are touched, if they are there.
const SHOWN_ONE_IN: i64 = 16;

/// A block that was silent for so many touches has ended, but may begin again.
const SILENT: u64 = 512;

/// Follows the blocks of all threads of a process.
#[derive(Clone, Debug)]
pub struct Matrices {
    limits: Limits,
    blocks: Vec<Block>,
    now: u64,
    named: u32,
    /// The pitch of the matrix in a region, by where that begins.
    pitches: BTreeMap<Page, i64>,
    /// Where threads touched what nothing explains, the last first.
    unexplained: HashMap<u32, VecDeque<i64>>,
}

#[derive(Clone, Debug)]
struct Block {
    name: u32,
    thread: u32,
    /// When it was last touched.
    touched: u64,
    /// The region that it is in.
    within: Range<Page>,
    /// Where its row 0 begins, byte.
    base: i64,
    /// From each row to the next, bytes.
    pitch: i64,
    /// So many bytes of each row are touched, as far as is known.
    width: i64,
    /// The rows that were touched so far.
    rows: Range<i64>,
    /// The last of them this time.
    row: i64,
    /// Matrices before this one were asked for.
    asked: i64,
    /// So many rows behind the last one were touched.
    behind: i64,
    /// What was touched lately.
    lately: Lately,
    /// How far it is followed, pages.
    depth: u64,
    /// Matrices that came as foreseen, less pages that were in vain.
    trust: i64,
}

/// What was touched of a block since some row.
#[derive(Clone, Copy, Debug, Default)]
struct Lately {
    since: i64,
    touches: u32,
    /// The first column, and the one behind the last.
    columns: (i64, i64),
    /// So many rows behind the last one.
    behind: i64,
}

/// Where a touch is in a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Place {
    row: i64,
    /// From where the block begins in that row, bytes.
    column: i64,
}

impl Matrices {
    /// None yet.
    pub fn new(limits: Limits) -> Self {
        let (pitches, unexplained) = (BTreeMap::new(), HashMap::new());
        Self { limits, blocks: vec![], now: 0, named: 0, pitches, unexplained }
    }

    /// Sees a touch, and says what comes next and was not said before, which may be nothing; `None`
    /// where it is of no block.
    pub fn on_fault(&mut self, fault: &FaultContext) -> Option<Prefetch> {
        self.now += 1;
        let at = fault.byte()?;
        let own = self.blocks.iter_mut().filter(|block| block.thread == fault.thread);
        let live = own.filter(|block| self.now - block.touched < SILENT);
        let near = live.filter(|block| block.within.contains(&fault.page));
        let places = near.filter_map(|block| Some((block.near(at)?, block)));
        let (place, block) = places.max_by_key(|(_, block)| block.touched)?;
        block.touched = self.now;
        let pages = block.go_to(place, self.limits);
        let map_early = block.soon(place.row);
        let (name, is_part) = (block.name, block.width * 2 <= block.pitch);
        if !is_part {
            // It is of whole rows, which are a sweep.
            self.blocks.retain(|block| block.name != name);
            return None;
        }
        Some(Prefetch { stream: name, pages, map_early })
    }

    /// Sees a touch that nothing explains, and says what comes next if a block begins with it.
    pub fn learn(&mut self, fault: &FaultContext) -> Option<Prefetch> {
        let at = fault.byte()?;
        if self.unexplained.len() >= KNOWN_MAX && !self.unexplained.contains_key(&fault.thread) {
            self.unexplained.clear();
        }
        let mut before = self.unexplained.remove(&fault.thread).unwrap_or_default();
        self.measure(fault, at, &before);
        let pitch = self.pitches.get(&fault.region.start);
        let begun = pitch.and_then(|pitch| Block::begin(at, &before, *pitch, fault));
        let ahead = begun.map(|block| {
            before.clear();
            self.follow(at, block)
        });
        before.truncate(REMEMBERED - 1);
        before.push_front(at);
        self.unexplained.insert(fault.thread, before);
        ahead
    }

    /// Learns a pitch from three touches that are one apart. Touches at the beginning of a page say
    /// nothing, since what is touched there may have begun before.
    fn measure(&mut self, fault: &FaultContext, at: i64, before: &VecDeque<i64>) {
        if fault.offset == 0 {
            return;
        }
        let pitches = before.iter().filter_map(|other| {
            let pitch = at - other;
            let is_one = pitch % PAGE_LENGTH != 0 && PITCH.contains(&pitch.unsigned_abs());
            (is_one && before.contains(&(other - pitch))).then_some(pitch.abs())
        });
        let Some(pitch) = pitches.min() else { return };
        if self.pitches.len() >= KNOWN_MAX {
            self.pitches.clear();
        }
        let known = self.pitches.entry(fault.region.start).or_insert(pitch);
        // Each second row lies as regularly.
        if pitch % *known != 0 {
            *known = pitch;
            self.blocks.retain(|block| block.within != fault.region);
        }
    }

    /// Follows a block that has begun, or one that it goes on with.
    fn follow(&mut self, at: i64, new: Block) -> Prefetch {
        let again = self.blocks.iter_mut().find(|block| {
            let is_same = block.thread == new.thread && block.pitch == new.pitch;
            is_same && block.within == new.within && block.has(at)
        });
        let block = match again {
            Some(block) => {
                block.row = block.place(at).row;
                block.asked = block.row + 1;
                block.lately = Lately { since: block.row, ..Lately::default() };
                block
            }
            None => {
                self.named = self.named.wrapping_add(1) & !super::OF_OTHERS;
                let depth = self.limits.initial;
                let new = Block { name: self.named | super::OF_ROWS, depth, ..new };
                let index = if self.blocks.len() < BLOCKS_MAX {
                    self.blocks.push(new);
                    self.blocks.len() - 1
                } else {
                    let all = self.blocks.iter().enumerate();
                    let silent = all.min_by_key(|(_, block)| block.touched);
                    let index = silent.map_or(0, |(index, _)| index);
                    self.blocks[index] = new;
                    index
                };
                &mut self.blocks[index]
            }
        };
        block.touched = self.now;
        let pages = block.follow(self.limits);
        Prefetch { stream: block.name, pages, map_early: vec![] }
    }

    /// Whether a block still expects some of these pages.
    pub fn asks(&self, name: u32, pages: &Range<Page>) -> bool {
        let block = self.blocks.iter().find(|block| block.name == name);
        block.is_some_and(|block| self.now - block.touched < SILENT && block.expects(pages))
    }

    /// What was asked for a block was given up without having been touched: it is followed less
    /// far, or no more.
    pub fn on_wasted(&mut self, name: u32, pages: &Range<Page>) {
        let Some(at) = self.blocks.iter().position(|block| block.name == name) else { return };
        let block = &mut self.blocks[at];
        block.depth = (block.depth / 2).max(self.limits.initial);
        block.trust -= (pages.end - pages.start) as i64;
        if block.trust < 0 {
            self.blocks.swap_remove(at);
        }
    }
}

impl Block {
    /// A block that a touch is in with two of those before it: in rows that are not far before its
    /// own, and in columns that one page has.
    fn begin(at: i64, before: &VecDeque<i64>, pitch: i64, fault: &FaultContext) -> Option<Self> {
        let mut block = Self {
            name: 0,
            thread: fault.thread,
            touched: 0,
            within: fault.region.clone(),
            base: at,
            pitch,
            width: 1,
            rows: 0..1,
            row: 0,
            asked: 1,
            behind: 0,
            lately: Lately::default(),
            depth: 0,
            trust: 0,
        };
        let of_region = |at: &i64| block.within.contains(&((at / PAGE_LENGTH) as Page));
        let others = before.iter().filter(|at| of_region(at)).map(|at| block.place(*at));
        let others = others.filter(|it| (-NEAR..0).contains(&it.row));
        let others = others.filter(|it| it.column < PAGE_LENGTH);
        let columns: Vec<_> = others.map(|it| it.column).take(2).collect();
        let (first, last) = columns
            .iter()
            .fold((0, 0), |(first, last), column| (first.min(*column), last.max(*column)));
        block.base += first;
        block.width = last - first + 1;
        (columns.len() == 2 && block.width <= PAGE_LENGTH).then_some(block)
    }

    /// Where a byte is.
    const fn place(&self, at: i64) -> Place {
        let from = at - self.base;
        // A little before where it begins is still that row.
        let column = (from + PAGE_LENGTH).rem_euclid(self.pitch) - PAGE_LENGTH;
        Place { row: (from - column) / self.pitch, column }
    }

    /// The same if it is of the block, or makes that wider by a page at most.
    fn near(&self, at: i64) -> Option<Place> {
        let place = self.place(at);
        let is_row = place.row > self.row - BEHIND && place.row <= self.asked;
        (is_row && place.column < self.width + PAGE_LENGTH).then_some(place)
    }

    /// Whether a byte is in rows and columns that are known.
    fn has(&self, at: i64) -> bool {
        let Place { row, column } = self.place(at);
        self.rows.contains(&row) && (0..self.width).contains(&column)
    }

    /// It has this column too.
    fn widen(&mut self, column: i64) {
        let before = (-column).max(0);
        self.base -= before;
        let (first, end) = self.lately.columns;
        self.lately.columns = (first + before, end + before);
        self.width = (self.width + before).max(column + before + 1);
    }

    /// Pages of a row.
    fn pages(&self, row: i64) -> Range<Page> {
        let start = self.base + row * self.pitch;
        let page = |at: i64| at.div_euclid(PAGE_LENGTH).max(0) as Page;
        let inside = |page: Page| page.clamp(self.within.start, self.within.end);
        inside(page(start))..inside(page(start + self.width - 1) + 1)
    }

    fn expects(&self, pages: &Range<Page>) -> bool {
        let row = self.place((pages.start as i64).saturating_mul(PAGE_LENGTH)).row;
        (row - 1..=row + 1).any(|row| {
            let own = self.pages(row);
            let is_row = (self.row - self.behind..self.asked).contains(&row);
            is_row && own.start < pages.end && pages.start < own.end
        })
    }

    /// It is touched here: what to ask for now.
    fn go_to(&mut self, Place { row, column }: Place, limits: Limits) -> Vec<Range<Page>> {
        if row > self.row {
            self.trust = self.trust.saturating_add(row - self.row);
            self.depth = self.depth.saturating_mul(2);
            self.row = row;
            self.asked = self.asked.max(row + 1);
            self.rows.end = self.rows.end.max(row + 1);
        } else {
            self.behind = self.behind.max(self.row - row);
        }
        let mut new = vec![];
        if !(0..self.width).contains(&column) {
            let rows = self.row - self.behind..self.asked;
            let known: Vec<_> = rows.clone().map(|row| self.pages(row)).collect();
            self.widen(column);
            // Other rows go on to pages that will be needed map_early.
            for (row, known) in rows.zip(known) {
                let wider = self.pages(row);
                let parts = [wider.start..known.start.max(wider.start), known.end..wider.end];
                new.extend(parts.into_iter().filter(|part| part.start < part.end));
            }
        }
        self.note(column.max(0), self.row - row);
        new.extend(self.follow(limits));
        new
    }

    /// Pages of the rows behind this one that need not show.
    fn soon(&self, row: i64) -> Vec<Range<Page>> {
        let next = (row.div_euclid(SHOWN_ONE_IN) + 1) * SHOWN_ONE_IN;
        (row + 1..next.min(self.asked)).map(|row| self.pages(row)).collect()
    }

    /// It was touched in this column, and so many rows behind the last one. What it has not come by
    /// for long is not of it any more.
    fn note(&mut self, column: i64, behind: i64) {
        let Lately { since, touches, columns: (first, end), behind: most } = self.lately;
        let (first, end) = if touches == 0 { (column, column + 1) } else { (first, end) };
        let columns = (first.min(column), end.max(column + 1));
        self.lately = Lately { since, touches: touches + 1, columns, behind: most.max(behind) };
        if self.row - since < OLD + 2 * self.behind {
            return;
        }
        if self.lately.touches >= MANY {
            self.base += columns.0;
            self.width = columns.1 - columns.0;
            self.behind = self.lately.behind;
        }
        self.lately = Lately { since: self.row, ..Lately::default() };
    }

    /// What to ask for of rows to come.
    fn follow(&mut self, limits: Limits) -> Vec<Range<Page>> {
        self.depth = self.depth.clamp(limits.initial, limits.max);
        let of_row = (self.width / PAGE_LENGTH + 1) as u64;
        let rows = (self.depth / of_row).max(1) as i64;
        // Asked for in large pieces: half of what one is ahead is used before more comes.
        if (self.asked - self.row) * 2 > rows {
            return vec![];
        }
        let rows = self.asked..self.row + 1 + rows;
        let new = rows.clone().map(|row| self.pages(row));
        let new = new.take_while(|pages| !pages.is_empty()).collect();
        self.asked = rows.end;
        new
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::advice::Advice;
    use proptest::prelude::*;
    use rand_pcg::{
        Pcg64Mcg,
        rand_core::{RngCore, SeedableRng},
    };
    use std::collections::BTreeSet;

    const LIMITS: Limits = Limits { initial: 16, max: 512 };

    /// Bytes of a row: 3341 numbers.
    const ROW: u64 = 26_728;

    /// Memory in which all stays that was brought in, and pages are mapped that are touched or come
    /// map_early.
    struct World {
        rows: Matrices,
        asked: BTreeSet<Page>,
        mapped: BTreeSet<Page>,
        /// Touches that showed, and of those the ones of what had not been asked for.
        shown: usize,
        waited: usize,
    }

    impl World {
        fn new() -> Self {
            let (asked, mapped) = (BTreeSet::new(), BTreeSet::new());
            Self { rows: Matrices::new(LIMITS), asked, mapped, shown: 0, waited: 0 }
        }

        fn touch(&mut self, byte: u64) {
            let page = byte / PAGE_LENGTH as u64;
            if !self.mapped.insert(page) {
                return;
            }
            self.shown += 1;
            self.waited += usize::from(!self.asked.contains(&page));
            let touch = FaultContext {
                thread: 1,
                page,
                offset: (byte % PAGE_LENGTH as u64) as u16,
                pages: page..page + 1,
                mapped_around: page..page + 1,
                region: 0..1 << 20,
                advice: Advice::Normal,
            };
            let ahead = self.rows.on_fault(&touch).or_else(|| self.rows.learn(&touch));
            let Some(Prefetch { pages, map_early, .. }) = ahead else { return };
            self.asked.extend(pages.into_iter().flatten());
            let is_there = |page: &Page| self.asked.contains(page);
            self.mapped.extend(map_early.into_iter().flatten().filter(is_there));
        }

        /// Some rows from `first` on by strips of columns, as panels are packed.
        fn panel(&mut self, first: u64, rows: u64, columns: Range<u64>, strip: usize) {
            for column in columns.step_by(strip) {
                (first..first + rows).for_each(|row| self.touch(row * ROW + column));
            }
        }

        /// Pages that were asked for and not touched.
        fn in_vain(&self, touched: &World) -> usize {
            self.asked.difference(&touched.mapped).count()
        }
    }

    /// Of a block that is gone through as `of` says, few pages are waited for, few show, and few
    /// are asked for in vain.
    fn is_foreseen(name: &str, of: impl Fn(&mut World)) {
        let (mut world, mut all) = (World::new(), World::new());
        of(&mut world);
        // Who knows nothing of what comes sees each page once.
        all.rows.limits = Limits { initial: 0, max: 0 };
        of(&mut all);
        let (World { shown, waited, .. }, pages) = (&world, all.mapped.len());
        let in_vain = world.in_vain(&all);
        let told =
            format!("{name}: {pages} pages, {shown} shown, {waited} waited, {in_vain} in vain");
        assert!(waited * 10 < pages, "{told}");
        assert!(shown * 4 < pages, "{told}");
        assert!(in_vain * 8 < pages + 8 * LIMITS.max as usize, "{told}");
    }

    #[test]
    fn blocks_are_foreseen_however_they_are_gone_through() {
        is_foreseen("row by row", |world| {
            (0..3000).for_each(|row| world.panel(row, 1, 5000..13_000, 8));
        });
        is_foreseen("by eight rows", |world| {
            (0..3000).step_by(8).for_each(|row| world.panel(row, 8, 2048..4096, 8));
        });
        is_foreseen("by columns of panels", |world| {
            (0..3072).step_by(256).for_each(|row| world.panel(row, 256, 8192..16_384, 32));
        });
        is_foreseen("two of them in turn", |world| {
            for row in (0..3000).step_by(64) {
                world.panel(row, 64, 0..2048, 8);
                world.panel(row + 4000, 64, 0..8192, 32);
            }
        });
    }

    #[test]
    fn whole_rows_are_left_to_others() {
        let mut world = World::new();
        world.panel(0, 100, 0..8, 8);
        (0..1000).for_each(|row| world.panel(row, 1, 0..ROW, 8));
        world.asked.clear();
        (1000..2000).for_each(|row| world.panel(row, 1, 0..ROW, 8));
        assert!(world.asked.is_empty(), "{:?}", world.rows.blocks);
    }

    #[test]
    fn what_is_random_is_no_block() {
        let mut random = Pcg64Mcg::seed_from_u64(1);
        let mut world = World::new();
        (0..20_000).for_each(|_| world.touch(random.next_u64() >> 32));
        assert!(world.asked.len() * 100 < world.shown, "{} of {}", world.asked.len(), world.shown);
    }

    #[test]
    fn what_is_in_vain_ends_it() {
        let mut world = World::new();
        world.panel(0, 20, 0..8, 8);
        assert_eq!(world.rows.blocks.len(), 1);
        let name = world.rows.blocks[0].name;
        assert!(world.rows.asks(name, &(130..131)), "page 130 is of row 20");
        assert!(!world.rows.asks(name, &(131..132)), "page 131 is not");
        world.rows.on_wasted(name, &(130..231));
        assert!(world.rows.blocks.is_empty() && !world.rows.asks(name, &(130..131)));
    }

    proptest! {
        #[test]
        fn no_trace_is_too_much(
            touches in proptest::collection::vec(
                (0_u32..3, prop_oneof![any::<u64>(), 0_u64..1 << 24], 0_u64..3), 0..300),
        ) {
            let mut rows = Matrices::new(LIMITS);
            for (thread, byte, kind) in touches {
                let page = byte / PAGE_LENGTH as u64;
                let region = page..page + 1 + kind * 1000;
                let (pages, mapped_around) = (page..page + 1, page..page + 1);
                let (offset, advice) = ((byte % PAGE_LENGTH as u64) as u16, Advice::Normal);
                let fault =
                    FaultContext { thread, page, offset, pages, mapped_around, region, advice };
                let ahead = rows.on_fault(&fault).or_else(|| rows.learn(&fault));
                if let Some(Prefetch { stream, pages, .. }) = ahead {
                    for pages in pages {
                        prop_assert!(fault.region.start <= pages.start);
                        prop_assert!(pages.start < pages.end && pages.end <= fault.region.end);
                        rows.asks(stream, &pages);
                        if kind == 0 {
                            rows.on_wasted(stream, &pages);
                        }
                    }
                }
            }
        }
    }
}
