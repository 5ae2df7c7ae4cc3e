//! The job of `interleaf predict` predicts bandwidth, latency and speed-up for choices of weights.

use crate::{
    Progress, check,
    option::{LoadChoice, WeightsChoice},
};
use interleaf_console::Failure;
use interleaf_model::{
    demand::Demand,
    mix::Mix,
    platform::Platform,
    predict::{
        Forecast, ForecastAt, LoadPoint, MixLoad, MixLoadAt, Prediction, Row, RunFit,
        best_of_each_set, load_steps, saturating_load,
    },
    units::LINE_BYTES,
    weights::Weights,
};
use interleaf_record::predict::{PredictDocument, Subject, missed_runs, no_platform, not_counted};
use rayon::prelude::*;

/// The fraction by which a requested load may exceed the bandwidth that the threads reach. It is
/// larger than the rounding error of the computed bandwidth.
const ROUNDING: f64 = 1e-6;

/// Maximum number of combinations of weights that a prediction tries. Weights from 0 to 10 stay
/// below it with four tiers (11^4 = 14,641 combinations); with five tiers, the largest weight is 6.
const RATIOS_MAX: u64 = 20_000;

/// Maximum number of tiers for which the record has a row for each ratio that is tried by default.
/// Two tiers have fewer than a hundred ratios, but three tiers have about a thousand, too many for
/// a table.
const TIERS_TABLED: usize = 2;

/// The number of points of a load sweep.
const SWEEP_STEPS: usize = 25;

/// Minimum number of items that are computed by several threads. The computation of a row takes
/// tens of microseconds, about the same as waking a thread (assumed).
const PARALLEL_MIN: usize = 8;

/// The traffic that is predicted.
#[derive(Clone, Copy, Debug)]
pub enum Traffic<'a> {
    /// The traffic of a bandwidth benchmark with this mix.
    Mix(Mix),
    /// The demand of a workload.
    Demand(&'a Demand),
}

/// A prediction with all its options.
#[derive(Clone, Debug)]
pub struct PredictJob<'a> {
    /// The platform on which the traffic is predicted.
    pub platform: &'a Platform,
    /// The traffic that is predicted: a mix or a workload's demand.
    pub traffic: Traffic<'a>,
    /// The number of threads. Default: for a workload, the number of threads of its measured runs,
    /// at most one for each core; for a mix, the number that saturates the platform.
    pub threads: Option<u32>,
    /// The weights to predict. Default: each ratio of whole numbers up to 10, or up to a smaller
    /// number on a platform with many tiers. With three or more tiers, the record then has only the
    /// best ratio of each set of tiers.
    pub weights: Option<WeightsChoice>,
    /// The load of a mix; [`LoadChoice::Max`] for a workload.
    pub load: LoadChoice,
}

impl PredictJob<'_> {
    /// Predicts every choice of weights.
    ///
    /// # Errors
    /// When weights do not match the tiers, when a load is above the bandwidth of the first tier or
    /// is given for a workload, or when `progress` stops the job.
    pub fn run(&self, progress: &dyn Progress) -> Result<PredictDocument, Failure> {
        let weights = self.choice()?;
        self.with(|at| {
            let searched = self.weights.is_none() && self.platform.tiers.len() > TIERS_TABLED;
            let rows = match searched {
                true => best_rows(at, &weights, progress)?,
                false => each(&weights, "choices of weights", progress, |own| at.row(own))?,
            };
            let sweep: Vec<LoadPoint> = match (self.traffic, self.load) {
                (Traffic::Mix(mix), LoadChoice::Sweep) => {
                    let threads = Some(self.mix_load(mix).threads);
                    let steps = load_steps(self.platform, mix, threads, SWEEP_STEPS);
                    let point = |step: &MixLoad| step.point(self.platform, &weights);
                    each(&steps, "loads", progress, point)?
                }
                _ => vec![],
            };
            let prediction = at.prediction(rows);
            let mut document =
                PredictDocument::new(self.platform, self.subject(), &prediction, &sweep);
            document.ratios_tried = searched.then_some(weights.len() as u64);
            document.warnings.extend(missed_runs(&at.fits(), document.result_unit.as_deref()));
            if let Traffic::Demand(demand) = self.traffic {
                document.warnings.extend(not_counted(demand));
                document.warnings.extend(no_platform(demand, &self.platform.name));
            }
            document.warnings.extend(self.too_many_threads());
            Ok(document)
        })
    }

    /// Returns a warning if the user asks for more threads than the platform has cores.
    fn too_many_threads(&self) -> Option<String> {
        let cores = self.platform.cpu.cores;
        let threads = self.threads.filter(|threads| *threads > cores)?;
        Some(format!(
            "{threads} threads are more than the {cores} cores of {}: each is predicted as if it \
             had a core of its own",
            self.platform.name
        ))
    }

    /// Predicts a row for each of `weights` with full precision. Calls `map` with each row, and
    /// returns the results in the order of `weights`.
    ///
    /// # Errors
    /// Under the conditions of [`Self::run`].
    pub fn rows<T: Send>(
        &self,
        weights: &[Weights],
        progress: &dyn Progress,
        map: impl Fn(Row) -> T + Sync,
    ) -> Result<Vec<T>, Failure> {
        self.with(|at| {
            each(weights, "choices of weights", progress, |weights| map(at.row(weights)))
        })
    }

    /// Prepares the traffic at the job's load, and passes it to `run`, whose result is returned.
    fn with<T>(
        &self,
        run: impl FnOnce(&PreparedTraffic<'_>) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        match self.traffic {
            Traffic::Mix(mix) => run(&PreparedTraffic::Mix(&self.load_of(mix)?.at(self.platform))),
            Traffic::Demand(demand) => {
                if self.load != LoadChoice::Max {
                    return Err(Failure::new(
                        "--load goes with --mix: a workload has a load of its own",
                        "leave --load out, or give a mix in place of the workload",
                    ));
                }
                let measured_on = interleaf_catalog::measured_on(self.platform, demand)?;
                let usual = demand.threads().min(self.platform.cpu.cores);
                let threads = f64::from(self.threads.unwrap_or(usual));
                let forecast = Forecast::new(self.platform, &measured_on, demand);
                run(&PreparedTraffic::Demand(&forecast.at(threads)))
            }
        }
    }

    fn subject(&self) -> Subject {
        match self.traffic {
            Traffic::Mix(mix) => Subject { workload: mix.to_string(), result_unit: None },
            Traffic::Demand(demand) => Subject {
                workload: demand.name.clone(),
                result_unit: Some(demand.metric.unit().into()),
            },
        }
    }

    /// Returns the weights of the job, after a check that they match the tiers of its platform.
    fn choice(&self) -> Result<Vec<Weights>, Failure> {
        let names = self.platform.tier_names();
        if let Some(WeightsChoice::List(list)) = &self.weights {
            if let Some(twice) = (1..list.len()).find(|at| list[..*at].contains(&list[*at])) {
                let problem = format!("the weights {} are there twice", list[twice]);
                return Err(Failure::new(problem, "leave one of the two out"));
            }
            return list.iter().map(|weights| for_tiers(weights, &names)).collect();
        }
        match (&self.weights, weight_max(names.len(), RATIOS_MAX)) {
            (None, Some(limit)) => Ok(Weights::every_ratio(names.len(), limit)),
            (Some(_), Some(10)) => Ok(Weights::every_ratio(names.len(), 10)),
            _ => Err(Failure::new(
                format!("{} tiers have too many ratios to try each", names.len()),
                "name the weights to try, such as --weights 4:2:1,3:2:1",
            )),
        }
    }

    /// Returns the load of `mix` with the job's number of threads; by default with the number that
    /// saturates the platform.
    fn mix_load(&self, mix: Mix) -> MixLoad {
        let most = saturating_load(self.platform, mix);
        MixLoad { threads: self.threads.map_or(most.threads, f64::from), ..most }
    }

    fn load_of(&self, mix: Mix) -> Result<MixLoad, Failure> {
        let most = self.mix_load(mix);
        let LoadChoice::At(bandwidth) = self.load else { return Ok(most) };
        let answer = self.platform.answer(0, &self.platform.spread(), mix);
        let most_gbps = answer.response.max_bandwidth_gbps();
        let first = &self.platform.tiers[0].name;
        if bandwidth.gbps() > most_gbps {
            return Err(Failure::new(
                format!("{first} alone carries {most_gbps:.0} GB/s of {mix}, not {bandwidth}"),
                "ask for less, or for all there is with --load max",
            ));
        }
        let lines = most.threads * self.platform.cpu.outstanding_lines_per_core;
        let reached_gbps = answer.response.at(lines * LINE_BYTES).bandwidth_gbps;
        if bandwidth.gbps() > reached_gbps * (1.0 + ROUNDING) {
            return Err(Failure::new(
                format!(
                    "{} threads load {first} with at most {reached_gbps:.0} GB/s of {mix}, not \
                     {bandwidth}",
                    most.threads
                ),
                "ask for less, or for more --threads",
            ));
        }
        Ok(most.at_bandwidth(self.platform, bandwidth.gbps()))
    }
}

/// The job's traffic at its load, prepared for predictions at many weights.
enum PreparedTraffic<'a> {
    Mix(&'a MixLoadAt<'a>),
    Demand(&'a ForecastAt<'a>),
}

impl PreparedTraffic<'_> {
    fn row(&self, weights: &Weights) -> Row {
        match self {
            Self::Mix(at) => at.row(weights),
            Self::Demand(at) => at.row(weights),
        }
    }

    /// Returns an upper bound of the speed-up for each of `weights`; `None` if the pages do not fit
    /// into the tiers with these weights.
    fn at_most(&self, weights: &[Weights]) -> Vec<Option<f64>> {
        match self {
            Self::Mix(at) => {
                let limits = at.limits();
                let speedup = |own: &Weights| Some(limits.at(&own.shares()) / at.local_gbps());
                weights.iter().map(speedup).collect()
            }
            Self::Demand(at) => {
                let limits = at.limits();
                weights.par_iter().map(|own| limits.at(own)).collect()
            }
        }
    }

    /// Returns each measured run of the demand with its forecast, for comparison; nothing for a
    /// mix.
    fn fits(&self) -> Vec<RunFit> {
        match self {
            Self::Mix(_) => vec![],
            Self::Demand(at) => at.fits(),
        }
    }

    fn prediction(&self, rows: Vec<Row>) -> Prediction {
        match self {
            Self::Mix(at) => at.prediction(rows),
            Self::Demand(at) => at.prediction(rows),
        }
    }
}

/// Returns the best row for each set of tiers. The choices of weights that have weights above 0 for
/// the same tiers belong to one set of tiers.
fn best_rows(
    at: &PreparedTraffic<'_>,
    weights: &[Weights],
    progress: &dyn Progress,
) -> Result<Vec<Row>, Failure> {
    progress.begin(weights.len() as u64, "choices of weights");
    let at_most = at.at_most(weights);
    let predict = |some: &[&Weights]| {
        check(progress)?;
        Ok::<_, Failure>(some.par_iter().map(|weights| at.row(weights)).collect())
    };
    let rows = best_of_each_set(weights, &at_most, predict, |done| progress.advance(done as u64))?;
    progress.end();
    Ok(rows)
}

/// Returns the largest number `n` up to 10 for which the weights 0 to `n` of `tiers` tiers have at
/// most `most` combinations. Returns `None` if even the weights 0 and 1 have more combinations.
pub(crate) fn weight_max(tiers: usize, most: u64) -> Option<u16> {
    let combinations = |limit: u16| (u64::from(limit) + 1).saturating_pow(tiers as u32);
    (1..=10).rev().find(|limit| combinations(*limit) <= most)
}

/// Returns `weights`, after a check that there is one weight for each tier of `names`.
///
/// # Errors
/// When the number of weights differs from the number of names.
pub fn for_tiers(weights: &Weights, names: &[&str]) -> Result<Weights, Failure> {
    weights.clone().for_tiers(names).map_err(|why| {
        Failure::new(why.to_string(), "give one weight for each tier, 0 keeps one out")
    })
}

/// Calls `compute` for each of `items`, on all cores if there are many items. Returns the results
/// in the order of the items.
fn each<T: Sync, R: Send>(
    items: &[T],
    task: &str,
    progress: &dyn Progress,
    compute: impl Fn(&T) -> R + Sync,
) -> Result<Vec<R>, Failure> {
    progress.begin(items.len() as u64, task);
    let counted = |item: &T| {
        check(progress)?;
        let result = compute(item);
        progress.advance(1);
        Ok(result)
    };
    let results = match items.len() {
        0..PARALLEL_MIN => items.iter().map(counted).collect(),
        _ => items.par_iter().map(counted).collect(),
    };
    progress.end();
    results
}
