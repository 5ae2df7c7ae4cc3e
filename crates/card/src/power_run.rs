//! Observes runs of the engine, to evaluate power failures during a run.
//!
//! [`WriteRecorder`] observes the writes of an engine, with any source of commands. [`observe`]
//! runs a load, and [`power_failures`] evaluates moments of the run:
//!
//! ```
//! use interleaf_card::{
//!     card::Card,
//!     load::{Access, Group, Load},
//!     power::{PowerSweep, SweepOptions},
//!     power_run::{observe, power_failures},
//!     settings::Settings,
//! };
//! let card = Card::by_name("all-mram")?;
//! let group = Group { access: Access::RandomWrite, depth: 8, ..Group::default() };
//! let run = observe(&Load::single(group, 1000), &card, &Settings::default())?;
//! let failures = power_failures(&card, &run.timeline, 1);
//! let sweep = PowerSweep::run(&failures, &SweepOptions { moments: 1000, seed: 1 });
//! assert_eq!((sweep.moments, sweep.lost_writes), (1000, 0));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use crate::{
    card::Card,
    durability::{FlushTimes, Rules, SegmentTimes, Timeline, TimelineBuilder, WriteTimes},
    engine::{WriteObserver, WrittenSegment},
    io::{IoCommand, Operation},
    load::{Load, LoadError, Outcome},
    power::PowerFailures,
    settings::Settings,
};
use std::collections::BTreeMap;

/// Observes the writes and the flushes of an engine, and makes a [`Timeline`] of them.
#[derive(Clone, Debug)]
pub struct WriteRecorder {
    builder: TimelineBuilder,
    /// The segments of each write that is not acknowledged, by the tag of the write command.
    outstanding: BTreeMap<u32, Vec<SegmentTimes>>,
}

/// The measurements of a run, and the timeline of its writes.
#[derive(Clone, Debug)]
pub struct ObservedRun {
    /// The measurements of the load.
    pub outcome: Outcome,
    /// The writes of the whole run, including the ramp time.
    pub timeline: Timeline,
}

impl WriteRecorder {
    /// Creates a recorder that has observed no write yet.
    pub fn new(card: &Card) -> Self {
        let survival = card.power.survival();
        let rules = Rules { survival, atomic_bytes: card.nvme.atomic_write };
        Self { builder: TimelineBuilder::new(rules), outstanding: BTreeMap::new() }
    }

    /// Returns the timeline of the run. A write that is outstanding at the end of the run is not in
    /// the timeline. The timeline therefore ends before the first data of such a write arrive.
    pub fn finish(self) -> Timeline {
        let Self { mut builder, outstanding } = self;
        let arrivals = outstanding.values().flatten().map(|segment| segment.received);
        arrivals.for_each(|at| builder.end_at(at.saturating_sub(1)));
        builder.finish()
    }
}

impl WriteObserver for WriteRecorder {
    fn segment(&mut self, segment: &WrittenSegment) {
        let WrittenSegment { tag, offset, bytes, buffered, in_array, durable } = *segment;
        let times = SegmentTimes { offset, bytes, received: buffered, in_array, durable };
        self.outstanding.entry(tag).or_default().push(times);
    }

    fn acknowledged(&mut self, command: &IoCommand, submitted: u64, _safe: u64, at: u64) {
        match command.operation {
            Operation::Write | Operation::WriteZeroes => {
                let segments = self.outstanding.remove(&command.tag).unwrap_or_default();
                let times = WriteTimes {
                    offset: command.offset,
                    bytes: command.bytes,
                    force_unit_access: command.force_unit_access,
                    submitted,
                    acknowledged: at,
                };
                self.builder.write(times, &segments);
            }
            Operation::Flush => {
                self.builder.flush(FlushTimes { submitted, acknowledged: at });
            }
            // A read changes no content. A deallocated block may afterwards have any content, its
            // old data included, so the timeline treats the block as unchanged.
            Operation::Read | Operation::Deallocate => {}
        }
    }
}

/// Runs a load and records its writes.
///
/// # Errors
/// If the card cannot run the load.
pub fn observe(load: &Load, card: &Card, settings: &Settings) -> Result<ObservedRun, LoadError> {
    let mut recorder = WriteRecorder::new(card);
    let outcome = load.run(card, settings, &mut recorder)?;
    Ok(ObservedRun { outcome, timeline: recorder.finish() })
}

/// Returns the evaluator of power failures during the run of `card` that `timeline` describes;
/// `seed` decides which NAND blocks are bad.
pub fn power_failures<'a>(card: &Card, timeline: &'a Timeline, seed: u64) -> PowerFailures<'a> {
    PowerFailures::new(timeline, &card.power, card.memory.capacity, seed)
}

#[cfg(test)]
mod tests;
