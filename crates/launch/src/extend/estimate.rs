//! Measures the stores before a command runs, and estimates the speed of programs on them.

use super::ExtendOptions;
use interleaf_console::{Failure, output};
use interleaf_extend_forecast::drive::{Drive, PageLatency};
use interleaf_record::extend::{DriveSpeed, EstimateDocument, RandomDocument};
use interleaf_store::{
    FileStore, Options,
    speed::{self, SpeedError},
};
use std::{path::PathBuf, time::Duration};

/// The name that a forecast gives to the stores of this machine, which are measured as one drive.
pub const THIS: &str = "this";

/// Maximum number of bytes that a measurement writes to a store and reads back: more than the cache
/// of a drive. A series of writes or reads also ends after [`LIMIT`], so that an estimate is quick.
const BYTES: u64 = 1 << 30;
const LIMIT: Duration = Duration::from_millis(1500);

/// Queue depths of the random reads: 1 for faults that a program waits for, more for prefetches.
const DEPTHS: [usize; 3] = [1, 16, 64];

/// Measures every store, and estimates the speed of programs with a budget of `dram` bytes.
pub(super) fn estimate(options: &ExtendOptions, dram: u64) -> Result<EstimateDocument, Failure> {
    let drives = speeds(&options.stores, options.force)?;
    Ok(EstimateDocument::new(dram, options.footprint.map(|footprint| footprint.get()), drives))
}

/// Measures stores, and returns them as one drive of the planner, named `this`:
/// - The bandwidths of the stores are added.
/// - The latency of a page is that of the first store. With `n` stores it holds at `n` times the
///   queue depth, because the requests are spread over the stores.
/// - Reads and writes together are assumed to reach the bandwidth of the faster direction.
///
/// With `force`, a block device that has content is measured too.
///
/// # Errors
/// When a store is refused or cannot be measured.
pub fn measured_drive(stores: &[PathBuf], force: bool) -> Result<Drive, Failure> {
    let speeds = speeds(stores, force)?;
    let sum = |of: fn(&DriveSpeed) -> f64| 1e9 * speeds.iter().map(of).sum::<f64>();
    let read_rate = sum(|speed| speed.read_gbps);
    let write_rate = sum(|speed| speed.write_gbps);
    let count = speeds.len() as f64;
    let page = |random: &RandomDocument| PageLatency {
        depth: count * random.depth as f64,
        seconds: 1e-6 * random.latency_us,
    };
    let pages = speeds.first().map_or(vec![], |speed| speed.random.iter().map(page).collect());
    Ok(Drive {
        name: THIS.into(),
        does: "the stores of this machine".into(),
        read_rate,
        write_rate,
        both_rate: read_rate.max(write_rate),
        pages,
        is_of_run: false,
        sources: vec![("all".into(), "measured".into())],
    })
}

fn speeds(stores: &[PathBuf], force: bool) -> Result<Vec<DriveSpeed>, Failure> {
    let progress = output::progress(stores.len() as u64, "measuring the stores");
    let mut drives = vec![];
    for path in stores {
        let failed = |why: &SpeedError| {
            Failure::new(
                format!("{}: it cannot be measured: {why}", path.display()),
                "name a folder on a drive with 1 GiB of space, or a block device",
            )
        };
        let open = Options { force, ..Options::default() };
        let mut store = FileStore::open_all(&[path], open)
            .map_err(|why| Failure::new(why.to_string(), why.hint))?;
        let drive = speed::measure(&mut store, BYTES, LIMIT, &DEPTHS);
        drives.push(DriveSpeed::new(path, &drive.map_err(|why| failed(&why))?));
        progress.inc(1);
    }
    progress.finish_and_clear();
    Ok(drives)
}
