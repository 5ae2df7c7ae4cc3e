//! `interleaf bench run`: runs a built-in workload.

use crate::{
    args::{ArrayMemory, BenchRunArgs},
    verb::page,
};
use interleaf_console::{
    Failure, output,
    support::{self, OutputOptions},
    system,
};
use interleaf_extend_forecast::access::Trace;
use interleaf_launch::counters::{Counters, Drive, PagedProcess};
use interleaf_linux::{
    process::{
        available::{available, swap},
        own_resident_max,
    },
    root::Root,
};
use interleaf_model::{format::names::suggestion, units::Bytes};
use interleaf_record::{
    Document,
    bench::{BenchDocument, LoopDocument, SCHEMA},
    rounded,
};
use interleaf_workload::{
    Kernel, SetupError,
    graph::Shape,
    kind::{Kind, Setting},
    memory::{Hint, Memory},
    run::{Edge, Length, Measured, measured, rate},
    stream::Loop,
    trace::{footprint, trace},
};
use std::{env, path::Path, process::ExitCode, time::Duration};

pub(super) fn run(args: &BenchRunArgs) -> Result<ExitCode, Failure> {
    support::check_outputs(args.output.as_deref(), args.report.as_deref(), &[])?;
    let root = Root::live();
    let drive = args.drive.as_deref().map(|folder| Drive::find(&root, folder)).transpose()?;
    fits(args, &root)?;
    let kind = Kind::of(&args.workload).ok_or_else(|| {
        let names: Vec<&str> = Kind::ALL.iter().map(|(name, _, _)| *name).collect();
        Failure::new(
            format!("there is no workload \"{}\"", args.workload),
            format!(
                "{}write one of {}; `interleaf bench list` has applications too",
                suggestion(&args.workload, &names),
                names.join(", ")
            ),
        )
    })?;
    check_options(args, kind)?;
    if let Some(target) = &args.trace {
        return write_trace(args, kind, target);
    }
    let extended = PagedProcess::find();
    let mut kernel = kind.kernel(&setting(args)).map_err(|why| refused(&why))?;
    let length = Length {
        warm_up: args.warm_up.unwrap_or(0),
        rounds: args.rounds.unwrap_or(3),
        at_least: Duration::from_secs_f64(args.seconds.map_or(0.0, |time| time.seconds())),
    };
    let now = || Counters::now(&root, drive.as_ref(), extended.as_ref());
    let (mut start, mut sum) = (Counters::default(), Counters::default());
    let measured = measured(kernel.as_mut(), &length, |edge| match edge {
        Edge::Start => start = now(),
        Edge::End => sum += now() - start,
    });
    let mut document = document(args, kind, kernel.as_mut(), &measured);
    document.cpu_s = rounded(sum.cpu_s);
    document.major_faults = sum.major_faults;
    document.drive = drive.as_ref().map(|drive| drive.document(sum.drive));
    document.extended = extended.as_ref().map(|extended| extended.document(sum.counts));
    document.resident_max_bytes = own_resident_max(&root);
    let wrong = if args.no_verify { None } else { kernel.verify().err() };
    document.verified = !args.no_verify && wrong.is_none();
    document.checksum = format!("{:016x}", kernel.checksum());
    write_document(args, &document)?;
    match wrong {
        None => Ok(ExitCode::SUCCESS),
        Some(why) => Err(Failure::new(
            format!("the result of {} is wrong: {why}", args.workload),
            "memory or what extends it has given back something else than was written: report it",
        )),
    }
}

const GRAPHS: [Kind; 6] =
    [Kind::Bfs, Kind::Sssp, Kind::PageRank, Kind::Components, Kind::Centrality, Kind::Triangles];

/// An option that has an effect only on some workloads: its name, these workloads, and a function
/// that is true if the option is given. `--seed` is accepted for all workloads, so that a script
/// can pass the same seed to each.
type WorkloadOption = (&'static str, &'static [Kind], fn(&BenchRunArgs) -> bool);

const OPTIONS: [WorkloadOption; 6] = [
    ("--loop", &[Kind::Stream], |args| args.only.is_some()),
    ("--stride", &[Kind::Stride], |args| args.stride.is_some()),
    ("--write", &[Kind::Random, Kind::Polynomial], |args| args.write),
    ("--tile", &[Kind::GemmTiled, Kind::LuTiled], |args| args.tile.is_some()),
    ("--degree", &[Kind::Polynomial], |args| args.degree.is_some()),
    ("--graph", &GRAPHS, |args| args.graph.is_some()),
];

/// Rejects the given options that have no effect on the workload `kind`.
fn check_options(args: &BenchRunArgs, kind: Kind) -> Result<(), Failure> {
    for (option, kinds, is_given) in OPTIONS {
        if kinds.contains(&kind) {
            continue;
        }
        let names: Vec<&str> = kinds.iter().map(|kind| kind.name()).collect();
        let names = names.join(", ");
        let why = format!("has no effect on {}: it is for {names}", args.workload);
        let instead = match kinds.len() {
            1 => format!("run {names}"),
            _ => format!("run one of {names}"),
        };
        support::reject_given(&[(is_given(args), option)], &why, &instead)?;
    }
    let is_heap = matches!(args.memory, None | Some(ArrayMemory::Heap));
    let why = "has no effect on the heap: it is for mappings";
    let instead = "add --memory mmap or --memory file:DIR";
    support::reject_given(&[(args.advice.is_some() && is_heap, "--advice")], why, instead)
}

/// Size of a block of a trace, bytes. It is not larger than one row of the `fft-3d` cube, so that
/// the trace shows the order in which rows are touched. A block as large as one prefetch of the
/// pager would cover several rows and hide this order.
const BLOCK: usize = 16 << 10;

/// Writes a trace of the blocks of memory that one round touches (two rounds for `gas` and `qft`).
/// Does not run the workload.
fn write_trace(args: &BenchRunArgs, kind: Kind, target: &Path) -> Result<ExitCode, Failure> {
    let setting = setting(args);
    let footprint = footprint(kind, &setting).map_err(|why| refused(&why))?;
    let touches = trace(kind, &setting, footprint, BLOCK).ok_or_else(|| {
        Failure::new(
            format!("--trace: the order of accesses of {} is not known", args.workload),
            "plan without a trace: the traffic is a line from that of the run then",
        )
    })?;
    output::file(target, &Trace { block_bytes: BLOCK as u64, touches }.text())?;
    Ok(ExitCode::SUCCESS)
}

/// Rejects a footprint that exceeds the available memory and swap. Any footprint is allowed under
/// `interleaf extend`, and if the arrays are in a file.
fn fits(args: &BenchRunArgs, root: &Root) -> Result<(), Failure> {
    let is_extended = env::var_os(interleaf_pager::session::VARIABLE).is_some();
    if is_extended || matches!(args.memory, Some(ArrayMemory::File(_))) {
        return Ok(());
    }
    let Some(found) = available(root, None).map_err(system::read_failure)? else { return Ok(()) };
    let most =
        Bytes::new(found.usable_bytes().saturating_add(swap(root).map_err(system::read_failure)?));
    let asked = args.footprint;
    if asked <= most {
        return Ok(());
    }
    let give =
        format!("give at most --footprint {}MiB, or a file (--memory file:DIR)", most.get() >> 20);
    Err(match found.limit {
        Some(limit) => Failure::new(
            format!(
                "--footprint {asked}: the control group {} has {} left for it, swap included",
                limit.group.name,
                Bytes::new(most.get() & !0xF_FFFF)
            ),
            format!("{give}; or raise {}", limit.path()),
        ),
        None => Failure::new(
            format!(
                "--footprint {asked}: {} of memory and swap can be had",
                Bytes::new(most.get() & !0xF_FFFF)
            ),
            give,
        ),
    })
}

/// Writes the document to the file of `-o`, prints it as JSON or text, and writes its HTML page.
pub(super) fn write_document(args: &BenchRunArgs, document: &BenchDocument) -> Result<(), Failure> {
    let to = OutputOptions { json: args.json, csv: false, output: args.output.as_deref() };
    let text = || interleaf_report::bench::text(document);
    support::print_document(to, &interleaf_record::json(document), String::new, text)?;
    page::write(args.report.as_deref(), || Document::BenchRun(Box::new(document.clone())))
}

/// Returns the name of the advice (`madvise`) for the workload's arrays.
fn advice(args: &BenchRunArgs) -> &str {
    args.advice.as_deref().unwrap_or("normal")
}

fn setting(args: &BenchRunArgs) -> Setting {
    let hint = Hint::ALL.iter().find(|(name, _)| *name == advice(args));
    let hint = hint.map_or(Hint::Normal, |(_, hint)| *hint);
    let shape = args.graph.as_deref();
    let shape = Shape::ALL.iter().find(|(name, _)| Some(*name) == shape);
    let only = args.only.as_deref();
    let only = Loop::ALL.iter().find(|(name, _)| Some(*name) == only).map(|(_, which)| *which);
    Setting {
        footprint: args.footprint.get(),
        threads: args.threads as usize,
        memory: match &args.memory {
            None | Some(ArrayMemory::Heap) => Memory::Heap,
            Some(ArrayMemory::Mapping) => Memory::Anonymous(hint),
            Some(ArrayMemory::File(folder)) => Memory::File(folder.clone(), hint),
        },
        only,
        stride: args.stride.map_or(64 << 10, Bytes::get),
        is_writing: args.write,
        tile: args.tile.unwrap_or(512) as usize,
        degree: args.degree.unwrap_or(64),
        seed: args.seed.unwrap_or(1),
        graph: shape.map_or(Shape::default(), |(_, shape)| *shape),
    }
}

fn refused(why: &SetupError) -> Failure {
    let hint = match why {
        SetupError::Small { .. } => "ask for more with --footprint",
        SetupError::OneThread { .. } => "leave --threads out, or run fft-3d",
        SetupError::Threads { .. } => "ask for fewer --threads",
        SetupError::Memory { .. } => "ask for less with --footprint, or name a folder with room",
    };
    Failure::new(why.to_string(), hint)
}

fn document(
    args: &BenchRunArgs,
    kind: Kind,
    kernel: &mut dyn Kernel,
    measured: &Measured,
) -> BenchDocument {
    let unit = kind.unit();
    let memory = match &args.memory {
        None | Some(ArrayMemory::Heap) => "heap".into(),
        Some(ArrayMemory::Mapping) => format!("mmap, {}", advice(args)),
        Some(ArrayMemory::File(_)) => format!("file, {}", advice(args)),
    };
    let beside = |(name, work, seconds): (&str, _, f64)| LoopDocument {
        name: name.into(),
        seconds: rounded(seconds),
        rate: rounded(rate(&work, seconds, unit)),
        rate_unit: unit.text().into(),
    };
    BenchDocument {
        schema: SCHEMA.into(),
        workload: args.workload.clone(),
        footprint_bytes: kernel.footprint(),
        threads: args.threads,
        memory,
        seconds: rounded(measured.total()),
        rate: rounded(measured.rate(unit)),
        rate_unit: unit.text().into(),
        bytes_moved: Some(measured.work.bytes),
        flops: Some(measured.work.flops),
        flops_per_byte: (measured.work.flops > 0)
            .then(|| rounded(measured.work.flops as f64 / measured.work.bytes.max(1) as f64)),
        accesses: Some(measured.work.accesses),
        edges: measured.work.edges,
        round_seconds: interleaf_record::all_rounded(&measured.seconds),
        loops: kernel.beside().into_iter().map(beside).collect(),
        ..BenchDocument::default()
    }
}
