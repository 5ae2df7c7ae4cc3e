//! Retries transfers that a drive does not carry out completely.
//!
//! The rest of a partial transfer is submitted at once. An interrupted transfer, or one that finds
//! the drive busy, is tried again every millisecond. A drive may also fail and then work again, for
//! example after a switch to another path. A failed transfer is retried a few times, after
//! increasing waits, before it counts as lost. Other errors, such as a full drive, are not retried.

use super::Piece;
use rustix::io::Errno;
use std::{os::fd::RawFd, time::Duration};

/// Unit of retries, bytes. The retry of a partly done transfer begins at a multiple of this unit,
/// as direct transfers (`O_DIRECT`) must.
const BLOCK: usize = interleaf_procfs::page::PAGE_BYTES;

/// A transfer between one file and memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Job {
    pub file: RawFd,
    /// True if the job writes to the file.
    pub is_write: bool,
    /// The offset in the file, bytes.
    pub offset: u64,
    /// The pieces of memory, in the order of the bytes in the file.
    pub pieces: Vec<Piece>,
}

/// The longest wait between two tries.
const WAIT_MAX: Duration = Duration::from_secs(1);

/// The number of tries of a transfer that fails, and the waits between them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetryPolicy {
    /// Number of consecutive failed tries without progress after which a transfer counts as lost.
    pub tries: u32,
    /// The wait before the second try. Each further wait is ten times as long as the previous one,
    /// but at most 1 s.
    pub first: Duration,
}

impl Default for RetryPolicy {
    /// Four tries, with waits of 10 ms, 100 ms and 1 s between them. The waits together are longer
    /// than a multipath drive takes to switch to another path, and shorter than a user waits before
    /// assuming that the program hangs.
    fn default() -> Self {
        Self { tries: 4, first: Duration::from_millis(10) }
    }
}

/// The next action of the engine's caller, after the drive has returned a result for a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NextStep {
    Done,
    /// Submit the rest of the job now: a part was transferred.
    Go,
    /// Submit the rest of the job after a wait.
    Later(Duration),
    /// The job has failed with this error, and is not retried any more.
    Lost(Errno),
}

/// A job with two counts: `fails`, its failed tries since its last progress, and `waits`, its waits
/// after tries that were interrupted or found the drive busy. Such a try counts as failed only
/// after `BUSY_MAX` waits.
#[derive(Clone, Debug)]
pub struct RetriedJob {
    /// The part of the job that is not transferred yet.
    pub job: Job,
    fails: u32,
    waits: u32,
}

/// Maximum number of retries of a job whose tries are interrupted or find the drive busy. The
/// retries are 1 ms apart, so they take 30 s in all. The number is limited because a file system in
/// user space may answer each try with `EINTR`.
const BUSY_MAX: u32 = 30_000;

impl RetriedJob {
    /// Makes a job that was not tried yet.
    pub const fn new(job: Job) -> Self {
        Self { job, fails: 0, waits: 0 }
    }

    /// Handles the drive's result for one try of the job: the number of transferred bytes, or the
    /// error. Returns the next action.
    pub fn on(&mut self, result: Result<usize, Errno>, policy: RetryPolicy) -> NextStep {
        let left: usize = self.job.pieces.iter().map(|piece| piece.bytes).sum();
        let why = match result {
            Ok(done) if done >= left => return NextStep::Done,
            // A transfer of at least one block is progress: the rest is submitted. A transfer of
            // less than a block counts as a failure, because a direct transfer cannot continue
            // inside a block.
            Ok(done) if done >= BLOCK => {
                self.fails = 0;
                self.advance(done / BLOCK * BLOCK);
                return NextStep::Go;
            }
            // Less than a block was transferred: the range extends beyond the end of a truncated
            // file, or the drive does not work.
            Ok(_) => Errno::IO,
            Err(Errno::AGAIN | Errno::BUSY | Errno::NOMEM | Errno::INTR)
                if self.waits < BUSY_MAX =>
            {
                self.waits += 1;
                return NextStep::Later(Duration::from_millis(1));
            }
            Err(why) => why,
        };
        self.fails += 1;
        let is_transient = matches!(
            why,
            Errno::IO
                | Errno::TIMEDOUT
                | Errno::NOLINK
                | Errno::REMOTEIO
                | Errno::AGAIN
                | Errno::INTR
        );
        if is_transient && self.fails < policy.tries {
            let times = 10_u32.saturating_pow(self.fails - 1);
            return NextStep::Later(policy.first.saturating_mul(times).min(WAIT_MAX));
        }
        NextStep::Lost(why)
    }

    fn advance(&mut self, mut done: usize) {
        self.job.offset += done as u64;
        while let Some(piece) = self.job.pieces.first_mut() {
            if done < piece.bytes {
                piece.address += done;
                piece.bytes -= done;
                return;
            }
            done -= piece.bytes;
            self.job.pieces.remove(0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tried() -> RetriedJob {
        let piece = |address, bytes| Piece { address, bytes };
        let pieces = Vec::from([piece(0x10000, 4096), piece(0x50000, 8192)]);
        RetriedJob::new(Job { file: 3, is_write: false, offset: 40960, pieces })
    }

    #[test]
    fn a_short_transfer_continues_where_it_ended() {
        let mut tried = tried();
        assert_eq!(tried.on(Ok(8200), RetryPolicy::default()), NextStep::Go);
        let rest = Vec::from([Piece { address: 0x51000, bytes: 4096 }]);
        assert_eq!((tried.job.offset, &tried.job.pieces), (49152, &rest));
        let soon = NextStep::Later(Duration::from_millis(1));
        assert_eq!(tried.on(Err(Errno::INTR), RetryPolicy::default()), soon);
        assert_eq!(tried.on(Ok(4096), RetryPolicy::default()), NextStep::Done);
    }

    #[test]
    fn a_failed_transfer_is_retried_and_then_lost() {
        let later = |ms| NextStep::Later(Duration::from_millis(ms));
        let on = |tried: &mut RetriedJob, result| tried.on(result, RetryPolicy::default());
        let mut eio = tried();
        let found: Vec<_> = (0..4).map(|_| on(&mut eio, Err(Errno::IO))).collect();
        assert_eq!(found, [later(10), later(100), later(1000), NextStep::Lost(Errno::IO)]);
        assert_eq!(on(&mut tried(), Err(Errno::NOSPC)), NextStep::Lost(Errno::NOSPC));
        let mut nothing = tried();
        let found: Vec<_> = (0..4).map(|_| on(&mut nothing, Ok(100))).collect();
        assert_eq!(found.last(), Some(&NextStep::Lost(Errno::IO)));
        let mut busy = tried();
        let found: Vec<_> = (0..100).map(|_| on(&mut busy, Err(Errno::AGAIN))).collect();
        assert_eq!(found.last(), Some(&later(1)));
        for always in [Errno::AGAIN, Errno::INTR] {
            let mut tried = tried();
            let found: Vec<_> = (0..30_004).map(|_| on(&mut tried, Err(always))).collect();
            assert_eq!(found[29_999..30_002], [later(1), later(10), later(100)]);
            assert_eq!(found[30_003], NextStep::Lost(always));
        }
    }
}
