//! Reproduces the experiments of the slides that introduced dynamic memory interleaving (DMI), on a
//! simulated server.
//!
//! Each of six workloads runs alone under seven policies. Then two programs with shifting demand
//! run together. The authors of DMI have a prototype. Its *calibrator* searches the ratio of pages
//! on DRAM. The published values are the bandwidths that the calibrator measured, the final
//! ratios, and the real runs of the prototype and of Colloid (`real_runs`).

mod figures;
mod real_runs;

use super::{advance, published::table};
use core::time::Duration;
use interleaf_console::Failure;
use interleaf_job::Progress;
use interleaf_model::{control::Settings, policy::PolicyKind, weights::Weights};
use interleaf_record::{
    predict::weights_text,
    reproduce::{Published, ReproduceRow, StudyDocument, TableDocument},
    simulate_machine::{SimulatedPeriod, notable_periods},
};
use interleaf_report::{number, signed_percent};
use interleaf_sim::machine::{Outcome, PreparedScenario, Scenario, Task, Trial};
use rayon::prelude::*;
use serde::Deserialize;

pub(super) const NAME: &str = "dmi";

/// Number of progress steps: one for each workload that runs alone, one for the programs with
/// shifting demand, and one for each group of real runs.
pub(super) const STEPS: u64 = (WORKLOADS.len() + 1 + real_runs::GROUPS) as u64;

const TITLE: &str = "Dynamic memory interleaving, simulated";
const SOURCE: &str = "slides \"Dynamic memory interleaving for tiered memory\" (Micron, 7 August \
                      2025), and the authors' published raw logs of the prototype, spring 2025: \
                      120-core Granite Rapids, 12 x DDR5, 8 x CZ122";
const PLATFORM: &str = "gnr120-cz122";
const CALIBRATOR: &str = include_str!("../../../reproduce/dmi/calibrator.csv");
const OUTCOMES: &str = include_str!("../../../reproduce/dmi/outcomes.csv");

/// Three workloads that are limited by bandwidth, then three that are limited by latency.
const WORKLOADS: [&str; 6] = ["cloverleaf", "lbm", "bwaves", "pr", "bfs", "bc"];

const THREADS: u32 = 119;

/// The simulated policies, in the order in which the figures show them.
const POLICIES: [PolicyKind; 7] = [
    PolicyKind::Local,
    PolicyKind::Static,
    PolicyKind::Bandwidth,
    PolicyKind::Dmi,
    PolicyKind::DmiPrototype,
    PolicyKind::Colloid,
    PolicyKind::Guided,
];

const DURATION: Duration = Duration::from_secs(600);

#[derive(Deserialize)]
struct CalibratorRow {
    period: usize,
    bandwidth_gbps: f64,
}

#[derive(Deserialize)]
struct OutcomeRow {
    what: String,
    low: f64,
    high: f64,
    unit: String,
    source: String,
    note: String,
}

/// A scenario (a platform and the programs on it), and the outcome of each policy on it.
struct Experiment {
    scenario: Scenario,
    outcomes: Vec<(PolicyKind, Outcome)>,
}

impl Experiment {
    fn run(scenario: Scenario, duration: Duration) -> Result<Self, Failure> {
        let prepared = PreparedScenario::new(&scenario, duration);
        let outcomes = POLICIES
            .par_iter()
            .map(|policy| {
                let settings = Settings::default();
                let trial = Trial { policy: *policy, points: None, curve_error: 0.0, settings };
                let outcome = prepared.run(&trial);
                let outcome = outcome.map_err(|why| Failure::new(why.to_string(), why.hint()))?;
                Ok((*policy, outcome))
            })
            .collect::<Result<_, Failure>>()?;
        Ok(Self { scenario, outcomes })
    }

    fn outcome(&self, policy: PolicyKind) -> Result<&Outcome, Failure> {
        let found = self.outcomes.iter().find(|(own, _)| *own == policy);
        found.map(|(_, outcome)| outcome).ok_or_else(|| {
            Failure::new(
                format!("{policy} was not run"),
                "the study is part of the program: report it",
            )
        })
    }
}

pub(super) fn reproduce(progress: &dyn Progress) -> Result<StudyDocument, Failure> {
    let platform = interleaf_catalog::platform(PLATFORM)?;
    let alone = WORKLOADS
        .par_iter()
        .map(|name| {
            let demand = interleaf_catalog::workload(name)?;
            let task = Task::new(&platform, &platform, &demand, THREADS);
            let scenario = Scenario::new(name, platform.clone(), vec![task]);
            let experiment = Experiment::run(scenario, DURATION)?;
            advance(progress, 1)?;
            Ok(experiment)
        })
        .collect::<Result<Vec<_>, Failure>>()?;
    let (scenario, duration) = interleaf_catalog::scenario("shifting-demand", None)?;
    let duration = duration.map_or(DURATION, |time| Duration::from_secs_f64(time.seconds()));
    let shifting = Experiment::run(scenario, duration)?;
    advance(progress, 1)?;

    let mut rows = calibrator(&alone[0])?;
    rows.extend(outcomes(&alone, &shifting)?);
    rows.extend(real_runs::rows(&platform, progress)?);
    let fitted = vec![
        "how the threads of each workload behave, from its runs with all pages on DRAM".into(),
        "constants of interleaving: as fitted on xeon6-cz122".into(),
        "the most reads that the counters of DRAM see: one constant, from the real runs of Colloid"
            .into(),
    ];
    let mut study = StudyDocument::new(NAME, TITLE, SOURCE, rows, fitted);
    study.remarks = remarks(&alone, &shifting);
    study.figures = figures::all(&alone, &shifting)?;
    study.tables = alone.iter().chain([&shifting]).map(side_by_side).collect();
    study.tables.push(decisions("bwaves under dmi", alone[2].outcome(PolicyKind::Dmi)?));
    study.tables.push(decisions("shifting demand under dmi", shifting.outcome(PolicyKind::Dmi)?));
    Ok(study)
}

/// Makes the rows for the log of the calibrator (the part of the prototype that searches the ratio
/// of pages on DRAM): the published and the simulated bandwidth of CloverLeaf in each period.
fn calibrator(cloverleaf: &Experiment) -> Result<Vec<ReproduceRow>, Failure> {
    let outcome = cloverleaf.outcome(PolicyKind::DmiPrototype)?;
    let rows: Vec<CalibratorRow> = table("calibrator.csv", CALIBRATOR)?;
    let row = |published: &CalibratorRow| {
        let period = outcome.periods.get(published.period.checked_sub(1)?)?;
        // During a period, the pages are placed by the target that was set at the end of the
        // previous period.
        let at = published.period.checked_sub(2).and_then(|before| outcome.periods.get(before));
        let at = at.map_or("100:0".into(), |period| Weights::percent(&period.target).to_string());
        let what = format!("period {}", published.period);
        let row = ReproduceRow::new(
            "the calibrator on CloverLeaf",
            what,
            "GB/s",
            published.bandwidth_gbps,
            period.judged_gbps?,
        );
        Some(row.with_note(format!("ours at {at}")).explained(|| {
            "not explained: the simulated server carries less than that at any ratio".into()
        }))
    };
    Ok(rows.iter().filter_map(row).collect())
}

/// Makes the rows of `outcomes.csv`, in its order:
///
/// - the period in which the prototype last changes the ratio of CloverLeaf's pages, then the
///   lowest and the final percentage of these pages on DRAM,
/// - the runtime of CloverLeaf (from `alone`) under `dmi`, divided by its runtime with the best
///   static weights,
/// - the speed of each program with `shifting` demand under `dmi`, divided by its speed with the
///   best static weights.
fn outcomes(alone: &[Experiment], shifting: &Experiment) -> Result<Vec<ReproduceRow>, Failure> {
    let log = alone[0].outcome(PolicyKind::DmiPrototype)?;
    let points = |target: &[f64]| 100.0 * target[0];
    let over_static = |task: usize| -> Result<f64, Failure> {
        let regret = shifting.outcome(PolicyKind::Dmi)?.tasks[task].regret().unwrap_or(f64::NAN);
        Ok(1.0 / (1.0 + regret))
    };
    let published: Vec<OutcomeRow> = table("outcomes.csv", OUTCOMES)?;
    let ours = [
        log.last_change() as f64,
        log.periods.iter().map(|period| points(&period.target)).fold(100.0, f64::min),
        log.periods.last().map_or(f64::NAN, |period| points(&period.target)),
        1.0 + alone[0].outcome(PolicyKind::Dmi)?.tasks[0].regret().unwrap_or(f64::NAN),
        over_static(0)?,
        over_static(1)?,
    ];
    if ours.len() != published.len() {
        let problem = format!("outcomes.csv has {} rows, not {}", published.len(), ours.len());
        return Err(Failure::new(problem, "the table is part of the program: report it"));
    }
    let rows = published.iter().zip(ours).map(|(published, ours)| {
        let section = match published.source.as_str() {
            "slides" => "shifting demand",
            _ => "where it ends",
        };
        let range = Published::between(published.low, published.high);
        let row = ReproduceRow::new(section, &published.what, &published.unit, range, ours);
        let note = Some(published.note.clone()).filter(|note| !note.is_empty());
        ReproduceRow { note, ..row }.explained(|| {
            match published.unit.as_str() {
                "periods" | "points" => {
                    "follows from period 6: the simulated server has its summit before, so that \
                     the search turns there"
                }
                _ => "not explained",
            }
            .into()
        })
    });
    Ok(rows.collect())
}

/// Returns a table with the result of each policy for each task of a scenario.
fn side_by_side(experiment: &Experiment) -> TableDocument {
    let header = [
        "policy",
        "workload",
        "s",
        "speed-up",
        "behind best static",
        "settled s",
        "weights",
        "moved GB",
    ];
    let mut rows = vec![];
    for (at, task) in experiment.scenario.tasks.iter().enumerate() {
        for (policy, outcome) in &experiment.outcomes {
            let done = &outcome.tasks[at];
            let last = outcome.periods.last();
            rows.push(vec![
                policy.to_string(),
                task.name.clone(),
                done.runtime_s.map_or("not ended".into(), number),
                done.speedup().map_or(String::new(), number),
                done.regret().map_or(String::new(), signed_percent),
                outcome.converged_after_s.map_or("-".into(), |s| format!("{s:.0}")),
                last.map_or(String::new(), |last| Weights::percent(&last.target).to_string()),
                format!("{:.1}", outcome.moved_bytes as f64 * 1e-9),
            ]);
        }
    }
    let title = format!("{}: policies side by side", experiment.scenario.name);
    TableDocument { title, header: header.map(String::from).to_vec(), rows }
}

/// Returns a table of the policy's notable decisions in the run with the outcome `outcome`. `what`
/// names the run in the table's title.
fn decisions(what: &str, outcome: &Outcome) -> TableDocument {
    let header = ["s", "GB/s", "moved GB", "target", "decision", "why"];
    let periods: Vec<SimulatedPeriod> = outcome.periods.iter().map(SimulatedPeriod::new).collect();
    let rows = notable_periods(&periods).map(|period| {
        vec![
            format!("{:.0}", period.time_s),
            number(period.bandwidth_gbps),
            format!("{:.1}", period.migrated_bytes as f64 * 1e-9),
            weights_text(&period.target_weights),
            period.decision.clone(),
            period.reason.clone(),
        ]
    });
    let title = format!("{what}: decisions");
    TableDocument { title, header: header.map(String::from).to_vec(), rows: rows.collect() }
}

fn remarks(alone: &[Experiment], shifting: &Experiment) -> Vec<String> {
    let footprints = alone.iter().chain([shifting]).flat_map(|experiment| {
        experiment.scenario.tasks.iter().map(|task| {
            let footprint = interleaf_model::units::Bytes::new(task.footprint_bytes);
            format!("{} {footprint}", task.name)
        })
    });
    let footprints: Vec<String> = footprints.collect();
    let scenario = &alone[0].scenario;
    vec![
        "samples of 200 ms, periods of 6 s, the 90th percentile: as in the slides".into(),
        format!(
            "footprints ({}), migration at {} GB/s and counter noise of {:.0} % are assumed: the \
             slides do not give them",
            footprints.join(", "),
            scenario.migration.bandwidth_gbps,
            100.0 * scenario.counter_noise,
        ),
        "the prototype's log has the ratio of its first and its sixth period (100 and 62); ours \
         reaches 60 in the sixth, past the best ratio of the simulated server"
            .into(),
        "single-workload speeds, the ratio over time and the migrations are pictures in the \
         slides, without numbers: the tables and plots here are ours"
            .into(),
        "cores and iterations of the two lbm runs of shifting demand are assumed; a static ratio \
         is one for the whole machine: the one with the best product of both speeds"
            .into(),
    ]
}
