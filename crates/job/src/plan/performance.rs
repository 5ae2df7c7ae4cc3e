//! Predicts the speed and the power of one configuration for a demand or a mix, and finds what
//! limits the speed. Prices are not used here.

use super::{cache, machine::Candidate};
use interleaf_console::Failure;
use interleaf_model::{
    curve::CurveError,
    demand::{Demand, Metric},
    mix::Mix,
    platform::Platform,
    predict::{Forecast, Row, rows_near_best, saturating_load},
    provenance::Provenance,
    statistics,
    tier::{Curves, TierKind},
    units::Bytes,
    weights::Weights,
};

/// To find what limits the speed, the bandwidth of each used tier in turn is multiplied by this
/// factor, and then the latency of all tiers is divided by this factor.
const STEP: f64 = 1.1;

/// The traffic whose speed is predicted: a mix or a demand.
pub(super) enum Source<'a> {
    Mix(Mix),
    Demand { demand: &'a Demand, forecast: &'a Forecast<'a> },
}

impl Source<'_> {
    /// Returns the name of the mix or of the demand, and the unit of its result.
    pub(super) fn name_and_unit(&self) -> (String, String) {
        match self {
            Self::Mix(mix) => (mix.to_string(), "GB/s".into()),
            Self::Demand { demand, .. } => {
                let unit = match &demand.metric {
                    Metric::Runtime => "s".to_string(),
                    Metric::Rate(unit) => unit.clone(),
                };
                (demand.name.clone(), unit)
            }
        }
    }

    pub(super) fn footprint(&self) -> Option<Bytes> {
        match self {
            Self::Mix(_) => None,
            Self::Demand { demand, .. } => demand.footprint,
        }
    }

    /// True if the result is a time, so that a lower result is better.
    fn is_time(&self) -> bool {
        matches!(self, Self::Demand { demand, .. } if demand.metric == Metric::Runtime)
    }
}

/// Assumed figures, which apply to all configurations. The module `sensitivity` varies them one by
/// one.
#[derive(Clone, Debug)]
pub(super) struct Assumed {
    /// The number of threads of each demand; `None` for the number of threads of the demand's
    /// measured runs.
    pub(super) threads: Option<u32>,
    /// `threads_factor` multiplies the number of threads, `footprint_factor` the memory that a
    /// demand needs.
    pub(super) threads_factor: f64,
    pub(super) footprint_factor: f64,
    /// Factor that multiplies the latency of expanders.
    pub(super) expander_latency: f64,
    /// Factors that multiply the power of the idle server, of its cores, and of memory.
    pub(super) idle_power: f64,
    pub(super) core_power: f64,
    pub(super) memory_power: f64,
}

impl Default for Assumed {
    fn default() -> Self {
        Self {
            threads: None,
            threads_factor: 1.0,
            footprint_factor: 1.0,
            expander_latency: 1.0,
            idle_power: 1.0,
            core_power: 1.0,
            memory_power: 1.0,
        }
    }
}

impl Assumed {
    /// Returns the number of threads of the demand, at most one for each of the `cores`.
    fn threads(&self, demand: &Demand, cores: u32) -> f64 {
        let threads = f64::from(self.threads.unwrap_or_else(|| demand.threads()));
        let varied = (threads * self.threads_factor).round().max(1.0) as u32;
        f64::from(varied.min(cores))
    }

    /// Returns the memory that the demand needs, multiplied by `footprint_factor`; `None` if the
    /// footprint of the demand is unknown.
    fn footprint(&self, demand: &Demand) -> Option<Bytes> {
        let varied = |own: Bytes| Bytes::new((own.get() as f64 * self.footprint_factor) as u64);
        demand.footprint.map(varied)
    }
}

/// Power of a machine by its components, W.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Watts {
    pub(super) idle: f64,
    pub(super) cores: f64,
    pub(super) memory: f64,
}

/// The predicted performance of a demand or a mix on one configuration.
#[derive(Clone, Debug)]
pub(super) struct Performance {
    pub(super) weights: Weights,
    /// Number of threads of the demand; for a mix, the number of cores.
    pub(super) threads: f64,
    /// Work per second: one prediction for each behaviour of the demand, a set of thread properties
    /// that agrees with the measured runs. For a mix, one value.
    pub(super) speeds: Vec<f64>,
    /// The predicted run time or rate, in the unit of the demand's result; for a mix in GB/s.
    pub(super) result: f64,
    tier_gbps: Vec<f64>,
    pub(super) latency_ns: f64,
    /// Power of the server by component; `None` if the platform has no power figures.
    pub(super) watts: Option<Watts>,
    pub(super) fits: bool,
    pub(super) bound_by: String,
    pub(super) notes: Vec<String>,
    pub(super) inputs: Vec<(String, Provenance)>,
}

impl Performance {
    /// Predicts the demand or the mix `source` with the best weights, and finds what limits the
    /// speed.
    pub(super) fn of(
        candidate: &Candidate,
        source: &Source<'_>,
        assumed: &Assumed,
    ) -> Result<Self, Failure> {
        Self::predicted(candidate, source, assumed, true)
    }

    /// Like [`Self::of`], but does not find what limits the speed. Takes less than half the time of
    /// [`Self::of`].
    pub(super) fn without_limit(
        candidate: &Candidate,
        source: &Source<'_>,
        assumed: &Assumed,
    ) -> Result<Self, Failure> {
        Self::predicted(candidate, source, assumed, false)
    }

    fn predicted(
        candidate: &Candidate,
        source: &Source<'_>,
        assumed: &Assumed,
        with_limit: bool,
    ) -> Result<Self, Failure> {
        let out_of_range = |why: CurveError| {
            let hint = "its curves are near the ends of what a memory can have: check the platform";
            Failure::new(format!("{}: {why}", candidate.configuration.name), hint)
        };
        let machine = slower_expanders(&candidate.machine, assumed.expander_latency);
        let machine = machine.map_err(out_of_range)?;
        match source {
            Source::Mix(mix) => {
                let found = Self::of_mix(&machine, &candidate.ratios, *mix);
                if !with_limit {
                    return Ok(found);
                }
                found.limited(&machine, |other, weights| mix_speed(other, *mix, weights))
            }
            Source::Demand { demand, forecast } => {
                let footprint = assumed.footprint(demand);
                let threads = assumed.threads(demand, machine.cpu.cores);
                let ratios = &candidate.ratios;
                let found = Self::of_demand(&machine, ratios, forecast, threads, footprint);
                let speed = |other: &Platform, weights: &Weights| {
                    statistics::mean(&forecast.on(other).at(threads).speeds(weights))
                };
                let found = match with_limit {
                    true => found.limited(&machine, speed),
                    false => Ok(found),
                };
                found.map(|found| found.with_drive(candidate, demand, threads, footprint, source))
            }
        }
        .map_err(out_of_range)
    }

    fn of_mix(machine: &Platform, ratios: &[Weights], mix: Mix) -> Self {
        let load = saturating_load(machine, mix);
        let at = load.at(machine);
        let limits = at.limits();
        let at_most = |own: &Weights| {
            // The inputs of a prediction are the figures of the tiers that its rows use. The
            // weights 1:1:... use all tiers. An infinite upper bound of their speed-up makes sure
            // that a row is predicted for them, so the inputs have the figures of all tiers.
            let is_even = own.as_slice().iter().all(|weight| *weight == 1);
            if is_even { f64::INFINITY } else { limits.at(&own.shares()) / at.local_gbps() }
        };
        let ratios: Vec<&Weights> = ratios.iter().collect();
        let rows = rows_near_best(&ratios, at_most, |weights| at.row(weights));
        let prediction = at.prediction(rows);
        let best = &prediction.rows[prediction.best.unwrap_or(0)];
        let gbps = best.bandwidth_gbps.mean;
        let cores = load.threads.min(f64::from(machine.cpu.cores));
        Self { speeds: vec![gbps], result: gbps, ..Self::of_row(machine, best, cores) }
            .with_inputs(prediction.inputs, machine)
    }

    fn of_demand(
        machine: &Platform,
        ratios: &[Weights],
        forecast: &Forecast<'_>,
        threads: f64,
        footprint: Option<Bytes>,
    ) -> Self {
        let here = forecast.on(machine);
        let at = here.at(threads);
        let fits = |own: &&Weights| {
            let tiers = machine.tiers.iter().zip(own.shares());
            footprint.is_none_or(|all| {
                let needed = all.get() as f64;
                tiers.clone().all(|(tier, share)| share * needed <= tier.capacity.get() as f64)
            })
        };
        let fitting: Vec<&Weights> = ratios.iter().filter(fits).collect();
        let limits = at.limits();
        let at_most = |own: &Weights| limits.of_any_size(own);
        let rows = rows_near_best(&fitting, at_most, |weights| at.row(weights));
        let by_speed = |a: &Row, b: &Row| a.speedup.mean.total_cmp(&b.speedup.mean);
        let fastest = rows.into_iter().max_by(by_speed);
        let fits = fastest.is_some();
        let best = fastest.unwrap_or_else(|| at.row(&Weights::first_tier(machine.tiers.len())));
        let mut found = Self::of_row(machine, &best, threads);
        found.speeds = at.speeds(&best.weights);
        found.result = best.result.map_or(f64::NAN, |result| result.mean);
        found.fits = fits;
        found.with_inputs(at.prediction(vec![best]).inputs, machine)
    }

    /// Converts `row` of a prediction into a performance; `cores` is the number of cores that run a
    /// thread.
    fn of_row(machine: &Platform, row: &Row, cores: f64) -> Self {
        let tier_gbps = row.tier_bandwidth_gbps.clone();
        let watts = machine.power.as_ref().and_then(|power| {
            Some(Watts {
                idle: power.idle_w,
                cores: power.core_w * cores,
                memory: machine.standing_w()? - power.idle_w + machine.traffic_w(&tier_gbps),
            })
        });
        Self {
            weights: row.weights.clone(),
            threads: cores,
            speeds: vec![],
            result: 0.0,
            tier_gbps,
            latency_ns: row.latency_ns,
            watts,
            fits: true,
            bound_by: String::new(),
            notes: row.extrapolated.clone(),
            inputs: vec![],
        }
    }

    /// Sets the inputs of the performance: `inputs`, the figures on which the prediction depends,
    /// and the power figures of the server, on which the energy depends.
    fn with_inputs(self, mut inputs: Vec<(String, Provenance)>, machine: &Platform) -> Self {
        let power = machine.power.as_ref();
        inputs.extend(power.map(|it| ("power of the server".into(), it.figure.provenance)));
        Self { inputs, ..self }
    }

    /// Finds what limits the speed: the bandwidth of a tier, the latency of all tiers, or the
    /// cores. The limit is the one to which the speed is most sensitive; a sensitivity of 0.8 to a
    /// bandwidth means that 1 % more bandwidth gives 0.8 % more speed. The sensitivity to the cores
    /// is taken as 1 minus the sum of the other sensitivities.
    fn limited(
        self,
        machine: &Platform,
        speed: impl Fn(&Platform, &Weights) -> f64,
    ) -> Result<Self, CurveError> {
        let now = statistics::mean(&self.speeds);
        let mut limits = vec![];
        let gain = |other: &Platform| {
            (libm::log(speed(other, &self.weights) / now) / libm::log(STEP)).max(0.0)
        };
        for (at, tier) in machine.tiers.iter().enumerate() {
            if self.weights.as_slice()[at] > 0 {
                let wider = changed(machine, &[at], |curves| curves.scaled(STEP))?;
                limits.push((format!("bandwidth of {}", tier.name), gain(&wider)));
            }
        }
        let all: Vec<usize> = (0..machine.tiers.len()).collect();
        let faster = changed(machine, &all, |curves| curves.slowed(1.0 / STEP))?;
        limits.push(("latency".into(), gain(&faster)));
        let rest = 1.0 - limits.iter().map(|(_, share)| share).sum::<f64>();
        limits.push(("cores".into(), rest));
        let most = limits.into_iter().max_by(|a, b| a.1.total_cmp(&b.1));
        Ok(Self { bound_by: most.map_or(String::new(), |(name, _)| name), ..self })
    }

    /// Adapts the performance of a demand that does not fit into memory. If the configuration has a
    /// drive that is large enough for the rest of the footprint, DRAM is a cache over the drive,
    /// and the demand runs slower. If the demand then runs at less than half of its speed in
    /// memory, the drive is named as the limit. Without such a drive, the configuration cannot run
    /// the demand, and the capacity is named as the limit.
    fn with_drive(
        mut self,
        candidate: &Candidate,
        demand: &Demand,
        threads: f64,
        footprint: Option<Bytes>,
        source: &Source<'_>,
    ) -> Self {
        let (false, Some(footprint)) = (self.fits, footprint) else { return self };
        let budget = candidate.machine.tiers.first().map_or(0, |tier| tier.capacity.get());
        let own = candidate.configuration.drive.as_ref().zip(candidate.drive.as_ref());
        let needed = footprint.get().saturating_sub(budget);
        let Some((configured, drive)) = own.filter(|(own, _)| own.capacity.get() >= needed) else {
            self.notes.push(format!("{footprint} do not fit into its memory"));
            self.bound_by = "capacity".into();
            return self;
        };
        let sizes = [footprint.get(), budget];
        let part = cache::efficiency(demand, self.bandwidth_gbps(), threads as u32, sizes, drive);
        let notes = format!(
            "{} of {footprint} are on {}: {} of the speed of DRAM",
            Bytes::new(needed),
            configured.drive,
            interleaf_report::number(part)
        );
        self.notes.push(notes);
        if part < 0.5 {
            self.bound_by = format!("drive {}", configured.drive);
        }
        self.speeds.iter_mut().for_each(|speed| *speed *= part);
        self.result *= if source.is_time() { 1.0 / part } else { part };
        if let (Some(watts), Some(standing)) = (&mut self.watts, candidate.machine.standing_w()) {
            let static_w = standing - watts.idle;
            watts.memory = static_w + part * (watts.memory - static_w);
        }
        self.tier_gbps.iter_mut().for_each(|gbps| *gbps *= part);
        self.latency_ns = self.latency_ns.min(self.loaded_latency_ns(&candidate.machine, demand));
        self.fits = true;
        self
    }

    /// Returns the mean latency of a cache line over all tiers, ns, at this performance's bandwidth
    /// of each tier.
    fn loaded_latency_ns(&self, machine: &Platform, demand: &Demand) -> f64 {
        let latency_ns = |(tier, gbps): (usize, &f64)| {
            let response = machine.answer(tier, &machine.spread(), demand.mix).response;
            gbps * response.at_bandwidth(*gbps).latency_ns
        };
        let weighted: f64 = self.tier_gbps.iter().enumerate().map(latency_ns).sum();
        weighted / self.bandwidth_gbps()
    }

    pub(super) fn bandwidth_gbps(&self) -> f64 {
        self.tier_gbps.iter().sum()
    }

    /// Returns the work per second: the mean of the predictions for all behaviours of the demand.
    pub(super) fn speed(&self) -> f64 {
        statistics::mean(&self.speeds)
    }
}

fn mix_speed(machine: &Platform, mix: Mix, weights: &Weights) -> f64 {
    saturating_load(machine, mix).at(machine).row(weights).bandwidth_gbps.mean
}

/// Returns a copy of `machine` with changed curves: `change` converts the curves of each tier whose
/// index is in `which`.
fn changed(
    machine: &Platform,
    which: &[usize],
    change: impl Fn(&Curves) -> Result<Curves, CurveError>,
) -> Result<Platform, CurveError> {
    let mut other = machine.clone();
    for at in which {
        other.tiers[*at].curves = change(&machine.tiers[*at].curves)?;
    }
    Ok(other)
}

fn slower_expanders(machine: &Platform, factor: f64) -> Result<Platform, CurveError> {
    let tiers = machine.tiers.iter().enumerate();
    let which: Vec<usize> =
        tiers.filter(|(_, tier)| tier.kind == TierKind::Cxl).map(|(at, _)| at).collect();
    match factor == 1.0 {
        true => Ok(machine.clone()),
        false => changed(machine, &which, |curves| curves.slowed(factor)),
    }
}

#[cfg(test)]
impl Performance {
    /// Returns a performance with the given speed and power, for tests.
    pub(super) fn known(speed: f64, watts: Option<Watts>, fits: bool) -> Self {
        Self {
            weights: Weights::first_tier(1),
            threads: 1.0,
            speeds: vec![speed],
            result: speed,
            tier_gbps: vec![speed],
            latency_ns: 100.0,
            watts,
            fits,
            bound_by: "cores".into(),
            notes: vec![],
            inputs: vec![],
        }
    }
}
