//! Tests of `interleaf balance --monitor` with a fake daemon. The monitor shows the daemon's
//! messages, connects again after the daemon restarts, and restores the terminal.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "terminal/screen.rs"]
mod screen;

use interleaf_linux::launch::command::with_default_signals;
use screen::{Screen, ended};
use std::{
    fs,
    io::{BufRead as _, BufReader, Write as _},
    os::unix::net::{UnixListener, UnixStream},
    path::Path,
    process::{Command, Stdio},
};

fn period(time_s: f64, reason: &str) -> String {
    format!(
        "{{\"schema\":\"interleaf.balance/1\",\"time_s\":{time_s:.1},\"domain\":\"socket0\",\
         \"nodes\":[0,2],\"target_weights\":[65,35],\"reached_share\":[0.7,0.3],\
         \"bandwidth_gbps\":400.0,\"tier_bandwidth_gbps\":[300.0,100.0],\
         \"tier_latency_ns\":[120.0,null],\"migrated_bytes\":0,\"decision\":\"step\",\
         \"reason\":\"{reason}\"}}\n"
    )
}

fn monitor(socket: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_interleaf"));
    command.arg("balance").arg(format!("--monitor={}", socket.display()));
    with_default_signals(&mut command);
    command
}

/// Accepts a connection of the monitor, and sends it a period.
fn send_period(listener: &UnixListener, time_s: f64, reason: &str) -> UnixStream {
    let (mut stream, _) = listener.accept().unwrap();
    stream.write_all(period(time_s, reason).as_bytes()).unwrap();
    stream
}

#[test]
fn a_restart_is_waited_for() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("sock");
    let first = UnixListener::bind(&path).unwrap();
    let mut child = monitor(&path).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut errors = BufReader::new(child.stderr.take().unwrap()).lines();
    let mut stream = send_period(&first, 6.0, "begun");
    let line = lines.next().unwrap().unwrap();
    assert!(line.contains("node0 65 (70.0), node2 35 (30.0)"), "{line}");
    assert!(line.ends_with("step: begun"), "{line}");
    // A line that is not a valid period, and a line that is too long, are reported and skipped.
    for line in ["nonsense".into(), "x".repeat(100_000)] {
        stream.write_all(format!("{line}\n{}", period(7.0, "after")).as_bytes()).unwrap();
        assert!(errors.next().unwrap().unwrap().contains("does not understand"));
        assert!(lines.next().unwrap().unwrap().ends_with("step: after"));
    }
    // End the daemon in the middle of a line, as if it were killed.
    stream.write_all(b"{\"schema\"").unwrap();
    drop((stream, first));
    assert!(errors.next().unwrap().unwrap().contains("waiting for it to come back"));
    fs::remove_file(&path).unwrap();
    let second = UnixListener::bind(&path).unwrap();
    let _stream = send_period(&second, 6.0, "begun again");
    assert!(lines.next().unwrap().unwrap().ends_with("step: begun again"));
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn the_terminal_is_restored() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("sock");
    let listener = UnixListener::bind(&path).unwrap();
    for end in ["q", "\x03", "SIGTERM"] {
        let mut screen = Screen::open();
        let before = screen.modes();
        let mut child = screen.start(&mut monitor(&path));
        let _stream = send_period(&listener, 6.0, "begun");
        screen.until("\x1b[?1049h");
        screen.until("decisions");
        let during = screen.modes();
        assert_ne!(during.local_modes, before.local_modes, "keys come one by one");
        match end {
            "SIGTERM" => {
                let pid = rustix::process::Pid::from_child(&child);
                rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
            }
            key => screen.press(key),
        }
        assert!(ended(&mut child).success(), "{end:?}");
        screen.until("\x1b[?1049l");
        screen.until("\x1b[?25h");
        let after = screen.modes();
        assert_eq!(after.local_modes, before.local_modes, "{end:?}");
        assert_eq!(after.input_modes, before.input_modes, "{end:?}");
    }
}

/// When the terminal hangs up, no key can end the monitor, so it must end by itself.
#[test]
fn a_hang_up_of_the_terminal_ends_the_monitor() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("sock");
    let listener = UnixListener::bind(&path).unwrap();
    let mut screen = Screen::open();
    let mut child = screen.start(&mut monitor(&path));
    let _stream = send_period(&listener, 6.0, "begun");
    screen.until("decisions");
    screen.hang_up();
    assert_eq!(ended(&mut child).code(), Some(2));
}
