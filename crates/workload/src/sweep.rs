//! Reads an array as large as the footprint: each word in order, or one word of each page. In the
//! latter case, successive reads are a stride of whole pages apart.

use crate::{
    Kernel, PAGE, SetupError, Work, Wrong, array_bytes,
    memory::{Array, Memory},
    mixed, team, word,
};

/// The number of 64-bit words of a page.
const WORDS: usize = PAGE / size_of::<u64>();

/// An array that the rounds only read, and the checksums of the words that they read.
#[derive(Debug)]
pub struct Sweep {
    array: Array,
    threads: usize,
    /// Bytes from one access to the next. With `None`, every word is read.
    stride: Option<usize>,
    rounds: u64,
    /// The checksums of all rounds, combined in the order of the rounds.
    sum: u64,
    /// The value of `sum` that `verify` expects.
    right: u64,
}

impl Sweep {
    /// Allocates and fills an array. A round reads one word per page with the stride `stride`,
    /// bytes, rounded up to whole pages. If `stride` is `None`, a round reads every word. The array
    /// is as large as the footprint, rounded down to whole strides, or to whole pages without a
    /// stride.
    ///
    /// # Errors
    /// When the footprint is less than a stride for each thread (without a stride, a page), or
    /// memory cannot be allocated.
    pub fn new(
        memory: &Memory,
        footprint: u64,
        threads: usize,
        stride: Option<u64>,
    ) -> Result<Self, SetupError> {
        let stride = stride.map(whole_pages);
        let (what, unit) = stride.map_or(("seq", PAGE), |stride| ("stride", stride));
        let array = memory.array(array_bytes(what, footprint, threads, unit)?)?;
        let mut sweep = Self { array, threads, stride, rounds: 0, sum: 0, right: 0 };
        let share = sweep.share();
        let parts = sweep.array.of_mut::<u64>().chunks_mut(share).enumerate().collect();
        team::each(parts, |(at, part): (usize, &mut [u64])| {
            part.iter_mut().enumerate().for_each(|(i, value)| *value = word(at * share + i));
        });
        Ok(sweep)
    }

    /// Returns the number of words in a thread's chunk of the array. It has whole strides, or whole
    /// pages if every word is read. The last chunk may be shorter.
    fn share(&self) -> usize {
        let step = self.stride.unwrap_or(PAGE) / size_of::<u64>();
        self.array.of::<u64>().len().div_ceil(self.threads).next_multiple_of(step)
    }

    /// Reads the array and returns a checksum, which depends on the order of the accesses. With a
    /// stride, it combines the words that are read; without a stride, the sums of the words of each
    /// page.
    fn read(&self) -> u64 {
        let stride = self.stride.map(|stride| stride / size_of::<u64>());
        let parts = self.array.of::<u64>().chunks(self.share()).collect();
        let sums = team::each(parts, |part: &[u64]| match stride {
            None => part.chunks(WORDS).fold(0, |sum, page| mixed(sum, total(page))),
            Some(stride) => strided(part.len(), stride).fold(0, |sum, at| mixed(sum, part[at])),
        });
        sums.into_iter().fold(0, mixed)
    }

    /// Returns the checksum that [`Self::read`] must return. It is computed from the initial
    /// contents, and the array is not read.
    fn expected(&self) -> u64 {
        let (length, share) = (self.array.of::<u64>().len(), self.share());
        let stride = self.stride.map(|stride| stride / size_of::<u64>());
        let starts: Vec<usize> = (0..length).step_by(share).collect();
        let sums = team::each(starts, |first| {
            let words = share.min(length - first);
            match stride {
                None => (first..first + words)
                    .step_by(WORDS)
                    .map(|page| {
                        (page..page + WORDS).fold(0, |sum: u64, at| sum.wrapping_add(word(at)))
                    })
                    .fold(0, mixed),
                Some(stride) => {
                    strided(words, stride).fold(0, |sum, at| mixed(sum, word(first + at)))
                }
            }
        });
        sums.into_iter().fold(0, mixed)
    }
}

/// Returns a stride in bytes, rounded up to whole pages.
pub(crate) fn whole_pages(stride: u64) -> usize {
    (stride as usize).next_multiple_of(PAGE)
}

fn total(page: &[u64]) -> u64 {
    page.iter().fold(0, |sum, value| sum.wrapping_add(*value))
}

/// Returns the index of the first word of each page in an array of `words` words, in the order of
/// access: the first page of each stride, then the second page of each stride, and so on. `stride`
/// is in words.
pub(crate) fn strided(words: usize, stride: usize) -> impl Iterator<Item = usize> {
    (0..stride).step_by(WORDS).flat_map(move |first| (first..words).step_by(stride))
}

impl Kernel for Sweep {
    fn footprint(&self) -> u64 {
        self.array.of::<u8>().len() as u64
    }

    fn round(&mut self) -> Work {
        let sum = self.read();
        self.sum = mixed(self.sum, sum);
        self.rounds += 1;
        let (bytes, pages) = (self.footprint(), self.footprint() / PAGE as u64);
        match self.stride {
            None => Work { bytes, ..Work::default() },
            Some(_) => Work { bytes: 8 * pages, accesses: pages, ..Work::default() },
        }
    }

    fn verify(&mut self) -> Result<(), Wrong> {
        let expected = self.expected();
        self.right = (0..self.rounds).fold(0, |sum, _| mixed(sum, expected));
        if self.sum == self.right {
            return Ok(());
        }
        let what = format!("the sum over {} rounds", self.rounds);
        let (found, expected) = (format!("{:#x}", self.sum), format!("{:#x}", self.right));
        Err(Wrong { what, found, expected })
    }

    fn checksum(&self) -> u64 {
        self.sum
    }
}
