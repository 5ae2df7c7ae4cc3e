//! One tier from the view of one load: its bandwidth and latency for each number of page streams.

use super::{load::Load, root::root};
use crate::curve::{Flow, Response};

/// A tier as one load observes it. Traffic of other loads lengthens the tier's queue, and traffic
/// on coupled tiers lowers the tier's bandwidth.
pub(super) struct TierView<'a> {
    /// The tier's response (bandwidth and latency against bytes in flight) to the load's own mix.
    pub(super) own: &'a Response,
    /// For each load with traffic on the tier: its fraction of the tier's traffic, and the tier's
    /// response to its mix. The fractions sum to 1. The list is empty, and `own` applies alone, if
    /// there is only one load, or if no load has traffic on the tier.
    pub(super) mixed: Vec<(f64, &'a Response)>,
    /// The fraction (0 to 1) of the curve's bandwidth that the load can reach. The access pattern
    /// of the load and the traffic on coupled tiers lower this fraction.
    pub(super) bandwidth_factor: f64,
    /// Bytes that other loads have in flight on this tier.
    pub(super) others_bytes: f64,
}

impl TierView<'_> {
    /// Returns the flows (bandwidth and latency) of `load` at this tier. The load's lines are
    /// divided evenly over `streams` page streams: entry `n` applies while `n + 1` of these are at
    /// the tier.
    pub(super) fn flows(&self, load: &Load, streams: usize) -> Vec<Flow> {
        let compute_ns = load.line_compute_ns * load.lines_per_thread;
        let stream_bytes = load.circulating_bytes() / streams as f64;
        let bytes = (1..=streams).map(|n| stream_bytes * n as f64);
        if let (Some(response), true) = (self.only_response(), self.others_bytes == 0.0) {
            // At each latency, the bandwidth is multiplied by the bandwidth factor. By Little's
            // law, the bytes in flight at this latency are multiplied by it too.
            let factor = self.bandwidth_factor;
            let mut flow = response.closed_loops(compute_ns, load.overlap);
            let scaled = |flow: Flow| Flow { bandwidth_gbps: flow.bandwidth_gbps * factor, ..flow };
            return bytes.map(|bytes| scaled(flow(bytes / factor))).collect();
        }
        bytes.map(|bytes| self.shared_flow(bytes, compute_ns, load.overlap)).collect()
    }

    /// The flow of this load beside the traffic of other loads on the tier. `bytes` of this load
    /// are in flight or computed on. Lines of all loads wait in the same queue, so each load gets
    /// bandwidth in proportion to its bytes in flight.
    fn shared_flow(&self, bytes: f64, compute_ns: f64, overlap: f64) -> Flow {
        let flow = |own: f64| {
            let latency_ns = self.latency_ns(own + self.others_bytes);
            Flow { bandwidth_gbps: own / latency_ns, latency_ns }
        };
        let circulating = |flow: Flow| {
            let (long, short) = (flow.latency_ns.max(compute_ns), flow.latency_ns.min(compute_ns));
            flow.bandwidth_gbps * (long + (1.0 - overlap) * short)
        };
        let miss = |own: f64| circulating(flow(own)) - bytes;
        flow(root(miss, (0.0, -bytes), (bytes, miss(bytes)), 1e-12))
    }

    /// The latency of a line if all loads together have `bytes` in flight at the tier.
    fn latency_ns(&self, bytes: f64) -> f64 {
        let bytes = bytes / self.bandwidth_factor;
        let bandwidth = self.mean(|response| response.at(bytes).bandwidth_gbps);
        if bandwidth > 0.0 { bytes / bandwidth } else { self.mean(Response::idle_latency_ns) }
    }

    /// The response of the tier if at most one load has traffic on it; `None` if several loads,
    /// each with its own response, have traffic on it.
    fn only_response(&self) -> Option<&Response> {
        match self.mixed[..] {
            [] => Some(self.own),
            [(_, response)] => Some(response),
            _ => None,
        }
    }

    /// The mean of `figure` over the responses to all loads, weighted by each load's traffic on the
    /// tier.
    fn mean(&self, figure: impl Fn(&Response) -> f64) -> f64 {
        match self.mixed.is_empty() {
            true => figure(self.own),
            false => self.mixed.iter().map(|(part, response)| part * figure(response)).sum(),
        }
    }
}
