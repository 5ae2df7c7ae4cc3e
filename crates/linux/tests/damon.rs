//! Tests of reading the state of DAMON, of the probe, which leaves this state as it was, and of the
//! rate limit of schemes.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use interleaf_linux::{
    machine::damon::{
        Damon, KdamondSettings, damon,
        probe::{ProbeError, Probed, probe},
    },
    place::actuator::context::{Context, Destination, MonitoredMemory, Quota, Scheme},
    root::Root,
};
use std::{fs, path::Path};

/// Makes a simulated live machine, whose writes change the files below `top`.
fn live_below(top: &Path) -> Root {
    let to = top.to_path_buf();
    Root::live_simulated(top, move |path, text| {
        fs::write(to.join(path.trim_start_matches('/')), text)
    })
}

const ADMIN: &str = "sys/kernel/mm/damon/admin/kdamonds";
const COUNT: &str = "sys/kernel/mm/damon/admin/kdamonds/nr_kdamonds";

fn write(folder: &Path, path: &str, text: &str) {
    let path = folder.join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

/// Makes a machine with the given files. Their paths are relative to DAMON's folder `kdamonds`.
fn machine(files: &[(&str, &str)]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (path, text) in files {
        write(folder.path(), &format!("{ADMIN}/{path}"), text);
    }
    folder
}

#[test]
fn the_threads_of_damon_are_read() {
    let read = |files: &[(&str, &str)]| damon(&Root::captured(machine(files).path())).unwrap();
    assert_eq!(read(&[]), None);
    assert_eq!(read(&[("nr_kdamonds", "0\n")]), Some(Damon::default()));
    let off = KdamondSettings { on: Some(false), ..KdamondSettings::default() };
    let files = [("nr_kdamonds", "1\n"), ("0/state", "off\n")];
    assert_eq!(read(&files).unwrap().kdamonds, [off]);
    let files = [
        ("nr_kdamonds", "1\n"),
        ("0/state", "on\n"),
        ("0/contexts/0/avail_operations", "vaddr\npaddr\n"),
        ("0/contexts/0/operations", "paddr\n"),
        ("0/contexts/0/schemes/nr_schemes", "2\n"),
        ("0/contexts/0/schemes/0/action", "migrate_hot\n"),
        ("0/contexts/0/schemes/1/action", "pageout\n"),
        ("0/contexts/0/schemes/1/dests/nr_dests", "0\n"),
    ];
    let found = read(&files).unwrap();
    let actions = vec!["migrate_hot".into(), "pageout".into()];
    assert_eq!(
        found.kdamonds,
        [KdamondSettings { on: Some(true), operations: Some("paddr".into()), actions }]
    );
    assert_eq!(found.operations, ["vaddr", "paddr"]);
    assert_eq!((found.destinations, found.hidden), (Some(true), false));
}

#[test]
fn files_for_root_alone_are_hidden() {
    let folder = machine(&[("nr_kdamonds", "1\n"), ("0/contexts/nr_contexts", "1\n")]);
    let read = || damon(&Root::captured(folder.path())).unwrap().unwrap();
    assert_eq!((read().hidden, read().kdamonds[0].on), (true, None), "its state is not there");
    write(folder.path(), &format!("{ADMIN}/0/state"), "off\n");
    assert!(!read().hidden);
    let module = "sys/module/damon_stat/parameters/enabled";
    for (text, hidden, modules) in [("", true, 0), ("N\n", false, 0), ("Y\n", false, 1)] {
        write(folder.path(), module, text);
        assert_eq!((read().hidden, read().modules.len()), (hidden, modules), "{text}");
    }
}

/// The files of DAMON that a probe reads. All of them exist from the start and accept every value,
/// while a kernel creates them step by step during a set-up.
const READY: [(&str, &str); 12] = [
    ("nr_kdamonds", "0\n"),
    ("0/contexts/nr_contexts", "0\n"),
    ("0/contexts/0/avail_operations", "vaddr\nfvaddr\npaddr\n"),
    ("0/contexts/0/schemes/nr_schemes", "0\n"),
    ("0/contexts/0/schemes/0/action", "stat\n"),
    ("0/contexts/0/schemes/0/dests/nr_dests", "0\n"),
    ("0/contexts/0/schemes/0/quotas/goals/nr_goals", "0\n"),
    ("0/contexts/0/schemes/0/quotas/goals/0/target_metric", "user_input\n"),
    ("0/contexts/0/schemes/0/quotas/goal_tuner", "consist\n"),
    ("0/contexts/0/schemes/0/ops_filters/nr_filters", "0\n"),
    ("0/contexts/0/schemes/0/ops_filters/0/type", "anon\n"),
    ("0/contexts/0/monitoring_attrs/intervals/intervals_goal/aggrs", "0\n"),
];

fn probed(files: &[(&str, &str)]) -> Probed {
    let folder = machine(files);
    let probed = probe(&live_below(folder.path())).unwrap();
    assert_eq!(fs::read_to_string(folder.path().join(COUNT)).unwrap(), "0");
    probed
}

#[test]
fn a_probe_reports_supported_features() {
    let all = probed(&READY);
    assert_eq!(all.operations, ["vaddr", "fvaddr", "paddr"]);
    assert!(all.actions.contains(&"migrate_hot".into()), "{all:?}");
    assert!(all.goals.contains(&"node_mem_used_bp".into()), "{all:?}");
    assert_eq!(all.tuners, ["consist", "temporal"]);
    assert!(all.filters.contains(&"young".into()), "{all:?}");
    assert!(all.destinations && all.interval_goal);
    // An older kernel lacks some of the files. The probe reports the features of these files as
    // missing.
    let old = probed(&READY[..5]);
    assert!(!old.destinations && !old.interval_goal);
    assert_eq!((old.goals, old.tuners, old.filters), (vec![], vec![], vec![]));
    // A kernel with quota goals, but without `target_metric`, has only the metric `user_input`.
    assert_eq!(probed(&READY[..7]).goals, ["user_input"]);
}

#[test]
fn a_failed_probe_removes_its_thread() {
    // A folder in place of the file `broken` makes the write fail.
    for broken in [
        "0/contexts/nr_contexts",
        "0/contexts/0/schemes/nr_schemes",
        "0/contexts/0/schemes/0/action",
    ] {
        let files: Vec<_> = READY.into_iter().filter(|(path, _)| *path != broken).collect();
        let folder = machine(&files);
        fs::create_dir_all(folder.path().join(ADMIN).join(broken)).unwrap();
        let error = probe(&live_below(folder.path())).unwrap_err().to_string();
        assert!(error.contains(broken), "{error}");
        assert_eq!(fs::read_to_string(folder.path().join(COUNT)).unwrap(), "0", "{broken}");
    }
}

#[test]
fn a_probe_leaves_threads_of_other_programs_alone() {
    let mut files = READY.to_vec();
    files[0].1 = "2\n";
    let folder = machine(&files);
    let error = probe(&live_below(folder.path())).unwrap_err();
    assert!(matches!(error, ProbeError::Held(2)), "{error}");
    for (path, text) in files {
        let found = fs::read_to_string(folder.path().join(ADMIN).join(path)).unwrap();
        assert_eq!(found, text, "{path}");
    }
}

#[test]
fn where_there_is_nothing_to_ask() {
    let folder = machine(&READY);
    let root = Root::captured(folder.path());
    assert!(matches!(probe(&root).unwrap_err(), ProbeError::Captured));
    assert_eq!(root.noted(), []);
    let folder = machine(&[]);
    let error = probe(&live_below(folder.path())).unwrap_err();
    assert!(matches!(error, ProbeError::Missing), "{error}");
}

const MIB: u64 = 1 << 20;

/// Returns a scheme with a quota of `mib` MiB in a window of `reset_ms`; without a quota if
/// `mib` is 0.
fn scheme(mib: u64, reset_ms: u64) -> Scheme {
    Scheme {
        action: "migrate_hot",
        to: Destination::Node(0),
        accesses: Some((1, u32::MAX)),
        age_min: 0,
        quota: (mib > 0).then_some(Quota { bytes: mib * MIB, reset_ms }),
        goal: None,
        filters: vec![],
    }
}

/// The limit is 100 MiB/s, unless stated otherwise. A quota of 60 MiB in 2 s is 30 MiB/s.
#[test]
fn all_schemes_together_keep_the_rate_limit() {
    let limited = |schemes: Vec<Scheme>, limit: Option<u64>| -> Vec<Option<u64>> {
        let context = Context { monitored: MonitoredMemory::Memory(vec![]), schemes };
        let limited = context.limit_rate(limit.map(|mib| mib * MIB));
        limited.schemes.iter().map(|it| it.quota.map(|it| it.bytes / MIB)).collect()
    };
    let idle = |scheme: Scheme| Scheme { accesses: None, ..scheme };
    for (schemes, expected) in [
        (vec![scheme(60, 2000), scheme(40, 1000)], vec![Some(60), Some(40)]),
        (vec![scheme(300, 1000), scheme(100, 1000)], vec![Some(50), Some(50)]),
        (vec![scheme(100, 2000), scheme(150, 1000)], vec![Some(66), Some(66)]),
        (vec![scheme(0, 0), scheme(25, 1000)], vec![Some(80), Some(20)]),
        (vec![scheme(0, 0), idle(scheme(300, 1000))], vec![Some(100), Some(100)]),
        (vec![idle(scheme(0, 0)), scheme(300, 2000)], vec![None, Some(200)]),
    ] {
        assert_eq!(limited(schemes.clone(), Some(100)), expected, "{schemes:?}");
    }
    assert_eq!(limited(vec![scheme(0, 0), scheme(300, 1000)], None), [None, Some(300)]);
}
