//! Defines the properties of an NVMe controller, which are fixed when the controller is created.

use super::queue::{QUEUE_ENTRIES_MAX, QUEUES_MAX};
use crate::card::{BLOCK_BYTES, Card};

/// The PCI vendor of the built-in cards: PMC-Sierra, the maker of Flashtec controllers.
const VENDOR: u16 = 0x11f8;

/// Minimum and maximum of `NvmeSettings::transfer_bytes`. The field MDTS states a limit of 2^MDTS
/// pages of 4 KiB, and 0 states that there is no limit (NVMe 1.4, figure 247), so the least limit
/// is two pages.
const TRANSFER_BYTES: [u32; 2] = [8 << 10, 2 << 20];

/// The version of the specification that the controller reports and follows.
///
/// Version 1.1 has no list of namespace identification descriptors (CNS 03h, added in 1.3), and no
/// flush of all namespaces (NSID FFFFFFFFh). In the identify data of version 1.1, the fields that
/// 1.2 to 1.4 added (controller type, NQN) are zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NvmeVersion {
    /// NVM Express 1.1.
    V1_1,
    /// NVM Express 1.4.
    V1_4,
}

impl NvmeVersion {
    /// Returns the value of the Version register (VS).
    pub(super) fn register(self) -> u32 {
        match self {
            Self::V1_1 => 0x0001_0100,
            Self::V1_4 => 0x0001_0400,
        }
    }
}

/// Properties of an NVMe controller with one namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NvmeSettings {
    /// The version of the NVMe specification that the controller reports and follows.
    pub version: NvmeVersion,
    /// PCI vendor identifier.
    pub vendor: u16,
    /// PCI subsystem vendor identifier.
    pub subsystem_vendor: u16,
    /// Model number, 1 to 40 printable ASCII characters.
    pub model: String,
    /// Serial number, 1 to 20 printable ASCII characters. With NVMe 1.4, the NQN of the NVM
    /// subsystem is made from the model number and the serial number, so the devices of a host need
    /// different serial numbers.
    pub serial: String,
    /// Firmware revision, 1 to 8 printable ASCII characters.
    pub firmware: String,
    /// Capacity of the namespace, bytes.
    pub capacity: u64,
    /// Size of a logical block, bytes: 512 or 4096.
    pub block_bytes: u32,
    /// The number of pairs of I/O queues, 1 to [`QUEUES_MAX`].
    pub queues: u16,
    /// Maximum number of entries of a queue, 2 to [`QUEUE_ENTRIES_MAX`].
    pub queue_entries: u16,
    /// The number of MSI-X vectors, 1 to 256.
    pub vectors: u16,
    /// The largest transfer of a command, bytes: a power of two from 8 KiB to 2 MiB.
    pub transfer_bytes: u32,
    /// The largest write that a power failure cannot tear, bytes: a multiple of `block_bytes`.
    pub atomic_bytes: u32,
    /// True if the card has a volatile write cache. Completed writes are then durable only after a
    /// flush, or with force unit access.
    pub write_cache: bool,
}

/// The error for a field of [`NvmeSettings`] whose value is not allowed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{name} = {value}: {allowed}")]
pub struct SettingsError {
    /// The name of the field of [`NvmeSettings`].
    pub name: &'static str,
    /// The value of the field.
    pub value: String,
    /// The values that are allowed.
    pub allowed: String,
}

/// Returns the largest power of two up to `value`, limited to the range from `least` to `most`,
/// which are powers of two.
fn power_of_two_within(value: u32, [least, most]: [u32; 2]) -> u32 {
    let value = value.clamp(least, most);
    1 << value.ilog2()
}

impl NvmeSettings {
    /// Returns the settings of the controller of `card`, with the serial number `serial`. Completed
    /// writes are durable on all cards, so there is no volatile write cache. Values of the card
    /// that the controller cannot report are replaced: a count above its maximum by the maximum,
    /// and the largest transfer by a power of two from 8 KiB to 2 MiB, rounded down.
    #[must_use]
    pub fn of(card: &Card, serial: &str) -> Self {
        let limited = |value: u32, most: u16| u16::try_from(value).unwrap_or(most).min(most);
        let spec = &card.nvme;
        let ascii = |c: char| if matches!(c, ' '..='~') { c } else { '?' };
        let model: String = card.name.chars().take(40).map(ascii).collect();
        Self {
            version: if spec.version < (1, 2) { NvmeVersion::V1_1 } else { NvmeVersion::V1_4 },
            vendor: VENDOR,
            subsystem_vendor: VENDOR,
            model,
            serial: serial.to_string(),
            firmware: env!("CARGO_PKG_VERSION").to_string(),
            capacity: card.memory.capacity,
            block_bytes: BLOCK_BYTES,
            queues: limited(spec.queues, QUEUES_MAX),
            queue_entries: limited(spec.entries, QUEUE_ENTRIES_MAX),
            vectors: limited(spec.vectors, 256),
            transfer_bytes: power_of_two_within(spec.max_transfer, TRANSFER_BYTES),
            atomic_bytes: spec.atomic_write.min(BLOCK_BYTES << 16),
            write_cache: false,
        }
    }

    /// Checks that every field has an allowed value.
    ///
    /// # Errors
    /// If a field is out of its range; the error names the first such field.
    pub fn check(&self) -> Result<(), SettingsError> {
        let range = |name, value: u64, least: u64, most: u64| {
            let allowed = || format!("{least} to {most} are allowed");
            let refuse = || SettingsError { name, value: value.to_string(), allowed: allowed() };
            if (least..=most).contains(&value) { Ok(()) } else { Err(refuse()) }
        };
        let text = |name, value: &str, most: usize| {
            let printable = value.bytes().all(|byte| (0x20..0x7f).contains(&byte));
            let allowed = || format!("1 to {most} printable ASCII characters are allowed");
            let refuse = || SettingsError { name, value: value.to_string(), allowed: allowed() };
            let fits = !value.is_empty() && value.len() <= most;
            if printable && fits { Ok(()) } else { Err(refuse()) }
        };
        let multiple = |name, value: u64, of: u64| {
            let allowed = || format!("a multiple of {of} is required");
            let refuse = || SettingsError { name, value: value.to_string(), allowed: allowed() };
            if value.is_multiple_of(of) { Ok(()) } else { Err(refuse()) }
        };
        text("model", &self.model, 40)?;
        text("serial", &self.serial, 20)?;
        text("firmware", &self.firmware, 8)?;
        if ![512, 4096].contains(&self.block_bytes) {
            let value = self.block_bytes.to_string();
            let allowed = "512 and 4096 are allowed".to_string();
            return Err(SettingsError { name: "block_bytes", value, allowed });
        }
        let block = u64::from(self.block_bytes);
        range("capacity", self.capacity, 4096, 1 << 48)?;
        multiple("capacity", self.capacity, block)?;
        range("queues", self.queues.into(), 1, QUEUES_MAX.into())?;
        range("queue_entries", self.queue_entries.into(), 2, QUEUE_ENTRIES_MAX.into())?;
        range("vectors", self.vectors.into(), 1, 256)?;
        let [least, most] = TRANSFER_BYTES;
        range("transfer_bytes", self.transfer_bytes.into(), least.into(), most.into())?;
        if !self.transfer_bytes.is_power_of_two() {
            let value = self.transfer_bytes.to_string();
            let allowed = "a power of two is required".to_string();
            return Err(SettingsError { name: "transfer_bytes", value, allowed });
        }
        range("atomic_bytes", self.atomic_bytes.into(), block, block << 16)?;
        multiple("atomic_bytes", self.atomic_bytes.into(), block)
    }

    /// Returns the base-2 logarithm of the size of a logical block in bytes.
    pub(super) fn block_shift(&self) -> u32 {
        self.block_bytes.trailing_zeros()
    }

    /// Returns the number of logical blocks of the namespace.
    pub(super) fn blocks(&self) -> u64 {
        self.capacity >> self.block_shift()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_valid_card_has_valid_settings() {
        let mut card = crate::card::by_name("all-mram").unwrap();
        for (transfer, expected) in [
            (512, 8 << 10),
            (1536, 8 << 10),
            (12 << 10, 8 << 10),
            (1 << 20, 1 << 20),
            (1_050_624, 1 << 20),
            (4 << 20, 2 << 20),
            (1 << 30, 2 << 20),
        ] {
            card.nvme.max_transfer = transfer;
            let settings = NvmeSettings::of(&card, "1");
            assert_eq!((settings.transfer_bytes, settings.check()), (expected, Ok(())));
        }
        (card.nvme.max_transfer, card.nvme.atomic_write) = (1 << 30, 1 << 30);
        card.name = "m\u{e9}moire".to_string();
        let settings = NvmeSettings::of(&card, "1");
        assert_eq!((settings.model.as_str(), settings.check()), ("m?moire", Ok(())));
        assert_eq!(settings.atomic_bytes, 32 << 20);
    }
}
