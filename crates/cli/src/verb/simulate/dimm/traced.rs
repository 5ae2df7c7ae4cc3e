//! `interleaf simulate dimm --trace`: simulates the requests of a trace file.

use super::drawing;
use crate::args::DimmArgs;
use interleaf_console::{Failure, output};
use interleaf_job::dimm::together;
use interleaf_record::dimm::DimmDocument;
use interleaf_sim::dimm::{
    energy,
    run::Setup,
    trace::{Trace, binary::Writer},
};
use rayon::prelude::*;
use std::path::Path;

/// The document of a simulated trace has this text in place of a mix and a pattern.
const TRACE: &str = "trace";

pub(super) fn document(
    setup: &Setup,
    args: &DimmArgs,
    file: &Path,
) -> Result<DimmDocument, Failure> {
    let name = file.display().to_string();
    let hint = "name a file of requests, with one such as \"12.5 R 0x1f40\" in each line";
    let bytes = interleaf_catalog::trace(file, hint)?;
    let trace = Trace::new(&name, &bytes, args.trace_format, setup.memory())?;
    // Parse the whole trace before the simulation, so that an error near its end is found at once.
    let requests = trace.clone().count_all()?;
    if let Some(target) = &args.trace_out {
        let mut writer = Writer::default();
        for request in trace.clone() {
            writer.push(request?);
        }
        output::bytes(target, &writer.into_bytes())?;
        let written = interleaf_report::page::counted(requests, "request");
        output::message(&format!("{written} in {}", target.display()));
    }
    let progress = output::progress(requests, &name);
    let of_part = |number: u32| {
        let mut energy = energy::CommandCounts::new(&setup.device);
        let part = setup.replay(trace.clone(), number, &mut energy, &|done| progress.inc(done));
        let energy = energy.energy(part.end_clock * setup.device.host_clocks);
        (part, energy)
    };
    let pieces = (0..setup.parts()).into_par_iter().map(of_part).collect();
    progress.finish_and_clear();
    let (part, energy) = together(pieces);
    let document = DimmDocument::new(setup, TRACE, &setup.device.name);
    let mut document = DimmDocument { command: String::new(), ..document };
    document.point(TRACE, None, &part, energy);
    if let Some(target) = &args.command_trace {
        drawing::write(setup, target, |number, drawing| {
            setup.replay(trace.clone(), number, drawing, &|_| ());
        })?;
    }
    Ok(document)
}
