//! Tests of the files that actuators write on each kernel. An actuator does not take DAMON from
//! another program, and changes settings of the kernel only with permission.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use interleaf_linux::{
    machine::damon::probe::Probed,
    place::{
        actuator::{ActuatorError, ActuatorKind, Goal, Scope, Setting, choose},
        journal::Journal,
    },
    process::{cgroup::Trees, process},
    root::Root,
};
use interleaf_model::machine::Order;
use std::{
    cell::{Cell, RefCell},
    fs, io,
    os::unix::fs::PermissionsExt as _,
    path::Path,
    rc::Rc,
    sync::{Arc, Mutex},
};

/// Makes a simulated live machine, whose writes change the files below `top`.
fn live_below(top: &Path) -> Root {
    let to = top.to_path_buf();
    Root::live_simulated(top, move |path, text| {
        fs::write(to.join(path.trim_start_matches('/')), text)
    })
}

const ADMIN: &str = "/sys/kernel/mm/damon/admin/kdamonds/";

/// The files of a machine with two nodes of 512 MiB, and two processes with 200 MiB and 8 KiB. All
/// anonymous memory is on the first node.
const FILES: [(&str, &str); 9] = [
    ("proc/42/stat", "42 (sweep) R 1 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 9876 0 0"),
    ("proc/42/statm", "51300 51200 0 0 0 0 0"),
    ("proc/43/stat", "43 (small) R 42 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 9877 0 0"),
    ("proc/43/statm", "2 2 0 0 0 0 0"),
    (
        "proc/zoneinfo",
        "Node 0, zone DMA\n  spanned 131071\n  present 131071\n  start_pfn: 1\n\
         Node 1, zone Normal\n  spanned 131072\n  present 131072\n  start_pfn: 131072\n",
    ),
    ("sys/devices/system/node/online", "0-1\n"),
    (
        "sys/devices/system/node/node0/meminfo",
        "Node 0 MemTotal: 524288 kB\nNode 0 MemFree: 262144 kB\nNode 0 AnonPages: 204800 kB\n",
    ),
    (
        "sys/devices/system/node/node1/meminfo",
        "Node 1 MemTotal: 524288 kB\nNode 1 MemFree: 524288 kB\nNode 1 AnonPages: 0 kB\n",
    ),
    ("sys/kernel/mm/damon/admin/kdamonds/nr_kdamonds", "0\n"),
];

fn write_file(folder: &Path, path: &str, text: &str) {
    let path = folder.join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

fn machine(more: &[(&str, &str)]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    FILES.iter().chain(more).for_each(|(path, text)| write_file(folder.path(), path, text));
    folder
}

fn strings(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).into()).collect()
}

/// Returns the DAMON features of a kernel release that matter to actuators, from `docs/kernels.md`;
/// `None` for 6.1, which Debian builds without DAMON.
fn kernel(release: &str) -> Option<Probed> {
    let old = Probed {
        operations: strings(&["vaddr", "fvaddr", "paddr"]),
        actions: strings(&["stat", "migrate_hot", "migrate_cold"]),
        ..Probed::default()
    };
    let with_destinations =
        Probed { destinations: true, split_filters: true, refresh: true, ..old.clone() };
    match release {
        "6.1" => None,
        "6.12" => Some(old),
        "6.17" => Some(with_destinations),
        _ => Some(Probed {
            goals: strings(&["node_eligible_mem_bp"]),
            tuners: strings(&["consist", "temporal"]),
            obsolete_target: true,
            ..with_destinations
        }),
    }
}

const GOAL: [(u32, u32); 2] = [(0, 60), (1, 40)];

fn goal(order: Order, rate_mib: Option<u64>) -> Goal {
    let rate_limit_bytes_per_s = rate_mib.map(|mib| mib << 20);
    Goal { nodes: GOAL.to_vec(), order, demotions: vec![(0, 1)], rate_limit_bytes_per_s }
}

/// Returns the writes of an actuator that gets `goals` one after the other. Paths in DAMON's folder
/// `kdamonds` are relative to this folder.
fn planned(kind: ActuatorKind, kernel: &Probed, scope: Scope, goals: &[Goal]) -> Vec<String> {
    let folder = machine(&[("sys/module/damon_stat/parameters/enabled", "Y\n")]);
    let root = Root::captured(folder.path());
    let journal = Rc::new(RefCell::new(Journal::open(&root).unwrap().0));
    let setting = Setting { leave: true, ..Setting::new(&root, journal, scope) };
    let mut actuator = kind.build(setting, kernel);
    goals.iter().for_each(|goal| actuator.set(goal).unwrap());
    let short = |path: &str| path.strip_prefix(ADMIN).unwrap_or(path).to_string();
    root.noted().iter().map(|write| format!("{} {}", short(&write.path), write.text)).collect()
}

/// Returns the writes among `lines` to DAMON's folder of schemes, with paths relative to this
/// folder.
fn schemes(lines: &[String]) -> Vec<&str> {
    lines.iter().filter_map(|line| line.strip_prefix("0/contexts/0/schemes/")).collect()
}

/// Returns the names of the available actuators from best to worst, and then, after `|`, those of
/// the unavailable actuators.
fn kinds(release: &str, scope: &Scope, order: Order) -> String {
    let ranked = choose(kernel(release).as_ref(), scope, &[], order);
    let names = |all: &[interleaf_linux::place::actuator::Choice]| {
        all.iter().map(|choice| choice.kind.name()).collect::<Vec<_>>().join(" ")
    };
    format!("{} | {}", names(&ranked.available), names(&ranked.missing))
}

#[test]
fn the_best_way_is_chosen_by_kernel_and_scope() {
    let processes = Scope::Processes(vec![42]);
    for (release, of_processes, of_machine) in [
        ("6.1", "pages | vaddr paddr quota", "pages | vaddr paddr quota"),
        ("6.12", "pages | vaddr paddr quota", "quota pages | vaddr paddr"),
        ("6.17", "vaddr pages | paddr quota", "quota pages | vaddr paddr"),
        ("newest", "vaddr pages | paddr quota", "paddr quota pages | vaddr"),
    ] {
        let order = Order::Interleave;
        assert_eq!(kinds(release, &processes, order), of_processes, "{release}");
        assert_eq!(kinds(release, &Scope::Machine, order), of_machine, "{release}");
    }
    let ranked = choose(kernel("6.12").as_ref(), &processes, &[], Order::Interleave);
    let why = "vaddr: no destinations, nor migration by virtual addresses here (since 6.17)";
    assert_eq!(ranked.missing[0].to_string(), why);
}

/// The actuator `vaddr` makes these writes on Linux 6.17, in this order. It disables the kernel's
/// module `damon_stat` first, and writes the state of DAMON's thread last.
#[test]
fn vaddr_is_written_in_order() {
    let goals = [goal(Order::Interleave, None)];
    let scope = Scope::Processes(vec![42]);
    let lines = planned(ActuatorKind::Vaddr, &kernel("6.17").unwrap(), scope, &goals);
    let expected = "\
/sys/module/damon_stat/parameters/enabled N
nr_kdamonds 1
0/refresh_ms 1000
0/contexts/nr_contexts 1
0/contexts/0/operations vaddr
0/contexts/0/monitoring_attrs/intervals/sample_us 100000
0/contexts/0/monitoring_attrs/intervals/aggr_us 1000000
0/contexts/0/monitoring_attrs/intervals/update_us 1000000
0/contexts/0/monitoring_attrs/nr_regions/min 10
0/contexts/0/monitoring_attrs/nr_regions/max 1000
0/contexts/0/targets/nr_targets 1
0/contexts/0/targets/0/pid_target 42
0/contexts/0/schemes/nr_schemes 2
0/contexts/0/schemes/0/action migrate_hot
0/contexts/0/schemes/0/dests/nr_dests 2
0/contexts/0/schemes/0/dests/0/id 0
0/contexts/0/schemes/0/dests/0/weight 6
0/contexts/0/schemes/0/dests/1/id 1
0/contexts/0/schemes/0/dests/1/weight 4
0/contexts/0/schemes/0/access_pattern/sz/max 18446744073709551615
0/contexts/0/schemes/0/access_pattern/nr_accesses/min 1
0/contexts/0/schemes/0/access_pattern/nr_accesses/max 4294967295
0/contexts/0/schemes/0/access_pattern/age/min 0
0/contexts/0/schemes/0/access_pattern/age/max 4294967295
0/contexts/0/schemes/0/quotas/bytes 0
0/contexts/0/schemes/0/quotas/reset_interval_ms 0
0/contexts/0/schemes/1/action migrate_cold
0/contexts/0/schemes/1/dests/nr_dests 0
0/contexts/0/schemes/1/target_nid 1
0/contexts/0/schemes/1/access_pattern/sz/max 18446744073709551615
0/contexts/0/schemes/1/access_pattern/nr_accesses/min 4294967295
0/contexts/0/schemes/1/access_pattern/nr_accesses/max 4294967295
0/contexts/0/schemes/1/access_pattern/age/min 5
0/contexts/0/schemes/1/access_pattern/age/max 4294967295
0/contexts/0/schemes/1/quotas/bytes 1048576
0/contexts/0/schemes/1/quotas/reset_interval_ms 1000
0/state on";
    assert_eq!(lines.join("\n"), expected);
}

/// The goal changes while a context runs. The actuator writes only changed values. A new number of
/// destinations creates new folders, so all files in these folders are written.
#[test]
fn a_changed_goal_is_committed() {
    let change = |nodes: &[(u32, u32)]| {
        let to = Goal { nodes: nodes.to_vec(), ..goal(Order::Interleave, Some(64)) };
        let goals = [goal(Order::Interleave, Some(64)), to];
        let scope = Scope::Processes(vec![42]);
        let lines = planned(ActuatorKind::Vaddr, &kernel("newest").unwrap(), scope, &goals);
        let at = lines.iter().position(|line| line == "0/state on").unwrap();
        lines[at + 1..].to_vec()
    };
    let weight =
        |at: u32, weight: u32| format!("0/contexts/0/schemes/0/dests/{at}/weight {weight}");
    assert_eq!(change(&[(0, 20), (1, 80)]), [weight(0, 2), weight(1, 8), "0/state commit".into()]);
    assert_eq!(change(&GOAL), Vec::<String>::new());
    let one = change(&[(0, 1), (1, 0)]);
    let dests = "0/contexts/0/schemes/0/dests";
    let expected = [
        format!("{dests}/nr_dests 1"),
        format!("{dests}/0/id 0"),
        weight(0, 1),
        "0/state commit".into(),
    ];
    assert_eq!(one, expected, "a weight of 0 is none");
}

/// The actuators on physical memory (`quota` and `paddr`) write what each of three kernels expects:
/// the kernel determines the folders of the filters, and whether a quota goal is written.
#[test]
fn paddr_is_written_as_the_kernel_has_it() {
    let goals = [goal(Order::Interleave, Some(8))];
    for (release, kind, filters, goal) in [
        ("6.12", ActuatorKind::Quota, ["filters/0", "filters/1"], ""),
        ("6.17", ActuatorKind::Quota, ["core_filters/0", "ops_filters/0"], ""),
        (
            "newest",
            ActuatorKind::Paddr,
            ["core_filters/0", "ops_filters/0"],
            "0/quotas/goals/nr_goals 1\n\
             0/quotas/goals/0/target_metric node_eligible_mem_bp\n\
             0/quotas/goals/0/target_value 4000\n\
             0/quotas/goals/0/nid 1\n\
             0/quotas/goal_tuner temporal\n",
        ),
    ] {
        let lines = planned(kind, &kernel(release).unwrap(), Scope::Machine, &goals);
        let regions: Vec<&String> =
            lines.iter().filter(|line| line.contains("targets/0/regions")).collect();
        assert_eq!(
            regions[1..3],
            [
                "0/contexts/0/targets/0/regions/0/start 4096",
                "0/contexts/0/targets/0/regions/0/end 536870912"
            ]
        );
        let first: Vec<&str> =
            schemes(&lines).into_iter().filter(|line| line.starts_with("0/")).collect();
        let [addresses, files] = filters;
        let counts = match release {
            "6.12" => ["0/filters/nr_filters 2\n", ""],
            _ => ["0/core_filters/nr_filters 1\n", "0/ops_filters/nr_filters 1\n"],
        };
        let dests = if release == "6.12" { "" } else { "0/dests/nr_dests 0\n" };
        let expected = format!(
            "0/action migrate_hot\n{dests}0/target_nid 1\n\
             0/access_pattern/sz/max 18446744073709551615\n\
             0/access_pattern/nr_accesses/min 1\n0/access_pattern/nr_accesses/max 4294967295\n\
             0/access_pattern/age/min 0\n0/access_pattern/age/max 4294967295\n\
             0/quotas/bytes 16777216\n0/quotas/reset_interval_ms 2000\n{goal}{}\
             0/{addresses}/type addr\n0/{addresses}/matching Y\n\
             0/{addresses}/addr_start 536870912\n0/{addresses}/addr_end 1073741824\n{}\
             0/{files}/type anon\n0/{files}/matching N",
            counts[0], counts[1]
        );
        assert_eq!(first.join("\n"), expected, "{release}");
    }
}

/// Files of control groups: a child of `/kept` has a process, and `/kept` has 40 MiB on the first
/// node.
const GROUPS: [(&str, &str); 7] = [
    ("proc/1/stat", "1 (init) S 0 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 1 0 0"),
    ("proc/self/mountinfo", "30 1 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"),
    ("sys/fs/cgroup/cgroup.controllers", "cpuset memory\n"),
    ("sys/fs/cgroup/kept/cgroup.procs", ""),
    ("sys/fs/cgroup/kept/memory.numa_stat", "anon N0=41943040 N1=0\n"),
    ("sys/fs/cgroup/kept/inner/cgroup.procs", "44\n"),
    ("proc/44/stat", "44 (server) R 42 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 9877 0 0"),
];

/// Returns the scope of the control group `name` on a machine below `folder`.
fn group(folder: &Path, name: &str) -> Scope {
    let root = Root::captured(folder);
    let tree = Trees::read(&root).unwrap().unwrap().memory.unwrap();
    Scope::Cgroup(tree.group(name))
}

/// Returns the writes of an actuator for `scope` except a protected scope, on a machine with
/// control groups. `protected` gets the folder of the machine and returns the protected scope.
fn planned_without(
    kind: ActuatorKind,
    scope: Scope,
    protected: &dyn Fn(&Path) -> Scope,
) -> Vec<String> {
    let large = ("proc/44/statm", "51300 51200 0 0 0 0 0");
    let folder = machine(&[&GROUPS[..], &[large]].concat());
    let root = Root::captured(folder.path());
    let journal = Rc::new(RefCell::new(Journal::open(&root).unwrap().0));
    let protected = vec![protected(folder.path())];
    let setting = Setting { protected, leave: true, ..Setting::new(&root, journal, scope) };
    let mut actuator = kind.build(setting, &kernel("newest").unwrap());
    actuator.set(&goal(Order::Interleave, None)).unwrap();
    let short = |path: &str| path.strip_prefix(ADMIN).unwrap_or(path).to_string();
    root.noted().iter().map(|write| format!("{} {}", short(&write.path), write.text)).collect()
}

/// A process that is protected by its name or by its group is not a target of `vaddr`. In physical
/// memory, the pages of a protected group are filtered out, and do not count as memory of the
/// scope.
#[test]
fn the_protected_are_left_alone() {
    let targets = |protected: &dyn Fn(&Path) -> Scope| {
        let lines = planned_without(ActuatorKind::Vaddr, Scope::Processes(vec![42]), protected);
        let targets = lines.into_iter().filter(|line| line.contains("pid_target"));
        targets.map(|line| line.rsplit(' ').next().unwrap().into()).collect::<Vec<String>>()
    };
    let named = |name: &str| Scope::Named(vec![name.into()]);
    assert_eq!(targets(&|_| named("other")), ["42", "44"]);
    assert_eq!(targets(&|_| named("server")), ["42"]);
    assert_eq!(targets(&|folder| group(folder, "/kept")), ["42"]);
    assert_eq!(targets(&|folder| group(folder, "/later")), ["42", "44"]);
    assert_eq!(targets(&|_| named("sweep")), Vec::<String>::new(), "with what it started");

    let lines =
        planned_without(ActuatorKind::Paddr, Scope::Machine, &|folder| group(folder, "/kept"));
    let filters: Vec<&str> = schemes(&lines)
        .into_iter()
        .filter(|line| line.starts_with("0/ops_filters") || line.starts_with("0/quotas/bytes"))
        .collect();
    // The scope has 160 MiB, all on node 0: 200 MiB without the 40 MiB of `/kept`. Node 1 should
    // have 40 % of them, so 64 MiB are missing. The quota is 0.3 of the missing bytes: 19.2 MiB,
    // rounded down to whole pages.
    let expected = "0/quotas/bytes 20131840\n0/ops_filters/nr_filters 3\n\
         0/ops_filters/0/type anon\n0/ops_filters/0/matching N\n\
         0/ops_filters/1/type memcg\n0/ops_filters/1/matching Y\n\
         0/ops_filters/1/memcg_path /kept\n\
         0/ops_filters/2/type memcg\n0/ops_filters/2/matching Y\n\
         0/ops_filters/2/memcg_path /kept/inner";
    assert_eq!(filters.join("\n"), expected);
    let lines =
        planned_without(ActuatorKind::Paddr, Scope::Machine, &|folder| group(folder, "/later"));
    assert!(!lines.iter().any(|line| line.contains("memcg")), "{lines:?}");
}

/// A control group is steered with its descendants: for each of these groups, one filter allows the
/// pages of the group, if the kernel supports filters that allow pages.
#[test]
fn a_group_is_steered_with_those_below_it() {
    let folder = machine(&GROUPS);
    let later = |_: &Path| group(folder.path(), "/later");
    let kept = group(folder.path(), "/kept");
    let lines = planned_without(ActuatorKind::Paddr, kept.clone(), &later);
    let filters: Vec<&str> =
        schemes(&lines).into_iter().filter(|line| line.starts_with("0/ops_filters")).collect();
    let expected = "0/ops_filters/nr_filters 3\n\
         0/ops_filters/0/type anon\n0/ops_filters/0/matching N\n0/ops_filters/0/allow N\n\
         0/ops_filters/1/type memcg\n0/ops_filters/1/matching Y\n\
         0/ops_filters/1/memcg_path /kept\n0/ops_filters/1/allow Y\n\
         0/ops_filters/2/type memcg\n0/ops_filters/2/matching Y\n\
         0/ops_filters/2/memcg_path /kept/inner\n0/ops_filters/2/allow Y";
    assert_eq!(filters.join("\n"), expected);

    let root = Root::captured(folder.path());
    let journal = Rc::new(RefCell::new(Journal::open(&root).unwrap().0));
    let setting = Setting { leave: true, ..Setting::new(&root, journal, kept) };
    let mut actuator = ActuatorKind::Quota.build(setting, &kernel("6.12").unwrap());
    let why = actuator.set(&goal(Order::Interleave, None)).unwrap_err().to_string();
    assert!(why.contains("there are some below /kept: move by pages"), "{why}");
}

#[test]
fn names_are_not_protected_in_physical_memory() {
    let protected = [Scope::Named(vec!["server".into()])];
    let ranked = choose(kernel("newest").as_ref(), &Scope::Machine, &protected, Order::Interleave);
    assert_eq!(ranked.available[0].kind, ActuatorKind::Pages);
    let why = ranked.missing.iter().find(|choice| choice.kind == ActuatorKind::Paddr).unwrap();
    assert!(why.reason.ends_with("protect control groups, not names"), "{why}");
}

const BALANCER: &str = "proc/sys/kernel/numa_balancing";

/// With permission, the actuator `pages` switches NUMA balancing off, and restores the setting in
/// every case, even after a panic. Without permission, it reports once that NUMA balancing is on.
#[test]
fn the_balancer_is_switched_off_and_on_again() {
    let folder = machine(&[(BALANCER, "1\n")]);
    let root = live_below(folder.path());
    let now = || fs::read_to_string(folder.path().join(BALANCER)).unwrap().trim().to_string();
    let to_first = Goal { nodes: vec![(0, 1)], ..goal(Order::Interleave, None) };
    let started = |leave| {
        let journal = Rc::new(RefCell::new(Journal::open(&root).unwrap().0));
        let scope = Scope::Processes(vec![]);
        let setting = Setting { leave, ..Setting::new(&root, journal, scope) };
        let mut actuator = ActuatorKind::Pages.build(setting, &Probed::default());
        actuator.set(&to_first).unwrap();
        actuator
    };
    let mut actuator = started(true);
    assert_eq!((now(), actuator.update().unwrap().notes), ("0".into(), vec![]));
    fs::write(folder.path().join(BALANCER), "1\n").unwrap();
    let notes = actuator.update().unwrap().notes;
    assert!(notes[0].contains("another program has switched it on again"), "{notes:?}");
    fs::write(folder.path().join(BALANCER), "0\n").unwrap();
    drop(actuator);
    assert_eq!(now(), "1");

    let mut actuator = started(false);
    let notes = [actuator.update().unwrap().notes, actuator.update().unwrap().notes];
    assert!(notes[0][0].contains("give leave to switch it off"), "{notes:?}");
    assert_eq!((notes[1].len(), now()), (0, "1".into()));
    drop(actuator);

    let panics = || {
        let _actuator = started(true);
        assert_eq!(now(), "1", "it is off, so that this panics");
    };
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(panics)).unwrap_err();
    let names = fs::read_dir(folder.path().join("run/interleaf")).unwrap();
    let names: Vec<_> = names.map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!((now(), names), ("1".into(), vec!["lock".into()]));
}

#[test]
fn the_update_after_a_target_node_loses_its_memory_or_goes_offline_fails() {
    let folder = machine(&[]);
    let root = live_below(folder.path());
    let journal = Rc::new(RefCell::new(Journal::open(&root).unwrap().0));
    let setting = Setting::new(&root, journal, Scope::Processes(vec![]));
    let mut actuator = ActuatorKind::Pages.build(setting, &Probed::default());
    actuator.set(&Goal { nodes: vec![(0, 1)], ..goal(Order::Interleave, None) }).unwrap();
    actuator.update().unwrap();
    let mut error = || actuator.update().unwrap_err().to_string();
    let none = "Node 0 MemTotal: 0 kB\nNode 0 MemFree: 0 kB\n";
    write_file(folder.path(), "sys/devices/system/node/node0/meminfo", none);
    assert_eq!(error(), "node 0 is online, but has no memory any more");
    fs::remove_dir_all(folder.path().join("sys/devices/system/node/node0")).unwrap();
    assert_eq!(error(), "node 0 has gone offline");
}

/// On a machine without NUMA balancing, the actuator `pages` writes no settings.
#[test]
fn pages_write_nothing() {
    let goals = [goal(Order::Interleave, None)];
    let scope = Scope::Processes(vec![42]);
    assert_eq!(
        planned(ActuatorKind::Pages, &Probed::default(), scope, &goals),
        Vec::<String>::new()
    );
}

#[test]
fn settings_that_other_processes_hold_are_refused() {
    let module = ("sys/module/damon_stat/parameters/enabled", "Y\n");
    let thread = [
        ("sys/kernel/mm/damon/admin/kdamonds/0/state", "on\n"),
        ("sys/kernel/mm/damon/admin/kdamonds/0/contexts/0/operations", "paddr\n"),
    ];
    let refused = |files: &[(&str, &str)], leave| {
        let folder = machine(files);
        let root = live_below(folder.path());
        let journal = Rc::new(RefCell::new(Journal::open(&root).unwrap().0));
        let scope = Scope::Processes(vec![42]);
        let setting = Setting { leave, ..Setting::new(&root, journal, scope) };
        let mut actuator = ActuatorKind::Vaddr.build(setting, &kernel("6.17").unwrap());
        let why = actuator.set(&goal(Order::Interleave, None)).unwrap_err();
        for (path, text) in FILES.iter().chain(files) {
            assert_eq!(fs::read_to_string(folder.path().join(path)).unwrap(), *text, "{path}");
        }
        let ActuatorError::Held { holder, hint } = why else { panic!("{why}") };
        (holder, hint)
    };
    let (holder, hint) = refused(&[module], false);
    assert_eq!(holder, "the kernel's damon_stat holds DAMON");
    assert!(hint.contains("leave"), "{hint}");
    // The permission to switch off other users of DAMON covers the kernel's own modules, but no
    // thread of another program.
    let (holder, _) = refused(&thread, true);
    assert_eq!(holder, "another program has set up 1 DAMON thread(s) (on: paddr)");
}

/// Another running process of Interleaf uses DAMON, as its journal shows. The error names this
/// process.
#[test]
fn another_process_of_interleaf_is_named() {
    let count = format!("{ADMIN}nr_kdamonds");
    let folder = machine(&[("sys/kernel/mm/damon/admin/kdamonds/0/state", "on\n")]);
    let root = live_below(folder.path());
    // Process 1 is used because it outlives this test.
    let start = process(&Root::live(), 1).unwrap().unwrap().start_ticks;
    let other = format!(
        "{{\"schema\":\"interleaf.journal/1\",\"pid\":1,\"start_ticks\":{start},\
         \"changes\":[{{\"path\":\"{count}\",\"was\":\"0\",\"set\":\"1\"}}]}}"
    );
    let journals = root.at("/run/interleaf");
    fs::create_dir_all(&journals).unwrap();
    fs::set_permissions(&journals, fs::Permissions::from_mode(0o755)).unwrap();
    let file = journals.join(format!("1-{start}.json"));
    fs::write(&file, other).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
    let journal = Rc::new(RefCell::new(Journal::open(&root).unwrap().0));
    let scope = Scope::Processes(vec![42]);
    let setting = Setting { leave: true, ..Setting::new(&root, journal, scope) };
    let mut actuator = ActuatorKind::Vaddr.build(setting, &kernel("6.17").unwrap());
    let why = actuator.set(&goal(Order::Interleave, None)).unwrap_err().to_string();
    assert_eq!(why, "process 1 of interleaf has DAMON already");
}

#[test]
fn a_goal_without_valid_weights_is_refused() {
    for nodes in [vec![], vec![(0, 0)], vec![(0, 1), (0, 2)]] {
        let goal = Goal { nodes, ..goal(Order::Interleave, None) };
        assert!(goal.shares().is_err(), "{goal:?}");
    }
}

/// Makes a simulated machine whose kernel may refuse to start or commit a context of DAMON. At each
/// attempt, `refuses` gets the folder of the machine, which it may change, and the number of
/// earlier attempts. The kernel refuses if `refuses` returns true, or, as real kernels do, if a
/// target process has exited. The second returned value has the process IDs of the targets of each
/// accepted attempt.
fn kernel_that_refuses(
    folder: &Path,
    refuses: impl Fn(&Path, usize) -> bool + Send + 'static,
) -> (Root, Arc<Mutex<Vec<Vec<u32>>>>) {
    let (files, taken) = (folder.to_path_buf(), Arc::new(Mutex::new(vec![])));
    let (noted, requests) = (taken.clone(), Cell::new(0));
    let answer = move |path: &str, text: &str| {
        write_file(&files, &path[1..], text);
        let file = |path: &str| files.join(&ADMIN[1..]).join(path);
        if path.ends_with("nr_kdamonds") && text == "1" {
            write_file(&files, &format!("{}0/state", &ADMIN[1..]), "off\n");
        }
        if !path.ends_with("0/state") || text == "off" {
            return Ok(());
        }
        let read = |path: &str| fs::read_to_string(file(path)).ok();
        let count = read("0/contexts/0/targets/nr_targets").unwrap().parse().unwrap();
        let target = |at: u32| read(&format!("0/contexts/0/targets/{at}/pid_target"));
        let pids: Vec<u32> =
            (0..count).filter_map(target).map(|pid| pid.parse().unwrap()).collect();
        let is_refused = refuses(&files, requests.replace(requests.get() + 1));
        let is_there = |pid: &u32| files.join(format!("proc/{pid}/stat")).exists();
        if is_refused || !pids.iter().all(is_there) {
            write_file(&files, &path[1..], "off\n");
            return Err(io::ErrorKind::InvalidInput.into());
        }
        noted.lock().unwrap().push(pids);
        write_file(&files, &path[1..], "on\n");
        Ok(())
    };
    (Root::live_simulated(folder, answer), taken)
}

/// Adds a child of process 42 that has 200 MiB.
fn child(folder: &Path, pid: u32) {
    let stat = format!("{pid} (child) R 42 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 9877 0 0");
    write_file(folder, &format!("proc/{pid}/stat"), &stat);
    write_file(folder, &format!("proc/{pid}/statm"), "51300 51200 0 0 0 0 0");
}

fn exit(folder: &Path, pid: u32) {
    fs::remove_dir_all(folder.join(format!("proc/{pid}"))).unwrap();
}

/// After the scan, ten processes exit, one before each attempt to set the thread up. The context
/// then lacks them, and the remaining process is steered.
#[test]
fn processes_that_exit_during_setup_are_dropped() {
    let folder = machine(&[]);
    (100..110).for_each(|pid| child(folder.path(), pid));
    // Before each of the first ten attempts, one process exits.
    let (root, taken) = kernel_that_refuses(folder.path(), |folder, requests| {
        if requests < 10 {
            exit(folder, 100 + requests as u32);
        }
        false
    });
    let journal = Rc::new(RefCell::new(Journal::open(&root).unwrap().0));
    let setting = Setting::new(&root, journal, Scope::Processes(vec![42]));
    let mut actuator = ActuatorKind::Vaddr.build(setting, &kernel("6.17").unwrap());
    actuator.set(&goal(Order::Interleave, None)).unwrap();
    assert_eq!(*taken.lock().unwrap(), [[42]]);
    // A process that exits during a commit is dropped too.
    child(folder.path(), 120);
    assert_eq!(actuator.update().unwrap().joined, Vec::<u32>::new(), "it may exit at once");
    let other = Goal { nodes: vec![(0, 20), (1, 80)], ..goal(Order::Interleave, None) };
    exit(folder.path(), 42);
    let set = actuator.set(&other);
    assert!(set.is_ok(), "nothing is left: {set:?}");
}

#[test]
fn a_context_that_is_refused_for_another_reason_is_an_error() {
    let folder = machine(&[]);
    let (root, _) = kernel_that_refuses(folder.path(), |_, _| true);
    let journal = Rc::new(RefCell::new(Journal::open(&root).unwrap().0));
    let setting = Setting::new(&root, journal, Scope::Processes(vec![42]));
    let mut actuator = ActuatorKind::Vaddr.build(setting, &kernel("6.17").unwrap());
    let why = actuator.set(&goal(Order::Interleave, None)).unwrap_err().to_string();
    assert!(why.contains("\"on\" cannot be written"), "{why}");
}

/// A protected control group is removed just before the first attempt to start DAMON's thread, so
/// the kernel refuses. The actuator tries again without the group, and returns no error.
#[test]
fn a_group_that_is_removed_during_setup_is_left_out() {
    let folder = machine(&GROUPS);
    let (root, taken) = kernel_that_refuses(folder.path(), |folder, requests| {
        if requests == 0 {
            fs::remove_dir_all(folder.join("sys/fs/cgroup/kept/inner")).unwrap();
        }
        requests == 0
    });
    let journal = Rc::new(RefCell::new(Journal::open(&root).unwrap().0));
    let protected = vec![group(folder.path(), "/kept")];
    let setting = Setting { protected, ..Setting::new(&root, journal, Scope::Machine) };
    let mut actuator = ActuatorKind::Paddr.build(setting, &kernel("newest").unwrap());
    actuator.set(&goal(Order::Interleave, None)).unwrap();
    assert_eq!(taken.lock().unwrap().len(), 1);
    let filters = format!("{}0/contexts/0/schemes/0/ops_filters/nr_filters", &ADMIN[1..]);
    assert_eq!(fs::read_to_string(folder.path().join(filters)).unwrap(), "2", "anon and /kept");
}

/// The steered control group is removed while it is steered. Then no scheme may match a page:
/// without a filter for the group, a scheme would migrate the pages of all programs.
#[test]
fn nothing_is_moved_when_the_steered_group_is_removed() {
    for release in ["6.12", "6.17", "newest"] {
        let folder = machine(&GROUPS);
        let kept = folder.path().join("sys/fs/cgroup/kept");
        fs::remove_dir_all(kept.join("inner")).unwrap();
        let full = "Node 0 MemTotal: 524288 kB\nNode 0 MemFree: 1024 kB\n";
        write_file(folder.path(), "sys/devices/system/node/node0/meminfo", full);
        let root = Root::captured(folder.path());
        let journal = Rc::new(RefCell::new(Journal::open(&root).unwrap().0));
        let scope = group(folder.path(), "/kept");
        let setting = Setting { leave: true, ..Setting::new(&root, journal, scope) };
        let mut actuator = ActuatorKind::Quota.build(setting, &kernel(release).unwrap());
        actuator.set(&goal(Order::Interleave, None)).unwrap();
        let least = |scheme: u32| {
            let end = format!("/schemes/{scheme}/access_pattern/nr_accesses/min");
            root.noted().into_iter().rfind(|write| write.path.ends_with(&end)).unwrap().text
        };
        assert!([0, 1].map(least).iter().all(|it| *it != u32::MAX.to_string()), "{release}");
        fs::remove_dir_all(&kept).unwrap();
        actuator.update().unwrap();
        assert_eq!([0, 1].map(least), [(); 2].map(|()| u32::MAX.to_string()), "{release}");
    }
}

/// For several scopes by name, one scan reads each process in `/proc` once.
#[test]
fn proc_is_read_once_per_scan() {
    let count = 300;
    let folder = machine(&[GROUPS[0]]);
    for pid in 1000..1000 + count {
        child(folder.path(), pid);
    }
    let stat = "42 (sweep) R 1 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 9876 0 0";
    write_file(folder.path(), "proc/42/stat", stat);
    let root = Root::captured(folder.path());
    let named = |name: &str| Scope::Named(vec![name.into()]);
    let journal = Rc::new(RefCell::new(Journal::open(&root).unwrap().0));
    let protected = vec![named("nobody"), named("other")];
    let scope = named("child");
    let setting = Setting { protected, ..Setting::new(&root, journal, scope) };
    let before = root.reads();
    assert_eq!(setting.processes().unwrap().len(), count as usize);
    // The scan reads the folder `/proc`, and `stat` of processes 1, 42, 43 and of each child.
    assert_eq!(root.reads() - before, u64::from(count) + 4);
}

/// If the stop flag is set before a goal is set, the scan of `/proc` ends after a few reads, and no
/// setting is written.
#[test]
fn a_scan_is_stopped_early() {
    let folder = machine(&[GROUPS[0]]);
    (1000..1300).for_each(|pid| child(folder.path(), pid));
    let root = Root::captured(folder.path());
    let journal = Rc::new(RefCell::new(Journal::open(&root).unwrap().0));
    let setting = Setting::new(&root, journal, Scope::Named(vec!["child".into()]));
    let stop = setting.stop.clone();
    let mut actuator = ActuatorKind::Vaddr.build(setting, &kernel("6.17").unwrap());
    stop.set();
    let before = root.reads();
    let why = actuator.set(&goal(Order::Interleave, None)).unwrap_err();
    assert!(matches!(why, ActuatorError::Stopped), "{why}");
    assert!(root.reads() - before < 10, "{}", root.reads() - before);
    assert_eq!(root.noted(), []);
}
