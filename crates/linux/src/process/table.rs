//! Processes and their descendants. A process is identified by its ID and its start time.

use crate::{
    machine::{id_list::IdList, node::size},
    root::{Root, RootError},
    stop_flag::StopFlag,
};
use interleaf_procfs::{stat::Stat, status};
use std::{
    cell::OnceCell,
    collections::{BTreeMap, BTreeSet},
};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Process {
    pub pid: u32,
    /// The process ID of the parent or, after its end, of the process that adopted this one.
    pub parent: u32,
    /// The ID of the session leader; 0 if it is in another PID namespace (`docker exec`).
    pub session: u32,
    /// The command name, at most 15 bytes.
    pub name: String,
    /// Start time, clock ticks after boot.
    pub start_ticks: u64,
    /// True when the process has ended, but its parent has not yet waited for it.
    pub is_zombie: bool,
}

impl Process {
    /// Returns the ID and the start time of the process. Together they are unique, while IDs are
    /// reused.
    pub fn identity(&self) -> (u32, u64) {
        (self.pid, self.start_ticks)
    }

    /// True while this process runs. False once it has ended, also while it is a zombie, and also
    /// if another process has the same ID now.
    ///
    /// # Errors
    /// When the files of the process in `/proc` cannot be read or parsed.
    pub fn runs(&self, root: &Root) -> Result<bool, RootError> {
        let now = visible(root, self.pid)?;
        Ok(now.is_some_and(|now| now.identity() == self.identity() && !now.is_zombie))
    }
}

/// Returns the process `pid`; `None` if it does not exist.
///
/// # Errors
/// When its `stat` cannot be read or parsed.
pub fn process(root: &Root, pid: u32) -> Result<Option<Process>, RootError> {
    let path = format!("/proc/{pid}/stat");
    let Some(text) = root.peek(&path)? else { return Ok(None) };
    let found = parse(&text).filter(|process| process.pid == pid);
    let content = || RootError::Content { path, text, expected: "a line of a process" };
    found.map(Some).ok_or_else(content)
}

/// Returns the suffix `PID-TICKS` of the names of control groups that the process `pid` creates:
/// the process's ID and start time. From the suffix of a leftover group, `has_owner_ended` finds
/// out whether the process that created the group has ended, even if the ID was reused.
///
/// # Errors
/// The errors of [`process`].
pub fn owner_suffix(root: &Root, pid: u32) -> Result<String, RootError> {
    let ticks = process(root, pid)?.map_or(0, |own| own.start_ticks);
    Ok(format!("{pid}-{ticks}"))
}

/// True if `suffix` is an [`owner_suffix`] of a process that does not exist any more.
///
/// # Errors
/// The errors of [`process`].
pub fn has_owner_ended(root: &Root, suffix: &str) -> Result<bool, RootError> {
    let Some((pid, ticks)) = suffix.split_once('-') else { return Ok(false) };
    let (Ok(pid), Ok(ticks)) = (pid.parse::<u32>(), ticks.parse::<u64>()) else { return Ok(false) };
    Ok(process(root, pid)?.is_none_or(|process| process.start_ticks != ticks))
}

/// True when all threads of a process are exiting or have exited, so that it executes no more of
/// its program. False if the process does not exist.
///
/// The kernel closes the descriptors of an exiting process before wait(2) reports the end of the
/// process. A caller whose pipe to a process was closed can therefore find out by this function
/// whether the process is ending.
///
/// # Errors
/// When the threads of the process cannot be read.
pub fn is_exiting(root: &Root, pid: u32) -> Result<bool, RootError> {
    let folder = format!("/proc/{pid}/task");
    let threads = root.peek_names(&folder)?;
    for thread in &threads {
        // The file does not exist if the thread has ended since the folder was read.
        let Some(text) = root.peek(&format!("{folder}/{thread}/stat"))? else { continue };
        let stat = Stat::parse(text.as_bytes());
        if !stat.and_then(|stat| stat.is_exiting()).unwrap_or(false) {
            return Ok(false);
        }
    }
    Ok(!threads.is_empty())
}

fn parse(text: &str) -> Option<Process> {
    let stat = Stat::parse(text.as_bytes())?;
    Some(Process {
        pid: stat.pid,
        name: String::from_utf8_lossy(stat.name).into_owned(),
        is_zombie: stat.is_zombie(),
        parent: stat.parent()?,
        session: stat.session()?,
        start_ticks: stat.start_ticks()?,
    })
}

/// Returns a process and its descendants, parents before children; nothing if the process does not
/// exist. Processes hidden from this user (`hidepid` of proc(5)) are left out.
///
/// # Errors
/// When `/proc` cannot be read.
pub fn tree(root: &Root, pid: u32) -> Result<Vec<Process>, RootError> {
    Ok(ProcessTable::read(root, &StopFlag::default())?.tree(pid))
}

/// The processes of a machine, as one pass over `/proc` finds them.
#[derive(Clone, Debug, Default)]
pub struct ProcessTable {
    processes: BTreeMap<u32, Process>,
    children: BTreeMap<u32, Vec<u32>>,
}

impl ProcessTable {
    /// Reads the file `stat` of each process once. Ends early if `stop` is set.
    ///
    /// # Errors
    /// When `/proc` cannot be read.
    pub fn read(root: &Root, stop: &StopFlag) -> Result<Self, RootError> {
        let mut table = Self::default();
        for pid in root.peek_names("/proc")?.iter().filter_map(|name| name.parse().ok()) {
            if stop.is_set() {
                break;
            }
            if let Some(process) = visible(root, pid)? {
                table.children.entry(process.parent).or_default().push(pid);
                table.processes.insert(pid, process);
            }
        }
        Ok(table)
    }

    pub fn get(&self, pid: u32) -> Option<&Process> {
        self.processes.get(&pid)
    }

    /// Returns a process and its descendants, parents before children; nothing if the process does
    /// not exist.
    pub fn tree(&self, pid: u32) -> Vec<Process> {
        self.tree_of(pid).into_iter().cloned().collect()
    }

    /// Returns those processes among `pid` and its descendants that `is_wanted` selects, and all
    /// descendants of the selected processes, parents before children.
    pub fn within(&self, pid: u32, is_wanted: impl Fn(&Process) -> bool) -> Vec<Process> {
        let mut found = BTreeSet::new();
        let mut all = self.tree_of(pid);
        all.retain(|it| (found.contains(&it.parent) || is_wanted(it)) && found.insert(it.pid));
        all.into_iter().cloned().collect()
    }

    fn tree_of(&self, pid: u32) -> Vec<&Process> {
        let mut found: Vec<&Process> = self.processes.get(&pid).into_iter().collect();
        // In the files of a captured machine, parents may form a cycle, so visit each process only
        // once.
        let mut seen = BTreeSet::from([pid]);
        let mut at = 0;
        while let Some(parent) = found.get(at) {
            let children = self.children.get(&parent.pid).into_iter().flatten();
            let new: Vec<u32> = children.copied().filter(|pid| seen.insert(*pid)).collect();
            found.extend(new.iter().filter_map(|pid| self.processes.get(pid)));
            at += 1;
        }
        found
    }
}

/// Returns the process `pid`; `None` if it does not exist or is hidden from this user.
fn visible(root: &Root, pid: u32) -> Result<Option<Process>, RootError> {
    match process(root, pid) {
        Err(why) if why.is_permission() => Ok(None),
        process => process,
    }
}

/// The processes of a machine. The table of all processes is read when it is first requested, and
/// not again.
#[derive(Debug)]
pub struct Snapshot<'a> {
    root: &'a Root,
    stop: &'a StopFlag,
    table: OnceCell<ProcessTable>,
}

impl<'a> Snapshot<'a> {
    pub fn new(root: &'a Root, stop: &'a StopFlag) -> Self {
        Self { root, stop, table: OnceCell::new() }
    }

    pub fn root(&self) -> &'a Root {
        self.root
    }

    /// Returns the table of all processes.
    ///
    /// # Errors
    /// When `/proc` cannot be read.
    pub fn table(&self) -> Result<&ProcessTable, RootError> {
        if let Some(table) = self.table.get() {
            return Ok(table);
        }
        let table = ProcessTable::read(self.root, self.stop)?;
        Ok(self.table.get_or_init(|| table))
    }

    /// Returns the process `pid`. Reads only the file `stat` of the process, or no file if the
    /// table was already read.
    ///
    /// # Errors
    /// When the process's file cannot be read.
    pub fn process(&self, pid: u32) -> Result<Option<Process>, RootError> {
        match self.table.get() {
            Some(table) => Ok(table.get(pid).cloned()),
            None => visible(self.root, pid),
        }
    }
}

/// The anonymous memory of a process, without files and shared memory, bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AnonymousMemory {
    pub resident: u64,
    /// Memory in swap; 0 if the kernel has no swap.
    pub swapped: u64,
}

/// Returns the anonymous memory of a process. `None` if the process does not exist or has ended.
///
/// # Errors
/// When its `status` cannot be read.
pub fn anonymous_memory(root: &Root, pid: u32) -> Result<Option<AnonymousMemory>, RootError> {
    let status = root.peek(&format!("/proc/{pid}/status"))?.unwrap_or_default();
    let swapped = size(&status, "VmSwap").unwrap_or(0);
    Ok(size(&status, "RssAnon").map(|resident| AnonymousMemory { resident, swapped }))
}

/// Returns this process's peak resident memory, bytes; `None` if `status` does not show it.
pub fn own_resident_max(root: &Root) -> Option<u64> {
    let status = root.peek("/proc/self/status").ok().flatten().unwrap_or_default();
    size(&status, "VmHWM")
}

/// Returns the nodes on which a process may allocate; `None` if the process does not exist, or the
/// kernel has no cpusets.
///
/// # Errors
/// When its `status` cannot be read or parsed.
pub fn allowed_nodes(root: &Root, pid: &str) -> Result<Option<IdList>, RootError> {
    allowed(root, pid, "Mems_allowed_list", "a list of nodes")
}

/// Returns the CPUs on which a process may run; `None` if the process does not exist.
///
/// # Errors
/// When its `status` cannot be read or parsed.
pub fn allowed_cpus(root: &Root, pid: &str) -> Result<Option<IdList>, RootError> {
    allowed(root, pid, "Cpus_allowed_list", "a list of CPUs")
}

fn allowed(
    root: &Root,
    pid: &str,
    name: &str,
    expected: &'static str,
) -> Result<Option<IdList>, RootError> {
    let path = format!("/proc/{pid}/status");
    let Some(text) = root.peek(&path)? else { return Ok(None) };
    let Some(value) = status::field(text.as_bytes(), name) else { return Ok(None) };
    let value = String::from_utf8_lossy(value);
    let list = IdList::of_kernel(&value);
    list.map(Some).map_err(|_| RootError::Content { path, text: value.into_owned(), expected })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;
    use std::{
        io::Read as _,
        process::{Command, Stdio},
    };

    #[test]
    fn a_line_is_read() {
        let line = "42 (a) (b) Z 7 6 5 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 9876 0 0";
        let name = "a) (b".to_string();
        let process =
            Process { pid: 42, parent: 7, session: 5, name, start_ticks: 9876, is_zombie: true };
        assert_eq!(parse(line), Some(process));
        for wrong in ["", "42 a S 1", "42 (a) S", "x (a) S 1 1 1 0 -1 0 0 0 0 0 0 0 0 0 0 0 0 0 1"]
        {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn children_are_found() {
        let root = Root::live();
        let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        let me = std::process::id();
        let tree = tree(&root, me).unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(tree[0].pid, me);
        assert!(tree.iter().any(|it| it.pid == child.id() && it.parent == me), "{tree:?}");
        assert_eq!(process(&root, child.id()).unwrap(), None, "it was waited for");
    }

    #[test]
    fn a_process_is_exiting_until_it_was_waited_for() {
        let root = Root::live();
        let mut shell = Command::new("sh");
        shell.args(["-c", "read line"]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = shell.spawn().unwrap();
        assert!(!is_exiting(&root, child.id()).unwrap());
        drop(child.stdin.take());
        // The shell closes its stdout only when it exits, so `read` ends after the exit began.
        let rest = child.stdout.take().unwrap().read(&mut [0]).unwrap();
        assert!(rest == 0 && is_exiting(&root, child.id()).unwrap());
        child.wait().unwrap();
        assert!(!is_exiting(&root, child.id()).unwrap());
    }

    #[test]
    fn some_node_and_cpu_are_allowed() {
        assert!(!allowed_cpus(&Root::live(), "self").unwrap().unwrap().is_empty());
        assert!(!allowed_nodes(&Root::live(), "self").unwrap().unwrap().is_empty());
    }
}
