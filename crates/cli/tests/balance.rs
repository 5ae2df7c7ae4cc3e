//! Tests of `interleaf balance` that migrate no page: advice (`--advise`), and runs on a simulated
//! machine. `machines.rs` tests the dry run on each captured machine, `bad_input.rs` tests rejected
//! input, and `crates/vm/tests/` tests the daemon under a kernel.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod executable;

use serde_json::Value;
use std::{
    collections::BTreeMap,
    fs,
    io::Write as _,
    os::unix::{net::UnixStream, process::CommandExt as _},
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
    thread,
    time::Duration,
};

const NOBODY: u32 = 65534;

fn interleaf() -> Command {
    Command::new(env!("CARGO_BIN_EXE_interleaf"))
}

fn machines() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/machines")
}

fn recording(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/recordings").join(name)
}

fn streams(output: &Output) -> (String, String) {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    (text(&output.stdout), text(&output.stderr))
}

/// Parses the JSON documents on stdout, one per line.
fn documents(output: &Output) -> Vec<Value> {
    let (stdout, stderr) = streams(output);
    assert!(output.status.success(), "{stderr}");
    stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Returns a map from the path of each file below `folder` to the file's content.
fn files(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => found.extend(files(&path)),
            false => _ = found.insert(path.clone(), fs::read(&path).unwrap()),
        }
    }
    found
}

fn copy(from: &Path, to: &Path) {
    for (path, bytes) in files(from) {
        let target = to.join(path.strip_prefix(from).unwrap());
        fs::create_dir_all(target.parent().unwrap()).unwrap();
        fs::write(target, bytes).unwrap();
    }
}

#[test]
fn output_matches_the_recorded_cases() {
    trycmd::TestCases::new().case("tests/balance/*.trycmd");
}

#[test]
fn advice_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    copy(&machines().join("linux-newest-two-nodes-hmat"), folder.path());
    let before = files(folder.path());
    let mut command = interleaf();
    command.args(["balance", "--advise", "--json", "--process", "solver", "--stop-rivals"]);
    command.args(["--curves", "gnr120-cz122"]);
    command.arg("--root").arg(folder.path()).arg("--replay").arg(recording("saturated.csv"));
    let documents = documents(&command.output().unwrap());
    // Advice changes no file of the machine, and creates none, such as a journal in `run`.
    assert_eq!(files(folder.path()), before);
    let (last, periods) = documents.split_last().unwrap();
    assert_eq!(last["schema"], "interleaf.balance.advice/1");
    assert_eq!(periods.len(), 3, "it is known after three alike");
    for document in periods {
        assert_eq!(document["schema"], "interleaf.balance/1");
        assert_eq!(document["gain_is"], "predicted");
        // The process `solver` has 256 MiB, all on the first node. The bytes that would migrate are
        // the second node's advised share of these 256 MiB.
        let points = document["advised_weights"][1].as_f64().unwrap();
        let moved = document["would_move_bytes"].as_f64().unwrap();
        assert!((moved / f64::from(1 << 28) - points / 100.0).abs() < 0.01, "{document}");
        assert!(document["gain"].as_f64().unwrap() > 0.2, "{document}");
        assert_eq!(document["migrated_bytes"], 0);
    }
}

/// With `--advise` and a shell script as the policy (`exec:COMMAND`), the advised weights are those
/// that the script prints, and the predicted gain is computed for these weights from the curves.
#[test]
fn a_process_advises() {
    let folder = tempfile::tempdir().unwrap();
    let advise = |body: &str, own: &[&str]| {
        let policy = folder.path().join("policy.sh");
        executable::write(&policy, format!("#!/bin/sh\n{body}\n"));
        let mut command = interleaf();
        command.args(["balance", "--json", "--curves", "gnr120-cz122", "--policy"]);
        command.arg(format!("exec:{} 70", policy.display())).args(own);
        command.arg("--root").arg(machines().join("linux-newest-two-nodes-hmat"));
        command.arg("--replay").arg(recording("saturated.csv")).output().unwrap()
    };
    let decides = "read start; echo '{\"weights\": [1, 0]}'\n\
                   while read seen; do echo \"{\\\"weights\\\": [$1, 30]}\"; done";
    let documents = documents(&advise(decides, &["--advise"]));
    let (last, periods) = documents.split_last().unwrap();
    assert_eq!(periods.len(), 3, "it is known after three alike");
    for document in &documents {
        assert_eq!(document["advised_weights"].to_string(), "[70,30]");
        assert!(document["gain"].as_f64().unwrap() > 0.1, "{document}");
    }
    assert!(last["policy"].as_str().unwrap().ends_with("policy.sh 70"), "{last}");
    assert_eq!(last["start_weights"].to_string(), "[100,0]");

    let said = |output: &Output| {
        assert!(!output.status.success());
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let ended = said(&advise("read start; echo '{\"weights\": [1, 0]}'; exit 3", &["--advise"]));
    assert!(ended.contains("the policy ended (exit status 3) before line 2"), "{ended}");
    let moves = said(&advise(decides, &[]));
    assert!(moves.contains("a process as policy moves no pages"), "{moves}");
}

/// The advice for a captured machine uses the traffic that a program writes to the socket of
/// `--feed`. The test asserts that the advice has periods, and that the socket is removed at the
/// end.
#[test]
fn advice_uses_the_traffic_of_a_feed() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("feed.sock");
    let mut command = interleaf();
    command.args(["balance", "--advise", "--json", "--period", "1s", "--duration", "3s"]);
    command.arg("--root").arg(machines().join("linux-newest-two-nodes-hmat"));
    command.arg("--feed").arg(&socket).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut stream = loop {
        match UnixStream::connect(&socket) {
            Ok(stream) => break stream,
            Err(why) => assert!(child.try_wait().unwrap().is_none(), "{why}"),
        }
        thread::sleep(Duration::from_millis(10));
    };
    // 8.2 GB every 20 ms are 410 GB/s on the first tier, which the firmware rates at 512 GB/s.
    // Ignore errors of the write: it fails when the command ends and closes the socket.
    let line = |tier: u32, bytes: u64| {
        format!("{{\"domain\":0,\"tier\":{tier},\"read_bytes\":{bytes},\"written_bytes\":0}}\n")
    };
    let lines = line(0, 8_200_000_000) + &line(1, 0);
    while child.try_wait().unwrap().is_none() {
        let _ = stream.write_all(lines.as_bytes());
        thread::sleep(Duration::from_millis(20));
    }
    let documents = documents(&child.wait_with_output().unwrap());
    assert!(!socket.exists());
    let (last, periods) = documents.split_last().unwrap();
    assert_eq!(last["schema"], "interleaf.balance.advice/1");
    assert!(!periods.is_empty());
    assert_eq!(last["gain_is"], "at most");
}

#[test]
fn simulated_periods_are_documents_like_any_other() {
    let names = |document: &Value| -> Vec<String> {
        document.as_object().unwrap().keys().cloned().collect()
    };
    let mut advise = interleaf();
    advise.args(["balance", "--advise", "--json", "--root"]);
    advise.arg(machines().join("hmat-latency-only"));
    advise.arg("--replay").arg(recording("saturated.csv"));
    let real = documents(&advise.output().unwrap());
    let real = names(&real[0]).into_iter().filter(|name| {
        let advised = ["advised_weights", "gain", "gain_is", "is_unsaturated", "would_move_bytes"];
        !advised.contains(&name.as_str())
    });
    let mut simulate = interleaf();
    simulate.args(["balance", "--platform", "gnr120-cz122", "--duration", "120s", "--json"]);
    let simulated = documents(&simulate.output().unwrap());
    assert_eq!(names(&simulated[0]), real.collect::<Vec<_>>());
    assert_eq!(simulated.len(), 20);
    // The best static weights for the simulated workload are 64:36.
    let last = simulated.last().unwrap();
    let points = last["target_weights"][0].as_i64().unwrap();
    assert!((59..=69).contains(&points), "{last}");
}

#[test]
fn a_record_of_periods_is_added_to() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("periods.jsonl");
    for _ in 0..2 {
        let mut command = interleaf();
        command.args(["balance", "--platform", "gnr120-cz122", "--duration", "12s", "-o"]);
        assert!(command.arg(&file).output().unwrap().status.success());
    }
    assert_eq!(fs::read_to_string(&file).unwrap().lines().count(), 4);
}

/// Advice fails on a captured server whose PMUs (`sys/bus/event_source`) are removed. The error
/// names other sources of traffic.
#[test]
fn missing_pmus_are_reported_with_alternatives() {
    let folder = tempfile::tempdir().unwrap();
    copy(&machines().join("epyc-cxl"), folder.path());
    fs::remove_dir_all(folder.path().join("sys/bus/event_source")).unwrap();
    let mut command = interleaf();
    command.args(["balance", "--advise", "--root"]).arg(folder.path());
    let output = command.output().unwrap();
    let (_, stderr) = streams(&output);
    assert_eq!(output.status.code(), Some(2), "{stderr}");
    for word in [
        "no unit counts the traffic of memory: none that AMD Zen 5 should have",
        "--feed SOCKET",
        "--replay FILE",
        "`interleaf balance --platform gnr120-cz122`",
    ] {
        assert!(stderr.contains(word), "{word}: {stderr}");
    }
}

/// For an ordinary user, the daemon fails with `Permission denied` and the hint to run it as root.
#[test]
fn a_user_without_rights_gets_a_remedy() {
    let folder = tempfile::tempdir().unwrap();
    let own = folder.path().join("interleaf");
    executable::copy(Path::new(env!("CARGO_BIN_EXE_interleaf")), &own);
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let is_root = status.contains("\nUid:\t0\t");
    let mut command = Command::new(own);
    command.args(["balance", "--duration", "1s"]);
    if is_root {
        use std::os::unix::fs::PermissionsExt as _;
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
        command.uid(NOBODY);
    }
    let output = command.output().unwrap();
    let (_, stderr) = streams(&output);
    assert_eq!(output.status.code(), Some(2), "{stderr}");
    assert!(stderr.contains("Permission denied"), "{stderr}");
    assert!(stderr.contains("\n\nhint: ") && stderr.contains("as root"), "{stderr}");
}
