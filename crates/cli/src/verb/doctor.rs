//! `interleaf doctor`.

use crate::args::DoctorArgs;
use interleaf_console::{Failure, output, system};
use interleaf_linux::{
    machine::{
        damon::{
            ADMIN,
            probe::{ProbeError, Probed, probe},
        },
        hardware::Hardware,
        topology::Machine,
    },
    place::actuator::physical,
    root::Root,
};
use interleaf_observe::{
    capability::{Capability, Status, capabilities},
    counters::topdown,
    rapl::Meter,
    resctrl,
};
use interleaf_pager::rights::{self, MissingRight};
use interleaf_record::machine::DoctorDocument;
use std::path::Path;

pub(super) fn run(args: &DoctorArgs, root: Option<&Path>) -> Result<(), Failure> {
    let root = system::open_root(root)?;
    let machine = Machine::read(&root).map_err(system::read_failure)?;
    let asked = if args.probe { Some(ask(&root)?) } else { None };
    let mut found = capabilities(&root, &machine, asked.as_ref()).map_err(system::read_failure)?;
    if root.is_live() {
        found.iter_mut().for_each(tried);
    }
    if let Some(target) = &args.capture {
        // Files that no capability reads, and `balance` does.
        for path in [physical::ZONEINFO.to_string(), format!("{ADMIN}/nr_kdamonds")] {
            root.text_if_allowed(&path).map_err(system::read_failure)?;
        }
        // And what a record of a measurement says of the machine.
        Hardware::read(&root).map_err(system::read_failure)?;
        // And what `measure app` does: that there is no plan is seen where it is read.
        drop(topdown::plan(&root));
        drop(resctrl::probe(&root));
        Meter::zones(&root).map_err(system::read_failure)?;
        root.capture(target).map_err(|why| {
            Failure::new(
                format!("{}: cannot be captured to: {why}", target.display()),
                "name a folder that is not there yet, in one that you may write to",
            )
        })?;
        output::message(&format!(
            "captured in {}; any verb reads it with --root {0}",
            target.display()
        ));
    }
    let document = DoctorDocument::new(&machine, &found);
    if args.json {
        return output::data(&interleaf_record::json(&document));
    }
    output::data(&interleaf_report::machine::doctor(&document))
}

/// Capabilities that files only indicate are tried, where that changes nothing.
fn tried(capability: &mut Capability) {
    let (outcome, how) = match capability.name {
        "userfaultfd" => (rights::userfaultfd(), "serves system calls too, and moves pages"),
        "io_uring" => (rights::io_uring(), "works for this user"),
        _ => return,
    };
    capability.status = match outcome {
        Ok(()) => Status::Present(how.into()),
        Err(MissingRight { why, hint }) => Status::Missing { why, remedy: hint },
    };
}

/// The features of DAMON. A probe that is refused is a finding like others, unless the options were
/// wrong or the probe failed half-way.
fn ask(root: &Root) -> Result<Result<Probed, ProbeError>, Failure> {
    if !root.is_live() {
        return Err(Failure::new(
            "--probe asks a kernel, and a captured machine has none",
            "run it on the machine itself, without --root",
        ));
    }
    // Below a root of its own: what is set up for a moment is no part of a capture.
    match probe(&Root::live()) {
        Err(ProbeError::Root(why)) if !why.is_permission() => Err(system::read_failure(why)),
        asked => Ok(asked),
    }
}
