//! Whether a program goes round and round through more than fits.
//!
//! Of a loop over twice the budget, giving up what was used longest ago keeps nothing: each page is
//! given up just before it comes again. What was kept from the round before is worth more than what
//! has just gone by. Such a loop shows in what is read: pages that streams foresee, and that were
//! given up not long ago.

use crate::predict::Page;

/// Pages that were given up are remembered until so many times the budget were given up since: of a
/// longer loop, little fits whatever is kept.
const REMEMBERED: u32 = 4;

/// It is a loop from this part of what is read on ...
const BEGINS: f64 = 0.5;

/// ... until it is less than this: a phase ends, and what is kept of it must not stay for ever.
const ENDS: f64 = 0.25;

/// Pages that are remembered together: 2^n.
const GROUP_ORDER: u8 = 2;

/// Watches what is read and given up.
#[derive(Clone, Debug)]
pub struct Cyclic {
    frames: u32,
    /// When a group was given up, by pages given up before; 0 for never.
    given_up: Vec<u32>,
    now: u32,
    /// The part of what was read lately that a loop would read.
    part: f64,
    is_loop: bool,
}

impl Cyclic {
    /// There are so many frames now.
    pub const fn resize(&mut self, frames: u32) {
        self.frames = frames;
    }

    /// With so many frames.
    pub const fn new(frames: u32) -> Self {
        Self { frames, given_up: vec![], now: 0, part: 0.0, is_loop: false }
    }

    /// Whether it goes round.
    pub const fn is_loop(&self) -> bool {
        self.is_loop
    }

    /// So many pages from `page` on are given up.
    pub fn give_up(&mut self, page: Page, pages: u32) {
        // It wraps after 16 TiB, when for a moment a group may be taken for one of now.
        self.now = self.now.wrapping_add(pages).max(1);
        let groups = (page >> GROUP_ORDER) as usize
            ..=((page + u64::from(pages) - 1) >> GROUP_ORDER) as usize;
        if self.given_up.len() <= *groups.end() {
            self.given_up.resize(groups.end() + 1, 0);
        }
        self.given_up[groups].fill(self.now);
    }

    /// So many pages from `page` on are read, because a stream foresaw them or not.
    pub fn read(&mut self, page: Page, pages: u32, is_foreseen: bool) {
        let when = self.given_up.get((page >> GROUP_ORDER) as usize).copied().unwrap_or(0);
        let age = self.now.wrapping_sub(when);
        let again = when > 0 && age <= self.frames.saturating_mul(REMEMBERED);
        // What was read longer ago than a quarter of the budget counts little.
        let weight = (f64::from(pages) * 4.0 / f64::from(self.frames)).min(1.0);
        let now = if again && is_foreseen { 1.0 } else { 0.0 };
        self.part += (now - self.part) * weight;
        self.is_loop = self.part > if self.is_loop { ENDS } else { BEGINS };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loop_begins_with_its_second_round_and_ends_with_another_one() {
        let mut cyclic = Cyclic::new(1000);
        let round = |cyclic: &mut Cyclic, first: Page, is_foreseen: bool| {
            for page in (first..first + 2000).step_by(4) {
                cyclic.read(page, 4, is_foreseen);
                cyclic.give_up(page, 4);
            }
            cyclic.is_loop()
        };
        assert!(!round(&mut cyclic, 0, true));
        assert!(round(&mut cyclic, 0, true));
        assert!(!round(&mut cyclic, 10_000, true), "other pages");
        assert!(!round(&mut cyclic, 10_000, false), "nobody foresaw them");
    }
}
