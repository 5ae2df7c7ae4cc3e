//! The frames of a process: the DRAM for its resident pages. Frames are anonymous memory in huge
//! pages, which are allocated at the first use. *Plain* frames are in pages of 4 KiB instead,
//! because the content of plain frames is copied to a memory file (`crate::shared`) and not moved.

#![expect(unsafe_code, reason = "memory is mapped")]

use crate::{
    cache::node::Division,
    kernel::{
        memory::{self, Memory},
        uffd::Userfault,
    },
};
use interleaf_procfs::page::{HUGE_BYTES, PAGE_BYTES};
use rustix::{io, mm::Advice};
use std::{mem, ops::Range};

/// Number of uses of a split huge page of frames, counted from the split, at which the huge page is
/// collapsed again. Only uses of all its frames by one extent count. A collapse copies 2 MiB, which
/// takes about as long as moving 512 single pages in and out four times. A collapse at the first
/// use would be too costly for pages of a stream, which are used only once.
const COLLAPSED_AT_USE: u8 = 4;

/// Maximum number of frames that still hold their page after its content was copied to the program.
/// At this number, these pages are given back to the kernel. Until then they take up to 128 KiB in
/// addition to the budget.
const COPIED_MAX: usize = 32;

/// All frames of a budget. The DRAM of a frame is either mapped at the address of the frame, or has
/// moved to an address in a region.
#[derive(Debug)]
pub(crate) struct Frames {
    memory: Memory,
    /// For each huge page of frames, true if its memory was allocated.
    allocated: Vec<bool>,
    /// For each huge page of frames, 0 if it is not split. A move of a part of the huge page may
    /// split it, and sets the value to 1. Each later use of the whole huge page by one extent adds
    /// 1.
    split: Vec<u8>,
    /// For each frame, true if the frame was never used, and still has the zeros with which the
    /// kernel allocated it.
    untouched: Vec<bool>,
    /// For each frame, true if its DRAM was given back to the kernel (`release`).
    given_back: Vec<bool>,
    /// The addresses of each frame whose content was copied to the program, and not moved. The page
    /// of such a frame is not needed any more, because the extent is mapped.
    copied: Vec<Range<usize>>,
    /// True if the frames are bound to nodes of the machine.
    is_bound: bool,
    zeros: Box<[u8; PAGE_BYTES]>,
    /// True for plain frames, whose content is copied instead of moved. The kernel allocates the
    /// page of a plain frame at the first write to the frame.
    is_plain: bool,
}

impl Frames {
    /// Allocates the frames of a budget that is divided among nodes. Binds the frames of each node
    /// of `division` to a node of the machine; `numbers` has the numbers of these nodes.
    ///
    /// # Errors
    /// When memory cannot be mapped, or this process may not use a node.
    pub(crate) fn new(division: &Division, numbers: &[u32]) -> io::Result<Self> {
        let memory = Memory::frames(division.frames() as usize * PAGE_BYTES)?;
        for (node, number) in division.nodes().zip(numbers) {
            let start = memory.start() + division.first(node) as usize * PAGE_BYTES;
            let bytes = (division.max(node) as usize * PAGE_BYTES).next_multiple_of(HUGE_BYTES);
            if bytes > 0 {
                memory::bind(&(start..start + bytes), *number)?;
            }
        }
        Ok(Self { is_bound: !numbers.is_empty(), ..Self::with_memory(memory, false)? })
    }

    /// Makes plain frames, whose pages are copied instead of moved. A plain frame takes DRAM only
    /// while it holds content.
    pub(crate) fn plain(frames: u32) -> io::Result<Self> {
        Self::with_memory(Memory::plain(frames as usize * PAGE_BYTES)?, true)
    }

    fn with_memory(memory: Memory, is_plain: bool) -> io::Result<Self> {
        let huge_pages = memory.bytes() / HUGE_BYTES;
        let given_back = vec![false; memory.bytes() / PAGE_BYTES];
        Ok(Self {
            memory,
            allocated: vec![false; huge_pages],
            split: vec![0; huge_pages],
            untouched: given_back.clone(),
            given_back,
            copied: Vec::with_capacity(COPIED_MAX),
            is_bound: false,
            zeros: Box::new([0; PAGE_BYTES]),
            is_plain,
        })
    }

    pub(crate) const fn start(&self) -> usize {
        self.memory.start()
    }

    pub(crate) const fn addresses(&self) -> Range<usize> {
        self.memory.addresses()
    }

    /// The addresses of the frames in `part` (bytes from the first frame).
    const fn addresses_of(&self, part: &Range<usize>) -> Range<usize> {
        self.start() + part.start..self.start() + part.end
    }

    /// Allocates the pages of the frames in `part`, a range of bytes from the first frame. At the
    /// [`COLLAPSED_AT_USE`]-th use of a split huge page as a whole, also collapses the huge page.
    pub(crate) fn make(&mut self, part: &Range<usize>, userfault: &Userfault) -> io::Result<()> {
        if self.is_plain {
            return Ok(());
        }
        for huge in part.start / HUGE_BYTES..part.end.div_ceil(HUGE_BYTES) {
            if self.allocated[huge] {
                continue;
            }
            let start = huge * HUGE_BYTES;
            if memory::populate(self.memory.start() + start).is_err() {
                // SAFETY: no frame of the huge page was used yet.
                unsafe { self.memory.zero(start..start + HUGE_BYTES) };
            }
            self.untouched[start / PAGE_BYTES..][..HUGE_BYTES / PAGE_BYTES].fill(true);
            let address = self.memory.start() + start;
            // Pages return to their frames by `UFFDIO_MOVE`, whose destination must be registered.
            userfault.register(&(address..address + HUGE_BYTES))?;
            self.allocated[huge] = true;
        }
        for frame in part.start / PAGE_BYTES..part.end.div_ceil(PAGE_BYTES) {
            if mem::take(&mut self.given_back[frame]) {
                let address = self.memory.start() + frame * PAGE_BYTES;
                userfault.copy_pages(address, self.zeros.as_ptr() as usize, PAGE_BYTES)?;
            }
        }
        let split = &mut self.split[part.start / HUGE_BYTES];
        if part.len() == HUGE_BYTES && *split > 0 {
            *split += 1;
            if *split > COLLAPSED_AT_USE {
                *split = 0;
                // If the kernel has no free huge page, this call changes nothing, and the frames of
                // `part` stay single pages.
                memory::collapse(self.memory.start() + part.start);
            }
        }
        Ok(())
    }

    /// Notes that the pages of the frames in `part` (bytes from the first frame) move to a region.
    /// If `part` is shorter than a huge page, the move may split a huge page.
    pub(crate) fn note_move(&mut self, part: &Range<usize>) {
        if part.len() < HUGE_BYTES {
            self.split[part.start / HUGE_BYTES] = 1;
        }
    }

    /// True if the content of the frames in `part` (bytes from the first frame) is better copied to
    /// the program than moved: if it is a single page. To move a page, the kernel interrupts all
    /// CPUs that have run the program, also idle ones, which takes longer than a copy.
    ///
    /// A part of a huge page is moved, because the kernel cannot free this part alone after a copy.
    /// Frames that are bound to nodes are moved, because a copy may be on another node.
    pub(crate) fn should_copy(&self, part: &Range<usize>) -> bool {
        part.len() == PAGE_BYTES && self.split[part.start / HUGE_BYTES] > 0 && !self.is_bound
    }

    /// Notes that the content of the frame at `part` was copied to the program. The page of the
    /// frame is given back to the kernel later, together with those of other frames.
    pub(crate) fn note_copied(&mut self, part: &Range<usize>) {
        self.copied.push(self.addresses_of(part));
        if self.copied.len() == COPIED_MAX {
            self.release_copied();
        }
    }

    /// Gives the pages of copied frames back to the kernel if one of them is in `part` (bytes from
    /// the first frame).
    pub(crate) fn empty(&mut self, part: &Range<usize>) {
        let addresses = self.addresses_of(part);
        if self.copied.iter().any(|frame| addresses.contains(&frame.start)) {
            self.release_copied();
        }
    }

    fn release_copied(&mut self) {
        // SAFETY: the content of these frames was copied, and their extents are mapped, so no code
        // uses the frames.
        unsafe { memory::release_pages(&self.copied) };
        self.copied.clear();
    }

    /// Notes that the memory of the free frames in `from` moves to the frames in `to`. Both are
    /// ranges of bytes from the first frame.
    pub(crate) fn note_moved_memory(&mut self, from: &Range<usize>, to: &Range<usize>) {
        self.note_move(from);
        let (from, to) = (from.start / PAGE_BYTES..from.end / PAGE_BYTES, to.start / PAGE_BYTES);
        self.untouched.copy_within(from.clone(), to);
        self.untouched[from].fill(false);
    }

    /// Gives the pages of the frames in `part` (bytes from the first frame) back to the kernel.
    /// `make` allocates them again.
    pub(crate) fn release(&mut self, part: &Range<usize>) {
        for page in part.clone().step_by(PAGE_BYTES) {
            self.given_back[page / PAGE_BYTES] |= self.allocated[page / HUGE_BYTES];
        }
        // SAFETY: no extent uses these frames, so the content of the frames is not needed.
        let _ = unsafe { memory::advise(&self.addresses_of(part), Advice::LinuxDontNeed) };
    }

    /// Fills the frames in `part` (bytes from the first frame) with zeros. Skips frames that were
    /// never used, which are zeros already.
    ///
    /// # Safety
    /// The frames in `part` have pages, and no other code uses these frames.
    pub(crate) unsafe fn zero(&mut self, part: Range<usize>) {
        let mut used = part.start;
        for page in part.clone().step_by(PAGE_BYTES) {
            if mem::take(&mut self.untouched[page / PAGE_BYTES]) {
                // SAFETY: the caller guarantees that the frames in `part` have pages, and that no
                // other code uses these frames.
                unsafe { self.memory.zero(used..page) };
                used = page + PAGE_BYTES;
            }
        }
        // SAFETY: the caller gives the same guarantees for the rest of `part`: the frames have
        // pages, and no other code uses them.
        unsafe { self.memory.zero(used..part.end) }
    }

    /// Notes that the frames in `part` (bytes from the first frame) are filled with content. They
    /// no longer count as zeros.
    pub(crate) fn note_fill(&mut self, part: &Range<usize>) {
        self.untouched[part.start / PAGE_BYTES..part.end / PAGE_BYTES].fill(false);
    }

    /// The content of the plain frames in `part` (bytes from the first frame), writable. No other
    /// code uses these frames.
    pub(crate) fn part_mut(&mut self, part: Range<usize>) -> &mut [u8] {
        // SAFETY: the frames in `part` belong to one extent, and the borrow of `self` excludes
        // other users. The kernel allocates the page of a plain frame at the first access.
        unsafe { self.memory.part_mut(part) }
    }

    /// The bytes of the page that begins `at` bytes after the first frame. The page is not written
    /// to while its bytes are borrowed.
    pub(crate) fn page(&self, at: usize) -> &[u8] {
        self.part(at..at + PAGE_BYTES)
    }

    /// The content of the frames in `part` (bytes from the first frame). These frames are not
    /// written to while the result is borrowed.
    pub(crate) fn part(&self, part: Range<usize>) -> &[u8] {
        // SAFETY: callers pass only frames that have pages, not those of mapped extents. No code
        // writes to frames while `self` is borrowed.
        unsafe { self.memory.part(part) }
    }
}
