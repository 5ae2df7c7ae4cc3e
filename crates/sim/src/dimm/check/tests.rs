mod mutation;
mod rules;
mod walk;

use super::*;
use crate::dimm::device::Options;

fn device(name: &str) -> Device {
    Device::by_name(name, &Options::default()).expect("it comes with the tool")
}

/// Returns a command in rank 0 of pseudo-channel 0, with row 7.
fn command(kind: Kind, at: u64, bank_group: u8, bank: u8) -> Command {
    Command { at, kind, pseudo: 0, rank: 0, bank_group, bank, row: 7, column: 0 }
}
