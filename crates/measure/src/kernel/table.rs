//! Which loop is for what.

use super::{FAR, Kernel, NEAR, ONCE, native};
use crate::isa::Isa;

/// The best known of an instruction set, one of each kind.
pub(super) fn chosen(isa: Isa) -> Vec<Kernel> {
    macro_rules! table {
        ($isa:ident) => {{
            use native::$isa::{mixer, reader, writer};
            vec![
                reader::<1, 8, 0, NEAR>(),
                writer::<0, 1, 8, 0>(),
                writer::<1, 1, 8, 0>(),
                mixer::<1, 0, 1, 8, 0, 0, NEAR, 0>(),
                mixer::<2, 0, 1, 8, 0, 0, NEAR, 0>(),
                mixer::<1, 1, 1, 8, 0, 0, NEAR, 0>(),
                mixer::<2, 1, 1, 8, 0, 0, NEAR, 0>(),
            ]
        }};
    }
    native::of!(isa, table)
}

/// What a search looks among.
#[cfg(any(test, feature = "search"))]
pub(super) fn candidates(isa: Isa) -> Vec<Kernel> {
    macro_rules! both {
        ($mixer:ident, $($pages:literal x $lines:literal, $flat:literal, $ahead:literal $hint:ident, $own:literal;)+) => {
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
                reader::<1, 1, 0, NEAR>(), reader::<1, 4, 0, NEAR>(), reader::<1, 8, 0, NEAR>(),
                reader::<1, 16, 0, NEAR>(), reader::<2, 2, 0, NEAR>(), reader::<2, 8, 0, NEAR>(),
                reader::<4, 1, 0, NEAR>(), reader::<4, 4, 0, NEAR>(), reader::<8, 1, 0, NEAR>(),
                reader::<8, 4, 0, NEAR>(), reader::<16, 1, 0, NEAR>(),
                reader::<1, 8, 512, NEAR>(), reader::<1, 8, 1024, NEAR>(),
                reader::<1, 8, 2048, NEAR>(), reader::<1, 8, 4096, NEAR>(),
                reader::<1, 8, 512, ONCE>(), reader::<1, 8, 1024, ONCE>(),
                reader::<1, 8, 2048, ONCE>(), reader::<1, 8, 4096, ONCE>(),
                reader::<1, 8, 2048, FAR>(), reader::<1, 8, 8192, FAR>(),
                reader::<4, 4, 512, NEAR>(), reader::<4, 1, 1024, NEAR>(),
                reader::<4, 4, 16384, NEAR>(), reader::<2, 4, 8192, NEAR>(),
                writer::<0, 1, 1, 0>(), writer::<0, 1, 4, 0>(), writer::<0, 1, 8, 0>(),
                writer::<0, 1, 16, 0>(), writer::<0, 2, 4, 0>(), writer::<0, 4, 1, 0>(),
                writer::<0, 4, 4, 0>(), writer::<0, 8, 4, 0>(),
                writer::<0, 1, 8, 512>(), writer::<0, 1, 8, 2048>(), writer::<0, 1, 8, 4096>(),
                writer::<0, 4, 4, 512>(), writer::<0, 4, 1, 1024>(),
                writer::<1, 1, 1, 0>(), writer::<1, 1, 4, 0>(), writer::<1, 1, 8, 0>(),
                writer::<1, 1, 16, 0>(), writer::<1, 2, 4, 0>(), writer::<1, 4, 1, 0>(),
                writer::<1, 4, 4, 0>(), writer::<1, 8, 4, 0>(),
            ];
            all.extend(both!(
                mixer,
                1 x 1, 0, 0 NEAR, 0;
                1 x 2, 0, 0 NEAR, 0;
                1 x 4, 0, 0 NEAR, 0;
                1 x 8, 0, 0 NEAR, 0;
                1 x 16, 0, 0 NEAR, 0;
                1 x 32, 0, 0 NEAR, 0;
                1 x 64, 0, 0 NEAR, 0;
                2 x 4, 0, 0 NEAR, 0;
                4 x 1, 0, 0 NEAR, 0;
                4 x 4, 0, 0 NEAR, 0;
                4 x 16, 0, 0 NEAR, 0;
                8 x 4, 0, 0 NEAR, 0;
                2 x 8, 1, 0 NEAR, 0;
                4 x 4, 1, 0 NEAR, 0;
                4 x 16, 1, 0 NEAR, 0;
                8 x 8, 1, 0 NEAR, 0;
                1 x 8, 0, 512 NEAR, 0;
                1 x 8, 0, 2048 NEAR, 0;
                1 x 8, 0, 1024 ONCE, 0;
                1 x 8, 0, 4096 ONCE, 0;
                1 x 32, 0, 2048 NEAR, 0;
                1 x 64, 0, 4096 NEAR, 0;
                4 x 4, 1, 512 NEAR, 0;
                1 x 8, 0, 0 NEAR, 512;
                1 x 8, 0, 0 NEAR, 2048;
                1 x 8, 0, 512 NEAR, 512;
                1 x 8, 0, 2048 NEAR, 2048;
                4 x 4, 0, 512 NEAR, 512;
            ));
            all
        }};
    }
    native::of!(isa, table)
}
