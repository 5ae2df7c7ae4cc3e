//! Describes the NAND parts of a card by the figures of their data sheet.

/// A card's NAND parts, by their data sheet. The fields are those of `[save]` in a card's file.
#[derive(Clone, Debug, PartialEq)]
pub struct NandSpec {
    /// The number of NAND channels of the controller.
    pub channels: u32,
    /// The number of dies (LUNs) of a channel.
    pub dies: u32,
    /// The number of planes of a die.
    pub planes: u32,
    /// The number of blocks of a plane.
    pub blocks: u32,
    /// The number of pages of a block.
    pub pages: u32,
    /// Size of a page without its spare area, bytes of data.
    pub page_bytes: u32,
    /// Time of a page program (tPROG), fs.
    pub program_fs: u64,
    /// Time of a page read into the page register (tR), fs.
    pub read_fs: u64,
    /// Time of a block erase (tBERS), fs.
    pub erase_fs: u64,
    /// Bandwidth of a channel, bytes/s.
    pub channel_bytes_per_s: f64,
    /// Fraction of blocks that are bad from the factory.
    pub factory_bad: f64,
    /// Probability that the program of a page fails.
    pub program_failure: f64,
    /// Probability that the erase of a block fails.
    pub erase_failure: f64,
    /// Probability that a bit that is read back is wrong, before ECC.
    pub bit_error: f64,
    /// The number of bit errors that ECC corrects in a codeword.
    pub ecc_bits: u32,
    /// Size of a codeword, bytes of data.
    pub codeword_bytes: u32,
    /// The number of program and erase cycles that a block withstands.
    pub endurance: u32,
    /// Power of a die that programs, W.
    pub program_w: f64,
    /// Power of a die that reads or transfers data, W.
    pub read_w: f64,
    /// Power of an idle die, W.
    pub idle_w: f64,
}

impl NandSpec {
    /// Returns the number of dies of all channels.
    pub fn all_dies(&self) -> u64 {
        u64::from(self.channels) * u64::from(self.dies)
    }

    /// Returns the number of pages that all dies program at the same time: one on each plane.
    pub fn pages_in_parallel(&self) -> u64 {
        self.all_dies() * u64::from(self.planes)
    }

    /// Returns the number of blocks of all planes together, good or bad.
    pub fn all_blocks(&self) -> u64 {
        self.pages_in_parallel() * u64::from(self.blocks)
    }

    /// Returns the capacity if all blocks are good, bytes.
    pub fn capacity(&self) -> u64 {
        let block = u64::from(self.pages) * u64::from(self.page_bytes);
        self.all_blocks().saturating_mul(block)
    }

    /// Returns the number of pages that an image of `bytes` bytes fills.
    pub fn pages_of(&self, bytes: u64) -> u64 {
        bytes.div_ceil(u64::from(self.page_bytes))
    }

    /// Returns the time in which a die transfers one page for each of its planes, fs.
    pub fn transfer_fs(&self) -> u64 {
        let bytes = f64::from(self.planes) * f64::from(self.page_bytes);
        (bytes / self.channel_bytes_per_s * 1e15) as u64
    }

    /// Returns the time from the start of one program of a die to that of its next program, fs:
    /// transfer and tPROG, or the transfers of all dies of the channel if these take longer.
    pub fn program_step_fs(&self) -> u64 {
        let transfer = self.transfer_fs();
        (transfer + self.program_fs).max(u64::from(self.dies) * transfer)
    }

    /// Returns the time that a failed program adds to a save, fs: transfer and tPROG of the retry.
    pub fn retry_fs(&self) -> u64 {
        self.transfer_fs() + self.program_fs
    }

    /// Returns the time from the start of one read of a die to the start of the die's next read,
    /// fs: the transfer and tR, or the transfers of all dies of the channel if these take longer.
    pub fn read_step_fs(&self) -> u64 {
        let transfer = self.transfer_fs();
        (transfer + self.read_fs).max(u64::from(self.dies) * transfer)
    }

    /// Returns the mean power of all dies during a save, W.
    pub fn save_w(&self) -> f64 {
        let step = self.program_step_fs() as f64;
        let programs = self.program_fs as f64 / step;
        let transfers = self.transfer_fs() as f64 / step;
        let idle = (1.0 - programs - transfers).max(0.0);
        let die = programs * self.program_w + transfers * self.read_w + idle * self.idle_w;
        self.all_dies() as f64 * die
    }

    /// Returns the time to read `pages` pages back in order with all planes in parallel, fs.
    pub fn restore_fs(&self, pages: u64) -> u64 {
        pages.div_ceil(self.pages_in_parallel()).saturating_mul(self.read_step_fs())
    }

    /// Returns the time to erase the blocks of `pages` pages with all planes in parallel, fs.
    pub fn erase_all_fs(&self, pages: u64) -> u64 {
        let blocks = pages.div_ceil(self.pages_in_parallel()).div_ceil(u64::from(self.pages));
        blocks.saturating_mul(self.erase_fs)
    }

    /// Returns the probability that a page is uncorrectable: at least one of its codewords has more
    /// bit errors than ECC corrects. Bit errors are assumed to be independent, and they are rare,
    /// so the number of bit errors in a codeword has nearly a Poisson distribution.
    pub fn uncorrectable(&self) -> f64 {
        let errors = f64::from(self.codeword_bytes) * 8.0 * self.bit_error;
        if errors <= 0.0 {
            return 0.0;
        }
        let term =
            |count: f64| libm::exp(count * libm::log(errors) - errors - libm::lgamma(count + 1.0));
        // The upper tail is summed directly: its probability may be so small that one minus the
        // lower tail would be lost to rounding.
        let limit = f64::from(self.ecc_bits);
        let last = 2.0 * errors.max(limit) + 200.0;
        let mut codeword = 0.0;
        let mut count = limit + 1.0;
        while count <= last {
            codeword += term(count);
            count += 1.0;
        }
        let codewords = (f64::from(self.page_bytes) / f64::from(self.codeword_bytes)).max(1.0);
        // 1 - (1 - codeword)^codewords, without rounding a small `codeword` to 0.
        -libm::expm1(codewords * libm::log1p(-codeword.min(1.0)))
    }
}
