//! Control groups: the group of a process, and the members, descendants, memory by node, limits and
//! allowed nodes of a group.
//!
//! Version 1 has a tree of groups for each controller; version 2 has one tree for all controllers.
//! A hybrid machine mounts both versions, and version 2 has the controllers that version 1 does not
//! use. Therefore the tree is found for each controller, and a process has one group in each tree.
//!
//! All memory figures of a group include its descendants and are in bytes, in both versions. In
//! version 1, `memory.numa_stat` counts pages and has each figure twice: once for the group itself,
//! and once with its descendants, with the prefix `hierarchical_`.
//!
//! Sources: Linux, Documentation/admin-guide/cgroup-v2.rst, cgroup-v1/memory.rst,
//! cgroup-v1/cpusets.rst; proc(5) for `mountinfo`; cgroups(7) for `/proc/PID/cgroup`.

use crate::{
    machine::id_list::IdList,
    root::{Root, RootError},
};
pub use interleaf_procfs::cgroup::Version;
use interleaf_procfs::{
    cgroup::{CONTROLLERS_FILE, Limit, Membership, PROCESSES_FILE, oom_kills},
    mounts::{Mount, unescaped},
};
use std::collections::BTreeMap;

/// The file that lists the mounts. Each line has the mount point, and the folder of the file system
/// that is mounted at this point.
const MOUNTINFO: &str = "/proc/self/mountinfo";

/// Another file that lists the mounts, but not the mounted folder of each file system. It is read
/// on machines that lack `mountinfo`.
const MOUNTS: &str = "/proc/mounts";

/// The mounted tree of control groups that has a given controller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tree {
    pub version: Version,
    /// The kernel's name of the controller: `memory` or `cpuset`.
    pub controller: &'static str,
    /// The mount point, such as `/sys/fs/cgroup/memory`.
    pub mount: String,
    /// The group that is mounted at the mount point: `/` or, in a container, the group of the
    /// container.
    pub top: String,
}

/// The mounted trees that have the controllers for memory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trees {
    /// The tree with the controller `memory`; `None` if no such tree is mounted.
    pub memory: Option<Tree>,
    /// The tree with the controller `cpuset`; `None` if no such tree is mounted.
    pub cpuset: Option<Tree>,
    /// True when trees of both versions are mounted.
    pub hybrid: bool,
}

/// A control group in one of the trees.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    pub tree: Tree,
    /// The path below the mount point, such as `/system.slice/x`; `/` for the root group.
    pub name: String,
}

/// Memory of a group and its descendants on a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OnNode {
    pub node: u32,
    pub anon_bytes: u64,
    /// Page cache, bytes.
    pub file_bytes: u64,
    /// Locked pages, bytes. Only version 1 counts them separately. Version 2 counts them as
    /// anonymous memory or page cache, so this field is then 0.
    pub locked_bytes: u64,
}

impl OnNode {
    /// Returns the anonymous memory, page cache and locked pages of the group on the node, bytes.
    pub fn bytes(&self) -> u64 {
        self.anon_bytes.saturating_add(self.file_bytes).saturating_add(self.locked_bytes)
    }
}

/// The memory that a group uses, and its limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Usage {
    /// Memory of the group and its descendants, bytes; `None` for the root group of version 2.
    pub used_bytes: Option<u64>,
    /// The lowest hard limit (`memory.max` or `memory.limit_in_bytes`) of the group and its
    /// ancestors, bytes; `None` if there is none. In a container, ancestors outside the container
    /// are not visible.
    pub limit_bytes: Option<u64>,
}

/// A memory limit of a group, and the memory that counts toward it. The limit applies to the
/// processes of the group and of its descendants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Headroom {
    /// The group that has the limit.
    pub group: Group,
    /// The name of the file with the limit: `memory.max`, `memory.high` or `memory.limit_in_bytes`.
    pub file: &'static str,
    pub limit_bytes: u64,
    /// Memory charged to the group and its descendants, not reclaimable without swap, bytes.
    pub used_bytes: u64,
}

impl Headroom {
    /// Returns the unused part of the limit, bytes.
    pub fn bytes(&self) -> u64 {
        self.limit_bytes.saturating_sub(self.used_bytes)
    }

    /// Returns the path of the file with the limit.
    pub fn path(&self) -> String {
        join(&self.group.folder(), self.file)
    }
}

/// Returns the smallest headroom (unused part of a memory limit) among the calling process's group
/// and its ancestors. If several groups have the same headroom, returns that of the group nearest
/// to the process. Returns `None` if no group limits memory.
///
/// # Errors
/// When an existing file cannot be read or parsed.
pub fn headroom(root: &Root) -> Result<Option<Headroom>, RootError> {
    let Some(tree) = Trees::read(root)?.and_then(|trees| trees.memory) else { return Ok(None) };
    // The group of the process may be invisible, as in a container with another cgroup namespace.
    // Then the root group of the mount applies.
    let group = tree.group_of(root, None)?.unwrap_or_else(|| tree.group("/"));
    group.headroom(root)
}

impl Trees {
    /// Finds the mounted trees; `None` if no file lists the mounts.
    ///
    /// # Errors
    /// When a file cannot be read, or a line is malformed.
    pub fn read(root: &Root) -> Result<Option<Self>, RootError> {
        let Some(mounts) = cgroup_mounts(root)? else { return Ok(None) };
        let has = |version| mounts.iter().any(|mount| mount.version == version);
        let hybrid = has(Version::One) && has(Version::Two);
        let mut trees = Self { hybrid, ..Self::default() };
        for mount in mounts {
            let has = match mount.version {
                Version::One => mount.options,
                Version::Two => root.text(&join(&mount.at, CONTROLLERS_FILE))?,
            };
            let has: Vec<&str> =
                has.iter().flat_map(|has| has.split([',', ' '])).map(str::trim).collect();
            for (controller, tree) in [("memory", &mut trees.memory), ("cpuset", &mut trees.cpuset)]
            {
                // A tree may be mounted several times, and a mount may show only a subtree. Use the
                // first mount, which the system made at boot.
                if tree.is_none() && has.contains(&controller) {
                    let (version, mount, top) =
                        (mount.version, mount.at.clone(), mount.top.clone());
                    *tree = Some(Tree { version, controller, mount, top });
                }
            }
        }
        Ok(Some(trees))
    }
}

impl Tree {
    /// Returns the group with the path `name` below the mount point; `/` is the group at the mount
    /// point. The group need not exist.
    pub fn group(&self, name: &str) -> Group {
        Group { tree: self.clone(), name: format!("/{}", name.trim_matches('/')) }
    }

    /// Finds the group of `process`, or of the calling process if `process` is `None`. Returns
    /// `None` if the process does not exist, or its group is not below the mount point.
    ///
    /// # Errors
    /// When the process's file cannot be read, or a line is malformed.
    pub fn group_of(&self, root: &Root, process: Option<u32>) -> Result<Option<Group>, RootError> {
        let path = format!("/proc/{}/cgroup", process.map_or("self".into(), |id| id.to_string()));
        let Some(text) = root.text(&path)? else { return Ok(None) };
        for (at, line) in text.lines().enumerate() {
            let Some(found) = Membership::parse(line) else {
                return Err(malformed_line(&path, at, line, "a tree, its controllers and a group"));
            };
            if found.has(self.version, self.controller) && found.is_visible() {
                return Ok(below(&self.top, found.path).map(|name| self.group(name)));
            }
        }
        Ok(None)
    }
}

impl Group {
    pub fn folder(&self) -> String {
        join(&self.tree.mount, self.name.trim_matches('/'))
    }

    pub fn exists(&self, root: &Root) -> bool {
        root.has(&join(&self.folder(), PROCESSES_FILE))
    }

    /// Returns the parent group; `None` for the topmost visible group.
    pub fn parent(&self) -> Option<Self> {
        let name = self.name.trim_end_matches('/');
        let (above, _) = name.rsplit_once('/')?;
        Some(self.tree.group(above))
    }

    /// True if this group is `other` or a descendant of `other`.
    pub fn is_within(&self, other: &Self) -> bool {
        let below = self.name.strip_prefix(other.name.trim_end_matches('/'));
        self.tree == other.tree
            && below.is_some_and(|below| below.is_empty() || below.starts_with('/'))
    }

    /// Finds the descendants of the group, parents before children.
    ///
    /// # Errors
    /// When a folder cannot be listed.
    pub fn descendants(&self, root: &Root) -> Result<Vec<Self>, RootError> {
        let mut found = vec![];
        let mut open = vec![self.clone()];
        while let Some(group) = open.pop() {
            let folder = group.folder();
            for name in root.names(&folder)?.into_iter().rev() {
                let inner = self.tree.group(&join(&group.name, &name));
                if inner.exists(root) {
                    open.push(inner);
                }
            }
            found.push(group);
        }
        // The first element is this group itself, which is not a descendant.
        Ok(found.split_off(1))
    }

    /// Returns the processes in the group itself, without those of its descendants, in the kernel's
    /// order; none if the group does not exist. Processes outside the reader's PID namespace are
    /// left out.
    ///
    /// # Errors
    /// When the file cannot be read, as in a threaded group of version 2, or a line is not a
    /// number.
    pub fn processes(&self, root: &Root) -> Result<Vec<u32>, RootError> {
        let path = join(&self.folder(), PROCESSES_FILE);
        let text = root.text(&path)?.unwrap_or_default();
        let mut processes = vec![];
        for (at, line) in text.lines().enumerate() {
            match line.trim().parse() {
                Ok(0) => {}
                Ok(process) => processes.push(process),
                Err(_) => return Err(malformed_line(&path, at, line, "the number of a process")),
            }
        }
        Ok(processes)
    }

    /// Returns the memory of the group and its descendants by node. `None` if the kernel does not
    /// count memory by node (version 2 before Linux 5.10, the root group of version 2, and kernels
    /// without NUMA).
    ///
    /// # Errors
    /// When the file cannot be read, or a line is malformed.
    pub fn on_nodes(&self, root: &Root) -> Result<Option<Vec<OnNode>>, RootError> {
        let path = join(&self.folder(), "memory.numa_stat");
        let Some(text) = root.text(&path)? else { return Ok(None) };
        let unit = match self.tree.version {
            Version::One => page_bytes(root)?,
            Version::Two => 1,
        };
        numa_stat(&path, &text, self.tree.version, unit).map(Some)
    }

    /// Returns the memory of the group, and its limit.
    ///
    /// # Errors
    /// When a file cannot be read, or is not a number.
    pub fn usage(&self, root: &Root) -> Result<Usage, RootError> {
        let used_bytes = self.used_bytes(root)?;
        let mut limits = vec![];
        for group in self.with_ancestors() {
            limits.extend(group.limit(root, self.tree.version.limit_file())?);
        }
        Ok(Usage { used_bytes, limit_bytes: limits.into_iter().min() })
    }

    /// True if the OOM killer has ended a process of the group; false without a count of OOM kills.
    pub fn has_oom_killed(&self, root: &Root) -> bool {
        let text = root.text(&join(&self.folder(), self.tree.version.oom_kills_file()));
        text.ok().flatten().as_deref().and_then(oom_kills) > Some(0)
    }

    fn used_bytes(&self, root: &Root) -> Result<Option<u64>, RootError> {
        root.number(&join(&self.folder(), self.tree.version.usage_file()))
    }

    /// Returns the limit in `file` of this group alone, bytes; `None` if it has no such limit.
    fn limit(&self, root: &Root, file: &str) -> Result<Option<u64>, RootError> {
        let path = join(&self.folder(), file);
        let found = root.value(&path, "a number of bytes, or max", Limit::parse)?;
        Ok(found.and_then(Limit::bytes))
    }

    /// Returns the group and its visible ancestors, the nearest ancestor first.
    fn with_ancestors(&self) -> impl Iterator<Item = Self> {
        std::iter::successors(Some(self.clone()), Self::parent)
    }

    /// Returns the smallest headroom (unused part of a memory limit) among this group and its
    /// ancestors; `None` without a limit.
    ///
    /// # Errors
    /// When a file cannot be read, or is not a number.
    pub fn headroom(&self, root: &Root) -> Result<Option<Headroom>, RootError> {
        let mut least: Option<Headroom> = None;
        for group in self.with_ancestors() {
            // Before Linux 5.11, a parent group of version 1 could have the value 0 in
            // `memory.use_hierarchy`. Such a parent is not charged for its children, so its limit
            // does not apply to them.
            let file = join(&group.folder(), "memory.use_hierarchy");
            if group != *self && root.number(&file)? == Some(0) {
                break;
            }
            for file in self.tree.version.limit_files() {
                let Some(limit_bytes) = group.limit(root, file)? else { continue };
                let charged = group.used_bytes(root)?.unwrap_or(0);
                let used_bytes = charged.saturating_sub(group.reclaimable_bytes(root)?);
                let found = Headroom { group: group.clone(), file, limit_bytes, used_bytes };
                if least.as_ref().is_none_or(|least| found.bytes() < least.bytes()) {
                    least = Some(found);
                }
            }
        }
        Ok(least)
    }

    /// Returns the bytes that the kernel reclaims before it kills a process: page cache on the LRU
    /// lists of files, and, in version 2, reclaimable slab. Pages of tmpfs do not count, because
    /// they are on the LRU lists of anonymous memory.
    fn reclaimable_bytes(&self, root: &Root) -> Result<u64, RootError> {
        let path = join(&self.folder(), "memory.stat");
        let keys: &[&str] = match self.tree.version {
            Version::One => &["total_inactive_file", "total_active_file"],
            Version::Two => &["inactive_file", "active_file", "slab_reclaimable"],
        };
        let mut sum: u64 = 0;
        for (at, line) in root.text(&path)?.unwrap_or_default().lines().enumerate() {
            let (key, value) = line.split_once(' ').unwrap_or((line, ""));
            if keys.contains(&key) {
                let bytes = value.trim().parse::<u64>();
                let bytes =
                    bytes.map_err(|_| malformed_line(&path, at, line, "a name and a number"))?;
                sum = sum.saturating_add(bytes);
            }
        }
        Ok(sum)
    }

    /// Returns the nodes on which processes of the group may allocate. For a group of version 2
    /// without the cpuset controller, these are the nodes of its nearest ancestor that has a list.
    /// Returns `None` if neither the group nor an ancestor has a list; all nodes are then allowed.
    ///
    /// # Errors
    /// When a file cannot be read, or is not a list of nodes.
    pub fn memory_nodes(&self, root: &Root) -> Result<Option<IdList>, RootError> {
        let file = match self.tree.version {
            Version::One => "cpuset.effective_mems",
            Version::Two => "cpuset.mems.effective",
        };
        let mut next = Some(self.clone());
        while let Some(group) = next {
            let path = join(&group.folder(), file);
            let list = |text: &str| IdList::of_kernel(text).ok();
            if let Some(nodes) = root.value(&path, "a list of nodes", list)? {
                return Ok(Some(nodes));
            }
            next = group.parent();
        }
        Ok(None)
    }
}

/// Returns the error for a malformed `line` of the file at `path`; `at` is its 0-based index.
fn malformed_line(path: &str, at: usize, line: &str, expected: &'static str) -> RootError {
    RootError::Content { path: format!("{path}:{}", at + 1), text: line.into(), expected }
}

fn join(folder: &str, name: &str) -> String {
    format!("{}/{name}", folder.trim_end_matches('/')).trim_end_matches('/').into()
}

/// Returns the path of `name` below `top`; `None` if `name` is not below `top`.
fn below<'a>(top: &str, name: &'a str) -> Option<&'a str> {
    let rest = name.strip_prefix(top.trim_end_matches('/'))?;
    (rest.is_empty() || rest.starts_with('/')).then_some(rest)
}

/// A mount of a tree of control groups.
#[derive(Debug, PartialEq)]
struct GroupMount {
    version: Version,
    at: String,
    top: String,
    /// The file system's options, separated by commas. Those of version 1 name its controllers.
    options: Option<String>,
}

/// Reads the mounts of control groups, in the kernel's order; `None` if no file lists mounts.
fn cgroup_mounts(root: &Root) -> Result<Option<Vec<GroupMount>>, RootError> {
    type Parse = fn(&str) -> Option<Mount<'_>>;
    let places: [(&str, Parse); 2] =
        [(MOUNTINFO, |line| Mount::of_mountinfo(line)), (MOUNTS, |line| Mount::of_mounts(line))];
    for (path, parse) in places {
        let Some(text) = root.text(path)? else { continue };
        let mut mounts = vec![];
        for (at, line) in text.lines().enumerate() {
            let found =
                parse(line).ok_or_else(|| malformed_line(path, at, line, "a line of a mount"))?;
            let version = match found.kind {
                "cgroup" => Version::One,
                "cgroup2" => Version::Two,
                _ => continue,
            };
            let options = Some(found.options.to_string());
            let (at, top) = (unescaped(found.at), unescaped(found.top));
            mounts.push(GroupMount { version, at, top, options });
        }
        return Ok(Some(mounts));
    }
    Ok(None)
}

/// Parses rows such as `anon N0=8192 N1=0` (version 2), or `hierarchical_anon=2 N0=2 N1=0` (version
/// 1). `unit` is the unit of the numbers, bytes: a page in version 1, 1 byte in version 2.
fn numa_stat(
    path: &str,
    text: &str,
    version: Version,
    unit: u64,
) -> Result<Vec<OnNode>, RootError> {
    let mut nodes = BTreeMap::<u32, OnNode>::new();
    for (at, line) in text.lines().enumerate() {
        let wrong =
            || malformed_line(path, at, line, "a kind of memory with its size on each node");
        let (kind, rest) = line.split_once(' ').unwrap_or((line, ""));
        let row = match version {
            Version::One => kind.split_once('=').ok_or_else(wrong)?.0.strip_prefix("hierarchical_"),
            Version::Two => Some(kind).filter(|kind| *kind != "unevictable"),
        };
        let field: fn(&mut OnNode) -> &mut u64 = match row {
            Some("anon") => |on| &mut on.anon_bytes,
            Some("file") => |on| &mut on.file_bytes,
            Some("unevictable") => |on| &mut on.locked_bytes,
            _ => continue,
        };
        for word in rest.split_whitespace() {
            let pair = word.strip_prefix('N').and_then(|word| word.split_once('='));
            let parse = |(node, size): (&str, &str)| {
                Some((node.parse::<u32>().ok()?, size.parse::<u64>().ok()?.checked_mul(unit)?))
            };
            let (node, bytes) = pair.and_then(parse).ok_or_else(wrong)?;
            let on = nodes.entry(node).or_insert(OnNode { node, ..OnNode::default() });
            *field(on) = bytes;
        }
    }
    Ok(nodes.into_values().collect())
}

/// Returns the size of a base page, bytes: the smallest page size among the mappings of this
/// process, or 4 KiB if the kernel reports no page sizes.
fn page_bytes(root: &Root) -> Result<u64, RootError> {
    let text = root.text("/proc/self/smaps")?.unwrap_or_default();
    let kib = |line: &str| {
        line.strip_prefix("KernelPageSize:")?.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()
    };
    let least = text.lines().filter_map(kib).min();
    Ok(least.unwrap_or(4).saturating_mul(1024))
}
