//! Asserts that processes that a command has left running are ended. This test has a process of its
//! own, because all descendants of the process are ended.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use interleaf_launch::tree_end::Orphans;
use interleaf_linux::{process::process, root::Root};
use std::process::{Command, id};

#[test]
fn processes_that_a_command_leaves_running_are_ended() {
    let root = Root::live();
    let orphans = Orphans::adopt().unwrap();
    // The command has ended when its output ends: the background processes have another output. One
    // of them begins a session of its own, as a server does.
    let script = "exec 2>/dev/null; sleep 1000 >&2 & echo $!; setsid sleep 1001 >&2 & echo $!";
    let output = Command::new("sh").args(["-c", script]).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let pids: Vec<u32> = text.lines().map(|line| line.parse().unwrap()).collect();
    for pid in &pids {
        assert_eq!(process(&root, *pid).unwrap().unwrap().parent, id());
    }
    assert_eq!(orphans.end(&root), 2);
    for pid in &pids {
        assert_eq!(process(&root, *pid).unwrap(), None, "reaped, too");
    }
    assert_eq!(orphans.end(&root), 0);
}
