//! Tests of caches whose frames are on several nodes.

use super::*;
use crate::cache::node::Node;

/// Settings with a budget of 1024 frames. With two nodes, the even share of a node is 512 frames. A
/// share changes in steps of a sixteenth of the even share: 32 frames (`Shares`).
const BUDGET: Settings = Settings { frames: 1024, ..SETTINGS };

/// Number of pages of each thread's own array: twice the even share of a node.
const ARRAY: usize = 1024;

/// Maximum number of pages of the second array that may be on the first node. The stream of the
/// first thread may prefetch these pages, because they follow its own array.
const PAST_THE_END: usize = 16;

impl Simulation {
    /// Simulates two nodes, with one thread on each. Each thread has its own array.
    fn on_two_nodes(division: Division, seed: u64) -> Self {
        Self::with_nodes(BUDGET, division, 2 * ARRAY, 2, seed)
    }

    /// The number of resident pages of the array with index `array` on each node.
    fn resident(&self, array: usize) -> [usize; 2] {
        let mut found = [0; 2];
        for page in array * ARRAY..(array + 1) * ARRAY {
            if let Some(id) = self.cache.residency.find(page as Page) {
                let frame = self.cache.residency.extent(id).span().frame;
                found[usize::from(self.cache.node_of(frame))] += 1;
            }
        }
        found
    }

    /// Lets each thread touch all pages of its own array in order, at least `rounds` times.
    fn sweep(&mut self, rounds: usize) {
        let mut next = [0; 2];
        let steps = rounds * 2 * ARRAY;
        self.run(8 * steps, |_, thread| {
            let page = thread * ARRAY + next[thread] % ARRAY;
            next[thread] += 1;
            (page as Page, next[thread] % 3 == 0)
        });
        assert!(next.iter().all(|touches| *touches >= rounds * ARRAY), "{next:?}");
    }

    /// Discards the content of released frames. Asserts that frames and regions together then hold
    /// at most as many pages as the budget.
    fn assert_within_budget(&mut self) {
        self.release();
        let with_page = self.frames.iter().chain(&self.mapped).flatten().count();
        assert!(with_page <= BUDGET.frames as usize, "{with_page} pages");
    }
}

fn divisions() -> [Division; 2] {
    [Division::by_use(BUDGET.frames, &[BUDGET.frames; 2]), Division::fixed(&[512, 512])]
}

#[test]
fn pages_are_on_the_node_of_the_thread_that_touches_them() {
    for division in divisions() {
        let mut simulation = Simulation::on_two_nodes(division, 1);
        simulation.sweep(3);
        let (first, second) = (simulation.resident(0), simulation.resident(1));
        assert!(first[0] > 300 && first[1] == 0, "{first:?}");
        assert!(second[1] > 300 && second[0] <= PAST_THE_END, "{second:?}");
        assert!(simulation.cache.counts().prefetched > 0, "prefetched pages are placed too");
        simulation.assert_within_budget();
    }
}

#[test]
fn pages_move_to_the_other_node_when_their_thread_does() {
    for division in divisions() {
        let mut simulation = Simulation::on_two_nodes(division, 2);
        simulation.sweep(2);
        simulation.nodes = vec![1, 0];
        simulation.sweep(5);
        let (first, second) = (simulation.resident(0), simulation.resident(1));
        assert!(first[1] > 9 * first[0] && second[0] > 9 * second[1], "{first:?} {second:?}");
    }
}

#[test]
fn a_thread_alone_uses_the_whole_budget_of_its_node() {
    let mut simulation =
        Simulation::on_two_nodes(Division::by_use(BUDGET.frames, &[BUDGET.frames; 2]), 3);
    // First both threads touch the first array. Then the second thread runs alone, on its own
    // array.
    simulation.run(8 * ARRAY, |simulation, thread| (simulation.below(ARRAY) as Page, thread == 0));
    let mut at = ARRAY;
    for _ in 0..6 * ARRAY {
        simulation.touch(1, at as Page, true);
        simulation.settle();
        at = ARRAY + (at + 7) % ARRAY;
    }
    let second = simulation.resident(1);
    assert!(second[1] > 900 && second[0] == 0, "{second:?} of {ARRAY} pages");
    simulation.assert_within_budget();
}

#[test]
fn fixed_shares_stay_fixed() {
    let mut simulation = Simulation::on_two_nodes(Division::fixed(&[768, 256]), 4);
    simulation.sweep(4);
    let shares = [0, 1].map(|node| simulation.cache.used_frames_of(node));
    assert_eq!(shares, [768, 256]);
    let (first, second) = (simulation.resident(0), simulation.resident(1));
    assert!(
        first[0] > 512 && second[1] <= 256 && second[0] <= PAST_THE_END,
        "{first:?} {second:?}"
    );
}

#[test]
fn every_page_holds_its_last_content_while_threads_migrate_and_the_budget_changes() {
    for seed in 0..20 {
        let settings = Settings { frames: 160, ..SETTINGS };
        let division = match seed % 2 {
            0 => Division::by_use(settings.frames, &[160, 100, 160]),
            _ => Division::fixed(&[64, 0, 96]),
        };
        let mut simulation = Simulation::with_nodes(settings, division, 600, 4, seed);
        let mut budget = settings.frames;
        simulation.run(40_000, |simulation, thread| {
            if simulation.random.next_u64().is_multiple_of(20) {
                simulation.nodes[thread] = simulation.below(3) as Node;
            }
            if simulation.random.next_u64().is_multiple_of(100) {
                budget = (64 + simulation.below(97)) as u32;
                simulation.on(Event::Budget(budget));
            }
            simulation.release();
            mixed(simulation, thread)
        });
        simulation.run(1000, mixed);
        assert_eq!(simulation.cache.used_frames(), budget, "seed {seed}");
        simulation.release();
        let resident = simulation.frames.iter().chain(&simulation.mapped).flatten().count();
        assert!(resident <= budget as usize, "{resident} of {budget}, seed {seed}");
    }
}

#[test]
fn a_fault_is_served_when_the_frames_of_its_node_are_pinned() {
    let mut simulation = Simulation::on_two_nodes(Division::fixed(&[768, 256]), 5);
    simulation.on(Event::Advised(0..ARRAY as Page, Advice::Pin, 1));
    for page in 0..2 * ARRAY {
        simulation.touch(1, page as Page, true);
        simulation.settle();
    }
    assert!(simulation.resident(0)[1] > 0);
}

#[test]
fn a_fault_on_a_pinned_node_does_not_wait_for_fills_on_another_node() {
    let mut simulation = Simulation::on_two_nodes(Division::fixed(&[768, 256]), 5);
    let pinned = 256;
    simulation.on(Event::Advised(0..pinned as Page, Advice::Pin, 1));
    for page in 0..pinned {
        simulation.touch(1, page as Page, true);
        simulation.settle();
    }
    assert_eq!(simulation.resident(0)[1], pinned);
    let is_filling = |simulation: &Simulation, page: Page| {
        simulation.todo.iter().any(|action| {
            matches!(action, Action::Zero(_, span) | Action::Read(_, span)
                if span.pages().contains(&page))
        })
    };
    let (first, second) = (ARRAY as Page, ARRAY as Page + 512);
    simulation.touch(0, first, true);
    simulation.touch(1, second, true);
    assert!(is_filling(&simulation, first) && is_filling(&simulation, second));
    simulation.settle();
}
