//! Joins a process to its session: gives it a slot in the ledger, a store, the nodes of its frames,
//! and the settings of its cache.

use super::{Children, STORE_FAULTS, Session};
use crate::{
    cache::Settings,
    nodes::Nodes,
    session::ledger::{OUTSIDE_BUDGET, SlotGuard},
};
use interleaf_store::{FileStore, Options, release::Releaser};
use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

/// Size of the address range that a pager reserves for its regions: 4 TiB, in bytes.
pub const ADDRESSES: usize = 4 << 40;

impl Session {
    /// Takes a slot in the ledger for this process. Returns the slot and the initial number of
    /// frames of the process.
    ///
    /// # Errors
    /// When all slots are taken, or the session cannot identify this process by `/proc`.
    pub fn join(&self, name: &str) -> Result<(SlotGuard, u32), String> {
        let budget = self.ledger.budget();
        let is_outside = self.settings.children == Children::Own;
        let identity = self.ledger.own_identity().map_err(|why| format!("/proc: {why}"))?;
        let wanted = if is_outside { OUTSIDE_BUDGET } else { budget };
        let guard = Arc::clone(&self.ledger).join(identity, name, wanted);
        let guard = guard.ok_or("the session has no room for one more process")?;
        let frames = match is_outside {
            true => guard.hold(budget),
            false => guard.take_first(budget / u64::from(self.settings.processes.max(1))),
        };
        Ok((guard, u32::try_from(frames).unwrap_or(u32::MAX)))
    }

    /// Opens the store of this process.
    ///
    /// # Errors
    /// When a store cannot be used, or [`STORE_FAULTS`] is not a plan of faults.
    pub fn open_store(&self) -> Result<FileStore, String> {
        let stores: Vec<&Path> = self.settings.stores.iter().map(PathBuf::as_path).collect();
        let faults = match std::env::var(STORE_FAULTS) {
            Ok(plan) => Some(plan.parse().map_err(|why| format!("{STORE_FAULTS}: {why}"))?),
            Err(_) => None,
        };
        let options = Options { force: self.settings.force, faults, ..Options::default() };
        let store = FileStore::open_all(&stores, options).map_err(|why| why.to_string())?;
        Ok(store.released_by(Some(Releaser::in_folder(self.folder()))))
    }

    /// The NUMA nodes whose memory holds the frames of this process.
    pub fn nodes(&self) -> Nodes {
        Nodes::new(&self.settings.nodes)
    }

    /// The settings of this process's cache. The cache has frames for the whole budget of the
    /// session, but uses only as many of them as the ledger allows.
    ///
    /// # Errors
    /// When the budget is too large.
    pub fn cache_settings(&self) -> Result<Settings, String> {
        let frames = u32::try_from(self.ledger.budget()).map_err(|_| "the budget is too large")?;
        Ok(Settings::for_budget(frames))
    }
}
