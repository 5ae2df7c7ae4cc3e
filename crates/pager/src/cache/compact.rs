//! Compaction: evictions that make free frames contiguous.
//!
//! Loads and evictions of extents of all sizes fragment the free frames, until no huge page and no
//! long transfer fits. Compaction then evicts the pages from the aligned block of 512 frames that
//! has the fewest frames in use. The evicted pages are loaded into smaller gaps when they are
//! touched again.

use super::{
    Action, Cache, Extent, ExtentState,
    frame_pool::{Frame, ORDER_MAX},
    index::ExtentId,
    node::Node,
};

/// Minimum order of an allocation for which compaction is worth evictions: 2^7 contiguous frames,
/// 512 KiB.
pub(super) const CONTIGUOUS_ORDER_MIN: u8 = 7;

/// A huge page of frames (512 frames) is compacted only if at least a quarter (1 / `FREE_DIVISOR`)
/// of its frames are free. Otherwise compaction would need too many evictions.
const FREE_DIVISOR: u32 = 4;

/// Compaction does not evict a mapped extent until the cache has loaded `RECENT_PAGES` pages since
/// the extent was mapped, or half of the budget (`RECENT_DIVISOR`) if that is less. New extents are
/// often in the huge page that is compacted. If compaction evicted new extents, a thread that needs
/// two of them at once, or that runs late, would fault for ever.
///
/// The value was measured with thirty replays (bench `replay`). With 512, they read as many pages
/// as without this protection of new extents, and with 2048 they read 0.5 % more.
const RECENT_PAGES: u32 = 512;
const RECENT_DIVISOR: u32 = 2;

/// The entry of a frame that is not the first frame of an extent.
const NO_OWNER: ExtentId = ExtentId::MAX;

/// For each frame, the extent whose first page is in this frame.
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
    /// Evicts extents from one aligned huge page of frames (512) of a node: the one with the most
    /// free frames among those that are in use. Evicts inactive extents, and mapped extents that
    /// are neither pinned nor recently mapped. Does nothing if too few frames are free
    /// ([`FREE_DIVISOR`]).
    pub(super) fn compact(&mut self, node: Node, actions: &mut Vec<Action>) {
        let Some((block, free)) = self.residency.emptiest(node) else { return };
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

    /// True if a mapped extent was mapped a short time ago, on the clock of loaded pages.
    fn is_recent(&self, extent: &Extent) -> bool {
        let pages = RECENT_PAGES.min(self.budget() / RECENT_DIVISOR);
        let ticks = pages / self.pages_per_tick();
        u32::from(self.time().wrapping_sub(extent.since)) <= ticks
    }
}
