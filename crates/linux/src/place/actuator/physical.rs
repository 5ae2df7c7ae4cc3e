//! Keeps the pages of the whole machine, or of a control group, in the ratio of the goal's weights,
//! by DAMON's `paddr`.
//!
//! On physical memory, DAMON cannot choose a page's node by the page's address, as `vaddr` does.
//! The ratio is therefore controlled by quotas: pages move from the node with the largest excess to
//! the node with the largest deficit. [`QuotaController`] computes the quota from the measured
//! placement of anonymous memory. A quota does not select the pages that move, so the ratio holds
//! over all hot pages and not within each array.
//!
//! The actuator `paddr` also gives the kernel the quota goal `node_eligible_mem_bp` (since Linux
//! 7.2). By this goal the kernel stops the migration at the target share even if the next call of
//! the controller is late. The quota goal alone does not suffice, because the kernel's own estimate
//! lags: without the controller the ratio oscillates between 15:85 and 98:2. If the migrations that
//! the controller requests have no effect ([`Push::level`] above 0), the quota goal is omitted,
//! because the kernel may have stopped too early. The actuator `quota` is `paddr` without the quota
//! goal (since Linux 6.11).

use super::{
    Actuator, ActuatorError, ActuatorKind, ActuatorState, Goal, Scope, Setting,
    context::{Context, Destination, EligibleGoal, MonitoredMemory, PageFilter, Quota, Scheme},
    demote::Guards,
    kdamond::Kdamond,
    quota_controller::{Push, QuotaController},
    sampler::{PlacementSampler, check_nodes_online},
};
use crate::{
    machine::damon::probe::Probed,
    process::cgroup::Group,
    root::{Root, RootError},
};
use std::{collections::BTreeMap, mem, ops::Range};

/// The file that lists the zones of each node with their physical addresses.
pub const ZONEINFO: &str = "/proc/zoneinfo";

/// The length of a quota window, ms: two aggregation intervals, so that the pages migrated in one
/// window are seen in the next.
const RESET_MS: u64 = 2000;

/// The actuators `paddr` and `quota`, which migrate pages with DAMON on physical memory.
#[derive(Debug)]
pub struct Physical<'a> {
    setting: Setting<'a>,
    kdamond: Kdamond<'a>,
    has_goal: bool,
    goal: Option<Goal>,
    ranges: BTreeMap<u32, Vec<Range<u64>>>,
    sampler: PlacementSampler,
    guards: Guards,
    quota: QuotaController,
    push: Option<Push>,
}

impl<'a> Physical<'a> {
    /// Returns the actuator `quota`: quotas of [`QuotaController`], no goal in the kernel.
    pub fn quota(setting: Setting<'a>, kernel: Probed) -> Self {
        let kdamond = Kdamond::new(setting.clone(), kernel);
        Self {
            setting,
            kdamond,
            has_goal: false,
            goal: None,
            ranges: BTreeMap::new(),
            sampler: PlacementSampler::default(),
            guards: Guards::default(),
            quota: QuotaController::default(),
            push: None,
        }
    }

    /// Returns the actuator `paddr`: quotas of [`QuotaController`], and a quota goal in the kernel.
    pub fn paddr(setting: Setting<'a>, kernel: Probed) -> Self {
        Self { has_goal: true, ..Self::quota(setting, kernel) }
    }

    /// Gives DAMON a context with the schemes for `push`, which is the migration that the
    /// controller requested last, and for the demotions of `goal`.
    fn apply_goal(&mut self, goal: &Goal) -> Result<(), ActuatorError> {
        let Self { kdamond, setting, has_goal, ranges, guards, push, .. } = self;
        let inputs =
            ContextInputs { setting, has_goal: *has_goal, goal, ranges, guards, push: *push };
        // The kernel refuses a context with a control group that has been removed. `apply` then
        // builds the context again, without the group.
        kdamond.apply(&mut || Ok(Some(inputs.context()?)))
    }

    fn sample(&mut self, goal: &Goal, state: &mut ActuatorState) -> Result<(), ActuatorError> {
        let root = self.setting.root;
        // Read the statistics before the placement. In the opposite order, the placement would miss
        // pages that arrive in between, and the controller would request too many bytes.
        let stats = self.kdamond.stats_now()?;
        state.tried_bytes = Some(stats.iter().map(|it| it.tried_bytes).sum());
        state.applied_bytes = Some(stats.iter().map(|it| it.applied_bytes).sum());
        let on = self.sampler.sample_placement(&self.setting, &[])?;
        if let Some(on) = &on {
            // During the warm-up of DAMON's thread no page migrates. Reset the controller, so that
            // it does not count these samples as samples without effect.
            if !self.kdamond.is_warm() {
                self.quota = QuotaController::default();
            }
            let done = stats.first().copied().unwrap_or_default();
            self.push = self.quota.step(goal, on, done);
        }
        self.guards.update(root, goal, &mut state.notes)?;
        self.sampler.note(state, root, goal, on)
    }
}

struct ContextInputs<'w, 'a> {
    setting: &'w Setting<'a>,
    has_goal: bool,
    goal: &'w Goal,
    ranges: &'w BTreeMap<u32, Vec<Range<u64>>>,
    guards: &'w Guards,
    push: Option<Push>,
}

impl ContextInputs<'_, '_> {
    /// Returns the filters of a scheme that takes pages from the node `from`. They exclude the
    /// pages of other nodes, pages of files, protected groups, and groups outside the scope. If the
    /// control group of the scope has been removed, no filter limits the scheme to it, and the
    /// caller has to make the scheme match no region.
    fn filters(&self, from: u32) -> Result<Vec<PageFilter>, RootError> {
        let others = self.ranges.iter().filter(|(node, _)| **node != from);
        let ranges = others.flat_map(|(_, ranges)| ranges).cloned();
        let mut filters: Vec<PageFilter> = ranges.map(PageFilter::Addresses).collect();
        filters.push(PageFilter::Files);
        let root = self.setting.root;
        for scope in &self.setting.protected {
            // Filters know control groups, not process names. `choose` does not offer this actuator
            // if a protected scope is not a control group.
            let Scope::Cgroup(group) = scope else { continue };
            filters.extend(all_of(root, group)?.into_iter().map(PageFilter::Group));
        }
        if let Scope::Cgroup(group) = &self.setting.scope {
            let groups = all_of(root, group)?;
            if !groups.is_empty() {
                filters.push(PageFilter::OtherGroups(groups));
            }
        }
        Ok(filters)
    }

    /// Limits `scheme` to the pages of the scope on the node `from`. If the control group of the
    /// scope has been removed, the returned scheme matches no region: without a filter for the
    /// group, it would migrate the pages of all programs.
    fn limited(&self, scheme: Scheme, from: u32) -> Result<Scheme, RootError> {
        let filters = self.filters(from)?;
        let is_limited = filters.iter().any(|it| matches!(it, PageFilter::OtherGroups(_)));
        let has_pages = is_limited || !matches!(self.setting.scope, Scope::Cgroup(_));
        Ok(Scheme { accesses: scheme.accesses.filter(|_| has_pages), filters, ..scheme })
    }

    fn context(&self) -> Result<Context, RootError> {
        let goal = self.goal;
        let first = goal.nodes.first().map_or(0, |(node, _)| *node);
        let push = self.push;
        let shares = goal.shares().unwrap_or_default();
        let eligible = |it: &Push| EligibleGoal {
            node: it.to,
            share_bp: (shares.get(&it.to).unwrap_or(&0.0) * 10_000.0).round() as u64,
        };
        let with_goal = push.filter(|it| self.has_goal && it.level == 0 && it.is_hot);
        let mover = Scheme {
            action: if push.is_none_or(|it| it.is_hot) { "migrate_hot" } else { "migrate_cold" },
            to: Destination::Node(push.map_or(first, |it| it.to)),
            accesses: push.map(|it| it.accesses),
            age_min: push.map_or(0, |it| it.age_min),
            quota: push.map(|it| Quota { bytes: it.bytes, reset_ms: RESET_MS }),
            goal: with_goal.as_ref().map(eligible),
            filters: vec![],
        };
        let mut monitored: Vec<Range<u64>> = self.ranges.values().flatten().cloned().collect();
        monitored.sort_by_key(|range| range.start);
        let mut schemes = vec![self.limited(mover, push.map_or(first, |it| it.from))?];
        for (from, demotion) in self.guards.schemes(goal) {
            schemes.push(self.limited(demotion, from)?);
        }
        let context = Context { monitored: MonitoredMemory::Memory(monitored), schemes };
        Ok(context.limit_rate(goal.rate_limit_bytes_per_s))
    }
}

impl Actuator for Physical<'_> {
    fn kind(&self) -> ActuatorKind {
        if self.has_goal { ActuatorKind::Paddr } else { ActuatorKind::Quota }
    }

    fn describe(&self) -> String {
        let goal = if self.has_goal { " below a goal of the kernel's own" } else { "" };
        format!(
            "DAMON watches physical memory, and moves hot pages to the node that lacks most: a \
             part of what is missing at a time{goal}, nothing within a point of it"
        )
    }

    fn set(&mut self, goal: &Goal) -> Result<(), ActuatorError> {
        goal.shares()?;
        if let Scope::Cgroup(group) = &self.setting.scope
            && !self.kdamond.kernel().split_filters
            && !group.descendants(self.setting.root)?.is_empty()
        {
            return Err(ActuatorError::None(format!(
                "DAMON of this kernel tells one group from others (more since 6.15), and there are \
                 some below {}: move by pages, or quota one of them",
                group.name
            )));
        }
        let mut ranges = memory(self.setting.root)?;
        ranges.retain(|node, _| goal.nodes.iter().any(|(it, _)| it == node));
        if ranges.is_empty() {
            let why = "it has the physical addresses of the nodes";
            return Err(ActuatorError::Absent { path: ZONEINFO.into(), why });
        }
        let before =
            (mem::replace(&mut self.ranges, ranges), mem::take(&mut self.quota), self.push.take());
        self.sampler.restart();
        let sampled = self.sample(goal, &mut ActuatorState::default());
        let done = sampled.and_then(|()| self.apply_goal(goal));
        match done {
            Ok(()) => self.goal = Some(goal.clone()),
            Err(_) => (self.ranges, self.quota, self.push) = before,
        }
        done
    }

    fn update(&mut self) -> Result<ActuatorState, ActuatorError> {
        let mut state = ActuatorState::default();
        let Some(goal) = self.goal.clone() else { return Ok(state) };
        check_nodes_online(self.setting.root, &goal)?;
        self.sample(&goal, &mut state)?;
        self.kdamond.note_balancer(&mut state.notes)?;
        self.apply_goal(&goal)?;
        state.demotes = self.guards.demotes();
        Ok(state)
    }
}

/// Returns the names of a control group and of its descendants. Each of them needs its own filter,
/// because a filter matches a single group without its descendants. Groups that do not exist are
/// left out, because the kernel refuses their names.
fn all_of(root: &Root, group: &Group) -> Result<Vec<String>, RootError> {
    let groups = [group.clone()].into_iter().chain(group.descendants(root)?);
    Ok(groups.filter(|group| group.exists(root)).map(|group| group.name).collect())
}

/// Reads the physical addresses of each node's memory: its zones, with adjacent zones joined.
///
/// # Errors
/// When the file cannot be read.
pub fn memory(root: &Root) -> Result<BTreeMap<u32, Vec<Range<u64>>>, RootError> {
    let text = root.text(ZONEINFO)?.unwrap_or_default();
    Ok(zones(&text, rustix::param::page_size() as u64))
}

fn zones(text: &str, page_bytes: u64) -> BTreeMap<u32, Vec<Range<u64>>> {
    let mut found: BTreeMap<u32, Vec<Range<u64>>> = BTreeMap::new();
    let (mut node, mut spanned, mut present) = (None, 0, 0);
    for line in text.lines() {
        let mut words = line.split_whitespace();
        let (name, value) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        match name {
            "Node" => {
                node = value.trim_end_matches(',').parse::<u32>().ok();
                (spanned, present) = (0, 0);
            }
            "spanned" => spanned = value.parse::<u64>().unwrap_or(0),
            "present" => present = value.parse::<u64>().unwrap_or(0),
            "start_pfn:" => {
                let (Some(node), Ok(first)) = (node, value.parse::<u64>()) else { continue };
                if present > 0 {
                    let end = (first + spanned) * page_bytes;
                    found.entry(node).or_default().push(first * page_bytes..end);
                }
            }
            _ => {}
        }
    }
    for ranges in found.values_mut() {
        ranges.sort_by_key(|range| range.start);
        ranges.dedup_by(|next, range| {
            let touches = next.start <= range.end;
            if touches {
                range.end = range.end.max(next.end);
            }
            touches
        });
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
Node 0, zone      DMA
  pages free     3840
        spanned  4095
        present  3998
  start_pfn:           1
Node 0, zone    DMA32
        spanned  126976
        present  126976
  start_pfn:           4096
Node 0, zone  Movable
        spanned  0
        present  0
Node 1, zone   Normal
        spanned  131072
        present  131072
  start_pfn:           131072
";

    #[test]
    fn zones_are_joined() {
        let pages = |first: u64, end: u64| first * 4096..end * 4096;
        let expected =
            [(0, vec![pages(1, 131_072)]), (1, vec![pages(131_072, 262_144)])].into_iter();
        let expected: BTreeMap<_, _> = expected.collect();
        assert_eq!(zones(TEXT, 4096), expected);
    }
}
