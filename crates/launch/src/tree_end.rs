//! Kills a command together with all of its descendants.
//!
//! A command may be a wrapper, such as `interleaf extend` or a launcher of a batch system. If only
//! the wrapper were killed, its program would go on, and the wrapper could not restore the settings
//! that it changed. Processes without children are therefore killed first. A process whose children
//! have ended gets some time to end by itself.
//!
//! A signal that ends only the command, such as a shell, leaves the command's descendants running
//! without a parent. The descendants are recorded before the signal is passed on, and ended after
//! the command.
//!
//! A command may also end by itself and leave descendants running, such as a server. While
//! [`Orphans`] exists, these descendants become children of this process, and can be ended.

use interleaf_linux::{
    launch::command::{Running, send},
    process::table::{self, Process, ProcessTable},
    root::Root,
    stop_flag::StopFlag,
};
use rustix::process::{Pid, WaitOptions, getpid, set_child_subreaper, waitpid};
use std::{
    collections::BTreeMap,
    io, thread,
    time::{Duration, Instant},
};

/// The signal that asks a process to end.
const SIGTERM: i32 = 15;

/// The signal that no process can catch.
const SIGKILL: i32 = 9;

/// The interval between two readings of the process table while the command ends.
const TICK: Duration = Duration::from_millis(100);

/// The time that a process has to end by itself, from the end of its last child on. A command has
/// the same time from a signal on.
const GRACE: Duration = Duration::from_secs(10);

/// The time after which processes with children are killed too. A shell, for example, may start its
/// program again each time that the program ends.
const PARENTS_TOO: Duration = Duration::from_secs(20);

/// The time after which processes that do not end are given up, such as a process that waits in the
/// kernel.
const GIVE_UP: Duration = Duration::from_secs(30);

/// Kills a command and its descendants in several steps: the caller calls [`TreeEnd::kill`] again
/// and again until the command has ended.
#[derive(Debug, Default)]
pub struct TreeEnd {
    /// The time of the first call of [`TreeEnd::kill`].
    began: Option<Instant>,
    /// The processes that had children at any call of [`TreeEnd::kill`], by process ID and start
    /// time. The value is the time of the last call at which the process had children.
    parents: BTreeMap<(u32, u64), Instant>,
}

impl TreeEnd {
    /// Does one step. Kills those processes in the tree of the command `pid` that never had
    /// children, and those whose last child ended more than [`GRACE`] ago. When [`PARENTS_TOO`] has
    /// passed since the first call, kills all processes, parents first. If `/proc` cannot be read,
    /// or is not mounted, kills only the process `pid`.
    pub fn kill(&mut self, root: &Root, pid: u32) {
        let is_late = self.began.get_or_insert_with(Instant::now).elapsed() > PARENTS_TOO;
        let mut tree = table::tree(root, pid).unwrap_or_default();
        if tree.is_empty() {
            return send(pid, SIGKILL);
        }
        tree.retain(|process| !process.is_zombie);
        for process in &tree {
            if is_late {
                send(process.pid, SIGKILL);
            } else if tree.iter().any(|other| other.parent == process.pid) {
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

/// Waits for the end of a command, and calls `meanwhile` at intervals. If a signal arrives and the
/// command does not end within [`GRACE`], kills the command and its descendants. After a signal,
/// also ends the descendants that the command has left.
pub fn wait_for_end(root: &Root, running: &mut Running<'_>, mut meanwhile: impl FnMut()) {
    running.record_processes();
    let (mut interrupted, mut end): (Option<Instant>, _) = (None, TreeEnd::default());
    while !running.has_ended(TICK) {
        meanwhile();
        if running.arrived_signal().is_some()
            && interrupted.get_or_insert_with(Instant::now).elapsed() > GRACE
        {
            end.kill(root, running.pid());
        }
    }
    end_remaining(root, running.recorded_processes());
}

/// While this value exists, descendants of this process that lose their parent become children of
/// this process (`PR_SET_CHILD_SUBREAPER`).
#[derive(Debug)]
pub struct Orphans(());

impl Orphans {
    /// Makes this process the parent of orphans.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn adopt() -> io::Result<Self> {
        set_child_subreaper(Some(getpid()))?;
        Ok(Self(()))
    }

    /// Ends all descendants of this process, as after a signal, and reaps them. The caller has
    /// started no process that must go on. Returns the number of processes that still ran.
    pub fn end(&self, root: &Root) -> usize {
        let own = std::process::id();
        let mut orphans = table::tree(root, own).unwrap_or_default();
        orphans.retain(|process| process.pid != own);
        end_remaining(root, &orphans);
        for orphan in &orphans {
            let pid = i32::try_from(orphan.pid).ok().and_then(Pid::from_raw);
            // The call fails for a process whose parent was another orphan, and has reaped it.
            let _ = waitpid(pid, WaitOptions::NOHANG);
        }
        orphans.iter().filter(|process| !process.is_zombie).count()
    }
}

impl Drop for Orphans {
    fn drop(&mut self) {
        let _ = set_child_subreaper(None);
    }
}

/// Ends the processes in `recorded` that still run, and their descendants: by SIGTERM, and after
/// [`GRACE`] by SIGKILL. Waits until they have ended, but at most `GIVE_UP`.
fn end_remaining(root: &Root, recorded: &[Process]) {
    let runs = |process: &Process| process.runs(root).unwrap_or(false);
    if !recorded.iter().any(runs) {
        return;
    }
    let table = ProcessTable::read(root, &StopFlag::default()).unwrap_or_default();
    let trees = recorded.iter().filter(|it| runs(it)).flat_map(|it| table.tree(it.pid));
    let mut remaining: BTreeMap<(u32, u64), Process> =
        trees.map(|process| (process.identity(), process)).collect();
    for process in remaining.values() {
        send(process.pid, SIGTERM);
    }
    let (began, mut end) = (Instant::now(), TreeEnd::default());
    loop {
        remaining.retain(|_, process| runs(process));
        if remaining.is_empty() || began.elapsed() > GIVE_UP {
            return;
        }
        if began.elapsed() > GRACE {
            remaining.values().for_each(|process| end.kill(root, process.pid));
        }
        thread::sleep(TICK);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;
    use interleaf_linux::{launch::command::Signals, place::mempolicy::Policy};
    use std::{ffi::OsString, fs};

    /// Asserts that a wrapper is not killed with its program: a shell still counts for some ticks
    /// after its program has ended, and then writes a file.
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

    /// Asserts that a command is killed although `/proc` is not mounted.
    #[test]
    fn without_proc_the_command_is_killed() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("proc")).unwrap();
        let signals = Signals::hold().unwrap();
        let words = [OsString::from("1000")];
        let mut running = signals.start(&Policy::Default, &"sleep".into(), &words).unwrap();
        end_tree(&Root::captured(folder.path()), &mut running);
        assert!(!running.status().unwrap().success());
    }

    /// Asserts that a shell is killed in the end if it starts a program again as soon as the last
    /// one has ended.
    #[test]
    fn a_wrapper_that_starts_programs_again_is_killed() {
        let words = ["-c", "while :; do sleep 1000; done"].map(OsString::from);
        let signals = Signals::hold().unwrap();
        let mut running = signals.start(&Policy::Default, &"sh".into(), &words).unwrap();
        assert!(!running.has_ended(TICK));
        let (root, pid) = (Root::live(), running.pid());
        let mut end =
            TreeEnd { began: Instant::now().checked_sub(PARENTS_TOO), ..TreeEnd::default() };
        while !running.has_ended(TICK) {
            end.kill(&root, pid);
        }
        assert!(!running.status().unwrap().success());
        assert!(table::tree(&root, pid).unwrap().is_empty());
    }

    /// Asserts that the programs which a killed shell leaves are ended: one in the background,
    /// which ignores SIGINT, and a child of another shell.
    #[test]
    fn what_a_command_leaves_is_ended() {
        let folder = tempfile::tempdir().unwrap();
        let script = "sleep 1000 & echo $! > pid; (sleep 1000; true) & wait";
        let words = ["-C", &folder.path().to_string_lossy(), "sh", "-c", script];
        let words: Vec<OsString> = words.iter().map(OsString::from).collect();
        let signals = Signals::hold().unwrap();
        let mut running = signals.start(&Policy::Default, &"env".into(), &words).unwrap();
        let root = Root::live();
        let recorded = loop {
            let found = table::tree(&root, running.pid()).unwrap();
            if found.iter().filter(|process| process.name == "sleep").count() == 2 {
                break found;
            }
            assert!(running.age() < Duration::from_secs(60), "the programs do not start");
            assert!(!running.has_ended(TICK));
        };
        running.signal(SIGKILL);
        assert!(!running.status().unwrap().success());
        assert!(recorded.iter().any(|process| process.runs(&root).unwrap()));
        end_remaining(&root, &recorded);
        assert!(!recorded.iter().any(|process| process.runs(&root).unwrap()));
    }
}
