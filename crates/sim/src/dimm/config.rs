//! Defines the configuration of a memory controller: the choices that no DRAM standard makes.

pub use super::row_policy::RowPolicy;

/// The refresh command that a controller uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refresh {
    /// The controller does not refresh.
    Never,
    /// The controller refreshes all banks of a rank at once (REFab), once in each tREFI.
    AllBanks,
    /// The controller refreshes one bank of each group at once (REFsb, DDR5): the banks with the
    /// same index in their groups. Successive refreshes cover successive indices. On a device
    /// without this command, the controller refreshes all banks.
    SameBank,
}

impl Refresh {
    /// All refresh modes.
    pub const ALL: [Self; 3] = [Self::AllBanks, Self::SameBank, Self::Never];

    /// Returns the name of the mode, as users write it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Never => "none",
            Self::AllBanks => "all-bank",
            Self::SameBank => "same-bank",
        }
    }
}

/// The configuration of the controller of one sub-channel. Times are in picoseconds, and are
/// rounded up to clocks of the DRAM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Controller {
    /// Number of entries of the read queue of a pseudo-channel, 1 to [`QUEUE_MAX`].
    pub read_queue: usize,
    /// Number of entries of the write queue of a pseudo-channel, 1 to [`QUEUE_MAX`].
    pub write_queue: usize,
    /// High watermark: the number of queued writes of a pseudo-channel at which a write drain
    /// starts.
    pub write_high: usize,
    /// Low watermark: the number of queued writes at which a long drain (see `read_high`) stops
    /// while reads wait. A drain that begins with fewer than `write_high` writes stops when the
    /// fraction `write_low / write_high` of these writes is left.
    pub write_low: usize,
    /// The number of queued writes of a pseudo-channel at which a drain starts while no read is
    /// queued. Each drain delays the reads that arrive meanwhile. With fewer queued writes the
    /// controller therefore waits for more writes, but not longer than `read_slice_ps`.
    pub write_idle: usize,
    /// With at least this number of queued reads in a sub-channel, bandwidth counts as the
    /// bottleneck. A write drain is then long, down to the low watermark, because a long drain
    /// needs fewer bus turnarounds for each write.
    pub read_high: usize,
    /// Number of writes of a short drain, which is used while bandwidth is not the bottleneck (see
    /// `read_high`).
    pub write_batch: usize,
    /// The longest time for which reads are served while a write waits, until the controller
    /// decides on the bus turnaround, ps. Reads go on after the decision, for `preparation_ps`.
    pub read_slice_ps: u64,
    /// The longest time for which writes are served while a read waits, until the controller
    /// decides on the bus turnaround, ps. Writes go on after the decision, for `preparation_ps`.
    pub write_slice_ps: u64,
    /// The time from the decision on a bus turnaround to the turnaround, ps. During this time
    /// accesses in the current direction continue, and rows are opened for requests in the next
    /// direction.
    pub preparation_ps: u64,
    /// Clocks that the controller adds to the device's minimum gap between the data of two ranks: a
    /// margin, because ranks differ in the arrival time of their data.
    pub rank_margin: u32,
    /// The rule that decides when a row without queued requests is closed.
    pub row_policy: RowPolicy,
    /// Number of accesses to an open row after which an older request for another row of the bank
    /// has priority.
    pub hits_max: u32,
    /// The refresh command that the controller uses, if it refreshes at all.
    pub refresh: Refresh,
    /// True if the ranks of a pseudo-channel are refreshed together. If false, their refreshes are
    /// staggered over the refresh interval.
    pub refresh_together: bool,
}

/// Maximum number of entries of a queue. The index of an entry is a byte, and 255 stands for no
/// entry.
pub const QUEUE_MAX: usize = 250;

impl Default for Controller {
    /// Returns the controller of a server; `docs/validation.md` has the evidence for each value.
    fn default() -> Self {
        Self {
            read_queue: 64,
            write_queue: 30,
            write_high: 30,
            write_low: 5,
            write_idle: 10,
            read_high: 16,
            write_batch: 8,
            read_slice_ps: 340_000,
            write_slice_ps: 340_000,
            preparation_ps: 4_000,
            rank_margin: 2,
            row_policy: RowPolicy::Adaptive,
            hits_max: 16,
            refresh: Refresh::AllBanks,
            refresh_together: true,
        }
    }
}
