//! Runs a virtual machine: the QEMU process, and the port over which the guest reports.

use std::{
    fs,
    io::{self, BufRead, BufReader, Write},
    path::Path,
    process::{Child, ChildStdin, Command},
    sync::mpsc::{self, Receiver, RecvTimeoutError},
    thread,
    time::{Duration, Instant},
};

use interleaf_guest::{blocks::BLOCK, report::Line};

use crate::{
    outcome::Record,
    running_guests::{GuestClock, GuestPermit},
};

/// A function that is called with each line of the guest's report, and with `None` at short
/// intervals while no line arrives. If it returns true, the virtual machine is killed.
pub type Watch<'a> = dyn Fn(Option<&Line>) -> bool + 'a;

/// Interval at which a [`Watch`] is called while the guest writes no line.
const WATCH_PERIOD: Duration = Duration::from_millis(20);

/// The file to which QEMU writes the kernel's log. It is in the folder that the host creates for
/// the guest.
pub(crate) const CONSOLE: &str = "console";

/// Returns the kernel's log of the guest whose files on the host are in `folder`; empty if QEMU
/// failed before it created the log.
pub(crate) fn console(folder: &Path) -> String {
    let console = fs::read(folder.join(CONSOLE)).unwrap_or_default();
    String::from_utf8_lossy(&console).replace('\r', "")
}

/// A QEMU process, which is killed when this value is dropped.
pub(crate) struct Machine {
    pub(crate) child: Child,
    pub(crate) started: Instant,
    /// Lines that the guest writes to its second serial port, which QEMU connects to its stdout.
    lines: Receiver<String>,
    /// QEMU's stdin: bytes for the guest's second serial port.
    port: ChildStdin,
    _permit: GuestPermit,
}

impl Drop for Machine {
    fn drop(&mut self) {
        // Killing fails if QEMU has already exited, which is the usual case.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The reason why [`Machine::listen`] returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ListenEnd {
    /// QEMU closed the guest's port.
    All,
    /// The watch returned true.
    Cut,
    /// The time limit passed.
    Late,
}

impl Machine {
    /// Starts QEMU as soon as the host has capacity for a guest with the clock `clock`.
    ///
    /// # Errors
    ///
    /// If QEMU cannot be executed.
    pub(crate) fn start(qemu: &mut Command, clock: GuestClock) -> io::Result<Self> {
        let permit = GuestPermit::acquire(clock);
        let started = Instant::now();
        let mut child = qemu.spawn()?;
        let port = child.stdin.take().expect("its input is a pipe");
        let stdout = child.stdout.take().expect("its output is a pipe");
        let (sender, lines) = mpsc::channel();
        thread::spawn(move || {
            for line in BufReader::new(stdout).split(b'\n').map_while(Result::ok) {
                if sender.send(String::from_utf8_lossy(&line).into_owned()).is_err() {
                    return;
                }
            }
        });
        Ok(Self { child, started, lines, port, _permit: permit })
    }

    /// Returns when the guest asks for the first block of its files.
    ///
    /// # Errors
    ///
    /// If the guest stopped, or did not ask within `limit`.
    pub(crate) fn wait_until_ready(&mut self, limit: Duration) -> io::Result<()> {
        let is_ready = |line: Option<&Line>| matches!(line, Some(Line::Ready(_)));
        match self.listen(limit, Some(&is_ready), &[], &mut Record::default()) {
            ListenEnd::Cut => Ok(()),
            ListenEnd::All => Err(io::Error::other("the guest stopped while it booted")),
            ListenEnd::Late => {
                Err(io::Error::other(format!("the boot took longer than {limit:?}")))
            }
        }
    }

    /// Adds the lines of the guest's report to `record`. Sends each block of the packed files
    /// `blocks` once, at the guest's first request for the block. Returns when QEMU has closed the
    /// guest's port, `until` returns true, or `limit` has passed since the start of QEMU.
    pub(crate) fn listen(
        &mut self,
        limit: Duration,
        until: Option<&Watch<'_>>,
        blocks: &[u8],
        record: &mut Record,
    ) -> ListenEnd {
        let period = until.map_or(limit, |_| WATCH_PERIOD);
        let cut = |line: Option<&Line>| until.is_some_and(|until| until(line));
        // The guest repeats a request until the block arrives. Each block is sent only once.
        let mut unsent = blocks.chunks(BLOCK).enumerate().peekable();
        while self.started.elapsed() < limit {
            match self.lines.recv_timeout(period.min(limit.saturating_sub(self.started.elapsed())))
            {
                // The firmware may write to the port too. Its lines lack the marker of the guest's
                // report and are skipped.
                Ok(text) => {
                    let Ok(line) = text.parse::<Line>() else { continue };
                    record.booted.get_or_insert_with(|| self.started.elapsed());
                    let is_last = cut(Some(&line));
                    if is_last {
                        record.add_line(line);
                        return ListenEnd::Cut;
                    }
                    if let Line::Ready(next) = line
                        && let Some((_, block)) = unsent.next_if(|(at, _)| *at == next)
                    {
                        // A write fails if QEMU has exited. The caller then reports the exit status
                        // of QEMU.
                        let _ = self.port.write_all(block);
                    }
                    record.add_line(line);
                }
                Err(RecvTimeoutError::Timeout) if cut(None) => return ListenEnd::Cut,
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return ListenEnd::All,
            }
        }
        ListenEnd::Late
    }
}
