//! Simulates a page-migration policy on a machine: the job that `interleaf simulate machine` runs.

use crate::{Progress, check, predict::for_tiers};
use core::time::Duration;
use interleaf_console::Failure;
use interleaf_model::{
    control::Settings,
    machine::TierLayout,
    policy::{Policy, PolicyKind},
    units::{Bandwidth, Percent, Time},
    weights::Weights,
};
use interleaf_record::simulate_machine::{SimulateDocument, TrialParameters};
use interleaf_sim::machine::{
    Outcome, PreparedScenario, Run, Scenario, StaticBest, Trial, static_best,
};

/// Default simulated time, s.
pub const DURATION_S: f64 = 600.0;

/// Number of steps that the simulation of one policy reports to [`Progress`].
const STEPS: u64 = 100;

/// Options that replace settings of a scenario.
#[derive(Clone, Copy, Debug, Default)]
pub struct ScenarioChanges {
    /// The highest migration rate.
    pub migration_rate: Option<Bandwidth>,
    /// Relative standard deviation of a reading of the simulated counters.
    pub counter_noise: Option<Percent>,
    /// The seed of the random errors of counters and of hotness samples.
    pub seed: Option<u64>,
}

impl ScenarioChanges {
    /// Replaces the settings of `scenario` for which an option is given.
    pub fn apply(&self, scenario: &mut Scenario) {
        if let Some(rate) = &self.migration_rate {
            scenario.migration.bandwidth_gbps = rate.gbps();
        }
        if let Some(noise) = &self.counter_noise {
            scenario.counter_noise = noise.fraction();
        }
        if let Some(seed) = self.seed {
            scenario.seed = seed;
        }
    }
}

/// A simulation with all its options. The scenario has already been checked.
#[derive(Clone, Debug)]
pub struct MachineJob {
    /// The machine and its workloads.
    pub scenario: Scenario,
    /// The time that is simulated.
    pub duration: Duration,
    /// The policy that is simulated.
    pub policy: PolicyKind,
    /// Weights of [`PolicyKind::Static`]. Default: the best static weights.
    pub weights: Option<Weights>,
    /// Relative error of the curves that the policy uses.
    pub curve_error: Percent,
    /// True if every other built-in policy is simulated too, for comparison.
    pub compare: bool,
}

/// Makes the policy of a domain, which is a socket or a sub-NUMA cluster. The function is called
/// with the index and the local tiers of the domain.
pub type MakePolicy<'a> = dyn Fn(usize, &[TierLayout]) -> Box<dyn Policy> + 'a;

/// A policy that the caller implements, and that is not one of the built-in policies
/// ([`PolicyKind`]).
pub struct OwnPolicy<'a> {
    /// The name of the policy in the record of the simulation.
    pub name: &'a str,
    /// Called once for each domain; returns the policy of the domain.
    pub make: &'a MakePolicy<'a>,
}

/// Returns the simulated time: `asked` if it is given, otherwise `own`, which is the time in the
/// scenario file, otherwise [`DURATION_S`].
pub fn duration(asked: Option<Time>, own: Option<Time>) -> Duration {
    Duration::from_secs_f64(asked.or(own).map_or(DURATION_S, Time::seconds))
}

/// True if the policy uses curves, and therefore depends on [`MachineJob::curve_error`].
pub const fn uses_curves(policy: PolicyKind) -> bool {
    matches!(policy, PolicyKind::Guided)
}

impl MachineJob {
    /// Simulates the policy, and with `compare` also every other policy.
    ///
    /// # Errors
    /// When weights are given for a policy that is not static or do not match the tiers, when
    /// curves are invalid, or when `progress` stops the job.
    pub fn run(&self, progress: &dyn Progress) -> Result<SimulateDocument, Failure> {
        self.run_beside(&|| self.best_static(), progress)
    }

    /// Returns the best static weights, with which every policy is compared; `None` if the pages do
    /// not fit into the tiers. Jobs that differ only in policy, noise, seed, migration or hotness
    /// sampling have the same best static weights.
    pub fn best_static(&self) -> Option<StaticBest> {
        static_best(&self.scenario, self.duration.as_secs_f64())
    }

    /// Like [`Self::run`], but takes the best static weights from `best`, so that several jobs can
    /// share the result of [`Self::best_static`].
    ///
    /// # Errors
    /// Under the conditions of [`Self::run`].
    pub fn run_beside(
        &self,
        best: &dyn Fn() -> Option<StaticBest>,
        progress: &dyn Progress,
    ) -> Result<SimulateDocument, Failure> {
        let trial = self.trial()?;
        let others = self.others(Some(self.policy))?;
        let prepared = self.prepared(best, progress, &others)?;
        let run = started(&prepared, &trial)?;
        self.compared(&prepared, &self.policy.to_string(), run, &others, progress)
    }

    /// Simulates a policy of the caller in place of the job's policy, and with `compare` also the
    /// built-in policies.
    ///
    /// # Errors
    /// Under the conditions of [`Self::run`].
    pub fn run_own(
        &self,
        own: &OwnPolicy<'_>,
        best: &dyn Fn() -> Option<StaticBest>,
        progress: &dyn Progress,
    ) -> Result<SimulateDocument, Failure> {
        let others = self.others(None)?;
        let prepared = self.prepared(best, progress, &others)?;
        let run = prepared.start_with(Settings::default(), own.make);
        self.compared(&prepared, own.name, run, &others, progress)
    }

    /// Completes `run`, the run of the policy `name`, and then simulates each of the policies in
    /// `others`. Returns the document that compares all of them.
    fn compared<'a>(
        &'a self,
        prepared: &PreparedScenario<'a>,
        name: &str,
        run: Run<'a>,
        others: &[Trial],
        progress: &dyn Progress,
    ) -> Result<SimulateDocument, Failure> {
        let outcome = completed(prepared, run, name, progress)?;
        let mut document = self.document(name, &outcome);
        for trial in others {
            let name = trial.policy.to_string();
            let outcome = completed(prepared, started(prepared, trial)?, &name, progress)?;
            document.add_comparison(&self.scenario, &name, &outcome);
        }
        progress.end();
        Ok(document)
    }

    /// Returns a trial: the job's policy with its settings, weights and curve error. Fails if
    /// weights are given for a policy other than [`PolicyKind::Static`].
    fn trial(&self) -> Result<Trial, Failure> {
        let policy = self.policy;
        if self.weights.is_some() && policy != PolicyKind::Static {
            return Err(Failure::new(
                format!("--weights goes with --policy static: {policy} finds its own"),
                "leave --weights out, or ask for --policy static",
            ));
        }
        let names = self.scenario.platform.tier_names();
        let weights = self.weights.as_ref().map(|weights| for_tiers(weights, &names));
        Ok(Trial {
            policy,
            points: weights.transpose()?.map(|weights| weights.as_slice().to_vec()),
            curve_error: self.curve_error.fraction(),
            settings: Settings::default(),
        })
    }

    /// Returns a trial of each built-in policy except `own`, for the comparison; no trials if the
    /// job has no `compare`.
    fn others(&self, own: Option<PolicyKind>) -> Result<Vec<Trial>, Failure> {
        if !self.compare {
            return Ok(vec![]);
        }
        let trial = self.trial()?;
        let all = PolicyKind::ALL.iter().map(|(kind, ..)| *kind);
        let others = all.filter(|kind| Some(*kind) != own);
        Ok(others.map(|policy| Trial { policy, points: None, ..trial.clone() }).collect())
    }

    fn prepared(
        &self,
        best: &dyn Fn() -> Option<StaticBest>,
        progress: &dyn Progress,
        others: &[Trial],
    ) -> Result<PreparedScenario<'_>, Failure> {
        check(progress)?;
        progress.begin(STEPS * (1 + others.len() as u64), "the best static weights");
        let prepared = PreparedScenario::with_best(&self.scenario, self.duration, best());
        check(progress)?;
        Ok(prepared)
    }

    fn document(&self, policy: &str, outcome: &Outcome) -> SimulateDocument {
        let stated = TrialParameters {
            policy,
            duration_s: self.duration.as_secs_f64(),
            curve_error: self.curve_error.fraction(),
        };
        SimulateDocument::new(&self.scenario, &stated, outcome)
    }
}

fn started<'a>(prepared: &PreparedScenario<'a>, trial: &Trial) -> Result<Run<'a>, Failure> {
    prepared.start(trial).map_err(interleaf_catalog::curve_failure)
}

/// Simulates `run`, the run of the policy `policy`, to its end. Reports the progress, and returns
/// the outcome.
fn completed<'a>(
    prepared: &PreparedScenario<'a>,
    mut run: Run<'a>,
    policy: &str,
    progress: &dyn Progress,
) -> Result<Outcome, Failure> {
    progress.describe(policy);
    let mut reported = 0;
    while run.period().is_some() {
        check(progress)?;
        let done = (run.progress() * STEPS as f64) as u64;
        progress.advance(done.saturating_sub(reported));
        reported = reported.max(done);
    }
    Ok(prepared.outcome(run))
}
