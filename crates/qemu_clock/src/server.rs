//! Exchanges messages with the card server, on two connections to the server's clock socket. The
//! first byte that the plugin sends on a connection states the connection's purpose: `D` for
//! doorbells, `C` for the guest's time. Each connection has one request at a time. Numbers are
//! little-endian. The server's code is in `crates/card_server/src/guest_clock.rs`.

use std::{
    io::{self, Read, Write},
    os::unix::net::UnixStream,
};

/// The connection on which the server announces doorbells.
pub(crate) struct Doorbells(UnixStream);

impl Doorbells {
    pub(crate) fn connect(socket: &str) -> io::Result<Self> {
        connect(socket, b'D').map(Self)
    }

    /// Calls `arm` for each doorbell of the guest, until the server ends. The server waits for an
    /// answer to each doorbell, which this function sends when `arm` has returned.
    pub(crate) fn hear(mut self, mut arm: impl FnMut()) {
        let mut byte = [0];
        while self.0.read_exact(&mut byte).is_ok() {
            arm();
            if self.0.write_all(&byte).is_err() {
                return;
            }
        }
    }
}

/// The answer of the card server to a report of the guest's time.
pub(crate) struct Answer {
    /// The guest's time at which the plugin reports the time again, ns. `None` if the next report
    /// is due only after the next doorbell.
    pub(crate) next: Option<u64>,
    /// MSI-X vectors that the plugin raises now.
    pub(crate) vectors: Vec<u16>,
}

/// The connection on which the plugin reports the guest's time.
pub(crate) struct Clock(UnixStream);

impl Clock {
    pub(crate) fn connect(socket: &str) -> io::Result<Self> {
        connect(socket, b'C').map(Self)
    }

    /// Reports the guest's time, ns, and returns the server's answer.
    pub(crate) fn advance(&mut self, now: u64) -> io::Result<Answer> {
        self.0.write_all(&now.to_le_bytes())?;
        let (mut next, mut count) = ([0; 8], [0; 2]);
        self.0.read_exact(&mut next)?;
        self.0.read_exact(&mut count)?;
        let mut vectors = vec![0; 2 * usize::from(u16::from_le_bytes(count))];
        self.0.read_exact(&mut vectors)?;
        let next = u64::from_le_bytes(next);
        let vectors = vectors.chunks_exact(2).map(|pair| u16::from_le_bytes([pair[0], pair[1]]));
        Ok(Answer { next: (next != u64::MAX).then_some(next), vectors: vectors.collect() })
    }
}

fn connect(socket: &str, kind: u8) -> io::Result<UnixStream> {
    let mut stream = UnixStream::connect(socket)?;
    stream.write_all(&[kind])?;
    Ok(stream)
}
