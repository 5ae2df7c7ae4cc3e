//! Weights: which are tried, what has to be set in the kernel for each, and that it is put back.

use super::{
    setup::{Given, Setup},
    task::Task,
};
use crate::{
    args::{WayChoice, WeightsChoice},
    verb::placed,
};
use interleaf_console::{Failure, system};
use interleaf_linux::place::{
    journal::Journal,
    placement::{Means, Placement, PlacementError},
};
use interleaf_measure::interleave::Way;
use interleaf_model::weights::Weights;
use interleaf_record::run::{ChangedSetting, PutBackDocument};

/// What stands for `all`: each ratio of whole numbers up to this.
const RATIO_MAX: u16 = 10;

/// The weights that are tried, each of which means something here.
pub(super) fn choices(
    setup: &Setup<'_>,
    given: &Given<'_>,
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
    let asked = given.interleave.and_then(|args| args.weights.clone());
    let choices = match asked {
        Some(WeightsChoice::List(list)) => list,
        Some(WeightsChoice::All) => Weights::every_ratio(2, RATIO_MAX),
        None => usual.iter().filter_map(|text| text.parse().ok()).collect(),
    };
    for weights in &choices {
        placement(setup, weights)?;
    }
    Ok(choices)
}

/// What weights mean here.
pub(super) fn placement(setup: &Setup<'_>, weights: &Weights) -> Result<Placement, Failure> {
    let named = setup.named.as_deref();
    Placement::new(&setup.machine, weights, named, setup.allowed.as_ref())
        .map_err(|why: PlacementError| Failure::new(why.to_string(), why.hint()))
}

/// How pages come to where weights want them, and why not as one would expect.
pub(super) fn way(
    setup: &Setup<'_>,
    asked: Option<WayChoice>,
    dry_run: bool,
) -> Result<(Way, Option<String>), Failure> {
    let has_weights = setup.machine.weighted_interleave.is_some();
    match (asked, has_weights) {
        (Some(WayChoice::Pages), _) => Ok((Way::Pages, None)),
        (Some(WayChoice::Kernel), false) => Err(Failure::new(
            "--way kernel: this kernel has no weighted interleaving",
            "leave it out: each page is put where it is to be; or run Linux 6.9 or later",
        )),
        (None, false) => {
            let why = "this kernel has no weighted interleaving: pages are placed one by one";
            Ok((Way::Pages, Some(why.into())))
        }
        (_, true) if dry_run => Ok((Way::Kernel, None)),
        (asked, true) => match Journal::open(setup.root) {
            Ok(_) => Ok((Way::Kernel, None)),
            Err(why) if why.is_permission() && asked.is_none() => {
                let why = "only root may set weights: pages are placed one by one";
                Ok((Way::Pages, Some(why.into())))
            }
            Err(why) => Err(system::journal_failure(why)),
        },
    }
}

/// Does `work` while the kernel has the weights of a placement, and puts them back however it
/// ends. A process that is killed leaves them, and `interleaf run --restore` puts them back.
pub(super) fn under<T, E: From<Failure>>(
    setup: &Setup<'_>,
    placement: &Placement,
    way: Way,
    put_back: &mut Vec<PutBackDocument>,
    work: impl FnOnce() -> Result<T, E>,
) -> Result<T, E> {
    if way == Way::Pages || placement.means != Means::Weighted {
        return work();
    }
    let (mut journal, undone) = Journal::open(setup.root).map_err(system::journal_failure)?;
    note(put_back, undone.iter().map(PutBackDocument::from));
    for setting in placement.settings(&setup.machine) {
        journal.set(&setting.path, &setting.text).map_err(system::journal_failure)?;
    }
    let done = work();
    let undone = journal.close().map_err(system::journal_failure)?;
    note(put_back, undone.iter().map(PutBackDocument::from));
    done
}

/// Keeps of each setting what became of it last.
fn note(put_back: &mut Vec<PutBackDocument>, undone: impl Iterator<Item = PutBackDocument>) {
    for undone in undone {
        put_back.retain(|known| known.path != undone.path || known.outcome != undone.outcome);
        put_back.push(undone);
    }
}

/// What would be set for some tasks.
pub(super) fn would_set(
    setup: &Setup<'_>,
    tasks: &[Task],
    way: Way,
) -> Result<Vec<ChangedSetting>, Failure> {
    let mut all: Vec<ChangedSetting> = vec![];
    if way == Way::Pages {
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
