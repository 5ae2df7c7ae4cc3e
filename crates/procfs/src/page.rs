//! The sizes of base pages and of transparent huge pages.
//!
//! Extended memory has pages of 4 KiB on every supported kernel. Code that supports other page
//! sizes reads the size from the kernel (`sysconf(_SC_PAGESIZE)`).

/// Bytes of a base page.
pub const PAGE_BYTES: usize = 4096;

/// Bytes of a transparent huge page on x86-64, and on AArch64 with pages of 4 KiB.
pub const HUGE_BYTES: usize = 2 << 20;
