//! The process that serves the memory that processes of a session share: it may outlive the command
//! and whoever keeps the session, since some of those that share memory may.

use super::{failure::session_failure, helper};
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

/// Such a process, which ends with the value unless somebody still shares memory.
pub(super) struct Server {
    child: Child,
    connection: UnixStream,
}

impl Server {
    /// Starts one for a session, and waits until it can be asked. Of several that keep a session
    /// the first has it.
    pub(super) fn start(session: &Session) -> Result<Self, Failure> {
        let started = helper::start("--serve", session.folder(), Stdio::inherit());
        let (child, connection) = started.map_err(serve_failure)?;
        Ok(Self { child, connection })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let is_told = self.connection.shutdown(Shutdown::Write).is_ok();
        // The server answers if it has to stay.
        if is_told && self.connection.read(&mut [0]).is_ok_and(|count| count == 0) {
            let _ = self.child.wait();
        }
    }
}

/// Is such a process, whose standard input is the other end.
pub fn serve(folder: &Path) -> Result<(), Failure> {
    let session = Session::open(folder).map_err(session_failure)?;
    let serve = |connection| shared::serve(&session, connection, let_go);
    helper::connection().and_then(serve).map_err(serve_failure)
}

/// Releases stderr, so that a reader of the command's output does not wait for processes that the
/// command has left running.
fn let_go() {
    if let Ok(nowhere) = File::options().write(true).open("/dev/null") {
        // The server prints errors only.
        let _ = rustix::stdio::dup2_stderr(nowhere);
    }
}

fn serve_failure(why: io::Error) -> Failure {
    Failure::new(
        format!("shared memory cannot be served: {why}"),
        "leave --shared out: shared memory is left alone then",
    )
}
