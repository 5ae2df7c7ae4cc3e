//! Tests the output of `interleaf show` and `interleaf doctor` on each kernel.
//!
//! If the kernel or QEMU is missing, a test prints that it was skipped, and passes. With
//! `INTERLEAF_VM=required` in the environment, the test fails instead.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use interleaf_vm::{Series, harness};
use serde_json::Value;

const SHOW: &str = "run interleaf show --json";
const DOCTOR: &str = "run interleaf doctor --json";
const PROBE: &str = "run interleaf doctor --probe --json";

const KDAMONDS: &str = "read /sys/kernel/mm/damon/admin/kdamonds/nr_kdamonds";

/// Returns the output of `show`, `doctor` and `doctor --probe` on a topology; `None` if the kernel
/// or QEMU is missing. Checks that the probe leaves no kdamond behind.
fn documents(series: Series, topology: &str) -> Option<[Value; 3]> {
    let steps = format!("{SHOW}\n{DOCTOR}\n{PROBE}\n{KDAMONDS}\n");
    let change = &harness::with_all_processors;
    let record = harness::guest_record_changed(series, topology, &steps, change)?;
    let document =
        |step: &str| serde_json::from_str(&harness::shown(&record, step).join("\n")).unwrap();
    let kdamonds = record.step(KDAMONDS).unwrap();
    assert!(!kdamonds.succeeded() || kdamonds.output == ["0"], "{record}");
    Some([SHOW, DOCTOR, PROBE].map(document))
}

/// Returns the field `field` of the capability `name` in the output of `doctor`.
fn field<'a>(doctor: &'a Value, name: &str, field: &str) -> &'a str {
    let all = doctor["capabilities"].as_array().unwrap();
    let found = all.iter().find(|capability| capability["name"] == name);
    found.unwrap_or_else(|| panic!("no {name} in {doctor}"))[field].as_str().unwrap()
}

fn status<'a>(doctor: &'a Value, name: &str) -> &'a str {
    field(doctor, name, "status")
}

/// Returns the status and the description of DAMON and of its actions, destinations and goals in
/// the output of `doctor --probe`. Checks that `doctor` without a probe reports the actions,
/// destinations and goals as unknown.
fn damon([_, doctor, probed]: &[Value; 3]) -> [String; 4] {
    let all = ["DAMON", "DAMON actions", "DAMON destinations", "DAMON goals"];
    for name in &all[1..] {
        assert_eq!(status(doctor, name), "unknown", "nobody asked");
    }
    all.map(|name| format!("{}: {}", status(probed, name), field(probed, name, "what")))
}

/// Checks the output for one node of DRAM and one expander: nodes, rated bandwidths and latency,
/// and the weight files that a kernel of this series has. Returns the output, or `None` if the
/// kernel is missing.
fn two_nodes(series: Series, weighted: bool, automatic: bool) -> Option<[Value; 3]> {
    let all = documents(series, "two-nodes-hmat")?;
    let [show, doctor, _] = &all;
    let [dram, cxl] = &show["nodes"].as_array().unwrap()[..] else { panic!("{show}") };
    assert_eq!((&dram["node"], &cxl["node"]), (&0.into(), &1.into()));
    assert_eq!((&dram["cpus"], &cxl["cpus"]), (&"0-1".into(), &"".into()));
    assert_eq!((&dram["near"], &cxl["near"]), (&"0".into(), &"0".into()));
    // The topology has 500 and 200 GiB/s; the output is in GB/s.
    assert_eq!((&dram["read_gbps"], &cxl["read_gbps"]), (&536.871.into(), &214.748.into()));
    assert_eq!(cxl["read_latency_ns"], 250);
    assert_eq!(dram["weight"].is_number(), weighted, "{show}");
    assert_eq!(show["automatic_weights"].is_boolean(), automatic, "{show}");
    let is = |is_present: bool| if is_present { "present" } else { "missing" };
    assert_eq!(status(doctor, "several memory nodes"), "present");
    assert_eq!(status(doctor, "rated bandwidths"), "present");
    assert_eq!(status(doctor, "weighted interleaving"), is(weighted));
    assert_eq!(status(doctor, "automatic weights"), is(automatic));
    assert_eq!(status(doctor, "bandwidth counters"), "missing", "a guest has none");
    Some(all)
}

/// The actions that kernels since 6.12 accept.
const ACTIONS: &str = "present: willneed, cold, pageout, hugepage, nohugepage, lru_prio, \
                       lru_deprio, migrate_hot, migrate_cold, stat";

#[test]
fn on_6_1() {
    two_nodes(Series::Of(6, 1), false, false);
}

#[test]
fn on_6_12() {
    let Some(documents) = two_nodes(Series::Of(6, 12), true, false) else { return };
    assert_eq!(
        damon(&documents),
        [
            "present: operations vaddr, fvaddr, paddr; tells pages by anon, memcg, young, addr, \
             target",
            ACTIONS,
            "missing: schemes have one destination, so that pages of running programs are not \
             interleaved",
            "missing: none for the memory of a node: user_input, some_mem_psi_us",
        ]
    );
}

#[test]
fn on_6_17() {
    let Some(documents) = two_nodes(Series::Of(6, 17), true, true) else { return };
    assert_eq!(
        damon(&documents),
        [
            "present: operations vaddr, fvaddr, paddr; tells pages by addr, target, anon, active, \
             memcg, young, hugepage_size, unmapped; tunes its intervals",
            ACTIONS,
            "present: interleaves the pages of running programs, by weights",
            "present: user_input, some_mem_psi_us, node_mem_used_bp, node_mem_free_bp",
        ]
    );
}

/// On the newest kernel, only the beginnings of the texts are compared, because a later release may
/// support more.
#[test]
fn on_the_newest() {
    let Some(documents) = two_nodes(Series::Newest, true, true) else { return };
    let [damon, actions, destinations, goals] = damon(&documents);
    assert!(damon.starts_with("present: operations vaddr, fvaddr, paddr; "), "{damon}");
    assert!(actions.starts_with("present: "), "{actions}");
    assert!(destinations.starts_with("present: "), "{destinations}");
    for word in ["node_mem_used_bp", "node_eligible_mem_bp", "reached by consist or temporal"] {
        assert!(goals.starts_with("present: ") && goals.contains(word), "{goals}");
    }
}

#[test]
fn three_tiers_are_in_order() {
    let Some([show, ..]) = documents(Series::Of(6, 17), "three-tiers") else { return };
    let tiers: Vec<u64> = show["nodes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|node| node["memory_tier"].as_u64().unwrap())
        .collect();
    assert_eq!(tiers.len(), 3, "{show}");
    assert!(tiers.is_sorted() && tiers[0] < tiers[2], "{tiers:?}");
}

#[test]
fn one_node_has_nothing_to_interleave() {
    let Some([show, doctor, _]) = documents(Series::Of(6, 12), "one-node") else { return };
    assert_eq!(show["nodes"].as_array().unwrap().len(), 1);
    assert_eq!(status(&doctor, "several memory nodes"), "missing");
    assert_eq!(status(&doctor, "no other mover of pages"), "present");
}
