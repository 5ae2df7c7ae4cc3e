//! Implements the timed loops of loads and stores for x86-64.
//!
//! The text of a loop is the same for all instruction sets; only some pieces differ, such as the
//! piece that loads a line and adds it to the sum, and the piece that stores a line. The assembler
//! repeats these pieces for each line of a unit; its symbol `il_at` is the offset of the line in
//! the unit.

#![expect(unsafe_code, reason = "loops are written in assembly")]

use super::{
    AccessKind, BATCH, Kernel, PAGE_BYTES, Shape,
    job::{Job, Run},
};
use crate::isa::Isa;
use std::arch::asm;

/// The AVX-512 instructions of each piece of the loops. A cache line takes one vector register.
macro_rules! avx512 {
    (zero) => {
        "vpxorq zmm0, zmm0, zmm0"
    };
    (resume) => {
        "vmovdqa64 zmm0, [{job}]"
    };
    (spread) => {
        "vpbroadcastq zmm4, {word}"
    };
    (load $from:literal) => {
        concat!("vpaddq zmm0, zmm0, [", $from, " + il_at]")
    };
    (store $to:literal) => {
        concat!("vmovdqa64 [", $to, " + il_at], zmm4")
    };
    (stream $to:literal) => {
        concat!("vmovntdq [", $to, " + il_at], zmm4")
    };
    (sum) => {
        "vmovdqa64 [{job}], zmm0\nvzeroupper"
    };
    (forget) => {
        "vzeroupper"
    };
}

/// The AVX2 instructions of each piece of the loops. A cache line takes two vector registers.
macro_rules! avx2 {
    (zero) => {
        "vpxor ymm0, ymm0, ymm0\nvpxor ymm1, ymm1, ymm1"
    };
    (resume) => {
        "vmovdqa ymm0, [{job}]\nvmovdqa ymm1, [{job} + 32]"
    };
    (spread) => {
        "vmovq xmm4, {word}\nvpbroadcastq ymm4, xmm4"
    };
    (load $from:literal) => {
        concat!(
            "vpaddq ymm0, ymm0, [",
            $from,
            " + il_at]\n",
            "vpaddq ymm1, ymm1, [",
            $from,
            " + il_at + 32]"
        )
    };
    (store $to:literal) => {
        concat!("vmovdqa [", $to, " + il_at], ymm4\n", "vmovdqa [", $to, " + il_at + 32], ymm4")
    };
    (stream $to:literal) => {
        concat!("vmovntdq [", $to, " + il_at], ymm4\n", "vmovntdq [", $to, " + il_at + 32], ymm4")
    };
    (sum) => {
        "vmovdqa [{job}], ymm0\nvmovdqa [{job} + 32], ymm1\nvzeroupper"
    };
    (forget) => {
        "vzeroupper"
    };
}

/// The SSE2 instructions of each piece of the loops. A cache line takes four vector registers.
macro_rules! sse2 {
    (zero) => {
        "pxor xmm0, xmm0\npxor xmm1, xmm1\npxor xmm2, xmm2\npxor xmm3, xmm3"
    };
    (resume) => {
        "movdqa xmm0, [{job}]\nmovdqa xmm1, [{job} + 16]\n\
         movdqa xmm2, [{job} + 32]\nmovdqa xmm3, [{job} + 48]"
    };
    (spread) => { "movq xmm4, {word}\npunpcklqdq xmm4, xmm4" };
    (load $from:literal) => {
        concat!(
            "paddq xmm0, [", $from, " + il_at]\n",
            "paddq xmm1, [", $from, " + il_at + 16]\n",
            "paddq xmm2, [", $from, " + il_at + 32]\n",
            "paddq xmm3, [", $from, " + il_at + 48]"
        )
    };
    (store $to:literal) => { sse2!(four "movdqa", $to) };
    (stream $to:literal) => { sse2!(four "movntdq", $to) };
    (four $move:literal, $to:literal) => {
        concat!(
            $move, " [", $to, " + il_at], xmm4\n",
            $move, " [", $to, " + il_at + 16], xmm4\n",
            $move, " [", $to, " + il_at + 32], xmm4\n",
            $move, " [", $to, " + il_at + 48], xmm4"
        )
    };
    (sum) => {
        "movdqa [{job}], xmm0\nmovdqa [{job} + 16], xmm1\n\
         movdqa [{job} + 32], xmm2\nmovdqa [{job} + 48], xmm3"
    };
    (forget) => { "" };
}

/// Repeats the given pieces of assembly for each line of a unit: for one line of each of `pages`
/// pages, then for the next line of each page, up to `lines` lines of each page.
macro_rules! unit {
    ($($piece:expr),+) => {
        concat!(
            ".set il_line, 0\n.rept {lines}\n.set il_at, il_line\n.rept {pages}\n",
            $($piece, "\n",)+
            ".set il_at, il_at + {page}\n.endr\n.set il_line, il_line + 64\n.endr"
        )
    };
}

/// Repeats a piece of assembly for each line of a unit. In contrast to `unit`, all `lines` times
/// `pages` lines are consecutive.
macro_rules! row {
    ($piece:expr) => {
        concat!(
            ".set il_at, 0\n.rept {lines} * {pages}\n",
            $piece,
            "\n.set il_at, il_at + 64\n.endr"
        )
    };
}

/// Advances the address `$at` to the next unit. After the last unit of a page, the address also
/// skips the other `pages` - 1 pages of the block, which were accessed in parallel with this page.
macro_rules! advance {
    ($at:literal, $skip:literal) => {
        concat!(
            ".if {pages} == 1\nadd ",
            $at,
            ", {lines} * 64\n",
            ".else\nadd ",
            $at,
            ", {lines} * 64\n",
            "test ",
            $at,
            ", {page} - 1\njnz ",
            $skip,
            "f\n",
            "add ",
            $at,
            ", ({pages} - 1) * {page}\n",
            $skip,
            ":\n.endif"
        )
    };
}

/// Prefetches the line that is `ahead` bytes after the loaded line, to the cache level that `hint`
/// selects. If `ahead` is 0, there is no prefetch.
macro_rules! ahead {
    ($from:literal) => {
        concat!(
            ".if {ahead}\n",
            ".if {hint} == 0\nprefetcht0 [",
            $from,
            " + il_at + {ahead}]\n",
            ".elseif {hint} == 1\nprefetchnta [",
            $from,
            " + il_at + {ahead}]\n",
            ".else\nprefetcht1 [",
            $from,
            " + il_at + {ahead}]\n.endif\n",
            ".endif"
        )
    };
}

/// Prefetches the line that is `own` bytes after the stored line, to obtain its ownership. If `own`
/// is 0, there is no prefetch.
macro_rules! own {
    ($to:literal) => {
        concat!(".if {own}\nprefetchw [", $to, " + il_at + {own}]\n.endif")
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
            pub(in super::super) unsafe fn read<
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
                    asm!(
                        $isa!(zero),
                        "2:",
                        unit!($isa!(load "{r}"), ahead!("{r}")),
                        advance!("{r}", "3"),
                        "dec {groups}",
                        "jnz 2b",
                        $isa!(sum),
                        job = in(reg) at,
                        r = inout(reg) job.read[0] => _,
                        groups = inout(reg) job.groups => _,
                        lines = const LINES, pages = const PAGES, page = const PAGE_BYTES,
                        ahead = const AHEAD, hint = const HINT,
                        out("xmm0") _, out("xmm1") _, out("xmm2") _, out("xmm3") _,
                        options(nostack),
                    );
                }
            }

            /// Runs the loop of a kernel that only stores.
            ///
            /// # Safety
            /// The caller meets the conditions of [`Run`].
            pub(in super::super) unsafe fn write<
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
                    asm!(
                        $isa!(spread),
                        "2:",
                        ".if {past}",
                        unit!($isa!(stream "{w}")),
                        ".else",
                        unit!($isa!(store "{w}"), own!("{w}")),
                        ".endif",
                        advance!("{w}", "3"),
                        "dec {groups}",
                        "jnz 2b",
                        $isa!(forget),
                        w = inout(reg) job.write => _,
                        word = in(reg) job.word,
                        groups = inout(reg) job.groups => _,
                        lines = const LINES, pages = const PAGES, page = const PAGE_BYTES,
                        past = const PAST, own = const OWN,
                        out("xmm4") _,
                        options(nostack),
                    );
                }
            }

            /// Runs the loop of a kernel that loads and stores.
            ///
            /// # Safety
            /// The caller meets the conditions of [`Run`].
            pub(in super::super) unsafe fn both<
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
                    asm!(
                        $isa!(zero),
                        $isa!(spread),
                        "2:",
                        "mov {i}, {loads}",
                        "4:",
                        unit!($isa!(load "{r}"), ahead!("{r}")),
                        advance!("{r}", "3"),
                        ".if {buffers} == 2",
                        "xchg {r}, {other}",
                        ".endif",
                        "dec {i}",
                        "jnz 4b",
                        "mov {i}, {stores}",
                        "5:",
                        ".if {flat}",
                        ".if {past}", row!($isa!(stream "{w}")),
                        ".else", row!(concat!($isa!(store "{w}"), "\n", own!("{w}"))), ".endif",
                        "add {w}, {lines} * {pages} * 64",
                        ".else",
                        ".if {past}", unit!($isa!(stream "{w}")),
                        ".else", unit!($isa!(store "{w}"), own!("{w}")), ".endif",
                        advance!("{w}", "6"),
                        ".endif",
                        "dec {i}",
                        "jnz 5b",
                        "dec {groups}",
                        "jnz 2b",
                        $isa!(sum),
                        job = in(reg) at,
                        r = inout(reg) job.read[0] => _,
                        other = inout(reg) job.read[1] => _,
                        w = inout(reg) job.write => _,
                        word = in(reg) job.word,
                        loads = in(reg) job.loads,
                        stores = in(reg) job.stores,
                        groups = inout(reg) job.groups => _,
                        i = out(reg) _,
                        buffers = const BUFFERS,
                        lines = const LINES, pages = const PAGES, page = const PAGE_BYTES,
                        past = const PAST, flat = const FLAT,
                        ahead = const AHEAD, hint = const HINT, own = const OWN,
                        out("xmm0") _, out("xmm1") _, out("xmm2") _, out("xmm3") _,
                        out("xmm4") _,
                        options(nostack),
                    );
                }
            }

            /// Loads the lines at the byte offsets `lines` of the first buffer, adds them to
            /// `job.sum`, and prefetches the lines at the offsets `ahead`, which a later call
            /// loads.
            ///
            /// # Safety
            /// The lines at the offsets `lines` are in the buffer.
            pub(in super::super) unsafe fn gather(
                job: &mut Job,
                lines: &[usize; BATCH],
                ahead: &[usize; BATCH],
            ) {
                let at: *mut Job = job;
                // SAFETY: the caller passes lines of the mapped buffer. The assembly reads only
                // these lines, and writes only `job.sum`.
                unsafe {
                    asm!(
                        $isa!(resume),
                        ".set il_i, 0",
                        ".rept 8",
                        "mov {i}, [{ahead} + il_i]",
                        "prefetcht0 [{r} + {i}]",
                        ".set il_i, il_i + 8",
                        ".endr",
                        ".set il_at, 0",
                        ".set il_i, 0",
                        ".rept 8",
                        "mov {i}, [{lines} + il_i]",
                        "add {i}, {r}",
                        $isa!(load "{i}"),
                        ".set il_i, il_i + 8",
                        ".endr",
                        $isa!(sum),
                        job = in(reg) at,
                        r = in(reg) job.read[0],
                        lines = in(reg) lines.as_ptr(),
                        ahead = in(reg) ahead.as_ptr(),
                        i = out(reg) _,
                        out("xmm0") _, out("xmm1") _, out("xmm2") _, out("xmm3") _,
                        options(nostack),
                    );
                }
            }

            /// Stores `job.word` to the lines at the byte offsets `lines` of the buffer, and
            /// prefetches the lines at the offsets `ahead`, to which a later call stores.
            ///
            /// # Safety
            /// The lines at the offsets `lines` are in the buffer, and no other thread uses them.
            pub(in super::super) unsafe fn scatter<const PAST: usize>(
                job: &mut Job,
                lines: &[usize; BATCH],
                ahead: &[usize; BATCH],
            ) {
                // SAFETY: the caller passes lines of the buffer that no other thread uses. The
                // assembly writes only these lines.
                unsafe {
                    asm!(
                        $isa!(spread),
                        ".set il_i, 0",
                        ".rept 8",
                        "mov {i}, [{ahead} + il_i]",
                        ".if {past}", ".else", "prefetchw [{w} + {i}]", ".endif",
                        ".set il_i, il_i + 8",
                        ".endr",
                        ".set il_at, 0",
                        ".set il_i, 0",
                        ".rept 8",
                        "mov {i}, [{lines} + il_i]",
                        "add {i}, {w}",
                        ".if {past}", $isa!(stream "{i}"), ".else", $isa!(store "{i}"), ".endif",
                        ".set il_i, il_i + 8",
                        ".endr",
                        $isa!(forget),
                        w = in(reg) job.write,
                        lines = in(reg) lines.as_ptr(),
                        ahead = in(reg) ahead.as_ptr(),
                        word = in(reg) job.word,
                        i = out(reg) _,
                        past = const PAST,
                        out("xmm4") _,
                        options(nostack),
                    );
                }
            }
        }
    };
}

loops!(avx512, Avx512, "Of AVX-512.");
loops!(avx2, Avx2, "Of AVX2.");
loops!(sse2, Sse2, "Of SSE2.");

/// Expands the macro `$table`, a list of kernels, with the name of the module that has the loops of
/// the instruction set `$isa`.
macro_rules! of {
    ($isa:expr, $table:ident) => {
        match $isa {
            Isa::Avx512 => $table!(avx512),
            Isa::Avx2 => $table!(avx2),
            Isa::Sse2 => $table!(sse2),
            Isa::Neon | Isa::Sve => vec![],
        }
    };
}
pub(super) use of;

/// Makes all earlier stores, non-temporal ones included, visible before all later stores.
pub(super) fn fence() {
    // SAFETY: every x86-64 processor has `sfence`, which accesses no memory.
    unsafe { std::arch::x86_64::_mm_sfence() };
}
