//! Compaction: evictions that make free frames contiguous.
//!
//! Loads and evictions of extents of all sizes fragment the free frames, until no huge page and no
//! long transfer fits. Compaction then evicts the pages from the aligned block of 512 frames that
//! has the fewest frames in use. The evicted pages are loaded into smaller gaps when they are
//! touched again.
//!
//! In a long loop (`loop_detector.rs`), too few frames are free for such a compaction. An
//! allocation then makes the free frames of a smaller block contiguous (`Cache::gather`), without
//! evictions.

use super::{
    Action, Cache, Extent, ExtentState,
    frame_pool::{Frame, ORDER_MAX},
    index::ExtentId,
    node::Node,
};
use std::{cmp::Reverse, ops::Range};

/// Minimum order of an allocation for which compaction is worth evictions: 2^7 contiguous frames,
/// 512 KiB.
pub(super) const CONTIGUOUS_ORDER_MIN: u8 = 7;

/// A huge page of frames is compacted only if at least one in this number of its 512 frames is
/// free. With fewer free frames, compaction would need too many evictions.
const FREE_DIVISOR: u32 = 4;

/// Compaction does not evict a recently mapped extent: since the extent was mapped, the cache must
/// have loaded `RECENT_PAGES` pages, or half of the budget (`RECENT_DIVISOR`) if that is less. New
/// extents are often in the huge page that is compacted. If compaction evicted them, a thread that
/// needs two of them at once, or that runs late, would fault for ever.
///
/// The value was measured with thirty replays (bench `replay`). With 512, the replays read as many
/// pages as without this protection of new extents; with 2048, they read 0.5 % more.
const RECENT_PAGES: u32 = 512;
const RECENT_DIVISOR: u32 = 2;

/// Minimum order of the blocks of free frames that `Cache::gather` makes contiguous: 2^5 frames,
/// 128 KiB.
const GATHER_ORDER_MIN: u8 = 5;

/// Pause after a failed attempt to make free frames contiguous (`Cache::gather`), in pages that the
/// cache loads. The pause is at most half of the budget (`RECENT_DIVISOR`). It bounds the time
/// spent on searches.
const GATHER_PAGES: u32 = 256;

/// Number of huge pages of frames that `Cache::gather` searches for a block of frames.
const GATHER_EXAMINED: usize = 16;

/// The entry in `FrameOwners` of a frame that is not the first frame of an extent.
const NO_OWNER: ExtentId = ExtentId::MAX;

/// For each frame, the extent that begins with this frame.
#[derive(Clone, Debug)]
pub(super) struct FrameOwners(Vec<ExtentId>);

impl FrameOwners {
    pub(super) fn new(frames: u32) -> Self {
        Self(vec![NO_OWNER; frames as usize])
    }

    pub(super) fn set(&mut self, frame: Frame, id: ExtentId) {
        self.0[frame as usize] = id;
    }

    pub(super) fn clear(&mut self, frame: Frame) {
        self.0[frame as usize] = NO_OWNER;
    }

    /// The extents whose first frame is one of the `count` frames from `frame` on.
    pub(super) fn within(&self, frame: Frame, count: u32) -> impl Iterator<Item = ExtentId> {
        let frames = self.0.iter().skip(frame as usize).take(count as usize);
        frames.copied().filter(|id| *id != NO_OWNER)
    }

    pub(super) fn get(&self, frame: Frame) -> Option<ExtentId> {
        self.0.get(frame as usize).copied().filter(|id| *id != NO_OWNER)
    }
}

impl Cache {
    /// Evicts extents from one aligned huge page of frames (512) of a node: of the huge pages with
    /// both free and used frames, the one with the most free frames. Evicts inactive extents, and
    /// mapped extents that are neither pinned nor recently mapped. Does nothing if too few frames
    /// of the huge page are free ([`FREE_DIVISOR`]).
    pub(super) fn compact(&mut self, node: Node, actions: &mut Vec<Action>) {
        let emptiest = self.residency.emptiest(node, 1);
        let Some((block, free)) = emptiest.first().copied() else { return };
        let frames = 1 << ORDER_MAX;
        if free * FREE_DIVISOR < frames {
            return;
        }
        let (mut frame, end) = (block, block + frames);
        while frame < end {
            let Some(id) = self.residency.owner(frame) else {
                frame += 1;
                continue;
            };
            let extent = *self.residency.extent(id);
            frame += extent.frames();
            match extent.state {
                ExtentState::Ready if extent.stream == 0 => self.drop_inactive(id),
                ExtentState::Mapped if !extent.is_pinned && !self.is_recent(&extent) => {
                    self.residency.extent_mut(id).is_evicting = true;
                    self.unmap(id, actions);
                }
                // Extents in transition, prefetched, pinned and recent extents stay.
                _ => {}
            }
        }
    }

    /// In a long loop, makes 2^`order` free frames of a node contiguous, by emptying an aligned
    /// block of frames. Returns false if each examined block has an extent that is not mapped, or
    /// that does not fit into the free frames elsewhere.
    ///
    /// The mapped extents of the block get free frames outside the block. Their pages do not move:
    /// when an extent is mapped, its memory moves from its frames to the region, and its frames are
    /// empty address ranges. Only the memory of the free frames outside moves into the block
    /// (`Action::MoveMemory`). Examines the blocks of [`GATHER_EXAMINED`] huge pages, those with
    /// the most free frames first.
    pub(super) fn gather(&mut self, node: Node, order: u8, actions: &mut Vec<Action>) -> bool {
        let is_long = self.reclaim.loop_detector.is_long_loop();
        if !is_long || order < GATHER_ORDER_MIN || self.residency.free_frames(node) < 1 << order {
            return false;
        }
        let now = self.residency.loaded_pages();
        let pause = u64::from(GATHER_PAGES.min(self.budget() / RECENT_DIVISOR));
        if now.wrapping_sub(*self.reclaim.gathered_at_mut(node)) < pause {
            return false;
        }
        let emptiest = self.residency.emptiest(node, GATHER_EXAMINED);
        let firsts = emptiest
            .iter()
            .flat_map(|(first, _)| (*first..first + (1 << ORDER_MAX)).step_by(1 << order));
        let blocks = firsts.map(|first| first..first + (1 << order));
        let mut blocks: Vec<(u32, Range<Frame>, Vec<ExtentId>)> =
            blocks.filter_map(|block| self.mapped_in_block(block)).collect();
        blocks.sort_unstable_by_key(|(free, ..)| Reverse(*free));
        let is_gathered =
            blocks.iter().any(|(_, block, ids)| self.empty_block(block, ids, order, actions));
        if !is_gathered {
            *self.reclaim.gathered_at_mut(node) = now;
        }
        is_gathered
    }

    /// Returns the number of free frames in a block of frames, the block, and its extents. `None`
    /// if no frame of the block is free, if an extent in the block is not mapped, or if an extent
    /// is larger than the block.
    fn mapped_in_block(&self, block: Range<Frame>) -> Option<(u32, Range<Frame>, Vec<ExtentId>)> {
        let (mut frame, mut mapped, mut free) = (block.start, vec![], 0);
        while frame < block.end {
            if let Some(frames) = self.residency.free_block(frame) {
                free += frames;
                frame += frames;
                continue;
            }
            let id = self.residency.owner(frame)?;
            let extent = self.residency.extent(id);
            if extent.state != ExtentState::Mapped {
                return None;
            }
            mapped.push(id);
            frame += extent.frames();
        }
        (free > 0 && frame == block.end).then_some((free, block, mapped))
    }

    /// Assigns free frames outside a block of 2^`block_order` frames to the block's mapped extents
    /// `ids`. Each extent gets frames of a free block that has fewer than 2^`block_order` frames.
    /// If an extent fits into no such block, changes nothing and returns false.
    fn empty_block(
        &mut self,
        block: &Range<Frame>,
        ids: &[ExtentId],
        block_order: u8,
        actions: &mut Vec<Action>,
    ) -> bool {
        let mut found = vec![];
        for id in ids {
            let order = self.residency.extent(*id).span().order;
            let frame = self.residency.allocate_outside(block, order, block_order);
            let Some(frame) = frame else {
                found.iter().for_each(|(frame, order)| self.residency.deallocate(*frame, *order));
                return false;
            };
            found.push((frame, order));
        }
        for (id, (from, order)) in ids.iter().zip(found) {
            let to = self.residency.extent(*id).span().frame;
            actions.push(Action::MoveMemory { from, to, order });
            self.residency.change_frames(*id, from);
        }
        true
    }

    /// True if `extent`, which is mapped, was mapped recently: at most `RECENT_PAGES` pages, or
    /// half of the budget if that is less, were loaded since then.
    fn is_recent(&self, extent: &Extent) -> bool {
        self.pages_loaded_since(extent.since) <= RECENT_PAGES.min(self.budget() / RECENT_DIVISOR)
    }
}
