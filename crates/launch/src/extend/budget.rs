//! The DRAM budget of a command, and the minimum size of an extended allocation.

use super::ExtendOptions;
use interleaf_console::{Failure, system};
use interleaf_linux::{process::available::available, root::Root};
use interleaf_model::units::{Bytes, UnitError};
use interleaf_pager::{cache::node::NODES_MAX, session::PAGE_BYTES};
use std::{fmt, str::FromStr};

/// A DRAM budget, as the user gives it.
#[derive(Clone, Debug, PartialEq)]
pub enum Dram {
    Size(Bytes),
    /// A percentage of the memory that is available to this process.
    Percent(u8),
    /// For each node that the user names: its number, and the size of the budget on it.
    ByNode(Vec<(u32, Bytes)>),
}

impl FromStr for Dram {
    /// The text `PROBLEM: write ALLOWED`.
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Some(percent) = text.strip_suffix('%') {
            let percent = percent.trim().parse().ok().filter(|percent| (1..=100).contains(percent));
            let percent = percent.map(Self::Percent);
            return percent.ok_or_else(|| {
                format!("{text} is not a whole number from 1% to 100%: write a part such as 50%")
            });
        }
        if text.contains('=') {
            return by_node(text);
        }
        let dram: Bytes = text.parse().map_err(|why: UnitError| why.with_example("8GiB"))?;
        if (DRAM_MIN..=DRAM_MAX).contains(&dram.get()) {
            return Ok(Self::Size(dram));
        }
        Err(format!("{text} is not between 4MiB and 15TiB: write a size such as 8GiB"))
    }
}

/// Parses the budget of each node: `node0=4GiB,node1=4GiB`.
fn by_node(text: &str) -> Result<Dram, String> {
    let example = "write for example node0=4GiB,node1=4GiB";
    let mut shares: Vec<(u32, Bytes)> = vec![];
    for part in text.split(',') {
        let (node, size) = part.split_once('=').unwrap_or((part, ""));
        let node = node.strip_prefix("node").and_then(|node| node.parse().ok());
        let node = node.ok_or_else(|| format!("{part} is not a size on a node: {example}"))?;
        let size: Bytes = size.parse().map_err(|why: UnitError| why.with_example("4GiB"))?;
        if size.get() < DRAM_MIN {
            return Err(format!("{part} is less than 4MiB: {example}"));
        }
        if shares.iter().any(|(other, _)| *other == node) {
            return Err(format!("node{node} is named twice: {example}"));
        }
        shares.push((node, size));
    }
    if shares.len() > NODES_MAX {
        return Err(format!("{} nodes are more than {NODES_MAX}: name fewer", shares.len()));
    }
    // Each node gets as many frame numbers as the node with the largest budget needs. The largest
    // budget times the number of nodes must therefore be within the limit.
    let most = shares.iter().map(|(_, size)| size.get()).max().unwrap_or(0);
    match most.checked_mul(shares.len() as u64).is_some_and(|all| all <= DRAM_MAX) {
        true => Ok(Dram::ByNode(shares)),
        false => Err(format!("{text} is more than 15TiB for all nodes: {example}")),
    }
}

/// Formats the budget as a value of the option `--dram`, exact to the byte.
impl fmt::Display for Dram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Size(size) => write!(f, "{}B", size.get()),
            Self::Percent(percent) => write!(f, "{percent}%"),
            Self::ByNode(shares) => {
                let share = |(node, size): &(u32, Bytes)| format!("node{node}={}B", size.get());
                f.write_str(&shares.iter().map(share).collect::<Vec<_>>().join(","))
            }
        }
    }
}

/// Minimum budget, bytes: it must hold the pages in transfer and the pages in use.
pub const DRAM_MIN: u64 = 4 << 20;

/// The largest budget, bytes. It is below 2^32 frames of 4 KiB, because frames have 32-bit numbers.
const DRAM_MAX: u64 = 15 << 40;

/// Size of the smallest allocation that the preloaded library can extend, bytes.
pub const ALLOC_MIN: u64 = 128 << 10;

/// Divisor of the budget that gives the minimum size of an extended allocation without
/// `--min-alloc`. Allocations below the minimum, from 128 KiB on, are extended too once their sum
/// has reached the minimum. Example: a budget of 256 MiB gives a minimum of 32 MiB. Allocations
/// below 32 MiB stay outside the budget until their sum reaches 32 MiB. The sum is below 32 MiB
/// before the last of these allocations, and this allocation has less than 32 MiB, so less than 64
/// MiB, a quarter of the budget, are outside.
const MIN_ALLOC_DIVISOR: u64 = 8;

/// Highest minimum size of an extended allocation without `--min-alloc`, bytes.
const MIN_ALLOC_MAX: u64 = 64 << 20;

/// Returns the size of the budget, bytes; 0 without a budget.
pub(super) fn dram(root: &Root, options: &ExtendOptions) -> Result<u64, Failure> {
    let percent = match &options.dram {
        None => return Ok(0),
        Some(Dram::Size(size)) => return Ok(size.get()),
        Some(Dram::ByNode(shares)) => return Ok(shares.iter().map(|(_, size)| size.get()).sum()),
        Some(Dram::Percent(percent)) => *percent,
    };
    let found = available(root, None).map_err(system::read_failure)?.ok_or_else(|| {
        Failure::new(
            format!("--dram {percent}%: /proc/meminfo does not tell what memory is available"),
            "give it as a size, such as 8GiB",
        )
    })?;
    let bytes = (u128::from(found.bytes) * u128::from(percent) / 100) as u64;
    let bytes = bytes / PAGE_BYTES * PAGE_BYTES;
    if bytes < DRAM_MIN {
        let (bytes, free) = (Bytes::new(bytes), Bytes::new(found.bytes));
        let place = found.limit.map_or("the machine".into(), |limit| {
            format!("the control group {} ({})", limit.group.name, limit.path())
        });
        return Err(Failure::new(
            format!("--dram {percent}%: that is {bytes} of the {free} that {place} has left"),
            "free some memory, or raise the limit; the least budget is 4MiB",
        ));
    }
    Ok(bytes)
}

/// Returns the minimum size of an extended allocation, bytes.
pub(super) fn min_alloc(options: &ExtendOptions, dram: u64) -> u64 {
    options.min_alloc.map_or_else(
        || {
            let part = (dram / MIN_ALLOC_DIVISOR).clamp(ALLOC_MIN, MIN_ALLOC_MAX);
            part / PAGE_BYTES * PAGE_BYTES
        },
        Bytes::get,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn budgets_are_read_and_written() {
        let size = |bytes| Ok(Dram::Size(Bytes::new(bytes)));
        assert_eq!(("8GiB".parse(), "50%".parse()), (size(8 << 30), Ok(Dram::Percent(50))));
        let shares = vec![(0, Bytes::new(4 << 30)), (3, Bytes::new(8 << 20))];
        assert_eq!("node0=4GiB,node3=8MiB".parse(), Ok(Dram::ByNode(shares)));
        for text in ["8388608B", "50%", "node0=8388608B,node3=4194304B"] {
            assert_eq!(text.parse::<Dram>().map(|dram| dram.to_string()), Ok(text.to_string()));
        }
        let wrong = [
            ("101%", "101% is not a whole number from 1% to 100%"),
            ("1MiB", "1MiB is not between 4MiB and 15TiB"),
            ("0=4GiB", "0=4GiB is not a size on a node"),
            ("node0=4GiB,node0=1GiB", "node0 is named twice"),
            ("node0=4GiB,1GiB", "1GiB is not a size on a node"),
            ("node0=1MiB", "node0=1MiB is less than 4MiB"),
            ("node0=8TiB,node1=8TiB", "is more than 15TiB"),
        ];
        for (text, expected) in wrong {
            let why = text.parse().map_or_else(|why| why, |dram: Dram| format!("{dram:?}"));
            assert!(why.contains(expected), "{text}: {why}");
        }
    }
}
