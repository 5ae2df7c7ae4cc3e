//! Advice: the decision that the daemon would make, its gain, and the bytes that it would migrate.
//! No page is migrated.
//!
//! A hill-climbing policy learns from each of its steps, so its decisions after the first step
//! cannot be observed without migration. Therefore each period is given to a new policy, and its
//! first decision is recorded. The curves of the configured platform, corrected by the counted
//! traffic, predict the gain of the decision. Without curves, the firmware's ratings give an upper
//! bound of the gain: no tier carries more than its rated bandwidth.

use crate::{
    config::Config,
    control_loop::{self, SignalClock, host_failure},
    notify::Manager,
    options::Options,
    publish::Publisher,
    setup::Setup,
};
use core::time::Duration;
use interleaf_console::{Failure, output, system};
use interleaf_linux::{
    launch::command::Signals, place::actuator::ActuatorKind, process::numa_maps::NodeBytes,
    root::Root,
};
use interleaf_model::{
    control::{DomainPeriod, Period},
    machine::Machine as _,
    policy::{GainForecast, PolicyKind},
    weights::Weights,
};
use interleaf_observe::{
    host::{Clock, Host, HostError},
    source::SourceError,
};
use interleaf_policy_process::{PolicyCommand, PolicyProcesses, TIME_LIMIT};
use interleaf_record::balance::{
    AdviceDocument, BalancePeriod, GainBasis, PointsDocument, SUMMARY_SCHEMA, SourceDocument,
    SummaryDocument,
};

/// If the user gives no duration, the observation ends after `ALIKE` consecutive periods with equal
/// advice, but at the latest after `PERIODS_MAX` periods.
const ALIKE: usize = 3;
const PERIODS_MAX: usize = 30;

/// The advice of two periods is equal if each weight differs by at most `POINTS` percentage points.
const POINTS: i32 = 3;

/// The user's own policy: a command whose process decides in place of the configured policy.
#[derive(Clone, Debug)]
pub struct OwnPolicy {
    /// The name of the policy in records: the value of `--policy`, such as `exec:COMMAND`.
    pub name: String,
    /// The command that starts the process.
    pub command: PolicyCommand,
}

/// The policy from which the advice comes.
struct Adviser<'a> {
    config: &'a Config,
    name: String,
    /// The running processes of the user's own policy; `None` for the configured policy.
    processes: Option<PolicyProcesses>,
}

impl Adviser<'_> {
    /// True if the first decision of the policy is final, so that it is the advice. False for
    /// policies that approach their target in several periods, or decide by the hotness of pages.
    /// Their advice is the shares of [`GainForecast`].
    const fn is_final(&self) -> bool {
        self.processes.is_some()
            || matches!(
                self.config.policy,
                PolicyKind::Local | PolicyKind::Static | PolicyKind::Bandwidth
            )
    }

    /// Fails if the user's own policy has failed.
    fn check(&self) -> Result<(), Failure> {
        let failure = self.processes.as_ref().and_then(PolicyProcesses::failure);
        failure.map_or(Ok(()), |why| Err(Failure::new(why.to_string(), why.hint())))
    }
}

/// Observes the machine, and prints for each domain (socket) the advice of each period and a
/// summary. No setting of the machine is changed. If `own` is given, its processes are started anew
/// for each period.
///
/// # Errors
/// When the machine cannot be observed, the processes of `own` fail, or no period has counter
/// readings.
pub fn run(
    options: &Options,
    config: &Config,
    own: Option<&OwnPolicy>,
    root: &Root,
    is_captured: bool,
) -> Result<(), Failure> {
    let setup = Setup::read(config, root)?;
    let kind = setup.choice(config)?.kind;
    if is_captured && config.is_counted_here() {
        return Err(nothing_counts(&setup.counted(config, root)));
    }
    let source = setup.source(config, root)?;
    for line in setup.words(config, &[None], source.describe()) {
        output::message(&format!("interleaf: {line}"));
    }
    if let Some(holder) = setup.damon_holder(config, kind) {
        output::message(&format!("interleaf: {holder}"));
    }
    let signals = Signals::hold().map_err(system::signal_failure)?;
    let adviser = Adviser {
        config,
        name: own.map_or_else(|| config.policy.to_string(), |own| own.name.clone()),
        processes: own
            .map(|own| PolicyProcesses::new(own.command.clone(), TIME_LIMIT, signals.stop_flag())),
    };
    let manager = &Manager::new();
    // A recording is replayed without waits.
    let clock: Box<dyn Clock + '_> = match config.is_replayed() {
        true => Box::new(ImmediateClock(&signals)),
        false => Box::new(SignalClock {
            signals: &signals,
            manager,
            until: control_loop::until(options),
        }),
    };
    let nobody = setup.scopes().iter().map(|_| None).collect();
    let mut host = Host::new(root, setup.host.clone(), source, clock, nobody)
        .map_err(|why| host_failure(&why))?;
    let mut publisher = Publisher::to_stdout(options, manager)?;
    let mut advised: Vec<Vec<BalancePeriod>> = vec![vec![]; host.layout().domains.len()];
    let mut time_s = 0.0;
    let most = if options.duration.is_some() { usize::MAX } else { PERIODS_MAX };
    for _ in 0..most {
        // Use a new controller in each period. No decision is carried out, so only the first
        // decision of a policy is meaningful.
        let mut controller = setup.controller(config, adviser.processes.as_ref())?;
        let period = match controller.period(&mut host, control_loop::FOR_EVER) {
            Ok(period) => adviser.check().map(|()| period)?,
            Err(HostError::Stopped | HostError::Source(SourceError::Ended { .. })) => break,
            Err(why) => return Err(host_failure(&why)),
        };
        time_s += period.time_s;
        let on = setup.placement(root)?;
        let documents = documents(&setup, &adviser, &host, &period, time_s, on.as_ref());
        let (domains, documents): (Vec<usize>, Vec<_>) = documents.into_iter().unzip();
        publisher.publish(&documents)?;
        for (domain, document) in domains.into_iter().zip(documents) {
            advised[domain].push(document);
        }
        let is_over = match options.duration {
            Some(limit) => time_s >= limit.seconds(),
            None => advised.iter().all(|of_domain| is_known(of_domain)),
        };
        if is_over {
            break;
        }
    }
    let missing = publisher.close();
    summarize(options, &adviser, &setup, kind, &advised)?;
    missing
}

/// Returns the error for a captured machine (a copy of a machine's files), which has no live
/// counters. If `source` has no remedy, the error says that the machine from which the files were
/// captured has counters.
fn nothing_counts(source: &SourceDocument) -> Failure {
    match &source.remedy {
        Some(remedy) => Failure::new(source.what.clone(), remedy.clone()),
        None => Failure::new(
            format!("a captured machine counts nothing; the machine itself does: {}", source.what),
            "give a recording with --replay FILE, or leave --root out",
        ),
    }
}

/// Returns the JSON documents of a period, each with the index of its domain (socket).
fn documents(
    setup: &Setup,
    adviser: &Adviser<'_>,
    host: &Host<'_>,
    period: &Period,
    time_s: f64,
    on: Option<&NodeBytes>,
) -> Vec<(usize, BalancePeriod)> {
    let layout = host.layout();
    let domains = period.domains.iter().enumerate().map(|(at, domain)| {
        let near: Vec<u64> = layout.domains[at]
            .tiers
            .iter()
            .map(|tier| on.map_or(0, |on| on.on(host.nodes()[*tier])))
            .collect();
        let all: u64 = near.iter().sum();
        let share = |bytes: &u64| *bytes as f64 / all as f64;
        let reached = (all > 0).then(|| near.iter().map(share).collect());
        let mut document =
            BalancePeriod::for_domain(layout, host.nodes(), at, time_s, domain, reached);
        document.advice = advice(setup, adviser, at, domain, &near);
        (at, document)
    });
    domains.collect()
}

/// Returns the advice for the domain (socket) with the index `at`; `None` if the period has no
/// counter readings. `near` has the bytes of the scope's pages on each tier of the domain.
fn advice(
    setup: &Setup,
    adviser: &Adviser<'_>,
    at: usize,
    domain: &DomainPeriod,
    near: &[u64],
) -> Option<AdviceDocument> {
    let seen = domain.seen.as_ref()?;
    let tiers = &setup.host.layout.domains[at].tiers;
    let wanted = adviser.is_final().then_some(domain.verdict.shares.as_slice());
    let has_curves = adviser.config.platform.is_some();
    let has_ratings = setup.host.unrated.is_empty();
    let forecast = (has_curves || has_ratings)
        .then(|| GainForecast::new(&setup.believed, at, tiers, seen, wanted))
        .flatten();
    let shares =
        forecast.as_ref().map(|it| it.shares.clone()).or_else(|| wanted.map(<[f64]>::to_vec));
    let (gain, gain_is) = match (&forecast, has_curves) {
        (None, _) => (None, GainBasis::Unknown),
        (Some(forecast), true) => (Some(forecast.gain), GainBasis::Predicted),
        (Some(forecast), false) if forecast.gain <= 0.0 => (Some(forecast.gain), GainBasis::AtMost),
        (Some(forecast), false) => {
            (Some(bound(setup, tiers, &forecast.shares) / seen.mean_gbps - 1.0), GainBasis::AtMost)
        }
    };
    let gain = gain.map(|gain| if gain_is == GainBasis::AtMost { gain.max(0.0) } else { gain });
    let all: u64 = near.iter().sum();
    let moved = |shares: &Vec<f64>| {
        let lacks = near.iter().zip(shares).map(|(has, share)| share * all as f64 - *has as f64);
        lacks.filter(|bytes| *bytes > 0.0).sum::<f64>() as u64
    };
    Some(AdviceDocument {
        would_move_bytes: shares.as_ref().filter(|_| all > 0).map(moved),
        advised_weights: shares.map(|shares| Weights::percent(&shares).as_slice().to_vec()),
        gain: gain.map(interleaf_record::rounded),
        gain_is,
        is_unsaturated: forecast.is_some_and(|forecast| forecast.is_unsaturated),
    })
}

/// Returns the highest bandwidth, GB/s, that traffic can have if `shares` divides it among the
/// tiers and each tier carries at most its rated bandwidth.
fn bound(setup: &Setup, tiers: &[usize], shares: &[f64]) -> f64 {
    let rated = tiers.iter().map(|at| setup.host.layout.tiers[*at].rated_gbps);
    let used = rated.zip(shares).filter(|(_, share)| **share > 0.0);
    used.map(|(gbps, share)| gbps / share).fold(f64::INFINITY, f64::min)
}

/// Returns true if the observation of a domain (socket), whose periods so far are `periods`, may
/// end: the last [`ALIKE`] periods have equal advice, or the domain has a single tier.
fn is_known(periods: &[BalancePeriod]) -> bool {
    let advised: Vec<&Vec<u16>> = periods
        .iter()
        .filter_map(|period| period.advice.as_ref()?.advised_weights.as_ref())
        .collect();
    let Some(last) = advised.len().checked_sub(ALIKE).map(|from| &advised[from..]) else {
        // Fewer than `ALIKE` periods have advice. A domain (socket) with a single tier never has
        // advice, because there is nothing to decide.
        return periods.iter().all(|period| period.nodes.len() < 2);
    };
    let near = |a: &[u16], b: &[u16]| {
        a.iter().zip(b).all(|(a, b)| (i32::from(*a) - i32::from(*b)).abs() <= POINTS)
    };
    last.iter().all(|points| near(points, last[0]))
}

fn summarize(
    options: &Options,
    adviser: &Adviser<'_>,
    setup: &Setup,
    kind: ActuatorKind,
    advised: &[Vec<BalancePeriod>],
) -> Result<(), Failure> {
    let start = setup.points(&setup.start(adviser.config, adviser.processes.as_ref())?);
    let of_domain = |(periods, start): (&Vec<BalancePeriod>, PointsDocument)| {
        let start = start.nodes.iter().map(|node| node.points).collect();
        summary(periods, start, adviser, kind)
    };
    let summaries: Vec<SummaryDocument> = advised.iter().zip(start).filter_map(of_domain).collect();
    for summary in &summaries {
        let line = interleaf_record::json_line(summary);
        match options.json {
            true => output::data(&(line + "\n")),
            false => output::text(&interleaf_report::balance::summary(summary)),
        }?;
    }
    if summaries.is_empty() {
        return Err(Failure::new(
            "nothing was counted in a whole period: there is nothing to advise by",
            "observe for longer, or check that the source counts traffic",
        ));
    }
    Ok(())
}

/// Returns the summary of the periods of a domain (socket); `None` if no period has counter
/// readings.
fn summary(
    periods: &[BalancePeriod],
    start_weights: Vec<u16>,
    adviser: &Adviser<'_>,
    kind: ActuatorKind,
) -> Option<SummaryDocument> {
    let judged: Vec<&BalancePeriod> =
        periods.iter().filter(|period| period.advice.is_some()).collect();
    let last = judged.last()?;
    let mean = |values: Vec<f64>| {
        let sum: f64 = values.iter().sum();
        (!values.is_empty()).then(|| interleaf_record::rounded(sum / values.len() as f64))
    };
    let advice = last.advice.clone()?;
    let gains = judged.iter().filter_map(|period| period.advice.as_ref()?.gain).collect();
    Some(SummaryDocument {
        schema: SUMMARY_SCHEMA.into(),
        domain: last.domain.clone(),
        nodes: last.nodes.clone(),
        periods: judged.len(),
        bandwidth_gbps: mean(judged.iter().filter_map(|period| period.bandwidth_gbps).collect())?,
        reached_share: last.reached_share.clone(),
        policy: adviser.name.clone(),
        start_weights,
        first_weights: last.target_weights.clone(),
        way: kind.into(),
        curves: adviser.config.platform.clone(),
        advice: AdviceDocument { gain: mean(gains), ..advice },
    })
}

/// The clock for a replayed recording. It does not wait, but stops the control loop at a signal, as
/// [`SignalClock`] does.
struct ImmediateClock<'a>(&'a Signals);

impl Clock for ImmediateClock<'_> {
    fn wait(&mut self, _: Duration) -> bool {
        self.0.arrived_signal().is_none()
    }
}
