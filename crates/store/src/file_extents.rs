//! Merges the extents of a file, so that its blocks are freed quickly ([`super::release`]).

use rustix::fs::{FallocateFlags, SeekFrom, fallocate, fstatfs, seek};
use std::{fs::File, ops::Range};

/// `f_type` of ext2, ext3 and ext4 (`linux/magic.h`). Extents are merged only on these file
/// systems. On other file systems, `FALLOC_FL_ZERO_RANGE` would free blocks and allocate new ones.
/// Other file systems also need no merge, because they discard freed blocks in the background.
const EXT4: u64 = 0xef53;

/// Length of a range whose extents one call merges, bytes. If the merge of a file is interrupted,
/// the finished ranges stay merged.
const STEP: u64 = 16 << 20;

/// Merges the extents of a byte range of `file`. The content of the range is lost: it becomes
/// zeros.
pub(super) fn merge_extents(file: &File, range: Range<u64>) {
    if !fstatfs(file).is_ok_and(|found| u64::try_from(found.f_type) == Ok(EXT4)) {
        return;
    }
    let mut offset = range.start;
    while offset < range.end {
        // Skip holes and unwritten extents. The seek fails with `ENXIO` if no data follow up to the
        // end of the file.
        let Ok(data) = seek(file, SeekFrom::Data(offset)) else { return };
        let start = (data / STEP * STEP).max(range.start);
        if start >= range.end {
            return;
        }
        offset = (start / STEP * STEP + STEP).min(range.end);
        let flags = FallocateFlags::ZERO_RANGE | FallocateFlags::KEEP_SIZE;
        // The call fails for files that are not stored in extents (on ext2 and ext3). Such files
        // have no extents to merge.
        if fallocate(file, flags, start, offset - start).is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;
    use rustix::io::Errno;
    use std::{
        io::{self, Write},
        os::unix::fs::FileExt,
    };

    #[test]
    fn extents_of_random_writes_are_merged() {
        let folder = tempfile::tempdir_in(".").unwrap();
        let file = tempfile::tempfile_in(folder.path()).unwrap();
        if u64::try_from(fstatfs(&file).unwrap().f_type) != Ok(EXT4) {
            // Write to stderr directly, because the test harness captures `eprintln`.
            let text = "not tested: extents of ext4: this is another file system\n";
            io::stderr().write_all(text.as_bytes()).unwrap();
            return;
        }
        file.set_len(1 << 40).unwrap();
        for unit in [0, 7] {
            fallocate(&file, FallocateFlags::KEEP_SIZE, unit * STEP, STEP).unwrap();
            for page in (0..STEP / 4096).step_by(2) {
                file.write_all_at(&[1; 4096], unit * STEP + page * 4096).unwrap();
            }
        }
        file.sync_all().unwrap();
        merge_extents(&file, 0..STEP);
        let next = |offset| seek(&file, SeekFrom::Data(offset));
        assert_eq!(next(0), Ok(7 * STEP), "no data is left in the first range");
        merge_extents(&file, 0..1 << 40);
        assert_eq!(next(0), Err(Errno::NXIO));
        let blocks = std::os::unix::fs::MetadataExt::blocks(&file.metadata().unwrap());
        assert_eq!((blocks * 512) >> 20, (2 * STEP) >> 20, "holes are not allocated");
    }
}
