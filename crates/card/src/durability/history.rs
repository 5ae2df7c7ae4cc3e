//! Computes the content of one block as a function of the moment of a power failure.

use super::{SegmentTimes, Survival, WriteTimes};

/// The damage to a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Damage {
    /// The block contains data older than an acknowledged write.
    Lost,
    /// The block has data older than a write whose durability a completed FLUSH or FUA promised.
    LostAfterFlush,
    /// The block contains a part of a write, or undefined data.
    Torn,
}

/// A block that a power failure within a span of time would damage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DamageInterval {
    /// The first moment at which a power failure causes the damage, fs.
    pub from: u64,
    /// The first moment at which a power failure no longer causes the damage, fs; `u64::MAX` if no
    /// such moment is in the run.
    pub until: u64,
    /// The 0-based index of the block.
    pub block: u64,
    /// The damage: lost, lost after a flush, or torn.
    pub damage: Damage,
    /// The 1-based number of the write that is lost or torn.
    pub write: u32,
}

/// A part of a write that a power failure must leave whole or absent.
#[derive(Clone, Copy, Debug)]
pub(super) struct Piece {
    pub(super) write: u32,
    pub(super) offset: u64,
    pub(super) bytes: u64,
    /// The first moment at which a power failure leaves data of the piece on the card, fs: the time
    /// at which the first data are in the memory, or `whole` if that is earlier.
    pub(super) begun: u64,
    /// The first moment at which a power failure leaves the whole piece on the card, fs.
    pub(super) whole: u64,
    /// The time at which the last segment of the piece reaches the memory, fs. A piece with a later
    /// time overwrites a piece with an earlier time.
    pub(super) order: u64,
}

/// A pair of a block and a piece that covers the block: the index of the block on the medium, and
/// the index of the piece in the list of pieces.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    pub(super) block: u64,
    pub(super) piece: u32,
}

impl Piece {
    /// Returns the part of the write with the number `write` that lies in the byte range `range`.
    /// The times of the piece are computed from `segments` and `survival`.
    pub(super) fn of(
        write: u32,
        range: core::ops::Range<u64>,
        segments: &[SegmentTimes],
        survival: Survival,
    ) -> Self {
        let (mut begun, mut whole, mut order, mut covered) = (u64::MAX, 0, 0, 0);
        for segment in segments {
            let end = segment.offset + u64::from(segment.bytes);
            let (from, to) = (segment.offset.max(range.start), end.min(range.end));
            if from >= to {
                continue;
            }
            covered += to - from;
            let survives = match survival {
                Survival::Buffered => segment.received,
                Survival::Precharged { hold_up } => {
                    segment.received.max(segment.durable.saturating_sub(hold_up))
                }
            };
            begun = begun.min(segment.in_array);
            whole = whole.max(survives);
            order = order.max(segment.in_array);
        }
        if covered < range.end - range.start {
            whole = u64::MAX;
        }
        // In the hold-up time the controller begins no further piece (atomic part of a write). A
        // piece that has not begun when the power fails is lost, so `whole` is at least `begun`.
        if let Survival::Precharged { .. } = survival {
            whole = whole.max(begun);
        }
        let bytes = range.end - range.start;
        Self { write, offset: range.start, bytes, begun: begun.min(whole), whole, order }
    }
}

/// The kinds of events that change the content of a block, or a promise about the content.
///
/// - `Begun`: from now on, a power failure leaves data of the piece on the card.
/// - `Acknowledged`: the write of the piece is acknowledged.
/// - `Promised`: a completed FLUSH or FUA promises the durability of the write of the piece.
/// - `Whole`: from now on, a power failure leaves the whole piece on the card.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Change {
    Begun,
    Acknowledged,
    Promised,
    Whole,
}

/// Finds the spans of time in which a power failure would damage a block, and adds them to
/// `intervals`.
///
/// `entries` are the pieces (atomic parts of writes) that cover the block, in the order in which
/// they reach the memory. `promised` has, for each write of the run, the moment from which a
/// completed FLUSH or FUA promises the durability of the write.
///
/// At each moment, the content of the block is the last of its pieces that has begun
/// (`Piece::begun`). The block has lost data if an acknowledged write W is newer than this content:
/// if the write of the content was already acknowledged when W was submitted. Of two writes that
/// were outstanding at the same time, neither is newer.
pub(super) fn damage_of_block(
    entries: &[Entry],
    pieces: &[Piece],
    writes: &[WriteTimes],
    promised: &[u64],
    intervals: &mut Vec<DamageInterval>,
) {
    let mut changes = Vec::with_capacity(4 * entries.len());
    for (position, entry) in entries.iter().enumerate() {
        let piece = &pieces[entry.piece as usize];
        let write = piece.write as usize - 1;
        changes.push((piece.begun, Change::Begun, position));
        changes.push((piece.whole, Change::Whole, position));
        changes.push((writes[write].acknowledged, Change::Acknowledged, position));
        changes.push((promised[write], Change::Promised, position));
    }
    changes.retain(|(at, ..)| *at < u64::MAX);
    changes.sort_unstable();
    let piece_at = |position: usize| &pieces[entries[position].piece as usize];
    let number = |position: usize| piece_at(position).write;
    // `last` is the acknowledged write that was submitted last, as a pair of (submission time,
    // number). `last_promised` is the write that was submitted last among the writes whose
    // durability a completed FLUSH or FUA promises, as the same pair.
    let (mut last, mut last_promised) = (None::<(u64, u32)>, None::<(u64, u32)>);
    let mut content = None::<usize>;
    let mut open = None::<DamageInterval>;
    for (index, (at, change, position)) in changes.iter().copied().enumerate() {
        let write = number(position);
        let submitted = writes[write as usize - 1].submitted;
        match change {
            Change::Begun => content = content.max(Some(position)),
            Change::Acknowledged => last = last.max(Some((submitted, write))),
            Change::Promised => last_promised = last_promised.max(Some((submitted, write))),
            Change::Whole => {}
        }
        if changes.get(index + 1).is_some_and(|next| next.0 == at) {
            continue;
        }
        let damage = damage_of(content.map(piece_at), writes, at, last, last_promised);
        if open.map(|interval| (interval.damage, interval.write)) == damage {
            continue;
        }
        if let Some(mut interval) = open.take() {
            interval.until = at;
            intervals.push(interval);
        }
        let block = entries[0].block;
        open = damage.map(|(damage, write)| DamageInterval {
            from: at,
            until: u64::MAX,
            block,
            damage,
            write,
        });
    }
    intervals.extend(open);
}

/// Returns the damage of a power failure at the time `at` to a block, and the number of the lost or
/// torn write; `None` if there is no damage. `content` is the piece (part of a write) whose data
/// are in the block; `None` stands for data from before the run. `last` and `last_promised` are the
/// newest acknowledged and the newest flushed write of the block: (submission time, number).
fn damage_of(
    content: Option<&Piece>,
    writes: &[WriteTimes],
    at: u64,
    last: Option<(u64, u32)>,
    last_promised: Option<(u64, u32)>,
) -> Option<(Damage, u32)> {
    if let Some(piece) = content.filter(|piece| at < piece.whole) {
        return Some((Damage::Torn, piece.write));
    }
    // Content from before the observed run (`None`) is older than every write of the run.
    let known = content.map(|piece| writes[piece.write as usize - 1].acknowledged);
    let is_older = |than: &(u64, u32)| known.is_none_or(|acknowledged| acknowledged <= than.0);
    if let Some((_, write)) = last_promised.filter(is_older) {
        return Some((Damage::LostAfterFlush, write));
    }
    last.filter(is_older).map(|(_, write)| (Damage::Lost, write))
}
