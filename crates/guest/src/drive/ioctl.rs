//! Sends requests (`ioctl`) to block devices and NVMe controllers.

#![allow(unsafe_code, reason = "ioctl(2) has no safe interface")]

use std::{fs::File, io, os::fd::AsRawFd};

/// `_IO(0x12, 119)` of linux/fs.h.
const BLKDISCARD: libc::c_ulong = 0x1277;
/// `_IO(0x12, 127)` of linux/fs.h.
const BLKZEROOUT: libc::c_ulong = 0x127f;
/// `_IOWR('N', 0x41, struct nvme_admin_cmd)` of linux/nvme_ioctl.h.
const NVME_ADMIN: libc::c_ulong = 0xc048_4e41;
/// `_IOWR('N', 0x43, struct nvme_passthru_cmd)` of linux/nvme_ioctl.h.
const NVME_IO: libc::c_ulong = 0xc048_4e43;

/// The `struct nvme_passthru_cmd` of linux/nvme_ioctl.h.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub(super) struct Passthrough {
    opcode: u8,
    flags: u8,
    reserved: u16,
    namespace: u32,
    dwords_2_3: [u32; 2],
    metadata: u64,
    address: u64,
    metadata_bytes: u32,
    data_bytes: u32,
    dwords_10_15: [u32; 6],
    timeout_ms: u32,
    result: u32,
}

impl Passthrough {
    /// Creates a command with an opcode, a namespace identifier, and the command dwords 10 to 15.
    pub(super) fn new(opcode: u8, namespace: u32, dwords_10_15: [u32; 6]) -> Self {
        Self { opcode, namespace, dwords_10_15, ..Self::default() }
    }

    pub(super) fn opcode(&self) -> u8 {
        self.opcode
    }
}

/// Discards a range of a block device; `range` is its offset and length, bytes.
pub(super) fn discard(device: &File, mut range: [u64; 2]) -> io::Result<()> {
    // SAFETY: the request reads two numbers of 64 bits from `range`, which lives during the call.
    let returned = unsafe { libc::ioctl(device.as_raw_fd(), BLKDISCARD as _, &raw mut range) };
    if returned == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Fills a range of a block device with zeros; `range` is its offset and length, bytes.
pub(super) fn zero(device: &File, mut range: [u64; 2]) -> io::Result<()> {
    // SAFETY: the request reads two numbers of 64 bits from `range`, which lives during the call.
    let returned = unsafe { libc::ioctl(device.as_raw_fd(), BLKZEROOUT as _, &raw mut range) };
    if returned == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Sends a command to a controller, and returns its status: 0, or the status field of the
/// completion without its phase bit. The lowest 8 bits are the status code, the next 3 bits the
/// status code type.
pub(super) fn pass(
    device: &File,
    is_admin: bool,
    mut command: Passthrough,
    data: &mut [u8],
) -> io::Result<u16> {
    command.address = if data.is_empty() { 0 } else { data.as_mut_ptr() as u64 };
    command.data_bytes = u32::try_from(data.len()).map_err(io::Error::other)?;
    let request = if is_admin { NVME_ADMIN } else { NVME_IO };
    // SAFETY: the command has the layout that the request requires, and it points to `data`. Both
    // live during the call, and the kernel writes no more than `data_bytes`.
    let returned = unsafe { libc::ioctl(device.as_raw_fd(), request as _, &raw mut command) };
    u16::try_from(returned).map_err(|_| io::Error::last_os_error())
}
