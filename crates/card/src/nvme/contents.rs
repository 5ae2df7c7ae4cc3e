//! Defines the memories that a controller accesses: host memory, and the namespace's contents.

use std::collections::BTreeMap;

/// A failed access to the host's memory: the controller cannot reach all bytes of the access.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no memory of the host at {address:#x}")]
pub struct Outside {
    /// The first byte of the failed transfer.
    pub address: u64,
}

/// The memory of the host, by bus address.
pub trait HostMemory {
    /// Reads `data.len()` bytes from the address `address` on.
    ///
    /// # Errors
    /// If not all bytes are in memory that the device may read.
    fn read(&self, address: u64, data: &mut [u8]) -> Result<(), Outside>;

    /// Writes `data` from the address `address` on.
    ///
    /// # Errors
    /// If not all bytes are in memory that the device may write. Some bytes may have been written.
    fn write(&mut self, address: u64, data: &[u8]) -> Result<(), Outside>;
}

/// A failed access to the namespace's contents, for example an error of the file with the contents.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the contents cannot be accessed at byte {offset}")]
pub struct ContentsFault {
    /// The first byte of the failed access.
    pub offset: u64,
}

/// The bytes of the namespace. The controller stays within the capacity of its settings.
///
/// A write with `durable` set survives a power failure once the call returns. Any other write
/// survives once the next [`flush`](Contents::flush) returns.
pub trait Contents {
    /// Reads `data.len()` bytes from the byte `offset` on. Bytes that were never written, or that
    /// were deallocated, are zero.
    ///
    /// # Errors
    /// If the bytes cannot be read.
    fn read(&mut self, offset: u64, data: &mut [u8]) -> Result<(), ContentsFault>;

    /// Writes `data` from the byte `offset` on. The write survives a power failure once the call
    /// returns if `durable` is true, and once the next flush returns otherwise.
    ///
    /// # Errors
    /// If the bytes cannot be written.
    fn write(&mut self, offset: u64, data: &[u8], durable: bool) -> Result<(), ContentsFault>;

    /// Sets `bytes` bytes to zero, beginning with the byte `offset`; `durable` has the same meaning
    /// as in [`Self::write`].
    ///
    /// # Errors
    /// If the range cannot be written.
    fn zero(&mut self, offset: u64, bytes: u64, durable: bool) -> Result<(), ContentsFault>;

    /// Makes all earlier writes durable.
    ///
    /// # Errors
    /// If not all earlier writes are durable.
    fn flush(&mut self) -> Result<(), ContentsFault>;
}

/// Size of a page of [`MemoryContents`], bytes.
const PAGE: usize = 4096;

/// Contents in memory, page by page: pages without data take no space. No write waits for a flush,
/// so a flush does nothing.
#[derive(Clone, Debug, Default)]
pub struct MemoryContents {
    pages: BTreeMap<u64, Box<[u8; PAGE]>>,
}

impl MemoryContents {
    /// Splits the range of `bytes` bytes from `offset` on at page boundaries. A piece is a tuple of
    /// the index of the page, the offset within the page, and the start and the (excluded) end of
    /// the piece in the data.
    fn pieces(offset: u64, bytes: usize) -> impl Iterator<Item = (u64, usize, usize, usize)> {
        let mut done = 0;
        std::iter::from_fn(move || {
            let at = offset + done as u64;
            let within = (at % PAGE as u64) as usize;
            let length = (PAGE - within).min(bytes - done);
            let piece = (at / PAGE as u64, within, done, done + length);
            done += length;
            (length > 0).then_some(piece)
        })
    }
}

impl Contents for MemoryContents {
    fn read(&mut self, offset: u64, data: &mut [u8]) -> Result<(), ContentsFault> {
        for (page, within, from, to) in Self::pieces(offset, data.len()) {
            match self.pages.get(&page) {
                Some(page) => data[from..to].copy_from_slice(&page[within..within + to - from]),
                None => data[from..to].fill(0),
            }
        }
        Ok(())
    }

    fn write(&mut self, offset: u64, data: &[u8], _: bool) -> Result<(), ContentsFault> {
        for (page, within, from, to) in Self::pieces(offset, data.len()) {
            let page = self.pages.entry(page).or_insert_with(|| Box::new([0; PAGE]));
            page[within..within + to - from].copy_from_slice(&data[from..to]);
        }
        Ok(())
    }

    fn zero(&mut self, offset: u64, bytes: u64, _: bool) -> Result<(), ContentsFault> {
        let size = PAGE as u64;
        let end = offset + bytes;
        let (first, last) = (offset.div_ceil(size), end / size);
        if first >= last {
            return self.write(offset, &vec![0; bytes as usize], true);
        }
        let whole: Vec<u64> = self.pages.range(first..last).map(|(page, _)| *page).collect();
        for page in whole {
            self.pages.remove(&page);
        }
        self.write(offset, &vec![0; (first * size - offset) as usize], true)?;
        self.write(last * size, &vec![0; (end - last * size) as usize], true)
    }

    fn flush(&mut self) -> Result<(), ContentsFault> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_cross_pages() {
        let mut contents = MemoryContents::default();
        let data: Vec<u8> = (0..10_000).map(|at| (at % 251) as u8 + 1).collect();
        contents.write(1000, &data, true).unwrap();
        let mut read = vec![0; 12_000];
        contents.read(0, &mut read).unwrap();
        assert_eq!(read[1000..11_000], data[..]);
        assert!(read[..1000].iter().chain(&read[11_000..]).all(|byte| *byte == 0));
        contents.zero(2000, 7000, true).unwrap();
        contents.read(0, &mut read).unwrap();
        assert_eq!(read[1000..2000], data[..1000]);
        assert!(read[2000..9000].iter().all(|byte| *byte == 0));
        assert_eq!(read[9000..11_000], data[8000..]);
        contents.zero(9100, 10, true).unwrap();
        contents.read(0, &mut read).unwrap();
        assert_eq!((read[9099], read[9100], read[9110]), (data[8099], 0, data[8110]));
    }
}
