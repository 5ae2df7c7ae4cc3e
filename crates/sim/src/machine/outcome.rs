//! Runs a policy on a scenario, from the first sample to the last.

use super::{
    Scenario, SimMachine,
    static_best::{StaticBest, StaticTask, all_local},
};
use core::time::Duration;
use interleaf_model::{
    control::{Controller, Period, Settings},
    machine::{Layout, Machine as _, TierLayout},
    policy::Policy,
};

/// Two targets count as equal if the share of each tier differs by at most this number of
/// percentage points.
const SETTLED_POINTS: f64 = 3.0;

/// Number of periods for which a target must stay within [`SETTLED_POINTS`] to count as settled.
pub(super) const SETTLED_PERIODS: usize = 5;

/// The actions by which a policy reports that its search has ended and its target is settled.
const SETTLING: [&str; 2] = ["settle", "revert"];

/// A policy that runs on a scenario, period after period.
pub struct Run<'a> {
    machine: SimMachine<'a>,
    controller: Controller,
    scenario: &'a Scenario,
    duration: Duration,
    elapsed: Duration,
    periods: Vec<PeriodRecord>,
    /// The last period, as the control loop recorded it; `None` before the end of the first period.
    last: Option<Period>,
    started_with: Vec<f64>,
    /// Bytes migrated up to the end of the last period.
    moved_bytes: u64,
}

/// The record of one period of the control loop.
#[derive(Clone, Debug, PartialEq)]
pub struct PeriodRecord {
    /// The end of the period, s.
    pub time_s: f64,
    /// The target share of each tier that the policies set at the end of the period: the mean over
    /// all domains.
    pub target: Vec<f64>,
    /// The target shares of each domain.
    pub domain_targets: Vec<Vec<f64>>,
    /// The share of each tier in the accesses of the steered tasks (the tasks whose pages the
    /// policy may migrate), at the end of the period.
    pub reached: Vec<f64>,
    /// The access shares of each domain's steered tasks; `None` for a domain without a running
    /// steered task.
    pub domain_reached: Vec<Option<Vec<f64>>>,
    /// Counted reads and writes on each tier, GB/s.
    pub tier_bandwidth_gbps: Vec<f64>,
    /// Latency of each tier, ns; `None` for a tier whose latency was not counted.
    pub tier_latency_ns: Vec<Option<f64>>,
    /// The bandwidth, in GB/s, on which the policies decide, summed over the domains: a percentile
    /// of the bandwidths of the period's samples, if possible only of the samples after the last
    /// migration. `None` if the policy of some domain made no decision, because a migration had not
    /// begun or was not complete, because there were too few samples, or because no bytes were
    /// counted.
    pub judged_gbps: Option<f64>,
    /// Bytes of the pages that were migrated in the period.
    pub migrated_bytes: u64,
    /// The action of the policy in each domain (`step`, `hold`, ...).
    pub actions: Vec<&'static str>,
    /// The reason for the action in each domain.
    pub reasons: Vec<String>,
}

impl PeriodRecord {
    /// Reads and writes on all tiers, GB/s.
    pub fn bandwidth_gbps(&self) -> f64 {
        self.tier_bandwidth_gbps.iter().sum()
    }
}

/// The result of the run of a policy on a scenario, and the results with which it is compared.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// The record of each period.
    pub periods: Vec<PeriodRecord>,
    /// The result of each task.
    pub tasks: Vec<TaskOutcome>,
    /// The best static shares for the same scenario; `None` if the pages do not fit into the tiers
    /// with any of the shares that were tried.
    pub best_static: Option<StaticBest>,
    /// The time from which the target stays within 3 percentage points of its last value, s; `None`
    /// if the target came into this range only in the last period.
    pub converged_after_s: Option<f64>,
    /// Bytes of the pages that were migrated in the whole run.
    pub moved_bytes: u64,
    /// Energy of the whole machine, J; `None` on a platform without power figures.
    pub energy_j: Option<f64>,
}

/// The result of a task under a policy.
#[derive(Clone, Debug, PartialEq)]
pub struct TaskOutcome {
    /// Duration of the task's first run, s. It includes the time in which the policy searches for
    /// the shares of pages on the tiers. `None` if the run did not end.
    pub runtime_s: Option<f64>,
    /// The number of completed runs, plus the completed fraction of the last run.
    pub work: f64,
    /// Energy of the first run, J; `None` if the run did not end, or the platform has no power
    /// figures.
    pub energy_j: Option<f64>,
    /// The result of the task with all pages on the first local tier (the local tiers are the
    /// memory of the task's own socket), as if this tier had unlimited capacity.
    pub local: StaticTask,
    /// The result of the task with the best static shares; `None` if the pages fit with none of the
    /// shares that were tried.
    pub best_static: Option<StaticTask>,
}

impl Outcome {
    /// Returns the 1-based number of the last period whose target differs from the target of the
    /// period before; 0 if the target never changed.
    pub fn last_change(&self) -> usize {
        let changed = |pair: &[PeriodRecord]| pair[0].target != pair[1].target;
        self.periods.windows(2).rposition(changed).map_or(0, |at| at + 2)
    }

    /// Returns the fraction of periods with an unsettled target, 0 to 1: of the periods since the
    /// first settled target, those whose target is more than 3 percentage points from the first
    /// settled target. Returns 1 if no target is settled.
    ///
    /// A target is settled when the action of a policy is `settle` or `revert`. If no policy has
    /// such an action, a target is settled when it stays within 3 percentage points for
    /// [`SETTLED_PERIODS`] periods.
    pub fn unsettled_share(&self) -> f64 {
        let says =
            |period: &PeriodRecord| period.actions.iter().any(|action| SETTLING.contains(action));
        let targets: Vec<&[f64]> = self.periods.iter().map(|p| p.target.as_slice()).collect();
        let rests = |window: &[&[f64]]| window.iter().all(|target| near(target, window[0]));
        let first = match self.periods.iter().position(says) {
            Some(first) => Some(first),
            None => targets.windows(SETTLED_PERIODS).position(rests),
        };
        let Some(first) = first else { return 1.0 };
        let after = &targets[first..];
        let away = after.iter().filter(|target| !near(target, after[0])).count();
        away as f64 / after.len() as f64
    }
}

impl TaskOutcome {
    /// Returns the speed of the first run divided by its speed with all pages on the first local
    /// tier. If the first run has not ended, the speed is the completed work. `None` for a task
    /// that had not begun when the simulation ended.
    pub fn speedup(&self) -> Option<f64> {
        match self.runtime_s {
            Some(runtime_s) => Some(self.local.runtime_s / runtime_s),
            None => (self.local.work > 0.0).then(|| self.work / self.local.work),
        }
    }

    /// Returns the regret: the duration of the first run divided by its duration with the best
    /// static shares, minus 1. If the first run has not ended, see [`Self::regret_over_duration`].
    /// `None` if there are no best static shares, or if no work was done.
    pub fn regret(&self) -> Option<f64> {
        let best = self.best_static.as_ref()?;
        match self.runtime_s {
            Some(runtime_s) => Some(runtime_s / best.runtime_s - 1.0),
            None => self.regret_over_duration(),
        }
    }

    /// Returns the regret over the whole simulation, including the time in which the policy
    /// searches for shares: the work with the best static shares divided by the work done, minus 1.
    /// `None` if there are no best static shares, or if no work was done.
    pub fn regret_over_duration(&self) -> Option<f64> {
        let best = self.best_static.as_ref()?;
        (self.work > 0.0).then(|| best.work / self.work - 1.0)
    }
}

impl<'a> Run<'a> {
    /// Creates a run of `scenario` that simulates at most `duration`. For each domain, `policy` is
    /// called with the domain's index and local tiers, and returns the policy of the domain.
    pub fn new(
        scenario: &'a Scenario,
        settings: Settings,
        duration: Duration,
        policy: impl Fn(usize, &[TierLayout]) -> Box<dyn Policy>,
    ) -> Self {
        let layout = scenario.layout();
        let controller = Controller::new(&layout, settings, policy);
        let (domains, tiers) = (layout.domains.len(), layout.tiers.len());
        let start: Vec<Vec<f64>> =
            (0..domains).map(|domain| controller.start(domain, tiers)).collect();
        let started_with = mean(&start, tiers);
        let machine = SimMachine::new(scenario, start);
        let (elapsed, periods, moved_bytes) = (Duration::ZERO, vec![], 0);
        Self {
            machine,
            controller,
            scenario,
            duration,
            elapsed,
            periods,
            last: None,
            started_with,
            moved_bytes,
        }
    }

    /// Returns the domains, tiers and scopes of the simulated machine.
    pub fn layout(&self) -> &Layout {
        self.machine.layout()
    }

    /// Returns the last period, as the control loop recorded it; `None` before the end of the first
    /// period.
    pub const fn last(&self) -> Option<&Period> {
        self.last.as_ref()
    }

    /// Simulates one period, and returns its record. Returns `None` at the end of the duration, or
    /// after the last run of every task.
    pub fn period(&mut self) -> Option<&PeriodRecord> {
        let left = self.duration.saturating_sub(self.elapsed);
        if left.is_zero() || self.machine.has_ended() {
            return None;
        }
        let Ok(period) = self.controller.period(&mut self.machine, left);
        self.elapsed = Duration::from_secs_f64(period.time_s);
        let record = self.record(&period);
        self.moved_bytes = self.machine.moved_bytes();
        self.periods.push(record);
        self.last = Some(period);
        self.periods.last()
    }

    /// Returns the simulated fraction of the duration, 0 to 1.
    pub fn progress(&self) -> f64 {
        self.elapsed.as_secs_f64() / self.duration.as_secs_f64()
    }

    fn record(&self, period: &Period) -> PeriodRecord {
        let layout = self.machine.layout();
        let tiers = layout.tiers.len();
        let domains = layout.domains.iter().zip(&period.domains);
        let mut targets = vec![];
        let mut tier_bandwidth_gbps = vec![0.0; tiers];
        let mut tier_latency_ns = vec![None; tiers];
        for (domain, seen) in domains {
            let mut target = vec![0.0; tiers];
            for (near, tier) in domain.tiers.iter().enumerate() {
                target[*tier] = seen.verdict.shares[near];
                tier_bandwidth_gbps[*tier] += seen.tier_bandwidth_gbps[near];
                tier_latency_ns[*tier] = tier_latency_ns[*tier].or(seen.tier_latency_ns[near]);
            }
            targets.push(target);
        }
        let target = mean(&targets, tiers);
        PeriodRecord {
            time_s: period.time_s,
            domain_reached: (0..layout.domains.len())
                .map(|domain| self.machine.reached_shares_in(domain))
                .collect(),
            reached: self.machine.reached_shares().unwrap_or_else(|| target.clone()),
            target,
            domain_targets: targets,
            tier_bandwidth_gbps,
            tier_latency_ns,
            judged_gbps: period
                .domains
                .iter()
                .map(|domain| domain.seen.as_ref().map(|seen| seen.bandwidth_gbps))
                .sum(),
            migrated_bytes: self.machine.moved_bytes() - self.moved_bytes,
            actions: period.domains.iter().map(|domain| domain.verdict.action).collect(),
            reasons: period.domains.iter().map(|domain| domain.verdict.reason.clone()).collect(),
        }
    }

    /// Returns the outcome of the run. `best_static` has the best static shares of the scenario and
    /// their results, with which the outcome is compared.
    pub fn outcome(self, best_static: Option<StaticBest>) -> Outcome {
        let duration_s = self.duration.as_secs_f64();
        let local = all_local(self.scenario, duration_s);
        let has_power = self.scenario.platform.power.is_some();
        let tasks = self.machine.tasks.iter().zip(local).enumerate().map(|(at, (state, local))| {
            TaskOutcome {
                runtime_s: state.first_run_ns.map(|ns| ns as f64 * 1e-9),
                work: state.work(),
                energy_j: state.first_run_j.filter(|_| has_power),
                local,
                best_static: best_static.as_ref().map(|best| best.tasks[at].clone()),
            }
        });
        Outcome {
            tasks: tasks.collect(),
            converged_after_s: converged_after_s(&self.started_with, &self.periods),
            moved_bytes: self.machine.moved_bytes(),
            energy_j: has_power.then(|| self.machine.energy_j()),
            periods: self.periods,
            best_static,
        }
    }
}

/// Returns the mean share of each tier over all entries of `shares`, such as domains.
fn mean(shares: &[Vec<f64>], tiers: usize) -> Vec<f64> {
    let count = shares.len().max(1) as f64;
    (0..tiers).map(|tier| shares.iter().map(|own| own[tier]).sum::<f64>() / count).collect()
}

/// Returns true if the shares of each tier in the targets `a` and `b` differ by at most 3
/// percentage points.
fn near(a: &[f64], b: &[f64]) -> bool {
    let distance = a.iter().zip(b).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
    100.0 * distance <= SETTLED_POINTS + 1e-9
}

/// Returns the time from which the target stays within 3 percentage points of its last value, s;
/// `None` if the target came into this range only in the last period. `started_with` is the target
/// before the first period.
fn converged_after_s(started_with: &[f64], periods: &[PeriodRecord]) -> Option<f64> {
    let last = &periods.last()?.target;
    let settled = periods.iter().rev().take_while(|period| near(&period.target, last)).count();
    match periods.len() - settled {
        0 if near(started_with, last) => Some(0.0),
        _ if settled < 2 => None,
        first => Some(periods[first].time_s),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(time_s: f64, first: f64) -> PeriodRecord {
        PeriodRecord {
            time_s,
            target: vec![first, 1.0 - first],
            domain_targets: vec![],
            reached: vec![first, 1.0 - first],
            domain_reached: vec![],
            tier_bandwidth_gbps: vec![],
            tier_latency_ns: vec![],
            judged_gbps: None,
            migrated_bytes: 0,
            actions: vec![],
            reasons: vec![],
        }
    }

    #[test]
    fn convergence() {
        let after = |firsts: &[f64]| {
            let periods: Vec<PeriodRecord> = firsts
                .iter()
                .enumerate()
                .map(|(n, first)| at(6.0 * (n + 1) as f64, *first))
                .collect();
            converged_after_s(&[1.0, 0.0], &periods)
        };
        assert_eq!(after(&[1.0, 1.0, 1.0]), Some(0.0));
        assert_eq!(after(&[0.9, 0.66, 0.65, 0.64]), Some(12.0));
        assert_eq!(after(&[0.9, 0.66, 0.65, 0.75, 0.66, 0.65]), Some(30.0));
        assert_eq!(after(&[0.9, 0.8, 0.7]), None);
        assert_eq!(after(&[]), None);
    }
}
