//! DAMON: whether it is there, what it can do, and who uses it.

use crate::root::{Root, RootError};

const ADMIN: &str = "/sys/kernel/mm/damon/admin/kdamonds";
const MODULES: [(&str, &str); 3] = [
    ("damon_stat", "/sys/module/damon_stat/parameters/enabled"),
    ("damon_reclaim", "/sys/module/damon_reclaim/parameters/enabled"),
    ("damon_lru_sort", "/sys/module/damon_lru_sort/parameters/enabled"),
];

/// What is known of DAMON without starting it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Damon {
    /// Threads of it that someone set up, and whether each is on.
    pub kdamonds: Vec<bool>,
    /// Its own modules that are enabled: they and we exclude each other.
    pub modules: Vec<String>,
    /// Operations that it offers, where some context was set up to ask: `vaddr`, `paddr`, ...
    pub operations: Vec<String>,
}

/// DAMON as it stands; `None` where the kernel has none, or not its files.
///
/// # Errors
/// When a file that is there cannot be read.
pub fn damon(root: &Root) -> Result<Option<Damon>, RootError> {
    if !root.has(ADMIN) {
        return Ok(None);
    }
    let mut damon = Damon::default();
    for name in root.names(ADMIN)? {
        if name.parse::<u32>().is_err() {
            continue;
        }
        let state = root.text(&format!("{ADMIN}/{name}/state"))?.unwrap_or_default();
        damon.kdamonds.push(state.trim() == "on");
        let operations =
            root.text(&format!("{ADMIN}/{name}/contexts/0/avail_operations"))?.unwrap_or_default();
        for word in operations.split_whitespace() {
            if !damon.operations.iter().any(|known| known == word) {
                damon.operations.push(word.into());
            }
        }
    }
    for (module, path) in MODULES {
        if matches!(root.text(path)?.as_deref().map(str::trim), Some("Y" | "1" | "true")) {
            damon.modules.push(module.into());
        }
    }
    Ok(Some(damon))
}
