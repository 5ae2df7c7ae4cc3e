//! The socket at which others watch: whoever connects is told the periods so far, and each new one
//! as it ends, as lines of JSON (`interleaf.balance/1`).
//!
//! A separate thread writes to the watchers. The loop queues a line and continues, without waiting
//! for a watcher. A watcher that does not read gets no more lines once too much is queued for it.

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

/// The path of the socket unless another one is configured.
pub const SOCKET: &str = "/run/interleaf/balance.sock";

/// Lines that are kept for who comes later: an hour of periods of 6 s.
const KEPT: usize = 600;

/// The most bytes that wait for one watcher: twice the history (a line has some 500).
const WAITING_MAX: usize = 1 << 20;

/// Watchers at once; another one waits until one leaves.
const WATCHERS_MAX: usize = 16;

/// A socket with those who watch.
pub(super) struct Watchers {
    /// Removed when this goes.
    _socket: Socket,
    lines: Option<Sender<String>>,
    /// A byte wakes the thread, and its end ends it.
    wake: Option<UnixStream>,
    thread: Option<JoinHandle<()>>,
}

impl Watchers {
    /// Listens at `path`; only this user can connect.
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

    /// Tells all who watch, without waiting for any.
    pub(super) fn tell(&mut self, line: &str) {
        // When the thread has gone nobody watches any more.
        let sent = self.lines.as_ref().is_some_and(|lines| lines.send(line.into()).is_ok());
        if let (true, Some(wake)) = (sent, &mut self.wake) {
            // A byte that does not fit is one of many that wake it already.
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

/// The state of the thread.
struct Serving {
    listener: UnixListener,
    woken: UnixStream,
    told: Receiver<String>,
    kept: VecDeque<String>,
    waiting: Vec<Watcher>,
}

/// The connected watchers.
struct Watcher {
    stream: UnixStream,
    /// The bytes that wait for each of them.
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

    /// Takes the lines that came; whether there may be more.
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
    /// True if the watcher is still connected. Its input is discarded.
    fn listens(&mut self) -> bool {
        match self.stream.read(&mut [0; 64]) {
            Ok(count) => count > 0,
            Err(why) => is_later(&why),
        }
    }

    /// Tells as much as they take now; whether they are still there.
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

    /// One who does not read is left behind; neither the loop nor the others wait.
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
            // The one who reads gets each; 4 MiB of them are more than the idle one may leave.
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
