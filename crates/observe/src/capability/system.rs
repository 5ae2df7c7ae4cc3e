//! Finds the capabilities of the kernel except page placement and DAMON: counters, pressure stall
//! information, swap, control groups, `userfaultfd`, `io_uring`, huge pages and energy meters.

use super::Status;
use crate::counters::{PlanError, plan, rough_layout};
use interleaf_linux::{
    machine::topology::Machine,
    process::cgroup::{Tree, Trees, Version},
    root::{Root, RootError},
};
use std::io;

/// Uncore units that count traffic: the prefix of the units' names, and the kind of unit.
const COUNTERS: [(&str, &str); 8] = [
    ("uncore_imc", "Intel memory controllers"),
    ("uncore_cxlcm", "Intel CXL ports"),
    ("uncore_cxldp", "Intel CXL data paths"),
    ("uncore_cha", "Intel home agents"),
    ("amd_umc", "AMD memory controllers"),
    ("amd_l3", "AMD L3 caches"),
    ("nvidia_scf_pmu", "NVIDIA coherency fabrics"),
    ("cxl_pmu", "CXL devices"),
];

pub(super) fn counters(root: &Root, machine: &Machine) -> Result<Status, RootError> {
    let found = units(root)?;
    match plan(root, machine, &rough_layout(machine)) {
        Ok(plan) => {
            let missing = plan.missing.iter();
            let missing: String =
                missing.map(|quantity| format!("; not counted: {quantity}")).collect();
            let (count, tables) = (plan.events.len(), plan.tables.join(" and "));
            Ok(Status::present(format!("{count} by the table of {tables}{missing}")))
        }
        Err(PlanError::Root(why)) => Err(why),
        Err(_) if found.is_empty() => Ok(Status::missing(
            "no unit counts the traffic of memory",
            "run on bare metal with the driver loaded (intel_uncore, amd_uncore, nvidia_cspmu); in \
             a virtual machine there is none",
        )),
        Err(why) => Ok(Status::missing(format!("{why}; found: {found}"), why.hint())),
    }
}

/// Formats the units of the machine that count traffic: `12 x Intel memory controllers
/// (uncore_imc*)`; empty if the machine has no such unit.
fn units(root: &Root) -> Result<String, RootError> {
    let units = root.names("/sys/bus/event_source/devices")?;
    let mut found = vec![];
    for (prefix, quantity) in COUNTERS {
        let count = units.iter().filter(|unit| unit.starts_with(prefix)).count();
        if count > 0 {
            found.push(format!("{count} x {quantity} ({prefix}*)"));
        }
    }
    Ok(found.join(", "))
}

/// True if `why` is the error of a kernel that has pressure stall information built in, but does
/// not collect it.
fn pressure_off(why: &RootError) -> bool {
    matches!(why, RootError::Read { why, .. } if why.kind() == io::ErrorKind::Unsupported)
}

pub(super) fn pressure(root: &Root) -> Result<Status, RootError> {
    let remedy = "boot with psi=1, on a kernel with CONFIG_PSI";
    match root.text("/proc/pressure/memory") {
        Ok(Some(_)) => Ok(Status::present("/proc/pressure/memory")),
        Ok(None) => Ok(Status::missing("the kernel does not count stalls for memory", remedy)),
        Err(why) if pressure_off(&why) => Ok(Status::missing("it is switched off", remedy)),
        Err(why) => Err(why),
    }
}

pub(super) fn swap(root: &Root) -> Result<Status, RootError> {
    let Some(text) = root.text("/proc/swaps")? else {
        return Ok(Status::missing("the kernel cannot swap", "run a kernel with CONFIG_SWAP"));
    };
    // The file `/proc/swaps` has a header, then a line for each swap area: name, type, size and use
    // in KiB, priority.
    let kib = |line: &str| line.split_whitespace().rev().nth(2)?.parse::<u64>().ok();
    let sizes: Vec<u64> = text.lines().skip(1).filter_map(kib).collect();
    if sizes.is_empty() {
        return Ok(Status::missing(
            "none is on: the kernel kills programs when memory runs out",
            "none is needed to interleave; mkswap and swapon make one",
        ));
    }
    let zswap = root.text_if_allowed("/sys/module/zswap/parameters/enabled")?;
    let zswap = match zswap.as_deref().map(str::trim) {
        Some("Y" | "1") => ", compressed in memory first (zswap)",
        _ => "",
    };
    let mib = sizes.iter().sum::<u64>() / 1024;
    Ok(Status::present(format!("{mib} MiB in {} place(s){zswap}", sizes.len())))
}

pub(super) fn cgroups(root: &Root) -> Result<Status, RootError> {
    let Some(trees) = Trees::read(root)? else {
        return Ok(Status::unknown(
            "the mounts cannot be read",
            "mount proc at /proc, or capture the machine again",
        ));
    };
    let version = |tree: &Tree| match tree.version {
        Version::One => "version 1",
        Version::Two => "version 2",
    };
    let missing = |why: &str, remedy: &str| Ok(Status::missing(why, remedy));
    match (&trees.memory, &trees.cpuset) {
        (Some(memory), cpuset) => {
            let cpuset = match cpuset {
                Some(cpuset) if cpuset.version == memory.version => " and cpuset".into(),
                Some(cpuset) => format!(", {} with cpuset", version(cpuset)),
                None => ", without cpuset".into(),
            };
            let hybrid = if trees.hybrid { " (both versions are mounted)" } else { "" };
            Ok(Status::present(format!("{} with memory{cpuset}{hybrid}", version(memory))))
        }
        (None, Some(cpuset)) => {
            let why = format!("{}, but without the controller of memory", version(cpuset));
            missing(&why, "boot without cgroup_disable=memory")
        }
        (None, None) => missing(
            "none that are mounted have memory or cpuset",
            "mount -t cgroup2 cgroup2 /sys/fs/cgroup; boot without cgroup_disable=memory",
        ),
    }
}

pub(super) fn userfaultfd(root: &Root) -> Result<Status, RootError> {
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

pub(super) fn io_uring(root: &Root) -> Result<Status, RootError> {
    Ok(match root.number("/proc/sys/kernel/io_uring_disabled")? {
        Some(0) => Status::present("for everybody"),
        Some(1) => Status::present("for root and the group in kernel.io_uring_group"),
        Some(_) => Status::missing(
            "it is switched off",
            "sysctl kernel.io_uring_disabled=0, if the site allows it",
        ),
        None => Status::unknown(
            "the kernel does not say (before 6.6), or has none",
            "it is tried when it is needed",
        ),
    })
}

pub(super) fn huge_pages(root: &Root) -> Result<Status, RootError> {
    let choice = root.text("/sys/kernel/mm/transparent_hugepage/enabled")?;
    Ok(match choice {
        Some(choice) => Status::present(format!("transparent: {}", choice.trim())),
        None => Status::missing(
            "the kernel has no transparent huge pages",
            "run a kernel with CONFIG_TRANSPARENT_HUGEPAGE",
        ),
    })
}

pub(super) fn power(root: &Root) -> Result<Status, RootError> {
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
