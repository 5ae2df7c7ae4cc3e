//! The monitor socket. A client that connects receives the most recent periods, and then each new
//! period when it ends, as lines of JSON (`interleaf.balance/1`).
//!
//! A separate thread writes to the clients, and the control loop only queues each line for this
//! thread. A client with more than [`WAITING_MAX`] unread bytes is disconnected, so a slow client
//! delays neither the control loop nor other clients.

use interleaf_linux::launch::unix_socket::{Access, Socket, SocketError};
use interleaf_poll_server::{Interest, PollSet, Worker, connection, is_retry, wait};
use std::{
    collections::VecDeque,
    io::{Read, Write},
    os::{
        fd::AsFd as _,
        unix::net::{UnixListener, UnixStream},
    },
    path::Path,
    sync::mpsc::{Receiver, Sender, channel},
};

/// The default path of the monitor socket.
pub const SOCKET: &str = "/run/interleaf/balance.sock";

/// Maximum number of stored lines. The most recent lines are stored, and a new client receives them
/// first. With one domain (socket), 600 lines are an hour of periods of 6 s.
const KEPT: usize = 600;

/// Maximum number of bytes that a client has not read. A line takes about 500 bytes, so this is
/// more than three times the stored lines.
const WAITING_MAX: usize = 1 << 20;

/// Maximum number of simultaneous clients. A further connection is accepted once a client has left.
const WATCHERS_MAX: usize = 16;

/// The monitor socket, and the thread that writes to its clients.
pub(super) struct Watchers {
    lines: Sender<String>,
    worker: Worker,
    /// Dropping the socket removes its file.
    _socket: Socket,
}

impl Watchers {
    /// Listens at `path`. Only the daemon's user and root can connect.
    pub(super) fn listen(path: &Path) -> Result<Self, SocketError> {
        let socket = Socket::listen(path, Access::default())?;
        let (lines, queued) = channel();
        let start = || {
            let listener = socket.listener()?;
            Worker::start("watchers", move |control| {
                Serving { listener, control, queued, kept: VecDeque::new(), waiting: vec![] }
                    .serve();
            })
        };
        let worker = start().map_err(|why| SocketError::Refused { path: path.into(), why })?;
        Ok(Self { lines, worker, _socket: socket })
    }

    /// Queues a line for all clients, and does not wait until they receive it.
    pub(super) fn send(&mut self, line: &str) {
        // The send fails if the thread has ended. Then there are no clients, and the line is
        // dropped.
        if self.lines.send(line.into()).is_ok() {
            self.worker.wake();
        }
    }
}

/// The state of the thread that writes to the clients.
struct Serving {
    listener: UnixListener,
    control: UnixStream,
    queued: Receiver<String>,
    kept: VecDeque<String>,
    waiting: Vec<Watcher>,
}

/// A connected client.
struct Watcher {
    stream: UnixStream,
    /// Bytes that are still to be sent to the client.
    left: VecDeque<u8>,
}

impl Serving {
    fn serve(mut self) {
        loop {
            let interest = |watcher: &Watcher| match watcher.left.is_empty() {
                true => Interest::Read,
                false => Interest::ReadWrite,
            };
            let waiting = self.waiting.iter();
            let watched = PollSet {
                control: Some(self.control.as_fd()),
                listener: (waiting.len() < WATCHERS_MAX).then(|| self.listener.as_fd()),
                clients: waiting.map(|it| (it.stream.as_fd(), interest(it))).collect(),
            };
            let Ok(turn) = wait(&watched, None) else { return };
            turn.retain(&mut self.waiting, |watcher, is_ready| !is_ready || watcher.listens());
            if turn.control && !self.queue_lines() {
                return;
            }
            self.waiting.retain_mut(Watcher::write);
            if turn.listener {
                self.accept();
            }
        }
    }

    /// Queues the new lines for each client. Returns false if the control loop has closed its end
    /// of the control socket.
    fn queue_lines(&mut self) -> bool {
        let mut bytes = [0; 64];
        let count = self.control.read(&mut bytes);
        while let Ok(line) = self.queued.try_recv() {
            for watcher in &mut self.waiting {
                watcher.left.extend(line.as_bytes());
            }
            self.waiting.retain(|watcher| watcher.left.len() <= WAITING_MAX);
            self.kept.push_back(line);
            if self.kept.len() > KEPT {
                self.kept.pop_front();
            }
        }
        match count {
            Ok(count) => count > 0,
            Err(why) => is_retry(&why),
        }
    }

    fn accept(&mut self) {
        let Some(stream) = connection(self.listener.accept()) else { return };
        if stream.set_nonblocking(true).is_ok() {
            let left = self.kept.iter().flat_map(|line| line.bytes()).collect();
            let mut watcher = Watcher { stream, left };
            if watcher.write() {
                self.waiting.push(watcher);
            }
        }
    }
}

impl Watcher {
    /// Returns true if the client is still connected. Its input is discarded.
    fn listens(&mut self) -> bool {
        match self.stream.read(&mut [0; 64]) {
            Ok(count) => count > 0,
            Err(why) => is_retry(&why),
        }
    }

    /// Writes as many bytes as the client accepts now. Returns false if the client has
    /// disconnected.
    fn write(&mut self) -> bool {
        while !self.left.is_empty() {
            let (bytes, _) = self.left.as_slices();
            match self.stream.write(bytes) {
                Ok(0) => return false,
                Ok(count) => drop(self.left.drain(..count)),
                Err(why) => return is_retry(&why),
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;
    use std::{
        io::{BufRead as _, BufReader},
        time::{Duration, Instant},
    };

    fn connect(path: &Path) -> BufReader<UnixStream> {
        let stream = UnixStream::connect(path).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        BufReader::new(stream)
    }

    fn lines(from: &mut BufReader<UnixStream>, count: usize) -> Vec<String> {
        from.lines().take(count).map(Result::unwrap).collect()
    }

    #[test]
    fn each_client_receives_all_lines() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("sock");
        let mut watchers = Watchers::listen(&path).unwrap();
        watchers.send("one\n");
        let mut first = connect(&path);
        assert_eq!(lines(&mut first, 1), ["one"], "what was before");
        let mut second = connect(&path);
        assert_eq!(lines(&mut second, 1), ["one"]);
        watchers.send("two\n");
        assert_eq!(lines(&mut first, 1), ["two"]);
        drop(first);
        watchers.send("three\n");
        assert_eq!(lines(&mut second, 2), ["two", "three"]);
        drop(watchers);
        assert_eq!(second.read_line(&mut String::new()).unwrap(), 0, "it says that it goes");
        assert!(!path.exists());
    }

    #[test]
    fn a_new_client_receives_the_most_recent_lines() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("sock");
        let mut watchers = Watchers::listen(&path).unwrap();
        let mut first = connect(&path);
        watchers.send("begin\n");
        assert_eq!(lines(&mut first, 1), ["begin"], "it is connected");
        for at in 0..KEPT + 7 {
            watchers.send(&format!("{at}\n"));
        }
        assert_eq!(lines(&mut first, KEPT + 7).len(), KEPT + 7);
        assert_eq!(lines(&mut connect(&path), 1), ["7"]);
    }

    /// A client that does not read is disconnected. Neither the control loop nor the other clients
    /// wait for it.
    #[test]
    fn a_client_that_does_not_read_delays_no_other() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("sock");
        let mut watchers = Watchers::listen(&path).unwrap();
        let mut idle = connect(&path);
        let mut reader = connect(&path);
        let line = "x".repeat(1 << 16) + "\n";
        for _ in 0..64 {
            watchers.send(&line);
            // The reader receives each line. All lines together, 4 MiB, exceed the limit of the
            // idle client.
            assert_eq!(lines(&mut reader, 1)[0].len(), 1 << 16);
        }
        let mut left = vec![];
        let until = Instant::now() + Duration::from_secs(20);
        while idle.read_until(b'\n', &mut left).unwrap() > 0 {
            assert!(Instant::now() < until);
        }
        assert!(left.len() < 64 << 16, "it was cut off");
    }

    #[test]
    fn a_socket_in_use_is_left() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("sock");
        let _first = Watchers::listen(&path).unwrap();
        assert!(matches!(Watchers::listen(&path), Err(SocketError::InUse(_))));
        assert!(path.exists());
    }
}
