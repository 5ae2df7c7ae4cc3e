//! Divides a budget among NUMA nodes: finds the nodes that take part, the CPUs that use each node,
//! and the size that the user gives for each node, if any.

use super::Dram;
use interleaf_console::{Failure, system};
use interleaf_linux::{
    machine::node::{Node, nodes},
    process::{available, table::allowed_nodes},
    root::Root,
};
use interleaf_model::units::Bytes;
use interleaf_pager::nodes::NodeBudget;

/// A budget must leave at least 1 / `KEPT_DIVISOR` of a node's memory to other programs.
/// Pages of the budget are bound to the node, so the kernel cannot place them on another node: when
/// the node has no memory left for such a page, the kernel kills programs.
const KEPT_DIVISOR: u64 = 16;

/// Returns the NUMA nodes that share the budget: the nodes that the user names, or all nodes with
/// CPUs and memory that this process may use if the user names none. If the list is empty, the
/// budget is not divided by nodes: there is no budget, or the user names no node and fewer than two
/// nodes can be used.
pub(super) fn budgets(root: &Root, dram: Option<&Dram>) -> Result<Vec<NodeBudget>, Failure> {
    let fixed = match dram {
        None => return Ok(vec![]),
        Some(Dram::ByNode(shares)) => Some(shares),
        Some(Dram::Size(_) | Dram::Percent(_)) => None,
    };
    let all = nodes(root).map_err(system::read_failure)?;
    let allowed = allowed_nodes(root, "self").map_err(system::read_failure)?;
    let is_allowed = |id: u32| allowed.as_ref().is_none_or(|allowed| allowed.has(id));
    let chosen: Vec<(&Node, Option<u64>)> = match fixed {
        Some(shares) => {
            let find = |(id, size): &(u32, Bytes)| {
                let node = all.iter().find(|node| node.id == *id && is_allowed(*id));
                let node = node.ok_or_else(|| no_node(&all, &is_allowed, *id))?;
                if size.get() > node.total_bytes - node.total_bytes / KEPT_DIVISOR {
                    return Err(too_large(node, *size));
                }
                Ok((node, Some(size.get())))
            };
            shares.iter().map(find).collect::<Result<_, _>>()?
        }
        None => {
            let own =
                |node: &&Node| !node.cpus.is_empty() && node.total_bytes > 0 && is_allowed(node.id);
            all.iter().filter(own).map(|node| (node, None)).collect()
        }
    };
    if chosen.len() < 2 && fixed.is_none() {
        return Ok(vec![]);
    }
    let mut budgets: Vec<NodeBudget> = chosen
        .iter()
        .map(|(node, dram_bytes)| -> Result<_, Failure> {
            let found = available::of_node(root, node.id).map_err(system::read_failure)?;
            let available = found.unwrap_or(0);
            Ok(NodeBudget {
                node: node.id,
                cpus: vec![],
                available_bytes: available - available / KEPT_DIVISOR,
                dram_bytes: *dram_bytes,
            })
        })
        .collect::<Result<_, _>>()?;
    for node in &all {
        let at = nearest(&all, node, &chosen);
        budgets[at].cpus.extend(node.cpus.iter());
    }
    Ok(budgets)
}

/// Returns the index in `chosen` of the node that is nearest to `node`; this is `node` itself if it
/// is chosen. `all` has all nodes of the machine, in the order of `Node::distances`.
fn nearest(all: &[Node], node: &Node, chosen: &[(&Node, Option<u64>)]) -> usize {
    let distance = |to: &Node| {
        let column = all.iter().position(|other| other.id == to.id)?;
        node.distances.get(column).copied()
    };
    let distances = chosen.iter().map(|(to, _)| match to.id == node.id {
        true => 0,
        false => distance(to).unwrap_or(u32::MAX),
    });
    distances.enumerate().min_by_key(|(_, distance)| *distance).map_or(0, |(at, _)| at)
}

fn no_node(all: &[Node], is_allowed: &dyn Fn(u32) -> bool, id: u32) -> Failure {
    let usable = all.iter().filter(|node| node.total_bytes > 0 && is_allowed(node.id));
    let usable: Vec<String> = usable.map(|node| format!("node{}", node.id)).collect();
    let why = match all.iter().any(|node| node.id == id) {
        true => "this process may not use that node",
        false => "the machine has no such node",
    };
    Failure::new(
        format!("--dram node{id}=...: {why}"),
        format!("name nodes of {}", usable.join(", ")),
    )
}

fn too_large(node: &Node, size: Bytes) -> Failure {
    let total = Bytes::new(node.total_bytes);
    Failure::new(
        format!("--dram node{}={size}: the node has {total}", node.id),
        "give a smaller share: pages of a node are bound to its memory",
    )
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;

    fn machine(name: &str) -> Root {
        let machines = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/machines");
        Root::captured(format!("{machines}/{name}"))
    }

    fn found(name: &str, dram: Dram) -> Result<Vec<NodeBudget>, String> {
        budgets(&machine(name), Some(&dram)).map_err(|why| format!("{why:#}"))
    }

    fn size(text: &str) -> Bytes {
        text.parse().unwrap()
    }

    fn shares(shares: &[(u32, &str)]) -> Dram {
        Dram::ByNode(shares.iter().map(|(node, text)| (*node, size(text))).collect())
    }

    #[test]
    fn nodes_with_cpus_share_a_plain_budget() {
        let nodes = found("linux-6.17-four-nodes", Dram::Size(size("256MiB"))).unwrap();
        let by_node: Vec<_> = nodes.iter().map(|node| (node.node, &node.cpus[..])).collect();
        assert_eq!(by_node, [(0, &[0][..]), (1, &[1][..])], "two of the four are expanders");
        assert!(nodes.iter().all(|node| node.dram_bytes.is_none()));
        assert!(nodes.iter().all(|node| (1 << 26..1 << 29).contains(&node.available_bytes)));
        let nodes = found("xeon6-two-sockets-cxl", Dram::Percent(50)).unwrap();
        let numbers: Vec<u32> = nodes.iter().map(|node| node.node).collect();
        assert_eq!(numbers, [0, 1]);
    }

    #[test]
    fn a_machine_with_one_node_of_cpus_is_not_divided() {
        for name in ["linux-6.12-one-node", "linux-6.12-three-tiers", "kernel-without-numa"] {
            assert_eq!(found(name, Dram::Size(size("256MiB"))).unwrap(), [], "{name}");
        }
    }

    #[test]
    fn cpus_of_other_nodes_use_the_nearest_named_node() {
        let dram = shares(&[(0, "64MiB"), (2, "128MiB")]);
        let nodes = found("linux-6.17-four-nodes", dram).unwrap();
        assert_eq!(nodes[0].dram_bytes, Some(64 << 20));
        assert_eq!((&nodes[0].cpus[..], &nodes[1].cpus[..]), (&[0, 1][..], &[][..]));
    }

    #[test]
    fn invalid_shares_are_refused() {
        let refused = |node: u32, text: &str| {
            found("linux-6.17-four-nodes", shares(&[(node, text)])).unwrap_err()
        };
        assert!(refused(7, "64MiB").contains("--dram node7=...: the machine has no such node"));
        let message = refused(1, "1TiB");
        assert!(message.contains("--dram node1=1 TiB: the node has "), "{message}");
    }
}
