//! Tests issue slots against values calculated by hand, with plans of made-up machines, and with
//! the kernel's software counters of a command.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use super::*;
use std::{fs, path::Path, process::Command};

/// `SOFTWARE` is `PERF_TYPE_SOFTWARE` of perf_event.h; the other two are its software events
/// `task-clock` (ns) and `page-faults`.
const SOFTWARE: u32 = 1;
const TASK_CLOCK: u64 = 1;
const PAGE_FAULTS: u64 = 2;

fn event(quantity: Quantity, config: u64, scale: f64) -> CoreEvent {
    CoreEvent { name: format!("{quantity:?}"), config: [config, 0, 0], quantity, scale }
}

fn counted(groups: &[&[(Quantity, f64, f64)]]) -> CoreSlots {
    let mut counts = CoreCounts::default();
    for group in groups {
        let events: Vec<CoreEvent> =
            group.iter().map(|(quantity, scale, _)| event(*quantity, 0, *scale)).collect();
        let grown = group.iter().map(|(.., count)| *count).collect();
        counts.add(&events, &Grown { enabled_ns: 1000.0, counts: Some(grown) }, 500.0);
    }
    counts.slots()
}

#[test]
fn intel_says_each_kind() {
    use Quantity::{BackendSlots, BadSlots, FrontendSlots, MemorySlots, RetiringSlots, Slots};
    let slots = counted(&[&[
        (Slots, 1.0, 1000.0),
        (RetiringSlots, 1.0, 300.0),
        (BadSlots, 1.0, 50.0),
        (FrontendSlots, 1.0, 100.0),
        (BackendSlots, 1.0, 550.0),
        (MemorySlots, 1.0, 400.0),
    ]]);
    assert_eq!((slots.all, slots.bad_speculation), (Some(1000.0), Some(50.0)));
    assert_eq!((slots.backend, slots.memory), (Some(550.0), Some(400.0)));
    assert_eq!((slots.heavy, slots.contention), (None, None), "not counted is not 0");
    assert_eq!((slots.enabled_ns, slots.running_ns), (1000.0, 500.0));
}

#[test]
fn slots_of_amd_are_derived_from_its_events() {
    use Quantity::{
        BackendSlots, ContentionSlots, DispatchSlots, FilledSlots, FrontendSlots,
        LoadStalledCycles, RetiringSlots, StalledCycles,
    };
    // The core runs for 1000 cycles of 8 slots. 2400 slots are filled, of which 2000 retire, so 400
    // are bad speculation. In 400 of 500 stalled cycles the oldest operation is a load, so 80 % of
    // the 3600 backend-bound slots wait for memory.
    let first: &[(Quantity, f64, f64)] = &[
        (DispatchSlots, 8.0, 1000.0),
        (RetiringSlots, 1.0, 2000.0),
        (FilledSlots, 1.0, 2400.0),
        (FrontendSlots, 1.0, 1600.0),
        (BackendSlots, 1.0, 3600.0),
        (ContentionSlots, 1.0, 400.0),
    ];
    let slots = counted(&[first, &[(StalledCycles, 1.0, 500.0), (LoadStalledCycles, 1.0, 400.0)]]);
    assert_eq!(slots.all, Some(8000.0));
    assert_eq!(slots.bad_speculation, Some(400.0));
    assert_eq!(slots.memory, Some(0.8 * 3600.0));
    let sum = slots.retiring.unwrap()
        + slots.bad_speculation.unwrap()
        + slots.frontend.unwrap()
        + slots.backend.unwrap()
        + slots.contention.unwrap();
    assert_eq!(sum, 8000.0);
    assert_eq!(counted(&[first]).memory, None, "the second group had no counter");
}

#[test]
fn a_sum_is_known_if_both_terms_are() {
    let one = CoreSlots {
        all: Some(10.0),
        memory: Some(4.0),
        enabled_ns: 5.0,
        running_ns: 5.0,
        ..CoreSlots::default()
    };
    let other = CoreSlots { memory: None, ..one };
    assert_eq!((one.plus(other).all, one.plus(other).memory), (Some(20.0), None));
    assert_eq!(one.plus(CoreSlots::default()), one, "no thread ran");
    assert_eq!(CoreSlots::default().plus(one), one);
}

fn written(folder: &Path, path: &str, text: &str) {
    let path = folder.join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

/// Makes the plan for a machine whose `/proc/cpuinfo` is `cpuinfo`. `formats` has the formats of
/// the fields `event` and `umask` of the cores' PMU; if it is `None`, the machine lacks this PMU.
fn planned(cpuinfo: &str, formats: Option<(&str, &str)>) -> Result<TopdownPlan, TopdownError> {
    let folder = tempfile::tempdir().unwrap();
    written(folder.path(), "proc/cpuinfo", cpuinfo);
    if let Some((event, umask)) = formats {
        let pmu = "sys/bus/event_source/devices/cpu";
        written(folder.path(), &format!("{pmu}/type"), "4\n");
        written(folder.path(), &format!("{pmu}/format/event"), event);
        written(folder.path(), &format!("{pmu}/format/umask"), umask);
    }
    plan(&Root::captured(folder.path()))
}

const SPR: &str = "vendor_id : GenuineIntel\ncpu family : 6\nmodel : 143\nstepping : 8\n";
const ICX: &str = "vendor_id : GenuineIntel\ncpu family : 6\nmodel : 106\nstepping : 6\n";
const ZEN5: &str = "vendor_id : AuthenticAMD\ncpu family : 26\nmodel : 2\nstepping : 1\n";
const INTEL: Option<(&str, &str)> = Some(("config:0-7", "config:8-15"));
const AMD: Option<(&str, &str)> = Some(("config:0-7,32-35", "config:8-15"));

#[test]
fn slots_lead_and_both_levels_follow() {
    let plan = planned(SPR, INTEL).unwrap();
    let [group] = &plan.groups[..] else { panic!("{plan:?}") };
    // The expected configurations are those of perf's aliases `slots` and `topdown-*`.
    let mut configs: Vec<u64> = group.iter().map(|event| event.config[0]).collect();
    assert_eq!((configs[0], plan.levels(), plan.kind), (0x400, 2, 4));
    configs.sort_unstable();
    let kinds = [0x400, 0x8000, 0x8100, 0x8200, 0x8300, 0x8400, 0x8500, 0x8600, 0x8700];
    assert_eq!(configs, kinds);
    let plan = planned(ICX, INTEL).unwrap();
    assert_eq!((plan.groups[0].len(), plan.levels()), (5, 1));
}

#[test]
fn amd_takes_turns() {
    let plan = planned(ZEN5, AMD).unwrap();
    let names: Vec<Vec<&str>> = plan
        .groups
        .iter()
        .map(|group| group.iter().map(|event| event.name.as_str()).collect())
        .collect();
    assert_eq!((names[0].len(), names[0][0]), (5, "ls_not_halted_cyc"));
    let turns = [
        "de_no_dispatch_per_slot.smt_contention",
        "ex_no_retire.not_complete",
        "ex_no_retire.load_not_complete",
    ];
    assert_eq!(names[1], turns);
    let frontend = plan.groups[0].iter().find(|event| event.quantity == Quantity::FrontendSlots);
    assert_eq!(frontend.unwrap().config[0], 0x1_0000_01a0);
    assert_eq!(plan.levels(), 2);
}

#[test]
fn a_missing_plan_has_a_reason() {
    let why = planned(SPR, None).unwrap_err();
    assert!(why.to_string().contains("the cores of Intel Sapphire Rapids have no PMU"), "{why}");
    let why = planned("vendor_id : GenuineIntel\ncpu family : 6\nmodel : 85\n", INTEL);
    assert!(matches!(why, Err(TopdownError::UnknownCpu(_))), "{why:?}");
    let sierra_forest = "vendor_id : GenuineIntel\ncpu family : 6\nmodel : 175\n";
    let why = planned(sierra_forest, INTEL).unwrap_err();
    assert!(why.to_string().contains("not known: Intel Sierra Forest"), "{why}");
}

/// In place of the events of the cores' PMU, the test opens the kernel's software clock and page
/// faults. First this process computes; its work must not be counted. Then a shell runs; it must be
/// counted together with its child.
#[test]
fn the_kernel_counts_a_command_alone() {
    let events =
        vec![event(Quantity::Slots, TASK_CLOCK, 1.0), event(Quantity::BadSlots, PAGE_FAULTS, 1.0)];
    let plan = TopdownPlan {
        table: "a test".into(),
        kind: SOFTWARE,
        groups: vec![events.clone(), vec![event(Quantity::MemorySlots, TASK_CLOCK, 0.5)]],
        notes: vec![],
    };
    let mut topdown = match Topdown::open(plan, &Root::live()) {
        Err(why @ OpenError::NotPermitted { .. }) => {
            let message = why.to_string();
            assert!(message.starts_with("this user may not count events of programs"), "{why}");
            return;
        }
        opened => opened.unwrap(),
    };
    let mut busy = 0_u64;
    (0..10_000_000_u64).for_each(|at| busy = std::hint::black_box(busy ^ at));
    assert_eq!(topdown.read().unwrap(), CoreSlots::default(), "nothing of ours");
    // The shell's loop runs in a child of the shell, which must be counted too.
    let script = "(i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done); true";
    assert!(Command::new("sh").args(["-c", script]).status().unwrap().success());
    let slots = topdown.read().unwrap();
    let clock = slots.all.unwrap();
    assert!(clock > 5e6, "{slots:?}");
    assert!(slots.bad_speculation.unwrap() > 50.0, "{slots:?}");
    let ratio = slots.memory.unwrap() / clock;
    assert!((ratio - 0.5).abs() < 0.1, "{slots:?}");
    assert_eq!(topdown.read().unwrap().all, None, "nothing since");
}

/// The kernel refuses the second of three groups: this group must be left out of the plan with a
/// note, and the other groups must keep their events. If the kernel refuses the first group,
/// opening the plan must fail.
#[test]
fn a_refused_group_is_left_out() {
    let group = |quantity| vec![event(quantity, 0, 1.0)];
    let [first, second, third] =
        [Quantity::Slots, Quantity::MemorySlots, Quantity::BadSlots].map(group);
    let mut plan = TopdownPlan {
        table: "a table".into(),
        kind: 4,
        groups: vec![first.clone(), second.clone(), third.clone()],
        notes: vec![],
    };
    let refused =
        |events: &[CoreEvent]| (events[0].clone(), io::Error::from(io::ErrorKind::InvalidInput));
    let open = |kind: u32, events: &[CoreEvent]| match events == second {
        true => Err(refused(events)),
        false => Ok(format!("{} of {kind}", events[0].name)),
    };
    assert_eq!(open_all(&mut plan, open).unwrap(), ["Slots of 4", "BadSlots of 4"]);
    assert_eq!(plan.groups, [first.clone(), third]);
    assert_eq!(plan.notes, ["MemorySlots is refused: invalid input parameter"]);
    let none = |_: u32, events: &[CoreEvent]| Err::<(), _>(refused(events));
    assert_eq!(open_all(&mut plan, none).unwrap_err().0, first[0]);
}
