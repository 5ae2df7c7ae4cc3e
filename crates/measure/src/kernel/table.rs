//! Which loop is for what.

#[cfg(any(test, feature = "search"))]
use super::{FAR, ONCE};
use super::{Kernel, NEAR, native};
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
