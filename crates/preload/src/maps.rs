//! `/proc/self/maps`: the mappings of this process.

use std::{fs, ops::Range};

/// A mapping.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mapping {
    pub(crate) addresses: Range<usize>,
    /// `PROT_...`.
    pub(crate) protection: u32,
    /// Whether the mapping is private and of no file.
    pub(crate) is_anonymous: bool,
}

/// All mappings, in order.
pub(crate) fn all() -> Vec<Mapping> {
    let text = fs::read_to_string("/proc/self/maps").unwrap_or_default();
    text.lines().filter_map(mapping).collect()
}

/// Whether all mappings of these pages are readable.
pub(crate) fn is_readable(pages: &Range<usize>) -> bool {
    let over = |it: &Mapping| it.addresses.start < pages.end && pages.start < it.addresses.end;
    all().into_iter().filter(over).all(|it| it.protection & 1 != 0)
}

/// `START-END rwxp OFFSET DEVICE INODE [NAME]` (`proc_pid_maps(5)`).
fn mapping(line: &str) -> Option<Mapping> {
    let mut words = line.split_ascii_whitespace();
    let (start, end) = words.next()?.split_once('-')?;
    let number = |text: &str| usize::from_str_radix(text, 16).ok();
    let flags = words.next()?.as_bytes();
    let inode = words.nth(2)?;
    let name = words.next().unwrap_or("");
    let is = |at: usize, what: u8| flags.get(at) == Some(&what);
    Some(Mapping {
        addresses: number(start)?..number(end)?,
        protection: u32::from(is(0, b'r'))
            | u32::from(is(1, b'w')) << 1
            | u32::from(is(2, b'x')) << 2,
        is_anonymous: is(3, b'p') && inode == "0" && (name.is_empty() || name.starts_with("[anon")),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_what_is_mapped() {
        let of = |line| mapping(line).map(|it| (it.addresses, it.protection, it.is_anonymous));
        assert_eq!(of("1000-3000 rw-p 00000000 00:00 0 "), Some((0x1000..0x3000, 3, true)));
        assert_eq!(of("1000-2000 r-xp 00000000 fe:01 12 /bin/a"), Some((0x1000..0x2000, 5, false)));
        assert_eq!(of("1000-2000 ---s 00000000 00:01 0 [x]"), Some((0x1000..0x2000, 0, false)));
        assert_eq!(of("nothing"), None);
    }
}
