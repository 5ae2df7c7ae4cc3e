//! Reads physical region pages (PRP): the host memory of a transfer (NVMe 1.4, section 4.3).
//!
//! The first PRP entry may have an offset within its page. The second entry is the address of a
//! page or, if the transfer needs more than two pages, of a list of page addresses. If the
//! addresses do not fit between the start of a list and the end of its page, the last slot of the
//! page points to the next list.

use super::{contents::HostMemory, status::NvmeStatus};

/// Size of a memory page of the host, bytes: the value 0 of CC.MPS.
pub(super) const PAGE: u64 = 4096;

/// A contiguous part of the host memory that a transfer reads or writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Segment {
    pub(super) address: u64,
    pub(super) bytes: usize,
}

/// Clears `segments`, and lists the host memory of a transfer of `bytes` bytes there.
///
/// Returns [`NvmeStatus::InvalidPrpOffset`] if an address has an offset that is not allowed, or if
/// the chain of lists is longer than the transfer can need. Returns
/// [`NvmeStatus::DataTransferError`] if a list is outside the memory.
pub(super) fn segments(
    prp1: u64,
    prp2: u64,
    bytes: usize,
    memory: &dyn HostMemory,
    segments: &mut Vec<Segment>,
) -> Result<(), NvmeStatus> {
    segments.clear();
    if prp1 & 3 != 0 {
        return Err(NvmeStatus::InvalidPrpOffset);
    }
    let first = ((PAGE - prp1 % PAGE) as usize).min(bytes);
    segments.push(Segment { address: prp1, bytes: first });
    let mut left = bytes - first;
    if left == 0 {
        return Ok(());
    }
    if left <= PAGE as usize {
        return page(prp2, &mut left, segments);
    }
    let mut list = prp2;
    // In a valid chain, each list but the first has the address of at least one page of the
    // transfer; the first may have only the pointer to the next list. So a chain is refused if it
    // has more lists than the transfer has pages, plus one.
    let mut lists = left.div_ceil(PAGE as usize) + 1;
    while left > 0 {
        if list & 7 != 0 || lists == 0 {
            return Err(NvmeStatus::InvalidPrpOffset);
        }
        lists -= 1;
        let slots = ((PAGE - list % PAGE) / 8) as usize;
        let pages = left.div_ceil(PAGE as usize);
        let read = pages.min(slots);
        let mut entries = [0; PAGE as usize];
        let entries = &mut entries[..read * 8];
        memory.read(list, entries).map_err(|_| NvmeStatus::DataTransferError)?;
        let entry = |at: usize| {
            let mut bytes = [0; 8];
            bytes.copy_from_slice(&entries[at * 8..at * 8 + 8]);
            u64::from_le_bytes(bytes)
        };
        let here = if pages > slots { slots - 1 } else { read };
        for at in 0..here {
            page(entry(at), &mut left, segments)?;
        }
        if left > 0 {
            list = entry(slots - 1);
        }
    }
    Ok(())
}

/// Adds the page at `address` to `segments`, cut to the `left` bytes of the transfer that have no
/// segment yet, and reduces `left`.
fn page(address: u64, left: &mut usize, segments: &mut Vec<Segment>) -> Result<(), NvmeStatus> {
    if !address.is_multiple_of(PAGE) {
        return Err(NvmeStatus::InvalidPrpOffset);
    }
    let bytes = (*left).min(PAGE as usize);
    *left -= bytes;
    segments.push(Segment { address, bytes });
    Ok(())
}
