//! Runs computations without the GIL. Ctrl-C ends a computation, and a panic becomes a Python
//! exception.
//!
//! Python runs signal handlers only on its main thread, and only while that thread holds the GIL.
//! Therefore a long computation runs on a separate thread. The calling thread waits for the result,
//! and takes the GIL twenty times a second to run signal handlers and to report progress. If a
//! handler raises an exception, the calling thread sets a flag and returns at once. The computation
//! sees the flag at its next step, and ends.

use crate::error;
use interleaf_console::Failure;
use interleaf_job::Progress;
use pyo3::{exceptions::PyRuntimeError, prelude::*};
use rayon::{ThreadPool, ThreadPoolBuilder};
use std::{
    collections::BTreeMap,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
        mpsc::{self, RecvTimeoutError},
    },
    thread,
    time::Duration,
};

/// Interval at which the calling thread takes the GIL to run Python's signal handlers.
pub(crate) const SIGNAL_CHECK: Duration = Duration::from_millis(50);

/// The state that a computation shares with its caller: the progress, and a flag by which the
/// caller stops the computation.
#[derive(Debug, Default)]
pub(crate) struct Steps {
    stop: AtomicBool,
    done: AtomicU64,
    all: AtomicU64,
    task: Mutex<String>,
}

impl Progress for Steps {
    fn begin(&self, steps: u64, task: &str) {
        self.done.store(0, Ordering::Relaxed);
        self.all.store(steps, Ordering::Relaxed);
        self.describe(task);
    }

    fn describe(&self, task: &str) {
        *self.task.lock().unwrap_or_else(PoisonError::into_inner) = task.into();
    }

    fn advance(&self, steps: u64) {
        self.done.fetch_add(steps, Ordering::Relaxed);
    }

    fn end(&self) {
        self.done.store(self.all.load(Ordering::Relaxed), Ordering::Relaxed);
    }

    fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

impl Steps {
    /// Calls `callback` with the number of completed steps, the number of all steps, and the name
    /// of the task.
    pub(crate) fn report(&self, py: Python<'_>, callback: Option<&Py<PyAny>>) -> PyResult<()> {
        let Some(callback) = callback else { return Ok(()) };
        let task = self.task.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let (done, all) = (self.done.load(Ordering::Relaxed), self.all.load(Ordering::Relaxed));
        callback.call1(py, (done, all, task)).map(drop)
    }
}

/// Runs `compute`, which takes at most milliseconds, without the GIL, while the calling thread
/// waits. `compute` runs in this process's own thread pool, and not in rayon's global pool: the
/// threads of the global pool do not exist in a forked child, which would wait for them forever.
pub(crate) fn short<T: Send>(
    py: Python<'_>,
    compute: impl FnOnce() -> Result<T, Failure> + Send,
) -> PyResult<T> {
    let pool = pool()?;
    let done = py.detach(|| catch_unwind(AssertUnwindSafe(|| pool.install(compute))));
    match done {
        Ok(result) => result.map_err(|why| error::exception(py, why)),
        Err(panic) => Err(error::defect(&*panic)),
    }
}

/// Runs `compute` on a separate thread. Every [`SIGNAL_CHECK`], and at the end, calls `callback`
/// with the number of completed steps, the number of all steps and the name of the task. If a
/// signal handler or `callback` raises an exception, returns early with this exception.
pub(crate) fn long<T: Send + 'static>(
    py: Python<'_>,
    callback: Option<Py<PyAny>>,
    compute: impl FnOnce(&Steps) -> Result<T, Failure> + Send + 'static,
) -> PyResult<T> {
    part(py, &Arc::default(), callback.as_ref(), compute)
}

/// Runs `compute`, one part of a computation, like [`long`]. All parts share `steps`, the progress.
pub(crate) fn part<T: Send + 'static>(
    py: Python<'_>,
    steps: &Arc<Steps>,
    callback: Option<&Py<PyAny>>,
    compute: impl FnOnce(&Steps) -> Result<T, Failure> + Send + 'static,
) -> PyResult<T> {
    let pool = pool()?;
    let (sender, mut receiver) = mpsc::sync_channel(1);
    let own = Arc::clone(steps);
    let work = move || {
        let done = catch_unwind(AssertUnwindSafe(|| pool.install(|| compute(&own))));
        // If the calling thread has returned early, `send` fails, and the result is dropped.
        let _ = sender.send(done);
    };
    let spawned = thread::Builder::new().name("interleaf".into()).spawn(work);
    spawned.map_err(|why| PyRuntimeError::new_err(format!("no thread can be started: {why}")))?;
    loop {
        let waiting = &mut receiver;
        match py.detach(move || waiting.recv_timeout(SIGNAL_CHECK)) {
            Ok(Ok(result)) => {
                steps.report(py, callback)?;
                return result.map_err(|why| error::exception(py, why));
            }
            Ok(Err(panic)) => return Err(error::defect(&*panic)),
            Err(RecvTimeoutError::Timeout) => {
                if let Err(why) = py.check_signals().and_then(|()| steps.report(py, callback)) {
                    steps.stop.store(true, Ordering::Relaxed);
                    return Err(why);
                }
            }
            Err(RecvTimeoutError::Disconnected) => {
                return Err(PyRuntimeError::new_err("the thread of the computation has ended"));
            }
        }
    }
}

/// Returns the thread pool of this process. The first call creates it. A forked child does not have
/// its parent's threads, so each process has a pool of its own.
fn pool() -> PyResult<Arc<ThreadPool>> {
    static POOLS: Mutex<BTreeMap<u32, Arc<ThreadPool>>> = Mutex::new(BTreeMap::new());
    let mut pools = POOLS.lock().unwrap_or_else(PoisonError::into_inner);
    let process = std::process::id();
    if let Some(pool) = pools.get(&process) {
        return Ok(Arc::clone(pool));
    }
    let built = ThreadPoolBuilder::new().thread_name(|at| format!("interleaf-{at}")).build();
    let pool = built.map_err(|why| PyRuntimeError::new_err(format!("no threads: {why}")))?;
    let pool = Arc::new(pool);
    // Keep the pools of ancestor processes: they have no threads in this process, and dropping a
    // pool would wait for its threads.
    pools.insert(process, Arc::clone(&pool));
    Ok(pool)
}
