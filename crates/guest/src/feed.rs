//! The feed: what counters would have counted, told to who has none.
//!
//! A daemon that observes bandwidth listens on a stream socket in the file system. Who feeds it
//! connects and writes lines, each a JSON object:
//!
//! ```text
//! {"domain":0,"tier":1,"read_bytes":580,"written_bytes":420,"inserts":16,"occupancy_ns":4000}
//! ```
//!
//! A line says what has been added since this client's last line for the same domain and tier.
//! `inserts` and `occupancy_ns` may be left out; the latency of a line of memory is the second by
//! the first. Behind them may stand `time_ns`, until when that was counted by `CLOCK_MONOTONIC`.

use std::{
    io::{self, Write},
    os::unix::net::UnixStream,
    path::PathBuf,
    time::Duration,
};

use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

/// How long a listener may keep a client waiting: nobody's work stands still for being watched.
const PATIENCE: Duration = Duration::from_millis(50);

/// A line of the feed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fed {
    /// Where the traffic comes from, as an index.
    pub domain: usize,
    /// Where it goes, as an index.
    pub tier: usize,
    /// Bytes read.
    pub read_bytes: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// Requests that began to wait.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inserts: Option<u64>,
    /// How long requests waited, together, ns.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub occupancy_ns: Option<u64>,
    /// Until when that was counted, by `CLOCK_MONOTONIC`, ns.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time_ns: Option<u64>,
}

impl Fed {
    /// Adds what `other` says of the same domain and tier. What one of the two does not count,
    /// both do not.
    pub fn add(&mut self, other: &Self) {
        let sum = |a: Option<u64>, b: Option<u64>| Some(a? + b?);
        self.read_bytes += other.read_bytes;
        self.written_bytes += other.written_bytes;
        self.inserts = sum(self.inserts, other.inserts);
        self.occupancy_ns = sum(self.occupancy_ns, other.occupancy_ns);
        self.time_ns = self.time_ns.max(other.time_ns);
    }

    /// Bytes read and written.
    #[must_use]
    pub const fn bytes(&self) -> u64 {
        self.read_bytes + self.written_bytes
    }

    /// How long a request waited, ns; nothing where that is not counted.
    #[must_use]
    pub fn latency_ns(&self) -> Option<f64> {
        let inserts = self.inserts.filter(|inserts| *inserts > 0)?;
        Some(self.occupancy_ns? as f64 / inserts as f64)
    }
}

/// Now, as a line of the feed has it.
pub(crate) fn time_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec.unsigned_abs() * 1_000_000_000 + now.tv_nsec.unsigned_abs()
}

/// One end of the feed: it says what it has to whoever listens, and nothing while nobody does.
pub(crate) struct Feeder {
    path: PathBuf,
    stream: Option<UnixStream>,
}

impl Feeder {
    pub(crate) const fn new(path: PathBuf) -> Self {
        Self { path, stream: None }
    }

    /// Says it, if somebody listens. What nobody heard is not said later: a listener that comes
    /// back would take it for one moment's traffic.
    pub(crate) fn say(&mut self, all: &[Fed]) {
        let done = lines(all).and_then(|text| {
            let mut stream = match self.stream.take() {
                Some(stream) => stream,
                None => self.connect()?,
            };
            stream.write_all(text.as_bytes())?;
            Ok(stream)
        });
        // Of a line that was written in part the rest never comes: then it begins anew.
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
    fn who_listens_may_come_and_go() {
        let name = format!("interleaf-feed-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let mut feeder = Feeder::new(path.clone());
        let fed = |read_bytes| [Fed { read_bytes, ..Fed::default() }];
        feeder.say(&fed(1));
        for read_bytes in [2, 3] {
            let listener = UnixListener::bind(&path).unwrap();
            // The first of these finds the last listener gone.
            feeder.say(&fed(0));
            feeder.say(&fed(read_bytes));
            let mut lines = BufReader::new(listener.accept().unwrap().0).lines();
            let heard: Fed = loop {
                let heard: Fed = serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
                if heard.read_bytes > 0 {
                    break heard;
                }
            };
            assert_eq!(heard.read_bytes, read_bytes);
            std::fs::remove_file(&path).unwrap();
        }
        feeder.say(&fed(4));
    }
}
