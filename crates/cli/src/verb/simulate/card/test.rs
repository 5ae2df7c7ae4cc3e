//! `interleaf simulate card test`: simulates a memory test of a card.

use crate::args::CardTestArgs;
use interleaf_card::memory_test::{self, AccessTimes, Algorithm, MemoryTest};
use interleaf_console::{Failure, support};
use interleaf_job::card::cards;
use interleaf_record::card_test::CardTestDocument;
use std::process::ExitCode;

/// The default of `--pattern`.
const PATTERN: u32 = 0xBADC_0FFE;

pub(super) fn run(args: &CardTestArgs) -> Result<ExitCode, Failure> {
    support::check_outputs(args.output.output.as_deref(), None, &[])?;
    if args.pattern.is_some() && args.algorithm != Algorithm::Pattern {
        let problem = "--pattern: only the algorithm `pattern` writes this word";
        return Err(Failure::new(problem, "leave out --pattern, or write --algorithm pattern"));
    }
    let test = MemoryTest {
        algorithm: args.algorithm,
        cycles: args.cycles,
        start: args.start,
        stop: args.stop.unwrap_or(args.start),
        pattern: args.pattern.unwrap_or(PATTERN),
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
