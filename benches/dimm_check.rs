//! Runs the scheduler of the DIMM simulation for a given number of commands, while the simulation's
//! checker looks for violations of timing constraints and of bank states:
//! `cargo bench -p interleaf-benches --bench dimm_check -- 100000000`.
//!
//! The runs take all modules in turn, with random parameters. The benchmark fails at the first
//! violation. `README.md` has the last result.

#[path = "../crates/sim/tests/common/checked.rs"]
mod checked;

use checked::{Setup, run};
use interleaf_sim::dimm::{check::Violation, device::names};
use rayon::prelude::*;
use std::{
    io::Write,
    process::ExitCode,
    sync::atomic::{AtomicU64, Ordering},
    time::Instant,
};

/// The default number of commands to check.
const COMMANDS: u64 = 100_000_000;

/// The number of memory accesses in a run.
const ACCESSES: u64 = 100_000;

/// The number of runs in a round. All cores share the runs of a round. After a round, the benchmark
/// ends if enough commands were checked.
const ROUND: u64 = 64;

fn main() -> ExitCode {
    let wanted = std::env::args().find_map(|text| text.parse().ok()).unwrap_or(COMMANDS);
    let (names, begun, commands) = (names(), Instant::now(), AtomicU64::new(0));
    let mut out = std::io::stdout().lock();
    for round in 0.. {
        let found: Option<(Setup, Violation)> =
            (round * ROUND..(round + 1) * ROUND).into_par_iter().find_map_any(|seed| {
                let setup = Setup::random(&names[seed as usize % names.len()], seed);
                let (checked, violations) = run(&setup.device, &setup, ACCESSES);
                commands.fetch_add(checked, Ordering::Relaxed);
                Some((setup, *violations.first()?))
            });
        let (checked, seconds) = (commands.load(Ordering::Relaxed), begun.elapsed().as_secs_f64());
        if let Some((setup, violation)) = found {
            let _ = writeln!(out, "{setup:#?}\n{violation}");
            return ExitCode::FAILURE;
        }
        if checked >= wanted {
            let runs = (round + 1) * ROUND;
            let _ = writeln!(
                out,
                "{checked} commands of {runs} runs, none against a rule: {seconds:.0} s"
            );
            return ExitCode::SUCCESS;
        }
    }
    ExitCode::FAILURE
}
