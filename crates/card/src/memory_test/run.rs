//! Runs a memory test on an address range.

use super::{
    algorithm::{Algorithm, Background, MarchOrder, TestOperation, TestStep},
    array::{PowerLoss, TestArray},
    fault::InjectedFault,
};
use crate::{
    card::Card,
    power::{PowerSpec, RestoreState, SaveSimulator},
};
use interleaf_sim::dimm::device::Device;

/// A memory test of a card: the fields of the test program on the card's board, and a seed.
#[derive(Clone, Debug, PartialEq)]
pub struct MemoryTest {
    /// The algorithm ("type of test" in the test program).
    pub algorithm: Algorithm,
    /// Number of cycles, at least 1.
    pub cycles: u64,
    /// Byte address of the first word.
    pub start: u64,
    /// Byte address of the last word.
    pub stop: u64,
    /// The value that [`Algorithm::Pattern`] writes; other algorithms ignore it.
    pub pattern: u32,
    /// True if zero is written to all words before the first cycle.
    pub init: bool,
    /// True if the result has a log of the first [`MemoryTest::LOG_MAX`] operations.
    pub debug: bool,
    /// Seed of the random values, and of the random content of the memory after power-up.
    pub seed: u64,
}

/// The times that the firmware of the card's board takes for a read, a write and a power cycle.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AccessTimes {
    /// Time of a read, fs.
    pub read_fs: u64,
    /// Time of a write, fs.
    pub write_fs: u64,
    /// Time of a power cycle with its save and restore, fs.
    pub power_cycle_fs: u64,
}

/// A read that returned another value than the test expects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadMismatch {
    /// Index of the cycle, 0-based.
    pub cycle: u64,
    /// Index of the step in [`Algorithm::steps`], 0-based.
    pub step: u32,
    /// The address of the word.
    pub address: u64,
    /// The value that the word should have.
    pub expected: u32,
    /// The value that was read.
    pub read: u32,
}

/// An entry of the log of a test in debug mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogEntry {
    /// A write of a word.
    Write {
        /// The address of the word.
        address: u64,
        /// The value that was written.
        value: u32,
    },
    /// A read of a word.
    Read {
        /// The address of the word.
        address: u64,
        /// The value that was read.
        value: u32,
    },
    /// The power went off and on.
    PowerCycle,
}

/// The result of a memory test.
#[derive(Clone, Debug, PartialEq)]
pub struct MemoryTestResult {
    /// Number of cycles of the algorithm.
    pub cycles: u64,
    /// The number of reads, each of one word.
    pub reads: u64,
    /// The number of writes, each of one word, including those of the initialisation.
    pub writes: u64,
    /// The number of power cycles.
    pub power_cycles: u64,
    /// Time of all reads, writes and power cycles, s.
    pub seconds: f64,
    /// The number of reads that returned another value than the test expects.
    pub mismatches: u64,
    /// The number of words with at least one mismatch.
    pub failed_words: u64,
    /// The first mismatches, at most [`MemoryTest::LISTED_MAX`].
    pub first: Vec<ReadMismatch>,
    /// The log of the operations; empty without the debug mode.
    pub log: Vec<LogEntry>,
    /// The number of operations that are missing in the log, because the log was full.
    pub log_dropped: u64,
}

/// The reason why a memory test cannot be done: one of its fields is wrong.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{problem}")]
pub struct MemoryTestError {
    /// The name of the wrong field: `start`, `stop`, `cycles` or `fault`.
    pub field: &'static str,
    /// The problem, as text for the user.
    pub problem: String,
    /// The remedy, as text for the user.
    pub hint: String,
}

impl AccessTimes {
    /// Returns the times of accesses by firmware that issues one access after the other, without
    /// queues. Each access therefore activates and precharges its row. The times include the mean
    /// delay by refreshes. `power_cycle_s` is the time of a save and a restore, s.
    pub fn of(device: &Device, power_cycle_s: f64) -> Self {
        let t = &device.timing;
        let read = (t.t_rcd + t.cl + t.burst).max(t.t_ras).max(t.t_rcd + t.t_rtp) + t.t_rp;
        let write = (t.t_rcd + t.cwl + t.burst + t.t_wr).max(t.t_ras) + t.t_rp;
        let refresh = if t.t_refi > 0 { f64::from(t.t_rfc) / f64::from(t.t_refi) } else { 0.0 };
        let fs = |clocks: u32| (device.ns(clocks.into()) * 1e6 / (1.0 - refresh)) as u64;
        let power_cycle_fs = (power_cycle_s * 1e15) as u64;
        Self { read_fs: fs(read), write_fs: fs(write), power_cycle_fs }
    }
}

impl MemoryTest {
    /// Maximum number of mismatches that a result lists.
    pub const LISTED_MAX: usize = 1000;
    /// Maximum number of operations in the log; further operations are only counted.
    pub const LOG_MAX: usize = 10_000;
    /// Maximum number of words of a test (256 MiB), to bound memory and time of the simulation.
    pub const WORDS_MAX: u64 = 1 << 26;
    /// Maximum number of accesses of a test. The limit bounds the time of the simulation.
    pub const ACCESSES_MAX: u64 = 1 << 36;

    /// Checks the fields of the test, and the addresses of `faults`, against a memory of `capacity`
    /// bytes.
    ///
    /// # Errors
    /// If a field is wrong; the error names the first wrong field.
    pub fn check(&self, capacity: u64, faults: &[InjectedFault]) -> Result<(), MemoryTestError> {
        let wrong = |field, problem: String, hint: &str| {
            Err(MemoryTestError { field, problem, hint: hint.into() })
        };
        for (field, address) in [("start", self.start), ("stop", self.stop)] {
            if address % 4 != 0 {
                let problem = format!("{address:#x} is not an address of a 32-bit word");
                return wrong(field, problem, "write a multiple of 4");
            }
            if address >= capacity {
                let problem = format!("{address:#x} is beyond the memory of {capacity:#x} bytes");
                return wrong(field, problem, &format!("write at most {:#x}", capacity - 4));
            }
        }
        if self.start > self.stop {
            let problem = format!("the start {:#x} is above the stop {:#x}", self.start, self.stop);
            return wrong("start", problem, "write the lower address first");
        }
        let words = (self.stop - self.start) / 4 + 1;
        if words > Self::WORDS_MAX {
            let problem = format!("{words} words, at most {}", Self::WORDS_MAX);
            return wrong("stop", problem, "test a range of at most 256 MiB at a time");
        }
        let accesses: u64 = self.algorithm.steps().iter().map(TestStep::accesses).sum();
        let limit = Self::ACCESSES_MAX / (accesses * words);
        if !(1..=limit).contains(&self.cycles) {
            let problem = format!("{} cycles are not between 1 and {limit}", self.cycles);
            return wrong("cycles", problem, "write a number of this range");
        }
        let range = self.start..=self.stop;
        for fault in faults {
            for address in fault.addresses() {
                if address % 4 != 0 || !range.contains(&address) {
                    let problem = format!("{address:#x} of {fault} is not a word of the test");
                    let hint = format!("write a multiple of 4 in {range:#x?}");
                    return wrong("fault", problem, &hint);
                }
            }
            if let [first, second] = fault.addresses()[..]
                && first == second
                && matches!(
                    fault,
                    InjectedFault::AddressOther { .. } | InjectedFault::AddressMany { .. }
                )
            {
                let problem = format!("both addresses of {fault} are the same");
                return wrong("fault", problem, "write two addresses");
            }
        }
        Ok(())
    }
}

/// Simulates a power cycle of a card. Returns the effect on the content of the memory, and the time
/// until the test can read the memory again, s: the save, and the start of the card until it
/// accepts commands. A card that needs no save keeps its content and adds no time.
pub fn power_cycle(card: &Card, seed: u64) -> (PowerLoss, f64) {
    let PowerSpec::Save(spec) = &card.power else { return (PowerLoss::Kept, 0.0) };
    let simulator = SaveSimulator::new(spec, card.memory.capacity, seed);
    let (image, saved) = simulator.save(seed);
    let (_, restored) = simulator.restore(&image, seed);
    let power_loss = match restored.state {
        RestoreState::Complete => PowerLoss::Kept,
        RestoreState::Partial | RestoreState::Nothing => PowerLoss::Lost,
    };
    (power_loss, saved.seconds + restored.ready_seconds)
}

/// Tests the memory of a card. STT-MRAM keeps its content in a power cycle. DRAM keeps its content
/// if `is_saved` is true and the save and its restore are complete.
///
/// # Errors
/// If a field of the test is wrong.
pub fn run_on(
    card: &Card,
    test: &MemoryTest,
    faults: &[InjectedFault],
    is_saved: bool,
) -> Result<MemoryTestResult, MemoryTestError> {
    let (power_loss, power_cycle_s) = match &card.power {
        PowerSpec::Save(_) if !is_saved => (PowerLoss::Lost, 0.0),
        _ => power_cycle(card, test.seed),
    };
    let times = AccessTimes::of(&card.memory.device, power_cycle_s);
    run(test, card.memory.capacity, faults, power_loss, &times)
}

impl TestStep {
    /// Returns the number of reads and writes that the step does at each address.
    fn accesses(&self) -> u64 {
        match self {
            Self::March(_, operations) => operations.len() as u64,
            Self::PowerCycle => 0,
        }
    }
}

/// The state of a running test. `failed` has the addresses of the words with a mismatch.
struct Progress<'a> {
    test: &'a MemoryTest,
    array: TestArray,
    result: MemoryTestResult,
    failed: std::collections::BTreeSet<u64>,
}

/// Tests a memory of `capacity` bytes with the injected `faults`. `power_loss` is the effect of a
/// power cycle on the content, and `times` are the times of accesses and power cycles.
///
/// # Errors
/// If a field of the test is wrong.
pub fn run(
    test: &MemoryTest,
    capacity: u64,
    faults: &[InjectedFault],
    power_loss: PowerLoss,
    times: &AccessTimes,
) -> Result<MemoryTestResult, MemoryTestError> {
    test.check(capacity, faults)?;
    let array = TestArray::new((test.start, test.stop), faults, power_loss, test.seed);
    let result = MemoryTestResult {
        cycles: test.cycles,
        reads: 0,
        writes: 0,
        power_cycles: 0,
        seconds: 0.0,
        mismatches: 0,
        failed_words: 0,
        first: vec![],
        log: vec![],
        log_dropped: 0,
    };
    let mut progress = Progress { test, array, result, failed: Default::default() };
    if test.init {
        for address in (test.start..=test.stop).step_by(4) {
            progress.write(address, 0);
        }
    }
    let steps = test.algorithm.steps();
    for cycle in 0..test.cycles {
        for (index, step) in steps.iter().enumerate() {
            progress.step(cycle, index as u32, step);
        }
    }
    let Progress { mut result, failed, .. } = progress;
    let fs = u128::from(result.reads) * u128::from(times.read_fs)
        + u128::from(result.writes) * u128::from(times.write_fs)
        + u128::from(result.power_cycles) * u128::from(times.power_cycle_fs);
    result.seconds = fs as f64 * 1e-15;
    result.failed_words = failed.len() as u64;
    Ok(result)
}

impl Progress<'_> {
    fn step(&mut self, cycle: u64, index: u32, step: &TestStep) {
        let TestStep::March(order, operations) = step else {
            self.array.power_cycle();
            self.result.power_cycles += 1;
            self.add_entry(LogEntry::PowerCycle);
            return;
        };
        let words = (self.test.stop - self.test.start) / 4 + 1;
        for place in 0..words {
            let word = if *order == MarchOrder::Up { place } else { words - 1 - place };
            let address = self.test.start + 4 * word;
            for operation in operations {
                match *operation {
                    TestOperation::Write(value) => {
                        let value = self.value(value, address, cycle);
                        self.write(address, value);
                    }
                    TestOperation::Read(value) => {
                        let expected = self.value(value, address, cycle);
                        self.read(ReadMismatch { cycle, step: index, address, expected, read: 0 });
                    }
                }
            }
        }
    }

    fn value(&self, value: Background, address: u64, cycle: u64) -> u32 {
        let MemoryTest { algorithm, pattern, seed, .. } = *self.test;
        match value {
            Background::Direct => algorithm.background(address, pattern, seed, cycle),
            Background::Inverse => !algorithm.background(address, pattern, seed, cycle),
            Background::Bit(bit) => 1 << bit,
            Background::Zero => 0,
        }
    }

    fn write(&mut self, address: u64, value: u32) {
        self.array.write(address, value);
        self.result.writes += 1;
        self.add_entry(LogEntry::Write { address, value });
    }

    /// Reads the word at `expected.address`. Records a mismatch unless it is `expected.expected`.
    fn read(&mut self, expected: ReadMismatch) {
        let value = self.array.read(expected.address);
        self.result.reads += 1;
        self.add_entry(LogEntry::Read { address: expected.address, value });
        if value == expected.expected {
            return;
        }
        self.result.mismatches += 1;
        self.failed.insert(expected.address);
        if self.result.first.len() < MemoryTest::LISTED_MAX {
            self.result.first.push(ReadMismatch { read: value, ..expected });
        }
    }

    fn add_entry(&mut self, entry: LogEntry) {
        if !self.test.debug {
            return;
        }
        if self.result.log.len() < MemoryTest::LOG_MAX {
            self.result.log.push(entry);
        } else {
            self.result.log_dropped += 1;
        }
    }
}
