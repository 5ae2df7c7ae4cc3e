//! The kernel settings that this program changes, and their valid values.
//!
//! When a setting is restored, root writes a value to a path. The value and the path come from a
//! journal, which may be forged or damaged. Therefore only settings and values in the table of this
//! module are written and restored.

use super::controller;
use crate::machine::{
    damon::{ADMIN, COUNT, MODULES},
    sysctl::NUMA_BALANCING,
    weights,
};

#[derive(Clone, Copy, Debug)]
enum Values {
    /// A decimal number up to this maximum.
    UpTo(u64),
    /// One of these values.
    Words(&'static [&'static str]),
}

const SWITCH: Values = Values::Words(&["Y", "N", "true", "false", "1", "0"]);

/// The prefix of the name of the file that has a node's weight; the node's ID follows.
const NODE: &str = "node";

/// Returns the valid values of the setting at `path`; `None` if this program never writes it.
fn values(path: &str) -> Option<Values> {
    if MODULES.iter().any(|(_, module)| *module == path) || path == weights::auto_path() {
        return Some(SWITCH);
    }
    if let Some((folder, name)) = path.rsplit_once('/')
        && folder == weights::FOLDER
        && let Some(number) = name.strip_prefix(NODE)
    {
        let node: u32 = number.parse().ok()?;
        // Compare the whole path, because `parse` also accepts numbers such as `+1` and `01`.
        return (path == weights::node_path(node)).then_some(Values::UpTo(255));
    }
    if controller::is_controller(path) {
        return Some(Values::Words(&[controller::ENABLED, controller::DISABLED]));
    }
    match path {
        NUMA_BALANCING => Some(Values::UpTo(3)),
        COUNT => Some(Values::UpTo(64)),
        "/proc/sys/vm/page-cluster" => Some(Values::UpTo(31)),
        "/sys/kernel/mm/swap/vma_ra_enabled" => Some(SWITCH),
        _ if path.strip_prefix(ADMIN) == Some("/0/state") => Some(Values::Words(&["on", "off"])),
        _ => None,
    }
}

/// Returns the value of the setting at `path`, whose file has the content `text`.
pub(super) fn value<'a>(path: &str, text: &'a str) -> &'a str {
    if controller::is_controller(path) { controller::value(text) } else { text.trim() }
}

/// Checks that this program may change the setting at `path`, and that `value` is valid for it.
///
/// # Errors
/// A message with the path or value that is refused.
pub(super) fn check(path: &str, value: &str) -> Result<(), String> {
    let Some(values) = values(path) else {
        return Err(format!("{path} is not a setting that this program changes"));
    };
    let (is_one, allowed) = match values {
        Values::UpTo(most) => {
            let is_decimal = value.bytes().all(|byte| byte.is_ascii_digit());
            let number = value.parse::<u64>().ok().filter(|_| is_decimal);
            (number.is_some_and(|number| number <= most), format!("a number up to {most}"))
        }
        Values::Words(words) => (words.contains(&value), format!("one of {}", words.join(", "))),
    };
    match is_one {
        true => Ok(()),
        false => Err(format!("{path}: {value:?} is not {allowed}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_settings_of_the_table_are_allowed() {
        let allowed = [
            ("/proc/sys/kernel/numa_balancing", "1"),
            ("/sys/kernel/mm/mempolicy/weighted_interleave/node0", "255"),
            ("/sys/kernel/mm/mempolicy/weighted_interleave/node12", "3"),
            ("/sys/kernel/mm/mempolicy/weighted_interleave/auto", "true"),
            ("/sys/kernel/mm/damon/admin/kdamonds/nr_kdamonds", "0"),
            ("/sys/kernel/mm/damon/admin/kdamonds/0/state", "off"),
            ("/sys/module/damon_stat/parameters/enabled", "Y"),
            ("/proc/sys/vm/page-cluster", "3"),
            ("/sys/fs/cgroup/cgroup.subtree_control", "-memory"),
            ("/sys/kernel/mm/swap/vma_ra_enabled", "false"),
        ];
        for (path, value) in allowed {
            assert_eq!(check(path, value), Ok(()), "{path}");
        }
        let refused = [
            ("/etc/passwd", "x"),
            ("/proc/sys/kernel/core_pattern", "|/tmp/x"),
            ("/sys/fs/cgroup/cgroup.subtree_control", "-cpu"),
            ("/sys/fs/cgroup/x/cgroup.subtree_control", "+memory"),
            ("/sys/kernel/mm/mempolicy/weighted_interleave/node0", "256"),
            ("/sys/kernel/mm/mempolicy/weighted_interleave/node0", "+1"),
            ("/sys/kernel/mm/mempolicy/weighted_interleave/node0", ""),
            ("/sys/kernel/mm/mempolicy/weighted_interleave/node01", "1"),
            ("/sys/kernel/mm/mempolicy/weighted_interleave/node+1", "1"),
            ("/sys/kernel/mm/mempolicy/weighted_interleave/node", "1"),
            ("/sys/kernel/mm/mempolicy/weighted_interleave/../../../etc/x", "1"),
            ("/sys/kernel/mm/damon/admin/kdamonds/0/../state", "off"),
            ("/sys/kernel/mm/damon/admin/kdamonds/0/state", "commit"),
            ("/proc/sys/kernel/numa_balancing", "1\n"),
            ("proc/sys/kernel/numa_balancing", "1"),
        ];
        for (path, value) in refused {
            assert!(check(path, value).is_err(), "{path} {value:?}");
        }
    }
}
