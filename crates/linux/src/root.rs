//! The root below which the files of a machine are read, and the functions that write to the
//! kernel's files.

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

use interleaf_procfs::files::is_absent;

/// Maximum size of a kernel file that is read, bytes. The largest known file is `smaps` of a
/// process with a million mappings, 700 MB.
const KERNEL_FILE_MAX: u64 = 1 << 30;

/// Maximum size of a file that is read from a captured machine (a copy of a machine's files),
/// bytes. The copy may come from another user.
const CAPTURED_FILE_MAX: u64 = 64 << 20;

/// The folder below which the files of a machine are.
#[derive(Debug)]
pub struct Root {
    path: PathBuf,
    /// True when symlinks may not lead out of the root. This is so for captured machines (copies of
    /// a machine's files), which another user may have made.
    is_confined: bool,
    writes: Writes,
    /// For [`Root::capture`], each path that was read since the call of [`Root::recording`], with
    /// its content; `None` without that call. Reads that a capture leaves out, such as
    /// [`Root::peek`], are not in the map.
    found: Option<RefCell<BTreeMap<String, PathContent>>>,
    /// The number of reads of files and folders so far.
    reads: Cell<u64>,
}

/// The part of a path that a capture stores: its content, or only its presence.
#[derive(Clone, Debug)]
enum PathContent {
    File(String),
    Folder(Vec<String>),
    /// The path exists, but its content was not read.
    Present,
}

/// The effect of a write to a file of the machine ([`Root::write`]).
enum Writes {
    /// The text is written to the file.
    Done,
    /// A function of a test takes the place of the kernel.
    Simulated(Box<Answer>),
    /// The write is only recorded, and nothing changes.
    Noted(RefCell<Vec<Write>>),
}

/// A test's stand-in for the kernel, which gets the path and the text of a write.
type Answer = dyn Fn(&str, &str) -> io::Result<()> + Send;

impl fmt::Debug for Writes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Done => "Done",
            Self::Simulated(_) => "Simulated",
            Self::Noted(_) => "Noted",
        })
    }
}

/// A write that was carried out or recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Write {
    /// The path on the machine, such as `/proc/sys/kernel/numa_balancing`.
    pub path: String,
    pub text: String,
}

/// The reason why a file cannot be read or written, or has invalid content.
#[derive(Debug, thiserror::Error)]
pub enum RootError {
    /// The file exists but cannot be read.
    #[error("{path}: cannot be read: {why}")]
    Read { path: String, why: io::Error },
    #[error("{path}: \"{text}\" cannot be written: {why}")]
    Write {
        path: String,
        /// The text that was to be written.
        text: String,
        why: io::Error,
    },
    /// The content of the file does not have the expected form.
    #[error("{path}: \"{}\" is not {expected}", excerpt(text))]
    Content {
        path: String,
        text: String,
        /// A description of content that would be valid.
        expected: &'static str,
    },
}

impl RootError {
    /// True when this user lacked a permission.
    pub fn is_permission(&self) -> bool {
        match self {
            Self::Read { why, .. } | Self::Write { why, .. } => {
                why.kind() == io::ErrorKind::PermissionDenied
            }
            Self::Content { .. } => false,
        }
    }

    /// True when the file was not read for safety: it is not a regular file, is too large, or is
    /// outside the root of a captured machine.
    pub fn is_refused(&self) -> bool {
        let Self::Read { why, .. } = self else { return false };
        why.get_ref().is_some_and(|why| why.is::<input::Refused>())
    }

    /// True when the kernel has the file but refuses the value that was written (`EINVAL`). Kernels
    /// refuse keywords of later kernels in this way.
    pub fn is_not_taken(&self) -> bool {
        matches!(self, Self::Write { why, .. } if why.kind() == io::ErrorKind::InvalidInput)
    }
}

impl Root {
    fn new(path: PathBuf, is_confined: bool, writes: Writes) -> Self {
        Self { path, is_confined, writes, found: None, reads: Cell::default() }
    }

    /// Returns the root of the running machine.
    pub fn live() -> Self {
        Self::new("/".into(), false, Writes::Done)
    }

    /// Returns the root of a simulated live machine below `path`. Writes change its files.
    #[cfg(test)]
    pub(crate) fn live_below(path: impl Into<PathBuf>) -> Self {
        Self::new(path.into(), false, Writes::Done)
    }

    /// Returns the root of a simulated live machine below `path`, for tests of refused writes.
    /// `answer` takes the place of the kernel: it gets the path and the text of each write.
    pub fn live_simulated(
        path: impl Into<PathBuf>,
        answer: impl Fn(&str, &str) -> io::Result<()> + Send + 'static,
    ) -> Self {
        Self::new(path.into(), false, Writes::Simulated(Box::new(answer)))
    }

    /// Returns the root of a captured machine, a copy of a machine's files below `path`. Writes are
    /// only recorded.
    pub fn captured(path: impl Into<PathBuf>) -> Self {
        let path = path.into();
        // Do not confine the root `/`, which is the running machine in a dry run: its `/proc` has
        // magic links, which a confined root refuses.
        let is_confined = fs::canonicalize(&path).map_or(true, |path| path != Path::new("/"));
        Self::new(path, is_confined, Writes::Noted(RefCell::default()))
    }

    /// Makes this root record the content of each file and folder that is read from now on, for
    /// [`Self::capture`]. By default nothing is recorded: the memory of a daemon would grow with
    /// every control group that it has ever read.
    #[must_use]
    pub fn recording(mut self) -> Self {
        self.found.get_or_insert_default();
        self
    }

    fn record(&self, path: &str, content: impl FnOnce() -> PathContent) {
        if let Some(found) = &self.found {
            found.borrow_mut().insert(path.into(), content());
        }
    }

    /// True when writes are carried out, by the kernel or by the function of a test.
    pub fn is_live(&self) -> bool {
        !matches!(self.writes, Writes::Noted(_))
    }

    /// Returns the number of reads of files and folders so far. Tests limit the cost of a scan by
    /// this number.
    pub fn reads(&self) -> u64 {
        self.reads.get()
    }

    /// Returns the path on this system that the machine's file `path` has.
    pub fn at(&self, path: &str) -> PathBuf {
        self.path.join(path.trim_start_matches('/'))
    }

    /// True when the file or folder exists on the machine.
    pub fn has(&self, path: &str) -> bool {
        let is_present = match self.is_confined {
            true => input::is_below(&self.path, path),
            false => self.at(path).exists(),
        };
        if let Some(found) = self.found.as_ref().filter(|_| is_present) {
            found.borrow_mut().entry(path.into()).or_insert(PathContent::Present);
        }
        is_present
    }

    /// Reads the text of a file, without its last newline; `None` if the file does not exist.
    /// [`Self::capture`] copies the file.
    ///
    /// # Errors
    /// When the file exists and cannot be read.
    pub fn text(&self, path: &str) -> Result<Option<String>, RootError> {
        let Some(text) = self.read_text(path)? else { return Ok(None) };
        self.record(path, || PathContent::File(text.clone()));
        Ok(Some(without_last_newline(text)))
    }

    /// Does the same as [`Self::text`], but also returns `None` for a file that this user may not
    /// read.
    ///
    /// # Errors
    /// When the file cannot be read for another reason.
    pub fn text_if_allowed(&self, path: &str) -> Result<Option<String>, RootError> {
        match self.text(path) {
            Err(why) if why.is_permission() => Ok(None),
            text => text,
        }
    }

    /// Does the same as [`Self::text`], but [`Self::capture`] does not copy the file. This is for
    /// files that are numerous, or private to users.
    ///
    /// # Errors
    /// When the file exists and cannot be read.
    pub fn peek(&self, path: &str) -> Result<Option<String>, RootError> {
        Ok(self.read_text(path)?.map(without_last_newline))
    }

    fn read_text(&self, path: &str) -> Result<Option<String>, RootError> {
        Ok(self.bytes(path)?.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()))
    }

    /// Reads the bytes of a binary file; `None` if the file does not exist. [`Self::capture`] does
    /// not copy the file.
    ///
    /// # Errors
    /// When the file exists and cannot be read.
    pub fn bytes(&self, path: &str) -> Result<Option<Vec<u8>>, RootError> {
        self.reads.update(|reads| reads + 1);
        let read = || match self.is_confined {
            true => input::content(input::open_below(&self.path, path)?, CAPTURED_FILE_MAX),
            false => input::read_kernel_file(&self.at(path), KERNEL_FILE_MAX),
        };
        match retry_while_busy(read) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(why) if is_absent(&why) => Ok(None),
            Err(why) => Err(RootError::Read { path: path.into(), why }),
        }
    }

    /// Fills `bytes` from a file, beginning at `offset`. An example is the file of a CPU's MSRs.
    /// [`Self::capture`] does not copy the file.
    ///
    /// # Errors
    /// When the file cannot be read, or ends before `bytes` is full.
    pub fn read_at(&self, path: &str, offset: u64, bytes: &mut [u8]) -> io::Result<()> {
        let file = match self.is_confined {
            true => input::open_below(&self.path, path)?,
            false => File::open(self.at(path))?,
        };
        file.read_exact_at(bytes, offset)
    }

    /// Reads the value in a file, which `parse` parses; `None` if the file does not exist.
    /// `expected` describes valid content for the error message.
    ///
    /// # Errors
    /// When the file cannot be read, or `parse` returns `None`.
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

    /// Reads the decimal number in a file; `None` if the file does not exist.
    ///
    /// # Errors
    /// The errors of [`Self::value`].
    pub fn number(&self, path: &str) -> Result<Option<u64>, RootError> {
        self.value(path, "a whole number", |text| text.parse().ok())
    }

    /// Returns the names in a folder, sorted; none if the folder does not exist. [`Self::capture`]
    /// copies the names.
    ///
    /// # Errors
    /// When the folder exists and cannot be listed.
    pub fn names(&self, path: &str) -> Result<Vec<String>, RootError> {
        let Some(names) = self.list(path)? else { return Ok(vec![]) };
        self.record(path, || PathContent::Folder(names.clone()));
        Ok(names)
    }

    /// Does the same as [`Self::names`], but [`Self::capture`] does not copy the names.
    ///
    /// # Errors
    /// When the folder exists and cannot be listed.
    pub fn peek_names(&self, path: &str) -> Result<Vec<String>, RootError> {
        Ok(self.list(path)?.unwrap_or_default())
    }

    fn list(&self, path: &str) -> Result<Option<Vec<String>>, RootError> {
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

    /// Copies the files and names that were read since [`Self::recording`] to `target`, a new
    /// folder, which [`Self::captured`] can read on any machine. Reads by [`Self::peek`],
    /// [`Self::peek_names`], [`Self::bytes`] and [`Self::read_at`] are left out.
    ///
    /// # Errors
    /// When the folder exists already or cannot be written. Nothing is left of a folder that cannot
    /// be written.
    pub fn capture(&self, target: &Path) -> io::Result<()> {
        fs::create_dir(target)?;
        self.write_capture(target).inspect_err(|_| drop(fs::remove_dir_all(target)))
    }

    fn write_capture(&self, target: &Path) -> io::Result<()> {
        for (path, seen) in self.found.iter().flat_map(|found| found.borrow().clone()) {
            let at = target.join(path.trim_start_matches('/'));
            match seen {
                PathContent::File(text) => {
                    fs::create_dir_all(at.parent().unwrap_or(target))?;
                    fs::write(&at, text)?;
                }
                PathContent::Folder(names) => {
                    fs::create_dir_all(&at)?;
                    names
                        .iter()
                        .try_for_each(|name| create_placeholder(&self.at(&path), &at, name))?;
                }
                PathContent::Present => {
                    let (folder, name) = path.rsplit_once('/').unwrap_or(("", &path));
                    let within = target.join(folder.trim_start_matches('/'));
                    fs::create_dir_all(&within)?;
                    create_placeholder(&self.at(folder), &within, name)?;
                }
            }
        }
        Ok(())
    }

    /// Writes `text` to a file of the machine. On a captured machine (a copy of a machine's files),
    /// only records the write. In this crate, only this function, [`Self::make_folder`] and
    /// [`Self::remove_folder`] change the kernel's files.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn write(&self, path: &str, text: &str) -> Result<(), RootError> {
        match &self.writes {
            Writes::Noted(writes) => {
                writes.borrow_mut().push(Write { path: path.into(), text: text.into() });
                Ok(())
            }
            Writes::Done => retry_while_busy(|| fs::write(self.at(path), text))
                .map_err(|why| RootError::Write { path: path.into(), text: text.into(), why }),
            Writes::Simulated(answer) => answer(path, text).map_err(|why| RootError::Write {
                path: path.into(),
                text: text.into(),
                why,
            }),
        }
    }

    /// Creates a folder in a file system of the kernel, such as cgroupfs or configfs, in which
    /// mkdir(2) creates a kernel object.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn make_folder(&self, path: &str) -> Result<(), RootError> {
        self.change_folder(path, "a folder", |at| fs::create_dir(at))
    }

    /// Removes a folder from a file system of the kernel, which removes the folder's files itself.
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
            Writes::Done | Writes::Simulated(_) => change(&self.at(path))
                .map_err(|why| RootError::Write { path: path.into(), text: text.into(), why }),
        }
    }

    /// Returns the writes that were recorded and not carried out.
    pub fn noted(&self) -> Vec<Write> {
        match &self.writes {
            Writes::Noted(writes) => writes.borrow().clone(),
            Writes::Done | Writes::Simulated(_) => vec![],
        }
    }
}

/// Creates an empty file or folder `name` in the folder `to` of a capture, so that the capture
/// lists this name. Of the original entry in the folder `from`, only the name was read.
fn create_placeholder(from: &Path, to: &Path, name: &str) -> io::Result<()> {
    let at = to.join(name);
    match at.exists() {
        true => Ok(()),
        false if from.join(name).is_dir() => fs::create_dir_all(at),
        false => fs::write(at, ""),
    }
}

/// Maximum number of characters that an error message quotes from a file.
const EXCERPT_MAX: usize = 120;

/// Returns the beginning of a text on one line, with control characters escaped.
fn excerpt(text: &str) -> String {
    let plain = |c: char| match c.is_control() {
        true => c.escape_default().to_string(),
        false => c.to_string(),
    };
    let shown: String = text.chars().take(EXCERPT_MAX).map(plain).collect();
    if text.chars().nth(EXCERPT_MAX).is_some() { shown + "..." } else { shown }
}

fn without_last_newline(mut text: String) -> String {
    if text.ends_with('\n') {
        text.pop();
    }
    text
}

/// Maximum number of attempts on a busy file (`EBUSY`). A read or write of DAMON's sysfs files
/// fails with `EBUSY` while another access, such as an update of the statistics, holds DAMON's lock
/// for a moment (`mutex_trylock` in `mm/damon/sysfs.c`).
const TRIES_MAX: u32 = 200;

/// The pause between two attempts on a busy file.
const BUSY_PAUSE: Duration = Duration::from_millis(1);

/// Repeats the operation `try_it` while the file is busy.
fn retry_while_busy<T>(try_it: impl Fn() -> io::Result<T>) -> io::Result<T> {
    for _ in 1..TRIES_MAX {
        match try_it() {
            Err(why) if is_busy(&why) => thread::sleep(BUSY_PAUSE),
            done => return done,
        }
    }
    try_it()
}

fn is_busy(why: &io::Error) -> bool {
    why.kind() == io::ErrorKind::ResourceBusy
}
