//! The control loop: sample, wait until migration ends, ask the policy, apply the guards, steer.
//!
//! Counters are read every 200 ms, and a policy decides every 6 s (slides "Dynamic memory
//! interleaving for tiered memory", Micron, 7 August 2025). A window ([`window`]) has the samples
//! of one period and filters their noise: samples with migration are left out, and the 90th
//! percentile of the other samples represents the period. If the load varies within a period, only
//! the samples under load are used. With too few quiet samples (samples without migration) the loop
//! holds off: it waits another period, because the effect of the last decision is not visible yet.
//! The number of such periods is limited ([`Settings::hold_off_max`]).
//!
//! ```text
//! time     0 s                    6 s                   12 s
//! samples  | | | | | | | | | | | | | | | | | | | | | | | | |
//! pages    |     no migration     | migrate |no migration |
//! used     |______________________|         |_____________|
//! policy                          ^ decides               ^ decides
//! ```
//!
//! Each domain has its own policy, which observes the tiers near the domain. Each decision passes
//! the guards ([`guard`]) before it is applied: pages must fit, a change that overloaded a tier is
//! undone by half, and a change that lowered the bandwidth is rolled back ([`rollback`]).
//!
//! The same loop drives a simulated machine and a real one. The loop reads no clock: each sample
//! has its duration.

mod guard;
mod rollback;
mod window;

use crate::{
    machine::{Decision, Layout, Machine, Target, TierLayout},
    policy::{Observation, Policy, Verdict},
};
use core::time::Duration;
use guard::Guards;
use window::Window;

/// Maximum number of periods for which the control loop waits for a migration to begin. DAMON
/// begins within two seconds, or later if the CPUs are busy. The wait is limited, because the
/// migration of pages that cannot be moved never begins.
const BEGIN_MAX: usize = 3;

/// The intervals and limits of the control loop.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// The span of one sample. Default: 200 ms (DMI slides).
    pub sample: Duration,
    /// The span after which the policies decide. Default: 6 s (DMI slides).
    pub period: Duration,
    /// The quantile, 0 to 1, of the samples' bandwidths that represents a period. Default: 0.9 (DMI
    /// slides).
    pub percentile: f64,
    /// Minimum number of quiet samples (samples without migration) that must follow the last
    /// migration before a policy decides. On a busy machine, where a sample takes longer, two or
    /// more quiet samples are enough if together they last `quiet_min` times [`Settings::sample`].
    /// Default: 5, which is one second.
    pub quiet_min: usize,
    /// Maximum number of periods for which the control loop waits for the end of a migration.
    /// Afterwards it decides although pages still migrate: by the quiet samples of the period, or
    /// by all samples if none is quiet. Default: 20, which is two minutes: 400 GB migrate in this
    /// time at 3.5 GB/s.
    pub hold_off_max: usize,
    /// A sample is quiet if its migrated bytes are at most this fraction (0 to 1) of the bytes of
    /// its traffic. Default: 0.002.
    pub migration_floor: f64,
    /// A sample is also not quiet if more than this fraction (0 to 1) of a scope's pages has
    /// migrated in it. If the scope is small and the traffic is heavy,
    /// [`Settings::migration_floor`] misses such a migration. Default: `None`, which disables the
    /// check.
    pub placement_floor: Option<f64>,
    /// The highest migration rate, GB/s; `None` for no limit. Default: `None`.
    pub rate_limit_gbps: Option<f64>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            sample: Duration::from_millis(200),
            period: Duration::from_secs(6),
            percentile: 0.9,
            quiet_min: 5,
            hold_off_max: 20,
            migration_floor: 0.002,
            placement_floor: None,
            rate_limit_gbps: None,
        }
    }
}

/// The control loop. It steers a machine, with one policy for each domain.
pub struct Controller {
    settings: Settings,
    domains: Vec<DomainControl>,
    elapsed: Duration,
}

/// The control loop's state for one domain (a socket or sub-NUMA cluster): its policy, target,
/// window and guards.
struct DomainControl {
    domain: usize,
    /// Indices of the tiers near the domain, into [`Layout::tiers`].
    near: Vec<usize>,
    /// Indices of the scopes (sets of pages) that the domain's policy steers, into
    /// [`Layout::scopes`].
    scopes: Vec<usize>,
    policy: Box<dyn Policy>,
    target: Vec<f64>,
    window: Window,
    guards: Guards,
    held_off: usize,
}

/// The traffic, the observations and the decisions of a control period.
#[derive(Clone, Debug, PartialEq)]
pub struct Period {
    /// End of the period, s after the start of the control loop.
    pub time_s: f64,
    /// The record of each domain, in the order of [`Layout::domains`].
    pub domains: Vec<DomainPeriod>,
}

/// The traffic, the observation and the decision of one domain in a control period.
#[derive(Clone, Debug, PartialEq)]
pub struct DomainPeriod {
    /// Mean bandwidth of each tier near the domain, GB/s, over the samples in which the bytes of
    /// these tiers were counted.
    pub tier_bandwidth_gbps: Vec<f64>,
    /// Mean latency of each tier near the domain, ns; `None` if the latency was not counted, or if
    /// the tier got no requests.
    pub tier_latency_ns: Vec<Option<f64>>,
    /// Bytes of the pages that migrated to any of the tiers near the domain.
    pub migrated_bytes: u64,
    /// The observation that the policy received. `None` if the policy was not asked: a migration
    /// had not begun or was not complete, there were too few samples, or no bytes were counted.
    pub seen: Option<Observation>,
    /// The shares that the policy decided on, after the guards, which may have changed them. If the
    /// policy was not asked, the verdict keeps the target.
    pub verdict: Verdict,
}

impl Controller {
    /// Creates a control loop for a machine with `layout`. For each domain, `policy` is called with
    /// the domain's index and the tiers near the domain, and returns the policy of the domain.
    pub fn new(
        layout: &Layout,
        settings: Settings,
        policy: impl Fn(usize, &[TierLayout]) -> Box<dyn Policy>,
    ) -> Self {
        let domains = layout.domains.iter().enumerate().map(|(at, domain)| {
            let near: Vec<TierLayout> =
                domain.tiers.iter().map(|tier| layout.tiers[*tier].clone()).collect();
            let steered =
                |scope: &usize| layout.scopes[*scope].domain == at && layout.scopes[*scope].steered;
            let policy = policy(at, &near);
            DomainControl {
                domain: at,
                near: domain.tiers.clone(),
                scopes: (0..layout.scopes.len()).filter(steered).collect(),
                target: policy.start(),
                policy,
                window: Window::new(near.len()),
                guards: Guards::new(near),
                held_off: 0,
            }
        });
        Self { domains: domains.collect(), settings, elapsed: Duration::ZERO }
    }

    /// The target shares that the scopes of `domain` have before the first observation. `tiers` is
    /// the number of tiers of the machine; each of them has one share.
    pub fn start(&self, domain: usize, tiers: usize) -> Vec<f64> {
        let control = &self.domains[domain];
        control.of_machine(&control.target, tiers)
    }

    /// Runs one period on `machine`: samples, decides and steers. The period lasts
    /// `Settings::period`, or `at_most` if that is shorter. It ends earlier once the policies of
    /// all domains have enough samples.
    ///
    /// # Errors
    /// If the machine cannot be observed or steered.
    pub fn period<M: Machine>(
        &mut self,
        machine: &mut M,
        at_most: Duration,
    ) -> Result<Period, M::Error> {
        let begun = self.elapsed;
        let span = self.settings.period.min(at_most);
        for control in &mut self.domains {
            control.window.clear();
        }
        while self.elapsed - begun < span {
            let left = span - (self.elapsed - begun);
            let wait = self.settings.sample.min(left);
            machine.advance(wait)?;
            let sample = machine.observe(wait)?;
            self.elapsed += sample.span;
            let settings = &self.settings;
            for control in &mut self.domains {
                let reading = control.window.add(
                    &sample,
                    control.domain,
                    &control.near,
                    &control.scopes,
                    settings,
                );
                control.policy.watch(&reading);
            }
            if self.domains.iter().all(|control| control.policy.enough(control.window.quiet())) {
                break;
            }
        }
        let time_s = self.elapsed.as_secs_f64();
        let layout_tiers = machine.layout().tiers.len();
        let mut decision = Decision::default();
        let mut domains = Vec::with_capacity(self.domains.len());
        for control in &mut self.domains {
            let period = control.decide(time_s, &self.settings);
            let shares = control.of_machine(&control.target, layout_tiers);
            let targets = control.scopes.iter().map(|scope| Target {
                scope: *scope,
                shares: shares.clone(),
                order: period.verdict.order,
                rate_limit_gbps: self.settings.rate_limit_gbps,
            });
            decision.targets.extend(targets);
            domains.push(period);
        }
        machine.apply(&decision)?;
        Ok(Period { time_s, domains })
    }
}

impl DomainControl {
    /// Asks the policy for a verdict and applies the guards to it. The target stays unchanged if no
    /// bytes were counted. It also stays unchanged, but only for a limited number of periods
    /// ([`BEGIN_MAX`], [`Settings::hold_off_max`]), if a migration has not begun or is not
    /// complete, or if there are too few samples.
    fn decide(&mut self, time_s: f64, settings: &Settings) -> DomainPeriod {
        let has_not_begun = !self.window.has_begun(settings) && self.held_off < BEGIN_MAX;
        let is_moving = !self.window.is_quiet(settings) && self.held_off < settings.hold_off_max;
        let seen = if has_not_begun || is_moving {
            None
        } else {
            self.window.observation(time_s, self.target.clone(), &self.scopes, settings)
        };
        let verdict = match &seen {
            Some(seen) => {
                self.held_off = 0;
                self.guards.pass(seen, self.policy.decide(seen))
            }
            None => {
                self.held_off += 1;
                let shares = self.target.clone();
                let why = if !self.window.is_counted() {
                    "nothing was counted: there is no bandwidth to judge by"
                } else if has_not_begun {
                    "migration has not begun: the period is not judged"
                } else if self.window.has_migrated() {
                    "pages still migrate: the period is not judged"
                } else {
                    "there were too few readings: the period is not judged"
                };
                Verdict { order: self.guards.order(), ..Verdict::interleave(shares, "wait", why) }
            }
        };
        if seen.is_some() {
            self.window.send(&self.near, &verdict.shares, &self.target, settings);
        }
        self.target.clone_from(&verdict.shares);
        DomainPeriod {
            tier_bandwidth_gbps: self.window.tier_bandwidth_gbps(),
            tier_latency_ns: self.window.tier_latency_ns(),
            migrated_bytes: self.window.migrated_bytes(),
            seen,
            verdict,
        }
    }

    /// Converts `shares`, which has one share for each tier near the domain, to one share for each
    /// of the `tiers` tiers of the machine. Tiers that are not near the domain get 0.
    fn of_machine(&self, shares: &[f64], tiers: usize) -> Vec<f64> {
        let mut all = vec![0.0; tiers];
        for (tier, share) in self.near.iter().zip(shares) {
            all[*tier] = *share;
        }
        all
    }
}
