//! Starts the pager of a process, by the settings of its session.

use crate::{credentials, next, process, signal, thread};
use interleaf_pager::{
    kernel::thread::set_spawn,
    kernel::uffd::Faults,
    pager::Pager,
    serve::fault_server::is_worker,
    session::{ADDRESSES, Children, Session, VARIABLE},
};
use libc::c_int;
use std::{
    cell::Cell,
    fmt,
    path::{Path, PathBuf},
    ptr,
    sync::{
        Mutex, MutexGuard, Once, OnceLock, PoisonError,
        atomic::{AtomicI32, AtomicPtr, AtomicUsize, Ordering::*},
    },
    time::Duration,
};

/// Smaller allocations never reach the pager or a thread-local variable: most are. The value is the
/// C library's threshold for `mmap(2)` (`M_MMAP_THRESHOLD` of `mallopt(3)`).
const LEAST_BYTES: usize = 128 << 10;

/// A process that allocates less than this in all is not extended: a shell, or a launcher.
const BEGIN_BYTES: usize = 1 << 20;

/// Bytes of allocations that could be extended, and were not.
static LEFT: AtomicUsize = AtomicUsize::new(0);

/// Interval of polls for another process.
const PAUSE: Duration = Duration::from_millis(1);

/// The most polls for the PID of the session's first process.
const FIRST_PAUSES: u32 = 2000;

/// The state of an extended process.
struct Extend {
    pager: Pager,
    /// Smaller allocations are left to the C library.
    least: usize,
    /// The folder of the session, if shared memory is extended.
    shares: Option<PathBuf>,
}

static EXTEND: OnceLock<Option<Extend>> = OnceLock::new();

/// Held by the thread that starts the pager, and by a thread that forks: a child must not inherit a
/// start that is half done.
static STARTING: Mutex<()> = Mutex::new(());

thread_local! {
    /// Nesting depth of this library's own work in the thread.
    static DEPTH: Cell<u32> = const { Cell::new(0) };

    /// The signals that the thread had blocked before.
    static MASK: Cell<u64> = const { Cell::new(0) };
}

/// The process that owns the address space. The page is wiped in a child of `fork(2)` and unchanged
/// in a child of `vfork(2)`.
static PROCESS: AtomicPtr<AtomicI32> = AtomicPtr::new(ptr::null_mut());

/// `MADV_WIPEONFORK` of `linux/mman.h`.
const WIPE_ON_FORK: c_int = 18;

/// Initialisation: when the library is loaded, or at the first large allocation of a library that
/// is loaded before it. Every step that takes a lock of the C library happens here.
fn prepare() {
    static PREPARED: Once = Once::new();
    PREPARED.call_once(|| {
        // SAFETY: a new mapping changes no other memory, and the advice covers all of it.
        let page = unsafe {
            let (protection, flags) =
                (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
            let page = libc::syscall(libc::SYS_mmap, 0_usize, 4096, protection, flags, -1, 0);
            libc::syscall(libc::SYS_madvise, page, 4096, WIPE_ON_FORK);
            page
        };
        if page != -1 {
            PROCESS.store(page as *mut AtomicI32, Release);
        }
        inside(|| {
            shares_memory();
            next::find_fork();
            credentials::find();
            process::watch();
            thread::prepare();
            set_spawn(thread::spawn);
        });
    });
}

#[used]
#[unsafe(link_section = ".init_array")]
static CONSTRUCTOR: extern "C" fn() = {
    extern "C" fn construct() {
        prepare();
    }
    construct
};

/// Whether this process uses the memory of another, as a child of `vfork(2)` does until it calls
/// `execve(2)`: a pager started here would belong to the other process.
pub(crate) fn shares_memory() -> bool {
    // SAFETY: the page is never unmapped.
    let Some(process) = (unsafe { PROCESS.load(Acquire).as_ref() }) else { return false };
    let own = rustix::process::getpid().as_raw_nonzero().get();
    match process.compare_exchange(0, own, AcqRel, Acquire) {
        Ok(_) => false,
        Err(process) => process != own,
    }
}

/// Starts the pager as the environment says; `None` without a session, or after an error, which is
/// printed.
fn extend() -> Option<Extend> {
    let value = std::env::var_os(VARIABLE)?;
    match begin(Path::new(&value)) {
        Ok(extend) => extend,
        Err(why) => {
            let pid = std::process::id();
            tell(format_args!("{} ({pid}): its memory is not extended: {why}", name()));
            None
        }
    }
}

/// Prints a message. It takes no lock, unlike standard error of the standard library.
pub(crate) fn tell(text: fmt::Arguments<'_>) {
    // A failed write is ignored.
    let _ = rustix::io::write(rustix::stdio::stderr(), format!("interleaf: {text}\n").as_bytes());
}

fn begin(folder: &Path) -> Result<Option<Extend>, String> {
    let session = Session::open(folder).map_err(|why| why.to_string())?;
    let settings = &session.settings;
    if settings.children == Children::None && !is_first(&session)? {
        return Ok(None);
    }
    let seat = session.seat(&name())?;
    if settings.faults == Faults::Signal {
        signal::begin()?;
    }
    let (cache, store) = (session.cache()?, session.store()?);
    let pager = Pager::seated(cache, ADDRESSES, store, Some(seat), settings.faults);
    let pager = pager.map_err(|why| format!("userfaultfd: {why}"))?;
    pager.tell_left(LEFT.load(Relaxed) as u64);
    let least = usize::try_from(settings.min_alloc_bytes).unwrap_or(usize::MAX);
    let shares = settings.shared.then(|| session.folder().to_path_buf());
    Ok(Some(Extend { pager, least, shares }))
}

/// Whether this is the process that was started first. The starter records its PID at once, but the
/// process may allocate even sooner.
fn is_first(session: &Session) -> Result<bool, String> {
    for _ in 0..FIRST_PAUSES {
        if let Some(first) = session.board.first() {
            return Ok(first == std::process::id());
        }
        std::thread::sleep(PAUSE);
    }
    Err(format!(
        "who began the session {} does not say whom it started",
        session.folder().display()
    ))
}

/// The name of this process.
fn name() -> String {
    let name = std::fs::read_to_string("/proc/self/comm").unwrap_or_default();
    name.trim_end().to_string()
}

/// Runs work of this library: its allocations are not extended. Signals are blocked meanwhile,
/// since a handler could wait for a lock that its own thread holds; those of faults stay unblocked.
pub(crate) fn inside<T>(work: impl FnOnce() -> T) -> T {
    let mask = enter();
    let outcome = work();
    exit(mask);
    outcome
}

/// Begins work of this library and returns the signals that were blocked before; nested calls
/// change nothing.
pub(crate) fn enter() -> u64 {
    if DEPTH.get() == 0 {
        MASK.set(block_all());
    }
    DEPTH.set(DEPTH.get() + 1);
    MASK.get()
}

/// Ends the work that [`enter`] began.
pub(crate) fn exit(mask: u64) {
    DEPTH.set(DEPTH.get() - 1);
    if DEPTH.get() == 0 {
        set_mask(signal::spared(mask));
    }
}

/// Runs long work that holds no lock, under the program's own signal mask.
pub(crate) fn interruptible<T>(work: impl FnOnce() -> T) -> T {
    set_mask(signal::spared(MASK.get()));
    let outcome = work();
    block_all();
    outcome
}

/// Signals of faults.
const FAULTS: [c_int; 6] =
    [libc::SIGBUS, libc::SIGSEGV, libc::SIGILL, libc::SIGFPE, libc::SIGTRAP, libc::SIGSYS];

/// Blocks all signals in the calling thread but those of faults, including those that the C library
/// reserves. Returns the signals that were blocked before.
pub(crate) fn block_all() -> u64 {
    change_mask(!FAULTS.iter().fold(0, |all, signal| all | 1_u64 << (signal - 1)), libc::SIG_BLOCK)
}

/// Blocks these signals and no others.
pub(crate) fn set_mask(mask: u64) {
    change_mask(mask, libc::SIG_SETMASK);
}

fn change_mask(mask: u64, how: c_int) -> u64 {
    let mut before = 0_u64;
    // SAFETY: the call reads and writes one set of the kernel's size, and cannot fail.
    unsafe {
        let (new, old) = (&raw const mask, &raw mut before);
        libc::syscall(libc::SYS_rt_sigprocmask, how, new, old, size_of::<u64>());
    }
    before
}

/// Whether the calling thread runs code of this library.
pub(crate) fn is_inside() -> bool {
    DEPTH.get() > 0 || is_worker()
}

/// The pager for an allocation of this size.
pub(crate) fn pager_for(bytes: usize) -> Option<&'static Pager> {
    if bytes < LEAST_BYTES || is_inside() {
        return None;
    }
    let left = LEFT.load(Relaxed);
    if EXTEND.get().is_none() && bytes.max(left) < BEGIN_BYTES {
        return None;
    }
    let extend = match EXTEND.get() {
        Some(extend) => extend,
        None => start()?,
    };
    let extend = extend.as_ref()?;
    // Many small allocations count as a large one together.
    (bytes.max(left) >= extend.least && extend.pager.is_served()).then_some(&extend.pager)
}

/// Starts the pager, unless another thread does.
#[cold]
fn start() -> Option<&'static Option<Extend>> {
    prepare();
    if shares_memory() {
        return None;
    }
    inside(|| {
        let _starting = hold_start();
        Some(EXTEND.get_or_init(extend))
    })
}

/// While this guard is held, no thread starts the pager, forks or changes the user.
pub(crate) fn hold_start() -> MutexGuard<'static, ()> {
    STARTING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The folder of the session, if a shared allocation of this size is extended.
pub(crate) fn shares(bytes: usize) -> Option<&'static Path> {
    pager_for(bytes)?;
    let extend = EXTEND.get()?.as_ref().filter(|extend| bytes >= extend.least)?;
    extend.shares.as_deref()
}

/// Counts an allocation that is not extended.
pub(crate) fn leave(bytes: usize) {
    if bytes >= LEAST_BYTES && !is_inside() {
        let left = LEFT.fetch_add(bytes, Relaxed) + bytes;
        if let Some(pager) = pager() {
            pager.tell_left(left as u64);
        }
    }
}

/// Counts the end of an allocation that was not extended.
pub(crate) fn give_back(bytes: usize) {
    if bytes >= LEAST_BYTES && !is_inside() {
        // Allocations before this library's start were not counted.
        let _ = LEFT.fetch_update(Relaxed, Relaxed, |left| Some(left.saturating_sub(bytes)));
    }
}

/// The pager, if it runs and serves this process.
pub(crate) fn pager() -> Option<&'static Pager> {
    let pager = &EXTEND.get()?.as_ref()?.pager;
    pager.is_served().then_some(pager)
}

/// The pager whose range contains an address, whether it serves this process or not.
pub(crate) fn pager_of(address: usize) -> Option<&'static Pager> {
    let pager = &EXTEND.get()?.as_ref()?.pager;
    pager.has(address).then_some(pager)
}

/// The pager whose range overlaps these addresses.
pub(crate) fn pager_over(address: usize, bytes: usize) -> Option<&'static Pager> {
    let pager = &EXTEND.get()?.as_ref()?.pager;
    let all = pager.addresses();
    let is_over = address < all.end && address.saturating_add(bytes) > all.start;
    (is_over && pager.is_served() && !is_worker()).then_some(pager)
}
