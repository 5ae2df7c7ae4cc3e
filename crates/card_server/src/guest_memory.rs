//! Accesses the guest's memory: ranges of bus addresses, each of which is a part of a memfd that
//! QEMU has sent.

use std::{fs::File, os::unix::fs::FileExt};

use interleaf_card::nvme::{HostMemory, Outside};

/// A range of bus addresses whose memory is a part of `file`, from the byte `offset` of the file
/// on.
#[derive(Debug)]
struct Mapping {
    address: u64,
    bytes: u64,
    file: File,
    offset: u64,
}

/// The memory that QEMU has mapped for the device.
#[derive(Debug, Default)]
pub struct GuestMemory {
    /// The mapped ranges, sorted by address, without overlaps.
    mappings: Vec<Mapping>,
}

impl GuestMemory {
    /// Adds the range of `bytes` bytes from the bus address `address` on, whose memory is the part
    /// of `file` from `offset` on. Removes older ranges that share a byte with the new range.
    /// Ignores a range that is empty, or whose end address or end offset does not fit in 64 bits.
    pub fn map(&mut self, address: u64, bytes: u64, file: File, offset: u64) {
        if bytes == 0 || address.checked_add(bytes).is_none() || offset.checked_add(bytes).is_none()
        {
            return;
        }
        self.unmap(address, bytes);
        let at = self.mappings.partition_point(|other| other.address < address);
        self.mappings.insert(at, Mapping { address, bytes, file, offset });
    }

    /// Removes all mapped ranges that share a byte with the `bytes` bytes from `address` on.
    pub fn unmap(&mut self, address: u64, bytes: u64) {
        let end = address.saturating_add(bytes);
        self.mappings
            .retain(|other| other.address >= end || other.address + other.bytes <= address);
    }

    /// Removes all mapped ranges.
    pub fn clear(&mut self) {
        self.mappings.clear();
    }

    /// Splits the range of `bytes` bytes from `address` on into parts that are each in one file.
    /// Calls `access` for each part with the file, the offset in the file, and the part's range in
    /// the data.
    fn for_each(
        &self,
        address: u64,
        bytes: usize,
        mut access: impl FnMut(&File, u64, std::ops::Range<usize>) -> std::io::Result<()>,
    ) -> Result<(), Outside> {
        let outside = Outside { address };
        let mut done = 0;
        while done < bytes {
            let at = address.checked_add(done as u64).ok_or(outside)?;
            let next = self.mappings.partition_point(|mapping| mapping.address <= at);
            let mapping = next.checked_sub(1).map(|last| &self.mappings[last]).ok_or(outside)?;
            let within = at - mapping.address;
            if within >= mapping.bytes {
                return Err(outside);
            }
            let left = usize::try_from(mapping.bytes - within).unwrap_or(usize::MAX);
            let end = bytes.min(done.saturating_add(left));
            access(&mapping.file, mapping.offset + within, done..end).map_err(|_| outside)?;
            done = end;
        }
        Ok(())
    }
}

impl HostMemory for GuestMemory {
    fn read(&self, address: u64, data: &mut [u8]) -> Result<(), Outside> {
        self.for_each(address, data.len(), |file, at, part| file.read_exact_at(&mut data[part], at))
    }

    fn write(&mut self, address: u64, data: &[u8]) -> Result<(), Outside> {
        self.for_each(address, data.len(), |file, at, part| file.write_all_at(&data[part], at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transfers_cross_mappings_and_stop_at_gaps() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(0x4000).unwrap();
        let mut memory = GuestMemory::default();
        memory.map(0x10_0000, 0x1000, file.try_clone().unwrap(), 0x2000);
        memory.map(0x10_1000, 0x1000, file.try_clone().unwrap(), 0);
        memory.write(0x10_0ffe, &[1, 2, 3, 4]).unwrap();
        let mut read = [0; 4];
        memory.read(0x10_0ffe, &mut read).unwrap();
        assert_eq!(read, [1, 2, 3, 4]);
        let mut stored = [0; 2];
        file.read_exact_at(&mut stored, 0x2ffe).unwrap();
        assert_eq!(stored, [1, 2]);
        for address in [0, 0xf_ffff, 0x10_1ffd, 0x10_2000, u64::MAX - 1] {
            assert_eq!(memory.read(address, &mut read), Err(Outside { address }));
            assert_eq!(memory.write(address, &read), Err(Outside { address }));
        }
    }

    #[test]
    fn a_mapping_ends_when_unmapped_replaced_or_truncated() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(0x2000).unwrap();
        let mut memory = GuestMemory::default();
        let mut map = |address, bytes| {
            memory.map(address, bytes, file.try_clone().unwrap(), 0);
            memory.mappings.len()
        };
        assert_eq!(map(0, 0x1000), 1);
        assert_eq!(map(0x1000, 0x1000), 2);
        assert_eq!(map(0x800, 0x1000), 1);
        assert_eq!((map(u64::MAX, 2), map(0x5000, 0)), (1, 1));
        file.set_len(0).unwrap();
        assert!(memory.read(0x800, &mut [0; 8]).is_err());
        memory.unmap(0x900, 1);
        assert!(memory.mappings.is_empty());
    }
}
