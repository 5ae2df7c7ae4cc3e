//! Tests of liveness: each waiting fault is served at the latest when all pending actions are
//! carried out.

use super::*;

/// When no page is inactive any more, a fault may find no free frame and no eviction in progress.
/// The cache must then drop prefetched pages, and serve the fault with their frames.
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

/// No 128 contiguous frames are free. In the first huge page of frames, mapped pages keep 48 of
/// each 128 frames. In the second, pinned pages keep the first of each 128 frames. New pages come
/// into the second huge page, which has more free frames and is therefore compacted. Compaction
/// must not evict each new page at the next fault: a thread that needs two pages at once, or that
/// runs late, would fault for ever.
#[test]
fn compaction_leaves_new_pages_mapped() {
    let settings = Settings { frames: 1024, order: 2, prefetch: Limits { initial: 16, max: 64 } };
    let mut simulation = Simulation::new(settings, 1 << 13, 1, 1);
    simulation.on(Event::Advised(0..1024, Advice::Random, 0));
    for page in 0..900 {
        simulation.touch(0, page, false);
        simulation.settle();
    }
    for page in 0..900 {
        let residency = &simulation.cache.residency;
        let frame = residency.find(page).map(|id| residency.extent(id).span().frame);
        if frame.is_some_and(|frame| frame < 512 && frame % 128 < 48) {
            continue;
        } else if frame.is_some_and(|frame| frame.is_multiple_of(128)) {
            simulation.on(Event::Advised(page..page + 1, Advice::Pin, 0));
        } else {
            simulation.discarding = Some(page..page + 1);
            simulation.expected[page as usize] = 0;
            simulation.on(Event::Discarded(page..page + 1));
        }
        simulation.settle();
    }
    // The distances between the pages are irregular, so that the pages form no stream.
    let pages: [Page; 6] = [2048, 5300, 3100, 7700, 4000, 2600];
    for (at, page) in pages.into_iter().enumerate() {
        simulation.touch(0, page, false);
        simulation.settle();
        for needed in &pages[at.saturating_sub(1)..=at] {
            assert!(simulation.mapped[*needed as usize].is_some(), "{needed} after {page}");
        }
    }
}
