//! Reads memory topologies, and returns the QEMU flags for them.
//!
//! A file lists the nodes in order, and the firmware's figures for the paths between them, as in
//! the ACPI tables SRAT, SLIT and HMAT:
//!
//! ```toml
//! hmat = true
//!
//! [[node]]
//! cpus = 2
//! memory_mib = 512
//!
//! [[node]]            # without processors
//! memory_mib = 512
//! initiator = 0       # the node whose processors are nearest to it
//!
//! [[path]]
//! from = 0
//! to = 1
//! latency_ns = 250
//! bandwidth_gib_s = 200
//! ```
//!
//! The latencies and bandwidths are only in the tables: QEMU's memory is equally fast on all nodes.

use serde::Deserialize;

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Topology {
    /// True if the firmware has an HMAT, with the latencies and bandwidths of `paths`.
    pub hmat: bool,
    /// The nodes. They are numbered from 0, in the order of the file.
    #[serde(rename = "node")]
    pub nodes: Vec<Node>,
    /// Paths between nodes. Default: none.
    #[serde(rename = "path", default)]
    pub paths: Vec<Path>,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Node {
    /// Number of processors of the node. The processors of each node form a socket. Default: 0.
    #[serde(default)]
    pub cpus: u32,
    /// Memory size, MiB. If it is a multiple of 128 MiB, the size of the kernel's memory blocks on
    /// x86, each memory block is on a single node.
    pub memory_mib: u32,
    /// True if the memory is a pluggable module (`pc-dimm` of QEMU), like the memory of an
    /// expander. The guest can set such memory offline if the kernel onlines it as movable (kernel
    /// parameter `memhp_default_state=online_movable`). Default: false, for boot memory.
    #[serde(default)]
    pub plugged: bool,
    /// For a node without processors, the nearest node with processors. Only for a topology with an
    /// HMAT.
    pub initiator: Option<u32>,
}

/// The path from the processors of one node to the memory of a node.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Path {
    /// The node whose processors access the memory. A path with only a distance may begin at any
    /// node.
    pub from: u32,
    /// The node whose memory is accessed.
    pub to: u32,
    /// Access latency in the HMAT.
    pub latency_ns: Option<u32>,
    /// Access bandwidth in the HMAT.
    pub bandwidth_gib_s: Option<u32>,
    /// Distance in the SLIT. Default: 10 to the same node, 20 to another node.
    pub distance: Option<u8>,
}

/// The reason why a text is not a valid topology.
#[derive(Debug, thiserror::Error)]
pub enum TopologyError {
    /// The text is not TOML, or has unknown or missing fields.
    #[error(transparent)]
    Toml(#[from] toml::de::Error),
    /// The topology is inconsistent.
    #[error("{0}")]
    Wrong(String),
}

/// The topologies in `crates/vm/topologies/`, by name.
const NAMED: [(&str, &str); 8] = [
    ("one-node", include_str!("../topologies/one-node.toml")),
    ("two-nodes-hmat", include_str!("../topologies/two-nodes-hmat.toml")),
    ("two-sockets", include_str!("../topologies/two-sockets.toml")),
    ("four-nodes", include_str!("../topologies/four-nodes.toml")),
    ("three-tiers", include_str!("../topologies/three-tiers.toml")),
    ("no-hmat", include_str!("../topologies/no-hmat.toml")),
    ("plugged-node", include_str!("../topologies/plugged-node.toml")),
    ("nearly-full-node", include_str!("../topologies/nearly-full-node.toml")),
];

impl Topology {
    /// Returns the names of the topologies of this crate.
    pub fn names() -> impl Iterator<Item = &'static str> {
        NAMED.iter().map(|(name, _)| *name)
    }

    /// Returns the topology of this crate with the name `name`.
    ///
    /// # Errors
    ///
    /// If no topology has this name.
    pub fn named(name: &str) -> Result<Self, TopologyError> {
        let none = || {
            let names: Vec<_> = Self::names().collect();
            TopologyError::Wrong(format!("no topology {name}: there are {}", names.join(", ")))
        };
        let (_, text) = NAMED.iter().find(|(other, _)| *other == name).ok_or_else(none)?;
        Self::read(text)
    }

    /// Parses a topology.
    ///
    /// # Errors
    ///
    /// If the text is not TOML, has unknown or missing fields, or describes an inconsistent
    /// topology, for example with a path to a node that does not exist.
    pub fn read(text: &str) -> Result<Self, TopologyError> {
        let topology: Self = toml::from_str(text)?;
        topology.check().map_err(TopologyError::Wrong)?;
        Ok(topology)
    }

    fn check(&self) -> Result<(), String> {
        let has_cpus = |node: u32| self.nodes.get(node as usize).is_some_and(|node| node.cpus > 0);
        if !has_cpus(0) {
            return Err("node 0 wants processors: the kernel starts there".to_string());
        }
        for (at, node) in self.nodes.iter().enumerate() {
            match node.initiator {
                Some(initiator) if !self.hmat || !has_cpus(initiator) || node.cpus > 0 => {
                    return Err(format!("node {at} cannot have {initiator} as its initiator"));
                }
                None if self.hmat && node.cpus == 0 => {
                    return Err(format!("node {at} wants an initiator"));
                }
                _ => {}
            }
        }
        let mut sockets = self.nodes.iter().map(|node| node.cpus).filter(|cpus| *cpus > 0);
        let first = sockets.next();
        if let Some(other) = sockets.find(|cpus| Some(*cpus) != first) {
            return Err(format!("each node is a socket, and all have as many processors: {other}"));
        }
        for path in &self.paths {
            let (from, to) = (path.from, path.to);
            let rated = path.latency_ns.is_some() || path.bandwidth_gib_s.is_some();
            if to as usize >= self.nodes.len() || (rated && !has_cpus(from)) {
                return Err(format!("there cannot be a path from {from} to {to}"));
            }
            if rated && !self.hmat {
                return Err("latency and bandwidth are in the HMAT: hmat = true".to_string());
            }
        }
        Ok(())
    }

    /// Returns the QEMU flags for the topology. If `shared` is true, the guest's memory is in
    /// memfds, which other processes can map.
    #[must_use]
    pub fn flags(&self, shared: bool) -> Vec<String> {
        let (kind, more) = if shared { ("memfd", ",share=on") } else { ("ram", "") };
        let mib = |plugged: bool| -> u32 {
            let nodes = self.nodes.iter().filter(|node| node.plugged == plugged);
            nodes.map(|node| node.memory_mib).sum()
        };
        // `maxmem` includes the address space of the pluggable modules: QEMU aligns each module to
        // 1 GiB, so each needs up to 1 GiB more than its size.
        let slots = self.nodes.iter().filter(|node| node.plugged).count() as u32;
        let room = match slots {
            0 => String::new(),
            _ => format!(",slots={slots},maxmem={}M", mib(false) + mib(true) + slots * 1024),
        };
        let cpus: u32 = self.nodes.iter().map(|node| node.cpus).sum();
        let hmat = if self.hmat { "on" } else { "off" };
        let mut flags: Vec<String> =
            ["-machine", &format!("q35,hmat={hmat}"), "-m", &format!("{}M{room}", mib(false))]
                .map(String::from)
                .to_vec();
        let mut flag = |name: &str, value: String| flags.extend([name.to_string(), value]);
        // Without this flag, QEMU puts the processors of all nodes into one socket.
        let sockets = self.nodes.iter().filter(|node| node.cpus > 0).count() as u32;
        let cores = cpus / sockets.max(1);
        flag("-smp", format!("{cpus},sockets={sockets},cores={cores},threads=1"));
        let mut first = 0;
        for (at, node) in self.nodes.iter().enumerate() {
            flag(
                "-object",
                format!("memory-backend-{kind},id=m{at},size={}M{more}", node.memory_mib),
            );
            let mut numa = format!("node,nodeid={at}");
            if node.plugged {
                flag("-device", format!("pc-dimm,id=d{at},memdev=m{at},node={at}"));
            } else {
                numa += &format!(",memdev=m{at}");
            }
            if node.cpus > 0 {
                numa += &format!(",cpus={first}-{}", first + node.cpus - 1);
                first += node.cpus;
            }
            if let Some(initiator) = node.initiator {
                numa += &format!(",initiator={initiator}");
            }
            flag("-numa", numa);
        }
        for path in &self.paths {
            let Path { from, to, .. } = path;
            if let Some(distance) = path.distance {
                flag("-numa", format!("dist,src={from},dst={to},val={distance}"));
            }
            let options = format!("hmat-lb,initiator={from},target={to},hierarchy=memory");
            if let Some(ns) = path.latency_ns {
                flag("-numa", format!("{options},data-type=access-latency,latency={ns}"));
            }
            if let Some(gib_s) = path.bandwidth_gib_s {
                flag("-numa", format!("{options},data-type=access-bandwidth,bandwidth={gib_s}G"));
            }
        }
        flags
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn built_in_topologies_are_valid() {
        for name in Topology::names() {
            let topology = Topology::named(name).unwrap_or_else(|why| panic!("{name}: {why}"));
            assert!(!topology.flags(false).is_empty());
        }
        let why = Topology::named("none").unwrap_err().to_string();
        assert!(why.starts_with("no topology none: there are one-node, "), "{why}");
    }

    #[test]
    fn flags_are_those_of_qemu() {
        let flags = Topology::named("two-nodes-hmat").unwrap().flags(false).join(" ");
        let options = |to, data| {
            let ends = format!("initiator=0,target={to}");
            format!("-numa hmat-lb,{ends},hierarchy=memory,data-type=access-{data}")
        };
        let expected = [
            "-machine q35,hmat=on -m 1024M -smp 2,sockets=1,cores=2,threads=1".to_string(),
            "-object memory-backend-ram,id=m0,size=512M".to_string(),
            "-numa node,nodeid=0,memdev=m0,cpus=0-1".to_string(),
            "-object memory-backend-ram,id=m1,size=512M".to_string(),
            "-numa node,nodeid=1,memdev=m1,initiator=0".to_string(),
            options(0, "latency,latency=100"),
            options(0, "bandwidth,bandwidth=500G"),
            options(1, "latency,latency=250"),
            options(1, "bandwidth,bandwidth=200G"),
        ];
        assert_eq!(flags, expected.join(" "));
    }

    #[test]
    fn shared_memory_is_in_memfds() {
        let flags = Topology::named("one-node").unwrap().flags(true).join(" ");
        assert!(flags.contains("memory-backend-memfd,id=m0,size=512M,share=on"), "{flags}");
    }

    #[test]
    fn each_node_with_processors_is_a_socket() {
        let flags = Topology::named("four-nodes").unwrap().flags(false).join(" ");
        assert!(flags.contains("-smp 2,sockets=2,cores=1,threads=1"), "{flags}");
        assert!(flags.contains("nodeid=0,memdev=m0,cpus=0-0"), "{flags}");
        assert!(flags.contains("nodeid=1,memdev=m1,cpus=1-1"), "{flags}");
    }

    #[test]
    fn invalid_topologies_are_refused() {
        let table = [
            ("hmat = true\n[[node]]\nmemory_mib = 1", "node 0 wants processors"),
            (
                "hmat = false\n[[node]]\nmemory_mib = 1\ncpus = 1\n[[node]]\nmemory_mib = 1\n\
                 cpus = 3",
                "each node is a socket, and all have as many processors: 3",
            ),
            (
                "hmat = true\n[[node]]\nmemory_mib = 1\ncpus = 1\n[[node]]\nmemory_mib = 1",
                "node 1 wants an initiator",
            ),
            (
                "hmat = false\n[[node]]\nmemory_mib = 1\ncpus = 1\n[[node]]\nmemory_mib = 1\n\
              initiator = 0",
                "node 1 cannot have 0 as its initiator",
            ),
            (
                "hmat = false\n[[node]]\nmemory_mib = 1\ncpus = 1\n[[path]]\nfrom = 0\nto = 0\n\
              latency_ns = 1",
                "latency and bandwidth are in the HMAT",
            ),
            (
                "hmat = false\n[[node]]\nmemory_mib = 1\ncpus = 1\n[[path]]\nfrom = 0\nto = 1",
                "there cannot be a path from 0 to 1",
            ),
        ];
        for (text, why) in table {
            let message = Topology::read(text).unwrap_err().to_string();
            assert!(message.starts_with(why), "{message}");
        }
        assert!(Topology::read("hmat = true\nnode = []\nspeed = 1").is_err());
    }
}
