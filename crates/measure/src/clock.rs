//! Reads the time-stamp counter of a core, which takes a few ns and no system call.

#![expect(unsafe_code, reason = "a counter is read by an instruction")]

use std::{
    sync::OnceLock,
    thread,
    time::{Duration, Instant},
};

/// The time between the two comparisons of the time-stamp counter with the kernel's clock that give
/// the counter's rate. A comparison has an error below a microsecond, so the error of the rate is
/// below 20 ppm.
const CALIBRATION: Duration = Duration::from_millis(100);

/// The number of attempts of one comparison of the counter with the kernel's clock. The attempt
/// that takes the least time is used, because in others the thread may have lost its CPU between
/// the readings of the two clocks.
const COMPARISONS: usize = 16;

/// Reads the time-stamp counter. The counter's rate does not depend on the core's frequency. On
/// x86-64 (`rdtsc`), this holds if CPUID reports an invariant TSC (Intel SDM vol. 3, 19.17); on
/// AArch64 (`CNTVCT_EL0`), always (Arm ARM, D12).
#[inline(always)]
pub fn ticks() -> u64 {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every x86-64 processor has `rdtsc`, and Linux lets programs execute it.
    let ticks = unsafe { std::arch::x86_64::_rdtsc() };
    #[cfg(target_arch = "aarch64")]
    let ticks = {
        let ticks: u64;
        // SAFETY: the instruction reads a register that Linux lets programs read, and accesses no
        // memory.
        unsafe { std::arch::asm!("mrs {}, cntvct_el0", out(reg) ticks, options(nomem, nostack)) };
        ticks
    };
    ticks
}

/// The rate of the time-stamp counter.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Clock {
    pub ticks_per_ns: f64,
}

impl Clock {
    /// Measures the rate: compares the counter with the kernel's clock for a tenth of a second.
    pub fn calibrated() -> Self {
        let (first, began) = compared();
        thread::sleep(CALIBRATION);
        let (last, ended) = compared();
        let elapsed = ended.saturating_duration_since(began);
        Self { ticks_per_ns: last.saturating_sub(first) as f64 / elapsed.as_nanos() as f64 }
    }

    /// Returns the rate of the counter on this machine, which is measured once per process.
    pub fn here() -> Self {
        static HERE: OnceLock<Clock> = OnceLock::new();
        *HERE.get_or_init(Self::calibrated)
    }

    /// Converts `ticks` to a duration, ns.
    pub fn ns(&self, ticks: u64) -> f64 {
        ticks as f64 / self.ticks_per_ns
    }

    /// Converts `span` to ticks of the counter.
    pub fn ticks(&self, span: Duration) -> u64 {
        (span.as_nanos() as f64 * self.ticks_per_ns) as u64
    }
}

/// Reads the time-stamp counter and the kernel's clock at the same moment. Each attempt reads the
/// counter, the kernel's clock, and the counter again. The attempt in which the counter advanced
/// least gives the result.
fn compared() -> (u64, Instant) {
    let reading = || {
        let before = ticks();
        let now = Instant::now();
        let error = ticks().saturating_sub(before);
        (error, before + error / 2, now)
    };
    let closer = |best: (u64, u64, Instant), next: (u64, u64, Instant)| match next.0 < best.0 {
        true => next,
        false => best,
    };
    let (_, ticks, now) = (1..COMPARISONS).map(|_| reading()).fold(reading(), closer);
    (ticks, now)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_become_the_time_that_passed() {
        let clock = Clock { ticks_per_ns: 2.5 };
        assert_eq!(clock.ns(250), 100.0);
        assert_eq!(clock.ticks(Duration::from_nanos(100)), 250);
        let rate = Clock::calibrated().ticks_per_ns;
        // The rate must be between the rate of the slowest generic timer of Arm servers and the
        // rate of the fastest time-stamp counter.
        assert!((0.01..10.0).contains(&rate), "{rate}");
    }
}
