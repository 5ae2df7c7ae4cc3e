//! A load as a server's cores make it: so many lines on their way, asked for again as they come.
//!
//! Each line that may be on its way is a slot. A slot asks for a line, waits for it, pauses if it
//! is held to a rate, and asks for the next: this is how a bandwidth benchmark loads a machine, and
//! a slower one with its injection delay. Writes are handed over: who writes waits only until the
//! controller has taken the line. The sub-channels of a machine share such a load evenly, so each
//! has its own part and is simulated alone.

use super::{
    device::Device,
    histogram::Histogram,
    mapping::{Layout, Mapping},
    traffic::{Place, Request, Source},
};
use rand_pcg::{
    Pcg64Mcg,
    rand_core::{RngCore, SeedableRng},
};
use std::{
    cmp::Reverse,
    collections::{BinaryHeap, VecDeque},
};

/// In which order lines are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pattern {
    /// Any line.
    Random,
    /// Each thread its own lines one after another.
    Stream,
    /// Any line, but one in [`HOT_ONE_IN`] goes to a row of one single bank.
    HotBank,
}

/// See [`Pattern::HotBank`].
pub const HOT_ONE_IN: u64 = 10;

/// The share of one sub-channel in a load.
#[derive(Clone, Debug, PartialEq)]
pub struct Load {
    /// Reads among all accesses, 0 to 1.
    pub read_share: f64,
    /// The order of lines.
    pub pattern: Pattern,
    /// Streams of reads, and as many of writes.
    pub streams: usize,
    /// Lines that may be on their way, at most [`SLOTS_MAX`].
    pub outstanding: usize,
    /// Neighbours that are asked for at once, as prefetchers do.
    pub neighbours: usize,
    /// Accesses a second that are wanted, reads and writes together. None: as many as there can be.
    pub rate: Option<f64>,
    /// What lies between a core and the controller, both ways together, ps.
    pub uncore_ps: u64,
    /// How lines are laid out.
    pub layout: Layout,
    /// The seed of all that is random.
    pub seed: u64,
}

/// The most slots.
pub const SLOTS_MAX: usize = 1 << 16;

/// A share is counted in parts of this.
const PARTS: u64 = 1 << 32;

/// A load while it runs.
#[derive(Debug)]
pub struct ClosedLoop {
    mapping: Mapping,
    pattern: Pattern,
    random: Pcg64Mcg,
    write_part: u64,
    write_due: u64,
    /// When each slot's line was asked for.
    asked: Vec<u64>,
    /// When a slot may ask again, of those that are held to a rate, in 16ths of a clock, and the
    /// random numbers that say so: the same for all that ask at once.
    due: Vec<(u64, u64)>,
    neighbours: usize,
    /// Clocks between two requests of a slot, in 16ths; 0 without a rate.
    interval: u64,
    /// Slots that ask without a pause, by when they reach the controller; those that read and
    /// those that wrote are each in order.
    after_reads: VecDeque<(u64, u32)>,
    after_writes: VecDeque<(u64, u32)>,
    paced: BinaryHeap<Reverse<(u64, u32)>>,
    position: Vec<u64>,
    way_out: u64,
    way_back: u64,
    /// Nanoseconds of a clock, times 2^32.
    clock_ns: u64,
    counts: bool,
    latency: Histogram,
}

impl ClosedLoop {
    /// A load on a sub-channel of this device.
    pub fn new(device: &Device, load: &Load) -> Self {
        let mapping = Mapping::new(device, load.layout);
        let mut random = Pcg64Mcg::seed_from_u64(load.seed);
        let slots = load.outstanding.clamp(1, SLOTS_MAX);
        let streams = load.streams.max(1);
        let position = (0..2 * streams).map(|_| random.next_u64() % mapping.lines()).collect();
        let clocks_a_second = device.kilotransfers as f64 * 500.0;
        let interval =
            load.rate.map_or(0.0, |rate| (16.0 * clocks_a_second * slots as f64 / rate).max(1.0));
        let way = device.nearest_clocks(load.uncore_ps);
        let mut source = Self {
            mapping,
            pattern: load.pattern,
            random,
            write_part: ((1.0 - load.read_share.clamp(0.0, 1.0)) * PARTS as f64) as u64,
            write_due: 0,
            asked: vec![0; slots],
            due: vec![(0, 0); slots],
            neighbours: load.neighbours.clamp(1, slots),
            interval: interval as u64,
            after_reads: VecDeque::with_capacity(slots),
            after_writes: VecDeque::with_capacity(slots),
            paced: BinaryHeap::with_capacity(slots),
            position,
            way_out: way / 2,
            way_back: way - way / 2,
            clock_ns: (2_000_000_u64 << 32) / device.kilotransfers,
            counts: false,
            latency: Histogram::default(),
        };
        source.begin(slots);
        source
    }

    fn begin(&mut self, slots: usize) {
        // No two begin together: what is asked for at once comes back at once, for ever.
        let span = if self.interval > 0 { self.interval / 16 } else { 2 * slots as u64 };
        let groups = slots.div_ceil(self.neighbours);
        let mut starts: Vec<u64> = (0..groups).map(|_| self.below(span.max(1))).collect();
        starts.sort_unstable();
        let seeds: Vec<u64> = (0..groups).map(|_| self.random.next_u64() | 1).collect();
        for slot in 0..slots {
            let group = slot / self.neighbours;
            let at = 1 + starts[group];
            self.due[slot] = (at * 16, seeds[group]);
            self.asked[slot] = at;
            if self.interval > 0 {
                self.paced.push(Reverse((at + self.way_out, slot as u32)));
            } else {
                self.after_reads.push_back((at + self.way_out, slot as u32));
            }
        }
    }

    /// From now on latencies count.
    pub fn start_counting(&mut self) {
        self.counts = true;
    }

    /// Latencies from the core's miss to its data, all of reads.
    pub fn latency(&self) -> &Histogram {
        &self.latency
    }

    /// The same, when all is done.
    pub fn into_latency(self) -> Histogram {
        self.latency
    }

    /// At least 0 and below `end`, which is above 0.
    #[inline]
    fn below(&mut self, end: u64) -> u64 {
        ((u128::from(self.random.next_u64()) * u128::from(end)) >> 64) as u64
    }

    /// A slot is free at a clock, and asks again when it may.
    #[inline]
    fn ask_again(&mut self, slot: u32, clock: u64, wrote: bool) {
        if self.interval == 0 {
            self.asked[slot as usize] = clock;
            let line = (clock + self.way_out, slot);
            if wrote {
                self.after_writes.push_back(line)
            } else {
                self.after_reads.push_back(line)
            }
            return;
        }
        // Somewhere between half of the interval and one and a half.
        let (due, seed) = self.due[slot as usize];
        let seed = seed.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(1);
        let part = ((u128::from(seed) * u128::from(self.interval)) >> 64) as u64;
        let due = due + self.interval / 2 + part;
        self.due[slot as usize] = (due, seed);
        let at = clock.max(due / 16);
        self.asked[slot as usize] = at;
        self.paced.push(Reverse((at + self.way_out, slot)));
    }

    #[inline]
    fn next_place(&mut self, slot: u32, write: bool) -> Place {
        match self.pattern {
            Pattern::Stream => {
                let streams = self.position.len() / 2;
                let stream =
                    slot as usize / self.neighbours % streams + if write { streams } else { 0 };
                let line = self.position[stream];
                self.position[stream] = if line + 1 < self.mapping.lines() { line + 1 } else { 0 };
                self.mapping.place(line)
            }
            Pattern::Random => {
                let line = self.below(self.mapping.lines());
                self.mapping.place(line)
            }
            Pattern::HotBank => {
                let line = self.below(self.mapping.lines());
                let place = self.mapping.place(line);
                if self.below(HOT_ONE_IN) == 0 {
                    Place { pseudo: 0, bank: 0, ..place }
                } else {
                    place
                }
            }
        }
    }
}

impl Source for ClosedLoop {
    #[inline]
    fn peek(&self) -> Option<u64> {
        if self.interval > 0 {
            return self.paced.peek().map(|Reverse((at, _))| *at);
        }
        match (self.after_reads.front(), self.after_writes.front()) {
            (Some(a), Some(b)) => Some(a.0.min(b.0)),
            (a, b) => a.or(b).map(|line| line.0),
        }
    }

    #[inline]
    fn take(&mut self) -> Request {
        let line = if self.interval > 0 {
            self.paced.pop().map(|Reverse(line)| line)
        } else {
            match (self.after_reads.front(), self.after_writes.front()) {
                (Some(a), Some(b)) if b.0 < a.0 => self.after_writes.pop_front(),
                (Some(_), _) => self.after_reads.pop_front(),
                _ => self.after_writes.pop_front(),
            }
        };
        let (at, slot) = line.unwrap_or_default();
        self.write_due += self.write_part;
        let write = self.write_due >= PARTS;
        if write {
            self.write_due -= PARTS;
        }
        let place = self.next_place(slot, write);
        Request { at, place, tag: slot, order: 0, write }
    }

    #[inline]
    fn accepted(&mut self, request: &Request, clock: u64) {
        self.ask_again(request.tag, clock, true);
    }

    #[inline]
    fn done(&mut self, request: &Request, clock: u64) {
        let clock = clock + self.way_back;
        if self.counts {
            let took = clock - self.asked[request.tag as usize];
            self.latency.record((took * self.clock_ns) >> 32);
        }
        self.ask_again(request.tag, clock, false);
    }
}
