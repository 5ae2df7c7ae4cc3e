//! Runs work in a thread that is bound to one CPU.

use crate::team::pin;
use std::{io, thread};

/// Calls `work` in a thread that is bound to `cpu`. If `cpu` is `None`, the thread is not bound.
///
/// # Errors
/// When the process may not use the CPU, or the thread cannot be started.
pub fn on<T: Send>(cpu: Option<u32>, work: impl FnOnce() -> T + Send) -> io::Result<T> {
    let pinned = || {
        cpu.map_or(Ok(()), pin)?;
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

    fn allowed() -> Vec<u32> {
        let set = rustix::thread::sched_getaffinity(None).unwrap();
        (0..1024).filter(|cpu| set.is_set(*cpu as usize)).collect()
    }

    #[test]
    fn a_thread_stays_on_its_cpu_and_others_do_not() {
        let all = allowed();
        let last = *all.last().unwrap();
        assert_eq!(on(Some(last), allowed).unwrap(), [last]);
        assert_eq!(on(None, allowed).unwrap(), all);
        assert_eq!(allowed(), all);
        assert!(on(Some(1023), || ()).is_err());
        assert!(on(Some(u32::MAX), || ()).is_err());
    }
}
