//! The recommendation with each assumed figure varied.
//!
//! Each figure is varied alone, by the same factors: prices, powers, the latency of expanders, the
//! threads, and the memory that the demand needs. The last three need new predictions. The
//! predicted speed of a configuration is set to the ends of its interval.

use super::{
    PlanJob,
    assessment::{Assessment, Prices, assess, assess_at},
    machine::Candidate,
    performance::{Assumed, Performance, Source},
};
use crate::{Progress, check};
use interleaf_console::Failure;
use interleaf_model::{tier::TierKind, units::Bytes};
use interleaf_record::{
    plan::{MEMORY_FIGURE, SensitivityRow},
    rounded,
};
use std::collections::BTreeSet;

/// The range of factors in which a change of the recommendation is searched.
const SEARCHED: [f64; 2] = [0.1, 10.0];

/// Bisection steps of the search: the factor is exact to about 1 in 400,000, or to 1 in 400 for
/// figures whose every step takes new predictions.
const HALVINGS: u32 = 20;
const HALVINGS_OF_PREDICTIONS: u32 = 10;

/// The assessment with one figure multiplied by a factor.
type Vary<'a> = Box<dyn Fn(f64) -> Assessment + 'a>;

pub(super) fn table(
    job: &PlanJob<'_>,
    candidates: &[Candidate],
    source: &Source<'_>,
    performances: &[Performance],
    baseline: usize,
    progress: &dyn Progress,
) -> Result<Vec<SensitivityRow>, Failure> {
    let own = Assumed { threads: job.threads, footprint: job.footprint, ..Assumed::default() };
    let answer = assess(job, performances, baseline, &own);
    let name = |at: Option<usize>| at.map(|at| job.configurations[at].name.clone());
    let varied = [1.0 - job.vary, 1.0 + job.vary];
    let mut rows = vec![];
    for (figure, vary) in cheap(job, performances, baseline, &own) {
        let at = |factor: f64| Ok(vary(factor).recommended);
        let beyond = changes(at, HALVINGS, answer.recommended)?;
        let recommended = varied.map(|factor| vary(factor).recommended);
        rows.push(SensitivityRow {
            figure,
            recommended: recommended.map(name),
            changes: recommended.iter().any(|other| *other != answer.recommended),
            factors: beyond.map(|found| found.map(|(factor, _)| rounded(factor))),
            recommended_beyond: Some(beyond.map(|found| found.and_then(|(_, other)| name(other)))),
        });
    }
    for (figure, assumed) in predicted_anew(candidates, source, &own) {
        let at = |factor: f64| {
            check(progress)?;
            let assumed = assumed(factor);
            let others: Result<Vec<_>, _> = candidates
                .iter()
                .map(|one| Performance::without_limit(one, source, &assumed))
                .collect();
            Ok::<_, Failure>(assess(job, &others?, baseline, &assumed).recommended)
        };
        let recommended = [at(varied[0])?, at(varied[1])?];
        let beyond = (figure == MEMORY_FIGURE)
            .then(|| changes(at, HALVINGS_OF_PREDICTIONS, answer.recommended))
            .transpose()?;
        let factors = beyond.unwrap_or_default();
        rows.push(SensitivityRow {
            figure,
            recommended: recommended.map(name),
            changes: recommended.iter().any(|other| *other != answer.recommended),
            factors: factors.map(|found| found.map(|(factor, _)| rounded(factor))),
            recommended_beyond: beyond
                .map(|both| both.map(|found| found.and_then(|(_, other)| name(other)))),
        });
    }
    rows.extend(speeds(job, performances, baseline, &own, &answer));
    Ok(rows)
}

/// A factor of a figure, and the recommendation at this factor.
type Changed = Option<(f64, Option<usize>)>;

/// The first factors below and above 1 at which the recommendation changes.
fn changes(
    at: impl Fn(f64) -> Result<Option<usize>, Failure>,
    halvings: u32,
    answer: Option<usize>,
) -> Result<[Changed; 2], Failure> {
    let [low, high] = SEARCHED;
    Ok([first_change(&at, low, halvings, answer)?, first_change(&at, high, halvings, answer)?])
}

/// The first factor from 1 towards `end` at which the recommendation changes, and the new one.
fn first_change(
    at: impl Fn(f64) -> Result<Option<usize>, Failure>,
    end: f64,
    halvings: u32,
    answer: Option<usize>,
) -> Result<Changed, Failure> {
    if at(end)? == answer {
        return Ok(None);
    }
    let (mut same, mut other) = (0.0, libm::log(end));
    for _ in 0..halvings {
        let middle = f64::midpoint(same, other);
        if at(libm::exp(middle))? == answer {
            same = middle;
        } else {
            other = middle;
        }
    }
    let factor = libm::exp(other);
    Ok(Some((factor, at(factor)?)))
}

/// Figures that change cost and energy only.
fn cheap<'a>(
    job: &'a PlanJob<'_>,
    performances: &'a [Performance],
    baseline: usize,
    own: &'a Assumed,
) -> Vec<(String, Vary<'a>)> {
    let names: BTreeSet<&String> =
        job.configurations.iter().flat_map(|it| it.parts.iter().map(|part| &part.name)).collect();
    let mut all: Vec<(String, Vary<'a>)> = vec![];
    for name in names {
        let vary = move |factor: f64| {
            let prices = Prices { parts: [(name.clone(), factor)].into(), energy: None };
            assess_at(job, performances, baseline, own, &prices)
        };
        all.push((format!("price of {name}"), Box::new(vary)));
    }
    if job.parts.energy.is_some() {
        let vary = move |factor: f64| {
            let prices = Prices { energy: Some(factor), ..Prices::default() };
            assess_at(job, performances, baseline, own, &prices)
        };
        all.push(("price of energy".into(), Box::new(vary)));
    }
    if performances.iter().any(|own| own.watts.is_some()) {
        type Set = fn(&mut Assumed, f64);
        let powers: [(&str, Set); 3] = [
            ("power of the idle server", |assumed, factor| assumed.idle_power = factor),
            ("power of the cores", |assumed, factor| assumed.core_power = factor),
            ("power of memory and expanders", |assumed, factor| assumed.memory_power = factor),
        ];
        for (figure, set) in powers {
            let vary = move |factor: f64| {
                let mut assumed = own.clone();
                set(&mut assumed, factor);
                assess(job, performances, baseline, &assumed)
            };
            all.push((figure.into(), Box::new(vary)));
        }
    }
    all
}

type Change<'a> = Box<dyn Fn(f64) -> Assumed + 'a>;

/// Figures that change the predictions.
fn predicted_anew<'a>(
    candidates: &[Candidate],
    source: &Source<'_>,
    own: &'a Assumed,
) -> Vec<(String, Change<'a>)> {
    let mut all: Vec<(String, Change<'a>)> = vec![];
    let has_expanders = |one: &Candidate| one.machine.tiers.iter().any(|t| t.kind == TierKind::Cxl);
    if candidates.iter().any(has_expanders) {
        let change = |factor: f64| Assumed { expander_latency: factor, ..own.clone() };
        all.push(("latency of expanders".into(), Box::new(change)));
    }
    if let Source::Demand { demand, .. } = source {
        let threads = f64::from(own.threads.unwrap_or_else(|| demand.threads()));
        let change = move |factor: f64| {
            let threads = (threads * factor).round().max(1.0) as u32;
            Assumed { threads: Some(threads), ..own.clone() }
        };
        all.push(("threads, at most one for each core".into(), Box::new(change)));
    }
    if let Some(footprint) = own.footprint.or(source.footprint()) {
        let change = move |factor: f64| {
            let bytes = (footprint.get() as f64 * factor) as u64;
            Assumed { footprint: Some(Bytes::new(bytes)), ..own.clone() }
        };
        all.push((MEMORY_FIGURE.into(), Box::new(change)));
    }
    all
}

/// The recommendation with the predicted speed of each other configuration at the ends of its
/// interval.
fn speeds(
    job: &PlanJob<'_>,
    performances: &[Performance],
    baseline: usize,
    own: &Assumed,
    answer: &Assessment,
) -> Vec<SensitivityRow> {
    let name = |at: Option<usize>| at.map(|at| job.configurations[at].name.clone());
    let others = (0..performances.len()).filter(|at| *at != baseline && performances[*at].fits);
    let row = |at: usize| {
        let speed = answer.rows[at].speed;
        let recommended = [speed.low, speed.high].map(|end| {
            let mut changed = performances.to_vec();
            changed[at].speeds.iter_mut().for_each(|own| *own *= end / speed.mean);
            assess(job, &changed, baseline, own).recommended
        });
        SensitivityRow {
            figure: format!(
                "predicted speed of {}, ends of the interval",
                job.configurations[at].name
            ),
            changes: recommended.iter().any(|other| *other != answer.recommended),
            recommended: recommended.map(name),
            factors: [None, None],
            recommended_beyond: None,
        }
    };
    others.map(row).collect()
}
