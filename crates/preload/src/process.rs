//! Processes that fork. `fork(3)`, `daemon(3)` and `forkpty(3)` say so to whoever asked
//! ([`watch`]); `vfork(3)`, `posix_spawn(3)` and `system(3)` share the memory until a new program
//! begins, and need nothing.

use crate::{
    shared,
    start::{inside, pager},
};
use interleaf_pager::{fork::Fork, pager::Pager};
use libc::{c_int, pid_t};
use std::{
    cell::RefCell,
    io::{self, Write},
};

thread_local! {
    /// The fork that the thread is in.
    static FORK: RefCell<Option<Fork<'static>>> = const { RefCell::new(None) };

    /// The same of what is shared.
    static SHARED: RefCell<Option<shared::Fork>> = const { RefCell::new(None) };
}

/// Asks for what is to be done around a fork.
pub(crate) fn watch() {
    // SAFETY: the functions stay where they are: a library that is preloaded is never unloaded.
    unsafe { libc::pthread_atfork(Some(before), Some(in_parent), Some(in_child)) };
}

extern "C" fn before() {
    if let Some(pager) = pager() {
        inside(|| SHARED.replace(shared::Fork::before()));
        inside(|| FORK.replace(Some(Pager::before_fork(pager))));
    }
}

extern "C" fn in_parent() {
    if let Some(fork) = FORK.take() {
        inside(|| fork.in_parent());
    }
    SHARED.take();
}

extern "C" fn in_child() {
    let (fork, shared) = (FORK.take(), SHARED.take());
    inside(|| {
        // First, as long as nothing else is mapped where it was.
        tell("what is shared", shared.map_or(Ok(()), shared::Fork::in_child));
        tell("the extended memory", fork.map_or(Ok(()), Fork::in_child));
    });
}

/// Tells of memory that a child has not. Most children begin another program soon, and need it not.
fn tell(what: &str, outcome: io::Result<()>) {
    if let Err(why) = outcome {
        let pid = std::process::id();
        let text = format!("interleaf: process {pid} cannot have {what} of its parent: {why}\n");
        // Where nobody can be told, nobody can be told that either.
        let _ = io::stderr().write_all(text.as_bytes());
    }
}

/// `_Fork(3)`, which tells nobody.
///
/// # Safety
/// As of the C library.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn _Fork() -> pid_t {
    before();
    // SAFETY: without a stack or flags but the signal it is a fork.
    let child = unsafe { libc::syscall(libc::SYS_clone, libc::SIGCHLD, 0, 0, 0, 0) } as c_int;
    if child == 0 {
        in_child()
    } else {
        in_parent()
    }
    child
}
