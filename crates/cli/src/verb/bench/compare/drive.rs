//! Measures with `fio` the drive's bandwidth for a pattern's mix of reads and writes.

use super::child::Comparison;
use crate::{args::BenchCompareArgs, comparison::pattern::Pattern};
use interleaf_console::Failure;
use interleaf_record::bench_compare::{BenchRow, DriveRateDocument};
use serde::Deserialize;
use std::{
    ffi::OsString,
    fs,
    io::{self, Read as _, Seek as _},
    path::PathBuf,
    process::Command,
};

/// Pairs of (transfer size, number of outstanding transfers) that fio tries for patterns that
/// stream. Some resemble the transfers of the pager, which joins neighbouring pages to transfers of
/// at most 1 MiB and keeps several outstanding. The others resemble those of mapped files, which
/// the kernel reads ahead in pieces of several MiB.
const STREAMING: [(&str, u32); 4] = [("256k", 16), ("1m", 8), ("1m", 16), ("4m", 4)];

/// Pairs of (transfer size, number of outstanding transfers) for patterns whose next page a
/// prefetcher can predict.
const PAGES: [(&str, u32); 2] = [("4k", 32), ("4k", 128)];

/// Duration of a fio run, s. On a virtual machine, the load of other programs changes the rate of a
/// drive by a factor of two within seconds. So a fio run is short, and close in time to the runs of
/// the pattern with which it is compared.
const SECONDS: &str = "2";

/// Minimum traffic of a round, bytes. A round with less traffic spends most of its time on other
/// work than transfers, so the rate of the drive is not computed from it.
const REACHED_MIN: u64 = 16 << 20;

/// The path of the file that fio reads and writes. Dropping this value deletes the file.
struct Scratch(PathBuf);

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// The part of fio's JSON output that is read.
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

/// Measures with fio the best rate of the drive for `pattern`, in a file of `footprint` bytes. If
/// the pattern streams, fio mixes reads and writes, with the share `read_share` of reads. For other
/// patterns, fio only reads. Returns `None` if a signal has arrived.
pub(super) fn rate(
    bench: &Comparison<'_>,
    pattern: &Pattern,
    footprint: u64,
    read_share: f64,
) -> Result<Option<DriveRateDocument>, Failure> {
    let name = format!("interleaf-bench-fio-{}", std::process::id());
    let file = Scratch(bench.args().store.join(name));
    let size = format!("--size={footprint}");
    // Write all blocks first: reads of unwritten blocks would not reach the drive.
    let write = [&size, "--rw=write", "--bs=1m", "--iodepth=8"];
    if fio(bench, &file, &write)?.is_none() {
        return Ok(None);
    }
    let share = format!("--rwmixread={:.0}", 100.0 * read_share);
    let threads = bench.args().threads;
    let ways: Vec<(&str, &str, u32)> = match pattern.is_predictable() {
        _ if pattern.is_streaming => STREAMING.map(|(bytes, depth)| ("rw", bytes, depth)).into(),
        true => PAGES.map(|(bytes, depth)| ("randread", bytes, depth)).into(),
        // The next access is unpredictable, so each thread has only one outstanding read.
        false => vec![("randread", "4k", threads)],
    };
    let mut best: Option<DriveRateDocument> = None;
    for (mode, bytes, depth) in ways {
        let (mode_word, bytes_word) = (format!("--rw={mode}"), format!("--bs={bytes}"));
        let depth_word = format!("--iodepth={depth}");
        let timed = ["--time_based", "--runtime", SECONDS];
        let words = [&size, &mode_word, &bytes_word, &depth_word, &share].map(String::as_str);
        let Some(printed) = fio(bench, &file, &[&words[..], &timed].concat())? else {
            return Ok(None);
        };
        let both = |job: &Job| job.read.bw_bytes + job.write.bw_bytes;
        let gbps = printed.jobs.iter().map(both).sum::<f64>() / 1e9;
        if best.as_ref().is_none_or(|best| gbps > best.bandwidth_gbps) {
            let by = format!(
                "{}: {mode} past the page cache in pieces of {bytes}, {depth} at a time",
                printed.version
            );
            best = Some(DriveRateDocument { by, bandwidth_gbps: gbps, read_share });
        }
    }
    best.map(Some).ok_or_else(|| Failure::new("fio was not run", "report it"))
}

/// Returns `measured`, the rate of fio, or a higher rate that the runs of a kind of memory (way)
/// reached: the drive can sustain that rate too. The field `by` of the result then names the way.
/// For patterns of unpredictable single pages, always returns `measured`: a way that reads several
/// pages at a time moves more bytes, but does not complete more requests.
pub(super) fn at_least_reached(
    pattern: &Pattern,
    measured: DriveRateDocument,
    rows: &[BenchRow],
) -> DriveRateDocument {
    if !pattern.moves_bytes() {
        return measured;
    }
    let reached = |row: &BenchRow| {
        let bytes = row.read_bytes? + row.written_bytes?;
        let seconds = row.round_s.filter(|_| row.way != "dram" && bytes >= REACHED_MIN)?;
        Some((row.way.clone(), bytes as f64 / 1e9 / seconds))
    };
    let most = rows.iter().filter_map(reached).max_by(|(_, a), (_, b)| a.total_cmp(b));
    match most {
        Some((way, gbps)) if gbps > measured.bandwidth_gbps => DriveRateDocument {
            by: format!(
                "what {way} moved in its rounds; {:.2} GB/s by {}",
                measured.bandwidth_gbps, measured.by
            ),
            bandwidth_gbps: gbps,
            ..measured
        },
        _ => measured,
    }
}

/// The hint of an error message for a user without a working fio.
const HINT: &str = "install fio, or leave the drive out with --no-drive";

/// Fails before the first run if the store's folder is absent, or if fio is needed and cannot run.
pub(super) fn check(args: &BenchCompareArgs) -> Result<(), Failure> {
    if !args.store.is_dir() {
        return Err(Failure::new(
            format!("--store {}: it is not a folder", args.store.display()),
            "name a folder on the drive that is to extend DRAM",
        ));
    }
    if args.no_drive || args.ratio.iter().all(|ratio| *ratio <= 1.0) {
        return Ok(());
    }
    let all = command(args, &["--version"]);
    let ran = Command::new(&all[0]).args(&all[1..]).output();
    ran.map(drop).map_err(cannot_run)
}

fn cannot_run(why: io::Error) -> Failure {
    Failure::new(format!("fio cannot be run: {why}"), HINT)
}

/// Runs fio and parses its report. Returns `None` if a signal has arrived.
fn fio(bench: &Comparison<'_>, file: &Scratch, words: &[&str]) -> Result<Option<Printed>, Failure> {
    let report = tempfile::NamedTempFile::new().map_err(cannot_run)?;
    let mut messages = tempfile::tempfile().map_err(cannot_run)?;
    let filename = format!("--filename={}", file.0.display());
    let output = format!("--output={}", report.path().display());
    let fixed = ["--name=drive", "--direct=1", "--ioengine=io_uring", "--output-format=json"];
    let all = command(bench.args(), &[&fixed[..], &[&filename, &output], words].concat());
    let status = bench.run_tool(&all, &messages).map_err(cannot_run)?;
    let Some(status) = status else { return Ok(None) };
    let text = fs::read_to_string(report.path()).map_err(cannot_run)?;
    // fio may print warnings before its JSON document.
    let json = text.find('{').map_or("", |at| &text[at..]);
    serde_json::from_str(json).map(Some).map_err(|why| {
        let mut said = String::new();
        let _ = messages.rewind().and_then(|()| messages.read_to_string(&mut said));
        let said = said.lines().next().unwrap_or("");
        Failure::new(format!("fio ended with {status} and no document ({why}): {said}"), HINT)
    })
}

/// Returns the command that runs fio with the arguments `words`. If `--by` gives a launcher
/// command, the launcher starts fio.
fn command(args: &BenchCompareArgs, words: &[&str]) -> Vec<OsString> {
    let by = args.by.as_deref().unwrap_or("").split_whitespace();
    by.chain(["fio"]).chain(words.iter().copied()).map(OsString::from).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::comparison::pattern::PATTERNS;

    fn row(way: &str, read_bytes: u64, round_s: f64) -> BenchRow {
        BenchRow {
            way: way.into(),
            read_bytes: Some(read_bytes),
            written_bytes: Some(0),
            round_s: Some(round_s),
            ..BenchRow::default()
        }
    }

    #[test]
    fn no_way_exceeds_the_bandwidth_of_the_drive() {
        let fio = DriveRateDocument { by: "fio".into(), bandwidth_gbps: 1.0, read_share: 1.0 };
        let rows = [
            row("dram", 1 << 40, 1.0),
            row("pager", 500_000_000, 1.0),
            row("mmap", 1_500_000_000, 1.0),
            row("swap", 1 << 20, 1e-6),
        ];
        let of = |name: &str| {
            let pattern = PATTERNS.iter().find(|pattern| pattern.name == name);
            pattern.map(|pattern| at_least_reached(pattern, fio.clone(), &rows))
        };
        let seq = of("seq").map(|it| (it.bandwidth_gbps, it.by));
        assert_eq!(seq, Some((1.5, "what mmap moved in its rounds; 1.00 GB/s by fio".into())));
        assert_eq!(of("random").map(|it| it.bandwidth_gbps), Some(1.0), "pages, not bytes");
    }
}
