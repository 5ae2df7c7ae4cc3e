//! The time slice of the calling thread.
//!
//! The scheduler (EEVDF) gives every thread a virtual deadline, which is its time slice after its
//! eligible time, and runs the thread with the earliest deadline. A thread that needs the CPU for
//! some microseconds at a time therefore waits less if its slice is short. Its share of the CPU
//! stays the same. Threads set their own slice since Linux 6.12 (`sched_setattr(2)`); earlier
//! kernels ignore the value.

#![expect(unsafe_code, reason = "rustix has no sched_setattr")]

use rustix::io::Errno;
use std::{mem, time::Duration};

/// The scheduler's minimum of a time slice.
pub(crate) const SLICE_MIN: Duration = Duration::from_micros(100);

/// Sets the time slice of the calling thread. The scheduling policy and the nice value stay as they
/// are.
///
/// # Errors
/// When the kernel refuses the call, or the thread does not run under the policy `SCHED_OTHER`.
pub(crate) fn set_own(slice: Duration) -> Result<(), Errno> {
    let mut attributes = own_attributes()?;
    if attributes.sched_policy != libc::SCHED_OTHER as u32 {
        return Err(Errno::INVAL);
    }
    attributes.sched_runtime = slice.as_nanos() as u64;
    // SAFETY: the kernel only reads the structure. Thread 0 is the calling thread, and no flags are
    // defined.
    let done = unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attributes, 0) };
    result(done)
}

/// The scheduling attributes of the calling thread.
fn own_attributes() -> Result<libc::sched_attr, Errno> {
    // SAFETY: the structure is of integers, for all of which zero is a value.
    let mut attributes: libc::sched_attr = unsafe { mem::zeroed() };
    let size = mem::size_of_val(&attributes);
    // SAFETY: the kernel writes at most `size` bytes to the structure.
    let done = unsafe { libc::syscall(libc::SYS_sched_getattr, 0, &raw mut attributes, size, 0) };
    result(done).map(|()| attributes)
}

fn result(done: libc::c_long) -> Result<(), Errno> {
    match done {
        0 => Ok(()),
        _ => Err(Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::INVAL)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_slice_changes_neither_policy_nor_nice_value() {
        std::thread::spawn(|| {
            let Ok(before) = own_attributes() else { return };
            if set_own(SLICE_MIN).is_err() {
                return;
            }
            let after = own_attributes().expect("attributes");
            assert_eq!(after.sched_policy, before.sched_policy);
            assert_eq!(after.sched_nice, before.sched_nice);
            assert_eq!(after.sched_flags, before.sched_flags);
            // Kernels before Linux 6.12 have no slices of threads and return 0.
            assert!([0, 100_000].contains(&after.sched_runtime), "{}", after.sched_runtime);
        })
        .join()
        .expect("attributes that stay");
    }
}
