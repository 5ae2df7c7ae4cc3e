//! Resources used by a process, the counts of its pager, and the traffic of a drive.

use interleaf_console::Failure;
use interleaf_linux::root::Root;
use interleaf_pager::session::{Session, VARIABLE};
use interleaf_record::{
    bench::{DriveTraffic, ExtendedDocument},
    extend::CountsDocument,
};
use std::{env, os::unix::fs::MetadataExt as _, path::Path};

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Used {
    pub(super) cpu_s: f64,
    pub(super) major_faults: u64,
    pub(super) resident_max_bytes: Option<u64>,
}

impl Used {
    /// Reads the usage of this process with all its threads.
    pub(super) fn now(root: &Root) -> Self {
        let text = |path: &str| root.peek(path).ok().flatten().unwrap_or_default();
        let stat = text("/proc/self/stat");
        // The process name, in brackets, may contain spaces: parse behind the last bracket.
        let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or("").split_whitespace().collect();
        // The fields behind the name begin with the state, the third field of proc(5).
        let field = |number: usize| fields.get(number - 3).and_then(|it| it.parse::<u64>().ok());
        let ticks = field(14).unwrap_or(0) + field(15).unwrap_or(0);
        let per_second = rustix::param::clock_ticks_per_second().max(1);
        let status = text("/proc/self/status");
        let most = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let most = most.and_then(|it| it.trim().trim_end_matches("kB").trim().parse::<u64>().ok());
        Self {
            cpu_s: ticks as f64 / per_second as f64,
            major_faults: field(12).unwrap_or(0),
            resident_max_bytes: most.map(|kib| kib * 1024),
        }
    }
}

/// The session of `interleaf extend` that this process runs in.
pub(super) struct Extended {
    session: Session,
}

impl Extended {
    /// The session; `None` outside `interleaf extend`.
    pub(super) fn find() -> Option<Self> {
        let session = Session::open(Path::new(&env::var_os(VARIABLE)?)).ok()?;
        Some(Self { session })
    }

    /// The counts of this process's pager so far.
    pub(super) fn counts(&self) -> CountsDocument {
        let pid = std::process::id();
        let own = self.session.ledger.processes().into_iter().find(|it| it.identity.pid == pid);
        own.map_or(CountsDocument::default(), |own| own.counts.into())
    }

    /// The counts since an earlier reading.
    pub(super) fn document(&self, now: CountsDocument, then: CountsDocument) -> ExtendedDocument {
        ExtendedDocument { dram_bytes: self.session.settings.dram_bytes, counts: now - then }
    }
}

/// A drive, with its folder below `/sys`.
#[derive(Clone, Debug)]
pub(super) struct Drive {
    name: String,
    folder: String,
}

/// Reads, sectors read, writes, sectors written, since boot.
pub(super) type Done = [u64; 4];

impl Drive {
    /// Finds the drive of the file system that has this folder.
    pub(super) fn find(root: &Root, folder: &Path) -> Result<Self, Failure> {
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

    /// Reads the traffic counters.
    pub(super) fn done(&self, root: &Root) -> Done {
        let text = root.peek(&format!("{}/stat", self.folder)).ok().flatten().unwrap_or_default();
        let fields: Vec<u64> = text.split_whitespace().filter_map(|it| it.parse().ok()).collect();
        // The order of the fields is that of Documentation/block/stat.rst.
        [0, 2, 4, 6].map(|at| fields.get(at).copied().unwrap_or(0))
    }

    /// Returns the traffic between two readings. Sectors of these counters have 512 bytes on any
    /// drive.
    pub(super) fn document(&self, now: Done, then: Done) -> DriveTraffic {
        let since = |at: usize| now[at].saturating_sub(then[at]);
        DriveTraffic {
            name: self.name.clone(),
            read_bytes: 512 * since(1),
            written_bytes: 512 * since(3),
            reads: since(0),
            writes: since(2),
        }
    }
}
