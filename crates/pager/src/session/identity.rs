//! The identity of a process in the ledger: its number and its start time.

use std::io;

/// The owner of a slot that is being cleared or prepared.
pub(crate) const CLEARING: u64 = u64::MAX;

/// A process, also after its number was reused: a later process of the same number has another
/// start time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The process number.
    pub pid: u32,
    /// The lower 32 bits of its start time, in ticks after boot.
    pub start: u32,
}

impl Identity {
    /// The identity of this process.
    ///
    /// # Errors
    /// When `/proc` cannot be read.
    pub fn own() -> io::Result<Self> {
        Self::of(std::process::id())?.ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    /// The identity of a running process; `None` when it has ended.
    ///
    /// # Errors
    /// When `/proc` cannot be read.
    pub fn of(pid: u32) -> io::Result<Option<Self>> {
        let text = match std::fs::read(format!("/proc/{pid}/stat")) {
            Ok(text) => text,
            Err(why) if why.kind() == io::ErrorKind::NotFound => return Ok(None),
            // The process has ended since the file was opened.
            Err(why) if why.raw_os_error() == Some(libc::ESRCH) => return Ok(None),
            Err(why) => return Err(why),
        };
        // The process's name is in brackets before, and may contain any character.
        let rest = text.iter().rposition(|byte| *byte == b')').map(|at| &text[at + 1..]);
        let fields = String::from_utf8_lossy(rest.unwrap_or_default()).into_owned();
        let fields: Vec<&str> = fields.split_whitespace().collect();
        // Fields are numbered from 1, and the state is the third.
        let is_there = fields.first().is_some_and(|state| !matches!(*state, "Z" | "X"));
        let start = fields.get(19).and_then(|start| start.parse::<u64>().ok());
        Ok(start.filter(|_| is_there).map(|start| Self { pid, start: start as u32 }))
    }

    /// Whether the process still runs; `true` when `/proc` cannot be read.
    pub fn is_alive(&self) -> bool {
        match Self::of(self.pid) {
            Ok(found) => found == Some(*self),
            Err(_) => true,
        }
    }

    pub(crate) fn word(self) -> u64 {
        u64::from(self.start) << 32 | u64::from(self.pid)
    }

    pub(crate) fn from_word(word: u64) -> Option<Self> {
        let is_owner = word != 0 && word != CLEARING;
        is_owner.then_some(Self { pid: word as u32, start: (word >> 32) as u32 })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;
    use std::process::Command;

    #[test]
    fn a_process_is_known_by_its_number_and_its_start() {
        let own = Identity::own().unwrap();
        assert!(own.is_alive());
        assert!(!Identity { start: own.start.wrapping_add(1), ..own }.is_alive());
        let mut child = Command::new("true").spawn().unwrap();
        let pid = child.id();
        child.wait().unwrap();
        assert_eq!(Identity::of(pid).unwrap(), None);
    }
}
