//! Converts the entries of submission and completion queues to and from bytes (NVMe 1.4, sections
//! 4.2 and 4.6). The fields of entries are little-endian.

use super::status::NvmeStatus;

/// Size of an entry of a submission queue, bytes.
pub(super) const SUBMISSION_BYTES: usize = 64;
/// Size of an entry of a completion queue, bytes.
pub(super) const COMPLETION_BYTES: usize = 16;

/// A command as it is in a submission queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SubmissionEntry {
    /// The opcode, of the admin command set (admin queue) or the NVM command set (I/O queues).
    pub opcode: u8,
    /// Bits 15:8 of command dword 0: they select fused operations, and PRPs or SGLs.
    pub flags: u8,
    /// The command identifier, chosen by the driver.
    pub identifier: u16,
    /// The namespace identifier (NSID).
    pub namespace: u32,
    /// The first PRP entry (PRP1): the address in host memory of the data, or of a new queue.
    pub prp1: u64,
    /// The second PRP entry (PRP2), or the address of a PRP list.
    pub prp2: u64,
    /// Command dwords 10 to 15.
    pub dwords: [u32; 6],
}

impl SubmissionEntry {
    /// Decodes the bytes of a submission queue entry.
    #[must_use]
    pub fn parse(bytes: &[u8; SUBMISSION_BYTES]) -> Self {
        let dword = |at: usize| {
            let at = at * 4;
            u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
        };
        let qword = |at: usize| u64::from(dword(at)) | u64::from(dword(at + 1)) << 32;
        Self {
            opcode: bytes[0],
            flags: bytes[1],
            identifier: (dword(0) >> 16) as u16,
            namespace: dword(1),
            prp1: qword(6),
            prp2: qword(8),
            dwords: std::array::from_fn(|at| dword(10 + at)),
        }
    }

    /// Returns the bytes of the entry, as a driver writes them.
    #[must_use]
    pub fn bytes(&self) -> [u8; SUBMISSION_BYTES] {
        let mut bytes = [0; SUBMISSION_BYTES];
        bytes[0] = self.opcode;
        bytes[1] = self.flags;
        bytes[2..4].copy_from_slice(&self.identifier.to_le_bytes());
        bytes[4..8].copy_from_slice(&self.namespace.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.prp1.to_le_bytes());
        bytes[32..40].copy_from_slice(&self.prp2.to_le_bytes());
        for (slot, dword) in bytes[40..].chunks_exact_mut(4).zip(self.dwords) {
            slot.copy_from_slice(&dword.to_le_bytes());
        }
        bytes
    }

    /// Returns command dword `number`, 10 to 15.
    pub(super) fn dword(&self, number: usize) -> u32 {
        self.dwords[number - 10]
    }

    /// Returns the first logical block of a read or write: dwords 10 and 11.
    pub(super) fn first_block(&self) -> u64 {
        u64::from(self.dword(10)) | u64::from(self.dword(11)) << 32
    }
}

/// A completion as it is in a completion queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CompletionEntry {
    /// Dword 0 of the entry: the result of the command, whose meaning depends on the opcode.
    pub result: u32,
    /// The index of the next entry that the controller will fetch from the submission queue.
    pub submission_head: u16,
    /// The identifier of the submission queue of the command.
    pub submission_queue: u16,
    /// The command identifier, which the driver chose.
    pub identifier: u16,
    /// The status of the command.
    pub status: NvmeStatus,
}

impl CompletionEntry {
    /// Returns the bytes of the entry as the controller writes them, with the phase bit `phase`.
    #[must_use]
    pub fn bytes(&self, phase: bool) -> [u8; COMPLETION_BYTES] {
        let mut bytes = [0; COMPLETION_BYTES];
        bytes[0..4].copy_from_slice(&self.result.to_le_bytes());
        bytes[8..10].copy_from_slice(&self.submission_head.to_le_bytes());
        bytes[10..12].copy_from_slice(&self.submission_queue.to_le_bytes());
        bytes[12..14].copy_from_slice(&self.identifier.to_le_bytes());
        let status = self.status.field() | u16::from(phase);
        bytes[14..16].copy_from_slice(&status.to_le_bytes());
        bytes
    }
}
