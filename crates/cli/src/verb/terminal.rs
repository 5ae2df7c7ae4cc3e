//! Interactive views on a terminal. A view ends after a key (`q`, Esc, Ctrl-C, Ctrl-D) or a signal,
//! and when the terminal hangs up.
//!
//! Keys are read with poll(2) and read(2), not with the event reader of crossterm 0.29. That reader
//! repeats its loop on end of file and on EIO, so after a hang-up it never returns, and a signal
//! could not end the view.

use interleaf_console::{Failure, output, system};
use interleaf_linux::launch::command::Signals;
use ratatui::{DefaultTerminal, Frame};
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::{Errno, read},
    stdio::stdin,
};
use std::{
    io::{self, ErrorKind, IsTerminal as _},
    mem,
    os::fd::BorrowedFd,
    time::Duration,
};

pub(super) trait View {
    /// Updates the data that the view shows. Returns false if the view has ended.
    fn update(&mut self) -> bool;

    fn draw(&mut self, frame: &mut Frame<'_>);

    /// Handles the Tab key: shows the next item, such as the next socket, if the view has several.
    fn next(&mut self) {}
}

/// A key that a view reacts to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Key {
    /// `q`, Esc, Ctrl-C or Ctrl-D.
    Quit,
    Next,
}

/// True if stdin and stdout are both terminals.
pub(super) fn is_there() -> bool {
    output::is_terminal() && io::stdin().is_terminal()
}

/// Draws a view every `tick` until the view ends, or a key or a signal closes it. The hint of an
/// error advises to pipe the output of `command`: this command prints lines of text, and draws no
/// view, if its stdout is a pipe.
///
/// # Errors
/// When drawing on the terminal fails, or the terminal hangs up.
pub(super) fn show(view: &mut dyn View, tick: Duration, command: &str) -> Result<(), Failure> {
    // Hold signals before the terminal's mode changes: a signal must not end this process before
    // the mode is restored.
    let signals = Signals::hold().map_err(system::signal_failure)?;
    let failed = |why: io::Error| {
        let hint = format!("pipe it elsewhere for lines of text: {command} | cat");
        Failure::new(format!("the terminal cannot be drawn on: {why}"), hint)
    };
    // If the view panics, ratatui's panic hook restores the terminal.
    let mut terminal = ratatui::try_init().map_err(failed)?;
    let shown = draw(&mut terminal, view, tick, &signals);
    let restored = ratatui::try_restore();
    if shown.is_err() {
        // After a failure, do not run the destructor of `terminal`. It prints a message about the
        // cursor to stderr, and panics if stderr is a terminal that has hung up.
        mem::forget(terminal);
    }
    shown.and(restored).map_err(failed)
}

fn draw(
    terminal: &mut DefaultTerminal,
    view: &mut dyn View,
    tick: Duration,
    signals: &Signals,
) -> io::Result<()> {
    while signals.arrived_signal().is_none() && view.update() {
        terminal.draw(|frame| view.draw(frame))?;
        for key in pressed(stdin(), tick)? {
            match key {
                Key::Quit => return Ok(()),
                Key::Next => view.next(),
            }
        }
    }
    Ok(())
}

/// Waits at most `limit` for input, and returns the keys that were pressed.
///
/// # Errors
/// When the terminal has hung up.
fn pressed(terminal: BorrowedFd<'_>, limit: Duration) -> io::Result<Vec<Key>> {
    let gone = || io::Error::new(ErrorKind::UnexpectedEof, "it has hung up");
    let limit = Timespec { tv_sec: limit.as_secs() as i64, tv_nsec: limit.subsec_nanos().into() };
    let mut fds = [PollFd::from_borrowed_fd(terminal, PollFlags::IN)];
    match poll(&mut fds, Some(&limit)) {
        // After EINTR, the caller checks for signals.
        Ok(0) | Err(Errno::INTR) => return Ok(vec![]),
        Ok(_) => {}
        Err(why) => return Err(why.into()),
    }
    if fds[0].revents().intersects(PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL) {
        return Err(gone());
    }
    let mut bytes = [0; 256];
    match read(terminal, &mut bytes) {
        Ok(0) | Err(Errno::IO) => Err(gone()),
        Ok(count) => Ok(keys(&bytes[..count])),
        Err(Errno::INTR | Errno::AGAIN) => Ok(vec![]),
        Err(why) => Err(why.into()),
    }
}

const ESCAPE: u8 = 0x1b;
const CONTROL_C: u8 = 0x03;
const CONTROL_D: u8 = 0x04;

/// Parses `bytes`, the input of a terminal in raw mode, and returns the keys that views react to.
/// Skips other keys, and three kinds of escape sequences: `ESC [` up to a final byte of `@` to `~`
/// (ECMA-48, 5.4), `ESC O` with one more byte, and `ESC` with the byte of a key pressed with Alt.
fn keys(mut bytes: &[u8]) -> Vec<Key> {
    let mut keys = vec![];
    loop {
        bytes = match bytes {
            [] => return keys,
            [ESCAPE, b'[', rest @ ..] => {
                let end = rest.iter().position(|byte| (b'@'..=b'~').contains(byte));
                end.map_or(&[], |end| &rest[end + 1..])
            }
            [ESCAPE, b'O', _, rest @ ..] => rest,
            [ESCAPE, ESCAPE, ..] | [ESCAPE] => {
                keys.push(Key::Quit);
                &bytes[1..]
            }
            [ESCAPE, _, rest @ ..] => rest,
            [byte, rest @ ..] => {
                match *byte {
                    b'q' | CONTROL_C | CONTROL_D => keys.push(Key::Quit),
                    b'\t' => keys.push(Key::Next),
                    _ => {}
                }
                rest
            }
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_distinguished_from_escape_sequences() {
        for (bytes, expected) in [
            (&b""[..], &[][..]),
            (b"q", &[Key::Quit]),
            (b"\x03", &[Key::Quit]),
            (b"\x04", &[Key::Quit]),
            (b"\x1b", &[Key::Quit]),
            (b"\x1b\x1b", &[Key::Quit, Key::Quit]),
            (b"x\tQ\t", &[Key::Next, Key::Next]),
            // Arrow up, F1, Delete and Alt-q are skipped. Tab follows them.
            (b"\x1b[A\x1bOP\x1b[3~\x1bq\t", &[Key::Next]),
            (b"\x1b[1;5", &[]),
            ("ä".as_bytes(), &[]),
        ] {
            assert_eq!(keys(bytes), expected, "{bytes:?}");
        }
    }
}
