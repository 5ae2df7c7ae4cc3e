//! Runs `promtool` of Prometheus, which checks the served metrics and the alerts. If `promtool` is
//! not installed (Debian: `prometheus`), a check is skipped with a note, or fails if
//! `INTERLEAF_PROMTOOL` is `required`.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{
    env,
    io::{self, Write as _},
    process::{Command, Output, Stdio},
};

/// Runs `promtool` with `args` and the input `stdin`. Returns `None` if `promtool` is not
/// installed.
pub(crate) fn run(args: &[&str], stdin: &str) -> Option<Output> {
    let mut command = Command::new("promtool");
    command.args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = match command.spawn() {
        Err(why) if why.kind() == io::ErrorKind::NotFound => {
            let text = format!("not tested: promtool {}: it is not installed\n", args.join(" "));
            let is_required = env::var("INTERLEAF_PROMTOOL").is_ok_and(|it| it == "required");
            assert!(!is_required, "{text}");
            io::stderr().write_all(text.as_bytes()).unwrap();
            return None;
        }
        child => child.unwrap(),
    };
    child.stdin.take().unwrap().write_all(stdin.as_bytes()).unwrap();
    Some(child.wait_with_output().unwrap())
}

/// Runs `promtool`, and asserts that it finds no problem.
pub(crate) fn finds_nothing_wrong(args: &[&str], stdin: &str) {
    let Some(output) = run(args, stdin) else { return };
    let printed = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "promtool {}: {printed}\n{stdin}", args.join(" "));
}
