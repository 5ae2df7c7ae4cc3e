//! Blocks of matrices whose rows are not a whole number of pages long.
//!
//! For example, consider a matrix with rows of 26,728 bytes, of which a program touches some
//! columns. In consecutive rows, the touched parts begin 6 or 7 pages apart, and are 1 or 2 pages
//! long. Page numbers therefore show no stride, but byte addresses do. The kernel reports the byte
//! that faulted, and faults at the beginning of the parts are exactly one *pitch* apart. Once the
//! pitch is known, each fault has a row and a column. Faults in the same columns of consecutive
//! rows form a *block*:
//!
//! ```text
//!             base           width
//!  row 0  .....|===============|............
//!  row 1  .....|===============|............    one pitch later
//!  row 2  .....|==>                             the current fault: these columns of the next
//!  row 3                                        rows are prefetched
//! ```
//!
//! The program may access the block by rows, by columns, or a few rows at a time (for example to
//! pack panels). In each case it accesses the rows in order, and its columns are learned from
//! faults.

use super::{FaultContext, KIND_BITS, Limits, MATRIX_BIT, Prefetch};
use crate::page::Page;
use interleaf_procfs::page::PAGE_BYTES;
use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    ops::Range,
};

/// Size of a page as a signed number, bytes.
const PAGE_LENGTH: i64 = PAGE_BYTES as i64;

/// Maximum number of matrix blocks at the same time: a few for each of several threads. A new block
/// replaces the block that has not faulted for the longest time.
const BLOCKS_MAX: usize = 32;

/// Maximum number of unexplained faults that are remembered for a thread. A fault is unexplained if
/// no stream and no block predicted it.
const UNEXPLAINED_MAX: usize = 16;

/// Maximum number of entries in each of two tables: the threads with remembered unexplained faults,
/// and the regions with a known pitch (bytes from row to row of the matrix). A full table is
/// emptied.
const KNOWN_MAX: usize = 256;

/// Range of possible pitches, bytes. Rows of less than two pages need no block: accesses to such
/// rows skip at most one page at a time, so [`Streams`](crate::stream::Streams) predict them.
/// Distances above this range are assumed to be distances between matrices.
const PITCH: Range<u64> = 2 * PAGE_LENGTH as u64..1 << 26;

/// A matrix block begins with three faults in nearly the same column: the newest fault, and two
/// faults in the `BEGIN_ROWS` rows before the row of the newest fault.
const BEGIN_ROWS: i64 = 16;

/// An access belongs to a block only if it is less than this number of rows behind the highest
/// touched row. A program may therefore pack panels of up to this height column by column.
const ROWS_BEHIND_MAX: i64 = 512;

/// The columns of a matrix block are revised each time that the block has advanced by `RECENT_ROWS`
/// rows plus twice the height of a panel. If the block had at least `RECENT_FAULTS_MIN` faults in
/// these rows, it is narrowed to the range of columns that had faults.
const RECENT_ROWS: i64 = 256;
const RECENT_FAULTS_MIN: u32 = 32;

/// In one in `SHOWN_ONE_IN` rows of a block, resident pages are not mapped before their touch, so
/// that faults show which columns the program touches. In all other rows, resident pages are mapped
/// early.
const SHOWN_ONE_IN: i64 = 16;

/// A matrix block is suspended after this number of faults of the process without a fault in the
/// block. A new block that would begin within a suspended block resumes that block instead.
const EXPIRES_AFTER: u64 = 512;

/// The blocks of all threads of a process.
#[derive(Clone, Debug)]
pub struct Matrices {
    limits: Limits,
    blocks: Vec<MatrixBlock>,
    /// Number of faults of all threads that were passed to `on_fault`. It is the clock for
    /// `MatrixBlock::last_fault`.
    now: u64,
    last_id: u32,
    /// The pitch of the matrix in each region, keyed by the first page of the region.
    pitches: BTreeMap<Page, i64>,
    /// The byte addresses of each thread's unexplained faults, the latest fault first.
    unexplained: HashMap<u32, VecDeque<i64>>,
}

#[derive(Clone, Debug)]
struct MatrixBlock {
    id: u32,
    thread: u32,
    /// The time of the block's last fault, on the clock `Matrices::now`.
    last_fault: u64,
    region: Range<Page>,
    /// Address of the first byte of the block: its first column in row 0.
    base: i64,
    /// The distance from the start of a row of the matrix to the start of the next row, bytes.
    pitch: i64,
    /// Length of the part of a row that the block contains, bytes: from the first to the last
    /// touched column. The touches of all rows count, or of the recent rows once the block was
    /// narrowed.
    width: i64,
    /// The rows that were touched so far. Row 0 is the row of the fault with which the block began.
    rows: Range<i64>,
    /// The highest row that was touched since the block began or was resumed. Prefetches are for
    /// rows after it.
    row: i64,
    /// The row after the last row that was prefetched or touched.
    prefetched_to: i64,
    /// The height of a panel: the greatest distance from the row of a fault to `row`, for faults in
    /// rows before `row`.
    rows_behind: i64,
    recent: RecentColumns,
    /// Prefetch depth, pages.
    depth: u64,
    /// The number of rows predicted correctly, minus the number of wasted pages.
    confidence: i64,
}

/// The columns in which a block had faults in recent rows: in the time since its highest touched
/// row was the row `since`.
#[derive(Clone, Copy, Debug, Default)]
struct RecentColumns {
    since: i64,
    faults: u32,
    /// The first touched column, and the column after the last touched one, as offsets from the
    /// first column of the block, bytes.
    columns: (i64, i64),
    /// The greatest number of rows from the row of a fault to the highest touched row.
    rows_behind: i64,
}

/// The position of a byte in a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct RowColumn {
    row: i64,
    /// Bytes from the first column of the block.
    column: i64,
}

impl Matrices {
    /// Makes a table without blocks.
    pub fn new(limits: Limits) -> Self {
        let (pitches, unexplained) = (BTreeMap::new(), HashMap::new());
        Self { limits, blocks: vec![], now: 0, last_id: 0, pitches, unexplained }
    }

    /// Advances the block that contains a fault, and returns pages to prefetch that were not
    /// requested before; the list of pages may be empty. Returns `None` if no block contains the
    /// fault, or if the block has become wider than half of a row and is removed.
    pub fn on_fault(&mut self, fault: &FaultContext) -> Option<Prefetch> {
        self.now += 1;
        let byte = fault.byte()?;
        let own = self.blocks.iter_mut().filter(|block| block.thread == fault.thread);
        let live = own.filter(|block| self.now - block.last_fault < EXPIRES_AFTER);
        let near = live.filter(|block| block.region.contains(&fault.page));
        let positions = near.filter_map(|block| Some((block.locate_near(byte)?, block)));
        let (position, block) = positions.max_by_key(|(_, block)| block.last_fault)?;
        block.last_fault = self.now;
        let pages = block.advance(position, self.limits);
        let map_early = block.pages_to_map_early(position.row);
        let (id, is_part) = (block.id, block.width * 2 <= block.pitch);
        if !is_part {
            // A block that is wider than half of a row counts as a pass over whole rows. Streams
            // predict such a pass.
            self.blocks.retain(|block| block.id != id);
            return None;
        }
        Some(Prefetch { stream: id, pages, map_early })
    }

    /// Learns from a fault that no stream explains. Returns pages to prefetch if the fault begins
    /// or resumes a block.
    pub fn learn(&mut self, fault: &FaultContext) -> Option<Prefetch> {
        let byte = fault.byte()?;
        if self.unexplained.len() >= KNOWN_MAX && !self.unexplained.contains_key(&fault.thread) {
            self.unexplained.clear();
        }
        let mut before = self.unexplained.remove(&fault.thread).unwrap_or_default();
        self.learn_pitch(fault, byte, &before);
        let pitch = self.pitches.get(&fault.region.start);
        let begun = pitch.and_then(|pitch| MatrixBlock::begin(byte, &before, *pitch, fault));
        let prefetch = begun.map(|block| {
            before.clear();
            self.begin_or_resume(byte, block)
        });
        before.truncate(UNEXPLAINED_MAX - 1);
        before.push_front(byte);
        self.unexplained.insert(fault.thread, before);
        prefetch
    }

    /// Learns the pitch of the fault's region from three faults at equal distances. A fault on the
    /// first byte of a page is not used, because its access may have begun on the page before.
    fn learn_pitch(&mut self, fault: &FaultContext, byte: i64, before: &VecDeque<i64>) {
        if fault.offset == 0 {
            return;
        }
        let pitches = before.iter().filter_map(|other| {
            let pitch = byte - other;
            let is_pitch = pitch % PAGE_LENGTH != 0 && PITCH.contains(&pitch.unsigned_abs());
            (is_pitch && before.contains(&(other - pitch))).then_some(pitch.abs())
        });
        let Some(pitch) = pitches.min() else { return };
        if self.pitches.len() >= KNOWN_MAX {
            self.pitches.clear();
        }
        let known = self.pitches.entry(fault.region.start).or_insert(pitch);
        // If a program accesses only every second row, its faults are twice the pitch apart.
        // Therefore a multiple of the known pitch does not replace the known pitch.
        if pitch % *known != 0 {
            *known = pitch;
            self.blocks.retain(|block| block.region != fault.region);
        }
    }

    /// Adds the new block `new`, or resumes a known block that contains the fault at `byte`.
    /// Returns the pages to prefetch.
    fn begin_or_resume(&mut self, byte: i64, new: MatrixBlock) -> Prefetch {
        let known = self.blocks.iter_mut().find(|block| {
            let is_same = block.thread == new.thread && block.pitch == new.pitch;
            is_same && block.region == new.region && block.contains(byte)
        });
        let block = match known {
            Some(block) => {
                block.row = block.locate(byte).row;
                block.prefetched_to = block.row + 1;
                block.recent = RecentColumns { since: block.row, ..RecentColumns::default() };
                block
            }
            None => {
                self.last_id = self.last_id.wrapping_add(1) & !KIND_BITS;
                let depth = self.limits.initial;
                let new = MatrixBlock { id: self.last_id | MATRIX_BIT, depth, ..new };
                let index = if self.blocks.len() < BLOCKS_MAX {
                    self.blocks.push(new);
                    self.blocks.len() - 1
                } else {
                    let all = self.blocks.iter().enumerate();
                    let oldest = all.min_by_key(|(_, block)| block.last_fault);
                    let index = oldest.map_or(0, |(index, _)| index);
                    self.blocks[index] = new;
                    index
                };
                &mut self.blocks[index]
            }
        };
        block.last_fault = self.now;
        let pages = block.prefetch_rows(self.limits);
        Prefetch { stream: block.id, pages, map_early: vec![] }
    }

    /// True if the block with the number `id` has requested one of `pages`, and still expects a
    /// touch of that page.
    pub fn expects(&self, id: u32, pages: &Range<Page>) -> bool {
        let block = self.blocks.iter().find(|block| block.id == id);
        block.is_some_and(|block| {
            self.now - block.last_fault < EXPIRES_AFTER && block.expects(pages)
        })
    }

    /// Reacts to wasted pages of a block: prefetched pages that were evicted untouched. Halves the
    /// depth of the block. Removes the block once more pages were wasted than rows predicted.
    pub fn on_wasted(&mut self, id: u32, pages: &Range<Page>) {
        let Some(index) = self.blocks.iter().position(|block| block.id == id) else { return };
        let block = &mut self.blocks[index];
        block.depth = (block.depth / 2).max(self.limits.initial);
        block.confidence -= (pages.end - pages.start) as i64;
        if block.confidence < 0 {
            self.blocks.swap_remove(index);
        }
    }
}

impl MatrixBlock {
    /// Begins a block with a fault at `byte` and two earlier faults in `before`. Returns `None`
    /// unless the two earlier faults are in the [`BEGIN_ROWS`] rows before the fault's row, and the
    /// columns of all three faults are within one page.
    fn begin(byte: i64, before: &VecDeque<i64>, pitch: i64, fault: &FaultContext) -> Option<Self> {
        let mut block = Self {
            id: 0,
            thread: fault.thread,
            last_fault: 0,
            region: fault.region.clone(),
            base: byte,
            pitch,
            width: 1,
            rows: 0..1,
            row: 0,
            prefetched_to: 1,
            rows_behind: 0,
            recent: RecentColumns::default(),
            depth: 0,
            confidence: 0,
        };
        let is_in_region = |at: &i64| block.region.contains(&((at / PAGE_LENGTH) as Page));
        let others = before.iter().filter(|at| is_in_region(at)).map(|at| block.locate(*at));
        let others = others.filter(|it| (-BEGIN_ROWS..0).contains(&it.row));
        let others = others.filter(|it| it.column < PAGE_LENGTH);
        let columns: Vec<_> = others.map(|it| it.column).take(2).collect();
        let (first, last) = columns
            .iter()
            .fold((0, 0), |(first, last), column| (first.min(*column), last.max(*column)));
        block.base += first;
        block.width = last - first + 1;
        (columns.len() == 2 && block.width <= PAGE_LENGTH).then_some(block)
    }

    /// The row and the column of a byte, relative to the block. The byte need not be in the block.
    const fn locate(&self, byte: i64) -> RowColumn {
        let from = byte - self.base;
        // A byte up to a page before the first column counts to the same row, not to the end of the
        // row before: a fault at this byte may widen the block to the left.
        let column = (from + PAGE_LENGTH).rem_euclid(self.pitch) - PAGE_LENGTH;
        RowColumn { row: (from - column) / self.pitch, column }
    }

    /// The row and the column of a byte near the block. Returns `None` if the row is
    /// [`ROWS_BEHIND_MAX`] or more rows before the highest touched row, or beyond the row after the
    /// prefetched rows. Also returns `None` if the column is more than a page outside the block's
    /// columns.
    fn locate_near(&self, byte: i64) -> Option<RowColumn> {
        let position = self.locate(byte);
        let is_row =
            position.row > self.row - ROWS_BEHIND_MAX && position.row <= self.prefetched_to;
        (is_row && position.column < self.width + PAGE_LENGTH).then_some(position)
    }

    /// True if a byte is in the touched rows and in the columns of the block.
    fn contains(&self, byte: i64) -> bool {
        let RowColumn { row, column } = self.locate(byte);
        self.rows.contains(&row) && (0..self.width).contains(&column)
    }

    /// Widens the block so that it contains `column`. A negative column is before the block's first
    /// column: the block's base then moves back.
    fn widen(&mut self, column: i64) {
        let before = (-column).max(0);
        self.base -= before;
        let (first, end) = self.recent.columns;
        self.recent.columns = (first + before, end + before);
        self.width = (self.width + before).max(column + before + 1);
    }

    /// The pages with the block's columns in the row `row`, cut to the region.
    fn pages(&self, row: i64) -> Range<Page> {
        let start = self.base + row * self.pitch;
        let page = |at: i64| at.div_euclid(PAGE_LENGTH).max(0) as Page;
        let inside = |page: Page| page.clamp(self.region.start, self.region.end);
        inside(page(start))..inside(page(start + self.width - 1) + 1)
    }

    fn expects(&self, pages: &Range<Page>) -> bool {
        let row = self.locate((pages.start as i64).saturating_mul(PAGE_LENGTH)).row;
        (row - 1..=row + 1).any(|row| {
            let own = self.pages(row);
            let is_row = (self.row - self.rows_behind..self.prefetched_to).contains(&row);
            is_row && own.start < pages.end && pages.start < own.end
        })
    }

    /// Advances the block to the position of a fault. Returns the pages to prefetch now.
    fn advance(&mut self, position: RowColumn, limits: Limits) -> Vec<Range<Page>> {
        let RowColumn { row, column } = position;
        if row > self.row {
            self.confidence = self.confidence.saturating_add(row - self.row);
            self.depth = self.depth.saturating_mul(2);
            self.row = row;
            self.prefetched_to = self.prefetched_to.max(row + 1);
            self.rows.end = self.rows.end.max(row + 1);
        } else {
            self.rows_behind = self.rows_behind.max(self.row - row);
        }
        let mut new = vec![];
        if !(0..self.width).contains(&column) {
            let rows = self.row - self.rows_behind..self.prefetched_to;
            let known: Vec<_> = rows.clone().map(|row| self.pages(row)).collect();
            self.widen(column);
            // The rows that were prefetched before the block was widened lack the new columns. The
            // pages with these columns will be touched soon, so they are prefetched now.
            for (row, known) in rows.zip(known) {
                let wider = self.pages(row);
                let parts = [wider.start..known.start.max(wider.start), known.end..wider.end];
                new.extend(parts.into_iter().filter(|part| part.start < part.end));
            }
        }
        self.note_recent(column.max(0), self.row - row);
        new.extend(self.prefetch_rows(limits));
        new
    }

    /// Returns the pages to map early: those of the prefetched rows after `row` and before the next
    /// row that must show its faults ([`SHOWN_ONE_IN`]).
    fn pages_to_map_early(&self, row: i64) -> Vec<Range<Page>> {
        let next = (row.div_euclid(SHOWN_ONE_IN) + 1) * SHOWN_ONE_IN;
        (row + 1..next.min(self.prefetched_to)).map(|row| self.pages(row)).collect()
    }

    /// Records the column of a fault that is `rows_behind` rows before the highest touched row.
    /// Each time that the block has advanced by enough rows ([`RECENT_ROWS`]), narrows it to the
    /// range of columns that had faults in these rows.
    fn note_recent(&mut self, column: i64, rows_behind: i64) {
        let RecentColumns { since, faults, columns: (first, end), rows_behind: max } = self.recent;
        let (first, end) = if faults == 0 { (column, column + 1) } else { (first, end) };
        let columns = (first.min(column), end.max(column + 1));
        let rows_behind = max.max(rows_behind);
        self.recent = RecentColumns { since, faults: faults + 1, columns, rows_behind };
        if self.row - since < RECENT_ROWS + 2 * self.rows_behind {
            return;
        }
        if self.recent.faults >= RECENT_FAULTS_MIN {
            self.base += columns.0;
            self.width = columns.1 - columns.0;
            self.rows_behind = self.recent.rows_behind;
        }
        self.recent = RecentColumns { since: self.row, ..RecentColumns::default() };
    }

    /// Returns the pages of the rows to prefetch now. Returns no pages while more than half of the
    /// rows of the prefetch depth are prefetched and untouched, so that pages are requested in
    /// large pieces.
    fn prefetch_rows(&mut self, limits: Limits) -> Vec<Range<Page>> {
        self.depth = self.depth.clamp(limits.initial, limits.max);
        let pages_per_row = (self.width / PAGE_LENGTH + 1) as u64;
        let rows = (self.depth / pages_per_row).max(1) as i64;
        if (self.prefetched_to - self.row) * 2 > rows {
            return vec![];
        }
        let rows = self.prefetched_to..self.row + 1 + rows;
        let new = rows.clone().map(|row| self.pages(row));
        let new = new.take_while(|pages| !pages.is_empty()).collect();
        self.prefetched_to = rows.end;
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

    /// Length of a row, bytes: 3341 numbers of 8 bytes.
    const ROW: u64 = 26_728;

    /// A simulated memory without eviction: prefetched pages stay resident. They are mapped at
    /// their first touch, or earlier if `Prefetch::map_early` lists them.
    struct MatrixWorld {
        matrices: Matrices,
        prefetched: BTreeSet<Page>,
        mapped: BTreeSet<Page>,
        /// `faults` counts all faults, and `major_faults` those on pages that were not prefetched.
        faults: usize,
        major_faults: usize,
    }

    impl MatrixWorld {
        fn new() -> Self {
            let (prefetched, mapped) = (BTreeSet::new(), BTreeSet::new());
            Self { matrices: Matrices::new(LIMITS), prefetched, mapped, faults: 0, major_faults: 0 }
        }

        fn touch(&mut self, byte: u64) {
            let page = byte / PAGE_LENGTH as u64;
            if !self.mapped.insert(page) {
                return;
            }
            self.faults += 1;
            self.major_faults += usize::from(!self.prefetched.contains(&page));
            let fault = FaultContext {
                offset: (byte % PAGE_LENGTH as u64) as u16,
                region: 0..1 << 20,
                ..FaultContext::single(1, page)
            };
            let prefetch = self.matrices.on_fault(&fault).or_else(|| self.matrices.learn(&fault));
            let Some(Prefetch { pages, map_early, .. }) = prefetch else { return };
            self.prefetched.extend(pages.into_iter().flatten());
            let is_resident = |page: &Page| self.prefetched.contains(page);
            self.mapped.extend(map_early.into_iter().flatten().filter(is_resident));
        }

        /// Touches `columns` (a range of bytes) in `rows` rows from the row `first` on, in the
        /// order of a program that packs panels: one byte in each row, then the byte that is
        /// `strip` bytes further in each row.
        fn panel(&mut self, first: u64, rows: u64, columns: Range<u64>, strip: usize) {
            for column in columns.step_by(strip) {
                (first..first + rows).for_each(|row| self.touch(row * ROW + column));
            }
        }

        /// Returns the number of prefetched pages that the program does not touch. `touched` is a
        /// run of the same program without prefetches, in which exactly the touched pages are
        /// mapped.
        fn wasted(&self, touched: &MatrixWorld) -> usize {
            self.prefetched.difference(&touched.mapped).count()
        }
    }

    /// Asserts that blocks are prefetched while `walk` walks them: less than a tenth of the pages
    /// have a major fault, less than a quarter have a fault, and the wasted prefetches are less
    /// than an eighth of the pages plus `LIMITS.max`.
    fn is_prefetched(name: &str, walk: impl Fn(&mut MatrixWorld)) {
        let (mut world, mut all) = (MatrixWorld::new(), MatrixWorld::new());
        walk(&mut world);
        // With `Limits` of 0, nothing is prefetched, and each page faults once.
        all.matrices.limits = Limits { initial: 0, max: 0 };
        walk(&mut all);
        let (MatrixWorld { faults, major_faults, .. }, pages) = (&world, all.mapped.len());
        let wasted = world.wasted(&all);
        let message = format!(
            "{name}: {pages} pages, {faults} faults, {major_faults} major, {wasted} wasted"
        );
        assert!(major_faults * 10 < pages, "{message}");
        assert!(faults * 4 < pages, "{message}");
        assert!(wasted * 8 < pages + 8 * LIMITS.max as usize, "{message}");
    }

    #[test]
    fn blocks_are_prefetched_in_any_order_of_their_walk() {
        is_prefetched("row by row", |world| {
            (0..3000).for_each(|row| world.panel(row, 1, 5000..13_000, 8));
        });
        is_prefetched("by eight rows", |world| {
            (0..3000).step_by(8).for_each(|row| world.panel(row, 8, 2048..4096, 8));
        });
        is_prefetched("by columns of panels", |world| {
            (0..3072).step_by(256).for_each(|row| world.panel(row, 256, 8192..16_384, 32));
        });
        is_prefetched("two of them in turn", |world| {
            for row in (0..3000).step_by(64) {
                world.panel(row, 64, 0..2048, 8);
                world.panel(row + 4000, 64, 0..8192, 32);
            }
        });
    }

    #[test]
    fn whole_rows_are_left_to_streams() {
        let mut world = MatrixWorld::new();
        world.panel(0, 100, 0..8, 8);
        (0..1000).for_each(|row| world.panel(row, 1, 0..ROW, 8));
        world.prefetched.clear();
        (1000..2000).for_each(|row| world.panel(row, 1, 0..ROW, 8));
        assert!(world.prefetched.is_empty(), "{:?}", world.matrices.blocks);
    }

    #[test]
    fn random_accesses_are_no_block() {
        let mut random = Pcg64Mcg::seed_from_u64(1);
        let mut world = MatrixWorld::new();
        (0..20_000).for_each(|_| world.touch(random.next_u64() >> 32));
        assert!(
            world.prefetched.len() * 100 < world.faults,
            "{} of {}",
            world.prefetched.len(),
            world.faults
        );
    }

    #[test]
    fn a_block_ends_with_wasted_prefetches() {
        let mut world = MatrixWorld::new();
        world.panel(0, 20, 0..8, 8);
        assert_eq!(world.matrices.blocks.len(), 1);
        let id = world.matrices.blocks[0].id;
        assert!(world.matrices.expects(id, &(130..131)), "page 130 is of row 20");
        assert!(!world.matrices.expects(id, &(131..132)), "page 131 is not");
        world.matrices.on_wasted(id, &(130..231));
        assert!(world.matrices.blocks.is_empty() && !world.matrices.expects(id, &(130..131)));
    }

    proptest! {
        #[test]
        fn no_trace_panics(
            touches in proptest::collection::vec(
                (0_u32..3, prop_oneof![any::<u64>(), 0_u64..1 << 24], 0_u64..3), 0..300),
        ) {
            let mut matrices = Matrices::new(LIMITS);
            for (thread, byte, kind) in touches {
                let page = byte / PAGE_LENGTH as u64;
                let region = page..page + 1 + kind * 1000;
                let (pages, mapped_around) = (page..page + 1, page..page + 1);
                let (offset, advice) = ((byte % PAGE_LENGTH as u64) as u16, Advice::Normal);
                let fault =
                    FaultContext { thread, page, offset, pages, mapped_around, region, advice };
                let prefetch = matrices.on_fault(&fault).or_else(|| matrices.learn(&fault));
                if let Some(Prefetch { stream, pages, .. }) = prefetch {
                    for pages in pages {
                        prop_assert!(fault.region.start <= pages.start);
                        prop_assert!(pages.start < pages.end && pages.end <= fault.region.end);
                        matrices.expects(stream, &pages);
                        if kind == 0 {
                            matrices.on_wasted(stream, &pages);
                        }
                    }
                }
            }
        }
    }
}
