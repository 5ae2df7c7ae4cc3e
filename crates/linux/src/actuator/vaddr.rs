//! Interleaves the pages of processes by DAMON's `vaddr`: `migrate_hot` with several destinations.
//!
//! Each page has its node by its address, as under weighted interleaving, so that one that is in
//! place is left alone: all pages that are hot come to the ratio exactly and then rest (6.17.13 and
//! 7.2.12: 60:40 in 12 s, and not one page more). A changed goal, or changed processes, are written
//! and committed while it runs.
//!
//! [`Order::HottestFirst`] has no destinations: it moves hot pages to a node or cold ones away from
//! it, as much as [`Steer`] wants from where the pages are.

use super::{
    Actuator, ActuatorError, Followed, Goal, Setting,
    context::{Context, Quota, Scheme, To, Watched},
    demote::Guards,
    kdamond::Kdamond,
    look::{ENDED, JOINED, Look, comings, there},
    scope::{JOINS_BYTES, resident_bytes},
    steer::{Push, Steer},
};
use crate::{damon::probe::Probed, process::Process, root::RootError};
use interleaf_model::machine::Order;

/// How often a quota begins anew, ms.
const RESET_MS: u64 = 1000;

/// How often a context is tried again that named a process which ended meanwhile.
const TRIES: u32 = 3;

/// Interleaves the pages of processes.
#[derive(Debug)]
pub struct Vaddr<'a> {
    setting: Setting<'a>,
    kdamond: Kdamond<'a>,
    goal: Option<Goal>,
    /// In the order of DAMON's targets. One that leaves gives its place to another, so that what
    /// was found of the rest stays with them.
    processes: Vec<Process>,
    look: Look,
    guards: Guards,
    steer: Steer,
    push: Option<Push>,
}

impl<'a> Vaddr<'a> {
    /// An actuator for the processes of a scope, by a kernel that takes what was probed. Nothing is
    /// changed before a goal is set.
    pub fn new(setting: Setting<'a>, kernel: Probed) -> Self {
        let kdamond = Kdamond::new(setting.clone(), kernel);
        Self {
            setting,
            kdamond,
            goal: None,
            processes: vec![],
            look: Look::default(),
            guards: Guards::default(),
            steer: Steer::default(),
            push: None,
        }
    }

    /// Finds out who is there now.
    fn find(&mut self, followed: &mut Followed) -> Result<(), RootError> {
        let found = self.setting.processes()?;
        let begun = |it: &Process| (it.pid, it.start_ticks);
        let mut new = vec![];
        for process in &found {
            let is_known = self.processes.iter().any(|it| begun(it) == begun(process));
            if !is_known && resident_bytes(self.setting.root, process.pid)? >= JOINS_BYTES {
                new.push(process.clone());
            }
        }
        followed.joined.extend(new.iter().map(|process| process.pid));
        comings(&mut followed.notes, JOINED, &new);
        let mut gone = vec![];
        let mut new = new.into_iter();
        let mut at = 0;
        while at < self.processes.len() {
            if found.iter().any(|it| begun(it) == begun(&self.processes[at])) {
                at += 1;
                continue;
            }
            gone.push(self.processes[at].clone());
            if let Some(process) = new.next() {
                self.processes[at] = process;
            } else {
                self.processes.swap_remove(at);
            }
        }
        self.processes.extend(new);
        followed.left.extend(gone.iter().map(|process| process.pid));
        comings(&mut followed.notes, ENDED, &gone);
        Ok(())
    }

    fn context(&self, goal: &Goal) -> Context {
        let rate = goal.rate_limit_bytes_per_s;
        let all = rate.map(|bytes| Quota { bytes, reset_ms: RESET_MS });
        let weighted = goal.nodes.iter().copied().filter(|(_, weight)| *weight > 0);
        let first = goal.nodes.first().map_or(0, |(node, _)| *node);
        let mover = match (goal.order, self.push) {
            (Order::Interleave, _) => Scheme {
                action: "migrate_hot",
                to: To::Weighted(weighted.collect()),
                accesses: Some((1, u32::MAX)),
                age_min: 0,
                quota: all,
                goal: None,
                without: vec![],
            },
            (Order::HottestFirst, push) => Scheme {
                action: if push.is_none_or(|it| it.is_hot) {
                    "migrate_hot"
                } else {
                    "migrate_cold"
                },
                to: To::Node(push.map_or(first, |it| it.to)),
                accesses: push.map(|it| it.accesses),
                age_min: 0,
                quota: push.map(|it| Quota {
                    bytes: it.bytes.min(rate.unwrap_or(u64::MAX)),
                    reset_ms: RESET_MS,
                }),
                goal: None,
                without: vec![],
            },
        };
        // By addresses of processes nobody can tell which socket's pages are cold.
        let demotions = match goal.demotions.len() {
            1 => self.guards.schemes(goal),
            _ => vec![],
        };
        let demotions = demotions.into_iter().map(|(_, scheme)| scheme);
        let watched = Watched::Processes(self.processes.iter().map(|it| it.pid).collect());
        Context { watched, schemes: [mover].into_iter().chain(demotions).collect() }
    }

    /// Sees to it that DAMON does what is wanted now.
    fn bring(&mut self, followed: &mut Followed) -> Result<(), ActuatorError> {
        for attempt in 1..=TRIES {
            let Some(goal) = self.goal.clone() else { return Ok(()) };
            self.find(followed)?;
            if self.processes.is_empty() {
                return Ok(());
            }
            match self.kdamond.bring(&self.context(&goal)) {
                // A process may have ended since it was found.
                Err(ActuatorError::Refused(why)) if why.is_not_taken() && attempt < TRIES => {}
                done => return done,
            }
        }
        Ok(())
    }
}

impl Actuator for Vaddr<'_> {
    fn name(&self) -> &'static str {
        "vaddr"
    }

    fn describe(&self) -> String {
        let what = match self.goal.as_ref().map(|goal| goal.order) {
            Some(Order::HottestFirst) => {
                "the hottest to the first node and the coldest off it, as much as looking at \
                 numa_maps says"
            }
            _ => "hot ones to a node by their address, exactly in the ratio",
        };
        format!("DAMON watches the addresses of processes, and moves their pages: {what}")
    }

    fn set(&mut self, goal: &Goal) -> Result<(), ActuatorError> {
        goal.shares()?;
        let before = self.goal.replace(goal.clone());
        self.steer = Steer::default();
        self.look.begin();
        let done = self.bring(&mut Followed::default());
        if done.is_err() {
            self.goal = before;
        }
        done
    }

    fn follow(&mut self) -> Result<Followed, ActuatorError> {
        let mut followed = Followed::default();
        let Some(goal) = self.goal.clone() else { return Ok(followed) };
        let root = self.setting.root;
        there(root, &goal)?;
        let stats = self.kdamond.stats()?;
        let on = self.look.placement(&self.setting, &self.processes)?;
        if let Some(on) = on.as_ref().filter(|_| goal.order == Order::HottestFirst) {
            let done = stats.first().copied().unwrap_or_default();
            self.push = self.steer.step(&goal, on, done);
        }
        self.guards.look(root, &goal, &mut followed.notes)?;
        let ran = self.kdamond.runs()?;
        self.bring(&mut followed)?;
        self.kdamond.look(&mut followed.notes)?;
        if self.kdamond.is_set_up() && !ran && !self.processes.is_empty() {
            followed.notes.push("DAMON's thread had ended, and was started again".into());
        }
        self.look.note(&mut followed, root, &goal, on)?;
        followed.tried_bytes = Some(stats.iter().map(|it| it.tried_bytes).sum());
        followed.applied_bytes = Some(stats.iter().map(|it| it.applied_bytes).sum());
        followed.processes = Some(self.processes.len());
        followed.demotes = self.guards.demotes();
        Ok(followed)
    }
}
