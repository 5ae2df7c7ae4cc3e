//! `interleaf simulate dimm`: simulates memory modules, DRAM command by DRAM command.

mod drawing;
mod traced;

use super::{
    super::{page, progress::Bar},
    sweep::{self, Outputs},
};
use crate::args::{DimmArgs, PatternChoice};
use interleaf_console::{Failure, output, support};
use interleaf_job::{
    dimm::{self, ControllerChoice, DimmJob, DimmSystem},
    sweep::dimm::DimmSweep,
};
use interleaf_record::{
    Document,
    dimm::{DimmDocument, TimingDocument},
};
use interleaf_sim::dimm::{
    closed_loop::Pattern,
    device::{self, Options},
    run::Setup,
    server,
};
use std::time::Instant;

pub(crate) fn dimm(args: &DimmArgs) -> Result<(), Failure> {
    for (choice, names) in [(&args.device, device::names()), (&args.server, server::names())] {
        if choice.as_deref() == Some("list") {
            return output::data(&(names.join("\n") + "\n"));
        }
    }
    if let Some(file) = &args.sweep {
        let outputs = Outputs {
            rows: args.output.output.as_deref(),
            parquet: args.parquet.as_deref(),
            report: args.report.as_deref(),
        };
        return sweep::run(file, &mut DimmSweep::read(file)?.checked()?, &outputs);
    }
    sweep::reject_parquet(args.parquet.as_deref())?;
    // These options require --trace. clap does not check this if a given option conflicts with
    // --trace, so check it here.
    let of_trace = [
        (args.trace_out.is_some(), "--trace-out"),
        (args.trace_format.is_some(), "--trace-format"),
    ];
    if args.trace.is_none() {
        support::reject_given(&of_trace, "needs a trace", "give --trace FILE")?;
    }
    let (output, report) = (args.output.output.as_deref(), args.report.as_deref());
    let others = [&args.curves, &args.command_trace, &args.trace_out].map(|it| it.as_deref());
    support::check_outputs(output, report, &others)?;
    if args.curves.is_some() && args.mix.iter().any(|mix| mix.read_share() == 0.0) {
        return Err(Failure::new(
            "--curves: the curves have the latency of reads, and the mix 0 has no reads",
            "leave the mix out of --mix, or leave --curves out",
        ));
    }
    let setup = setup(args)?;
    let begun = Instant::now();
    let mut document = match &args.trace {
        Some(file) => traced::document(&setup, args, file)?,
        None => document(setup, args)?,
    };
    if args.timing {
        let wall_s = begun.elapsed().as_secs_f64();
        let requests_per_s = document.requests as f64 / wall_s.max(1e-9);
        document.timing = Some(TimingDocument { wall_s, requests_per_s });
    }
    if let Some(target) = &args.curves {
        output::file(target, &interleaf_report::dimm::curves_csv(&document))?;
        output::message(&format!("the curves are in {}", target.display()));
    }
    support::print_document(
        args.output.options(),
        &interleaf_record::json(&document),
        || interleaf_report::dimm::csv(&document),
        || interleaf_report::dimm::text(&document),
    )?;
    page::write(args.report.as_deref(), || Document::Dimm(Box::new(document)))
}

fn setup(args: &DimmArgs) -> Result<Setup, Failure> {
    let pattern = match args.pattern {
        PatternChoice::Random => Pattern::Random,
        PatternChoice::Stream => Pattern::Stream,
        PatternChoice::HotBank => Pattern::HotBank,
    };
    let controller = ControllerChoice { row_policy: args.row_policy, refresh: args.refresh };
    if let Some(name) = &args.server {
        return dimm::server(name, pattern, controller, args.seed);
    }
    let options = Options { density: args.density.clone(), width: args.width.clone() };
    let system = DimmSystem {
        device: dimm::device(args.device.as_deref().unwrap_or_default(), &options)?,
        channels: args.channels,
        pattern,
        outstanding: args.outstanding,
        uncore_ns: args.uncore_ns,
        controller,
        seed: args.seed,
    };
    system.setup()
}

fn document(setup: Setup, args: &DimmArgs) -> Result<DimmDocument, Failure> {
    let (mixes, load, requests) = (args.mix.clone(), args.load, args.requests);
    let device = args.device.clone().unwrap_or_default();
    let job = DimmJob { setup, device, server: args.server.clone(), mixes, load, requests };
    let document = job.run(&Bar::default())?;
    if let (Some(target), Some(point)) = (&args.command_trace, job.points().first()) {
        let setup = Setup { mix: point.mix, ..job.setup.clone() };
        let accesses = requests / u64::from(setup.parts());
        drawing::write(&setup, target, |number, drawing| {
            setup.part(number, point.offered_gbps, accesses, drawing, &|_| ());
        })?;
    }
    Ok(document)
}
