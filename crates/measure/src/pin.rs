//! Threads that stay on a CPU.

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::{io, thread};

/// The CPUs that this process may use.
///
/// # Errors
/// What the kernel says.
pub fn allowed() -> io::Result<Vec<usize>> {
    let set = sched_getaffinity(None)?;
    Ok((0..CpuSet::MAX_CPU).filter(|cpu| set.is_set(*cpu)).collect())
}

/// Does `work` in a thread that stays on `cpu`, or anywhere where there is none.
///
/// # Errors
/// When the process may not use the CPU, or the thread cannot be started.
pub fn on<T: Send>(cpu: Option<usize>, work: impl FnOnce() -> T + Send) -> io::Result<T> {
    let pinned = || {
        if let Some(cpu) = cpu {
            if cpu >= CpuSet::MAX_CPU {
                return Err(io::ErrorKind::InvalidInput.into());
            }
            let mut set = CpuSet::new();
            set.set(cpu);
            sched_setaffinity(None, &set)?;
        }
        Ok(work())
    };
    thread::scope(|scope| {
        let thread = thread::Builder::new().spawn_scoped(scope, pinned)?;
        thread.join().unwrap_or_else(|why| std::panic::resume_unwind(why))
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;

    #[test]
    fn a_thread_stays_on_its_cpu_and_others_do_not() {
        let all = allowed().unwrap();
        let last = *all.last().unwrap();
        assert_eq!(on(Some(last), || allowed().unwrap()).unwrap(), [last]);
        assert_eq!(on(None, || allowed().unwrap()).unwrap(), all);
        assert_eq!(allowed().unwrap(), all);
        assert!(on(Some(CpuSet::MAX_CPU - 1), || ()).is_err());
        assert!(on(Some(usize::MAX), || ()).is_err());
    }
}
