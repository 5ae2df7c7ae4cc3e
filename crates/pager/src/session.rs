//! A session: a command that is extended, all that it starts, and what they are told.
//!
//! It has a private folder, which the environment of the command names:
//!
//! ```text
//! session.json   what is to be done
//! board          what the processes share (`board`)
//! lock           locked by everybody who keeps the session: when nobody does, it is over
//! ```
//!
//! A folder that nobody keeps was left behind by who was killed, and whoever begins the next
//! session removes it. Stores have no names, and are gone with the last process that has them.

use crate::board::Board;
use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};
use std::{
    fs::{self, DirBuilder, File},
    io,
    os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt},
    path::{Path, PathBuf},
    sync::Arc,
};

/// The variable of the environment that names the folder.
pub const VARIABLE: &str = "INTERLEAF_EXTEND";

/// The format of the settings.
pub const SCHEMA: &str = "interleaf.session/1";

/// Bytes of a page.
pub const PAGE_BYTES: u64 = 4096;

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// [`SCHEMA`].
    pub schema: String,
    /// The budget.
    pub dram_bytes: u64,
    /// Folders, files or block devices where pages are that are not in DRAM.
    pub stores: Vec<PathBuf>,
    /// Smaller allocations are left alone.
    pub min_alloc_bytes: u64,
    /// What of it is for those that the command starts.
    pub children: Children,
    /// So many processes at least share the budget evenly.
    pub processes: u32,
    /// The command.
    pub command: Vec<String>,
    /// Who began it.
    pub keeper: u32,
}

/// What processes get that a process starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Children {
    /// Their part of the budget.
    Inherit,
    /// A budget of their own, as large as the first.
    Own,
    /// Nothing: they are left alone.
    None,
}

/// Why there is no session.
#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    /// The system refuses.
    #[error("{}: {why}", path.display())]
    System {
        /// What.
        path: PathBuf,
        /// Why.
        why: io::Error,
    },
    /// What is there is not what it should be.
    #[error("{}: {why}", path.display())]
    Content {
        /// What.
        path: PathBuf,
        /// Why.
        why: String,
    },
    /// Others may look into the folder, or write there.
    #[error("{}: it is not private to this user", .0.display())]
    NotPrivate(PathBuf),
    /// There is one of this name, with other settings.
    #[error("{}: a session with other settings is there", .0.display())]
    Differs(PathBuf),
}

/// A session that runs.
#[derive(Debug)]
pub struct Session {
    folder: PathBuf,
    /// What is to be done.
    pub settings: Settings,
    /// What its processes share.
    pub board: Arc<Board>,
    /// Of who keeps it.
    lock: Option<File>,
}

impl Session {
    /// Where the sessions of this user are: a folder that nobody else can write to.
    ///
    /// # Errors
    /// When there is none and none can be made.
    pub fn base() -> Result<PathBuf, SessionError> {
        let user = rustix::process::geteuid();
        let runtime = std::env::var_os("XDG_RUNTIME_DIR").filter(|path| !path.is_empty());
        let base = match runtime {
            _ if user.is_root() => PathBuf::from("/run/interleaf/extend"),
            Some(runtime) => Path::new(&runtime).join("interleaf"),
            None => std::env::temp_dir().join(format!("interleaf-{}", user.as_raw())),
        };
        private(&base)?;
        Ok(base)
    }

    /// Begins a session in a new folder of `base`, or joins the one that has this name and the same
    /// settings.
    ///
    /// # Errors
    /// When it cannot be made, or there is one that differs.
    pub fn begin(
        base: &Path,
        name: Option<&str>,
        settings: &Settings,
    ) -> Result<Self, SessionError> {
        let name = name.map_or_else(|| std::process::id().to_string(), |name| format!("{name}.s"));
        let folder = base.join(name);
        // Whoever ends one may remove the folder meanwhile.
        for _ in 0..100 {
            private(&folder)?;
            let lock = open_lock(&folder)?;
            flock(&lock, FlockOperation::LockExclusive).map_err(at(&folder))?;
            if !is_in_place(&lock, &folder) {
                continue;
            }
            let session = match folder.join("session.json").exists() {
                true => Self::open(&folder).and_then(|found| match found.is_same(settings) {
                    true => Ok(found),
                    false => Err(SessionError::Differs(folder.clone())),
                }),
                false => Self::make(&folder, settings),
            }?;
            flock(&lock, FlockOperation::LockShared).map_err(at(&folder))?;
            // From one lock to the other there is a moment without any.
            if is_in_place(&lock, &folder) {
                return Ok(Self { lock: Some(lock), ..session });
            }
        }
        Err(SessionError::Content { path: folder, why: "it comes and goes".into() })
    }

    fn make(folder: &Path, settings: &Settings) -> Result<Self, SessionError> {
        let path = folder.join("board");
        // One of a session that was killed before it began.
        drop(fs::remove_file(&path));
        let board = Board::create(&path, settings.dram_bytes / PAGE_BYTES).map_err(at(&path))?;
        let path = folder.join("session.json");
        let text = serde_json::to_string_pretty(settings)
            .map_err(|why| SessionError::Content { path: path.clone(), why: why.to_string() })?;
        let new = folder.join("session.json.new");
        fs::write(&new, text).and_then(|()| fs::rename(&new, &path)).map_err(at(&path))?;
        Ok(Self {
            folder: folder.into(),
            settings: settings.clone(),
            board: Arc::new(board),
            lock: None,
        })
    }

    /// The session in a folder, which somebody else keeps.
    ///
    /// # Errors
    /// When there is none.
    pub fn open(folder: &Path) -> Result<Self, SessionError> {
        let path = folder.join("session.json");
        let text = fs::read_to_string(&path).map_err(at(&path))?;
        let settings: Settings = serde_json::from_str(&text)
            .map_err(|why| SessionError::Content { path: path.clone(), why: why.to_string() })?;
        if settings.schema != SCHEMA {
            let why = format!("schema: \"{}\" is not {SCHEMA}", settings.schema);
            return Err(SessionError::Content { path, why });
        }
        let path = folder.join("board");
        let board = Board::open(&path).map_err(at(&path))?;
        Ok(Self { folder: folder.into(), settings, board: Arc::new(board), lock: None })
    }

    /// Those of `base` that run.
    ///
    /// # Errors
    /// When the folder cannot be listed.
    pub fn all(base: &Path) -> Result<Vec<Self>, SessionError> {
        let folders = folders(base)?.into_iter();
        Ok(folders.filter_map(|folder| Self::open(&folder).ok()).collect())
    }

    /// Removes the folders of `base` that nobody keeps and no process uses, and says which.
    ///
    /// # Errors
    /// When the folder cannot be listed.
    pub fn sweep(base: &Path) -> Result<Vec<PathBuf>, SessionError> {
        let mut swept = vec![];
        for folder in folders(base)? {
            let Ok(lock) = File::open(folder.join("lock")) else { continue };
            if flock(&lock, FlockOperation::NonBlockingLockExclusive).is_err() {
                continue;
            }
            let is_used = Self::open(&folder).is_ok_and(|session| session.is_used());
            if !is_used && is_in_place(&lock, &folder) && fs::remove_dir_all(&folder).is_ok() {
                swept.push(folder);
            }
        }
        Ok(swept)
    }

    /// Whether processes have pages.
    fn is_used(&self) -> bool {
        self.board.recover();
        !self.board.processes().is_empty()
    }

    /// Whether settings ask for the same, whoever began it.
    fn is_same(&self, settings: &Settings) -> bool {
        let keeper = self.settings.keeper;
        let command = self.settings.command.clone();
        self.settings == Settings { keeper, command, ..settings.clone() }
    }

    /// Its folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Ends it, if nobody else keeps it: the processes that still have pages, if there are any. They
    /// go on with what they have, and the next session removes the folder.
    pub fn end(self) -> Vec<crate::board::Process> {
        self.board.recover();
        let processes = self.board.processes();
        let is_last = self
            .lock
            .as_ref()
            .is_some_and(|lock| flock(lock, FlockOperation::NonBlockingLockExclusive).is_ok());
        if is_last && processes.is_empty() {
            // What stays is removed by the next.
            drop(fs::remove_dir_all(&self.folder));
        }
        processes
    }
}

fn at<E: Into<io::Error>>(path: &Path) -> impl FnOnce(E) -> SessionError + use<E> {
    let path = path.to_path_buf();
    |why| SessionError::System { path, why: why.into() }
}

/// Makes a folder that only this user can use, or makes sure that it is one.
fn private(folder: &Path) -> Result<(), SessionError> {
    match DirBuilder::new().recursive(true).mode(0o700).create(folder) {
        Ok(()) => {}
        Err(why) => return Err(SessionError::System { path: folder.into(), why }),
    }
    let found = fs::symlink_metadata(folder).map_err(at(folder))?;
    let is_ours = found.uid() == rustix::process::geteuid().as_raw();
    if found.is_dir() && is_ours && found.permissions().mode() & 0o022 == 0 {
        return Ok(());
    }
    Err(SessionError::NotPrivate(folder.into()))
}

fn open_lock(folder: &Path) -> Result<File, SessionError> {
    let path = folder.join("lock");
    let mut options = fs::OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false).open(&path).map_err(at(&path))
}

/// Whether the lock is still the one of the folder.
fn is_in_place(lock: &File, folder: &Path) -> bool {
    let (ours, there) = (lock.metadata(), fs::metadata(folder.join("lock")));
    ours.is_ok_and(|ours| there.is_ok_and(|there| ours.ino() == there.ino()))
}

fn folders(base: &Path) -> Result<Vec<PathBuf>, SessionError> {
    let entries = fs::read_dir(base).map_err(at(base))?;
    let mut folders: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
    folders.retain(|path| path.is_dir());
    folders.sort();
    Ok(folders)
}
