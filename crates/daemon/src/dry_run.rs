//! A dry run: prints the setup of the daemon, and the writes that it would make. No setting is
//! changed.
//!
//! The daemon's own code runs on a root that records writes and does not make them. Therefore the
//! printed writes are those of a real run.

use crate::{
    config::Config,
    setup::{Setup, actuator_failure},
};
use interleaf_console::{Failure, output, system};
use interleaf_linux::{
    place::{
        actuator::{Actuator, SharedJournal},
        journal::Journal,
    },
    root::Root,
    stop_flag::StopFlag,
};
use interleaf_record::balance::{BalancePlanDocument, WriteDocument};
use std::{cell::RefCell, rc::Rc};

/// Prints the setup of the daemon, and every write to the kernel that the daemon would make.
///
/// # Errors
/// When the machine cannot be read, or its pages cannot be migrated.
pub fn run(config: &Config, json: bool, root: &Root) -> Result<(), Failure> {
    let document = plan(config, root)?;
    match json {
        true => output::data(&interleaf_record::json(&document)),
        false => output::text(&interleaf_report::balance::plan(&document)),
    }
}

fn plan(config: &Config, root: &Root) -> Result<BalancePlanDocument, Failure> {
    let setup = Setup::read(config, root)?;
    let (journal, _) = Journal::open(root).map_err(system::journal_failure)?;
    let journal: SharedJournal<'_> = Rc::new(RefCell::new(journal));
    let mut actuators = setup.actuators(config, root, &journal, StopFlag::default())?;
    let mut document = setup.plan(config, &actuators, root)?;
    let start = setup.start(config, None)?;
    document.start = setup.points(&start);
    set(&setup, config, &mut actuators, &start)?;
    document.writes = written(root, 0);
    let (next, done) = (setup.by_rating(), root.noted().len());
    let points = setup.points(&next);
    if points != document.start {
        set(&setup, config, &mut actuators, &next)?;
        document.next = points;
        document.next_writes = written(root, done);
    }
    Ok(document)
}

fn set(
    setup: &Setup,
    config: &Config,
    actuators: &mut [Option<Box<dyn Actuator + '_>>],
    shares: &[Vec<f64>],
) -> Result<(), Failure> {
    for (scope, (actuator, shares)) in actuators.iter_mut().zip(shares).enumerate() {
        let Some(actuator) = actuator else { continue };
        actuator
            .set(&setup.goal(config, scope, shares.clone()))
            .map_err(|why| actuator_failure(&why))?;
    }
    Ok(())
}

/// Returns the writes to the kernel that `root` has recorded and not made, without the first
/// `since` writes. Each write also has the present content of its file.
fn written(root: &Root, since: usize) -> Vec<WriteDocument> {
    let noted = root.noted().into_iter().skip(since);
    let document = |write: interleaf_linux::root::Write| {
        let was = root.peek(&write.path).ok().flatten();
        // A captured machine (a copy of a machine's files) has only the names of some files. Their
        // old values are unknown.
        let was = was.map(|was| was.trim().to_string()).filter(|was| !was.is_empty());
        WriteDocument { was, path: write.path, text: write.text }
    };
    noted.map(document).collect()
}
