//! The memory test of cards, as `interleaf.simulate.card.test/1`.
//!
//! `interleaf simulate card test` writes the document. It has the settings of the test, and for
//! each card the number of accesses, the time that they took, and the mismatches: reads that
//! did not return the written value. Addresses and words are hexadecimal texts.

use super::{check::Check, rounded};
use interleaf_card::memory_test::{
    InjectedFault, LogEntry, MemoryTest, MemoryTestResult, PowerLoss, ReadMismatch,
};
use serde::{Deserialize, Serialize};

pub const SCHEMA: &str = "interleaf.simulate.card.test/1";

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CardTestDocument {
    pub schema: String,
    pub algorithm: String,
    pub cycles: u64,
    pub start: String,
    pub stop: String,
    pub pattern: String,
    pub init: bool,
    pub seed: u64,
    /// Faults that were injected into the memory, in the notation of the command line.
    pub faults: Vec<String>,
    pub cards: Vec<CardTestResult>,
}

impl Check for CardTestDocument {}

/// The result of the memory test of one card.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CardTestResult {
    pub card: String,
    /// True if each read returned the value that was written.
    pub passed: bool,
    /// True if the memory of the card keeps its content without power.
    pub keeps_content: bool,
    pub reads: u64,
    pub writes: u64,
    pub power_cycles: u64,
    pub time_s: f64,
    pub mismatches: u64,
    pub failed_words: u64,
    /// The first mismatches.
    pub first: Vec<MismatchDocument>,
    /// The first operations, with `--debug`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub log: Vec<String>,
    /// Number of operations that did not fit into `log`.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub log_dropped: u64,
}

/// A read that did not return the written value.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MismatchDocument {
    pub cycle: u64,
    pub step: u32,
    pub address: String,
    pub expected: String,
    pub read: String,
}

impl CardTestDocument {
    pub fn new(test: &MemoryTest, faults: &[InjectedFault]) -> Self {
        Self {
            schema: SCHEMA.into(),
            algorithm: test.algorithm.name().into(),
            cycles: test.cycles,
            start: address(test.start),
            stop: address(test.stop),
            pattern: word(test.pattern),
            init: test.init,
            seed: test.seed,
            faults: faults.iter().map(ToString::to_string).collect(),
            cards: vec![],
        }
    }

    /// Adds the result of the memory test of `card`.
    pub fn add(&mut self, card: &str, power_loss: PowerLoss, result: &MemoryTestResult) {
        self.cards.push(CardTestResult {
            card: card.into(),
            passed: result.mismatches == 0,
            keeps_content: power_loss == PowerLoss::Kept,
            reads: result.reads,
            writes: result.writes,
            power_cycles: result.power_cycles,
            time_s: rounded(result.seconds),
            mismatches: result.mismatches,
            failed_words: result.failed_words,
            first: result.first.iter().map(MismatchDocument::new).collect(),
            log: result.log.iter().map(logged).collect(),
            log_dropped: result.log_dropped,
        });
    }

    /// True if all cards passed the test.
    pub fn passed(&self) -> bool {
        self.cards.iter().all(|card| card.passed)
    }
}

impl MismatchDocument {
    fn new(mismatch: &ReadMismatch) -> Self {
        Self {
            cycle: mismatch.cycle,
            step: mismatch.step,
            address: address(mismatch.address),
            expected: word(mismatch.expected),
            read: word(mismatch.read),
        }
    }
}

fn logged(entry: &LogEntry) -> String {
    match *entry {
        LogEntry::Write { address: at, value } => format!("write {} {}", address(at), word(value)),
        LogEntry::Read { address: at, value } => format!("read {} {}", address(at), word(value)),
        LogEntry::PowerCycle => "power cycle".into(),
    }
}

fn address(value: u64) -> String {
    format!("{value:#x}")
}

fn word(value: u32) -> String {
    format!("0x{value:08X}")
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(value: &u64) -> bool {
    *value == 0
}
