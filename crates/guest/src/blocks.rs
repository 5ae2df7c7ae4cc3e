//! Transfers text files that the host sends to a waiting guest over the second serial port.
//!
//! The host packs the files into blocks of [`BLOCK`] bytes. The guest asks for each block with
//! [`Line::Ready`], because the port has no flow control: the kernel drops the bytes of a longer
//! message that exceed the buffer of the port. The guest asks again until the block arrives,
//! because a guest that starts from a snapshot asked for its first block before the snapshot.
//!
//! Each file is a line with its path and its length in bytes, and then its bytes. An empty line is
//! the end. Zeros fill the last block.

use std::{
    fs::{self, File},
    io::{self, BufRead, BufReader, Read, Write},
    path::Path,
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    termios::{OptionalActions, tcgetattr, tcsetattr},
};

use crate::report::Line;

/// Length of a block, bytes. The kernel's buffer of a terminal is longer: it has 4096 bytes.
pub const BLOCK: usize = 1024;

/// Time after which the guest repeats its request for a block that has not arrived, 0.1 s.
const AGAIN: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };

/// Packs files, each a path in the guest and a text, into blocks.
#[must_use]
pub fn pack(files: &[(String, String)]) -> Vec<u8> {
    let file = |(path, text): &(String, String)| format!("{path} {}\n{text}", text.len());
    let mut packed = files.iter().map(file).collect::<String>().into_bytes();
    packed.push(b'\n');
    packed.resize(packed.len().next_multiple_of(BLOCK), 0);
    packed
}

/// Receives packed files from the terminal `port`, and writes each file to its path.
///
/// # Errors
///
/// If the port cannot be used, the message does not have the format of [`pack`], or a file cannot
/// be written.
pub fn receive(port: &File) -> io::Result<()> {
    let mut settings = tcgetattr(port)?;
    settings.make_raw();
    tcsetattr(port, OptionalActions::Now, &settings)?;
    for (path, text) in unpack(Blocks { port, next: 0 })? {
        if let Some(folder) = Path::new(&path).parent() {
            fs::create_dir_all(folder)?;
        }
        fs::write(path, text)?;
    }
    Ok(())
}

fn unpack(blocks: impl Read) -> io::Result<Vec<(String, Vec<u8>)>> {
    let mut blocks = BufReader::with_capacity(BLOCK, blocks);
    let mut files = vec![];
    loop {
        let mut head = String::new();
        blocks.read_line(&mut head)?;
        if head == "\n" {
            return Ok(files);
        }
        let wrong = || io::Error::other(format!("not a path and a length: {head:?}"));
        let (path, length) = head.trim_end().rsplit_once(' ').ok_or_else(wrong)?;
        let mut text = vec![0; length.parse().map_err(|_| wrong())?];
        blocks.read_exact(&mut text)?;
        files.push((path.to_string(), text));
    }
}

/// Reads the packed files from the port. Asks the host for one block at a time, by its number.
struct Blocks<'a> {
    port: &'a File,
    next: usize,
}

impl Read for Blocks<'_> {
    /// Reads one block into `buf`, which has at least [`BLOCK`] bytes: a [`BufReader`] with a
    /// capacity of [`BLOCK`] passes its own buffer, or its caller's buffer if that is not shorter.
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        loop {
            writeln!(self.port, "{}", Line::Ready(self.next))?;
            let mut polled = [PollFd::new(self.port, PollFlags::IN)];
            if poll(&mut polled, Some(&AGAIN))? > 0 {
                break;
            }
        }
        self.port.read_exact(&mut buf[..BLOCK])?;
        self.next += 1;
        Ok(BLOCK)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_unpacked_as_packed() {
        for length in [0, 1, BLOCK - 12, BLOCK - 11, BLOCK, 5 * BLOCK] {
            let files = [
                ("/a file".to_string(), "x\n".repeat(length / 2)),
                ("/none".to_string(), String::new()),
                ("/steps".to_string(), "run é\n".to_string()),
            ];
            let packed = pack(&files);
            assert_eq!(packed.len() % BLOCK, 0);
            let unpacked = unpack(&packed[..]).unwrap();
            let texts = files.map(|(path, text)| (path, text.into_bytes()));
            assert_eq!(unpacked, texts, "{length}");
        }
        for wrong in ["", "/a\n", "/a x\n", "/a 5\nx"] {
            assert!(unpack(wrong.as_bytes()).is_err(), "{wrong}");
        }
    }
}
