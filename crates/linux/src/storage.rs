//! What a place on a drive is, and whether pages can be kept there.

use crate::root::{Root, RootError};
use rustix::fs::{OFlags, major, minor};
use std::{
    fs::{self, File, Metadata, OpenOptions},
    io::{self, Seek, SeekFrom},
    os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
};

/// File systems by the number that statfs(2) gives (`linux/magic.h` and their own headers).
const FILE_SYSTEMS: [(u64, &str, Nature); 13] = [
    (0xef53, "ext4", Nature::Drive),
    (0x5846_5342, "xfs", Nature::Drive),
    (0x9123_683e, "btrfs", Nature::Drive),
    (0xf2f5_2010, "f2fs", Nature::Drive),
    (0x2fc1_2fc1, "zfs", Nature::Drive),
    (0xca45_1a4e, "bcachefs", Nature::Drive),
    (0x794c_7630, "overlay", Nature::Drive),
    (0x0102_1994, "tmpfs", Nature::Memory),
    (0x8584_58f6, "ramfs", Nature::Memory),
    (0x6969, "nfs", Nature::Network),
    (0xff53_4d42, "cifs", Nature::Network),
    (0xfe53_4d42, "smb2", Nature::Network),
    (0x6573_5546, "fuse", Nature::Network),
];

/// Where what is stored really is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Nature {
    /// On a drive.
    Drive,
    /// In the memory that is to be extended.
    Memory,
    /// On another machine, or in another program.
    Network,
}

/// What the path is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A folder: files without a name are made in it.
    Folder,
    /// A file, which holds so many bytes.
    File(u64),
    /// A block device.
    Device,
}

/// A place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Storage {
    /// Where.
    pub path: PathBuf,
    /// What.
    pub kind: Kind,
    /// The name of the file system; nothing of a device.
    pub file_system: Option<&'static str>,
    /// Where it really is.
    pub nature: Nature,
    /// How much may be written there.
    pub free_bytes: u64,
    /// Whether the drive turns; `None` where nobody says.
    pub is_rotational: Option<bool>,
    /// What seems to be on a device, or why that is not known.
    pub content: Option<String>,
}

/// Why pages cannot be kept somewhere.
#[derive(Debug, thiserror::Error)]
pub enum StorageError {
    /// The system refuses.
    #[error("{}: {why}", path.display())]
    System {
        /// The place.
        path: PathBuf,
        /// Why.
        why: io::Error,
    },
    /// It is no place.
    #[error("{}: it is neither a folder nor a file nor a block device", .0.display())]
    NoPlace(PathBuf),
    /// The file system has no files without a name.
    #[error("{}: the file system ({file_system}) has no files without a name (O_TMPFILE)",
        path.display())]
    NoUnnamed {
        /// The place.
        path: PathBuf,
        /// Its file system.
        file_system: String,
    },
    /// What is written goes through the memory that is to be extended.
    #[error("{}: it cannot be written past the page cache (O_DIRECT)", .0.display())]
    NoDirect(PathBuf),
    /// Somebody uses the device.
    #[error("{}: the device is in use, by a file system or by another program", .0.display())]
    InUse(PathBuf),
    /// What the kernel says of the drive cannot be read.
    #[error(transparent)]
    Root(#[from] RootError),
}

impl Storage {
    /// Looks at a place, and tries it without leaving anything there.
    ///
    /// # Errors
    /// When pages cannot be kept there.
    pub fn look(root: &Root, path: &Path) -> Result<Self, StorageError> {
        let failed = |why| StorageError::System { path: path.into(), why };
        let found = fs::metadata(path).map_err(failed)?;
        let kind = match found.file_type() {
            it if it.is_dir() => Kind::Folder,
            it if it.is_file() => Kind::File(found.len()),
            it if it.is_block_device() => Kind::Device,
            _ => return Err(StorageError::NoPlace(path.into())),
        };
        let system = rustix::fs::statfs(path).map_err(|why| failed(why.into()))?;
        let number = u64::try_from(system.f_type).unwrap_or(0);
        let known = FILE_SYSTEMS.iter().find(|(known, ..)| *known == number);
        let (name, nature) =
            known.map_or(("unknown", Nature::Drive), |(_, name, nature)| (*name, *nature));
        let mut file = open(path, kind, name)?;
        let device = if kind == Kind::Device { found.rdev() } else { found.dev() };
        let is_device = kind == Kind::Device;
        let free_bytes = match is_device {
            true => file.seek(SeekFrom::End(0)).map_err(failed)?,
            false => system.f_bavail.saturating_mul(system.f_bsize.unsigned_abs()),
        };
        Ok(Self {
            path: path.into(),
            kind,
            file_system: (!is_device).then_some(name),
            nature: if is_device { Nature::Drive } else { nature },
            free_bytes,
            is_rotational: is_rotational(root, device)?,
            content: if is_device { content(root, &found)? } else { None },
        })
    }
}

/// Opens a place as a store does.
fn open(path: &Path, kind: Kind, file_system: &str) -> Result<File, StorageError> {
    let flags = match kind {
        Kind::Folder => OFlags::TMPFILE,
        Kind::File(_) => OFlags::empty(),
        // Of a device it means: only if nobody else has it, no file system either.
        Kind::Device => OFlags::EXCL,
    };
    let open = |flags: OFlags| {
        let flags = flags.bits() as i32;
        OpenOptions::new().read(true).write(true).mode(0o600).custom_flags(flags).open(path)
    };
    let refused = |why: io::Error| match (why.raw_os_error(), kind) {
        (Some(libc::EBUSY), Kind::Device) => StorageError::InUse(path.into()),
        (Some(libc::EOPNOTSUPP | libc::EISDIR), Kind::Folder) => {
            StorageError::NoUnnamed { path: path.into(), file_system: file_system.into() }
        }
        _ => StorageError::System { path: path.into(), why },
    };
    open(flags | OFlags::DIRECT).or_else(|why| match why.raw_os_error() {
        Some(libc::EINVAL) if open(flags).is_ok() => Err(StorageError::NoDirect(path.into())),
        _ => Err(refused(why)),
    })
}

/// Whether the drive of a file system or a partition turns.
fn is_rotational(root: &Root, device: u64) -> Result<Option<bool>, RootError> {
    let folder = format!("/sys/dev/block/{}:{}", major(device), minor(device));
    // What a virtual machine says of it is what nobody has told it.
    let is_virtual = fs::canonicalize(root.at(&folder))
        .is_ok_and(|path| path.components().any(|part| is_virtio(part.as_os_str())));
    if is_virtual {
        return Ok(None);
    }
    for queue in ["queue", "../queue"] {
        if let Some(found) = root.number(&format!("{folder}/{queue}/rotational"))? {
            return Ok(Some(found != 0));
        }
    }
    Ok(None)
}

fn is_virtio(part: &std::ffi::OsStr) -> bool {
    part.to_string_lossy().starts_with("virtio")
}

/// What udev has found on a device.
fn content(root: &Root, device: &Metadata) -> Result<Option<String>, RootError> {
    let number = format!("{}:{}", major(device.rdev()), minor(device.rdev()));
    let Some(text) = root.text_if_allowed(&format!("/run/udev/data/b{number}"))? else {
        return Ok(Some("nobody knows what (udev does not run)".into()));
    };
    let value = |name: &str| {
        text.lines().find_map(|line| line.strip_prefix(&format!("E:{name}="))).map(String::from)
    };
    let table = value("ID_PART_TABLE_TYPE").map(|kind| format!("partitions ({kind})"));
    Ok(value("ID_FS_TYPE").or(table))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;

    #[test]
    fn a_folder_is_tried_and_left_as_it_was() {
        let folder = tempfile::tempdir_in(".").unwrap();
        let storage = Storage::look(&Root::live(), folder.path()).unwrap();
        assert_eq!((storage.kind, storage.content), (Kind::Folder, None));
        assert!(storage.free_bytes > 0 && storage.file_system.is_some());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
        let file = folder.path().join("file");
        fs::write(&file, "12345").unwrap();
        assert_eq!(Storage::look(&Root::live(), &file).unwrap().kind, Kind::File(5));
        assert_eq!(fs::read(&file).unwrap(), b"12345");
    }

    #[test]
    fn what_is_no_place_is_refused() {
        let refused = |path: &str| Storage::look(&Root::live(), Path::new(path)).unwrap_err();
        let why = refused("/nowhere/x").to_string();
        assert_eq!(why, "/nowhere/x: No such file or directory (os error 2)");
        assert!(matches!(refused("/dev/null"), StorageError::NoPlace(_)));
    }

    #[test]
    fn memory_is_no_drive() {
        // A machine without it has nothing to show here.
        if let Ok(storage) = Storage::look(&Root::live(), Path::new("/dev/shm")) {
            assert_eq!(storage.nature, Nature::Memory);
        }
    }
}
