//! How it begins: what the session says, and this process's part of the budget.

use crate::{process, signal};
use interleaf_pager::{
    pager::Pager,
    session::{ADDRESSES, Children, Session, VARIABLE},
    uffd::Faults,
    worker::is_worker,
};
use std::{
    cell::Cell,
    path::{Path, PathBuf},
    sync::{
        OnceLock,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    thread,
    time::Duration,
};

/// Smaller ones are never looked at: most are, and should not even look at a thread's own variable.
/// It is what the C library takes from the kernel by itself (`M_MMAP_THRESHOLD` of `mallopt(3)`).
const LEAST_BYTES: usize = 128 << 10;

/// What takes less than this, in all, is no program to extend: a shell, or what starts another.
const BEGIN_BYTES: usize = 1 << 20;

/// What was left to others in pieces that could be extended, bytes.
static LEFT: AtomicUsize = AtomicUsize::new(0);

/// How often others are looked at again that are waited for.
const PAUSE: Duration = Duration::from_millis(1);

/// So often at most who began the session is waited for to say whom it has started.
const FIRST_PAUSES: u32 = 2000;

/// What is done for this process.
struct Extend {
    pager: Pager,
    /// Smaller allocations are left alone.
    least: usize,
    /// The folder of the session, if memory is extended that processes share.
    shares: Option<PathBuf>,
}

static EXTEND: OnceLock<Option<Extend>> = OnceLock::new();

thread_local! {
    /// Whether the thread is in here already, or is the pager's own.
    static INSIDE: Cell<bool> = const { Cell::new(false) };
}

/// What the environment says should be done; nothing when it says nothing, or it cannot be done,
/// which is told.
fn extend() -> Option<Extend> {
    let value = std::env::var_os(VARIABLE)?;
    match begin(Path::new(&value)) {
        Ok(extend) => extend,
        Err(why) => {
            let name = name();
            let pid = std::process::id();
            let text = format!("interleaf: {name} ({pid}): its memory is not extended: {why}\n");
            // Where nobody can be told, nobody can be told that either.
            let _ = rustix::io::write(rustix::stdio::stderr(), text.as_bytes());
            None
        }
    }
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
    process::watch();
    let least = usize::try_from(settings.min_alloc_bytes).unwrap_or(usize::MAX);
    let shares = settings.shared.then(|| session.folder().to_path_buf());
    Ok(Some(Extend { pager, least, shares }))
}

/// Whether this is the process that was started first. Who started it says so at once; it may have
/// allocated even sooner.
fn is_first(session: &Session) -> Result<bool, String> {
    for _ in 0..FIRST_PAUSES {
        if let Some(first) = session.board.first() {
            return Ok(first == std::process::id());
        }
        thread::sleep(PAUSE);
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

/// Does something that may allocate memory, which is not ours then.
pub(crate) fn inside<T>(work: impl FnOnce() -> T) -> T {
    let before = INSIDE.replace(true);
    let outcome = work();
    INSIDE.set(before);
    outcome
}

/// Whether the calling thread does something of ours.
pub(crate) fn is_inside() -> bool {
    INSIDE.get() || is_worker()
}

/// The pager, for so many new bytes.
pub(crate) fn pager_for(bytes: usize) -> Option<&'static Pager> {
    if bytes < LEAST_BYTES || is_inside() {
        return None;
    }
    let left = LEFT.load(Relaxed);
    if EXTEND.get().is_none() && bytes.max(left) < BEGIN_BYTES {
        return None;
    }
    let extend = inside(|| EXTEND.get_or_init(extend)).as_ref()?;
    // Many that are together as large as one are a large allocation too.
    (bytes.max(left) >= extend.least && extend.pager.is_served()).then_some(&extend.pager)
}

/// The folder of the session in which so many new bytes that are shared are extended.
pub(crate) fn shares(bytes: usize) -> Option<&'static Path> {
    pager_for(bytes)?;
    let extend = EXTEND.get()?.as_ref().filter(|extend| bytes >= extend.least)?;
    extend.shares.as_deref()
}

/// So many bytes are left to others.
pub(crate) fn leave(bytes: usize) {
    if bytes >= LEAST_BYTES && !is_inside() {
        LEFT.fetch_add(bytes, Relaxed);
    }
}

/// They are given back.
pub(crate) fn give_back(bytes: usize) {
    if bytes >= LEAST_BYTES && !is_inside() {
        // What was taken before this library was asked was not counted.
        let _ = LEFT.fetch_update(Relaxed, Relaxed, |left| Some(left.saturating_sub(bytes)));
    }
}

/// The pager, if there is one and it serves this process.
pub(crate) fn pager() -> Option<&'static Pager> {
    let pager = &EXTEND.get()?.as_ref()?.pager;
    pager.is_served().then_some(pager)
}

/// The pager whose regions an address may be of, whether it serves this process or not.
pub(crate) fn pager_of(address: usize) -> Option<&'static Pager> {
    let pager = &EXTEND.get()?.as_ref()?.pager;
    pager.has(address).then_some(pager)
}

/// The pager that some of these addresses may be of.
pub(crate) fn pager_over(address: usize, bytes: usize) -> Option<&'static Pager> {
    let pager = &EXTEND.get()?.as_ref()?.pager;
    let all = pager.addresses();
    let is_over = address < all.end && address.saturating_add(bytes) > all.start;
    (is_over && pager.is_served() && !is_worker()).then_some(pager)
}
