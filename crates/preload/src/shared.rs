//! Memory that this process shares with other processes of its session. Calls that change the
//! mappings of shared memory, such as `munmap(2)`, go to the kernel. After each call, this module
//! reports the change to the session's server for shared memory.

use crate::{
    errno, maps,
    state::{inside, may_be_locked, print},
};
use interleaf_pager::shared::{Client, Inheritance};
use libc::{c_int, c_void};
use std::{
    io,
    ops::Range,
    path::Path,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
};

/// The values of `MADV_COLLAPSE`, `MADV_GUARD_INSTALL` and `MADV_GUARD_REMOVE` in `linux/mman.h`.
const COLLAPSE: c_int = 25;
const GUARD_INSTALL: c_int = 102;
const GUARD_REMOVE: c_int = 103;

/// True if this process shares memory. Most processes do not, and need not wait for the lock of
/// [`CLIENT`].
static IS_SHARING: AtomicBool = AtomicBool::new(false);

static CLIENT: Mutex<Option<Client>> = Mutex::new(None);

fn client() -> MutexGuard<'static, Option<Client>> {
    CLIENT.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Maps `bytes` bytes of new shared memory in the session with the folder `folder`; `None` if the
/// memory cannot be extended.
pub(crate) fn map(folder: &Path, bytes: usize, protection: c_int) -> Option<*mut c_void> {
    inside(|| {
        let mut client = client();
        if client.is_none() {
            *client = Client::join(folder).map_err(report_once).ok();
            IS_SHARING.store(client.is_some(), Relaxed);
        }
        let mapped = client.as_mut()?.allocate(bytes, protection as u32);
        Some(mapped.map_err(report_once).ok()? as *mut c_void)
    })
}

/// Prints that shared memory is not extended, for the first error only.
fn report_once(why: io::Error) {
    static IS_REPORTED: AtomicBool = AtomicBool::new(false);
    if !IS_REPORTED.swap(true, Relaxed) {
        let pid = std::process::id();
        print(format_args!("process {pid}: shared memory is not extended: {why}"));
    }
}

/// True if shared memory is mapped at one of `addresses`. Always false in a child that the program
/// forked by a raw system call, because this library maps no shared memory in such a child.
pub(crate) fn overlaps(addresses: &Range<usize>) -> bool {
    IS_SHARING.load(Relaxed)
        && !may_be_locked()
        && inside(|| client().as_ref().is_some_and(|client| client.overlaps(addresses)))
}

/// Runs `kernel`, a system call that unmaps `addresses` or maps other memory at them. If `is_done`
/// is true for the result of `kernel`, reports the change to the server. The lock of [`CLIENT`] is
/// held until the report, so that no thread maps shared memory at these addresses before the server
/// knows of the change.
pub(crate) fn unmapped<T>(
    addresses: &Range<usize>,
    kernel: impl FnOnce() -> T,
    is_done: impl FnOnce(&T) -> bool,
) -> T {
    if addresses.is_empty() || !overlaps(addresses) {
        return kernel();
    }
    inside(|| {
        let mut client = client();
        let outcome = kernel();
        if let Some(client) = client.as_mut().filter(|_| is_done(&outcome)) {
            client.unmapped(addresses);
        }
        outcome
    })
}

/// Returns the result of `madvise(2)` for pages of shared memory; `None` if the kernel handles this
/// advice.
pub(crate) fn handle_advice(addresses: &Range<usize>, advice: c_int) -> Option<c_int> {
    let refusal = match advice {
        // `MADV_REMOVE` is refused, because it would drop pages without a message to the server.
        // Guards are refused as in private regions: with a userfaultfd, `MADV_GUARD_INSTALL` does
        // not return (Linux 6.18). Three kinds of advice are ignored: `MADV_DOFORK` would let a
        // child inherit the mapping, although this library maps shared memory in children itself;
        // `MADV_HUGEPAGE` and `MADV_COLLAPSE` would join pages to huge pages.
        libc::MADV_REMOVE => Some(libc::EOPNOTSUPP),
        GUARD_INSTALL | GUARD_REMOVE => Some(libc::EINVAL),
        libc::MADV_DOFORK | libc::MADV_HUGEPAGE | COLLAPSE => None,
        _ => return None,
    };
    overlaps(addresses).then(|| refusal.map_or(0, errno::failed))
}

/// A fork in progress. Holds the lock of [`CLIENT`], so that the child has consistent state.
pub(crate) struct Fork {
    client: MutexGuard<'static, Option<Client>>,
    /// The shared memory that the child must map again.
    inheritance: Option<Inheritance>,
}

impl Fork {
    pub(crate) fn before() -> Option<Self> {
        if !IS_SHARING.load(Relaxed) {
            return None;
        }
        let client = client();
        let mapped = maps::all().into_iter().map(|it| (it.addresses, it.protection));
        let inheritance = client.as_ref().map(|client| client.before_fork(mapped));
        Some(Self { client, inheritance })
    }

    /// Ends the fork in the child: maps the shared memory in the child.
    pub(crate) fn in_child(mut self) -> io::Result<()> {
        let Some((client, inheritance)) = self.client.take().zip(self.inheritance) else {
            return Ok(());
        };
        let (client, outcome) = client.in_child(inheritance);
        IS_SHARING.store(client.is_some(), Relaxed);
        *self.client = client;
        outcome
    }
}
