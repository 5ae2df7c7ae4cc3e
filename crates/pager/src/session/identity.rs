//! The identity of a process in the ledger: its process ID and its start time.

use interleaf_procfs::{files::Files, stat::Stat};
use std::{fs, io, os::unix::fs::MetadataExt};

/// The value of `owner` in a slot of the ledger while a process clears or prepares the slot.
pub(crate) const CLEARING: u64 = u64::MAX;

/// The ID and the start time of a process. The start time distinguishes the process from a later
/// process with the same ID.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The process ID.
    pub pid: u32,
    /// The lower 32 bits of the start time of the process, in clock ticks after boot.
    pub start: u32,
}

impl Identity {
    /// The identity of this process. The process ID is that of the PID namespace to which `/proc`
    /// belongs. After a fork into a new PID namespace, it differs from `getpid(2)` until the child
    /// mounts its own `/proc`.
    ///
    /// # Errors
    /// When `/proc` cannot be read.
    pub fn own() -> io::Result<Self> {
        let text = Files::live().read("proc/self/stat")?;
        let stat = text.as_deref().and_then(Stat::parse);
        let own = stat.and_then(|stat| Self::from_stat(&stat));
        own.ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    /// The identity of the running process `pid`; `None` if no such process runs any more.
    ///
    /// # Errors
    /// When `/proc` cannot be read.
    pub fn of(pid: u32) -> io::Result<Option<Self>> {
        let text = Files::live().of_process(pid, "stat")?;
        let stat = text.as_deref().and_then(Stat::parse).filter(|stat| !stat.is_zombie());
        Ok(stat.and_then(|stat| Self::from_stat(&stat)))
    }

    fn from_stat(stat: &Stat) -> Option<Self> {
        Some(Self { pid: stat.pid, start: stat.start_ticks()? as u32 })
    }

    /// True if the process still runs. Also true if `/proc` cannot be read.
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

/// The device number of `/proc`. Each PID namespace has its own `/proc`, with another device
/// number.
///
/// # Errors
/// When `/proc` cannot be read.
pub(crate) fn proc_device() -> io::Result<u64> {
    Ok(fs::metadata("/proc")?.dev())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;
    use std::process::Command;

    #[test]
    fn a_process_is_known_by_its_number_and_its_start() {
        let _turn = crate::session::tests::turn();
        let own = Identity::own().unwrap();
        assert_eq!(Some(own), Identity::of(std::process::id()).unwrap());
        assert!(own.is_alive());
        assert!(!Identity { start: own.start.wrapping_add(1), ..own }.is_alive());
        let mut child = Command::new("true").spawn().unwrap();
        let pid = child.id();
        child.wait().unwrap();
        assert_eq!(Identity::of(pid).unwrap(), None);
    }
}
