//! Builds the data structures that the command Identify returns (NVMe 1.4, section 5.15).

use std::hash::Hasher;

use super::{
    command::SubmissionEntry,
    controller::error_log,
    prp::PAGE,
    settings::{NvmeSettings, NvmeVersion},
    status::NvmeStatus,
};

/// The bytes of a data structure that Identify returns.
pub(super) type Page = [u8; PAGE as usize];

/// Maximum power of the card, in units of 10 mW: 25 W, the limit of a PCIe x8 card (PCI Express
/// Card Electromechanical Specification 3.0, section 4.2).
const POWER_MAX: u16 = 2500;

/// Returns the data structure that an Identify command requests.
pub(super) fn identify(
    settings: &NvmeSettings,
    entry: &SubmissionEntry,
) -> Result<Box<Page>, NvmeStatus> {
    let mut page = Box::new([0; PAGE as usize]);
    match (entry.dword(10) & 0xff, settings.version) {
        (0x00, _) => match entry.namespace {
            1 => namespace(settings, &mut page),
            // With the NSID FFFFFFFFh the command requests the properties that all namespaces have
            // in common. Only controllers with namespace management report them.
            _ => return Err(NvmeStatus::InvalidNamespace),
        },
        (0x01, _) => controller(settings, &mut page),
        // The list of the active namespaces whose identifier is above the NSID of the command:
        // namespace 1 or none.
        (0x02, _) => match entry.namespace {
            0 => put(&mut *page, 0, &1_u32.to_le_bytes()),
            0xffff_fffe.. => return Err(NvmeStatus::InvalidNamespace),
            _ => {}
        },
        (0x03, NvmeVersion::V1_4) => match entry.namespace {
            1 => {
                // The list of namespace identification descriptors has one descriptor: a UUID (type
                // 3) of 16 bytes.
                put(&mut *page, 0, &[3, 16]);
                put(&mut *page, 4, &uuid(settings));
            }
            _ => return Err(NvmeStatus::InvalidNamespace),
        },
        _ => return Err(NvmeStatus::InvalidField),
    }
    Ok(page)
}

/// Fills the data structure Identify Controller (NVMe 1.4, figure 247).
fn controller(settings: &NvmeSettings, page: &mut Page) {
    put(page, 0, &settings.vendor.to_le_bytes());
    put(page, 2, &settings.subsystem_vendor.to_le_bytes());
    put(page, 4, &text::<20>(&settings.serial));
    put(page, 24, &text::<40>(&settings.model));
    put(page, 64, &text::<8>(&settings.firmware));
    // MDTS: the largest transfer is 2^MDTS pages.
    page[77] = (settings.transfer_bytes / PAGE as u32).trailing_zeros() as u8;
    // ACL and AERL, both 0's based: maximum numbers of outstanding Abort and Asynchronous Event
    // Request commands.
    page[258] = 3;
    page[259] = error_log::REQUESTS_MAX as u8 - 1;
    // FRMW: one firmware slot, which is read only.
    page[260] = 1 << 1 | 1;
    page[262] = error_log::ENTRIES as u8 - 1;
    // SQES and CQES: required and maximum size of queue entries, each as an exponent of two: 2^6
    // and 2^4 bytes.
    put(page, 512, &[0x66, 0x44]);
    // NN: one namespace.
    put(page, 516, &1_u32.to_le_bytes());
    // ONCS, optional commands: Compare, Dataset Management, Write Zeroes, the field Select of Get
    // Features.
    put(page, 520, &0b1_1101_u16.to_le_bytes());
    page[525] = settings.write_cache.into();
    // AWUN and AWUPF, both 0's based, blocks: atomic write units in operation and at power failure.
    let atomic = (settings.atomic_bytes >> settings.block_shift()) - 1;
    let atomic = u16::try_from(atomic).unwrap_or(u16::MAX);
    put(page, 526, &atomic.to_le_bytes());
    put(page, 528, &atomic.to_le_bytes());
    put(page, 2048, &POWER_MAX.to_le_bytes());
    if settings.version == NvmeVersion::V1_4 {
        put(page, 80, &settings.version.register().to_le_bytes());
        // Controller type: an I/O controller.
        page[111] = 1;
        // Warning and critical temperatures, kelvins: 70 and 85 degrees Celsius (assumed).
        put(page, 266, &343_u16.to_le_bytes());
        put(page, 268, &358_u16.to_le_bytes());
        // VWC: the flush of all namespaces is supported.
        page[525] |= 3 << 1;
        let uuid = uuid(settings);
        let hex = |range: std::ops::Range<usize>| -> String {
            uuid[range].iter().map(|byte| format!("{byte:02x}")).collect()
        };
        let parts = [hex(0..4), hex(4..6), hex(6..8), hex(8..10), hex(10..16)].join("-");
        put(page, 768, format!("nqn.2014-08.org.nvmexpress:uuid:{parts}").as_bytes());
    }
}

/// Fills the data structure Identify Namespace (NVMe 1.4, figure 245).
fn namespace(settings: &NvmeSettings, page: &mut Page) {
    // Size, capacity and use of the namespace (NSZE, NCAP, NUSE), in logical blocks.
    for at in [0, 8, 16] {
        put(page, at, &settings.blocks().to_le_bytes());
    }
    if settings.version == NvmeVersion::V1_4 {
        // DLFEAT: deallocated blocks read as zeros, and Write Zeroes may deallocate blocks (bit
        // DEAC).
        page[33] = 1 << 3 | 1;
    }
    // LBAF0, the only format: no metadata, and the size of a block as an exponent of two.
    page[130] = settings.block_shift() as u8;
}

/// Returns a UUID of version 8 (RFC 9562) that is made of the model and the serial number.
fn uuid(settings: &NvmeSettings) -> [u8; 16] {
    let mut uuid = [0; 16];
    for (half, seed) in uuid.chunks_exact_mut(8).zip(0_u8..) {
        let mut hash = Fnv::default();
        hash.write(&[seed]);
        hash.write(settings.model.as_bytes());
        hash.write(&[0]);
        hash.write(settings.serial.as_bytes());
        half.copy_from_slice(&hash.finish().to_be_bytes());
    }
    uuid[6] = uuid[6] & 0x0f | 0x80;
    uuid[8] = uuid[8] & 0x3f | 0x80;
    uuid
}

/// The hash function FNV-1a with 64 bits. Its result is the same on every machine and in every
/// release, which the standard library does not promise for its own hash.
struct Fnv(u64);

impl Default for Fnv {
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl Hasher for Fnv {
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

/// Copies `bytes` into an identify structure or a log page, from the offset `at` on.
pub(super) fn put(page: &mut [u8], at: usize, bytes: &[u8]) {
    page[at..at + bytes.len()].copy_from_slice(bytes);
}

/// Returns `text` padded with spaces, or cut, to `LENGTH` bytes.
pub(super) fn text<const LENGTH: usize>(text: &str) -> [u8; LENGTH] {
    let mut bytes = [b' '; LENGTH];
    bytes.iter_mut().zip(text.bytes()).for_each(|(slot, byte)| *slot = byte);
    bytes
}
