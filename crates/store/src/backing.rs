//! The file or block device that holds the pages of a store, and the checks that decide whether a
//! path can be used as a store.

use super::{
    BLOCK, StoreRefused,
    descriptor::{self, protected_file},
    file_extents::merge_extents,
    file_lock::lock,
    release::Releaser,
};
use rustix::{
    fs::{AtFlags, FallocateFlags, FileType, StatxFlags, fallocate, ftruncate, statvfs, statx},
    io::Errno,
};
use std::{
    fs::{self, File, OpenOptions},
    io,
    os::{
        fd::AsRawFd,
        unix::fs::{FileExt, OpenOptionsExt},
    },
    path::{Path, PathBuf},
    sync::Arc,
};

/// The mark that a store writes at the start of its block device. All content behind the mark is
/// disposable, so a later store may use a device that begins with the mark.
const MARK: &[u8] = b"interleaf: pages of a program\n";

/// Offset of the pages on a device, bytes. [`MARK`] is in front of the pages. An offset of 1 MiB
/// aligns the pages to the internal blocks of a drive.
const DEVICE_OFFSET: u64 = 1 << 20;

/// Number of bytes that are read at the start and at the end of a device, in order to detect
/// content other than a store. The labels of partitions, RAID, LVM and all common file systems lie
/// in the first or last 128 KiB.
const PROBED_BYTES: usize = 128 << 10;

/// Length of a sparse store file, bytes: the maximum capacity of one file of a store.
const FILE_BYTES: u64 = 8 << 40;

/// A file or device that holds pages.
#[derive(Debug)]
pub(super) struct BackingFile {
    /// The path as the user named it, for messages; `in memory` for a file in memory.
    pub(super) name: Arc<str>,
    pub(super) path: PathBuf,
    pub(super) file: File,
    /// Offset of the first page in the file or device, bytes.
    pub(super) base: u64,
    /// Capacity for pages, without the part before `base`, bytes.
    pub(super) bytes: u64,
    pub(super) kind: BackingKind,
    /// True if another process frees the blocks of the file: a releaser process that has a
    /// descriptor of the file, or a forked child.
    is_handed_over: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BackingKind {
    /// An unnamed file in a folder.
    File,
    Device,
    Memory,
}

impl BackingFile {
    /// Makes an unnamed file in `path` if `path` is a folder, or opens `path` if it is a block
    /// device. Without `force`, the device must be empty or begin with [`MARK`]. Nothing is written
    /// to the device.
    pub(super) fn open(path: &Path, force: bool) -> Result<Self, StoreRefused> {
        let name = path.display().to_string();
        let refuse =
            |why: String, hint: &str| StoreRefused { store: name.clone(), why, hint: hint.into() };
        let found = fs::metadata(path).map_err(|why| {
            let hint = "name a folder on a fast drive that exists, or a block device";
            refuse(why.to_string(), hint)
        })?;
        match FileType::from_raw_mode(std::os::unix::fs::MetadataExt::mode(&found)) {
            FileType::Directory => Self::file(path, &refuse),
            FileType::BlockDevice => Self::device(path, force, &refuse),
            _ => Err(refuse(
                "is neither a folder nor a block device".into(),
                "name the folder that it is in: a file of its own is made there, without a name",
            )),
        }
    }

    fn file(
        path: &Path,
        refuse: &dyn Fn(String, &str) -> StoreRefused,
    ) -> Result<Self, StoreRefused> {
        let file = unnamed(path).map(protected_file);
        let file = file.map_err(|why| match Errno::from_io_error(&why) {
            Some(Errno::INVAL) => refuse(
                "its file system has no direct transfers (O_DIRECT): pages would be kept in \
                 memory twice"
                    .into(),
                "name a folder on ext4, XFS, Btrfs or F2FS",
            ),
            Some(Errno::ACCESS | Errno::PERM | Errno::ROFS) => refuse(
                format!("no file can be made there: {why}"),
                "name a folder that you may write to",
            ),
            _ => refuse(format!("no file can be made there: {why}"), "name another folder"),
        })?;
        if let Some(align) = alignment(&file).filter(|align| *align > BLOCK) {
            let why =
                format!("transfers have to be multiples of {align} bytes, pages have {BLOCK}");
            return Err(refuse(why, "name a folder on another drive"));
        }
        let bytes = lengthen(&file).map_err(|why| {
            refuse(format!("its file cannot be long: {why}"), "see ulimit -f, and free space there")
        })?;
        lock(&file, false).map_err(|why| {
            refuse(format!("its file cannot be locked: {why}"), "name another folder")
        })?;
        let (name, path) = (path.display().to_string().into(), path.into());
        Ok(Self {
            name,
            path,
            file,
            base: 0,
            bytes,
            kind: BackingKind::File,
            is_handed_over: false,
        })
    }

    fn device(
        path: &Path,
        force: bool,
        refuse: &dyn Fn(String, &str) -> StoreRefused,
    ) -> Result<Self, StoreRefused> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).custom_flags(libc::O_DIRECT | libc::O_EXCL);
        let file = options.open(path).map(protected_file);
        let file = file.map_err(|why| match Errno::from_io_error(&why) {
            Some(Errno::BUSY) => refuse(
                "the device is mounted, or in use otherwise".into(),
                "lsblk says by what; it is never taken from who uses it",
            ),
            _ => refuse(
                format!("the device cannot be opened: {why}"),
                "the user needs the right to read and write it, or name a folder",
            ),
        })?;
        let fault =
            |why: io::Error| refuse(why.to_string(), "the device cannot be read and written");
        let bytes = rustix::fs::seek(&file, rustix::fs::SeekFrom::End(0))
            .map_err(|why| fault(why.into()))?;
        if bytes < 2 * DEVICE_OFFSET {
            return Err(refuse(format!("the device has {bytes} bytes"), "name a larger one"));
        }
        let mut first = Aligned([0; PROBED_BYTES]);
        let mut last = Aligned([0; PROBED_BYTES]);
        file.read_exact_at(&mut first.0, 0).map_err(fault)?;
        file.read_exact_at(&mut last.0, bytes - PROBED_BYTES as u64).map_err(fault)?;
        let is_ours = first.0.starts_with(MARK);
        let is_empty = first.0.iter().chain(&last.0).all(|byte| *byte == 0);
        if !(is_ours || is_empty || force) {
            return Err(refuse(
                "the device is not empty: it may hold a file system, or parts of one".into(),
                "blkid and wipefs say what it holds; all of it would be lost",
            ));
        }
        let (name, path) = (path.display().to_string().into(), path.into());
        let bytes = (bytes - DEVICE_OFFSET) / BLOCK * BLOCK;
        Ok(Self {
            name,
            path,
            file,
            base: DEVICE_OFFSET,
            bytes,
            kind: BackingKind::Device,
            is_handed_over: false,
        })
    }

    /// Writes [`MARK`] to the start of a device, and zeros behind it: [`PROBED_BYTES`] in total. A
    /// file system on the device is lost. Does nothing for a file.
    pub(super) fn mark(&self) -> Result<(), StoreRefused> {
        if self.kind != BackingKind::Device {
            return Ok(());
        }
        let mut first = Aligned([0; PROBED_BYTES]);
        first.0[..MARK.len()].copy_from_slice(MARK);
        self.file.write_all_at(&first.0, 0).map_err(|why| StoreRefused {
            store: self.name.to_string(),
            why: why.to_string(),
            hint: "the device cannot be written".into(),
        })
    }

    /// Makes a file in memory (`memfd_create(2)`).
    pub(super) fn memory() -> io::Result<Self> {
        let pages = rustix::fs::memfd_create("pages", rustix::fs::MemfdFlags::CLOEXEC)?;
        let file = File::from(descriptor::protected(pages));
        ftruncate(&file, FILE_BYTES)?;
        lock(&file, false)?;
        let name = "in memory".into();
        let (path, kind) = (PathBuf::new(), BackingKind::Memory);
        Ok(Self { name, path, file, base: 0, bytes: FILE_BYTES, kind, is_handed_over: false })
    }

    /// Makes another file of the same kind, for pages of a forked child: an unnamed file in the
    /// same folder, or a file in memory. A device is refused, because it has room for one store
    /// only.
    pub(super) fn open_another(&self) -> Result<Self, StoreRefused> {
        let no = |why: String| StoreRefused {
            store: self.name.to_string(),
            why,
            hint: "name a folder as the store: a device has no second place for a child".into(),
        };
        match self.kind {
            BackingKind::File => Self::open(&self.path, false),
            BackingKind::Memory => Self::memory().map_err(|why| no(why.to_string())),
            BackingKind::Device => Err(no("a device is for one process".into())),
        }
    }

    /// Opens the same file once more, for a forked child. The new open file description has a lock
    /// of its own, so the file stays in use until both descriptions are closed.
    pub(super) fn reopen(&self) -> Result<Self, StoreRefused> {
        let fault = |why: io::Error| StoreRefused {
            store: self.name.to_string(),
            why: format!("its file cannot be shared with a child: {why}"),
            hint: "a file without a name is opened again by /proc: see that it is mounted".into(),
        };
        let mut options = OpenOptions::new();
        options.read(true).write(true);
        if self.kind != BackingKind::Memory {
            options.custom_flags(libc::O_DIRECT);
        }
        let path = format!("/proc/self/fd/{}", self.file.as_raw_fd());
        let file = options.open(path).map(protected_file).map_err(fault)?;
        lock(&file, false).map_err(fault)?;
        Ok(Self { file, name: Arc::clone(&self.name), path: self.path.clone(), ..*self })
    }

    /// True if no other open file description of the file, such as that of a forked child, holds a
    /// lock on it.
    pub(super) fn is_alone(&self) -> bool {
        let is_alone = lock(&self.file, true).is_ok();
        is_alone && lock(&self.file, false).is_ok()
    }

    /// Allocates space of an unnamed file in advance. The file then has few extents, and writes to
    /// the allocated space run in parallel, while file systems serialize writes that allocate. Does
    /// nothing for a device or a file in memory.
    pub(super) fn allocate(&self, offset: u64, bytes: u64) -> io::Result<()> {
        if self.kind != BackingKind::File {
            return Ok(());
        }
        Ok(fallocate(&self.file, FallocateFlags::KEEP_SIZE, offset, bytes)?)
    }

    /// Passes a descriptor of the file to a releaser process. The releaser frees the blocks of the
    /// file once no pager has the file open.
    pub(super) fn hand_over(&mut self, releaser: &Releaser) {
        if self.kind == BackingKind::File {
            self.is_handed_over |= releaser.hand_over(&self.file).is_ok();
        }
    }

    /// Leaves the file to a forked child that has inherited its descriptor: this process no longer
    /// frees the blocks of the file.
    pub(super) fn leave(&mut self) {
        self.is_handed_over = true;
    }

    /// Returns the space of a byte range to the file system. The content of the range is lost. Does
    /// nothing on a device.
    pub(super) fn free(&self, offset: u64, bytes: u64) {
        if self.kind == BackingKind::File {
            merge_extents(&self.file, offset..offset + bytes);
        }
        if self.kind != BackingKind::Device {
            let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
            // The call fails on a file system that does not support holes. The space then stays
            // allocated until the file is closed.
            let _ = fallocate(&self.file, flags, offset, bytes);
        }
    }
}

impl Drop for BackingFile {
    fn drop(&mut self) {
        // If no other process has the file open, the close of the file after this drop frees its
        // blocks. Merge the file's extents first, so that the blocks are freed quickly.
        if self.kind == BackingKind::File && !self.is_handed_over && self.is_alone() {
            merge_extents(&self.file, 0..self.bytes);
        }
    }
}

/// The number of bytes that a store at `path` can use. For a folder, this is the free space of its
/// file system. For a device, it is the size of the device minus `DEVICE_OFFSET`.
///
/// # Errors
/// When the path does not exist, or cannot be opened.
pub fn free(path: &Path) -> io::Result<u64> {
    if path.is_dir() {
        let found = statvfs(path)?;
        return Ok(found.f_bavail * found.f_frsize);
    }
    let file = File::open(path)?;
    let end = rustix::fs::seek(&file, rustix::fs::SeekFrom::End(0))?;
    Ok(end.saturating_sub(DEVICE_OFFSET))
}

/// Memory that is aligned for direct transfers (`O_DIRECT`).
#[repr(align(4096))]
struct Aligned([u8; PROBED_BYTES]);

/// Makes a file without a name in a folder, readable and writable for its owner only. The kernel
/// removes the file when its last descriptor is closed.
fn unnamed(folder: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).mode(0o600);
    let file = options.clone().custom_flags(libc::O_TMPFILE | libc::O_DIRECT).open(folder);
    match file.as_ref().map_err(Errno::from_io_error) {
        // The file system does not support `O_TMPFILE`: create a named file, and remove its name.
        Err(Some(Errno::OPNOTSUPP | Errno::ISDIR)) => {
            let path = folder.join(format!(".interleaf-{}", std::process::id()));
            let file = options.create_new(true).custom_flags(libc::O_DIRECT).open(&path)?;
            fs::remove_file(path)?;
            Ok(file)
        }
        _ => file,
    }
}

/// The alignment that direct transfers (`O_DIRECT`) need, bytes; `None` if the kernel does not
/// report it.
fn alignment(file: &File) -> Option<u64> {
    let found = statx(file, c"", AtFlags::EMPTY_PATH, StatxFlags::DIOALIGN).ok()?;
    let is_said = found.stx_mask & StatxFlags::DIOALIGN.bits() != 0;
    is_said.then(|| u64::from(found.stx_dio_offset_align.max(found.stx_dio_mem_align)))
}

/// Extends an empty file to the greatest possible length, at most `FILE_BYTES`, without allocating
/// space. Returns the length.
fn lengthen(file: &File) -> io::Result<u64> {
    // Keep the length within the user's limit of the size of files (`RLIMIT_FSIZE`): `ftruncate(2)`
    // to a longer length would raise SIGXFSZ.
    let limit = rustix::process::getrlimit(rustix::process::Resource::Fsize).current;
    let mut bytes = FILE_BYTES.min(limit.unwrap_or(FILE_BYTES)) / BLOCK * BLOCK;
    loop {
        match ftruncate(file, bytes) {
            Ok(()) => return Ok(bytes),
            Err(Errno::FBIG | Errno::INVAL) if bytes > DEVICE_OFFSET => {
                bytes = bytes / 2 / BLOCK * BLOCK
            }
            Err(why) => return Err(why.into()),
        }
    }
}
