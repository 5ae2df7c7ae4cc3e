//! A session: a command under `interleaf extend`, all processes that it starts, and their common
//! settings.
//!
//! Each session has a private folder, whose path is in the environment of the command:
//!
//! ```text
//! session.json   the settings
//! ledger         the budget, and counters of the processes (module `ledger`)
//! shared         the socket of the server for shared memory (module `crate::shared`)
//! lock           locked while a keeper begins, joins or ends the session, or removes a folder
//! kept           locked by all *keepers*: processes that keep the session running
//! ```
//!
//! The session ends when its last keeper ends. The last keeper removes the folder, unless the
//! keeper was killed or other processes of the session still run. In these two cases a later
//! session removes the folder, once all processes of this session have ended. The files of the
//! store have no names, so the kernel frees each of them when no process has it open any more.

pub mod ledger;

pub mod fair_share;

pub mod identity;

mod join;

pub use join::ADDRESSES;

use crate::{
    kernel::uffd::FaultMode,
    nodes::NodeBudget,
    session::ledger::{BudgetLedger, Process},
};
use interleaf_store::descriptor::protected_file;
use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};
use std::{
    fs::{self, DirBuilder, File},
    io,
    os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt},
    path::{Path, PathBuf},
    sync::Arc,
};

/// The environment variable that names the folder of the session.
pub const VARIABLE: &str = "INTERLEAF_EXTEND";

/// The environment variable that injects faults into the transfers of the store, for tests of
/// programs on a failing drive. Its value is a `FaultPlan`, such as `seed=1,eio=200`.
pub const STORE_FAULTS: &str = "INTERLEAF_STORE_FAULTS";

/// An environment variable, by name and value, for programs with tcmalloc of gperftools. Without
/// it, tcmalloc takes memory by `sbrk(2)` instead of `mmap(2)`, and the preloaded library cannot
/// extend this memory.
pub const SKIP_SBRK: (&str, &str) = ("TCMALLOC_SKIP_SBRK", "1");

/// The value of `schema` in `session.json`: the name and the version of the file format.
pub const SCHEMA: &str = "interleaf.session/1";

const LOCK: &str = "lock";
const KEPT: &str = "kept";

/// Size of a page, bytes.
pub const PAGE_BYTES: u64 = interleaf_procfs::page::PAGE_BYTES as u64;

/// The settings of a session, as `session.json` holds them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SessionSettings {
    pub schema: String,
    pub dram_bytes: u64,
    /// The NUMA nodes of the budget; empty if the kernel chooses the node of each page.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<NodeBudget>,
    /// Folders or block devices that store the pages which are not in DRAM.
    pub stores: Vec<PathBuf>,
    /// Minimum size of an extended allocation, bytes. Smaller allocations are left to the C library
    /// and the kernel. If the allocations from 128 KiB up to this minimum together reach the
    /// minimum, further allocations of at least 128 KiB are extended too.
    pub min_alloc_bytes: u64,
    /// Whether child processes are extended, and which budget they have.
    pub children: Children,
    /// True if memory that processes share is extended too.
    pub shared: bool,
    /// The fault handling mode: whether the pager's thread or the faulting thread handles a fault.
    pub faults: FaultMode,
    /// True if a block device may be used as a store although it holds other data.
    pub force: bool,
    /// Expected number of processes of the session. The initial share of each process is the budget
    /// divided by this number.
    pub processes: u32,
    pub command: Vec<String>,
    /// ID of the process that has begun the session, and is its first keeper.
    pub keeper: u32,
}

/// Whether child processes are extended, and which budget they have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Children {
    /// Children have a share of the session's budget.
    Inherit,
    /// Each child has a budget of its own, as large as the budget of the first process.
    Own,
    /// Children are not extended.
    None,
}

/// A failure to begin or to open a session.
#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    /// A system call failed.
    #[error("{}: {why}", path.display())]
    System {
        /// The file or folder.
        path: PathBuf,
        /// The error of the system call.
        why: io::Error,
    },
    /// The file has invalid content.
    #[error("{}: {why}", path.display())]
    Content {
        path: PathBuf,
        /// A text that says what is wrong with the content.
        why: String,
    },
    /// The path is not a folder of this user, or other users may write to it.
    #[error("{}: it is not private to this user", .0.display())]
    NotPrivate(PathBuf),
    /// A session with the requested name runs already, with other settings.
    #[error("{}: a session with other settings is there", .0.display())]
    Differs(PathBuf),
}

#[derive(Debug)]
pub struct Session {
    folder: PathBuf,
    pub settings: SessionSettings,
    /// The budget and the counters that the processes of the session share.
    pub ledger: Arc<BudgetLedger>,
    /// The open and locked file `kept`, while this process is a keeper; `None` if it is not.
    keeper_lock: Option<FileLock>,
}

impl Session {
    /// Returns the folder that holds the sessions of this user, to which no other user can write.
    /// Makes the folder if it does not exist.
    ///
    /// # Errors
    /// When the folder cannot be made, or other users can write to it.
    pub fn base() -> Result<PathBuf, SessionError> {
        let user = rustix::process::geteuid();
        let runtime = std::env::var_os("XDG_RUNTIME_DIR").filter(|path| !path.is_empty());
        let base = match runtime {
            Some(runtime) => Path::new(&runtime).join("interleaf-extend"),
            None if user.is_root() => PathBuf::from("/run/interleaf/extend"),
            None => std::env::temp_dir().join(format!("interleaf-{}", user.as_raw())),
        };
        make_private(&base)?;
        Ok(base)
    }

    /// Begins a session in a new folder of `base`. If a session with the name `name` and the same
    /// settings runs already, joins that session instead.
    ///
    /// # Errors
    /// When the session cannot be made, or a session named `name` runs with other settings.
    pub fn begin(
        base: &Path,
        name: Option<&str>,
        settings: &SessionSettings,
    ) -> Result<Self, SessionError> {
        let folder = base.join(match name {
            Some(name) => folder_name(name),
            None => std::process::id().to_string(),
        });
        // Retry: between `make_private` and `lock`, a process that ends the session may remove the
        // folder.
        for _ in 0..100 {
            make_private(&folder)?;
            let Some(_lock) = lock(&folder)? else { continue };
            let session = match folder.join("session.json").exists() {
                true => Self::open(&folder).and_then(|found| found.if_same(settings)),
                false => Self::make(&folder, settings),
            }?;
            let kept = lock_file(&folder, KEPT, FlockOperation::LockShared)?;
            return Ok(Self { keeper_lock: Some(kept), ..session });
        }
        Err(SessionError::Content { path: folder, why: "it comes and goes".into() })
    }

    /// Returns the session named `name` if it can be joined, and `None` if no session of this name
    /// runs.
    ///
    /// # Errors
    /// When a session named `name` runs with other settings, or its files cannot be read.
    pub fn joined(
        base: &Path,
        name: &str,
        settings: &SessionSettings,
    ) -> Result<Option<Self>, SessionError> {
        let folder = base.join(folder_name(name));
        // A session without a keeper cannot be joined, because a later session will remove its
        // folder.
        if !has_keeper(&folder) || !folder.join("session.json").exists() {
            return Ok(None);
        }
        Self::open(&folder)?.if_same(settings).map(Some)
    }

    fn make(folder: &Path, settings: &SessionSettings) -> Result<Self, SessionError> {
        let path = folder.join("ledger");
        // Remove the ledger that may be left from a process that was killed while it made the
        // session.
        drop(fs::remove_file(&path));
        let ledger = BudgetLedger::create(&path, settings.dram_bytes / PAGE_BYTES)
            .map_err(system_error(&path))?;
        let path = folder.join("session.json");
        let text = serde_json::to_string_pretty(settings)
            .map_err(|why| SessionError::Content { path: path.clone(), why: why.to_string() })?;
        let new = folder.join("session.json.new");
        fs::write(&new, text)
            .and_then(|()| fs::rename(&new, &path))
            .map_err(system_error(&path))?;
        Ok(Self {
            folder: folder.into(),
            settings: settings.clone(),
            ledger: Arc::new(ledger),
            keeper_lock: None,
        })
    }

    /// Opens the session in a folder. This process does not become a keeper, because another
    /// process keeps the session running.
    ///
    /// # Errors
    /// When the folder holds no session.
    pub fn open(folder: &Path) -> Result<Self, SessionError> {
        let path = folder.join("session.json");
        let text = fs::read_to_string(&path).map_err(system_error(&path))?;
        let settings: SessionSettings = serde_json::from_str(&text)
            .map_err(|why| SessionError::Content { path: path.clone(), why: why.to_string() })?;
        if settings.schema != SCHEMA {
            let why = format!("schema: \"{}\" is not {SCHEMA}", settings.schema);
            return Err(SessionError::Content { path, why });
        }
        let path = folder.join("ledger");
        let ledger = BudgetLedger::open(&path).map_err(system_error(&path))?;
        Ok(Self { folder: folder.into(), settings, ledger: Arc::new(ledger), keeper_lock: None })
    }

    /// All sessions in the folder `base`, except those that cannot be opened.
    ///
    /// # Errors
    /// When the folder cannot be listed.
    pub fn all(base: &Path) -> Result<Vec<Self>, SessionError> {
        let folders = folders(base)?.into_iter();
        Ok(folders.filter_map(|folder| Self::open(&folder).ok()).collect())
    }

    /// Removes from `base` the folders of sessions that have neither a keeper nor a process with a
    /// slot in the ledger. Returns the paths of these folders.
    ///
    /// # Errors
    /// When the folder cannot be listed.
    pub fn sweep(base: &Path) -> Result<Vec<PathBuf>, SessionError> {
        let mut swept = vec![];
        for folder in folders(base)? {
            if has_keeper(&folder) {
                continue;
            }
            // `None` means that another process has removed this folder in the meantime.
            let Ok(Some(_lock)) = lock(&folder) else { continue };
            let is_used = Self::open(&folder).is_ok_and(|session| session.is_used());
            if !is_used && !has_keeper(&folder) && fs::remove_dir_all(&folder).is_ok() {
                swept.push(folder);
            }
        }
        Ok(swept)
    }

    /// True if the session has a keeper, which is a process that keeps the session running.
    pub fn is_running(&self) -> bool {
        has_keeper(&self.folder)
    }

    /// Clears the slots of processes that have ended. Returns true if running processes still have
    /// slots.
    fn is_used(&self) -> bool {
        self.ledger.recover();
        !self.ledger.processes().is_empty()
    }

    /// Returns this session if its settings equal `settings`. Three settings may differ: the
    /// keeper, the command, and the available memory of the nodes.
    fn if_same(self, settings: &SessionSettings) -> Result<Self, SessionError> {
        let keeper = self.settings.keeper;
        let command = self.settings.command.clone();
        let mut nodes = settings.nodes.clone();
        for (node, ours) in nodes.iter_mut().zip(&self.settings.nodes) {
            // Ignore the available memory, which changes while the session runs.
            node.available_bytes = ours.available_bytes;
        }
        let settings = SessionSettings { keeper, command, nodes, ..settings.clone() };
        match self.settings == settings {
            true => Ok(self),
            false => Err(SessionError::Differs(self.folder)),
        }
    }

    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Stops keeping the session, which ends if no other keeper exists. At the end of the session,
    /// returns the processes that still have a slot. These processes continue, and a later session
    /// removes the folder.
    pub fn end(mut self) -> Vec<Process> {
        let lock = lock(&self.folder);
        drop(self.keeper_lock.take());
        if has_keeper(&self.folder) {
            return vec![];
        }
        let is_used = self.is_used();
        if !is_used && lock.is_ok() {
            // If the folder cannot be removed now, a later session removes it.
            drop(fs::remove_dir_all(&self.folder));
        }
        self.ledger.processes()
    }
}

/// The folder name of the session named `name`. The suffix avoids a clash with the folder of a
/// session without a name, which is named after a process ID.
fn folder_name(name: &str) -> String {
    format!("{name}.s")
}

fn system_error<E: Into<io::Error>>(path: &Path) -> impl FnOnce(E) -> SessionError + use<E> {
    let path = path.to_path_buf();
    |why| SessionError::System { path, why: why.into() }
}

/// Makes a folder that only this user can use. If the folder exists, checks that it is this user's
/// and that no other user can write to it.
fn make_private(folder: &Path) -> Result<(), SessionError> {
    match DirBuilder::new().recursive(true).mode(0o700).create(folder) {
        Ok(()) => {}
        Err(why) => return Err(SessionError::System { path: folder.into(), why }),
    }
    let found = fs::symlink_metadata(folder).map_err(system_error(folder))?;
    let is_ours = found.uid() == rustix::process::geteuid().as_raw();
    if found.is_dir() && is_ours && found.permissions().mode() & 0o022 == 0 {
        return Ok(());
    }
    Err(SessionError::NotPrivate(folder.into()))
}

/// A lock of a file (flock(2)). When the value is dropped, the file is first unlocked and then
/// closed. Closing alone might not release the lock: if another thread has just forked, the child
/// has a copy of the descriptor until its `execve(2)`.
#[derive(Debug)]
struct FileLock(File);

impl FileLock {
    fn take(file: File, operation: FlockOperation) -> io::Result<Self> {
        flock(&file, operation)?;
        Ok(Self(protected_file(file)))
    }
}

impl Drop for FileLock {
    fn drop(&mut self) {
        // The error is ignored: unlocking an open file does not fail.
        let _ = flock(&self.0, FlockOperation::Unlock);
    }
}

/// Locks the session in `folder` until the returned lock is dropped. While it is locked, no other
/// process can begin or end the session, become a keeper, or remove the folder. `None` if the
/// folder was removed before the lock was taken.
fn lock(folder: &Path) -> Result<Option<FileLock>, SessionError> {
    let lock = lock_file(folder, LOCK, FlockOperation::LockExclusive)?;
    let (ours, there) = (lock.0.metadata(), fs::metadata(folder.join(LOCK)));
    let is_in_place = ours.is_ok_and(|ours| there.is_ok_and(|there| ours.ino() == there.ino()));
    Ok(is_in_place.then_some(lock))
}

/// True if the session in `folder` has a keeper, which is a process that keeps the session running.
fn has_keeper(folder: &Path) -> bool {
    let Ok(kept) = File::open(folder.join(KEPT)) else { return false };
    FileLock::take(kept, FlockOperation::NonBlockingLockExclusive).is_err()
}

/// Opens the file `name` in `folder`, and locks the file. Creates the file if it does not exist.
fn lock_file(
    folder: &Path,
    name: &str,
    operation: FlockOperation,
) -> Result<FileLock, SessionError> {
    let path = folder.join(name);
    let mut options = fs::OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false);
    let file = options.open(&path).map_err(system_error(&path))?;
    FileLock::take(file, operation).map_err(system_error(folder))
}

fn folders(base: &Path) -> Result<Vec<PathBuf>, SessionError> {
    let entries = fs::read_dir(base).map_err(system_error(base))?;
    let mut folders: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
    folders.retain(|path| path.is_dir());
    folders.sort();
    Ok(folders)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;
    use crate::session::identity::Identity;
    use std::sync::{Mutex, MutexGuard, PoisonError};

    /// A lock that two kinds of tests take: tests that start a process, and tests that expect a
    /// closed file to be unlocked. Until its `execve(2)` is complete, a started process has copies
    /// of all open files of this process, and keeps their locks.
    pub(super) fn turn() -> MutexGuard<'static, ()> {
        static TURN: Mutex<()> = Mutex::new(());
        TURN.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn settings() -> SessionSettings {
        SessionSettings {
            schema: SCHEMA.into(),
            dram_bytes: 64 << 20,
            nodes: vec![],
            stores: vec!["/mnt".into()],
            min_alloc_bytes: 1 << 20,
            children: Children::Inherit,
            shared: false,
            faults: FaultMode::Thread,
            force: false,
            processes: 1,
            command: vec!["solver".into()],
            keeper: std::process::id(),
        }
    }

    fn base() -> tempfile::TempDir {
        tempfile::Builder::new().permissions(fs::Permissions::from_mode(0o700)).tempdir().unwrap()
    }

    #[test]
    fn a_session_is_found_while_it_runs_and_removed_at_its_end() {
        let _turn = turn();
        let base = base();
        let session = Session::begin(base.path(), None, &settings()).unwrap();
        let folder = session.folder().to_path_buf();
        assert_eq!(fs::metadata(&folder).unwrap().permissions().mode() & 0o777, 0o700);
        let found = Session::open(&folder).unwrap();
        assert_eq!((&found.settings, found.ledger.budget()), (&settings(), 16384));
        assert!(found.is_running());
        assert_eq!(Session::sweep(base.path()).unwrap(), Vec::<PathBuf>::new());
        // A child that another thread has just forked has a copy of the keeper's descriptor. Make
        // such a copy: `end` must release the lock nevertheless.
        let copy = session.keeper_lock.as_ref().unwrap().0.try_clone().unwrap();
        assert_eq!(session.end(), []);
        assert!(!folder.exists() && !found.is_running());
        drop(copy);
    }

    #[test]
    fn a_named_session_is_joined_with_the_same_settings() {
        let _turn = turn();
        let base = base();
        let node = |available_bytes| NodeBudget {
            node: 0,
            cpus: vec![0],
            available_bytes,
            dram_bytes: None,
        };
        let ours = SessionSettings { nodes: vec![node(1)], ..settings() };
        let same = SessionSettings {
            keeper: 1,
            command: vec!["rank 2".into()],
            nodes: vec![node(2)],
            ..settings()
        };
        let first = Session::begin(base.path(), Some("job"), &ours).unwrap();
        let second = Session::begin(base.path(), Some("job"), &same).unwrap();
        assert_eq!(first.folder(), second.folder());
        second.ledger.set_first_process(42);
        assert_eq!(first.ledger.first_process(), Some(42), "they have one ledger");
        let other = SessionSettings { dram_bytes: 1 << 30, ..settings() };
        let differs = Session::begin(base.path(), Some("job"), &other);
        assert!(matches!(differs, Err(SessionError::Differs(_))), "{differs:?}");
        let folder = first.folder().to_path_buf();
        first.end();
        assert!(folder.exists(), "somebody keeps it still");
        let joined = |settings: &SessionSettings| {
            Session::joined(base.path(), "job", settings).map(|it| it.is_some())
        };
        assert!(joined(&ours).unwrap());
        assert!(matches!(joined(&other), Err(SessionError::Differs(_))));
        second.end();
        assert!(!folder.exists());
        assert!(!joined(&other).unwrap());
    }

    #[test]
    fn the_folder_of_a_killed_session_is_removed_unless_in_use() {
        let _turn = turn();
        let base = base();
        let session = Session::begin(base.path(), None, &settings()).unwrap();
        let folder = session.folder().to_path_buf();
        let own = Identity::own().unwrap();
        let guard = std::sync::Arc::clone(&session.ledger).join(own, "solver", 1).unwrap();
        // Drop the session without `end`. This has the effect of a killed keeper: the locks are
        // released, and the files remain.
        drop(session);
        assert_eq!(Session::sweep(base.path()).unwrap(), Vec::<PathBuf>::new());
        assert!(folder.exists(), "a process of it has pages");
        drop(guard);
        assert_eq!(Session::sweep(base.path()).unwrap(), std::slice::from_ref(&folder));
        assert!(!folder.exists());
    }

    #[test]
    fn an_incomplete_session_is_recreated() {
        let base = base();
        let folder = base.path().join("job.s");
        make_private(&folder).unwrap();
        fs::write(folder.join("ledger"), "half").unwrap();
        fs::write(folder.join("session.json.new"), "{").unwrap();
        let session = Session::begin(base.path(), Some("job"), &settings()).unwrap();
        assert_eq!(session.ledger.budget(), 16384);
    }

    #[test]
    fn a_folder_that_others_can_write_to_is_refused() {
        let base = base();
        let open = base.path().join("open");
        fs::create_dir(&open).unwrap();
        fs::set_permissions(&open, fs::Permissions::from_mode(0o777)).unwrap();
        assert!(matches!(make_private(&open), Err(SessionError::NotPrivate(_))));
        let link = base.path().join("link");
        std::os::unix::fs::symlink(base.path(), &link).unwrap();
        assert!(matches!(make_private(&link), Err(SessionError::NotPrivate(_))));
    }

    #[test]
    fn an_invalid_session_file_is_named_in_the_error() {
        let base = base();
        let path = base.path().join("session.json");
        let why = |text: &str| {
            fs::write(&path, text).unwrap();
            Session::open(base.path()).unwrap_err().to_string()
        };
        assert!(why("{").starts_with(&format!("{}: EOF", path.display())));
        let strange = serde_json::to_string(&settings()).unwrap().replace("session/1", "session/9");
        assert!(why(&strange).ends_with("\"interleaf.session/9\" is not interleaf.session/1"));
    }
}
