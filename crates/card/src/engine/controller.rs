//! Simulates the controller, which fetches commands, decodes them on its cores, and completes them.

use super::{
    COALESCED, DECODED, ENTRIES_ARRIVED, ENTRIES_READ, Engine, FINISHED, INTERRUPT, SAFE,
    WriteObserver, payload,
};
use crate::{
    io::Operation,
    link::{COMPLETION, COMPLETION_ENTRY, MESSAGE, READ_REQUEST, SUBMISSION_ENTRY},
    settings::{Component, HostMode},
};

impl Engine {
    pub(super) fn doorbell_arrived(&mut self, queue: u32) {
        self.queues[queue as usize].visible += 1;
        self.fetch();
    }

    /// Fetches entries of submission queues, until the controller has no room for more commands or
    /// has its maximum number of outstanding fetches.
    pub(super) fn fetch(&mut self) {
        let (entries, burst) = (self.card.nvme.entries, self.card.nvme.arbitration_burst);
        loop {
            let room = self.card.controller.commands - self.commands.in_use(self.now);
            if room == 0 || self.fetches.in_use(self.now) == self.card.controller.fetches {
                return;
            }
            let queues = &self.queues;
            let next = self.arbiter.next(burst.min(room), |queue| {
                // Entries that wrap around the end of the ring are in two ranges of host memory.
                // One read of host memory fetches only the entries up to the end of the ring.
                let Some(queue) = queues.get(queue) else { return 0 };
                queue.visible.min(entries - queue.head)
            });
            let Some((number, count)) = next else { return };
            self.fetches.take(self.now, 1);
            self.commands.take(self.now, count);
            let queue = &mut self.queues[number];
            queue.visible -= count;
            queue.head = (queue.head + count) % entries;
            let ready = self.request_reads(1);
            self.event_queue.push(ENTRIES_READ, ready, payload(number as u32, count));
        }
    }

    /// Sends `requests` read requests to host memory. Returns the time at which the host has read
    /// the data of the first request, fs. The caller assumes that the data of each further request
    /// are ready one transmission time of a request later. If the requests must wait for credits,
    /// the returned time is later, so that the assumption holds for the last request.
    #[inline]
    pub(super) fn request_reads(&mut self, requests: u32) -> u64 {
        let link = &self.card.link;
        let (mut left, mut read) = (requests, self.now);
        while left > 0 {
            let part = left.min(self.credits[2].most());
            // Reserve the transmission time on the link now, even if these requests must wait for
            // credits that earlier requests hold: meanwhile other packets pass waiting requests
            // (PCI Express 3.1, 2.4.1).
            let bytes = u64::from(part) * READ_REQUEST;
            let time = self.up.time_of(bytes);
            let start = self.up.send(self.now, bytes, part) - time;
            // A request takes its credit when the link begins to send it, not when it is ready.
            let sent = self.credits[2].take_from(start, part) + time;
            read = sent + link.delay_fs + self.card.host.memory_read_fs;
            // The root complex returns the credits when it has read the data from host memory.
            self.credits[2].give(read + link.delay_fs, part);
            left -= part;
        }
        self.down.answer(self.now, requests, &self.packets);
        read - u64::from(requests.saturating_sub(1)) * self.up.time_of(READ_REQUEST)
    }

    /// Lets the host send, from the time `ready` (fs) on, the `bytes` bytes that the card has
    /// requested. Returns the time at which all of them have arrived at the card, fs.
    #[inline]
    pub(super) fn complete_read(&mut self, ready: u64, bytes: u32) -> u64 {
        let packets = self.packets.completions(0, bytes);
        let bytes = u64::from(bytes) + u64::from(packets) * COMPLETION;
        let sent = self.down.send(ready, bytes, packets);
        self.up.answer(self.now, packets, &self.packets);
        sent + self.card.link.delay_fs
    }

    pub(super) fn entries_read(&mut self, queue: u32, count: u32) {
        let arrives = self.complete_read(self.now, count * SUBMISSION_ENTRY as u32);
        self.event_queue.push(ENTRIES_ARRIVED, arrives, payload(queue, count));
    }

    pub(super) fn entries_arrived(&mut self, queue: u32, count: u32) {
        self.fetches.give_now(self.now, 1);
        for _ in 0..count {
            let Some(slot) = self.queues[queue as usize].submitted.pop_front() else { break };
            self.flights[slot as usize].fetched = self.now;
            let end = self.core_works(self.card.controller.command_fs);
            self.event_queue.push(DECODED, end, slot.into());
        }
        self.fetch();
    }

    /// Gives work of `time` fs to the core that is free first. Returns the end of the work, fs.
    #[inline]
    fn core_works(&mut self, time: u64) -> u64 {
        if self.settings.ideal.has(Component::Cores) {
            return self.now;
        }
        self.cores_busy += time;
        let mut free = 0;
        for core in 1..self.cores.len() {
            if self.cores[core] < self.cores[free] {
                free = core;
            }
        }
        let core = &mut self.cores[free];
        *core = (*core).max(self.now) + time;
        *core
    }

    /// Continues a command after a core has decoded it.
    pub(super) fn decoded<O: WriteObserver>(&mut self, slot: u32, observer: &mut O) {
        match self.flights[slot as usize].io.operation {
            Operation::Read | Operation::Write | Operation::WriteZeroes => {
                self.wait_for_engine(slot, observer);
            }
            // A write is completed only when its data are safe, so a flush has no data to wait for.
            Operation::Flush => self.event_queue.push(SAFE, self.now, slot.into()),
            // The ranges to deallocate are a list in host memory, which the controller reads.
            Operation::Deallocate => self.request_list(slot),
        }
    }

    /// Starts the completion of a command on a core. At this time the data of a read have been sent
    /// to the host, and the data of a write are safe, except on a card that acknowledges early.
    pub(super) fn safe<O: WriteObserver>(&mut self, slot: u32, observer: &mut O) {
        let flight = &self.flights[slot as usize];
        observer.completing(&flight.io, flight.safe, self.now);
        let end = self.core_works(self.card.controller.completion_fs);
        self.event_queue.push(FINISHED, end, slot.into());
    }

    /// Writes the completion queue entry. If the host does not poll, also sends an interrupt, or
    /// delays the interrupt so that several completions share it.
    pub(super) fn finished<O: WriteObserver>(&mut self, slot: u32, observer: &mut O) {
        let flight = &self.flights[slot as usize];
        observer.acknowledged(&flight.io, flight.submitted, flight.safe, self.now);
        let number = u32::from(flight.io.queue);
        let arrives = self.post(COMPLETION_ENTRY, 1, 1);
        self.commands.give_now(self.now, 1);
        self.queues[number as usize].entries.push_back((arrives, slot));
        let nvme = &self.card.nvme;
        let wait = nvme.coalescing_time_fs;
        let queue = &mut self.queues[number as usize];
        if self.settings.host == HostMode::Polling {
            self.event_queue.push(INTERRUPT, arrives, number.into());
        } else {
            queue.coalesced += 1;
            if wait == 0 || queue.coalesced >= nvme.coalescing_threshold {
                self.signal(number);
            } else if queue.coalesced == 1 {
                let interrupts = queue.interrupts as u32;
                self.event_queue.push(COALESCED, self.now + wait, payload(number, interrupts));
            }
        }
        self.fetch();
    }

    /// Sends one interrupt for all completion queue entries of a queue that wait for an interrupt.
    fn signal(&mut self, number: u32) {
        let queue = &mut self.queues[number as usize];
        queue.coalesced = 0;
        queue.interrupts += 1;
        let arrives = self.post(MESSAGE, 1, 1);
        self.event_queue.push(INTERRUPT, arrives, number.into());
    }

    pub(super) fn coalescing_time_is_over(&mut self, number: u32, interrupts: u32) {
        let queue = &self.queues[number as usize];
        if queue.interrupts as u32 == interrupts && queue.coalesced > 0 {
            self.signal(number);
        }
    }

    /// Sends `packets` posted writes of `bytes` bytes together to the host. Returns their arrival,
    /// fs. Each packet takes a header credit, all packets together `data_credits` data credits.
    #[inline]
    pub(super) fn post(&mut self, bytes: u64, packets: u32, data_credits: u32) -> u64 {
        let start = self.credits[0].take_from(self.up.starts(self.now), packets);
        let start = self.credits[1].take_from(start, data_credits);
        let arrives = self.up.send(start, bytes, packets) + self.card.link.delay_fs;
        self.down.answer(self.now, packets, &self.packets);
        let back = arrives + self.card.host.memory_write_fs + self.card.link.delay_fs;
        self.credits[0].give(back, packets);
        self.credits[1].give(back, data_credits);
        arrives
    }
}
