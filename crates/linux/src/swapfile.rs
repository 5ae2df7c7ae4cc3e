//! A swap file that is there for a while.

use crate::{process::process, root::Root};
use std::{
    fs::{self, File},
    io::{self, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
    process::Command,
};

/// What the names of our files begin with; the process that made it is behind that.
const PREFIX: &str = "interleaf-bench-swap-";

/// How much is written at once.
const CHUNK: usize = 1 << 20;

/// A file that the kernel swaps to. It is switched off and removed when this goes.
#[derive(Debug)]
pub struct SwapFile {
    path: PathBuf,
    is_on: bool,
}

impl SwapFile {
    /// Makes one of so many bytes in a folder, and switches it on. What a process that is gone has
    /// left there is removed first.
    ///
    /// # Errors
    /// When there is no room, or this user may not.
    pub fn new(root: &Root, folder: &Path, bytes: u64) -> io::Result<Self> {
        remove_left(root, folder)?;
        let path = folder.join(format!("{PREFIX}{}", std::process::id()));
        // From here on it is removed, whatever fails.
        let mut this = Self { path, is_on: false };
        let options = &mut File::options();
        let mut file = options.write(true).create_new(true).mode(0o600).open(&this.path)?;
        // Swap needs blocks that are there: a hole is refused.
        let zeros = vec![0; CHUNK];
        for _ in 0..bytes.div_ceil(CHUNK as u64) {
            file.write_all(&zeros)?;
        }
        file.sync_all()?;
        tool("mkswap", &this.path)?;
        tool("swapon", &this.path)?;
        this.is_on = true;
        Ok(this)
    }
}

impl Drop for SwapFile {
    fn drop(&mut self) {
        if self.is_on {
            // What cannot be switched off stays, and so does its file, for the next start to see.
            if tool("swapoff", &self.path).is_err() {
                return;
            }
        }
        let _ = fs::remove_file(&self.path);
    }
}

/// Removes the swap files of processes that are gone.
fn remove_left(root: &Root, folder: &Path) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let Some(pid) = name.strip_prefix(PREFIX).and_then(|it| it.parse().ok()) else { continue };
        if process(root, pid).is_ok_and(|process| process.is_none()) {
            let swaps = root.peek("/proc/swaps").ok().flatten().unwrap_or_default();
            drop(SwapFile { is_on: swaps.contains(&name), path });
        }
    }
    Ok(())
}

/// Runs a tool of util-linux on a file.
fn tool(name: &str, path: &Path) -> io::Result<()> {
    let ran = Command::new(name).arg(path).output().map_err(|why| {
        io::Error::new(why.kind(), format!("{name} (of util-linux) cannot be run: {why}"))
    })?;
    if ran.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&ran.stderr);
    Err(io::Error::other(format!("{name}: {}", said.trim())))
}
