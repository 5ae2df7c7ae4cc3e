//! Tests of the files below a root: reading them, recording writes to them, and capturing them.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use interleaf_linux::{
    machine::{topology::Machine, weights},
    root::Root,
};
use std::{fs, os::unix::fs::symlink};

/// Makes a machine with two nodes, the second without CPUs, in a temporary folder.
fn machine() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let files = [
        ("proc/sys/kernel/osrelease", "6.17.13\n"),
        ("proc/cpuinfo", "processor\t: 0\nmodel name\t: Some CPU @ 2 GHz\n"),
        ("proc/sys/kernel/numa_balancing", "1\n"),
        ("sys/devices/system/node/online", "0,2\n"),
        ("sys/devices/system/node/node0/cpulist", "0-1\n"),
        (
            "sys/devices/system/node/node0/meminfo",
            "Node 0 MemTotal: 1024 kB\nNode 0 MemFree: 8 kB\n",
        ),
        ("sys/devices/system/node/node0/distance", "10 20\n"),
        ("sys/devices/system/node/node0/hugepages/hugepages-2048kB/nr_hugepages", "3\n"),
        ("sys/devices/system/node/node2/cpulist", "\n"),
        (
            "sys/devices/system/node/node2/meminfo",
            "Node 2 MemTotal: 2048 kB\nNode 2 MemFree: 9 kB\n",
        ),
        ("sys/devices/system/node/node2/distance", "20 10\n"),
        ("sys/devices/system/node/node2/access0/initiators/read_bandwidth", "200\n"),
        ("sys/devices/system/node/node2/access0/initiators/node0/ignored", "\n"),
        ("sys/devices/system/cpu/cpu0/topology/physical_package_id", "0\n"),
        ("sys/devices/system/cpu/cpu1/topology/physical_package_id", "0\n"),
        ("sys/devices/virtual/memory_tiering/memory_tier4/nodelist", "0\n"),
        ("sys/devices/virtual/memory_tiering/memory_tier961/nodelist", "2\n"),
        ("sys/kernel/mm/mempolicy/weighted_interleave/node0", "22\n"),
        ("sys/kernel/mm/mempolicy/weighted_interleave/node2", "9\n"),
        ("sys/kernel/mm/mempolicy/weighted_interleave/auto", "true\n"),
        ("sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n"),
    ];
    for (path, text) in files {
        let path = folder.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    folder
}

#[test]
fn a_machine_is_read() {
    let folder = machine();
    let machine = Machine::read(&Root::captured(folder.path())).unwrap();
    assert_eq!(machine.kernel.as_deref(), Some("6.17.13"));
    assert_eq!(machine.cpu.as_deref(), Some("Some CPU @ 2 GHz"));
    assert_eq!(machine.sockets.len(), 1);
    assert_eq!(machine.sockets[0].1.to_string(), "0-1");
    assert_eq!(machine.node_list().to_string(), "0,2");
    let [dram, cxl] = &machine.nodes[..] else { panic!("{:?}", machine.nodes) };
    assert_eq!((dram.total_bytes, dram.free_bytes), (1 << 20, 8 << 10));
    assert_eq!((dram.huge_pages[0].page_bytes, dram.huge_pages[0].total), (2 << 20, 3));
    assert!(cxl.cpus.is_empty());
    assert_eq!(cxl.rated.as_ref().unwrap().read_mibps, Some(200));
    assert_eq!(machine.nearest(cxl).to_string(), "0");
    assert_eq!(machine.nearest(dram).to_string(), "0", "by distance: nobody rates it");
    assert_eq!(machine.by_speed().iter().map(|node| node.id).collect::<Vec<_>>(), [0, 2]);
    let weighted = machine.weighted_interleave.unwrap();
    assert_eq!((weighted.weights, weighted.auto), (vec![(0, 22), (2, 9)], Some(true)));
    assert_eq!(machine.sysctls.huge_pages.as_deref(), Some("madvise"));
    assert_eq!(machine.sysctls.numa_balancing, Some(1));
    assert_eq!(machine.damon, None);
}

#[test]
fn nonsense_is_named() {
    let folder = machine();
    let path = "sys/kernel/mm/mempolicy/weighted_interleave/node2";
    fs::write(folder.path().join(path), "300\n").unwrap();
    let error = Machine::read(&Root::captured(folder.path())).unwrap_err();
    assert_eq!(error.to_string(), format!("/{path}: \"300\" is not a weight from 1 to 255"));
}

#[test]
fn a_captured_machine_is_not_written_to() {
    let folder = machine();
    let root = Root::captured(folder.path());
    root.write(&weights::node_path(2), "40").unwrap();
    root.write(&weights::auto_path(), "false").unwrap();
    let noted: Vec<String> =
        root.noted().into_iter().map(|write| format!("{} > {}", write.text, write.path)).collect();
    assert_eq!(
        noted,
        [
            "40 > /sys/kernel/mm/mempolicy/weighted_interleave/node2",
            "false > /sys/kernel/mm/mempolicy/weighted_interleave/auto"
        ]
    );
    let path = folder.path().join("sys/kernel/mm/mempolicy/weighted_interleave/node2");
    assert_eq!(fs::read_to_string(path).unwrap(), "9\n");
}

#[test]
fn a_capture_reads_as_the_machine_does() {
    let folder = machine();
    let root = Root::captured(folder.path()).recording();
    let read = Machine::read(&root).unwrap();
    let target = folder.path().join("capture");
    root.capture(&target).unwrap();
    assert_eq!(Machine::read(&Root::captured(&target)).unwrap(), read);
    assert!(root.capture(&target).is_err(), "it is there already");
}

/// In a captured machine (a copy of a machine's files), `/proc/meminfo` is in turn a FIFO, a
/// symlink to a file or device outside the machine, and a file of 1 TiB. Each read fails with a
/// message: it neither blocks, nor fills the memory, nor shows the file outside.
#[test]
fn a_captured_machine_has_only_regular_files_of_its_own() {
    let folder = machine();
    let top = folder.path().join("top");
    fs::create_dir_all(top.join("proc")).unwrap();
    fs::create_dir_all(top.join("sys/devices/system/node")).unwrap();
    fs::write(folder.path().join("outside"), "secret\n").unwrap();
    let root = Root::captured(&top);
    let path = top.join("proc/meminfo");
    let message = || Machine::read(&root).unwrap_err().to_string();

    rustix::fs::mkfifoat(rustix::fs::CWD, &path, rustix::fs::Mode::from_raw_mode(0o600)).unwrap();
    let why = "/proc/meminfo: cannot be read: it is a FIFO, not a regular file";
    assert_eq!(message(), why);

    for target in [folder.path().join("outside"), "../../outside".into(), "/dev/zero".into()] {
        fs::remove_file(&path).unwrap();
        symlink(target, &path).unwrap();
        assert!(root.has("/proc/meminfo"), "it is not hidden");
        let why = "/proc/meminfo: cannot be read: a symlink leads out of the root";
        assert_eq!(message(), why);
    }

    fs::remove_file(&path).unwrap();
    fs::File::create(&path).unwrap().set_len(1 << 40).unwrap();
    assert!(
        message().ends_with("it is larger than 64 MiB, the limit for such a file"),
        "{}",
        message()
    );

    fs::write(&path, format!("\u{1b}[2J{}\n", "x".repeat(1000))).unwrap();
    assert!(message().len() < 300 && message().contains("\\u{1b}[2Jxxx"), "{}", message());

    fs::remove_dir(top.join("sys/devices/system/node")).unwrap();
    symlink("/sys/devices/system/node", top.join("sys/devices/system/node")).unwrap();
    assert!(root.names("/sys/devices/system/node").is_err());
    fs::remove_file(&path).unwrap();
    symlink("meminfo.txt", &path).unwrap();
    fs::write(top.join("proc/meminfo.txt"), "MemTotal: 4 kB\n").unwrap();
    assert_eq!(root.text("/proc/meminfo").unwrap().as_deref(), Some("MemTotal: 4 kB"));
}

/// Symlinks and magic links of this machine are followed, even below a root `/` that only records
/// writes.
#[test]
fn links_of_this_machine_are_followed() {
    for root in [Root::live(), Root::captured("/")] {
        assert!(root.text("/proc/self/mounts").unwrap().is_some());
        assert!(root.text("/proc/mounts").unwrap().is_some());
        assert!(root.has("/proc/self/exe") && root.bytes("/proc/self/exe").unwrap().is_some());
        assert!(!root.names("/proc/self/task").unwrap().is_empty());
    }
}

#[test]
fn this_machine_is_read() {
    let machine = Machine::read(&Root::live()).unwrap();
    assert!(!machine.nodes.is_empty());
    assert!(!machine.memory_nodes().is_empty());
}
