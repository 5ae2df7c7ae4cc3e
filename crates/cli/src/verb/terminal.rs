//! Views that are drawn on a terminal until a key, a signal or the terminal's end ends them.
//!
//! Keys are read with poll(2) and read(2). The event reader of crossterm 0.29 restarts its loop on
//! end of file and on EIO, so it never returns once the terminal has hung up, and no signal is
//! looked at again.

use super::placed;
use crate::failure::Failure;
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

/// A view that changes over time.
pub(super) trait View {
    /// Takes in what is new; whether to go on.
    fn update(&mut self) -> bool;

    /// Draws it.
    fn draw(&mut self, frame: &mut Frame<'_>);

    /// Tab was pressed.
    fn next(&mut self) {}
}

/// Keys that views know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Key {
    /// `q`, Esc, Ctrl-C or Ctrl-D.
    Quit,
    /// Tab.
    Next,
}

/// Whether a view can be drawn, and keys be read.
pub(super) fn is_there() -> bool {
    io::stdout().is_terminal() && io::stdin().is_terminal()
}

/// Draws a view each `tick`, until it has ended, or a key or a signal ends it. `command` is what
/// gives lines in place of a view.
///
/// # Errors
/// When the terminal cannot be drawn on, or hangs up.
pub(super) fn show(view: &mut dyn View, tick: Duration, command: &str) -> Result<(), Failure> {
    // Held before the terminal is changed: no signal ends this process without putting it back.
    let signals = Signals::hold().map_err(placed::unheld)?;
    let failed = |why: io::Error| {
        let hint = format!("pipe it elsewhere for lines of text: {command} | cat");
        Failure::new(format!("the terminal cannot be drawn on: {why}"), hint)
    };
    // A panic puts the terminal back, too.
    let mut terminal = ratatui::try_init().map_err(failed)?;
    let shown = draw(&mut terminal, view, tick, &signals);
    let restored = ratatui::try_restore();
    if shown.is_err() {
        // Its destructor prints that the cursor cannot be shown, and panics where stderr is the
        // terminal that is gone.
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
    while signals.come().is_none() && view.update() {
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

/// The keys that are pressed, after at most `limit` of waiting for one.
///
/// # Errors
/// When the terminal has hung up.
fn pressed(terminal: BorrowedFd<'_>, limit: Duration) -> io::Result<Vec<Key>> {
    let gone = || io::Error::new(ErrorKind::UnexpectedEof, "it has hung up");
    let limit = Timespec { tv_sec: limit.as_secs() as i64, tv_nsec: limit.subsec_nanos().into() };
    let mut fds = [PollFd::from_borrowed_fd(terminal, PollFlags::IN)];
    match poll(&mut fds, Some(&limit)) {
        // A signal is looked at by the caller.
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

/// The keys in what a terminal in raw mode sends. Other keys, and the sequences that begin with
/// Escape, are skipped: `ESC [` up to a final byte of `@` to `~` (ECMA-48, 5.4), `ESC O` and a
/// byte, `ESC` and the byte of a key pressed with Alt.
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
    fn keys_are_told_from_sequences() {
        for (bytes, expected) in [
            (&b""[..], &[][..]),
            (b"q", &[Key::Quit]),
            (b"\x03", &[Key::Quit]),
            (b"\x04", &[Key::Quit]),
            (b"\x1b", &[Key::Quit]),
            (b"\x1b\x1b", &[Key::Quit, Key::Quit]),
            (b"x\tQ\t", &[Key::Next, Key::Next]),
            // Arrow up, F1, Delete, Alt-q, then a key.
            (b"\x1b[A\x1bOP\x1b[3~\x1bq\t", &[Key::Next]),
            (b"\x1b[1;5", &[]),
            ("ä".as_bytes(), &[]),
        ] {
            assert_eq!(keys(bytes), expected, "{bytes:?}");
        }
    }
}
