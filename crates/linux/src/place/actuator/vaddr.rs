//! Interleaves the pages of processes by DAMON's `vaddr`: `migrate_hot` with several destinations.
//!
//! A page's address determines its node, as under weighted interleaving, so pages on their target
//! node do not migrate again. All hot pages reach the ratio of the weights exactly, and migration
//! then stops (Linux 6.17.13 and 7.2.12: 60:40 in 12 s, and no page migrated afterwards). When the
//! goal or the set of processes changes, the change is written to DAMON's files and committed while
//! the thread runs.
//!
//! The weights divide the pages of a mapping in order of their addresses, and a huge page counts as
//! one page. With weights of 60 and 40, the first 60 of 100 huge pages, 120 MiB, are on one node.
//! Small mappings therefore miss the ratio: a mapping of 128 MiB stayed at 83:17 (Linux 6.17.13).
//! To avoid this, weights with a sum of 100 are written as ten blocks of ten pages, such as 6 pages
//! on one node and 4 on the other:
//!
//! ```text
//! 60:40   6 4, repeated
//! 62:38   7 3  6 4  6 4  6 4  6 4, repeated
//! 63:37   7 3  6 4  7 3  6 4  6 4  7 3  6 4  6 4  6 4  6 4
//! ```
//!
//! As the weight of the first node grows from 60 to 70, one block after another changes from 6 4 to
//! 7 3, and no block changes back. Therefore a change of the weight by two percentage points moves
//! only two pages of a hundred.
//!
//! [`Order::HottestFirst`] needs no destinations that depend on the address: it migrates hot pages
//! to a node, or cold pages away from it. [`QuotaController`] computes the bytes to migrate from
//! the placement.

use super::{
    Actuator, ActuatorError, ActuatorKind, ActuatorState, Goal, Setting,
    context::{Context, Destination, MonitoredMemory, Quota, RESET_MS, Scheme},
    demote::Guards,
    kdamond::Kdamond,
    quota_controller::{Push, QuotaController},
    sampler::{ENDED, JOINED, PlacementSampler, check_nodes_online, note_membership},
    scan::{Changes, Scan},
};
use crate::place::scope::JOINS_BYTES;
use crate::{
    machine::damon::probe::Probed,
    process::Process,
    root::{Root, RootError},
};
use interleaf_model::machine::Order;
use std::collections::BTreeSet;

/// The number of blocks into which each 100 consecutive pages are divided, if the weights have a
/// sum of 100. In each block, the nodes' pages are nearly in the ratio of the weights. With more
/// blocks, small mappings would be closer to the ratio, but the list of destinations would be
/// longer, and the kernel searches this list for each page.
const BLOCKS: u32 = 10;
const HUNDRED: u32 = 100;

/// The ranks of the blocks. Blocks get an additional page in the order of their ranks: with a
/// weight of 63, the first node has 6 pages in each block, and a seventh page in the blocks with
/// the ranks 0, 1 and 2. The sum of the first two weights, of the first three, and so on, is
/// divided among the blocks in the same way. Blocks with consecutive ranks are far apart, so the
/// additional pages are spread evenly over the hundred pages.
const ROUNDED_UP: [u32; 10] = [0, 6, 2, 8, 4, 1, 7, 3, 9, 5];

/// The actuator `vaddr`, which migrates the pages of processes with DAMON.
#[derive(Debug)]
pub struct Vaddr<'a> {
    setting: Setting<'a>,
    kdamond: Kdamond<'a>,
    goal: Option<Goal>,
    /// The processes in the order of DAMON's targets. A process that joins takes the slot of a
    /// process that left, so that DAMON keeps the regions of most other processes ([`replace`]).
    processes: Vec<Process>,
    scan: Scan,
    sampler: PlacementSampler,
    guards: Guards,
    steer: QuotaController,
    push: Option<Push>,
}

impl<'a> Vaddr<'a> {
    /// Returns an actuator for the processes of a scope. `kernel` has the features of the kernel's
    /// DAMON. The machine is not changed before a goal is set.
    pub fn new(setting: Setting<'a>, kernel: Probed) -> Self {
        let kdamond = Kdamond::new(setting.clone(), kernel);
        Self {
            setting,
            kdamond,
            goal: None,
            processes: vec![],
            scan: Scan::default(),
            sampler: PlacementSampler::default(),
            guards: Guards::default(),
            steer: QuotaController::default(),
            push: None,
        }
    }

    /// Updates `self.processes` if a scan is due or DAMON's thread ended; notes changes in `state`.
    fn find(&mut self, state: &mut ActuatorState) -> Result<(), ActuatorError> {
        // DAMON's thread ends with the last of its processes. Scan at once if the thread has ended.
        let has_ended = !self.processes.is_empty() && !self.kdamond.runs()?;
        if !self.scan.is_due() && !has_ended {
            return Ok(());
        }
        let Changes { joined, gone } =
            self.scan.changes(&self.setting, &self.processes, JOINS_BYTES)?;
        state.joined.extend(joined.iter().map(|process| process.pid));
        note_membership(&mut state.notes, JOINED, &joined);
        replace(&mut self.processes, &gone, joined);
        state.left.extend(gone.iter().map(|process| process.pid));
        note_membership(&mut state.notes, ENDED, &gone);
        Ok(())
    }

    /// Gives DAMON a context for the present goal and processes. If the kernel refuses the context,
    /// the next attempt omits the processes that have ended.
    fn apply_context(&mut self, state: &mut ActuatorState) -> Result<(), ActuatorError> {
        let Some(goal) = self.goal.clone() else { return Ok(()) };
        self.find(state)?;
        let Self { kdamond, setting, processes, guards, push, .. } = self;
        let mut gone = vec![];
        let mut is_first = true;
        let done = kdamond.apply(&mut || {
            if !std::mem::take(&mut is_first) {
                gone.extend(drop_gone(setting.root, processes)?);
            }
            let is_any = !processes.is_empty();
            Ok(is_any.then(|| context(&goal, processes, guards, *push)))
        });
        state.left.extend(gone.iter().map(|process| process.pid));
        note_membership(&mut state.notes, ENDED, &gone);
        done
    }
}

/// Removes the processes `gone` and adds the processes `joined`. The index of a process is its slot
/// in DAMON's list of targets, and DAMON keeps the regions of a slot. Therefore as few slots as
/// possible change: a joined process takes the slot of a process that left. If more processes left
/// than joined, the last process is moved into each free slot and loses its regions.
fn replace(processes: &mut Vec<Process>, gone: &[Process], joined: Vec<Process>) {
    let gone: BTreeSet<_> = gone.iter().map(Process::identity).collect();
    let mut joined = joined.into_iter();
    let mut at = 0;
    while at < processes.len() {
        if !gone.contains(&processes[at].identity()) {
            at += 1;
        } else if let Some(process) = joined.next() {
            processes[at] = process;
            at += 1;
        } else {
            processes.swap_remove(at);
        }
    }
    processes.extend(joined);
}

/// Removes the processes that have ended from `processes`, and returns them.
fn drop_gone(root: &Root, processes: &mut Vec<Process>) -> Result<Vec<Process>, RootError> {
    let mut gone = vec![];
    for process in processes.iter() {
        if !process.runs(root)? {
            gone.push(process.clone());
        }
    }
    replace(processes, &gone, vec![]);
    Ok(gone)
}

/// Returns the DAMON context that migrates the pages of `processes` to a goal. `push` is from
/// [`QuotaController`], for [`Order::HottestFirst`]. `guards` has the demotions' state.
fn context(goal: &Goal, processes: &[Process], guards: &Guards, push: Option<Push>) -> Context {
    let first = goal.nodes.first().map_or(0, |(node, _)| *node);
    let mover = match (goal.order, push) {
        (Order::Interleave, _) => Scheme {
            action: "migrate_hot",
            to: Destination::Weighted(destinations(goal)),
            accesses: Some((1, u32::MAX)),
            age_min: 0,
            quota: None,
            goal: None,
            filters: vec![],
        },
        (Order::HottestFirst, push) => Scheme {
            action: if push.is_none_or(|it| it.is_hot) { "migrate_hot" } else { "migrate_cold" },
            to: Destination::Node(push.map_or(first, |it| it.to)),
            accesses: push.map(|it| it.accesses),
            age_min: push.map_or(0, |it| it.age_min),
            quota: push.map(|it| Quota { bytes: it.bytes, reset_ms: RESET_MS }),
            goal: None,
            filters: vec![],
        },
    };
    // With several sockets there is no demotion: `vaddr` monitors virtual addresses, so DAMON
    // cannot know near which socket a cold page is.
    let demotions = match goal.demotions.len() {
        1 => guards.schemes(goal),
        _ => vec![],
    };
    let demotions = demotions.into_iter().map(|(_, scheme)| scheme);
    let monitored = MonitoredMemory::Processes(processes.iter().map(|it| it.pid).collect());
    let schemes = [mover].into_iter().chain(demotions).collect();
    Context { monitored, schemes }.limit_rate(goal.rate_limit_bytes_per_s)
}

/// Returns the destinations of a mapping's pages, in the order of the pages. Each destination is a
/// node and the number of consecutive pages that the node gets.
fn destinations(goal: &Goal) -> Vec<(u32, u32)> {
    let nodes = goal.nodes.iter().copied().filter(|(_, weight)| *weight > 0);
    let nodes: Vec<(u32, u32)> = nodes.collect();
    if nodes.iter().map(|(_, weight)| weight).sum::<u32>() != HUNDRED {
        return nodes;
    }
    let blocks: Vec<Vec<(u32, u32)>> = ROUNDED_UP
        .iter()
        .map(|rank| {
            let bound = |sum: u32| sum / BLOCKS + u32::from(*rank < sum % BLOCKS);
            let mut sum = 0;
            let part = |(node, weight): &(u32, u32)| {
                let first = bound(sum);
                sum += weight;
                (*node, bound(sum) - first)
            };
            nodes.iter().map(part).collect()
        })
        .collect();
    let repeats = |period: &usize| (0..blocks.len()).all(|at| blocks[at] == blocks[at % period]);
    let period = [1, 2, 5].into_iter().find(repeats).unwrap_or(blocks.len());
    blocks[..period].concat()
}

impl Actuator for Vaddr<'_> {
    fn kind(&self) -> ActuatorKind {
        ActuatorKind::Vaddr
    }

    fn describe(&self) -> String {
        let action = match self.goal.as_ref().map(|goal| goal.order) {
            Some(Order::HottestFirst) => {
                "the hottest to the first node and the coldest off it, by the placement in \
                 numa_maps"
            }
            _ => "hot ones to a node by their address, exactly in the ratio",
        };
        format!("DAMON watches the addresses of processes, and moves their pages: {action}")
    }

    fn set(&mut self, goal: &Goal) -> Result<(), ActuatorError> {
        goal.shares()?;
        let before = self.goal.replace(goal.clone());
        self.steer = QuotaController::default();
        self.sampler.restart();
        let done = self.apply_context(&mut ActuatorState::default());
        if done.is_err() {
            self.goal = before;
        }
        done
    }

    fn update(&mut self) -> Result<ActuatorState, ActuatorError> {
        let mut state = ActuatorState::default();
        let Some(goal) = self.goal.clone() else { return Ok(state) };
        let root = self.setting.root;
        check_nodes_online(root, &goal)?;
        let stats = self.kdamond.stats()?;
        let on = self.sampler.sample_placement(&self.setting, &self.processes)?;
        if let Some(on) = on.as_ref().filter(|_| goal.order == Order::HottestFirst) {
            let done = stats.first().copied().unwrap_or_default();
            self.push = self.steer.step(&goal, on, done);
        }
        self.guards.update(root, &goal, &mut state.notes)?;
        let ran = self.kdamond.runs()?;
        self.apply_context(&mut state)?;
        self.kdamond.note_balancer(&mut state.notes)?;
        if self.kdamond.is_set_up() && !ran && !self.processes.is_empty() {
            state.notes.push("DAMON's thread had ended, and was started again".into());
        }
        self.sampler.note(&mut state, root, &goal, on)?;
        state.tried_bytes = Some(stats.iter().map(|it| it.tried_bytes).sum());
        state.applied_bytes = Some(stats.iter().map(|it| it.applied_bytes).sum());
        state.processes = Some(self.processes.len());
        state.demotes = self.guards.demotes();
        Ok(state)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn goal(weights: &[u32]) -> Goal {
        Goal {
            nodes: (0..).zip(weights.iter().copied()).collect(),
            order: Order::Interleave,
            demotions: vec![],
            rate_limit_bytes_per_s: None,
        }
    }

    /// Returns the node that the kernel selects for each of two hundred consecutive pages, if nodes
    /// 0, 1, ... have these `weights`.
    fn pages(weights: &[u32]) -> Vec<u32> {
        let found = destinations(&goal(weights));
        let cycle = found.iter().flat_map(|(node, count)| vec![*node; *count as usize]);
        cycle.collect::<Vec<_>>().into_iter().cycle().take(200).collect()
    }

    #[test]
    fn weights_are_divided_into_blocks() {
        for (weights, expected) in [
            (&[60, 40][..], "0:6 1:4"),
            (&[100, 0], "0:10"),
            (
                &[65, 35],
                "0:7 1:3 0:6 1:4 0:7 1:3 0:6 1:4 0:7 1:3 0:7 1:3 0:6 1:4 0:7 1:3 0:6 1:4 0:6 1:4",
            ),
            (&[62, 38], "0:7 1:3 0:6 1:4 0:6 1:4 0:6 1:4 0:6 1:4"),
            (&[50, 30, 20], "0:5 1:3 2:2"),
            // Weights whose sum is not a hundred are written as they are.
            (&[3, 1], "0:3 1:1"),
            (&[255, 1], "0:255 1:1"),
        ] {
            let found = destinations(&goal(weights));
            let found: Vec<String> =
                found.iter().map(|(node, count)| format!("{node}:{count}")).collect();
            assert_eq!(found.join(" "), expected, "{weights:?}");
        }
    }

    /// The weights of two nodes sum to 100. A node has as many of each hundred pages as its weight.
    /// A mapping of 128 MiB has 64 huge pages: wherever it starts, a node's percentage of them
    /// differs from its weight by at most six points. A weight that grows by 1 changes the node of
    /// one page of a hundred.
    #[test]
    fn a_small_mapping_has_the_ratio_too() {
        for weight in 0..=100 {
            let pages = pages(&[weight, 100 - weight]);
            let share = |range: std::ops::Range<usize>| {
                let all = &pages[range];
                100.0 * all.iter().filter(|node| **node == 0).count() as f64 / all.len() as f64
            };
            assert_eq!(share(0..100).round() as u32, weight);
            for start in 0..100 {
                let off = share(start..start + 64) - f64::from(weight);
                assert!(off.abs() <= 6.0, "{weight}: {off} from {start}");
            }
            if weight < 100 {
                let next = super::tests::pages(&[weight + 1, 99 - weight]);
                let changed = pages.iter().zip(&next).filter(|(a, b)| a != b).count();
                assert_eq!(changed, 2, "of two hundred");
            }
        }
    }
}
