//! Starts helper processes of a session, which may outlive `interleaf extend`. The standard input
//! of a helper is a socket to the process that started it.

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

/// Starts `interleaf extend OPTION FOLDER` with `errors` as its stderr. Waits until this helper
/// reports that it is ready, or ends.
pub(super) fn start(option: &str, folder: &Path, errors: Stdio) -> io::Result<(Child, UnixStream)> {
    let (mut connection, other) = UnixStream::pair()?;
    let mut command = Command::new(env::current_exe()?);
    command.args(["extend", option]).arg(path::absolute(folder)?);
    // Signals of the terminal go to the command, not to the helper.
    command.process_group(0).current_dir("/").stdin(Stdio::from(OwnedFd::from(other)));
    let child = command.stdout(Stdio::null()).stderr(errors).spawn()?;
    // `command` still has this process's copy of the helper's end of the socket pair. Close the
    // copy, so that the read below returns if the helper ends before it is ready.
    drop(command);
    let _ = connection.read(&mut [0])?;
    Ok((child, connection))
}

/// Returns the connection to the process that started this helper.
pub(super) fn connection() -> io::Result<UnixStream> {
    Ok(UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?))
}
