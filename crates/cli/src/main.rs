//! The `interleaf` command.

use std::process::ExitCode;

/// Replaces the allocator of musl, which is slow because all threads share one lock.
#[cfg(target_env = "musl")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    interleaf_cli::run(std::env::args_os())
}
