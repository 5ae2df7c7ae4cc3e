//! Frees the blocks of store files in the background.
//!
//! A store file has no name, so its last close frees its blocks, and the closing process waits
//! until they are free. The last close is mostly in `do_exit` of the program, while the shell waits
//! for the program. On ext4 without a journal, mounted with `discard`, the kernel issues one
//! synchronous discard for each extent (`ext4_free_blocks`, fs/ext4/mballoc.c). There are many
//! extents, because a random write into preallocated space makes an extent of its own for nearly
//! every page. Freeing 128 MiB took 25 s on a virtual drive.
//!
//! - [`merge_extents`] merges many extents into few before their blocks are freed.
//!   `FALLOC_FL_ZERO_RANGE` marks written extents as unwritten, and adjacent unwritten extents are
//!   merged. No data is transferred. The merge of 64 MiB took 13 ms, and their release 0.3 s
//!   instead of 14 s.
//! - A *releaser* process ([`serve`]) holds a descriptor of each store file, waits until no pager
//!   has the file open, and then closes the file. So the program's own exit frees no block, even
//!   when the program is killed. When the releaser is killed, the last process that has a file open
//!   frees its blocks.

use super::{file_extents::merge_extents, file_lock::wait_until_alone};
use interleaf_poll_server::{
    PollSet, wait,
    wire::{Wire, Words, listener},
};
use rustix::fs::Dir;
use std::{
    ffi::OsStr,
    fs::{File, OpenOptions},
    io::{self, Write},
    os::{
        fd::{AsFd, AsRawFd, OwnedFd},
        unix::{ffi::OsStrExt as _, net::UnixStream},
    },
    path::{Path, PathBuf},
    thread,
};

/// The first part of the name of a releaser's socket, in the folder of a session. The releaser's
/// process ID follows.
const SOCKET_PREFIX: &str = "release.";

/// The message that asks a releaser to release a store file. A descriptor of the file is attached.
const RELEASE: Words = [8, 0, 0, 0];

/// Stack size of a thread that releases one file, bytes. The thread needs little stack: it mostly
/// waits for a lock.
const STACK_BYTES: usize = 64 << 10;

/// The releasers of a session, which are found by their sockets in the session's folder. A releaser
/// is a process that frees the blocks of store files.
#[derive(Clone, Debug)]
pub struct Releaser {
    folder: PathBuf,
}

impl Releaser {
    /// Returns the releasers that listen in the folder of a session, including those that start
    /// later.
    pub fn in_folder(folder: &Path) -> Self {
        Self { folder: folder.into() }
    }

    /// Sends a descriptor of `file` to the first releaser that listens.
    ///
    /// # Errors
    /// When no releaser listens. The last close of the file then frees its blocks.
    pub(super) fn hand_over(&self, file: &File) -> io::Result<()> {
        // Do not use `fs::read_dir`: it calls `opendir(3)`, which calls `malloc`. If this code runs
        // while the program's own allocator maps memory, `malloc` would wait for ever for the
        // allocator's lock.
        let folder = File::open(&self.folder)?;
        for entry in Dir::read_from(&folder)?.flatten() {
            let name = entry.file_name().to_bytes();
            if !name.starts_with(SOCKET_PREFIX.as_bytes()) {
                continue;
            }
            let sent = Wire::connect(&self.folder.join(OsStr::from_bytes(name)))
                .and_then(|wire| wire.send(RELEASE, Some(file.as_fd())));
            if sent.is_ok() {
                return Ok(());
            }
        }
        Err(io::ErrorKind::NotFound.into())
    }
}

/// Runs a releaser. It holds each file that it receives until no pager has the file open, and then
/// closes it. As soon as the releaser listens, it writes a byte to `keeper`, the connection to the
/// process that keeps the session running. The releaser accepts files until that process has closed
/// its end of the connection, and returns when all files are released.
///
/// # Errors
/// When the socket cannot be made in `folder`, or connections cannot be accepted.
pub fn serve(folder: &Path, mut keeper: UnixStream) -> io::Result<()> {
    let path = folder.join(format!("{SOCKET_PREFIX}{}", std::process::id()));
    let listener = listener(&path)?;
    keeper.write_all(&[1])?;
    thread::scope(|scope| {
        let mut is_over = false;
        while !is_over {
            let watched = PollSet {
                control: Some(keeper.as_fd()),
                listener: Some(listener.as_fd()),
                clients: vec![],
            };
            is_over = wait(&watched, None)?.control;
            while let Some(wire) = Wire::accept(&listener)? {
                let take = move || {
                    if let Ok(Some((RELEASE, Some(file)))) = wire.receive() {
                        drop(wire);
                        release(file);
                    }
                };
                thread::Builder::new().stack_size(STACK_BYTES).spawn_scoped(scope, take)?;
            }
        }
        // The socket is not removed here, but with the folder of the session.
        Ok(())
    })
}

/// Frees the blocks of a file after all processes that locked the file have closed it.
fn release(file: OwnedFd) {
    // Open the file once more. Locks belong to open file descriptions, and `file` shares the
    // pager's description: a lock through `file` would not conflict with the pager's lock, and
    // would not wait until the pager has closed the file.
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    let Ok(own) = OpenOptions::new().read(true).write(true).open(path) else { return };
    drop(file);
    if wait_until_alone(&own).is_ok() {
        merge_extents(&own, 0..own.metadata().map_or(0, |found| found.len()));
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;
    use crate::{FileStore, Options};
    use std::fs;

    #[test]
    fn a_releaser_holds_a_file_until_its_last_close() {
        let folder = tempfile::tempdir().unwrap();
        let stores = tempfile::tempdir_in(".").unwrap();
        let (mut keeper, other) = UnixStream::pair().unwrap();
        let open = || {
            let store = FileStore::open_all(&[stores.path()], Options::default()).unwrap();
            store.released_by(Some(Releaser::in_folder(folder.path())))
        };
        drop(open());
        // A releaser that was killed leaves a socket at which no process listens.
        drop(listener(&folder.path().join("release.0")).unwrap());
        let deleted = |path: PathBuf| path.to_string_lossy().contains("(deleted)");
        let held = || {
            let fds = fs::read_dir("/proc/self/fd").unwrap().flatten();
            let files = fds.filter_map(|fd| fs::read_link(fd.path()).ok());
            let ours = |path: &PathBuf| path.starts_with(stores.path().canonicalize().unwrap());
            files.filter(ours).filter(|path| deleted(path.clone())).count()
        };
        thread::scope(|scope| {
            let path = folder.path();
            let serves = scope.spawn(move || serve(path, other));
            io::Read::read_exact(&mut keeper, &mut [0]).unwrap();
            let (one, two) = (open(), open());
            drop(one);
            drop(keeper);
            while held() != 2 {
                thread::yield_now();
            }
            assert!(!serves.is_finished(), "the second is still in use");
            drop(two);
            serves.join().unwrap().unwrap();
        });
        assert_eq!(held(), 0);
    }
}
