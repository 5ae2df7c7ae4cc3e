//! The C functions of the pager's library. The header `interleaf.h` documents each function for
//! users.

#![warn(missing_docs)]
#![expect(unsafe_code, reason = "its functions are called from C")]

mod failure;

use failure::{Failure, Status, answer};
use interleaf_pager::{cache::Settings, pager};
use interleaf_prefetch::advice::Advice;
use interleaf_procfs::page::PAGE_BYTES;
use interleaf_store::{FileStore, Options as StoreOptions};
use libc::{c_char, c_int, c_void, size_t};
use std::{
    collections::BTreeMap,
    ffi::{CStr, OsStr},
    ops::Range,
    os::unix::ffi::OsStrExt,
    path::Path,
    ptr,
    sync::{Mutex, PoisonError},
};

/// The smallest allowed value of `options.dram_bytes`: two huge pages of 2 MiB.
const DRAM_MIN: u64 = 4 << 20;

/// The default of `options.address_bytes`, for which users give 0: 1 TiB of virtual addresses for
/// all regions.
const ADDRESSES: u64 = 1 << 40;

/// The largest allowed value of `options.address_bytes`, 16 TiB: a pager numbers its pages of 4 KiB
/// with 32 bits.
const ADDRESSES_MAX: u64 = pager::ADDRESSES_MAX as u64;

/// An open pager, whose type in C is `interleaf_pager`.
#[derive(Debug)]
pub struct Pager {
    inner: pager::Pager,
    /// The requested size of each region, bytes, keyed by the address of the region's first byte.
    regions: Mutex<BTreeMap<usize, usize>>,
}

/// The options of [`interleaf_open`], whose type in C is `interleaf_options`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Options {
    size: size_t,
    dram_bytes: u64,
    address_bytes: u64,
    stores: *const *const c_char,
    store_count: size_t,
}

/// The counters of a pager, whose type in C is `interleaf_statistics`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Statistics {
    faults: u64,
    minor_faults: u64,
    read: u64,
    written: u64,
    prefetched: u64,
    prefetch_hits: u64,
    prefetch_wasted: u64,
}

/// Opens a pager with `options`, and writes its address to `*pager`.
///
/// # Safety
/// The pointers meet the requirements of `interleaf.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn interleaf_open(options: *const Options, pager: *mut *mut Pager) -> c_int {
    answer(|| {
        if options.is_null() || pager.is_null() {
            return Err(Failure::argument("options or pager is NULL", "give both"));
        }
        // SAFETY: the caller guarantees that `options` begins with the field `size`, in every
        // version.
        let size = unsafe { ptr::read(options.cast::<size_t>()) };
        if size < size_of::<Options>() {
            let why = format!("options.size is {size}, and not {}", size_of::<Options>());
            return Err(Failure::argument(why, "set it to sizeof(interleaf_options)"));
        }
        // SAFETY: the caller guarantees that `options` points at `size` bytes, and `size` is at
        // least the size of `Options`.
        let made = unsafe { open(&*options) }?;
        // SAFETY: the caller guarantees that `pager` points at a pointer.
        unsafe { *pager = Box::into_raw(Box::new(made)) };
        Ok(())
    })
}

/// Opens a pager with `options`, and checks their fields first.
///
/// # Safety
/// `options.stores` is null, or points at `store_count` pointers. Each of these is null or points
/// at a string.
unsafe fn open(options: &Options) -> Result<Pager, Failure> {
    let dram = options.dram_bytes;
    let frames = u32::try_from(dram / PAGE_BYTES as u64).ok().filter(|_| dram >= DRAM_MIN);
    let frames = frames.ok_or_else(|| {
        let why = format!("options.dram_bytes is {dram}, and not from 4 MiB to 16 TiB");
        Failure::argument(why, "the budget is what of DRAM all regions may use")
    })?;
    let bytes = if options.address_bytes == 0 { ADDRESSES } else { options.address_bytes };
    let bytes =
        usize::try_from(bytes).ok().filter(|_| bytes <= ADDRESSES_MAX).ok_or_else(|| {
            let why = format!("options.address_bytes is {bytes}, and not from 1 byte to 16 TiB");
            Failure::argument(why, "give 0 for the default, 1 TiB, or open several pagers")
        })?;
    if options.stores.is_null() || options.store_count == 0 {
        let hint = "name a folder on a drive, or a block device";
        return Err(Failure::argument("options has no store", hint));
    }
    // SAFETY: the caller guarantees that `options.stores` points at `store_count` pointers.
    let stores = unsafe { std::slice::from_raw_parts(options.stores, options.store_count) };
    if let Some(at) = stores.iter().position(|store| store.is_null()) {
        let why = format!("options.stores[{at}] is NULL");
        return Err(Failure::argument(why, "store_count is how many there are"));
    }
    // SAFETY: the caller guarantees that `store` points at a string, which outlives this call.
    let text = |store: &*const c_char| unsafe { CStr::from_ptr(*store) };
    let paths: Vec<&Path> =
        stores.iter().map(|store| Path::new(OsStr::from_bytes(text(store).to_bytes()))).collect();
    let store = FileStore::open_all(&paths, StoreOptions::default());
    let store = store.map_err(|refused| {
        Failure::new(Status::Store, format!("{}: {}", refused.store, refused.why), refused.hint)
    })?;
    let inner = pager::Pager::new(Settings::for_budget(frames), bytes, store)
        .map_err(|why| Failure::start(&why))?;
    Ok(Pager { inner, regions: Mutex::default() })
}

/// Closes a pager. Ignores a null pointer. In a forked child, the call does not affect the parent's
/// pager.
///
/// # Safety
/// `pager` is null or was opened by `interleaf_open`, and is not used after this call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn interleaf_close(pager: *mut Pager) {
    if !pager.is_null() {
        // SAFETY: the caller guarantees that `interleaf_open` made `pager`, and closes it only
        // once.
        drop(unsafe { Box::from_raw(pager) });
    }
}

/// Allocates a region of at least `bytes` bytes, and writes its address to `*memory`. If `align` is
/// not 0, the address is a multiple of `align`.
///
/// # Safety
/// `pager` is null or open, and `memory` is null or points at a pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn interleaf_alloc(
    pager: *mut Pager,
    bytes: size_t,
    align: size_t,
    memory: *mut *mut c_void,
) -> c_int {
    answer(|| {
        // SAFETY: the caller guarantees that `pager` is null or open, and that `memory` is null or
        // points at a pointer.
        let (pager, memory) = unsafe { (opened(pager)?, memory.as_mut()) };
        let memory = memory.ok_or_else(|| Failure::argument("memory is NULL", "give both"))?;
        if bytes == 0 || !(align == 0 || align.is_power_of_two()) {
            let why = format!("bytes is {bytes} and align {align}");
            let hint = "a region has one byte at least, and align is a power of two, or 0";
            return Err(Failure::argument(why, hint));
        }
        let region = pager.inner.allocate(bytes, align.max(PAGE_BYTES)).ok_or_else(|| {
            let why = format!("no {bytes} bytes of addresses are left");
            Failure::new(Status::NoMemory, why, "give options.address_bytes more")
        })?;
        pager.lock().insert(region.start, bytes);
        *memory = region.start as *mut c_void;
        Ok(())
    })
}

/// Frees the region that begins at `memory`, and fails if no region begins there. Ignores null. In
/// a forked child, which has no regions of the parent, the call does nothing.
///
/// # Safety
/// `pager` is null or open, and the region is not used after this call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn interleaf_free(pager: *mut Pager, memory: *mut c_void) -> c_int {
    answer(|| {
        if memory.is_null() {
            return Ok(());
        }
        // SAFETY: the caller guarantees that `pager` is null or open.
        if unsafe { pager.as_ref() }.is_some_and(|pager| !pager.inner.is_served()) {
            return Ok(());
        }
        // SAFETY: the caller guarantees that `pager` is null or open.
        let pager = unsafe { opened(pager) }?;
        let start = memory as usize;
        let bytes = pager.lock().remove(&start).ok_or_else(|| {
            let hint = "give what interleaf_alloc gave, once, and the same pager";
            Failure::argument(format!("no region begins at {memory:p}"), hint)
        })?;
        pager.inner.free(&(start..(start + bytes).next_multiple_of(PAGE_BYTES)));
        Ok(())
    })
}

/// Tells the pager how `bytes` bytes of a region, from `memory` on, will be used. `advice` is a
/// value of `interleaf_advice`.
///
/// # Safety
/// `pager` is null or open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn interleaf_advise(
    pager: *mut Pager,
    memory: *mut c_void,
    bytes: size_t,
    advice: c_int,
) -> c_int {
    answer(|| {
        // SAFETY: the caller guarantees that `pager` is null or open.
        let pager = unsafe { opened(pager) }?;
        let advice = match advice {
            0 => Advice::Normal,
            1 => Advice::Random,
            2 => Advice::Sequential,
            3 => Advice::WillNeed,
            4 => Advice::Cold,
            _ => {
                let hint = "it is one of interleaf_advice";
                return Err(Failure::argument(format!("advice is {advice}"), hint));
            }
        };
        let part = pager.check_range(memory, bytes)?;
        if !part.is_empty() {
            let start = part.start / PAGE_BYTES * PAGE_BYTES;
            pager.inner.advise(&(start..part.end.next_multiple_of(PAGE_BYTES)), advice);
        }
        Ok(())
    })
}

/// Discards the content of `bytes` bytes of a region, from `memory` on. They are 0 afterwards.
///
/// # Safety
/// `pager` is null or open, and the program does not use these bytes during the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn interleaf_discard(
    pager: *mut Pager,
    memory: *mut c_void,
    bytes: size_t,
) -> c_int {
    answer(|| {
        // SAFETY: the caller guarantees that `pager` is null or open.
        let pager = unsafe { opened(pager) }?;
        let part = pager.check_range(memory, bytes)?;
        let zero = |part: Range<usize>| {
            // SAFETY: `check_range` has found that a region contains this range, and the caller
            // guarantees that no other thread uses it during the call.
            unsafe { ptr::write_bytes(part.start as *mut u8, 0, part.len()) }
        };
        let pages = part.start.next_multiple_of(PAGE_BYTES)..part.end / PAGE_BYTES * PAGE_BYTES;
        if pages.start >= pages.end {
            zero(part);
            return Ok(());
        }
        zero(part.start..pages.start);
        zero(pages.end..part.end);
        pager.inner.discard(&pages);
        Ok(())
    })
}

/// Writes the counters of a pager to `*statistics`.
///
/// # Safety
/// `pager` is null or open, and `statistics` is null or points at `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn interleaf_get_statistics(
    pager: *mut Pager,
    statistics: *mut Statistics,
    size: size_t,
) -> c_int {
    answer(|| {
        // SAFETY: the caller guarantees that `pager` is null or open.
        let pager = unsafe { opened(pager) }?;
        if statistics.is_null() || size < size_of::<Statistics>() {
            let why = format!("statistics is {statistics:p} and size {size}");
            return Err(Failure::argument(why, "size is sizeof(interleaf_statistics)"));
        }
        let counts = pager.inner.counts();
        let found = Statistics {
            faults: counts.faults,
            minor_faults: counts.minor_faults,
            read: counts.read,
            written: counts.written,
            prefetched: counts.prefetched,
            prefetch_hits: counts.prefetch_hits,
            prefetch_wasted: counts.prefetch_wasted,
        };
        // SAFETY: the caller guarantees that `statistics` points at `size` bytes, and `size` is at
        // least the size of `Statistics`.
        unsafe { ptr::write(statistics, found) };
        Ok(())
    })
}

/// Returns the message of the last failed call in this thread.
#[unsafe(no_mangle)]
pub extern "C" fn interleaf_message() -> *const c_char {
    failure::message()
}

/// Returns the version of this library, which is the version of the crate.
#[unsafe(no_mangle)]
pub extern "C" fn interleaf_version() -> *const c_char {
    concat!(env!("CARGO_PKG_VERSION"), "\0").as_ptr().cast()
}

/// Returns the pager at `pager`. Fails if `pager` is null, or in a forked child of the process that
/// opened the pager.
///
/// # Safety
/// `pager` points at an open pager, or is null.
unsafe fn opened<'a>(pager: *mut Pager) -> Result<&'a Pager, Failure> {
    // SAFETY: the caller guarantees that `pager` points at an open pager, or is null.
    let pager = unsafe { pager.as_ref() };
    let pager =
        pager.ok_or_else(|| Failure::argument("pager is NULL", "open one with interleaf_open"))?;
    match pager.inner.is_served() {
        true => Ok(pager),
        false => Err(Failure::argument(
            "the pager belongs to the parent of this process",
            "open one in the child with interleaf_open",
        )),
    }
}

impl Pager {
    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<usize, usize>> {
        self.regions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the address range of the `bytes` bytes from `memory` on. Fails if no region contains
    /// this whole range.
    fn check_range(&self, memory: *mut c_void, bytes: usize) -> Result<Range<usize>, Failure> {
        let start = memory as usize;
        let end = start.checked_add(bytes);
        let region = self.lock().range(..=start).next_back().map(|(start, bytes)| start + bytes);
        match (end, region) {
            (Some(end), Some(last)) if end <= last => Ok(start..end),
            _ => {
                let why = format!("no region has {bytes} bytes from {memory:p} on");
                Err(Failure::argument(why, "give a part of one that was not freed"))
            }
        }
    }
}
