//! Simulates a sub-channel and its controller event by event.
//!
//! An event is the arrival of a request, a refresh that becomes due, the end of a time slice of
//! reads or writes, or a command. Each step jumps to the earliest event, so the simulation of idle
//! time costs no more than the refreshes in it. The controller serves reads, and drains writes in
//! batches, because each change of direction costs a bus turnaround. The schedulers of the
//! pseudo-channels choose the commands.

use super::{
    command::{Command, Kind, Observer},
    config::Controller,
    constraint::{READ, WRITE},
    device::Device,
    pseudo_channel::PseudoChannel,
    queue::{Queue, READS, WRITES},
    scheduler::Operation,
    timing_state::NEVER,
    traffic::{Request, Source},
};
use std::collections::VecDeque;

/// Maximum number of requests that wait outside the queues because their queue is full. At this
/// number, the controller takes no more requests from the source.
const WAITING_MAX: usize = 4096;

/// The numbers of commands and accesses of a sub-channel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Number of bursts read from the DRAM.
    pub reads: u64,
    /// Number of bursts written to the DRAM.
    pub writes: u64,
    /// Number of reads that were answered from the write queue, and of writes that were merged with
    /// a queued write.
    pub forwarded: u64,
    /// Number of activate commands.
    pub activates: u64,
    /// Number of precharge commands, without auto-precharges.
    pub precharges: u64,
    /// Number of refresh commands.
    pub refreshes: u64,
    /// Number of row hits: accesses to a row that an earlier access opened.
    pub row_hits: u64,
    /// Number of write drains: bus turnarounds from reads to writes.
    pub turns: u64,
}

impl Counts {
    fn combine(&mut self, other: &Self, with: impl Fn(&mut u64, u64)) {
        with(&mut self.reads, other.reads);
        with(&mut self.writes, other.writes);
        with(&mut self.forwarded, other.forwarded);
        with(&mut self.activates, other.activates);
        with(&mut self.precharges, other.precharges);
        with(&mut self.refreshes, other.refreshes);
        with(&mut self.row_hits, other.row_hits);
        with(&mut self.turns, other.turns);
    }

    /// Returns the counts minus the counts at an `earlier` time.
    pub fn since(&self, earlier: &Self) -> Self {
        let mut since = *self;
        since.combine(earlier, |own, other| *own -= other);
        since
    }

    /// Returns the bandwidth, in GB/s, of the counted reads and writes if they took `ns`
    /// nanoseconds and each burst has `bytes` bytes; 0 without accesses.
    pub fn bandwidth_gbps(&self, bytes: f64, ns: f64) -> f64 {
        let accesses = (self.reads + self.writes) as f64;
        if accesses > 0.0 && ns > 0.0 { accesses * bytes / ns } else { 0.0 }
    }

    /// Adds the counts of another sub-channel.
    pub fn add(&mut self, other: &Self) {
        self.combine(other, |own, other| *own += other);
    }
}

/// A sub-channel of a module, and the controller that issues its commands.
#[derive(Debug)]
pub struct SubChannel {
    pseudos: Vec<PseudoChannel>,
    /// Requests that wait because their queue is full, by pseudo-channel and direction.
    waiting: [[VecDeque<Request>; 2]; 2],
    waiting_count: usize,
    /// The number that the next request gets as its place in the order of arrival.
    order: u16,
    clock: u64,
    /// The served direction: [`READS`] or [`WRITES`].
    serving: usize,
    /// The clock since which requests of the direction that is not served have been waiting.
    waits_since: u64,
    write_high: usize,
    write_low: usize,
    write_idle: usize,
    write_batch: usize,
    read_high: usize,
    /// The number of queued writes at which the current drain stops.
    write_goal: usize,
    /// For reads and for writes: the longest time, in clocks, for which this direction is served
    /// while a request of the other direction waits. The controller then decides on a bus
    /// turnaround.
    slices: [u64; 2],
    /// The clock of the next bus turnaround, or [`NEVER`] if none is decided. Until this clock, the
    /// schedulers open rows for requests in the next direction.
    turns_at: u64,
    /// Clocks from the decision on a bus turnaround to the turnaround.
    preparation: u64,
    host_clocks: u64,
    /// Clocks from a read command to the end of its data at the controller.
    latency: u64,
    counts: Counts,
}

impl SubChannel {
    /// Creates an idle sub-channel. Refreshes are staggered over `phase.1` sub-channels; `phase.0`
    /// is the index of this sub-channel among them.
    pub fn new(device: &Device, controller: &Controller, phase: (u64, u64)) -> Self {
        let pseudos = (0..device.pseudo_channels as usize)
            .map(|number| PseudoChannel::new(device, controller, number, phase))
            .collect();
        let t = &device.timing;
        let room = controller.write_queue.clamp(1, super::config::QUEUE_MAX);
        let high = controller.write_high.clamp(1, room);
        Self {
            pseudos,
            waiting: Default::default(),
            waiting_count: 0,
            order: 0,
            clock: 0,
            serving: READS,
            waits_since: 0,
            write_high: high,
            write_low: controller.write_low.min(high - 1),
            write_idle: controller.write_idle.clamp(1, high),
            write_batch: controller.write_batch.max(1),
            read_high: controller.read_high,
            write_goal: 0,
            slices: [
                device.clocks(controller.read_slice_ps),
                device.clocks(controller.write_slice_ps),
            ],
            turns_at: NEVER,
            preparation: device.clocks(controller.preparation_ps),
            host_clocks: device.host_clocks,
            latency: u64::from(t.cl + t.burst) + device.nearest_clocks(device.delay_ps),
            counts: Counts::default(),
        }
    }

    /// Returns the numbers of commands and accesses since the sub-channel was created.
    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    /// Returns the current simulated time, in clocks of the DRAM.
    pub fn clock(&self) -> u64 {
        self.clock
    }

    /// Runs until `accesses` more bursts have been read or written, or no request is left.
    /// Forwarded requests do not count.
    pub fn run<S: Source, O: Observer>(&mut self, source: &mut S, observer: &mut O, accesses: u64) {
        let until = self.counts.reads + self.counts.writes + accesses;
        while self.counts.reads + self.counts.writes < until {
            let (number, command_at, operation) = self.next_command();
            let arrival = self.next_arrival(source);
            let timer = self.next_timer();
            if arrival <= command_at.min(timer) {
                if arrival == NEVER {
                    return;
                }
                self.clock = self.clock.max(arrival);
                let request = source.next_request();
                self.admit(request, source);
                self.choose_direction();
            } else if timer <= command_at {
                // If no requests are left, the run must end here: refreshes would continue for
                // ever, because each refresh sets the time of the next.
                if self.is_idle() && source.peek().is_none() {
                    return;
                }
                self.clock = self.clock.max(timer);
                self.on_timer();
            } else {
                self.clock = command_at;
                self.issue(number, operation, source, observer);
            }
        }
    }

    fn is_idle(&self) -> bool {
        self.waiting_count == 0
            && self.pseudos.iter().all(|p| p.queue(READS).count + p.queue(WRITES).count == 0)
    }

    /// Returns the number of queued requests of one direction (`READS` or `WRITES`) in all
    /// pseudo-channels.
    #[inline]
    fn count(&self, which: usize) -> usize {
        self.pseudos.iter().map(|pseudo| pseudo.queue(which).count).sum()
    }

    #[inline]
    fn next_command(&mut self) -> (usize, u64, Operation) {
        let (at, operation) = self.pseudos[0].next_command(self.clock);
        let mut best = (0, at, operation);
        if let Some(second) = self.pseudos.get_mut(1) {
            let (at, operation) = second.next_command(self.clock);
            if at < best.1 {
                best = (1, at, operation);
            }
        }
        best
    }

    #[inline]
    fn next_arrival<S: Source>(&self, source: &S) -> u64 {
        if self.waiting_count >= WAITING_MAX { NEVER } else { source.peek().unwrap_or(NEVER) }
    }

    #[inline]
    fn next_timer(&self) -> u64 {
        let refresh = self.pseudos.iter().map(|pseudo| pseudo.refresh_wake()).min();
        let other = 1 - self.serving;
        let waits = self.count(other) > 0 && self.turns_at == NEVER;
        let slice = if waits { self.waits_since + self.slices[self.serving] } else { NEVER };
        refresh.unwrap_or(NEVER).min(slice).min(self.turns_at)
    }

    fn on_timer(&mut self) {
        for number in 0..self.pseudos.len() {
            if self.pseudos[number].refresh_wake() <= self.clock {
                self.pseudos[number].start_refreshes(self.clock);
            }
        }
        self.choose_direction();
    }

    /// Adds a request to its queue, or to the waiting requests if the queue is full or other
    /// requests already wait for this queue.
    fn admit<S: Source>(&mut self, request: Request, source: &mut S) {
        let (number, which) = (usize::from(request.location.pseudo), usize::from(request.write));
        let line = &mut self.waiting[number][which];
        if line.is_empty() && self.pseudos[number].queue(which).has_room() {
            self.enqueue(request, source);
        } else {
            line.push_back(request);
            self.waiting_count += 1;
        }
    }

    fn enqueue<S: Source>(&mut self, mut request: Request, source: &mut S) {
        let pseudo = &mut self.pseudos[usize::from(request.location.pseudo)];
        // The write queue has the newest data of the addresses in it. A read of such an address is
        // answered from the queue, and a write to such an address is merged with the queued write.
        if pseudo.queue(WRITES).count > 0 && pseudo.queue(WRITES).has_burst(&request) {
            self.counts.forwarded += 1;
            if request.write {
                source.accepted(&request, self.clock);
            } else {
                source.done(&request, self.clock);
            }
            return;
        }
        request.order = self.order;
        pseudo.push(request);
        let other = 1 - self.serving;
        if usize::from(request.write) == other && self.count(other) == 1 {
            self.waits_since = self.clock;
        }
        self.order = self.order.saturating_add(1);
        if self.order == u16::MAX {
            self.renumber();
        }
        if request.write {
            source.accepted(&request, self.clock);
        }
    }

    /// Subtracts the arrival order of the oldest request from all arrival orders. Called by
    /// `enqueue` before an arrival order exceeds 16 bits.
    #[cold]
    fn renumber(&mut self) {
        let queues = self.pseudos.iter().flat_map(|p| [p.queue(READS), p.queue(WRITES)]);
        let start = queues.filter_map(Queue::oldest_order).min().unwrap_or(self.order);
        self.pseudos.iter_mut().for_each(|pseudo| pseudo.renumber_from(start));
        self.order -= start;
    }

    /// Decides on the start and the end of a write drain. A drain starts at the high watermark,
    /// when a write has waited for the time slice of reads, or at `write_idle` writes while no read
    /// is queued. A drain ends when no write is left. While reads are queued, a drain also ends at
    /// its goal ([`Self::drain_goal`]) or after the time slice of writes. Between the decision and
    /// the bus turnaround, rows are opened for the other direction, in banks that the served
    /// direction does not need.
    #[inline]
    fn choose_direction(&mut self) {
        if self.turns_at != NEVER {
            if self.clock >= self.turns_at {
                self.turn_bus();
            }
            return;
        }
        let (mut reads, mut writes, mut writes_max) = (0, 0, 0);
        for pseudo in &self.pseudos {
            let queued = pseudo.queue(WRITES).count;
            reads += pseudo.queue(READS).count;
            writes += queued;
            writes_max = writes_max.max(queued);
        }
        let over = self.clock >= self.waits_since + self.slices[self.serving];
        let turns = if self.serving == READS {
            writes > 0
                && (writes_max >= self.write_high
                    || over
                    || (reads == 0 && writes_max >= self.write_idle))
        } else {
            writes == 0 || (reads > 0 && (writes_max <= self.write_goal || over))
        };
        if turns {
            self.turns_at = self.clock + self.preparation;
            self.pseudos.iter_mut().for_each(PseudoChannel::prepare_turn);
            if self.preparation == 0 {
                self.turn_bus();
            }
        }
    }

    /// Returns the number of queued writes at which a drain that starts now stops. Bandwidth is the
    /// bottleneck if many reads are queued, or if requests wait because their queue is full. A long
    /// drain is then better, because it has fewer bus turnarounds for each write. Otherwise a short
    /// drain is better, because it delays fewer reads for less time.
    fn drain_goal(&self) -> usize {
        let most = self.pseudos.iter().map(|pseudo| pseudo.queue(WRITES).count).max();
        let most = most.unwrap_or(0);
        let low = most.min(self.write_high) * self.write_low / self.write_high;
        let is_long = self.count(READS) >= self.read_high || self.waiting_count > 0;
        if is_long { low } else { low.max(most.saturating_sub(self.write_batch)) }
    }

    fn turn_bus(&mut self) {
        self.serving = 1 - self.serving;
        self.turns_at = NEVER;
        self.write_goal = self.drain_goal();
        self.waits_since = self.clock;
        self.counts.turns += u64::from(self.serving == WRITES);
        for pseudo in &mut self.pseudos {
            pseudo.serve_queue(self.serving);
        }
    }

    fn issue<S: Source, O: Observer>(
        &mut self,
        number: usize,
        operation: Operation,
        source: &mut S,
        observer: &mut O,
    ) {
        let clock = self.clock;
        if number == 1 {
            // The second pseudo-channel issues a command in this clock. Commands of a clock are
            // issued in the order of the pseudo-channels, so the first pseudo-channel may issue its
            // next command only in the next clock.
            self.pseudos[0].wait_for_bus(clock + 1);
        }
        let pseudo = &mut self.pseudos[number];
        let mut command = Command {
            at: clock * self.host_clocks + number as u64,
            kind: Kind::Activate,
            pseudo: number as u8,
            rank: 0,
            bank_group: 0,
            bank: 0,
            row: 0,
            column: 0,
        };
        match operation {
            Operation::Access(bank) => {
                command.row = pseudo.row(bank);
                let accessed = pseudo.access(bank, clock);
                let write = accessed.request.write;
                command.kind = match (write, accessed.closes) {
                    (false, false) => Kind::Read,
                    (false, true) => Kind::ReadAuto,
                    (true, false) => Kind::Write,
                    (true, true) => Kind::WriteAuto,
                };
                command.column = accessed.request.location.column;
                (command.rank, command.bank_group, command.bank) = pseudo.address(bank);
                self.counts.row_hits += u64::from(accessed.row_hit);
                observer.command(&command);
                self.accessed(number, &accessed.request, source);
                return;
            }
            Operation::Activate(bank) => {
                command.row = pseudo.activate(bank, clock);
                (command.rank, command.bank_group, command.bank) = pseudo.address(bank);
                self.counts.activates += 1;
            }
            Operation::Precharge(bank) => {
                command.kind = Kind::Precharge;
                command.row = pseudo.row(bank);
                (command.rank, command.bank_group, command.bank) = pseudo.address(bank);
                pseudo.precharge(bank, clock);
                self.counts.precharges += 1;
            }
            Operation::PrechargeRank(rank) => {
                (command.kind, command.rank) = (Kind::PrechargeAll, rank as u8);
                pseudo.precharge_rank(rank, clock);
                self.counts.precharges += 1;
            }
            Operation::Refresh(rank) => {
                (command.kind, command.rank) = (Kind::RefreshAll, rank as u8);
                if let Some(bank) = pseudo.refreshed_bank(rank) {
                    (command.kind, command.bank) = (Kind::RefreshSame, bank);
                }
                pseudo.refresh(rank, clock);
                self.counts.refreshes += 1;
            }
        }
        observer.command(&command);
    }

    /// Completes an access: makes the other pseudo-channel wait for the data bus, tells the source
    /// the clock of read data, lets waiting requests enter the queue, and chooses the direction.
    #[inline]
    fn accessed<S: Source>(&mut self, number: usize, request: &Request, source: &mut S) {
        let class = if request.write { WRITE } else { READ };
        if self.pseudos.len() == 2 {
            // In each clock of the DRAM, the second pseudo-channel issues its command half a clock
            // after the first. The constraints of the first pseudo-channel therefore count an
            // access of the second from the next clock.
            let clock = self.clock + u64::from(number == 1);
            self.pseudos[1 - number].wait_for_other(class, clock);
        }
        if request.write {
            self.counts.writes += 1;
        } else {
            self.counts.reads += 1;
            source.done(request, self.clock + self.latency);
        }
        let which = usize::from(request.write);
        while self.pseudos[number].queue(which).has_room() {
            let Some(next) = self.waiting[number][which].pop_front() else { break };
            self.waiting_count -= 1;
            self.enqueue(next, source);
        }
        self.choose_direction();
    }
}
