use super::*;
use crate::{
    durability::Damage,
    engine::Engine,
    load::{Access, Group},
    power::{Cause, PowerSpec, PowerSweep, SweepOptions},
};
use proptest::prelude::*;

fn card(name: &str) -> Card {
    Card::by_name(name).expect("a card")
}

fn group(access: Access, block_bytes: u32, depth: u32) -> Group {
    Group { access, block_bytes, depth, ..Group::default() }
}

fn swept(card: &Card, timeline: &Timeline, moments: u64) -> PowerSweep {
    let failures = power_failures(card, timeline, 3);
    PowerSweep::run(&failures, &SweepOptions { moments, seed: 9 })
}

const CARDS: [&str; 3] = ["flashtec-dram", "all-mram", "all-mram-1gb"];

#[test]
fn nothing_is_lost_or_torn_at_10_000_moments_of_each_card_and_workload() {
    // The range of the writes is small, so that writes of the same block are often outstanding
    // together.
    let small =
        Group { size: Some(1 << 20), repeats: true, ..group(Access::RandomWrite, 4096, 64) };
    let workloads = [
        group(Access::RandomWrite, 4096, 1),
        group(Access::RandomWrite, 4096, 256),
        group(Access::Write, 131_072, 16),
        group(Access::RandomMixed, 4096, 32),
        group(Access::RandomWrite, 512, 32),
        small,
    ];
    for name in CARDS {
        let card = card(name);
        for group in &workloads {
            let load = Load::single(group.clone(), 2000);
            let run = observe(&load, &card, &Settings::default()).expect("a load");
            let case = format!("{name}, {} of {}", group.access.name(), group.block_bytes);
            assert!(run.timeline.writes().len() > 500, "{case}");
            assert_eq!(run.timeline.damage().first(), None, "{case}: at no moment of the run");
            let sweep = swept(&card, &run.timeline, 10_000);
            assert_eq!((sweep.moments, sweep.harmless), (10_000, 10_000), "{case}");
            assert_eq!((sweep.lost_writes, sweep.torn_writes), (0, 0), "{case}");
            assert!(sweep.acknowledged_writes > 0 && sweep.outstanding_writes > 0, "{case}");
        }
    }
}

#[test]
fn acknowledging_before_precharge_is_caught() {
    let early = Settings { acknowledge_early: true, ..Settings::default() };
    let load = |depth| Load::single(group(Access::RandomWrite, 4096, depth), 4000);
    let sweep = |card: &Card, depth, settings: &Settings| {
        let run = observe(&load(depth), card, settings).expect("a load");
        swept(card, &run.timeline, 10_000)
    };
    for name in ["all-mram", "all-mram-1gb"] {
        let mut card = card(name);
        // No write is lost although the card acknowledges early: a core takes `completion_fs` to
        // build the completion. When the completion is sent, the data are already in open rows, and
        // the controller precharges these rows during the hold-up.
        assert_eq!(sweep(&card, 1, &early).lost_writes, 0, "{name}");
        card.controller.completion_fs = 0;
        for depth in [1, 64] {
            let caught = sweep(&card, depth, &early);
            assert!(caught.lost_writes > 100, "{name} at {depth}: {}", caught.lost_writes);
            assert_eq!(caught.torn_writes, 0, "{name}: the hold-up completes what has begun");
            assert!(caught.unreported_blocks >= caught.lost_writes, "{name}: silent losses");
            let worst = caught.worst.expect("there are moments");
            assert!(worst.lost_writes > 0, "{name}");
            assert!(worst.blocks.iter().all(|block| block.cause == Cause::NotDurable), "{name}");
            assert_eq!(sweep(&card, depth, &Settings::default()).harmless, 10_000, "{name}");
        }
        // Without hold-up, a power failure leaves rows undefined. Only writes that are not
        // acknowledged are affected.
        card.power = PowerSpec::Precharge { hold_up: 0, row_fs: 0 };
        let torn = sweep(&card, 64, &Settings::default());
        assert!(torn.torn_writes > 0 && torn.lost_writes == 0, "{name}");
    }
}

#[test]
fn half_a_capacitor_loses_blocks_of_a_full_card_and_names_them() {
    let mut card = card("flashtec-dram");
    let PowerSpec::Save(save) = &mut card.power else { panic!("the card saves") };
    save.capacitor = save.capacitor.scaled(0.5);
    card.power.check(card.memory.capacity).expect("a part is saved");
    let load = Load::single(group(Access::RandomWrite, 4096, 32), 4000);
    let run = observe(&load, &card, &Settings::default()).expect("a load");
    let failures = power_failures(&card, &run.timeline, 3);
    let end = failures.at(run.timeline.end(), 1);
    assert!(end.lost_writes > 1000, "{} of {}", end.lost_writes, end.acknowledged_writes);
    assert!(end.blocks.iter().all(|block| block.cause.is_reported()));
    assert_eq!((end.unreported_blocks, end.torn_writes), (0, 0));
    assert_eq!(end.blocks.len() as u64, end.lost_blocks.min(PowerFailures::LISTED_MAX as u64));
}

#[test]
fn flush_and_fua_complete_after_the_data_are_durable() {
    let broken_promises = |settings: &Settings, force_unit_access: bool| {
        let mut card = card("all-mram");
        card.power = PowerSpec::Precharge { hold_up: 0, row_fs: 0 };
        card.controller.completion_fs = 0;
        let mut engine = Engine::new(&card, settings);
        let mut recorder = WriteRecorder::new(&card);
        let mut at = 0;
        for tag in 0..200_u32 {
            let operation = if tag % 4 == 3 { Operation::Flush } else { Operation::Write };
            let bytes = if operation == Operation::Flush { 0 } else { 4096 };
            let offset = u64::from(tag) * u64::from(bytes);
            let command = IoCommand { tag, queue: 0, operation, offset, bytes, force_unit_access };
            engine.submit(at, command).expect("the command is valid");
            let done = engine.next_completion(u64::MAX, &mut recorder).expect("it completes");
            at = done.completed;
        }
        let timeline = recorder.finish();
        let damage = timeline.damage().iter();
        damage.filter(|it| it.damage == Damage::LostAfterFlush).count()
    };
    assert_eq!(broken_promises(&Settings::default(), false), 0);
    assert_eq!(broken_promises(&Settings::default(), true), 0);
    let early = Settings { acknowledge_early: true, ..Settings::default() };
    assert!(broken_promises(&early, true) > 0, "the bug breaks the promise of FUA");
}

/// A command of the property test: the operation, the first block, the number of blocks, true for
/// force unit access, and the time to the next command, ns.
type Plan = (Operation, u64, u32, bool, u64);

fn plans() -> impl Strategy<Value = Vec<Plan>> {
    let operation = prop_oneof![
        6 => Just(Operation::Write),
        1 => Just(Operation::WriteZeroes),
        1 => Just(Operation::Flush),
        1 => Just(Operation::Read),
        1 => Just(Operation::Deallocate),
    ];
    prop::collection::vec((operation, 0_u64..64, 1_u32..80, any::<bool>(), 0_u64..2000), 1..120)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    /// A random mix of commands on overlapping blocks runs to its end. A power failure at any
    /// moment of the run then damages no block.
    #[test]
    fn no_mix_of_commands_is_harmed(plans in plans()) {
        for name in CARDS {
            let card = card(name);
            let mut engine = Engine::new(&card, &Settings::default());
            let mut recorder = WriteRecorder::new(&card);
            let (mut at, mut writes) = (0, 0);
            for (tag, plan) in plans.iter().enumerate() {
                let (operation, block, blocks, force_unit_access, gap) = *plan;
                let bytes = if operation == Operation::Flush { 0 } else { blocks * 512 };
                let (tag, queue, offset) = (tag as u32, tag as u16 % 4, block * 512);
                let command = IoCommand { tag, queue, operation, offset, bytes, force_unit_access };
                engine.submit(at, command).expect("the command is valid");
                let is_write = [Operation::Write, Operation::WriteZeroes].contains(&operation);
                writes += usize::from(is_write);
                at += gap * 1_000_000;
            }
            let mut completed = 0;
            while engine.next_completion(u64::MAX, &mut recorder).is_some() {
                completed += 1;
            }
            prop_assert_eq!(completed, plans.len());
            let timeline = recorder.finish();
            prop_assert_eq!(timeline.writes().len(), writes);
            prop_assert_eq!(timeline.damage(), []);
        }
    }
}
