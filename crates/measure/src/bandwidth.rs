//! Measures the bandwidth of a team of threads in short windows, so that a disturbance affects one
//! window and not the whole measurement.

use crate::team::Team;
use std::{
    thread,
    time::{Duration, Instant},
};

/// The number and the length of the windows of time in which a bandwidth is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Windows {
    /// The time before the first window, in which caches fill and cores reach their frequency.
    pub warm_up: Duration,
    /// The length of a window. A window is much longer than the interval between two updates of a
    /// thread's counter (about 10 us) and than the handling of a timer tick, but so short that a
    /// disturbance affects few windows.
    pub window: Duration,
    pub count: usize,
}

impl Default for Windows {
    fn default() -> Self {
        let ms = Duration::from_millis;
        Self { warm_up: ms(100), window: ms(20), count: 50 }
    }
}

/// Measures the bandwidth of `team` in each window, GB/s, from the bytes that the threads loaded
/// and stored. `proceed` is called after each window; the result is `None` if `proceed` returns
/// false.
pub fn watch(
    team: &Team,
    windows: &Windows,
    proceed: &mut dyn FnMut() -> bool,
) -> Option<Vec<f64>> {
    thread::sleep(windows.warm_up);
    let slack = windows.window / 256;
    let mut last = read_progress(team, slack);
    let mut next = || {
        thread::sleep(windows.window);
        let now = read_progress(team, slack);
        let (bytes, span) = (now.0 - last.0, now.1 - last.1);
        last = now;
        proceed().then(|| bytes as f64 / span.as_nanos() as f64)
    };
    (0..windows.count).map(|_| next()).collect()
}

/// The maximum number of attempts of [`read_progress`] to read the bytes without being preempted.
const READS_MAX: u32 = 8;

/// Reads the number of bytes that a team has loaded and stored so far, and the time of this
/// reading. The calling thread may be preempted between the reading of the bytes and the reading of
/// the clock. The function therefore reads the clock before and after the bytes. It repeats the
/// reading until the two times are at most `slack` apart, or [`READS_MAX`] attempts were made.
fn read_progress(team: &Team, slack: Duration) -> (u64, Instant) {
    let mut reads = 1;
    loop {
        let (before, bytes) = (Instant::now(), team.program_bytes());
        let now = Instant::now();
        if now - before <= slack || reads == READS_MAX {
            return (bytes, now);
        }
        reads += 1;
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;
    use crate::{
        isa::Isa,
        region::Pages,
        team::Load,
        traffic::{Pattern, Traffic},
    };
    use interleaf_linux::place::mempolicy::Policy;

    #[test]
    fn windows_agree_with_the_total_work() {
        let load = Load {
            traffic: Traffic::READ,
            pattern: Pattern::Sequential,
            isa: *Isa::available().last().unwrap(),
            kernel: None,
            cpus: vec![0],
            bytes: 4 << 20,
            pages: Pages::Small,
            policy: Policy::Default,
            seed: 1,
            delay: Duration::ZERO,
        };
        let ms = Duration::from_millis;
        let windows = Windows { warm_up: ms(0), window: ms(5), count: 10 };
        let team = Team::start(&load).unwrap();
        let windows_gbps = watch(&team, &windows, &mut || true).unwrap();
        let sums = team.stop().unwrap();
        assert_eq!(windows_gbps.len(), 10);
        // The team also works before and after the windows, so it must have loaded at least the
        // bytes that the windows count.
        let seen: f64 = windows_gbps.iter().map(|gbps| gbps * 5e6).sum();
        assert!(seen > 0.0 && sums[0].loaded as f64 * 64.0 >= seen);
    }
}
