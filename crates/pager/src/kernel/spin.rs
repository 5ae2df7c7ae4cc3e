//! Decides whether the pager's thread may spin before it blocks.
//!
//! On an idle CPU, spinning saves the time of a wake-up. On a busy CPU each yield gives the CPU to
//! another thread for a time slice of some milliseconds, and the scheduler charges the time that
//! was spun, so that the next fault waits for longer. A blocked thread costs nothing, and the
//! scheduler runs it soon after its wake-up.

use std::{
    thread,
    time::{Duration, Instant},
};

/// If a `sched_yield(2)` takes longer than this, another thread has run on the CPU: neither the
/// pager's thread nor a thread that waits for a page runs this long.
const YIELD_MAX: Duration = Duration::from_micros(200);

/// The machine counts as busy when this number of yields within [`PREEMPTED_WITHIN`] took too long.
/// The number is above 1, because on a quiet machine a kernel thread runs now and then.
const PREEMPTED_MAX: u32 = 2;
const PREEMPTED_WITHIN: Duration = Duration::from_millis(20);

/// The length of the first pause, during which the thread does not spin because the machine is
/// busy. If the machine is still busy after a pause, the next pause is twice as long, up to
/// `PAUSE_MAX`.
const PAUSE_MIN: Duration = Duration::from_millis(20);
const PAUSE_MAX: Duration = Duration::from_secs(2);

/// Pauses of spinning while other threads need the CPU.
#[derive(Debug, Default)]
pub(crate) struct SpinPause {
    /// The number of yields that took too long, and the time of the first of them.
    preempted: Option<(Instant, u32)>,
    /// The end and the length of the last pause.
    last: Option<(Instant, Duration)>,
}

impl SpinPause {
    pub(crate) fn may_spin(&self, now: Instant) -> bool {
        self.last.is_none_or(|(end, _)| now >= end)
    }

    /// Yields the CPU to other threads, and begins a pause if they are busy.
    pub(crate) fn yield_cpu(&mut self) {
        let began = Instant::now();
        thread::yield_now();
        let now = Instant::now();
        if now - began > YIELD_MAX {
            self.note_preempted(now);
        }
    }

    /// Notes a yield during which other threads ran.
    fn note_preempted(&mut self, now: Instant) {
        let (since, number) = match self.preempted {
            Some((since, number)) if now - since <= PREEMPTED_WITHIN => (since, number + 1),
            _ => (now, 1),
        };
        self.preempted = Some((since, number));
        if number >= PREEMPTED_MAX {
            self.preempted = None;
            self.pause(now);
        }
    }

    fn pause(&mut self, now: Instant) {
        // If at least the length of the last pause has passed since its end, the machine was not
        // busy in this time, and the shortest pause follows.
        let length = match self.last {
            Some((end, length)) if now < end + length => (length * 2).min(PAUSE_MAX),
            _ => PAUSE_MIN,
        };
        self.last = Some((now + length, length));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_while_the_machine_stays_busy() {
        let ms = Duration::from_millis;
        let mut now = Instant::now();
        let mut spin = SpinPause::default();
        assert!(spin.may_spin(now));
        spin.note_preempted(now);
        assert!(spin.may_spin(now), "a single long yield");
        now += PREEMPTED_WITHIN + ms(1);
        spin.note_preempted(now);
        assert!(spin.may_spin(now), "long yields that are far apart");
        let mut pauses = vec![];
        for _ in 0..9 {
            spin.note_preempted(now);
            spin.note_preempted(now);
            let began = now;
            while !spin.may_spin(now) {
                now += ms(1);
            }
            pauses.push((now - began).as_millis());
        }
        assert_eq!(pauses, [20, 40, 80, 160, 320, 640, 1280, 2000, 2000]);
        now += PAUSE_MAX;
        spin.note_preempted(now);
        spin.note_preempted(now);
        assert!(!spin.may_spin(now + PAUSE_MIN - ms(1)));
        assert!(spin.may_spin(now + PAUSE_MIN), "the machine was quiet for a time");
    }
}
