//! `show` and `doctor` on a machine in a folder: what they say, and that they change nothing.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{
    fs,
    path::Path,
    process::{Command, Output},
};

/// A server with DRAM and an expander, as Linux 6.17 shows them, and two who move pages.
const FILES: [(&str, &str); 19] = [
    ("proc/sys/kernel/osrelease", "6.17.13\n"),
    ("proc/sys/kernel/numa_balancing", "1\n"),
    ("sys/module/damon_stat/parameters/enabled", "Y\n"),
    ("sys/kernel/mm/damon/admin/kdamonds/nr_kdamonds", "0\n"),
    ("sys/devices/system/node/online", "0-1\n"),
    ("sys/devices/system/node/node0/cpulist", "0-3\n"),
    (
        "sys/devices/system/node/node0/meminfo",
        "Node 0 MemTotal: 1048576 kB\nNode 0 MemFree: 4 kB\n",
    ),
    ("sys/devices/system/node/node0/distance", "10 20\n"),
    ("sys/devices/system/node/node0/access0/initiators/read_bandwidth", "476837\n"),
    ("sys/devices/system/node/node0/access0/initiators/read_latency", "100\n"),
    ("sys/devices/system/node/node0/access0/initiators/node0/x", ""),
    ("sys/devices/system/node/node1/cpulist", "\n"),
    (
        "sys/devices/system/node/node1/meminfo",
        "Node 1 MemTotal: 2097152 kB\nNode 1 MemFree: 8 kB\n",
    ),
    ("sys/devices/system/node/node1/distance", "20 10\n"),
    ("sys/devices/system/node/node1/access0/initiators/read_bandwidth", "190735\n"),
    ("sys/devices/system/node/node1/access0/initiators/node0/x", ""),
    ("sys/kernel/mm/mempolicy/weighted_interleave/node0", "22\n"),
    ("sys/kernel/mm/mempolicy/weighted_interleave/node1", "9\n"),
    ("sys/kernel/mm/mempolicy/weighted_interleave/auto", "true\n"),
];

fn machine(folder: &Path) {
    for (path, text) in FILES {
        let path = folder.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
}

fn interleaf(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_interleaf")).args(arguments).output().unwrap()
}

fn said(arguments: &[&str]) -> String {
    let output = interleaf(arguments);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn show_has_the_nodes_with_the_fastest_first() {
    let folder = tempfile::tempdir().unwrap();
    machine(folder.path());
    let root = folder.path().to_str().unwrap();
    let text = said(&["show", "--root", root]);
    let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
    let lines: Vec<String> = text.lines().map(words).collect();
    assert!(lines.contains(&"0 0-3 1 GiB 4 KiB 500.0 - 100 0 - 22".to_string()), "{text}");
    assert!(lines.contains(&"1 - 2 GiB 8 KiB 200.0 - - 0 - 9".to_string()), "{text}");
    let json: serde_json::Value =
        serde_json::from_str(&said(&["show", "--root", root, "--json"])).unwrap();
    assert_eq!(json["schema"], "interleaf.show/1");
    assert_eq!(json["nodes"][1]["capacity_bytes"], 2u64 << 30);
    assert_eq!(json["automatic_weights"], true);
}

#[test]
fn doctor_finds_who_else_moves_pages() {
    let folder = tempfile::tempdir().unwrap();
    machine(folder.path());
    let root = folder.path().to_str().unwrap();
    let json: serde_json::Value =
        serde_json::from_str(&said(&["doctor", "--root", root, "--json"])).unwrap();
    assert_eq!(json["schema"], "interleaf.doctor/1");
    let find = |name: &str| {
        let all = json["capabilities"].as_array().unwrap();
        all.iter().find(|capability| capability["name"] == name).unwrap().clone()
    };
    let rival = find("no other mover of pages");
    assert_eq!(rival["status"], "rival");
    let what = rival["what"].as_str().unwrap();
    assert!(what.contains("numa_balancing") && what.contains("damon_stat"), "{what}");
    assert_eq!(find("weighted interleaving")["what"], "weights 0: 22, 1: 9");
    assert_eq!(find("several memory nodes")["status"], "present");
    assert_eq!(find("bandwidth counters")["status"], "missing");
    for capability in json["capabilities"].as_array().unwrap() {
        let has_remedy = capability["remedy"].is_string();
        assert_eq!(has_remedy, capability["status"] != "present", "{capability}");
    }
}

#[test]
fn a_capture_says_the_same_as_the_machine() {
    let folder = tempfile::tempdir().unwrap();
    machine(&folder.path().join("machine"));
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_string();
    let (machine, capture) = (path("machine"), path("capture"));
    let doctor = said(&["doctor", "--root", &machine, "--capture", &capture]);
    assert_eq!(said(&["doctor", "--root", &capture]), doctor);
    assert_eq!(said(&["show", "--root", &capture]), said(&["show", "--root", &machine]));
    let again = interleaf(&["doctor", "--root", &machine, "--capture", &capture]);
    assert_eq!(again.status.code(), Some(2));
    let stderr = String::from_utf8(again.stderr).unwrap();
    assert!(stderr.contains("hint: name a folder that is not there yet"), "{stderr}");
}

#[test]
fn a_folder_that_is_no_machine_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().to_str().unwrap();
    for verb in ["show", "doctor"] {
        let output = interleaf(&[verb, "--root", root]);
        assert_eq!(output.status.code(), Some(2));
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert!(
            stderr.contains("there is no sys/devices/system/node in it, nor proc/meminfo"),
            "{stderr}"
        );
        assert!(stderr.contains("\n\nhint: "), "{stderr}");
    }
}

#[test]
fn this_machine_can_be_shown() {
    let text = said(&[]);
    assert!(text.contains("capacity"), "{text}");
    assert!(said(&["doctor"]).contains("weighted interleaving"));
}
