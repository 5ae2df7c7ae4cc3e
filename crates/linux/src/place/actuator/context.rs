//! A context of DAMON as the files that it is written into: pure.
//!
//! The same context is written otherwise by kernel: filters have two folders since 6.15, a thread
//! brings its statistics up to date by itself since 6.17. What is left out has the kernel's
//! default, which is zero in all files that are numbers; so upper limits have to be written.

use crate::{
    machine::damon::{ADMIN, probe::Probed},
    root::Write,
};
use std::ops::Range;

/// How often a region is looked at. With [`AGGREGATION_US`] it is what the weights 60:40 were
/// reached with exactly, in 12 s, and kept (6.17.13 and 7.2.12, a program that sweeps 200 MiB).
pub const SAMPLE_US: u64 = 100_000;

/// How often what was found is put together, and schemes are applied.
pub const AGGREGATION_US: u64 = 1_000_000;

/// How often DAMON looks which mappings processes have.
const UPDATE_US: u64 = 1_000_000;

/// The most accesses that an aggregation can find.
pub const ACCESSES_MAX: u32 = (AGGREGATION_US / SAMPLE_US) as u32;

/// Regions in all: DAMON's own default limits, but for many processes, which need some each.
const REGIONS: Range<usize> = 10..1000;
const REGIONS_OF_TARGET: usize = 20;

/// The goal that a node has a part of the memory that a scheme is for, since 7.2.
pub const ELIGIBLE: &str = "node_eligible_mem_bp";

/// The first thread's first context.
pub const CONTEXT: &str = "0/contexts/0";

/// What is watched, and what is done with what is found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Context {
    /// What is watched.
    pub watched: Watched,
    /// What is done.
    pub schemes: Vec<Scheme>,
}

/// What is watched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Watched {
    /// The addresses of processes (`vaddr`).
    Processes(Vec<u32>),
    /// Physical memory (`paddr`), by its addresses in bytes, in their order.
    Memory(Vec<Range<u64>>),
}

/// What is done with regions of some heat.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scheme {
    /// `migrate_hot` or `migrate_cold`.
    pub action: &'static str,
    /// Where pages go.
    pub to: To,
    /// Accesses that an aggregation has found, from and to; `None` for no region at all.
    pub accesses: Option<(u32, u32)>,
    /// For how many aggregations that has been so, at least.
    pub age_min: u32,
    /// How much is tried at most; `None` for all.
    pub quota: Option<Quota>,
    /// A goal that the quota is tuned to by the kernel, below what it says.
    pub goal: Option<EligibleGoal>,
    /// What is left out.
    pub without: Vec<Without>,
}

/// Where pages go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum To {
    /// To a node.
    Node(u32),
    /// To nodes by weights above 0, by the address of each page.
    Weighted(Vec<(u32, u32)>),
}

/// How much is tried at most, whether or not it moves then. Regions take turns, whatever their
/// heat: with the kernel's preference for the hottest ones, those that are in place already would
/// use it up for ever.
///
/// What is written is whole pages. Kernels try whole pages, and remember where they stopped once
/// all is used up, to a byte; of a rest of less than a page that never is so, and each window
/// begins at the first address again (6.12 and 6.17: the first 20 MiB of the machine were tried for
/// minutes, with `qt_exceeds` at 0; "mm/damon/core: handle <min_region_sz remaining quota as
/// empty", 2026).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quota {
    /// So many bytes.
    pub bytes: u64,
    /// In so many milliseconds.
    pub reset_ms: u64,
}

/// `node_eligible_mem_bp`: the part of the eligible memory that a node should have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EligibleGoal {
    /// The node.
    pub node: u32,
    /// The part, in ten thousandths.
    pub share_bp: u64,
}

/// Pages that a scheme leaves alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Without {
    /// Those at these physical addresses.
    Addresses(Range<u64>),
    /// Those that a file stands behind.
    Files,
    /// Those of other control groups than these, named from where version 2 is mounted; more than
    /// one only where filters are split. It comes last.
    OtherGroups(Vec<String>),
    /// Those of this control group, without those below it, named likewise.
    Group(String),
}

impl Context {
    /// What is to be written, in order, once there is a thread: counts before what they make room
    /// for. The state is not among it.
    pub fn writes(&self, kernel: &Probed) -> Vec<Write> {
        let mut out = WriteList(vec![]);
        if kernel.refresh {
            out.add("0/refresh_ms", AGGREGATION_US / 1000);
        }
        out.add("0/contexts/nr_contexts", 1);
        let is_processes = matches!(self.watched, Watched::Processes(_));
        let targets = match &self.watched {
            Watched::Processes(pids) => pids.len(),
            Watched::Memory(_) => 1,
        };
        out.add(format!("{CONTEXT}/operations"), if is_processes { "vaddr" } else { "paddr" });
        let attributes = format!("{CONTEXT}/monitoring_attrs");
        out.add(format!("{attributes}/intervals/sample_us"), SAMPLE_US);
        out.add(format!("{attributes}/intervals/aggr_us"), AGGREGATION_US);
        out.add(format!("{attributes}/intervals/update_us"), UPDATE_US);
        out.add(format!("{attributes}/nr_regions/min"), REGIONS.start);
        let most = REGIONS.end.max(targets * REGIONS_OF_TARGET);
        out.add(format!("{attributes}/nr_regions/max"), most);
        out.add(format!("{CONTEXT}/targets/nr_targets"), targets);
        match &self.watched {
            Watched::Processes(pids) => {
                for (at, pid) in pids.iter().enumerate() {
                    out.add(format!("{CONTEXT}/targets/{at}/pid_target"), pid);
                }
            }
            Watched::Memory(ranges) => {
                let folder = format!("{CONTEXT}/targets/0/regions");
                out.add(format!("{folder}/nr_regions"), ranges.len());
                for (at, range) in ranges.iter().enumerate() {
                    out.add(format!("{folder}/{at}/start"), range.start);
                    out.add(format!("{folder}/{at}/end"), range.end);
                }
            }
        }
        out.add(format!("{CONTEXT}/schemes/nr_schemes"), self.schemes.len());
        for (at, scheme) in self.schemes.iter().enumerate() {
            scheme.writes(&format!("{CONTEXT}/schemes/{at}"), kernel, &mut out);
        }
        out.0
    }
}

impl Quota {
    /// Its bytes in whole pages, and one at least: 0 would be no limit.
    fn whole_pages(self) -> u64 {
        let page = rustix::param::page_size() as u64;
        (self.bytes / page).max(1) * page
    }
}

impl Scheme {
    fn writes(&self, folder: &str, kernel: &Probed, out: &mut WriteList) {
        out.add(format!("{folder}/action"), self.action);
        match &self.to {
            To::Node(node) => {
                // Destinations that were there before would come first.
                if kernel.destinations {
                    out.add(format!("{folder}/dests/nr_dests"), 0);
                }
                out.add(format!("{folder}/target_nid"), node);
            }
            To::Weighted(nodes) => {
                out.add(format!("{folder}/dests/nr_dests"), nodes.len());
                for (at, (node, weight)) in nodes.iter().enumerate() {
                    out.add(format!("{folder}/dests/{at}/id"), node);
                    out.add(format!("{folder}/dests/{at}/weight"), weight);
                }
            }
        }
        let pattern = format!("{folder}/access_pattern");
        out.add(format!("{pattern}/sz/max"), u64::MAX);
        // No region has as many accesses as a number can say.
        let (from, to) = self.accesses.unwrap_or((u32::MAX, u32::MAX));
        out.add(format!("{pattern}/nr_accesses/min"), from);
        out.add(format!("{pattern}/nr_accesses/max"), to);
        out.add(format!("{pattern}/age/min"), self.age_min);
        out.add(format!("{pattern}/age/max"), u32::MAX);
        let (bytes, reset_ms) = self.quota.map_or((0, 0), |it| (it.whole_pages(), it.reset_ms));
        out.add(format!("{folder}/quotas/bytes"), bytes);
        out.add(format!("{folder}/quotas/reset_interval_ms"), reset_ms);
        let goals = format!("{folder}/quotas/goals");
        if self.goal.is_none() && kernel.goals.iter().any(|it| it == ELIGIBLE) {
            out.add(format!("{goals}/nr_goals"), 0);
        }
        if let Some(goal) = self.goal {
            out.add(format!("{goals}/nr_goals"), 1);
            out.add(format!("{goals}/0/target_metric"), ELIGIBLE);
            out.add(format!("{goals}/0/target_value"), goal.share_bp);
            out.add(format!("{goals}/0/nid"), goal.node);
            // All of the quota until the goal is reached, then none: the other tuner begins with
            // a page and doubles, which takes a minute to get going.
            if kernel.tuners.iter().any(|it| it == "temporal") {
                out.add(format!("{folder}/quotas/goal_tuner"), "temporal");
            }
        }
        let is_core = |it: &&Without| matches!(it, Without::Addresses(_));
        let (core, ops): (Vec<_>, Vec<_>) = self.without.iter().partition(is_core);
        if kernel.split_filters {
            filters(&format!("{folder}/core_filters"), &core, true, out);
            filters(&format!("{folder}/ops_filters"), &ops, true, out);
        } else {
            filters(&format!("{folder}/filters"), &[core, ops].concat(), false, out);
        }
    }
}

/// Filters reject what matches, by default and before 6.14 always. Since then one can also allow
/// what matches; the first that matches decides, and behind a last one that allows, all else is
/// rejected. So several groups are allowed one by one, where without that only one can be told from
/// others.
fn filters(folder: &str, all: &[&Without], can_allow: bool, out: &mut WriteList) {
    if all.is_empty() {
        return;
    }
    let groups = |without: &&Without| match without {
        Without::OtherGroups(groups) if can_allow => Some(groups.clone()),
        _ => None,
    };
    let allowed = all.iter().find_map(groups).unwrap_or_default();
    let rejecting: Vec<&&Without> = all.iter().filter(|it| groups(it).is_none()).collect();
    out.add(format!("{folder}/nr_filters"), rejecting.len() + allowed.len());
    let says_allow = !allowed.is_empty();
    for (at, without) in rejecting.iter().enumerate() {
        let filter = format!("{folder}/{at}");
        without.writes(&filter, out);
        if says_allow {
            out.add(format!("{filter}/allow"), "N");
        }
    }
    for (at, group) in allowed.iter().enumerate() {
        let filter = format!("{folder}/{}", rejecting.len() + at);
        Without::Group(group.clone()).writes(&filter, out);
        out.add(format!("{filter}/allow"), "Y");
    }
}

impl Without {
    /// A filter that matches it.
    fn writes(&self, filter: &str, out: &mut WriteList) {
        let kind = match self {
            Self::Addresses(_) => "addr",
            Self::Files => "anon",
            Self::OtherGroups(_) | Self::Group(_) => "memcg",
        };
        out.add(format!("{filter}/type"), kind);
        let matching = if matches!(self, Self::Addresses(_) | Self::Group(_)) { "Y" } else { "N" };
        out.add(format!("{filter}/matching"), matching);
        match self {
            Self::Addresses(range) => {
                out.add(format!("{filter}/addr_start"), range.start);
                out.add(format!("{filter}/addr_end"), range.end);
            }
            Self::Files => {}
            Self::OtherGroups(groups) => {
                for group in groups.iter().take(1) {
                    out.add(format!("{filter}/memcg_path"), group);
                }
            }
            Self::Group(group) => out.add(format!("{filter}/memcg_path"), group),
        }
    }
}

/// What is written below the folder of DAMON's threads.
struct WriteList(Vec<Write>);

impl WriteList {
    fn add(&mut self, path: impl AsRef<str>, text: impl ToString) {
        let path = format!("{ADMIN}/{}", path.as_ref());
        self.0.push(Write { path, text: text.to_string() });
    }
}
