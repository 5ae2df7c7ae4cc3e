//! Tests of `interleaf measure app` on this machine. The machine may lack hardware counters, so the
//! bandwidth comes from a recording of counters (`--replay`) or from a socket (`--feed`).
//! `crates/vm/tests/measure_app.rs` tests exact values on several nodes.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use interleaf_linux::launch::command::with_default_signals;
use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::Value;
use std::{
    fs,
    io::{BufRead as _, BufReader, Write as _},
    os::unix::{net::UnixStream, process::CommandExt as _},
    path::Path,
    process::{Command, Output, Stdio},
    thread,
    time::{Duration, Instant},
};

/// Time limit of a wait. (The first interim record is written after 10 s.)
const LONG: Duration = Duration::from_secs(120);

fn interleaf(options: &[&str], words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_interleaf"));
    command.args(["measure", "app"]).args(options).arg("--").args(words);
    with_default_signals(&mut command);
    command
}

fn measure_app(options: &[&str], words: &[&str]) -> Output {
    interleaf(options, words).output().unwrap()
}

/// Runs the command `words` under `interleaf measure app` with `options`, and returns the document.
fn document(options: &[&str], words: &[&str]) -> Value {
    let output = measure_app(&[&["--json"], options].concat(), words);
    serde_json::from_slice(&output.stdout).unwrap_or_else(|why| panic!("{why}: {output:?}"))
}

/// Runs a command under `interleaf measure app` with `options`. Calls `is_enough` repeatedly, and
/// ends the command when it returns true. Returns the document.
fn document_when(options: &[&str], mut is_enough: impl FnMut() -> bool) -> Value {
    // The command `cat` inherits the stdin of `interleaf`, and ends when the test closes this
    // stdin.
    let mut command = interleaf(&[&["--json"], options].concat(), &["cat"]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut tool = command.spawn().unwrap();
    let until = Instant::now() + LONG;
    let mut is_seen = false;
    while !is_seen && tool.try_wait().unwrap().is_none() && Instant::now() < until {
        thread::sleep(Duration::from_millis(20));
        is_seen = is_enough();
    }
    let output = tool.wait_with_output().unwrap();
    assert!(is_seen, "{output:?}");
    serde_json::from_slice(&output.stdout).unwrap_or_else(|why| panic!("{why}: {output:?}"))
}

/// Returns the interim record of a run, or null if there is none yet.
fn interim(record: &Path) -> Value {
    serde_json::from_str(&fs::read_to_string(record).unwrap_or_default()).unwrap_or_default()
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// Returns the number of this machine's memory tiers.
fn tiers() -> usize {
    let app = document(&["--dry-run"], &["true"]);
    app["app"]["tiers"].as_array().unwrap().len()
}

/// Writes a recording with one reading per second. `gbps` has the bandwidth of the first tier for
/// each reading, GB/s. The first tier's latency is always 110 ns.
fn recording(path: &Path, gbps: impl IntoIterator<Item = f64>, read_share: f64) {
    let mut text =
        String::from("time_s,domain,tier,read_bytes,written_bytes,inserts,occupancy_ns\n");
    for (at, gbps) in gbps.into_iter().enumerate() {
        let (second, bytes) = (at + 1, gbps * 1e9);
        let (read, written) = (bytes * read_share, bytes * (1.0 - read_share));
        let inserts = bytes / 64.0;
        let occupancy_ns = 110.0 * inserts;
        text += &format!("{second},0,0,{read},{written},{inserts},{occupancy_ns}\n");
        for tier in 1..tiers() {
            text += &format!("{second},0,{tier},0,0,,\n");
        }
    }
    fs::write(path, text).unwrap();
}

#[test]
fn output_and_exit_status_of_the_command_are_passed_on() {
    let output = measure_app(&[], &["sh", "-c", "echo out; echo err >&2; exit 42"]);
    assert_eq!(output.status.code(), Some(42));
    assert_eq!(String::from_utf8(output.stdout.clone()).unwrap(), "out\n");
    let message = stderr(&output);
    for expected in ["err\n", "exit status 42", "bandwidth ", "top-down ", "memory "] {
        assert!(message.contains(expected), "{message}");
    }
    let quiet = measure_app(&["-q"], &["sh", "-c", "kill -9 $$"]);
    assert_eq!((quiet.status.code(), stderr(&quiet)), (Some(128 + 9), String::new()));
    let json = measure_app(&["--json"], &["sh", "-c", "echo out; exit 3"]);
    assert_eq!((json.status.code(), stderr(&json).contains("out\n")), (Some(3), true));
    let document: Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!(document["schema"], "interleaf.measure/1");
    assert_eq!(
        (&document["app"]["kind"], &document["app"]["exit_code"]),
        (&"app".into(), &3.into())
    );
    assert_eq!(document["points"], Value::Array(vec![]));
}

#[test]
fn every_quantity_has_a_value_or_a_reason() {
    let app = &document(&[], &["sleep", "0.3"])["app"];
    let names: Vec<&str> = app["quantities"]
        .as_array()
        .unwrap()
        .iter()
        .map(|quantity| {
            let is_available = quantity["is_available"].as_bool().unwrap();
            assert!(is_available || quantity["remedy"].is_string(), "{quantity}");
            assert!(quantity["what"].as_str().unwrap().len() > 10, "{quantity}");
            quantity["name"].as_str().unwrap()
        })
        .collect();
    let expected = [
        "bandwidth",
        "latency",
        "top-down",
        "energy",
        "placement",
        "storage I/O",
        "memory and CPU time",
    ];
    assert_eq!(names, expected);
    // The document has null, and not 0, for a quantity that was not counted.
    let bandwidth = app["quantities"][0]["is_available"].as_bool().unwrap();
    assert_eq!(app["whole"]["bandwidth_gbps"].is_null(), !bandwidth);
}

/// The command is a shell that starts a second shell, which computes and ends. The test asserts
/// that the CPU time of the second shell counts for the command: the sample after the end of the
/// command includes it.
#[test]
fn resources_of_children_count_for_the_command() {
    let busy = "(sh -c 'i=0; while [ $i -lt 400000 ]; do i=$((i+1)); done'); exit 0";
    let app = &document(&["--every", "10s"], &["sh", "-c", busy])["app"];
    let cpu_s = app["whole"]["cpu_s"].as_f64().unwrap();
    let runtime_s = app["runtime_s"].as_f64().unwrap();
    assert!(cpu_s > 0.05 && cpu_s < runtime_s * 2.0, "{cpu_s} of {runtime_s}");
    let idle = &document(&[], &["sleep", "0.3"])["app"];
    assert!(idle["whole"]["cpu_s"].as_f64().unwrap() < 0.1, "{idle}");
    assert!(idle["runtime_s"].as_f64().unwrap() >= 0.3);
}

#[test]
fn memory_and_storage_are_those_of_the_command() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let file = folder.path().join("data");
    let written = format!("of={}", file.display());
    let dd = ["dd", "if=/dev/zero", &written, "bs=64M", "count=1", "conv=fsync", "status=none"];
    let app = &document(&["--every", "10ms"], &dd)["app"];
    let most = app["whole"]["resident_max_bytes"].as_u64().unwrap();
    assert!((64 << 20..96 << 20).contains(&most), "dd has its block in memory: {most}");
    let file_system = Command::new("stat").args(["-f", "-c", "%T"]).arg(folder.path()).output();
    let kind = String::from_utf8(file_system.unwrap().stdout).unwrap();
    let written = app["whole"]["storage_written_bytes"].as_u64().unwrap();
    match kind.trim() {
        // Do not check the written bytes: these file systems have no storage of their own.
        "tmpfs" | "ramfs" | "overlayfs" => {}
        _ => assert!((64 << 20..65 << 20).contains(&written), "{written} on {kind}"),
    }
    let placed: u64 = app["whole"]["tiers"]
        .as_array()
        .unwrap()
        .iter()
        .map(|tier| tier["resident_bytes"].as_u64().unwrap_or(0))
        .sum();
    assert!(placed <= most, "{placed} of {most}");
}

#[test]
fn bandwidth_and_read_share_come_out_as_recorded() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("recording.csv");
    let steps = (0..20).map(|at| if at < 15 { 40.0 } else { 8.0 });
    recording(&path, steps, 0.8);
    let file = path.to_str().unwrap();
    let demand = folder.path().join("demand.toml");
    let record = folder.path().join("run.json");
    let options = [
        "--every",
        "100ms",
        "--replay",
        file,
        "--name",
        "mine",
        "--threads",
        "12",
        "--demand",
        demand.to_str().unwrap(),
        "-o",
        record.to_str().unwrap(),
    ];
    // The command runs until all readings have been replayed.
    let are_replayed = || interim(&record)["app"]["whole"]["counted_s"] == 20.0;
    let app = &document_when(&options, are_replayed)["app"];
    let whole = &app["whole"];
    assert_eq!(
        (whole["bandwidth_gbps"].as_f64(), whole["counted_s"].as_f64()),
        (Some(32.0), Some(20.0))
    );
    assert_eq!(
        (whole["read_share"].as_f64(), whole["bandwidth_max_gbps"].as_f64()),
        (Some(0.8), Some(40.0))
    );
    assert_eq!(whole["tiers"][0]["latency_ns"].as_f64(), Some(110.0));
    let phases = app["phases"].as_array().unwrap();
    let phase = |at: usize, field: &str| phases[at][field].as_f64().unwrap();
    assert_eq!((phases.len(), phase(0, "to_s"), phase(1, "share_of_time")), (2, 15.0, 0.25));
    assert!(app["warnings"][0].as_str().unwrap().contains("the recording is at its end"));

    let text = fs::read_to_string(&demand).unwrap();
    for line in ["name = \"mine\"", "read_share = 0.8 ", "threads = 12", "bandwidth_gbps = 32.0"] {
        assert!(text.contains(line), "{line}: {text}");
    }
    let shares = [
        "share_of_time = 0.75\nbandwidth_gbps = 40.0",
        "share_of_time = 0.25\nbandwidth_gbps = 8.0",
    ];
    assert!(shares.iter().all(|phase| text.contains(phase)), "{text}");
    let mut predict = Command::new(env!("CARGO_BIN_EXE_interleaf"));
    predict.args(["predict", "--platform", "xeon6-cz122", "--weights", "3:1", "--json"]);
    let output = predict.arg("--demand").arg(&demand).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    let prediction: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&prediction["workload"], &prediction["threads"]), (&"mine".into(), &12.0.into()));
    assert!(prediction["rows"][0]["runtime_s"].as_f64().unwrap() > 0.0);

    reports_are_made(&record);
}

/// `predict` assumes a single thread for the demand of a program with one thread, and not a thread
/// per core. A second tier does not make this program faster.
#[test]
fn a_program_of_one_thread_gains_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let demand = folder.path().join("one.toml");
    let file = ["-q", "--demand", demand.to_str().unwrap()];
    let count = "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done";
    let document = document(&file, &["sh", "-c", count]);
    assert_eq!(document["app"]["exit_code"], 0, "{document}");
    let written = fs::read_to_string(&demand).unwrap();
    assert!(written.contains("\nthreads = 1\n"), "{written}");
    // With or without a bandwidth from counters, the demand is far below the maximum bandwidth of
    // the tier.
    for bandwidth in ["", "bandwidth_gbps = 8.0\n", "bandwidth_gbps = 20.0\n"] {
        let head = "name = \"one\"\nmix = { read_share = 0.75, read_share_range = [0.5, 1.0] }\n";
        let run = "[[local]]\nthreads = 1\nruntime_s = 4.3\n";
        fs::write(&demand, format!("{head}{run}{bandwidth}")).unwrap();
        for platform in ["xeon6-cz122", "gnr120-cz122"] {
            let mut predict = Command::new(env!("CARGO_BIN_EXE_interleaf"));
            predict.args(["predict", "--platform", platform, "--weights", "1:0,2:1,9:5", "--json"]);
            let output = predict.arg("--demand").arg(&demand).output().unwrap();
            assert!(output.status.success(), "{}", stderr(&output));
            let prediction: Value = serde_json::from_slice(&output.stdout).unwrap();
            assert_eq!(prediction["threads"], 1.0, "{platform}");
            let best = &prediction["best"];
            assert_eq!((&best["weights"], &best["speedup"]), (&[1, 0].into(), &1.0.into()));
            let others = prediction["rows"].as_array().unwrap().iter().skip(1);
            for row in others {
                assert!(row["speedup"].as_f64().unwrap() < 1.0, "{platform}: {row}");
            }
        }
    }
}

/// Renders a record in every format, and checks that the texts have figures of the record.
fn reports_are_made(record: &Path) {
    let report = |format: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_interleaf"));
        let output = command.arg("report").arg(record).args(["--format", format]).output().unwrap();
        assert!(output.status.success(), "{format}: {}", stderr(&output));
        String::from_utf8(output.stdout).unwrap()
    };
    let page = report("html");
    assert!(page.contains("32.00 GB/s") && page.contains("-bandwidth"), "no figure");
    let markdown = report("markdown");
    assert!(markdown.contains("80.0 % of the bytes read"), "{markdown}");
    let csv = report("csv");
    assert!(csv.lines().next().unwrap().contains(" read_gbps,"), "{csv}");
    assert!(csv.lines().nth(1).unwrap().contains(",32,8,110,"), "{csv}");
    assert!(report("svg").contains("<svg"));
}

/// Counts the readings of a recording that have a number of read bytes.
fn readings_with_bytes(recording: &Path) -> usize {
    let text = fs::read_to_string(recording).unwrap_or_default();
    let bytes = text.lines().filter_map(|line| line.split(',').nth(3)?.parse::<f64>().ok());
    bytes.count()
}

/// The recording of one run can replace the counters in another run.
#[test]
fn a_recording_of_a_run_can_be_replayed() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("feed.sock");
    let recorded = folder.path().join("recorded.csv");
    let options = [
        "--every",
        "100ms",
        "--feed",
        socket.to_str().unwrap(),
        "--record",
        recorded.to_str().unwrap(),
    ];
    let line = r#"{"domain":0,"tier":0,"read_bytes":3e8,"written_bytes":1e8}"#;
    let mut feed = None;
    // Wait for three readings with bytes: the first one may be from before the command's start.
    let fed = document_when(&options, || {
        if feed.is_none() {
            feed = UnixStream::connect(&socket).ok();
        }
        if let Some(feed) = &mut feed {
            // The write fails if `interleaf` has closed the socket at the end of the run. Ignore
            // the error, because the run is over then.
            let _ = writeln!(feed, "{line}");
        }
        readings_with_bytes(&recorded) >= 3
    });
    let whole = &fed["app"]["whole"];
    assert_eq!(whole["read_share"].as_f64(), Some(0.75), "{fed}");
    assert!(!socket.exists(), "it is removed");
    // The recording has the reading from before the command's start, which the document of the run
    // does not have.
    let record = folder.path().join("again.json");
    let (file, to) = (recorded.to_str().unwrap(), record.to_str().unwrap());
    let is_replayed = || interim(&record)["app"]["whole"]["read_share"].is_number();
    let again = document_when(&["--every", "100ms", "--replay", file, "-o", to], is_replayed);
    assert_eq!(again["app"]["whole"]["read_share"].as_f64(), Some(0.75));
}

#[test]
fn an_invalid_demand_is_not_written() {
    let folder = tempfile::tempdir().unwrap();
    let demand = folder.path().join("demand.toml");
    let option = ["--demand", demand.to_str().unwrap()];
    let failed = measure_app(&option, &["sh", "-c", "exit 7"]);
    assert!(stderr(&failed).contains("no demand is written: the command failed"));
    assert_eq!(
        (failed.status.code(), demand.exists()),
        (Some(7), false),
        "its status is passed on"
    );
    let well = measure_app(&option, &["sleep", "0.2"]);
    assert_eq!(well.status.code(), Some(0), "{}", stderr(&well));
    let text = fs::read_to_string(&demand).unwrap();
    assert!(text.contains("name = \"sleep\"") && text.contains("threads = 1\n"), "{text}");
}

/// Ctrl-C and other signals are passed on to the command. The record has the samples up to the
/// signal.
#[test]
fn signals_are_passed_on_and_samples_so_far_are_written() {
    let folder = tempfile::tempdir().unwrap();
    for (signal, number) in [("-INT", 2), ("-TERM", 15)] {
        let (record, demand) = (folder.path().join("run.json"), folder.path().join("d.toml"));
        let options = ["-q", "-o", record.to_str().unwrap(), "--demand", demand.to_str().unwrap()];
        let mut command = interleaf(&options, &["sh", "-c", "echo there; exec sleep 60"]);
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        thread::sleep(Duration::from_secs(2));
        let pid = child.id().to_string();
        assert!(Command::new("kill").args([signal, &pid]).status().unwrap().success());
        assert_eq!(child.wait().unwrap().code(), Some(128 + number));
        let document: Value = serde_json::from_str(&fs::read_to_string(&record).unwrap()).unwrap();
        assert_eq!(document["app"]["signal"].as_i64(), Some(number.into()));
        assert!(document["app"]["samples"].as_array().unwrap().len() >= 2);
        assert!(demand.exists(), "a server is ended when enough was seen");
        fs::remove_file(&record).unwrap();
        fs::remove_file(&demand).unwrap();
    }
}

/// Ctrl-C signals the whole process group of a terminal: the command ends by the signal, and
/// `measure app` may learn of this end before it receives the signal itself.
#[test]
fn a_signal_to_the_process_group_ends_the_command_and_the_demand_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let demand = folder.path().join("demand.toml");
    let mut command = interleaf(&["-q", "--demand", demand.to_str().unwrap()], &["sleep", "100"]);
    let mut tool = command.process_group(0).stderr(Stdio::piped()).spawn().unwrap();
    let group = Pid::from_child(&tool);
    let children = format!("/proc/{0}/task/{0}/children", tool.id());
    let is_asleep = || {
        let children = fs::read_to_string(&children).unwrap_or_default();
        children.split_whitespace().any(|child| {
            fs::read_to_string(format!("/proc/{child}/comm")).is_ok_and(|name| name == "sleep\n")
        })
    };
    let until = Instant::now() + LONG;
    while !is_asleep() {
        assert!(tool.try_wait().unwrap().is_none() && Instant::now() < until, "sleep runs");
        thread::sleep(Duration::from_millis(10));
    }
    kill_process_group(group, Signal::INT).unwrap();
    let output = tool.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{output:?}");
    assert!(demand.exists(), "{output:?}");
}
