//! Predicts the applications of Micron's report on MRDIMMs: speed, energy and latency of misses,
//! from demands that were fitted to runs on RDIMMs.
//!
//! No demand was fitted to a run on an MRDIMM. The demands of the GAP kernels are used without
//! their assumed number of outstanding lines, because that number was chosen with knowledge of the
//! report's table. The curves of the modules are the curves of built-in platforms. Each curve is
//! stretched to the maximum bandwidth that this study simulates for its mix and for the ranks and
//! the density of the report's modules.

use super::{GEN2_4R, MIXES, ModulePoint, Results, table};
use crate::published::mean_and_max;
use interleaf_console::Failure;
use interleaf_model::{
    demand::Demand,
    mix::Mix,
    platform::Platform,
    predict::{Estimate, Forecast},
    weights::Weights,
};
use interleaf_record::reproduce::{Published, ReproduceRow, TableDocument};
use interleaf_report::number;
use serde::Deserialize;

const APPLICATIONS: &str = include_str!("../../../../reproduce/mrdimm/applications.csv");

/// Pairs of a module's name in Micron's report and the platform whose curves are stretched for this
/// module.
const PLATFORMS: [(&str, &str); 3] = [
    ("rdimm-6400", "xeon6-rdimm-6400"),
    ("mrdimm-8800", "xeon6-mrdimm-8800"),
    ("mrdimm-12800", "xeon6-mrdimm-12800"),
];

/// The density of the devices of MRDIMM-12800.
const DENSITY: &str = "16Gb";

/// Names of the sections of the study's document that have the rows of the applications.
const SPEED: &str = "applications, speed";
const ENERGY: &str = "applications, energy";
const LATENCY: &str = "applications, latency of misses";

#[derive(Deserialize)]
struct Application {
    key: String,
    section: String,
    what: String,
    figure: String,
    low: f64,
    high: f64,
    demand: String,
    rdimm: String,
    mrdimm: String,
    density: String,
    basis: String,
}

/// The prediction of an application's demand on one machine: the speed with each behaviour (set of
/// thread properties) that agrees with the demand's runs, the latency of misses, and the power.
struct OnMachine {
    speeds: Vec<f64>,
    latency_ns: f64,
    power_w: f64,
}

/// The results for the applications of the report. `rows` compares the published with the predicted
/// values of each application that has a demand. `tables` has a table of predictions, and a table
/// of the applications without a demand.
pub(super) struct Applications {
    pub(super) rows: Vec<ReproduceRow>,
    pub(super) tables: Vec<TableDocument>,
}

pub(super) fn applications(results: &Results) -> Result<Applications, Failure> {
    let published: Vec<Application> = table("applications.csv", APPLICATIONS)?;
    let (mut rows, mut predicted, mut unknown) = (vec![], vec![], vec![]);
    for own in &published {
        if own.demand.is_empty() {
            let published = match Published::between(own.low, own.high) {
                Published::Range([low, high]) => format!("{} to {}", number(low), number(high)),
                _ => number(own.low),
            };
            let figure = format!("{published} {}", own.figure);
            unknown.push(vec![own.section.clone(), own.what.clone(), figure, own.basis.clone()]);
            continue;
        }
        let demand = demand(&own.demand)?;
        let (rdimm_density, density) = own.densities();
        let rdimm = machine(results, &own.rdimm, rdimm_density)?;
        let base = on(&rdimm, &demand)?;
        let mrdimm = on(&machine(results, &own.mrdimm, density)?, &demand)?;
        let published = Published::between(own.low, own.high);
        let (section, ours) = match own.figure.as_str() {
            "energy" => (ENERGY, base.energy() / mrdimm.energy()),
            "latency" => (LATENCY, mrdimm.latency_ns / base.latency_ns),
            _ => (SPEED, mrdimm.speedup(&base).mean),
        };
        let what = format!("{}, {} ({})", own.what, own.figure, own.section);
        let row = ReproduceRow::new(section, what, "x", published, ours);
        let note = format!("from {}: {}", own.demand, own.basis);
        rows.push(row.with_note(note).explained(|| reason(&own.key).into()));
        if own.figure == "speed-up" {
            let second = on(&machine(results, GEN2_4R, DENSITY)?, &demand)?;
            predicted.push(vec![
                own.what.clone(),
                own.demand.clone(),
                interval(mrdimm.speedup(&base)),
                number(base.energy() / mrdimm.energy()),
                interval(second.speedup(&base)),
                number(base.energy() / second.energy()),
            ]);
        }
    }
    // The rows are sorted by section, so that the rows of a section are together.
    rows.sort_by_key(|row: &ReproduceRow| {
        [SPEED, ENERGY, LATENCY].iter().position(|it| *it == row.section)
    });
    let header = |names: &[&str]| names.iter().map(ToString::to_string).collect();
    let tables = vec![
        TableDocument {
            title: "Applications, predicted from runs on RDIMMs; energy efficiency: energy of the \
                    task with RDIMM-6400 over that with the MRDIMM"
                .into(),
            header: header(&[
                "application",
                "demand",
                "speed, MRDIMM-8800 (90 %)",
                "energy efficiency",
                "speed, MRDIMM-12800 (90 %)",
                "energy efficiency",
            ]),
            rows: predicted,
        },
        TableDocument {
            title: "Applications without a prediction, not counted in the errors".into(),
            header: header(&["section", "application", "published", "reason"]),
            rows: unknown,
        },
    ];
    Ok(Applications { rows, tables })
}

/// Formats the mean and the maximum error of the predicted speeds, energies and latencies of
/// misses.
pub(super) fn remark(rows: &[ReproduceRow]) -> String {
    let of = |section: &str| {
        let own = rows.iter().filter(|row| row.section == section);
        let errors: Vec<f64> = own.filter_map(|row| row.error).collect();
        let (mean, max) = mean_and_max(&errors);
        format!("{} rows, mean error {:.1} %, max {:.1} %", errors.len(), 100.0 * mean, 100.0 * max)
    };
    format!(
        "applications, from demands of runs on RDIMMs: speed-ups: {}; energy: {}; latency of \
         misses: {}",
        of(SPEED),
        of(ENERGY),
        of(LATENCY)
    )
}

impl Application {
    /// Returns the densities of the DRAM devices on the RDIMM and on the MRDIMM.
    fn densities(&self) -> (&str, &str) {
        self.density.split_once('/').unwrap_or((&self.density, &self.density))
    }
}

impl OnMachine {
    /// Returns the speed relative to the machine `base`: the mean and the interval over all
    /// behaviours (sets of thread properties) that agree with the demand's runs.
    fn speedup(&self, base: &Self) -> Estimate {
        let ratios = self.speeds.iter().zip(&base.speeds).map(|(own, base)| own / base);
        Estimate::of(ratios.collect()).with_model_spread()
    }

    /// Returns the energy of one unit of work, J: the power divided by the mean speed (units of
    /// work per second).
    fn energy(&self) -> f64 {
        self.power_w * self.speeds.len() as f64 / self.speeds.iter().sum::<f64>()
    }
}

/// Returns the demand of a built-in workload without its number of outstanding lines, which was
/// chosen with knowledge of the report.
fn demand(name: &str) -> Result<Demand, Failure> {
    let demand = interleaf_catalog::workload(name)?;
    Ok(Demand { outstanding_lines_per_thread: None, ..demand })
}

/// Returns the platform with the report's `module`, whose DRAM devices have the `density`. The
/// platform's curves are stretched to the maximum bandwidth that `results` has for the ranks and
/// the density of the module.
fn machine(results: &Results, module: &str, density: &str) -> Result<Platform, Failure> {
    let unknown = |what: &str, value: &str| {
        let hint = "the table is part of the program: report it";
        Failure::new(format!("applications.csv: {what}: \"{value}\" is not simulated"), hint)
    };
    let found = PLATFORMS.iter().find(|(start, _)| module.starts_with(start));
    let (_, name) = found.ok_or_else(|| unknown("module", module))?;
    let point = |device: &str, density: &str, mix: &str| {
        results.0.keys().copied().find(|point| {
            let ModulePoint { width, load, .. } = point;
            let plain = *width == "x4" && load.is_none();
            plain && point.device == device && point.density == density && point.mix == mix
        })
    };
    let mut platform = interleaf_catalog::platform(name)?;
    let mut factors = vec![];
    for mix in MIXES {
        let wanted = point(module, density, mix).ok_or_else(|| unknown("density", density))?;
        let parsed: Mix = mix.parse().map_err(|_| unknown("mix", mix))?;
        let own = platform.answer(0, &[1.0], parsed).response.max_bandwidth_gbps();
        factors.push((parsed, results.bandwidth(wanted) / own));
    }
    let factor = |mix: Mix| factors.iter().find(|(own, _)| *own == mix).map_or(1.0, |(_, f)| *f);
    let curves = platform.tiers[0].curves.scaled_by(factor);
    platform.tiers[0].curves = curves.map_err(|why| unknown("curve", &why.to_string()))?;
    Ok(platform)
}

/// Predicts a demand on a machine. The number of threads is that of the demand's measured runs, but
/// at most one thread for each core.
fn on(platform: &Platform, demand: &Demand) -> Result<OnMachine, Failure> {
    let measured_on = interleaf_catalog::measured_on(platform, demand)?;
    let forecast = Forecast::new(platform, &measured_on, demand);
    let threads = f64::from(demand.threads().min(platform.cpu.cores));
    let at = forecast.at(threads);
    let first = Weights::first_tier(platform.tiers.len());
    let row = at.row(&first);
    let cores = platform.power.as_ref().map_or(0.0, |power| power.core_w * threads);
    let traffic = platform.traffic_w(&row.tier_bandwidth_gbps);
    let power_w = platform.standing_w().map_or(f64::NAN, |standing| standing + cores + traffic);
    Ok(OnMachine { speeds: at.speeds(&first), latency_ns: row.latency_ns, power_w })
}

fn interval(estimate: Estimate) -> String {
    let Estimate { mean, low, high } = estimate;
    format!("{mean:.2} ({low:.2} to {high:.2})")
}

/// Returns the explanation for errors above 5 % in the rows of the application `key`.
fn reason(key: &str) -> &'static str {
    match key {
        "openfoam" => {
            "the demand is that of another mesh, and its runs leave open how far memory limits it"
        }
        "gap-bc" | "gap-pr" => {
            "the runs on RDIMMs have no counters: they leave open how many lines a thread has \
             outstanding, and with it the part of the time that memory takes"
        }
        "spec-lbm-s" => {
            "the runs of the demand saturate memory from 60 threads on, as the copies of 519.lbm_r \
             do"
        }
        "spec-bwaves-s" => {
            "the runs have threads that wait for each other beyond 90, which the demand takes for \
             time of the cores"
        }
        _ if key.ends_with("-energy") => {
            "the energy follows the speed, whose error it has; the power of the server is assumed"
        }
        _ if key.ends_with("-latency") => {
            "the runs leave open how far a thread saturates memory; the mean over all behaviours \
             that agree has saturated ones in it, with long latencies"
        }
        _ => "not explained",
    }
}
