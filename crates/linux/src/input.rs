//! Opens files whose names come from a user or from a captured machine (a copy of a machine's
//! files).
//!
//! Such a name can be that of a FIFO, whose `open` waits for a writer; of a device, whose content
//! has no end; or of a symlink that leads out of the captured machine. Therefore only regular files
//! and anonymous FIFOs are opened, and the number of bytes that are read has a limit. Anonymous
//! FIFOs are the pipes of a shell (`<(...)`, `/dev/stdin`).

use rustix::{
    fs::{FileType, Mode, OFlags, ResolveFlags},
    io::Errno,
};
use std::{
    fs::{self, File},
    io::{self, Read},
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    path::{Component, Path},
};

/// `f_type` of fstatfs(2) for an anonymous pipe: `PIPEFS_MAGIC` in `linux/magic.h`.
const PIPE_FILE_SYSTEM: i64 = 0x5049_5045;

/// Flags to open a file for reading. With `NONBLOCK`, opening a FIFO does not wait for a writer;
/// with `NOCTTY`, a terminal does not become the controlling terminal.
const READ: OFlags =
    OFlags::RDONLY.union(OFlags::NONBLOCK).union(OFlags::NOCTTY).union(OFlags::CLOEXEC);

/// Flags to open a file only to read its type. With `PATH`, the kernel does not call the driver of
/// a device file.
const TYPE_ONLY: OFlags = OFlags::PATH.union(OFlags::CLOEXEC);

/// Maximum number of `openat2` calls for one file. A call that fails with `EAGAIN`, because of a
/// concurrent rename, is repeated.
const TRIES_MAX: u32 = 16;

/// The reason why an existing file is not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    #[error("it is a {0}, not a regular file")]
    Kind(&'static str),
    #[error("it is larger than {}, the limit for such a file", size(*.0))]
    Size(u64),
    /// A symlink leads out of the folder that must contain the file.
    #[error("a symlink leads out of the root")]
    Leaves,
}

impl From<Refused> for io::Error {
    fn from(why: Refused) -> Self {
        Self::new(io::ErrorKind::InvalidInput, why)
    }
}

/// Formats `bytes`, the size limit in an error message, in GiB, MiB or bytes. Each limit is a power
/// of two, so the shift drops no remainder.
fn size(bytes: u64) -> String {
    match bytes {
        _ if bytes >= 1 << 30 => format!("{} GiB", bytes >> 30),
        _ if bytes >= 1 << 20 => format!("{} MiB", bytes >> 20),
        _ => format!("{bytes} B"),
    }
}

/// Reads the regular file or anonymous pipe at `path`. A byte order mark is dropped.
///
/// # Errors
/// When the file cannot be read, has another type ([`Refused`]), or has more than `limit` bytes.
pub fn read_file(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    let open = |flags| rustix::fs::open(path, flags, Mode::empty()).map_err(io::Error::from);
    let file = regular(open)?;
    // Clear `O_NONBLOCK`, so that reads of a pipe wait for the writer. The file was opened here, so
    // no other process shares this flag.
    rustix::fs::fcntl_setfl(&file, OFlags::empty())?;
    content(file, limit).map(without_byte_order_mark)
}

/// Reads stdin, which may be a file of any type. A byte order mark is dropped.
/// # Errors
/// When stdin cannot be read or has more than `limit` bytes.
pub fn read_stdin(limit: u64) -> io::Result<Vec<u8>> {
    bytes(io::stdin().lock(), limit).map(without_byte_order_mark)
}

/// Drops the byte order mark (U+FEFF) with which spreadsheets and some editors begin UTF-8 files.
/// No binary format of Interleaf begins with these bytes.
fn without_byte_order_mark(mut content: Vec<u8>) -> Vec<u8> {
    const MARK: &[u8] = "\u{feff}".as_bytes();
    if content.starts_with(MARK) {
        content.drain(..MARK.len());
    }
    content
}

/// Reads the whole of `file`; fails if it has more than `limit` bytes. Reads nothing if the inode's
/// size exceeds `limit`. This size is 0 for pipes and files in procfs, which are read up to the
/// limit.
pub(crate) fn content(file: File, limit: u64) -> io::Result<Vec<u8>> {
    if file.metadata()?.len() > limit {
        return Err(Refused::Size(limit).into());
    }
    bytes(file, limit)
}

/// Reads `source` to its end; fails if it has more than `limit` bytes.
fn bytes(source: impl Read, limit: u64) -> io::Result<Vec<u8>> {
    let mut bytes = vec![];
    let read = source.take(limit.saturating_add(1)).read_to_end(&mut bytes)?;
    if read as u64 > limit { Err(Refused::Size(limit).into()) } else { Ok(bytes) }
}

/// Opens a regular file or an anonymous pipe for reading. The argument `open` is a function that
/// opens the file with the flags that it gets. Opening a device can have effects, so the file type
/// is first checked on an `O_PATH` descriptor. It is checked again on the opened file, because
/// another program may have replaced the file in between.
fn regular(open: impl Fn(OFlags) -> io::Result<OwnedFd>) -> io::Result<File> {
    check(open(TYPE_ONLY)?.as_fd())?;
    let file = open(READ)?;
    check(file.as_fd())?;
    Ok(file.into())
}

/// Reads the kernel file at `path`; fails if it has more than `limit` bytes. Keeps a byte order
/// mark. Users cannot choose the path of a kernel file, so the file type is checked only after
/// opening.
pub(crate) fn read_kernel_file(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    let file = rustix::fs::open(path, READ, Mode::empty())?;
    check(file.as_fd())?;
    content(file.into(), limit)
}

/// Opens the regular file or anonymous pipe `path` below `folder`. Fails if a symlink leads out of
/// `folder`.
pub(crate) fn open_below(folder: &Path, path: &str) -> io::Result<File> {
    regular(|flags| below(folder, path, flags))
}

/// Returns the names in the folder at `path` below `folder`, without `.` and `..`. Fails if a
/// symlink in `path` leads out of `folder`.
pub(crate) fn names_below(folder: &Path, path: &str) -> io::Result<Vec<String>> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let entries = rustix::fs::Dir::read_from(below(folder, path, flags)?)?;
    let mut names = vec![];
    for entry in entries {
        let name = entry?.file_name().to_string_lossy().into_owned();
        if name != "." && name != ".." {
            names.push(name);
        }
    }
    Ok(names)
}

/// True when `path` exists below `folder`. Also true when a symlink in `path` leads out of
/// `folder`: a later read of `path` then fails with [`Refused::Leaves`].
pub(crate) fn is_below(folder: &Path, path: &str) -> bool {
    match below(folder, path, TYPE_ONLY) {
        Ok(_) => true,
        Err(why) => leaves(&why),
    }
}

fn leaves(why: &io::Error) -> bool {
    let refused = why.get_ref().and_then(|why| why.downcast_ref::<Refused>());
    refused == Some(&Refused::Leaves)
}

/// Returns an error for every type of file except regular files and anonymous pipes.
fn check(file: BorrowedFd<'_>) -> io::Result<()> {
    let kind = match FileType::from_raw_mode(rustix::fs::fstat(file)?.st_mode) {
        FileType::RegularFile => return Ok(()),
        FileType::Fifo if rustix::fs::fstatfs(file)?.f_type as i64 == PIPE_FILE_SYSTEM => {
            return Ok(());
        }
        FileType::Fifo => "FIFO",
        FileType::Directory => "directory",
        FileType::CharacterDevice => "character device",
        FileType::BlockDevice => "block device",
        FileType::Socket => "socket",
        _ => "special file",
    };
    Err(Refused::Kind(kind).into())
}

/// Opens `path` below `folder` with openat2(2), which fails if a symlink leads out of `folder`.
fn below(folder: &Path, path: &str, flags: OFlags) -> io::Result<OwnedFd> {
    let path = match path.trim_start_matches('/') {
        "" => ".",
        path => path,
    };
    let top = rustix::fs::open(folder, TYPE_ONLY | OFlags::DIRECTORY, Mode::empty())?;
    for _ in 0..TRIES_MAX {
        let resolve = ResolveFlags::BENEATH;
        match rustix::fs::openat2(&top, path, flags, Mode::empty(), resolve) {
            Ok(file) => return Ok(file),
            Err(Errno::AGAIN) => {}
            Err(Errno::XDEV) => return Err(Refused::Leaves.into()),
            // Linux before 5.6 lacks `openat2`, and a sandbox may refuse the call.
            Err(Errno::NOSYS | Errno::PERM) => return open_by_components(folder, path, flags),
            Err(why) => return Err(why.into()),
        }
    }
    Err(Errno::AGAIN.into())
}

/// Does the same as [`below`] without `openat2`. Symlinks are resolved first. Then the components
/// of the resolved path are opened one by one with `O_NOFOLLOW`, because a component may have been
/// replaced by a symlink after the resolution.
fn open_by_components(folder: &Path, path: &str, flags: OFlags) -> io::Result<OwnedFd> {
    let top = fs::canonicalize(folder)?;
    let target = fs::canonicalize(top.join(path))?;
    let rest = target.strip_prefix(&top).map_err(|_| Refused::Leaves)?;
    let mut parts = rest.components().peekable();
    let mut at = rustix::fs::open(&top, TYPE_ONLY | OFlags::DIRECTORY, Mode::empty())?;
    if parts.peek().is_none() {
        return Ok(rustix::fs::openat(&at, ".", flags, Mode::empty())?);
    }
    while let Some(part) = parts.next() {
        let Component::Normal(name) = part else { return Err(Refused::Leaves.into()) };
        let is_last = parts.peek().is_none();
        let flags = if is_last { flags } else { TYPE_ONLY | OFlags::DIRECTORY };
        at = rustix::fs::openat(&at, name, flags | OFlags::NOFOLLOW, Mode::empty())?;
    }
    Ok(at)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;
    use std::os::unix::{fs::symlink, net::UnixListener};

    fn refused<T: std::fmt::Debug>(result: io::Result<T>) -> String {
        result.unwrap_err().to_string()
    }

    #[test]
    fn only_regular_files_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::write(at("file"), "text").unwrap();
        symlink("file", at("link")).unwrap();
        assert_eq!(read_file(&at("link"), 4).unwrap(), b"text");
        let mode = Mode::from_raw_mode(0o600);
        rustix::fs::mkfifoat(rustix::fs::CWD, at("fifo"), mode).unwrap();
        let _socket = UnixListener::bind(at("socket")).unwrap();
        let kinds = [
            (at("fifo"), "it is a FIFO, not a regular file"),
            (at("socket"), "it is a socket, not a regular file"),
            (at("."), "it is a directory, not a regular file"),
            ("/dev/zero".into(), "it is a character device, not a regular file"),
        ];
        for (path, why) in kinds {
            assert_eq!(refused(read_file(&path, 4)), why);
        }
        assert_eq!(read_file(&at("none"), 4).unwrap_err().kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn only_a_mark_at_the_start_is_dropped() {
        for (content, expected) in
            [("\u{feff}a\u{feff}", "a\u{feff}"), ("\u{feff}", ""), ("a", "a")]
        {
            assert_eq!(without_byte_order_mark(content.into()), expected.as_bytes());
        }
        assert_eq!(without_byte_order_mark(vec![0xef, 0xbb]), [0xef, 0xbb]);
    }

    #[test]
    fn the_limit_holds_for_files_and_pipes() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        File::create(&path).unwrap().set_len(1 << 40).unwrap();
        let why = "it is larger than 1 MiB, the limit for such a file";
        assert_eq!(refused(read_file(&path, 1 << 20)), why);
        let (reader, mut writer) = io::pipe().unwrap();
        let name = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&reader));
        let writes = std::thread::spawn(move || io::Write::write_all(&mut writer, &[b'x'; 100]));
        assert_eq!(read_file(Path::new(&name), 100).unwrap().len(), 100);
        writes.join().unwrap().unwrap();
        assert_eq!(bytes(&b"12345"[..], 5).unwrap(), b"12345");
        assert!(bytes(&b"123456"[..], 5).is_err());
    }

    /// `below` and `open_by_components` open symlinks that stay in `top`, and refuse all others.
    #[test]
    fn no_symlink_leaves_the_folder() {
        let folder = tempfile::tempdir().unwrap();
        let top = folder.path().join("top");
        fs::create_dir_all(top.join("a/b")).unwrap();
        fs::write(folder.path().join("outside"), "secret").unwrap();
        fs::write(top.join("a/file"), "text").unwrap();
        symlink("../file", top.join("a/b/inside")).unwrap();
        symlink("a", top.join("folder")).unwrap();
        symlink("../outside", top.join("relative")).unwrap();
        symlink(folder.path().join("outside"), top.join("absolute")).unwrap();
        symlink("/proc/self/root/etc", top.join("magic")).unwrap();
        for open in [below, open_by_components] {
            for name in ["a/file", "a/b/inside", "folder/file", "."] {
                assert!(open(&top, name, TYPE_ONLY).is_ok(), "{name}");
            }
            for name in ["relative", "absolute", "magic/passwd", "a/../../outside"] {
                assert!(leaves(&open(&top, name, TYPE_ONLY).unwrap_err()), "{name}");
            }
            let none = open(&top, "a/none", TYPE_ONLY).unwrap_err();
            assert_eq!(none.kind(), io::ErrorKind::NotFound);
        }
        assert!(is_below(&top, "/a/file") && !is_below(&top, "/a/none"));
        let mut names = names_below(&top, "/folder").unwrap();
        names.sort();
        assert_eq!(names, ["b", "file"]);
    }
}
