//! Divides the events of a PMU among its units. A unit may not have enough hardware counters for
//! all events of its PMU. Such events are divided into lanes ([`Event::lane`]), and a unit counts
//! the events of at most one lane (of several lanes if there are more lanes than units).

use super::table::{Event, Quantity};

/// Maximum number of units that count for one lane. Each event of a unit needs an open file for
/// each socket, and addresses are spread so evenly that further units would hardly improve the
/// estimate.
const UNITS_MAX: usize = 8;

/// The events that a unit counts, each with the factor that scales its count up to all units.
/// Example: the factor is 12 if 8 of 96 units count the event.
pub(super) type UnitEvents<'a> = Vec<(&'a Event, f64)>;

/// Assigns the events of one PMU to its units; `units` is the number of units. All units count the
/// events without a lane. Ticks are the exception: only units that count an occupancy in cycles
/// count ticks.
pub(super) fn assign_lanes<'a>(events: &[&'a Event], units: usize) -> Vec<UnitEvents<'a>> {
    let mut dealt: Vec<UnitEvents<'a>> = vec![vec![]; units];
    let mut lanes: Vec<u32> = events.iter().filter_map(|event| event.lane).collect();
    lanes.sort_unstable();
    lanes.dedup();
    for (at, lane) in lanes.iter().enumerate() {
        let of_lane: Vec<usize> = match units > lanes.len() {
            true => (at..units).step_by(lanes.len()).collect(),
            // With at most as many units as lanes, each lane gets one unit. With fewer units than
            // lanes, a unit counts several lanes, and the kernel multiplexes them.
            false => (0..units).filter(|unit| *unit == at % units).collect(),
        };
        let chosen = spread(&of_lane);
        let stands_for = units as f64 / chosen.len() as f64;
        for unit in chosen {
            let counted = events.iter().filter(|event| event.lane == Some(*lane));
            dealt[unit].extend(counted.map(|event| (*event, stands_for)));
        }
    }
    for unit in &mut dealt {
        let cycles = |(event, _): &(&Event, f64)| event.quantity == Quantity::OccupancyCycles;
        let ticks = unit.iter().any(cycles);
        let all = events
            .iter()
            .filter(|event| event.lane.is_none() && (ticks || event.quantity != Quantity::Ticks));
        unit.splice(0..0, all.map(|event| (*event, 1.0)));
    }
    dealt
}

/// Returns at most [`UNITS_MAX`] of the units, spread evenly over `units`.
fn spread(units: &[usize]) -> Vec<usize> {
    let count = units.len().min(UNITS_MAX);
    (0..count).map(|at| units[at * units.len() / count]).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::{super::table::tables, *};
    use proptest::prelude::*;

    proptest! {
        /// With any number of units, at least one unit counts each event. For an event of a lane,
        /// the scale factors over the units that count it sum to the number of all units.
        #[test]
        fn units_that_count_stand_for_all(units in 1usize..130, which in 0usize..5) {
            let table = &tables()[which];
            let events: Vec<&Event> =
                table.events.iter().filter(|event| event.pmu == "uncore_cha").collect();
            let dealt = assign_lanes(&events, units);
            for event in &events {
                let mine = dealt.iter().flatten().filter(|(one, _)| one == event);
                let (count, sum) =
                    mine.fold((0, 0.0), |(count, sum), (_, scale)| (count + 1, sum + scale));
                prop_assert!(count > 0);
                if event.lane.is_some() {
                    prop_assert!(count <= UNITS_MAX);
                    prop_assert!((sum - units as f64).abs() < 1e-9, "{}", event.name);
                }
            }
        }
    }

    #[test]
    fn a_unit_counts_occupancy_of_one_tier() {
        for table in tables() {
            let events: Vec<&Event> =
                table.events.iter().filter(|event| event.pmu == "uncore_cha").collect();
            if events.is_empty() {
                continue;
            }
            for unit in assign_lanes(&events, 96) {
                let only = unit.iter().filter(|(event, _)| event.counters == [0]).count();
                assert!(only <= 1, "{}", table.name);
            }
        }
    }
}
