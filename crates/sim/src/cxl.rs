//! CXL expanders, simulated message by message: a link, a controller, and memory channels behind
//! the controller, whose DRAM is simulated command by command.
//!
//! ```text
//! host ── M2S: requests, written data ──▶ controller ── DRAM channels
//!      ◀── S2M: read data, completions ──            (`crate::dimm`, by sub-channel)
//! ```
//!
//! Both directions of the link carry flits, packets of fixed length with slots of 16 bytes. A
//! message occupies some slots, and messages are sent one after another. A request needs a credit,
//! which stands for an entry of the controller; the response returns the credit to the host. The
//! host has a limit of outstanding lines, a lower limit for non-temporal stores, and a limit of
//! bandwidth over all of its expanders.
//!
//! Example: with flits of 68 bytes, a slot occupies 17 bytes on the wire. The response to a read of
//! 64 bytes occupies 4.6 slots with its overhead, which are 78.2 bytes. Of the link's 31.5 GB/s,
//! 25.8 GB/s are then data.

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
    /// The seed of the start addresses of the streams, which are random.
    pub seed: u64,
}

/// The measurements of one expander.
#[derive(Clone, Debug, PartialEq)]
pub struct ExpanderOutcome {
    /// Bandwidth of reads and writes together, GB/s.
    pub bandwidth_gbps: f64,
    /// The fractions of time in which the link carried messages: first the direction to the
    /// expander, then the direction from it.
    pub link_busy: [f64; 2],
    /// Read latencies, from the host's request to its data.
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
        // The DRAM is soldered beside the expander's controller, so the data of two ranks on the
        // bus need no margin between them. `preparation_ps`, the time to open rows before a bus
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
