//! The feed carries memory traffic in the form in which bandwidth counters would report it. Guests
//! have no bandwidth counters.
//!
//! A daemon that observes bandwidth listens on a stream socket in the file system. A client
//! connects and writes lines, each a JSON object:
//!
//! ```text
//! {"domain":0,"tier":1,"read_bytes":580,"written_bytes":420,"inserts":16,"occupancy_ns":4000}
//! ```
//!
//! A line counts the traffic since this client's last line for the same domain and tier. `inserts`
//! and `occupancy_ns` are optional: the latency of a cache line is `occupancy_ns` divided by
//! `inserts`. `time_ns`, also optional, is the end of the counted interval by `CLOCK_MONOTONIC`.

use std::{
    io::{self, Write},
    os::unix::net::UnixStream,
    path::PathBuf,
    time::Duration,
};

use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

/// Write timeout. It is short, because a slow listener must not delay the client's work.
const PATIENCE: Duration = Duration::from_millis(50);

/// A line of the feed: the traffic of one domain on one tier in one interval.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fed {
    /// Index of the domain (socket or sub-NUMA cluster) that causes the traffic.
    pub domain: usize,
    /// Index of the tier that serves the traffic.
    pub tier: usize,
    pub read_bytes: u64,
    pub written_bytes: u64,
    /// Number of requests that entered the memory controller's queue.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inserts: Option<u64>,
    /// Sum of the times for which requests were in the queue, ns.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub occupancy_ns: Option<u64>,
    /// End of the counted interval, by `CLOCK_MONOTONIC`, ns.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time_ns: Option<u64>,
}

impl Fed {
    /// Adds the counts of `other`, a line of the same domain and tier. `inserts` and `occupancy_ns`
    /// of the sum are `None` unless both lines have them. `time_ns` is the later of the two times.
    pub fn add(&mut self, other: &Self) {
        let sum = |a: Option<u64>, b: Option<u64>| Some(a? + b?);
        self.read_bytes += other.read_bytes;
        self.written_bytes += other.written_bytes;
        self.inserts = sum(self.inserts, other.inserts);
        self.occupancy_ns = sum(self.occupancy_ns, other.occupancy_ns);
        self.time_ns = self.time_ns.max(other.time_ns);
    }

    #[must_use]
    pub const fn bytes(&self) -> u64 {
        self.read_bytes + self.written_bytes
    }

    /// Returns the mean latency of a request, ns; `None` if `inserts` is 0, or if `inserts` or
    /// `occupancy_ns` is missing.
    #[must_use]
    pub fn latency_ns(&self) -> Option<f64> {
        let inserts = self.inserts.filter(|inserts| *inserts > 0)?;
        Some(self.occupancy_ns? as f64 / inserts as f64)
    }
}

/// Returns the current time by `CLOCK_MONOTONIC`, the clock of `Fed::time_ns`, ns.
pub(crate) fn time_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec.unsigned_abs() * 1_000_000_000 + now.tv_nsec.unsigned_abs()
}

/// A client of the feed. While no listener exists, the client drops its lines.
pub(crate) struct Feeder {
    path: PathBuf,
    stream: Option<UnixStream>,
}

impl Feeder {
    pub(crate) const fn new(path: PathBuf) -> Self {
        Self { path, stream: None }
    }

    /// Writes `all` to the feed if a listener exists, and drops these lines otherwise. If lines
    /// were kept, a later listener would count all traffic from before its start as the traffic of
    /// one short interval.
    pub(crate) fn send(&mut self, all: &[Fed]) {
        let done = lines(all).and_then(|text| {
            let mut stream = match self.stream.take() {
                Some(stream) => stream,
                None => self.connect()?,
            };
            stream.write_all(text.as_bytes())?;
            Ok(stream)
        });
        // After an error, part of a line may have been written. The rest cannot be sent later, so
        // the next call opens a new connection.
        self.stream = done.ok();
    }

    fn connect(&self) -> io::Result<UnixStream> {
        let stream = UnixStream::connect(&self.path)?;
        stream.set_write_timeout(Some(PATIENCE))?;
        Ok(stream)
    }
}

fn lines(all: &[Fed]) -> io::Result<String> {
    let line = |fed: &Fed| Ok(serde_json::to_string(fed)? + "\n");
    all.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use std::{
        io::{BufRead, BufReader},
        os::unix::net::UnixListener,
    };

    use super::*;

    const LINE: &str = "{\"domain\":0,\"tier\":1,\"read_bytes\":1,\"written_bytes\":2,\
                        \"inserts\":3,\"occupancy_ns\":4}";

    #[test]
    fn lines_are_those_of_the_protocol() {
        let fed = Fed { tier: 1, read_bytes: 1, written_bytes: 2, ..Fed::default() };
        let counted = Fed { inserts: Some(3), occupancy_ns: Some(4), ..fed };
        assert_eq!(serde_json::to_string(&counted).unwrap(), LINE);
        assert_eq!(serde_json::from_str::<Fed>(LINE).unwrap(), counted);
        let short = "{\"domain\":0,\"tier\":1,\"read_bytes\":1,\"written_bytes\":2}";
        assert_eq!(serde_json::to_string(&fed).unwrap(), short);
        assert_eq!(serde_json::from_str::<Fed>(short).unwrap(), fed);
        assert!(serde_json::from_str::<Fed>(&short.replace("tier", "node")).is_err());
        let mut sum = counted;
        sum.add(&counted);
        assert_eq!((sum.bytes(), sum.latency_ns()), (6, Some(4.0 / 3.0)));
        sum.add(&fed);
        assert_eq!((sum.bytes(), sum.latency_ns()), (9, None));
    }

    #[test]
    fn listeners_may_come_and_go() {
        let name = format!("interleaf-feed-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let mut feeder = Feeder::new(path.clone());
        let fed = |read_bytes| [Fed { read_bytes, ..Fed::default() }];
        feeder.send(&fed(1));
        for read_bytes in [2, 3] {
            let listener = UnixListener::bind(&path).unwrap();
            // After a restart of the listener, the first write fails and its line is dropped. The
            // second write connects to the new listener.
            feeder.send(&fed(0));
            feeder.send(&fed(read_bytes));
            let mut lines = BufReader::new(listener.accept().unwrap().0).lines();
            let received: Fed = loop {
                let received: Fed = serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
                if received.read_bytes > 0 {
                    break received;
                }
            };
            assert_eq!(received.read_bytes, read_bytes);
            std::fs::remove_file(&path).unwrap();
        }
        feeder.send(&fed(4));
    }
}
