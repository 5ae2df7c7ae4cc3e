//! The mappings of the program that count as unextended memory ([`add_unextended`]): private
//! anonymous memory that the kernel manages. A call of `munmap(2)` does not tell the kind of the
//! mapping that it unmaps, so the address ranges of the counted mappings are kept here.
//!
//! A child that the program forks by a raw system call counts no mappings: a thread that exists
//! only in the parent may hold the lock of [`COUNTED`] ([`may_be_locked`]).

use crate::{
    errno,
    state::{BYTES_MIN, add_unextended, inside, is_inside, may_be_locked, subtract_unextended},
};
use interleaf_pager::ranges::Ranges;
use libc::c_void;
use std::{
    ops::Range,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
};

/// The addresses of the mappings that count as unextended memory.
pub(crate) type Counted = Ranges<()>;

static COUNTED: Mutex<Counted> = Mutex::new(Ranges::new());

/// True once a mapping has been counted. Until then `munmap(2)`, which most programs call at their
/// start, does not wait for the lock of [`COUNTED`].
static HAS_COUNTED: AtomicBool = AtomicBool::new(false);

/// Locks the list of counted mappings. A fork holds the lock, so that the child has consistent
/// state.
pub(crate) fn lock() -> MutexGuard<'static, Counted> {
    COUNTED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Counts `pages`, a new mapping of the program, as unextended memory if the mapping has at least
/// [`BYTES_MIN`] bytes.
pub(crate) fn add(pages: &Range<usize>) {
    if pages.len() < BYTES_MIN || is_inside() || may_be_locked() {
        return;
    }
    HAS_COUNTED.store(true, Relaxed);
    inside(|| insert([numbers(pages)]));
}

/// Runs `kernel`, a system call that unmaps `pages`, or replaces them by memory that is not
/// counted. If `is_done` is true for the result of `kernel`, the mappings in `pages` are no longer
/// counted.
pub(crate) fn unmapped<T>(
    pages: &Range<usize>,
    kernel: impl FnOnce() -> T,
    is_done: impl FnOnce(&T) -> bool,
) -> T {
    if is_off() {
        return kernel();
    }
    inside(|| {
        // Subtract first: as soon as the pages are unmapped, another thread may map and count other
        // memory at these addresses.
        let removed = remove(pages);
        let outcome = kernel();
        if !is_done(&outcome) {
            insert(removed);
        }
        outcome
    })
}

/// The addresses and flags of a call of `mremap(2)` that the kernel handles.
pub(crate) struct Remap<'a> {
    pub(crate) old: &'a Range<usize>,
    /// Size of the new mapping, bytes.
    pub(crate) new_bytes: usize,
    /// The addresses of the new mapping if the call has `MREMAP_FIXED`; otherwise `None`.
    pub(crate) target: Option<&'a Range<usize>>,
    /// True if the call has `MREMAP_DONTUNMAP`: the old mapping stays mapped, without its pages.
    pub(crate) leaves_old: bool,
}

/// Runs `kernel`, the call of `mremap(2)` that `call` describes. Parts of the new mapping are
/// counted if they were counted in the old mapping. Bytes that the call adds at the end are counted
/// if the last byte of the old mapping was counted.
pub(crate) fn remapped(call: &Remap<'_>, kernel: impl FnOnce() -> *mut c_void) -> *mut c_void {
    if is_off() {
        return kernel();
    }
    let Remap { old, new_bytes, target, leaves_old } = call;
    inside(|| {
        // Subtract first: as soon as the call has unmapped addresses, another thread may map and
        // count other memory at them.
        let replaced = target.map(remove).unwrap_or_default();
        let moved = lock().moved(&numbers(old), &(0..*new_bytes as u64));
        let removed = if *leaves_old { vec![] } else { remove(old) };
        let found = kernel();
        if found == libc::MAP_FAILED {
            insert(replaced.into_iter().chain(removed));
        } else {
            let start = found as u64;
            insert(moved.into_iter().map(|(at, ())| start + at.start..start + at.end));
        }
        found
    })
}

/// True if the calling thread must not count mappings, or if no mapping has been counted.
fn is_off() -> bool {
    !HAS_COUNTED.load(Relaxed) || is_inside() || may_be_locked()
}

/// Adds address ranges to the counted mappings. Keeps the value of `errno`, which a system call set
/// before.
fn insert(ranges: impl IntoIterator<Item = Range<u64>>) {
    let why = errno::get();
    let added = add_to(&mut lock(), ranges);
    if added > 0 {
        add_unextended(added as usize);
    }
    errno::set(why);
}

/// Removes `pages` from the counted mappings. Returns the parts of `pages` that were counted.
fn remove(pages: &Range<usize>) -> Vec<Range<u64>> {
    let removed = take(&mut lock(), &numbers(pages));
    subtract_unextended(removed.iter().map(|it| (it.end - it.start) as usize).sum());
    removed
}

/// Adds `ranges` to `counted`. Returns the number of bytes of `ranges` that were not counted
/// before.
fn add_to(counted: &mut Counted, ranges: impl IntoIterator<Item = Range<u64>>) -> u64 {
    let mut added = 0;
    for addresses in ranges {
        added += addresses.end - addresses.start - counted.count(&addresses);
        counted.set(&addresses, Some(()));
    }
    added
}

/// Removes `addresses` from `counted`. Returns the parts of `addresses` that were counted.
fn take(counted: &mut Counted, addresses: &Range<u64>) -> Vec<Range<u64>> {
    let removed = counted.moved(addresses, addresses);
    counted.set(addresses, None);
    removed.into_iter().map(|(addresses, ())| addresses).collect()
}

/// Converts addresses to the number type of [`Ranges`].
const fn numbers(addresses: &Range<usize>) -> Range<u64> {
    addresses.start as u64..addresses.end as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_counted_is_subtracted() {
        let mut counted = Ranges::new();
        assert_eq!(add_to(&mut counted, [10..20, 20..30, 50..60]), 30);
        assert_eq!(add_to(&mut counted, Some(15..35)), 5, "the others were counted");
        assert_eq!(take(&mut counted, &(35..50)), []);
        assert_eq!(take(&mut counted, &(12..14)).first(), Some(&(12..14)));
        assert_eq!(take(&mut counted, &(0..22)), [10..12, 14..15, 15..22]);
        assert_eq!(take(&mut counted, &(0..100)), [22..35, 50..60]);
        assert_eq!(take(&mut counted, &(0..100)), []);
    }

    /// A call unmaps addresses, and before it returns, another thread maps memory there: asserts
    /// that this new mapping is counted. Also asserts the count after calls that fail, and after
    /// moves.
    #[test]
    fn a_mapping_at_addresses_that_were_just_unmapped_is_counted() {
        const LENGTH: usize = BYTES_MIN;
        // No process has memory at these addresses.
        let [old, new] = [1_usize << 58, 1 << 59].map(|start| start..start + 2 * LENGTH);
        let half = old.start..old.start + LENGTH;
        let count = |pages| lock().count(&numbers(pages)) as usize;
        let map_there = || {
            std::thread::scope(|scope| {
                scope.spawn(|| add(&half));
            });
        };
        add(&half);
        unmapped(&half, map_there, |()| true);
        assert_eq!(count(&old), LENGTH);
        unmapped(&half, || (), |()| false);
        assert_eq!(count(&old), LENGTH, "after a failure");
        let call = Remap { old: &half, new_bytes: 2 * LENGTH, target: None, leaves_old: false };
        remapped(&call, || {
            map_there();
            new.start as *mut c_void
        });
        assert_eq!((count(&old), count(&new)), (LENGTH, 2 * LENGTH), "moved and longer");
        let call = Remap { old: &old, target: Some(&new), ..call };
        remapped(&call, || libc::MAP_FAILED);
        assert_eq!((count(&old), count(&new)), (LENGTH, 2 * LENGTH), "after a failure");
        remapped(&call, || new.start as *mut c_void);
        assert_eq!((count(&old), count(&new)), (0, LENGTH), "only a half was counted");
        let call = Remap { old: &new, target: None, leaves_old: true, ..call };
        remapped(&call, || old.start as *mut c_void);
        assert_eq!((count(&old), count(&new)), (LENGTH, LENGTH), "both are mapped");
        unmapped(&(old.start..new.end), || (), |()| true);
        assert_eq!((count(&old), count(&new)), (0, 0));
    }
}
