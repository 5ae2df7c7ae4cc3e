//! The monitor socket: a client that connects receives the recent periods, and then each new period
//! as it ends, as lines of JSON (`interleaf.balance/1`).
//!
//! A thread of its own writes to the clients, and the control loop only queues each line for that
//! thread. A client with more than [`WAITING_MAX`] unread bytes is disconnected, so a slow client
//! delays neither the loop nor other clients.

use interleaf_linux::launch::unix_socket::{Access, Socket, SocketError};
use rustix::event::{PollFd, PollFlags, poll};
use std::{
    collections::VecDeque,
    io::{self, Read, Write},
    os::unix::net::{UnixListener, UnixStream},
    path::Path,
    sync::mpsc::{Receiver, Sender, channel},
    thread::{self, JoinHandle},
};

/// The default path of the socket.
pub const SOCKET: &str = "/run/interleaf/balance.sock";

/// The most recent lines, which a new client receives: an hour of periods of 6 s.
const KEPT: usize = 600;

/// The most unread bytes of a client: twice the history (a line has about 500 bytes).
const WAITING_MAX: usize = 1 << 20;

/// The most clients at a time; a further connection is accepted once a client has left.
const WATCHERS_MAX: usize = 16;

/// The monitor socket and the thread that writes to its clients.
pub(super) struct Watchers {
    /// Dropping the socket removes its file.
    _socket: Socket,
    lines: Option<Sender<String>>,
    /// Each byte wakes the thread; the end of the stream ends the thread.
    wake: Option<UnixStream>,
    thread: Option<JoinHandle<()>>,
}

impl Watchers {
    /// Listens at `path`; only the daemon's user can connect.
    pub(super) fn listen(path: &Path) -> Result<Self, SocketError> {
        let socket = Socket::listen(path, Access::default())?;
        let threads = || {
            let listener = socket.listener()?;
            let (wake, woken) = UnixStream::pair()?;
            wake.set_nonblocking(true)?;
            woken.set_nonblocking(true)?;
            let (lines, told) = channel();
            let serving = Serving { listener, woken, told, kept: VecDeque::new(), waiting: vec![] };
            let thread = thread::Builder::new().name("watchers".into());
            Ok((lines, wake, thread.spawn(move || serving.serve())?))
        };
        let started = threads().map_err(|why| SocketError::Refused { path: path.into(), why });
        let (lines, wake, thread) = started?;
        let (lines, wake, thread) = (Some(lines), Some(wake), Some(thread));
        Ok(Self { _socket: socket, lines, wake, thread })
    }

    /// Queues a line for all clients, without waiting for them.
    pub(super) fn tell(&mut self, line: &str) {
        // If the thread has ended, the socket has no clients.
        let sent = self.lines.as_ref().is_some_and(|lines| lines.send(line.into()).is_ok());
        if let (true, Some(wake)) = (sent, &mut self.wake) {
            // A full stream already has bytes that wake the thread.
            let _ = wake.write(b"1");
        }
    }
}

impl Drop for Watchers {
    fn drop(&mut self) {
        drop(self.lines.take());
        drop(self.wake.take());
        drop(self.thread.take().map(JoinHandle::join));
    }
}

/// State of the thread.
struct Serving {
    listener: UnixListener,
    woken: UnixStream,
    told: Receiver<String>,
    kept: VecDeque<String>,
    waiting: Vec<Watcher>,
}

/// A connected client.
struct Watcher {
    stream: UnixStream,
    /// Bytes that the client has yet to receive.
    left: VecDeque<u8>,
}

impl Serving {
    fn serve(mut self) {
        loop {
            let mut watched = vec![PollFd::new(&self.woken, PollFlags::IN)];
            watched.extend(self.waiting.iter().map(|watcher| {
                let more = !watcher.left.is_empty();
                let wanted = if more { PollFlags::IN | PollFlags::OUT } else { PollFlags::IN };
                PollFd::new(&watcher.stream, wanted)
            }));
            if self.waiting.len() < WATCHERS_MAX {
                watched.push(PollFd::new(&self.listener, PollFlags::IN));
            }
            match poll(&mut watched, None) {
                Err(rustix::io::Errno::INTR) => continue,
                Err(_) => return,
                Ok(_) => {}
            }
            let ready: Vec<bool> = watched.iter().map(|fd| !fd.revents().is_empty()).collect();
            let before = self.waiting.len();
            if ready[0] && !self.woken() {
                return;
            }
            let mut at = 0;
            self.waiting.retain_mut(|watcher| {
                at += 1;
                (!ready[at] || watcher.listens()) && watcher.write()
            });
            if ready.get(before + 1) == Some(&true) {
                self.accept();
            }
        }
    }

    /// Queues the new lines for each client. Returns false when the loop has closed its end.
    fn woken(&mut self) -> bool {
        let mut bytes = [0; 64];
        let count = self.woken.read(&mut bytes);
        while let Ok(line) = self.told.try_recv() {
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
            Err(why) => is_later(&why),
        }
    }

    fn accept(&mut self) {
        let Ok((stream, _)) = self.listener.accept() else { return };
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
    /// Returns true if the client is still connected. Input of the client is discarded.
    fn listens(&mut self) -> bool {
        match self.stream.read(&mut [0; 64]) {
            Ok(count) => count > 0,
            Err(why) => is_later(&why),
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
                Err(why) => return is_later(&why),
            }
        }
        true
    }
}

fn is_later(why: &io::Error) -> bool {
    [io::ErrorKind::WouldBlock, io::ErrorKind::Interrupted].contains(&why.kind())
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
    fn whoever_watches_is_told_all() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("sock");
        let mut watchers = Watchers::listen(&path).unwrap();
        watchers.tell("one\n");
        let mut first = connect(&path);
        assert_eq!(lines(&mut first, 1), ["one"], "what was before");
        let mut second = connect(&path);
        assert_eq!(lines(&mut second, 1), ["one"]);
        watchers.tell("two\n");
        assert_eq!(lines(&mut first, 1), ["two"]);
        drop(first);
        watchers.tell("three\n");
        assert_eq!(lines(&mut second, 2), ["two", "three"]);
        drop(watchers);
        assert_eq!(second.read_line(&mut String::new()).unwrap(), 0, "it says that it goes");
        assert!(!path.exists());
    }

    #[test]
    fn only_so_much_is_kept() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("sock");
        let mut watchers = Watchers::listen(&path).unwrap();
        let mut first = connect(&path);
        watchers.tell("begin\n");
        assert_eq!(lines(&mut first, 1), ["begin"], "it is connected");
        for at in 0..KEPT + 7 {
            watchers.tell(&format!("{at}\n"));
        }
        assert_eq!(lines(&mut first, KEPT + 7).len(), KEPT + 7);
        assert_eq!(lines(&mut connect(&path), 1), ["7"]);
    }

    /// A client that does not read is disconnected; neither the loop nor the other clients wait.
    #[test]
    fn who_does_not_read_holds_up_nobody() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("sock");
        let mut watchers = Watchers::listen(&path).unwrap();
        let mut idle = connect(&path);
        let mut reader = connect(&path);
        let line = "x".repeat(1 << 16) + "\n";
        for _ in 0..64 {
            watchers.tell(&line);
            // The reader receives each line; the 4 MiB in total exceed the limit of the idle
            // client.
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
