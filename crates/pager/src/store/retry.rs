//! A transfer that one drive does, and what becomes of it when the drive does less than it should.
//!
//! A drive may do a part only, be interrupted, be busy, or fail once and not again: a path to it
//! was switched, a command timed out. What it says it could not do is tried again a few times,
//! later each time, before it counts as lost.

use super::Piece;
use rustix::io::Errno;
use std::{os::fd::RawFd, time::Duration};

/// What is left of a transfer is cut to whole blocks, as drives want it.
const BLOCK: usize = 4096;

/// A transfer of one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Job {
    /// The file.
    pub file: RawFd,
    /// Whether it goes there.
    pub is_write: bool,
    /// Where, bytes.
    pub offset: u64,
    /// Where in memory.
    pub pieces: Vec<Piece>,
}

/// No wait is longer.
const LONGEST: Duration = Duration::from_secs(1);

/// How often, and how long, a drive that fails is tried again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patience {
    /// Tries in all.
    pub tries: u32,
    /// The time before the second try; it is ten times as long before each that follows, 1 s at
    /// most.
    pub first: Duration,
}

impl Default for Patience {
    /// 10 ms, 100 ms and 1 s: longer than a path takes to be switched, and shorter than a user
    /// waits before he thinks that a program hangs.
    fn default() -> Self {
        Self { tries: 4, first: Duration::from_millis(10) }
    }
}

/// What is to be done with a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Nothing: it is done.
    Done,
    /// The rest of it, now.
    Go,
    /// The rest of it, later.
    Later(Duration),
    /// Nothing: it cannot be done.
    Lost(Errno),
}

/// A job, and how often it was tried.
#[derive(Clone, Debug)]
pub struct Tried {
    /// What is left of it.
    pub job: Job,
    fails: u32,
    waits: u32,
}

/// A drive that is busy is asked again so often, a ms apart.
const BUSY_MAX: u32 = 30_000;

impl Tried {
    /// A job that was not tried yet.
    pub const fn new(job: Job) -> Self {
        Self { job, fails: 0, waits: 0 }
    }

    /// Takes in what a drive said: how many bytes it did, or why none.
    pub fn on(&mut self, result: Result<usize, Errno>, patience: Patience) -> Next {
        let left: usize = self.job.pieces.iter().map(|piece| piece.bytes).sum();
        let why = match result {
            Ok(done) if done >= left => return Next::Done,
            // Less than a block is as if it were nothing.
            Ok(done) if done >= BLOCK => {
                self.fails = 0;
                self.advance(done / BLOCK * BLOCK);
                return Next::Go;
            }
            // Behind the end of what was cut off, or a drive that does nothing.
            Ok(_) => Errno::IO,
            Err(Errno::INTR) => return Next::Go,
            Err(Errno::AGAIN | Errno::BUSY | Errno::NOMEM) if self.waits < BUSY_MAX => {
                self.waits += 1;
                return Next::Later(Duration::from_millis(1));
            }
            Err(why) => why,
        };
        self.fails += 1;
        let is_transient = matches!(
            why,
            Errno::IO | Errno::TIMEDOUT | Errno::NOLINK | Errno::REMOTEIO | Errno::AGAIN
        );
        if is_transient && self.fails < patience.tries {
            let times = 10_u32.saturating_pow(self.fails - 1);
            return Next::Later(patience.first.saturating_mul(times).min(LONGEST));
        }
        Next::Lost(why)
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

    fn tried() -> Tried {
        let piece = |address, bytes| Piece { address, bytes };
        let pieces = Vec::from([piece(0x10000, 4096), piece(0x50000, 8192)]);
        Tried::new(Job { file: 3, is_write: false, offset: 40960, pieces })
    }

    #[test]
    fn what_is_short_goes_on_where_it_ended() {
        let mut tried = tried();
        assert_eq!(tried.on(Ok(8200), Patience::default()), Next::Go);
        let rest = Vec::from([Piece { address: 0x51000, bytes: 4096 }]);
        assert_eq!((tried.job.offset, &tried.job.pieces), (49152, &rest));
        assert_eq!(tried.on(Err(Errno::INTR), Patience::default()), Next::Go);
        assert_eq!(tried.on(Ok(4096), Patience::default()), Next::Done);
    }

    #[test]
    fn what_fails_is_tried_again_and_then_lost() {
        let later = |ms| Next::Later(Duration::from_millis(ms));
        let on = |tried: &mut Tried, result| tried.on(result, Patience::default());
        let mut eio = tried();
        let found: Vec<_> = (0..4).map(|_| on(&mut eio, Err(Errno::IO))).collect();
        assert_eq!(found, [later(10), later(100), later(1000), Next::Lost(Errno::IO)]);
        assert_eq!(on(&mut tried(), Err(Errno::NOSPC)), Next::Lost(Errno::NOSPC));
        let mut nothing = tried();
        let found: Vec<_> = (0..4).map(|_| on(&mut nothing, Ok(100))).collect();
        assert_eq!(found.last(), Some(&Next::Lost(Errno::IO)));
        let mut busy = tried();
        let found: Vec<_> = (0..100).map(|_| on(&mut busy, Err(Errno::AGAIN))).collect();
        assert_eq!(found.last(), Some(&later(1)));
    }
}
