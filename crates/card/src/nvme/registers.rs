//! Defines the controller registers (NVMe 1.4, section 3.1): 64 bytes at the start of BAR 0.

use super::settings::NvmeSettings;

/// Offset of the Controller Capabilities register.
pub(super) const CAP: u64 = 0x00;
/// Offset of the Version register.
pub(super) const VS: u64 = 0x08;
/// Offset of the Interrupt Mask Set register.
pub(super) const INTMS: u64 = 0x0c;
/// Offset of the Interrupt Mask Clear register.
pub(super) const INTMC: u64 = 0x10;
/// Offset of the Controller Configuration register.
pub(super) const CC: u64 = 0x14;
/// Offset of the Controller Status register.
pub(super) const CSTS: u64 = 0x1c;
/// Offset of the Admin Queue Attributes register.
pub(super) const AQA: u64 = 0x24;
/// Offset of the Admin Submission Queue Base Address register.
pub(super) const ASQ: u64 = 0x28;
/// Offset of the Admin Completion Queue Base Address register.
pub(super) const ACQ: u64 = 0x30;
/// Offset of the end of the implemented registers.
pub(super) const END: u64 = 0x40;
/// Offset of the first doorbell.
pub(super) const DOORBELLS: u64 = 0x1000;

/// CSTS.RDY: the controller is ready.
pub(super) const READY: u32 = 1;
/// CSTS.CFS: controller fatal status.
pub(super) const FATAL: u32 = 1 << 1;
/// CSTS.SHST: shutdown processing is complete.
pub(super) const SHUTDOWN_COMPLETE: u32 = 2 << 2;

/// Maximum time from enable to ready (CAP.TO), in units of 500 ms. The value, 20 s, is assumed: a
/// card may have to restore its memory from flash after a power failure.
const TIMEOUT: u64 = 40;

/// The registers that a host writes, and the status register CSTS (`status`).
#[derive(Clone, Debug, Default)]
pub(super) struct Registers {
    pub(super) mask: u32,
    pub(super) configuration: u32,
    pub(super) status: u32,
    pub(super) admin_attributes: u32,
    pub(super) admin_submission: u64,
    pub(super) admin_completion: u64,
}

impl Registers {
    /// Returns true if the host has enabled the controller (CC.EN is 1).
    pub(super) fn enabled(&self) -> bool {
        self.configuration & 1 == 1
    }

    /// Returns the shutdown notification (CC.SHN): 0 none, 1 normal, 2 abrupt.
    pub(super) fn shutdown_notice(&self) -> u32 {
        self.configuration >> 14 & 3
    }

    /// Returns true if CC.CSS, CC.MPS and CC.AMS are supported: the NVM command set, pages of 4
    /// KiB, and round robin (0) or weighted round robin with urgent priority class (1).
    pub(super) fn configuration_is_supported(&self) -> bool {
        self.configuration >> 4 & 0x7f == 0 && self.configuration >> 11 & 7 <= 1
    }

    /// Returns true if CC.AMS is 1: weighted round robin with urgent priority class.
    pub(super) fn arbitration_is_weighted(&self) -> bool {
        self.configuration >> 11 & 7 == 1
    }

    /// Returns true if queue entries have 64 bytes (CC.IOSQES) and 16 bytes (CC.IOCQES).
    pub(super) fn entry_sizes_are_supported(&self) -> bool {
        self.configuration >> 16 & 0xff == 0x46
    }

    /// Returns the numbers of entries of the admin submission and the admin completion queue.
    pub(super) fn admin_entries(&self) -> (u16, u16) {
        let entries = |field: u32| (field & 0xfff) as u16 + 1;
        (entries(self.admin_attributes), entries(self.admin_attributes >> 16))
    }

    /// Returns the value of the Controller Capabilities register (CAP).
    pub(super) fn capabilities(settings: &NvmeSettings) -> u64 {
        let entries = u64::from(settings.queue_entries) - 1;
        let contiguous = 1 << 16;
        let nvm_command_set = 1 << 37;
        let weighted_round_robin = 1 << 17;
        entries | contiguous | weighted_round_robin | TIMEOUT << 24 | nvm_command_set
    }

    /// Returns the bytes of all registers as a driver reads them, from offset 0 to `END`.
    pub(super) fn image(&self, settings: &NvmeSettings) -> [u8; END as usize] {
        let mut image = [0; END as usize];
        let mut put = |at: u64, bytes: &[u8]| {
            image[at as usize..at as usize + bytes.len()].copy_from_slice(bytes);
        };
        put(CAP, &Self::capabilities(settings).to_le_bytes());
        put(VS, &settings.version.register().to_le_bytes());
        put(INTMS, &self.mask.to_le_bytes());
        put(INTMC, &self.mask.to_le_bytes());
        put(CC, &self.configuration.to_le_bytes());
        put(CSTS, &self.status.to_le_bytes());
        put(AQA, &self.admin_attributes.to_le_bytes());
        put(ASQ, &self.admin_submission.to_le_bytes());
        put(ACQ, &self.admin_completion.to_le_bytes());
        image
    }
}
