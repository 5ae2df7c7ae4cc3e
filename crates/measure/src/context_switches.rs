//! Reads the number of context switches of a thread.

#![expect(unsafe_code, reason = "a system call that no crate of ours wraps")]

/// Returns the number of voluntary and involuntary context switches of the calling thread since its
/// start.
pub fn context_switches() -> u64 {
    // SAFETY: `rusage` has only numeric fields, so all zeros are a valid value, which the kernel
    // overwrites.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_THREAD, &raw mut usage);
        usage
    };
    (usage.ru_nivcsw + usage.ru_nvcsw) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_waits_is_switched() {
        let before = context_switches();
        std::thread::sleep(std::time::Duration::from_millis(1));
        assert!(context_switches() > before);
    }
}
