//! Replays the page accesses of workloads through the pager's cache (DRAM over a drive), but
//! without allocating their memory and without a drive. Prints the pages read and written per
//! round, next to those of optimal replacement, the major faults per round, and the time of a round
//! with a simulated drive.
//!
//! ```console
//! $ cargo bench -p interleaf-benches --bench replay [-- PATTERN ... PERCENT]
//! ```
//!
//! PERCENT is the footprint as a percentage of the budget. The default is 200.
//!
//! For the counts, all transfers complete at once, so no prefetch is late. The counts depend only
//! on the cache's decisions: which pages it prefetches, and which pages it evicts. In the output,
//! `waits` are major faults, and `unmapped` are minor faults (on pages that are resident but not
//! mapped). A minor fault costs a hundredth of a major fault (bench `faults`). `first` are the
//! pages read in the first round after the program has filled its arrays. The other counts are of
//! later rounds. `least` is the count for optimal replacement. `in vain` are reads of pages that
//! were not touched after they were read before. `ms` is the median time of 30 further rounds with
//! a simulated drive that reads 2.8 GB/s, without the time of the pager, and `slowest` is the time
//! of the slowest of these rounds.

#[allow(unreachable_pub, reason = "the tests of the pager use it too")]
#[path = "../crates/pager/tests/replay_machine/mod.rs"]
mod replay_machine;

use interleaf_pager::cache::Counts;
use interleaf_workload::kind::Kind;
use replay_machine::{COUNTED, PAGE, replay, replay_with_drive};
use std::io::{self, Write};

/// The budget of the pager: 256 MiB, in frames of 4 KiB.
const FRAMES: usize = 65536;

const PATTERNS: [Kind; 7] =
    [Kind::Stream, Kind::Seq, Kind::Stride, Kind::Random, Kind::Fft3d, Kind::Gemm, Kind::GemmTiled];

/// Number of rounds that are replayed with a simulated drive.
const TIMED: usize = 30;

/// Replays one workload, and prints its counts per round, which are means over the measured rounds,
/// and the time of a round.
fn print(kind: Kind, percent: usize) -> io::Result<()> {
    let footprint = (FRAMES / 100 * percent * PAGE) as u64;
    let Some(replay) = replay(kind, FRAMES, footprint) else { return Ok(()) };
    let Some(mut times) = replay_with_drive(kind, FRAMES, footprint, TIMED) else { return Ok(()) };
    times.sort_by(f64::total_cmp);
    let mean = |of: fn(&Counts) -> u64| replay.count(of) / COUNTED as u64;
    writeln!(
        io::stdout(),
        "{:10} {:9} {:9} {:9} {:9} {:9} {:9} {:9} {:9} {:9.1} {:9.1}",
        kind.name(),
        mean(|counts| counts.faults - counts.minor_faults),
        mean(|counts| counts.minor_faults),
        replay.read_in_first_round,
        mean(|counts| counts.read),
        replay.least.read,
        mean(|counts| counts.written),
        replay.least.written,
        replay.wasted_reads / COUNTED as u64,
        times[TIMED / 2] / 1e3,
        times[TIMED - 1] / 1e3,
    )
}

fn main() -> io::Result<()> {
    let asked: Vec<Kind> = std::env::args().filter_map(|name| Kind::of(&name)).collect();
    writeln!(
        io::stdout(),
        "{:10} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9}",
        "",
        "waits",
        "unmapped",
        "first",
        "read",
        "least",
        "written",
        "least",
        "in vain",
        "ms",
        "slowest"
    )?;
    let all = if asked.is_empty() { &PATTERNS[..] } else { &asked };
    let percent = std::env::args().find_map(|percent| percent.parse().ok());
    all.iter().try_for_each(|kind| print(*kind, percent.unwrap_or(200)))
}
