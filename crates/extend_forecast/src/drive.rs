//! The description of a drive: the bandwidth of large transfers, and the latency of single pages at
//! several queue depths.
//!
//! A file of `devices/drives` gives each figure with its source:
//!
//! ```toml
//! schema = "interleaf.drive/1"
//! name = "example"
//! does = "a drive with PCIe Gen4"
//! read_gbps = [7.0, "data sheet"]
//! write_gbps = [5.0, "data sheet"]
//! both_gbps = [8.0, "assumed: of the link"]
//! pages = [[1, 60.0, "data sheet"], [32, 75.0, "data sheet"]]
//! ```
//!
//! `pages` is a list of queue depths, each with the mean latency of a 4 KiB read in microseconds.
//! Between two depths, the latency is interpolated over the logarithm of the depth. Above the
//! greatest depth, the requests per second stay constant.

use crate::miss_curve::Traffic;
use interleaf_model::format::{FileError, toml_text::TomlText};
use serde::Deserialize;
use toml::Spanned;

/// The schema of a drive file.
pub const SCHEMA: &str = "interleaf.drive/1";

/// Size of a page, bytes: the size of the reads whose latency is in [`Drive::pages`].
pub const PAGE_BYTES: f64 = 4096.0;

/// The largest number that a drive file may have in any field, whatever its unit: GB/s,
/// microseconds, or outstanding reads.
const MOST: f64 = 1e6;

/// The mean latency of page reads at a queue depth.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PageLatency {
    /// Queue depth: the number of outstanding reads.
    pub depth: f64,
    /// Seconds from the request to its completion.
    pub seconds: f64,
}

/// A drive, or several striped drives.
#[derive(Clone, Debug, PartialEq)]
pub struct Drive {
    pub name: String,
    pub does: String,
    /// Bandwidth of large reads alone, bytes per second.
    pub read_rate: f64,
    /// Bandwidth of large writes alone, bytes per second.
    pub write_rate: f64,
    /// Maximum bandwidth of reads and writes together, bytes per second.
    pub both_rate: f64,
    /// The latencies of page reads, in ascending order of the queue depth; at least one.
    pub pages: Vec<PageLatency>,
    /// True if the figures come from a run of the program, and so include the time of the program's
    /// page faults.
    pub is_of_run: bool,
    /// The source of each figure: pairs of the figure's name and its source.
    pub sources: Vec<(String, String)>,
}

/// A figure of a drive file, and its source.
type Sourced = (Spanned<f64>, Spanned<String>);

/// A queue depth, the latency of a page read at this depth in microseconds, and its source.
type PageLatencyEntry = (Spanned<f64>, Spanned<f64>, Spanned<String>);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct DriveFile {
    schema: Spanned<String>,
    name: Spanned<String>,
    does: Spanned<String>,
    read_gbps: Sourced,
    write_gbps: Sourced,
    both_gbps: Sourced,
    pages: Spanned<Vec<PageLatencyEntry>>,
}

impl Drive {
    /// Parses the text of a drive file. Error messages use `file` as its name.
    ///
    /// # Errors
    /// When a field is missing, unknown, or out of range: the error names the field and its line.
    pub fn parse(file: &str, text: &str) -> Result<Self, FileError> {
        let toml = TomlText::new(file, text);
        let read: DriveFile = toml.read_as(SCHEMA)?;
        toml.schema(&read.schema, SCHEMA)?;
        let mut sources = vec![];
        let mut rate = |field: &str, (value, source): &Sourced| {
            sources.push((field.to_string(), toml.said(field, source)?));
            Ok(1e9 * toml.positive(field, value, MOST)?)
        };
        let read_rate = rate("read_gbps", &read.read_gbps)?;
        let write_rate = rate("write_gbps", &read.write_gbps)?;
        let both_rate = rate("both_gbps", &read.both_gbps)?;
        let mut pages: Vec<PageLatency> = vec![];
        for (at, (depth, latency_us, source)) in read.pages.get_ref().iter().enumerate() {
            let field = format!("pages[{at}]");
            let seconds = 1e-6 * toml.positive(&field, latency_us, MOST)?;
            let page = PageLatency { depth: toml.positive(&field, depth, MOST)?, seconds };
            if let Some(last) = pages.last().filter(|last| last.depth >= page.depth) {
                let problem = format!("{} is not above {}", page.depth, last.depth);
                let hint = "write the queue depths in ascending order";
                return Err(toml.error(&field, depth, problem, hint));
            }
            sources.push((field.clone(), toml.said(&field, source)?));
            pages.push(page);
        }
        if pages.is_empty() {
            let hint = "give the latency at depth 1 at least";
            return Err(toml.error("pages", &read.pages, "it is empty", hint));
        }
        Ok(Self {
            name: toml.said("name", &read.name)?,
            does: toml.said("does", &read.does)?,
            read_rate,
            write_rate,
            both_rate,
            pages,
            is_of_run: false,
            sources,
        })
    }

    /// Returns the time that the drive takes for `traffic` in large transfers, at a queue depth
    /// that saturates it, seconds. Reads and writes overlap.
    pub fn transfer_s(&self, traffic: Traffic) -> f64 {
        let Traffic { read_bytes, written_bytes } = traffic;
        let both = traffic.bytes() / self.both_rate;
        both.max(read_bytes / self.read_rate).max(written_bytes / self.write_rate)
    }

    /// Returns the mean latency of a page read while `outstanding` reads are outstanding, seconds.
    pub fn page_s(&self, outstanding: f64) -> f64 {
        let after = self.pages.partition_point(|page| page.depth <= outstanding);
        match (after.checked_sub(1).map(|at| self.pages[at]), self.pages.get(after)) {
            (Some(before), Some(after)) => {
                let share =
                    libm::log(outstanding / before.depth) / libm::log(after.depth / before.depth);
                before.seconds + share * (after.seconds - before.seconds)
            }
            // Above the greatest depth in `pages`, the requests per second stay constant, so the
            // latency is proportional to the outstanding requests (Little's law).
            (Some(last), None) => last.seconds * outstanding / last.depth,
            (None, first) => first.map_or(0.0, |first| first.seconds),
        }
    }

    /// Returns the time that `threads` threads need to read `pages` pages in total, seconds. Each
    /// thread waits for one read at a time.
    pub fn demand_s(&self, pages: f64, threads: u32) -> f64 {
        let threads = f64::from(threads.max(1));
        pages * self.page_s(threads) / threads
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;

    const TEXT: &str = "schema = \"interleaf.drive/1\"\nname = \"d\"\ndoes = \"a test\"\n\
        read_gbps = [4.0, \"a\"]\nwrite_gbps = [2.0, \"b\"]\nboth_gbps = [5.0, \"c\"]\n\
        pages = [[1, 50.0, \"e\"], [16, 100.0, \"f\"]]\n";

    #[test]
    fn transfers_take_as_long_as_the_slowest_limit() {
        let drive = Drive::parse("d.toml", TEXT).unwrap();
        let seconds = |read_bytes: f64, written_bytes: f64| {
            drive.transfer_s(Traffic { read_bytes, written_bytes })
        };
        assert_eq!(seconds(4e9, 0.0), 1.0);
        assert_eq!(seconds(0.0, 4e9), 2.0);
        assert_eq!(seconds(4e9, 2e9), 1.2);
    }

    #[test]
    fn latency_rises_with_the_queue() {
        let drive = Drive::parse("d.toml", TEXT).unwrap();
        let us = |outstanding: f64| (1e6 * drive.page_s(outstanding)).round();
        assert_eq!([us(1.0), us(4.0), us(16.0), us(32.0)], [50.0, 75.0, 100.0, 200.0]);
        assert_eq!((1e6 * drive.demand_s(160.0, 16)).round(), 1000.0);
    }

    #[test]
    fn errors_name_the_field_and_its_value() {
        for (from, to, part) in [
            ("interleaf.drive/1", "interleaf.card/1", "d.toml:1: schema: \"interleaf.card/1\""),
            ("[4.0, \"a\"]", "[-4.0, \"a\"]", "d.toml:4: read_gbps: -4.0 is not above 0"),
            ("[16, 100.0", "[1, 100.0", "d.toml:7: pages[1]: 1 is not above 1"),
            (
                "[4.0, \"a\"]",
                "4.0",
                "d.toml:4: read_gbps: invalid type: floating point `4.0`, expected a list",
            ),
            ("\"b\"", "\"\"", "d.toml:5: write_gbps: it is empty"),
            ("does = \"a test\"\n", "", "d.toml: missing field `does`"),
            ("does", "speed", "d.toml:3: speed: unknown field `speed`"),
        ] {
            let why = Drive::parse("d.toml", &TEXT.replacen(from, to, 1)).unwrap_err();
            assert!(why.to_string().contains(part), "{why}");
        }
        let why =
            Drive::parse("d.toml", &TEXT.replace("[[1, 50.0, \"e\"], [16, 100.0, \"f\"]]", "[]"));
        assert!(why.unwrap_err().to_string().contains("d.toml:7: pages: it is empty"));
    }
}
