//! Power of the machine, and its division among tasks.

use super::SimMachine;

/// Watts for one GB/s at one pJ a bit: 8 x 10^9 x 10^-12.
const W_PER_GBPS_PJ: f64 = 8e-3;

/// The current power of the machine, W; `None` if its platform has no power figures.
pub(super) fn watts(machine: &SimMachine<'_>) -> Option<f64> {
    let threads: f64 = (0..machine.equilibrium.running.len()).map(|at| threads(machine, at)).sum();
    let power = machine.scenario.platform.power.as_ref()?;
    let traffic: f64 = (0..machine.equilibrium.running.len())
        .map(|entry| {
            traffic_watts(machine, &machine.equilibrium.reached[entry].tier_bandwidth_gbps)
        })
        .sum();
    let background = traffic_watts(machine, &machine.equilibrium.background_gbps);
    Some(standing_watts(machine)? + power.core_w * threads + traffic + background)
}

/// The power of a running task, W: its cores, its traffic, and a share of the standing power in
/// proportion to its threads.
pub(super) fn task_watts(machine: &SimMachine<'_>, entry: usize) -> Option<f64> {
    let power = machine.scenario.platform.power.as_ref()?;
    let own = threads(machine, entry);
    let all: f64 = (0..machine.equilibrium.running.len()).map(|at| threads(machine, at)).sum();
    let traffic = traffic_watts(machine, &machine.equilibrium.reached[entry].tier_bandwidth_gbps);
    Some(standing_watts(machine)? * own / all + power.core_w * own + traffic)
}

/// The power of the machine without load, W.
fn standing_watts(machine: &SimMachine<'_>) -> Option<f64> {
    let platform = &machine.scenario.platform;
    let tiers = platform.tiers.iter().filter_map(|tier| tier.power.as_ref());
    Some(platform.power.as_ref()?.idle_w + tiers.map(|tier| tier.static_w).sum::<f64>())
}

fn traffic_watts(machine: &SimMachine<'_>, tier_gbps: &[f64]) -> f64 {
    let tiers = machine.scenario.platform.tiers.iter().zip(tier_gbps);
    tiers
        .map(|(tier, gbps)| {
            let pj_per_bit = tier.power.as_ref().map_or(0.0, |power| power.energy_pj_per_bit);
            W_PER_GBPS_PJ * gbps * pj_per_bit
        })
        .sum()
}

fn threads(machine: &SimMachine<'_>, entry: usize) -> f64 {
    let (at, _) = machine.equilibrium.running[entry];
    f64::from(machine.scenario.tasks[at].threads)
}
