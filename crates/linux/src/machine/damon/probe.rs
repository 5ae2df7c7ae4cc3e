//! The features of a kernel's DAMON, found by trial. The probe sets up a thread with one context
//! and one scheme, writes keywords to its files, and removes the thread. The thread is never
//! started, so it neither monitors memory nor acts on it. A probe takes milliseconds.
//!
//! The kernel accepts keywords that it knows, and answers `EINVAL` to other keywords. An accepted
//! keyword can lack effect: destinations work only in contexts of `vaddr` and `fvaddr`.
//!
//! DAMON's threads form one list. Writing a number to `nr_kdamonds` replaces the list by a new list
//! of that length; the write fails while a thread runs. Therefore the probe is refused if threads
//! are set up, started or not. DAMON has no lock for user programs, so the probe collides with
//! another program such as damo if both set threads up at the same moment.

use super::{ADMIN, COUNT, words};
use crate::root::{Root, RootError};

/// Actions of schemes that the probe tries. An unknown action costs only one failed write.
const ACTIONS: [&str; 11] = [
    "willneed",
    "cold",
    "pageout",
    "hugepage",
    "nohugepage",
    "collapse",
    "lru_prio",
    "lru_deprio",
    "migrate_hot",
    "migrate_cold",
    "stat",
];

/// Metrics of quota goals that the probe tries.
const GOALS: [&str; 10] = [
    "user_input",
    "some_mem_psi_us",
    "node_mem_used_bp",
    "node_mem_free_bp",
    "node_memcg_used_bp",
    "node_memcg_free_bp",
    "active_mem_bp",
    "inactive_mem_bp",
    "node_eligible_mem_bp",
    "node_ineligible_mem_bp",
];

/// The kernel's algorithms (tuners) that adjust a quota to its goal.
const TUNERS: [&str; 2] = ["consist", "temporal"];

/// Types of filters that the probe tries.
const FILTERS: [&str; 8] =
    ["anon", "active", "memcg", "young", "hugepage_size", "unmapped", "addr", "target"];

/// The folders of a scheme's filters since Linux 6.15.
const FILTER_FOLDERS: [&str; 2] = ["core_filters", "ops_filters"];

/// The folder of a scheme's filters before Linux 6.15. It is deprecated since 7.2.
const OLD_FILTER_FOLDER: &str = "filters";

/// The features of a kernel's DAMON.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Probed {
    /// Operations sets that the kernel supports: `vaddr`, `fvaddr`, `paddr`.
    pub operations: Vec<String>,
    /// Actions of schemes that the kernel supports: `pageout`, `migrate_hot`, ...
    pub actions: Vec<String>,
    /// True when a scheme may have several weighted destinations, which interleave resident pages.
    pub destinations: bool,
    /// Metrics that can be the goal of a quota: `node_mem_used_bp`, ...
    pub goals: Vec<String>,
    /// The algorithms that adjust a quota to its goal (tuners); empty if the kernel has only one.
    pub tuners: Vec<String>,
    /// Types of filters of schemes that the kernel supports: `anon`, `young`, ...
    pub filters: Vec<String>,
    /// True when DAMON can adjust its own monitoring intervals.
    pub interval_goal: bool,
    /// True when each layer of DAMON has its own folder of filters (`core_filters`, `ops_filters`).
    pub split_filters: bool,
    /// True when a thread can update its statistics periodically (file `refresh_ms`).
    pub refresh: bool,
    /// True when DAMON can drop one process and keep monitoring the other processes. Each
    /// monitoring target then has the file `obsolete_target`.
    pub obsolete_target: bool,
}

impl Probed {
    /// Returns the features of DAMON that matter for migration, in a kernel release such as
    /// `6.17.13` that cannot be probed. For releases that are in `docs/kernels.md`, the features
    /// are from this document, and tests check them against running kernels. For other releases,
    /// the features are from the announcements of the kernel. Returns `None` before 6.11, whose
    /// DAMON does not migrate pages, and for a malformed text.
    pub fn of_release(release: &str) -> Option<Self> {
        let mut numbers = release.split(['.', '-', '+']).map_while(|word| word.parse::<u32>().ok());
        let release = (numbers.next()?, numbers.next()?);
        if release < (6, 11) {
            return None;
        }
        let words = |all: &[((u32, u32), &str)]| {
            let supported = all.iter().filter(|(since, _)| release >= *since);
            supported.map(|(_, word)| (*word).to_string()).collect()
        };
        Some(Self {
            operations: words(&[((5, 18), "vaddr"), ((5, 18), "fvaddr"), ((5, 18), "paddr")]),
            actions: words(&[
                ((5, 18), "stat"),
                ((5, 18), "pageout"),
                ((6, 11), "migrate_hot"),
                ((6, 11), "migrate_cold"),
            ]),
            destinations: release >= (6, 17),
            goals: words(&[
                ((6, 16), "node_mem_used_bp"),
                ((6, 16), "node_mem_free_bp"),
                ((7, 2), "node_eligible_mem_bp"),
            ]),
            tuners: words(&[((7, 1), "consist"), ((7, 1), "temporal")]),
            filters: vec![],
            interval_goal: release >= (6, 15),
            split_filters: release >= (6, 15),
            refresh: release >= (6, 17),
            obsolete_target: release >= (6, 19),
        })
    }
}

/// The reason why DAMON was not probed.
#[derive(Debug, thiserror::Error)]
pub enum ProbeError {
    #[error("a captured machine has no kernel to ask")]
    Captured,
    #[error("the kernel has no DAMON, or its files are not there")]
    Missing,
    #[error(
        "another program has set up {0} DAMON thread(s), which setting up another one would drop"
    )]
    Held(u64),
    #[error(transparent)]
    Root(#[from] RootError),
}

/// Finds the features of the kernel's DAMON by trial, on a machine on which no DAMON thread is set
/// up. Restores DAMON's state, also after an error.
///
/// # Errors
/// When the machine is captured or lacks DAMON, or a file cannot be read or written, which requires
/// root. Also when threads are set up already; they are left untouched.
pub fn probe(root: &Root) -> Result<Probed, ProbeError> {
    if !root.is_live() {
        return Err(ProbeError::Captured);
    }
    let setup = Setup::new(root)?;
    let probed = probe_files(root)?;
    setup.remove()?;
    Ok(probed)
}

fn probe_files(root: &Root) -> Result<Probed, RootError> {
    let context = format!("{ADMIN}/0/contexts/0");
    let scheme = format!("{context}/schemes/0");
    root.write(&format!("{ADMIN}/0/contexts/nr_contexts"), "1")?;
    root.write(&format!("{context}/schemes/nr_schemes"), "1")?;
    let operations = root.text(&format!("{context}/avail_operations"))?.unwrap_or_default();
    Ok(Probed {
        operations: words(&operations),
        actions: accepted(root, &format!("{scheme}/action"), &ACTIONS)?,
        destinations: root.has(&format!("{scheme}/dests")),
        goals: goals(root, &format!("{scheme}/quotas/goals"))?,
        tuners: accepted(root, &format!("{scheme}/quotas/goal_tuner"), &TUNERS)?,
        filters: filters(root, &scheme)?,
        interval_goal: root.has(&format!("{context}/monitoring_attrs/intervals/intervals_goal")),
        split_filters: FILTER_FOLDERS.iter().all(|it| root.has(&format!("{scheme}/{it}"))),
        refresh: root.has(&format!("{ADMIN}/0/refresh_ms")),
        obsolete_target: drops_targets(root, &format!("{context}/targets"))?,
    })
}

fn drops_targets(root: &Root, folder: &str) -> Result<bool, RootError> {
    if !root.has(folder) {
        return Ok(false);
    }
    root.write(&format!("{folder}/nr_targets"), "1")?;
    Ok(root.has(&format!("{folder}/0/obsolete_target")))
}

fn goals(root: &Root, folder: &str) -> Result<Vec<String>, RootError> {
    if !root.has(folder) {
        return Ok(vec![]);
    }
    root.write(&format!("{folder}/nr_goals"), "1")?;
    let metric = format!("{folder}/0/target_metric");
    // Linux 6.8 and 6.9, the first with quota goals, have only the metric `user_input`, and no file
    // that selects a metric.
    if root.has(&metric) { accepted(root, &metric, &GOALS) } else { Ok(vec![GOALS[0].into()]) }
}

fn filters(root: &Root, scheme: &str) -> Result<Vec<String>, RootError> {
    let is_there = |name: &str| root.has(&format!("{scheme}/{name}"));
    let mut folders: Vec<&str> =
        FILTER_FOLDERS.into_iter().filter(|folder| is_there(folder)).collect();
    if folders.is_empty() && is_there(OLD_FILTER_FOLDER) {
        folders.push(OLD_FILTER_FOLDER);
    }
    let mut filters = vec![];
    for folder in folders {
        root.write(&format!("{scheme}/{folder}/nr_filters"), "1")?;
        filters.extend(accepted(root, &format!("{scheme}/{folder}/0/type"), &FILTERS)?);
    }
    Ok(filters)
}

/// Returns the `candidates` that the kernel accepts in the file `path`; none without the file.
fn accepted(root: &Root, path: &str, candidates: &[&str]) -> Result<Vec<String>, RootError> {
    let mut taken = vec![];
    if !root.has(path) {
        return Ok(taken);
    }
    for word in candidates {
        match root.write(path, word) {
            Ok(()) => taken.push((*word).into()),
            Err(why) if why.is_not_taken() => {}
            Err(why) => return Err(why),
        }
    }
    Ok(taken)
}

/// A DAMON thread that is set up for a probe, and removed when this value is dropped.
struct Setup<'a> {
    root: &'a Root,
    is_set_up: bool,
}

impl<'a> Setup<'a> {
    fn new(root: &'a Root) -> Result<Self, ProbeError> {
        let count = root.number(COUNT)?.ok_or(ProbeError::Missing)?;
        if count > 0 {
            return Err(ProbeError::Held(count));
        }
        root.write(COUNT, "1")?;
        Ok(Self { root, is_set_up: true })
    }

    fn remove(mut self) -> Result<(), RootError> {
        self.removed()
    }

    fn removed(&mut self) -> Result<(), RootError> {
        if !std::mem::take(&mut self.is_set_up) {
            return Ok(());
        }
        // A count other than 1 means that another program has replaced the list of threads in the
        // meantime. Leave that program's threads in place.
        if self.root.number(COUNT)? != Some(1) {
            return Ok(());
        }
        self.root.write(COUNT, "0")
    }
}

impl Drop for Setup<'_> {
    fn drop(&mut self) {
        // `is_set_up` is still true only if `probe` returns an error. An error of this removal is
        // ignored, because that first error is reported.
        _ = self.removed();
    }
}
