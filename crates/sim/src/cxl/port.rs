//! Simulates the host's end of a CXL link, the link itself, and the expander's controller at the
//! other end. The sub-channels behind the controller take their requests from a `PortView`.

use super::{Expander, ExpanderLoad, ExpanderOutcome};
use crate::dimm::{
    histogram::Histogram,
    mapping::{Layout, Mapping, deal},
    replay::CHUNK,
    traffic::{Request, Source},
};
use rand_pcg::{
    Pcg64Mcg,
    rand_core::{RngCore, SeedableRng},
};
use std::{cmp::Reverse, collections::BinaryHeap};

/// Number of read streams at each expander. The number of write streams is the same. The modelled
/// server has 128 cores, each with one read stream and one write stream at each of its eight
/// expanders.
const STREAMS: usize = 128;
const LINE: u64 = 64;
/// Scale of the fixed-point numbers `write_part` (the fraction of writes among the requests) and
/// `write_due`: `PARTS` stands for 1.
const PARTS: u64 = 1 << 32;
/// Indices of the two directions of the link: to the expander (`TO`), and from the expander
/// (`FROM`).
const TO: usize = 0;
const FROM: usize = 1;

/// A heap of free credits of one kind, or of free entries of the host for non-temporal stores. Each
/// element stands for one credit or entry: the time from which a request may take it, fs. The
/// earliest time is on top.
type SlotTimes = BinaryHeap<Reverse<u64>>;

fn free_slots(count: u32) -> SlotTimes {
    (0..count.max(1)).map(|_| Reverse(0)).collect()
}

#[derive(Debug)]
pub(super) struct Port {
    expander: Expander,
    /// The index of the next line of each stream: first the read streams, then the write streams.
    positions: Vec<u64>,
    mapping: Mapping,
    write_part: u64,
    write_due: u64,
    /// The free entries of the host, each of which can hold an outstanding line: the time in fs
    /// from which the entry is free, and the index of the entry.
    ready: BinaryHeap<Reverse<(u64, u32)>>,
    /// For each entry of the host, the time at which its present request was ready to be sent, fs.
    asked: Vec<u64>,
    /// Credits (entries of the controller) for reads and for writes: the time from which each
    /// credit is free, fs.
    credits: [SlotTimes; 2],
    /// Entries of the host for non-temporal stores: the time from which each entry is free, fs.
    /// `None` if the mix has no non-temporal stores.
    stores: Option<SlotTimes>,
    /// `host_free` is the time from which the host can send the next line, `link_free` the time
    /// from which each direction of the link can send the next message, fs.
    host_free: u64,
    host_line_fs: u64,
    link_free: [u64; 2],
    link_busy: [u64; 2],
    /// For each sub-channel: the requests that have arrived and are not in a queue yet (`arrived`),
    /// and the number of requests that are in its queues (`taken`).
    arrived: Vec<BinaryHeap<Reverse<Arrival>>>,
    taken: Vec<u32>,
    done: u64,
    last: u64,
    counts: bool,
    latency: Histogram,
}

/// A request that has arrived at a sub-channel. `at` is the sub-channel's clock at the arrival,
/// `slot` the entry of the host, and `line` the index of the line within the sub-channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Arrival {
    at: u64,
    slot: u32,
    write: bool,
    line: u64,
}

/// The values of a port's counters when the warm-up ends and the measurement starts.
#[derive(Clone, Copy, Debug)]
pub(super) struct Start {
    done: u64,
    at: u64,
    link_busy: [u64; 2],
}

impl Port {
    pub(super) fn new(expander: &Expander, load: &ExpanderLoad) -> Self {
        let share = |of_all: u32| of_all.div_ceil(load.expanders.max(1)).max(1);
        let lines = share(expander.host_lines);
        let writes = 1.0 - load.mix.read_share();
        let parts = expander.parts() as usize;
        let passes = load.mix.nontemporal() && writes > 0.0;
        let expanders = u128::from(load.expanders.max(1));
        let host_line_fs =
            u128::from(LINE) * 1_000_000_000_000_000 * expanders / u128::from(expander.host_bytes);
        let mapping = Mapping::new(&expander.memory, Layout::XEON);
        let mut random = Pcg64Mcg::seed_from_u64(load.seed);
        let all = mapping.lines() * parts as u64;
        let mut port = Self {
            positions: (0..2 * STREAMS).map(|_| random.next_u64() % all).collect(),
            mapping,
            write_part: (writes * PARTS as f64) as u64,
            write_due: 0,
            ready: (0..lines).map(|slot| Reverse((0, slot))).collect(),
            asked: vec![0; lines as usize],
            credits: [free_slots(expander.read_credits), free_slots(expander.write_credits)],
            stores: passes.then(|| free_slots(share(expander.host_nontemporal))),
            host_free: 0,
            host_line_fs: host_line_fs as u64,
            link_free: [0; 2],
            link_busy: [0; 2],
            arrived: vec![BinaryHeap::new(); parts],
            taken: vec![0; parts],
            done: 0,
            last: 0,
            counts: false,
            latency: Histogram::default(),
            expander: expander.clone(),
        };
        port.send();
        port
    }

    /// Returns the clock of the next event of the sub-channel with index `number`; `None` if there
    /// is no event. `clock` is the present clock of the sub-channel. With queued requests, the next
    /// event is at `clock`. Without queued requests, the next event is the next arrival.
    pub(super) fn next(&self, number: usize, clock: u64) -> Option<u64> {
        let arrival = self.arrived[number].peek().map(|Reverse(arrival)| arrival.at.max(clock));
        if self.taken[number] > 0 { Some(clock) } else { arrival }
    }

    pub(super) fn start_counting(&mut self) -> Start {
        self.counts = true;
        Start { done: self.done, at: self.last, link_busy: self.link_busy }
    }

    pub(super) fn outcome(self, start: Start) -> ExpanderOutcome {
        let fs = (self.last - start.at).max(1) as f64;
        let busy = |way: usize| (self.link_busy[way] - start.link_busy[way]) as f64 / fs;
        ExpanderOutcome {
            bandwidth_gbps: ((self.done - start.done) * LINE) as f64 * 1e6 / fs,
            link_busy: [busy(TO), busy(FROM)],
            latency: self.latency,
        }
    }

    fn clock(&self, fs: u64) -> u64 {
        let rate = u128::from(self.expander.memory.kilotransfers);
        (u128::from(fs) * rate).div_ceil(2_000_000_000_000) as u64
    }

    fn fs(&self, clock: u64) -> u64 {
        let rate = u128::from(self.expander.memory.kilotransfers);
        (u128::from(clock) * 2_000_000_000_000 / rate) as u64
    }

    /// Sends a message of `hundredths` / 100 slots over the link in the direction `way`, not before
    /// `from`. Returns the time of arrival at the other end, fs.
    fn carry(&mut self, way: usize, from: u64, hundredths: u64) -> u64 {
        let length = hundredths * self.expander.slot_fs / 100;
        let end = self.link_free[way].max(from) + length;
        self.link_free[way] = end;
        self.link_busy[way] += length;
        end + self.expander.delay_fs
    }

    /// Sends requests in the order in which they became ready. Stops at the first request for which
    /// the controller has no free entry (no credit) or, for a non-temporal store, the host has no
    /// free entry. All later requests wait behind this request.
    fn send(&mut self) {
        while let Some(&Reverse((ready, slot))) = self.ready.peek() {
            let write = self.write_due + self.write_part >= PARTS;
            let Some(&Reverse(credit)) = self.credits[usize::from(write)].peek() else { return };
            let store = match &self.stores {
                Some(stores) if write => match stores.peek() {
                    Some(&Reverse(at)) => at,
                    None => return,
                },
                _ => 0,
            };
            self.ready.pop();
            self.credits[usize::from(write)].pop();
            if let Some(stores) = self.stores.as_mut().filter(|_| write) {
                stores.pop();
            }
            self.write_due = (self.write_due + self.write_part) % PARTS;
            self.asked[slot as usize] = ready;
            let from = ready.max(credit).max(store).max(self.host_free);
            self.host_free = from + self.host_line_fs;
            let Expander { read_request, write_request, overhead, controller_fs, .. } =
                self.expander;
            let slots = if write { write_request } else { read_request } + overhead;
            let through = self.carry(TO, from, slots) + controller_fs / 2;
            let (number, line) = self.location(slot, write);
            let arrival = Arrival { at: self.clock(through), slot, write, line };
            self.arrived[number].push(Reverse(arrival));
        }
    }

    /// Takes the next cache line of the stream to which `slot`, an entry of the host, belongs.
    /// Returns the index of the line's sub-channel, and the line's index within the sub-channel.
    /// Each stream is sequential. Reads and writes have separate streams, at different addresses.
    fn location(&mut self, slot: u32, write: bool) -> (usize, u64) {
        let stream = slot as usize % STREAMS + if write { STREAMS } else { 0 };
        let line = self.positions[stream];
        let parts = self.arrived.len() as u64;
        self.positions[stream] = (line + 1) % (self.mapping.lines() * parts);
        let (number, line) = deal(line, parts, CHUNK);
        (number as usize, line)
    }

    /// Sends the response to a request, which the controller completed at the clock `clock` of the
    /// DRAM. `slot` is the entry of the host that holds the request.
    fn answer(&mut self, slot: u32, write: bool, clock: u64) {
        let Expander { read_response, write_response, overhead, controller_fs, .. } = self.expander;
        let from = self.fs(clock) + controller_fs - controller_fs / 2;
        let slots = if write { write_response } else { read_response } + overhead;
        let back = self.carry(FROM, from, slots);
        // The response frees the request's entry of the controller, and so returns its credit to
        // the host.
        self.credits[usize::from(write)].push(Reverse(back));
        if let Some(stores) = self.stores.as_mut().filter(|_| write) {
            stores.push(Reverse(back));
        }
        if self.counts && !write {
            self.latency.record((back - self.asked[slot as usize]) / 1_000_000);
        }
        self.done += 1;
        self.last = self.last.max(back);
        self.ready.push(Reverse((back, slot)));
        self.send();
    }
}

/// A view of a port as the source of requests for the sub-channel with index `number`.
pub(super) struct PortView<'a> {
    pub(super) port: &'a mut Port,
    pub(super) number: usize,
}

impl Source for PortView<'_> {
    fn peek(&self) -> Option<u64> {
        self.port.arrived[self.number].peek().map(|Reverse(arrival)| arrival.at)
    }

    fn next_request(&mut self) -> Request {
        let Some(Reverse(arrival)) = self.port.arrived[self.number].pop() else {
            return Request::default();
        };
        self.port.taken[self.number] += 1;
        let Arrival { at, slot, write, line } = arrival;
        Request { at, location: self.port.mapping.location(line), tag: slot, order: 0, write }
    }

    fn accepted(&mut self, request: &Request, clock: u64) {
        self.port.taken[self.number] -= 1;
        self.port.answer(request.tag, true, clock);
    }

    fn done(&mut self, request: &Request, clock: u64) {
        self.port.taken[self.number] -= 1;
        self.port.answer(request.tag, false, clock);
    }
}
