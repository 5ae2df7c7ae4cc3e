//! Tests of the control loop and of all policies on a synthetic machine.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod guided;
mod responding;

use core::time::Duration;
use interleaf_model::{
    control::{Controller, Period, Settings},
    curve::{Curve, CurvePoint},
    machine::{
        Decision, DomainLayout, Layout, Machine, Order, Residency, Sample, ScopeKind, ScopeLayout,
        Target, TierLayout, TierMemory, Traffic,
    },
    mix::Mix,
    platform::{Cpu, Domain, Interleaving, Platform},
    policy::{
        Observation, Policy, PolicyContext, PolicyKind, Reading, TierObservation, TierReading,
        Verdict,
    },
    provenance::Figure,
    tier::{Curves, MixCurve, Tier, TierKind},
    units::Bytes,
};
use proptest::prelude::*;
use std::{cell::RefCell, rc::Rc};

const GB: u64 = 1_000_000_000;
const MS: fn(u64) -> Duration = Duration::from_millis;

// --- A synthetic machine -------------------------------------------------------------------------

/// A machine with a DRAM tier and a CXL tier for each domain, first all DRAM tiers, then all CXL
/// tiers. A domain's bandwidth follows from its demand, its tiers and the shares of its pages.
struct Fake {
    layout: Layout,
    /// Shares of each scope's pages on the tiers: `placed` at present, `goals` from the last
    /// decision.
    placed: Vec<Vec<f64>>,
    goals: Vec<Vec<f64>>,
    /// The demand of the threads of each domain, GB/s.
    demand_gbps: Vec<f64>,
    /// `lag` is the time from a decision to the start of its migration, `delay` the migration's
    /// length.
    lag: Duration,
    delay: Duration,
    now: Duration,
    /// Start and end of the migration, as times of `now`; `None` without a migration.
    moving: Option<[Duration; 2]>,
    /// During a migration, the counters show the true bandwidth multiplied by this factor.
    useless: f64,
    counts_bytes: bool,
    counts_latency: bool,
    /// The 1-based indices of the observation and of the decision that fail; `None` if none fails.
    fails_at: (Option<usize>, Option<usize>),
    spans: Vec<Duration>,
    applied: Vec<Decision>,
}

#[derive(Debug, PartialEq)]
enum Broken {
    Counter(usize),
    Goal(usize),
}

const CARRIES_GBPS: [f64; 2] = [500.0, 250.0];
const IDLE_NS: [f64; 2] = [120.0, 220.0];

impl Fake {
    fn new(domains: usize, scopes: &[(usize, bool)]) -> Self {
        let tier = |kind: usize, at: usize| TierLayout {
            name: format!("{}{at}", ["dram", "cxl"][kind]),
            kind: [TierKind::Dram, TierKind::Cxl][kind],
            capacity_bytes: 512 * GB,
            rated_gbps: CARRIES_GBPS[kind],
            rated_latency_ns: IDLE_NS[kind],
        };
        let domain = |at: usize| DomainLayout {
            name: format!("socket{at}"),
            cores: 64,
            tiers: vec![at, domains + at],
        };
        let scope = |(at, (domain, steered)): (usize, &(usize, bool))| ScopeLayout {
            name: format!("scope{at}"),
            kind: ScopeKind::Cgroup,
            domain: *domain,
            steered: *steered,
        };
        let local = |(domain, _): &(usize, bool)| {
            (0..2 * domains).map(|tier| if tier == *domain { 1.0 } else { 0.0 }).collect()
        };
        let placed: Vec<Vec<f64>> = scopes.iter().map(local).collect();
        Self {
            layout: Layout {
                domains: (0..domains).map(domain).collect(),
                tiers: (0..2 * domains).map(|at| tier(at / domains, at % domains)).collect(),
                scopes: scopes.iter().enumerate().map(scope).collect(),
            },
            goals: placed.clone(),
            placed,
            demand_gbps: vec![1000.0; domains],
            lag: Duration::ZERO,
            delay: Duration::ZERO,
            now: Duration::ZERO,
            moving: None,
            useless: 3.0,
            counts_bytes: true,
            counts_latency: true,
            fails_at: (None, None),
            spans: vec![],
            applied: vec![],
        }
    }

    fn moves(&self) -> bool {
        self.moving.is_some_and(|[begin, _]| begin <= self.now)
    }

    /// The bandwidth of `domain`, GB/s, if the fraction `first` of its pages is on its first tier.
    fn reaches(&self, domain: usize, first: f64) -> f64 {
        let most = |share: f64, gbps: f64| if share > 0.0 { gbps / share } else { f64::INFINITY };
        let carried = most(first, CARRIES_GBPS[0]).min(most(1.0 - first, CARRIES_GBPS[1]));
        self.demand_gbps[domain].min(carried)
    }

    /// The fraction of the pages of `domain` that is on its first tier.
    fn first(&self, domain: usize) -> f64 {
        let own = |(scope, _): &(&ScopeLayout, _)| scope.domain == domain;
        let scopes = self.layout.scopes.iter().zip(&self.placed).filter(own);
        let shares: Vec<f64> = scopes.map(|(_, placed)| placed[domain]).collect();
        shares.iter().sum::<f64>() / shares.len() as f64
    }

    fn traffic(&self, domain: usize, tier: usize, span: Duration) -> Traffic {
        let domains = self.layout.domains.len();
        let kind = tier / domains;
        let first = self.first(domain);
        let share = match (tier % domains == domain, kind) {
            (false, _) => 0.0,
            (true, 0) => first,
            (true, _) => 1.0 - first,
        };
        // Counters are wrong during a migration, to test that no policy uses such samples.
        let useless = if self.moves() { self.useless } else { 1.0 };
        let gbps = useless * share * self.reaches(domain, first);
        let bytes = gbps * span.as_nanos() as f64;
        let load = gbps / CARRIES_GBPS[kind];
        let latency_ns = IDLE_NS[kind] * (1.0 + 2.0 * load * load);
        let counted = |known: bool, count: f64| known.then_some(count);
        Traffic {
            read_bytes: counted(self.counts_bytes, 0.75 * bytes),
            written_bytes: counted(self.counts_bytes, 0.25 * bytes),
            inserts: counted(self.counts_latency, bytes / 64.0),
            occupancy_ns: counted(self.counts_latency, bytes / 64.0 * latency_ns),
        }
    }
}

impl Machine for Fake {
    type Error = Broken;

    fn layout(&self) -> &Layout {
        &self.layout
    }

    fn observe(&mut self, span: Duration) -> Result<Sample, Broken> {
        self.spans.push(span);
        if self.fails_at.0 == Some(self.spans.len()) {
            return Err(Broken::Counter(self.spans.len()));
        }
        let (domains, tiers) = (self.layout.domains.len(), self.layout.tiers.len());
        let moving = self.moves();
        let memory = TierMemory {
            used_bytes: None,
            free_bytes: Some(400 * GB),
            migrated_in_bytes: Some(if moving { GB } else { 0 }),
            migrated_out_bytes: Some(if moving { GB } else { 0 }),
        };
        let row = |domain| (0..tiers).map(|tier| self.traffic(domain, tier, span)).collect();
        let sample = Sample {
            span,
            traffic: (0..domains).map(row).collect(),
            tier_memory: vec![memory; tiers],
            scopes: vec![Residency::default(); self.placed.len()],
        };
        self.now += span;
        if self.moving.is_some_and(|[_, arrival]| arrival <= self.now) {
            self.moving = None;
            self.placed.clone_from(&self.goals);
        }
        Ok(sample)
    }

    fn apply(&mut self, decision: &Decision) -> Result<(), Broken> {
        self.applied.push(decision.clone());
        if self.fails_at.1 == Some(self.applied.len()) {
            return Err(Broken::Goal(self.applied.len()));
        }
        for Target { scope, shares, .. } in &decision.targets {
            self.goals[*scope].clone_from(shares);
        }
        let begin = self.now + self.lag;
        let moves = self.goals != self.placed && !self.delay.is_zero();
        // A further decision does not delay a migration that is in progress.
        self.moving = moves.then(|| self.moving.unwrap_or([begin, begin + self.delay]));
        if !moves {
            self.placed.clone_from(&self.goals);
        }
        Ok(())
    }
}

/// The observations that a [`Script`] received. The test and the policy share them.
type Shown = Rc<RefCell<Vec<Observation>>>;

/// A policy that decides on the share `firsts[i]` for the first tier in period `i`. After `enough`
/// quiet samples, it can decide before the period ends. It adds its observations to `shown`.
struct Script {
    firsts: Vec<f64>,
    enough: usize,
    shown: Shown,
}

impl Policy for Script {
    fn start(&self) -> Vec<f64> {
        vec![1.0, 0.0]
    }

    fn enough(&self, quiet: usize) -> bool {
        quiet >= self.enough
    }

    fn decide(&mut self, seen: &Observation) -> Verdict {
        let mut shown = self.shown.borrow_mut();
        shown.push(seen.clone());
        let first = self.firsts.get(shown.len() - 1).copied().unwrap_or(seen.target[0]);
        Verdict {
            order: Order::HottestFirst,
            ..Verdict::interleave(vec![first, 1.0 - first], "script", "it is written")
        }
    }
}

/// Creates a control loop over `machine` with a [`Script`] for each domain.
fn scripted(machine: &Fake, settings: Settings, scripts: &[&[f64]]) -> (Controller, Vec<Shown>) {
    paced(machine, settings, scripts, usize::MAX)
}

fn paced(
    machine: &Fake,
    settings: Settings,
    scripts: &[&[f64]],
    enough: usize,
) -> (Controller, Vec<Shown>) {
    let shown: Vec<Shown> = scripts.iter().map(|_| Shown::default()).collect();
    let controller = Controller::new(&machine.layout, settings, |domain, tiers| {
        assert_eq!(tiers.len(), 2);
        let (firsts, shown) = (scripts[domain].to_vec(), shown[domain].clone());
        Box::new(Script { firsts, enough, shown })
    });
    (controller, shown)
}

fn periods(controller: &mut Controller, machine: &mut Fake, count: usize) -> Vec<Period> {
    (0..count).map(|_| controller.period(machine, Duration::MAX).unwrap()).collect()
}

// --- The control loop ---------------------------------------------------------------------------

#[test]
fn a_period_is_made_of_samples() {
    let mut machine = Fake::new(1, &[(0, true)]);
    let (mut controller, shown) = scripted(&machine, Settings::default(), &[&[0.7]]);
    assert_eq!(controller.start(0, 2), [1.0, 0.0]);
    let period = controller.period(&mut machine, Duration::MAX).unwrap();
    assert_eq!((period.time_s, machine.spans.as_slice()), (6.0, &[MS(200); 30][..]));
    let seen = shown[0].borrow()[0].clone();
    assert_eq!((seen.quiet, seen.time_s, seen.target.as_slice()), (30, 6.0, &[1.0, 0.0][..]));
    for gbps in [seen.bandwidth_gbps, seen.mean_gbps, seen.tiers[0].bandwidth_gbps] {
        assert!((gbps - 500.0).abs() < 1e-9, "{gbps}");
    }
    assert!(seen.error_gbps < 1e-9);
    assert!((seen.tiers[0].read_share.unwrap() - 0.75).abs() < 1e-12);
    assert!((seen.tiers[0].latency_ns.unwrap() - 360.0).abs() < 1e-9);
    assert_eq!((seen.tiers[1].read_share, seen.tiers[1].latency_ns), (None, None));
    assert_eq!(period.domains[0].seen, Some(seen));
    // A sample takes 200 ms, so the last sample of a period of 500 ms must be shorter.
    machine.spans.clear();
    let period = controller.period(&mut machine, MS(500)).unwrap();
    assert_eq!(machine.spans, [MS(200), MS(200), MS(100)]);
    assert_eq!(period.time_s, 6.5);
}

#[test]
fn samples_with_migration_are_not_judged() {
    let mut machine = Fake::new(1, &[(0, true)]);
    machine.delay = MS(2400);
    let script = [0.9, 0.8, 0.7, 0.6];
    let (mut controller, shown) = scripted(&machine, Settings::default(), &[&script]);
    let periods = periods(&mut controller, &mut machine, 5);
    let shown = shown[0].borrow();
    assert_eq!(shown.iter().map(|seen| seen.quiet).collect::<Vec<_>>(), [30, 18, 18, 18, 18]);
    for (seen, period) in shown.iter().zip(&periods) {
        let reached = machine.reaches(0, seen.target[0]);
        assert!((seen.bandwidth_gbps - reached).abs() < 1e-9, "{seen:?} at {reached}");
        assert!((seen.mean_gbps - reached).abs() < 1e-9 && seen.error_gbps < 1e-9);
        let counted: f64 = period.domains[0].tier_bandwidth_gbps.iter().sum();
        let moved = period.domains[0].migrated_bytes;
        assert_eq!(moved > 0, counted > reached + 1.0, "what is recorded leaves nothing out");
    }
    // In each of twelve samples, one gigabyte is counted as migrated to each of the two tiers.
    assert_eq!(periods[1].domains[0].migrated_bytes, 24 * GB);
}

#[test]
fn decisions_use_the_actual_placement() {
    // Pages begin to migrate in the middle of a period. The samples before the migration are quiet,
    // but show the old placement. Asserts that decisions do not use them.
    let mut machine = Fake::new(1, &[(0, true)]);
    (machine.lag, machine.delay) = (MS(3000), MS(1000));
    let script = [0.9, 0.8, 0.7, 0.8];
    let (mut controller, shown) = scripted(&machine, Settings::default(), &[&script]);
    periods(&mut controller, &mut machine, 5);
    for seen in shown[0].borrow().iter() {
        let reached = machine.reaches(0, seen.target[0]);
        assert!((seen.bandwidth_gbps - reached).abs() < 1e-9, "{seen:?} at {reached}");
        assert!((seen.mean_gbps - reached).abs() < 1e-9, "{seen:?} at {reached}");
    }
}

#[test]
fn decisions_wait_for_migration_up_to_a_limit() {
    let mut machine = Fake::new(1, &[(0, true)]);
    machine.delay = Duration::from_secs(3600);
    let settings = Settings { hold_off_max: 3, rate_limit_gbps: Some(2.5), ..Settings::default() };
    let (mut controller, shown) = scripted(&machine, settings, &[&[0.8, 0.6]]);
    let periods = periods(&mut controller, &mut machine, 10);
    let judged: Vec<bool> = periods.iter().map(|period| period.domains[0].seen.is_some()).collect();
    // The first decision is made before any migration. Each later decision is made after three
    // periods of waiting (`hold_off_max`), because the migration takes an hour.
    let expected = [true, false, false, false, true, false, false, false, true, false];
    assert_eq!(judged, expected);
    assert_eq!(shown[0].borrow()[1].quiet, 30, "then all samples count");
    for (at, (period, decision)) in periods.iter().zip(&machine.applied).enumerate() {
        let verdict = &period.domains[0].verdict;
        assert_eq!(verdict.action, if judged[at] { "script" } else { "wait" });
        let target = &decision.targets[0];
        assert_eq!(target.shares[0], if at < 4 { 0.8 } else { 0.6 }, "waiting changes nothing");
        assert_eq!((target.order, target.rate_limit_gbps), (Order::HottestFirst, Some(2.5)));
        assert_eq!(target.shares, verdict.shares);
    }
}

#[test]
fn too_few_quiet_samples_are_none() {
    // Of 30 samples, a migration of 4.8 s leaves 6 quiet. One of 5.2 s leaves 4: below `quiet_min`.
    for (delay, judged) in [(MS(4800), true), (MS(5000), true), (MS(5200), false)] {
        let mut machine = Fake::new(1, &[(0, true)]);
        machine.delay = delay;
        let (mut controller, _) = scripted(&machine, Settings::default(), &[&[0.8]]);
        let periods = periods(&mut controller, &mut machine, 3);
        assert_eq!(periods[1].domains[0].seen.is_some(), judged, "{delay:?}");
        assert!(periods[2].domains[0].seen.is_some());
    }
}

#[test]
fn a_period_ends_when_the_policy_has_enough() {
    let mut machine = Fake::new(1, &[(0, true)]);
    machine.delay = MS(3000);
    let (mut controller, shown) = paced(&machine, Settings::default(), &[&[0.8]], 10);
    let periods = periods(&mut controller, &mut machine, 3);
    let ends: Vec<f64> = periods.iter().map(|period| period.time_s).collect();
    assert_eq!(ends, [2.0, 7.0, 9.0], "3 s of migration, then ten samples");
    assert!(shown[0].borrow().iter().all(|seen| seen.quiet == 10));
}

#[test]
fn a_period_lasts_until_every_domain_has_enough() {
    let mut machine = Fake::new(2, &[(0, true), (1, true)]);
    let (controller_settings, shown) = (Settings::default(), [Shown::default(), Shown::default()]);
    let mut controller = Controller::new(&machine.layout, controller_settings, |domain, _| {
        let enough = [5, 12][domain];
        Box::new(Script { firsts: vec![], enough, shown: shown[domain].clone() })
    });
    let period = controller.period(&mut machine, Duration::MAX).unwrap();
    assert_eq!(period.time_s, 2.4);
    assert!(shown.iter().all(|shown| shown.borrow()[0].quiet == 12));
}

#[test]
fn a_change_that_makes_things_worse_is_taken_back() {
    let mut machine = Fake::new(1, &[(0, true)]);
    // The bandwidth is 625 GB/s with 0.8 of the pages on the first tier, but only 417 with 0.4.
    let (mut controller, _) = scripted(&machine, Settings::default(), &[&[0.8, 0.4, 0.4, 0.4]]);
    let periods = periods(&mut controller, &mut machine, 4);
    let verdicts = periods.iter().map(|period| &period.domains[0].verdict);
    let actions: Vec<&str> = verdicts.map(|verdict| verdict.action).collect();
    assert_eq!(actions, ["script", "script", "roll-back", "hold"]);
    let applied = machine.applied.iter().map(|decision| decision.targets[0].shares[0]);
    assert_eq!(applied.collect::<Vec<_>>(), [0.8, 0.4, 0.8, 0.8]);
}

#[test]
fn errors_pass_through() {
    let mut machine = Fake::new(1, &[(0, true)]);
    machine.fails_at = (Some(33), None);
    let (mut controller, _) = scripted(&machine, Settings::default(), &[&[]]);
    assert!(controller.period(&mut machine, Duration::MAX).is_ok());
    let broken = controller.period(&mut machine, Duration::MAX);
    assert_eq!(broken, Err(Broken::Counter(33)));
    assert_eq!(machine.applied.len(), 1, "nothing is decided on half a period");
    // The control loop must work again after a period that ended with an error.
    assert!(controller.period(&mut machine, Duration::MAX).is_ok());

    machine.fails_at = (None, Some(3));
    assert_eq!(controller.period(&mut machine, Duration::MAX), Err(Broken::Goal(3)));
}

#[test]
fn each_domain_decides_for_its_own_scopes() {
    let scopes = [(0, true), (1, true), (0, false), (1, true), (1, false)];
    let mut machine = Fake::new(2, &scopes);
    machine.demand_gbps = vec![1000.0, 300.0];
    let (mut controller, shown) =
        scripted(&machine, Settings::default(), &[&[0.75, 0.5], &[1.0, 0.9]]);
    assert_eq!(controller.start(1, 4), [0.0, 1.0, 0.0, 0.0]);
    let periods = periods(&mut controller, &mut machine, 2);
    assert_eq!(periods[0].domains.len(), 2);
    for (decision, [own, other]) in machine.applied.iter().zip([[0.75, 1.0], [0.5, 0.9]]) {
        let steered: Vec<usize> = decision.targets.iter().map(|target| target.scope).collect();
        assert_eq!(steered, [0, 1, 3], "scopes that are not steered are in no decision");
        assert_eq!(decision.targets[0].shares, [own, 0.0, 1.0 - own, 0.0]);
        for target in &decision.targets[1..] {
            assert_eq!(target.shares, [0.0, other, 0.0, 1.0 - other]);
        }
    }
    // Each policy must observe only the traffic of its own domain, on the tiers near this domain.
    let shown = shown.iter().map(|shown| shown.borrow()[0].mean_gbps);
    let means: Vec<f64> = shown.collect();
    assert!((means[0] - 500.0).abs() < 1e-9 && (means[1] - 300.0).abs() < 1e-9, "{means:?}");
}

// --- Every policy -------------------------------------------------------------------------------

/// The platform whose curves the policies use; the first two curves end at [`Fake`]'s bandwidths.
fn platform(tiers: usize) -> Platform {
    let figure = || Figure::assumed("test");
    let tier = |at: usize| {
        let kind = at.min(1);
        let (gbps, idle) = (CARRIES_GBPS[kind] / (at as f64).max(1.0), IDLE_NS[kind]);
        let point = |part: f64, factor: f64| {
            let (bandwidth_gbps, latency_ns) = (part * gbps, factor * idle);
            CurvePoint { bandwidth_gbps, latency_ns, figure: figure() }
        };
        let points = vec![point(0.0, 1.0), point(0.6, 1.3), point(0.9, 2.0), point(1.0, 4.0)];
        let curve = Curve::new(points).unwrap();
        Tier {
            name: format!("tier{at}"),
            kind: [TierKind::Dram, TierKind::Cxl][kind],
            capacity: Bytes::new(512 * GB),
            curves: Curves::new(vec![MixCurve { domain: None, mix: Mix::READ, curve }]).unwrap(),
            power: None,
            queue_counters: None,
            count: None,
        }
    };
    Platform {
        name: "test".into(),
        source: "test".into(),
        cpu: Cpu { cores: 64, outstanding_lines_per_core: 48.0, uncore_latency_ns: 40.0 },
        domains: vec![Domain { name: "cpu".into(), cores: 64 }],
        tiers: (0..tiers).map(tier).collect(),
        links: vec![],
        couplings: vec![],
        interleaving: Interleaving { page_streams: 16, figure: figure() },
        power: None,
    }
}

fn layouts(platform: &Platform) -> Vec<TierLayout> {
    let layout = |tier: &Tier| TierLayout {
        name: tier.name.clone(),
        kind: tier.kind,
        capacity_bytes: tier.capacity.get(),
        rated_gbps: tier.curves.of(Mix::READ).unwrap().max_bandwidth_gbps(),
        rated_latency_ns: tier.curves.of(Mix::READ).unwrap().idle_latency_ns(),
    };
    platform.tiers.iter().map(layout).collect()
}

/// Creates one policy of each kind, for a domain near all tiers of a platform of `tiers` tiers.
fn every_policy(tiers: usize) -> Vec<(PolicyKind, Box<dyn Policy>)> {
    let believed = platform(tiers);
    let near: Vec<usize> = (0..tiers).collect();
    let mut fixed = vec![0.0; tiers];
    (fixed[0], fixed[tiers - 1]) = (0.6, 0.4);
    let layouts = layouts(&believed);
    let place = PolicyContext {
        domain: 0,
        near: &near,
        tiers: &layouts,
        believed: &believed,
        fixed: &fixed,
    };
    PolicyKind::ALL.iter().map(|(kind, ..)| (*kind, kind.make(&place))).collect()
}

fn check(kind: PolicyKind, shares: &[f64], tiers: usize) -> Result<(), TestCaseError> {
    prop_assert_eq!(shares.len(), tiers, "{}", kind);
    prop_assert!(shares.iter().all(|share| (0.0..=1.0).contains(share)), "{kind}: {shares:?}");
    prop_assert!((shares.iter().sum::<f64>() - 1.0).abs() <= 1e-9, "{kind}: {shares:?}");
    Ok(())
}

/// Generates observations of a tier: bandwidth (GB/s), read share, latency (ns) and free bytes.
fn any_tier() -> impl Strategy<Value = TierObservation> {
    let gbps = prop_oneof![1 => Just(0.0), 6 => 0.0..900.0f64, 1 => 0.0..1e-3];
    let some = |range| prop::option::weighted(0.9, range);
    (gbps, some(0.0..1.0f64), some(50.0..3000.0f64), prop::option::of(0..600 * GB)).prop_map(
        |(bandwidth_gbps, read_share, latency_ns, free_bytes)| TierObservation {
            bandwidth_gbps,
            read_share: read_share.filter(|_| bandwidth_gbps > 0.0),
            latency_ns: latency_ns.filter(|_| bandwidth_gbps > 0.0),
            free_bytes,
        },
    )
}

/// Generates random observations of a period on `tiers` tiers, without a target, which the caller
/// sets.
fn any_observation(tiers: usize) -> impl Strategy<Value = Observation> {
    let steered = prop::option::of(prop_oneof![Just(0), 1..2000 * GB]);
    let seen = prop::collection::vec(any_tier(), tiers);
    (seen, 1..40usize, 1.0..1.3f64, 0.0..0.2f64, steered).prop_map(
        |(tiers, quiet, percentile, error, steered_bytes)| {
            let mean_gbps: f64 = tiers.iter().map(|tier| tier.bandwidth_gbps).sum();
            Observation {
                time_s: 0.0,
                quiet,
                bandwidth_gbps: percentile * mean_gbps,
                mean_gbps,
                error_gbps: error * mean_gbps,
                tiers,
                target: vec![],
                steered_bytes,
            }
        },
    )
}

fn observations(length: usize) -> impl Strategy<Value = Vec<Observation>> {
    (1..=3usize)
        .prop_flat_map(move |tiers| prop::collection::vec(any_observation(tiers), 1..=length))
}

/// Returns counters of a sample that have the bandwidths and latencies of the observation `seen`.
fn reading(seen: &Observation) -> Reading {
    let tier = |tier: &TierObservation| {
        let inserts_per_ns = tier.bandwidth_gbps / 64.0;
        TierReading {
            bandwidth_gbps: tier.bandwidth_gbps,
            inserts_per_ns: Some(inserts_per_ns),
            occupancy: tier.latency_ns.map(|latency| latency * inserts_per_ns),
        }
    };
    Reading { tiers: seen.tiers.iter().map(tier).collect(), migrating: false }
}

/// Returns the verdict of `policy` on `seen` in period `at`, with the pages at the shares `target`.
fn decide(policy: &mut dyn Policy, seen: &Observation, target: &[f64], at: usize) -> Verdict {
    let seen = Observation { time_s: 6.0 * at as f64, target: target.to_vec(), ..seen.clone() };
    for _ in 0..seen.quiet {
        policy.watch(&reading(&seen));
    }
    policy.decide(&seen)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn shares_are_valid_for_any_observation(story in observations(16)) {
        let tiers = story[0].tiers.len();
        for (kind, mut policy) in every_policy(tiers) {
            let mut target = policy.start();
            check(kind, &target, tiers)?;
            for (at, seen) in story.iter().enumerate() {
                let verdict = decide(&mut *policy, seen, &target, at);
                check(kind, &verdict.shares, tiers)?;
                prop_assert!(!verdict.reason.is_empty() && !verdict.action.is_empty(), "{}", kind);
                target = verdict.shares;
            }
        }
    }

    /// With constant observations, all policies must come to rest, except Colloid's: at constant
    /// latencies, each rule of Colloid moves the share in one direction only.
    #[test]
    fn constant_observations_never_make_a_policy_oscillate(seen in observations(1)) {
        let seen = &seen[0];
        for (kind, mut policy) in every_policy(seen.tiers.len()) {
            let mut firsts = vec![policy.start()[0]];
            let mut target = policy.start();
            for at in 0..160 {
                target = decide(&mut *policy, seen, &target, at).shares;
                firsts.push(target[0]);
            }
            let late = &firsts[100..];
            let one_way =
                |sign: f64| late.windows(2).all(|pair| sign * (pair[1] - pair[0]) <= 1e-9);
            if matches!(kind, PolicyKind::Colloid | PolicyKind::ColloidWatermark) {
                prop_assert!(one_way(1.0) || one_way(-1.0), "{kind}: {late:?}");
            } else {
                prop_assert!(one_way(1.0) && one_way(-1.0), "{kind}: {late:?}");
            }
        }
    }
}
