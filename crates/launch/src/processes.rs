//! Migrates the pages of running processes, so that each node has the share that a placement gives
//! it.

use crate::placed::migrator;
use interleaf_console::{Failure, output, system};
use interleaf_linux::{
    launch::command::Signals,
    machine::topology::Machine,
    place::{
        migrate::{ProcessOutcome, Progress},
        placement::Placement,
    },
};
use interleaf_model::units::Bandwidth;
use interleaf_record::{
    run::{MovedDocument, RunDocument},
    warning::Warning,
};
use std::ops::ControlFlow;

/// Largest tolerated difference between a node's share of the pages and its target share,
/// percentage points.
const POINTS: f64 = 1.0;

#[derive(Clone, Debug)]
pub struct MoveOptions {
    /// The process IDs; the descendants of these processes are included.
    pub pids: Vec<u32>,
    /// The highest migration rate.
    pub rate: Bandwidth,
    /// True to report the plan without migrating pages.
    pub dry_run: bool,
}

/// Migrates the pages of processes to the shares of a placement. A signal interrupts the migration.
/// `document` gets the bytes on each node before and after the migration. Returns true if no signal
/// came and each node has its share. A dry run does not check the shares.
///
/// # Errors
/// When the pages cannot be migrated, or the processes have no pages.
pub fn move_processes(
    options: &MoveOptions,
    placement: &Placement,
    document: &mut RunDocument,
) -> Result<bool, Failure> {
    let signals = Signals::hold().map_err(system::signal_failure)?;
    let mut migrator = migrator(options.rate, placement)?;
    let bar = output::progress_bytes("moving pages");
    let watch = &mut |progress: &Progress<'_>| {
        bar.set_length(progress.total_bytes);
        bar.set_position(progress.scanned_bytes);
        bar.set_message(format!("pass {}, {}", progress.pass, progress.process.name));
        match signals.arrived_signal() {
            Some(_) => ControlFlow::Break(()),
            None => ControlFlow::Continue(()),
        }
    };
    let moved = if options.dry_run {
        let found = migrator.forecast(&options.pids, watch).map_err(system::migrate_failure)?;
        MovedDocument::planned(&found)
    } else {
        let outcome = migrator.run(&options.pids, watch).map_err(system::migrate_failure)?;
        let has_none = |it: &ProcessOutcome| !it.ended && it.before.total() == 0;
        if !outcome.stopped && outcome.processes.iter().all(has_none) {
            let pids: Vec<String> = options.pids.iter().map(u32::to_string).collect();
            return Err(Failure::new(
                format!("process {} has no memory of its own to move", pids.join(", ")),
                "name a program that runs: kernel threads and processes that have ended have none",
            ));
        }
        MovedDocument::from(&outcome)
    };
    bar.finish_and_clear();
    let reached = options.dry_run || is_reached(placement, &moved);
    let stopped = moved.stopped;
    document.moved = Some(moved);
    Ok(reached && !stopped)
}

/// Returns a warning if the kernel's NUMA balancing is on, because it may migrate the pages back;
/// otherwise `None`.
pub fn rival(machine: &Machine) -> Option<Warning> {
    let balances = machine.sysctls.numa_balancing.is_some_and(|value| value > 0);
    balances.then_some(Warning::NumaBalancing { has_stop_rivals: false })
}

/// Returns true if the share of pages on each node after the migration differs from its target
/// share by at most [`POINTS`].
fn is_reached(placement: &Placement, moved: &MovedDocument) -> bool {
    let total: u64 = moved.after_bytes.values().sum();
    let mut nodes = placement.nodes.iter().zip(placement.shares());
    nodes.all(|((node, _), share)| {
        let has = moved.after_bytes.get(node).copied().unwrap_or(0);
        total == 0 || 100.0 * (has as f64 / total as f64 - share).abs() <= POINTS
    })
}
