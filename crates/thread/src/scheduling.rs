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
//!
//! While the pager's thread wakes a thread on the CPU that they share, it has the policy
//! `SCHED_IDLE`: the scheduler then treats this CPU as idle, and leaves the woken thread on it.

#![expect(unsafe_code, reason = "rustix has no sched_setattr")]

use rustix::{
    io::Errno,
    process::{Resource, getrlimit},
};
use std::{
    io, mem,
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    time::Duration,
};

/// The shortest time slice that the scheduler (EEVDF) allows.
const SLICE_MIN: Duration = Duration::from_micros(100);

/// The lowest nice value.
const NICE_MIN: i32 = -20;

/// The lowest real-time priority.
const PRIORITY_MIN: u32 = 1;

/// The scheduling policy of the pager's thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// The original policy of the thread, `SCHED_OTHER`, with a short time slice.
    Normal,
    /// The lowest real-time priority.
    RealTime,
    /// `SCHED_IDLE`: a thread with another policy that is ready to run preempts this thread.
    Idle,
}

/// True after the program has changed its user. The pager's thread may then lack the right to leave
/// `SCHED_IDLE`.
static IS_IDLE_FORBIDDEN: AtomicBool = AtomicBool::new(false);

/// Gives a thread of the pager its normal policy for good. Called in a signal handler of this
/// thread, before the thread loses its rights because the program changes its user.
pub fn keep_normal_policy() {
    IS_IDLE_FORBIDDEN.store(true, Relaxed);
    if let Ok(mut own) = attributes()
        && own.sched_policy == libc::SCHED_IDLE as u32
    {
        own.sched_policy = libc::SCHED_OTHER as u32;
        own.sched_runtime = SLICE_MIN.as_nanos() as u64;
        let _ = set_attributes(&own);
    }
}

/// The scheduling of the pager's thread. Only this thread calls the methods.
#[derive(Debug)]
pub struct Scheduling {
    /// The attributes of the thread under [`Policy::Normal`].
    normal: libc::sched_attr,
    policy: Policy,
    may_be_realtime: bool,
    may_be_idle: bool,
}

impl Scheduling {
    /// Sets a short time slice for the calling thread. Checks which policies the thread may have.
    ///
    /// # Errors
    /// When the kernel refuses the call, or the thread does not run under the policy `SCHED_OTHER`.
    pub fn of_this_thread() -> Result<Self, Errno> {
        let mut normal = attributes()?;
        if normal.sched_policy != libc::SCHED_OTHER as u32 {
            return Err(Errno::INVAL);
        }
        normal.sched_runtime = SLICE_MIN.as_nanos() as u64;
        // A thread may leave `SCHED_IDLE` only if it may also lower its nice value.
        let lower = libc::sched_attr { sched_nice: normal.sched_nice - 1, ..normal };
        let may_be_idle = normal.sched_nice > NICE_MIN && set_attributes(&lower).is_ok();
        set_attributes(&normal)?;
        // Two kinds of processes get no real-time priority: processes with a positive nice value,
        // which are meant to wait for other processes, and processes with a limit of real-time CPU
        // time, which would be ended by SIGXCPU.
        let may_be_realtime =
            normal.sched_nice <= 0 && getrlimit(Resource::Rttime).current.is_none();
        Ok(Self { normal, policy: Policy::Normal, may_be_realtime, may_be_idle })
    }

    /// True if the thread may have the policy.
    pub fn may_be(&self, policy: Policy) -> bool {
        match policy {
            Policy::Normal => true,
            Policy::RealTime => self.may_be_realtime,
            Policy::Idle => self.may_be_idle && !IS_IDLE_FORBIDDEN.load(Relaxed),
        }
    }

    /// Sets the policy of the thread, unless the thread may not have it ([`Scheduling::may_be`]).
    /// If the kernel refuses the policy, later calls with this policy change nothing. Returns true
    /// if the thread has the policy after the call.
    pub fn set(&mut self, policy: Policy) -> bool {
        if policy != self.policy && self.may_be(policy) {
            match self.set_policy(policy) {
                Ok(()) => self.policy = policy,
                Err(_) if policy == Policy::RealTime => self.may_be_realtime = false,
                Err(_) => self.may_be_idle = false,
            }
        }
        self.policy == policy
    }

    fn set_policy(&self, policy: Policy) -> Result<(), Errno> {
        let mut wanted = self.normal;
        match policy {
            Policy::Normal => {}
            Policy::RealTime => {
                wanted.sched_policy = libc::SCHED_RR as u32;
                wanted.sched_priority = PRIORITY_MIN;
                wanted.sched_nice = 0;
                wanted.sched_runtime = 0;
            }
            Policy::Idle => wanted.sched_policy = libc::SCHED_IDLE as u32,
        }
        // With this flag, threads and processes that this thread creates while it has real-time
        // priority get the normal policy. The flag is never cleared, because a thread without
        // privileges may not clear it.
        wanted.sched_flags |= libc::SCHED_FLAG_RESET_ON_FORK as u64;
        set_attributes(&wanted)
    }
}

/// Number of times that the calling thread had to leave its CPU to another thread.
pub fn preemptions() -> i64 {
    // SAFETY: the structure has only integers, so all zeros is a valid value, and the kernel writes
    // only the structure.
    unsafe {
        let mut usage: libc::rusage = mem::zeroed();
        libc::getrusage(libc::RUSAGE_THREAD, &raw mut usage);
        usage.ru_nivcsw
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
            let has_priority = scheduling.set(Policy::RealTime);
            let (own, inherited) = (policy(), thread::spawn(policy).join().expect("a policy"));
            let is_realtime = own == Ok(libc::SCHED_RR as u32);
            assert_eq!(is_realtime, has_priority, "{own:?}");
            assert_eq!(inherited, Ok(libc::SCHED_OTHER as u32));
            assert!(scheduling.set(Policy::Normal));
            assert_eq!(policy(), Ok(libc::SCHED_OTHER as u32));
        };
        thread::spawn(test).join().expect("the normal policy");
    }

    #[test]
    fn a_thread_that_becomes_idle_returns_to_its_normal_policy() {
        let policy = || attributes().map(|attributes| attributes.sched_policy);
        let test = move || {
            let Ok(mut scheduling) = Scheduling::of_this_thread() else { return };
            let nice = attributes().map(|own| own.sched_nice);
            let is_idle = scheduling.set(Policy::Idle);
            assert_eq!(is_idle, scheduling.may_be(Policy::Idle));
            assert_eq!(policy() == Ok(libc::SCHED_IDLE as u32), is_idle);
            assert!(scheduling.set(Policy::Normal));
            assert_eq!(policy(), Ok(libc::SCHED_OTHER as u32));
            assert_eq!(attributes().map(|own| own.sched_nice), nice);
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
            assert!(!scheduling.set(Policy::RealTime));
            assert_eq!(attributes().map(|own| own.sched_policy), Ok(libc::SCHED_OTHER as u32));
            assert_eq!(attributes().map(|own| own.sched_nice), Ok(5));
        };
        thread::spawn(test).join().expect("a nice value that stays");
    }
}
