//! Computes the content of a card after a power failure, for every moment of one observed run.
//!
//! # The problem
//!
//! A card acknowledges a write when it sends the completion entry of the write. From then on, NVMe
//! makes a promise for a card without a volatile write cache: even after a power failure, a read
//! returns the data of this write or of a later write (NVM Express 1.4, section 5.15.2.2, VWC bit
//! 0). A card may lose an acknowledged write in a power failure at one moment, and no write in a
//! power failure a nanosecond later. A run of a second has more moments than can be simulated one
//! by one.
//!
//! # The method
//!
//! The engine reports for each write when its data were in the controller's buffer, in the memory
//! array, and durable. The model stores no data: the content of a block is the number of the write
//! that wrote it, 0 before the first write. The content that a power failure leaves is a step
//! function of the time of the failure. One pass over a run therefore finds *all* times at which a
//! failure would lose or tear a block ([`TimelineBuilder::finish`]). A binary search then finds the
//! damage at a given time.
//!
//! # Terms
//!
//! - *piece*: the part of a write that must be whole or absent after a power failure. A write of at
//!   most the atomic write unit is one piece. A larger write is cut at the multiples of the unit,
//!   and each part is a piece. NVMe promises whole or absent only for writes of at most the unit
//!   (section 6.4.2, AWUPF), so the rule for larger writes is stricter than NVMe.
//! - *block*: an aligned range of the medium. All blocks of a run have the same size: the largest
//!   power of two that divides the start and the end of every piece, but at most the atomic write
//!   unit.
//! - *lost*: a write that was acknowledged, and whose block contains older data. A completed FLUSH
//!   or FUA makes a stronger promise for a write, which a card with a volatile write cache must
//!   keep as well (sections 6.8 and 6.15).
//! - *torn*: a piece that is partly new, and partly old or undefined.
//!
//! Two writes of the same block that are outstanding at the same time have no order: afterwards the
//! block may contain the data of either.

mod history;

pub use history::{Damage, DamageInterval};

use history::{Entry, Piece, damage_of_block};

/// The condition under which written data survive a power failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Survival {
    /// A capacitor powers the save of the controller's buffers and of the memory, so data survive
    /// once they are in a buffer.
    Buffered,
    /// Data survive once the row that contains them has been precharged. After the failure, the
    /// controller works for `hold_up` femtoseconds. If the time suffices, it completes the pieces
    /// (parts of a write that must be whole or absent, see the terms of this module) of which a
    /// part is in the memory already. It begins no other pieces: data that are only in the
    /// controller's buffers are lost.
    Precharged {
        /// Time from the power failure to the stop of the controller, fs.
        hold_up: u64,
    },
}

/// The rules that decide whether the content of a block after a power failure is lost or torn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    /// The condition under which written data survive a power failure.
    pub survival: Survival,
    /// The atomic write unit at power failure (AWUPF), bytes: a power of two.
    pub atomic_bytes: u32,
}

/// A write command, or a write of zeroes, with its times in femtoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WriteTimes {
    /// The first byte of the write, counted from the first byte of the card's memory.
    pub offset: u64,
    /// The length of the write, bytes, above 0.
    pub bytes: u32,
    /// True if the write has force unit access (FUA).
    pub force_unit_access: bool,
    /// The time at which the host wrote the doorbell for the write, fs.
    pub submitted: u64,
    /// The time at which the controller sent the completion entry, fs; `u64::MAX` if it sent none.
    pub acknowledged: u64,
}

/// A part of a write in one row of the memory, with its times in femtoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentTimes {
    /// The first byte of the segment, counted from the first byte of the card's memory.
    pub offset: u64,
    /// The length of the segment, bytes.
    pub bytes: u32,
    /// The time at which all data of the segment were in the controller's buffer, fs.
    pub received: u64,
    /// The time at which the data of the segment were in the memory array or its row buffer, fs.
    pub in_array: u64,
    /// The time from which the memory keeps the data of the segment without power, fs.
    pub durable: u64,
}

/// A flush command with its times in femtoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlushTimes {
    /// The time at which the host wrote the doorbell for the flush, fs.
    pub submitted: u64,
    /// The time at which the controller sent the completion entry, fs; `u64::MAX` if it sent none.
    pub acknowledged: u64,
}

/// Collects the writes and the flushes of a run, from which [`Self::finish`] makes a [`Timeline`].
#[derive(Clone, Debug)]
pub struct TimelineBuilder {
    rules: Rules,
    writes: Vec<WriteTimes>,
    flushes: Vec<FlushTimes>,
    pieces: Vec<Piece>,
    limit: u64,
}

/// The content that a power failure would leave on a card, for every moment of a run.
#[derive(Clone, Debug)]
pub struct Timeline {
    rules: Rules,
    writes: Vec<WriteTimes>,
    pieces: Vec<Piece>,
    /// One entry for each block of each piece (a part of a write, see the terms of this module),
    /// sorted by the index of the block, then by the order in which pieces reach the memory.
    entries: Vec<Entry>,
    block_bytes: u64,
    /// The damaged blocks, each with the span of time in which a power failure damages the block.
    /// They are sorted by the start of the span.
    intervals: Vec<DamageInterval>,
    /// Element `i` is the latest end of the damage intervals `0..=i`. The elements are in ascending
    /// order, so a binary search finds the intervals that have not ended.
    latest_ends: Vec<u64>,
    /// For each write, the moment (fs) from which a completed FLUSH or FUA promises that the write
    /// is durable; `u64::MAX` for never.
    promised: Vec<u64>,
    submissions: Vec<u64>,
    acknowledgements: Vec<u64>,
    end: u64,
}

/// The numbers of acknowledged and of outstanding writes at a moment of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WriteCounts {
    /// The number of writes that were acknowledged up to the moment.
    pub acknowledged: u64,
    /// The number of writes that were submitted up to the moment and not yet acknowledged.
    pub outstanding: u64,
}

impl TimelineBuilder {
    /// Begins the timeline of a run, without writes.
    ///
    /// # Panics
    /// If the atomic write unit is not a power of two. The parser of card files refuses such a
    /// unit.
    pub fn new(rules: Rules) -> Self {
        assert!(rules.atomic_bytes.is_power_of_two(), "the atomic write unit is a power of two");
        Self { rules, writes: vec![], flushes: vec![], pieces: vec![], limit: u64::MAX }
    }

    /// Adds a write and returns its 1-based number. `segments` are the parts of the write that
    /// reached the card. Bytes of the write that are in no segment never reached the card.
    pub fn write(&mut self, times: WriteTimes, segments: &[SegmentTimes]) -> u32 {
        self.writes.push(times);
        let number = self.writes.len() as u32;
        let (start, end) = (times.offset, times.offset + u64::from(times.bytes));
        let unit = u64::from(self.rules.atomic_bytes);
        let mut at = start;
        while at < end {
            let is_atomic = u64::from(times.bytes) <= unit;
            let next = if is_atomic { end } else { end.min((at / unit + 1) * unit) };
            self.pieces.push(Piece::of(number, at..next, segments, self.rules.survival));
            at = next;
        }
        number
    }

    /// Adds a flush command to the run.
    pub fn flush(&mut self, times: FlushTimes) {
        self.flushes.push(times);
    }

    /// Ends the timeline at `limit` fs. A caller that leaves out writes, such as writes without
    /// completion, must call this function, with a `limit` before the first of their data arrive.
    pub fn end_at(&mut self, limit: u64) {
        self.limit = self.limit.min(limit);
    }

    /// Ends the collection of writes and flushes. Computes, for every moment of the run, the blocks
    /// that a power failure would lose or tear.
    pub fn finish(self) -> Timeline {
        let Self { rules, writes, flushes, pieces, limit } = self;
        let promised = promised_by_flush(&writes, flushes);
        let alignment = pieces.iter().fold(u64::from(rules.atomic_bytes), |least, piece| {
            let bits = piece.offset | (piece.offset + piece.bytes);
            if bits == 0 { least } else { least.min(1 << bits.trailing_zeros()) }
        });
        let mut entries = vec![];
        for (index, piece) in pieces.iter().enumerate() {
            let blocks = piece.offset / alignment..(piece.offset + piece.bytes) / alignment;
            entries.extend(blocks.map(|block| Entry { block, piece: index as u32 }));
        }
        let order = |entry: &Entry| {
            let piece = &pieces[entry.piece as usize];
            (entry.block, piece.order, piece.write)
        };
        entries.sort_unstable_by_key(order);
        let mut intervals = vec![];
        for of_block in entries.chunk_by(|a, b| a.block == b.block) {
            damage_of_block(of_block, &pieces, &writes, &promised, &mut intervals);
        }
        intervals.sort_unstable_by_key(|interval| (interval.from, interval.block));
        let latest_ends = intervals
            .iter()
            .scan(0, |latest, interval: &DamageInterval| {
                *latest = interval.until.max(*latest);
                Some(*latest)
            })
            .collect();
        let sorted = |time: fn(&WriteTimes) -> u64| {
            let mut times: Vec<u64> = writes.iter().map(time).collect();
            times.sort_unstable();
            times
        };
        let (submissions, acknowledgements) = (sorted(|w| w.submitted), sorted(|w| w.acknowledged));
        let ends = pieces.iter().map(|piece| piece.whole).chain(acknowledgements.iter().copied());
        let end = ends.filter(|time| *time < u64::MAX).max().unwrap_or(0).min(limit);
        Timeline {
            rules,
            block_bytes: alignment,
            pieces,
            entries,
            intervals,
            latest_ends,
            promised,
            submissions,
            acknowledgements,
            end,
            writes,
        }
    }
}

/// Returns for each write the moment from which its durability is promised. A write with FUA is
/// promised at its own acknowledgement. Other writes are promised at the earliest acknowledgement
/// of a flush that was submitted after the write was acknowledged (NVMe 1.4, section 6.8).
fn promised_by_flush(writes: &[WriteTimes], mut flushes: Vec<FlushTimes>) -> Vec<u64> {
    flushes.sort_unstable_by_key(|flush| flush.submitted);
    // Element `i` is the earliest acknowledgement of the flushes `i..`.
    let mut earliest = vec![u64::MAX; flushes.len() + 1];
    for (at, flush) in flushes.iter().enumerate().rev() {
        earliest[at] = earliest[at + 1].min(flush.acknowledged);
    }
    let promise = |write: &WriteTimes| {
        if write.force_unit_access || write.acknowledged == u64::MAX {
            return write.acknowledged;
        }
        earliest[flushes.partition_point(|flush| flush.submitted < write.acknowledged)]
    };
    writes.iter().map(promise).collect()
}

impl Timeline {
    /// Returns the rules of the card: the condition under which written data survive a power
    /// failure, and the atomic write unit.
    pub fn rules(&self) -> Rules {
        self.rules
    }

    /// Returns the end of the run, fs: the latest of the acknowledgements and of the times from
    /// which a power failure leaves pieces of writes whole; at most the limit of
    /// [`TimelineBuilder::end_at`].
    pub fn end(&self) -> u64 {
        self.end
    }

    /// Returns the size of a block, the unit of the reported damage, bytes.
    pub fn block_bytes(&self) -> u64 {
        self.block_bytes
    }

    /// Returns the writes in the order of their numbers; the first has number 1.
    pub fn writes(&self) -> &[WriteTimes] {
        &self.writes
    }

    /// Returns all spans of time in which a power failure would lose or tear a block, sorted by
    /// their start. A block may have several spans.
    pub fn damage(&self) -> &[DamageInterval] {
        &self.intervals
    }

    /// Returns all blocks that a power failure at `moment` (fs) would lose or tear.
    pub fn damage_at(&self, moment: u64) -> Vec<DamageInterval> {
        let begun = self.intervals.partition_point(|interval| interval.from <= moment);
        // `latest_ends` is in ascending order, so a binary search finds `first`: all intervals with
        // a lower index have ended by `moment`.
        let first = self.latest_ends.partition_point(|end| *end <= moment).min(begun);
        self.intervals[first..begun]
            .iter()
            .filter(|interval| moment < interval.until)
            .copied()
            .collect()
    }

    /// Returns true if a FLUSH or FUA that completed up to `moment` (fs) promises the durability of
    /// the write with the 1-based number `write`.
    pub fn is_flushed(&self, write: u32, moment: u64) -> bool {
        self.promised[write as usize - 1] <= moment
    }

    /// Returns the number of acknowledged and the number of outstanding writes at `moment`, fs.
    pub fn counts(&self, moment: u64) -> WriteCounts {
        let up_to = |times: &[u64]| times.partition_point(|time| *time <= moment) as u64;
        let acknowledged = up_to(&self.acknowledgements);
        WriteCounts { acknowledged, outstanding: up_to(&self.submissions) - acknowledged }
    }

    /// Divides the medium into ranges of `bytes` bytes. Returns, for each range that the run
    /// writes, the 0-based index of the range and the first moment (fs) at which a power failure
    /// would leave data of the run in the range. The pairs are sorted by index.
    pub fn first_writes(&self, bytes: u64) -> Vec<(u64, u64)> {
        let mut firsts = std::collections::BTreeMap::new();
        for piece in &self.pieces {
            let last = (piece.offset + piece.bytes - 1) / bytes;
            for range in piece.offset / bytes..=last {
                let first = firsts.entry(range).or_insert(u64::MAX);
                *first = piece.begun.min(*first);
            }
        }
        firsts.into_iter().collect()
    }

    /// Returns the newest acknowledged write of each block that overlaps `range` (bytes of the
    /// medium): pairs of the 0-based index of the block and the 1-based number of the write. Newest
    /// is the write submitted last, among the writes acknowledged up to `moment` (fs).
    pub fn acknowledged_in(&self, range: core::ops::Range<u64>, moment: u64) -> Vec<(u64, u32)> {
        let first = self
            .entries
            .partition_point(|entry| (entry.block + 1) * self.block_bytes <= range.start);
        let end = self.entries.partition_point(|entry| entry.block * self.block_bytes < range.end);
        let mut found = vec![];
        for of_block in self.entries[first..end].chunk_by(|a, b| a.block == b.block) {
            let writes = of_block.iter().map(|entry| self.pieces[entry.piece as usize].write);
            let times = |number: &u32| &self.writes[*number as usize - 1];
            let acknowledged = writes.filter(|number| times(number).acknowledged <= moment);
            let last = acknowledged.max_by_key(|number| (times(number).submitted, *number));
            found.extend(last.map(|number| (of_block[0].block, number)));
        }
        found
    }
}

#[cfg(test)]
mod tests;
