//! Steered swap: swap in place of the pager, with hints to the kernel. It is for static programs,
//! which do not load the preloaded library of the pager. The hints come from
//! [`interleaf_swap_hints`].
//!
//! The swap file and the control group are recorded in a journal. Closing the journal after the
//! command removes both. If this process is killed, `--restore` removes them.

use super::ExtendOptions;
use crate::{Ended, restore::report_restored};
use interleaf_console::{Failure, output, system};
use interleaf_linux::{
    launch::{
        command::Signals,
        limited_group::{LimitedGroup, LimitedGroupError},
        swapfile::{SwapError, SwapFile},
    },
    place::journal::{Journal, Undone},
    process::{
        cgroup::Trees,
        program::{Linked, Program},
    },
    root::Root,
};
use interleaf_pager::kernel::uffd::FaultMode;
use interleaf_record::{extend::CheckDocument, run::PutBackDocument};
use interleaf_store::{StoreRefused, backing};
use interleaf_swap_hints::group::HintedGroup;
use std::path::Path;

/// Size of the swap file: `SWAP_TIMES` times the budget, but at most the free space of the store
/// divided by `SWAP_DIVISOR`. The rest of the free space stays for other files.
const SWAP_TIMES: u64 = 16;
const SWAP_DIVISOR: u64 = 2;

const NO_GROUP_HINT: &str = "it takes root, and the memory controller of control groups";

/// The message after an OOM kill. While all pages of a small group are being written to swap, the
/// kernel finds no page to evict, and may kill a process although there is room in swap.
const OOM_KILLED: &str = "interleaf: the kernel has killed a process: swap is full, or the store \
     takes pages too slowly\nhint: raise --dram, or name a faster store with more free space";

/// A swap file and a control group with a memory limit, for one command.
pub struct SteeredSwap<'a> {
    _file: SwapFile,
    group: LimitedGroup<'a>,
}

impl<'a> SteeredSwap<'a> {
    /// Makes a swap file of `swap_bytes` in the folder `store`, turns it on, and makes a control
    /// group with a memory limit of `dram_bytes`. Closing the journal removes both.
    ///
    /// # Errors
    /// When the swap file or the control group cannot be made. Both need root.
    pub fn begin(
        root: &'a Root,
        journal: &mut Journal<'_>,
        store: &Path,
        dram_bytes: u64,
        swap_bytes: u64,
    ) -> Result<Self, StoreRefused> {
        check_store(root, store)?;
        // The journal undoes changes in reverse order: first, programs that still run leave the
        // group. Then swapoff reads their pages into memory, where the group's limit no longer
        // applies.
        let file = SwapFile::preferred(root, journal, store, swap_bytes);
        let file = file.map_err(|why| swap_refused(store, &why))?;
        let group = LimitedGroup::new(root, journal, dram_bytes);
        let group = group.map_err(|why| group_refused(store, &why))?;
        Ok(Self { _file: file, group })
    }

    /// The control group in which the command is started.
    pub const fn group(&self) -> &LimitedGroup<'a> {
        &self.group
    }
}

/// Returns true if the command is a static program.
pub(super) fn is_static(options: &ExtendOptions) -> bool {
    let program = options.command.first().and_then(|name| Program::inspect(name).ok());
    program.is_some_and(|program| matches!(program.linked, Linked::Static))
}

/// Returns the obstacles to steered swap, as refused checks. Without `--force`, or if the program
/// is not static, steered swap is not used, and nothing is checked.
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
        let remedy = "leave --stats, --report and --monitor out";
        refuse(": there are no statistics of what the kernel swaps", remedy);
    }
    if options.faults == FaultMode::Signal {
        refuse(": the kernel serves its faults, not a signal", "leave --faults out");
    }
    match options.stores.as_slice() {
        [store] => {
            if let Err(why) = check_store(&Root::live(), store) {
                found.push(CheckDocument::refused("swap", why.to_string(), &why.hint));
            }
        }
        _ => refuse(", and its swap is one file: there are several stores", "name one --store"),
    }
    found
}

/// Checks that `store` is a folder, that this process is root, and that a control group can limit
/// memory. Makes neither a swap file nor a control group.
///
/// # Errors
/// When one of the three conditions is not met.
fn check_store(root: &Root, store: &Path) -> Result<(), StoreRefused> {
    if !store.is_dir() {
        let hint = "name a folder: swap for a static program is a file";
        return Err(refused(store, "is not a folder".into(), hint));
    }
    if !rustix::process::geteuid().is_root() {
        let hint = "run it as root, or link the program dynamically";
        return Err(refused(store, "no swap there: swapon(2) takes root".into(), hint));
    }
    if Trees::read(root).ok().flatten().is_some_and(|trees| trees.memory.is_some()) {
        return Ok(());
    }
    let why = "there is no budget without a control group, and none has the memory controller";
    let hint = "mount -t cgroup2 cgroup2 /sys/fs/cgroup; boot without cgroup_disable=memory";
    Err(refused(store, why.into(), hint))
}

fn swap_refused(store: &Path, why: &SwapError) -> StoreRefused {
    let hint = "it takes root, free space, and a file system that can hold swap (ext4, XFS)";
    refused(store, format!("no swap there: {why}"), hint)
}

fn group_refused(store: &Path, why: &LimitedGroupError) -> StoreRefused {
    let why = format!("there is no budget without a control group: {why}");
    refused(store, why, NO_GROUP_HINT)
}

fn refused(store: &Path, why: String, hint: &str) -> StoreRefused {
    StoreRefused { store: store.display().to_string(), why, hint: hint.into() }
}

/// Runs a static program with steered swap.
pub(super) fn run(options: &ExtendOptions, dram_bytes: u64) -> Result<Ended, Failure> {
    // The checks before this call ensure that a store is given.
    let Some(store) = options.stores.first() else {
        return Err(Failure::new("there is no store for swap", "name one --store"));
    };
    let free = backing::free(store).map_err(|why| {
        let hint = "name a folder on a fast drive that exists";
        Failure::new(format!("the store {}: {why}", store.display()), hint)
    })?;
    let swap_bytes = (dram_bytes * SWAP_TIMES).min(free / SWAP_DIVISOR) & !0xf_ffff;
    let signals = Signals::hold().map_err(system::signal_failure)?;
    let root = Root::live();
    let (mut journal, undone) = Journal::open(&root).map_err(system::journal_failure)?;
    report_restored(options.quiet, &undone.iter().map(PutBackDocument::from).collect::<Vec<_>>());
    let swap = SteeredSwap::begin(&root, &mut journal, store, dram_bytes, swap_bytes)
        .map_err(|why| Failure::new(why.to_string(), why.hint))?;
    let ended = run_steered(options, &signals, &swap, dram_bytes);
    let undone = journal.close().map_err(system::journal_failure)?;
    // Report only changes that were not undone: the user expects that the swap file and the group
    // are removed.
    let left = undone.iter().filter(|it| !matches!(it, Undone::Restored(_)));
    report_restored(options.quiet, &left.map(PutBackDocument::from).collect::<Vec<_>>());
    ended
}

fn run_steered(
    options: &ExtendOptions,
    signals: &Signals,
    swap: &SteeredSwap<'_>,
    dram_bytes: u64,
) -> Result<Ended, Failure> {
    output::note(
        options.quiet,
        "it is linked statically: its pages go to swap, with hints to the kernel. That is slower \
         by far than the pager of a program that is linked dynamically",
    );
    let (program, arguments) = options.command.split_first().unwrap_or_else(|| unreachable!());
    let started = swap.group().run_inside(|| signals.start_with(&[], program, arguments));
    let started = started.map_err(|why| {
        Failure::new(format!("the control group takes no command: {why}"), NO_GROUP_HINT)
    })?;
    let mut running = started.map_err(system::start_failure)?;
    let mut hinted = HintedGroup::new(swap.group().processes_file(), dram_bytes);
    while !running.has_ended(hinted.scan()) {}
    let status = running.status().map_err(system::wait_failure)?;
    let (elapsed, signal) = (running.elapsed(), running.arrived_signal());
    let (ahead, out) = hinted.hinted();
    if swap.group().has_oom_killed() {
        output::message(OOM_KILLED);
    }
    output::note(
        options.quiet,
        &format!("the kernel was asked to read {ahead} pages ahead, and to page out {out} behind"),
    );
    Ok(Ended { status: Some(status), elapsed, signal })
}
