//! `interleaf simulate card`: simulates NVRAM cards under a load that fio would generate.

mod cost;
mod curves;
mod serve;
mod test;

use super::super::{page, progress::Bar};
use crate::args::{AccessChoice, CardArgs, CardLoadArgs, CardVerb};
use interleaf_card::{card, memory_mode::Initiator};
use interleaf_console::{Failure, output, support};
use interleaf_job::card::{CardJob, Moments, cards};
use interleaf_record::{Document, card::CardTiming};
use std::{process::ExitCode, time::Instant};

pub(crate) fn card(args: &CardArgs) -> Result<ExitCode, Failure> {
    match &args.verb {
        Some(CardVerb::Test(args)) => test::run(args),
        Some(CardVerb::Cost(args)) => cost::run(args),
        None => load(&args.load),
    }
}

/// Simulates a load on each card. The options or fio's job files describe the load.
fn load(args: &CardLoadArgs) -> Result<ExitCode, Failure> {
    if args.card.iter().any(|name| name == "list") {
        output::data(&(card::names().join("\n") + "\n"))?;
        return Ok(ExitCode::SUCCESS);
    }
    if let Some(socket) = &args.serve {
        return serve::run(args, socket);
    }
    // These options require --serve. clap does not check this if a given option conflicts with
    // --serve, so check it here.
    let of_served = [
        (args.latency.is_some(), "--latency"),
        (args.slow_down.is_some(), "--slow-down"),
        (args.contents.is_some(), "--contents"),
    ];
    support::reject_given(&of_served, "is that of a served card", "give --serve SOCKET")?;
    let (output, report) = (args.output.output.as_deref(), args.report.as_deref());
    support::check_outputs(output, report, &[args.curves.as_deref()])?;
    let job = job(args)?;
    if args.curves.is_some() {
        curves::check(job.cards.len())?;
    }
    let job = job.checked()?;
    let begun = Instant::now();
    let mut document = job.run(&Bar::default())?;
    if args.timing {
        let wall_s = begun.elapsed().as_secs_f64();
        document.timing = Some(CardTiming { wall_s, ios_per_s: document.ios as f64 / wall_s });
    }
    if let Some(target) = &args.curves {
        let card = args.card.first().map_or("", String::as_str);
        curves::write(target, &document, &job.commands(card))?;
    }
    support::print_document(
        args.output.options(),
        &interleaf_record::json(&document),
        || interleaf_report::card::csv(&document),
        || interleaf_report::card::text(&document),
    )?;
    let sum = document.power_failure.as_ref();
    let harmed = sum.is_some_and(|sum| sum.lost_writes + sum.torn_writes > 0);
    page::write(args.report.as_deref(), || Document::Card(Box::new(document)))?;
    Ok(if harmed { ExitCode::from(1) } else { ExitCode::SUCCESS })
}

/// Creates the job that the options describe: cards, load and power failures.
fn job(args: &CardLoadArgs) -> Result<CardJob, Failure> {
    let cards = cards(&args.card)?;
    Ok(CardJob {
        files: args.jobs.iter().chain(&args.job).cloned().collect(),
        depths: args.fio.iodepth.clone(),
        initiator: match args.access {
            Some(AccessChoice::Memory) => Some(Initiator::Processor),
            Some(AccessChoice::Peer) => Some(Initiator::Peer),
            None | Some(AccessChoice::Storage) => None,
        },
        fsync: args.fsync,
        power_failures: match (args.power_fail_at, args.power_fail_sweep) {
            (Some(at), _) => Some(Moments::At(at)),
            (None, Some(count)) => Some(Moments::Random(count)),
            (None, None) => None,
        },
        for_curves: args.curves.is_some(),
        is_direct: args.fio.direct.is_some(),
        ..CardJob::new(cards, args.fio.options())
    })
}
