//! The daemon's loop on a simulated machine: what it does, for whoever has no counters or no
//! expander.

use super::{
    config::Config,
    notify::Manager,
    publish::Publisher,
    setup::{fixed, settings},
};
use crate::args::BalanceArgs;
use interleaf_console::{Failure, output};
use interleaf_model::{control::Period, machine::Layout, weights::Weights};
use interleaf_record::balance::BalancePeriod;
use interleaf_sim::machine::{Arena, PeriodRecord, Trial};
use std::{process::ExitCode, time::Duration};

/// What runs when nobody says: it wants more than DRAM has.
const WORKLOAD: &str = "cloverleaf";

/// How long is simulated when nobody says, s.
const DURATION_S: f64 = 300.0;

pub(super) fn run(
    args: &BalanceArgs,
    config: &Config,
    platform: &str,
) -> Result<ExitCode, Failure> {
    let workload = args.workload.as_deref().unwrap_or(WORKLOAD);
    let scenario = interleaf_catalog::built_in_workload(platform, workload, args.threads)?;
    let duration = Duration::from_secs_f64(args.duration.map_or(DURATION_S, |it| it.seconds()));
    let arena = Arena::new(&scenario, duration);
    let names = scenario.platform.tier_names();
    let points = match &config.weights {
        None => None,
        Some(weights) => Some(Weights::percent(&fixed(weights, &names)?).as_slice().to_vec()),
    };
    let trial =
        Trial { policy: config.policy, points, curve_error: 0.0, settings: settings(config) };
    let mut run = arena.start(&trial).map_err(interleaf_catalog::curve_failure)?;
    let task = &scenario.tasks[0];
    output::message(&format!(
        "interleaf: simulated: {platform} with {} threads of {}; nodes are its tiers: {}",
        task.threads,
        task.name,
        names.join(", ")
    ));
    let manager = Manager::new();
    let mut publisher = Publisher::here(args, &manager)?;
    while let Some(record) = run.period().cloned() {
        if let Some(period) = run.last() {
            publisher.publish(&documents(run.layout(), period, &record))?;
        }
    }
    let missing = publisher.close();
    let outcome = arena.outcome(run);
    output::message(&interleaf_report::balance::simulated(&outcome));
    missing.map(|()| ExitCode::SUCCESS)
}

/// A document for each domain.
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
