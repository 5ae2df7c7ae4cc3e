//! The sizes of base pages and of transparent huge pages.
//!
//! Extended memory supports only kernels whose base pages have 4 KiB. Code that supports other page
//! sizes reads the size from the kernel (`sysconf(_SC_PAGESIZE)`).

/// Size of a base page, bytes.
pub const PAGE_BYTES: usize = 4096;

/// Size of a transparent huge page, bytes, on x86-64, and on AArch64 with base pages of 4 KiB.
pub const HUGE_BYTES: usize = 2 << 20;
