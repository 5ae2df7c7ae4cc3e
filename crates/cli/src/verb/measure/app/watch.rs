//! Samples a command while `interleaf measure app` runs it.

use super::sources::Sources;
use crate::args::AppArgs;
use interleaf_console::{Failure, output, system};
use interleaf_linux::{
    process::numa_maps::{self, NodeBytes},
    root::{Root, RootError},
};
use interleaf_observe::{
    source::{Reading, SourceError},
    usage::{self, MachineTime, Usage},
};
use interleaf_record::{
    measure_app::{
        ProfileDocument, QuantityDocument, RunTotals, SampleDocument, Samples, TrafficDocument,
    },
    warning::Warning,
};
use std::time::{Duration, Instant};

/// Maximum time from the start of the command to the first sample. It is short, so that a short
/// command is sampled too.
pub(super) const FIRST_SAMPLE: Duration = Duration::from_millis(30);

/// Samples of the placement take at most 1 / `SAMPLE_COST` of the command's run time, because they
/// can stall the command. The same limit holds for samples of the command's processes, because they
/// use CPU time.
const SAMPLE_COST: u32 = 20;

/// Interval between writes of the interim record, which has the samples so far, to the file of
/// `-o`.
const SAVE: Duration = Duration::from_secs(10);

/// Fractions of the machine's CPU time. A warning reports the CPU time of other programs above
/// `OTHERS_REPORTED`, and the CPU time that the hypervisor took above `STOLEN_REPORTED`.
const OTHERS_REPORTED: f64 = 0.05;
const STOLEN_REPORTED: f64 = 0.01;

/// Minimum fraction of the run time in which pipeline slots are counted. Below it, a warning says
/// that the counts are extrapolated to the whole run.
const COUNTED_LEAST: f64 = 0.5;

pub(super) struct AppSampler<'a> {
    root: &'a Root,
    sources: Sources<'a>,
    samples: Samples,
    last: SampleDocument,
    usage: Usage,
    /// The age of the command (its run time so far) when it was last sampled (`sampled`), and when
    /// its processes were last sampled (`usage_sampled`).
    sampled: Duration,
    usage_sampled: Duration,
    /// The age of the command at which the next sample of its processes (`usage_due`) and of its
    /// mappings (`maps_due`) is due.
    usage_due: Duration,
    maps_due: Duration,
    saved: Duration,
    machine: Option<MachineTime>,
    warnings: Vec<Warning>,
}

impl<'a> AppSampler<'a> {
    /// Creates the sampler. Call it right before the command starts.
    pub(super) fn new(
        args: &AppArgs,
        root: &'a Root,
        mut sources: Sources<'a>,
    ) -> Result<Self, Failure> {
        // Drop the traffic and the energy before the command's start. A recording (`--replay`) is
        // of another run, so none of its readings is dropped.
        if let Some(traffic) = sources.traffic.as_mut().filter(|_| args.replay.is_none()) {
            let _ = traffic.read();
        }
        if let Some(meter) = &mut sources.energy {
            let _ = meter.read_each();
        }
        let machine = usage::machine_time(root).map_err(system::read_failure)?;
        Ok(Self {
            root,
            sources,
            samples: Samples::new(),
            last: SampleDocument::default(),
            usage: Usage::default(),
            sampled: Duration::ZERO,
            usage_sampled: Duration::ZERO,
            usage_due: Duration::ZERO,
            maps_due: Duration::ZERO,
            saved: Duration::ZERO,
            machine,
            warnings: vec![],
        })
    }

    /// Adds the started command, process `pid`, to the cache monitoring.
    pub(super) fn attach(&mut self, pid: u32) {
        let Some(Err(why)) = self.sources.monitor.as_ref().map(|monitor| monitor.add_process(pid))
        else {
            return;
        };
        self.sources.monitor = None;
        self.warn(source_failed("resctrl", &why));
    }

    pub(super) fn last(&self) -> &SampleDocument {
        &self.last
    }

    /// Samples the sources that are due at `age`, the command's run time so far. `ended` is true
    /// for the last sample, after the end of the command. If a source fails, the record gets a
    /// warning, and sampling continues.
    pub(super) fn sample(&mut self, pid: u32, age: Duration, ended: bool) {
        let mut sample = SampleDocument {
            time_s: interleaf_record::rounded(age.as_secs_f64()),
            span_s: (age - self.sampled).as_secs_f64(),
            tiers: vec![TrafficDocument::default(); self.sources.tiers.len()],
            energy_j: vec![None; self.sources.energy_domains().len()],
            ..SampleDocument::default()
        };
        self.sampled = age;
        self.take_traffic(&mut sample);
        match self.sources.energy.as_mut().map(|meter| meter.read_each()) {
            None => {}
            Some(Ok(joules)) => sample.energy_j = joules,
            Some(Err(why)) => self.warn(source_failed("energy", &why)),
        }
        match self.sources.topdown.as_mut().map(|topdown| topdown.read()) {
            None => {}
            Some(Ok(slots)) => sample.slots = Some(slots.into()),
            Some(Err(why)) => self.warn(source_failed("slots", &why)),
        }
        if ended || age >= self.usage_due {
            let start = Instant::now();
            if let Err(why) = self.take_usage(&mut sample, pid) {
                self.warn(source_failed("processes", &why));
            }
            sample.looked_s = (age - self.usage_sampled).as_secs_f64();
            (self.usage_sampled, self.usage_due) = (age, age + start.elapsed() * SAMPLE_COST);
        }
        if !ended && age >= self.maps_due {
            let start = Instant::now();
            if let Err(why) = self.take_placement(&mut sample, pid) {
                self.warn(source_failed("placement", &why));
            }
            self.maps_due = age + start.elapsed() * SAMPLE_COST;
        }
        // The progress line shows `last`. If this sample did not read the command's processes, keep
        // the figures of the last sample that did.
        let processes = if sample.looked_s > 0.0 { &sample } else { &self.last };
        self.last = SampleDocument {
            looked_s: processes.looked_s,
            cpu_s: processes.cpu_s,
            resident_bytes: processes.resident_bytes,
            ..sample.clone()
        };
        self.samples.push(sample);
    }

    fn warn(&mut self, warning: Warning) {
        if !self.warnings.contains(&warning) {
            self.warnings.push(warning);
        }
    }

    fn take_traffic(&mut self, sample: &mut SampleDocument) {
        if let Some(monitor) = &mut self.sources.monitor {
            match monitor.read() {
                Ok(bytes) => {
                    (sample.command_bytes, sample.counted_s) = (bytes, sample.span_s);
                }
                Err(why) => self.warn(source_failed("resctrl", &why)),
            }
        }
        let Some(source) = &mut self.sources.traffic else { return };
        match source.read() {
            Ok(Reading { span, traffic, .. }) => {
                sample.counted_s = span.as_secs_f64();
                for tiers in &traffic {
                    for (tier, traffic) in self.sources.tier_of.iter().zip(tiers) {
                        sample.tiers[*tier].add(traffic);
                    }
                }
            }
            Err(why) => {
                let warning = match &why {
                    SourceError::Ended { .. } => Warning::RecordingEnded { error: why.to_string() },
                    _ => source_failed("bandwidth is not counted any more", &why),
                };
                self.sources.traffic = None;
                self.warn(warning);
            }
        }
    }

    fn take_usage(&mut self, sample: &mut SampleDocument, pid: u32) -> Result<(), RootError> {
        let now = Usage::of_tree(self.root, pid)?;
        let before = std::mem::replace(&mut self.usage, now);
        // The CPU time of the command's process tree can fall: if a process is reparented out of
        // the tree, its CPU time no longer counts.
        sample.cpu_s = now.cpu.saturating_sub(before.cpu).as_secs_f64();
        sample.major_faults = now.major_faults.saturating_sub(before.major_faults);
        sample.threads = now.threads;
        sample.threads_running = now.running;
        sample.hidden_processes = now.hidden;
        if now.processes > 0 {
            sample.resident_bytes = Some(now.resident_bytes);
        }
        if let Some(storage) = now.storage {
            let before = before.storage.unwrap_or_default();
            sample.storage_read_bytes = Some(storage.read_bytes.saturating_sub(before.read_bytes));
            sample.storage_written_bytes =
                Some(storage.written_bytes.saturating_sub(before.written_bytes));
        }
        Ok(())
    }

    fn take_placement(&mut self, sample: &mut SampleDocument, pid: u32) -> Result<(), RootError> {
        let tiers = self.sources.tiers.len();
        if self.sources.nodes.len() == 1 {
            sample.placement_bytes = sample.resident_bytes.into_iter().collect();
            return Ok(());
        }
        let Some(found) = numa_maps::of_tree(self.root, pid)? else { return Ok(()) };
        let by_tier = |bytes: &NodeBytes| {
            let mut by_tier = vec![0; tiers];
            for (node, tier) in &self.sources.nodes {
                by_tier[*tier] += bytes.on(*node);
            }
            by_tier
        };
        sample.placement_bytes = by_tier(&found.all);
        sample.anonymous_bytes = by_tier(&found.anonymous);
        sample.hidden_processes = sample.hidden_processes.max(found.hidden);
        Ok(())
    }

    /// Writes the interim record every [`SAVE`], so that the samples survive SIGKILL.
    pub(super) fn save(
        &mut self,
        args: &AppArgs,
        age: Duration,
        document: &mut ProfileDocument,
    ) -> Result<(), Failure> {
        let Some(target) = args.output.as_deref().filter(|_| age >= self.saved + SAVE) else {
            return Ok(());
        };
        self.saved = age;
        document.app.samples = self.samples.list().to_vec();
        document.app.summarise(age.as_secs_f64(), RunTotals::default());
        // Ignore an error: the final write to the file reports it.
        let _ = output::interim(target, &interleaf_record::json(document));
        Ok(())
    }

    /// Summarizes the samples after the end of the run.
    pub(super) fn finish(self, elapsed: Duration, document: &mut ProfileDocument) {
        let machine = usage::machine_time(self.root).ok().flatten().zip(self.machine);
        let since = |of: fn(&MachineTime) -> Duration| {
            machine.map(|(now, before)| of(&now).saturating_sub(of(&before)).as_secs_f64())
        };
        let beside = RunTotals {
            process_resident_max_bytes: usage::children_resident_max().ok().flatten(),
            machine_busy_s: since(|time| time.busy),
            stolen_s: since(|time| time.stolen),
        };
        let app = &mut document.app;
        app.samples = self.samples.list().to_vec();
        app.summarise(elapsed.as_secs_f64(), beside);
        app.warnings = self.warnings.iter().map(ToString::to_string).collect();
        add_warnings(document);
    }
}

fn source_failed(subject: &'static str, error: &impl ToString) -> Warning {
    Warning::SourceFailed { subject, error: error.to_string() }
}

/// Adds the warnings that follow from the figures of the whole run. Marks a quantity as missing if
/// its source is available but has counted nothing.
fn add_warnings(document: &mut ProfileDocument) {
    let app = &mut document.app;
    let Some(whole) = &app.whole else { return };
    let cpus = app.cpus.max(1) as f64;
    let counts = app
        .quantities
        .iter()
        .any(|it| it.is_available && ["bandwidth", "energy"].contains(&it.name.as_str()));
    let mut warnings = vec![];
    if let Some(others) = whole.other_cpus_used.filter(|others| *others > OTHERS_REPORTED * cpus) {
        warnings.push(Warning::OtherPrograms { cpus: others, are_counted: counts });
    }
    if let Some(stolen) = whole.stolen_cpus.filter(|stolen| *stolen > STOLEN_REPORTED * cpus) {
        warnings.push(Warning::HypervisorTook { cpus: stolen });
    }
    if let Some(topdown) = whole.topdown.as_ref().filter(|it| it.counted_share < COUNTED_LEAST) {
        warnings.push(Warning::SlotsScaled { share: topdown.counted_share });
    }
    if whole.hidden_processes > 0 {
        warnings.push(Warning::HiddenProcesses { count: whole.hidden_processes });
    }
    let nothing = [
        ("bandwidth", whole.bandwidth_gbps.is_none(), "no reading had bytes in it"),
        (
            "latency",
            whole.tiers.iter().all(|tier| tier.latency_ns.is_none()),
            "no reading had requests and the time that they waited",
        ),
        ("top-down", whole.topdown.is_none(), "the counters were never free"),
        ("energy", whole.energy.is_empty(), "the meters could not be read again"),
        (
            "placement",
            whole.tiers.iter().all(|tier| tier.resident_bytes.is_none()),
            "the command ended before its first sample",
        ),
        ("storage I/O", whole.storage_read_bytes.is_none(), "its account could not be read"),
    ];
    for (name, is_so, why) in nothing {
        if is_so {
            not_counted(&mut app.quantities, name, why);
        }
    }
    app.warnings.extend(warnings.iter().map(ToString::to_string));
}

/// Marks the available quantity `name` as missing. `why` says why nothing was counted.
fn not_counted(quantities: &mut [QuantityDocument], name: &str, why: &str) {
    let quantity = quantities.iter_mut().find(|it| it.name == name && it.is_available);
    if let Some(quantity) = quantity {
        let problem = format!("nothing was counted: {why} ({})", quantity.what);
        *quantity = QuantityDocument::missing(name, problem, "run it for longer");
    }
}
