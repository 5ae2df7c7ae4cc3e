//! Tests of `interleaf run` on this machine, without a change of a kernel setting: all pages go to
//! one node, which needs no weights. `crates/vm/tests/run.rs` tests several nodes.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use interleaf_linux::launch::command::with_default_signals;
use serde_json::Value;
use std::{
    fs,
    io::{BufRead, BufReader, Write as _},
    process::{Child, Command, Output, Stdio},
};

/// Returns the command `interleaf run` with `options`. It runs `words` with all pages on node 0.
fn interleaf(options: &[&str], words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_interleaf"));
    command.args(["run", "--weights", "1", "--nodes", "0"]).args(options).arg("--").args(words);
    with_default_signals(&mut command);
    command
}

fn run(options: &[&str], words: &[&str]) -> Output {
    interleaf(options, words).output().unwrap()
}

/// Starts a shell script under `interleaf run`, and waits until the script prints "there".
fn started(script: &str) -> (Child, BufReader<std::process::ChildStdout>) {
    let mut command = interleaf(&["-q"], &["sh", "-c", script]);
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    lines.read_line(&mut line).unwrap();
    assert_eq!(line, "there\n");
    (child, lines)
}

fn kill(child: &Child, signal: &str) {
    let pid = child.id().to_string();
    assert!(Command::new("kill").args([signal, &pid]).status().unwrap().success());
}

#[test]
fn output_and_exit_status_of_the_command_are_passed_on() {
    let output = run(&[], &["sh", "-c", "echo out; echo err >&2; exit 42"]);
    assert_eq!(output.status.code(), Some(42));
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "out\n");
    let stderr = String::from_utf8(output.stderr).unwrap();
    let lines: Vec<&str> = stderr.lines().collect();
    assert_eq!(lines[0], "interleaf: interleaving, node 0: 1 (as numactl --interleave=0)");
    assert!(lines.contains(&"err"), "{stderr}");
    let quiet = run(&["-q"], &["sh", "-c", "kill -9 $$"]);
    assert_eq!((quiet.status.code(), quiet.stderr.len()), (Some(128 + 9), 0));
}

#[test]
fn a_signal_is_passed_on_and_the_command_may_take_its_time() {
    let waits = "trap 'echo bye; exit 5' TERM; echo there; while :; do sleep 0.05; done";
    let (mut child, mut lines) = started(waits);
    kill(&child, "-TERM");
    let mut line = String::new();
    lines.read_line(&mut line).unwrap();
    assert_eq!(line, "bye\n");
    assert_eq!(child.wait().unwrap().code(), Some(5));
    let (mut child, _lines) = started("echo there; exec sleep 60");
    kill(&child, "-INT");
    assert_eq!(child.wait().unwrap().code(), Some(128 + 2));
}

#[test]
fn every_signal_that_would_end_us_is_passed_on() {
    // Signal 16 is SIGSTKFLT. It is given by its number, because some shells do not know its name.
    for signal in
        ["HUP", "QUIT", "ALRM", "USR1", "USR2", "VTALRM", "PROF", "XCPU", "XFSZ", "IO", "PWR", "16"]
    {
        let script = format!("trap 'exit 6' {signal}; echo there; while :; do sleep 0.05; done");
        let (mut child, _lines) = started(&script);
        kill(&child, &format!("-{signal}"));
        assert_eq!(child.wait().unwrap().code(), Some(6), "{signal}");
    }
}

/// The command gets exactly the signal dispositions that `interleaf` had at its start. This
/// includes SIGPIPE, which Rust's runtime ignores in `interleaf` itself.
#[test]
fn ignored_signals_stay_ignored_for_the_command() {
    let masks = |ignored: &str, by: &[&str]| {
        let trap = if ignored.is_empty() { "" } else { &format!("trap '' {ignored}; ") };
        let script = format!("{trap}exec \"$@\"");
        let grep = ["grep", "-E", "^Sig(Ign|Blk):", "/proc/self/status"];
        let mut command = Command::new("bash");
        command.args(["-c", &script, "bash"]).args(by).args(grep);
        let output = with_default_signals(&mut command).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        let text = String::from_utf8(output.stdout).unwrap();
        let mask = |line: &str| u64::from_str_radix(line.split_whitespace().nth(1)?, 16).ok();
        // Do not compare signals 32 to 34. They belong to the C library, whose posix_spawn(3)
        // ignores some of them in a child.
        text.lines().map(|line| mask(line).unwrap() & !(0b111 << 31)).collect::<Vec<_>>()
    };
    let tool = env!("CARGO_BIN_EXE_interleaf");
    let by = [tool, "run", "-q", "--weights", "1", "--nodes", "0", "--"];
    let mut seen = vec![];
    for ignored in ["", "PIPE", "HUP", "INT QUIT", "XFSZ PIPE", "HUP INT TERM PIPE XFSZ USR1"] {
        let inherited = masks(ignored, &[]);
        assert_eq!(masks(ignored, &by), inherited, "{ignored:?}");
        seen.push(inherited);
    }
    seen.dedup();
    assert_eq!(seen.len(), 6, "each has a mask of its own");
}

/// `interleaf` is started with SIGHUP ignored, as under nohup. A SIGHUP must then neither end
/// `interleaf` nor reach the command.
#[test]
fn a_signal_that_was_ignored_at_the_start_ends_nothing() {
    let script = "trap '' HUP; exec \"$0\" run -q --weights 1 --nodes 0 -- sh -c \
                  'echo there; read line; exit 6'";
    let mut command = Command::new("bash");
    command.args(["-c", script, env!("CARGO_BIN_EXE_interleaf")]);
    with_default_signals(&mut command).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "there\n");
    kill(&child, "-HUP");
    child.stdin.take().unwrap().write_all(b"go on\n").unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(6));
}

#[test]
fn the_status_is_known_with_sigchld_ignored() {
    // The shell must be bash: dash does not pass an ignored SIGCHLD on to its children.
    let mut command = Command::new("bash");
    with_default_signals(&mut command);
    let script = "trap '' CHLD; exec \"$0\" run -q --weights 1 --nodes 0 -- sh -c 'exit 7'";
    let status = command.args(["-c", script, env!("CARGO_BIN_EXE_interleaf")]).status().unwrap();
    assert_eq!(status.code(), Some(7));
}

#[test]
fn children_of_children_are_under_the_policy() {
    let output = run(&["-q"], &["sh", "-c", "sh -c 'cat /proc/self/numa_maps'"]);
    let maps = String::from_utf8(output.stdout.clone()).unwrap();
    let stack: Vec<&str> = maps.lines().filter(|line| line.contains(" stack")).collect();
    assert_eq!(stack.len(), 1, "{output:?}");
    assert!(stack[0].contains(" interleave:0 stack"), "{output:?}");
}

#[test]
fn the_document_has_the_placed_bytes() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("run.json");
    let placed = |document: &Value| document["memory"]["placed_bytes"]["0"].as_u64().unwrap_or(0);
    // `tail` keeps 64 MB in memory until its input ends. On a busy machine, the memory is filled
    // late and sampled rarely, so the test is repeated with longer runs.
    let seen = [1, 10, 60].into_iter().find_map(|seconds| {
        let script = "(head -c 64000000 /dev/zero; sleep \"$0\") | tail -c 64000000 | wc -c";
        let words = ["sh", "-c", script, &seconds.to_string()];
        let output = run(&["-o", file.to_str().unwrap()], &words);
        assert_eq!(String::from_utf8(output.stdout).unwrap().trim(), "64000000");
        let document: Value = serde_json::from_str(&fs::read_to_string(&file).unwrap()).unwrap();
        (placed(&document) > 64_000_000).then_some(document)
    });
    let document = seen.expect("the memory of tail is never seen");
    assert_eq!(document["schema"], "interleaf.run/1");
    assert_eq!(document["policy"], "interleave:0");
    assert_eq!(document["exit_code"], 0);
    assert_eq!(document["settings"], serde_json::json!([]));
    assert!(document["memory"]["escaped_share"].as_f64().unwrap() < 0.3, "{document}");
    // The only pages that bypass the policy are those of library files. Another process read them
    // into the page cache earlier, under its own policy.
    let escapes = document["memory"]["escapes"].as_array().unwrap();
    assert!(!escapes.is_empty(), "{document}");
    let of_files = |escape: &Value| escape["why"].as_str().unwrap().starts_with("of files");
    assert!(escapes.iter().all(of_files), "{document}");
}

#[test]
fn stdout_has_the_document_or_the_output_of_the_command() {
    let command = ["echo", "hi"];
    for options in [&["--json"][..], &["-o", "-"]] {
        let output = run(options, &command);
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0), "{stderr}");
        assert!(stderr.contains(": stdout is the command's"), "{stderr}");
    }
    for options in [&["--json"][..], &["-o", "-"], &["--json", "-o", "-"]] {
        let output = run(&[&["--dry-run"], options].concat(), &command);
        let document: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(document["schema"], "interleaf.run/1", "{options:?}");
    }
    let restore = ["run", "--restore", "--dry-run", "--json"];
    let output = Command::new(env!("CARGO_BIN_EXE_interleaf")).args(restore).output().unwrap();
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(document["left"].is_array(), "{document}");
}

#[test]
fn pages_of_a_running_program_are_looked_at() {
    let mut tail = Command::new("sleep").arg("60").spawn().unwrap();
    let pid = tail.id().to_string();
    let arguments = ["run", "--weights", "1", "--nodes", "0", "--json", "--pid", &pid];
    let output = Command::new(env!("CARGO_BIN_EXE_interleaf")).args(arguments).output().unwrap();
    tail.kill().unwrap();
    tail.wait().unwrap();
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(0), "{document}");
    assert_eq!(document["moved"]["processes"][0], format!("{pid} (sleep)"));
    assert!(document["moved"]["after_bytes"]["0"].as_u64().unwrap() > 0, "{document}");
}

/// `tune --weights` runs only the listed weights and the first tier alone, and not the weights that
/// `tune` would choose itself.
#[test]
fn a_dry_search_among_listed_weights_lists_no_others() {
    let machine = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/machines/rivals");
    let plan = |options: &[&str]| {
        let words = ["tune", "--root", machine, "--dry-run", "--json"];
        let mut command = Command::new(env!("CARGO_BIN_EXE_interleaf"));
        let output = command.args(words).args(options).args(["--", "true"]).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let document: Value = serde_json::from_slice(&output.stdout).unwrap();
        let plan = document["plan"].as_array().unwrap().iter();
        plan.map(|it| it["weights"].to_string()).collect::<Vec<_>>()
    };
    assert_eq!(plan(&["--weights", "3:1,7:2"]), ["[1,0]", "[3,1]", "[7,2]"]);
    assert_eq!(plan(&[]).len(), 2, "the first tier alone and the proposal");
}
