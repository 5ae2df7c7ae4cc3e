//! Translates jobs of fio into loads and stores to the card's memory.

use super::{
    Job, OptionError,
    load::{FS_PER_NS, RAMP_NS, RUNTIME_NS, SEED},
};
use crate::{
    card::Card,
    load::Stop,
    memory_mode::{Initiator, MemoryLoad, MemoryLoadError},
};

/// The options of a load on memory, in addition to the options of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryOptions {
    /// The device that reads and writes the card's memory.
    pub initiator: Initiator,
    /// The number of stores of a thread between two read-backs, which make the stores persistent;
    /// `None` for no read-backs.
    pub fsync: Option<u32>,
}

impl MemoryOptions {
    /// Returns the default of `bs`, bytes: a cache line for a processor, fio's default for a peer.
    pub const fn block_bytes(&self) -> u32 {
        match self.initiator {
            Initiator::Processor => 64,
            Initiator::Peer => 4096,
        }
    }
}

/// Returns the load of a job. In each of its `numjobs` threads, `iodepth` accesses of `bs` bytes
/// are outstanding.
///
/// # Errors
/// When an option has no meaning for loads and stores, or the card does not allow the option.
pub fn load(job: &Job, options: &MemoryOptions, card: &Card) -> Result<MemoryLoad, OptionError> {
    let name = options.initiator.name();
    if job.rate_iops.is_some() {
        return Err(OptionError {
            option: "rate_iops",
            problem: format!("a rate is not modelled with the access {name}"),
            hint: "leave it out".into(),
        });
    }
    if options.fsync.is_some() && !job.rw.has_writes() {
        return Err(OptionError {
            option: "fsync",
            problem: format!("{} has no stores that could be made durable", job.rw.name()),
            hint: "leave it out, or set rw to write, randwrite, rw or randrw".into(),
        });
    }
    // A percentage in `size` is of the BAR, the part of the card that loads and stores reach.
    let size = card.bar.as_ref().map(|bar| job.size.of(bar.bytes));
    let load = MemoryLoad {
        initiator: options.initiator,
        read_percent: match (job.rw.is_mixed(), job.rw.has_writes()) {
            (true, _) => job.rwmixread,
            (false, true) => 0,
            (false, false) => 100,
        },
        bytes: job.bs,
        outstanding: job.iodepth,
        threads: job.numjobs,
        random: job.rw.is_random(),
        repeats: job.norandommap,
        size,
        persist_every: options.fsync.unwrap_or(0),
        ramp_fs: job.ramp_ns.unwrap_or(RAMP_NS) * FS_PER_NS,
        stop: Stop::Time(job.runtime_ns.unwrap_or(RUNTIME_NS) * FS_PER_NS),
        seed: job.seed.unwrap_or(SEED),
    };
    load.check(card).map_err(|why| {
        let MemoryLoadError { option, problem, hint } = why;
        OptionError { option, problem: format!("{}: {problem}", card.name), hint }
    })?;
    Ok(load)
}
