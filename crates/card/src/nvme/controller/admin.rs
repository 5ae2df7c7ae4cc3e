//! Executes admin commands (NVMe 1.4, section 5).

use super::{Attachments, NvmeController};
use crate::nvme::{
    command::SubmissionEntry,
    identify,
    prp::{self, PAGE},
    queue::{CompletionRing, SubmissionRing},
    status::NvmeStatus,
};
use crate::settings::Priority;

const DELETE_SUBMISSION_QUEUE: u8 = 0x00;
const CREATE_SUBMISSION_QUEUE: u8 = 0x01;
const GET_LOG_PAGE: u8 = 0x02;
const DELETE_COMPLETION_QUEUE: u8 = 0x04;
const CREATE_COMPLETION_QUEUE: u8 = 0x05;
const IDENTIFY: u8 = 0x06;
const ABORT: u8 = 0x08;
const SET_FEATURES: u8 = 0x09;
const GET_FEATURES: u8 = 0x0a;
const ASYNC_EVENT_REQUEST: u8 = 0x0c;

impl NvmeController {
    pub(super) fn execute_admin(
        &mut self,
        entry: &SubmissionEntry,
        attached: &mut Attachments<'_>,
    ) {
        // The bits of this mask select fused operations and SGLs. The controller supports neither.
        if entry.flags & 0xc3 != 0 {
            self.finish(0, entry, Err(NvmeStatus::InvalidField), attached);
            return;
        }
        let outcome = match entry.opcode {
            DELETE_SUBMISSION_QUEUE => self.delete_submission_queue(entry),
            CREATE_SUBMISSION_QUEUE => self.create_submission_queue(entry),
            GET_LOG_PAGE => self.log_page(entry).and_then(|page| to_host(entry, &page, attached)),
            DELETE_COMPLETION_QUEUE => self.delete_completion_queue(entry),
            CREATE_COMPLETION_QUEUE => self.create_completion_queue(entry),
            IDENTIFY => identify::identify(&self.settings, entry)
                .and_then(|page| to_host(entry, &page[..], attached)),
            ABORT => self.abort(entry, attached),
            SET_FEATURES => {
                let queues_exist = self.completions[1..].iter().any(Option::is_some);
                let outcome = self.features.set(entry, queues_exist);
                self.arbitrate();
                outcome
            }
            GET_FEATURES => self.features.get(entry),
            ASYNC_EVENT_REQUEST => return self.request_event(entry, attached),
            _ => Err(NvmeStatus::InvalidOpcode),
        };
        self.finish(0, entry, outcome, attached);
    }

    /// Checks the identifier, the size, the contiguity and the address in a command that creates a
    /// queue. Returns the index of the queue, and the number of its entries.
    fn new_queue(&self, entry: &SubmissionEntry) -> Result<(usize, u16), NvmeStatus> {
        let (identifier, size) = (entry.dword(10) & 0xffff, entry.dword(10) >> 16);
        if identifier == 0 || identifier > u32::from(self.settings.queues) {
            return Err(NvmeStatus::InvalidQueueIdentifier);
        }
        let fits = size != 0 && size < u32::from(self.settings.queue_entries);
        if !fits || !self.registers.entry_sizes_are_supported() {
            return Err(NvmeStatus::InvalidQueueSize);
        }
        // The bit PC (physically contiguous) must be set, because the controller supports only
        // contiguous queues (CAP.CQR).
        if entry.dword(11) & 1 == 0 {
            return Err(NvmeStatus::InvalidField);
        }
        if !entry.prp1.is_multiple_of(PAGE) {
            return Err(NvmeStatus::InvalidPrpOffset);
        }
        Ok((identifier as usize, size as u16 + 1))
    }

    fn create_completion_queue(&mut self, entry: &SubmissionEntry) -> Result<u32, NvmeStatus> {
        let (at, entries) = self.new_queue(entry)?;
        if self.completions[at].is_some() {
            return Err(NvmeStatus::InvalidQueueIdentifier);
        }
        let (enabled, vector) = (entry.dword(11) & 2 != 0, entry.dword(11) >> 16);
        if enabled && vector >= u32::from(self.settings.vectors) {
            return Err(NvmeStatus::InvalidInterruptVector);
        }
        let vector = enabled.then_some(vector as u16);
        self.completions[at] = Some(CompletionRing::new(entry.prp1, entries, vector));
        Ok(0)
    }

    fn create_submission_queue(&mut self, entry: &SubmissionEntry) -> Result<u32, NvmeStatus> {
        let (at, entries) = self.new_queue(entry)?;
        let completions = entry.dword(11) >> 16;
        if self.submissions[at].is_some() || completions == 0 {
            return Err(NvmeStatus::InvalidQueueIdentifier);
        }
        match self.completions.get(completions as usize) {
            None => return Err(NvmeStatus::InvalidQueueIdentifier),
            Some(None) => return Err(NvmeStatus::CompletionQueueInvalid),
            Some(Some(_)) => {}
        }
        let priority = match entry.dword(11) >> 1 & 3 {
            0 => Priority::Urgent,
            1 => Priority::High,
            2 => Priority::Medium,
            _ => Priority::Low,
        };
        let ring = SubmissionRing::new(entry.prp1, entries, priority, completions as u16);
        self.submissions[at] = Some(ring);
        self.arbitrate();
        Ok(0)
    }

    /// Returns the identifier of the I/O queue that a command deletes; an error if the identifier
    /// is 0 or above the number of pairs of I/O queues.
    fn old_queue(&self, entry: &SubmissionEntry) -> Result<u16, NvmeStatus> {
        let identifier = (entry.dword(10) & 0xffff) as u16;
        match identifier {
            0 => Err(NvmeStatus::InvalidQueueIdentifier),
            _ if identifier > self.settings.queues => Err(NvmeStatus::InvalidQueueIdentifier),
            _ => Ok(identifier),
        }
    }

    /// Deletes a submission queue with its commands. None of these commands completes after the
    /// deletion.
    fn delete_submission_queue(&mut self, entry: &SubmissionEntry) -> Result<u32, NvmeStatus> {
        let queue = self.old_queue(entry)?;
        let deleted = self.submissions[usize::from(queue)].take();
        let deleted = deleted.ok_or(NvmeStatus::InvalidQueueIdentifier)?;
        self.remove(|command| command.queue == queue);
        if let Some(ring) = &mut self.completions[usize::from(deleted.completions)] {
            ring.drop_waiting(queue);
        }
        self.arbitrate();
        Ok(0)
    }

    fn delete_completion_queue(&mut self, entry: &SubmissionEntry) -> Result<u32, NvmeStatus> {
        let queue = self.old_queue(entry)?;
        let at = usize::from(queue);
        if self.completions[at].is_none() {
            return Err(NvmeStatus::InvalidQueueIdentifier);
        }
        let mut submissions = self.submissions[1..].iter().flatten();
        if submissions.any(|ring| ring.completions == queue) {
            return Err(NvmeStatus::InvalidQueueDeletion);
        }
        self.completions[at] = None;
        Ok(0)
    }

    /// Aborts a command. Bit 0 of the result is 0 if the command was aborted.
    fn abort(
        &mut self,
        entry: &SubmissionEntry,
        attached: &mut Attachments<'_>,
    ) -> Result<u32, NvmeStatus> {
        let queue = (entry.dword(10) & 0xffff) as u16;
        let identifier = (entry.dword(10) >> 16) as u16;
        let aborted = Err(NvmeStatus::AbortRequested);
        if queue == 0 {
            let Some(request) = self.events.remove(identifier) else { return Ok(1) };
            self.complete_request(&request, aborted, attached);
            return Ok(0);
        }
        let named = |command: &super::nvm::PendingCommand| {
            command.queue == queue && command.entry.identifier == identifier
        };
        let Some(command) = self.remove(named) else { return Ok(1) };
        self.finish(queue, &command.entry, aborted, attached);
        Ok(0)
    }
}

/// Writes `data` to the host memory that the PRP entries of an admin command name.
fn to_host(
    entry: &SubmissionEntry,
    data: &[u8],
    attached: &mut Attachments<'_>,
) -> Result<u32, NvmeStatus> {
    let mut segments = vec![];
    prp::segments(entry.prp1, entry.prp2, data.len(), attached.memory, &mut segments)?;
    let mut at = 0;
    for segment in segments {
        let part = &data[at..at + segment.bytes];
        let written = attached.memory.write(segment.address, part);
        written.map_err(|_| NvmeStatus::DataTransferError)?;
        at += segment.bytes;
    }
    Ok(0)
}
