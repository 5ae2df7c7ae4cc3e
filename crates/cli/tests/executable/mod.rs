//! Writes the executable files that tests run.
//!
//! The kernel does not execute a file that a process has open for writing (`ETXTBSY`). If the test
//! process wrote the file itself, a child that another test forks at this moment would hold the
//! descriptor until its `execve(2)`. So `sh` and `cp` write the files.

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

/// Writes the executable file `path` with `content`. Replaces a file of this name.
pub fn write(path: &Path, content: impl AsRef<[u8]>) {
    let mut shell = Command::new("sh");
    shell.args(["-c", "rm -f \"$0\" && cat > \"$0\" && chmod 755 \"$0\""]).arg(path);
    let mut shell = shell.stdin(Stdio::piped()).spawn().unwrap();
    shell.stdin.take().unwrap().write_all(content.as_ref()).unwrap();
    assert!(shell.wait().unwrap().success(), "{} is not made", path.display());
}

/// Copies an executable file together with its permissions.
pub fn copy(from: &Path, to: &Path) {
    let copied = Command::new("cp").arg("--preserve=mode").arg(from).arg(to).status().unwrap();
    assert!(copied.success(), "{} is not copied", from.display());
}
