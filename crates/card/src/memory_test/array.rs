//! Simulates a memory of 32-bit words with injected faults.

use super::fault::{InjectedFault, MemoryCell};
use rand_pcg::{
    Pcg64Mcg,
    rand_core::{RngCore, SeedableRng},
};

/// The effect of a power cycle on the content of the memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PowerLoss {
    /// The content is undefined after the power cycle: DRAM without a save.
    Lost,
    /// The content is kept: STT-MRAM, and DRAM with a save.
    Kept,
}

/// The 32-bit words of an address range, with the injected faults and the effect of a power cycle.
#[derive(Clone, Debug)]
pub struct TestArray {
    start: u64,
    words: Vec<u32>,
    faults: Vec<InjectedFault>,
    power_loss: PowerLoss,
    random: Pcg64Mcg,
}

/// The words that an address accesses: one word or, with a faulty address decoder, no word or two
/// words. An address without a word reads as `reads`. A read of two words returns their OR if
/// `by_or` is true, else their AND.
enum Accessed {
    None { reads: u32 },
    One(usize),
    Two { words: [usize; 2], by_or: bool },
}

const fn mask(cell: MemoryCell) -> u32 {
    1 << cell.bit
}

/// Returns `value` with the bit of `cell` set or cleared.
const fn with(value: u32, cell: MemoryCell, is_set: bool) -> u32 {
    if is_set { value | mask(cell) } else { value & !mask(cell) }
}

impl TestArray {
    /// Creates a memory of the words from `start` to `stop`, both included. The content of the
    /// words after power-up is pseudo-random, from `seed`.
    ///
    /// # Panics
    /// If a fault has an address outside of the range. [`super::run()`] refuses such faults.
    pub fn new(
        (start, stop): (u64, u64),
        faults: &[InjectedFault],
        power_loss: PowerLoss,
        seed: u64,
    ) -> Self {
        let is_inside = |address: &u64| (start..=stop).contains(address);
        assert!(faults.iter().all(|fault| fault.addresses().iter().all(is_inside)), "faults");
        let mut random = Pcg64Mcg::seed_from_u64(seed);
        let words = (0..=(stop - start) / 4).map(|_| random.next_u64() as u32).collect();
        Self { start, words, faults: faults.to_vec(), power_loss, random }
    }

    /// Writes `value` to the word at `address`; injected faults may change the effect.
    pub fn write(&mut self, address: u64, value: u32) {
        match self.accessed(address) {
            Accessed::None { .. } => {}
            Accessed::One(word) => self.store(word, value),
            Accessed::Two { words, .. } => words.iter().for_each(|word| self.store(*word, value)),
        }
    }

    /// Reads the word at `address`; injected faults may change the value.
    pub fn read(&mut self, address: u64) -> u32 {
        match self.accessed(address) {
            Accessed::None { reads } => reads,
            Accessed::One(word) => self.load(word),
            Accessed::Two { words: [first, second], by_or } => {
                let (first, second) = (self.load(first), self.load(second));
                if by_or { first | second } else { first & second }
            }
        }
    }

    /// Switches the power off and on. With [`PowerLoss::Lost`] the content becomes random. Cells
    /// with a retention fault get the value of the fault.
    pub fn power_cycle(&mut self) {
        if self.power_loss == PowerLoss::Lost {
            let random = &mut self.random;
            self.words.iter_mut().for_each(|word| *word = random.next_u64() as u32);
        }
        for fault in &self.faults {
            if let InjectedFault::Retention { cell, value } = *fault {
                let word = ((cell.address - self.start) / 4) as usize;
                self.words[word] = with(self.words[word], cell, value);
            }
        }
    }

    fn word(&self, address: u64) -> usize {
        ((address - self.start) / 4) as usize
    }

    fn accessed(&self, address: u64) -> Accessed {
        for fault in &self.faults {
            match *fault {
                InjectedFault::AddressNone { address: faulty, reads } if faulty == address => {
                    return Accessed::None { reads };
                }
                InjectedFault::AddressOther { address: faulty, other } if faulty == address => {
                    return Accessed::One(self.word(other));
                }
                InjectedFault::AddressMany { address: faulty, other, by_or }
                    if faulty == address =>
                {
                    let words = [self.word(address), self.word(other)];
                    return Accessed::Two { words, by_or };
                }
                _ => {}
            }
        }
        Accessed::One(self.word(address))
    }

    fn is_in(&self, cell: MemoryCell, word: usize) -> bool {
        self.word(cell.address) == word
    }

    fn bit(&self, cell: MemoryCell) -> bool {
        self.words[self.word(cell.address)] & mask(cell) != 0
    }

    fn set(&mut self, cell: MemoryCell, value: bool) {
        let word = self.word(cell.address);
        self.words[word] = with(self.words[word], cell, value);
    }

    /// Stores `value` in the word with the index `word`, with the effects of stuck-at and
    /// transition faults. Then applies the coupling faults whose aggressors have changed.
    fn store(&mut self, word: usize, value: u32) {
        let old = self.words[word];
        let mut new = value;
        for fault in &self.faults {
            match *fault {
                InjectedFault::StuckAt { cell, value } if self.is_in(cell, word) => {
                    new = with(new, cell, value);
                }
                InjectedFault::Transition { cell, up } if self.is_in(cell, word) => {
                    let (was, is) = (old & mask(cell) != 0, new & mask(cell) != 0);
                    if was != is && is == up {
                        new = with(new, cell, was);
                    }
                }
                _ => {}
            }
        }
        self.words[word] = new;
        let changes = |cell: MemoryCell, up: bool| {
            let (was, is) = (old & mask(cell) != 0, new & mask(cell) != 0);
            was != is && is == up
        };
        for at in 0..self.faults.len() {
            match self.faults[at] {
                InjectedFault::CouplingInversion { aggressor, victim, up }
                    if self.is_in(aggressor, word) && changes(aggressor, up) =>
                {
                    self.set(victim, !self.bit(victim));
                }
                InjectedFault::CouplingIdempotent { aggressor, victim, up, value }
                    if self.is_in(aggressor, word) && changes(aggressor, up) =>
                {
                    self.set(victim, value);
                }
                _ => {}
            }
        }
    }

    /// Returns the word with the index `word`, with its stuck-at and coupling-state faults.
    fn load(&mut self, word: usize) -> u32 {
        for at in 0..self.faults.len() {
            match self.faults[at] {
                InjectedFault::StuckAt { cell, value } if self.is_in(cell, word) => {
                    self.set(cell, value);
                }
                InjectedFault::CouplingState { aggressor, victim, state, value }
                    if self.is_in(victim, word) && self.bit(aggressor) == state =>
                {
                    self.set(victim, value);
                }
                _ => {}
            }
        }
        self.words[word]
    }
}
