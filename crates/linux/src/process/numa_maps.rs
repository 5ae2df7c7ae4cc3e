//! The resident memory of a process on each node, and the policies of its mappings, from
//! `/proc/PID/numa_maps`.
//!
//! Each line describes a mapping: its start address, its policy, and some words. Example of words:
//! `anon=3 N0=2 N1=1 kernelpagesize_kB=4`, where `N1=1` is one page on node 1. A transparent huge
//! page counts as 512 base pages; a page of hugetlbfs counts as one page of its own size. The
//! policy is the mapping's own; a mapping without a policy has the policy of the process's first
//! thread.

use crate::{
    process::tree,
    root::{Root, RootError},
};
use interleaf_procfs::maps;
use std::{collections::BTreeMap, ops::Range};

/// The policies whose names contain a space.
const NAMES_WITH_SPACES: [&str; 2] = ["weighted interleave", "prefer (many)"];

/// The prefixes of the names that `numa_maps` shows for shared memory.
const SHARED_PREFIXES: [&str; 4] = ["/dev/zero", "/memfd:", "/SYSV", "/dev/shm/"];

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mapping {
    /// The mapping's first address.
    pub start: u64,
    /// The policy as the kernel writes it, such as `default` or `weighted interleave:0-1`.
    pub policy: String,
    pub kind: Kind,
    /// Resident bytes on each node.
    pub bytes: NodeBytes,
    /// Anonymous bytes. In a mapping of a file, these are the private copies of written pages.
    pub anonymous_bytes: u64,
    /// The size of a page, bytes; larger than a base page only in hugetlbfs.
    pub page_bytes: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    Anonymous,
    /// The heap of brk(2).
    Heap,
    /// The stack of the first thread.
    Stack,
    /// A mapping of a file, or of shared memory.
    File(String),
}

impl Mapping {
    /// True for memory that `numa_maps` shows with a file name although it is not in a file: shared
    /// memory, and pages of hugetlbfs. A page larger than `page_bytes`, the machine's base page,
    /// belongs to hugetlbfs.
    pub fn is_named_memory(&self, page_bytes: u64) -> bool {
        let Kind::File(path) = &self.kind else { return false };
        self.page_bytes > page_bytes || SHARED_PREFIXES.iter().any(|name| path.starts_with(name))
    }
}

/// The bytes of some memory on each node. The key is the node's ID.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeBytes(pub BTreeMap<u32, u64>);

impl NodeBytes {
    /// Returns the bytes on all nodes.
    pub fn total(&self) -> u64 {
        self.0.values().sum()
    }

    /// Returns the bytes on one node.
    pub fn on(&self, node: u32) -> u64 {
        self.0.get(&node).copied().unwrap_or(0)
    }

    pub fn add(&mut self, other: &Self) {
        for (node, bytes) in &other.0 {
            *self.0.entry(*node).or_default() += bytes;
        }
    }
}

impl<'a> FromIterator<&'a NodeBytes> for NodeBytes {
    fn from_iter<T: IntoIterator<Item = &'a NodeBytes>>(all: T) -> Self {
        let mut sum = Self::default();
        all.into_iter().for_each(|bytes| sum.add(bytes));
        sum
    }
}

/// Reads the mappings of a process, without mappings that have no resident pages. Returns `None` if
/// the process does not exist, or the kernel lacks NUMA.
///
/// # Errors
/// When this user may not read the file, or a line is malformed.
pub fn mappings(root: &Root, pid: u32) -> Result<Option<Vec<Mapping>>, RootError> {
    let path = format!("/proc/{pid}/numa_maps");
    let Some(text) = root.peek(&path)? else { return Ok(None) };
    parse(&text).map(Some).map_err(|line| RootError::Content {
        path,
        text: line,
        expected: "a line of numa_maps",
    })
}

/// The resident memory of a process and its descendants.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Resident {
    /// All resident memory of these processes. A shared page counts once per mapping process.
    pub all: NodeBytes,
    /// Memory of the mappings with anonymous pages; see [`anonymous`].
    pub anonymous: NodeBytes,
    /// Number of processes that belong to other users and may not be read.
    pub hidden: usize,
}

/// Returns the resident memory of a process and its descendants; `None` if the process has ended or
/// the kernel lacks NUMA.
///
/// # Errors
/// When a file of `/proc` is malformed.
pub fn of_tree(root: &Root, pid: u32) -> Result<Option<Resident>, RootError> {
    let mut found: Option<Resident> = None;
    for process in tree(root, pid)?.iter().filter(|process| !process.is_zombie) {
        match mappings(root, process.pid) {
            Ok(None) => {}
            Ok(Some(mappings)) => {
                let sum = found.get_or_insert_default();
                sum.all.add(&mappings.iter().map(|mapping| &mapping.bytes).collect());
                sum.anonymous.add(&anonymous(&mappings));
            }
            Err(why) if why.is_permission() => found.get_or_insert_default().hidden += 1,
            Err(why) => return Err(why),
        }
    }
    Ok(found)
}

/// Parses the content of a `numa_maps` file. Mappings without resident pages are left out.
///
/// # Errors
/// When a line is malformed. The error is the first such line.
pub fn parse(text: &str) -> Result<Vec<Mapping>, String> {
    let lines = text.lines().map(|line| mapping(line).ok_or_else(|| line.to_string()));
    let resident = |mapping: &Result<Mapping, String>| {
        mapping.as_ref().map_or(true, |mapping| mapping.bytes.total() > 0)
    };
    lines.filter(resident).collect()
}

fn mapping(line: &str) -> Option<Mapping> {
    let (start, rest) = line.split_once(' ')?;
    let start = u64::from_str_radix(start, 16).ok()?;
    let spaced =
        NAMES_WITH_SPACES.iter().find(|name| rest.starts_with(**name)).map_or(0, |name| name.len());
    let policy_end = rest[spaced..].find(' ').map_or(rest.len(), |at| spaced + at);
    let (policy, words) = rest.split_at(policy_end);
    let mut kind = Kind::Anonymous;
    let (mut pages, mut anonymous, mut page_kib) = (vec![], 0, 4);
    for word in words.split_whitespace() {
        let (name, value) = word.split_once('=').unwrap_or((word, ""));
        match name {
            "file" => kind = Kind::File(value.into()),
            "heap" => kind = Kind::Heap,
            "stack" => kind = Kind::Stack,
            "anon" => anonymous = value.parse::<u64>().ok()?,
            "kernelpagesize_kB" => page_kib = value.parse::<u64>().ok()?,
            _ => {
                if let Some(Ok(node)) = name.strip_prefix('N').map(str::parse::<u32>) {
                    pages.push((node, value.parse::<u64>().ok()?));
                }
            }
        }
    }
    let page_bytes = page_kib.checked_mul(1024)?;
    let bytes = |pages: u64| pages.checked_mul(page_bytes);
    let on_nodes: Option<BTreeMap<u32, u64>> =
        pages.into_iter().map(|(node, count)| Some((node, bytes(count)?))).collect();
    Some(Mapping {
        start,
        policy: policy.into(),
        kind,
        bytes: NodeBytes(on_nodes?),
        anonymous_bytes: bytes(anonymous)?,
        page_bytes,
    })
}

/// Returns the addresses in the first line of a mapping in `maps` or `smaps`. Example of such a
/// line: `7f00-8000 rw-p 0 00:00 0`.
pub fn addresses(line: &str) -> Option<Range<u64>> {
    maps::Mapping::parse(line.as_bytes()).map(|it| it.addresses).filter(|range| !range.is_empty())
}

/// Returns the memory of the mappings with anonymous pages, by node. A private file mapping with
/// written pages counts as a whole, because the kernel does not report anonymous pages and file
/// pages separately by node.
pub fn anonymous(mappings: &[Mapping]) -> NodeBytes {
    mappings.iter().filter(|mapping| mapping.anonymous_bytes > 0).map(|it| &it.bytes).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;
    use proptest::prelude::*;

    const TEXT: &str = "\
00400000 default file=/bin/some\\040thing mapped=3 mapmax=2 N0=3 kernelpagesize_kB=4
01000000 weighted interleave:0-1 heap anon=5 dirty=5 active=0 N0=4 N1=1 kernelpagesize_kB=4
7f0000000000 default
7f8000000000 prefer (many):1 anon=1 huge dirty=1 N2=1 kernelpagesize_kB=2048
7ffd00000000 interleave=static:0-1 stack anon=2 dirty=2 N0=2 kernelpagesize_kB=4
";

    #[test]
    fn lines_are_read() {
        let all = parse(TEXT).unwrap();
        let policies: Vec<&str> = all.iter().map(|mapping| mapping.policy.as_str()).collect();
        let expected =
            ["default", "weighted interleave:0-1", "prefer (many):1", "interleave=static:0-1"];
        assert_eq!(policies, expected, "without the one that has no pages");
        assert_eq!(all[0].kind, Kind::File("/bin/some\\040thing".into()));
        assert_eq!((&all[1].kind, &all[3].kind), (&Kind::Heap, &Kind::Stack));
        assert_eq!((all[1].start, all[1].bytes.on(0), all[1].bytes.on(1)), (1 << 24, 16384, 4096));
        assert_eq!((all[2].page_bytes, all[2].bytes.total()), (2 << 20, 2 << 20));
        assert_eq!((all[2].anonymous_bytes, all[0].anonymous_bytes), (2 << 20, 0));
        let sum = anonymous(&all);
        assert_eq!((sum.on(0), sum.on(1), sum.on(2)), (24576, 4096, 2 << 20));
    }

    #[test]
    fn a_malformed_line_is_named() {
        for wrong in ["zz default", "1000", "1000 default N0=x", "1000 default anon=-1 N0=1"] {
            assert_eq!(parse(wrong).unwrap_err(), wrong);
        }
    }

    #[test]
    fn this_process_has_memory() {
        let mine = mappings(&Root::live(), std::process::id()).unwrap().unwrap();
        assert!(anonymous(&mine).total() > 0);
        assert!(mine.iter().any(|mapping| mapping.kind == Kind::Stack));
        assert_eq!(mappings(&Root::live(), u32::MAX).unwrap(), None);
        let tree = of_tree(&Root::live(), std::process::id()).unwrap().unwrap();
        assert!(tree.all.total() > tree.anonymous.total() && tree.hidden == 0, "{tree:?}");
        assert_eq!(of_tree(&Root::live(), u32::MAX).unwrap(), None);
    }

    proptest! {
        #[test]
        fn nothing_panics(text in "[0-9a-f]{0,4} ?[a-z:() =0-9\\nN]{0,60}") {
            let _ = parse(&text);
        }
    }
}
