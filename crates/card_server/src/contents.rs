//! Stores the contents of a card in a file, and provides a volatile write cache that can be put in
//! front of contents of any kind.

use std::{
    collections::BTreeMap,
    fs::File,
    io,
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
};

use interleaf_card::nvme::{Contents, ContentsFault};
use rustix::{
    fs::{FallocateFlags, FlockOperation, fallocate, flock},
    io::Errno,
};

/// Contents in a sparse file. The contents survive simulated power failures. A crash of the machine
/// that runs the server may lose the writes since the last flush.
#[derive(Debug)]
pub struct FileContents {
    file: File,
    path: PathBuf,
}

impl FileContents {
    /// Opens or creates the file `path`, locks it until the contents are dropped, and extends it to
    /// `capacity` bytes, the size of the namespace.
    ///
    /// # Errors
    ///
    /// If the file cannot be opened or written, is larger than the namespace, or is used by another
    /// server. In the last case, the kind of the error is [`io::ErrorKind::WouldBlock`].
    pub fn open(path: &Path, capacity: u64) -> io::Result<Self> {
        let named =
            |why: io::Error| io::Error::new(why.kind(), format!("{}: {why}", path.display()));
        let mut options = File::options();
        let options = options.read(true).write(true).create(true).truncate(false);
        let file = options.open(path).map_err(named)?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Err(Errno::WOULDBLOCK) => {
                let why = "another server uses it";
                return Err(named(io::Error::new(io::ErrorKind::WouldBlock, why)));
            }
            locked => locked.map_err(|why| named(why.into()))?,
        }
        let bytes = file.metadata().map_err(named)?.len();
        if bytes > capacity {
            let why = format!("{bytes} bytes; the card has {capacity} bytes");
            return Err(named(io::Error::new(io::ErrorKind::InvalidInput, why)));
        }
        file.set_len(capacity).map_err(named)?;
        Ok(Self { file, path: path.to_path_buf() })
    }

    /// Returns the path of the file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Contents for FileContents {
    fn read(&mut self, offset: u64, data: &mut [u8]) -> Result<(), ContentsFault> {
        self.file.read_exact_at(data, offset).map_err(|_| ContentsFault { offset })
    }

    fn write(&mut self, offset: u64, data: &[u8], _: bool) -> Result<(), ContentsFault> {
        self.file.write_all_at(data, offset).map_err(|_| ContentsFault { offset })
    }

    fn zero(&mut self, offset: u64, bytes: u64, _: bool) -> Result<(), ContentsFault> {
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        if fallocate(&self.file, flags, offset, bytes).is_err() {
            // No hole could be punched, usually because the file system does not support holes.
            // Write zeros instead.
            let zeros = vec![0; 1 << 20];
            let mut at = offset;
            while at < offset + bytes {
                let part = (offset + bytes - at).min(zeros.len() as u64);
                let written = self.file.write_all_at(&zeros[..part as usize], at);
                written.map_err(|_| ContentsFault { offset: at })?;
                at += part;
            }
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<(), ContentsFault> {
        self.file.sync_data().map_err(|_| ContentsFault { offset: 0 })
    }
}

/// A volatile write cache in front of durable contents. Writes stay in the cache until a flush, in
/// units that a power failure does not tear. A write with force unit access bypasses the cache.
pub struct WriteBack {
    durable: Box<dyn Contents + Send>,
    unit: u64,
    /// The data of the units whose latest data are only in the cache. The key is the index of the
    /// unit in the contents.
    cached: BTreeMap<u64, Vec<u8>>,
}

impl WriteBack {
    /// Creates a cache with units of `unit` bytes. The offset and the length of each access must be
    /// multiples of the unit.
    #[must_use]
    pub fn new(durable: Box<dyn Contents + Send>, unit: u32) -> Self {
        Self { durable, unit: unit.into(), cached: BTreeMap::new() }
    }

    /// Returns the number of bytes in the cache, which is the most that a power failure can lose.
    #[must_use]
    pub fn volatile_bytes(&self) -> u64 {
        self.cached.len() as u64 * self.unit
    }

    /// Applies a power failure. Calls `survives` for each cached unit. If `survives` returns true,
    /// the unit is written to the durable contents; otherwise the unit is lost. Any set of units
    /// may survive, because a real cache may write its units back in any order.
    ///
    /// # Errors
    ///
    /// If a surviving unit cannot be written.
    pub fn power_failure(&mut self, survives: impl FnMut() -> bool) -> Result<(), ContentsFault> {
        let written = self.write_back(survives);
        self.cached.clear();
        written
    }

    /// Empties the cache: writes the units for which `is_written` returns true to the durable
    /// contents, and drops the other units. A unit that cannot be written stays in the cache, with
    /// all later units.
    fn write_back(&mut self, mut is_written: impl FnMut() -> bool) -> Result<(), ContentsFault> {
        while let Some(unit) = self.cached.first_entry() {
            if is_written() {
                self.durable.write(unit.key() * self.unit, unit.get(), true)?;
            }
            unit.remove();
        }
        Ok(())
    }

    /// Removes the units of a range from the cache, because the durable contents already have newer
    /// data of the range.
    fn drop_range(&mut self, offset: u64, bytes: u64) {
        let units = offset / self.unit..(offset + bytes) / self.unit;
        if bytes / self.unit < self.cached.len() as u64 {
            for unit in units {
                self.cached.remove(&unit);
            }
        } else {
            self.cached.retain(|unit, _| !units.contains(unit));
        }
    }
}

impl Contents for WriteBack {
    fn read(&mut self, offset: u64, data: &mut [u8]) -> Result<(), ContentsFault> {
        self.durable.read(offset, data)?;
        let bytes = data.len() as u64;
        for (unit, cached) in self.cached.range(offset / self.unit..(offset + bytes) / self.unit) {
            let at = (unit * self.unit - offset) as usize;
            data[at..at + cached.len()].copy_from_slice(cached);
        }
        Ok(())
    }

    fn write(&mut self, offset: u64, data: &[u8], durable: bool) -> Result<(), ContentsFault> {
        if durable {
            self.durable.write(offset, data, true)?;
            self.drop_range(offset, data.len() as u64);
            return Ok(());
        }
        for (unit, part) in (offset / self.unit..).zip(data.chunks(self.unit as usize)) {
            self.cached.insert(unit, part.to_vec());
        }
        Ok(())
    }

    /// Zeroes the range in the durable contents at once: a discarded range can be as large as the
    /// card, and its zeros would take as much memory in the cache.
    fn zero(&mut self, offset: u64, bytes: u64, _: bool) -> Result<(), ContentsFault> {
        self.durable.zero(offset, bytes, true)?;
        self.drop_range(offset, bytes);
        Ok(())
    }

    fn flush(&mut self) -> Result<(), ContentsFault> {
        self.write_back(|| true)?;
        self.durable.flush()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    };

    use interleaf_card::nvme::MemoryContents;

    use super::*;

    fn content(contents: &mut dyn Contents, blocks: u64) -> Vec<u8> {
        let mut data = vec![0xee; blocks as usize * 512];
        contents.read(0, &mut data).unwrap();
        data.chunks(512).map(|block| block[0]).collect()
    }

    #[test]
    fn a_power_failure_loses_writes_since_the_flush() {
        let mut cache = WriteBack::new(Box::new(MemoryContents::default()), 512);
        cache.write(0, &[1; 1024], false).unwrap();
        cache.flush().unwrap();
        cache.write(512, &[2; 1024], false).unwrap();
        cache.write(2048, &[3; 512], true).unwrap();
        assert_eq!(content(&mut cache, 5), [1, 2, 2, 0, 3]);
        assert_eq!(cache.volatile_bytes(), 1024);
        let mut order = [false, true].into_iter();
        cache.power_failure(|| order.next().unwrap()).unwrap();
        assert_eq!(content(&mut cache, 5), [1, 1, 2, 0, 3]);
        assert_eq!(cache.volatile_bytes(), 0);
    }

    #[test]
    fn durable_writes_and_zeros_replace_cached_writes() {
        let mut cache = WriteBack::new(Box::new(MemoryContents::default()), 512);
        cache.write(0, &[1; 2048], false).unwrap();
        cache.write(512, &[2; 512], true).unwrap();
        cache.zero(1024, 512, false).unwrap();
        assert_eq!(content(&mut cache, 4), [1, 2, 0, 1]);
        cache.power_failure(|| false).unwrap();
        assert_eq!(content(&mut cache, 4), [0, 2, 0, 0]);
    }

    /// Contents in memory, whose writes fail at one offset while `failing` is true.
    struct Failing {
        contents: MemoryContents,
        offset: u64,
        failing: Arc<AtomicBool>,
    }

    impl Contents for Failing {
        fn read(&mut self, offset: u64, data: &mut [u8]) -> Result<(), ContentsFault> {
            self.contents.read(offset, data)
        }

        fn write(&mut self, offset: u64, data: &[u8], durable: bool) -> Result<(), ContentsFault> {
            if offset == self.offset && self.failing.load(Ordering::Relaxed) {
                return Err(ContentsFault { offset });
            }
            self.contents.write(offset, data, durable)
        }

        fn zero(&mut self, offset: u64, bytes: u64, durable: bool) -> Result<(), ContentsFault> {
            self.contents.zero(offset, bytes, durable)
        }

        fn flush(&mut self) -> Result<(), ContentsFault> {
            self.contents.flush()
        }
    }

    #[test]
    fn units_of_a_failed_flush_stay_cached() {
        let failing = Arc::new(AtomicBool::new(true));
        let contents = MemoryContents::default();
        let durable = Failing { contents, offset: 512, failing: failing.clone() };
        let mut cache = WriteBack::new(Box::new(durable), 512);
        cache.write(0, &[1; 1536], false).unwrap();
        assert_eq!(cache.flush(), Err(ContentsFault { offset: 512 }));
        assert_eq!(content(&mut cache, 3), [1, 1, 1]);
        assert_eq!(cache.volatile_bytes(), 1024);
        assert_eq!(cache.write(512, &[2; 512], true), Err(ContentsFault { offset: 512 }));
        assert_eq!(content(&mut cache, 3), [1, 1, 1]);
        failing.store(false, Ordering::Relaxed);
        cache.flush().unwrap();
        cache.power_failure(|| false).unwrap();
        assert_eq!(content(&mut cache, 3), [1, 1, 1]);
    }

    #[test]
    fn a_power_failure_empties_the_cache_in_spite_of_a_failed_write() {
        let failing = Arc::new(AtomicBool::new(true));
        let contents = MemoryContents::default();
        let mut cache = WriteBack::new(Box::new(Failing { contents, offset: 512, failing }), 512);
        cache.write(0, &[1; 1536], false).unwrap();
        assert_eq!(cache.power_failure(|| true), Err(ContentsFault { offset: 512 }));
        assert_eq!(content(&mut cache, 3), [1, 0, 0]);
        assert_eq!(cache.volatile_bytes(), 0);
    }

    #[test]
    fn two_servers_do_not_share_a_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("contents");
        let first = FileContents::open(&path, 8192).unwrap();
        let why = FileContents::open(&path, 8192).unwrap_err();
        assert_eq!(why.kind(), io::ErrorKind::WouldBlock);
        assert!(why.to_string().ends_with("contents: another server uses it"), "{why}");
        drop(first);
        FileContents::open(&path, 8192).unwrap();
    }

    #[test]
    fn a_file_keeps_contents() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("contents");
        let mut file = FileContents::open(&path, 8192).unwrap();
        file.write(512, &[7; 1024], true).unwrap();
        file.zero(1024, 512, false).unwrap();
        file.flush().unwrap();
        assert_eq!(file.read(8192, &mut [0; 1]), Err(ContentsFault { offset: 8192 }));
        drop(file);
        let mut file = FileContents::open(&path, 8192).unwrap();
        assert_eq!(content(&mut file, 4), [0, 7, 0, 0]);
        drop(file);
        let why = FileContents::open(&path, 4096).unwrap_err().to_string();
        assert!(why.ends_with("contents: 8192 bytes; the card has 4096 bytes"), "{why}");
    }
}
