//! Fits a model of threads and tiers to a few observations.
//!
//! A constant number of bytes circulates: a thread requests a line, receives it, computes on it for
//! `compute_ns`, and requests the next line. Each tier reaches the bandwidth of its curve times a
//! factor. By Little's law one observation gives the bytes in flight at the tiers. A second
//! observation at other shares separates circulating bytes from compute time. The parameters are a
//! least-squares fit of logarithms to all observations and to a prior. The prior decides the
//! parameters that the observations leave undetermined; further observations overrule it.

use crate::{
    equilibrium::{Load, LoadEquilibrium, LoadTraffic, System},
    mix::Mix,
    platform::Platform,
    units::LINE_BYTES,
};

/// Standard deviations of the logarithms of a period's observed bandwidth and observed latency,
/// around the logarithms of the values that the fitted model gives.
const BANDWIDTH_SPREAD: f64 = 0.01;
const LATENCY_SPREAD: f64 = 0.03;

/// The standard deviation of the logarithm of a tier's factor in the prior. The factor is the
/// bandwidth of the tier divided by the bandwidth of its curve.
const FACTOR_SPREAD: f64 = 0.2;

/// The prior of the time for which a thread computes between the arrival of a line and the next
/// request: its median, ns, and the standard deviation of its logarithm. Most of the prior is
/// between 20 ns (a loop that only copies) and about 1 us.
const COMPUTE_NS: f64 = 150.0;
const COMPUTE_SPREAD: f64 = 1.2;

/// The standard deviation of the logarithm of the circulating bytes (bytes in flight, and bytes
/// computed on) in the prior. The median of this prior is the size of all lines that the cores can
/// have outstanding.
const CIRCULATING_SPREAD: f64 = 1.0;

/// If a tier has less than this fraction (0 to 1) of the traffic, the fit ignores its latency.
const LEAST_SHARE: f64 = 0.02;

/// The first and the last step of the search for the best fit, as a change of the natural logarithm
/// of a parameter. A step of 0.25 is a factor of 1.28.
const STEPS: (f64, f64) = (0.25, 0.002);

/// The observed traffic of one period.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ObservedTraffic {
    /// The fraction of traffic on each tier, 0 to 1.
    pub(super) shares: Vec<f64>,
    /// The total bandwidth, GB/s.
    pub(super) bandwidth_gbps: f64,
    /// The latency of each tier, ns; `None` for a tier whose latency is unknown.
    pub(super) latency_ns: Vec<Option<f64>>,
}

/// The fitted parameters of the threads and tiers.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Fit {
    /// Natural logarithms of the circulating bytes (in flight or computed on), of the compute time
    /// in ns, and of each tier's factor: its bandwidth, divided by the bandwidth of its curve.
    logs: Vec<f64>,
}

/// The model to fit: the tiers near one domain, with the curves of the platform, and threads in
/// this domain whose traffic has one mix.
pub(super) struct Belief<'a> {
    system: System<'a>,
    template: Load,
    tiers: usize,
    /// Indices of the tiers near the domain, into [`Platform::tiers`].
    near: Vec<usize>,
    /// Maximum number of bytes that the cores can have outstanding.
    outstanding_bytes: f64,
}

impl<'a> Belief<'a> {
    pub(super) fn new(platform: &'a Platform, domain: usize, near: &[usize], mix: Mix) -> Self {
        let all = platform.tiers.len();
        let cores = f64::from(platform.domains[domain].cores);
        let template = Load {
            threads: 1.0,
            lines_per_thread: 1.0,
            line_compute_ns: 0.0,
            overlap: 0.0,
            mixes: vec![mix; all],
            shares: vec![1.0 / all as f64; all],
            domain_parts: platform.only(domain),
            bandwidth_factors: vec![1.0; all],
        };
        Self {
            system: System::new(platform, std::slice::from_ref(&template)),
            template,
            tiers: near.len(),
            near: near.to_vec(),
            outstanding_bytes: cores * platform.cpu.outstanding_lines_per_core * LINE_BYTES,
        }
    }

    /// The median of the prior: the parameters before any observation.
    pub(super) fn prior(&self) -> Fit {
        let mut logs = vec![libm::log(self.outstanding_bytes), libm::log(COMPUTE_NS)];
        logs.resize(2 + self.tiers, 0.0);
        Fit { logs }
    }

    /// Returns the equilibrium of threads with the parameters `fit`, if the fraction `shares[i]` of
    /// their traffic goes to near tier `i`.
    pub(super) fn reach(&self, fit: &Fit, shares: &[f64]) -> LoadEquilibrium {
        let mut load = self.template.clone();
        load.threads = libm::exp(fit.logs[0]) / LINE_BYTES;
        load.line_compute_ns = libm::exp(fit.logs[1]);
        load.shares.fill(0.0);
        for (at, tier) in self.near.iter().enumerate() {
            load.shares[*tier] = shares[at];
            load.bandwidth_factors[*tier] = libm::exp(fit.logs[2 + at]);
        }
        let solved = self.system.solve_from(&[load], &mut LoadTraffic::default(), 1e-9);
        let reached = &solved[0];
        let near = |values: &[f64]| self.near.iter().map(|tier| values[*tier]).collect();
        LoadEquilibrium {
            tier_bandwidth_gbps: near(&reached.tier_bandwidth_gbps),
            tier_latency_ns: near(&reached.tier_latency_ns),
            ..*reached
        }
    }

    /// Returns the bandwidth `gbps` as a fraction of the first tier's maximum bandwidth. The
    /// maximum is that of the tier's curve, times the fitted factor of the tier.
    pub(super) fn used(&self, fit: &Fit, gbps: f64) -> f64 {
        let most = self.system.responses()[self.near[0]].max_bandwidth_gbps();
        gbps / (most * libm::exp(fit.logs[2]))
    }

    /// Returns the parameters with the least misfit to the observations `seen`. The search starts
    /// at `from`.
    pub(super) fn fit(&self, seen: &[ObservedTraffic], from: Fit) -> Fit {
        let mut best = from;
        if let Some(bytes) = seen.last().and_then(ObservedTraffic::in_flight_bytes) {
            // By Little's law, `bytes` are in flight. The circulating bytes are `bytes`, and the
            // bytes on which threads compute.
            let computed = seen[seen.len() - 1].bandwidth_gbps * libm::exp(best.logs[1]);
            best.logs[0] = libm::log(bytes + computed);
        }
        let mut least = self.misfit(seen, &best);
        let mut step = STEPS.0;
        while step > STEPS.1 {
            let before = best.clone();
            for at in 0..best.logs.len() {
                for change in [step, -step] {
                    let mut tried = best.clone();
                    tried.logs[at] += change;
                    let misfit = self.misfit(seen, &tried);
                    if misfit < least {
                        (best, least) = (tried, misfit);
                        break;
                    }
                }
            }
            if best == before {
                step *= 0.5;
                continue;
            }
            // The sum of all changes of this pass is applied once more, in one step. Steps of
            // single parameters make slow progress along a valley of the misfit that is oblique to
            // the axes.
            let mut along = best.clone();
            for (log, old) in along.logs.iter_mut().zip(&before.logs) {
                *log += *log - old;
            }
            let misfit = self.misfit(seen, &along);
            if misfit < least {
                (best, least) = (along, misfit);
            }
        }
        best
    }

    /// The quantity that the fit minimizes: the sum of the squared errors of the parameters against
    /// the prior, and of the predicted against the observed traffic. Each error is in standard
    /// deviations.
    fn misfit(&self, seen: &[ObservedTraffic], fit: &Fit) -> f64 {
        let [circulating, compute, factors @ ..] = &fit.logs[..] else { return f64::INFINITY };
        let prior = self.prior();
        let mut sum = square((circulating - prior.logs[0]) / CIRCULATING_SPREAD)
            + square((compute - prior.logs[1]) / COMPUTE_SPREAD)
            + factors.iter().map(|factor| square(factor / FACTOR_SPREAD)).sum::<f64>();
        for seen in seen {
            let reached = self.reach(fit, &seen.shares);
            let miss = libm::log(reached.bandwidth_gbps / seen.bandwidth_gbps);
            sum += square(miss / BANDWIDTH_SPREAD);
            for tier in 0..self.tiers {
                if let Some(latency_ns) = seen.latency_ns[tier].filter(|_| seen.is_on(tier)) {
                    let miss = libm::log(reached.tier_latency_ns[tier] / latency_ns);
                    sum += square(miss / LATENCY_SPREAD);
                }
            }
        }
        sum
    }
}

impl ObservedTraffic {
    fn is_on(&self, tier: usize) -> bool {
        self.shares[tier] >= LEAST_SHARE
    }

    /// Bytes in flight at all tiers; `None` if a latency is unknown.
    fn in_flight_bytes(&self) -> Option<f64> {
        let on = (0..self.shares.len()).filter(|tier| self.is_on(*tier));
        on.map(|tier| Some(self.shares[tier] * self.bandwidth_gbps * self.latency_ns[tier]?)).sum()
    }
}

fn square(x: f64) -> f64 {
    x * x
}
