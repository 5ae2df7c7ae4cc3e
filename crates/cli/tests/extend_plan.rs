//! Tests of `interleaf extend --plan`: forecasts from a trace, from statistics, and from both.
//! Errors must name the file and the value.

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

/// Writes a trace of one pass over 1024 blocks of 64 KiB. Returns the trace's path.
fn trace(folder: &Path) -> PathBuf {
    let lines: String = (0..1024).map(|block| format!("r {block}\n")).collect();
    let path = folder.join("sweep.trace");
    fs::write(&path, format!("interleaf.trace/1 block_bytes=65536\n{lines}")).unwrap();
    path
}

/// Writes the statistics of a run with 32 MiB of DRAM and a footprint of 64 MiB. Returns the file's
/// path. The run has 1 s of work, 4 s of stalls, and ten passes that each read 32 MiB.
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

/// Returns the efficiency on the first drive with a budget of `eighths` eighths of the footprint.
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
    let counted = folder.path().join("counted.json");
    let text = fs::read_to_string(&run).unwrap();
    fs::write(&counted, text.replacen('{', "{\"footprint_bytes\": 67108864,", 1)).unwrap();
    let plot = folder.path().join("traffic.svg");
    let words = ["--drive", "p4800x-4", "--plot", plot.to_str().unwrap()];
    // The run has 1 s of work and 4 s of stalls. The forecast assumes that an eighth of the budget
    // is free or holds prefetched pages. So 36 MiB of the footprint of 64 MiB do not fit into a
    // budget of 32 MiB, and 22 MiB do not fit into 48 MiB. The number of transfers is proportional
    // to the bytes that do not fit, and the time of a transfer to their square root.
    for document in [
        document(&[&run, &trace], &words),
        document(&[&run], &["--footprint", "64MiB", "--drive", "p4800x-4"]),
        document(&[&counted], &["--drive", "p4800x-4"]),
    ] {
        assert_eq!(document["schema"], "interleaf.extend.forecast/1");
        let transfer_s = 4.0 * (22.0_f64 / 36.0).powf(1.5);
        for (eighths, expected) in [(4, 0.2), (6, 1.0 / (1.0 + transfer_s)), (8, 1.0)] {
            let found = efficiency(&document, eighths);
            assert!((found / expected - 1.0).abs() < 0.02, "{eighths}: {found} and {expected}");
        }
        // An efficiency of 90 % allows 0.11 s of stalls. With a budget just below the footprint,
        // the 8 MiB that do not fit cause 0.4 s of stalls. So only the whole footprint is enough.
        assert_eq!(document["enough"][0]["share"], 1.0);
        // The drive of the run has 84 MB/s. Four Optane drives are faster, so a smaller budget is
        // enough with them.
        let enough = document["enough"].as_array().unwrap();
        assert_eq!(enough[1]["drive"], "p4800x-4");
        assert!(enough[1]["dram_bytes"].as_u64() < enough[0]["dram_bytes"].as_u64());
    }
    assert!(fs::read_to_string(plot).unwrap().starts_with("<svg"));
}

#[test]
fn the_time_in_dram_and_the_efficiency_can_be_given() {
    let folder = tempfile::tempdir().unwrap();
    let run = statistics(folder.path());
    let words = ["--footprint", "64MiB", "--drive", "p4800x-4", "--time-in-dram", "2s"];
    let known = document(&[&run], &[&words[..], &["--efficiency", "67%"]].concat());
    assert_eq!(known["compute_s"], 2.0);
    // The run takes 5 s with half of the footprint in DRAM, and would take 2 s (`--time-in-dram`)
    // with all of it in DRAM: its efficiency is 2 / 5 = 0.4.
    assert!((efficiency(&known, 4) - 0.4).abs() < 0.01, "{known}");
    let enough = known["enough"].as_array().unwrap();
    assert!(enough.iter().all(|row| row["efficiency"] == 0.67), "{known}");
    // At an efficiency of 67 %, the run may take 2 s / 0.67 = 3 s, of which 1 s is left for
    // transfers. In the measured run, with half of the footprint in DRAM, transfers took 3 s.
    let share = enough[0]["share"].as_f64().unwrap();
    assert!((0.70..=0.85).contains(&share), "{share}");
    // The drive of the run was not measured, so the pager's software time is unknown. The budget
    // for another drive is a lower bound then.
    assert!(enough[0]["is_lower_bound"].is_null() && enough[1]["is_lower_bound"] == true);
    let notes = known["notes"].to_string();
    assert!(!notes.contains("is estimated") && !notes.contains("at most this"), "{notes}");
    let longer = plan(&[&run], &["--footprint", "64MiB", "--time-in-dram", "6s"]);
    let told = String::from_utf8_lossy(&longer.stderr);
    assert_eq!(longer.status.code(), Some(2));
    assert!(
        told.contains("--time-in-dram 6 s: the run with a budget of 32 MiB took 5.000 s"),
        "{told}"
    );
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
    let rows = document["rows"].as_array().unwrap();
    assert!(rows.iter().all(|row| row["drive"] == "cxl"), "no run has a drive: {rows:?}");
}

#[test]
fn software_time_and_overlap_are_unknown_without_the_drive_of_the_run() {
    let folder = tempfile::tempdir().unwrap();
    let run = statistics(folder.path());
    let words = ["--footprint", "64MiB", "--drive", "cxl"];
    let document = document(&[&run], &words);
    assert!(document["overhead_us_per_mb"].is_null(), "{document}");
    assert!(document["overlap"].is_null(), "{document}");
    assert_eq!(document["compute_s"], 1.0);
    let text = String::from_utf8(plan(&[&run], &words).stdout).unwrap();
    let unknown = "1.000 s in DRAM; software of the pager and overlap unknown\n";
    assert!(text.contains(unknown), "{text}");
}

#[test]
fn a_trace_that_cannot_be_of_the_run_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let (run, trace) = (statistics(folder.path()), trace(folder.path()));
    let small = folder.path().join("small.trace");
    fs::write(&small, "interleaf.trace/1 block_bytes=131072\nr 0\nr 1\nw 2\n").unwrap();
    let counted = folder.path().join("counted.json");
    let text = fs::read_to_string(&run).unwrap();
    fs::write(&counted, text.replacen('{', "{\"footprint_bytes\": 100663296,", 1)).unwrap();
    let said = |files: &[&Path], words: &[&str]| {
        let output = plan(files, words);
        assert_eq!(output.status.code(), Some(2));
        String::from_utf8(output.stderr).unwrap()
    };
    let both = said(&[&small, &counted], &[]);
    assert!(both.contains("small.trace touches 384 KiB, and the footprint of the run is 96 MiB ("));
    assert!(both.contains("counted.json): from half of the footprint to twice"), "{both}");
    let uncounted = said(&[&small, &run], &[]);
    let fits = "small.trace touches 384 KiB, which fits in the run's budget of 32 MiB";
    assert!(uncounted.contains(fits), "{uncounted}");
    let given = said(&[&trace, &run], &["--footprint", "129MiB"]);
    assert!(given.contains("the footprint of the run is 129 MiB (--footprint)"), "{given}");
    // The trace touches two thirds of the footprint that the pager counted.
    assert!(plan(&[&trace, &counted], &["--drive", "cxl"]).status.success());
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
    let text = fs::read_to_string(&run).unwrap();
    let negative = text.replacen("\"dram_bytes\":33554432", "\"dram_bytes\":-1", 1);
    let negative = file("negative.json", &negative);
    let other = file("other.json", "{\"schema\": \"interleaf.predict/1\"}");
    let drive = file("drive.toml", "schema = \"interleaf.drive/1\"\n");
    for (path, words, part) in [
        (&run, vec![], "add --footprint SIZE"),
        (&run, vec!["--footprint", "16MiB"], "fits in the run's budget of 32 MiB"),
        (&bad, vec![], "bad.trace:1: "),
        (&negative, vec![], ": dram_bytes: invalid value: integer `-1`"),
        (&negative, vec![], "negative.json:1:"),
        (&other, vec![], "no forecast is made of \"interleaf.predict/1\""),
        (&run, vec!["--footprint", "64MiB", "--drive", drive.to_str().unwrap()], "missing field"),
        (&run, vec!["--footprint", "64MiB", "--drive", "optane"], "p4800x-4"),
    ] {
        let output = plan(&[path], &words);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(2) && said.contains(part), "{words:?}: {said}");
    }
}
