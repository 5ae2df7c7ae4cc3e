//! Translates jobs of fio into the load of a card.

use super::{Job, OptionError};
use crate::{
    card::Card,
    load::{Group, Load, LoadError, Stop},
};

/// Default of `ramp_time`, ns: in it the queues fill, and the first writes reach the memory.
pub const RAMP_NS: u64 = 1_000_000;

/// Default of `runtime`, the time of the measurement, ns: 100 ms, in which a card with a million
/// I/Os per second completes 100,000 I/Os.
pub const RUNTIME_NS: u64 = 100_000_000;

/// Default of `randseed`, the seed of all random numbers.
pub const SEED: u64 = 1;

/// Number of femtoseconds in a nanosecond.
pub(super) const FS_PER_NS: u64 = 1_000_000;

impl Job {
    fn group(&self, card: &Card) -> Group {
        Group {
            name: self.name.clone(),
            access: self.rw,
            block_bytes: self.bs,
            depth: self.iodepth,
            jobs: self.numjobs,
            rate_iops: self.rate_iops.map(|rate| rate as f64),
            read_percent: self.rwmixread,
            size: Some(self.size.of(card.memory.capacity)),
            repeats: self.norandommap,
            ..Group::default()
        }
    }
}

/// Returns the load of `jobs`, which run together on `card`. They share one ramp time, one runtime
/// and one seed.
///
/// # Errors
/// When the jobs differ in ramp time, runtime or seed, or the card cannot run the load.
pub fn load(jobs: &[Job], card: &Card) -> Result<Load, OptionError> {
    let one = |option: &'static str, of: fn(&Job) -> Option<u64>| {
        let set: Vec<(&str, u64)> =
            jobs.iter().filter_map(|job| Some((job.name.as_str(), of(job)?))).collect();
        let differs = set.windows(2).find(|pair| pair[0].1 != pair[1].1);
        let Some([(first, _), (second, _)]) = differs else {
            return Ok(set.first().map(|(_, value)| *value));
        };
        Err(OptionError {
            option,
            problem: format!("{first} and {second} run together and differ in it"),
            hint: "set it in [global], or begin the second job with stonewall".into(),
        })
    };
    let ramp = one("ramp_time", |job| job.ramp_ns)?.unwrap_or(RAMP_NS);
    let runtime = one("runtime", |job| job.runtime_ns)?.unwrap_or(RUNTIME_NS);
    let load = Load {
        groups: jobs.iter().map(|job| job.group(card)).collect(),
        ramp_fs: ramp * FS_PER_NS,
        stop: Stop::Time(runtime * FS_PER_NS),
        seed: one("randseed", |job| job.seed)?.unwrap_or(SEED),
    };
    queues(jobs, card)?;
    load.check(card).map_err(|why| {
        let LoadError { option, problem, hint, .. } = why;
        OptionError { option, problem: format!("{}: {problem}", card.name), hint }
    })?;
    Ok(load)
}

/// Checks that the card has an I/O queue for each job. With enough queues, Linux gives each job a
/// queue of its own, which has room for the `iodepth` outstanding I/Os of the job. Jobs that share
/// a queue are refused.
fn queues(jobs: &[Job], card: &Card) -> Result<(), OptionError> {
    let needed: u64 = jobs.iter().map(|job| u64::from(job.numjobs)).sum();
    let queues = card.nvme.queues;
    if needed <= queues.into() {
        return Ok(());
    }
    Err(OptionError {
        option: "numjobs",
        problem: format!("{}: {needed} jobs are more than its I/O queues, {queues}", card.name),
        hint: format!("use at most {queues} jobs together, with a larger iodepth"),
    })
}
