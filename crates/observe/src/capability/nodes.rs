//! Finds the capabilities of NUMA nodes: their sizes, rated bandwidths and tiers, the weights of
//! interleaving, and the migration of pages.

use super::{Status, rights::Rights};
use interleaf_linux::{
    machine::{id_list::IdList, topology::Machine, vmstat},
    root::{Root, RootError},
};

pub(super) fn memory_nodes(machine: &Machine) -> Status {
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

/// The sum of the nodes' sizes may differ from the machine's size by at most the fraction 1 /
/// `SIZES_APART` of the machine's size. They differ because the files with the two sizes are read
/// at different times.
const SIZES_APART: u64 = 64;

/// Compares the nodes' sizes with the machine's size. Some kernels report too little memory for a
/// node whose memory was set up late, or added by a hypervisor after boot.
pub(super) fn sizes(machine: &Machine) -> Status {
    let sizes = machine.nodes.iter().map(|node| node.total_bytes);
    let sum = sizes.fold(0, u64::saturating_add);
    let mib = |bytes: u64| bytes >> 20;
    match machine.total_bytes {
        None => Status::unknown(
            "the total memory of the machine is unknown, to compare with",
            "mount proc at /proc, or capture the machine again",
        ),
        Some(total) if sum.abs_diff(total) <= total / SIZES_APART => {
            Status::present(format!("{} MiB, as the machine has in all", mib(sum)))
        }
        Some(total) => Status::unknown(
            format!(
                "the nodes have {} MiB, the machine has {}: memory that was set up late is not \
                 counted in its node",
                mib(sum),
                mib(total)
            ),
            "do not rely on the size of a node; count its blocks of memory: ls -d \
             /sys/devices/system/node/node*/memory*, each of \
             /sys/devices/system/memory/block_size_bytes",
        ),
    }
}

/// True if at least one node with memory has no read bandwidth rated by the firmware.
fn is_unrated(machine: &Machine) -> bool {
    let mut nodes = machine.nodes.iter().filter(|node| node.total_bytes > 0);
    nodes.any(|node| node.rated.as_ref().and_then(|rated| rated.read_mibps).is_none())
}

pub(super) fn rated(machine: &Machine) -> Status {
    let mut unrated = vec![];
    let (mut latencies, mut implausible) = (vec![], vec![]);
    for node in machine.nodes.iter().filter(|node| node.total_bytes > 0) {
        let rated = node.rated.as_ref();
        let odd = rated.map_or(&[][..], |rated| &rated.implausible);
        implausible.extend(odd.iter().map(|figure| format!("node {}: {figure}", node.id)));
        if rated.is_some_and(|rated| rated.read_mibps.is_some()) {
            continue;
        }
        unrated.push(node.id);
        let latency = rated.and_then(|rated| rated.read_ns);
        latencies.extend(latency.map(|ns| format!("{ns} ns of node {}", node.id)));
    }
    let implausible = match implausible.is_empty() {
        true => String::new(),
        false => format!("; ignored, since no memory has it: {}", implausible.join(", ")),
    };
    if unrated.is_empty() && !implausible.is_empty() {
        return Status::present(format!(
            "the firmware rates the bandwidth of every node (HMAT or CDAT){implausible}"
        ));
    }
    if unrated.is_empty() {
        return Status::present("the firmware rates every node (HMAT or CDAT)");
    }
    let s = if unrated.len() == 1 { "" } else { "s" };
    let unrated: IdList = unrated.into_iter().collect();
    let mut why = format!("the firmware does not rate node{s} {unrated}");
    if !latencies.is_empty() {
        why += &format!(", but for a latency: {}", latencies.join(", "));
    }
    Status::missing(
        why + &implausible,
        "switch HMAT on in the firmware's settings; unrated figures can be measured",
    )
}

pub(super) fn tiers(machine: &Machine) -> Status {
    let text = |(id, nodes): &(u32, IdList)| format!("{id}: nodes {nodes}");
    match machine.tiers.len() {
        0 => Status::missing(
            "the kernel does not list its memory tiers",
            "run Linux 6.1 or later with CONFIG_NUMA and CONFIG_MIGRATION",
        ),
        _ => Status::present(machine.tiers.iter().map(text).collect::<Vec<_>>().join("; ")),
    }
}

pub(super) fn weighted(machine: &Machine) -> Status {
    match &machine.weighted_interleave {
        Some(weighted) => {
            let weights: Vec<String> =
                weighted.weights.iter().map(|(node, weight)| format!("{node}: {weight}")).collect();
            Status::present(format!("weights {}", weights.join(", ")))
        }
        None => Status::missing(
            "the kernel has no weighted interleaving",
            "run Linux 6.9 or later with CONFIG_NUMA; until then `interleaf run` moves pages \
             after they were allocated",
        ),
    }
}

pub(super) fn setting_weights(machine: &Machine, rights: Option<&Rights>) -> Status {
    match (&machine.weighted_interleave, rights) {
        (None, _) => Status::missing(
            "there are none: see weighted interleaving",
            "run Linux 6.9 or later with CONFIG_NUMA",
        ),
        (_, None) => unknown_rights(),
        (_, Some(rights)) if rights.writes_as_root() => Status::present("this user may"),
        (_, Some(_)) => Status::missing("only root may", "run it as root, such as with sudo"),
    }
}

pub(super) fn moving(root: &Root, rights: Option<&Rights>) -> Result<Status, RootError> {
    let counters = vmstat::of_machine(root)?;
    if counters.is_some_and(|counters| counters.pgmigrate_success.is_none()) {
        return Ok(Status::missing(
            "the kernel does not move pages",
            "run a kernel with CONFIG_NUMA and CONFIG_MIGRATION",
        ));
    }
    let Some(rights) = rights else { return Ok(unknown_rights()) };
    Ok(if rights.traces_others() && rights.moves_shared() {
        Status::present("those of every process")
    } else {
        Status::missing(
            match (rights.traces_others(), rights.moves_shared()) {
                (false, false) => "only unshared pages of this user's processes",
                (false, true) => "only those of this user's processes",
                _ => "only unshared pages",
            },
            "run it as root, or: setcap cap_sys_nice,cap_sys_ptrace=ep $(command -v interleaf)",
        )
    })
}

fn unknown_rights() -> Status {
    Status::unknown(
        "the rights of the user are unknown",
        "ask on the machine itself, or capture it again",
    )
}

pub(super) fn automatic(machine: &Machine) -> Status {
    match machine.weighted_interleave.as_ref().and_then(|weighted| weighted.auto) {
        Some(true) if is_unrated(machine) => Status::missing(
            "on, but the firmware does not rate bandwidths to make weights of: all are alike",
            "set weights by hand, such as with interleaf run --weights",
        ),
        Some(on) => Status::present(if on { "on" } else { "off: the weights are set by hand" }),
        None => Status::missing(
            "the kernel does not compute weights",
            "run Linux 6.16 or later; weights can be set by hand from 6.9 on",
        ),
    }
}

pub(super) fn demotion(machine: &Machine) -> Status {
    match machine.sysctls.demotion {
        Some(true) => Status::present(
            "on: cold pages of a full node are demoted to a slower tier, regardless of the weights",
        ),
        Some(false) => Status::present("off: a node that is full drops and swaps"),
        None => Status::missing(
            "the kernel cannot demote pages",
            "run Linux 5.15 or later with CONFIG_NUMA and CONFIG_MIGRATION",
        ),
    }
}
