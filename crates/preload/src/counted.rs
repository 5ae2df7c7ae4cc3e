//! The mappings of the program that count as unextended memory ([`count_unextended`]): private
//! anonymous memory that the kernel manages. `munmap(2)` has no information about the kind of a
//! mapping, so the address ranges of the counted mappings are kept here.
//!
//! A child that the program forks by a system call of its own counts no mappings: a thread that
//! exists only in the parent may hold the lock of [`COUNTED`] ([`may_be_locked`]).

use crate::state::{
    BYTES_MIN, count_unextended, inside, is_inside, may_be_locked, uncount_unextended,
};
use interleaf_pager::ranges::Ranges;
use std::{
    ops::Range,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
};

/// The addresses of the counted mappings.
pub(crate) type Counted = Ranges<()>;

static COUNTED: Mutex<Counted> = Mutex::new(Ranges::new());

/// True once a mapping has been counted. Until then `munmap(2)`, which most programs call at their
/// start, does not wait for the lock of [`COUNTED`].
static HAS_COUNTED: AtomicBool = AtomicBool::new(false);

/// Locks the counted mappings: for a fork, so that the child has consistent state.
pub(crate) fn lock() -> MutexGuard<'static, Counted> {
    COUNTED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Counts a new mapping of the program, if it has at least [`BYTES_MIN`] bytes.
pub(crate) fn add(pages: &Range<usize>) {
    if pages.len() < BYTES_MIN || is_inside() || may_be_locked() {
        return;
    }
    HAS_COUNTED.store(true, Relaxed);
    inside(|| lock().set(&numbers(pages), Some(())));
    count_unextended(pages.len());
}

/// Subtracts the counted mappings in a range of addresses that the program has unmapped. Returns
/// the bytes that were counted.
pub(crate) fn remove(pages: &Range<usize>) -> usize {
    if !HAS_COUNTED.load(Relaxed) || is_inside() || may_be_locked() {
        return 0;
    }
    let bytes = inside(|| take(&mut lock(), &numbers(pages))) as usize;
    uncount_unextended(bytes);
    bytes
}

/// Removes a range of addresses. Returns the number of bytes in it that were counted.
fn take(counted: &mut Counted, addresses: &Range<u64>) -> u64 {
    let bytes = counted.count(addresses);
    counted.set(addresses, None);
    bytes
}

/// Addresses as the numbers of [`Ranges`].
const fn numbers(addresses: &Range<usize>) -> Range<u64> {
    addresses.start as u64..addresses.end as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_counted_is_subtracted() {
        let mut counted = Ranges::new();
        [10..20, 20..30, 50..60].iter().for_each(|pages| counted.set(pages, Some(())));
        assert_eq!(take(&mut counted, &(30..50)), 0);
        assert_eq!(take(&mut counted, &(12..14)), 2);
        assert_eq!(take(&mut counted, &(0..22)), 10);
        assert_eq!(take(&mut counted, &(0..100)), 18);
        assert_eq!(take(&mut counted, &(0..100)), 0);
    }
}
