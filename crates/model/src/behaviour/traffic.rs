//! Traffic per work: bytes that cross the memory controllers for each unit of a workload's work.
//!
//! Traffic per work is not constant. STREAM's traffic per useful byte falls from 1.43 with 30
//! threads to 0.98 with 119 (`workloads/stream.toml`), because recent Xeons turn a write-allocate
//! into a write without a read when the memory controllers are busy. The cause of the fall may be
//! the number of threads, or the low bandwidth of each thread. Runs on one tier cannot separate
//! these causes: with more threads, each thread has less bandwidth. A second tier separates them:
//! the same number of threads gets more bandwidth, and some of the write-allocates may return. The
//! fraction that returns is unknown ([`super::Behaviour::traffic_relief`]) and adds to the
//! uncertainty.

use crate::demand::Demand;

/// Traffic per work as a function of the number of threads, and of the bandwidth of one thread.
#[derive(Clone, Debug, PartialEq)]
pub struct TrafficPerWork {
    /// Pairs of (bandwidth of one thread in GB/s, traffic in GB per unit of work), in rising order
    /// of the bandwidth.
    by_thread_gbps: Vec<(f64, f64)>,
    /// Pairs of (number of threads, traffic in GB per unit of work), in rising order of the
    /// threads.
    by_threads: Vec<(f64, f64)>,
}

impl TrafficPerWork {
    /// Computes the traffic per work of those runs of `demand` that have a counted bandwidth. With
    /// fewer than two such runs, traffic per work is constant.
    pub fn of(demand: &Demand) -> Self {
        let runs = demand.counted_runs();
        let per_work = |result: f64, bandwidth: f64| bandwidth / demand.performance(result);
        let by_threads: Vec<_> = runs
            .iter()
            .map(|(run, bandwidth)| (f64::from(run.threads), per_work(run.result, *bandwidth)))
            .collect();
        let mut by_thread_gbps: Vec<_> = runs
            .iter()
            .map(|(run, bandwidth)| {
                (bandwidth / f64::from(run.threads), per_work(run.result, *bandwidth))
            })
            .collect();
        by_thread_gbps.sort_by(|a, b| a.0.total_cmp(&b.0));
        Self { by_thread_gbps, by_threads }
    }

    /// Returns the traffic per work with `threads` threads, divided by the traffic per work with
    /// `reference` threads.
    pub fn of_threads(&self, threads: f64, reference: f64) -> f64 {
        ratio(&self.by_threads, threads, reference)
    }

    /// The bandwidth of one thread in each run with a counted bandwidth, GB/s. Traffic per work is
    /// interpolated linearly between these bandwidths.
    pub fn pressures(&self) -> impl Iterator<Item = f64> {
        self.by_thread_gbps.iter().map(|(gbps, _)| *gbps)
    }

    /// Returns the traffic per work at a bandwidth of `gbps` GB/s for each thread, divided by the
    /// traffic per work at `reference` GB/s for each thread.
    pub fn of_pressure(&self, gbps: f64, reference: f64) -> f64 {
        ratio(&self.by_thread_gbps, gbps, reference)
    }
}

fn ratio(table: &[(f64, f64)], x: f64, reference: f64) -> f64 {
    if table.len() < 2 { 1.0 } else { interpolate(table, x) / interpolate(table, reference) }
}

/// Interpolates linearly between the points of `table`. Outside of the points, returns the value of
/// the nearest point.
fn interpolate(table: &[(f64, f64)], x: f64) -> f64 {
    let next = table.partition_point(|point| point.0 < x);
    if next == 0 {
        return table[0].1;
    }
    if next == table.len() {
        return table[next - 1].1;
    }
    let (a, b) = (table[next - 1], table[next]);
    a.1 + (x - a.0) / (b.0 - a.0) * (b.1 - a.1)
}
