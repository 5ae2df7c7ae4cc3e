//! Computes times on the node of the paper on Intel Memory Drive Technology by a roofline model,
//! with DRAM only and with drives.
//!
//! ```text
//! DRAM only:     max(operations / (peak share x peak), bytes / 80 GB/s, remote bytes / 20 GB/s)
//! with drives:   max(operations / (peak share x peak), bytes / 80 GB/s, time of the drives)
//! ```
//!
//! The peak share of a workload is the fraction of the processors' peak that it reaches if memory
//! does not limit it. With drives no access is remote, because the product places pages on the node
//! that uses them (section 6). A worked example, STREAM's triad over twice the DRAM: 24 bytes take
//! 0.3 ns with DRAM only. Random replacement misses 80 % of these bytes: it reads 19.2 bytes and
//! writes 6.4, which takes 2.7 ns at 9.6 GB/s. The efficiency is 0.3 / 2.7 = 0.11.

use super::{DEGREES, RATIOS};
use interleaf_console::Failure;
use interleaf_extend_forecast::{
    access::{Touch, Trace},
    drive::Drive,
    forecast::Model,
    miss_curve::MissCurve,
    replacement::Replacement,
};
use interleaf_workload::{
    graph::Shape,
    kind::{Kind, Setting},
    memory::Memory,
    trace::{rounds, size, trace},
};
use serde::Deserialize;
use std::collections::VecDeque;

/// The processors: two Xeon E5-2699 v4 with 22 cores each, at 2.2 GHz (section 3.1 of the paper).
pub(super) const CORES: f64 = 2.0 * 22.0;
pub(super) const CYCLES: f64 = 2.2e9;

/// The peak of the processors, operations per second. Two fused multiply-adds (FMA) on four doubles
/// in a cycle are 16 operations.
const PEAK_FLOPS: f64 = CORES * CYCLES * 16.0;

/// Bandwidth of DRAM, bytes per second (section 5.1.1 of the paper).
pub(super) const DRAM_RATE: f64 = 80e9;

/// Bandwidth between the sockets, both directions, bytes per second (section 6 of the paper). The
/// model applies it to the remote accesses of both sockets together.
const REMOTE_RATE: f64 = 20e9;

/// The footprint of a simulated trace, bytes. All traces have this footprint; the study's ratios of
/// footprint to DRAM are simulated by changing the DRAM budget.
const TRACE_BYTES: u64 = 64 << 20;

/// Number of DRAM budgets for which a trace's traffic (its miss curve) is simulated.
const STEPS: u32 = 20;

/// Maximum number of blocks of a trace that are sampled to compute its miss curve. Only the trace
/// of the FFT has more blocks.
const SAMPLE: usize = 2048;

/// A workload of the study: a row of `workloads.csv`.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Workload {
    key: String,
    kind: String,
    tile: usize,
    block_kib: usize,
    intensity: f64,
    peak_share: f64,
    remote_share: f64,
    #[expect(dead_code, reason = "for readers of the table")]
    basis: String,
}

/// The node of the paper that has 256 GB of DRAM as a cache of its drives.
pub(super) struct StudyNode {
    pub(super) drive: Drive,
}

/// A workload on the node: the operations and bytes of its trace, and the traffic of the drives as
/// a function of the budget.
pub(super) struct Predicted {
    pub(super) key: String,
    is_polynomial: bool,
    workload: Workload,
    drive: Drive,
    /// Operations in the trace, which has one or two rounds; for a polynomial, the operations at
    /// degree 1.
    flops: f64,
    /// Bytes that the trace transfers between DRAM and the processors if all data are in DRAM.
    bytes: f64,
    footprint: f64,
    /// The miss curves (traffic by DRAM budget) with random, LRU and optimal replacement.
    curves: [MissCurve; 3],
}

impl StudyNode {
    pub(super) fn new() -> Result<Self, Failure> {
        Ok(Self { drive: interleaf_catalog::drive("p4800x-4")? })
    }

    /// Simulates the trace of `workload` with different DRAM budgets, which gives the workload's
    /// miss curves (traffic by DRAM budget).
    pub(super) fn predicted(&self, workload: &Workload) -> Result<Predicted, Failure> {
        let unknown = || {
            let hint = "the table is part of the program: report it";
            Failure::new(format!("workloads.csv: \"{}\" has no trace", workload.kind), hint)
        };
        let kind = Kind::of(&workload.kind).ok_or_else(unknown)?;
        let setting = Setting {
            footprint: TRACE_BYTES,
            threads: 1,
            memory: Memory::Heap,
            only: None,
            stride: 64 << 10,
            is_writing: workload.key == "polynomial-2",
            tile: workload.tile,
            degree: 1,
            seed: 1,
            graph: Shape::default(),
        };
        let size = size(kind, &setting);
        let block = workload.block_kib << 10;
        let touches = trace(kind, &setting, size.footprint, block).ok_or_else(unknown)?;
        let passes = f64::from(rounds(kind));
        let bytes = bytes(&touches, kind) * block as f64;
        let trace = Trace { block_bytes: block as u64, touches };
        let curve = |policy| MissCurve::of_trace(&trace, policy, STEPS, SAMPLE);
        let policies = [Replacement::Random, Replacement::Lru, Replacement::Optimal];
        Ok(Predicted {
            key: workload.key.clone(),
            is_polynomial: kind == Kind::Polynomial,
            workload: workload.clone(),
            drive: self.drive.clone(),
            flops: workload.intensity * passes * size.flops,
            bytes,
            footprint: trace.footprint_bytes() as f64,
            curves: policies.map(curve),
        })
    }
}

/// The number of most recently transferred blocks that are assumed to be in the processors' caches.
/// A loop that walks over several arrays at once touches a block of each array in turn, so the
/// trace lists the same block many times. A touch of one of these cached blocks is not a transfer.
const CACHED_BLOCKS: usize = 16;

/// Returns the number of blocks transferred between DRAM and the processors. A block that is read
/// counts once. A block that is written counts twice, for its read and its write-back. The
/// workloads STREAM and gas write arrays that they do not read. The blocks of these arrays count
/// once, without the read of the write-allocate, because the published bandwidth of STREAM excludes
/// write-allocates too.
fn bytes(touches: &[Touch], kind: Kind) -> f64 {
    let is_in_place = !matches!(kind, Kind::Stream | Kind::Gas);
    let mut cached: VecDeque<Touch> = VecDeque::new();
    let mut blocks = 0.0;
    for touch in touches {
        let adds_write = touch.is_write && is_in_place;
        match cached.iter_mut().find(|other| other.block == touch.block) {
            Some(other) => {
                // The first write to a block that was only read so far adds the block's write-back.
                if adds_write && !other.is_write {
                    blocks += 1.0;
                }
                other.is_write |= touch.is_write;
            }
            None => {
                cached.push_back(*touch);
                if cached.len() > CACHED_BLOCKS {
                    cached.pop_front();
                }
                blocks += if adds_write { 2.0 } else { 1.0 };
            }
        }
    }
    blocks
}

impl Predicted {
    /// Returns the seconds of a pass over the trace with DRAM only: with the workload's accesses to
    /// the other socket, and without them.
    fn dram_s(&self, degree: u32) -> [f64; 2] {
        let degree = if self.is_polynomial { f64::from(degree) } else { 1.0 };
        let compute = degree * self.flops / (self.workload.peak_share * PEAK_FLOPS);
        let local = compute.max(self.bytes / DRAM_RATE);
        let remote = self.workload.remote_share * self.bytes / REMOTE_RATE;
        [local.max(remote), local]
    }

    /// Returns the efficiency for random, LRU and optimal replacement: the performance with drives
    /// divided by the performance with DRAM only, so that 0.5 is half as fast. The footprint is
    /// `ratio` times the DRAM cache. `degree` is the degree of a polynomial workload.
    pub(super) fn efficiency(&self, ratio: f64, degree: u32) -> [f64; 3] {
        let [dram, local] = self.dram_s(degree);
        let budget = (self.footprint / ratio) as u64;
        [0, 1, 2].map(|policy| {
            let model = Model::overlapped(local, 1);
            dram / model.forecast(&self.curves[policy], &self.drive, true, budget).seconds
        })
    }

    /// Returns the bandwidth of DRAM in GB/s: with DRAM only, and with drives at a footprint of
    /// twice the DRAM cache.
    pub(super) fn bandwidth_gbps(&self, degree: u32) -> [f64; 2] {
        let [dram, _] = self.dram_s(degree);
        let extended = dram / self.efficiency(2.0, degree)[0];
        [dram, extended].map(|seconds| 1e-9 * self.bytes / seconds)
    }

    /// Returns pairs of a footprint of [`RATIOS`] and the efficiency with random replacement at
    /// this footprint.
    pub(super) fn by_ratio(&self, degree: u32) -> Vec<(f64, f64)> {
        RATIOS.iter().map(|ratio| (*ratio, self.efficiency(*ratio, degree)[0])).collect()
    }

    /// Returns a pair for each of [`DEGREES`]: the operations per byte of the polynomial of this
    /// degree, and its efficiency with random replacement. The footprint is `ratio` times the DRAM
    /// cache.
    pub(super) fn by_degree(&self, ratio: f64) -> Vec<(f64, f64)> {
        let of = |degree: &u32| (f64::from(*degree) / 4.0, self.efficiency(ratio, *degree)[0]);
        DEGREES.iter().map(of).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use interleaf_extend_forecast::miss_curve::Traffic;

    #[test]
    fn a_block_that_is_read_and_then_written_counts_twice() {
        let touch = |block, is_write| Touch { block, offset: 0, is_write };
        let touches = [touch(1, false), touch(2, false), touch(1, true), touch(1, true)];
        assert_eq!(bytes(&touches, Kind::LuPlain), 3.0);
        assert_eq!(bytes(&touches, Kind::Stream), 2.0);
    }

    #[test]
    fn the_worked_example_of_stream() {
        let workload = Workload {
            key: "stream".into(),
            kind: "stream".into(),
            tile: 0,
            block_kib: 64,
            intensity: 1.0,
            peak_share: 0.8,
            remote_share: 0.0,
            basis: String::new(),
        };
        let predicted = StudyNode::new().and_then(|node| node.predicted(&workload));
        let predicted = predicted.expect("its inputs are built in");
        let Traffic { read_bytes, written_bytes } =
            predicted.curves[0].at((predicted.footprint / 2.0) as u64);
        let per_element = 24.0 / predicted.footprint;
        assert!((read_bytes * per_element - 19.2).abs() < 1.0, "{read_bytes}");
        assert!((written_bytes * per_element - 6.4).abs() < 0.5, "{written_bytes}");
        let [random, lru, optimal] = predicted.efficiency(2.0, 1);
        assert!((random - 0.11).abs() < 0.01, "{random}");
        assert!(lru < random && random < optimal);
        assert_eq!(predicted.efficiency(0.5, 1), [1.0; 3]);
    }
}
