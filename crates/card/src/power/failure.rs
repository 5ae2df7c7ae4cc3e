//! Evaluates a power failure at one moment of an observed run.

use super::{
    save::{RestoreOutcome, SaveOutcome, SaveSimulator},
    spec::{PowerSpec, SaveOrder},
};
use crate::{
    durability::{Damage, Timeline},
    nand::ProgrammedImage,
};

/// The cause of a lost or torn block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Cause {
    /// The block contains data older than an acknowledged write: that write was not yet durable, or
    /// an older write has overwritten its data. The card does not report the loss.
    NotDurable,
    /// Only a part of the write is on the medium. The card does not report the loss.
    Torn,
    /// The capacitor was empty before the page was saved. The restore reports the page as missing.
    CapacitorEmpty,
    /// The NAND had no good block for the page. The restore reports the page as missing.
    NoGoodBlock,
    /// The saved page has more bit errors than ECC corrects. The restore reports the page.
    Uncorrectable,
}

impl Cause {
    /// Returns true if the card itself reports the loss.
    pub fn is_reported(self) -> bool {
        !matches!(self, Self::NotDurable | Self::Torn)
    }
}

/// A block that a power failure damaged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DamagedBlock {
    /// The first byte of the block, counted from the first byte of the card's memory.
    pub offset: u64,
    /// The length of the block, bytes.
    pub bytes: u64,
    /// The 1-based number of the write that is lost or torn.
    pub write: u32,
    /// The cause of the damage.
    pub cause: Cause,
    /// True if a completed FLUSH or FUA promised the durability of the write.
    pub after_flush: bool,
}

/// The consequences of a power failure at one moment.
#[derive(Clone, Debug, PartialEq)]
pub struct PowerFailure {
    /// The moment of the power failure, fs.
    pub at: u64,
    /// The number of writes acknowledged up to the failure.
    pub acknowledged_writes: u64,
    /// The number of writes submitted up to the failure and not yet acknowledged.
    pub outstanding_writes: u64,
    /// The number of acknowledged writes of which a block is lost.
    pub lost_writes: u64,
    /// The number of blocks that have lost the data of an acknowledged write.
    pub lost_blocks: u64,
    /// The number of writes of which a piece is torn.
    pub torn_writes: u64,
    /// The number of blocks that are torn.
    pub torn_blocks: u64,
    /// The number of lost and torn blocks that the card did not report.
    pub unreported_blocks: u64,
    /// The damaged blocks in address order, at most the first [`PowerFailures::LISTED_MAX`].
    pub blocks: Vec<DamagedBlock>,
    /// The result of the save; `None` for a card that does not save.
    pub save: Option<SaveOutcome>,
    /// The result of the restore; `None` for a card that does not save.
    pub restore: Option<RestoreOutcome>,
}

impl PowerFailure {
    /// Returns true if no acknowledged write is lost and no write is torn.
    pub fn is_harmless(&self) -> bool {
        self.lost_blocks == 0 && self.torn_blocks == 0
    }
}

/// Evaluates power failures during one run of one card.
#[derive(Clone, Debug)]
pub struct PowerFailures<'a> {
    timeline: &'a Timeline,
    save: Option<SaveSimulator>,
    /// The pages of the memory that the run writes: the index of each page, and the first moment
    /// (fs) from which a power failure leaves data of the run in the page. Empty for a card that
    /// needs no save.
    first_writes: Vec<(u64, u64)>,
}

impl<'a> PowerFailures<'a> {
    /// Maximum number of blocks that [`PowerFailure::blocks`] lists.
    pub const LISTED_MAX: usize = 1000;

    /// Creates the evaluator of power failures during the run `timeline` of a card with `capacity`
    /// bytes of memory; `seed` decides which NAND blocks are bad.
    pub fn new(timeline: &'a Timeline, power: &PowerSpec, capacity: u64, seed: u64) -> Self {
        let save = match power {
            PowerSpec::Save(spec) => Some(SaveSimulator::new(spec, capacity, seed)),
            PowerSpec::Precharge { .. } => None,
        };
        Self::with_save(timeline, save)
    }

    /// Creates the evaluator as [`Self::new`] does, but with a given simulator of the save, whose
    /// NAND array may have any state. `save` is `None` for a card that needs no save.
    pub fn with_save(timeline: &'a Timeline, save: Option<SaveSimulator>) -> Self {
        let page = |save: &SaveSimulator| u64::from(save.spec().nand.page_bytes);
        let first_writes = save.as_ref().map(|save| timeline.first_writes(page(save)));
        Self { timeline, save, first_writes: first_writes.unwrap_or_default() }
    }

    /// Returns the timeline of the observed run.
    pub fn timeline(&self) -> &Timeline {
        self.timeline
    }

    /// Evaluates a power failure at `at` fs. `seed` decides which programs fail and which bits are
    /// wrong. If `at` is after the end of the timeline, the writes that are outstanding at the end
    /// of the timeline are left out.
    pub fn at(&self, at: u64, seed: u64) -> PowerFailure {
        let bytes = self.timeline.block_bytes();
        let mut damaged: Vec<DamagedBlock> = self
            .timeline
            .damage_at(at)
            .into_iter()
            .map(|it| DamagedBlock {
                offset: it.block * bytes,
                bytes,
                write: it.write,
                cause: if it.damage == Damage::Torn { Cause::Torn } else { Cause::NotDurable },
                after_flush: it.damage == Damage::LostAfterFlush,
            })
            .collect();
        let (mut saved, mut restored) = (None, None);
        if let Some(save) = &self.save {
            let (image, outcome) = save.save(seed);
            let (absent, found) = save.restore(&image, seed);
            if !absent.is_empty() {
                let lost = self.lost_with_pages(at, &image, &absent);
                let is_lost = |block: &DamagedBlock| {
                    lost.binary_search_by_key(&block.offset, |lost| lost.offset).is_ok()
                };
                damaged.retain(|block| !is_lost(block));
                damaged.extend(lost);
            }
            (saved, restored) = (Some(outcome), Some(found));
        }
        damaged.sort_unstable_by_key(|block| block.offset);
        let counts = self.timeline.counts(at);
        let of = |torn: bool| {
            let blocks = damaged.iter().filter(move |block| (block.cause == Cause::Torn) == torn);
            let mut writes: Vec<u32> = blocks.map(|block| block.write).collect();
            let count = writes.len() as u64;
            writes.sort_unstable();
            writes.dedup();
            (writes.len() as u64, count)
        };
        let ((lost_writes, lost_blocks), (torn_writes, torn_blocks)) = (of(false), of(true));
        let unreported = damaged.iter().filter(|block| !block.cause.is_reported()).count();
        damaged.truncate(Self::LISTED_MAX);
        PowerFailure {
            at,
            acknowledged_writes: counts.acknowledged,
            outstanding_writes: counts.outstanding,
            lost_writes,
            lost_blocks,
            torn_writes,
            torn_blocks,
            unreported_blocks: unreported as u64,
            blocks: damaged,
            save: saved,
            restore: restored,
        }
    }

    /// Returns the blocks that a power failure at `at` (fs) loses because their pages in `image`
    /// are missing or uncorrectable. `absent` lists the positions of these pages in the image.
    fn lost_with_pages(
        &self,
        at: u64,
        image: &ProgrammedImage,
        absent: &[u64],
    ) -> Vec<DamagedBlock> {
        let Some(save) = &self.save else { return vec![] };
        let spec = save.spec();
        let page_bytes = u64::from(spec.nand.page_bytes);
        let dirty: Vec<u64> = self
            .first_writes
            .iter()
            .filter(|(_, from)| *from <= at)
            .map(|(page, _)| *page)
            .collect();
        // Only pages that the run has written can contain a lost write, so other pages are skipped.
        let page_of = |position: u64| match spec.order {
            SaveOrder::Address => dirty.binary_search(&position).is_ok().then_some(position),
            SaveOrder::DirtyFirst => dirty.get(position as usize).copied(),
        };
        let block_bytes = self.timeline.block_bytes();
        // Neighbouring pages that are lost for the same cause form one range of the memory.
        let mut ranges: Vec<(Cause, core::ops::Range<u64>)> = vec![];
        for position in absent {
            let Some(page) = page_of(*position) else { continue };
            let cause = if image.has(*position) {
                Cause::Uncorrectable
            } else if image.is_without_block(*position) {
                Cause::NoGoodBlock
            } else {
                Cause::CapacitorEmpty
            };
            match ranges.last_mut() {
                Some((last, range)) if *last == cause && range.end == page => range.end += 1,
                _ => ranges.push((cause, page..page + 1)),
            }
        }
        let mut lost = vec![];
        for (cause, pages) in ranges {
            let range = pages.start * page_bytes..pages.end * page_bytes;
            let blocks = self.timeline.acknowledged_in(range, at);
            lost.extend(blocks.into_iter().map(|(block, write)| DamagedBlock {
                offset: block * block_bytes,
                bytes: block_bytes,
                write,
                cause,
                after_flush: self.timeline.is_flushed(write, at),
            }));
        }
        // A block that is larger than a page can overlap several ranges and is then found several
        // times. Remove the repetitions.
        lost.sort_unstable_by_key(|block| block.offset);
        lost.dedup_by_key(|block| block.offset);
        lost
    }
}
