//! Runs the timed loops of loads and stores. The loops are written in assembly for each instruction
//! set, so they do not depend on the compiler.
//!
//! A kernel accesses its buffers in *units*. A *group* loads some units, from the read buffers in
//! turn, and then stores some units. [`Traffic`] gives the number of units to load and to store;
//! one of the two may be 0. A unit has consecutive lines of one page, or of several pages in
//! parallel. Prefetchers stop at the end of a page, so several pages keep more prefetchers busy. In
//! this example, the lines of each page are numbered in the order of access, and `|` separates
//! units:
//!
//! ```text
//! 1 page  x 4 lines    page 0: 0 1 2 3 | 4 5 6 7 | ...
//! 4 pages x 2 lines    page 0: 0 4     | 8 12    | ...
//!                      page 1: 1 5     | 9 13    | ...
//!                      page 2: 2 6     | ...
//!                      page 3: 3 7     | ...
//! ```
//!
//! Every loaded word is added to a sum, which is compared with the sum of the contents. Every store
//! writes a word that is different in each pass over the memory. The stored words are verified
//! after the measurement ([`Walk`]).

mod contents;

mod order;

mod job;

#[cfg(target_arch = "aarch64")]
mod aarch64;
#[cfg(target_arch = "x86_64")]
mod x86;
#[cfg(target_arch = "aarch64")]
use aarch64 as native;
#[cfg(target_arch = "x86_64")]
use x86 as native;

mod table;

mod walk;

pub use walk::{Checksums, Fault, TooSmall, Walk};

use crate::{isa::Isa, traffic::Traffic};
use job::{Run, Touch};
use std::fmt;

/// The shape of the accesses of a traffic kernel: pages, lines and prefetches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// The number of pages accessed in parallel: the kernel accesses a line of each page in turn.
    pub pages: usize,
    /// The number of consecutive lines of each page that one iteration of the loop accesses.
    pub lines: usize,
    /// True if stores go to one page at a time although loads go to several pages in parallel.
    pub flat_stores: bool,
    /// Prefetch distance of loads, bytes; 0 for no prefetch.
    pub ahead: usize,
    /// The cache level of the prefetch: `NEAR`, `ONCE` or `FAR`.
    pub hint: usize,
    /// Distance of the prefetch for ownership before stores, bytes; 0 for no prefetch.
    pub own: usize,
}

/// Prefetch hint ([`Shape::hint`]): to the first-level cache.
const NEAR: usize = 0;
/// Prefetch hint for data that are used once: to the first-level cache, bypassing the other caches
/// if the processor supports this (`prefetchnta`, `pldl1strm`).
#[cfg(any(test, feature = "search"))]
const ONCE: usize = 1;
/// Prefetch hint: to the second-level cache.
#[cfg(any(test, feature = "search"))]
const FAR: usize = 2;

impl Shape {
    const fn new(pages: usize, lines: usize) -> Self {
        Self { pages, lines, flat_stores: false, ahead: 0, hint: NEAR, own: 0 }
    }

    const fn ahead(self, ahead: usize, hint: usize) -> Self {
        Self { ahead, hint, ..self }
    }

    const fn own(self, own: usize) -> Self {
        Self { own, ..self }
    }

    const fn flat(self, flat: usize) -> Self {
        Self { flat_stores: flat == 1, ..self }
    }
}

/// The kind of accesses of a traffic kernel: loads, stores, or both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccessKind {
    /// Loads only.
    Read,
    /// Stores only.
    Write,
    /// Loads and stores, with loads from one buffer.
    Both,
    /// Loads and stores, with loads from two buffers in turn.
    BothOfTwo,
}

impl AccessKind {
    const fn of(traffic: &Traffic) -> Self {
        match (traffic.loads, traffic.stores, traffic.read_buffers) {
            (_, 0, _) => Self::Read,
            (0, _, _) => Self::Write,
            (loads, _, 2) if loads % 2 == 0 => Self::BothOfTwo,
            _ => Self::Both,
        }
    }
}

/// A timed loop of loads and stores in one instruction set.
#[derive(Clone, Copy)]
pub struct Kernel {
    pub isa: Isa,
    pub act: AccessKind,
    /// True if the kernel's stores bypass the caches.
    pub nontemporal: bool,
    pub shape: Shape,
    run: Run,
    gather: Touch,
    scatter: Touch,
}

/// Bytes of each of the [`Shape::pages`] pages that are accessed in parallel: 4 KiB, the smallest
/// page size of x86-64 and AArch64.
const PAGE_BYTES: usize = 4096;

/// The number of lines that one call of `gather` or `scatter` accesses, in random order.
const BATCH: usize = 8;

const LINE: usize = crate::traffic::LINE_BYTES as usize;

impl Kernel {
    /// Returns the fastest known kernel of the instruction set `isa` for `traffic`; `None` if this
    /// machine lacks the instruction set, or no kernel issues the traffic.
    pub fn best(isa: Isa, traffic: &Traffic) -> Option<Self> {
        Self::chosen(isa).into_iter().find(|kernel| kernel.serves(traffic))
    }

    /// Returns the fastest known kernel for `traffic` among all instruction sets of this machine;
    /// `None` if no kernel issues the traffic.
    pub fn best_here(traffic: &Traffic) -> Option<Self> {
        let order = table::order(AccessKind::of(traffic), traffic.nontemporal);
        order.into_iter().find_map(|isa| Self::best(isa, traffic))
    }

    /// Returns the fastest known kernels of an instruction set, one for each kind of access with
    /// ordinary and with non-temporal stores. Returns no kernel if this machine lacks the
    /// instruction set.
    fn chosen(isa: Isa) -> Vec<Self> {
        if isa.here().is_ok() { table::chosen(isa) } else { vec![] }
    }

    /// Returns the kernels of an instruction set that the search for the fastest kernels compared.
    #[cfg(any(test, feature = "search"))]
    pub fn candidates(isa: Isa) -> Vec<Self> {
        if isa.here().is_ok() { table::candidates(isa) } else { vec![] }
    }

    pub fn serves(&self, traffic: &Traffic) -> bool {
        let act = AccessKind::of(traffic);
        self.act == act && (act == AccessKind::Read || self.nontemporal == traffic.nontemporal)
    }

    /// Returns the number of buffers from which the kernel loads for `traffic`.
    const fn read_buffers(&self, traffic: &Traffic) -> usize {
        match (self.act, traffic.loads) {
            (AccessKind::BothOfTwo, _) => 2,
            (AccessKind::Write, _) | (_, 0) => 0,
            _ => 1,
        }
    }

    const fn unit_lines(&self) -> usize {
        self.shape.lines * self.shape.pages
    }

    /// Returns the number of lines of a block; a buffer has a whole number of blocks. If the loop
    /// accesses one page at a time, a block has the lines of one iteration (a unit). Otherwise, a
    /// block has all lines of the pages that are accessed in parallel.
    const fn block_lines(&self) -> usize {
        if self.shape.pages == 1 { self.shape.lines } else { self.shape.pages * PAGE_BYTES / LINE }
    }

    /// Returns the number of groups in a round. The kernel accesses whole blocks in a round, so a
    /// round has as many groups as a block has units. If a group loads two units and stores one, a
    /// round loads two blocks and stores one.
    const fn groups_in_round(&self) -> usize {
        self.block_lines() / self.unit_lines()
    }
}

impl fmt::Debug for Kernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

/// Formats a kernel, such as `avx512 both nt 4x8 flat ahead 512 once`: `nt` are non-temporal
/// stores, `4x8` are pages by lines, `flat` is [`Shape::flat_stores`], `512` is the prefetch
/// distance of loads in bytes, and `once` is the prefetch hint.
impl fmt::Display for Kernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let act = match self.act {
            AccessKind::Read => "read",
            AccessKind::Write => "write",
            AccessKind::Both => "both",
            AccessKind::BothOfTwo => "both-of-two",
        };
        let past = if self.nontemporal { " nt" } else { "" };
        let Shape { pages, lines, flat_stores, ahead, hint, own } = self.shape;
        write!(f, "{} {act}{past} {pages}x{lines}", self.isa)?;
        if flat_stores {
            f.write_str(" flat")?;
        }
        if ahead > 0 {
            let hint = [" near", " once", " far"].get(hint).copied().unwrap_or_default();
            write!(f, " ahead {ahead}{hint}")?;
        }
        if own > 0 { write!(f, " own {own}") } else { Ok(()) }
    }
}
