#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use super::*;

/// The simulated state of the fast path: the extents that threads have mapped themselves.
#[derive(Default)]
pub(super) struct FastPath {
    /// Faults that were not committed to the cache yet; at most `log_max`.
    log: Vec<(PageFault, ExtentId)>,
    log_max: usize,
    /// Extents that threads have mapped, and whose action `MoveIn` is still pending.
    moved: Vec<ExtentId>,
    count: usize,
}

impl Simulation {
    /// Lets a thread map the extent of a page itself, if the cache and the length of the log allow
    /// it. Returns true if the thread has mapped the extent.
    pub(super) fn try_map(&mut self, thread: usize, page: Page) -> bool {
        let Some(fast_path) = &mut self.fast_path else { return false };
        if fast_path.log.len() == fast_path.log_max {
            return false;
        }
        match self.cache.try_map(page) {
            MapAttempt::Wait => false,
            MapAttempt::AlreadyMapped => panic!("page {page} is not mapped"),
            MapAttempt::Move { id, span, .. } => {
                let thread = thread as u32;
                fast_path.log.push((PageFault { node: 0, thread, page, offset: 0 }, id));
                fast_path.count += 1;
                self.move_in(span);
                assert!(self.mapped[page as usize].is_some());
                assert_eq!(
                    self.cache.try_map(page),
                    MapAttempt::AlreadyMapped,
                    "no extent is claimed twice"
                );
                true
            }
        }
    }

    /// Reports the faults in the log to the cache, and queues the actions that follow. The cache
    /// must request one `MoveIn` for each fault.
    pub(super) fn commit_mapped(&mut self) {
        let Some(fast_path) = self.fast_path.as_mut().filter(|fast_path| !fast_path.log.is_empty())
        else {
            return;
        };
        let log = std::mem::take(&mut fast_path.log);
        fast_path.moved.extend(log.iter().map(|(_, id)| id));
        let mut actions = vec![];
        self.cache.commit_mapped(log.iter().map(|(touch, _)| *touch), &mut actions);
        for (_, mapped) in log {
            let moves = |it: &&Action| matches!(it, Action::MoveIn(id, _) if *id == mapped);
            assert_eq!(actions.iter().filter(moves).count(), 1);
        }
        self.todo.extend(actions);
    }

    /// True if a thread has already mapped the extent itself, so that the action `MoveIn` must do
    /// nothing. Also removes the extent from `moved`: the next call returns false.
    pub(super) fn has_moved(&mut self, id: ExtentId) -> bool {
        let Some(fast_path) = &mut self.fast_path else { return false };
        let at = fast_path.moved.iter().position(|moved| *moved == id);
        at.map(|at| fast_path.moved.swap_remove(at)).is_some()
    }
}

/// Threads map extents on the fast path while other extents are pinned, discarded, or evicted by
/// advice. Each thread must read the content that was written last.
#[test]
fn threads_on_the_fast_path_see_the_last_content() {
    for seed in 0..20 {
        let mut simulation = Simulation::new(SETTINGS, 300, 3, seed);
        simulation.fast_path = Some(FastPath { log_max: 1 + seed as usize, ..FastPath::default() });
        simulation.pins_one_in = 7;
        simulation.run(30_000, |simulation, thread| {
            match simulation.random.next_u64() % 40 {
                0 => simulation.discard(),
                1 => simulation.commit_mapped(),
                2 => simulation.on(Event::Advised(0..300, Advice::Cold, 0)),
                _ => {}
            }
            mixed(simulation, thread)
        });
        simulation.commit_mapped();
        simulation.settle();
        let fast_path = simulation.fast_path.as_ref().unwrap();
        assert!(fast_path.count > 5 && fast_path.moved.is_empty(), "{} times", fast_path.count);
        assert!(simulation.cache.counts().minor_faults >= fast_path.count as u64);
    }
}

/// A thread may map an inactive extent itself. While the process forks, the thread must wait
/// instead.
#[test]
fn no_extent_is_mapped_while_the_process_forks() {
    let mut simulation = Simulation::new(SETTINGS, 8, 1, 0);
    simulation.touch(0, 0, true);
    simulation.settle();
    simulation.on(Event::Advised(0..8, Advice::Cold, 0));
    simulation.settle();
    assert!(matches!(simulation.cache.try_map(0), MapAttempt::Move { .. }));
    let mut simulation = Simulation::new(SETTINGS, 8, 1, 0);
    simulation.touch(0, 0, true);
    simulation.settle();
    simulation.on(Event::Freeze);
    simulation.settle();
    assert_eq!(simulation.cache.try_map(0), MapAttempt::Wait);
}
