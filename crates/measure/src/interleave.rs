//! Places the pages of a buffer on several nodes in a ratio (weighted interleaving), and checks the
//! placement.
//!
//! Measurements in such buffers reproduce the tables and curves of publications on interleaving. A
//! table has a row for each mix and a column for each choice of weights. A curve shows the best
//! weights for each load. There are two methods of placing the pages:
//!
//! - the kernel's weighted interleaving (Linux 6.9 or later), as unmodified programs get it. The
//!   weights are settings of the whole machine: the caller sets the weights before the measurement,
//!   and restores the old weights afterwards.
//! - page by page at the first touch: a thread whose memory policy binds to a node touches the
//!   pages of this node. The nodes take turns in the same round robin as in the kernel. This method
//!   needs no root and works on any kernel.
//!
//! With both methods, the nodes of the pages are then read from the kernel:
//!
//! ```text
//! 3:1 of 51200 pages:   38400 on node 0, 12800 on node 1     -> off by 0
//! node 1 is full:       44000             7200               -> off by 0.11
//! ```

use crate::region::{Pages, Region, RegionError};
use interleaf_linux::{
    machine::id_list::IdList,
    place::{mempolicy::Policy, placement::Placement},
};
use std::{collections::BTreeMap, panic::resume_unwind, thread};

/// A method of placing pages according to weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// The kernel interleaves the pages: evenly if all weights are equal, otherwise by weighted
    /// interleaving. For weighted interleaving, the caller sets the kernel's weights before the
    /// call of [`region`], and restores the old weights after the measurement.
    Kernel,
    /// Page by page, at the first touch: a thread whose memory policy binds to a node touches the
    /// pages of this node.
    Pages,
}

/// Maps memory whose pages are placed as `placement` says.
///
/// # Errors
/// When the kernel has no pages of the requested size, or this process may not use a node.
pub fn region(
    bytes: usize,
    pages: Pages,
    placement: &Placement,
    method: Method,
) -> Result<Region, RegionError> {
    match (method, &placement.nodes[..]) {
        // One node needs no weights: the memory is bound to the node, so that no page is allocated
        // on another node.
        (_, [(node, _)]) => Region::new(bytes, pages, &Policy::Bind([*node].into_iter().collect())),
        (Method::Kernel, _) => Region::new(bytes, pages, &placement.policy()),
        (Method::Pages, nodes) => Region::in_rounds(bytes, pages, nodes),
    }
}

/// Maps `count` regions in parallel, one for each loading thread.
///
/// # Errors
///
/// Under the conditions of [`region`].
pub fn regions(
    count: usize,
    bytes: usize,
    pages: Pages,
    placement: &Placement,
    method: Method,
) -> Result<Vec<Region>, RegionError> {
    thread::scope(|scope| {
        let make = |_| scope.spawn(|| region(bytes, pages, placement, method));
        let threads: Vec<_> = (0..count).map(make).collect();
        let joined =
            threads.into_iter().map(|it| it.join().unwrap_or_else(|why| resume_unwind(why)));
        joined.collect()
    })
}

/// Returns the fraction of the pages that would have to move to match the weights. `pages` has the
/// number of pages on each node, `nodes` the weight of each node.
pub fn off_by(pages: &BTreeMap<u32, u64>, nodes: &[(u32, u32)]) -> f64 {
    let total: u64 = pages.values().sum();
    let weights: u32 = nodes.iter().map(|(_, count)| count).sum();
    if total == 0 || weights == 0 {
        return 0.0;
    }
    let wanted = |node: u32| {
        let of_node = nodes.iter().filter(|(id, _)| *id == node).map(|(_, count)| count);
        f64::from(of_node.sum::<u32>()) / f64::from(weights)
    };
    let share = |node: u32| pages.get(&node).copied().unwrap_or(0) as f64 / total as f64;
    let all: IdList = pages.keys().copied().chain(nodes.iter().map(|(node, _)| *node)).collect();
    all.iter().map(|node| (share(node) - wanted(node)).abs()).sum::<f64>() / 2.0
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;
    use interleaf_linux::place::placement::Means;

    #[test]
    fn misplaced_pages_are_counted_once() {
        let off = |pages: &[(u32, u64)], nodes| off_by(&pages.iter().copied().collect(), nodes);
        let near = |a: f64, b: f64| assert!((a - b).abs() < 1e-12, "{a} {b}");
        near(off(&[(0, 38400), (1, 12800)], &[(0, 3), (1, 1)]), 0.0);
        near(off(&[(0, 44000), (1, 7200)], &[(0, 3), (1, 1)]), 5600.0 / 51200.0);
        near(off(&[(0, 100)], &[(1, 1)]), 1.0);
        near(off(&[(0, 50), (2, 50)], &[(0, 1), (1, 1)]), 0.5);
        near(off(&[], &[(0, 1)]), 0.0);
    }

    #[test]
    fn memory_on_one_node_is_bound() {
        for method in [Method::Kernel, Method::Pages] {
            let placement = Placement { nodes: vec![(0, 1)], means: Means::Interleave };
            for region in regions(2, 1 << 20, Pages::Small, &placement, method).unwrap() {
                let pages = region.pages_by_node().unwrap();
                assert_eq!(off_by(&pages, &placement.nodes), 0.0, "{pages:?}");
            }
        }
    }
}
