//! Tests of `simulate machine --policy exec:COMMAND`. A command that decides as a built-in policy
//! does gives the same result. A failure of the policy process, or a signal, ends the simulation.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod executable;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::{
    fs,
    path::Path,
    process::{Command, Output, Stdio},
    thread,
    time::{Duration, Instant},
};

/// A shell script that, as a policy, always asks for 65 % of the pages on the first tier.
const STATIC: &str = "while read -r line; do echo '{\"weights\": [65, 35]}'; done";

/// Time limit of a wait for an event that normally comes soon.
const SOON: Duration = Duration::from_secs(60);

/// Writes the commands `body` as a shell script to the file `policy` in `folder`.
fn script(folder: &Path, body: &str) {
    executable::write(&folder.join("policy"), format!("#!/bin/sh\n{body}\n"));
}

/// Returns a command, with the working directory `folder`, that simulates 60 s. `args` may name a
/// scenario; otherwise the command simulates the workload lbm.
fn simulate(folder: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_interleaf"));
    command.current_dir(folder).args(["simulate", "machine", "--duration", "60s", "--json"]);
    if !args.contains(&"--scenario") {
        command.args(["--platform", "gnr120-cz122", "--workload", "lbm"]);
    }
    command.args(args);
    command
}

fn document(output: &Output) -> Value {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn the_policy_of_the_page_is_that_of_the_example() {
    let of_tree = |path: &str| {
        fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)).unwrap()
    };
    let page = of_tree("docs/policies.md");
    let block = page.split("```rust\n").nth(1).unwrap().split("```").next().unwrap();
    assert!(block.contains("fn decide"), "{block}");
    assert!(of_tree("crates/job/examples/policy.rs").contains(block), "{block}");
}

#[test]
fn a_process_with_static_weights_has_the_results_of_policy_static() {
    let folder = tempfile::tempdir().unwrap();
    script(folder.path(), STATIC);
    let on_two_sockets = (&["--scenario", "two-sockets"][..], "65:65:35:35");
    for (scenario, weights) in [(&[][..], "65:35"), on_two_sockets] {
        let run = |policy: &[&str]| {
            document(&simulate(folder.path(), &[scenario, policy].concat()).output().unwrap())
        };
        let own = run(&["--policy", "exec:./policy"]);
        assert_eq!(own["policy"], "exec:./policy");
        let built_in = run(&["--policy", "static", "--weights", weights]);
        assert!(own["workloads"].is_array());
        assert_eq!(own["workloads"], built_in["workloads"], "{scenario:?}");
        assert_eq!(run(&["--policy", "exec:./policy"]), own, "{scenario:?}");
    }
}

#[test]
fn a_process_gets_its_tiers_and_then_observations() {
    let folder = tempfile::tempdir().unwrap();
    script(folder.path(), &STATIC.replace("do ", "do echo \"$line\" >> lines; "));
    let output = simulate(folder.path(), &["--policy", "exec:./policy"]).output().unwrap();
    let periods = document(&output)["periods"].as_array().unwrap().len();
    let lines = fs::read_to_string(folder.path().join("lines")).unwrap();
    let lines: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines[0]["schema"], "interleaf.policy/1");
    assert_eq!(lines[0]["message"], "start");
    assert_eq!(lines[0]["tiers"][1]["kind"], "cxl");
    assert!((2..=periods + 1).contains(&lines.len()), "{} lines", lines.len());
    for line in &lines[1..] {
        assert_eq!(line["message"], "period");
        assert_eq!(line["target"], serde_json::json!([0.65, 0.35]));
        assert!(line["tiers"][0]["bandwidth_gbps"].as_f64().unwrap() > 0.0, "{line}");
    }
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/policies.md");
    let page = fs::read_to_string(page).unwrap();
    for fields in [&lines[1], &lines[1]["tiers"][0], &lines[0]["tiers"][0]] {
        for name in fields.as_object().unwrap().keys() {
            assert!(page.contains(&format!("\"{name}\":")), "no {name} in docs/policies.md");
        }
    }
}

#[test]
fn a_process_that_fails_is_an_error_with_its_line() {
    let folder = tempfile::tempdir().unwrap();
    let first = "read -r line; echo '{\"weights\": [1, 1]}'";
    let once = format!("{first}; read -r line;");
    let cases = [
        ("exit 3", "the policy ended (exit status 3) before line 1 of its stdout"),
        ("kill -9 $$", "the policy ended (signal 9) before line 1 of its stdout"),
        (&format!("{once} exit 0"), "the policy ended (exit status 0) before line 2"),
        (&format!("{once} echo hello"), "line 2 of the policy's stdout: expected value"),
        (&format!("{once} echo '{{\"weights\": [1]}}'"), "weights has 1 numbers for 2 tiers"),
        (&format!("{once} echo '{{\"weights\": [1, -1]}}'"), "weights has -1, which is below 0"),
        (&format!("{once} echo '{{\"weights\": [0, 0]}}'"), "at least one must be above 0"),
        (&format!("{once} head -c 200000 /dev/zero; cat"), "it is longer than 64 KiB"),
        (&format!("{first}; yes | head -100000"), "line 2 of the policy's stdout"),
    ];
    let (default, short): (&[&str], &[&str]) = (&[], &["--policy-limit", "500ms"]);
    let cases = cases.map(|(body, problem)| (body, problem, default));
    // The limit of 0.5 s includes the start of the shell, which may be slow. The policy never
    // answers, so in any case the error is about the first line.
    let late = ("exec sleep 100", "has not written line 1 of its stdout after 0.5 s", short);
    for (body, problem, limit) in cases.into_iter().chain([late]) {
        script(folder.path(), body);
        let args = [&["--policy", "exec:./policy"], limit].concat();
        let output = simulate(folder.path(), &args).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0), "{body}: {said}");
        assert!(said.contains("error: ./policy: ") && said.contains(problem), "{body}: {said}");
        assert!(said.contains("hint: "), "{body}: {said}");
        let is_longer = said.contains("more time in `simulate machine`: --policy-limit 60s");
        assert_eq!(is_longer, !limit.is_empty(), "{body}: {said}");
    }
}

/// Each socket has its own policy process. If the first process fails, `balance` does not start
/// that of the next socket.
#[test]
fn a_failure_ends_the_start_of_the_policies_of_all_sockets() {
    let folder = tempfile::tempdir().unwrap();
    script(folder.path(), "echo started >> starts; exit 3");
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut command = Command::new(env!("CARGO_BIN_EXE_interleaf"));
    command.current_dir(folder.path()).args(["balance", "--advise", "--policy", "exec:./policy"]);
    command.arg("--root").arg(here.join("../../tests/machines/xeon6-two-sockets-cxl"));
    command.arg("--replay").arg(here.join("tests/recordings/two-sockets.csv"));
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("error: ./policy: the policy ended (exit status 3)"), "{said}");
    assert_eq!(fs::read_to_string(folder.path().join("starts")).unwrap(), "started\n");
}

/// Waits until `found` returns a value, and returns this value. After the time limit, panics with
/// the message `what`.
fn await_for<T>(what: &str, mut found: impl FnMut() -> Option<T>) -> T {
    let until = Instant::now() + SOON;
    loop {
        if let Some(value) = found() {
            return value;
        }
        assert!(Instant::now() < until, "{what}");
        thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn a_signal_ends_the_simulation_and_the_process_with_its_children() {
    let folder = tempfile::tempdir().unwrap();
    script(folder.path(), "sleep 1000 & echo $$ $! > pids.new; mv pids.new pids; wait");
    for (signal, status) in [(Signal::INT, 130), (Signal::TERM, 143)] {
        let mut command = simulate(folder.path(), &["--policy", "exec:./policy"]);
        let command = command.args(["--policy-limit", "1000s"]);
        let mut tool = interleaf_linux::launch::command::with_default_signals(command)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let path = folder.path().join("pids");
        let pids = await_for("the policy starts", || fs::read_to_string(&path).ok());
        kill_process(Pid::from_child(&tool), signal).unwrap();
        assert_eq!(tool.wait().unwrap().code(), Some(status));
        for pid in pids.split_whitespace() {
            let stat = format!("/proc/{pid}/stat");
            let is_running = || fs::read_to_string(&stat).is_ok_and(|stat| !stat.contains(") Z "));
            await_for("the policy's processes end", || (!is_running()).then_some(()));
        }
        fs::remove_file(&path).unwrap();
    }
}
