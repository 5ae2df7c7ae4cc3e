//! Plans which hardware events to open on a machine. No event is opened.

use super::{
    cpu::cpu,
    lanes,
    pmu::{Pmu, pmus},
    table::{Event, Quantity, Table, tables},
};
use interleaf_linux::{
    machine::{id_list::IdList, topology::Machine},
    root::{Root, RootError},
};
use interleaf_model::{
    machine::{DomainLayout, Layout, TierLayout},
    tier::TierKind,
};
use std::{collections::BTreeSet, fmt};

/// The events to open on a machine, and the meaning of their counts.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// The names of the tables of events that the plan uses, the CPU's table first.
    pub tables: Vec<String>,
    /// The number of domains (sockets) in a reading of these events.
    pub domains: usize,
    /// The number of tiers (nodes of equal speed) in a reading of these events.
    pub tiers: usize,
    /// The events to open. The events of a group are adjacent.
    pub events: Vec<Planned>,
    /// Remarks for the user.
    pub notes: Vec<String>,
    /// Traffic of a domain (socket) to one of its tiers ([`DomainLayout::tiers`]) that no planned
    /// event counts, such as `socket 0 to node 1: bytes`.
    pub missing: Vec<String>,
}

/// An event to open.
#[derive(Clone, Debug, PartialEq)]
pub struct Planned {
    /// The vendor's name of the event.
    pub name: String,
    pub pmu: String,
    /// The PMU's type number.
    pub kind: u32,
    /// The CPU on which the event is opened.
    pub cpu: u32,
    /// The configuration words `config`, `config1` and `config2` of `perf_event_attr`.
    pub config: [u64; 3],
    pub quantity: Quantity,
    /// The domain (socket) of the counted traffic, as an index into [`Layout::domains`].
    pub domain: usize,
    /// The tier, as an index into [`Layout::tiers`]; `None` for events that belong to no tier.
    pub tier: Option<usize>,
    /// The bytes, ns, requests or cycles that one count represents. If only some of the PMU's units
    /// count the event, this factor is larger, so that the count also covers the traffic of the
    /// other units.
    pub scale: f64,
    /// The number of the event's group. The events of a group have the same PMU and CPU, and are
    /// counted at the same time, unless the PMU has too few counters for all of them.
    pub group: usize,
}

impl fmt::Display for Planned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, pmu, kind, cpu, config, quantity, domain, tier, scale, group } = self;
        let [word, word1, word2] = config;
        write!(f, "{pmu} (type {kind}) on CPU {cpu}, group {group}: config {word:#x}")?;
        for (word, at) in [(word1, 1), (word2, 2)] {
            if *word != 0 {
                write!(f, ", config{at} {word:#x}")?;
            }
        }
        let tier = tier.map_or(String::new(), |tier| format!(" of tier {tier}"));
        write!(f, "; {quantity:?}{tier} from domain {domain}, {scale} a count: {name}")
    }
}

/// The reason why no plan can be made for a machine.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    #[error(transparent)]
    Root(#[from] RootError),
    /// No PMU of the machine counts an event of the tables.
    #[error("no unit counts the traffic of memory: {0}")]
    NoUnits(String),
    /// No table has the events of this CPU.
    #[error("the events of this CPU are not known: {0}")]
    UnknownCpu(String),
    /// The layout has several domains, and their number is not that of the machine's sockets.
    #[error("{domains} domains are to be told apart, and units count for {sockets} sockets")]
    Domains {
        /// The number of domains of the layout.
        domains: usize,
        /// The number of sockets of the machine.
        sockets: usize,
    },
}

/// Advice to the user: the alternatives to counters.
const INSTEAD: &str = "a program that can count may feed readings, or a recording be replayed";

impl PlanError {
    /// Advice to the user: a remedy, or an alternative to counters.
    pub fn hint(&self) -> String {
        match self {
            Self::Root(_) => "capture the machine again, or run where its files can be read".into(),
            Self::NoUnits(_) => format!(
                "run on bare metal with the driver loaded (intel_uncore, amd_uncore, cxl_pmu); in \
                 a virtual machine there is none: {INSTEAD}"
            ),
            Self::UnknownCpu(_) => {
                format!("a table of its events can be added to crates/observe/counters; {INSTEAD}")
            }
            Self::Domains { .. } => "take sockets for domains, or one domain for all".into(),
        }
    }
}

/// Makes a layout from the topology of a machine alone. The domains of the layout are the sockets.
/// The tiers are in the order of their speed, and each socket has all tiers. Nodes without CPUs
/// count as CXL memory. The layout has no rated bandwidths.
pub fn rough_layout(machine: &Machine) -> Layout {
    let tiers: Vec<IdList> = machine.memory_by_speed();
    let tier = |nodes: &IdList| {
        let of_tier = || machine.nodes.iter().filter(|node| nodes.has(node.id));
        let s = if nodes.len() == 1 { "" } else { "s" };
        TierLayout {
            name: format!("node{s} {nodes}"),
            kind: match of_tier().all(|node| node.cpus.is_empty()) {
                true => TierKind::Cxl,
                false => TierKind::Dram,
            },
            capacity_bytes: of_tier().map(|node| node.total_bytes).sum(),
            rated_gbps: 0.0,
            rated_latency_ns: 0.0,
        }
    };
    let domain = |(id, cpus): &(u32, IdList)| DomainLayout {
        name: format!("socket {id}"),
        cores: cpus.len() as u32,
        tiers: (0..tiers.len()).collect(),
    };
    let domains = machine.sockets.iter().map(domain).collect();
    Layout { domains, tiers: tiers.iter().map(tier).collect(), scopes: vec![] }
}

/// Plans the events for the traffic of each tier of `layout` on `machine`, which was read below
/// `root`. The domains of the layout are the machine's sockets in order, or a single domain for all
/// sockets. An event counts the traffic of a kind of tier, such as CXL. In each domain, its count
/// is assigned to the first tier of this kind in [`DomainLayout::tiers`].
///
/// # Errors
/// When no table has the events of the CPU, no PMU has a planned event, the domains are not the
/// sockets, or a file cannot be read.
pub fn plan(root: &Root, machine: &Machine, layout: &Layout) -> Result<Plan, PlanError> {
    plan_of(root, machine, layout, &|quantity| {
        !matches!(quantity, Quantity::Slots | Quantity::MemorySlots) && !quantity.is_of_core()
    })
}

/// Like [`plan`], but also plans the events for the issue slots of all cores, if the table has such
/// events. They need two open files for each CPU.
///
/// # Errors
/// Under the conditions of [`plan`].
pub fn plan_with_slots(root: &Root, machine: &Machine, layout: &Layout) -> Result<Plan, PlanError> {
    plan_of(root, machine, layout, &|quantity| !quantity.is_of_core())
}

fn plan_of(
    root: &Root,
    machine: &Machine,
    layout: &Layout,
    wanted: &dyn Fn(Quantity) -> bool,
) -> Result<Plan, PlanError> {
    let (domains, sockets) = (layout.domains.len(), machine.sockets.len());
    if domains != 1 && domains != sockets {
        return Err(PlanError::Domains { domains, sockets });
    }
    let cpu = cpu(root)?;
    let all = tables();
    let own = cpu.as_ref().and_then(|cpu| all.iter().find(|table| table.is_for(cpu)));
    let devices = all.iter().filter(|table| table.cpus.is_empty());
    let tiers = layout.tiers.len();
    let (tables, events, notes, missing) = (vec![], vec![], vec![], vec![]);
    let mut making = Making {
        root,
        machine,
        layout,
        covered: BTreeSet::new(),
        groups: 0,
        plan: Plan { tables, domains, tiers, events, notes, missing },
    };
    for table in own.into_iter().chain(devices) {
        making.add_table(table, wanted)?;
    }
    if !making.plan.events.is_empty() {
        making.note_missing();
        return Ok(making.plan);
    }
    let name = machine.cpu.clone().unwrap_or_else(|| "no model name".into());
    Err(match (own, cpu) {
        (Some(table), _) => PlanError::NoUnits(format!("none that {} should have", table.name)),
        (None, Some(cpu)) => PlanError::UnknownCpu(format!("{name} ({cpu})")),
        (None, None) => PlanError::UnknownCpu(format!("{name}, without family and model")),
    })
}

/// A plan under construction.
struct Making<'a> {
    root: &'a Root,
    machine: &'a Machine,
    layout: &'a Layout,
    /// Pairs of a quantity and a kind of tier, such as bytes read from CXL, that events of an
    /// earlier table already count. The table of devices adds only events for pairs that the table
    /// of the CPU lacks.
    covered: BTreeSet<(Quantity, &'static str)>,
    groups: usize,
    plan: Plan,
}

impl Making<'_> {
    /// Adds those events of `table` that no earlier table covers, whose quantity is wanted, and
    /// whose kind of tier, if any, the layout has.
    fn add_table(
        &mut self,
        table: &Table,
        wanted: &dyn Fn(Quantity) -> bool,
    ) -> Result<(), RootError> {
        let before = self.plan.events.len();
        let covered = self.covered.clone();
        let kinds: Vec<TierKind> = self.layout.tiers.iter().map(|tier| tier.kind).collect();
        let fits = |event: &&Event| {
            wanted(event.quantity)
                && event.tier.is_none_or(|kind| kinds.contains(&kind))
                && !covered.contains(&(event.quantity, word(event.tier)))
        };
        let events: Vec<&Event> = table.events.iter().filter(fits).collect();
        let mut prefixes: Vec<&str> = vec![];
        for event in &events {
            if !prefixes.contains(&event.pmu.as_str()) {
                prefixes.push(&event.pmu);
            }
        }
        for prefix in prefixes {
            let of_pmu: Vec<&Event> =
                events.iter().copied().filter(|event| event.pmu == prefix).collect();
            // A missing PMU is noted only if the CPU's table names it, because most machines lack
            // the PMUs of the table of devices.
            if !self.add_pmu(prefix, &of_pmu)? && !table.cpus.is_empty() {
                self.note(format!("there is no {prefix}"));
            }
        }
        if self.plan.events.len() > before {
            self.plan.tables.push(table.name.clone());
            self.plan.notes.extend(table.notes.iter().cloned());
        }
        Ok(())
    }

    /// Adds the events of the PMUs whose names begin with `prefix`. Returns false if the machine
    /// has no such PMU.
    fn add_pmu(&mut self, prefix: &str, events: &[&Event]) -> Result<bool, RootError> {
        let units = pmus(self.root, prefix)?;
        let Some(first) = units.first() else { return Ok(false) };
        // All units of a kind have the same formats: if the first unit cannot express an event, no
        // unit can.
        let mut opened = vec![];
        for event in events {
            match first.compose(&event.values()) {
                Ok(_) => opened.push(*event),
                Err(why) => self.note(format!("{} is not counted: {why}", event.name)),
            }
        }
        for (unit, dealt) in units.iter().zip(lanes::assign_lanes(&opened, units.len())) {
            for cpu in self.cpus(unit).iter() {
                for (event, stands_for) in &dealt {
                    self.add(unit, cpu, event, *stands_for);
                }
                self.groups += usize::from(!dealt.is_empty());
            }
        }
        Ok(true)
    }

    fn add(&mut self, unit: &Pmu, cpu: u32, event: &Event, stands_for: f64) {
        let domain = self.domain(cpu);
        let tier = match event.tier {
            None => None,
            Some(kind) => match self.tier(domain, kind) {
                None => return,
                tier => tier,
            },
        };
        let Ok(config) = unit.compose(&event.values()) else {
            self.note(format!("{} has another format than its like", unit.name));
            return;
        };
        self.covered.insert((event.quantity, word(event.tier)));
        self.plan.events.push(Planned {
            name: event.name.clone(),
            pmu: unit.name.clone(),
            kind: unit.kind,
            cpu,
            config,
            quantity: event.quantity,
            domain,
            tier,
            scale: event.per_count * stands_for,
            group: self.groups,
        });
    }

    /// Returns the CPUs on which the events of a PMU are opened: all CPUs for a PMU without a
    /// `cpumask`.
    fn cpus(&self, unit: &Pmu) -> IdList {
        let sockets = || self.machine.sockets.iter().flat_map(|(_, cpus)| cpus.iter()).collect();
        unit.cpus.clone().unwrap_or_else(sockets)
    }

    /// Returns the index of the domain of a CPU: 0 if the layout has a single domain, otherwise the
    /// index of the CPU's socket. If no socket lists the CPU, the socket of another CPU of the same
    /// node counts as its socket, or socket 0 if there is no such CPU.
    fn domain(&self, cpu: u32) -> usize {
        let sockets = &self.machine.sockets;
        if self.layout.domains.len() == 1 {
            return 0;
        }
        let socket = |cpu: u32| sockets.iter().position(|(_, cpus)| cpus.has(cpu));
        let node = || self.machine.nodes.iter().find(|node| node.cpus.has(cpu));
        let beside = || node().and_then(|node| node.cpus.iter().find_map(socket));
        socket(cpu).or_else(beside).unwrap_or(0)
    }

    /// Returns the fastest tier of a kind in a domain (socket), which is the first tier of this
    /// kind in the domain's list; `None` if the domain has no tier of this kind.
    fn tier(&self, domain: usize, kind: TierKind) -> Option<usize> {
        let tiers = &self.layout.domains[domain].tiers;
        tiers.iter().copied().find(|tier| self.layout.tiers[*tier].kind == kind)
    }

    fn note(&mut self, text: String) {
        if !self.plan.notes.contains(&text) {
            self.plan.notes.push(text);
        }
    }

    /// Adds to the plan's list `missing`, for each domain (socket) and each of its tiers, the
    /// traffic that no event counts.
    fn note_missing(&mut self) {
        let layout = self.layout;
        for (domain, near) in layout.domains.iter().enumerate() {
            for tier in &near.tiers {
                let of_tier =
                    |event: &&Planned| event.domain == domain && event.tier == Some(*tier);
                let counted: Vec<Quantity> =
                    self.plan.events.iter().filter(of_tier).map(|event| event.quantity).collect();
                let missing = missing(&counted);
                if !missing.is_empty() {
                    let (near, tier) = (&near.name, &layout.tiers[*tier].name);
                    let text = format!("{near} to {tier}: {}", missing.join(" and "));
                    self.plan.missing.push(text);
                }
            }
        }
    }
}

/// Returns the results for a tier that cannot be computed from the quantities in `counted`:
/// `bytes`, `latency` or both.
fn missing(counted: &[Quantity]) -> Vec<&'static str> {
    let bytes = counted.contains(&Quantity::Read) && counted.contains(&Quantity::Written);
    let occupancy = [Quantity::OccupancyNs, Quantity::OccupancyCycles];
    let waited = counted.contains(&Quantity::Inserts)
        && occupancy.iter().any(|quantity| counted.contains(quantity));
    let open = [(bytes, "bytes"), (waited, "latency")];
    open.into_iter().filter(|(known, _)| !known).map(|(_, text)| text).collect()
}

fn word(kind: Option<TierKind>) -> &'static str {
    kind.map_or("", |kind| TierKind::ALL[kind as usize].1)
}
