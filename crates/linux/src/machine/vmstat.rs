//! The kernel's counters of placement: pages that were allocated, allocated on another node than
//! intended, migrated, demoted and promoted. The counters are read for the machine (`/proc/vmstat`)
//! and for each node (its files `vmstat` and `numastat`).
//!
//! All counters grow from boot on, so the growth over a span of time is the difference of two
//! samples. A counter that the kernel does not have, or does not keep by node, is `None` and never
//! 0, because 0 is a valid count.

use crate::{
    machine::node::NODES,
    root::{Root, RootError},
};

/// The file with the counters of the machine.
pub const VMSTAT: &str = "/proc/vmstat";

/// Defines `Counters`, whose fields have the kernel's names, and the methods that go through all
/// counters.
macro_rules! counters {
    ($($(#[$text:meta])* $name:ident,)*) => {
        /// Counters since boot, or their growth between two samples, in base pages unless the field
        /// says otherwise.
        #[derive(Clone, Debug, Default, PartialEq, Eq)]
        pub struct Counters {
            $($(#[$text])* pub $name: Option<u64>,)*
        }

        impl Counters {
            /// Returns each counter with its name in `/proc/vmstat`.
            pub fn by_name(&self) -> Vec<(&'static str, Option<u64>)> {
                vec![$((stringify!($name), self.$name),)*]
            }

            /// Returns the growth of each counter since the sample `earlier`; `None` if one of the
            /// two samples lacks the counter. The growth of a counter that fell is 0: the counters
            /// of a node restart at 0 when the node is added again.
            pub fn since(&self, earlier: &Self) -> Self {
                let grown = |now: Option<u64>, then: Option<u64>| {
                    Some(now?.saturating_sub(then?))
                };
                Self { $($name: grown(self.$name, earlier.$name),)* }
            }

            fn named(&mut self, name: &str) -> Option<&mut Option<u64>> {
                match name {
                    $(stringify!($name) => Some(&mut self.$name),)*
                    _ => None,
                }
            }
        }
    };
}

counters! {
    /// Pages migrated for any reason: system calls, balancing, demotion, DAMON, compaction.
    pgmigrate_success,
    /// Pages whose migration failed.
    pgmigrate_fail,
    /// Huge pages migrated as a whole.
    thp_migration_success,
    /// Huge pages whose migration as a whole failed.
    thp_migration_fail,
    /// Huge pages split for migration.
    thp_migration_split,
    /// Page table entries that NUMA balancing marked, so that the next access causes a fault.
    numa_pte_updates,
    /// Faults on page table entries that NUMA balancing marked.
    numa_hint_faults,
    /// Faults on marked page table entries by a CPU of the page's own node.
    numa_hint_faults_local,
    /// Pages that NUMA balancing migrated.
    numa_pages_migrated,
    /// Pages that `kswapd` demoted to a slower tier.
    pgdemote_kswapd,
    /// Pages demoted by direct reclaim, while an allocation waited.
    pgdemote_direct,
    /// Pages demoted by khugepaged.
    pgdemote_khugepaged,
    /// Pages demoted by a write to `memory.reclaim` (since 6.15).
    pgdemote_proactive,
    /// Pages promoted to a faster tier.
    pgpromote_success,
    /// Pages hot enough to be promoted.
    pgpromote_candidate,
    /// Candidates for promotion to which the rate limit of promotion does not apply.
    pgpromote_candidate_nrl,
    /// Pages allocated on the intended node.
    numa_hit,
    /// Pages allocated on this node because the node intended for them was full.
    numa_miss,
    /// Pages intended for this node and allocated on another node.
    numa_foreign,
    /// Pages of interleaved memory that were allocated on the intended node.
    numa_interleave,
    /// Pages allocated on the node of the allocating CPU.
    numa_local,
    /// Pages allocated on another node than the allocating CPU's.
    numa_other,
}

/// The counters that have one name in `numastat` (first) and another in `vmstat` (second).
const NUMASTAT: [(&str, &str); 3] = [
    ("interleave_hit", "numa_interleave"),
    ("local_node", "numa_local"),
    ("other_node", "numa_other"),
];

impl Counters {
    /// Returns the pages demoted for any reason; `None` if the kernel has no counter of demotions.
    pub fn demoted(&self) -> Option<u64> {
        let kinds = [
            self.pgdemote_kswapd,
            self.pgdemote_direct,
            self.pgdemote_khugepaged,
            self.pgdemote_proactive,
        ];
        kinds.into_iter().flatten().reduce(u64::saturating_add)
    }

    /// Parses the counters in `text`, the content of the file at `path`, and skips lines with other
    /// counters. `/proc/vmstat` has about two hundred such lines.
    fn parse(&mut self, path: &str, text: &str) -> Result<(), RootError> {
        for (at, line) in text.lines().enumerate() {
            let mut words = line.split_whitespace();
            let Some(name) = words.next() else { continue };
            let other = NUMASTAT.iter().find(|(theirs, _)| *theirs == name);
            let Some(counter) = self.named(other.map_or(name, |(_, ours)| ours)) else { continue };
            let value = words.next().and_then(|word| word.parse().ok());
            *counter = Some(value.ok_or_else(|| RootError::Content {
                path: format!("{path}:{}", at + 1),
                text: line.into(),
                expected: "a counter and its value",
            })?);
        }
        Ok(())
    }
}

/// Reads the counters of the machine; `None` on a kernel without `/proc/vmstat`.
///
/// # Errors
/// When the file cannot be read, or a counter is not a number.
pub fn of_machine(root: &Root) -> Result<Option<Counters>, RootError> {
    let Some(text) = root.text(VMSTAT)? else { return Ok(None) };
    let mut counters = Counters::default();
    counters.parse(VMSTAT, &text)?;
    Ok(Some(counters))
}

/// Reads the counters of a node; `None` if the node does not exist. The kernel counts migrations
/// only for the machine. Some kernels count demotions and promotions by node: a demotion on the
/// source node, and a promotion on the target node.
///
/// # Errors
/// When a file cannot be read, or a counter is not a number.
pub fn of_node(root: &Root, node: u32) -> Result<Option<Counters>, RootError> {
    let mut counters = None;
    // Both files count the same allocations. `vmstat` has more counters, but the oldest kernels
    // lack it.
    for file in ["numastat", "vmstat"] {
        let path = format!("{NODES}/node{node}/{file}");
        if let Some(text) = root.text(&path)? {
            counters.get_or_insert_with(Counters::default).parse(&path, &text)?;
        }
    }
    Ok(counters)
}
