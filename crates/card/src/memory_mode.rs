//! Simulates the card as memory: loads and stores of a processor, and direct access by another
//! device.
//!
//! ```text
//! load       read request ──▶ link ──▶ memory channel ──▶ link ──▶ data
//! store      write-combining buffer ──▶ link ──▶ buffer ──▶ memory channel
//! persist    read request behind the stores; its data return when all stores are safe
//! ```
//!
//! A load is a non-posted read: it costs a round trip. Stores are posted writes of 64 bytes from a
//! write-combining buffer, and the processor does not wait for them. When the memory is slower than
//! the link, the credits of the card run out and stop the stores. A store is persistent when its
//! data are durable by the card's rule ([`Durable`](crate::card::Durable)). The processor reads
//! back to learn that its stores are persistent, because a read does not pass posted writes (PCI
//! Express Base Specification 3.1, 2.4.1). A peer device does the same with larger packets, through
//! the root complex or a switch.
//!
//! An access is 8 to 4096 bytes. A processor issues an access as lines of 64 bytes, a peer as
//! packets up to the maximum payload; all of these are sent at once. The memory serves the row
//! segment (512 bytes) of an access when all packets of the segment have arrived. Segments of
//! different accesses are not merged: each segment opens its row, and waits for the row cycle of
//! its bank. All requests pass one direction of the link, so their order on the link is the order
//! at the memory channel.
//!
//! Not modelled: the 10 to 16 line fill buffers of a core. In a real processor these buffers limit
//! the outstanding lines of a thread (`outstanding * bytes / 64`); the simulation does not limit
//! the outstanding lines.

mod run;

use crate::{
    card::{BarSpec, Card},
    engine::Utilisation,
    load::{Bound, DirectionResult, Latencies, Stop, too_long},
    settings::Settings,
};
use core::fmt;
use run::Run;

/// The device that reads and writes the card's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Initiator {
    /// A processor of the host.
    Processor,
    /// Another PCIe device (peer-to-peer DMA).
    Peer,
}

impl Initiator {
    /// Returns the name of the initiator as an access mode in JSON records: `memory` or `peer`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Processor => "memory",
            Self::Peer => "peer",
        }
    }

    /// Returns the time that a packet takes from the initiator to the port of the link and back,
    /// fs. The values are assumed: 100 ns for a processor with its root complex; 300 ns for a peer,
    /// which is behind a second link and a switch or root complex.
    const fn round_trip_fs(self) -> u64 {
        match self {
            Self::Processor => 100_000_000,
            Self::Peer => 300_000_000,
        }
    }
}

/// A load on the card's memory: kind, size and addresses of its accesses, and times of its run.
#[derive(Clone, Debug, PartialEq)]
pub struct MemoryLoad {
    /// The device that reads and writes the card's memory.
    pub initiator: Initiator,
    /// Percentage of loads among loads and stores.
    pub read_percent: u32,
    /// Size of an access, bytes: a power of two from 8 to 4096.
    pub bytes: u32,
    /// The number of accesses, loads and stores together, that each thread keeps outstanding. In a
    /// processor, outstanding accesses occupy load buffers and write-combining buffers.
    pub outstanding: u32,
    /// The number of threads of the processor, or of DMA streams of the peer.
    pub threads: u32,
    /// True for random addresses, false for consecutive addresses.
    pub random: bool,
    /// True for random addresses with repetition. If false, each address is used once before any
    /// address is used again.
    pub repeats: bool,
    /// The number of bytes that the load uses, from the start of the BAR; `None` for the whole BAR.
    pub size: Option<u64>,
    /// The number of stores after which a thread reads the last stored address back, which makes
    /// the stores persistent; 0 if threads never read back.
    pub persist_every: u32,
    /// Time of the run before the measurement begins, fs.
    pub ramp_fs: u64,
    /// The condition that ends the run.
    pub stop: Stop,
    /// The seed of all random numbers of the load.
    pub seed: u64,
}

impl Default for MemoryLoad {
    fn default() -> Self {
        Self {
            initiator: Initiator::Processor,
            read_percent: 100,
            bytes: 64,
            outstanding: 1,
            threads: 1,
            random: true,
            repeats: false,
            size: None,
            persist_every: 0,
            ramp_fs: 0,
            stop: Stop::Ios(100_000),
            seed: 1,
        }
    }
}

/// The reason why a card does not allow a load on its memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoryLoadError {
    /// The name of the option in fio.
    pub option: &'static str,
    /// The problem, as text for the user.
    pub problem: String,
    /// The remedy, as text for the user.
    pub hint: String,
}

impl fmt::Display for MemoryLoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.option, self.problem)
    }
}

impl std::error::Error for MemoryLoadError {}

/// The measurements of a load on memory.
#[derive(Clone, Debug, PartialEq)]
pub struct MemoryOutcome {
    /// The measurements of loads. A latency is the time from the request to the data; there is no
    /// submission latency.
    pub loads: DirectionResult,
    /// The measurements of stores. A latency is the time from the store until its write-combining
    /// buffer is free.
    pub stores: DirectionResult,
    /// Latencies of read-backs ([`MemoryLoad::persist_every`]). The data of a read-back return once
    /// all earlier stores are persistent.
    pub persists: Latencies,
    /// The time of the measurement: the run without its ramp time, fs.
    pub span_fs: u64,
    /// The number of loads and stores completed in the whole run.
    pub completed: u64,
    /// The utilisation of link, credits and memory during the measurement.
    pub utilisation: Utilisation,
    /// The resource that limits the throughput.
    pub bound_by: Bound,
}

impl MemoryOutcome {
    /// Returns the number of bytes loaded and stored per second.
    pub fn bytes_per_s(&self) -> f64 {
        self.loads.bytes_per_s + self.stores.bytes_per_s
    }

    /// Returns the mean latency of loads and stores together, ns.
    pub fn mean_ns(&self) -> f64 {
        DirectionResult::mean_ns([&self.loads, &self.stores])
    }
}

/// Minimum and maximum size of an access, bytes: a register, and a page.
pub const ACCESS_BYTES: [u32; 2] = [8, 4096];

/// Maximum number of outstanding accesses of all threads, which bounds the simulation's memory.
const OUTSTANDING_MAX: u64 = 1 << 16;

impl MemoryLoad {
    /// Checks that `card` allows this load. Returns the BAR of the card.
    ///
    /// # Errors
    /// If an option of the load is out of range, or the card has no BAR. The error names the first
    /// wrong option.
    pub fn check<'a>(&self, card: &'a Card) -> Result<&'a BarSpec, MemoryLoadError> {
        let error =
            |option, problem: String, hint: String| Err(MemoryLoadError { option, problem, hint });
        let Some(bar) = &card.bar else {
            let problem = format!("{} has no BAR for its memory", card.name);
            return error("access", problem, "use it as storage, or add [bar] to its file".into());
        };
        let [least, most] = ACCESS_BYTES;
        if !self.bytes.is_power_of_two() || !(least..=most).contains(&self.bytes) {
            let problem = format!("an access has {} bytes", self.bytes);
            return error("bs", problem, format!("use a power of two from {least} to {most}"));
        }
        let outstanding = u64::from(self.outstanding) * u64::from(self.threads);
        if !(1..=OUTSTANDING_MAX).contains(&outstanding) {
            let problem = format!("{outstanding} accesses cannot be outstanding");
            let hint = format!("use 1 to {OUTSTANDING_MAX}, of all threads together");
            return error("iodepth", problem, hint);
        }
        if self.read_percent > 100 {
            let problem = format!("{} % are no part", self.read_percent);
            return error("rwmixread", problem, "use 0 to 100".into());
        }
        let size = self.size_on(bar);
        if size < self.bytes.into() || size > bar.bytes {
            let problem = format!("{size} bytes are no part of the BAR of {}", card.name);
            return error("size", problem, format!("use {} to {}", self.bytes, bar.bytes));
        }
        if let Some(option) = too_long(self.ramp_fs, self.stop) {
            return error(option, "it is above an hour".into(), "use at most 3600s".into());
        }
        match self.stop {
            Stop::Ios(0) | Stop::Time(0) => {
                error("runtime", "there are no accesses".into(), "use a time such as 10ms".into())
            }
            _ => Ok(bar),
        }
    }

    /// Runs the load on `card`. Of `settings`, only `ideal` has an effect.
    ///
    /// # Errors
    /// If the card does not allow the load.
    pub fn run(&self, card: &Card, settings: &Settings) -> Result<MemoryOutcome, MemoryLoadError> {
        let bar = self.check(card)?;
        Ok(Run::new(self, card, bar, settings).all())
    }

    /// Returns the number of bytes of the BAR that the load uses.
    fn size_on(&self, bar: &BarSpec) -> u64 {
        self.size.unwrap_or(bar.bytes)
    }
}

#[cfg(test)]
mod tests;
