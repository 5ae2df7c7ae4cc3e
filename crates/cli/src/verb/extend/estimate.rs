//! What speed the stores allow, before anything is run on them.

use crate::args::ExtendArgs;
use interleaf_console::{Failure, output};
use interleaf_pager::{
    drive::{self, DriveError},
    store::{FileStore, Options},
};
use interleaf_record::extend::{DriveSpeed, EstimateDocument};
use std::time::Duration;

/// How much of a store is used, and for how long each part is measured: caches of a drive are
/// smaller, and nobody waits longer for an estimate.
const BYTES: u64 = 1 << 30;
const LIMIT: Duration = Duration::from_millis(1500);

/// Requests at a time: what a program waits for itself, and what is foreseen.
const DEPTHS: [usize; 3] = [1, 16, 64];

/// Measures every store.
pub(super) fn estimate(args: &ExtendArgs, dram: u64) -> Result<EstimateDocument, Failure> {
    let progress = output::progress(args.store.len() as u64, "measuring the stores");
    let mut drives = vec![];
    for path in &args.store {
        let failed = |why: &DriveError| {
            Failure::new(
                format!("{}: it cannot be measured: {why}", path.display()),
                "name a folder on a drive with 1 GiB of space, or a block device",
            )
        };
        let options = Options { force: args.force, ..Options::default() };
        let mut store = FileStore::open_all(&[path], options)
            .map_err(|why| Failure::new(why.to_string(), why.hint))?;
        let drive = drive::measure(&mut store, BYTES, LIMIT, &DEPTHS);
        drives.push(DriveSpeed::new(path, &drive.map_err(|why| failed(&why))?));
        progress.inc(1);
    }
    progress.finish_and_clear();
    Ok(EstimateDocument::new(dram, args.footprint.map(|footprint| footprint.get()), drives))
}
