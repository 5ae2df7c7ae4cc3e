//! Transfers data between host memory, buffers and memory channels.

use super::{
    DATA_ARRIVED, DATA_READ, DATA_READY, Engine, LIST_ARRIVED, LIST_READ, MemoryObserver, SAFE,
    TRANSFERRED, WriteObserver, WrittenSegment, payload,
};
use crate::{
    io::Operation,
    link::{CREDIT_BYTES, READ_REQUEST, WRITE_REQUEST},
};
use std::collections::VecDeque;

/// Size of a page of the host, bytes (CC.MPS).
const PAGE: u32 = 4096;
/// Size of an entry of a PRP list, bytes.
const LIST_ENTRY: u32 = 8;
/// Size of an entry in the list of ranges of a DATASET MANAGEMENT command, bytes.
const RANGE: u32 = 16;
/// Number of chunks that a DMA engine requests before the next engine has its turn. The number is
/// assumed: 8 chunks of 512 bytes are 4 KiB.
pub(super) const BURST: u32 = 8;

impl Engine {
    /// Queues a command for a DMA engine.
    pub(super) fn wait_for_engine<O: WriteObserver>(&mut self, slot: u32, observer: &mut O) {
        self.waiting_dma.push_back(slot);
        self.start_engines(observer);
    }

    /// Gives waiting commands to free DMA engines.
    fn start_engines<O: WriteObserver>(&mut self, observer: &mut O) {
        while !self.waiting_dma.is_empty() && self.dma.take(self.now, 1) {
            let Some(slot) = self.waiting_dma.pop_front() else { break };
            self.start_engine(slot, observer);
        }
    }

    fn start_engine<O: WriteObserver>(&mut self, slot: u32, observer: &mut O) {
        let io = &self.flights[slot as usize].io;
        // The command itself has room for the PRP entries of two pages; more pages need a PRP list
        // (NVMe 1.1, 4.3).
        if io.operation != Operation::WriteZeroes && io.bytes > 2 * PAGE {
            self.request_list(slot);
        } else {
            self.activate(slot, observer);
        }
    }

    /// Frees the DMA engine of a command, and gives free engines to waiting commands.
    fn release_engine<O: WriteObserver>(&mut self, observer: &mut O) {
        self.dma.give_now(self.now, 1);
        self.start_engines(observer);
    }

    /// Returns the size of the list of a command in host memory, bytes. The list is the PRP list,
    /// or the list of ranges to deallocate, which is assumed to have one range.
    fn list_bytes(&self, slot: u32) -> u32 {
        let io = &self.flights[slot as usize].io;
        match io.operation {
            Operation::Deallocate => RANGE,
            _ => (io.bytes.div_ceil(PAGE) - 1) * LIST_ENTRY,
        }
    }

    /// Requests the PRP list or the list of ranges of a command from host memory.
    pub(super) fn request_list(&mut self, slot: u32) {
        let requests = self.list_bytes(slot).div_ceil(self.card.link.max_read_request);
        let ready = self.request_reads(requests);
        self.event_queue.push(LIST_READ, ready, slot.into());
    }

    pub(super) fn list_read(&mut self, slot: u32) {
        let arrives = self.complete_read(self.now, self.list_bytes(slot));
        self.event_queue.push(LIST_ARRIVED, arrives, slot.into());
    }

    pub(super) fn list_arrived<O: WriteObserver>(&mut self, slot: u32, observer: &mut O) {
        if self.flights[slot as usize].io.operation == Operation::Deallocate {
            self.event_queue.push(SAFE, self.now, slot.into());
            return;
        }
        self.activate(slot, observer);
    }

    /// Lets the DMA engine of a command request the data of the command.
    fn activate<O: WriteObserver>(&mut self, slot: u32, observer: &mut O) {
        let write = self.flights[slot as usize].io.operation == Operation::Write;
        self.active[usize::from(write)].push_back(slot);
        self.request_data(observer);
    }

    /// Lets the DMA engines request chunks in round robin, one burst at a time, if buffers and read
    /// tags for the whole burst are free. Reads and writes take turns to be served first: a
    /// direction keeps its turn until it gets a burst or has nothing to request. Otherwise the
    /// opposite direction could take every buffer that becomes free.
    #[inline]
    pub(super) fn request_data<O: WriteObserver>(&mut self, observer: &mut O) {
        if self.active.iter().all(VecDeque::is_empty) {
            return;
        }
        let first = 1 - self.turn;
        if self.request_bursts(first, observer) || self.active[first].is_empty() {
            self.turn = first;
        }
        self.request_bursts(1 - first, observer);
    }

    /// Requests bursts for the commands of `active[kind]`: reads and writes of zeroes (`kind` 0),
    /// or writes (`kind` 1). Returns true if at least one burst was requested.
    fn request_bursts<O: WriteObserver>(&mut self, kind: usize, observer: &mut O) -> bool {
        let limit = self.card.chunk_bytes();
        let mut has_requested = false;
        while let Some(slot) = self.active[kind].front().copied() {
            let flight = &self.flights[slot as usize];
            let operation = flight.io.operation;
            let start = flight.io.offset + u64::from(flight.requested);
            let left = flight.io.bytes - flight.requested;
            // Chunks end at multiples of `limit` from the start of the memory, so the first chunk
            // of a burst may be shorter.
            let within = (start % u64::from(limit)) as u32;
            let bytes = self.burst_bytes(slot, left.min(self.burst * limit - within));
            let chunks = (within + bytes).div_ceil(limit);
            let tags = if operation == Operation::Write { chunks } else { 0 };
            if !self.tags.take(self.now, tags) {
                // Without free tags no burst is requested now. When data of a write arrive,
                // `data_arrived` returns a tag to the pool and calls `request_data` again.
                return has_requested;
            }
            if !self.buffers.take(self.now, chunks) {
                self.tags.give_now(self.now, tags);
                self.retry_when_buffers_return();
                return has_requested;
            }
            self.active[kind].pop_front();
            has_requested = true;
            match operation {
                Operation::Read => self.read_segments(slot, bytes, observer),
                Operation::Write => self.request_burst(slot, bytes),
                _ => self.write_zeroes(slot, bytes, observer),
            }
            let flight = &mut self.flights[slot as usize];
            flight.requested += bytes;
            if flight.requested < flight.io.bytes {
                self.active[kind].push_back(slot);
            }
        }
        has_requested
    }

    /// Returns the length of the next burst of a command, at most `bytes`. A write (or Write
    /// Zeroes) larger than the atomic write unit ends its burst at the last end of a unit within
    /// `bytes`, if any: only one unit for each DMA engine is certain to fit into the buffers, so a
    /// burst with a part of the next unit might wait for ever.
    fn burst_bytes(&self, slot: u32, bytes: u32) -> u32 {
        let (flight, unit) = (&self.flights[slot as usize], self.card.nvme.atomic_write);
        let io = &flight.io;
        if io.operation == Operation::Read || io.bytes <= unit {
            return bytes;
        }
        let end = io.offset + u64::from(flight.requested + bytes);
        let past = (end % u64::from(unit)) as u32;
        if past < bytes { bytes - past } else { bytes }
    }

    /// Returns the length of the chunk that begins at `offset`. The chunk ends after `bytes` bytes,
    /// or at the next multiple of the chunk size if that comes first.
    #[inline]
    fn chunk(&self, offset: u64, bytes: u32) -> u32 {
        let limit = self.card.chunk_bytes();
        bytes.min(limit - (offset % u64::from(limit)) as u32)
    }

    /// Reads the next `bytes` bytes of a command from the memory channel, chunk by chunk.
    fn read_segments<O: WriteObserver>(&mut self, slot: u32, bytes: u32, observer: &mut O) {
        let flight = &self.flights[slot as usize];
        let mut offset = flight.io.offset + u64::from(flight.requested);
        let end = offset + u64::from(bytes);
        while offset < end {
            let chunk = self.chunk(offset, (end - offset) as u32);
            let observer = &mut MemoryObserver(&mut *observer);
            let times = self.memory.transfer(self.now, offset, chunk, false, observer);
            let ready = times.data + self.card.controller.ecc_fs;
            self.event_queue.push(DATA_READY, ready, payload(slot, chunk));
            offset += u64::from(chunk);
        }
    }

    /// Requests the next `bytes` bytes of a write from host memory.
    fn request_burst(&mut self, slot: u32, bytes: u32) {
        let request = self.card.link.max_read_request;
        let flight = &self.flights[slot as usize];
        // A read request ends at a multiple of its maximum size (MRRS), counted from the first byte
        // of the command.
        let first = flight.requested / request;
        let last = (flight.requested + bytes).div_ceil(request);
        let begun = u32::from(!flight.requested.is_multiple_of(request));
        let requests = last - first - begun;
        let ready = if requests > 0 {
            self.request_reads(requests)
        } else {
            // The burst is a part of a read request that an earlier burst has sent, so this burst
            // waits only for the delay of the link and the read of host memory, and sends no
            // request.
            self.now + self.card.link.delay_fs + self.card.host.memory_read_fs
        };
        self.event_queue.push(DATA_READ, ready, payload(slot, bytes));
    }

    fn retry_when_buffers_return(&mut self) {
        if let Some(at) = self.buffers.next_return()
            && self.retry > at
        {
            self.retry = at;
            self.event_queue.push(TRANSFERRED, at, RETRY);
        }
    }

    /// Sends the data of a burst, which the host has read from its memory, to the card.
    pub(super) fn data_read(&mut self, slot: u32, bytes: u32) {
        let flight = &mut self.flights[slot as usize];
        let mut offset = flight.io.offset + u64::from(flight.sent);
        flight.sent += bytes;
        let end = offset + u64::from(bytes);
        let apart = self.up.time_of(READ_REQUEST);
        let mut ready = self.now;
        while offset < end {
            let chunk = self.chunk(offset, (end - offset) as u32);
            let arrives = self.complete_read(ready, chunk) + self.card.controller.ecc_fs;
            self.event_queue.push(DATA_ARRIVED, arrives, payload(slot, chunk));
            offset += u64::from(chunk);
            ready += apart;
        }
    }

    /// Handles the arrival of a chunk of a write in a buffer, after its ECC is computed. Gives the
    /// read tag of the chunk back to the pool, and stores the data.
    pub(super) fn data_arrived<O: WriteObserver>(
        &mut self,
        slot: u32,
        bytes: u32,
        observer: &mut O,
    ) {
        self.tags.give_now(self.now, 1);
        self.store(slot, bytes, observer);
        let flight = &self.flights[slot as usize];
        if flight.moved == flight.io.bytes {
            self.event_queue.push(SAFE, self.acknowledges_at(slot), slot.into());
            self.release_engine(observer);
        }
        self.request_data(observer);
    }

    /// Notes that the next `bytes` bytes of a command are in a buffer, and writes each complete
    /// atomic write unit to the memory channel. Bytes of an incomplete unit stay in the buffer, so
    /// that a power failure between two chunks tears no unit.
    #[inline]
    fn store<O: WriteObserver>(&mut self, slot: u32, bytes: u32, observer: &mut O) {
        let unit = self.card.nvme.atomic_write;
        let flight = &mut self.flights[slot as usize];
        flight.arrived += bytes;
        let (io, arrived) = (flight.io, flight.arrived);
        // The end of the last completely received unit, in bytes from the start of the command.
        let complete = if arrived == io.bytes {
            arrived
        } else if io.bytes <= unit {
            return;
        } else {
            let partial = (io.offset + u64::from(arrived)) % u64::from(unit);
            arrived.saturating_sub(partial as u32)
        };
        while self.flights[slot as usize].moved < complete {
            let moved = self.flights[slot as usize].moved;
            let chunk = self.chunk(io.offset + u64::from(moved), io.bytes - moved);
            self.write_segment(slot, chunk, observer);
        }
    }

    /// Writes the next `bytes` bytes of a command to the memory channel.
    #[inline]
    fn write_segment<O: WriteObserver>(&mut self, slot: u32, bytes: u32, observer: &mut O) {
        let flight = &mut self.flights[slot as usize];
        let offset = flight.io.offset + u64::from(flight.moved);
        let times = self.memory.transfer(
            self.now,
            offset,
            bytes,
            true,
            &mut MemoryObserver(&mut *observer),
        );
        self.buffers.give(times.data, 1);
        let safe = times.safe(self.card.memory.durable);
        flight.safe = flight.safe.max(safe);
        flight.moved += bytes;
        observer.segment(&WrittenSegment {
            tag: flight.io.tag,
            offset,
            bytes,
            buffered: self.now,
            in_array: times.data,
            durable: times.closed,
        });
    }

    /// Returns the time at which a write, with all its segments scheduled, can be completed, fs.
    fn acknowledges_at(&self, slot: u32) -> u64 {
        if self.settings.acknowledge_early {
            return self.now;
        }
        self.flights[slot as usize].safe.max(self.now)
    }

    fn write_zeroes<O: WriteObserver>(&mut self, slot: u32, bytes: u32, observer: &mut O) {
        self.store(slot, bytes, observer);
        let flight = &self.flights[slot as usize];
        if flight.moved == flight.io.bytes {
            self.event_queue.push(TRANSFERRED, self.acknowledges_at(slot), slot.into());
        }
    }

    /// Sends `bytes` bytes of a read, which are in a buffer and checked by ECC, to the host.
    pub(super) fn data_ready<O: WriteObserver>(&mut self, slot: u32, bytes: u32, observer: &mut O) {
        let packets = self.packets.writes(bytes);
        let wire = u64::from(bytes) + u64::from(packets) * WRITE_REQUEST;
        let arrives = self.post(wire, packets, bytes.div_ceil(CREDIT_BYTES));
        let sent = arrives - self.card.link.delay_fs;
        self.buffers.give(sent, 1);
        let flight = &mut self.flights[slot as usize];
        flight.moved += bytes;
        if flight.moved == flight.io.bytes {
            self.event_queue.push(TRANSFERRED, sent, slot.into());
        }
        self.request_data(observer);
    }

    /// Handles the end of the DMA transfer of the command in `slot`. If `slot` is [`RETRY`], there
    /// is no command: a buffer is free again, so requests for data are retried.
    pub(super) fn transferred<O: WriteObserver>(&mut self, slot: u32, observer: &mut O) {
        if u64::from(slot) == RETRY {
            if self.retry != self.now {
                // This event is obsolete: a buffer was returned earlier, and the retry was moved to
                // that time.
                return;
            }
            self.retry = u64::MAX;
        } else {
            self.event_queue.push(SAFE, self.now, slot.into());
            self.release_engine(observer);
        }
        self.request_data(observer);
    }
}

/// The payload of a `TRANSFERRED` event that only retries requests for data: a buffer is free.
const RETRY: u64 = u32::MAX as u64;
