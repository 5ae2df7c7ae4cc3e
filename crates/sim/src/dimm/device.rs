//! Defines the parameters of a memory module: geometry, timing in clocks, and currents.
//!
//! The parameters are in `devices/`, one file per DRAM family, each parameter with its source. The
//! binary includes these files. A module is identified by its name, and by the density and the
//! width of its devices.
//!
//! ```
//! use interleaf_sim::dimm::device::{Device, Options};
//! let device = Device::by_name("rdimm-6400-2r", &Options::default())?;
//! assert_eq!((device.ranks, device.timing.t_rcd), (2, 52));
//! # Ok::<(), interleaf_sim::dimm::device::DeviceError>(())
//! ```

mod build;
mod chain;
mod currents;
mod families;
mod file;
mod rule;

pub use build::{NamedModule, Options, by_name, in_file};
pub use chain::Read;
pub use currents::Currents;
pub use families::names;
pub(super) use rule::quantity;

use interleaf_model::format::FileError;
use std::{collections::BTreeMap, fmt};

/// Maximum number of banks, over all ranks, of a simulated pseudo-channel: a set of banks has 128
/// bits.
pub(super) const BANKS_MAX: usize = 128;
/// Maximum number of ranks of a simulated pseudo-channel.
pub(super) const RANKS_MAX: usize = 4;

/// The parameters of a module in one channel. Most fields are keys of a file in `devices/`, the
/// others are computed from keys.
#[derive(Clone, Debug, PartialEq)]
pub struct Device {
    /// The name of the module, such as `rdimm-6400-2r`.
    pub name: String,
    /// The family of the module's DRAM, such as `ddr5`.
    pub family: String,
    /// The density of the module's devices, such as `16Gb`.
    pub density: String,
    /// Number of data bits (pins) of each DRAM device.
    pub width: u32,
    /// Number of independent sub-channels in a channel.
    pub sub_channels: u32,
    /// Number of data bits of a sub-channel, without the bits for error correction.
    pub data_bits: u32,
    /// Number of bits of a sub-channel for error correction.
    pub ecc_bits: u32,
    /// Number of pseudo-channels in a sub-channel: 2 on a multiplexed module (MRDIMM), otherwise 1.
    pub pseudo_channels: u32,
    /// Number of ranks in each pseudo-channel.
    pub ranks: u32,
    /// Number of bank groups in a rank.
    pub bank_groups: u32,
    /// Number of banks in a bank group.
    pub banks: u32,
    /// Number of rows in a bank.
    pub rows: u32,
    /// Number of bursts in a row, over all devices of the rank.
    pub columns: u32,
    /// Data rate of the DRAM, thousand transfers per second. A clock has two transfers.
    pub kilotransfers: u64,
    /// Clocks of the host in one clock of the DRAM.
    pub host_clocks: u64,
    /// Latency that the buffers of the module add to an access, ps.
    pub delay_ps: u64,
    /// Clocks of the DRAM for which an activation occupies the command bus.
    pub activate_slots: u32,
    /// Clocks of the DRAM for which a read or a write occupies the command bus. Any other command
    /// occupies the bus for one clock.
    pub access_slots: u32,
    /// Number of refreshes that a rank may postpone.
    pub refresh_postponed: u32,
    /// Timing, in clocks of the DRAM.
    pub timing: Timing,
    /// For a module in a user's file: which of its timing parameters are assumed or inherited.
    pub timing_origins: TimingOrigins,
    /// Supply currents of the devices; `None` if the device file has no currents.
    pub currents: Option<Currents>,
}

/// Timing in clocks of the DRAM. The fields are the parameters of the JEDEC standards: durations,
/// and minimum distances from one command to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// Read latency (tCL): from a read command to its data.
    pub cl: u32,
    /// Write latency (tCWL): from a write command to its data.
    pub cwl: u32,
    /// Duration of a burst on the data bus.
    pub burst: u32,
    /// Minimum time from an activation to a read or write of the bank.
    pub t_rcd: u32,
    /// Minimum time from a precharge to an activation of the bank.
    pub t_rp: u32,
    /// Minimum time from an activation to a precharge of the bank.
    pub t_ras: u32,
    /// Minimum time from an activation to the next activation of the bank.
    pub t_rc: u32,
    /// Minimum time from a read to a read, or from a write to a write, of another bank group.
    pub t_ccd_s: u32,
    /// Minimum time from a read to a read of the same bank group.
    pub t_ccd_l: u32,
    /// Minimum time from a write to a write of the same bank group, if on-die error correction must
    /// read, modify and write (x4 devices).
    pub t_ccd_l_wr: u32,
    /// Minimum time from a write to a write of the same bank group, without read-modify-write.
    pub t_ccd_l_wr2: u32,
    /// Minimum time from an activation to an activation of another bank group.
    pub t_rrd_s: u32,
    /// Minimum time from an activation to an activation of the same bank group.
    pub t_rrd_l: u32,
    /// Window in which a rank allows at most four activations.
    pub t_faw: u32,
    /// Minimum time from the end of write data to a read of another bank group of the rank.
    pub t_wtr_s: u32,
    /// Minimum time from the end of write data to a read of the same bank group.
    pub t_wtr_l: u32,
    /// Minimum time from a read to a precharge of the bank.
    pub t_rtp: u32,
    /// Minimum time from the end of write data to a precharge of the bank.
    pub t_wr: u32,
    /// Minimum time from a precharge to the next precharge of the rank.
    pub t_ppd: u32,
    /// Minimum time on the bus from read data to write data: the bus turnaround.
    pub t_turn: u32,
    /// Minimum time on the bus from the data of a rank to the data of another rank.
    pub t_rank: u32,
    /// Average refresh interval of a rank; 0 without refresh.
    pub t_refi: u32,
    /// Duration of a refresh of all banks.
    pub t_rfc: u32,
    /// Interval of same-bank refreshes; 0 for a device without same-bank refreshes.
    pub t_refi_sb: u32,
    /// Duration of a same-bank refresh.
    pub t_rfc_sb: u32,
    /// Minimum time from a same-bank refresh to an activation of another bank of the rank.
    pub t_refsbrd: u32,
}

/// The timing parameters for which a module in a user's file has no source of its own: they are
/// assumed, or inherited from another file. Parameters have their names in the file; both fields
/// are empty for built-in modules.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TimingOrigins {
    /// Assumed parameters, each with its value and the reason: `t_rcd 58 nCK (as cl)`.
    pub assumed: Vec<String>,
    /// Names of inherited parameters, by the file that has the values.
    pub inherited: BTreeMap<String, Vec<String>>,
}

impl Device {
    /// Returns the built-in module `name` with the density and width of `options`.
    ///
    /// # Errors
    ///
    /// If no built-in module is called `name`, or the module does not exist with the density and
    /// width of `options`.
    pub fn by_name(name: &str, options: &Options) -> Result<Self, DeviceError> {
        by_name(name, options)
    }

    /// Returns the number of banks of a rank, over all of its bank groups.
    pub fn banks_of_rank(&self) -> u32 {
        self.bank_groups * self.banks
    }

    /// Returns the number of bytes of a burst.
    pub fn burst_bytes(&self) -> u32 {
        self.timing.burst * 2 * self.data_bits / 8
    }

    /// Returns the capacity of a sub-channel as a number of bursts.
    pub fn bursts(&self) -> u64 {
        let ranks = u64::from(self.pseudo_channels * self.ranks * self.banks_of_rank());
        ranks * u64::from(self.rows) * u64::from(self.columns)
    }

    /// Returns the peak bandwidth of a channel, GB/s.
    pub fn peak_gbps(&self) -> f64 {
        let bytes = f64::from(self.sub_channels * self.pseudo_channels * self.data_bits) / 8.0;
        bytes * self.kilotransfers as f64 / 1e6
    }

    /// Returns the number of DRAM clocks in `ps` picoseconds, rounded up.
    pub fn clocks(&self, ps: u64) -> u64 {
        rule::clocks(ps, self.kilotransfers)
    }

    /// Returns the number of DRAM clocks in a delay of `ps` picoseconds, rounded to the nearest
    /// clock. Minimum distances are rounded up ([`Self::clocks`]), but a delay is no minimum
    /// distance.
    pub fn nearest_clocks(&self, ps: u64) -> u64 {
        let per_clock = 2_000_000_000_u128;
        ((u128::from(ps) * u128::from(self.kilotransfers) + per_clock / 2) / per_clock) as u64
    }

    /// Returns the duration of `clocks` of the DRAM, ns.
    pub fn ns(&self, clocks: u64) -> f64 {
        clocks as f64 * 2e6 / self.kilotransfers as f64
    }

    /// Returns the number of clocks from write to write within a bank group. x4 devices need more
    /// clocks than other devices, because their on-die error correction reads, modifies and writes
    /// a word.
    pub fn same_group_writes(&self) -> u32 {
        if self.width == 4 { self.timing.t_ccd_l_wr } else { self.timing.t_ccd_l_wr2 }
    }

    /// Returns the number of clocks of the DRAM for which a command occupies the command bus.
    pub fn slots(&self, kind: super::command::Kind) -> u32 {
        use super::command::Kind;
        match kind {
            Kind::Activate => self.activate_slots,
            Kind::Read | Kind::ReadAuto | Kind::Write | Kind::WriteAuto => self.access_slots,
            _ => 1,
        }
    }
}

/// An invalid file of devices, an unknown module, or an invalid option.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeviceError {
    /// A device file that is invalid.
    File(FileError),
    /// A module or an option that is in no file.
    Choice {
        /// The error message.
        problem: String,
        /// The remedy, as a message.
        hint: String,
    },
    /// A density or width with which the module does not exist.
    ModuleOption {
        /// The field of [`Options`]: `density` or `width`.
        field: &'static str,
        /// The error message.
        problem: String,
        /// The remedy, as a message.
        hint: String,
    },
}

impl DeviceError {
    /// Returns the remedy: how the user can avoid the error.
    pub fn hint(&self) -> &str {
        match self {
            Self::File(why) => &why.hint,
            Self::Choice { hint, .. } | Self::ModuleOption { hint, .. } => hint,
        }
    }
}

impl std::error::Error for DeviceError {}

impl fmt::Display for DeviceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(why) => why.fmt(f),
            Self::Choice { problem, .. } | Self::ModuleOption { problem, .. } => {
                f.write_str(problem)
            }
        }
    }
}

impl From<FileError> for DeviceError {
    fn from(why: FileError) -> Self {
        Self::File(why)
    }
}

#[cfg(test)]
mod tests;
