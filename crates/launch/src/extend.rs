//! Runs a command that needs more memory than the machine has: its large allocations are stored on
//! a drive, with DRAM as their cache (`interleaf_pager`). A preloaded library extends the
//! allocations.
//!
//! [`prepare`] checks that the command can be extended on this machine, [`fn@estimate`] measures
//! the stores, and [`run`] begins a session and runs the command in it. A session may have two
//! helper processes: [`serve`] serves the memory that processes share, and [`fn@release`] frees the
//! blocks of store files. The helpers are this program with other arguments, and they may outlive
//! the command.

mod budget;
mod check;
mod estimate;
mod forecast;
mod helper;
mod job;
mod library;
mod nodes;
mod outside_budget;
mod release;
mod session_failure;
mod shared;
mod steered_swap;

pub use budget::{ALLOC_MIN, DRAM_MIN, Dram};
pub use estimate::{THIS, measured_drive};
pub use forecast::{ForecastOptions, forecast};
pub use job::Job;
pub use release::serve as release;
pub use session_failure::session_failure;
pub use shared::serve;
pub use steered_swap::SteeredSwap;

use crate::Ended;
use interleaf_console::{Failure, output, system};
use interleaf_linux::{
    launch::command::{Running, Signals},
    root::Root,
};
use interleaf_model::units::Bytes;
use interleaf_observe::usage;
use interleaf_pager::{
    kernel::uffd::FaultMode,
    session::{Children, SCHEMA, SKIP_SBRK, Session, SessionSettings, VARIABLE},
};
use interleaf_record::{
    extend::{CheckDocument, ExtendDocument, ExtendPlanDocument, SessionProcesses},
    rounded,
};

use outside_budget::OutsideBudget;
use std::{
    env,
    ffi::OsString,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

/// The interval between two readings of the session's ledger, which has the counts of its pagers.
const TICK: Duration = Duration::from_millis(100);

/// The interval between two lines of statistics of a running command (`--monitor`).
const LINE: Duration = Duration::from_secs(1);

/// The environment variable that lists the libraries which the dynamic loader preloads.
const PRELOAD: &str = "LD_PRELOAD";

/// The options of `interleaf extend` for a command.
#[derive(Clone, Debug)]
pub struct ExtendOptions {
    pub command: Vec<OsString>,
    /// The budget; `None` only for an estimate without a budget.
    pub dram: Option<Dram>,
    /// The stores: folders and block devices.
    pub stores: Vec<PathBuf>,
    /// Minimum size of an extended allocation; `None` for an eighth of the budget, but at least 128
    /// KiB and at most 64 MiB.
    pub min_alloc: Option<Bytes>,
    /// The treatment of child processes: they share the budget, have budgets of their own, or are
    /// not extended.
    pub children: Children,
    /// True if shared anonymous memory is extended too.
    pub shared: bool,
    /// The fault handling mode.
    pub faults: FaultMode,
    /// Number of processes that share the budget evenly from the start. `None` means the number of
    /// ranks of a parallel job (MPI, Slurm) on this node if it is known, and 1 otherwise.
    pub processes: Option<u32>,
    /// The name of the session whose budget the command shares; `None` for the session of its job
    /// (MPI, Slurm), or outside a job a session of its own.
    pub session: Option<String>,
    /// The footprint of the program, for an estimate.
    pub footprint: Option<Bytes>,
    /// True if the command runs although a check fails that the user may waive.
    pub force: bool,
    /// True if a line of statistics is printed each second.
    pub watch: bool,
    /// True if the user requests the statistics of the pagers (`--stats` or `--report`). A static
    /// program is then refused, because it would use steered swap, which has no pagers.
    pub statistics: bool,
    /// True if only errors are printed.
    pub quiet: bool,
}

/// A command that is ready to run, with the results of its checks.
pub struct Prepared {
    /// The document of a dry run: the settings of the session, and the results of the checks.
    pub plan: ExtendPlanDocument,
    settings: SessionSettings,
    /// The name of the session if other commands may share it; otherwise `None`.
    name: Option<String>,
    preload_library: PathBuf,
}

/// The result of an extended command.
pub struct Extended {
    /// Exit status and run time.
    pub ended: Ended,
    /// The statistics of the pagers; `None` for a static program, which uses steered swap.
    pub document: Option<ExtendDocument>,
}

/// Checks that a command can be extended on this machine. `job` is the parallel job (MPI, Slurm) of
/// which this process is a rank; `None` outside a job.
///
/// # Errors
/// When the preloaded library is not found, or the options are invalid. A failed check is not an
/// error here: the plan has it.
pub fn prepare(options: &ExtendOptions, job: Option<Job>) -> Result<Prepared, Failure> {
    let library = library::library()?;
    let settings = settings(options, job.as_ref())?;
    let name = options.session.clone().or(job.map(|job| job.name));
    let checks = check::checks(options, &settings, name.as_deref(), &library);
    let plan = ExtendPlanDocument::new(&settings, checks, options.force);
    Ok(Prepared { plan, settings, name, preload_library: library })
}

/// Measures the stores, and adds an estimate of the speed of programs to `prepared.plan`.
///
/// # Errors
/// When a store is refused or cannot be measured.
pub fn estimate(options: &ExtendOptions, prepared: &mut Prepared) -> Result<(), Failure> {
    let plan = &mut prepared.plan;
    // Measuring a store writes to it, so the checks of the stores must pass first.
    let stores: Vec<_> =
        plan.checks.iter().filter(|check| check.what == "store").cloned().collect();
    refuse(options, &stores)?;
    plan.estimate = Some(estimate::estimate(options, plan.dram_bytes)?);
    Ok(())
}

/// Runs the command, unless a check refuses it.
///
/// # Errors
/// When a check refuses the command, or the session cannot begin.
pub fn run(options: &ExtendOptions, prepared: &Prepared) -> Result<Extended, Failure> {
    refuse(options, &prepared.plan.checks)?;
    if steered_swap::is_static(options) {
        let ended = steered_swap::run(options, prepared.settings.dram_bytes)?;
        return Ok(Extended { ended, document: None });
    }
    if options.faults == FaultMode::Signal {
        output::note(
            options.quiet,
            "--faults signal: a system call that meets memory which is not in DRAM fails (EFAULT)",
        );
    }
    let base = Session::base().map_err(session_failure)?;
    sweep(options.quiet, &base)?;
    let signals = Signals::hold().map_err(system::signal_failure)?;
    let session = Session::begin(&base, prepared.name.as_deref(), &prepared.settings);
    let session = session.map_err(session_failure)?;
    let result = run_extended(options, &signals, &session, &prepared.preload_library);
    // The session ends also if the command cannot be started.
    let left = session.end();
    let (ended, document) = result?;
    if !left.is_empty() {
        let names: Vec<String> = left
            .iter()
            .map(|process| format!("{} ({})", process.name, process.identity.pid))
            .collect();
        output::note(
            options.quiet,
            &format!("still run, on the pages that they have: {}", names.join(", ")),
        );
    }
    Ok(Extended { ended, document: Some(document) })
}

/// Returns an error if a check refuses the command. Otherwise prints the warnings and the waived
/// checks.
fn refuse(options: &ExtendOptions, checks: &[CheckDocument]) -> Result<(), Failure> {
    if let Some(check) = checks.iter().find(|check| check.stands_against(options.force)) {
        let remedy = check.remedy.clone().unwrap_or_default();
        return Err(Failure::new(check.detail.clone(), remedy));
    }
    for check in checks.iter().filter(|check| check.is_doubtful()) {
        output::note(options.quiet, &format!("{}: {}", check.what, check.detail));
    }
    Ok(())
}

fn settings(options: &ExtendOptions, job: Option<&Job>) -> Result<SessionSettings, Failure> {
    let mut stores = vec![];
    for store in &options.stores {
        // Make the path absolute: the command may change its working directory before it opens the
        // store.
        stores.push(std::path::absolute(store).map_err(|why| {
            Failure::new(
                format!("--store {}: {why}", store.display()),
                "name a folder on a fast drive, or a block device",
            )
        })?);
    }
    let dram_bytes = budget::dram(&Root::live(), options)?;
    Ok(SessionSettings {
        schema: SCHEMA.into(),
        dram_bytes,
        nodes: nodes::budgets(&Root::live(), options.dram.as_ref())?,
        stores,
        min_alloc_bytes: budget::min_alloc(options, dram_bytes),
        children: options.children,
        shared: options.shared,
        faults: options.faults,
        force: options.force,
        processes: options.processes.or(job.and_then(|job| job.ranks)).unwrap_or(1),
        command: options.command.iter().map(|word| word.to_string_lossy().into_owned()).collect(),
        keeper: std::process::id(),
    })
}

/// Runs the command in a session, and collects the statistics of its pagers.
fn run_extended(
    options: &ExtendOptions,
    signals: &Signals,
    session: &Session,
    library: &Path,
) -> Result<(Ended, ExtendDocument), Failure> {
    let (program, arguments) = options.command.split_first().unwrap_or_else(|| unreachable!());
    let (mut seen, mut outside) = (SessionProcesses::default(), OutsideBudget::new());
    let document =
        |seen: &SessionProcesses| ExtendDocument::new(&session.settings, &session.ledger, seen);
    if let Some(signal) = signals.arrived_signal() {
        return Ok((Ended::not_started(signal), document(&seen)));
    }
    let server = options.shared.then(|| shared::Server::start(session)).transpose()?;
    let _releaser = release::start(session);
    let variables = [
        (PRELOAD, preloaded(env::var_os(PRELOAD), library)),
        (VARIABLE, session.folder().as_os_str().into()),
        (SKIP_SBRK.0, SKIP_SBRK.1.into()),
    ];
    let mut running =
        signals.start_with(&variables, program, arguments).map_err(system::start_failure)?;
    session.ledger.set_first_process(running.pid());
    let mut line = Instant::now() + LINE;
    while !running.has_ended(TICK) {
        seen.update_and_recover(&session.ledger);
        outside.update(&session.ledger);
        if options.watch && Instant::now() >= line {
            line += LINE;
            print_line(&running, document(&seen));
        }
    }
    let used = running.resources().ok();
    let status = running.status().map_err(system::wait_failure)?;
    seen.update_and_recover(&session.ledger);
    drop(server);
    seen.update_and_recover(&session.ledger);
    let mut document = document(&seen);
    document.record_exit(Some(status), running.elapsed());
    outside.add_to(&mut document);
    document.user_s = used.map(|used| rounded(used.user.as_secs_f64()));
    document.system_s = used.map(|used| rounded(used.system.as_secs_f64()));
    document.resident_max_bytes = usage::children_resident_max().ok().flatten();
    let ended = Ended {
        status: Some(status),
        elapsed: running.elapsed(),
        signal: running.arrived_signal(),
    };
    Ok((ended, document))
}

/// Prints a line of statistics of the pagers.
fn print_line(running: &Running<'_>, mut document: ExtendDocument) {
    document.elapsed_s = running.age().as_secs_f64();
    output::note(false, &interleaf_report::extend::line(&document));
}

/// Returns the value of the variable [`PRELOAD`] for the command: the path of the preloaded
/// library, followed by the user's libraries. `was` is the variable's value in this process.
fn preloaded(was: Option<OsString>, library: &Path) -> OsString {
    let mut all = library.as_os_str().to_os_string();
    if let Some(was) = was.filter(|was| !was.is_empty()) {
        all.push(":");
        all.push(was);
    }
    all
}

/// Deletes the folders of sessions whose processes have all ended. Such a folder remains if the
/// `interleaf extend` of the session was killed, or if a process of the session outlived it.
fn sweep(quiet: bool, base: &Path) -> Result<Vec<PathBuf>, Failure> {
    let swept = Session::sweep(base).map_err(session_failure)?;
    for folder in &swept {
        output::note(
            quiet,
            &format!("{}: removed, all processes of its session have ended", folder.display()),
        );
    }
    Ok(swept)
}

/// Carries out `--clean`: deletes the folders of sessions whose processes have all ended.
///
/// # Errors
/// When a folder cannot be read or removed.
pub fn clean(quiet: bool) -> Result<(), Failure> {
    let base = Session::base().map_err(session_failure)?;
    if sweep(quiet, &base)?.is_empty() {
        output::note(quiet, "no session has left anything");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_users_preloaded_libraries_stay() {
        let library = Path::new("/lib/ours.so");
        assert_eq!(preloaded(None, library), "/lib/ours.so");
        assert_eq!(preloaded(Some("".into()), library), "/lib/ours.so");
        assert_eq!(preloaded(Some("a.so b.so".into()), library), "/lib/ours.so:a.so b.so");
    }
}
