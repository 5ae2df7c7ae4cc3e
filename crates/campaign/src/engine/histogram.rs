//! Measures the distribution of the latency of single accesses, idle and under load.

use super::{Bench, NodeCpus, Stop, interleave, on_node, pattern_name, pinned, with_rate};
use crate::task::Loads;
use interleaf_console::Failure;
use interleaf_linux::root::Root;
use interleaf_measure::{
    chase::Chase,
    clock::Clock,
    histogram::{self, Histogram, distribution::Distribution},
    interleave::Method,
    spread::Spread,
    team::Team,
    traffic::{LINE_BYTES, Traffic},
};
use interleaf_record::{
    measure::{HistogramDocument, MeasureDocument, MeasuredPoint, PointKind, SpreadDocument},
    rounded,
    warning::Warning,
};
use std::time::{Duration, Instant};

/// The number of sampled accesses at each load: `SAMPLES`, or `QUICK_SAMPLES` with --quick.
const SAMPLES: u64 = 4_000_000;
const QUICK_SAMPLES: u64 = 500_000;

/// Default pauses, ns, of each loading thread after each group of 32 lines that it accesses
/// (`team::GROUP_LINES`): 700 gives a moderate load, 0 the maximum load.
const DELAYS_NS: [u64; 2] = [700, 0];

impl Bench<'_> {
    /// Samples the idle latency of single accesses. If there are CPUs besides the CPU of the chase,
    /// also samples the latency at each load, while these CPUs load the memory.
    pub(crate) fn histograms(
        &self,
        cpus: &NodeCpus,
        memory: u32,
        traffic: &Traffic,
        loads: &Loads,
        document: &mut MeasureDocument,
    ) -> Result<(), Stop> {
        let (setup, options, stop) = (self.setup, self.options(), &self.stop);
        let placement = on_node(memory);
        let region = interleave::region(options.bytes, setup.pages, &placement, Method::Pages)?;
        let mut chase = Chase::new(region, options.local())?;
        let load = cpus.cpus.get(1..).unwrap_or_default();
        let mut measure = |team: Option<(&Team, Duration)>, document: &mut MeasureDocument| {
            let seen = self.backing([chase.region()]);
            let samples = if setup.quick { QUICK_SAMPLES } else { SAMPLES };
            let options = histogram::HistogramOptions { samples, delay: None };
            let work = || {
                let (lines, began) = (team.map_or(0, |(team, _)| team.lines()), Instant::now());
                let (root, clock) = (Root::live(), Clock::here());
                let mut proceed = |_| !stop.is_set();
                let found = histogram::histogram(&root, clock, &mut chase, &options, &mut proceed)?;
                let lines = team.map_or(0, |(team, _)| team.lines()) - lines;
                let gbps = (lines * LINE_BYTES) as f64 / began.elapsed().as_nanos() as f64;
                Ok::<_, Stop>((found, gbps))
            };
            let ((found, gbps), contamination, took_s) =
                self.watched(|| pinned(cpus.cpus[0], work))?;
            let rate = Spread { median: gbps, relative: 0.0, count: 1 };
            let threads = if team.is_some() { load.len() } else { 0 };
            let point = MeasuredPoint {
                memory_node: Some(memory),
                pattern: pattern_name(setup.pattern).into(),
                memory_bytes: chase.region().bytes() as u64,
                cacheable_share: setup.chase_cacheable(cpus.cpus[0]).map(rounded),
                contamination,
                took_s,
                ..self.point(PointKind::Histogram, cpus, &seen)
            };
            self.add(
                document,
                MeasuredPoint {
                    delay_ns: team.map(|(_, delay)| delay.as_nanos() as f64),
                    latency_ns: found.filtered.mean_ns().map(rounded),
                    histogram: Some(histogram_document(&found)),
                    ..with_rate(point, traffic, threads, rate)
                },
            )
        };
        measure(None, document)?;
        if load.is_empty() {
            document.notes.push(Warning::NoLoadForHistograms.to_string());
            return Ok(());
        }
        let team = {
            let regions = interleave::regions(
                load.len(),
                setup.buffer,
                setup.pages,
                &placement,
                Method::Pages,
            )?;
            Team::start_in(&self.load(load, traffic), regions)?
        };
        let delays = match loads {
            Loads::Found => DELAYS_NS.map(Duration::from_nanos).to_vec(),
            Loads::Delays(delays) => delays.clone(),
            Loads::Rates(_) => {
                let hint = "give --delays, such as 700ns,0ns";
                return Err(Failure::new("--rate is for measure loaded", hint).into());
            }
        };
        for delay in delays {
            team.set_delay(delay);
            measure(Some((&team, delay)), document)?;
        }
        team.stop()?;
        Ok(())
    }
}

fn histogram_document(found: &Histogram) -> HistogramDocument {
    let mut bins = found.filtered.bins.clone();
    // The last bin counts all latencies beyond the range of the other bins. It is kept, and the
    // empty bins right before it are omitted.
    let above = bins.pop().unwrap_or(0);
    while bins.last() == Some(&0) {
        bins.pop();
    }
    bins.push(above);
    let tagged = &found.tagged;
    HistogramDocument {
        samples: found.raw.count(),
        timer_ns: rounded(found.timer.overhead_ns),
        chase_ns: rounded(found.chase.median_ns),
        tagged: tagged.total(),
        tags: [
            ("interrupted", tagged.interrupted),
            ("moved", tagged.moved),
            ("switched", tagged.switched),
            ("stolen", tagged.stolen),
            ("gap", tagged.gaps),
        ]
        .into_iter()
        .map(|(name, count)| (name.to_string(), count))
        .collect(),
        raw: spread_of(&found.raw),
        filtered: spread_of(&found.filtered),
        histogram_8ns: bins,
    }
}

fn spread_of(of: &Distribution) -> SpreadDocument {
    let at = |percent: f64| rounded(of.percentile_ns(percent).unwrap_or(0.0));
    SpreadDocument {
        mean: rounded(of.mean_ns().unwrap_or(0.0)),
        p50: at(50.0),
        p90: at(90.0),
        p99: at(99.0),
        p99_9: at(99.9),
        p99_99: at(99.99),
        p99_999: at(99.999),
        p99_9999: at(99.9999),
        max: rounded(of.max_ns().unwrap_or(0.0)),
    }
}
