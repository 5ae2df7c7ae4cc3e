//! Lists the capabilities of a machine. A present capability has a description; a missing
//! capability has the reason why it is missing, and a remedy.

mod damon;
mod nodes;
mod rights;
mod rivals;
mod system;

use interleaf_linux::{
    machine::{
        damon::probe::{ProbeError, Probed},
        topology::Machine,
    },
    root::{Root, RootError},
};
use rights::Rights;

/// A feature of the machine that Interleaf can use, and its status. The check for rivals (other
/// programs and kernel features that move pages or use DAMON) is also listed as a capability.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Capability {
    pub name: &'static str,
    pub status: Status,
}

/// The state of a capability.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Status {
    /// The capability is available. The text has details, such as the numbers of the nodes.
    Present(String),
    Missing {
        why: String,
        /// Advice to the user.
        remedy: String,
    },
    /// The status of the capability is not known.
    Unknown {
        /// The reason why the status is unknown.
        why: String,
        /// Advice to the user.
        remedy: String,
    },
    /// A rival was found: another program or a kernel feature that moves pages or uses DAMON.
    Rival {
        /// The name of the program or feature, and its effect on pages.
        what: String,
        /// Advice to the user.
        remedy: String,
    },
}

impl Status {
    fn missing(why: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self::Missing { why: why.into(), remedy: remedy.into() }
    }

    fn unknown(why: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self::Unknown { why: why.into(), remedy: remedy.into() }
    }

    fn present(how: impl Into<String>) -> Self {
        Self::Present(how.into())
    }
}

/// Returns all capabilities of `machine`, which was read below `root`. `probed` is the result of
/// [`interleaf_linux::machine::damon::probe::probe`], or `None` if DAMON was not probed.
///
/// # Errors
/// When an existing file cannot be read.
pub fn capabilities(
    root: &Root,
    machine: &Machine,
    probed: Option<&Result<Probed, ProbeError>>,
) -> Result<Vec<Capability>, RootError> {
    let rights = Rights::read(root)?;
    let rights = rights.as_ref();
    let found = [
        ("several memory nodes", nodes::memory_nodes(machine)),
        ("sizes of nodes", nodes::sizes(machine)),
        ("rated bandwidths", nodes::rated(machine)),
        ("memory tiers", nodes::tiers(machine)),
        ("weighted interleaving", nodes::weighted(machine)),
        ("setting weights", nodes::setting_weights(machine, rights)),
        ("automatic weights", nodes::automatic(machine)),
        ("moving pages", nodes::moving(root, rights)?),
        ("DAMON", damon::operations(machine, probed)),
        ("DAMON actions", damon::actions(machine, probed)),
        ("DAMON destinations", damon::destinations(machine, probed)),
        ("DAMON goals", damon::goals(machine, probed)),
        ("no other mover of pages", rivals::rivals(root, machine)?),
        ("nothing left behind", rivals::left_behind(root)),
        ("demotion", nodes::demotion(machine)),
        ("bandwidth counters", system::counters(root, machine)?),
        ("control groups", system::cgroups(root)?),
        ("memory pressure", system::pressure(root)?),
        ("swap", system::swap(root)?),
        ("userfaultfd", system::userfaultfd(root)?),
        ("io_uring", system::io_uring(root)?),
        ("huge pages", system::huge_pages(root)?),
        ("power readings", system::power(root)?),
    ];
    Ok(found.into_iter().map(|(name, status)| Capability { name, status }).collect())
}
