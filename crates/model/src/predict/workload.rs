//! Predicts a workload with given weights.

use super::{Estimate, Prediction, Row, RunFit, platform_provenance};
use crate::{
    behaviour::{Behaviour, TrafficPerWork, infer},
    demand::{Demand, Phase},
    equilibrium::{BandwidthLimits, Load, LoadEquilibrium, System},
    platform::Platform,
    provenance::Provenance,
    statistics,
    weights::Weights,
};

/// The behaviours (sets of thread properties) that agree with a workload's measured runs, prepared
/// for predictions.
pub struct Forecast<'a> {
    pub(super) platform: &'a Platform,
    pub(super) measured_on: &'a Platform,
    pub(super) demand: &'a Demand,
    pub(super) traffic: TrafficPerWork,
    pub(super) behaviours: Vec<Behaviour>,
    /// The fraction of the workload's threads in each domain; sums to 1.
    domain_parts: Vec<f64>,
}

/// A workload with a given number of threads, prepared for predictions. The predictions for
/// different weights (rows) can be computed in any order and on any thread.
pub struct ForecastAt<'a> {
    forecast: &'a Forecast<'a>,
    local: Local<'a>,
}

/// The workload with all pages on the first tier of the platform for which the prediction is made.
pub(super) struct Local<'a> {
    threads: f64,
    /// For each behaviour (set of thread properties), the platform with its curves prepared for the
    /// behaviour's loads.
    systems: Vec<System<'a>>,
    /// The counted bandwidth at the memory controllers, GB/s, scaled to the number of threads and
    /// to the platform; `None` if no run has a counted bandwidth.
    pub(super) counted_gbps: Option<f64>,
    /// Work per second: the inverse of the runtime, or the rate.
    pub(super) performance: f64,
    /// True if the number of threads is within the range of the measured runs.
    known: bool,
    /// For each behaviour, a list of the bandwidths that its threads reach, GB/s: of the whole run,
    /// then of each phase.
    pub(super) reached_gbps: Vec<Vec<f64>>,
    /// The reasons why figures are extrapolations; empty if none is.
    pub(super) extrapolated: Vec<String>,
}

/// The prediction of one behaviour for given weights. `speedup` is the performance, and
/// `traffic_gain` the bandwidth, each divided by its value with all pages on the first tier.
pub(super) struct Outcome {
    pub(super) speedup: f64,
    traffic_gain: f64,
    local_gbps: f64,
    reached: LoadEquilibrium,
}

impl<'a> Forecast<'a> {
    /// Infers behaviours of the workload from its runs on `measured_on`. Predictions are made for
    /// `platform`.
    pub fn new(platform: &'a Platform, measured_on: &'a Platform, demand: &'a Demand) -> Self {
        Self {
            platform,
            measured_on,
            demand,
            traffic: TrafficPerWork::of(demand),
            behaviours: infer(measured_on, demand),
            domain_parts: platform.spread(),
        }
    }

    /// Returns the forecast for another platform, with the same behaviours of the threads.
    #[must_use]
    pub fn on<'b>(&self, platform: &'b Platform) -> Forecast<'b>
    where
        'a: 'b,
    {
        Forecast {
            platform,
            measured_on: self.measured_on,
            demand: self.demand,
            traffic: self.traffic.clone(),
            behaviours: self.behaviours.clone(),
            domain_parts: platform.spread(),
        }
    }

    /// Returns the forecast with all threads in domain `domain`.
    #[must_use]
    pub fn in_domain(self, domain: usize) -> Self {
        Self { domain_parts: self.platform.only(domain), ..self }
    }

    /// The behaviours (sets of thread properties) that agree with the runs. All have equal weight.
    pub fn behaviours(&self) -> &[Behaviour] {
        &self.behaviours
    }

    /// Predicts the workload with `threads` threads, for each of `weights`.
    pub fn predict(&self, threads: f64, weights: &[Weights]) -> Prediction {
        let at = self.at(threads);
        at.prediction(weights.iter().map(|weights| at.row(weights)).collect())
    }

    /// Prepares predictions of the workload with `threads` threads.
    pub fn at(&self, threads: f64) -> ForecastAt<'_> {
        ForecastAt { forecast: self, local: self.local(threads) }
    }

    fn prediction(&self, threads: f64, rows: Vec<Row>) -> Prediction {
        let mut inputs = platform_provenance(self.platform, &rows);
        inputs.push((format!("demand of {}", self.demand.name), self.demand.figure.provenance));
        let (low, high) = self.demand.read_share_range;
        if high > low {
            inputs.push(("read share of the traffic".into(), Provenance::Assumed));
        }
        if self.demand.outstanding_lines_per_thread.is_some() {
            inputs.push(("lines outstanding".into(), Provenance::Assumed));
        }
        Prediction::new(threads, rows, inputs).with_undecided()
    }

    fn row(&self, local: &Local<'_>, weights: &Weights) -> Row {
        let mut extrapolated = local.extrapolated.clone();
        let outcomes: Vec<Outcome> = (0..self.behaviours.len())
            .map(|member| self.outcome(member, local, weights, &mut extrapolated))
            .collect();
        let estimate = |f: &dyn Fn(&Outcome) -> f64| {
            let estimate = Estimate::of(outcomes.iter().map(f).collect());
            if weights.one_tier() { estimate } else { estimate.with_model_spread() }
        };
        let speedup = estimate(&|outcome| outcome.speedup);
        let bandwidth_gbps = match local.counted_gbps {
            Some(local_gbps) => estimate(&|outcome| local_gbps * outcome.traffic_gain),
            None => estimate(&|outcome| outcome.reached.bandwidth_gbps),
        };
        let shares = weights.shares();
        let tiers = 0..shares.len();
        let latency = |tier: usize| {
            outcomes.iter().map(|o| o.reached.tier_latency_ns[tier]).sum::<f64>()
                / outcomes.len() as f64
        };
        let tier_latency_ns: Vec<f64> = tiers.map(latency).collect();
        if !local.known {
            extrapolated.push(format!(
                "the runs have {} threads",
                join(self.demand.local.iter().map(|run| run.threads))
            ));
        }
        let result = |estimate: Estimate| {
            let [a, b] = [estimate.low, estimate.high].map(|x| self.demand.result(x));
            let mean = self.demand.result(estimate.mean);
            Estimate { mean, low: a.min(b), high: a.max(b) }
        };
        Row {
            weights: weights.clone(),
            tier_bandwidth_gbps: shares.iter().map(|share| share * bandwidth_gbps.mean).collect(),
            bandwidth_gbps,
            latency_ns: shares.iter().zip(&tier_latency_ns).map(|(s, l)| s * l).sum(),
            tier_latency_ns,
            result: Some(result(speedup.scaled(local.performance))),
            speedup,
            too_small: self.too_small(&shares),
            extrapolated,
        }
    }

    /// The prediction of behaviour `member` for `weights`. Reasons for extrapolation are appended
    /// to `extrapolated`.
    pub(super) fn outcome(
        &self,
        member: usize,
        local: &Local<'_>,
        weights: &Weights,
        extrapolated: &mut Vec<String>,
    ) -> Outcome {
        let behaviour = &self.behaviours[member];
        let loads = self.loads(behaviour, local.threads, weights);
        let mut gain = |load: &Load, local_gbps: f64| {
            let reached = reach(&local.systems[member], load, extrapolated);
            let traffic_gain = reached.bandwidth_gbps / local_gbps;
            let speedup = traffic_gain * self.work_per_traffic(behaviour, local, traffic_gain);
            Outcome { speedup, traffic_gain, local_gbps, reached }
        };
        let local_gbps = &local.reached_gbps[member];
        let mut outcome = gain(&loads[0], local_gbps[0]);
        if !self.demand.phases.is_empty() {
            // A run takes the sum of its phases' times. The speed-up is therefore this sum with all
            // pages on the first tier, divided by the sum at `weights`. The traffic per unit of
            // work is taken from the load of the whole run, so the bandwidth is scaled in
            // proportion to the speed-up.
            let phases = self.demand.phases.iter().zip(&loads[1..]).zip(&local_gbps[1..]);
            let (before, after) =
                phases.fold((0.0, 0.0), |(before, after), ((phase, load), gbps)| {
                    let part = phase.share_of_time;
                    (before + part, after + part / gain(load, *gbps).speedup)
                });
            let speedup = before / after;
            outcome.traffic_gain *= speedup / outcome.speedup;
            outcome.reached.bandwidth_gbps = outcome.local_gbps * outcome.traffic_gain;
            outcome.speedup = speedup;
        }
        outcome
    }

    /// The load of the whole run, with the fraction `shares[i]` of its traffic on tier `i`.
    pub(super) fn whole(&self, behaviour: &Behaviour, threads: f64, shares: Vec<f64>) -> Load {
        let load = behaviour.load(self.platform, self.demand.mix, threads, shares);
        Load { domain_parts: self.domain_parts.clone(), ..load }
    }

    /// The load of the whole run with `weights`, then the load of each phase.
    pub(super) fn loads(
        &self,
        behaviour: &Behaviour,
        threads: f64,
        weights: &Weights,
    ) -> Vec<Load> {
        let whole = self.whole(behaviour, threads, weights.shares());
        let phases = self.demand.phases.iter().map(|phase| self.in_phase(&whole, phase));
        let phases: Vec<Load> = phases.collect();
        std::iter::once(whole).chain(phases).collect()
    }

    /// Returns `load` with another compute time: the one at which its bandwidth on the first tier
    /// is that of `phase`. If `load` cannot reach this bandwidth, the compute time is 0.
    fn in_phase(&self, load: &Load, phase: &Phase) -> Load {
        let answer = self.platform.answer(0, &load.domain_parts, load.mixes[0]);
        let factor = load.bandwidth_factors[0];
        let flow = answer.response.at_bandwidth(phase.bandwidth_gbps / factor);
        let round_ns = load.circulating_bytes() / (flow.bandwidth_gbps * factor);
        let exposed = 1.0 - load.overlap;
        // A round takes the longer of compute time and memory latency, plus the fraction `exposed`
        // (not overlapped) of the shorter. The first branch is for a compute time that is longer
        // than the latency.
        let compute_ns = if round_ns >= flow.latency_ns * (1.0 + exposed) {
            round_ns - exposed * flow.latency_ns
        } else {
            ((round_ns - flow.latency_ns) / exposed.max(1e-9)).clamp(0.0, flow.latency_ns)
        };
        Load { line_compute_ns: compute_ns / load.lines_per_thread, ..load.clone() }
    }

    /// The factor by which the work per byte of traffic changes if the workload has `gain` times
    /// the traffic that it has with all pages on the first tier.
    fn work_per_traffic(&self, behaviour: &Behaviour, local: &Local<'_>, gain: f64) -> f64 {
        let Some(local_gbps) = local.counted_gbps else { return 1.0 };
        let per_thread = local_gbps / local.threads;
        let traffic = self.traffic.of_pressure(per_thread * gain, per_thread);
        libm::pow(traffic, -behaviour.traffic_relief)
    }

    /// The highest speed-up if the traffic grows by the factor `gain` at most. Traffic per work is
    /// linear between the runs' bandwidths per thread, so the speed-up is highest at `gain`, or at
    /// a gain that leads to one of these bandwidths.
    fn speedup_at_most(&self, behaviour: &Behaviour, local: &Local<'_>, gain: f64) -> f64 {
        let speedup = |gain: f64| gain * self.work_per_traffic(behaviour, local, gain);
        let Some(local_gbps) = local.counted_gbps else { return gain };
        let per_thread = local_gbps / local.threads;
        let runs = self.traffic.pressures().map(|gbps| gbps / per_thread);
        runs.filter(|run| *run < gain).map(speedup).fold(speedup(gain), f64::max)
    }

    /// The workload on the first tier alone: the result of the nearest measured run, scaled to
    /// `threads` threads and to the platform by the mean gain that the behaviours predict
    /// ([`Self::gain`]).
    pub(super) fn local(&self, threads: f64) -> Local<'_> {
        let counts = self.demand.local.iter().map(|run| f64::from(run.threads));
        let (low, high) =
            counts.fold((f64::INFINITY, 0.0_f64), |(low, high), n| (low.min(n), high.max(n)));
        let run = self.demand.nearest_run(threads);
        let measured_at = f64::from(run.threads);
        let performance = self.demand.performance(run.result) * self.gain(threads, measured_at)
            / self.traffic.of_threads(threads, measured_at);
        let counted = self.counted_gbps(threads);
        let counted_gbps = counted.map(|(at, gbps)| gbps * self.gain(threads, at));
        let first_tier = Weights::first_tier(self.platform.tiers.len());
        let mut extrapolated = vec![];
        let (systems, reached_gbps) = self
            .behaviours
            .iter()
            .map(|behaviour| {
                let loads = self.loads(behaviour, threads, &first_tier);
                // Phases have the mix and the domains of the whole run, so the system of the whole
                // run serves all loads.
                let system = System::new(self.platform, &loads[..1]);
                let gbps = |load| reach(&system, load, &mut extrapolated).bandwidth_gbps;
                let gbps: Vec<f64> = loads.iter().map(gbps).collect();
                (system, gbps)
            })
            .unzip();
        let known = (low..=high).contains(&threads);
        Local { threads, systems, counted_gbps, performance, known, reached_gbps, extrapolated }
    }

    /// Returns the counted bandwidth of `threads` threads, GB/s, interpolated between two runs. If
    /// `threads` is outside of the thread counts of the runs, returns the bandwidth of the nearest
    /// run. The first value of the pair is the thread count to which the bandwidth belongs. `None`
    /// if no run has a counted bandwidth.
    fn counted_gbps(&self, threads: f64) -> Option<(f64, f64)> {
        let runs = self.demand.counted_runs();
        let counts: Vec<(f64, f64)> =
            runs.iter().map(|(run, gbps)| (f64::from(run.threads), *gbps)).collect();
        let next = counts.partition_point(|(at, _)| *at < threads);
        match (next.checked_sub(1).map(|at| counts[at]), counts.get(next).copied()) {
            (Some((a, at_a)), Some((b, at_b))) => {
                Some((threads, at_a + (threads - a) / (b - a) * (at_b - at_a)))
            }
            (nearest, None) | (None, nearest) => nearest,
        }
    }

    /// The mean gain over all behaviours (sets of thread properties). The gain is the bandwidth of
    /// `threads` threads on the first tier of the predicted platform, divided by the bandwidth of
    /// `measured_at` threads on the first tier of the platform of the runs.
    fn gain(&self, threads: f64, measured_at: f64) -> f64 {
        statistics::mean(&self.gains(threads, measured_at))
    }

    /// The gain of bandwidth ([`Self::gain`]) that each behaviour predicts, in the order of
    /// `behaviours`.
    fn gains(&self, threads: f64, measured_at: f64) -> Vec<f64> {
        if threads == measured_at && std::ptr::eq(self.platform, self.measured_on) {
            return vec![1.0; self.behaviours.len()];
        }
        let first = |platform: &Platform| Weights::first_tier(platform.tiers.len()).shares();
        let bandwidth = |platform: &Platform, load: Load| {
            let loads = [load];
            System::new(platform, &loads).solve(&loads).loads[0].bandwidth_gbps
        };
        let gains = self.behaviours.iter().map(|behaviour| {
            let (here, there) = (self.platform, self.measured_on);
            let measured = behaviour.load(there, self.demand.mix, measured_at, first(there));
            bandwidth(here, self.whole(behaviour, threads, first(here)))
                / bandwidth(there, measured)
        });
        gains.collect()
    }

    /// The lowest index of a tier that cannot hold its share of the footprint; `None` if all tiers
    /// can, or if the footprint is unknown.
    fn too_small(&self, shares: &[f64]) -> Option<usize> {
        let footprint = self.demand.footprint?.get() as f64;
        let tiers = self.platform.tiers.iter().zip(shares);
        let mut fits = tiers.map(|(tier, share)| share * footprint <= tier.capacity.get() as f64);
        fits.position(|fits| !fits)
    }
}

/// Upper bounds of the speed-up of a workload. They are cheaper to compute than a prediction.
pub struct SpeedupLimits<'a> {
    at: &'a ForecastAt<'a>,
    /// For each behaviour (set of thread properties), a list of bounds of the bandwidth: of the
    /// whole run, then of each phase.
    limits: Vec<Vec<BandwidthLimits>>,
}

impl SpeedupLimits<'_> {
    /// An upper bound of the mean speed-up that would be predicted for `weights`; `None` if the
    /// pages do not fit into the tiers.
    pub fn at(&self, weights: &Weights) -> Option<f64> {
        let fits = self.at.forecast.too_small(&weights.shares()).is_none();
        fits.then(|| self.of_any_size(weights))
    }

    /// Like [`Self::at`], an upper bound of the mean speed-up, but also for weights with which the
    /// pages do not fit into the tiers.
    pub fn of_any_size(&self, weights: &Weights) -> f64 {
        let ForecastAt { forecast, local } = self.at;
        let shares = weights.shares();
        let members = self.limits.iter().enumerate().map(|(member, limits)| {
            let behaviour = &forecast.behaviours[member];
            let speedup = |at: usize| {
                let gain = limits[at].at(&shares) / local.reached_gbps[member][at];
                forecast.speedup_at_most(behaviour, local, gain)
            };
            if limits.len() == 1 {
                return speedup(0);
            }
            let phases = forecast.demand.phases.iter().enumerate();
            let (before, after) = phases.fold((0.0, 0.0), |(before, after), (at, phase)| {
                let part = phase.share_of_time;
                (before + part, after + part / speedup(at + 1))
            });
            before / after
        });
        let members: Vec<f64> = members.collect();
        statistics::mean(&members)
    }
}

impl<'a> ForecastAt<'a> {
    /// Upper bounds of the speed-up at any weights. A search uses them to skip weights that cannot
    /// be the best ones.
    pub fn limits(&'a self) -> SpeedupLimits<'a> {
        let Self { forecast, local } = self;
        let first_tier = Weights::first_tier(forecast.platform.tiers.len());
        let members = forecast.behaviours.iter().zip(&local.systems);
        let limits = members.map(|(behaviour, system)| {
            let loads = forecast.loads(behaviour, local.threads, &first_tier);
            loads.iter().map(|load| system.limits(load)).collect()
        });
        SpeedupLimits { at: self, limits: limits.collect() }
    }

    /// Each measured run, with the forecast of this run.
    pub fn fits(&self) -> Vec<RunFit> {
        self.forecast.fits()
    }

    /// Predicts the workload at `weights`.
    pub fn row(&self, weights: &Weights) -> Row {
        self.forecast.row(&self.local, weights)
    }

    /// For each behaviour, the work per second at `weights`, in the order of
    /// [`Forecast::behaviours`]. The speed of a behaviour on one platform, divided by its speed on
    /// another platform, is the speed-up of the first platform over the second.
    pub fn speeds(&self, weights: &Weights) -> Vec<f64> {
        let Forecast { demand, traffic, behaviours, .. } = self.forecast;
        let run = demand.nearest_run(self.local.threads);
        let measured_at = f64::from(run.threads);
        let measured =
            demand.performance(run.result) / traffic.of_threads(self.local.threads, measured_at);
        let gains = self.forecast.gains(self.local.threads, measured_at);
        let speed = |member: usize| {
            let outcome = self.forecast.outcome(member, &self.local, weights, &mut vec![]);
            measured * gains[member] * outcome.speedup
        };
        (0..behaviours.len()).map(speed).collect()
    }

    /// Combines `rows`, the predictions for single weights, into one prediction. The rows keep
    /// their order.
    pub fn prediction(&self, rows: Vec<Row>) -> Prediction {
        self.forecast.prediction(self.local.threads, rows)
    }
}

/// Solves the equilibrium of one load. Appends reasons for extrapolation to `extrapolated`.
fn reach(system: &System<'_>, load: &Load, extrapolated: &mut Vec<String>) -> LoadEquilibrium {
    let mut solved = system.solve(std::slice::from_ref(load));
    for why in solved.extrapolated {
        if !extrapolated.contains(&why) {
            extrapolated.push(why);
        }
    }
    solved.loads.remove(0)
}

fn join(counts: impl Iterator<Item = u32>) -> String {
    let mut counts: Vec<u32> = counts.collect();
    counts.sort_unstable();
    counts.dedup();
    counts.iter().map(u32::to_string).collect::<Vec<_>>().join(", ")
}
