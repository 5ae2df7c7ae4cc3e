//! Files that the host sends to the port of a guest that was booted without steps.
//!
//! Each message is a file: a line with its path and its length in bytes, and the bytes. The steps,
//! `/steps`, are the last file.
//!
//! The guest waits for them in a loop, without sleeping: its clock skips idle time, so a guest that
//! sleeps until the host answers would lose minutes or hours.

use std::{
    fs::{self, File},
    hint,
    io::{self, BufRead, BufReader, Read},
    os::{fd::AsFd, unix::fs::OpenOptionsExt},
    path::Path,
};

use rustix::termios::{OptionalActions, tcgetattr, tcsetattr};

/// The path of the steps.
pub const STEPS: &str = "/steps";

/// The message of a file.
#[must_use]
pub fn message(path: &str, text: &str) -> Vec<u8> {
    format!("{path} {}\n{text}", text.len()).into_bytes()
}

/// Switches off echo and the conversions of a terminal.
pub(crate) fn make_raw(port: impl AsFd) -> io::Result<()> {
    let mut mode = tcgetattr(&port)?;
    mode.make_raw();
    Ok(tcsetattr(&port, OptionalActions::Now, &mode)?)
}

/// A port that is read without sleeping.
struct Polled(File);

impl Read for Polled {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.0.read(buffer) {
                Err(why) if why.kind() == io::ErrorKind::WouldBlock => hint::spin_loop(),
                done => return done,
            }
        }
    }
}

/// Opens a port for [`receive`].
pub(crate) fn open(port: &Path) -> io::Result<impl BufRead> {
    let file = File::options().read(true).custom_flags(libc::O_NONBLOCK).open(port)?;
    Ok(BufReader::new(Polled(file)))
}

/// Writes the files of all messages below `root`, and returns the steps.
pub(crate) fn receive(port: &mut impl BufRead, root: &Path) -> io::Result<String> {
    loop {
        let mut line = String::new();
        port.read_line(&mut line)?;
        let parsed = line.trim_end().rsplit_once(' ');
        let parsed = parsed.and_then(|(path, bytes)| Some((path, bytes.parse().ok()?)));
        let Some((path, bytes)) = parsed else {
            return Err(io::Error::other(format!("not the line of a file: {line:?}")));
        };
        let mut content: Vec<u8> = vec![0; bytes];
        port.read_exact(&mut content)?;
        if path == STEPS {
            return String::from_utf8(content).map_err(io::Error::other);
        }
        let file = root.join(path.trim_start_matches('/'));
        if let Some(folder) = file.parent() {
            fs::create_dir_all(folder)?;
        }
        fs::write(file, content)?;
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::*;

    #[test]
    fn files_arrive_before_the_steps() {
        let root = tempfile::tempdir().unwrap();
        let files =
            [("/a.toml", "x = 1\ny = 2\n"), ("/b c/empty", ""), (STEPS, "sleep 1s\nread /x\n")];
        let messages = files.map(|(path, text)| message(path, text)).concat();
        let steps = receive(&mut &messages[..], root.path()).unwrap();
        assert_eq!(steps, files[2].1);
        assert_eq!(fs::read_to_string(root.path().join("a.toml")).unwrap(), files[0].1);
        assert_eq!(fs::read_to_string(root.path().join("b c/empty")).unwrap(), "");
        let why = receive(&mut &messages[..15], root.path()).unwrap_err();
        assert_eq!(why.kind(), io::ErrorKind::UnexpectedEof);
        let why = receive(&mut &b"no length\n"[..], root.path()).unwrap_err().to_string();
        assert_eq!(why, "not the line of a file: \"no length\\n\"");
    }
}
