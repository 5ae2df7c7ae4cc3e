//! A budget that changes while it is used: some frames are others' for now.

use super::{Cache, Settings};
use crate::{
    cache::frame_pool::{Frame, ORDER_MAX},
    prefetch::Limits,
};

/// While frames are wanted by others, room is made for so many at a time: the drive has to take
/// what was in them.
const DUE_MAX: u32 = 4096;

/// Frames that are others' for now.
#[derive(Clone, Debug, Default)]
pub(super) struct Lent {
    /// Pieces of the pool.
    pieces: Vec<(Frame, u8)>,
    frames: u32,
    /// So many are to be others'.
    due: u32,
    /// So many of the pieces have been told of.
    told: usize,
}

impl Settings {
    /// Those of every pager with so many frames: 16 KiB at first, and streams up to 32 MiB prefetch.
    pub const fn for_budget(frames: u32) -> Self {
        Self { frames, order: 2, prefetch: Limits { initial: 16, max: 8192 } }
    }
}

impl Cache {
    /// Lets so many frames be used from now on, as far as there are. Fewer are in use once what is
    /// in the others has been given up ([`Cache::used_frames`]).
    pub fn resize(&mut self, frames: u32) {
        self.lent.due = self.settings.frames.saturating_sub(frames);
        self.cyclic.resize(self.budget());
        if self.extents.is_empty() {
            self.lend();
        }
    }

    /// So many frames are used, or may be at any moment.
    pub const fn used_frames(&self) -> u32 {
        self.settings.frames - self.lent.frames
    }

    /// Frames that hold pages.
    pub fn resident_frames(&self) -> u32 {
        self.used_frames().saturating_sub(self.pool.free())
    }

    /// So many frames may be used.
    pub(super) const fn budget(&self) -> u32 {
        self.settings.frames - self.lent.due
    }

    /// For so many frames more room is to be made than for what is brought in.
    pub(super) fn due(&self) -> u32 {
        self.lent.due.saturating_sub(self.lent.frames).min(DUE_MAX)
    }

    /// The frames that nobody uses any more since this was asked for, as first frames and orders.
    pub fn newly_released(&mut self) -> &[(Frame, u8)] {
        let told = std::mem::replace(&mut self.lent.told, self.lent.pieces.len());
        &self.lent.pieces[told..]
    }

    /// Lends free frames, or takes them back.
    pub(super) fn lend(&mut self) {
        // Who waits for a page comes first.
        while self.lent.frames < self.lent.due && self.waiting.is_empty() {
            let left = self.lent.due - self.lent.frames;
            let most = left.ilog2().min(ORDER_MAX.into()) as u8;
            let piece = (0..=most).rev().find_map(|order| Some((self.pool.take(order)?, order)));
            if let Some((frame, order)) = piece {
                self.lent.pieces.push((frame, order));
                self.lent.frames += 1 << order;
            } else if self.drop_rested().is_none() {
                return;
            }
        }
        while self.lent.frames > self.lent.due {
            let Some((frame, order)) = self.lent.pieces.pop() else { return };
            self.lent.told = self.lent.told.min(self.lent.pieces.len());
            if 1 << order <= self.lent.frames - self.lent.due {
                self.lent.frames -= 1 << order;
                self.pool.give(frame, order);
                continue;
            }
            // Half of it is told of again, which does no harm.
            let order = order - 1;
            self.lent.pieces.extend([(frame + (1 << order), order), (frame, order)]);
        }
    }
}
