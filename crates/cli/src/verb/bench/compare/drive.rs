//! What the drive itself can do with the mix of reads and writes that a pattern makes, by `fio`.

use super::{child::Bench, pattern::Pattern};
use crate::{document::bench_compare::DriveRateDocument, failure::Failure};
use serde::Deserialize;
use std::{
    fs,
    path::PathBuf,
    process::{Command, Output},
};

/// Sizes of a transfer, and how many are under way: 256 KiB eight times over is enough for all
/// drives that were seen, and some like larger ones.
const STREAMING: [(&str, u32); 2] = [("256k", 8), ("1m", 8)];

/// For how long each is measured.
const SECONDS: &str = "3";

/// A file to read and write. It is removed when this goes.
struct Scratch(PathBuf);

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// What fio prints, as far as it is of use.
#[derive(Deserialize)]
struct Printed {
    #[serde(rename = "fio version")]
    version: String,
    jobs: Vec<Job>,
}

#[derive(Deserialize)]
struct Job {
    read: Direction,
    write: Direction,
}

#[derive(Deserialize)]
struct Direction {
    bw_bytes: f64,
}

/// The best that the drive does for a pattern, of whose bytes so many are read.
pub(super) fn rate(
    bench: &Bench<'_>,
    pattern: &Pattern,
    footprint: u64,
    read_share: f64,
) -> Result<DriveRateDocument, Failure> {
    let name = format!("interleaf-bench-fio-{}", std::process::id());
    let file = Scratch(bench.args().store.join(name));
    let size = format!("--size={footprint}");
    // All blocks are there before they are read.
    fio(bench, &file, &[&size, "--rw=write", "--bs=1m", "--iodepth=8"])?;
    let share = format!("--rwmixread={:.0}", 100.0 * read_share);
    let threads = bench.args().threads;
    let ways: Vec<(&str, &str, u32)> = match pattern.prediction() {
        _ if pattern.is_streaming => STREAMING.map(|(bytes, depth)| ("rw", bytes, depth)).into(),
        true => vec![("randread", "4k", 32)],
        // Nobody can know what comes next: there is one read for each thread.
        false => vec![("randread", "4k", threads)],
    };
    let mut best: Option<DriveRateDocument> = None;
    for (mode, bytes, depth) in ways {
        let (mode_word, bytes_word) = (format!("--rw={mode}"), format!("--bs={bytes}"));
        let depth_word = format!("--iodepth={depth}");
        let timed = ["--time_based", "--runtime", SECONDS];
        let words = [&size, &mode_word, &bytes_word, &depth_word, &share].map(String::as_str);
        let printed = fio(bench, &file, &[&words[..], &timed].concat())?;
        let both = |job: &Job| job.read.bw_bytes + job.write.bw_bytes;
        let gbps = printed.jobs.iter().map(both).sum::<f64>() / 1e9;
        if best.as_ref().is_none_or(|best| gbps > best.bandwidth_gbps) {
            let by = format!("{}: {mode} in pieces of {bytes}, {depth} at a time", printed.version);
            best = Some(DriveRateDocument { by, bandwidth_gbps: gbps, read_share });
        }
    }
    best.ok_or_else(|| Failure::new("fio was not run", "report it"))
}

fn fio(bench: &Bench<'_>, file: &Scratch, words: &[&str]) -> Result<Printed, Failure> {
    let by = bench.args().by.as_deref().unwrap_or("").split_whitespace();
    let mut all: Vec<String> = by.map(String::from).collect();
    let fixed =
        ["fio", "--name=drive", "--direct=1", "--ioengine=io_uring", "--output-format=json"];
    all.extend(fixed.map(String::from));
    all.push(format!("--filename={}", file.0.display()));
    all.extend(words.iter().map(ToString::to_string));
    let hint = "install fio, or leave the drive out with --no-drive";
    let ran = Command::new(&all[0]).args(&all[1..]).output();
    let Output { status, stdout, stderr } =
        ran.map_err(|why| Failure::new(format!("fio cannot be run: {why}"), hint))?;
    let text = String::from_utf8_lossy(&stdout);
    // Warnings may be before the document.
    let json = text.find('{').map_or("", |at| &text[at..]);
    serde_json::from_str(json).map_err(|why| {
        let said = String::from_utf8_lossy(&stderr);
        let said = said.lines().next().unwrap_or("").to_string();
        Failure::new(format!("fio ended with {status} and no document ({why}): {said}"), hint)
    })
}
