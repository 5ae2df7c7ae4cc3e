//! The job of `interleaf plan`: one demand on every configuration of a server that can be bought,
//! with speed, energy, cost and capacity, the Pareto front, and the recommendation.
//!
//! ```text
//! configuration ──▶ machine: platform, populated channels, expanders      [`machine`]
//! demand, machine ──▶ work per second, power, limit                       [`performance`]
//!   memory too small, and a drive ──▶ DRAM as a cache over the drive      [`cache`]
//! performance, prices ──▶ cost, energy per task, front, recommendation    [`assessment`]
//! each assumed figure varied ──▶ the recommendation again                 [`sensitivity`]
//! ```
//!
//! The verb plans a purchase; the crate `interleaf_extend_forecast` predicts extended memory at
//! other budgets.

mod assessment;
mod cache;
mod machine;
mod performance;
mod sensitivity;

use crate::{Progress, check, predict::Traffic};
use assessment::{Assessed, assess};
use interleaf_console::Failure;
use interleaf_model::{
    configuration::Configuration,
    demand::Demand,
    format::names::suggestion,
    parts::{Parts, PricedPart},
    predict::Forecast,
    provenance::Provenance,
    units::Bytes,
};
use interleaf_record::plan::{Goal, PlanDocument, PlanPart, PlanRow, SCHEMA};
use interleaf_record::{ProvenanceDocument, rounded};
use machine::Candidate;
use performance::{Assumed, Performance, Source};

/// A plan with all its options.
#[derive(Clone, Debug)]
pub struct PlanJob<'a> {
    /// The demand on memory.
    pub traffic: Traffic<'a>,
    /// The configurations, at least one.
    pub configurations: Vec<Configuration>,
    /// The prices of their parts.
    pub parts: &'a Parts,
    /// True if the prices are the example's, which are placeholders.
    pub is_example: bool,
    /// The configuration that the others are compared with. Default: the first.
    pub baseline: Option<String>,
    /// Memory that the demand needs. Default: the footprint of the demand, if it has one.
    pub footprint: Option<Bytes>,
    /// Threads. Default: the threads of the demand's runs, at most one for each core.
    pub threads: Option<u32>,
    /// The merit that decides.
    pub goal: Goal,
    /// Recommend configurations that cannot be bought yet, too.
    pub future: bool,
    /// The fraction by which assumed figures are varied: 0.2 for 20 %.
    pub vary: f64,
}

impl PlanJob<'_> {
    /// Assesses all configurations.
    ///
    /// # Errors
    /// A platform, drive or part that does not exist, a baseline that is not among the
    /// configurations or does not hold the demand, or a stop by `progress`.
    pub fn run(&self, progress: &dyn Progress) -> Result<PlanDocument, Failure> {
        let candidates: Vec<Candidate> =
            self.configurations.iter().map(Candidate::load).collect::<Result<_, _>>()?;
        self.check_parts()?;
        let baseline = self.baseline()?;
        match self.traffic {
            Traffic::Mix(mix) => {
                let source = Source::Mix(mix);
                self.document(&candidates, baseline, &source, progress)
            }
            Traffic::Demand(demand) => {
                let footprint = self.footprint.or(demand.footprint);
                let demand = Demand { footprint, ..demand.clone() };
                let measured_on =
                    interleaf_catalog::measured_on(&candidates[baseline].machine, &demand)?;
                let forecast = Forecast::new(&measured_on, &measured_on, &demand);
                let source = Source::Demand { demand: &demand, forecast: &forecast };
                self.document(&candidates, baseline, &source, progress)
            }
        }
    }

    fn document(
        &self,
        candidates: &[Candidate],
        baseline: usize,
        source: &Source<'_>,
        progress: &dyn Progress,
    ) -> Result<PlanDocument, Failure> {
        let assumed =
            Assumed { threads: self.threads, footprint: self.footprint, ..Assumed::default() };
        progress.begin(candidates.len() as u64, "configurations");
        let mut performances = vec![];
        for candidate in candidates {
            check(progress)?;
            performances.push(Performance::of(candidate, source, &assumed)?);
            progress.advance(1);
        }
        progress.end();
        let base = &performances[baseline];
        if !base.fits {
            let name = &self.configurations[baseline].name;
            let holds = self.configurations.iter().zip(&performances).filter(|(_, own)| own.fits);
            let holds: Vec<&str> = holds.map(|(own, _)| own.name.as_str()).collect();
            let hint = match holds.is_empty() {
                true => "none of the configurations holds it: give less with --footprint, or \
                         others with --configuration"
                    .to_string(),
                false => format!(
                    "give one that holds it with --baseline: {}; or less with --footprint",
                    holds.join(", ")
                ),
            };
            return Err(Failure::new(
                format!(
                    "{name}, the baseline, does not hold the demand: {}",
                    base.notes.join("; ")
                ),
                hint,
            ));
        }
        let assessed = assess(self, &performances, baseline, &assumed);
        let rows = candidates.iter().zip(&performances).zip(&assessed.rows);
        let work_cost = |merits: &Assessed| merits.cost / merits.speed.mean;
        let base_work_cost = work_cost(&assessed.rows[baseline]);
        let rows = rows.map(|((candidate, own), merits)| PlanRow {
            work_cost: Some(work_cost(merits) / base_work_cost)
                .filter(|ratio| ratio.is_finite())
                .map(rounded),
            ..row(candidate, own, merits)
        });
        let rows = rows.collect();
        let sensitivity =
            sensitivity::table(self, candidates, source, &performances, baseline, progress)?;
        let (demand, result_unit) = source.name_and_unit();
        Ok(PlanDocument {
            schema: SCHEMA.into(),
            demand,
            result_unit,
            footprint_bytes: source.footprint().or(self.footprint).map(Bytes::get),
            baseline: self.configurations[baseline].name.clone(),
            goal: self.goal,
            currency: self.parts.currency.clone(),
            years: self.parts.energy.as_ref().map(|energy| rounded(energy.years)),
            rows,
            recommended: assessed.recommended.map(|at| self.configurations[at].name.clone()),
            vary_share: rounded(self.vary),
            sensitivity,
            parts: self.parts_documents(),
            provenance: ProvenanceDocument::new(&inputs(&performances)),
            warnings: self.warnings(source, assessed.recommended.map(|at| &candidates[at])),
        })
    }

    /// The index of the baseline.
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
                    "{}add a [[part]] with this name to the prices, or leave {} out",
                    suggestion(&part.name, &known),
                    own.name
                );
                return Err(Failure::new(problem, hint));
            }
        }
        Ok(())
    }

    /// The parts of all configurations, with their prices.
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

    fn warnings(&self, source: &Source<'_>, recommended: Option<&Candidate>) -> Vec<String> {
        let mut warnings = vec![];
        if self.is_example {
            warnings.push(
                "the prices are placeholders of devices/prices/server.toml: copy the file, write \
                 your own, and give it with --prices"
                    .into(),
            );
        }
        if source.footprint().or(self.footprint).is_none() {
            let holds = recommended.map_or(String::new(), |own| {
                let bytes = own.machine.tiers.iter().map(|tier| tier.capacity.get()).sum();
                format!(" ({} holds {})", own.configuration.name, Bytes::new(bytes))
            });
            warnings.push(format!(
                "the demand has no footprint, so that it fits everywhere{holds}: give the memory \
                 that it needs with --footprint"
            ));
        }
        warnings
    }
}

/// The inputs of all predictions, each once.
fn inputs(performances: &[Performance]) -> Vec<(String, Provenance)> {
    let mut all: Vec<(String, Provenance)> = vec![];
    for input in performances.iter().flat_map(|own| &own.inputs) {
        if !all.contains(input) {
            all.push(input.clone());
        }
    }
    all
}

/// The row of a configuration, without the relative cost of its work.
fn row(candidate: &Candidate, own: &Performance, merits: &Assessed) -> PlanRow {
    let Candidate { configuration, machine, .. } = candidate;
    PlanRow {
        configuration: configuration.name.clone(),
        does: configuration.does.clone(),
        future: configuration.is_future,
        weights: own.weights.as_slice().to_vec(),
        threads: Some(rounded(own.threads)),
        speed: rounded(merits.speed.mean),
        speed_interval: [rounded(merits.speed.low), rounded(merits.speed.high)],
        result: rounded(own.result),
        bandwidth_gbps: rounded(own.bandwidth_gbps()),
        latency_ns: rounded(own.latency_ns),
        power_w: merits.power_w.map(rounded),
        task_energy_j: merits.energy_j.map(rounded),
        cost: rounded(merits.cost),
        parts_cost: rounded(merits.parts_cost),
        work_cost: None,
        capacity_bytes: machine.tiers.iter().map(|tier| tier.capacity.get()).sum(),
        fits: own.fits,
        bound_by: own.bound_by.clone(),
        on_cost_front: merits.on_cost_front,
        on_energy_front: merits.on_energy_front,
        dominated_by: merits.dominated_by.clone(),
        notes: own.notes.clone(),
    }
}
