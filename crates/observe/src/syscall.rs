//! The system calls of counting that no crate wraps: the only `unsafe` of this crate. Each function
//! states its preconditions, checks them, and returns the kernel's answer.

#![expect(unsafe_code, reason = "no crate wraps these system calls")]

use perf_event_open_sys::bindings;
use std::{
    io,
    os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd},
};

/// `perf_event_open(2)`: counts an event of the PMU with number `kind` on one CPU, whoever runs
/// there, from now on; in the group of `leader` where there is one, so that they are counted at
/// once and read with it. A read of the leader gives, each in 8 bytes of the machine's order, the
/// number of events in the group, the time that it was enabled and that it was counted, both in ns,
/// and the count of each event.
pub(crate) fn perf_event_open(
    kind: u32,
    config: [u64; 3],
    cpu: u32,
    leader: Option<BorrowedFd<'_>>,
) -> io::Result<OwnedFd> {
    let cpu = libc::c_int::try_from(cpu).map_err(|_| io::ErrorKind::InvalidInput)?;
    open_event(&attributes(kind, config), -1, cpu, leader)
}

/// `perf_event_open(2)`: counts an event of the PMU with number `kind` in all programs that this
/// thread starts from now on, and in all that they start, on whichever CPU; not in this thread. In
/// a group and read as of [`perf_event_open`]. With `user_only` what the kernel does for them is
/// left out, which takes fewer rights.
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
    // Ours is never enabled; a child's is when it becomes another program. Those behind the leader
    // go with it.
    attr.set_disabled(leader.is_none().into());
    attr.set_enable_on_exec(leader.is_none().into());
    open_event(&attr, 0, -1, leader)
}

/// `getrusage(2)`: the most memory that this process had, and that one of its children had which
/// have ended and were waited for, or one of theirs; bytes.
pub(crate) fn resident_max() -> io::Result<[u64; 2]> {
    Ok([usage(libc::RUSAGE_SELF)?, usage(libc::RUSAGE_CHILDREN)?])
}

fn usage(whose: libc::c_int) -> io::Result<u64> {
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: the kernel writes one `rusage` to where the pointer leads, and reads nothing.
    if unsafe { libc::getrusage(whose, usage.as_mut_ptr()) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: all bytes were set to 0 before the call, of which each field is valid.
    let usage = unsafe { usage.assume_init() };
    Ok(u64::try_from(usage.ru_maxrss).unwrap_or(0).saturating_mul(1024))
}

/// An event that is counted, and read as [`perf_event_open`] says.
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

/// Opens an event on a thread (-1 for any, 0 for this one) and a CPU (-1 for any).
fn open_event(
    attr: &bindings::perf_event_attr,
    thread: libc::pid_t,
    cpu: libc::c_int,
    leader: Option<BorrowedFd<'_>>,
) -> io::Result<OwnedFd> {
    let mut attr = *attr;
    let leader = leader.map_or(-1, |leader| leader.as_raw_fd());
    let flags = libc::c_ulong::from(bindings::PERF_FLAG_FD_CLOEXEC);
    // SAFETY: `attr` is a whole and initialised structure that outlives the call, and says its own
    // size; the kernel reads it, and writes no more than its `size` field. Counting touches no
    // memory of this process: there is no buffer and no signal.
    let fd =
        unsafe { perf_event_open_sys::perf_event_open(&raw mut attr, thread, cpu, leader, flags) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just opened this descriptor for us, and nobody else has it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}
