//! What carries a decision out: pages of a scope go to the nodes that a goal wants them on, and
//! stay there while processes come and go.
//!
//! There are four ways, and [`choose`] ranks those that a kernel and a scope have:
//!
//! | way | since | pages are found by | the ratio is kept by |
//! | --- | --- | --- | --- |
//! | [`vaddr`] | 6.17 | DAMON, in processes | each page's address: exact, and at rest |
//! | [`physical`]: `paddr` | 7.2 | DAMON, in physical memory | a goal, cut by looking |
//! | [`physical`]: `quota` | 6.11 | DAMON, in physical memory | quotas, set by looking |
//! | [`pages`] | any | `/proc/PID/pagemap` | `move_pages(2)` |
//!
//! An [`Actuator`] is told a goal with [`Actuator::set`], and looked after with
//! [`Actuator::follow`], about once a second. What it says of placement is looked up in
//! `numa_maps`, `memory.numa_stat` or a node's `meminfo`, never taken from DAMON: kernels up to 7.2
//! count a page as moved when it landed elsewhere.
//!
//! # What is put back
//! An actuator of DAMON changes up to four files that outlive a moment, in this order, through the
//! [`journal`](crate::place::journal):
//!
//! 1. `numa_balancing`, 0, with leave: it pulls pages back;
//! 2. `enabled` of DAMON's own modules, N, with leave: they exclude a thread of ours;
//! 3. `nr_kdamonds`, 1: all that is written below it goes with the thread;
//! 4. `state` of the thread, on.
//!
//! They are put back from the last to the first, which is the only order that works: a thread that
//! runs cannot be removed, and a module does not start while one runs. So a process that is killed
//! leaves what `interleaf run --restore` puts back. A thread that has ended, with the
//! last of its processes, is off already, which is as it was.

pub mod choose;
pub mod context;
pub mod kdamond;
pub mod multi_socket;
pub mod pages;
pub mod physical;
pub mod quota_controller;
pub mod vaddr;

mod demote;
mod sampler;
mod scan;
mod settings_guard;

pub use self::choose::{Choice, Way, choose};
pub use super::scope::Scope;

use crate::{
    place::{
        journal::{Journal, JournalError},
        migrate::{MigrateError, plan::TargetError},
    },
    process::{Process, Snapshot, numa_maps::NodeBytes},
    root::{Root, RootError},
    stop::StopFlag,
};
use interleaf_model::machine::Order;
use std::{
    cell::RefCell,
    collections::{BTreeMap, BTreeSet},
    rc::Rc,
};

/// The journal of this process, which has one for all that it changes.
pub type SharedJournal<'a> = Rc<RefCell<Journal<'a>>>;

/// Where the pages of a scope should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Goal {
    /// Nodes with their weights, the fastest first, which is the order that
    /// [`Order::HottestFirst`] fills them in. Pages are divided as the weights among each other; a
    /// weight of 0 keeps a node free of those that are steered.
    pub nodes: Vec<(u32, u32)>,
    /// Which pages go where.
    pub order: Order,
    /// From which nodes cold pages go when they are nearly full, and where: from the fastest one
    /// near each socket to the next one near it.
    pub demotions: Vec<(u32, u32)>,
    /// How much may move, bytes a second; `None` for as fast as it goes.
    pub rate_limit_bytes_per_s: Option<u64>,
}

/// What was found by looking after an actuator.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Followed {
    /// Where the pages of the scope are, anonymous memory, bytes; `None` when it was not looked
    /// this time, because looking takes long here, or the scope has none.
    pub on: Option<NodeBytes>,
    /// How far that is from the goal: the largest difference of a node's share, in points of 100.
    pub off_points: Option<f64>,
    /// How many processes are steered; `None` of a scope that is not known by its processes.
    pub processes: Option<usize>,
    /// Processes that have joined since the last time.
    pub joined: Vec<u32>,
    /// Those that have left, or ended.
    pub left: Vec<u32>,
    /// What was tried since the goal was set first, bytes, and counted again each time; pages that
    /// are where they should be are tried too. `None` where nobody counts.
    pub tried_bytes: Option<u64>,
    /// What the kernel, or the mover, says that it moved, bytes.
    pub applied_bytes: Option<u64>,
    /// Pages of the whole machine that were moved since the last time, by whomever, bytes.
    pub moved_bytes: Option<u64>,
    /// Whether cold pages are demoted, because the fastest node is nearly full.
    pub demotes: bool,
    /// Whether something went otherwise than it should, in words.
    pub notes: Vec<String>,
}

/// Brings the pages of a scope to where a goal wants them. What it changed on the machine is put
/// back when it goes.
pub trait Actuator {
    /// What it is called: `vaddr`, `paddr`, `quota`, `pages`.
    fn name(&self) -> &'static str;

    /// What it does, in a sentence or two.
    fn describe(&self) -> String;

    /// Sets a goal and returns; pages move from then on. The first time it starts what it needs.
    ///
    /// # Errors
    /// When the goal is none for this machine, somebody else holds what is needed, or a file cannot
    /// be written. What was set before stays.
    fn set(&mut self, goal: &Goal) -> Result<(), ActuatorError>;

    /// Looks after it, once a second or so: processes that are new join, those that ended leave,
    /// what moves is brought up to date. It waits for the kernel, up to two aggregations of DAMON.
    ///
    /// # Errors
    /// When it can go on no more.
    fn follow(&mut self) -> Result<Followed, ActuatorError>;
}

/// What all actuators are given.
#[derive(Clone, Debug)]
pub struct Setting<'a> {
    /// The machine.
    pub root: &'a Root,
    /// The journal of this process.
    pub journal: SharedJournal<'a>,
    /// Whose pages.
    pub scope: Scope,
    /// Whose pages are left alone, those of the scope too.
    pub protected: Vec<Scope>,
    /// Whether rivals may be switched off for the time: DAMON's own modules and the kernel's
    /// balancer.
    pub leave: bool,
    /// Ends a look that takes long.
    pub stop: StopFlag,
}

impl<'a> Setting<'a> {
    /// For a scope of which nothing is protected, without leave, and without an early end.
    pub fn new(root: &'a Root, journal: SharedJournal<'a>, scope: Scope) -> Self {
        Self { root, journal, scope, protected: vec![], leave: false, stop: StopFlag::default() }
    }

    /// The processes that are steered: those of the scope, without those that are protected.
    ///
    /// # Errors
    /// As [`Scope::processes`], and when there is reason to stop.
    pub fn processes(&self) -> Result<Vec<Process>, ActuatorError> {
        let snapshot = Snapshot::new(self.root, &self.stop);
        let mut found = self.scope.processes_of(&snapshot)?;
        let mut protected = BTreeSet::new();
        for scope in &self.protected {
            protected.extend(scope.processes_of(&snapshot)?.iter().map(|process| process.pid));
        }
        self.check_stop()?;
        found.retain(|process| !protected.contains(&process.pid));
        Ok(found)
    }

    /// The scan was stopped, so that its result is incomplete.
    fn check_stop(&self) -> Result<(), ActuatorError> {
        if self.stop.is_set() { Err(ActuatorError::Stopped) } else { Ok(()) }
    }

    /// Where the anonymous memory is that is steered; `None` where nobody counts.
    ///
    /// # Errors
    /// As [`Scope::placement`], and when there is reason to stop.
    pub fn placement(&self, processes: &[Process]) -> Result<Option<NodeBytes>, ActuatorError> {
        let on = self.scope.placement(self.root, processes, &self.stop)?;
        self.check_stop()?;
        let Some(mut on) = on else { return Ok(None) };
        if !self.scope.is_slow_to_sample() {
            for scope in &self.protected {
                let left = scope.placement(self.root, &[], &self.stop)?.unwrap_or_default();
                for (node, bytes) in &mut on.0 {
                    *bytes = bytes.saturating_sub(left.on(*node));
                }
            }
        }
        Ok(Some(on))
    }
}

/// Why a goal is not carried out.
#[derive(Debug, thiserror::Error)]
pub enum ActuatorError {
    /// The goal's nodes are none.
    #[error(transparent)]
    Target(#[from] TargetError),
    /// Somebody else holds DAMON.
    #[error("{who}")]
    Held {
        /// Who.
        who: String,
        /// What to do.
        hint: String,
    },
    /// There is nothing that could do it.
    #[error("{0}")]
    None(String),
    /// A node of the goal is there no more.
    #[error("node {0} has gone offline")]
    Gone(u32),
    /// A thread of DAMON did not take what it was told.
    #[error("DAMON refuses what it is told: {0}")]
    Refused(RootError),
    /// What is needed of the machine is not there.
    #[error("{path}: there is none, and {why}")]
    Absent {
        /// The file.
        path: String,
        /// What for.
        why: &'static str,
    },
    /// The scan was stopped on purpose: no error.
    #[error("stopped")]
    Stopped,
    /// A process cannot be moved.
    #[error(transparent)]
    Migrate(#[from] MigrateError),
    /// The journal cannot be kept.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// A file cannot be read or written.
    #[error(transparent)]
    Root(#[from] RootError),
}

impl ActuatorError {
    /// Whether the kernel refused a value (`EINVAL`), as DAMON does when a process or a control
    /// group of its context is gone.
    fn is_value_refused(&self) -> bool {
        match self {
            Self::Refused(why) | Self::Root(why) | Self::Journal(JournalError::Root(why)) => {
                why.is_not_taken()
            }
            _ => false,
        }
    }

    /// What can be done about it.
    pub fn hint(&self) -> String {
        match self {
            Self::Target(_) => "interleaf show lists the nodes".into(),
            Self::Held { hint, .. } => hint.clone(),
            Self::Gone(_) => "start it again when the memory is there that is to be used".into(),
            Self::None(_) => "interleaf doctor says what this kernel can do".into(),
            Self::Refused(_) => "see the kernel's log, and what interleaf doctor says".into(),
            Self::Stopped => "it was told to stop".into(),
            Self::Absent { .. } => "see whether /proc and /sys are mounted and whole".into(),
            Self::Migrate(why) => why.hint().into(),
            Self::Journal(why) if why.is_permission() => "run it as root".into(),
            Self::Root(why) if why.is_permission() => "run it as root".into(),
            Self::Journal(_) | Self::Root(_) => "see whether /run, /proc and /sys are whole".into(),
        }
    }
}

impl Goal {
    /// The part of the pages that each node should have, 0 to 1, summing to 1.
    ///
    /// # Errors
    /// When a node comes twice, or no weight is above 0.
    pub fn shares(&self) -> Result<BTreeMap<u32, f64>, TargetError> {
        let target = self.target()?;
        Ok(target.weights().map(|(node, _)| (node, target.share(node))).collect())
    }

    /// As [`crate::place::migrate`] takes it.
    ///
    /// # Errors
    /// As [`Self::shares`].
    pub fn target(&self) -> Result<crate::place::migrate::plan::Target, TargetError> {
        crate::place::migrate::plan::Target::new(self.nodes.iter().copied())
    }

    /// How far pages are from it: the largest difference of a node's share, in points of 100.
    /// `None` where there are no pages.
    pub fn off_points(&self, on: &NodeBytes) -> Option<f64> {
        let shares = self.shares().ok()?;
        let total = on.total() as f64;
        let nodes = shares.keys().chain(on.0.keys());
        let off = |node: &u32| {
            let wanted = shares.get(node).copied().unwrap_or(0.0);
            (on.on(*node) as f64 / total - wanted).abs() * 100.0
        };
        (total > 0.0).then(|| nodes.map(off).fold(0.0, f64::max))
    }
}
