//! Defines the trait of traffic sources: the machine's counters, a recording, or a socket to which
//! programs write their traffic.

use interleaf_model::machine::Traffic;
use std::{
    io,
    path::PathBuf,
    time::{Duration, Instant},
};

/// A source of traffic counts.
pub trait Source {
    /// Describes the source in one line: the table or file that it reads, and the traffic that it
    /// does not count.
    fn describe(&self) -> String;

    /// Reads the traffic since the last reading; the first reading covers the time since the source
    /// was opened.
    ///
    /// # Errors
    /// When a counter cannot be read any more, or a recording is at its end.
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

/// The counts of a source since its previous reading.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Reading {
    /// The time that the reading covers.
    pub span: Duration,
    /// Traffic by domain (socket), then by tier, in the order of
    /// [`interleaf_model::machine::Layout`].
    pub traffic: Vec<Vec<Traffic>>,
    pub domain_counts: DomainCounts,
}

/// Counts of whole domains (sockets) and of the whole machine, in addition to the traffic of tiers.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DomainCounts {
    /// Bytes that each domain sent to the other domains over the links between sockets (UPI, xGMI);
    /// empty if they are not counted.
    pub link_bytes: Vec<Option<f64>>,
    /// Issue slots of the cores of each domain (socket); empty if they are not counted.
    pub slots: Vec<Option<Slots>>,
    /// Energy of all metered packages and memory, J; `None` if it is not metered.
    pub energy_j: Option<f64>,
}

/// The number of all issue slots of cores, and of the issue slots that waited for memory (top-down
/// analysis).
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Slots {
    pub all: f64,
    /// Issue slots that stayed empty because the core waited for memory.
    pub memory: f64,
}

/// The reason why a source has no reading.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    /// A counter cannot be read any more.
    #[error("{what}: cannot be read: {why}")]
    Counter { what: String, why: io::Error },
    #[error("{}: the recording is at its end", path.display())]
    Ended { path: PathBuf },
    #[error("the recording cannot be written: {0}")]
    Record(io::Error),
    /// A background thread that does the counting has stopped.
    #[error("{0} has stopped")]
    Stopped(String),
}

/// Returns traffic by domain (socket) and tier, in which every count is unknown.
pub fn nothing(domains: usize, tiers: usize) -> Vec<Vec<Traffic>> {
    vec![vec![Traffic::default(); tiers]; domains]
}

/// A source that counts nothing. It is for policies that need no counts.
#[derive(Clone, Copy, Debug)]
pub struct Uncounted {
    domains: usize,
    tiers: usize,
    last: Instant,
}

impl Uncounted {
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
        Ok(Reading { span, traffic, domain_counts: DomainCounts::default() })
    }
}

/// Adds `more` to `sum`. If only one of them is unknown, it counts as 0; if both are unknown, the
/// sum is unknown.
pub(crate) fn add(sum: &mut Option<f64>, more: Option<f64>) {
    if let Some(more) = more {
        *sum = Some(sum.unwrap_or(0.0) + more);
    }
}
