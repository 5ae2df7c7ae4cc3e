//! Reproduces maximum bandwidths and loaded latencies that the Mess benchmark measured on servers
//! with DDR4 and DDR5 RDIMMs. The modules are simulated command by command.
//!
//! All servers of Intel have the same constants of the controller. `devices/servers` has the
//! constants of each server (outstanding lines, uncore latency, bandwidth of the fabric) and the
//! controller constants of Zen 2.

use super::{advance, published::table};
use interleaf_console::Failure;
use interleaf_job::Progress;
use interleaf_model::mix::Mix;
use interleaf_record::reproduce::{ReproduceRow, StudyDocument};
use interleaf_sim::dimm::{
    device::DeviceError,
    run::{ChannelResult, Setup},
    server::Server,
};
use rayon::prelude::*;
use serde::Deserialize;

pub(super) const NAME: &str = "servers";

/// Number of progress steps: one for each measured mix.
pub(super) const STEPS: u64 = 37;

const TITLE: &str =
    "Maxima and loaded latencies of servers with RDIMMs, simulated command by command";
const SOURCE: &str = "published results of the Mess benchmark, multi-sequential traffic";
const MESS: &str = include_str!("../../../reproduce/servers/mess.csv");

/// `SAMPLE` lists the sub-channels that are simulated, and `ACCESSES` is the number of simulated
/// accesses of each. A sample suffices because all sub-channels have equal load.
const SAMPLE: [u32; 2] = [0, 5];
const ACCESSES: u64 = 12_000;

/// Loads at which latencies were measured, as fractions of the measured maximum.
const LOADS: [f64; 4] = [0.25, 0.5, 0.75, 0.9];

/// Read shares, in percent, of the measured mixes that were used to choose the constants of the
/// controller and of the servers. For Zen 2, all shares from 50 % on were used.
const FITTED: [u32; 14] = [50, 51, 58, 60, 64, 67, 70, 74, 80, 83, 90, 95, 98, 100];

/// A row of the published results: the maximum bandwidth, the idle latency and the loaded latencies
/// of one server at one mix of reads and writes.
#[derive(Deserialize)]
struct Measured {
    server: String,
    read_percent: u32,
    gbps: f64,
    idle_ns: f64,
    lat25_ns: f64,
    lat50_ns: f64,
    lat75_ns: f64,
    lat90_ns: f64,
}

impl Measured {
    fn is_fitted(&self) -> bool {
        FITTED.contains(&self.read_percent) || self.server == "zen2" && self.read_percent >= 50
    }

    fn latencies_ns(&self) -> [f64; 4] {
        [self.lat25_ns, self.lat50_ns, self.lat75_ns, self.lat90_ns]
    }
}

/// The simulated values of a server: the maximum bandwidth, the idle latency (the mean latency at
/// 2 % of the measured maximum), and the mean latencies at [`LOADS`].
struct SimulatedServer {
    gbps: f64,
    idle_ns: f64,
    latencies_ns: [f64; 4],
}

pub(super) fn reproduce(progress: &dyn Progress) -> Result<StudyDocument, Failure> {
    let measured: Vec<Measured> = table("mess.csv", MESS)?;
    let one = |row: &Measured| {
        let result = simulated(row)?;
        advance(progress, 1)?;
        Ok(result)
    };
    let simulated: Vec<SimulatedServer> =
        measured.par_iter().map(one).collect::<Result<_, Failure>>()?;
    let mut rows = vec![];
    for (row, ours) in measured.iter().zip(&simulated) {
        let fitted = row.is_fitted();
        let section = format!("{}, maxima", row.server);
        let what = format!("{} % reads", row.read_percent);
        let maximum = ReproduceRow::new(&section, what, "GB/s", row.gbps, ours.gbps);
        rows.push(maximum.used_for_fit(fitted).explained(|| reason_of_maximum(&row.server)));
    }
    for (row, ours) in measured.iter().zip(&simulated) {
        let section = format!("{}, latency without load", row.server);
        let what = format!("{} % reads", row.read_percent);
        let idle = ReproduceRow::new(&section, what, "ns", row.idle_ns, ours.idle_ns);
        rows.push(
            idle.explained(|| "not explained: the uncore latency fits the other loads".into()),
        );
    }
    for (row, ours) in measured.iter().zip(&simulated) {
        let fitted = row.is_fitted();
        let section = format!("{}, latencies", row.server);
        for ((load, published), own) in LOADS.iter().zip(row.latencies_ns()).zip(ours.latencies_ns)
        {
            let what =
                format!("{} % reads at {:.0} % of the maximum", row.read_percent, 100.0 * load);
            let latency = ReproduceRow::new(&section, what, "ns", published, own);
            rows.push(latency.used_for_fit(fitted).explained(|| reason_of_latency(row, *load)));
        }
    }
    let mut study = StudyDocument::new(NAME, TITLE, SOURCE, rows, fitted_constants());
    study.remarks = remarks(&measured, &simulated);
    Ok(study)
}

fn simulated(row: &Measured) -> Result<SimulatedServer, Failure> {
    let of_device = |why: DeviceError| Failure::new(why.to_string(), why.hint());
    let mut setup = Server::by_name(&row.server).map_err(of_device)?.setup();
    setup.mix = Mix::new(f64::from(row.read_percent) / 100.0, false).map_err(|why| {
        Failure::new(why.to_string(), "the table is part of the program: report it")
    })?;
    let at = |load: f64| run(&setup, Some(load * row.gbps)).latency.mean_ns();
    Ok(SimulatedServer {
        gbps: run(&setup, None).bandwidth_gbps,
        idle_ns: at(0.02),
        latencies_ns: LOADS.map(at),
    })
}

/// Simulates the sampled sub-channels, and scales their bandwidth to all sub-channels.
fn run(setup: &Setup, offered_gbps: Option<f64>) -> ChannelResult {
    let parts = SAMPLE.map(|number| setup.part(number, offered_gbps, ACCESSES, &mut (), &|_| ()));
    let mut sum = ChannelResult::sum(&parts);
    sum.bandwidth_gbps *= f64::from(setup.parts()) / SAMPLE.len() as f64;
    sum
}

fn fitted_constants() -> Vec<String> {
    [
        "the controller's write drains, and 2 nCK of margin between ranks: to these maxima and \
         latencies of Sapphire Rapids and to the MLC maxima of Xeon 6 together",
        "one uncore latency for each server: to its latencies",
        "4000 MT/s of the modules with one rank: to the maximum of reads, 91 % of that rate's peak",
        "the bandwidths of two fabrics: to the maxima of Cascade Lake and Zen 2",
        "the streams of Zen 2 and four constants of its controllers: to its maxima and latencies \
         from 50 % reads on",
        "20 outstanding lines for each core of Sapphire Rapids and Cascade Lake: to their maxima",
    ]
    .map(String::from)
    .into()
}

/// Returns the explanation for an error above 5 % in a server's simulated maximum bandwidth.
fn reason_of_maximum(server: &str) -> String {
    match server {
        "cascade-lake" => {
            "the limit of the server depends on the mix, and one bandwidth of its \
                           fabric is modelled; ranks of the modules are not stated"
        }
        "zen2" => "not explained",
        _ => "not explained: many writes cost this server more than x8 devices cost here",
    }
    .into()
}

/// Returns the explanation for an error above 5 % in a server's simulated latency at `load`, which
/// is a fraction of the measured maximum bandwidth.
fn reason_of_latency(row: &Measured, load: f64) -> String {
    match row.server.as_str() {
        "zen2" => {
            "not explained: close to its maximum, reads wait for write drains longer here than on \
             the server"
        }
        _ if load >= 0.9 => {
            "close to the maximum the latency rises steeply, and an error of the maximum is an \
             error of the load"
        }
        _ => "not explained",
    }
    .into()
}

fn remarks(measured: &[Measured], simulated: &[SimulatedServer]) -> Vec<String> {
    let mut servers: Vec<&str> = measured.iter().map(|row| row.server.as_str()).collect();
    servers.dedup();
    let of_server = |server: &&str| {
        let rows = || measured.iter().zip(simulated).filter(|(row, _)| row.server == *server);
        let mean = |errors: Vec<f64>| 100.0 * errors.iter().sum::<f64>() / errors.len() as f64;
        let maxima = rows().map(|(row, own)| (own.gbps / row.gbps - 1.0).abs()).collect();
        let latencies = rows().flat_map(|(row, own)| {
            let pairs = row.latencies_ns().into_iter().zip(own.latencies_ns);
            pairs.map(|(published, own)| (own / published - 1.0).abs())
        });
        let idle = rows().map(|(row, own)| own.idle_ns / row.idle_ns - 1.0).collect();
        format!(
            "{server}: mean error of {} maxima {:.1} %, of their latencies {:.1} %, of the latency \
             without load {:+.1} %",
            rows().count(),
            mean(maxima),
            mean(latencies.collect()),
            mean(idle)
        )
    };
    servers.iter().map(of_server).collect()
}
