//! The request source: the trait between a controller and the traffic that loads it.

/// The location of a burst within a sub-channel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Location {
    /// The pseudo-channel.
    pub pseudo: u8,
    /// The bank, counted over all ranks of the pseudo-channel, groups and banks.
    pub bank: u8,
    /// The burst within the row.
    pub column: u16,
    /// The row.
    pub row: u32,
}

/// A request for a burst.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Request {
    /// Its arrival at the controller, in clocks of the DRAM.
    pub at: u64,
    /// The location.
    pub location: Location,
    /// The source's own number for it.
    pub tag: u32,
    /// The order of arrival, which the controller counts.
    pub order: u16,
    /// A write, or else a read.
    pub write: bool,
}

/// A source of requests in order of arrival. Later requests may depend on the completion of earlier
/// ones (a closed loop).
pub trait Source {
    /// The arrival of the next request. `None` until another request completes, or at the end.
    fn peek(&self) -> Option<u64>;

    /// Removes the request that [`peek`](Self::peek) announced.
    fn next_request(&mut self) -> Request;

    /// A write entered the write queue at `clock`: it is complete for its source.
    fn accepted(&mut self, request: &Request, clock: u64) {
        let _ = (request, clock);
    }

    /// The data of a read reach the controller at `clock`, which may be in the future.
    fn done(&mut self, request: &Request, clock: u64) {
        let _ = (request, clock);
    }
}
