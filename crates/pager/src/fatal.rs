//! Ends a program whose faults cannot be served any more. It must neither wait for ever nor
//! continue with wrong content.

use rustix::{io, stdio};
use std::fmt;

/// Prints the reason on standard error, and aborts the program.
pub(crate) fn fatal(why: fmt::Arguments<'_>) -> ! {
    let text = format!("interleaf: memory cannot be extended any more: {why}\n");
    // A failed write is ignored: the error may be that of standard error itself.
    let _ = io::write(stdio::stderr(), text.as_bytes());
    std::process::abort()
}
