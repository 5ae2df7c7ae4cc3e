//! A budget that changes while pages are resident.

use super::*;

/// The smallest budget: enough for extents of 4 pages and several threads.
const BUDGET_MIN: usize = 32;

impl World {
    /// Released frames lose their content.
    fn release(&mut self) {
        for (frame, order) in self.cache.newly_released().to_vec() {
            self.frames[frame as usize..][..1 << order].fill(None);
        }
    }
}

#[test]
fn every_page_holds_its_last_content_while_the_budget_changes() {
    for seed in 0..20 {
        let mut world = World::new(SETTINGS, 300, 3, seed);
        let mut budget = SETTINGS.frames;
        world.run(30_000, |world, thread| {
            if world.random.next_u64().is_multiple_of(100) {
                budget =
                    (BUDGET_MIN + world.below(SETTINGS.frames as usize - BUDGET_MIN + 1)) as u32;
                world.on(Event::Budget(budget));
            }
            world.release();
            mixed(world, thread)
        });
        // The last frames are released by later events.
        world.run(1000, mixed);
        assert_eq!(world.cache.used_frames(), budget, "seed {seed}");
        world.release();
        let resident = world.frames.iter().chain(&world.mapped).flatten().count();
        assert!(resident <= budget as usize, "{resident} of {budget}, seed {seed}");
        world.on(Event::Budget(SETTINGS.frames));
        world.settle();
        assert_eq!(world.cache.used_frames(), SETTINGS.frames);
        world.run(10_000, mixed);
    }
}

#[test]
fn a_budget_reduced_at_the_start_is_kept() {
    let mut world = World::new(SETTINGS, 300, 3, 1);
    world.cache.resize(40);
    assert_eq!(world.cache.used_frames(), 40);
    world.release();
    world.run(30_000, mixed);
    let resident = world.frames.iter().chain(&world.mapped).flatten().count();
    assert!(resident <= 40, "{resident}");
}
