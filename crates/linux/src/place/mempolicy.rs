//! Memory policies: on which nodes the kernel allocates new pages of a thread.
//!
//! Children inherit the policy, also through `exec`. The policy applies to pages at their first
//! touch; resident pages stay on their nodes.

use crate::{machine::id_list::IdList, syscall};
use std::{fmt, io};

/// `MPOL_WEIGHTED_INTERLEAVE` of `linux/mempolicy.h`, since 6.9.
const WEIGHTED_INTERLEAVE: libc::c_int = 6;

/// The mode flags in the result of `get_mempolicy`: `MPOL_MODE_FLAGS` of `linux/mempolicy.h`.
const MODE_FLAGS: libc::c_int = 7 << 13;

/// A memory policy for new pages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Policy {
    /// Allocates on the node of the allocating CPU if that node has free memory.
    Default,
    /// Allocates on these nodes only, the nearest first.
    Bind(IdList),
    /// Allocates on these nodes in turn, one page on each.
    Interleave(IdList),
    /// Allocates on these nodes in turn, as many pages on each as its weight.
    WeightedInterleave(IdList),
}

impl Policy {
    /// Sets the policy of the calling thread. Its children inherit the policy.
    ///
    /// # Errors
    /// `EINVAL` when the kernel does not know the policy or the process may use none of the nodes.
    pub fn set(&self) -> io::Result<()> {
        let (mode, mask) = self.mode();
        syscall::set_mempolicy(mode, &mask)
    }

    /// Sets the policy of the address range `memory`. The policy applies to pages that any thread
    /// touches for the first time after this call. `memory` has to be page-aligned.
    ///
    /// # Errors
    /// The errors of [`Policy::set`].
    pub fn set_for(&self, memory: &mut [u8]) -> io::Result<()> {
        let (mode, mask) = self.mode();
        syscall::mbind(memory, mode, &mask)
    }

    fn mode(&self) -> (libc::c_int, Vec<libc::c_ulong>) {
        let none = IdList::default();
        let (mode, nodes) = match self {
            Self::Default => (libc::MPOL_DEFAULT, &none),
            Self::Bind(nodes) => (libc::MPOL_BIND, nodes),
            Self::Interleave(nodes) => (libc::MPOL_INTERLEAVE, nodes),
            Self::WeightedInterleave(nodes) => (WEIGHTED_INTERLEAVE, nodes),
        };
        (mode, mask(nodes))
    }
}

/// Formats the policy as the kernel does in `/proc/PID/numa_maps`.
impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::Bind(nodes) => write!(f, "bind:{nodes}"),
            Self::Interleave(nodes) => write!(f, "interleave:{nodes}"),
            Self::WeightedInterleave(nodes) => write!(f, "weighted interleave:{nodes}"),
        }
    }
}

/// True when the calling thread has a policy other than the default. The policy is inherited: if
/// this process has not set one, the program that started it has.
///
/// # Errors
/// When the kernel lacks memory policies.
pub fn is_chosen() -> io::Result<bool> {
    Ok(syscall::get_mempolicy()? & !MODE_FLAGS != libc::MPOL_DEFAULT)
}

/// Returns the node of each page of this process at `addresses`; `None` if not resident.
///
/// # Errors
/// When the kernel lacks NUMA.
pub fn nodes_at(addresses: &[u64]) -> io::Result<Vec<Option<u32>>> {
    let mut status = vec![-1; addresses.len()];
    syscall::move_pages(0, addresses, None, &mut status)?;
    Ok(status.into_iter().map(|node| u32::try_from(node).ok()).collect())
}

/// Returns the node mask for a system call, in which bit `n` is set for each node `n` of `nodes`.
fn mask(nodes: &IdList) -> Vec<libc::c_ulong> {
    let bits = libc::c_ulong::BITS;
    let words = nodes.iter().map(|node| node / bits + 1).max().unwrap_or(0);
    let mut mask = vec![0; words as usize];
    for node in nodes.iter() {
        mask[(node / bits) as usize] |= 1 << (node % bits);
    }
    mask
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;

    #[test]
    fn a_mask_has_a_bit_for_each_node() {
        let list = |text: &str| IdList::of_kernel(text).unwrap();
        assert_eq!(mask(&list("")), [0; 0]);
        assert_eq!(mask(&list("0,2")), [5]);
        assert_eq!(mask(&list("1,64,129")), [2, 1, 2]);
    }

    #[test]
    fn a_thread_chooses_its_own_policy() {
        let node = [0].into_iter().collect();
        let inside = std::thread::spawn(move || {
            Policy::Interleave(node).set().unwrap();
            let chosen = is_chosen().unwrap();
            Policy::Default.set().unwrap();
            (chosen, is_chosen().unwrap())
        });
        assert_eq!(inside.join().unwrap(), (true, false));
        assert!(!is_chosen().unwrap(), "other threads keep theirs");
    }

    #[test]
    fn pages_are_found() {
        let page = vec![1_u8; 4 << 20];
        let at = page.as_ptr() as u64;
        let found = nodes_at(&[at, at + (1 << 20), 0]).unwrap();
        assert!(found[0].is_some() && found[1].is_some(), "{found:?}");
        assert_eq!(found[2], None);
    }

    #[test]
    fn a_node_that_is_not_there_is_refused() {
        let why = Policy::Bind([1000].into_iter().collect()).set().unwrap_err();
        assert_eq!(why.raw_os_error(), Some(libc::EINVAL));
    }
}
