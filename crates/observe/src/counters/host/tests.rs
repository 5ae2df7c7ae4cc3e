//! Tests counter readings against values calculated by hand, and against the kernel's software
//! counters.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use super::*;
use interleaf_model::machine::Traffic;
use std::time::Duration;

/// `SOFTWARE` is `PERF_TYPE_SOFTWARE` of perf_event.h, and `CPU_CLOCK` the software event
/// `cpu-clock`, which counts ns.
const SOFTWARE: u32 = 1;
const CPU_CLOCK: u64 = 0;

fn event(quantity: Quantity, tier: Option<usize>, scale: f64, group: usize) -> Planned {
    Planned {
        name: format!("{quantity:?}"),
        pmu: "software".into(),
        kind: SOFTWARE,
        cpu: 0,
        config: [CPU_CLOCK, 0, 0],
        quantity,
        domain: 0,
        tier,
        scale,
        group,
    }
}

fn plan(events: Vec<Planned>) -> Plan {
    Plan {
        tables: vec!["a test".into()],
        domains: 1,
        tiers: 2,
        events,
        notes: vec![],
        missing: vec![],
    }
}

fn grown(enabled_ns: f64, counts: Option<&[f64]>) -> Grown {
    Grown { enabled_ns, counts: counts.map(<[f64]>::to_vec) }
}

#[test]
fn counts_are_scaled_by_the_time_they_had_a_counter() {
    let before = Raw { enabled_ns: 1000, running_ns: 1000, counts: vec![5, 7] };
    let now = Raw { enabled_ns: 5000, running_ns: 2000, counts: vec![15, 7] };
    let expected = Grown { enabled_ns: 4000.0, counts: Some(vec![40.0, 0.0]) };
    assert_eq!(Grown::between(&before, &now), expected);
    let idle = Raw { enabled_ns: 5000, ..before.clone() };
    assert_eq!(Grown::between(&before, &idle).counts, None, "it never had a counter");
}

#[test]
fn sub_channels_add_up() {
    // Two sub-channels count 1000 lines each. The sum must be 128 kB read, of which 64 kB are from
    // the first sub-channel.
    let plan = plan(vec![
        event(Quantity::Read, Some(0), 64.0, 0),
        event(Quantity::Read, Some(0), 64.0, 0),
        event(Quantity::Link, None, 64.0 / 9.0, 1),
    ]);
    let reading =
        sum(&plan, &[(&[0, 1], grown(1e9, Some(&[1e3, 1e3]))), (&[2], grown(1e9, Some(&[9.0])))]);
    assert_eq!(reading.traffic[0][0].read_bytes, Some(128e3));
    assert_eq!(reading.traffic[0][0].written_bytes, None, "not counted is not 0");
    assert_eq!(reading.traffic[0][1], Traffic::default());
    assert_eq!(reading.domain_counts.link_bytes, [Some(64.0)]);
}

#[test]
fn cycles_become_time_by_ticks() {
    // In 1 ms at 2 GHz there are 2e6 ticks, so 4e6 cycles of waiting are 2e6 ns, or 200 ns for each
    // of 1e4 requests. Only one of 12 units counts, so the counts must be multiplied by 12.
    let plan = plan(vec![
        event(Quantity::Ticks, None, 1.0, 0),
        event(Quantity::OccupancyCycles, Some(1), 12.0, 0),
        event(Quantity::Inserts, Some(1), 12.0, 0),
    ]);
    let reading = sum(&plan, &[(&[0, 1, 2], grown(1e6, Some(&[2e6, 4e6, 1e4])))]);
    let traffic = reading.traffic[0][1];
    assert_eq!((traffic.occupancy_ns, traffic.inserts), (Some(24e6), Some(12e4)));
    let stopped = sum(&plan, &[(&[0, 1, 2], grown(1e6, Some(&[0.0, 0.0, 0.0])))]);
    assert_eq!(stopped.traffic[0][1], Traffic::default(), "without ticks nothing is known");
}

#[test]
fn a_sum_with_a_part_unknown_is_unknown() {
    let plan = plan(vec![
        event(Quantity::Read, Some(0), 64.0, 0),
        event(Quantity::Written, Some(0), 64.0, 0),
        event(Quantity::Read, Some(0), 64.0, 1),
    ]);
    let reading = sum(&plan, &[(&[2], grown(1e9, None)), (&[0, 1], grown(1e9, Some(&[1.0, 2.0])))]);
    assert_eq!(reading.traffic[0][0].read_bytes, None);
    assert_eq!(reading.traffic[0][0].written_bytes, Some(128.0));
}

/// In place of the counters of a unit, the test opens the kernel's software clock, which counts ns.
/// Two groups are counted on CPU 0, the first with two events. Each count is the elapsed time
/// multiplied by the scale of the event. A call reads the count at an unknown moment of its
/// duration. Therefore the counted time between two readings must be at least the time from the end
/// of the first call to the beginning of the second call, and at most the time from the beginning
/// of the first call to the end of the second call.
#[test]
fn the_kernel_counts() {
    let events = vec![
        event(Quantity::Read, Some(0), 1.0, 0),
        event(Quantity::Written, Some(0), 2.0, 0),
        event(Quantity::Read, Some(1), 1.0, 1),
    ];
    // NTP adjusts the clock of `Instant` by at most 500 ppm, and does not adjust the clock of the
    // counters. The test allows twice this difference.
    let rates_differ = 1e-3;
    let mut begun = Instant::now();
    let mut counters = match Counters::open(plan(events), &Root::live()) {
        Err(why @ OpenError::NotPermitted { .. }) => {
            // Without permission, only the message to the user is tested.
            assert!(why.to_string().starts_with("this user may not count"), "{why}");
            return;
        }
        opened => opened.unwrap(),
    };
    let mut ended = Instant::now();
    assert_eq!(counters.groups.len(), 2);
    for _ in 0..2 {
        std::thread::sleep(Duration::from_millis(20));
        let begins = Instant::now();
        let reading = counters.read().unwrap();
        let ends = Instant::now();
        let (inner, outer) = (begins - ended, ends - begun);
        (begun, ended) = (begins, ends);
        assert!((inner..=outer).contains(&reading.span), "{:?}: {inner:?} {outer:?}", reading.span);
        let least_ns = inner.as_nanos() as f64 * (1.0 - rates_differ);
        let most_ns = outer.as_nanos() as f64 * (1.0 + rates_differ);
        let [first, second] = &reading.traffic[0][..] else { panic!("two tiers") };
        let doubled = first.written_bytes.unwrap();
        for clock_ns in [first.read_bytes.unwrap(), doubled / 2.0, second.read_bytes.unwrap()] {
            assert!((least_ns..=most_ns).contains(&clock_ns), "{clock_ns}: {least_ns} {most_ns}");
        }
    }
}

#[test]
fn missing_units_are_reported() {
    let why = Counters::open(plan(vec![]), &Root::live()).unwrap_err();
    assert_eq!(why.to_string(), "there is nothing to count");
    let mut unit = event(Quantity::Read, Some(0), 64.0, 0);
    (unit.pmu, unit.kind) = ("uncore_imc_0".into(), 0x7fff);
    match Counters::open(plan(vec![unit]), &Root::live()).unwrap_err() {
        // Without permission, `NotPermitted` is right: the kernel checks the permission before it
        // looks for the unit.
        OpenError::NotPermitted { .. } => {}
        why => {
            let text = why.to_string();
            assert!(text.starts_with("uncore_imc_0 on CPU 0: no such unit: "), "{text}");
            assert!(why.hint().contains("bare metal"));
        }
    }
}

#[test]
fn a_missing_right_is_named() {
    let denied = || io::Error::from_raw_os_error(libc::EACCES);
    let folder = tempfile::tempdir().unwrap();
    let event = event(Quantity::Read, Some(0), 64.0, 0);
    let message = |root: &Root| refused_of(&event, denied(), root).to_string();
    let bare = "this user may not count events of the whole machine";
    assert_eq!(message(&Root::captured(folder.path())), bare);
    let kernel = folder.path().join("proc/sys/kernel");
    std::fs::create_dir_all(&kernel).unwrap();
    std::fs::write(kernel.join("perf_event_paranoid"), "2\n").unwrap();
    let expected = format!("{bare}: kernel.perf_event_paranoid is 2");
    assert_eq!(message(&Root::captured(folder.path())), expected);
    let why = refused_of(&event, denied(), &Root::captured(folder.path()));
    assert!(why.hint().contains("CAP_PERFMON"));
}
