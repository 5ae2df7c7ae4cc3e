//! Tests of a budget that changes while pages are resident.

use super::*;

/// The smallest budget of these tests, frames. With this budget, each of the three threads can
/// still load an extent of 4 pages.
const BUDGET_MIN: usize = 32;

impl Simulation {
    /// Discards the content of released frames, as the kernel does when their memory is given back.
    pub(super) fn release(&mut self) {
        for (frame, order) in self.cache.newly_released() {
            self.frames[frame as usize..][..1 << order].fill(None);
        }
    }
}

#[test]
fn every_page_holds_its_last_content_while_the_budget_changes() {
    for seed in 0..20 {
        let mut simulation = Simulation::new(SETTINGS, 300, 3, seed);
        let mut budget = SETTINGS.frames;
        simulation.run(30_000, |simulation, thread| {
            if simulation.random.next_u64().is_multiple_of(100) {
                budget = (BUDGET_MIN + simulation.below(SETTINGS.frames as usize - BUDGET_MIN + 1))
                    as u32;
                simulation.on(Event::Budget(budget));
            }
            simulation.release();
            mixed(simulation, thread)
        });
        // Continue the run. Frames in use are released only by later events, after their pages were
        // evicted.
        simulation.run(1000, mixed);
        assert_eq!(simulation.cache.used_frames(), budget, "seed {seed}");
        simulation.release();
        let resident = simulation.frames.iter().chain(&simulation.mapped).flatten().count();
        assert!(resident <= budget as usize, "{resident} of {budget}, seed {seed}");
        simulation.on(Event::Budget(SETTINGS.frames));
        simulation.settle();
        assert_eq!(simulation.cache.used_frames(), SETTINGS.frames);
        simulation.run(10_000, mixed);
    }
}

#[test]
fn a_budget_reduced_at_the_start_is_kept() {
    let mut simulation = Simulation::new(SETTINGS, 300, 3, 1);
    simulation.cache.resize(40);
    assert_eq!(simulation.cache.used_frames(), 40);
    simulation.release();
    simulation.run(30_000, mixed);
    let resident = simulation.frames.iter().chain(&simulation.mapped).flatten().count();
    assert!(resident <= 40, "{resident}");
}
