//! Processes: who started whom, and whether one is still the one it was.

use crate::{
    list::List,
    root::{Root, RootError},
};
use std::collections::BTreeMap;

/// A process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Process {
    /// Its number.
    pub pid: u32,
    /// Who started it, or who took it over.
    pub parent: u32,
    /// Its session, by who began that; 0 when that is in another PID namespace (`docker exec`).
    pub session: u32,
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
        session: fields.get(3)?.parse().ok()?,
        start_ticks: fields.get(19)?.parse().ok()?,
    })
}

/// A process and all that it and its children have started, parents before children; empty when
/// there is no such process. Without those that are hidden from this user (`hidepid` of proc(5)).
///
/// # Errors
/// When `/proc` cannot be read.
pub fn tree(root: &Root, pid: u32) -> Result<Vec<Process>, RootError> {
    let (mut found, mut children) = (vec![], BTreeMap::<u32, Vec<Process>>::new());
    for number in root.peek_names("/proc")?.iter().filter_map(|name| name.parse().ok()) {
        match process(root, number) {
            Err(why) if why.is_permission() => {}
            process => match process? {
                Some(process) if process.pid == pid => found.push(process),
                Some(process) => children.entry(process.parent).or_default().push(process),
                None => {}
            },
        }
    }
    let mut at = 0;
    while at < found.len() {
        found.extend(children.remove(&found[at].pid).unwrap_or_default());
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
    allowed(root, pid, "Mems_allowed_list:", "a list of nodes")
}

/// The CPUs that a process may run on; `None` when there is no such process.
///
/// # Errors
/// When its status cannot be read.
pub fn allowed_cpus(root: &Root, pid: &str) -> Result<Option<List>, RootError> {
    allowed(root, pid, "Cpus_allowed_list:", "a list of CPUs")
}

fn allowed(
    root: &Root,
    pid: &str,
    name: &str,
    expected: &'static str,
) -> Result<Option<List>, RootError> {
    let path = format!("/proc/{pid}/status");
    let Some(text) = root.peek(&path)? else { return Ok(None) };
    let Some(line) = text.lines().find_map(|line| line.strip_prefix(name)) else { return Ok(None) };
    let list = List::of_kernel(line);
    list.map(Some).map_err(|_| RootError::Content { path, text: line.into(), expected })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;
    use std::process::{Command, Stdio};

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
    fn some_node_and_cpu_are_allowed() {
        assert!(!allowed_cpus(&Root::live(), "self").unwrap().unwrap().is_empty());
        assert!(!allowed_nodes(&Root::live(), "self").unwrap().unwrap().is_empty());
    }
}
