//! `interleaf simulate dimm`: simulates memory modules command by command.

mod drawing;
mod traced;

use crate::args::{DimmArgs, LoadChoice, PatternChoice};
use interleaf_console::{Failure, output, support};
use interleaf_model::mix::Mix;
use interleaf_record::dimm::{DimmDocument, TimingDocument};
use interleaf_report::number;
use interleaf_sim::dimm::{
    closed_loop::{Pattern, SLOTS_MAX},
    device::{self, Device, DeviceError, Options},
    energy::{self, Energy},
    run::{LeastRequests, Part, Setup},
};
use rayon::prelude::*;
use std::{path::Path, time::Instant};

/// Offered loads of a sweep as fractions of the peak bandwidth; the last point is the maximum load.
const SWEEP: [f64; 19] = [
    0.005, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.55, 0.6, 0.65, 0.7, 0.74, 0.78,
    0.82, 0.86,
];

pub(crate) fn dimm(args: &DimmArgs) -> Result<(), Failure> {
    if args.device == "list" {
        return output::data(&(device::names().join("\n") + "\n"));
    }
    support::check_outputs(args.output.options(), None)?;
    for target in [&args.curves, &args.command_trace, &args.trace_out] {
        output::check_writable(target.as_deref())?;
    }
    let setup = setup(args)?;
    let begun = Instant::now();
    let mut document = match &args.trace {
        Some(file) => traced::document(&setup, args, file)?,
        None => document(&setup, args)?,
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
    )
}

fn setup(args: &DimmArgs) -> Result<Setup, Failure> {
    let options = Options { density: args.density.clone(), width: args.width.clone() };
    let mut setup = Setup::new(find(&args.device, &options)?, args.channels);
    setup.pattern = match args.pattern {
        PatternChoice::Random => Pattern::Random,
        PatternChoice::Stream => Pattern::Stream,
        PatternChoice::HotBank => Pattern::HotBank,
    };
    if let Some(outstanding) = args.outstanding {
        let parts = setup.device.sub_channels;
        setup.outstanding = (outstanding.div_ceil(parts) as usize).min(SLOTS_MAX);
    }
    setup.uncore_ps = (args.uncore_ns * 1e3) as u64;
    setup.seed = args.seed;
    Ok(setup)
}

/// Finds the device with this name or in this file: `FILE`, or `FILE:NAME` for a file with several.
fn find(name: &str, options: &Options) -> Result<Device, Failure> {
    let (path, module) = match name.rsplit_once(':') {
        Some((path, module)) if !Path::new(name).exists() => (path, Some(module)),
        _ => (name, None),
    };
    let is_file = Path::new(path).exists() || path.contains(['/', '.']);
    if !is_file {
        return Device::by_name(name, options).map_err(of_device);
    }
    let hint = format!("name a file of devices, or one of {}", device::names().join(", "));
    let text = interleaf_catalog::text(Path::new(path), &hint)?;
    device::in_file(path, &text, module, options).map_err(of_device)
}

fn of_device(why: DeviceError) -> Failure {
    Failure::new(why.to_string(), why.hint())
}

/// A point of the document: a mix and an offered load.
#[derive(Clone, Copy)]
struct Point {
    mix: Mix,
    offered_gbps: Option<f64>,
}

fn document(setup: &Setup, args: &DimmArgs) -> Result<DimmDocument, Failure> {
    let loads: Vec<Option<f64>> = match args.load {
        LoadChoice::Max => vec![None],
        LoadChoice::At(bandwidth) => vec![Some(bandwidth.gbps())],
        LoadChoice::Sweep => {
            let parts = SWEEP.iter().map(|part| Some(part * setup.peak_gbps()));
            parts.chain([None]).collect()
        }
    };
    let of_mix = |mix: &Mix| {
        let mix = *mix;
        loads.iter().map(move |load| Point { mix, offered_gbps: *load })
    };
    let points: Vec<Point> = args.mix.iter().flat_map(of_mix).collect();
    let pattern = match args.pattern {
        PatternChoice::Random => "random",
        PatternChoice::Stream => "stream",
        PatternChoice::HotBank => "hot-bank",
    };
    let mut document = DimmDocument::new(setup, pattern);
    document.notes = short_runs(setup, &points, args.requests)?;
    for (point, (part, energy)) in points.iter().zip(simulated(setup, &points, args.requests)) {
        document.point(&point.mix.to_string(), point.offered_gbps, &part, energy);
    }
    if let (Some(target), Some(point)) = (&args.command_trace, points.first()) {
        let setup = Setup { mix: point.mix, ..setup.clone() };
        let accesses = args.requests / u64::from(setup.parts());
        drawing::write(&setup, target, |number, drawing| {
            setup.part(number, point.offered_gbps, accesses, drawing, &|_| ());
        })?;
    }
    Ok(document)
}

/// Refuses runs that are too short for a bandwidth, and notes runs whose bandwidth is inaccurate.
fn short_runs(setup: &Setup, points: &[Point], requests: u64) -> Result<Vec<String>, Failure> {
    let mut notes = vec![];
    for load in points.iter().map(|point| point.offered_gbps) {
        let LeastRequests { parts, each, refresh_ns, all, steady } = setup.least_requests(load);
        let at = load.map_or("the maximum".into(), |gbps| format!("{} GB/s", number(gbps)));
        let refresh = match refresh_ns {
            0.0 => String::new(),
            ns => format!(" and a refresh interval of {} ns", number(ns)),
        };
        if requests < all {
            return Err(Failure::new(
                format!(
                    "--requests {requests}: at {at} at least {all} are needed, {each} for each of \
                     {parts} sub-channels: one for each of {} outstanding lines{refresh}",
                    setup.outstanding
                ),
                format!("give --requests {steady} or more: then bandwidths settle within 0.5 %"),
            ));
        }
        let note = format!(
            "{requests} requests hold less than four refresh intervals at {at}: its bandwidth can \
             be several percent too high; --requests {steady} settles it within 0.5 %"
        );
        if requests < steady && !notes.contains(&note) {
            notes.push(note);
        }
    }
    Ok(notes)
}

/// Simulates all points on all cores; each sub-channel of each point is a separate job.
fn simulated(setup: &Setup, points: &[Point], requests: u64) -> Vec<(Part, Option<Energy>)> {
    let parts = setup.parts();
    let progress = output::progress(requests * points.len() as u64, &setup.device.name);
    let of_point = |point: &Point| {
        let setup = Setup { mix: point.mix, ..setup.clone() };
        let of_part = |number: u32| {
            // Equal numbers of accesses; the first sub-channels take the remainder, one each.
            let rest = u64::from(u64::from(number) < requests % u64::from(parts));
            let accesses = requests / u64::from(parts) + rest;
            let mut energy = energy::CommandCounts::new(&setup.device);
            let tell = |done: u64| progress.inc(done);
            let part = setup.part(number, point.offered_gbps, accesses, &mut energy, &tell);
            let end = part.end_clock * setup.device.host_clocks;
            (part, energy.energy(end))
        };
        let pieces: Vec<(Part, Option<Energy>)> = (0..parts).into_par_iter().map(of_part).collect();
        together(pieces)
    };
    let results = points.par_iter().map(of_point).collect();
    progress.finish_and_clear();
    results
}

/// Sums the results of the sub-channels.
fn together(pieces: Vec<(Part, Option<Energy>)>) -> (Part, Option<Energy>) {
    let (parts, energies): (Vec<Part>, Vec<Option<Energy>>) = pieces.into_iter().unzip();
    let energy = energies.into_iter().reduce(|a, b| Some(a?.and(&b?))).flatten();
    (Part::sum(&parts), energy)
}
