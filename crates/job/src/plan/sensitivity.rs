//! Computes how sensitive the recommendation of a plan is to each assumed figure.
//!
//! Each of these figures is varied alone, by the same factors: prices, powers, the shares of
//! several demands, the latency of expanders, the number of threads, and the memory that the
//! demands need. The last three need new predictions. The predicted speed of each configuration is
//! also varied alone, but by the factors that give the ends of its interval.

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
use interleaf_record::{plan::SensitivityRow, rounded};
use std::collections::BTreeSet;

/// The lowest and the highest factor of a figure between which the search looks for a change of the
/// recommendation.
const SEARCHED: [f64; 2] = [0.1, 10.0];

/// Number of bisection steps of the search for a factor. `HALVINGS` steps find the factor to about
/// 1 in 400,000. `HALVINGS_OF_PREDICTIONS` steps find the factor to about 1 in 7,000; this smaller
/// number is for figures that change the predictions, because each step then takes new predictions.
const HALVINGS: u32 = 20;
const HALVINGS_OF_PREDICTIONS: u32 = 14;

/// A function that multiplies one figure by a factor and returns the new assessment.
type Vary<'a> = Box<dyn Fn(f64) -> Assessment + 'a>;

/// A figure that is varied, with its name and its value.
struct Varied<F> {
    name: String,
    /// The value of the figure, and its unit. `None` if the value differs between configurations.
    value: Option<(f64, String)>,
    /// A function that multiplies the figure by a factor and returns what the factor changes: the
    /// new assessment, or the new assumed figures.
    vary: F,
}

impl<F> Varied<F> {
    fn new(name: impl Into<String>, value: Option<(f64, String)>, vary: F) -> Self {
        Self { name: name.into(), value, vary }
    }
}

/// The result of varying a figure. `recommended` has the recommendation at the lower end and at the
/// higher end of the figure's range, and `beyond` has the factors below 1 and above 1 at which the
/// recommendation changes.
struct Found {
    recommended: [Option<usize>; 2],
    beyond: [Changed; 2],
}

pub(super) fn table(
    job: &PlanJob<'_>,
    candidates: &[Candidate],
    sources: &[Source<'_>],
    predictions: &Predictions,
    progress: &dyn Progress,
) -> Result<Vec<SensitivityRow>, Failure> {
    let own = Assumed { threads: job.threads, ..Assumed::default() };
    let answer = assess(job, predictions, &own);
    let varied = [1.0 - job.vary, 1.0 + job.vary];
    let row = |name: String, value: Option<(f64, String)>, found: Found| {
        let name_of = |at: Option<usize>| at.map(|at| job.configurations[at].name.clone());
        let (value, unit) = value.unzip();
        SensitivityRow {
            figure: name,
            value: value.map(rounded),
            unit,
            recommended: found.recommended.map(name_of),
            changes: found.recommended.iter().any(|other| *other != answer.recommended),
            factors: found.beyond.map(|changed| changed.map(|(factor, _)| rounded(factor))),
            recommended_beyond: Some(
                found.beyond.map(|changed| changed.and_then(|(_, other)| name_of(other))),
            ),
        }
    };
    // Returns the row of a figure that needs no new predictions. `ends` has the factors of the
    // lower and of the higher end of the figure's range.
    let searched = |Varied { name, value, vary }: Varied<Vary<'_>>, ends: [f64; 2]| {
        let at = |factor: f64| Ok(vary(factor).recommended);
        let beyond = changes(at, HALVINGS, answer.recommended)?;
        let recommended = ends.map(|factor| vary(factor).recommended);
        Ok::<_, Failure>(row(name, value, Found { recommended, beyond }))
    };
    let mut rows = vec![];
    let mut figures = cheap(job, predictions, &own);
    figures.extend(shares(job, sources, predictions, &own));
    for figure in figures {
        rows.push(searched(figure, varied)?);
    }
    for Varied { name, value, vary } in predicted_anew(candidates, sources, &own) {
        let at = |factor: f64| {
            check(progress)?;
            let assumed = vary(factor);
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
        let beyond = changes(at, HALVINGS_OF_PREDICTIONS, answer.recommended)?;
        rows.push(row(name, value, Found { recommended, beyond }));
    }
    for (figure, ends) in speeds(job, predictions, &own, &answer) {
        rows.push(searched(figure, ends)?);
    }
    Ok(rows)
}

/// The factor at which the recommendation changes, and the new recommendation. `None` if the
/// recommendation does not change.
type Changed = Option<(f64, Option<usize>)>;

/// Returns a factor below 1 and a factor above 1 at which the recommendation changes, found by
/// bisection. `at` returns the recommendation at a factor; `answer` is the recommendation at the
/// factor 1.
fn changes(
    at: impl Fn(f64) -> Result<Option<usize>, Failure>,
    halvings: u32,
    answer: Option<usize>,
) -> Result<[Changed; 2], Failure> {
    let [low, high] = SEARCHED;
    Ok([first_change(&at, low, halvings, answer)?, first_change(&at, high, halvings, answer)?])
}

/// Returns a factor between 1 and `end`, found by bisection, at which the recommendation differs
/// from `answer`, together with that recommendation; `None` if the recommendation at `end` is
/// `answer`.
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

/// Returns the figures that change only cost and energy: prices and powers. They are cheap to vary,
/// because they need no new predictions (unlike the figures of [`predicted_anew`]).
fn cheap<'a>(
    job: &'a PlanJob<'_>,
    predictions: &'a Predictions,
    own: &'a Assumed,
) -> Vec<Varied<Vary<'a>>> {
    let names: BTreeSet<&String> =
        job.configurations.iter().flat_map(|it| it.parts.iter().map(|part| &part.name)).collect();
    let mut all: Vec<Varied<Vary<'a>>> = vec![];
    for name in names {
        let vary = move |factor: f64| {
            let prices = Prices { parts: [(name.clone(), factor)].into(), energy: None };
            assess_at(job, predictions, own, &prices)
        };
        let price = job.parts.parts.get(name).map(|own| (own.price, job.parts.currency.clone()));
        all.push(Varied::new(format!("price of {name}"), price, Box::new(vary)));
    }
    if let Some(energy) = &job.parts.energy {
        let vary = move |factor: f64| {
            let prices = Prices { energy: Some(factor), ..Prices::default() };
            assess_at(job, predictions, own, &prices)
        };
        let price = Some((energy.per_kwh, format!("{}/kWh", job.parts.currency)));
        all.push(Varied::new("price of energy", price, Box::new(vary)));
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
            all.push(Varied::new(figure, None, Box::new(vary)));
        }
    }
    all
}

/// Returns the share of time of each demand as a figure that is varied, if there are several
/// demands. The shares change no prediction.
fn shares<'a>(
    job: &'a PlanJob<'_>,
    sources: &[Source<'_>],
    predictions: &'a Predictions,
    own: &'a Assumed,
) -> Vec<Varied<Vary<'a>>> {
    let several = sources.iter().enumerate().filter(|_| sources.len() > 1);
    let figure = |(at, source): (usize, &Source<'_>)| {
        let vary = move |factor: f64| assess(job, &predictions.with_share(at, factor), own);
        let share = Some((100.0 * predictions.shares[at], "%".into()));
        let name = format!("share of {}", source.name_and_unit().0);
        Varied::new(name, share, Box::new(vary) as Vary<'a>)
    };
    several.map(figure).collect()
}

type Change<'a> = Box<dyn Fn(f64) -> Assumed + 'a>;

/// Returns the figures that change the predictions: each factor of such a figure needs new
/// predictions.
fn predicted_anew<'a>(
    candidates: &[Candidate],
    sources: &[Source<'_>],
    own: &'a Assumed,
) -> Vec<Varied<Change<'a>>> {
    let mut all: Vec<Varied<Change<'a>>> = vec![];
    let has_expanders = |one: &Candidate| one.machine.tiers.iter().any(|t| t.kind == TierKind::Cxl);
    if candidates.iter().any(has_expanders) {
        let change = |factor: f64| Assumed { expander_latency: factor, ..own.clone() };
        all.push(Varied::new("latency of expanders", None, Box::new(change)));
    }
    if sources.iter().any(|source| matches!(source, Source::Demand { .. })) {
        let change = |factor: f64| Assumed { threads_factor: factor, ..own.clone() };
        let threads = own.threads.map(|threads| (f64::from(threads), "threads".into()));
        all.push(Varied::new("threads, at most one for each core", threads, Box::new(change)));
    }
    let footprints = sources.iter().filter_map(Source::footprint);
    if let Some(largest) = footprints.max() {
        let change = |factor: f64| Assumed { footprint_factor: factor, ..own.clone() };
        let size = Some((largest.get() as f64 / (1_u64 << 30) as f64, "GiB".into()));
        all.push(Varied::new("memory that the demand needs", size, Box::new(change)));
    }
    all
}

/// Returns the predicted speed of each configuration that holds all demands, except the baseline,
/// as a figure that is varied. The two factors of each speed scale it to the lower and to the upper
/// end of its interval. With several demands, a factor multiplies the configuration's speed for
/// each demand.
fn speeds<'a>(
    job: &'a PlanJob<'_>,
    predictions: &'a Predictions,
    own: &'a Assumed,
    answer: &'a Assessment,
) -> impl Iterator<Item = (Varied<Vary<'a>>, [f64; 2])> {
    let others = 0..predictions.rows.len();
    let others = others.filter(|at| *at != predictions.baseline && predictions.fits(*at));
    others.map(move |at| {
        let vary = move |factor: f64| {
            let mut changed = predictions.clone();
            for own in &mut changed.rows[at] {
                own.speeds.iter_mut().for_each(|own| *own *= factor);
            }
            assess(job, &changed, own)
        };
        let speed: &Estimate = &answer.rows[at].merits.speed;
        let name = format!("predicted speed of {}", job.configurations[at].name);
        let figure = Varied::new(name, Some((speed.mean, "times".into())), Box::new(vary) as _);
        (figure, [speed.low / speed.mean, speed.high / speed.mean])
    })
}
