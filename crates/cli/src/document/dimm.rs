//! `interleaf.simulate.dimm/1`.

use super::rounded;
use interleaf_sim::dimm::{
    energy::Energy,
    histogram::Histogram,
    run::{Part, Setup},
};
use serde::{Deserialize, Serialize};

pub(crate) const SCHEMA: &str = "interleaf.simulate.dimm/1";

/// The width of a bin, ns, and the latency from which on all are in the last one.
const BIN_NS: usize = 8;
const BINS_UP_TO_NS: usize = 4096;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct DimmDocument {
    pub(crate) schema: String,
    pub(crate) device: String,
    pub(crate) density: String,
    pub(crate) width: String,
    pub(crate) channels: u32,
    pub(crate) peak_gbps: f64,
    /// Pins of the host that carry data, over all channels.
    pub(crate) data_pins: u32,
    pub(crate) pattern: String,
    pub(crate) uncore_ns: f64,
    /// Lines that may be on their way, over all channels.
    pub(crate) outstanding: u64,
    pub(crate) seed: u64,
    pub(crate) points: Vec<PointDocument>,
    /// Of all points together.
    pub(crate) requests: u64,
    pub(crate) simulated_ns: f64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) timing: Option<TimingDocument>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct PointDocument {
    pub(crate) mix: String,
    /// Null: as much as there can be.
    pub(crate) offered_gbps: Option<f64>,
    pub(crate) bandwidth_gbps: f64,
    pub(crate) bus_utilisation: f64,
    pub(crate) latency_ns: LatencyDocument,
    /// The last bin is everything above.
    pub(crate) histogram_8ns: Vec<u64>,
    /// Null where the currents of the device are not known.
    pub(crate) energy_pj_per_bit: Option<f64>,
    pub(crate) power_w: Option<f64>,
    pub(crate) gbps_per_w: Option<f64>,
    /// For each pin of the host that carries data, those for error correction left aside.
    pub(crate) gbps_per_data_pin: f64,
    pub(crate) row_hit_rate: f64,
    pub(crate) commands: CommandsDocument,
}

/// Of reads, from the core's miss to its data.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct LatencyDocument {
    pub(crate) mean: f64,
    pub(crate) p50: u64,
    pub(crate) p80: u64,
    pub(crate) p99: u64,
    pub(crate) p99_9: u64,
    pub(crate) p99_9999: u64,
    pub(crate) max: u64,
    /// The part that took less than twice the idle latency of a server.
    pub(crate) below_204ns: f64,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct CommandsDocument {
    pub(crate) reads: u64,
    pub(crate) writes: u64,
    pub(crate) activates: u64,
    pub(crate) precharges: u64,
    pub(crate) refreshes: u64,
    /// Changes of the data bus from reads to writes.
    pub(crate) turns: u64,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct TimingDocument {
    pub(crate) wall_s: f64,
    pub(crate) requests_per_s: f64,
}

impl DimmDocument {
    pub(crate) fn new(setup: &Setup, pattern: &str) -> Self {
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
            seed: setup.seed,
            points: vec![],
            requests: 0,
            simulated_ns: 0.0,
            timing: None,
        }
    }

    /// One point more.
    pub(crate) fn point(
        &mut self,
        mix: &str,
        offered_gbps: Option<f64>,
        part: &Part,
        energy: Option<Energy>,
    ) {
        let counts = &part.counts;
        let accesses = counts.reads + counts.writes;
        self.requests += accesses;
        self.simulated_ns = rounded(self.simulated_ns + part.simulated_ns);
        self.points.push(PointDocument {
            mix: mix.into(),
            offered_gbps: offered_gbps.map(rounded),
            bandwidth_gbps: rounded(part.bandwidth_gbps),
            bus_utilisation: rounded(part.bandwidth_gbps / self.peak_gbps),
            latency_ns: LatencyDocument::new(&part.latency),
            histogram_8ns: part.latency.bins(BIN_NS, BINS_UP_TO_NS),
            energy_pj_per_bit: energy.map(|energy| rounded(energy.pj_per_bit())),
            power_w: energy.map(|energy| rounded(energy.power_w())),
            gbps_per_w: energy.map(|energy| rounded(part.bandwidth_gbps / energy.power_w())),
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
    }
}

impl LatencyDocument {
    fn new(latency: &Histogram) -> Self {
        let part = |part: f64| if latency.count() == 0 { 0 } else { latency.percentile_ns(part) };
        Self {
            mean: rounded(latency.mean_ns()),
            p50: part(0.5),
            p80: part(0.8),
            p99: part(0.99),
            p99_9: part(0.999),
            p99_9999: part(0.999_999),
            max: latency.max_ns(),
            below_204ns: rounded(latency.part_below(204)),
        }
    }
}
