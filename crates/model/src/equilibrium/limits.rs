//! Upper bounds of a load's bandwidth. They are cheaper to compute than the load's equilibrium.
//!
//! A search over many shares solves the equilibrium only for shares whose bound is above the best
//! solution so far. Two bounds hold in every closed queueing network: no station serves more than
//! its highest rate, and no customer completes a round faster than it would without queueing (the
//! asymptotic bounds of Muntz and Wong 1974).
//!
//! Example: DRAM has 556 GB/s and CXL 205 GB/s. With weights of 1:1 the bandwidth is at most 205 /
//! 0.5 = 410 GB/s. If 3:1 is known to have 690 GB/s, the equilibrium at 1:1 need not be solved.

/// Upper bounds of the bandwidth of one load, for any shares of its traffic on the tiers.
#[derive(Clone, Debug, PartialEq)]
pub struct BandwidthLimits {
    /// Bytes that circulate between threads and memory: the bytes in flight, and the bytes on which
    /// threads compute.
    pub(super) circulating_bytes: f64,
    /// The highest bandwidth of each tier, GB/s.
    pub(super) tier_gbps: Vec<f64>,
    /// For each tier, the shortest time in which a thread requests its lines from the tier, waits
    /// for them, and computes on them, ns.
    pub(super) tier_round_ns: Vec<f64>,
    /// For each link: the tiers behind the link, and the highest bandwidth that the load can have
    /// on these tiers together, GB/s.
    pub(super) links: Vec<(Vec<usize>, f64)>,
}

impl BandwidthLimits {
    /// Returns an upper bound of the load's bandwidth, GB/s, if the fraction `shares[i]` of its
    /// traffic goes to tier `i`.
    pub fn at(&self, shares: &[f64]) -> f64 {
        let capped = |share: f64, gbps: f64| if share > 0.0 { gbps / share } else { f64::INFINITY };
        let tiers = shares.iter().zip(&self.tier_gbps).map(|(share, gbps)| capped(*share, *gbps));
        let links = self.links.iter().map(|(tiers, gbps)| {
            let share: f64 = tiers.iter().filter_map(|tier| shares.get(*tier)).sum();
            capped(share, *gbps)
        });
        let round_ns: f64 = shares.iter().zip(&self.tier_round_ns).map(|(s, ns)| s * ns).sum();
        tiers.chain(links).fold(self.circulating_bytes / round_ns, f64::min)
    }
}
