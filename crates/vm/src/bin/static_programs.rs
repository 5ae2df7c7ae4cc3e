//! `static_programs`: builds the static programs of the guests, and prints the path of the static
//! program `interleaf`. The tests that boot guests find the programs up to date afterwards.

use std::{
    io::{self, Write},
    process::ExitCode,
};

use interleaf_vm::program;

fn main() -> ExitCode {
    match program::folder().and_then(|folder| program::build(&folder)) {
        Ok(programs) => {
            // A failure to write to stdout cannot be reported anywhere.
            let _ = writeln!(io::stdout(), "{}", programs.interleaf.display());
            ExitCode::SUCCESS
        }
        Err(why) => {
            let hint = "a static program needs libc.a: apt-get install libc6-dev";
            let _ = writeln!(io::stderr(), "error: {why}\n\nhint: {hint}");
            ExitCode::from(2)
        }
    }
}
