//! Emulates the PCI configuration space: header, power management, MSI-X, PCI Express.
//!
//! QEMU emulates the base address registers and the MSI-X table for the guest, and also forwards
//! all writes to the server. For each register, a mask has the bits that a write can change.

use interleaf_card::nvme::NvmeSettings;

/// Size of the configuration space of a PCI Express function, bytes.
pub const CONFIG_BYTES: usize = 4096;

/// Size of BAR 0, bytes. BAR 0 contains the registers and doorbells, the MSI-X table, and the
/// pending bits.
pub const BAR_BYTES: u64 = 0x4000;

const MSIX_TABLE: u32 = 0x2000;
const MSIX_PENDING: u32 = 0x3000;

const POWER_MANAGEMENT: usize = 0x40;
const MSIX: usize = 0x50;
const EXPRESS: usize = 0x60;

/// Offset of the Device Control register of the PCI Express capability.
const DEVICE_CONTROL: usize = EXPRESS + 8;
/// The bit of the Device Control register by which the host initiates a function level reset.
const FUNCTION_RESET: u16 = 1 << 15;

/// The class code, lowest byte first: NVM Express (02h), non-volatile memory (08h), mass storage
/// (01h) (PCI Code and ID Assignment Specification).
const CLASS: [u8; 3] = [0x02, 0x08, 0x01];

/// The device identifier of the built-in cards. The value is invented, on the assumption that no
/// product of the vendor has it.
const DEVICE: u16 = 0x4e56;

/// The configuration space of a card.
#[derive(Clone)]
pub struct ConfigSpace {
    bytes: Box<[u8; CONFIG_BYTES]>,
    /// For each byte of `bytes`, a mask of the bits that a write can change.
    writable: Box<[u8; CONFIG_BYTES]>,
}

/// The effect of a write to the configuration space, besides the change of register bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConfigEffect {
    /// The write has no other effect.
    None,
    /// The host requested a function level reset.
    FunctionReset,
}

impl ConfigSpace {
    /// Creates the configuration space as it is after power-on. `generation` and `lanes` are those
    /// of the PCIe link.
    #[must_use]
    pub fn new(settings: &NvmeSettings, generation: u8, lanes: u8) -> Self {
        let mut space =
            Self { bytes: Box::new([0; CONFIG_BYTES]), writable: Box::new([0; CONFIG_BYTES]) };
        space.header(settings);
        space.power_management();
        space.msix(settings.vectors);
        space.express(generation, lanes);
        space
    }

    fn put(&mut self, at: usize, bytes: &[u8]) {
        self.bytes[at..at + bytes.len()].copy_from_slice(bytes);
    }

    fn allow(&mut self, at: usize, mask: &[u8]) {
        self.writable[at..at + mask.len()].copy_from_slice(mask);
    }

    fn header(&mut self, settings: &NvmeSettings) {
        self.put(0x00, &settings.vendor.to_le_bytes());
        self.put(0x02, &DEVICE.to_le_bytes());
        // Bits of the command register that a host may change: memory space, bus master, parity
        // error response, SERR#, interrupt disable.
        self.allow(0x04, &0x0546_u16.to_le_bytes());
        // Status register: the capabilities list is present.
        self.put(0x06, &(1_u16 << 4).to_le_bytes());
        self.put(0x09, &CLASS);
        self.allow(0x0c, &[0xff]);
        // BAR 0: memory with an address of 64 bits. The address bits below the size of the BAR
        // always read as zero; a host writes ones, and determines the size from the bits that stay
        // zero.
        self.put(0x10, &[4]);
        self.allow(0x10, &(!(BAR_BYTES - 1)).to_le_bytes());
        self.put(0x2c, &settings.subsystem_vendor.to_le_bytes());
        self.put(0x2e, &DEVICE.to_le_bytes());
        self.put(0x34, &[POWER_MANAGEMENT as u8]);
        self.allow(0x3c, &[0xff]);
    }

    /// Adds the power management capability (PCI Bus Power Management Interface Specification 1.2,
    /// section 3.2).
    fn power_management(&mut self) {
        self.put(POWER_MANAGEMENT, &[0x01, MSIX as u8]);
        self.put(POWER_MANAGEMENT + 2, &3_u16.to_le_bytes());
        // No_Soft_Reset: the state is kept in the transition from D3hot to D0.
        self.put(POWER_MANAGEMENT + 4, &(1_u16 << 3).to_le_bytes());
        self.allow(POWER_MANAGEMENT + 4, &3_u16.to_le_bytes());
    }

    /// Adds the MSI-X capability (PCI Local Bus Specification 3.0, section 6.8.2).
    fn msix(&mut self, vectors: u16) {
        self.put(MSIX, &[0x11, EXPRESS as u8]);
        self.put(MSIX + 2, &(vectors - 1).to_le_bytes());
        self.allow(MSIX + 2, &(3_u16 << 14).to_le_bytes());
        self.put(MSIX + 4, &MSIX_TABLE.to_le_bytes());
        self.put(MSIX + 8, &MSIX_PENDING.to_le_bytes());
    }

    /// Adds the PCI Express capability (PCI Express Base Specification 3.0, section 7.8).
    fn express(&mut self, generation: u8, lanes: u8) {
        self.put(EXPRESS, &[0x10, 0]);
        // Capabilities register: version 2, an endpoint.
        self.put(EXPRESS + 2, &2_u16.to_le_bytes());
        // Device capabilities: payloads of 256 bytes, role-based error reporting, function level
        // reset.
        self.put(EXPRESS + 4, &(1_u32 | 1 << 15 | 1 << 28).to_le_bytes());
        self.allow(DEVICE_CONTROL, &0x7fff_u16.to_le_bytes());
        self.put(DEVICE_CONTROL, &0x2810_u16.to_le_bytes());
        let link = u32::from(generation) | u32::from(lanes) << 4;
        self.put(EXPRESS + 0x0c, &link.to_le_bytes());
        self.allow(EXPRESS + 0x10, &0x03f3_u16.to_le_bytes());
        self.put(EXPRESS + 0x12, &(link as u16).to_le_bytes());
        // Device capabilities 2: completion timeouts cannot be programmed; they can be disabled.
        self.put(EXPRESS + 0x24, &(1_u32 << 4).to_le_bytes());
        self.allow(EXPRESS + 0x28, &(1_u16 << 4).to_le_bytes());
        // Link capabilities 2: bit 1 for 2.5 GT/s and one more bit for each faster link speed, up
        // to that of `generation`.
        let speeds = ((1_u32 << generation) - 1) << 1;
        self.put(EXPRESS + 0x2c, &speeds.to_le_bytes());
        self.put(EXPRESS + 0x30, &u16::from(generation).to_le_bytes());
    }

    /// Reads `data.len()` bytes from `offset` on. Bytes beyond the configuration space read as
    /// ones.
    pub fn read(&self, offset: u64, data: &mut [u8]) {
        for (byte, at) in data.iter_mut().zip(byte_offsets(offset)) {
            *byte = self.bytes.get(at).copied().unwrap_or(0xff);
        }
    }

    /// Writes `data` from `offset` on. Changes the writable bits of registers, and ignores all
    /// other bits. Returns the effect that the write has besides the change of bits.
    pub fn write(&mut self, offset: u64, data: &[u8]) -> ConfigEffect {
        let mut effect = ConfigEffect::None;
        for (byte, at) in data.iter().zip(byte_offsets(offset)) {
            let Some(mask) = self.writable.get(at) else { break };
            self.bytes[at] = self.bytes[at] & !mask | byte & mask;
            if at == DEVICE_CONTROL + 1 && byte & (FUNCTION_RESET >> 8) as u8 != 0 {
                effect = ConfigEffect::FunctionReset;
            }
        }
        effect
    }
}

/// Returns the index of each byte from `offset` on, without end. The indices saturate at
/// `usize::MAX`, which is outside of the configuration space.
fn byte_offsets(offset: u64) -> impl Iterator<Item = usize> {
    let offset = usize::try_from(offset).unwrap_or(usize::MAX);
    (0..).map(move |at| offset.saturating_add(at))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::tests::settings;

    fn space() -> ConfigSpace {
        ConfigSpace::new(&settings(), 3, 8)
    }

    fn dword(space: &ConfigSpace, at: u64) -> u32 {
        let mut data = [0; 4];
        space.read(at, &mut data);
        u32::from_le_bytes(data)
    }

    #[test]
    fn a_host_finds_class_size_and_capabilities() {
        let mut space = space();
        assert_eq!(dword(&space, 0x08) >> 8, 0x01_0802);
        space.write(0x10, &u64::MAX.to_le_bytes());
        assert_eq!((dword(&space, 0x10), dword(&space, 0x14)), (0xffff_c004, u32::MAX));
        let mut found = vec![];
        let mut at = dword(&space, 0x34) as u8;
        while at != 0 {
            let capability = dword(&space, at.into());
            found.push(capability as u8);
            at = (capability >> 8) as u8;
        }
        assert_eq!(found, [0x01, 0x11, 0x10]);
        assert_eq!(dword(&space, 0x50) >> 16, u32::from(settings().vectors) - 1);
        assert_eq!(dword(&space, 0x6c), 3 | 8 << 4);
    }

    #[test]
    fn read_only_registers_keep_their_values() {
        let mut space = space();
        let before: Vec<u32> = (0..1024).map(|at| dword(&space, at * 4)).collect();
        for at in (0..4096).step_by(4) {
            space.write(at, &[0; 4]);
        }
        for at in [0x00, 0x08, 0x2c, 0x34, 0x54, 0x58, 0x64, 0x6c] {
            assert_eq!(dword(&space, at), before[at as usize / 4], "{at:#x}");
        }
        // The expansion ROM register ignores the write of ones with which a host asks for the size,
        // so the host finds no ROM.
        space.write(0x30, &u32::MAX.to_le_bytes());
        assert_eq!(dword(&space, 0x30), 0);
    }

    #[test]
    fn a_function_level_reset_is_an_effect() {
        let mut space = space();
        assert_eq!(space.write(0x68, &0x2810_u16.to_le_bytes()), ConfigEffect::None);
        assert_eq!(space.write(0x68, &0xa810_u16.to_le_bytes()), ConfigEffect::FunctionReset);
        assert_eq!(dword(&space, 0x68) & 0x8000, 0);
        assert_eq!(space.write(u64::MAX, &[1; 8]), ConfigEffect::None);
        assert_eq!(space.write(4094, &[0xff; 8]), ConfigEffect::None);
        assert_eq!(dword(&space, 4094), 0xffff_0000);
        assert_eq!(dword(&space, u64::MAX), u32::MAX);
    }
}
