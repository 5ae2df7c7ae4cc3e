//! The protocol between a process and the server: messages of a few numbers and a descriptor.

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

/// Connections that may wait to be accepted.
const BACKLOG: i32 = 64;

/// Numbers of a message, and its bytes.
const WORDS: usize = 4;
const BYTES: usize = WORDS * 8;

/// A message of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Message {
    /// From a new client; its userfaultfd is attached.
    Hello,
    /// Requests a new file of `bytes`.
    Allocate { bytes: u64 },
    /// Requests the file of a page again.
    Get { page: u64 },
    /// A part of a file is mapped from `page` on.
    Map { page: u64, address: u64, bytes: u64 },
    /// These addresses are unmapped.
    Unmap { address: u64, bytes: u64 },
    /// The request was carried out. For a request of a file, `page` is its first page, and the file
    /// is attached.
    Done { page: u64 },
    /// The request was refused.
    Refused,
    /// Requests that a store file is released in the background; the file is attached.
    Release,
}

impl Message {
    fn words(self) -> [u64; WORDS] {
        match self {
            Self::Hello => [1, 0, 0, 0],
            Self::Allocate { bytes } => [2, bytes, 0, 0],
            Self::Get { page } => [3, page, 0, 0],
            Self::Map { page, address, bytes } => [4, page, address, bytes],
            Self::Unmap { address, bytes } => [5, address, bytes, 0],
            Self::Done { page } => [6, page, 0, 0],
            Self::Refused => [7, 0, 0, 0],
            Self::Release => [8, 0, 0, 0],
        }
    }

    fn from_words(words: [u64; WORDS]) -> Option<Self> {
        Some(match words {
            [1, ..] => Self::Hello,
            [2, bytes, ..] => Self::Allocate { bytes },
            [3, page, ..] => Self::Get { page },
            [4, page, address, bytes] => Self::Map { page, address, bytes },
            [5, address, bytes, ..] => Self::Unmap { address, bytes },
            [6, page, ..] => Self::Done { page },
            [7, ..] => Self::Refused,
            [8, ..] => Self::Release,
            _ => return None,
        })
    }
}

/// One end of a connection.
#[derive(Debug)]
pub(crate) struct Wire(OwnedFd);

impl Wire {
    /// Connects to the listener at a path.
    pub(crate) fn connect(path: &Path) -> io::Result<Self> {
        let socket = socket()?;
        connect(&socket, &SocketAddrUnix::new(path)?)?;
        Ok(Self(socket))
    }

    /// The next connection; `None` when none is pending.
    pub(crate) fn accept(listener: &OwnedFd) -> io::Result<Option<Self>> {
        match accept_with(listener, SocketFlags::CLOEXEC) {
            Ok(socket) => Ok(Some(Self(socket))),
            Err(Errno::AGAIN | Errno::INTR | Errno::CONNABORTED) => Ok(None),
            Err(why) => Err(why),
        }
    }

    /// Sends a message, with a descriptor.
    pub(crate) fn send(&self, message: Message, fd: Option<BorrowedFd<'_>>) -> io::Result<()> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        let fds: Vec<BorrowedFd<'_>> = fd.into_iter().collect();
        if !fds.is_empty() {
            control.push(SendAncillaryMessage::ScmRights(&fds));
        }
        let mut bytes = [0; BYTES];
        for (bytes, word) in bytes.chunks_exact_mut(8).zip(message.words()) {
            bytes.copy_from_slice(&word.to_ne_bytes());
        }
        sendmsg(&self.0, &[IoSlice::new(&bytes)], &mut control, SendFlags::NOSIGNAL).map(drop)
    }

    /// Waits for a message; `None` at the end of the connection, or for an invalid message.
    pub(crate) fn receive(&self) -> io::Result<Option<(Message, Option<OwnedFd>)>> {
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
        let mut words = [0; WORDS];
        for (bytes, word) in bytes.chunks_exact(8).zip(&mut words) {
            *word = u64::from_ne_bytes(bytes.try_into().unwrap_or_default());
        }
        let message = Message::from_words(words).filter(|_| read == BYTES);
        Ok(message.map(|message| (message, fd)))
    }

    /// Sends a request, and waits for the answer.
    pub(crate) fn request(
        &self,
        message: Message,
        fd: Option<BorrowedFd<'_>>,
    ) -> io::Result<(usize, Option<OwnedFd>)> {
        self.send(message, fd)?;
        match self.receive()? {
            Some((Message::Done { page }, fd)) => Ok((page as usize, fd)),
            Some(_) => Err(Errno::NOMEM),
            None => Err(Errno::PIPE),
        }
    }
}

impl AsFd for Wire {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Listens at a path that is not in use.
pub(crate) fn listener(path: &Path) -> io::Result<OwnedFd> {
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
    use super::*;

    #[test]
    fn messages_survive_encoding() {
        let said = [
            Message::Hello,
            Message::Allocate { bytes: 9 },
            Message::Get { page: 8 },
            Message::Map { page: 2, address: 3, bytes: 4 },
            Message::Unmap { address: 5, bytes: 6 },
            Message::Done { page: 7 },
            Message::Refused,
            Message::Release,
        ];
        for message in said {
            assert_eq!(Message::from_words(message.words()), Some(message));
        }
        assert_eq!(Message::from_words([0; WORDS]), None);
        assert_eq!(Message::from_words([9; WORDS]), None);
    }
}
