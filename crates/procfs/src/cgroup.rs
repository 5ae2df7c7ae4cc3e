//! Control groups: parsers of `/proc/PID/cgroup` (cgroups(7)), and the names and contents of the
//! memory controller's files.
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
    /// A tree for each controller.
    One,
    /// One tree for all controllers.
    Two,
}

impl Version {
    /// The name of the file with the hard memory limit of a group. If reclaim cannot keep a group
    /// below the limit, the kernel kills processes of the group.
    pub const fn limit_file(self) -> &'static str {
        match self {
            Self::One => "memory.limit_in_bytes",
            Self::Two => "memory.max",
        }
    }

    /// The names of the files with memory limits: the hard limit, and in version 2 also
    /// `memory.high`. Above `memory.high` the kernel reclaims memory of the group and throttles its
    /// processes.
    pub const fn limit_files(self) -> &'static [&'static str] {
        match self {
            Self::One => &["memory.limit_in_bytes"],
            Self::Two => &["memory.max", "memory.high"],
        }
    }

    /// The name of the file with the memory that is charged to a group, bytes.
    pub const fn usage_file(self) -> &'static str {
        match self {
            Self::One => "memory.usage_in_bytes",
            Self::Two => "memory.current",
        }
    }

    /// The name of the file with the most memory that was ever charged to a group, bytes.
    pub const fn peak_file(self) -> &'static str {
        match self {
            Self::One => "memory.max_usage_in_bytes",
            Self::Two => "memory.peak",
        }
    }

    /// The name of the file that counts OOM kills; [`oom_kills`] parses its text.
    pub const fn oom_kills_file(self) -> &'static str {
        match self {
            Self::One => "memory.oom_control",
            Self::Two => "memory.events",
        }
    }
}

/// The number of processes that the OOM killer has ended in a group, from the text of the file
/// [`Version::oom_kills_file`]; `None` where the kernel does not count them (before Linux 4.13).
pub fn oom_kills(text: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix("oom_kill ")?.trim().parse().ok())
}

/// The name of the file with the processes of a group. A process whose ID is written to the file
/// enters the group.
pub const PROCESSES_FILE: &str = "cgroup.procs";

/// The name of the file with the controllers that a group of version 2 enables for its children.
/// Writing `+memory` enables the memory controller.
pub const SUBTREE_CONTROL_FILE: &str = "cgroup.subtree_control";

/// The name of the file with the controllers that are available in a group of version 2.
pub const CONTROLLERS_FILE: &str = "cgroup.controllers";

/// A version-1 limit of at least `NO_LIMIT_BYTES` bytes means no limit. A group without a limit has
/// the limit `i64::MAX`, which the kernel rounds down to whole pages of 4 KiB to 64 KiB.
/// `NO_LIMIT_BYTES` is rounded down to 1 MiB, so it is at most the kernel's number for each page
/// size.
const NO_LIMIT_BYTES: u64 = i64::MAX as u64 & !0xF_FFFF;

/// A memory limit, as the kernel writes it in a file such as `memory.max`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    Bytes(u64),
    /// `max` in version 2, a number of at least `NO_LIMIT_BYTES` in version 1.
    Unlimited,
}

impl Limit {
    /// Parses the content of a limit file; `None` when it is neither a number nor `max`.
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
    /// The path of the group from the root of the tree. It begins with `/..` when the group is
    /// outside the reader's cgroup namespace.
    pub path: &'a str,
}

impl<'a> Membership<'a> {
    /// Parses a line `ID:CONTROLLERS:PATH`; `None` when one of these fields is missing.
    pub fn parse(line: &'a str) -> Option<Self> {
        let mut parts = line.splitn(3, ':').skip(1);
        Some(Self { controllers: parts.next()?, path: parts.next()? })
    }

    /// True when this line is of `version`, and the tree of the line has `controller`. The line of
    /// version 2 names no controllers, because version 2 has one tree for all controllers. For this
    /// line, the result is therefore true for each controller.
    pub fn has(&self, version: Version, controller: &str) -> bool {
        match version {
            Version::One => self.controllers.split(',').any(|name| name == controller),
            Version::Two => self.controllers.is_empty(),
        }
    }

    /// True when the group is inside the reader's cgroup namespace.
    pub fn is_visible(&self) -> bool {
        !self.path.split('/').any(|part| part == "..")
    }
}

/// True when `controllers`, a list separated by spaces such as the content of `cgroup.controllers`,
/// has `controller`.
pub fn lists(controllers: &str, controller: &str) -> bool {
    controllers.split_ascii_whitespace().any(|name| name == controller)
}

/// The process IDs in a text of `cgroup.procs`, without malformed lines and without processes
/// outside the reader's PID namespace, which the kernel writes as 0.
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
