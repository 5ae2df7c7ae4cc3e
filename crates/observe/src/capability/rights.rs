//! Reads the rights of this process to move pages and to write settings, as the kernel checks them.
//! `move_pages` requires the right to trace a process of another user, and `CAP_SYS_NICE` for pages
//! that several processes map (move_pages(2)). Only root, or a process with `CAP_DAC_OVERRIDE`, can
//! write to files in sysfs that belong to root.

use interleaf_linux::root::{Root, RootError};

const STATUS: &str = "/proc/self/status";

/// Numbers of Linux capabilities, from `linux/capability.h`.
const DAC_OVERRIDE: u32 = 1;
const SYS_PTRACE: u32 = 19;
const SYS_NICE: u32 = 23;

/// The rights of this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Rights {
    is_root: bool,
    /// The effective Linux capabilities: bit `n` is set if the process has the capability number
    /// `n`.
    capabilities: u64,
}

impl Rights {
    /// Reads the rights from the file [`STATUS`]. Returns `None` if a captured machine (a copy of a
    /// machine's files) lacks this file.
    pub(super) fn read(root: &Root) -> Result<Option<Self>, RootError> {
        let Some(text) = root.text(STATUS)? else { return Ok(None) };
        let mut user = None;
        let mut capabilities = None;
        for (at, line) in text.lines().enumerate() {
            let wrong = || RootError::Content {
                path: format!("{STATUS}:{}", at + 1),
                text: line.into(),
                expected: "a line of users or of capabilities",
            };
            match line.split_once(':') {
                Some(("Uid", users)) => {
                    // The line has the real user ID first, and then the effective user ID.
                    let effective = users.split_whitespace().nth(1);
                    let number = effective.and_then(|user| user.parse::<u32>().ok());
                    user = Some(number.ok_or_else(wrong)?);
                }
                Some(("CapEff", bits)) => {
                    let bits = u64::from_str_radix(bits.trim(), 16);
                    capabilities = Some(bits.map_err(|_| wrong())?);
                }
                _ => {}
            }
        }
        let rights = |(user, capabilities)| Self { is_root: user == 0, capabilities };
        Ok(user.zip(capabilities).map(rights))
    }

    fn has(self, capability: u32) -> bool {
        self.capabilities & (1 << capability) != 0
    }

    /// True if this process may move pages of other users' processes.
    pub(super) fn traces_others(self) -> bool {
        self.has(SYS_PTRACE)
    }

    /// True if this process may move pages that several processes map.
    pub(super) fn moves_shared(self) -> bool {
        self.has(SYS_NICE)
    }

    /// True if this process may write to files that belong to root.
    pub(super) fn writes_as_root(self) -> bool {
        self.is_root || self.has(DAC_OVERRIDE)
    }
}
