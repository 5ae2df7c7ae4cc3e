//! Platforms: servers with their tiers.

use crate::{
    mix::Mix,
    provenance::Figure,
    tier::{Answer, Tier},
};

/// A named server: its cores, tiers, links and power.
#[derive(Clone, Debug, PartialEq)]
pub struct Platform {
    /// The name of the platform, as written on the command line.
    pub name: String,
    /// The source of the platform's figures. Single figures may have a source of their own instead.
    pub source: String,
    /// The cores of all domains.
    pub cpu: Cpu,
    /// The sources of traffic: sockets or sub-NUMA clusters; at least one.
    pub domains: Vec<Domain>,
    /// The tiers, the fastest first; at least one.
    pub tiers: Vec<Tier>,
    /// Links that the traffic to some tiers crosses, such as links between sockets.
    pub links: Vec<Link>,
    /// Couplings: traffic on one tier takes bandwidth from another tier.
    pub couplings: Vec<Coupling>,
    /// The number of page streams, which determines how evenly threads load interleaved tiers.
    pub interleaving: Interleaving,
    /// Power of components other than tiers; `None` if the platform has no power figures.
    pub power: Option<Power>,
}

/// The cores of a platform.
#[derive(Clone, Debug, PartialEq)]
pub struct Cpu {
    /// The number of cores in all domains.
    pub cores: u32,
    /// The number of lines that one core can have outstanding: the limit of its memory-level
    /// parallelism.
    pub outstanding_lines_per_core: f64,
    /// Round-trip latency between core and memory controller, ns.
    pub uncore_latency_ns: f64,
}

/// Power of components other than tiers.
///
/// With 250 W idle and 3 W for each core, 100 cores that run for 10 s take (250 + 300) W x 10 s =
/// 5.5 kJ. The power of the tiers ([`TierPower`](crate::tier::TierPower)) is added to that.
#[derive(Clone, Debug, PartialEq)]
pub struct Power {
    /// Power of the server with idle cores and without memory, W.
    pub idle_w: f64,
    /// Additional power of each core that runs a thread, W.
    pub core_w: f64,
    /// The provenance and the source of `idle_w` and `core_w`.
    pub figure: Figure,
}

/// A socket or sub-NUMA cluster, as a source of traffic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Domain {
    /// The name of the domain.
    pub name: String,
    /// The number of cores in the domain.
    pub cores: u32,
}

/// A link, such as one between sockets, that traffic to some tiers crosses.
#[derive(Clone, Debug, PartialEq)]
pub struct Link {
    /// The name of the link.
    pub name: String,
    /// Maximum bandwidth of reads and writes together, GB/s.
    pub bandwidth_gbps: f64,
    /// The tiers behind the link, as indices into [`Platform::tiers`]. No tier is behind two links.
    pub tiers: Vec<usize>,
    /// The domains whose traffic to these tiers crosses the link, as indices into
    /// [`Platform::domains`]; empty for all domains.
    pub domains: Vec<usize>,
    /// The provenance and the source of the bandwidth.
    pub figure: Figure,
}

impl Link {
    /// Returns the fraction of the traffic to the link's tiers that crosses the link.
    /// `domain_parts[i]` is the fraction of the threads that is in domain `i`.
    pub fn crossing(&self, domain_parts: &[f64]) -> f64 {
        if self.domains.is_empty() {
            return 1.0;
        }
        self.domains.iter().filter_map(|domain| domain_parts.get(*domain)).sum()
    }
}

/// A coupling: traffic on one tier takes bandwidth from another tier. The cause may be a mesh that
/// carries the traffic of both tiers.
#[derive(Clone, Debug, PartialEq)]
pub struct Coupling {
    /// The tier that carries the traffic, as an index into [`Platform::tiers`].
    pub from: usize,
    /// The tier that loses bandwidth, as an index into [`Platform::tiers`].
    pub to: usize,
    /// GB/s lost on `to` for each GB/s of traffic on `from`.
    pub loss: f64,
    /// The provenance and the source of `loss`.
    pub figure: Figure,
}

/// The number of page streams, which determines how evenly threads load interleaved tiers.
#[derive(Clone, Debug, PartialEq)]
pub struct Interleaving {
    /// The number of independent page streams that represent the threads.
    ///
    /// A thread walks some pages on one tier, then some on another; all lines of a page come from
    /// one tier. If threads were spread perfectly, the tiers would always be loaded in the ratio of
    /// the weights. With few streams, one tier is sometimes idle while another tier has a queue.
    /// See [`crate::equilibrium`].
    pub page_streams: u32,
    /// The provenance and the source of `page_streams`.
    pub figure: Figure,
}

/// Maximum number of page streams of a platform. More streams would change nothing, because this
/// number already loads the tiers evenly.
pub const PAGE_STREAMS_MAX: u32 = 256;

impl Default for Interleaving {
    /// The number of streams is fitted to the measurements of the CXL white paper in which pages
    /// are on both tiers (`reproduce cxl-interleaving`).
    fn default() -> Self {
        Self {
            page_streams: 16,
            figure: Figure::assumed("as fitted to the mixed MLC points of xeon6-cz122"),
        }
    }
}

impl Platform {
    /// The fraction of threads in each domain; sums to 1. It is proportional to the cores of the
    /// domain, because Linux balances the threads of an unbound program in this way.
    pub fn spread(&self) -> Vec<f64> {
        let cores: u32 = self.domains.iter().map(|domain| domain.cores).sum();
        let part = |domain: &Domain| f64::from(domain.cores) / f64::from(cores.max(1));
        self.domains.iter().map(part).collect()
    }

    /// The fraction of threads in each domain if all threads are in `domain`: 1 for `domain`, 0 for
    /// all others.
    pub fn only(&self, domain: usize) -> Vec<f64> {
        (0..self.domains.len()).map(|at| f64::from(u8::from(at == domain))).collect()
    }

    /// Returns the response of tier `tier` (bandwidth and latency against bytes in flight) to
    /// traffic of `mix`. `domain_parts[i]` is the fraction of the threads that is in domain `i`.
    pub fn answer(&self, tier: usize, domain_parts: &[f64], mix: Mix) -> Answer {
        let curves = &self.tiers[tier].curves;
        let parts = self.domains.iter().zip(domain_parts).filter(|(_, part)| **part > 0.0);
        let mut seen = 0.0;
        let mut blended: Option<Answer> = None;
        for (domain, part) in parts {
            let own = curves.answer(&domain.name, mix);
            seen += part;
            blended = Some(match blended {
                None => own,
                // If two domains have the same response, no blend is needed.
                Some(others) if others == own => others,
                Some(others) => Answer {
                    response: own.response.blend(part / seen, &others.response),
                    extrapolated: others.extrapolated.or(own.extrapolated),
                    provenance: others.provenance.max(own.provenance),
                },
            });
        }
        blended.unwrap_or_else(|| curves.answer(&self.domains[0].name, mix))
    }

    /// The power of the server without load, W: of the components other than tiers, plus the static
    /// power of the tiers. `None` if the platform has no power figures.
    pub fn standing_w(&self) -> Option<f64> {
        let tiers = self.tiers.iter().filter_map(|tier| tier.power.as_ref());
        Some(self.power.as_ref()?.idle_w + tiers.map(|tier| tier.static_w).sum::<f64>())
    }

    /// The power of the traffic on all tiers, W, without the tiers' static power. `tier_gbps` is
    /// the traffic of each tier, GB/s.
    pub fn traffic_w(&self, tier_gbps: &[f64]) -> f64 {
        let tiers = self.tiers.iter().zip(tier_gbps);
        tiers
            .map(|(tier, gbps)| tier.power.as_ref().map_or(0.0, |power| power.traffic_w(*gbps)))
            .sum()
    }

    /// The names of the tiers, in order.
    pub fn tier_names(&self) -> Vec<&str> {
        self.tiers.iter().map(|tier| tier.name.as_str()).collect()
    }
}
