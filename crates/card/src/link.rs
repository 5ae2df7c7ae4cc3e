//! Computes the times and the sizes of the packets of a PCI Express link (Base Specification 3.1).
//!
//! Each direction is a server that sends packets in order. A transaction layer packet (TLP) has
//! these bytes around its payload:
//!
//! | | |
//! | --- | --- |
//! | framing and sequence number | 4: the STP token; below 8 GT/s, STP (1), number (2), END (1) |
//! | header | 12 with an address of 32 bits and for completions, 16 with an address of 64 bits |
//! | LCRC | 4 |
//!
//! Data link layer packets (DLLPs: ACK, UpdateFC) have 8 bytes with their framing. A DLLP answers
//! packets of one direction, and takes time in the opposite direction.
//!
//! Example: 8 lanes at 8 GT/s with 128b/130b encoding carry 7.877 GB/s, less one SKP ordered set in
//! 371 blocks. A completion with 256 bytes of data has 276 bytes, so 92.8 % of its bytes are data.

use crate::card::LinkSpec;

/// Size of framing, sequence number and LCRC around a TLP, bytes.
const AROUND: u64 = 8;
/// Size of a DLLP (ACK or UpdateFC) with its framing, bytes.
const DLLP: u64 = 8;
/// Size of a read request with an address of 64 bits, bytes.
pub(crate) const READ_REQUEST: u64 = 16 + AROUND;
/// Size of a write request with an address of 64 bits, without its data, bytes.
pub(crate) const WRITE_REQUEST: u64 = 16 + AROUND;
/// Size of a completion without its data, bytes.
pub(crate) const COMPLETION: u64 = 12 + AROUND;
/// Size of the write of an MSI-X message, bytes. Its address has 32 bits.
pub(crate) const MESSAGE: u64 = 12 + AROUND + 4;
/// Size of the write of a doorbell, bytes. The address of the BAR has 64 bits.
pub(crate) const DOORBELL: u64 = WRITE_REQUEST + 4;
/// Size of the write of a completion queue entry, bytes.
pub(crate) const COMPLETION_ENTRY: u64 = WRITE_REQUEST + 16;
/// Size of a submission queue entry, bytes.
pub(crate) const SUBMISSION_ENTRY: u64 = 64;
/// Size of the payload that one flow control data credit covers, bytes.
pub(crate) const CREDIT_BYTES: u32 = 16;

/// Returns the time in which one direction of the link sends a byte over all its lanes, fs. The
/// time includes the encoding and the SKP ordered sets.
pub(crate) fn byte_fs(link: &LinkSpec) -> f64 {
    let (gigatransfers, encoding, skip) = match link.generation {
        // One SKP ordered set of 4 symbols after 1180 symbols (PCI Express 3.1, 4.2.7.3).
        1 => (2.5, 8.0 / 10.0, 1180.0 / 1184.0),
        2 => (5.0, 8.0 / 10.0, 1180.0 / 1184.0),
        // One SKP ordered set of one block after 370 blocks (PCI Express 3.1, 4.2.7.3).
        3 => (8.0, 128.0 / 130.0, 370.0 / 371.0),
        4 => (16.0, 128.0 / 130.0, 370.0 / 371.0),
        _ => (32.0, 128.0 / 130.0, 370.0 / 371.0),
    };
    let bytes_per_ns = gigatransfers * f64::from(link.lanes) / 8.0 * encoding * skip;
    1e6 / bytes_per_ns
}

/// Computes the packets of a transfer, and the bytes of the DLLPs that answer these packets.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Packets {
    max_payload: u32,
    boundary: u32,
    /// The mean number of bytes of DLLPs that answer one TLP, in units of 1/256 byte. The direction
    /// opposite to that of the TLP sends these DLLPs.
    answers: u64,
}

impl Packets {
    pub(crate) fn new(link: &LinkSpec) -> Self {
        let per_packet = link.acknowledgements + link.credit_updates;
        Self {
            max_payload: link.max_payload,
            boundary: link.read_completion_boundary,
            answers: (per_packet * DLLP as f64 * 256.0) as u64,
        }
    }

    /// Returns the number of write requests for `bytes` bytes from an address that is a multiple of
    /// the maximum payload.
    #[inline]
    pub(crate) fn writes(&self, bytes: u32) -> u32 {
        bytes.div_ceil(self.max_payload)
    }

    /// Returns the number of completions for a read of `bytes` bytes from `address`. If `address`
    /// is not at a read completion boundary, the first completion ends at the next boundary. Each
    /// other completion has the maximum payload, except that the last may be shorter.
    #[inline]
    pub(crate) fn completions(&self, address: u32, bytes: u32) -> u32 {
        let head = (self.boundary - address % self.boundary) % self.boundary;
        let head = head.min(bytes);
        u32::from(head > 0) + (bytes - head).div_ceil(self.max_payload)
    }
}

/// One direction of a link, idle from the time `free` (fs) on. A byte takes `byte_fs` fs. `busy` is
/// the time of all TLPs and DLLPs, fs; `bytes` and `packets` count TLPs only.
#[derive(Clone, Debug)]
pub(crate) struct Direction {
    free: u64,
    byte_fs: u64,
    pub(crate) busy: u64,
    pub(crate) bytes: u64,
    pub(crate) packets: u64,
}

impl Direction {
    /// Creates a direction that has sent nothing. If `ideal` is true, its packets take no time.
    pub(crate) fn new(link: &LinkSpec, ideal: bool) -> Self {
        let byte_fs = if ideal { 0 } else { byte_fs(link).round() as u64 };
        Self { free: 0, byte_fs, busy: 0, bytes: 0, packets: 0 }
    }

    /// Returns the first time at or after `at` at which a packet can start, fs.
    #[inline]
    pub(crate) fn starts(&self, at: u64) -> u64 {
        self.free.max(at)
    }

    /// Returns the time that `bytes` bytes take in this direction, fs.
    #[inline]
    pub(crate) fn time_of(&self, bytes: u64) -> u64 {
        bytes * self.byte_fs
    }

    /// Sends `packets` packets, which have `bytes` bytes together, from the time `at` (fs) on.
    /// Returns the time at which the last byte is sent, fs.
    #[inline]
    pub(crate) fn send(&mut self, at: u64, bytes: u64, packets: u32) -> u64 {
        let time = self.time_of(bytes);
        self.free = self.free.max(at) + time;
        self.busy += time;
        self.bytes += bytes;
        self.packets += u64::from(packets);
        self.free
    }

    /// Sends the DLLPs that answer `packets` packets of the opposite direction, from the time `at`
    /// (fs) on. `of` contains the number of bytes of these DLLPs for one packet.
    #[inline]
    pub(crate) fn answer(&mut self, at: u64, packets: u32, of: &Packets) {
        let time = u64::from(packets) * of.answers * self.byte_fs / 256;
        self.free = self.free.max(at) + time;
        self.busy += time;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::card::Card;

    #[test]
    fn bytes_take_the_time_of_generation_and_width() {
        let link = |generation, lanes| LinkSpec {
            generation,
            lanes,
            ..Card::by_name("flashtec-dram").unwrap().link
        };
        let gbps = |generation, lanes| 1e6 / byte_fs(&link(generation, lanes));
        assert!((gbps(1, 1) - 0.25 * 1180.0 / 1184.0).abs() < 1e-9);
        assert!((gbps(3, 8) - 7.8769 * 370.0 / 371.0).abs() < 1e-3);
        assert!((gbps(4, 8) - 2.0 * gbps(3, 8)).abs() < 1e-9);
    }

    #[test]
    fn reads_are_completed_in_packets_up_to_the_boundary() {
        let packets = Packets::new(&Card::by_name("flashtec-dram").unwrap().link);
        let table = [(0, 512, 2), (0, 64, 1), (64, 64, 1), (16, 64, 2), (16, 16, 1), (32, 560, 4)];
        for (address, bytes, expected) in table {
            assert_eq!(packets.completions(address, bytes), expected, "{address} {bytes}");
        }
        assert_eq!((packets.writes(4096), packets.writes(100)), (16, 1));
    }
}
