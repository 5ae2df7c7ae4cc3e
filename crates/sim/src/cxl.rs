//! CXL expanders: a link, a controller, and DRAM behind it, command by command.
//!
//! ```text
//! host ── M2S: requests, written data ──▶ controller ── DRAM: dimm's engine,
//!      ◀── S2M: read data, completions ──            a sub-channel at a time
//! ```
//!
//! Both directions of the link carry flits, which have slots of 16 bytes; a message takes so many
//! of them, and the next waits for its turn. A request needs a credit, which is a place in the
//! controller, and gives it back when it leaves. A host has so many lines on their way, fewer of
//! them for stores that bypass the cache, and moves no more bytes than it can for all of its
//! expanders together.
//!
//! A worked number: a line that is read takes 4.6 slots of 17 bytes on the wire, 78.2 bytes; of
//! 31.5 GB/s there are left 25.8 GB/s.

mod expander;
mod port;
#[cfg(test)]
mod tests;

pub use expander::{Expander, by_name, in_file};

use crate::dimm::{
    command::Observer, config::Controller, controller::SubChannel, histogram::Histogram,
};
use interleaf_model::mix::Mix;
use port::{Port, View};

/// The load on one of several expanders of a host.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ExpanderLoad {
    /// Reads and writes, in any order.
    pub mix: Mix,
    /// Expanders among which the host divides its lines and its bandwidth.
    pub expanders: u32,
    /// The seed of all that is random.
    pub seed: u64,
}

/// The measurements of one expander.
#[derive(Clone, Debug, PartialEq)]
pub struct ExpanderOutcome {
    /// Reads and writes together.
    pub bandwidth_gbps: f64,
    /// The part of the time in which the link to the expander, and that from it, carried slots.
    pub link_busy: [f64; 2],
    /// Read latencies, from the host's request to its data.
    pub latency: Histogram,
}

impl Expander {
    /// Simulates `accesses`, after a warm-up that fills the queues.
    pub fn run<O: Observer>(
        &self,
        load: &ExpanderLoad,
        accesses: u64,
        observer: &mut O,
    ) -> ExpanderOutcome {
        let mut port = Port::new(self, load);
        let parts = self.parts();
        let controller = Controller::default();
        let mut channels: Vec<SubChannel> = (0..u64::from(parts))
            .map(|part| SubChannel::new(&self.memory, &controller, (part, parts.into())))
            .collect();
        let mut step = |port: &mut Port, accesses: u64| {
            let mut left = accesses;
            while left > 0 {
                // Whoever is furthest behind goes next, so that all see the link in one order.
                let next = (0..channels.len())
                    .filter_map(|number| {
                        Some((port.next(number, channels[number].clock())?, number))
                    })
                    .min();
                let Some((_, number)) = next else { break };
                let before = *channels[number].counts();
                channels[number].run(&mut View { port, number }, observer, 1);
                let done = channels[number].counts().since(&before);
                left = left.saturating_sub(done.reads + done.writes + done.forwarded);
            }
        };
        step(&mut port, accesses / 10 + 4096);
        let start = port.start_counting();
        step(&mut port, accesses);
        port.outcome(start)
    }
}
