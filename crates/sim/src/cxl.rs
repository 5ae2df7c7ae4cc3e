//! Simulates CXL expanders message by message: a link, a controller, and memory channels behind the
//! controller, whose DRAM is simulated command by command.
//!
//! ```text
//! host ── M2S: requests, write data ────▶ controller ── DRAM channels
//!      ◀── S2M: read data, completions ──            (`crate::dimm`, by sub-channel)
//! ```
//!
//! Both directions of the link carry flits, packets of fixed length with slots of 16 bytes. A
//! message occupies some slots, and messages are sent one after another. A request needs a credit,
//! which stands for a free entry of the controller; the response returns the credit to the host.
//! The host has three limits, each over all of its expanders: of outstanding lines, of outstanding
//! non-temporal stores (a lower limit), and of bandwidth.
//!
//! Example: a flit of 68 bytes has four slots, so a slot occupies 17 bytes on the wire. The
//! response to a read of 64 bytes occupies 4.6 slots with its overhead, that is 78.2 bytes. Each
//! direction of the link carries 31.5 GB/s, of which 25.8 GB/s are then data.

mod expander;
mod port;
#[cfg(test)]
mod tests;

pub use expander::{Expander, by_name, in_file};

use crate::dimm::{
    command::Observer, config::Controller, controller::SubChannel, histogram::Histogram,
};
use interleaf_model::mix::Mix;
use port::{Port, PortView};

/// The load on one of several expanders of a host.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ExpanderLoad {
    /// The mix of reads and writes.
    pub mix: Mix,
    /// The number of expanders that share the host's limits of outstanding lines and of bandwidth.
    pub expanders: u32,
    /// Seed of the random generator that chooses the start addresses of the streams.
    pub seed: u64,
}

/// The results of a simulation of one expander, without the warm-up.
#[derive(Clone, Debug, PartialEq)]
pub struct ExpanderOutcome {
    /// Bandwidth of reads and writes together, GB/s.
    pub bandwidth_gbps: f64,
    /// Fractions of the simulated time for which the link carried messages: first in the direction
    /// to the expander, then in the direction from the expander.
    pub link_busy: [f64; 2],
    /// Latencies of reads, ns, from the host's request until the host has the data.
    pub latency: Histogram,
}

impl Expander {
    /// Simulates `accesses` accesses, after a warm-up that fills the queues. `observer` receives
    /// each command of the DRAM, also during the warm-up.
    pub fn run<O: Observer>(
        &self,
        load: &ExpanderLoad,
        accesses: u64,
        observer: &mut O,
    ) -> ExpanderOutcome {
        let mut port = Port::new(self, load);
        let parts = self.parts();
        // The DRAM is soldered beside the expander's controller, so the controller adds no margin
        // between the data of two ranks. `preparation_ps`, the time to open rows before a bus
        // turnaround, is assumed.
        let controller =
            Controller { rank_margin: 0, preparation_ps: 16_250, ..Controller::default() };
        let mut channels: Vec<SubChannel> = (0..u64::from(parts))
            .map(|part| SubChannel::new(&self.memory, &controller, (part, parts.into())))
            .collect();
        let mut step = |port: &mut Port, accesses: u64| {
            let mut left = accesses;
            while left > 0 {
                // Simulate the sub-channel with the earliest next event, so that all sub-channels
                // use the shared link in the order of time.
                let next = (0..channels.len())
                    .filter_map(|number| {
                        Some((port.next(number, channels[number].clock())?, number))
                    })
                    .min();
                let Some((_, number)) = next else { break };
                let before = *channels[number].counts();
                channels[number].run(&mut PortView { port, number }, observer, 1);
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
