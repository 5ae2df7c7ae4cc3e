//! Replaces `mlock(2)` and related calls. The kernel must not lock pages of the pager's regions,
//! because that brings all pages of a range into DRAM, beyond the budget. Instead, the pager pins
//! these pages. If the pinned pages would leave too little of the budget for other pages, the pager
//! pins no page of the call, and the call fails.

use crate::{
    errno, mapping, maps,
    state::{inside, pager, pager_over},
};
use interleaf_pager::pager::Pager;
use interleaf_procfs::page::PAGE_BYTES;
use libc::{c_int, c_uint, c_void, size_t};
use std::{ops::Range, ptr, slice};

/// Returns the pages that contain the `bytes` bytes at `address`; `None` if the end of the range
/// exceeds the largest address.
fn pages_around(address: usize, bytes: usize) -> Option<Range<usize>> {
    let end = address.checked_add(bytes)?.checked_next_multiple_of(PAGE_BYTES)?;
    Some(address / PAGE_BYTES * PAGE_BYTES..end)
}

/// Locks pages: the pager pins pages of extended memory, and `kernel` locks all others. If
/// `touches` is true, the pinned pages are also touched, so that they become resident.
fn lock(
    address: usize,
    bytes: usize,
    touches: bool,
    kernel: impl Fn(usize, usize) -> c_int,
) -> c_int {
    let Some((pager, pages)) = pager_over(address, bytes).zip(pages_around(address, bytes)) else {
        return kernel(address, bytes);
    };
    let [before, within, behind] = mapping::split(pager, &pages);
    for rest in [before, behind] {
        if !rest.is_empty() && kernel(rest.start, rest.len()) != 0 {
            return -1;
        }
    }
    // Like the kernel, refuse to lock pages that are not readable: they cannot be touched.
    let may_pin = || pager.are_of_regions(&within) && (!touches || maps::is_readable(&within));
    if !inside(|| may_pin() && pager.pin(slice::from_ref(&within))) {
        return errno::failed(libc::ENOMEM);
    }
    if touches {
        touch(&within);
    }
    0
}

/// Touches pages to make them resident.
fn touch(pages: &Range<usize>) {
    for page in pages.clone().step_by(PAGE_BYTES) {
        // SAFETY: the callers have checked that the pages are mapped and readable.
        let _ = unsafe { ptr::read_volatile(page as *const u8) };
    }
}

/// Replaces `mlock(2)`: the pager pins pages of extended memory, which are then touched, and the
/// kernel locks all other pages.
///
/// # Safety
/// The caller must meet the conditions of `mlock(2)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mlock(address: *const c_void, bytes: size_t) -> c_int {
    lock(address as usize, bytes, true, |address, bytes| {
        // SAFETY: the caller meets the conditions of `mlock(2)`.
        unsafe { libc::syscall(libc::SYS_mlock, address, bytes) as c_int }
    })
}

/// Replaces `mlock2(2)`: like `mlock`, but with `MLOCK_ONFAULT` pages are not touched.
///
/// # Safety
/// The caller must meet the conditions of `mlock2(2)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mlock2(address: *const c_void, bytes: size_t, flags: c_uint) -> c_int {
    // The flag 1 is `MLOCK_ONFAULT`: the pages are pinned but not touched. A pinned page stays
    // resident from its first touch on.
    lock(address as usize, bytes, flags & 1 == 0, |address, bytes| {
        // SAFETY: the caller meets the conditions of `mlock2(2)`.
        unsafe { libc::syscall(libc::SYS_mlock2, address, bytes, flags) as c_int }
    })
}

/// Replaces `munlock(2)`: the pager unpins pages of extended memory, and the kernel unlocks all
/// other pages.
///
/// # Safety
/// The caller must meet the conditions of `munlock(2)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn munlock(address: *const c_void, bytes: size_t) -> c_int {
    // SAFETY: the caller meets the conditions of `munlock(2)`.
    let kernel = |address: usize, bytes: usize| unsafe {
        libc::syscall(libc::SYS_munlock, address, bytes) as c_int
    };
    let found = pager_over(address as usize, bytes).zip(pages_around(address as usize, bytes));
    let Some((pager, pages)) = found else { return kernel(address as usize, bytes) };
    let [before, within, behind] = mapping::split(pager, &pages);
    inside(|| pager.unpin(&within));
    for rest in [before, behind] {
        if !rest.is_empty() && kernel(rest.start, rest.len()) != 0 {
            return -1;
        }
    }
    0
}

/// Replaces `mlockall(2)`. With `MCL_CURRENT`, the pager pins all regions, and the kernel locks all
/// other existing mappings, one by one. With `MCL_ONFAULT`, each page becomes resident at its first
/// access. Without it, all readable pages become resident before the call returns. The call fails
/// if the budget is too small to pin the regions.
///
/// # Safety
/// The caller must meet the conditions of `mlockall(2)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mlockall(flags: c_int) -> c_int {
    // SAFETY: the caller meets the conditions of `mlockall(2)`.
    let kernel = |flags: c_int| unsafe { libc::syscall(libc::SYS_mlockall, flags) as c_int };
    let Some(pager) = pager().filter(|_| flags & libc::MCL_CURRENT != 0) else {
        return kernel(flags);
    };
    if !inside(|| pin_all(pager, flags & libc::MCL_ONFAULT == 0)) {
        return errno::failed(libc::ENOMEM);
    }
    let rest = flags & !libc::MCL_CURRENT;
    if rest & libc::MCL_FUTURE != 0 { kernel(rest) } else { 0 }
}

fn pin_all(pager: &Pager, touches: bool) -> bool {
    let regions = pager.regions();
    if !pager.pin(&regions) {
        return false;
    }
    for mapping in maps::all() {
        let pages = mapping.addresses;
        let is_pagers = pager.overlaps_pager(&pages);
        // Inaccessible mappings are reservations: they have no pages to lock.
        if is_pagers || mapping.protection == 0 {
            continue;
        }
        let flags = if touches { 0 } else { libc::MLOCK_ONFAULT };
        // SAFETY: the call changes no content. The result is ignored, because some mappings, such
        // as those of devices, cannot be locked.
        unsafe { libc::syscall(libc::SYS_mlock2, pages.start, pages.len(), flags) };
    }
    if touches {
        let readable = |pages: &&Range<usize>| maps::is_readable(pages);
        regions.iter().filter(readable).for_each(touch);
    }
    true
}

/// Replaces `munlockall(2)`: the pager unpins extended memory, and the kernel unlocks all other
/// pages.
#[unsafe(no_mangle)]
pub extern "C" fn munlockall() -> c_int {
    if let Some(pager) = pager() {
        inside(|| pager.regions().iter().for_each(|pages| pager.unpin(pages)));
    }
    // SAFETY: the call changes no content.
    unsafe { libc::syscall(libc::SYS_munlockall) as c_int }
}
