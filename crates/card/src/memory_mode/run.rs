//! Simulates a load on the card's memory event by event.

use super::{Initiator, MemoryLoad, MemoryOutcome};
use crate::{
    card::{BarSpec, Card, SEGMENT_BYTES},
    channel::Memory,
    engine::{Usage, Utilisation},
    event_queue::EventQueue,
    link::{COMPLETION, CREDIT_BYTES, Direction, Packets, READ_REQUEST, WRITE_REQUEST},
    load::{
        Bound, DirectionResult, Latencies, Stop,
        addresses::{Addresses, next_seed},
    },
    pool::Pool,
    settings::{Component, Settings},
};

/// Size of a line, bytes: the unit of a processor's loads and of write combining.
const LINE_BYTES: u32 = 64;

const ISSUED: usize = 0;
const READY: usize = 1;
const DONE: usize = 2;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AccessKind {
    Load,
    Store,
    Persist,
}

/// An outstanding access: a load, a store, or a read-back that makes earlier stores persistent.
#[derive(Clone, Copy, Debug)]
struct Slot {
    thread: u32,
    access: AccessKind,
    since: u64,
    /// The number of row segments of the access that are not complete.
    pending: u32,
    /// Size of each row segment of the access, bytes.
    segment: u32,
}

#[derive(Clone, Debug)]
struct AccessThread {
    addresses: Addresses,
    /// The number of stores since the last read-back (the read that makes stores persistent).
    stores: u32,
    /// The address of the last store, which the next read-back reads.
    stored: u64,
}

pub(super) struct Run<'a> {
    card: &'a Card,
    load: &'a MemoryLoad,
    packets: Packets,
    event_queue: EventQueue,
    up: Direction,
    down: Direction,
    headers: Pool,
    data: Pool,
    memory: Memory,
    threads: Vec<AccessThread>,
    slots: Vec<Slot>,
    /// The time from which all stores that any thread has sent so far survive a power failure, fs.
    safe: u64,
    completed: u64,
    loads: DirectionResult,
    stores: DirectionResult,
    persists: Latencies,
}

impl<'a> Run<'a> {
    /// Creates a run, before its first access. The load must have passed [`MemoryLoad::check`].
    pub(super) fn new(
        load: &'a MemoryLoad,
        card: &'a Card,
        bar: &BarSpec,
        settings: &Settings,
    ) -> Self {
        let ideal = |component| settings.ideal.has(component);
        let credits = !ideal(Component::Credits);
        let blocks = load.size_on(bar) / u64::from(load.bytes);
        let mut seed = load.seed;
        let thread = |_| {
            let own = next_seed(&mut seed);
            let addresses = Addresses::new(load.random, load.repeats, blocks, own);
            AccessThread { addresses, stores: 0, stored: 0 }
        };
        let access = AccessKind::Load;
        let slot = |thread| Slot { thread, access, since: 0, pending: 0, segment: 0 };
        let slots = |thread| std::iter::repeat_n(slot(thread), load.outstanding as usize);
        Self {
            card,
            load,
            packets: Packets::new(&card.link),
            event_queue: EventQueue::new(64),
            up: Direction::new(&card.link, ideal(Component::LinkUp)),
            down: Direction::new(&card.link, ideal(Component::LinkDown)),
            headers: Pool::new(bar.posted_headers, credits),
            data: Pool::new(bar.posted_data, credits),
            memory: Memory::new(&card.memory, ideal(Component::Memory)),
            threads: (0..load.threads).map(thread).collect(),
            slots: (0..load.threads).flat_map(slots).collect(),
            safe: 0,
            completed: 0,
            loads: DirectionResult::default(),
            stores: DirectionResult::default(),
            persists: Latencies::default(),
        }
    }

    /// Runs the load to its end.
    pub(super) fn all(mut self) -> MemoryOutcome {
        (0..self.slots.len() as u64).for_each(|slot| self.event_queue.push(ISSUED, 0, slot));
        let start = self.load.ramp_fs;
        let (mut end, accesses) = match self.load.stop {
            Stop::Time(time) => (start + time, u64::MAX),
            Stop::Ios(accesses) => (u64::MAX - 1, accesses),
        };
        while let Some(event) = self.event_queue.pop(start) {
            self.handle(event.lane, event.at, event.payload as usize, false);
        }
        let first = self.usage(start);
        while let Some(event) = self.event_queue.pop(end) {
            self.handle(event.lane, event.at, event.payload as usize, true);
            if self.loads.ios + self.stores.ios == accesses {
                end = event.at;
                break;
            }
        }
        let utilisation = Utilisation::between(&first, &self.usage(end));
        // Stores go to the card (`LinkDown`), so credits of this direction may limit them.
        let bound = utilisation.bound_with_credits_of(Component::LinkDown);
        let span_fs = end - start;
        for result in [&mut self.loads, &mut self.stores] {
            result.lat = result.clat.clone();
            result.bytes = result.ios * u64::from(self.load.bytes);
            result.rate(span_fs);
        }
        MemoryOutcome {
            loads: self.loads,
            stores: self.stores,
            persists: self.persists,
            span_fs,
            completed: self.completed,
            utilisation,
            bound_by: bound.map_or(Bound::Depth, Bound::Component),
        }
    }

    fn handle(&mut self, lane: usize, now: u64, slot: usize, counted: bool) {
        match lane {
            ISSUED => self.issue(now, slot),
            READY => self.ready(now, slot),
            _ => self.done(now, slot, counted),
        }
    }

    fn issue(&mut self, now: u64, slot: usize) {
        let (load, bytes) = (self.load, self.load.bytes);
        let thread = &mut self.threads[self.slots[slot].thread as usize];
        let persists = load.persist_every > 0 && thread.stores >= load.persist_every;
        let (access, address, bytes) = if persists {
            thread.stores = 0;
            (AccessKind::Persist, thread.stored, bytes.min(LINE_BYTES))
        } else {
            let is_load = thread.addresses.below(100) < load.read_percent.into();
            let address = thread.addresses.next() * u64::from(bytes);
            if is_load {
                (AccessKind::Load, address, bytes)
            } else {
                thread.stores += 1;
                thread.stored = address;
                (AccessKind::Store, address, bytes)
            }
        };
        let segment = bytes.min(self.card.chunk_bytes()).min(SEGMENT_BYTES);
        let pending = bytes / segment;
        self.slots[slot] = Slot { access, since: now, pending, segment, ..self.slots[slot] };
        let at = now + load.initiator.round_trip_fs() / 2;
        for number in 0..pending {
            let address = address + u64::from(number * segment);
            match access {
                AccessKind::Store => self.store(at, slot, address),
                AccessKind::Load | AccessKind::Persist => self.read(at, slot, address),
            }
        }
    }

    /// Sends the card the read requests of a load or a read-back for the row segment at `address`.
    fn read(&mut self, at: u64, slot: usize, address: u64) {
        let Slot { access, segment, .. } = self.slots[slot];
        let requests = match self.load.initiator {
            Initiator::Processor => segment.div_ceil(LINE_BYTES),
            Initiator::Peer => 1,
        };
        let sent = self.down.send(at, u64::from(requests) * READ_REQUEST, requests);
        self.up.answer(at, requests, &self.packets);
        let arrives = sent + self.card.link.delay_fs;
        let times = self.memory.transfer(arrives, address, segment, false, &mut ());
        let mut ready = times.data + self.card.controller.ecc_fs;
        if access == AccessKind::Persist {
            ready = ready.max(self.safe);
        }
        self.event_queue.push(READY, ready, slot as u64);
    }

    /// Sends a store's data for the row segment at `address`, once all its packets have credits.
    fn store(&mut self, at: u64, slot: usize, address: u64) {
        let bytes = self.slots[slot].segment;
        let writes = match self.load.initiator {
            Initiator::Processor => bytes.div_ceil(LINE_BYTES),
            Initiator::Peer => self.packets.writes(bytes),
        };
        let credits = bytes.div_ceil(CREDIT_BYTES);
        let start = self.headers.take_from(self.down.starts(at), writes);
        let start = self.data.take_from(start, credits);
        let wire = u64::from(writes) * WRITE_REQUEST + u64::from(bytes);
        let sent = self.down.send(start, wire, writes);
        self.up.answer(start, writes, &self.packets);
        let arrives = sent + self.card.link.delay_fs;
        let times = self.memory.transfer(arrives, address, bytes, true, &mut ());
        let ecc = self.card.controller.ecc_fs;
        let back = times.data + ecc + self.card.link.delay_fs;
        self.headers.give(back, writes);
        self.data.give(back, credits);
        let safe = times.safe(self.card.memory.durable);
        self.safe = self.safe.max(safe + ecc);
        self.event_queue.push(DONE, sent, slot as u64);
    }

    /// Sends the data of a row segment from the card to the initiator.
    fn ready(&mut self, now: u64, slot: usize) {
        let bytes = self.slots[slot].segment;
        let packets = match self.load.initiator {
            Initiator::Processor => bytes.div_ceil(LINE_BYTES),
            Initiator::Peer => self.packets.completions(0, bytes),
        };
        let wire = u64::from(bytes) + u64::from(packets) * COMPLETION;
        let sent = self.up.send(now, wire, packets);
        self.down.answer(now, packets, &self.packets);
        let way = self.load.initiator.round_trip_fs() / 2;
        self.event_queue.push(DONE, sent + self.card.link.delay_fs + way, slot as u64);
    }

    /// Counts a row segment of the access `slots[number]` as complete. The last segment completes
    /// the access. Its latency is recorded if `counted` (the ramp time is over).
    fn done(&mut self, now: u64, number: usize, counted: bool) {
        let slot = &mut self.slots[number];
        slot.pending -= 1;
        if slot.pending > 0 {
            return;
        }
        let latency = now - slot.since;
        self.completed += u64::from(slot.access != AccessKind::Persist);
        let result = match slot.access {
            AccessKind::Load => Some(&mut self.loads),
            AccessKind::Store => Some(&mut self.stores),
            AccessKind::Persist => None,
        };
        match result {
            _ if !counted => {}
            Some(result) => {
                result.ios += 1;
                result.clat.record(latency);
            }
            None => self.persists.record(latency),
        }
        self.event_queue.push(ISSUED, now, number as u64);
    }

    /// Returns the counters at the time `at`, fs. The counters of processors, cores, DMA engines,
    /// buffers and read tags are 0, because loads and stores do not use these components.
    fn usage(&self, at: u64) -> Usage {
        let busy = |component| match component {
            Component::LinkUp => self.up.busy,
            Component::LinkDown => self.down.busy,
            Component::Credits => self.headers.busy(at).max(self.data.busy(at)),
            Component::Memory => self.memory.busy(),
            _ => 0,
        };
        let waited = |component| match component {
            Component::Credits => self.headers.waited(at) + self.data.waited(at),
            _ => 0,
        };
        Usage {
            at,
            busy: Component::ALL.map(busy),
            waited: Component::ALL.map(waited),
            link_bytes: [self.up.bytes, self.down.bytes],
            link_packets: [self.up.packets, self.down.packets],
            memory: self.memory.counts(),
        }
    }
}
