//! Finds rivals: programs and kernel features that move pages, or use DAMON.

use super::Status;
use interleaf_linux::{
    machine::{
        damon::{Damon, KdamondSettings},
        topology::Machine,
    },
    place::journal::{damaged, leftovers},
    root::{Root, RootError},
};

/// Programs that move pages while they run: the process name, the effect of the program, and the
/// remedy. A program that only changes a setting when it starts, such as tuned, is not listed,
/// because the function `rivals` checks the setting instead.
const PROGRAMS: [(&str, &str, &str); 3] = [
    ("numad", "numad moves processes and their pages to nodes", "systemctl stop numad"),
    ("memtierd", "memtierd moves pages between tiers", "stop memtierd where it was started"),
    ("damo", "damo is at work with DAMON", "damo stop"),
];

struct Rival {
    text: String,
    remedy: String,
}

fn rival(text: impl Into<String>, remedy: impl Into<String>) -> Rival {
    Rival { text: text.into(), remedy: remedy.into() }
}

/// Returns one status for all rivals together. [`Status::Present`] means that no rival was found.
pub(super) fn rivals(root: &Root, machine: &Machine) -> Result<Status, RootError> {
    let mut rivals = vec![];
    if machine.memory_nodes().len() > 1 {
        rivals.extend(balancing(machine));
        rivals.extend(reclaim(machine));
        rivals.extend(huge_pages(machine));
    }
    let damon = machine.damon.as_ref();
    rivals.extend(damon.into_iter().flat_map(of_damon));
    rivals.extend(programs(root)?);
    if !rivals.is_empty() {
        let (text, remedy): (Vec<String>, Vec<String>) =
            rivals.into_iter().map(|rival| (rival.text, rival.remedy)).unzip();
        return Ok(Status::Rival { what: text.join("; "), remedy: remedy.join("; ") });
    }
    if damon.is_some_and(|damon| damon.hidden) {
        return Ok(Status::unknown("only root can see whether DAMON is in use", "run it as root"));
    }
    Ok(Status::present("no other program moves pages or uses DAMON"))
}

/// Returns NUMA balancing as a rival, if it is on. In the value of the sysctl `numa_balancing`, bit
/// 0 enables the migration of pages to the nodes of their threads, and bit 1 the promotion of hot
/// pages to faster tiers.
fn balancing(machine: &Machine) -> Option<Rival> {
    let value = machine.sysctls.numa_balancing.filter(|value| *value > 0)?;
    let does = match (value & 1 > 0, value & 2 > 0) {
        (_, false) => "pulls pages to the nodes of their threads",
        (false, true) => "promotes hot pages to faster tiers",
        (true, true) => {
            "pulls pages to the nodes of their threads, and promotes hot ones to faster tiers"
        }
    };
    Some(rival(
        format!("numa_balancing={value} {does}"),
        format!("sysctl kernel.numa_balancing=0 while pages are steered, then {value} again"),
    ))
}

fn reclaim(machine: &Machine) -> Option<Rival> {
    let value = machine.sysctls.zone_reclaim.filter(|value| *value > 0)?;
    Some(rival(
        format!("zone_reclaim_mode={value} empties a full node before another is used"),
        "sysctl vm.zone_reclaim_mode=0",
    ))
}

/// Returns `khugepaged` as a rival, if transparent huge pages are set to `always`. `khugepaged`
/// collapses the 512 base pages of a 2 MiB range into one huge page, on the node that has most of
/// these base pages (`hpage_collapse_find_target_node` in `mm/khugepaged.c`). The ratio in which
/// the base pages were interleaved over the nodes is then lost. With the setting `madvise` in place
/// of `always`, `khugepaged` collapses only memory that was advised with `MADV_HUGEPAGE`.
fn huge_pages(machine: &Machine) -> Option<Rival> {
    machine.sysctls.huge_pages.as_deref().filter(|chosen| *chosen == "always")?;
    Some(rival(
        "khugepaged joins small pages to huge ones, on the node that has most of them",
        "echo madvise > /sys/kernel/mm/transparent_hugepage/enabled",
    ))
}

fn of_damon(damon: &Damon) -> Vec<Rival> {
    let module = |module: &String| {
        let remedy = format!("echo N > /sys/module/{module}/parameters/enabled");
        rival(format!("{module} holds DAMON"), remedy)
    };
    let thread = |thread: &KdamondSettings| {
        let does = match (&thread.operations, &thread.actions[..]) {
            (None, _) => String::new(),
            (Some(operations), []) => format!(" ({operations})"),
            (Some(operations), actions) => format!(" ({operations}: {})", actions.join(", ")),
        };
        if thread.on == Some(false) {
            let text = format!("another program has set up a DAMON thread{does} that is off");
            return rival(text, "remove it with the program that set it up (damo?)");
        }
        let text = format!("another program runs a DAMON thread{does}");
        rival(text, "stop the program that runs it (damo?)")
    };
    let modules = damon.modules.iter().map(module);
    modules.chain(damon.kdamonds.iter().map(thread)).collect()
}

/// Returns those of the [`PROGRAMS`] that are running. The names of all other processes are
/// private. The `comm` files are therefore read with `peek`, which does not add them to a capture
/// (the copy of the machine's files that `doctor --capture` makes).
fn programs(root: &Root) -> Result<Vec<Rival>, RootError> {
    let mut found: Vec<Rival> = vec![];
    for process in root.peek_names("/proc")? {
        if process.parse::<u32>().is_err() {
            continue;
        }
        let path = format!("/proc/{process}/comm");
        let Some(name) = root.peek(&path)? else { continue };
        let Some((_, text, remedy)) = PROGRAMS.iter().find(|(program, ..)| *program == name) else {
            continue;
        };
        // A capture (a copy of the machine's files, `doctor --capture`) must have the name of a
        // rival. The file is therefore read again with `text`, which, unlike `peek`, adds the file
        // to the capture.
        root.text(&path)?;
        if !found.iter().any(|rival| rival.text == *text) {
            found.push(rival(*text, *remedy));
        }
    }
    Ok(found)
}

/// Returns a status that lists the settings that killed processes of Interleaf changed and did not
/// restore, and the damaged journals.
pub(super) fn left_behind(root: &Root) -> Status {
    let remedy = "interleaf run --restore, as root";
    let (left, damaged) = match leftovers(root).and_then(|left| Ok((left, damaged(root)?))) {
        Ok(found) => found,
        Err(why) => return Status::unknown(why.to_string(), "see the content of the file"),
    };
    let changes = left.iter().flat_map(|left| left.changes.iter().map(|change| (left.pid, change)));
    let mut text: Vec<String> = changes
        .filter(|(_, change)| change.was != change.set)
        .map(|(pid, change)| format!("process {pid} left {} at {}", change.path, change.set))
        .collect();
    text.extend(damaged.iter().map(|it| format!("{} is damaged: {}", it.path, it.why)));
    if text.is_empty() {
        return Status::present("no settings of a run that was killed");
    }
    Status::missing(text.join("; "), remedy)
}
