//! The pager of a program: there from its first large allocation on.

use crate::process;
use interleaf_pager::{
    cache::Settings, pager::Pager, predict::streams::Limits, store::FileStore, worker::is_worker,
};
use std::{cell::Cell, path::Path, sync::OnceLock};

/// Smaller ones are never looked at: most are, and should not even look at a thread's own variable.
const LEAST_BYTES: usize = 1 << 20;

/// Addresses of all regions together.
const ADDRESSES: usize = 4 << 40;

/// What the environment says should be done.
struct Extend {
    pager: Pager,
    least: usize,
}

static EXTEND: OnceLock<Option<Extend>> = OnceLock::new();

thread_local! {
    /// Whether the thread is in here already, or is the pager's own.
    static INSIDE: Cell<bool> = const { Cell::new(false) };
}

/// `dram=BYTES store=PATH least=BYTES`
fn extend() -> Option<Extend> {
    let text = std::env::var("INTERLEAF_EXTEND").ok()?;
    let value = |name: &str| {
        let mut words = text.split(' ').filter_map(|word| word.split_once('='));
        words.find(|(key, _)| *key == name).map(|(_, value)| value)
    };
    let frames = value("dram")?.parse::<u64>().ok()? / 4096;
    let ahead = Limits { first: 16, most: 8192 };
    let settings = Settings { frames: u32::try_from(frames).ok()?, order: 2, ahead };
    let store = FileStore::open(Path::new(value("store")?)).ok()?;
    let pager = Pager::new(settings, ADDRESSES, store).ok()?;
    process::watch();
    Some(Extend { pager, least: value("least")?.parse().ok()? })
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
