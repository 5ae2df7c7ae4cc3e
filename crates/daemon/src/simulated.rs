//! Runs the daemon's loop on a simulated machine, for users without counters or an expander.

use crate::{
    config::Config, notify::Manager, options::Options, publish::Publisher, setup::settings,
};
use interleaf_console::{Failure, output};
use interleaf_model::{control::Period, machine::Layout, weights::Weights};
use interleaf_record::balance::BalancePeriod;
use interleaf_sim::machine::{PeriodRecord, PreparedScenario, Trial};
use std::time::Duration;

/// The default workload, which demands more bandwidth than DRAM has.
pub const WORKLOAD: &str = "cloverleaf";

/// The default simulated time, s.
const DURATION_S: f64 = 300.0;

#[derive(Clone, Copy, Debug)]
pub struct Machine<'a> {
    /// The name or the file of the platform (the description of the simulated server).
    pub platform: &'a str,
    /// The name of the workload; `None` for [`WORKLOAD`].
    pub workload: Option<&'a str>,
    /// The number of threads. With `None`, it is the largest number of threads in those measured
    /// runs of the workload that had all pages on the first tier, but at most one thread per core
    /// of the first domain (socket).
    pub threads: Option<u32>,
}

/// Runs the control loop on a simulated machine, and prints the periods and the outcome.
///
/// # Errors
/// When the platform or workload does not exist, or a period cannot be written.
pub fn run(options: &Options, config: &Config, machine: &Machine<'_>) -> Result<(), Failure> {
    let workload = machine.workload.unwrap_or(WORKLOAD);
    let scenario =
        interleaf_catalog::built_in_workload(machine.platform, workload, machine.threads)?;
    let duration = Duration::from_secs_f64(options.duration.map_or(DURATION_S, |it| it.seconds()));
    let prepared = PreparedScenario::new(&scenario, duration);
    let names = scenario.platform.tier_names();
    let shares = config.fixed_shares(&names)?;
    let points = shares.map(|shares| Weights::percent(&shares).as_slice().to_vec());
    let trial =
        Trial { policy: config.policy, points, curve_error: 0.0, settings: settings(config) };
    let mut run = prepared.start(&trial).map_err(interleaf_catalog::curve_failure)?;
    let task = &scenario.tasks[0];
    output::message(&format!(
        "interleaf: simulated: {} with {} threads of {}; nodes are its tiers: {}",
        machine.platform,
        task.threads,
        task.name,
        names.join(", ")
    ));
    let manager = Manager::new();
    let mut publisher = Publisher::to_stdout(options, &manager)?;
    while let Some(record) = run.period().cloned() {
        if let Some(period) = run.last() {
            publisher.publish(&documents(run.layout(), period, &record))?;
        }
    }
    let missing = publisher.close();
    let outcome = prepared.outcome(run);
    output::message(&interleaf_report::balance::simulated(&outcome));
    missing
}

/// Returns the JSON documents of a simulated period, one for each domain (socket).
fn documents(layout: &Layout, period: &Period, record: &PeriodRecord) -> Vec<BalancePeriod> {
    let nodes: Vec<u32> = (0..layout.tiers.len() as u32).collect();
    let domains = period.domains.iter().enumerate().map(|(at, domain)| {
        let near: Vec<f64> =
            layout.domains[at].tiers.iter().map(|tier| record.reached[*tier]).collect();
        let all: f64 = near.iter().sum();
        let reached = (all > 0.0).then(|| near.iter().map(|share| share / all).collect());
        BalancePeriod::for_domain(layout, &nodes, at, period.time_s, domain, reached)
    });
    domains.collect()
}
