//! In which pages memory is: what the kernel says of a mapping, whatever was asked for.

use interleaf_linux::root::{Root, RootError};

/// The maps of this process, with sizes.
const MAPS: &str = "/proc/self/smaps";

/// How much of the memory from `start` on is in huge pages, bytes: transparent ones, and those of
/// hugetlbfs. `None` where the kernel does not say.
///
/// # Errors
/// When the kernel's list cannot be read.
pub fn huge_bytes(root: &Root, start: usize, bytes: usize) -> Result<Option<usize>, RootError> {
    let Some(text) = root.peek(MAPS)? else { return Ok(None) };
    Ok(Some(of_maps(&text, start, bytes)))
}

/// The same of a text. A mapping may reach farther than the memory in question: what is huge of it
/// is counted as far as it can lie within.
fn of_maps(text: &str, start: usize, bytes: usize) -> usize {
    let (mut within, mut total) = (0, 0);
    let mut page_kib = 0;
    for line in text.lines() {
        let Some((name, rest)) = line.split_once(char::is_whitespace) else { continue };
        let kib = || rest.trim().strip_suffix("kB").and_then(|it| it.trim().parse::<usize>().ok());
        if let Some(span) = span(name) {
            let overlap = span.1.min(start + bytes).saturating_sub(span.0.max(start));
            (within, page_kib) = (overlap, 0);
        } else if name == "KernelPageSize:" {
            page_kib = kib().unwrap_or(0);
        } else if name == "AnonHugePages:" || name.ends_with("_Hugetlb:") && page_kib > 4 {
            total += within.min(kib().unwrap_or(0) << 10);
        }
    }
    total
}

/// The addresses of the first word of a mapping's first line, `7f00-7f80`.
fn span(word: &str) -> Option<(usize, usize)> {
    let (from, to) = word.split_once('-')?;
    let number = |text| usize::from_str_radix(text, 16).ok();
    Some((number(from)?, number(to)?))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;

    const TEXT: &str = "\
1000000-1800000 rw-p 00000000 00:00 0 
Size:               8192 kB
KernelPageSize:        4 kB
AnonHugePages:      4096 kB
Private_Hugetlb:       0 kB
VmFlags: rd wr mr mw me ac sd hg 
2000000-2400000 rw-p 00000000 00:0f 1 /anon_hugepage (deleted)
Size:               4096 kB
KernelPageSize:     2048 kB
AnonHugePages:         0 kB
Shared_Hugetlb:        0 kB
Private_Hugetlb:    4096 kB
";

    #[test]
    fn both_kinds_are_counted_where_they_are() {
        assert_eq!(of_maps(TEXT, 0x0100_0000, 8 << 20), 4 << 20);
        assert_eq!(of_maps(TEXT, 0x0170_0000, 1 << 20), 1 << 20, "no more than there is");
        assert_eq!(of_maps(TEXT, 0x0200_0000, 4 << 20), 4 << 20);
        assert_eq!(of_maps(TEXT, 0x0300_0000, 4 << 20), 0);
        assert_eq!(of_maps("nonsense", 0, 1), 0);
    }

    #[test]
    fn what_was_touched_small_is_not_huge() {
        use crate::region::{Pages, Region};
        use interleaf_linux::mempolicy::Policy;
        let region = Region::new(4 << 20, Pages::Small, &Policy::Default).unwrap();
        let root = Root::live();
        assert_eq!(huge_bytes(&root, region.start() as usize, region.bytes()).unwrap(), Some(0));
    }
}
