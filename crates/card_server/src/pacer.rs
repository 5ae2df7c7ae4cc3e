//! Delays completions until the simulated card has completed the commands.
//!
//! The engine of `interleaf_card` runs beside the guest. A command is submitted to the engine when
//! the guest rings the doorbell. The guest sees the completion when the clock that the card follows
//! ([`Clock`]) reaches the completion time of the engine.
//!
//! An emulated guest executes 10 to 100 times slower than a server, so a card at full speed is too
//! fast relative to the guest. With a slow-down of 100, the card takes 100 us for each microsecond
//! of the engine's time. A latency that the guest measures, divided by 100, is then the latency in
//! the engine, plus a hundredth of the costs of the emulation and of the delays of this machine's
//! scheduler.

use std::time::{Duration, Instant};

use interleaf_card::{
    card::Card,
    engine::Engine,
    io::IoCommand,
    settings::{Arbitration, HostMode, Settings},
};

/// The time from the doorbell of a command to its completion.
#[derive(Clone, Debug, PartialEq)]
pub enum Latency {
    /// No time: commands complete at once.
    None,
    /// Commands complete after the latency of a card, multiplied by a slow-down of at least 1.
    Card {
        /// The card whose latency delays the commands.
        card: Box<Card>,
        /// The factor between the engine's time and the clock that the card follows: a command that
        /// takes 1 us in the engine takes `slow_down` us on that clock.
        slow_down: u32,
        /// The clock on which the latency passes: that of this machine, or that of the guest.
        clock: Clock,
    },
}

/// The clock on which the latencies of a card pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clock {
    /// The real time of this machine.
    Host,
    /// The guest's clock: see [`guest_clock`](crate::guest_clock).
    Guest,
}

/// Number of femtoseconds in a nanosecond.
const NANOSECOND: u128 = 1_000_000;

/// Length of an hour, fs. The engine's time has 64 bits and overflows after 5 hours, so the pacer
/// is reset earlier. An idle pacer is reset after one hour. A pacer that is never idle completes
/// all outstanding commands after four hours, and is then reset.
const HOUR: u64 = 3_600_000_000_000_000_000;

/// The clock that a card follows. The value of `Host`, and the field `start` of `Guest`, are the
/// readings of the clock when the engine's time was 0.
enum Time {
    Host(Instant),
    Guest {
        start: Duration,
        /// The time that the guest reported last.
        now: Duration,
    },
}

impl Time {
    fn elapsed(&self) -> Duration {
        match self {
            Self::Host(start) => start.elapsed(),
            Self::Guest { start, now } => now.saturating_sub(*start),
        }
    }

    fn restart(&mut self) {
        match self {
            Self::Host(start) => *start = Instant::now(),
            Self::Guest { start, now } => *start = *now,
        }
    }
}

/// Times commands with an engine, and keeps the commands that the engine has not completed.
pub(crate) struct Pacer {
    card: Card,
    settings: Settings,
    slow_down: u32,
    engine: Engine,
    time: Time,
    /// Tags of the commands that the engine has not completed.
    outstanding: Vec<u32>,
}

impl Pacer {
    pub(crate) fn new(card: &Card, slow_down: u32, clock: Clock) -> Self {
        // The guest's driver itself takes time for the host's part of an I/O, so the engine adds no
        // time for the host.
        let settings = Settings { host: HostMode::External, ..Settings::default() };
        let engine = Engine::new(card, &settings);
        let time = match clock {
            Clock::Host => Time::Host(Instant::now()),
            Clock::Guest => Time::Guest { start: Duration::ZERO, now: Duration::ZERO },
        };
        Self { card: card.clone(), settings, slow_down, engine, time, outstanding: vec![] }
    }

    /// Returns the clock that the card follows: that of this machine or that of the guest.
    pub(crate) fn clock(&self) -> Clock {
        match self.time {
            Time::Host(_) => Clock::Host,
            Time::Guest { .. } => Clock::Guest,
        }
    }

    /// Sets the guest's time, if the card follows the guest's clock.
    pub(crate) fn tell(&mut self, guest: Duration) {
        if let Time::Guest { now, .. } = &mut self.time {
            *now = guest;
        }
    }

    /// Sets the arbitration among submission queues that the host has chosen.
    pub(crate) fn arbitrate(&mut self, arbitration: &Arbitration) {
        if self.settings.arbitration != *arbitration {
            self.settings.arbitration = arbitration.clone();
            self.engine.set_arbitration(arbitration);
        }
    }

    /// Drops all commands, and begins again with an idle engine at the time 0.
    pub(crate) fn reset(&mut self) {
        self.engine = Engine::new(&self.card, &self.settings);
        self.time.restart();
        self.outstanding.clear();
    }

    /// Returns the present time of the engine, fs: the present time of the clock that the card
    /// follows, converted to a time of the engine. The result is at least `engine.now()`, because
    /// the engine's time must not go back.
    fn now(&self) -> u64 {
        let real = self.time.elapsed().as_nanos() * NANOSECOND / u128::from(self.slow_down);
        u64::try_from(real).unwrap_or(u64::MAX).max(self.engine.now())
    }

    /// Submits a command to the engine, and returns true. Returns false if the card does not accept
    /// the command; the caller then completes the command at once.
    pub(crate) fn submit(&mut self, command: IoCommand) -> bool {
        if self.outstanding.is_empty() && self.now() > HOUR {
            self.reset();
        }
        let accepted = self.engine.submit(self.now(), command).is_ok();
        if accepted {
            self.outstanding.push(command.tag);
        }
        accepted
    }

    /// Returns the tags of the commands that have completed since the last call. After four hours
    /// of engine time, all outstanding commands count as complete, and the pacer is reset (see
    /// [`HOUR`]).
    pub(crate) fn completed(&mut self) -> Vec<u32> {
        let now = self.now();
        if now > 4 * HOUR {
            let tags = std::mem::take(&mut self.outstanding);
            self.reset();
            return tags;
        }
        let mut tags = vec![];
        self.engine.run_until(now, &mut (), |completion| tags.push(completion.tag));
        self.outstanding.retain(|tag| !tags.contains(tag));
        tags
    }

    /// Returns the guest's time at which the next command completes if no further command is
    /// submitted; `None` if no command is outstanding, or the card follows the clock of this
    /// machine.
    pub(crate) fn next_completion(&self) -> Option<Duration> {
        let Time::Guest { start, .. } = self.time else { return None };
        if self.outstanding.is_empty() {
            return None;
        }
        // Run a copy of the engine ahead to its next completion. The engine itself must not pass
        // the present time, because the guest may still submit commands before that completion.
        let mut ahead = self.engine.clone();
        ahead.next_completion(u64::MAX, &mut ())?;
        Some(start + self.of_clock(ahead.now()))
    }

    /// Converts a time of the engine, fs, into a time on the clock that the card follows:
    /// multiplies by the slow-down, and rounds up to nanoseconds.
    fn of_clock(&self, engine: u64) -> Duration {
        let nanos = (u128::from(engine) * u128::from(self.slow_down)).div_ceil(NANOSECOND);
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }

    /// Returns the time until the engine's next event, on the clock that the card follows; `None`
    /// if no command is outstanding.
    pub(crate) fn wait(&self) -> Option<Duration> {
        if self.outstanding.is_empty() {
            return None;
        }
        Some(self.of_clock(self.engine.next_event()?).saturating_sub(self.time.elapsed()))
    }
}

#[cfg(test)]
mod tests {
    use interleaf_card::{card, io::Operation};

    use super::*;

    fn read(tag: u32) -> IoCommand {
        IoCommand {
            tag,
            queue: 0,
            operation: Operation::Read,
            offset: 4096 * u64::from(tag),
            bytes: 4096,
            force_unit_access: false,
        }
    }

    #[test]
    fn commands_are_complete_after_the_latency_of_the_card() {
        let card = card::by_name("flashtec-dram").unwrap();
        // With this slow-down, a read that takes microseconds of the engine's time takes more than
        // an hour of this machine's time.
        let mut pacer = Pacer::new(&card, u32::MAX, Clock::Host);
        assert_eq!((pacer.wait(), pacer.completed()), (None, vec![]));
        assert!(pacer.submit(read(1)) && pacer.submit(read(2)));
        assert!(pacer.completed().is_empty());
        assert!(pacer.wait().is_some());
        // The engine takes less than an hour of its own time for both commands.
        let mut tags = vec![];
        pacer.engine.run_until(HOUR, &mut (), |completion| tags.push(completion.tag));
        assert_eq!(tags, [1, 2]);
        assert!(!pacer.submit(IoCommand { queue: u16::MAX, ..read(3) }));
    }

    #[test]
    fn a_pacer_that_is_never_idle_starts_again() {
        let card = card::by_name("flashtec-dram").unwrap();
        let mut pacer = Pacer::new(&card, 1, Clock::Host);
        assert!(pacer.submit(read(1)));
        pacer.engine.run_until(4 * HOUR + 1, &mut (), |_| ());
        assert_eq!(pacer.completed(), [1]);
        assert!(pacer.submit(read(2)));
        assert!(pacer.now() < HOUR);
    }

    #[test]
    fn a_reset_forgets_commands() {
        let card = card::by_name("all-mram").unwrap();
        let mut pacer = Pacer::new(&card, u32::MAX, Clock::Host);
        assert!(pacer.submit(read(1)));
        pacer.reset();
        assert_eq!(pacer.wait(), None);
        assert!(pacer.submit(read(1)));
    }
}
