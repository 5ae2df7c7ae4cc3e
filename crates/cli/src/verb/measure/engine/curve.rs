//! The curve: latency of a chase while other threads load the same memory.

use super::{Bench, Cpus, Stop, off_by, on_node, pattern_name, pinned, with_latency, with_rate};
use crate::{
    document::{
        measure::{MeasureDocument, PointDocument},
        rounded,
    },
    failure::Failure,
    verb::measure::tasks::Loads,
};
use interleaf_linux::placement::Placement;
use interleaf_measure::{
    chase::Chase,
    clock::Clock,
    interleave::{self, Way},
    spread::{Spread, spread},
    team::{GROUP_LINES, Team},
    traffic::{LINE_BYTES, Traffic},
};
use interleaf_model::weights::Weights;
use std::{
    thread,
    time::{Duration, Instant},
};

/// Pauses, ns, where none are given: from hardly any load to all there is.
const DELAYS_NS: [u64; 15] =
    [50_000, 20_000, 10_000, 5000, 3000, 2000, 1400, 1000, 700, 500, 350, 200, 100, 50, 0];

/// How long a load is on before anything counts.
const SETTLE: Duration = Duration::from_millis(50);

/// Where memory is.
pub(super) struct Place<'a> {
    pub(super) placement: Placement,
    pub(super) way: Way,
    /// Of memory on several nodes.
    pub(super) weights: Option<&'a Weights>,
}

impl Place<'_> {
    /// On one node.
    pub(super) fn node(node: u32) -> Self {
        Self { placement: on_node(node), way: Way::Pages, weights: None }
    }

    fn memory_node(&self) -> Option<u32> {
        match (&self.weights, &self.placement.nodes[..]) {
            (None, [(node, _)]) => Some(*node),
            _ => None,
        }
    }
}

/// What was found at one load.
struct Found {
    latency_ns: Spread,
    program_gbps: f64,
}

impl Bench<'_> {
    /// The CPU that chases, and those that load.
    pub(super) fn divided<'c>(&self, cpus: &'c Cpus) -> Result<(u32, &'c [u32]), Stop> {
        match &cpus.cpus[..] {
            [chases, load @ ..] if !load.is_empty() => Ok((*chases, load)),
            _ => Err(Failure::new(
                "latency under load needs two CPUs: one chases, the others load",
                "name more with --cpus, or leave --threads out",
            )
            .into()),
        }
    }

    /// Measures a curve, a point for each load.
    pub(super) fn curve(
        &self,
        cpus: &Cpus,
        place: &Place<'_>,
        traffic: &Traffic,
        loads: &Loads,
        document: &mut MeasureDocument,
    ) -> Result<(), Stop> {
        let (chases, load) = self.divided(cpus)?;
        let (setup, options) = (self.setup, self.options());
        let memory = interleave::region(options.bytes, setup.pages, &place.placement, place.way)?;
        let mut chase = Chase::new(memory, options.local())?;
        let regions = interleave::regions(
            load.len(),
            setup.buffer,
            setup.pages,
            &place.placement,
            place.way,
        )?;
        let seen = self.seen(regions.iter().chain([chase.region()]));
        let base = PointDocument {
            memory_node: place.memory_node(),
            weights: place.weights.map(|weights| weights.as_slice().to_vec()),
            pattern: pattern_name(setup.pattern).into(),
            memory_bytes: setup.buffer as u64,
            off_by: off_by(&seen, &place.placement),
            ..self.point("loaded", cpus, &seen)
        };
        pinned(chases, || Ok(chase.warm()?))?;
        // First nobody loads.
        let mut measure = |team: Option<(&Team, Duration)>, document: &mut MeasureDocument| {
            let (span, repeats) = (setup.span, setup.repeats);
            let at_load = || at_load(&mut chase, team.map(|it| it.0), span, repeats);
            let (found, contamination, took_s) = self.watched(|| pinned(chases, at_load))?;
            let rate = Spread { median: found.program_gbps, relative: 0.0, count: 1 };
            let threads = if team.is_some() { load.len() } else { 0 };
            let point = PointDocument { contamination, took_s, ..base.clone() };
            let point = with_latency(with_rate(point, traffic, threads, rate), found.latency_ns);
            // The chase reads too, whatever the others do.
            let chased = LINE_BYTES as f64 / found.latency_ns.median.max(1e-3);
            let point = PointDocument {
                threads: load.len() as u32,
                delay_ns: team.map(|(_, delay)| delay.as_nanos() as f64),
                program_gbps: point.program_gbps.map(|gbps| rounded(gbps + chased)),
                modelled_gbps: point.modelled_gbps.map(|gbps| rounded(gbps + chased)),
                ..point
            };
            self.add(document, point)?;
            Ok::<_, Stop>(())
        };
        measure(None, document)?;
        let team = Team::start_in(&self.load(load, traffic), regions)?;
        for delay in self.delays(&team, load.len(), loads) {
            team.set_delay(delay);
            thread::sleep(SETTLE.min(setup.span));
            measure(Some((&team, delay)), document)?;
        }
        team.stop()?;
        Ok(())
    }

    /// How long threads pause at each load.
    pub(super) fn delays(&self, team: &Team, threads: usize, loads: &Loads) -> Vec<Duration> {
        let found = match loads {
            Loads::Found => return DELAYS_NS.map(Duration::from_nanos).to_vec(),
            Loads::Delays(delays) => return delays.clone(),
            Loads::Rates(rates) => rates,
        };
        // A thread needs so long for a group without a pause; what is left of the time that a group
        // has at a rate is the pause.
        team.set_delay(Duration::ZERO);
        thread::sleep(SETTLE);
        let (lines, began) = (team.lines(), Instant::now());
        thread::sleep(2 * SETTLE);
        let most = (team.lines() - lines) as f64 / began.elapsed().as_nanos() as f64;
        let group = (GROUP_LINES * threads as u64) as f64;
        let busy_ns = group / most.max(1e-9);
        let pause = |gbps: f64| {
            let ns = group * LINE_BYTES as f64 / gbps - busy_ns;
            Duration::from_nanos(ns.max(0.0) as u64)
        };
        found.iter().map(|rate| pause(rate.gbps())).collect()
    }
}

/// The latency while a team loads, and how much it loads.
fn at_load(
    chase: &mut Chase,
    team: Option<&Team>,
    span: Duration,
    repeats: usize,
) -> Result<Found, Stop> {
    let (lines, began) = (team.map_or(0, Team::lines), Instant::now());
    let mut medians = vec![];
    for _ in 0..repeats {
        medians.push(chase.slices(Clock::here(), span / repeats as u32)?.median_ns);
    }
    let bytes = (team.map_or(0, Team::lines) - lines) * LINE_BYTES;
    let program_gbps = bytes as f64 / began.elapsed().as_nanos() as f64;
    let latency_ns = spread(&medians).unwrap_or(super::NOTHING);
    Ok(Found { latency_ns, program_gbps })
}
