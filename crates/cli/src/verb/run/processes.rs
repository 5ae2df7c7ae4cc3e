//! The pages of programs that run already.

use super::give;
use crate::{
    args::RunArgs,
    document::run::{MovedDocument, RunDocument},
    failure::Failure,
    output, render,
    verb::placed::{self, migrator, say, unmoved},
};
use interleaf_linux::{
    launch::command::Signals,
    machine::topology::Machine,
    place::{
        migrate::{Moved, Progress},
        placement::Placement,
    },
};
use std::{ops::ControlFlow, process::ExitCode};

/// How far from its share a node may be in the end, points of a hundred.
const POINTS: f64 = 1.0;

/// Moves the pages of the processes that are named, and says where they were and are.
pub(super) fn place(
    args: &RunArgs,
    machine: &Machine,
    placement: &Placement,
    document: &mut RunDocument,
) -> Result<ExitCode, Failure> {
    let signals = Signals::hold().map_err(placed::unheld)?;
    let mut migrator = migrator(args.migration_rate, placement)?;
    let bar = output::progress_bytes("moving pages");
    let watch = &mut |progress: &Progress<'_>| {
        bar.set_length(progress.total_bytes);
        bar.set_position(progress.looked_bytes);
        bar.set_message(format!("pass {}, {}", progress.pass, progress.process.name));
        match signals.come() {
            Some(_) => ControlFlow::Break(()),
            None => ControlFlow::Continue(()),
        }
    };
    let moved = if args.dry_run {
        let found = migrator.forecast(&args.pid, watch).map_err(unmoved)?;
        MovedDocument::planned(&found)
    } else {
        let outcome = migrator.run(&args.pid, watch).map_err(unmoved)?;
        let has_none = |it: &Moved| !it.ended && it.before.total() == 0;
        if !outcome.stopped && outcome.processes.iter().all(has_none) {
            let pids: Vec<String> = args.pid.iter().map(u32::to_string).collect();
            return Err(Failure::new(
                format!("process {} has no memory of its own to move", pids.join(", ")),
                "name a program that runs: threads of the kernel and what has ended have none",
            ));
        }
        MovedDocument::from(&outcome)
    };
    bar.finish_and_clear();
    let reached = args.dry_run || is_reached(placement, &moved);
    let stopped = moved.stopped;
    document.moved = Some(moved);
    give(args, document, render::run::moved)?;
    if machine.sysctls.numa_balancing.is_some_and(|value| value > 0) && !args.dry_run {
        say(
            args.quiet,
            "numa_balancing is on and may pull the pages back to the CPUs that use them: sysctl \
             kernel.numa_balancing=0",
        );
    }
    Ok(if reached && !stopped { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

/// Whether each node has its share.
fn is_reached(placement: &Placement, moved: &MovedDocument) -> bool {
    let total: u64 = moved.after_bytes.values().sum();
    let mut nodes = placement.nodes.iter().zip(placement.shares());
    nodes.all(|((node, _), share)| {
        let has = moved.after_bytes.get(node).copied().unwrap_or(0);
        total == 0 || 100.0 * (has as f64 / total as f64 - share).abs() <= POINTS
    })
}
