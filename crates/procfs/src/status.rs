//! Parser of `/proc/PID/status` (proc_pid_status(5)), which has one `Name: value` per line.

use crate::words::{decimal, hexadecimal};

/// Returns the value of the field `name`, such as `Mems_allowed_list`, without surrounding spaces;
/// `None` if `status` has no line with this field.
pub fn field<'a>(status: &'a [u8], name: &str) -> Option<&'a [u8]> {
    let value = |line: &'a [u8]| line.strip_prefix(name.as_bytes())?.strip_prefix(b":");
    status.split(|byte| *byte == b'\n').find_map(value).map(<[u8]>::trim_ascii)
}

/// Returns the size, in bytes, in the field `name`, such as `RssAnon: 12 kB`.
pub fn bytes(status: &[u8], name: &str) -> Option<u64> {
    decimal(field(status, name)?.strip_suffix(b"kB")?.trim_ascii())?.checked_mul(1024)
}

/// Returns the set of signals in the field `name`, such as `SigBlk: 0000000000000040`: bit `n - 1`
/// is set if signal `n` is in the set.
pub fn signals(status: &[u8], name: &str) -> Option<u64> {
    hexadecimal(field(status, name)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_found_by_their_whole_name() {
        let status = b"Name:\tcat\nSigBlk:\t0000000000000040\nVmHWM:\t    12 kB\n";
        assert_eq!(field(status, "Name"), Some(&b"cat"[..]));
        assert_eq!(signals(status, "SigBlk"), Some(1 << 6));
        assert_eq!(bytes(status, "VmHWM"), Some(12 << 10));
        assert_eq!((field(status, "Vm"), bytes(status, "Name")), (None, None));
    }
}
