//! Builds the log pages (NVMe 1.4, section 5.14): errors, health, firmware slots.

use super::{NvmeController, error_log::ERROR_PAGE};
use crate::nvme::{
    command::SubmissionEntry,
    identify::{put, text},
    status::NvmeStatus,
};

const HEALTH_PAGE: u8 = 0x02;
const FIRMWARE_PAGE: u8 = 0x03;

/// Temperature that the card reports, kelvins: 40 degrees Celsius. The value is assumed: it is
/// usual for a cooled card.
const TEMPERATURE: u16 = 313;

/// The counters of the SMART / Health Information log page.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct HealthCounters {
    pub(super) bytes_read: u64,
    pub(super) bytes_written: u64,
    pub(super) reads: u64,
    pub(super) writes: u64,
    pub(super) media_errors: u64,
}

impl NvmeController {
    /// Returns the log page that a Get Log Page command requests, cut or padded to the length in
    /// the command. Offsets within the page are not supported.
    pub(super) fn log_page(&mut self, entry: &SubmissionEntry) -> Result<Vec<u8>, NvmeStatus> {
        let dword = entry.dword(10);
        // The length has 12 bits and the offset must be zero, because the controller does not
        // report support for extended data.
        let bytes = ((dword >> 16 & 0xfff) as usize + 1) * 4;
        if entry.dword(12) != 0 || entry.dword(13) != 0 {
            return Err(NvmeStatus::InvalidField);
        }
        // All log pages are for the controller as a whole, so only the NSIDs 0 and FFFFFFFFh are
        // valid.
        if ![0, u32::MAX].contains(&entry.namespace) {
            return Err(NvmeStatus::InvalidField);
        }
        let retain_event = dword >> 15 & 1 == 1;
        let mut page = match (dword & 0xff) as u8 {
            ERROR_PAGE => {
                if !retain_event {
                    self.events.clear();
                }
                self.errors.page()
            }
            HEALTH_PAGE => self.health().to_vec(),
            FIRMWARE_PAGE => {
                let mut page = vec![0; 512];
                // Firmware slot 1 is active.
                page[0] = 1;
                page[8..16].copy_from_slice(&text::<8>(&self.settings.firmware));
                page
            }
            _ => return Err(NvmeStatus::InvalidLogPage),
        };
        page.resize(bytes, 0);
        Ok(page)
    }

    /// Returns the SMART / Health Information log page (NVMe 1.4, figure 194).
    fn health(&self) -> [u8; 512] {
        let mut page = [0; 512];
        let usage = &self.usage;
        put(&mut page, 1, &TEMPERATURE.to_le_bytes());
        // The available spare and its threshold, percent. The values are constant.
        put(&mut page, 3, &[100, 10]);
        // The page counts data in units of 1000 times 512 bytes, rounded up.
        let units = |bytes: u64| bytes.div_ceil(512_000).to_le_bytes();
        put(&mut page, 32, &units(usage.bytes_read));
        put(&mut page, 48, &units(usage.bytes_written));
        put(&mut page, 64, &usage.reads.to_le_bytes());
        put(&mut page, 80, &usage.writes.to_le_bytes());
        // The number of power cycles. It is always 1, because power cycles are not counted.
        put(&mut page, 112, &1_u64.to_le_bytes());
        put(&mut page, 160, &usage.media_errors.to_le_bytes());
        put(&mut page, 176, &self.errors.count().to_le_bytes());
        page
    }
}
