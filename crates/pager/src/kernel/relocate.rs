//! Moves pages between a region and the frames.
//!
//! `UFFDIO_MOVE` requires that source and destination have the same protection, are writable, and
//! are each within one mapping. A program may give some pages of a region another protection. If
//! `UFFDIO_MOVE` of a whole extent therefore fails, the extent is moved page by page. If the move
//! of a single page fails too, the page is copied into the region, or moved out of the region by
//! `mremap(2)`.
//!
//! A program may also map or unmap pages of a region by a system call that the preloaded library
//! does not see. If the right content of a page is then unknown, the program is ended, so that it
//! never continues with wrong content.

#![expect(unsafe_code, reason = "pages are moved under the program")]

use crate::{
    fatal::fatal,
    kernel::{
        memory::{self, Memory},
        uffd::Userfault,
    },
};
use interleaf_procfs::{files::Files, maps, page::PAGE_BYTES};
use rustix::{
    io::{self, Errno},
    mm::Advice,
};
use std::{
    cell::Cell,
    fs::File,
    ops::Range,
    os::unix::fs::FileExt,
    time::{Duration, Instant},
};

/// Maximum number of retries of a move from a frame that a finished transfer of the store still
/// pins for a moment. All retries together take a few hundred ms.
const FRAME_TRIES: u32 = 100_000;

/// Maximum number of retries of a move of a page that the kernel has pinned for the program. The
/// number is small, because such a pin may last long. See also [`PINNED_RECENTLY`].
const PAGE_TRIES: u32 = 100;

/// Time after a pinned page was found during which each move of a page is retried only once.
/// Otherwise the pager would spend [`PAGE_TRIES`] retries on each page of a large transfer. For
/// example, MPI pins 4 MiB of another rank at a time: without this limit, a run with 24 MiB for
/// each rank took a minute instead of 4 s.
const PINNED_RECENTLY: Duration = Duration::from_millis(50);

/// The error of an unmap of pages that the kernel has pinned for the program, for example for a
/// transfer of a device. The pages stay mapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pinned;

/// Moves pages from frames to regions and back.
#[derive(Debug)]
pub(crate) struct Relocator {
    /// An address range of one page. A page that `UFFDIO_MOVE` cannot move out of a region moves to
    /// this range first, by `mremap(2)`.
    lift_area: Memory,
    zeros: Box<[u8; PAGE_BYTES]>,
    /// The time at which a move last failed because the page was pinned; `None` before the first
    /// such failure.
    last_pinned: Cell<Option<Instant>>,
}

impl Relocator {
    pub(crate) fn new() -> io::Result<Self> {
        let last_pinned = Cell::new(None);
        Ok(Self {
            lift_area: Memory::reserve(PAGE_BYTES)?,
            zeros: Box::new([0; PAGE_BYTES]),
            last_pinned,
        })
    }

    /// Moves `bytes` bytes of pages from the frames at address `frame` to the program's addresses
    /// from `page` on. Wakes the threads that wait for these pages.
    pub(crate) fn map_in(&self, faults: &Userfault, page: usize, frame: usize, bytes: usize) {
        // SAFETY: the cache maps only extents whose content is in the frames. The pages belong to
        // regions.
        let moved = unsafe { faults.uffdio_move(page, frame, bytes, FRAME_TRIES) };
        let Err((mut done, _)) = moved else { return };
        while done < bytes {
            self.map_one(faults, page + done, frame + done);
            done += PAGE_BYTES;
        }
    }

    fn map_one(&self, faults: &Userfault, page: usize, frame: usize) {
        // SAFETY: the cache maps only extents whose content is in the frames, and the page belongs
        // to a region.
        if unsafe { faults.uffdio_move(page, frame, PAGE_BYTES, 1) }.is_ok() {
            return;
        }
        match faults.copy_pages(page, frame, PAGE_BYTES) {
            // `NOENT` or `INVAL`: the program has unmapped the address, and does not need the
            // content any more.
            Ok(()) | Err(Errno::NOENT | Errno::INVAL) => {}
            Err(Errno::EXIST) => self.reconcile(faults, page, frame),
            Err(why) => fatal(format_args!("page {page:#x} cannot be mapped: {why}")),
        }
        empty(frame);
    }

    /// Handles a frame that cannot be mapped because the program already has a page at the address
    /// `page`. The program keeps its page, and the content of the frame is dropped. No content is
    /// lost if page and frame have the same content, or if the frame is all zeros. Otherwise ends
    /// the program.
    fn reconcile(&self, faults: &Userfault, page: usize, frame: usize) {
        // SAFETY: the page of the frame was not moved, and no other code uses the frame.
        let new = unsafe { std::slice::from_raw_parts(frame as *const u8, PAGE_BYTES) };
        let mut old = [0; PAGE_BYTES];
        let is_read = File::open("/proc/self/mem")
            .and_then(|memory| memory.read_exact_at(&mut old, page as u64));
        if new != &self.zeros[..] && (is_read.is_err() || new != old) {
            fatal(format_args!("page {page:#x} was filled by another thread"));
        }
        let _ = faults.wake(&(page..page + PAGE_BYTES));
    }

    /// Moves `bytes` bytes of pages from the program's addresses from `page` on to the frames at
    /// address `frame`. Returns true if some pages were missing. The frames of missing pages are
    /// filled with zeros.
    pub(crate) fn unmap_out(
        &self,
        faults: &Userfault,
        frame: usize,
        page: usize,
        bytes: usize,
    ) -> Result<bool, Pinned> {
        // SAFETY: the extent is mapped, so its frames have no pages. The pages belong to regions.
        let moved = unsafe { faults.uffdio_move(frame, page, bytes, 1) };
        let Err((mut done, _)) = moved else { return Ok(false) };
        let mut is_missing = false;
        while done < bytes {
            match self.unmap_one(faults, frame + done, page + done) {
                Ok(missing) => is_missing |= missing,
                Err(Pinned) => {
                    self.map_in(faults, page, frame, done);
                    return Err(Pinned);
                }
            }
            done += PAGE_BYTES;
        }
        Ok(is_missing)
    }

    fn unmap_one(&self, faults: &Userfault, frame: usize, page: usize) -> Result<bool, Pinned> {
        let was_pinned =
            self.last_pinned.get().is_some_and(|last| last.elapsed() < PINNED_RECENTLY);
        let tries = if was_pinned { 1 } else { PAGE_TRIES };
        // SAFETY: the extent is mapped, so the frame has no page. The page belongs to a region.
        match unsafe { faults.uffdio_move(frame, page, PAGE_BYTES, tries) } {
            Ok(()) => return Ok(false),
            Err((_, Errno::BUSY)) => {
                self.last_pinned.set(Some(Instant::now()));
                return Err(Pinned);
            }
            Err((_, Errno::NOENT)) => {}
            Err(_) => {
                if !self.lift(faults, frame, page, tries)? {
                    return Ok(false);
                }
            }
        }
        self.fill(faults, frame, PAGE_BYTES);
        Ok(true)
    }

    /// Moves a page to a frame in two steps: by `mremap(2)` to `lift_area`, then by `UFFDIO_MOVE`
    /// to the frame. Returns true if the page is missing.
    fn lift(
        &self,
        faults: &Userfault,
        frame: usize,
        page: usize,
        tries: u32,
    ) -> Result<bool, Pinned> {
        let (pages, area) = (page..page + PAGE_BYTES, self.lift_area.start());
        // SAFETY: the page belongs to a region, and only this function uses the addresses of
        // `lift_area`.
        match unsafe { memory::lift_out(&pages, area) } {
            Ok(()) => {}
            // The program has mapped other memory at the address.
            Err(Errno::FAULT | Errno::INVAL) => return Ok(true),
            Err(why) => fatal(format_args!("page {page:#x} cannot be taken back: {why}")),
        }
        let move_up_to = |tries| {
            // SAFETY: only this function uses the page at `lift_area`, and the frame has no page.
            unsafe { faults.uffdio_move(frame, area, PAGE_BYTES, tries) }
        };
        let mut moved = move_up_to(tries);
        if matches!(moved, Err((_, Errno::BUSY))) {
            // The mapping at `page` that `lift_out` has left without pages still has the protection
            // of the page.
            if let Some(protection) = protection_of(page) {
                self.last_pinned.set(Some(Instant::now()));
                put_back(faults, &pages, area, protection);
                return Err(Pinned);
            }
            moved = move_up_to(FRAME_TRIES);
        }
        match moved {
            Ok(()) => Ok(false),
            Err((_, Errno::NOENT)) => Ok(true),
            Err((_, why)) => fatal(format_args!("page {page:#x} is stuck: {why}")),
        }
    }

    /// Clears the page table entries of `pages`, where no page is mapped, including the entries of
    /// poisoned pages (`MADV_DONTNEED`). Since Linux 6.14 the call also frees an empty page table,
    /// so that a huge page can move to these addresses.
    pub(crate) fn clear(&self, pages: &Range<usize>) {
        // SAFETY: no page is mapped at these addresses, so no content is lost.
        let _ = unsafe { memory::advise(pages, Advice::LinuxDontNeed) };
    }

    /// Drops the pages from `page` on, which are pinned, and whose content is not needed any more.
    /// Fills their frames with zeros.
    pub(crate) fn drop_pinned(&self, faults: &Userfault, frame: usize, page: usize, bytes: usize) {
        empty_all(&(page..page + bytes));
        self.fill(faults, frame, bytes);
    }

    /// Allocates zeroed pages for the frames at address `frame`, which have no pages. `bytes` is
    /// the size of the frames.
    fn fill(&self, faults: &Userfault, frame: usize, bytes: usize) {
        for frame in (frame..frame + bytes).step_by(PAGE_BYTES) {
            let filled = faults.copy_pages(frame, self.zeros.as_ptr() as usize, PAGE_BYTES);
            if let Err(why) = filled {
                fatal(format_args!("a frame cannot be filled: {why}"));
            }
        }
    }
}

/// Moves a pinned page from the lift area back to its address, and wakes the threads that wait for
/// the page. Gives the page the protection `protection`, which the caller has read some µs before.
/// If another thread changes the protection of the page in between, this change is lost.
fn put_back(faults: &Userfault, pages: &Range<usize>, area: usize, protection: u32) {
    // SAFETY: the page belongs to a region, and `lift_out` has moved it to the lift area, which
    // only `lift` uses.
    let is_back = unsafe { memory::put_back(pages, area, protection) };
    if let Err(why) = is_back.and_then(|()| faults.register(pages)) {
        fatal(format_args!("pinned page {:#x} cannot be put back: {why}", pages.start));
    }
    let _ = faults.wake(pages);
}

/// The protection (`PROT_...`) of the private mapping at an address; `None` if no private mapping
/// contains the address, or if the mappings cannot be read.
fn protection_of(address: usize) -> Option<u32> {
    let text = Files::live().read("proc/self/maps").ok().flatten()?;
    let mut found = maps::mappings(&text);
    let mapping = found.find(|it| it.addresses.contains(&(address as u64)))?;
    mapping.is_private().then(|| mapping.protection())
}

/// Gives the page of a frame back to the kernel.
fn empty(frame: usize) {
    empty_all(&(frame..frame + PAGE_BYTES));
}

fn empty_all(pages: &Range<usize>) {
    // SAFETY: the callers do not need the content of the pages any more.
    if let Err(why) = unsafe { memory::advise(pages, Advice::LinuxDontNeed) } {
        fatal(format_args!("pages at {:#x} cannot be given back: {why}", pages.start));
    }
}
