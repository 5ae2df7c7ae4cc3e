//! Runs a load, described in fio's terms, on a card, and measures the run.
//!
//! A group is a job section of fio: `numjobs` equal threads, each with its own queue pair (if the
//! card has enough pairs) and with `iodepth` I/Os outstanding. A thread submits an I/O as soon as
//! one of its I/Os completes, or at a given rate. Several groups run at once.
//!
//! The times are those of fio: *slat* is the time from the thread's decision to submit an I/O until
//! the doorbell, *clat* the time from the doorbell until the completion in the host, and *lat* the
//! sum of the two. I/Os that complete in the ramp time are not counted.

pub(crate) mod addresses;
mod measure;
mod threads;

use crate::{
    card::{BLOCK_BYTES, Card},
    engine::{Engine, WriteObserver},
    settings::Settings,
};
use core::fmt;
pub use measure::{Bound, DirectionResult, Latencies, Outcome};
use threads::Threads;

/// The order and direction of I/Os: fio's `rw`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Access {
    /// fio's `read`: reads in the order of the offsets.
    Read,
    /// fio's `write`: writes in the order of the offsets.
    Write,
    /// fio's `randread`: reads at random offsets.
    RandomRead,
    /// fio's `randwrite`: writes at random offsets.
    RandomWrite,
    /// fio's `rw` or `readwrite`: reads and writes in the order of the offsets.
    Mixed,
    /// fio's `randrw`: reads and writes at random offsets.
    RandomMixed,
}

impl Access {
    /// All variants with their names in fio. The alias `readwrite` comes after `rw`, so that
    /// [`Self::name`] returns `rw`.
    pub const ALL: [(&'static str, Self); 7] = [
        ("read", Self::Read),
        ("write", Self::Write),
        ("randread", Self::RandomRead),
        ("randwrite", Self::RandomWrite),
        ("randrw", Self::RandomMixed),
        ("rw", Self::Mixed),
        ("readwrite", Self::Mixed),
    ];

    /// Returns the name of the variant in fio, such as `randread`.
    pub fn name(self) -> &'static str {
        Self::ALL.into_iter().find(|(_, access)| *access == self).map_or("", |(name, _)| name)
    }

    /// Returns true if the offsets are random.
    pub const fn is_random(self) -> bool {
        matches!(self, Self::RandomRead | Self::RandomWrite | Self::RandomMixed)
    }

    /// Returns true if the I/Os are reads and writes together.
    pub const fn is_mixed(self) -> bool {
        matches!(self, Self::Mixed | Self::RandomMixed)
    }

    /// Returns true if some of the I/Os are writes.
    pub const fn has_writes(self) -> bool {
        !matches!(self, Self::Read | Self::RandomRead)
    }
}

/// A job section of fio: equal threads that do the same kind of I/O.
#[derive(Clone, Debug, PartialEq)]
pub struct Group {
    /// The name of the job section.
    pub name: String,
    /// `rw`: direction of the I/Os, and order of their offsets. Default: `read`.
    pub access: Access,
    /// `bs`: bytes of each I/O. Default: 4096.
    pub block_bytes: u32,
    /// `iodepth`: the number of I/Os that each thread keeps outstanding. Default: 1.
    pub depth: u32,
    /// `numjobs`: the number of threads. Default: 1.
    pub jobs: u32,
    /// `rate_iops`: I/Os per second of each thread. Default: no limit.
    pub rate_iops: Option<f64>,
    /// `rwmixread`: percentage of reads in a mix. Default: 50.
    pub read_percent: u32,
    /// `offset`: the first byte of the range that the group uses. Default: 0.
    pub offset: u64,
    /// `size`: the length of the range of the group, bytes. Default: up to the end of the card.
    pub size: Option<u64>,
    /// `norandommap`: random offsets with repetition. Without this option each block is used once
    /// before any block is used again. Default: false.
    pub repeats: bool,
    /// True if writes have force unit access (FUA). Default: false.
    pub force_unit_access: bool,
}

impl Default for Group {
    fn default() -> Self {
        Self {
            name: "job".into(),
            access: Access::Read,
            block_bytes: 4096,
            depth: 1,
            jobs: 1,
            rate_iops: None,
            read_percent: 50,
            offset: 0,
            size: None,
            repeats: false,
            force_unit_access: false,
        }
    }
}

/// The condition that ends a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// The run ends when this time (fio's `runtime`) has passed since the end of the ramp time, fs.
    Time(u64),
    /// The run ends when this number of I/Os of all groups has completed after the ramp time.
    Ios(u64),
}

/// A load on a card: groups of threads, and the times of their run.
#[derive(Clone, Debug, PartialEq)]
pub struct Load {
    /// The job sections, whose threads run at the same time.
    pub groups: Vec<Group>,
    /// `ramp_time`: time of the run before the measurement begins, fs.
    pub ramp_fs: u64,
    /// The condition that ends the run.
    pub stop: Stop,
    /// `randseed`: the seed of all random numbers of the load, such as random offsets and the
    /// choice between read and write.
    pub seed: u64,
}

/// The reason why a card cannot run a load.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoadError {
    /// The name of the job section. An error of the load as a whole names the first section, or
    /// "load" if there is none.
    pub group: String,
    /// The name of the option in fio.
    pub option: &'static str,
    /// The cause, as text for the user.
    pub problem: String,
    /// The remedy, as text for the user.
    pub hint: String,
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}: {}", self.group, self.option, self.problem)
    }
}

impl std::error::Error for LoadError {}

/// Maximum number of threads of all groups of a load, which bounds the memory of the simulation.
const JOBS_MAX: u32 = 4096;

/// Maximum ramp time or run time, fs: an hour. 64 bits hold five hours of femtoseconds.
const TIME_MAX: u64 = 3_600_000_000_000_000_000;

/// Returns the option of fio whose time is above [`TIME_MAX`], `ramp_time` or `runtime`; `None` if
/// both times are allowed.
pub(crate) const fn too_long(ramp_fs: u64, stop: Stop) -> Option<&'static str> {
    match stop {
        _ if ramp_fs > TIME_MAX => Some("ramp_time"),
        Stop::Time(time) if time > TIME_MAX => Some("runtime"),
        _ => None,
    }
}

impl Load {
    /// Returns a load of one group that ends after `ios` counted I/Os. The count begins after a
    /// ramp time of 100 us, which fills the queues.
    pub fn single(group: Group, ios: u64) -> Self {
        Self { groups: vec![group], ramp_fs: 100_000_000_000, stop: Stop::Ios(ios), seed: 1 }
    }

    /// Checks that `card` can run this load.
    ///
    /// # Errors
    /// If an option is out of range or exceeds a limit of the card; the error names the first such
    /// option.
    pub fn check(&self, card: &Card) -> Result<(), LoadError> {
        self.groups.iter().try_for_each(|group| group.check(card))?;
        let group = || self.groups.first().map_or("load", |group| &group.name);
        let error = |option, problem: String, hint: &str| {
            Err(LoadError { group: group().into(), option, problem, hint: hint.into() })
        };
        let jobs: u64 = self.groups.iter().map(|group| u64::from(group.jobs)).sum();
        if jobs == 0 || jobs > JOBS_MAX.into() {
            return error("numjobs", format!("there are {jobs} threads"), "use 1 to 4096 threads");
        }
        let mut depths = vec![0_u64; card.nvme.queues as usize];
        let threads = self.groups.iter().flat_map(|g| (0..g.jobs).map(|_| g.depth));
        for (thread, depth) in threads.enumerate() {
            depths[thread % card.nvme.queues as usize] += u64::from(depth);
        }
        let deepest = depths.into_iter().max().unwrap_or(0);
        if deepest >= card.nvme.entries.into() {
            let problem = format!(
                "{deepest} outstanding I/Os do not fit a queue of {} entries",
                card.nvme.entries
            );
            let hint = format!("use at most {} for each queue", card.nvme.entries - 1);
            return error("iodepth", problem, &hint);
        }
        if let Some(option) = too_long(self.ramp_fs, self.stop) {
            return error(option, "it is above an hour".into(), "use at most 3600s");
        }
        match self.stop {
            Stop::Time(0) => error("runtime", "it is 0".into(), "use a time such as 100ms"),
            Stop::Ios(0) => error("number_ios", "it is 0".into(), "use at least 1"),
            _ => Ok(()),
        }
    }

    /// Runs the load on `card`, and reports the writes of the load to `observer`.
    ///
    /// # Errors
    /// If the card cannot run the load.
    pub fn run<O: WriteObserver>(
        &self,
        card: &Card,
        settings: &Settings,
        observer: &mut O,
    ) -> Result<Outcome, LoadError> {
        self.check(card)?;
        let mut engine = Engine::new(card, settings);
        let outcome = Threads::new(self, card).run(&mut engine, observer);
        engine.finish(observer);
        Ok(outcome)
    }
}

impl Group {
    fn check(&self, card: &Card) -> Result<(), LoadError> {
        let error = |option, problem: String, hint: String| {
            Err(LoadError { group: self.name.clone(), option, problem, hint })
        };
        let (block, capacity) = (self.block_bytes, card.memory.capacity);
        if block == 0 || !block.is_multiple_of(BLOCK_BYTES) {
            let problem = format!("{block} bytes are no whole number of blocks");
            return error("bs", problem, format!("use a multiple of {BLOCK_BYTES}"));
        }
        if block > card.nvme.max_transfer {
            let problem = format!("{block} bytes are more than a command transfers");
            return error("bs", problem, format!("use at most {}", card.nvme.max_transfer));
        }
        if self.depth == 0 || self.depth >= card.nvme.entries {
            let problem =
                format!("{} I/Os do not fit a queue of {}", self.depth, card.nvme.entries);
            return error("iodepth", problem, format!("use 1 to {}", card.nvme.entries - 1));
        }
        if self.jobs == 0 || self.jobs > JOBS_MAX {
            let problem = format!("there are {} threads", self.jobs);
            return error("numjobs", problem, format!("use 1 to {JOBS_MAX} threads"));
        }
        if self.read_percent > 100 {
            let problem = format!("{} % are no part", self.read_percent);
            return error("rwmixread", problem, "use 0 to 100".into());
        }
        if let Some(rate) = self.rate_iops
            && !(1.0..=1e9).contains(&rate)
        {
            let problem = format!("{rate} I/Os per second are not possible");
            return error("rate_iops", problem, "use 1 to 1000000000".into());
        }
        if !self.offset.is_multiple_of(BLOCK_BYTES.into()) || self.offset >= capacity {
            let problem = format!("no block of the card is at {}", self.offset);
            let hint = format!("use a multiple of {BLOCK_BYTES} below {capacity}");
            return error("offset", problem, hint);
        }
        let size = self.size_on(card);
        if size < block.into() {
            let problem = format!("{size} bytes are less than a block of {block}");
            return error("size", problem, format!("use at least {block}"));
        }
        if size > capacity - self.offset {
            let problem = format!("{size} bytes from {} exceed the card", self.offset);
            return error("size", problem, format!("use at most {}", capacity - self.offset));
        }
        Ok(())
    }

    /// Returns the length of the range that the group uses on `card`, bytes.
    fn size_on(&self, card: &Card) -> u64 {
        self.size.unwrap_or(card.memory.capacity.saturating_sub(self.offset))
    }
}

#[cfg(test)]
mod tests;
