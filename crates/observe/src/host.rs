//! Implements the control loop's trait `Machine` for a real machine: waits, reads the counters,
//! reports the placement, and carries out decisions.
//!
//! A sample covers the time for which its source counted. This time can differ from the requested
//! wait, because the actuators take time and the system may be busy. If the source is a recording,
//! a sample covers the recorded time.

use crate::source::{Source, SourceError};
use interleaf_linux::{
    machine::{
        node,
        vmstat::{self, Counters},
    },
    place::{
        actuator::{Actuator, ActuatorError, ActuatorState, Goal},
        layout::HostLayout,
    },
    root::{Root, RootError},
};
use interleaf_model::machine::{Decision, Layout, Machine, Residency, Sample, TierMemory};
use std::{
    mem,
    time::{Duration, Instant},
};

/// Minimum interval between two rounds of calls of [`Actuator::update`].
const UPDATE_INTERVAL: Duration = Duration::from_secs(1);

/// The clock of the control loop, which waits between samples.
pub trait Clock {
    /// Waits for `span`. Returns false if the control loop must stop. In this case, the wait may be
    /// shorter than `span`.
    fn wait(&mut self, span: Duration) -> bool;
}

/// A machine whose traffic is observed. For each scope (the machine, a control group or some
/// processes), an actuator can migrate the pages.
pub struct Host<'a> {
    root: &'a Root,
    host: HostLayout,
    source: Box<dyn Source + 'a>,
    clock: Box<dyn Clock + 'a>,
    /// An actuator for each scope of the layout; `None` if the scope's pages are not migrated.
    actuators: Vec<Option<Box<dyn Actuator + 'a>>>,
    goals: Vec<Option<Goal>>,
    states: Vec<ActuatorState>,
    /// Remarks since the last call of [`Host::take_notes`].
    notes: Vec<String>,
    counters: Option<Counters>,
    last_sample: Instant,
    last_update: Instant,
    page_bytes: u64,
}

/// The reason why a machine cannot be observed or steered any more.
#[derive(Debug, thiserror::Error)]
pub enum HostError {
    /// A stop was requested, which is no failure.
    #[error("stopped")]
    Stopped,
    #[error(transparent)]
    Source(#[from] SourceError),
    #[error(transparent)]
    Actuator(ActuatorError),
    #[error(transparent)]
    Root(#[from] RootError),
}

impl From<ActuatorError> for HostError {
    fn from(why: ActuatorError) -> Self {
        match why {
            ActuatorError::Stopped => Self::Stopped,
            why => Self::Actuator(why),
        }
    }
}

impl<'a> Host<'a> {
    /// Makes a `Host` of the machine below `root`, with the source of its traffic and an actuator
    /// for each scope of its layout.
    ///
    /// # Errors
    /// When the kernel's counters cannot be read.
    ///
    /// # Panics
    /// When the numbers of scopes and actuators differ, which is a bug of the caller.
    pub fn new(
        root: &'a Root,
        host: HostLayout,
        source: Box<dyn Source + 'a>,
        clock: Box<dyn Clock + 'a>,
        actuators: Vec<Option<Box<dyn Actuator + 'a>>>,
    ) -> Result<Self, HostError> {
        assert_eq!(host.layout.scopes.len(), actuators.len());
        let now = Instant::now();
        Ok(Self {
            root,
            goals: actuators.iter().map(|_| None).collect(),
            states: actuators.iter().map(|_| ActuatorState::default()).collect(),
            host,
            notes: vec![],
            source,
            clock,
            actuators,
            counters: vmstat::of_machine(root)?,
            last_sample: now,
            last_update: now,
            page_bytes: rustix::param::page_size() as u64,
        })
    }

    /// Returns the last state of the actuator of each scope (steered processes).
    pub fn states(&self) -> &[ActuatorState] {
        &self.states
    }

    /// Returns the remarks since the last call; equal remarks are returned once.
    pub fn take_notes(&mut self) -> Vec<String> {
        mem::take(&mut self.notes)
    }

    /// Returns the goal (target placement) that was set last for each scope; `None` if none was set
    /// yet.
    pub fn goals(&self) -> &[Option<Goal>] {
        &self.goals
    }

    /// Returns the NUMA node of each tier.
    pub fn nodes(&self) -> &[u32] {
        &self.host.nodes
    }

    /// Updates each actuator, at most once in [`UPDATE_INTERVAL`].
    fn update(&mut self) -> Result<(), HostError> {
        if self.last_update.elapsed() < UPDATE_INTERVAL {
            return Ok(());
        }
        for (actuator, state) in self.actuators.iter_mut().zip(&mut self.states) {
            let Some(actuator) = actuator else { continue };
            let new = actuator.update()?;
            for note in &new.notes {
                if !self.notes.contains(note) {
                    self.notes.push(note.clone());
                }
            }
            // If the actuator has not sampled the placement of its scope this time, the last
            // placement is kept. A scope without processes has no placement.
            let last = state.on.take().filter(|_| new.processes != Some(0));
            let on = new.on.clone().or(last);
            *state = ActuatorState { on, ..new };
        }
        self.last_update = Instant::now();
        Ok(())
    }

    /// Returns the used and free bytes of each tier. The kernel counts migrated pages only for the
    /// whole machine, not for each node. The count of the whole machine is therefore reported for
    /// the first tier of each domain, as pages that migrated to this tier. The control loop uses
    /// only the sum over the tiers of a domain (socket).
    fn tier_memory(&mut self) -> Result<Vec<TierMemory>, HostError> {
        let now = vmstat::of_machine(self.root)?;
        let moved = match (&now, &self.counters) {
            (Some(now), Some(before)) => now.since(before).pgmigrate_success,
            _ => None,
        };
        self.counters = now;
        let first = |tier: usize| {
            self.host.layout.domains.iter().any(|domain| domain.tiers.first() == Some(&tier))
        };
        let mut tier_memory = vec![];
        for (tier, node) in self.host.nodes.iter().enumerate() {
            let (total_bytes, free_bytes) = node::memory(self.root, *node)?;
            tier_memory.push(TierMemory {
                used_bytes: Some(total_bytes.saturating_sub(free_bytes)),
                free_bytes: Some(free_bytes),
                migrated_in_bytes: moved
                    .filter(|_| first(tier))
                    .map(|moved| moved * self.page_bytes),
                migrated_out_bytes: None,
            });
        }
        Ok(tier_memory)
    }

    fn residency(&self) -> Vec<Residency> {
        let of_tier = |state: &ActuatorState| {
            let on = state.on.as_ref()?;
            Some(self.host.nodes.iter().map(|node| on.on(*node)).collect())
        };
        let states = self.states.iter();
        states.map(|it| Residency { used_bytes: of_tier(it), heat: None }).collect()
    }
}

impl Machine for Host<'_> {
    type Error = HostError;

    fn layout(&self) -> &Layout {
        &self.host.layout
    }

    fn advance(&mut self, span: Duration) -> Result<(), HostError> {
        if !self.clock.wait(span) {
            return Err(HostError::Stopped);
        }
        self.update()
    }

    fn observe(&mut self, _span: Duration) -> Result<Sample, HostError> {
        let reading = self.source.read()?;
        let now = Instant::now();
        let waited = now - mem::replace(&mut self.last_sample, now);
        // A reading that covers no time, such as that of a feed without a new line, gets the time
        // waited as its span, because rates are divided by the span.
        let span = if reading.span.is_zero() { waited } else { reading.span };
        let tier_memory = self.tier_memory()?;
        Ok(Sample { span, traffic: reading.traffic, tier_memory, scopes: self.residency() })
    }

    fn apply(&mut self, decision: &Decision) -> Result<(), HostError> {
        for target in &decision.targets {
            let goal = self.host.goal(target);
            if self.goals[target.scope].as_ref() == Some(&goal) {
                continue;
            }
            if let Some(actuator) = &mut self.actuators[target.scope] {
                actuator.set(&goal)?;
            }
            self.goals[target.scope] = Some(goal);
        }
        Ok(())
    }
}
