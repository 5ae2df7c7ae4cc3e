//! A handler of SIGBUS, by which a faulting thread handles its fault without the pager's thread.
//! With `UFFD_FEATURE_SIGBUS`, a fault raises this signal instead of sending a message to the
//! pager's thread. A minor fault then costs no context switch. For all other faults the thread
//! queues a request for the pager's thread, and waits.
//!
//! This mode is an option because it has two limits. A system call that accesses a missing page
//! fails with `EFAULT`, because the kernel raises no signal for its own faults. A fault of a thread
//! that has blocked SIGBUS ends the program.
//!
//! The handler may interrupt a thread at any instruction, while the thread holds any lock, even a
//! lock of the allocator. The handler is safe for these reasons:
//!
//! - The handler allocates and frees no memory. To map an extent, the handler marks the extent
//!   ([`Cache::try_map`](crate::cache::Cache::try_map)), moves the pages, and appends the extent to
//!   a log of fixed capacity. The pager's thread processes the log.
//! - The handler never blocks on a lock. It only tries to lock the fault server, and on failure
//!   queues the fault and waits for the pager's thread. The lock causes no deadlock, because a
//!   handler holds it only for a few system calls, during which all signals are blocked.
//! - The handler touches no region. The only thread-local variable that the handler uses is
//!   `errno`, which is restored.
//! - A pager is dropped only when no handler uses the pager any more ([`unregister`]).

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

/// Maximum number of pagers in signal mode of one process.
const PAGERS: usize = 16;

/// Number of tries to lock the fault server before the faulting thread queues its fault. Other
/// threads usually hold the lock only for a moment. All tries together take about ten microseconds,
/// less than it takes to block and to be woken.
const TRIES: u32 = 1000;

/// `BUS_ADRERR` of `asm-generic/siginfo.h`: the `si_code` of a fault on a missing page. A fault on
/// a poisoned page has the code `BUS_MCEERR_AR`; on a kernel without `CONFIG_MEMORY_FAILURE`, it
/// has the code `BUS_ADRERR` too.
const ADDRESS: i32 = 2;

/// The set of all signals, including the signals that the C library reserves for itself.
const ALL: u64 = u64::MAX;

const SIGBUS_BIT: u64 = 1 << (libc::SIGBUS - 1);

/// The state of a pager that the handler of SIGBUS uses.
pub(crate) struct Served {
    /// The address range that the pager reserves for regions.
    pub(crate) addresses: Range<usize>,
    pub(crate) handle: Arc<FaultHandle>,
    pub(crate) server: Arc<Mutex<dyn TryMap>>,
    pub(crate) waiters: Arc<Waiters>,
}

/// An entry of the table of pagers: the state of a pager (null if the entry is free), and the
/// number of threads that use the entry in a handler of SIGBUS.
struct Entry {
    served: AtomicPtr<Served>,
    users: AtomicU32,
}

static ENTRIES: [Entry; PAGERS] =
    [const { Entry { served: AtomicPtr::new(ptr::null_mut()), users: AtomicU32::new(0) } }; PAGERS];

/// The index of a pager's entry in `ENTRIES`.
#[derive(Debug)]
pub(crate) struct Registration(usize);

/// Registers a pager: from now on, faulting threads handle faults on its regions themselves.
///
/// # Errors
/// When the handler cannot be installed, or there are more than `PAGERS` pagers.
pub(crate) fn register(served: Served) -> io::Result<Registration> {
    install()?;
    let served = Box::into_raw(Box::new(served));
    let is_free = |entry: &Entry| {
        entry.served.compare_exchange(ptr::null_mut(), served, SeqCst, Relaxed).is_ok()
    };
    ENTRIES.iter().position(is_free).map(Registration).ok_or_else(|| {
        // SAFETY: the pointer is from `into_raw` above, and no entry holds it.
        drop(unsafe { Box::from_raw(served) });
        io::Error::other(format!("more than {PAGERS} pagers serve faults in signals"))
    })
}

/// In a forked child, replaces the state of the parent's pager in the table by `served`.
pub(crate) fn replace(registration: &Registration, served: Served) {
    let entry = &ENTRIES[registration.0];
    // Threads of the parent that were in a handler do not exist in the child, so the number of
    // users restarts at 0. The parent's state is leaked: a thread of the parent may have held the
    // lock of its fault server at the fork.
    entry.served.store(Box::into_raw(Box::new(served)), SeqCst);
    entry.users.store(0, SeqCst);
}

/// Removes the entry of a pager. Threads that still wait for a page of the pager then handle their
/// SIGBUS as if the pager had no handler.
pub(crate) fn unregister(registration: &Registration) {
    let entry = &ENTRIES[registration.0];
    let served = entry.served.swap(ptr::null_mut(), SeqCst);
    if served.is_null() {
        return;
    }
    // SAFETY: `register` or `replace` made the value by `Box::into_raw`, and after the swap only
    // this thread has the pointer.
    let served = unsafe { Box::from_raw(served) };
    while entry.users.load(SeqCst) > 0 {
        drop(served.waiters.faults());
        served.waiters.wake(&served.addresses, false);
        thread::yield_now();
    }
}

/// Handles a fault at an address: waits until the page is mapped. Returns false if no pager has a
/// region at this address, or if the page is poisoned.
fn serve(address: usize) -> bool {
    ENTRIES.iter().any(|entry| {
        if entry.served.load(Relaxed).is_null() {
            return false;
        }
        entry.users.fetch_add(1, SeqCst);
        // SAFETY: this thread was counted in `users` before it loads the pointer. `unregister`
        // first clears the pointer, and drops the value only when `users` is 0.
        let served = unsafe { entry.served.load(SeqCst).as_ref() };
        let served = served.filter(|served| served.addresses.contains(&address));
        let is_ours = served.is_some_and(|served| served.serve(address));
        entry.users.fetch_sub(1, SeqCst);
        is_ours
    })
}

impl Served {
    fn serve(&self, address: usize) -> bool {
        let thread = gettid().as_raw_nonzero().get().cast_unsigned();
        let fault = Fault::at(address, thread);
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

/// The program's own action for SIGBUS. The fields are stored one by one, so a reader may see a
/// mixture of two successive actions. Any mixture works, because each handler is called with all
/// three arguments of `SA_SIGINFO`.
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
    // SAFETY: all zeros is a valid action. `on_sigbus` may interrupt any code: it allocates nothing
    // and blocks on no lock.
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

/// Sets the program's own action for SIGBUS, and returns the former action. The program's action
/// handles each SIGBUS that is not caused by a fault on a missing page of a region. An example is
/// an access to a poisoned page.
pub fn set_program_action(action: Option<&libc::sigaction>) -> libc::sigaction {
    // SAFETY: all zeros is a valid `sigaction`.
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
    // SAFETY: `sigset_t` begins with the signal set of the kernel, one bit for each signal.
    unsafe { *ptr::from_ref(set).cast::<u64>() }
}

const fn set_mask(set: &mut libc::sigset_t, mask: u64) {
    // SAFETY: `sigset_t` begins with the signal set of the kernel, one bit for each signal.
    unsafe { *ptr::from_mut(set).cast::<u64>() = mask }
}

/// Sets the signal mask of the calling thread: the thread then blocks exactly the signals in
/// `mask`.
fn block(mask: u64) {
    let size = size_of::<u64>();
    let none = ptr::null_mut::<u64>();
    // SAFETY: the call reads one signal set of the kernel, which has 8 bytes.
    unsafe {
        libc::syscall(libc::SYS_rt_sigprocmask, libc::SIG_SETMASK, &raw const mask, none, size);
    }
}

extern "C" fn on_sigbus(
    signal: libc::c_int,
    info: *mut libc::siginfo_t,
    context: *mut libc::c_void,
) {
    // SAFETY: the kernel passes valid arguments to the handler. No other thread uses the `errno` of
    // this thread.
    unsafe {
        let errno = libc::__errno_location();
        let before = *errno;
        let is_ours = (*info).si_code == ADDRESS && serve((*info).si_addr() as usize);
        *errno = before;
        if !is_ours {
            pass_on(signal, info, context);
        }
    }
}

/// Carries out the program's own action for SIGBUS, as if the handler of this module did not exist.
/// Called for a SIGBUS that is not caused by a fault on a missing page of a region.
///
/// # Safety
/// The kernel passed the arguments, and the caller has nothing to clean up afterwards: the
/// program's handler may leave by `longjmp(3)` instead of returning.
unsafe fn pass_on(signal: libc::c_int, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    let (handler, flags) = (PROGRAM_ACTION.handler.load(SeqCst), PROGRAM_ACTION.flags.load(SeqCst));
    // SAFETY: the kernel passed the arguments, and the handler is a function that the program has
    // set for SIGBUS.
    unsafe {
        // True if `kill(2)` or a similar call sent the signal; false if an access to memory caused
        // it.
        let is_sent = (*info).si_code <= 0;
        match handler {
            libc::SIG_IGN if is_sent => {}
            libc::SIG_DFL | libc::SIG_IGN => {
                // The argument is the kernel's `struct sigaction`, not that of the C library: all
                // zeros mean `SIG_DFL`.
                let (action, none) = ([0_u64; 4], ptr::null_mut::<u64>());
                libc::syscall(libc::SYS_rt_sigaction, signal, &raw const action, none, 8);
                // After the return from the handler, a faulting access repeats, and ends the
                // process. A signal that was sent does not repeat, so it is raised again here.
                if is_sent {
                    libc::raise(signal);
                }
            }
            _ => {
                if flags & libc::SA_RESETHAND != 0 {
                    PROGRAM_ACTION.handler.store(libc::SIG_DFL, SeqCst);
                }
                let interrupted = mask(&(*context.cast::<libc::ucontext_t>()).uc_sigmask);
                // SIGBUS stays unblocked, because the program's handler may fault on a region.
                block((interrupted | PROGRAM_ACTION.mask.load(SeqCst)) & !SIGBUS_BIT);
                let handler: extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void) =
                    std::mem::transmute(handler);
                handler(signal, info, context);
            }
        }
    }
}
