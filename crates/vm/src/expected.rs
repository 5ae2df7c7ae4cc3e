//! Simulates the guest's program `load` under a policy, for comparison with a daemon that steers
//! real pages.
//!
//! Simulation and guest have the same threads on the same platform, and the same hot and cold
//! pages. The guest differs in two points: a real kernel migrates the pages at its own speed, and
//! DAMON estimates which pages are hot. Times are emulated: with `--speed 20`, a second of the
//! guest's clock is 20 emulated seconds.

use core::time::Duration;
use std::{io, path::PathBuf};

use interleaf_guest::load::{self, Emulated};
use interleaf_model::{
    control::Settings, demand::Hotness, policy::PolicyKind, predict::ActivePhase,
    search::best_points, weights::Weights,
};
use interleaf_sim::machine::{
    Migration, Outcome, PreparedScenario, Scenario, Task, Trial, scenario::PAGE_GROUPS,
};

/// Samples in a period of the daemon's loop. By default, the daemon samples every 200 ms and
/// decides every 6 s.
const SAMPLES_PER_PERIOD: u32 = 30;

/// The arguments of a run of the guest's program `load`, and the migration rate of its simulation.
#[derive(Clone, Debug, PartialEq)]
pub struct Expected {
    /// The platform's file, on the host.
    pub platform: PathBuf,
    /// The demand's file, on the host.
    pub demand: PathBuf,
    /// The value of the option `--threads` of `load`.
    pub threads: u32,
    /// The value of the option `--hot` of `load`, bytes.
    pub hot_bytes: u64,
    /// The value of the option `--cold` of `load`, bytes.
    pub cold_bytes: u64,
    /// The values of the options `--phase` of `load`.
    pub phases: Vec<ActivePhase>,
    /// Migration rate in emulated time, GB/s.
    pub migration_gbps: f64,
}

/// The placement of the hot pages with which the threads of a phase are fastest.
#[derive(Clone, Debug, PartialEq)]
pub struct Best {
    /// The percentage of the hot pages on each tier. The percentages sum to 100.
    pub weights: Weights,
    /// Speed with these weights, divided by the speed with all pages on the first tier.
    pub speed: f64,
    /// Bandwidth of each tier with these weights, GB/s.
    pub tier_bandwidth_gbps: Vec<f64>,
}

/// The target and the placement at the end of a simulated run of a policy.
#[derive(Clone, Debug, PartialEq)]
pub struct Settled {
    /// Time from which the target stays within 3 percentage points of its last value; `None` if no
    /// such time exists.
    pub after: Option<Duration>,
    /// The last target of the policy: the share of the hot pages that each tier should have.
    pub shares: Vec<f64>,
    /// The shares of the hot pages that are on each tier at the end.
    pub reached: Vec<f64>,
    /// All periods of the simulated run.
    pub outcome: Outcome,
}

impl Expected {
    /// Creates a run of `load` with the files `platform` and `demand`, in which all `threads`
    /// threads are active. The run has no cold pages, and the default migration rate of a scenario.
    #[must_use]
    pub fn new(platform: PathBuf, demand: PathBuf, threads: u32, hot_bytes: u64) -> Self {
        let migration_gbps = Migration::default().bandwidth_gbps;
        let (cold_bytes, phases) = (0, vec![]);
        Self { platform, demand, threads, hot_bytes, cold_bytes, phases, migration_gbps }
    }

    /// Builds the workload that the guest's program `load` emulates, from the platform file and the
    /// demand file that `load` also reads.
    ///
    /// # Errors
    ///
    /// If one of the files cannot be read.
    pub fn emulated(&self) -> io::Result<Emulated> {
        let (platform, measured_on, demand) = load::read(&self.platform, &self.demand)?;
        Ok(Emulated::new(platform, &measured_on, &demand, self.threads, &self.phases))
    }

    /// Returns the best weights of each phase, in the order of the phases.
    ///
    /// # Errors
    ///
    /// If [`Self::emulated`] fails.
    pub fn best(&self) -> io::Result<Vec<Best>> {
        let emulated = self.emulated()?;
        let shares = |points: &[u16]| {
            points.iter().map(|point| f64::from(*point) / 100.0).collect::<Vec<_>>()
        };
        let best = |phase: usize| {
            let score = |points: &[u16]| Some(emulated.reached(phase, &shares(points)).speed);
            let (points, speed) = best_points(emulated.tiers(), score)
                .ok_or_else(|| io::Error::other("no weights are allowed"))?;
            let reached = emulated.reached(phase, &shares(&points));
            let weights = Weights::new(points).map_err(io::Error::other)?;
            Ok(Best { weights, speed, tier_bandwidth_gbps: reached.tier_bandwidth_gbps })
        };
        (0..emulated.phases()).map(best).collect()
    }

    /// Returns the scenario that simulates this run of `load`. The simulated counters have no
    /// noise, because the counts that `load` feeds to the daemon have none.
    ///
    /// # Errors
    ///
    /// If a file cannot be read, or the pages do not fit into the tiers.
    pub fn scenario(&self) -> io::Result<Scenario> {
        let (platform, measured_on, demand) = load::read(&self.platform, &self.demand)?;
        let mut task = Task::new(&platform, &measured_on, &demand, self.threads);
        if !self.phases.is_empty() {
            task.program = task.program.with_active_phases(&platform, &self.phases);
        }
        task.footprint_bytes = self.hot_bytes + self.cold_bytes;
        task.hotness = match self.cold_bytes {
            0 => Hotness::Uniform,
            _ => Hotness::HotSet {
                pages: self.hot_bytes as f64 / task.footprint_bytes as f64,
                accesses: 1.0,
            },
        };
        let migration = Migration { bandwidth_gbps: self.migration_gbps, ..Migration::default() };
        let pages = usize::try_from(task.footprint_bytes / migration.page_bytes);
        let scenario = Scenario {
            migration,
            page_groups: pages.map_or(PAGE_GROUPS, |pages| pages.min(PAGE_GROUPS)),
            counter_noise: 0.0,
            ..Scenario::new("load", platform, vec![task])
        };
        scenario.check().map_err(io::Error::other)?;
        Ok(scenario)
    }

    /// Simulates a policy that decides every `period`, for the duration `within`. Model-based
    /// policies get the exact curves of the platform.
    ///
    /// # Errors
    ///
    /// If [`Self::scenario`] fails.
    pub fn settles(
        &self,
        policy: PolicyKind,
        period: Duration,
        within: Duration,
    ) -> io::Result<Settled> {
        let scenario = self.scenario()?;
        let sample = period / SAMPLES_PER_PERIOD;
        let settings = Settings { sample, period, ..Settings::default() };
        let trial = Trial { policy, points: None, curve_error: 0.0, settings };
        let outcome =
            PreparedScenario::new(&scenario, within).run(&trial).map_err(io::Error::other)?;
        let last = outcome.periods.last().ok_or_else(|| io::Error::other("no period has ended"))?;
        Ok(Settled {
            after: outcome.converged_after_s.map(Duration::from_secs_f64),
            shares: last.target.clone(),
            reached: last.reached.clone(),
            outcome,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::in_workspace;

    const PERIOD: Duration = Duration::from_secs(6);

    fn lbm() -> Expected {
        let platform = in_workspace("platforms/gnr120-cz122.toml");
        Expected::new(platform, in_workspace("workloads/lbm.toml"), 119, 128 << 20)
    }

    fn cxl_points(shares: &[f64]) -> f64 {
        100.0 * shares[1]
    }

    /// The policy `dmi`, which searches, and the policy `guided`, which knows the curves, settle at
    /// the optimum of the model.
    #[test]
    fn policies_settle_at_the_optimum() {
        let run = lbm();
        let best = &run.best().unwrap()[0];
        let at = cxl_points(&best.weights.shares());
        assert!((25.0..45.0).contains(&at) && best.speed > 1.2, "{best:?}");
        for policy in [PolicyKind::Dmi, PolicyKind::Guided] {
            let settled = run.settles(policy, PERIOD, Duration::from_secs(300)).unwrap();
            let target = cxl_points(&settled.shares);
            assert!((target - at).abs() <= 6.0, "{policy}: {target}, best {at}");
            assert!((cxl_points(&settled.reached) - target).abs() < 1.0, "{policy}");
            assert!(settled.after.unwrap() <= Duration::from_secs(150), "{policy}");
        }
    }

    /// In the second phase only a tenth of the threads are active. They do not saturate the first
    /// tier, so the best placement has all pages on the first tier.
    #[test]
    fn each_phase_has_its_best() {
        let phases = [(120.0, 1.0), (120.0, 0.1)];
        let phases = phases.map(|(local_s, active)| ActivePhase { local_s, active }).to_vec();
        let run = Expected { phases, cold_bytes: 64 << 20, ..lbm() };
        let best = run.best().unwrap();
        let [many, few] = &best[..] else { panic!("{best:?}") };
        assert!(many.weights.shares()[0] < 0.8, "{many:?}");
        assert_eq!(few.weights.to_string(), "100:0", "{few:?}");
        let settled = run.settles(PolicyKind::Dmi, PERIOD, Duration::from_secs(200)).unwrap();
        let busy =
            |time_s: f64| settled.outcome.periods.iter().rfind(|it| it.time_s < time_s).unwrap();
        assert!(busy(85.0).reached[1] > 0.2, "{:?}", busy(85.0));
        let gbps = settled.outcome.periods.last().unwrap().bandwidth_gbps();
        assert!(gbps < 0.6 * busy(85.0).bandwidth_gbps(), "{gbps}");
    }
}
