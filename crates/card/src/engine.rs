//! Simulates the card and its host event by event.
//!
//! ```text
//! submit:   host processor ──▶ doorbell ──▶ link ──▶ arbitration
//! fetch:    submission queue entries ──▶ link ──▶ core: command
//! read:     memory channel ──▶ ECC ──▶ buffer ──▶ link ──▶ core: completion
//! write:    DMA engine reads host memory in chunks ──▶ link ──▶ buffer ──▶ ECC
//!           ──▶ memory channel ──▶ core: completion
//! complete: completion queue entry, MSI-X ──▶ link ──▶ interrupt ──▶ host processor
//! ```
//!
//! The link, the cores and the memory channels are servers in the sense of queueing theory: the end
//! of a piece of work is computed as soon as the work arrives at the server. Buffers, read tags,
//! DMA engines and flow control credits are pools: a request takes units and returns them later. A
//! write is acknowledged when all its data are safe: in DRAM whose content is saved on a power
//! failure, or in STT-MRAM whose row is precharged.
//!
//! The variables `at` and `now` are times in femtoseconds since the start of the run.

mod controller;
mod host;
mod transfer;
mod usage;

use crate::{
    arbiter::Arbiter,
    card::{BLOCK_BYTES, Card},
    channel::Memory,
    event_queue::{Event, EventQueue, LANES},
    io::{IoCommand, IoCompletion, Operation},
    link::{Direction, Packets},
    pool::Pool,
    settings::{Arbitration, Component, HostMode, Settings},
};
use core::fmt;
use interleaf_sim::dimm::command;
use std::collections::VecDeque;
pub use usage::{Usage, Utilisation};

/// A part of a write within one row segment ([`SEGMENT_BYTES`](crate::card::SEGMENT_BYTES)), with
/// the times that matter for a power failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WrittenSegment {
    /// The tag of the write command.
    pub tag: u32,
    /// The first byte of the segment, counted from the first byte of the card's memory.
    pub offset: u64,
    /// The length of the segment, bytes.
    pub bytes: u32,
    /// The time at which the data are in a buffer of the controller, fs.
    pub buffered: u64,
    /// The time at which the data are in the DRAM, or in the row buffers of the STT-MRAM, fs.
    pub in_array: u64,
    /// The time at which the row is precharged, fs: STT-MRAM then keeps the data without power.
    pub durable: u64,
}

/// An observer of the writes of an engine, for models of power failure and energy. The observer
/// `()` ignores all writes, at no cost in time.
pub trait WriteObserver {
    /// Observes a segment of a write that the memory channel has scheduled. The times of the
    /// segment may be in the future.
    fn segment(&mut self, segment: &WrittenSegment) {
        let _ = segment;
    }

    /// Observes that the controller decided at the time `at` (fs) to complete a command; a core
    /// builds the completion next. The data of the command survive a power failure from the time
    /// `safe` on. `safe` must be at most `at`, except on a card that acknowledges early
    /// ([`Settings::acknowledge_early`]). A later `safe` is an error even if the core finishes the
    /// completion after `safe`, because a faster core would acknowledge unsafe data.
    fn completing(&mut self, command: &IoCommand, safe: u64, at: u64) {
        let _ = (command, safe, at);
    }

    /// Observes that the controller sent the completion of a command at the time `at` (fs). The
    /// host submitted the command at `submitted`. The data survive a power failure from `safe` on;
    /// `safe` is at most `at`, except on a card that acknowledges early.
    fn acknowledged(&mut self, command: &IoCommand, submitted: u64, safe: u64, at: u64) {
        let _ = (command, submitted, safe, at);
    }

    /// Observes a command to a memory channel. The engine calls this function only if
    /// [`observes_memory`](Self::observes_memory) returns true.
    fn memory(&mut self, command: &command::Command) {
        let _ = command;
    }

    /// Returns true if the engine must call [`memory`](Self::memory) for each command to a memory
    /// channel. The calls do not name the channel.
    fn observes_memory(&self) -> bool {
        false
    }
}

impl WriteObserver for () {}

impl<O: WriteObserver> WriteObserver for &mut O {
    fn segment(&mut self, segment: &WrittenSegment) {
        (**self).segment(segment);
    }

    fn completing(&mut self, command: &IoCommand, safe: u64, at: u64) {
        (**self).completing(command, safe, at);
    }

    fn acknowledged(&mut self, command: &IoCommand, submitted: u64, safe: u64, at: u64) {
        (**self).acknowledged(command, submitted, safe, at);
    }

    fn memory(&mut self, command: &command::Command) {
        (**self).memory(command);
    }

    fn observes_memory(&self) -> bool {
        (**self).observes_memory()
    }
}

/// Passes the commands of the memory channels to an observer of writes.
struct MemoryObserver<'a, O>(&'a mut O);

impl<O: WriteObserver> command::Observer for MemoryObserver<'_, O> {
    fn command(&mut self, command: &command::Command) {
        self.0.memory(command);
    }

    #[inline]
    fn observes(&self) -> bool {
        self.0.observes_memory()
    }
}

/// The reason why the engine does not accept a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SubmitError {
    /// The card has no I/O queue with the index that the command names.
    Queue,
    /// The submission queue is full.
    Full,
    /// The length of the command is 0, or its offset or length is not a whole number of blocks.
    Length,
    /// The command transfers more than the card allows (`NvmeSpec::max_transfer`).
    Transfer,
    /// The command ends after the last block of the card.
    Capacity,
    /// The submission time of the command is before the present time of the engine.
    Past,
}

impl fmt::Display for SubmitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Queue => "the card has no such queue",
            Self::Full => "the submission queue is full",
            Self::Length => "the command has no whole number of blocks",
            Self::Transfer => "the command transfers more than the card allows",
            Self::Capacity => "the command ends behind the last block",
            Self::Past => "the command is submitted in the past",
        })
    }
}

impl std::error::Error for SubmitError {}

// The kinds of events. The events of each kind are in a lane of the `EventQueue`, in order of time.
// The constant of the kind is the index of the lane. The payload of an event is the slot of a
// command (its index in `Engine::flights`) or the index of an I/O queue. Some kinds of events add a
// second number to the payload, such as bytes or entries.
const DOORBELL_WRITTEN: usize = 0;
const DOORBELL_ARRIVED: usize = 1;
const ENTRIES_READ: usize = 2;
const ENTRIES_ARRIVED: usize = 3;
const DECODED: usize = 4;
const LIST_READ: usize = 5;
const LIST_ARRIVED: usize = 6;
const DATA_READ: usize = 7;
const DATA_ARRIVED: usize = 8;
const DATA_READY: usize = 9;
const TRANSFERRED: usize = 10;
const SAFE: usize = 11;
const FINISHED: usize = 12;
const INTERRUPT: usize = 13;
const COALESCED: usize = 14;
const COMPLETED: usize = 15;
const _: () = assert!(COMPLETED < LANES);

/// A command between submission and completion.
#[derive(Clone, Copy, Debug)]
struct InFlight {
    io: IoCommand,
    submitted: u64,
    fetched: u64,
    /// Bytes requested so far: for a write, from host memory; for a read, from the memory channel.
    requested: u32,
    /// Bytes of a write that the host has sent.
    sent: u32,
    /// Bytes of a write that have arrived in the card's buffers.
    arrived: u32,
    /// For a write, the bytes that the memory channel has received; for a read, the bytes that were
    /// sent to the host.
    moved: u32,
    /// The time from which the `moved` bytes of a write survive a power failure, fs.
    safe: u64,
}

/// An I/O queue pair, and the processor of the host that submits and completes its commands.
#[derive(Clone, Debug)]
struct Queue {
    /// Commands in the submission queue whose entries have not arrived at the card, oldest first:
    /// the slot of each command in `Engine::flights`.
    submitted: VecDeque<u32>,
    /// The number of submission queue entries whose doorbell has arrived, and that the card has not
    /// yet requested from host memory.
    visible: u32,
    /// The index of the next entry that the card fetches from the submission queue.
    head: u32,
    /// The number of commands between submission and completion.
    outstanding: u32,
    /// The completion queue entries that are in host memory or on the way to it: the arrival time
    /// of each entry (fs), and the index of its command in `Engine::flights`.
    entries: VecDeque<(u64, u32)>,
    /// The number of completion queue entries that are written and have no interrupt yet.
    coalesced: u32,
    interrupts: u64,
    /// The time from which the host's processor of this queue is free, fs.
    processor: u64,
    processor_busy: u64,
}

/// A card in its host. Most fields are components of the card: servers, pools and queues.
#[derive(Clone, Debug)]
pub struct Engine {
    card: Card,
    settings: Settings,
    packets: Packets,
    now: u64,
    events: u64,
    event_queue: EventQueue,
    flights: Vec<InFlight>,
    free_slots: Vec<u32>,
    queues: Vec<Queue>,
    arbiter: Arbiter,
    up: Direction,
    down: Direction,
    credits: [Pool; 3],
    cores: Vec<u64>,
    cores_busy: u64,
    fetches: Pool,
    commands: Pool,
    dma: Pool,
    waiting_dma: VecDeque<u32>,
    /// The commands whose DMA engines have chunks left to request, by slot. Queue 0 has the reads
    /// and Write Zeroes, which need no read tags; queue 1 has the writes.
    active: [VecDeque<u32>; 2],
    /// The index in `active` of the queue that used the last turn. `request_data` serves the other
    /// queue first; the turn of the other queue ends when it gets a burst or is empty.
    turn: usize,
    buffers: Pool,
    tags: Pool,
    /// Maximum number of chunks that a DMA engine requests in its turn.
    burst: u32,
    /// The time at which the next buffer is returned and `request_data` is called again, fs;
    /// `u64::MAX` if no such call is scheduled.
    retry: u64,
    memory: Memory,
}

impl Engine {
    /// Creates an idle card in its host, at the time 0.
    pub fn new(card: &Card, settings: &Settings) -> Self {
        let ideal = |component| settings.ideal.has(component);
        let limited = |component| !ideal(component);
        let queues = card.nvme.queues as usize;
        let queue = Queue {
            submitted: VecDeque::new(),
            visible: 0,
            head: 0,
            outstanding: 0,
            entries: VecDeque::new(),
            coalesced: 0,
            interrupts: 0,
            processor: 0,
            processor_busy: 0,
        };
        let chunk = card.chunk_bytes();
        let link = &card.link;
        let credit = |units| Pool::new(units, limited(Component::Credits));
        let requests = credit(link.non_posted_headers);
        let tags = link.read_tags * (link.max_read_request / chunk);
        let controller = &card.controller;
        let burst = transfer::BURST
            .min(controller.buffer_bytes / chunk)
            .min(tags)
            .min(requests.most().saturating_mul(link.max_read_request / chunk));
        Self {
            packets: Packets::new(link),
            now: 0,
            events: 0,
            event_queue: EventQueue::new(256),
            flights: Vec::with_capacity(1024),
            free_slots: Vec::with_capacity(1024),
            queues: vec![queue; queues],
            arbiter: Arbiter::new(&settings.arbitration, queues),
            up: Direction::new(link, ideal(Component::LinkUp)),
            down: Direction::new(link, ideal(Component::LinkDown)),
            credits: [credit(link.posted_headers), credit(link.posted_data), requests],
            cores: vec![0; controller.cores as usize],
            cores_busy: 0,
            fetches: Pool::new(controller.fetches, true),
            commands: Pool::new(controller.commands, true),
            dma: Pool::new(controller.dma_engines, limited(Component::DmaEngines)),
            waiting_dma: VecDeque::with_capacity(1024),
            active: [VecDeque::with_capacity(1024), VecDeque::with_capacity(1024)],
            turn: 0,
            buffers: Pool::new(controller.buffer_bytes / chunk, limited(Component::Buffers)),
            tags: Pool::new(tags, limited(Component::ReadTags)),
            burst,
            retry: u64::MAX,
            memory: Memory::new(&card.memory, ideal(Component::Memory)),
            card: card.clone(),
            settings: settings.clone(),
        }
    }

    /// Returns the card that the engine simulates.
    pub fn card(&self) -> &Card {
        &self.card
    }

    /// Sets the arbitration among submission queues. A new round of the arbitration begins.
    pub fn set_arbitration(&mut self, arbitration: &Arbitration) {
        self.arbiter = Arbiter::new(arbitration, self.queues.len());
        self.settings.arbitration = arbitration.clone();
    }

    /// Returns the present time of the simulation, fs: the time of the last event, or the end of
    /// the last [`Self::run_until`] if that is later.
    pub fn now(&self) -> u64 {
        self.now
    }

    /// Returns the number of events that the engine has handled so far.
    pub fn events(&self) -> u64 {
        self.events
    }

    /// Returns the time of the next event, fs; `None` without events: all commands are complete.
    pub fn next_event(&self) -> Option<u64> {
        self.event_queue.next_at()
    }

    /// Submits a command. At the time `at` (fs), the host's processor begins to write the
    /// submission queue entry and the doorbell.
    ///
    /// # Errors
    /// If the command cannot be accepted; the engine is then unchanged.
    pub fn submit(&mut self, at: u64, io: IoCommand) -> Result<(), SubmitError> {
        self.acceptable(at, &io)?;
        let flight = InFlight {
            io,
            submitted: at,
            fetched: 0,
            requested: 0,
            sent: 0,
            arrived: 0,
            moved: 0,
            safe: 0,
        };
        let slot = match self.free_slots.pop() {
            Some(slot) => {
                self.flights[slot as usize] = flight;
                slot
            }
            None => {
                self.flights.push(flight);
                self.flights.len() as u32 - 1
            }
        };
        self.host_submits(at, slot);
        Ok(())
    }

    fn acceptable(&self, at: u64, io: &IoCommand) -> Result<(), SubmitError> {
        let queue = self.queues.get(usize::from(io.queue)).ok_or(SubmitError::Queue)?;
        // One entry of the submission queue stays empty: with all entries used, head and tail would
        // be equal, as in an empty ring (NVMe 1.1, 4.1.2).
        if queue.outstanding + 1 >= self.card.nvme.entries {
            return Err(SubmitError::Full);
        }
        if at < self.now {
            return Err(SubmitError::Past);
        }
        if io.operation == Operation::Flush {
            return Ok(());
        }
        if io.bytes == 0 || !io.bytes.is_multiple_of(BLOCK_BYTES) {
            return Err(SubmitError::Length);
        }
        if !io.offset.is_multiple_of(BLOCK_BYTES.into()) {
            return Err(SubmitError::Length);
        }
        let transfers = matches!(io.operation, Operation::Read | Operation::Write);
        if transfers && io.bytes > self.card.nvme.max_transfer {
            return Err(SubmitError::Transfer);
        }
        match io.offset.checked_add(io.bytes.into()) {
            Some(end) if end <= self.card.memory.capacity => Ok(()),
            _ => Err(SubmitError::Capacity),
        }
    }

    /// Handles the events up to the time `until` (fs) in order of time, and returns at the first
    /// completion; `None` if no command completes up to `until`.
    pub fn next_completion<O: WriteObserver>(
        &mut self,
        until: u64,
        observer: &mut O,
    ) -> Option<IoCompletion> {
        while let Some(event) = self.event_queue.pop(until) {
            self.now = event.at;
            self.events += 1;
            if let Some(completion) = self.handle(event, observer) {
                return Some(completion);
            }
        }
        None
    }

    /// Handles all events up to the time `until` (fs), and gives each completion to `sink`.
    pub fn run_until<O: WriteObserver>(
        &mut self,
        until: u64,
        observer: &mut O,
        mut sink: impl FnMut(IoCompletion),
    ) {
        while let Some(completion) = self.next_completion(until, observer) {
            sink(completion);
        }
        self.now = self.now.max(until);
    }

    /// Ends a run: reports to `observer` the scheduled memory commands that are not yet reported.
    pub fn finish<O: WriteObserver>(&mut self, observer: &mut O) {
        self.memory.finish(&mut MemoryObserver(observer));
    }

    #[inline]
    fn handle<O: WriteObserver>(&mut self, event: Event, observer: &mut O) -> Option<IoCompletion> {
        let slot = event.payload as u32;
        let more = (event.payload >> 32) as u32;
        match event.lane {
            DOORBELL_WRITTEN => self.doorbell_written(slot),
            DOORBELL_ARRIVED => self.doorbell_arrived(slot),
            ENTRIES_READ => self.entries_read(slot, more),
            ENTRIES_ARRIVED => self.entries_arrived(slot, more),
            DECODED => self.decoded(slot, observer),
            LIST_READ => self.list_read(slot),
            LIST_ARRIVED => self.list_arrived(slot, observer),
            DATA_READ => self.data_read(slot, more),
            DATA_ARRIVED => self.data_arrived(slot, more, observer),
            DATA_READY => self.data_ready(slot, more, observer),
            TRANSFERRED => self.transferred(slot, observer),
            SAFE => self.safe(slot, observer),
            FINISHED => self.finished(slot, observer),
            INTERRUPT => self.interrupt(slot),
            COALESCED => self.coalescing_time_is_over(slot, more),
            _ => return Some(self.completed(slot, more > 0)),
        }
        None
    }
}

/// Packs two numbers into the payload of an event: `slot`, the index of a command or of a queue,
/// and `more`, a number whose meaning depends on the kind of event, such as bytes or entries.
#[inline]
fn payload(slot: u32, more: u32) -> u64 {
    u64::from(slot) | u64::from(more) << 32
}

fn external(settings: &Settings) -> bool {
    settings.host == HostMode::External
}

#[cfg(test)]
mod tests;
