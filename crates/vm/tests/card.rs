//! Tests an NVRAM card behind the unmodified NVMe driver of Linux: a guest of QEMU uses the card
//! that `interleaf_card_server` serves.
//!
//! If the kernel or the unpacked QEMU is missing, a test prints that it was skipped, and passes.
//! With `INTERLEAF_VM=required` in the environment, the test fails instead. `docs/vm-tests.md` says
//! how to install both.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{
    env,
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
};

use interleaf_card::nvme::{NvmeSettings, NvmeVersion};
use interleaf_card_server::{CardServer, Clock, Event, Latency, PowerCut, ServeOptions, Storage};
use interleaf_vm::{
    Boot, Outcome, Series, Topology,
    boot::missing,
    harness::{not_tested, shown, static_programs},
    machine::Watch,
    outcome::Record,
    qemu::Unpacked,
};

mod guest_time;
mod power_cuts;
mod use_of_drive;

const LINUX_6_12: Series = Series::Of(6, 12);

/// Returns the settings of a card of 512 MiB, because XFS needs 300 MiB.
fn settings(version: NvmeVersion, write_cache: bool) -> NvmeSettings {
    NvmeSettings {
        version,
        vendor: 0x11f8,
        subsystem_vendor: 0x11f8,
        model: "Interleaf NVRAM card".to_string(),
        serial: "INTERLEAF-1".to_string(),
        firmware: "1.0".to_string(),
        capacity: 512 << 20,
        block_bytes: 512,
        queues: 4,
        queue_entries: 256,
        vectors: 5,
        transfer_bytes: 128 << 10,
        atomic_bytes: 4096,
        write_cache,
    }
}

/// A served card, and the parameters to boot guests with it.
struct Bench {
    server: CardServer,
    events: Arc<Mutex<Vec<Event>>>,
    series: Series,
    root: PathBuf,
    modules: Vec<PathBuf>,
    /// True if the card follows the guest's clock.
    follows_guest: bool,
    /// The folder of the server's socket. Dropping this field removes the folder.
    _folder: tempfile::TempDir,
}

impl Bench {
    /// Serves a card. `None`, after a message, if the kernel or QEMU is missing.
    fn new(series: Series, settings: NvmeSettings, latency: Latency) -> Option<Self> {
        if let Some(outcome) = missing(series) {
            not_tested(&outcome);
            return None;
        }
        let unpacked = Unpacked::find().map_err(|why| Outcome::QemuMissing { why });
        let unpacked = unpacked.inspect_err(not_tested).ok()?;
        let folder = tempfile::tempdir().unwrap();
        let events = Arc::new(Mutex::new(vec![]));
        let received = events.clone();
        let follows_guest = matches!(latency, Latency::Card { clock: Clock::Guest, .. });
        let options = ServeOptions {
            socket: folder.path().join("card"),
            settings,
            storage: Storage::Memory,
            link_generation: 3,
            link_lanes: 8,
            latency,
            listener: Arc::new(move |event| received.lock().unwrap().push(event)),
        };
        Some(Self {
            server: CardServer::start(&options).unwrap(),
            events,
            series,
            root: unpacked.guest_root(),
            modules: series.find().unwrap().xfs_modules().unwrap(),
            follows_guest,
            _folder: folder,
        })
    }

    /// Boots a guest with the card, for steps that may use the modules of XFS.
    fn boot(&self, steps: &str, until: Option<&Watch<'_>>) -> Outcome {
        let topology = Topology::named("one-node").unwrap();
        let mut boot = Boot::new(self.series, &topology, &static_programs().guest, steps);
        boot.device = Some(self.server.socket());
        boot.root = Some(self.root.clone());
        let name = |path: &Path| path.file_name().unwrap().to_str().unwrap().to_string();
        boot.modules = self.modules.iter().map(|path| (name(path), path.clone())).collect();
        boot.until = until;
        let plugin = plugin();
        boot.clock = self.follows_guest.then_some(&plugin);
        // An instruction takes 2^1 ns instead of the default 2^2 ns, because the latencies that
        // tests compare contain the time of the driver's instructions.
        boot.clock_shift = 1;
        boot.run().unwrap()
    }

    /// Boots a guest, which must complete `steps`, and returns its report.
    fn guest_record(&self, steps: &str) -> Record {
        match self.boot(steps, None) {
            Outcome::Completed(record) => record,
            outcome => panic!("{}: {outcome}", self.series),
        }
    }

    /// Returns steps that load XFS and the kernel modules that it depends on.
    fn load_xfs(&self) -> String {
        let step = |path: &PathBuf| {
            format!("run drive module /modules/{}\n", path.file_name().unwrap().to_str().unwrap())
        };
        self.modules.iter().map(step).collect()
    }
}

/// Returns the path of the QEMU plugin that reports the guest's clock to the server. Cargo puts it
/// into the folder of this program.
fn plugin() -> PathBuf {
    let program = env::current_exe().unwrap();
    program.parent().unwrap().join("libinterleaf_qemu_clock.so")
}

/// Checks that all programs that the steps ran succeeded.
fn all_succeeded(record: &Record) {
    let failed = record.steps.iter().find(|taken| !taken.succeeded());
    assert!(failed.is_none(), "{}\n{record}", failed.unwrap().step);
}
