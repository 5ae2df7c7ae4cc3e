//! Measurement of the stores before the command runs.

use super::ExtendOptions;
use interleaf_console::{Failure, output};
use interleaf_pager::{
    drive::{self, DriveError},
    store::{FileStore, Options},
};
use interleaf_record::extend::{DriveSpeed, EstimateDocument};
use std::time::Duration;

/// The measured bytes of a store, and the time limit of each measurement: more than the cache of a
/// drive, and quick enough for an estimate.
const BYTES: u64 = 1 << 30;
const LIMIT: Duration = Duration::from_millis(1500);

/// Queue depths: 1 for faults that a program waits for, more for prefetches.
const DEPTHS: [usize; 3] = [1, 16, 64];

/// Measures every store.
pub(super) fn estimate(options: &ExtendOptions, dram: u64) -> Result<EstimateDocument, Failure> {
    let progress = output::progress(options.stores.len() as u64, "measuring the stores");
    let mut drives = vec![];
    for path in &options.stores {
        let failed = |why: &DriveError| {
            Failure::new(
                format!("{}: it cannot be measured: {why}", path.display()),
                "name a folder on a drive with 1 GiB of space, or a block device",
            )
        };
        let open = Options { force: options.force, ..Options::default() };
        let mut store = FileStore::open_all(&[path], open)
            .map_err(|why| Failure::new(why.to_string(), why.hint))?;
        let drive = drive::measure(&mut store, BYTES, LIMIT, &DEPTHS);
        drives.push(DriveSpeed::new(path, &drive.map_err(|why| failed(&why))?));
        progress.inc(1);
    }
    progress.finish_and_clear();
    Ok(EstimateDocument::new(dram, options.footprint.map(|footprint| footprint.get()), drives))
}
