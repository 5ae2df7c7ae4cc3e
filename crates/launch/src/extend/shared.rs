//! The server of the memory that processes of a session share. It may outlive the command and
//! `interleaf extend`, because the processes that share memory may outlive them too.

use super::{helper, session_failure::session_failure};
use interleaf_console::Failure;
use interleaf_pager::{session::Session, shared};
use std::{
    fs::File,
    io::{self, Read},
    net::Shutdown,
    os::unix::net::UnixStream,
    path::Path,
    process::{Child, Stdio},
};

/// A started server. A drop of this value ends the server, unless processes still share memory.
pub(super) struct Server {
    child: Child,
    connection: UnixStream,
}

impl Server {
    /// Starts the server of a session, and waits until it accepts requests. If the session has a
    /// server already, that server remains the only one.
    pub(super) fn start(session: &Session) -> Result<Self, Failure> {
        let started = helper::start("--serve", session.folder(), Stdio::inherit());
        let (child, connection) = started.map_err(serve_failure)?;
        Ok(Self { child, connection })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let is_shut = self.connection.shutdown(Shutdown::Write).is_ok();
        // A server that must stay, because processes still share memory, sends a byte. Wait only
        // for a server that closes the connection without a byte.
        if is_shut && self.connection.read(&mut [0]).is_ok_and(|count| count == 0) {
            let _ = self.child.wait();
        }
    }
}

/// Runs the server for the session in `folder`. Standard input is the connection to the process
/// that started this server.
pub fn serve(folder: &Path) -> Result<(), Failure> {
    let session = Session::open(folder).map_err(session_failure)?;
    let serve = |connection| shared::serve(&session, connection, detach_stderr);
    helper::connection().and_then(serve).map_err(serve_failure)
}

/// Redirects stderr to `/dev/null`. Otherwise a reader of the command's output, such as a shell
/// with a pipe, would wait until this server ends.
fn detach_stderr() {
    if let Ok(nowhere) = File::options().write(true).open("/dev/null") {
        // The server's stdout is `/dev/null` from its start (`helper::start`).
        let _ = rustix::stdio::dup2_stderr(nowhere);
    }
}

fn serve_failure(why: io::Error) -> Failure {
    Failure::new(
        format!("shared memory cannot be served: {why}"),
        "leave --shared out: shared memory is left alone then",
    )
}
