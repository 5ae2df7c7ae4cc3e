//! The protocol between the server of shared memory and its clients. A client is a process that
//! shares memory.

use interleaf_poll_server::wire::{Wire, Words};
use rustix::io::{self, Errno};
use std::os::fd::{BorrowedFd, OwnedFd};

/// A message of the protocol. A field `page` is an address in the range that the server has
/// reserved. It identifies a page in all processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Message {
    /// Greets the server. The userfaultfd of the new client is attached.
    Hello,
    /// Requests a new file of `bytes`.
    Allocate { bytes: u64 },
    /// Requests the file that contains the page `page`.
    Get { page: u64 },
    /// Reports that the client has mapped a part of a file: `bytes` bytes from the page `page` on,
    /// at `address`.
    Map { page: u64, address: u64, bytes: u64 },
    /// Reports that the client has unmapped `bytes` bytes at `address`.
    Unmap { address: u64, bytes: u64 },
    /// Reports that the process with the address space `space` is about to fork, and that its child
    /// will use this connection. The server must keep the files that the process maps now, until
    /// [`Message::Forked`].
    Fork { space: u64 },
    /// Reports that the child has mapped the files of its parent.
    Forked,
    /// The answer to a request that was carried out. After [`Message::Hello`], `page` is the number
    /// of the client's address space. After a request for a file, `page` is the first page of the
    /// file, and the descriptor of the file is attached.
    Done { page: u64 },
    /// The answer to a request that was refused.
    Refused,
}

impl Message {
    pub(crate) fn words(self) -> Words {
        match self {
            Self::Hello => [1, 0, 0, 0],
            Self::Allocate { bytes } => [2, bytes, 0, 0],
            Self::Get { page } => [3, page, 0, 0],
            Self::Map { page, address, bytes } => [4, page, address, bytes],
            Self::Unmap { address, bytes } => [5, address, bytes, 0],
            Self::Done { page } => [6, page, 0, 0],
            Self::Refused => [7, 0, 0, 0],
            Self::Fork { space } => [8, space, 0, 0],
            Self::Forked => [9, 0, 0, 0],
        }
    }

    pub(crate) fn from_words(words: Words) -> Option<Self> {
        Some(match words {
            [1, ..] => Self::Hello,
            [2, bytes, ..] => Self::Allocate { bytes },
            [3, page, ..] => Self::Get { page },
            [4, page, address, bytes] => Self::Map { page, address, bytes },
            [5, address, bytes, ..] => Self::Unmap { address, bytes },
            [6, page, ..] => Self::Done { page },
            [7, ..] => Self::Refused,
            [8, space, ..] => Self::Fork { space },
            [9, ..] => Self::Forked,
            _ => return None,
        })
    }
}

/// Sends a request, with the descriptor `fd` if one is given, and waits for the answer. Returns the
/// page and the descriptor in the answer [`Message::Done`].
pub(crate) fn request(
    wire: &Wire,
    message: Message,
    fd: Option<BorrowedFd<'_>>,
) -> io::Result<(usize, Option<OwnedFd>)> {
    wire.send(message.words(), fd)?;
    let (words, fd) = wire.receive()?.ok_or(Errno::PIPE)?;
    match Message::from_words(words) {
        Some(Message::Done { page }) => Ok((page as usize, fd)),
        Some(_) => Err(Errno::NOMEM),
        None => Err(Errno::PIPE),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_survive_encoding() {
        let messages = [
            Message::Hello,
            Message::Allocate { bytes: 9 },
            Message::Get { page: 8 },
            Message::Map { page: 2, address: 3, bytes: 4 },
            Message::Unmap { address: 5, bytes: 6 },
            Message::Done { page: 7 },
            Message::Refused,
            Message::Fork { space: 8 },
            Message::Forked,
        ];
        for message in messages {
            assert_eq!(Message::from_words(message.words()), Some(message));
        }
        assert_eq!(Message::from_words([0; 4]), None);
        assert_eq!(Message::from_words([10; 4]), None);
    }
}
