//! Simulates NAND flash as the target of a save: channels, dies, planes, bad blocks, and errors.
//!
//! A save programs pages in a fixed order over all dies at once; a restore reads the pages back.
//! The pages at the same position in all planes of a die are programmed together (the multi-plane
//! program of ONFI). The dies of a channel share its bus:
//!
//! ```text
//! channel  | T0 | T1 |                  | T0 | T1 |        T = transfer of a page of each plane
//! die 0         | program ............. |    | program     program = tPROG
//! die 1              | program ............. |
//!          |<-------- step ------------>|                  step = max(T + tPROG, dies x T)
//! ```
//!
//! With a tPROG of 1.3 ms and a T of 0.08 ms, 8 dies of 2 planes of 8 KiB on 4 channels program 95
//! MB/s: 1 GiB needs 11 s.
//!
//! # Blocks that fail
//!
//! The manufacturer marks *factory* bad blocks. More blocks grow bad when an erase or a program
//! fails. The pages of a plane are placed in its good blocks in order. A page whose program fails
//! is programmed again in the next good block of its plane. The pages that the failed block already
//! contains stay readable until the restore. Each page carries the number of the save and its own
//! number. A restore therefore finds missing pages without a table, which could itself fail.
//!
//! A codeword with more bit errors than the ECC corrects is uncorrectable. The restore then reports
//! the page.

mod array;
mod spec;

pub use array::{NandArray, NandUse, PageAddress, ProgramFailure, ProgrammedImage};
pub use spec::NandSpec;

#[cfg(test)]
mod tests;
