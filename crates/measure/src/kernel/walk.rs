//! Makes the accesses of one thread to its memory, and verifies the loaded and stored words.

#![expect(unsafe_code, reason = "loops are handed addresses")]

use super::{
    BATCH, Kernel, LINE, PAGE_BYTES,
    contents::Contents,
    job::Job,
    native,
    order::{Batches, VisitOrder},
};
use crate::{
    region::Region,
    traffic::{Pattern, Traffic},
};
use std::{ops::Range, ptr};

/// The number of lines that a thread accesses between two checks of the team's stop flag: 256 KiB,
/// which take 10 us or more.
const CHUNK_LINES: usize = 4096;

/// Minimum number of lines of a buffer in random order. With at least this number, the order
/// consists of whole batches of [`BATCH`] lines.
const ORDER_LINES_MIN: usize = 64 * BATCH;

/// The number of lines in a base page.
const PAGE_LINES: usize = PAGE_BYTES / LINE;

/// The error of wrong contents of memory: a kernel did not make the reads or writes of its traffic,
/// or the memory is faulty.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// The walk accessed no memory, so there is nothing to verify.
    #[error("the memory was not used")]
    Unused,
    /// The sum of the words that were read is wrong.
    #[error(
        "{kernel} read lines {from} to {to} of its memory: they sum up to {sum:#x}, and must to \
         {expected:#x}"
    )]
    Read {
        /// The name of the traffic kernel.
        kernel: String,
        /// The index of the first line that was read. In random order, it is the index of the first
        /// line of the first read buffer.
        from: usize,
        /// The index after the last line that was read. In random order, it is the end of the first
        /// read buffer.
        to: usize,
        /// The sum of the words that were read.
        sum: u64,
        /// The sum that the words should have.
        expected: u64,
    },
    /// A word of memory is not the word that was stored to its address.
    #[error("{kernel} wrote line {line} of its memory: it holds {word:#x}, and must {expected:#x}")]
    Written {
        /// The name of the traffic kernel.
        kernel: String,
        /// The index of the line in the memory of the thread.
        line: usize,
        /// The word that was found.
        word: u64,
        /// The word that was stored last, or the initial word if no pass has stored this line.
        expected: u64,
    },
}

/// The numbers of lines that a walk loaded and stored, and the verified sums of their words.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Checksums {
    /// The number of lines that were loaded.
    pub loaded: u64,
    /// The sum of all loaded words, modulo 2^64.
    pub loaded_sum: u64,
    /// The number of lines that were stored.
    pub stored: u64,
    /// The sum of all words in the buffer of the stores at the end of the walk, modulo 2^64.
    pub stored_sum: u64,
}

/// The memory that one thread loads from and stores to, and the current position in it.
#[derive(Debug)]
pub struct Walk {
    region: Region,
    contents: Contents,
    kernel: Kernel,
    loads: usize,
    stores: usize,
    /// `read` has the lines of each buffer to load from (at most two buffers), and `write` has the
    /// lines of the buffer to store to.
    read: Vec<Range<usize>>,
    write: Range<usize>,
    /// A pass accesses all lines of the memory once, in `rounds` rounds of the kernel. `round` is
    /// the number of completed rounds of the current pass.
    rounds: usize,
    round: usize,
    /// The 1-based number of the current pass over the memory.
    pass: u64,
    /// The random order of each buffer of `read`, followed by the random order of `write`; `None`
    /// if lines are accessed in sequence.
    orders: Option<Vec<Batches>>,
    sums: Checksums,
}

/// The error of a memory that is too small for a traffic kernel and its traffic.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{bytes} bytes are too few for {kernel} with {traffic}: at least {least} are needed")]
pub struct TooSmall {
    /// The length of the memory, bytes.
    pub bytes: usize,
    /// The name of the traffic kernel.
    pub kernel: String,
    pub traffic: Traffic,
    /// Minimum length of the memory for this kernel and traffic, bytes.
    pub least: usize,
}

impl TooSmall {
    /// Returns the minimum length of the memory, rounded up to whole MiB.
    pub const fn mebibytes(&self) -> usize {
        self.least.div_ceil(1 << 20)
    }
}

impl Walk {
    /// Makes a walk over `region`, which is filled with the contents that the checks expect. The
    /// accesses begin at the first line.
    ///
    /// # Errors
    /// When the memory is too small for a single round of the kernel or, in random order, for
    /// buffers of `ORDER_LINES_MIN` lines.
    pub fn new(
        mut region: Region,
        traffic: &Traffic,
        pattern: Pattern,
        kernel: Kernel,
        seed: u64,
    ) -> Result<Self, TooSmall> {
        let contents = Contents { seed };
        let (loads, stores) = (traffic.loads as usize, traffic.stores as usize);
        let buffers = kernel.read_buffers(traffic);
        // Each buffer begins at a page boundary, so up to a page before each buffer is unused.
        let lines = (region.bytes() / LINE).saturating_sub((buffers + 1) * PAGE_LINES);
        let block = if pattern == Pattern::Random { BATCH } else { kernel.block_lines() };
        let rounds = lines / (block * (loads + stores));
        // In random order, each buffer must have at least `ORDER_LINES_MIN` lines.
        let rounds_min = if pattern == Pattern::Random { ORDER_LINES_MIN / BATCH } else { 1 };
        if rounds < rounds_min {
            let block = block * rounds_min;
            let lines = block * (loads + stores) + (buffers + 1) * PAGE_LINES;
            return Err(TooSmall {
                bytes: region.bytes(),
                kernel: kernel.to_string(),
                traffic: *traffic,
                least: lines * LINE,
            });
        }
        let mut next = 0;
        let mut buffer = |lines: usize| {
            let start = next;
            next = (start + lines).next_multiple_of(PAGE_LINES);
            start..start + lines
        };
        let read: Vec<_> = (0..buffers).map(|_| buffer(rounds * block * loads / buffers)).collect();
        let write = buffer(rounds * block * stores);
        fill(&mut region, contents);
        let mut walk = Self {
            region,
            contents,
            kernel,
            loads,
            stores,
            read,
            write,
            rounds,
            round: 0,
            pass: 1,
            orders: None,
            sums: Checksums::default(),
        };
        if pattern == Pattern::Random {
            walk.shuffle(seed);
        }
        Ok(walk)
    }

    /// Gives each buffer its own random order. An order visits a whole number of sheets of lines,
    /// so the lines after the last whole sheet are removed from the end of the buffer.
    fn shuffle(&mut self, seed: u64) {
        let shuffled = |lines: &mut Range<usize>| {
            let order = VisitOrder::new(lines.len(), seed.wrapping_add(lines.start as u64));
            lines.end = lines.start + order.lines().min(lines.len());
            Batches::new(order)
        };
        let mut orders: Vec<Batches> = self.read.iter_mut().map(shuffled).collect();
        orders.push(shuffled(&mut self.write));
        self.orders = Some(orders);
    }

    pub const fn kernel(&self) -> Kernel {
        self.kernel
    }

    /// Returns the memory of the walk, for another measurement.
    pub fn into_region(self) -> Region {
        self.region
    }

    pub const fn region(&self) -> &Region {
        &self.region
    }

    /// Accesses about 256 KiB, and returns the number of lines accessed.
    ///
    /// # Errors
    /// When the sum of the words read is wrong.
    #[inline]
    pub fn chunk(&mut self) -> Result<u64, Fault> {
        self.advance(CHUNK_LINES)
    }

    /// Accesses `lines` lines, rounded up to whole rounds of the kernel. Sequential accesses stop
    /// at the end of the memory. Random accesses start the random order again after its last line.
    /// Returns the number of lines accessed.
    ///
    /// # Errors
    /// Under the conditions of [`Walk::chunk`].
    pub fn advance(&mut self, lines: usize) -> Result<u64, Fault> {
        match self.orders.take() {
            None => self.advance_in_order(lines),
            Some(mut orders) => {
                let done = self.advance_at_random(lines, &mut orders);
                self.orders = Some(orders);
                done
            }
        }
    }

    fn advance_in_order(&mut self, lines: usize) -> Result<u64, Fault> {
        let block = self.kernel.block_lines();
        let rounds = lines.div_ceil(block * (self.loads + self.stores));
        let rounds = rounds.clamp(1, self.rounds - self.round);
        let per_buffer = |count: usize, buffers: usize| {
            let lines = block * count / buffers.max(1);
            self.round * lines..(self.round + rounds) * lines
        };
        let read = per_buffer(self.loads, self.read.len());
        let write = per_buffer(self.stores, 1);
        let groups = rounds * self.kernel.groups_in_round();
        // The loop of a kernel that only loads or only stores counts units, not groups. The number
        // of groups is therefore multiplied by the number of units in a group.
        let alone = if self.loads == 0 || self.stores == 0 { self.loads + self.stores } else { 1 };
        let start = self.region.start();
        let at =
            |buffer: &Range<usize>, line: usize| start.wrapping_add((buffer.start + line) * LINE);
        let source = |index: usize| {
            self.read.get(index).map_or(ptr::null(), |it| at(it, read.start).cast_const())
        };
        let mut job = Job {
            sum: [0; 8],
            read: [source(0), source(1)],
            write: at(&self.write, write.start),
            loads: self.loads as u64,
            stores: self.stores as u64,
            groups: (groups * alone) as u64,
            word: self.contents.stored(self.pass),
        };
        // SAFETY: `new` placed the lines of a whole pass over each buffer within the mapped region,
        // and each buffer at a page boundary. The rounds of this job are within the pass. No other
        // thread uses the region, and the machine has the instruction set of the kernel.
        unsafe { (self.kernel.run)(&mut job) };
        let (loaded, stored) = (read.len() * self.read.len(), write.len());
        let of = |buffer: &Range<usize>| buffer.start + read.start..buffer.start + read.end;
        let expected = self.read.iter().map(|buffer| self.contents.sum(of(buffer)));
        let expected = expected.fold(0, u64::wrapping_add);
        let first = self.read.first().map_or(0..0, of);
        self.count(&job, loaded, stored, expected, first)?;
        self.round += rounds;
        if self.round == self.rounds {
            self.round = 0;
            self.pass += 1;
            native::fence();
        }
        Ok((loaded + stored) as u64)
    }

    fn advance_at_random(&mut self, lines: usize, orders: &mut [Batches]) -> Result<u64, Fault> {
        let groups = lines.div_ceil(BATCH * (self.loads + self.stores)).max(1);
        let start = self.region.start();
        let at = |buffer: &Range<usize>| start.wrapping_add(buffer.start * LINE);
        let [mut count, mut numbers] = [0_u64; 2];
        let mut job = Job {
            sum: [0; 8],
            read: [ptr::null(); 2],
            write: at(&self.write),
            loads: 0,
            stores: 0,
            groups: 0,
            word: 0,
        };
        let buffers = self.read.len();
        for _ in 0..groups {
            for load in 0..self.loads {
                let buffer = &self.read[load % buffers];
                let (lines, ahead) = orders[load % buffers].next();
                job.read[0] = at(buffer).cast_const();
                // SAFETY: the order of a buffer gives only lines of this buffer, which is within
                // the mapped region.
                unsafe { (self.kernel.gather)(&mut job, &lines, ahead) };
                let distances: usize = lines.iter().sum();
                numbers += (distances / LINE + BATCH * buffer.start) as u64;
                count += BATCH as u64;
            }
            for _ in 0..self.stores {
                self.scatter(&mut job, &mut orders[buffers]);
            }
        }
        let expected = self.contents.sum_of_lines(count, numbers);
        let stored = groups * BATCH * self.stores;
        let first = self.read.first().cloned().unwrap_or(0..0);
        self.count(&job, count as usize, stored, expected, first)?;
        Ok(count + stored as u64)
    }

    /// Stores the word of the current pass to the next batch of lines of `order`. If this batch
    /// ends a cycle through all lines, the next pass begins.
    fn scatter(&mut self, job: &mut Job, order: &mut Batches) {
        job.word = self.contents.stored(self.pass);
        let (lines, ahead) = order.next();
        // SAFETY: the order of the buffer gives only lines of this buffer, which is within the
        // mapped region; no other thread uses the region.
        unsafe { (self.kernel.scatter)(job, &lines, ahead) };
        if order.ends_cycle() {
            self.pass += 1;
            native::fence();
        }
    }

    /// Compares the sum of the words that `job` loaded with `expected`. If the sums are equal, adds
    /// the numbers of loaded and stored lines to the checksums. Otherwise, the error names `lines`,
    /// the lines that were read.
    fn count(
        &mut self,
        job: &Job,
        loaded: usize,
        stored: usize,
        expected: u64,
        lines: Range<usize>,
    ) -> Result<(), Fault> {
        let sum = job.sum.iter().fold(0, |sum: u64, word| sum.wrapping_add(*word));
        if sum != expected {
            let kernel = self.kernel.to_string();
            return Err(Fault::Read { kernel, from: lines.start, to: lines.end, sum, expected });
        }
        self.sums.loaded += loaded as u64;
        self.sums.loaded_sum = self.sums.loaded_sum.wrapping_add(sum);
        self.sums.stored += stored as u64;
        Ok(())
    }

    /// Checks that each line of the buffer of the stores (`write`) contains the word of the last
    /// pass that stored the line. A line that no pass has stored must have its initial contents.
    ///
    /// # Errors
    ///
    /// When a word is wrong. The error names the first line with a wrong word.
    pub fn verify(&mut self) -> Result<Checksums, Fault> {
        native::fence();
        let (now, before) = (self.contents.stored(self.pass), self.contents.stored(self.pass - 1));
        let done = self.done_of_pass();
        let words = self.region.words();
        let mut sum = 0_u64;
        for (line, done) in self.write.clone().zip(done) {
            for (at, &word) in words.iter().enumerate().skip(line * 8).take(8) {
                let expected = match (done, self.pass) {
                    (true, _) => now,
                    (false, 1) => self.contents.word(at),
                    (false, _) => before,
                };
                if word != expected {
                    let kernel = self.kernel.to_string();
                    return Err(Fault::Written { kernel, line, word, expected });
                }
                sum = sum.wrapping_add(word);
            }
        }
        self.sums.stored_sum = sum;
        Ok(self.sums)
    }

    /// Returns, for each line of the buffer of the stores, true if the current pass has stored the
    /// line.
    fn done_of_pass(&self) -> Vec<bool> {
        let Some(orders) = &self.orders else {
            let done = self.round * self.kernel.block_lines() * self.stores;
            return (0..self.write.len()).map(|line| line < done).collect();
        };
        let mut done = vec![false; self.write.len()];
        if let (Some(order), false) = (orders.last(), done.is_empty()) {
            order.touched().for_each(|line| done[line] = true);
        }
        done
    }
}

/// Fills the memory with the initial contents, which the checks of loads and stores expect.
fn fill(region: &mut Region, contents: Contents) {
    for (at, word) in region.words_mut().iter_mut().enumerate() {
        *word = contents.word(at);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;
    use crate::{isa::Isa, region::Pages};
    use interleaf_linux::place::mempolicy::Policy;
    use proptest::prelude::*;

    const PATTERNS: [Pattern; 2] = [Pattern::Sequential, Pattern::Random];

    fn region(bytes: usize) -> Region {
        Region::new(bytes, Pages::Small, &Policy::Default).unwrap()
    }

    /// Returns the fastest known kernels and all candidates of an instruction set.
    fn kernels(isa: Isa) -> Vec<Kernel> {
        let mut all = Kernel::chosen(isa);
        all.extend(Kernel::candidates(isa));
        all
    }

    /// Returns every kernel of this machine, with each traffic that the kernel serves and each
    /// access pattern.
    fn all() -> Vec<(Kernel, Traffic, Pattern)> {
        let mut all = vec![];
        for kernel in Isa::available().into_iter().flat_map(kernels) {
            for traffic in Traffic::all().into_iter().filter(|traffic| kernel.serves(traffic)) {
                all.extend(PATTERNS.map(|pattern| (kernel, traffic, pattern)));
            }
        }
        all
    }

    /// Returns traffic with a read share of 0, 5, 10 .. 100 %, with ordinary and with non-temporal
    /// stores. Traffic with ordinary stores has a read share of at least 50 %, because each
    /// ordinary store also reads its line.
    fn shares() -> Vec<Traffic> {
        let share = |percent| [false, true].map(|past| Traffic::of_read_share(percent, past));
        (0..=100).step_by(5).flat_map(share).flatten().collect()
    }

    #[test]
    fn every_share_of_reads_is_verified() {
        for traffic in shares() {
            let kernel = Kernel::best_here(&traffic).unwrap();
            let mut walk = Walk::new(region(1), &traffic, Pattern::Sequential, kernel, 9).unwrap();
            (0..20).try_for_each(|_| walk.chunk().map(drop)).unwrap();
            let sums = walk.verify().unwrap();
            let ratio = u64::from(traffic.stores) * sums.loaded;
            assert_eq!(ratio, u64::from(traffic.loads) * sums.stored, "{kernel} {traffic}");
        }
    }

    #[test]
    fn every_traffic_has_a_kernel_of_every_instruction_set() {
        for isa in Isa::available() {
            for traffic in Traffic::all() {
                assert!(Kernel::best(isa, &traffic).is_some(), "{isa} {traffic}");
            }
        }
        assert!(Traffic::all().iter().all(|traffic| Kernel::best_here(traffic).is_some()));
    }

    #[test]
    fn every_kernel_issues_its_traffic() {
        for (kernel, traffic, pattern) in all() {
            let mut walk = Walk::new(region(1), &traffic, pattern, kernel, 3).unwrap();
            // The walk must make some whole passes over the memory, and a part of another pass.
            let mut lines = 0;
            while lines < 3 * (2 << 20) / 64 {
                lines += walk.chunk().unwrap();
            }
            let sums = walk.verify().unwrap();
            assert_eq!(sums.loaded + sums.stored, lines, "{kernel} {traffic} {pattern:?}");
            let ratio = u64::from(traffic.stores) * sums.loaded;
            assert_eq!(ratio, u64::from(traffic.loads) * sums.stored, "{kernel} {traffic}");
        }
    }

    #[test]
    fn a_wrong_word_is_detected_at_any_line() {
        for (kernel, traffic, pattern) in all() {
            let mut walk = Walk::new(region(1), &traffic, pattern, kernel, 5).unwrap();
            let buffers = walk.read.clone();
            for buffer in buffers {
                for line in [buffer.start, buffer.end - 1] {
                    walk.region.words_mut()[line * 8 + 7] ^= 1 << 40;
                    let found = (0..20).any(|_| walk.chunk().is_err());
                    assert!(found, "{kernel} {traffic} {pattern:?} line {line}");
                    walk.region.words_mut()[line * 8 + 7] ^= 1 << 40;
                }
            }
            let write = walk.write.clone();
            walk.chunk().unwrap();
            if !write.is_empty() {
                for line in [write.start, write.end - 1] {
                    walk.region.words_mut()[line * 8] ^= 1;
                    let fault = walk.verify().unwrap_err();
                    assert!(matches!(fault, Fault::Written { line: at, .. } if at == line));
                    walk.region.words_mut()[line * 8] ^= 1;
                }
                walk.verify().unwrap();
            }
        }
    }

    #[test]
    fn exchanged_words_are_detected() {
        // Two words of different chunks are exchanged. The sum of all words does not change, but
        // the sums of both chunks do, so the walk must report a fault.
        let kernel = Kernel::best(Isa::available()[0], &Traffic::READ).unwrap();
        let mut walk =
            Walk::new(region(1), &Traffic::READ, Pattern::Sequential, kernel, 5).unwrap();
        let last = walk.region.words().len() / 2;
        walk.region.words_mut().swap(0, last);
        assert!((0..20).any(|_| walk.chunk().is_err()));
    }

    #[test]
    fn a_small_memory_is_refused() {
        let kernel = Kernel::best(Isa::available()[0], &Traffic::READ).unwrap();
        let many = Traffic { loads: 40_000, ..Traffic::READ };
        let why = Walk::new(region(1), &many, Pattern::Sequential, kernel, 5).unwrap_err();
        assert!(why.to_string().contains("at least"), "{why}");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]
        #[test]
        fn any_size_and_any_steps_are_right(
            megabytes in 1_usize..8,
            which: prop::sample::Index,
            steps in prop::collection::vec(1_usize..20_000, 1..40),
            seed: u64,
        ) {
            let all = all();
            let (kernel, traffic, pattern) = all[which.index(all.len())];
            let mut walk = Walk::new(region(megabytes << 20), &traffic, pattern, kernel, seed);
            let walk = walk.as_mut().unwrap();
            let mut lines = 0;
            for step in steps {
                lines += walk.advance(step).unwrap();
            }
            let sums = walk.verify().unwrap();
            prop_assert_eq!(sums.loaded + sums.stored, lines);
        }
    }
}
