#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use super::*;
use proptest::prelude::*;

fn tier(read: f64, written: f64) -> TrafficDocument {
    TrafficDocument {
        read_bytes: Some(read * 1e9),
        written_bytes: Some(written * 1e9),
        inserts: Some(10.0),
        occupancy_ns: Some(2000.0),
    }
}

fn sample(time_s: f64, tiers: &[TrafficDocument]) -> SampleDocument {
    SampleDocument {
        time_s,
        span_s: 1.0,
        counted_s: 1.0,
        looked_s: 1.0,
        tiers: tiers.to_vec(),
        cpu_s: 2.0,
        threads: 4,
        threads_running: 2,
        resident_bytes: Some(1000 * time_s as u64),
        placement_bytes: vec![750 * time_s as u64, 250 * time_s as u64],
        anonymous_bytes: vec![700 * time_s as u64, 200 * time_s as u64],
        energy_j: vec![Some(100.0)],
        ..SampleDocument::default()
    }
}

fn app(samples: Vec<SampleDocument>) -> AppDocument {
    let tier = |node| ProfileTier {
        name: format!("node {node}"),
        kind: TierKindName::Dram,
        nodes: vec![node],
    };
    AppDocument {
        kind: AppKind::App,
        command: vec![],
        dry_run: false,
        exit_code: Some(0),
        signal: None,
        runtime_s: None,
        every_s: 1.0,
        cpus: 4,
        tiers: vec![tier(0), tier(1)],
        energy_domains: vec!["package-0".into()],
        quantities: vec![],
        whole: None,
        phases: vec![],
        warnings: vec![],
        demand_file: None,
        samples,
    }
}

#[test]
fn totals_are_the_sums_of_the_samples() {
    let quiet = [tier(3.0, 1.0), tier(0.0, 0.0)];
    let busy = [tier(20.0, 10.0), tier(4.0, 6.0)];
    let samples = (1..=4).map(|s| sample(f64::from(s), if s <= 2 { &quiet } else { &busy }));
    let mut app = app(samples.collect());
    let totals = RunTotals {
        process_resident_max_bytes: Some(3000),
        machine_busy_s: Some(10.0),
        stolen_s: Some(0.4),
    };
    app.summarise(4.0, totals);
    let whole = app.whole.clone().unwrap();
    assert_eq!((whole.bandwidth_gbps, whole.bandwidth_max_gbps), (Some(22.0), Some(40.0)));
    assert_eq!(whole.read_share, Some(rounded(54.0 / 88.0)));
    assert_eq!((whole.tiers[1].read_gbps, whole.tiers[1].bandwidth_gbps), (Some(2.0), Some(5.0)));
    assert_eq!(whole.tiers[0].latency_ns, Some(200.0));
    assert_eq!((whole.cpus_used, whole.other_cpus_used), (2.0, Some(0.5)));
    assert_eq!((whole.stolen_cpus, whole.threads_running_max), (Some(0.1), 2));
    assert_eq!((whole.resident_max_bytes, whole.resident_mean_bytes), (4000, Some(2500.0)));
    assert_eq!((whole.tiers[0].resident_bytes, app.first_tier_share()), (Some(3000), Some(0.75)));
    assert_eq!((whole.energy[0].energy_j, whole.energy[0].power_w), (400.0, 100.0));
    let [first, second] = &app.phases[..] else { panic!("{:?}", app.phases) };
    assert_eq!((first.to_s, first.bandwidth_gbps, first.read_share), (2.0, 4.0, Some(0.75)));
    assert_eq!((second.share_of_time, second.bandwidth_gbps), (0.5, 40.0));
}

/// CPU time within the error of the kernel's ticks must not count as CPU time of other programs: in
/// a run of 5 ms, a tick (10 ms) would be 2 CPUs.
#[test]
fn a_few_ticks_are_no_other_programs() {
    let cpus_of = |runtime_s: f64, time_s: f64| {
        let mut app = app(vec![sample(runtime_s, &[TrafficDocument::default(); 2])]);
        app.samples[0].cpu_s = 0.0;
        let totals = RunTotals {
            machine_busy_s: Some(time_s),
            stolen_s: Some(time_s),
            ..RunTotals::default()
        };
        app.summarise(runtime_s, totals);
        let whole = app.whole.unwrap();
        assert_eq!(whole.other_cpus_used, whole.stolen_cpus);
        whole.stolen_cpus
    };
    assert_eq!(cpus_of(0.005, 0.06), Some(0.0), "four CPUs and the command, a tick or two each");
    assert_eq!(cpus_of(0.005, 0.07), Some(4.0), "no more than the machine has");
    assert_eq!(cpus_of(10.0, 0.07), Some(0.007));
}

#[test]
fn uncounted_quantities_are_absent() {
    let mut app = app(vec![sample(1.0, &[TrafficDocument::default(); 2])]);
    app.samples[0].energy_j = vec![None];
    app.summarise(1.0, RunTotals::default());
    let whole = app.whole.unwrap();
    assert_eq!((whole.bandwidth_gbps, whole.read_share, whole.other_cpus_used), (None, None, None));
    assert_eq!(whole.tiers[0].latency_ns, None);
    assert!(whole.energy.is_empty() && whole.topdown.is_none());
    assert!(app.phases.is_empty());
}

#[test]
fn traffic_of_the_command_replaces_uncounted_tiers() {
    let counted = |time_s: f64, bytes: f64| SampleDocument {
        command_bytes: Some(bytes),
        ..sample(time_s, &[TrafficDocument::default(); 2])
    };
    let mut app = app(vec![counted(1.0, 4e9), counted(2.0, 6e9)]);
    app.summarise(2.0, RunTotals::default());
    let whole = app.whole.unwrap();
    assert_eq!((whole.bandwidth_gbps, whole.bandwidth_max_gbps), (Some(5.0), Some(6.0)));
    assert_eq!((whole.read_share, whole.tiers[0].bandwidth_gbps), (None, None));
    assert_eq!(app.phases.len(), 1, "two readings tell no phases");
}

#[test]
fn both_levels_sum_to_their_parts() {
    let slots = SlotsDocument {
        all: Some(1000.0),
        retiring: Some(300.0),
        bad_speculation: Some(50.0),
        frontend: Some(100.0),
        backend: Some(550.0),
        memory: Some(400.0),
        enabled_ns: 200.0,
        running_ns: 150.0,
        ..SlotsDocument::default()
    };
    let topdown = TopdownDocument::new(&slots).unwrap();
    assert_eq!((topdown.backend_bound, topdown.contention), (Some(0.55), None));
    assert_eq!((topdown.second["memory_bound"], topdown.second["core_bound"]), (0.4, 0.15));
    assert_eq!((topdown.second.len(), topdown.counted_share), (2, 0.75));
    assert_eq!(TopdownDocument::new(&SlotsDocument::default()), None);
}

proptest! {
    /// The test takes up to 5000 samples, so that [`Samples`] merges neighbours, and asserts that
    /// the sums over the run stay the same.
    #[test]
    fn long_runs_keep_their_sums(count in 1usize..5000) {
        let mut samples = Samples::new();
        for at in 0..count {
            samples.push(sample(at as f64 + 1.0, &[tier(at as f64, 1.0)]));
        }
        prop_assert!(samples.list().len() <= 1024);
        let sum = SampleDocument::sum(samples.list()).unwrap();
        let total = (count * (count - 1) / 2) as f64 * 1e9;
        prop_assert!((sum.tiers[0].read_bytes.unwrap() - total).abs() <= 1e-9 * total);
        prop_assert_eq!((sum.span_s, sum.time_s), (count as f64, count as f64));
        let mut last = 0.0;
        for sample in samples.list() {
            prop_assert!((sample.time_s - last - sample.span_s).abs() < 1e-9);
            last = sample.time_s;
        }
    }
}
