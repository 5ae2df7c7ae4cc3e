//! Computes the power of the machine, and divides it among the tasks.

use super::SimMachine;

/// Returns the current power of the machine, W; `None` if its platform has no power figures.
pub(super) fn watts(machine: &SimMachine<'_>) -> Option<f64> {
    let threads: f64 = (0..machine.equilibrium.running.len()).map(|at| threads(machine, at)).sum();
    let platform = &machine.scenario.platform;
    let power = platform.power.as_ref()?;
    let traffic: f64 = (0..machine.equilibrium.running.len())
        .map(|entry| platform.traffic_w(&machine.equilibrium.reached[entry].tier_bandwidth_gbps))
        .sum();
    let background = platform.traffic_w(&machine.equilibrium.background_gbps);
    Some(platform.standing_w()? + power.core_w * threads + traffic + background)
}

/// Returns the power that is attributed to the task at index `entry` of the running tasks, W;
/// `None` without power figures. It is the power of the task's cores and traffic, and a part of the
/// standing power (the power without load). The standing power is divided among the running tasks
/// in proportion to their threads.
pub(super) fn task_watts(machine: &SimMachine<'_>, entry: usize) -> Option<f64> {
    let platform = &machine.scenario.platform;
    let power = platform.power.as_ref()?;
    let own = threads(machine, entry);
    let all: f64 = (0..machine.equilibrium.running.len()).map(|at| threads(machine, at)).sum();
    let traffic = platform.traffic_w(&machine.equilibrium.reached[entry].tier_bandwidth_gbps);
    Some(platform.standing_w()? * own / all + power.core_w * own + traffic)
}

fn threads(machine: &SimMachine<'_>, entry: usize) -> f64 {
    let (at, _) = machine.equilibrium.running[entry];
    f64::from(machine.scenario.tasks[at].threads)
}
