//! The releaser: a process that frees the blocks of store files after the command has ended, so
//! that nobody waits for it (`interleaf_pager::store::release`).

use super::helper;
use interleaf_console::{Failure, system};
use interleaf_linux::launch::command::Signals;
use interleaf_pager::{session::Session, store::release};
use std::{
    io,
    os::unix::net::UnixStream,
    path::Path,
    process::{Child, Stdio},
};

/// A releaser that goes on by itself once this is dropped.
pub(super) struct Started {
    _child: Child,
    _connection: UnixStream,
}

/// Starts a releaser for the store files of a session; `None` where all stores are devices, or when
/// none can be started: then the last process of the command frees the blocks itself.
pub(super) fn start(session: &Session) -> Option<Started> {
    if !session.settings.stores.iter().any(|store| store.is_dir()) {
        return None;
    }
    let (child, connection) = helper::start("--release", session.folder(), Stdio::null()).ok()?;
    Some(Started { _child: child, _connection: connection })
}

/// Is a releaser.
pub fn serve(folder: &Path) -> Result<(), Failure> {
    // A service manager that stops what the command has left would interrupt the merge of extents.
    let _held = Signals::hold().map_err(system::signal_failure)?;
    let serve = |connection| release::serve(folder, connection);
    helper::connection().and_then(serve).map_err(|why: io::Error| {
        Failure::new(format!("store files cannot be released: {why}"), "report it")
    })
}
