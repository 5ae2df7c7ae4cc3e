//! Finds the capabilities of DAMON. Most of these capabilities are known only after a probe, which
//! sets up a DAMON thread, tries which keywords the kernel accepts, and removes the thread.

use super::Status;
use interleaf_linux::machine::{
    damon::{
        Damon,
        probe::{ProbeError, Probed},
    },
    topology::Machine,
};

/// The result of a probe of DAMON; `None` if DAMON was not probed.
pub(super) type ProbeAnswer<'a> = Option<&'a Result<Probed, ProbeError>>;

const PROBE: &str = "interleaf doctor --probe, as root, finds out: it sets up a thread, does not \
                     start it, and removes it";

pub(super) fn operations(machine: &Machine, probed: ProbeAnswer) -> Status {
    let Some(damon) = &machine.damon else { return no_damon() };
    let mut more = String::new();
    let operations = match probed {
        Some(Ok(probed)) => {
            more += &format!("; tells pages by {}", list(&probed.filters));
            more += if probed.interval_goal { "; tunes its intervals" } else { "" };
            &probed.operations
        }
        _ => &damon.operations,
    };
    if operations.is_empty() {
        return Status::present("its files are there; its operations show when one is set up");
    }
    Status::present(format!("operations {}{more}", operations.join(", ")))
}

pub(super) fn actions(machine: &Machine, probed: ProbeAnswer) -> Status {
    let probed = match probe_result(machine, probed) {
        Ok(probed) => probed,
        Err(status) => return status,
    };
    let actions = list(&probed.actions);
    if probed.actions.iter().any(|action| action == "migrate_hot") {
        return Status::present(actions);
    }
    Status::missing(
        format!("none that moves pages to another node: {actions}"),
        "run Linux 6.11 or later with CONFIG_DAMON_PADDR",
    )
}

/// Returns the status of the capability to interleave the pages of running programs by DAMON. For
/// this, DAMON must have operations on virtual addresses (`vaddr`), and its schemes must accept
/// several destination nodes.
pub(super) fn destinations(machine: &Machine, probed: ProbeAnswer) -> Status {
    let (destinations, operations) = match (&machine.damon, probed) {
        // A DAMON context that another program has set up shows the supported features, so no probe
        // is needed.
        (Some(Damon { destinations: Some(supported), operations, .. }), _)
            if !operations.is_empty() =>
        {
            (*supported, operations)
        }
        _ => match probe_result(machine, probed) {
            Ok(probed) => (probed.destinations, &probed.operations),
            Err(status) => return status,
        },
    };
    if !destinations {
        return Status::missing(
            "schemes have one destination, so that pages of running programs are not interleaved",
            "run Linux 6.17 or later with CONFIG_DAMON_VADDR",
        );
    }
    if !operations.iter().any(|operation| operation == "vaddr") {
        return Status::missing(
            format!("they are for vaddr, and this kernel has {} only", list(operations)),
            "run a kernel with CONFIG_DAMON_VADDR",
        );
    }
    Status::present("interleaves the pages of running programs, by weights")
}

pub(super) fn goals(machine: &Machine, probed: ProbeAnswer) -> Status {
    let probed = match probe_result(machine, probed) {
        Ok(probed) => probed,
        Err(status) => return status,
    };
    let goals = list(&probed.goals);
    if !probed.goals.iter().any(|goal| goal == "node_mem_used_bp") {
        return Status::missing(
            format!("none for the memory of a node: {goals}"),
            "run Linux 6.16 or later",
        );
    }
    let tuners = match &probed.tuners[..] {
        [] => String::new(),
        tuners => format!("; reached by {}", tuners.join(" or ")),
    };
    Status::present(format!("{goals}{tuners}"))
}

/// Returns the result of the probe of DAMON. If there is no result, returns as the error the status
/// of each capability that needs the probe.
fn probe_result<'a>(machine: &Machine, probed: ProbeAnswer<'a>) -> Result<&'a Probed, Status> {
    if machine.damon.is_none() {
        return Err(no_damon());
    }
    match probed {
        None => Err(Status::unknown("shows only when a scheme is set up", PROBE)),
        Some(Ok(probed)) => Ok(probed),
        Some(Err(why)) => {
            let remedy = match why {
                ProbeError::Held(_) => "stop that program (damo stop), then probe again",
                ProbeError::Root(why) if why.is_permission() => "run it as root",
                _ => "run it on a live machine with CONFIG_DAMON_SYSFS",
            };
            Err(Status::unknown(format!("could not be asked: {why}"), remedy))
        }
    }
}

fn no_damon() -> Status {
    Status::missing(
        "the kernel has no DAMON, or its files are not there",
        "run a kernel with CONFIG_DAMON_SYSFS, and mount sysfs",
    )
}

fn list(words: &[String]) -> String {
    if words.is_empty() { "nothing".into() } else { words.join(", ") }
}
