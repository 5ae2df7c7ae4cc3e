//! Tests of control groups of both versions, in simulated folders and on this machine.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use interleaf_linux::{
    process::{
        available::{Available, available},
        cgroup::{Group, OnNode, Trees, Usage, Version, headroom},
    },
    root::Root,
};
use std::{fs, io::Write as _};

const V1: &str = "\
31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755
34 31 0:31 / /sys/fs/cgroup/cpuset rw,relatime shared:5 - cgroup cgroup rw,cpuset
35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory
";
const V2: &str = "24 1 0:21 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n";
const HYBRID: &str = "\
35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory
41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw
";

const MOUNTINFO: &str = "proc/self/mountinfo";
const CONTROLLERS: &str = "sys/fs/cgroup/cgroup.controllers";
const ALL: &str = "cpuset cpu io memory pids\n";

/// A simulated machine whose files are in a temporary folder.
struct Machine {
    root: Root,
    _folder: tempfile::TempDir,
}

impl Machine {
    fn new(files: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        Self { root: Root::captured(folder.path()), _folder: folder }
    }

    /// Returns the group `name` in the tree of the memory controller.
    fn group(&self, name: &str) -> Group {
        Trees::read(&self.root).unwrap().unwrap().memory.unwrap().group(name)
    }
}

/// Returns the version and mount point of the memory controller, and then those of the cpuset
/// controller, as in `1 /sys/fs/cgroup/memory; -`. A controller that is not mounted is `-`.
fn mounted(files: &[(&str, &str)]) -> String {
    let machine = Machine::new(files);
    let Some(trees) = Trees::read(&machine.root).unwrap() else { return "nobody tells".into() };
    let tree = |tree: Option<interleaf_linux::process::cgroup::Tree>| match tree {
        Some(tree) => format!("{} {}", tree.version as u8 + 1, tree.mount),
        None => "-".into(),
    };
    let hybrid = if trees.hybrid { " hybrid" } else { "" };
    format!("{}; {}{hybrid}", tree(trees.memory), tree(trees.cpuset))
}

#[test]
fn where_the_controllers_are() {
    let unified = "sys/fs/cgroup/unified/cgroup.controllers";
    assert_eq!(mounted(&[]), "nobody tells");
    assert_eq!(mounted(&[(MOUNTINFO, "")]), "-; -");
    assert_eq!(mounted(&[(MOUNTINFO, V1)]), "1 /sys/fs/cgroup/memory; 1 /sys/fs/cgroup/cpuset");
    assert_eq!(mounted(&[(MOUNTINFO, V2)]), "-; -", "its controllers are not there");
    assert_eq!(
        mounted(&[(MOUNTINFO, V2), (CONTROLLERS, ALL)]),
        "2 /sys/fs/cgroup; 2 /sys/fs/cgroup"
    );
    assert_eq!(mounted(&[(MOUNTINFO, V2), (CONTROLLERS, "cpu memory\n")]), "2 /sys/fs/cgroup; -");
    assert_eq!(mounted(&[(MOUNTINFO, HYBRID)]), "1 /sys/fs/cgroup/memory; - hybrid");
    assert_eq!(
        mounted(&[(MOUNTINFO, HYBRID), (unified, "cpuset\n")]),
        "1 /sys/fs/cgroup/memory; 2 /sys/fs/cgroup/unified hybrid"
    );
    let mounts = "proc /proc proc rw 0 0\ncgroup /a\\040b cgroup rw,cpuset,memory 0 0\n";
    assert_eq!(mounted(&[("proc/mounts", mounts)]), "1 /a b; 1 /a b");
}

/// Returns the folder of process 7's memory cgroup if `/proc/7/cgroup` has the content `text`.
fn group_of(mountinfo: &str, text: &str) -> Option<String> {
    let machine =
        Machine::new(&[(MOUNTINFO, mountinfo), (CONTROLLERS, ALL), ("proc/7/cgroup", text)]);
    let tree = Trees::read(&machine.root).unwrap().unwrap().memory.unwrap();
    assert_eq!(tree.group_of(&machine.root, Some(8)).unwrap(), None, "there is no process 8");
    tree.group_of(&machine.root, Some(7)).unwrap().map(|group| group.folder())
}

#[test]
fn the_group_of_a_process() {
    let v1 = "5:cpu,memory:/a/b\n4:cpuset:/c\n0::/d\n";
    let container = V2.replace("0:21 /", "0:21 /docker/1");
    let memory = |name: &str| Some(format!("/sys/fs/cgroup/memory{name}"));
    let unified = |name: &str| Some(format!("/sys/fs/cgroup{name}"));
    assert_eq!(group_of(V1, v1), memory("/a/b"));
    assert_eq!(group_of(V1, "4:memory:/\n"), memory(""));
    assert_eq!(group_of(V1, "4:memory:/a:b\n"), memory("/a:b"), "a name may have colons");
    assert_eq!(group_of(V1, "4:cpuset:/c\n0::/d\n"), None);
    assert_eq!(group_of(V2, v1), unified("/d"));
    assert_eq!(group_of(V2, "0::/\n"), unified(""));
    assert_eq!(group_of(V2, "0::/../other\n"), None, "out of sight");
    assert_eq!(group_of(&container, "0::/docker/1/x\n"), unified("/x"));
    assert_eq!(group_of(&container, "0::/docker/1\n"), unified(""));
    assert_eq!(group_of(&container, "0::/docker/12\n"), None, "another container");
}

/// Returns the memory of the group `/g` on each node if its `memory.numa_stat` has the content
/// `text`: the node's ID, and the anonymous, file and locked bytes.
fn on_nodes(mountinfo: &str, text: &str) -> Vec<(u32, u64, u64, u64)> {
    let machine = Machine::new(&[
        (MOUNTINFO, mountinfo),
        (CONTROLLERS, ALL),
        ("sys/fs/cgroup/memory/g/memory.numa_stat", text),
        ("sys/fs/cgroup/g/memory.numa_stat", text),
    ]);
    let nodes = machine.group("g").on_nodes(&machine.root).unwrap().unwrap();
    let all = |on: OnNode| (on.node, on.anon_bytes, on.file_bytes, on.locked_bytes);
    nodes.into_iter().map(all).collect()
}

#[test]
fn where_the_memory_of_a_group_is() {
    let below = "total=9 N0=9\nanon=1 N0=1\nhierarchical_anon=3 N0=2 N1=1\n\
                 hierarchical_file=4 N0=0 N1=4\nhierarchical_unevictable=5 N0=5 N1=0\n";
    assert_eq!(on_nodes(V1, below), [(0, 8192, 0, 20480), (1, 4096, 16384, 0)]);
    assert_eq!(on_nodes(V1, "total=9 N0=9\n"), []);
    assert_eq!(on_nodes(V2, ""), []);
    assert_eq!(on_nodes(V2, "anon N0=4096 N2=8192\n"), [(0, 4096, 0, 0), (2, 8192, 0, 0)]);
    let text = "anon N0=1 N1=0\nfile N0=2 N1=3\nkernel_stack N0=9 N1=9\nanon_thp N0=7 N1=7\n\
                unevictable N0=8 N1=8\n";
    assert_eq!(on_nodes(V2, text), [(0, 1, 2, 0), (1, 0, 3, 0)]);
}

#[test]
fn a_malformed_row_is_named_with_its_line() {
    let file = "sys/fs/cgroup/g/memory.numa_stat";
    let machine = |mountinfo: &str, path: &str, text: &str| {
        Machine::new(&[(MOUNTINFO, mountinfo), (CONTROLLERS, ALL), (path, text)])
    };
    for text in ["anon N0=x", "anon 0=1", "anon N0", "anon N=1", "anon N0=-1"] {
        let machine = machine(V2, file, &format!("file N0=1\n{text}\n"));
        let error = machine.group("g").on_nodes(&machine.root).unwrap_err().to_string();
        let kind = "a kind of memory with its size on each node";
        assert_eq!(error, format!("/{file}:2: \"{text}\" is not {kind}"));
    }
    let machine = machine(V1, "sys/fs/cgroup/memory/g/memory.numa_stat", "anon N0=1\n");
    assert!(machine.group("g").on_nodes(&machine.root).is_err(), "a row of version 2");
    let machine = Machine::new(&[(MOUNTINFO, "24 1 0:21 / /sys\n")]);
    let error = Trees::read(&machine.root).unwrap_err().to_string();
    assert_eq!(error, "/proc/self/mountinfo:1: \"24 1 0:21 / /sys\" is not a line of a mount");
    let machine = Machine::new(&[(MOUNTINFO, V1), ("proc/self/cgroup", "4:memory\n")]);
    let tree = machine.group("/").tree;
    let error = tree.group_of(&machine.root, None).unwrap_err().to_string();
    assert!(error.starts_with("/proc/self/cgroup:1: \"4:memory\" is not"), "{error}");
    let machine = Machine::new(&[(MOUNTINFO, V1), ("sys/fs/cgroup/memory/cgroup.procs", "1\nx\n")]);
    let error = machine.group("/").processes(&machine.root).unwrap_err().to_string();
    let path = "/sys/fs/cgroup/memory/cgroup.procs";
    assert_eq!(error, format!("{path}:2: \"x\" is not the number of a process"));
}

/// Returns the memory that the group `/a/b` uses, and its limit.
fn usage(mountinfo: &str, files: &[(&str, &str)]) -> (Option<u64>, Option<u64>) {
    let mut all = vec![(MOUNTINFO, mountinfo), (CONTROLLERS, ALL)];
    all.extend(files);
    let machine = Machine::new(&all);
    let Usage { used_bytes, limit_bytes } = machine.group("/a/b").usage(&machine.root).unwrap();
    (used_bytes, limit_bytes)
}

#[test]
fn usage_and_limit_of_a_group_are_read() {
    let (used, own) = ("sys/fs/cgroup/a/b/memory.current", "sys/fs/cgroup/a/b/memory.max");
    let above = "sys/fs/cgroup/a/memory.max";
    assert_eq!(usage(V2, &[]), (None, None));
    assert_eq!(usage(V2, &[(used, "5\n"), (own, "max\n")]), (Some(5), None));
    assert_eq!(usage(V2, &[(used, "5\n"), (own, "9\n")]), (Some(5), Some(9)));
    assert_eq!(usage(V2, &[(own, "9\n"), (above, "7\n")]), (None, Some(7)));
    assert_eq!(usage(V2, &[(own, "max\n"), (above, "7\n")]), (None, Some(7)));
    let used = "sys/fs/cgroup/memory/a/b/memory.usage_in_bytes";
    let own = "sys/fs/cgroup/memory/a/b/memory.limit_in_bytes";
    let top = "sys/fs/cgroup/memory/memory.limit_in_bytes";
    let none = "9223372036854771712\n";
    assert_eq!(usage(V1, &[(used, "5\n"), (own, none), (top, none)]), (Some(5), None));
    assert_eq!(usage(V1, &[(own, "9223372036854710272\n")]), (None, None), "64 KiB pages");
    assert_eq!(usage(V1, &[(own, "8\n"), (top, none)]), (None, Some(8)));
}

/// Returns the limit that leaves this process the least headroom: the group, the file and the
/// headroom, as in `/a memory.max 4`. `group` is the content of `/proc/self/cgroup`.
fn left(mountinfo: &str, group: &str, files: &[(&str, &str)]) -> String {
    let mut all = vec![(MOUNTINFO, mountinfo), (CONTROLLERS, ALL), ("proc/self/cgroup", group)];
    all.extend(files);
    let machine = Machine::new(&all);
    match headroom(&machine.root).unwrap() {
        Some(found) => format!("{} {} {}", found.group.name, found.file, found.bytes()),
        None => "-".into(),
    }
}

#[test]
fn the_least_headroom_of_nested_groups_applies() {
    let own = "0::/a/b\n";
    let (max, high) = ("sys/fs/cgroup/a/b/memory.max", "sys/fs/cgroup/a/b/memory.high");
    let (used, stat) = ("sys/fs/cgroup/a/b/memory.current", "sys/fs/cgroup/a/b/memory.stat");
    let (above, of_above) = ("sys/fs/cgroup/a/memory.max", "sys/fs/cgroup/a/memory.current");
    let left_of = |files: &[(&str, &str)]| left(V2, own, files);
    assert_eq!(left_of(&[]), "-");
    assert_eq!(left_of(&[(max, "max\n"), (high, "max\n"), (above, "max\n")]), "-");
    assert_eq!(left_of(&[(max, "9\n")]), "/a/b memory.max 9");
    assert_eq!(left_of(&[(max, "9\n"), (high, "5\n"), (used, "2\n")]), "/a/b memory.high 3");
    let all = [(max, "90\n"), (used, "20\n"), (above, "99\n"), (of_above, "60\n")];
    assert_eq!(left_of(&all), "/a memory.max 39", "siblings have the rest");
    let files = "anon 9\nfile 30\nshmem 5\ninactive_file 8\nactive_file 4\nslab_reclaimable 3\n";
    let read = [(max, "90\n"), (used, "60\n"), (stat, files)];
    assert_eq!(left_of(&read), "/a/b memory.max 45", "file pages and slab are reclaimed");
    assert_eq!(left_of(&[(max, "9\n"), (used, "12\n")]), "/a/b memory.max 0");
    // The limit of the mount's root group applies in a container with its own cgroup namespace, and
    // in a container whose group is not mounted.
    let (top, of_top) = ("sys/fs/cgroup/memory.max", "sys/fs/cgroup/memory.current");
    let limited = [(top, "9\n"), (of_top, "4\n")];
    assert_eq!(left(V2, "0::/\n", &limited), "/ memory.max 5");
    assert_eq!(left(V2, "0::/../x\n", &limited), "/ memory.max 5");
    assert_eq!(left("", own, &limited), "-", "no control groups");
}

#[test]
fn limits_of_version_1_apply_with_those_above() {
    let own = "4:memory:/a/b\n0::/\n";
    let file = |name: &str, file: &str| format!("sys/fs/cgroup/memory{name}/memory.{file}");
    let (limit, used) = (file("/a/b", "limit_in_bytes"), file("/a/b", "usage_in_bytes"));
    let (above, of_above) = (file("/a", "limit_in_bytes"), file("/a", "usage_in_bytes"));
    let none = (limit.as_str(), "9223372036854771712\n");
    assert_eq!(left(V1, own, &[none]), "-");
    let both = [none, (&used, "5\n"), (&above, "30\n"), (&of_above, "20\n")];
    assert_eq!(left(V1, own, &both), "/a memory.limit_in_bytes 10");
    let (stat, flat) = (file("/a", "stat"), file("/a", "use_hierarchy"));
    let files =
        "cache 9\ntotal_cache 9\ninactive_file 1\ntotal_inactive_file 3\ntotal_active_file 4\n";
    let read = [&both[..], &[(&stat, files), (&flat, "1\n")]].concat();
    assert_eq!(left(V1, own, &read), "/a memory.limit_in_bytes 17");
    let flat = [&both[..], &[(&flat, "0\n")]].concat();
    assert_eq!(left(V1, own, &flat), "-", "nothing is charged to the groups above");
    let hybrid = [none, (&above, "30\n")];
    assert_eq!(left(HYBRID, own, &hybrid), "/a memory.limit_in_bytes 30");
    // In a container without a cgroup namespace, the container's group is mounted as the root of
    // the hierarchy.
    let inner = "35 31 0:32 /a/b /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n";
    let top = file("", "limit_in_bytes");
    assert_eq!(left(inner, own, &[(&top, "7\n")]), "/ memory.limit_in_bytes 7");
}

#[test]
fn available_memory_is_within_the_limit() {
    let (max, used) = ("sys/fs/cgroup/a/memory.max", "sys/fs/cgroup/a/memory.current");
    let limited = |limit: &str| {
        let machine = Machine::new(&[
            (MOUNTINFO, V2),
            (CONTROLLERS, ALL),
            ("proc/self/cgroup", "0::/a\n"),
            ("proc/meminfo", "MemAvailable: 1024 kB\nSwapFree: 5 kB\n"),
            (max, limit),
            (used, "4096\n"),
        ]);
        let Available { bytes, limit } = available(&machine.root, None).unwrap().unwrap();
        (bytes, limit.map(|limit| limit.path()))
    };
    assert_eq!(limited("max\n"), (1 << 20, None));
    assert_eq!(limited("8388608\n"), (1 << 20, None), "the machine has less than the group may");
    assert_eq!(limited("69632\n"), (65536, Some("/sys/fs/cgroup/a/memory.max".into())));
    let machine = Machine::new(&[
        (MOUNTINFO, V2),
        (CONTROLLERS, ALL),
        ("proc/self/cgroup", "0::/a\n"),
        (max, "no\n"),
    ]);
    let why = available(&machine.root, None).unwrap_err().to_string();
    assert!(why.starts_with("/sys/fs/cgroup/a/memory.max: \"no\" is not a number"), "{why}");
}

/// Returns the nodes on which processes of the group `/a/b` may allocate, if the file `path` has
/// the content `text`.
fn memory_nodes(mountinfo: &str, path: &str, text: &str) -> Option<String> {
    let machine = Machine::new(&[(MOUNTINFO, mountinfo), (CONTROLLERS, ALL), (path, text)]);
    let tree = Trees::read(&machine.root).unwrap().unwrap().cpuset.unwrap();
    let nodes = tree.group("/a/b").memory_nodes(&machine.root).unwrap();
    nodes.map(|nodes| nodes.to_string())
}

#[test]
fn the_nodes_of_a_group() {
    let is = |text: &str| Some(text.to_string());
    let own = "sys/fs/cgroup/a/b/cpuset.mems.effective";
    assert_eq!(memory_nodes(V2, own, "0-1,3\n"), is("0-1,3"));
    assert_eq!(memory_nodes(V2, "sys/fs/cgroup/a/cpuset.mems.effective", "1\n"), is("1"));
    assert_eq!(memory_nodes(V2, "sys/fs/cgroup/cpuset.mems.effective", "0\n"), is("0"));
    assert_eq!(memory_nodes(V2, "elsewhere", "0\n"), None);
    let own = "sys/fs/cgroup/cpuset/a/b/cpuset.effective_mems";
    assert_eq!(memory_nodes(V1, own, "2\n"), is("2"));
}

#[test]
fn processes_and_groups_below() {
    let procs = |name: &str| format!("sys/fs/cgroup{name}/cgroup.procs");
    let (top, a, b, ac) = (procs(""), procs("/a"), procs("/b"), procs("/a/c"));
    let machine = Machine::new(&[
        (MOUNTINFO, V2),
        (CONTROLLERS, ALL),
        (&top, "1\n0\n22\n"),
        (&a, ""),
        (&b, "3\n"),
        (&ac, "4\n"),
        ("sys/fs/cgroup/no-group/file", ""),
    ]);
    let names = |name: &str| -> Vec<String> {
        let below = machine.group(name).descendants(&machine.root).unwrap();
        below.into_iter().map(|group| group.name).collect()
    };
    assert_eq!(names("/"), ["/a", "/a/c", "/b"]);
    assert_eq!(names("/a"), ["/a/c"]);
    assert_eq!(names("/gone"), Vec::<String>::new());
    let processes = |name: &str| machine.group(name).processes(&machine.root).unwrap();
    assert_eq!(processes("/"), [1, 22], "one has no number here");
    assert_eq!(processes("a/c/"), [4]);
    assert!(processes("/gone").is_empty());
    assert_eq!(machine.group("/a/c").parent(), Some(machine.group("/a")));
    assert_eq!(machine.group("/a").parent(), Some(machine.group("/")));
    assert_eq!(machine.group("/").parent(), None);
    assert!(machine.group("/a").exists(&machine.root));
    assert!(!machine.group("/no-group").exists(&machine.root));
}

/// Prints the reason why the test was skipped on this machine.
///
/// # Panics
///
/// When the environment variable `INTERLEAF_CGROUPS` is `required`.
fn not_tested(why: &str) {
    let text = format!("not tested: the group of this process: {why}");
    let required = std::env::var_os("INTERLEAF_CGROUPS").is_some_and(|it| it == "required");
    assert!(!required, "{text}");
    // Write to stderr directly, because the test harness captures what `eprintln` prints.
    let mut stderr = std::io::stderr();
    writeln!(stderr, "{text}").unwrap();
}

#[test]
fn this_process_is_in_a_group_that_counts_its_memory() {
    let root = Root::live();
    let trees = Trees::read(&root).unwrap().unwrap();
    let Some(tree) = trees.memory else {
        return not_tested("no cgroup with the controller `memory` is mounted");
    };
    let Some(group) = tree.group_of(&root, None).unwrap() else {
        return not_tested("it is outside of what is mounted here, as in a container");
    };
    if !group.exists(&root) {
        return not_tested(&format!("{} is not there, as in a container", group.folder()));
    }
    assert!(group.processes(&root).unwrap().contains(&std::process::id()));
    let topmost = tree.version == Version::Two && group.parent().is_none();
    assert!(topmost || group.usage(&root).unwrap().used_bytes.is_some());
    let Some(nodes) = group.on_nodes(&root).unwrap() else {
        return not_tested("this kernel has no memory.numa_stat");
    };
    assert!(topmost || nodes.iter().map(OnNode::bytes).sum::<u64>() > 0, "{nodes:?}");
}
