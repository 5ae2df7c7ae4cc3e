//! The state of this library in the process, and functions that enclose the library's own work
//! ([`inside`]): during this work signals are blocked, and allocations do not use the pager.
//! [`crate::start`] sets the state.

use interleaf_pager::{pager::Pager, serve::fault_server::is_fault_server};
use libc::c_int;
use std::{
    cell::Cell,
    fmt,
    path::PathBuf,
    ptr,
    sync::{
        Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicBool, AtomicI32, AtomicPtr, AtomicUsize, Ordering::*},
    },
};

/// The least size of an allocation from the pager, bytes. Smaller allocations, which are the
/// majority, are passed on, mostly to the C library, without an access to the pager or to a
/// thread-local variable. The value is the C library's threshold for `mmap(2)`
/// (`M_MMAP_THRESHOLD` of `mallopt(3)`).
pub(crate) const BYTES_MIN: usize = 128 << 10;

/// Total size of the program's allocations of at least [`BYTES_MIN`] bytes that did not come from
/// the pager and were not freed yet, bytes.
pub(crate) static UNEXTENDED: AtomicUsize = AtomicUsize::new(0);

/// The state of an extended process: large allocations of the process come from the pager.
pub(crate) struct Extended {
    pub(crate) pager: Pager,
    /// An allocation of at least [`BYTES_MIN`] comes from the pager if it has at least `bytes_min`
    /// bytes, or if [`UNEXTENDED`] is at least `bytes_min` bytes.
    pub(crate) bytes_min: usize,
    /// The folder of the session, if shared memory is extended.
    pub(crate) shared_folder: Option<PathBuf>,
}

pub(crate) static EXTENDED: OnceLock<Option<Extended>> = OnceLock::new();

/// Held by a thread while it starts the pager, forks, or changes the credentials of the pager's
/// threads. The lock keeps a child from inheriting a start that is half done.
static STARTING: Mutex<()> = Mutex::new(());

thread_local! {
    /// Number of nested calls of [`enter`]. Above 0, the thread does work of this library itself.
    static DEPTH: Cell<u32> = const { Cell::new(0) };

    /// The signals that the thread had blocked before this library's work began.
    static MASK: Cell<u64> = const { Cell::new(0) };
}

/// The process that owns the address space. The value is in a page of its own, which the kernel
/// fills with zeros in a child of `fork(2)`. A child of `vfork(2)` shares the page with its parent,
/// and therefore finds its parent's PID in the page.
pub(crate) struct Process {
    /// The PID of the process; 0 in a child that has not stored its own PID yet
    /// ([`shares_memory`]).
    pid: AtomicI32,
    /// True if no lock of this library can be held by a thread that exists only in the parent
    /// ([`set_unlocked`]).
    is_unlocked: AtomicBool,
}

/// The address of the page that holds the [`Process`] of this address space.
pub(crate) static PROCESS: AtomicPtr<Process> = AtomicPtr::new(ptr::null_mut());

/// True if a handler of SIGBUS handles the page faults of extended memory; SIGBUS must then never
/// be blocked.
static SERVES_IN_SIGNAL: AtomicBool = AtomicBool::new(false);

pub(crate) fn set_serves_in_signal(serves: bool) {
    SERVES_IN_SIGNAL.store(serves, Relaxed);
}

pub(crate) fn serves_in_signal() -> bool {
    SERVES_IN_SIGNAL.load(Relaxed)
}

/// Returns `mask`, a set of signals to block, without SIGBUS if a handler of SIGBUS handles faults.
fn blockable(mask: u64) -> u64 {
    if serves_in_signal() { mask & !(1 << (libc::SIGBUS - 1)) } else { mask }
}

/// True if this process uses the memory of another process, as a child of `vfork(2)` does until it
/// calls `execve(2)`. Such a child must not start a pager, which would belong to the other process.
/// The first call in a process stores the PID of the process.
pub(crate) fn shares_memory() -> bool {
    // SAFETY: the page that holds the `Process` is never unmapped.
    let Some(process) = (unsafe { PROCESS.load(Acquire).as_ref() }) else { return false };
    let own = rustix::process::getpid().as_raw_nonzero().get();
    match process.pid.compare_exchange(0, own, AcqRel, Acquire) {
        Ok(_) => false,
        Err(pid) => pid != own,
    }
}

/// Records that no lock of this library is held by a thread that exists only in the parent. This is
/// true at the start of this library, and in a child that was forked while the forking thread held
/// all locks.
pub(crate) fn set_unlocked() {
    // SAFETY: the page that holds the `Process` is never unmapped.
    if let Some(process) = unsafe { PROCESS.load(Acquire).as_ref() } {
        process.is_unlocked.store(true, Relaxed);
    }
}

/// True in a child that the program forked by a raw system call, which runs no handlers of
/// `pthread_atfork(3)`: a thread that exists only in the parent may hold a lock of this library for
/// ever. The function only reads memory, because each `munmap(2)` of the program calls it.
pub(crate) fn may_be_locked() -> bool {
    // SAFETY: the page that holds the `Process` is never unmapped.
    let process = unsafe { PROCESS.load(Acquire).as_ref() };
    process.is_some_and(|process| !process.is_unlocked.load(Relaxed))
}

/// Prints a message to stderr. Takes no lock, unlike `eprintln`.
pub(crate) fn print(text: fmt::Arguments<'_>) {
    // The message is lost if the write fails, for example because stderr is closed.
    let _ = rustix::io::write(rustix::stdio::stderr(), format!("interleaf: {text}\n").as_bytes());
}

/// Runs work of this library. Allocations of the work do not come from the pager. Signals are
/// blocked during the work, because a handler could wait for a lock that the interrupted thread
/// holds. Only the signals of faults ([`FAULTS`]) are not blocked.
pub(crate) fn inside<T>(work: impl FnOnce() -> T) -> T {
    let mask = enter();
    let outcome = work();
    exit(mask);
    outcome
}

/// Begins work of this library: blocks all signals except those of faults. Returns the signals that
/// were blocked before this library's work began. A nested call does not change the signal mask.
pub(crate) fn enter() -> u64 {
    if DEPTH.get() == 0 {
        MASK.set(block_all());
    }
    DEPTH.set(DEPTH.get() + 1);
    MASK.get()
}

/// Ends the work that [`enter`] began. If the work is not nested in other work of this library, the
/// thread's signal mask becomes `mask` again, the value that [`enter`] returned.
pub(crate) fn exit(mask: u64) {
    DEPTH.set(DEPTH.get() - 1);
    if DEPTH.get() == 0 {
        set_mask(blockable(mask));
    }
}

/// Begins a thread of this library: blocks the signals in `mask` in the calling thread, whose work
/// is from now on work of this library.
pub(crate) fn begin_thread(mask: u64) {
    set_mask(mask);
    MASK.set(mask);
    DEPTH.set(1);
}

/// Runs `work` under the program's own signal mask, so that the program's signal handlers are not
/// delayed. `work` is a part of this library's work that may take long and holds no lock.
pub(crate) fn interruptible<T>(work: impl FnOnce() -> T) -> T {
    set_mask(blockable(MASK.get()));
    let outcome = work();
    block_all();
    outcome
}

/// The signal `SIGSETXID`, which the C library reserves for itself ([`crate::credentials`]).
pub(crate) const SIGSETXID: c_int = 33;

/// The bit of `SIGSETXID` in the kernel's signal set.
pub(crate) const SIGSETXID_BIT: u64 = 1 << (SIGSETXID - 1);

/// Signals that an instruction of the thread itself causes.
const FAULTS: [c_int; 6] =
    [libc::SIGBUS, libc::SIGSEGV, libc::SIGILL, libc::SIGFPE, libc::SIGTRAP, libc::SIGSYS];

/// Blocks all signals in the calling thread, also those that the C library reserves, but not the
/// signals of faults. Returns the signals that were blocked before.
pub(crate) fn block_all() -> u64 {
    change_mask(!FAULTS.iter().fold(0, |all, signal| all | 1_u64 << (signal - 1)), libc::SIG_BLOCK)
}

/// Blocks the signals in `mask` and no others, in the calling thread.
pub(crate) fn set_mask(mask: u64) {
    change_mask(mask, libc::SIG_SETMASK);
}

fn change_mask(mask: u64, how: c_int) -> u64 {
    let mut before = 0_u64;
    // SAFETY: the call reads and writes one signal set of 8 bytes, the kernel's size, and cannot
    // fail.
    unsafe {
        let (new, old) = (&raw const mask, &raw mut before);
        libc::syscall(libc::SYS_rt_sigprocmask, how, new, old, size_of::<u64>());
    }
    before
}

/// True if the calling thread does work of this library ([`inside`]), or is the pager's thread that
/// handles faults.
pub(crate) fn is_inside() -> bool {
    DEPTH.get() > 0 || is_fault_server()
}

/// Locks [`STARTING`]. While the guard is held, no other thread starts the pager, forks, or changes
/// the credentials of the pager's threads.
pub(crate) fn hold_start() -> MutexGuard<'static, ()> {
    STARTING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Counts an unextended allocation of the program in [`UNEXTENDED`] if it has at least
/// [`BYTES_MIN`] bytes, and publishes the total in the session's ledger. Allocations of this
/// library are not counted.
pub(crate) fn count_unextended(bytes: usize) {
    if bytes >= BYTES_MIN && !is_inside() {
        add_unextended(bytes);
    }
}

/// Adds `bytes`, the size of unextended allocations, to the total [`UNEXTENDED`], and publishes the
/// total in the session's ledger.
pub(crate) fn add_unextended(bytes: usize) {
    let total = UNEXTENDED.fetch_add(bytes, Relaxed) + bytes;
    if let Some(pager) = pager() {
        pager.publish_unextended(total as u64);
    }
}

/// Subtracts the size of an unextended block, `bytes`, from the total [`UNEXTENDED`] when the
/// program frees the block. Does nothing for a block that `count_unextended` has not counted.
pub(crate) fn uncount_block(bytes: usize) {
    if bytes >= BYTES_MIN && !is_inside() {
        subtract_unextended(bytes);
    }
}

/// Subtracts `bytes`, the size of unextended allocations, from the total [`UNEXTENDED`].
pub(crate) fn subtract_unextended(bytes: usize) {
    if bytes > 0 {
        // The total stops at 0, because allocations before the start of this library were not
        // counted.
        let _ =
            UNEXTENDED.fetch_update(Relaxed, Relaxed, |total| Some(total.saturating_sub(bytes)));
    }
}

/// Returns the pager if it runs and serves this process; otherwise `None`.
pub(crate) fn pager() -> Option<&'static Pager> {
    let pager = &EXTENDED.get()?.as_ref()?.pager;
    pager.is_served().then_some(pager)
}

/// Returns the pager if its address range contains `address`, even if the pager does not serve this
/// process; otherwise `None`.
pub(crate) fn pager_of(address: usize) -> Option<&'static Pager> {
    let pager = &EXTENDED.get()?.as_ref()?.pager;
    pager.contains(address).then_some(pager)
}

/// Returns the pager if its address range overlaps the `bytes` bytes at `address` and it serves
/// this process; otherwise `None`. Also `None` in the pager's thread that handles faults, because
/// this thread would wait for itself.
pub(crate) fn pager_over(address: usize, bytes: usize) -> Option<&'static Pager> {
    let pager = &EXTENDED.get()?.as_ref()?.pager;
    let all = pager.addresses();
    let is_over = address < all.end && address.saturating_add(bytes) > all.start;
    (is_over && pager.is_served() && !is_fault_server()).then_some(pager)
}
