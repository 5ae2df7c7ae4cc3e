//! The kinds of memory on which `interleaf bench compare` runs a pattern.

/// The kind of memory that holds a pattern's arrays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MemoryKind {
    /// DRAM for the whole footprint. It is the reference for the other kinds.
    Dram,
    /// Extended memory: the pager of `interleaf extend` moves pages between DRAM and the store.
    Pager,
    /// Swap to a file, with the current swap settings of this machine.
    Swap,
    /// Swap to a file, with a larger read-ahead of the pages that are neighbours in the swap file.
    SwapTuned,
    /// A file that is mapped into the process (`mmap`).
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

    /// True if a control group limits the DRAM of a run on this kind of memory.
    pub(crate) fn is_bounded(self) -> bool {
        matches!(self, Self::Swap | Self::SwapTuned | Self::Mmap)
    }

    /// True if a run on this kind needs a swap file.
    pub(crate) fn is_swapping(self) -> bool {
        matches!(self, Self::Swap | Self::SwapTuned)
    }

    /// Returns the kernel settings for a run, as pairs of (file, value). With `swap-tuned`, the
    /// kernel reads clusters of 2^6 pages instead of its default of 2^3. The pages of a cluster are
    /// neighbours in the swap file, not in virtual memory.
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
