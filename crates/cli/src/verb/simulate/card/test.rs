//! `interleaf simulate card test`: the memory test of a card.

use crate::args::CardTestArgs;
use interleaf_card::{
    card::Card,
    memory_test::{self, AccessTimes, MemoryTest, PowerLoss},
    power::{PowerSpec, RestoreState, SaveSimulator},
};
use interleaf_console::{Failure, support};
use interleaf_job::card::cards;
use interleaf_record::card_test::CardTestDocument;
use std::process::ExitCode;

pub(super) fn run(args: &CardTestArgs) -> Result<ExitCode, Failure> {
    support::check_outputs(args.output.output.as_deref(), None, &[])?;
    let test = MemoryTest {
        algorithm: args.algorithm,
        cycles: args.cycles,
        start: args.start,
        stop: args.stop.unwrap_or(args.start),
        pattern: args.pattern,
        init: args.init,
        debug: args.debug,
        seed: args.seed,
    };
    let mut document = CardTestDocument::new(&test, &args.fault);
    for card in cards(&args.card)? {
        let (power_loss, power_cycle_s) = power_cycle(&card, args.seed);
        let times = AccessTimes::of(&card.memory.device, power_cycle_s);
        let capacity = card.memory.capacity;
        let result = memory_test::run(&test, capacity, &args.fault, power_loss, &times);
        let result = result
            .map_err(|why| Failure::new(format!("--{}: {}", why.field, why.problem), why.hint))?;
        document.add(&card.name, power_loss, &result);
    }
    support::print_document(
        args.output.options(),
        &interleaf_record::json(&document),
        || interleaf_report::card_test::csv(&document),
        || interleaf_report::card_test::text(&document),
    )?;
    Ok(if document.passed() { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

/// Simulates a power cycle of a card. Returns whether the card keeps its content, and the time of
/// the save and the restore together, s. A card that needs no save keeps its content in 0 s.
fn power_cycle(card: &Card, seed: u64) -> (PowerLoss, f64) {
    let PowerSpec::Save(spec) = &card.power else { return (PowerLoss::Kept, 0.0) };
    let simulator = SaveSimulator::new(spec, card.memory.capacity, seed);
    let (image, saved) = simulator.save(seed);
    let (_, restored) = simulator.restore(&image, seed);
    let power_loss = match restored.state {
        RestoreState::Complete => PowerLoss::Kept,
        RestoreState::Partial | RestoreState::Nothing => PowerLoss::Lost,
    };
    (power_loss, saved.seconds + restored.seconds)
}
