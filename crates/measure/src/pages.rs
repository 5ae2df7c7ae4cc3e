//! Names the page sizes that a mapping may request.

/// Bytes of a huge page of x86-64, and of AArch64 with base pages of 4 KiB.
pub const HUGE_BYTES: usize = 2 << 20;

/// The pages that a mapping requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pages {
    /// Base pages (`MADV_NOHUGEPAGE`).
    Small,
    /// Transparent huge pages (`MADV_HUGEPAGE`); base pages if the kernel has no free huge pages.
    Huge,
    /// Huge pages that the administrator reserved (`hugetlbfs`); if none are free, the mapping
    /// fails.
    Reserved,
}
