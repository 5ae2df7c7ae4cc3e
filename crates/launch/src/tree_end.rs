//! Kills a command together with all of its descendants.
//!
//! A command may be a wrapper, such as `interleaf extend` or a launcher of a batch system: a signal
//! to the wrapper alone would leave its program running, and the wrapper could not restore the
//! settings that it changed. Processes without children are therefore killed first. A process whose
//! children have ended gets some time to end by itself.

use interleaf_linux::{
    launch::command::{Running, send},
    process::table,
    root::Root,
};
use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

/// The signal that no process can catch.
const SIGKILL: i32 = 9;

/// The interval at which the processes are read again while the command ends.
const TICK: Duration = Duration::from_millis(100);

/// The time that a process has to end after its last child has ended.
const GRACE: Duration = Duration::from_secs(10);

/// The killed processes of a command. [`TreeEnd::kill`] is called repeatedly until the command has
/// ended.
#[derive(Debug, Default)]
pub struct TreeEnd {
    /// Processes that had children at some call, by ID and start time, and the last such call.
    parents: BTreeMap<(u32, u64), Instant>,
}

impl TreeEnd {
    /// Kills the processes of the command `pid` that have had no children for [`GRACE`], or never.
    pub fn kill(&mut self, root: &Root, pid: u32) {
        let mut tree = table::tree(root, pid).unwrap_or_default();
        tree.retain(|process| !process.is_zombie);
        for process in &tree {
            if tree.iter().any(|other| other.parent == process.pid) {
                self.parents.insert(process.identity(), Instant::now());
            } else {
                let parent = self.parents.get(&process.identity());
                if parent.is_none_or(|last| last.elapsed() > GRACE) {
                    send(process.pid, SIGKILL);
                }
            }
        }
    }
}

/// Kills a command and its descendants, and waits until the command has ended.
pub fn end_tree(root: &Root, running: &mut Running<'_>) {
    let mut end = TreeEnd::default();
    loop {
        end.kill(root, running.pid());
        if running.has_ended(TICK) {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;
    use interleaf_linux::{launch::command::Signals, place::mempolicy::Policy};
    use std::{ffi::OsString, fs};

    /// The wrapper is a shell that counts for some ticks after its program has ended, and then
    /// writes a file.
    #[test]
    fn a_wrapper_outlives_its_program() {
        let folder = tempfile::tempdir().unwrap();
        let script = "sleep 1000 & echo $! > pid; wait; \
                      i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done; echo done > file";
        let words = ["-C", &folder.path().to_string_lossy(), "sh", "-c", script];
        let words: Vec<OsString> = words.iter().map(OsString::from).collect();
        let signals = Signals::hold().unwrap();
        let mut running = signals.start(&Policy::Default, &"env".into(), &words).unwrap();
        let pid = || fs::read_to_string(folder.path().join("pid")).unwrap_or_default();
        let began = Instant::now();
        while pid().trim().is_empty() {
            assert!(began.elapsed() < Duration::from_secs(60), "the program does not start");
            assert!(!running.has_ended(TICK));
        }
        end_tree(&Root::live(), &mut running);
        assert!(running.status().unwrap().success());
        assert_eq!(fs::read_to_string(folder.path().join("file")).unwrap(), "done\n");
        assert!(!fs::exists(format!("/proc/{}", pid().trim())).unwrap(), "the program runs");
    }
}
