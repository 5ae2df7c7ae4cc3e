//! Unix sockets at a path, where one program listens and others find it.

use std::{
    fs, io,
    os::unix::{
        fs::{FileTypeExt, PermissionsExt},
        net::{UnixListener, UnixStream},
    },
    path::{Path, PathBuf},
};

/// Why nobody can listen at a path.
#[derive(Debug, thiserror::Error)]
pub enum SocketError {
    /// Somebody listens there already.
    #[error("{}: somebody else listens there", .0.display())]
    InUse(PathBuf),
    /// Something else than a socket is there.
    #[error("{}: is there and is no socket", .0.display())]
    NoSocket(PathBuf),
    /// The system refuses.
    #[error("{}: {why}", path.display())]
    Refused {
        /// The socket.
        path: PathBuf,
        /// The system's reason.
        why: io::Error,
    },
}

/// Binds a socket, mode 0600, which is at `path` only once it is ready. One that nobody listens at
/// any more is replaced.
///
/// # Errors
/// When somebody listens there, something else is there, or the system refuses.
pub fn listen(path: &Path) -> Result<UnixListener, SocketError> {
    let failed = |why| SocketError::Refused { path: path.into(), why };
    match fs::symlink_metadata(path) {
        Ok(there) if !there.file_type().is_socket() => {
            return Err(SocketError::NoSocket(path.into()));
        }
        Ok(_) => match UnixStream::connect(path) {
            Err(why) if why.kind() == io::ErrorKind::ConnectionRefused => {
                fs::remove_file(path).map_err(failed)?;
            }
            Err(why) if why.kind() == io::ErrorKind::NotFound => {}
            Err(why) => return Err(failed(why)),
            Ok(_) => return Err(SocketError::InUse(path.into())),
        },
        Err(_) => {}
    }
    let mut making = path.as_os_str().to_owned();
    making.push(format!(".{}", std::process::id()));
    let making = PathBuf::from(making);
    let listener = UnixListener::bind(&making).map_err(failed)?;
    let placed = fs::set_permissions(&making, fs::Permissions::from_mode(0o600))
        // Unlike a renaming, a link does not take the place of what another has put there since.
        .and_then(|()| fs::hard_link(&making, path));
    drop(fs::remove_file(&making));
    match placed {
        Ok(()) => Ok(listener),
        Err(why) if why.kind() == io::ErrorKind::AlreadyExists => {
            Err(SocketError::InUse(path.into()))
        }
        Err(why) => Err(failed(why)),
    }
}
