//! Runs a named policy on a scenario. The curves that the policy uses may be wrong.

use super::{
    Outcome, Run, Scenario,
    static_best::{StaticBest, static_best},
};
use core::time::Duration;
use interleaf_model::{
    control::Settings,
    curve::CurveError,
    machine::TierLayout,
    platform::Platform,
    policy::{Policy, PolicyContext, PolicyKind},
};

/// A policy and its settings for a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Trial {
    /// The kind of the policy that the run uses.
    pub policy: PolicyKind,
    /// Shares of the tiers in percent for [`PolicyKind::Static`]; `None` for the best static
    /// shares.
    pub points: Option<Vec<u16>>,
    /// The relative error of the curves that the policy uses: see [`with_curve_error`].
    pub curve_error: f64,
    /// Settings of the control loop.
    pub settings: Settings,
}

/// A scenario with its best static shares, with which the outcome of each trial is compared.
pub struct PreparedScenario<'a> {
    scenario: &'a Scenario,
    duration: Duration,
    best_static: Option<StaticBest>,
}

impl<'a> PreparedScenario<'a> {
    /// Finds the best static shares of `scenario` over `duration`.
    pub fn new(scenario: &'a Scenario, duration: Duration) -> Self {
        let best_static = static_best(scenario, duration.as_secs_f64());
        Self { scenario, duration, best_static }
    }

    /// Like [`Self::new`], but with given best static shares. The shares may be from a scenario
    /// that differs only in noise, seed, migration or hotness sampling, because none of these
    /// affects a run with static shares.
    pub const fn with_best(
        scenario: &'a Scenario,
        duration: Duration,
        best_static: Option<StaticBest>,
    ) -> Self {
        Self { scenario, duration, best_static }
    }

    /// Returns the best static shares; `None` if the pages fit into the tiers with none of the
    /// shares that were tried.
    pub const fn best_static(&self) -> Option<&StaticBest> {
        self.best_static.as_ref()
    }

    /// Creates the run of `trial`, before its first period.
    ///
    /// # Errors
    ///
    /// If `curve_error` is -1 or less, or 1 or more, because a curve would have no bandwidth.
    pub fn start(&self, trial: &Trial) -> Result<Run<'a>, CurveError> {
        let layout = self.scenario.layout();
        let believed = with_curve_error(&self.scenario.platform, trial.curve_error)?;
        let policy = |domain: usize, tiers: &[TierLayout]| {
            let near = &layout.domains[domain].tiers;
            let best = self.best_static.as_ref().map(|best| &best.points[domain]);
            let points = trial.points.as_ref().or(best);
            let fixed = fixed(points.map_or(&[], Vec::as_slice), near, tiers);
            trial.policy.make(&PolicyContext {
                domain,
                near,
                tiers,
                believed: &believed,
                fixed: &fixed,
            })
        };
        Ok(Run::new(self.scenario, trial.settings.clone(), self.duration, policy))
    }

    /// Creates a run. For each domain, `policy` is called with the domain's index and local tiers,
    /// and returns the policy of the domain.
    pub fn start_with(
        &self,
        settings: Settings,
        policy: impl Fn(usize, &[TierLayout]) -> Box<dyn Policy>,
    ) -> Run<'a> {
        Run::new(self.scenario, settings, self.duration, policy)
    }

    /// Runs `trial` to its end.
    ///
    /// # Errors
    /// If [`Self::start`] fails.
    pub fn run(&self, trial: &Trial) -> Result<Outcome, CurveError> {
        let mut run = self.start(trial)?;
        while run.period().is_some() {}
        Ok(self.outcome(run))
    }

    /// Returns the outcome of a run that has ended.
    pub fn outcome(&self, run: Run<'a>) -> Outcome {
        run.outcome(self.best_static.clone())
    }
}

/// Returns the shares of the local tiers, in proportion to their percentages in `points`, which has
/// an entry for each tier of the machine. If the local tiers have no percentages above 0, all pages
/// are on the first local tier.
fn fixed(points: &[u16], near: &[usize], tiers: &[TierLayout]) -> Vec<f64> {
    let own: Vec<f64> =
        near.iter().map(|tier| points.get(*tier).copied().map_or(0.0, f64::from)).collect();
    let all: f64 = own.iter().sum();
    if all > 0.0 {
        return own.iter().map(|points| points / all).collect();
    }
    (0..tiers.len()).map(|tier| if tier == 0 { 1.0 } else { 0.0 }).collect()
}

/// Returns `platform` with wrong curves: the bandwidth of the first tier is too low by the fraction
/// `error`, and the bandwidth of every other tier is too high by the same fraction. A negative
/// error is the reverse. Errors in opposite directions are the worst case, because they shift the
/// ratio of the bandwidths. An equal error of all tiers would not shift the ratio.
///
/// # Errors
/// If a curve becomes invalid.
pub fn with_curve_error(platform: &Platform, error: f64) -> Result<Platform, CurveError> {
    let mut believed = platform.clone();
    for (at, tier) in believed.tiers.iter_mut().enumerate() {
        let factor = if at == 0 { 1.0 - error } else { 1.0 + error };
        tier.curves = tier.curves.scaled(factor)?;
    }
    Ok(believed)
}
