//! Accesses to single words at uniformly random indices of an array. An access reads a word, and
//! may also write it.

use crate::{
    Kernel, PAGE, SetupError, Work, Wrong, array_bytes,
    memory::{Array, Memory},
    mixed, team, word,
};
use rand::{RngCore, SeedableRng};
use rand_pcg::Pcg64Mcg;

const WORDS: usize = PAGE / size_of::<u64>();

/// An array, and the seed of the indices that are accessed.
#[derive(Debug)]
pub struct Random {
    array: Array,
    threads: usize,
    is_writing: bool,
    seed: u64,
    rounds: u64,
    /// The number of reads that returned a wrong value. It is counted only if the workload does not
    /// write.
    wrong: u64,
    sum: u64,
}

impl Random {
    /// Allocates and fills an array as large as the footprint, rounded down to whole pages. If
    /// `is_writing`, each access also adds 1 to the word.
    ///
    /// # Errors
    /// When the footprint is less than a page for each thread, or memory cannot be allocated.
    pub fn new(
        memory: &Memory,
        footprint: u64,
        threads: usize,
        is_writing: bool,
        seed: u64,
    ) -> Result<Self, SetupError> {
        let mut array = memory.array(array_bytes("random", footprint, threads, PAGE)?)?;
        let share = team::share::<u64>(array.of::<u64>().len(), threads);
        let parts = array.of_mut::<u64>().chunks_mut(share).enumerate().collect();
        team::each(parts, |(at, part): (usize, &mut [u64])| {
            part.iter_mut().enumerate().for_each(|(i, value)| *value = word(at * share + i));
        });
        Ok(Self { array, threads, is_writing, seed, rounds: 0, wrong: 0, sum: 0 })
    }

    fn share(&self) -> usize {
        team::share::<u64>(self.array.of::<u64>().len(), self.threads)
    }

    /// Returns the number of writes to each page in all rounds. It is computed from the seed, and
    /// the array is not read.
    fn counts(&self) -> Vec<u64> {
        let (length, share) = (self.array.of::<u64>().len(), self.share());
        let mut counts = vec![0; length.div_ceil(WORDS)];
        for round in 0..self.rounds {
            for (thread, first) in (0..length).step_by(share).enumerate() {
                let words = share.min(length - first);
                let places = places(self.seed, thread, round, words);
                places.for_each(|at| counts[(first + at) / WORDS] += 1);
            }
        }
        counts
    }
}

/// Returns the indices, each in `0..words`, of the words that thread `thread` accesses in a round.
/// A round has one access for each page that `words` words fill.
pub(crate) fn places(
    seed: u64,
    thread: usize,
    round: u64,
    words: usize,
) -> impl Iterator<Item = usize> {
    let mut random = Pcg64Mcg::seed_from_u64(seed ^ word(thread) ^ round.rotate_left(32));
    // The upper half of the product is uniform in `0..words`.
    let next = move || ((u128::from(random.next_u64()) * words as u128) >> 64) as usize;
    std::iter::repeat_with(next).take(words / WORDS)
}

impl Kernel for Random {
    fn footprint(&self) -> u64 {
        self.array.of::<u8>().len() as u64
    }

    fn round(&mut self) -> Work {
        let (share, length, round) = (self.share(), self.array.of::<u64>().len(), self.rounds);
        let seed = self.seed;
        let place =
            |(thread, first)| (first, places(seed, thread, round, share.min(length - first)));
        let parts: Vec<_> = (0..length).step_by(share).enumerate().map(place).collect();
        let is_writing = self.is_writing;
        let array = self.array.of_mut::<u64>().chunks_mut(share);
        let sums = team::each(parts.into_iter().zip(array).collect(), |((first, places), part)| {
            let (mut sum, mut wrong) = (0_u64, 0_u64);
            for at in places {
                let value = part[at];
                if is_writing {
                    part[at] = value.wrapping_add(1);
                } else {
                    wrong += u64::from(value != word(first + at));
                }
                sum = sum.wrapping_add(value);
            }
            (sum, wrong)
        });
        for (sum, wrong) in sums {
            self.sum = mixed(self.sum, sum);
            self.wrong += wrong;
        }
        self.rounds += 1;
        let accesses = (length / WORDS) as u64;
        Work { bytes: accesses * if is_writing { 16 } else { 8 }, accesses, ..Work::default() }
    }

    fn verify(&mut self) -> Result<(), Wrong> {
        if self.wrong > 0 {
            let what = "words that were read".into();
            let (found, expected) = (format!("{} wrong", self.wrong), "none".into());
            return Err(Wrong { what, found, expected });
        }
        if !self.is_writing {
            return Ok(());
        }
        for (page, count) in self.counts().into_iter().enumerate() {
            let words = &self.array.of::<u64>()[page * WORDS..];
            let words = &words[..WORDS.min(words.len())];
            let found = words.iter().fold(0_u64, |sum, value| sum.wrapping_add(*value));
            let first = page * WORDS;
            let places = first..first + words.len();
            let expected = places.fold(count, |sum, at| sum.wrapping_add(word(at)));
            if found != expected {
                let what = format!("the sum of page {page}");
                let (found, expected) = (format!("{found:#x}"), format!("{expected:#x}"));
                return Err(Wrong { what, found, expected });
            }
        }
        Ok(())
    }

    fn checksum(&self) -> u64 {
        self.sum
    }
}
