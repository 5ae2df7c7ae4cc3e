//! Describes loads by the options of fio, on the command line or in job files.
//!
//! fio (<https://fio.readthedocs.io>) is the load generator of storage benchmarks. A *job* is a
//! stream of I/O with a pattern (`rw`), a block size (`bs`) and a number of outstanding requests
//! (`iodepth`), started `numjobs` times. [`FioOptions`] contains the options that are set. [`Job`]
//! is a complete job, with fio's defaults for the other options. [`file::parse`] reads a job file.
//!
//! An option is modelled ([`MODELLED`]), or has no effect on a simulated card ([`WITHOUT_EFFECT`]).
//! Any other option is an error. Jobs are time-based: they run for `runtime`, however large `size`
//! is.

pub mod file;
pub mod load;
pub mod memory;
pub mod value;

use crate::load::Access;
use core::str::FromStr;
use value::{Size, ValueError, in_range};

/// Options of a job file that are accepted and have no effect, each with the reason.
///
/// `ioengine` and `direct` are not in this list, because [`FioOptions::set`] checks their values.
pub const WITHOUT_EFFECT: [(&str, &str); 12] = [
    ("allow_mounted_write", "no file system is simulated"),
    ("allrandrepeat", "all randomness has a seed"),
    ("description", "a text"),
    ("filename", "the device is the simulated card"),
    ("group_reporting", "jobs of a group are always reported together"),
    ("invalidate", "no page cache is simulated"),
    ("name", "a text"),
    ("randrepeat", "all randomness has a seed"),
    ("refill_buffers", "the time of an I/O does not depend on its data"),
    ("thread", "a job submits by itself, as a thread or as a process"),
    ("time_based", "every job is time-based"),
    ("unlink", "no file is created"),
];

/// The options of a fio job file that the simulator models, with their aliases in fio.
pub const MODELLED: [&str; 18] = [
    "blocksize",
    "bs",
    "direct",
    "iodepth",
    "ioengine",
    "norandommap",
    "numjobs",
    "ramp_time",
    "randseed",
    "rate_iops",
    "readwrite",
    "runtime",
    "rw",
    "rwmixread",
    "rwmixwrite",
    "size",
    "stonewall",
    "wait_for_previous",
];

/// I/O engines of fio that keep `iodepth` requests outstanding.
const ASYNCHRONOUS: [&str; 5] = ["io_uring", "io_uring_cmd", "libaio", "posixaio", "xnvme"];

/// I/O engines of fio that wait for each request.
const SYNCHRONOUS: [&str; 6] = ["mmap", "psync", "pvsync", "pvsync2", "sync", "vsync"];

/// Minimum and maximum block size, bytes: a logical block, and the largest transfer of one command
/// (assumed: MDTS of 1 MiB, the usual limit of NVMe controllers).
pub const BLOCK_BYTES: [u64; 2] = [512, 1 << 20];

/// Maximum number of outstanding requests of a job: the entries of the largest NVMe queue (NVMe
/// 1.4, 3.1.1, CAP.MQES), less one entry, because a full ring keeps one entry empty.
pub const DEPTH_MAX: u32 = 65_535;

/// Maximum `numjobs` that the parser of options accepts: the maximum number of I/O queues of an
/// NVMe controller (NVMe 1.4, 5.21.1.7). [`load::load`] accepts at most one job for each I/O queue
/// of the card.
pub const JOBS_MAX: u32 = 65_535;

/// Maximum rate of a job, I/Os per second: one I/O each nanosecond, far above any card.
pub const RATE_MAX: u64 = 1_000_000_000;

impl FromStr for Access {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Self, ValueError> {
        if let Some((_, access)) = Self::ALL.iter().find(|(name, _)| *name == text) {
            return Ok(*access);
        }
        let problem = match text {
            "trim" | "randtrim" | "trimwrite" | "randtrimwrite" => {
                format!("{text} is not modelled")
            }
            _ => format!("\"{text}\" is not a pattern of fio"),
        };
        let names: Vec<&str> = Self::ALL.iter().map(|(name, _)| *name).collect();
        Err(ValueError::new(problem, format!("one of {}", names.join(", "))))
    }
}

/// An I/O engine of fio, with its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IoEngine {
    /// The engine submits requests without waiting for earlier ones.
    Asynchronous(&'static str),
    /// The engine waits for each request before it submits the next.
    Synchronous(&'static str),
}

impl FromStr for IoEngine {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Self, ValueError> {
        let find = |names: &[&'static str]| names.iter().find(|name| **name == text).copied();
        let asynchronous = find(&ASYNCHRONOUS).map(Self::Asynchronous);
        asynchronous.or_else(|| find(&SYNCHRONOUS).map(Self::Synchronous)).ok_or_else(|| {
            let names = [&ASYNCHRONOUS[..], &SYNCHRONOUS[..]].concat();
            let problem = format!("the I/O engine \"{text}\" is not modelled");
            ValueError::new(problem, format!("one of {}", names.join(", ")))
        })
    }
}

/// The options of fio that a command line, a section `[global]` or a job section sets. `None` means
/// that an option is not set.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FioOptions {
    /// Direction of the I/Os, and order of their offsets (`rw`).
    pub rw: Option<Access>,
    /// Block size of the I/Os (`bs`), bytes.
    pub bs: Option<u32>,
    /// The number of outstanding requests of each job.
    pub iodepth: Option<u32>,
    /// The number of equal jobs, each with an I/O queue of its own.
    pub numjobs: Option<u32>,
    /// The rate of each job, I/Os per second; without a rate, the depth alone limits a job.
    pub rate_iops: Option<u64>,
    /// The percentage of reads of a mixed pattern.
    pub rwmixread: Option<u32>,
    /// Time of the run before the measurement begins (`ramp_time`), ns.
    pub ramp_ns: Option<u64>,
    /// Time of the measurement (`runtime`), ns.
    pub runtime_ns: Option<u64>,
    /// The part of the card, from the card's first byte on, that a job covers (`size`).
    pub size: Option<Size>,
    /// True for random offsets without fio's map, which uses every block once before any twice.
    pub norandommap: Option<bool>,
    /// Seed of all random numbers (`randseed`).
    pub seed: Option<u64>,
    /// The I/O engine (`ioengine`).
    pub engine: Option<IoEngine>,
}

impl FioOptions {
    /// Sets the option `name` to `value`, which is written as in a job file. For an option without
    /// a value, `value` is "". Returns false for an option that this function does not know.
    ///
    /// # Errors
    /// When the value is invalid.
    pub fn set(&mut self, name: &str, value: &str) -> Result<bool, ValueError> {
        match name {
            "rw" | "readwrite" => self.rw = Some(value.parse()?),
            "bs" | "blocksize" => self.bs = Some(value::block(value)?),
            "iodepth" => self.iodepth = Some(depth(value)?),
            "numjobs" => self.numjobs = Some(jobs(value)?),
            "rate_iops" => self.rate_iops = Some(rate(value)?),
            "rwmixread" => self.rwmixread = Some(percentage(value)?),
            "rwmixwrite" => self.rwmixread = Some(100 - percentage(value)?),
            "ramp_time" => self.ramp_ns = Some(value::time(value)?),
            "runtime" => self.runtime_ns = Some(value::runtime(value)?),
            "size" => self.size = Some(value.parse()?),
            "norandommap" => self.norandommap = Some(value::flag(value)?),
            "randseed" => self.seed = Some(in_range(value, "a seed", 0..=u64::MAX)?),
            "direct" => direct(value)?,
            "ioengine" => self.engine = Some(value.parse()?),
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Returns a copy of `self` in which each option that `over` sets has the value of `over`.
    pub fn with(&self, over: &Self) -> Self {
        Self {
            rw: over.rw.or(self.rw),
            bs: over.bs.or(self.bs),
            iodepth: over.iodepth.or(self.iodepth),
            numjobs: over.numjobs.or(self.numjobs),
            rate_iops: over.rate_iops.or(self.rate_iops),
            rwmixread: over.rwmixread.or(self.rwmixread),
            ramp_ns: over.ramp_ns.or(self.ramp_ns),
            runtime_ns: over.runtime_ns.or(self.runtime_ns),
            size: over.size.or(self.size),
            norandommap: over.norandommap.or(self.norandommap),
            seed: over.seed.or(self.seed),
            engine: over.engine.or(self.engine),
        }
    }

    /// Removes the options that fio ignores because of `rw`: `rwmixread` of a job with one
    /// direction, and `norandommap` of a sequential job. Only options from a section `[global]`
    /// are removed (`is_inherited` returns true). The same options in the section of the job stay,
    /// and [`Self::job`] refuses them.
    fn without_ignored(self, is_inherited: impl Fn(&str) -> bool) -> Self {
        let Some(rw) = self.rw else { return self };
        let keeps = |option, has_effect: bool| has_effect || !is_inherited(option);
        Self {
            rwmixread: self.rwmixread.filter(|_| keeps("rwmixread", rw.is_mixed())),
            norandommap: self.norandommap.filter(|_| keeps("norandommap", rw.is_random())),
            ..self
        }
    }

    /// Returns true if `self` sets `option`, a name that errors use: `rw`, not `readwrite`.
    fn sets(&self, option: &str) -> bool {
        match option {
            "rw" => self.rw.is_some(),
            "bs" => self.bs.is_some(),
            "iodepth" => self.iodepth.is_some(),
            "numjobs" => self.numjobs.is_some(),
            "rate_iops" => self.rate_iops.is_some(),
            "rwmixread" => self.rwmixread.is_some(),
            "ramp_time" => self.ramp_ns.is_some(),
            "runtime" => self.runtime_ns.is_some(),
            "size" => self.size.is_some(),
            "norandommap" => self.norandommap.is_some(),
            "randseed" => self.seed.is_some(),
            _ => false,
        }
    }

    /// Returns the job `name` with the options of `self`. Options that are not set have fio's
    /// defaults.
    ///
    /// # Errors
    /// When `rw` is missing, or two options contradict each other.
    pub fn job(&self, name: &str) -> Result<Job, OptionError> {
        let wrong = |option, problem: String, hint: String| OptionError { option, problem, hint };
        let Some(rw) = self.rw else {
            return Err(wrong(
                "rw",
                "it is missing: a load needs a direction".into(),
                "give one, such as randread".into(),
            ));
        };
        if self.rwmixread.is_some() && !rw.is_mixed() {
            return Err(wrong(
                "rwmixread",
                format!("{} has one direction only", rw.name()),
                "leave it out, or set rw to rw or randrw".into(),
            ));
        }
        if self.norandommap == Some(true) && !rw.is_random() {
            return Err(wrong(
                "norandommap",
                format!("the offsets of {} are not random", rw.name()),
                "leave it out, or set rw to randread, randwrite or randrw".into(),
            ));
        }
        let iodepth = self.iodepth.unwrap_or(1);
        if let Some(IoEngine::Synchronous(engine)) = self.engine.filter(|_| iodepth > 1) {
            return Err(wrong(
                "iodepth",
                format!("the I/O engine {engine} has one outstanding request, not {iodepth}"),
                format!("set iodepth to 1, or ioengine to one of {}", ASYNCHRONOUS.join(", ")),
            ));
        }
        Ok(Job {
            name: name.into(),
            rw,
            bs: self.bs.unwrap_or(4096),
            iodepth,
            numjobs: self.numjobs.unwrap_or(1),
            rate_iops: self.rate_iops,
            rwmixread: self.rwmixread.unwrap_or(50),
            ramp_ns: self.ramp_ns,
            runtime_ns: self.runtime_ns,
            size: self.size.unwrap_or(Size::WHOLE),
            norandommap: self.norandommap.unwrap_or(false),
            seed: self.seed,
        })
    }
}

/// An option that a job lacks, or that contradicts another option or the card.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{option}: {problem}")]
pub struct OptionError {
    /// The name of the option in fio.
    pub option: &'static str,
    /// The problem, without the name of the option.
    pub problem: String,
    /// The remedy, as text for the user.
    pub hint: String,
}

/// A job with fio's defaults for the options that are not set.
#[derive(Clone, Debug, PartialEq)]
pub struct Job {
    /// The name of the job's section.
    pub name: String,
    /// Direction of the I/Os, and order of their offsets (`rw`).
    pub rw: Access,
    /// Block size of the I/Os (`bs`), bytes.
    pub bs: u32,
    /// The number of outstanding requests of each of the `numjobs` equal jobs.
    pub iodepth: u32,
    /// The number of equal jobs, each with an I/O queue of its own.
    pub numjobs: u32,
    /// The rate of each of the `numjobs` equal jobs, I/Os per second; `None` for no limit.
    pub rate_iops: Option<u64>,
    /// The percentage of reads; it has an effect only if the pattern is mixed.
    pub rwmixread: u32,
    /// Time of the run before the measurement begins (`ramp_time`), ns.
    pub ramp_ns: Option<u64>,
    /// Time of the measurement (`runtime`), ns.
    pub runtime_ns: Option<u64>,
    /// The part of the card that the job covers.
    pub size: Size,
    /// True for random offsets without fio's map: a block may repeat before all are used once.
    pub norandommap: bool,
    /// Seed of all random numbers (`randseed`); `None` for the default seed.
    pub seed: Option<u64>,
}

/// Reads a queue depth, the number of outstanding requests of a job.
///
/// # Errors
/// When `text` is not a number from 1 to [`DEPTH_MAX`].
pub fn depth(text: &str) -> Result<u32, ValueError> {
    in_range(text, "a queue depth", 1..=DEPTH_MAX)
}

/// Reads `numjobs`, the number of equal jobs.
///
/// # Errors
/// When `text` is not a number from 1 to [`JOBS_MAX`].
pub fn jobs(text: &str) -> Result<u32, ValueError> {
    in_range(text, "a number of jobs", 1..=JOBS_MAX)
}

/// Reads the rate of a job, I/Os per second.
///
/// # Errors
/// When `text` is not a number from 1 to [`RATE_MAX`].
pub fn rate(text: &str) -> Result<u64, ValueError> {
    in_range(text, "a rate of I/Os per second", 1..=RATE_MAX)
}

/// Reads a percentage, such as `rwmixread`, the percentage of reads.
///
/// # Errors
/// When `text` is not a number from 0 to 100.
pub fn percentage(text: &str) -> Result<u32, ValueError> {
    in_range(text, "a percentage", 0..=100)
}

/// Checks the value of fio's `direct`. The value must be true, because I/O through the page cache
/// is not modelled.
///
/// # Errors
/// When `text` is 0, or not a Boolean value.
pub fn direct(text: &str) -> Result<(), ValueError> {
    let problem = match value::flag(text) {
        Ok(true) => return Ok(()),
        Ok(false) => "I/O through the page cache is not modelled".into(),
        Err(why) => why.problem,
    };
    Err(ValueError::new(problem, "1, or leave the option out".into()))
}

#[cfg(test)]
mod tests;
