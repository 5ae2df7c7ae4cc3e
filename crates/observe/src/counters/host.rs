//! Opens the hardware counters for the events of a [`Plan`], and reads their counts.

use super::{
    plan::{Plan, Planned},
    table::Quantity,
};
use crate::{
    source::{Reading, Slots, Source, SourceError, add, nothing},
    syscall,
};
use interleaf_linux::root::Root;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::{
    io,
    os::fd::{AsFd, OwnedFd},
    time::Instant,
};

const PARANOID: &str = "/proc/sys/kernel/perf_event_paranoid";

/// Number of files for which a raised limit on open files leaves room in addition to the counters.
const OTHER_FILES: u64 = 128;

/// The open counters of a plan, which is the list of events to count.
#[derive(Debug)]
pub struct Counters {
    plan: Plan,
    groups: Vec<Group>,
    last: Instant,
}

/// A group of open events, which the kernel counts at the same time and returns in one read.
#[derive(Debug)]
pub(super) struct Group {
    pub(super) leader: OwnedFd,
    /// The descriptors of the other events of the group. They are only kept open: a read of
    /// `leader` also returns the counts of these events.
    pub(super) _others: Vec<OwnedFd>,
    /// The events of the group, as indices into the events of the plan.
    pub(super) events: Vec<usize>,
    pub(super) last: Raw,
}

/// A reading of a group: the time for which the group was enabled, the time for which it was
/// counted, and the count of each event. All of them count from the opening of the group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Raw {
    pub(super) enabled_ns: u64,
    pub(super) running_ns: u64,
    pub(super) counts: Vec<u64>,
}

/// The reason why counters cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error("there is nothing to count")]
    Nothing,
    /// The user of this process may not count the activity of other processes.
    #[error(
        "this user may not count {}{}",
        if *.whole_machine { "events of the whole machine" } else { "events of programs" },
        setting(.paranoid)
    )]
    NotPermitted {
        /// True for counting on all CPUs, false for one command alone.
        whole_machine: bool,
        /// The value of `kernel.perf_event_paranoid`; `None` if it cannot be read.
        paranoid: Option<i64>,
    },
    /// The machine lacks the PMU of a planned event.
    #[error("{pmu}{}: no such unit: {why}", on_cpu(.cpu))]
    NoUnit {
        pmu: String,
        /// The CPU on which the event was opened; `None` for all CPUs on which a command runs.
        cpu: Option<u32>,
        why: io::Error,
    },
    /// The plan needs more files than a process may open.
    #[error("{needed} counters are needed, and a process may have {limit} files")]
    Files {
        /// The number of counters that the plan needs.
        needed: u64,
        /// The number of files that this process may have open.
        limit: u64,
    },
    /// The kernel refused to open an event.
    #[error("{event} of {pmu}{}: refused: {why}", on_cpu(.cpu))]
    Refused {
        event: String,
        pmu: String,
        /// The CPU on which the event was opened; `None` for all CPUs on which a command runs.
        cpu: Option<u32>,
        why: io::Error,
    },
}

fn on_cpu(cpu: &Option<u32>) -> String {
    cpu.map_or(String::new(), |cpu| format!(" on CPU {cpu}"))
}

fn setting(value: &Option<i64>) -> String {
    value.map_or(String::new(), |value| format!(": kernel.perf_event_paranoid is {value}"))
}

impl OpenError {
    /// Advice to the user: a remedy, or an alternative to counters.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::NotPermitted { whole_machine: true, .. } => {
                "run as root or with CAP_PERFMON, or sysctl kernel.perf_event_paranoid=0"
            }
            Self::NotPermitted { whole_machine: false, .. } => {
                "run as root or with CAP_PERFMON, or sysctl kernel.perf_event_paranoid=2"
            }
            Self::Files { .. } => "ulimit -n 4096, or LimitNOFILE= of the unit",
            Self::Nothing | Self::NoUnit { .. } => {
                "run on bare metal; a program that can count may feed readings, or a recording be \
                 replayed"
            }
            Self::Refused { .. } => {
                "see whether another tool holds the unit's counters (perf, pcm), and whether the \
                 kernel knows this CPU"
            }
        }
    }
}

impl Counters {
    /// Opens the events of `plan` on the running machine; the counting begins now. If the kernel
    /// denies permission, the cause (`perf_event_paranoid`) is read below `root`. If the plan needs
    /// more files than this process may open, the limit of this process and of its future children
    /// is raised as far as needed, at most to the hard limit.
    ///
    /// # Errors
    /// When an event cannot be opened.
    pub fn open(plan: Plan, root: &Root) -> Result<Self, OpenError> {
        if plan.events.is_empty() {
            return Err(OpenError::Nothing);
        }
        raise_file_limit(plan.events.len() as u64)?;
        let mut groups: Vec<Group> = vec![];
        let mut number = None;
        for (at, event) in plan.events.iter().enumerate() {
            let refused = |why| refused_of(event, why, root);
            let same = number == Some(event.group);
            let leader = groups.last().filter(|_| same).map(|group| group.leader.as_fd());
            let opened =
                match syscall::perf_event_open(event.kind, event.config, event.cpu, leader) {
                    // The group has no hardware counter left, so the event is opened in a new
                    // group. The kernel multiplexes the new group with the full group.
                    Err(why) if same && why.raw_os_error() == Some(libc::EINVAL) => {
                        number = None;
                        syscall::perf_event_open(event.kind, event.config, event.cpu, None)
                    }
                    opened => opened,
                }
                .map_err(refused)?;
            match groups.last_mut().filter(|_| number == Some(event.group)) {
                Some(group) => {
                    group._others.push(opened);
                    group.events.push(at);
                }
                None => groups.push(Group {
                    leader: opened,
                    _others: vec![],
                    events: vec![at],
                    last: Raw::default(),
                }),
            }
            number = Some(event.group);
        }
        for group in &mut groups {
            let first = &plan.events[group.events[0]];
            group.last = group.read().map_err(|why| refused_of(first, why, root))?;
        }
        Ok(Self { plan, groups, last: Instant::now() })
    }

    /// Returns the plan whose events are counted.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }
}

impl Group {
    pub(super) fn read(&self) -> io::Result<Raw> {
        let mut bytes = vec![0; 8 * (3 + self.events.len())];
        let read = rustix::io::read(&self.leader, &mut bytes)?;
        let words = bytes[..read].chunks_exact(8).filter_map(|word| word.try_into().ok());
        let words: Vec<u64> = words.map(u64::from_ne_bytes).collect();
        match words.as_slice() {
            [_, enabled, running, counts @ ..] if counts.len() == self.events.len() => {
                Ok(Raw { enabled_ns: *enabled, running_ns: *running, counts: counts.to_vec() })
            }
            // A read of a group in an error state returns no bytes.
            _ => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }
}

impl Source for Counters {
    fn describe(&self) -> String {
        let files = self.plan.events.len();
        let mut text =
            format!("{files} counters by the table of {}", self.plan.tables.join(" and "));
        for what in &self.plan.missing {
            text += &format!("; not counted: {what}");
        }
        self.plan.notes.iter().for_each(|note| text += &format!("; {note}"));
        text
    }

    fn read(&mut self) -> Result<Reading, SourceError> {
        let now = Instant::now();
        let mut grown = vec![];
        for group in &mut self.groups {
            let raw = group.read().map_err(|why| {
                let event = &self.plan.events[group.events[0]];
                SourceError::Counter { what: format!("{} of {}", event.name, event.pmu), why }
            })?;
            let since = Grown::between(&group.last, &raw);
            group.last = raw;
            grown.push((group.events.as_slice(), since));
        }
        let mut reading = sum(&self.plan, &grown);
        reading.span = now - self.last;
        self.last = now;
        Ok(reading)
    }
}

/// The growth of a group's counts between two readings.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Grown {
    pub(super) enabled_ns: f64,
    /// Each count, scaled up to `enabled_ns`; `None` if the group never had hardware counters
    /// between the two readings.
    pub(super) counts: Option<Vec<f64>>,
}

impl Grown {
    pub(super) fn between(before: &Raw, now: &Raw) -> Self {
        let enabled_ns = now.enabled_ns.saturating_sub(before.enabled_ns) as f64;
        let running_ns = now.running_ns.saturating_sub(before.running_ns) as f64;
        let scale = enabled_ns / running_ns;
        let count = |(at, now): (usize, &u64)| {
            let before = before.counts.get(at).copied().unwrap_or(0);
            now.wrapping_sub(before) as f64 * scale
        };
        let counts = (running_ns > 0.0).then(|| now.counts.iter().enumerate().map(count).collect());
        Self { enabled_ns, counts }
    }
}

/// Sums the growth of the groups' counts by domain (socket) and tier. If a group had no hardware
/// counter at any time since the last reading, the quantities that this group counts are unknown.
fn sum(plan: &Plan, grown: &[(&[usize], Grown)]) -> Reading {
    let mut reading = Reading { traffic: nothing(plan.domains, plan.tiers), ..Reading::default() };
    let mut unknown = vec![];
    for (events, since) in grown {
        let planned: Vec<&Planned> = events.iter().map(|at| &plan.events[*at]).collect();
        let Some(counts) = &since.counts else {
            unknown.extend(planned.iter().map(|event| (event.domain, event.tier, event.quantity)));
            continue;
        };
        let ticks = planned.iter().position(|event| event.quantity == Quantity::Ticks);
        // The duration of a clock cycle of the PMU, ns, by which an occupancy in cycles is
        // converted to ns.
        let cycle = ticks.map(|at| counts[at]).filter(|ticks| *ticks > 0.0);
        let cycle = cycle.map(|ticks| since.enabled_ns / ticks);
        for (event, count) in planned.iter().zip(counts) {
            let length = match event.quantity {
                Quantity::OccupancyCycles => cycle,
                _ => Some(1.0),
            };
            match length {
                Some(length) => add_count(&mut reading, event, count * event.scale * length, plan),
                None => unknown.push((event.domain, event.tier, event.quantity)),
            }
        }
    }
    for (domain, tier, quantity) in unknown {
        forget(&mut reading, domain, tier, quantity);
    }
    reading
}

fn add_count(reading: &mut Reading, event: &Planned, amount: f64, plan: &Plan) {
    let domain_counts = &mut reading.domain_counts;
    match (event.quantity, event.tier) {
        (Quantity::Link, _) => {
            domain_counts.link_bytes.resize(plan.domains, None);
            add(&mut domain_counts.link_bytes[event.domain], Some(amount));
        }
        (Quantity::Slots | Quantity::MemorySlots, _) => {
            domain_counts.slots.resize(plan.domains, None);
            let slots = domain_counts.slots[event.domain].get_or_insert_with(Slots::default);
            match event.quantity {
                Quantity::Slots => slots.all += amount,
                _ => slots.memory += amount,
            }
        }
        (quantity, Some(tier)) => {
            let traffic = &mut reading.traffic[event.domain][tier];
            match quantity {
                Quantity::Read => add(&mut traffic.read_bytes, Some(amount)),
                Quantity::Written => add(&mut traffic.written_bytes, Some(amount)),
                Quantity::Inserts => add(&mut traffic.inserts, Some(amount)),
                _ => add(&mut traffic.occupancy_ns, Some(amount)),
            }
        }
        (_, None) => {}
    }
}

fn forget(reading: &mut Reading, domain: usize, tier: Option<usize>, quantity: Quantity) {
    match (quantity, tier) {
        (Quantity::Link, _) => clear(&mut reading.domain_counts.link_bytes, domain),
        (Quantity::Slots | Quantity::MemorySlots, _) => {
            clear(&mut reading.domain_counts.slots, domain)
        }
        (Quantity::Read, Some(tier)) => reading.traffic[domain][tier].read_bytes = None,
        (Quantity::Written, Some(tier)) => reading.traffic[domain][tier].written_bytes = None,
        // Both `inserts` and `occupancy_ns` become unknown, even if only one of them is unknown:
        // latency is `occupancy_ns` divided by `inserts`, so neither is useful alone.
        (_, Some(tier)) => {
            let traffic = &mut reading.traffic[domain][tier];
            (traffic.inserts, traffic.occupancy_ns) = (None, None);
        }
        (_, None) => {}
    }
}

fn clear<T>(list: &mut [Option<T>], at: usize) {
    if let Some(item) = list.get_mut(at) {
        *item = None;
    }
}

fn refused_of(event: &Planned, why: io::Error, root: &Root) -> OpenError {
    refused(&event.name, &event.pmu, Some(event.cpu), why, root)
}

/// Returns the error for an event that the kernel refused. `cpu` is the CPU of the event, or `None`
/// for all CPUs on which a command runs.
pub(super) fn refused(
    event: &str,
    pmu: &str,
    cpu: Option<u32>,
    why: io::Error,
    root: &Root,
) -> OpenError {
    let (event, pmu) = (event.to_string(), pmu.to_string());
    match why.raw_os_error() {
        Some(libc::EACCES | libc::EPERM) => OpenError::NotPermitted {
            whole_machine: cpu.is_some(),
            paranoid: root.text(PARANOID).ok().flatten().and_then(|text| text.trim().parse().ok()),
        },
        Some(libc::ENOENT | libc::ENODEV | libc::ENXIO | libc::EOPNOTSUPP) => {
            OpenError::NoUnit { pmu, cpu, why }
        }
        _ => OpenError::Refused { event, pmu, cpu, why },
    }
}

/// Raises this process's limit on open files if it is too low for `counters` counters and
/// [`OTHER_FILES`] other files.
fn raise_file_limit(counters: u64) -> Result<(), OpenError> {
    let limit = getrlimit(Resource::Nofile);
    let wanted = counters + OTHER_FILES;
    if limit.current.is_none_or(|current| current >= wanted) {
        return Ok(());
    }
    let current = Some(limit.maximum.map_or(wanted, |maximum| maximum.min(wanted)));
    // If `setrlimit` fails, the error is the same as if the hard limit is too low.
    let raised = setrlimit(Resource::Nofile, Rlimit { current, ..limit }).is_ok();
    match current {
        Some(current) if raised && current >= counters => Ok(()),
        _ => Err(OpenError::Files { needed: counters, limit: limit.current.unwrap_or(0) }),
    }
}

#[cfg(test)]
mod tests;
