//! Lists the traffic kernels for each instruction set and kind of access: the fastest known
//! kernels, and the candidates in a search for the fastest kernels.

use super::{AccessKind, Kernel, NEAR, native};
#[cfg(any(test, feature = "search"))]
use super::{FAR, ONCE};
use crate::isa::Isa;

/// Returns the instruction sets in the order in which they are tried for a kind of access, the
/// fastest known first. Wider vectors are not always faster: on Zen 4, the machine of the search
/// (`benches/README.md`), one load of 64 bytes is up to 8 % slower than two loads of 32 bytes, and
/// stores that hit a cache are fastest with 16 bytes.
pub(super) fn order(act: AccessKind, nontemporal: bool) -> [Isa; 5] {
    match (act, nontemporal) {
        (AccessKind::Write | AccessKind::Both | AccessKind::BothOfTwo, false) => {
            [Isa::Sse2, Isa::Avx2, Isa::Avx512, Isa::Neon, Isa::Sve]
        }
        _ => [Isa::Avx2, Isa::Avx512, Isa::Sse2, Isa::Neon, Isa::Sve],
    }
}

/// Returns the fastest known kernels of an instruction set, one for each kind of access with
/// ordinary and with non-temporal stores. The kernels of AArch64 are assumed to be fast: no search
/// was run on AArch64.
#[rustfmt::skip]
pub(super) fn chosen(isa: Isa) -> Vec<Kernel> {
    // A row of the table gives the kernels of five kinds: `read`, `write`, `past` (non-temporal
    // stores), `both` and `both past`. The first two numbers of a kernel are pages and lines. A
    // kernel that loads then has the prefetch distance and the hint of its loads. A kernel with
    // ordinary stores ends with the prefetch distance of its stores.
    macro_rules! row {
        (
            $isa:ident, read $rp:literal $rl:literal $ra:literal $rh:ident,
            write $wp:literal $wl:literal $wo:literal, past $sp:literal $sl:literal,
            both $bp:literal $bl:literal $ba:literal $bh:ident $bo:literal,
            both past $np:literal $nl:literal $na:literal $nh:ident
        ) => {{
            use native::$isa::{mixer, reader, writer};
            vec![
                reader::<$rp, $rl, $ra, $rh>(),
                writer::<0, $wp, $wl, $wo>(),
                writer::<1, $sp, $sl, 0>(),
                mixer::<1, 0, $bp, $bl, 0, $ba, $bh, $bo>(),
                mixer::<2, 0, $bp, $bl, 0, $ba, $bh, $bo>(),
                mixer::<1, 1, $np, $nl, 0, $na, $nh, 0>(),
                mixer::<2, 1, $np, $nl, 0, $na, $nh, 0>(),
            ]
        }};
    }
    macro_rules! table {
        (avx512) => { row!(avx512, read 1 4 512 NEAR, write 1 8 0, past 1 8,
                           both 1 1 0 NEAR 256, both past 1 4 512 NEAR) };
        (avx2) =>   { row!(avx2, read 1 4 0 NEAR, write 1 4 0, past 1 8,
                           both 1 1 0 NEAR 256, both past 1 4 0 NEAR) };
        (sse2) =>   { row!(sse2, read 1 8 0 NEAR, write 1 16 0, past 1 8,
                           both 1 16 0 NEAR 0, both past 1 4 512 NEAR) };
        (neon) =>   { row!(neon, read 1 8 0 NEAR, write 1 8 0, past 1 8,
                           both 1 4 0 NEAR 0, both past 1 4 0 NEAR) };
        (sve) =>    { row!(sve, read 1 8 0 NEAR, write 1 8 0, past 1 8,
                           both 1 4 0 NEAR 0, both past 1 4 0 NEAR) };
    }
    native::of!(isa, table)
}

/// Returns the candidates of a search for the fastest kernels.
#[cfg(any(test, feature = "search"))]
pub(super) fn candidates(isa: Isa) -> Vec<Kernel> {
    macro_rules! both {
        (
            $mixer:ident,
            $($pages:literal x $lines:literal, $flat:literal, $ahead:literal $hint:ident,
              $own:literal;)+
        ) => {
            vec![$(
                $mixer::<1, 0, $pages, $lines, $flat, $ahead, $hint, $own>(),
                $mixer::<2, 0, $pages, $lines, $flat, $ahead, $hint, $own>(),
                $mixer::<1, 1, $pages, $lines, $flat, $ahead, $hint, 0>(),
                $mixer::<2, 1, $pages, $lines, $flat, $ahead, $hint, 0>(),
            )+]
        };
    }
    macro_rules! table {
        ($isa:ident) => {{
            use native::$isa::{mixer, reader, writer};
            let mut all = vec![
                reader::<1, 1, 0, NEAR>(), reader::<1, 2, 0, NEAR>(), reader::<1, 4, 0, NEAR>(),
                reader::<1, 8, 0, NEAR>(), reader::<1, 16, 0, NEAR>(), reader::<1, 32, 0, NEAR>(),
                reader::<2, 8, 0, NEAR>(), reader::<4, 4, 0, NEAR>(), reader::<16, 1, 0, NEAR>(),
                reader::<1, 4, 512, NEAR>(), reader::<1, 4, 1024, NEAR>(),
                reader::<1, 4, 2048, NEAR>(), reader::<1, 4, 4096, NEAR>(),
                reader::<1, 4, 1024, ONCE>(), reader::<1, 4, 4096, ONCE>(),
                reader::<1, 4, 2048, FAR>(), reader::<1, 4, 8192, FAR>(),
                writer::<0, 1, 1, 0>(), writer::<0, 1, 2, 0>(), writer::<0, 1, 4, 0>(),
                writer::<0, 1, 8, 0>(), writer::<0, 1, 16, 0>(), writer::<0, 4, 4, 0>(),
                writer::<0, 1, 4, 256>(), writer::<0, 1, 4, 512>(), writer::<0, 1, 4, 2048>(),
                writer::<1, 1, 1, 0>(), writer::<1, 1, 4, 0>(), writer::<1, 1, 8, 0>(),
                writer::<1, 1, 16, 0>(), writer::<1, 2, 4, 0>(), writer::<1, 4, 1, 0>(),
                writer::<1, 4, 4, 0>(),
            ];
            all.extend(both!(
                mixer,
                1 x 1, 0, 0 NEAR, 0;
                1 x 2, 0, 0 NEAR, 0;
                1 x 4, 0, 0 NEAR, 0;
                1 x 8, 0, 0 NEAR, 0;
                1 x 16, 0, 0 NEAR, 0;
                1 x 64, 0, 0 NEAR, 0;
                2 x 1, 0, 0 NEAR, 0;
                4 x 1, 0, 0 NEAR, 0;
                8 x 4, 0, 0 NEAR, 0;
                4 x 4, 1, 0 NEAR, 0;
                1 x 1, 0, 256 NEAR, 0;
                1 x 1, 0, 512 NEAR, 0;
                1 x 1, 0, 2048 NEAR, 0;
                1 x 1, 0, 512 ONCE, 0;
                1 x 1, 0, 0 NEAR, 256;
                1 x 1, 0, 0 NEAR, 512;
                1 x 4, 0, 512 NEAR, 512;
            ));
            all
        }};
    }
    native::of!(isa, table)
}
