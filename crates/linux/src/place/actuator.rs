//! An actuator migrates the pages of a scope (the machine, a control group or some processes) to
//! the nodes of a goal, in the ratio of the goal's weights. It keeps this ratio while processes
//! start and end.
//!
//! [`mod@choose`] ranks the four kinds of actuators. A kernel or a scope may support only some of
//! them:
//!
//! | kind | since Linux | pages are found by | the ratio is kept by |
//! | --- | --- | --- | --- |
//! | [`vaddr`] | 6.17 | DAMON, in processes | each page's address, which decides its node |
//! | [`physical`]: `paddr` | 7.2 | DAMON, in physical memory | quotas, and a goal in the kernel |
//! | [`physical`]: `quota` | 6.11 | DAMON, in physical memory | quotas, set after each sample |
//! | [`pages`] | any | `/proc/PID/pagemap` | `move_pages(2)` |
//!
//! [`Actuator::set`] sets a goal, and [`Actuator::update`] is called about once a second. Placement
//! is read from `numa_maps`, `memory.numa_stat` or a node's `meminfo`, never from DAMON's
//! statistics: kernels up to 7.2 count a page as migrated even if it landed on a node other than
//! its destination.
//!
//! # Restored settings
//! An actuator that uses DAMON changes up to four kinds of settings that outlive this process. It
//! changes them through the [`journal`](crate::place::journal), in this order:
//!
//! 1. `numa_balancing` to 0, if permitted, because NUMA balancing would migrate pages back;
//! 2. `enabled` of the kernel's DAMON modules to N, if permitted, because such a module and
//!    Interleaf's thread exclude each other;
//! 3. `nr_kdamonds` to 1, which creates the files of the DAMON thread; restoring 0 removes them;
//! 4. `state` in these files to on, which starts the thread; restoring off stops it.
//!
//! Settings are restored from the last to the first. No other order works, because the files of a
//! running thread cannot be removed, and a module does not start while a thread runs. The settings
//! of a killed process are restored by `interleaf run --restore`. A thread that monitors processes
//! ends with the last monitored process: its `state` is then off, as before the change.

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

pub use self::choose::{ActuatorKind, Choice, choose};
pub use super::scope::Scope;

use crate::{
    place::{
        journal::{Journal, JournalError},
        migrate::{MigrateError, plan::TargetError},
    },
    process::{Process, Snapshot, numa_maps::NodeBytes},
    root::{Root, RootError},
    stop_flag::StopFlag,
};
use interleaf_model::machine::Order;
use std::{cell::RefCell, collections::BTreeMap, rc::Rc};

/// The journal of the settings that this process has changed, shared by all actuators.
pub type SharedJournal<'a> = Rc<RefCell<Journal<'a>>>;

/// The placement that an actuator has to reach for the pages of a scope (the steered processes).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Goal {
    /// The nodes with their weights, the fastest node first. Pages are divided in proportion to the
    /// weights: a node with a weight of 0 gets no pages of the scope. [`Order::HottestFirst`] fills
    /// the nodes in the order of this list.
    pub nodes: Vec<(u32, u32)>,
    /// The order in which pages are assigned to nodes.
    pub order: Order,
    /// The demotions, one pair of nodes for each socket: the fastest and the second fastest node
    /// near the socket. When the first node of a pair is nearly full, its cold pages migrate to the
    /// second.
    pub demotions: Vec<(u32, u32)>,
    /// The upper limit of the migration rate, bytes per second; `None` for no limit. The schemes of
    /// DAMON together keep it ([`context::Context::limit_rate`]).
    pub rate_limit_bytes_per_s: Option<u64>,
}

/// The state of an actuator, which [`Actuator::update`] returns.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ActuatorState {
    /// Anonymous memory of the scope (the steered processes) by node. `None` if the scope has no
    /// memory, or if no sample was taken in this period: a large scope is not sampled in each
    /// period.
    pub on: Option<NodeBytes>,
    /// Distance to the goal, percentage points: the largest difference, among all nodes, between a
    /// node's share of the pages and the node's target share.
    pub off_points: Option<f64>,
    /// Number of steered processes; `None` on physical memory, where processes are not tracked.
    pub processes: Option<usize>,
    /// IDs of the processes that joined the scope since the last call of [`Actuator::update`].
    pub joined: Vec<u32>,
    /// IDs of the processes that left the scope or ended since the last call of
    /// [`Actuator::update`].
    pub left: Vec<u32>,
    /// Bytes of all attempts at migration since the first goal; with DAMON, since the last start of
    /// its thread. A page counts at each attempt, even if it is on its target node already. `None`
    /// if neither the kernel nor [`Migrator`](crate::place::migrate::Migrator) counts attempts.
    pub tried_bytes: Option<u64>,
    /// Bytes migrated in the same time as `tried_bytes`, as counted by the kernel or the migrator.
    pub applied_bytes: Option<u64>,
    /// Bytes migrated on the whole machine since the last call of [`Actuator::update`], for any
    /// reason.
    pub moved_bytes: Option<u64>,
    /// True while cold pages are demoted because the fastest node is nearly full.
    pub demotes: bool,
    /// Messages to the user about events, such as processes that have joined.
    pub notes: Vec<String>,
}

/// A mechanism that migrates the pages of a scope (the machine, a control group or some processes)
/// until their placement is that of a goal. Dropping an actuator restores the settings that it has
/// changed.
pub trait Actuator {
    fn kind(&self) -> ActuatorKind;

    /// Describes the actuator to the user in one or two sentences.
    fn describe(&self) -> String;

    /// Sets a goal and returns; pages migrate from then on. The first call sets up the mechanism,
    /// such as DAMON.
    ///
    /// # Errors
    /// When the goal does not fit this machine, another program uses DAMON, or a file cannot be
    /// written. The previous goal stays.
    fn set(&mut self, goal: &Goal) -> Result<(), ActuatorError>;

    /// Adapts the migration to the present state of the scope: new processes join, ended processes
    /// leave, and DAMON's context is updated. The control loop calls `update` about once a second.
    /// The call waits for the kernel for up to two aggregation intervals of DAMON, 1 s each.
    ///
    /// # Errors
    /// When the actuator cannot continue.
    fn update(&mut self) -> Result<ActuatorState, ActuatorError>;
}

/// The inputs that all kinds of actuators need.
#[derive(Clone, Debug)]
pub struct Setting<'a> {
    pub root: &'a Root,
    pub journal: SharedJournal<'a>,
    /// The machine, the control group or the processes whose pages are migrated.
    pub scope: Scope,
    /// Processes and control groups whose pages are not migrated, even if they are in `scope`.
    pub protected: Vec<Scope>,
    /// True when the actuator may switch off the kernel's DAMON modules and NUMA balancing.
    pub leave: bool,
    /// When this flag is set, long scans end early.
    pub stop: StopFlag,
}

impl<'a> Setting<'a> {
    /// Returns the inputs for `scope`, without protected scopes. The actuator may not switch off
    /// NUMA balancing and the kernel's DAMON modules.
    pub fn new(root: &'a Root, journal: SharedJournal<'a>, scope: Scope) -> Self {
        Self { root, journal, scope, protected: vec![], leave: false, stop: StopFlag::default() }
    }

    /// Finds the steered processes, which are the scope's processes except protected processes.
    ///
    /// # Errors
    /// The errors of [`Scope::processes`], and when the stop flag is set.
    pub fn processes(&self) -> Result<Vec<Process>, ActuatorError> {
        let snapshot = Snapshot::new(self.root, &self.stop);
        let found = self.scope.processes_without(&self.protected, &snapshot)?;
        self.check_stop()?;
        Ok(found)
    }

    /// Fails if the stop flag is set, since a scan that the flag ended early is incomplete.
    fn check_stop(&self) -> Result<(), ActuatorError> {
        if self.stop.is_set() { Err(ActuatorError::Stopped) } else { Ok(()) }
    }

    /// Returns the anonymous memory of the scope (the steered processes) by node, without the
    /// memory of protected scopes. `processes` are the steered processes, without protected
    /// processes. Returns `None` if the kernel does not count memory by node.
    ///
    /// # Errors
    /// The errors of [`Scope::placement`], and when the stop flag is set.
    pub fn placement(&self, processes: &[Process]) -> Result<Option<NodeBytes>, ActuatorError> {
        let (protected, root) = (&self.protected, self.root);
        let on = self.scope.placement_without(protected, root, processes, &self.stop)?;
        self.check_stop()?;
        Ok(on)
    }
}

/// The reason why an actuator cannot carry out a goal.
#[derive(Debug, thiserror::Error)]
pub enum ActuatorError {
    /// The goal's nodes or weights are invalid.
    #[error(transparent)]
    Target(#[from] TargetError),
    /// Another program, or a module of the kernel, uses DAMON, which can have only one user.
    #[error("{holder}")]
    Held {
        /// The whole error message: a sentence that says which program, process or kernel module
        /// uses DAMON.
        holder: String,
        /// Advice to the user.
        hint: String,
    },
    /// This kernel does not support the actuator for this scope, for the reason in the field.
    #[error("{0}")]
    None(String),
    /// A node of the goal is offline.
    #[error("node {0} has gone offline")]
    Gone(u32),
    /// A node of the goal is online, but all its memory is offline.
    #[error("node {0} is online, but has no memory any more")]
    Memoryless(u32),
    /// The kernel refused a value in DAMON's sysfs files.
    #[error("DAMON refuses a setting: {0}")]
    Refused(RootError),
    /// A file that the actuator needs does not exist.
    #[error("{path}: there is none, and {why}")]
    Absent {
        path: String,
        /// The purpose for which the file is needed.
        why: &'static str,
    },
    /// The stop flag ended a scan early, which is no failure.
    #[error("stopped")]
    Stopped,
    #[error(transparent)]
    Migrate(#[from] MigrateError),
    #[error(transparent)]
    Journal(#[from] JournalError),
    #[error(transparent)]
    Root(#[from] RootError),
}

impl ActuatorError {
    /// True when the kernel refused a value (`EINVAL`), such as an ended process or a removed
    /// control group.
    fn is_value_refused(&self) -> bool {
        match self {
            Self::Refused(why) | Self::Root(why) | Self::Journal(JournalError::Root(why)) => {
                why.is_not_taken()
            }
            _ => false,
        }
    }

    /// Returns advice to the user.
    pub fn hint(&self) -> String {
        match self {
            Self::Target(_) => "interleaf show lists the nodes".into(),
            Self::Held { hint, .. } => hint.clone(),
            Self::Gone(node) | Self::Memoryless(node) => {
                format!("set the memory of node {node} online, and start interleaf again")
            }
            Self::None(_) => "interleaf doctor lists the features of this kernel".into(),
            Self::Refused(_) => "see the kernel's log and the output of interleaf doctor".into(),
            Self::Stopped => "it was stopped on purpose".into(),
            Self::Absent { .. } => "see whether /proc and /sys are mounted and whole".into(),
            Self::Migrate(why) => why.hint().into(),
            Self::Journal(why) if why.is_permission() => "run it as root".into(),
            Self::Root(why) if why.is_permission() => "run it as root".into(),
            Self::Journal(_) | Self::Root(_) => "see whether /run, /proc and /sys are whole".into(),
        }
    }
}

impl Goal {
    /// Returns each node's target share of the pages, 0 to 1. The shares sum to 1.
    ///
    /// # Errors
    /// When a node is listed twice, or no weight is above 0.
    pub fn shares(&self) -> Result<BTreeMap<u32, f64>, TargetError> {
        let target = self.target()?;
        Ok(target.weights().map(|(node, _)| (node, target.share(node))).collect())
    }

    /// Returns the goal as a target of [`crate::place::migrate`].
    ///
    /// # Errors
    /// The errors of [`Self::shares`].
    pub fn target(&self) -> Result<crate::place::migrate::plan::Target, TargetError> {
        crate::place::migrate::plan::Target::new(self.nodes.iter().copied())
    }

    /// Returns the distance of the placement `on` to the goal, percentage points: the largest
    /// difference of a node's share and target share. `None` if `on` has no pages.
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
