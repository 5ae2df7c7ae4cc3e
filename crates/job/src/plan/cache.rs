//! Computes the speed of a demand whose footprint does not fit into memory: DRAM is a cache over a
//! drive.
//!
//! The demand makes the same accesses as with all pages in DRAM, spread over the footprint by the
//! hotness of the pages. The hottest pages are in DRAM. Accesses to the other pages cause reads
//! from the drive and write-backs to the drive, in the mix of the traffic:
//!
//! ```text
//! sequential   bytes of the drive = traffic of DRAM x share of the accesses outside of DRAM
//! random       the same, but a page of 4 KiB for each line outside of DRAM
//! ```
//!
//! Example: uniform traffic of 400 GB/s to 1 TiB, of which 768 GiB are in DRAM. A quarter of the
//! accesses miss, so the drive would have to transfer 100 GB/s; a drive of 10 GB/s makes the
//! program ten times slower.

use interleaf_extend_forecast::{
    drive::{Drive, PAGE_BYTES},
    forecast::Model,
    miss_curve::{MissCurve, Point, Traffic},
};
use interleaf_model::{
    demand::{Demand, Hotness},
    mix::Mix,
    units::LINE_BYTES,
};

/// Number of equal steps of the DRAM budget, from no DRAM to the whole footprint. The miss curve
/// has a point at both ends of each step.
const STEPS: u64 = 64;

/// Returns the fraction of the accesses that go to the hottest pages of the footprint, if these
/// pages are the fraction `pages` (0 to 1) of the footprint.
fn hit_share(hotness: Hotness, pages: f64) -> f64 {
    match hotness {
        Hotness::Uniform => pages,
        // The integral of k^-s over the ranks k of pages, from 0 to `pages`, relative to the
        // integral from 0 to 1. The integral is finite only for an exponent s below 1, so larger
        // exponents count as 0.99.
        Hotness::Zipf { exponent } => libm::pow(pages, 1.0 - exponent.min(0.99)),
        Hotness::HotSet { pages: hot, accesses } => {
            let inside = if hot > 0.0 { accesses * (pages / hot).min(1.0) } else { accesses };
            let cold = if hot < 1.0 { ((pages - hot) / (1.0 - hot)).max(0.0) } else { 0.0 };
            inside + (1.0 - accesses) * cold
        }
    }
}

/// Returns the miss curve of a demand: the bytes that the drive transfers, by the size of the DRAM
/// (the budget). The bytes are those of a fixed amount of work: the work that takes a second with
/// all pages in DRAM.
fn curve(demand: &Demand, mix: Mix, dram_gbps: f64, footprint_bytes: u64) -> MissCurve {
    let amplification = if mix.random() { PAGE_BYTES / LINE_BYTES } else { 1.0 };
    let point = |step: u64| {
        let share = step as f64 / STEPS as f64;
        let missed = 1.0 - hit_share(demand.hotness, share);
        let bytes = missed * dram_gbps * 1e9 * amplification;
        let read_bytes = bytes * mix.read_share();
        let traffic = Traffic { read_bytes, written_bytes: bytes - read_bytes };
        Point { budget_bytes: (share * footprint_bytes as f64) as u64, traffic }
    };
    MissCurve::of_points(footprint_bytes, (0..STEPS).map(point).collect())
}

/// Returns the speed with `budget_bytes` of DRAM as a cache over `drive`, divided by the speed with
/// all data in DRAM.
pub(super) fn efficiency(
    demand: &Demand,
    dram_gbps: f64,
    threads: u32,
    [footprint_bytes, budget_bytes]: [u64; 2],
    drive: &Drive,
) -> f64 {
    let mix = demand.mix;
    let curve = curve(demand, mix, dram_gbps, footprint_bytes);
    let mut model = Model::overlapped(1.0, threads);
    if mix.random() {
        // Random accesses cannot be predicted, so no page is prefetched, and threads wait for each
        // page.
        (model.overlap, model.demand_share) = (0.0, 1.0);
    }
    model.forecast(&curve, drive, true, budget_bytes).efficiency
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hot_pages_have_their_share_of_the_accesses() {
        let hot = Hotness::HotSet { pages: 0.2, accesses: 0.8 };
        for (hotness, pages, expected) in [
            (Hotness::Uniform, 0.25, 0.25),
            (Hotness::Zipf { exponent: 0.5 }, 0.25, 0.5),
            (hot, 0.1, 0.4),
            (hot, 0.2, 0.8),
            (hot, 0.6, 0.9),
            (hot, 1.0, 1.0),
        ] {
            let found = hit_share(hotness, pages);
            assert!((found - expected).abs() < 1e-12, "{hotness:?} {pages}: {found}");
        }
    }
}
