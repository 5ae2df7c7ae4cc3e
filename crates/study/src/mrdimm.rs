//! Reproduces Micron's technical report on MRDIMMs: figures 4 to 9 and the outlook on the second
//! generation. The modules are simulated command by command.
//!
//! The report's applications are predicted from demands that were fitted to runs on RDIMMs
//! (`applications`).
//!
//! The server has twelve channels with one module each. All rows use the same parameters of the
//! controller. All rows of RDIMM-6400 and MRDIMM-8800 use the same processor; for MRDIMM-12800, the
//! outstanding lines of a future processor are assumed (`GEN2_OUTSTANDING`).

mod applications;
mod figures;
mod outlook;

use super::{advance, published::table};
use interleaf_console::Failure;
use interleaf_job::Progress;
use interleaf_record::reproduce::{Published, ReproduceRow, StudyDocument, TableDocument};
use interleaf_report::number;
use interleaf_sim::dimm::{
    device::{Device, Options},
    energy::{self, Energy},
    run::{ChannelResult, Setup},
};
use rayon::prelude::*;
use serde::Deserialize;
use std::collections::BTreeMap;

pub(super) const NAME: &str = "mrdimm";

/// Number of progress steps: one for each simulated point.
pub(super) const STEPS: u64 = 122;

const TITLE: &str = "MRDIMMs beside RDIMMs, simulated command by command";
const SOURCE: &str = "Micron MRDIMM Technology Delivers Performance and Efficiency \
                      (CCM004-1681249710-11820, 11/2025)";
const REPORT: &str = include_str!("../../../reproduce/mrdimm/report.csv");

const CHANNELS: u32 = 12;
const MIXES: [&str; 5] = ["R", "W3", "W2", "W5", "W10"];
const DENSITIES: [&str; 3] = ["16Gb", "24Gb", "32Gb"];

/// `SAMPLE` lists the sub-channels that are simulated, and `ACCESSES` is the number of simulated
/// accesses of each. A sample suffices because all sub-channels have equal load.
const SAMPLE: [u32; 4] = [0, 7, 13, 18];
const ACCESSES: u64 = 40_000;

/// Offered loads of all channels together, GB/s, at which latency is simulated. The last of these
/// loads is the maximum bandwidth of RDIMMs with 32 Gb devices.
const LOADS: [f64; 17] = [
    5.0, 50.0, 100.0, 150.0, 200.0, 250.0, 300.0, 350.0, 400.0, 450.0, 480.0, 500.0, 510.0, 520.0,
    530.0, 535.0, 540.0,
];
/// `HIGH` is a high load, and `SATURATED` the load at which RDIMMs saturate (99 % of their
/// maximum), GB/s.
const HIGH: f64 = 500.0;
const SATURATED: f64 = 535.0;
/// Loads at which power is compared, GB/s: about 1 GB/s per core, and a high load. For comparison:
/// one copy of a program of SPEC CPU 2017 takes 2.3 GB/s at most (Singh and Awasthi, ICPE 2019).
const POWERED: [f64; 2] = [125.0, 400.0];

const RDIMM: &str = "rdimm-6400-2r";
const MRDIMM: &str = "mrdimm-8800-2r";
const MRDIMM_4R: &str = "mrdimm-8800-4r";
const GEN2: &str = "mrdimm-12800-2r";
const GEN2_4R: &str = "mrdimm-12800-4r";

/// Outstanding lines of each sub-channel with MRDIMM-12800. The number is assumed, because no
/// processor supports these modules yet. The 144 lines of a Xeon 6 would limit the modules below
/// their maximum.
const GEN2_OUTSTANDING: usize = 240;

#[derive(Deserialize)]
struct ReportRow {
    key: String,
    section: String,
    what: String,
    unit: String,
    low: f64,
    high: f64,
}

/// The configuration of a simulated point: the module, the mix and the load.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct ModulePoint {
    device: &'static str,
    density: &'static str,
    width: &'static str,
    mix: &'static str,
    /// Offered load in MB/s; `None` for the maximum load.
    load: Option<u64>,
}

impl ModulePoint {
    const fn new(device: &'static str, density: &'static str, mix: &'static str) -> Self {
        Self { device, density, width: "x4", mix, load: None }
    }

    fn at(self, gbps: f64) -> Self {
        Self { load: Some((gbps * 1e3) as u64), ..self }
    }
}

/// The result and the energy of each simulated point. The bandwidth is scaled from the sampled
/// sub-channels to all channels; the energy is that of the sampled sub-channels alone.
struct Results(BTreeMap<ModulePoint, (ChannelResult, Option<Energy>)>);

impl Results {
    fn bandwidth(&self, point: ModulePoint) -> f64 {
        self.0.get(&point).map_or(f64::NAN, |(part, _)| part.bandwidth_gbps)
    }

    fn latency(&self, point: ModulePoint) -> f64 {
        self.0.get(&point).map_or(f64::NAN, |(part, _)| part.latency.mean_ns())
    }

    fn power_w(&self, point: ModulePoint) -> f64 {
        let energy = self.0.get(&point).and_then(|(_, energy)| *energy);
        let parts = f64::from(2 * CHANNELS) / SAMPLE.len() as f64;
        energy.map_or(f64::NAN, |energy| energy.power_w() * parts)
    }

    fn below_204ns(&self, points: impl Iterator<Item = ModulePoint>) -> f64 {
        // The result is the fraction of accesses that take less than 204 ns, among the accesses at
        // all loads together, if each load runs for the same time. The number of accesses at a load
        // is proportional to its bandwidth, so each load is weighted by its bandwidth.
        let (mut below, mut all) = (0.0, 0.0);
        for (part, _) in points.filter_map(|point| self.0.get(&point)) {
            below += part.bandwidth_gbps * part.latency.part_below(204);
            all += part.bandwidth_gbps;
        }
        below / all
    }

    /// Returns the load, GB/s, above which `b` has less latency than `a`, interpolated between
    /// simulated loads. Returns 0 if `b` never has more latency, and infinity if `b` has more
    /// latency at the highest load.
    fn crossover(&self, a: ModulePoint, b: ModulePoint) -> f64 {
        let behind: Vec<f64> =
            LOADS.iter().map(|l| self.latency(b.at(*l)) - self.latency(a.at(*l))).collect();
        let Some(last) = behind.iter().rposition(|behind| *behind > 0.0) else { return 0.0 };
        let Some(next) = behind.get(last + 1) else { return f64::INFINITY };
        LOADS[last] + (LOADS[last + 1] - LOADS[last]) * behind[last] / (behind[last] - next)
    }
}

/// Returns all points that the study simulates.
fn points() -> Vec<ModulePoint> {
    let mut points = vec![];
    for device in [RDIMM, MRDIMM, MRDIMM_4R] {
        for density in DENSITIES {
            points.extend(MIXES.map(|mix| ModulePoint::new(device, density, mix)));
        }
    }
    for device in [GEN2, GEN2_4R] {
        points.extend(MIXES.map(|mix| ModulePoint::new(device, "16Gb", mix)));
    }
    for device in [RDIMM, MRDIMM, GEN2] {
        points.extend(LOADS.map(|load| ModulePoint::new(device, "32Gb", "R").at(load)));
    }
    points.extend(POWERED.into_iter().flat_map(|gbps| <[ModulePoint; 2]>::from(powered(gbps))));
    points.extend(outlook::points());
    points
}

/// Returns two points at a load of `gbps`, both with MRDIMMs of 64 GB. The modules of the first
/// have two ranks of x4 devices, those of the second four ranks of x8 devices.
fn powered(gbps: f64) -> (ModulePoint, ModulePoint) {
    let narrow = ModulePoint::new(MRDIMM, "16Gb", "W3").at(gbps);
    (narrow, ModulePoint { device: MRDIMM_4R, width: "x8", ..narrow })
}

fn simulated(point: ModulePoint) -> Result<(ChannelResult, Option<Energy>), Failure> {
    let options = Options { density: Some(point.density.into()), width: Some(point.width.into()) };
    let device = Device::by_name(point.device, &options)
        .map_err(|why| Failure::new(why.to_string(), why.hint()))?;
    let mut setup = Setup::new(device, CHANNELS);
    if [GEN2, GEN2_4R].contains(&point.device) {
        setup.outstanding = GEN2_OUTSTANDING;
    }
    setup.mix = point.mix.parse().map_err(|why| Failure::new(format!("{why}"), ""))?;
    let offered = point.load.map(|load| load as f64 * 1e-3);
    let mut parts = vec![];
    let mut energy: Option<Energy> = None;
    for number in SAMPLE {
        let mut counts = energy::CommandCounts::new(&setup.device);
        let part = setup.part(number, offered, ACCESSES, &mut counts, &|_| ());
        if let Some(own) = counts.energy(part.end_clock * setup.device.host_clocks) {
            energy = Some(energy.map_or(own, |sum| sum.and(&own)));
        }
        parts.push(part);
    }
    let mut part = ChannelResult::sum(&parts);
    part.bandwidth_gbps *= f64::from(setup.parts()) / SAMPLE.len() as f64;
    Ok((part, energy))
}

pub(super) fn reproduce(progress: &dyn Progress) -> Result<StudyDocument, Failure> {
    let one = |point: &ModulePoint| {
        let result = simulated(*point)?;
        advance(progress, 1)?;
        Ok((*point, result))
    };
    let results: Result<BTreeMap<_, _>, Failure> = points().par_iter().map(one).collect();
    let results = Results(results?);
    let report: Vec<ReportRow> = table("report.csv", REPORT)?;
    let rows = report.into_iter().map(|row| {
        let published = Published::between(row.low, row.high);
        let mut own = ReproduceRow::new(
            &row.section,
            row.what,
            &row.unit,
            published,
            ours(&results, &row.key),
        );
        own.note = note(&row.key);
        let is_fitted = row.key.starts_with("mlc-") || row.key == "idle";
        own.used_for_fit(is_fitted).explained(|| reason(&results, &row.key))
    });
    let idle = &results.0[&ModulePoint::new(RDIMM, "32Gb", "R").at(LOADS[0])].0.latency;
    let fitted = vec![
        "write queue of 30 lines, drained to 5, slices of 340 ns, and 2 nCK of margin between \
         ranks: to the five maxima of the baseline and to those of Sapphire Rapids (study servers)"
            .into(),
        format!(
            "65 ns between core and controller, there and back: so that the median line without \
             load takes the report's 102 ns (ours {} ns); the mean is then {} ns",
            idle.percentile_ns(0.5),
            number(idle.mean_ns())
        ),
        "144 lines on their way to each sub-channel: to the latency at 556 GB/s".into(),
    ];
    let applications = applications::applications(&results)?;
    let rows = rows.chain(applications.rows.iter().cloned()).collect();
    let mut study = StudyDocument::new(NAME, TITLE, SOURCE, rows, fitted);
    study.remarks = remarks(&results);
    study.remarks.push(applications::remark(&applications.rows));
    study.figures = figures::all(&results);
    study.tables = vec![maxima(&results), efficiency(&results), outlook::table(&results)];
    study.tables.extend(applications.tables);
    Ok(study)
}

/// Returns the simulated value for a row of the published table; `key` names the row.
fn ours(results: &Results, key: &str) -> f64 {
    let (rdimm, mrdimm) =
        (ModulePoint::new(RDIMM, "32Gb", "R"), ModulePoint::new(MRDIMM, "32Gb", "R"));
    let sweep = |point: ModulePoint| LOADS.iter().map(move |load| point.at(*load));
    let high = |point: ModulePoint| results.below_204ns([point.at(HIGH)].into_iter());
    let maximum = |device, density, mix| results.bandwidth(ModulePoint::new(device, density, mix));
    match key.split_once('-') {
        Some(("mlc", mix)) => {
            let mix = MIXES.iter().find(|own| **own == mix);
            mix.map_or(f64::NAN, |mix| maximum(RDIMM, "16Gb", mix))
        }
        Some(("gain", density)) => {
            let density = DENSITIES.iter().find(|own| **own == density);
            let gain = |density| maximum(MRDIMM, density, "R") / maximum(RDIMM, density, "R");
            density.map_or(f64::NAN, |density| gain(density))
        }
        Some(("high", "mrdimm")) => high(mrdimm),
        Some(("high", _)) => high(rdimm),
        Some(("all", "mrdimm")) => results.below_204ns(sweep(mrdimm)),
        Some(("all", _)) => results.below_204ns(sweep(rdimm)),
        Some(("gen2", "rdimm")) => maximum(GEN2_4R, "16Gb", "R") / maximum(RDIMM, "16Gb", "R"),
        Some(("gen2", _)) => maximum(GEN2_4R, "16Gb", "R") / maximum(MRDIMM_4R, "16Gb", "R"),
        Some(("outlook", generation)) => outlook::nominal_tbps(generation == "second"),
        _ => match key {
            "idle" => results.latency(rdimm.at(LOADS[0])),
            "crossover" => results.crossover(rdimm, mrdimm),
            "lead" => {
                1.0 - results.latency(mrdimm.at(SATURATED)) / results.latency(rdimm.at(SATURATED))
            }
            "power" => power_ratio(results, POWERED[0]),
            _ => f64::NAN,
        },
    }
}

/// Returns the power of modules with four ranks of x8 devices, divided by the power of modules with
/// two ranks of x4 devices, at a load of `gbps`.
fn power_ratio(results: &Results, gbps: f64) -> f64 {
    let (narrow, wide) = powered(gbps);
    results.power_w(wide) / results.power_w(narrow)
}

fn note(key: &str) -> Option<String> {
    let note = match key {
        "lead" => format!("at {SATURATED} GB/s of read-only load"),
        "high-mrdimm" | "high-rdimm" => format!("high load: {HIGH} GB/s of read-only load"),
        "all-mrdimm" | "all-rdimm" => {
            format!("the same {} loads for both, each for the same time", LOADS.len())
        }
        "power" => format!(
            "at {} GB/s of W3, about one for each core; the report has SPEC CPU 2017, not its load",
            POWERED[0]
        ),
        "gen2-rdimm" | "gen2-gen1" => "the processor is assumed to have as many more lines on \
                                       their way as the modules are faster"
            .into(),
        "idle" => "means".into(),
        "outlook-first" | "outlook-second" => "the rate of the pins, as the report counts".into(),
        _ => return None,
    };
    Some(note)
}

/// Returns the explanation for an error above 5 % in the row `key`.
fn reason(results: &Results, key: &str) -> String {
    let (rdimm, mrdimm) =
        (ModulePoint::new(RDIMM, "32Gb", "R"), ModulePoint::new(MRDIMM, "32Gb", "R"));
    match key {
        "idle" => {
            let latency = results.0.get(&rdimm.at(LOADS[0])).map(|(part, _)| &part.latency);
            let (median, most) = latency.map_or((0, 0), |l| (l.percentile_ns(0.5), l.max_ns()));
            format!(
                "the median is {median} ns; lines that meet a refresh take up to {most} and make \
                 the mean; the report says only that 204 ns is about twice the idle latency"
            )
        }
        "crossover" => {
            let apart = results.latency(mrdimm.at(150.0)) - results.latency(rdimm.at(150.0));
            format!(
                "at 150 GB/s the two are {apart:.1} ns apart, of {}: the curves nearly touch from \
                 there on, and the report has a picture only",
                number(results.latency(rdimm.at(150.0)))
            )
        }
        "high-rdimm" => {
            let at = |gbps: f64| results.below_204ns([rdimm.at(gbps)].into_iter());
            format!(
                "the report does not give its load, and the part falls steeply: {:.2} at 480 GB/s, \
                 {:.2} at 510, {:.2} at 520",
                at(480.0),
                at(510.0),
                at(520.0)
            )
        }
        _ => "not explained".into(),
    }
}

fn remarks(results: &Results) -> Vec<String> {
    let of = |device, mix| results.bandwidth(ModulePoint::new(device, "16Gb", mix));
    let ahead = 100.0 * (of(MRDIMM, "R") / of(MRDIMM_4R, "R") - 1.0);
    let mixed = ["W3", "W2", "W5"].map(|mix| 100.0 * (of(MRDIMM_4R, mix) / of(MRDIMM, mix) - 1.0));
    let at = |device| results.latency(ModulePoint::new(device, "32Gb", "R").at(HIGH));
    vec![
        format!(
            "read-only, two ranks are {ahead:+.1} % beside four: ranks of a pseudo-channel are \
             refreshed together, so four hide nothing, and the data of two ranks need a gap"
        ),
        format!(
            "with writes four ranks are {:.0}, {:.0} and {:.0} % ahead (W3, W2, W5): while one \
             rank recovers from writes the other reads",
            mixed[0], mixed[1], mixed[2]
        ),
        format!(
            "at {HIGH} GB/s a line takes {} ns on RDIMM-6400, {} on MRDIMM-8800 and {} on \
             MRDIMM-12800",
            number(at(RDIMM)),
            number(at(MRDIMM)),
            number(at(GEN2))
        ),
        format!(
            "4Rx8 draws {:.0} % less than 2Rx4 at {} GB/s of W3 and {:.0} % less at {}: an access \
             takes half as many devices, so that it is the more the higher the load",
            100.0 * (1.0 - power_ratio(results, POWERED[0])),
            POWERED[0],
            100.0 * (1.0 - power_ratio(results, POWERED[1])),
            POWERED[1]
        ),
        outlook::remark(results),
    ]
}

/// Returns a table of the maximum bandwidth by module, density and mix: figures 4 to 6 of Micron's
/// report, and the modules of the second generation, which the figures lack.
fn maxima(results: &Results) -> TableDocument {
    let mut header: Vec<String> = vec!["module".into(), "density".into()];
    header.extend(MIXES.map(|mix| format!("{mix}, GB/s")));
    let mut rows = vec![];
    let generations = [GEN2, GEN2_4R].map(|device| (device, &DENSITIES[..1]));
    let own = [RDIMM, MRDIMM, MRDIMM_4R].map(|device| (device, &DENSITIES[..]));
    for (device, densities) in own.into_iter().chain(generations) {
        for density in densities {
            let mut row = vec![device.to_string(), density.to_string()];
            row.extend(
                MIXES.map(|m| number(results.bandwidth(ModulePoint::new(device, density, m)))),
            );
            rows.push(row);
        }
    }
    TableDocument { title: "Maxima of twelve channels".into(), header, rows }
}

/// Returns a table of the bandwidth per watt and per data pin for each module.
fn efficiency(results: &Results) -> TableDocument {
    let devices = [RDIMM, MRDIMM, MRDIMM_4R, GEN2, GEN2_4R];
    let rows = devices.map(|device| {
        let point = ModulePoint::new(device, "16Gb", "R");
        let gbps = results.bandwidth(point);
        let (watts, pins) = (results.power_w(point), f64::from(64 * CHANNELS));
        [device.to_string(), number(gbps), number(watts), number(gbps / watts), number(gbps / pins)]
            .to_vec()
    });
    TableDocument {
        title: "Read-only maxima and what they cost, 16 Gb devices".into(),
        header: ["module", "GB/s", "W", "GB/s per W", "GB/s per data pin"].map(String::from).into(),
        rows: rows.into(),
    }
}
