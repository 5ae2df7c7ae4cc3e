//! Replacement reads little more from the drive than optimal replacement would (Belady).

#[allow(dead_code, unreachable_pub, reason = "the benchmark uses all of it")]
mod replay_machine;

use interleaf_workload::kind::Kind;
use replay_machine::{COUNTED, PAGE, replay};

/// A budget of 256 MiB.
const FRAMES: usize = 65_536;

/// Pages that the pager reads, divided by the pages that optimal replacement reads, for a workload
/// with arrays of twice the budget.
fn read_ratio(kind: Kind) -> f64 {
    let replay = replay(kind, FRAMES, (2 * FRAMES * PAGE) as u64).expect("it has a trace");
    let optimal = replay.least.read * COUNTED as u64;
    replay.count(|counts| counts.read) as f64 / optimal as f64
}

#[test]
fn sequential_loops_read_as_little_as_optimal_replacement() {
    let ratio = read_ratio(Kind::Seq);
    assert!((1.0..1.05).contains(&ratio), "{ratio} of the optimum");
}

#[test]
fn loops_over_three_arrays_read_as_little_as_optimal_replacement() {
    let ratio = read_ratio(Kind::Stream);
    assert!((1.0..1.05).contains(&ratio), "{ratio} of the optimum");
}
