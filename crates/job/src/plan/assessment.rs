//! Computes the cost and energy of the configurations, the Pareto fronts and the recommendation.

use super::{
    PlanJob,
    combined::{Merits, Predictions},
    performance::{Assumed, Performance},
};
use interleaf_model::{
    configuration::Configuration,
    pareto::{self, Losses},
};
use interleaf_record::plan::Goal;
use std::collections::BTreeMap;

/// One configuration with its merits, its costs, its membership of the Pareto fronts, and the
/// configuration that dominates it.
pub(super) struct Assessed {
    pub(super) merits: Merits,
    pub(super) parts_cost: f64,
    /// The cost of the parts plus the cost of the energy over the years of use.
    pub(super) cost: f64,
    pub(super) on_cost_front: bool,
    pub(super) on_energy_front: bool,
    /// The name of a configuration that is no worse in speed, cost and energy, and is better in at
    /// least one of the three. `None` if no configuration dominates this configuration.
    pub(super) dominated_by: Option<String>,
}

/// The result of an assessment: `rows` has all configurations, and `recommended` is the index of
/// the recommended configuration in `rows`.
pub(super) struct Assessment {
    pub(super) rows: Vec<Assessed>,
    pub(super) recommended: Option<usize>,
}

/// Factors by which the job's prices are multiplied: in `parts` by the name of the part, in
/// `energy` for the price of energy. A price without a factor is unchanged.
#[derive(Clone, Debug, Default)]
pub(super) struct Prices {
    pub(super) parts: BTreeMap<String, f64>,
    pub(super) energy: Option<f64>,
}

/// Computes costs, Pareto fronts and the recommendation at the prices of the job.
pub(super) fn assess(
    job: &PlanJob<'_>,
    predictions: &Predictions,
    assumed: &Assumed,
) -> Assessment {
    assess_at(job, predictions, assumed, &Prices::default())
}

/// Like [`assess`], but multiplies the job's prices by the factors `prices`.
pub(super) fn assess_at(
    job: &PlanJob<'_>,
    predictions: &Predictions,
    assumed: &Assumed,
    prices: &Prices,
) -> Assessment {
    let assessed = |(at, configuration): (usize, &Configuration)| {
        let merits = predictions.merits(at, |own| power(job, configuration, own, assumed));
        let parts_cost = parts_cost(job, configuration, prices);
        let energy = job.parts.energy.as_ref().zip(merits.power_w);
        let energy_cost = energy
            .map_or(0.0, |(energy, power_w)| energy.of(power_w) * prices.energy.unwrap_or(1.0));
        Assessed {
            merits,
            parts_cost,
            cost: parts_cost + energy_cost,
            on_cost_front: false,
            on_energy_front: false,
            dominated_by: None,
        }
    };
    let mut rows: Vec<Assessed> = job.configurations.iter().enumerate().map(assessed).collect();
    let eligible: Vec<usize> = (0..rows.len())
        .filter(|at| predictions.fits(*at) && (job.future || !job.configurations[*at].is_future))
        .collect();
    let recommended = choose(job, &mut rows, &eligible);
    Assessment { rows, recommended }
}

/// Among the `eligible` configurations, marks those on the Pareto fronts and those that another
/// configuration dominates. Returns the index of the recommended configuration in `rows`; `None` if
/// no configuration is eligible.
fn choose(job: &PlanJob<'_>, rows: &mut [Assessed], eligible: &[usize]) -> Option<usize> {
    let slowness = |row: &Assessed| 1.0 / row.merits.speed.mean;
    let by_cost: Vec<Losses> =
        eligible.iter().map(|at| vec![slowness(&rows[*at]), rows[*at].cost]).collect();
    // An unknown energy counts as infinite. A configuration with unknown energy is therefore never
    // better in energy than another configuration.
    let energy = |row: &Assessed| row.merits.energy_j.unwrap_or(f64::INFINITY);
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;
    use crate::plan::{Planned, performance::Watts};
    use interleaf_model::{
        configuration::PartCount,
        mix::Mix,
        parts::{EnergyPrice, Parts, PricedPart},
    };
    use proptest::prelude::*;

    /// The performance of a configuration for a demand: the speed, the power if it is known, and
    /// true if the memory holds the demand.
    type Program = (u8, Option<u8>, bool);

    /// A configuration: its performance for each demand, its price, and true if it can be bought
    /// already.
    type Alternative = (Vec<Program>, u8, bool);

    fn configuration(at: usize, future: bool) -> Configuration {
        Configuration {
            name: format!("c{at}"),
            does: "a test".into(),
            is_future: future,
            platform: "p".into(),
            platform_place: "c.toml:1".into(),
            channels: None,
            capacity: None,
            expanders: None,
            drive: None,
            parts: vec![PartCount { name: format!("part{at}"), count: 2 }],
            parts_place: "c.toml:1".into(),
        }
    }

    fn parts(all: &[Alternative], with_energy: bool) -> Parts {
        let part = |(at, own): (usize, &Alternative)| {
            let part = PricedPart {
                price: f64::from(own.1),
                power_w: 0.0,
                source: "made up".into(),
                date: "2025".into(),
            };
            (format!("part{at}"), part)
        };
        let energy = EnergyPrice {
            per_kwh: 0.001,
            years: 1.0,
            source: "made up".into(),
            date: "2025".into(),
        };
        Parts {
            file: "p.toml".into(),
            currency: "USD".into(),
            parts: all.iter().enumerate().map(part).collect(),
            energy: with_energy.then_some(energy),
        }
    }

    fn assessed(
        (shares, all): &(Vec<u8>, Vec<Alternative>),
        with_energy: bool,
        goal: Goal,
        future: bool,
    ) -> Assessment {
        let parts = parts(all, with_energy);
        let on_sale = |(at, own): (usize, &Alternative)| configuration(at, !own.2);
        let job = PlanJob {
            planned: Planned::Mix(Mix::READ),
            configurations: all.iter().enumerate().map(on_sale).collect(),
            parts: &parts,
            baseline: None,
            footprint: None,
            threads: None,
            goal,
            future,
            vary: 0.2,
        };
        let watts = |power: u8| Watts { idle: f64::from(power), cores: 0.0, memory: 0.0 };
        let program = |own: &Program| Performance::known(f64::from(own.0), own.1.map(watts), own.2);
        let sum: u32 = shares.iter().copied().map(u32::from).sum();
        let predictions = Predictions {
            shares: shares.iter().map(|own| f64::from(*own) / f64::from(sum)).collect(),
            rows: all.iter().map(|own| own.0.iter().map(program).collect()).collect(),
            baseline: 0,
        };
        assess(&job, &predictions, &Assumed::default())
    }

    /// Generates up to three demands, with their shares, on up to eleven configurations.
    fn plans() -> impl Strategy<Value = (Vec<u8>, Vec<Alternative>)> {
        (1_usize..4).prop_flat_map(|demands| {
            let program = (1_u8..5, prop::option::of(1_u8..5), prop::bool::weighted(0.8));
            let programs = prop::collection::vec(program, demands);
            let alternative = (programs, 1_u8..5, any::<bool>());
            let shares = prop::collection::vec(1_u8..5, demands);
            (shares, prop::collection::vec(alternative, 1..12))
        })
    }

    proptest! {
        #[test]
        fn no_dominated_configuration_is_recommended(
            plan in plans(),
            with_energy in any::<bool>(),
            future in any::<bool>(),
        ) {
            let all = &plan.1;
            for goal in [Goal::Value, Goal::Speed, Goal::Energy, Goal::Cost] {
                let found = assessed(&plan, with_energy, goal, future);
                let fits = |at: usize| all[at].0.iter().all(|own| own.2);
                let eligible = |at: usize| fits(at) && (future || all[at].2);
                let Some(chosen) = found.recommended else {
                    prop_assert!(!(0..all.len()).any(eligible));
                    continue;
                };
                prop_assert!(eligible(chosen));
                prop_assert_eq!(&found.rows[chosen].dominated_by, &None);
                let speed = |row: &Assessed| row.merits.speed.mean;
                let energy = |row: &Assessed| row.merits.energy_j.unwrap_or(f64::INFINITY);
                let own = &found.rows[chosen];
                for row in (0..all.len()).filter(|at| eligible(*at)).map(|at| &found.rows[at]) {
                    let no_worse = speed(row) >= speed(own)
                        && row.cost <= own.cost
                        && energy(row) <= energy(own);
                    let better = speed(row) > speed(own)
                        || row.cost < own.cost
                        || energy(row) < energy(own);
                    prop_assert!(!(no_worse && better));
                }
            }
        }
    }

    #[test]
    fn the_goal_decides() {
        let alternative = |(speed, price, power, fits, on_sale)| {
            (vec![(speed, Some(power), fits)], price, on_sale)
        };
        let all = [
            (4, 4, 4, true, true),
            (3, 2, 4, true, true),
            (1, 1, 1, true, true),
            (4, 1, 1, true, false),
            (4, 1, 1, false, true),
        ];
        let plan = (vec![1], all.map(alternative).to_vec());
        let chosen = |goal, future| assessed(&plan, false, goal, future).recommended;
        assert_eq!(chosen(Goal::Speed, false), Some(0));
        assert_eq!(chosen(Goal::Value, false), Some(1));
        assert_eq!(chosen(Goal::Cost, false), Some(2));
        assert_eq!(chosen(Goal::Value, true), Some(3));
    }

    /// The plan recommends a configuration by its combined speed for two demands. The second
    /// configuration is faster than the baseline for the first demand, and slower for the second
    /// demand: the plan recommends it if the shares of the demands are 4:1, but not if they are
    /// equal. The third configuration is faster than the baseline for both demands, but the plan
    /// never recommends it, because its memory does not hold the second demand.
    #[test]
    fn all_demands_decide() {
        let all = [
            (vec![(2, Some(1), true), (2, Some(1), true)], 1, true),
            (vec![(4, Some(1), true), (1, Some(1), true)], 1, true),
            (vec![(4, Some(1), true), (4, Some(1), false)], 1, true),
        ];
        let chosen = |shares: [u8; 2]| {
            assessed(&(shares.to_vec(), all.to_vec()), false, Goal::Value, false).recommended
        };
        // The second configuration has the speeds 2 and 0.5, relative to the baseline. With equal
        // shares, its combined speed is 1 / (0.5 / 2 + 0.5 / 0.5) = 0.8, below the baseline's 1.
        // With shares of 4:1, its combined speed is 1 / (0.8 / 2 + 0.2 / 0.5) = 1.25.
        assert_eq!(chosen([1, 1]), Some(0));
        assert_eq!(chosen([4, 1]), Some(1));
    }
}
