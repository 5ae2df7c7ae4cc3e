//! Aborts a program whose faults the pager can no longer handle. Without the abort, the program's
//! threads would wait for ever, or continue with wrong content in memory.

use rustix::{io, stdio};
use std::fmt;

/// Prints the reason on standard error, and aborts the program.
pub(crate) fn fatal(why: fmt::Arguments<'_>) -> ! {
    let text = format!("interleaf: memory cannot be extended any more: {why}\n");
    // A failed write is ignored: standard error may be closed.
    let _ = io::write(stdio::stderr(), text.as_bytes());
    std::process::abort()
}
