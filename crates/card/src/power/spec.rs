//! Describes the behaviour of a card at a power failure, and checks the description.

use crate::{capacitor::CapacitorSpec, durability::Survival, nand::NandSpec};

/// The order in which a save programs the pages of the memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum SaveOrder {
    /// The save programs all pages in the order of addresses.
    #[default]
    Address,
    /// The save first programs the pages written since the last restore, then the other pages. Each
    /// of the two parts is in the order of addresses.
    DirtyFirst,
}

/// Power of each component during a save, and times: section `[save.power]` of a card's file.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SaveDraw {
    /// Power of the controller, with its link off, W.
    pub controller_w: f64,
    /// Power of all memory devices while they are read, W.
    pub memory_active_w: f64,
    /// Power of all memory devices in self-refresh, W.
    pub memory_self_refresh_w: f64,
    /// Bandwidth at which the memory is read, bytes/s.
    pub memory_bytes_per_s: f64,
    /// Time to leave self-refresh before a page is read, and to enter it again afterwards, s.
    pub self_refresh_s: f64,
    /// Time from the failure to the first program: detection, switch to the capacitor, end of
    /// commands, s. During this time the components draw their power of normal work.
    pub switch_s: f64,
    /// Power of the whole card in normal work, W.
    pub working_w: f64,
}

/// Power and energy of the link and the controller: section `[power]` of a card's file.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct EnergySpec {
    /// Power of the link's transceivers in L0, with or without data, W.
    pub link_w: f64,
    /// Energy of a bit on the link beyond `link_w`, pJ.
    pub link_pj_per_bit: f64,
    /// Power of the controller without commands, W.
    pub controller_w: f64,
    /// Power of a core that executes a command, W.
    pub core_w: f64,
    /// Energy of a bit of data that passes DMA engine, buffer and ECC, pJ.
    pub data_pj_per_bit: f64,
}

/// The properties of the save of a card of DRAM.
#[derive(Clone, Debug, PartialEq)]
pub struct SaveSpec {
    /// The NAND parts to which the memory is saved.
    pub nand: NandSpec,
    /// The capacitor when new. At the age [`CapacitorSpec::years`] it must still deliver the energy
    /// of a save.
    pub capacitor: CapacitorSpec,
    /// Power of each component during the save.
    pub draw: SaveDraw,
    /// The order in which the pages of the memory are saved.
    pub order: SaveOrder,
}

/// The behaviour of a card at a power failure.
#[derive(Clone, Debug, PartialEq)]
pub enum PowerSpec {
    /// The card saves its memory to NAND.
    Save(Box<SaveSpec>),
    /// The memory keeps the data of precharged rows without power. The controller works for
    /// `hold_up` fs after the failure.
    Precharge {
        /// Time from the failure to the stop of the controller, fs.
        hold_up: u64,
        /// Time from the first data written to a row to the end of its precharge, fs.
        row_fs: u64,
    },
}

/// The reason why [`PowerSpec::check`] refuses a card.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{problem}")]
pub struct PowerError {
    /// The section and the key in the card's file, such as `capacitor.age`.
    pub field: String,
    /// The problem, as text for the user.
    pub problem: String,
    /// The remedy, as text for the user.
    pub hint: String,
}

fn refused(field: &str, problem: String, hint: String) -> PowerError {
    PowerError { field: field.into(), problem, hint }
}

/// Maximum number of NAND blocks. The limit keeps the list of bad blocks small.
const BLOCKS_MAX: u64 = 1 << 20;

/// Maximum number of pages of an image. With this limit, a save is computed in milliseconds.
const PAGES_MAX: u64 = 1 << 24;

impl SaveSpec {
    /// Returns the mean power of all memory devices together during the save, W. Between the reads
    /// of pages the devices are in self-refresh.
    pub fn memory_w(&self) -> f64 {
        let draw = &self.draw;
        let interval = self.nand.program_step_fs() as f64 * 1e-15;
        let page = f64::from(self.nand.page_bytes) / draw.memory_bytes_per_s + draw.self_refresh_s;
        let active = (self.nand.pages_in_parallel() as f64 * page / interval).min(1.0);
        active * draw.memory_active_w + (1.0 - active) * draw.memory_self_refresh_w
    }

    /// Returns the mean power of controller, memory devices and NAND during the save, W.
    pub fn save_w(&self) -> f64 {
        self.draw.controller_w + self.memory_w() + self.nand.save_w()
    }

    /// Returns the energy that the card draws from the failure to the first program, J.
    pub fn switch_j(&self) -> f64 {
        self.draw.switch_s * self.draw.working_w
    }

    /// Returns the capacitor at the age at which it must still deliver the energy of a save.
    pub fn aged_capacitor(&self) -> CapacitorSpec {
        self.capacitor.aged(self.capacitor.years)
    }

    /// Returns the energy, J, of the smallest save: a single page.
    pub fn least_j(&self) -> f64 {
        let first = (self.nand.transfer_fs() + self.nand.program_fs) as f64 * 1e-15;
        self.switch_j() + first * self.save_w()
    }

    /// Returns the energy of a save of `bytes` bytes without failed programs, J.
    pub fn needed_j(&self, bytes: u64) -> f64 {
        let nand = &self.nand;
        let steps = nand.pages_of(bytes).div_ceil(nand.pages_in_parallel());
        let last = u64::from(nand.dies - 1) * nand.transfer_fs();
        let first = (last + nand.transfer_fs() + nand.program_fs) as f64;
        let time = first + steps.saturating_sub(1) as f64 * nand.program_step_fs() as f64;
        self.switch_j() + time * 1e-15 * self.save_w()
    }

    /// Refuses a card whose NAND is beyond the limits of the simulation or cannot hold the memory,
    /// whose capacitor has no capacitance left at the required age, or whose capacitor lacks the
    /// energy to save one page.
    ///
    /// # Errors
    /// If the card is refused; the error states the first reason.
    pub fn check(&self, capacity: u64) -> Result<(), PowerError> {
        let nand = &self.nand;
        let blocks = nand.all_blocks();
        if blocks > BLOCKS_MAX {
            let problem = format!("the NAND has {blocks} blocks, at most {BLOCKS_MAX}");
            return Err(refused("save.blocks", problem, "write fewer dies or blocks".into()));
        }
        let pages = nand.pages_of(capacity);
        if pages > PAGES_MAX {
            let problem = format!("the memory needs {pages} pages, at most {PAGES_MAX}");
            return Err(refused("save.page", problem, "write a larger page".into()));
        }
        let good = nand.capacity() as f64 * (1.0 - nand.factory_bad);
        if good < capacity as f64 {
            let problem = format!(
                "the NAND has {:.0} MiB in good blocks, and the memory {} MiB",
                good / 1048576.0,
                capacity >> 20
            );
            return Err(refused("save.blocks", problem, "add dies or blocks".into()));
        }
        let capacitor = self.aged_capacitor();
        let years = self.capacitor.years;
        if capacitor.farads <= 0.0 {
            let life = self.capacitor.life_in_use();
            let problem = format!(
                "the capacitor has no capacitance left after {years} years: its life at {} degrees \
                 is {life:.1} years",
                self.capacitor.celsius
            );
            let hint = "write fewer years or a lower temperature";
            return Err(refused("capacitor.age", problem, hint.into()));
        }
        let (usable, least) = (capacitor.usable_j(self.save_w()), self.least_j());
        if usable < least {
            let problem = format!(
                "the capacitor is below any flush: {usable:.3} J after {years} years, and the save \
                 of one page needs {least:.3} J at {:.2} W",
                self.save_w()
            );
            let needed = self.needed_j(capacity);
            let hint = format!("a save of the whole memory needs {needed:.1} J");
            return Err(refused("capacitor.capacitance", problem, hint));
        }
        Ok(())
    }
}

impl PowerSpec {
    /// Returns the condition under which written data survive a power failure.
    pub fn survival(&self) -> Survival {
        match self {
            Self::Save(_) => Survival::Buffered,
            Self::Precharge { hold_up, .. } => Survival::Precharged { hold_up: *hold_up },
        }
    }

    /// Checks that the card can work. A card that saves must pass [`SaveSpec::check`] for
    /// `capacity` bytes. A card of STT-MRAM (`Precharge`) must have a hold-up that is at least as
    /// long as the write and precharge of a row.
    ///
    /// # Errors
    /// If the card is refused; the error states the first reason.
    pub fn check(&self, capacity: u64) -> Result<(), PowerError> {
        match self {
            Self::Save(save) => save.check(capacity),
            Self::Precharge { hold_up, row_fs } if hold_up < row_fs => {
                let ns = |fs: u64| fs as f64 / 1e6;
                let problem = format!(
                    "a hold-up of {} ns is shorter than the {} ns in which a row is written and \
                     precharged: a power failure would leave rows undefined",
                    ns(*hold_up),
                    ns(*row_fs)
                );
                let hint = format!("write at least {} ns", ns(*row_fs));
                Err(refused("power.hold_up", problem, hint))
            }
            Self::Precharge { .. } => Ok(()),
        }
    }
}
