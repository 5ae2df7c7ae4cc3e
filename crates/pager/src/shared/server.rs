//! The server of shared memory: a process that handles the faults of all processes that share
//! memory.

use super::{
    SOCKET,
    message::Message,
    peers::{Peers, SharedSpace},
};
use crate::{
    kernel::uffd::Userfault,
    pager::Pager,
    serve::arena::SPACING,
    session::{ADDRESSES, Session},
};
use interleaf_poll_server::{
    Interest, PollSet, wait,
    wire::{Wire, listener},
};
use std::{
    fs,
    io::{self, Write},
    os::{
        fd::{AsFd, OwnedFd},
        unix::net::UnixStream,
    },
    sync::Arc,
    time::Duration,
};

/// The name of the server in the ledger and in the tables of `interleaf extend`.
const NAME: &str = "shared memory";

/// Interval at which the server checks whether processes that have closed their connection have
/// ended.
const POLL_INTERVAL: Duration = Duration::from_millis(200);

/// A process that shares memory, or is about to share memory.
struct Connection {
    /// The connection to the process; `None` after the process has closed it. The server then polls
    /// for the end of the process.
    wire: Option<Wire>,
    space: Option<u64>,
    /// The first page of a file that the server has sent to the process and that the process has
    /// not mapped yet.
    file: Option<usize>,
    /// The first pages of the files that the process will map because its parent maps them. The
    /// server keeps these files: the parent may unmap them, or exit, before the process has mapped
    /// them.
    inherited: Vec<usize>,
}

struct Server<'a> {
    session: &'a Session,
    peers: Arc<Peers>,
    /// The pager of the shared memory; `None` before the first allocation of shared memory. It is
    /// started only then, because each pager takes a share of the session's budget.
    pager: Option<Pager>,
    connections: Vec<Connection>,
}

/// Serves shared memory. Returns when all processes that share memory have ended, and the process
/// that keeps the session running has closed its end of `keeper`. Writes one byte to `keeper` when
/// the server is ready. If processes that share memory remain when `keeper` is closed, calls
/// `stays` and writes a second byte. If another server of the session runs already, returns at once
/// and writes no byte.
///
/// # Errors
/// When the socket cannot be polled.
pub fn serve(session: &Session, mut keeper: UnixStream, stays: impl FnOnce()) -> io::Result<()> {
    let path = session.folder().join(SOCKET);
    if Wire::connect(&path).is_ok() {
        return Ok(());
    }
    // Remove the socket of a server that was killed.
    drop(fs::remove_file(&path));
    let listener = listener(&path)?;
    keeper.write_all(&[1])?;
    let mut server = Server { session, peers: Peers::new()?, pager: None, connections: vec![] };
    while !server.step(&listener, Some(&keeper))? {}
    if !server.connections.is_empty() {
        stays();
        // The error is ignored: the write fails if the keeper was killed.
        let _ = keeper.write_all(&[1]);
    }
    drop(keeper);
    while !server.connections.is_empty() {
        server.step(&listener, None)?;
    }
    drop(fs::remove_file(&path));
    Ok(())
}

impl Server<'_> {
    /// Waits for messages and answers them. Returns true if the keeper has closed its end.
    fn step(&mut self, listener: &OwnedFd, keeper: Option<&UnixStream>) -> io::Result<bool> {
        let connected: Vec<usize> =
            (0..self.connections.len()).filter(|at| self.connections[*at].wire.is_some()).collect();
        let is_left = connected.len() < self.connections.len();
        let wire = |at: &usize| self.connections[*at].wire.as_ref();
        let watched = PollSet {
            control: keeper.map(AsFd::as_fd),
            listener: Some(listener.as_fd()),
            clients: connected
                .iter()
                .filter_map(|at| Some((wire(at)?.as_fd(), Interest::Read)))
                .collect(),
        };
        let turn = wait(&watched, is_left.then_some(POLL_INTERVAL))?;
        for (at, _) in connected.iter().zip(&turn.clients).filter(|(_, ready)| **ready) {
            self.handle_message(*at);
        }
        if turn.listener
            && let Some(wire) = Wire::accept(listener)?
        {
            self.connections.push(Connection {
                wire: Some(wire),
                space: None,
                file: None,
                inherited: vec![],
            });
        }
        self.remove_ended();
        Ok(turn.control)
    }

    /// Receives and answers one message of the connection with the index `at`. An invalid message
    /// ends the connection.
    fn handle_message(&mut self, at: usize) {
        let Some(wire) = &self.connections[at].wire else { return };
        let message = wire.receive().ok().flatten();
        let message = message.and_then(|(words, fd)| Some((Message::from_words(words)?, fd)));
        let answer = message.and_then(|(message, fd)| self.answer(at, message, fd));
        let is_answered = answer.is_some_and(|(answer, fd)| {
            let wire = self.connections[at].wire.as_ref();
            wire.is_some_and(|wire| wire.send(answer.words(), fd.as_ref().map(AsFd::as_fd)).is_ok())
        });
        if !is_answered {
            self.connections[at].wire = None;
        }
    }

    fn answer(
        &mut self,
        at: usize,
        message: Message,
        fd: Option<OwnedFd>,
    ) -> Option<(Message, Option<OwnedFd>)> {
        let peers = Arc::clone(&self.peers);
        let done = (Message::Done { page: 0 }, None);
        let given = |(page, file): (usize, fs::File)| {
            (Message::Done { page: page as u64 }, Some(file.into()))
        };
        let refused = (Message::Refused, None);
        let number = |number: u64| usize::try_from(number).ok();
        let range = |start, bytes| {
            let start = number(start)?;
            Some(start..start.checked_add(number(bytes)?)?)
        };
        let peer = &mut self.connections[at];
        Some(match (message, peer.space) {
            (Message::Hello, None) => {
                let space = peers.add_space(Userfault::from(fd?)).ok()?;
                peer.space = Some(space);
                (Message::Done { page: space }, None)
            }
            (Message::Fork { space }, None) => {
                peer.inherited = peers.files_of(space);
                done
            }
            (Message::Forked, Some(_)) => {
                peer.inherited.clear();
                done
            }
            (Message::Allocate { bytes }, Some(_)) => {
                let file = self.allocate(number(bytes)?);
                self.connections[at].file = file.as_ref().map(|(page, _)| *page);
                file.map_or(refused, given)
            }
            (Message::Get { page }, Some(_)) => {
                let file = peers.file(number(page)?);
                peer.file = file.as_ref().map(|(page, _)| *page);
                file.map_or(refused, given)
            }
            (Message::Map { page, address, bytes }, Some(space)) => {
                peer.file = None;
                match peers.map(space, &range(address, bytes)?, number(page)?) {
                    true => done,
                    false => refused,
                }
            }
            (Message::Unmap { address, bytes }, Some(space)) => {
                peers.unmap(space, &range(address, bytes)?);
                done
            }
            _ => return None,
        })
    }

    /// Makes a new memory file of at least `bytes` bytes. Returns the file, and the address of its
    /// first page; `None` on failure. Starts the pager before the first file.
    fn allocate(&mut self, bytes: usize) -> Option<(usize, fs::File)> {
        if self.pager.is_none() {
            match start_pager(self.session, &self.peers) {
                Ok(pager) => self.pager = Some(pager),
                Err(why) => {
                    let text = format!("interleaf: shared memory is not extended: {why}\n");
                    let _ = rustix::io::write(rustix::stdio::stderr(), text.as_bytes());
                }
            }
        }
        let pager = self.pager.as_ref()?;
        // A file has at least `SPACING` bytes, because the arena puts shorter ranges side by side,
        // and an extent could then contain pages of several files.
        let pages = pager.allocate_protected(bytes.max(SPACING), 1, 0)?;
        let file = self.peers.add_file(&pages);
        if file.is_err() {
            pager.free(&pages);
        }
        Some((pages.start, file.ok()?))
    }

    /// Removes the processes that have ended, and the files that no process maps any more.
    fn remove_ended(&mut self) {
        let peers = &self.peers;
        self.connections.retain(|peer| {
            let has_ended = peer.wire.is_none()
                && peer.space.is_none_or(|space| {
                    let has_ended = peers.has_ended(space);
                    if has_ended {
                        peers.remove_space(space);
                    }
                    has_ended
                });
            !has_ended
        });
        let kept: Vec<usize> = self
            .connections
            .iter()
            .flat_map(|peer| peer.inherited.iter().copied().chain(peer.file))
            .collect();
        if let Some(pager) = &self.pager {
            peers.sweep(&kept).into_iter().for_each(|pages| pager.free(&pages));
        }
    }
}

/// Starts the pager of the shared memory.
fn start_pager(session: &Session, peers: &Arc<Peers>) -> Result<Pager, String> {
    let space = Box::new(SharedSpace::new(Arc::clone(peers)));
    let slot = session.join(NAME)?;
    let pager =
        Pager::with_space(space, session.cache_settings()?, ADDRESSES, session.open_store()?, slot);
    pager.map_err(|why| why.to_string())
}
