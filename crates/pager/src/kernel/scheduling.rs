//! Scheduling of the pager's thread.
//!
//! The pager's thread needs the CPU for some microseconds at a time, and the program's threads wait
//! for it. Therefore the pager's thread always has a short time slice. The scheduler (EEVDF) gives
//! each thread a virtual deadline: the time from which the thread may run, plus its time slice. The
//! thread with the earliest deadline runs. With a short slice, the thread waits less for a CPU, but
//! its share of the CPU stays the same. Threads can set their own slice since Linux 6.12
//! (`sched_setattr(2)`). Earlier kernels ignore the value.
//!
//! While other threads need the CPUs, a short slice is not enough: a fault takes two wake-ups of
//! the pager's thread, one for the fault and one for the page that was read, while a page fault
//! that the kernel handles takes none. The pager's thread then has the lowest real-time priority,
//! if the process may use it, and runs as soon as it is woken.

#![expect(unsafe_code, reason = "rustix has no sched_setattr")]

use rustix::{
    io::Errno,
    process::{Resource, getrlimit},
};
use std::{io, mem, time::Duration};

/// The shortest time slice that the scheduler (EEVDF) allows.
const SLICE_MIN: Duration = Duration::from_micros(100);

/// The lowest real-time priority.
const PRIORITY_MIN: u32 = 1;

/// The scheduling of the pager's thread. Only this thread calls the functions.
#[derive(Debug)]
pub(crate) struct Scheduling {
    /// The attributes of the thread while it has no real-time priority: its original attributes,
    /// but with a short time slice.
    normal: libc::sched_attr,
    is_realtime: bool,
    may_be_realtime: bool,
}

impl Scheduling {
    /// Sets a short time slice for the calling thread. Checks whether the thread may get real-time
    /// priority.
    ///
    /// # Errors
    /// When the kernel refuses the call, or the thread does not run under the policy `SCHED_OTHER`.
    pub(crate) fn of_this_thread() -> Result<Self, Errno> {
        let mut normal = attributes()?;
        if normal.sched_policy != libc::SCHED_OTHER as u32 {
            return Err(Errno::INVAL);
        }
        normal.sched_runtime = SLICE_MIN.as_nanos() as u64;
        set_attributes(&normal)?;
        // Two kinds of processes get no real-time priority: processes with a positive nice value,
        // which are meant to wait for other processes, and processes with a limit of real-time CPU
        // time, which would be ended by SIGXCPU.
        let may_be_realtime =
            normal.sched_nice <= 0 && getrlimit(Resource::Rttime).current.is_none();
        Ok(Self { normal, is_realtime: false, may_be_realtime })
    }

    /// Sets whether the thread has real-time priority. If the kernel refuses the change, the thread
    /// keeps its policy, and later calls change nothing. Returns true if the thread has real-time
    /// priority after the call.
    pub(crate) fn set_realtime(&mut self, is_realtime: bool) -> bool {
        if is_realtime != self.is_realtime && self.may_be_realtime {
            match self.set_policy(is_realtime) {
                Ok(()) => self.is_realtime = is_realtime,
                Err(_) => self.may_be_realtime = false,
            }
        }
        self.is_realtime
    }

    fn set_policy(&self, is_realtime: bool) -> Result<(), Errno> {
        let mut wanted = self.normal;
        if is_realtime {
            wanted.sched_policy = libc::SCHED_RR as u32;
            wanted.sched_priority = PRIORITY_MIN;
            wanted.sched_nice = 0;
            wanted.sched_runtime = 0;
        }
        // With this flag, threads and processes that this thread creates get the normal policy. The
        // flag is never cleared, because a thread without privileges may not clear it.
        wanted.sched_flags |= libc::SCHED_FLAG_RESET_ON_FORK as u64;
        set_attributes(&wanted)
    }
}

/// The scheduling attributes of the calling thread.
fn attributes() -> Result<libc::sched_attr, Errno> {
    // SAFETY: the structure has only integers, so all zeros is a valid value.
    let mut attributes: libc::sched_attr = unsafe { mem::zeroed() };
    let size = mem::size_of_val(&attributes);
    // SAFETY: the kernel writes at most `size` bytes to the structure. Thread 0 is the calling
    // thread.
    let done = unsafe { libc::syscall(libc::SYS_sched_getattr, 0, &raw mut attributes, size, 0) };
    result(done).map(|()| attributes)
}

fn set_attributes(attributes: &libc::sched_attr) -> Result<(), Errno> {
    // SAFETY: the kernel only reads the structure. Thread 0 is the calling thread. The last
    // argument has no flags.
    let done = unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const *attributes, 0) };
    result(done)
}

fn result(done: libc::c_long) -> Result<(), Errno> {
    match done {
        0 => Ok(()),
        _ => Err(Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::INVAL)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    #[test]
    fn a_short_slice_changes_neither_policy_nor_nice_value() {
        let test = || {
            let Ok(before) = attributes() else { return };
            if Scheduling::of_this_thread().is_err() {
                return;
            }
            let after = attributes().expect("attributes");
            assert_eq!(after.sched_policy, before.sched_policy);
            assert_eq!(after.sched_nice, before.sched_nice);
            assert_eq!(after.sched_flags, before.sched_flags);
            // Kernels before Linux 6.12 have no time slices of threads, and return 0.
            assert!([0, 100_000].contains(&after.sched_runtime), "{}", after.sched_runtime);
        };
        thread::spawn(test).join().expect("attributes that stay");
    }

    #[test]
    fn real_time_priority_is_neither_inherited_nor_kept() {
        let policy = || attributes().map(|attributes| attributes.sched_policy);
        let test = move || {
            let Ok(mut scheduling) = Scheduling::of_this_thread() else { return };
            let has_priority = scheduling.set_realtime(true);
            let (own, inherited) = (policy(), thread::spawn(policy).join().expect("a policy"));
            let is_realtime = own == Ok(libc::SCHED_RR as u32);
            assert_eq!(is_realtime, has_priority, "{own:?}");
            assert_eq!(inherited, Ok(libc::SCHED_OTHER as u32));
            assert!(!scheduling.set_realtime(false));
            assert_eq!(policy(), Ok(libc::SCHED_OTHER as u32));
        };
        thread::spawn(test).join().expect("the normal policy");
    }

    #[test]
    fn a_nice_thread_has_no_real_time_priority() {
        let test = || {
            let Ok(mut nice) = attributes() else { return };
            nice.sched_nice = 5;
            set_attributes(&nice).expect("a lower priority");
            let mut scheduling = Scheduling::of_this_thread().expect("a short slice");
            assert!(!scheduling.set_realtime(true));
            assert_eq!(attributes().map(|own| own.sched_policy), Ok(libc::SCHED_OTHER as u32));
            assert_eq!(attributes().map(|own| own.sched_nice), Ok(5));
        };
        thread::spawn(test).join().expect("a nice value that stays");
    }
}
