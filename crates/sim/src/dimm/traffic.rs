//! Where requests come from: the seam between a controller and what loads it.

/// Where a burst lies within a sub-channel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// The pseudo-channel.
    pub pseudo: u8,
    /// The bank, counted over all ranks of the pseudo-channel, groups and banks.
    pub bank: u8,
    /// The burst within the row.
    pub column: u16,
    /// The row.
    pub row: u32,
}

/// A burst that is asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Request {
    /// When it reaches the controller, in clocks of the DRAM.
    pub at: u64,
    /// Where it goes.
    pub place: Place,
    /// What its source knows it by.
    pub tag: u32,
    /// The order in which requests came to a queue; a controller counts it.
    pub order: u16,
    /// Whether it writes.
    pub write: bool,
}

/// Requests, in the order in which they reach a controller. They may depend on when earlier ones
/// were done.
pub trait Source {
    /// The clock at which the next reaches the controller. None: none until another is done, or
    /// none at all any more.
    fn peek(&self) -> Option<u64>;

    /// The next, as [`peek`](Self::peek) said.
    fn take(&mut self) -> Request;

    /// A write was taken into the queue at a clock, which is all that its source waits for.
    fn accepted(&mut self, request: &Request, clock: u64) {
        let _ = (request, clock);
    }

    /// The data of a read are with the controller at a clock, which may lie ahead.
    fn done(&mut self, request: &Request, clock: u64) {
        let _ = (request, clock);
    }
}
