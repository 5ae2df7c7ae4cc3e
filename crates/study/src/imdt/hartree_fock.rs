//! Models GAMESS on stacks of benzene (section 5.3.5 and figure 6 of the paper on Intel Memory
//! Drive Technology): electron-repulsion integrals are either kept in memory, or computed again in
//! each iteration.
//!
//! ```text
//! direct:    I (c + a)                    I  iterations, 10 in figure 6
//! in core:   c + I max(a, r)              c  computing an integral
//!                                         a  adding it to the Fock matrix
//!                                         r  reading it, from DRAM or from the drives
//! ```
//!
//! An integral has 16 bytes, with its indices. With drives, the first computation takes at least
//! the time to write the integrals that are not in DRAM. The paper prints no times: the ratio of
//! `c` to `a` follows from the gain of integrals in memory for small stacks, and `a` is assumed. A
//! worked example on 44 cores: a is 0.74 ns and c is 2.9 ns. Ten direct iterations take 36 ns for
//! each integral. With integrals in memory, the first computation and ten iterations take 10.3 ns.
//! At a footprint of four times the DRAM, each iteration reads nearly all integrals from the
//! drives, which takes 1.7 ns for each integral at 9.6 GB/s: 19 ns with the first computation.

use super::node::{CORES, CYCLES, DRAM_RATE};
use interleaf_extend_forecast::{
    access::{Touch, Trace},
    drive::Drive,
    forecast::Model,
    miss_curve::{MissCurve, Traffic},
    replacement::Replacement,
};

/// The key of the published rows that compare the node with drives and the node with DRAM only,
/// both with the integrals in memory.
pub(super) const KEY: &str = "hartree-fock";

/// The key of the published rows that compare the node with drives, where integrals are kept in
/// memory, and the node with DRAM only, where they are computed again in each iteration.
pub(super) const AGAINST_DIRECT: &str = "hartree-fock-direct";

/// Number of iterations in the paper's figure 6.
const ITERATIONS: f64 = 10.0;

/// Bytes of a stored integral: a value of eight bytes and four indices of two bytes each.
const INTEGRAL: f64 = 16.0;

/// Cycles that a core takes to add an integral to the Fock matrix. The number is assumed: adding
/// updates six elements of the matrix in the L2 cache, whose latency is 12 cycles.
const ADD_CYCLES: f64 = 72.0;

/// The speed with integrals in memory, divided by the speed of direct computation, for small stacks
/// of benzene. The paper states "between approximately 200 % and 350 %"; this is the upper end.
pub(super) const GAIN: f64 = 3.5;

/// The DRAM of the node with drives, bytes.
const CACHE: f64 = 256e9;

/// `BLOCKS` is the number of blocks in the trace of one iteration, and `STEPS` the number of
/// budgets in its miss curve (traffic by DRAM budget).
const BLOCKS: u32 = 1024;
const STEPS: u32 = 32;

/// A model of Hartree-Fock on the paper's node: the seconds to compute and to add one integral, and
/// the miss curves (traffic by DRAM budget) of one iteration.
pub(super) struct HartreeFock {
    drive: Drive,
    compute_s: f64,
    add_s: f64,
    /// The miss curves (traffic by DRAM budget) with random, LRU and optimal replacement.
    curves: [MissCurve; 3],
}

/// Seconds of a whole calculation in three ways: direct computation, integrals in DRAM, and
/// integrals in DRAM and on the drives.
#[derive(Clone, Copy, Debug)]
pub(super) struct Times {
    pub(super) direct: f64,
    pub(super) in_core: f64,
    /// Seconds with integrals in DRAM and on the drives, with random, LRU and optimal replacement.
    pub(super) extended: [f64; 3],
}

impl HartreeFock {
    pub(super) fn new(drive: Drive) -> Self {
        let add_s = ADD_CYCLES / CYCLES / CORES;
        // I iterations, the gain G, the time c to compute an integral and the time a to add an
        // integral satisfy I (c + a) = G (c + I a). The equation is solved for c.
        let compute_s = add_s * ITERATIONS * (GAIN - 1.0) / (ITERATIONS - GAIN);
        let touch = |block| Touch { block, offset: 0, is_write: false };
        let touches = (0..BLOCKS).map(touch).collect();
        let trace = Trace { block_bytes: INTEGRAL as u64, touches };
        let curve = |policy| MissCurve::of_trace(&trace, policy, STEPS, BLOCKS as usize);
        let policies = [Replacement::Random, Replacement::Lru, Replacement::Optimal];
        Self { drive, compute_s, add_s, curves: policies.map(curve) }
    }

    /// Returns the time to compute an integral, divided by the time to add it.
    pub(super) fn compute_ratio(&self) -> f64 {
        self.compute_s / self.add_s
    }

    /// Returns the times of a calculation whose integrals take `ratio` times [`CACHE`], the DRAM of
    /// the node with drives.
    pub(super) fn times(&self, ratio: f64) -> Times {
        let integrals = ratio * CACHE / INTEGRAL;
        let Self { compute_s, add_s, .. } = *self;
        let add_s = add_s.max(INTEGRAL / DRAM_RATE);
        let missing = (1.0 - 1.0 / ratio).max(0.0) * INTEGRAL;
        let stored = Traffic { read_bytes: 0.0, written_bytes: missing };
        let first_s = compute_s.max(self.drive.transfer_s(stored));
        let extended = |curve: &MissCurve| {
            let budget = (curve.footprint_bytes() as f64 / ratio) as u64;
            let of_all = add_s * f64::from(BLOCKS);
            let found = Model::overlapped(of_all, 1).forecast(curve, &self.drive, true, budget);
            integrals * (first_s + ITERATIONS * found.seconds / f64::from(BLOCKS))
        };
        Times {
            direct: integrals * ITERATIONS * (compute_s + self.add_s),
            in_core: integrals * (compute_s + ITERATIONS * add_s),
            extended: [0, 1, 2].map(|policy| extended(&self.curves[policy])),
        }
    }

    /// Returns the speed with drives divided by the speed with DRAM only, for random, LRU and
    /// optimal replacement. With DRAM only, the integrals are computed directly if `key` is
    /// [`AGAINST_DIRECT`], and otherwise kept in memory.
    pub(super) fn efficiency(&self, key: &str, ratio: f64) -> [f64; 3] {
        let Times { direct, in_core, extended } = self.times(ratio);
        let dram = if key == AGAINST_DIRECT { direct } else { in_core };
        extended.map(|seconds| dram / seconds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worked_example() {
        let drive = interleaf_catalog::drive("p4800x-4").expect("it is built in");
        let model = HartreeFock::new(drive);
        let per_integral = |seconds: f64| 1e9 * seconds / (4.0 * CACHE / INTEGRAL);
        let Times { direct, in_core, extended } = model.times(4.0);
        assert!((per_integral(direct) - 36.0).abs() < 0.5, "{}", per_integral(direct));
        assert!((per_integral(in_core) - 10.3).abs() < 0.1, "{}", per_integral(in_core));
        assert!((per_integral(extended[0]) - 19.2).abs() < 0.5, "{}", per_integral(extended[0]));
        let [small, ..] = model.efficiency(AGAINST_DIRECT, 0.5);
        assert!((small - GAIN).abs() < 1e-9, "{small}");
        assert_eq!(model.efficiency(KEY, 0.5), [1.0; 3]);
    }
}
