//! Reads the tables of hardware events. The tables are data files in `crates/observe/counters/`:
//! one file for each CPU family, and one file for devices.

use super::cpu::Cpu;
use interleaf_model::tier::TierKind;
use serde::Deserialize;
use std::collections::BTreeMap;

/// The files with the tables of events. The last table is for devices that a machine with any CPU
/// may have. Its events are used if the table of the CPU lacks them.
const FILES: [(&str, &str); 8] = [
    ("intel-icx.toml", include_str!("../../counters/intel-icx.toml")),
    ("intel-spr.toml", include_str!("../../counters/intel-spr.toml")),
    ("intel-emr.toml", include_str!("../../counters/intel-emr.toml")),
    ("intel-gnr.toml", include_str!("../../counters/intel-gnr.toml")),
    ("intel-srf.toml", include_str!("../../counters/intel-srf.toml")),
    ("amd-zen4.toml", include_str!("../../counters/amd-zen4.toml")),
    ("amd-zen5.toml", include_str!("../../counters/amd-zen5.toml")),
    ("cxl.toml", include_str!("../../counters/cxl.toml")),
];

/// The table of events of a CPU family, or of devices.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Table {
    /// The name of the CPU family or of the devices.
    pub name: String,
    /// The CPUs of the table; empty for a table of devices, which a machine with any CPU may have.
    pub cpus: Vec<Cpus>,
    /// Remarks for the user about the gaps and limits of the table.
    pub notes: Vec<String>,
    #[serde(rename = "event")]
    pub events: Vec<Event>,
}

/// CPU models of one manufacturer and family.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cpus {
    /// The manufacturer, as `vendor_id` in `/proc/cpuinfo`.
    pub vendor: String,
    /// `cpu family` in `/proc/cpuinfo`.
    pub family: u32,
    /// Ranges of `model` in `/proc/cpuinfo`, both ends included.
    pub models: Vec<(u32, u32)>,
}

/// An event, and the meaning of its counts.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Event {
    /// The vendor's name of the event.
    pub name: String,
    /// The prefix of the PMUs that count the event: `uncore_imc` for `uncore_imc_0` and so on.
    pub pmu: String,
    /// The event code; `None` for a PMU whose events use other fields.
    #[serde(default)]
    pub event: Option<u64>,
    /// The unit mask.
    #[serde(default)]
    pub umask: Option<u64>,
    /// The extension of the unit mask: the bits above its lowest 8 bits.
    #[serde(default)]
    pub umask_ext: Option<u64>,
    /// Further fields of the PMU's format.
    #[serde(default)]
    pub fields: BTreeMap<String, u64>,
    /// The indices of the hardware counters that can count the event; empty if all counters can
    /// count it.
    pub counters: Vec<u32>,
    pub quantity: Quantity,
    /// The kind of tier whose traffic is counted; `None` for events that belong to no tier.
    #[serde(default, deserialize_with = "kind")]
    pub tier: Option<TierKind>,
    /// The bytes of traffic, the ns of waiting or the issue slots that one count represents.
    /// Example: 8 for an event that counts the cycles of a core with 8 issue slots. For requests
    /// and cycles, it is 1.
    pub per_count: f64,
    /// The number of the event's lane. Lanes divide the events of a PMU whose units have too few
    /// hardware counters for all of them. A unit of the PMU counts the events of at most one lane
    /// (of several lanes if there are more lanes than units). `None` if all units count the event.
    /// Ticks ([`Quantity::Ticks`]) have no lane, but only units that also count an occupancy in
    /// cycles count ticks. Core events of the same lane are counted at the same time.
    #[serde(default)]
    pub lane: Option<u32>,
    /// The source from which the row of the table was taken.
    pub source: String,
}

/// The quantity that an event counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Quantity {
    /// Bytes that were read from a tier.
    Read,
    /// Bytes that were written to a tier.
    Written,
    /// The number of requests that began to wait for a tier.
    Inserts,
    /// Time for which requests waited for a tier, summed over the requests, ns.
    OccupancyNs,
    /// Like [`Self::OccupancyNs`], but in clock cycles of the counting unit; [`Self::Ticks`] give
    /// the length of a cycle.
    OccupancyCycles,
    /// Clock cycles of the counting unit.
    Ticks,
    /// Bytes that were sent to another socket.
    Link,
    /// Issue slots of a core (see [`super::topdown`]).
    Slots,
    /// Issue slots of a core that waited for memory.
    MemorySlots,
    /// All issue slots of a core, on CPUs that do not count [`Self::MemorySlots`]. Only
    /// [`super::topdown`] uses this quantity.
    DispatchSlots,
    /// Issue slots whose operations retired.
    RetiringSlots,
    /// Issue slots whose operations were discarded.
    BadSlots,
    /// Issue slots for which the front end supplied no operation.
    FrontendSlots,
    /// Issue slots whose operations the back end stalled.
    BackendSlots,
    /// Issue slots that were given to the core's other hardware thread.
    ContentionSlots,
    /// Issue slots with an operation, whether the operation retired later or was discarded.
    FilledSlots,
    /// Issue slots of retired instructions that consist of many operations.
    HeavySlots,
    /// Issue slots whose operations were discarded after a mispredicted branch.
    MispredictSlots,
    /// Issue slots that the front end left empty while it waited for instructions.
    FetchLatencySlots,
    /// Cycles in which a core retired nothing because the oldest operation had not completed.
    StalledCycles,
    /// Like [`Self::StalledCycles`], but only cycles in which the oldest operation was a load.
    LoadStalledCycles,
}

impl Quantity {
    /// True for quantities of a core that only [`super::topdown`] counts.
    pub fn is_of_core(self) -> bool {
        self >= Self::DispatchSlots
    }
}

impl Event {
    /// Returns the values of the event's fields, by the field names in the folder `format/` of the
    /// PMU.
    pub fn values(&self) -> Vec<(&str, u64)> {
        let umask = match (self.umask, self.umask_ext) {
            (None, None) => None,
            (umask, ext) => Some(umask.unwrap_or(0) | ext.unwrap_or(0) << 8),
        };
        let own = [("event", self.event), ("umask", umask)];
        let own = own.into_iter().filter_map(|(name, value)| Some((name, value?)));
        own.chain(self.fields.iter().map(|(name, value)| (name.as_str(), *value))).collect()
    }
}

impl Table {
    /// True if the table applies to `cpu`.
    pub fn is_for(&self, cpu: &Cpu) -> bool {
        let has = |cpus: &Cpus| {
            let within = |(first, last): &(u32, u32)| (*first..=*last).contains(&cpu.model);
            cpus.vendor == cpu.vendor && cpus.family == cpu.family && cpus.models.iter().any(within)
        };
        self.cpus.iter().any(has)
    }
}

/// Returns all tables of events: a table for each CPU family, and the table of devices.
///
/// # Panics
/// When a built-in table is malformed, which a test excludes.
pub fn tables() -> Vec<Table> {
    let table = |(name, text): &(&str, &str)| match toml::from_str::<Table>(text) {
        Ok(table) => table,
        Err(why) => panic!("{name}: {why}"),
    };
    FILES.iter().map(table).collect()
}

fn kind<'a, D: serde::Deserializer<'a>>(from: D) -> Result<Option<TierKind>, D::Error> {
    let word = String::deserialize(from)?;
    word.parse().map(Some).map_err(serde::de::Error::custom)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;

    /// Number of hardware counters of a unit, assumed for a row that lists no counters. No unit in
    /// the tables has fewer counters.
    const COUNTERS: u32 = 4;

    /// True if all events can be counted at once. `allowed` has, for each event, the counters that
    /// can count it; an empty list stands for all counters. `used` has the counters that are
    /// already taken.
    fn fit(allowed: &[Vec<u32>], used: &mut Vec<u32>) -> bool {
        let Some((first, rest)) = allowed.split_first() else { return true };
        let any: Vec<u32> = (0..COUNTERS).collect();
        let choices = if first.is_empty() { &any } else { first };
        choices.iter().any(|counter| {
            if used.contains(counter) {
                return false;
            }
            used.push(*counter);
            let fits = fit(rest, used);
            used.pop();
            fits
        })
    }

    #[test]
    fn rows_say_where_they_are_from_and_count_something() {
        for table in tables() {
            assert!(!table.events.is_empty(), "{}", table.name);
            let is_unfounded = |event: &&Event| event.source.len() < 10 || event.per_count <= 0.0;
            assert_eq!(table.events.iter().find(is_unfounded), None, "{}", table.name);
            for event in &table.events {
                let of_tier = matches!(
                    event.quantity,
                    Quantity::Read
                        | Quantity::Written
                        | Quantity::Inserts
                        | Quantity::OccupancyNs
                        | Quantity::OccupancyCycles
                );
                assert_eq!(of_tier, event.tier.is_some(), "{}: {}", table.name, event.name);
                assert!(event.umask.is_none_or(|umask| umask <= 0xfff), "{}", event.name);
            }
        }
    }

    #[test]
    fn no_cpu_has_two_tables() {
        let tables = tables();
        for family in [6, 25, 26] {
            for (vendor, model) in ["GenuineIntel", "AuthenticAMD"]
                .into_iter()
                .flat_map(|vendor| (0..=0xff).map(move |model| (vendor, model)))
            {
                let cpu = Cpu { vendor: vendor.into(), family, model, stepping: None };
                let found = tables.iter().filter(|table| table.is_for(&cpu)).count();
                assert!(found <= 1, "{cpu}");
            }
        }
    }

    #[test]
    fn events_of_a_unit_fit_its_counters() {
        for table in tables() {
            for event in table.events.iter().filter(|event| {
                // The test leaves out the PMU `cpu`: its slots have separate registers on Intel,
                // and its slot events are few on AMD. It also leaves out `amd_df`, for which a
                // table has more events than `COUNTERS`.
                !["amd_df", "cpu"].contains(&event.pmu.as_str())
            }) {
                let lane = |other: &&Event| {
                    let ticks = other.quantity != Quantity::Ticks
                        || table.events.iter().any(|one| {
                            one.pmu == event.pmu
                                && one.lane == event.lane
                                && one.quantity == Quantity::OccupancyCycles
                        });
                    other.pmu == event.pmu
                        && (other.lane == event.lane || other.lane.is_none())
                        && ticks
                };
                let at_once: Vec<Vec<u32>> =
                    table.events.iter().filter(lane).map(|one| one.counters.clone()).collect();
                assert!(fit(&at_once, &mut vec![]), "{}: lane of {}", table.name, event.name);
            }
        }
    }

    #[test]
    fn cycles_come_with_ticks() {
        for table in tables() {
            for event in &table.events {
                let ticks = |one: &Event| one.pmu == event.pmu && one.quantity == Quantity::Ticks;
                let needs = event.quantity == Quantity::OccupancyCycles;
                assert!(!needs || table.events.iter().any(ticks), "{}", event.name);
            }
        }
    }

    #[test]
    fn both_sub_channels_of_granite_rapids() {
        let xeons = ["Intel Granite Rapids", "Intel Sierra Forest, Clearwater Forest"];
        for table in tables().iter().filter(|table| xeons.contains(&table.name.as_str())) {
            for quantity in [Quantity::Read, Quantity::Written] {
                let dram = |event: &&Event| {
                    event.quantity == quantity && event.tier == Some(TierKind::Dram)
                };
                let codes: Vec<Option<u64>> =
                    table.events.iter().filter(dram).map(|event| event.event).collect();
                assert_eq!(codes, [Some(5), Some(6)], "{}", table.name);
            }
        }
    }
}
