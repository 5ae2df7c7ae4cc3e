//! Unix sockets with a path: one program listens at the path, and others connect to it.

use crate::{
    replace::{self, FileId, Folder},
    root::Root,
};
use rustix::{
    fs::{
        AtFlags, CWD, FileType, Gid, Mode, OFlags, chmodat, chownat, fstat, linkat, openat, statat,
    },
    io::Errno,
    process::geteuid,
};
use std::{
    ffi::OsStr,
    io,
    os::{
        fd::AsRawFd as _,
        unix::net::{UnixListener, UnixStream},
    },
    path::{Path, PathBuf},
};

/// The reason why this process cannot listen at a path.
#[derive(Debug, thiserror::Error)]
pub enum SocketError {
    #[error("{}: another program listens there", .0.display())]
    InUse(PathBuf),
    #[error("{}: is there and is not a socket", .0.display())]
    NoSocket(PathBuf),
    #[error("{}: {why}", path.display())]
    Refused { path: PathBuf, why: io::Error },
}

/// A listening socket. Dropping this value removes the socket's path.
#[derive(Debug)]
pub struct Socket {
    listener: UnixListener,
    path: PathBuf,
    id: FileId,
}

/// The users that may connect to a socket besides this user and root.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Access {
    /// The ID of the group of users whose members may connect; `None` for no group.
    pub group: Option<u32>,
}

impl Socket {
    /// Creates a listening socket. The socket appears at `path` only when it accepts connections.
    /// An old socket at `path` is replaced if no process listens at it any more.
    ///
    /// # Errors
    /// When another process listens at `path`, `path` is not a socket, or the system refuses.
    pub fn listen(path: &Path, access: Access) -> Result<Self, SocketError> {
        let failed = |why| SocketError::Refused { path: path.into(), why };
        let (folder, name) = Folder::of_file(path).map_err(failed)?;
        remove_stale(&folder, &name, path)?;
        // Bind to a random name, by a path through the folder's descriptor. The folder may belong
        // to another user, who can neither guess the name nor redirect such a path. Such a path is
        // also short enough for the kernel, which accepts at most 108 bytes.
        let making = Folder::random_name(OsStr::new("")).map_err(failed)?;
        let listener = UnixListener::bind(folder.path().join(&making)).map_err(failed)?;
        let placed = place_at(&folder, &making, &name, access);
        let removed = folder.unlink(&making);
        match placed.and_then(|id| removed.map(|()| id)) {
            Ok(id) => Ok(Self { listener, path: path.into(), id }),
            Err(why) if why.kind() == io::ErrorKind::AlreadyExists => {
                Err(SocketError::InUse(path.into()))
            }
            Err(why) => Err(failed(why)),
        }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns a second, non-blocking descriptor of the socket, for the thread that accepts.
    ///
    /// # Errors
    /// When this process has no file descriptor left.
    pub fn listener(&self) -> io::Result<UnixListener> {
        let listener = self.listener.try_clone()?;
        listener.set_nonblocking(true)?;
        Ok(listener)
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        // Remove the path only if it still names this socket: another program may have replaced it.
        let _ = replace::remove_kept(&self.path, self.id);
    }
}

/// Removes the socket `name` in `folder` if no process listens at it any more.
fn remove_stale(folder: &Folder, name: &OsStr, path: &Path) -> Result<(), SocketError> {
    let failed = |why| SocketError::Refused { path: path.into(), why };
    let found = match statat(folder, name, AtFlags::SYMLINK_NOFOLLOW) {
        Err(Errno::NOENT) => return Ok(()),
        found => found.map_err(|why| failed(why.into()))?,
    };
    if FileType::from_raw_mode(found.st_mode) != FileType::Socket {
        return Err(SocketError::NoSocket(path.into()));
    }
    match UnixStream::connect(folder.path().join(name)) {
        Err(why) if why.kind() == io::ErrorKind::ConnectionRefused => {
            folder.remove(name, FileId::from_stat(&found)).map_err(failed)
        }
        Err(why) if why.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(why) => Err(failed(why)),
        Ok(_) => Err(SocketError::InUse(path.into())),
    }
}

/// Sets the mode and group of the socket with the temporary name `making`, so that the users in
/// `access` can connect. Then links it to `name`, so a program that finds it can connect at once.
fn place_at(folder: &Folder, making: &OsStr, name: &OsStr, access: Access) -> io::Result<FileId> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let node = openat(folder, making, flags, Mode::empty())?;
    let found = fstat(&node)?;
    let is_ours = found.st_uid == geteuid().as_raw();
    if FileType::from_raw_mode(found.st_mode) != FileType::Socket || !is_ours {
        return Err(io::Error::other("another program has replaced it"));
    }
    let mode = match access.group {
        None => 0o600,
        Some(group) => {
            let group = Gid::from_raw(group);
            chownat(&node, "", None, Some(group), AtFlags::EMPTY_PATH)?;
            0o660
        }
    };
    let at = format!("/proc/self/fd/{}", node.as_raw_fd());
    chmodat(CWD, at, Mode::from_raw_mode(mode), AtFlags::empty())?;
    // Use link(2) and not rename(2): link(2) fails when another program has created `name` by now.
    linkat(folder, making, folder, name, AtFlags::empty())?;
    Ok(FileId::from_stat(&found))
}

/// Returns the numeric ID of the group of users `name`: a name in `/etc/group`, or the ID itself.
///
/// # Errors
/// A message when the group does not exist, or `/etc/group` cannot be read.
pub fn group(root: &Root, name: &str) -> Result<u32, String> {
    const GROUPS: &str = "/etc/group";
    if let Ok(number) = name.parse() {
        return Ok(number);
    }
    let text = root.peek(GROUPS).map_err(|why| why.to_string())?.unwrap_or_default();
    let number = text.lines().find_map(|line| {
        let mut fields = line.split(':');
        (fields.next() == Some(name)).then(|| fields.nth(1)?.parse().ok()).flatten()
    });
    number.ok_or_else(|| format!("{GROUPS} has no group \"{name}\""))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;
    use std::{
        fs,
        os::unix::fs::{MetadataExt as _, symlink},
    };

    #[test]
    fn a_socket_is_its_users_and_its_groups() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("sock");
        let mode = || fs::metadata(&path).unwrap().mode() & 0o7777;
        let group = fs::metadata(folder.path()).unwrap().gid();
        for (access, expected) in [(None, 0o600), (Some(group), 0o660)] {
            let socket = Socket::listen(&path, Access { group: access }).unwrap();
            assert_eq!(mode(), expected);
            assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "no rest is left");
            UnixStream::connect(&path).unwrap();
            assert_eq!(socket.path(), path);
            drop(socket);
            assert!(!path.exists());
        }
    }

    #[test]
    fn files_of_other_programs_stay() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("sock");
        let first = Socket::listen(&path, Access::default()).unwrap();
        let second = Socket::listen(&path, Access::default());
        assert!(matches!(second, Err(SocketError::InUse(_))));
        fs::remove_file(&path).unwrap();
        let second = Socket::listen(&path, Access::default()).unwrap();
        drop(first);
        assert!(path.exists(), "it is the second one's");
        drop(second);
        fs::write(&path, "text").unwrap();
        symlink("nowhere", folder.path().join("link")).unwrap();
        for name in ["sock", "link"] {
            let refused = Socket::listen(&folder.path().join(name), Access::default());
            assert!(matches!(refused, Err(SocketError::NoSocket(_))), "{name}");
        }
        assert_eq!(fs::read_to_string(&path).unwrap(), "text");
    }

    /// A socket whose path is longer than the 108 bytes that the kernel accepts works like any
    /// other: a second program cannot listen at the path.
    #[test]
    fn a_path_may_be_long() {
        let folder = tempfile::tempdir().unwrap();
        let deep = folder.path().join("x".repeat(200));
        fs::create_dir(&deep).unwrap();
        let socket = Socket::listen(&deep.join("sock"), Access::default()).unwrap();
        let second = Socket::listen(&deep.join("sock"), Access::default());
        assert!(matches!(second, Err(SocketError::InUse(_))));
        drop(socket);
    }

    #[test]
    fn groups_have_numbers() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("etc")).unwrap();
        let text = "root:x:0:\ninterleaf:x:987:alice\nbroken\n";
        fs::write(folder.path().join("etc/group"), text).unwrap();
        let root = Root::captured(folder.path());
        assert_eq!(group(&root, "interleaf"), Ok(987));
        assert_eq!(group(&root, "42"), Ok(42));
        for name in ["alice", "broken", ""] {
            assert!(group(&root, name).unwrap_err().contains("has no group"), "{name}");
        }
    }
}
