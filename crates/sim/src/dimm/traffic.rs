//! Defines the request source: the trait between a controller and the traffic that loads it.

/// The location of a burst within a sub-channel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Location {
    /// The pseudo-channel: 0 or 1 on a multiplexed module, otherwise 0.
    pub pseudo: u8,
    /// The bank, numbered over all ranks and groups of the pseudo-channel.
    pub bank: u8,
    /// The burst within the row.
    pub column: u16,
    /// The row within the bank.
    pub row: u32,
}

/// A request to read or write a burst.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Request {
    /// Arrival at the controller, in clocks of the DRAM.
    pub at: u64,
    /// The location of the burst.
    pub location: Location,
    /// A number by which the source recognises the request when the request completes.
    pub tag: u32,
    /// The arrival order, assigned by the controller.
    pub order: u16,
    /// True for a write, false for a read.
    pub write: bool,
}

/// A source of requests in order of arrival. Later requests may depend on the completion of earlier
/// requests (a closed loop).
pub trait Source {
    /// Returns the clock at which the next request arrives; `None` while the next request waits for
    /// the completion of another request, or if no request is left.
    fn peek(&self) -> Option<u64>;

    /// Removes and returns the request of [`peek`](Self::peek).
    fn next_request(&mut self) -> Request;

    /// Tells the source that a write entered the write queue at `clock`, which completes the write
    /// for the source.
    fn accepted(&mut self, request: &Request, clock: u64) {
        let _ = (request, clock);
    }

    /// Tells the source that the data of a read reach the controller at `clock`, which may be in
    /// the future.
    fn done(&mut self, request: &Request, clock: u64) {
        let _ = (request, clock);
    }
}
