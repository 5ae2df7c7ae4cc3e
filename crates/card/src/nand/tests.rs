use super::*;
use crate::{card::Card, power::PowerSpec};
use array::occurrences;
use proptest::prelude::*;
use rand_pcg::{Pcg64Mcg, rand_core::SeedableRng};

/// Returns the NAND parts of the built-in card `flashtec-dram`.
fn micron() -> NandSpec {
    match Card::by_name("flashtec-dram").expect("a card").power {
        PowerSpec::Save(save) => save.nand,
        PowerSpec::Precharge { .. } => panic!("the card saves"),
    }
}

/// Returns NAND parts with 2 channels, 2 dies on each channel and 2 planes in each die, so that 8
/// pages are programmed at a time. A block has 4 pages.
fn small() -> NandSpec {
    NandSpec {
        channels: 2,
        dies: 2,
        blocks: 10,
        pages: 4,
        factory_bad: 0.0,
        program_failure: 0.0,
        erase_failure: 0.0,
        bit_error: 0.0,
        ..micron()
    }
}

#[test]
fn the_default_parts_program_100_mb_a_second() {
    let spec = micron();
    // A step: tPROG, 1.3 ms, and the transfer of 16 KiB (2 pages) at 200 MB/s, 81.92 us.
    assert_eq!(spec.transfer_fs(), 81_920_000_000);
    assert_eq!(spec.program_step_fs(), 1_381_920_000_000);
    let array = NandArray::new(&spec, 1);
    let image = array.program(131_072, u64::MAX, 1);
    let seconds = image.time_fs as f64 * 1e-15;
    // 131,072 pages are 8192 steps of 16 pages. The second die of a channel begins one transfer
    // later. Each failed program takes one more step.
    let expected = 8192.0 * 1.38192e-3 + 81.92e-6 + image.failures.len() as f64 * 1.38192e-3;
    assert!((seconds - expected).abs() < 2e-3 * 1.38192, "{seconds} s, not {expected} s");
    assert!(image.is_complete());
}

#[test]
fn the_bus_limits_many_dies_of_a_channel() {
    let spec = NandSpec { dies: 32, ..micron() };
    assert_eq!(spec.program_step_fs(), 32 * spec.transfer_fs());
}

#[test]
fn pages_follow_the_good_blocks() {
    let mut array = NandArray::new(&small(), 1);
    let at = |array: &NandArray, position| array.address(&array.program(80, u64::MAX, 1), position);
    let page =
        |channel, die, plane, block, page| Some(PageAddress { channel, die, plane, block, page });
    assert_eq!(at(&array, 0), page(0, 0, 0, 0, 0));
    assert_eq!(at(&array, 3), page(0, 1, 1, 0, 0));
    assert_eq!(at(&array, 7), page(1, 1, 1, 0, 0));
    assert_eq!(at(&array, 8 * 4), page(0, 0, 0, 1, 0));
    array.mark_bad(PageAddress { channel: 0, die: 0, plane: 0, block: 1, page: 0 });
    array.mark_bad(PageAddress { channel: 0, die: 0, plane: 0, block: 2, page: 0 });
    assert_eq!(at(&array, 8 * 4), page(0, 0, 0, 3, 0));
    assert_eq!(at(&array, 8 * 4 + 1), page(0, 0, 1, 1, 0));
    let expected = NandUse { good_blocks: 8, needed_blocks: 2, bad_blocks: 2 };
    assert_eq!(array.usage(8 * 5), expected);
}

#[test]
fn a_plane_without_good_blocks_is_found() {
    let mut array = NandArray::new(&small(), 1);
    for block in 0..8 {
        array.mark_bad(PageAddress { channel: 0, die: 0, plane: 0, block, page: 0 });
    }
    // A plane has 2 good blocks of 4 pages and gets 10 pages, so the last 2 have no block.
    let image = array.program(80, u64::MAX, 1);
    let missing: Vec<u64> = image.missing().collect();
    assert_eq!(missing, [64, 72]);
    assert!(missing.iter().all(|position| image.is_without_block(*position)));
    assert!(!image.is_complete());
    assert_eq!(image.programmed(), 78);
}

#[test]
fn a_failed_program_costs_time_and_the_rest_of_its_block() {
    let spec = NandSpec { program_failure: 0.05, ..small() };
    let array = NandArray::new(&spec, 1);
    let (image, clean) = (array.program(80, u64::MAX, 3), {
        let array = NandArray::new(&small(), 1);
        array.program(80, u64::MAX, 3)
    });
    assert!(!image.failures.is_empty() && image.failures.iter().all(|failure| failure.remapped));
    assert!(image.is_complete());
    let again = spec.transfer_fs() + spec.program_fs;
    assert!(image.time_fs >= clean.time_fs + again);
    // All programs fail, and each failure uses up one of the 10 blocks of the plane.
    let spec = NandSpec { program_failure: 1.0, ..small() };
    let image = NandArray::new(&spec, 1).program(160, u64::MAX, 3);
    assert!(!image.is_complete());
    assert!(image.failures.iter().any(|failure| !failure.remapped));
}

#[test]
fn a_program_that_the_end_of_the_time_interrupts_has_not_failed() {
    let spec = NandSpec { program_failure: 1.0, ..small() };
    let array = NandArray::new(&spec, 1);
    let first = spec.transfer_fs() + spec.program_fs;
    let failed = |limit| -> Vec<u64> {
        array.program(80, limit, 1).failures.iter().map(|failure| failure.position).collect()
    };
    assert!(failed(first - 1).is_empty());
    // At the time `first`, the first die of each of the two channels has programmed a page in each
    // of its two planes. All four programs have failed.
    assert_eq!(failed(first), [0, 1, 4, 5]);
    assert_eq!(failed(first + spec.transfer_fs()), (0..8).collect::<Vec<_>>());
}

#[test]
fn the_energy_limits_the_pages_by_time() {
    let array = NandArray::new(&small(), 1);
    let spec = small();
    let steps = |limit: u64| array.program(80, limit, 1).programmed();
    let first = spec.transfer_fs() + spec.program_fs;
    assert_eq!(steps(first - 1), 0);
    // At `first`, the first die of each channel has completed a step, and the second has not.
    assert_eq!(steps(first), 4);
    assert_eq!(steps(first + spec.transfer_fs()), 8);
    assert_eq!(steps(u64::MAX), 80);
    let half = array.program(80, first + 4 * spec.program_step_fs(), 1);
    assert_eq!(half.programmed() + half.missing().count() as u64, 80);
    assert!(half.time_fs < half.needed_fs);
}

#[test]
fn erases_that_fail_make_bad_blocks() {
    let mut array = NandArray::new(&NandSpec { erase_failure: 0.2, ..small() }, 1);
    let failed = array.erase(80, 5);
    assert!(!failed.is_empty());
    assert_eq!(array.usage(80).bad_blocks as usize, failed.len());
    let image = array.program(80, u64::MAX, 1);
    for address in failed {
        assert!((0..80).all(|at| array.address(&image, at).is_none_or(|it| {
            (it.channel, it.die, it.plane, it.block)
                != (address.channel, address.die, address.plane, address.block)
        })));
    }
}

#[test]
fn ecc_corrects_as_many_bits_as_it_says() {
    let of = |bit_error, ecc_bits| {
        NandSpec { bit_error, ecc_bits, codeword_bytes: 1024, page_bytes: 1024, ..small() }
            .uncorrectable()
    };
    assert_eq!(of(0.0, 24), 0.0);
    // A codeword of 8192 bits has 1 error on average, and no error is corrected. The probability of
    // an uncorrectable page is 1 - 1/e.
    assert!((of(1.0 / 8192.0, 0) - (1.0 - libm::exp(-1.0))).abs() < 1e-9);
    // If ECC corrects one error, the probability of an uncorrectable page is 1 - 2/e.
    assert!((of(1.0 / 8192.0, 1) - (1.0 - 2.0 * libm::exp(-1.0))).abs() < 1e-9);
    assert!(of(1e-4, 24) < 1e-20);
    // With 0.8192 errors on average, 25 errors have the probability e^-0.8192 0.8192^25 / 25!, and
    // all larger numbers of errors together have 3 % of this probability.
    let of_25 = libm::exp(25.0 * libm::log(0.8192) - 0.8192 - libm::lgamma(26.0));
    assert!((1.03..1.04).contains(&(of(1e-4, 24) / of_25)), "{}", of(1e-4, 24));
    // The mean number of errors of a codeword equals the number that ECC corrects, so nearly half
    // of the codewords are uncorrectable.
    let half = of(24.0 / 8192.0, 24);
    assert!((0.3..0.6).contains(&half), "{half}");
    // A page of eight codewords is uncorrectable if one of the codewords is.
    let page = NandSpec { bit_error: 1.0 / 8192.0, ecc_bits: 1, ..small() }.uncorrectable();
    let expected = 1.0 - libm::pow(2.0 * libm::exp(-1.0), 8.0);
    assert!((page - expected).abs() < 1e-9, "{page}");
}

#[test]
fn uncorrectable_pages_are_found_among_saved_pages_only() {
    let array = NandArray::new(&NandSpec { bit_error: 2.5e-3, ..small() }, 1);
    let image = array.program(80, u64::MAX, 1);
    let failed = array.read_back(&image, 9);
    assert!(!failed.is_empty());
    assert_eq!(failed, array.read_back(&image, 9));
    let none = array.program(80, 0, 1);
    assert_eq!(array.read_back(&none, 9), []);
}

#[test]
fn occurrences_have_their_probability() {
    let mut random = Pcg64Mcg::seed_from_u64(7);
    for probability in [0.001, 0.1, 0.5, 0.9] {
        let found = occurrences(&mut random, probability, 200_000).len() as f64 / 200_000.0;
        let deviation = (probability * (1.0 - probability) / 200_000.0).sqrt();
        assert!((found - probability).abs() < 5.0 * deviation, "{found}, not {probability}");
    }
    assert_eq!(occurrences(&mut random, 1.0, 3), [0, 1, 2]);
    assert_eq!(occurrences(&mut random, 0.0, 3), []);
}

proptest! {
    /// Each page is either programmed or missing; more time never programs fewer pages; and each
    /// page of an image has a location of its own in a good block.
    #[test]
    fn images_are_consistent(
        pages in 1_u64..320,
        limit in 0_u64..60,
        bad in prop::collection::btree_set((0_u32..2, 0_u32..2, 0_u32..2, 0_u32..10), 0..12),
        failure in 0.0..0.05_f64,
        seed: u64,
    ) {
        let spec = NandSpec { program_failure: failure, ..small() };
        let mut array = NandArray::new(&spec, 1);
        for (channel, die, plane, block) in &bad {
            let (channel, die, plane, block) = (*channel, *die, *plane, *block);
            array.mark_bad(PageAddress { channel, die, plane, block, page: 0 });
        }
        let limit_fs = limit * spec.program_step_fs();
        let image = array.program(pages, limit_fs, seed);
        prop_assert_eq!(image.programmed() + image.missing().count() as u64, pages);
        prop_assert!(image.missing().all(|position| !image.has(position)));
        prop_assert_eq!(image.is_complete(), image.programmed() == pages);
        let longer = array.program(pages, limit_fs + spec.program_step_fs(), seed);
        prop_assert!((0..pages).all(|position| !image.has(position) || longer.has(position)));
        let place = |at| array.address(&image, at);
        let places: Vec<PageAddress> = (0..pages).filter_map(place).collect();
        let distinct: std::collections::BTreeSet<_> = places.iter().collect();
        prop_assert_eq!(distinct.len(), places.len());
        let is_bad = |it: &PageAddress| bad.contains(&(it.channel, it.die, it.plane, it.block));
        prop_assert!(!places.iter().any(is_bad));
        let failed = |it: &PageAddress| image.failures.iter().any(|other| other.address == *it);
        prop_assert!(!places.iter().any(failed));
    }
}
