//! Tests that the pager's page replacement reads only a little more from the drive than optimal
//! replacement (Belady) would.

#[allow(dead_code, unreachable_pub, reason = "the benchmark uses all of it")]
mod replay_machine;

use interleaf_extend_forecast::pager_curve::missing_bytes;
use interleaf_workload::kind::Kind;
use replay_machine::{COUNTED, PAGE, replay, replay_with_drive};

/// Number of frames in the budget, which is 256 MiB.
const FRAMES: usize = 65_536;

/// Returns the number of pages that the pager reads, divided by the number that optimal replacement
/// reads. The arrays of the workload have twice as many pages as the budget has frames.
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

/// A stream that prefetches the beginning of the next round must not keep these pages in the frames
/// that the rest of this round needs for its prefetches. Otherwise a round takes 1.7 times as long.
#[test]
fn each_round_of_a_loop_takes_about_the_same_time() {
    let footprint = (2 * FRAMES * PAGE) as u64;
    let times = replay_with_drive(Kind::Seq, FRAMES, footprint, 40).expect("it has a trace");
    let times = &times[2..];
    let [least, most] = [f64::min, f64::max].map(|of| times.iter().copied().reduce(of));
    let ratio = most.expect("rounds") / least.expect("rounds");
    assert!(ratio < 1.25, "{ratio}: {times:?}");
}

/// In a tiled product of matrices, each row of tiles reads all of one matrix again, and only a few
/// tiles of the other two matrices. LRU would keep the first matrix resident. With optimal
/// replacement, a round reads 58882 pages. The pager may read 2.2 times as many, and 3.9 times as
/// many in the first round.
#[test]
fn a_tiled_product_keeps_the_matrix_that_each_row_reads_again() {
    let replay = replay(Kind::GemmTiled, FRAMES, (2 * FRAMES * PAGE) as u64).expect("has a trace");
    let least = replay.least.read as f64;
    let ratio = replay.count(|counts| counts.read) as f64 / COUNTED as f64 / least;
    assert!((1.0..2.2).contains(&ratio), "{ratio} of the optimum");
    let first = replay.read_in_first_round as f64 / least;
    assert!((1.0..3.9).contains(&first), "{first} of the optimum in the first round");
}

#[test]
fn near_the_footprint_loops_read_what_the_used_part_of_the_budget_does_not_hold() {
    let pages = 32_768;
    let footprint = (pages * PAGE) as u64;
    for kind in [Kind::Seq, Kind::Stream] {
        for percent in [97, 99] {
            let frames = pages * percent / 100;
            let replay = replay(kind, frames, footprint).expect("it has a trace");
            let read = replay.count(|counts| counts.read) as f64 / COUNTED as f64;
            // The budget has frames for 97 % or 99 % of the workload's pages, so each pass must
            // read at least the other 3 % or 1 %. A loop reads more than three times as many pages,
            // because prefetched pages and the reserve of free frames also take frames.
            let beyond = (pages - frames) as f64;
            assert!(read > 3.0 * beyond, "{kind:?} at {percent} %: {read} pages, {beyond} beyond");
            let missing = missing_bytes(footprint, (frames * PAGE) as u64, 0.0) / PAGE as u64;
            let ratio = read / missing as f64;
            assert!((0.65..1.3).contains(&ratio), "{kind:?} at {percent} %: {ratio} of {missing}");
        }
    }
}
