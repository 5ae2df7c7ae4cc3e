#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use super::*;

/// What threads have mapped by themselves.
#[derive(Default)]
pub(super) struct Alone {
    /// What the cache was not told yet, and how much of that there may be.
    notes: Vec<(PageFault, ExtentId)>,
    most: usize,
    /// What it was told of and has not said itself yet.
    moved: Vec<ExtentId>,
    count: usize,
}

impl World {
    /// A thread serves itself, if it can.
    pub(super) fn take(&mut self, thread: usize, page: Page, is_write: bool) -> bool {
        let Some(alone) = &mut self.alone else { return false };
        if alone.notes.len() == alone.most {
            return false;
        }
        match self.cache.try_map(page) {
            MapAttempt::Wait => false,
            MapAttempt::AlreadyMapped => panic!("page {page} is not mapped"),
            MapAttempt::Move { id, span, .. } => {
                let thread = thread as u32;
                alone.notes.push((PageFault { thread, page, offset: 0, is_write }, id));
                alone.count += 1;
                self.move_in(span);
                assert!(self.mapped[page as usize].is_some());
                assert_eq!(
                    self.cache.try_map(page),
                    MapAttempt::AlreadyMapped,
                    "nobody takes it twice"
                );
                true
            }
        }
    }

    /// Tells what threads have mapped.
    pub(super) fn note(&mut self) {
        let Some(alone) = self.alone.as_mut().filter(|alone| !alone.notes.is_empty()) else {
            return;
        };
        let notes = std::mem::take(&mut alone.notes);
        alone.moved.extend(notes.iter().map(|(_, id)| id));
        let mut actions = vec![];
        self.cache.commit_mapped(notes.iter().map(|(touch, _)| *touch), &mut actions);
        for (_, noted) in notes {
            let moves = |it: &&Action| matches!(it, Action::MoveIn(id, _) if *id == noted);
            assert_eq!(actions.iter().filter(moves).count(), 1);
        }
        self.todo.extend(actions);
    }

    /// Whether a thread has moved an extent already that is to be moved.
    pub(super) fn has_moved(&mut self, id: ExtentId) -> bool {
        let Some(alone) = &mut self.alone else { return false };
        let at = alone.moved.iter().position(|moved| *moved == id);
        at.map(|at| alone.moved.swap_remove(at)).is_some()
    }
}

/// As where all is done by one, with drives that fail and pages that are held and discarded.
#[test]
fn threads_that_map_what_is_ready_see_what_they_should() {
    for seed in 0..20 {
        let mut world = World::new(SETTINGS, 300, 3, seed);
        world.alone = Some(Alone { most: 1 + seed as usize, ..Alone::default() });
        world.holds_one_in = 7;
        world.run(30_000, |world, thread| {
            match world.random.next_u64() % 40 {
                0 => world.discard(),
                1 => world.note(),
                2 => world.on(Event::Advised(0..300, Advice::Cold)),
                _ => {}
            }
            mixed(world, thread)
        });
        world.note();
        world.settle();
        let alone = world.alone.as_ref().unwrap();
        assert!(alone.count > 20 && alone.moved.is_empty(), "{} times", alone.count);
        assert!(world.cache.counts().minor_faults >= alone.count as u64);
    }
}

/// Before a fork nothing more comes into the address space.
#[test]
fn nobody_takes_anything_while_the_process_forks() {
    let mut world = World::new(SETTINGS, 8, 1, 0);
    world.touch(0, 0, true);
    world.settle();
    world.on(Event::Advised(0..8, Advice::Cold));
    world.settle();
    assert!(matches!(world.cache.try_map(0), MapAttempt::Move { .. }));
    let mut world = World::new(SETTINGS, 8, 1, 0);
    world.touch(0, 0, true);
    world.settle();
    world.on(Event::Freeze);
    world.settle();
    assert_eq!(world.cache.try_map(0), MapAttempt::Wait);
}
