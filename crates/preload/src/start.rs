//! How it begins: what the session says, and this process's part of the budget.

use crate::process;
use interleaf_pager::{
    board::{Identity, Seat},
    cache::Settings,
    pager::Pager,
    predict::Limits,
    session::{Children, Session, VARIABLE},
    store::{FileStore, Options},
    worker::is_worker,
};
use std::{
    cell::Cell,
    path::{Path, PathBuf},
    sync::{Arc, OnceLock},
    thread,
    time::Duration,
};

const PAGE_BYTES: u64 = 4096;

/// Addresses of all regions of a process together.
const ADDRESSES: usize = 4 << 40;

/// Smaller ones are never looked at: most are, and should not even look at a thread's own variable.
const LEAST_BYTES: usize = 1 << 20;

/// How often others are looked at again that are waited for.
const PAUSE: Duration = Duration::from_millis(1);

/// So often at most who began the session is waited for to say whom it has started.
const FIRST_PAUSES: u32 = 2000;

/// What is done for this process.
struct Extend {
    pager: Pager,
    /// Smaller allocations are left alone.
    least: usize,
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
    let text = value.to_str().filter(|text| text.contains('='));
    match text.map_or_else(|| begin(Path::new(&value)), |text| alone(text).map(Some)) {
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

/// Without a session: `dram=BYTES store=PATH least=BYTES`, for a process by itself.
fn alone(text: &str) -> Result<Extend, String> {
    let value = |name: &str| {
        let mut words = text.split(' ').filter_map(|word| word.split_once('='));
        let value = words.find(|(key, _)| *key == name).map(|(_, value)| value);
        value.ok_or_else(|| format!("{VARIABLE} is {text:?}: {name}= is missing"))
    };
    let number = |name: &str| {
        let text = value(name)?;
        text.parse::<u64>().map_err(|_| format!("{VARIABLE}: {name}={text} is no number of bytes"))
    };
    let frames = number("dram")? / PAGE_BYTES;
    start(frames, &[Path::new(value("store")?)], false, None, number("least")?)
}

fn begin(folder: &Path) -> Result<Option<Extend>, String> {
    let session = Session::open(folder).map_err(|why| why.to_string())?;
    let settings = &session.settings;
    let budget = session.board.budget();
    let (frames, seat) = match settings.children {
        Children::None if !is_first(&session)? => return Ok(None),
        Children::Own => {
            let seat = seat(&session, 0)?;
            (seat.own(budget), seat)
        }
        Children::None | Children::Inherit => {
            let seat = seat(&session, budget)?;
            (seat.begin(budget / u64::from(settings.processes.max(1))), seat)
        }
    };
    let stores: Vec<&Path> = settings.stores.iter().map(PathBuf::as_path).collect();
    start(frames, &stores, settings.force, Some(seat), settings.min_alloc_bytes).map(Some)
}

fn start(
    frames: u64,
    stores: &[&Path],
    force: bool,
    seat: Option<Seat>,
    least: u64,
) -> Result<Extend, String> {
    let options = Options { force, ..Options::default() };
    let store = FileStore::open_all(stores, options).map_err(|why| why.to_string())?;
    let frames = u32::try_from(frames).map_err(|_| "the budget is too large")?;
    let ahead = Limits { first: 16, most: 8192 };
    let settings = Settings { frames, order: 2, ahead };
    let pager = Pager::seated(settings, ADDRESSES, store, seat);
    let pager = pager.map_err(|why| format!("userfaultfd: {why}"))?;
    process::watch();
    let least = usize::try_from(least).unwrap_or(usize::MAX);
    Ok(Extend { pager, least })
}

fn seat(session: &Session, wanted: u64) -> Result<Seat, String> {
    let identity = Identity::own().map_err(|why| format!("/proc/self/stat: {why}"))?;
    let seat = Arc::clone(&session.board).join(identity, &name(), wanted);
    seat.ok_or_else(|| "the session has no room for one more process".into())
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

/// The pager, for so many new bytes.
pub(crate) fn pager_for(bytes: usize) -> Option<&'static Pager> {
    if bytes < LEAST_BYTES || INSIDE.get() || is_worker() {
        return None;
    }
    let extend = inside(|| EXTEND.get_or_init(extend)).as_ref()?;
    (bytes >= extend.least && extend.pager.is_served()).then_some(&extend.pager)
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
