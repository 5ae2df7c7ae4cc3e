//! Tests counter plans for captured machines (copies of the files of machines) against golden files
//! and values computed by hand, and tests energy meters.
//!
//! `PLANS=overwrite cargo test -p interleaf-observe --test counters` overwrites the golden files.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use interleaf_linux::{machine::topology::Machine, root::Root};
use interleaf_observe::{
    counters::{
        Plan, PlanError, Planned, plan, plan_with_slots,
        pmu::pmus,
        rough_layout,
        table::{Quantity, tables},
    },
    rapl::Meter,
};
use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

const XEON: &str = "xeon6-two-sockets-cxl";
const EPYC: &str = "epyc-cxl";

fn captured(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/machines").join(name)
}

fn planned(folder: &Path) -> Result<Plan, PlanError> {
    let root = Root::captured(folder);
    let machine = Machine::read(&root).unwrap();
    plan(&root, &machine, &rough_layout(&machine))
}

/// Copies the files of a captured machine to a temporary folder, where a test can modify them.
fn copy(name: &str) -> tempfile::TempDir {
    fn all(from: &Path, to: &Path) {
        fs::create_dir_all(to).unwrap();
        for entry in fs::read_dir(from).unwrap() {
            let entry = entry.unwrap();
            let target = to.join(entry.file_name());
            match entry.path().is_dir() {
                true => all(&entry.path(), &target),
                false => drop(fs::copy(entry.path(), target).unwrap()),
            }
        }
    }
    let folder = tempfile::tempdir().unwrap();
    all(&captured(name), folder.path());
    folder
}

fn devices(folder: &Path) -> PathBuf {
    folder.join("sys/bus/event_source/devices")
}

#[test]
fn goldens() {
    for name in [XEON, EPYC] {
        let plan = planned(&captured(name)).unwrap();
        let mut text = format!("{}\n", plan.tables.join(", "));
        plan.notes.iter().for_each(|note| text += &format!("note: {note}\n"));
        plan.missing.iter().for_each(|missing| text += &format!("missing: {missing}\n"));
        plan.events.iter().for_each(|event| text += &format!("{event}\n"));
        let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/plans/{name}.txt"));
        if std::env::var("PLANS").is_ok_and(|what| what == "overwrite") {
            fs::write(&golden, &text).unwrap();
        }
        let expected = fs::read_to_string(&golden).unwrap();
        assert!(text == expected, "{name} has another plan than {}:\n{text}", golden.display());
    }
}

fn of<'a>(plan: &'a Plan, pmu: &'a str, cpu: u32) -> impl Iterator<Item = &'a Planned> {
    plan.events.iter().filter(move |event| event.pmu == pmu && event.cpu == cpu)
}

/// The plan must have events of both sub-channels of a channel of Granite Rapids. The kernel's
/// `cas_count_read` counted only the first sub-channel until a fix of 2026.
#[test]
fn no_half_of_granite_rapids() {
    let plan = planned(&captured(XEON)).unwrap();
    for unit in 0..12 {
        for (cpu, domain) in [(0, 0), (96, 1)] {
            let pmu = format!("uncore_imc_{unit}");
            let words: Vec<(u64, Quantity)> =
                of(&plan, &pmu, cpu).map(|event| (event.config[0], event.quantity)).collect();
            let expected = [
                (0xcf05, Quantity::Read),
                (0xf005, Quantity::Written),
                (0xcf06, Quantity::Read),
                (0xf006, Quantity::Written),
            ];
            assert_eq!(words, expected, "{pmu} on CPU {cpu}");
            let target = |event: &Planned| (event.domain, event.tier, event.scale);
            assert!(of(&plan, &pmu, cpu).all(|event| target(event) == (domain, Some(0), 64.0)));
        }
    }
}

/// The configuration words of the planned events equal the words that were computed by hand from
/// Linux's formats.
#[test]
fn words_by_hand() {
    let xeon = planned(&captured(XEON)).unwrap();
    let words = |plan: &Plan, pmu: &str| -> Vec<u64> {
        of(plan, pmu, 0).map(|event| event.config[0]).collect()
    };
    assert_eq!(words(&xeon, "uncore_cha_0"), [0x01, 0x00c8_1686_0000_0136, 0x00c8_1686_0000_0135]);
    assert_eq!(words(&xeon, "uncore_cha_1"), [0x01, 0x10c8_1782_0000_0136, 0x10c8_1782_0000_0135]);
    assert_eq!(words(&xeon, "uncore_cxlcm_0"), [0x1041]);
    assert_eq!(words(&xeon, "uncore_cxldp_3"), [0x2002]);
    assert_eq!(words(&xeon, "uncore_upi_0"), [0x0f02]);
    let epyc = planned(&captured(EPYC)).unwrap();
    assert_eq!(words(&epyc, "amd_umc_11"), [0x010a, 0x020a]);
    // Fields of `amd_l3`: enallslices is bit 46 and enallcores is bit 47. The fields sliceid, which
    // begins at bit 48, and threadmask, which begins at bit 56, must have the value 3.
    let all = 0x0303_c000_0000_0000;
    let expected = [all | 0x01ac, all | 0x01ad, all | 0x10ac, all | 0x10ad];
    assert_eq!(words(&epyc, "amd_l3"), expected);
    assert_eq!(words(&epyc, "amd_df")[0], 0x0000_000d_0f00_3e5f);
    assert!(epyc.missing.iter().any(|what| what == "socket 0 to node 1: bytes"));
}

/// Each home agent must count the occupancy of only one tier, and the home agents together must
/// count both tiers on both sockets.
#[test]
fn home_agents_take_turns() {
    let plan = planned(&captured(XEON)).unwrap();
    let occupancy: Vec<&Planned> =
        plan.events.iter().filter(|e| e.quantity == Quantity::OccupancyCycles).collect();
    let units: BTreeSet<(&str, u32)> =
        occupancy.iter().map(|event| (event.pmu.as_str(), event.cpu)).collect();
    assert_eq!(units.len(), occupancy.len(), "each at most once on a unit");
    let cells: BTreeSet<(usize, Option<usize>)> =
        occupancy.iter().map(|event| (event.domain, event.tier)).collect();
    assert_eq!(
        cells.into_iter().collect::<Vec<_>>(),
        [(0, Some(0)), (0, Some(1)), (1, Some(0)), (1, Some(1))]
    );
    assert!(occupancy.iter().all(|event| event.scale == 2.0), "one of two agents stands for both");
}

/// Every field of every row of a table must exist in the format of the machine's PMU, and must have
/// enough bits for the value.
#[test]
fn rows_fit_the_formats() {
    for (name, table) in [(XEON, "Intel Granite Rapids"), (EPYC, "AMD Zen 5")] {
        let root = Root::captured(captured(name));
        let table = tables().into_iter().find(|found| found.name == table).unwrap();
        for event in &table.events {
            let units = pmus(&root, &event.pmu).unwrap();
            assert!(!units.is_empty(), "{name} has no {}", event.pmu);
            for unit in units {
                unit.compose(&event.values()).unwrap_or_else(|why| panic!("{}: {why}", event.name));
            }
        }
    }
}

#[test]
fn slots_are_counted_where_asked_for() {
    let root = Root::captured(captured(XEON));
    let machine = Machine::read(&root).unwrap();
    let plan = plan_with_slots(&root, &machine, &rough_layout(&machine)).unwrap();
    let slots: Vec<(u32, u64)> =
        plan.events.iter().filter(|e| e.pmu == "cpu").map(|e| (e.cpu, e.config[0])).collect();
    assert_eq!(slots, [(0, 0x400), (0, 0x8700), (96, 0x400), (96, 0x8700)]);
}

#[test]
fn an_old_kernel_has_no_room_for_cxl() {
    let machine = copy(XEON);
    for unit in ["uncore_cha_0", "uncore_cha_1"] {
        let path = devices(machine.path()).join(unit).join("format/umask");
        fs::write(path, "config:8-15,32-55\n").unwrap();
    }
    let plan = planned(machine.path()).unwrap();
    let note = "UNC_CHA_TOR_OCCUPANCY.IA_MISS_DRD_CXL_ACC is not counted: uncore_cha_0 has 32 \
                bits for umask, too few for 0x10c8178201";
    assert!(plan.notes.iter().any(|found| found == note), "{:?}", plan.notes);
    assert_eq!(plan.missing, ["socket 0 to nodes 2-3: latency", "socket 1 to nodes 2-3: latency"]);
    assert!(plan.events.iter().any(|e| e.quantity == Quantity::OccupancyCycles), "DRAM's is");
}

#[test]
fn missing_units_are_reported_with_alternatives() {
    let machine = copy(XEON);
    fs::remove_dir_all(devices(machine.path())).unwrap();
    let why = planned(machine.path()).unwrap_err();
    let text = "no unit counts the traffic of memory: none that Intel Granite Rapids should have";
    assert_eq!(why.to_string(), text);
    assert!(why.hint().contains("bare metal") && why.hint().contains("feed"));

    let machine = copy(XEON);
    let cpu = "processor\t: 0\nvendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t\t: 255\n";
    fs::write(machine.path().join("proc/cpuinfo"), cpu).unwrap();
    let why = planned(machine.path()).unwrap_err().to_string();
    let text = "the events of this CPU are not known: no model name (GenuineIntel family 6 model \
                255 (0xff))";
    assert_eq!(why, text);

    // On a machine with any CPU, events of a CXL device that has its own counters must be planned.
    let device = devices(machine.path()).join("cxl_pmu_mem0.0");
    fs::create_dir_all(device.join("format")).unwrap();
    let files = [
        ("type", "99"),
        ("cpumask", "96"),
        ("format/mask", "config:0-31"),
        ("format/gid", "config:32-47"),
        ("format/vid", "config:48-63"),
    ];
    files.iter().for_each(|(name, text)| fs::write(device.join(name), text).unwrap());
    let plan = planned(machine.path()).unwrap();
    let words: Vec<(u64, usize, Option<usize>)> =
        plan.events.iter().map(|event| (event.config[0], event.domain, event.tier)).collect();
    assert_eq!(words, [(0x1e98_0025_0000_0001, 1, Some(1)), (0x1e98_0021_0000_0002, 1, Some(1))]);
}

#[test]
fn domains_that_are_no_sockets_are_refused() {
    let root = Root::captured(captured(XEON));
    let machine = Machine::read(&root).unwrap();
    let mut layout = rough_layout(&machine);
    let finer = [layout.domains.clone(), layout.domains.clone()].concat();
    layout.domains = finer;
    let why = plan(&root, &machine, &layout).unwrap_err().to_string();
    assert_eq!(why, "4 domains are to be told apart, and units count for 2 sockets");
    layout.domains.truncate(1);
    let plan = plan(&root, &machine, &layout).unwrap();
    assert!(plan.events.iter().all(|event| event.domain == 0));
}

#[test]
fn energy_is_summed_and_wraps() {
    let folder = tempfile::tempdir().unwrap();
    let zone = |name: &str, kind: &str, energy: &str| {
        let zone = folder.path().join("sys/class/powercap").join(name);
        fs::create_dir_all(&zone).unwrap();
        fs::write(zone.join("name"), kind).unwrap();
        fs::write(zone.join("max_energy_range_uj"), "10000000\n").unwrap();
        fs::write(zone.join("energy_uj"), energy).unwrap();
    };
    let open = || Meter::open(Root::captured(folder.path())).unwrap();
    assert!(open().is_none());
    zone("intel-rapl:0", "package-0\n", "9000000\n");
    zone("intel-rapl:0:0", "dram\n", "1000000\n");
    zone("intel-rapl:0:1", "core\n", "5\n");
    zone("intel-rapl-mmio:0", "package-0\n", "5\n");
    let mut meter = open().unwrap();
    assert_eq!(meter.read().unwrap(), 0.0);
    zone("intel-rapl:0", "package-0\n", "500000\n");
    zone("intel-rapl:0:0", "dram\n", "1250000\n");
    zone("intel-rapl:0:1", "core\n", "900000\n");
    assert_eq!(meter.read().unwrap(), 1.75, "1 J to the range, 0.5 J beyond, 0.25 J of DRAM");
    assert_eq!(meter.read().unwrap(), 0.0);
    assert_eq!(meter.names().collect::<Vec<_>>(), ["package-0", "package-0 dram"]);
    zone("intel-rapl:0:0", "dram\n", "1500000\n");
    assert_eq!(meter.read_each().unwrap(), [Some(0.0), Some(0.25)]);
    zone("intel-rapl:0", "package-0\n", "much\n");
    assert!(meter.read().unwrap_err().to_string().contains("\"much\" is not energy"));
}
