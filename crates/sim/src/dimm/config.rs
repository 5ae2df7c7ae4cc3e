//! How a controller decides: the choices that no standard makes.

/// When a row is closed that nobody in the queue wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PagePolicy {
    /// When another row of its bank is wanted.
    Open,
    /// With its last access.
    Closed,
    /// Each bank does what would have been right the last times.
    Adaptive,
}

/// How a rank is refreshed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refresh {
    /// Not at all.
    Never,
    /// All banks at once.
    AllBanks,
    /// The same bank of each group, one after another. Where the device has none: all banks.
    SameBank,
}

/// A controller of one sub-channel. Times are in picoseconds, and become clocks of the DRAM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Controller {
    /// Reads that a pseudo-channel chooses among.
    pub read_queue: usize,
    /// Writes that wait at a pseudo-channel.
    pub write_queue: usize,
    /// Writes at a pseudo-channel from which on they go first.
    pub write_high: usize,
    /// Writes down to which they do, while reads wait; of fewer the same part is left.
    pub write_low: usize,
    /// How long reads go first at most, while a write waits.
    pub read_slice_ps: u64,
    /// How long writes go first at most, while a read waits.
    pub write_slice_ps: u64,
    /// When rows are closed.
    pub page_policy: PagePolicy,
    /// Accesses to an open row after which another row of its bank has its turn, if it is wanted.
    pub hits_max: u32,
    /// How ranks are refreshed.
    pub refresh: Refresh,
    /// Whether the ranks of a pseudo-channel are refreshed at the same time.
    pub refresh_together: bool,
}

/// The longest queue.
pub const QUEUE_MAX: usize = 250;

impl Default for Controller {
    /// A server's: see `docs/validation.md` for what each value rests on.
    fn default() -> Self {
        Self {
            read_queue: 64,
            write_queue: 20,
            write_high: 20,
            write_low: 8,
            read_slice_ps: 350_000,
            write_slice_ps: 350_000,
            page_policy: PagePolicy::Adaptive,
            hits_max: 16,
            refresh: Refresh::AllBanks,
            refresh_together: true,
        }
    }
}
