//! A simulation of a machine whose pages a policy places, as `interleaf.simulate.machine/1`.
//!
//! `interleaf simulate machine` writes the document. It has the scenario, a row for each period of
//! the policy (target, bandwidth, migrated bytes, decision with its reason), and the results of
//! each workload, under the policy and with the best static weights. A weight is the percentage of
//! the pages on a tier.

mod figures;

pub use figures::share_axis_from;

use super::{
    ProvenanceDocument, all_rounded,
    check::{Check, Checked, not_empty, same_length, same_length_or_empty},
    predict::{missed_runs, undecided},
    rounded,
};
use interleaf_model::{
    demand::Metric, machine::DomainLayout, provenance::Provenance, weights::Weights,
};
use interleaf_sim::machine::{Outcome, PeriodRecord, Scenario, Task, TaskOutcome};
use serde::{Deserialize, Serialize};

pub const SCHEMA: &str = "interleaf.simulate.machine/1";

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SimulateDocument {
    pub schema: String,
    pub platform: String,
    pub scenario: String,
    pub policy: String,
    pub tiers: Vec<String>,
    /// Domains of the machine; left out on a machine with one domain.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub domains: Vec<SimulatedDomain>,
    pub duration_s: f64,
    pub setting: SimulationSetting,
    pub periods: Vec<SimulatedPeriod>,
    pub workloads: Vec<WorkloadDocument>,
    /// Time from which the target stays within 3 percentage points of the final target, s; null if
    /// only the last target does.
    pub converged_after_s: Option<f64>,
    pub migrated_bytes_total: u64,
    /// Energy of the whole machine, J; null when the platform has no power figures.
    pub energy_j: Option<f64>,
    /// Results of other policies on the same scenario, if `--compare` requested them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub comparison: Vec<PolicyDocument>,
    pub provenance: ProvenanceDocument,
    /// Limits of the validity of the numbers in this document.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// Warnings that `predict` prints about these workloads.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

/// A domain of the simulated machine: a socket or a sub-NUMA cluster.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SimulatedDomain {
    pub name: String,
    /// Local tiers of the domain, fastest first. They hold the pages of the domain's workloads.
    pub tiers: Vec<String>,
}

/// The parameters of the simulation. The platform and the workloads are not among them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SimulationSetting {
    pub seed: u64,
    /// Relative standard deviation of the counters' readings, a fraction.
    pub counter_noise: f64,
    pub curve_error: f64,
    pub page_groups: usize,
    pub migration_rate_gbps: f64,
    pub migration_stall_ns: f64,
    pub sampling_ms: f64,
    pub aggregation_ms: f64,
    /// Memory that other programs occupy on each tier during the whole simulation, bytes.
    pub held_bytes: Vec<u64>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SimulatedPeriod {
    pub time_s: f64,
    /// Target share of each tier, percent; the mean over the domains if there are several.
    pub target_weights: Vec<u16>,
    /// Target share of each tier in each domain, percent; left out on a machine with one domain.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub domain_weights: Vec<Vec<u16>>,
    /// Fraction of the steered workloads' accesses that go to each tier at the end of the period, 0
    /// to 1.
    pub hot_share: Vec<f64>,
    /// Fraction of each domain's accesses that go to each tier, 0 to 1; empty for a domain in which
    /// no workload runs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub domain_hot_share: Vec<Vec<f64>>,
    /// Mean bandwidth of all samples of the period, GB/s.
    pub bandwidth_gbps: f64,
    /// Bandwidth by which the policy judges its target, GB/s: a percentile of the samples without
    /// migration; null in a period that the policy does not judge.
    pub judged_gbps: Option<f64>,
    pub tier_bandwidth_gbps: Vec<f64>,
    pub tier_latency_ns: Vec<Option<f64>>,
    pub migrated_bytes: u64,
    pub decision: String,
    pub reason: String,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WorkloadDocument {
    pub name: String,
    /// Domain in which the workload's threads run; left out on a machine with one domain.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub domain: Option<String>,
    pub threads: u32,
    pub footprint_bytes: u64,
    /// Time of the workload's first run, s; null when it did not end. It includes the policy's
    /// search for weights.
    pub runtime_s: Option<f64>,
    /// Number of the workload's runs until the end of the simulation. A run that has not ended
    /// counts as the fraction of its work that is done.
    pub runs: f64,
    /// Rate of the first run, in `rate_unit`; left out when the workload's result is a time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate_unit: Option<String>,
    /// Speed-up over all pages on the first tier; null when the workload did not start.
    pub speedup: Option<f64>,
    pub local_runtime_s: f64,
    pub best_static: Option<BestStaticDocument>,
    /// Runtime divided by the runtime with the best static weights, minus 1. If the first run did
    /// not end, it equals `regret_over_duration`.
    pub regret: Option<f64>,
    /// Regret over the whole simulation: the work that would be done with the best static weights,
    /// divided by the work that was done, minus 1.
    pub regret_over_duration: Option<f64>,
    /// Energy of the workload's first run, J; null when unknown. It includes the run's share of the
    /// static power.
    pub energy_per_run_j: Option<f64>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BestStaticDocument {
    pub weights: Vec<u16>,
    pub runtime_s: f64,
}

/// The results of another policy on the same scenario.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PolicyDocument {
    pub policy: String,
    pub workloads: Vec<WorkloadDocument>,
    pub final_weights: Vec<u16>,
    pub converged_after_s: Option<f64>,
    pub migrated_bytes_total: u64,
}

/// The parameters of a simulation that are missing in its `Outcome`.
pub struct TrialParameters<'a> {
    pub policy: &'a str,
    pub duration_s: f64,
    pub curve_error: f64,
}

impl SimulateDocument {
    pub fn new(scenario: &Scenario, parameters: &TrialParameters<'_>, outcome: &Outcome) -> Self {
        let platform = &scenario.platform;
        Self {
            schema: SCHEMA.into(),
            platform: platform.name.clone(),
            scenario: scenario.name.clone(),
            policy: parameters.policy.into(),
            tiers: platform.tiers.iter().map(|tier| tier.name.clone()).collect(),
            domains: domains(scenario),
            duration_s: rounded(parameters.duration_s),
            setting: SimulationSetting::new(scenario, parameters),
            periods: outcome.periods.iter().map(SimulatedPeriod::new).collect(),
            workloads: workloads(scenario, outcome),
            converged_after_s: outcome.converged_after_s.map(rounded),
            migrated_bytes_total: outcome.moved_bytes,
            energy_j: outcome.energy_j.map(rounded),
            comparison: vec![],
            provenance: ProvenanceDocument::new(&input_provenance(scenario)),
            notes: notes(scenario),
            warnings: warnings(scenario),
        }
    }

    pub fn add_comparison(&mut self, scenario: &Scenario, policy: &str, outcome: &Outcome) {
        self.comparison.push(PolicyDocument {
            policy: policy.into(),
            workloads: workloads(scenario, outcome),
            final_weights: outcome
                .periods
                .last()
                .map(|period| Weights::percent(&period.target).as_slice().to_vec())
                .unwrap_or_default(),
            converged_after_s: outcome.converged_after_s.map(rounded),
            migrated_bytes_total: outcome.moved_bytes,
        });
    }
}

impl Check for SimulateDocument {
    fn check(&self) -> Checked {
        let tiers = self.tiers.len();
        not_empty("tiers", tiers)?;
        same_length("setting.held_bytes", self.setting.held_bytes.len(), tiers, "tiers")?;
        for (at, period) in self.periods.iter().enumerate() {
            period.check(&format!("periods[{at}]"), tiers)?;
        }
        check_workloads(&self.workloads, "workloads", tiers)?;
        for (at, other) in self.comparison.iter().enumerate() {
            let field = format!("comparison[{at}]");
            let own = format!("{field}.workloads");
            same_length(&own, other.workloads.len(), self.workloads.len(), "workloads")?;
            check_workloads(&other.workloads, &own, tiers)?;
            let final_weights = other.final_weights.len();
            same_length_or_empty(format!("{field}.final_weights"), final_weights, tiers, "tiers")?;
        }
        Ok(())
    }
}

fn check_workloads(workloads: &[WorkloadDocument], field: &str, tiers: usize) -> Checked {
    for (at, workload) in workloads.iter().enumerate() {
        if let Some(best) = &workload.best_static {
            let field = format!("{field}[{at}].best_static.weights");
            same_length(field, best.weights.len(), tiers, "tiers")?;
        }
    }
    Ok(())
}

impl SimulationSetting {
    fn new(scenario: &Scenario, parameters: &TrialParameters<'_>) -> Self {
        Self {
            seed: scenario.seed,
            counter_noise: rounded(scenario.counter_noise),
            curve_error: rounded(parameters.curve_error),
            page_groups: scenario.page_groups,
            migration_rate_gbps: rounded(scenario.migration.bandwidth_gbps),
            migration_stall_ns: rounded(scenario.migration.stall_ns),
            sampling_ms: rounded(scenario.damon.sampling_ns as f64 * 1e-6),
            aggregation_ms: rounded(scenario.damon.aggregation_ns as f64 * 1e-6),
            held_bytes: scenario.held_bytes.clone(),
        }
    }
}

impl SimulatedPeriod {
    fn check(&self, field: &str, tiers: usize) -> Checked {
        let of_tiers = |name: &str, found: usize| {
            same_length(format!("{field}.{name}"), found, tiers, "tiers")
        };
        of_tiers("target_weights", self.target_weights.len())?;
        for weights in &self.domain_weights {
            of_tiers("domain_weights", weights.len())?;
        }
        of_tiers("hot_share", self.hot_share.len())?;
        of_tiers("tier_bandwidth_gbps", self.tier_bandwidth_gbps.len())?;
        of_tiers("tier_latency_ns", self.tier_latency_ns.len())
    }

    pub fn new(period: &PeriodRecord) -> Self {
        let mut actions = period.actions.clone();
        actions.dedup();
        let mut reasons = period.reasons.clone();
        reasons.dedup();
        Self {
            time_s: rounded(period.time_s),
            target_weights: Weights::percent(&period.target).as_slice().to_vec(),
            domain_weights: match &period.domain_targets[..] {
                [] | [_] => vec![],
                several => several
                    .iter()
                    .map(|target| Weights::percent(target).as_slice().to_vec())
                    .collect(),
            },
            hot_share: all_rounded(&period.reached),
            domain_hot_share: match &period.domain_reached[..] {
                [] | [_] => vec![],
                several => several
                    .iter()
                    .map(|shares| shares.as_deref().map_or(vec![], all_rounded))
                    .collect(),
            },
            bandwidth_gbps: rounded(period.bandwidth_gbps()),
            judged_gbps: period.judged_gbps.map(rounded),
            tier_bandwidth_gbps: all_rounded(&period.tier_bandwidth_gbps),
            tier_latency_ns: period.tier_latency_ns.iter().map(|ns| ns.map(rounded)).collect(),
            migrated_bytes: period.migrated_bytes,
            decision: actions.join(", "),
            reason: reasons.join("; "),
        }
    }
}

/// The first `FIRST_PERIODS` periods are always shown.
const FIRST_PERIODS: usize = 3;

/// Decisions that keep the target. They alone are no reason to show a period in a report.
const QUIET: [&str; 2] = ["hold", "wait"];

/// Returns the periods that a report shows: the first three, those whose target is new, and those
/// whose decision is new and not in `QUIET`. New means different from the period before.
pub fn notable_periods(periods: &[SimulatedPeriod]) -> impl Iterator<Item = &SimulatedPeriod> {
    let is_new = |at: usize| {
        let Some(before) = at.checked_sub(1).map(|before| &periods[before]) else { return true };
        let quiet = QUIET.contains(&periods[at].decision.as_str());
        before.target_weights != periods[at].target_weights
            || !quiet && before.decision != periods[at].decision
    };
    (0..periods.len()).filter(move |at| *at < FIRST_PERIODS || is_new(*at)).map(|at| &periods[at])
}

fn workloads(scenario: &Scenario, outcome: &Outcome) -> Vec<WorkloadDocument> {
    let points =
        |task: &Task| outcome.best_static.as_ref().map(|best| best.points[task.domain].as_slice());
    let tasks = scenario.tasks.iter().zip(&outcome.tasks);
    let workload = |(task, outcome)| WorkloadDocument {
        domain: domain_of(scenario, task),
        ..WorkloadDocument::new(task, outcome, points(task))
    };
    tasks.map(workload).collect()
}

/// Returns the name of the domain in which a task runs, or `None` on a machine with one domain.
fn domain_of(scenario: &Scenario, task: &Task) -> Option<String> {
    let domains = &scenario.platform.domains;
    (domains.len() > 1).then(|| domains[task.domain].name.clone())
}

/// Returns the domains of the machine with their local tiers, or nothing on a machine with one
/// domain.
fn domains(scenario: &Scenario) -> Vec<SimulatedDomain> {
    let layout = scenario.layout();
    if layout.domains.len() < 2 {
        return vec![];
    }
    let name = |tier: &usize| layout.tiers[*tier].name.clone();
    let domain = |domain: &DomainLayout| SimulatedDomain {
        name: domain.name.clone(),
        tiers: domain.tiers.iter().map(name).collect(),
    };
    layout.domains.iter().map(domain).collect()
}

impl WorkloadDocument {
    /// Returns the name of the workload. On a machine with several domains, adds the domain.
    pub fn label(&self) -> String {
        match &self.domain {
            Some(domain) => format!("{} in {domain}", self.name),
            None => self.name.clone(),
        }
    }

    fn new(task: &Task, outcome: &TaskOutcome, points: Option<&[u16]>) -> Self {
        let rate = |unit: &str| {
            let of_part = || Some(outcome.local.runtime_s / outcome.speedup()?);
            let whole = outcome.runtime_s.or_else(of_part)?;
            let rate = task.program.local_result * task.local_runtime_s() / whole;
            Some((rounded(rate), unit.to_string()))
        };
        let (rate, rate_unit) = match &task.metric {
            Metric::Runtime => (None, None),
            Metric::Rate(unit) => rate(unit).unzip(),
        };
        Self {
            name: task.name.clone(),
            domain: None,
            threads: task.threads,
            footprint_bytes: task.footprint_bytes,
            runtime_s: outcome.runtime_s.map(rounded),
            runs: rounded(outcome.work),
            rate,
            rate_unit,
            speedup: outcome.speedup().map(rounded),
            local_runtime_s: rounded(outcome.local.runtime_s),
            best_static: outcome.best_static.as_ref().zip(points).map(|(best, points)| {
                BestStaticDocument { weights: points.to_vec(), runtime_s: rounded(best.runtime_s) }
            }),
            regret: outcome.regret().map(rounded),
            regret_over_duration: outcome.regret_over_duration().map(rounded),
            energy_per_run_j: outcome.energy_j.map(rounded),
        }
    }
}

/// Returns the inputs of the simulation, each with its provenance.
fn input_provenance(scenario: &Scenario) -> Vec<(String, Provenance)> {
    let platform = &scenario.platform;
    let mut inputs: Vec<(String, Provenance)> = platform
        .tiers
        .iter()
        .map(|tier| {
            let weakest = tier.curves.iter().map(|curve| curve.curve.provenance()).max();
            (format!("curves of {}", tier.name), weakest.unwrap_or(Provenance::Assumed))
        })
        .collect();
    inputs.push(("page streams".into(), platform.interleaving.figure.provenance));
    for input in ["footprints", "migration rate and stall", "counter noise"] {
        inputs.push((input.into(), Provenance::Assumed));
    }
    if let Some(power) = &platform.power {
        inputs.push(("power".into(), power.figure.provenance));
    }
    inputs
}

fn notes(scenario: &Scenario) -> Vec<String> {
    let mut notes: Vec<String> = vec![];
    for task in &scenario.tasks {
        for why in &task.program.extrapolated {
            notes.push(format!("{}: extrapolated: {why}", task.name));
        }
        if let Metric::Rate(_) = task.metric {
            notes.push(format!(
                "{} goes on for ever: a run is what it does on the first tier in {:.0} s",
                task.name,
                task.local_runtime_s()
            ));
        }
    }
    notes
}

/// Returns the warnings about workloads whose measured runs leave the forecast uncertain.
fn warnings(scenario: &Scenario) -> Vec<String> {
    let mut warnings = vec![];
    for task in &scenario.tasks {
        let open = task.program.undecided.as_ref();
        let open = open.map(|(weights, speedup)| undecided(weights, *speedup));
        let missed = missed_runs(&task.fits, Some(task.metric.unit()));
        let own = open.into_iter().chain(missed);
        warnings.extend(own.map(|warning| format!("{}: {warning}", task.name)));
    }
    warnings
}
