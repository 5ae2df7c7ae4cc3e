//! Tests of liveness: each waiting fault is served, at the latest when all pending events have
//! arrived.

use super::*;

/// Once the program has touched all inactive pages again, a fault may find no free frame and no
/// eviction in progress. The fault must then be served with frames of prefetched pages, which are
/// dropped for the fault.
#[test]
fn dropped_prefetches_serve_waiting_faults() {
    for seed in 8..12 {
        let settings =
            Settings { frames: 512, order: 2, prefetch: Limits { initial: 16, max: 64 } };
        let mut simulation = Simulation::new(settings, 1 << 13, 1, 1);
        let mut random = Pcg64Mcg::seed_from_u64(seed);
        let touch = |simulation: &mut Simulation, page: Page| {
            simulation.touch(0, page, true);
            simulation.settle();
        };
        (0..1024).chain(0..512).for_each(|page| touch(&mut simulation, page));
        let before = simulation.cache.counts().prefetch_wasted;
        for _ in 0..8192 {
            while let Some(id) = simulation.cache.residency.oldest_inactive(0) {
                let page = simulation.cache.residency.extent(id).span().page;
                touch(&mut simulation, page);
            }
            touch(&mut simulation, 2048 + u64::from(random.next_u32()) % (1 << 12));
        }
        assert!(simulation.cache.counts().prefetch_wasted > before, "prefetches were dropped");
    }
}
