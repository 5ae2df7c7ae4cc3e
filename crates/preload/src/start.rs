//! Starts the pager of a process, with the settings of its session: the session is a command under
//! `interleaf extend` with all processes that the command starts.

use crate::{
    credentials, next, process, signal,
    state::{
        BYTES_MIN, EXTENDED, Extended, PROCESS, Process, UNEXTENDED, hold_start, inside, is_inside,
        print, set_unlocked, shares_memory,
    },
    thread,
};
use interleaf_pager::{
    kernel::uffd::FaultMode,
    pager::Pager,
    session::{ADDRESSES, Children, Session, VARIABLE},
};
use interleaf_thread::set_spawn;
use libc::c_int;
use std::{
    path::Path,
    sync::{Once, atomic::Ordering::*},
    time::Duration,
};

/// The pager starts at the first allocation of at least this number of bytes. It also starts at an
/// allocation of at least 128 KiB once earlier allocations of at least 128 KiB, which are not freed
/// yet, add up to this number. A small process, such as a shell or a launcher, therefore has no
/// pager.
const START_BYTES: usize = 1 << 20;

/// Interval between two polls for the PID of the session's first process.
const PAUSE: Duration = Duration::from_millis(1);

/// Maximum number of polls for the PID of the session's first process: 2 s in all.
const FIRST_PAUSES: u32 = 2000;

/// `MADV_WIPEONFORK` of `linux/mman.h`: the pages are zeros in a forked child.
const WIPE_ON_FORK: c_int = 18;

/// Does all work of this library that needs a lock of the C library. Only the first call has an
/// effect. This is the call of this library's constructor, or an earlier call at the first large
/// allocation. The constructor runs before the constructors of all other libraries (`build.rs`),
/// except with a C library before version 2.34, whose thread library comes first.
///
/// The constructor of the C library has not run yet, so this function must not need the environment
/// or the standard streams.
fn prepare() {
    static PREPARED: Once = Once::new();
    PREPARED.call_once(|| {
        // SAFETY: a new mapping changes no other memory, and the advice applies only to that
        // mapping.
        let page = unsafe {
            let (protection, flags) =
                (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
            let page = libc::syscall(libc::SYS_mmap, 0_usize, 4096, protection, flags, -1, 0);
            libc::syscall(libc::SYS_madvise, page, 4096, WIPE_ON_FORK);
            page
        };
        if page != -1 {
            PROCESS.store(page as *mut Process, Release);
            set_unlocked();
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

/// Starts the pager for the session that the environment variable `VARIABLE` names. Returns `None`
/// if the variable is not set, if the session does not extend this process, or after an error,
/// which is printed.
fn start_pager() -> Option<Extended> {
    let value = std::env::var_os(VARIABLE)?;
    match start_in(Path::new(&value)) {
        Ok(extended) => extended,
        Err(why) => {
            let pid = std::process::id();
            print(format_args!("{} ({pid}): its memory is not extended: {why}", name()));
            None
        }
    }
}

fn start_in(folder: &Path) -> Result<Option<Extended>, String> {
    let session = Session::open(folder).map_err(|why| why.to_string())?;
    let settings = &session.settings;
    if settings.children == Children::None && !is_first(&session)? {
        return Ok(None);
    }
    let slot = session.join(&name())?;
    if settings.faults == FaultMode::Signal {
        signal::unblock_sigbus()?;
    }
    let (cache, store) = (session.cache_settings()?, session.open_store()?);
    let pager =
        Pager::with_slot(cache, ADDRESSES, store, Some(slot), settings.faults, session.nodes());
    let pager = pager.map_err(|why| format!("userfaultfd: {why}"))?;
    pager.publish_unextended(UNEXTENDED.load(Relaxed) as u64);
    let bytes_min = usize::try_from(settings.min_alloc_bytes).unwrap_or(usize::MAX);
    let shared_folder = settings.shared.then(|| session.folder().to_path_buf());
    Ok(Some(Extended { pager, bytes_min, shared_folder }))
}

/// True if this process is the first of the session. `interleaf extend` writes the PID of the first
/// process into the ledger as soon as it has started that process. The first process may allocate
/// even sooner, so this function waits for the PID.
fn is_first(session: &Session) -> Result<bool, String> {
    for _ in 0..FIRST_PAUSES {
        if let Some(first) = session.ledger.first_process() {
            return Ok(first == std::process::id());
        }
        std::thread::sleep(PAUSE);
    }
    Err(format!(
        "who began the session {} does not say whom it started",
        session.folder().display()
    ))
}

fn name() -> String {
    let name = std::fs::read_to_string("/proc/self/comm").unwrap_or_default();
    name.trim_end().to_string()
}

/// Returns the pager for an allocation of `bytes` bytes, and starts it if necessary; `None` if the
/// allocation is not extended.
pub(crate) fn pager_for(bytes: usize) -> Option<&'static Pager> {
    if bytes < BYTES_MIN || is_inside() {
        return None;
    }
    let unextended = UNEXTENDED.load(Relaxed);
    if EXTENDED.get().is_none() && bytes.max(unextended) < START_BYTES {
        return None;
    }
    let extended = match EXTENDED.get() {
        Some(extended) => extended,
        None => start()?,
    };
    let extended = extended.as_ref()?;
    // An allocation below the minimum size `bytes_min` is also extended if the program's earlier
    // allocations that are not extended add up to at least that size.
    (bytes.max(unextended) >= extended.bytes_min && extended.pager.is_served())
        .then_some(&extended.pager)
}

/// Starts the pager. If another thread is starting the pager, waits for that thread. Returns `None`
/// in a child of `vfork(2)`, whose memory belongs to its parent.
#[cold]
fn start() -> Option<&'static Option<Extended>> {
    prepare();
    if shares_memory() {
        return None;
    }
    inside(|| {
        let _starting = hold_start();
        Some(EXTENDED.get_or_init(start_pager))
    })
}

/// Returns the folder of the session if a shared allocation of `bytes` bytes is extended; otherwise
/// `None`.
pub(crate) fn shared_folder(bytes: usize) -> Option<&'static Path> {
    pager_for(bytes)?;
    let extended = EXTENDED.get()?.as_ref().filter(|extended| bytes >= extended.bytes_min)?;
    extended.shared_folder.as_deref()
}
