//! Resolves the options of a measurement on this machine: the CPUs, the memory, the sizes and the
//! times.

use crate::options::{Measurement, Options};
use interleaf_console::{Failure, system};
use interleaf_linux::{
    machine::{
        hardware::Hardware,
        id_list::{IdList, IdListError},
        topology::Machine,
    },
    process::{
        allowed_cpus, allowed_nodes,
        available::{Available, available},
    },
    root::Root,
};
use interleaf_measure::{
    clock::Clock,
    idle::LAST_LEVEL_FACTOR,
    isa::Isa,
    region::{HUGE_BYTES, Pages},
    traffic::Pattern,
};
use interleaf_model::units::Bytes;
use interleaf_record::{
    measure::{MeasureDocument, MeasuredMachine, SettingsDocument, size_text},
    warning::Warning,
};
use std::time::Duration;

/// The defaults of MLC (Intel Memory Latency Checker), so that results are comparable with those of
/// MLC. The chase reads one line in each `STRIDE_BYTES` of a memory of `CHASE_BYTES`. Each loading
/// thread has buffers of `BUFFER_BYTES` in total.
const CHASE_BYTES: u64 = 200_000_000;
const BUFFER_BYTES: u64 = 100_000_000;
const STRIDE_BYTES: u64 = 64;
/// The default size of the chased memory, and of the buffers of each thread, with --quick. If the
/// last-level caches are large, `Setup::exceed_caches` raises all default sizes, with and without
/// --quick.
const QUICK_BYTES: u64 = 40_000_000;

/// By default, the chase and all buffers together take at most the available memory divided by
/// `FREE_DIVISOR`. One half of this memory is for the chase, the other half for the buffers.
const FREE_DIVISOR: u64 = 2;

/// The CPUs on which measuring threads run, and their node. With the option `--cpus`, the CPUs may
/// be on several nodes; `node` is then the node of the first CPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NodeCpus {
    pub(crate) node: u32,
    pub(crate) cpus: Vec<u32>,
}

/// The setup of a measurement. Its fields are the options of the campaign, resolved on this
/// machine.
#[derive(Debug)]
pub(crate) struct Setup<'a> {
    pub(crate) measurement: Measurement,
    pub(crate) root: &'a Root,
    pub(crate) machine: Machine,
    pub(crate) hardware: Hardware,
    pub(crate) allowed: Option<IdList>,
    /// The CPUs on which measuring threads run, one entry for each node. With the option `--cpus`
    /// there is only one entry. Never empty.
    pub(crate) from: Vec<NodeCpus>,
    /// The nodes whose memory is measured. They are in the order of the option `--nodes`; without
    /// this option, they are sorted by their distance from the node of `from[0]`. Never empty.
    pub(crate) memory: Vec<u32>,
    /// The text of the option `--nodes`; `None` if the option is not given.
    pub(crate) named: Option<String>,
    /// The requested instruction set; `None` selects the fastest kernel for each mix.
    pub(crate) isa: Option<Isa>,
    pub(crate) pages: Pages,
    pub(crate) pattern: Pattern,
    pub(crate) buffer: usize,
    pub(crate) chase: usize,
    pub(crate) stride: usize,
    /// The duration of the measurement of a point, including all repetitions.
    pub(crate) span: Duration,
    pub(crate) repeats: usize,
    pub(crate) seed: u64,
    pub(crate) quick: bool,
    pub(crate) clock: Clock,
    /// `last_level` is the size of the last-level cache of the CPU that runs the chase, bytes.
    /// `last_level_per_thread` is the size of a last-level cache divided by the number of loading
    /// threads that share it, bytes. If several caches are used, each field has its largest value.
    /// `None` if the kernel does not report caches.
    last_level: Option<u64>,
    last_level_per_thread: Option<u64>,
    /// Warnings for the record: sizes that were reduced to fit into the available memory, sizes
    /// that are too small for the last-level caches, and missing huge pages.
    pub(crate) warnings: Vec<Warning>,
}

impl<'a> Setup<'a> {
    pub(crate) fn new(root: &'a Root, options: &Options) -> Result<Self, Failure> {
        let machine = Machine::read(root).map_err(system::read_failure)?;
        let hardware = Hardware::read(root).map_err(system::read_failure)?;
        let allowed = allowed_nodes(root, "self").map_err(system::read_failure)?;
        let from = from(
            &machine,
            options,
            allowed_cpus(root, "self").map_err(system::read_failure)?.as_ref(),
        )?;
        let (memory, named) = memory(&machine, options, &from[0], allowed.as_ref())?;
        let quick = options.quick;
        let size = |option: Option<Bytes>, usual: u64| {
            let usual = if quick { usual.min(QUICK_BYTES) } else { usual };
            option.map_or(usual, Bytes::get) as usize
        };
        let seconds = options.duration.map_or(if quick { 0.1 } else { 1.0 }, |it| it.seconds());
        let mut setup = Self {
            measurement: options.measurement,
            root,
            allowed,
            from,
            memory,
            named,
            isa: options.isa,
            pages: options.pages,
            pattern: match options.traffic.random {
                true => Pattern::Random,
                false => Pattern::Sequential,
            },
            buffer: size(options.traffic.buffer, BUFFER_BYTES),
            chase: size(options.chase.bytes, CHASE_BYTES),
            stride: options.chase.stride.map_or(STRIDE_BYTES, Bytes::get) as usize,
            span: Duration::from_secs_f64(seconds),
            repeats: options.repeat.unwrap_or(3) as usize,
            seed: options.seed,
            quick,
            clock: Clock::here(),
            last_level: None,
            last_level_per_thread: None,
            warnings: vec![],
            machine,
            hardware,
        };
        setup.threads(options.traffic.threads)?;
        setup.exceed_caches(options);
        setup.fit(options)?;
        setup.note_small_sizes();
        setup.huge_pages()?;
        Ok(setup)
    }

    /// Keeps the first `threads` CPUs of each node, one CPU for each thread. If `threads` is
    /// `None`, all CPUs are kept.
    fn threads(&mut self, threads: Option<u32>) -> Result<(), Failure> {
        let Some(threads) = threads.map(|threads| threads as usize) else { return Ok(()) };
        for from in &mut self.from {
            if threads > from.cpus.len() {
                let has = from.cpus.len();
                return Err(Failure::new(
                    format!("--threads {threads}: node {} has {has} CPUs to use", from.node),
                    format!("give at most {has}, or name more CPUs with --cpus"),
                ));
            }
            from.cpus.truncate(threads);
        }
        Ok(())
    }

    /// Raises the default sizes of the chase and of a thread's buffers to at least
    /// [`LAST_LEVEL_FACTOR`] times the size of the last-level cache. For the chase, the size of the
    /// whole cache counts; for the buffers of a thread, this size divided by the number of loading
    /// threads that share the cache.
    fn exceed_caches(&mut self, options: &Options) {
        let chasing = self.from.iter().map(|from| from.cpus[0]);
        let last_level = chasing.filter_map(|cpu| self.hardware.last_level_of(cpu));
        self.last_level = last_level.map(|cache| cache.bytes).max();
        let shares =
            self.from.iter().filter_map(|from| self.hardware.last_level_share(self.loading(from)));
        self.last_level_per_thread = shares.max();
        let needed = |cache: Option<u64>| {
            let bytes = cache.unwrap_or(0).saturating_mul(LAST_LEVEL_FACTOR);
            bytes.checked_next_multiple_of(1 << 20).unwrap_or(bytes) as usize
        };
        if options.chase.bytes.is_none() {
            self.chase = self.chase.max(needed(self.last_level));
        }
        if options.traffic.buffer.is_none() {
            self.buffer = self.buffer.max(needed(self.last_level_per_thread));
        }
    }

    /// Returns the CPUs that load memory: for [`Measurement::Bandwidth`] all CPUs, otherwise all
    /// CPUs except the first, which runs the chase. If there is only one CPU, it runs the chase and
    /// also loads memory.
    fn loading<'c>(&self, from: &'c NodeCpus) -> &'c [u32] {
        match &from.cpus[..] {
            [_, load @ ..] if self.measurement != Measurement::Bandwidth && !load.is_empty() => {
                load
            }
            all => all,
        }
    }

    /// Returns the fraction of the chased memory that fits into the last-level cache of `cpu`;
    /// `None` if the kernel does not report this cache.
    pub(crate) fn chase_cacheable(&self, cpu: u32) -> Option<f64> {
        let cache = self.hardware.last_level_of(cpu)?;
        Some((cache.bytes as f64 / self.chase as f64).min(1.0))
    }

    /// Returns the fraction of a thread's buffers that fits into the thread's share of the
    /// last-level cache, if one thread runs on each of `cpus`; `None` if the kernel does not report
    /// this cache.
    pub(crate) fn buffers_cacheable(&self, cpus: &[u32]) -> Option<f64> {
        let share = self.hardware.last_level_share(cpus)?;
        Some((share as f64 / self.buffer as f64).min(1.0))
    }

    /// Adds a warning for each size that is too small for the last-level caches.
    fn note_small_sizes(&mut self) {
        let is_chased =
            ![Measurement::Bandwidth, Measurement::Interleave].contains(&self.measurement);
        let is_loaded = self.measurement != Measurement::Idle;
        for (option, is_used, size, cache) in [
            ("--chase", is_chased, self.chase, self.last_level),
            ("--buffer", is_loaded, self.buffer, self.last_level_per_thread),
        ] {
            let Some(cache) = cache.filter(|_| is_used) else { continue };
            let needed = cache.saturating_mul(LAST_LEVEL_FACTOR);
            if (size as u64) < needed {
                self.warnings.push(Warning::CacheIsMeasured {
                    option,
                    bytes: size as u64,
                    cache_bytes: cache,
                    factor: LAST_LEVEL_FACTOR,
                });
            }
        }
    }

    /// Fits the sizes to the measured node with the least available memory.
    ///
    /// - Default sizes are reduced, so that the chase takes at most a quarter of this memory, and
    ///   the buffers of all threads together another quarter.
    /// - Fails if a quarter has less than 2 MiB for the chase or for the buffers of a thread.
    /// - Fails if a requested size exceeds this memory, or if chase and buffers together do in a
    ///   measurement that uses both at the same time.
    fn fit(&mut self, options: &Options) -> Result<(), Failure> {
        let threads = self.from.iter().map(|from| from.cpus.len()).max().unwrap_or(1) as u64;
        let mut least = u64::MAX;
        let mut place = String::new();
        for node in &self.memory {
            let found = available_on(self.root, *node)?;
            if found.bytes < least || place.is_empty() {
                least = found.bytes;
                place = match found.limit {
                    Some(limit) => format!("the control group {}", limit.group.name),
                    None => format!("node {node}"),
                };
            }
        }
        let interleaved = self.measurement == Measurement::Interleave;
        // Each node may be measured alone, and interleaved memory may be nearly all on one node.
        // Therefore each size must fit into the node with the least available memory.
        let sizes = [
            ("--chase", options.chase.bytes.is_some(), &mut self.chase, 1),
            ("--buffer", options.traffic.buffer.is_some(), &mut self.buffer, threads),
        ];
        let mut sum = 0;
        for (option, is_set, size, count) in sizes {
            let needed = *size as u64 * count;
            if is_set && needed > least {
                let each =
                    if count > 1 { format!(" for each of {count} threads") } else { "".into() };
                return Err(Failure::new(
                    format!(
                        "{option} {}{each} is more than {place} has free: {}",
                        size_text(*size as u64),
                        size_text(least & !0xF_FFFF)
                    ),
                    format!(
                        "give at most {}",
                        size_text((least / FREE_DIVISOR / count) & !0xF_FFFF)
                    ),
                ));
            }
            if !is_set && needed > least / FREE_DIVISOR / 2 {
                let fits = (least / FREE_DIVISOR / 2 / count) & !0x1F_FFFF;
                if fits < 2 << 20 {
                    return Err(Failure::new(
                        format!("{place} has {} free", size_text(least & !0xFFF)),
                        "free some memory of it, or choose other nodes with --nodes",
                    ));
                }
                self.warnings.push(Warning::SizeReduced {
                    option,
                    place: place.clone(),
                    bytes: fits,
                    default_bytes: *size as u64,
                });
                *size = fits as usize;
            }
            sum += *size as u64 * count;
        }
        if sum > least
            && !interleaved
            && [Measurement::Loaded, Measurement::Histogram, Measurement::All]
                .contains(&self.measurement)
        {
            return Err(Failure::new(
                format!("chase and buffers need {} together", size_text(sum & !0xF_FFFF)),
                format!("{place} has {} free: give less", size_text(least & !0xF_FFFF)),
            ));
        }
        Ok(())
    }

    /// Checks that the kernel has pages of the requested kind. If transparent huge pages are
    /// requested and the kernel has none, adds a warning.
    fn huge_pages(&mut self) -> Result<(), Failure> {
        let switch = self.machine.sysctls.huge_pages.as_deref();
        match (self.pages, switch) {
            (Pages::Huge, None | Some("never")) => {
                self.warnings.push(Warning::NoHugePages);
                Ok(())
            }
            (Pages::Reserved, _) => self.reserved_pages(),
            _ => Ok(()),
        }
    }

    fn reserved_pages(&self) -> Result<(), Failure> {
        let threads = self.from.iter().map(|from| from.cpus.len()).max().unwrap_or(1);
        let most = self.chase + self.buffer * threads;
        let needed = (most as u64).div_ceil(HUGE_BYTES as u64);
        for node in self.machine.nodes.iter().filter(|node| self.memory.contains(&node.id)) {
            let of_size = node.huge_pages.iter().find(|it| it.page_bytes == HUGE_BYTES as u64);
            let free = of_size.map_or(0, |pages| pages.free);
            if free < needed {
                return Err(Failure::new(
                    format!(
                        "--pages reserved: node {} has {free} of them free, and up to {needed} of \
                         2 MiB are needed",
                        node.id
                    ),
                    format!(
                        "reserve them as root: echo {needed} > /sys/devices/system/node/node{}/\
                         hugepages/hugepages-2048kB/nr_hugepages; or take --pages huge, which \
                         needs none",
                        node.id
                    ),
                ));
            }
        }
        Ok(())
    }

    /// Returns the record of the measurement, without points.
    pub(crate) fn document(&self) -> MeasureDocument {
        let machine = MeasuredMachine::new(&self.machine, &self.hardware);
        let settings = SettingsDocument {
            isa: self.isa.map_or("the fastest for each mix".into(), |isa| isa.to_string()),
            pages: match self.pages {
                Pages::Small => "small",
                Pages::Huge => "huge",
                Pages::Reserved => "reserved",
            }
            .into(),
            buffer_bytes: self.buffer as u64,
            chase_bytes: self.chase as u64,
            stride_bytes: self.stride as u64,
            last_level_bytes: self.last_level,
            last_level_bytes_per_thread: self.last_level_per_thread,
            last_level_factor: self.last_level.map(|_| LAST_LEVEL_FACTOR),
            duration_s: self.span.as_secs_f64(),
            repeats: self.repeats as u32,
            statistic: "median of repeats, each the median of its windows".into(),
            seed: self.seed,
            spread: "distance of the quartiles of the repeats, as a part of their median".into(),
        };
        MeasureDocument {
            quick: self.quick,
            ..MeasureDocument::new(self.measurement.name(), machine, settings)
        }
    }

    /// Returns the measured node that is nearest to the CPUs of `from`.
    pub(crate) fn nearest(&self, from: &NodeCpus) -> u32 {
        by_distance(&self.machine, from.node, &self.memory)[0]
    }
}

/// Returns the memory of a node that is available to this process; unlimited if the kernel does not
/// report it.
pub(crate) fn available_on(root: &Root, node: u32) -> Result<Available, Failure> {
    let nodes = [node].into_iter().collect();
    let found = available(root, Some(&nodes)).map_err(system::read_failure)?;
    Ok(found.unwrap_or(Available { bytes: u64::MAX, limit: None }))
}

fn list_failure(option: &str, why: &IdListError) -> Failure {
    Failure::new(
        format!("{option}: {why}"),
        "write them as numactl takes them: 0-3, !2, +1, all; `interleaf show` lists them all",
    )
}

/// Returns the CPUs on which measuring threads run. With the option `--cpus`, its CPUs are a single
/// entry. Without this option, there is one entry for each node whose CPUs measure.
fn from(
    machine: &Machine,
    options: &Options,
    allowed: Option<&IdList>,
) -> Result<Vec<NodeCpus>, Failure> {
    let usable = |cpu: &u32| allowed.is_none_or(|allowed| allowed.has(*cpu));
    let all = machine
        .nodes
        .iter()
        .map(|node| NodeCpus { node: node.id, cpus: node.cpus.iter().filter(usable).collect() });
    let all: Vec<NodeCpus> = all.filter(|from| !from.cpus.is_empty()).collect();
    let with_cpus: IdList = all.iter().map(|from| from.node).collect();
    if let Some(text) = &options.cpus {
        let has: IdList = all.iter().flat_map(|from| from.cpus.iter().copied()).collect();
        let cpus = IdList::of_user(text, &has).map_err(|why| list_failure("--cpus", &why))?;
        let of_first = |from: &&NodeCpus| cpus.first().is_some_and(|cpu| from.cpus.contains(cpu));
        let node = all.iter().find(of_first).map_or(0, |from| from.node);
        return Ok(vec![NodeCpus { node, cpus }]);
    }
    if let Some(node) = options.cpu_node {
        let found = all.into_iter().find(|from| from.node == node);
        return found.map(|from| vec![from]).ok_or_else(|| {
            Failure::new(
                format!("--cpu-node {node}: it has no CPUs that this process may use"),
                format!("nodes {with_cpus} have some"),
            )
        });
    }
    let each = [Measurement::Matrix, Measurement::All].contains(&options.measurement);
    let count = if each { all.len() } else { 1 };
    let taken: Vec<NodeCpus> = all.into_iter().take(count).collect();
    if taken.is_empty() {
        let hint = "`interleaf show` lists the nodes and their CPUs";
        return Err(Failure::new("no node has CPUs that this process may use", hint));
    }
    Ok(taken)
}

/// Returns the nodes whose memory is measured, and the text of the option `--nodes` if it was
/// given. Without this option, the nodes depend on the subject of the measurement: all usable nodes
/// (the nearest first), or only the nearest node.
fn memory(
    machine: &Machine,
    options: &Options,
    from: &NodeCpus,
    allowed: Option<&IdList>,
) -> Result<(Vec<u32>, Option<String>), Failure> {
    let with_memory = machine.memory_nodes();
    let allows = |node: &u32| allowed.is_none_or(|allowed| allowed.has(*node));
    if let Some(text) = &options.nodes {
        let nodes = IdList::of_user(text, &machine.node_list());
        let nodes = nodes.map_err(|why| list_failure("--nodes", &why))?;
        if let Some(node) = nodes.iter().find(|node| !with_memory.has(**node)) {
            return Err(Failure::new(
                format!("--nodes {text}: node {node} has no memory"),
                format!("nodes {with_memory} have some"),
            ));
        }
        if let Some(node) = nodes.iter().find(|node| !allows(node)) {
            return Err(Failure::new(
                format!("--nodes {text}: this process may not use node {node}"),
                "widen its cpuset (cpuset.mems), or choose other nodes",
            ));
        }
        return Ok((nodes, Some(text.clone())));
    }
    let usable: Vec<u32> = with_memory.iter().filter(allows).collect();
    if usable.is_empty() {
        let hint = "`interleaf show` lists the nodes; a cpuset may keep this process from them";
        return Err(Failure::new("no node has memory that this process may use", hint));
    }
    let mut near = by_distance(machine, from.node, &usable);
    if ![Measurement::Matrix, Measurement::Interleave, Measurement::All]
        .contains(&options.measurement)
    {
        near.truncate(1);
    }
    Ok((near, None))
}

/// Returns `nodes` sorted by their distance from the node `from`, the nearest first.
fn by_distance(machine: &Machine, from: u32, nodes: &[u32]) -> Vec<u32> {
    let distance = |node: &u32| {
        let at = machine.nodes.iter().position(|it| it.id == *node);
        let of = machine.nodes.iter().find(|it| it.id == from);
        let distance = at.and_then(|at| of.and_then(|of| of.distances.get(at).copied()));
        distance.unwrap_or(if *node == from { 10 } else { u32::MAX })
    };
    let mut nodes = nodes.to_vec();
    nodes.sort_by_key(|node| (distance(node), *node));
    nodes
}
