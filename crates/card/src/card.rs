//! Describes a card: its link, NVMe front end, controller and memory, and the host that uses it.
//!
//! The built-in cards are files in `devices/cards/` with the schema `interleaf.card/1`; a user's
//! card file has the same schema. Each number in a built-in file has a source. Times are in fs.

mod file;

use crate::power::{EnergySpec, PowerSpec};
use interleaf_sim::dimm::device::{Device, DeviceError};

pub use file::{by_name, in_file, names, text_of};

/// The description of an NVRAM card and of its host.
#[derive(Clone, Debug, PartialEq)]
pub struct Card {
    /// The name of the card, such as `flashtec-dram`.
    pub name: String,
    /// The PCIe link between card and host.
    pub link: LinkSpec,
    /// The NVMe front end: queues, interrupts, and limits of a command.
    pub nvme: NvmeSpec,
    /// The controller between the NVMe front end and the memory.
    pub controller: ControllerSpec,
    /// The memory channels and their modules.
    pub memory: MemorySpec,
    /// The BAR that maps the memory; `None` for a card without such a BAR.
    pub bar: Option<BarSpec>,
    /// The times that the host takes for an I/O: its processors, interrupts and memory.
    pub host: HostSpec,
    /// The card's behaviour at a power failure.
    pub power: PowerSpec,
    /// The power and energy of the link and the controller in normal work.
    pub energy: EnergySpec,
}

/// A base address register through which the host reads and writes the memory. Writes through the
/// BAR use flow control credits of the card's port.
#[derive(Clone, Debug, PartialEq)]
pub struct BarSpec {
    /// Size of the address range that the BAR maps, bytes.
    pub bytes: u64,
    /// Size of a page, bytes. The host maps the range in pages of this size.
    pub page: u32,
    /// Posted header credits (PH) of the card's port, one for each packet.
    pub posted_headers: u32,
    /// Posted data credits (PD) of the card's port, 16 bytes each.
    pub posted_data: u32,
}

/// A PCIe link, and the flow control credits of the host's port.
#[derive(Clone, Debug, PartialEq)]
pub struct LinkSpec {
    /// The generation of PCI Express, 1 to 5.
    pub generation: u32,
    /// The number of lanes of the link, the same in both directions.
    pub lanes: u32,
    /// Maximum payload size of a TLP (MPS), bytes.
    pub max_payload: u32,
    /// Maximum size of a read request (MRRS), bytes.
    pub max_read_request: u32,
    /// Read completion boundary (RCB), bytes: 64 or 128.
    pub read_completion_boundary: u32,
    /// Delay of a packet from one end of the link to the other, without its transmission time, fs.
    pub delay_fs: u64,
    /// Mean number of ACK DLLPs (data link layer packets) per TLP (transaction layer packet).
    pub acknowledgements: f64,
    /// Mean number of UpdateFC DLLPs, which return flow control credits, per TLP.
    pub credit_updates: f64,
    /// Maximum number of outstanding reads of host memory for the data of write commands; each
    /// takes a tag. Reads of commands and of PRP lists take no tag in the model.
    pub read_tags: u32,
    /// Posted header credits (PH) of the host's port, one for each packet.
    pub posted_headers: u32,
    /// Posted data credits (PD) of the host's port, 16 bytes each.
    pub posted_data: u32,
    /// Non-posted header credits (NPH) of the host's port, one for each packet.
    pub non_posted_headers: u32,
}

/// The NVMe front end: it exchanges commands, completions and interrupts with the host.
#[derive(Clone, Debug, PartialEq)]
pub struct NvmeSpec {
    /// Major and minor version of the NVMe specification.
    pub version: (u32, u32),
    /// The number of I/O queue pairs.
    pub queues: u32,
    /// The number of entries of each queue (MQES + 1).
    pub entries: u32,
    /// The number of MSI-X vectors: at least one for the admin queue and one for each I/O queue.
    pub vectors: u32,
    /// Maximum number of commands that arbitration takes from a queue at once.
    pub arbitration_burst: u32,
    /// Maximum number of completions of a queue that share one interrupt.
    pub coalescing_threshold: u32,
    /// Maximum time for which a completion waits for others to share its interrupt, fs; 0: no wait.
    pub coalescing_time_fs: u64,
    /// Atomic write unit at power failure (AWUPF), bytes.
    pub atomic_write: u32,
    /// Largest transfer of a command (MDTS), bytes.
    pub max_transfer: u32,
}

/// The properties of the controller between the link and the memory.
#[derive(Clone, Debug, PartialEq)]
pub struct ControllerSpec {
    /// The number of processor cores that execute the firmware.
    pub cores: u32,
    /// Time that a core works on each command before its data transfer, fs.
    pub command_fs: u64,
    /// Time that a core works on each command after its data transfer, fs.
    pub completion_fs: u64,
    /// Maximum number of commands that the controller has fetched and not yet completed.
    pub commands: u32,
    /// Maximum number of outstanding reads of submission queue entries.
    pub fetches: u32,
    /// The number of DMA engines. Each transfers the data of one command at a time.
    pub dma_engines: u32,
    /// Size of all data buffers together, bytes.
    pub buffer_bytes: u32,
    /// Latency of the error correction (ECC), the same for encoding and decoding, fs.
    pub ecc_fs: u64,
}

/// The stage of a write from which the controller counts a written byte as safe from a power
/// failure. The controller completes a write when all bytes of the write are safe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durable {
    /// A written byte is safe once it is in DRAM: a power failure saves the DRAM, and the data in
    /// the controller's buffers, to NAND on the energy of the capacitor.
    Save,
    /// A written byte is safe once it is in STT-MRAM and the precharge of its row is complete.
    Precharge,
}

/// The memory channels of a card.
#[derive(Clone, Debug, PartialEq)]
pub struct MemorySpec {
    /// The memory module of each channel, with the card's number of ranks.
    pub device: Device,
    /// The number of memory channels.
    pub channels: u32,
    /// Capacity of the memory that the host sees, bytes.
    pub capacity: u64,
    /// The stage of a write from which a written byte is safe from a power failure.
    pub durable: Durable,
}

/// The times that the host takes for an I/O.
#[derive(Clone, Debug, PartialEq)]
pub struct HostSpec {
    /// Time that a processor works to submit an I/O, including the write of its doorbell, fs.
    pub submit_fs: u64,
    /// Time that a processor works to complete an I/O, fs.
    pub completion_fs: u64,
    /// Time from the arrival of an MSI-X write to the start of its handler on an idle processor,
    /// fs.
    pub interrupt_fs: u64,
    /// Time from the arrival of a read request at the root complex until it has the data, fs.
    pub memory_read_fs: u64,
    /// Time from the arrival of a write at the root complex to the release of its credits, fs.
    pub memory_write_fs: u64,
}

/// Size of a row segment, the unit of transfers between the card's buffers and memory, bytes.
pub const SEGMENT_BYTES: u32 = 512;

/// Size of a logical block, bytes.
pub const BLOCK_BYTES: u32 = 512;

impl Card {
    /// Returns the built-in card with the name `name`.
    ///
    /// # Errors
    /// If no built-in card has the name.
    pub fn by_name(name: &str) -> Result<Self, DeviceError> {
        by_name(name)
    }

    /// Returns the size of a DMA chunk, the unit of transfers over the link and of buffers, bytes.
    pub fn chunk_bytes(&self) -> u32 {
        self.link.max_read_request.min(SEGMENT_BYTES)
    }
}

#[cfg(test)]
mod tests;
