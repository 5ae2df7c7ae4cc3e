//! Checks properties of the simulated machine on servers of the repository and on random scenarios.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use core::time::Duration;
use interleaf_model::{
    control::Settings,
    demand::{Demand, Hotness},
    equilibrium::solve,
    format::{demand_toml, platform_toml},
    machine::{Decision, Machine, Order, Sample, Target},
    platform::Platform,
    policy::{ClosedForm, Fixed, PolicyKind},
};
use interleaf_sim::machine::{
    Outcome, PreparedScenario, Run, Scenario, SimMachine, Task, TrafficDevice, Trial,
};
use proptest::prelude::*;
use std::fs;

const STEP: Duration = Duration::from_millis(200);
const GIB: u64 = 1 << 30;

fn root(path: &str) -> String {
    format!("{}/../../{path}", env!("CARGO_MANIFEST_DIR"))
}

fn platform(name: &str) -> Platform {
    let text = fs::read_to_string(root(&format!("platforms/{name}.toml"))).unwrap();
    let curves = |path: &str| {
        fs::read_to_string(root(&format!("platforms/{path}"))).map_err(|why| why.to_string())
    };
    platform_toml::parse(name, &text, &curves).unwrap()
}

fn server() -> Platform {
    platform("gnr120-cz122")
}

fn demand(name: &str) -> Demand {
    let text = fs::read_to_string(root(&format!("workloads/{name}.toml"))).unwrap();
    demand_toml::parse(name, &text).unwrap()
}

/// Returns a scenario of `demand` on `platform`, with exact counters, and with page groups coarse
/// enough for a fast test.
fn quiet(platform: &Platform, demand: &Demand, threads: u32) -> Scenario {
    let task = Task::new(platform, platform, demand, threads);
    Scenario {
        page_groups: 2048,
        counter_noise: 0.0,
        ..Scenario::new(&demand.name, platform.clone(), vec![task])
    }
}

fn local(scenario: &Scenario) -> Vec<Vec<f64>> {
    let tiers = scenario.platform.tiers.len();
    let first = |_| (0..tiers).map(|tier| if tier == 0 { 1.0 } else { 0.0 }).collect();
    (0..scenario.platform.domains.len()).map(first).collect()
}

fn step(machine: &mut SimMachine<'_>) -> Sample {
    let Ok(sample) = machine.observe(STEP);
    sample
}

fn target(scope: usize, first: f64, order: Order) -> Target {
    Target { scope, shares: vec![first, 1.0 - first], order, rate_limit_gbps: None }
}

fn aim(machine: &mut SimMachine<'_>, targets: Vec<Target>) {
    let Ok(()) = machine.apply(&Decision { targets });
}

fn bytes(sample: &Sample) -> f64 {
    sample.traffic.iter().flatten().map(|tier| tier.bytes().unwrap()).sum()
}

fn gbps(sample: &Sample) -> f64 {
    bytes(sample) / sample.span.as_nanos() as f64
}

/// Returns the outcome of `policy`, compared with the best static shares.
fn run(scenario: &Scenario, policy: PolicyKind, seconds: u64) -> Outcome {
    let prepared = PreparedScenario::new(scenario, Duration::from_secs(seconds));
    let settings = Settings::default();
    prepared.run(&Trial { policy, points: None, curve_error: 0.0, settings }).unwrap()
}

/// Returns the outcome of a run with fixed shares. The best static shares are not searched, so
/// `best_static` of the outcome is `None`.
fn keep(scenario: &Scenario, shares: &[f64], seconds: u64) -> Outcome {
    let duration = Duration::from_secs(seconds);
    let mut run = Run::new(scenario, Settings::default(), duration, |_, tiers| {
        let mut own = shares.to_vec();
        own.resize(tiers.len(), 0.0);
        Box::new(Fixed::at(own))
    });
    while run.period().is_some() {}
    run.outcome(None)
}

// --- Pages --------------------------------------------------------------------------------------

/// Checks that every byte is on one tier, and that used and free bytes add up to the capacity.
fn check_tier_memory(scenario: &Scenario, sample: &Sample) -> Result<(), TestCaseError> {
    let residencies: Vec<&Vec<u64>> =
        sample.scopes.iter().map(|scope| scope.used_bytes.as_ref().unwrap()).collect();
    for (tier, memory) in sample.tier_memory.iter().enumerate() {
        let capacity = scenario.platform.tiers[tier].capacity.get();
        let used = memory.used_bytes.unwrap();
        prop_assert_eq!(used + memory.free_bytes.unwrap(), capacity);
        let pages: u64 = residencies.iter().map(|bytes| bytes[tier]).sum();
        prop_assert_eq!(used, pages + scenario.held_bytes[tier], "tier {}", tier);
    }
    for (task, bytes) in scenario.tasks.iter().zip(&residencies) {
        let sum: u64 = bytes.iter().sum();
        prop_assert!(sum == task.footprint_bytes || sum == 0, "{sum} of {}", task.footprint_bytes);
    }
    let moved = |f: &dyn Fn(usize) -> Option<u64>| -> u64 {
        (0..sample.tier_memory.len()).map(|tier| f(tier).unwrap()).sum()
    };
    let moved_in = moved(&|tier| sample.tier_memory[tier].migrated_in_bytes);
    prop_assert_eq!(moved_in, moved(&|tier| sample.tier_memory[tier].migrated_out_bytes));
    Ok(())
}

fn moved_in(sample: &Sample) -> u64 {
    sample.tier_memory.iter().map(|memory| memory.migrated_in_bytes.unwrap()).sum()
}

fn any_hotness() -> impl Strategy<Value = Hotness> {
    prop_oneof![
        Just(Hotness::Uniform),
        (0.1..2.0f64).prop_map(|exponent| Hotness::Zipf { exponent }),
        (0.02..0.5f64, 0.5..1.0f64)
            .prop_map(|(pages, accesses)| Hotness::HotSet { pages, accesses }),
    ]
}

/// Generates a sequence of targets. A target has the share of the first tier, a flag that is true
/// for the order [`Order::HottestFirst`], and the number of samples for which the target lasts.
fn any_goals() -> impl Strategy<Value = Vec<(f64, bool, usize)>> {
    prop::collection::vec((0.0..=1.0f64, any::<bool>(), 1..40usize), 1..8)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn pages_are_conserved_and_the_rate_limit_holds(
        (footprints, held) in ((1..200u64, 1..200u64), (0..700u64, 0..800u64)),
        hotness in any_hotness(),
        goals in any_goals(),
        rate_gbps in 0.5..20.0f64,
        (groups, steered) in (16..3000usize, any::<bool>()),
    ) {
        let platform = server();
        let mut scenario = quiet(&platform, &demand("lbm"), 40);
        scenario.page_groups = groups;
        scenario.held_bytes = vec![held.0 * GIB, held.1 * GIB];
        scenario.migration.bandwidth_gbps = rate_gbps;
        // The first task is endless. The second task starts 5 s later, ends after a short run, and
        // frees its memory.
        scenario.tasks[0].footprint_bytes = footprints.0 * GIB + 12_345;
        scenario.tasks[0].hotness = hotness;
        let mut late = Task { name: "late".into(), runs: Some(1), ..scenario.tasks[0].clone() };
        (late.start_s, late.work, late.steered) = (5.0, 0.03, steered);
        late.footprint_bytes = footprints.1 * GIB + 1;
        scenario.tasks.push(late);
        prop_assume!(scenario.check().is_ok());
        let mut machine = SimMachine::new(&scenario, local(&scenario));
        let group_bytes = |task: &Task| task.footprint_bytes as f64 / groups as f64 * 4.0;
        let slack = scenario.tasks.iter().map(group_bytes).fold(0.0, f64::max);
        let (mut moved, mut seconds) = (0, 0.0);
        for (first, hottest, samples) in goals {
            let order = if hottest { Order::HottestFirst } else { Order::Interleave };
            aim(&mut machine, vec![target(0, first, order)]);
            for _ in 0..samples {
                let sample = step(&mut machine);
                check_tier_memory(&scenario, &sample)?;
                (moved, seconds) = (moved + moved_in(&sample), seconds + 0.2);
                // Migration to the first tier leaves 2 % of the tier free for allocations.
                let allocates = (4.9..5.3).contains(&seconds);
                let first = sample.tier_memory[0];
                let came = first.migrated_in_bytes > first.migrated_out_bytes;
                if came && !allocates {
                    let room = platform.tiers[0].capacity.get() / 50;
                    prop_assert!(first.free_bytes.unwrap() >= room);
                }
                prop_assert!(moved as f64 <= rate_gbps * seconds * 1e9 + slack);
                prop_assert_eq!(moved, machine.moved_bytes());
            }
        }
    }
}

#[test]
fn no_sample_moves_more_than_the_rate() {
    let platform = server();
    let scenario = quiet(&platform, &demand("lbm"), 119);
    let group_bytes = scenario.tasks[0].footprint_bytes / scenario.page_groups as u64 + 1;
    let most = 800_000_000 + group_bytes;
    let mut machine = SimMachine::new(&scenario, local(&scenario));
    // New targets are set during a migration, at the end of a migration, and later. In each case,
    // no sample may move more than `most` bytes.
    for at in 0..400 {
        if at % (1 + at / 50) == 0 {
            aim(&mut machine, vec![target(0, 0.01 * ((at * 37) % 100) as f64, Order::Interleave)]);
        }
        let moved = moved_in(&step(&mut machine));
        assert!(moved <= most, "{moved} of {most} in sample {at}");
    }
    assert!(machine.moved_bytes() > 4 * scenario.tasks[0].footprint_bytes);
}

#[test]
fn a_limit_of_the_decision_holds_too() {
    let platform = server();
    let scenario = quiet(&platform, &demand("cloverleaf"), 119);
    let mut machine = SimMachine::new(&scenario, local(&scenario));
    for (limit, first, most) in
        [(Some(1.0), 0.7, 0.2e9), (Some(100.0), 0.4, 0.8e9), (None, 0.9, 0.8e9)]
    {
        (0..20).for_each(|_| drop(step(&mut machine)));
        let mut goal = target(0, first, Order::Interleave);
        goal.rate_limit_gbps = limit;
        aim(&mut machine, vec![goal]);
        let moved: Vec<u64> = (0..5).map(|_| moved_in(&step(&mut machine))).collect();
        let mean = moved.iter().sum::<u64>() as f64 / 5.0;
        assert!((mean / most - 1.0).abs() < 0.05, "{limit:?}: {moved:?}");
    }
}

/// One task fills the memory to the last byte, and the capacity of no tier is a whole number of
/// page groups. The pages on a tier may then exceed the capacity of the tier by one group. When the
/// task ends, all bytes are free again.
#[test]
fn a_full_machine_keeps_every_byte() {
    let platform = server();
    for groups in [100, 1023, 1 << 16] {
        let mut scenario = quiet(&platform, &demand("lbm"), 40);
        scenario.page_groups = groups;
        (scenario.tasks[0].runs, scenario.tasks[0].work) = (Some(1), 0.01);
        let footprint = scenario.free_bytes().iter().sum();
        scenario.tasks[0].footprint_bytes = footprint;
        scenario.check().unwrap();
        let mut machine = SimMachine::new(&scenario, local(&scenario));
        let samples: Vec<Sample> = (0..40).map(|_| step(&mut machine)).collect();
        let capacities = platform.tiers.iter().map(|tier| tier.capacity.get());
        for (tier, capacity) in capacities.enumerate() {
            let pages = samples[0].scopes[0].used_bytes.as_ref().unwrap();
            assert_eq!(pages.iter().sum::<u64>(), footprint);
            assert!(pages[tier] <= capacity + footprint / groups as u64 + 1, "{pages:?}");
            let [full, after] = [0, 39].map(|at: usize| samples[at].tier_memory[tier]);
            assert_eq!(full.used_bytes.unwrap() + full.free_bytes.unwrap(), capacity);
            assert_eq!((after.used_bytes, after.free_bytes), (Some(0), Some(capacity)));
        }
    }
}

#[test]
fn pages_get_where_they_should_be() {
    let platform = server();
    for (hotness, firsts) in [
        (Hotness::Uniform, [0.65, 0.9, 0.0]),
        (Hotness::Zipf { exponent: 0.5 }, [0.65, 0.2, 1.0]),
        (Hotness::HotSet { pages: 0.1, accesses: 0.9 }, [0.65, 0.5, 0.95]),
    ] {
        let mut scenario = quiet(&platform, &demand("lbm"), 119);
        scenario.page_groups = 1 << 14;
        scenario.tasks[0].hotness = hotness;
        let mut machine = SimMachine::new(&scenario, local(&scenario));
        for first in firsts {
            aim(&mut machine, vec![target(0, first, Order::Interleave)]);
            (0..100).for_each(|_| drop(step(&mut machine)));
            let reached = machine.reached_shares().unwrap();
            assert!((reached[0] - first).abs() < 0.01, "{hotness:?}: {reached:?} for {first}");
        }
    }
}

#[test]
fn the_hottest_pages_are_on_the_first_tier() {
    let platform = server();
    let mut scenario = quiet(&platform, &demand("lbm"), 60);
    scenario.page_groups = 1 << 14;
    scenario.tasks[0].hotness = Hotness::HotSet { pages: 0.1, accesses: 0.9999 };
    scenario.tasks[0].random = true;
    scenario.tasks[0].footprint_bytes = 64 * GIB;
    let mut machine = SimMachine::new(&scenario, vec![vec![0.5, 0.5]]);
    aim(&mut machine, vec![target(0, 0.3, Order::HottestFirst)]);
    (0..1500).for_each(|_| drop(step(&mut machine)));
    let sample = step(&mut machine);
    let on_first = sample.scopes[0].used_bytes.as_ref().unwrap()[0] as f64;
    let part = on_first / scenario.tasks[0].footprint_bytes as f64;
    assert!((part - 0.3).abs() < 0.02, "{part} of the pages");
    let reached = machine.reached_shares().unwrap()[0];
    assert!(reached > 0.98, "{reached} of the accesses");
}

#[test]
fn migration_is_no_faster_than_the_slower_tier() {
    let platform = server();
    let mut scenario = quiet(&platform, &demand("lbm"), 60);
    scenario.tasks[0].footprint_bytes = 256 * GIB;
    scenario.migration.bandwidth_gbps = 1e4;
    let mut machine = SimMachine::new(&scenario, local(&scenario));
    let rated = |at: usize| machine.layout().tiers[at].rated_gbps;
    let most = rated(0).min(rated(1)) * STEP.as_nanos() as f64;
    (0..20).for_each(|_| drop(step(&mut machine)));
    aim(&mut machine, vec![target(0, 0.5, Order::Interleave)]);
    for _ in 0..2 {
        let sample = step(&mut machine);
        let moved = moved_in(&sample) as f64;
        assert!((0.9 * most..most).contains(&moved), "{moved} of {most} bytes");
        let written = sample.traffic[0][1].written_bytes.unwrap();
        assert!(written < 1.2 * most, "{written} of {most} bytes");
    }
}

#[test]
fn a_task_that_is_not_steered_stays() {
    let platform = server();
    let mut scenario = quiet(&platform, &demand("lbm"), 50);
    let other = Task { name: "other".into(), steered: false, ..scenario.tasks[0].clone() };
    scenario.tasks.push(other);
    let outcome = run(&scenario, PolicyKind::Dmi, 120);
    assert!(outcome.moved_bytes > 0);
    // Simulates the same scenario again, sample by sample: in no sample may a page of the second
    // task be on the second tier.
    let layout_scopes = SimMachine::new(&scenario, local(&scenario)).layout().scopes.clone();
    assert_eq!(layout_scopes.iter().map(|scope| scope.steered).collect::<Vec<_>>(), [true, false]);
    let mut machine = SimMachine::new(&scenario, local(&scenario));
    aim(&mut machine, vec![target(0, 0.4, Order::Interleave)]);
    for _ in 0..100 {
        let sample = step(&mut machine);
        assert_eq!(sample.scopes[1].used_bytes.as_ref().unwrap()[1], 0);
    }
    assert!(machine.moved_bytes() > scenario.tasks[0].footprint_bytes / 2);
}

#[test]
fn a_task_that_is_not_steered_stays_on_a_full_tier() {
    let platform = server();
    let mut scenario = quiet(&platform, &demand("lbm"), 50);
    scenario.tasks[0].footprint_bytes = 100 * GIB;
    scenario.tasks[0].hotness = Hotness::HotSet { pages: 0.1, accesses: 1.0 };
    scenario.tasks[0].steered = false;
    scenario.held_bytes[0] = platform.tiers[0].capacity.get() - 100 * GIB;
    let mut machine = SimMachine::new(&scenario, local(&scenario));
    (0..200).for_each(|_| drop(step(&mut machine)));
    assert_eq!(machine.moved_bytes(), 0);
}

#[test]
fn demotion_makes_room() {
    let platform = server();
    let mut scenario = quiet(&platform, &demand("lbm"), 60);
    scenario.page_groups = 1 << 14;
    // With few DAMON regions at the start, a region would have both hot and cold pages, and these
    // pages would migrate together.
    scenario.damon.regions_min = 500;
    scenario.damon.regions_max = 4000;
    scenario.tasks[0].footprint_bytes = 100 * GIB;
    scenario.tasks[0].random = true;
    scenario.tasks[0].hotness = Hotness::HotSet { pages: 0.1, accesses: 1.0 };
    let capacity = platform.tiers[0].capacity.get();
    scenario.held_bytes[0] = capacity - 100 * GIB;
    let mut machine = SimMachine::new(&scenario, local(&scenario));
    assert!(step(&mut machine).tier_memory[0].free_bytes.unwrap() < capacity / 100);
    (0..300).for_each(|_| drop(step(&mut machine)));
    let free = step(&mut machine).tier_memory[0].free_bytes.unwrap();
    assert!(free >= capacity / 50 - 10_000_000 && free < capacity / 40, "{free} of {capacity}");
    // DAMON samples hotness by regions. So some hot page groups lie in regions that count as cold,
    // and are demoted with their regions.
    assert!(machine.reached_shares().unwrap()[0] > 0.9, "it is the cold ones that go");
}

// --- Time and traffic ---------------------------------------------------------------------------

#[test]
fn local_runs_have_the_measured_duration() {
    let platform = server();
    for name in ["cloverleaf", "lbm", "bwaves", "pr", "bfs", "bc"] {
        let demand = demand(name);
        let series = &demand.local[0].series;
        for published in demand.local.iter().filter(|run| run.series == *series) {
            let scenario =
                Scenario { page_groups: 64, ..quiet(&platform, &demand, published.threads) };
            let seconds = published.result as u64 + 10;
            let outcome = keep(&scenario, &[1.0], seconds);
            let runtime_s = outcome.tasks[0].runtime_s.unwrap();
            let what = format!("{name} with {} threads: {runtime_s}", published.threads);
            assert!((runtime_s / published.result - 1.0).abs() < 1e-6, "{what}");
            assert_eq!((outcome.moved_bytes, outcome.last_change()), (0, 0), "{what}");
        }
    }
}

#[test]
fn static_runs_are_those_of_the_equilibrium() {
    let platform = server();
    for (name, threads) in [("cloverleaf", 119), ("lbm", 119), ("bwaves", 60), ("stream", 96)] {
        for points in [[90, 10], [65, 35], [40, 60], [0, 100]] {
            let scenario = quiet(&platform, &demand(name), threads);
            let program = &scenario.tasks[0].program;
            let shares = points.map(|points| f64::from(points) / 100.0).to_vec();
            let alone = solve(&platform, &[program.load(0, 0, shares.clone())]).loads.remove(0);
            let expected_s = program.local_runtime_s / program.speed(0, alone.bandwidth_gbps);
            let outcome = keep(&scenario, &shares, 700);
            let runtime_s = outcome.tasks[0].runtime_s.unwrap();
            assert!(
                (runtime_s / expected_s - 1.0).abs() < 0.005,
                "{name} at {points:?}: {runtime_s} s, not {expected_s}"
            );
        }
    }
}

#[test]
fn true_counters_count_bandwidth_times_time() {
    let mut platform = server();
    platform.tiers[0].queue_counters = None;
    let scenario = quiet(&platform, &demand("cloverleaf"), 119);
    let program = &scenario.tasks[0].program;
    let mut machine = SimMachine::new(&scenario, vec![vec![0.7, 0.3]]);
    let placed = {
        step(&mut machine);
        machine.reached_shares().unwrap()
    };
    let expected = solve(&platform, &[program.load(0, 0, placed)]).loads.remove(0);
    for span in [STEP, Duration::from_millis(333), Duration::from_secs(30)] {
        let Ok(sample) = machine.observe(span);
        assert_eq!(sample.span, span);
        for (tier, counted) in sample.traffic[0].iter().enumerate() {
            let same = |a: f64, b: f64| (a / b - 1.0).abs() < 1e-4;
            let bytes = expected.tier_bandwidth_gbps[tier] * span.as_nanos() as f64;
            assert!(same(counted.bytes().unwrap(), bytes), "{counted:?} on {tier}, not {bytes}");
            assert!(same(counted.read_bytes.unwrap() / bytes, 0.75));
            assert!(same(counted.inserts.unwrap() * 64.0, bytes));
            let latency_ns = counted.occupancy_ns.unwrap() / counted.inserts.unwrap();
            assert!(same(latency_ns, expected.tier_latency_ns[tier]), "{latency_ns} on {tier}");
        }
    }
}

/// The queue counters of a tier count a limited number of outstanding reads (`reads_max`). The
/// counted occupancy leaves out the reads beyond this limit; the counted inserts are exact.
#[test]
fn counters_see_a_limited_number_of_reads() {
    for (threads, is_limited) in [(30, false), (119, true)] {
        let platform = server();
        let scenario = quiet(&platform, &demand("lbm"), threads);
        let mut machine = SimMachine::new(&scenario, local(&scenario));
        let placed = {
            step(&mut machine);
            machine.reached_shares().unwrap()
        };
        let load = scenario.tasks[0].program.load(0, 0, placed);
        let expected = solve(&platform, &[load]).loads.remove(0);
        let lines_per_ns = expected.tier_bandwidth_gbps[0] / 64.0;
        let true_reads = scenario.tasks[0].read_share * lines_per_ns * expected.tier_latency_ns[0];
        let reads_max = platform.tiers[0].queue_counters.as_ref().unwrap().reads_max;
        assert_eq!(true_reads > reads_max, is_limited, "{true_reads} of {threads} threads");

        let traffic = step(&mut machine).traffic[0][0];
        let span_ns = STEP.as_nanos() as f64;
        let counted_reads = scenario.tasks[0].read_share * traffic.occupancy_ns.unwrap() / span_ns;
        let expected_reads = true_reads.min(reads_max);
        assert!((counted_reads / expected_reads - 1.0).abs() < 1e-3, "{counted_reads}");
        let inserts = traffic.inserts.unwrap() / span_ns;
        assert!((inserts / lines_per_ns - 1.0).abs() < 1e-3, "{inserts}");
    }
}

#[test]
fn uncounted_quantities_are_absent() {
    let platform = server();
    let mut scenario = quiet(&platform, &demand("lbm"), 119);
    scenario.counts_latency = false;
    let mut machine = SimMachine::new(&scenario, local(&scenario));
    let traffic = step(&mut machine).traffic[0][0];
    assert!(traffic.bytes().is_some());
    assert_eq!((traffic.inserts, traffic.occupancy_ns), (None, None));
}

#[test]
fn pages_that_move_are_traffic_and_hold_up() {
    let platform = server();
    let scenario = quiet(&platform, &demand("cloverleaf"), 20);
    let mut machine = SimMachine::new(&scenario, local(&scenario));
    (0..20).for_each(|_| drop(step(&mut machine)));
    let before = step(&mut machine);
    aim(&mut machine, vec![target(0, 0.8, Order::Interleave)]);
    let sample = step(&mut machine);
    let moved = moved_in(&sample) as f64;
    assert!(moved > 0.75e9, "{moved}");
    // Migration reads the first tier and writes the second tier. The second tier has no other
    // traffic yet.
    let there = sample.traffic[0][1];
    assert_eq!(there.written_bytes, Some(moved));
    assert_eq!(there.read_bytes, Some(0.0));
    let own = bytes(&sample) - 2.0 * moved;
    let part = own / bytes(&before);
    // At 4 GB/s, about a million pages of 4 KiB migrate per second. A stall of 2 us for each page
    // is 2 s of thread time per second: the time of two of the twenty threads, 10 %.
    assert!((0.88..=0.91).contains(&part), "{part}");
}

#[test]
fn devices_take_bandwidth_while_they_are_there() {
    let platform = server();
    let mut scenario = quiet(&platform, &demand("lbm"), 119);
    let device = TrafficDevice {
        name: "nic".into(),
        tier: 0,
        domain: 0,
        bandwidth_gbps: 80.0,
        read_share: 0.25,
        from_s: 4.0,
        to_s: 8.05,
    };
    scenario.devices.push(device);
    let mut machine = SimMachine::new(&scenario, local(&scenario));
    let samples: Vec<Sample> = (0..60).map(|_| step(&mut machine)).collect();
    let all: Vec<f64> = samples.iter().map(gbps).collect();
    let alone = all[0];
    for (at, gbps) in all.iter().enumerate() {
        let own = match at {
            20..40 => gbps - 80.0,
            // The device is active during only a quarter of sample 40, so sample 40 is left out.
            40 => continue,
            _ => *gbps,
        };
        let lost = alone - own;
        let range = if (20..40).contains(&at) { 40.0..100.0 } else { -1e-6..1e-6 };
        assert!(range.contains(&lost), "{lost} of {alone} in sample {at}");
    }
    // Reads and writes of the device are counted separately; a quarter of its bytes are reads.
    let reads = |sample: &Sample| sample.traffic[0][0].read_bytes.unwrap();
    let own_reads = scenario.tasks[0].read_share * (all[30] - 80.0) * 0.2e9;
    assert!((reads(&samples[30]) - own_reads - 0.25 * 80.0 * 0.2e9).abs() < 1e3);
}

#[test]
fn phases_ask_for_more_and_for_less() {
    let platform = server();
    let phases = "\n[[phase]]\nshare_of_time = 0.25\nbandwidth_gbps = 420.0\n\
                  [[phase]]\nshare_of_time = 0.75\nbandwidth_gbps = 60.0\n";
    let text = fs::read_to_string(root("workloads/lbm.toml")).unwrap() + phases;
    let demand = demand_toml::parse("phased", &text).unwrap();
    let published = &demand.local[1];
    let mut scenario = quiet(&platform, &demand, published.threads);
    scenario.tasks[0].cycles = 3;
    let runtime_s = scenario.tasks[0].local_runtime_s();
    assert!((runtime_s / published.result - 1.0).abs() < 1e-9);
    let outcome = keep(&scenario, &[1.0], published.result as u64 + 10);
    assert!((outcome.tasks[0].runtime_s.unwrap() / runtime_s - 1.0).abs() < 1e-6);
    let mut machine = SimMachine::new(&scenario, local(&scenario));
    let count = (runtime_s / 0.2) as usize;
    let seen: Vec<f64> = (0..count).map(|_| gbps(&step(&mut machine))).collect();
    let near = |gbps: f64, aim: f64| (gbps / aim - 1.0).abs() < 0.05;
    let high = seen.iter().filter(|gbps| near(**gbps, 420.0)).count() as f64;
    let low = seen.iter().filter(|gbps| near(**gbps, 60.0)).count() as f64;
    assert!((high / count as f64 - 0.25).abs() < 0.01, "{high} of {count}");
    assert!((low / count as f64 - 0.75).abs() < 0.01, "{low} of {count}");
    let rises = seen.windows(2).filter(|pair| pair[1] > 2.0 * pair[0]).count();
    assert!((2..=4).contains(&rises), "three cycles, {rises} rises");
}

// --- Energy and randomness -----------------------------------------------------------------------

#[test]
fn power_is_between_idle_and_full_load() {
    let platform = server();
    let power = platform.power.as_ref().unwrap();
    let tiers = || platform.tiers.iter().map(|tier| (tier, tier.power.as_ref().unwrap()));
    let standing_w = power.idle_w + tiers().map(|(_, power)| power.static_w).sum::<f64>();
    let full_w = |(tier, power): (&interleaf_model::tier::Tier, _)| {
        let power: &interleaf_model::tier::TierPower = power;
        let most = tier.curves.iter().map(|mix| mix.curve.max_bandwidth_gbps()).fold(0.0, f64::max);
        8e-3 * power.energy_pj_per_bit * most
    };
    let most_w = standing_w + 120.0 * power.core_w + tiers().map(full_w).sum::<f64>();
    for (threads, first) in [(8, 1.0), (60, 0.7), (119, 0.6)] {
        let scenario = quiet(&platform, &demand("lbm"), threads);
        let mut machine = SimMachine::new(&scenario, vec![vec![first, 1.0 - first]]);
        let mut before = 0.0;
        for _ in 0..50 {
            let gbps = gbps(&step(&mut machine));
            let watts = (machine.energy_j() - before) / 0.2;
            before = machine.energy_j();
            let least_w = standing_w + f64::from(threads) * power.core_w;
            assert!(watts > least_w && watts < most_w, "{watts} W");
            let per_gbps = tiers().map(|(_, power)| 8e-3 * power.energy_pj_per_bit);
            let [least, most] = [f64::min, f64::max].map(|of| per_gbps.clone().reduce(of).unwrap());
            let traffic_w = watts - least_w;
            let expected = 0.99 * least * gbps..1.01 * most * gbps;
            assert!(expected.contains(&traffic_w), "{traffic_w} W");
        }
    }
}

#[test]
fn a_platform_without_power_has_no_energy() {
    let mut platform = platform("two-sockets");
    platform.power = None;
    let scenario = quiet(&platform, &demand("lbm"), 60);
    let outcome = keep(&scenario, &[1.0], 30);
    assert_eq!((outcome.energy_j, outcome.tasks[0].energy_j), (None, None));
}

#[test]
fn runs_depend_only_on_the_seed() {
    let platform = server();
    let noisy = |seed, policy| {
        let scenario =
            Scenario { counter_noise: 0.03, seed, ..quiet(&platform, &demand("lbm"), 119) };
        let mut machine = SimMachine::new(&scenario, local(&scenario));
        let counted = step(&mut machine).traffic;
        (counted, run(&scenario, policy, 60))
    };
    for policy in [PolicyKind::Dmi, PolicyKind::Guided, PolicyKind::ColloidWatermark] {
        let (once, again, other) = (noisy(5, policy), noisy(5, policy), noisy(6, policy));
        assert_eq!(once, again);
        assert_ne!(once.0, other.0, "another seed, other counters");
        assert_ne!(once.1.periods, other.1.periods);
        assert_eq!(once.1.best_static, other.1.best_static, "which leave no trace in what is so");
    }
    let quiet_counters = |seed| {
        let scenario = Scenario { seed, ..quiet(&platform, &demand("lbm"), 119) };
        step(&mut SimMachine::new(&scenario, local(&scenario))).traffic
    };
    assert_eq!(quiet_counters(5), quiet_counters(6), "without noise no seed shows");
}

/// Without a link between the two sockets, all tiers belong to both sockets. Each migrated page
/// must still be counted once, not once for each socket.
#[test]
fn domains_that_share_tiers_count_each_page_once() {
    let mut platform = platform("two-sockets");
    platform.links.clear();
    let mut scenario = quiet(&platform, &demand("lbm"), 100);
    let second = Task { name: "second".into(), domain: 1, ..scenario.tasks[0].clone() };
    scenario.tasks.push(second);
    let duration = Duration::from_secs(30);
    let mut run = Run::new(&scenario, Settings::default(), duration, |_, tiers| {
        Box::new(ClosedForm::new(tiers.to_vec()))
    });
    while run.period().is_some() {}
    let outcome = run.outcome(None);
    assert!(outcome.moved_bytes > 0);
    let by_period: u64 = outcome.periods.iter().map(|period| period.migrated_bytes).sum();
    assert_eq!(by_period, outcome.moved_bytes);
}
