//! The storage behind a folder or block device to which memory pages are written: its file system,
//! and its kind (drive, memory or network).

use crate::root::{Root, RootError};
use rustix::fs::{major, minor, statfs};
use std::{
    ffi::OsStr,
    fs, io,
    os::unix::fs::{FileTypeExt, MetadataExt},
    path::{Path, PathBuf},
};

/// The known file systems: the magic number that statfs(2) returns (from `linux/magic.h`, or the
/// file system's own header), the name, and the kind of storage.
const FILE_SYSTEMS: [(u64, &str, StorageKind); 13] = [
    (0xef53, "ext4", StorageKind::Drive),
    (0x5846_5342, "xfs", StorageKind::Drive),
    (0x9123_683e, "btrfs", StorageKind::Drive),
    (0xf2f5_2010, "f2fs", StorageKind::Drive),
    (0x2fc1_2fc1, "zfs", StorageKind::Drive),
    (0xca45_1a4e, "bcachefs", StorageKind::Drive),
    (0x794c_7630, "overlay", StorageKind::Drive),
    (0x0102_1994, "tmpfs", StorageKind::Memory),
    (0x8584_58f6, "ramfs", StorageKind::Memory),
    (0x6969, "nfs", StorageKind::Network),
    (0xff53_4d42, "cifs", StorageKind::Network),
    (0xfe53_4d42, "smb2", StorageKind::Network),
    (0x6573_5546, "fuse", StorageKind::Network),
];

/// The kind of storage behind a file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StorageKind {
    /// The storage is a drive of this machine. Overlay and unknown file systems count as drives.
    Drive,
    /// The storage is DRAM, so it cannot extend DRAM.
    Memory,
    /// The storage is on another machine, or another program provides it (FUSE).
    Network,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Storage {
    /// The name of the folder's file system; `None` for a block device.
    pub file_system: Option<&'static str>,
    pub kind: StorageKind,
    /// True for a hard disk, false for a solid-state drive; `None` if the kernel does not know.
    pub is_rotational: Option<bool>,
}

#[derive(Debug, thiserror::Error)]
pub enum StorageError {
    #[error("{}: {why}", path.display())]
    System { path: PathBuf, why: io::Error },
    #[error(transparent)]
    Root(#[from] RootError),
}

impl Storage {
    /// Determines the storage behind `path`, a folder or a block device.
    ///
    /// # Errors
    /// When `path` does not exist or cannot be inspected.
    pub fn probe(root: &Root, path: &Path) -> Result<Self, StorageError> {
        let failed = |why| StorageError::System { path: path.into(), why };
        let found = fs::metadata(path).map_err(failed)?;
        if found.file_type().is_block_device() {
            let is_rotational = is_rotational(root, found.rdev())?;
            return Ok(Self { file_system: None, kind: StorageKind::Drive, is_rotational });
        }
        let system = statfs(path).map_err(|why| failed(why.into()))?;
        let number = u64::try_from(system.f_type).unwrap_or(0);
        let known = FILE_SYSTEMS.iter().find(|(known, ..)| *known == number);
        let (name, kind) =
            known.map_or(("unknown", StorageKind::Drive), |(_, name, kind)| (*name, *kind));
        let is_rotational = is_rotational(root, found.dev())?;
        Ok(Self { file_system: Some(name), kind, is_rotational })
    }
}

/// True when the block device `device` is on a hard disk; `None` if the kernel does not know.
fn is_rotational(root: &Root, device: u64) -> Result<Option<bool>, RootError> {
    let folder = format!("/sys/dev/block/{}:{}", major(device), minor(device));
    // Return `None` for a virtio drive: its file `rotational` has a default of the driver, which
    // says nothing about the host's drive.
    let is_virtual = |part: &OsStr| part.to_string_lossy().starts_with("virtio");
    let path = fs::canonicalize(root.at(&folder)).unwrap_or_default();
    if path.iter().any(is_virtual) {
        return Ok(None);
    }
    for queue in ["queue", "../queue"] {
        if let Some(found) = root.number(&format!("{folder}/{queue}/rotational"))? {
            return Ok(Some(found != 0));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;

    #[test]
    fn a_folder_has_a_file_system() {
        let storage = Storage::probe(&Root::live(), Path::new(".")).unwrap();
        assert!(storage.file_system.is_some());
        let why = Storage::probe(&Root::live(), Path::new("/nowhere/x")).unwrap_err().to_string();
        assert_eq!(why, "/nowhere/x: No such file or directory (os error 2)");
    }

    #[test]
    fn memory_is_no_drive() {
        // A machine without /dev/shm has nothing to check.
        if let Ok(storage) = Storage::probe(&Root::live(), Path::new("/dev/shm")) {
            assert_eq!(storage.kind, StorageKind::Memory);
        }
    }

    #[test]
    fn a_drive_says_whether_it_turns() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::captured(folder.path());
        for (minor, text) in [(1, "0\n"), (2, "1\n")] {
            let queue = folder.path().join(format!("sys/dev/block/8:{minor}/queue"));
            fs::create_dir_all(&queue).unwrap();
            fs::write(queue.join("rotational"), text).unwrap();
        }
        let of = |minor| is_rotational(&root, rustix::fs::makedev(8, minor)).unwrap();
        assert_eq!((of(1), of(2), of(3)), (Some(false), Some(true), None));
    }
}
