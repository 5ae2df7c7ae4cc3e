//! The `interleaf` command.

use std::process::ExitCode;

/// The allocator of musl has one lock for all threads, and is slow.
#[cfg(target_env = "musl")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    interleaf_cli::run(std::env::args_os())
}
