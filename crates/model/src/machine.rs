//! The interface to memory that can be observed and steered.
//!
//! Decisions are carried out through [`Machine`]. The trait has three implementations: the running
//! kernel, the simulator, and a fake in tests. A decision does not name pages: it has the share of
//! a scope's pages for each tier, and the machine chooses the pages.
//!
//! Every counter of a [`Sample`] is an `Option`. `None` means that the machine lacks the counter,
//! not that it counted zero.

use crate::tier::TierKind;
use core::time::Duration;

/// A machine whose memory counters can be read, and whose pages can be migrated between tiers.
pub trait Machine {
    /// A failure of observation or steering.
    type Error;

    /// The domains, tiers and scopes of this machine.
    fn layout(&self) -> &Layout;

    /// Waits for `span`, while actuators move pages towards the goals of the last decision. The
    /// control loop calls `advance` before each [`Self::observe`]. A simulated machine does nothing
    /// here, because its time passes in `observe`.
    ///
    /// # Errors
    /// If pages cannot be moved any more, or the control loop must stop.
    fn advance(&mut self, _span: Duration) -> Result<(), Self::Error> {
        Ok(())
    }

    /// Returns a sample of about `span`; [`Sample::span`] is the exact time that the counters
    /// cover. A simulated machine simulates `span` in this call. A real machine has already waited
    /// in [`Self::advance`], perhaps for longer than `span`.
    ///
    /// # Errors
    /// If a counter that was available before cannot be read.
    fn observe(&mut self, span: Duration) -> Result<Sample, Self::Error>;

    /// Sets the placement of `decision` as the goal of migration, and returns at once. Later
    /// samples show the progress of the migration.
    ///
    /// # Errors
    /// If the goal cannot be set.
    fn apply(&mut self, decision: &Decision) -> Result<(), Self::Error>;
}

/// The domains, tiers and scopes of a machine.
#[derive(Clone, Debug, PartialEq)]
pub struct Layout {
    /// Sources of traffic: sockets or sub-NUMA clusters; at least one.
    pub domains: Vec<DomainLayout>,
    /// Pools of memory; at least one.
    pub tiers: Vec<TierLayout>,
    /// The scopes: sets of pages that are observed or steered together.
    pub scopes: Vec<ScopeLayout>,
}

/// A socket or sub-NUMA cluster.
#[derive(Clone, Debug, PartialEq)]
pub struct DomainLayout {
    /// The name of the domain.
    pub name: String,
    /// The number of cores in the domain.
    pub cores: u32,
    /// The tiers near the domain, the fastest first, as indices into [`Layout::tiers`]; at least
    /// one. Traffic of the domain to these tiers does not cross a link between sockets.
    pub tiers: Vec<usize>,
}

/// A pool of memory. Its figures are rated by the firmware, not measured.
#[derive(Clone, Debug, PartialEq)]
pub struct TierLayout {
    /// The name of the tier.
    pub name: String,
    /// The kind of memory, such as DRAM or an expander.
    pub kind: TierKind,
    /// The size of the tier's memory, bytes.
    pub capacity_bytes: u64,
    /// Rated bandwidth, GB/s: the firmware's figure for the tier.
    pub rated_gbps: f64,
    /// Rated idle latency, ns: the firmware's figure for the tier.
    pub rated_latency_ns: f64,
}

/// A scope: pages that are observed or steered together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScopeLayout {
    /// The name of the scope.
    pub name: String,
    /// The kind of scope: all pages of the machine, of a control group or of processes.
    pub kind: ScopeKind,
    /// The domain of the scope's threads, as an index into [`Layout::domains`].
    pub domain: usize,
    /// True if decisions may move the pages of the scope.
    pub steered: bool,
}

/// Kinds of scopes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ScopeKind {
    /// All pages of the machine.
    Machine,
    /// The pages of a control group.
    Cgroup,
    /// The pages of some processes.
    Process,
}

/// A sample: the change of a machine's counters between two readings, and the state of the
/// machine's memory at the second reading.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    /// The time between this reading and the previous one.
    pub span: Duration,
    /// `traffic[i][j]` is the traffic from domain `i` to tier `j`.
    pub traffic: Vec<Vec<Traffic>>,
    /// The memory of each tier, in the order of [`Layout::tiers`].
    pub tier_memory: Vec<TierMemory>,
    /// The placement of each scope, in the order of [`Layout::scopes`].
    pub scopes: Vec<Residency>,
}

/// Traffic from one domain to one tier during a sample.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Traffic {
    /// Bytes read by the domain from the tier; `None` if not counted.
    pub read_bytes: Option<f64>,
    /// Bytes written by the domain to the tier; `None` if not counted.
    pub written_bytes: Option<f64>,
    /// The number of requests that arrived at the tier; `None` if not counted.
    pub inserts: Option<f64>,
    /// The sum of the latencies of all requests, ns; `None` if not counted. The mean latency is
    /// `occupancy_ns` / `inserts` (Little's law).
    pub occupancy_ns: Option<f64>,
}

impl Traffic {
    /// Bytes read and written together; `None` if either was not counted.
    pub fn bytes(&self) -> Option<f64> {
        Some(self.read_bytes? + self.written_bytes?)
    }
}

/// The memory of one tier.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TierMemory {
    /// Bytes in use; `None` if not counted.
    pub used_bytes: Option<u64>,
    /// Bytes free; `None` if not counted.
    pub free_bytes: Option<u64>,
    /// Bytes of pages that migrated to the tier during the sample; `None` if not counted.
    pub migrated_in_bytes: Option<u64>,
    /// Bytes of pages that migrated from the tier during the sample; `None` if not counted.
    pub migrated_out_bytes: Option<u64>,
}

/// The placement of the pages of one scope.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Residency {
    /// Bytes of the scope's pages on each tier, in the order of [`Layout::tiers`]; `None` if the
    /// placement was not sampled.
    pub used_bytes: Option<Vec<u64>>,
    /// The scope's pages by hotness, the hottest first; `None` if the hotness was not sampled.
    pub heat: Option<Vec<HeatBand>>,
}

/// Pages of similar hotness.
#[derive(Clone, Debug, PartialEq)]
pub struct HeatBand {
    /// Accesses per second to one page of the band, as found by sampling.
    pub accesses_per_s: f64,
    /// Bytes of the band's pages on each tier, in the order of [`Layout::tiers`].
    pub bytes: Vec<u64>,
}

/// A decision: the target placement of pages.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Decision {
    /// One target for each steered scope.
    pub targets: Vec<Target>,
}

/// The target placement of one scope.
#[derive(Clone, Debug, PartialEq)]
pub struct Target {
    /// The scope, as an index into [`Layout::scopes`].
    pub scope: usize,
    /// For each tier of the machine, the share of the scope's pages (0 to 1). The shares sum to 1.
    pub shares: Vec<f64>,
    /// The rule that says which of the scope's pages go to which tier.
    pub order: Order,
    /// The highest migration rate, GB/s; `None` for no limit.
    pub rate_limit_gbps: Option<f64>,
}

/// The rule that says which pages go to which tier, at given shares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// The pages of each tier are spread evenly over the addresses, in the ratio of the shares. A
    /// machine that selects pages by access counts migrates only hot pages, each to the tier that
    /// this rule gives to its address.
    Interleave,
    /// The hottest pages go to the first tier until its share is full, the next hottest pages to
    /// the next tier, and so on.
    HottestFirst,
}
