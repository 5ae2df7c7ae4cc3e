//! Fault injection: an engine whose transfers fail according to a plan and a seed, so that failures
//! can be reproduced.

#![expect(unsafe_code, reason = "it wraps a store, which receives addresses of frames")]

use super::{
    Job,
    engine::{Engine, JobResult},
};
use rustix::io::Errno;
use std::{
    collections::HashMap,
    io,
    os::fd::{BorrowedFd, RawFd},
    str::FromStr,
    time::Duration,
};

/// The faults to inject. Each of the fields `eio`, `again`, `short`, `torn` and `delayed` is a
/// number n: on average, one in n transfers has the fault. If n is 0, no transfer has the fault.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FaultPlan {
    /// Seed of the random choices.
    pub seed: u64,
    /// On average, one in `eio` transfers fails with `EIO`.
    pub eio: u64,
    /// On average, one in `again` transfers fails with `EINTR` or `EAGAIN`.
    pub again: u64,
    /// On average, one in `short` transfers moves and reports only a part of its bytes.
    pub short: u64,
    /// On average, one in `torn` writes stores only a part of its bytes, and then fails with `EIO`.
    pub torn: u64,
    /// On average, one in `delayed` transfers finishes `delay_ms` later.
    pub delayed: u64,
    /// The delay of a transfer with the fault `delayed`, ms.
    pub delay_ms: u64,
    /// True if each call of `Engine::done` returns its results in random order.
    pub reordered: bool,
    /// Distance of the unreadable ranges of a file, MiB: in each `lost_mib` MiB, 1 MiB cannot be
    /// read. 0 or 1 means that all of the file can be read.
    pub lost_mib: u64,
    /// Capacity of each file, bytes. A write beyond the capacity fails with `ENOSPC`. 0 means no
    /// limit.
    pub room: u64,
}

impl FromStr for FaultPlan {
    type Err = String;

    /// Parses a plan such as `seed=1,eio=100,room=1000000`.
    fn from_str(text: &str) -> Result<Self, String> {
        let mut plan = Self::default();
        for word in text.split(',') {
            let (name, value) = word.split_once('=').ok_or_else(|| format!("{word}: no ="))?;
            let value = value.parse().map_err(|_| format!("{word}: no number"))?;
            match name {
                "seed" => plan.seed = value,
                "eio" => plan.eio = value,
                "again" => plan.again = value,
                "short" => plan.short = value,
                "torn" => plan.torn = value,
                "delayed" => plan.delayed = value,
                "delay_ms" => plan.delay_ms = value,
                "reordered" => plan.reordered = value != 0,
                "lost_mib" => plan.lost_mib = value,
                "room" => plan.room = value,
                _ => return Err(format!("{name}: no such fault")),
            }
        }
        Ok(plan)
    }
}

/// The change that `Engine::done` makes to the drive's result for a job.
enum InjectedResult {
    Fails(Errno),
    /// The result is delayed until a timer ends. The value is the drive's result; `None` while the
    /// drive has not finished the job.
    Held(Option<Result<usize, Errno>>),
}

/// An engine that injects faults: its jobs fail, are cut short, delayed or reordered, as the plan
/// says.
pub struct FaultyEngine {
    drive: Box<dyn Engine>,
    plan: FaultPlan,
    state: u64,
    injected: HashMap<u64, InjectedResult>,
}

impl FaultyEngine {
    /// Makes an engine that passes jobs to `drive`, and injects the faults of `plan`.
    pub fn new(drive: Box<dyn Engine>, plan: FaultPlan) -> Self {
        Self { drive, plan, state: plan.seed, injected: HashMap::new() }
    }

    /// Returns the next number of the generator `splitmix64` (Steele, Lea and Flood, "Fast
    /// splittable pseudorandom number generators", OOPSLA 2014).
    fn random(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.state;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^ (word >> 31)
    }

    fn happens(&mut self, one_in: u64) -> bool {
        one_in > 0 && self.random().is_multiple_of(one_in)
    }

    /// Returns `ENOSPC` for a write beyond `room`, `EIO` for a read that overlaps an unreadable
    /// range (`lost_mib`), and `None` for other jobs.
    fn refused(&self, job: &Job) -> Option<Errno> {
        let end = job.offset + bytes(job) as u64;
        if job.is_write && self.plan.room > 0 && end > self.plan.room {
            return Some(Errno::NOSPC);
        }
        let first = job.offset >> 20;
        let is_lost = |mib: u64| self.plan.lost_mib > 0 && mib % self.plan.lost_mib == 1;
        (!job.is_write && (first..=(end - 1) >> 20).any(is_lost)).then_some(Errno::IO)
    }
}

fn bytes(job: &Job) -> usize {
    job.pieces.iter().map(|piece| piece.bytes).sum()
}

/// Returns a job that transfers only the first `bytes` bytes of `job`.
fn cut(job: &Job, mut bytes: usize) -> Job {
    let mut job = job.clone();
    for piece in &mut job.pieces {
        piece.bytes = piece.bytes.min(bytes);
        bytes -= piece.bytes;
    }
    job.pieces.retain(|piece| piece.bytes > 0);
    job
}

impl Engine for FaultyEngine {
    unsafe fn push(&mut self, token: u64, job: &Job) {
        let plan = self.plan;
        let blocks = bytes(job) / 512;
        let mut job = job.clone();
        let fails = if let Some(why) = self.refused(&job) {
            Some(why)
        } else if self.happens(plan.eio) {
            Some(Errno::IO)
        } else if self.happens(plan.again) {
            Some(if self.random() & 1 == 0 { Errno::AGAIN } else { Errno::INTR })
        } else {
            None
        };
        if let Some(why) = fails {
            self.injected.insert(token, InjectedResult::Fails(why));
            self.drive.wait(token, Duration::ZERO);
            return;
        }
        let is_torn = job.is_write && self.happens(plan.torn);
        if blocks > 1 && (is_torn || self.happens(plan.short)) {
            let some = 1 + self.random() as usize % (blocks - 1);
            job = cut(&job, some * 512);
        }
        if is_torn {
            self.injected.insert(token, InjectedResult::Fails(Errno::IO));
        } else if self.happens(plan.delayed) {
            self.injected.insert(token, InjectedResult::Held(None));
        }
        // SAFETY: the caller meets the conditions of `push`, and the memory of this job is part of
        // the original job's memory.
        unsafe { self.drive.push(token, &job) };
    }

    fn wait(&mut self, token: u64, time: Duration) {
        self.drive.wait(token, time);
    }

    fn submit(&mut self) -> io::Result<()> {
        self.drive.submit()
    }

    fn has_done(&mut self) -> bool {
        self.drive.has_done()
    }

    fn done(&mut self, outcomes: &mut Vec<JobResult>) {
        let mut done = vec![];
        self.drive.done(&mut done);
        if self.plan.reordered {
            for at in (1..done.len()).rev() {
                let other = self.random() as usize % (at + 1);
                done.swap(at, other);
            }
        }
        for (token, result) in done {
            match self.injected.remove(&token) {
                None => outcomes.push((token, result)),
                Some(InjectedResult::Fails(why)) => outcomes.push((token, Err(why))),
                Some(InjectedResult::Held(Some(result))) => outcomes.push((token, result)),
                Some(InjectedResult::Held(None)) => {
                    self.injected.insert(token, InjectedResult::Held(Some(result)));
                    self.drive.wait(token, Duration::from_millis(self.plan.delay_ms));
                }
            }
        }
        // Submit the timers of delayed results. An error is ignored, because the next `submit`
        // tries again.
        let _ = self.drive.submit();
    }

    fn ready(&self) -> BorrowedFd<'_> {
        self.drive.ready()
    }

    fn inherited(&self) -> Vec<RawFd> {
        self.drive.inherited()
    }
}
