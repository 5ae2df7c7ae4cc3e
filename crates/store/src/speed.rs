//! Measures the bandwidth and latency of a store, with transfers as a pager makes them. A
//! measurement takes a few seconds and bypasses the page cache of Linux.

#![expect(unsafe_code, reason = "a store is handed memory")]

use crate::{Piece, Store, Transfer, TransferError};
use interleaf_procfs::page::PAGE_BYTES;
use rustix::{
    event::{PollFd, PollFlags, poll},
    io::Errno,
};
use std::{
    collections::HashMap,
    io, mem,
    time::{Duration, Instant},
};

/// Size of a sequential transfer, bytes. Transfers larger than 1 MiB are no faster.
const LARGE: usize = 1 << 20;

/// Number of outstanding transfers in sequential reads and writes.
const LARGE_DEPTH: usize = 16;

/// Size of a random read, bytes.
const SMALL: usize = PAGE_BYTES;

/// Seed of the random data and offsets: the same in each run, so that runs are comparable.
const SEED: u64 = 0x9e37_79b9_7f4a_7c15;

/// The measured speed of a store.
#[derive(Clone, Debug, PartialEq)]
pub struct StoreSpeed {
    /// Size of the part of the store that was written and then read, bytes.
    pub bytes: u64,
    /// Bandwidth of sequential reads, GB/s: 16 outstanding transfers of 1 MiB.
    pub read_gbps: f64,
    /// Bandwidth of sequential writes, GB/s: 16 outstanding transfers of 1 MiB.
    pub write_gbps: f64,
    /// Random reads of single pages, one entry for each queue depth.
    pub random: Vec<RandomReads>,
}

/// Random reads of 4 KiB pages.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RandomReads {
    /// The number of outstanding reads (queue depth).
    pub depth: usize,
    /// Reads per second.
    pub iops: f64,
    /// Mean latency, us: `depth` divided by `iops` (Little's law).
    pub latency_us: f64,
}

/// The reason why the measurement failed.
#[derive(Debug, thiserror::Error)]
pub enum SpeedError {
    #[error(transparent)]
    System(#[from] io::Error),
    #[error(transparent)]
    Transfer(#[from] TransferError),
}

/// Measures the first `bytes` bytes of a store: sequential writes, sequential reads, and random
/// reads at each queue depth in `depths`. Each of these measurements starts transfers for at most
/// the time `limit`. The former content of the store is lost.
///
/// # Errors
/// When a transfer fails.
pub fn measure(
    store: &mut dyn Store,
    bytes: u64,
    limit: Duration,
    depths: &[usize],
) -> Result<StoreSpeed, SpeedError> {
    let most = depths.iter().map(|depth| depth * SMALL).max().unwrap_or(0);
    let pages = most.max(LARGE * LARGE_DEPTH) / PAGE_BYTES;
    // Write random data: a drive may skip or compress zeros and repeated content, and would then
    // seem too fast.
    let mut state = SEED;
    let mut page = || AlignedPage(std::array::from_fn(|_| random(&mut state)));
    let memory: Vec<AlignedPage> = (0..pages).map(|_| page()).collect();
    let mut bench = Bench { store, memory, moved: 0 };
    let parts = (bytes / LARGE as u64).max(1);
    let sequence = |at: u64| (at % parts) * LARGE as u64;
    let (written, time) = bench.run(true, LARGE, LARGE_DEPTH, (limit, parts), sequence)?;
    let write_gbps = gbps(written * LARGE as u64, time);
    // Read only the range that was written: the rest of a file is a hole, and reads of a hole do
    // not reach the drive.
    let there = written.min(parts).max(1);
    let sequence = |at: u64| (at % there) * LARGE as u64;
    let (read, time) = bench.run(false, LARGE, LARGE_DEPTH, (limit, u64::MAX), sequence)?;
    let read_gbps = gbps(read * LARGE as u64, time);
    let mut found = vec![];
    for depth in depths {
        let pages = there * (LARGE / SMALL) as u64;
        let anywhere = |_| (random(&mut state) % pages) * SMALL as u64;
        let (count, time) = bench.run(false, SMALL, *depth, (limit, u64::MAX), anywhere)?;
        let iops = count as f64 / time.as_secs_f64();
        found.push(RandomReads { depth: *depth, iops, latency_us: 1e6 * *depth as f64 / iops });
    }
    bench.store.erase(0, parts * LARGE as u64);
    Ok(StoreSpeed { bytes: there * LARGE as u64, read_gbps, write_gbps, random: found })
}

/// A page of memory with the alignment that O_DIRECT needs.
#[repr(align(4096))]
struct AlignedPage(#[expect(dead_code, reason = "drives read it")] [u64; PAGE_BYTES / 8]);

const _: () = assert!(align_of::<AlignedPage>() == PAGE_BYTES);

struct Bench<'a> {
    store: &'a mut dyn Store,
    memory: Vec<AlignedPage>,
    /// Number of transfers started so far, which is the token of the next transfer.
    moved: u64,
}

impl Bench<'_> {
    /// Keeps `depth` transfers outstanding for the time `limit`, or until `most` transfers were
    /// started. The first `depth` transfers are started even after `limit`, so that there are
    /// transfers even if the thread lost its CPU. Transfer n, counted from 0, moves `bytes` bytes
    /// at the offset `offset(n)` of the store. Returns the number of transfers, and the time from
    /// the first start to the last end.
    fn run(
        &mut self,
        is_write: bool,
        bytes: usize,
        depth: usize,
        (limit, most): (Duration, u64),
        mut offset: impl FnMut(u64) -> u64,
    ) -> Result<(u64, Duration), SpeedError> {
        let start = Instant::now();
        let may_begin =
            |begun: u64| begun < most && (begun < depth as u64 || start.elapsed() < limit);
        let (mut begun, mut done, mut failed) = (0, 0, None);
        // `used` maps the token of each outstanding transfer to the index of its part of the
        // memory. `free` has the indices of the parts that no transfer uses.
        let mut used = HashMap::new();
        let mut free: Vec<usize> = (0..depth).collect();
        loop {
            while failed.is_none() && may_begin(begun) {
                let Some(part) = free.pop() else { break };
                let piece =
                    Piece { address: self.memory.as_mut_ptr() as usize + part * bytes, bytes };
                let token = self.moved;
                let pieces = &[piece];
                let transfer = Transfer { token, is_write, offset: offset(begun), pieces };
                // SAFETY: no other transfer and no other function uses this part of the memory, and
                // the memory is dropped only after all transfers are done.
                match unsafe { self.store.begin(transfer) } {
                    Ok(()) => begun += 1,
                    Err(why) => failed = Some(SpeedError::System(why)),
                }
                used.insert(token, part);
                self.moved += 1;
            }
            if done == begun {
                break;
            }
            if let Err(why) = self.submit_and_wait() {
                // The wait has failed. Leak the memory, because outstanding transfers may still use
                // it.
                mem::forget(mem::take(&mut self.memory));
                return Err(why.into());
            }
            for (token, outcome) in self.store.done() {
                free.extend(used.remove(&token));
                done += 1;
                failed = outcome.err().map(SpeedError::Transfer).or(failed);
            }
        }
        failed.map_or(Ok((done, start.elapsed())), Err)
    }

    /// Submits the transfers that [`Store::begin`] has accepted, and waits until one of them
    /// finishes. Also returns when a signal arrives, possibly before a transfer has finished.
    fn submit_and_wait(&mut self) -> io::Result<()> {
        self.store.submit()?;
        let ready = self.store.ready();
        match poll(&mut [PollFd::new(&ready, PollFlags::IN)], None) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(why) => Err(why.into()),
        }
    }
}

fn gbps(bytes: u64, time: Duration) -> f64 {
    bytes as f64 / 1e9 / time.as_secs_f64()
}

/// Returns the next pseudorandom number (xorshift64*: Vigna, "An experimental exploration of
/// Marsaglia's xorshift generators, scrambled", 2016).
fn random(state: &mut u64) -> u64 {
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    state.wrapping_mul(0x2545_f491_4f6c_dd1d)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;
    use crate::FileStore;

    #[test]
    fn a_store_is_measured() {
        let folder = tempfile::tempdir_in(".").unwrap();
        let mut store = FileStore::open(folder.path()).unwrap();
        let limit = Duration::from_millis(50);
        let drive = measure(&mut store, 4 << 20, limit, &[1, 4]).unwrap();
        assert_eq!(drive.bytes, 4 << 20);
        assert!(drive.read_gbps > 0.0 && drive.write_gbps > 0.0, "{drive:?}");
        let depths: Vec<usize> = drive.random.iter().map(|random| random.depth).collect();
        assert_eq!(depths, [1, 4]);
        assert!(drive.random.iter().all(|random| random.iops > 0.0), "{drive:?}");
    }
}
