//! Counters of a workload that runs in this process: its CPU time and faults, the counts of its
//! pager, and the traffic of a drive.

use interleaf_console::Failure;
use interleaf_linux::root::Root;
use interleaf_pager::session::{Session, VARIABLE};
use interleaf_procfs::stat::Stat;
use interleaf_record::{
    bench::{DriveTraffic, ExtendedDocument},
    extend::CountsDocument,
};
use std::{
    array::from_fn,
    env,
    ops::{AddAssign, Sub},
    os::unix::fs::MetadataExt as _,
    path::Path,
};

/// Counters of this process (CPU time and major faults of all its threads), of its pager, and of a
/// drive.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counters {
    pub cpu_s: f64,
    pub major_faults: u64,
    /// The counters of the drive; 0 without a drive.
    pub drive: DriveCounts,
    /// The counters of the pager; 0 outside `interleaf extend`.
    pub counts: CountsDocument,
}

impl Counters {
    /// Reads the counters of this process, of `drive`, and of this process's pager. `extended` is
    /// the session of `interleaf extend` in which this process runs.
    pub fn now(root: &Root, drive: Option<&Drive>, extended: Option<&PagedProcess>) -> Self {
        let line = text(root, "/proc/self/stat");
        let stat = Stat::parse(line.as_bytes());
        let ticks = stat.and_then(|stat| stat.cpu_ticks()).unwrap_or(0);
        let per_second = rustix::param::clock_ticks_per_second().max(1);
        Self {
            cpu_s: ticks as f64 / per_second as f64,
            major_faults: stat.and_then(|stat| stat.major_faults()).unwrap_or(0),
            drive: drive.map_or(DriveCounts::default(), |drive| drive.counts(root)),
            counts: extended.map_or(CountsDocument::default(), PagedProcess::counts),
        }
    }
}

impl Sub for Counters {
    type Output = Self;

    /// Returns the counts since the reading `earlier`.
    fn sub(self, earlier: Self) -> Self {
        Self {
            cpu_s: self.cpu_s - earlier.cpu_s,
            major_faults: self.major_faults.saturating_sub(earlier.major_faults),
            drive: from_fn(|at| self.drive[at].saturating_sub(earlier.drive[at])),
            counts: self.counts - earlier.counts,
        }
    }
}

impl AddAssign for Counters {
    fn add_assign(&mut self, other: Self) {
        self.cpu_s += other.cpu_s;
        self.major_faults += other.major_faults;
        self.drive = from_fn(|at| self.drive[at] + other.drive[at]);
        self.counts = self.counts + other.counts;
    }
}

/// Returns the text of a file; empty if it cannot be read.
fn text(root: &Root, path: &str) -> String {
    root.peek(path).ok().flatten().unwrap_or_default()
}

/// The session of `interleaf extend` in which this process runs.
pub struct PagedProcess {
    session: Session,
}

impl PagedProcess {
    /// Finds the session of this process; `None` outside `interleaf extend`.
    pub fn find() -> Option<Self> {
        let session = Session::open(Path::new(&env::var_os(VARIABLE)?)).ok()?;
        Some(Self { session })
    }

    /// The counts of this process's pager so far; all 0 if the process has no pager.
    pub fn counts(&self) -> CountsDocument {
        let pid = std::process::id();
        let own = self.session.ledger.processes().into_iter().find(|it| it.identity.pid == pid);
        own.map_or(CountsDocument::default(), |own| own.counts.into())
    }

    /// Returns a document with the budget of the session and with `counts`, the pager's counts in
    /// the measured rounds.
    pub fn document(&self, counts: CountsDocument) -> ExtendedDocument {
        ExtendedDocument { dram_bytes: self.session.settings.dram_bytes, counts }
    }
}

/// A drive that counts its traffic, with its folder below `/sys`.
#[derive(Clone, Debug)]
pub struct Drive {
    name: String,
    folder: String,
}

/// The counts of a drive: reads, sectors read, writes, and sectors written, in this order.
pub type DriveCounts = [u64; 4];

impl Drive {
    /// Finds the drive that has the file system of `folder`.
    pub fn find(root: &Root, folder: &Path) -> Result<Self, Failure> {
        let failed = |why: String| {
            let hint = "name a folder on a drive, such as /var/tmp";
            Failure::new(format!("{}: {why}", folder.display()), hint)
        };
        let device = folder.metadata().map_err(|why| failed(why.to_string()))?.dev();
        let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
        let path = format!("/sys/dev/block/{major}:{minor}");
        if !root.has(&format!("{path}/stat")) {
            return Err(failed(format!("device {major}:{minor} is not a drive that counts")));
        }
        let link = root.at(&path).canonicalize().unwrap_or_default();
        let name = link.file_name().map_or(path.clone(), |it| it.to_string_lossy().into_owned());
        Ok(Self { name, folder: path })
    }

    /// Reads the traffic counters of the drive.
    fn counts(&self, root: &Root) -> DriveCounts {
        let text = text(root, &format!("{}/stat", self.folder));
        let fields: Vec<u64> = text.split_whitespace().filter_map(|it| it.parse().ok()).collect();
        // The fields are in the order of Documentation/block/stat.rst: field 0 = reads, field 2 =
        // sectors read, field 4 = writes, field 6 = sectors written.
        [0, 2, 4, 6].map(|at| fields.get(at).copied().unwrap_or(0))
    }

    /// Returns the document of the drive's counts in the measured rounds. A sector of these counts
    /// is 512 bytes on any drive.
    pub fn document(
        &self,
        [reads, sectors_read, writes, sectors_written]: DriveCounts,
    ) -> DriveTraffic {
        DriveTraffic {
            name: self.name.clone(),
            read_bytes: 512 * sectors_read,
            written_bytes: 512 * sectors_written,
            reads,
            writes,
        }
    }
}
