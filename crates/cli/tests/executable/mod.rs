//! Executable files that tests make.
//!
//! The kernel does not execute a file that a process has open for writing (`ETXTBSY`). A child that
//! another test of the same program has just forked holds all descriptors until its `execve(2)`. So
//! other processes write the files.

#![allow(
    clippy::unwrap_used,
    dead_code,
    unreachable_pub,
    reason = "a test fails by panicking, and each test uses a part of it"
)]

use std::{
    io::Write as _,
    path::Path,
    process::{Command, Stdio},
};

/// Makes the executable file `path` with this content, in place of an earlier file.
pub fn write(path: &Path, content: impl AsRef<[u8]>) {
    let mut shell = Command::new("sh");
    shell.args(["-c", "rm -f \"$0\" && cat > \"$0\" && chmod 755 \"$0\""]).arg(path);
    let mut shell = shell.stdin(Stdio::piped()).spawn().unwrap();
    shell.stdin.take().unwrap().write_all(content.as_ref()).unwrap();
    assert!(shell.wait().unwrap().success(), "{} is not made", path.display());
}

/// Copies an executable file with its permissions.
pub fn copy(from: &Path, to: &Path) {
    let copied = Command::new("cp").arg("--preserve=mode").arg(from).arg(to).status().unwrap();
    assert!(copied.success(), "{} is not copied", from.display());
}
