//! A static program, which ignores preloaded libraries: it runs with steered swap.

use super::ExtendOptions;
use crate::Ended;
use interleaf_console::{Failure, output, system};
use interleaf_linux::{
    launch::command::Signals,
    process::program::{Linked, Program},
};
use interleaf_pager::{
    kernel::uffd::FaultMode,
    store::backing,
    swap_hints::swap::{self, SwapSession},
};
use interleaf_record::extend::CheckDocument;
use std::path::Path;

/// The size of the swap file: this multiple of the budget, or the free space divided by this,
/// whichever is less.
const SWAP_TIMES: u64 = 16;
const SWAP_PART: u64 = 2;

/// Returns true if the command is a static program.
pub(super) fn is_static(options: &ExtendOptions) -> bool {
    let program = options.command.first().and_then(|name| Program::inspect(name).ok());
    program.is_some_and(|program| matches!(program.linked, Linked::Static))
}

/// Checks for obstacles to steered swap; only for a static program with `--force`.
pub(super) fn check(options: &ExtendOptions) -> Vec<CheckDocument> {
    if !options.force || !is_static(options) {
        return vec![];
    }
    let mut found = vec![];
    let mut refuse = |why: &str, remedy: &str| {
        let detail = format!("the program is linked statically{why}");
        found.push(CheckDocument::refused("swap", detail, remedy));
    };
    if options.statistics || options.watch {
        let remedy = "leave --stats and --monitor out";
        refuse(": there are no statistics of what the kernel swaps", remedy);
    }
    if options.faults == FaultMode::Signal {
        refuse(": the kernel serves its faults, not a signal", "leave --faults out");
    }
    match options.stores.as_slice() {
        [store] => {
            if let Err(why) = swap::check(store) {
                found.push(CheckDocument::refused("swap", why.to_string(), &why.hint));
            }
        }
        _ => refuse(", and its swap is one file: there are several stores", "name one --store"),
    }
    found
}

/// Runs a static program with steered swap.
pub(super) fn run(options: &ExtendOptions, dram_bytes: u64) -> Result<Ended, Failure> {
    // The checks have ensured that a store is given.
    let Some(store) = options.stores.first() else {
        return Err(Failure::new("there is no store for swap", "name one --store"));
    };
    let signals = Signals::hold().map_err(system::signal_failure)?;
    let mut swap = begin_swap(store, dram_bytes)?;
    output::note(
        options.quiet,
        "it is linked statically: its pages go to swap, which is steered. That is slower by far \
         than what programs get that are not",
    );
    let (program, arguments) = options.command.split_first().unwrap_or_else(|| unreachable!());
    let started = swap.run_in_group(|| signals.start_with(&[], program, arguments));
    let started = started.map_err(|why| {
        let hint = "it takes root, and the memory controller of control groups";
        Failure::new(format!("the control group takes no command: {why}"), hint)
    })?;
    let mut running = started.map_err(system::start_failure)?;
    while !running.has_ended(swap.scan()) {}
    let status = running.status().map_err(system::wait_failure)?;
    let (elapsed, signal) = (running.elapsed(), running.came());
    let (ahead, out) = swap.hinted();
    drop(swap);
    output::note(
        options.quiet,
        &format!("the kernel was asked for {ahead} pages ahead, and to put out {out} behind"),
    );
    Ok(Ended { status: Some(status), elapsed, signal })
}

fn begin_swap(store: &Path, dram_bytes: u64) -> Result<SwapSession, Failure> {
    let free = backing::free(store).map_err(|why| {
        let hint = "name a folder on a fast drive that exists";
        Failure::new(format!("the store {}: {why}", store.display()), hint)
    })?;
    let swap = (dram_bytes * SWAP_TIMES).min(free / SWAP_PART) & !0xf_ffff;
    SwapSession::begin(store, dram_bytes, swap)
        .map_err(|why| Failure::new(why.to_string(), why.hint))
}
