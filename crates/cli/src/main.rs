//! The `interleaf` command.

use std::process::ExitCode;

fn main() -> ExitCode {
    interleaf_cli::run(std::env::args_os())
}
