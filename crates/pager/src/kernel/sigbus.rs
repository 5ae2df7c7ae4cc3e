//! Faults that the faulting thread serves itself, without the pager's thread, in a handler of
//! SIGBUS. With `UFFD_FEATURE_SIGBUS`, the kernel raises this signal instead of sending a message
//! to the pager's thread. A minor fault then costs no context switch. For all other faults the
//! thread queues a request for the pager's thread, and waits.
//!
//! This mode is an option because it has two limits. A system call that accesses a missing page
//! fails with `EFAULT`, because the kernel raises no signal for its own faults. A fault of a thread
//! that has SIGBUS blocked ends the program.
//!
//! A handler interrupts a thread anywhere, with any lock held, even one of the allocator. This code
//! may run in a handler for these reasons:
//!
//! - It allocates nothing and frees nothing. A thread that maps an extent only marks it
//!   ([`Cache::try_map`](crate::cache::Cache::try_map)), moves it, and appends it to a log of fixed
//!   capacity. The pager's thread handles the log.
//! - It waits for no lock: it only tries to lock the fault server. On failure it queues the fault
//!   and waits, as in thread mode. This causes no deadlock, because a handler holds the lock only
//!   for a few system calls, during which all signals are blocked.
//! - It touches no region, and uses no thread-local variable but `errno`, which it restores.
//! - A pager is dropped only when no handler uses it any more ([`unregister`]).

#![expect(unsafe_code, reason = "a handler of signals, and what the kernel gives it")]

use crate::kernel::{
    handle::FaultHandle,
    uffd::Fault,
    waiters::{MapOutcome, TryMap, Waiters},
};
use interleaf_prefetch::page::Page;
use interleaf_procfs::page::PAGE_BYTES;
use rustix::thread::gettid;
use std::{
    hint, io,
    ops::Range,
    ptr,
    sync::{
        Arc, Mutex, TryLockError,
        atomic::{
            AtomicBool, AtomicI32, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering::*,
        },
    },
    thread,
};

/// Maximum number of pagers of a process that serve faults in a signal handler.
const PAGERS: usize = 16;

/// Number of tries to lock the fault server before the thread queues its fault. The lock is usually
/// held only for a moment. All tries together take some ten microseconds, which is less than a
/// sleep and a wake-up take.
const TRIES: u32 = 1000;

/// `BUS_ADRERR` of `asm-generic/siginfo.h`, the code of a missing page. A poisoned page has another
/// code.
const ADDRESS: i32 = 2;

/// All signals, including those that the C library reserves.
const ALL: u64 = u64::MAX;

const SIGBUS_BIT: u64 = 1 << (libc::SIGBUS - 1);

/// The state of a pager that the handler of SIGBUS uses.
pub(crate) struct Served {
    /// The address range of all regions.
    pub(crate) addresses: Range<usize>,
    pub(crate) handle: Arc<FaultHandle>,
    pub(crate) server: Arc<Mutex<dyn TryMap>>,
    pub(crate) waiters: Arc<Waiters>,
}

/// An entry for a pager, and the number of threads whose SIGBUS handler uses the entry.
struct Entry {
    served: AtomicPtr<Served>,
    users: AtomicU32,
}

static ENTRIES: [Entry; PAGERS] =
    [const { Entry { served: AtomicPtr::new(ptr::null_mut()), users: AtomicU32::new(0) } }; PAGERS];

/// The index of a pager's entry in `ENTRIES`.
#[derive(Debug)]
pub(crate) struct Registration(usize);

/// Serves faults of a pager in the faulting threads from now on.
///
/// # Errors
/// When the handler cannot be installed, or there are too many pagers.
pub(crate) fn register(served: Served) -> io::Result<Registration> {
    install()?;
    let served = Box::into_raw(Box::new(served));
    let is_free = |entry: &Entry| {
        entry.served.compare_exchange(ptr::null_mut(), served, SeqCst, Relaxed).is_ok()
    };
    ENTRIES.iter().position(is_free).map(Registration).ok_or_else(|| {
        // SAFETY: the value was just made, and was not published.
        drop(unsafe { Box::from_raw(served) });
        io::Error::other(format!("more than {PAGERS} pagers serve faults in signals"))
    })
}

/// Replaces the entry of the parent's pager by `served`, in a forked child.
pub(crate) fn replace(registration: &Registration, served: Served) {
    let entry = &ENTRIES[registration.0];
    // Threads of the parent that were in a handler do not exist in the child. The lock of the
    // parent's fault server may be held, so the parent's value is leaked.
    entry.served.store(Box::into_raw(Box::new(served)), SeqCst);
    entry.users.store(0, SeqCst);
}

/// Removes a pager. Threads that still wait for a page receive SIGBUS as if no handler existed.
pub(crate) fn unregister(registration: &Registration) {
    let entry = &ENTRIES[registration.0];
    let served = entry.served.swap(ptr::null_mut(), SeqCst);
    if served.is_null() {
        return;
    }
    // SAFETY: the value was made by `register` or `replace`, and the swap has made this thread its
    // owner.
    let served = unsafe { Box::from_raw(served) };
    while entry.users.load(SeqCst) > 0 {
        drop(served.waiters.faults());
        served.waiters.wake(&served.addresses, false);
        thread::yield_now();
    }
}

/// Serves a fault. Returns false when the address is in a region of no pager.
fn serve(address: usize, is_write: bool) -> bool {
    ENTRIES.iter().any(|entry| {
        if entry.served.load(Relaxed).is_null() {
            return false;
        }
        entry.users.fetch_add(1, SeqCst);
        // SAFETY: as long as the pointer is set and this thread is counted, the value is not
        // dropped.
        let served = unsafe { entry.served.load(SeqCst).as_ref() };
        let served = served.filter(|served| served.addresses.contains(&address));
        let is_ours = served.is_some_and(|served| served.serve(address, is_write));
        entry.users.fetch_sub(1, SeqCst);
        is_ours
    })
}

impl Served {
    fn serve(&self, address: usize, is_write: bool) -> bool {
        let thread = gettid().as_raw_nonzero().get().cast_unsigned();
        let fault = Fault::at(address, is_write, thread);
        match self.try_map(fault) {
            MapOutcome::Mapped => true,
            MapOutcome::MappedAndNotify => {
                self.handle.ring();
                true
            }
            MapOutcome::Defer => self.waiters.wait_for(&self.handle, fault),
        }
    }

    fn try_map(&self, fault: Fault) -> MapOutcome {
        for _ in 0..TRIES {
            match self.server.try_lock() {
                Ok(mut server) => return server.try_map(self.page(fault.address), fault),
                Err(TryLockError::WouldBlock) => hint::spin_loop(),
                // A panic has poisoned the lock: the fault server will end the program.
                Err(TryLockError::Poisoned(_)) => break,
            }
        }
        MapOutcome::Defer
    }

    const fn page(&self, address: usize) -> Page {
        ((address - self.addresses.start) / PAGE_BYTES) as Page
    }
}

/// The program's own action for SIGBUS. A reader may see a mixture of two actions: each handler is
/// called with all arguments, so any mixture works.
struct ProgramAction {
    handler: AtomicUsize,
    flags: AtomicI32,
    mask: AtomicU64,
}

static PROGRAM_ACTION: ProgramAction = ProgramAction {
    handler: AtomicUsize::new(libc::SIG_DFL),
    flags: AtomicI32::new(0),
    mask: AtomicU64::new(0),
};

static IS_INSTALLED: AtomicBool = AtomicBool::new(false);

fn install() -> io::Result<()> {
    if IS_INSTALLED.swap(true, SeqCst) {
        return Ok(());
    }
    // SAFETY: all zeros is a valid action, and the handler may interrupt any code.
    unsafe {
        let (mut action, mut before): (libc::sigaction, _) =
            (std::mem::zeroed(), std::mem::zeroed());
        action.sa_sigaction = on_sigbus as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_RESTART;
        set_mask(&mut action.sa_mask, ALL);
        if libc::sigaction(libc::SIGBUS, &raw const action, &raw mut before) != 0 {
            IS_INSTALLED.store(false, SeqCst);
            return Err(io::Error::last_os_error());
        }
        set_program_action(Some(&before));
    }
    Ok(())
}

/// Sets the program's own action for SIGBUS. This action handles signals that are not caused by a
/// fault in a region. Returns the former action.
pub fn set_program_action(action: Option<&libc::sigaction>) -> libc::sigaction {
    // SAFETY: all zeros is a valid action, and sets of signals begin with the kernel's signals.
    let mut before: libc::sigaction = unsafe { std::mem::zeroed() };
    before.sa_sigaction = PROGRAM_ACTION.handler.load(SeqCst);
    before.sa_flags = PROGRAM_ACTION.flags.load(SeqCst);
    set_mask(&mut before.sa_mask, PROGRAM_ACTION.mask.load(SeqCst));
    if let Some(action) = action {
        PROGRAM_ACTION.mask.store(mask(&action.sa_mask), SeqCst);
        PROGRAM_ACTION.flags.store(action.sa_flags, SeqCst);
        PROGRAM_ACTION.handler.store(action.sa_sigaction, SeqCst);
    }
    before
}

/// Removes SIGBUS from a set of signals. Returns true if the set contained SIGBUS.
pub const fn remove_sigbus(set: &mut libc::sigset_t) -> bool {
    let all = mask(set);
    set_mask(set, all & !SIGBUS_BIT);
    all & SIGBUS_BIT != 0
}

const fn mask(set: &libc::sigset_t) -> u64 {
    // SAFETY: a set begins with the kernel's signals, one bit each.
    unsafe { *ptr::from_ref(set).cast::<u64>() }
}

const fn set_mask(set: &mut libc::sigset_t, mask: u64) {
    // SAFETY: a set begins with the kernel's signals, one bit each.
    unsafe { *ptr::from_mut(set).cast::<u64>() = mask }
}

/// Blocks these signals and no others in the calling thread.
fn block(mask: u64) {
    let size = size_of::<u64>();
    let none = ptr::null_mut::<u64>();
    // SAFETY: the call reads one set of the kernel's size.
    unsafe {
        libc::syscall(libc::SYS_rt_sigprocmask, libc::SIG_SETMASK, &raw const mask, none, size);
    }
}

extern "C" fn on_sigbus(
    signal: libc::c_int,
    info: *mut libc::siginfo_t,
    context: *mut libc::c_void,
) {
    // SAFETY: the kernel passes valid arguments; each thread has its own `errno`.
    unsafe {
        let errno = libc::__errno_location();
        let before = *errno;
        let is_ours = (*info).si_code == ADDRESS
            && serve((*info).si_addr() as usize, is_write(context.cast()));
        *errno = before;
        if !is_ours {
            pass_on(signal, info, context);
        }
    }
}

/// True if the interrupted access was a write. `false` if the processor state does not tell: the
/// pager then compares the content to find whether the page is dirty.
///
/// # Safety
/// The kernel passed the context.
#[cfg(target_arch = "x86_64")]
unsafe fn is_write(context: *const libc::ucontext_t) -> bool {
    // SAFETY: the kernel passed the context. Bit 1 of a page fault's error code means a write.
    unsafe { (*context).uc_mcontext.gregs[libc::REG_ERR as usize] & 2 != 0 }
}

#[cfg(not(target_arch = "x86_64"))]
unsafe fn is_write(_: *const libc::ucontext_t) -> bool {
    false
}

/// Handles a signal by the program's own action, as if this handler did not exist.
///
/// # Safety
/// The kernel passed the arguments, and the caller needs no cleanup: the program may jump out of
/// its handler.
unsafe fn pass_on(signal: libc::c_int, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    let (handler, flags) = (PROGRAM_ACTION.handler.load(SeqCst), PROGRAM_ACTION.flags.load(SeqCst));
    // SAFETY: the kernel passed the arguments, and the handler is the program's.
    unsafe {
        // The signal was sent by `kill(2)` or a similar call, not caused by an access of the
        // thread.
        let is_sent = (*info).si_code <= 0;
        match handler {
            libc::SIG_IGN if is_sent => {}
            libc::SIG_DFL | libc::SIG_IGN => {
                // The kernel's own structure: all zeros are the default action.
                let (action, none) = ([0_u64; 4], ptr::null_mut::<u64>());
                libc::syscall(libc::SYS_rt_sigaction, signal, &raw const action, none, 8);
                // A fault repeats at the return, and ends the process. A sent signal does not
                // repeat, and is sent again here.
                if is_sent {
                    libc::raise(signal);
                }
            }
            _ => {
                if flags & libc::SA_RESETHAND != 0 {
                    PROGRAM_ACTION.handler.store(libc::SIG_DFL, SeqCst);
                }
                let interrupted = mask(&(*context.cast::<libc::ucontext_t>()).uc_sigmask);
                // The program's handler may fault on a region, so SIGBUS stays unblocked.
                block((interrupted | PROGRAM_ACTION.mask.load(SeqCst)) & !SIGBUS_BIT);
                let handler: extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void) =
                    std::mem::transmute(handler);
                handler(signal, info, context);
            }
        }
    }
}
