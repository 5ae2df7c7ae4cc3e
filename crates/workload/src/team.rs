//! Divides work among threads.

use crate::{PAGE, SetupError};
use rayon::{ThreadPool, ThreadPoolBuilder};
use std::{sync::mpsc, thread};

/// Creates a pool of `threads` threads that wait for work. It is for workloads whose chunks differ
/// in their work, or whose loops are too short to start new threads for each.
pub(crate) fn pool(threads: usize) -> Result<ThreadPool, SetupError> {
    let pool = ThreadPoolBuilder::new().num_threads(threads.max(1)).build();
    pool.map_err(|why| SetupError::Threads { threads, why: why.to_string() })
}

/// Returns the number of elements in a thread's chunk of an array, rounded up to whole pages. The
/// last chunk may be shorter, and a small array may have fewer chunks than threads.
pub(crate) fn share<T>(elements: usize, threads: usize) -> usize {
    let of_page = (PAGE / size_of::<T>()).max(1);
    elements.div_ceil(threads.max(1)).next_multiple_of(of_page).max(of_page)
}

/// Calls `work` with each of `parts`, each in its own thread. A single part is processed by the
/// calling thread. The results are in the order of `parts`.
pub(crate) fn each<P: Send, R: Send>(parts: Vec<P>, work: impl Fn(P) -> R + Sync) -> Vec<R> {
    if parts.len() <= 1 {
        return parts.into_iter().map(work).collect();
    }
    let work = &work;
    let (results, done) = mpsc::channel();
    thread::scope(|scope| {
        for (at, part) in parts.into_iter().enumerate() {
            let results = results.clone();
            scope.spawn(move || {
                // A send fails only without a receiver, and the receiver lives until all threads
                // have ended.
                let _ = results.send((at, work(part)));
            });
        }
    });
    drop(results);
    let mut all: Vec<(usize, R)> = done.iter().collect();
    all.sort_by_key(|(at, _)| *at);
    all.into_iter().map(|(_, result)| result).collect()
}
