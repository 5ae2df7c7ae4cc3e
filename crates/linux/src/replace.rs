//! Replaces files atomically, and opens the folders in which a privileged process keeps its files.
//!
//! New contents are written to a temporary file beside the target. Once the temporary file is
//! complete, it is renamed to the target. Readers therefore see the old or the new contents, never
//! a part. This also holds on a full file system, and, with [`Durability::Synced`], after a crash.
//!
//! The temporary file has a random name and is created with `O_EXCL`. Every step names files
//! relative to an open folder (`openat`, `renameat`). Therefore no other user of a shared folder
//! can redirect the write with a symbolic link or by renaming a parent.
//!
//! A target is of one of two kinds:
//!
//! - [`named`]: an output that the user names (`-o FILE`). Symbolic links are followed. The mode
//!   and the owner of an existing file are kept. Devices, FIFOs and inherited descriptors are
//!   written in place.
//! - [`kept`]: a file that the program itself keeps, usually as root. The target must be a regular
//!   file or not exist yet. No symbolic link of another user is followed on the way to it.

use rustix::{
    fs::{
        Access, AtFlags, CWD, Dir, FallocateFlags, FileType, Gid, Mode, OFlags, Stat, Uid,
        accessat, fallocate, fchmod, fchown, fstat, fstatfs, fsync, ftruncate, openat, readlinkat,
        renameat, statat, unlinkat,
    },
    io::Errno,
    process::geteuid,
    rand::{GetRandomFlags, getrandom},
};
use std::{
    collections::VecDeque,
    ffi::{OsStr, OsString},
    fs::File,
    io::{self, Read as _, Write as _},
    os::{
        fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd},
        unix::{
            ffi::{OsStrExt as _, OsStringExt as _},
            fs::FileTypeExt as _,
        },
    },
    path::{Component, Path, PathBuf},
};

/// Maximum number of symbolic links on the way to a file: the kernel's own limit (`MAXSYMLINKS`).
const LINKS_MAX: u32 = 40;

/// Maximum number of random names that are tried for a temporary file.
const NAMES_MAX: u32 = 100;

/// The number of procfs in `f_type` of statfs(2): `PROC_SUPER_MAGIC`.
const PROC_MAGIC: i128 = 0x9fa0;

const STICKY: u32 = 0o1000;
const WRITABLE_BY_OTHERS: u32 = 0o022;
const WRITABLE_BY_ALL: u32 = 0o002;

/// When the new contents of a file reach the drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// The contents are written to the drive (`fsync`) before the target is replaced.
    Synced,
    /// The kernel writes the contents to the drive later. This suits files that are soon replaced
    /// again.
    Cached,
}

/// The treatment of a file's present contents when the file is opened for writing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Existing {
    /// The contents stay, and writes append to them.
    Append,
    /// The contents are dropped.
    Truncate,
}

/// The identity of a file, independent of its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileId {
    device: u64,
    inode: u64,
}

/// An open folder. Its files are opened relative to its descriptor, so an access reaches this
/// folder even after a parent folder was renamed.
#[derive(Debug)]
pub struct Folder(OwnedFd);

/// Replaces the file that a user named as an output.
///
/// If the file cannot be replaced, for example because its folder is read-only or the file is a
/// mount point, it is overwritten in place. Before that, space for the contents is reserved if the
/// file system supports this, so that a full file system leaves the file unchanged.
///
/// # Errors
/// When the system refuses, or the target is a block device. Also when another user may have
/// planted the target:
/// - in a sticky folder that all users can write, such as `/tmp`: a file or symbolic link that
///   belongs neither to root, nor to this user, nor to the folder's owner;
/// - in other folders, if this process is root: a symbolic link of another user.
pub fn named(target: &Path, contents: &[u8], durability: Durability) -> io::Result<()> {
    match resolve(target)? {
        Output::Stream(mut file) => file.write_all(contents),
        Output::File { folder, name, existing: None } => {
            let write = |file: &mut File| file.write_all(contents);
            folder.create(&name, Mode::from_raw_mode(0o666), durability, write).map(drop)
        }
        Output::File { folder, name, existing: Some(existing) } => {
            accessat(&folder, &name, Access::WRITE_OK, AtFlags::EACCESS)?;
            let write = |file: &mut File| {
                inherit(file, &existing)?;
                file.write_all(contents)
            };
            let mode = Mode::from_raw_mode(0o600);
            match folder.create(&name, mode, durability, write) {
                Err(why) if is_irreplaceable(&why) => folder.overwrite(&name, contents, durability),
                done => done.map(drop),
            }
        }
    }
}

/// Opens a file that a user named as an output, for writing it piece by piece and reading it back.
///
/// # Errors
/// The errors of [`named`].
pub fn open_named(target: &Path, existing: Existing) -> io::Result<File> {
    let flags = match existing {
        Existing::Append => OFlags::APPEND,
        Existing::Truncate => OFlags::TRUNC,
    };
    let flags = flags | OFlags::RDWR | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    match resolve(target)? {
        Output::Stream(file) => Ok(file),
        Output::File { folder, name, existing } => {
            let is_new = existing.is_none().then_some(OFlags::CREATE | OFlags::EXCL);
            let flags = flags | is_new.unwrap_or(OFlags::empty());
            Ok(openat(&folder, &name, flags, Mode::from_raw_mode(0o666))?.into())
        }
    }
}

/// Checks whether [`named`] could write `target`, without changing its contents.
///
/// # Errors
/// The errors of [`named`].
pub fn check_named(target: &Path) -> io::Result<()> {
    // Do not open a FIFO for the check: closing it again would signal end-of-file to its reader.
    if std::fs::metadata(target).is_ok_and(|found| found.file_type().is_fifo()) {
        return Ok(());
    }
    match resolve(target)? {
        Output::Stream(_) => Ok(()),
        Output::File { folder, name, existing: Some(_) } => {
            Ok(accessat(&folder, &name, Access::WRITE_OK, AtFlags::EACCESS)?)
        }
        Output::File { folder, name, existing: None } => {
            let (name, _file) = folder.temporary(&name, Mode::RUSR | Mode::WUSR)?;
            Ok(unlinkat(&folder, &name, AtFlags::empty())?)
        }
    }
}

/// Replaces a file in which the program keeps its own state, such as a journal. The new file has
/// the mode `mode`, regardless of the umask.
///
/// # Errors
/// When the system refuses, the path names something other than a regular file, or the path leads
/// through a symbolic link of another user.
pub fn kept(path: &Path, contents: &[u8], mode: u32) -> io::Result<FileId> {
    let (folder, name) = Folder::of_file(path)?;
    folder.keep(&name, contents, mode)
}

/// Checks whether [`kept`] could write `path`, without changing its contents.
///
/// # Errors
/// The errors of [`kept`].
pub fn check_kept(path: &Path) -> io::Result<()> {
    let (folder, name) = Folder::of_file(path)?;
    folder.refuse_special(&name)?;
    let (name, _file) = folder.temporary(&name, Mode::RUSR | Mode::WUSR)?;
    Ok(unlinkat(&folder, &name, AtFlags::empty())?)
}

/// Removes the file that [`kept`] wrote to `path` and whose identity is `id`. If another file is at
/// `path` by now, it stays.
///
/// # Errors
/// The errors of [`kept`].
pub fn remove_kept(path: &Path, id: FileId) -> io::Result<()> {
    let (folder, name) = Folder::of_file(path)?;
    folder.remove(&name, id)
}

enum Output {
    /// A device, a FIFO or an inherited descriptor, which is written in place.
    Stream(File),
    /// A regular file. `existing` is `None` if the file does not exist yet.
    File { folder: Folder, name: OsString, existing: Option<Stat> },
}

/// Follows the symbolic links of `target`, which a user named. Returns the file or stream to which
/// the output is written.
fn resolve(target: &Path) -> io::Result<Output> {
    let mut path = target.to_path_buf();
    for _ in 0..LINKS_MAX {
        let is_folder = path.as_os_str().as_bytes().ends_with(b"/");
        let Some(name) = path.file_name().filter(|_| !is_folder) else {
            return Err(Errno::ISDIR.into());
        };
        let parent = parent(&path);
        let folder = Folder::open(parent)?;
        let found = match statat(&folder, name, AtFlags::SYMLINK_NOFOLLOW) {
            Err(Errno::NOENT) => {
                return Ok(Output::File { folder, name: name.into(), existing: None });
            }
            found => found?,
        };
        match FileType::from_raw_mode(found.st_mode) {
            FileType::Symlink if folder.is_proc() => return stream(&path),
            FileType::Symlink => {
                folder.refuse_foreign(&found, "symbolic link")?;
                let next = parent.join(folder.link(name)?);
                path = next;
            }
            FileType::RegularFile => {
                folder.refuse_foreign(&found, "file")?;
                return Ok(Output::File { folder, name: name.into(), existing: Some(found) });
            }
            FileType::Directory => return Err(Errno::ISDIR.into()),
            _ => {
                refuse_device(&path)?;
                return stream(&path);
            }
        }
    }
    Err(Errno::LOOP.into())
}

/// Opens a device, a FIFO or an inherited descriptor such as `/dev/stdout`. If the descriptor
/// belongs to a regular file, the file is opened for appending, so that its contents stay.
fn stream(path: &Path) -> io::Result<Output> {
    let is_file = std::fs::metadata(path).is_ok_and(|found| found.is_file());
    let mut options = File::options();
    Ok(Output::Stream(options.write(true).append(is_file).open(path)?))
}

/// Fails for a block device, so that an output never overwrites a drive.
fn refuse_device(path: &Path) -> io::Result<()> {
    match std::fs::metadata(path)?.file_type().is_block_device() {
        true => Err(denied("it is a block device: its contents would be lost".into())),
        false => Ok(()),
    }
}

/// Gives a new file the owner and mode of the file that it replaces.
fn inherit(file: &File, existing: &Stat) -> io::Result<()> {
    let now = fstat(file)?;
    if (now.st_uid, now.st_gid) != (existing.st_uid, existing.st_gid) {
        let (uid, gid) = (Uid::from_raw(existing.st_uid), Gid::from_raw(existing.st_gid));
        fchown(file, Some(uid), Some(gid))?;
    }
    Ok(fchmod(file, Mode::from_raw_mode(existing.st_mode & 0o7777))?)
}

/// True when the error `why` means that a file cannot be replaced but may still be overwritten in
/// place: its folder is read-only or sticky, its owner cannot be kept, or the file is a mount
/// point.
fn is_irreplaceable(why: &io::Error) -> bool {
    let reasons = [Errno::ACCESS, Errno::PERM, Errno::ROFS, Errno::BUSY, Errno::XDEV];
    Errno::from_io_error(why).is_some_and(|why| reasons.contains(&why))
}

fn denied(why: String) -> io::Error {
    io::Error::new(io::ErrorKind::PermissionDenied, why)
}

fn parent(path: &Path) -> &Path {
    path.parent().filter(|it| !it.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

impl AsFd for Folder {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl Folder {
    fn open(path: &Path) -> io::Result<Self> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(Self(openat(CWD, path, flags, Mode::empty())?))
    }

    /// Opens the folder of the file at `path`, which the program keeps. Returns the folder and the
    /// name of the file.
    ///
    /// # Errors
    /// The errors of [`Self::trusted`], or when the path names no file.
    pub fn of_file(path: &Path) -> io::Result<(Self, OsString)> {
        let name = path.file_name().ok_or(Errno::ISDIR)?;
        Ok((Self::trusted(parent(path))?, name.into()))
    }

    /// Opens the folder at `path`. Each symbolic link on the way must belong to root or to this
    /// user, because the owner of a link can replace it by another link at any time.
    ///
    /// # Errors
    /// When the folder does not exist, or a link on the way belongs to another user.
    pub fn trusted(path: &Path) -> io::Result<Self> {
        let mut folder = Self::open(Path::new(if path.is_absolute() { "/" } else { "." }))?;
        let (mut left, mut links) = (components(path), 0);
        while let Some(name) = left.pop_front() {
            let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let next = openat(&folder, &name, flags, Mode::empty())?;
            let found = fstat(&next)?;
            match FileType::from_raw_mode(found.st_mode) {
                FileType::Directory => folder = Self(next),
                FileType::Symlink if links < LINKS_MAX => {
                    links += 1;
                    if !is_ours(found.st_uid) {
                        return Err(denied(format!(
                            "\"{}\" on the way to it is a symbolic link of user {}",
                            name.display(),
                            found.st_uid
                        )));
                    }
                    let to = folder.link(&name)?;
                    if to.is_absolute() {
                        folder = Self::open(Path::new("/"))?;
                    }
                    for name in components(&to).into_iter().rev() {
                        left.push_front(name);
                    }
                }
                FileType::Symlink => return Err(Errno::LOOP.into()),
                _ => return Err(Errno::NOTDIR.into()),
            }
        }
        Ok(folder)
    }

    /// Checks that only root and this user can change the folder.
    ///
    /// # Errors
    /// When another user can change the folder.
    pub fn check_private(&self) -> io::Result<()> {
        check_private(&fstat(self)?)
    }

    /// Returns a path of the folder that goes through its descriptor, for system calls that take
    /// only a path, such as bind(2).
    pub fn path(&self) -> PathBuf {
        format!("/proc/self/fd/{}", self.0.as_raw_fd()).into()
    }

    /// Returns the names in the folder, sorted.
    ///
    /// # Errors
    /// When the folder cannot be listed.
    pub fn names(&self) -> io::Result<Vec<String>> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let mut names = vec![];
        for entry in Dir::new(openat(self, ".", flags, Mode::empty())?)? {
            let name = entry?.file_name().to_string_lossy().into_owned();
            names.extend(Some(name).filter(|name| name != "." && name != ".."));
        }
        names.sort();
        Ok(names)
    }

    /// Opens the file `name`. If it does not exist, creates it as an empty file that only this user
    /// can access.
    ///
    /// # Errors
    /// When the system refuses, the name is a symbolic link, or the file exists and another user
    /// can write to it.
    pub fn private_file(&self, name: &str) -> io::Result<File> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = openat(self, name, flags | OFlags::NONBLOCK, Mode::RUSR | Mode::WUSR)?;
        check_private(&fstat(&file)?)?;
        Ok(file.into())
    }

    /// Reads the text of a regular file that only root and this user can change; `None` if the file
    /// does not exist.
    ///
    /// # Errors
    /// When the system refuses, or the file is not a regular file, can be changed by another user,
    /// is longer than `bytes_max`, or is not UTF-8.
    pub fn private_text(&self, name: &str, bytes_max: u64) -> io::Result<Option<String>> {
        // Without `O_NONBLOCK`, opening a FIFO would block.
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = match openat(self, name, flags, Mode::empty()) {
            Err(Errno::NOENT) => return Ok(None),
            Err(Errno::LOOP) => return Err(invalid("it is a symbolic link".into())),
            file => File::from(file?),
        };
        let found = fstat(&file)?;
        if FileType::from_raw_mode(found.st_mode) != FileType::RegularFile {
            return Err(invalid("it is not a regular file".into()));
        }
        check_private(&found)?;
        let mut text = String::new();
        file.take(bytes_max + 1).read_to_string(&mut text)?;
        if text.len() as u64 > bytes_max {
            return Err(invalid(format!("it is longer than {bytes_max} bytes")));
        }
        Ok(Some(text))
    }

    /// Replaces or creates the regular file `name` in the folder. The new file has the mode `mode`.
    ///
    /// # Errors
    /// The errors of [`kept`].
    pub fn keep(&self, name: &OsStr, contents: &[u8], mode: u32) -> io::Result<FileId> {
        self.refuse_special(name)?;
        let write = |file: &mut File| {
            fchmod(&*file, Mode::from_raw_mode(mode))?;
            file.write_all(contents)
        };
        self.create(name, Mode::RUSR | Mode::WUSR, Durability::Cached, write)
    }

    /// Sets the folder's mode.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn set_mode(&self, mode: u32) -> io::Result<()> {
        // Open the folder again for reading, because fchmod(2) fails on the `O_PATH` descriptor of
        // `self`.
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let folder = openat(self, ".", flags, Mode::empty())?;
        Ok(fchmod(folder, Mode::from_raw_mode(mode))?)
    }

    /// True when the folder has an entry of this name.
    pub fn has(&self, name: &OsStr) -> bool {
        statat(self, name, AtFlags::SYMLINK_NOFOLLOW).is_ok()
    }

    /// Renames an entry of the folder.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn rename(&self, from: &OsStr, to: &OsStr) -> io::Result<()> {
        Ok(renameat(self, from, self, to)?)
    }

    /// Removes the file `name` from the folder, if it exists.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn unlink(&self, name: &OsStr) -> io::Result<()> {
        match unlinkat(self, name, AtFlags::empty()) {
            Err(Errno::NOENT) => Ok(()),
            done => Ok(done?),
        }
    }

    /// Removes the file `name` if its identity is `id`.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn remove(&self, name: &OsStr, id: FileId) -> io::Result<()> {
        match statat(self, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(found) if FileId::from_stat(&found) == id => {
                Ok(unlinkat(self, name, AtFlags::empty())?)
            }
            Ok(_) | Err(Errno::NOENT) => Ok(()),
            Err(why) => Err(why.into()),
        }
    }

    /// Returns an unguessable name for a temporary file or socket that later becomes `name`.
    pub fn random_name(name: &OsStr) -> io::Result<OsString> {
        let mut bytes = [0; 8];
        getrandom(&mut bytes, GetRandomFlags::empty())?;
        let mut random = OsString::from(".");
        // Shorten the name, because the name of a file has at most 255 bytes.
        random.push(OsStr::from_bytes(&name.as_bytes()[..name.len().min(200)]));
        random.push(format!(".{:016x}.tmp", u64::from_ne_bytes(bytes)));
        Ok(random)
    }

    fn temporary(&self, name: &OsStr, mode: Mode) -> io::Result<(OsString, File)> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW;
        for _ in 0..NAMES_MAX {
            let random = Self::random_name(name)?;
            match openat(self, &random, flags | OFlags::CLOEXEC, mode) {
                Err(Errno::EXIST) => {}
                file => return Ok((random, file?.into())),
            }
        }
        Err(Errno::EXIST.into())
    }

    /// Creates a temporary file with `mode`, calls `write` to fill it, and renames it to `name`.
    fn create(
        &self,
        name: &OsStr,
        mode: Mode,
        durability: Durability,
        write: impl FnOnce(&mut File) -> io::Result<()>,
    ) -> io::Result<FileId> {
        let (temporary, mut file) = self.temporary(name, mode)?;
        let done = write(&mut file).and_then(|()| {
            if durability == Durability::Synced {
                file.sync_all()?;
            }
            let id = FileId::from_stat(&fstat(&file)?);
            renameat(self, &temporary, self, name)?;
            Ok(id)
        });
        match &done {
            Ok(_) if durability == Durability::Synced => self.sync(),
            Ok(_) => {}
            // Remove the partial file. It occupies space, and a full file system may be the cause
            // of the failure.
            Err(_) => drop(unlinkat(self, &temporary, AtFlags::empty())),
        }
        done
    }

    /// Overwrites the file `name` in place. Before that, space for the contents is reserved if the
    /// file system supports this, so that a full file system leaves the file unchanged.
    fn overwrite(&self, name: &OsStr, contents: &[u8], durability: Durability) -> io::Result<()> {
        let flags = OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mut file = File::from(openat(self, name, flags, Mode::empty())?);
        let bytes = contents.len() as u64;
        if bytes > 0 {
            match fallocate(&file, FallocateFlags::KEEP_SIZE, 0, bytes) {
                Err(Errno::OPNOTSUPP | Errno::NOSYS) => {}
                reserved => reserved?,
            }
        }
        file.write_all(contents)?;
        ftruncate(&file, bytes)?;
        if durability == Durability::Synced { file.sync_all() } else { Ok(()) }
    }

    /// Writes the folder's entries to the drive after a rename. A failure is ignored, because the
    /// contents of the renamed file are on the drive already.
    fn sync(&self) {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        if let Ok(folder) = openat(self, ".", flags, Mode::empty()) {
            let _ = fsync(folder);
        }
    }

    fn link(&self, name: &OsStr) -> io::Result<PathBuf> {
        let to = readlinkat(self, name, vec![])?;
        Ok(OsString::from_vec(to.into_bytes()).into())
    }

    /// True when the folder is in procfs. A symbolic link in procfs, such as `/proc/PID/fd/1`, can
    /// stand for an open file.
    fn is_proc(&self) -> bool {
        fstatfs(self).is_ok_and(|found| i128::from(found.f_type) == PROC_MAGIC)
    }

    /// Fails if the entry `name` exists and is not a regular file.
    fn refuse_special(&self, name: &OsStr) -> io::Result<()> {
        match statat(self, name, AtFlags::SYMLINK_NOFOLLOW) {
            Err(Errno::NOENT) => Ok(()),
            found => match FileType::from_raw_mode(found?.st_mode) {
                FileType::RegularFile => Ok(()),
                FileType::Directory => Err(Errno::ISDIR.into()),
                FileType::Symlink => Err(invalid("it is a symbolic link".into())),
                _ => Err(invalid("it is not a regular file".into())),
            },
        }
    }

    /// Fails if another user may have planted the entry `found` of this folder. In the error
    /// message, `name` is the word for the entry, such as "file".
    ///
    /// In a sticky folder that all users can write, the owner of the entry must be root, this user
    /// or the folder's owner. The kernel's `fs.protected_symlinks` and `fs.protected_regular` have
    /// a similar rule. In other folders, root refuses symbolic links of other users.
    fn refuse_foreign(&self, found: &Stat, name: &str) -> io::Result<()> {
        let folder = fstat(self)?;
        let is_shared = folder.st_mode & (STICKY | WRITABLE_BY_ALL) == STICKY | WRITABLE_BY_ALL;
        let is_link = FileType::from_raw_mode(found.st_mode) == FileType::Symlink;
        let is_refused = match is_shared {
            true => found.st_uid != folder.st_uid,
            false => is_link && geteuid().is_root(),
        };
        if is_ours(found.st_uid) || !is_refused {
            return Ok(());
        }
        Err(denied(format!("it is a {name} of user {}", found.st_uid)))
    }
}

impl FileId {
    pub fn from_stat(found: &Stat) -> Self {
        Self { device: found.st_dev, inode: found.st_ino }
    }
}

fn components(path: &Path) -> VecDeque<OsString> {
    let names = path.components().filter_map(|component| match component {
        Component::Normal(_) | Component::ParentDir => Some(component.as_os_str().to_owned()),
        _ => None,
    });
    names.collect()
}

/// True when `uid` is root or this user. Both are trusted, because each of them can change the
/// files of this process anyway.
fn is_ours(uid: u32) -> bool {
    uid == 0 || uid == geteuid().as_raw()
}

/// Checks that only root and this user can write the file or folder `found`.
fn check_private(found: &Stat) -> io::Result<()> {
    if !is_ours(found.st_uid) {
        return Err(invalid(format!("it belongs to user {}", found.st_uid)));
    }
    let mode = found.st_mode & 0o7777;
    match mode & WRITABLE_BY_OTHERS {
        0 => Ok(()),
        _ => Err(invalid(format!("others may write to it (mode {mode:04o})"))),
    }
}

fn invalid(why: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}
