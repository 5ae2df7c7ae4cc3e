use super::*;
use proptest::prelude::*;
use std::collections::BTreeSet;

fn rules(survival: Survival) -> Rules {
    Rules { survival, atomic_bytes: 4096 }
}

/// Adds a write of `bytes` at `offset`, in segments of 512 bytes. For the index of a segment,
/// `segment` returns the times `received`, `in_array` and `durable` of the segment.
fn timed(
    builder: &mut TimelineBuilder,
    (offset, bytes): (u64, u32),
    (submitted, acknowledged): (u64, u64),
    segment: impl Fn(u64) -> (u64, u64, u64),
) -> u32 {
    let force_unit_access = false;
    let times = WriteTimes { offset, bytes, force_unit_access, submitted, acknowledged };
    let segments: Vec<SegmentTimes> = (0..u64::from(bytes) / 512)
        .map(|index| {
            let (received, in_array, durable) = segment(index);
            let offset = offset + 512 * index;
            SegmentTimes { offset, bytes: 512, received, in_array, durable }
        })
        .collect();
    builder.write(times, &segments)
}

#[test]
fn a_correct_write_is_never_lost_nor_torn() {
    // Rows become durable one by one. With a hold-up of 20 fs, the controller completes a write
    // that has begun when the power fails, so no moment damages the block.
    let mut builder = TimelineBuilder::new(rules(Survival::Precharged { hold_up: 20 }));
    timed(&mut builder, (0, 4096), (0, 40), |index| (10, 12 + index, 15 + 2 * index));
    let timeline = builder.finish();
    assert_eq!(timeline.damage(), []);
    assert_eq!(timeline.block_bytes(), 4096);
    assert_eq!(timeline.end(), 40);
    assert_eq!(timeline.counts(39), WriteCounts { acknowledged: 0, outstanding: 1 });
    assert_eq!(timeline.counts(40), WriteCounts { acknowledged: 1, outstanding: 0 });
}

#[test]
fn without_hold_up_a_write_of_several_rows_is_torn_between_them() {
    let mut builder = TimelineBuilder::new(rules(Survival::Precharged { hold_up: 0 }));
    let write = timed(&mut builder, (0, 4096), (0, 40), |index| (10, 12 + index, 15 + 2 * index));
    let timeline = builder.finish();
    let torn = DamageInterval { from: 12, until: 29, block: 0, damage: Damage::Torn, write };
    assert_eq!(timeline.damage(), [torn]);
    assert_eq!(timeline.damage_at(11), []);
    assert_eq!(timeline.damage_at(12), [torn]);
    assert_eq!(timeline.damage_at(28), [torn]);
    assert_eq!(timeline.damage_at(29), []);
}

#[test]
fn an_acknowledgement_before_durability_is_a_loss_until_then() {
    // The write is acknowledged at 20 fs, and none of its data are in the array before 30 fs.
    let mut builder = TimelineBuilder::new(rules(Survival::Precharged { hold_up: 0 }));
    let write = timed(&mut builder, (8192, 512), (0, 20), |_| (10, 30, 50));
    let timeline = builder.finish();
    let interval = |from, until, damage| DamageInterval { from, until, block: 16, damage, write };
    assert_eq!(timeline.damage(), [interval(20, 30, Damage::Lost), interval(30, 50, Damage::Torn)]);
    // On a card that saves its buffers, a write with the same times is not lost.
    let mut builder = TimelineBuilder::new(rules(Survival::Buffered));
    timed(&mut builder, (8192, 512), (0, 20), |_| (10, 30, 50));
    assert_eq!(builder.finish().damage(), []);
}

#[test]
fn flush_and_fua_promise_more_than_a_volatile_cache_does() {
    let lost_after_flush = |flush: Option<FlushTimes>, force_unit_access| {
        let mut builder = TimelineBuilder::new(rules(Survival::Precharged { hold_up: 0 }));
        let segment =
            SegmentTimes { offset: 0, bytes: 4096, received: 10, in_array: 90, durable: 100 };
        let (submitted, acknowledged) = (0, 20);
        let times =
            WriteTimes { offset: 0, bytes: 4096, force_unit_access, submitted, acknowledged };
        builder.write(times, &[segment]);
        flush.into_iter().for_each(|flush| builder.flush(flush));
        let timeline = builder.finish();
        let damage: Vec<_> =
            timeline.damage().iter().map(|it| (it.from, it.until, it.damage)).collect();
        damage
    };
    let volatile = vec![(20, 90, Damage::Lost), (90, 100, Damage::Torn)];
    assert_eq!(lost_after_flush(None, false), volatile);
    // A flush that completes only when the data are durable keeps its promise, so the damage is the
    // same as without a flush.
    let flush = |submitted, acknowledged| Some(FlushTimes { submitted, acknowledged });
    assert_eq!(lost_after_flush(flush(25, 100), false), volatile);
    // A flush that was submitted before the acknowledgement of the write promises nothing.
    assert_eq!(lost_after_flush(flush(19, 50), false), volatile);
    // A flush acknowledged before the data are durable breaks its promise, and so does a write with
    // FUA that is acknowledged before its data are durable.
    let broken =
        [(20, 50, Damage::Lost), (50, 90, Damage::LostAfterFlush), (90, 100, Damage::Torn)];
    assert_eq!(lost_after_flush(flush(20, 50), false), broken);
    let fua = vec![(20, 90, Damage::LostAfterFlush), (90, 100, Damage::Torn)];
    assert_eq!(lost_after_flush(None, true), fua);
}

#[test]
fn an_older_write_applied_after_a_newer_acknowledged_one_is_a_loss() {
    let mut builder = TimelineBuilder::new(rules(Survival::Buffered));
    timed(&mut builder, (0, 512), (0, 20), |_| (10, 80, 80));
    let newer = timed(&mut builder, (0, 512), (30, 50), |_| (40, 60, 60));
    let timeline = builder.finish();
    // The older write waits in the controller's buffer until 80 fs. It therefore reaches the memory
    // after the newer write (60 fs), and overwrites the newer data.
    let interval =
        DamageInterval { from: 50, until: u64::MAX, block: 0, damage: Damage::Lost, write: newer };
    assert_eq!(timeline.damage(), [interval]);
}

#[test]
fn a_write_larger_than_the_atomic_unit_is_judged_by_units() {
    let mut builder = TimelineBuilder::new(rules(Survival::Buffered));
    // The second atomic unit arrives much later. Each unit arrives as a whole, so none is torn.
    let units = |index: u64| if index < 8 { (10, 20, 20) } else { (100, 110, 110) };
    timed(&mut builder, (0, 8192), (0, 120), units);
    assert_eq!(builder.finish().damage(), []);
    // A unit is torn from 20 fs (first half in the array) to 100 fs (second half arrives).
    let mut builder = TimelineBuilder::new(rules(Survival::Buffered));
    let halves = |index: u64| if index < 4 { (10, 20, 20) } else { (100, 110, 110) };
    let write = timed(&mut builder, (0, 4096), (0, 120), halves);
    let interval = DamageInterval { from: 20, until: 100, block: 0, damage: Damage::Torn, write };
    assert_eq!(builder.finish().damage(), [interval]);
}

#[test]
fn data_that_never_arrive_are_never_whole() {
    let mut builder = TimelineBuilder::new(rules(Survival::Buffered));
    let times = WriteTimes {
        offset: 0,
        bytes: 1024,
        force_unit_access: false,
        submitted: 5,
        acknowledged: u64::MAX,
    };
    let part = SegmentTimes { offset: 0, bytes: 512, received: 7, in_array: 9, durable: 9 };
    let write = builder.write(times, &[part]);
    let timeline = builder.finish();
    let torn =
        |block| DamageInterval { from: 9, until: u64::MAX, block, damage: Damage::Torn, write };
    assert_eq!(timeline.block_bytes(), 1024);
    assert_eq!(timeline.damage(), [torn(0)]);
}

/// A write of the property test: first block, number of blocks, submission time, four delays (to
/// buffer, buffer to array, array to durable, buffer to acknowledgement), and FUA.
type Plan = (u64, u32, u64, [u64; 4], bool);

fn plans() -> impl Strategy<Value = (Vec<Plan>, Vec<(u64, u64)>, Option<u64>)> {
    let delays = prop::array::uniform4(0_u64..12);
    let plan = (0_u64..4, 1_u32..4, 0_u64..60, delays, any::<bool>());
    let flush = (0_u64..80, 0_u64..20);
    (
        prop::collection::vec(plan, 1..12),
        prop::collection::vec(flush, 0..3),
        prop::option::of(0_u64..8),
    )
}

/// Returns the damage to each block of 512 bytes at one moment, computed from the definitions of
/// lost and torn alone.
fn naive(
    writes: &[(WriteTimes, SegmentTimes)],
    flushes: &[FlushTimes],
    survival: Survival,
    moment: u64,
) -> BTreeSet<(u64, Damage)> {
    let mut found = BTreeSet::new();
    for block in 0..8_u64 {
        let covers = |write: &WriteTimes| {
            let end = write.offset + u64::from(write.bytes);
            write.offset <= block * 512 && block * 512 < end
        };
        let all: Vec<_> = writes.iter().filter(|(write, _)| covers(write)).collect();
        let is_whole = |it: &SegmentTimes| match survival {
            Survival::Buffered => it.received <= moment,
            Survival::Precharged { hold_up } => {
                it.in_array <= moment && it.durable <= moment + hold_up
            }
        };
        let is_there = |it: &SegmentTimes| is_whole(it) || it.in_array <= moment;
        let there = all.iter().enumerate().filter(|(_, (_, segment))| is_there(segment));
        let content = there.max_by_key(|(at, (_, segment))| (segment.in_array, *at));
        if content.is_some_and(|(_, (_, segment))| !is_whole(segment)) {
            found.insert((block, Damage::Torn));
            continue;
        }
        let is_older = |write: &WriteTimes| {
            content.is_none_or(|(_, (own, _))| own.acknowledged <= write.submitted)
        };
        let acknowledged = all.iter().filter(|(write, _)| write.acknowledged <= moment);
        let lost: Vec<_> = acknowledged.filter(|(write, _)| is_older(write)).collect();
        let is_flushed = |write: &WriteTimes| {
            write.force_unit_access
                || flushes.iter().any(|flush| {
                    write.acknowledged <= flush.submitted && flush.acknowledged <= moment
                })
        };
        if lost.iter().any(|(write, _)| is_flushed(write)) {
            found.insert((block, Damage::LostAfterFlush));
        } else if !lost.is_empty() {
            found.insert((block, Damage::Lost));
        }
    }
    found
}

proptest! {
    /// At every moment, the timeline reports the same damage as the definitions ([`naive`]).
    #[test]
    fn all_moments_agree_with_the_definitions((plans, flushes, hold_up) in plans()) {
        let survival = hold_up
            .map_or(Survival::Buffered, |hold_up| Survival::Precharged { hold_up });
        let mut builder = TimelineBuilder::new(rules(survival));
        let mut writes = vec![];
        for (block, blocks, submitted, [receive, store, settle, answer], fua) in plans {
            let (offset, bytes) = (block * 512, blocks * 512);
            let received = submitted + 1 + receive;
            let (in_array, acknowledged) = (received + store, received + answer);
            let durable = in_array + settle;
            let write =
                WriteTimes { offset, bytes, force_unit_access: fua, submitted, acknowledged };
            let segment = SegmentTimes { offset, bytes, received, in_array, durable };
            builder.write(write, &[segment]);
            writes.push((write, segment));
        }
        let flushes: Vec<FlushTimes> = flushes
            .into_iter()
            .map(|(submitted, time)| FlushTimes { submitted, acknowledged: submitted + time })
            .collect();
        flushes.iter().for_each(|flush| builder.flush(*flush));
        let timeline = builder.finish();
        let parts = timeline.block_bytes() / 512;
        for moment in 0..120 {
            let found: BTreeSet<_> = timeline
                .damage_at(moment)
                .into_iter()
                .flat_map(|it| (0..parts).map(move |part| (it.block * parts + part, it.damage)))
                .collect();
            prop_assert_eq!(found, naive(&writes, &flushes, survival, moment), "at {}", moment);
        }
    }
}
