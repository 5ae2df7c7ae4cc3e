//! Wraps the system calls that no crate wraps, `perf_event_open` and `getrusage`: the only unsafe
//! code of this crate. Each function is safe to call, and returns the result or the error of the
//! kernel.

#![expect(unsafe_code, reason = "no crate wraps these system calls")]

use perf_event_open_sys::bindings;
use std::{
    io,
    os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd},
};

/// Opens an event with perf_event_open(2). The event of the PMU with the type number `kind` is
/// counted from now on, on the CPU `cpu` and for all processes. With `leader`, the event joins the
/// leader's group: all events of a group are counted at the same time and returned in one read. A
/// read of the leader returns 64-bit numbers in native byte order: the number of events in the
/// group, the time for which the group was enabled, ns, the time for which it was counted, ns, and
/// the count of each event.
pub(crate) fn perf_event_open(
    kind: u32,
    config: [u64; 3],
    cpu: u32,
    leader: Option<BorrowedFd<'_>>,
) -> io::Result<OwnedFd> {
    let cpu = libc::c_int::try_from(cpu).map_err(|_| io::ErrorKind::InvalidInput)?;
    open_event(&attributes(kind, config), -1, cpu, leader)
}

/// Opens an event with perf_event_open(2). The event of the PMU with the type number `kind` is
/// counted in all programs that the calling thread starts from now on, and in their descendants, on
/// any CPU. The calling thread itself is not counted. Groups and reads work as with
/// [`perf_event_open`]. `user_only` excludes kernel mode, which requires fewer rights.
pub(crate) fn perf_event_open_for_children(
    kind: u32,
    config: [u64; 3],
    user_only: bool,
    leader: Option<BorrowedFd<'_>>,
) -> io::Result<OwnedFd> {
    let mut attr = attributes(kind, config);
    attr.set_inherit(1);
    attr.set_exclude_kernel(user_only.into());
    attr.set_exclude_hv(user_only.into());
    // The event is never enabled in this process; its inherited copy in a child is enabled when the
    // child calls exec. Members of a group are enabled with their leader.
    attr.set_disabled(leader.is_none().into());
    attr.set_enable_on_exec(leader.is_none().into());
    open_event(&attr, 0, -1, leader)
}

/// Reads two peaks of resident memory with getrusage(2), bytes: the peak of this process, and the
/// highest peak of any of its descendants that have ended and were waited for.
pub(crate) fn resident_max() -> io::Result<[u64; 2]> {
    Ok([usage(libc::RUSAGE_SELF)?, usage(libc::RUSAGE_CHILDREN)?])
}

fn usage(whose: libc::c_int) -> io::Result<u64> {
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: the kernel writes one `rusage` through the pointer, and reads nothing.
    if unsafe { libc::getrusage(whose, usage.as_mut_ptr()) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: all bytes were 0 before the call, and 0 is a valid value of each field, so the
    // structure is initialised.
    let usage = unsafe { usage.assume_init() };
    Ok(u64::try_from(usage.ru_maxrss).unwrap_or(0).saturating_mul(1024))
}

/// Returns the attributes of an event that is counted and read as [`perf_event_open`] describes.
fn attributes(kind: u32, config: [u64; 3]) -> bindings::perf_event_attr {
    let mut attr = bindings::perf_event_attr {
        type_: kind,
        size: size_of::<bindings::perf_event_attr>() as u32,
        config: config[0],
        read_format: u64::from(
            bindings::PERF_FORMAT_GROUP
                | bindings::PERF_FORMAT_TOTAL_TIME_ENABLED
                | bindings::PERF_FORMAT_TOTAL_TIME_RUNNING,
        ),
        ..Default::default()
    };
    attr.__bindgen_anon_3.config1 = config[1];
    attr.__bindgen_anon_4.config2 = config[2];
    attr
}

/// Opens an event on a thread (-1 for any thread, 0 for the calling thread) and on a CPU (-1 for
/// any CPU).
fn open_event(
    attr: &bindings::perf_event_attr,
    thread: libc::pid_t,
    cpu: libc::c_int,
    leader: Option<BorrowedFd<'_>>,
) -> io::Result<OwnedFd> {
    let mut attr = *attr;
    let leader = leader.map_or(-1, |leader| leader.as_raw_fd());
    let flags = libc::c_ulong::from(bindings::PERF_FLAG_FD_CLOEXEC);
    // SAFETY: `attr` is a whole and initialised structure that outlives the call, and contains its
    // own size. The kernel reads `attr`, and writes at most its `size` field. Counting accesses no
    // memory of this process: there is no buffer and no signal.
    let fd =
        unsafe { perf_event_open_sys::perf_event_open(&raw mut attr, thread, cpu, leader, flags) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just opened this descriptor for this function, which is its only
    // owner.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}
