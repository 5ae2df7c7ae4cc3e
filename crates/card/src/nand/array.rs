//! Simulates the blocks of the NAND parts, and the image that a save leaves in them.

use super::spec::NandSpec;
use rand_pcg::{
    Pcg64Mcg,
    rand_core::{RngCore, SeedableRng},
};
use std::collections::BTreeSet;

/// The address of a page in the NAND parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PageAddress {
    /// The 0-based index of the channel.
    pub channel: u32,
    /// The 0-based index of the die on its channel.
    pub die: u32,
    /// The 0-based index of the plane in its die.
    pub plane: u32,
    /// The 0-based index of the block in its plane.
    pub block: u32,
    /// The 0-based index of the page in its block.
    pub page: u32,
}

/// The NAND parts, with the bad blocks of each plane.
#[derive(Clone, Debug, PartialEq)]
pub struct NandArray {
    spec: NandSpec,
    /// Probability that a page that is read back has more bit errors than ECC corrects.
    uncorrectable: f64,
    /// The indices of the bad blocks of each plane. Planes are in the order of `NandArray::lane`.
    bad: Vec<BTreeSet<u32>>,
}

/// A page whose program failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProgramFailure {
    /// The 0-based index of the page in the order in which the save programs pages.
    pub position: u64,
    /// The page that failed.
    pub address: PageAddress,
    /// True if the plane had a good block left for this page. If false, the plane has no block for
    /// its later pages either.
    pub remapped: bool,
}

/// The numbers of good and bad blocks of an array, and of the blocks that an image needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NandUse {
    /// The number of good blocks of the plane with the fewest good blocks.
    pub good_blocks: u32,
    /// The number of blocks that the image needs in each plane.
    pub needed_blocks: u32,
    /// The number of bad blocks of all planes together.
    pub bad_blocks: u32,
}

/// The copy of a card's memory that a save writes into the NAND.
#[derive(Clone, Debug, PartialEq)]
pub struct ProgrammedImage {
    /// The number of pages of the whole image, programmed or not.
    pub pages: u64,
    /// Pages whose programs failed before the energy of the save was used up.
    pub failures: Vec<ProgramFailure>,
    /// Time from the first transfer to the end of the last program, or to the moment at which the
    /// energy of the save is used up, fs.
    pub time_fs: u64,
    /// Time that the whole image needs, fs. It is above `time_fs` if the energy is used up earlier.
    pub needed_fs: u64,
    /// The number of planes of all dies: the number of pages that are programmed in one step.
    lanes: u64,
    /// The number of planes of a die.
    planes: u64,
    /// For each die, the number of steps that were complete before the energy was used up. A step
    /// programs one page of each plane of a die.
    complete: Vec<u64>,
    /// For each plane of all dies, the index of the first step for which the plane has no good
    /// block left. The plane has no block for later steps either.
    exhausted: Vec<u64>,
}

/// Minimum probability of an event that the simulation draws. Rarer events never occur: a card has
/// fewer than 10^15 pages and blocks, so on average fewer than 10^-3 events are left out.
const LEAST_PROBABILITY: f64 = 1e-18;

/// Draws the positions in `0..count` at which an event of the probability `probability` occurs.
pub(super) fn occurrences(random: &mut Pcg64Mcg, probability: f64, count: u64) -> Vec<u64> {
    if probability < LEAST_PROBABILITY {
        return vec![];
    }
    if probability >= 1.0 {
        return (0..count).collect();
    }
    // Draw the distance to the next occurrence, which has a geometric distribution.
    let scale = 1.0 / libm::log1p(-probability);
    let mut found = vec![];
    let mut at = 0_u64;
    loop {
        let uniform = ((random.next_u64() >> 11) + 1) as f64 / (1_u64 << 53) as f64;
        let skip = libm::log(uniform) * scale;
        if skip >= (count - at) as f64 {
            return found;
        }
        at += skip as u64;
        if at >= count {
            return found;
        }
        found.push(at);
        at += 1;
        if at >= count {
            return found;
        }
    }
}

impl NandArray {
    /// Creates new NAND parts; `seed` decides which blocks are factory bad blocks.
    pub fn new(spec: &NandSpec, seed: u64) -> Self {
        let mut random = Pcg64Mcg::seed_from_u64(seed ^ 0x6E61_6E64);
        let planes = spec.pages_in_parallel() as usize;
        let mut bad = vec![BTreeSet::new(); planes];
        let blocks = u64::from(spec.blocks);
        for at in occurrences(&mut random, spec.factory_bad, planes as u64 * blocks) {
            bad[(at / blocks) as usize].insert((at % blocks) as u32);
        }
        Self { uncorrectable: spec.uncorrectable(), spec: spec.clone(), bad }
    }

    /// Returns the data sheet figures of the NAND parts.
    pub fn spec(&self) -> &NandSpec {
        &self.spec
    }

    /// Marks the block of `address` as bad; the page of `address` is ignored.
    pub fn mark_bad(&mut self, address: PageAddress) {
        let lane = self.lane(address);
        self.bad[lane].insert(address.block);
    }

    /// Erases the blocks for an image of `pages` pages; `seed` decides which erases fail. Returns
    /// the blocks whose erase failed; these blocks are bad from now on.
    pub fn erase(&mut self, pages: u64, seed: u64) -> Vec<PageAddress> {
        let mut random = Pcg64Mcg::seed_from_u64(seed ^ 0x6572_6173);
        let per_plane = self.blocks_for(pages);
        let lanes = self.bad.len() as u64;
        let failed: Vec<PageAddress> =
            occurrences(&mut random, self.spec.erase_failure, lanes * per_plane)
                .into_iter()
                .filter_map(|at| self.good_block((at / per_plane) as usize, at % per_plane))
                .collect();
        failed.iter().for_each(|address| self.mark_bad(*address));
        failed
    }

    /// Returns the number of blocks that an image of `pages` pages needs, and the numbers of good
    /// and bad blocks.
    pub fn usage(&self, pages: u64) -> NandUse {
        let bad = self.bad.iter().map(BTreeSet::len);
        NandUse {
            good_blocks: self.spec.blocks - bad.clone().max().unwrap_or(0) as u32,
            needed_blocks: self.blocks_for(pages) as u32,
            bad_blocks: bad.sum::<usize>() as u32,
        }
    }

    /// Programs an image of `pages` pages, until the image is complete or `limit_fs` has passed;
    /// `seed` decides which programs fail. The image lists the failures of programs that ended
    /// before `limit_fs`.
    pub fn program(&self, pages: u64, limit_fs: u64, seed: u64) -> ProgrammedImage {
        let mut random = Pcg64Mcg::seed_from_u64(seed ^ 0x7072_6F67);
        let spec = &self.spec;
        let (lanes, planes) = (spec.pages_in_parallel(), u64::from(spec.planes));
        let per_block = u64::from(spec.pages);
        // For each plane, the number of pages that were skipped because a program failed in their
        // block. With n pages in a block, page i of the image on a plane is page (i + skipped) % n
        // of the good block with the index (i + skipped) / n.
        let mut skipped = vec![0_u64; lanes as usize];
        let mut retries: Vec<Vec<u64>> = vec![vec![]; spec.all_dies() as usize];
        let mut failures = vec![];
        for position in occurrences(&mut random, spec.program_failure, pages) {
            let (lane, step) = ((position % lanes) as usize, position / lanes);
            let place = step + skipped[lane];
            let Some(block) = self.good_block(lane, place / per_block) else { continue };
            let address = PageAddress { page: self.page_in_block(place), ..block };
            skipped[lane] += self.rest_of_block(place);
            let next = self.good_block(lane, (step + skipped[lane]) / per_block);
            failures.push(ProgramFailure { position, address, remapped: next.is_some() });
            retries[lane / planes as usize].push(step);
        }
        let exhausted: Vec<u64> = (0..lanes as usize)
            .map(|lane| {
                let good = u64::from(spec.blocks) - self.bad[lane].len() as u64;
                (good * per_block).saturating_sub(skipped[lane])
            })
            .collect();
        // The number of steps in which a die programs pages of the image. Some dies may have no
        // page in the last step.
        let steps = |die: usize| pages.saturating_sub(die as u64 * planes).div_ceil(lanes);
        let finish = |die: usize, count: u64| self.finish_fs(die, count, &retries[die]);
        let dies = 0..retries.len();
        let needed_fs = dies.clone().map(|die| finish(die, steps(die))).max().unwrap_or(0);
        let complete: Vec<u64> = dies
            .clone()
            .map(|die| {
                let (mut low, mut high) = (0, steps(die));
                while low < high {
                    let middle = (low + high).div_ceil(2);
                    let is_in_time = finish(die, middle) <= limit_fs;
                    if is_in_time { low = middle } else { high = middle - 1 }
                }
                low
            })
            .collect();
        // A program that is still running at `limit_fs` has not failed.
        let has_failed = |failure: &ProgramFailure| {
            let (lane, step) = (failure.position % lanes, failure.position / lanes);
            let die = (lane / planes) as usize;
            self.first_try_fs(die, step, &retries[die]) <= limit_fs
        };
        failures.retain(has_failed);
        let time_fs = needed_fs.min(limit_fs);
        ProgrammedImage { pages, failures, time_fs, needed_fs, lanes, planes, complete, exhausted }
    }

    /// Reads an image back. Returns the positions of those saved pages that have more bit errors
    /// than ECC corrects; `seed` decides which pages these are.
    pub fn read_back(&self, image: &ProgrammedImage, seed: u64) -> Vec<u64> {
        let mut random = Pcg64Mcg::seed_from_u64(seed ^ 0x7265_6164);
        let failed = occurrences(&mut random, self.uncorrectable, image.pages);
        failed.into_iter().filter(|position| image.has(*position)).collect()
    }

    /// Returns the location in the NAND of the page at `position` of `image`; `None` if the plane
    /// has no good block for the page.
    pub fn address(&self, image: &ProgrammedImage, position: u64) -> Option<PageAddress> {
        let lane = position % image.lanes;
        let failed = image.failures.iter().map(|failure| failure.position);
        let skipped = failed
            .filter(|other| other % image.lanes == lane && *other <= position)
            .fold(0, |skipped, other| skipped + self.rest_of_block(other / image.lanes + skipped));
        let place = position / image.lanes + skipped;
        let block = self.good_block(lane as usize, place / u64::from(self.spec.pages))?;
        Some(PageAddress { page: self.page_in_block(place), ..block })
    }

    /// Returns the index of a page in its block. `place` is the position of the page among all
    /// pages of the good blocks of its plane.
    fn page_in_block(&self, place: u64) -> u32 {
        (place % u64::from(self.spec.pages)) as u32
    }

    /// Returns the number of pages of a plane that are skipped if a program fails: the page whose
    /// program fails, and the rest of its block. `place` is the position of this page among all
    /// pages of the good blocks of the plane.
    fn rest_of_block(&self, place: u64) -> u64 {
        u64::from(self.spec.pages - self.page_in_block(place))
    }

    /// Returns the number of blocks that an image of `pages` pages needs in each plane.
    fn blocks_for(&self, pages: u64) -> u64 {
        let steps = pages.div_ceil(self.spec.pages_in_parallel());
        steps.div_ceil(u64::from(self.spec.pages))
    }

    /// Returns the time at which the die `die` has programmed the pages of `step` for the first
    /// time, fs, before any retry of this step. For `retries` see [`Self::finish_fs`].
    fn first_try_fs(&self, die: usize, step: u64, retries: &[u64]) -> u64 {
        let before = retries.partition_point(|at| *at < step);
        self.finish_fs(die, step + 1, &retries[..before])
    }

    /// Returns the time at which the die with the index `die` has completed `count` steps, fs.
    /// `retries` has, in ascending order, the steps of the pages whose first program failed; each
    /// adds the time of another program.
    fn finish_fs(&self, die: usize, count: u64, retries: &[u64]) -> u64 {
        if count == 0 {
            return 0;
        }
        let spec = &self.spec;
        let (transfer, step) = (spec.transfer_fs(), spec.program_step_fs());
        let again = retries.partition_point(|at| *at < count) as u64;
        let place = die as u64 % u64::from(spec.dies);
        let first = place * transfer + transfer + spec.program_fs;
        let steps = (count - 1).saturating_mul(step);
        first.saturating_add(steps).saturating_add(again.saturating_mul(spec.retry_fs()))
    }

    /// Returns the index of the plane of `address` in the order of all planes of all dies.
    fn lane(&self, address: PageAddress) -> usize {
        let die = address.channel * self.spec.dies + address.die;
        (die * self.spec.planes + address.plane) as usize
    }

    /// Returns the first page of a good block of the plane `lane`. `ordinal` is the 0-based index
    /// of the block among the good blocks of the plane; `None` if the plane has fewer good blocks.
    fn good_block(&self, lane: usize, ordinal: u64) -> Option<PageAddress> {
        let mut block = ordinal;
        for bad in &self.bad[lane] {
            if u64::from(*bad) <= block {
                block += 1;
            }
        }
        let spec = &self.spec;
        let (die, plane) = (lane as u32 / spec.planes, lane as u32 % spec.planes);
        let address = |block| PageAddress {
            channel: die / spec.dies,
            die: die % spec.dies,
            plane,
            block,
            page: 0,
        };
        (block < u64::from(spec.blocks)).then(|| address(block as u32))
    }
}

impl ProgrammedImage {
    /// Returns true if the page at `position` was programmed.
    pub fn has(&self, position: u64) -> bool {
        let (lane, step) = (position % self.lanes, position / self.lanes);
        position < self.pages
            && step < self.complete[(lane / self.planes) as usize]
            && step < self.exhausted[lane as usize]
    }

    /// Returns true if the plane of the page at `position` had no good block left, so that even
    /// unlimited energy would not have saved the page.
    pub fn is_without_block(&self, position: u64) -> bool {
        position / self.lanes >= self.exhausted[(position % self.lanes) as usize]
    }

    /// Returns true if all pages were programmed.
    pub fn is_complete(&self) -> bool {
        self.missing().next().is_none()
    }

    /// Returns the positions of pages that were not programmed.
    pub fn missing(&self) -> impl Iterator<Item = u64> {
        (self.missing_from()..self.pages).filter(|position| !self.has(*position))
    }

    /// Returns the number of pages that were programmed.
    pub fn programmed(&self) -> u64 {
        self.pages - self.missing().count() as u64
    }

    /// Returns a lower bound of the position of the first missing page: all pages before the bound
    /// were programmed.
    fn missing_from(&self) -> u64 {
        let steps = self.complete.iter().chain(&self.exhausted).min().copied().unwrap_or(0);
        steps.saturating_mul(self.lanes).min(self.pages)
    }
}
