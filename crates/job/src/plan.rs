//! The job of `interleaf plan` predicts one demand, or several demands that run one after the
//! other, on each of several configurations of a server. The result has the speed, energy, cost and
//! capacity of each configuration, the Pareto front, and the recommended configuration. A demand's
//! share is its share of the run time on the baseline.
//!
//! ```text
//! configuration ──▶ machine: platform, populated channels, expanders      [`machine`]
//! text of an option ──▶ demands with shares of time                       [`shares`]
//! demand, machine ──▶ work per second, power, limit                       [`performance`]
//!   memory too small, and a drive ──▶ DRAM as a cache over the drive      [`cache`]
//! performance of each demand, shares ──▶ speed and energy of all          [`combined`]
//! performance, prices ──▶ cost, energy per task, front, recommendation    [`assessment`]
//! each assumed figure varied ──▶ the recommendation again                 [`sensitivity`]
//! ```
//!
//! `interleaf plan` compares servers before a purchase. The crate `interleaf_extend_forecast`
//! (`extend --plan`) predicts extended memory on one machine at other budgets.

mod assessment;
mod cache;
mod combined;
mod machine;
mod performance;
mod rows;
mod sensitivity;
mod shares;

pub use shares::{DemandShare, demand_shares};

use crate::{Progress, check};
use assessment::{Assessment, assess};
use combined::Predictions;
use interleaf_console::{Failure, check_distinct};
use interleaf_model::{
    configuration::Configuration,
    demand::Demand,
    format::names::suggestion,
    mix::Mix,
    parts::{Parts, PricedPart},
    platform::Platform,
    predict::Forecast,
    provenance::Provenance,
    units::Bytes,
};
use interleaf_record::plan::{Goal, PlanDemand, PlanDocument, PlanEnergy, PlanPart, SCHEMA};
use interleaf_record::predict::{missed_runs, not_counted};
use interleaf_record::{ProvenanceDocument, rounded};
use interleaf_report::short_number;
use machine::Candidate;
use performance::{Assumed, Performance, Source};
use std::collections::BTreeSet;

/// The work by which the configurations are compared.
#[derive(Clone, Copy, Debug)]
pub enum Planned<'a> {
    /// Traffic of this mix at its highest bandwidth.
    Mix(Mix),
    /// One demand, or several demands that run one after the other.
    Demands(&'a [DemandShare]),
}

/// A plan with all its options.
#[derive(Clone, Debug)]
pub struct PlanJob<'a> {
    /// The demands or the mix for which the configurations are compared.
    pub planned: Planned<'a>,
    /// The configurations, at least one.
    pub configurations: Vec<Configuration>,
    /// The prices of the parts of the configurations.
    pub parts: &'a Parts,
    /// The name of the configuration that all configurations are compared with. Default: the first
    /// of `configurations`.
    pub baseline: Option<String>,
    /// The memory that each demand needs, in place of the footprint in the demand's file. Default:
    /// the footprint in the file, if the file states one.
    pub footprint: Option<Bytes>,
    /// The number of threads of each demand; a number above the cores is reduced to one thread for
    /// each core. Default: the number of threads of the demand's measured runs.
    pub threads: Option<u32>,
    /// The merit that decides which configuration is recommended.
    pub goal: Goal,
    /// True if a configuration that cannot be bought yet may be recommended too.
    pub future: bool,
    /// The fraction by which assumed figures are varied: 0.2 for 20 %.
    pub vary: f64,
}

/// Returns the configurations that `names` lists, or all built-in configurations if `names` is
/// empty.
///
/// # Errors
/// When a name is unknown, a file is invalid, or a configuration is named twice.
pub fn configurations(names: &[String]) -> Result<Vec<Configuration>, Failure> {
    if names.is_empty() {
        return interleaf_catalog::configurations();
    }
    let mut all: Vec<Configuration> = vec![];
    for name in names {
        all.extend(interleaf_catalog::configurations_of(name)?);
    }
    check_distinct("--configuration", all.iter().map(|one| one.name.as_str()))?;
    Ok(all)
}

impl PlanJob<'_> {
    /// Predicts and assesses all configurations, and returns the document of the plan.
    ///
    /// # Errors
    /// When a platform, drive or part does not exist, when the baseline is not among the
    /// configurations or its memory does not hold each demand, or when `progress` stops the job.
    pub fn run(&self, progress: &dyn Progress) -> Result<PlanDocument, Failure> {
        let candidates: Vec<Candidate> =
            self.configurations.iter().map(Candidate::load).collect::<Result<_, _>>()?;
        self.check_parts()?;
        let baseline = self.baseline()?;
        let all = match self.planned {
            Planned::Mix(mix) => {
                return self.document(&candidates, baseline, &[Source::Mix(mix)], progress);
            }
            Planned::Demands(all) => all,
        };
        let demand = |one: &DemandShare| {
            let footprint = self.footprint.or(one.demand.footprint);
            Demand { footprint, ..one.demand.clone() }
        };
        let demands: Vec<Demand> = all.iter().map(demand).collect();
        let machine = &candidates[baseline].machine;
        let measured_on = demands.iter().map(|own| interleaf_catalog::measured_on(machine, own));
        let measured_on: Vec<Platform> = measured_on.collect::<Result<_, _>>()?;
        let pairs = measured_on.iter().zip(&demands);
        let forecasts: Vec<Forecast<'_>> =
            pairs.map(|(platform, demand)| Forecast::new(platform, platform, demand)).collect();
        let pairs = demands.iter().zip(&forecasts);
        let sources: Vec<Source<'_>> =
            pairs.map(|(demand, forecast)| Source::Demand { demand, forecast }).collect();
        self.document(&candidates, baseline, &sources, progress)
    }

    fn document(
        &self,
        candidates: &[Candidate],
        baseline: usize,
        sources: &[Source<'_>],
        progress: &dyn Progress,
    ) -> Result<PlanDocument, Failure> {
        let assumed = Assumed { threads: self.threads, ..Assumed::default() };
        progress.begin((candidates.len() * sources.len()) as u64, "predictions");
        let mut rows: Vec<Vec<Performance>> = vec![];
        for candidate in candidates {
            let mut row = vec![];
            for source in sources {
                check(progress)?;
                row.push(Performance::of(candidate, source, &assumed)?);
                progress.advance(1);
            }
            rows.push(row);
        }
        progress.end();
        let predictions = Predictions { shares: self.shares(), rows, baseline };
        self.check_baseline(sources, &predictions)?;
        let Assessment { rows, recommended } = assess(self, &predictions, &assumed);
        let sensitivity = sensitivity::table(self, candidates, sources, &predictions, progress)?;
        let demands = self.demands(sources);
        let (demand, result_unit) = match (&demands[..], sources) {
            ([], [source, ..]) => source.name_and_unit(),
            _ => (mixture(&demands), "s".into()),
        };
        let footprint = sources.iter().filter_map(Source::footprint).max();
        Ok(PlanDocument {
            schema: SCHEMA.into(),
            demand,
            demands,
            result_unit,
            footprint_bytes: footprint.map(Bytes::get),
            baseline: self.configurations[baseline].name.clone(),
            goal: self.goal,
            currency: self.parts.currency.clone(),
            years: self.parts.energy.as_ref().map(|energy| rounded(energy.years)),
            rows: rows::rows(candidates, sources, &predictions, &rows),
            recommended: recommended.map(|at| self.configurations[at].name.clone()),
            vary_share: rounded(self.vary),
            sensitivity,
            parts: self.parts_documents(),
            energy: self.parts.energy.as_ref().map(|energy| PlanEnergy {
                price_per_kwh: rounded(energy.per_kwh),
                source: energy.source.clone(),
                date: energy.date.clone(),
            }),
            provenance: ProvenanceDocument::new(&inputs(&predictions)),
            warnings: self
                .too_many_threads(candidates)
                .into_iter()
                .chain(self.warnings(sources, recommended.map(|at| &candidates[at])))
                .collect(),
        })
    }

    /// Returns, for each demand, its share of the run time on the baseline.
    fn shares(&self) -> Vec<f64> {
        match self.planned {
            Planned::Mix(_) => vec![1.0],
            Planned::Demands(all) => all.iter().map(|own| own.share).collect(),
        }
    }

    /// Returns the demands with their shares, for the document. The list is empty if there is only
    /// one demand.
    fn demands(&self, sources: &[Source<'_>]) -> Vec<PlanDemand> {
        let several = sources.iter().zip(self.shares()).filter(|_| sources.len() > 1);
        let document = |(source, share): (&Source<'_>, f64)| {
            let (name, result_unit) = source.name_and_unit();
            let footprint_bytes = source.footprint().map(Bytes::get);
            PlanDemand { name, share: rounded(share), result_unit, footprint_bytes }
        };
        several.map(document).collect()
    }

    /// Checks that the memory of the baseline configuration holds each demand of the plan.
    fn check_baseline(
        &self,
        sources: &[Source<'_>],
        predictions: &Predictions,
    ) -> Result<(), Failure> {
        let Predictions { rows, baseline, .. } = predictions;
        if predictions.fits(*baseline) {
            return Ok(());
        }
        let name = &self.configurations[*baseline].name;
        let holds = self.configurations.iter().enumerate().filter(|(at, _)| predictions.fits(*at));
        let holds: Vec<&str> = holds.map(|(_, own)| own.name.as_str()).collect();
        let hint = match holds.is_empty() {
            true => "none of the configurations holds it: give less with --footprint, or \
                     others with --configuration"
                .to_string(),
            false => format!(
                "give one that holds it with --baseline: {}; or less with --footprint",
                holds.join(", ")
            ),
        };
        let all = sources.iter().zip(&rows[*baseline]).filter(|(_, own)| !own.fits);
        // The last note of a demand that does not fit is the reason.
        let reason = |notes: &[String]| notes.last().cloned().unwrap_or_default();
        let problems: Vec<String> = all
            .map(|(source, own)| match sources {
                [_] => format!("the demand: {}", reason(&own.notes)),
                _ => format!("{}: {}", source.name_and_unit().0, reason(&own.notes)),
            })
            .collect();
        let problems = problems.join("; ");
        Err(Failure::new(format!("{name}, the baseline, does not hold {problems}"), hint))
    }

    /// Returns the index of the baseline in `configurations`.
    fn baseline(&self) -> Result<usize, Failure> {
        let Some(name) = &self.baseline else { return Ok(0) };
        let names: Vec<&str> = self.configurations.iter().map(|own| own.name.as_str()).collect();
        names.iter().position(|own| own == name).ok_or_else(|| {
            let hint = format!("{}choose one of {}", suggestion(name, &names), names.join(", "));
            Failure::new(
                format!("--baseline: there is no configuration \"{name}\" in the plan"),
                hint,
            )
        })
    }

    /// Checks that each part has a price.
    fn check_parts(&self) -> Result<(), Failure> {
        for own in &self.configurations {
            for part in &own.parts {
                if self.parts.parts.contains_key(&part.name) {
                    continue;
                }
                let known: Vec<&String> = self.parts.parts.keys().collect();
                let problem = format!(
                    "{}: \"{}\" of {} has no price in {}",
                    own.parts_place, part.name, own.name, self.parts.file
                );
                let hint = format!(
                    "{}add a [[part]] with this name to the prices (a copy of \
                     devices/prices/server.toml has all parts), or leave {} out",
                    suggestion(&part.name, &known),
                    own.name
                );
                return Err(Failure::new(problem, hint));
            }
        }
        Ok(())
    }

    /// Returns the parts of all configurations, with their prices.
    fn parts_documents(&self) -> Vec<PlanPart> {
        let is_used = |name: &String| {
            self.configurations.iter().any(|own| own.parts.iter().any(|part| part.name == *name))
        };
        let parts = self.parts.parts.iter().filter(|(name, _)| is_used(name));
        let document = |(name, part): (&String, &PricedPart)| PlanPart {
            name: name.clone(),
            price: rounded(part.price),
            power_w: rounded(part.power_w),
            source: part.source.clone(),
            date: part.date.clone(),
        };
        parts.map(document).collect()
    }

    /// Returns a warning if the source of any price says that the price is a placeholder.
    fn placeholders(&self) -> Option<String> {
        let parts = self.parts_documents();
        let energy = self.parts.energy.as_ref().map(|energy| &energy.source);
        let sources: Vec<&String> = parts.iter().map(|part| &part.source).chain(energy).collect();
        let is_placeholder = |source: &&&String| source.starts_with("placeholder");
        let (all, found) = (sources.len(), sources.iter().filter(is_placeholder).count());
        let count = if found == all { "all".into() } else { format!("{found} of {all}") };
        (found > 0).then(|| {
            format!(
                "{count} prices are placeholders ({}): write your own with their source into a \
                 copy of devices/prices/server.toml, and give it with --prices",
                self.parts.file
            )
        })
    }

    /// Returns a warning if the user asks for more threads than a configuration has cores.
    fn too_many_threads(&self, candidates: &[Candidate]) -> Option<String> {
        let threads = self.threads.filter(|_| matches!(self.planned, Planned::Demands(_)))?;
        let cores = candidates.iter().map(|own| own.machine.cpu.cores);
        let fewer: BTreeSet<u32> = cores.filter(|cores| *cores < threads).collect();
        let least = fewer.first()?;
        let list: Vec<String> = fewer.iter().map(u32::to_string).collect();
        let platform = if fewer.len() == 1 { "the platform has" } else { "platforms have" };
        Some(format!(
            "{threads} threads: {platform} {} cores, and a demand is predicted with at most a \
             thread on each: give at most --threads {least}",
            list.join(" or ")
        ))
    }

    fn warnings(&self, sources: &[Source<'_>], recommended: Option<&Candidate>) -> Vec<String> {
        let mut warnings = vec![];
        warnings.extend(self.placeholders());
        for source in sources.iter().filter(|source| source.footprint().is_none()) {
            let holds = recommended.map_or(String::new(), |own| {
                let bytes = own.machine.tiers.iter().map(|tier| tier.capacity.get()).sum();
                format!(" ({} holds {})", own.configuration.name, Bytes::new(bytes))
            });
            let (demand, of_each) = match sources {
                [_] => ("the demand".into(), ""),
                _ => (source.name_and_unit().0, ", which is for each demand"),
            };
            warnings.push(format!(
                "{demand} has no footprint, so that it fits everywhere{holds}: give the memory \
                 that it needs with --footprint{of_each}"
            ));
        }
        for source in sources {
            let Source::Demand { demand, forecast } = source else { continue };
            let of = if sources.len() == 1 { String::new() } else { format!("{}: ", demand.name) };
            let missed = missed_runs(&forecast.fits(), Some(demand.metric.unit()));
            warnings.extend(missed.map(|warning| of + &warning));
            warnings.extend(not_counted(demand));
        }
        warnings
    }
}

/// Formats several demands with their shares: `60 % hpcg, 40 % cloverleaf`.
fn mixture(demands: &[PlanDemand]) -> String {
    let part = |own: &PlanDemand| format!("{} % {}", short_number(100.0 * own.share), own.name);
    demands.iter().map(part).collect::<Vec<_>>().join(", ")
}

/// Returns the inputs of all predictions, each input once, with its provenance: measured,
/// published, simulated or assumed.
fn inputs(predictions: &Predictions) -> Vec<(String, Provenance)> {
    let mut all: Vec<(String, Provenance)> = vec![];
    for input in predictions.rows.iter().flatten().flat_map(|own| &own.inputs) {
        if !all.contains(input) {
            all.push(input.clone());
        }
    }
    all
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;

    #[test]
    fn threads_above_the_cores_have_a_warning() {
        let demands = demand_shares(&["hpcg".into()]).unwrap();
        let parts = interleaf_catalog::parts(None).unwrap();
        let warnings = |threads: u32| {
            let job = PlanJob {
                planned: Planned::Demands(&demands),
                configurations: configurations(&["rdimm-6400".into()]).unwrap(),
                parts: &parts,
                baseline: None,
                footprint: None,
                threads: Some(threads),
                goal: Goal::Value,
                future: false,
                vary: 0.2,
            };
            job.run(&()).unwrap().warnings
        };
        let of_threads = |all: Vec<String>| all.into_iter().find(|own| own.contains("--threads"));
        assert_eq!(of_threads(warnings(128)), None);
        let expected = "1000 threads: the platform has 128 cores, and a demand is predicted with \
                        at most a thread on each: give at most --threads 128";
        assert_eq!(of_threads(warnings(1000)).as_deref(), Some(expected));
    }
}
