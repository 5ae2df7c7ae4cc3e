//! How it begins: what the session says, and this process's part of the budget.

use interleaf_pager::{
    board::{Identity, Seat},
    cache::Settings,
    pager::Pager,
    predict::Limits,
    session::{Children, Session, VARIABLE},
    store::{FileStore, Options},
};
use std::{
    path::{Path, PathBuf},
    sync::Arc,
    thread,
    time::Duration,
};

/// With fewer pages of DRAM nothing moves any more: a reserve, what is brought in and what is in
/// use have to fit.
const FRAMES_MIN: u64 = 1024;

/// Addresses for all regions of a process.
const ADDRESSES: usize = 1 << 40;

/// How often others are looked at again that are waited for.
const PAUSE: Duration = Duration::from_millis(1);

/// So often at most who began the session is waited for to say whom it has started.
const FIRST_PAUSES: u32 = 2000;

/// And so often for a part of the budget.
const PART_PAUSES: u32 = 500;

/// What is done for this process.
pub(crate) struct Extend {
    pub(crate) pager: Pager,
    /// Smaller allocations are left alone.
    pub(crate) least: usize,
}

/// What the environment says should be done; nothing when it says nothing, or it cannot be done,
/// which is told.
pub(crate) fn extend() -> Option<Extend> {
    let folder = PathBuf::from(std::env::var_os(VARIABLE)?);
    match begin(&folder) {
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
    let least = usize::try_from(settings.min_alloc_bytes).unwrap_or(usize::MAX);
    let budget = session.board.budget();
    let (frames, seat) = match settings.children {
        Children::None if !is_first(&session)? => return Ok(None),
        Children::Own => {
            let seat = seat(&session, 0)?;
            (seat.own(budget), seat)
        }
        Children::None | Children::Inherit => {
            let seat = seat(&session, budget)?;
            let part = budget / u64::from(settings.processes.max(1));
            (part_of(&session, &seat, part), seat)
        }
    };
    if frames < FRAMES_MIN {
        return Err(format!(
            "{frames} pages of the budget are left, and it takes {FRAMES_MIN}: other processes of \
             the session have the rest (--processes N shares it by so many)"
        ));
    }
    let paths: Vec<&Path> = settings.stores.iter().map(PathBuf::as_path).collect();
    let options = Options { force: settings.force, ..Options::default() };
    let store = FileStore::open_all(&paths, options).map_err(|why| why.to_string())?;
    let frames = u32::try_from(frames).map_err(|_| "the budget is too large")?;
    let ahead = Limits { first: 16, most: 8192 };
    let settings = Settings { frames, order: 2, ahead };
    let pager = Pager::seated(settings, ADDRESSES, store, Some(seat));
    let pager = pager.map_err(|why| format!("userfaultfd: {why}"))?;
    Ok(Some(Extend { pager, least }))
}

/// Takes pages of the budget, and says how many it could have. Who had them may just have ended,
/// or be about to.
fn part_of(session: &Session, seat: &Seat, part: u64) -> u64 {
    let mut frames = seat.grow(part);
    for _ in 0..PART_PAUSES {
        if frames == part {
            break;
        }
        session.board.recover();
        frames = seat.grow(part);
        if frames >= FRAMES_MIN {
            break;
        }
        thread::sleep(PAUSE);
    }
    frames
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
