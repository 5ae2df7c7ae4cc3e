//! Threads of the pager.
//!
//! As a rule they are those of the standard library. A program whose memory is extended without its
//! knowledge may make its first large allocation anywhere: while it holds the lock of the dynamic
//! loader (a constructor of a plug-in), a lock of its own allocator, or within a handler of a
//! signal. A thread of the standard library registers a thread-local destructor, for which the C
//! library takes the loader's lock, and `pthread_create(3)` allocates. Whoever starts such a pager
//! has its threads made another way ([`set_spawn`]). What runs in them uses no thread-local
//! variable that has a destructor, and so neither `std::sync::mpsc` ([`crate::reply`]) nor thread
//! handles.

use crate::serve::fault_server::without_signals;
use std::{io, sync::OnceLock, thread};

/// Waits for the end of a thread.
pub type Join = Box<dyn FnOnce() + Send>;

/// The function that a thread runs.
pub type Work = Box<dyn FnOnce() + Send>;

/// Starts a thread of this name, in which all signals are blocked.
pub type Spawn = fn(&str, Work) -> io::Result<Join>;

static SPAWN: OnceLock<Spawn> = OnceLock::new();

/// Has all threads of pagers in this process started by this function from now on.
pub fn set_spawn(spawn: Spawn) {
    // Set once, before the first thread starts.
    let _ = SPAWN.set(spawn);
}

/// A thread that was started.
pub(crate) struct Thread(Join);

impl Thread {
    /// Waits until it has ended.
    pub(crate) fn join(self) {
        (self.0)();
    }
}

impl std::fmt::Debug for Thread {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Thread")
    }
}

/// Starts a thread that no signal of the program disturbs.
pub(crate) fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> io::Result<Thread> {
    let spawn = SPAWN.get().copied().unwrap_or(spawn_std);
    spawn(name, Box::new(work)).map(Thread)
}

fn spawn_std(name: &str, work: Work) -> io::Result<Join> {
    let thread = without_signals(|| thread::Builder::new().name(name.into()).spawn(work))?;
    Ok(Box::new(move || drop(thread.join())))
}
