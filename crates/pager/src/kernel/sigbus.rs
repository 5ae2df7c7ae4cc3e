//! Faults that are served in the thread that takes them: in a handler of SIGBUS, which the kernel
//! raises instead of telling the pager's thread (`UFFD_FEATURE_SIGBUS`). What is in DRAM already
//! costs no change of threads then; for all else the thread asks the pager's, and waits.
//!
//! The kernel raises no signal of its own touches: a system call that meets a page that is not
//! there fails with `EFAULT`. And it ends a program of which a thread has SIGBUS blocked. So this
//! is for who wants it.
//!
//! A handler interrupts a thread anywhere, with any lock held, those of the allocator among them.
//! What is in here may be called there because
//!
//! - it allocates nothing and frees nothing: a thread that maps an extent by itself only marks it
//!   ([`Cache::try_map`](crate::cache::Cache::try_map)), moves it, and leaves a note where there is room
//!   for one since the start; what follows from it is decided by the pager's thread;
//! - it waits for no lock: of the worker's it only tries to get hold, and who does not asks and
//!   waits for the pager's thread, as all do without this. That one never waits for who waits for
//!   it: a handler holds the lock for a few system calls, in which nothing interrupts it, as all
//!   signals are blocked;
//! - it touches no region, and uses no variable of a thread but `errno`, which it puts back;
//! - a pager goes only when no handler is in here for it any more ([`unregister`]).

#![expect(unsafe_code, reason = "a handler of signals, and what the kernel gives it")]

use crate::{
    kernel::uffd::Fault,
    page::{PAGE_BYTES, Page},
    pager::Kernel,
    serve::fault_server::Worker,
};
use rustix::thread::{futex, gettid};
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

/// So many pagers of a process may serve in signals.
const PAGERS: usize = 16;

/// So many threads wait at the same time; others try again until one goes on.
const WAITING: usize = 512;

/// So often a lock is tried that is held for a moment as a rule, as long as what has been taken is
/// looked at: some ten microseconds, which is less than to be put to sleep and woken.
const TRIES: u32 = 1000;

/// Codes of a SIGBUS: `BUS_ADRERR` of `asm-generic/siginfo.h`. One of a page that was lost has
/// another.
const ADDRESS: i32 = 2;

/// All signals, those that the C library keeps to itself among them.
const ALL: u64 = u64::MAX;

const SIGBUS_BIT: u64 = 1 << (libc::SIGBUS - 1);

/// What a handler needs of a pager.
pub(crate) struct Served {
    /// All that regions can have.
    pub(crate) addresses: Range<usize>,
    pub(crate) kernel: Arc<Kernel>,
    pub(crate) worker: Arc<Mutex<Worker>>,
    pub(crate) waiting: Arc<Waiting>,
}

/// What has come of a thread's own try.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The page is there.
    Here,
    /// It is, and the pager's thread has something to do.
    Noted,
    /// It takes the pager's thread.
    Ask,
}

/// Threads that wait for the pager's.
#[derive(Debug)]
pub(crate) struct Waiting {
    slots: [Slot; WAITING],
    /// How many have asked and were not looked at, and how many wait.
    asked: AtomicU32,
    count: AtomicU32,
}

#[derive(Debug)]
struct Slot {
    state: AtomicU32,
    thread: AtomicU32,
    /// The address of the page, and in its lowest bit whether it is written to.
    address: AtomicUsize,
}

/// States of a slot: nobody has it, somebody does, it was asked for a page and that was seen, the
/// page is there, the address is none of ours.
const FREE: u32 = 0;
const MINE: u32 = 1;
const ASKED: u32 = 2;
const SEEN: u32 = 3;
const DONE: u32 = 4;
const DENIED: u32 = 5;

impl Default for Waiting {
    fn default() -> Self {
        let slot = || Slot {
            state: AtomicU32::new(FREE),
            thread: AtomicU32::new(0),
            address: AtomicUsize::new(0),
        };
        Self {
            slots: std::array::from_fn(|_| slot()),
            asked: AtomicU32::new(0),
            count: AtomicU32::new(0),
        }
    }
}

impl Waiting {
    /// Waits until a page is there, and says whether it is one of ours.
    fn ask(&self, kernel: &Kernel, fault: Fault) -> bool {
        let free = |slot: &&Slot| slot.state.compare_exchange(FREE, MINE, Acquire, Relaxed).is_ok();
        let slot = loop {
            match self.slots.iter().find(free) {
                Some(slot) => break slot,
                None => thread::yield_now(),
            }
        };
        slot.thread.store(fault.thread, Relaxed);
        let at = fault.address + usize::from(fault.offset);
        slot.address.store(at & !1 | usize::from(fault.is_write), Relaxed);
        slot.state.store(ASKED, Release);
        self.count.fetch_add(1, SeqCst);
        self.asked.fetch_add(1, SeqCst);
        kernel.call();
        let is_ours = loop {
            match slot.state.load(Acquire) {
                DONE => break true,
                DENIED => break false,
                // Whatever wakes it up, it looks again.
                waits => drop(futex::wait(&slot.state, futex::Flags::PRIVATE, waits, None)),
            }
        };
        self.count.fetch_sub(1, SeqCst);
        slot.state.store(FREE, Release);
        is_ours
    }

    /// What was asked for since this was asked last.
    pub(crate) fn faults(&self) -> Vec<Fault> {
        if self.asked.load(SeqCst) == 0 {
            return vec![];
        }
        let mut faults = vec![];
        for slot in &self.slots {
            if slot.state.compare_exchange(ASKED, SEEN, Acquire, Relaxed).is_ok() {
                self.asked.fetch_sub(1, SeqCst);
                let address = slot.address.load(Relaxed);
                let (thread, is_write) = (slot.thread.load(Relaxed), address & 1 == 1);
                faults.push(Fault::at(address & !1, is_write, thread));
            }
        }
        faults
    }

    /// Lets those go on who wait for pages at these addresses: they are there, or are none of ours.
    pub(crate) fn wake(&self, addresses: &Range<usize>, are_ours: bool) {
        if self.count.load(SeqCst) == 0 {
            return;
        }
        let outcome = if are_ours { DONE } else { DENIED };
        for slot in &self.slots {
            let is_seen = slot.state.load(Acquire) == SEEN;
            if is_seen && addresses.contains(&(slot.address.load(Relaxed) & !1)) {
                slot.state.store(outcome, Release);
                let _ = futex::wake(&slot.state, futex::Flags::PRIVATE, 1);
            }
        }
    }
}

/// A place for a pager, and how many handlers look at it.
struct Entry {
    served: AtomicPtr<Served>,
    users: AtomicU32,
}

static ENTRIES: [Entry; PAGERS] =
    [const { Entry { served: AtomicPtr::new(ptr::null_mut()), users: AtomicU32::new(0) } }; PAGERS];

/// Where a pager is known to handlers.
#[derive(Debug)]
pub(crate) struct Place(usize);

/// Has faults of a pager served in the threads that take them.
///
/// # Errors
/// When the handler cannot be, or there are too many pagers.
pub(crate) fn register(served: Served) -> io::Result<Place> {
    install()?;
    let served = Box::into_raw(Box::new(served));
    let is_free = |entry: &Entry| {
        entry.served.compare_exchange(ptr::null_mut(), served, SeqCst, Relaxed).is_ok()
    };
    ENTRIES.iter().position(is_free).map(Place).ok_or_else(|| {
        // SAFETY: it was just made, and nobody has seen it.
        drop(unsafe { Box::from_raw(served) });
        io::Error::other(format!("more than {PAGERS} pagers serve faults in signals"))
    })
}

/// The same for a child that was forked, in place of what the parent had.
pub(crate) fn replace(place: &Place, served: Served) {
    let entry = &ENTRIES[place.0];
    // Who was in a handler of the parent is not here. What the parent had may be locked, and is
    // left as it is.
    entry.served.store(Box::into_raw(Box::new(served)), SeqCst);
    entry.users.store(0, SeqCst);
}

/// Ends that. Who still waits for a page gets the signal as if this were not there.
pub(crate) fn unregister(place: &Place) {
    let entry = &ENTRIES[place.0];
    let served = entry.served.swap(ptr::null_mut(), SeqCst);
    if served.is_null() {
        return;
    }
    // SAFETY: it was made by `register` or `replace`, and whoever takes it out has it.
    let served = unsafe { Box::from_raw(served) };
    while entry.users.load(SeqCst) > 0 {
        drop(served.waiting.faults());
        served.waiting.wake(&served.addresses, false);
        thread::yield_now();
    }
}

/// Serves a fault, and says whether it was one of ours.
fn serve(address: usize, is_write: bool) -> bool {
    ENTRIES.iter().any(|entry| {
        if entry.served.load(Relaxed).is_null() {
            return false;
        }
        entry.users.fetch_add(1, SeqCst);
        // SAFETY: as long as it is there and we are counted, nobody drops it.
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
        match self.try_alone(fault) {
            Outcome::Here => true,
            Outcome::Noted => {
                self.kernel.call();
                true
            }
            Outcome::Ask => self.waiting.ask(&self.kernel, fault),
        }
    }

    fn try_alone(&self, fault: Fault) -> Outcome {
        for _ in 0..TRIES {
            match self.worker.try_lock() {
                Ok(mut worker) => return worker.take(self.page(fault.address), fault),
                Err(TryLockError::WouldBlock) => hint::spin_loop(),
                // It has failed, and so will the program.
                Err(TryLockError::Poisoned(_)) => break,
            }
        }
        Outcome::Ask
    }

    const fn page(&self, address: usize) -> Page {
        ((address - self.addresses.start) / PAGE_BYTES) as Page
    }
}

/// What the program wants to be done about a SIGBUS that is not ours. Its parts may be read while
/// they change: each handler is called with all arguments, so that any mixture can be.
struct Own {
    handler: AtomicUsize,
    flags: AtomicI32,
    mask: AtomicU64,
}

static OWN: Own = Own {
    handler: AtomicUsize::new(libc::SIG_DFL),
    flags: AtomicI32::new(0),
    mask: AtomicU64::new(0),
};

static IS_INSTALLED: AtomicBool = AtomicBool::new(false);

fn install() -> io::Result<()> {
    if IS_INSTALLED.swap(true, SeqCst) {
        return Ok(());
    }
    // SAFETY: all zeros is an action, and the handler is one that may be called whenever.
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
        set_own_action(Some(&before));
    }
    Ok(())
}

/// Has the program's action for SIGBUS be this from now on, for what is not ours, and says what it
/// was.
pub fn set_own_action(action: Option<&libc::sigaction>) -> libc::sigaction {
    // SAFETY: all zeros is an action, and sets of signals begin with the signals that the kernel
    // knows.
    let mut before: libc::sigaction = unsafe { std::mem::zeroed() };
    before.sa_sigaction = OWN.handler.load(SeqCst);
    before.sa_flags = OWN.flags.load(SeqCst);
    set_mask(&mut before.sa_mask, OWN.mask.load(SeqCst));
    if let Some(action) = action {
        OWN.mask.store(mask(&action.sa_mask), SeqCst);
        OWN.flags.store(action.sa_flags, SeqCst);
        OWN.handler.store(action.sa_sigaction, SeqCst);
    }
    before
}

/// Takes SIGBUS out of a set of signals, and says whether it was in it.
pub const fn spare(set: &mut libc::sigset_t) -> bool {
    let all = mask(set);
    set_mask(set, all & !SIGBUS_BIT);
    all & SIGBUS_BIT != 0
}

const fn mask(set: &libc::sigset_t) -> u64 {
    // SAFETY: it begins with the signals that the kernel knows, one bit each.
    unsafe { *ptr::from_ref(set).cast::<u64>() }
}

const fn set_mask(set: &mut libc::sigset_t, mask: u64) {
    // SAFETY: as of `mask`.
    unsafe { *ptr::from_mut(set).cast::<u64>() = mask }
}

/// Blocks these signals and no others in the calling thread.
fn block(mask: u64) {
    let size = size_of::<u64>();
    let none = ptr::null_mut::<u64>();
    // SAFETY: it reads one set of the size that the kernel has.
    unsafe {
        libc::syscall(libc::SYS_rt_sigprocmask, libc::SIG_SETMASK, &raw const mask, none, size);
    }
}

extern "C" fn on_sigbus(
    signal: libc::c_int,
    info: *mut libc::siginfo_t,
    context: *mut libc::c_void,
) {
    // SAFETY: the kernel gives all of it; each thread has its own number of an error.
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

/// Whether what was interrupted wanted to write; `false` where the processor's state does not say,
/// which costs a look at the content later.
///
/// # Safety
/// The kernel gave the context.
#[cfg(target_arch = "x86_64")]
unsafe fn is_write(context: *const libc::ucontext_t) -> bool {
    // SAFETY: by the caller. The second bit of the error of a page fault is that.
    unsafe { (*context).uc_mcontext.gregs[libc::REG_ERR as usize] & 2 != 0 }
}

#[cfg(not(target_arch = "x86_64"))]
unsafe fn is_write(_: *const libc::ucontext_t) -> bool {
    false
}

/// Does with a signal what the program wants, as if nobody had been in between.
///
/// # Safety
/// All is as the kernel gave it, and nothing of the caller's is needed any more: the program may
/// jump away.
unsafe fn pass_on(signal: libc::c_int, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    let (handler, flags) = (OWN.handler.load(SeqCst), OWN.flags.load(SeqCst));
    // SAFETY: by the caller, and it is the program that says what is a handler.
    unsafe {
        // One that somebody has sent, and that is not due to what the thread does.
        let is_sent = (*info).si_code <= 0;
        match handler {
            libc::SIG_IGN if is_sent => {}
            libc::SIG_DFL | libc::SIG_IGN => {
                // The kernel's own structure: all zeros are the default.
                let (action, none) = ([0_u64; 4], ptr::null_mut::<u64>());
                libc::syscall(libc::SYS_rt_sigaction, signal, &raw const action, none, 8);
                // The thread does the same again, and ends; or it is sent once more.
                if is_sent {
                    libc::raise(signal);
                }
            }
            _ => {
                if flags & libc::SA_RESETHAND != 0 {
                    OWN.handler.store(libc::SIG_DFL, SeqCst);
                }
                let interrupted = mask(&(*context.cast::<libc::ucontext_t>()).uc_sigmask);
                // It may touch what only this handler can bring.
                block((interrupted | OWN.mask.load(SeqCst)) & !SIGBUS_BIT);
                let handler: extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void) =
                    std::mem::transmute(handler);
                handler(signal, info, context);
            }
        }
    }
}
