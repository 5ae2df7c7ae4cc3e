//! Tests of the budget that is recommended to a program that thrashes.

use super::*;

/// The program uses 2304 pages of a region of a million pages. Of these, 256 are pinned, and
/// therefore never loaded while the program thrashes. The recommended budget must have room for all
/// 2304 pages.
#[test]
fn the_recommended_budget_holds_all_used_pages_and_no_untouched_ones() {
    const PINNED: Page = 256;
    const USED: Page = 2304;
    let settings = Settings { frames: 1024, order: 0, ..SETTINGS };
    let mut simulation = Simulation::new(settings, 1 << 20, 1, 1);
    simulation.on(Event::Advised(0..PINNED, Advice::Pin, 0));
    simulation.on(Event::Advised(PINNED..USED, Advice::Random, 0));
    for page in 0..USED {
        simulation.touch(0, page, true);
        simulation.settle();
    }
    let mut found = vec![];
    for _ in 0..20 {
        for _ in 0..1024 {
            let page = PINNED + simulation.below((USED - PINNED) as usize) as Page;
            simulation.touch(0, page, true);
            simulation.settle();
        }
        found.extend(simulation.cache.end_period(1.0));
    }
    let [enough] = found[..] else { panic!("one recommendation: {found:?}") };
    let all = USED + USED / 15;
    assert!((all * 9 / 10..=all).contains(&enough), "{enough}, not {all}");
    assert!(enough > USED - PINNED + (USED - PINNED) / 15, "the pinned pages are added: {enough}");
}
