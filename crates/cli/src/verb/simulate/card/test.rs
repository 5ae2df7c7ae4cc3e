//! `interleaf simulate card test`: simulates a memory test of a card.

use crate::args::CardTestArgs;
use interleaf_card::memory_test::{self, AccessTimes, MemoryTest};
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
        let (power_loss, power_cycle_s) = memory_test::power_cycle(&card, args.seed);
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
