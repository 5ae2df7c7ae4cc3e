//! Tests which nodes, memory tiers and weights kernels derive from memory topologies. Each kernel
//! is booted in QEMU on each topology.
//!
//! If the kernel or QEMU is missing, a test prints that it was skipped, and passes. With
//! `INTERLEAF_VM=required` in the environment, the test fails instead. See `docs/vm-tests.md`.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{fmt::Write as _, fs::OpenOptions, io::Write as _, path::Path, time::Duration};

use interleaf_guest::report::Ending;
use interleaf_vm::{
    Boot, Outcome, Series, Topology,
    boot::missing,
    harness::{guest_record_with_files, not_tested, shown, static_programs, step},
    outcome::Record,
};

/// A kernel and its expected features.
struct Kernel {
    series: Series,
    weights: Weights,
    /// True if the kernel derives memory tiers from the HMAT.
    tiers_by_hmat: bool,
}

/// Support for weighted interleaving, in `/sys/kernel/mm/mempolicy/weighted_interleave`.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Weights {
    None,
    /// One weight file per node.
    Manual,
    /// Weight files, and the file `auto`: weights computed from the HMAT's bandwidths.
    Automatic,
}

const LINUX_6_1: Kernel =
    Kernel { series: Series::Of(6, 1), weights: Weights::None, tiers_by_hmat: false };
const LINUX_6_12: Kernel =
    Kernel { series: Series::Of(6, 12), weights: Weights::Manual, tiers_by_hmat: true };
const LINUX_6_17: Kernel =
    Kernel { series: Series::Of(6, 17), weights: Weights::Automatic, tiers_by_hmat: true };
const LINUX_NEWEST: Kernel =
    Kernel { series: Series::Newest, weights: Weights::Automatic, tiers_by_hmat: true };

/// Defines a test for each function and each kernel, such as `on_6_12::two_nodes_hmat`.
macro_rules! on_each_kernel {
    ($($test:ident),* $(,)?) => {
        mod on_6_1 { $(#[test] fn $test() { super::$test(&super::LINUX_6_1); })* }
        mod on_6_12 { $(#[test] fn $test() { super::$test(&super::LINUX_6_12); })* }
        mod on_6_17 { $(#[test] fn $test() { super::$test(&super::LINUX_6_17); })* }
        mod on_newest { $(#[test] fn $test() { super::$test(&super::LINUX_NEWEST); })* }
    };
}

on_each_kernel!(one_node, two_nodes_hmat, four_nodes, three_tiers, no_hmat, nearly_full_node,);

// --- Booting ------------------------------------------------------------------------------------

/// Boots a kernel on a topology; `None` if the kernel or QEMU is missing.
///
/// The test harness runs as many tests at once as the host has processors. A guest takes one
/// processor, because QEMU emulates all processors of a guest in one thread.
fn run(series: Series, machine: &Topology, steps: &str, more: Change) -> Option<Outcome> {
    if let Some(outcome) = missing(series) {
        not_tested(&outcome);
        return None;
    }
    let mut boot = Boot::new(series, machine, &static_programs().guest, steps);
    more(&mut boot);
    Some(boot.run().unwrap())
}

/// A test's changes to the default boot.
type Change = fn(&mut Boot<'_>);

/// Runs `steps` in a guest and returns its report; `None` if the kernel or QEMU is missing.
fn boot(series: Series, topology: &str, steps: &str) -> Option<Record> {
    let machine = Topology::named(topology).unwrap();
    // An instruction takes 2^4 ns of the guest's clock, so the kernel's waits take few
    // instructions. The larger shift changes no result, because no step of these tests depends on
    // durations.
    match run(series, &machine, steps, |boot| boot.clock_shift = 4)? {
        Outcome::Completed(record) => {
            note(topology, &record);
            Some(record)
        }
        outcome => panic!("{series}, {topology}: {outcome}"),
    }
}

/// Appends the boot's durations to `boots.tsv`, for information; no test checks them.
fn note(topology: &str, record: &Record) {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("boots.tsv");
    let mut file = OpenOptions::new().create(true).append(true).open(path).unwrap();
    let release = record.release.as_deref().unwrap_or("");
    let (up, took) = (record.booted.unwrap_or_default().as_secs_f64(), record.took.as_secs_f64());
    // The line is written in a single call, because tests that run in parallel append to the same
    // file.
    let line = format!("{release}\t{topology}\t{up:.1}\t{took:.1}\n");
    file.write_all(line.as_bytes()).unwrap();
}

/// Returns the error message of a step that must have failed.
fn refused<'a>(record: &'a Record, text: &str) -> &'a str {
    match &step(record, text).ending {
        Some(Ending::Failed(why)) => why,
        _ => panic!("{text} was not refused\n{record}"),
    }
}

// --- Topologies ---------------------------------------------------------------------------------

const NODES: &str = "/sys/devices/system/node";
const TIERS: &str = "/sys/devices/virtual/memory_tiering";
const WEIGHTS: &str = "/sys/kernel/mm/mempolicy/weighted_interleave";

fn one_node(kernel: &Kernel) {
    topology(kernel, "one-node", "", &["0"], &[1]);
}

/// Tests a topology with a node of DRAM, a node of an expander, and an HMAT. Also places pages, and
/// checks on which nodes they are.
fn two_nodes_hmat(kernel: &Kernel) {
    let more = place_pages();
    let Some(record) = topology(kernel, "two-nodes-hmat", &more, &["0", "1"], &[22, 9]) else {
        return;
    };
    weights_place_pages(kernel, &record);
}

/// Tests a topology with a tier of DRAM and a tier of expanders, each with nodes of both sockets.
/// Weights use the bandwidth from the nearest processors, so the slower path to the other socket's
/// DRAM has no effect.
fn four_nodes(kernel: &Kernel) {
    topology(kernel, "four-nodes", "", &["0-1", "2-3"], &[3, 3, 1, 1]);
}

/// Checks the automatic weights of three nodes with different bandwidths. The kernel divides 32
/// pages among the nodes in proportion to their bandwidths, rounds each node's number of pages down
/// to get its weight, and divides the weights by their common factors.
fn three_tiers(kernel: &Kernel) {
    topology(kernel, "three-tiers", "", &["0", "1", "2"], &[19, 9, 2]);
}

/// Tests a topology without an HMAT: a node without processors is in the same tier as the other
/// nodes.
fn no_hmat(kernel: &Kernel) {
    topology(kernel, "no-hmat", "", &["0-1"], &[1, 1]);
}

/// Boots a topology, compares the nodes, tiers and weights that the kernel shows with the
/// topology's file, and runs the steps `more` for the caller.
///
/// `tiers` lists the nodes of each tier from fast to slow, for kernels that derive tiers from the
/// HMAT; other kernels have a single tier with all nodes. `weights` are the automatic weights, for
/// kernels that compute them.
fn topology(
    kernel: &Kernel,
    name: &str,
    more: &str,
    tiers: &[&str],
    weights: &[u8],
) -> Option<Record> {
    let steps = format!(
        "read {NODES}/has_cpu\n\
         read {NODES}/has_memory\n\
         read {NODES}/node*/access0/initiators/read_*\n\
         list {NODES}/node1/access0/initiators\n\
         read {TIERS}/memory_tier*/nodelist\n\
         list {WEIGHTS}\n\
         read {WEIGHTS}/node*\n\
         read {WEIGHTS}/auto\n\
         {more}"
    );
    let record = boot(kernel.series, name, &steps)?;
    let machine = Topology::named(name).unwrap();

    let release = record.release.as_deref().unwrap();
    let prefix = format!("{}.", kernel.series);
    assert!(kernel.series == Series::Newest || release.starts_with(&prefix), "{release}");

    let nodes = machine.nodes.len();
    let all = range(nodes);
    let with_cpus = machine.nodes.iter().filter(|node| node.cpus > 0).count();
    assert_eq!(shown(&record, &format!("read {NODES}/has_cpu")), [range(with_cpus)]);
    assert_eq!(shown(&record, &format!("read {NODES}/has_memory")), [all.as_str()]);

    coordinates(&record, &machine);

    let expected = if kernel.tiers_by_hmat { tiers.to_vec() } else { vec![all.as_str()] };
    assert_eq!(tiers_of(&record), expected, "{record}");

    weight_files(&record, kernel.weights, weights);
    Some(record)
}

/// Returns the nodes 0 to `count` - 1 in the kernel's list format, such as `0-3`.
fn range(count: usize) -> String {
    if count == 1 { "0".to_string() } else { format!("0-{}", count - 1) }
}

/// Checks the kernel's figures for each node: bandwidth in MiB/s and latency in ns, from the
/// nearest processors to the node.
fn coordinates(record: &Record, machine: &Topology) {
    let text = format!("read {NODES}/node*/access0/initiators/read_*");
    if !machine.hmat {
        assert_eq!(refused(record, &text), "no file fits");
        return;
    }
    let mut expected = vec![];
    for (node, from) in machine.nodes.iter().zip(0..).map(|(n, at)| (at, n.initiator.unwrap_or(at)))
    {
        let path = machine.paths.iter().find(|path| (path.from, path.to) == (from, node)).unwrap();
        let folder = format!("{NODES}/node{node}/access0/initiators");
        let bandwidth = path.bandwidth_gib_s.unwrap() * 1024;
        expected.push(format!("{folder}/read_bandwidth: {bandwidth}"));
        expected.push(format!("{folder}/read_latency: {}", path.latency_ns.unwrap()));
    }
    assert_eq!(shown(record, &text), expected);
    let initiator = format!("node{}", machine.nodes[1].initiator.unwrap_or(1));
    let listed = shown(record, &format!("list {NODES}/node1/access0/initiators"));
    assert!(listed.contains(&initiator), "{listed:?}");
}

/// Returns the nodes of each tier, from fast to slow: a faster tier has a smaller number.
fn tiers_of(record: &Record) -> Vec<&str> {
    let mut tiers: Vec<(u32, &str)> = shown(record, &format!("read {TIERS}/memory_tier*/nodelist"))
        .iter()
        .map(|line| {
            let (path, nodes) = line.split_once(": ").unwrap();
            let number: String = path.chars().filter(char::is_ascii_digit).collect();
            (number.parse().unwrap(), nodes)
        })
        .collect();
    tiers.sort_unstable();
    tiers.into_iter().map(|(_, nodes)| nodes).collect()
}

fn weight_files(record: &Record, weights: Weights, automatic: &[u8]) {
    let list = format!("list {WEIGHTS}");
    if weights == Weights::None {
        assert!(refused(record, &list).starts_with("No such file"));
        return;
    }
    let mut files: Vec<String> = (0..automatic.len()).map(|at| format!("node{at}")).collect();
    let values = match weights {
        Weights::Automatic => {
            files.insert(0, "auto".to_string());
            // Automatic weights are on by default.
            assert_eq!(shown(record, &format!("read {WEIGHTS}/auto")), ["true"]);
            automatic.to_vec()
        }
        _ => vec![1; automatic.len()],
    };
    assert_eq!(shown(record, &list), files);
    let line = |(at, value)| format!("{WEIGHTS}/node{at}: {value}");
    let expected: Vec<String> = values.iter().enumerate().map(line).collect();
    assert_eq!(shown(record, &format!("read {WEIGHTS}/node*")), expected);
}

// --- Pages --------------------------------------------------------------------------------------

/// Returns steps that place pages and write weights.
///
/// Weighted interleaving selects the node by the page's address. The counts are therefore exact if
/// the number of pages is a multiple of the sum of the weights: 64 MiB are 16384 pages, 62 MiB are
/// 512 rounds of 22 + 9 pages, and 64.5 MiB are 64 rounds of 3 + 255 pages. With other sizes, the
/// mapping's offset in the round changes the counts by a few pages.
fn place_pages() -> String {
    let mut steps = String::from(
        "run touch 64MiB --bind 1\n\
         run touch 62MiB --interleave 0,1\n\
         run touch 64MiB --weights 0:3,1:1\n\
         run touch 66048KiB --weights 0:3,1:255\n\
         start sweep touch 64MiB --weights 0:3,1:1 --sweep\n\
         await sweep touched\n\
         pages sweep\n\
         read /proc/@sweep/comm\n\
         run touch @none\n\
         kill sweep TERM\n\
         wait sweep\n",
    );
    for text in ["read auto", "write node1 0", "read node1", "write auto true", "read node0"] {
        let (verb, rest) = text.split_once(' ').unwrap();
        writeln!(steps, "{verb} {WEIGHTS}/{rest}").unwrap();
    }
    steps
}

/// Checks the results of the steps of `place_pages`.
fn weights_place_pages(kernel: &Kernel, record: &Record) {
    assert_eq!(shown(record, "run touch 64MiB --bind 1")[0], "pages 1:16384");
    if kernel.weights == Weights::None {
        let policy = step(record, "run touch 62MiB --interleave 0,1");
        assert_eq!(policy.output, ["touch: set_mempolicy: Invalid argument (os error 22)"]);
        return;
    }
    let own = shown(record, "run touch 62MiB --interleave 0,1");
    let automatic = kernel.weights == Weights::Automatic;
    assert_eq!(own[0], if automatic { "pages 0:11264 1:4608" } else { "pages 0:7936 1:7936" });
    assert_eq!(shown(record, "run touch 64MiB --weights 0:3,1:1")[0], "pages 0:12288 1:4096");
    assert_eq!(shown(record, "run touch 66048KiB --weights 0:3,1:255")[0], "pages 0:192 1:16320");

    shown(record, "await sweep touched");
    assert_eq!(shown(record, "read /proc/@sweep/comm"), ["touch"]);
    assert_eq!(refused(record, "run touch @none"), "no program was started as none");
    let ended = step(record, "wait sweep");
    assert_eq!(ended.ending, Some(Ending::Signal(15)), "{record}");
    assert_eq!(ended.output, ["pages 0:12288 1:4096", "touched"]);
    // The whole process has a few more pages: heap and stack.
    let pages = pages(&shown(record, "pages sweep")[0]);
    assert!(pages[0].1 >= 12288 && pages[1].1 >= 4096, "{record}");
    assert!(pages[0].1 + pages[1].1 < 16384 + 100, "{record}");

    written_weights(record, automatic);
}

/// Checks that a written weight switches automatic weights off. The weight 0 is rejected, or, by a
/// kernel without automatic weights, replaced by the default 1.
fn written_weights(record: &Record, automatic: bool) {
    let zero = format!("write {WEIGHTS}/node1 0");
    if automatic {
        let auto = format!("read {WEIGHTS}/auto");
        let last = record.steps.iter().rfind(|taken| taken.step == auto).unwrap();
        assert_eq!(last.output, ["false"], "{record}");
        assert!(refused(record, &zero).starts_with("Invalid argument"), "{record}");
        assert!(step(record, &format!("write {WEIGHTS}/auto true")).succeeded(), "{record}");
        assert_eq!(shown(record, &format!("read {WEIGHTS}/node0")), ["22"]);
    } else {
        assert!(step(record, &zero).succeeded(), "{record}");
        assert_eq!(shown(record, &format!("read {WEIGHTS}/node1")), ["1"]);
    }
}

/// If a node is full, weights place pages on another node, and `--bind` causes an OOM kill.
fn nearly_full_node(kernel: &Kernel) {
    let steps = "run touch 192MiB --bind 1\n\
                 start filler touch 48MiB --bind 1 --sweep\n\
                 await filler touched\n\
                 run touch 192MiB --weights 0:1,1:1";
    let Some(record) = topology(kernel, "nearly-full-node", steps, &["0", "1"], &[22, 9]) else {
        return;
    };
    let bound = step(&record, "run touch 192MiB --bind 1");
    assert_eq!(bound.ending, Some(Ending::Signal(9)), "{record}");
    shown(&record, "await filler touched");
    if kernel.weights == Weights::None {
        return;
    }
    // With these weights and enough free memory, half of the pages (24576) would be on each node.
    let pages = pages(&shown(&record, "run touch 192MiB --weights 0:1,1:1")[0]);
    assert!(pages[1].1 > 0 && pages[1].1 < 24576, "{record}");
    assert_eq!(pages[0].1 + pages[1].1, 49152, "{record}");
}

/// Parses a line such as `pages 0:12288 1:4096`: the number of pages on each node.
fn pages(line: &str) -> Vec<(u32, u64)> {
    let words = line.strip_prefix("pages ").unwrap().split(' ');
    let pair = |word: &str| {
        let (node, count) = word.split_once(':').unwrap();
        (node.parse().unwrap(), count.parse().unwrap())
    };
    words.map(pair).collect()
}

// --- Other programs, and boots that fail --------------------------------------------------------

fn one() -> Topology {
    Topology::named("one-node").unwrap()
}

#[test]
fn programs_come_along() {
    let steps = "run /bin/other/touch 1MiB\nrun none";
    let more: Change = |boot| boot.programs.push(("other/touch", boot.guest));
    match run(Series::Newest, &one(), steps, more) {
        Some(Outcome::Completed(record)) => {
            assert_eq!(shown(&record, "run /bin/other/touch 1MiB"), ["pages 0:256", "touched"]);
            assert!(refused(&record, "run none").starts_with("No such file"), "{record}");
        }
        None => {}
        Some(outcome) => panic!("{outcome}"),
    }
}

#[test]
fn a_kernel_panic_is_reported() {
    // If `rdinit` names no file, the kernel tries to mount a root file system, and panics.
    let more: Change = |boot| boot.command_line = "rdinit=/none root=/none";
    match run(Series::Newest, &one(), "sleep 1s", more) {
        Some(Outcome::Panicked { why, record }) => {
            assert!(why.contains("Unable to mount root"), "{why}");
            assert!(record.release.is_none() && record.console.contains("Linux version"));
        }
        None => {}
        Some(outcome) => panic!("{outcome}"),
    }
}

#[test]
fn a_panic_before_a_snapshot_is_reported() {
    if let Some(outcome) = missing(Series::Newest) {
        return not_tested(&outcome);
    }
    let machine = one();
    let mut boot = Boot::new(Series::Newest, &machine, &static_programs().guest, "sleep 1s");
    boot.command_line = "rdinit=/none root=/none";
    boot.is_resumed = true;
    let why = boot.run().unwrap_err().to_string();
    assert!(why.starts_with("no snapshot: the guest stopped while it booted"), "{why}");
    assert!(why.contains("Unable to mount root"), "{why}");
}

/// Each guest gets its own files, in several blocks, and no file of another guest that starts from
/// the same snapshot.
#[test]
fn guests_of_a_snapshot_have_their_own_files() {
    for name in ["first", "second"] {
        let text = format!("{name}\n").repeat(1000);
        let files = [(&*format!("/of/{name}"), text.clone())];
        let steps = format!("read /of/{name}\nlist /of");
        let Some(record) =
            guest_record_with_files(Series::Of(6, 12), "one-node", &steps, &files, &|_| ())
        else {
            return;
        };
        assert_eq!(shown(&record, &format!("read /of/{name}")).join("\n") + "\n", text);
        assert_eq!(shown(&record, "list /of"), [name]);
        assert!(record.release.is_some_and(|release| release.starts_with("6.12")));
    }
}

#[test]
fn a_run_has_a_limit() {
    let more: Change = |boot| boot.limit = Duration::from_millis(500);
    match run(Series::Newest, &one(), "sleep 1s", more) {
        Some(Outcome::TimedOut { record, .. }) => assert!(!record.complete),
        None => {}
        Some(outcome) => panic!("{outcome}"),
    }
}

#[test]
fn a_failure_of_qemu_is_reported() {
    let mut machine = one();
    machine.nodes[0].cpus = 100_000;
    match run(Series::Newest, &machine, "sleep 1s", |_| {}) {
        Some(Outcome::QemuFailed { why }) => assert!(why.contains("CPU"), "{why}"),
        None => {}
        Some(outcome) => panic!("{outcome}"),
    }
}

#[test]
fn missing_kernels_and_programs_are_reported() {
    let machine = one();
    let none = Path::new("/none");
    let outcome = Boot::new(Series::Of(1, 0), &machine, none, "sleep 1s").run().unwrap();
    let message = outcome.to_string();
    assert!(message.starts_with("no kernel 1.0: none in "), "{message}");
    assert!(message.ends_with("run `crates/vm/kernels 1.0`"), "{message}");
    let steps = Boot::new(Series::Newest, &machine, none, "jump").run();
    assert!(steps.unwrap_err().to_string().starts_with("line 1: no step `jump`"));
}
