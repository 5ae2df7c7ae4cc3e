//! Executes the commands of the NVM command set (NVMe 1.4, section 6).

use super::{Attachments, NvmeController};
use crate::card::BLOCK_BYTES;
use crate::io::{IoCommand, Operation};
use crate::nvme::{
    command::SubmissionEntry,
    contents::{Contents, HostMemory},
    prp::{self, Segment},
    settings::NvmeVersion,
    status::NvmeStatus,
};

const FLUSH: u8 = 0x00;
const WRITE: u8 = 0x01;
const READ: u8 = 0x02;
const COMPARE: u8 = 0x05;
const WRITE_ZEROES: u8 = 0x08;
const DATASET_MANAGEMENT: u8 = 0x09;

/// Size of an entry in the list of ranges of a Dataset Management command, bytes.
const RANGE_BYTES: usize = 16;

/// A valid command that was fetched and waits for its completion.
#[derive(Clone, Debug)]
pub(super) struct PendingCommand {
    /// Identifier of the submission queue.
    pub(super) queue: u16,
    pub(super) entry: SubmissionEntry,
    extent: Extent,
    force_unit_access: bool,
    /// The parts of host memory that the command reads or writes.
    segments: Vec<Segment>,
    /// The ranges that a Dataset Management command deallocates.
    deallocate: Vec<Extent>,
}

/// A byte range of the namespace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Extent {
    offset: u64,
    bytes: u64,
}

impl NvmeController {
    /// Checks a command. Keeps a valid command until its completion, and returns it to the caller,
    /// which decides when the command completes. Completes an invalid command at once with its
    /// error status, and returns `None`.
    pub(super) fn accept(
        &mut self,
        queue: u16,
        entry: &SubmissionEntry,
        attached: &mut Attachments<'_>,
    ) -> Option<IoCommand> {
        match self.decode(queue, entry, attached.memory) {
            Ok((operation, command)) => {
                let offset = command.extent.offset;
                let bytes: u64 = match operation {
                    // Ranges may overlap, so their sum may exceed the rest of the card.
                    Operation::Deallocate => {
                        let sum: u64 = command.deallocate.iter().map(|extent| extent.bytes).sum();
                        sum.min(self.settings.capacity - offset)
                    }
                    _ => command.extent.bytes,
                };
                let io = IoCommand {
                    tag: 0,
                    queue: queue - 1,
                    operation,
                    offset,
                    bytes: u32::try_from(bytes).unwrap_or(u32::MAX / BLOCK_BYTES * BLOCK_BYTES),
                    force_unit_access: command.force_unit_access,
                };
                Some(IoCommand { tag: self.keep(command), ..io })
            }
            Err(status) => {
                self.finish(queue, entry, Err(status), attached);
                None
            }
        }
    }

    fn decode(
        &self,
        queue: u16,
        entry: &SubmissionEntry,
        memory: &dyn HostMemory,
    ) -> Result<(Operation, PendingCommand), NvmeStatus> {
        let operation = match entry.opcode {
            FLUSH => Operation::Flush,
            WRITE => Operation::Write,
            READ | COMPARE => Operation::Read,
            WRITE_ZEROES => Operation::WriteZeroes,
            DATASET_MANAGEMENT => Operation::Deallocate,
            _ => return Err(NvmeStatus::InvalidOpcode),
        };
        // The bits of this mask select fused operations and SGLs. The controller supports neither.
        if entry.flags & 0xc3 != 0 {
            return Err(NvmeStatus::InvalidField);
        }
        let flush_of_all = entry.opcode == FLUSH
            && entry.namespace == u32::MAX
            && self.settings.version == NvmeVersion::V1_4;
        if entry.namespace != 1 && !flush_of_all {
            return Err(NvmeStatus::InvalidNamespace);
        }
        let mut command = PendingCommand {
            queue,
            entry: *entry,
            extent: Extent::default(),
            force_unit_access: false,
            segments: vec![],
            deallocate: vec![],
        };
        match operation {
            Operation::Flush => {}
            Operation::Deallocate => self.read_ranges(&mut command, memory)?,
            Operation::Read | Operation::Write | Operation::WriteZeroes => {
                let blocks = u64::from(entry.dword(12) & 0xffff) + 1;
                command.extent = self.extent(entry.first_block(), blocks)?;
                command.force_unit_access = entry.dword(12) >> 30 & 1 == 1;
                if operation != Operation::WriteZeroes {
                    if command.extent.bytes > self.settings.transfer_bytes.into() {
                        return Err(NvmeStatus::InvalidField);
                    }
                    let (prp1, prp2) = (entry.prp1, entry.prp2);
                    let bytes = command.extent.bytes as usize;
                    prp::segments(prp1, prp2, bytes, memory, &mut command.segments)?;
                }
            }
        }
        Ok((operation, command))
    }

    /// Returns the byte range of the `blocks` logical blocks from block `first` on; an error if the
    /// range ends beyond the namespace.
    fn extent(&self, first: u64, blocks: u64) -> Result<Extent, NvmeStatus> {
        let end = first.checked_add(blocks).ok_or(NvmeStatus::LbaOutOfRange)?;
        if end > self.settings.blocks() {
            return Err(NvmeStatus::LbaOutOfRange);
        }
        let shift = self.settings.block_shift();
        Ok(Extent { offset: first << shift, bytes: blocks << shift })
    }

    /// Reads the ranges of a Dataset Management command (NVMe 1.4, figure 354) from host memory.
    fn read_ranges(
        &self,
        command: &mut PendingCommand,
        memory: &dyn HostMemory,
    ) -> Result<(), NvmeStatus> {
        let entry = &command.entry;
        let ranges = (entry.dword(10) & 0xff) as usize + 1;
        let mut bytes = vec![0; ranges * RANGE_BYTES];
        prp::segments(entry.prp1, entry.prp2, bytes.len(), memory, &mut command.segments)?;
        gather(&command.segments, memory, &mut bytes)?;
        command.segments.clear();
        // Bit 2 of dword 11 is the attribute "deallocate". The others are hints, and ignored.
        if entry.dword(11) & 4 == 0 {
            return Ok(());
        }
        for range in bytes.chunks_exact(RANGE_BYTES) {
            let dword = |at: usize| {
                u32::from_le_bytes([range[at], range[at + 1], range[at + 2], range[at + 3]])
            };
            let first = u64::from(dword(8)) | u64::from(dword(12)) << 32;
            let extent = self.extent(first, dword(4).into())?;
            if extent.bytes > 0 {
                command.deallocate.push(extent);
            }
        }
        let first = command.deallocate.iter().map(|extent| extent.offset).min();
        command.extent.offset = first.unwrap_or(0);
        Ok(())
    }

    /// Executes the command with the tag `tag`, and completes it. Ignores the tags of commands that
    /// were aborted or lost by a reset.
    pub fn complete(&mut self, tag: u32, attached: &mut Attachments<'_>) {
        let Some(command) = self.take(tag) else { return };
        let outcome = self.execute(&command, attached);
        if let Err(NvmeStatus::WriteFault | NvmeStatus::UnrecoveredReadError) = outcome {
            self.usage.media_errors += 1;
        }
        self.finish(command.queue, &command.entry, outcome.map(|()| 0), attached);
    }

    fn execute(
        &mut self,
        command: &PendingCommand,
        attached: &mut Attachments<'_>,
    ) -> Result<(), NvmeStatus> {
        let Extent { offset, bytes } = command.extent;
        let durable = command.force_unit_access || !self.features.write_cache_is_on();
        let (memory, contents) = (&mut *attached.memory, &mut *attached.contents);
        let [buffer, other] = &mut self.buffers;
        match command.entry.opcode {
            READ => {
                resize(buffer, bytes);
                read(contents, offset, buffer)?;
                scatter(&command.segments, memory, buffer)?;
                self.usage.reads += 1;
                self.usage.bytes_read += bytes;
                Ok(())
            }
            WRITE => {
                resize(buffer, bytes);
                gather(&command.segments, memory, buffer)?;
                let written = contents.write(offset, buffer, durable);
                self.usage.writes += 1;
                self.usage.bytes_written += bytes;
                written.map_err(|_| NvmeStatus::WriteFault)
            }
            COMPARE => {
                resize(buffer, bytes);
                resize(other, bytes);
                gather(&command.segments, memory, buffer)?;
                read(contents, offset, other)?;
                if buffer == other { Ok(()) } else { Err(NvmeStatus::CompareFailure) }
            }
            WRITE_ZEROES => {
                contents.zero(offset, bytes, durable).map_err(|_| NvmeStatus::WriteFault)
            }
            DATASET_MANAGEMENT => {
                let mut extents = command.deallocate.iter();
                let zeroed =
                    extents.try_for_each(|part| contents.zero(part.offset, part.bytes, durable));
                zeroed.map_err(|_| NvmeStatus::WriteFault)
            }
            _ => contents.flush().map_err(|_| NvmeStatus::WriteFault),
        }
    }
}

fn resize(buffer: &mut Vec<u8>, bytes: u64) {
    buffer.resize(bytes as usize, 0);
}

fn read(contents: &mut dyn Contents, offset: u64, data: &mut [u8]) -> Result<(), NvmeStatus> {
    contents.read(offset, data).map_err(|_| NvmeStatus::UnrecoveredReadError)
}

/// Copies the host memory of a transfer, which is listed in `segments`, into `data`.
fn gather(
    segments: &[Segment],
    memory: &dyn HostMemory,
    data: &mut [u8],
) -> Result<(), NvmeStatus> {
    let mut at = 0;
    for segment in segments {
        let part = &mut data[at..at + segment.bytes];
        memory.read(segment.address, part).map_err(|_| NvmeStatus::DataTransferError)?;
        at += segment.bytes;
    }
    Ok(())
}

/// Copies `data` into the host memory of a transfer, which is listed in `segments`.
fn scatter(
    segments: &[Segment],
    memory: &mut dyn HostMemory,
    data: &[u8],
) -> Result<(), NvmeStatus> {
    let mut at = 0;
    for segment in segments {
        let part = &data[at..at + segment.bytes];
        memory.write(segment.address, part).map_err(|_| NvmeStatus::DataTransferError)?;
        at += segment.bytes;
    }
    Ok(())
}
