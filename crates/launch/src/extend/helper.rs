//! Processes that `interleaf extend` starts for a session, and that may outlive it. Each is
//! connected with the process that started it by a socket, which is its standard input.

use std::{
    env,
    io::{self, Read},
    os::{
        fd::{AsFd, OwnedFd},
        unix::{net::UnixStream, process::CommandExt},
    },
    path::{self, Path},
    process::{Child, Command, Stdio},
};

/// Starts `interleaf extend OPTION FOLDER`, and waits until it says that it is ready, or ends.
pub(super) fn start(option: &str, folder: &Path, errors: Stdio) -> io::Result<(Child, UnixStream)> {
    let (mut connection, other) = UnixStream::pair()?;
    let mut command = Command::new(env::current_exe()?);
    command.args(["extend", option]).arg(path::absolute(folder)?);
    // Signals of the terminal are the command's.
    command.process_group(0).current_dir("/").stdin(Stdio::from(OwnedFd::from(other)));
    let child = command.stdout(Stdio::null()).stderr(errors).spawn()?;
    // Its end is the only one once the command that was to start it has gone.
    drop(command);
    let _ = connection.read(&mut [0])?;
    Ok((child, connection))
}

/// In such a process, the connection with the one that started it.
pub(super) fn connection() -> io::Result<UnixStream> {
    Ok(UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?))
}
