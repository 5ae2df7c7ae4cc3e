//! Frames that lie together again.
//!
//! Extents of all sizes come and go, and what stays lies between what is free, until no huge page
//! and no long transfer fits any more. Then everything leaves the block of frames in which least
//! is: what is given up for that comes back into smaller gaps if it is touched.

use super::{Action, Cache, State};
use crate::cache::{
    frame_pool::{Frame, ORDER_MAX},
    index::ExtentId,
};

/// From this order on it matters that frames lie together: 2^7 of them are 512 KiB.
pub(super) const TOGETHER: u8 = 7;

/// One part in so many of a block has to be free: of others too much would have to leave.
const FREE_PART: u32 = 4;

/// No extent begins with a frame.
const NOBODY: ExtentId = ExtentId::MAX;

/// Which extent begins with a frame.
#[derive(Clone, Debug)]
pub(super) struct Owners(Vec<ExtentId>);

impl Owners {
    pub(super) fn new(frames: u32) -> Self {
        Self(vec![NOBODY; frames as usize])
    }

    pub(super) fn set(&mut self, frame: Frame, id: ExtentId) {
        self.0[frame as usize] = id;
    }

    pub(super) fn clear(&mut self, frame: Frame) {
        self.0[frame as usize] = NOBODY;
    }

    /// The extents that begin with one of so many frames.
    pub(super) fn within(&self, frame: Frame, count: u32) -> impl Iterator<Item = ExtentId> {
        let frames = self.0.iter().skip(frame as usize).take(count as usize);
        frames.copied().filter(|id| *id != NOBODY)
    }

    fn get(&self, frame: Frame) -> Option<ExtentId> {
        self.0.get(frame as usize).copied().filter(|id| *id != NOBODY)
    }
}

impl Cache {
    /// Frees the block of frames in which least is.
    pub(super) fn gather(&mut self, actions: &mut Vec<Action>) {
        let Some((block, free)) = self.pool.emptiest() else { return };
        let frames = 1 << ORDER_MAX;
        if free * FREE_PART < frames {
            return;
        }
        let (mut frame, end) = (block, block + frames);
        while frame < end {
            let Some(id) = self.owners.get(frame) else {
                frame += 1;
                continue;
            };
            let extent = &mut self.extents[id as usize];
            frame += extent.frames();
            match extent.state {
                State::Ready if extent.stream == 0 => self.drop_at_rest(id),
                State::Mapped if !extent.is_pinned => {
                    extent.is_leaving = true;
                    self.unmap(id, actions);
                }
                // Something is under way with it, or it is waited for.
                _ => {}
            }
        }
    }
}
