//! Tests of `interleaf measure` on this machine, with little memory and in little time. The record
//! has the expected content, is complete after each measured point, and can be read by other verbs.
//! No test asserts a speed.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use interleaf_linux::launch::command::with_default_signals;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::{
    fs,
    path::Path,
    process::{Child, Command, Output, Stdio},
    thread,
    time::{Duration, Instant},
};

const SMALL: [&str; 6] = ["--duration", "100ms", "--repeat", "3", "--pages", "small"];

fn interleaf(words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_interleaf")).args(words).output().unwrap()
}

fn stdout_of(words: &[&str]) -> String {
    let output = interleaf(words);
    assert!(output.status.success(), "{words:?}\n{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Runs a small measurement, and returns its document.
fn measured(words: &[&str]) -> Value {
    let words = [&["measure"], words, &SMALL, &["-q", "--json"]].concat();
    serde_json::from_str(&stdout_of(&words)).unwrap()
}

fn read(path: &Path) -> Value {
    serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap()
}

#[test]
fn a_record_has_measurement_machine_and_settings() {
    let document = measured(&["bandwidth", "--mix", "R,W6", "--buffer", "4MB", "--seed", "7"]);
    assert_eq!(document["schema"], "interleaf.measure/1");
    assert_eq!((&document["what"], &document["stopped"]), (&"bandwidth".into(), &"done".into()));
    assert!(document["machine"]["cpus"].as_u64().unwrap() > 0, "{document}");
    assert!(document["machine"]["nodes"][0]["capacity_bytes"].as_u64().unwrap() > 0);
    let settings = &document["settings"];
    assert_eq!((&settings["seed"], &settings["buffer_bytes"]), (&7.into(), &4_000_000.into()));
    let points = document["points"].as_array().unwrap();
    assert_eq!(points.len(), 2, "{document}");
    for (point, mix) in points.iter().zip(["R", "W6"]) {
        assert_eq!((&point["kind"], &point["mix"]), (&"bandwidth".into(), &mix.into()));
        assert!(point["program_gbps"].as_f64().unwrap() > 0.0, "{point}");
        assert_eq!(point["program_gbps"], point["modelled_gbps"], "no line is read to be written");
        assert_eq!((&point["measured_gbps"], &point["weights"]), (&Value::Null, &Value::Null));
        assert_eq!(point["repeats"], 3);
        let quality = point["quality"].as_str().unwrap();
        assert!(quality == "good" || quality.starts_with("noisy: "), "{quality}");
        assert!(point["contamination"]["others_cpus"].as_f64().unwrap() >= 0.0);
    }
}

#[test]
fn both_orders_and_all_sizes_have_a_latency() {
    let document = measured(&["idle", "--chase", "4MB", "--quick"]);
    let of = |kind: &str| {
        let all = document["points"].as_array().unwrap();
        all.iter().filter(|point| point["kind"] == kind).collect::<Vec<_>>()
    };
    let orders: Vec<&Value> = of("idle").iter().map(|point| &point["pattern"]).collect();
    assert_eq!(orders, ["tlb-local", "random"]);
    assert!(of("cache").len() > 10, "{document}");
    assert!(of("idle").iter().all(|point| point["huge_share"] == 0.0), "small ones were asked for");
}

#[test]
fn a_curve_becomes_a_platform_that_predict_takes() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_string();
    let (toml, record) = (at("mine.toml"), at("record.json"));
    let words = ["measure", "loaded", "--chase", "4MB", "--buffer", "4MB", "--delays", "5us,0ns"];
    let files = ["-q", "-o", &record, "--export-curves", &toml];
    let output = interleaf(&[&words[..], &SMALL, &files].concat());
    let cpus = thread::available_parallelism().unwrap().get();
    if cpus < 2 {
        let why = String::from_utf8_lossy(&output.stderr);
        assert!(why.contains("needs two CPUs"), "{why}");
        return;
    }
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let document = read(Path::new(&record));
    let delays: Vec<&Value> =
        document["points"].as_array().unwrap().iter().map(|point| &point["delay_ns"]).collect();
    assert_eq!(delays, [&Value::Null, &5000.0.into(), &0.0.into()]);
    let shown = stdout_of(&["show", "--platform", &toml]);
    assert!(shown.contains("measured"), "{shown}");
    let text =
        stdout_of(&["predict", "--platform", &toml, "--mix", "R", "--weights", "1", "--json"]);
    let predicted: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(predicted["platform"], "mine");
    let bandwidth = predicted["rows"][0]["bandwidth_gbps"].as_f64().unwrap();
    let most = document["points"].as_array().unwrap().iter();
    let most = most.filter_map(|point| point["modelled_gbps"].as_f64()).fold(0.0, f64::max);
    assert!(bandwidth > 0.0 && bandwidth <= 1.01 * most, "{bandwidth} of {most}");
    let measured = predicted["provenance"]["measured"].as_array().unwrap();
    assert!(!measured.is_empty(), "{text}");
}

#[test]
fn a_record_is_reported_and_compared() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_string();
    let record = at("record.json");
    let words =
        ["measure", "bandwidth", "--mix", "R,W5,W10", "--buffer", "4MB", "-q", "-o", &record];
    let table = stdout_of(&[&words[..], &SMALL].concat());
    assert!(table.contains("Bandwidth by mix") && table.contains("W10"), "{table}");
    for (name, has) in [
        ("r.html", "Bandwidth by mix"),
        ("r.md", "| W10"),
        ("r.csv", "program_gbps"),
        ("r.svg", "<svg"),
    ] {
        stdout_of(&["report", &record, "-o", &at(name)]);
        let text = fs::read_to_string(at(name)).unwrap();
        assert!(text.contains(has), "{name}");
    }
    // Give each point the quality, spread and bandwidth of a measurement on an idle machine, so
    // that interference on this machine has no effect.
    let mut first = read(Path::new(&record));
    for point in first["points"].as_array_mut().unwrap() {
        (point["quality"], point["spread"]) = ("good".into(), 0.01.into());
        point["program_gbps"] = 10.0.into();
    }
    fs::write(&record, first.to_string()).unwrap();
    // The record is compared with itself, so no point may be better or worse.
    let same = stdout_of(&["compare", &record, &record, "--same"]);
    assert!(same.contains("better in 0, worse in 0, within noise in 3"), "{same}");
    let mut other = first.clone();
    let twice = 2.0 * other["points"][0]["program_gbps"].as_f64().unwrap();
    other["points"][0]["program_gbps"] = twice.into();
    other["machine"]["kernel"] = "99.9".into();
    fs::write(at("other.json"), other.to_string()).unwrap();
    let output = interleaf(&["compare", &record, &at("other.json"), "--same", "--json"]);
    let text = String::from_utf8_lossy(&output.stdout);
    let compared: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(compared["schema"], "interleaf.compare/1");
    let row = &compared["rows"][0];
    assert!((row["difference"].as_f64().unwrap() - 1.0).abs() < 1e-3, "{row}");
    assert_eq!(compared["differences"][0]["what"], "kernel");
    assert_eq!((&row["beyond_spread"], &row["verdict"]), (&true.into(), &"better".into()));
    assert_eq!(output.status.code(), Some(1), "{text}");
    // A single repetition has no spread. The comparison must then report that the noise is unknown,
    // and not that the difference is within the noise.
    for point in other["points"].as_array_mut().unwrap() {
        (point["repeats"], point["spread"]) = (1.into(), 0.0.into());
    }
    fs::write(at("once.json"), other.to_string()).unwrap();
    let output = interleaf(&["compare", &record, &at("once.json"), "--same"]);
    let (text, why) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(text.contains("within noise in 0, unknown in 3"), "{text}");
    assert_eq!(output.status.code(), Some(2), "{why}");
    assert!(why.contains("hint: measure with --repeat 3"), "{why}");
    let of_compare = at("compared.json");
    interleaf(&["compare", &record, &at("other.json"), "-o", &of_compare]);
    assert!(stdout_of(&["report", &of_compare, "--format", "markdown"]).contains("B against A"));
    other["points"] = Value::Array(vec![]);
    fs::write(at("empty.json"), other.to_string()).unwrap();
    let output = interleaf(&["compare", &record, &at("empty.json")]);
    let why = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(2) && why.contains("no point in common"), "{why}");
}

#[test]
fn a_signal_leaves_a_whole_record() {
    let folder = tempfile::tempdir().unwrap();
    let record = folder.path().join("record.json");
    let mut child = with_default_signals(&mut Command::new(env!("CARGO_BIN_EXE_interleaf")))
        .args(["measure", "bandwidth", "--buffer", "4MB", "--duration", "500ms", "-o"])
        .arg(&record)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let began = Instant::now();
    // Wait for the first record. An empty file exists before: at the start, `interleaf` checks that
    // it can write the file.
    while fs::metadata(&record).map_or(0, |file| file.len()) == 0 {
        assert!(began.elapsed() < Duration::from_secs(60), "nothing is recorded");
        thread::sleep(Duration::from_millis(20));
    }
    // From the first point on, the file has a complete document at any time.
    assert_eq!(read(&record)["stopped"], "running");
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130));
    let document = read(&record);
    assert_eq!(document["stopped"], "signal");
    let points = document["points"].as_array().unwrap().len();
    assert!((1..13).contains(&points), "{points}");
    let left: Vec<_> = fs::read_dir(folder.path()).unwrap().collect();
    assert_eq!(left.len(), 1, "no half of a record is left: {left:?}");
}

#[test]
fn a_signal_stops_a_long_point() {
    let folder = signalled(&["bandwidth"]);
    assert_eq!(read(&folder.path().join("record.json"))["stopped"], "signal");
    // The record has no curve to export, but the exit status is that of the signal.
    if thread::available_parallelism().unwrap().get() > 1 {
        signalled(&["loaded", "--chase", "4MB", "--export-curves", "server.toml"]);
    }
}

/// Runs a measurement, and stops it by a signal during its first point. Returns the folder with the
/// record.
fn signalled(words: &[&str]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let record = folder.path().join("record.json");
    let mut child = with_default_signals(&mut Command::new(env!("CARGO_BIN_EXE_interleaf")))
        .arg("measure")
        .args(words)
        .args(["--buffer", "4MB", "--duration", "1h", "-o"])
        .arg(&record)
        .current_dir(folder.path())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let (pid, began) = (Pid::from_child(&child), Instant::now());
    let mut wait_until = |condition: &mut dyn FnMut(&mut Child) -> bool| {
        while !condition(&mut child) {
            assert!(began.elapsed() < Duration::from_secs(60), "waited for a minute");
            thread::sleep(Duration::from_millis(20));
        }
    };
    // Send SIGINT only after the program has installed its handler, when the measurement starts.
    // SIGINT is bit 1 of `SigCgt`, the mask of handled signals.
    wait_until(&mut |child| {
        let status = fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
        let handled = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap();
        u64::from_str_radix(handled.trim(), 16).unwrap() & 2 != 0
    });
    kill_process(pid, Signal::INT).unwrap();
    let mut status = None;
    wait_until(&mut |child| {
        status = child.try_wait().unwrap();
        status.is_some()
    });
    assert_eq!(status.unwrap().code(), Some(130));
    folder
}

#[test]
fn a_dry_run_measures_nothing_and_prints_the_plan() {
    let machine = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/machines/epyc-cxl");
    let root = machine.to_str().unwrap();
    let words = ["measure", "interleave", "--root", root, "--dry-run", "--weights", "1:0,3:1"];
    let text = stdout_of(&words);
    let node = "/sys/kernel/mm/mempolicy/weighted_interleave/node0";
    assert!(text.contains("bandwidth of R, W2, W5, W10 under 3:1"), "{text}");
    assert!(text.contains(&format!("{node}: 1 -> 3")), "{text}");
    let document: Value =
        serde_json::from_str(&stdout_of(&[&words[..], &["--json"]].concat())).unwrap();
    assert_eq!(document["stopped"], "dry run");
    assert_eq!(document["points"].as_array().unwrap().len(), 0);
    assert_eq!(document["kernel_settings"][0]["path"], node);
}

/// `--export-curves server.toml` writes the curves to server.csv, or on several nodes to
/// server-node0.csv and so on. A command with another output in one of these files is rejected.
#[test]
fn exported_curves_overwrite_no_other_output() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_string();
    let machine = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/machines/epyc-cxl");
    let words = ["measure", "loaded", "--dry-run", "--root", machine.to_str().unwrap()];
    let export = ["--export-curves", &at("server.toml")];
    for (record, is_refused) in
        [("server.csv", true), ("server-node1.csv", true), ("server-node7.csv", false)]
    {
        let output = interleaf(&[&words[..], &export, &["-o", &at(record)]].concat());
        let why = String::from_utf8_lossy(&output.stderr).into_owned();
        let expected = format!("{record} is written with it");
        assert_eq!(why.contains(&expected), is_refused, "{record}: {why}");
        assert_eq!(output.status.code(), Some(if is_refused { 2 } else { 0 }), "{record}: {why}");
        assert_eq!(Path::new(&at(record)).exists(), !is_refused, "{record}");
    }
}

/// Creates a copy of the machine `epyc-cxl` (CPUs 0 to 127) with other last-level caches. `caches`
/// are pairs of (the CPUs of a cache, its size in KiB).
fn with_caches(caches: &[(&str, u64)]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let machine = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/machines/epyc-cxl");
    copy(&machine, folder.path());
    for (cpus, kib) in caches {
        let first = cpus.split('-').next().unwrap();
        let cache = format!("sys/devices/system/cpu/cpu{first}/cache/index3");
        let cache = folder.path().join(cache);
        fs::create_dir_all(&cache).unwrap();
        let size = format!("{kib}K");
        for (file, text) in
            [("level", "3"), ("type", "Unified"), ("size", &size), ("shared_cpu_list", cpus)]
        {
            fs::write(cache.join(file), format!("{text}\n")).unwrap();
        }
    }
    folder
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let target = to.join(path.file_name().unwrap());
        match path.is_dir() {
            true => copy(&path, &target),
            false => drop(fs::copy(&path, &target).unwrap()),
        }
    }
}

/// By default, the chase and the buffers are at least four times as large as the last-level cache,
/// so that the memory is measured, and not the cache. Only the user can request a smaller size.
#[test]
fn sizes_exceed_large_last_level_caches() {
    const MIB: u64 = 1 << 20;
    let chiplets: Vec<String> =
        (0..12).map(|at| format!("{}-{}", at * 128 / 12, (at + 1) * 128 / 12 - 1)).collect();
    let each = |mib: u64| chiplets.iter().map(|it| (it.as_str(), mib << 10)).collect::<Vec<_>>();
    // Three machines with 128 CPUs: one last-level cache of 504 MiB for all of them, twelve caches
    // of 32 MiB, and twelve of 96 MiB. Each of twelve caches serves 10 or 11 CPUs.
    for (caches, last_level, share_of_one) in [
        (vec![("0-127", 504 << 10)], 504 * MIB, 504 * MIB),
        (each(32), 32 * MIB, 32 * MIB),
        (each(96), 96 * MIB, 96 * MIB),
    ] {
        let machine = with_caches(&caches);
        let root = machine.path().to_str().unwrap();
        let planned = |words: &[&str]| {
            let words = [&["measure"], words, &["--root", root, "--dry-run", "--json"]].concat();
            serde_json::from_str::<Value>(&stdout_of(&words)).unwrap()
        };
        for quick in [&["idle"][..], &["idle", "--quick"], &["--quick"], &["loaded"]] {
            let document = planned(quick);
            let settings = &document["settings"];
            assert_eq!(settings["last_level_bytes"], last_level, "{settings}");
            assert_eq!(settings["last_level_factor"], 4);
            let chase = settings["chase_bytes"].as_u64().unwrap();
            assert!(chase >= 4 * last_level && chase >= 40_000_000, "{settings}");
            assert_eq!(document["notes"], Value::Array(vec![]), "{document}");
        }
        // A single thread can use a whole cache. If all threads run, each of them has a share of a
        // cache.
        let one = planned(&["bandwidth", "--threads", "1", "--quick"]);
        let settings = &one["settings"];
        assert_eq!(settings["last_level_bytes_per_thread"], share_of_one, "{settings}");
        assert!(settings["buffer_bytes"].as_u64().unwrap() >= 4 * share_of_one, "{settings}");
        let all = planned(&["bandwidth", "--quick"]);
        let settings = &all["settings"];
        let each = settings["last_level_bytes_per_thread"].as_u64().unwrap();
        assert!(each < share_of_one && each > 0, "{settings}");
        assert!(settings["buffer_bytes"].as_u64().unwrap() >= 4 * each, "{settings}");
        // A smaller size is used on request, with a warning.
        let forced = planned(&["idle", "--chase", "40MB"]);
        assert_eq!(forced["settings"]["chase_bytes"], 40_000_000);
        let notes = forced["notes"].to_string();
        assert!(notes.contains("--chase 40 MB is less than 4 times the last-level"), "{notes}");
    }
    // If the kernel reports no cache, the pointer chase walks through 200 MB, as in MLC.
    let machine = with_caches(&[]);
    let root = machine.path().to_str().unwrap();
    let words = ["measure", "idle", "--root", root, "--dry-run", "--json"];
    let document: Value = serde_json::from_str(&stdout_of(&words)).unwrap();
    assert_eq!(document["settings"]["chase_bytes"], 200_000_000);
    assert_eq!(document["settings"]["last_level_bytes"], Value::Null);
}

/// A measurement of each captured machine can be planned, or is rejected with a hint.
#[test]
fn every_captured_machine_is_understood() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/machines");
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if !path.is_dir() {
            continue;
        }
        let root = path.to_str().unwrap();
        let output = interleaf(&["measure", "--root", root, "--dry-run", "--json"]);
        let (code, why) = (output.status.code(), String::from_utf8_lossy(&output.stderr));
        assert!(code == Some(0) || code == Some(2) && why.contains("hint: "), "{root}: {why}");
        if code == Some(0) {
            let document: Value = serde_json::from_slice(&output.stdout).unwrap();
            assert!(!document["plan"].as_array().unwrap().is_empty(), "{root}");
            let dimms = &document["machine"]["dimms_unknown"];
            assert!(dimms.is_string(), "a capture has no table of the firmware: {root}");
        }
    }
}

/// `interleaf report` and `compare` read the output of Intel MLC and the curves of the Mess
/// benchmark as records. `report` also writes both formats.
#[test]
fn records_of_other_tools_are_read_and_written() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_string();
    let (text, toml, curves) = (at("mlc.txt"), at("server.toml"), at("memory_curves.csv"));
    let printed = "Measuring Loaded Latencies for the system\nUsing Read-only traffic type\n\
        Inject\tLatency\tBandwidth\nDelay\t(ns)\tMB/sec\n==========================\n \
        00000\t260.93\t225410.2\n 00300\t110.00\t120000.0\n 00500\t95.00\t20000.0\n";
    fs::write(&text, printed).unwrap();
    let exported = interleaf(&["report", &text, "-o", &toml]);
    let note = String::from_utf8_lossy(&exported.stderr).into_owned();
    assert!(exported.status.success() && note.contains("does not have cores"), "{note}");
    let best = stdout_of(&["predict", "--platform", &toml, "--mix", "R", "--json"]);
    let best: Value = serde_json::from_str(&best).unwrap();
    assert_eq!(best["rows"][0]["bandwidth_gbps"], 225.41);
    stdout_of(&["report", &text, "--format", "mess", "-o", &curves]);
    let again = stdout_of(&["report", &curves, "--format", "mlc"]);
    for figures in ["260.93\t 225410.0", "110.00\t 120000.0", " 95.00\t  20000.0"] {
        assert!(again.contains(figures), "{again}");
    }
    assert!(stdout_of(&["report", &text, "--format", "markdown"]).contains("measured by"));
    // With `-o memory_curves.toml`, the curves would go to memory_curves.csv, which is the input.
    let before = fs::read_to_string(&curves).unwrap();
    let refused = interleaf(&["report", &curves, "-o", &at("memory_curves.toml")]);
    let why = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(why.contains("memory_curves.csv is written with it, and this command line"), "{why}");
    assert_eq!(refused.status.code(), Some(2));
    assert_eq!(fs::read_to_string(&curves).unwrap(), before);
    assert!(!Path::new(&at("memory_curves.toml")).exists());
    let compared = stdout_of(&["compare", &text, &curves, "--json"]);
    assert_eq!(
        serde_json::from_str::<Value>(&compared).unwrap()["rows"][0]["beyond_spread"],
        false
    );
    let refused = interleaf(&["report", &text, "--format", "platform"]);
    assert_eq!(refused.status.code(), Some(2));
}

/// The record has two bandwidths: that of the counters, and that of the measuring threads, computed
/// from their loads and stores. In this test the counters are a recording of 410 GB/s.
#[test]
fn bandwidth_of_counters_is_recorded_separately() {
    let folder = tempfile::tempdir().unwrap();
    let recording = folder.path().join("counters.csv");
    let columns = "time_s,domain,tier,read_bytes,written_bytes,inserts,occupancy_ns";
    let mut text = format!("# interleaf.counters/1\n{columns}\n");
    for second in 1..=20 {
        text += &format!("{second},0,0,287000000000,123000000000,,\n");
    }
    fs::write(&recording, text).unwrap();
    let replay = ["--replay", recording.to_str().unwrap()];
    let bandwidth = ["bandwidth", "--mix", "W5", "--buffer", "4MB"];
    let document = measured(&[&bandwidth[..], &replay].concat());
    let point = &document["points"][0];
    assert_eq!(point["measured_gbps"], 410.0, "{point}");
    assert_ne!(point["modelled_gbps"], point["measured_gbps"]);
    let loaded = ["loaded", "--delays", "0ns", "--chase", "4MB", "--buffer", "4MB"];
    let document = measured(&[&loaded[..], &replay].concat());
    let points = document["points"].as_array().unwrap();
    assert!(points.iter().all(|point| point["measured_gbps"] == 410.0), "{document}");
    assert!(document["notes"].to_string().contains("counters.csv"), "{document}");
    let refused = interleaf(&["measure", "bandwidth", "--replay", "no-such-file"]);
    assert_eq!(refused.status.code(), Some(2));
}
