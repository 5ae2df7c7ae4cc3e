//! Connections that carry messages of four numbers, each with or without a descriptor
//! (`SCM_RIGHTS`, `unix(7)`).
//!
//! The socket keeps the boundaries of messages (`SOCK_SEQPACKET`), so a message arrives complete or
//! not at all. The caller defines the meaning of the numbers.

use rustix::{
    io::{self, Errno},
    net::{
        AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
        SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags, SocketType, accept_with,
        bind, connect, listen, recvmsg, sendmsg, socket_with,
    },
};
use std::{
    io::{IoSlice, IoSliceMut},
    mem::MaybeUninit,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    path::Path,
};

/// The backlog of listen(2): the maximum number of connections that wait to be accepted.
const BACKLOG: i32 = 64;

/// The four numbers of a message; the caller defines their meaning.
pub type Words = [u64; 4];

/// The length of a message, bytes.
const BYTES: usize = size_of::<Words>();

/// One end of a connection, which is an open socket.
#[derive(Debug)]
pub struct Wire(OwnedFd);

impl Wire {
    /// Connects to the listener at `path`.
    ///
    /// # Errors
    /// The errors of socket(2) and connect(2), such as `ECONNREFUSED` and `ENOENT` if no process
    /// listens at `path`.
    pub fn connect(path: &Path) -> io::Result<Self> {
        let socket = socket()?;
        connect(&socket, &SocketAddrUnix::new(path)?)?;
        Ok(Self(socket))
    }

    /// Returns the same connection with another descriptor. `renumber` gets the present descriptor
    /// and returns a duplicate of it, which the connection uses from then on.
    #[must_use]
    pub fn renumbered(self, renumber: impl FnOnce(OwnedFd) -> OwnedFd) -> Self {
        Self(renumber(self.0))
    }

    /// Accepts the next connection. Returns `None` if no connection is pending, the call was
    /// interrupted, or the client has already closed the connection.
    ///
    /// # Errors
    /// The errors of accept(2), except `EAGAIN`, `EINTR` and `ECONNABORTED`.
    pub fn accept(listener: &OwnedFd) -> io::Result<Option<Self>> {
        match accept_with(listener, SocketFlags::CLOEXEC) {
            Ok(socket) => Ok(Some(Self(socket))),
            Err(Errno::AGAIN | Errno::INTR | Errno::CONNABORTED) => Ok(None),
            Err(why) => Err(why),
        }
    }

    /// Sends a message, with the descriptor `fd` if it is given.
    ///
    /// # Errors
    /// The errors of sendmsg(2), such as `EPIPE` if the other end is closed.
    pub fn send(&self, words: Words, fd: Option<BorrowedFd<'_>>) -> io::Result<()> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        let fds: Vec<BorrowedFd<'_>> = fd.into_iter().collect();
        if !fds.is_empty() {
            control.push(SendAncillaryMessage::ScmRights(&fds));
        }
        let mut bytes = [0; BYTES];
        for (bytes, word) in bytes.chunks_exact_mut(8).zip(words) {
            bytes.copy_from_slice(&word.to_ne_bytes());
        }
        sendmsg(&self.0, &[IoSlice::new(&bytes)], &mut control, SendFlags::NOSIGNAL).map(drop)
    }

    /// Waits for a message. Returns its numbers and, if it has one, its descriptor. Returns `None`
    /// at the end of the connection, or for a message that is shorter than four numbers. A longer
    /// message is cut to its first four numbers.
    ///
    /// # Errors
    /// The errors of recvmsg(2), except `EINTR`.
    pub fn receive(&self) -> io::Result<Option<(Words, Option<OwnedFd>)>> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let mut bytes = [0; BYTES];
        let read = loop {
            let mut into = [IoSliceMut::new(&mut bytes)];
            match recvmsg(&self.0, &mut into, &mut control, RecvFlags::CMSG_CLOEXEC) {
                Err(Errno::INTR) => {}
                read => break read?.bytes,
            }
        };
        let fds = control.drain().flat_map(|message| match message {
            RecvAncillaryMessage::ScmRights(fds) => fds.collect::<Vec<_>>(),
            _ => vec![],
        });
        let fd = fds.last();
        let mut words = Words::default();
        for (bytes, word) in bytes.chunks_exact(8).zip(&mut words) {
            *word = u64::from_ne_bytes(bytes.try_into().unwrap_or_default());
        }
        Ok((read == BYTES).then_some((words, fd)))
    }
}

impl AsFd for Wire {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Listens at `path`, which must not be in use. The listener does not block.
///
/// # Errors
/// The errors of bind(2), such as `EADDRINUSE` if `path` exists.
pub fn listener(path: &Path) -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let listener = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
    bind(&listener, &SocketAddrUnix::new(path)?)?;
    listen(&listener, BACKLOG)?;
    Ok(listener)
}

fn socket() -> io::Result<OwnedFd> {
    socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;
    use rustix::net::send;
    use std::{fs::File, io::Read as _};

    #[test]
    fn a_message_arrives_with_its_descriptor() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        assert_eq!(Wire::connect(&path).unwrap_err(), Errno::NOENT);
        let listener = listener(&path).unwrap();
        assert!(Wire::accept(&listener).unwrap().is_none(), "no client yet");
        let client = Wire::connect(&path).unwrap();
        let server = Wire::accept(&listener).unwrap().unwrap();
        std::fs::write(folder.path().join("file"), "content").unwrap();
        let file = File::open(folder.path().join("file")).unwrap();
        client.send([1, 2, 3, u64::MAX], Some(file.as_fd())).unwrap();
        client.send([4; 4], None).unwrap();
        let (words, fd) = server.receive().unwrap().unwrap();
        let mut text = String::new();
        File::from(fd.unwrap()).read_to_string(&mut text).unwrap();
        assert_eq!((words, text.as_str()), ([1, 2, 3, u64::MAX], "content"));
        assert!(matches!(server.receive().unwrap(), Some(([4, 4, 4, 4], None))));
        send(&client, b"short", SendFlags::empty()).unwrap();
        assert!(server.receive().unwrap().is_none(), "another length");
        drop(client);
        assert!(server.receive().unwrap().is_none(), "the end");
    }
}
