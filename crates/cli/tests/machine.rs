//! The output of `show` and `doctor` for a machine whose files are in a folder. Neither verb may
//! change a file.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{
    fs,
    path::Path,
    process::{Command, Output},
};

/// The files of a server with DRAM and an expander, as Linux 6.17 has them. NUMA balancing and
/// `damon_stat` are on.
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
    write_files(folder, &FILES);
}

fn write_files(folder: &Path, files: &[(&str, &str)]) {
    for (path, text) in files {
        let path = folder.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
}

/// Runs `interleaf doctor` on the machine of [`FILES`], in which `files` replaces files. Returns a
/// function that maps the name of a capability to the text `status: what -> remedy`.
fn diagnosed(files: &[(&str, &str)]) -> impl Fn(&str) -> String + use<> {
    let folder = tempfile::tempdir().unwrap();
    machine(folder.path());
    write_files(folder.path(), files);
    let root = folder.path().to_str().unwrap();
    let json: serde_json::Value =
        serde_json::from_str(&printed(&["doctor", "--root", root, "--json"])).unwrap();
    move |name| {
        let all = json["capabilities"].as_array().unwrap();
        let found = all.iter().find(|capability| capability["name"] == name).unwrap();
        let text = |key: &str| found[key].as_str().unwrap_or("nothing").to_string();
        format!("{}: {} -> {}", text("status"), text("what"), text("remedy"))
    }
}

fn interleaf(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_interleaf")).args(arguments).output().unwrap()
}

fn printed(arguments: &[&str]) -> String {
    let output = interleaf(arguments);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn show_has_the_nodes_with_the_fastest_first() {
    let folder = tempfile::tempdir().unwrap();
    machine(folder.path());
    let root = folder.path().to_str().unwrap();
    let text = printed(&["show", "--root", root]);
    let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
    let lines: Vec<String> = text.lines().map(words).collect();
    assert!(lines.contains(&"0 0-3 1 GiB 4 KiB 500.0 - 100 0 - 22".to_string()), "{text}");
    assert!(lines.contains(&"1 - 2 GiB 8 KiB 200.0 - - 0 - 9".to_string()), "{text}");
    let json: serde_json::Value =
        serde_json::from_str(&printed(&["show", "--root", root, "--json"])).unwrap();
    assert_eq!(json["schema"], "interleaf.show/1");
    assert_eq!(json["nodes"][1]["capacity_bytes"], 2u64 << 30);
    assert_eq!(json["automatic_weights"], true);
}

#[test]
fn doctor_reports_other_movers_of_pages() {
    let folder = tempfile::tempdir().unwrap();
    machine(folder.path());
    let root = folder.path().to_str().unwrap();
    let json: serde_json::Value =
        serde_json::from_str(&printed(&["doctor", "--root", root, "--json"])).unwrap();
    assert_eq!(json["schema"], "interleaf.doctor/1");
    let find = |name: &str| {
        let all = json["capabilities"].as_array().unwrap();
        all.iter().find(|capability| capability["name"] == name).unwrap().clone()
    };
    let rival = find("no other mover of pages");
    assert_eq!(rival["status"], "rival");
    let text = rival["what"].as_str().unwrap();
    assert!(text.contains("numa_balancing") && text.contains("damon_stat"), "{text}");
    assert_eq!(find("weighted interleaving")["what"], "weights 0: 22, 1: 9");
    assert_eq!(find("several memory nodes")["status"], "present");
    assert_eq!(find("bandwidth counters")["status"], "missing");
    for capability in json["capabilities"].as_array().unwrap() {
        let has_remedy = capability["remedy"].is_string();
        assert_eq!(has_remedy, capability["status"] != "present", "{capability}");
    }
}

#[test]
fn doctor_reports_unknown_capabilities_as_unknown() {
    let status_of = diagnosed(&[]);
    for name in ["DAMON actions", "DAMON destinations", "DAMON goals"] {
        let status = status_of(name);
        assert!(status.starts_with("unknown: ") && status.contains("doctor --probe"), "{status}");
    }
    for name in ["sizes of nodes", "setting weights", "moving pages", "control groups", "io_uring"]
    {
        assert!(status_of(name).starts_with("unknown: "), "{}", status_of(name));
    }
    for name in ["memory pressure", "swap"] {
        assert!(status_of(name).starts_with("missing: "), "{}", status_of(name));
    }
}

#[test]
fn doctor_names_each_mover_of_pages_and_its_effect() {
    let name = "no other mover of pages";
    let balancing = |value| diagnosed(&[("proc/sys/kernel/numa_balancing", value)])(name);
    assert!(!balancing("0\n").contains("numa_balancing"), "{}", balancing("0\n"));
    let all = ["1 pulls pages to the", "2 promotes hot pages", "3 pulls pages to the"];
    for (value, does) in ["1\n", "2\n", "3\n"].into_iter().zip(all) {
        assert!(balancing(value).contains(&format!("numa_balancing={does}")), "{does}");
    }
    let movers = diagnosed(&[
        ("proc/sys/vm/zone_reclaim_mode", "1\n"),
        ("proc/12/comm", "numad\n"),
        ("proc/13/comm", "numad\n"),
        ("proc/14/comm", "numad-like\n"),
        ("sys/kernel/mm/damon/admin/kdamonds/nr_kdamonds", "2\n"),
        ("sys/kernel/mm/damon/admin/kdamonds/0/state", "off\n"),
        ("sys/kernel/mm/damon/admin/kdamonds/1/state", "on\n"),
        ("sys/kernel/mm/damon/admin/kdamonds/1/contexts/0/operations", "vaddr\n"),
        ("sys/kernel/mm/damon/admin/kdamonds/1/contexts/0/schemes/0/action", "pageout\n"),
        ("sys/kernel/mm/numa/demotion_enabled", "true\n"),
    ])(name);
    for text in [
        "zone_reclaim_mode=1",
        "sysctl vm.zone_reclaim_mode=0",
        "another program has set up a DAMON thread that is off",
        "another program runs a DAMON thread (vaddr: pageout)",
    ] {
        assert!(movers.contains(text), "no {text} in {movers}");
    }
    assert_eq!(movers.matches("numad moves").count(), 1, "{movers}");
    assert!(!movers.contains("numad-like"), "{movers}");
}

#[test]
fn doctor_reports_the_rights_of_the_user() {
    let user = |user: u32, bits: &str| {
        let status = format!("Name:\tx\nUid:\t{user}\t{user}\t{user}\t{user}\nCapEff:\t{bits}\n");
        diagnosed(&[("proc/self/status", &status), ("proc/vmstat", "pgmigrate_success 1\n")])
    };
    let is = |status_of: &dyn Fn(&str) -> String, name: &str, begin: &str| {
        assert!(status_of(name).starts_with(begin), "{}", status_of(name));
    };
    let root = user(0, "000001ffffffffff");
    is(&root, "setting weights", "present: ");
    is(&root, "moving pages", "present: those of every process");
    let nobody = user(1000, "0000000000000000");
    is(&nobody, "setting weights", "missing: only root may -> run it as root");
    is(&nobody, "moving pages", "missing: only unshared pages of this user's processes");
    assert!(nobody("moving pages").contains("setcap cap_sys_nice,cap_sys_ptrace=ep"));
    is(&user(1000, "0000000000000002"), "setting weights", "present: ");
    is(&user(1000, "0000000000880000"), "moving pages", "present: ");
    is(&user(1000, "0000000000800000"), "moving pages", "missing: only those of this user's proc");
    is(&user(1000, "0000000000080000"), "moving pages", "missing: only unshared pages");
    let old = diagnosed(&[("proc/vmstat", "numa_hit 1\n")]);
    is(&old, "moving pages", "missing: the kernel does not move pages");
}

#[test]
fn doctor_checks_kernel_and_firmware_values() {
    // The nodes of `FILES` have 3 GiB of memory in total. `doctor` compares this sum with
    // `MemTotal`. It tolerates a small difference, because the kernel's files are read one after
    // the other.
    let sizes = |text| diagnosed(&[("proc/meminfo", text)])("sizes of nodes");
    assert!(sizes("MemTotal: 3145728 kB\n").starts_with("present: 3072 MiB"));
    assert!(sizes("MemTotal: 3145000 kB\n").starts_with("present: "), "read one after the other");
    let message = sizes("MemTotal: 25165824 kB\n");
    assert!(
        message.starts_with("unknown: the nodes have 3072 MiB, the machine has 24576"),
        "{message}"
    );
    let node = "sys/devices/system/node/node1/access0/initiators";
    let (bandwidth, latency) = (format!("{node}/read_bandwidth"), format!("{node}/read_latency"));
    let rated = |bandwidth_mibps, latency_ns| {
        let files = [(&bandwidth[..], bandwidth_mibps), (&latency[..], latency_ns)];
        diagnosed(&files)("rated bandwidths")
    };
    assert!(rated("1\n", "250\n").starts_with("present: "));
    let text = "missing: the firmware does not rate node 1 -> ";
    assert!(rated("0\n", "0\n").starts_with(text), "{}", rated("0\n", "0\n"));
    let text = "missing: the firmware does not rate node 1, but for a latency: 250 ns of node 1 ->";
    assert!(rated("0\n", "250\n").starts_with(text), "{}", rated("0\n", "250\n"));
}

#[test]
fn doctor_looks_at_control_groups_and_swap() {
    let groups = |mounts, controllers| {
        let at = "sys/fs/cgroup/cgroup.controllers";
        diagnosed(&[("proc/self/mountinfo", mounts), (at, controllers)])("control groups")
    };
    let two = "24 1 0:21 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n";
    let one = "35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n";
    let both = format!("{one}{two}");
    for (mounts, controllers, expected) in [
        ("", "", "missing: none that are mounted have memory or cpuset -> "),
        (two, "cpuset memory\n", "present: version 2 with memory and cpuset -> nothing"),
        (two, "memory\n", "present: version 2 with memory, without cpuset -> nothing"),
        (two, "cpuset\n", "missing: version 2, but without the controller of memory -> "),
        (one, "", "present: version 1 with memory, without cpuset -> nothing"),
        (&both, "cpuset", "present: version 1 with memory, version 2 with cpuset (both versions"),
    ] {
        assert!(
            groups(mounts, controllers).starts_with(expected),
            "{}",
            groups(mounts, controllers)
        );
    }
    let header = "Filename\tType\tSize\tUsed\tPriority\n";
    let swap = |text: &str, zswap| {
        let at = "sys/module/zswap/parameters/enabled";
        diagnosed(&[("proc/swaps", &format!("{header}{text}")), (at, zswap)])("swap")
    };
    assert!(swap("", "Y\n").starts_with("missing: none is on"));
    let a = "/dev/a b partition 2048 1 -2\n";
    assert_eq!(swap(a, "N\n"), "present: 2 MiB in 1 place(s) -> nothing");
    assert!(swap(&a.repeat(2), "Y\n").starts_with("present: 4 MiB in 2 place(s), compressed"));
    assert!(diagnosed(&[("proc/pressure/memory", "some\n")])("memory pressure").contains("/proc"));
}

#[test]
fn a_captured_machine_is_not_probed() {
    let folder = tempfile::tempdir().unwrap();
    machine(folder.path());
    let output = interleaf(&["doctor", "--probe", "--root", folder.path().to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(2));
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(stderr.contains("a captured machine has none"), "{stderr}");
    assert!(stderr.contains("hint: run it on the machine itself"), "{stderr}");
}

#[test]
fn a_capture_has_no_names_of_other_programs() {
    let folder = tempfile::tempdir().unwrap();
    let (from, to) = (folder.path().join("machine"), folder.path().join("capture"));
    machine(&from);
    for (process, name) in [("12", "numad\n"), ("13", "secret\n")] {
        fs::create_dir_all(from.join("proc").join(process)).unwrap();
        fs::write(from.join("proc").join(process).join("comm"), name).unwrap();
    }
    printed(&["doctor", "--root", from.to_str().unwrap(), "--capture", to.to_str().unwrap()]);
    assert!(to.join("proc/12/comm").exists());
    assert!(!to.join("proc/13").exists());
}

#[test]
fn a_capture_gives_the_output_of_the_machine() {
    let folder = tempfile::tempdir().unwrap();
    machine(&folder.path().join("machine"));
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_string();
    let (machine, capture) = (path("machine"), path("capture"));
    let doctor = printed(&["doctor", "--root", &machine, "--capture", &capture]);
    assert_eq!(printed(&["doctor", "--root", &capture]), doctor);
    assert_eq!(printed(&["show", "--root", &capture]), printed(&["show", "--root", &machine]));
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
    let text = printed(&[]);
    assert!(text.contains("capacity"), "{text}");
    assert!(printed(&["doctor"]).contains("weighted interleaving"));
}
