//! Simulated memory modules under load, as `interleaf.simulate.dimm/1`.
//!
//! `interleaf simulate dimm` writes the document. It has a point for each mix and load. A point has
//! the bandwidth and power of all channels, the distribution of the read latency, and the numbers
//! of DRAM commands.

use super::{
    check::{Check, Checked},
    figure::{Figure, Scale, Series, SeriesKind},
    rounded,
};
use interleaf_model::format::shell_text;
use interleaf_sim::dimm::{
    closed_loop::Pattern,
    config::Controller,
    device::{Device, TimingOrigins},
    energy::{Energy, PowerLine},
    histogram::Histogram,
    run::{ChannelResult, SEED, Setup},
};
use serde::{Deserialize, Serialize};

pub const SCHEMA: &str = "interleaf.simulate.dimm/1";

/// `BIN_NS` is the width of a bin of the latency histogram, ns. The last bin counts all reads whose
/// latency is at least `BINS_UP_TO_NS`.
const BIN_NS: usize = 8;
const BINS_UP_TO_NS: usize = 4096;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DimmDocument {
    pub schema: String,
    pub device: String,
    pub density: String,
    pub width: String,
    pub channels: u32,
    pub peak_gbps: f64,
    /// Number of data pins of the host in all channels. Pins for error correction do not count.
    pub data_pins: u32,
    pub pattern: String,
    pub uncore_ns: f64,
    /// Maximum number of outstanding lines in all channels.
    pub outstanding: u64,
    /// Row policy of the memory controller; left out when it is adaptive.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub row_policy: Option<String>,
    /// Refresh mode; left out when it is the default: a refresh of all banks at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refresh: Option<String>,
    pub seed: u64,
    /// Command line that simulates the same modules under the same loads; empty for a trace.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub command: String,
    pub points: Vec<DimmPoint>,
    /// Power as a linear function of bandwidth, as in platform files; left out when all points have
    /// the same bandwidth, or when the power is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tier_power: Option<PowerLineDocument>,
    /// Limits of the validity of the numbers in this document; for a user's module, also the timing
    /// parameters that are assumed or inherited.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// Number of simulated requests of all points.
    pub requests: u64,
    pub simulated_ns: f64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timing: Option<TimingDocument>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DimmPoint {
    pub mix: String,
    /// Offered load, GB/s; null for the maximum load.
    pub offered_gbps: Option<f64>,
    pub bandwidth_gbps: f64,
    pub bus_utilisation: f64,
    /// Latency of reads; null when no read was measured, such as with a mix of writes only.
    pub latency_ns: Option<LatencyDocument>,
    /// Number of reads by latency, in bins of 8 ns. The last bin also counts all slower reads.
    pub histogram_8ns: Vec<u64>,
    /// Energy per transferred bit, pJ; null when the supply currents of the module are unknown.
    pub energy_pj_per_bit: Option<f64>,
    pub power_w: Option<f64>,
    pub gbps_per_w: Option<f64>,
    /// Power of each component, W; left out when it is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub power_parts_w: Option<PowerPartsDocument>,
    /// Bandwidth per data pin of the host, GB/s. Pins for error correction do not count.
    pub gbps_per_data_pin: f64,
    pub row_hit_rate: f64,
    pub commands: CommandsDocument,
}

/// The power of each component at one point, W.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PowerPartsDocument {
    pub background: f64,
    pub activate: f64,
    pub read: f64,
    pub write: f64,
    pub refresh: f64,
    /// Power of the drivers and terminations of the data pins and strobes.
    pub pins: f64,
    /// Power of the modules' registers and data buffers.
    pub buffers: f64,
}

/// The power of all channels as a linear function of their bandwidth.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PowerLineDocument {
    pub static_w: f64,
    pub energy_pj_per_bit: f64,
    /// Largest relative deviation of a point's power from the line, a fraction.
    pub max_error: f64,
}

/// Latency of reads, ns, from the core's cache miss until the data arrive at the core.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LatencyDocument {
    pub mean: f64,
    pub p50: u64,
    pub p80: u64,
    pub p99: u64,
    pub p99_9: u64,
    pub p99_9999: u64,
    pub max: u64,
    /// Fraction of the reads with a latency below 204 ns. Micron's report on MRDIMMs states this
    /// fraction; 204 ns is about twice the idle latency of the server in the report.
    pub below_204ns: f64,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CommandsDocument {
    pub reads: u64,
    pub writes: u64,
    pub activates: u64,
    pub precharges: u64,
    pub refreshes: u64,
    /// Number of bus turnarounds from reads to writes.
    pub turns: u64,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TimingDocument {
    pub wall_s: f64,
    pub requests_per_s: f64,
}

impl Check for DimmDocument {
    fn check(&self) -> Checked {
        // `check_numbers` checks each number. No rule relates several fields of this document.
        Ok(())
    }
}

impl DimmPoint {
    /// Returns the number that `value` selects from the distribution of the read latency, or `None`
    /// if no read was measured.
    pub fn latency<T>(&self, value: fn(&LatencyDocument) -> T) -> Option<T> {
        self.latency_ns.as_ref().map(value)
    }
}

impl DimmDocument {
    /// Returns the figure of loaded latency: the mean latency against the bandwidth, a line per
    /// mix.
    pub fn figures(&self) -> Vec<Figure> {
        let mut mixes: Vec<&str> = self.points.iter().map(|point| point.mix.as_str()).collect();
        mixes.dedup();
        let series = mixes.into_iter().enumerate().map(|(group, mix)| {
            let points = self.points.iter().filter(|point| point.mix == mix);
            let points = points
                .filter_map(|point| Some((point.bandwidth_gbps, point.latency(|it| it.mean)?)));
            Series::new(mix, SeriesKind::Line, group, points)
        });
        vec![Figure {
            id: "loaded-latency".into(),
            title: format!("loaded latency of {}", self.device),
            x_label: "bandwidth, GB/s".into(),
            y_label: "latency, ns".into(),
            y_from: 0.0,
            scale: Scale::Linear,
            categories: vec![],
            series: series.collect(),
            caption: "Each point is one load, of reads from the core's miss to its data.".into(),
        }]
    }

    /// Creates the document without points. `device` is the argument of `--device`: the name or the
    /// file of the module.
    pub fn new(setup: &Setup, pattern: &str, device: &str) -> Self {
        let outstanding = setup.outstanding as u64 * u64::from(setup.parts());
        Self {
            schema: SCHEMA.into(),
            device: setup.device.name.clone(),
            density: setup.device.density.clone(),
            width: format!("x{}", setup.device.width),
            channels: setup.channels,
            peak_gbps: rounded(setup.peak_gbps()),
            data_pins: setup.parts() * setup.device.data_bits,
            pattern: pattern.into(),
            uncore_ns: setup.uncore_ps as f64 * 1e-3,
            outstanding,
            row_policy: row_policy(setup).map(Into::into),
            refresh: refresh(setup).map(Into::into),
            seed: setup.seed,
            command: command(setup, pattern, device),
            points: vec![],
            tier_power: None,
            notes: timing_notes(&setup.device),
            requests: 0,
            simulated_ns: 0.0,
            timing: None,
        }
    }

    /// Adds a point. Also updates the number of requests, the simulated time, and the line that is
    /// fitted to the points' power over bandwidth.
    pub fn point(
        &mut self,
        mix: &str,
        offered_gbps: Option<f64>,
        part: &ChannelResult,
        energy: Option<Energy>,
    ) {
        let counts = &part.counts;
        let accesses = counts.reads + counts.writes;
        self.requests += accesses;
        self.simulated_ns = rounded(self.simulated_ns + part.simulated_ns);
        self.points.push(DimmPoint {
            mix: mix.into(),
            offered_gbps: offered_gbps.map(rounded),
            bandwidth_gbps: rounded(part.bandwidth_gbps),
            bus_utilisation: rounded(part.bandwidth_gbps / self.peak_gbps),
            latency_ns: LatencyDocument::new(&part.latency),
            histogram_8ns: part.latency.bins(BIN_NS, BINS_UP_TO_NS),
            energy_pj_per_bit: energy.map(|energy| rounded(energy.pj_per_bit())),
            power_w: energy.map(|energy| rounded(energy.power_w())),
            gbps_per_w: energy
                .filter(|energy| energy.power_w() > 0.0)
                .map(|energy| rounded(part.bandwidth_gbps / energy.power_w())),
            power_parts_w: energy.as_ref().and_then(PowerPartsDocument::new),
            gbps_per_data_pin: rounded(part.bandwidth_gbps / f64::from(self.data_pins)),
            row_hit_rate: rounded(counts.row_hits as f64 / accesses.max(1) as f64),
            commands: CommandsDocument {
                reads: counts.reads,
                writes: counts.writes,
                activates: counts.activates,
                precharges: counts.precharges,
                refreshes: counts.refreshes,
                turns: counts.turns,
            },
        });
        let powers = self.points.iter().filter_map(|p| Some((p.bandwidth_gbps, p.power_w?)));
        self.tier_power =
            PowerLine::through(&powers.collect::<Vec<_>>()).map(|line| PowerLineDocument {
                static_w: rounded(line.static_w),
                energy_pj_per_bit: rounded(line.energy_pj_per_bit),
                max_error: rounded(line.max_error),
            });
    }
}

/// Returns notes on the timing parameters of a module that are assumed, or inherited from the file
/// of another module.
fn timing_notes(device: &Device) -> Vec<String> {
    let TimingOrigins { assumed, inherited } = &device.timing_origins;
    let assumed = (!assumed.is_empty())
        .then(|| format!("assumed timing of {}: {}", device.name, assumed.join(", ")));
    let inherited = inherited.iter().map(|(file, names)| {
        format!("timing of {} inherited from {file}: {}", device.name, names.join(", "))
    });
    assumed.into_iter().chain(inherited).collect()
}

/// Returns the command line that repeats the simulation of a module, without mixes, loads and
/// number of requests. It always has the density, the width and the number of channels. Of the
/// other options it has those whose values are not the defaults.
fn command(setup: &Setup, pattern: &str, name: &str) -> String {
    let Setup { device, channels, .. } = setup;
    let usual = Setup::new(device.clone(), *channels);
    let mut command = format!(
        "interleaf simulate dimm --device {} --density {} --width x{} --channels {channels}",
        shell_text::word(name),
        device.density,
        device.width,
    );
    if setup.outstanding != usual.outstanding {
        let lines = setup.outstanding as u64 * u64::from(device.sub_channels);
        command += &format!(" --outstanding {lines}");
    }
    if setup.pattern != usual.pattern {
        command += &format!(" --pattern {pattern}");
    }
    if setup.uncore_ps != usual.uncore_ps {
        command += &format!(" --uncore-ns {}", setup.uncore_ps as f64 * 1e-3);
    }
    command + &of_controller(setup)
}

/// Returns the options for the memory controller and the seed whose values are not the defaults.
fn of_controller(setup: &Setup) -> String {
    let mut options = String::new();
    if let Some(name) = row_policy(setup) {
        options += &format!(" --row-policy {name}");
    }
    if let Some(name) = refresh(setup) {
        options += &format!(" --refresh {name}");
    }
    if setup.seed != SEED {
        options += &format!(" --seed {}", setup.seed);
    }
    options
}

/// Returns the name of the row policy, or `None` if it is the default.
fn row_policy(setup: &Setup) -> Option<&'static str> {
    let policy = setup.controller.row_policy;
    (policy != Controller::default().row_policy).then(|| policy.name())
}

/// Returns the name of the refresh mode, or `None` if it is the default.
fn refresh(setup: &Setup) -> Option<&'static str> {
    let refresh = setup.controller.refresh;
    (refresh != Controller::default().refresh).then(|| refresh.name())
}

/// Returns the command line that repeats the simulation of a built-in server, without mixes, loads
/// and number of requests. Options whose values are the defaults are left out.
pub fn command_of_server(server: &str, setup: &Setup, pattern: &str) -> String {
    let server = shell_text::word(server);
    let mut command = format!("interleaf simulate dimm --server {server}");
    if setup.pattern != Pattern::Stream {
        command += &format!(" --pattern {pattern}");
    }
    command + &of_controller(setup)
}

impl PowerPartsDocument {
    /// Converts energies to mean powers over the simulated time. Returns `None` if no time was
    /// simulated.
    fn new(energy: &Energy) -> Option<Self> {
        let watts = |joules: f64| rounded(joules / energy.seconds);
        (energy.seconds > 0.0).then(|| Self {
            background: watts(energy.background),
            activate: watts(energy.activate),
            read: watts(energy.read),
            write: watts(energy.write),
            refresh: watts(energy.refresh),
            pins: watts(energy.pins),
            buffers: watts(energy.buffers),
        })
    }
}

impl LatencyDocument {
    /// Summarises the latencies of a histogram. Returns `None` if it has no reads.
    fn new(latency: &Histogram) -> Option<Self> {
        let part = |part: f64| latency.percentile_ns(part);
        (latency.count() > 0).then(|| Self {
            mean: rounded(latency.mean_ns()),
            p50: part(0.5),
            p80: part(0.8),
            p99: part(0.99),
            p99_9: part(0.999),
            p99_9999: part(0.999_999),
            max: latency.max_ns(),
            below_204ns: rounded(latency.part_below(204)),
        })
    }
}
