//! Cuts the power while a guest writes to a file system: the guest and the volatile state of the
//! card are lost. After the next boot the file system is consistent, and has each record whose
//! `fsync` the guest reported before the power failure.

use std::{cell::Cell, env};

use interleaf_guest::report::Line;

use super::*;

/// A file system, and the commands with which a guest makes and checks it.
struct FileSystem {
    kind: &'static str,
    make: &'static str,
    check: &'static str,
}

const EXT4: FileSystem =
    FileSystem { kind: "ext4", make: "mke2fs -q -F -t ext4", check: "e2fsck -f -n" };
const XFS: FileSystem = FileSystem { kind: "xfs", make: "mkfs.xfs -q -f", check: "xfs_repair -n" };

/// The step that waits until the driver has found the card.
const PROBED: &str = "until /proc/partitions nvme0n1\n";

#[test]
fn ext4_keeps_what_was_synced() {
    keeps_what_was_synced(LINUX_6_12, &EXT4);
}

#[test]
fn xfs_keeps_what_was_synced() {
    keeps_what_was_synced(Series::Newest, &XFS);
}

/// With the setting `write through`, the kernel sends no flushes, and power cuts lose some of the
/// records. The tests with flushes therefore detect a card that ignores flushes. A single power cut
/// may lose nothing, so the test needs several.
#[test]
fn without_flushes_records_are_lost() {
    if cuts() == 1 {
        return;
    }
    let Some(mut cuts) = Cuts::new(LINUX_6_12, &EXT4) else { return };
    let disable = "write /sys/block/nvme0n1/queue/write_cache write through\n";
    let why = (0..4).find_map(|_| cuts.cut(disable).err()).expect("no record was lost");
    let harmed = ["run drive recover", "run drive mount", "run e2fsck"];
    assert!(harmed.iter().any(|step| why.starts_with(step)), "{why}");
}

/// Returns the number of power cuts in the test of one file system: the number in
/// `INTERLEAF_POWER_CUTS` (`tests/card-power-cuts`), or 1.
fn cuts() -> u64 {
    let set = env::var("INTERLEAF_POWER_CUTS").ok();
    set.map_or(1, |text| text.parse().expect("INTERLEAF_POWER_CUTS is a number"))
}

fn keeps_what_was_synced(series: Series, system: &FileSystem) {
    let Some(mut power) = Cuts::new(series, system) else { return };
    for _ in 0..cuts() {
        if let Err(why) = power.cut("") {
            panic!("{series}, {}, cut {}: {why}", system.kind, power.durable.len());
        }
    }
    let recovered = power.recover(0);
    let check = power.check();
    all_succeeded(&power.bench.guest_record(&format!("{recovered}{check}")));
    let cuts = power.lost();
    assert_eq!(cuts.len() as u64, self::cuts());
    // Of several power cuts, at least one must find data in the volatile cache.
    assert!(cuts.len() == 1 || cuts.iter().any(|bytes| *bytes > 0), "{cuts:?}");
}

/// The power cuts of one card so far.
struct Cuts<'a> {
    bench: Bench,
    system: &'a FileSystem,
    /// For each power cut, the number of records that were durable before the cut.
    durable: Vec<u64>,
    random: Random,
}

impl<'a> Cuts<'a> {
    fn new(series: Series, system: &'a FileSystem) -> Option<Self> {
        let bench = Bench::new(series, settings(NvmeVersion::V1_4, true), Latency::None)?;
        Some(Self { bench, system, durable: vec![], random: Random(1) })
    }

    fn mount(&self) -> String {
        format!("run drive mount {} /dev/nvme0n1 /mnt\n", self.system.kind)
    }

    /// Returns steps that mount the file system, and check the records of each cut from index
    /// `first` on.
    fn recover(&self, first: usize) -> String {
        let folders = self.durable.iter().enumerate().skip(first);
        let steps =
            folders.map(|(cut, records)| format!("run drive recover /mnt/{cut} {records}\n"));
        let modules = self.bench.load_xfs();
        [PROBED.to_string(), modules, self.mount()].into_iter().chain(steps).collect()
    }

    /// Returns steps that unmount the file system and check its consistency.
    fn check(&self) -> String {
        format!("run drive unmount /mnt\nrun {} /dev/nvme0n1\n", self.system.check)
    }

    /// Returns, for each power cut, the bytes that were in the volatile cache and were lost.
    fn lost(&self) -> Vec<u64> {
        let events = self.bench.events.lock().unwrap();
        let lost = |event: &Event| match event {
            Event::PowerLost(bytes) => Some(*bytes),
            _ => None,
        };
        events.iter().filter_map(lost).collect()
    }

    /// Boots a guest. Before the first cut, the guest makes the file system; before each later cut,
    /// the guest checks the file system. Then the guest executes the steps `before` and writes
    /// records, and the power is cut at a random record.
    ///
    /// # Errors
    ///
    /// If a step before the writes failed.
    fn cut(&mut self, before: &str) -> Result<(), String> {
        let cut = self.durable.len();
        let start = match cut {
            0 => {
                let make = format!("run {} /dev/nvme0n1\n", self.system.make);
                format!("{PROBED}{}{make}", self.bench.load_xfs())
            }
            // Checks the folders of the last three cuts only. Earlier boots checked the folders of
            // older cuts, and the end of the test checks them again.
            _ => self.recover(cut.saturating_sub(3)) + &self.check(),
        };
        let journal = format!("run drive journal /mnt/{cut} /dev/ttyS1");
        let steps = format!("{start}{before}{}{journal}", self.mount());
        let last = 20 + self.random.next() % 100;
        let records = Cell::new(0);
        let server = &self.bench.server;
        let watch = |line: Option<&Line>| {
            let Some(line) = line else { return !server.has_power() };
            let Line::Output(text) = line else { return false };
            let record = text.strip_prefix("durable ").and_then(|number| number.parse().ok());
            let Some(record): Option<u64> = record else { return false };
            records.set(record + 1);
            if record == last {
                let mut random = Random(last);
                let after = random.next() % 40;
                let survives = Box::new(move || random.next().is_multiple_of(2));
                server.cut_power(PowerCut { after, survives });
            }
            false
        };
        let outcome = self.bench.boot(&steps, Some(&watch));
        let failed = |record: &Record| {
            let failed =
                record.steps.iter().find(|taken| taken.ending.is_some() && !taken.succeeded());
            failed.map(|taken| taken.step.clone())
        };
        let why = match &outcome {
            Outcome::Cut(record) => failed(record),
            // The steps ended without a power cut, because a step before the writes failed.
            Outcome::Completed(record) => Some(failed(record).unwrap_or_default()),
            _ => Some(String::new()),
        };
        if let Some(step) = why {
            return Err(format!("{step}\n{outcome}"));
        }
        self.durable.push(records.get());
        Ok(())
    }
}

/// A linear congruential generator (Knuth, MMIX). Only the upper half of each number is used.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        let (factor, term) = (6_364_136_223_846_793_005, 1_442_695_040_888_963_407);
        self.0 = self.0.wrapping_mul(factor).wrapping_add(term);
        self.0 >> 32
    }
}
