//! Receives the guest's clock, which a plugin of QEMU (`crates/qemu_clock`) reports.
//!
//! ```text
//! server -> plugin   connection 'D'   1 byte: the guest rang a doorbell; the plugin answers 1 byte
//!                                     once it has set the timer of its next report, which is due
//!                                     at once
//! plugin -> server   connection 'C'   8 bytes: the guest's time, ns; the server answers 8 bytes,
//!                                     the time of the next report (all ones: no report before
//!                                     the next doorbell),
//!                                     2 bytes with the number of MSI-X vectors to raise now, and
//!                                     2 bytes for each vector
//! ```
//!
//! The plugin makes both connections to the same socket. The first byte that the plugin sends on a
//! connection, `D` or `C`, tells the server which of the two connections it is. Each connection has
//! one request at a time. Numbers are little-endian. The card acts on a doorbell only when the
//! guest's time of the doorbell is known. Until then the guest executes no instruction: QEMU first
//! waits for the reply to the write of the doorbell (`x-no-posted-writes`), and then for the
//! server's answer to the report of the time.

use std::{
    io::{self, Read, Write},
    os::unix::net::{UnixListener, UnixStream},
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

/// Suffix that is added to the path of the card's socket to get the path of the socket for the
/// guest's clock.
const SUFFIX: &str = ".clock";

/// The time limit of QEMU for a reply of the server (`x-msg-timeout`) if the card follows the
/// guest's clock, ms. QEMU closes the connection after this time; its default is 5 s.
pub const QEMU_LIMIT_MS: u64 = 60_000;

/// Returns the path of the socket for the guest's clock. `card` is the path of the card's socket.
#[must_use]
pub fn socket_of(card: &Path) -> PathBuf {
    let mut path = card.as_os_str().to_os_string();
    path.push(SUFFIX);
    path.into()
}

/// Returns the options of QEMU that attach the card which is served on the socket `card`. With
/// `is_clocked`, the card follows the guest's clock.
#[must_use]
pub fn qemu_options(card: &Path, is_clocked: bool) -> String {
    let (mut plugin, mut waiting) = (String::new(), String::new());
    if is_clocked {
        plugin = format!(
            "-icount shift=1,sleep=off -rtc clock=vm -plugin \
             libinterleaf_qemu_clock.so,socket={},device=card ",
            socket_of(card).display()
        );
        waiting = format!(
            "\"id\":\"card\",\"x-no-posted-writes\":true,\"x-msg-timeout\":{QEMU_LIMIT_MS},"
        );
    }
    format!(
        "{plugin}-device '{{\"driver\":\"vfio-user-pci\",{waiting}\
         \"socket\":{{\"type\":\"unix\",\"path\":\"{}\"}}}}'",
        card.display()
    )
}

/// The answer to a report of the guest's time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Answer {
    /// The guest's time at which the plugin must report the time again; `None` if the next report
    /// is due only after the next doorbell.
    pub(crate) next: Option<Duration>,
    /// MSI-X vectors that the plugin raises now.
    pub(crate) vectors: Vec<u16>,
}

impl Answer {
    fn bytes(&self) -> Vec<u8> {
        let next = self.next.and_then(|next| u64::try_from(next.as_nanos()).ok());
        let count = u16::try_from(self.vectors.len()).unwrap_or(u16::MAX);
        let vectors =
            self.vectors.iter().take(count.into()).flat_map(|vector| vector.to_le_bytes());
        let (next, count) = (next.unwrap_or(u64::MAX).to_le_bytes(), count.to_le_bytes());
        next.into_iter().chain(count).chain(vectors).collect()
    }
}

/// The connection to the QEMU plugin on which the server announces doorbells.
#[derive(Default)]
pub(crate) struct GuestClock {
    /// The connection; `None` if no plugin is connected.
    doorbells: Mutex<Option<UnixStream>>,
}

impl GuestClock {
    /// Announces a doorbell, and waits until the plugin has set its timer. Returns false if no
    /// plugin is connected, or if the plugin does not answer; the server then closes the
    /// connection.
    pub(crate) fn ring(&self) -> bool {
        let mut doorbells = self.doorbells();
        let Some(stream) = doorbells.as_mut() else { return false };
        let mut byte = [1];
        let rung = stream.write_all(&byte).and_then(|()| stream.read_exact(&mut byte));
        if rung.is_err() {
            *doorbells = None;
        }
        rung.is_ok()
    }

    fn doorbells(&self) -> MutexGuard<'_, Option<UnixStream>> {
        self.doorbells.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Accepts connections of plugins. Returns at the first connection after `ends` is set: to stop
    /// this function, the caller sets `ends`, and then connects once. `tell` gets the guest's time
    /// of each report, and returns the answer to this report.
    pub(crate) fn serve(
        self: &Arc<Self>,
        listener: &UnixListener,
        ends: &AtomicBool,
        tell: &Arc<impl Fn(Duration) -> Answer + Send + Sync + 'static>,
    ) {
        for stream in listener.incoming() {
            if ends.load(Ordering::SeqCst) {
                return;
            }
            let Ok(mut stream) = stream else { continue };
            let mut kind = [0];
            // A connection that sends nothing must not delay other connections, so limit the wait.
            let limited = stream.set_read_timeout(Some(KIND_LIMIT));
            if limited.is_err() || stream.read_exact(&mut kind).is_err() {
                continue;
            }
            match kind[0] {
                b'D' if stream.set_read_timeout(Some(ARM_LIMIT)).is_ok() => {
                    *self.doorbells() = Some(stream);
                }
                b'C' if stream.set_read_timeout(None).is_ok() => {
                    let tell = tell.clone();
                    let thread = thread::Builder::new().name("card-clock".to_string());
                    // If the thread cannot be started, the stream is closed, which the plugin
                    // reports.
                    let _ = thread.spawn(move || answer_times(stream, &*tell));
                }
                _ => {}
            }
        }
    }
}

/// Time limit for the first byte of a connection. The plugin sends this byte at once, so 5 s
/// suffice even on a busy machine.
const KIND_LIMIT: Duration = Duration::from_secs(5);

/// Time limit for the plugin to set the timer of its next report, long enough for a busy machine.
/// While the server waits for the plugin, QEMU waits for the server. The limit is half of QEMU's
/// time limit, so that the server answers QEMU in time.
const ARM_LIMIT: Duration = Duration::from_millis(QEMU_LIMIT_MS / 2);

/// Answers each report of the guest's time on `stream` with the result of `tell`, until the plugin
/// disconnects.
fn answer_times(mut stream: UnixStream, tell: &impl Fn(Duration) -> Answer) -> io::Result<()> {
    loop {
        let mut now = [0; 8];
        stream.read_exact(&mut now)?;
        stream.write_all(&tell(Duration::from_nanos(u64::from_le_bytes(now))).bytes())?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The options are those of `docs/cards.md`.
    #[test]
    fn qemu_waits_longer_for_a_card_that_follows_the_clock() {
        let socket = "\"socket\":{\"type\":\"unix\",\"path\":\"/tmp/card.sock\"}}'";
        assert_eq!(
            qemu_options(Path::new("/tmp/card.sock"), false),
            format!("-device '{{\"driver\":\"vfio-user-pci\",{socket}")
        );
        assert_eq!(
            qemu_options(Path::new("/tmp/card.sock"), true),
            format!(
                "-icount shift=1,sleep=off -rtc clock=vm -plugin \
                 libinterleaf_qemu_clock.so,socket=/tmp/card.sock.clock,device=card -device \
                 '{{\"driver\":\"vfio-user-pci\",\"id\":\"card\",\"x-no-posted-writes\":true,\
                 \"x-msg-timeout\":60000,{socket}"
            )
        );
    }
}
