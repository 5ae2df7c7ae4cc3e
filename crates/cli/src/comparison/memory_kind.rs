//! The kinds of memory on which `interleaf bench compare` runs a pattern.

/// The kind of memory that holds the arrays of a pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MemoryKind {
    /// DRAM for the whole footprint, with which the other kinds are compared.
    Dram,
    /// Extended memory, with the pager of `interleaf extend`.
    Pager,
    /// Swap to a file, with the settings of this machine.
    Swap,
    /// Swap to a file, with a larger read-ahead of pages that are adjacent in the swap file.
    SwapTuned,
    /// A mapped file.
    Mmap,
}

/// Pairs of (name on the command line, kind of memory), one for each kind.
pub(crate) const MEMORY_KINDS: [(&str, MemoryKind); 5] = [
    ("dram", MemoryKind::Dram),
    ("pager", MemoryKind::Pager),
    ("swap", MemoryKind::Swap),
    ("swap-tuned", MemoryKind::SwapTuned),
    ("mmap", MemoryKind::Mmap),
];

impl MemoryKind {
    /// Returns the kind of memory that has `name` on the command line.
    pub(crate) fn from_name(name: &str) -> Option<Self> {
        MEMORY_KINDS.iter().find(|(known, _)| *known == name).map(|(_, way)| *way)
    }

    pub(crate) fn name(self) -> &'static str {
        MEMORY_KINDS.iter().find(|(_, way)| *way == self).map_or("", |(name, _)| name)
    }

    /// True if a control group limits the memory of a run on this kind.
    pub(crate) fn is_bounded(self) -> bool {
        matches!(self, Self::Swap | Self::SwapTuned | Self::Mmap)
    }

    /// True if a run on this kind needs a swap file.
    pub(crate) fn is_swapping(self) -> bool {
        matches!(self, Self::Swap | Self::SwapTuned)
    }

    /// The kernel settings during a run, as pairs of (file, value). For `swap-tuned`, the kernel
    /// reads clusters of 2^6 pages instead of its default of 2^3. The pages of a cluster are
    /// adjacent in the swap file, not in virtual memory.
    pub(crate) fn settings(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Self::SwapTuned => &[
                ("/proc/sys/vm/page-cluster", "6"),
                ("/sys/kernel/mm/swap/vma_ra_enabled", "false"),
            ],
            _ => &[],
        }
    }
}
