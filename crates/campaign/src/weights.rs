//! Selects the choices of weights that a measurement uses, and sets the kernel's weights for them.

use crate::{options::Options, setup::Setup, task::Task};
use interleaf_console::{Failure, system};
use interleaf_launch::placed;
use interleaf_linux::place::{
    journal::Journal,
    placement::{Means, Placement, PlacementError},
};
use interleaf_measure::interleave::Method;
use interleaf_model::weights::Weights;
use interleaf_record::{
    run::{ChangedSetting, PutBackDocument},
    warning::Warning,
};

/// Returns the requested choices of weights, or the choices `usual` if none were requested. Fails
/// if fewer than two nodes are measured, or if a choice is not valid for the measured nodes.
pub(crate) fn choices(
    setup: &Setup<'_>,
    options: &Options,
    usual: &[&str],
) -> Result<Vec<Weights>, Failure> {
    let nodes = setup.memory.len();
    if nodes < 2 {
        let why =
            format!("all memory is on node {}: there is nothing to interleave", setup.memory[0]);
        let hint = "name several nodes with --nodes; `interleaf doctor` says how an expander \
                    becomes a node, `interleaf predict` needs none";
        return Err(Failure::new(why, hint));
    }
    let requested = options.interleave.as_ref().and_then(|it| it.weights.clone());
    let usual = || usual.iter().filter_map(|text| text.parse().ok()).collect();
    let choices = requested.unwrap_or_else(usual);
    for weights in &choices {
        placement(setup, weights)?;
    }
    Ok(choices)
}

/// Returns the placement of pages on the measured nodes that `weights` describes.
pub(crate) fn placement(setup: &Setup<'_>, weights: &Weights) -> Result<Placement, Failure> {
    let named = setup.named.as_deref();
    Placement::new(&setup.machine, weights, named, setup.allowed.as_ref())
        .map_err(|why: PlacementError| Failure::new(why.to_string(), why.hint()))
}

/// Returns the mechanism that places pages: the requested one, or by default the kernel's weights.
/// If no mechanism was requested and the kernel's weights cannot be used, returns [`Method::Pages`]
/// with a warning.
pub(crate) fn method(
    setup: &Setup<'_>,
    requested: Option<Method>,
    dry_run: bool,
) -> Result<(Method, Option<Warning>), Failure> {
    let has_weights = setup.machine.weighted_interleave.is_some();
    match (requested, has_weights) {
        (Some(Method::Pages), _) => Ok((Method::Pages, None)),
        (Some(Method::Kernel), false) => Err(Failure::new(
            "--way kernel: this kernel has no weighted interleaving",
            "leave it out: each page is put where it is to be; or run Linux 6.9 or later",
        )),
        (None, false) => Ok((Method::Pages, Some(Warning::NoWeightedInterleaving))),
        (_, true) if dry_run => Ok((Method::Kernel, None)),
        (requested, true) => match Journal::open(setup.root) {
            Ok(_) => Ok((Method::Kernel, None)),
            Err(why) if why.is_permission() && requested.is_none() => {
                Ok((Method::Pages, Some(Warning::WeightsNotPermitted)))
            }
            Err(why) => Err(system::journal_failure(why)),
        },
    }
}

/// Runs `work`. If `method` uses the kernel's weights and the placement is weighted, sets the
/// kernel's weights before `work`, and restores the old weights after `work`, even after an error.
/// Adds the outcome of each restored setting to `put_back`. If the process is killed, `interleaf
/// run --restore` restores the old weights.
pub(crate) fn with_weights<T, E: From<Failure>>(
    setup: &Setup<'_>,
    placement: &Placement,
    method: Method,
    put_back: &mut Vec<PutBackDocument>,
    work: impl FnOnce() -> Result<T, E>,
) -> Result<T, E> {
    if method == Method::Pages || placement.means != Means::Weighted {
        return work();
    }
    let (mut journal, undone) = Journal::open(setup.root).map_err(system::journal_failure)?;
    remember(put_back, undone.iter().map(PutBackDocument::from));
    for setting in placement.settings(&setup.machine) {
        journal.set(&setting.path, &setting.text).map_err(system::journal_failure)?;
    }
    let done = work();
    let undone = journal.close().map_err(system::journal_failure)?;
    remember(put_back, undone.iter().map(PutBackDocument::from));
    done
}

/// Adds the entries of `undone` to `put_back`. Each entry is the outcome for one setting that had
/// to be restored. An earlier entry with the same path and outcome is removed, so that a repeated
/// outcome is listed once.
fn remember(put_back: &mut Vec<PutBackDocument>, undone: impl Iterator<Item = PutBackDocument>) {
    for undone in undone {
        put_back.retain(|known| known.path != undone.path || known.outcome != undone.outcome);
        put_back.push(undone);
    }
}

/// Returns the kernel settings that the tasks need.
pub(crate) fn needed_settings(
    setup: &Setup<'_>,
    tasks: &[Task],
    method: Method,
) -> Result<Vec<ChangedSetting>, Failure> {
    let mut all: Vec<ChangedSetting> = vec![];
    if method == Method::Pages {
        return Ok(all);
    }
    for task in tasks {
        let Task::Weights { weights, .. } = task else { continue };
        let placement = placement(setup, weights)?;
        for setting in placed::settings(setup.root, &setup.machine, &placement)? {
            if !all.contains(&setting) {
                all.push(setting);
            }
        }
    }
    Ok(all)
}
