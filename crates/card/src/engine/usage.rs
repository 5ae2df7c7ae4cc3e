//! Counts the use of each component, and computes the utilisation between two readings.

use super::Engine;
use crate::settings::Component;
use interleaf_sim::dimm::row_channel::RowCounts;

/// The counters of an engine at one time.
#[derive(Clone, Debug, PartialEq)]
pub struct Usage {
    /// The time of the reading, fs.
    pub at: u64,
    /// The time for which each component was busy, fs, in the order of [`Component::ALL`]. For the
    /// host it is the time of the busiest processor, for credits that of the busiest pool, for
    /// other components the mean over all units. A unit of a pool is busy while a request holds it.
    pub busy: [u64; Component::ALL.len()],
    /// The time for which requests waited for a unit of each component, fs, in the order of
    /// [`Component::ALL`]; 0 for components that are not pools. For credits: the time for which the
    /// link was idle while a packet waited for credits.
    pub waited: [u64; Component::ALL.len()],
    /// Bytes of the TLPs that the card sent (0) and received (1), with headers; without DLLPs.
    pub link_bytes: [u64; 2],
    /// The number of TLPs that the card sent (element 0) and that it received (element 1).
    pub link_packets: [u64; 2],
    /// The counts of the commands of all memory channels together.
    pub memory: RowCounts,
}

/// For each component, two fractions of a span of time, 0 to 1: the fraction for which the
/// component was busy, and the fraction for which requests waited for one of its units.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Utilisation {
    busy: [f64; Component::ALL.len()],
    waited: [f64; Component::ALL.len()],
}

/// Minimum utilisation at which a server counts as the bottleneck. The fraction is below 1, because
/// even a saturated server is idle for moments.
const BOUND: f64 = 0.97;
/// Minimum fraction of the time for which requests wait for the units of a pool, so that the pool
/// counts as the bottleneck. Pools are checked only if no server reaches `BOUND`; the pools of
/// credits have another condition, in `bound_with_credits_of`.
const WAITED: f64 = 0.8;

impl Utilisation {
    /// Returns the utilisation between two readings of the counters of an engine.
    pub fn between(earlier: &Usage, later: &Usage) -> Self {
        let span = (later.at - earlier.at).max(1) as f64;
        let part = |earlier: u64, later: u64| {
            (later.saturating_sub(earlier) as f64 / span).clamp(0.0, 1.0)
        };
        Self {
            busy: std::array::from_fn(|at| part(earlier.busy[at], later.busy[at])),
            waited: std::array::from_fn(|at| part(earlier.waited[at], later.waited[at])),
        }
    }

    /// Returns the fraction of the time for which a component was busy, 0 to 1.
    pub fn of(&self, component: Component) -> f64 {
        self.busy[component as usize]
    }

    /// Returns the fraction of the time for which requests waited for a unit of a pool, 0 to 1; 0
    /// for components that are not pools.
    pub fn waited(&self, component: Component) -> f64 {
        self.waited[component as usize]
    }

    /// Returns the component that is the bottleneck; `None` if more outstanding commands would give
    /// more throughput.
    ///
    /// Servers are checked first, because a saturated server also fills the pools in front of it.
    /// Pools are checked next, from the end of the data path to its start: first the credits of the
    /// link, then the buffers and read tags, then the DMA engines.
    pub fn bound_by(&self) -> Option<Component> {
        self.bound_with_credits_of(Component::LinkUp)
    }

    /// Returns the bottleneck, as [`Self::bound_by`] does. `link` is the direction of the link in
    /// which the packets that need credits travel.
    pub(crate) fn bound_with_credits_of(&self, link: Component) -> Option<Component> {
        use Component::{
            Buffers, Cores, Credits, DmaEngines, Host, LinkDown, LinkUp, Memory, ReadTags,
        };
        let servers = [Host, LinkUp, LinkDown, Cores, Memory];
        let busiest = servers.into_iter().max_by(|a, b| self.of(*a).total_cmp(&self.of(*b)));
        if let Some(server) = busiest.filter(|server| self.of(*server) >= BOUND) {
            return Some(server);
        }
        // Credits are the bottleneck if two conditions hold: for at least 97 % of the time, the
        // link is busy, or is idle because a packet waits for credits; and packets wait for credits
        // for more than 3 % of the time.
        if self.waited(Credits) > 1.0 - BOUND && self.of(link) + self.waited(Credits) >= BOUND {
            return Some(Credits);
        }
        let pools = [[Buffers, ReadTags], [DmaEngines; 2]];
        pools.into_iter().find_map(|pools| {
            let most = pools.into_iter().max_by(|a, b| self.waited(*a).total_cmp(&self.waited(*b)));
            most.filter(|pool| self.waited(*pool) >= WAITED)
        })
    }
}

impl Engine {
    /// Returns the counters at the time `at` (fs), which must not be before the last event.
    pub fn usage(&self, at: u64) -> Usage {
        let processors = self.queues.iter().map(|queue| queue.processor_busy);
        let cores = self.cores_busy / self.cores.len().max(1) as u64;
        let credits = self.credits.iter().map(|pool| pool.busy(at)).max().unwrap_or(0);
        let of = |component: Component| match component {
            Component::Host => processors.clone().max().unwrap_or(0),
            Component::LinkUp => self.up.busy,
            Component::LinkDown => self.down.busy,
            Component::Cores => cores,
            Component::DmaEngines => self.dma.busy(at),
            Component::Buffers => self.buffers.busy(at),
            Component::ReadTags => self.tags.busy(at),
            Component::Credits => credits,
            Component::Memory => self.memory.busy(),
        };
        let waited = |component: Component| match component {
            Component::DmaEngines => self.dma.waited(at),
            Component::Buffers => self.buffers.waited(at),
            Component::ReadTags => self.tags.waited(at),
            Component::Credits => self.credits.iter().map(|pool| pool.waited(at)).sum(),
            _ => 0,
        };
        Usage {
            at,
            waited: Component::ALL.map(waited),
            busy: Component::ALL.map(of),
            link_bytes: [self.up.bytes, self.down.bytes],
            link_packets: [self.up.packets, self.down.packets],
            memory: self.memory.counts(),
        }
    }
}
