#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
use super::*;
use proptest::prelude::*;
use rand_pcg::{
    Pcg64Mcg,
    rand_core::{RngCore, SeedableRng},
};
use rustix::event::{PollFd, PollFlags, poll};
use std::{os::unix::fs::FileExt, time::Instant};

/// Number of pages that tests use: enough for several stripes and more than one allocation unit.
const PAGES: u64 = 3 * UNIT_PAGES;

/// Time limit of a transfer: a store without an error ends each transfer much earlier.
const TRANSFER_MAX: Duration = Duration::from_secs(60);

/// Memory of 64 pages, aligned for direct transfers (`O_DIRECT`).
#[repr(align(4096))]
struct Frames([u8; 64 * BLOCK as usize]);

/// A store, and the expected content of its pages, for operations with random arguments.
struct World {
    store: FileStore,
    expected: BTreeMap<u64, u64>,
    frames: Box<Frames>,
    random: Pcg64Mcg,
    written: u64,
}

impl World {
    fn new(store: FileStore, seed: u64) -> Self {
        let random = Pcg64Mcg::seed_from_u64(seed);
        let frames = Box::new(Frames([0; 64 * BLOCK as usize]));
        Self { store, expected: BTreeMap::new(), frames, random, written: 0 }
    }

    fn below(&mut self, end: u64) -> u64 {
        self.random.next_u64() % end
    }

    /// Returns the first `count` frames as one or two pieces, which begin at a random frame.
    fn pieces(&mut self, count: u64) -> Vec<Piece> {
        let start = self.frames.0.as_ptr() as usize;
        let at = |frame: u64| start + (frame * BLOCK) as usize;
        let turn = self.below(count) + 1;
        let piece = |frames: Range<u64>| Piece {
            address: at(frames.start),
            bytes: ((frames.end - frames.start) * BLOCK) as usize,
        };
        [turn..count, 0..turn].into_iter().filter(|of| !of.is_empty()).map(piece).collect()
    }

    /// The memory of `pieces` as words: a slice of 512 words for each page.
    fn words(&mut self, pieces: &[Piece]) -> Vec<&mut [u64]> {
        let start = self.frames.0.as_ptr() as usize;
        let (words, _) = self.frames.0.as_chunks_mut::<8>();
        assert_eq!(words.len() % 512, 0);
        let mut pages: Vec<_> = words.chunks_mut(512).map(Some).collect();
        let page_bytes = BLOCK as usize;
        let frames = pieces.iter().flat_map(|piece| {
            let first = (piece.address - start) / page_bytes;
            first..first + piece.bytes / page_bytes
        });
        let page = |frame: usize| {
            let page = pages[frame].take().unwrap();
            // SAFETY: eight bytes are a word, and the address is aligned to a page.
            unsafe { std::slice::from_raw_parts_mut(page.as_mut_ptr().cast::<u64>(), 512) }
        };
        frames.map(page).collect()
    }

    fn transfer(
        &mut self,
        is_write: bool,
        page: u64,
        pieces: &[Piece],
    ) -> Result<(), TransferError> {
        let offset = page * BLOCK;
        let transfer = Transfer { token: 7, is_write, offset, pieces };
        // SAFETY: the frames exist until the transfer is done, because this function waits for it.
        unsafe { self.store.begin(transfer) }.unwrap();
        self.store.submit().unwrap();
        let mut done = vec![];
        while done.is_empty() {
            let begun = Instant::now();
            while !self.store.has_done() {
                let ready = self.store.ready();
                poll(&mut [PollFd::new(&ready, PollFlags::IN)], None).unwrap();
                assert!(begun.elapsed() < TRANSFER_MAX, "the end of the transfer is not seen");
            }
            done = self.store.done();
        }
        let (token, result) = done.pop().unwrap();
        assert!((token, done.len()) == (7, 0));
        result
    }

    fn write(&mut self, page: u64, count: u64) -> Result<(), TransferError> {
        let pieces = self.pieces(count);
        let first = self.written + 1;
        self.written += count;
        for (words, value) in self.words(&pieces).into_iter().zip(first..) {
            words.fill(value);
        }
        let result = self.transfer(true, page, &pieces);
        for (page, value) in (page..page + count).zip(first..) {
            self.expected.insert(page, value);
        }
        result
    }

    fn read(&mut self, page: u64, count: u64) -> Result<(), TransferError> {
        let pieces = self.pieces(count);
        self.words(&pieces).into_iter().for_each(|words| words.fill(u64::MAX));
        self.transfer(false, page, &pieces)?;
        let expected = self.expected.clone();
        for (page, words) in (page..).zip(self.words(&pieces)) {
            let value = expected.get(&page).copied().unwrap_or(0);
            assert!(words.iter().all(|word| *word == value), "page {page}: {words:?}, not {value}");
        }
        Ok(())
    }

    fn erase(&mut self, page: u64, count: u64) {
        self.store.erase(page * BLOCK, count * BLOCK);
        self.expected.retain(|at, _| !(page..page + count).contains(at));
    }

    /// Does `steps` random reads, writes and erasures. Asserts that none fails.
    fn run(&mut self, steps: u32) {
        for _ in 0..steps {
            let (page, count) = (self.below(PAGES - 64), self.below(64) + 1);
            // Use mostly pages near each other, so that written pages are read again.
            let page = if self.below(4) > 0 { page % 300 } else { page };
            match self.below(8) {
                0 => self.erase(page, count * 10),
                1..=3 => self.write(page, count).unwrap(),
                _ => self.read(page, count).unwrap(),
            }
        }
    }
}

const OPTIONS: Options = Options {
    stripe: 64 << 10,
    force: false,
    threads: false,
    retry: RetryPolicy { tries: 12, first: Duration::from_nanos(1) },
    faults: None,
};

/// Faults that retries repair, so that no transfer fails.
const FAULTS: FaultPlan = FaultPlan {
    seed: 1,
    eio: 10,
    again: 10,
    short: 4,
    torn: 10,
    delayed: 20,
    delay_ms: 3,
    reordered: true,
    lost_mib: 0,
    room: 0,
};

#[test]
fn written_pages_are_read_back() {
    let folder = tempfile::tempdir_in(".").unwrap();
    let path = folder.path();
    let faults = Some(FAULTS);
    let open = |paths: &[&Path], options| FileStore::open_all(paths, options).unwrap();
    let stores = [
        FileStore::memory(1, OPTIONS).unwrap(),
        FileStore::memory(3, OPTIONS).unwrap(),
        FileStore::memory(2, Options { faults, ..OPTIONS }).unwrap(),
        open(&[path], OPTIONS),
        open(&[path, path], Options { threads: true, ..OPTIONS }),
        open(&[path, path, path], Options { faults, ..OPTIONS }),
        open(&[path], Options { faults, threads: true, ..OPTIONS }),
    ];
    for (seed, store) in stores.into_iter().enumerate() {
        World::new(store, seed as u64).run(400);
    }
    assert_eq!(std::fs::read_dir(path).unwrap().count(), 0, "nobody finds its pages");
}

#[test]
fn a_failed_transfer_is_reported() {
    let faults = Some(FaultPlan { lost_mib: 2, room: 3 << 20, ..FaultPlan::default() });
    let store = FileStore::memory(1, Options { faults, ..OPTIONS }).unwrap();
    let mut world = World::new(store, 1);
    world.write(200, 64).unwrap();
    world.write(256, 2).unwrap();
    world.read(200, 50).unwrap();
    let lost = world.read(200, 60).unwrap_err().to_string();
    assert_eq!(
        lost,
        "the store in memory cannot give back 245760 bytes at byte 819200: Input/output error \
         (os error 5)"
    );
    let full = world.write(760, 10).unwrap_err();
    assert_eq!(full.why.raw_os_error(), Some(libc::ENOSPC));
}

#[test]
fn a_child_shares_the_pages_of_its_parent() {
    let folder = tempfile::tempdir_in(".").unwrap();
    let paths = [folder.path(), folder.path()];
    let store = FileStore::open_all(&paths, OPTIONS).unwrap();
    let mut parent = World::new(store, 1);
    parent.run(100);
    let mut children = vec![];
    for seed in 2..5 {
        // The "child" of this test is in the same process. The function that `Store::fork` returns
        // is not called, because it closes the parent's descriptors.
        let (store, expected) = (parent.store.child().unwrap(), parent.expected.clone());
        let child = World { expected, ..World::new(store, seed) };
        children.push(child);
        for world in children.iter_mut().chain([&mut parent]) {
            world.run(30);
        }
    }
    assert_eq!(parent.store.layers.frozen().len(), 3);
    children.truncate(1);
    parent.store.thaw();
    assert_eq!(parent.store.layers.frozen(), [(1, true)], "the first child has the first");
    children.clear();
    parent.store.thaw();
    assert_eq!(parent.store.layers.frozen(), []);
    parent.run(100);
}

/// Number of forks: more than the 255 layers that a `Layer` (`u8`) can number.
const FORKS: u64 = 300;

/// Asserts that many forks need only two layers in use if each child ends before the next fork.
#[test]
fn forks_one_after_the_other_need_two_layers() {
    let mut parent = World::new(FileStore::memory(1, OPTIONS).unwrap(), 1);
    for page in 0..FORKS {
        parent.store.before_fork();
        parent.write(page, 1).unwrap();
        drop(parent.store.child().unwrap());
        let layers = parent.store.layers.in_use();
        assert!(layers.len() <= 2, "{layers:?} at fork {page}");
    }
    parent.store.before_fork();
    (0..FORKS).step_by(50).for_each(|page| parent.read(page, 50).unwrap());
}

/// Asserts that layers are merged when the parent writes to pages of which children still have the
/// former content.
#[test]
fn layers_are_merged() {
    let mut parent = World::new(FileStore::memory(3, OPTIONS).unwrap(), 1);
    let mut children = vec![];
    for at in 0..FORKS {
        parent.store.before_fork();
        parent.write(at * 7, 3).unwrap();
        let (store, expected) = (parent.store.child().unwrap(), parent.expected.clone());
        let mut child = World { expected, ..World::new(store, at) };
        parent.write(at * 7 + 3, 2).unwrap();
        child.read((at * 7).saturating_sub(40), 50).unwrap();
        // Every 20th child stays alive; the other children end at once.
        if at % 20 == 0 {
            children.push(child);
        }
        let layers = parent.store.layers.in_use();
        assert!(layers.len() <= merge::LAYERS_MAX + 1, "{layers:?} at fork {at}");
        assert_eq!(parent.store.files.len(), layers.len());
    }
    for world in children.iter_mut().chain([&mut parent]) {
        (0..FORKS * 7).step_by(60).for_each(|page| world.read(page, 60).unwrap());
    }
}

/// Returns the descriptors of this process that refer to unnamed files in a folder.
fn descriptors_in(folder: &Path) -> Vec<std::path::PathBuf> {
    let folder = folder.canonicalize().unwrap();
    let all = std::fs::read_dir("/proc/self/fd").unwrap().flatten().map(|entry| entry.path());
    all.filter(|fd| std::fs::read_link(fd).is_ok_and(|file| file.starts_with(&folder))).collect()
}

/// Asserts that the child's writes stay in the store when the parent drops its copy of the child's
/// files.
#[test]
fn the_parent_of_a_child_keeps_what_the_child_has_written() {
    let folder = tempfile::tempdir_in(".").unwrap();
    let mut store = FileStore::open(folder.path()).unwrap();
    let of_parent = descriptors_in(folder.path());
    let child = store.fork().unwrap();
    let mut of_child = descriptors_in(folder.path());
    of_child.retain(|fd| !of_parent.contains(fd));
    let [fd] = &of_child[..] else { panic!("one file of the child: {of_child:?}") };
    // The child writes without `O_DIRECT`, so that the buffers need no alignment.
    let written = std::fs::OpenOptions::new().read(true).write(true).open(fd).unwrap();
    let (page, mut found) = ([7; BLOCK as usize], [0; BLOCK as usize]);
    written.write_all_at(&page, 0).unwrap();
    drop(child);
    assert_eq!(descriptors_in(folder.path()).len(), of_parent.len() + 1, "closed by the parent");
    written.read_exact_at(&mut found, 0).unwrap();
    assert_eq!(found, page);
}

#[test]
fn an_invalid_store_is_refused() {
    let file = tempfile::NamedTempFile::new_in(".").unwrap();
    let why = FileStore::open(file.path()).unwrap_err();
    assert_eq!(why.why, "is neither a folder nor a block device");
    let why = FileStore::open(Path::new("/no/such/folder")).unwrap_err().to_string();
    assert_eq!(why, "the store /no/such/folder: No such file or directory (os error 2)");
    let why = FileStore::open(Path::new("/proc")).unwrap_err().to_string();
    assert!(why.contains("no file can be made there"), "{why}");
    let why = FileStore::memory(2, Options { stripe: 5000, ..OPTIONS }).unwrap_err();
    assert!(why.why.contains("power of two"), "{why}");
}

proptest! {
    #[test]
    fn a_cut_has_the_bytes_it_should(
        lengths in proptest::collection::vec(1_usize..20, 1..6),
        start in 0_u64..30,
        count in 0_u64..60,
    ) {
        let piece = |(at, bytes): (usize, usize)| Piece { address: at * 100, bytes };
        let pieces: Vec<_> = (1..).zip(lengths).map(piece).collect();
        let flat = |pieces: &[Piece]| -> Vec<usize> {
            pieces.iter().flat_map(|piece| piece.address..piece.address + piece.bytes).collect()
        };
        let all = flat(&pieces);
        let within = |at: u64| (at as usize).min(all.len());
        let (from, to) = (within(start), within(start + count));
        prop_assert_eq!(flat(&cut(&pieces, start..start + count)), &all[from..to]);
    }
}
