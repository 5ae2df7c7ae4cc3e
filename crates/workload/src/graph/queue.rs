//! A queue of vertices that several threads fill. A thread collects vertices in a batch, and then
//! reserves the slots for the whole batch at once.

use rayon::prelude::*;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering::Relaxed};

/// Maximum number of vertices in a batch.
const LENGTH: usize = 256;

/// The number of vertices that one task of [`each_of`] visits.
const PART: usize = 1024;

/// The vertices that a thread has collected but not appended to `queue`. `tail` is the next free
/// slot of the queue. All threads share it.
pub(super) struct Batch<'a> {
    vertices: [u32; LENGTH],
    length: usize,
    queue: &'a [AtomicU32],
    tail: &'a AtomicUsize,
}

impl<'a> Batch<'a> {
    pub(super) fn new(queue: &'a [AtomicU32], tail: &'a AtomicUsize) -> Self {
        Self { vertices: [0; LENGTH], length: 0, queue, tail }
    }

    pub(super) fn push(&mut self, vertex: u32) {
        if self.length == LENGTH {
            self.flush();
        }
        self.vertices[self.length] = vertex;
        self.length += 1;
    }

    pub(super) fn flush(&mut self) {
        let at = self.tail.fetch_add(self.length, Relaxed);
        let places = &self.queue[at..at + self.length];
        places.iter().zip(&self.vertices).for_each(|(place, vertex)| place.store(*vertex, Relaxed));
        self.length = 0;
    }
}

/// Calls `visit` for each vertex of a queue, in any order.
pub(super) fn each_of(queue: &[AtomicU32], visit: &(impl Fn(u32) + Sync)) {
    queue.par_chunks(PART).for_each(|part| {
        part.iter().for_each(|vertex| visit(vertex.load(Relaxed)));
    });
}
