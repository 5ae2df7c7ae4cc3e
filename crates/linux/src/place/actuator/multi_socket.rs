//! One actuator that serves several sockets, each with its own goal.
//!
//! For each socket, a policy chooses the shares of the tiers near that socket. Interleaf sets up
//! only one DAMON thread, so a single actuator serves all sockets, with their goals combined into
//! one goal. Pages should not move to another socket, so the combined goal leaves the fraction of
//! the scope's pages that are near a socket as it is.
//!
//! Example: 3/4 of the pages are near socket 0 and 1/4 near socket 1. The sockets' goals are 80:20
//! and 60:40 percent. The combined goal has 60 and 15 percent of all pages on the nodes of socket
//! 0, and 15 and 10 percent on the nodes of socket 1. Individual pages may still be exchanged
//! between sockets.

use super::{Actuator, ActuatorError, ActuatorKind, ActuatorState, Goal, Setting};
use crate::process::numa_maps::NodeBytes;
use interleaf_model::weights::Weights;
use std::{cell::RefCell, collections::BTreeMap, rc::Rc};

/// The single actuator that all sockets share, and the goal of each socket.
struct SharedActuator<'a> {
    whole: Box<dyn Actuator + 'a>,
    setting: Setting<'a>,
    /// All nodes, the fastest first.
    nodes: Vec<u32>,
    /// For each socket, the nodes near it, and its goal; `None` until the goal is set.
    sockets: Vec<(Vec<u32>, Option<Goal>)>,
    state: ActuatorState,
    /// The last sample of the placement of the steered processes' memory.
    on: Option<NodeBytes>,
}

/// The actuator of one socket: the shared actuator, and an index in `SharedActuator::sockets`.
struct SocketActuator<'a> {
    shared: Rc<RefCell<SharedActuator<'a>>>,
    at: usize,
}

/// Makes an actuator for each socket, in the order of `sockets`, which has the nodes near each
/// socket. All share `whole`. `nodes` are all nodes of the machine, the fastest first.
pub fn divide<'a>(
    whole: Box<dyn Actuator + 'a>,
    setting: Setting<'a>,
    nodes: &[u32],
    sockets: Vec<Vec<u32>>,
) -> Vec<Box<dyn Actuator + 'a>> {
    if sockets.len() < 2 {
        return vec![whole];
    }
    let count = sockets.len();
    let sockets = sockets.into_iter().map(|nodes| (nodes, None)).collect();
    let (nodes, state) = (nodes.to_vec(), ActuatorState::default());
    let shared = SharedActuator { whole, setting, nodes, sockets, state, on: None };
    let shared = Rc::new(RefCell::new(shared));
    let part =
        |at| -> Box<dyn Actuator + 'a> { Box::new(SocketActuator { shared: shared.clone(), at }) };
    (0..count).map(part).collect()
}

impl SharedActuator<'_> {
    /// Combines the goals of all sockets into one goal; `None` until each socket has a goal.
    fn goal(&mut self) -> Result<Option<Goal>, ActuatorError> {
        if self.sockets.iter().any(|(_, goal)| goal.is_none()) {
            return Ok(None);
        }
        let on = self.placement()?;
        let parts = parts(&on, self.sockets.iter().map(|(nodes, _)| nodes.as_slice()));
        let mut shares: BTreeMap<u32, f64> = BTreeMap::new();
        let mut merged: Option<Goal> = None;
        for ((_, goal), part) in self.sockets.iter().zip(parts) {
            let Some(goal) = goal else { continue };
            for (node, share) in goal.shares()? {
                *shares.entry(node).or_default() += part * share;
            }
            merged.get_or_insert_with(|| goal.clone());
        }
        let share = |node: &u32| shares.get(node).copied().unwrap_or(0.0);
        let points = Weights::percent(&self.nodes.iter().map(share).collect::<Vec<_>>());
        let weights = points.as_slice().iter().map(|points| u32::from(*points));
        let nodes = self.nodes.iter().copied().zip(weights).collect();
        let goals = self.sockets.iter().filter_map(|(_, goal)| goal.as_ref());
        let demotions = goals.flat_map(|goal| goal.demotions.clone()).collect();
        Ok(merged.map(|merged| Goal { nodes, demotions, ..merged }))
    }
}

impl SharedActuator<'_> {
    /// Returns the scope's placement. For a scope of processes, returns the last sample if there is
    /// one, because reading `/proc` and all `numa_maps` again would double the cost.
    fn placement(&mut self) -> Result<NodeBytes, ActuatorError> {
        let setting = &self.setting;
        let is_slow = setting.scope.is_slow_to_sample();
        if let Some(on) = self.on.as_ref().filter(|_| is_slow) {
            return Ok(on.clone());
        }
        let processes = if is_slow { setting.processes()? } else { vec![] };
        let on = setting.placement(&processes)?;
        Ok(self.on.insert(on.unwrap_or_default()).clone())
    }
}

/// Returns, for each socket, the fraction of the scope's pages that are on nodes near the socket.
/// If the scope has no pages, the fractions are equal. Pages of a node near several sockets are
/// divided evenly.
fn parts<'n>(on: &NodeBytes, sockets: impl Iterator<Item = &'n [u32]> + Clone) -> Vec<f64> {
    let near = |node: u32| sockets.clone().filter(|nodes| nodes.contains(&node)).count() as f64;
    let of = |nodes: &[u32]| nodes.iter().map(|node| on.on(*node) as f64 / near(*node)).sum();
    let bytes: Vec<f64> = sockets.clone().map(of).collect();
    let all: f64 = bytes.iter().sum();
    let alike = 1.0 / bytes.len() as f64;
    bytes.iter().map(|bytes| if all > 0.0 { bytes / all } else { alike }).collect()
}

impl Actuator for SocketActuator<'_> {
    fn kind(&self) -> ActuatorKind {
        self.shared.borrow().whole.kind()
    }

    fn describe(&self) -> String {
        format!(
            "{}; one for all sockets, each of which keeps the part of the pages that it has",
            self.shared.borrow().whole.describe()
        )
    }

    fn set(&mut self, goal: &Goal) -> Result<(), ActuatorError> {
        let mut shared = self.shared.borrow_mut();
        let before = shared.sockets[self.at].1.replace(goal.clone());
        let done = match shared.goal() {
            Ok(Some(merged)) => shared.whole.set(&merged),
            Ok(None) => Ok(()),
            Err(why) => Err(why),
        };
        if done.is_err() {
            shared.sockets[self.at].1 = before;
        }
        done
    }

    /// Updates the shared actuator, but only if this is the actuator of the first socket. Each
    /// socket reports the placement on the nodes near it, and the distance of this placement to its
    /// goal. The first socket also reports all other figures, which cover all sockets.
    fn update(&mut self) -> Result<ActuatorState, ActuatorError> {
        let mut shared = self.shared.borrow_mut();
        if self.at == 0 {
            shared.state = shared.whole.update()?;
            if let Some(on) = shared.state.on.clone() {
                shared.on = Some(on);
            }
        }
        let (nodes, goal) = &shared.sockets[self.at];
        let on = shared.state.on.as_ref().map(|on| {
            NodeBytes(on.0.iter().filter(|(node, _)| nodes.contains(node)).map(own).collect())
        });
        let off_points = on.as_ref().and_then(|on| goal.as_ref()?.off_points(on));
        Ok(match self.at {
            0 => ActuatorState { on, off_points, ..shared.state.clone() },
            _ => ActuatorState { on, off_points, ..ActuatorState::default() },
        })
    }
}

fn own((node, bytes): (&u32, &u64)) -> (u32, u64) {
    (*node, *bytes)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;
    use crate::{
        place::{actuator::Scope, journal::Journal},
        root::Root,
    };
    use interleaf_model::machine::Order;
    use std::{fs, path::Path};

    /// An actuator that records the goals that it gets, and reports a fixed placement.
    struct Notes(Rc<RefCell<Vec<Goal>>>);

    impl Actuator for Notes {
        fn kind(&self) -> ActuatorKind {
            ActuatorKind::Pages
        }

        fn describe(&self) -> String {
            String::new()
        }

        fn set(&mut self, goal: &Goal) -> Result<(), ActuatorError> {
            self.0.borrow_mut().push(goal.clone());
            Ok(())
        }

        fn update(&mut self) -> Result<ActuatorState, ActuatorError> {
            let on = NodeBytes([(0, 60), (1, 15), (2, 20), (3, 5)].into_iter().collect());
            Ok(ActuatorState { on: Some(on), tried_bytes: Some(7), ..ActuatorState::default() })
        }
    }

    /// Makes a captured machine (a folder with the files of a machine) whose node N has `kib[N]`
    /// KiB of anonymous memory.
    fn machine(folder: &Path, kib: &[u64]) -> Root {
        let nodes = folder.join("sys/devices/system/node");
        for (node, kib) in kib.iter().enumerate() {
            let own = nodes.join(format!("node{node}"));
            fs::create_dir_all(&own).unwrap();
            let text = format!("Node {node} MemTotal: 999 kB\nNode {node} AnonPages: {kib} kB\n");
            fs::write(own.join("meminfo"), text).unwrap();
        }
        fs::write(nodes.join("online"), format!("0-{}\n", kib.len() - 1)).unwrap();
        Root::captured(folder)
    }

    /// Returns a goal with the `weights` of nodes 0 to 3, the fastest first.
    fn goal(weights: [u32; 4]) -> Goal {
        Goal {
            nodes: (0..).zip(weights).collect(),
            order: Order::Interleave,
            demotions: vec![],
            rate_limit_bytes_per_s: None,
        }
    }

    #[test]
    fn each_socket_keeps_its_part() {
        let folder = tempfile::tempdir().unwrap();
        let root = machine(folder.path(), &[75, 25, 0, 0]);
        let journal = Rc::new(RefCell::new(Journal::open(&root).unwrap().0));
        let setting = Setting::new(&root, journal, Scope::Machine);
        let goals_set = Rc::new(RefCell::new(vec![]));
        let whole = Box::new(Notes(goals_set.clone()));
        let mut parts = divide(whole, setting, &[0, 1, 2, 3], vec![vec![0, 2], vec![1, 3]]);
        parts[0].set(&goal([80, 0, 20, 0])).unwrap();
        assert!(goals_set.borrow().is_empty(), "the other socket has no goal yet");
        parts[1].set(&goal([0, 60, 0, 40])).unwrap();
        let merged = goals_set.borrow().last().cloned().unwrap();
        assert_eq!(merged.nodes, [(0, 60), (1, 15), (2, 15), (3, 10)]);
        let first = parts[0].update().unwrap();
        let second = parts[1].update().unwrap();
        assert_eq!((first.on.as_ref().unwrap().total(), first.tried_bytes), (80, Some(7)));
        assert_eq!((second.on.as_ref().unwrap().total(), second.tried_bytes), (20, None));
        let off = |it: ActuatorState| it.off_points.unwrap().round();
        assert_eq!((off(first), off(second)), (5.0, 15.0));
    }

    #[test]
    fn parts_are_by_pages() {
        let sockets = [&[0, 2][..], &[1, 2]];
        let of = |on: &[(u32, u64)]| {
            parts(&NodeBytes(on.iter().copied().collect()), sockets.iter().copied())
        };
        assert_eq!(of(&[]), [0.5, 0.5]);
        assert_eq!(of(&[(1, 8)]), [0.0, 1.0]);
        assert_eq!(of(&[(0, 2), (2, 4)]), [4.0 / 6.0, 2.0 / 6.0]);
    }
}
