//! Implements the timed loops of loads and stores for AArch64. The text of a loop is the same for
//! NEON and SVE; only some pieces differ, such as `load` and `zero`.
//!
//! A vector of SVE has 16 to 256 bytes, a property of the machine. Four predicates divide a line
//! among vectors: each predicate selects the bytes of the line that are in one vector. If a vector
//! is as long as a line or longer, only the first predicate selects bytes.

#![expect(unsafe_code, reason = "loops are written in assembly")]

use super::{
    AccessKind, BATCH, Kernel, PAGE_BYTES, Shape,
    job::{Job, Run},
};
use crate::isa::Isa;
use std::arch::asm;

/// The NEON instructions of each piece of the loops. A cache line takes four vector registers.
macro_rules! neon {
    (begin) => {
        ""
    };
    (zero) => {
        "movi v0.2d, #0\nmovi v1.2d, #0\nmovi v2.2d, #0\nmovi v3.2d, #0"
    };
    (resume) => {
        "ldp q0, q1, [{job}]\nldp q2, q3, [{job}, #32]"
    };
    (spread) => {
        "dup v16.2d, {word}"
    };
    (load) => {
        "ldp q4, q5, [{t}]\nldp q6, q7, [{t}, #32]\n\
         add v0.2d, v0.2d, v4.2d\nadd v1.2d, v1.2d, v5.2d\n\
         add v2.2d, v2.2d, v6.2d\nadd v3.2d, v3.2d, v7.2d"
    };
    (store) => {
        "stp q16, q16, [{t}]\nstp q16, q16, [{t}, #32]"
    };
    (stream) => {
        "stnp q16, q16, [{t}]\nstnp q16, q16, [{t}, #32]"
    };
    (sum) => {
        "stp q0, q1, [{job}]\nstp q2, q3, [{job}, #32]"
    };
}

/// The SVE instructions of each piece of the loops. A cache line takes one to four vector
/// registers.
macro_rules! sve {
    (begin) => {
        ".arch_extension sve\n\
         mov {t}, #8\nmov {n}, #0\nwhilelt p0.d, {n}, {t}\n\
         incd {n}\nwhilelt p1.d, {n}, {t}\n\
         incd {n}\nwhilelt p2.d, {n}, {t}\n\
         incd {n}\nwhilelt p3.d, {n}, {t}"
    };
    (zero) => {
        "mov z0.d, #0\nmov z1.d, #0\nmov z2.d, #0\nmov z3.d, #0"
    };
    (resume) => {
        "ld1d {{z0.d}}, p0/z, [{job}]\nld1d {{z1.d}}, p1/z, [{job}, #1, mul vl]\n\
         ld1d {{z2.d}}, p2/z, [{job}, #2, mul vl]\nld1d {{z3.d}}, p3/z, [{job}, #3, mul vl]"
    };
    (spread) => {
        "mov z16.d, {word}"
    };
    (load) => {
        "ld1d {{z4.d}}, p0/z, [{t}]\nld1d {{z5.d}}, p1/z, [{t}, #1, mul vl]\n\
         ld1d {{z6.d}}, p2/z, [{t}, #2, mul vl]\nld1d {{z7.d}}, p3/z, [{t}, #3, mul vl]\n\
         add z0.d, z0.d, z4.d\nadd z1.d, z1.d, z5.d\n\
         add z2.d, z2.d, z6.d\nadd z3.d, z3.d, z7.d"
    };
    (store) => {
        "st1d {{z16.d}}, p0, [{t}]\nst1d {{z16.d}}, p1, [{t}, #1, mul vl]\n\
         st1d {{z16.d}}, p2, [{t}, #2, mul vl]\nst1d {{z16.d}}, p3, [{t}, #3, mul vl]"
    };
    (stream) => {
        "stnt1d {{z16.d}}, p0, [{t}]\nstnt1d {{z16.d}}, p1, [{t}, #1, mul vl]\n\
         stnt1d {{z16.d}}, p2, [{t}, #2, mul vl]\nstnt1d {{z16.d}}, p3, [{t}, #3, mul vl]"
    };
    (sum) => {
        "st1d {{z0.d}}, p0, [{job}]\nst1d {{z1.d}}, p1, [{job}, #1, mul vl]\n\
         st1d {{z2.d}}, p2, [{job}, #2, mul vl]\nst1d {{z3.d}}, p3, [{job}, #3, mul vl]"
    };
}

/// Writes the address of a line into `{t}`: a base address plus the offset `il_at`.
macro_rules! locate {
    ($from:literal) => {
        concat!(
            "add {t}, ",
            $from,
            ", #(il_at & 4095)\n",
            ".if il_at >> 12\nadd {t}, {t}, #(il_at >> 12), lsl #12\n.endif"
        )
    };
}

/// Repeats the given pieces of assembly for each line of a unit: for one line of each of `pages`
/// pages, then for the next line of each page, up to `lines` lines of each page.
macro_rules! unit {
    ($from:literal, $($piece:expr),+) => {
        concat!(
            ".set il_line, 0\n.rept {lines}\n.set il_at, il_line\n.rept {pages}\n",
            locate!($from), "\n",
            $($piece, "\n",)+
            ".set il_at, il_at + {page}\n.endr\n.set il_line, il_line + 64\n.endr"
        )
    };
}

/// Repeats the given pieces of assembly for each line of a unit. In contrast to `unit`, all `lines`
/// times `pages` lines are consecutive.
macro_rules! row {
    ($from:literal, $($piece:expr),+) => {
        concat!(
            ".set il_at, 0\n.rept {lines} * {pages}\n",
            locate!($from), "\n",
            $($piece, "\n",)+
            ".set il_at, il_at + 64\n.endr"
        )
    };
}

/// Advances the address `$at` to the next unit. After the last unit of a page, the address also
/// skips the other `pages` - 1 pages of the block, which were accessed in parallel with this page.
macro_rules! advance {
    ($at:literal, $skip:literal) => {
        concat!(
            "add ",
            $at,
            ", ",
            $at,
            ", #({lines} * 64)\n",
            ".if {pages} > 1\n",
            "tst ",
            $at,
            ", #({page} - 1)\nb.ne ",
            $skip,
            "f\n",
            "add ",
            $at,
            ", ",
            $at,
            ", #({pages} - 1), lsl #12\n",
            $skip,
            ":\n.endif"
        )
    };
}

/// Prefetches the line that is `ahead` bytes after the loaded line, to the cache level that `hint`
/// selects. If `ahead` is 0, there is no prefetch.
macro_rules! ahead {
    () => {
        ".if {ahead}\n\
         .if {hint} == 0\nprfm pldl1keep, [{t}, #{ahead}]\n\
         .elseif {hint} == 1\nprfm pldl1strm, [{t}, #{ahead}]\n\
         .else\nprfm pldl2keep, [{t}, #{ahead}]\n.endif\n\
         .endif"
    };
}

/// Prefetches the line that is `own` bytes after the stored line, to obtain its ownership. If `own`
/// is 0, there is no prefetch.
macro_rules! own {
    () => {
        ".if {own}\nprfm pstl1keep, [{t}, #{own}]\n.endif"
    };
}

/// Calls `asm!` with the declaration of the registers that all loops overwrite.
macro_rules! touched {
    ($($operand:tt)*) => {
        asm!(
            $($operand)*
            out("v0") _, out("v1") _, out("v2") _, out("v3") _, out("v4") _, out("v5") _,
            out("v6") _, out("v7") _, out("v16") _,
            out("p0") _, out("p1") _, out("p2") _, out("p3") _,
            options(nostack),
        )
    };
}

/// Defines a module with the loops of an instruction set.
macro_rules! loops {
    ($isa:ident, $kind:ident, $name:literal) => {
        pub(super) mod $isa {
            #![doc = $name]
            use super::*;

            /// Returns a kernel that only loads. The parameters are the fields of its `Shape`.
            pub(in super::super) fn reader<
                const PAGES: usize,
                const LINES: usize,
                const AHEAD: usize,
                const HINT: usize,
            >() -> Kernel {
                let shape = Shape::new(PAGES, LINES).ahead(AHEAD, HINT);
                let run = read::<LINES, PAGES, AHEAD, HINT>;
                kernel(AccessKind::Read, 0, shape, run)
            }

            /// Returns a kernel that only stores. The stores are non-temporal if `PAST` is 1. The
            /// other parameters are the fields of the kernel's `Shape`.
            pub(in super::super) fn writer<
                const PAST: usize,
                const PAGES: usize,
                const LINES: usize,
                const OWN: usize,
            >() -> Kernel {
                let shape = Shape::new(PAGES, LINES).own(OWN);
                kernel(AccessKind::Write, PAST, shape, write::<LINES, PAGES, PAST, OWN>)
            }

            /// Returns a kernel that loads from `BUFFERS` buffers, and stores. The stores are
            /// non-temporal if `PAST` is 1. The other parameters are the fields of the kernel's
            /// `Shape`.
            pub(in super::super) fn mixer<
                const BUFFERS: usize,
                const PAST: usize,
                const PAGES: usize,
                const LINES: usize,
                const FLAT: usize,
                const AHEAD: usize,
                const HINT: usize,
                const OWN: usize,
            >() -> Kernel {
                let shape = Shape::new(PAGES, LINES).ahead(AHEAD, HINT).own(OWN).flat(FLAT);
                let act = if BUFFERS == 2 { AccessKind::BothOfTwo } else { AccessKind::Both };
                let run = both::<BUFFERS, LINES, PAGES, PAST, FLAT, AHEAD, HINT, OWN>;
                kernel(act, PAST, shape, run)
            }

            fn kernel(act: AccessKind, past: usize, shape: Shape, run: Run) -> Kernel {
                let nontemporal = past == 1;
                let scatter = if nontemporal { scatter::<1> } else { scatter::<0> };
                Kernel { isa: Isa::$kind, act, nontemporal, shape, run, gather, scatter }
            }

            /// Runs the loop of a kernel that only loads.
            ///
            /// # Safety
            /// The caller meets the conditions of [`Run`].
            unsafe fn read<
                const LINES: usize,
                const PAGES: usize,
                const AHEAD: usize,
                const HINT: usize,
            >(
                job: &mut Job,
            ) {
                let at: *mut Job = job;
                // SAFETY: the caller meets the conditions of `Run`. The assembly reads only the
                // mapped buffer of the job, and writes only `job.sum`.
                unsafe {
                    touched!(
                        $isa!(begin),
                        $isa!(zero),
                        "2:",
                        unit!("{r}", $isa!(load), ahead!()),
                        advance!("{r}", "3"),
                        "subs {groups}, {groups}, #1",
                        "b.ne 2b",
                        $isa!(sum),
                        "/* {n} */",
                        job = in(reg) at,
                        r = inout(reg) job.read[0] => _,
                        groups = inout(reg) job.groups => _,
                        t = out(reg) _, n = out(reg) _,
                        lines = const LINES, pages = const PAGES, page = const PAGE_BYTES,
                        ahead = const AHEAD, hint = const HINT,
                    );
                }
            }

            /// Runs the loop of a kernel that only stores.
            ///
            /// # Safety
            /// The caller meets the conditions of [`Run`].
            unsafe fn write<
                const LINES: usize,
                const PAGES: usize,
                const PAST: usize,
                const OWN: usize,
            >(
                job: &mut Job,
            ) {
                // SAFETY: the caller meets the conditions of `Run`. The assembly writes only the
                // buffer of the job, which no other thread uses.
                unsafe {
                    touched!(
                        $isa!(begin),
                        $isa!(spread),
                        "2:",
                        ".if {past}",
                        unit!("{w}", $isa!(stream)),
                        ".else",
                        unit!("{w}", $isa!(store), own!()),
                        ".endif",
                        advance!("{w}", "3"),
                        "subs {groups}, {groups}, #1",
                        "b.ne 2b",
                        "/* {n} */",
                        w = inout(reg) job.write => _,
                        word = in(reg) job.word,
                        groups = inout(reg) job.groups => _,
                        t = out(reg) _, n = out(reg) _,
                        lines = const LINES, pages = const PAGES, page = const PAGE_BYTES,
                        past = const PAST, own = const OWN,
                    );
                }
            }

            /// Runs the loop of a kernel that loads and stores.
            ///
            /// # Safety
            /// The caller meets the conditions of [`Run`].
            unsafe fn both<
                const BUFFERS: usize,
                const LINES: usize,
                const PAGES: usize,
                const PAST: usize,
                const FLAT: usize,
                const AHEAD: usize,
                const HINT: usize,
                const OWN: usize,
            >(
                job: &mut Job,
            ) {
                let at: *mut Job = job;
                // SAFETY: the caller meets the conditions of `Run`. The assembly reads and writes
                // only the buffers of the job and `job.sum`.
                unsafe {
                    touched!(
                        $isa!(begin),
                        $isa!(zero),
                        $isa!(spread),
                        "2:",
                        "mov {n}, {loads}",
                        "4:",
                        unit!("{r}", $isa!(load), ahead!()),
                        advance!("{r}", "3"),
                        ".if {buffers} == 2",
                        "mov {t}, {r}", "mov {r}, {other}", "mov {other}, {t}",
                        ".endif",
                        "subs {n}, {n}, #1",
                        "b.ne 4b",
                        "mov {n}, {stores}",
                        "5:",
                        ".if {flat}",
                        ".if {past}", row!("{w}", $isa!(stream)),
                        ".else", row!("{w}", $isa!(store), own!()), ".endif",
                        "add {w}, {w}, #({lines} * {pages} * 64)",
                        ".else",
                        ".if {past}", unit!("{w}", $isa!(stream)),
                        ".else", unit!("{w}", $isa!(store), own!()), ".endif",
                        advance!("{w}", "6"),
                        ".endif",
                        "subs {n}, {n}, #1",
                        "b.ne 5b",
                        "subs {groups}, {groups}, #1",
                        "b.ne 2b",
                        $isa!(sum),
                        job = in(reg) at,
                        r = inout(reg) job.read[0] => _,
                        other = inout(reg) job.read[1] => _,
                        w = inout(reg) job.write => _,
                        word = in(reg) job.word,
                        loads = in(reg) job.loads,
                        stores = in(reg) job.stores,
                        groups = inout(reg) job.groups => _,
                        t = out(reg) _, n = out(reg) _,
                        buffers = const BUFFERS,
                        lines = const LINES, pages = const PAGES, page = const PAGE_BYTES,
                        past = const PAST, flat = const FLAT,
                        ahead = const AHEAD, hint = const HINT, own = const OWN,
                    );
                }
            }

            /// Loads the lines at the byte offsets `lines` of the first buffer, adds them to
            /// `job.sum`, and prefetches the lines at the offsets `ahead`, which a later call
            /// loads.
            ///
            /// # Safety
            /// The lines at the offsets `lines` are in the buffer.
            unsafe fn gather(
                job: &mut Job,
                lines: &[usize; BATCH],
                ahead: &[usize; BATCH],
            ) {
                let at: *mut Job = job;
                // SAFETY: the caller passes lines of the mapped buffer. The assembly reads only
                // these lines, and writes only `job.sum`.
                unsafe {
                    touched!(
                        $isa!(begin),
                        $isa!(resume),
                        ".set il_i, 0",
                        ".rept {count}",
                        "ldr {t}, [{ahead}, #il_i]",
                        "add {t}, {t}, {r}",
                        "prfm pldl1keep, [{t}]",
                        ".set il_i, il_i + 8",
                        ".endr",
                        ".set il_i, 0",
                        ".rept {count}",
                        "ldr {t}, [{lines}, #il_i]",
                        "add {t}, {t}, {r}",
                        $isa!(load),
                        ".set il_i, il_i + 8",
                        ".endr",
                        $isa!(sum),
                        "/* {n} */",
                        job = in(reg) at,
                        r = in(reg) job.read[0],
                        lines = in(reg) lines.as_ptr(),
                        ahead = in(reg) ahead.as_ptr(),
                        t = out(reg) _, n = out(reg) _,
                        count = const BATCH,
                    );
                }
            }

            /// Stores `job.word` to the lines at the byte offsets `lines` of the buffer, and
            /// prefetches the lines at the offsets `ahead`, to which a later call stores.
            ///
            /// # Safety
            /// The lines at the offsets `lines` are in the buffer, and no other thread uses them.
            unsafe fn scatter<const PAST: usize>(
                job: &mut Job,
                lines: &[usize; BATCH],
                ahead: &[usize; BATCH],
            ) {
                // SAFETY: the caller passes lines of the buffer that no other thread uses. The
                // assembly writes only these lines.
                unsafe {
                    touched!(
                        $isa!(begin),
                        $isa!(spread),
                        ".set il_i, 0",
                        ".rept {count}",
                        "ldr {t}, [{ahead}, #il_i]",
                        "add {t}, {t}, {w}",
                        ".if {past}", ".else", "prfm pstl1keep, [{t}]", ".endif",
                        ".set il_i, il_i + 8",
                        ".endr",
                        ".set il_i, 0",
                        ".rept {count}",
                        "ldr {t}, [{lines}, #il_i]",
                        "add {t}, {t}, {w}",
                        ".if {past}", $isa!(stream), ".else", $isa!(store), ".endif",
                        ".set il_i, il_i + 8",
                        ".endr",
                        "/* {n} */",
                        w = in(reg) job.write,
                        lines = in(reg) lines.as_ptr(),
                        ahead = in(reg) ahead.as_ptr(),
                        word = in(reg) job.word,
                        t = out(reg) _, n = out(reg) _,
                        past = const PAST, count = const BATCH,
                    );
                }
            }
        }
    };
}

loops!(neon, Neon, "Of NEON.");
loops!(sve, Sve, "Of SVE.");

/// Expands the macro `$table`, a list of kernels, with the name of the module that has the loops of
/// the instruction set `$isa`.
macro_rules! of {
    ($isa:expr, $table:ident) => {
        match $isa {
            Isa::Neon => $table!(neon),
            Isa::Sve => $table!(sve),
            Isa::Avx512 | Isa::Avx2 | Isa::Sse2 => vec![],
        }
    };
}
pub(super) use of;

/// Makes all earlier stores, non-temporal ones included, visible before all later stores.
pub(super) fn fence() {
    // SAFETY: every AArch64 processor has `dmb ishst`, which accesses no memory.
    unsafe { asm!("dmb ishst", options(nostack)) };
}
