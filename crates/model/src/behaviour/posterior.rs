//! The posterior: all behaviours that agree with the measured runs.
//!
//! A [`Behaviour`] is a point of a cube: each coordinate gives one unknown property of the threads,
//! such as their outstanding lines ([`Prior::at`]). In each of four rounds, [`infer`] fills the
//! cube with points, weights each point by the likelihood of the runs, and narrows the cube to the
//! region with nearly all of the weight. From the points of the last round it draws a fixed number
//! of points of equal weight. The algorithm is deterministic.

use super::{
    Behaviour, TrafficPerWork,
    prior::{DIMENSIONS, Prior, halton},
};
use crate::{
    curve::Response,
    demand::{Demand, LocalRun},
    equilibrium::{Load, System},
    platform::Platform,
    units::LINE_BYTES,
};

/// The number of behaviours (sets of thread properties) that [`infer`] returns.
pub const MEMBERS: usize = 64;

/// Standard deviation of the logarithm of a run's counted bandwidth around the logarithm of the
/// bandwidth that the model gives. It covers counter errors and the phases of programs.
const BANDWIDTH_SPREAD: f64 = 0.04;

/// Standard deviation of the logarithm of a run's result around the logarithm of the result that
/// the model gives, for runs without counted bandwidth. It is larger than `BANDWIDTH_SPREAD`,
/// because it also covers contention between threads outside of memory (locks, shared caches).
const RESULT_SPREAD: f64 = 0.06;

/// Standard deviation of the logarithm of an interleaved run's speed-up. It covers the error of the
/// model ([`crate::predict`]) and the noise of the two measured results whose ratio is the
/// speed-up.
const SPEEDUP_SPREAD: f64 = 0.025;

/// `ROUNDS` is the number of rounds of [`infer`]: each round narrows the region of likely
/// behaviours. `POINTS` is the number of behaviours that each round compares with the runs.
const ROUNDS: usize = 4;
const POINTS: usize = 2048;
/// The number of behaviours that each round compares with the runs if the demand has interleaved
/// runs. It is lower than `POINTS`, because each comparison with interleaved runs solves a queueing
/// network.
const POINTS_WITH_NETWORK: usize = 512;

/// Infers the behaviours of a workload's threads from the measured runs of `demand` on `platform`:
/// [`MEMBERS`] behaviours of equal weight that agree with the runs.
pub fn infer(platform: &Platform, demand: &Demand) -> Vec<Behaviour> {
    let prior = Prior::of(demand, platform.cpu.outstanding_lines_per_core);
    let evidence = Evidence::new(platform, demand);
    let points = if demand.interleaved.is_empty() { POINTS } else { POINTS_WITH_NETWORK };
    let mut cube = [(0.0, 1.0); DIMENSIONS];
    let mut weighed: Vec<([f64; DIMENSIONS], f64)> = vec![];
    for round in 0..ROUNDS {
        let within = |at: usize| {
            let part = halton(at);
            std::array::from_fn(|axis| {
                let (low, high) = cube[axis];
                low + part[axis] * (high - low)
            })
        };
        // The points of the Halton sequence fill the cube evenly. Each round continues the sequence
        // after the last point of the previous round, so no two rounds try the same points.
        let logs: Vec<([f64; DIMENSIONS], f64)> = (1..=points)
            .map(|at| within(round * points + at))
            .map(|point| (point, evidence.log_likelihood(&prior.at(&point))))
            .collect();
        let best = logs.iter().map(|(_, log)| *log).fold(f64::NEG_INFINITY, f64::max);
        // If no point has a finite likelihood, the runs do not distinguish the points, so all
        // points get the same weight.
        let weight = |log: f64| if best.is_finite() { libm::exp(log - best).max(0.0) } else { 1.0 };
        weighed = logs.into_iter().map(|(point, log)| (point, weight(log))).collect();
        cube = around(&weighed, cube);
    }
    drawn(&weighed).into_iter().map(|point| prior.at(&point)).collect()
}

/// Returns the part of `cube` in which the points `weighed` have nearly all of their weight: along
/// each axis, the mean plus and minus three standard deviations, cut at the ends of `cube`.
fn around(
    weighed: &[([f64; DIMENSIONS], f64)],
    cube: [(f64, f64); DIMENSIONS],
) -> [(f64, f64); DIMENSIONS] {
    let total: f64 = weighed.iter().map(|(_, weight)| weight).sum();
    std::array::from_fn(|axis| {
        let moment = |f: &dyn Fn(f64) -> f64| {
            weighed.iter().map(|(point, weight)| weight * f(point[axis])).sum::<f64>() / total
        };
        let mean = moment(&|x| x);
        let deviation = moment(&|x| (x - mean) * (x - mean)).sqrt().max(1e-3);
        let (low, high) = cube[axis];
        (low.max(mean - 3.0 * deviation), high.min(mean + 3.0 * deviation))
    })
}

/// Draws [`MEMBERS`] points by systematic resampling: the total weight is divided into equal parts,
/// and each part gives one point. A point of large weight is drawn several times.
fn drawn(weighed: &[([f64; DIMENSIONS], f64)]) -> Vec<[f64; DIMENSIONS]> {
    let total: f64 = weighed.iter().map(|(_, weight)| weight).sum();
    let mut members = Vec::with_capacity(MEMBERS);
    let mut sum = 0.0;
    for (point, weight) in weighed {
        sum += weight;
        while members.len() < MEMBERS
            && (members.len() as f64 + 0.5) / MEMBERS as f64 * total <= sum
        {
            members.push(*point);
        }
    }
    members
}

/// The measured runs of a demand, and the figures of the platform from which the likelihood of
/// these runs is computed.
struct Evidence<'a> {
    platform: &'a Platform,
    demand: &'a Demand,
    /// Pairs of a read share and the first tier's response (bandwidth and latency against bytes in
    /// flight) to traffic with this read share, in rising order of the read share.
    local: Vec<(f64, Response)>,
    traffic: TrafficPerWork,
}

/// The number of equal steps into which the range of an uncertain read share is divided. `Evidence`
/// stores the first tier's response to the read share at each step boundary.
const READ_SHARE_STEPS: usize = 16;

impl<'a> Evidence<'a> {
    fn new(platform: &'a Platform, demand: &'a Demand) -> Self {
        let (low, high) = demand.read_share_range;
        let steps = if high > low { READ_SHARE_STEPS } else { 0 };
        let local = (0..=steps)
            .map(|step| {
                let share = low + (high - low) * step as f64 / steps.max(1) as f64;
                let mix = demand.mix.with_read_share(share).unwrap_or(demand.mix);
                (share, platform.answer(0, &platform.spread(), mix).response)
            })
            .collect();
        Self { platform, demand, local, traffic: TrafficPerWork::of(demand) }
    }

    /// The logarithm of the probability of the measured runs if the threads have `behaviour`, up to
    /// a constant that is the same for all behaviours.
    fn log_likelihood(&self, behaviour: &Behaviour) -> f64 {
        self.of_local_runs(behaviour) + self.of_interleaved_runs(behaviour)
    }

    /// The log-likelihood of the local runs (all pages on the first tier). Compares the bandwidth
    /// of each run under `behaviour` with the counted bandwidth. Runs without counted bandwidth are
    /// compared within a series (runs made under equal conditions), by the change of their result
    /// with the thread count.
    fn of_local_runs(&self, behaviour: &Behaviour) -> f64 {
        let mut log = 0.0;
        let mut series: Vec<&str> =
            self.demand.local.iter().map(|run| run.series.as_str()).collect();
        series.sort_unstable();
        series.dedup();
        for name in series {
            let runs = || self.demand.local.iter().filter(move |run| run.series == name);
            let misses: Vec<f64> = runs()
                .filter(|run| run.bandwidth_gbps.is_none())
                .map(|run| {
                    let work = self.demand.performance(run.result);
                    let traffic = work * self.traffic.of_threads(f64::from(run.threads), 1.0);
                    libm::log(self.local_gbps(behaviour, run) / traffic)
                })
                .collect();
            let mean = misses.iter().sum::<f64>() / misses.len().max(1) as f64;
            log -=
                misses.iter().map(|miss| square((miss - mean) / RESULT_SPREAD)).sum::<f64>() / 2.0;
            for run in runs() {
                if let Some(counted) = run.bandwidth_gbps {
                    let miss = libm::log(self.local_gbps(behaviour, run) / counted);
                    log -= square(miss / BANDWIDTH_SPREAD) / 2.0;
                }
            }
        }
        log
    }

    /// The log-likelihood of the interleaved runs: compares the speed-up of each run under
    /// `behaviour` with the measured speed-up. The reference of a speed-up is the local run with
    /// the same number of threads.
    fn of_interleaved_runs(&self, behaviour: &Behaviour) -> f64 {
        let mut log = 0.0;
        for run in &self.demand.interleaved {
            let same = |local: &&LocalRun| local.threads == run.threads;
            let Some(local) = self.demand.local.iter().find(same) else { continue };
            let measured = self.demand.speedup(run.result, local.result);
            let threads = f64::from(run.threads);
            let mix = self.demand.mix;
            let load: Load = behaviour.load(self.platform, mix, threads, run.weights.shares());
            let loads = [load];
            let reached = System::new(self.platform, &loads).solve(&loads);
            let speedup = reached.loads[0].bandwidth_gbps / self.local_gbps(behaviour, local);
            log -= square(libm::log(speedup / measured) / SPEEDUP_SPREAD) / 2.0;
        }
        log
    }

    /// The bandwidth, GB/s, that the model gives for the threads of `run` with all pages on the
    /// first tier, if the threads have `behaviour`.
    fn local_gbps(&self, behaviour: &Behaviour, run: &LocalRun) -> f64 {
        let next = self.local.partition_point(|(share, _)| *share < behaviour.read_share);
        let (_, response) = &self.local[next.min(self.local.len() - 1)];
        let factor = behaviour.bandwidth_factor(self.platform.tiers[0].kind);
        let threads = f64::from(run.threads.min(self.platform.cpu.cores));
        let bytes = threads * behaviour.lines_per_thread * LINE_BYTES;
        let compute_ns = behaviour.compute_ns(f64::from(run.threads)) * behaviour.lines_per_thread;
        factor * response.closed_loop(bytes / factor, compute_ns, behaviour.overlap).bandwidth_gbps
    }
}

fn square(x: f64) -> f64 {
    x * x
}
