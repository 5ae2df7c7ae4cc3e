//! Tests of prefetches and of their counters.

use super::*;

#[test]
fn a_sweep_is_prefetched() {
    let mut simulation = Simulation::new(Settings { frames: 256, ..SETTINGS }, 1024, 1, 1);
    let mut at = 0;
    simulation.run(60_000, |_, _| {
        at += 1;
        ((at - 1) % 1024, true)
    });
    let Counts { read, prefetched, prefetch_wasted, .. } = *simulation.cache.counts();
    assert!(prefetched * 5 > read * 4, "{prefetched} of {read}");
    assert!(prefetch_wasted * 20 < prefetched, "{prefetch_wasted} of {prefetched}");
}

/// The first pass over new memory prefetches zeros. They are not read, and must not be counted as
/// prefetched.
#[test]
fn prefetches_of_zeros_are_not_counted() {
    let mut simulation = Simulation::new(Settings { frames: 256, ..SETTINGS }, 1024, 1, 1);
    let mut sweep = |last: Page| {
        for page in 0..last {
            simulation.touch(0, page, true);
            simulation.settle();
        }
        *simulation.cache.counts()
    };
    let first = sweep(1024);
    let Counts { read, prefetched, prefetch_hits, prefetch_wasted, .. } = first;
    assert_eq!((read, prefetched, prefetch_hits, prefetch_wasted), (0, 0, 0, 0));
    assert!(first.faults < 512, "zeros were prefetched: {} faults", first.faults);
    let second = sweep(512);
    assert!(second.prefetched > 256, "{second:?}");
    assert!(second.prefetched <= second.read, "{second:?}");
    assert!(second.prefetch_hits + second.prefetch_wasted <= second.prefetched, "{second:?}");
}

/// Prefetched pages of a stream that has ended must be dropped before touched pages are evicted.
#[test]
fn stale_prefetches_are_dropped() {
    let settings = Settings { frames: 2048, order: 2, prefetch: Limits { initial: 16, max: 256 } };
    let mut simulation = Simulation::new(settings, 1 << 16, 1, 1);
    let frames = Page::from(settings.frames);
    let mut touch = |page: Page| {
        simulation.touch(0, page, true);
        simulation.settle();
        simulation.cache.prefetch.frames(0)
    };
    (0..2 * frames).for_each(|page| _ = touch(page));
    let swept: Vec<u32> = (0..frames).map(&mut touch).collect();
    assert!(swept.last().is_some_and(|prefetched| *prefetched > 0), "a stream was prefetched");
    let mut random = Pcg64Mcg::seed_from_u64(7);
    let mut left = u32::MAX;
    for _ in 0..frames {
        left = touch(4 * frames + u64::from(random.next_u32()) % (1 << 15));
    }
    assert_eq!(left, 0, "no prefetch is left");
}
