#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
use super::{
    fake::{Fake, Hold, PAGE},
    *,
};
use proptest::prelude::*;

const ONE: u32 = 42;
const START: u64 = 1 << 30;
const PLENTY: u64 = 1 << 20;

fn target(weights: &[u32]) -> Target {
    Target::new((0..).zip(weights.iter().copied())).unwrap()
}

/// Makes a machine with two nodes and a process, whose pages are, in order, on the `nodes`.
fn one(nodes: &[u32]) -> Fake {
    let mut fake = Fake::new(&[PLENTY, PLENTY]);
    fake.start(ONE, 1);
    fake.map(ONE, START, 1, nodes);
    fake
}

fn all(fake: &mut Fake, weights: &[u32]) -> Outcome {
    run(fake, &target(weights), None, &[ONE], &mut |_| ControlFlow::Continue(())).unwrap()
}

fn pages(bytes: &NodeBytes) -> Vec<(u32, u64)> {
    let some = bytes.0.iter().filter(|(_, bytes)| **bytes > 0);
    some.map(|(node, bytes)| (*node, bytes / PAGE)).collect()
}

fn left(outcome: &Outcome) -> Vec<(Reason, u64)> {
    outcome.left().into_iter().map(|(reason, bytes)| (reason, bytes / PAGE)).collect()
}

#[test]
fn pages_go_where_they_should_and_no_others() {
    let mut fake = one(&[0; 2000]);
    let outcome = all(&mut fake, &[60, 40]);
    assert_eq!(fake.counts(), [1200, 800]);
    assert_eq!(pages(&outcome.before()), [(0, 2000)]);
    assert_eq!(pages(&outcome.after()), [(0, 1200), (1, 800)]);
    assert_eq!((outcome.moved_bytes(), outcome.passes), (800 * PAGE, 2));
    assert_eq!((left(&outcome), outcome.stopped, fake.requests), (vec![], false, 800));
    let again = all(&mut fake, &[60, 40]);
    assert_eq!((again.moved_bytes(), again.passes, fake.requests), (0, 1, 800));
}

#[test]
fn huge_pages_are_asked_for_once() {
    let mut fake = Fake::new(&[PLENTY, PLENTY]);
    fake.start(ONE, 1);
    // One mapping: the last 100 base pages of a huge page, 100 huge pages, and the first 100 base
    // pages of another huge page.
    fake.map(ONE, START - 100 * PAGE, 512, &[0; 100 + 512 * 100 + 100]);
    fake.folio = 512;
    let outcome = all(&mut fake, &[1, 1]);
    // At both ends of the mapping, only a part of a folio is mapped. The pages of such a part are
    // requested one by one, as base pages, but all of them migrate with the first one.
    let huge = |count: usize| count / 512;
    assert_eq!(fake.counts().into_iter().map(huge).collect::<Vec<_>>(), [50, 50]);
    assert!(fake.requests < 1000, "{} asked for", fake.requests);
    assert!(left(&outcome).iter().all(|(_, pages)| *pages <= 200), "{outcome:?}");
}

#[test]
fn base_pages_in_a_presumed_huge_page_are_moved_singly() {
    let mut fake = Fake::new(&[PLENTY, PLENTY]);
    fake.start(ONE, 1);
    fake.map(ONE, START, 512, &[0; 512 * 10]);
    let outcome = all(&mut fake, &[1, 1]);
    assert_eq!(fake.counts(), [2560, 2560]);
    assert_eq!((left(&outcome), outcome.moved_bytes()), (vec![], 2560 * PAGE));
}

#[test]
fn unreported_large_folios_are_detected() {
    for size in [4, 16, 64, 512] {
        let mut fake = one(&[0; 512 * 40]);
        fake.folio = size;
        let outcome = all(&mut fake, &[3, 1]);
        let off = fake.counts()[1].abs_diff(5120) as u64;
        assert!(off <= size, "{size}: {:?}", fake.counts());
        assert!(outcome.moved_bytes() / PAGE <= 5120 + 2 * size, "{size}: {outcome:?}");
        assert_eq!(left(&outcome), [], "{size}");
    }
}

#[test]
fn other_pages_replace_busy_ones() {
    for hold in [Hold::Pinned, Hold::Busy(u32::MAX), Hold::Shared, Hold::Lies] {
        let mut fake = one(&[0; 2048]);
        fake.hold(hold, |page| page % 3 == 0);
        let outcome = all(&mut fake, &[1, 1]);
        assert_eq!((fake.counts(), left(&outcome)), (vec![1024, 1024], vec![]), "{hold:?}");
    }
}

#[test]
fn pages_that_do_not_move_are_reported() {
    let table = [
        (Hold::Pinned, Reason::Busy),
        (Hold::Busy(u32::MAX), Reason::Busy),
        (Hold::Shared, Reason::Shared),
        (Hold::Lies, Reason::Returned),
    ];
    for (hold, reason) in table {
        let mut fake = one(&[0; 2048]);
        fake.hold(hold, |page| page % 4 != 0);
        let outcome = all(&mut fake, &[1, 1]);
        // Only a quarter of the pages can migrate, although half of all pages should.
        assert_eq!(fake.counts(), [1536, 512], "{hold:?}");
        assert_eq!(left(&outcome), [(reason, 512)], "{hold:?}");
        assert_eq!(pages(&outcome.after()), [(0, 1536), (1, 512)], "{hold:?}");
    }
}

#[test]
fn busy_pages_are_retried() {
    let mut fake = one(&[0; 1024]);
    fake.hold(Hold::Busy(2), |_| true);
    let outcome = all(&mut fake, &[0, 1]);
    assert_eq!((fake.counts(), left(&outcome)), (vec![0, 1024], vec![]));
    assert!(outcome.passes > 2 && fake.paused >= BUSY_PAUSE);
}

#[test]
fn a_full_node_is_reported_and_not_retried() {
    let mut fake = one(&[0; 100_000]);
    fake.free.insert(1, 1000);
    let outcome = all(&mut fake, &[1, 1]);
    assert_eq!(fake.counts(), [99_000, 1000]);
    assert_eq!(left(&outcome), [(Reason::Full(1), 49_000)]);
    assert!(fake.calls < 30, "{} calls", fake.calls);
    assert!(!outcome.stopped && outcome.processes[0].moved_bytes == 1000 * PAGE);
}

#[test]
fn pages_that_leave_a_full_node_make_room() {
    // Each window of the planner has 512 pages on one node, and successive windows alternate
    // between the nodes. Either one node is full, or both are nearly full. All pages reach the
    // ratio nevertheless.
    let nodes: Vec<u32> = (0..512 * 40).map(|at| u32::from(at / 512 % 2 == 0)).collect();
    for free in [[0, 2000], [2000, 0], [50, 50]] {
        let mut fake = one(&nodes);
        fake.free = (0..).zip(free).collect();
        let outcome = all(&mut fake, &[1, 1]);
        assert_eq!(left(&outcome), [], "{free:?}");
        assert_eq!(pages(&outcome.after()), [(0, 10240), (1, 10240)]);
        assert_eq!(outcome.moved_bytes(), 10240 * PAGE);
    }
}

#[test]
fn a_process_that_ends_in_the_middle_is_no_failure() {
    for (calls, ends_slowly) in (0..4).flat_map(|calls| [(calls, false), (calls, true)]) {
        let mut fake = one(&[0; 100_000]);
        fake.start(43, ONE);
        fake.map(43, START, 1, &[0; 1000]);
        (fake.ends, fake.ends_slowly) = (Some((ONE, calls)), ends_slowly);
        let outcome = all(&mut fake, &[1, 1]);
        assert!(outcome.processes[0].ended && !outcome.processes[1].ended);
        assert_eq!(pages(&outcome.after()), [(0, 500), (1, 500)], "the other one is done");
        assert!(!outcome.stopped);
    }
}

/// The memory of a process is released between two readings of the process's files. The process
/// counts as ended, not as a process without pages.
#[test]
fn a_process_whose_memory_is_gone_has_ended() {
    let mut fake = one(&[0; 1000]);
    fake.ends_when_read = Some(ONE);
    let outcome = all(&mut fake, &[1, 1]);
    assert!(outcome.processes[0].ended && outcome.passes == 1);
}

#[test]
fn children_are_moved_and_foreign_ones_reported() {
    let mut fake = one(&[0; 100]);
    fake.start(43, ONE);
    fake.map(43, START, 1, &[0; 100]);
    fake.start(44, ONE);
    fake.start(50, 1);
    fake.map(50, START, 1, &[0; 100]);
    fake.foreign.insert(44);
    let outcome = all(&mut fake, &[1, 1]);
    assert_eq!(pages(&outcome.after()), [(0, 100), (1, 100)], "not those of 50");
    let message = outcome.refused[0].to_string();
    assert_eq!(message, "process 44 (program-44): its memory is not ours to move");
    let failed = |fake: &mut Fake, pid: u32| {
        let result = run(fake, &target(&[1]), None, &[pid], &mut |_| ControlFlow::Continue(()));
        result.unwrap_err().to_string()
    };
    assert_eq!(failed(&mut fake, 44), message);
    assert_eq!(failed(&mut fake, 99), "there is no process 99");
    fake.allowed = Some([1].into_iter().collect());
    let message = failed(&mut fake, ONE);
    let expected = "it may not have memory on node 0: its cpuset has 1";
    assert_eq!(message, format!("process 42 (program-42): {expected}"));
}

/// Each named process is migrated independently (`alone`). A process that has ended before, that
/// ends during the migration, or that may not be migrated does not stop the migration of the
/// others.
#[test]
fn ended_and_refused_processes_do_not_stop_the_others() {
    let mut fake = one(&[0; 100]);
    fake.alone = true;
    for pid in [43, 44, 45] {
        fake.start(pid, 1);
        fake.map(pid, START, 1, &[0; 100]);
    }
    fake.foreign.insert(43);
    fake.ends = Some((44, 1));
    let pids = [99, 43, 44, 45, ONE];
    let watch = &mut |_: &Progress<'_>| ControlFlow::Continue(());
    let outcome = run(&mut fake, &target(&[1, 1]), None, &pids, watch).unwrap();
    let refused: Vec<u32> = outcome.refused.iter().map(|it| it.pid).collect();
    assert_eq!(refused, [43]);
    for pid in [45, ONE] {
        let moved = outcome.processes.iter().find(|it| it.pid == pid).unwrap();
        assert_eq!(pages(&moved.after), [(0, 50), (1, 50)], "{pid}");
    }
    assert!(outcome.processes.iter().any(|it| it.pid == 44 && it.ended));
}

#[test]
fn an_observer_can_stop_the_migration() {
    let mut fake = one(&[0; 100_000]);
    let mut last = 0;
    let mut watch = |progress: &Progress<'_>| {
        assert!(progress.moved_bytes >= last && progress.scanned_bytes <= progress.total_bytes);
        last = progress.moved_bytes;
        if last > 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    let outcome = run(&mut fake, &target(&[1, 1]), None, &[ONE], &mut watch).unwrap();
    assert!(outcome.stopped);
    let after = outcome.after();
    assert_eq!(after.on(1), outcome.moved_bytes());
    assert!(after.on(1) > 0 && after.on(1) < 50_000 * PAGE && outcome.passes == 1);
}

#[test]
fn a_rate_is_kept() {
    let mut fake = one(&[0; 2000]);
    let rate = Some(100 * PAGE);
    let target = target(&[1, 1]);
    run(&mut fake, &target, rate, &[ONE], &mut |_| ControlFlow::Continue(())).unwrap();
    assert_eq!(fake.counts(), [1000, 1000]);
    // The rate limit adds no wait before the first portion or after the last.
    let seconds = fake.paused.as_secs_f64();
    assert!((9.8..10.1).contains(&seconds), "{seconds} s for 1000 pages at 100 a second");
}

#[test]
fn pages_of_hugetlbfs_go_one_by_one() {
    let mut fake = one(&[]);
    fake.map(ONE, START, 1, &[0; 512 * 8]);
    fake.areas.get_mut(&ONE).unwrap()[1].page_bytes = 512 * PAGE;
    fake.folio = 512;
    let outcome = all(&mut fake, &[3, 1]);
    assert_eq!(fake.counts(), [512 * 6, 512 * 2]);
    assert_eq!(pages(&outcome.after()), [(0, 512 * 6), (1, 512 * 2)]);
    assert_eq!(fake.requests, 2);
}

#[test]
fn a_forecast_moves_nothing() {
    let mut fake = one(&[0; 2000]);
    let watch = &mut |_: &Progress<'_>| ControlFlow::Continue(());
    let found = forecast(&mut fake, &target(&[3, 1]), &[ONE], watch).unwrap();
    assert_eq!((pages(&found.bytes), found.planned_bytes), (vec![(0, 2000)], 500 * PAGE));
    assert_eq!((fake.calls, found.shared_bytes, found.processes.len()), (0, 0, 1));
    let absent = Target::new([(5, 1)]).unwrap();
    let message = check(&absent, &mut fake).unwrap_err();
    assert_eq!(message.to_string(), "no node 5 with memory: the machine has 0-1");
    assert_eq!(message.hint(), "interleaf show lists the nodes");
}

fn any_hold() -> impl Strategy<Value = Hold> {
    prop_oneof![
        6 => Just(Hold::Free),
        1 => (0..4_u32).prop_map(Hold::Busy),
        1 => Just(Hold::Pinned),
        1 => Just(Hold::Shared),
        1 => Just(Hold::Lies),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Pages have any faults ([`Hold`]), and nodes have any amount of free memory. The fields
    /// `before` and `after` of the outcome match the simulated machine. The pages that nodes have
    /// above their shares are listed in `left`, except for rounding.
    #[test]
    fn any_machine(
        runs in prop::collection::vec((0..3_u32, 1..600_usize, any_hold(), 0..300_u64), 1..6),
        weights in prop::collection::vec(0..10_u32, 3),
        free in prop::collection::vec(0..3000_u64, 3),
        unit in prop_oneof![Just(1_u32), Just(512_u32)],
        folio in prop_oneof![Just(0_u32), 1..9_u32],
    ) {
        prop_assume!(weights.iter().sum::<u32>() > 0);
        let mut fake = Fake::new(&free);
        fake.start(ONE, 1);
        let mut start = START;
        for (node, count, hold, gap) in runs {
            fake.map(ONE, start, unit, &vec![node; count]);
            let (first, last) = (start / PAGE, start / PAGE + count as u64);
            fake.hold(hold, |page| (first..last).contains(&page));
            start += (count as u64 + gap) * PAGE;
        }
        if folio > 0 {
            fake.folio = 1 << folio;
            // Put all pages of each folio on one node.
            let mut nodes = BTreeMap::new();
            for ((_, address), page) in &mut fake.pages {
                page.node = *nodes.entry((address / PAGE) >> folio).or_insert(page.node);
            }
        }
        let before = fake.counts();
        let outcome = all(&mut fake, &weights);
        let shown = |bytes: NodeBytes| -> Vec<usize> {
            (0..3).map(|node| (bytes.on(node) / PAGE) as usize).collect()
        };
        prop_assert_eq!(shown(outcome.before()), before);
        prop_assert_eq!(shown(outcome.after()), fake.counts());
        let short: u64 = outcome.left().values().sum::<u64>() / PAGE;
        let target = target(&weights);
        let all = fake.pages.len() as f64;
        let off: f64 = fake.counts().iter().zip(0..).map(|(has, node)| {
            (*has as f64 - target.share(node) * all).max(0.0)
        }).sum();
        // By rounding, each of three nodes has at most one base page and one huge page (512 base
        // pages) more than its share.
        prop_assert!(off <= short as f64 + 3.0 * (1.0 + 512.0), "{off} off, {short} left");
    }
}

// --- This machine -------------------------------------------------------------------------------

#[test]
fn this_process_is_looked_at() {
    let here = Target::new([(0, 1)]).unwrap();
    let mut memory = vec![1_u8; 64 << 20];
    let mut migrator = Migrator::new(here).unwrap();
    let mut reports = 0;
    let outcome = migrator.run(&[std::process::id()], &mut |progress| {
        reports += 1;
        assert!(progress.process.pid > 0 && progress.moved_bytes == 0);
        ControlFlow::Continue(())
    });
    memory.fill(2);
    let nodes = crate::machine::node::online(&crate::root::Root::live()).unwrap();
    let outcome = outcome.unwrap();
    let mine = &outcome.processes[0];
    assert!(mine.after.total() >= 64 << 20 && reports > 0, "{mine:?}");
    if nodes.len() == 1 {
        assert_eq!((mine.moved_bytes, mine.left.len(), outcome.passes), (0, 0, 1));
    }
}

#[test]
fn nodes_that_are_not_there_are_refused() {
    let far = Migrator::new(Target::new([(0, 1), (900, 1)]).unwrap()).unwrap_err().to_string();
    assert!(far.starts_with("no node 900 with memory: the machine has 0"), "{far}");
}

#[test]
fn a_process_that_is_not_there_is_refused() {
    let mut migrator = Migrator::new(Target::new([(0, 1)]).unwrap()).unwrap();
    let watch = &mut |_: &Progress<'_>| ControlFlow::Continue(());
    let none = migrator.forecast(&[u32::MAX], watch).unwrap_err();
    assert_eq!(none.to_string(), "there is no process 4294967295");
}
