//! What a machine can do for us: each capability with how, or why not and what to do about it.

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

/// Something that the tool can use, or that gets in its way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Capability {
    /// What it is.
    pub name: &'static str,
    /// Whether it is there.
    pub status: Status,
}

/// Whether a capability is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Status {
    /// It is, and this is how.
    Present(String),
    /// It is not.
    Missing {
        /// Why.
        why: String,
        /// What to do.
        remedy: String,
    },
    /// Whether it is there is not known.
    Unknown {
        /// Why not.
        why: String,
        /// How to find out.
        remedy: String,
    },
    /// Something is at work that moves the same pages.
    Rival {
        /// What it is.
        what: String,
        /// What to do.
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

/// Every capability of `machine`, which was read below `root`; `asked` is what DAMON said when it
/// was asked ([`interleaf_linux::machine::damon::probe::probe`]), `None` when it was not.
///
/// # Errors
/// When a file that is there cannot be read.
pub fn capabilities(
    root: &Root,
    machine: &Machine,
    asked: Option<&Result<Probed, ProbeError>>,
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
        ("DAMON", damon::operations(machine, asked)),
        ("DAMON actions", damon::actions(machine, asked)),
        ("DAMON destinations", damon::destinations(machine, asked)),
        ("DAMON goals", damon::goals(machine, asked)),
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
