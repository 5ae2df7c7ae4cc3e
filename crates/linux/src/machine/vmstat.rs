//! What the kernel counts of placement: pages that were placed, found elsewhere, moved, demoted and
//! promoted, of the machine (`/proc/vmstat`) and of each node (its `vmstat` and `numastat`).
//!
//! All of them only grow, from boot on; what a span of time had is the difference of two samples.
//! A counter that this kernel does not have, or does not keep by node, is `None`, never 0: nothing
//! was counted is another answer than nobody counts.

use crate::{
    machine::node::NODES,
    root::{Root, RootError},
};

/// The counters of the machine.
pub const VMSTAT: &str = "/proc/vmstat";

/// A structure of counters, its names as the kernel has them, and what goes over all of them.
macro_rules! counters {
    ($($(#[$text:meta])* $name:ident,)*) => {
        /// Counters since boot, or their growth between two samples. Pages are base pages, but
        /// where it says otherwise.
        #[derive(Clone, Debug, Default, PartialEq, Eq)]
        pub struct Counters {
            $($(#[$text])* pub $name: Option<u64>,)*
        }

        impl Counters {
            /// Each counter by the name that it has in `/proc/vmstat`.
            pub fn by_name(&self) -> Vec<(&'static str, Option<u64>)> {
                vec![$((stringify!($name), self.$name),)*]
            }

            /// What was counted since `earlier`: 0 where a counter fell (a node that went and came
            /// back begins anew), `None` where one of the two samples has none.
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
    /// Pages that were moved, by whomever: system calls, balancing, demotion, DAMON, compaction.
    pgmigrate_success,
    /// Pages that could not be moved.
    pgmigrate_fail,
    /// Huge pages that were moved whole.
    thp_migration_success,
    /// Huge pages that could not be moved whole.
    thp_migration_fail,
    /// Huge pages that were split in order to be moved.
    thp_migration_split,
    /// Page table entries that `numa_balancing` marked, to see who touches them.
    numa_pte_updates,
    /// Faults on what it marked.
    numa_hint_faults,
    /// Those of them by a CPU of the page's own node.
    numa_hint_faults_local,
    /// Pages that `numa_balancing` moved.
    numa_pages_migrated,
    /// Pages that `kswapd` demoted to a slower tier.
    pgdemote_kswapd,
    /// Pages that were demoted by who wanted memory and waited for it.
    pgdemote_direct,
    /// Pages that were demoted while huge pages were made.
    pgdemote_khugepaged,
    /// Pages that were demoted because someone wrote to `memory.reclaim` (since 6.15).
    pgdemote_proactive,
    /// Pages that were promoted to a faster tier.
    pgpromote_success,
    /// Pages that were hot enough to be promoted.
    pgpromote_candidate,
    /// Those that the rate limit of promotion does not hold for.
    pgpromote_candidate_nrl,
    /// Pages that were placed where they were wanted.
    numa_hit,
    /// Pages that were placed here though another node was wanted, which was full.
    numa_miss,
    /// Pages that were wanted here and were placed elsewhere.
    numa_foreign,
    /// Pages that interleaving placed where it wanted.
    numa_interleave,
    /// Pages that were placed on the node of the CPU that asked.
    numa_local,
    /// Pages that were placed on another node than that of the CPU that asked.
    numa_other,
}

/// What `numastat` of a node calls otherwise than its `vmstat`.
const NUMASTAT: [(&str, &str); 3] = [
    ("interleave_hit", "numa_interleave"),
    ("local_node", "numa_local"),
    ("other_node", "numa_other"),
];

impl Counters {
    /// Pages that were demoted, whoever had it done; `None` where nobody counts.
    pub fn demoted(&self) -> Option<u64> {
        let kinds = [
            self.pgdemote_kswapd,
            self.pgdemote_direct,
            self.pgdemote_khugepaged,
            self.pgdemote_proactive,
        ];
        kinds.into_iter().flatten().reduce(u64::saturating_add)
    }

    /// Takes the counters in the text of the file at `path`. Other lines are left: the file has
    /// some two hundred.
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

/// The counters of the machine; `None` where the kernel has none.
///
/// # Errors
/// When the file cannot be read, or a counter in it is no number.
pub fn of_machine(root: &Root) -> Result<Option<Counters>, RootError> {
    let Some(text) = root.text(VMSTAT)? else { return Ok(None) };
    let mut counters = Counters::default();
    counters.parse(VMSTAT, &text)?;
    Ok(Some(counters))
}

/// The counters of a node. Migrations are counted of the machine only; demotions are counted of the
/// node that pages leave, promotions of the one that they come to, by kernels that count them by
/// node. `None` where there is no such node.
///
/// # Errors
/// When a file cannot be read, or a counter in it is no number.
pub fn of_node(root: &Root, node: u32) -> Result<Option<Counters>, RootError> {
    let mut counters = None;
    // Both count the same placements; `vmstat` has more, and is not there in the oldest kernels.
    for file in ["numastat", "vmstat"] {
        let path = format!("{NODES}/node{node}/{file}");
        if let Some(text) = root.text(&path)? {
            counters.get_or_insert_with(Counters::default).parse(&path, &text)?;
        }
    }
    Ok(counters)
}
