//! Estimates the placement of a large process's anonymous memory from a stratified sample.
//!
//! For `numa_maps`, the kernel walks every page of the process, which takes about 10 ms per GiB. A
//! sample takes the same time for a process of any size: the anonymous memory is divided into
//! strata of equal length, one page is drawn from each stratum, and `move_pages(2)` gives the node
//! of this page.
//!
//! ```text
//! 16384 pages, each on node 0 with probability 0.6: standard error sqrt(0.6 * 0.4 / 16384) = 0.4 %
//! ```
//!
//! This standard error is an upper bound: if neighbouring pages are on the same node, a stratified
//! sample is more accurate than a random one. The position of the drawn page in its stratum is
//! pseudo-random, because with a constant position all drawn pages of interleaved memory could be
//! on one node. The positions are the same in each sample, so two samples of the same memory differ
//! only by migrated pages.

use crate::{
    process::numa_maps::NodeBytes,
    root::{Root, RootError},
    syscall,
};
use interleaf_procfs::maps::{Mapping, mappings};
use std::{collections::BTreeMap, ops::Range};

/// The total number of pages that are drawn from all processes that are sampled together. With many
/// processes the total is larger, because at least [`STRATA_MIN`] pages are drawn from each
/// process.
const STRATA: u64 = 1 << 14;

/// The minimum number of pages drawn from one process.
const STRATA_MIN: u64 = 1 << 10;

/// At least 1 / `RESIDENT_ONE_IN` of the drawn pages have to be resident. If fewer are resident,
/// most of the mapped memory is unused, and the sample is too small.
const RESIDENT_ONE_IN: u64 = 16;

/// Estimates the anonymous memory of a process by node. `processes` is the number of processes that
/// are sampled together. From all of them, `STRATA` pages in total are drawn, but at least
/// `STRATA_MIN` from each process. Returns `None` if too few drawn pages are resident, the kernel
/// refuses, or the process does not exist.
///
/// # Errors
/// When a file of the process exists and cannot be read.
pub fn anonymous(root: &Root, pid: u32, processes: usize) -> Result<Option<NodeBytes>, RootError> {
    let Some(maps) = root.peek(&format!("/proc/{pid}/maps"))? else { return Ok(None) };
    let statm = root.peek(&format!("/proc/{pid}/statm"))?.unwrap_or_default();
    let page_bytes = rustix::param::page_size() as u64;
    let strata = (STRATA / processes.max(1) as u64).max(STRATA_MIN);
    let addresses = draw(&areas(&maps), page_bytes, strata);
    let mut status = vec![-1; addresses.len()];
    // The call fails if the process belongs to another user or has ended. The caller then reads
    // `numa_maps`, which distinguishes these cases.
    if syscall::move_pages(pid, &addresses, None, &mut status).is_err() {
        return Ok(None);
    }
    Ok(estimate(&status, anonymous_pages(&statm) * page_bytes))
}

/// Returns the address ranges of the accessible private anonymous mappings in `maps`, the text of
/// `/proc/PID/maps`. Example of such a mapping: `7f00-8000 rw-p 00000000 00:00 0 [heap]`.
fn areas(maps: &str) -> Vec<Range<u64>> {
    let is_usable = |mapping: &Mapping<'_>| {
        mapping.is_private_anonymous() && mapping.protection() != 0 && !mapping.addresses.is_empty()
    };
    mappings(maps.as_bytes()).filter(is_usable).map(|mapping| mapping.addresses).collect()
}

/// Divides the pages of `areas` into `strata` strata of equal length, and draws one page from each.
/// If there are fewer pages than strata, draws all pages. Returns the addresses of the drawn pages.
fn draw(areas: &[Range<u64>], page_bytes: u64, strata: u64) -> Vec<u64> {
    let total: u64 = areas.iter().map(|area| (area.end - area.start) / page_bytes).sum();
    let strata = strata.min(total);
    let bound =
        |stratum: u64| (u128::from(total) * u128::from(stratum) / u128::from(strata)) as u64;
    let mut pages = (0..strata).map(|stratum| {
        let (first, end) = (bound(stratum), bound(stratum + 1));
        first + mixed(stratum) % (end - first)
    });
    let mut addresses = Vec::with_capacity(strata as usize);
    let (mut before, mut next) = (0, pages.next());
    for area in areas {
        let end = before + (area.end - area.start) / page_bytes;
        while let Some(page) = next.filter(|page| *page < end) {
            addresses.push(area.start + (page - before) * page_bytes);
            next = pages.next();
        }
        before = end;
    }
    addresses
}

/// Returns a pseudo-random number for `number`: the finalizer of SplitMix64 (Steele, Lea and Flood,
/// "Fast Splittable Pseudorandom Number Generators", OOPSLA 2014).
fn mixed(number: u64) -> u64 {
    let mut z = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Returns the resident anonymous pages: number 2 of `statm` minus number 3 (files, shared memory).
fn anonymous_pages(statm: &str) -> u64 {
    let mut numbers = statm.split_whitespace().skip(1).map(|word| word.parse().unwrap_or(0_u64));
    let (resident, of_files) = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    resident.saturating_sub(of_files)
}

/// Divides `bytes` among the nodes in proportion to the drawn pages on each node. `status` has the
/// node of each drawn page; a negative number for a page that is not resident. Returns `None` if
/// too few drawn pages are resident.
fn estimate(status: &[i32], bytes: u64) -> Option<NodeBytes> {
    let mut found: BTreeMap<u32, u64> = BTreeMap::new();
    for node in status.iter().filter_map(|status| u32::try_from(*status).ok()) {
        *found.entry(node).or_default() += 1;
    }
    let sum: u64 = found.values().sum();
    if sum == 0 || sum * RESIDENT_ONE_IN < status.len() as u64 {
        return None;
    }
    let part = |count: u64| (u128::from(bytes) * u128::from(count) / u128::from(sum)) as u64;
    Some(NodeBytes(found.into_iter().map(|(node, count)| (node, part(count))).collect()))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;
    use proptest::prelude::*;

    const MAPS: &str = "\
00400000-00403000 r-xp 00000000 fe:00 42                 /bin/some thing
01000000-01800000 rw-p 00000000 00:00 0                  [heap]
7f0000000000-7f0000400000 rw-s 00000000 00:01 7          /dev/zero (deleted)
7f1000000000-7f1004000000 ---p 00000000 00:00 0 
7f2000000000-7f2000001000 rw-p 00000000 00:00 0          [anon:pool]
7ffd00000000-7ffd00002000 r--p 00000000 00:00 0          [vvar]
";

    #[test]
    fn file_mappings_and_inaccessible_ones_are_left_out() {
        let areas = areas(MAPS);
        assert_eq!(areas, [0x100_0000..0x180_0000, 0x7f20_0000_0000..0x7f20_0000_1000]);
        assert_eq!(anonymous_pages("900 500 120 1 0 3 0\n"), 380);
        assert_eq!(anonymous_pages(""), 0);
    }

    /// Returns the estimate for a process of `pages` pages. `node` returns the node of the page
    /// with a given index; a negative number for a page that is not resident.
    fn seen(pages: u64, node: impl Fn(u64) -> i32) -> Option<NodeBytes> {
        let areas =
            [0x1000..0x1000 + pages / 3 * 4096, 1 << 40..(1 << 40) + (pages - pages / 3) * 4096];
        let page = |address: u64| match address < 1 << 40 {
            true => (address - 0x1000) / 4096,
            false => pages / 3 + (address - (1 << 40)) / 4096,
        };
        let drawn = draw(&areas, 4096, STRATA);
        assert!(drawn.is_sorted() && drawn.len() as u64 == STRATA.min(pages));
        let status: Vec<i32> = drawn.iter().map(|address| node(page(*address))).collect();
        estimate(&status, pages * 4096)
    }

    #[test]
    fn interleaved_pages_are_seen_as_they_are() {
        for round in [2, 4, 5, 16, 64, 255] {
            for on_0 in [1, round / 2, round - 1] {
                let on = seen(1 << 22, |page| i32::from(page % round >= on_0)).unwrap();
                let share = on.on(0) as f64 / on.total() as f64;
                let off = share - on_0 as f64 / round as f64;
                assert!(off.abs() < 0.012, "{on_0} of {round}: off by {off}");
            }
        }
    }

    #[test]
    fn small_samples_of_sparse_memory_are_refused() {
        assert_eq!(seen(1 << 24, |page| if page < 1 << 18 { 0 } else { -2 }), None);
        assert!(seen(1 << 24, |page| if page < 1 << 23 { 0 } else { -2 }).is_some());
    }

    #[test]
    fn this_process_is_found() {
        let memory = vec![1_u8; 64 << 20];
        let on = anonymous(&Root::live(), std::process::id(), 1).unwrap().unwrap();
        assert!(on.total() >= memory.len() as u64, "{on:?}");
        assert_eq!(anonymous(&Root::live(), u32::MAX >> 2, 1).unwrap(), None);
    }

    proptest! {
        #[test]
        fn each_page_is_drawn_once_and_no_text_is_too_much(
            pages in 1_u64..100_000, text in "\\PC*",
        ) {
            seen(pages, |_| 0);
            areas(&text);
            anonymous_pages(&text);
        }
    }
}
