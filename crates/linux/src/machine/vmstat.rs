//! The kernel's counters of placement: pages allocated, allocated on another node than intended,
//! migrated, demoted and promoted. The counters are read for the machine (`/proc/vmstat`) and for
//! each node (its `vmstat` and `numastat`).
//!
//! All counters grow from boot on; the growth over a span of time is the difference of two samples.
//! A counter that the kernel does not have, or does not keep by node, is `None` and never 0,
//! because 0 is a valid count.

use crate::{
    machine::node::NODES,
    root::{Root, RootError},
};

/// The file with the counters of the machine.
pub const VMSTAT: &str = "/proc/vmstat";

/// Defines the struct `Counters`, whose fields have the kernel's names, and the methods that treat
/// all counters alike.
macro_rules! counters {
    ($($(#[$text:meta])* $name:ident,)*) => {
        /// Counters since boot, or their growth between two samples, in base pages unless stated
        /// otherwise.
        #[derive(Clone, Debug, Default, PartialEq, Eq)]
        pub struct Counters {
            $($(#[$text])* pub $name: Option<u64>,)*
        }

        impl Counters {
            /// Each counter with its name in `/proc/vmstat`.
            pub fn by_name(&self) -> Vec<(&'static str, Option<u64>)> {
                vec![$((stringify!($name), self.$name),)*]
            }

            /// The growth since `earlier`, or `None` where one of the two samples lacks the
            /// counter. A counter that fell gives 0: the counters of a node restart at 0 when the
            /// node is added again.
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
    /// Page table entries that NUMA balancing marked in order to see accesses.
    numa_pte_updates,
    /// Faults on page table entries that NUMA balancing marked.
    numa_hint_faults,
    /// Faults on marked page table entries from a CPU of the page's own node.
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
    /// Candidates for promotion that are exempt from the rate limit of promotion.
    pgpromote_candidate_nrl,
    /// Pages allocated on the intended node.
    numa_hit,
    /// Pages allocated on this node because the node intended for them was full.
    numa_miss,
    /// Pages intended for this node and allocated on another node.
    numa_foreign,
    /// Pages that interleaving allocated on the intended node.
    numa_interleave,
    /// Pages allocated on the node of the allocating CPU.
    numa_local,
    /// Pages allocated on another node than the allocating CPU's.
    numa_other,
}

/// Counters that have one name in `numastat` (the first) and another in `vmstat` (the second).
const NUMASTAT: [(&str, &str); 3] = [
    ("interleave_hit", "numa_interleave"),
    ("local_node", "numa_local"),
    ("other_node", "numa_other"),
];

impl Counters {
    /// Pages demoted for any reason; `None` where no such counter exists.
    pub fn demoted(&self) -> Option<u64> {
        let kinds = [
            self.pgdemote_kswapd,
            self.pgdemote_direct,
            self.pgdemote_khugepaged,
            self.pgdemote_proactive,
        ];
        kinds.into_iter().flatten().reduce(u64::saturating_add)
    }

    /// Parses the counters in `text`, the content of the file at `path`. Lines with other counters
    /// are skipped; `/proc/vmstat` has some two hundred such lines.
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

/// The counters of the machine; `None` on a kernel without `/proc/vmstat`.
///
/// # Errors
/// When the file cannot be read, or a counter is not a number.
pub fn of_machine(root: &Root) -> Result<Option<Counters>, RootError> {
    let Some(text) = root.text(VMSTAT)? else { return Ok(None) };
    let mut counters = Counters::default();
    counters.parse(VMSTAT, &text)?;
    Ok(Some(counters))
}

/// The counters of a node; `None` where the node does not exist. The kernel counts migrations only
/// for the machine. Some kernels count demotions and promotions by node: a demotion on the source
/// node, and a promotion on the target node.
///
/// # Errors
/// When a file cannot be read, or a counter is not a number.
pub fn of_node(root: &Root, node: u32) -> Result<Option<Counters>, RootError> {
    let mut counters = None;
    // Both files count the same allocations. `vmstat` has more counters, but is missing on the
    // oldest kernels.
    for file in ["numastat", "vmstat"] {
        let path = format!("{NODES}/node{node}/{file}");
        if let Some(text) = root.text(&path)? {
            counters.get_or_insert_with(Counters::default).parse(&path, &text)?;
        }
    }
    Ok(counters)
}
