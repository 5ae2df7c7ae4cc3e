//! Simulates the host's processors: submission, interrupts and completion.

use super::{COMPLETED, DOORBELL_ARRIVED, DOORBELL_WRITTEN, Engine, external, payload};
use crate::{
    io::IoCompletion,
    link::DOORBELL,
    settings::{Component, HostMode},
};

impl Engine {
    /// Schedules the doorbell of a command that the host submits at the time `at` (fs). The
    /// processor of the queue first works `submit_fs` on the submission; a host that is not
    /// simulated ([`HostMode::External`]) takes no time.
    pub(super) fn host_submits(&mut self, at: u64, slot: u32) {
        let queue = &mut self.queues[usize::from(self.flights[slot as usize].io.queue)];
        queue.outstanding += 1;
        let written = if external(&self.settings) {
            at
        } else {
            let ideal = self.settings.ideal.has(Component::Host);
            let time = if ideal { 0 } else { self.card.host.submit_fs };
            let start = if ideal { at } else { queue.processor.max(at) };
            queue.processor = start + time;
            queue.processor_busy += time;
            start + time
        };
        self.event_queue.push(DOORBELL_WRITTEN, written, slot.into());
    }

    pub(super) fn doorbell_written(&mut self, slot: u32) {
        let flight = &mut self.flights[slot as usize];
        flight.submitted = self.now;
        let queue = flight.io.queue;
        self.queues[usize::from(queue)].submitted.push_back(slot);
        let arrives = self.ring();
        self.event_queue.push(DOORBELL_ARRIVED, arrives, queue.into());
    }

    /// Sends the write of a doorbell over the link. Returns its time of arrival at the card, fs.
    fn ring(&mut self) -> u64 {
        let sent = self.down.send(self.now, DOORBELL, 1);
        self.up.answer(self.now, 1, &self.packets);
        sent + self.card.link.delay_fs
    }

    /// Handles all completion queue entries of a queue that have arrived. The engine calls this
    /// function when an interrupt arrives or, for a polling processor, when an entry arrives.
    pub(super) fn interrupt(&mut self, number: u32) {
        let now = self.now;
        let queue = &mut self.queues[number as usize];
        let ideal = self.settings.ideal.has(Component::Host);
        let host = &self.card.host;
        let (latency, time) = match self.settings.host {
            HostMode::External => (0, 0),
            _ if ideal => (0, 0),
            HostMode::Interrupts => (host.interrupt_fs, host.completion_fs),
            HostMode::Polling => (0, host.completion_fs),
        };
        let start = now + latency;
        let mut free = if time == 0 { start } else { queue.processor.max(start) };
        while let Some((arrived, slot)) = queue.entries.front().copied() {
            if arrived > now {
                break;
            }
            queue.entries.pop_front();
            free += time;
            queue.processor_busy += time;
            let last = queue.entries.front().is_none_or(|(arrived, _)| *arrived > now);
            self.event_queue.push(COMPLETED, free, payload(slot, last.into()));
        }
        queue.processor = queue.processor.max(free);
    }

    /// Completes the command in `slot`, whose completion entry the processor has handled. If the
    /// entry is the `last` of its batch, the processor writes the doorbell of the completion queue.
    pub(super) fn completed(&mut self, slot: u32, last: bool) -> IoCompletion {
        if last {
            self.ring();
        }
        let flight = &self.flights[slot as usize];
        let io = &flight.io;
        self.queues[usize::from(io.queue)].outstanding -= 1;
        self.free_slots.push(slot);
        IoCompletion {
            tag: io.tag,
            queue: io.queue,
            submitted: flight.submitted,
            fetched: flight.fetched,
            completed: self.now,
        }
    }
}
