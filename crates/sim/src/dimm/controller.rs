//! One sub-channel and its controller: time jumps from event to event.
//!
//! An event is a request that arrives, a refresh that is due, the end of a slice of reads or
//! writes, or a command. All is done in the order of time; what is earlier is looked for among few
//! candidates that are kept, so that idle time costs nothing.

use super::{
    command::{Command, Kind, Observer},
    config::Controller,
    constraint::{READ, WRITE},
    device::Device,
    scheduler::{NEVER, Pseudo, READS, Step, WRITES},
    traffic::{Request, Source},
};
use std::collections::VecDeque;

/// Requests that wait in front of a queue which is full. A source that does not mind when requests
/// are done is not asked for more.
const WAITING_MAX: usize = 4096;

/// What a sub-channel has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Bursts read from the DRAM.
    pub reads: u64,
    /// Bursts written.
    pub writes: u64,
    /// Reads answered by a write that still waited, and writes that replaced one.
    pub forwarded: u64,
    /// Rows opened.
    pub activates: u64,
    /// Precharges that were commands of their own.
    pub precharges: u64,
    /// Refreshes.
    pub refreshes: u64,
    /// Accesses to a row that an earlier access had opened.
    pub row_hits: u64,
    /// Changes from reads to writes.
    pub turns: u64,
}

impl Counts {
    fn each(&mut self, other: &Self, with: impl Fn(&mut u64, u64)) {
        with(&mut self.reads, other.reads);
        with(&mut self.writes, other.writes);
        with(&mut self.forwarded, other.forwarded);
        with(&mut self.activates, other.activates);
        with(&mut self.precharges, other.precharges);
        with(&mut self.refreshes, other.refreshes);
        with(&mut self.row_hits, other.row_hits);
        with(&mut self.turns, other.turns);
    }

    /// What has been done since it was `earlier`.
    pub fn since(&self, earlier: &Self) -> Self {
        let mut since = *self;
        since.each(earlier, |own, other| *own -= other);
        since
    }

    /// The bandwidth when this took `ns` with bursts of so many `bytes`, GB/s; 0 of no access.
    pub fn bandwidth_gbps(&self, bytes: f64, ns: f64) -> f64 {
        let accesses = (self.reads + self.writes) as f64;
        if accesses > 0.0 && ns > 0.0 { accesses * bytes / ns } else { 0.0 }
    }

    /// What another has done, too.
    pub fn add(&mut self, other: &Self) {
        self.each(other, |own, other| *own += other);
    }
}

/// A sub-channel with its controller.
#[derive(Debug)]
pub struct SubChannel {
    pseudos: Vec<Pseudo>,
    waiting: [[VecDeque<Request>; 2]; 2],
    waiting_count: usize,
    order: u16,
    clock: u64,
    serving: usize,
    /// Since when requests wait for the other direction.
    waits_since: u64,
    write_high: usize,
    write_low: usize,
    /// Writes at which reads go first again: fewer than waited when writes began to.
    write_goal: usize,
    slices: [u64; 2],
    /// When the other direction is served, once that is decided; until then its rows are opened.
    turns_at: u64,
    prepares: u64,
    host_clocks: u64,
    latency: u64,
    counts: Counts,
}

impl SubChannel {
    /// A sub-channel of a channel with this device, at rest: the `phase.0`th of `phase.1`, which
    /// are not all refreshed at the same time.
    pub fn new(device: &Device, controller: &Controller, phase: (u64, u64)) -> Self {
        let pseudos = (0..device.pseudo_channels as usize)
            .map(|number| Pseudo::new(device, controller, number, phase))
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
            write_goal: 0,
            slices: [
                device.clocks(controller.read_slice_ps),
                device.clocks(controller.write_slice_ps),
            ],
            turns_at: NEVER,
            prepares: u64::from(t.t_rcd),
            host_clocks: device.host_clocks,
            latency: u64::from(t.cl + t.burst) + device.nearest_clocks(device.delay_ps),
            counts: Counts::default(),
        }
    }

    /// What it has done so far.
    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    /// The clock of the DRAM.
    pub fn clock(&self) -> u64 {
        self.clock
    }

    /// Runs until so many accesses more have been done, or nothing is left to do.
    pub fn run<S: Source, O: Observer>(&mut self, source: &mut S, observer: &mut O, accesses: u64) {
        let until = self.counts.reads + self.counts.writes + accesses;
        while self.counts.reads + self.counts.writes < until {
            let (number, command_at, step) = self.next_command();
            let arrival = self.next_arrival(source);
            let timer = self.next_timer();
            if arrival <= command_at.min(timer) {
                if arrival == NEVER {
                    return;
                }
                self.clock = self.clock.max(arrival);
                let request = source.take();
                self.admit(request, source);
                self.choose_direction();
            } else if timer <= command_at {
                // A machine at rest is refreshed for ever.
                if self.is_idle() && source.peek().is_none() {
                    return;
                }
                self.clock = self.clock.max(timer);
                self.on_timer();
            } else {
                self.clock = command_at;
                self.issue(number, step, source, observer);
            }
        }
    }

    fn is_idle(&self) -> bool {
        self.waiting_count == 0
            && self.pseudos.iter().all(|p| p.queues[READS].count + p.queues[WRITES].count == 0)
    }

    /// Requests in the queues of one direction.
    #[inline]
    fn count(&self, which: usize) -> usize {
        self.pseudos.iter().map(|pseudo| pseudo.queues[which].count).sum()
    }

    #[inline]
    fn next_command(&mut self) -> (usize, u64, Step) {
        let (at, step) = self.pseudos[0].next_step(self.clock);
        let mut best = (0, at, step);
        if let Some(second) = self.pseudos.get_mut(1) {
            let (at, step) = second.next_step(self.clock);
            if at < best.1 {
                best = (1, at, step);
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
        let refresh = self.pseudos.iter().map(|pseudo| pseudo.refresh_wake).min();
        let other = 1 - self.serving;
        let waits = self.count(other) > 0 && self.turns_at == NEVER;
        let slice = if waits { self.waits_since + self.slices[self.serving] } else { NEVER };
        refresh.unwrap_or(NEVER).min(slice).min(self.turns_at)
    }

    fn on_timer(&mut self) {
        for number in 0..self.pseudos.len() {
            if self.pseudos[number].refresh_wake <= self.clock {
                self.pseudos[number].start_refreshes(self.clock);
            }
        }
        self.choose_direction();
    }

    /// Takes a request into its queue, or into the line in front of it.
    fn admit<S: Source>(&mut self, request: Request, source: &mut S) {
        let (number, which) = (usize::from(request.place.pseudo), usize::from(request.write));
        let line = &mut self.waiting[number][which];
        if line.is_empty() && self.pseudos[number].queues[which].has_room() {
            self.enter(request, source);
        } else {
            line.push_back(request);
            self.waiting_count += 1;
        }
    }

    fn enter<S: Source>(&mut self, mut request: Request, source: &mut S) {
        let pseudo = &mut self.pseudos[usize::from(request.place.pseudo)];
        // What is still to be written is the newest there is.
        if pseudo.queues[WRITES].count > 0 && pseudo.queues[WRITES].has(&request) {
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
            self.count_anew();
        }
        if request.write {
            source.accepted(&request, self.clock);
        }
    }

    /// The order of requests is counted from the oldest on again, before the numbers are used up.
    #[cold]
    fn count_anew(&mut self) {
        let queues = self.pseudos.iter().flat_map(|pseudo| &pseudo.queues);
        let start = queues.filter_map(super::queue::Queue::oldest).min().unwrap_or(self.order);
        self.pseudos.iter_mut().for_each(|pseudo| pseudo.count_from(start));
        self.order -= start;
    }

    /// Reads go first until enough writes wait, or a write has waited for long enough; then writes
    /// do, until few are left, or reads have. Before that rows are opened for what comes.
    #[inline]
    fn choose_direction(&mut self) {
        if self.turns_at != NEVER {
            let done = self.pseudos.iter().all(Pseudo::has_done);
            if done || self.clock >= self.turns_at {
                self.turn();
            }
            return;
        }
        let (mut reads, mut writes, mut most) = (0, 0, 0);
        for pseudo in &self.pseudos {
            reads += pseudo.queues[READS].count;
            writes += pseudo.queues[WRITES].count;
            most = most.max(pseudo.queues[WRITES].count);
        }
        let over = self.clock >= self.waits_since + self.slices[self.serving];
        let turns = if self.serving == READS {
            writes > 0 && (most >= self.write_high || over || reads == 0)
        } else {
            writes == 0 || (reads > 0 && (most <= self.write_goal || over))
        };
        if turns {
            self.turns_at = self.clock + self.prepares;
            self.pseudos.iter_mut().for_each(Pseudo::prepare);
            if self.prepares == 0 || self.pseudos.iter().all(Pseudo::has_done) {
                self.turn();
            }
        }
    }

    fn turn(&mut self) {
        self.serving = 1 - self.serving;
        self.turns_at = NEVER;
        let most = self.pseudos.iter().map(|pseudo| pseudo.queues[WRITES].count).max();
        let most = most.unwrap_or(0);
        self.write_goal = most.min(self.write_high) * self.write_low / self.write_high;
        self.waits_since = self.clock;
        self.counts.turns += u64::from(self.serving == WRITES);
        for pseudo in &mut self.pseudos {
            pseudo.turn(self.serving);
        }
    }

    fn issue<S: Source, O: Observer>(
        &mut self,
        number: usize,
        step: Step,
        source: &mut S,
        observer: &mut O,
    ) {
        let clock = self.clock;
        if number == 1 {
            // Of one clock of the DRAM the first pseudo-channel has the earlier slot.
            let first = &mut self.pseudos[0];
            first.bus_free = first.bus_free.max(clock + 1);
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
        match step {
            Step::Access(bank) => {
                command.row = pseudo.row(bank);
                let accessed = pseudo.access(bank, clock);
                let write = accessed.request.write;
                command.kind = match (write, accessed.closes) {
                    (false, false) => Kind::Read,
                    (false, true) => Kind::ReadAuto,
                    (true, false) => Kind::Write,
                    (true, true) => Kind::WriteAuto,
                };
                command.column = accessed.request.place.column;
                (command.rank, command.bank_group, command.bank) = pseudo.address(bank);
                self.counts.row_hits += u64::from(accessed.row_hit);
                observer.command(&command);
                self.accessed(number, &accessed.request, source);
                return;
            }
            Step::Activate(bank) => {
                command.row = pseudo.activate(bank, clock);
                (command.rank, command.bank_group, command.bank) = pseudo.address(bank);
                self.counts.activates += 1;
            }
            Step::Precharge(bank) => {
                command.kind = Kind::Precharge;
                command.row = pseudo.row(bank);
                (command.rank, command.bank_group, command.bank) = pseudo.address(bank);
                pseudo.precharge(bank, clock);
                self.counts.precharges += 1;
            }
            Step::CloseRank(rank) => {
                (command.kind, command.rank) = (Kind::PrechargeAll, rank as u8);
                pseudo.close_rank(rank, clock);
                self.counts.precharges += 1;
            }
            Step::Refresh(rank) => {
                (command.kind, command.rank) = (Kind::RefreshAll, rank as u8);
                if let Some(bank) = pseudo.refresh_turn(rank) {
                    (command.kind, command.bank) = (Kind::RefreshSame, bank);
                }
                pseudo.refresh(rank, clock);
                self.counts.refreshes += 1;
            }
        }
        observer.command(&command);
    }

    /// What follows an access: the other pseudo-channel waits for the bus to turn round, the
    /// source hears of it, and who waited in line has room.
    #[inline]
    fn accessed<S: Source>(&mut self, number: usize, request: &Request, source: &mut S) {
        let class = if request.write { WRITE } else { READ };
        if self.pseudos.len() == 2 {
            // The second issues half a clock behind the first.
            let clock = self.clock + u64::from(number == 1);
            self.pseudos[1 - number].constrain_from_other(class, clock);
        }
        if request.write {
            self.counts.writes += 1;
        } else {
            self.counts.reads += 1;
            source.done(request, self.clock + self.latency);
        }
        let which = usize::from(request.write);
        while self.pseudos[number].queues[which].has_room() {
            let Some(next) = self.waiting[number][which].pop_front() else { break };
            self.waiting_count -= 1;
            self.enter(next, source);
        }
        self.choose_direction();
    }
}
