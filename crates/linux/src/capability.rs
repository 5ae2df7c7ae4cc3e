//! What a machine can do for us: each capability with how, or why not and what to do about it.

use crate::{
    root::{Root, RootError},
    topology::Machine,
};

/// Something that the tool can use, or that gets in its way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Capability {
    /// What it is.
    pub name: &'static str,
    /// Whether it is there.
    pub status: Status,
}

/// Whether a capability is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Status {
    /// It is, and this is how.
    Present(String),
    /// It is not.
    Missing {
        /// Why.
        why: String,
        /// What to do.
        remedy: String,
    },
    /// Something is at work that moves the same pages.
    Rival {
        /// What it is.
        what: String,
        /// What to do.
        remedy: String,
    },
}

impl Status {
    fn missing(why: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self::Missing { why: why.into(), remedy: remedy.into() }
    }

    fn present(how: impl Into<String>) -> Self {
        Self::Present(how.into())
    }
}

/// Every capability of `machine`, which was read below `root`.
///
/// # Errors
/// When a file that is there cannot be read.
pub fn capabilities(root: &Root, machine: &Machine) -> Result<Vec<Capability>, RootError> {
    let mut found = vec![
        Capability { name: "several memory nodes", status: memory_nodes(machine) },
        Capability { name: "rated bandwidths", status: rated(machine) },
        Capability { name: "memory tiers", status: tiers(machine) },
        Capability { name: "weighted interleaving", status: weighted(machine) },
        Capability { name: "automatic weights", status: automatic(machine) },
        Capability { name: "DAMON", status: damon(machine) },
        Capability { name: "no other mover of pages", status: rivals(machine) },
        Capability { name: "demotion", status: demotion(machine) },
    ];
    type Look = fn(&Root) -> Result<Status, RootError>;
    let of_root: [(&'static str, Look); 6] = [
        ("bandwidth counters", counters),
        ("control groups", cgroups),
        ("userfaultfd", userfaultfd),
        ("io_uring", io_uring),
        ("huge pages", huge_pages),
        ("power readings", power),
    ];
    for (name, look) in of_root {
        found.push(Capability { name, status: look(root)? });
    }
    Ok(found)
}

fn memory_nodes(machine: &Machine) -> Status {
    let nodes = machine.memory_nodes();
    if nodes.len() > 1 {
        return Status::present(format!("nodes {nodes}"));
    }
    Status::missing(
        "all memory is on one node: there is nothing to interleave",
        "online the memory of an expander as a node of its own (daxctl reconfigure-device \
         --mode=system-ram), or try a platform with --platform",
    )
}

fn rated(machine: &Machine) -> Status {
    let unrated: Vec<String> = machine
        .nodes
        .iter()
        .filter(|node| node.total_bytes > 0)
        .filter(|node| node.rated.as_ref().and_then(|rated| rated.read_mibps).unwrap_or(0) == 0)
        .map(|node| node.id.to_string())
        .collect();
    if unrated.is_empty() {
        return Status::present("the firmware rates every node (HMAT or CDAT)");
    }
    Status::missing(
        format!("the firmware does not rate node {}", unrated.join(", ")),
        "switch HMAT on in the firmware's settings; what cannot be read can be measured",
    )
}

fn tiers(machine: &Machine) -> Status {
    let text = |(id, nodes): &(u32, crate::list::List)| format!("{id}: nodes {nodes}");
    match machine.tiers.len() {
        0 => Status::missing(
            "the kernel does not tell its memory tiers",
            "run Linux 6.1 or later with CONFIG_NUMA and CONFIG_MIGRATION",
        ),
        _ => Status::present(machine.tiers.iter().map(text).collect::<Vec<_>>().join("; ")),
    }
}

fn weighted(machine: &Machine) -> Status {
    match &machine.weighted_interleave {
        Some(weighted) => {
            let weights: Vec<String> =
                weighted.weights.iter().map(|(node, weight)| format!("{node}: {weight}")).collect();
            Status::present(format!("weights {}", weights.join(", ")))
        }
        None => Status::missing(
            "the kernel has no weighted interleaving",
            "run Linux 6.9 or later with CONFIG_NUMA; until then pages can be moved after they \
             were allocated",
        ),
    }
}

fn automatic(machine: &Machine) -> Status {
    match machine.weighted_interleave.as_ref().and_then(|weighted| weighted.auto) {
        Some(on) => Status::present(if on { "on" } else { "off: the weights are set by hand" }),
        None => Status::missing(
            "the kernel does not compute weights",
            "run Linux 6.16 or later; weights can be set by hand from 6.9 on",
        ),
    }
}

fn damon(machine: &Machine) -> Status {
    match &machine.damon {
        Some(damon) if damon.operations.is_empty() => {
            Status::present("its files are there; what it can do shows when a context is set up")
        }
        Some(damon) => Status::present(format!("operations {}", damon.operations.join(", "))),
        None => Status::missing(
            "the kernel has no DAMON, or its files are not there",
            "run a kernel with CONFIG_DAMON_SYSFS, and mount sysfs",
        ),
    }
}

/// Others that move pages, or hold DAMON.
fn rivals(machine: &Machine) -> Status {
    let mut rivals = vec![];
    let mut remedies = vec![];
    if machine.memory_nodes().len() > 1
        && machine.switches.numa_balancing.is_some_and(|value| value > 0)
    {
        rivals.push("numa_balancing pulls pages to the nodes of their threads".to_string());
        remedies.push("sysctl kernel.numa_balancing=0 while pages are steered".to_string());
    }
    if let Some(damon) = &machine.damon {
        for module in &damon.modules {
            rivals.push(format!("{module} holds DAMON"));
            remedies.push(format!("echo N > /sys/module/{module}/parameters/enabled"));
        }
        let on = damon.kdamonds.iter().filter(|thread| thread.on == Some(true)).count();
        if on > 0 {
            rivals.push(format!("somebody runs {on} DAMON thread(s)"));
            remedies.push("find out who (damo?), and stop it there".to_string());
        }
    }
    if rivals.is_empty() {
        return Status::present("nobody else moves pages or holds DAMON");
    }
    Status::Rival { what: rivals.join("; "), remedy: remedies.join("; ") }
}

fn demotion(machine: &Machine) -> Status {
    match machine.switches.demotion {
        Some(true) => Status::present("on: reclaim demotes to slower tiers"),
        Some(false) => Status::present("off: reclaim drops and swaps"),
        None => Status::missing(
            "the kernel cannot demote pages",
            "run Linux 5.15 or later with CONFIG_NUMA and CONFIG_MIGRATION",
        ),
    }
}

/// Uncore units that count traffic, by the beginning of their name.
const COUNTERS: [(&str, &str); 6] = [
    ("uncore_imc", "Intel memory controllers"),
    ("uncore_cxlcm", "Intel CXL ports"),
    ("uncore_cha", "Intel home agents"),
    ("amd_umc", "AMD memory controllers"),
    ("amd_l3", "AMD L3 caches"),
    ("cxl_pmu", "CXL devices"),
];

fn counters(root: &Root) -> Result<Status, RootError> {
    let units = root.names("/sys/bus/event_source/devices")?;
    let mut found = vec![];
    for (prefix, what) in COUNTERS {
        let count = units.iter().filter(|unit| unit.starts_with(prefix)).count();
        if count > 0 {
            found.push(format!("{count} x {what} ({prefix}*)"));
        }
    }
    Ok(if found.is_empty() {
        Status::missing(
            "no unit counts the traffic of memory",
            "run on bare metal with the uncore drivers loaded (intel_uncore, amd_uncore); in a \
             virtual machine there is none",
        )
    } else {
        Status::present(found.join(", "))
    })
}

fn cgroups(root: &Root) -> Result<Status, RootError> {
    if let Some(controllers) = root.text("/sys/fs/cgroup/cgroup.controllers")? {
        let has = controllers.split_whitespace().any(|name| name == "memory");
        return Ok(if has {
            Status::present("version 2, with memory")
        } else {
            Status::missing(
                "version 2, but without the memory controller",
                "boot without cgroup_disable=memory",
            )
        });
    }
    Ok(if root.has("/sys/fs/cgroup/memory") {
        Status::present("version 1, with memory")
    } else {
        Status::missing("no control groups are mounted", "mount cgroup2 at /sys/fs/cgroup")
    })
}

fn userfaultfd(root: &Root) -> Result<Status, RootError> {
    let unprivileged = root.number("/proc/sys/vm/unprivileged_userfaultfd")?;
    Ok(match (unprivileged, root.has("/dev/userfaultfd")) {
        (_, true) => Status::present("/dev/userfaultfd"),
        (Some(1), _) => Status::present("the system call, for everybody"),
        (Some(_), _) => Status::present("the system call, for root"),
        (None, false) => {
            Status::missing("the kernel has no userfaultfd", "run a kernel with CONFIG_USERFAULTFD")
        }
    })
}

fn io_uring(root: &Root) -> Result<Status, RootError> {
    Ok(match root.number("/proc/sys/kernel/io_uring_disabled")? {
        Some(0) => Status::present("for everybody"),
        Some(1) => Status::present("for root and the group in kernel.io_uring_group"),
        Some(_) => Status::missing(
            "it is switched off",
            "sysctl kernel.io_uring_disabled=0, if the site allows it",
        ),
        None => Status::missing(
            "the kernel does not say (before 6.6), or has none",
            "it is tried when it is needed",
        ),
    })
}

fn huge_pages(root: &Root) -> Result<Status, RootError> {
    let choice = root.text("/sys/kernel/mm/transparent_hugepage/enabled")?;
    Ok(match choice {
        Some(choice) => Status::present(format!("transparent: {}", choice.trim())),
        None => Status::missing(
            "the kernel has no transparent huge pages",
            "run a kernel with CONFIG_TRANSPARENT_HUGEPAGE",
        ),
    })
}

fn power(root: &Root) -> Result<Status, RootError> {
    let zones = root.names("/sys/class/powercap")?;
    let count = zones.iter().filter(|zone| zone.contains("rapl:")).count();
    Ok(if count > 0 {
        Status::present(format!("{count} RAPL zones"))
    } else {
        Status::missing(
            "no power meter was found",
            "load intel_rapl_msr, on bare metal; a virtual machine has none",
        )
    })
}
