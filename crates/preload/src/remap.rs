//! Replaces `mremap(2)`. A region (a mapping of extended memory) shrinks or grows in place, or is
//! copied to another range. A mapping that the kernel manages is copied into a new region if the
//! mapping grows large enough to be extended.

use crate::{
    advice,
    counted::{self, Remap},
    errno,
    mapping::{self, pages},
    maps, mlock, shared,
    start::pager_for,
    state::{inside, interruptible, pager_over},
};
use interleaf_pager::{
    pager::{Pager, READ_WRITE},
    serve::context::Inherit,
};
use interleaf_procfs::page::PAGE_BYTES;
use libc::{c_int, c_void, size_t};
use std::{ops::Range, ptr};

/// A call with at least this new size, bytes, is passed to the kernel, which refuses it and changes
/// nothing: no processor has such a large address space for programs. The sum of an address and a
/// smaller size does not overflow.
const BYTES_REFUSED: usize = 1 << 56;

/// Replaces `mremap(2)`: the pager resizes and moves regions, and the kernel all other mappings. A
/// mapping that grows large enough to be extended becomes a region.
///
/// # Safety
/// The caller must meet the conditions of `mremap(2)`. The function has five arguments; the last
/// argument is used according to `flags`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mremap(
    address: *mut c_void,
    old_bytes: size_t,
    new_bytes: size_t,
    flags: c_int,
    new_address: *mut c_void,
) -> *mut c_void {
    // SAFETY: the caller meets the conditions of `mremap(2)`.
    let kernel = || unsafe {
        let call = libc::SYS_mremap;
        libc::syscall(call, address, old_bytes, new_bytes, flags, new_address) as *mut c_void
    };
    if old_bytes == 0 && shared::overlaps(&(address as usize..(address as usize).saturating_add(1)))
    {
        // A length of zero asks for a second mapping of the same shared pages. The server for
        // shared memory does not know the second mapping, and would not handle its faults.
        return errno::unmapped(libc::ENOMEM);
    }
    let is_fixed = flags & libc::MREMAP_FIXED != 0;
    let leaves_old = flags & libc::MREMAP_DONTUNMAP != 0;
    let is_done = |at: &*mut c_void| *at != libc::MAP_FAILED;
    let Some(old) = pages(address as usize, old_bytes) else {
        let target = pages(new_address as usize, new_bytes).filter(|_| is_fixed && old_bytes == 0);
        let Some(target) = target.filter(|_| (address as usize).is_multiple_of(PAGE_BYTES)) else {
            return kernel();
        };
        // A second mapping of the same shared pages replaces the memory at `target`.
        let map = || match pager_over(target.start, target.len()) {
            Some(pager) => {
                inside(|| move_over(pager, &(address as usize..address as usize), &target, flags))
            }
            None => shared::unmapped(&target, kernel, is_done),
        };
        return counted::unmapped(&target, map, is_done);
    };
    let Some(new) = new_bytes.checked_next_multiple_of(PAGE_BYTES).filter(|bytes| *bytes > 0)
    else {
        return errno::unmapped(libc::EINVAL);
    };
    if new >= BYTES_REFUSED {
        return kernel();
    }
    if let Some(pager) = pager_over(old.start, old.len()) {
        if is_fixed && !(new_address as usize).is_multiple_of(PAGE_BYTES) {
            return errno::unmapped(libc::EINVAL);
        }
        let to = is_fixed.then_some(new_address as usize);
        return inside(|| remap(pager, &old, new, flags, to));
    }
    if shared::overlaps(&old) {
        // Shared memory may only shrink in place: the server for shared memory would not handle
        // faults at a new address.
        return match new <= old.len() && flags & !libc::MREMAP_MAYMOVE == 0 {
            true => shared::unmapped(&(old.start + new..old.end), kernel, is_done),
            false => errno::unmapped(libc::ENOMEM),
        };
    }
    if is_fixed {
        let Some(target) = pages(new_address as usize, new) else { return kernel() };
        if let Some(pager) = pager_over(target.start, target.len()) {
            let move_over = || inside(|| move_over(pager, &old, &target, flags));
            return match leaves_old {
                true => move_over(),
                false => counted::unmapped(&old, move_over, is_done),
            };
        }
        let call = Remap { old: &old, new_bytes: new, target: Some(&target), leaves_old };
        return counted::remapped(&call, || shared::unmapped(&target, kernel, is_done));
    }
    // If a mapping that the kernel manages grows large enough to be extended, the mapping becomes a
    // region.
    let grows = new > old.len() && flags == libc::MREMAP_MAYMOVE;
    let adopted = pager_for(new).filter(|_| grows).and_then(|pager| adopt(pager, &old, new));
    let call = Remap { old: &old, new_bytes: new, target: None, leaves_old };
    adopted.unwrap_or_else(|| counted::remapped(&call, kernel))
}

/// Replaces `remap_file_pages(2)`: refuses shared memory, because the kernel would map the pages at
/// an address that the session's server does not know.
///
/// # Safety
/// The caller must meet the conditions of `remap_file_pages(2)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn remap_file_pages(
    address: *mut c_void,
    bytes: size_t,
    protection: c_int,
    offset: size_t,
    flags: c_int,
) -> c_int {
    if pages(address as usize, bytes).is_some_and(|pages| shared::overlaps(&pages)) {
        return errno::failed(libc::EINVAL);
    }
    // SAFETY: the caller meets the conditions of `remap_file_pages(2)`.
    unsafe {
        let call = libc::SYS_remap_file_pages;
        libc::syscall(call, address, bytes, protection, offset, flags) as c_int
    }
}

/// Carries out `mremap(2)` for `old`, a mapping that the kernel manages. Some of the new addresses,
/// `target`, are in the range that the pager reserves for regions. Therefore the mapping is moved
/// elsewhere first: the pages at `target` then keep their content if the kernel refuses the call.
/// If `old` is empty, the call makes a second mapping of the shared pages from `old.start` on.
fn move_over(
    pager: &Pager,
    old: &Range<usize>,
    target: &Range<usize>,
    flags: c_int,
) -> *mut c_void {
    let known = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED | libc::MREMAP_DONTUNMAP;
    let overlaps = old.start < target.end && target.start < old.end;
    if flags & !known != 0 || flags & libc::MREMAP_MAYMOVE == 0 || overlaps {
        return errno::unmapped(libc::EINVAL);
    }
    if !maps::are_mapped(old) {
        return errno::unmapped(libc::EFAULT);
    }
    let reserve = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    // SAFETY: a new mapping changes no other memory. Then the program's mapping is moved to it, as
    // the program asked for a move.
    let moved = unsafe {
        let place = libc::syscall(libc::SYS_mmap, 0, target.len(), libc::PROT_NONE, reserve, -1, 0);
        if place == -1 {
            return libc::MAP_FAILED;
        }
        libc::syscall(libc::SYS_mremap, old.start, old.len(), target.len(), flags, place)
    };
    if moved == -1 {
        // The addresses at `place` are not unmapped: the kernel may have unmapped them before it
        // refused the call, and another thread may have mapped memory there since.
        return libc::MAP_FAILED;
    }
    let [_, within, _] = mapping::split(pager, target);
    pager.leave_to_kernel(&within);
    let map = || mapping::move_mapping(moved as usize, target.len(), target);
    let found = shared::unmapped(target, map, |at| *at == target.start);
    if found != target.start {
        // The kernel refused `target`. Move the mapping back, so that the program keeps its old
        // mapping. A mapping that has grown shrinks again, because other memory may follow `old`.
        // A second mapping is unmapped.
        let back = old.start..old.start + target.len().min(old.len());
        if back.is_empty() {
            // SAFETY: the second mapping was made above, and no other code uses it.
            unsafe { libc::syscall(libc::SYS_munmap, moved, target.len()) };
        } else {
            mapping::move_mapping(moved as usize, target.len(), &back);
        }
    }
    found as *mut c_void
}

/// Carries out `mremap(2)` for `old`, pages that belong to regions. `to` is the new address if the
/// call has `MREMAP_FIXED`; otherwise `None`.
fn remap(
    pager: &Pager,
    old: &Range<usize>,
    new_bytes: usize,
    flags: c_int,
    to: Option<usize>,
) -> *mut c_void {
    if !pager.are_of_regions(old) {
        return errno::unmapped(libc::EFAULT);
    }
    let may_move = flags & libc::MREMAP_MAYMOVE != 0;
    let leaves_empty = flags & libc::MREMAP_DONTUNMAP != 0;
    if (to.is_some() || leaves_empty) && !may_move || leaves_empty && new_bytes != old.len() {
        return errno::unmapped(libc::EINVAL);
    }
    // The results of `pager.unmap` below are ignored, because it cannot fail for pages of regions.
    let overlaps = |to: usize| to < old.end && old.start < to.saturating_add(new_bytes);
    if to.is_some_and(overlaps) {
        return errno::unmapped(libc::EINVAL);
    }
    if to.is_none() && !leaves_empty {
        let new_end = old.start + new_bytes;
        if new_end < old.end {
            let _ = pager.unmap(&(new_end..old.end));
        }
        if new_end <= old.end {
            return old.start as *mut c_void;
        }
        if pager.grow(old.end, new_end - old.end, protection_of(old.end - 1)) {
            let last = old.end - PAGE_BYTES;
            move_advice(pager, &(last..old.end), &(last..new_end));
            return old.start as *mut c_void;
        }
        if !may_move {
            return errno::unmapped(libc::ENOMEM);
        }
    }
    let protection = protection_of(old.start);
    let Some(new) = map_new(pager, new_bytes, to) else {
        return errno::unmapped(libc::ENOMEM);
    };
    move_advice(pager, old, &new);
    copy(pager, old, &new, protection);
    if leaves_empty {
        pager.discard(old);
        if protection & libc::PROT_READ as u32 == 0 {
            let _ = pager.protect(old, protection);
        }
    } else {
        let _ = pager.unmap(old);
    }
    new.start as *mut c_void
}

/// Gives the pages at `to` the pins of the pages at `from` and their advice about forked children
/// (`MADV_DONTFORK`, `MADV_WIPEONFORK`), as the kernel does. Only a limited number of pages may be
/// pinned, so the pins at `from` end first. If `to` has more pages than `from`, the pages that
/// exceed the limit are not pinned.
fn move_advice(pager: &Pager, from: &Range<usize>, to: &Range<usize>) {
    for (pages, inherit) in pager.moved_inherit(from, to) {
        let advice = match inherit {
            Inherit::Omitted => libc::MADV_DONTFORK,
            Inherit::Wiped => libc::MADV_WIPEONFORK,
        };
        // SAFETY: this advice changes no content in this process.
        unsafe { advice::madvise(pages.start as *mut c_void, pages.len(), advice) };
    }
    let pinned = pager.moved_pins(from, to);
    if !pinned.is_empty() {
        pager.unpin(from);
    }
    for pages in pinned {
        // SAFETY: the call pins pages and changes no content.
        unsafe { mlock::mlock2(pages.start as *const c_void, pages.len(), libc::MLOCK_ONFAULT) };
    }
}

/// Maps `bytes` bytes of new writable memory, at the address `to` if it is given. Returns the
/// addresses of the memory; `None` if it cannot be mapped.
fn map_new(pager: &Pager, bytes: usize, to: Option<usize>) -> Option<Range<usize>> {
    let Some(to) = to else { return pager.allocate(bytes, 1) };
    let new = to..to.checked_add(bytes)?;
    let [before, within, behind] = mapping::split(pager, &new);
    if before.is_empty() && behind.is_empty() {
        pager.map(&new, READ_WRITE).ok()?;
        return Some(new);
    }
    pager.leave_to_kernel(&within);
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED | libc::MAP_NORESERVE;
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: the program asked for a mapping at this address, in place of any other mapping.
    let map =
        || unsafe { libc::syscall(libc::SYS_mmap, new.start, bytes, protection, flags, -1, 0) };
    let is_mapped = |at: &libc::c_long| *at == new.start as libc::c_long;
    is_mapped(&shared::unmapped(&new, map, is_mapped)).then_some(new)
}

/// Copies the content of the range `old` to the range `new`, and gives `new` the protection
/// `protection`. If `protection` has no read access, makes `old` readable and writable first.
fn copy(pager: &Pager, old: &Range<usize>, new: &Range<usize>, protection: u32) {
    let bytes = old.len().min(new.len());
    if protection & libc::PROT_READ as u32 == 0 {
        let _ = pager.protect(old, READ_WRITE);
    }
    // SAFETY: both ranges are mapped, and do not overlap.
    interruptible(|| unsafe {
        ptr::copy_nonoverlapping(old.start as *const u8, new.start as *mut u8, bytes);
    });
    if protection != READ_WRITE {
        // SAFETY: the memory belongs to the program, which chose this protection.
        unsafe { libc::mprotect(new.start as *mut c_void, new.len(), protection as c_int) };
    }
}

/// Copies a private, anonymous and writable mapping that the kernel manages into a new region of
/// `new_bytes` bytes, and unmaps the old mapping. `None` if `old` is another kind of mapping, or if
/// no region can be allocated.
fn adopt(pager: &Pager, old: &Range<usize>, new_bytes: usize) -> Option<*mut c_void> {
    let mapping = inside(|| maps::all().into_iter().find(|it| it.addresses.contains(&old.start)))?;
    if !mapping.is_anonymous
        || mapping.protection & READ_WRITE != READ_WRITE
        || mapping.addresses.end < old.end
    {
        return None;
    }
    let new = inside(|| pager.allocate_protected(new_bytes, 1, mapping.protection))?;
    // SAFETY: the content of `old` was copied, and `old` is not used any more.
    let unmap = || unsafe { libc::syscall(libc::SYS_munmap, old.start, old.len()) };
    // SAFETY: both ranges are mapped, and do not overlap.
    unsafe { ptr::copy_nonoverlapping(old.start as *const u8, new.start as *mut u8, old.len()) };
    counted::unmapped(old, unmap, |outcome| *outcome == 0);
    Some(new.start as *mut c_void)
}

/// The protection of the memory at `address`; readable and writable if nothing is mapped there.
fn protection_of(address: usize) -> u32 {
    let found = maps::all().into_iter().find(|it| it.addresses.contains(&address));
    found.map_or(READ_WRITE, |it| it.protection)
}
