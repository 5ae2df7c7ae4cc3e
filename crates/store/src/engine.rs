//! Engines that carry out the transfers of a store: by `io_uring(7)`, or by threads.

#![expect(unsafe_code, reason = "the kernel is handed addresses of frames")]

use super::{Job, PIECES_MAX, Piece, descriptor};
use interleaf_thread::{
    self as thread, Thread,
    channel::{self, Sender},
};
use io_uring::{IoUring, opcode, squeue, types};
use rustix::{
    event::{EventfdFlags, eventfd},
    io::Errno,
};
use std::{
    collections::{HashMap, VecDeque},
    io,
    os::fd::{AsFd, AsRawFd, BorrowedFd, IntoRawFd as _, OwnedFd, RawFd},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

/// A job's token, and the job's result: the number of transferred bytes, or the error.
pub type JobResult = (u64, Result<usize, Errno>);

/// Carries out jobs (transfers of one file) and timers.
pub trait Engine: Send {
    /// Starts a job.
    ///
    /// # Safety
    /// Until the job is done, the file `job.file` is open, and the memory of `job.pieces` is
    /// mapped. No other code writes to this memory. If the job is a read, no other code uses the
    /// memory at all.
    unsafe fn push(&mut self, token: u64, job: &Job);

    /// Starts a timer: after `time`, [`Engine::done`] reports `token` with 0 bytes.
    fn wait(&mut self, token: u64, time: Duration);

    /// Submits all jobs that `Engine::push` has started, and all timers.
    ///
    /// # Errors
    /// When the engine can submit no jobs any more.
    fn submit(&mut self) -> io::Result<()>;

    /// True if a job may have finished since the last call of [`Engine::done`].
    fn has_done(&mut self) -> bool;

    /// Appends the results of finished jobs and of ended timers to `outcomes`.
    fn done(&mut self, outcomes: &mut Vec<JobResult>);

    /// A descriptor that is readable while finished jobs or timers wait for [`Engine::done`].
    fn ready(&self) -> BorrowedFd<'_>;

    /// Descriptors of the engine that a forked child would inherit and must close.
    fn inherited(&self) -> Vec<RawFd>;
}

/// Number of entries in the submission queue of a ring. Further requests wait in `Ring::waiting`.
const DEPTH: u32 = 256;

/// Number of entries in the completion queue of a ring. For further completions, the kernel
/// allocates overflow entries.
const COMPLETIONS: u32 = 4096;

/// An engine that uses `io_uring(7)`.
pub struct Ring {
    ring: IoUring,
    /// Entries that did not fit into the submission queue; the next `submit` queues them.
    waiting: VecDeque<squeue::Entry>,
    /// The I/O vectors of each job, keyed by the token of the job. The kernel reads the vectors
    /// when it takes the job's entry from the queue; the vectors are dropped when the job is done.
    pieces: HashMap<u64, IoVectors>,
    /// The time of each running timer, keyed by the timer's token. The kernel reads the time in
    /// this memory.
    times: HashMap<u64, Box<types::Timespec>>,
}

/// Moves the ring to a descriptor with a protected number, which calls of the program cannot close
/// or replace ([`descriptor`]).
fn protected_ring(ring: IoUring) -> io::Result<IoUring> {
    // SAFETY: the descriptor is open, because `ring` owns it.
    let fd = unsafe { BorrowedFd::borrow_raw(ring.as_raw_fd()) }.try_clone_to_owned()?;
    let (fd, params) = (descriptor::protected(fd), ring.params().clone());
    drop(ring);
    // SAFETY: the descriptor refers to the ring with these parameters. The ring has no requests
    // yet.
    unsafe { IoUring::from_fd(fd.into_raw_fd(), params) }
}

/// The I/O vectors of a transfer: an array of `iovec`, which the kernel reads.
struct IoVectors(Vec<libc::iovec>);

// SAFETY: the vectors contain addresses, which this type does not dereference.
unsafe impl Send for IoVectors {}

impl IoVectors {
    fn new(pieces: &[Piece]) -> Self {
        debug_assert!(pieces.len() <= PIECES_MAX);
        let piece = |piece: &Piece| libc::iovec {
            iov_base: piece.address as *mut libc::c_void,
            iov_len: piece.bytes,
        };
        Self(pieces.iter().map(piece).collect())
    }
}

impl Ring {
    /// Makes a ring. By default, the kernel completes a request in the thread that has submitted
    /// it, and interrupts the program code of this thread to do so. With
    /// `IORING_SETUP_COOP_TASKRUN` (Linux 5.19) the kernel waits for the thread's next system call
    /// instead. (`IORING_SETUP_DEFER_TASKRUN` is not used: the kernel would wait for
    /// `io_uring_enter(2)`, and would not wake a thread in `poll(2)`.)
    ///
    /// # Errors
    /// When the kernel has no `io_uring`, or forbids it (`kernel.io_uring_disabled`, seccomp).
    pub fn new() -> io::Result<Self> {
        let mut cooperative = IoUring::builder();
        cooperative.setup_coop_taskrun().setup_taskrun_flag().setup_cqsize(COMPLETIONS);
        let plain = || IoUring::builder().setup_cqsize(COMPLETIONS).build(DEPTH);
        let ring = protected_ring(cooperative.build(DEPTH).or_else(|_| plain())?)?;
        let (pieces, times) = (HashMap::new(), HashMap::new());
        Ok(Self { ring, waiting: VecDeque::new(), pieces, times })
    }

    /// Completes finished requests. With `IORING_SETUP_COOP_TASKRUN`, the kernel posts a completion
    /// only in a system call of the thread that has submitted the request. This function makes such
    /// a call.
    fn run_deferred(&mut self) {
        if self.ring.submission().taskrun() {
            // If the call fails, the next call of this function completes the requests.
            let _ = self.ring.submit();
        }
    }

    fn add(&mut self, entry: squeue::Entry) {
        // SAFETY: the callers of `push` guarantee that the memory of a transfer is mapped until the
        // transfer is done. Until then, `pieces` keeps its I/O vectors, or `times` the time of a
        // timer.
        let is_full = |ring: &mut IoUring| unsafe { ring.submission().push(&entry) }.is_err();
        if !self.waiting.is_empty() || is_full(&mut self.ring) {
            self.waiting.push_back(entry);
        }
    }

    fn under_way(&self) -> usize {
        self.pieces.len() + self.times.len()
    }
}

impl Engine for Ring {
    unsafe fn push(&mut self, token: u64, job: &Job) {
        let pieces = IoVectors::new(&job.pieces);
        let (fd, first, count) = (types::Fd(job.file), pieces.0.as_ptr(), pieces.0.len() as u32);
        let entry = if job.is_write {
            opcode::Writev::new(fd, first, count).offset(job.offset).build()
        } else {
            opcode::Readv::new(fd, first, count).offset(job.offset).build()
        };
        self.pieces.insert(token, pieces);
        self.add(entry.user_data(token));
    }

    fn wait(&mut self, token: u64, time: Duration) {
        let time = Box::new(types::Timespec::from(time));
        let entry = opcode::Timeout::new(&raw const *time).build().user_data(token);
        self.times.insert(token, time);
        self.add(entry);
    }

    fn submit(&mut self) -> io::Result<()> {
        let queue = self.ring.submission();
        // Avoid the system call if no entry is queued, and no completion waits in the kernel for
        // room in the completion queue.
        if queue.is_empty() && !queue.cq_overflow() && self.waiting.is_empty() {
            return Ok(());
        }
        drop(queue);
        loop {
            match self.ring.submit() {
                Ok(_) => {}
                Err(why) => match why.raw_os_error() {
                    Some(libc::EINTR) => continue,
                    // The kernel has no room for more requests until completions are read. `done`
                    // reads them, and the next `submit` tries again.
                    Some(libc::EBUSY | libc::EAGAIN) => return Ok(()),
                    _ => return Err(why),
                },
            }
            let Some(entry) = self.waiting.pop_front() else { return Ok(()) };
            let mut next = Some(entry);
            while let Some(entry) = next {
                // SAFETY: the entry was passed to `add`, whose guarantees still hold: until the
                // transfer is done, its memory is mapped, `pieces` keeps the I/O vectors, and
                // `times` the time of a timer.
                if unsafe { self.ring.submission().push(&entry) }.is_err() {
                    self.waiting.push_front(entry);
                    break;
                }
                next = self.waiting.pop_front();
            }
        }
    }

    fn has_done(&mut self) -> bool {
        self.ring.submission().taskrun() || !self.ring.completion().is_empty()
    }

    fn done(&mut self, outcomes: &mut Vec<JobResult>) {
        self.run_deferred();
        for entry in self.ring.completion() {
            let (token, result) = (entry.user_data(), entry.result());
            let is_time = self.times.remove(&token).is_some();
            self.pieces.remove(&token);
            let result = match usize::try_from(result) {
                _ if is_time => Ok(0),
                Ok(bytes) => Ok(bytes),
                Err(_) => Err(Errno::from_raw_os_error(-result)),
            };
            outcomes.push((token, result));
        }
    }

    fn ready(&self) -> BorrowedFd<'_> {
        // SAFETY: `self.ring` owns the descriptor, and lives as long as the returned value.
        unsafe { BorrowedFd::borrow_raw(self.ring.as_raw_fd()) }
    }

    fn inherited(&self) -> Vec<RawFd> {
        Vec::from([self.ring.as_raw_fd()])
    }
}

impl Drop for Ring {
    /// Waits for all outstanding jobs, because the owner of their memory may reuse it after the
    /// drop. Returns early if the kernel refuses to wait.
    fn drop(&mut self) {
        let _ = self.submit();
        while self.under_way() > 0 {
            match self.ring.submit_and_wait(1).map_err(|why| why.raw_os_error()) {
                Ok(_) | Err(Some(libc::EINTR)) => {}
                // The kernel has no room for more requests until completions are read.
                Err(Some(libc::EBUSY | libc::EAGAIN)) => std::thread::yield_now(),
                Err(_) => return,
            }
            self.done(&mut vec![]);
        }
    }
}

/// Number of threads. It is also the maximum number of simultaneous transfers and timers, because a
/// timer is a thread that sleeps.
const THREADS: usize = 8;

/// An engine without `io_uring`. Each of its threads carries out one transfer after another.
pub struct Threads {
    jobs: Option<Sender<Task>>,
    threads: Vec<Thread>,
    done: Arc<Mutex<Vec<JobResult>>>,
    ready: Arc<OwnedFd>,
}

enum Task {
    Do(u64, Job),
    Wait(u64, Duration),
}

impl Threads {
    /// Starts the threads, which wait for jobs.
    ///
    /// # Errors
    /// When a thread cannot be started.
    pub fn new() -> io::Result<Self> {
        let (jobs, todo) = channel::channel::<Task>();
        let done = Arc::new(Mutex::new(vec![]));
        let ready = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let ready = Arc::new(descriptor::protected(ready));
        let start = |_| {
            let (todo, done, ready) = (todo.clone(), Arc::clone(&done), Arc::clone(&ready));
            let work = move || {
                while let Some(task) = todo.receive() {
                    let outcome = match task {
                        Task::Do(token, job) => (token, transfer(&job)),
                        Task::Wait(token, time) => {
                            std::thread::sleep(time);
                            (token, Ok(0))
                        }
                    };
                    done.lock().unwrap_or_else(PoisonError::into_inner).push(outcome);
                    let _ = rustix::io::write(&*ready, &1_u64.to_ne_bytes());
                }
            };
            thread::spawn("pager-drive", work)
        };
        let threads = (0..THREADS).map(start).collect::<io::Result<_>>()?;
        Ok(Self { jobs: Some(jobs), threads, done, ready })
    }

    fn send(&self, task: Task) {
        if let Some(jobs) = &self.jobs {
            // The send succeeds: the threads receive tasks until this value is dropped.
            jobs.send(task);
        }
    }
}

fn transfer(job: &Job) -> Result<usize, Errno> {
    let pieces = IoVectors::new(&job.pieces);
    let (first, count) = (pieces.0.as_ptr(), pieces.0.len() as libc::c_int);
    let offset = job.offset as libc::off_t;
    // SAFETY: the caller of `push` guarantees that the file is open and the memory is mapped.
    let done = unsafe {
        if job.is_write {
            libc::pwritev(job.file, first, count, offset)
        } else {
            libc::preadv(job.file, first, count, offset)
        }
    };
    usize::try_from(done)
        .map_err(|_| Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::IO))
}

impl Engine for Threads {
    unsafe fn push(&mut self, token: u64, job: &Job) {
        self.send(Task::Do(token, job.clone()));
    }

    fn wait(&mut self, token: u64, time: Duration) {
        self.send(Task::Wait(token, time));
    }

    fn submit(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn has_done(&mut self) -> bool {
        !self.done.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }

    fn done(&mut self, outcomes: &mut Vec<JobResult>) {
        let _ = rustix::io::read(&*self.ready, &mut [0_u8; 8]);
        outcomes.append(&mut self.done.lock().unwrap_or_else(PoisonError::into_inner));
    }

    fn ready(&self) -> BorrowedFd<'_> {
        self.ready.as_fd()
    }

    fn inherited(&self) -> Vec<RawFd> {
        Vec::from([self.ready.as_raw_fd()])
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        self.jobs = None;
        for thread in self.threads.drain(..) {
            thread.join();
        }
    }
}
