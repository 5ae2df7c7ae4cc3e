//! Replaces `madvise(2)`: the pager handles advice about its regions, the address ranges of
//! extended memory. The kernel does not receive this advice, because most of it would only split
//! the kernel's mapping of the regions, which makes later moves of pages slower.

use crate::{
    errno,
    mapping::{self, pages},
    shared,
    state::{inside, pager_over},
};
use interleaf_pager::{
    pager::Pager,
    serve::{arena::Owner, context::Inherit},
};
use interleaf_prefetch::advice::Advice;
use libc::{c_int, c_void, size_t};
use std::ops::Range;

/// The values of `MADV_DONTNEED_LOCKED` and `MADV_COLLAPSE` in `linux/mman.h`.
const DONTNEED_LOCKED: c_int = 24;
const COLLAPSE: c_int = 25;

/// Replaces `madvise(2)`: the pager handles advice about extended memory, the module `shared`
/// handles some advice about shared memory, and the kernel handles all other advice.
///
/// # Safety
/// The caller must meet the conditions of `madvise(2)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn madvise(address: *mut c_void, bytes: size_t, advice: c_int) -> c_int {
    // SAFETY: the caller meets the conditions of `madvise(2)`.
    let kernel = |address: usize, bytes: usize| unsafe {
        libc::syscall(libc::SYS_madvise, address, bytes, advice) as c_int
    };
    let found = pager_over(address as usize, bytes).zip(pages(address as usize, bytes));
    let Some((pager, pages)) = found else {
        let shared = pages(address as usize, bytes);
        let answer = shared.and_then(|pages| shared::handle_advice(&pages, advice));
        return answer.unwrap_or_else(|| kernel(address as usize, bytes));
    };
    let [before, within, behind] = mapping::split(pager, &pages);
    let outside = [before, behind].map(|rest| (rest, Owner::Foreign)).into_iter();
    let pieces = inside(|| pager.pieces(&within)).into_iter().chain(outside);
    let mut has_hole = false;
    for (piece, owner) in pieces.filter(|(piece, _)| !piece.is_empty()) {
        let outcome = match owner {
            Owner::Region => inside(|| advise(pager, &piece, advice)),
            Owner::Free => errno::failed(libc::ENOMEM),
            Owner::Foreign => kernel(piece.start, piece.len()),
        };
        // Like the kernel, continue after a range without a mapping, and report `ENOMEM` at the
        // end.
        match errno::get() {
            libc::ENOMEM if outcome != 0 => has_hole = true,
            _ if outcome != 0 => return -1,
            _ => {}
        }
    }
    if has_hole { errno::failed(libc::ENOMEM) } else { 0 }
}

/// Applies `advice` to `pages` of a region. Returns the result of `madvise(2)`.
fn advise(pager: &Pager, pages: &Range<usize>, advice: c_int) -> c_int {
    let apply = |advice| {
        pager.advise(pages, advice);
        0
    };
    let inherit = |inherit| {
        pager.set_inherit(pages, inherit);
        0
    };
    match advice {
        libc::MADV_NORMAL => apply(Advice::Normal),
        libc::MADV_RANDOM => apply(Advice::Random),
        libc::MADV_SEQUENTIAL => apply(Advice::Sequential),
        libc::MADV_WILLNEED | libc::MADV_POPULATE_READ | libc::MADV_POPULATE_WRITE => {
            apply(Advice::WillNeed)
        }
        libc::MADV_COLD | libc::MADV_PAGEOUT => apply(Advice::Cold),
        libc::MADV_DONTNEED | libc::MADV_FREE | DONTNEED_LOCKED => {
            pager.discard(pages);
            0
        }
        libc::MADV_DONTFORK => inherit(Some(Inherit::Omitted)),
        libc::MADV_WIPEONFORK => inherit(Some(Inherit::Wiped)),
        libc::MADV_DOFORK | libc::MADV_KEEPONFORK => inherit(None),
        libc::MADV_HUGEPAGE
        | libc::MADV_NOHUGEPAGE
        | libc::MADV_MERGEABLE
        | libc::MADV_UNMERGEABLE
        | libc::MADV_DONTDUMP
        | libc::MADV_DODUMP
        | COLLAPSE => 0,
        // All other advice is refused. The kernel also refuses it for anonymous memory, or does not
        // know it in older versions.
        _ => errno::failed(libc::EINVAL),
    }
}

/// Replaces `posix_madvise(3)`: the advice is handled as by `madvise`, except
/// `POSIX_MADV_DONTNEED`, which does nothing because it must not discard pages.
///
/// # Safety
/// The caller must meet the conditions of `posix_madvise(3)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn posix_madvise(
    address: *mut c_void,
    bytes: size_t,
    advice: c_int,
) -> c_int {
    if advice == libc::POSIX_MADV_DONTNEED {
        return 0;
    }
    let before = errno::get();
    // SAFETY: the caller meets the conditions of `posix_madvise(3)`, which are those of
    // `madvise(2)`. All constants of `posix_madvise` except `POSIX_MADV_DONTNEED` have the values
    // and the meaning of those of `madvise(2)`.
    let outcome = unsafe { madvise(address, bytes, advice) };
    let why = errno::get();
    errno::set(before);
    if outcome == 0 { 0 } else { why }
}
