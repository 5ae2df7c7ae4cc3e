//! The swap file and the control group of a session with swap hints.

use super::{HintPolicy, count, scan::ScannedProcess};
use crate::{page::PAGE_BYTES, prefetch::Limits, store::StoreRefused};
use interleaf_procfs::{
    cgroup::{self, CONTROLLERS_FILE, Membership, PROCESSES_FILE, SUBTREE_CONTROL_FILE, Version},
    swap,
};
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

/// The trees of the memory controller, of both versions of control groups.
const TREES: [(Version, &str); 2] =
    [(Version::One, "/sys/fs/cgroup/memory"), (Version::Two, "/sys/fs/cgroup")];

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
        swap::swap_on(&path, swap::HIGHEST_PRIORITY)?;
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
        fs::write(group.folder.join(PROCESSES_FILE), &own)?;
        let done = act();
        fs::write(group.before.join(PROCESSES_FILE), &own)?;
        Ok(done)
    }

    /// Scans all processes of the group once, gives hints to the kernel, and returns the pause
    /// until the next scan.
    pub fn scan(&mut self) -> Duration {
        let begun = Instant::now();
        let Some(group) = &self.group else { return SCAN_PAUSE };
        let resident_max = (self.dram_bytes - self.dram_bytes / FREE_FRACTION) / PAGE_BYTES as u64;
        let mut resident_elsewhere: u64 =
            self.processes.values().map(|(_, policy)| policy.resident()).sum();
        let pids = group.processes();
        self.processes.retain(|pid, _| pids.contains(pid));
        for pid in pids.into_iter().filter(|pid| *pid != process::id()) {
            if !self.processes.contains_key(&pid) {
                let max = (self.dram_bytes / READ_AHEAD_FRACTION / PAGE_BYTES as u64).max(1);
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
        let (version, tree) = memory_tree();
        if version == Version::Two {
            let path = tree.join(SUBTREE_CONTROL_FILE);
            if !cgroup::lists(&fs::read_to_string(&path)?, "memory") {
                fs::write(path, "+memory")?;
            }
        }
        let limit = version.limit_file();
        let own = fs::read_to_string("/proc/self/cgroup")?;
        let mut memberships = own.lines().filter_map(Membership::parse);
        let before = memberships.find(|group| group.has(version, "memory"));
        let before = before.map_or("", |group| group.path.trim_start_matches('/'));
        let before = tree.join(before);
        let folder = tree.join(format!("{GROUP_PREFIX}{}", process::id()));
        fs::create_dir(&folder)?;
        let group = Self { folder, limit, before };
        fs::write(group.folder.join(group.limit), bytes.to_string())?;
        Ok(group)
    }

    fn processes(&self) -> Vec<u32> {
        let text = fs::read_to_string(self.folder.join(PROCESSES_FILE)).unwrap_or_default();
        cgroup::processes(&text).collect()
    }
}

impl Drop for MemoryGroup {
    /// Moves remaining processes back to the former control group, without a limit.
    fn drop(&mut self) {
        for _ in 0..100 {
            for pid in self.processes() {
                let _ = fs::write(self.before.join(PROCESSES_FILE), pid.to_string());
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
    let (version, tree) = memory_tree();
    let controllers = fs::read_to_string(tree.join(CONTROLLERS_FILE)).unwrap_or_default();
    if version == Version::One || cgroup::lists(&controllers, "memory") {
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
    for (_, tree) in TREES {
        for entry in fs::read_dir(tree).into_iter().flatten().flatten() {
            if is_gone(&entry.file_name().to_string_lossy(), GROUP_PREFIX) {
                // A group that still has processes stays, without swap of its own.
                let _ = fs::remove_dir(entry.path());
            }
        }
    }
}

/// The tree that has the memory controller: version 1 if it is mounted.
fn memory_tree() -> (Version, &'static Path) {
    let [(_, one), (_, two)] = TREES.map(|(version, tree)| (version, Path::new(tree)));
    match one.join(Version::One.limit_file()).exists() {
        true => (Version::One, one),
        false => (Version::Two, two),
    }
}

fn swap_off(file: &Path) {
    if let Ok(path) = path(file) {
        let _ = swap::swap_off(&path);
    }
}

fn path(file: &Path) -> io::Result<CString> {
    CString::new(file.as_os_str().as_bytes()).map_err(io::Error::other)
}

fn refused(store: &Path, why: String, hint: &str) -> StoreRefused {
    StoreRefused { store: store.display().to_string(), why, hint: hint.into() }
}
