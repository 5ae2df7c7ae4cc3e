//! The budget of a command, and from which size on its allocations are extended.

use crate::{
    args::{ALLOC_MIN, DRAM_MIN, Dram, ExtendArgs},
    failure::Failure,
    verb::unread,
};
use interleaf_linux::{process::available::available, root::Root};
use interleaf_model::units::Bytes;
use interleaf_pager::session::PAGE_BYTES;

/// Without `--min-alloc`, allocations of this part of the budget and more are extended. Less than
/// twice that much can stay outside the budget in pieces of 128 KiB and more: as much together as
/// `--min-alloc`, and the last of them.
const MIN_ALLOC_PART: u64 = 8;

/// No more than this is left outside unasked.
const MIN_ALLOC_MAX: u64 = 64 << 20;

/// The budget, bytes; 0 where none is given.
pub(super) fn dram(root: &Root, args: &ExtendArgs) -> Result<u64, Failure> {
    let percent = match args.dram {
        None => return Ok(0),
        Some(Dram::Size(size)) => return Ok(size.get()),
        Some(Dram::Percent(percent)) => percent,
    };
    let found = available(root, None).map_err(unread)?.ok_or_else(|| {
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

/// The size from which on allocations are extended, bytes.
pub(super) fn min_alloc(args: &ExtendArgs, dram: u64) -> u64 {
    args.min_alloc.map_or_else(
        || {
            let part = (dram / MIN_ALLOC_PART).clamp(ALLOC_MIN, MIN_ALLOC_MAX);
            part / PAGE_BYTES * PAGE_BYTES
        },
        Bytes::get,
    )
}
