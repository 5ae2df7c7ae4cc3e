//! Makes closed-loop traffic, as a server's cores do: a fixed number of outstanding lines.
//!
//! Each outstanding line is a slot. A slot requests a line, waits for it, pauses if the traffic has
//! a rate, and requests the next line. A bandwidth benchmark loads a machine in the same way; the
//! rate corresponds to the benchmark's injection delay. Writes are posted: a slot waits only until
//! the write queue has accepted the line. The load of a machine is divided evenly among its
//! sub-channels, so each sub-channel is simulated separately, with its share of the load.

use super::{
    device::Device,
    histogram::Histogram,
    mapping::{Layout, Mapping},
    traffic::{Location, Request, Source},
};
use rand_pcg::{
    Pcg64Mcg,
    rand_core::{RngCore, SeedableRng},
};
use std::{
    cmp::Reverse,
    collections::{BinaryHeap, VecDeque},
};

/// The order in which a load accesses the lines of a sub-channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pattern {
    /// Each access is to a uniformly random line.
    Random,
    /// Each stream accesses consecutive lines.
    Stream,
    /// Random lines, of which one in [`HOT_ONE_IN`] is moved to bank 0 of pseudo-channel 0.
    HotBank,
}

/// With [`Pattern::HotBank`], one in this number of accesses is moved to bank 0. The banks of the
/// other accesses are random.
pub const HOT_ONE_IN: u64 = 10;

/// The load of one sub-channel: its share of the load of a machine.
#[derive(Clone, Debug, PartialEq)]
pub struct Load {
    /// The fraction of reads in all accesses, 0 to 1.
    pub read_share: f64,
    /// The order in which lines are accessed.
    pub pattern: Pattern,
    /// With `Pattern::Stream`, the number of read streams, and also of write streams.
    pub streams: usize,
    /// Number of outstanding lines, at most [`SLOTS_MAX`].
    pub outstanding: usize,
    /// Number of neighbouring lines that are requested together, as prefetchers do.
    pub neighbours: usize,
    /// Offered accesses per second, reads and writes together; `None` for the maximum.
    pub rate: Option<f64>,
    /// Uncore latency, round trip, ps.
    pub uncore_ps: u64,
    /// Minimum time between two lines of this sub-channel on the fabric between cores and
    /// controllers, ps; 0 if the fabric is faster than the DRAM.
    pub fabric_ps: u64,
    /// The mapping of lines to banks, rows and columns.
    pub layout: Layout,
    /// Seed of the random generators that choose addresses, start times and pauses.
    pub seed: u64,
}

/// The fabric between cores and controllers: the lines of a sub-channel, reads and writes alike,
/// leave the fabric one after another, at least `step` apart. `free` is the earliest clock at which
/// the next line may leave. `step` and `free` are clocks of the DRAM with 16 fractional bits.
#[derive(Clone, Copy, Debug)]
struct Fabric {
    step: u64,
    free: u64,
}

const FABRIC_BITS: u32 = 16;

impl Fabric {
    fn new(device: &Device, step_ps: u64) -> Self {
        let per_clock = 2_000_000_000_u128;
        let step = (u128::from(step_ps) * u128::from(device.kilotransfers)) << FABRIC_BITS;
        Self { step: (step / per_clock) as u64, free: 0 }
    }

    /// Returns the clock at which a line that enters the fabric at `clock` leaves the fabric.
    #[inline]
    fn leaves(self, clock: u64) -> u64 {
        clock.max(self.free >> FABRIC_BITS)
    }

    #[inline]
    fn carry(&mut self, clock: u64) -> u64 {
        let leaves = self.leaves(clock);
        self.free = self.free.max(clock << FABRIC_BITS) + self.step;
        leaves
    }
}

/// Maximum number of cache lines that a traffic load may have outstanding.
pub const SLOTS_MAX: usize = 1 << 16;

/// Scale of the fixed-point numbers `write_part` (the fraction of writes among the requests) and
/// `write_due`: `PARTS` stands for 1.
const PARTS: u64 = 1 << 32;

/// Makes the requests of a load to the controller of one sub-channel.
#[derive(Debug)]
pub struct ClosedLoop {
    mapping: Mapping,
    pattern: Pattern,
    random: Pcg64Mcg,
    write_part: u64,
    write_due: u64,
    /// For each slot (an outstanding line), the clock of the DRAM at which the core requested the
    /// line.
    asked: Vec<u64>,
    /// If the load has a rate, for each slot: the time of its next request in 16ths of a clock, and
    /// the state of its random generator. Slots that request neighbouring lines together have the
    /// same time and state.
    due: Vec<(u64, u64)>,
    neighbours: usize,
    /// Mean time between two requests of a slot, in 16ths of a clock; 0 without a rate.
    interval: u64,
    /// If the load has no rate, for each free slot: the clock at which its next request arrives at
    /// the controller, and the slot. `after_reads` has the slots whose last request was a read,
    /// `after_writes` the slots whose last request was a write. Requests of one direction complete
    /// in order of time, so each list is in order of time, apart from reads that the write queue
    /// answers at once.
    after_reads: VecDeque<(u64, u32)>,
    after_writes: VecDeque<(u64, u32)>,
    paced: BinaryHeap<Reverse<(u64, u32)>>,
    position: Vec<u64>,
    request_delay: u64,
    response_delay: u64,
    fabric: Fabric,
    /// Duration of a clock of the DRAM, in units of 2^-32 ns.
    clock_ns: u64,
    counts: bool,
    latency: Histogram,
}

impl ClosedLoop {
    /// Creates the request source of `load` for one sub-channel of `device`.
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
            request_delay: way / 2,
            response_delay: way - way / 2,
            fabric: Fabric::new(device, load.fabric_ps),
            clock_ns: (2_000_000_u64 << 32) / device.kilotransfers,
            counts: false,
            latency: Histogram::default(),
        };
        source.start_slots(slots);
        source
    }

    fn start_slots(&mut self, slots: usize) {
        // Slots (outstanding lines) start at random times. If all slots started at the same time,
        // they would request their lines in bursts for the whole run.
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
                self.paced.push(Reverse((at + self.request_delay, slot as u32)));
            } else {
                self.after_reads.push_back((at + self.request_delay, slot as u32));
            }
        }
    }

    /// Records latencies from now on.
    pub fn start_counting(&mut self) {
        self.counts = true;
    }

    /// Returns the latencies of reads, from the core's cache miss to the arrival of the line at the
    /// core.
    pub fn latency(&self) -> &Histogram {
        &self.latency
    }

    /// Consumes the source and returns the latencies of reads.
    pub fn into_latency(self) -> Histogram {
        self.latency
    }

    #[inline]
    fn below(&mut self, end: u64) -> u64 {
        ((u128::from(self.random.next_u64()) * u128::from(end)) >> 64) as u64
    }

    /// Schedules the next request of a slot that is free at `clock`. `wrote` is true if the last
    /// request of the slot was a write.
    #[inline]
    fn ask_again(&mut self, slot: u32, clock: u64, wrote: bool) {
        if self.interval == 0 {
            self.asked[slot as usize] = clock;
            let line = (clock + self.request_delay, slot);
            if wrote {
                self.after_writes.push_back(line)
            } else {
                self.after_reads.push_back(line)
            }
            return;
        }
        // Consecutive due times of a slot are 0.5 to 1.5 intervals apart, evenly distributed. A
        // slot whose last request is still outstanding at its due time makes its next request as
        // soon as the last request completes.
        let (due, seed) = self.due[slot as usize];
        let seed = seed.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(1);
        let part = ((u128::from(seed) * u128::from(self.interval)) >> 64) as u64;
        let due = due + self.interval / 2 + part;
        self.due[slot as usize] = (due, seed);
        let at = clock.max(due / 16);
        self.asked[slot as usize] = at;
        self.paced.push(Reverse((at + self.request_delay, slot)));
    }

    #[inline]
    fn next_location(&mut self, slot: u32, write: bool) -> Location {
        match self.pattern {
            Pattern::Stream => {
                let streams = self.position.len() / 2;
                let stream =
                    slot as usize / self.neighbours % streams + if write { streams } else { 0 };
                let line = self.position[stream];
                self.position[stream] = if line + 1 < self.mapping.lines() { line + 1 } else { 0 };
                self.mapping.location(line)
            }
            Pattern::Random => {
                let line = self.below(self.mapping.lines());
                self.mapping.location(line)
            }
            Pattern::HotBank => {
                let line = self.below(self.mapping.lines());
                let location = self.mapping.location(line);
                if self.below(HOT_ONE_IN) == 0 {
                    Location { pseudo: 0, bank: 0, ..location }
                } else {
                    location
                }
            }
        }
    }
}

impl Source for ClosedLoop {
    #[inline]
    fn peek(&self) -> Option<u64> {
        let at = if self.interval > 0 {
            self.paced.peek().map(|Reverse((at, _))| *at)
        } else {
            match (self.after_reads.front(), self.after_writes.front()) {
                (Some(a), Some(b)) => Some(a.0.min(b.0)),
                (a, b) => a.or(b).map(|line| line.0),
            }
        };
        at.map(|at| self.fabric.leaves(at))
    }

    #[inline]
    fn next_request(&mut self) -> Request {
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
        let location = self.next_location(slot, write);
        let at = self.fabric.carry(at);
        Request { at, location, tag: slot, order: 0, write }
    }

    #[inline]
    fn accepted(&mut self, request: &Request, clock: u64) {
        self.ask_again(request.tag, clock, true);
    }

    #[inline]
    fn done(&mut self, request: &Request, clock: u64) {
        let clock = clock + self.response_delay;
        if self.counts {
            let took = clock - self.asked[request.tag as usize];
            self.latency.record((took * self.clock_ns) >> 32);
        }
        self.ask_again(request.tag, clock, false);
    }
}
