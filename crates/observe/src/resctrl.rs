//! Traffic of one command, as caches count it for groups of processes: the kernel's resource
//! control (Documentation/filesystems/resctrl.rst of Linux).
//!
//! A monitoring group is a folder; processes whose numbers are written to its `tasks`, and what
//! they start from then on, are counted together: `mon_data/mon_L3_*/mbm_total_bytes` are the
//! bytes between the last cache of a socket and memory, whatever tier that is and whether they are
//! read or written. Where nothing counts tiers, that is still a bandwidth, and the command's own.
//!
//! The folder goes when the command has ended. Its name has the process that made it, so that what
//! a killed one left is found and removed by the next.

use interleaf_linux::{
    process::process,
    root::{Root, RootError},
};

const MOUNT: &str = "/sys/fs/resctrl";
const GROUPS: &str = "/sys/fs/resctrl/mon_groups";

/// How the names of our groups begin: then come the process and when that began.
const PREFIX: &str = "interleaf-";

/// What is counted.
const TOTAL: &str = "mbm_total_bytes";

/// Why there is no such count.
#[derive(Debug, thiserror::Error)]
pub enum ResctrlError {
    /// Nothing is mounted.
    #[error("resctrl is not mounted")]
    NotMounted,
    /// Caches do not count traffic.
    #[error("the caches of this CPU do not count traffic (mbm_total_bytes)")]
    NotCounted,
    /// A file cannot be read or written.
    #[error(transparent)]
    Root(#[from] RootError),
}

/// A group of processes that is monitored. It is removed when this goes.
#[derive(Debug)]
pub struct Monitor<'a> {
    root: &'a Root,
    folder: String,
    /// By cache, what was read last.
    last: Vec<(String, u64)>,
}

/// Whether a command's traffic could be counted, without changing anything.
///
/// # Errors
/// When it could not be.
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

/// Removes groups that killed processes have left, and says how many.
///
/// # Errors
/// When they cannot be listed or removed.
pub fn remove_leftovers(root: &Root) -> Result<usize, RootError> {
    let mut removed = 0;
    for name in root.peek_names(GROUPS)? {
        let Some((pid, ticks)) = name.strip_prefix(PREFIX).and_then(|name| name.split_once('-'))
        else {
            continue;
        };
        let (Ok(pid), Ok(ticks)) = (pid.parse::<u32>(), ticks.parse::<u64>()) else { continue };
        if process(root, pid)?.is_none_or(|process| process.start_ticks != ticks) {
            root.remove_folder(&format!("{GROUPS}/{name}"))?;
            removed += 1;
        }
    }
    Ok(removed)
}

impl<'a> Monitor<'a> {
    /// Makes a group of process `own`, which is the one that asks.
    ///
    /// # Errors
    /// When there is no such count, or this user may not make groups.
    pub fn open(root: &'a Root, own: u32) -> Result<Self, ResctrlError> {
        probe(root)?;
        remove_leftovers(root)?;
        let ticks = process(root, own)?.map_or(0, |process| process.start_ticks);
        let folder = format!("{GROUPS}/{PREFIX}{own}-{ticks}");
        root.make_folder(&folder)?;
        Ok(Self { root, folder, last: vec![] })
    }

    /// Counts a process from now on, and what it starts from now on.
    ///
    /// # Errors
    /// When the kernel refuses: the process may be in a group of somebody else's.
    pub fn add_process(&self, pid: u32) -> Result<(), RootError> {
        self.root.write(&format!("{}/tasks", self.folder), &format!("{pid}\n"))
    }

    /// Bytes since the last reading; `None` when no cache tells.
    ///
    /// # Errors
    /// When a file cannot be read.
    pub fn read(&mut self) -> Result<Option<f64>, RootError> {
        let data = format!("{}/mon_data", self.folder);
        let mut sum = None;
        let mut now = vec![];
        for cache in self.root.peek_names(&data)? {
            // A cache that is out of counters says `Unavailable`.
            let text = self.root.peek(&format!("{data}/{cache}/{TOTAL}"))?.unwrap_or_default();
            let Ok(bytes) = text.trim().parse::<u64>() else { continue };
            let before = self.last.iter().find(|(name, _)| *name == cache);
            let grown = bytes.saturating_sub(before.map_or(0, |(_, bytes)| *bytes));
            *sum.get_or_insert(0.0) += grown as f64;
            now.push((cache, bytes));
        }
        self.last = now;
        Ok(sum)
    }
}

impl Drop for Monitor<'_> {
    fn drop(&mut self) {
        // Where it fails, the next one tries again.
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

    /// A folder with process 7, where resctrl is mounted and counts so.
    fn mounted(features: &str) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        let line = "7 (a) R 1 7 7 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 9876 0 0";
        written(folder.path(), "proc/7/stat", line);
        written(folder.path(), "sys/fs/resctrl/info/L3_MON/mon_features", features);
        fs::create_dir_all(folder.path().join("sys/fs/resctrl/mon_groups")).unwrap();
        folder
    }

    #[test]
    fn what_is_not_there_is_told() {
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
        let root = Root::live_below(folder.path());
        let groups = folder.path().join("sys/fs/resctrl/mon_groups");
        // One that a killed process left, one of somebody else, and one of a process that lives.
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
        // The kernel's files go with the folder.
        fs::remove_dir_all(own.join("mon_data")).unwrap();
        fs::remove_file(own.join("tasks")).unwrap();
        drop(monitor);
        assert!(!own.exists() && groups.join("interleaf-x").exists());
    }
}
