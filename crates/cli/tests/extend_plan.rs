//! `interleaf extend --plan`: forecasts from a trace, from statistics and from both, and errors
//! that name the file and the value.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use serde_json::{Value, json};
use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
};

fn plan(files: &[&Path], words: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_interleaf"));
    command.arg("extend");
    files.iter().for_each(|file| {
        command.arg("--plan").arg(file);
    });
    command.args(words).output().unwrap()
}

fn document(files: &[&Path], words: &[&str]) -> Value {
    let output = plan(files, &[words, &["--json"]].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// A sweep over 1024 blocks of 64 KiB.
fn trace(folder: &Path) -> PathBuf {
    let lines: String = (0..1024).map(|block| format!("r {block}\n")).collect();
    let path = folder.join("sweep.trace");
    fs::write(&path, format!("interleaf.trace/1 block_bytes=65536\n{lines}")).unwrap();
    path
}

/// A run with 32 MiB of DRAM: 1 s of work, 4 s of stalls, ten sweeps with half of them read.
fn statistics(folder: &Path) -> PathBuf {
    let path = folder.join("run.json");
    let text = json!({
        "schema": "interleaf.extend/1", "command": ["sweep"], "exit_code": 0, "signal": null,
        "elapsed_s": 5.0, "dram_bytes": 32 << 20, "min_alloc_bytes": 1 << 20, "stores": ["/nvme"],
        "faults": 1000, "soft_faults": 1000, "prefetched_pages": 81920, "prefetch_hits": 81920,
        "prefetch_wasted": 0, "evicted_pages": 81920, "read_bytes": 320 << 20, "written_bytes": 0,
        "stall_s": 4.0, "processes": [],
    });
    fs::write(&path, text.to_string()).unwrap();
    path
}

/// The efficiency on the first drive, with this many eighths of the footprint in DRAM.
fn efficiency(document: &Value, eighths: u64) -> f64 {
    let footprint = document["footprint_bytes"].as_u64().unwrap();
    let rows = document["rows"].as_array().unwrap();
    let row = rows.iter().find(|row| row["dram_bytes"] == footprint / 8 * eighths).unwrap();
    row["efficiency"].as_f64().unwrap()
}

#[test]
fn a_run_and_a_trace_give_the_efficiency_at_other_budgets() {
    let folder = tempfile::tempdir().unwrap();
    let (run, trace) = (statistics(folder.path()), trace(folder.path()));
    let plot = folder.path().join("traffic.svg");
    let words = ["--drive", "p4800x-4", "--plot", plot.to_str().unwrap()];
    // 1 s of work, and 4 s for half of the footprint. A quarter of the footprint causes half of the
    // transfers, each of which takes 1/sqrt(2) of the time.
    for document in [
        document(&[&run, &trace], &words),
        document(&[&run], &["--footprint", "64MiB", "--drive", "p4800x-4"]),
    ] {
        assert_eq!(document["schema"], "interleaf.extend.forecast/1");
        for (eighths, expected) in [(4, 0.2), (6, 1.0 / (1.0 + 2.0 * 0.5_f64.sqrt())), (8, 1.0)] {
            let found = efficiency(&document, eighths);
            assert!((found / expected - 1.0).abs() < 0.02, "{eighths}: {found} and {expected}");
        }
        // An efficiency of 90 % allows 0.11 s of stalls: 4.6 % of the footprint outside DRAM.
        let share = document["enough"][0]["share"].as_f64().unwrap();
        assert!((0.945..=0.965).contains(&share), "{share}");
        // Four Optane drives are faster than the drive of the run, 84 MB/s.
        let enough = document["enough"].as_array().unwrap();
        assert_eq!(enough[1]["drive"], "p4800x-4");
        assert!(enough[1]["dram_bytes"].as_u64() < enough[0]["dram_bytes"].as_u64());
    }
    assert!(fs::read_to_string(plot).unwrap().starts_with("<svg"));
}

#[test]
fn a_trace_alone_gives_traffic_and_the_time_of_the_drive() {
    let folder = tempfile::tempdir().unwrap();
    let document = document(&[&trace(folder.path())], &["--drive", "cxl"]);
    assert!(document["compute_s"].is_null() && document["enough"].as_array().unwrap().is_empty());
    let curve = document["curve"].as_array().unwrap();
    let half = curve.iter().find(|row| row["dram_bytes"] == 32 << 20).unwrap();
    let read = half["read_bytes"].as_f64().unwrap() / f64::from(1 << 20);
    assert!((read - 32.0).abs() < 1.0, "half of a sweep of 64 MiB: {read} MiB");
    assert_eq!(half["lru_miss_ratio"], 1.0, "LRU misses all of a loop");
}

#[test]
fn errors_name_the_file_and_the_value() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        fs::write(&path, text).unwrap();
        path
    };
    let (run, bad) =
        (statistics(folder.path()), file("bad.trace", "interleaf.trace/1 block_bytes=8\n"));
    let other = file("other.json", "{\"schema\": \"interleaf.predict/1\"}");
    let drive = file("drive.toml", "schema = \"interleaf.drive/1\"\n");
    for (path, words, part) in [
        (&run, vec![], "add --footprint SIZE"),
        (&run, vec!["--footprint", "16MiB"], "had a budget of 32 MiB"),
        (&bad, vec![], "bad.trace:1: "),
        (&other, vec![], "no forecast is made of \"interleaf.predict/1\""),
        (&run, vec!["--footprint", "64MiB", "--drive", drive.to_str().unwrap()], "missing field"),
        (&run, vec!["--footprint", "64MiB", "--drive", "optane"], "p4800x-4"),
    ] {
        let output = plan(&[path], &words);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(2) && said.contains(part), "{words:?}: {said}");
    }
}
