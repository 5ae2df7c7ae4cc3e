//! The memory that a pattern can run on.

/// The memory of arrays for which DRAM is too small.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// In DRAM all the same: what the others are held against.
    Dram,
    /// With the pager of `interleaf extend`.
    Pager,
    /// In a swap file, with the settings of this machine.
    Swap,
    /// The same, with larger pieces read ahead, wherever they are in the file.
    SwapTuned,
    /// In a mapped file.
    Mmap,
}

/// All there are, by name.
pub(crate) const WAYS: [(&str, Way); 5] = [
    ("dram", Way::Dram),
    ("pager", Way::Pager),
    ("swap", Way::Swap),
    ("swap-tuned", Way::SwapTuned),
    ("mmap", Way::Mmap),
];

impl Way {
    /// The memory of this name.
    pub(crate) fn from_name(name: &str) -> Option<Self> {
        WAYS.iter().find(|(known, _)| *known == name).map(|(_, way)| *way)
    }

    /// Its name.
    pub(crate) fn name(self) -> &'static str {
        WAYS.iter().find(|(_, way)| *way == self).map_or("", |(name, _)| name)
    }

    /// Whether a control group holds it to the budget.
    pub(crate) fn is_bounded(self) -> bool {
        matches!(self, Self::Swap | Self::SwapTuned | Self::Mmap)
    }

    /// Whether it swaps.
    pub(crate) fn is_swapping(self) -> bool {
        matches!(self, Self::Swap | Self::SwapTuned)
    }

    /// The settings of the kernel while it runs. With 2^6 pages at a time, and pages that are
    /// adjacent in the file and not in memory, swap reads ahead as much as it can.
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
