//! Placement audit: how much memory follows the placement, and how much bypasses it, and why.
//!
//! Memory bypasses a memory policy in four cases: a launcher resets the policy for its children; a
//! library binds its own buffers; a mapped file was placed by the process that read it first; pages
//! for a full node are allocated on another node. `/proc/PID/numa_maps` shows these cases, because
//! it has the policy and the nodes of each mapping. It does not show the policies of threads other
//! than the first.

use crate::{
    place::{mempolicy::Policy, placement::Placement},
    process::{
        Process,
        numa_maps::{Kind, Mapping, NodeBytes, mappings},
        tree,
    },
    root::{Root, RootError},
};

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PlacementAudit {
    /// Memory that follows the requested placement, bytes by node.
    pub placed: NodeBytes,
    /// The memory that bypassed the requested placement, the largest amount first.
    pub bypasses: Vec<Bypass>,
    /// Number of audited processes.
    pub processes: usize,
    /// Number of processes not audited, because they belong to other users and may not be read.
    pub hidden: usize,
}

/// Memory of a process that bypassed the placement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bypass {
    pub pid: u32,
    pub name: String,
    pub cause: Cause,
    /// The bytes that bypassed the placement, by node.
    pub bytes: NodeBytes,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cause {
    /// The process has this policy, although its command was started with the placement's policy.
    Reset(String),
    /// The process has the placement's policy, but some of its mappings have this other policy, set
    /// by mbind(2).
    Bound(String),
    /// Pages of files, which are in the page cache. The process that read them first placed them.
    File,
    /// Pages under the placement's policy on other nodes, because the intended nodes were full.
    Elsewhere,
}

impl Cause {
    pub fn text(&self) -> String {
        match self {
            Self::Reset(policy) => format!("the process has the policy \"{policy}\""),
            Self::Bound(policy) => format!("the program chose \"{policy}\" for it"),
            Self::File => "of files, placed by whoever read them first".into(),
            Self::Elsewhere => "on other nodes: the right ones were full".into(),
        }
    }

    /// Returns advice to the user.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Reset(_) => {
                "whatever started it has set another policy; mpirun does so for its ranks: put \
                 `interleaf run` inside it (mpirun -np N interleaf run --weights ... -- PROGRAM)"
            }
            Self::Bound(_) => {
                "the program or a library places this itself (OpenVINO its weights, OpenBLAS its \
                 buffers); what is there already moves with `interleaf run --weights ... --pid PID`"
            }
            Self::File => {
                "tell the program not to map its files (llama.cpp: --no-mmap), or drop them from \
                 the page cache before it starts, so that it reads them itself: sync; echo 1 > \
                 /proc/sys/vm/drop_caches"
            }
            Self::Elsewhere => "free memory on the nodes, or give the full one a smaller weight",
        }
    }
}

impl PlacementAudit {
    /// Audits the process `pid` and its descendants.
    ///
    /// # Errors
    /// When a file of `/proc` is malformed.
    pub fn of_tree(root: &Root, pid: u32, placement: &Placement) -> Result<Self, RootError> {
        let mut audit = Self::default();
        for process in tree(root, pid)?.iter().filter(|process| !process.is_zombie) {
            match mappings(root, process.pid) {
                Ok(Some(mappings)) => audit.add(process, &mappings, placement),
                Ok(None) => {}
                Err(why) if why.is_permission() => audit.hidden += 1,
                Err(why) => return Err(why),
            }
        }
        audit.bypasses.sort_by_key(|bypass| std::cmp::Reverse(bypass.bytes.total()));
        Ok(audit)
    }

    /// Adds the memory of each mapping of a process to the placed memory or, with the cause, to the
    /// bypasses. A mapping under the placement's policy is split, and its pages on other nodes are
    /// a bypass.
    pub fn add(&mut self, process: &Process, mappings: &[Mapping], placement: &Placement) {
        self.processes += 1;
        let nodes = placement.node_list();
        let wanted = placement.policy();
        let own = own_policy(mappings);
        let page_bytes = rustix::param::page_size() as u64;
        for mapping in mappings {
            if let Kind::File(_) = mapping.kind
                && mapping.anonymous_bytes == 0
                && !mapping.is_named_memory(page_bytes)
            {
                self.add_bypass(process, Cause::File, &mapping.bytes);
            } else if own.is_some_and(|own| !is_policy(own, &wanted)) {
                self.add_bypass(
                    process,
                    Cause::Reset(own.unwrap_or_default().into()),
                    &mapping.bytes,
                );
            } else if !is_policy(&mapping.policy, &wanted) {
                self.add_bypass(process, Cause::Bound(mapping.policy.clone()), &mapping.bytes);
            } else {
                let (here, elsewhere) = split(&mapping.bytes, |node| nodes.has(node));
                self.placed.add(&here);
                self.add_bypass(process, Cause::Elsewhere, &elsewhere);
            }
        }
    }

    fn add_bypass(&mut self, process: &Process, cause: Cause, bytes: &NodeBytes) {
        if bytes.total() == 0 {
            return;
        }
        let same = |bypass: &&mut Bypass| bypass.pid == process.pid && bypass.cause == cause;
        match self.bypasses.iter_mut().find(same) {
            Some(bypass) => bypass.bytes.add(bytes),
            None => self.bypasses.push(Bypass {
                pid: process.pid,
                name: process.name.clone(),
                cause,
                bytes: bytes.clone(),
            }),
        }
    }

    pub fn bypassed_bytes(&self) -> u64 {
        self.bypasses.iter().map(|bypass| bypass.bytes.total()).sum()
    }

    pub fn total_bytes(&self) -> u64 {
        self.placed.total() + self.bypassed_bytes()
    }

    /// Returns the share of the memory that bypassed the placement, 0 to 1.
    pub fn bypassed_share(&self) -> f64 {
        self.bypassed_bytes() as f64 / (self.total_bytes().max(1)) as f64
    }
}

/// Returns the policy of a process from its stack, for which no program chooses another policy.
fn own_policy(mappings: &[Mapping]) -> Option<&str> {
    let stack = mappings.iter().find(|mapping| mapping.kind == Kind::Stack);
    stack.map(|stack| stack.policy.as_str())
}

/// True when `shown`, a policy in `numa_maps`, is the policy `wanted`. The kernel may append flags
/// to the mode, such as `=static`.
fn is_policy(shown: &str, wanted: &Policy) -> bool {
    let wanted = wanted.to_string();
    let (mode, nodes) = wanted.split_once(':').unwrap_or((&wanted, ""));
    let (shown_mode, shown_nodes) = shown.split_once(':').unwrap_or((shown, ""));
    shown_mode.split('=').next() == Some(mode) && shown_nodes == nodes
}

fn split(bytes: &NodeBytes, here: impl Fn(u32) -> bool) -> (NodeBytes, NodeBytes) {
    let (inside, outside) = bytes.0.iter().partition(|(node, _)| here(**node));
    (NodeBytes(inside), NodeBytes(outside))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;
    use crate::{place::placement::Means, process::numa_maps::parse};

    const OURS: &str = "weighted interleave:0-1";

    /// Audits a process with the text `numa_maps`, under a placement of 3:1 on nodes 0 and 1.
    /// Returns the cause of each bypass with its number of pages, and the number of placed pages on
    /// each of the two nodes.
    fn survey(numa_maps: &str) -> (Vec<(Cause, u64)>, [u64; 2]) {
        let placement = Placement { nodes: vec![(0, 3), (1, 1)], means: Means::Weighted };
        let name = "app".to_string();
        let process =
            Process { pid: 7, parent: 1, session: 1, name, start_ticks: 0, is_zombie: false };
        let mut audit = PlacementAudit::default();
        audit.add(&process, &parse(numa_maps).unwrap(), &placement);
        let bypasses = audit.bypasses.iter();
        let bypasses = bypasses.map(|it| (it.cause.clone(), it.bytes.total() / 4096)).collect();
        (bypasses, [0, 1].map(|node| audit.placed.on(node) / 4096))
    }

    #[test]
    fn memory_under_the_policy_counts_as_placed() {
        let text = format!("1000 {OURS} heap anon=8 N0=6 N1=2\n9000 {OURS} stack anon=1 N0=1\n");
        assert_eq!(survey(&text), (vec![], [7, 2]));
    }

    #[test]
    fn a_launcher_that_resets_the_policy_is_reported() {
        let text = "1000 default heap anon=8 N0=8\n9000 default stack anon=1 N0=1\n";
        assert_eq!(survey(text), (vec![(Cause::Reset("default".into()), 9)], [0, 0]));
    }

    #[test]
    fn a_library_that_binds_its_buffers_is_reported() {
        let text = format!(
            "1000 {OURS} anon=8 N0=6 N1=2\n2000 bind:0 anon=5 N0=5\n3000 prefer:0 anon=3 N0=3\n\
             4000 bind:0 anon=1 N0=1\n9000 {OURS} stack anon=1 N0=1\n"
        );
        let bound = |policy: &str, pages| (Cause::Bound(policy.into()), pages);
        assert_eq!(survey(&text), (vec![bound("bind:0", 6), bound("prefer:0", 3)], [7, 2]));
    }

    #[test]
    fn page_cache_is_reported_and_shared_memory_counts_as_placed() {
        let text = format!(
            "1000 {OURS} file=/lib/x.so mapped=9 N0=9\n2000 {OURS} file=/dev/shm/a dirty=4 N1=4\n\
             3000 {OURS} file=/lib/x.so anon=2 N0=2\n9000 {OURS} stack anon=1 N0=1\n"
        );
        assert_eq!(survey(&text), (vec![(Cause::File, 9)], [3, 4]));
    }

    #[test]
    fn huge_pages_that_processes_share_are_no_files() {
        let text = format!(
            "1000 {OURS} file=/anon_hugepage\\040(deleted) huge dirty=1 N1=1 \
             kernelpagesize_kB=2048\n9000 {OURS} stack anon=1 N0=1\n"
        );
        assert_eq!(survey(&text), (vec![], [1, 512]));
    }

    #[test]
    fn pages_on_other_nodes_are_reported() {
        let text = format!("1000 {OURS} anon=8 N0=5 N1=1 N2=2\n9000 {OURS} stack anon=1 N0=1\n");
        assert_eq!(survey(&text), (vec![(Cause::Elsewhere, 2)], [6, 1]));
    }

    #[test]
    fn flags_of_a_policy_do_not_make_it_another() {
        let wanted = Policy::Interleave([0, 1].into_iter().collect());
        let table = [
            ("interleave:0-1", true),
            ("interleave=static:0-1", true),
            ("interleave:0", false),
            ("weighted interleave:0-1", false),
            ("default", false),
        ];
        for (shown, same) in table {
            assert_eq!(is_policy(shown, &wanted), same, "{shown}");
        }
    }

    #[test]
    fn this_process_is_under_no_placement() {
        let placement = Placement { nodes: vec![(0, 3), (1, 1)], means: Means::Weighted };
        let audit = PlacementAudit::of_tree(&Root::live(), std::process::id(), &placement).unwrap();
        assert_eq!((audit.processes, audit.placed.total()), (1, 0));
        assert!(audit.bypasses.iter().any(|it| it.cause == Cause::Reset("default".into())));
        assert!(audit.bypassed_share() > 0.99);
    }
}
