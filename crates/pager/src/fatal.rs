//! The end of a program that cannot be served any more: it must not wait for ever, nor go on with
//! content that nobody wrote.

use rustix::{io, stdio};
use std::fmt;

/// Says why on the standard error, and ends the program.
pub(crate) fn fatal(why: fmt::Arguments<'_>) -> ! {
    let text = format!("interleaf: memory cannot be extended any more: {why}\n");
    // What went wrong may have been nothing else than where this is written to.
    let _ = io::write(stdio::stderr(), text.as_bytes());
    std::process::abort()
}
