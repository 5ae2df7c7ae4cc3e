//! Locks of open file descriptions (OFD locks). A store file is in use as long as an open file
//! description holds a lock on it.

#![expect(unsafe_code, reason = "locks of open files have no wrapper")]

use std::{fs::File, io, os::fd::AsRawFd};

/// Takes a lock on a file for the open file description of `file`: an exclusive lock if `is_alone`
/// is true, otherwise a shared lock. Fails if another open file description of the file holds a
/// conflicting lock.
pub(super) fn lock(file: &File, is_alone: bool) -> io::Result<()> {
    set_lock(file, libc::F_OFD_SETLK, is_alone)
}

/// Waits until no other open file description of the file holds a lock, and then takes an exclusive
/// lock.
pub(super) fn wait_until_alone(file: &File) -> io::Result<()> {
    loop {
        match set_lock(file, libc::F_OFD_SETLKW, true) {
            Err(why) if why.kind() == io::ErrorKind::Interrupted => {}
            done => return done,
        }
    }
}

fn set_lock(file: &File, command: libc::c_int, is_alone: bool) -> io::Result<()> {
    let kind = if is_alone { libc::F_WRLCK } else { libc::F_RDLCK };
    // SAFETY: the structure has only numbers, so all zeros is a valid value.
    let mut lock: libc::flock = unsafe { std::mem::zeroed() };
    (lock.l_type, lock.l_whence, lock.l_len) = (kind as _, libc::SEEK_SET as _, 1);
    // SAFETY: the file is open, and the call only accesses `lock`.
    match unsafe { libc::fcntl(file.as_raw_fd(), command, &raw const lock) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
