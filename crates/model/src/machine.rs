//! The seam: memory that can be observed and steered.
//!
//! Everything that decides works against [`Machine`]. There is one behind a real kernel, one that
//! is simulated, and one in tests. Page lists never cross it: a decision says what part of a
//! scope's pages belongs on which tier, and the machine picks the pages.
//!
//! Every counter of a [`Sample`] is an `Option`: what a machine cannot count is absent, not zero.

use crate::tier::TierKind;
use core::time::Duration;

/// Memory that can be observed and steered.
pub trait Machine {
    /// Why it cannot be observed or steered.
    type Error;

    /// What there is: domains, tiers, scopes.
    fn layout(&self) -> &Layout;

    /// Waits for `span`, and has what moves pages follow the goals that were set; the control loop
    /// calls it before each [`Self::observe`]. A simulated machine, whose time passes while it is
    /// observed, does nothing.
    ///
    /// # Errors
    /// When pages cannot be moved any more, or there is reason to stop.
    fn advance(&mut self, _span: Duration) -> Result<(), Self::Error> {
        Ok(())
    }

    /// A sample of the `span` that a real machine has just waited for, or that a simulated one
    /// simulates now; the counters cover exactly that span.
    ///
    /// # Errors
    /// When a counter that was there before cannot be read.
    fn observe(&mut self, span: Duration) -> Result<Sample, Self::Error>;

    /// Sets a goal and returns; progress shows in later samples.
    ///
    /// # Errors
    /// When the goal cannot be set.
    fn apply(&mut self, decision: &Decision) -> Result<(), Self::Error>;
}

/// What a machine is made of.
#[derive(Clone, Debug, PartialEq)]
pub struct Layout {
    /// Where traffic comes from: sockets or sub-NUMA clusters; at least one.
    pub domains: Vec<DomainLayout>,
    /// Pools of memory; at least one.
    pub tiers: Vec<TierLayout>,
    /// What can be steered.
    pub scopes: Vec<ScopeLayout>,
}

/// A socket or sub-NUMA cluster.
#[derive(Clone, Debug, PartialEq)]
pub struct DomainLayout {
    /// Its name.
    pub name: String,
    /// Its cores.
    pub cores: u32,
    /// The tiers near it, the fastest first, as indices into [`Layout::tiers`]; at least one.
    pub tiers: Vec<usize>,
}

/// A pool of memory as the firmware describes it: rated figures, not measured ones.
#[derive(Clone, Debug, PartialEq)]
pub struct TierLayout {
    /// Its name.
    pub name: String,
    /// What it is made of.
    pub kind: TierKind,
    /// What it holds, bytes.
    pub capacity_bytes: u64,
    /// What it carries, GB/s.
    pub rated_gbps: f64,
    /// Its latency without load, ns.
    pub rated_latency_ns: f64,
}

/// What is steered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScopeLayout {
    /// Its name.
    pub name: String,
    /// What kind of scope it is.
    pub kind: ScopeKind,
    /// The domain its threads run in, as an index into [`Layout::domains`].
    pub domain: usize,
    /// Whether decisions may move its pages.
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

/// One reading of the counters.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    /// The time that it covers.
    pub span: Duration,
    /// Traffic by domain, then by tier.
    pub traffic: Vec<Vec<Traffic>>,
    /// By tier.
    pub stock: Vec<Stock>,
    /// By scope.
    pub scopes: Vec<Residency>,
}

/// Traffic from one domain to one tier.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Traffic {
    /// Bytes read.
    pub read_bytes: Option<f64>,
    /// Bytes written.
    pub written_bytes: Option<f64>,
    /// Requests that began to wait.
    pub inserts: Option<f64>,
    /// Time that requests waited, summed over them, ns; latency = occupancy / inserts (Little).
    pub occupancy_ns: Option<f64>,
}

impl Traffic {
    /// Bytes read and written; `None` unless both are known.
    pub fn bytes(&self) -> Option<f64> {
        Some(self.read_bytes? + self.written_bytes?)
    }
}

/// What is on one tier.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stock {
    /// Bytes in use.
    pub used_bytes: Option<u64>,
    /// Bytes free.
    pub free_bytes: Option<u64>,
    /// Bytes of pages that came by migration.
    pub migrated_in_bytes: Option<u64>,
    /// Bytes of pages that left by migration.
    pub migrated_out_bytes: Option<u64>,
}

/// Where the pages of one scope are.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Residency {
    /// Bytes on each tier.
    pub used_bytes: Option<Vec<u64>>,
    /// How hot they are, the hottest first.
    pub heat: Option<Vec<HeatBand>>,
}

/// Pages that are about as hot.
#[derive(Clone, Debug, PartialEq)]
pub struct HeatBand {
    /// How often a page of these is found accessed, in a second.
    pub accesses_per_s: f64,
    /// Bytes of them on each tier.
    pub bytes: Vec<u64>,
}

/// Where pages should go.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Decision {
    /// One for each scope that is steered.
    pub targets: Vec<Target>,
}

/// Where the pages of one scope should go.
#[derive(Clone, Debug, PartialEq)]
pub struct Target {
    /// The scope, as an index into [`Layout::scopes`].
    pub scope: usize,
    /// The part of its pages for each tier of the machine, 0 to 1, summing to 1.
    pub shares: Vec<f64>,
    /// Which pages go where.
    pub order: Order,
    /// The fastest that pages may move, GB/s; `None` for as fast as they can.
    pub rate_limit_gbps: Option<f64>,
}

/// Which pages go to which tier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Hot pages in the ratio of the shares, evenly over the addresses.
    Interleave,
    /// The hottest to the first tier until its share is full, then on to the next.
    HottestFirst,
}
