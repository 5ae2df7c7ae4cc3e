//! The hardware and the kernel settings of the measured machine.

use crate::show_machine::MachineNode;
use interleaf_linux::machine::{
    hardware::{Hardware, Known},
    topology::Machine,
};
use serde::{Deserialize, Serialize};

/// The measured machine. It is one JSON object. A field with the suffix `_unknown` has the reason
/// why the field without the suffix is null.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MeasuredMachine {
    pub cpu: Option<String>,
    pub cpus: usize,
    pub sockets: usize,
    pub kernel: Option<String>,
    pub product: Option<String>,
    /// Hypervisor; null when the machine does not report one.
    pub virtualisation: Option<String>,
    /// NUMA nodes, fastest first.
    pub nodes: Vec<MachineNode>,
    /// Caches according to sysfs, whose source is the firmware or the hypervisor.
    pub caches: Vec<CacheDocument>,
    pub dimms: Option<Vec<InstalledDimm>>,
    pub dimms_unknown: Option<String>,
    pub governor: Option<String>,
    pub governor_unknown: Option<String>,
    pub turbo: Option<bool>,
    pub turbo_unknown: Option<String>,
    /// Hardware prefetchers that are switched on.
    pub prefetchers: Option<Vec<String>>,
    pub prefetchers_off: Vec<String>,
    pub prefetchers_unknown: Option<String>,
    pub transparent_huge_pages: Option<String>,
    pub numa_balancing: Option<u64>,
    /// True if the kernel computes the weights (`auto`); null when the kernel has no automatic
    /// weights.
    pub automatic_weights: Option<bool>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CacheDocument {
    pub level: u32,
    pub kind: String,
    pub bytes: u64,
    pub cpus: String,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct InstalledDimm {
    pub slot: String,
    pub capacity_bytes: u64,
    pub kind: String,
    pub mtps: Option<u32>,
    pub part: String,
}

/// Splits `known` into its value and the reason why it is unknown. One of the two is `None`.
fn known_or_reason<T: Clone>(known: &Known<T>) -> (Option<T>, Option<String>) {
    (known.as_ref().ok().cloned(), known.as_ref().err().cloned())
}

impl MeasuredMachine {
    pub fn new(machine: &Machine, hardware: &Hardware) -> Self {
        let all = crate::show_machine::MachineDocument::new(machine);
        let cpus = machine.nodes.iter().map(|node| node.cpus.len()).sum();
        let dimm = |dimm: &interleaf_linux::machine::hardware::Dimm| InstalledDimm {
            slot: dimm.slot.clone(),
            capacity_bytes: dimm.bytes,
            kind: dimm.kind.clone(),
            mtps: dimm.mtps,
            part: dimm.part.clone(),
        };
        let (dimms, dimms_unknown) = known_or_reason(&hardware.dimms);
        let (governor, governor_unknown) = known_or_reason(&hardware.governor);
        let (turbo, turbo_unknown) = known_or_reason(&hardware.turbo);
        let (prefetchers, prefetchers_unknown) = known_or_reason(&hardware.prefetchers);
        let named = |is_on: bool| {
            let of = prefetchers.iter().flatten().filter(move |it| it.is_on == is_on);
            of.map(|it| it.name.to_string()).collect::<Vec<_>>()
        };
        Self {
            cpu: all.cpu,
            cpus,
            sockets: all.sockets.len(),
            kernel: all.kernel,
            product: hardware.product.clone(),
            virtualisation: hardware.guest_of.clone(),
            nodes: all.nodes,
            caches: hardware
                .caches
                .iter()
                .map(|cache| CacheDocument {
                    level: cache.level,
                    kind: cache.kind.clone(),
                    bytes: cache.bytes,
                    cpus: cache.cpus.to_string(),
                })
                .collect(),
            dimms: dimms.map(|dimms| dimms.iter().map(dimm).collect()),
            dimms_unknown,
            governor,
            governor_unknown,
            turbo,
            turbo_unknown,
            prefetchers: prefetchers.as_ref().map(|_| named(true)),
            prefetchers_off: named(false),
            prefetchers_unknown,
            transparent_huge_pages: all.transparent_huge_pages,
            numa_balancing: all.numa_balancing,
            automatic_weights: all.automatic_weights,
        }
    }

    /// Returns the machine's properties as pairs of (name, text), for tables and for `compare`.
    pub fn facts(&self) -> Vec<(&'static str, String)> {
        let or = |value: Option<String>, unknown: &Option<String>| {
            let why = unknown.as_deref().unwrap_or("the machine does not report it");
            value.unwrap_or_else(|| format!("unknown: {why}"))
        };
        let silent = &None;
        let nodes = self.nodes.iter().map(|node| {
            let cpus = if node.cpus.is_empty() { "no CPUs".into() } else { node.cpus.clone() };
            let gib = node.capacity_bytes as f64 / f64::from(1 << 30);
            let weight = node.weight.map(|weight| format!(", weight {weight}")).unwrap_or_default();
            format!("{}: {gib:.1} GiB, {cpus}{weight}", node.node)
        });
        let caches = self.caches.iter().filter(|cache| cache.kind != "Instruction");
        let caches = caches.map(|it| format!("L{} {}", it.level, super::size_text(it.bytes)));
        let turbo = self.turbo.map(|on| if on { "on" } else { "off" }.to_string());
        let on = self.prefetchers.as_ref().map(|on| {
            let off = &self.prefetchers_off;
            let off =
                if off.is_empty() { String::new() } else { format!("; off: {}", off.join(", ")) };
            format!("{}{off}", if on.is_empty() { "none".into() } else { on.join(", ") })
        });
        vec![
            ("CPU", or(self.cpu.clone(), silent)),
            ("CPUs", format!("{} in {} sockets", self.cpus, self.sockets)),
            ("kernel", or(self.kernel.clone(), silent)),
            ("product", or(self.product.clone(), silent)),
            ("guest of", self.virtualisation.clone().unwrap_or_else(|| "nothing it knows".into())),
            ("nodes", nodes.collect::<Vec<_>>().join("; ")),
            ("caches, as reported", caches.collect::<Vec<_>>().join(", ")),
            ("DIMMs", or(self.dimms.as_ref().map(|dimms| slots_text(dimms)), &self.dimms_unknown)),
            ("governor", or(self.governor.clone(), &self.governor_unknown)),
            ("turbo", or(turbo, &self.turbo_unknown)),
            ("prefetchers", or(on, &self.prefetchers_unknown)),
            ("huge pages", or(self.transparent_huge_pages.clone(), silent)),
            ("NUMA balancing", or(self.numa_balancing.map(|it| it.to_string()), silent)),
        ]
    }
}

/// Describes the populated slots. Equal modules are counted: `8 x 64 GiB DDR5-6400`.
fn slots_text(dimms: &[InstalledDimm]) -> String {
    let text = |dimm: &InstalledDimm| {
        let speed = dimm.mtps.map(|mtps| format!("-{mtps}")).unwrap_or_default();
        let part = if dimm.part.is_empty() { String::new() } else { format!(" ({})", dimm.part) };
        format!("{} {}{speed}{part}", super::size_text(dimm.capacity_bytes), dimm.kind)
    };
    let mut all: Vec<String> = dimms.iter().map(text).collect();
    all.sort();
    let alike = all.chunk_by(|a, b| a == b).map(|chunk| format!("{} x {}", chunk.len(), chunk[0]));
    alike.collect::<Vec<_>>().join(", ")
}
