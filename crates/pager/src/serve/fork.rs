//! A process that forks: its child has the same memory, as of then, and a pager of its own.
//!
//! Pages in frames belong to one process. So before a fork all of them leave the address space, and
//! what has changed is stored; parent and child then bring in what they touch, each into its own
//! frames, and write what they change to places of their own ([`crate::store::Store::fork`]).

#![expect(unsafe_code, reason = "descriptors of a parent are closed by number")]

use crate::{
    cache::{Cache, Counts},
    kernel::{frames::Frames, memory},
    pager::{Kernel, Pager, Request, Shared, lock},
    ranges::Ranges,
    reply::{self, Receiver, Sender},
    serve::{
        arena::{Arena, Owner},
        fault_server::Worker,
    },
    session::ledger::Seat,
    store::Born,
};
use rustix::{mm::Advice, process::getpid};
use std::{
    io,
    mem::{self, ManuallyDrop},
    ops::Range,
    os::fd::{AsFd, AsRawFd},
    sync::{Arc, MutexGuard, PoisonError, RwLockWriteGuard, atomic::Ordering},
};

/// A fork that the worker waits for.
#[derive(Debug)]
pub(crate) struct Freeze {
    /// What a child begins with, when nothing is in the address space any more.
    pub(crate) frozen: Sender<io::Result<Child>>,
    /// Told, or gone, when the worker goes on.
    pub(crate) thaw: Receiver<()>,
}

/// What a child begins with.
pub(crate) struct Child {
    pub(crate) cache: Cache,
    pub(crate) store: Born,
}

impl std::fmt::Debug for Child {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Child")
    }
}

/// What becomes of pages in a child.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Inherit {
    /// They are not there.
    Not,
    /// They are zeros.
    Wiped,
}

/// A process between the moment when it is ready to fork and the moment when it has.
#[derive(Debug)]
pub struct Fork<'a> {
    pager: &'a Pager,
    child: io::Result<Child>,
    /// Never dropped in a child: the worker of the parent, which the child has not, may hold what
    /// is inside.
    thaw: ManuallyDrop<Sender<()>>,
    arena: MutexGuard<'a, Arena>,
    /// Nobody is to have them while the process forks: in the child nobody would let go of them.
    asked: MutexGuard<'a, Vec<Request>>,
    _counts: MutexGuard<'a, Counts>,
    seat: MutexGuard<'a, Option<Arc<Seat>>>,
    _pinned: MutexGuard<'a, Ranges<()>>,
    inherit: MutexGuard<'a, Ranges<Inherit>>,
    kernel: RwLockWriteGuard<'a, Arc<Kernel>>,
}

impl Pager {
    /// Whether this process is the one whose memory it is: one that was made by a system call
    /// behind the library's back is not.
    pub fn is_served(&self) -> bool {
        self.shared.process.load(Ordering::Relaxed) == getpid().as_raw_nonzero().get()
    }

    /// Says what becomes of pages in a child; `None` as of all others, which are as they are here.
    pub fn set_inherit(&self, pages: &Range<usize>, inherit: Option<Inherit>) {
        lock(&self.shared.inherit).set(&self.shared.pages(pages), inherit);
    }

    /// Makes ready for a fork, which follows at once. Nobody touches regions until it has been
    /// said that it has happened.
    pub fn before_fork(&self) -> Fork<'_> {
        let (frozen, is_frozen) = reply::channel();
        let (thaw, is_thawed) = reply::channel();
        self.shared.ask(Request::Freeze(Freeze { frozen, thaw: is_thawed }));
        let child = is_frozen.receive().unwrap_or_else(|| Err(io::ErrorKind::BrokenPipe.into()));
        let Shared { arena, asked, counts, seat, pinned, inherit, kernel, .. } = &*self.shared;
        let fork = Fork {
            pager: self,
            child,
            thaw: ManuallyDrop::new(thaw),
            arena: lock(arena),
            asked: lock(asked),
            _counts: lock(counts),
            seat: lock(seat),
            _pinned: lock(pinned),
            inherit: lock(inherit),
            kernel: kernel.write().unwrap_or_else(PoisonError::into_inner),
        };
        if fork.child.is_ok() {
            fork.advise(Advice::LinuxDoFork);
        }
        fork
    }
}

impl Fork<'_> {
    /// Advises all addresses but those that are the kernel's, or that a child has not.
    fn advise(&self, advice: Advice) {
        let shared = &self.pager.shared;
        for addresses in own(&self.arena, shared) {
            // SAFETY: advice of these kinds changes no content.
            let _ = unsafe { memory::advise(&addresses, advice) };
        }
        for (pages, inherit) in self.inherit.iter() {
            if inherit == Inherit::Not {
                // SAFETY: as above.
                let _ = unsafe { memory::advise(&shared.addresses(&pages), Advice::LinuxDontFork) };
            }
        }
    }

    /// It has happened, and this is the parent; or it has failed.
    pub fn in_parent(self) {
        self.advise(Advice::LinuxDontFork);
        // The worker has ended, and so has the process.
        ManuallyDrop::into_inner(self.thaw).send(());
    }

    /// It has happened, and this is the child.
    ///
    /// # Errors
    /// When the child cannot have the memory, which is not there then.
    pub fn in_child(mut self) -> io::Result<()> {
        let shared = &self.pager.shared;
        let fds = [self.kernel.faults.as_fd().as_raw_fd(), self.kernel.called.as_raw_fd()];
        for request in &mut *self.asked {
            // Who asked is a thread that the child has not.
            if let Request::Discard(_, done) = request {
                mem::forget(mem::replace(done, reply::channel().0));
            }
        }
        let child = mem::replace(&mut self.child, Err(io::ErrorKind::Other.into()))?;
        self.advise(Advice::LinuxDontFork);
        let Child { mut cache, store } = child;
        for (pages, inherit) in self.inherit.iter() {
            if inherit == Inherit::Wiped {
                cache.reset_to_zeros(&pages);
            }
        }
        // The slot of the parent is not the child's.
        if let Some((seat, part)) = self.seat.as_ref().map(|seat| seat.child()).transpose()? {
            let seat = Arc::new(seat);
            *self.seat = Some(Arc::clone(&seat));
            shared.follow(seat)?;
            cache.resize(u32::try_from(part).unwrap_or(u32::MAX));
        }
        let frames = Frames::new(cache.settings().frames)?;
        let kernel = Arc::new(Kernel::new(own(&self.arena, shared), &frames, shared.by)?);
        // The worker of the parent has it too, and will never let go of it here.
        mem::forget(mem::replace(&mut *self.kernel, Arc::clone(&kernel)));
        for fd in fds {
            // SAFETY: they were the parent's, and nobody here uses them any more.
            unsafe { rustix::io::close(fd) };
        }
        let worker = Worker::new(Arc::clone(shared), kernel, frames, cache, store()?)?;
        shared.process.store(getpid().as_raw_nonzero().get(), Ordering::Relaxed);
        self.pager.replace_worker(worker)
    }
}

/// The addresses of a reservation that the program has mapped nothing else at.
fn own(arena: &Arena, shared: &Shared) -> Vec<Range<usize>> {
    let mut own: Vec<Range<usize>> = vec![];
    for (piece, owner) in arena.pieces(shared.memory.addresses()) {
        match own.last_mut().filter(|last| last.end == piece.start) {
            _ if owner == Owner::Foreign => {}
            Some(last) => last.end = piece.end,
            None => own.push(piece),
        }
    }
    own
}
