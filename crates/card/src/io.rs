//! Defines the commands of a host to a card, and their completions: the interface between sources
//! of I/O (a simulated load, a real driver) and the engine, which computes their times.
//!
//! Times are femtoseconds since the start of a run. 64 bits hold 5 hours of femtoseconds.

/// The operation of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operation {
    /// Transfers data from the card to the host.
    Read,
    /// Transfers data from the host to the card.
    Write,
    /// Makes all acknowledged writes durable.
    Flush,
    /// Makes a range zero, without data from the host.
    WriteZeroes,
    /// Deallocates a range (dataset management): the content of the range is discarded.
    Deallocate,
}

/// A command in a submission queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IoCommand {
    /// The number by which the sender identifies the command.
    pub tag: u32,
    /// Index of the I/O queue pair, 0-based.
    pub queue: u16,
    /// The operation of the command.
    pub operation: Operation,
    /// The first byte of the range of the command, from the start of the card's memory.
    pub offset: u64,
    /// The length of the range, bytes; 0 for a flush.
    pub bytes: u32,
    /// Force unit access: the completion waits until the data are durable.
    pub force_unit_access: bool,
}

/// A completed command, with times in fs since the start: `submitted <= fetched <= completed`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IoCompletion {
    /// The tag of the completed command (`IoCommand::tag`).
    pub tag: u32,
    /// The index of the I/O queue pair of the command, 0-based.
    pub queue: u16,
    /// The time at which the host wrote the doorbell for the command, fs.
    pub submitted: u64,
    /// The time at which the command arrived at the controller, fs.
    pub fetched: u64,
    /// The time at which the host's driver saw the completion, fs.
    pub completed: u64,
}
