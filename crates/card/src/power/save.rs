//! Simulates a save of a card's memory to NAND, and a restore.

use super::spec::SaveSpec;
use crate::nand::{NandArray, PageAddress, ProgrammedImage};

/// Simulates the saves and the restores of one card.
#[derive(Clone, Debug)]
pub struct SaveSimulator {
    spec: SaveSpec,
    array: NandArray,
    capacity: u64,
    /// Energy that the aged capacitor delivers behind its converter, J.
    usable_j: f64,
    save_w: f64,
}

/// The result of a save.
#[derive(Clone, Debug, PartialEq)]
pub struct SaveOutcome {
    /// The number of NAND pages that the memory fills.
    pub pages: u64,
    /// The number of pages that were programmed.
    pub programmed: u64,
    /// Time from the failure to the end of the save, s.
    pub seconds: f64,
    /// Time that a save of all pages needs, s.
    pub needed_seconds: f64,
    /// Energy that the save drew until its end, J.
    pub energy_j: f64,
    /// Energy that the save drew until its end, by component, J.
    pub energy: SaveEnergy,
    /// Energy that a save of all pages needs, J.
    pub needed_j: f64,
    /// Energy that the capacitor can still deliver behind its converter after the save, J.
    pub left_j: f64,
    /// The number of pages whose programs failed before the energy was used up, and for which the
    /// plane had another good block.
    pub remapped: u64,
    /// The number of pages that had no good block left.
    pub without_block: u64,
}

/// The energy of a save by component, J.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SaveEnergy {
    /// The energy of the whole card from the failure to the first program.
    pub switch: f64,
    /// The energy of the controller from the first program on.
    pub controller: f64,
    /// The energy of the memory devices, which are in self-refresh between reads.
    pub memory: f64,
    /// The energy of the NAND parts.
    pub nand: f64,
}

impl SaveEnergy {
    /// Returns the energy of the whole save, J.
    pub fn total(&self) -> f64 {
        self.switch + self.controller + self.memory + self.nand
    }
}

/// The part of the memory that a restore found in the NAND.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RestoreState {
    /// The restore found all pages of the memory.
    Complete,
    /// The restore found a part of the pages, and reports the missing pages.
    Partial,
    /// The restore found no page of the memory.
    Nothing,
}

/// The result of a restore.
#[derive(Clone, Debug, PartialEq)]
pub struct RestoreOutcome {
    /// The part of the memory that was found: all, some or no pages.
    pub state: RestoreState,
    /// The number of pages that were read back.
    pub restored: u64,
    /// The number of pages that the save did not program.
    pub missing: u64,
    /// The number of pages with more bit errors than ECC corrects.
    pub uncorrectable: u64,
    /// The first uncorrectable pages, at most 64.
    pub uncorrectable_pages: Vec<PageAddress>,
    /// Time of the restore, s.
    pub seconds: f64,
    /// Time until the card accepts commands, s: the restore, then the erase of the blocks for the
    /// next save. If the power fails again before the erase, the image is still in the NAND.
    pub ready_seconds: f64,
}

/// Maximum length of [`RestoreOutcome::uncorrectable_pages`].
const REPORTED_PAGES_MAX: usize = 64;

impl SaveSimulator {
    /// Creates a simulator for a card with a memory of `capacity` bytes. The capacitor has the age
    /// in `spec`, and `seed` decides which NAND blocks are bad.
    pub fn new(spec: &SaveSpec, capacity: u64, seed: u64) -> Self {
        Self::with_array(spec, capacity, NandArray::new(&spec.nand, seed))
    }

    /// Creates a simulator as [`Self::new`] does, but with NAND parts in the state of `array`.
    pub fn with_array(spec: &SaveSpec, capacity: u64, array: NandArray) -> Self {
        let save_w = spec.save_w();
        let usable_j = spec.aged_capacitor().usable_j(save_w);
        Self { spec: spec.clone(), array, capacity, usable_j, save_w }
    }

    /// Returns the number of NAND pages that the memory fills.
    pub fn pages(&self) -> u64 {
        self.spec.nand.pages_of(self.capacity)
    }

    /// Returns the description of the save: NAND, capacitor, powers and page order.
    pub fn spec(&self) -> &SaveSpec {
        &self.spec
    }

    /// Returns the NAND parts, with the blocks that are bad so far.
    pub fn array(&self) -> &NandArray {
        &self.array
    }

    /// Returns the energy that the aged capacitor delivers behind its converter, J.
    pub fn usable_j(&self) -> f64 {
        self.usable_j
    }

    /// Erases the blocks of the last image after its restore, for the next save. A block becomes a
    /// grown bad block if one of its programs failed during the save, or if its erase fails now;
    /// `seed` decides which erases fail. Returns the new bad blocks.
    pub fn prepare(&mut self, last: Option<&ProgrammedImage>, seed: u64) -> Vec<PageAddress> {
        let mut grown: Vec<PageAddress> =
            last.iter().flat_map(|image| &image.failures).map(|failure| failure.address).collect();
        grown.iter().for_each(|address| self.array.mark_bad(*address));
        grown.extend(self.array.erase(self.pages(), seed));
        grown
    }

    /// Saves the memory; `seed` decides which programs fail. Returns the image and the result.
    pub fn save(&self, seed: u64) -> (ProgrammedImage, SaveOutcome) {
        let (switch_s, switch_j) = (self.spec.draw.switch_s, self.spec.switch_j());
        let limit_s = (self.usable_j - switch_j).max(0.0) / self.save_w;
        let image = self.array.program(self.pages(), (limit_s * 1e15) as u64, seed);
        let seconds = |fs: u64| switch_s + fs as f64 * 1e-15;
        let joules = |fs: u64| switch_j + fs as f64 * 1e-15 * self.save_w;
        let energy_j = joules(image.time_fs);
        let of = |watts: f64| image.time_fs as f64 * 1e-15 * watts;
        let energy = SaveEnergy {
            switch: switch_j,
            controller: of(self.spec.draw.controller_w),
            memory: of(self.spec.memory_w()),
            nand: of(self.spec.nand.save_w()),
        };
        let without_block = |image: &ProgrammedImage| {
            image.missing().filter(|position| image.is_without_block(*position)).count() as u64
        };
        let outcome = SaveOutcome {
            pages: image.pages,
            programmed: image.programmed(),
            seconds: seconds(image.time_fs),
            needed_seconds: seconds(image.needed_fs),
            energy_j,
            energy,
            needed_j: joules(image.needed_fs),
            left_j: (self.usable_j - energy_j).max(0.0),
            remapped: image.failures.iter().filter(|failure| failure.remapped).count() as u64,
            without_block: without_block(&image),
        };
        (image, outcome)
    }

    /// Restores an image; `seed` decides which bits are wrong. Returns the positions in the image
    /// of the pages that are missing or uncorrectable, and the result of the restore.
    pub fn restore(&self, image: &ProgrammedImage, seed: u64) -> (Vec<u64>, RestoreOutcome) {
        let failed = self.array.read_back(image, seed);
        let mut absent: Vec<u64> = image.missing().collect();
        let missing = absent.len() as u64;
        absent.extend(&failed);
        absent.sort_unstable();
        let restored = image.pages - absent.len() as u64;
        let pages = failed.iter().filter_map(|position| self.array.address(image, *position));
        let nand = &self.spec.nand;
        let (read_fs, erase_fs) = (nand.restore_fs(image.pages), nand.erase_all_fs(image.pages));
        let outcome = RestoreOutcome {
            state: match restored {
                _ if absent.is_empty() => RestoreState::Complete,
                0 => RestoreState::Nothing,
                _ => RestoreState::Partial,
            },
            restored,
            missing,
            uncorrectable: failed.len() as u64,
            uncorrectable_pages: pages.take(REPORTED_PAGES_MAX).collect(),
            seconds: read_fs as f64 * 1e-15,
            ready_seconds: (read_fs + erase_fs) as f64 * 1e-15,
        };
        (absent, outcome)
    }
}
