//! Swap: finds a swap file in `/proc/swaps` (proc(5)), and switches a swap file on (swapon(2)).

#![expect(unsafe_code, reason = "no crate wraps the calls for swap")]

use std::{ffi::CStr, io};

/// Flags of swapon(2): `SWAP_FLAG_PREFER` of `linux/swap.h`, and the highest priority. The kernel
/// fills a swap file with this priority before it uses swap of a lower priority.
pub const HIGHEST_PRIORITY: libc::c_int = 0x8000 | 0x7fff;

/// True if `swaps`, the text of `/proc/swaps`, has a swap file with the name `file_name` in any
/// folder. Names with spaces are not found, because the kernel escapes spaces in paths (`\040`).
pub fn is_in_use(swaps: &str, file_name: &str) -> bool {
    let name = |line: &str| Some(line.split_whitespace().next()?.rsplit('/').next()? == file_name);
    swaps.lines().any(|line| name(line) == Some(true))
}

/// Switches on swapping to the file `path`, which mkswap(8) has prepared. `flags` are the flags of
/// swapon(2), such as [`HIGHEST_PRIORITY`]. Requires `CAP_SYS_ADMIN`.
///
/// # Errors
/// The errors of swapon(2).
pub fn swap_on(path: &CStr, flags: libc::c_int) -> io::Result<()> {
    // SAFETY: `path` ends with a zero byte, and the call touches no memory of this process.
    match unsafe { libc::swapon(path.as_ptr(), flags) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_in_use_by_its_whole_name() {
        let swaps =
            "Filename Type Size Used Priority\n/var/a\\040b/swap-71-0  file  65532  0  -2\n";
        assert!(is_in_use(swaps, "swap-71-0"));
        assert!(!is_in_use(swaps, "swap-7") && !is_in_use(swaps, "swap-71"));
    }

    #[test]
    fn swapon_of_a_file_that_is_no_swap_fails() {
        assert!(swap_on(c"/proc/self/stat", HIGHEST_PRIORITY).is_err());
    }
}
