//! Tests of `interleaf compare --a CONFIG --b CONFIG`: verdicts on commands that print a metric,
//! the kinds of configurations, documents and pages, signals, and the commands in
//! `docs/compare.md`.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use interleaf_linux::{launch::command::with_default_signals, process::table::process, root::Root};
use serde_json::Value;
use std::{
    fs,
    path::Path,
    process::{Command, Output, Stdio},
    time::Duration,
};

/// A shell script that prints a metric: the value of COST, with noise below 1 %. The noise depends
/// on the number of earlier runs, which is in the file COUNT, so it is the same whenever the tests
/// run. Process IDs are not used as noise: their digits may form two groups of values, and then six
/// rounds would not be enough for a verdict.
const PRINTS: &str = "n=$(cat $COUNT); echo $((n + 1)) > $COUNT; echo cost=$COST.$((n * 7 % 10))";

/// The regular expression that finds the metric in the output of [`PRINTS`].
const METRIC: &str = "cost=([0-9.]+)";

fn interleaf(words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_interleaf"));
    command.args(words).stdin(Stdio::null());
    with_default_signals(&mut command);
    command
}

fn compare(options: &[&str], script: &str) -> Output {
    let words = [&["compare", "-q"], options, &["--", "sh", "-c", script]].concat();
    let count = tempfile::NamedTempFile::new().unwrap();
    fs::write(count.path(), "0\n").unwrap();
    interleaf(&words).env("COUNT", count.path()).output().unwrap()
}

fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn document(output: &Output) -> Value {
    let message = String::from_utf8_lossy(&output.stderr);
    serde_json::from_slice(&output.stdout).unwrap_or_else(|why| panic!("{why}: {message}"))
}

#[test]
fn a_difference_is_found_and_stops_the_rounds() {
    let options = ["--a", "env:COST=100", "--b", "env:COST=110", "--metric", METRIC, "--json"];
    let output = compare(&options, PRINTS);
    assert_eq!(output.status.code(), Some(0));
    let found = document(&output);
    assert_eq!(found["schema"], "interleaf.compare.runs/1");
    assert_eq!(found["stopped"], "settled");
    let workload = &found["workloads"][0];
    assert_eq!(workload["runs"].as_array().unwrap().len(), 12, "the first look is after 6 rounds");
    let speedup = &workload["results"][1]["speedup"];
    assert_eq!(speedup["verdict"], "slower");
    assert!((speedup["speedup"].as_f64().unwrap() - 100.0 / 110.0).abs() < 0.01, "{speedup}");
    let run = &workload["runs"][0];
    assert!(run["resident_max_bytes"].is_null(), "the shell has less memory than interleaf: {run}");
    assert!(run["wall_s"].as_f64() > Some(0.0));
    // Now treat the same metric as a rate, of which higher is better. With `--same`, the exit
    // status is 1 if the configurations differ.
    let options = [&options[..6], &["--higher-is-better", "--same"]].concat();
    let output = compare(&options, PRINTS);
    assert_eq!(output.status.code(), Some(1));
    let text = stdout(&output);
    assert!(text.contains("sh: B against A: faster by "), "{text}");
    assert!(text.contains("stopped after 6 rounds: each comparison has an answer"), "{text}");
}

/// The peak memory of commands with 100 MB and with 200 MB is compared. A command with less memory
/// than `interleaf` itself is rejected: the peak that the kernel reports for it may be that of
/// `interleaf`.
#[test]
fn memory_is_compared_where_it_is_known() {
    let options = ["--a", "env:N=100", "--b", "env:N=200", "--quantity", "memory", "--rounds", "3"];
    let options = [&options[..], &["--json"]].concat();
    // `tail -c` holds all bytes in memory before it writes them, so its peak memory is known.
    let keeps = "head -c ${N}000000 /dev/zero | tail -c ${N}000000 > /dev/null";
    let found = document(&compare(&options, keeps));
    let results = &found["workloads"][0]["results"];
    for (at, least) in [(0, 100e6), (1, 200e6)] {
        let peak = results[at]["resident_max_bytes"].as_f64().unwrap();
        assert!((least..1.5 * least).contains(&peak), "{results}");
    }
    let small = compare(&options, "true");
    let said = String::from_utf8_lossy(&small.stderr);
    assert_eq!(small.status.code(), Some(2), "{said}");
    assert!(said.contains("its peak memory is not known"), "{said}");
}

#[test]
fn a_command_does_not_differ_from_itself() {
    let options = ["--a", "env:COST=100", "--b", "env:COST=100,name=again", "--metric", METRIC];
    let output = compare(&[&options[..], &["--same"]].concat(), PRINTS);
    let text = stdout(&output);
    assert_eq!(output.status.code(), Some(0), "{text}");
    assert!(text.contains("sh: again against A: no difference"), "{text}");
}

#[test]
fn configurations_reach_the_command() {
    let script = "grep -q 'THP_enabled:.*1' /proc/self/status && pages=1 || pages=2; \
                  echo cost=$OMP_NUM_THREADS$pages$(nice)";
    let configurations =
        ["--a", "threads=1", "--b", "threads=1,huge-pages=never,wrapper=nice -n 7"];
    let options = ["--rounds", "3", "--warm-up", "0", "--metric", METRIC, "--json"];
    let found = document(&compare(&[&configurations[..], &options].concat(), script));
    let runs = found["workloads"][0]["runs"].as_array().unwrap();
    let value = |configuration: u64| {
        let mut runs = runs.iter().filter(|run| run["configuration"] == configuration);
        runs.next().unwrap()["value"].as_f64().unwrap()
    };
    let nice = Command::new("nice").output().unwrap();
    let nice: u64 = stdout(&nice).trim().parse().unwrap();
    assert_eq!(value(0), format!("11{nice}").parse::<f64>().unwrap());
    assert_eq!(value(1), format!("12{}", (nice + 7).min(19)).parse::<f64>().unwrap());
    assert_eq!(found["configurations"][1]["prefix"][5], "nice", "{found}");
    // Weights for one node need no kernel setting, so they do not need root.
    let placed = ["--a", "plain", "--b", "weights=1,nodes=0", "--rounds", "3"];
    let script = "grep -c interleave:0 /proc/self/numa_maps | sed s/^/cost=1/";
    let found = document(&compare(&[&placed[..], &options[4..]].concat(), script));
    let results = &found["workloads"][0]["results"];
    assert_eq!(results[0]["value"], 10.0, "no policy");
    assert!(results[1]["value"].as_f64() > Some(10.0), "{results}");
}

/// `compare` sets the environment variables of a configuration itself. If a program such as `env`
/// set them, its run time would count for that configuration only.
#[test]
fn variables_are_set_without_another_program() {
    let folder = tempfile::tempdir().unwrap();
    let options = ["--a", "plain", "--b", "env:COST=7,threads=3", "--rounds", "3", "--json"];
    let script = "echo cost=${COST:-1}${OMP_NUM_THREADS:-0}";
    let words = ["--warm-up", "0", "--metric", METRIC, "--", "/bin/sh", "-c", script];
    let mut command = interleaf(&[&["compare", "-q"], &options[..], &words].concat());
    // No program is in the folder that `PATH` names, so `env` could not be started.
    command.env_remove("OMP_NUM_THREADS").env("PATH", folder.path());
    let found = document(&command.output().unwrap());
    let results = &found["workloads"][0]["results"];
    assert_eq!((&results[0]["value"], &results[1]["value"]), (&10.0.into(), &73.0.into()));
    let prefix = &found["configurations"][1]["prefix"];
    assert_eq!((&prefix[0], &prefix[5]), (&"env".into(), &"COST=7".into()), "{prefix}");
}

#[test]
fn workloads_are_compared_by_their_metrics_and_results() {
    let words = ["compare", "-q", "--a", "plain", "--b", "env:A=1", "--workload", "stream,seq"];
    let options = ["--footprint", "4MiB", "--rounds", "3", "--warm-up", "0", "--json"];
    let found = document(&interleaf(&[&words[..], &options].concat()).output().unwrap());
    for (at, unit) in ["GB/s", "GB/s"].iter().enumerate() {
        let workload = &found["workloads"][at];
        assert_eq!(
            (&workload["unit"], &workload["higher_is_better"]),
            (&(*unit).into(), &true.into())
        );
        assert_eq!(workload["results"][1]["same_result"], true, "{workload}");
    }
    assert_eq!(found["means"][0]["configuration"], 1, "the geometric mean of both");
    assert_eq!(found["stopped"], "rounds");
}

/// A dry run prints the commands of both configurations, and the workload's metric with its better
/// direction.
#[test]
fn a_dry_run_prints_the_commands_of_workloads() {
    let words = ["compare", "--a", "plain", "--b", "threads=2", "--workload", "stream"];
    let options = ["--footprint", "4MiB", "--dry-run"];
    let text = stdout(&interleaf(&[&words[..], &options].concat()).output().unwrap());
    assert!(text.contains("stream: its own metric in GB/s, higher is better"), "{text}");
    let command = "bench run stream --footprint 4194304B -o RECORD";
    let ends: Vec<&str> = text.lines().filter_map(|it| Some(it.split_once(command)?.1)).collect();
    assert_eq!(ends, ["", " --threads 2"], "{text}");
}

/// If a workload fails, the hint has the command that failed, with the configuration's number of
/// threads.
#[test]
fn a_failed_workload_is_printed_with_its_threads() {
    let words = ["compare", "-q", "--a", "plain", "--b", "threads=2", "--workload", "fft"];
    let options = ["--footprint", "4MiB", "--rounds", "3"];
    let output = interleaf(&[&words[..], &options].concat()).output().unwrap();
    let why = String::from_utf8_lossy(&output.stderr);
    assert!(why.trim_end().ends_with("-o record.json --threads 2"), "{why}");
}

#[test]
fn a_comparison_is_recorded_and_reported() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).display().to_string();
    let (record, page, log) = (at("runs.json"), at("runs.html"), at("log"));
    let options = ["--a", "env:COST=100", "--b", "env:COST=110", "--metric", METRIC];
    let outputs = ["-o", &record, "--report", &page, "--log", &log, "--csv"];
    let csv = stdout(&compare(&[&options[..], &outputs].concat(), PRINTS));
    assert!(csv.starts_with("workload,round,configuration,value,"), "{csv}");
    assert_eq!(csv.lines().count(), 13, "a line for each run:\n{csv}");
    assert!(fs::read_to_string(&page).unwrap().contains("Is this real?"));
    assert!(fs::read_to_string(&log).unwrap().contains("cost=110"));
    for (format, text) in [("markdown", "slower by "), ("html", "Is this real?"), ("csv", ",A,")] {
        let output = interleaf(&["report", &record, "--format", format]).output().unwrap();
        assert!(stdout(&output).contains(text), "{format}");
    }
}

/// A signal arrives during a round, or during a warm-up run. The command and its descendants end,
/// and the completed rounds are kept.
#[test]
fn a_signal_ends_the_command_and_keeps_the_rounds() {
    // The script waits for the signal in its fifth run, or in its second run. The fifth run is in
    // the second round, after two warm-up runs. The second run is a warm-up run.
    for (signal, waits, rounds, status) in
        [("INT", 5, 1, "1 round"), ("TERM", 2, 0, "nothing is known")]
    {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name).display().to_string();
        let (runs, record) = (at("runs"), at("record.json"));
        let script = format!(
            "echo x >> {runs}; [ $(wc -l < {runs}) = {waits} ] && {{ sleep 1000 & \
             echo $! > {runs}.waits; wait; }}; echo cost=1"
        );
        let words = ["compare", "-q", "--a", "plain", "--b", "env:A=1", "--metric", METRIC];
        let words = [&words[..], &["-o", &record, "--", "sh", "-c", &script]].concat();
        let child =
            interleaf(&words).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let waiting = Path::new(&runs).with_extension("waits");
        let pid = loop {
            let text = fs::read_to_string(&waiting).unwrap_or_default();
            if text.ends_with('\n') {
                break text.trim().to_string();
            }
            std::thread::sleep(Duration::from_millis(10));
        };
        let descendant = process(&Root::live(), pid.parse().unwrap()).unwrap().unwrap();
        let (signal, number) = (format!("-{signal}"), if signal == "INT" { 2 } else { 15 });
        let killed = Command::new("kill").args([signal, child.id().to_string()]).status().unwrap();
        assert!(killed.success());
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(128 + number));
        assert!(stdout(&output).contains(status), "{}", stdout(&output));
        assert!(!descendant.runs(&Root::live()).unwrap(), "a descendant of the command runs");
        let recorded: Value = serde_json::from_str(&fs::read_to_string(&record).unwrap()).unwrap();
        assert_eq!(recorded["stopped"], "signal");
        let result = &recorded["workloads"][0]["results"][0];
        assert_eq!(result["rounds"].as_u64().unwrap_or(0), rounds, "{result}");
    }
}
