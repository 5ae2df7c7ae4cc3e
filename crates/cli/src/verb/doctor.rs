//! `interleaf doctor`: reports the capabilities of a machine, or captures the machine's files.

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
use interleaf_record::show_machine::DoctorDocument;
use std::path::Path;

/// The verbs that accept a captured machine (`--root`) together with `--dry-run`.
const READERS: &str = "balance, compare, measure, measure app, run and tune";

pub(super) fn run(args: &DoctorArgs, root: Option<&Path>) -> Result<(), Failure> {
    let root = system::open_root(root)?.recording();
    let machine = Machine::read(&root).map_err(system::read_failure)?;
    let probed = if args.probe { Some(probe_damon(&root)?) } else { None };
    let mut found = capabilities(&root, &machine, probed.as_ref()).map_err(system::read_failure)?;
    if root.is_live() {
        found.iter_mut().for_each(verified_by_use);
    }
    if let Some(target) = &args.capture {
        // A capture has the files that `root` has read so far. No check of a capability reads the
        // files that `balance` needs, so read them here.
        for path in [physical::ZONEINFO.to_string(), format!("{ADMIN}/nr_kdamonds")] {
            root.text_if_allowed(&path).map_err(system::read_failure)?;
        }
        // Read the files whose content `interleaf measure` records.
        Hardware::read(&root).map_err(system::read_failure)?;
        // Read the files of `measure app`. Ignore errors of `plan` and `probe`: `measure app`
        // reports them itself.
        drop(topdown::plan(&root));
        drop(resctrl::probe(&root));
        Meter::zones(&root).map_err(system::read_failure)?;
        root.capture(target).map_err(|why| {
            Failure::new(
                format!("{}: cannot be captured to: {why}", target.display()),
                "name a folder that is not there yet, in one with room that you may write to",
            )
        })?;
        output::message(&format!(
            "captured in {}; with --root {0} it is read by show and doctor, and with --dry-run by \
             {READERS}",
            target.display()
        ));
    }
    let document = DoctorDocument::new(&machine, &found);
    if args.json {
        return output::data(&interleaf_record::json(&document));
    }
    output::text(&interleaf_report::show_machine::doctor(&document))
}

/// Verifies the capabilities userfaultfd and io_uring by opening a file descriptor. The kernel's
/// files show only that the kernel has the feature, not that this user may use it. Opening the
/// descriptor changes nothing on the machine.
fn verified_by_use(capability: &mut Capability) {
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

/// Probes the features of DAMON. The inner error says why the kernel refused the probe, which
/// `doctor` reports as a result. The outer error is a wrong option, or a probe that failed midway.
fn probe_damon(root: &Root) -> Result<Result<Probed, ProbeError>, Failure> {
    if !root.is_live() {
        return Err(Failure::new(
            "--probe asks a kernel, and a captured machine has none",
            "run it on the machine itself, without --root",
        ));
    }
    // Probe with a new `Root`: the temporary files of the probe do not belong in a capture.
    match probe(&Root::live()) {
        Err(ProbeError::Root(why)) if !why.is_permission() => Err(system::read_failure(why)),
        probed => Ok(probed),
    }
}
