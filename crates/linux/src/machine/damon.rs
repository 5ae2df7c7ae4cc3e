//! DAMON: whether it is there, who uses it, and what it can do.
//!
//! Its files grow as one sets it up: `kdamonds/N` is a thread, `contexts/0` in it what is watched,
//! and how, `schemes/N` in that what is done with what was found. So most of what a kernel offers
//! cannot be seen before someone has set it up: [`damon`] reads what is there, and [`probe::probe`]
//! sets something up, looks, and removes it.

pub mod probe;

use crate::root::{Root, RootError};

/// The folder of DAMON's threads.
pub const ADMIN: &str = "/sys/kernel/mm/damon/admin/kdamonds";

/// The number of threads: the process whose journal holds this setting has DAMON.
pub const COUNT: &str = "/sys/kernel/mm/damon/admin/kdamonds/nr_kdamonds";

/// Its own modules, and the switch of each.
pub(crate) const MODULES: [(&str, &str); 3] = [
    ("damon_stat", "/sys/module/damon_stat/parameters/enabled"),
    ("damon_reclaim", "/sys/module/damon_reclaim/parameters/enabled"),
    ("damon_lru_sort", "/sys/module/damon_lru_sort/parameters/enabled"),
];

/// What is known of DAMON without starting it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Damon {
    /// Threads of it that someone set up.
    pub kdamonds: Vec<KdamondSettings>,
    /// Its own modules that are enabled: they and we exclude each other.
    pub modules: Vec<String>,
    /// Operations that it offers, where some context was set up to ask: `vaddr`, `paddr`, ...
    pub operations: Vec<String>,
    /// Whether schemes have destinations; `None` where nobody has set up a scheme.
    pub destinations: Option<bool>,
    /// Whether there is something that this user may not read: then the rest may be too little.
    pub hidden: bool,
}

/// A thread of DAMON that someone set up.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KdamondSettings {
    /// Whether it runs; not known to who may not read it.
    pub on: Option<bool>,
    /// What it watches: `paddr` is the memory of the machine, `vaddr` that of processes.
    pub operations: Option<String>,
    /// What its schemes do, in their order.
    pub actions: Vec<String>,
}

/// DAMON as it stands; `None` where the kernel has none, or not its files.
///
/// # Errors
/// When a file cannot be read for another reason than that only root may.
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
        // In a capture, what could not be read is empty.
        damon.hidden |= enabled.is_empty() && root.has(path);
        if matches!(enabled.trim(), "Y" | "1" | "true") {
            damon.modules.push(module.into());
        }
    }
    Ok(Some(damon))
}

/// A thread whose files are in `folder`, and what they show of what the kernel offers.
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
