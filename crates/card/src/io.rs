//! Commands of a host to a card, and their completions: the interface between sources of I/O (a
//! simulated load, a real driver) and the engine that times them.
//!
//! Times are femtoseconds since the start of a run: 64 bits hold 5 hours.

/// The operation of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operation {
    /// Transfers data from the card to the host.
    Read,
    /// Transfers data from the host to the card.
    Write,
    /// All acknowledged writes become durable.
    Flush,
    /// A range becomes zero without data from the host.
    WriteZeroes,
    /// Dataset management: a range has no content afterwards.
    Deallocate,
}

/// A command in a submission queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IoCommand {
    /// The number by which the source of the I/O identifies the command.
    pub tag: u32,
    /// Index of the I/O queue pair, 0-based.
    pub queue: u16,
    /// The operation.
    pub operation: Operation,
    /// The first byte on the medium.
    pub offset: u64,
    /// The length, bytes; 0 for a flush.
    pub bytes: u32,
    /// Force unit access: the completion waits until the data are durable.
    pub force_unit_access: bool,
}

/// A completed command. `submitted <= fetched <= completed` holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IoCompletion {
    /// The number of the command.
    pub tag: u32,
    /// The queue pair of the command.
    pub queue: u16,
    /// When the host wrote the doorbell.
    pub submitted: u64,
    /// When the command arrived at the controller.
    pub fetched: u64,
    /// When the host's driver saw the completion.
    pub completed: u64,
}
