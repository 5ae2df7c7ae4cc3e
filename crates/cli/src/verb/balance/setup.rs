//! What the daemon works with: the machine as the loop sees it, what moves its pages, and what
//! counts.

use super::config::{Config, Scope as Wanted, SourceChoice, WantedWay};
use crate::{failure::Failure, library, verb::unread};
use interleaf_linux::{
    actuator::{Actuator, Goal, Scope, Setting, SharedJournal, Way, choose},
    cgroup::Trees,
    counters::{Counters, plan::plan},
    damon::probe::{ProbeError, Probed, probe},
    feed::Feed,
    layout::HostLayout,
    replay::Replay,
    root::Root,
    source::Source,
    topology::Machine,
};
use interleaf_model::{
    control::{Controller, Settings},
    machine::{Order, ScopeKind, ScopeLayout, Target},
    platform::Platform,
    policy::{Place, PolicyKind},
    rated,
};

/// The part of a scope's pages that may migrate in a sample that is judged, 0 to 1. A step of the
/// policies is 0.02 at least.
const PLACEMENT_FLOOR: f64 = 0.005;

/// What is known before anything is changed.
pub(super) struct Setup {
    machine: Machine,
    pub(super) host: HostLayout,
    scope: Scope,
    /// What DAMON takes; `None` where it cannot be asked.
    kernel: Option<Probed>,
    /// Why it cannot.
    unasked: Option<String>,
    /// The platform that policies believe in.
    believed: Platform,
}

impl Setup {
    /// Reads the machine, and asks DAMON what it takes. On a captured machine, which cannot be
    /// asked, it takes what its release has by `docs/kernels.md`.
    pub(super) fn read(config: &Config, root: &Root) -> Result<Self, Failure> {
        let machine = Machine::read(root).map_err(unread)?;
        let mut host = HostLayout::new(&machine).map_err(|why| {
            Failure::new(
                why.to_string(),
                "`interleaf doctor` says how an expander becomes a node; `interleaf simulate \
                 machine --platform NAME --policy dmi` shows the daemon's loop without one",
            )
        })?;
        let scope = scope(config, root)?;
        host.layout.scopes = vec![ScopeLayout {
            name: scope_name(&config.scope),
            kind: kind(&config.scope),
            domain: domain(&scope, &host, root)?,
            steered: true,
        }];
        let asked = if root.is_live() { probe(root) } else { Err(ProbeError::Captured) };
        let (kernel, unasked) = match asked {
            Ok(kernel) => (Some(kernel), None),
            Err(ProbeError::Captured) => {
                let release = machine.kernel.as_deref().unwrap_or_default();
                (machine.damon.as_ref().and_then(|_| Probed::of_release(release)), None)
            }
            Err(why) => (None, Some(why.to_string())),
        };
        let believed = match &config.platform {
            None => rated::platform(&host.layout),
            Some(name) => {
                let platform = library::platform(name)?;
                let (has, wants) = (platform.tiers.len(), host.nodes.len());
                if has != wants {
                    return Err(Failure::new(
                        format!("{name} has {has} tiers, and this machine {wants} memory nodes"),
                        "name a platform like this machine, or leave platform out",
                    ));
                }
                platform
            }
        };
        Ok(Self { machine, host, scope, kernel, unasked, believed })
    }

    pub(super) fn scopes(&self) -> &[ScopeLayout] {
        &self.host.layout.scopes
    }

    /// What counts the traffic.
    pub(super) fn source(&self, config: &Config, root: &Root) -> Result<Box<dyn Source>, Failure> {
        let layout = &self.host.layout;
        let (domains, tiers) = (layout.domains.len(), layout.tiers.len());
        Ok(match &config.source {
            SourceChoice::Counters => {
                let planned = plan(root, &self.machine, layout)
                    .map_err(|why| Failure::new(why.to_string(), why.remedy()))?;
                let counters = Counters::open(planned, root)
                    .map_err(|why| Failure::new(why.to_string(), why.remedy()))?;
                Box::new(counters)
            }
            SourceChoice::Feed(path) => {
                let feed = Feed::listen(path, domains, tiers).map_err(|why| {
                    let hint = "name another path, or stop who listens there";
                    Failure::new(why.to_string(), hint)
                })?;
                Box::new(feed)
            }
            SourceChoice::Replay(path) => {
                let replay = Replay::open(path).map_err(|why| {
                    Failure::new(why.to_string(), "docs/counters.md says what a recording has")
                })?;
                if (replay.domains(), replay.tiers()) != (domains, tiers) {
                    return Err(Failure::new(
                        format!(
                            "{} has {} domains and {} tiers, this machine {domains} and {tiers}",
                            path.display(),
                            replay.domains(),
                            replay.tiers()
                        ),
                        "replay a recording of this machine",
                    ));
                }
                Box::new(replay)
            }
        })
    }

    /// What moves the pages of each scope.
    pub(super) fn actuators<'a>(
        &self,
        config: &Config,
        root: &'a Root,
        journal: &SharedJournal<'a>,
    ) -> Result<Vec<Option<Box<dyn Actuator + 'a>>>, Failure> {
        let order = match config.policy {
            PolicyKind::HotCold => Order::HottestFirst,
            _ => Order::Interleave,
        };
        let ranked = choose(self.kernel.as_ref(), &self.scope, order);
        let wanted = match config.way {
            WantedWay::Auto => None,
            WantedWay::Way(way) => Some(way),
        };
        let found = ranked.there.iter().find(|choice| wanted.is_none_or(|way| way == choice.way));
        let Some(choice) = found else {
            let missing = ranked.missing.iter().filter(|it| wanted.is_none_or(|way| way == it.way));
            let why: Vec<String> = missing.map(ToString::to_string).collect();
            let unasked = self.unasked.iter().cloned();
            return Err(Failure::new(
                format!("pages cannot be moved so: {}", why.join("; ")),
                unasked
                    .chain(["write way = \"auto\" for the best there is".into()])
                    .collect::<Vec<_>>()
                    .join("; "),
            ));
        };
        let sockets = self.host.layout.domains.len();
        if choice.way == Way::Pages && self.scope == Scope::Machine && sockets > 1 {
            return Err(Failure::new(
                format!(
                    "this machine has {sockets} sockets with memory of their own, and move_pages \
                     would bring all pages to one of them"
                ),
                "name processes or a control group that belong to one socket",
            ));
        }
        let nothing = Probed::default();
        let kernel = self.kernel.as_ref().unwrap_or(&nothing);
        let build = |_: &ScopeLayout| {
            let setting = Setting {
                root,
                journal: journal.clone(),
                scope: self.scope.clone(),
                leave: config.stop_rivals,
            };
            Some(choice.way.build(setting, kernel))
        };
        Ok(self.scopes().iter().map(build).collect())
    }

    /// The loop with its policies.
    pub(super) fn controller(&self, config: &Config) -> Result<Controller, Failure> {
        let layout = &self.host.layout;
        let settings = Settings {
            sample: config.sample,
            period: config.period,
            placement_floor: Some(PLACEMENT_FLOOR),
            rate_limit_gbps: Some(config.rate_limit.gbps()),
            ..Settings::default()
        };
        let fixed: Vec<f64> = match &config.weights {
            None => vec![],
            Some(weights) => {
                let names: Vec<&str> = layout.tiers.iter().map(|tier| tier.name.as_str()).collect();
                let weights = weights.clone().for_tiers(&names);
                let hint = "give one weight for each memory node, the fastest first";
                weights.map_err(|why| Failure::new(why.to_string(), hint))?.shares()
            }
        };
        Ok(Controller::new(layout, settings, |domain, tiers| {
            let near = &layout.domains[domain].tiers;
            let fixed: Vec<f64> = near.iter().filter_map(|at| fixed.get(*at).copied()).collect();
            config.policy.make(&Place {
                domain,
                near,
                tiers,
                believed: &self.believed,
                fixed: &fixed,
            })
        }))
    }

    /// What the actuator of a scope is told for shares of all tiers.
    pub(super) fn goal(&self, config: &Config, scope: usize, shares: Vec<f64>) -> Goal {
        let target = Target {
            scope,
            shares,
            order: Order::Interleave,
            rate_limit_gbps: Some(config.rate_limit.gbps()),
        };
        self.host.goal(&target)
    }

    /// What it works with, in a few lines.
    pub(super) fn words(
        &self,
        actuators: &[Option<Box<dyn Actuator + '_>>],
        source: String,
    ) -> Vec<String> {
        let domains = self.host.layout.domains.iter().map(|domain| {
            let nodes = domain.tiers.iter().map(|at| self.host.nodes[*at].to_string());
            format!("{}: nodes {}", domain.name, nodes.collect::<Vec<_>>().join(", "))
        });
        let mut lines = vec![domains.collect::<Vec<_>>().join("; ")];
        let ways = actuators.iter().map(|actuator| match actuator {
            Some(actuator) => format!("pages move by {}: {}", actuator.name(), actuator.describe()),
            None => "no page is moved: this only says what would be done".into(),
        });
        lines.extend(ways);
        if self.host.layout.domains.len() > 1 {
            let domain = &self.host.layout.domains[self.scopes()[0].domain].name;
            lines.push(format!(
                "most of its memory is near {domain}, and only the nodes of {domain} get pages"
            ));
        }
        lines.push(format!("counted by: {source}"));
        if !self.host.unrated.is_empty() {
            lines.push(format!(
                "the firmware does not rate the bandwidth of nodes {}: all count as alike",
                self.host.unrated
            ));
        }
        lines
    }
}

fn kind(scope: &Wanted) -> ScopeKind {
    match scope {
        Wanted::Machine => ScopeKind::Machine,
        Wanted::Cgroup(_) => ScopeKind::Cgroup,
        Wanted::Processes(_) => ScopeKind::Process,
    }
}

fn scope_name(scope: &Wanted) -> String {
    match scope {
        Wanted::Machine => "machine".into(),
        Wanted::Cgroup(name) => name.clone(),
        Wanted::Processes(names) => names.join(","),
    }
}

/// The domain that most of a scope's memory is near: its threads are likely to run there.
fn domain(scope: &Scope, host: &HostLayout, root: &Root) -> Result<usize, Failure> {
    let domains = &host.layout.domains;
    if domains.len() < 2 {
        return Ok(0);
    }
    let processes = scope.processes(root).map_err(unread)?;
    let on = scope.placement(root, &processes).map_err(unread)?.unwrap_or_default();
    let bytes = |domain: usize| -> u64 {
        domains[domain].tiers.iter().map(|tier| on.on(host.nodes[*tier])).sum()
    };
    // The first of those that have as much.
    Ok((0..domains.len()).rev().max_by_key(|domain| bytes(*domain)).unwrap_or(0))
}

/// Whose pages are steered.
fn scope(config: &Config, root: &Root) -> Result<Scope, Failure> {
    Ok(match &config.scope {
        Wanted::Machine => Scope::Machine,
        Wanted::Processes(names) => Scope::Named(names.clone()),
        Wanted::Cgroup(name) => {
            let trees = Trees::read(root).map_err(unread)?;
            let tree = trees.and_then(|trees| trees.memory).ok_or_else(|| {
                Failure::new(
                    "no control groups with memory are mounted",
                    "mount cgroup2 at /sys/fs/cgroup, or name processes",
                )
            })?;
            let group = tree.group(name);
            if !group.is_there(root) {
                return Err(Failure::new(
                    format!("{}: there is no such control group", group.folder()),
                    "name one below the hierarchy's root, as /proc/PID/cgroup shows it",
                ));
            }
            Scope::Cgroup(group)
        }
    })
}
