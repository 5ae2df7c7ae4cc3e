//! The DRAM budget of a command, and the minimum size of an extended allocation.

use super::ExtendOptions;
use interleaf_console::{Failure, system};
use interleaf_linux::{process::available::available, root::Root};
use interleaf_model::units::Bytes;
use interleaf_pager::session::PAGE_BYTES;

/// A DRAM budget, as the user gives it.
#[derive(Clone, Debug, PartialEq)]
pub enum Dram {
    Size(Bytes),
    /// A percentage of the memory that is available to this process.
    Percent(u8),
    /// For each node that the user names: its number, and the size of the budget on it.
    ByNode(Vec<(u32, Bytes)>),
}

/// Minimum budget, bytes: it must hold the pages in transfer and the pages in use.
pub const DRAM_MIN: u64 = 4 << 20;

/// Size of the smallest allocation that the preloaded library can extend, bytes.
pub const ALLOC_MIN: u64 = 128 << 10;

/// Divisor of the budget that gives the minimum size of an extended allocation without
/// `--min-alloc`. Allocations below the minimum, from 128 KiB on, are extended too once their sum
/// has reached the minimum. Example: a budget of 256 MiB gives a minimum of 32 MiB. Allocations
/// below 32 MiB stay outside the budget until their sum reaches 32 MiB. The last of them, which
/// makes the sum reach 32 MiB, has less than 32 MiB. So less than 64 MiB, a quarter of the budget,
/// are outside.
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
