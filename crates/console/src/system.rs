//! Converts errors of [`interleaf_linux`] to failures with a hint for the user, and opens the root:
//! the folder below which the files of a machine are read.

use crate::Failure;
use interleaf_linux::{
    launch::command::StartError,
    place::{journal::JournalError, migrate::MigrateError},
    root::{Root, RootError},
};
use std::{io, path::Path};

/// Returns the root, below which the files of a machine are read: the folder `captured` of a
/// captured machine, or `/` if `captured` is `None`.
///
/// # Errors
/// When the folder has no files that describe the memory of a machine.
pub fn open_root(captured: Option<&Path>) -> Result<Root, Failure> {
    let Some(folder) = captured else { return Ok(Root::live()) };
    let root = Root::captured(folder);
    // A kernel without NUMA describes its memory in proc/meminfo only.
    if root.has("/sys/devices/system/node") || root.has("/proc/meminfo") {
        return Ok(root);
    }
    Err(Failure::new(
        format!(
            "{}: there is no sys/devices/system/node in it, nor proc/meminfo",
            folder.display()
        ),
        "name a folder that `interleaf doctor --capture DIR` made",
    ))
}

/// Fails if `root` is a captured machine, because no command can run on it.
///
/// # Errors
/// When `root` is a captured machine.
pub fn check_live(root: &Root) -> Result<(), Failure> {
    if root.is_live() {
        return Ok(());
    }
    Err(Failure::new(
        "nothing runs on a captured machine",
        "add --dry-run to a command to see what would be done there, or leave --root out",
    ))
}

/// Converts an error of reading a file of the kernel or of a captured machine to a failure with a
/// hint.
pub fn read_failure(why: RootError) -> Failure {
    let hint = if why.is_permission() {
        "run it as root, or read a captured machine with --root DIR"
    } else if why.is_refused() {
        "capture the machine again: interleaf doctor --capture DIR"
    } else {
        "report it, with the folder of `interleaf doctor --capture DIR`"
    };
    Failure::new(why.to_string(), hint)
}

/// Converts an error of changing or restoring a setting, or of writing the journal, to a failure
/// with a hint.
pub fn journal_failure(why: JournalError) -> Failure {
    let hint = match &why {
        JournalError::Held { .. } => {
            "weights are the whole machine's: wait until that process has ended, or use the same"
        }
        JournalError::Claimed { pid, .. } => {
            let hint = format!(
                "let one process steer them: end the other (kill {pid}), steer other processes \
                 or groups, or name in `[scope] protected` of one what the other steers"
            );
            return Failure::new(why.to_string(), hint);
        }
        JournalError::Untrusted { .. } => {
            "find the program that wrote there; then remove the folder, or make root its owner: \
             chown -R root \
             /run/interleaf; chmod 755 /run/interleaf"
        }
        JournalError::Unknown(_) => "report it: the kernel's setting has an unknown value",
        _ if why.is_permission() => "run it as root",
        JournalError::Keep { why, .. } if why.kind() == io::ErrorKind::StorageFull => {
            "make room in /run, and try again"
        }
        JournalError::Keep { .. } => {
            "/run/interleaf has to be a folder that can be written to: the journal in it \
             restores the settings after a crash"
        }
        JournalError::Absent { .. } | JournalError::Root(_) => {
            "`interleaf doctor` lists the features of this kernel"
        }
    };
    Failure::new(why.to_string(), hint)
}

/// Converts an error of registering signal handlers, or of starting a thread that waits for
/// signals, to a failure with a hint.
pub fn signal_failure(why: io::Error) -> Failure {
    Failure::new(
        format!("signals cannot be held: {why}"),
        "the limit of open files or of processes may be reached: ulimit -a",
    )
}

/// Converts an error of starting a command to a failure with a hint.
pub fn start_failure(why: StartError) -> Failure {
    use std::io::ErrorKind;
    let hint = match &why {
        StartError::Command { why, .. } if why.kind() == ErrorKind::WouldBlock => {
            "the limit of processes is reached: ulimit -u"
        }
        StartError::Command { why, .. } if why.kind() == ErrorKind::ArgumentListTooLong => {
            "give it fewer arguments or a smaller environment: getconf ARG_MAX"
        }
        StartError::Command { .. } => {
            "name a program that is there and may be run; options of \
             `interleaf` stand before it"
        }
        StartError::Policy { why, .. } if why.kind() == ErrorKind::PermissionDenied => {
            "something filters the call set_mempolicy; a container needs --cap-add SYS_NICE"
        }
        StartError::Policy { .. } => {
            "the nodes may have gone, or a cpuset may not have them: `interleaf show`, `grep Mems \
             /proc/self/status`"
        }
    };
    Failure::new(why.to_string(), hint)
}

/// Converts an error of waiting for a command to a failure with a hint.
pub fn wait_failure(why: io::Error) -> Failure {
    Failure::new(format!("the command cannot be waited for: {why}"), "see whether it still runs")
}

/// Converts an error of migrating pages to a failure with a hint.
pub fn migrate_failure(why: MigrateError) -> Failure {
    if let MigrateError::Read(why) = why {
        return read_failure(why);
    }
    let hint = why.hint();
    Failure::new(why.to_string(), hint)
}
