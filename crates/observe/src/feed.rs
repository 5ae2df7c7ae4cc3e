//! A feed is a traffic source that programs fill through a Unix socket. It is for machines without
//! counters, and for simulators and other tools that have better counts.
//!
//! A program connects and writes lines of JSON. Each line has the traffic of a domain (a socket) to
//! a tier since the program's previous line for this domain and tier:
//!
//! ```json
//! {"domain":0,"tier":1,"read_bytes":64000,"written_bytes":0,"inserts":1000,"occupancy_ns":250000}
//! ```
//!
//! Domains and tiers are counted from 0; a missing number counts as unknown. Traffic of several
//! programs is summed. A wrong line is ignored and reported in [`Feed::state`].
//!
//! The traffic of a line ends at a point in time, which is called the end of the line. A reading
//! covers the time from the end of the last line of the previous reading to the end of the last
//! line that has arrived. If no line has arrived, the span of the reading is zero. Programs should
//! write at least one line between two readings.
//!
//! The end of a line is its `"time_ns"`, a time of the clock `CLOCK_MONOTONIC`. Without this field
//! the line ends when it arrives, which may be late on a busy machine. It is not known when the
//! traffic of a program's first line began. If the first line has `"time_ns"`, the traffic of all
//! lines with this time is therefore not counted: the time only marks the beginning of the next
//! line's traffic. A first line without `"time_ns"` is counted.

use crate::source::{Reading, Source, SourceError, add, nothing};
use interleaf_linux::launch::unix_socket::{Access, Socket, SocketError};
use interleaf_model::machine::Traffic;
use interleaf_poll_server::{Interest, Worker, connection, is_retry, wait, watched};
use rustix::time::{ClockId, clock_gettime};
use serde::Deserialize;
use std::{
    io::Read,
    mem,
    os::unix::net::{UnixListener, UnixStream},
    path::Path,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

/// The longest line that the feed accepts, bytes. A line with the longest numbers has about 200
/// bytes.
const LINE_MAX: usize = 4096;

/// Maximum number of programs that are connected to the feed at once; further programs wait.
const CLIENTS_MAX: usize = 64;

/// Maximum number of characters of a wrong line that a report quotes.
const QUOTED_MAX: usize = 80;

/// A traffic source that reads the lines that programs write to a Unix socket.
#[derive(Debug)]
pub struct Feed {
    socket: Socket,
    shared: Arc<Mutex<Shared>>,
    worker: Worker,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct State {
    /// The number of programs that are connected to the feed.
    pub clients: usize,
    /// The number of valid lines that programs have written so far.
    pub lines: u64,
    /// The number of wrong lines that programs have written so far.
    pub wrong: u64,
    /// The last wrong line of a program, and the error in this line.
    pub last_wrong: Option<String>,
}

#[derive(Debug)]
struct Shared {
    /// The traffic that was counted since the last reading: for each domain (socket), the traffic
    /// of each tier.
    traffic: Vec<Vec<Traffic>>,
    /// The time at which `traffic` begins, by the clock of [`now`]: the end of the last line of the
    /// previous reading. Before the first line is counted, it is the time at which the first
    /// program connected, or the `time_ns` of that program's first line.
    since: Duration,
    /// The time up to which `traffic` is counted, by the clock of [`now`]: the `time_ns` of the
    /// newest counted line, or the time of this line's arrival if it has no valid `time_ns`. `None`
    /// if no line was counted after the last reading.
    until: Option<Duration>,
    /// True at first. Set to true when a program connects while no other program is connected and
    /// no line was counted since the last reading; set to false when a line is counted. While it is
    /// true, `since` is the time of this connection, until the `time_ns` of the program's first
    /// line replaces it.
    is_new: bool,
    state: State,
}

/// A line that a program writes to the feed: the traffic of a domain (socket) to a tier.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    domain: usize,
    tier: usize,
    read_bytes: Option<f64>,
    written_bytes: Option<f64>,
    inserts: Option<f64>,
    occupancy_ns: Option<f64>,
    time_ns: Option<u64>,
}

impl Feed {
    /// Listens at `path` for the traffic of `domains` domains (sockets) with `tiers` tiers each. If
    /// `path` is a socket at which no process listens any more, the socket is replaced. The socket
    /// is removed when the feed is dropped.
    ///
    /// # Errors
    /// When another process listens at `path`, the path is not a socket, or the system refuses.
    pub fn listen(
        path: &Path,
        access: Access,
        domains: usize,
        tiers: usize,
    ) -> Result<Self, SocketError> {
        let socket = Socket::listen(path, access)?;
        let (traffic, since) = (nothing(domains, tiers), now());
        let state = State::default();
        let shared = Shared { traffic, since, until: None, is_new: true, state };
        let shared = Arc::new(Mutex::new(shared));
        let theirs = Arc::clone(&shared);
        let start = || {
            let listener = socket.listener()?;
            Worker::start("feed", move |control| serve(&listener, &control, &theirs))
        };
        let worker = start().map_err(|why| SocketError::Refused { path: path.into(), why })?;
        Ok(Self { socket, shared, worker })
    }

    /// Returns the state of the feed: connected programs, valid lines and wrong lines.
    pub fn state(&self) -> State {
        lock(&self.shared).state.clone()
    }
}

impl Source for Feed {
    fn describe(&self) -> String {
        let state = self.state();
        let mut text = format!(
            "traffic fed at {}: {} connected, {} lines",
            self.socket.path().display(),
            state.clients,
            state.lines
        );
        if let Some(last) = &state.last_wrong {
            text += &format!(", {} wrong, the last one {last}", state.wrong);
        }
        text
    }

    fn read(&mut self) -> Result<Reading, SourceError> {
        if self.worker.has_stopped() {
            return Err(SourceError::Stopped(format!(
                "the feed at {}",
                self.socket.path().display()
            )));
        }
        let mut shared = lock(&self.shared);
        let none = nothing(shared.traffic.len(), shared.traffic.first().map_or(0, Vec::len));
        let traffic = mem::replace(&mut shared.traffic, none);
        let until = shared.until.take().unwrap_or(shared.since);
        let span = until - mem::replace(&mut shared.since, until);
        Ok(Reading { span, traffic, ..Reading::default() })
    }
}

/// Returns the time of the clock `CLOCK_MONOTONIC`, which all programs of this machine share.
fn now() -> Duration {
    let now = clock_gettime(ClockId::Monotonic);
    Duration::new(now.tv_sec.unsigned_abs(), now.tv_nsec.unsigned_abs() as u32)
}

/// Locks the state, even if a thread has panicked while it held the lock (a poisoned mutex). The
/// state is then still valid, because no update of the state can panic halfway.
fn lock(shared: &Mutex<Shared>) -> MutexGuard<'_, Shared> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A program that is connected to the feed.
struct Client {
    stream: UnixStream,
    /// The bytes of an unfinished line that have arrived so far.
    begun: Vec<u8>,
    /// True while the rest of a line that is too long is skipped.
    skipping: bool,
    /// The `time_ns` of the program's first line, by the clock of [`now`]. If this line has no
    /// valid `time_ns`, it is the time of the line's arrival. `None` before the first line.
    first: Option<Duration>,
}

/// Reads the lines of programs until the other end of `control` is closed.
fn serve(listener: &UnixListener, control: &UnixStream, shared: &Mutex<Shared>) {
    let mut clients: Vec<Client> = vec![];
    loop {
        let accepting = (clients.len() < CLIENTS_MAX).then_some(listener);
        let streams = clients.iter().map(|client| &client.stream);
        let Ok(turn) = wait(&watched(control, accepting, streams, Interest::Read), None) else {
            return;
        };
        if turn.control {
            return;
        }
        turn.retain(&mut clients, |client, is_ready| !is_ready || client.read(shared));
        if turn.listener
            && let Some(stream) = connection(listener.accept())
            && stream.set_nonblocking(true).is_ok()
        {
            let mut shared = lock(shared);
            if clients.is_empty() && shared.until.is_none() {
                (shared.since, shared.is_new) = (now(), true);
            }
            clients.push(Client { stream, begun: vec![], skipping: false, first: None });
        }
        lock(shared).state.clients = clients.len();
    }
}

impl Client {
    /// Reads the available bytes of the program. Returns false if the program has disconnected.
    fn read(&mut self, shared: &Mutex<Shared>) -> bool {
        let mut bytes = [0; LINE_MAX];
        let count = match self.stream.read(&mut bytes) {
            Ok(0) => {
                // The last line of a program is counted even if it has no newline.
                if !self.begun.is_empty() && !self.skipping {
                    count_line(&self.begun, &mut self.first, &mut lock(shared));
                }
                return false;
            }
            Ok(count) => count,
            Err(why) => return is_retry(&why),
        };
        // All lines of a read are counted under one lock: a program writes the lines of several
        // tiers together, for the same time, and no reading of the feed should come between them.
        let shared = &mut *lock(shared);
        let mut rest = &bytes[..count];
        while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
            self.begun.extend_from_slice(&rest[..end]);
            rest = &rest[end + 1..];
            if self.begun.len() > LINE_MAX && !self.skipping {
                note_wrong_line(&self.begun, "too long", shared);
            } else if !self.skipping {
                count_line(&self.begun, &mut self.first, shared);
            }
            self.begun.clear();
            self.skipping = false;
        }
        if !self.skipping {
            self.begun.extend_from_slice(rest);
        }
        if self.begun.len() > LINE_MAX {
            note_wrong_line(&self.begun, "too long", shared);
            self.begun = vec![];
            self.skipping = true;
        }
        true
    }
}

/// Counts a line of a program; `first` is the program's [`Client::first`]. The traffic of lines
/// with the `time_ns` of the first line is left out, because it is not known when this traffic
/// began.
fn count_line(line: &[u8], first: &mut Option<Duration>, shared: &mut Shared) {
    if line.trim_ascii().is_empty() {
        return;
    }
    let parsed: Line = match serde_json::from_slice(line) {
        Ok(parsed) => parsed,
        Err(why) => return note_wrong_line(line, &why.to_string(), shared),
    };
    let fed = [parsed.read_bytes, parsed.written_bytes, parsed.inserts, parsed.occupancy_ns];
    if fed.into_iter().flatten().any(|count| count < 0.0) {
        return note_wrong_line(line, "a count below 0", shared);
    }
    let shape = (shared.traffic.len(), shared.traffic.first().map_or(0, Vec::len));
    let tiers = shared.traffic.get_mut(parsed.domain);
    let Some(traffic) = tiers.and_then(|tiers| tiers.get_mut(parsed.tier)) else {
        let why = format!("no such domain or tier: there are {} and {}", shape.0, shape.1);
        return note_wrong_line(line, &why, shared);
    };
    shared.state.lines += 1;
    // A `time_ns` in the future is ignored, because it is from another clock. A `time_ns` before
    // the end of the last line is ignored further below.
    let came = now();
    let time = parsed.time_ns.map(Duration::from_nanos).filter(|time| *time <= came);
    let (first, is_new) = (*first.get_or_insert(time.unwrap_or(came)), shared.is_new);
    if time == Some(first) {
        if is_new {
            shared.since = first;
        }
        return;
    }
    shared.is_new = false;
    add(&mut traffic.read_bytes, parsed.read_bytes);
    add(&mut traffic.written_bytes, parsed.written_bytes);
    add(&mut traffic.inserts, parsed.inserts);
    add(&mut traffic.occupancy_ns, parsed.occupancy_ns);
    let least = shared.until.unwrap_or(shared.since);
    shared.until = Some(time.filter(|time| *time >= least).unwrap_or(came));
}

fn note_wrong_line(line: &[u8], why: &str, shared: &mut Shared) {
    let quoted: String = String::from_utf8_lossy(line).chars().take(QUOTED_MAX).collect();
    shared.state.wrong += 1;
    shared.state.last_wrong = Some(format!("{quoted:?}: {why}"));
}
