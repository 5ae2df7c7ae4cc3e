//! Replaces `mmap(2)`, `munmap(2)`, `mprotect(2)`, `pkey_mprotect(2)` and `shmat(2)` for the
//! program. The pager carries out calls for extended memory, and the kernel carries out calls for
//! other memory.

use crate::{
    counted, errno, shared,
    start::{pager_for, shared_folder},
    state::{inside, pager, pager_over},
};
use interleaf_pager::{pager::Pager, serve::arena::Owner};
use interleaf_procfs::page::PAGE_BYTES;
use libc::{c_int, c_void, off_t, size_t};
use std::ops::Range;

/// Flags of mappings that can be extended: private anonymous memory, whose pages the pager can
/// provide.
const ANONYMOUS: c_int = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;

/// Flags of mappings that are not extended: huge pages, stacks, addresses in the lowest 2 GiB
/// (`MAP_32BIT`), and locked memory.
const NOT_EXTENDED: c_int =
    libc::MAP_HUGETLB | libc::MAP_STACK | libc::MAP_GROWSDOWN | libc::MAP_32BIT | libc::MAP_LOCKED;

/// The bits of a protection that the kernel applies to anonymous memory; `mmap(2)` ignores all
/// other bits.
const ACCESS: c_int = libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC;

const FIXED: c_int = libc::MAP_FIXED | libc::MAP_FIXED_NOREPLACE;

/// The addresses of the whole pages that cover `bytes` bytes from `address` on. `None` if the
/// address is not at the start of a page, or the range is empty or too long: the kernel refuses
/// such a range too.
pub(crate) fn pages(address: usize, bytes: usize) -> Option<Range<usize>> {
    let end = address.checked_add(bytes.checked_next_multiple_of(PAGE_BYTES)?)?;
    (address.is_multiple_of(PAGE_BYTES) && end > address).then_some(address..end)
}

/// Splits `pages` into the parts before, within and behind the address range that the pager
/// reserves for regions.
pub(crate) fn split(pager: &Pager, pages: &Range<usize>) -> [Range<usize>; 3] {
    let all = pager.addresses();
    let cut = |at: usize| at.clamp(pages.start, pages.end);
    let (first, last) = (cut(all.start), cut(all.end));
    [pages.start..first, first..last, last..pages.end]
}

/// Replaces `mmap(2)`. The pager makes private anonymous mappings of at least the size from which
/// memory is extended (`--min-alloc`). Shared anonymous mappings of such a size become shared
/// memory of the session. The kernel makes all other mappings.
///
/// # Safety
/// The caller must meet the conditions of `mmap(2)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mmap(
    address: *mut c_void,
    bytes: size_t,
    protection: c_int,
    flags: c_int,
    fd: c_int,
    offset: off_t,
) -> *mut c_void {
    let is_fixed = flags & FIXED != 0;
    // SAFETY: the caller meets the conditions of `mmap(2)`.
    let map = |address: usize, flags: c_int| unsafe {
        let offset = offset as libc::c_long;
        libc::syscall(libc::SYS_mmap, address, bytes, protection, flags, fd, offset) as *mut c_void
    };
    let kernel = || map(address as usize, flags);
    let can_extend = flags & ANONYMOUS == ANONYMOUS
        && flags & libc::MAP_SHARED_VALIDATE == libc::MAP_PRIVATE
        && flags & NOT_EXTENDED == 0;
    if is_fixed {
        let Some(pages) = pages(address as usize, bytes) else { return kernel() };
        let is_done = |at: &*mut c_void| *at != libc::MAP_FAILED;
        let map_fixed = || match pager_over(pages.start, pages.len()) {
            Some(pager) => inside(|| map_over(pager, &pages, protection, flags, can_extend, map)),
            None => shared::unmapped(&pages, kernel, is_done),
        };
        // Private anonymous mappings (`can_extend`) count as unextended memory. A new mapping of
        // this kind leaves the mappings that it replaces counted; a mapping of another kind removes
        // them from the count.
        return match can_extend {
            true => map_fixed(),
            false => counted::unmapped(&pages, map_fixed, is_done),
        };
    }
    if !can_extend {
        let is_shared = flags & libc::MAP_SHARED_VALIDATE == libc::MAP_SHARED
            && flags & libc::MAP_ANONYMOUS != 0
            && flags & NOT_EXTENDED == 0;
        let folder = if is_shared { shared_folder(bytes) } else { None };
        let mapped = folder.and_then(|folder| shared::map(folder, bytes, protection));
        return mapped.unwrap_or_else(kernel);
    }
    let region = pager_for(bytes)
        .and_then(|pager| inside(|| pager.allocate_protected(bytes, 1, protection as u32)));
    region.map_or_else(
        || {
            let found = kernel();
            if let Some(pages) = pages(found as usize, bytes)
                && found != libc::MAP_FAILED
            {
                counted::add(&pages);
            }
            found
        },
        |region| region.start as *mut c_void,
    )
}

/// Maps memory at addresses of which some are in the range that the pager reserves for regions. If
/// `can_extend` is true and all addresses are in that range, the pager maps the memory, otherwise
/// the kernel does. With `MAP_FIXED_NOREPLACE`, the call fails unless all addresses are free and
/// the pager maps the memory.
fn map_over(
    pager: &Pager,
    pages: &Range<usize>,
    protection: c_int,
    flags: c_int,
    can_extend: bool,
    map: impl Fn(usize, c_int) -> *mut c_void,
) -> *mut c_void {
    let [before, within, behind] = split(pager, pages);
    if flags & libc::MAP_FIXED_NOREPLACE != 0 {
        let is_free = pager.pieces(&within).iter().all(|(_, owner)| *owner == Owner::Free);
        if !is_free || !before.is_empty() || !behind.is_empty() {
            return errno::unmapped(libc::EEXIST);
        }
    }
    if can_extend && before.is_empty() && behind.is_empty() {
        // `mmap(2)` ignores the other bits of `protection`, but `mprotect(2)` would refuse them.
        return match pager.map(pages, (protection & ACCESS) as u32) {
            Ok(()) => pages.start as *mut c_void,
            Err(why) => errno::unmapped(why.raw_os_error().unwrap_or(libc::ENOMEM)),
        };
    }
    if flags & libc::MAP_FIXED_NOREPLACE != 0 {
        // To the program, the addresses are free. But the pager has reserved them, so the kernel
        // would refuse a mapping with `MAP_FIXED_NOREPLACE`.
        return errno::unmapped(libc::ENOMEM);
    }
    replace(pager, pages, flags, map)
}

/// Maps memory in place of `pages`, which may belong to regions. `map` makes a mapping; its
/// arguments are an address and flags. Except for huge pages, the mapping is made elsewhere first
/// and then moved, so that `pages` keep their content if the kernel refuses the mapping.
fn replace(
    pager: &Pager,
    pages: &Range<usize>,
    flags: c_int,
    map: impl Fn(usize, c_int) -> *mut c_void,
) -> *mut c_void {
    let [_, within, _] = split(pager, pages);
    if flags & libc::MAP_HUGETLB == 0 {
        let elsewhere = map(0, flags & !(FIXED | libc::MAP_32BIT));
        if elsewhere == libc::MAP_FAILED {
            return elsewhere;
        }
        pager.leave_to_kernel(&within);
        if move_mapping(elsewhere as usize, pages.len(), pages) == pages.start {
            return pages.start as *mut c_void;
        }
        // The kernel has refused the move: it cannot move the mappings of some devices.
        // SAFETY: the mapping at `elsewhere` was made above, and no other code uses it.
        unsafe { libc::syscall(libc::SYS_munmap, elsewhere, pages.len()) };
    } else {
        pager.leave_to_kernel(&within);
    }
    map(pages.start, flags)
}

/// Moves the mapping of `bytes` bytes at `from` to the addresses `pages`, where it replaces other
/// mappings (`mremap(2)`). The mapping grows or shrinks to the length of `pages`. Returns the new
/// address, or `usize::MAX` if the kernel refuses the move.
pub(crate) fn move_mapping(from: usize, bytes: usize, pages: &Range<usize>) -> usize {
    let flags = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED;
    // SAFETY: the mapping at `from` was made by the caller or belongs to the program, and the
    // program asked for a mapping at `pages`.
    unsafe {
        libc::syscall(libc::SYS_mremap, from, bytes, pages.len(), flags, pages.start) as usize
    }
}

/// Replaces `shmat(2)`: with `SHM_REMAP`, the segment may replace pages of extended memory.
///
/// # Safety
/// The caller must meet the conditions of `shmat(2)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn shmat(id: c_int, address: *const c_void, flags: c_int) -> *mut c_void {
    // SAFETY: the caller meets the conditions of `shmat(2)`.
    let attach = |address: usize, flags: c_int| unsafe {
        libc::syscall(libc::SYS_shmat, id, address, flags) as *mut c_void
    };
    let kernel = || attach(address as usize, flags);
    let start = match flags & libc::SHM_RND {
        0 => address as usize,
        _ => address as usize / PAGE_BYTES * PAGE_BYTES,
    };
    let replaces = flags & libc::SHM_REMAP != 0;
    let bytes = if replaces { segment_bytes(id) } else { None };
    let Some(pages) = bytes.and_then(|bytes| pages(start, bytes)) else { return kernel() };
    let is_done = |at: &*mut c_void| *at != libc::MAP_FAILED;
    let map = || match pager_over(pages.start, pages.len()) {
        Some(pager) => inside(|| {
            replace(pager, &pages, 0, |at, _| match at {
                0 => attach(0, flags & !(libc::SHM_REMAP | libc::SHM_RND)),
                _ => kernel(),
            })
        }),
        None => shared::unmapped(&pages, kernel, is_done),
    };
    counted::unmapped(&pages, map, is_done)
}

/// Size of a System V segment, bytes; `None` if this process may not read the size. The process may
/// then not attach the segment either.
fn segment_bytes(id: c_int) -> Option<usize> {
    // SAFETY: a structure of integers may be zero, and `shmctl(2)` writes only this structure.
    unsafe {
        let mut segment: libc::shmid_ds = std::mem::zeroed();
        (libc::shmctl(id, libc::IPC_STAT, &raw mut segment) == 0).then_some(segment.shm_segsz)
    }
}

/// Replaces `mmap64(2)`, which does the same as `mmap`.
///
/// # Safety
/// The caller must meet the conditions of `mmap64(2)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mmap64(
    address: *mut c_void,
    bytes: size_t,
    protection: c_int,
    flags: c_int,
    fd: c_int,
    offset: off_t,
) -> *mut c_void {
    // SAFETY: the caller meets the conditions of `mmap64(2)`, which are those of `mmap`.
    unsafe { mmap(address, bytes, protection, flags, fd, offset) }
}

/// Replaces `munmap(2)`: the pager unmaps pages in its address range, and the kernel all other
/// pages.
///
/// # Safety
/// The caller must meet the conditions of `munmap(2)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn munmap(address: *mut c_void, bytes: size_t) -> c_int {
    let found = pager_over(address as usize, bytes).zip(pages(address as usize, bytes));
    let Some((pager, pages)) = found else {
        // SAFETY: the caller meets the conditions of `munmap(2)`.
        let kernel = || unsafe { libc::syscall(libc::SYS_munmap, address, bytes) as c_int };
        let Some(pages) = pages(address as usize, bytes) else { return kernel() };
        return unmap_by_kernel(&pages, kernel);
    };
    let [before, within, behind] = split(pager, &pages);
    if let Err(why) = inside(|| pager.unmap(&within)) {
        return errno::failed(why.raw_os_error().unwrap_or(libc::ENOMEM));
    }
    for rest in [before, behind] {
        // SAFETY: the caller meets the conditions of `munmap(2)`, and `rest` is part of the
        // caller's range, outside the address range of the pager.
        let kernel = || unsafe { libc::syscall(libc::SYS_munmap, rest.start, rest.len()) as c_int };
        if !rest.is_empty() && unmap_by_kernel(&rest, kernel) != 0 {
            return -1;
        }
    }
    0
}

/// Unmaps `pages`, which the kernel manages, by the system call `kernel`. If the call succeeds, the
/// pages no longer count as unextended memory.
fn unmap_by_kernel(pages: &Range<usize>, kernel: impl FnOnce() -> c_int) -> c_int {
    let is_done = |outcome: &c_int| *outcome == 0;
    counted::unmapped(pages, || shared::unmapped(pages, kernel, is_done), is_done)
}

/// Changes the protection and the protection key of pages. Returns the result of the program's
/// call: 0, or -1 with `errno` set.
fn protect(address: usize, bytes: usize, protection: c_int, key: c_int) -> c_int {
    // SAFETY: the program asked for this change of its own memory.
    let kernel = || unsafe {
        libc::syscall(libc::SYS_pkey_mprotect, address, bytes, protection, key) as c_int
    };
    let Some((pager, pages)) = pager_over(address, bytes).zip(pages(address, bytes)) else {
        return kernel();
    };
    let [_, within, _] = split(pager, &pages);
    // To the program, the free addresses of the pager's range are not mapped, so the call fails
    // with `ENOMEM`. The kernel would not refuse it, because it has the whole range mapped.
    let is_free = |(_, owner): &(_, Owner)| *owner == Owner::Free;
    if inside(|| pager.pieces(&within)).iter().any(is_free) {
        return errno::failed(libc::ENOMEM);
    }
    kernel()
}

/// Replaces `mprotect(2)`: fails for free addresses of the range that the pager reserves for
/// regions.
///
/// # Safety
/// The caller must meet the conditions of `mprotect(2)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mprotect(address: *mut c_void, bytes: size_t, protection: c_int) -> c_int {
    // A key of -1 means no key (`pkey_mprotect(2)`).
    protect(address as usize, bytes, protection, -1)
}

/// Replaces `pkey_mprotect(2)`: refuses protection keys in the address range of the pager.
///
/// # Safety
/// The caller must meet the conditions of `pkey_mprotect(2)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pkey_mprotect(
    address: *mut c_void,
    bytes: size_t,
    protection: c_int,
    key: c_int,
) -> c_int {
    if key != -1 && pager().is_some() && pager_over(address as usize, bytes).is_some() {
        // The pager moves pages between regions and its frames. The kernel moves a page only
        // between mappings with the same protection key, and the mapping of the frames has no key.
        return errno::failed(libc::EINVAL);
    }
    protect(address as usize, bytes, protection, key)
}
