//! Control groups: parsers of `/proc/PID/cgroup` (cgroups(7)), and names of the memory controller's
//! files with parsers of their contents.
//!
//! Version 1 has a tree of groups for each controller; version 2 has one tree for all controllers:
//!
//! ```text
//! 4:memory:/jobs/one     version 1: hierarchy, controllers, path
//! 0::/user.slice         version 2
//! ```

/// A version of control groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// One tree of groups for each controller.
    One,
    /// One tree of groups for all controllers.
    Two,
}

impl Version {
    /// The name of the file that has the hard memory limit of a group. At this limit, the kernel
    /// reclaims memory of the group. If this fails, the OOM killer kills processes of the group.
    pub const fn limit_file(self) -> &'static str {
        match self {
            Self::One => "memory.limit_in_bytes",
            Self::Two => "memory.max",
        }
    }

    /// The names of the files that have memory limits of a group: the hard limit, and in version 2
    /// also `memory.high`. If a group has more memory than `memory.high`, the kernel reclaims
    /// memory of the group and throttles its processes.
    pub const fn limit_files(self) -> &'static [&'static str] {
        match self {
            Self::One => &["memory.limit_in_bytes"],
            Self::Two => &["memory.max", "memory.high"],
        }
    }

    /// The name of the file that has the memory that is charged to a group, bytes.
    pub const fn usage_file(self) -> &'static str {
        match self {
            Self::One => "memory.usage_in_bytes",
            Self::Two => "memory.current",
        }
    }

    /// The name of the file that has the largest memory that was ever charged to a group, bytes.
    pub const fn peak_file(self) -> &'static str {
        match self {
            Self::One => "memory.max_usage_in_bytes",
            Self::Two => "memory.peak",
        }
    }

    /// The name of the file that has the number of OOM kills in a group. [`oom_kills`] parses its
    /// text.
    pub const fn oom_kills_file(self) -> &'static str {
        match self {
            Self::One => "memory.oom_control",
            Self::Two => "memory.events",
        }
    }
}

/// Returns the number of processes that the OOM killer has killed in a group. `text` is the content
/// of the file [`Version::oom_kills_file`]. `None` if the kernel does not count these kills (before
/// Linux 4.13).
pub fn oom_kills(text: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix("oom_kill ")?.trim().parse().ok())
}

/// The name of the file that lists the processes of a group. A process enters the group if its ID
/// is written to this file.
pub const PROCESSES_FILE: &str = "cgroup.procs";

/// The name of the file that lists the controllers that a group of version 2 enables for its
/// children. A program writes `+memory` to enable the memory controller.
pub const SUBTREE_CONTROL_FILE: &str = "cgroup.subtree_control";

/// The name of the file that lists the controllers that are available in a group of version 2.
pub const CONTROLLERS_FILE: &str = "cgroup.controllers";

/// The least number that stands for no limit in version 1. A group without a limit has the limit
/// `i64::MAX`, rounded down to whole pages, which have 4 KiB to 64 KiB. `NO_LIMIT_BYTES` is rounded
/// down to 1 MiB, so it is at most the kernel's number for each page size.
const NO_LIMIT_BYTES: u64 = i64::MAX as u64 & !0xF_FFFF;

/// A memory limit, as the kernel writes it in a file such as `memory.max`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    Bytes(u64),
    /// `max` in version 2; a number of at least `NO_LIMIT_BYTES` in version 1.
    Unlimited,
}

impl Limit {
    /// Parses the content of a limit file; `None` if it is neither a number nor `max`.
    pub fn parse(text: &str) -> Option<Self> {
        let bytes = if text == "max" { u64::MAX } else { text.parse().ok()? };
        Some(if bytes < NO_LIMIT_BYTES { Self::Bytes(bytes) } else { Self::Unlimited })
    }

    /// The limit in bytes; `None` if the group has no limit.
    pub const fn bytes(self) -> Option<u64> {
        match self {
            Self::Bytes(bytes) => Some(bytes),
            Self::Unlimited => None,
        }
    }
}

/// A line of `/proc/PID/cgroup`: the group of a process in one tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Membership<'a> {
    /// The controllers of the tree, separated by commas; empty for version 2.
    pub controllers: &'a str,
    /// The path of the group from the root of the tree. It begins with `/..` if the group is
    /// outside the reader's cgroup namespace.
    pub path: &'a str,
}

impl<'a> Membership<'a> {
    /// Parses a line `ID:CONTROLLERS:PATH`; `None` if one of these fields is missing.
    pub fn parse(line: &'a str) -> Option<Self> {
        let mut parts = line.splitn(3, ':').skip(1);
        Some(Self { controllers: parts.next()?, path: parts.next()? })
    }

    /// True if this line is of `version` and its tree has `controller`. The line of version 2 names
    /// no controllers, because its tree is for all controllers. Therefore the result is true for
    /// every controller in version 2.
    pub fn has(&self, version: Version, controller: &str) -> bool {
        match version {
            Version::One => self.controllers.split(',').any(|name| name == controller),
            Version::Two => self.controllers.is_empty(),
        }
    }

    /// True if the group is inside the reader's cgroup namespace.
    pub fn is_visible(&self) -> bool {
        !self.path.split('/').any(|part| part == "..")
    }
}

/// True if `controller` is in `controllers`, a list separated by spaces such as the content of
/// `cgroup.controllers`.
pub fn lists(controllers: &str, controller: &str) -> bool {
    controllers.split_ascii_whitespace().any(|name| name == controller)
}

/// Returns the process IDs in `text`, the content of `cgroup.procs`. Leaves out malformed lines,
/// and processes outside the reader's PID namespace, which the kernel writes as 0.
pub fn processes(text: &str) -> impl Iterator<Item = u32> {
    text.lines().filter_map(|line| line.trim().parse().ok()).filter(|pid| *pid != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_of_both_versions_are_read() {
        let one = Membership::parse("4:cpuset,memory:/a:b/c").expect("a line");
        assert_eq!((one.controllers, one.path), ("cpuset,memory", "/a:b/c"));
        assert!(one.has(Version::One, "memory") && !one.has(Version::One, "mem"));
        assert!(!one.has(Version::Two, "memory"));
        let two = Membership::parse("0::/../x").expect("a line");
        assert!(two.has(Version::Two, "memory") && !two.is_visible());
        assert_eq!(Membership::parse("0:"), None);
    }

    #[test]
    fn oom_kills_are_read() {
        assert_eq!(oom_kills("oom_kill_disable 0\nunder_oom 0\noom_kill 2\n"), Some(2));
        let events = "low 0\nhigh 7\nmax 12\noom 3\noom_kill 1\noom_group_kill 0\n";
        assert_eq!(oom_kills(events), Some(1));
        assert_eq!(oom_kills("oom_kill_disable 0\nunder_oom 0\n"), None);
    }

    #[test]
    fn limits_are_read() {
        let bytes = |text| Limit::parse(text).map(Limit::bytes);
        let table = [
            ("4096", Some(Some(4096))),
            ("max", Some(None)),
            ("9223372036854771712", Some(None)),
            ("many", None),
        ];
        for (text, limit) in table {
            assert_eq!(bytes(text), limit, "{text}");
        }
        assert!(lists("cpuset cpu memory\n", "memory") && !lists("memory.x", "memory"));
        assert_eq!(processes("7\n0\n9\n").collect::<Vec<_>>(), [7, 9]);
    }
}
