//! Checks that this user may use the kernel facilities that a pager needs: `userfaultfd` and
//! `io_uring`. Each check opens a descriptor of the facility, and closes the descriptor again.

use crate::kernel::uffd::{FaultMode, Userfault};
use io_uring::IoUring;
use rustix::io::Errno;

/// A facility of the kernel that this user cannot use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MissingRight {
    pub why: String,
    pub hint: String,
}

fn missing<T>(why: &str, hint: &str) -> Result<T, MissingRight> {
    Err(MissingRight { why: why.into(), hint: hint.into() })
}

/// Checks that this user can open a `userfaultfd` that handles faults of system calls and moves
/// pages.
///
/// # Errors
/// When the kernel refuses. The error tells the user what to change.
pub fn userfaultfd() -> Result<(), MissingRight> {
    match Userfault::open(FaultMode::Thread) {
        Ok(_) => Ok(()),
        Err(Errno::PERM) => missing(
            "this user may not serve page faults of the kernel (userfaultfd)",
            "as root either sysctl vm.unprivileged_userfaultfd=1, or give a group of this user the \
             device: chgrp GROUP /dev/userfaultfd and chmod 660 /dev/userfaultfd, or start it with \
             the right alone: setpriv --reuid USER --init-groups --inh-caps +sys_ptrace \
             --ambient-caps +sys_ptrace (CAP_SYS_PTRACE); in a container, let seccomp pass \
             userfaultfd (--cap-add SYS_PTRACE)",
        ),
        Err(Errno::NOSYS) => missing(
            "the kernel has no userfaultfd",
            "run a kernel with CONFIG_USERFAULTFD; in a container, let seccomp pass it",
        ),
        Err(Errno::INVAL) => missing(
            "the kernel's userfaultfd does not move pages: it is older than 6.8",
            "run a kernel from 6.8 on (UFFDIO_MOVE)",
        ),
        Err(why) => missing(&format!("userfaultfd: {why}"), "report it"),
    }
}

/// Checks that this user can open an `io_uring`.
///
/// # Errors
/// When the kernel refuses. The error tells the user what to change.
pub fn io_uring() -> Result<(), MissingRight> {
    let Err(why) = IoUring::new(8) else { return Ok(()) };
    match Errno::from_io_error(&why) {
        Some(Errno::PERM | Errno::ACCESS) => missing(
            "this user may not have io_uring",
            "as root: sysctl kernel.io_uring_disabled=0, or 1 and kernel.io_uring_group=GID; in a \
             container, let seccomp pass io_uring_setup",
        ),
        Some(Errno::NOSYS) => missing(
            "the kernel has no io_uring",
            "run a kernel with CONFIG_IO_URING; in a container, let seccomp pass io_uring_setup",
        ),
        Some(Errno::NOMEM) => missing(
            "the limit of locked memory leaves no room for io_uring",
            "ulimit -l unlimited, as root or by /etc/security/limits.conf",
        ),
        _ => missing(&format!("io_uring: {why}"), "report it"),
    }
}
