//! Tests of the kernel's counters of placement: parsing them, and differences of samples.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use interleaf_linux::{
    machine::vmstat::{self, Counters},
    root::Root,
};
use std::fs;

fn folder(files: &[(&str, &str)]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (path, text) in files {
        let path = folder.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    folder
}

/// Returns the counters that a `/proc/vmstat` with the content `text` has.
fn counted(text: &str) -> Vec<(&'static str, u64)> {
    let folder = folder(&[("proc/vmstat", text)]);
    let counters = vmstat::of_machine(&Root::captured(folder.path())).unwrap().unwrap();
    counters.by_name().into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
}

#[test]
fn of_a_machine() {
    assert_eq!(counted(""), []);
    assert_eq!(counted("nr_free_pages 5\npgmigrate_success 7\n"), [("pgmigrate_success", 7)]);
    assert_eq!(counted("\nnuma_hit 0\n"), [("numa_hit", 0)], "0 is counted");
    assert_eq!(counted("thp_migration_split 3"), [("thp_migration_split", 3)]);
    assert_eq!(counted("numa_hit_more 1\npgdemote 2\n"), [], "no name is a part of another");
    assert_eq!(counted("numa_other 18446744073709551615\n"), [("numa_other", u64::MAX)]);
}

#[test]
fn a_malformed_counter_is_named_with_its_line() {
    for (text, error) in [
        ("a 1\npgmigrate_fail x\n", "/proc/vmstat:2: \"pgmigrate_fail x\" is not a counter"),
        ("numa_hit\n", "/proc/vmstat:1: \"numa_hit\" is not a counter"),
        ("numa_hit -1\n", "/proc/vmstat:1: \"numa_hit -1\" is not a counter"),
    ] {
        let folder = folder(&[("proc/vmstat", text)]);
        let message = vmstat::of_machine(&Root::captured(folder.path())).unwrap_err().to_string();
        assert_eq!(message, format!("{error} and its value"));
    }
}

#[test]
fn of_a_node() {
    let node = "sys/devices/system/node/node1";
    let numastat = "numa_hit 10\nnuma_miss 1\nnuma_foreign 2\ninterleave_hit 3\nlocal_node 4\n\
                    other_node 5\n";
    let (old, new) = (format!("{node}/numastat"), format!("{node}/vmstat"));
    let alone = folder(&[(&old, numastat)]);
    let read = |folder: &tempfile::TempDir, node| {
        vmstat::of_node(&Root::captured(folder.path()), node).unwrap()
    };
    let counters = read(&alone, 1).unwrap();
    assert_eq!((counters.numa_interleave, counters.numa_local), (Some(3), Some(4)));
    assert_eq!((counters.numa_other, counters.pgpromote_success), (Some(5), None));
    let both = folder(&[(&old, numastat), (&new, "numa_hit 11\npgpromote_success 6\n")]);
    let counters = read(&both, 1).unwrap();
    assert_eq!((counters.numa_hit, counters.pgpromote_success), (Some(11), Some(6)));
    assert_eq!(read(&both, 2), None);
    assert_eq!(vmstat::of_machine(&Root::captured(both.path())).unwrap(), None);
}

#[test]
fn the_difference_of_two_samples() {
    let sample = |hit, demoted| Counters {
        numa_hit: hit,
        pgdemote_kswapd: demoted,
        pgdemote_direct: Some(2),
        ..Counters::default()
    };
    for (then, now, grown) in [
        (Some(3), Some(10), Some(7)),
        (Some(10), Some(3), Some(0)),
        (None, Some(3), None),
        (Some(3), None, None),
        (Some(0), Some(u64::MAX), Some(u64::MAX)),
    ] {
        assert_eq!(sample(now, None).since(&sample(then, None)).numa_hit, grown);
    }
    assert_eq!(sample(None, Some(5)).demoted(), Some(7));
    assert_eq!(sample(None, Some(5)).since(&sample(None, Some(4))).demoted(), Some(1));
    assert_eq!(Counters::default().demoted(), None, "nobody counts");
}

#[test]
fn of_this_machine() {
    let root = Root::live();
    let then = vmstat::of_machine(&root).unwrap().unwrap();
    let now = vmstat::of_machine(&root).unwrap().unwrap();
    let grown = now.since(&then);
    for ((name, value), (_, grown)) in now.by_name().into_iter().zip(grown.by_name()) {
        assert_eq!(value.is_some(), grown.is_some(), "{name}");
    }
}
