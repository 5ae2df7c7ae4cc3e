//! A store in files and block devices, which bypasses the page cache of Linux (`O_DIRECT`).

#![expect(unsafe_code, reason = "transfers hold addresses of frames")]

use super::{
    BLOCK, ChildStore, PIECES_MAX, Piece, Store, StoreRefused, Transfer, TransferError,
    backing::BackingFile,
    engine::{Engine, Ring, Threads},
    fault_injection::{FaultPlan, FaultyEngine},
    release::Releaser,
    retry::{Job, NextStep, RetriedJob, RetryPolicy},
    snapshot::{AllocationUnit, Layer, LayerRun, Layers},
    striped::Stripes,
};
use rustix::io::Errno;
use std::{
    collections::{BTreeMap, HashMap},
    io,
    ops::Range,
    os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd},
    path::Path,
    sync::Arc,
    time::Duration,
};

/// Number of pages of a file whose space is allocated and freed together: 16 MiB.
const UNIT_PAGES: u64 = 4096;

/// Number of transfers between two calls of [`FileStore::thaw`], which checks whether the other
/// processes that share the store's files have ended.
const CHECK_INTERVAL: u32 = 4096;

/// Options of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Size of a stripe in a store with several files, bytes.
    pub stripe: u64,
    /// True to use a device even if it holds data. The data are then lost.
    pub force: bool,
    /// True to carry out transfers by threads even if the kernel has `io_uring`.
    pub threads: bool,
    /// The number of retries of a failed transfer, and the waits before them.
    pub retry: RetryPolicy,
    /// The faults to inject, for tests; `None` to inject no faults.
    pub faults: Option<FaultPlan>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            stripe: 256 << 10,
            force: false,
            threads: false,
            retry: RetryPolicy::default(),
            faults: None,
        }
    }
}

/// The files that hold the pages of each copy-on-write layer ([`super::snapshot`]).
type LayerFiles = BTreeMap<Layer, Vec<BackingFile>>;

/// The files of a child that is about to be forked. After the fork, the parent and the child each
/// have a copy of this value, with the same open file descriptions. Locks belong to open file
/// descriptions, so no lock tells the parent whether the child still uses the files. A drop of this
/// value therefore leaves the content of the files alone. Only the child takes the files out, and
/// later frees their blocks.
#[derive(Debug)]
struct ChildFiles(LayerFiles);

impl ChildFiles {
    /// Takes the files out of this value. Only the child calls this function.
    fn take(mut self) -> LayerFiles {
        std::mem::take(&mut self.0)
    }
}

impl Drop for ChildFiles {
    fn drop(&mut self) {
        self.0.values_mut().flatten().for_each(BackingFile::leave);
    }
}

/// A store in one or several files or block devices.
pub struct FileStore {
    /// The first field, because fields are dropped in order: a drop of the engine waits for
    /// outstanding transfers, which use the files.
    engine: Box<dyn Engine>,
    options: Options,
    stripes: Stripes,
    layers: Layers,
    files: LayerFiles,
    /// The error of a failed set-up of `io_uring`, after which threads carry out the transfers.
    /// `None` if the set-up succeeded, or if threads were requested.
    no_ring: Option<io::Error>,
    /// The transfers that are not done, keyed by their token.
    pending: HashMap<u64, PendingTransfer>,
    /// The outstanding parts of all transfers. The index of a part is its token in the engine;
    /// `unused` has the free indices.
    parts: Vec<Option<TransferPart>>,
    unused: Vec<usize>,
    /// Number of transfers before the next call of [`FileStore::thaw`].
    until_check: u32,
    releaser: Option<Releaser>,
}

/// A transfer that the caller started, and that is not done yet.
#[derive(Debug)]
struct PendingTransfer {
    is_write: bool,
    offset: u64,
    bytes: usize,
    parts_left: u32,
    /// The name of the first file or device in which a part failed, and the error; `None` while no
    /// part has failed. A write beyond the capacity has an error from the start.
    lost: Option<(Arc<str>, Errno)>,
}

/// A part of a transfer, in one file. A transfer in which no file takes part (a read of pages that
/// no file holds, or a write beyond the capacity) has a single part. This part has no `tried`, and
/// only reports the end of the transfer.
#[derive(Debug)]
struct TransferPart {
    token: u64,
    store: Arc<str>,
    tried: Option<RetriedJob>,
    is_waiting: bool,
}

impl FileStore {
    /// Opens the store `path`: a new unnamed file in the folder `path`, or the block device `path`.
    ///
    /// # Errors
    /// When the folder or the device cannot be opened.
    pub fn open(path: &Path) -> Result<Self, StoreRefused> {
        Self::open_all(&[path], Options::default())
    }

    /// Opens several folders or devices as one store.
    ///
    /// # Errors
    /// When a path cannot be used, or `paths` is empty.
    pub fn open_all(paths: &[&Path], options: Options) -> Result<Self, StoreRefused> {
        let store = Self::try_open(paths, options)?;
        store.files.values().flatten().try_for_each(BackingFile::mark)?;
        Ok(store)
    }

    /// Checks whether [`FileStore::open_all`] would accept the paths as one store. The check
    /// changes nothing on a device.
    ///
    /// # Errors
    /// When a path cannot be used, or `paths` is empty.
    pub fn check(paths: &[&Path], options: Options) -> Result<(), StoreRefused> {
        Self::try_open(paths, options).map(drop)
    }

    fn try_open(paths: &[&Path], options: Options) -> Result<Self, StoreRefused> {
        let open = |path: &&Path| BackingFile::open(path, options.force);
        Self::with_files(paths.iter().map(open).collect::<Result<_, _>>()?, options)
    }

    /// Makes a store of files in memory, for tests and for benchmarks without a drive.
    ///
    /// # Errors
    /// When a file in memory cannot be made, or the options are invalid.
    pub fn memory(files: usize, options: Options) -> Result<Self, StoreRefused> {
        let make = |_| BackingFile::memory().map_err(|why| refused("in memory", &why));
        Self::with_files((0..files).map(make).collect::<Result<_, _>>()?, options)
    }

    fn with_files(files: Vec<BackingFile>, options: Options) -> Result<Self, StoreRefused> {
        let stripe = options.stripe;
        let is_stripe = stripe.is_power_of_two() && (BLOCK..=UNIT_PAGES * BLOCK).contains(&stripe);
        if files.is_empty() || !is_stripe {
            let why =
                "a store has one file at least, and stripes are a power of two, 4 KiB to 16 MiB";
            return Err(refused("none", &io::Error::other(why)));
        }
        let stripes = Stripes { files: files.len() as u64, bytes: options.stripe };
        let layers = Layers::new(UNIT_PAGES * stripes.files);
        Self::build(stripes, layers, [(1, files)].into_iter().collect(), options)
    }

    fn build(
        stripes: Stripes,
        layers: Layers,
        files: LayerFiles,
        options: Options,
    ) -> Result<Self, StoreRefused> {
        let ring = if options.threads { None } else { Some(Ring::new()) };
        let (engine, no_ring): (Box<dyn Engine>, _) = match ring {
            Some(Ok(ring)) => (Box::new(ring), None),
            other => {
                let threads = Threads::new().map_err(|why| refused("its threads", &why))?;
                (Box::new(threads), other.and_then(Result::err))
            }
        };
        let engine = match options.faults {
            Some(plan) => Box::new(FaultyEngine::new(engine, plan)),
            None => engine,
        };
        Ok(Self {
            options,
            stripes,
            layers,
            files,
            engine,
            no_ring,
            pending: HashMap::new(),
            parts: vec![],
            unused: vec![],
            until_check: CHECK_INTERVAL,
            releaser: None,
        })
    }

    /// The error of a failed set-up of `io_uring`: threads then carry out the transfers, which is
    /// slower. `None` if the set-up succeeded or threads were requested.
    pub const fn no_ring(&self) -> Option<&io::Error> {
        self.no_ring.as_ref()
    }

    /// Capacity of the store, bytes: that of the smallest file times the number of files, because
    /// stripes are spread evenly. Pages beyond the capacity cannot be written.
    pub fn capacity(&self) -> u64 {
        let files = self.files.values().next();
        let least = files.and_then(|files| files.iter().map(|file| file.bytes).min());
        least.unwrap_or(0).saturating_mul(self.stripes.files)
    }

    /// Passes the files of this store to `releaser`, if any. Files that are made later for forked
    /// children are passed too.
    #[must_use]
    pub fn released_by(mut self, releaser: Option<Releaser>) -> Self {
        if let Some(releaser) = &releaser {
            let files = self.files.values_mut().flatten();
            files.for_each(|file| file.hand_over(releaser));
        }
        self.releaser = releaser;
        self
    }

    /// Adds a part of a transfer to `parts` without starting it, and returns its index.
    fn add_part(&mut self, part: TransferPart) -> u64 {
        match self.unused.pop() {
            Some(at) => {
                self.parts[at] = Some(part);
                at as u64
            }
            None => {
                self.parts.push(Some(part));
                self.parts.len() as u64 - 1
            }
        }
    }

    /// Submits to the engine the bytes of a part that are not transferred yet. `at` is the index of
    /// the part in `parts`.
    fn submit_part(&mut self, at: u64) {
        let part = self.parts.get(at as usize).and_then(Option::as_ref);
        if let Some(RetriedJob { job, .. }) = part.and_then(|part| part.tried.as_ref()) {
            // SAFETY: the transfer of this part was started and is not done. Until it is done, the
            // memory meets the conditions of `push` by the contract of `begin`.
            unsafe { self.engine.push(at, job) };
        }
    }

    /// Starts the transfer of `bytes`, a range of the store whose pages are all in `layer`. Returns
    /// the number of parts: one for each file that holds some of these pages, or several for a file
    /// in which the transfer has more than [`PIECES_MAX`] pieces.
    fn begin_run(&mut self, transfer: &Transfer<'_>, layer: Layer, bytes: Range<u64>) -> u32 {
        let mut begun = 0;
        for part in self.stripes.parts(bytes) {
            let Some(file) = self.files.get(&layer).and_then(|all| all.get(part.file)) else {
                continue;
            };
            let (file, base, name) = (file.file.as_raw_fd(), file.base, Arc::clone(&file.name));
            let inside = |of: &Range<u64>| (of.start - transfer.offset)..(of.end - transfer.offset);
            let pieces: Vec<_> =
                part.of.iter().flat_map(|of| cut(transfer.pieces, inside(of))).collect();
            let mut offset = base + part.offset;
            for pieces in pieces.chunks(PIECES_MAX) {
                let length: usize = pieces.iter().map(|piece| piece.bytes).sum();
                let is_write = transfer.is_write;
                let job = Job { file, is_write, offset, pieces: pieces.into() };
                offset += length as u64;
                let tried = Some(RetriedJob::new(job));
                let (token, store) = (transfer.token, Arc::clone(&name));
                let at = self.add_part(TransferPart { token, store, tried, is_waiting: false });
                self.submit_part(at);
                begun += 1;
            }
        }
        begun
    }

    /// Handles the engine's result for the part with index `at` in `parts`. Returns the transfer if
    /// all its parts are done.
    fn on_result(&mut self, at: u64, result: Result<usize, Errno>) -> Option<Completed> {
        let part = self.parts.get_mut(at as usize)?.as_mut()?;
        let next = match &mut part.tried {
            Some(_) if part.is_waiting => NextStep::Go,
            Some(tried) => tried.on(result, self.options.retry),
            None => NextStep::Done,
        };
        let lost = match next {
            NextStep::Done => None,
            NextStep::Lost(why) => Some((part.store.clone(), why)),
            NextStep::Go => {
                part.is_waiting = false;
                self.submit_part(at);
                return None;
            }
            NextStep::Later(time) => {
                part.is_waiting = true;
                self.engine.wait(at, time);
                return None;
            }
        };
        let token = part.token;
        self.parts[at as usize] = None;
        self.unused.push(at as usize);
        let transfer = self.pending.get_mut(&token)?;
        transfer.parts_left -= 1;
        transfer.lost = transfer.lost.take().or(lost);
        if transfer.parts_left > 0 {
            return None;
        }
        let PendingTransfer { is_write, offset, bytes, lost, .. } = self.pending.remove(&token)?;
        let lost = lost.map(|(store, why)| TransferError {
            store: store.to_string(),
            is_write,
            offset,
            bytes,
            why: why.into(),
        });
        Some((token, lost.map_or(Ok(()), Err)))
    }

    /// The byte range of an allocation unit in each file of the unit's copy-on-write layer.
    fn unit_bytes(&self, unit: AllocationUnit) -> Range<u64> {
        let bytes = UNIT_PAGES * BLOCK;
        unit.index * bytes..(unit.index + 1) * bytes
    }

    fn each_file(&self, unit: AllocationUnit, act: impl Fn(&BackingFile, Range<u64>)) {
        let range = self.unit_bytes(unit);
        for file in self.files.get(&unit.layer).into_iter().flatten() {
            act(file, range.start.min(file.bytes)..range.end.min(file.bytes));
        }
    }

    fn free_units(&self, units: &[AllocationUnit]) {
        for unit in units {
            self.each_file(*unit, |file, range| file.free(range.start, range.end - range.start));
        }
    }

    /// Makes frozen layers (shared with forked processes, and not changed in place) writable again
    /// once no other process uses their files. Removes frozen layers without pages.
    fn thaw(&mut self) {
        for (layer, has_pages) in self.layers.frozen() {
            if !has_pages {
                self.layers.remove(layer);
                self.files.remove(&layer);
                continue;
            }
            let is_alone = |files: &Vec<BackingFile>| files.iter().all(BackingFile::is_alone);
            if self.files.get(&layer).is_some_and(is_alone) {
                let mut units = vec![];
                self.layers.thaw(layer, &mut units);
                self.free_units(&units);
            }
        }
    }

    /// Freezes all stored pages, for a child that is about to be forked: later writes of parent and
    /// child go to other layers. Returns the child's layers and files, among them a new layer for
    /// the child's own writes.
    fn share(&mut self) -> io::Result<(Layers, ChildFiles)> {
        if self.pending.values().any(|transfer| transfer.is_write) {
            return Err(io::ErrorKind::ResourceBusy.into());
        }
        self.thaw();
        self.merge();
        let own = self.open_more()?;
        let mut layers = self.layers.clone();
        let Some(new) = layers.fork() else {
            return Err(io::Error::other("too many children share pages"));
        };
        if let Some(new) = new {
            self.files.insert(new, own);
        }
        self.layers = layers;
        let (layers, own) = self.layers.child();
        let mut files = LayerFiles::new();
        for layer in layers.in_use().into_iter().filter(|layer| *layer != own) {
            let shared = self.files.get(&layer).into_iter().flatten().map(BackingFile::reopen);
            files.insert(layer, shared.collect::<Result<_, _>>()?);
        }
        files.insert(own, self.open_more()?);
        Ok((layers, ChildFiles(files)))
    }

    #[cfg(test)]
    fn child(&mut self) -> io::Result<Self> {
        let (layers, files) = self.share()?;
        Ok(Self::build(self.stripes, layers, files.take(), self.options)?)
    }

    /// Makes the files of a new copy-on-write layer: another file beside each file of the first
    /// layer ([`BackingFile::open_another`]).
    fn open_more(&self) -> Result<Vec<BackingFile>, StoreRefused> {
        let first = self.files.values().next();
        let open = |file: &BackingFile| {
            let mut file = file.open_another()?;
            if let Some(releaser) = &self.releaser {
                file.hand_over(releaser);
            }
            Ok(file)
        };
        first.into_iter().flatten().map(open).collect()
    }
}

type Completed = (u64, Result<(), TransferError>);

impl Store for FileStore {
    unsafe fn begin(&mut self, transfer: Transfer<'_>) -> io::Result<()> {
        let Transfer { token, is_write, offset, pieces } = transfer;
        let bytes = transfer.bytes();
        let end = offset + bytes as u64;
        debug_assert!(offset.is_multiple_of(BLOCK) && end.is_multiple_of(BLOCK));
        // A write beyond the capacity of the store fails with `ENOSPC`, as on a full drive.
        let is_beyond = is_write && end > self.capacity();
        self.until_check -= 1;
        if self.until_check == 0 {
            self.until_check = CHECK_INTERVAL;
            self.thaw();
        }
        let pages = offset / BLOCK..end / BLOCK;
        let runs = if is_beyond {
            vec![]
        } else if is_write {
            let mut units = vec![];
            let runs = self.layers.write(pages, &mut units);
            for unit in units {
                // A failed allocation is ignored: if no space is left, the write below fails.
                self.each_file(unit, |file, range| {
                    drop(file.allocate(range.start, range.end - range.start));
                });
            }
            runs
        } else {
            self.layers.read(pages)
        };
        let mut parts_left = 0;
        for LayerRun { layer, pages } in runs {
            let bytes = pages.start * BLOCK..pages.end * BLOCK;
            let Some(layer) = layer else {
                for piece in cut(pieces, bytes.start - offset..bytes.end - offset) {
                    // SAFETY: by the contract of `begin`, the memory is mapped, and no other code
                    // uses it.
                    unsafe { std::ptr::write_bytes(piece.address as *mut u8, 0, piece.bytes) };
                }
                continue;
            };
            parts_left += self.begin_run(&transfer, layer, bytes);
        }
        if parts_left == 0 {
            parts_left = 1;
            let at = self.add_part(TransferPart {
                token,
                store: "".into(),
                tried: None,
                is_waiting: false,
            });
            self.engine.wait(at, Duration::ZERO);
        }
        let name = self.files.values().flatten().next().map(|file| Arc::clone(&file.name));
        let lost = name.filter(|_| is_beyond).map(|name| (name, Errno::NOSPC));
        self.pending.insert(token, PendingTransfer { is_write, offset, bytes, parts_left, lost });
        Ok(())
    }

    fn erase(&mut self, offset: u64, bytes: u64) {
        let mut units = vec![];
        self.layers.erase(offset / BLOCK..(offset + bytes) / BLOCK, &mut units);
        self.free_units(&units);
    }

    fn submit(&mut self) -> io::Result<()> {
        self.engine.submit()
    }

    fn has_done(&mut self) -> bool {
        self.engine.has_done()
    }

    fn done(&mut self) -> Vec<Completed> {
        let mut outcomes = vec![];
        self.engine.done(&mut outcomes);
        let done =
            outcomes.into_iter().filter_map(|(at, result)| self.on_result(at, result)).collect();
        // Submit retries here: the caller has submitted the transfer already, and does not submit
        // it a second time.
        let _ = self.engine.submit();
        done
    }

    fn ready(&self) -> BorrowedFd<'_> {
        self.engine.ready()
    }

    fn before_fork(&mut self) {
        self.thaw();
    }

    fn fork(&mut self) -> io::Result<ChildStore> {
        let (layers, files) = self.share()?;
        let all = self.files.values().flatten();
        let mut inherited: Vec<RawFd> = all.map(|file| file.file.as_raw_fd()).collect();
        inherited.extend(self.engine.inherited());
        let (stripes, options, releaser) = (self.stripes, self.options, self.releaser.clone());
        Ok(Box::new(move || {
            for fd in inherited {
                // SAFETY: the descriptors are the child's copies. The child never uses or drops its
                // copy of the parent's store, so no other code closes these descriptors.
                drop(unsafe { OwnedFd::from_raw_fd(fd) });
            }
            let store = Self::build(stripes, layers, files.take(), options)?;
            Ok(Box::new(Self { releaser, ..store }))
        }))
    }
}

/// Returns the pieces of memory for one part of a transfer. `part` is a range of byte offsets in
/// the transfer, in which the `pieces` follow each other without gaps.
fn cut(pieces: &[Piece], part: Range<u64>) -> Vec<Piece> {
    let (mut at, mut cut) = (0, vec![]);
    for piece in pieces {
        let (start, end) = (at, at + piece.bytes as u64);
        let (from, to) = (start.max(part.start), end.min(part.end));
        if from < to {
            let address = piece.address + (from - start) as usize;
            cut.push(Piece { address, bytes: (to - from) as usize });
        }
        at = end;
    }
    cut
}

fn refused(store: &str, why: &io::Error) -> StoreRefused {
    let hint = "see the limits of the user, and memory that is free";
    StoreRefused { store: store.into(), why: why.to_string(), hint: hint.into() }
}

impl std::fmt::Debug for FileStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FileStore").field("files", &self.files).finish_non_exhaustive()
    }
}

mod merge;

#[cfg(test)]
mod tests;
