//! A real machine behind the seam of the control loop: it waits, reads the counters, sees where
//! pages are, and has decisions carried out.
//!
//! A sample covers the time that its source says that it counted, which is not always the span that
//! was waited for: looking after what moves pages takes some, and the system may be busy. Of a
//! recording it is the time of then.

use crate::source::{Source, SourceError};
use interleaf_linux::{
    machine::{
        node,
        vmstat::{self, Counters},
    },
    place::{
        actuator::{Actuator, ActuatorError, Followed, Goal},
        layout::HostLayout,
    },
    root::{Root, RootError},
};
use interleaf_model::machine::{Decision, Layout, Machine, Residency, Sample, Stock};
use std::{
    mem,
    time::{Duration, Instant},
};

/// How often what moves pages is looked after.
const FOLLOW: Duration = Duration::from_secs(1);

/// Waits for a span, and says whether to go on.
pub trait Clock {
    /// Waits, or less when there is reason to stop; whether to go on.
    fn wait(&mut self, span: Duration) -> bool;
}

/// A machine that is observed, and whose scopes are steered.
pub struct Host<'a> {
    root: &'a Root,
    host: HostLayout,
    source: Box<dyn Source + 'a>,
    clock: Box<dyn Clock + 'a>,
    /// One for each scope of the layout; none where nothing is to be changed.
    actuators: Vec<Option<Box<dyn Actuator + 'a>>>,
    goals: Vec<Option<Goal>>,
    followed: Vec<Followed>,
    /// What was noted since somebody asked.
    notes: Vec<String>,
    counters: Option<Counters>,
    sampled: Instant,
    followed_last: Instant,
    page_bytes: u64,
}

/// Why a machine cannot be observed or steered any more.
#[derive(Debug, thiserror::Error)]
pub enum HostError {
    /// There was reason to stop: no fault.
    #[error("stopped")]
    Stopped,
    /// The counters cannot be read.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// Pages cannot be moved.
    #[error(transparent)]
    Actuator(ActuatorError),
    /// A file of the kernel cannot be read.
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
    /// A machine below `root`, with what counts its traffic and, for each scope of its layout, what
    /// moves its pages.
    ///
    /// # Errors
    /// When the kernel's counters cannot be read.
    ///
    /// # Panics
    /// When there is not one place for an actuator for each scope: that would be a fault of ours.
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
            followed: actuators.iter().map(|_| Followed::default()).collect(),
            host,
            notes: vec![],
            source,
            clock,
            actuators,
            counters: vmstat::of_machine(root)?,
            sampled: now,
            followed_last: now,
            page_bytes: rustix::param::page_size() as u64,
        })
    }

    /// What was found when each scope's actuator was last looked after.
    pub fn followed(&self) -> &[Followed] {
        &self.followed
    }

    /// What was noted since this was asked last, each once.
    pub fn take_notes(&mut self) -> Vec<String> {
        mem::take(&mut self.notes)
    }

    /// The goal of each scope.
    pub fn goals(&self) -> &[Option<Goal>] {
        &self.goals
    }

    /// The node of each tier.
    pub fn nodes(&self) -> &[u32] {
        &self.host.nodes
    }

    /// Has each actuator follow the processes of its scope, once in [`FOLLOW`].
    fn follow(&mut self) -> Result<(), HostError> {
        if self.followed_last.elapsed() < FOLLOW {
            return Ok(());
        }
        for (actuator, followed) in self.actuators.iter_mut().zip(&mut self.followed) {
            let Some(actuator) = actuator else { continue };
            let new = actuator.follow()?;
            for note in &new.notes {
                if !self.notes.contains(note) {
                    self.notes.push(note.clone());
                }
            }
            // Where it was not looked this time, pages are where they were the last time; where
            // nobody is left, nowhere.
            let last = followed.on.take().filter(|_| new.processes != Some(0));
            let on = new.on.clone().or(last);
            *followed = Followed { on, ..new };
        }
        self.followed_last = Instant::now();
        Ok(())
    }

    /// Bytes in use and free on each tier. All that migrated is put down as having come to the
    /// first tier of each domain: the kernel counts it for the machine as a whole, and it may have
    /// disturbed any.
    fn stock(&mut self) -> Result<Vec<Stock>, HostError> {
        let now = vmstat::of_machine(self.root)?;
        let moved = match (&now, &self.counters) {
            (Some(now), Some(before)) => now.since(before).pgmigrate_success,
            _ => None,
        };
        self.counters = now;
        let first = |tier: usize| {
            self.host.layout.domains.iter().any(|domain| domain.tiers.first() == Some(&tier))
        };
        let mut stock = vec![];
        for (tier, node) in self.host.nodes.iter().enumerate() {
            let (total_bytes, free_bytes) = node::memory(self.root, *node)?;
            stock.push(Stock {
                used_bytes: Some(total_bytes.saturating_sub(free_bytes)),
                free_bytes: Some(free_bytes),
                migrated_in_bytes: moved
                    .filter(|_| first(tier))
                    .map(|moved| moved * self.page_bytes),
                migrated_out_bytes: None,
            });
        }
        Ok(stock)
    }

    fn residency(&self) -> Vec<Residency> {
        let of_tier = |followed: &Followed| {
            let on = followed.on.as_ref()?;
            Some(self.host.nodes.iter().map(|node| on.on(*node)).collect())
        };
        let followed = self.followed.iter();
        followed.map(|it| Residency { used_bytes: of_tier(it), heat: None }).collect()
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
        self.follow()
    }

    fn observe(&mut self, _span: Duration) -> Result<Sample, HostError> {
        let reading = self.source.read()?;
        let now = Instant::now();
        let waited = now - mem::replace(&mut self.sampled, now);
        // A recording covers the time in which it was made; what counted no time has counted
        // nothing that could be divided by it.
        let span = if reading.span.is_zero() { waited } else { reading.span };
        let stock = self.stock()?;
        Ok(Sample { span, traffic: reading.traffic, stock, scopes: self.residency() })
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
