//! The poll(2) loop of a server with a few clients.
//!
//! Every server of Interleaf has the same shape: one thread polls a control descriptor, a listener
//! and some tens of clients, and never blocks on a single descriptor. [`wait`] is one turn of such
//! a loop. [`Worker`] is the thread; its control descriptor wakes or ends the thread. The caller
//! defines the type of a client and serves the clients:
//!
//! ```text
//! loop {
//!     let turn = wait(&watched, timeout)?;
//!     if turn.control { return }                              // the Worker was dropped
//!     turn.retain(&mut clients, |client, is_ready| ...);      // serve the ready clients
//!     if turn.listener { clients.push(accept(&listener)) }
//! }
//! ```
//!
//! Interrupted calls (`EINTR`) are repeated. A client whose connection has an error or was closed
//! counts as ready: the next read returns the error or the end of the stream.

#![forbid(unsafe_code)]

pub mod wire;

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::Errno,
};
use std::{
    io::{self, Write as _},
    os::{
        fd::{AsFd, BorrowedFd},
        unix::net::UnixStream,
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

/// The pause after an `accept(2)` that failed.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// The events on a client's connection for which a server waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interest {
    /// The connection has bytes to read, or has ended.
    Read,
    /// The socket's send buffer has room, or the connection has ended.
    Write,
    /// Either of the events of `Read` and `Write`.
    ReadWrite,
}

impl Interest {
    fn flags(self) -> PollFlags {
        match self {
            Self::Read => PollFlags::IN,
            Self::Write => PollFlags::OUT,
            Self::ReadWrite => PollFlags::IN | PollFlags::OUT,
        }
    }
}

/// The descriptors for which [`wait`] waits. A descriptor that is `None` is never ready.
#[derive(Debug, Default)]
pub struct PollSet<'a> {
    /// The control descriptor, which wakes or ends the server.
    pub control: Option<BorrowedFd<'a>>,
    /// The listener; `None` while no more clients are accepted.
    pub listener: Option<BorrowedFd<'a>>,
    /// The clients, in the order of the server's list of clients.
    pub clients: Vec<(BorrowedFd<'a>, Interest)>,
}

/// The descriptors that [`wait`] found ready.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ready {
    /// True if the control descriptor is ready.
    pub control: bool,
    /// True if the listener is ready.
    pub listener: bool,
    /// For each client, in the order of [`PollSet::clients`], true if it is ready.
    pub clients: Vec<bool>,
}

impl Ready {
    /// Calls `serve` for each client, with true if the client is ready, and keeps the clients for
    /// which `serve` returns true. `clients` must be the list from which [`PollSet::clients`] was
    /// made.
    pub fn retain<C>(&self, clients: &mut Vec<C>, mut serve: impl FnMut(&mut C, bool) -> bool) {
        let mut ready = self.clients.iter();
        clients.retain_mut(|client| serve(client, ready.next().copied().unwrap_or(false)));
    }
}

/// Waits until a descriptor is ready or `timeout` has passed; with `None`, without a time limit.
///
/// # Errors
/// The errors of poll(2), except `EINTR`.
pub fn wait(watched: &PollSet<'_>, timeout: Option<Duration>) -> io::Result<Ready> {
    let first = [watched.control, watched.listener];
    let mut fds = Vec::with_capacity(2 + watched.clients.len());
    fds.extend(first.iter().flatten().map(|fd| PollFd::new(fd, PollFlags::IN)));
    fds.extend(watched.clients.iter().map(|(fd, interest)| PollFd::new(fd, interest.flags())));
    let until = timeout.map(|timeout| Instant::now() + timeout);
    loop {
        let left = until.map(|until| until.saturating_duration_since(Instant::now()));
        let left = left.and_then(|left| Timespec::try_from(left).ok());
        match poll(&mut fds, left.as_ref()) {
            Ok(_) => break,
            Err(Errno::INTR) => {}
            Err(why) => return Err(why.into()),
        }
    }
    let mut ready = fds.iter().map(|fd| !fd.revents().is_empty());
    let [control, listener] = first.map(|fd| fd.is_some() && ready.next() == Some(true));
    Ok(Ready { control, listener, clients: ready.collect() })
}

/// Returns the connection from `result`, which `accept(2)` returned; `None` if the call failed.
/// Pauses after a failure other than `EAGAIN` and `EINTR`. Without free file descriptors, for
/// example, the connection stays pending and the next [`wait`] returns at once, which would make a
/// busy loop without the pause.
pub fn connection<S, A>(result: io::Result<(S, A)>) -> Option<S> {
    match result {
        Ok((stream, _)) => Some(stream),
        Err(why) => {
            if !is_retry(&why) {
                thread::sleep(ACCEPT_PAUSE);
            }
            None
        }
    }
}

/// True for an error after which the same call can succeed later.
pub fn is_retry(why: &io::Error) -> bool {
    matches!(why.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}

/// The thread of a server. Dropping this value closes the control descriptor and joins the thread.
#[derive(Debug)]
pub struct Worker {
    control: Option<UnixStream>,
    thread: Option<JoinHandle<()>>,
}

impl Worker {
    /// Starts a thread that calls `serve` with the thread's end of the control stream, which is in
    /// non-blocking mode. Each call of [`Self::wake`] sends a byte to this end. When the stream
    /// ends, `serve` has to return.
    ///
    /// # Errors
    /// When the system provides no thread or no descriptors.
    pub fn start(name: &str, serve: impl FnOnce(UnixStream) + Send + 'static) -> io::Result<Self> {
        let (control, controlled) = UnixStream::pair()?;
        control.set_nonblocking(true)?;
        controlled.set_nonblocking(true)?;
        let thread = thread::Builder::new().name(name.into()).spawn(move || serve(controlled))?;
        Ok(Self { control: Some(control), thread: Some(thread) })
    }

    /// True if the thread has ended although this value was not dropped, because the server could
    /// not continue.
    pub fn has_stopped(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Sends a byte to the control descriptor, which wakes the thread. Does not wait for the
    /// thread.
    pub fn wake(&self) {
        if let Some(mut control) = self.control.as_ref() {
            // Ignore errors: if the buffer of the stream is full, its unread bytes wake the thread
            // already.
            let _ = control.write(b"1");
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        drop(self.control.take());
        drop(self.thread.take().map(JoinHandle::join));
    }
}

/// Returns the descriptors of a server for [`wait`]. All clients have the same `interest`.
pub fn watched<'a, C: AsFd + 'a>(
    control: &'a UnixStream,
    listener: Option<&'a impl AsFd>,
    clients: impl IntoIterator<Item = &'a C>,
    interest: Interest,
) -> PollSet<'a> {
    PollSet {
        control: Some(control.as_fd()),
        listener: listener.map(AsFd::as_fd),
        clients: clients.into_iter().map(|client| (client.as_fd(), interest)).collect(),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;
    use std::{
        io::Read as _,
        sync::mpsc::{channel, sync_channel},
    };

    #[test]
    fn only_ready_descriptors_are_served() {
        let pairs: Vec<_> = (0..3).map(|_| UnixStream::pair().unwrap()).collect();
        let (ours, mut theirs): (Vec<_>, Vec<_>) = pairs.into_iter().unzip();
        let (control, end) = UnixStream::pair().unwrap();
        let none = None::<&UnixStream>;
        let turn = |interest| {
            wait(&watched(&control, none, &ours, interest), Some(Duration::from_millis(1))).unwrap()
        };
        assert_eq!(turn(Interest::Read).clients, [false; 3], "the time is over");
        assert_eq!(turn(Interest::ReadWrite).clients, [true; 3], "there is room");
        theirs[1].write_all(b"x").unwrap();
        drop(theirs.pop());
        let ready = turn(Interest::Read);
        assert_eq!(
            ready,
            Ready { control: false, listener: false, clients: vec![false, true, true] }
        );
        let mut clients = vec!['a', 'b', 'c'];
        ready.retain(&mut clients, |client, is_ready| !is_ready || *client == 'b');
        assert_eq!(clients, ['a', 'b']);
        drop(end);
        assert!(turn(Interest::Read).control);
    }

    #[test]
    fn a_worker_is_woken_and_ends_with_its_value() {
        let (woken, wakes) = channel();
        let (begin, begun) = sync_channel(0);
        let worker = Worker::start("test", move |mut control| {
            begin.send(()).unwrap();
            let none: [&UnixStream; 0] = [];
            loop {
                let watched = watched(&control, None::<&UnixStream>, none, Interest::Read);
                assert!(wait(&watched, None).unwrap().control);
                match control.read(&mut [0; 8]) {
                    Ok(0) => return,
                    Ok(count) => woken.send(count).unwrap(),
                    Err(why) => assert!(is_retry(&why), "{why}"),
                }
            }
        })
        .unwrap();
        begun.recv().unwrap();
        worker.wake();
        assert_eq!(wakes.recv().unwrap(), 1);
        assert!(!worker.has_stopped());
        drop(worker);
        assert!(wakes.recv().is_err(), "the thread has ended");
    }
}
