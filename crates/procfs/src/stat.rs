//! Parser of `/proc/PID/stat` and `/proc/PID/task/TID/stat` (proc_pid_stat(5)). Their single line
//! has the state, the times and the counts of a process or a thread.
//!
//! ```text
//! 4711 (a (odd) name) S 1 4711 4711 0 -1 4194560 ...
//! 1    2              3 4 5    6                      numbers of the fields in the manual
//! ```
//!
//! The name may contain spaces and parentheses, so the third field begins after the last
//! parenthesis of the line.

use crate::words::{decimal, words};

/// The line of a file `stat`. Its fields are parsed when they are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stat<'a> {
    /// The process or thread ID.
    pub pid: u32,
    /// The command name without its parentheses. The kernel cuts it to 15 bytes.
    pub name: &'a [u8],
    /// The rest of the line: all fields from the third (the state) on.
    fields: &'a [u8],
}

impl<'a> Stat<'a> {
    /// Parses the line of a file `stat`; `None` if the line is malformed.
    pub fn parse(line: &'a [u8]) -> Option<Self> {
        let open = line.windows(2).position(|pair| pair == b" (")?;
        let close = line.windows(2).rposition(|pair| pair == b") ")?;
        let pid = decimal(&line[..open])?.try_into().ok()?;
        Some(Self { pid, name: line.get(open + 2..close)?, fields: &line[close + 2..] })
    }

    /// Returns the field that has the number `number` in proc_pid_stat(5), 3 or above. `None` if
    /// the field is missing, is negative or is not a number.
    pub fn field(&self, number: usize) -> Option<u64> {
        decimal(words(self.fields).nth(number.checked_sub(3)?)?)
    }

    /// The state: `R` for running, `S` for sleeping, `D` for uninterruptible sleep, `Z` for a
    /// zombie, and so on.
    pub fn state(&self) -> Option<u8> {
        words(self.fields).next()?.first().copied()
    }

    /// True if the process has ended: its parent has not waited for it yet (`Z`), or the kernel is
    /// removing it (`X`).
    pub fn is_zombie(&self) -> bool {
        matches!(self.state(), Some(b'Z' | b'X'))
    }

    /// True if the thread runs or waits for a CPU.
    pub fn is_running(&self) -> bool {
        self.state() == Some(b'R')
    }

    /// True if the thread is ending or has ended (`PF_EXITING`): it executes no further instruction
    /// of its program, and has closed or is closing its files. `None` if the field is missing.
    pub fn is_exiting(&self) -> Option<bool> {
        Some(self.field(9)? & 4 != 0)
    }

    /// The process ID of the parent.
    pub fn parent(&self) -> Option<u32> {
        self.field(4)?.try_into().ok()
    }

    /// The session ID, which is the process ID of the session leader; 0 if the leader is in another
    /// PID namespace.
    pub fn session(&self) -> Option<u32> {
        self.field(6)?.try_into().ok()
    }

    /// Major faults of the process itself.
    pub fn major_faults(&self) -> Option<u64> {
        self.field(12)
    }

    /// Major faults of those children for which the process has waited.
    pub fn children_major_faults(&self) -> Option<u64> {
        self.field(13)
    }

    /// CPU time of the process itself in user mode and kernel mode, clock ticks.
    pub fn cpu_ticks(&self) -> Option<u64> {
        self.field(14)?.checked_add(self.field(15)?)
    }

    /// CPU time of those children for which the process has waited, clock ticks.
    pub fn children_cpu_ticks(&self) -> Option<u64> {
        self.field(16)?.checked_add(self.field(17)?)
    }

    /// The number of threads of the process.
    pub fn threads(&self) -> Option<u64> {
        self.field(20)
    }

    /// Start time, clock ticks after boot. The kernel reuses process IDs, so only the ID and the
    /// start time together identify a process.
    pub fn start_ticks(&self) -> Option<u64> {
        self.field(22)
    }

    /// The number of resident pages. On machines with many CPUs, the kernel's number may be wrong
    /// by several MiB.
    pub fn resident_pages(&self) -> Option<u64> {
        self.field(24)
    }

    /// The CPU on which the thread ran last.
    pub fn cpu(&self) -> Option<usize> {
        self.field(39)?.try_into().ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: &str = "42 (a) (b) Z 7 6 5 0 -1 0 8 9 10 11 12 13 14 15 20 0 3 0 9876 0 24 25 26 \
                        27 28 29 30 31 32 33 34 35 36 37 17 3 40 41";

    #[test]
    fn fields_have_the_numbers_of_the_manual() {
        let stat = Stat::parse(LINE.as_bytes()).expect("a line");
        assert_eq!((stat.pid, stat.name), (42, &b"a) (b"[..]));
        assert!(stat.is_zombie() && !stat.is_running());
        assert_eq!(stat.is_exiting(), Some(false));
        assert_eq!((stat.parent(), stat.session()), (Some(7), Some(5)));
        assert_eq!((stat.major_faults(), stat.children_major_faults()), (Some(10), Some(11)));
        assert_eq!((stat.cpu_ticks(), stat.children_cpu_ticks()), (Some(25), Some(29)));
        assert_eq!((stat.threads(), stat.start_ticks()), (Some(3), Some(9876)));
        assert_eq!((stat.resident_pages(), stat.cpu()), (Some(24), Some(3)));
    }

    #[test]
    fn a_short_line_lacks_fields() {
        let stat = Stat::parse(b"1 (a) S 1 -1\n").expect("a line");
        assert_eq!((stat.state(), stat.parent(), stat.field(5)), (Some(b'S'), Some(1), None));
        assert_eq!((stat.start_ticks(), stat.field(2), stat.field(0)), (None, None, None));
        for wrong in ["", "42", "42 a S 1", "x (a) S 1", "7 (", "7 () ", ") ( "] {
            let found = Stat::parse(wrong.as_bytes());
            assert!(found.is_none_or(|stat| stat.state().is_none()), "{wrong}");
        }
    }

    #[test]
    fn this_process_is_parsed() {
        let line = std::fs::read("/proc/self/stat").expect("a file");
        let stat = Stat::parse(&line).expect("a line");
        assert_eq!(stat.pid, std::process::id());
        assert!(stat.cpu().is_some() && stat.start_ticks() > Some(0), "{stat:?}");
        assert_eq!(stat.is_exiting(), Some(false));
    }
}
