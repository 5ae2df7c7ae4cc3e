//! The mappings of the program that count as unextended memory ([`count_unextended`]): private
//! anonymous memory that the kernel manages. `munmap(2)` has no information about the kind of a
//! mapping, so the address ranges of the counted mappings are kept here.

use crate::state::{BYTES_MIN, count_unextended, inside, is_inside, uncount_unextended};
use std::{
    collections::BTreeMap,
    ops::Range,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
};

/// The end of each counted range of addresses, keyed by its start.
#[derive(Debug)]
pub(crate) struct Counted(BTreeMap<usize, usize>);

static COUNTED: Mutex<Counted> = Mutex::new(Counted(BTreeMap::new()));

/// True if a mapping was counted. Most programs unmap memory before, and should not wait for the
/// lock of [`COUNTED`].
static HAS_COUNTED: AtomicBool = AtomicBool::new(false);

/// Locks the counted mappings: for a fork, so that the child has consistent state.
pub(crate) fn lock() -> MutexGuard<'static, Counted> {
    COUNTED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Counts a new mapping of the program, if it has at least [`BYTES_MIN`] bytes.
pub(crate) fn add(pages: &Range<usize>) {
    if pages.len() < BYTES_MIN || is_inside() {
        return;
    }
    HAS_COUNTED.store(true, Relaxed);
    inside(|| lock().add(pages));
    count_unextended(pages.len());
}

/// Subtracts the counted mappings in a range of addresses that the program has unmapped. Returns
/// the bytes that were counted.
pub(crate) fn remove(pages: &Range<usize>) -> usize {
    if !HAS_COUNTED.load(Relaxed) || is_inside() {
        return 0;
    }
    let bytes = inside(|| lock().remove(pages));
    uncount_unextended(bytes);
    bytes
}

impl Counted {
    fn add(&mut self, pages: &Range<usize>) {
        self.0.insert(pages.start, pages.end);
    }

    /// Removes a range of addresses. Returns the number of bytes in it that were counted.
    fn remove(&mut self, pages: &Range<usize>) -> usize {
        let mut bytes = 0;
        while let Some((&start, &end)) = self.0.range(..pages.end).next_back()
            && end > pages.start
        {
            self.0.remove(&start);
            bytes += end.min(pages.end) - start.max(pages.start);
            if pages.end < end {
                self.0.insert(pages.end, end);
            }
            if start < pages.start {
                self.0.insert(start, pages.start);
            }
        }
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_counted_is_subtracted() {
        let mut counted = Counted(BTreeMap::new());
        [10..20, 20..30, 50..60].iter().for_each(|pages| counted.add(pages));
        assert_eq!(counted.remove(&(30..50)), 0);
        assert_eq!(counted.remove(&(12..14)), 2);
        assert_eq!(counted.remove(&(0..22)), 10);
        assert_eq!(counted.remove(&(0..100)), 18);
        assert_eq!(counted.remove(&(0..100)), 0);
    }
}
