//! Computes the emulated speed of a workload on a platform, for a given placement of its pages.
//!
//! The model is that of the simulation ([`interleaf_model::predict`]): threads with the properties
//! of the demand, in equilibrium with the tiers' curves. Simulation and guest therefore have the
//! same load, so a difference between their results has another cause.

use interleaf_model::{
    demand::Demand,
    equilibrium::solve,
    platform::Platform,
    predict::{ActivePhase, Forecast, Program},
    units::LINE_BYTES,
};

use crate::feed::Fed;

/// Tolerance for rounding errors in the completed work, as a fraction of a run. A phase counts as
/// ended when its remaining work is at most this fraction.
const DONE: f64 = 1e-12;

/// The index of the domain that has all threads.
const DOMAIN: usize = 0;

/// A workload on a platform. Computes the speed of the workload for a placement of its pages.
pub struct Emulated {
    platform: Platform,
    program: Program,
    read_share: f64,
}

/// The performance of a workload for one placement of its pages.
#[derive(Clone, Debug, PartialEq)]
pub struct Reached {
    /// Bandwidth of each tier, GB/s.
    pub tier_bandwidth_gbps: Vec<f64>,
    /// Latency of a cache line from each tier, ns.
    pub tier_latency_ns: Vec<f64>,
    /// Speed, divided by the speed with all pages on the first tier.
    pub speed: f64,
}

impl Reached {
    /// Returns the bandwidth of all tiers, GB/s.
    #[must_use]
    pub fn bandwidth_gbps(&self) -> f64 {
        self.tier_bandwidth_gbps.iter().sum()
    }
}

impl Emulated {
    /// Emulates the workload `demand` with `threads` threads on `platform`. The demand was measured
    /// on the platform `measured_on`. In each of the `active_phases`, if any, a fraction of the
    /// threads is active.
    #[must_use]
    pub fn new(
        platform: Platform,
        measured_on: &Platform,
        demand: &Demand,
        threads: u32,
        active_phases: &[ActivePhase],
    ) -> Self {
        let program = Forecast::new(&platform, measured_on, demand)
            .in_domain(DOMAIN)
            .program(f64::from(threads));
        let program = match active_phases {
            [] => program,
            active_phases => program.with_active_phases(&platform, active_phases),
        };
        Self { platform, program, read_share: demand.mix.read_share() }
    }

    #[must_use]
    pub fn tiers(&self) -> usize {
        self.platform.tiers.len()
    }

    #[must_use]
    pub fn phases(&self) -> usize {
        self.program.phases().len()
    }

    /// Returns the duration of a run with all pages on the first tier, s.
    #[must_use]
    pub const fn local_runtime_s(&self) -> f64 {
        self.program.local_runtime_s
    }

    /// Returns the index of the phase that the workload has reached after `done` runs. Runs repeat,
    /// so after 2.5 runs it is in the middle of the third run.
    #[must_use]
    pub fn phase(&self, done: f64) -> usize {
        let within = (done + DONE).fract();
        let phases = self.program.phases();
        let mut end = 0.0;
        let ended = phases.iter().take_while(|phase| {
            end += phase.work;
            end <= within
        });
        ended.count().min(phases.len() - 1)
    }

    /// Returns the performance in `phase`, with the fraction `shares[i]` of the accesses on tier
    /// `i`. The shares sum to 1.
    #[must_use]
    pub fn reached(&self, phase: usize, shares: &[f64]) -> Reached {
        let load = self.program.load(phase, DOMAIN, shares.to_vec());
        let solved = solve(&self.platform, &[load]);
        let load = &solved.loads[0];
        Reached {
            tier_bandwidth_gbps: load.tier_bandwidth_gbps.clone(),
            tier_latency_ns: load.tier_latency_ns.clone(),
            speed: self.program.speed(phase, load.bandwidth_gbps),
        }
    }

    /// Returns the traffic of each tier that counters would report for `seconds` of emulated time
    /// at the performance `reached`.
    #[must_use]
    pub fn counted(&self, reached: &Reached, seconds: f64) -> Vec<Fed> {
        let tiers = reached.tier_bandwidth_gbps.iter().zip(&reached.tier_latency_ns).enumerate();
        let counted = tiers.map(|(tier, (gbps, latency_ns))| {
            let bytes = gbps * 1e9 * seconds;
            let lines = bytes / LINE_BYTES;
            Fed {
                domain: DOMAIN,
                tier,
                read_bytes: (self.read_share * bytes).round() as u64,
                written_bytes: ((1.0 - self.read_share) * bytes).round() as u64,
                inserts: Some(lines.round() as u64),
                occupancy_ns: Some((lines * latency_ns).round() as u64),
                time_ns: None,
            }
        });
        counted.collect()
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use interleaf_model::weights::Weights;

    use super::{super::input, *};

    const THREADS: u32 = 119;

    fn input(workload: &str) -> (Platform, Platform, Demand) {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let platform = root.join("platforms/gnr120-cz122.toml");
        input::read(&platform, &root.join(format!("workloads/{workload}.toml"))).unwrap()
    }

    /// Several behaviours (sets of thread properties) agree with the measured runs of a demand. The
    /// emulation uses the behaviour nearest to their median. The speed, the bandwidth and the best
    /// weights of the emulation agree with the forecast's means over all behaviours.
    #[test]
    fn the_emulation_agrees_with_the_forecast() {
        for workload in ["lbm", "stream", "cloverleaf"] {
            let (platform, measured_on, demand) = input(workload);
            let all: Vec<Weights> =
                (0..=100).map(|cxl| Weights::new(vec![100 - cxl, cxl]).unwrap()).collect();
            let forecast = Forecast::new(&platform, &measured_on, &demand);
            let prediction = forecast.predict(f64::from(THREADS), &all);
            let emulated = Emulated::new(platform.clone(), &measured_on, &demand, THREADS, &[]);
            let reached: Vec<Reached> =
                all.iter().map(|weights| emulated.reached(0, &weights.shares())).collect();
            for (row, reached) in prediction.rows.iter().zip(&reached) {
                let ratio = reached.speed / row.speedup.mean;
                assert!((ratio - 1.0).abs() < 0.04, "{workload}, {}: {ratio}", row.weights);
                let ratio = reached.bandwidth_gbps() / row.bandwidth_gbps.mean;
                assert!((ratio - 1.0).abs() < 0.05, "{workload}, {}: {ratio}", row.weights);
            }
            let fastest = (0..all.len()).max_by(|a, b| {
                let [a, b] = [a, b].map(|at| reached[*at].speed);
                a.total_cmp(&b)
            });
            let (fastest, best) = (fastest.unwrap(), prediction.best.unwrap());
            assert!(fastest.abs_diff(best) <= 3, "{workload}: {fastest}, predicted {best}");
            let gain = reached[fastest].speed;
            assert!(gain > 1.1, "{workload}: {gain}");
        }
    }

    #[test]
    fn traffic_is_where_the_pages_are() {
        let (platform, measured_on, demand) = input("lbm");
        let emulated = Emulated::new(platform, &measured_on, &demand, THREADS, &[]);
        let reached = emulated.reached(0, &[0.75, 0.25]);
        let counted = emulated.counted(&reached, 2.0);
        let bytes = counted.iter().map(Fed::bytes).sum::<u64>() as f64;
        assert!((bytes / (2e9 * reached.bandwidth_gbps()) - 1.0).abs() < 1e-9);
        assert!((counted[1].bytes() as f64 / bytes - 0.25).abs() < 1e-9);
        for (fed, latency_ns) in counted.iter().zip(&reached.tier_latency_ns) {
            assert!((fed.latency_ns().unwrap() / latency_ns - 1.0).abs() < 1e-6);
            assert!((fed.read_bytes as f64 / fed.bytes() as f64 - 0.58).abs() < 1e-6);
        }
        let alone = emulated.counted(&emulated.reached(0, &[1.0, 0.0]), 2.0);
        assert_eq!((alone[1].bytes(), alone[1].inserts), (0, Some(0)));
    }

    #[test]
    fn phases_follow_each_other() {
        let (platform, measured_on, demand) = input("lbm");
        let active_phases =
            [(60.0, 1.0), (30.0, 0.1)].map(|(local_s, active)| ActivePhase { local_s, active });
        let emulated = Emulated::new(platform, &measured_on, &demand, THREADS, &active_phases);
        assert_eq!((emulated.phases(), emulated.local_runtime_s()), (2, 90.0));
        let seconds = [0.0, 59.9, 60.0, 89.9, 90.0, 149.9, 150.0];
        let phases = seconds.map(|seconds| emulated.phase(seconds / 90.0));
        assert_eq!(phases, [0, 0, 1, 1, 0, 0, 1]);
        let [many, few] = [0, 1].map(|phase| emulated.reached(phase, &[1.0, 0.0]));
        assert!(few.bandwidth_gbps() < 0.5 * many.bandwidth_gbps(), "{few:?} and {many:?}");
        assert!((many.speed - 1.0).abs() < 1e-9 && (few.speed - 1.0).abs() < 1e-9);
    }
}
