//! The swap file and the control group of a session with swap hints.

#![expect(unsafe_code, reason = "the calls for swap have no wrapper")]

use super::{HintPolicy, count, scan::ScannedProcess};
use crate::{prefetch::Limits, store::StoreRefused};
use std::{
    collections::BTreeMap,
    ffi::CString,
    fs::{self, OpenOptions},
    io,
    os::unix::{ffi::OsStrExt, fs::OpenOptionsExt},
    path::{Path, PathBuf},
    process::{self, Command},
    thread,
    time::{Duration, Instant},
};

/// The prefix of a swap file's name, before the process number of its session.
const FILE_PREFIX: &str = ".interleaf-swap-";

/// The prefix of a control group's name, before the process number.
const GROUP_PREFIX: &str = "interleaf-extend-";

/// `SWAP_FLAG_PREFER` with the highest priority, of `linux/swap.h`: before all other swap, which
/// may be slower or full.
const SWAP_FLAGS: libc::c_int = 0x8000 | 0x7fff;

/// Shorter mappings are not scanned.
const MAPPING_BYTES_MIN: u64 = 1 << 20;

/// The pause between two scans: a minimum, and a multiple of the scan's duration.
const SCAN_PAUSE: Duration = Duration::from_millis(2);
const SCAN_PAUSE_FACTOR: u32 = 4;

/// One part in this number of the budget is kept free for pages that are read ahead or paged out,
/// where sweeps leave pages behind.
const FREE_FRACTION: u64 = 4;

/// Streams are read ahead by at most one part in this number of the budget.
const READ_AHEAD_FRACTION: u64 = 16;

/// Swap and a memory limit for a command, and the source of its hints.
#[derive(Debug)]
pub struct SwapSession {
    file: PathBuf,
    is_on: bool,
    group: Option<MemoryGroup>,
    dram_bytes: u64,
    processes: BTreeMap<u32, (ScannedProcess, HintPolicy)>,
    /// Pages that the kernel was asked to read ahead, and to page out.
    hinted: (u64, u64),
}

#[derive(Debug)]
struct MemoryGroup {
    folder: PathBuf,
    limit: &'static str,
    /// The former control group of this process.
    before: PathBuf,
}

impl SwapSession {
    /// Makes a swap file of `swap_bytes` in a folder, turns it on, and makes a control group with a
    /// limit of `dram_bytes`. Both are removed when the value is dropped.
    ///
    /// # Errors
    /// When the swap file or the control group cannot be made: both need root.
    pub fn begin(store: &Path, dram_bytes: u64, swap_bytes: u64) -> Result<Self, StoreRefused> {
        check(store)?;
        remove_leftovers(store);
        let file = store.join(format!("{FILE_PREFIX}{}", process::id()));
        let mut session = Self {
            file,
            is_on: false,
            group: None,
            dram_bytes,
            processes: BTreeMap::new(),
            hinted: (0, 0),
        };
        session.swap_on(swap_bytes).map_err(|why| {
            let hint =
                "it takes root, free space, and a file system that can hold swap (ext4, XFS)";
            refused(store, format!("no swap there: {why}"), hint)
        })?;
        session.group = Some(MemoryGroup::new(dram_bytes).map_err(|why| {
            let hint = "it takes root, and the memory controller of control groups";
            refused(store, format!("there is no budget without a control group: {why}"), hint)
        })?);
        Ok(session)
    }

    fn swap_on(&mut self, bytes: u64) -> io::Result<()> {
        let mut options = OpenOptions::new();
        let file = options.write(true).create_new(true).mode(0o600).open(&self.file)?;
        rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), 0, bytes)?;
        file.sync_all()?;
        let made = Command::new("mkswap").arg(&self.file).output()?;
        if !made.status.success() {
            return Err(io::Error::other(String::from_utf8_lossy(&made.stderr).trim().to_owned()));
        }
        let path = path(&self.file)?;
        // SAFETY: the path ends with a zero, and the file belongs to this session alone.
        if unsafe { libc::swapon(path.as_ptr(), SWAP_FLAGS) } != 0 {
            return Err(io::Error::last_os_error());
        }
        self.is_on = true;
        Ok(())
    }

    /// Runs `act` within the control group: processes that it starts stay there.
    ///
    /// # Errors
    /// When the control group does not accept this process.
    pub fn run_in_group<T>(&self, act: impl FnOnce() -> T) -> io::Result<T> {
        let Some(group) = &self.group else { return Ok(act()) };
        let own = process::id().to_string();
        fs::write(group.folder.join("cgroup.procs"), &own)?;
        let done = act();
        fs::write(group.before.join("cgroup.procs"), &own)?;
        Ok(done)
    }

    /// Scans all processes of the group once, gives hints to the kernel, and returns the pause
    /// until the next scan.
    pub fn scan(&mut self) -> Duration {
        let begun = Instant::now();
        let Some(group) = &self.group else { return SCAN_PAUSE };
        let resident_max = (self.dram_bytes - self.dram_bytes / FREE_FRACTION) / 4096;
        let mut resident_elsewhere: u64 =
            self.processes.values().map(|(_, policy)| policy.resident()).sum();
        let pids = group.processes();
        self.processes.retain(|pid, _| pids.contains(pid));
        for pid in pids.into_iter().filter(|pid| *pid != process::id()) {
            if !self.processes.contains_key(&pid) {
                let max = (self.dram_bytes / READ_AHEAD_FRACTION / 4096).max(1);
                let policy = HintPolicy::new(Limits { initial: max.min(256), max });
                // The process may have ended.
                let Ok(scanned) = ScannedProcess::new(pid) else { continue };
                self.processes.insert(pid, (scanned, policy));
            }
            let Some((scanned, policy)) = self.processes.get_mut(&pid) else { continue };
            let Ok(resident) = scanned.resident(MAPPING_BYTES_MIN) else { continue };
            resident_elsewhere -= policy.resident();
            let hints = policy.update(resident, resident_max.saturating_sub(resident_elsewhere));
            resident_elsewhere += policy.resident();
            scanned.give(&hints);
            self.hinted.0 += count(&hints.read_ahead);
            self.hinted.1 += count(&hints.page_out);
        }
        SCAN_PAUSE.max(begun.elapsed() * SCAN_PAUSE_FACTOR)
    }

    /// Pages that the kernel was asked to read ahead, and to page out early.
    pub const fn hinted(&self) -> (u64, u64) {
        self.hinted
    }
}

impl Drop for SwapSession {
    fn drop(&mut self) {
        self.processes.clear();
        self.group = None;
        if self.is_on {
            swap_off(&self.file);
        }
        let _ = fs::remove_file(&self.file);
    }
}

impl MemoryGroup {
    fn new(bytes: u64) -> io::Result<Self> {
        let v1 = Path::new("/sys/fs/cgroup/memory");
        let v2 = Path::new("/sys/fs/cgroup");
        let is_v1 = v1.join("memory.limit_in_bytes").exists();
        let tree = if is_v1 { v1 } else { v2 };
        if !is_v1 {
            let has = fs::read_to_string(tree.join("cgroup.subtree_control"))?;
            if !has.split_ascii_whitespace().any(|name| name == "memory") {
                fs::write(tree.join("cgroup.subtree_control"), "+memory")?;
            }
        }
        let limit = if is_v1 { "memory.limit_in_bytes" } else { "memory.max" };
        let own = fs::read_to_string("/proc/self/cgroup")?;
        let is_ours = |line: &&str| match is_v1 {
            true => line.split(':').nth(1).is_some_and(|of| of.split(',').any(|it| it == "memory")),
            false => line.starts_with("0::"),
        };
        let before = own.lines().find(is_ours).and_then(|line| line.splitn(3, ':').nth(2));
        let before = tree.join(before.unwrap_or("/").trim_start_matches('/'));
        let folder = tree.join(format!("{GROUP_PREFIX}{}", process::id()));
        fs::create_dir(&folder)?;
        let group = Self { folder, limit, before };
        fs::write(group.folder.join(group.limit), bytes.to_string())?;
        Ok(group)
    }

    fn processes(&self) -> Vec<u32> {
        let text = fs::read_to_string(self.folder.join("cgroup.procs")).unwrap_or_default();
        text.lines().filter_map(|line| line.parse().ok()).collect()
    }
}

impl Drop for MemoryGroup {
    /// Moves remaining processes back to the former control group, without a limit.
    fn drop(&mut self) {
        for _ in 0..100 {
            for pid in self.processes() {
                let _ = fs::write(self.before.join("cgroup.procs"), pid.to_string());
            }
            if fs::remove_dir(&self.folder).is_ok() {
                return;
            }
            thread::sleep(Duration::from_millis(10));
        }
    }
}

/// Checks whether a swap file and a control group can be made, without making them.
///
/// # Errors
/// When they cannot.
pub fn check(store: &Path) -> Result<(), StoreRefused> {
    if !store.is_dir() {
        let hint = "name a folder: swap for a static program is a file";
        return Err(refused(store, "is no folder".into(), hint));
    }
    if !rustix::process::geteuid().is_root() {
        let hint = "run it as root, or link the program dynamically";
        return Err(refused(store, "no swap there: swapon(2) takes root".into(), hint));
    }
    let [v1, v2] = ["/sys/fs/cgroup/memory", "/sys/fs/cgroup"].map(Path::new);
    let controllers = fs::read_to_string(v2.join("cgroup.controllers")).unwrap_or_default();
    let is_v2 = controllers.split_ascii_whitespace().any(|name| name == "memory");
    if v1.join("memory.limit_in_bytes").exists() || is_v2 {
        return Ok(());
    }
    let why = "there is no budget without a control group, and none has the memory controller";
    let hint = "mount -t cgroup2 cgroup2 /sys/fs/cgroup; boot without cgroup_disable=memory";
    Err(refused(store, why.into(), hint))
}

/// Removes the swap files in a folder, and the control groups, of sessions that were killed.
pub fn remove_leftovers(store: &Path) {
    let is_gone = |name: &str, of: &str| {
        let pid = name.strip_prefix(of).and_then(|pid| pid.parse::<u32>().ok());
        pid.is_some_and(|pid| !Path::new(&format!("/proc/{pid}")).exists())
    };
    for entry in fs::read_dir(store).into_iter().flatten().flatten() {
        if is_gone(&entry.file_name().to_string_lossy(), FILE_PREFIX) {
            swap_off(&entry.path());
            let _ = fs::remove_file(entry.path());
        }
    }
    for tree in ["/sys/fs/cgroup/memory", "/sys/fs/cgroup"] {
        for entry in fs::read_dir(tree).into_iter().flatten().flatten() {
            if is_gone(&entry.file_name().to_string_lossy(), GROUP_PREFIX) {
                // A group that still has processes stays, without swap of its own.
                let _ = fs::remove_dir(entry.path());
            }
        }
    }
}

fn swap_off(file: &Path) {
    if let Ok(path) = path(file) {
        // SAFETY: the path ends with a zero. The kernel reads the pages of the swap file back
        // first.
        let _ = unsafe { libc::swapoff(path.as_ptr()) };
    }
}

fn path(file: &Path) -> io::Result<CString> {
    CString::new(file.as_os_str().as_bytes()).map_err(io::Error::other)
}

fn refused(store: &Path, why: String, hint: &str) -> StoreRefused {
    StoreRefused { store: store.display().to_string(), why, hint: hint.into() }
}
