//! Cost and energy of the configurations, the Pareto fronts and the recommendation.

use super::{
    PlanJob,
    performance::{Assumed, Performance},
};
use interleaf_model::{
    configuration::Configuration,
    pareto::{self, Losses},
    predict::Estimate,
};
use interleaf_record::plan::Goal;
use std::collections::BTreeMap;

/// The merits of one configuration.
pub(super) struct Assessed {
    /// Work per second relative to the baseline.
    pub(super) speed: Estimate,
    pub(super) power_w: Option<f64>,
    /// Energy of a unit of work: of a run, or of a unit of a rate.
    pub(super) energy_j: Option<f64>,
    pub(super) parts_cost: f64,
    /// Parts, and energy over the years.
    pub(super) cost: f64,
    pub(super) on_cost_front: bool,
    pub(super) on_energy_front: bool,
    /// A configuration that is no worse in speed, cost and energy, and better in one.
    pub(super) dominated_by: Option<String>,
}

/// The merits of all configurations.
pub(super) struct Assessment {
    pub(super) rows: Vec<Assessed>,
    pub(super) recommended: Option<usize>,
}

/// Factors of prices, by the name of the part.
#[derive(Clone, Debug, Default)]
pub(super) struct Prices {
    pub(super) parts: BTreeMap<String, f64>,
    pub(super) energy: Option<f64>,
}

/// Assesses all configurations at the prices of the job.
pub(super) fn assess(
    job: &PlanJob<'_>,
    performances: &[Performance],
    baseline: usize,
    assumed: &Assumed,
) -> Assessment {
    assess_at(job, performances, baseline, assumed, &Prices::default())
}

/// Assesses all configurations at other prices.
pub(super) fn assess_at(
    job: &PlanJob<'_>,
    performances: &[Performance],
    baseline: usize,
    assumed: &Assumed,
    prices: &Prices,
) -> Assessment {
    let base = &performances[baseline];
    let mut rows: Vec<Assessed> = job
        .configurations
        .iter()
        .zip(performances)
        .enumerate()
        .map(|(at, (configuration, own))| {
            let ratios = own.speeds.iter().zip(&base.speeds).map(|(own, base)| own / base);
            let speed = Estimate::of(ratios.collect());
            let speed = if at == baseline { speed } else { speed.with_model_spread() };
            let power_w = power(job, configuration, own, assumed);
            let parts_cost = parts_cost(job, configuration, prices);
            let energy = job.parts.energy.as_ref().zip(power_w);
            let energy_cost = energy
                .map_or(0.0, |(energy, power_w)| energy.of(power_w) * prices.energy.unwrap_or(1.0));
            Assessed {
                speed,
                power_w,
                energy_j: power_w.map(|power_w| power_w / own.speed()),
                parts_cost,
                cost: parts_cost + energy_cost,
                on_cost_front: false,
                on_energy_front: false,
                dominated_by: None,
            }
        })
        .collect();
    let eligible: Vec<usize> = (0..rows.len())
        .filter(|at| performances[*at].fits && (job.future || !job.configurations[*at].is_future))
        .collect();
    let recommended = choose(job, &mut rows, &eligible);
    Assessment { rows, recommended }
}

/// Marks the fronts and the dominated configurations, and returns the recommended one.
fn choose(job: &PlanJob<'_>, rows: &mut [Assessed], eligible: &[usize]) -> Option<usize> {
    let slowness = |row: &Assessed| 1.0 / row.speed.mean;
    let by_cost: Vec<Losses> =
        eligible.iter().map(|at| vec![slowness(&rows[*at]), rows[*at].cost]).collect();
    // A configuration of unknown energy is never better in energy.
    let energy = |row: &Assessed| row.energy_j.unwrap_or(f64::INFINITY);
    let by_energy: Vec<Losses> =
        eligible.iter().map(|at| vec![slowness(&rows[*at]), energy(&rows[*at])]).collect();
    let by_all: Vec<Losses> = eligible
        .iter()
        .map(|at| vec![slowness(&rows[*at]), rows[*at].cost, energy(&rows[*at])])
        .collect();
    for at in pareto::front(&by_cost) {
        rows[eligible[at]].on_cost_front = true;
    }
    for at in pareto::front(&by_energy) {
        rows[eligible[at]].on_energy_front = true;
    }
    for (own, at) in by_all.iter().zip(eligible) {
        let by = by_all.iter().position(|other| pareto::dominates(other, own));
        rows[*at].dominated_by = by.map(|by| job.configurations[eligible[by]].name.clone());
    }
    let loss = |at: usize| match (&by_all[at][..], job.goal) {
        ([slowness, cost, _], Goal::Value) => slowness * cost,
        ([slowness, ..], Goal::Speed) => *slowness,
        ([_, cost, _], Goal::Cost) => *cost,
        ([.., energy], Goal::Energy) => *energy,
        _ => f64::INFINITY,
    };
    pareto::best(&by_all, loss).map(|at| eligible[at])
}

fn power(
    job: &PlanJob<'_>,
    configuration: &Configuration,
    own: &Performance,
    assumed: &Assumed,
) -> Option<f64> {
    let watts = own.watts?;
    let of_parts = configuration
        .parts
        .iter()
        .filter_map(|part| Some(job.parts.parts.get(&part.name)?.power_w * f64::from(part.count)));
    let machine = assumed.idle_power * watts.idle
        + assumed.core_power * watts.cores
        + assumed.memory_power * watts.memory;
    Some(machine + of_parts.sum::<f64>())
}

fn parts_cost(job: &PlanJob<'_>, configuration: &Configuration, prices: &Prices) -> f64 {
    let parts = configuration.parts.iter().filter_map(|part| {
        let factor = prices.parts.get(&part.name).copied().unwrap_or(1.0);
        Some(factor * job.parts.parts.get(&part.name)?.price * f64::from(part.count))
    });
    parts.sum()
}
