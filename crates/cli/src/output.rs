//! The only place that writes: data to stdout, messages and progress to stderr, files.

use crate::failure::Failure;
use indicatif::{ProgressBar, ProgressStyle};
use std::{
    fs,
    io::{self, ErrorKind, Write},
    os::unix::fs::FileTypeExt as _,
    path::Path,
};

/// Writes `text` to stdout.
pub(crate) fn data(text: &str) -> Result<(), Failure> {
    let mut stdout = io::stdout().lock();
    let written = stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush());
    written.map_err(|why| match why.kind() {
        ErrorKind::BrokenPipe => Failure::BrokenPipe,
        _ => Failure::new(format!("stdout: {why}"), "write to a file with -o FILE instead"),
    })
}

/// Writes `text` and the end of the line to stderr.
pub(crate) fn message(text: &str) {
    // When nobody can be told, nobody can be told that either.
    let _ = writeln!(io::stderr().lock(), "{text}");
}

/// Passes on to stderr what a command has written.
pub(crate) fn passed_on(bytes: &[u8]) {
    // As for a message.
    let _ = io::stderr().lock().write_all(bytes);
}

/// Writes `text` to `target`; `-` is stdout.
pub(crate) fn file(target: &Path, text: &str) -> Result<(), Failure> {
    if target == Path::new("-") {
        return data(text);
    }
    fs::write(target, text).map_err(|why| file_failure(target, &why))
}

/// Writes `bytes`, which are no text, to the file `target`.
pub(crate) fn bytes(target: &Path, bytes: &[u8]) -> Result<(), Failure> {
    fs::write(target, bytes).map_err(|why| file_failure(target, &why))
}

/// Writes `text` to `target` in one step, so that who reads it or is cut off in the middle has the
/// old one or the new one whole; `-` is stdout.
pub(crate) fn anew(target: &Path, text: &str) -> Result<(), Failure> {
    // What a link leads to is what is meant.
    let target = fs::canonicalize(target).unwrap_or_else(|_| target.to_path_buf());
    let there = fs::metadata(&target);
    let is_file = there.as_ref().map_or(true, fs::Metadata::is_file);
    let Some(name) = target.file_name().filter(|_| is_file) else { return file(&target, text) };
    if target == Path::new("-") {
        return data(text);
    }
    let new = target.with_file_name(format!(".{}.new", name.to_string_lossy()));
    let written = fs::write(&new, text).and_then(|()| {
        if let Ok(there) = there {
            fs::set_permissions(&new, there.permissions())?;
        }
        fs::rename(&new, &target)
    });
    written.map_err(|why| {
        // What could not be written whole is in nobody's way.
        let _ = fs::remove_file(&new);
        file_failure(&target, &why)
    })
}

/// Makes sure that `target` can be written before long work begins, without changing what it
/// holds.
pub(crate) fn check_writable(target: Option<&Path>) -> Result<(), Failure> {
    let Some(target) = target.filter(|target| *target != Path::new("-")) else { return Ok(()) };
    let there = fs::symlink_metadata(target).map(|there| there.file_type());
    if there.as_ref().is_ok_and(|there| there.is_fifo()) {
        // Who reads a pipe takes the end of a trial for the end of all.
        return Ok(());
    }
    // A link to nothing is there: it is not ours to remove.
    let is_new = there.is_err();
    let opened = fs::OpenOptions::new().append(true).create(true).open(target);
    opened.map_err(|why| file_failure(target, &why))?;
    if is_new {
        // It was only a trial; should the work fail, no empty file is left behind.
        let _ = fs::remove_file(target);
    }
    Ok(())
}

fn file_failure(target: &Path, why: &io::Error) -> Failure {
    Failure::new(
        format!("{}: cannot be written: {why}", target.display()),
        "name a file in a folder that is there and that you may write to",
    )
}

/// A progress bar over bytes, as many as are told later, on a terminal only.
pub(crate) fn progress_bytes(what: &str) -> ProgressBar {
    let template = "{msg:<40} {bar:30} {binary_bytes}/{binary_total_bytes} {elapsed}";
    bar(0, what, template)
}

/// A progress bar over `steps` steps, on a terminal only.
pub(crate) fn progress(steps: u64, what: &str) -> ProgressBar {
    bar(steps, what, "{msg:<40} {bar:30} {pos}/{len} {elapsed}")
}

/// A line that says how it goes, on a terminal only.
pub(crate) fn spinner() -> ProgressBar {
    bar(0, "", "{msg}")
}

fn bar(length: u64, what: &str, template: &str) -> ProgressBar {
    let bar = ProgressBar::new(length).with_message(what.to_string());
    match ProgressStyle::with_template(template) {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}
