//! The releaser: a helper process that frees the blocks of a store file once no process has the
//! file open (`interleaf_store::release`). Neither the exit of a program nor the user has to wait
//! until the blocks are free.

use super::helper;
use interleaf_console::{Failure, system};
use interleaf_linux::launch::command::Signals;
use interleaf_pager::session::Session;
use interleaf_store::release;
use std::{
    io,
    os::unix::net::UnixStream,
    path::Path,
    process::{Child, Stdio},
};

/// A started releaser. It goes on after this value is dropped.
pub(super) struct Started {
    _child: Child,
    _connection: UnixStream,
}

/// Starts a releaser for the store files of a session. Returns `None` if all stores are devices,
/// which have no blocks to free. Also returns `None` if the releaser cannot be started: then the
/// last process that closes a store file frees its blocks.
pub(super) fn start(session: &Session) -> Option<Started> {
    if !session.settings.stores.iter().any(|store| store.is_dir()) {
        return None;
    }
    let (child, connection) = helper::start("--release", session.folder(), Stdio::null()).ok()?;
    Some(Started { _child: child, _connection: connection })
}

/// Runs the releaser for the session in `folder`.
pub fn serve(folder: &Path) -> Result<(), Failure> {
    // Hold signals: a service manager that stops the remaining processes must not interrupt the
    // releaser while it merges the extents of a store file.
    let _held = Signals::hold().map_err(system::signal_failure)?;
    let serve = |connection| release::serve(folder, connection);
    helper::connection().and_then(serve).map_err(|why: io::Error| {
        Failure::new(format!("store files cannot be released: {why}"), "report it")
    })
}
