//! The setup of the daemon: the machine's layout, the actuators, and the source of bandwidth
//! figures (counters, a feed or a recording).

use crate::config::{Config, Scope as Wanted, SourceChoice, WantedActuator};
use interleaf_console::{Failure, system};
use interleaf_linux::{
    launch::unix_socket::{self, Access},
    machine::{
        damon::{
            self,
            probe::{ProbeError, Probed, probe},
        },
        node::Node,
        topology::Machine,
    },
    place::{
        actuator::{
            Actuator, ActuatorError, Choice, Goal, Scope, Setting, SharedJournal,
            choose::{ActuatorKind, Ranked, choose},
            multi_socket::divide,
        },
        journal::{self, Claim},
        layout::HostLayout,
    },
    process::{
        Process, Snapshot,
        cgroup::{Group, Trees},
        numa_maps::NodeBytes,
    },
    root::Root,
    stop_flag::StopFlag,
};
use interleaf_model::{
    control::{Controller, Settings},
    machine::{Order, ScopeKind, ScopeLayout, Target},
    platform::Platform,
    policy::{PolicyContext, PolicyKind},
    rated,
    weights::Weights,
};
use interleaf_observe::{
    counters::{Counters, plan::plan, table::tables},
    feed::Feed,
    replay::Replay,
    source::{Source, Uncounted},
};
use interleaf_policy_process::PolicyProcesses;
use interleaf_record::{
    balance::{
        ActuatorName, BalanceDomain, BalancePlanDocument, NodePoints, PLAN_SCHEMA, PointsDocument,
        SourceDocument, SourceKind,
    },
    warning::Warning,
};

/// A hint for users whose machine has no counters or no expander.
const SIMULATED: &str = "`interleaf balance --platform gnr120-cz122` shows the same loop on a \
                         simulated machine";

/// The policies decide by quiet samples. A sample is not quiet if more than this fraction (0 to 1)
/// of the steered pages migrates in it (`Settings::placement_floor`): its counters do not show the
/// effect of the new placement yet. The value is a quarter of 0.02, the smallest step of the
/// default policy `dmi`.
const PLACEMENT_FLOOR: f64 = 0.005;

/// The machine before the daemon changes a setting, and the scope and the platform that the
/// configuration names.
pub(super) struct Setup {
    machine: Machine,
    pub(super) host: HostLayout,
    pub(super) scope: Scope,
    protected: Vec<Scope>,
    /// The features of the kernel's DAMON; `None` if they are unknown or the kernel has no DAMON.
    kernel: Option<Probed>,
    /// The reason why DAMON could not be probed on the live machine. `None` if it was probed, and
    /// for a captured machine (a copy of a machine's files).
    probe_failure: Option<String>,
    /// The platform (the description of a server) whose latency-bandwidth curves the policies take
    /// as those of this machine.
    pub(super) believed: Platform,
}

impl Setup {
    /// Reads the machine and probes the features of DAMON. A captured machine (a copy of a
    /// machine's files) cannot be probed: its features follow from the kernel release
    /// (`docs/kernels.md`).
    pub(super) fn read(config: &Config, root: &Root) -> Result<Self, Failure> {
        let machine = Machine::read(root).map_err(system::read_failure)?;
        let mut host = HostLayout::new(&machine).map_err(|why| {
            Failure::new(
                why.to_string(),
                format!("`interleaf doctor` says how an expander becomes a node; {SIMULATED}"),
            )
        })?;
        if host.layout.domains.iter().all(|domain| domain.tiers.len() < 2) {
            return Err(Failure::new(
                "each socket has one memory node near it: there is nothing to steer",
                format!("`interleaf doctor` says how an expander becomes a node; {SIMULATED}"),
            ));
        }
        let scope = scope(config, root)?;
        let protected = protected(config, root)?;
        host.layout.scopes = (0..host.layout.domains.len())
            .map(|domain| ScopeLayout {
                name: scope_name(&config.scope),
                kind: kind(&config.scope),
                domain,
                steered: true,
            })
            .collect();
        let probed = if root.is_live() { probe(root) } else { Err(ProbeError::Captured) };
        let (kernel, probe_failure) = match probed {
            Ok(kernel) => (Some(kernel), None),
            Err(ProbeError::Captured) => {
                let release = machine.kernel.as_deref().unwrap_or_default();
                (machine.damon.as_ref().and_then(|_| Probed::of_release(release)), None)
            }
            Err(why) => (None, Some(probe_text(root, &why))),
        };
        let believed = match &config.platform {
            None => rated::platform(&host.layout),
            Some(name) => {
                let platform = interleaf_catalog::platform(name)?;
                let (has, wants) = (platform.tiers.len(), host.nodes.len());
                if has != wants {
                    return Err(Failure::new(
                        format!("{name} has {has} tiers, and this machine {wants} memory nodes"),
                        "name a platform like this machine, or leave it out (--curves, or platform \
                         in the configuration)",
                    ));
                }
                platform
            }
        };
        Ok(Self { machine, host, scope, protected, kernel, probe_failure, believed })
    }

    pub(super) fn scopes(&self) -> &[ScopeLayout] {
        &self.host.layout.scopes
    }

    /// Opens the source of bandwidth figures (counters, a feed or a recording) that the
    /// configuration names.
    pub(super) fn source(&self, config: &Config, root: &Root) -> Result<Box<dyn Source>, Failure> {
        let layout = &self.host.layout;
        let (domains, tiers) = (layout.domains.len(), layout.tiers.len());
        Ok(match &config.source {
            SourceChoice::Counters => {
                let opened = plan(root, &self.machine, layout)
                    .map_err(|why| counter_failure(&why, &why.hint()))
                    .and_then(|planned| {
                        Counters::open(planned, root)
                            .map_err(|why| counter_failure(&why, why.hint()))
                    });
                match opened {
                    Ok(counters) => Box::new(counters),
                    // A policy that decides without figures of bandwidth needs no counters.
                    Err(_) if decides_blindly(config.policy) => {
                        Box::new(Uncounted::new(domains, tiers))
                    }
                    Err(why) => return Err(why),
                }
            }
            SourceChoice::Feed(path) => {
                let access = Access { group: feed_group(config, root)? };
                let feed = Feed::listen(path, access, domains, tiers).map_err(|why| {
                    let hint = "name another path, or stop the program that listens there";
                    Failure::new(why.to_string(), hint)
                })?;
                Box::new(feed)
            }
            SourceChoice::Replay(path) => {
                let replay = Replay::open(path).map_err(|why| {
                    Failure::new(why.to_string(), "docs/counters.md has the format of a recording")
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

    /// Describes the source of bandwidth figures without opening it.
    pub(super) fn counted(&self, config: &Config, root: &Root) -> SourceDocument {
        let available = |kind: SourceKind, what: String| SourceDocument {
            kind,
            is_there: true,
            what,
            remedy: None,
        };
        match &config.source {
            SourceChoice::Feed(path) => available(
                SourceKind::Feed,
                format!("traffic that programs write to the socket {}", path.display()),
            ),
            SourceChoice::Replay(path) => {
                available(SourceKind::Replay, format!("the recording {}", path.display()))
            }
            SourceChoice::Counters => match plan(root, &self.machine, &self.host.layout) {
                Ok(plan) => {
                    let missing = plan.missing.iter().map(|what| format!("; not counted: {what}"));
                    let (count, tables) = (plan.events.len(), plan.tables.join(" and "));
                    let missing: String = missing.collect();
                    available(
                        SourceKind::Counters,
                        format!("{count} events by the table of {tables}{missing}"),
                    )
                }
                Err(why) => SourceDocument {
                    kind: SourceKind::Counters,
                    is_there: false,
                    what: why.to_string(),
                    remedy: Some(instead(&why.hint())),
                },
            },
        }
    }

    /// Chooses the actuator that the configuration requests. For `auto`, this is the best actuator
    /// that the machine supports.
    pub(super) fn choice(&self, config: &Config) -> Result<Choice, Failure> {
        let ranked = choose(self.kernel.as_ref(), &self.scope, &self.protected, order(config));
        let wanted = match config.actuator {
            WantedActuator::Auto => None,
            WantedActuator::Kind(kind) => Some(kind),
        };
        let is_it = |choice: &Choice| wanted.is_none_or(|kind| kind == choice.kind);
        let Ranked { available, missing } = ranked;
        let Some(choice) = available.into_iter().find(&is_it) else {
            let missing = missing.iter().filter(|it| is_it(it));
            let why: Vec<String> = missing.map(ToString::to_string).collect();
            let absent = self.machine.damon.is_none().then(|| {
                "this kernel has no DAMON: boot one from 6.11 with CONFIG_DAMON_SYSFS, or let \
                 move_pages do it, --way pages"
                    .to_string()
            });
            let probe_failure = absent.into_iter().chain(self.probe_failure.iter().cloned());
            return Err(Failure::new(
                format!("pages cannot be moved so: {}", why.join("; ")),
                probe_failure
                    .chain(["write way = \"auto\" for the best there is".into()])
                    .collect::<Vec<_>>()
                    .join("; "),
            ));
        };
        Ok(choice)
    }

    /// Returns a message if another program or a kernel module uses DAMON, and the actuator `kind`
    /// needs it. The daemon cannot start then.
    pub(super) fn damon_holder(&self, config: &Config, kind: ActuatorKind) -> Option<String> {
        let damon = self.machine.damon.as_ref().filter(|_| kind != ActuatorKind::Pages)?;
        if !damon.kdamonds.is_empty() {
            return Some(format!(
                "another program has set up {} DAMON thread(s): the daemon does not start before \
                 they are removed",
                damon.kdamonds.len()
            ));
        }
        let module = damon.modules.first().filter(|_| !config.stop_rivals)?;
        Some(format!("the kernel's {module} holds DAMON: the daemon needs --stop-rivals"))
    }

    /// Returns the bytes of the steered, unprotected pages on each node; `None` if the pages cannot
    /// be counted.
    pub(super) fn placement(&self, root: &Root) -> Result<Option<NodeBytes>, Failure> {
        let (scope, protected, stop) = (&self.scope, &self.protected, StopFlag::default());
        scope
            .processes_without(protected, &Snapshot::new(root, &stop))
            .and_then(|processes| scope.placement_without(protected, root, &processes, &stop))
            .map_err(system::read_failure)
    }

    /// Makes the actuator of each scope. Before that, claims the pages of the scopes in the
    /// journal, so that no other process steers them. If `stop` is set, a scan by an actuator ends
    /// early.
    pub(super) fn actuators<'a>(
        &self,
        config: &Config,
        root: &'a Root,
        journal: &SharedJournal<'a>,
        stop: StopFlag,
    ) -> Result<Vec<Option<Box<dyn Actuator + 'a>>>, Failure> {
        let choice = self.choice(config)?;
        let claim = Claim::new(&self.scope, &self.protected);
        journal.borrow_mut().claim(claim).map_err(system::journal_failure)?;
        let nothing = Probed::default();
        let kernel = self.kernel.as_ref().unwrap_or(&nothing);
        let setting = Setting {
            root,
            journal: journal.clone(),
            scope: self.scope.clone(),
            protected: self.protected.clone(),
            leave: config.stop_rivals,
            stop,
        };
        let whole = choice.kind.build(setting.clone(), kernel);
        let near = self.domains().into_iter().map(|domain| domain.nodes).collect();
        Ok(divide(whole, setting, &self.host.nodes, near).into_iter().map(Some).collect())
    }

    /// Makes the controller, with a policy for each domain (socket). If `processes` is given, the
    /// user's own policy runs in these processes; with `None`, the configuration names the policy.
    pub(super) fn controller(
        &self,
        config: &Config,
        processes: Option<&PolicyProcesses>,
    ) -> Result<Controller, Failure> {
        let layout = &self.host.layout;
        let settings = Settings { placement_floor: Some(PLACEMENT_FLOOR), ..settings(config) };
        let names: Vec<&str> = layout.tiers.iter().map(|tier| tier.name.as_str()).collect();
        let fixed = config.fixed_shares(&names)?.unwrap_or_default();
        let controller = Controller::new(layout, settings, |domain, tiers| {
            if let Some(processes) = processes {
                return processes.policy(domain, tiers);
            }
            let near = &layout.domains[domain].tiers;
            let fixed: Vec<f64> = near.iter().filter_map(|at| fixed.get(*at).copied()).collect();
            config.policy.make(&PolicyContext {
                domain,
                near,
                tiers,
                believed: &self.believed,
                fixed: &fixed,
            })
        });
        let failure = processes.and_then(PolicyProcesses::failure);
        failure.map_or(Ok(controller), |why| Err(Failure::new(why.to_string(), why.hint())))
    }

    /// Returns the target of a scope, which consists of `shares`, the order in which the policy
    /// assigns pages to tiers, and the highest migration rate of the configuration.
    pub(super) fn target(&self, config: &Config, scope: usize, shares: Vec<f64>) -> Target {
        Target {
            scope,
            shares,
            order: order(config),
            rate_limit_gbps: Some(config.rate_limit.gbps()),
        }
    }

    /// Returns the goal (target placement) of the actuator of a scope for the target shares
    /// `shares`.
    pub(super) fn goal(&self, config: &Config, scope: usize, shares: Vec<f64>) -> Goal {
        self.host.goal(&self.target(config, scope, shares))
    }

    /// Returns the initial shares of the tiers for each scope (steered processes), before any
    /// observation. A scope has one share for each tier of the machine.
    pub(super) fn start(
        &self,
        config: &Config,
        processes: Option<&PolicyProcesses>,
    ) -> Result<Vec<Vec<f64>>, Failure> {
        let controller = self.controller(config, processes)?;
        let start = |scope: &ScopeLayout| controller.start(scope.domain, self.host.nodes.len());
        Ok(self.scopes().iter().map(start).collect())
    }

    /// Returns shares for a dry run to show as an example of a later decision. A dry run observes
    /// no traffic, so the policies cannot decide. The shares of the tiers of a domain (socket) are
    /// in proportion to their rated bandwidths.
    pub(super) fn by_rating(&self) -> Vec<Vec<f64>> {
        let layout = &self.host.layout;
        self.scopes().iter().map(|scope| rated::shares(layout, scope.domain)).collect()
    }

    /// Returns, for each scope (steered processes), the percentage of its pages that `shares`
    /// assigns to each node of the scope's domain (socket).
    pub(super) fn points(&self, shares: &[Vec<f64>]) -> Vec<PointsDocument> {
        let scopes = self.scopes().iter().zip(shares);
        let points = scopes.map(|(scope, shares)| {
            let domain = &self.host.layout.domains[scope.domain];
            let points = Weights::percent(shares);
            let node = |at: &usize| NodePoints {
                node: self.host.nodes[*at],
                points: points.as_slice()[*at],
            };
            PointsDocument {
                domain: domain.name.clone(),
                nodes: domain.tiers.iter().map(node).collect(),
            }
        });
        points.collect()
    }

    /// Returns the JSON document of a dry run. Its fields `start`, `writes`, `next` and
    /// `next_writes` are empty; the caller fills them.
    pub(super) fn plan(
        &self,
        config: &Config,
        actuators: &[Option<Box<dyn Actuator + '_>>],
        root: &Root,
    ) -> Result<BalancePlanDocument, Failure> {
        let actuator = actuators.iter().flatten().next();
        let name = actuator.map_or(ActuatorName::None, |actuator| actuator.kind().into());
        let ranked = choose(self.kernel.as_ref(), &self.scope, &self.protected, order(config));
        let processes = match &self.scope {
            Scope::Machine => None,
            _ => Some(self.scope.processes(root).map_err(system::read_failure)?),
        };
        let numbers = |all: Vec<Process>| all.iter().map(|process| process.pid).collect();
        Ok(BalancePlanDocument {
            schema: PLAN_SCHEMA.into(),
            domains: self.domains(),
            scope: scope_name(&config.scope),
            processes: processes.map(numbers),
            policy: config.policy.to_string(),
            way: name,
            way_description: actuator.map_or(String::new(), |actuator| actuator.describe()),
            ways_missing: ranked.missing.iter().map(ToString::to_string).collect(),
            source: self.counted(config, root),
            notes: self.notes(config),
            start: vec![],
            writes: vec![],
            next: vec![],
            next_writes: vec![],
        })
    }

    fn domains(&self) -> Vec<BalanceDomain> {
        let domains = self.host.layout.domains.iter();
        let nodes = |tiers: &[usize]| tiers.iter().map(|at| self.host.nodes[*at]).collect();
        domains
            .map(|domain| BalanceDomain { name: domain.name.clone(), nodes: nodes(&domain.tiers) })
            .collect()
    }

    /// Returns a warning about implausible figures of the firmware, which count as unrated; `None`
    /// if there are none.
    pub(super) fn ignored_ratings(&self) -> Option<Warning> {
        let of_node = |node: &Node| {
            let figures = node.rated.as_ref().filter(|rated| !rated.implausible.is_empty())?;
            Some(format!("node {}: {}", node.id, figures.implausible.join(", ")))
        };
        let figures: Vec<String> = self.machine.nodes.iter().filter_map(of_node).collect();
        (!figures.is_empty()).then(|| Warning::ImplausibleRatings { figures: figures.join("; ") })
    }

    /// Returns the warnings about the setup.
    fn notes(&self, config: &Config) -> Vec<String> {
        let unrated = &self.host.unrated;
        let balances = self.machine.sysctls.numa_balancing.is_some_and(|value| value > 0);
        let notes = [
            self.ignored_ratings(),
            (!unrated.is_empty()).then(|| Warning::UnratedNodes { nodes: unrated.to_string() }),
            (balances && !config.stop_rivals)
                .then_some(Warning::NumaBalancing { has_stop_rivals: true }),
        ];
        notes.into_iter().flatten().map(|warning| warning.to_string()).collect()
    }

    /// Describes the setup in a few lines.
    pub(super) fn words(
        &self,
        config: &Config,
        actuators: &[Option<Box<dyn Actuator + '_>>],
        source: String,
    ) -> Vec<String> {
        let domains = self.domains().into_iter().map(|domain| {
            let nodes: Vec<String> = domain.nodes.iter().map(u32::to_string).collect();
            format!("{}: nodes {}", domain.name, nodes.join(", "))
        });
        let mut lines = vec![domains.collect::<Vec<_>>().join("; ")];
        // Describe only the first actuator, because the actuators of all scopes are of the same
        // kind.
        let ways = actuators.iter().take(1).map(|actuator| match actuator {
            Some(actuator) => {
                format!("pages move by {}: {}", actuator.kind().name(), actuator.describe())
            }
            None => "advice only: no page is moved".into(),
        });
        lines.extend(ways);
        lines.extend(
            self.probe_failure
                .iter()
                .filter(|_| !actuators.is_empty())
                .map(|why| format!("DAMON is not used: {why}")),
        );
        if !self.protected.is_empty() {
            let whose: Vec<String> = self.protected.iter().map(ToString::to_string).collect();
            lines.push(format!("left alone: {}", whose.join(", ")));
        }
        lines.push(format!("counted by: {source}"));
        lines.extend(self.notes(config));
        lines
    }
}

/// Returns the timing and the rate limit of the control loop.
pub(super) fn settings(config: &Config) -> Settings {
    Settings {
        sample: config.sample,
        period: config.period,
        rate_limit_gbps: Some(config.rate_limit.gbps()),
        ..Settings::default()
    }
}

/// Returns the order in which the policy assigns pages to tiers: by hotness, or interleaved.
fn order(config: &Config) -> Order {
    match config.policy {
        PolicyKind::HotCold => Order::HottestFirst,
        _ => Order::Interleave,
    }
}

pub(super) fn actuator_failure(why: &ActuatorError) -> Failure {
    Failure::new(why.to_string(), why.hint())
}

fn counter_failure(why: &impl ToString, remedy: &str) -> Failure {
    Failure::new(why.to_string(), instead(remedy))
}

/// Returns `remedy`, followed by the alternatives to counters: a feed, a recording or a simulated
/// machine.
fn instead(remedy: &str) -> String {
    let tables = tables().into_iter().filter(|table| !table.cpus.is_empty());
    let known: Vec<String> = tables.map(|table| table.name).collect();
    format!(
        "{remedy}; there are tables of {}; --feed SOCKET takes the counts of a program, --replay \
         FILE those of a recording; {SIMULATED}",
        known.join(", ")
    )
}

/// Describes why DAMON could not be probed, with a remedy if one is known.
fn probe_text(root: &Root, why: &ProbeError) -> String {
    if !matches!(why, ProbeError::Held(_)) {
        return why.to_string();
    }
    match journal::holder(root, damon::COUNT) {
        Ok(Some(pid)) => {
            format!("process {pid} of interleaf has DAMON already: let one do all (kill {pid})")
        }
        _ => format!("{why}: stop the program that uses DAMON (for damo: damo stop)"),
    }
}

/// Returns the ID of the group whose members may write to the feed; `None` if the configuration
/// names none.
fn feed_group(config: &Config, root: &Root) -> Result<Option<u32>, Failure> {
    let group = config.feed_group.as_deref().map(|name| unix_socket::group(root, name)).transpose();
    group.map_err(|why| {
        let hint = "make one (groupadd --system interleaf), or write its number";
        Failure::new(format!("[source] group: {why}"), hint)
    })
}

/// Returns true if the policy decides without figures of bandwidth.
fn decides_blindly(policy: PolicyKind) -> bool {
    matches!(policy, PolicyKind::Local | PolicyKind::Static | PolicyKind::Bandwidth)
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

/// Returns the scopes whose pages are not migrated (`protected` in the configuration). An entry
/// that begins with `/` is a control group, which may be created later; any other entry is the name
/// of processes.
fn protected(config: &Config, root: &Root) -> Result<Vec<Scope>, Failure> {
    let (groups, names): (Vec<String>, Vec<String>) =
        config.protected.iter().cloned().partition(|entry| entry.starts_with('/'));
    let groups = groups.iter().map(|name| group(name, root).map(Scope::Cgroup));
    let mut found = groups.collect::<Result<Vec<_>, _>>()?;
    if !names.is_empty() {
        found.push(Scope::Named(names));
    }
    Ok(found)
}

fn group(name: &str, root: &Root) -> Result<Group, Failure> {
    let trees = Trees::read(root).map_err(system::read_failure)?;
    let tree = trees.and_then(|trees| trees.memory).ok_or_else(|| {
        Failure::new(
            "no control groups with memory are mounted",
            "mount cgroup2 at /sys/fs/cgroup, or name processes",
        )
    })?;
    Ok(tree.group(name))
}

/// Returns the scope whose pages are steered, as the configuration names it.
fn scope(config: &Config, root: &Root) -> Result<Scope, Failure> {
    Ok(match &config.scope {
        Wanted::Machine => Scope::Machine,
        Wanted::Processes(names) => Scope::Named(names.clone()),
        Wanted::Cgroup(name) => {
            let group = group(name, root)?;
            if !group.exists(root) {
                return Err(Failure::new(
                    format!("{}: there is no such control group", group.folder()),
                    "name one below the hierarchy's root, as /proc/PID/cgroup shows it",
                ));
            }
            Scope::Cgroup(group)
        }
    })
}
