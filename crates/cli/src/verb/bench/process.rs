//! What a process has used so far, and what a drive did.

use crate::{document::bench::DriveDocument, failure::Failure};
use interleaf_linux::root::Root;
use interleaf_procfs::{stat::Stat, status};
use std::{os::unix::fs::MetadataExt as _, path::Path};

/// What this process has used so far.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Used {
    pub(super) cpu_s: f64,
    pub(super) major_faults: u64,
    pub(super) resident_max_bytes: Option<u64>,
}

impl Used {
    /// Of this process, with all its threads.
    pub(super) fn now(root: &Root) -> Self {
        let text = |path: &str| root.peek(path).ok().flatten().unwrap_or_default();
        let stat = text("/proc/self/stat");
        let stat = Stat::parse(stat.as_bytes());
        let ticks = stat.and_then(|stat| stat.cpu_ticks()).unwrap_or(0);
        let per_second = rustix::param::clock_ticks_per_second().max(1);
        let status = text("/proc/self/status");
        Self {
            cpu_s: ticks as f64 / per_second as f64,
            major_faults: stat.and_then(|stat| stat.major_faults()).unwrap_or(0),
            resident_max_bytes: status::bytes(status.as_bytes(), "VmHWM"),
        }
    }
}

/// A drive, by its folder below `/sys`.
#[derive(Clone, Debug)]
pub(super) struct Drive {
    name: String,
    folder: String,
}

/// Reads, sectors read, writes, sectors written.
pub(super) type Done = [u64; 4];

impl Drive {
    /// The drive that has this folder.
    pub(super) fn of(root: &Root, folder: &Path) -> Result<Self, Failure> {
        let failed = |why: String| {
            let hint = "name a folder on a drive, such as /var/tmp";
            Failure::new(format!("{}: {why}", folder.display()), hint)
        };
        let device = folder.metadata().map_err(|why| failed(why.to_string()))?.dev();
        let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
        let path = format!("/sys/dev/block/{major}:{minor}");
        if !root.has(&format!("{path}/stat")) {
            return Err(failed(format!("device {major}:{minor} is no drive that counts")));
        }
        let link = root.at(&path).canonicalize().unwrap_or_default();
        let name = link.file_name().map_or(path.clone(), |it| it.to_string_lossy().into_owned());
        Ok(Self { name, folder: path })
    }

    /// What it has done since the machine started.
    pub(super) fn done(&self, root: &Root) -> Done {
        let text = root.peek(&format!("{}/stat", self.folder)).ok().flatten().unwrap_or_default();
        let fields: Vec<u64> = text.split_whitespace().filter_map(|it| it.parse().ok()).collect();
        // The order is that of Documentation/block/stat.rst.
        [0, 2, 4, 6].map(|at| fields.get(at).copied().unwrap_or(0))
    }

    /// What it did between two moments. A sector of these counts is 512 bytes, whatever the drive.
    pub(super) fn document(&self, now: Done, then: Done) -> DriveDocument {
        let since = |at: usize| now[at].saturating_sub(then[at]);
        DriveDocument {
            name: self.name.clone(),
            read_bytes: 512 * since(1),
            written_bytes: 512 * since(3),
            reads: since(0),
            writes: since(2),
        }
    }
}
