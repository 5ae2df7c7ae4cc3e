//! Tests the pager on a machine with two NUMA nodes. The pages of a thread are on the thread's
//! node, and no page has wrong content when threads migrate. The store is in memory.

use interleaf_vm::{
    Series,
    harness::{guest_record, on_each, shown},
    outcome::Record,
};

/// Kernels with `UFFDIO_MOVE`, which Linux 6.8 introduced.
const WITH_MOVES: [Series; 3] = [Series::Of(6, 12), Series::Of(6, 17), Series::Newest];

/// Minimum fraction of a thread's resident pages that must be on the thread's node.
const LOCAL_MIN: f64 = 0.99;

/// Minimum number of resident pages of a thread. The thread that ends its sweep first loses frames
/// to the other thread, until its node has only the minimum share of the budget: 128 frames, an
/// eighth of the even share of 1,024 frames. Less than a third of these 128 frames are the pager's
/// reserve of free frames, so at least 64 of them hold pages.
const RESIDENT_MIN: f64 = 64.0;

/// Returns, for each thread of the program `extend`, its node and the numbers of its resident pages
/// on nodes 0 and 1, as printed after the sweep `round`.
fn placed(lines: &[String], round: u32) -> Vec<(usize, [f64; 2])> {
    let of_round = |line: &String| {
        let rest = line.strip_prefix(&format!("round {round} node "))?;
        let (node, pages) = rest.split_once(" pages")?;
        let mut counts = [0.0; 2];
        for word in pages.split_whitespace() {
            let (on, count) = word.split_once(':')?;
            *counts.get_mut(on.parse::<usize>().ok()?)? = count.parse().ok()?;
        }
        Some((node.parse().ok()?, counts))
    };
    lines.iter().filter_map(of_round).collect()
}

/// Checks that after the sweep `round` the resident pages of each of the two threads are on the
/// node of the thread.
fn assert_local(record: &Record, step: &str, round: u32) {
    let placed = placed(shown(record, step), round);
    assert_eq!(placed.len(), 2, "{record}");
    for (node, pages) in placed {
        let all = pages[0] + pages[1];
        let is_local = all >= RESIDENT_MIN && pages[node] >= LOCAL_MIN * all;
        assert!(is_local, "{step}, round {round}\n{record}");
    }
}

/// Two threads have an array of 8 MiB each, and together a budget of 8 MiB. After each sweep of the
/// arrays, the resident pages of a thread are on the thread's node, with shares of the budget by
/// demand (the default), with fixed shares, and with a handler of SIGBUS.
#[test]
fn pages_are_on_the_node_of_their_thread() {
    let runs = ["", " --fixed", " --signal"];
    let runs = runs.map(|options| format!("run extend 8MiB --dram 8MiB --rounds 2{options}"));
    on_each(&WITH_MOVES, |series| {
        let Some(record) = guest_record(series, "two-sockets", &runs.join("\n")) else { return };
        for step in &runs {
            assert_local(&record, step, 1);
            assert_local(&record, step, 2);
        }
    });
}

/// Threads migrate at random for 3 s of the guest's clock, while the kernel's NUMA balancing is on.
/// No page has wrong content.
#[test]
fn no_page_is_wrong_when_threads_migrate() {
    let run = "run extend 6MiB --dram 6MiB --rounds 1 --migrate 3";
    let steps = format!("write /proc/sys/kernel/numa_balancing 1\n{run}\n{run} --signal");
    on_each(&WITH_MOVES, |series| {
        let Some(record) = guest_record(series, "two-sockets", &steps) else { return };
        for step in [run.to_string(), format!("{run} --signal")] {
            let lines = shown(&record, &step);
            assert!(lines.iter().any(|line| line.starts_with("intact after ")), "{record}");
        }
    });
}

/// The memory policy of the process has precedence over local placement: frames are on DRAM and an
/// expander by their weights, 2 MiB at a time.
#[test]
fn weights_of_the_process_place_the_frames() {
    let weights = [(0, 3), (1, 1)].map(|(node, weight)| {
        format!("write /sys/kernel/mm/mempolicy/weighted_interleave/node{node} {weight}")
    });
    let step = "run extend 48MiB --dram 24MiB --rounds 1 --interleave 0,1";
    let steps = format!("{}\n{step}", weights.join("\n"));
    let Some(record) = guest_record(Series::Of(6, 12), "two-nodes-hmat", &steps) else { return };
    let [(0, pages)] = placed(shown(&record, step), 1)[..] else { panic!("{record}") };
    let share = pages[0] / (pages[0] + pages[1]);
    assert!((0.65..0.85).contains(&share), "{share}\n{record}");
}
