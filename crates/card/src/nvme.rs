//! Emulates the NVMe controller of a card as a driver sees it: registers, queues, commands, status
//! codes.
//!
//! The controller is pure: it reaches the host's memory through [`HostMemory`] and the data of the
//! namespace through [`Contents`], and reads no clock. A driver works with the controller in five
//! steps.
//!
//! ```text
//! host                                   controller
//!  entry into submission queue, doorbell -> register_write
//!                                           fetch: one I/O command      -> pacer (simulated time)
//!                                           complete: transfers data, writes completion entry
//!  interrupt                             <- take_interrupts
//!  reads entry (phase bit), doorbell     -> register_write
//! ```
//!
//! [`NvmeController::fetch`] executes admin commands at once and returns I/O commands as
//! [`IoCommand`](crate::io::IoCommand)s, so a pacer decides when [`NvmeController::complete`] is
//! called: at once, after some real time, or after the time that the engine of this crate computes.
//! Data move at completion: until then the blocks of a write keep their old contents.
//!
//! No action of a guest makes the controller panic. An invalid command is completed with the status
//! code of the specification, an invalid doorbell raises an asynchronous event, and a queue in
//! memory that does not exist sets `CSTS.CFS`.
//!
//! Sections refer to NVM Express Base Specification 1.4; [`NvmeVersion`] lists the differences of
//! version 1.1.

mod command;
mod contents;
mod controller;
mod features;
mod identify;
mod prp;
mod queue;
mod registers;
mod settings;
mod status;

#[cfg(test)]
mod tests;

pub use self::{
    command::{CompletionEntry, SubmissionEntry},
    contents::{Contents, ContentsFault, HostMemory, MemoryContents, Outside},
    controller::{Attachments, NvmeController},
    queue::{QUEUE_ENTRIES_MAX, QUEUES_MAX},
    settings::{NvmeSettings, NvmeVersion, SettingsError},
    status::NvmeStatus,
};
