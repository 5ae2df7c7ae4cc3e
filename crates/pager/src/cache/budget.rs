//! A budget that changes at run time: frames released to other processes, and taken back.

use super::{
    Cache, Settings,
    frame_pool::{Frame, ORDER_MAX},
};
use crate::prefetch::Limits;

/// Frames to reclaim at once for other processes: the drive has to take their dirty pages.
const BACKLOG_MAX: u32 = 4096;

/// Frames that other processes use for now.
#[derive(Clone, Debug, Default)]
pub(super) struct Released {
    /// Blocks taken from the pool.
    blocks: Vec<(Frame, u8)>,
    /// Frames of all blocks.
    frames: u32,
    /// Frames that have to be released.
    target: u32,
    /// Blocks that were reported to the caller.
    reported: usize,
}

impl Settings {
    /// The settings of every pager with this many frames: fault-around of 16 KiB at first, and
    /// prefetch up to 32 MiB ahead of a stream.
    pub const fn for_budget(frames: u32) -> Self {
        Self { frames, order: 2, prefetch: Limits { initial: 16, max: 8192 } }
    }
}

impl Cache {
    /// Sets the budget, at most that of the settings. A smaller one is reached by evictions
    /// ([`Cache::used_frames`]).
    pub fn resize(&mut self, frames: u32) {
        self.released.target = self.settings.frames.saturating_sub(frames);
        self.reclaim.loop_detector.resize(self.budget());
        if self.residency.is_unused() {
            self.release_frames();
        }
    }

    /// Frames that are in use, or may be at any moment: all but the released ones.
    pub const fn used_frames(&self) -> u32 {
        self.settings.frames - self.released.frames
    }

    /// Frames that hold pages.
    pub fn resident_frames(&self) -> u32 {
        self.used_frames().saturating_sub(self.residency.pool.free_frames())
    }

    /// The current budget, frames.
    pub const fn budget(&self) -> u32 {
        self.settings.frames - self.released.target
    }

    /// Frames to reclaim beside the reserve, because they have to be released.
    pub(super) fn release_backlog(&self) -> u32 {
        self.released.target.saturating_sub(self.released.frames).min(BACKLOG_MAX)
    }

    /// The blocks released since the last call, as first frames and orders.
    pub fn newly_released(&mut self) -> &[(Frame, u8)] {
        let reported = std::mem::replace(&mut self.released.reported, self.released.blocks.len());
        &self.released.blocks[reported..]
    }

    /// Releases free frames up to the target, or takes frames back.
    pub(super) fn release_frames(&mut self) {
        // Faults that wait for a frame come first.
        while self.released.frames < self.released.target && self.waiting.is_empty() {
            let left = self.released.target - self.released.frames;
            let max = left.ilog2().min(ORDER_MAX.into()) as u8;
            let pool = &mut self.residency.pool;
            let block = (0..=max).rev().find_map(|order| Some((pool.allocate(order)?, order)));
            if let Some((frame, order)) = block {
                self.released.blocks.push((frame, order));
                self.released.frames += 1 << order;
            } else if self.drop_oldest_inactive().is_none() {
                return;
            }
        }
        while self.released.frames > self.released.target {
            let Some((frame, order)) = self.released.blocks.pop() else { return };
            self.released.reported = self.released.reported.min(self.released.blocks.len());
            if 1 << order <= self.released.frames - self.released.target {
                self.released.frames -= 1 << order;
                self.residency.pool.deallocate(frame, order);
                continue;
            }
            // Half of the block is reported twice, which does no harm.
            let order = order - 1;
            self.released.blocks.extend([(frame + (1 << order), order), (frame, order)]);
        }
    }
}
