//! Claims to pages, so that no two processes of Interleaf steer the same pages.
//!
//! DAMON has one user at a time. With `move_pages(2)`, however, any number of processes could steer
//! the same pages, and each would undo the work of the others. Each process therefore records in
//! its journal the pages that it steers, and a claim that overlaps with another is refused. Two
//! daemons can run at the same time if they steer different programs or control groups, or if one
//! daemon protects the pages that the other steers.

use crate::{
    place::scope::Scope,
    process::cgroup::{Group, Trees},
    root::{Root, RootError},
};
use serde::{Deserialize, Serialize};
use std::{collections::BTreeSet, fmt};

/// The pages that a process steers (`scope`), except those that it must not touch (`protected`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Claim {
    scope: ClaimedScope,
    protected: Vec<ClaimedScope>,
}

/// A [`Scope`] in the form in which the journal records it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum ClaimedScope {
    Machine,
    Cgroup(String),
    Processes(Vec<u32>),
    Named(Vec<String>),
}

impl Claim {
    /// Returns a claim to the pages of a scope except protected pages.
    pub fn new(scope: &Scope, protected: &[Scope]) -> Self {
        let protected = protected.iter().map(ClaimedScope::from).collect();
        Self { scope: scope.into(), protected }
    }

    /// True when two claims overlap: the scope of one is the machine, the control group of one
    /// contains that of the other, or a name, a process ID or a running process is in both claims.
    /// Two claims do not overlap if one of them protects the whole scope of the other.
    pub(super) fn overlaps(&self, other: &Self, root: &Root) -> Result<bool, RootError> {
        let excludes = |one: &Self, scope| one.protected.iter().any(|it| it.contains(scope));
        if excludes(self, &other.scope) || excludes(other, &self.scope) {
            return Ok(false);
        }
        if self.scope.intersects(&other.scope) {
            return Ok(true);
        }
        let theirs = other.processes(root)?;
        Ok(self.processes(root)?.iter().any(|pid| theirs.contains(pid)))
    }

    /// Returns the processes of the claim that run now.
    fn processes(&self, root: &Root) -> Result<BTreeSet<u32>, RootError> {
        let mut found = self.scope.processes(root)?;
        for protected in &self.protected {
            let left = protected.processes(root)?;
            found.retain(|pid| !left.contains(pid));
        }
        Ok(found)
    }
}

impl ClaimedScope {
    /// True when all of `other` is in this scope by the definitions of the two scopes, whichever
    /// processes run now. Always false for scopes of different types and for the machine.
    fn contains(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Cgroup(group), Self::Cgroup(below)) => is_below(below, group),
            (Self::Named(all), Self::Named(some)) => some.iter().all(|name| all.contains(name)),
            (Self::Processes(all), Self::Processes(some)) => {
                some.iter().all(|pid| all.contains(pid))
            }
            _ => false,
        }
    }

    /// True when the scopes overlap by their definitions, whichever processes run now: they share a
    /// control group, a name or a process ID, or one scope is the machine.
    fn intersects(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Machine, _) | (_, Self::Machine) => true,
            (Self::Cgroup(one), Self::Cgroup(other)) => {
                is_below(one, other) || is_below(other, one)
            }
            (Self::Named(one), Self::Named(other)) => one.iter().any(|name| other.contains(name)),
            (Self::Processes(one), Self::Processes(other)) => {
                one.iter().any(|pid| other.contains(pid))
            }
            _ => false,
        }
    }

    fn processes(&self, root: &Root) -> Result<BTreeSet<u32>, RootError> {
        let scope = match self {
            Self::Machine => Scope::Machine,
            Self::Processes(pids) => Scope::Processes(pids.clone()),
            Self::Named(names) => Scope::Named(names.clone()),
            Self::Cgroup(name) => {
                let tree = Trees::read(root)?.and_then(|trees| trees.memory);
                let group: Option<Group> = tree.map(|tree| tree.group(name));
                match group.filter(|group| group.exists(root)) {
                    Some(group) => Scope::Cgroup(group),
                    None => return Ok(BTreeSet::new()),
                }
            }
        };
        Ok(scope.processes(root)?.iter().map(|process| process.pid).collect())
    }
}

/// True when the control group `group` is the group `of` or one of its descendants.
fn is_below(group: &str, of: &str) -> bool {
    let parts = |name: &'_ str| -> Vec<String> {
        name.split('/').filter(|part| !part.is_empty()).map(String::from).collect()
    };
    parts(group).starts_with(&parts(of))
}

impl From<&Scope> for ClaimedScope {
    fn from(scope: &Scope) -> Self {
        match scope {
            Scope::Machine => Self::Machine,
            Scope::Cgroup(group) => Self::Cgroup(group.name.clone()),
            Scope::Processes(pids) => Self::Processes(pids.clone()),
            Scope::Named(names) => Self::Named(names.clone()),
        }
    }
}

impl fmt::Display for Claim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.scope {
            ClaimedScope::Machine => f.write_str("the machine"),
            ClaimedScope::Cgroup(name) => write!(f, "the control group {name}"),
            ClaimedScope::Processes(pids) => {
                let pids: Vec<String> = pids.iter().map(u32::to_string).collect();
                write!(f, "process {}", pids.join(", "))
            }
            ClaimedScope::Named(names) => write!(f, "{}", names.join(", ")),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;
    use std::fs;

    fn named(names: &[&str]) -> ClaimedScope {
        ClaimedScope::Named(names.iter().map(|name| (*name).into()).collect())
    }

    fn group(name: &str) -> ClaimedScope {
        ClaimedScope::Cgroup(name.into())
    }

    /// Makes the files of a machine with three processes: `solver` (ID 10), its child `helper`
    /// (11), and `java` (12).
    fn machine() -> (tempfile::TempDir, Root) {
        let folder = tempfile::tempdir().unwrap();
        let all = [(1, 0, "init"), (10, 1, "solver"), (11, 10, "helper"), (12, 1, "java")];
        for (pid, parent, name) in all {
            let path = folder.path().join(format!("proc/{pid}"));
            fs::create_dir_all(&path).unwrap();
            let rest = "1 1 0 -1 0 0 0 0 0 0 0 0 0 0 20 0 1 0 9876 0 0";
            fs::write(path.join("stat"), format!("{pid} ({name}) R {parent} {rest}")).unwrap();
        }
        let root = Root::captured(folder.path());
        (folder, root)
    }

    #[test]
    fn claims_overlap_by_name_or_by_process() {
        let (_folder, root) = machine();
        let table = [
            (ClaimedScope::Machine, ClaimedScope::Machine, true),
            (ClaimedScope::Machine, named(&["absent"]), true),
            (ClaimedScope::Machine, group("/batch"), true),
            (group("/batch"), group("/batch/inner/"), true),
            (group("/batch"), group("/batches"), false),
            (named(&["solver"]), named(&["java", "solver"]), true),
            (named(&["solver"]), named(&["java"]), false),
            // `helper` is a child of `solver`, so a scope with the name `solver` includes it.
            (named(&["solver"]), named(&["helper"]), true),
            (named(&["solver"]), ClaimedScope::Processes(vec![11]), true),
            (named(&["solver"]), ClaimedScope::Processes(vec![12]), false),
            (named(&["absent"]), named(&["solver"]), false),
        ];
        for (one, other, expected) in table {
            let claim = |scope: &ClaimedScope| Claim { scope: scope.clone(), protected: vec![] };
            for (one, other) in [(&one, &other), (&other, &one)] {
                let found = claim(one).overlaps(&claim(other), &root).unwrap();
                assert_eq!(found, expected, "{one:?} {other:?}");
            }
        }
    }

    #[test]
    fn the_protected_are_not_claimed() {
        let (_folder, root) = machine();
        let table = [
            (named(&["java"]), named(&["java"]), false),
            (named(&["java"]), named(&["java", "solver"]), true),
            (group("/kept"), group("/kept/inner"), false),
            (group("/kept/inner"), group("/kept"), true),
        ];
        for (protected, scope, expected) in table {
            let whole = Claim { scope: ClaimedScope::Machine, protected: vec![protected] };
            let part = Claim { scope, protected: vec![] };
            assert_eq!(whole.overlaps(&part, &root).unwrap(), expected, "{part:?}");
            assert_eq!(part.overlaps(&whole, &root).unwrap(), expected, "{part:?}");
        }
    }
}
