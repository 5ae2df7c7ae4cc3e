//! `interleaf extend -- qemu-system-x86_64 ...` extends the memory of a virtual machine: an
//! unmodified guest uses more memory than the budget.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "extend/common.rs"]
mod common;

use interleaf_vm::{
    Series,
    harness::{guest_record_changed, step},
};
use serde_json::Value;
use std::{ffi::OsString, fs};

/// The DRAM budget, MiB: a quarter of the guest's memory.
const DRAM_MIB: u64 = 128;
/// The memory that the guest's program touches, MiB. The guest's kernel uses memory in addition.
const TOUCHED_MIB: u64 = 208;

#[test]
fn a_machine_has_four_times_the_memory_that_there_is() {
    let steps = format!(
        "start sweep touch {TOUCHED_MIB}MiB --check\nawait sweep touched\n\
         kill sweep TERM\nwait sweep"
    );
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let stats = folder.path().join("stats.json");
    let store = folder.path().join("store");
    fs::create_dir(&store).unwrap();
    let record = guest_record_changed(Series::Of(6, 12), "one-node", &steps, &|boot| {
        let mut words: Vec<OsString> = vec!["env".into(), common::preload()];
        words.push(env!("CARGO_BIN_EXE_interleaf").into());
        let dram = format!("{DRAM_MIB}MiB");
        words.extend(["extend", "--dram", &dram, "--store"].map(OsString::from));
        words.push(store.clone().into());
        words.push("--stats".into());
        words.push(stats.clone().into());
        words.push("--".into());
        boot.under = words;
    });
    let Some(record) = record else { return };
    let swept = step(&record, "wait sweep");
    let is_intact = swept.output.iter().any(|line| line.starts_with("intact after "));
    assert!(swept.succeeded() && is_intact, "{record}");
    let stats: Value = serde_json::from_str(&fs::read_to_string(&stats).unwrap()).unwrap();
    let count = |name: &str| stats[name].as_u64().unwrap_or_else(|| panic!("{name}: {stats}"));
    assert_eq!((&stats["exit_code"], count("dram_bytes")), (&0.into(), DRAM_MIB << 20));
    assert_eq!(stats["processes"][0]["name"], "qemu-system-x86", "{stats}");
    // The touched memory that exceeds the budget was evicted at least once.
    let beyond = (TOUCHED_MIB - DRAM_MIB) << 20;
    assert!(count("evicted_pages") * 4096 >= beyond && count("written_bytes") >= beyond, "{stats}");
    assert!(count("read_bytes") > 0, "{stats}");
    assert_eq!(fs::read_dir(&store).unwrap().count(), 0, "nothing is left in the store");
}
