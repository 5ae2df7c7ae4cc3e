//! Records the readings of a source, and replays recordings as a source.
//!
//! A recording is a CSV file that begins with `# interleaf.counters/1` and a line with the names of
//! its columns:
//!
//! | column | content |
//! | --- | --- |
//! | `time_s` | end of the period, s since the recording began |
//! | `domain`, `tier` | the numbers of the domain and the tier, counted from 0 |
//! | `read_bytes`, `written_bytes` | bytes in the period |
//! | `inserts` | requests that began to wait in the period |
//! | `occupancy_ns` | time that requests waited in the period, summed over the requests, ns |
//!
//! An empty field is unknown, not 0. Lines with the same time form one reading. Files from other
//! programs may lack the first line.

use crate::source::{Reading, Source, SourceError, nothing};
use interleaf_linux::input;
use interleaf_model::machine::Traffic;
use std::{
    io,
    path::{Path, PathBuf},
    time::Duration,
};

const SCHEMA: &str = "# interleaf.counters/1";
const COLUMNS: &str = "time_s,domain,tier,read_bytes,written_bytes,inserts,occupancy_ns";

/// Maximum size of a recording, bytes. A reading of two sockets with two tiers each has four lines
/// of up to 100 bytes, so this size is enough for a week with one reading per second.
const RECORDING_MAX: u64 = 256 << 20;

/// The highest index of a domain (socket) or tier that a recording may have: more than any machine
/// has.
const INDEX_MAX: usize = 255;

/// Descriptions of a valid line, and of the allowed values of its fields.
const FIELDS: &str = "a line of traffic, with a field for each of the 7 columns";
const TIME: &str = "a time in s of at least 0";
const INDEX: &str = "a whole number from 0 to 255";
const COUNT: &str = "a number of at least 0, or empty if it is unknown";

#[derive(Clone, Debug)]
pub struct Replay {
    path: PathBuf,
    readings: Vec<Reading>,
    next: usize,
}

/// The reason why a file is not a recording.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    #[error("{}: cannot be read: {why}", path.display())]
    Read { path: PathBuf, why: io::Error },
    #[error("{}:{line}: \"{text}\" is not {expected}", path.display())]
    Line {
        path: PathBuf,
        /// The 1-based line number.
        line: usize,
        /// The text that differs from the expected content.
        text: String,
        /// A description of the expected content.
        expected: &'static str,
    },
    #[error("{}:{line}: {column}: \"{text}\" is not {expected}", path.display())]
    Field {
        path: PathBuf,
        /// The 1-based line number.
        line: usize,
        /// The name of the field's column.
        column: &'static str,
        /// The text of the field.
        text: String,
        /// A description of the allowed values.
        expected: &'static str,
    },
    #[error("{}: no readings", path.display())]
    Empty { path: PathBuf },
}

/// A line of a recording.
struct Row {
    time: Duration,
    domain: usize,
    tier: usize,
    traffic: Traffic,
}

impl Replay {
    /// Opens the recording at `path`.
    ///
    /// # Errors
    /// When the file cannot be read, or a line is malformed.
    pub fn open(path: &Path) -> Result<Self, ReplayError> {
        let read = input::read_file(path, RECORDING_MAX);
        let bytes = read.map_err(|why| ReplayError::Read { path: path.into(), why })?;
        let text = String::from_utf8_lossy(&bytes);
        let wrong = |line: usize, text: &str, expected| ReplayError::Line {
            path: path.into(),
            line: line + 1,
            text: text.into(),
            expected,
        };
        let mut rows: Vec<Row> = vec![];
        let mut columns = false;
        for (at, line) in text.lines().enumerate() {
            let line = line.trim();
            match line {
                SCHEMA | "" => {}
                line if line.starts_with("# interleaf") => {
                    return Err(wrong(at, line, "a recording that this version reads"));
                }
                line if line.starts_with('#') => {}
                COLUMNS => columns = true,
                line if !columns => return Err(wrong(at, line, COLUMNS)),
                line => {
                    let fields: Vec<&str> = line.split(',').map(str::trim).collect();
                    let Ok(fields) = <[&str; 7]>::try_from(fields) else {
                        return Err(wrong(at, line, FIELDS));
                    };
                    let row = row(fields).map_err(|(column, expected)| ReplayError::Field {
                        path: path.into(),
                        line: at + 1,
                        column: COLUMNS.split(',').nth(column).unwrap_or_default(),
                        text: fields[column].into(),
                        expected,
                    })?;
                    if rows.last().is_some_and(|last| last.time > row.time) {
                        return Err(wrong(at, line, "later than the line before"));
                    }
                    rows.push(row);
                }
            }
        }
        if rows.is_empty() {
            return Err(ReplayError::Empty { path: path.into() });
        }
        Ok(Self { path: path.into(), readings: readings(&rows), next: 0 })
    }

    /// Returns the number of domains (sockets) of each reading.
    pub fn domains(&self) -> usize {
        self.readings.first().map_or(0, |reading| reading.traffic.len())
    }

    /// Returns the number of tiers of each reading.
    pub fn tiers(&self) -> usize {
        let first = self.readings.first().and_then(|reading| reading.traffic.first());
        first.map_or(0, Vec::len)
    }
}

impl Source for Replay {
    fn describe(&self) -> String {
        format!("the recording {}, {} readings", self.path.display(), self.readings.len())
    }

    fn read(&mut self) -> Result<Reading, SourceError> {
        let reading = self.readings.get(self.next).cloned();
        self.next += 1;
        reading.ok_or_else(|| SourceError::Ended { path: self.path.clone() })
    }
}

/// Parses the fields of a line. If a field is malformed, returns the index of its column and a
/// description of the allowed values.
fn row(fields: [&str; 7]) -> Result<Row, (usize, &'static str)> {
    let time_s = fields[0].parse().ok().and_then(|s| Duration::try_from_secs_f64(s).ok());
    let index = |column: usize| {
        let index = fields[column].parse().ok().filter(|index: &usize| *index <= INDEX_MAX);
        index.ok_or((column, INDEX))
    };
    let count = |column: usize| match fields[column] {
        "" => Ok(None),
        text => {
            let count = text.parse().ok().filter(|n: &f64| n.is_finite() && *n >= 0.0);
            count.map(Some).ok_or((column, COUNT))
        }
    };
    Ok(Row {
        time: time_s.ok_or((0, TIME))?,
        domain: index(1)?,
        tier: index(2)?,
        traffic: Traffic {
            read_bytes: count(3)?,
            written_bytes: count(4)?,
            inserts: count(5)?,
            occupancy_ns: count(6)?,
        },
    })
}

fn readings(rows: &[Row]) -> Vec<Reading> {
    let domains = rows.iter().map(|row| row.domain + 1).max().unwrap_or(0);
    let tiers = rows.iter().map(|row| row.tier + 1).max().unwrap_or(0);
    let mut before = Duration::ZERO;
    let periods = rows.chunk_by(|a, b| a.time == b.time);
    periods
        .map(|period| {
            let mut traffic = nothing(domains, tiers);
            for row in period {
                traffic[row.domain][row.tier] = row.traffic;
            }
            let span = period[0].time - before;
            before = period[0].time;
            Reading { span, traffic, ..Reading::default() }
        })
        .collect()
}

/// A source that returns the readings of another source, and records their traffic.
/// [`Reading::domain_counts`] is not recorded.
#[derive(Debug)]
pub struct Recorder<S, W> {
    source: S,
    to: W,
    time: Duration,
}

impl<S: Source, W: io::Write> Recorder<S, W> {
    /// Makes a recorder of the readings of `source`, which writes to `to`. `to` is flushed after
    /// each reading, so an interruption loses no earlier reading.
    ///
    /// # Errors
    /// When the header cannot be written.
    pub fn new(source: S, mut to: W) -> io::Result<Self> {
        writeln!(to, "{SCHEMA}\n{COLUMNS}")?;
        Ok(Self { source, to, time: Duration::ZERO })
    }

    fn record(&mut self, reading: &Reading) -> io::Result<()> {
        self.time += reading.span;
        let (s, ns) = (self.time.as_secs(), self.time.subsec_nanos());
        let text = |count: Option<f64>| count.map_or(String::new(), |count| count.to_string());
        for (domain, tiers) in reading.traffic.iter().enumerate() {
            for (tier, traffic) in tiers.iter().enumerate() {
                let counts = [
                    text(traffic.read_bytes),
                    text(traffic.written_bytes),
                    text(traffic.inserts),
                    text(traffic.occupancy_ns),
                ];
                writeln!(self.to, "{s}.{ns:09},{domain},{tier},{}", counts.join(","))?;
            }
        }
        self.to.flush()
    }
}

impl<S: Source, W: io::Write> Source for Recorder<S, W> {
    fn describe(&self) -> String {
        format!("{}; recorded", self.source.describe())
    }

    fn read(&mut self) -> Result<Reading, SourceError> {
        let reading = self.source.read()?;
        // A feed without a new line returns a reading that covers no time and has no counts. It is
        // not recorded: lines of the same time form one reading, so it would overwrite the previous
        // reading.
        if !reading.span.is_zero() {
            self.record(&reading).map_err(SourceError::Record)?;
        }
        Ok(reading)
    }
}
