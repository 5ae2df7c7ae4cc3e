//! Threads and channels without thread-local destructors, for code that runs inside unmodified
//! programs; and the scheduling of such a thread.
//!
//! The standard library usually starts the pager's threads. An unmodified program with extended
//! memory is different: its first large allocation starts the pager, wherever that allocation is.
//! At that point the program may hold the lock of the dynamic loader (in a constructor of a
//! plug-in) or a lock of its own allocator, or run a signal handler. Starting a thread by the
//! standard library could then deadlock, for two reasons: the thread registers a thread-local
//! destructor, for which the C library takes the loader's lock, and `pthread_create(3)` allocates,
//! which takes the allocator's lock. So the library that is preloaded into the program starts the
//! pager's threads with a function of its own ([`set_spawn`]). For the same reason, the code of the
//! pager's threads uses no thread-local variable with a destructor: it does not use the thread
//! handles of the standard library, and uses [`channel`] in place of `std::sync::mpsc`.

#![expect(unsafe_code, reason = "signals are blocked by number")]

pub mod channel;

pub mod scheduling;

use std::{
    io, mem, ptr,
    sync::{Mutex, MutexGuard, OnceLock, PoisonError},
    thread,
};

/// A function that waits for the end of a thread.
pub type Join = Box<dyn FnOnce() + Send>;

/// The function that a thread runs.
pub type Work = Box<dyn FnOnce() + Send>;

/// A function that starts a thread with a name and a function to run. It returns a function that
/// waits for the thread's end. The thread blocks the signals of the program.
pub type Spawn = fn(&str, Work) -> io::Result<Join>;

static SPAWN: OnceLock<Spawn> = OnceLock::new();

/// Sets the function that starts all later threads of pagers in this process. Only the first call
/// has an effect.
pub fn set_spawn(spawn: Spawn) {
    // `set` fails if an earlier call has set a function. That function stays.
    let _ = SPAWN.set(spawn);
}

/// A thread that was started.
pub struct Thread(Join);

impl Thread {
    /// Waits until the thread has ended.
    pub fn join(self) {
        (self.0)();
    }
}

impl std::fmt::Debug for Thread {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Thread")
    }
}

/// Starts a thread that blocks all signals, so that it handles no signal of the program.
///
/// # Errors
/// When the system cannot start a thread.
pub fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> io::Result<Thread> {
    let spawn = SPAWN.get().copied().unwrap_or(spawn_std);
    spawn(name, Box::new(work)).map(Thread)
}

fn spawn_std(name: &str, work: Work) -> io::Result<Join> {
    let thread = block_signals(|| thread::Builder::new().name(name.into()).spawn(work))?;
    Ok(Box::new(move || drop(thread.join())))
}

/// Calls `work` while all signals of the calling thread are blocked. Afterwards, restores the
/// thread's signal mask.
fn block_signals<T>(work: impl FnOnce() -> T) -> T {
    // SAFETY: a signal set is an array of integers, for which zeroed memory is valid. The pointers
    // are to local variables.
    unsafe {
        let (mut all, mut before) = (mem::zeroed(), mem::zeroed());
        libc::sigfillset(&mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &all, &mut before);
        let outcome = work();
        libc::pthread_sigmask(libc::SIG_SETMASK, &before, ptr::null_mut());
        outcome
    }
}

/// Locks a mutex, even if a thread panicked while it held this mutex.
pub fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
