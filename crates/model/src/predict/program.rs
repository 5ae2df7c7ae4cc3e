//! A workload as a single behaviour, for simulation.
//!
//! A forecast averages over all behaviours that agree with the measured runs of a workload. A
//! simulation needs a single behaviour: the one whose predictions are nearest to the median of the
//! predictions of all behaviours.

use super::{Estimate, Forecast, widest_undecided};
use crate::{
    behaviour::{Behaviour, TrafficPerWork},
    equilibrium::{Load, solve},
    platform::Platform,
    statistics,
    weights::Weights,
};

/// The assumed length of a run whose result is a rate, s, because a rate does not tell how long the
/// run takes. The value is the runtime of lbm with 119 threads on the platform gnr120-cz122, the
/// shortest of the workloads that saturate memory there with 119 threads.
pub const RATE_RUN_S: f64 = 285.0;

/// Shares of the pages on the first tier, in percent, at which the speed-up that each behaviour
/// predicts is compared with the median over all behaviours.
const COMPARED: [u16; 5] = [90, 80, 70, 60, 50];

/// The weight of the first tier's bandwidth when the predictions of a behaviour are compared with
/// the median over all behaviours. Each speed-up has the weight 1. The bandwidth has more weight,
/// because it was counted, and speed-ups are only predicted.
const COUNTED_WEIGHT: f64 = 10.0;

/// A workload with a given number of threads, ready to simulate.
#[derive(Clone, Debug, PartialEq)]
pub struct Program {
    /// The behaviour of the workload's threads.
    pub behaviour: Behaviour,
    /// The length of a run with all pages on the first tier, s.
    pub local_runtime_s: f64,
    /// The result with all pages on the first tier, in the metric of the demand.
    pub local_result: f64,
    /// The reasons why figures are extrapolations; empty if none is.
    pub extrapolated: Vec<String>,
    /// `None` if the measured runs determine whether DRAM limits the workload. Otherwise weights at
    /// which no speed-up and a speed-up of 15 % or more both agree with the runs, and the estimate
    /// of the speed-up at these weights. The program is then only one of several behaviours that
    /// agree with the runs.
    pub undecided: Option<(Weights, Estimate)>,
    threads: f64,
    traffic: TrafficPerWork,
    /// True if the traffic of at least one run was counted. Otherwise the work is assumed to be
    /// proportional to the traffic.
    counted: bool,
    /// The load of a whole run, with all pages on the first tier.
    whole: Load,
    phases: Vec<ProgramPhase>,
}

/// A phase of a run in which a fraction of the program's threads work.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ActivePhase {
    /// The length of the phase with all pages on the first tier, s; above 0.
    pub local_s: f64,
    /// The fraction of threads that work, above 0 and up to 1.
    pub active: f64,
}

/// A phase of a run of a `Program`.
#[derive(Clone, Debug, PartialEq)]
pub struct ProgramPhase {
    /// The fraction of the run's work that is done in this phase, 0 to 1.
    pub work: f64,
    /// The fraction of threads that work, 0 to 1.
    active: f64,
    /// The load of the phase, with all pages on the first tier.
    load: Load,
    /// Bandwidth of the load on the first tier alone, GB/s.
    pub local_gbps: f64,
}

impl Program {
    /// The phases of a run, in order; a single phase if the demand has none.
    pub fn phases(&self) -> &[ProgramPhase] {
        &self.phases
    }

    /// The load of phase `phase`, if all threads are in domain `domain` and the fraction
    /// `shares[i]` of the traffic goes to tier `i`.
    pub fn load(&self, phase: usize, domain: usize, shares: Vec<f64>) -> Load {
        let load = self.phases[phase].load.clone();
        let in_domain = |at: usize| f64::from(u8::from(at == domain));
        let domain_parts = (0..load.domain_parts.len()).map(in_domain).collect();
        Load { domain_parts, shares, ..load }
    }

    /// Returns the program with its phases replaced by `active_phases` (not empty), in this order.
    pub fn with_active_phases(
        mut self,
        platform: &Platform,
        active_phases: &[ActivePhase],
    ) -> Self {
        self.local_runtime_s = active_phases.iter().map(|it| it.local_s).sum();
        let phase = |it: &ActivePhase| {
            let threads = self.whole.threads * it.active;
            let load = Load { threads, ..self.whole.clone() };
            let reached = solve(platform, std::slice::from_ref(&load));
            ProgramPhase {
                work: it.local_s / self.local_runtime_s,
                active: it.active,
                local_gbps: reached.loads[0].bandwidth_gbps,
                load,
            }
        };
        self.phases = active_phases.iter().map(phase).collect();
        self
    }

    /// The speed of the program in phase `phase` while its traffic is `gbps` GB/s, divided by its
    /// speed in this phase with all pages on the first tier.
    pub fn speed(&self, phase: usize, gbps: f64) -> f64 {
        let ProgramPhase { local_gbps, active, .. } = self.phases[phase];
        let gain = gbps / local_gbps;
        if !self.counted {
            return gain;
        }
        let per_thread = local_gbps / (self.threads * active);
        let traffic = self.traffic.of_pressure(per_thread * gain, per_thread);
        gain * libm::pow(traffic, -self.behaviour.traffic_relief)
    }
}

impl Forecast<'_> {
    /// Returns the workload with `threads` threads as a single behaviour (set of thread
    /// properties): the one whose predictions are nearest to the median over all behaviours that
    /// agree with the runs.
    pub fn program(&self, threads: f64) -> Program {
        let local = self.local(threads);
        let tiers = self.platform.tiers.len();
        let weights = COMPARED.map(|first| {
            let mut weights = vec![0; tiers];
            weights[0] = first;
            if let Some(second) = weights.get_mut(1) {
                *second = 100 - first;
            }
            Weights::new(weights).unwrap_or_else(|_| Weights::first_tier(tiers))
        });
        // For each behaviour, its predictions: the logarithm of its bandwidth on the first tier,
        // then the logarithms of its speed-ups at `weights`.
        let answers: Vec<Vec<f64>> = (0..self.behaviours.len())
            .map(|member| {
                let mut ignored = vec![];
                let own = weights
                    .iter()
                    .map(|weights| self.outcome(member, &local, weights, &mut ignored).speedup);
                std::iter::once(local.reached_gbps[member][0]).chain(own).map(libm::log).collect()
            })
            .collect();
        // Each of `answers` has the predictions of one behaviour: index 0 is the bandwidth on the
        // first tier; the speed-ups begin at index 1.
        let speedup = |at: usize| {
            let own = answers.iter().map(|answer| libm::exp(answer[1 + at])).collect();
            (weights[at].clone(), Estimate::of(own).with_model_spread())
        };
        let undecided = widest_undecided((0..weights.len()).map(speedup));
        // The median is used, not the mean. If two different causes agree with the runs, the
        // behaviours form two groups, and the mean would lie between the groups, where no behaviour
        // is.
        let median = |at: usize| {
            let own = answers.iter().map(|answer| answer[at]).collect();
            statistics::quantile(&statistics::sorted(own), 0.5)
        };
        let mut centre: Vec<f64> = (0..=COMPARED.len()).map(median).collect();
        if let Some(gbps) = local.counted_gbps {
            centre[0] = libm::log(gbps);
        }
        let distance = |answer: &Vec<f64>| -> f64 {
            let square = |at: usize| (answer[at] - centre[at]) * (answer[at] - centre[at]);
            COUNTED_WEIGHT * square(0) + (1..centre.len()).map(square).sum::<f64>()
        };
        let nearest = (0..answers.len())
            .min_by(|a, b| distance(&answers[*a]).total_cmp(&distance(&answers[*b])))
            .unwrap_or(0);
        Program { undecided, ..self.program_of(nearest, threads, local) }
    }

    fn program_of(
        &self,
        member: usize,
        threads: f64,
        local: super::workload::Local<'_>,
    ) -> Program {
        let behaviour = self.behaviours[member];
        let first_tier = Weights::first_tier(self.platform.tiers.len());
        let whole = self.whole(&behaviour, threads, first_tier.shares());
        // Index 0 of the loads and of the bandwidths is for the whole run and is skipped; the
        // phases follow.
        let loads = self.loads(&behaviour, threads, &first_tier).into_iter().skip(1);
        let mut reached = local.reached_gbps[member].iter();
        let whole_gbps = reached.next();
        let mut phases: Vec<ProgramPhase> = self
            .demand
            .phases
            .iter()
            .zip(loads.zip(reached))
            .map(|(phase, (load, gbps))| ProgramPhase {
                work: phase.share_of_time,
                active: 1.0,
                load,
                local_gbps: *gbps,
            })
            .collect();
        if let (true, Some(gbps)) = (phases.is_empty(), whole_gbps) {
            let load = whole.clone();
            phases.push(ProgramPhase { work: 1.0, active: 1.0, load, local_gbps: *gbps });
        }
        let local_result = self.demand.result(local.performance);
        let local_runtime_s = match self.demand.metric {
            crate::demand::Metric::Runtime => local_result,
            crate::demand::Metric::Rate(_) => RATE_RUN_S,
        };
        Program {
            behaviour,
            local_runtime_s,
            local_result,
            extrapolated: local.extrapolated,
            undecided: None,
            threads,
            traffic: self.traffic.clone(),
            counted: local.counted_gbps.is_some(),
            whole,
            phases,
        }
    }
}
