//! Translates a context of DAMON into writes to DAMON's sysfs files. The functions here are pure.
//!
//! The files differ by kernel: filters are in two folders since 6.15, and since 6.17 a thread can
//! update its statistics periodically (`refresh_ms`). A file that is not written keeps the kernel's
//! default, which is 0 for all numbers, so upper limits have to be written.

use crate::{
    machine::damon::{ADMIN, probe::Probed},
    root::Write,
};
use std::ops::Range;

/// Sampling interval, us. Evidence: with this interval and [`AGGREGATION_US`], the pages of a
/// program that makes passes over 200 MiB reached the ratio 60:40 exactly in 12 s and kept it
/// (Linux 6.17.13 and 7.2.12).
pub const SAMPLE_US: u64 = 100_000;

/// Aggregation interval, us. At the end of each interval, DAMON applies the schemes.
pub const AGGREGATION_US: u64 = 1_000_000;

/// Interval at which DAMON reads the mappings of processes, us.
const UPDATE_US: u64 = 1_000_000;

/// The maximum access count of a region in an aggregation interval: one per sampling interval.
pub const ACCESSES_MAX: u32 = (AGGREGATION_US / SAMPLE_US) as u32;

/// Minimum and maximum number of regions: DAMON's defaults. With more than 50 processes, the
/// maximum is [`REGIONS_OF_TARGET`] times their number, because each process needs some regions.
const REGIONS: Range<usize> = 10..1000;
const REGIONS_OF_TARGET: usize = 20;

/// The metric of a quota goal: the fraction of the eligible memory that is on a given node (since
/// Linux 7.2). Eligible memory is the memory that matches the access pattern of the scheme.
pub const ELIGIBLE: &str = "node_eligible_mem_bp";

/// The usual length of a window of a quota, ms (`reset_interval_ms`). In each window, a scheme may
/// try to migrate the bytes of its quota.
pub const RESET_MS: u64 = 1000;

/// The folder of the first context of the first thread, below [`ADMIN`].
pub const CONTEXT: &str = "0/contexts/0";

/// A context of DAMON: the monitored memory and the schemes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Context {
    pub monitored: MonitoredMemory,
    pub schemes: Vec<Scheme>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MonitoredMemory {
    /// The addresses of processes (`vaddr`).
    Processes(Vec<u32>),
    /// Physical memory (`paddr`): address ranges in bytes, in ascending order.
    Memory(Vec<Range<u64>>),
}

/// A scheme: an action on the regions that have a given access pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scheme {
    /// The action: `migrate_hot` or `migrate_cold`.
    pub action: &'static str,
    pub to: Destination,
    /// The least and the greatest access count of a region in an aggregation interval. The scheme
    /// acts on the regions whose count is within these bounds; on no region if `None`.
    pub accesses: Option<(u32, u32)>,
    /// The minimum age of a region, in aggregation intervals.
    pub age_min: u32,
    /// The limit of the bytes that the scheme may try to migrate; `None` for no limit.
    pub quota: Option<Quota>,
    /// The goal by which the kernel tunes the quota, with the field `quota` as the upper limit;
    /// `None` for no goal.
    pub goal: Option<EligibleGoal>,
    /// The filters, which reject pages. The scheme acts only on pages that no filter rejects.
    pub filters: Vec<PageFilter>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Destination {
    Node(u32),
    /// Nodes with weights above 0; the address of a page selects its node.
    Weighted(Vec<(u32, u32)>),
}

/// An upper limit of the bytes that a scheme tries to migrate in a window, successfully or not. The
/// priority weights of the quota stay 0. With other weights the kernel prefers the hottest regions,
/// and those already on the destination use up every window's quota.
///
/// The quota is written in whole pages. The kernel tries whole pages, so it never uses up a
/// remainder of less than a page. It saves the address at which the next window resumes only if it
/// has used the last byte of the quota; otherwise each window begins at the first address again.
/// With a quota that was not in whole pages, Linux 6.12 and 6.17 tried the first 20 MiB of the
/// machine for minutes, with `qt_exceeds` at 0 ("mm/damon/core: handle <min_region_sz remaining
/// quota as empty", 2026).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quota {
    /// The number of bytes that may be tried in a window.
    pub bytes: u64,
    /// The length of a window, ms.
    pub reset_ms: u64,
}

/// The quota goal `node_eligible_mem_bp`: a node's target share of the eligible memory, which is
/// the memory that matches the access pattern of the scheme.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EligibleGoal {
    pub node: u32,
    /// The target share in basis points.
    pub share_bp: u64,
}

/// A filter of a scheme (DAMOS filter), which names the pages that the scheme must not touch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PageFilter {
    /// Pages in a range of physical addresses.
    Addresses(Range<u64>),
    /// Pages of files.
    Files,
    /// Pages of all control groups except the listed groups, of which there is at least one. The
    /// names of groups are relative to the mount point of cgroup version 2. Several groups require
    /// a kernel with `split_filters`. A scheme has at most one filter of this kind.
    OtherGroups(Vec<String>),
    /// Pages of a control group without its descendants, named relative to the cgroup 2 mount.
    Group(String),
}

impl Context {
    /// Limits the rate at which all schemes together try to migrate, bytes per second. If the
    /// quotas of the schemes exceed the limit together, each is reduced in the ratio of their
    /// rates. A scheme without a quota counts with the whole limit, and a scheme that acts on no
    /// region counts nothing.
    pub fn limit_rate(mut self, bytes_per_s: Option<u64>) -> Self {
        let Some(limit) = bytes_per_s.map(u128::from) else { return self };
        let rate = |scheme: &Scheme| {
            let own = scheme
                .quota
                .map_or(limit, |it| u128::from(it.bytes) * 1000 / u128::from(it.reset_ms));
            own.min(limit)
        };
        let acts = |scheme: &Scheme| scheme.accesses.is_some();
        let all: u128 = self.schemes.iter().filter(|it| acts(it)).map(rate).sum();
        for scheme in &mut self.schemes {
            let whole = Quota { bytes: u64::MAX, reset_ms: RESET_MS };
            let Some(quota) = scheme.quota.or(acts(scheme).then_some(whole)) else { continue };
            let share =
                if acts(scheme) && all > limit { rate(scheme) * limit / all } else { limit };
            let most = share * u128::from(quota.reset_ms) / 1000;
            let bytes = quota.bytes.min(u64::try_from(most).unwrap_or(u64::MAX));
            scheme.quota = Some(Quota { bytes, ..quota });
        }
        self
    }

    /// Returns the writes that set this context up in an existing DAMON thread, in their order.
    /// Writing a count such as `nr_schemes` creates folders, so each count precedes the files in
    /// its folders. The thread's state is not among the writes.
    pub fn writes(&self, kernel: &Probed) -> Vec<Write> {
        let mut out = WriteList(vec![]);
        if kernel.refresh {
            out.add("0/refresh_ms", AGGREGATION_US / 1000);
        }
        out.add("0/contexts/nr_contexts", 1);
        let is_processes = matches!(self.monitored, MonitoredMemory::Processes(_));
        let targets = match &self.monitored {
            MonitoredMemory::Processes(pids) => pids.len(),
            MonitoredMemory::Memory(_) => 1,
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
        match &self.monitored {
            MonitoredMemory::Processes(pids) => {
                for (at, pid) in pids.iter().enumerate() {
                    out.add(format!("{CONTEXT}/targets/{at}/pid_target"), pid);
                }
            }
            MonitoredMemory::Memory(ranges) => {
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
    /// Returns the quota in bytes, rounded down to whole pages, but at least one page, because for
    /// DAMON 0 means no limit.
    fn whole_pages(self) -> u64 {
        let page = rustix::param::page_size() as u64;
        (self.bytes / page).max(1) * page
    }
}

impl Scheme {
    fn writes(&self, folder: &str, kernel: &Probed, out: &mut WriteList) {
        out.add(format!("{folder}/action"), self.action);
        match &self.to {
            Destination::Node(node) => {
                // Remove the destinations of an earlier context, which would override `target_nid`.
                if kernel.destinations {
                    out.add(format!("{folder}/dests/nr_dests"), 0);
                }
                out.add(format!("{folder}/target_nid"), node);
            }
            Destination::Weighted(nodes) => {
                out.add(format!("{folder}/dests/nr_dests"), nodes.len());
                for (at, (node, weight)) in nodes.iter().enumerate() {
                    out.add(format!("{folder}/dests/{at}/id"), node);
                    out.add(format!("{folder}/dests/{at}/weight"), weight);
                }
            }
        }
        let pattern = format!("{folder}/access_pattern");
        out.add(format!("{pattern}/sz/max"), u64::MAX);
        // No region has `u32::MAX` accesses, so without `accesses` the scheme matches no region.
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
            // Use the tuner `temporal`, which gives the whole quota until the goal is reached, and
            // 0 from then on. The tuner `consist` starts with one page and doubles the quota step
            // by step, which takes a minute to become effective.
            if kernel.tuners.iter().any(|it| it == "temporal") {
                out.add(format!("{folder}/quotas/goal_tuner"), "temporal");
            }
        }
        let is_core = |it: &&PageFilter| matches!(it, PageFilter::Addresses(_));
        let (core, ops): (Vec<_>, Vec<_>) = self.filters.iter().partition(is_core);
        if kernel.split_filters {
            filters(&format!("{folder}/core_filters"), &core, true, out);
            filters(&format!("{folder}/ops_filters"), &ops, true, out);
        } else {
            filters(&format!("{folder}/filters"), &[core, ops].concat(), false, out);
        }
    }
}

/// Adds the writes of the filters `all` in the folder `folder`.
///
/// The first filter that matches a page decides about the page. A rejecting filter rejects the
/// pages that it matches; an allowing filter (since Linux 6.14) allows them. A page that no filter
/// matches is rejected if the last filter allows, and allowed if the last filter rejects. Therefore
/// several groups are selected by an allowing filter for each of them, after all other filters. If
/// `can_allow` is false, filters only reject, and only a single group can be selected.
fn filters(folder: &str, all: &[&PageFilter], can_allow: bool, out: &mut WriteList) {
    if all.is_empty() {
        return;
    }
    let groups = |filter: &&PageFilter| match filter {
        PageFilter::OtherGroups(groups) if can_allow => Some(groups.clone()),
        _ => None,
    };
    let allowed = all.iter().find_map(groups).unwrap_or_default();
    let rejecting: Vec<&&PageFilter> = all.iter().filter(|it| groups(it).is_none()).collect();
    out.add(format!("{folder}/nr_filters"), rejecting.len() + allowed.len());
    let is_allow_list = !allowed.is_empty();
    for (at, rejected) in rejecting.iter().enumerate() {
        let filter = format!("{folder}/{at}");
        rejected.writes(&filter, out);
        if is_allow_list {
            out.add(format!("{filter}/allow"), "N");
        }
    }
    for (at, group) in allowed.iter().enumerate() {
        let filter = format!("{folder}/{}", rejecting.len() + at);
        PageFilter::Group(group.clone()).writes(&filter, out);
        out.add(format!("{filter}/allow"), "Y");
    }
}

impl PageFilter {
    /// Adds the writes for this filter in `filter`: its type, and the pages that it matches.
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

/// A list of writes to files below [`ADMIN`], the folder of DAMON's threads.
struct WriteList(Vec<Write>);

impl WriteList {
    fn add(&mut self, path: impl AsRef<str>, text: impl ToString) {
        let path = format!("{ADMIN}/{}", path.as_ref());
        self.0.push(Write { path, text: text.to_string() });
    }
}
