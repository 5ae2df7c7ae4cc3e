//! The root below which a machine is read, and the one function that writes.

use crate::input;
use std::{
    cell::{Cell, RefCell},
    collections::BTreeMap,
    fmt,
    fs::{self, File},
    io,
    os::unix::fs::FileExt as _,
    path::{Path, PathBuf},
    thread,
    time::Duration,
};

/// The most that is read of a file of the kernel: `smaps` of a process with a million mappings
/// has 700 MB.
const KERNEL_FILE_MAX: u64 = 1 << 30;

/// The most that is read of a file of a captured machine.
const CAPTURED_FILE_MAX: u64 = 64 << 20;

/// The root of a machine's files.
#[derive(Debug)]
pub struct Root {
    path: PathBuf,
    /// Whether symlinks may not lead out of it: of a captured machine, which others may have made.
    is_confined: bool,
    writes: Writes,
    /// What was looked at: the text of files, and of folders the names.
    seen: RefCell<BTreeMap<String, Seen>>,
    /// How many files and folders were read.
    reads: Cell<u64>,
}

/// What was found at a path.
#[derive(Clone, Debug)]
enum Seen {
    File(String),
    Folder(Vec<String>),
    There,
}

/// What becomes of a write.
enum Writes {
    /// It is done.
    Done,
    /// A test decides.
    Answered(Box<Answer>),
    /// It is noted, and nothing changes.
    Noted(RefCell<Vec<Write>>),
}

/// A test's stand-in for the kernel: takes the path and the text of a write.
type Answer = dyn Fn(&str, &str) -> io::Result<()> + Send;

impl fmt::Debug for Writes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Done => "Done",
            Self::Answered(_) => "Answered",
            Self::Noted(_) => "Noted",
        })
    }
}

/// A write that was done or noted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Write {
    /// The file as the machine has it, such as `/proc/sys/kernel/numa_balancing`.
    pub path: String,
    /// What was written.
    pub text: String,
}

/// Why a file cannot be read or written, or does not hold what it should.
#[derive(Debug, thiserror::Error)]
pub enum RootError {
    /// It is there, but cannot be read.
    #[error("{path}: cannot be read: {why}")]
    Read {
        /// The file.
        path: String,
        /// The system's reason.
        why: io::Error,
    },
    /// It cannot be written.
    #[error("{path}: \"{text}\" cannot be written: {why}")]
    Write {
        /// The file.
        path: String,
        /// What was to be written.
        text: String,
        /// The system's reason.
        why: io::Error,
    },
    /// It holds something else than it should.
    #[error("{path}: \"{}\" is not {expected}", excerpt(text))]
    Content {
        /// The file.
        path: String,
        /// What it holds.
        text: String,
        /// What it should hold.
        expected: &'static str,
    },
}

impl RootError {
    /// Whether it failed for want of permission.
    pub fn is_permission(&self) -> bool {
        match self {
            Self::Read { why, .. } | Self::Write { why, .. } => {
                why.kind() == io::ErrorKind::PermissionDenied
            }
            Self::Content { .. } => false,
        }
    }

    /// Whether the file of a captured machine is none that is read: no regular file, too large, or
    /// outside the root.
    pub fn is_refused(&self) -> bool {
        let Self::Read { why, .. } = self else { return false };
        why.get_ref().is_some_and(|why| why.is::<input::Refused>())
    }

    /// Whether the kernel knows the file but not what was written (`EINVAL`): how it answers a word
    /// that a later one may take.
    pub fn is_not_taken(&self) -> bool {
        matches!(self, Self::Write { why, .. } if why.kind() == io::ErrorKind::InvalidInput)
    }
}

impl Root {
    fn new(path: PathBuf, is_confined: bool, writes: Writes) -> Self {
        Self { path, is_confined, writes, seen: RefCell::default(), reads: Cell::default() }
    }

    /// The machine that this runs on.
    pub fn live() -> Self {
        Self::new("/".into(), false, Writes::Done)
    }

    /// A machine whose files are below `path`, and are written to: where the kernel's file systems
    /// are mounted elsewhere, or a test stands in for them.
    pub fn live_below(path: impl Into<PathBuf>) -> Self {
        Self::new(path.into(), false, Writes::Done)
    }

    /// A live machine whose files are below `path`, and whose writes `answer` takes in the kernel's
    /// place, with their path and text: for tests of what a kernel refuses.
    pub fn live_answered(
        path: impl Into<PathBuf>,
        answer: impl Fn(&str, &str) -> io::Result<()> + Send + 'static,
    ) -> Self {
        Self::new(path.into(), false, Writes::Answered(Box::new(answer)))
    }

    /// The machine whose files are below `path`. Writes are noted, not done: a captured machine
    /// stays as it is.
    pub fn captured(path: impl Into<PathBuf>) -> Self {
        let path = path.into();
        // The machine that this runs on, read without being written to: /proc has magic links.
        let is_confined = fs::canonicalize(&path).map_or(true, |path| path != Path::new("/"));
        Self::new(path, is_confined, Writes::Noted(RefCell::default()))
    }

    /// Whether writes are done, not noted.
    pub fn is_live(&self) -> bool {
        !matches!(self.writes, Writes::Noted(_))
    }

    /// How many files and folders were read so far: what tests bound the cost of a look by.
    pub fn reads(&self) -> u64 {
        self.reads.get()
    }

    /// Where a file of the machine is.
    pub fn at(&self, path: &str) -> PathBuf {
        self.path.join(path.trim_start_matches('/'))
    }

    /// Whether there is such a file or folder.
    pub fn has(&self, path: &str) -> bool {
        let there = match self.is_confined {
            true => input::is_below(&self.path, path),
            false => self.at(path).exists(),
        };
        if there {
            self.seen.borrow_mut().entry(path.into()).or_insert(Seen::There);
        }
        there
    }

    /// The text of a file without its last end of line; `None` when there is no such file.
    ///
    /// # Errors
    /// When it is there and cannot be read.
    pub fn text(&self, path: &str) -> Result<Option<String>, RootError> {
        let Some(text) = self.whole(path)? else { return Ok(None) };
        self.seen.borrow_mut().insert(path.into(), Seen::File(text.clone()));
        Ok(Some(without_end(text)))
    }

    /// As [`Self::text`], but `None` of a file that this user may not read, too.
    ///
    /// # Errors
    /// When it cannot be read for another reason.
    pub fn text_if_allowed(&self, path: &str) -> Result<Option<String>, RootError> {
        match self.text(path) {
            Err(why) if why.is_permission() => Ok(None),
            text => text,
        }
    }

    /// As [`Self::text`], but a capture does not have it: for files of which there are many, and
    /// which are nobody's business.
    ///
    /// # Errors
    /// When it is there and cannot be read.
    pub fn peek(&self, path: &str) -> Result<Option<String>, RootError> {
        Ok(self.whole(path)?.map(without_end))
    }

    fn whole(&self, path: &str) -> Result<Option<String>, RootError> {
        Ok(self.bytes(path)?.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()))
    }

    /// The bytes of a file that is no text; a capture does not have it. `None` when there is no
    /// such file.
    ///
    /// # Errors
    /// When it is there and cannot be read.
    pub fn bytes(&self, path: &str) -> Result<Option<Vec<u8>>, RootError> {
        self.reads.update(|reads| reads + 1);
        let read = || match self.is_confined {
            true => input::content(input::open_below(&self.path, path)?, CAPTURED_FILE_MAX),
            false => input::read_kernel_file(&self.at(path), KERNEL_FILE_MAX),
        };
        match patiently(read) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(why) if is_absent(&why) => Ok(None),
            Err(why) => Err(RootError::Read { path: path.into(), why }),
        }
    }

    /// Fills `bytes` from what is at `offset` of a file, such as that of a CPU's MSRs; a capture
    /// does not have it.
    ///
    /// # Errors
    /// When it cannot be read, or ends before.
    pub fn read_at(&self, path: &str, offset: u64, bytes: &mut [u8]) -> io::Result<()> {
        let file = match self.is_confined {
            true => input::open_below(&self.path, path)?,
            false => File::open(self.at(path))?,
        };
        file.read_exact_at(bytes, offset)
    }

    /// The value in a file, as `parse` reads it; `None` when there is no such file.
    ///
    /// # Errors
    /// When it cannot be read, or `parse` finds no value.
    pub fn value<T>(
        &self,
        path: &str,
        expected: &'static str,
        parse: impl FnOnce(&str) -> Option<T>,
    ) -> Result<Option<T>, RootError> {
        let Some(text) = self.text(path)? else { return Ok(None) };
        match parse(text.trim()) {
            Some(value) => Ok(Some(value)),
            None => Err(RootError::Content { path: path.into(), text, expected }),
        }
    }

    /// A whole number in a file.
    ///
    /// # Errors
    /// As [`Self::value`].
    pub fn number(&self, path: &str) -> Result<Option<u64>, RootError> {
        self.value(path, "a whole number", |text| text.parse().ok())
    }

    /// The names in a folder, in order; empty when there is none.
    ///
    /// # Errors
    /// When it is there and cannot be listed.
    pub fn names(&self, path: &str) -> Result<Vec<String>, RootError> {
        let Some(names) = self.listed(path)? else { return Ok(vec![]) };
        self.seen.borrow_mut().insert(path.into(), Seen::Folder(names.clone()));
        Ok(names)
    }

    /// As [`Self::names`], but a capture does not have them.
    ///
    /// # Errors
    /// When the folder is there and cannot be listed.
    pub fn peek_names(&self, path: &str) -> Result<Vec<String>, RootError> {
        Ok(self.listed(path)?.unwrap_or_default())
    }

    fn listed(&self, path: &str) -> Result<Option<Vec<String>>, RootError> {
        self.reads.update(|reads| reads + 1);
        let name = |entry: io::Result<fs::DirEntry>| {
            entry.map(|entry| entry.file_name().to_string_lossy().into_owned())
        };
        let listed = match self.is_confined {
            true => input::names_below(&self.path, path),
            false => fs::read_dir(self.at(path)).and_then(|entries| entries.map(name).collect()),
        };
        match listed {
            Ok(mut names) => {
                names.sort();
                Ok(Some(names))
            }
            Err(why) if is_absent(&why) => Ok(None),
            Err(why) => Err(RootError::Read { path: path.into(), why }),
        }
    }

    /// Copies what was looked at so far to `target`, a folder that is not there yet: a machine to
    /// read again elsewhere with [`Self::captured`].
    ///
    /// # Errors
    /// When the folder is there already or cannot be written.
    pub fn capture(&self, target: &Path) -> io::Result<()> {
        fs::create_dir(target)?;
        let seen = self.seen.borrow();
        for (path, seen) in seen.iter() {
            let at = target.join(path.trim_start_matches('/'));
            match seen {
                Seen::File(text) => {
                    fs::create_dir_all(at.parent().unwrap_or(target))?;
                    fs::write(&at, text)?;
                }
                Seen::Folder(names) => {
                    fs::create_dir_all(&at)?;
                    names.iter().try_for_each(|name| stand_in(&self.at(path), &at, name))?;
                }
                Seen::There => {
                    let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
                    let within = target.join(folder.trim_start_matches('/'));
                    fs::create_dir_all(&within)?;
                    stand_in(&self.at(folder), &within, name)?;
                }
            }
        }
        Ok(())
    }

    /// Writes `text` to a file of the machine: with the two below, the only place where the tool
    /// changes one.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn write(&self, path: &str, text: &str) -> Result<(), RootError> {
        match &self.writes {
            Writes::Noted(writes) => {
                writes.borrow_mut().push(Write { path: path.into(), text: text.into() });
                Ok(())
            }
            Writes::Done => patiently(|| fs::write(self.at(path), text))
                .map_err(|why| RootError::Write { path: path.into(), text: text.into(), why }),
            Writes::Answered(answer) => answer(path, text).map_err(|why| RootError::Write {
                path: path.into(),
                text: text.into(),
                why,
            }),
        }
    }

    /// Makes a folder, where that is how the kernel is told something.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn make_folder(&self, path: &str) -> Result<(), RootError> {
        self.change_folder(path, "a folder", |at| fs::create_dir(at))
    }

    /// Removes such a folder, which the kernel's own files do not keep.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn remove_folder(&self, path: &str) -> Result<(), RootError> {
        self.change_folder(path, "no folder", |at| fs::remove_dir(at))
    }

    fn change_folder(
        &self,
        path: &str,
        text: &str,
        change: impl FnOnce(&Path) -> io::Result<()>,
    ) -> Result<(), RootError> {
        match &self.writes {
            Writes::Noted(writes) => {
                writes.borrow_mut().push(Write { path: path.into(), text: text.into() });
                Ok(())
            }
            Writes::Done | Writes::Answered(_) => change(&self.at(path))
                .map_err(|why| RootError::Write { path: path.into(), text: text.into(), why }),
        }
    }

    /// What was noted in place of being written.
    pub fn noted(&self) -> Vec<Write> {
        match &self.writes {
            Writes::Noted(writes) => writes.borrow().clone(),
            Writes::Done | Writes::Answered(_) => vec![],
        }
    }
}

/// An empty file or folder in `to` for what is called `name` in `from`: its name was looked at.
fn stand_in(from: &Path, to: &Path, name: &str) -> io::Result<()> {
    let at = to.join(name);
    match at.exists() {
        true => Ok(()),
        false if from.join(name).is_dir() => fs::create_dir_all(at),
        false => fs::write(at, ""),
    }
}

/// The most characters of a file that stand in a message.
const EXCERPT_MAX: usize = 120;

/// The begin of a text on one line, without what would control a terminal.
fn excerpt(text: &str) -> String {
    let plain = |c: char| match c.is_control() {
        true => c.escape_default().to_string(),
        false => c.to_string(),
    };
    let shown: String = text.chars().take(EXCERPT_MAX).map(plain).collect();
    if text.chars().nth(EXCERPT_MAX).is_some() { shown + "..." } else { shown }
}

fn without_end(mut text: String) -> String {
    if text.ends_with('\n') {
        text.pop();
    }
    text
}

/// How often a file is tried that is busy. Files of DAMON are now and then (`EBUSY`): the kernel
/// does not wait for its own lock there (`mutex_trylock` in `mm/damon/sysfs.c`), which who reads
/// one of them has for a moment, and a thread that brings its statistics up to date.
const TRIES_MAX: u32 = 200;

/// How long to wait in between.
const BUSY_PAUSE: Duration = Duration::from_millis(1);

/// Tries again while somebody else is at a file.
fn patiently<T>(try_it: impl Fn() -> io::Result<T>) -> io::Result<T> {
    for _ in 1..TRIES_MAX {
        match try_it() {
            Err(why) if is_busy(&why) => thread::sleep(BUSY_PAUSE),
            done => return done,
        }
    }
    try_it()
}

/// Whether somebody else is at a file just now.
fn is_busy(why: &io::Error) -> bool {
    why.kind() == io::ErrorKind::ResourceBusy
}

/// Errors of a file that was opened before its process ended (`ESRCH`), or before its control
/// group or device was removed (`ENODEV`).
const GONE: [i32; 2] = [libc::ESRCH, libc::ENODEV];

/// Whether a file is just not there. A folder in the way of one, or a device or process that has
/// gone meanwhile, is as good as that.
fn is_absent(why: &io::Error) -> bool {
    matches!(why.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
        || why.raw_os_error().is_some_and(|number| GONE.contains(&number))
}
