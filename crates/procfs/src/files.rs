//! Reads and writes files of the kernel below a root folder.

use rustix::{
    fs::{Mode, OFlags, RawDir},
    io::Errno,
};
use std::{
    borrow::Cow,
    ffi::CStr,
    fs::{self, File},
    io,
    mem::MaybeUninit,
    os::fd::{AsFd, BorrowedFd},
    path::{Path, PathBuf},
};

/// The files of a machine: those of the running machine, below `/`, or those of a captured machine,
/// below a folder that has the same tree.
#[derive(Clone, Debug)]
pub struct Files {
    root: Cow<'static, Path>,
}

impl Files {
    /// The files of the running machine. Allocates nothing.
    pub fn live() -> Self {
        Self { root: Cow::Borrowed(Path::new("/")) }
    }

    /// The files below the folder `root`, such as a captured machine (a copy of a machine's files).
    pub fn below(root: impl Into<PathBuf>) -> Self {
        Self { root: Cow::Owned(root.into()) }
    }

    /// Returns the path of the machine's file `path`: it is below the root folder. Allocates.
    pub fn at(&self, path: &str) -> PathBuf {
        self.root.join(path.trim_start_matches('/'))
    }

    /// Reads the file `path`. Returns `None` if the file does not exist, or if the process, control
    /// group or device that it belongs to is gone. Allocates.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn read(&self, path: &str) -> io::Result<Option<Vec<u8>>> {
        match fs::read(self.at(path)) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(why) if is_absent(&why) => Ok(None),
            Err(why) => Err(why),
        }
    }

    /// Writes `text` to the kernel's file `path`. Allocates.
    ///
    /// # Errors
    /// If the kernel refuses the write.
    pub fn write(&self, path: &str, text: &str) -> io::Result<()> {
        fs::write(self.at(path), text)
    }

    /// Reads the file `name`, such as `stat`, `maps` or `cgroup`, of the process `pid`. Returns
    /// `None` if the process or the file does not exist. Allocates.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn of_process(&self, pid: u32, name: &str) -> io::Result<Option<Vec<u8>>> {
        self.read(&format!("proc/{pid}/{name}"))
    }

    /// Reads the file `name`, such as `stat`, of the thread `thread` of this process. Returns
    /// `None` if the thread or the file does not exist. Allocates.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn of_thread(&self, thread: u32, name: &str) -> io::Result<Option<Vec<u8>>> {
        self.read(&format!("proc/self/task/{thread}/{name}"))
    }
}

/// True if the error `why` means that a file does not exist, or that the thing to which an open
/// file belongs is gone: a process (`ESRCH`), a control group or a device (`ENODEV`).
pub fn is_absent(why: &io::Error) -> bool {
    matches!(why.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
        || why.raw_os_error().is_some_and(|number| [libc::ESRCH, libc::ENODEV].contains(&number))
}

/// Reads the file `path` into `buffer`, and returns the filled part. A file that is longer than the
/// buffer is cut. Allocates nothing.
///
/// # Errors
/// If the file cannot be opened or read.
pub fn read_into<'a>(path: &CStr, buffer: &'a mut [u8]) -> io::Result<&'a [u8]> {
    let file = rustix::fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
    let mut filled = 0;
    while filled < buffer.len() {
        match rustix::io::read(&file, &mut buffer[filled..]) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(Errno::INTR) => {}
            Err(why) => return Err(why.into()),
        }
    }
    Ok(&buffer[..filled])
}

/// Calls `line` with each line of `file`, without its newline, until `line` returns `false`. A line
/// that is longer than `buffer` is cut. Allocates nothing.
///
/// # Errors
/// If the file cannot be read.
pub fn each_line(
    file: BorrowedFd<'_>,
    buffer: &mut [u8],
    mut line: impl FnMut(&[u8]) -> bool,
) -> io::Result<()> {
    let (mut filled, mut is_cut) = (0, false);
    loop {
        let count = match rustix::io::read(file, &mut buffer[filled..]) {
            Ok(count) => count,
            Err(Errno::INTR) => continue,
            Err(why) => return Err(why.into()),
        };
        filled += count;
        let mut start = 0;
        while let Some(length) = buffer[start..filled].iter().position(|byte| *byte == b'\n') {
            let is_rest = std::mem::take(&mut is_cut);
            if !is_rest && !line(&buffer[start..start + length]) {
                return Ok(());
            }
            start += length + 1;
        }
        if count == 0 {
            if start < filled && !is_cut {
                line(&buffer[start..filled]);
            }
            return Ok(());
        }
        if start == 0 && filled == buffer.len() {
            if !is_cut && !line(buffer) {
                return Ok(());
            }
            (filled, is_cut) = (0, true);
        } else {
            buffer.copy_within(start..filled, 0);
            filled -= start;
        }
    }
}

/// Calls `name` with the name of each entry of `folder`, except `.` and `..`, until `name` returns
/// `false`. Uses getdents64(2) with `buffer`, because opendir(3) would allocate.
///
/// # Errors
/// If the folder cannot be read.
pub fn names(
    folder: impl AsFd,
    buffer: &mut [MaybeUninit<u8>],
    mut name: impl FnMut(&CStr) -> bool,
) -> io::Result<()> {
    let mut entries = RawDir::new(folder, buffer);
    while let Some(entry) = entries.next() {
        let entry = entry?;
        let found = entry.file_name();
        if found != c"." && found != c".." && !name(found) {
            break;
        }
    }
    Ok(())
}

/// Opens the kernel's file `path` for reading. Allocates nothing.
///
/// # Errors
/// If the file cannot be opened.
pub fn open(path: &CStr) -> io::Result<File> {
    Ok(rustix::fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{maps, stat::Stat};

    fn lines(text: &str, buffer: usize) -> Vec<String> {
        let (reader, mut writer) = io::pipe().expect("a pipe");
        io::Write::write_all(&mut writer, text.as_bytes()).expect("room in the pipe");
        drop(writer);
        let mut lines = vec![];
        each_line(reader.as_fd(), &mut vec![0; buffer], |line| {
            lines.push(String::from_utf8_lossy(line).into_owned());
            true
        })
        .expect("lines");
        lines
    }

    #[test]
    fn lines_are_complete_with_any_buffer_size() {
        for buffer in [4, 5, 7, 64] {
            assert_eq!(lines("abc\n\nde\nf", buffer), ["abc", "", "de", "f"], "{buffer}");
        }
        assert_eq!(lines("abcdefghij\nk\n", 4), ["abcd", "k"], "a long line is cut");
        assert_eq!(lines("", 4), Vec::<String>::new());
    }

    #[test]
    fn this_process_is_read_without_allocation() {
        let mut buffer = [0; 4096];
        let text = read_into(c"/proc/self/stat", &mut buffer).expect("a file");
        assert_eq!(Stat::parse(text).map(|stat| stat.pid), Some(std::process::id()));
        let here = &raw const buffer as u64;
        let (mut lines, mut is_found) = ([0; 512], false);
        let file = open(c"/proc/self/maps").expect("a file");
        each_line(file.as_fd(), &mut lines, |line| {
            let mapping = maps::Mapping::parse(line).expect("a mapping");
            is_found |= mapping.addresses.contains(&here) && mapping.is_private_anonymous();
            !is_found
        })
        .expect("lines");
        assert!(is_found);
    }

    #[test]
    fn threads_are_listed() {
        let folder = open(c"/proc/self/task").expect("a folder");
        let own = std::process::id().to_string();
        let (mut buffer, mut is_found) = ([MaybeUninit::uninit(); 1024], false);
        names(folder, &mut buffer, |name| {
            is_found |= name.to_bytes() == own.as_bytes();
            true
        })
        .expect("names");
        assert!(is_found);
    }

    #[test]
    fn a_removed_file_is_absent() {
        let files = Files::live();
        assert!(files.of_process(std::process::id(), "stat").expect("a file").is_some());
        assert!(files.of_process(u32::MAX, "stat").expect("no error").is_none());
        assert!(files.of_thread(u32::MAX, "stat").expect("no error").is_none());
        assert!(Files::below("/proc/self").read("maps").expect("a file").is_some());
    }
}
