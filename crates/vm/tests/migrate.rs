//! Tests `interleaf run --pid` under real kernels: it migrates the pages of a running program to
//! the given weights, and reports pages that cannot be migrated.
//!
//! NUMA balancing is off, because it would migrate pages back to the node with the processors at
//! unpredictable times. khugepaged is off, because it collapses small pages into a huge page on the
//! node that has most of them.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use interleaf_guest::report::Ending;
use interleaf_vm::{
    Series,
    harness::{guest_record, on_each, shown, step},
    outcome::Record,
};

const ALL: [Series; 4] = [Series::Of(6, 1), Series::Of(6, 12), Series::Of(6, 17), Series::Newest];

/// Returns steps that switch NUMA balancing and khugepaged off, start a program that keeps writing
/// to 200 MiB of node 0, and execute `steps`. `more` has further options of the program.
fn with_program(more: &str, steps: &[&str]) -> String {
    let first = "write /proc/sys/kernel/numa_balancing 0\n\
                 write /sys/kernel/mm/transparent_hugepage/khugepaged/defrag 0\n\
                 write /sys/kernel/mm/transparent_hugepage/khugepaged/pages_to_scan 1\n\
                 write /sys/kernel/mm/transparent_hugepage/khugepaged/scan_sleep_millisecs \
                 600000\n\
                 write /sys/kernel/mm/transparent_hugepage/enabled madvise\n";
    let start = format!("start sweep touch 200MiB --bind 0 --sweep{more}\nawait sweep touched\n");
    format!("{first}{start}{}\n", steps.join("\n"))
}

/// Returns the program's pages on each node, for each step `pages sweep`.
fn readings(record: &Record) -> Vec<[u64; 2]> {
    let readings = record.steps.iter().filter(|taken| taken.step == "pages sweep");
    let counts = |line: &str| {
        let words = line.strip_prefix("pages ").unwrap().split(' ');
        let mut counts = [0; 2];
        for (node, count) in words.map(|word| word.split_once(':').unwrap()) {
            counts[node.parse::<usize>().unwrap()] = count.parse().unwrap();
        }
        counts
    };
    readings.map(|taken| counts(&taken.output[0])).collect()
}

/// Returns true if the fraction of pages on node 1 is within 0.01 of `part`.
fn is_near([on_0, on_1]: [u64; 2], part: f64) -> bool {
    (on_1 as f64 / (on_0 + on_1) as f64 - part).abs() <= 0.01
}

/// Returns the output of the step `move_pages`, which migrates pages, as one text.
fn text(record: &Record, move_pages: &str) -> String {
    step(record, move_pages).output.join("\n")
}

/// All pages of a running program are on node 0 at first. `interleaf run --pid` migrates the pages
/// to 60:40. A second run with 60:40 migrates no page, and a run with 0:1 migrates all pages to
/// node 1.
#[test]
fn pages_of_a_running_program_reach_the_ratio() {
    let to_ratio = "run interleaf run --pid @sweep --weights 60:40";
    let to_other = "run interleaf run --pid @sweep --weights 0:1";
    let reading = "pages sweep";
    let steps =
        [reading, to_ratio, reading, "read /proc/vmstat", to_ratio, reading, "read /proc/vmstat"];
    let steps = with_program("", &[&steps[..], &[to_other, reading]].concat());
    on_each(&ALL, |series| {
        let Some(record) = guest_record(series, "two-nodes-hmat", &steps) else { return };
        assert!(step(&record, to_ratio).succeeded(), "{record}");
        assert!(step(&record, to_other).succeeded(), "{record}");
        let [before, after, again, other] = readings(&record)[..] else { panic!("{record}") };
        assert!(is_near(before, 0.0), "{record}");
        assert!(is_near(after, 0.4) && after[1] > 20_000, "{record}");
        // `is_near` tolerates the few pages of the stack and the heap that come and go.
        assert!(is_near(again, 0.4) && is_near(other, 1.0), "{record}");
        let moved: Vec<u64> = record
            .steps
            .iter()
            .filter_map(|taken| count(&taken.output, "pgmigrate_success"))
            .collect();
        let [first, second] = moved[..] else { panic!("{record}") };
        assert!(second - first < 100, "nothing to move: {record}");
    });
}

/// Returns the value of the line `name` of `/proc/vmstat`, or of a node's `meminfo` (KiB).
fn count(lines: &[String], name: &str) -> Option<u64> {
    let mut values = lines.iter().filter_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    values.find_map(|value| value.split_whitespace().next()?.parse().ok())
}

/// The huge pages of a program migrate to 60:40 without being split. If the kernel gave the program
/// small pages only, the number of migrated huge pages is not checked.
#[test]
fn huge_pages_go_as_a_whole() {
    let move_pages = "run interleaf run --pid @sweep --weights 60:40";
    let steps = with_program(" --huge", &[move_pages, "pages sweep", "read /proc/vmstat"]);
    on_each(&ALL, |series| {
        let Some(record) = guest_record(series, "two-nodes-hmat", &steps) else { return };
        assert!(step(&record, move_pages).succeeded(), "{record}");
        assert!(is_near(readings(&record)[0], 0.4), "{record}");
        let counters = shown(&record, "read /proc/vmstat");
        let counted = |name: &str| count(counters, name).unwrap_or(0);
        assert_eq!(counted("thp_migration_split"), 0, "{record}");
        if counted("thp_fault_alloc") >= 100 {
            assert!(counted("thp_migration_success") >= 38, "{record}");
        }
    });
}

/// A program of 200 MiB is to be migrated to 1:3, but three quarters of its pages do not fit on
/// node 1, which has 128 MiB. Pages migrate until the node is full, and the remaining pages are
/// reported with the reason.
#[test]
fn a_full_node_is_reported() {
    let move_pages = "run interleaf run --pid @sweep --weights 1:3";
    let free = "read /sys/devices/system/node/node1/meminfo";
    let steps = [move_pages, free, "pages sweep", "kill sweep TERM", "wait sweep"];
    let steps = with_program("", &steps);
    on_each(&ALL, |series| {
        let Some(record) = guest_record(series, "nearly-full-node", &steps) else { return };
        assert!(text(&record, move_pages).contains("node 1 is full"), "{record}");
        let [_, on_1] = readings(&record)[0];
        assert!((10_000..32_768).contains(&on_1), "{record}");
        // The node is reported as full only when it is full: the kernel keeps the remaining free
        // memory as a reserve.
        let free = count(shown(&record, free), "Node 1 MemFree:").unwrap();
        assert!(free < 16 << 10, "{record}");
        // The migration did not end the program: it ran until the signal.
        assert_eq!(step(&record, "wait sweep").ending, Some(Ending::Signal(15)), "{record}");
    });
}

/// A program that exits during the migration is not an error.
#[test]
fn a_program_may_end_in_the_middle() {
    let mover = "start mover interleaf run --pid @sweep --weights 0:1 --migration-rate 4MB/s";
    let steps = [mover, "await sweep reached", "kill sweep KILL", "wait sweep", "wait mover"];
    let steps = with_program(" --tell 90:10", &steps);
    on_each(&[Series::Of(6, 1), Series::Newest], |series| {
        let Some(record) = guest_record(series, "two-nodes-hmat", &steps) else { return };
        shown(&record, "await sweep reached");
        assert_eq!(step(&record, "wait mover").ending, Some(Ending::Exit(0)), "{record}");
    });
}

/// Missing nodes and processes are rejected with a message that names the node or the process.
#[test]
fn missing_nodes_and_processes_are_refused() {
    let node = "run interleaf run --pid @sweep --weights 1:1 --nodes 0,7";
    let process = "run interleaf run --pid 99999 --weights 1:1";
    let steps = with_program("", &[node, process, "pages sweep"]);
    let Some(record) = guest_record(Series::Of(6, 12), "two-nodes-hmat", &steps) else { return };
    for (refused, word) in [(node, "7"), (process, "99999")] {
        assert_eq!(step(&record, refused).ending, Some(Ending::Exit(2)), "{record}");
        let text = text(&record, refused);
        assert!(text.contains(word) && text.contains("hint: "), "{record}");
    }
    assert!(is_near(readings(&record)[0], 0.0), "{record}");
}
