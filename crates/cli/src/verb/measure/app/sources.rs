//! The sources of a profile's figures (traffic, pipeline slots, energy), and reasons for missing
//! ones.

use crate::args::AppArgs;
use interleaf_console::{Failure, output, system};
use interleaf_linux::{
    launch::unix_socket::Access, machine::topology::Machine, replace::Existing, root::Root,
};
use interleaf_model::machine::Layout;
use interleaf_observe::{
    counters::{
        Counters, Plan, plan, rough_layout,
        table::Quantity,
        topdown::{self, Topdown},
    },
    feed::Feed,
    rapl::Meter,
    replay::{Recorder, Replay},
    resctrl::{self, Monitor},
    source::Source,
    usage,
};
use interleaf_record::{
    TierKindName,
    measure_app::{ProfileTier, QuantityDocument},
};
use std::path::Path;

/// The sources of figures that are available, in addition to `/proc`.
pub(super) struct Sources<'a> {
    /// Counts the traffic of each domain with each tier. `None` if this machine has no such source,
    /// and in a dry run without `--replay`.
    pub(super) traffic: Option<Box<dyn Source + 'a>>,
    /// Counts the command's traffic with all tiers together, if no source counts it by tier.
    pub(super) monitor: Option<Monitor<'a>>,
    pub(super) topdown: Option<Topdown>,
    pub(super) energy: Option<Meter>,
    /// For each tier of the source `traffic`, the index of the tier in `tiers`.
    pub(super) tier_of: Vec<usize>,
    pub(super) tiers: Vec<ProfileTier>,
    /// The nodes with memory, as pairs of (node, index of its tier in `tiers`).
    pub(super) nodes: Vec<(u32, usize)>,
    pub(super) quantities: Vec<QuantityDocument>,
}

/// A source for [`Sources::traffic`]. `tier_of` has, for each tier of the source, the index of the
/// tier in [`Sources::tiers`]. `quantities` are the document's entries for bandwidth and latency.
struct Traffic<'a> {
    source: Option<Box<dyn Source + 'a>>,
    tier_of: Vec<usize>,
    quantities: [QuantityDocument; 2],
}

impl<'a> Sources<'a> {
    /// Finds the available sources, and opens them. A dry run opens no counters, monitor or socket.
    pub(super) fn find(args: &AppArgs, root: &'a Root, machine: &Machine) -> Result<Self, Failure> {
        let layout = rough_layout(machine);
        let (tiers, nodes) = tiers(machine, &layout);
        let mut traffic = match (&args.feed, &args.replay) {
            (Some(path), _) => fed(path, &layout, args.dry_run)?,
            (None, Some(path)) => replayed(path, &tiers, &nodes)?,
            (None, None) => counted(root, machine, &layout, args.dry_run),
        };
        let monitor = match traffic.quantities[0].is_available {
            true => None,
            false => monitor(root, &mut traffic.quantities[0], args.dry_run),
        };
        let (topdown, slots_quantity) = slots(root, args.dry_run);
        let (energy, energy_quantity) = energy(root)?;
        let mut quantities: Vec<QuantityDocument> = traffic.quantities.into();
        quantities.extend([slots_quantity, energy_quantity]);
        let source = match (traffic.source, &args.record) {
            (Some(source), Some(path)) => Some(recorded(source, path)?),
            (None, Some(_)) if !args.dry_run => {
                return Err(Failure::new(
                    format!("--record: there is nothing to record: {}", quantities[0].what),
                    "leave --record out, or run where memory's traffic is counted",
                ));
            }
            (source, _) => source,
        };
        let tier_of = traffic.tier_of;
        let traffic = source;
        Ok(Self { traffic, monitor, topdown, energy, tier_of, tiers, nodes, quantities })
    }

    pub(super) fn energy_domains(&self) -> Vec<String> {
        self.energy.iter().flat_map(Meter::names).map(String::from).collect()
    }
}

/// Returns the tiers of a machine, fastest first, and the nodes as pairs of (node, index of its
/// tier). A machine without NUMA has one tier.
fn tiers(machine: &Machine, layout: &Layout) -> (Vec<ProfileTier>, Vec<(u32, usize)>) {
    let by_speed = machine.memory_by_speed();
    let with_kinds = by_speed.iter().zip(&layout.tiers);
    let mut tiers: Vec<ProfileTier> = with_kinds
        .map(|(nodes, tier)| ProfileTier {
            name: tier.name.clone(),
            kind: tier.kind.into(),
            nodes: nodes.iter().collect(),
        })
        .collect();
    if tiers.is_empty() {
        tiers.push(ProfileTier { name: "memory".into(), kind: TierKindName::Dram, nodes: vec![0] });
    }
    let nodes = tiers.iter().enumerate();
    let nodes = nodes.flat_map(|(at, tier)| tier.nodes.iter().map(move |node| (*node, at)));
    let nodes = nodes.collect();
    (tiers, nodes)
}

fn missing(why: &str, remedy: &str) -> [QuantityDocument; 2] {
    ["bandwidth", "latency"].map(|name| QuantityDocument::missing(name, why, remedy))
}

/// Opens the hardware counters of the memory controllers. A dry run only chooses the events.
fn counted<'a>(root: &Root, machine: &Machine, layout: &Layout, dry_run: bool) -> Traffic<'a> {
    let tier_of: Vec<usize> = (0..layout.tiers.len()).collect();
    let without = |quantities| Traffic { source: None, tier_of: vec![], quantities };
    let planned = match plan(root, machine, layout) {
        Ok(planned) => planned,
        Err(why) => return without(missing(&why.to_string(), &why.hint())),
    };
    let quantities = quantities_of(&planned);
    if dry_run {
        return Traffic { source: None, tier_of, quantities };
    }
    match Counters::open(planned, root) {
        Ok(counters) => Traffic { source: Some(Box::new(counters)), tier_of, quantities },
        Err(why) => without(missing(&why.to_string(), why.hint())),
    }
}

/// Opens the kernel's cache monitoring (resctrl), to which the command is added after its start. A
/// dry run only checks that the kernel has cache monitoring. `quantity`, the document's entry for
/// bandwidth, receives the name of the source, or the reason why the source is missing.
fn monitor<'a>(
    root: &'a Root,
    quantity: &mut QuantityDocument,
    dry_run: bool,
) -> Option<Monitor<'a>> {
    let opened = match dry_run {
        true => resctrl::probe(root).map(|()| None),
        false => Monitor::open(root, std::process::id()).map(Some),
    };
    match opened {
        Ok(monitor) => {
            let source = "resctrl: bytes between caches and memory of the command alone, of all \
                        tiers, reads and writes together";
            *quantity = QuantityDocument::available(&quantity.name, source);
            monitor
        }
        Err(why) => {
            quantity.what += &format!("; nor do caches: {why}");
            None
        }
    }
}

/// Returns the document's entries for bandwidth and memory latency. Each names the number of
/// hardware counters in `plan` that measure the quantity, and the counters that are missing.
fn quantities_of(plan: &Plan) -> [QuantityDocument; 2] {
    let events =
        |of: &[Quantity]| plan.events.iter().filter(|event| of.contains(&event.quantity)).count();
    let without = |quantity: &str| {
        let missing = plan.missing.iter().filter(|it| it.contains(quantity));
        missing.map(|it| format!("; not counted: {it}")).collect::<String>()
    };
    let tables = plan.tables.join(" and ");
    let bytes = events(&[Quantity::Read, Quantity::Written]);
    let waited = [Quantity::OccupancyCycles, Quantity::OccupancyNs, Quantity::Inserts];
    let waited = events(&waited);
    let counted = |name: &str, count: usize, missing: &str| match count {
        0 => QuantityDocument::missing(
            name,
            format!("the table of {tables} has no event for it here"),
            "docs/counters.md lists the counters of each CPU",
        ),
        _ => QuantityDocument::available(
            name,
            format!("{count} counters by the table of {tables}{}", without(missing)),
        ),
    };
    [counted("bandwidth", bytes, "bytes"), counted("latency", waited, "latency")]
}

/// Opens the socket `path`, to which programs report their traffic. A dry run does not open it.
fn fed<'a>(path: &Path, layout: &Layout, dry_run: bool) -> Result<Traffic<'a>, Failure> {
    let tier_of: Vec<usize> = (0..layout.tiers.len()).collect();
    let source = format!("traffic that programs write to the socket {}", path.display());
    let quantities =
        ["bandwidth", "latency"].map(|name| QuantityDocument::available(name, &source));
    if dry_run {
        return Ok(Traffic { source: None, tier_of, quantities });
    }
    let (domains, tiers) = (layout.domains.len(), layout.tiers.len());
    let feed = Feed::listen(path, Access::default(), domains, tiers).map_err(|why| {
        Failure::new(why.to_string(), "name another path, or stop the program that listens there")
    })?;
    Ok(Traffic { source: Some(Box::new(feed)), tier_of, quantities })
}

/// Opens a recording of the traffic of each tier. The tiers of the recording are `tiers`, or one
/// tier for each node, fastest node first, if `balance` made the recording.
fn replayed<'a>(
    path: &Path,
    tiers: &[ProfileTier],
    nodes: &[(u32, usize)],
) -> Result<Traffic<'a>, Failure> {
    let replay = Replay::open(path).map_err(|why| {
        Failure::new(why.to_string(), "docs/counters.md has the format of a recording")
    })?;
    let tier_of: Vec<usize> = match replay.tiers() {
        count if count == tiers.len() => (0..count).collect(),
        count if count == nodes.len() => nodes.iter().map(|(_, tier)| *tier).collect(),
        count => {
            return Err(Failure::new(
                format!(
                    "{} has {count} tiers, this machine {} of {} memory nodes",
                    path.display(),
                    tiers.len(),
                    nodes.len()
                ),
                "replay a recording of this machine, or of one with as many tiers",
            ));
        }
    };
    let source = replay.describe();
    let quantities =
        ["bandwidth", "latency"].map(|name| QuantityDocument::available(name, &source));
    Ok(Traffic { source: Some(Box::new(replay)), tier_of, quantities })
}

/// Wraps `source` so that its readings are also written to the recording `path`.
fn recorded<'a>(
    source: Box<dyn Source + 'a>,
    path: &Path,
) -> Result<Box<dyn Source + 'a>, Failure> {
    let file = output::growing(path, Existing::Truncate)?;
    match Recorder::new(source, file) {
        Ok(recorder) => Ok(Box::new(recorder)),
        Err(why) => Err(output::file_failure(path, &why)),
    }
}

/// Opens the counters of the cores' pipeline slots. A dry run only chooses the events.
fn slots(root: &Root, dry_run: bool) -> (Option<Topdown>, QuantityDocument) {
    let name = "top-down";
    let planned = match topdown::plan(root) {
        Ok(planned) => planned,
        Err(why) => {
            return (None, QuantityDocument::missing(name, why.to_string(), why.hint()));
        }
    };
    if dry_run {
        let (table, levels) = (&planned.table, planned.levels());
        let s = if levels == 1 { "" } else { "s" };
        let source = format!("the slots of cores by the table of {table}, {levels} level{s}");
        return (None, QuantityDocument::available(name, source));
    }
    match Topdown::open(planned, root) {
        Ok(topdown) => {
            let source = topdown.describe();
            (Some(topdown), QuantityDocument::available(name, source))
        }
        Err(why) => (None, QuantityDocument::missing(name, why.to_string(), why.hint())),
    }
}

/// Opens the energy meters.
fn energy(root: &Root) -> Result<(Option<Meter>, QuantityDocument), Failure> {
    let name = "energy";
    let zones = Meter::zones(root).map_err(system::read_failure)?;
    let text = |zones: &[String]| format!("RAPL: {}", zones.join(", "));
    // The energy of a run is the difference of two readings of a meter. A captured machine has only
    // one reading, so no meter is opened on it.
    if !root.is_live() && !zones.is_empty() {
        return Ok((None, QuantityDocument::available(name, text(&zones))));
    }
    if root.is_live()
        && let Some(meter) = Meter::open(Root::live()).map_err(system::read_failure)?
    {
        let source = text(&meter.names().map(String::from).collect::<Vec<_>>());
        return Ok((Some(meter), QuantityDocument::available(name, source)));
    }
    let (why, remedy) = match zones.is_empty() {
        false => ("the meters of RAPL may not be read by this user", "run it as root"),
        true => (
            "there are no meters of RAPL (/sys/class/powercap)",
            "run on bare metal with the driver loaded (intel_rapl_msr)",
        ),
    };
    Ok((None, QuantityDocument::missing(name, why, remedy)))
}

/// Returns the document's entries for the quantities that are read from the command's processes in
/// `/proc`.
pub(super) fn of_processes(root: &Root, machine: &Machine) -> Vec<QuantityDocument> {
    let has_numa_maps = !root.is_live() || root.has("/proc/self/numa_maps");
    let one_node = machine.memory_nodes().len() <= 1;
    let placement = match (one_node, has_numa_maps) {
        (true, _) => QuantityDocument::available("placement", "all memory is on one node"),
        (false, true) => {
            QuantityDocument::available("placement", "numa_maps of the command's processes")
        }
        (false, false) => QuantityDocument::missing(
            "placement",
            "the kernel does not report the placement of pages (/proc/self/numa_maps)",
            "it takes a kernel with CONFIG_NUMA and CONFIG_PROC_PAGE_MONITOR",
        ),
    };
    let storage = match !root.is_live() || usage::accounts_for_storage(root) {
        true => QuantityDocument::available("storage I/O", "/proc/PID/io of its processes"),
        false => QuantityDocument::missing(
            "storage I/O",
            "the kernel keeps no account of it (/proc/self/io)",
            "it takes a kernel with CONFIG_TASK_IO_ACCOUNTING",
        ),
    };
    let memory =
        QuantityDocument::available("memory and CPU time", "/proc/PID/stat of its processes");
    vec![placement, storage, memory]
}
