//! What DAMON takes, found out by asking: a thread is set up with one context and one scheme, words
//! are written where they belong, and all of it is removed again. The thread is never started, so
//! nothing is watched and nothing is done. It takes milliseconds.
//!
//! The kernel takes a word that it knows, and answers `EINVAL` to others. What it takes is not all
//! that it then does: destinations, say, are for contexts of `vaddr` and `fvaddr`.
//!
//! All of DAMON's threads are one list, whose length is set: setting it drops what was there,
//! unless a thread runs, and then the kernel refuses. So it is not done where somebody has set up a
//! thread, started or not. Who sets one up at the same moment (damo, say) meets us, as they would
//! meet each other: there is no lock.

use super::{ADMIN, words};
use crate::root::{Root, RootError};

/// What a scheme may do. Those that a kernel does not know, now or ever, cost one write.
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

/// What a quota may be tuned towards.
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

/// How a quota may be tuned.
const TUNERS: [&str; 2] = ["consist", "temporal"];

/// What pages may be told apart by.
const FILTERS: [&str; 8] =
    ["anon", "active", "memcg", "young", "hugepage_size", "unmapped", "addr", "target"];

/// Where filters are set up, since 6.14.
const FILTER_FOLDERS: [&str; 2] = ["core_filters", "ops_filters"];

/// Where they are set up before that; deprecated since 7.2.
const OLD_FILTER_FOLDER: &str = "filters";

/// What DAMON takes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Probed {
    /// What it watches: `vaddr`, `fvaddr`, `paddr`.
    pub operations: Vec<String>,
    /// What schemes do: `pageout`, `migrate_hot`, ...
    pub actions: Vec<String>,
    /// Whether a scheme may have several destinations with weights: what interleaves the pages of
    /// running programs.
    pub destinations: bool,
    /// What quotas may be tuned towards: `node_mem_used_bp`, ...
    pub goals: Vec<String>,
    /// How they may be tuned; none where the kernel has one way.
    pub tuners: Vec<String>,
    /// What pages may be told apart by: `anon`, `young`, ...
    pub filters: Vec<String>,
    /// Whether it tunes its intervals itself.
    pub interval_goal: bool,
    /// Whether filters are in two folders by who applies them, `core_filters` and `ops_filters`.
    pub split_filters: bool,
    /// Whether a thread brings its own statistics up to date, `refresh_ms`.
    pub refresh: bool,
    /// Whether one process can be dropped while others are watched on, `obsolete_target`.
    pub obsolete_target: bool,
}

impl Probed {
    /// What a kernel of this release takes, such as `6.17.13`, as far as it matters for moving
    /// pages: of one that cannot be asked. From `docs/kernels.md`, which a test holds against
    /// kernels, and for those in between the releases that kernels announce them for. `None` of
    /// one before 6.11, whose DAMON moves no pages.
    pub fn of_release(release: &str) -> Option<Self> {
        let mut numbers = release.split(['.', '-', '+']).map_while(|word| word.parse::<u32>().ok());
        let release = (numbers.next()?, numbers.next()?);
        if release < (6, 11) {
            return None;
        }
        let words = |all: &[((u32, u32), &str)]| {
            let there = all.iter().filter(|(since, _)| release >= *since);
            there.map(|(_, word)| (*word).to_string()).collect()
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
            split_filters: release >= (6, 17),
            refresh: release >= (6, 17),
            obsolete_target: release >= (6, 19),
        })
    }
}

/// Why it was not found out.
#[derive(Debug, thiserror::Error)]
pub enum ProbeError {
    /// The machine was captured.
    #[error("a captured machine has no kernel to ask")]
    Captured,
    /// There is no DAMON.
    #[error("the kernel has no DAMON, or its files are not there")]
    Missing,
    /// Somebody has set up threads.
    #[error("somebody has set up {0} DAMON thread(s), which setting up another one would drop")]
    Held(u64),
    /// A file that cannot be read or written.
    #[error(transparent)]
    Root(#[from] RootError),
}

/// Finds out what DAMON takes, on a machine where nobody has set up a thread of it; leaves it as it
/// was found, whatever happens.
///
/// # Errors
/// When the machine was captured, has no DAMON or somebody has set it up, which is left untouched;
/// and when a file cannot be read or written: only root may.
pub fn probe(root: &Root) -> Result<Probed, ProbeError> {
    if !root.is_live() {
        return Err(ProbeError::Captured);
    }
    let setup = Setup::new(root)?;
    let probed = look(root)?;
    setup.remove()?;
    Ok(probed)
}

fn look(root: &Root) -> Result<Probed, RootError> {
    let context = format!("{ADMIN}/0/contexts/0");
    let scheme = format!("{context}/schemes/0");
    root.write(&format!("{ADMIN}/0/contexts/nr_contexts"), "1")?;
    root.write(&format!("{context}/schemes/nr_schemes"), "1")?;
    let operations = root.text(&format!("{context}/avail_operations"))?.unwrap_or_default();
    Ok(Probed {
        operations: words(&operations),
        actions: taken(root, &format!("{scheme}/action"), &ACTIONS)?,
        destinations: root.has(&format!("{scheme}/dests")),
        goals: goals(root, &format!("{scheme}/quotas/goals"))?,
        tuners: taken(root, &format!("{scheme}/quotas/goal_tuner"), &TUNERS)?,
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
    // The first kernels with goals (6.8 and 6.9) have one metric, and no file for it.
    if root.has(&metric) { taken(root, &metric, &GOALS) } else { Ok(vec![GOALS[0].into()]) }
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
        filters.extend(taken(root, &format!("{scheme}/{folder}/0/type"), &FILTERS)?);
    }
    Ok(filters)
}

/// Those of `candidates` that the kernel takes in the file at `path`; none where it has no such
/// file.
fn taken(root: &Root, path: &str, candidates: &[&str]) -> Result<Vec<String>, RootError> {
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

/// How many threads there are.
fn count_path() -> String {
    format!("{ADMIN}/nr_kdamonds")
}

/// One thread that was set up, and is removed when this goes.
struct Setup<'a> {
    root: &'a Root,
    there: bool,
}

impl<'a> Setup<'a> {
    fn new(root: &'a Root) -> Result<Self, ProbeError> {
        let count = root.number(&count_path())?.ok_or(ProbeError::Missing)?;
        if count > 0 {
            return Err(ProbeError::Held(count));
        }
        root.write(&count_path(), "1")?;
        Ok(Self { root, there: true })
    }

    /// Removes it, and tells whether that failed.
    fn remove(mut self) -> Result<(), RootError> {
        self.removed()
    }

    fn removed(&mut self) -> Result<(), RootError> {
        if !std::mem::take(&mut self.there) {
            return Ok(());
        }
        // Another number is somebody else's, who has dropped ours.
        if self.root.number(&count_path())? != Some(1) {
            return Ok(());
        }
        self.root.write(&count_path(), "0")
    }
}

impl Drop for Setup<'_> {
    fn drop(&mut self) {
        // It was an error that led here: that is told, and this would hide it.
        _ = self.removed();
    }
}
