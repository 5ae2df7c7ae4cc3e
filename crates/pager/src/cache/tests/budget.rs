//! A budget that changes while pages are in use.

use super::*;

/// Frames of which at least so many are used, with extents of 4 pages and several threads.
const LEAST: usize = 32;

impl World {
    /// What frames are others' now has nothing in it any more.
    fn lend(&mut self) {
        for (frame, order) in self.cache.newly_released().to_vec() {
            self.frames[frame as usize..][..1 << order].fill(None);
        }
    }
}

#[test]
fn frames_come_and_go_and_no_page_holds_what_it_should_not() {
    for seed in 0..20 {
        let mut world = World::new(SETTINGS, 300, 3, seed);
        let mut budget = SETTINGS.frames;
        world.run(30_000, |world, thread| {
            if world.random.next_u64().is_multiple_of(100) {
                budget = (LEAST + world.below(SETTINGS.frames as usize - LEAST + 1)) as u32;
                world.on(Event::Budget(budget));
            }
            world.lend();
            mixed(world, thread)
        });
        // The last of what was to go goes with what happens next.
        world.run(1000, mixed);
        assert_eq!(world.cache.used_frames(), budget, "seed {seed}");
        world.lend();
        let there = world.frames.iter().chain(&world.mapped).flatten().count();
        assert!(there <= budget as usize, "{there} of {budget}, seed {seed}");
        world.on(Event::Budget(SETTINGS.frames));
        world.settle();
        assert_eq!(world.cache.used_frames(), SETTINGS.frames);
        world.run(10_000, mixed);
    }
}

#[test]
fn a_budget_that_is_small_from_the_start_is_kept() {
    let mut world = World::new(SETTINGS, 300, 3, 1);
    world.cache.resize(40);
    assert_eq!(world.cache.used_frames(), 40);
    world.lend();
    world.run(30_000, mixed);
    let there = world.frames.iter().chain(&world.mapped).flatten().count();
    assert!(there <= 40, "{there}");
}
