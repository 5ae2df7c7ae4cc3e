//! Processes: who started whom, and whether one is still the one it was.

use crate::{
    list::List,
    root::{Root, RootError},
};

/// A process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Process {
    /// Its number.
    pub pid: u32,
    /// Who started it, or who took it over.
    pub parent: u32,
    /// Its name, of at most 15 bytes.
    pub name: String,
    /// When it began, ticks after boot: with the number it names a process for good.
    pub start_ticks: u64,
    /// Whether it has ended and waits to be noticed.
    pub is_zombie: bool,
}

/// A process; `None` when there is none of that number.
///
/// # Errors
/// When its line cannot be read.
pub fn process(root: &Root, pid: u32) -> Result<Option<Process>, RootError> {
    let path = format!("/proc/{pid}/stat");
    let Some(text) = root.peek(&path)? else { return Ok(None) };
    let found = parse(&text).filter(|process| process.pid == pid);
    let content = || RootError::Content { path, text, expected: "a line of a process" };
    found.map(Some).ok_or_else(content)
}

/// A line of `/proc/PID/stat` (proc_pid_stat(5)). The name is in brackets and can have any
/// character in it, brackets too.
fn parse(text: &str) -> Option<Process> {
    let (pid, rest) = text.split_once(" (")?;
    let (name, rest) = rest.rsplit_once(") ")?;
    let fields: Vec<&str> = rest.split_whitespace().collect();
    Some(Process {
        pid: pid.parse().ok()?,
        name: name.into(),
        // Fields are numbered from 1, and the state is the third.
        is_zombie: matches!(*fields.first()?, "Z" | "X"),
        parent: fields.get(1)?.parse().ok()?,
        start_ticks: fields.get(19)?.parse().ok()?,
    })
}

/// A process and all that it and its children have started, parents before children; empty when
/// there is no such process. Without those that are hidden from this user (`hidepid` of proc(5)).
///
/// # Errors
/// When `/proc` cannot be read.
pub fn tree(root: &Root, pid: u32) -> Result<Vec<Process>, RootError> {
    let mut all = vec![];
    for number in root.peek_names("/proc")?.iter().filter_map(|name| name.parse().ok()) {
        match process(root, number) {
            Err(why) if why.is_permission() => {}
            found => all.extend(found?),
        }
    }
    let mut found: Vec<Process> = all.iter().filter(|it| it.pid == pid).cloned().collect();
    let mut at = 0;
    while at < found.len() {
        let parent = found[at].pid;
        let new = |child: &&Process| {
            child.parent == parent && !found.iter().any(|known| known.pid == child.pid)
        };
        let children: Vec<Process> = all.iter().filter(new).cloned().collect();
        found.extend(children);
        at += 1;
    }
    Ok(found)
}

/// The nodes that a process may have memory of; `None` when there is no such process, or the kernel
/// has no cpusets.
///
/// # Errors
/// When its status cannot be read.
pub fn allowed_nodes(root: &Root, pid: &str) -> Result<Option<List>, RootError> {
    let path = format!("/proc/{pid}/status");
    let Some(text) = root.peek(&path)? else { return Ok(None) };
    let mut lines = text.lines().filter_map(|line| line.strip_prefix("Mems_allowed_list:"));
    let Some(line) = lines.next() else { return Ok(None) };
    let list = List::of_kernel(line);
    list.map(Some).map_err(|_| RootError::Content {
        path,
        text: line.into(),
        expected: "a list of nodes",
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;
    use std::process::{Command, Stdio};

    #[test]
    fn a_line_is_read() {
        let line = "42 (a) (b) Z 7 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 9876 0 0";
        let name = "a) (b".to_string();
        let process = Process { pid: 42, parent: 7, name, start_ticks: 9876, is_zombie: true };
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
    fn some_node_is_allowed() {
        assert!(!allowed_nodes(&Root::live(), "self").unwrap().unwrap().is_empty());
    }
}
