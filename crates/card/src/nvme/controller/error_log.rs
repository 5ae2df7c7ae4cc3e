//! Keeps the error information log, and reports asynchronous events (NVMe 1.4, sections 5.2 and
//! 5.14.1.1).

use std::collections::VecDeque;

use super::{Attachments, NvmeController};
use crate::nvme::{command::SubmissionEntry, status::NvmeStatus};

/// Number of entries of the error log (ELPE + 1): 64 entries of 64 bytes fill 4 KiB.
pub(in crate::nvme) const ENTRIES: usize = 64;
/// Size of an entry of the error log, bytes.
const ENTRY_BYTES: usize = 64;
/// Maximum number of asynchronous event requests that a host can have outstanding (AERL + 1).
pub(in crate::nvme) const REQUESTS_MAX: usize = 4;
/// The identifier of the error log page.
pub(super) const ERROR_PAGE: u8 = 0x01;

/// The error log: an entry for each failed command, newest first, at most `ENTRIES`. `count` is the
/// number of failed commands so far, including those whose entries were dropped.
#[derive(Clone, Debug, Default)]
pub(super) struct ErrorLog {
    entries: VecDeque<[u8; ENTRY_BYTES]>,
    count: u64,
}

impl ErrorLog {
    /// Adds an entry for a failed command: `entry` of the submission queue `queue`.
    pub(super) fn add(&mut self, queue: u16, entry: &SubmissionEntry, status: NvmeStatus) {
        self.count += 1;
        let mut bytes = [0; ENTRY_BYTES];
        bytes[0..8].copy_from_slice(&self.count.to_le_bytes());
        bytes[8..10].copy_from_slice(&queue.to_le_bytes());
        bytes[10..12].copy_from_slice(&entry.identifier.to_le_bytes());
        bytes[12..14].copy_from_slice(&status.field().to_le_bytes());
        // Parameter error location: all ones, because the error is not tied to a byte of the
        // command.
        bytes[14..16].copy_from_slice(&u16::MAX.to_le_bytes());
        bytes[16..24].copy_from_slice(&entry.first_block().to_le_bytes());
        bytes[24..28].copy_from_slice(&entry.namespace.to_le_bytes());
        self.entries.push_front(bytes);
        self.entries.truncate(ENTRIES);
    }

    /// Returns the number of failed commands so far, including those that the log has dropped.
    pub(super) fn count(&self) -> u64 {
        self.count
    }

    /// Returns the error log page: the entries, newest first, padded with zeros.
    pub(super) fn page(&self) -> Vec<u8> {
        let mut page = self.entries.iter().flatten().copied().collect::<Vec<u8>>();
        page.resize(ENTRIES * ENTRY_BYTES, 0);
        page
    }
}

/// An asynchronous event of the type "error status".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EventKind {
    /// The host wrote a doorbell of a queue that does not exist.
    InvalidDoorbellRegister,
    /// The host wrote a doorbell value that is not valid for the queue.
    InvalidDoorbellValue,
}

impl EventKind {
    /// Returns dword 0 of the completion that reports the event: event type 0 (error status), event
    /// information, and identifier of the log page.
    fn result(self) -> u32 {
        let information = match self {
            Self::InvalidDoorbellRegister => 0,
            Self::InvalidDoorbellValue => 1,
        };
        information << 8 | u32::from(ERROR_PAGE) << 16
    }
}

/// The Asynchronous Event Request commands that wait for an event, and the event that waits for a
/// request. `reported` is true from the report of an event until the host reads the log page:
/// meanwhile further events are suppressed.
#[derive(Clone, Debug, Default)]
pub(super) struct AsyncEvents {
    requests: VecDeque<SubmissionEntry>,
    pending: Option<EventKind>,
    reported: bool,
}

impl AsyncEvents {
    /// Ends the suppression of events, because the host has read the error log page.
    pub(super) fn clear(&mut self) {
        self.reported = false;
    }

    /// Removes the Asynchronous Event Request with the command identifier `identifier`, which the
    /// host aborts, and returns the request. Returns `None` if no such request waits.
    pub(super) fn remove(&mut self, identifier: u16) -> Option<SubmissionEntry> {
        let at = self.requests.iter().position(|entry| entry.identifier == identifier)?;
        self.requests.remove(at)
    }
}

impl NvmeController {
    /// Keeps an Asynchronous Event Request until an event occurs. Refuses the request if
    /// [`REQUESTS_MAX`] requests wait already.
    pub(super) fn request_event(
        &mut self,
        entry: &SubmissionEntry,
        attached: &mut Attachments<'_>,
    ) {
        if self.events.requests.len() == REQUESTS_MAX {
            self.finish(0, entry, Err(NvmeStatus::AsyncEventLimitExceeded), attached);
            return;
        }
        self.events.requests.push_back(*entry);
        self.release();
        self.report(attached);
    }

    /// Reports an event to the host as soon as an Asynchronous Event Request waits. Drops the event
    /// if an earlier event still waits, or if the host has not read the log page since the last
    /// report.
    pub(super) fn raise(&mut self, event: EventKind, attached: &mut Attachments<'_>) {
        if !self.events.reported {
            self.events.pending.get_or_insert(event);
            self.report(attached);
        }
    }

    /// Completes the oldest Asynchronous Event Request with the pending event, if both exist.
    fn report(&mut self, attached: &mut Attachments<'_>) {
        let events = &mut self.events;
        let Some(event) = events.pending else { return };
        let Some(entry) = events.requests.pop_front() else { return };
        (events.pending, events.reported) = (None, true);
        self.complete_request(&entry, Ok(event.result()), attached);
    }

    /// Completes an Asynchronous Event Request. The request is first counted as outstanding again,
    /// because each completion lowers the number of outstanding commands by one.
    pub(super) fn complete_request(
        &mut self,
        entry: &SubmissionEntry,
        outcome: Result<u32, NvmeStatus>,
        attached: &mut Attachments<'_>,
    ) {
        if let Some(admin) = &mut self.submissions[0] {
            admin.outstanding += 1;
        }
        self.finish(0, entry, outcome, attached);
    }

    /// Stops counting an Asynchronous Event Request as outstanding while it waits for an event. The
    /// controller fetches no command from the admin queue while the queue has as many outstanding
    /// commands as entries, so waiting requests could block a short queue.
    fn release(&mut self) {
        if let Some(admin) = &mut self.submissions[0] {
            admin.outstanding = admin.outstanding.saturating_sub(1);
        }
    }
}
