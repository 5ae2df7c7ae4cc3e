//! Where and how it is measured: what was asked for, on the machine there is.

use crate::args::{ChaseArgs, CommonArgs, InterleaveArgs, LoadArgs, PagesChoice, TrafficArgs};
use interleaf_console::{Failure, system};
use interleaf_linux::{
    machine::{
        hardware::Hardware,
        id_list::{List, ListError},
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
    point::Pattern,
    region::{HUGE_BYTES, Pages},
};
use interleaf_model::units::Bytes;
use interleaf_record::measure::{MeasureDocument, MeasuredMachine, SettingsDocument, size_text};
use std::time::Duration;

/// MLC's, so that figures can be compared: a chase through 200 MB by 64 B, 100 MB a thread.
const CHASE_BYTES: u64 = 200_000_000;
const BUFFER_BYTES: u64 = 100_000_000;
const STRIDE_BYTES: u64 = 64;
/// Both with --quick. All of them become more where the last-level cache is large.
const QUICK_BYTES: u64 = 40_000_000;

/// No more than this part of what is free is taken unasked.
const FREE_PART: u64 = 2;

/// What was asked for.
#[derive(Clone, Debug)]
pub(super) struct Given<'a> {
    pub(super) what: &'static str,
    pub(super) chase: ChaseArgs,
    pub(super) traffic: TrafficArgs,
    pub(super) load: LoadArgs,
    pub(super) interleave: Option<&'a InterleaveArgs>,
    pub(super) common: &'a CommonArgs,
}

/// CPUs that measure, of one node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct From {
    pub(super) node: u32,
    pub(super) cpus: Vec<u32>,
}

/// Where and how.
#[derive(Debug)]
pub(super) struct Setup<'a> {
    pub(super) what: &'static str,
    pub(super) root: &'a Root,
    pub(super) machine: Machine,
    pub(super) hardware: Hardware,
    pub(super) allowed: Option<List>,
    /// Whose CPUs; never none.
    pub(super) from: Vec<From>,
    /// Whose memory, the nearest to the first of them first; never none.
    pub(super) memory: Vec<u32>,
    /// Whether nodes were named.
    pub(super) named: Option<String>,
    /// The one that was asked for; without, that of the fastest loop for each mix.
    pub(super) isa: Option<Isa>,
    pub(super) pages: Pages,
    pub(super) pattern: Pattern,
    pub(super) buffer: usize,
    pub(super) chase: usize,
    pub(super) stride: usize,
    /// How long a point takes.
    pub(super) span: Duration,
    pub(super) repeats: usize,
    pub(super) seed: u64,
    pub(super) quick: bool,
    pub(super) clock: Clock,
    /// The last-level cache of the CPU that chases, and the part of one that each loading thread
    /// has; `None` where the kernel does not say.
    last_level: Option<u64>,
    last_level_per_thread: Option<u64>,
    /// What is not as it was asked for.
    pub(super) notes: Vec<String>,
}

impl<'a> Setup<'a> {
    pub(super) fn new(root: &'a Root, given: &Given<'_>) -> Result<Self, Failure> {
        let common = given.common;
        let machine = Machine::read(root).map_err(system::read_failure)?;
        let hardware = Hardware::read(root).map_err(system::read_failure)?;
        let allowed = allowed_nodes(root, "self").map_err(system::read_failure)?;
        let from = from(
            &machine,
            given,
            allowed_cpus(root, "self").map_err(system::read_failure)?.as_ref(),
        )?;
        let (memory, named) = memory(&machine, given, &from[0], allowed.as_ref())?;
        let quick = common.quick;
        let size = |asked: Option<Bytes>, usual: u64| {
            let usual = if quick { usual.min(QUICK_BYTES) } else { usual };
            asked.map_or(usual, Bytes::get) as usize
        };
        let seconds = common.duration.map_or(if quick { 0.1 } else { 1.0 }, |it| it.seconds());
        let mut setup = Self {
            what: given.what,
            root,
            allowed,
            from,
            memory,
            named,
            isa: common.isa,
            pages: match common.pages {
                Some(PagesChoice::Small) => Pages::Small,
                Some(PagesChoice::Reserved) => Pages::Reserved,
                Some(PagesChoice::Huge) | None => Pages::Huge,
            },
            pattern: match given.traffic.random {
                true => Pattern::Random,
                false => Pattern::Sequential,
            },
            buffer: size(given.traffic.buffer, BUFFER_BYTES),
            chase: size(given.chase.chase, CHASE_BYTES),
            stride: given.chase.stride.map_or(STRIDE_BYTES, Bytes::get) as usize,
            span: Duration::from_secs_f64(seconds),
            repeats: common.repeat.unwrap_or(3) as usize,
            seed: common.seed,
            quick,
            clock: Clock::here(),
            last_level: None,
            last_level_per_thread: None,
            notes: vec![],
            machine,
            hardware,
        };
        setup.threads(given.traffic.threads)?;
        setup.exceed_caches(given);
        setup.fit(given)?;
        setup.tell_of_caches();
        setup.huge_pages()?;
        Ok(setup)
    }

    /// Takes as many CPUs of each node as there are to be threads.
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

    /// Makes sizes that were not asked for [`LAST_LEVEL_FACTOR`] times the last-level caches that
    /// the threads reach.
    fn exceed_caches(&mut self, given: &Given<'_>) {
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
        if given.chase.chase.is_none() {
            self.chase = self.chase.max(needed(self.last_level));
        }
        if given.traffic.buffer.is_none() {
            self.buffer = self.buffer.max(needed(self.last_level_per_thread));
        }
    }

    /// The CPUs that load memory: where one of them chases beside it, the fewer that are left.
    fn loading<'c>(&self, from: &'c From) -> &'c [u32] {
        match &from.cpus[..] {
            [_, load @ ..] if self.what != "bandwidth" && !load.is_empty() => load,
            all => all,
        }
    }

    /// The part of the memory of a chase that the last-level cache of a CPU can hold.
    pub(super) fn chase_cacheable(&self, cpu: u32) -> Option<f64> {
        let cache = self.hardware.last_level_of(cpu)?;
        Some((cache.bytes as f64 / self.chase as f64).min(1.0))
    }

    /// The part of the buffers of threads on some CPUs that the last-level caches can hold.
    pub(super) fn buffers_cacheable(&self, cpus: &[u32]) -> Option<f64> {
        let share = self.hardware.last_level_share(cpus)?;
        Some((share as f64 / self.buffer as f64).min(1.0))
    }

    /// Says which sizes are too small for what the last-level caches hold.
    fn tell_of_caches(&mut self) {
        let is_chased = !["bandwidth", "interleave"].contains(&self.what);
        let is_loaded = self.what != "idle";
        for (option, is_used, size, cache) in [
            ("--chase", is_chased, self.chase, self.last_level),
            ("--buffer", is_loaded, self.buffer, self.last_level_per_thread),
        ] {
            let Some(cache) = cache.filter(|_| is_used) else { continue };
            let needed = cache.saturating_mul(LAST_LEVEL_FACTOR);
            if (size as u64) < needed {
                self.notes.push(format!(
                    "{option} {} is less than {LAST_LEVEL_FACTOR} times the last-level cache that \
                     a thread reaches, {}: the cache is measured too; {} would be enough",
                    size_text(size as u64),
                    size_text(cache),
                    size_text(needed),
                ));
            }
        }
    }

    /// Makes sure that there is as much memory as is asked for; what was not asked for becomes
    /// less.
    fn fit(&mut self, given: &Given<'_>) -> Result<(), Failure> {
        let threads = self.from.iter().map(|from| from.cpus.len()).max().unwrap_or(1) as u64;
        let mut least = u64::MAX;
        let mut place = String::new();
        for node in &self.memory {
            let found = room(self.root, *node)?;
            if found.bytes < least || place.is_empty() {
                least = found.bytes;
                place = match found.limit {
                    Some(limit) => format!("the control group {}", limit.group.name),
                    None => format!("node {node}"),
                };
            }
        }
        let interleaved = self.what == "interleave";
        // Of memory on several nodes, one of them may have to hold nearly all.
        let sizes = [
            ("--chase", given.chase.chase.is_some(), &mut self.chase, 1),
            ("--buffer", given.traffic.buffer.is_some(), &mut self.buffer, threads),
        ];
        let mut sum = 0;
        for (option, is_asked, size, count) in sizes {
            let needed = *size as u64 * count;
            if is_asked && needed > least {
                let each =
                    if count > 1 { format!(" for each of {count} threads") } else { "".into() };
                return Err(Failure::new(
                    format!(
                        "{option} {}{each} is more than {place} has free: {}",
                        size_text(*size as u64),
                        size_text(least & !0xF_FFFF)
                    ),
                    format!("give at most {}", size_text((least / FREE_PART / count) & !0xF_FFFF)),
                ));
            }
            if !is_asked && needed > least / FREE_PART / 2 {
                let fits = (least / FREE_PART / 2 / count) & !0x1F_FFFF;
                if fits < 2 << 20 {
                    return Err(Failure::new(
                        format!("{place} has {} free", size_text(least & !0xFFF)),
                        "free some memory of it, or choose other nodes with --nodes",
                    ));
                }
                self.notes.push(format!(
                    "{place} has little memory free: {} in place of {} ({option})",
                    size_text(fits),
                    size_text(*size as u64)
                ));
                *size = fits as usize;
            }
            sum += *size as u64 * count;
        }
        if sum > least && !interleaved && ["loaded", "histogram", "all"].contains(&self.what) {
            return Err(Failure::new(
                format!("chase and buffers need {} together", size_text(sum & !0xF_FFFF)),
                format!("{place} has {} free: give less", size_text(least & !0xF_FFFF)),
            ));
        }
        Ok(())
    }

    /// Makes sure that the pages are there that are asked for.
    fn huge_pages(&mut self) -> Result<(), Failure> {
        let switch = self.machine.switches.huge_pages.as_deref();
        match (self.pages, switch) {
            (Pages::Huge, None | Some("never")) => {
                self.notes.push(
                    "there are no transparent huge pages: small ones are used, and latency in \
                     random order has the walks through page tables in it; as root: echo madvise \
                     > /sys/kernel/mm/transparent_hugepage/enabled"
                        .into(),
                );
                Ok(())
            }
            (Pages::Reserved, _) => self.reserved_pages(),
            _ => Ok(()),
        }
    }

    fn reserved_pages(&self) -> Result<(), Failure> {
        let threads = self.from.iter().map(|from| from.cpus.len()).max().unwrap_or(1);
        let most = self.chase.max(self.buffer * threads).max(self.chase + self.buffer * threads);
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

    /// A record without points.
    pub(super) fn document(&self) -> MeasureDocument {
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
        MeasureDocument { quick: self.quick, ..MeasureDocument::new(self.what, machine, settings) }
    }

    /// The memory nodes, the nearest to some CPUs first.
    pub(super) fn nearest(&self, from: &From) -> u32 {
        by_distance(&self.machine, from.node, &self.memory)[0]
    }
}

/// The memory of a node that this process can have; all there could be where the machine does not
/// tell.
pub(super) fn room(root: &Root, node: u32) -> Result<Available, Failure> {
    let nodes = [node].into_iter().collect();
    let found = available(root, Some(&nodes)).map_err(system::read_failure)?;
    Ok(found.unwrap_or(Available { bytes: u64::MAX, limit: None }))
}

fn unlisted(option: &str, why: &ListError) -> Failure {
    Failure::new(
        format!("{option}: {why}"),
        "write them as numactl takes them: 0-3, !2, +1, all; `interleaf show` lists what there is",
    )
}

/// Whose CPUs are used.
fn from(
    machine: &Machine,
    given: &Given<'_>,
    allowed: Option<&List>,
) -> Result<Vec<From>, Failure> {
    let usable = |cpu: &u32| allowed.is_none_or(|allowed| allowed.has(*cpu));
    let all = machine
        .nodes
        .iter()
        .map(|node| From { node: node.id, cpus: node.cpus.iter().filter(usable).collect() });
    let all: Vec<From> = all.filter(|from| !from.cpus.is_empty()).collect();
    let with_cpus: List = all.iter().map(|from| from.node).collect();
    if let Some(text) = &given.common.cpus {
        let has: List = all.iter().flat_map(|from| from.cpus.iter().copied()).collect();
        let cpus = List::of_user(text, &has).map_err(|why| unlisted("--cpus", &why))?;
        let of_first = |from: &&From| cpus.first().is_some_and(|cpu| from.cpus.contains(cpu));
        let node = all.iter().find(of_first).map_or(0, |from| from.node);
        return Ok(vec![From { node, cpus }]);
    }
    if let Some(node) = given.common.cpu_node {
        let found = all.into_iter().find(|from| from.node == node);
        return found.map(|from| vec![from]).ok_or_else(|| {
            Failure::new(
                format!("--cpu-node {node}: it has no CPUs that this process may use"),
                format!("nodes {with_cpus} have some"),
            )
        });
    }
    let each = given.what == "matrix" || given.what == "all";
    let count = if each { all.len() } else { 1 };
    let taken: Vec<From> = all.into_iter().take(count).collect();
    if taken.is_empty() {
        let hint = "`interleaf show` lists the nodes and their CPUs";
        return Err(Failure::new("no node has CPUs that this process may use", hint));
    }
    Ok(taken)
}

/// Whose memory is measured, and as what it was named.
fn memory(
    machine: &Machine,
    given: &Given<'_>,
    from: &From,
    allowed: Option<&List>,
) -> Result<(Vec<u32>, Option<String>), Failure> {
    let with_memory = machine.memory_nodes();
    let allows = |node: &u32| allowed.is_none_or(|allowed| allowed.has(*node));
    if let Some(text) = &given.common.nodes {
        let nodes = List::of_user(text, &machine.node_list());
        let nodes = nodes.map_err(|why| unlisted("--nodes", &why))?;
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
    if !["matrix", "interleave", "all"].contains(&given.what) {
        near.truncate(1);
    }
    Ok((near, None))
}

/// Nodes in the order of their distance from one.
fn by_distance(machine: &Machine, from: u32, nodes: &[u32]) -> Vec<u32> {
    let distance = |node: &u32| {
        let at = machine.nodes.iter().position(|it| it.id == *node);
        let of = machine.nodes.iter().find(|it| it.id == from);
        let told = at.and_then(|at| of.and_then(|of| of.distances.get(at).copied()));
        told.unwrap_or(if *node == from { 10 } else { u32::MAX })
    };
    let mut nodes = nodes.to_vec();
    nodes.sort_by_key(|node| (distance(node), *node));
    nodes
}
