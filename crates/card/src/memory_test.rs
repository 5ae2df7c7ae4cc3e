//! Simulates the memory test of a card's board: algorithms, a memory with faults, and a report.
//!
//! The slides of the MRAM card show a test program with the fields type of test, number of cycles,
//! start and stop address, pattern, debug mode, and "init". The program writes `BADC0FFE` at
//! `0x80`, cuts the power, and reads back. [`run()`] does this test, and the algorithms of the
//! literature, on a memory of 32-bit words into which faults can be injected.
//!
//! # March tests
//!
//! A march test is a sequence of elements. An element walks over all addresses in one direction and
//! does the same operations at each address. In van de Goor's notation (Testing Semiconductor
//! Memories, 1991, chapter 4) `w0` writes the background and `w1` its inverse; `r0` and `r1` read
//! and compare:
//!
//! ```text
//! MATS+     {any(w0); up(r0,w1); down(r1,w0)}
//! March C-  {any(w0); up(r0,w1); up(r1,w0); down(r0,w1); down(r1,w0); any(r0)}
//! ```
//!
//! # Which test finds which fault
//!
//! The table says which part of the faults of a class ([`FaultClass`]) an algorithm finds: *all*,
//! *some* or *none*. The table is for a single fault whose cells are in different words.
//! [`Algorithm::detects`] returns the entries of the table.
//!
//! | | SAF | TF | AF | CFin | CFid | CFst | retention |
//! | --- | --- | --- | --- | --- | --- | --- | --- |
//! | pattern, power cycle, read | some | some | some | some | some | some | some |
//! | walking ones | all | all | some | none | none | some | none |
//! | MATS+ | all | some | all | some | some | some | none |
//! | March C- | all | all | all | all | all | all | none |
//! | address in address | all | some | all | some | some | some | none |
//! | checkerboard | all | some | some | some | some | some | none |
//! | random, one cycle | some | some | all | some | some | some | none |
//!
//! The rows of MATS+ and March C- are from van de Goor, chapter 4; they are not checked against the
//! book. Walking ones (a test of data lines) and address in address (a test of address lines) are
//! from Barr, Software-Based Memory Testing (2000). A random background has different values at two
//! addresses with a probability above 0.999, so the table says that the random test finds *all*
//! address faults (AF).

mod algorithm;
mod array;
mod fault;
mod run;

pub use algorithm::{Algorithm, Background, Detection, MarchOrder, TestOperation, TestStep};
pub use array::{PowerLoss, TestArray};
pub use fault::{FaultClass, FaultSyntax, InjectedFault, MemoryCell};
pub use run::{
    AccessTimes, LogEntry, MemoryTest, MemoryTestError, MemoryTestResult, ReadMismatch,
    power_cycle, run, run_on,
};

#[cfg(test)]
mod tests;
