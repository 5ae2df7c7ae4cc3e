//! Counts the issue slots of cores while a command runs (top-down analysis).
//!
//! A core can issue a fixed number of operations in each cycle; each such opportunity is an issue
//! slot. At the first level of the analysis, each slot is of one of four kinds: its operation
//! retired (retiring), was discarded (bad speculation), was not supplied (frontend bound), or
//! stalled (backend bound). At the second level, each kind is divided in two parts. For example,
//! the backend-bound slots are divided into slots that wait for memory and other slots. (A. Yasin,
//! "A Top-Down Method for Performance Analysis and Counters Architecture", ISPASS 2014.)
//!
//! Only the command and its descendants are counted, on all CPUs. (Memory traffic, in contrast, is
//! counted for the whole machine.)
//!
//! Intel's cores count the kinds of slots in a special register. Linux counts the events of this
//! register only in a group whose first event is `slots`. The register counts the first level since
//! Ice Lake, and both levels since Sapphire Rapids.
//!
//! AMD's cores since Zen 4 count slots with ordinary counters. A core has six counters, of which
//! the kernel's watchdog often holds one, so a group of more than five events would never be
//! counted. The events are therefore in two groups that the kernel multiplexes. One group has five
//! events for the first level. The other group has three events: the slots that were given to the
//! core's other thread, all stalled cycles, and the stalled cycles in which the oldest operation
//! was a load. The ratio of the two cycle counts is the part of the backend-bound slots that waited
//! for memory.
//!
//! If an event had no counter for a part of the time, its count is scaled up, and the fraction of
//! time in which it was counted is reported. The count of an event that never had a counter is
//! unknown, not 0.

use super::{
    cpu::cpu,
    host::{Group, Grown, OpenError, Raw},
    pmu::pmus,
    table::{Event, Quantity, tables},
};
use crate::{source::SourceError, syscall};
use interleaf_linux::root::{Root, RootError};
use std::{collections::BTreeMap, io, os::fd::AsFd};

/// The name of the cores' PMU.
const CORES: &str = "cpu";

/// The plan of the events that count the slots of a command.
#[derive(Clone, Debug, PartialEq)]
pub struct TopdownPlan {
    /// The name of the table that has the events of the plan.
    pub table: String,
    /// The type number of the cores' PMU.
    pub kind: u32,
    /// The groups of events. The events of a group are counted at the same time.
    pub groups: Vec<Vec<CoreEvent>>,
    /// Remarks for the user.
    pub notes: Vec<String>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct CoreEvent {
    /// The vendor's name of the event.
    pub name: String,
    /// The configuration words `config`, `config1` and `config2` of `perf_event_attr`.
    pub config: [u64; 3],
    pub quantity: Quantity,
    /// The number of issue slots or cycles that one count of the event stands for.
    pub scale: f64,
}

impl TopdownPlan {
    /// Returns the number of levels of the top-down analysis that the events of the plan
    /// distinguish: 1 or 2.
    pub fn levels(&self) -> u32 {
        let has = |quantity| {
            self.groups.iter().flatten().any(|event: &CoreEvent| event.quantity == quantity)
        };
        let second = [Quantity::MemorySlots, Quantity::LoadStalledCycles];
        if second.into_iter().any(has) { 2 } else { 1 }
    }
}

/// The reason why no plan for the slots can be made on a machine.
#[derive(Debug, thiserror::Error)]
pub enum TopdownError {
    #[error(transparent)]
    Root(#[from] RootError),
    /// No table has the slot events of this CPU.
    #[error("how the slots of this CPU are counted is not known: {0}")]
    UnknownCpu(String),
    /// The cores' PMU is missing, or cannot count slots.
    #[error("the cores of {0} {1}")]
    NoCounters(String, &'static str),
}

impl TopdownError {
    /// Advice to the user.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Root(_) => "capture the machine again, or run where its files can be read",
            Self::UnknownCpu(_) => {
                "a table of its events can be added to crates/observe/counters; `perf stat \
                 --topdown` may know them"
            }
            Self::NoCounters(..) => {
                "run on bare metal, or in a virtual machine that is given a PMU"
            }
        }
    }
}

/// Plans the events for the slots of a command on a machine.
///
/// # Errors
/// When no table has the slot events of the CPU, or the cores' PMU is missing or cannot count
/// slots.
pub fn plan(root: &Root) -> Result<TopdownPlan, TopdownError> {
    let cpu = cpu(root)?;
    let name = cpu.as_ref().map_or("without family and model".into(), ToString::to_string);
    let tables = tables();
    let Some(table) = cpu.and_then(|cpu| tables.into_iter().find(|table| table.is_for(&cpu)))
    else {
        return Err(TopdownError::UnknownCpu(name));
    };
    let of_core = |event: &&Event| {
        let quantity = event.quantity;
        event.pmu == CORES
            && (quantity.is_of_core()
                || matches!(quantity, Quantity::Slots | Quantity::MemorySlots))
    };
    let events: Vec<&Event> = table.events.iter().filter(of_core).collect();
    if events.is_empty() {
        return Err(TopdownError::UnknownCpu(table.name));
    }
    let units = pmus(root, CORES)?;
    let Some(unit) = units.first() else {
        return Err(TopdownError::NoCounters(table.name, "have no PMU here"));
    };
    let mut groups = BTreeMap::<Option<u32>, Vec<CoreEvent>>::new();
    let mut notes = vec![];
    for event in events {
        match unit.compose(&event.values()) {
            Ok(config) => groups.entry(event.lane).or_default().push(CoreEvent {
                name: event.name.clone(),
                config,
                quantity: event.quantity,
                scale: event.per_count,
            }),
            Err(why) => notes.push(format!("{} is not counted: {why}", event.name)),
        }
    }
    for events in groups.values_mut() {
        // `slots` must be first: the register that counts the kinds of slots works only in a group
        // whose leader is `slots`.
        events.sort_by_key(|event| !is_all(event.quantity));
    }
    let groups: Vec<Vec<CoreEvent>> = groups.into_values().collect();
    match groups.first().and_then(|events| events.first()) {
        Some(first) if is_all(first.quantity) => {
            Ok(TopdownPlan { table: table.name, kind: unit.kind, groups, notes })
        }
        _ => Err(TopdownError::NoCounters(table.name, "cannot count slots")),
    }
}

fn is_all(quantity: Quantity) -> bool {
    matches!(quantity, Quantity::Slots | Quantity::DispatchSlots)
}

/// The counters of a command's issue slots, which are opened before the command starts.
#[derive(Debug)]
pub struct Topdown {
    plan: TopdownPlan,
    groups: Vec<Group>,
    user_only: bool,
}

impl Topdown {
    /// Opens the counters of `plan` for all processes that the calling thread starts from now on.
    /// For a user without the right to count kernel mode, only user mode is counted.
    ///
    /// # Errors
    /// When an event of the first group cannot be opened.
    pub fn open(mut plan: TopdownPlan, root: &Root) -> Result<Self, OpenError> {
        let mut open_in = |user_only| {
            open_all(&mut plan, |kind, events| open(kind, events, user_only))
                .map(|groups| (groups, user_only))
        };
        let opened = match open_in(false) {
            Err((_, why)) if is_refused(&why) => open_in(true),
            opened => opened,
        };
        let (groups, user_only) = opened.map_err(|(event, why)| refused(&event, why, root))?;
        Ok(Self { plan, groups, user_only })
    }

    /// Describes in one line which issue slots are counted.
    pub fn describe(&self) -> String {
        let whose = if self.user_only { ", without its kernel code" } else { "" };
        let mut text = format!(
            "the slots of the command's threads by the table of {}, {} level{}{whose}",
            self.plan.table,
            self.plan.levels(),
            if self.plan.levels() == 1 { "" } else { "s" },
        );
        self.plan.notes.iter().for_each(|note| text += &format!("; {note}"));
        text
    }

    /// Reads the issue slots of the command since the last reading.
    ///
    /// # Errors
    /// When a counter cannot be read any more.
    pub fn read(&mut self) -> Result<CoreSlots, SourceError> {
        let mut counts = CoreCounts::default();
        for (at, group) in self.groups.iter_mut().enumerate() {
            let events = &self.plan.groups[at];
            let raw = group.read().map_err(|why| {
                let what = format!("{} of {CORES}", events[0].name);
                SourceError::Counter { what, why }
            })?;
            let running_ns = raw.running_ns.saturating_sub(group.last.running_ns) as f64;
            let grown = Grown::between(&group.last, &raw);
            group.last = raw;
            counts.add(events, &grown, running_ns);
        }
        Ok(counts.slots())
    }
}

type Unopened = (CoreEvent, io::Error);

/// Calls `open` for each group of the plan, with the type number of the PMU and the events of the
/// group. If `open` fails for the first group, the error is returned. If it fails for another
/// group, this group is left out of the plan, and a note is added.
fn open_all<T>(
    plan: &mut TopdownPlan,
    open: impl Fn(u32, &[CoreEvent]) -> Result<T, Unopened>,
) -> Result<Vec<T>, Unopened> {
    let (mut groups, mut opened_events) = (vec![], vec![]);
    for (at, events) in plan.groups.iter().enumerate() {
        match open(plan.kind, events) {
            Ok(group) => {
                groups.push(group);
                opened_events.push(events.clone());
            }
            Err(unopened) if at == 0 => return Err(unopened),
            Err((event, why)) => plan.notes.push(format!("{} is refused: {why}", event.name)),
        }
    }
    plan.groups = opened_events;
    Ok(groups)
}

fn open(kind: u32, events: &[CoreEvent], user_only: bool) -> Result<Group, Unopened> {
    let (mut leader, mut others) = (None, vec![]);
    for event in events {
        let first = leader.as_ref().map(AsFd::as_fd);
        let opened = syscall::perf_event_open_for_children(kind, event.config, user_only, first);
        let opened = opened.map_err(|why| (event.clone(), why))?;
        match leader {
            None => leader = Some(opened),
            Some(_) => others.push(opened),
        }
    }
    let Some(leader) = leader else { unreachable!("a group has an event") };
    let events = (0..events.len()).collect();
    Ok(Group { leader, _others: others, events, last: Raw::default() })
}

fn is_refused(why: &io::Error) -> bool {
    why.kind() == io::ErrorKind::PermissionDenied
}

fn refused(event: &CoreEvent, why: io::Error, root: &Root) -> OpenError {
    super::host::refused(&event.name, CORES, None, why, root)
}

/// The numbers of issue slots of each kind; `None` if a kind is not counted.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CoreSlots {
    pub all: Option<f64>,
    /// Issue slots whose operations retired.
    pub retiring: Option<f64>,
    /// Issue slots whose operations were discarded.
    pub bad_speculation: Option<f64>,
    /// Issue slots for which the front end supplied no operation.
    pub frontend: Option<f64>,
    /// Issue slots whose operations the back end stalled.
    pub backend: Option<f64>,
    /// Issue slots that were given to the core's other hardware thread (AMD).
    pub contention: Option<f64>,
    /// Issue slots of retired instructions that consist of many operations.
    pub heavy: Option<f64>,
    /// Issue slots whose operations were discarded after a mispredicted branch.
    pub mispredicts: Option<f64>,
    /// Issue slots that the front end left empty while it waited for instructions.
    pub fetch_latency: Option<f64>,
    /// Issue slots that waited for memory: a part of `backend`.
    pub memory: Option<f64>,
    /// Time for which the counting was enabled, ns, summed over the threads and the groups of
    /// events.
    pub enabled_ns: f64,
    /// The part of `enabled_ns` for which the events had hardware counters, ns: less than
    /// `enabled_ns` if other events used the counters meanwhile.
    pub running_ns: f64,
}

impl CoreSlots {
    /// Adds the issue slots of two spans of time. A kind of slot that is unknown (`None`) in one
    /// span is unknown in the sum. A span in which no thread ran is ignored.
    pub fn plus(self, other: Self) -> Self {
        if self.enabled_ns == 0.0 {
            return other;
        }
        if other.enabled_ns == 0.0 {
            return self;
        }
        let both = |a: Option<f64>, b: Option<f64>| Some(a? + b?);
        Self {
            all: both(self.all, other.all),
            retiring: both(self.retiring, other.retiring),
            bad_speculation: both(self.bad_speculation, other.bad_speculation),
            frontend: both(self.frontend, other.frontend),
            backend: both(self.backend, other.backend),
            contention: both(self.contention, other.contention),
            heavy: both(self.heavy, other.heavy),
            mispredicts: both(self.mispredicts, other.mispredicts),
            fetch_latency: both(self.fetch_latency, other.fetch_latency),
            memory: both(self.memory, other.memory),
            enabled_ns: self.enabled_ns + other.enabled_ns,
            running_ns: self.running_ns + other.running_ns,
        }
    }
}

/// The counts of one reading of all groups, by quantity.
#[derive(Clone, Debug, Default)]
struct CoreCounts {
    counts: BTreeMap<Quantity, f64>,
    enabled_ns: f64,
    running_ns: f64,
}

impl CoreCounts {
    fn add(&mut self, events: &[CoreEvent], grown: &Grown, running_ns: f64) {
        self.enabled_ns += grown.enabled_ns;
        self.running_ns += running_ns;
        let Some(counts) = &grown.counts else { return };
        for (event, count) in events.iter().zip(counts) {
            *self.counts.entry(event.quantity).or_default() += count * event.scale;
        }
    }

    fn slots(&self) -> CoreSlots {
        let of = |quantity| self.counts.get(&quantity).copied();
        let retiring = of(Quantity::RetiringSlots);
        let filled = of(Quantity::FilledSlots).zip(retiring);
        // Filled and retiring slots are counted at the same time, but not over exactly the same
        // cycles. Their difference may therefore be slightly negative, and is then set to 0.
        let thrown_away = filled.map(|(filled, kept)| (filled - kept).max(0.0));
        let backend = of(Quantity::BackendSlots);
        let stalled = of(Quantity::LoadStalledCycles).zip(of(Quantity::StalledCycles));
        let of_loads = stalled.map(|(loads, all)| if all > 0.0 { loads / all } else { 0.0 });
        let memory = of_loads.zip(backend).map(|(part, backend)| part.min(1.0) * backend);
        CoreSlots {
            all: of(Quantity::Slots).or(of(Quantity::DispatchSlots)),
            retiring,
            bad_speculation: of(Quantity::BadSlots).or(thrown_away),
            frontend: of(Quantity::FrontendSlots),
            backend,
            contention: of(Quantity::ContentionSlots),
            heavy: of(Quantity::HeavySlots),
            mispredicts: of(Quantity::MispredictSlots),
            fetch_latency: of(Quantity::FetchLatencySlots),
            memory: of(Quantity::MemorySlots).or(memory),
            enabled_ns: self.enabled_ns,
            running_ns: self.running_ns,
        }
    }
}

#[cfg(test)]
mod tests;
