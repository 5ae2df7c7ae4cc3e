//! Maps the memory that is measured: on the requested nodes, and with the requested page size if
//! the kernel has pages of this size.

#![expect(unsafe_code, reason = "memory is mapped, and kernels take its address")]

use crate::availability::{self, AvailabilityError};
pub use crate::pages::{HUGE_BYTES, Pages};
use interleaf_linux::{
    place::mempolicy::{Policy, nodes_at},
    root::Root,
};
use rustix::{
    io::Errno,
    mm::{self, Advice, MapFlags, ProtFlags},
};
use std::{
    collections::BTreeMap,
    hint::black_box,
    io::{self, ErrorKind},
    ops::Range,
    panic::resume_unwind,
    ptr, slice, thread,
};

#[derive(Debug, thiserror::Error)]
pub enum RegionError {
    #[error(transparent)]
    Unavailable(#[from] AvailabilityError),
    /// The kernel cannot map the memory.
    #[error("{bytes} bytes in {pages:?} pages: {why}")]
    Map {
        /// The memory that was requested, bytes.
        bytes: usize,
        /// Requested page size.
        pages: Pages,
        /// The error of Linux.
        why: io::Error,
    },
    /// The nodes do not exist, or this process may not use them.
    #[error("memory by {policy}: {why}")]
    Place {
        /// The requested memory policy.
        policy: Policy,
        /// The error of Linux.
        why: io::Error,
    },
}

impl RegionError {
    pub fn hint(&self) -> String {
        match self {
            Self::Unavailable(why) => why.hint(),
            Self::Map { pages: Pages::Reserved, .. } => {
                "reserve huge pages as root (sysctl vm.nr_hugepages), or take others".into()
            }
            Self::Map { .. } => "use less memory, or raise ulimit -v".into(),
            Self::Place { .. } => {
                "choose nodes that have memory and that this process may use (numactl --show)"
                    .into()
            }
        }
    }
}

/// Mapped memory whose pages have all been touched, so that they are resident. The memory is
/// unmapped on drop.
#[derive(Debug)]
pub struct Region {
    address: *mut u8,
    mapped: usize,
    bytes: usize,
}

// SAFETY: the mapping belongs to this `Region` alone, and has no tie to the thread that made it.
unsafe impl Send for Region {}
// SAFETY: a shared reference gives access to the bytes only through `words`, which returns a shared
// slice.
unsafe impl Sync for Region {}

impl Region {
    /// Maps `bytes`, rounded up to whole huge pages and aligned to a huge page. Places the memory
    /// by `policy`, and touches every page from the calling thread. All words are set to 1, because
    /// some processors do not write zero lines to memory.
    ///
    /// # Errors
    /// When the memory is not available, the kernel has no pages of the requested size, or this
    /// process may not use the policy.
    pub fn new(bytes: usize, pages: Pages, policy: &Policy) -> Result<Self, RegionError> {
        availability::check(&Root::live(), bytes.max(1) as u64, pages, policy)?;
        let mut region = Self::mapped(bytes, pages)?;
        region.set_policy(policy)?;
        region.words_mut().fill(1);
        Ok(region)
    }

    /// Sets the memory policy of the mapping, which applies to pages that are not yet resident.
    fn set_policy(&mut self, policy: &Policy) -> Result<(), RegionError> {
        match policy.set_for(self.whole()) {
            // A kernel without NUMA has no memory policies. All its memory is on node 0, so a
            // policy that allows node 0 needs no call.
            Err(why) if is_all(policy) && why.kind() == ErrorKind::Unsupported => Ok(()),
            Err(why) => Err(RegionError::Place { policy: policy.clone(), why }),
            Ok(()) => Ok(()),
        }
    }

    /// Maps memory with its pages interleaved on nodes. `nodes` has pairs of a node and the number
    /// of pages that the node gets in one round of interleaving. A thread whose memory policy binds
    /// to a node touches the pages of this node. This method does not change the kernel's weights,
    /// and needs only one mapping.
    ///
    /// # Errors
    ///
    /// When the memory is not available, the kernel has no pages of the requested size, or this
    /// process may not use a node.
    pub fn in_rounds(
        bytes: usize,
        pages: Pages,
        nodes: &[(u32, u32)],
    ) -> Result<Self, RegionError> {
        let sum: u64 = nodes.iter().map(|(_, count)| u64::from(*count)).sum();
        // The check of the memory of all nodes together is necessary beside the checks of each
        // node: each node may have enough free memory although a control group does not allow the
        // sum.
        let all = Policy::Interleave(nodes.iter().map(|(node, _)| *node).collect());
        availability::check(&Root::live(), bytes.max(1) as u64, pages, &all)?;
        for (node, count) in nodes {
            let part = bytes.max(1) as u64 * u64::from(*count) / sum.max(1);
            let policy = Policy::Bind([*node].into_iter().collect());
            availability::check(&Root::live(), part, pages, &policy)?;
        }
        let mut region = Self::mapped(bytes, pages)?;
        let page_bytes = match pages {
            Pages::Small => rustix::param::page_size(),
            Pages::Huge | Pages::Reserved => HUGE_BYTES,
        };
        let round: Vec<u32> =
            nodes.iter().flat_map(|(node, count)| vec![*node; *count as usize]).collect();
        for (node, _) in nodes {
            let policy = Policy::Bind([*node].into_iter().collect());
            let all = region.words_mut().chunks_mut(page_bytes / size_of::<u64>());
            let own = all.zip(round.iter().cycle()).filter(|(_, on)| *on == node);
            let touch = || {
                policy.set()?;
                own.for_each(|(page, _)| page.fill(1));
                io::Result::Ok(())
            };
            // A memory policy belongs to a thread. A new thread touches the pages, so that the
            // policy of the calling thread does not change.
            let touched = thread::scope(|scope| scope.spawn(touch).join());
            let touched = touched.unwrap_or_else(|panic| resume_unwind(panic));
            touched.map_err(|why| RegionError::Place { policy, why })?;
        }
        // Resident pages stay on their nodes. The policy that is set now only stops NUMA balancing,
        // which would move pages of memory without a policy to the node whose CPUs access them.
        region.set_policy(&Policy::Bind(nodes.iter().map(|(node, _)| *node).collect()))?;
        Ok(region)
    }

    /// Maps `bytes`, rounded up to whole huge pages and aligned to a huge page. No page is resident
    /// yet.
    fn mapped(bytes: usize, pages: Pages) -> Result<Self, RegionError> {
        let bytes = bytes.max(1).next_multiple_of(HUGE_BYTES);
        let failed = |why: Errno| RegionError::Map { bytes, pages, why: why.into() };
        let mut flags = MapFlags::PRIVATE;
        // hugetlbfs pages are reserved by mmap(2), without NORESERVE. Without a reservation, the
        // process would be killed if it touches a page when no huge page is free.
        flags |= match pages {
            Pages::Reserved => MapFlags::HUGETLB | MapFlags::HUGE_2MB,
            Pages::Small | Pages::Huge => MapFlags::NORESERVE,
        };
        // The kernel aligns hugetlbfs mappings. Other mappings get one more huge page, so that an
        // aligned range of `bytes` bytes fits into them.
        let mapped = if pages == Pages::Reserved { bytes } else { bytes + HUGE_BYTES };
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: the kernel chooses the address of the new anonymous mapping, so it overlaps no
        // other mapping.
        let start = unsafe { mm::mmap_anonymous(ptr::null_mut(), mapped, protection, flags) };
        let start = start.map_err(failed)?;
        let region = Self { address: start.cast(), mapped, bytes };
        let advice = match pages {
            Pages::Small => Some(Advice::LinuxNoHugepage),
            Pages::Huge => Some(Advice::LinuxHugepage),
            Pages::Reserved => None,
        };
        if let Some(advice) = advice {
            // SAFETY: the advice is for the mapping that was just made, and does not change its
            // content. A kernel without transparent huge pages returns an error, which is ignored:
            // the caller reads the page sizes from `smaps`.
            let _ = unsafe { mm::madvise(start, mapped, advice) };
        }
        Ok(region)
    }

    /// Returns the number of base pages on each node.
    ///
    /// # Errors
    ///
    /// When the kernel has no NUMA.
    pub fn pages_by_node(&self) -> io::Result<BTreeMap<u32, u64>> {
        let (start, step) = (self.start() as u64, rustix::param::page_size());
        let addresses: Vec<u64> =
            (0..self.bytes).step_by(step).map(|offset| start + offset as u64).collect();
        let mut nodes = nodes_at(&addresses)?;
        if nodes.contains(&None) {
            // Kernels before 6.6 do not report the node of a page while a NUMA hinting fault is
            // pending. A touch of each page ends the hinting fault.
            for word in self.words().iter().step_by(step / 8) {
                black_box(*word);
            }
            nodes = nodes_at(&addresses)?;
        }
        let mut found = BTreeMap::new();
        for node in nodes.into_iter().flatten() {
            *found.entry(node).or_default() += 1;
        }
        Ok(found)
    }

    pub const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns the first address of the region's bytes, which is aligned to a huge page.
    pub fn start(&self) -> *mut u8 {
        let offset = self.address.align_offset(HUGE_BYTES);
        if self.mapped == self.bytes { self.address } else { self.address.wrapping_add(offset) }
    }

    /// Returns the addresses of the region's bytes.
    pub fn addresses(&self) -> Range<u64> {
        let start = self.start() as u64;
        start..start + self.bytes as u64
    }

    pub fn words(&self) -> &[u64] {
        // SAFETY: `bytes` from `start` on are mapped and initialised for as long as the `Region`
        // lives, and are aligned for any word; writing needs a unique reference.
        unsafe { slice::from_raw_parts(self.start().cast(), self.bytes / 8) }
    }

    pub fn words_mut(&mut self) -> &mut [u64] {
        // SAFETY: `bytes` from `start` on are mapped, initialised and aligned for words for as long
        // as the `Region` lives; `&mut self` is the only reference to them.
        unsafe { slice::from_raw_parts_mut(self.start().cast(), self.bytes / 8) }
    }

    /// Returns the whole mapping, including the bytes before and after the aligned bytes of the
    /// region. The memory policy is set for the whole mapping.
    fn whole(&mut self) -> &mut [u8] {
        // SAFETY: the slice is the whole mapping, and anonymous memory is initialised.
        unsafe { slice::from_raw_parts_mut(self.address, self.mapped) }
    }
}

/// True for the default policy and for a binding to node 0 alone. On a machine with one node, both
/// policies allow all memory, so a kernel without NUMA needs no call for these two policies.
fn is_all(policy: &Policy) -> bool {
    match policy {
        Policy::Bind(nodes) => nodes.iter().eq([0]),
        policy => *policy == Policy::Default,
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: the mapping belongs to this `Region` alone, and nothing refers to it any more.
        // `munmap` fails only for arguments that `mmap` did not return.
        let _ = unsafe { mm::munmap(self.address.cast(), self.mapped) };
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;

    #[test]
    fn memory_is_aligned_and_completely_present() {
        for pages in [Pages::Small, Pages::Huge] {
            let mut region = Region::new(3 << 20, pages, &Policy::Default).unwrap();
            assert_eq!(region.bytes(), 4 << 20);
            assert_eq!(region.start() as usize % HUGE_BYTES, 0);
            assert!(region.words().iter().all(|word| *word == 1));
            *region.words_mut().last_mut().unwrap() = 7;
            assert_eq!(region.words()[region.bytes() / 8 - 1], 7);
        }
    }

    #[test]
    fn rounds_touch_every_page() {
        for pages in [Pages::Small, Pages::Huge] {
            let region = Region::in_rounds(5 << 20, pages, &[(0, 3)]).unwrap();
            assert!(region.words().iter().all(|word| *word == 1));
            let count = region.bytes() / rustix::param::page_size();
            assert_eq!(region.pages_by_node().unwrap(), [(0, count as u64)].into());
            let why = Region::in_rounds(1, pages, &[(0, 1), (1000, 1)]).unwrap_err();
            assert!(why.to_string().contains("bind:1000"), "{why}");
        }
    }

    #[test]
    fn more_memory_than_available_is_refused_before_it_is_touched() {
        let why = Region::new(1 << 50, Pages::Huge, &Policy::Default).unwrap_err();
        assert!(matches!(why, RegionError::Unavailable(AvailabilityError::Memory { .. })), "{why}");
        let why = Region::new(1 << 50, Pages::Reserved, &Policy::Default).unwrap_err();
        assert!(
            matches!(why, RegionError::Unavailable(AvailabilityError::Reserved { .. })),
            "{why}"
        );
        assert!(why.hint().contains("sysctl"), "{}", why.hint());
    }

    #[test]
    fn a_missing_node_is_refused() {
        let policy = Policy::Bind([1000].into_iter().collect());
        let why = Region::new(1, Pages::Small, &policy).unwrap_err();
        assert!(why.to_string().contains("bind:1000"), "{why}");
    }
}
