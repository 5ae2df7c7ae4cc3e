//! Tests that commands refuse or ignore odd values in any file of a captured machine (a copy of a
//! machine's files), without a panic.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use interleaf_linux::{
    machine::{damon, hardware::Hardware, topology::Machine, vmstat},
    place::layout::HostLayout,
    process::{allowed_nodes, available::available, cgroup::Trees},
    root::Root,
};
use interleaf_model::rated;
use interleaf_observe::capability;
use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

/// Values that replace the whole text of a file, and then each number in it.
const ODD: [&str; 9] =
    ["", "0", "1", "-1", "500000000", "1000000000", "18446744073709551615", "1e308", "NaN\u{1b}"];

fn machine(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/machines").join(name)
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let (entry, to) = (entry.unwrap(), to);
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}

fn files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { files(&path, found) } else { found.push(path) }
    }
}

/// Reads all files that commands read from a captured machine (a copy of a machine's files), and
/// builds a layout and a platform from them.
fn read(folder: &Path) {
    let root = Root::captured(folder);
    let _ = Hardware::read(&root);
    let _ = vmstat::of_machine(&root);
    let _ = Trees::read(&root);
    let _ = damon::damon(&root);
    let _ = allowed_nodes(&root, "self");
    let Ok(machine) = Machine::read(&root) else { return };
    let _ = capability::capabilities(&root, &machine, None);
    let _ = machine.memory_by_speed();
    for node in &machine.nodes {
        let _ = available(&root, Some(&[node.id].into_iter().collect()));
        let _ = machine.nearest(node);
    }
    if let Ok(host) = HostLayout::new(&machine) {
        let platform = rated::platform(&host.layout);
        assert_eq!(platform.tiers.len(), host.nodes.len());
        for domain in 0..host.layout.domains.len() {
            let shares = rated::shares(&host.layout, domain);
            assert!((shares.iter().sum::<f64>() - 1.0).abs() < 1e-9, "{shares:?}");
        }
    }
}

/// Replaces each number in `text` by `odd`.
fn with_numbers(text: &str, odd: &str) -> String {
    let mut out = String::new();
    let mut in_number = false;
    for c in text.chars() {
        if !c.is_ascii_digit() {
            out.push(c);
        } else if !in_number {
            out.push_str(odd);
        }
        in_number = c.is_ascii_digit();
    }
    out
}

#[test]
fn odd_values_do_not_panic() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["linux-newest-two-nodes-hmat", "cgroup-v1"] {
        let here = folder.path().join(name);
        copy(&machine(name), &here);
        let mut all = vec![];
        files(&here, &mut all);
        assert!(all.len() > 20, "{name}");
        let mut alike: BTreeMap<String, u32> = BTreeMap::new();
        for path in all {
            // Files whose paths differ only in numbers, such as the files of CPUs, have the same
            // format. The test changes only two files of each format.
            let shape = path.to_string_lossy().replace(|c: char| c.is_ascii_digit(), "");
            let seen = alike.entry(shape).or_default();
            *seen += 1;
            if *seen > 2 {
                continue;
            }
            let bytes = fs::read(&path).unwrap();
            let text = String::from_utf8_lossy(&bytes);
            for odd in ODD {
                for changed in [odd.to_string(), with_numbers(&text, odd)] {
                    fs::write(&path, changed).unwrap();
                    read(&here);
                }
            }
            fs::write(&path, bytes).unwrap();
        }
    }
}

/// An impossible rating, such as a latency of half a second, must be ignored. A node without a read
/// bandwidth must count as unrated. Two of the tested ratings once crashed `balance`.
#[test]
fn ratings_that_no_memory_has_count_as_unrated() {
    let folder = tempfile::tempdir().unwrap();
    copy(&machine("linux-newest-two-nodes-hmat"), folder.path());
    let rated = "sys/devices/system/node/node1/access0/initiators";
    let figures = [
        ("read_latency", 500_000_000_u64, "ns"),
        ("write_latency", u64::MAX, "ns"),
        ("read_bandwidth", 1_000_000_000, "MiB/s"),
        ("write_bandwidth", u64::MAX, "MiB/s"),
    ];
    for (name, value, unit) in figures {
        let path = folder.path().join(rated).join(name);
        let before = fs::read(&path).unwrap();
        fs::write(&path, format!("{value}\n")).unwrap();
        let machine = Machine::read(&Root::captured(folder.path())).unwrap();
        let found = machine.nodes[1].rated.as_ref().unwrap();
        assert_eq!(found.implausible, [format!("{name} of {value} {unit}")]);
        let host = HostLayout::new(&machine).unwrap();
        let is_unrated = name == "read_bandwidth";
        assert_eq!(host.unrated.to_string(), if is_unrated { "1" } else { "" });
        assert_eq!(host.layout.tiers[1].rated_latency_ns, 250.0, "as of any expander");
        assert_eq!(rated::platform(&host.layout).tiers.len(), 2);
        fs::write(&path, before).unwrap();
    }
}
