//! The recommendation with each assumed figure varied.
//!
//! Each figure is varied alone, by the same factors: prices, powers, the shares of several demands,
//! the latency of expanders, the threads, and the memory that the demands need. The last three need
//! new predictions. The predicted speeds of a configuration are set to the ends of their intervals.

use super::{
    PlanJob,
    assessment::{Assessment, Prices, assess, assess_at},
    combined::Predictions,
    machine::Candidate,
    performance::{Assumed, Performance, Source},
};
use crate::{Progress, check};
use interleaf_console::Failure;
use interleaf_model::{predict::Estimate, tier::TierKind};
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
    sources: &[Source<'_>],
    predictions: &Predictions,
    progress: &dyn Progress,
) -> Result<Vec<SensitivityRow>, Failure> {
    let own = Assumed { threads: job.threads, ..Assumed::default() };
    let answer = assess(job, predictions, &own);
    let name = |at: Option<usize>| at.map(|at| job.configurations[at].name.clone());
    let varied = [1.0 - job.vary, 1.0 + job.vary];
    let mut rows = vec![];
    let mut figures = cheap(job, predictions, &own);
    figures.extend(shares(job, sources, predictions, &own));
    for (figure, vary) in figures {
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
    for (figure, assumed) in predicted_anew(candidates, sources, &own) {
        let at = |factor: f64| {
            check(progress)?;
            let assumed = assumed(factor);
            let row = |one: &Candidate| -> Result<Vec<Performance>, Failure> {
                let own = sources.iter();
                own.map(|source| Performance::without_limit(one, source, &assumed)).collect()
            };
            let rows: Vec<Vec<Performance>> =
                candidates.iter().map(row).collect::<Result<_, _>>()?;
            let others = Predictions { rows, ..predictions.clone() };
            Ok::<_, Failure>(assess(job, &others, &assumed).recommended)
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
    rows.extend(speeds(job, predictions, &own, &answer));
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
    predictions: &'a Predictions,
    own: &'a Assumed,
) -> Vec<(String, Vary<'a>)> {
    let names: BTreeSet<&String> =
        job.configurations.iter().flat_map(|it| it.parts.iter().map(|part| &part.name)).collect();
    let mut all: Vec<(String, Vary<'a>)> = vec![];
    for name in names {
        let vary = move |factor: f64| {
            let prices = Prices { parts: [(name.clone(), factor)].into(), energy: None };
            assess_at(job, predictions, own, &prices)
        };
        all.push((format!("price of {name}"), Box::new(vary)));
    }
    if job.parts.energy.is_some() {
        let vary = move |factor: f64| {
            let prices = Prices { energy: Some(factor), ..Prices::default() };
            assess_at(job, predictions, own, &prices)
        };
        all.push(("price of energy".into(), Box::new(vary)));
    }
    if predictions.rows.iter().flatten().any(|own| own.watts.is_some()) {
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
                assess(job, predictions, &assumed)
            };
            all.push((figure.into(), Box::new(vary)));
        }
    }
    all
}

/// The shares of several demands, which change no prediction.
fn shares<'a>(
    job: &'a PlanJob<'_>,
    sources: &[Source<'_>],
    predictions: &'a Predictions,
    own: &'a Assumed,
) -> Vec<(String, Vary<'a>)> {
    let several = sources.iter().enumerate().filter(|_| sources.len() > 1);
    let figure = |(at, source): (usize, &Source<'_>)| {
        let vary = move |factor: f64| assess(job, &predictions.with_share(at, factor), own);
        (format!("share of {}", source.name_and_unit().0), Box::new(vary) as Vary<'a>)
    };
    several.map(figure).collect()
}

type Change<'a> = Box<dyn Fn(f64) -> Assumed + 'a>;

/// Figures that change the predictions.
fn predicted_anew<'a>(
    candidates: &[Candidate],
    sources: &[Source<'_>],
    own: &'a Assumed,
) -> Vec<(String, Change<'a>)> {
    let mut all: Vec<(String, Change<'a>)> = vec![];
    let has_expanders = |one: &Candidate| one.machine.tiers.iter().any(|t| t.kind == TierKind::Cxl);
    if candidates.iter().any(has_expanders) {
        let change = |factor: f64| Assumed { expander_latency: factor, ..own.clone() };
        all.push(("latency of expanders".into(), Box::new(change)));
    }
    if sources.iter().any(|source| matches!(source, Source::Demand { .. })) {
        let change = |factor: f64| Assumed { threads_factor: factor, ..own.clone() };
        all.push(("threads, at most one for each core".into(), Box::new(change)));
    }
    if sources.iter().any(|source| source.footprint().is_some()) {
        let change = |factor: f64| Assumed { footprint_factor: factor, ..own.clone() };
        all.push((MEMORY_FIGURE.into(), Box::new(change)));
    }
    all
}

/// The recommendation with the predicted speeds of each other configuration at the ends of their
/// intervals.
fn speeds(
    job: &PlanJob<'_>,
    predictions: &Predictions,
    own: &Assumed,
    answer: &Assessment,
) -> Vec<SensitivityRow> {
    let name = |at: Option<usize>| at.map(|at| job.configurations[at].name.clone());
    let others = 0..predictions.rows.len();
    let others = others.filter(|at| *at != predictions.baseline && predictions.fits(*at));
    let row = |at: usize| {
        let ends: [fn(&Estimate) -> f64; 2] = [|speed| speed.low, |speed| speed.high];
        let recommended = ends.map(|end| {
            let mut changed = predictions.clone();
            for (own, alone) in changed.rows[at].iter_mut().zip(&answer.rows[at].merits.alone) {
                let factor = end(&alone.speed) / alone.speed.mean;
                own.speeds.iter_mut().for_each(|own| *own *= factor);
            }
            assess(job, &changed, own).recommended
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
