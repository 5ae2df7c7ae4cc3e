//! Counts the traffic of one command between the last-level caches and memory. The caches count
//! traffic by groups of processes, and the kernel's resource control exposes the counts
//! (Documentation/filesystems/resctrl.rst of Linux).
//!
//! A monitoring group is a folder with a file `tasks`. Processes whose IDs are written to `tasks`,
//! and their later children, are counted together. `mon_data/mon_L3_*/mbm_total_bytes` have the
//! bytes between the last-level cache of a socket and memory of any tier, reads and writes
//! together. These bytes give the bandwidth of the command even on a machine without counters for
//! the traffic of a tier.
//!
//! The folder is removed when the command has ended. The name of the folder has the process ID and
//! the start time of its creator, so a later process recognises and removes the folder of a killed
//! process.

use interleaf_linux::{
    process::{has_owner_ended, owner_suffix},
    root::{Root, RootError},
};

const MOUNT: &str = "/sys/fs/resctrl";
const GROUPS: &str = "/sys/fs/resctrl/mon_groups";

/// The prefix of the names of Interleaf's groups. The process ID and the start time of the group's
/// creator follow it.
const PREFIX: &str = "interleaf-";

const TOTAL: &str = "mbm_total_bytes";

/// The reason why the traffic of a command cannot be counted.
#[derive(Debug, thiserror::Error)]
pub enum ResctrlError {
    #[error("resctrl is not mounted")]
    NotMounted,
    #[error("the caches of this CPU do not count traffic (mbm_total_bytes)")]
    NotCounted,
    #[error(transparent)]
    Root(#[from] RootError),
}

/// A monitoring group of processes. The group is removed when the `Monitor` is dropped.
#[derive(Debug)]
pub struct Monitor<'a> {
    root: &'a Root,
    folder: String,
    /// For each last-level cache, its name and its count at the last reading, bytes.
    last: Vec<(String, u64)>,
}

/// Checks that a command's traffic could be counted, without changing anything.
///
/// # Errors
/// When the traffic could not be counted. The error is the reason.
pub fn probe(root: &Root) -> Result<(), ResctrlError> {
    if !root.has(&format!("{MOUNT}/info")) {
        return Err(ResctrlError::NotMounted);
    }
    let features = root.text(&format!("{MOUNT}/info/L3_MON/mon_features"))?.unwrap_or_default();
    match features.lines().any(|feature| feature.trim() == TOTAL) {
        true => Ok(()),
        false => Err(ResctrlError::NotCounted),
    }
}

/// Removes the monitoring groups that killed processes have left. Returns the number of removed
/// groups.
///
/// # Errors
/// When the groups cannot be listed or removed.
pub fn remove_leftovers(root: &Root) -> Result<usize, RootError> {
    let mut removed = 0;
    for name in root.peek_names(GROUPS)? {
        let Some(owner) = name.strip_prefix(PREFIX) else { continue };
        if has_owner_ended(root, owner)? {
            root.remove_folder(&format!("{GROUPS}/{name}"))?;
            removed += 1;
        }
    }
    Ok(removed)
}

impl<'a> Monitor<'a> {
    /// Removes the groups of killed processes, and creates an empty group. `own` is the process ID
    /// of the calling process. The name of the new group has this ID and the start time of the
    /// process.
    ///
    /// # Errors
    /// When resctrl is not mounted, the CPU cannot count traffic, or this user may not create or
    /// remove groups.
    pub fn open(root: &'a Root, own: u32) -> Result<Self, ResctrlError> {
        probe(root)?;
        remove_leftovers(root)?;
        let folder = format!("{GROUPS}/{PREFIX}{}", owner_suffix(root, own)?);
        root.make_folder(&folder)?;
        Ok(Self { root, folder, last: vec![] })
    }

    /// Adds a process to the group. The traffic of the process and of its later children is counted
    /// from now on.
    ///
    /// # Errors
    /// When the kernel refuses, for example because the process is in another program's control
    /// group of resctrl.
    pub fn add_process(&self, pid: u32) -> Result<(), RootError> {
        self.root.write(&format!("{}/tasks", self.folder), &format!("{pid}\n"))
    }

    /// Reads the bytes of the group's traffic since the last reading; `None` if no cache counts
    /// traffic.
    ///
    /// # Errors
    /// When a file cannot be read.
    pub fn read(&mut self) -> Result<Option<f64>, RootError> {
        let data = format!("{}/mon_data", self.folder);
        let mut sum = None;
        let mut now = vec![];
        for cache in self.root.peek_names(&data)? {
            let before = self.last.iter().find(|(name, _)| *name == cache);
            let before = before.map_or(0, |(_, bytes)| *bytes);
            let text = self.root.peek(&format!("{data}/{cache}/{TOTAL}"))?.unwrap_or_default();
            // The file of a cache without a free hardware counter reads `Unavailable`. The traffic
            // of this cache is included when the cache has a counter again.
            let bytes = text.trim().parse::<u64>();
            if let Ok(bytes) = bytes {
                *sum.get_or_insert(0.0) += bytes.saturating_sub(before) as f64;
            }
            now.push((cache, bytes.unwrap_or(before)));
        }
        self.last = now;
        Ok(sum)
    }
}

impl Drop for Monitor<'_> {
    fn drop(&mut self) {
        // If the removal fails, `remove_leftovers` in a later process tries again.
        drop(self.root.remove_folder(&self.folder));
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;
    use std::{fs, path::Path};

    fn written(folder: &Path, path: &str, text: &str) {
        let path = folder.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// Makes the files of a machine that has process 7 and a mounted resctrl with the features
    /// `features`.
    fn mounted(features: &str) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        let line = "7 (a) R 1 7 7 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 9876 0 0";
        written(folder.path(), "proc/7/stat", line);
        written(folder.path(), "sys/fs/resctrl/info/L3_MON/mon_features", features);
        fs::create_dir_all(folder.path().join("sys/fs/resctrl/mon_groups")).unwrap();
        folder
    }

    #[test]
    fn missing_resctrl_features_are_reported() {
        let folder = tempfile::tempdir().unwrap();
        let why = probe(&Root::captured(folder.path())).unwrap_err();
        assert!(matches!(why, ResctrlError::NotMounted), "{why}");
        let folder = mounted("llc_occupancy\n");
        let why = probe(&Root::captured(folder.path())).unwrap_err();
        assert!(matches!(why, ResctrlError::NotCounted), "{why}");
    }

    #[test]
    fn a_group_counts_and_goes() {
        let folder = mounted("llc_occupancy\nmbm_total_bytes\n");
        let top = folder.path().to_path_buf();
        let write =
            move |path: &str, text: &str| fs::write(top.join(path.trim_start_matches('/')), text);
        let root = Root::live_simulated(folder.path(), write);
        let groups = folder.path().join("sys/fs/resctrl/mon_groups");
        // The groups on the machine: `interleaf-8-1` belongs to a killed process and must be
        // removed, `theirs` belongs to another program, and `interleaf-x` has a name that Interleaf
        // does not use. `interleaf-7-9876` is the group of the running process 7; its folder is
        // removed now, because `Monitor::open` creates it.
        for name in ["interleaf-8-1", "theirs", "interleaf-7-9876", "interleaf-x"] {
            fs::create_dir(groups.join(name)).unwrap();
        }
        fs::remove_dir(groups.join("interleaf-7-9876")).unwrap();
        let mut monitor = Monitor::open(&root, 7).unwrap();
        assert!(!groups.join("interleaf-8-1").exists() && groups.join("theirs").exists());
        let own = groups.join("interleaf-7-9876");
        assert_eq!(monitor.read().unwrap(), None, "no cache tells");
        monitor.add_process(42).unwrap();
        assert_eq!(fs::read_to_string(own.join("tasks")).unwrap(), "42\n");
        let caches = |a: &str, b: &str| {
            for (cache, text) in [("mon_L3_00", a), ("mon_L3_01", b)] {
                written(&own, &format!("mon_data/{cache}/mbm_total_bytes"), text);
            }
        };
        caches("1000\n", "Unavailable\n");
        assert_eq!(monitor.read().unwrap(), Some(1000.0));
        caches("1500\n", "200\n");
        assert_eq!(monitor.read().unwrap(), Some(700.0));
        caches("Unavailable\n", "Unavailable\n");
        assert_eq!(monitor.read().unwrap(), None, "no cache counts");
        caches("1600\n", "Unavailable\n");
        assert_eq!(monitor.read().unwrap(), Some(100.0), "without the bytes that counted before");
        // The test itself removes the files of the group. The kernel would remove them together
        // with the folder.
        fs::remove_dir_all(own.join("mon_data")).unwrap();
        fs::remove_file(own.join("tasks")).unwrap();
        drop(monitor);
        assert!(!own.exists() && groups.join("interleaf-x").exists());
    }
}
