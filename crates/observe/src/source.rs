//! The seam behind which traffic is counted: the counters of the machine, a recording of some, or
//! whatever a program feeds.

use interleaf_model::machine::Traffic;
use std::{
    io,
    path::PathBuf,
    time::{Duration, Instant},
};

/// Something that counts traffic.
pub trait Source {
    /// What it is, in a line: the table or file it reads, and what it cannot tell.
    fn describe(&self) -> String;

    /// What was counted since the last reading; the first one covers the time since the source was
    /// opened.
    ///
    /// # Errors
    /// When a counter that was there before cannot be read, or a recording is at its end.
    fn read(&mut self) -> Result<Reading, SourceError>;
}

impl<S: Source + ?Sized> Source for Box<S> {
    fn describe(&self) -> String {
        (**self).describe()
    }

    fn read(&mut self) -> Result<Reading, SourceError> {
        (**self).read()
    }
}

/// What was counted since the reading before.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Reading {
    /// The time that it covers.
    pub span: Duration,
    /// Traffic by domain (socket), then by tier, in the order of
    /// [`interleaf_model::machine::Layout`].
    pub traffic: Vec<Vec<Traffic>>,
    /// What else was counted.
    pub extras: Extras,
}

/// What is counted beside the traffic of tiers.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Extras {
    /// Bytes that each domain sent to others over the links between sockets (UPI, xGMI); empty
    /// where no domain's are counted.
    pub link_bytes: Vec<Option<f64>>,
    /// Issue slots of the cores of each domain; empty where no domain's are counted.
    pub slots: Vec<Option<Slots>>,
    /// Energy of all packages and memory that are metered, J.
    pub energy_j: Option<f64>,
}

/// Issue slots of cores, and those of them that waited for memory (top-down analysis).
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Slots {
    /// All of them.
    pub all: f64,
    /// Those in which nothing was issued for want of data.
    pub memory: f64,
}

/// Why a source has no reading.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    /// A counter cannot be read any more.
    #[error("{what}: cannot be read: {why}")]
    Counter {
        /// The counter.
        what: String,
        /// The system's reason.
        why: io::Error,
    },
    /// A recording has no more readings.
    #[error("{}: the recording is at its end", path.display())]
    Ended {
        /// The recording.
        path: PathBuf,
    },
    /// A recording cannot be written.
    #[error("the recording cannot be written: {0}")]
    Record(io::Error),
    /// What counts in the background has stopped.
    #[error("{0} has stopped")]
    Stopped(String),
}

/// Traffic of which nothing is counted, of so many domains and tiers.
pub fn nothing(domains: usize, tiers: usize) -> Vec<Vec<Traffic>> {
    vec![vec![Traffic::default(); tiers]; domains]
}

/// A source that counts nothing: for who decides without looking.
#[derive(Clone, Copy, Debug)]
pub struct Uncounted {
    domains: usize,
    tiers: usize,
    last: Instant,
}

impl Uncounted {
    /// Of so many domains and tiers.
    pub fn new(domains: usize, tiers: usize) -> Self {
        Self { domains, tiers, last: Instant::now() }
    }
}

impl Source for Uncounted {
    fn describe(&self) -> String {
        "nothing: this policy decides without".into()
    }

    fn read(&mut self) -> Result<Reading, SourceError> {
        let span = self.last.elapsed();
        self.last += span;
        let traffic = nothing(self.domains, self.tiers);
        Ok(Reading { span, traffic, extras: Extras::default() })
    }
}

/// Adds what is known of `more` to `sum`: what neither knows stays unknown.
pub(crate) fn add(sum: &mut Option<f64>, more: Option<f64>) {
    if let Some(more) = more {
        *sum = Some(sum.unwrap_or(0.0) + more);
    }
}
