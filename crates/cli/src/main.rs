//! The entry point of the `interleaf` command.

use std::process::ExitCode;

/// The allocator of the program. It replaces musl's allocator, in which all threads share one lock.
#[cfg(target_env = "musl")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    interleaf_cli::run(std::env::args_os())
}
