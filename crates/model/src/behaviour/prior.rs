//! The prior: the probability distribution of behaviours before any run is evaluated.
//!
//! Each property of a [`Behaviour`], such as the outstanding lines of a thread, is a function of
//! one number between 0 and 1, and these numbers are uniform and independent. The prior is
//! therefore uniform over a cube with one axis for each property. A search that fills this cube
//! evenly needs no weights for the density of the prior.

use super::Behaviour;
use crate::demand::Demand;

/// The number of unknown quantities of a [`Behaviour`], one for each of its fields.
pub const DIMENSIONS: usize = 7;

/// The scale of the logistic distribution of the logarithm of a thread's outstanding lines. A scale
/// of 0.2 is a standard deviation of 36 %, which is about the spread between the loops of one
/// program.
const LINES_SCALE: f64 = 0.2;

/// The range of the bandwidth that one thread would demand at zero memory latency, GB/s. A thread
/// that mostly computes is at the low end, a thread that only copies at the high end. The high end
/// must exceed 11 GB/s: each thread reaches this bandwidth in the run of STREAM with 30 threads
/// (`workloads/stream.toml`), and is not compute-bound.
const COMPUTE_BOUND_GBPS: (f64, f64) = (1.0, 20.0);

/// The distribution of [`Behaviour::contention`]. With a probability of 97 % the contention is
/// below 0.0084. At 0.0084, each of 120 threads has twice the compute time of a single thread, so
/// that 120 threads do the work of 60. The tail is for programs that are limited by locks, barriers
/// or serial parts: at 0.05, 120 threads do the work of 17.
const CONTENTION: BulkAndTail =
    BulkAndTail { from: 0.0, bulk_to: 0.0084, tail_to: 0.05, tail: 0.03 };

/// The distribution of [`Behaviour::pattern_factor`]: the bandwidth of an access pattern, divided
/// by the bandwidth of the benchmark loop that measured the curve. Programs that are known to
/// saturate DRAM on the platform gnr120-cz122 reach 0.84 (CloverLeaf) to 0.96 (lbm). The tail is
/// for patterns with many bank conflicts.
const PATTERN_FACTOR: BulkAndTail =
    BulkAndTail { from: 1.0, bulk_to: 0.8, tail_to: 0.6, tail: 0.3 };

/// A distribution in two uniform parts: a bulk, and a tail beyond it.
///
/// The tails decide how the model explains a program whose runs stop scaling far below the
/// bandwidth of DRAM. If the access pattern limits the program, a second tier helps; if contention
/// limits the program, a second tier does not help. The runs with all pages on DRAM fit both
/// explanations. The weights of the tails and the end of the bulk were chosen by the errors of the
/// speed-ups of eight workloads on two platforms (docs/model.md).
#[derive(Clone, Copy, Debug)]
struct BulkAndTail {
    /// The start of the bulk: the end that is not next to the tail.
    from: f64,
    /// The value at which the bulk ends and the tail begins.
    bulk_to: f64,
    /// The end of the tail.
    tail_to: f64,
    /// The probability of the tail, above 0 and below 1.
    tail: f64,
}

impl BulkAndTail {
    /// Returns the quantile at `part` (0 to 1): `from` at 0, `tail_to` at 1.
    fn at(&self, part: f64) -> f64 {
        let bulk = 1.0 - self.tail;
        if part < bulk {
            self.from + (self.bulk_to - self.from) * part / bulk
        } else {
            self.bulk_to + (self.tail_to - self.bulk_to) * (part - bulk) / self.tail
        }
    }
}

/// The prior distribution of the [`Behaviour`] of a workload's threads.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Prior {
    /// The median of a thread's outstanding lines.
    pub lines_per_thread: f64,
    /// Lower and upper bound of the read share of the traffic, 0 to 1.
    pub read_share: (f64, f64),
}

impl Prior {
    /// The prior of the behaviour of `demand` on a platform whose cores can have
    /// `outstanding_lines_per_core` lines outstanding each.
    pub fn of(demand: &Demand, outstanding_lines_per_core: f64) -> Self {
        // The demand may state its own median of a thread's outstanding lines, which may be below
        // the limit of a core. A median above the limit is lowered to the limit.
        let own = demand.outstanding_lines_per_thread.unwrap_or(outstanding_lines_per_core);
        Self {
            lines_per_thread: own.min(outstanding_lines_per_core),
            read_share: demand.read_share_range,
        }
    }

    /// Returns the behaviour at a point of the unit cube: each coordinate, 0 to 1, gives one field
    /// of the behaviour.
    pub fn at(&self, point: &[f64; DIMENSIONS]) -> Behaviour {
        let [lines, compute, overlap, pattern, relief, reads, contention] = *point;
        let between = |(low, high): (f64, f64), part: f64| low + part * (high - low);
        let odds = lines.clamp(1e-6, 1.0 - 1e-6);
        let (slow, fast) = COMPUTE_BOUND_GBPS;
        let compute_bound_gbps = slow * libm::pow(fast / slow, compute);
        Behaviour {
            lines_per_thread: self.lines_per_thread * libm::pow(odds / (1.0 - odds), LINES_SCALE),
            line_compute_ns: crate::units::LINE_BYTES / compute_bound_gbps,
            contention: CONTENTION.at(contention),
            overlap,
            pattern_factor: PATTERN_FACTOR.at(pattern),
            traffic_relief: relief,
            read_share: between(self.read_share, reads),
        }
    }
}

/// Returns the point of the Halton sequence with the 1-based index `index`. Its coordinates are
/// between 0 and 1; the points of the sequence fill the cube evenly, without randomness (Halton
/// 1960; the bases are the first primes).
pub(super) fn halton(index: usize) -> [f64; DIMENSIONS] {
    const BASES: [usize; DIMENSIONS] = [2, 3, 5, 7, 11, 13, 17];
    BASES.map(|base| {
        let (mut rest, mut digit_value, mut value) = (index, 1.0, 0.0);
        while rest > 0 {
            digit_value /= base as f64;
            value += digit_value * (rest % base) as f64;
            rest /= base;
        }
        value
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_has_no_more_lines_than_its_core() {
        let text =
            "name = \"x\"\nmix = { read_share = 1.0 }\n[[local]]\nthreads = 1\nruntime_s = 1.0\n";
        for (own, expected) in [("", 48.0), ("5.0", 5.0), ("200.0", 48.0)] {
            let key = if own.is_empty() { "" } else { "outstanding_lines_per_thread = " };
            let demand = crate::format::demand_toml::parse("x", &format!("{key}{own}\n{text}"));
            let prior = demand.map(|demand| Prior::of(&demand, 48.0).lines_per_thread);
            assert_eq!(prior, Ok(expected), "{own}");
        }
    }

    #[test]
    fn a_tail_has_its_probability() {
        for (table, bulk, ends) in
            [(CONTENTION, 0.97, [0.0, 0.0084, 0.05]), (PATTERN_FACTOR, 0.7, [1.0, 0.8, 0.6])]
        {
            for (part, expected) in [0.0, bulk, 1.0].into_iter().zip(ends) {
                let found = table.at(part);
                assert!((found - expected).abs() < 1e-12, "{part}: {found}, not {expected}");
            }
        }
    }

    #[test]
    fn halton_fills_the_cube() {
        assert_eq!(halton(1)[..3], [0.5, 1.0 / 3.0, 0.2]);
        for dimension in 0..DIMENSIONS {
            let mean: f64 = (1..=4096).map(|n| halton(n)[dimension]).sum::<f64>() / 4096.0;
            assert!((mean - 0.5).abs() < 2e-3, "dimension {dimension}: {mean}");
        }
    }
}
