//! STREAM (McCalpin): copy, scale, add and triad over three arrays, counted as STREAM counts: what
//! a loop names, without what a cache reads before it is overwritten.
//!
//! Rounds are those of one of the four; the other three are run once behind them. Every element
//! begins with another value, and each is computed again in the end, so that a page that came back
//! as another one is noticed.

use crate::{
    Kernel, SetupError, Work, Wrong, at_least,
    memory::{Array, Memory},
    mixed, team,
};
use std::time::Instant;

const SCALAR: f64 = 3.0;

/// One of the four loops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loop {
    /// c = a
    Copy,
    /// b = 3 c
    Scale,
    /// c = a + b
    Add,
    /// a = b + 3 c
    Triad,
}

impl Loop {
    /// All four, in the order of STREAM.
    pub const ALL: [(&'static str, Self); 4] =
        [("copy", Self::Copy), ("scale", Self::Scale), ("add", Self::Add), ("triad", Self::Triad)];

    fn apply(self, a: &mut f64, b: &mut f64, c: &mut f64) {
        match self {
            Self::Copy => *c = *a,
            Self::Scale => *b = SCALAR * *c,
            Self::Add => *c = *a + *b,
            Self::Triad => *a = *b + SCALAR * *c,
        }
    }
}

/// The arrays, and what was done with them.
#[derive(Debug)]
pub struct Stream {
    a: Array,
    b: Array,
    c: Array,
    kernel: Loop,
    /// Whether the other three are run too.
    is_whole: bool,
    threads: usize,
    done: Vec<Loop>,
}

impl Stream {
    /// Three arrays that are as large as the footprint.
    ///
    /// # Errors
    /// When that is too little or too much.
    pub fn new(
        memory: &Memory,
        footprint: u64,
        threads: usize,
        only: Option<Loop>,
    ) -> Result<Self, SetupError> {
        at_least("stream", footprint, 3 * 4096)?;
        let bytes = footprint as usize / 3 / 64 * 64;
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

    /// The three arrays in as many parts as there are threads, each with the place of its first.
    fn each(&mut self, work: &(impl Fn(usize, &mut [f64], &mut [f64], &mut [f64]) + Sync)) {
        let share = team::share::<f64>(self.a.of::<f64>().len(), self.threads);
        let a = self.a.of_mut::<f64>().chunks_mut(share);
        let b = self.b.of_mut::<f64>().chunks_mut(share);
        let c = self.c.of_mut::<f64>().chunks_mut(share);
        let parts = a.zip(b).zip(c).enumerate().collect();
        team::each(parts, |(at, ((a, b), c))| work(at * share, a, b, c));
    }

    fn once(&mut self, which: Loop) -> Work {
        self.done.push(which);
        match which {
            Loop::Copy => self.each(&|_, a, _, c| c.copy_from_slice(a)),
            Loop::Scale => self.each(&|_, _, b, c| {
                b.iter_mut().zip(c).for_each(|(b, c)| *b = SCALAR * *c);
            }),
            Loop::Add => self.each(&|_, a, b, c| {
                c.iter_mut().zip(a).zip(b).for_each(|((c, a), b)| *c = *a + *b);
            }),
            Loop::Triad => self.each(&|_, a, b, c| {
                a.iter_mut().zip(b).zip(c).for_each(|((a, b), c)| *a = *b + SCALAR * *c);
            }),
        }
        let (elements, bytes) = (self.a.of::<f64>().len() as u64, self.a.of::<u8>().len() as u64);
        let (arrays, flops) = match which {
            Loop::Copy => (2, 0),
            Loop::Scale => (2, 1),
            Loop::Add => (3, 1),
            Loop::Triad => (3, 2),
        };
        Work { bytes: arrays * bytes, flops: flops * elements, accesses: 0 }
    }
}

/// Small whole numbers, so that some thousand rounds are exact, and different in every element of
/// a page and in neighbouring pages.
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
        // Rounds of triad alone give the same again: one stands for all of them.
        let mut steps = self.done.clone();
        steps.dedup_by(|a, b| a == b);
        let arrays = self.a.of::<f64>().iter().zip(self.b.of::<f64>()).zip(self.c.of::<f64>());
        for (at, ((a, b), c)) in arrays.enumerate() {
            let [mut x, mut y, mut z] = start(at);
            steps.iter().for_each(|step| step.apply(&mut x, &mut y, &mut z));
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
