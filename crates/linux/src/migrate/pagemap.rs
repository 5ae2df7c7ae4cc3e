//! Which pages are there: `/proc/PID/pagemap`, 8 bytes a page
//! (Documentation/admin-guide/mm/pagemap.rst of the kernel).
//!
//! A mapping can be terabytes of addresses of which little was ever touched. Asking `move_pages`
//! about an address takes 150 to 200 ns, also where there is no page (Linux 6.18 in a virtual
//! machine); an entry here takes 3 ns where there is none and 40 ns where there is one, and tells
//! of pages that are shared before they are tried.

/// The page is in memory.
const PRESENT: u64 = 1 << 63;

/// It is of a file or shared memory.
const FILE: u64 = 1 << 61;

/// This process alone maps it.
const EXCLUSIVE: u64 = 1 << 56;

/// Bytes of an entry.
pub(super) const ENTRY_BYTES: u64 = 8;

/// A page that is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Resident {
    /// Its address.
    pub(super) address: u64,
    /// Whether other processes map it too: then the kernel does not move it.
    pub(super) is_shared: bool,
}

/// The pages of `entries`, an entry each `step` bytes from `start` on, that are there; those of
/// files only when `with_files`.
pub(super) fn resident(
    entries: &[u8],
    start: u64,
    step: u64,
    with_files: bool,
) -> impl Iterator<Item = Resident> {
    let entries = entries.chunks_exact(ENTRY_BYTES as usize).zip(0_u64..);
    entries.filter_map(move |(bytes, at)| {
        let entry = u64::from_ne_bytes(bytes.try_into().ok()?);
        let wanted = entry & PRESENT != 0 && (with_files || entry & FILE == 0);
        let is_shared = entry & EXCLUSIVE == 0;
        wanted.then(|| Resident { address: start + at * step, is_shared })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_read() {
        let entries = [0, PRESENT | EXCLUSIVE, PRESENT, 1 << 62, PRESENT | FILE | EXCLUSIVE];
        let bytes: Vec<u8> = entries.into_iter().flat_map(u64::to_ne_bytes).collect();
        let found = |with_files| {
            let all = resident(&bytes, 0x1000, 0x1000, with_files);
            all.map(|page| (page.address, page.is_shared)).collect::<Vec<_>>()
        };
        assert_eq!(found(false), [(0x2000, false), (0x3000, true)]);
        assert_eq!(found(true), [(0x2000, false), (0x3000, true), (0x5000, false)]);
        assert_eq!(resident(&bytes[..7], 0, 1, true).count(), 0, "half an entry is none");
    }
}
