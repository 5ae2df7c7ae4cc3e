//! Replays a trace as the load of a machine's memory.
//!
//! Chunks of lines of the trace are interleaved over all sub-channels. Each sub-channel reads the
//! whole trace and takes its own lines. A request is issued at its time, or later if no slot for an
//! outstanding line is free. In a trace without times, a request is issued as soon as a slot is
//! free. A write occupies a slot until the controller has accepted it.

use super::{
    command::Observer,
    controller::SubChannel,
    device::Device,
    histogram::Histogram,
    mapping::{Mapping, deal},
    run::{ChannelResult, Setup},
    trace::{self, AddressLimits, Trace},
    traffic::{Request, Source},
};
use std::{cmp::Reverse, collections::BinaryHeap};

/// The number of consecutive lines on one sub-channel before lines of the next sub-channel follow:
/// 256 bytes, as servers interleave lines.
pub const CHUNK: u64 = 4;

const LINE: u64 = 64;

/// Number of accesses after which `Setup::replay` calls its argument `progress`.
const STEP: u64 = 1 << 16;

/// The requests of a trace to one sub-channel.
#[derive(Debug)]
pub struct Replay<'a> {
    trace: Trace<'a>,
    mapping: Mapping,
    number: u64,
    parts: u64,
    kilotransfers: u64,
    next: Option<trace::TraceRequest>,
    /// For each slot (an outstanding line) that is not in use: the clock from which the slot is
    /// free, and the index of the slot.
    free: BinaryHeap<Reverse<(u64, u32)>>,
    /// For each slot (an outstanding line), the clock of the DRAM at which the core requested its
    /// line.
    asked: Vec<u64>,
    request_delay: u64,
    response_delay: u64,
    latency: Histogram,
}

impl<'a> Replay<'a> {
    /// Creates the source of the trace's requests to sub-channel `number`.
    pub fn new(setup: &Setup, trace: Trace<'a>, number: u32) -> Self {
        let way = setup.device.nearest_clocks(setup.uncore_ps);
        let slots = setup.outstanding.max(1) as u32;
        let mut replay = Self {
            trace,
            mapping: Mapping::new(&setup.device, setup.layout),
            number: number.into(),
            parts: setup.parts().into(),
            kilotransfers: setup.device.kilotransfers,
            next: None,
            free: (0..slots).map(|slot| Reverse((0, slot))).collect(),
            asked: vec![0; slots as usize],
            request_delay: way / 2,
            response_delay: way - way / 2,
            latency: Histogram::default(),
        };
        replay.advance();
        replay
    }

    /// Finds the next request of this sub-channel. A malformed record ends the trace: the caller
    /// has already validated the whole trace.
    fn advance(&mut self) {
        self.next = self
            .trace
            .by_ref()
            .map_while(Result::ok)
            .find(|request| deal(request.address / LINE, self.parts, CHUNK).0 == self.number);
    }

    /// Returns the clock at which the core issues the next request: the time in the trace, or later
    /// if no slot is free at this time. `None` if no request is left, or while every slot is in
    /// use.
    fn asks_at(&self) -> Option<u64> {
        let (next, Reverse((free, _))) = (self.next?, self.free.peek()?);
        let clock = u128::from(next.at_ps) * u128::from(self.kilotransfers) / 2_000_000_000;
        Some((clock as u64).max(*free))
    }
}

impl Source for Replay<'_> {
    fn peek(&self) -> Option<u64> {
        self.asks_at().map(|clock| clock + self.request_delay)
    }

    fn next_request(&mut self) -> Request {
        let at = self.asks_at().unwrap_or_default();
        let Reverse((_, slot)) = self.free.pop().unwrap_or_default();
        let next = self.next.unwrap_or(trace::TraceRequest { at_ps: 0, write: false, address: 0 });
        self.asked[slot as usize] = at;
        self.advance();
        let line = deal(next.address / LINE, self.parts, CHUNK).1;
        let location = self.mapping.location(line);
        Request { at: at + self.request_delay, location, tag: slot, order: 0, write: next.write }
    }

    fn accepted(&mut self, request: &Request, clock: u64) {
        self.free.push(Reverse((clock, request.tag)));
    }

    fn done(&mut self, request: &Request, clock: u64) {
        let clock = clock + self.response_delay;
        let took = clock - self.asked[request.tag as usize];
        let ns = u128::from(took) * 2_000_000 / u128::from(self.kilotransfers);
        self.latency.record(ns as u64);
        self.free.push(Reverse((clock, request.tag)));
    }
}

impl Setup {
    /// Returns the limits that a trace for this machine must respect.
    pub fn memory(&self) -> AddressLimits {
        let Device { kilotransfers, host_clocks, .. } = self.device;
        let bytes = self.device.bursts() * u64::from(self.parts()) * LINE;
        AddressLimits { bytes, mega_transfers: (kilotransfers * host_clocks).div_ceil(1000) as u32 }
    }

    /// Simulates the requests of a trace to sub-channel `number`. Calls `progress` with the number
    /// of accesses since the previous call.
    pub fn replay<O: Observer>(
        &self,
        trace: Trace<'_>,
        number: u32,
        observer: &mut O,
        progress: &dyn Fn(u64),
    ) -> ChannelResult {
        let mut source = Replay::new(self, trace, number);
        let phase = (u64::from(number), u64::from(self.parts()));
        let mut channel = SubChannel::new(&self.device, &self.controller, phase);
        loop {
            let before = channel.counts().reads + channel.counts().writes;
            channel.run(&mut source, observer, STEP);
            let done = channel.counts().reads + channel.counts().writes - before;
            progress(done);
            if done < STEP {
                break;
            }
        }
        let counts = *channel.counts();
        let bytes = f64::from(self.device.burst_bytes());
        let simulated_ns = self.device.ns(channel.clock());
        let bandwidth_gbps = counts.bandwidth_gbps(bytes, simulated_ns);
        let latency = source.latency;
        let end_clock = channel.clock();
        ChannelResult { counts, bandwidth_gbps, simulated_ns, end_clock, latency }
    }
}

#[cfg(test)]
mod tests;
