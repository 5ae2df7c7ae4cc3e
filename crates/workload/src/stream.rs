//! STREAM (McCalpin): copy, scale, add and triad over three arrays. As in STREAM, the bytes are
//! those that a loop loads and stores, without the write-allocates of the cache.
//!
//! The rounds run one of the four loops: the requested one, or triad. If no loop is requested, the
//! other three run once after the rounds. Pages of an array have different initial contents, unless
//! they are a multiple of 4.1 GB apart. All results are computed again at the end, so a page with
//! the content of another page is detected.
//!
//! In STREAM the four loops alternate, so each loop writes new values. A single loop would write
//! the same values to the same pages in each round, and a pager that compares dirty pages with
//! their stored content would write nothing back. So each round differs from the one before: scale
//! and triad use a larger scalar, copy alternates its source, and add alternates its destination.
//! The numbers of bytes and operations are those of STREAM.

use crate::{
    Kernel, SetupError, Work, Wrong, at_least,
    memory::{Array, Memory},
    mixed, team,
};
use std::time::Instant;

/// The scalar of a loop's first round, as in STREAM. Each later round adds 1 to it, so all scalars
/// are exact in floating point.
const SCALAR: f64 = 3.0;

/// One of the four loops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loop {
    /// c = a in even rounds, and c = b in odd rounds.
    Copy,
    /// b = s c, where s is the scalar of the round.
    Scale,
    /// c = a + b in even rounds, and b = a + c in odd rounds.
    Add,
    /// a = b + s c, where s is the scalar of the round.
    Triad,
}

impl Loop {
    /// All loops with their names, in the order in which STREAM runs them.
    pub const ALL: [(&'static str, Self); 4] =
        [("copy", Self::Copy), ("scale", Self::Scale), ("add", Self::Add), ("triad", Self::Triad)];

    /// Applies one round of the loop to an element of each of the arrays a, b and c.
    fn apply(self, round: u32, [a, b, c]: [&mut f64; 3]) {
        let scalar = scalar(round);
        match (self, is_other(round)) {
            (Self::Copy, false) => *c = *a,
            (Self::Copy, true) => *c = *b,
            (Self::Scale, _) => *b = scalar * *c,
            (Self::Add, false) => *c = *a + *b,
            (Self::Add, true) => *b = *a + *c,
            (Self::Triad, _) => *a = *b + scalar * *c,
        }
    }
}

/// Returns the scalar of a round.
fn scalar(round: u32) -> f64 {
    SCALAR + f64::from(round)
}

/// True in odd rounds, in which copy reads b in place of a, and add writes b in place of c.
fn is_other(round: u32) -> bool {
    !round.is_multiple_of(2)
}

/// The arrays, and the loops that have run on them.
#[derive(Debug)]
pub struct Stream {
    a: Array,
    b: Array,
    c: Array,
    kernel: Loop,
    /// True if each of the other three loops runs once after the rounds.
    is_whole: bool,
    threads: usize,
    /// The loops in the order in which they ran, each with the number of its earlier runs.
    done: Vec<(Loop, u32)>,
}

impl Stream {
    /// Allocates three arrays that fit into the footprint together. The rounds run the loop `only`.
    /// If it is `None`, they run triad, and the other loops run once afterwards.
    ///
    /// # Errors
    /// When the footprint is less than three pages, or memory cannot be allocated.
    pub fn new(
        memory: &Memory,
        footprint: u64,
        threads: usize,
        only: Option<Loop>,
    ) -> Result<Self, SetupError> {
        let bytes = array_bytes(footprint)?;
        let array = || memory.array(bytes);
        let (a, b, c) = (array()?, array()?, array()?);
        let (kernel, is_whole) = (only.unwrap_or(Loop::Triad), only.is_none());
        let mut stream = Self { a, b, c, kernel, is_whole, threads, done: vec![] };
        stream.each(&|first, a, b, c| {
            for (at, ((a, b), c)) in a.iter_mut().zip(b).zip(c).enumerate() {
                [*a, *b, *c] = start(first + at);
            }
        });
        Ok(stream)
    }

    /// Divides the three arrays into chunks, one for each thread. A thread calls `work` with the
    /// index of its first element, and with its chunk of each array.
    fn each(&mut self, work: &(impl Fn(usize, &mut [f64], &mut [f64], &mut [f64]) + Sync)) {
        let share = team::share::<f64>(self.a.of::<f64>().len(), self.threads);
        let a = self.a.of_mut::<f64>().chunks_mut(share);
        let b = self.b.of_mut::<f64>().chunks_mut(share);
        let c = self.c.of_mut::<f64>().chunks_mut(share);
        let parts = a.zip(b).zip(c).enumerate().collect();
        team::each(parts, |(at, ((a, b), c))| work(at * share, a, b, c));
    }

    fn once(&mut self, which: Loop) -> Work {
        let earlier = self.done.iter().rev().find(|(other, _)| *other == which);
        let round = earlier.map_or(0, |(_, round)| round + 1);
        self.done.push((which, round));
        let scalar = scalar(round);
        match (which, is_other(round)) {
            (Loop::Copy, false) => self.each(&|_, a, _, c| c.copy_from_slice(a)),
            (Loop::Copy, true) => self.each(&|_, _, b, c| c.copy_from_slice(b)),
            (Loop::Scale, _) => self.each(&|_, _, b, c| {
                b.iter_mut().zip(c).for_each(|(b, c)| *b = scalar * *c);
            }),
            (Loop::Add, false) => self.each(&|_, a, b, c| {
                c.iter_mut().zip(a).zip(b).for_each(|((c, a), b)| *c = *a + *b);
            }),
            (Loop::Add, true) => self.each(&|_, a, b, c| {
                b.iter_mut().zip(a).zip(c).for_each(|((b, a), c)| *b = *a + *c);
            }),
            (Loop::Triad, _) => self.each(&|_, a, b, c| {
                a.iter_mut().zip(b).zip(c).for_each(|((a, b), c)| *a = *b + scalar * *c);
            }),
        }
        let (elements, bytes) = (self.a.of::<f64>().len() as u64, self.a.of::<u8>().len() as u64);
        let (arrays, flops) = match which {
            Loop::Copy => (2, 0),
            Loop::Scale => (2, 1),
            Loop::Add => (3, 1),
            Loop::Triad => (3, 2),
        };
        Work { bytes: arrays * bytes, flops: flops * elements, ..Work::default() }
    }
}

/// Returns the bytes of each of the three arrays: a third of the footprint, in whole cache lines.
///
/// # Errors
/// When the footprint is less than three pages.
pub(crate) fn array_bytes(footprint: u64) -> Result<usize, SetupError> {
    at_least("stream", footprint, 3 * 4096)?;
    Ok(footprint as usize / 3 / 64 * 64)
}

/// Returns the initial values of element `at` of a, b and c. They are small integers, so the
/// arithmetic of the rounds is exact. The elements of a page and of its neighbouring pages all
/// differ.
fn start(at: usize) -> [f64; 3] {
    let at = (at % 1_000_003) as f64;
    [at, at + 1.0, 2.0 * at + 1.0]
}

impl Kernel for Stream {
    fn footprint(&self) -> u64 {
        3 * self.a.of::<u8>().len() as u64
    }

    fn round(&mut self) -> Work {
        self.once(self.kernel)
    }

    fn beside(&mut self) -> Vec<(&'static str, Work, f64)> {
        let others = Loop::ALL.into_iter().filter(|(_, which)| *which != self.kernel);
        let others = others.filter(|_| self.is_whole).collect::<Vec<_>>();
        let mut timed = |(name, which)| {
            let begun = Instant::now();
            let work = self.once(which);
            (name, work, begun.elapsed().as_secs_f64())
        };
        others.into_iter().map(&mut timed).collect()
    }

    fn verify(&mut self) -> Result<(), Wrong> {
        // A round of add reads the result of the previous round of add, so compute all of them
        // again. A round of any other loop overwrites the result of the same loop's previous round,
        // so of successive rounds of such a loop, compute only the last one again.
        let mut steps: Vec<(Loop, u32)> = vec![];
        for (which, round) in &self.done {
            let is_again = steps.last().is_some_and(|(last, _)| last == which);
            if is_again && *which != Loop::Add {
                steps.pop();
            }
            steps.push((*which, *round));
        }
        let arrays = self.a.of::<f64>().iter().zip(self.b.of::<f64>()).zip(self.c.of::<f64>());
        for (at, ((a, b), c)) in arrays.enumerate() {
            let [mut x, mut y, mut z] = start(at);
            for (step, round) in &steps {
                step.apply(*round, [&mut x, &mut y, &mut z]);
            }
            let same = [(*a, x), (*b, y), (*c, z)];
            for (name, (found, expected)) in ["a", "b", "c"].into_iter().zip(same) {
                if found.to_bits() != expected.to_bits() {
                    let what = format!("{name}[{at}]");
                    let (found, expected) = (found.to_string(), expected.to_string());
                    return Err(Wrong { what, found, expected });
                }
            }
        }
        Ok(())
    }

    fn checksum(&self) -> u64 {
        self.a.of::<u64>().iter().fold(0, |sum, value| mixed(sum, *value))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;

    #[test]
    fn every_round_of_every_loop_changes_every_page_that_it_writes() {
        for (name, which) in Loop::ALL {
            let mut stream = Stream::new(&Memory::Heap, 3 * (16 << 10), 2, Some(which)).unwrap();
            stream.round();
            for round in 1..6 {
                let pages = |stream: &Stream| {
                    let arrays = [&stream.a, &stream.b, &stream.c];
                    let pages = arrays.map(|it| it.of::<u64>().chunks(512));
                    pages.into_iter().flatten().map(<[u64]>::to_vec).collect::<Vec<_>>()
                };
                let before = pages(&stream);
                stream.round();
                let after = pages(&stream);
                let changed = before.iter().zip(&after).filter(|(a, b)| a != b).count();
                assert_eq!(changed, 4, "{name}, round {round}: the pages of one array");
            }
            stream.verify().unwrap();
        }
    }

    #[test]
    fn a_wrong_element_is_found_after_rounds_of_any_loop() {
        for (name, which) in Loop::ALL {
            let mut stream = Stream::new(&Memory::Heap, 3 * 4096, 1, Some(which)).unwrap();
            for _ in 0..3 {
                stream.round();
            }
            stream.verify().unwrap();
            stream.c.of_mut::<f64>()[17] += 1.0;
            let why = stream.verify().unwrap_err().to_string();
            assert!(why.starts_with("c[17]"), "{name}: {why}");
        }
    }
}
