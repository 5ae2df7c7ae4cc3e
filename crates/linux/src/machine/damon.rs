//! The state of DAMON in the kernel: the threads that are set up, and their features.
//!
//! In sysfs, the folder `kdamonds/N` is the DAMON thread number N. Its subfolder `contexts/0` has
//! the monitored memory and the intervals, and each `contexts/0/schemes/N` has an action on the
//! regions with a given access pattern. The kernel creates these files when a program sets a thread
//! up, so most features of DAMON are visible only then. [`damon`] reads the files as they are,
//! while [`probe::probe`] sets a thread up, reads its files, and removes the thread.

pub mod probe;

use crate::root::{Root, RootError};

/// The folder with a subfolder for each DAMON thread.
pub const ADMIN: &str = "/sys/kernel/mm/damon/admin/kdamonds";

/// The file with the number of DAMON threads. Only one process of Interleaf uses DAMON at a time:
/// the process whose journal has a change of this setting.
pub const COUNT: &str = "/sys/kernel/mm/damon/admin/kdamonds/nr_kdamonds";

/// DAMON modules that belong to the kernel, each with the file that enables it.
pub(crate) const MODULES: [(&str, &str); 3] = [
    ("damon_stat", "/sys/module/damon_stat/parameters/enabled"),
    ("damon_reclaim", "/sys/module/damon_reclaim/parameters/enabled"),
    ("damon_lru_sort", "/sys/module/damon_lru_sort/parameters/enabled"),
];

/// The state of DAMON, read without setting up a thread.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Damon {
    /// The DAMON threads that are set up, started or not.
    pub kdamonds: Vec<KdamondSettings>,
    /// The kernel's DAMON modules that are enabled. Interleaf's DAMON thread cannot run while such
    /// a module is enabled.
    pub modules: Vec<String>,
    /// Operations sets of the kernel, such as `vaddr` and `paddr`, as the files of a context list
    /// them; empty if no thread has a context.
    pub operations: Vec<String>,
    /// True when a scheme can have several destinations: its files then include the folder `dests`.
    /// `None` if no scheme exists.
    pub destinations: Option<bool>,
    /// True when this user may not read a file of DAMON. Other fields may then be incomplete.
    pub hidden: bool,
}

/// A thread of DAMON that is set up.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KdamondSettings {
    /// True when the thread runs; `None` if this user may not read its state.
    pub on: Option<bool>,
    /// The operations set: `paddr` monitors physical memory, `vaddr` the addresses of processes.
    pub operations: Option<String>,
    /// The action of each scheme of the thread, in the order of the schemes.
    pub actions: Vec<String>,
}

/// Reads the state of DAMON. Returns `None` on a kernel without DAMON, or without its sysfs files.
///
/// # Errors
/// When a file cannot be read for another reason than missing root rights.
pub fn damon(root: &Root) -> Result<Option<Damon>, RootError> {
    if !root.has(ADMIN) {
        return Ok(None);
    }
    let mut damon = Damon::default();
    for name in root.names(ADMIN)? {
        if name.parse::<u32>().is_ok() {
            let kdamond = kdamond(root, &format!("{ADMIN}/{name}"), &mut damon)?;
            damon.kdamonds.push(kdamond);
        }
    }
    for (module, path) in MODULES {
        let enabled = root.text_if_allowed(path)?.unwrap_or_default();
        // In a captured machine (a copy of a machine's files), a file that could not be read is
        // empty, so it counts as hidden.
        damon.hidden |= enabled.is_empty() && root.has(path);
        if matches!(enabled.trim(), "Y" | "1" | "true") {
            damon.modules.push(module.into());
        }
    }
    Ok(Some(damon))
}

/// Reads the DAMON thread in `folder`. Adds to `damon` the DAMON features that the thread's files
/// show.
fn kdamond(root: &Root, folder: &str, damon: &mut Damon) -> Result<KdamondSettings, RootError> {
    let context = format!("{folder}/contexts/0");
    let word = |path: String| -> Result<Option<String>, RootError> {
        let text = root.text_if_allowed(&path)?;
        Ok(text.map(|text| text.trim().to_string()).filter(|text| !text.is_empty()))
    };
    let state = word(format!("{folder}/state"))?;
    damon.hidden |= state.is_none();
    for operation in word(format!("{context}/avail_operations"))?.iter().flat_map(|all| words(all))
    {
        if !damon.operations.contains(&operation) {
            damon.operations.push(operation);
        }
    }
    let mut actions = vec![];
    for name in root.names(&format!("{context}/schemes"))? {
        if name.parse::<u32>().is_ok() {
            let scheme = format!("{context}/schemes/{name}");
            actions.extend(word(format!("{scheme}/action"))?);
            damon.destinations = Some(root.has(&format!("{scheme}/dests")));
        }
    }
    let on = state.map(|state| state == "on");
    Ok(KdamondSettings { on, operations: word(format!("{context}/operations"))?, actions })
}

fn words(text: &str) -> Vec<String> {
    text.split_whitespace().map(Into::into).collect()
}
