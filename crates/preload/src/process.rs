//! Keeps this library consistent when the process forks. `fork(3)`, `daemon(3)` and `forkpty(3)`
//! call the handlers of `pthread_atfork(3)` ([`watch`]), and `_Fork(3)` is replaced here. A child
//! of `vfork(3)`, `posix_spawn(3)` or `system(3)` shares the parent's memory until it executes a
//! new program, and needs no handler.
//!
//! `_Fork` may be called in a signal handler. The code of this library before and after `_Fork`
//! takes no lock that the interrupted thread may hold: this library's locks are held with signals
//! blocked ([`crate::state::inside`]), and its memory does not come from the program's allocator
//! ([`crate::heap`]).

use crate::{
    counted::{self, Counted},
    errno, heap, next, shared,
    state::{self, pager},
    thread,
};
use interleaf_pager::{pager::Pager, serve::fork::Fork};
use libc::pid_t;
use std::{cell::Cell, io, ptr, sync::MutexGuard};

/// A fork in progress: the locks that are held during the fork, so that the child has consistent
/// state.
struct Forking {
    /// The signals that were blocked before the fork began.
    mask: u64,
    pager: Option<Fork<'static>>,
    shared: Option<shared::Fork>,
    _counted: MutexGuard<'static, Counted>,
    threads: thread::ThreadList,
    _start: MutexGuard<'static, ()>,
}

thread_local! {
    /// The fork in progress of this thread. The variable is a plain pointer, which has no
    /// destructor: to register the destructor of a thread-local variable, the C library takes the
    /// lock of the dynamic loader.
    static FORKING: Cell<*mut Forking> = const { Cell::new(ptr::null_mut()) };
}

/// Registers this library's handlers for forks before any other library registers a handler.
/// Handlers for the time before a fork run in reverse order of registration, those for the time
/// after it in the order of registration. So the pager stops last and starts first, and the
/// handlers of other libraries can use extended memory.
pub(crate) fn watch() {
    // SAFETY: the functions stay mapped, because a preloaded library is never unloaded.
    unsafe { libc::pthread_atfork(Some(before), Some(in_parent), Some(in_child)) };
}

extern "C" fn before() {
    // This process may be a child that the program forked by a raw system call. Such a child has no
    // pager, and a thread that exists only in the parent may hold a lock for ever.
    if pager().is_none() && state::may_be_locked() {
        return;
    }
    let mask = state::enter();
    let _start = state::hold_start();
    let shared = pager().and_then(|_| shared::Fork::before());
    let pager = pager().map(Pager::before_fork);
    let (_counted, threads) = (counted::lock(), thread::lock_list());
    let forking = Forking { mask, pager, shared, _counted, threads, _start };
    FORKING.set(Box::into_raw(Box::new(forking)));
    // Lock the heap last, because the steps above allocate memory. No thread waits for another lock
    // while it holds the lock of the heap.
    std::mem::forget(heap::lock());
}

/// Takes the fork in progress of this thread out of `FORKING`, and unlocks the heap. Returns `None`
/// if `before` did nothing.
fn after() -> Option<Box<Forking>> {
    let forking = FORKING.replace(ptr::null_mut());
    if forking.is_null() {
        return None;
    }
    // SAFETY: `before` made the value, and this thread locked the heap in `before`.
    unsafe {
        heap::unlock();
        Some(Box::from_raw(forking))
    }
}

extern "C" fn in_parent() {
    let Some(forking) = after() else { return };
    let Forking { mask, pager, shared, _counted, threads, _start } = *forking;
    drop(threads);
    if let Some(pager) = pager {
        pager.in_parent();
    }
    drop(shared);
    drop(_counted);
    drop(_start);
    state::exit(mask);
}

extern "C" fn in_child() {
    let Some(forking) = after() else { return };
    let Forking { mask, pager, shared, _counted, threads, _start } = *forking;
    thread::forget(threads);
    state::shares_memory();
    state::set_unlocked();
    // Map the shared memory first, while no other memory can be mapped at its addresses.
    report("what is shared", shared.map_or(Ok(()), shared::Fork::in_child));
    report("the extended memory", pager.map_or(Ok(()), Fork::in_child));
    drop(_counted);
    drop(_start);
    state::exit(mask);
}

/// Prints an error if the child could not map memory of the parent. The child continues, because
/// most children soon call `execve(2)`, and do not need this memory.
fn report(what: &str, outcome: io::Result<()>) {
    if let Err(why) = outcome {
        let pid = std::process::id();
        state::print(format_args!("process {pid} cannot have {what} of its parent: {why}"));
    }
}

/// Replaces `_Fork(3)`, which does not call the handlers of `pthread_atfork(3)`: calls this
/// library's own handlers before and after the fork.
///
/// # Safety
/// The caller must meet the conditions of `_Fork(3)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn _Fork() -> pid_t {
    before();
    let child = next::fork();
    let why = errno::get();
    match child {
        0 => in_child(),
        _ => in_parent(),
    }
    errno::set(why);
    child
}
