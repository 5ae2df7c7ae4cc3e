//! In which pages memory is: what the kernel says of it, whatever was asked for.

use crate::room;
use interleaf_linux::root::{Root, RootError};

/// How much of the memory from `start` on is in huge pages, bytes: transparent ones, and those of
/// hugetlbfs. `None` where the kernel does not say.
///
/// # Errors
/// When the kernel's lists cannot be read.
pub fn huge_bytes(root: &Root, start: usize, bytes: usize) -> Result<Option<usize>, RootError> {
    if !root.has("/proc/self/smaps") {
        return Ok(None);
    }
    let range = start as u64..(start + bytes) as u64;
    room::huge_bytes(root, &range).map(|bytes| Some(bytes as usize))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;

    #[test]
    fn what_was_touched_small_is_not_huge() {
        use crate::region::{Pages, Region};
        use interleaf_linux::place::mempolicy::Policy;
        let region = Region::new(4 << 20, Pages::Small, &Policy::Default).unwrap();
        let root = Root::live();
        assert_eq!(huge_bytes(&root, region.start() as usize, region.bytes()).unwrap(), Some(0));
        let empty = tempfile::tempdir().unwrap();
        assert_eq!(huge_bytes(&Root::captured(empty.path()), 0, 4096).unwrap(), None);
    }
}
