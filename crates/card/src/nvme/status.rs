//! Defines the status codes of commands (NVMe 1.4, section 4.6.1).

/// The status of a completed command: status code type and status code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "names of the specification")]
pub enum NvmeStatus {
    Success,
    InvalidOpcode,
    InvalidField,
    DataTransferError,
    InternalError,
    AbortRequested,
    InvalidNamespace,
    SequenceError,
    InvalidPrpOffset,
    LbaOutOfRange,
    CompletionQueueInvalid,
    InvalidQueueIdentifier,
    InvalidQueueSize,
    AsyncEventLimitExceeded,
    InvalidInterruptVector,
    InvalidLogPage,
    InvalidQueueDeletion,
    FeatureNotSaveable,
    WriteFault,
    UnrecoveredReadError,
    CompareFailure,
}

impl NvmeStatus {
    /// Returns the status code type (SCT) and the status code (SC).
    #[must_use]
    pub fn code(self) -> (u8, u8) {
        match self {
            Self::Success => (0, 0x00),
            Self::InvalidOpcode => (0, 0x01),
            Self::InvalidField => (0, 0x02),
            Self::DataTransferError => (0, 0x04),
            Self::InternalError => (0, 0x06),
            Self::AbortRequested => (0, 0x07),
            Self::InvalidNamespace => (0, 0x0b),
            Self::SequenceError => (0, 0x0c),
            Self::InvalidPrpOffset => (0, 0x13),
            Self::LbaOutOfRange => (0, 0x80),
            Self::CompletionQueueInvalid => (1, 0x00),
            Self::InvalidQueueIdentifier => (1, 0x01),
            Self::InvalidQueueSize => (1, 0x02),
            Self::AsyncEventLimitExceeded => (1, 0x05),
            Self::InvalidInterruptVector => (1, 0x08),
            Self::InvalidLogPage => (1, 0x09),
            Self::InvalidQueueDeletion => (1, 0x0c),
            Self::FeatureNotSaveable => (1, 0x0d),
            Self::WriteFault => (2, 0x80),
            Self::UnrecoveredReadError => (2, 0x81),
            Self::CompareFailure => (2, 0x85),
        }
    }

    /// Returns true if a retry of the same command would fail again. After a fault of a transfer,
    /// an internal error or an abort, a retry may succeed.
    fn do_not_retry(self) -> bool {
        !matches!(
            self,
            Self::Success | Self::DataTransferError | Self::InternalError | Self::AbortRequested
        )
    }

    /// Returns the status field without the phase bit: bits 15:1 of the entry's last word (NVMe
    /// 1.4, figure 122).
    #[must_use]
    pub fn field(self) -> u16 {
        let (kind, code) = self.code();
        let retry = u16::from(self.do_not_retry()) << 15;
        retry | u16::from(kind) << 9 | u16::from(code) << 1
    }
}
