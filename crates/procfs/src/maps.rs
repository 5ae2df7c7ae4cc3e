//! `/proc/PID/maps` (proc_pid_maps(5)): the mappings of a process, in order of their addresses.
//!
//! ```text
//! 7f0000-7f8000 rw-p 00000000 00:00 0                  [heap]
//! addresses     |    offset   device inode             name
//!               read, write, execute, private or shared
//! ```

use crate::words::{decimal, hexadecimal, split_once, words};
use std::ops::Range;

/// A mapping: one line of `maps`. In `smaps`, the first line of each mapping has the same form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mapping<'a> {
    /// The address range; both ends are page-aligned.
    pub addresses: Range<u64>,
    /// The access rights `rwxp`: `-` stands for a missing right, and `s` in place of `p` for shared
    /// memory.
    pub rights: [u8; 4],
    /// The inode of the mapped file; 0 for anonymous memory.
    pub inode: u64,
    /// The path of the mapped file, or the kernel's name for the memory, such as `[heap]`; empty
    /// for memory without a name. A name with spaces is cut at its first space.
    pub name: &'a [u8],
}

impl<'a> Mapping<'a> {
    /// Parses a line of `maps`; `None` if the line is malformed.
    pub fn parse(line: &'a [u8]) -> Option<Self> {
        let mut words = words(line);
        let (start, end) = split_once(words.next()?, b'-')?;
        let rights = words.next()?.try_into().ok()?;
        // The offset and the device are skipped.
        let inode = decimal(words.nth(2)?)?;
        let name = words.next().unwrap_or_default();
        Some(Self { addresses: hexadecimal(start)?..hexadecimal(end)?, rights, inode, name })
    }

    /// The access rights as the bits `PROT_READ`, `PROT_WRITE` and `PROT_EXEC` of mmap(2).
    pub fn protection(&self) -> u32 {
        let [read, write, execute, _] = self.rights;
        u32::from(read == b'r') | u32::from(write == b'w') << 1 | u32::from(execute == b'x') << 2
    }

    /// True if the mapping is private: its pages are copied on write.
    pub fn is_private(&self) -> bool {
        self.rights[3] == b'p'
    }

    /// True if the mapping is private and its memory belongs neither to a file nor to the kernel
    /// (`[vdso]`, `[vvar]`, `[vsyscall]`). `[heap]`, `[stack]` and named anonymous memory are
    /// included.
    pub fn is_private_anonymous(&self) -> bool {
        self.is_private() && self.inode == 0 && !self.name.starts_with(b"[v")
    }

    /// True if the mapping is private anonymous memory, but neither the heap nor the stack of the
    /// first thread. Such memory comes from mmap(2) with `MAP_ANONYMOUS`, or is the zeroed data
    /// (bss) of the program.
    pub fn is_anonymous_mmap(&self) -> bool {
        let is_plain = self.name.is_empty() || self.name.starts_with(b"[anon");
        self.is_private() && self.inode == 0 && is_plain
    }
}

/// Returns the mappings in `maps`, the text of the file `maps`. Malformed lines are left out.
pub fn mappings(maps: &[u8]) -> impl Iterator<Item = Mapping<'_>> {
    maps.split(|byte| *byte == b'\n').filter_map(Mapping::parse)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAPS: &str = "\
555000-556000 r-xp 00000000 fd:00 123 /bin/a program
556000-557000 rw-p 00001000 fd:00 123 /bin/a program
600000-700000 rw-p 00000000 00:00 0 [heap]
700000-800000 rw-s 00000000 00:01 99 /memfd:shared (deleted)
7f0000-7f8000 rw-p 00000000 00:00 0 
7f8000-7f9000 r--p 00000000 00:00 0 [vvar]
nothing
800000-900000 ---p 00000000 00:00 0 [anon: name]
";

    #[test]
    fn lines_are_read() {
        let all: Vec<_> = mappings(MAPS.as_bytes()).collect();
        assert_eq!(all.len(), 7);
        assert_eq!(all[0].addresses, 0x55_5000..0x55_6000);
        assert_eq!((all[0].protection(), all[1].protection()), (5, 3));
        assert_eq!((all[0].inode, all[0].name), (123, &b"/bin/a"[..]));
        assert!(!all[3].is_private() && all[3].inode == 99);
        let starts = |is: fn(&Mapping<'_>) -> bool| {
            all.iter().filter(|it| is(it)).map(|it| it.addresses.start).collect::<Vec<_>>()
        };
        assert_eq!(starts(|it| it.is_private_anonymous()), [0x60_0000, 0x7f_0000, 0x80_0000]);
        assert_eq!(starts(|it| it.is_anonymous_mmap()), [0x7f_0000, 0x80_0000]);
    }
}
