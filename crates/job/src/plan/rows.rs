//! Makes the rows of the document of a plan (`interleaf.plan/1`), one for each configuration.

use super::{
    assessment::Assessed,
    combined::{Alone, Merits, Predictions},
    machine::Candidate,
    performance::{Performance, Source},
};
use interleaf_model::predict::Estimate;
use interleaf_record::{
    plan::{PlanDemandRow, PlanRow},
    rounded,
};

/// Returns the rows of the document, one for each configuration.
pub(super) fn rows(
    candidates: &[Candidate],
    sources: &[Source<'_>],
    predictions: &Predictions,
    assessed: &[Assessed],
) -> Vec<PlanRow> {
    let work_cost = |own: &Assessed| own.cost / own.merits.speed.mean;
    let base_work_cost = work_cost(&assessed[predictions.baseline]);
    let names: Vec<String> = sources.iter().map(|source| source.name_and_unit().0).collect();
    let all = candidates.iter().zip(&predictions.rows).zip(assessed);
    let rows = all.map(|((candidate, performances), own)| {
        let row = match (&performances[..], &names[..]) {
            ([one], _) => single(candidate, one, own),
            _ => several(candidate, &names, performances, own),
        };
        let work_cost = Some(work_cost(own) / base_work_cost);
        PlanRow { work_cost: work_cost.filter(|ratio| ratio.is_finite()).map(rounded), ..row }
    });
    rows.collect()
}

/// Returns the row of a configuration for a plan with a single demand. [`rows`] fills in the field
/// `work_cost`: the cost divided by the speed, relative to the baseline.
fn single(candidate: &Candidate, own: &Performance, assessed: &Assessed) -> PlanRow {
    let Candidate { configuration, machine, .. } = candidate;
    let Merits { speed, power_w, energy_j, .. } = &assessed.merits;
    PlanRow {
        configuration: configuration.name.clone(),
        does: configuration.does.clone(),
        future: configuration.is_future,
        weights: own.weights.as_slice().to_vec(),
        threads: Some(rounded(own.threads)),
        speed: rounded(speed.mean),
        speed_interval: interval(speed),
        result: rounded(own.result),
        bandwidth_gbps: rounded(own.bandwidth_gbps()),
        latency_ns: rounded(own.latency_ns),
        power_w: power_w.map(rounded),
        task_energy_j: energy_j.map(rounded),
        cost: rounded(assessed.cost),
        parts_cost: rounded(assessed.parts_cost),
        work_cost: None,
        capacity_bytes: machine.tiers.iter().map(|tier| tier.capacity.get()).sum(),
        fits: own.fits,
        bound_by: own.bound_by.clone(),
        on_cost_front: assessed.on_cost_front,
        on_energy_front: assessed.on_energy_front,
        dominated_by: assessed.dominated_by.clone(),
        notes: own.notes.clone(),
        demands: vec![],
    }
}

/// Returns the row of a configuration for a plan with several demands. The row has weights only if
/// they are equal for all demands, and likewise the number of threads. The bandwidth is the mean
/// over the run time of all demands, the latency the mean over all cache lines that the demands
/// access.
fn several(
    candidate: &Candidate,
    names: &[String],
    all: &[Performance],
    assessed: &Assessed,
) -> PlanRow {
    let first = &all[0];
    let alone = &assessed.merits.alone;
    let sum = |term: &dyn Fn(&Performance) -> f64| -> f64 {
        all.iter().zip(alone).map(|(own, alone)| alone.time_s * term(own)).sum()
    };
    let (time, bytes) = (sum(&|_| 1.0), sum(&Performance::bandwidth_gbps));
    let named = |text: &dyn Fn(&Performance) -> Vec<String>| -> Vec<String> {
        let texts = all.iter().zip(names).flat_map(|(own, name)| {
            text(own).into_iter().map(move |text| format!("{name}: {text}"))
        });
        texts.collect()
    };
    let is_same_limit = all.iter().all(|own| own.bound_by == first.bound_by);
    let limits = named(&|own| vec![own.bound_by.clone()]);
    let demands = all.iter().zip(names).zip(alone);
    let row = single(candidate, first, assessed);
    PlanRow {
        weights: match all.iter().all(|own| own.weights == first.weights) {
            true => row.weights,
            false => vec![],
        },
        threads: row.threads.filter(|_| all.iter().all(|own| own.threads == first.threads)),
        result: rounded(1.0 / assessed.merits.speed.mean),
        bandwidth_gbps: rounded(bytes / time),
        latency_ns: rounded(sum(&|own| own.bandwidth_gbps() * own.latency_ns) / bytes),
        fits: all.iter().all(|own| own.fits),
        bound_by: if is_same_limit { row.bound_by } else { limits.join("; ") },
        notes: named(&|own| own.notes.clone()),
        demands: demands.map(|((own, name), alone)| demand_row(name, own, alone)).collect(),
        ..row
    }
}

fn demand_row(name: &str, own: &Performance, alone: &Alone) -> PlanDemandRow {
    PlanDemandRow {
        demand: name.into(),
        weights: own.weights.as_slice().to_vec(),
        threads: rounded(own.threads),
        speed: rounded(alone.speed.mean),
        speed_interval: interval(&alone.speed),
        result: rounded(own.result),
        bandwidth_gbps: rounded(own.bandwidth_gbps()),
        latency_ns: rounded(own.latency_ns),
        power_w: alone.power_w.map(rounded),
        task_energy_j: alone.energy_j.map(rounded),
        fits: own.fits,
        bound_by: own.bound_by.clone(),
    }
}

fn interval(speed: &Estimate) -> [f64; 2] {
    [rounded(speed.low), rounded(speed.high)]
}
