//! The number of CPUs and of runnable threads of the machine: `/proc/loadavg` (proc_loadavg(5)) and
//! lists such as `/sys/devices/system/cpu/online`.

use crate::words::{decimal, split_once, words};

/// Returns the number of runnable threads of the machine from `loadavg`, the text of
/// `/proc/loadavg`. It is the number before the slash in the fourth field. `None` if the text is
/// malformed.
pub fn runnable_threads(loadavg: &[u8]) -> Option<u64> {
    decimal(split_once(words(loadavg).nth(3)?, b'/')?.0)
}

/// Returns the number of CPUs in a list such as `0-3,8`; `None` if the list is malformed.
pub fn count(list: &[u8]) -> Option<u64> {
    let range = |part| {
        let (first, last) = split_once(part, b'-').unwrap_or((part, part));
        decimal(last)?.checked_sub(decimal(first)?)?.checked_add(1)
    };
    list.trim_ascii().split(|byte| *byte == b',').map(range).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_the_kernel_are_parsed() {
        assert_eq!(runnable_threads(b"0.00 1.15 2.20 3/95 15941\n"), Some(3));
        assert_eq!(runnable_threads(b"0.00 1.15"), None);
        assert_eq!(count(b"0-3,8\n"), Some(5));
        assert_eq!(count(b"3-0"), None);
        assert_eq!(count(b"\n"), None);
    }
}
