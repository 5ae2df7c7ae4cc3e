//! Tests the closed loop on real kernels. `interleaf balance` reads the traffic that the program
//! `load` reports for the present placement of its pages, decides, migrates pages with DAMON, and
//! reads the traffic again. The tests compare the final placement with the optimum of the
//! platform's curves, and with a simulation of the same run.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{ops::RangeInclusive, sync::OnceLock, thread, time::Duration};

use interleaf_guest::report::Ending;
use interleaf_model::{policy::PolicyKind, predict::ActivePhase};
use interleaf_vm::{
    Series,
    expected::Expected,
    harness::{guest_record_with_files, in_workspace, shown, step},
    outcome::{Record, StepRecord},
};
use serde_json::Value;

const PLATFORM: &str = "/platforms/gnr120-cz122.toml";
const DEMAND: &str = "/workloads/lbm.toml";
const THREADS: u32 = 119;

/// Size of the steered memory. It is small, so that migration and access detection take little
/// time.
const HOT_BYTES: u64 = 32 << 20;

/// Fraction of the threads that are active in the second phase. These few threads do not saturate
/// the first tier, so they are fastest with all pages on this tier.
const FEW: f64 = 0.1;

/// The daemon's period: the shortest that suits DAMON, which takes up to two seconds to migrate
/// pages.
const PERIOD: Duration = Duration::from_secs(4);

/// Tolerance of the placement with DAMON on virtual addresses, percentage points.
const NEAR: f64 = 5.0;
/// Tolerance of the placement with DAMON on physical addresses, percentage points.
const NEAR_PHYSICAL: f64 = 6.0;

/// Number of periods after settling in which pages may still migrate. A search may end by returning
/// to its previous step, and pages then migrate back during the next period.
const LATER: usize = 1;
/// Like `LATER`, with DAMON on physical addresses. The number is larger because each period
/// migrates only a fraction of the pages that are still on the wrong node. DAMON finds the last of
/// these pages by random samples, so the number is a range: within the range, pages may migrate as
/// long as the daemon reports that pages still migrate.
const LATER_PHYSICAL: RangeInclusive<usize> = 5..=10;

/// Largest fraction of the pages that may migrate after settling, summed over the checked periods.
/// DAMON samples pages at random, so it may find the last percent of the pages of a migration some
/// periods later.
const AT_REST: f64 = 0.05;

/// `READINGS` is the number of samples of the placement after the first sample, which is taken when
/// the daemon has settled. `APART` is the number of periods between two samples. The samples take a
/// minute in all, if the host is fast enough for periods to end on time.
const READINGS: usize = 5;
const APART: usize = 3;

/// Steps that read the settings that the daemon must restore.
const SETTINGS: [&str; 4] = [
    "read /proc/sys/kernel/numa_balancing",
    "read /sys/kernel/mm/damon/admin/kdamonds/nr_kdamonds",
    "read /sys/module/damon_stat/parameters/enabled",
    "list /run/interleaf",
];

/// Returns the arguments of the program `load` for the simulation. The run has a single phase, in
/// which the fraction `active` of the threads is active.
fn run(active: f64) -> Expected {
    Expected {
        phases: vec![ActivePhase { local_s: 1000.0, active }],
        ..Expected::new(
            in_workspace(PLATFORM.trim_start_matches('/')),
            in_workspace(DEMAND.trim_start_matches('/')),
            THREADS,
            HOT_BYTES,
        )
    }
}

/// Returns the best weight of the first tier, percent of the pages, while a fraction `active` of
/// the threads is active.
fn best(active: f64) -> f64 {
    100.0 * run(active).best().unwrap()[0].weights.shares()[0]
}

/// Returns the text of the daemon's configuration file.
fn config(policy: PolicyKind, scope: &str, actuator: &str) -> String {
    format!(
        "schema = \"interleaf.balance/1\"\n\
         [scope]\n{scope}\n\
         [policy]\nname = \"{policy}\"\nplatform = \"{PLATFORM}\"\n\
         [control]\nperiod = \"{}s\"\n\
         [migration]\nway = \"{actuator}\"\nstop_rivals = true\n\
         [source]\nkind = \"feed\"\npath = \"/run/feed.sock\"\n\
         [publish]\ntarget = \"/run/target\"\n",
        PERIOD.as_secs()
    )
}

const PROCESSES: &str = "kind = \"processes\"\nprocesses = [\"load\"]";
const MACHINE: &str = "kind = \"machine\"";

/// The step that waits for the end of a period of the daemon.
const PERIOD_ENDS: &str = "await daemon {";

/// Runs the program `load` and the daemon in a guest. Waits until the daemon reports a period whose
/// reason (the explanation of its decision) contains the text `rests`, samples the placement
/// several times, then executes the steps `more`. Returns the guest's record.
fn guest_record(series: Series, config: String, rests: &str, more: &[&str]) -> Option<Record> {
    let load = format!(
        "start load load --platform {PLATFORM} --demand {DEMAND} --threads {THREADS} --hot {}MiB \
         --phase 1000s:1.0 --phase 1000s:{FEW} --phase-file /tmp/phase --feed /run/feed.sock",
        HOT_BYTES >> 20
    );
    let rests = format!("await daemon *{rests}");
    let first = ["write /sys/kernel/mm/transparent_hugepage/enabled madvise"];
    let begin = [
        &*load,
        "await load touched",
        "start daemon interleaf balance --config /balance.toml --json",
    ];
    let end = ["kill daemon TERM", "wait daemon", "read /run/target"];
    let mut steps: Vec<&str> = first.into_iter().chain(SETTINGS).chain(begin).collect();
    steps.extend([&*rests, "sleep 2s", "pages load", "read /run/target"]);
    steps.extend([&[PERIOD_ENDS; APART][..], &["pages load"]].concat().repeat(READINGS));
    steps.extend(more.iter().chain(&end).chain(&SETTINGS));
    steps.extend(["kill load TERM", "wait load"]);
    let files = [("/balance.toml", config)];
    guest_record_with_files(series, "two-nodes-hmat", &steps.join("\n"), &files, &|_| ())
}

/// A period in the daemon's output.
#[derive(Debug)]
struct Period {
    /// The weight of the first tier, percent.
    target: f64,
    migrated_bytes: f64,
    reason: String,
}

fn periods(record: &Record) -> Vec<Period> {
    let taken = step(record, "wait daemon");
    assert_eq!(taken.ending, Some(Ending::Exit(0)), "{record}");
    let period = |line: &String| {
        let json: Value = serde_json::from_str(line).unwrap_or_else(|why| panic!("{why}: {line}"));
        Period {
            target: json["target_weights"][0].as_f64().unwrap(),
            migrated_bytes: json["migrated_bytes"].as_f64().unwrap(),
            reason: json["reason"].as_str().unwrap().to_string(),
        }
    };
    taken.output.iter().filter(|line| line.starts_with('{')).map(period).collect()
}

/// Returns, for each step `pages load`, the percentage of pages on node 0.
fn readings(record: &Record) -> Vec<f64> {
    let points = |taken: &StepRecord| {
        let count = |node: &str| {
            let words = taken.output[0].split(' ').filter_map(|word| word.split_once(':'));
            words.filter(|(of, _)| *of == node).map(|(_, n)| n.parse::<f64>().unwrap()).sum::<f64>()
        };
        100.0 * count("0") / (count("0") + count("1"))
    };
    record.steps.iter().filter(|taken| taken.step == "pages load").map(points).collect()
}

/// Checks that the settings are restored and that the daemon removed the target that it published.
fn nothing_is_left(record: &Record) {
    for reading in SETTINGS {
        let mut readings = record.steps.iter().filter(|taken| taken.step == reading);
        let (before, after) = (readings.next().unwrap(), readings.next_back().unwrap());
        // The folder of the journals remains, with the daemon's lock and without a journal.
        let is_empty =
            reading.starts_with("list") && after.output.iter().all(|name| name == "lock");
        assert!(before == after || is_empty, "{reading}: {before:?}, then {after:?}\n{record}");
    }
    let target = record.steps.iter().rfind(|taken| taken.step == "read /run/target").unwrap();
    assert!(!target.succeeded(), "nobody looks after it any more\n{record}");
}

/// Checks that after settling the target and the pages are within `near` percentage points of the
/// optimum, and that almost no page migrates. The daemon has settled in the first period whose
/// reason contains `rests`. The checked periods begin two periods after the last report that pages
/// still migrate, but at least `later.start()` and at most `later.end()` periods after settling.
fn rests_at_the_best(record: &Record, rests: &str, near: f64, later: RangeInclusive<usize>) {
    let best = best(1.0);
    let periods = periods(record);
    let settled = periods.iter().position(|it| it.reason.contains(rests)).unwrap();
    let (first, last) = (settled + later.start(), settled + later.end());
    let migrates = |at: &usize| periods[*at].reason.contains("pages still migrate");
    // After a period that reports "pages still migrate", pages may migrate in one more period. The
    // check therefore begins two periods after the last such report.
    let at = (settled..last).rev().find(migrates).map_or(first, |at| (at + 2).clamp(first, last));
    let rest = &periods[at..][..READINGS * APART];
    for period in rest {
        assert!((period.target - best).abs() <= near, "{period:?}, best {best}\n{record}");
    }
    let migrated: f64 = rest.iter().map(|period| period.migrated_bytes / HOT_BYTES as f64).sum();
    assert!(migrated <= AT_REST, "{migrated} of the pages migrated in {rest:?}\n{record}");
    let readings = &readings(record)[..=READINGS];
    assert!(
        readings.iter().all(|points| (points - best).abs() <= near),
        "{readings:?}, {best}\n{record}"
    );
    let published = shown(record, "read /run/target");
    let target = rest[0].target;
    assert_eq!(published, [format!("0:{target},1:{}", 100.0 - target)], "{record}");
}

/// Returns the last target weight of the first tier, percent of the pages, in a simulation of the
/// same policy.
fn simulated(policy: PolicyKind) -> f64 {
    static SETTLED: OnceLock<[f64; 2]> = OnceLock::new();
    let all = SETTLED.get_or_init(|| {
        [PolicyKind::Dmi, PolicyKind::Guided].map(|policy| {
            let settled = run(1.0).settles(policy, PERIOD, Duration::from_secs(120)).unwrap();
            100.0 * settled.shares[0]
        })
    });
    all[usize::from(policy == PolicyKind::Guided)]
}

fn agrees_with_the_simulation(record: &Record, policy: PolicyKind, rests: &str) {
    let periods = periods(record);
    let at = periods.iter().find(|period| period.reason.contains(rests)).unwrap();
    let simulated = simulated(policy);
    assert!((at.target - simulated).abs() <= NEAR, "{at:?}, simulated {simulated}\n{record}");
}

/// With high demand, the policy `dmi` (hill climbing by the measured bandwidth) approaches the best
/// weights step by step and keeps them. At low demand `dmi` returns to the first tier step by step.
/// When the demand is high again, `dmi` searches again.
fn dmi(series: Series) {
    let rests = "GB/s is as before";
    let more = [
        "write /tmp/phase 1",
        "await daemon *all pages stay on the first tier",
        "pages load",
        "write /tmp/phase 0",
        "await daemon *\"decision\":\"probe\"",
        "await daemon *\"decision\":\"step\"",
        "await daemon *\"decision\":\"step\"",
        "pages load",
    ];
    let config = config(PolicyKind::Dmi, PROCESSES, "auto");
    let Some(record) = guest_record(series, config, rests, &more) else { return };
    rests_at_the_best(&record, rests, NEAR, LATER..=LATER);
    agrees_with_the_simulation(&record, PolicyKind::Dmi, rests);
    let readings = readings(&record);
    let [local, again] = readings[READINGS + 1..] else { panic!("{record}") };
    assert!(local >= 100.0 - NEAR && best(FEW) == 100.0, "{local}\n{record}");
    assert!(again <= 88.0, "{again}: it is on its way to the best again\n{record}");
    nothing_is_left(&record);
}

/// With high demand, the policy `guided` sets the weights that it computes from the tiers' latency
/// curves, verifies the result and keeps the weights. At low demand all pages return to the first
/// tier. When the demand is high again, the pages return to the weights that `guided` set first.
fn guided(series: Series) {
    let rests = "as when it settled";
    let more = [
        "write /tmp/phase 1",
        "await daemon *\"decision\":\"local\"",
        "await daemon *as when it settled",
        "pages load",
        "write /tmp/phase 0",
        "await daemon *\"decision\":\"propose\"",
        "await daemon *as when it settled",
        "pages load",
    ];
    let config = config(PolicyKind::Guided, PROCESSES, "auto");
    let Some(record) = guest_record(series, config, rests, &more) else { return };
    rests_at_the_best(&record, rests, NEAR, LATER..=LATER);
    agrees_with_the_simulation(&record, PolicyKind::Guided, rests);
    let readings = readings(&record);
    let [local, again] = readings[READINGS + 1..] else { panic!("{record}") };
    assert!((local - best(FEW)).abs() <= NEAR, "{local}\n{record}");
    assert!((again - best(1.0)).abs() <= NEAR, "{again}\n{record}");
    nothing_is_left(&record);
}

/// The policy `guided` steers the whole machine with DAMON on physical addresses. The pages settle
/// at the best weights.
fn machine(series: Series, actuator: &str) {
    let rests = "as when it settled";
    let config = config(PolicyKind::Guided, MACHINE, actuator);
    let Some(record) = guest_record(series, config, rests, &[PERIOD_ENDS; *LATER_PHYSICAL.end()])
    else {
        return;
    };
    rests_at_the_best(&record, rests, NEAR_PHYSICAL, LATER_PHYSICAL);
    nothing_is_left(&record);
}

/// Runs `dmi`, `guided` and `machine` in parallel.
fn all(series: Series, actuator: &str) {
    thread::scope(|scope| {
        scope.spawn(|| dmi(series));
        scope.spawn(|| guided(series));
        scope.spawn(|| machine(series, actuator));
    });
}

/// The actuator `paddr` needs the DAMOS quota goal `node_eligible_mem_bp` (the share of a node in
/// the steered memory), which Linux has since 7.2. On Linux 6.17, the actuator for the scope of the
/// whole machine is therefore `quota`.
#[test]
fn the_loop_settles_on_6_17() {
    all(Series::Of(6, 17), "quota");
}

#[test]
fn the_loop_settles_on_the_newest() {
    all(Series::Newest, "paddr");
}
