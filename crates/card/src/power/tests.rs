use super::*;
use crate::{
    capacitor::CapacitorSpec,
    card::Card,
    durability::{Rules, SegmentTimes, Survival, Timeline, TimelineBuilder, WriteTimes},
    nand::{NandArray, NandSpec, PageAddress},
};
use rand_pcg::{
    Pcg64Mcg,
    rand_core::{RngCore, SeedableRng},
};

/// Returns the save of the built-in card `flashtec-dram`.
fn flashtec() -> SaveSpec {
    match Card::by_name("flashtec-dram").expect("a card").power {
        PowerSpec::Save(save) => *save,
        PowerSpec::Precharge { .. } => panic!("the card saves"),
    }
}

const GIB: u64 = 1 << 30;
const NS: u64 = 1_000_000;

/// Returns the timeline of random writes of 4 KiB over `capacity` bytes, one each 700 ns. The data
/// of a write arrive after 1 to 1.4 us. The first row of the write (512 bytes) is in the array 100
/// to 300 ns later. A row is durable 150 ns after it is in the array. If `early` is true, the
/// acknowledgement does not wait for durability.
fn run(survival: Survival, capacity: u64, writes: u64, early: bool) -> Timeline {
    let mut random = Pcg64Mcg::seed_from_u64(11);
    let mut builder = TimelineBuilder::new(Rules { survival, atomic_bytes: 4096 });
    for number in 0..writes {
        let offset = random.next_u64() % (capacity / 4096) * 4096;
        let submitted = number * 700 * NS;
        let received = submitted + 1000 * NS + random.next_u64() % (400 * NS);
        let stored = received + 100 * NS + random.next_u64() % (200 * NS);
        let segment = |index: u64| {
            let in_array = stored + index * 8 * NS;
            let durable = in_array + 150 * NS;
            SegmentTimes { offset: offset + 512 * index, bytes: 512, received, in_array, durable }
        };
        let segments: Vec<SegmentTimes> = (0..8).map(segment).collect();
        let safe = match survival {
            Survival::Buffered => received,
            Survival::Precharged { .. } => segments[7].durable,
        };
        let acknowledged = if early { received - 500 * NS } else { safe } + 300 * NS;
        let force_unit_access = false;
        let times = WriteTimes { offset, bytes: 4096, force_unit_access, submitted, acknowledged };
        builder.write(times, &segments);
    }
    builder.finish()
}

fn sweep(failures: &PowerFailures<'_>, moments: u64) -> PowerSweep {
    PowerSweep::run(failures, &SweepOptions { moments, seed: 5 })
}

mod sections;

const PRECHARGE: PowerSpec = PowerSpec::Precharge { hold_up: 2000 * NS, row_fs: 200 * NS };

fn saving(spec: SaveSpec) -> PowerSpec {
    PowerSpec::Save(Box::new(spec))
}

#[test]
fn both_cards_keep_every_acknowledged_write_at_10_000_moments() {
    for power in [saving(flashtec()), PRECHARGE] {
        power.check(GIB).expect("the default card works");
        let timeline = run(power.survival(), GIB, 20_000, false);
        assert_eq!(timeline.damage(), [], "at no moment of the run");
        let swept = sweep(&PowerFailures::new(&timeline, &power, GIB, 3), 10_000);
        assert_eq!((swept.moments, swept.harmless), (10_000, 10_000));
        assert_eq!((swept.lost_writes, swept.torn_writes, swept.unreported_blocks), (0, 0, 0));
        assert!(swept.acknowledged_writes > 10_000 * 5000, "the moments are spread over the run");
        assert!(swept.outstanding_writes > 0);
    }
}

#[test]
fn the_save_takes_the_time_of_the_nand_and_half_of_the_capacitor() {
    let spec = flashtec();
    let save = SaveSimulator::new(&spec, GIB, 3);
    let (image, outcome) = save.save(1);
    assert!(image.is_complete());
    assert_eq!((outcome.pages, outcome.programmed), (131_072, 131_072));
    assert!((11.0..11.8).contains(&outcome.seconds), "{} s", outcome.seconds);
    assert!((outcome.energy.total() - outcome.energy_j).abs() < 1e-9);
    assert!(outcome.energy.controller > outcome.energy.nand, "by the figures of the file");
    assert!(outcome.energy.nand > outcome.energy.memory);
    let retried = outcome.remapped as f64 * 1.5e-3 * spec.save_w();
    assert!((outcome.energy_j - spec.needed_j(GIB)).abs() <= retried + 1e-6);
    let (absent, restored) = save.restore(&image, 1);
    assert_eq!((absent.len(), restored.state), (0, RestoreState::Complete));
    // A read step takes two transfers of 81.92 us, because the two dies of a channel share its bus,
    // and two transfers take longer than tR (75 us) plus one transfer. The restore has 8192 steps.
    // The erase of 32 blocks, 3.8 ms each, follows.
    assert!((restored.seconds - 8192.0 * 163.84e-6).abs() < 0.1, "{} s", restored.seconds);
    assert!((restored.ready_seconds - restored.seconds - 32.0 * 3.8e-3).abs() < 1e-9);
    let part = outcome.energy_j / save.usable_j();
    assert!((0.5..1.0).contains(&part), "the save needs {part} of the capacitor");
    assert!((outcome.left_j + outcome.energy_j - save.usable_j()).abs() < 1e-9);
}

#[test]
fn half_a_capacitor_loses_data_and_the_card_says_which() {
    let mut spec = flashtec();
    spec.capacitor = spec.capacitor.scaled(0.5);
    let power = saving(spec.clone());
    power.check(GIB).expect("it still saves a part");
    let timeline = run(Survival::Buffered, GIB, 2000, false);
    let failures = PowerFailures::new(&timeline, &power, GIB, 3);
    let end = failures.at(timeline.end(), 1);
    let save = end.save.as_ref().expect("the card saves");
    let restore = end.restore.as_ref().expect("the card restores");
    assert!(save.programmed < save.pages && save.left_j < 1e-6);
    assert_eq!(restore.state, RestoreState::Partial);
    assert_eq!(restore.missing, save.pages - save.programmed);
    assert!(end.lost_writes > 100, "{} writes are lost", end.lost_writes);
    assert_eq!(end.unreported_blocks, 0, "the card knows all of them");
    // A save in the order of addresses loses the blocks beyond the saved pages.
    let first = end.blocks[0].offset;
    assert!(end.blocks.iter().all(|block| block.cause == Cause::CapacitorEmpty));
    assert!(first.abs_diff(save.programmed * 8192) < 64 << 20, "from {first} on");
    // If the save programs the written (dirty) pages first, all dirty pages fit, and only unwritten
    // pages are missing.
    spec.order = SaveOrder::DirtyFirst;
    let failures = PowerFailures::new(&timeline, &saving(spec), GIB, 3);
    let end = failures.at(timeline.end(), 1);
    assert!(end.is_harmless());
    assert_eq!(end.restore.map(|it| it.state), Some(RestoreState::Partial));
}

#[test]
fn acknowledging_early_is_caught() {
    let timeline = run(PRECHARGE.survival(), GIB, 2000, true);
    let failures = PowerFailures::new(&timeline, &PRECHARGE, GIB, 3);
    let swept = sweep(&failures, 10_000);
    assert!(swept.lost_writes > 0, "the comparison finds lost writes");
    assert_eq!(swept.unreported_blocks, swept.lost_writes, "which the card does not know");
    let worst = swept.worst.expect("there are moments");
    assert!(worst.blocks.iter().all(|block| block.cause == Cause::NotDurable));
    assert!(!worst.blocks.is_empty());
}

#[test]
fn without_hold_up_rows_are_torn() {
    let power = PowerSpec::Precharge { hold_up: 0, row_fs: 200 * NS };
    let refused = power.check(GIB).expect_err("rows would be undefined");
    assert!(refused.problem.contains("shorter than the 200 ns"), "{}", refused.problem);
    let timeline = run(power.survival(), GIB, 2000, false);
    let swept = sweep(&PowerFailures::new(&timeline, &power, GIB, 3), 10_000);
    assert!(swept.torn_writes > 0);
    assert_eq!(swept.lost_writes, 0, "an acknowledged write is durable");
}

/// Returns the save of a small card. Its NAND has 12 blocks per plane; the memory needs 8.
fn small(bit_error: f64) -> SaveSpec {
    let nand = NandSpec {
        blocks: 12,
        pages: 64,
        factory_bad: 0.0,
        program_failure: 0.0,
        erase_failure: 0.0,
        bit_error,
        ..flashtec().nand
    };
    SaveSpec { nand, ..flashtec() }
}

const SMALL: u64 = 64 << 20;

#[test]
fn bad_blocks_are_replaced_while_good_ones_last() {
    let spec = small(0.0);
    let timeline = run(Survival::Buffered, SMALL, 5000, false);
    let plane = |block| PageAddress { channel: 1, die: 0, plane: 1, block, page: 0 };
    let with_bad = |count: u32| {
        let mut array = NandArray::new(&spec.nand, 1);
        (0..count).for_each(|block| array.mark_bad(plane(block)));
        let save = SaveSimulator::with_array(&spec, SMALL, array);
        PowerFailures::with_save(&timeline, Some(save)).at(timeline.end(), 1)
    };
    // The memory needs 8 of the 12 blocks of a plane, so 4 bad blocks do no harm, and 5 do.
    assert!(with_bad(4).is_harmless());
    let harmed = with_bad(5);
    assert!(harmed.lost_blocks > 0);
    assert!(harmed.blocks.iter().all(|block| block.cause == Cause::NoGoodBlock));
    assert_eq!(harmed.unreported_blocks, 0);
    let save = harmed.save.expect("the card saves");
    assert_eq!((save.without_block, save.pages - save.programmed), (64, 64));
}

#[test]
fn blocks_grow_bad_with_the_saves_until_a_plane_has_too_few() {
    let mut spec = small(0.0);
    (spec.nand.erase_failure, spec.nand.program_failure) = (0.002, 1e-5);
    let mut save = SaveSimulator::with_array(&spec, SMALL, NandArray::new(&spec.nand, 1));
    let mut last = None;
    for cycle in 0..2000_u64 {
        let before = save.array().usage(save.pages());
        let grown = save.prepare(last.as_ref(), cycle);
        let after = save.array().usage(save.pages());
        assert!(after.bad_blocks <= before.bad_blocks + grown.len() as u32);
        let (image, outcome) = save.save(cycle);
        assert_eq!(outcome.programmed + image.missing().count() as u64, outcome.pages);
        if outcome.without_block > 0 {
            // The save failed because a plane has too few good blocks. When the save began, this
            // plane had at most one spare block, which a failed program of the save may have used
            // up.
            assert!(after.good_blocks <= after.needed_blocks + 1, "{after:?}");
            let (absent, restore) = save.restore(&image, cycle);
            assert_eq!(absent.len() as u64, outcome.without_block);
            assert_eq!(restore.state, RestoreState::Partial);
            return;
        }
        assert!(image.is_complete(), "cycle {cycle}");
        last = Some(image);
    }
    panic!("the blocks last too long");
}

#[test]
fn a_failed_restore_is_reported_page_by_page() {
    let timeline = run(Survival::Buffered, SMALL, 20_000, false);
    let power = saving(small(1.8e-3));
    let failures = PowerFailures::new(&timeline, &power, SMALL, 1);
    let harmed = failures.at(timeline.end(), 4);
    let restore = harmed.restore.as_ref().expect("the card restores");
    assert_eq!(restore.state, RestoreState::Partial);
    assert!(restore.uncorrectable > 0 && !restore.uncorrectable_pages.is_empty());
    assert!(harmed.lost_blocks > 0);
    assert!(harmed.blocks.iter().all(|block| block.cause == Cause::Uncorrectable));
    assert_eq!(harmed.unreported_blocks, 0);
    // All saved pages are uncorrectable, so nothing is restored.
    let failures = PowerFailures::new(&timeline, &saving(small(0.05)), SMALL, 1);
    let harmed = failures.at(timeline.end(), 4);
    assert_eq!(harmed.restore.map(|it| it.state), Some(RestoreState::Nothing));
    let distinct: std::collections::BTreeSet<u64> =
        timeline.writes().iter().map(|write| write.offset).collect();
    assert_eq!(harmed.lost_blocks, distinct.len() as u64, "every acknowledged block is lost");
}

#[test]
fn a_capacitor_below_any_flush_is_refused() {
    let with = |capacitor| SaveSpec { capacitor, ..flashtec() };
    let default = flashtec().capacitor;
    let refused = with(default.scaled(1e-4)).check(GIB).expect_err("too small");
    assert_eq!(refused.field, "capacitor.capacitance");
    assert!(refused.problem.contains("below any flush"), "{}", refused.problem);
    let refused = with(CapacitorSpec { celsius: 65.0, ..default }).check(GIB).expect_err("worn");
    assert!(refused.problem.contains("no capacitance left"), "{}", refused.problem);
    let nand = NandSpec { blocks: 4, ..flashtec().nand };
    let refused = SaveSpec { nand, ..flashtec() }.check(GIB).expect_err("no room");
    assert_eq!(refused.field, "save.blocks");
}

#[test]
fn a_sweep_has_the_same_result_for_the_same_seed() {
    let timeline = run(Survival::Buffered, SMALL, 2000, false);
    let power = saving(small(1e-3));
    let failures = PowerFailures::new(&timeline, &power, SMALL, 1);
    let first = sweep(&failures, 200);
    assert_eq!(first, sweep(&failures, 200));
    // The sums are the same in whatever order the moments are added.
    let moments = SweepOptions { moments: 200, seed: 5 }.moments_of(&failures);
    let mut reversed = PowerSweep::empty();
    moments.iter().rev().for_each(|(at, seed)| reversed.add(failures.at(*at, *seed)));
    assert_eq!(first.lost_writes, reversed.lost_writes);
    assert_eq!(first.harmless, reversed.harmless);
}
