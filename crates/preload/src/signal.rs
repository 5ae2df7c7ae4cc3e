//! Replaces the functions that set signal handlers and signal masks, for programs whose faults are
//! handled in a handler of SIGBUS (`interleaf extend --faults signal`). The program's own action
//! for SIGBUS is kept, and called for faults that the pager does not handle. No thread and no
//! handler may block SIGBUS: the kernel ends the program when a fault raises a signal that the
//! faulting thread has blocked.

use crate::state::{is_inside, serves_in_signal, set_serves_in_signal};
use interleaf_pager::kernel::sigbus::{remove_sigbus, set_program_action};
use interleaf_procfs::{
    files::{self, Files},
    status,
};
use libc::{c_int, c_void, sighandler_t, sigset_t};
use std::{
    io, mem, ptr,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    thread,
    time::Duration,
};

/// The largest signal number.
const SIGNALS: c_int = 64;

/// Size of the kernel's signal set, bytes.
const SET_BYTES: usize = 8;

/// The signals 32 and 33, which the C library reserves: programs cannot block them.
const RESERVED: u64 = 1 << 31 | 1 << 32;

/// Unblocks SIGBUS in this thread, and removes it from the signal masks of all installed handlers.
///
/// # Errors
/// Fails if another thread has blocked SIGBUS, which only that thread can unblock, or if `/proc`
/// cannot be read.
pub(crate) fn unblock_sigbus() -> Result<(), String> {
    set_serves_in_signal(true);
    // SAFETY: all zeros is a valid signal set and a valid action. The calls change only which
    // signals are blocked.
    unsafe {
        let mut none: sigset_t = mem::zeroed();
        libc::sigaddset(&raw mut none, libc::SIGBUS);
        mask(libc::SIG_UNBLOCK, &raw const none, ptr::null_mut());
        for signal in 1..=SIGNALS {
            let mut action: libc::sigaction = mem::zeroed();
            let is_there = __sigaction(signal, ptr::null(), &raw mut action) == 0;
            if is_there && remove_sigbus(&mut action.sa_mask) {
                __sigaction(signal, &raw const action, ptr::null_mut());
            }
        }
    }
    match blocked_by().map_err(|why| format!("/proc/self/task: {why}"))? {
        None => Ok(()),
        Some(thread) => {
            set_serves_in_signal(false);
            Err(format!(
                "--faults signal: thread {thread} has blocked SIGBUS already, and would be killed"
            ))
        }
    }
}

/// Maximum number of polls of a thread that has SIGBUS blocked, and the pause between two polls:
/// 0.5 s in all. The polls are repeated because the C library blocks all signals for a moment while
/// a thread begins and while it ends.
const TRIES: u32 = 500;
const PAUSE: Duration = Duration::from_millis(1);

/// True if the thread of this process with the ID `thread` has SIGBUS blocked; false if the thread
/// has ended.
fn is_blocked_by(thread: &str) -> bool {
    let status = Files::live().read(&format!("proc/self/task/{thread}/status"));
    let status = status.ok().flatten().unwrap_or_default();
    let blocked = status::signals(&status, "SigBlk").unwrap_or(0);
    blocked >> (libc::SIGBUS - 1) & 1 == 1
}

/// Returns the ID of a thread of this process that has SIGBUS blocked; `None` if no thread has. The
/// pager's threads, which block SIGBUS too, are not started yet.
fn blocked_by() -> io::Result<Option<String>> {
    let folder = files::open(c"/proc/self/task")?;
    let mut buffer = Vec::with_capacity(32 << 10);
    let mut blocker = None;
    files::names(folder, buffer.spare_capacity_mut(), |name| {
        let name = name.to_string_lossy();
        // A thread that begins or ends has SIGBUS blocked for a moment only. A thread counts as a
        // blocker if it still has SIGBUS blocked after `TRIES` polls.
        let mut tries = 0;
        while is_blocked_by(&name) && blocker.is_none() {
            if tries == TRIES {
                blocker = Some(name.to_string());
            }
            tries += 1;
            thread::sleep(PAUSE);
        }
        blocker.is_none()
    })?;
    Ok(blocker)
}

/// True if signal calls of the program must be changed, so that SIGBUS stays unblocked and keeps
/// the pager's handler. False for calls that this library makes itself.
fn adapts_signals() -> bool {
    serves_in_signal() && !is_inside()
}

unsafe extern "C" {
    fn __sigaction(
        signal: c_int,
        action: *const libc::sigaction,
        before: *mut libc::sigaction,
    ) -> c_int;
}

/// Replaces `sigaction(2)`. While a handler of SIGBUS handles faults, the program's action for
/// SIGBUS is stored and not installed, and SIGBUS is removed from the signal mask of every handler.
///
/// # Safety
/// The caller must meet the conditions of `sigaction(2)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sigaction(
    signal: c_int,
    action: *const libc::sigaction,
    before: *mut libc::sigaction,
) -> c_int {
    // SAFETY: the caller meets the conditions of `sigaction(2)`, which are those of `__sigaction`.
    unsafe {
        if !adapts_signals() {
            return __sigaction(signal, action, before);
        }
        let Some(action) = action.as_ref() else {
            if signal == libc::SIGBUS && !before.is_null() {
                *before = set_program_action(None);
                return 0;
            }
            return __sigaction(signal, action, before);
        };
        let mut spared = *action;
        remove_sigbus(&mut spared.sa_mask);
        if signal != libc::SIGBUS {
            return __sigaction(signal, &raw const spared, before);
        }
        let was = set_program_action(Some(&spared));
        if !before.is_null() {
            *before = was;
        }
        0
    }
}

/// Installs a handler for a signal. Returns the former handler, or `SIG_ERR`.
fn handle(signal: c_int, handler: sighandler_t, flags: c_int) -> sighandler_t {
    // SAFETY: all zeros is a valid action, and the program passed the handler.
    unsafe {
        let (mut action, mut before): (libc::sigaction, libc::sigaction) =
            (mem::zeroed(), mem::zeroed());
        action.sa_sigaction = handler;
        action.sa_flags = flags;
        match sigaction(signal, &raw const action, &raw mut before) {
            0 => before.sa_sigaction,
            _ => libc::SIG_ERR,
        }
    }
}

/// The signals for which the program called [`siginterrupt`], so that their handlers interrupt
/// system calls: a bit for each signal, as in the kernel's signal set.
static INTERRUPTING: AtomicU64 = AtomicU64::new(0);

/// The bit of a signal in the kernel's signal set; 0 for a number that is no signal.
fn bit(signal: c_int) -> u64 {
    if (1..=SIGNALS).contains(&signal) { 1 << (signal - 1) } else { 0 }
}

/// Installs a handler with BSD semantics: system calls that the signal interrupts are restarted,
/// unless the program called `siginterrupt` for the signal.
fn handle_as_bsd(signal: c_int, handler: sighandler_t) -> sighandler_t {
    let is_interrupting = INTERRUPTING.load(Relaxed) & bit(signal) != 0;
    handle(signal, handler, if is_interrupting { 0 } else { libc::SA_RESTART })
}

/// Replaces `signal(2)`, with BSD semantics as in the GNU C library: the handler stays installed,
/// and system calls that the signal interrupts are restarted unless the program called
/// `siginterrupt`.
#[unsafe(no_mangle)]
pub extern "C" fn signal(signal: c_int, handler: sighandler_t) -> sighandler_t {
    handle_as_bsd(signal, handler)
}

/// Replaces `bsd_signal(3)`: does the same as `signal`.
#[unsafe(no_mangle)]
pub extern "C" fn bsd_signal(signal: c_int, handler: sighandler_t) -> sighandler_t {
    handle_as_bsd(signal, handler)
}

/// Replaces `ssignal(3)`: does the same as `signal`, as in the GNU C library.
#[unsafe(no_mangle)]
pub extern "C" fn ssignal(signal: c_int, handler: sighandler_t) -> sighandler_t {
    handle_as_bsd(signal, handler)
}

/// Replaces `siginterrupt(3)`, in order to record the signals for which it was called: `signal`
/// needs them, and the C library does not give access to its own list.
#[unsafe(no_mangle)]
pub extern "C" fn siginterrupt(signal: c_int, interrupts: c_int) -> c_int {
    // SAFETY: all zeros is a valid action, and only the flag `SA_RESTART` of the installed action
    // changes.
    unsafe {
        let mut action: libc::sigaction = mem::zeroed();
        if sigaction(signal, ptr::null(), &raw mut action) != 0 {
            return -1;
        }
        if interrupts != 0 {
            INTERRUPTING.fetch_or(bit(signal), Relaxed);
            action.sa_flags &= !libc::SA_RESTART;
        } else {
            INTERRUPTING.fetch_and(!bit(signal), Relaxed);
            action.sa_flags |= libc::SA_RESTART;
        }
        sigaction(signal, &raw const action, ptr::null_mut())
    }
}

/// Replaces `sysv_signal(3)`: the handler is removed when its signal arrives, and the signal is not
/// blocked while the handler runs.
#[unsafe(no_mangle)]
pub extern "C" fn sysv_signal(signal: c_int, handler: sighandler_t) -> sighandler_t {
    handle(signal, handler, libc::SA_RESETHAND | libc::SA_NODEFER)
}

/// Replaces `__sysv_signal`: the name under which the C library's headers declare `signal` if a
/// program asks for the semantics of System V.
#[unsafe(no_mangle)]
pub extern "C" fn __sysv_signal(signal: c_int, handler: sighandler_t) -> sighandler_t {
    handle(signal, handler, libc::SA_RESETHAND | libc::SA_NODEFER)
}

/// Changes the blocked signals of the calling thread. Does not block the signals that the C library
/// reserves, and does not block SIGBUS while the pager's handler needs it. Returns 0 or an error
/// number.
///
/// # Safety
/// The caller must meet the conditions of `pthread_sigmask(3)`.
unsafe fn mask(how: c_int, set: *const sigset_t, before: *mut sigset_t) -> c_int {
    // SAFETY: the caller meets the conditions of `pthread_sigmask(3)`. The kernel's signal set is
    // the first word of a `sigset_t`.
    unsafe {
        let mut spared = set.as_ref().copied();
        if let Some(set) = &mut spared {
            *ptr::from_mut(set).cast::<u64>() &= !RESERVED;
            if how != libc::SIG_UNBLOCK && adapts_signals() {
                remove_sigbus(set);
            }
        }
        let new: *const c_void =
            spared.as_ref().map_or(ptr::null(), |set| ptr::from_ref(set).cast());
        let errno = *libc::__errno_location();
        let outcome = libc::syscall(libc::SYS_rt_sigprocmask, how, new, before, SET_BYTES);
        let why = if outcome == 0 { 0 } else { *libc::__errno_location() };
        *libc::__errno_location() = errno;
        why
    }
}

/// Replaces `pthread_sigmask(3)`: SIGBUS is never blocked while the pager's handler needs it.
///
/// # Safety
/// The caller must meet the conditions of `pthread_sigmask(3)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_sigmask(
    how: c_int,
    set: *const sigset_t,
    before: *mut sigset_t,
) -> c_int {
    // SAFETY: the caller meets the conditions of `pthread_sigmask(3)`, as `mask` requires.
    unsafe { mask(how, set, before) }
}

/// Replaces `sigprocmask(2)`: SIGBUS is never blocked while the pager's handler needs it.
///
/// # Safety
/// The caller must meet the conditions of `sigprocmask(2)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sigprocmask(
    how: c_int,
    set: *const sigset_t,
    before: *mut sigset_t,
) -> c_int {
    // SAFETY: the caller meets the conditions of `sigprocmask(2)`, which are those of `mask`.
    match unsafe { mask(how, set, before) } {
        0 => 0,
        why => crate::errno::failed(why),
    }
}
