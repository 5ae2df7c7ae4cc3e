//! Ranks the kinds of actuators by the features of a kernel, and by the scope, whose pages are to
//! be migrated: the machine, a control group or some processes.

use super::{
    Actuator, Scope, Setting, context::ELIGIBLE, pages::Pages, physical::Physical, vaddr::Vaddr,
};
use crate::machine::damon::probe::Probed;
use interleaf_model::machine::Order;
use std::fmt;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ActuatorKind {
    /// DAMON on the addresses of processes; the address of a page selects its destination.
    Vaddr,
    /// DAMON on physical memory, with quotas that Interleaf computes. A quota goal makes the kernel
    /// reduce these quotas near the target.
    Paddr,
    /// DAMON on physical memory, with quotas that Interleaf computes, and without a quota goal.
    Quota,
    /// Migration by `move_pages(2)`, without DAMON.
    Pages,
}

/// A kind of actuator, and the reason why it is available or unavailable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    pub kind: ActuatorKind,
    pub reason: String,
}

/// All kinds of actuators, as ranked for one kernel, one scope and one [`Order`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ranked {
    /// Available kinds of actuators, the best first.
    pub available: Vec<Choice>,
    /// Unavailable kinds of actuators, each with the reason.
    pub missing: Vec<Choice>,
}

impl ActuatorKind {
    /// Returns the name of this kind of actuator in configuration files and output.
    pub fn name(self) -> &'static str {
        match self {
            Self::Vaddr => "vaddr",
            Self::Paddr => "paddr",
            Self::Quota => "quota",
            Self::Pages => "pages",
        }
    }

    /// Returns the kind of actuator with the name `name`; `None` if no kind has this name.
    pub fn named(name: &str) -> Option<Self> {
        [Self::Vaddr, Self::Paddr, Self::Quota, Self::Pages]
            .into_iter()
            .find(|kind| kind.name() == name)
    }

    /// Builds an actuator of this kind. `kernel` has the features of the kernel's DAMON. Building
    /// changes nothing on the machine; only setting a goal does.
    pub fn build<'a>(self, setting: Setting<'a>, kernel: &Probed) -> Box<dyn Actuator + 'a> {
        match self {
            Self::Vaddr => Box::new(Vaddr::new(setting, kernel.clone())),
            Self::Paddr => Box::new(Physical::paddr(setting, kernel.clone())),
            Self::Quota => Box::new(Physical::quota(setting, kernel.clone())),
            Self::Pages => Box::new(Pages::new(setting)),
        }
    }

    /// Decides whether the kernel and the scope support this kind of actuator. Returns the reason:
    /// as `Ok` if both support it, as `Err` if one does not.
    fn judge(
        self,
        kernel: Option<&Probed>,
        (scope, protected): (&Scope, &[Scope]),
        order: Order,
    ) -> Result<String, String> {
        let is_machine = *scope == Scope::Machine;
        let kernel = match (self, kernel) {
            (Self::Pages, _) if is_machine => {
                return Ok(
                    "move_pages over all processes, which takes long where there are many; \
                           memory of files and of the kernel stays"
                        .into(),
                );
            }
            (Self::Pages, _) => {
                let heat = match order {
                    Order::Interleave => "hot and cold",
                    Order::HottestFirst => "hot or cold: it has no access counts",
                };
                return Ok(format!("move_pages, which every kernel has; it moves all, {heat}"));
            }
            (_, None) => {
                return Err("the features of DAMON are unknown here".into());
            }
            (_, Some(kernel)) => kernel,
        };
        let has = |list: &[String], word: &str| list.iter().any(|it| it == word);
        let lacks = |feature: &str, since: &str| Err(format!("no {feature} here (since {since})"));
        if !has(&kernel.actions, "migrate_hot") {
            return lacks("action migrate_hot", "6.11");
        }
        match self {
            Self::Vaddr if is_machine => {
                Err("it watches processes, and the scope is the machine".into())
            }
            Self::Vaddr if !has(&kernel.operations, "vaddr") => lacks("operations vaddr", "5.18"),
            // A kernel without destinations of schemes accepts `migrate_hot` on `vaddr`, but
            // migrates no page.
            Self::Vaddr if !kernel.destinations => {
                lacks("destinations, nor migration by virtual addresses", "6.17")
            }
            Self::Vaddr => {
                Ok("each hot page has its node by its address: exact, and at rest".into())
            }
            _ if !has(&kernel.operations, "paddr") => lacks("operations paddr", "5.18"),
            _ if matches!(scope, Scope::Processes(_) | Scope::Named(_)) => {
                Err("DAMON cannot tell the processes of physical pages apart: name a control \
                     group"
                    .into())
            }
            _ if protected.iter().any(|it| !matches!(it, Scope::Cgroup(_))) => {
                Err("DAMON cannot tell the processes of physical pages apart: protect control \
                 groups, not names"
                    .into())
            }
            Self::Paddr if !has(&kernel.goals, ELIGIBLE) => {
                lacks("goal node_eligible_mem_bp", "7.2")
            }
            Self::Paddr => Ok("physical memory with the kernel's own goal, cut by looking".into()),
            _ => Ok("physical memory with quotas, set by looking".into()),
        }
    }
}

/// Ranks the kinds of actuators, the best first, for migrating the pages of `scope` except those of
/// `protected`. States for each kind why it is available or unavailable. `kernel` is `None` if
/// DAMON's features are not known, because DAMON is missing or another program uses it.
///
/// `vaddr` is first because it reaches the ratio of the weights exactly, and migrates no page that
/// is on its target node. For a control group, `move_pages` comes before DAMON on physical memory,
/// because `move_pages` reaches this ratio exactly too. For the machine, `move_pages` is last,
/// because the pages of all processes are too many to scan. For [`Order::HottestFirst`],
/// `move_pages` is also last, because it does not know access counts.
pub fn choose(kernel: Option<&Probed>, scope: &Scope, protected: &[Scope], order: Order) -> Ranked {
    let kinds = match (scope, order) {
        (Scope::Machine, _) | (_, Order::HottestFirst) => {
            [ActuatorKind::Vaddr, ActuatorKind::Paddr, ActuatorKind::Quota, ActuatorKind::Pages]
        }
        _ => [ActuatorKind::Vaddr, ActuatorKind::Pages, ActuatorKind::Paddr, ActuatorKind::Quota],
    };
    let mut ranked = Ranked::default();
    for kind in kinds {
        match kind.judge(kernel, (scope, protected), order) {
            Ok(reason) => ranked.available.push(Choice { kind, reason }),
            Err(reason) => ranked.missing.push(Choice { kind, reason }),
        }
    }
    ranked
}

impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.kind.name(), self.reason)
    }
}
