//! Reads submission and writes completion queues: rings in host memory (NVMe 1.4, section 4.1).

use std::collections::VecDeque;

use super::{
    command::{COMPLETION_BYTES, CompletionEntry, SUBMISSION_BYTES, SubmissionEntry},
    contents::{HostMemory, Outside},
};
use crate::settings::Priority;

/// Maximum number of pairs of I/O queues. The doorbells of these queues and of the admin queues
/// fill one page of 4 KiB.
pub const QUEUES_MAX: u16 = 511;

/// Maximum number of entries of a queue: a limit of this controller. NVMe allows 65,536.
pub const QUEUE_ENTRIES_MAX: u16 = 4096;

/// The error for a doorbell value that is not valid for its queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct InvalidDoorbell;

/// A submission queue. The host advances the tail, the controller the head.
#[derive(Clone, Debug)]
pub(super) struct SubmissionRing {
    base: u64,
    entries: u16,
    head: u16,
    tail: u16,
    /// The priority class of the queue in weighted arbitration.
    pub(super) priority: Priority,
    /// The identifier of the completion queue for the commands of this queue.
    pub(super) completions: u16,
    /// The number of fetched commands that have no entry in the completion queue yet.
    pub(super) outstanding: u16,
}

impl SubmissionRing {
    pub(super) fn new(base: u64, entries: u16, priority: Priority, completions: u16) -> Self {
        Self { base, entries, head: 0, tail: 0, priority, completions, outstanding: 0 }
    }

    /// Returns the index of the next entry that will be fetched.
    pub(super) fn head(&self) -> u16 {
        self.head
    }

    pub(super) fn set_tail(&mut self, tail: u32) -> Result<(), InvalidDoorbell> {
        if tail >= u32::from(self.entries) {
            return Err(InvalidDoorbell);
        }
        self.tail = tail as u16;
        Ok(())
    }

    /// Returns the number of waiting commands that may be fetched now. A queue never has more
    /// outstanding commands than entries, which bounds the memory that a host's commands take.
    pub(super) fn fetchable(&self) -> u32 {
        let waiting = (self.tail + self.entries - self.head) % self.entries;
        waiting.min(self.entries.saturating_sub(self.outstanding)).into()
    }

    /// Reads the command at the head from host memory, and advances the head.
    pub(super) fn fetch(&mut self, memory: &dyn HostMemory) -> Result<SubmissionEntry, Outside> {
        let mut bytes = [0; SUBMISSION_BYTES];
        let offset = u64::from(self.head) * SUBMISSION_BYTES as u64;
        memory.read(self.base.wrapping_add(offset), &mut bytes)?;
        self.head = (self.head + 1) % self.entries;
        self.outstanding += 1;
        Ok(SubmissionEntry::parse(&bytes))
    }
}

/// A completion queue. The controller advances the tail, the host the head.
#[derive(Clone, Debug)]
pub(super) struct CompletionRing {
    base: u64,
    entries: u16,
    head: u16,
    tail: u16,
    phase: bool,
    /// The MSI-X vector of the queue; `None` if interrupts are disabled.
    pub(super) vector: Option<u16>,
    /// Completions that wait until the host has freed an entry.
    waiting: VecDeque<CompletionEntry>,
}

impl CompletionRing {
    pub(super) fn new(base: u64, entries: u16, vector: Option<u16>) -> Self {
        let waiting = VecDeque::new();
        Self { base, entries, head: 0, tail: 0, phase: true, vector, waiting }
    }

    pub(super) fn push(&mut self, entry: CompletionEntry) {
        self.waiting.push_back(entry);
    }

    /// Drops the completions of a deleted submission queue that wait for a free entry.
    pub(super) fn drop_waiting(&mut self, queue: u16) {
        self.waiting.retain(|entry| entry.submission_queue != queue);
    }

    /// Records that the host has consumed all entries before `head`. Valid values of `head` are
    /// those from the old head to the tail.
    pub(super) fn set_head(&mut self, head: u32) -> Result<(), InvalidDoorbell> {
        let entries = u32::from(self.entries);
        if head >= entries {
            return Err(InvalidDoorbell);
        }
        let after = |at: u32| (at + entries - u32::from(self.head)) % entries;
        if after(head) > after(self.tail.into()) {
            return Err(InvalidDoorbell);
        }
        self.head = head as u16;
        Ok(())
    }

    /// Writes waiting completions to free entries, and adds these completions to `posted`.
    pub(super) fn post(
        &mut self,
        memory: &mut dyn HostMemory,
        posted: &mut Vec<CompletionEntry>,
    ) -> Result<(), Outside> {
        while (self.tail + 1) % self.entries != self.head {
            let Some(entry) = self.waiting.pop_front() else { break };
            let offset = u64::from(self.tail) * COMPLETION_BYTES as u64;
            memory.write(self.base.wrapping_add(offset), &entry.bytes(self.phase))?;
            self.tail = (self.tail + 1) % self.entries;
            self.phase ^= self.tail == 0;
            posted.push(entry);
        }
        Ok(())
    }
}
