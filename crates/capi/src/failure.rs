//! Errors of the C functions: the status that a call returns, and the message that the calling
//! thread can ask for.

use libc::{c_char, c_int};
use std::{cell::RefCell, ffi::CString, io};

thread_local! {
    static MESSAGE: RefCell<CString> = RefCell::default();
}

/// The errors that a C function may return: the values of `interleaf_status` except `INTERLEAF_OK`.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Status {
    BadArgument = 1,
    NoPermission = 2,
    Unsupported = 3,
    NoMemory = 4,
    Store = 5,
}

/// The status and the message of a failed call.
#[derive(Debug)]
pub(crate) struct Failure {
    status: Status,
    message: String,
}

impl Failure {
    pub(crate) fn new(status: Status, why: impl AsRef<str>, hint: impl AsRef<str>) -> Self {
        Self { status, message: format!("{}\nhint: {}", why.as_ref(), hint.as_ref()) }
    }

    pub(crate) fn argument(why: impl AsRef<str>, hint: impl AsRef<str>) -> Self {
        Self::new(Status::BadArgument, why, hint)
    }

    /// Returns the failure of `interleaf_open` if the pager cannot start. `why` is the error of the
    /// start.
    pub(crate) fn start(why: &io::Error) -> Self {
        let text = format!("the pager does not start: {why}");
        match why.kind() {
            io::ErrorKind::PermissionDenied => {
                let hint = "it needs userfaultfd for faults of the kernel too: CAP_SYS_PTRACE, or \
                            sysctl vm.unprivileged_userfaultfd=1";
                Self::new(Status::NoPermission, text, hint)
            }
            io::ErrorKind::OutOfMemory => {
                let hint = "the budget is memory that is there from the start: give it less, or \
                            fewer addresses";
                Self::new(Status::NoMemory, text, hint)
            }
            _ if matches!(why.raw_os_error(), Some(libc::EMFILE | libc::ENFILE)) => {
                let hint = "raise the limit of open files: ulimit -n, or sysctl fs.file-max";
                Self::new(Status::Unsupported, text, hint)
            }
            _ => Self::new(Status::Unsupported, text, "Linux 6.8 or later has what it needs"),
        }
    }
}

/// Runs `does`, the body of a C function, and returns the status of the call: 0 on success. On
/// failure, stores the message for [`message`].
pub(crate) fn answer(does: impl FnOnce() -> Result<(), Failure>) -> c_int {
    let Err(failure) = does() else { return 0 };
    let text = CString::new(failure.message.replace('\0', " ")).unwrap_or_default();
    MESSAGE.with(|message| *message.borrow_mut() = text);
    failure.status as c_int
}

/// Returns the message of the last failed call in this thread.
pub(crate) fn message() -> *const c_char {
    MESSAGE.with(|message| message.borrow().as_ptr())
}
