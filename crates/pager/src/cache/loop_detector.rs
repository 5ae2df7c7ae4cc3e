//! Whether a program goes round and round through more than fits.
//!
//! Of a loop over twice the budget, giving up what was used longest ago keeps nothing: each page is
//! given up just before it comes again. What was kept from the round before is worth more than what
//! has just gone by. Such a loop shows in what is read: pages that streams foresee, and that were
//! given up not long ago.
//!
//! Another one looks just like it: a loop over less than the budget, while the rest is full of what
//! an earlier phase has left. What is kept is of the loop only if it comes again with it. So some
//! of that is *watched* when it is given up; where nobody touches it while the loop goes round, all
//! that is kept makes way.
//!
//! And what comes again soon is no such loop, even within a large one: of a matrix that is
//! multiplied block by block, the rows of a block come again long before all others. Giving up what
//! was used longest ago keeps those. It shows in touches of what has just been given up, and in
//! waits for it.

use crate::page::Page;
use std::{collections::VecDeque, ops::Range};

/// Pages that were given up are remembered until so many times the budget were given up since: of a
/// longer loop, little fits whatever is kept.
const REMEMBERED: u32 = 4;

/// It is a loop from this part of what is read on ...
const BEGINS: f64 = 0.5;

/// ... until it is less than this: a phase ends, and what is kept of it must not stay for ever.
const ENDS: f64 = 0.25;

/// What was given up so many pages ago, as a part of the budget, was given up too early.
const EARLY_PART: u32 = 4;

/// Of what is read or touched again, this part may have been given up too early when a loop
/// begins ...
const EARLY_BEGINS: f64 = 0.15;

/// ... and this while it goes on, in which it shows less.
const EARLY_ENDS: f64 = 0.25;

/// What comes round sooner counts so much less for how long a round takes: it is a part of it.
const SOONER: f64 = 4.0;

/// So many pieces that were kept are watched at once.
const WATCHED: usize = 16;

/// So many more of them that were in vain than not show that what is kept is.
const IN_VAIN: u32 = 4;

/// One part in so many of what it costs to read what goes by may be spent on what was kept.
const SPENT_PART: u32 = 64;

/// Pages that are remembered together: 2^n.
const GROUP_ORDER: u8 = 2;

/// Watches what is read and given up.
#[derive(Clone, Debug)]
pub struct LoopDetector {
    frames: u32,
    /// When a group was given up, by pages given up before; 0 for never.
    given_up: Vec<u32>,
    now: u32,
    /// The part of what was read lately that a loop would read.
    part: f64,
    is_loop: bool,
    /// The part of what was read or touched again lately that had been given up too early, and
    /// that no stream foresaw.
    early: f64,
    /// How many pages are given up until those that come last are read again.
    round: f64,
    /// What it will have cost to read what has gone by since something that was kept was given up.
    spent: u32,
    /// What was kept and given up, and when.
    watched: VecDeque<(Range<Page>, u32)>,
    /// How many of those nobody touched, more than others.
    in_vain: u32,
    /// So many pages are to be given up until all that was kept has made way.
    leaving: u32,
}

impl LoopDetector {
    /// There are so many frames now.
    pub const fn resize(&mut self, frames: u32) {
        self.frames = frames;
    }

    /// With so many frames.
    pub const fn new(frames: u32) -> Self {
        Self {
            frames,
            given_up: vec![],
            now: 0,
            part: 0.0,
            is_loop: false,
            early: 0.0,
            round: 0.0,
            spent: 0,
            watched: VecDeque::new(),
            in_vain: 0,
            leaving: 0,
        }
    }

    /// Whether it goes round, and what is kept of it is worth that.
    pub const fn is_loop(&self) -> bool {
        self.is_loop && self.leaving == 0
    }

    /// Which part of what is read somebody waits for because it was given up too early, 0 to 1.
    pub const fn early(&self) -> f64 {
        self.early
    }

    /// Whether what was kept is to make way.
    pub const fn makes_way(&self) -> bool {
        self.leaving > 0
    }

    /// Whether it is time to give up so many frames that were kept, to see if they are missed.
    pub const fn tries(&self, frames: u32) -> bool {
        self.is_loop() && self.spent / SPENT_PART >= cost(frames)
    }

    /// Pages that had gone by are about to be given up.
    pub const fn goes_by(&mut self, pages: u32) {
        self.spent = self.spent.saturating_add(cost(pages));
    }

    /// Pages that were kept are about to be given up.
    pub fn watch(&mut self, pages: Range<Page>) {
        self.spent = 0;
        if self.is_loop() && self.watched.len() < WATCHED {
            self.watched.push_back((pages, self.now));
        }
    }

    /// Pages are mapped, because one of them was touched or one beside them.
    pub fn touch(&mut self, touched: &Range<Page>) {
        let watched = self.watched.len();
        self.watched.retain(|(it, _)| it.end <= touched.start || touched.end <= it.start);
        self.in_vain = self.in_vain.saturating_sub((watched - self.watched.len()) as u32);
    }

    /// Judges what was watched for longer than the loop takes.
    fn judge(&mut self) {
        let longest = self.round as u32 * 2 + self.frames / 8;
        while let Some((_, since)) = self.watched.front()
            && self.now.wrapping_sub(*since) > longest
        {
            self.watched.pop_front();
            self.in_vain += 1;
        }
        if self.in_vain >= IN_VAIN {
            self.watched.clear();
            (self.in_vain, self.leaving) = (0, self.frames);
        }
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
        self.leaving = self.leaving.saturating_sub(pages);
        self.judge();
    }

    /// So many pages are touched that had just been given up, and were there still. Of a loop,
    /// those are of what is tried.
    pub fn rescue(&mut self, pages: u32) {
        if !self.is_loop() {
            self.early += (1.0 - self.early) * self.weight(pages);
        }
    }

    /// What pages count for: what was longer ago than a quarter of the budget counts little.
    fn weight(&self, pages: u32) -> f64 {
        (f64::from(pages) * 4.0 / f64::from(self.frames)).min(1.0)
    }

    /// So many pages from `page` on are read, because a stream foresaw them or not.
    pub fn read(&mut self, page: Page, pages: u32, is_foreseen: bool) {
        let when = self.given_up.get((page >> GROUP_ORDER) as usize).copied().unwrap_or(0);
        let age = self.now.wrapping_sub(when);
        let again = when > 0 && age <= self.frames.saturating_mul(REMEMBERED);
        let weight = self.weight(pages);
        let now = if again && is_foreseen { 1.0 } else { 0.0 };
        self.part += (now - self.part) * weight;
        let is_early = again && !is_foreseen && age <= self.frames / EARLY_PART;
        self.early += (f64::from(u8::from(is_early)) - self.early) * weight;
        if again && is_foreseen {
            let longer = f64::from(age) - self.round;
            self.round += longer * if longer > 0.0 { 1.0 } else { weight / SOONER };
        }
        let (part, early) = if self.is_loop { (ENDS, EARLY_ENDS) } else { (BEGINS, EARLY_BEGINS) };
        self.is_loop = self.part > part && self.early < early;
        if !self.is_loop {
            self.watched.clear();
        }
    }
}

/// What it costs to read so many pages together: for each 24 of them as much as to begin, which was
/// measured (70 us, and 1.4 GB/s).
const fn cost(pages: u32) -> u32 {
    1 + pages / 24
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loop_begins_with_its_second_round_and_ends_with_another_one() {
        let mut cyclic = LoopDetector::new(1000);
        let round = |cyclic: &mut LoopDetector, first: Page, is_foreseen: bool| {
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

    /// Goes round through 300 pages that do not stay, gives up kept ones as often as it may, and
    /// says whether all that is kept is to make way.
    fn makes_way(is_missed: impl Fn(u64) -> bool) -> bool {
        let mut cyclic = LoopDetector::new(1000);
        let (mut kept, mut makes_way) = (10_000, false);
        for _ in 0..100 {
            for page in (0..300).step_by(4) {
                cyclic.read(page, 4, true);
                cyclic.goes_by(4);
                cyclic.give_up(page, 4);
                makes_way |= cyclic.makes_way();
                if cyclic.tries(4) {
                    cyclic.watch(kept..kept + 4);
                    kept += 4;
                }
            }
            let missed = (10_000..kept).filter(|page| is_missed(*page));
            missed.for_each(|page| cyclic.touch(&(page..page + 1)));
        }
        makes_way
    }

    #[test]
    fn what_is_kept_and_not_missed_makes_way() {
        assert!(makes_way(|_| false), "an earlier phase has left it");
        assert!(!makes_way(|_| true), "it is of the loop");
        assert!(!makes_way(|page| page % 8 < 4), "half of it is");
    }

    /// What was kept in pieces comes back in one.
    #[test]
    fn pieces_that_come_back_together_were_all_missed() {
        let mut cyclic = LoopDetector::new(1000);
        for _ in 0..20 {
            for page in (0..300).step_by(4) {
                cyclic.read(page, 4, true);
                cyclic.goes_by(4);
                cyclic.give_up(page, 4);
            }
            cyclic.touch(&(10_000..10_064));
            (10_000..10_064).step_by(8).for_each(|page| cyclic.watch(page..page + 8));
            assert!(!cyclic.makes_way());
        }
        assert!(cyclic.is_loop());
    }

    #[test]
    fn what_is_touched_again_soon_is_no_loop() {
        let mut cyclic = LoopDetector::new(1000);
        let round = |cyclic: &mut LoopDetector, rescued: u32| {
            for page in (0..2000).step_by(4) {
                cyclic.read(page, 4, true);
                cyclic.give_up(page, 4);
                cyclic.rescue(rescued);
            }
            cyclic.is_loop()
        };
        assert!(!round(&mut cyclic, 2));
        assert!(!round(&mut cyclic, 2), "a third of what is touched has just been given up");
        assert!(round(&mut cyclic, 0));
        assert!(round(&mut cyclic, 2), "that is what is tried");
    }

    #[test]
    fn what_is_waited_for_soon_was_given_up_too_early() {
        let mut cyclic = LoopDetector::new(1000);
        let round = |cyclic: &mut LoopDetector, pages: Page, is_foreseen: bool| {
            for page in (0..pages).step_by(4) {
                cyclic.read(page, 4, is_foreseen);
                cyclic.give_up(page, 4);
            }
            cyclic.early()
        };
        for _ in 0..10 {
            round(&mut cyclic, 200, true);
        }
        assert!(round(&mut cyclic, 200, true) < 0.1, "streams foresee it");
        for _ in 0..10 {
            round(&mut cyclic, 200, false);
        }
        assert!(round(&mut cyclic, 200, false) > 0.9);
        for _ in 0..10 {
            round(&mut cyclic, 2000, false);
        }
        assert!(round(&mut cyclic, 2000, false) < 0.1, "it was long ago");
    }

    #[test]
    fn when_all_has_made_way_it_is_a_loop_again() {
        let mut cyclic = LoopDetector::new(1000);
        let round = |cyclic: &mut LoopDetector| {
            for page in (0..300).step_by(4) {
                cyclic.read(page, 4, true);
                cyclic.give_up(page, 4);
            }
        };
        (0..10).for_each(|_| round(&mut cyclic));
        (0..4).for_each(|at| cyclic.watch(10_000 + at..10_001 + at));
        (0..3).for_each(|_| round(&mut cyclic));
        assert!(cyclic.makes_way() && !cyclic.is_loop());
        (0..4).for_each(|_| round(&mut cyclic));
        assert!(!cyclic.makes_way() && cyclic.is_loop());
    }
}
