//! The system calls that no crate wraps. All `unsafe` code of this crate is in this file; the
//! `SAFETY` comments say why each call is sound.

#![expect(unsafe_code, reason = "no crate wraps these system calls")]

use std::{
    io,
    mem::MaybeUninit,
    os::unix::process::CommandExt as _,
    process::Command,
    ptr,
    sync::atomic::{AtomicBool, Ordering::Relaxed},
};

/// `MPOL_MF_MOVE` of `linux/mempolicy.h`: move only pages that no other process maps.
const MPOL_MF_MOVE: libc::c_int = 1 << 1;

/// Number of bits in a word of a node mask.
const WORD_BITS: usize = libc::c_ulong::BITS as usize;

/// Calls `set_mempolicy(2)`, which sets the memory policy of the calling thread and of its future
/// threads and children. An empty mask means no mask.
pub(crate) fn set_mempolicy(mode: libc::c_int, mask: &[libc::c_ulong]) -> io::Result<()> {
    let (pointer, bits) = bits_of(mask);
    // SAFETY: the kernel reads `bits - 1` bits from `pointer`, all of them in `mask`, and writes no
    // memory of this process. The call affects only the allocation of later pages.
    let result = unsafe {
        libc::syscall(libc::SYS_set_mempolicy, libc::c_long::from(mode), pointer, bits as u64)
    };
    done(result).map(drop)
}

/// Calls `mbind(2)`, which sets the memory policy of `memory`. Resident pages stay on their nodes.
pub(crate) fn mbind(
    memory: &mut [u8],
    mode: libc::c_int,
    mask: &[libc::c_ulong],
) -> io::Result<()> {
    let (pointer, bits) = bits_of(mask);
    // SAFETY: the kernel reads `bits - 1` bits from `pointer`, all of them in `mask`. It neither
    // reads nor writes `memory`, but records the policy of the pages.
    let result = unsafe {
        libc::syscall(
            libc::SYS_mbind,
            memory.as_mut_ptr(),
            memory.len(),
            libc::c_long::from(mode),
            pointer,
            bits as u64,
            0_u64,
        )
    };
    done(result).map(drop)
}

/// Returns the address of a node mask, and its length as the kernel expects it: the number of bits
/// plus 1, because the kernel uses one bit less than the given length. An empty mask means no mask.
fn bits_of(mask: &[libc::c_ulong]) -> (*const libc::c_ulong, usize) {
    if mask.is_empty() { (ptr::null(), 0) } else { (mask.as_ptr(), mask.len() * WORD_BITS + 1) }
}

/// Calls `get_mempolicy(2)`. Returns the calling thread's policy mode, with the mode flags.
pub(crate) fn get_mempolicy() -> io::Result<libc::c_int> {
    let mut mode: libc::c_int = 0;
    let none = ptr::null_mut::<libc::c_ulong>();
    // SAFETY: without flags the kernel writes one `int` to `mode`. It writes nothing else, because
    // the mask is null and its length is 0.
    let result =
        unsafe { libc::syscall(libc::SYS_get_mempolicy, &raw mut mode, none, 0_u64, none, 0_u64) };
    done(result).map(|_| mode)
}

/// Calls `move_pages(2)`, which moves the pages at `addresses` of the process `pid` to `nodes`.
/// Without `nodes`, the call only locates the pages. Each entry of `status` becomes the page's node
/// or a negative error number.
///
/// The kernel moves pages in groups, and stops at the first group that does not migrate as a whole.
/// The entries of this group and of later pages are then unchanged, and the function returns the
/// number of these pages that did not migrate. Otherwise it returns 0.
///
/// # Panics
/// When the lengths of the lists differ, which is a bug of the caller.
pub(crate) fn move_pages(
    pid: u32,
    addresses: &[u64],
    nodes: Option<&[i32]>,
    status: &mut [i32],
) -> io::Result<u64> {
    assert_eq!(addresses.len(), status.len());
    assert!(nodes.is_none_or(|nodes| nodes.len() == addresses.len()));
    let nodes = nodes.map_or(ptr::null(), <[i32]>::as_ptr);
    // SAFETY: the kernel reads `status.len()` addresses and, if nodes are given, as many nodes. It
    // writes at most `status.len()` entries of `status`. The lengths were compared above. An
    // address is 8 bytes wide on every NUMA system that Linux and this crate support. The addresses
    // belong to the process `pid`: the kernel neither reads nor writes memory through them.
    let result = unsafe {
        libc::syscall(
            libc::SYS_move_pages,
            libc::c_long::from(pid),
            addresses.len() as libc::c_ulong,
            addresses.as_ptr(),
            nodes,
            status.as_mut_ptr(),
            libc::c_long::from(MPOL_MF_MOVE),
        )
    };
    done(result)
}

/// The highest signal number on Linux.
const SIGNAL_MAX: libc::c_int = 64;

/// Makes `command` start with the default disposition of every signal and with no blocked signals.
pub(crate) fn with_default_signals(command: &mut Command) -> &mut Command {
    let reset = || {
        for signal in 1..=SIGNAL_MAX {
            // The call fails for SIGKILL, SIGSTOP and the two signals that the C library reserves.
            let _ = set_disposition(signal, Disposition::Default);
        }
        let mut none = MaybeUninit::<libc::sigset_t>::uninit();
        // SAFETY: `sigemptyset` initialises the whole set, which `sigprocmask` then reads. A child
        // process has only one thread before exec.
        let result = unsafe {
            libc::sigemptyset(none.as_mut_ptr());
            libc::sigprocmask(libc::SIG_SETMASK, none.as_ptr(), ptr::null_mut())
        };
        done(result.into()).map(drop)
    };
    // SAFETY: between fork and exec, `reset` makes only calls that are safe in a signal handler
    // (signal-safety(7)), and allocates no memory.
    unsafe { command.pre_exec(reset) }
}

pub(crate) fn with_ignored_signal(command: &mut Command, signal: libc::c_int) -> &mut Command {
    // SAFETY: signal(2) is safe between fork and exec (signal-safety(7)), and the closure allocates
    // no memory.
    unsafe { command.pre_exec(move || set_disposition(signal, Disposition::Ignored)) }
}

/// The disposition of a signal that has no handler (signal(7)).
#[derive(Clone, Copy)]
pub(crate) enum Disposition {
    Default,
    Ignored,
}

pub(crate) fn set_disposition(signal: libc::c_int, disposition: Disposition) -> io::Result<()> {
    let number = match disposition {
        Disposition::Default => libc::SIG_DFL,
        Disposition::Ignored => libc::SIG_IGN,
    };
    // SAFETY: the disposition is not a handler, so the signal runs no code of this process.
    match unsafe { libc::signal(signal, number) } {
        libc::SIG_ERR => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

/// Calls the system call `waitid` with its argument `rusage`, which the C library's waitid(2)
/// lacks. Returns the resources used by an ended process and by those of its descendants that were
/// waited for. The process is not reaped (`WNOWAIT`).
pub(crate) fn resources_of_ended(pid: u32) -> io::Result<libc::rusage> {
    let mut usage = MaybeUninit::<libc::rusage>::zeroed();
    let none = ptr::null_mut::<libc::siginfo_t>();
    let options = libc::WEXITED | libc::WNOWAIT | libc::WNOHANG;
    // SAFETY: the kernel writes one `rusage` through the last pointer, and no `siginfo_t`, because
    // that pointer is null.
    let result = unsafe {
        libc::syscall(
            libc::SYS_waitid,
            libc::c_long::from(libc::P_PID),
            libc::c_long::from(pid),
            none,
            libc::c_long::from(options),
            usage.as_mut_ptr(),
        )
    };
    done(result)?;
    // SAFETY: all bytes were 0 before the call, and 0 is a valid value of each field.
    Ok(unsafe { usage.assume_init() })
}

/// True when this process was started with SIGPIPE ignored. Rust's runtime ignores SIGPIPE before
/// `main`, so `note_sigpipe` has read the disposition before the runtime started.
pub(crate) fn inherited_ignored_sigpipe() -> bool {
    SIGPIPE_IGNORED.load(Relaxed)
}

static SIGPIPE_IGNORED: AtomicBool = AtomicBool::new(false);

extern "C" fn note_sigpipe() {
    let mut found = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: without a new action the kernel only writes the present action to `found`. If the
    // call fails, `found` is all zeros, which is a valid value.
    let found = unsafe {
        libc::sigaction(libc::SIGPIPE, ptr::null(), found.as_mut_ptr());
        found.assume_init()
    };
    SIGPIPE_IGNORED.store(found.sa_sigaction == libc::SIG_IGN, Relaxed);
}

/// Makes the loader call `note_sigpipe` before Rust's runtime starts, because it is in the section
/// `.init_array`. The inherited disposition of SIGPIPE must be read so early, because Rust's
/// runtime ignores SIGPIPE.
// SAFETY: the section holds addresses of functions of this type. The loader passes arguments to
// them, which a function may ignore.
#[used]
#[unsafe(link_section = ".init_array")]
static NOTE_SIGPIPE: extern "C" fn() = note_sigpipe;

fn done(result: libc::c_long) -> io::Result<u64> {
    u64::try_from(result).map_err(|_| io::Error::last_os_error())
}
