//! Listens on the Unix socket of a card, to which QEMU connects, and serves one connection at a
//! time.

use std::{
    fs, io,
    os::unix::net::{UnixListener, UnixStream},
    panic::{AssertUnwindSafe, catch_unwind},
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
};

use interleaf_card::{
    card::Card,
    nvme::{Contents, MemoryContents, NvmeController, NvmeSettings, SettingsError},
};
use signal_hook::{
    consts::{SIGINT, SIGTERM},
    iterator::Signals,
};
use vfio_bindings::bindings::vfio::{
    VFIO_IRQ_INFO_EVENTFD, VFIO_PCI_BAR0_REGION_INDEX, VFIO_PCI_CONFIG_REGION_INDEX,
    VFIO_PCI_MSIX_IRQ_INDEX, VFIO_PCI_NUM_IRQS, VFIO_PCI_NUM_REGIONS, VFIO_REGION_INFO_FLAG_READ,
    VFIO_REGION_INFO_FLAG_WRITE, vfio_region_info,
};
use vfio_user::{IrqInfo, Server, ServerRegion};

use crate::{
    config_space::{BAR_BYTES, CONFIG_BYTES, ConfigSpace},
    contents::{FileContents, WriteBack},
    device::{Connection, Device, Event, Listener, PowerCut, Shared},
    guest_clock::socket_of,
    pacer::{Clock, Latency, Pacer},
};

/// The storage of the card's contents.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Storage {
    /// Contents are in memory, and are lost when the server ends.
    Memory,
    /// Contents are in a sparse file of the size of the card.
    File(PathBuf),
}

/// Options of a card server.
#[derive(Clone)]
pub struct ServeOptions {
    /// The path of the Unix socket to which QEMU connects. The path must not exist.
    pub socket: PathBuf,
    /// The properties of the NVMe controller.
    pub settings: NvmeSettings,
    /// The storage of the card's contents: memory or a file.
    pub storage: Storage,
    /// The generation of the PCIe link, 1 to 5.
    pub link_generation: u8,
    /// The number of lanes of the PCIe link, 1 to 16.
    pub link_lanes: u8,
    /// The time from the doorbell of a command to its completion.
    pub latency: Latency,
    /// Receives the events of the server.
    pub listener: Listener,
}

impl ServeOptions {
    /// Returns the options for a card, with contents in memory. Events are ignored.
    ///
    /// The serial number is the file name of the socket: at most 20 of its letters, digits, `-`,
    /// `_` and `.`. The cards of a guest need different serial numbers, so their sockets need names
    /// that differ in these characters.
    #[must_use]
    pub fn of(card: &Card, socket: &Path) -> Self {
        let name = socket.file_name().unwrap_or_default().to_string_lossy();
        let serial = |c: &char| c.is_ascii_alphanumeric() || "-_.".contains(*c);
        let serial: String = name.chars().filter(serial).take(20).collect();
        let serial = if serial.is_empty() { "0" } else { &serial };
        let limited = |value: u32, most: u8| u8::try_from(value).unwrap_or(most).min(most);
        Self {
            socket: socket.to_path_buf(),
            settings: NvmeSettings::of(card, serial),
            storage: Storage::Memory,
            link_generation: limited(card.link.generation, 5),
            link_lanes: limited(card.link.lanes, 16),
            latency: Latency::None,
            listener: Arc::new(|_| {}),
        }
    }
}

/// The reason why a server cannot start.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// A file or a socket exists at this path.
    #[error("{0}: a file or a socket is there already; remove it if no other server runs")]
    Exists(PathBuf),
    /// The socket cannot be made.
    #[error("{path}: {why}")]
    Socket {
        /// The path of the Unix socket to which QEMU connects.
        path: PathBuf,
        /// The error of the system.
        why: io::Error,
    },
    /// The slow-down of the latency is zero.
    #[error("slow_down = 0: at least 1 is allowed")]
    SlowDown,
    /// The settings are invalid for a controller.
    #[error(transparent)]
    Settings(#[from] SettingsError),
    /// The file with the contents cannot be used; [`FileContents::open`] lists the reasons.
    #[error(transparent)]
    Contents(io::Error),
    /// Threads cannot be started, or signals cannot be received.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// A running server. When this value is dropped, the server removes its socket and accepts no new
/// connection. An existing connection lasts until QEMU or this process ends.
pub struct CardServer {
    shared: Arc<Shared>,
    socket: PathBuf,
    /// The path of the socket for the guest's clock; `None` if the card does not follow the guest's
    /// clock.
    clock: Option<PathBuf>,
    ends: Arc<AtomicBool>,
}

impl CardServer {
    /// Starts a server on a thread of its own.
    ///
    /// # Errors
    ///
    /// If the settings of the controller or the slow-down are invalid, the socket exists or cannot
    /// be made, the file of the contents cannot be used, or a thread cannot be started.
    pub fn start(options: &ServeOptions) -> Result<Self, ServeError> {
        // Check the socket, the settings and the slow-down first, so that a server that cannot
        // start because of them creates no file for the contents.
        check_free(&options.socket)?;
        let settings = options.settings.clone();
        let controller = NvmeController::new(settings.clone())?;
        let pacer = match &options.latency {
            Latency::None => None,
            Latency::Card { slow_down: 0, .. } => return Err(ServeError::SlowDown),
            Latency::Card { card, slow_down, clock } => {
                let mut card = card.clone();
                // NVMe cannot state a maximum transfer of less than 8 KiB. If the maximum of the
                // card's file is smaller, the pacer must still accept the larger commands.
                card.nvme.max_transfer = card.nvme.max_transfer.max(settings.transfer_bytes);
                Some(Pacer::new(&card, *slow_down, *clock))
            }
        };
        let durable: Box<dyn Contents + Send> = match &options.storage {
            Storage::Memory => Box::new(MemoryContents::default()),
            Storage::File(path) => {
                let file = FileContents::open(path, settings.capacity);
                Box::new(file.map_err(ServeError::Contents)?)
            }
        };
        let contents = WriteBack::new(durable, settings.block_bytes);
        let config = ConfigSpace::new(&settings, options.link_generation, options.link_lanes);
        let clock = pacer.as_ref().map(Pacer::clock);
        let clock_socket = socket_of(&options.socket);
        let device = Device::new(controller, contents, config, pacer, options.listener.clone());
        let shared = Arc::new(Shared::new(device));
        let listener = bind(&options.socket)?;
        let clock_listener = match clock {
            Some(Clock::Guest) => {
                let bound = bind(&clock_socket);
                // A card without the socket of its clock cannot be served, so the card's own socket
                // is removed too.
                Some(bound.inspect_err(|_| drop(fs::remove_file(&options.socket)))?)
            }
            _ => None,
        };
        let server =
            Server::from_owned_fd(listener.into(), true, irqs(settings.vectors), regions());
        let ends = Arc::new(AtomicBool::new(false));
        let report = options.listener.clone();
        let socket = options.socket.clone();
        let clock_socket = clock_listener.is_some().then_some(clock_socket);
        let started = Self { shared, socket, clock: clock_socket, ends };
        let (shared, ends) = (started.shared.clone(), started.ends.clone());
        let thread = thread::Builder::new().name("card-server".to_string());
        thread.spawn(move || connections(&server, &shared, &ends, &report))?;
        let (shared, ends) = (started.shared.clone(), started.ends.clone());
        if let Some(listener) = clock_listener {
            let thread = thread::Builder::new().name("card-clocks".to_string());
            let clock = shared.clock().clone();
            let tell = Arc::new(move |now| shared.lock().tell(now));
            thread.spawn(move || clock.serve(&listener, &ends, &tell))?;
        } else if clock.is_some() {
            let thread = thread::Builder::new().name("card-pacer".to_string());
            thread.spawn(move || shared.complete(|| ends.load(Ordering::SeqCst)))?;
        }
        Ok(started)
    }

    /// Returns the path of the Unix socket to which QEMU connects.
    #[must_use]
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// Schedules a failure of the card's power.
    pub fn cut_power(&self, cut: PowerCut) {
        self.shared.lock().cut_power(cut);
    }

    /// Returns true if the power of the card is on.
    #[must_use]
    pub fn has_power(&self) -> bool {
        self.shared.lock().has_power()
    }
}

impl Drop for CardServer {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::SeqCst);
        self.shared.wake();
        // For each socket, a thread waits for connections. Connect to the socket, so that this
        // thread wakes and ends. Ignore the results: both calls fail if another process has removed
        // the socket.
        for socket in [Some(&self.socket), self.clock.as_ref()].into_iter().flatten() {
            let _ = UnixStream::connect(socket);
            let _ = fs::remove_file(socket);
        }
    }
}

/// Serves a card until SIGINT or SIGTERM, then removes the socket. Calls `started` when QEMU can
/// connect.
///
/// # Errors
///
/// If [`CardServer::start`] fails, or signals cannot be received.
pub fn serve(options: &ServeOptions, started: impl FnOnce()) -> Result<(), ServeError> {
    let mut signals = Signals::new([SIGINT, SIGTERM])?;
    let server = CardServer::start(options)?;
    started();
    signals.forever().next();
    drop(server);
    Ok(())
}

fn check_free(path: &Path) -> Result<(), ServeError> {
    match path.symlink_metadata() {
        Ok(_) => Err(ServeError::Exists(path.to_path_buf())),
        Err(_) => Ok(()),
    }
}

fn bind(path: &Path) -> Result<UnixListener, ServeError> {
    check_free(path)?;
    let named = |why| ServeError::Socket { path: path.to_path_buf(), why };
    UnixListener::bind(path).map_err(named)
}

/// Serves connections until the server ends.
fn connections(server: &Server, shared: &Arc<Shared>, ends: &AtomicBool, report: &Listener) {
    while !ends.load(Ordering::SeqCst) {
        shared.lock().power_on();
        let mut backend = Connection { shared: shared.clone(), connected: false };
        // The crate `vfio_user` panics on some malformed messages. Such a panic ends only the
        // connection, not the server.
        let served = catch_unwind(AssertUnwindSafe(|| server.run(&mut backend)));
        shared.lock().disconnect();
        if ends.load(Ordering::SeqCst) {
            return;
        }
        report(Event::Disconnected(match served {
            Ok(Ok(())) => None,
            Ok(Err(why)) => Some(why.to_string()),
            Err(_) => Some("malformed message".to_string()),
        }));
    }
}

/// Returns the regions of the PCI device: BAR 0 and the configuration space.
fn regions() -> Vec<ServerRegion> {
    let size = |index| match index {
        VFIO_PCI_BAR0_REGION_INDEX => BAR_BYTES,
        VFIO_PCI_CONFIG_REGION_INDEX => CONFIG_BYTES as u64,
        _ => 0,
    };
    let region = |index| {
        let access = VFIO_REGION_INFO_FLAG_READ | VFIO_REGION_INFO_FLAG_WRITE;
        let region_info = vfio_region_info {
            argsz: size_of::<vfio_region_info>() as u32,
            flags: if size(index) == 0 { 0 } else { access },
            index,
            size: size(index),
            ..Default::default()
        };
        ServerRegion { region_info, sparse_areas: vec![], mmap_fd: None }
    };
    (0..VFIO_PCI_NUM_REGIONS).map(region).collect()
}

/// Returns the interrupts of the PCI device: only MSI-X, with one eventfd for each vector.
fn irqs(vectors: u16) -> Vec<IrqInfo> {
    let irq = |index| match index {
        VFIO_PCI_MSIX_IRQ_INDEX => {
            IrqInfo { index, flags: VFIO_IRQ_INFO_EVENTFD, count: vectors.into() }
        }
        _ => IrqInfo { index, flags: 0, count: 0 },
    };
    (0..VFIO_PCI_NUM_IRQS).map(irq).collect()
}

#[cfg(test)]
pub(crate) mod tests {
    use interleaf_card::nvme::NvmeVersion;

    use super::*;

    /// Returns the settings of a small card.
    pub(crate) fn settings() -> NvmeSettings {
        NvmeSettings {
            version: NvmeVersion::V1_4,
            vendor: 0x11f8,
            subsystem_vendor: 0x11f8,
            model: "Test card".to_string(),
            serial: "0001".to_string(),
            firmware: "1.0".to_string(),
            capacity: 64 << 20,
            block_bytes: 512,
            queues: 4,
            queue_entries: 256,
            vectors: 5,
            transfer_bytes: 128 << 10,
            atomic_bytes: 4096,
            write_cache: false,
        }
    }

    fn options(folder: &Path) -> ServeOptions {
        ServeOptions {
            socket: folder.join("socket"),
            settings: settings(),
            storage: Storage::Memory,
            link_generation: 3,
            link_lanes: 8,
            latency: Latency::None,
            listener: Arc::new(|_| {}),
        }
    }

    #[test]
    fn each_built_in_card_can_be_served() {
        for name in interleaf_card::card::names() {
            let card = interleaf_card::card::by_name(name).unwrap();
            let options = ServeOptions::of(&card, Path::new("/run/card-1.socket"));
            assert_eq!(options.settings.check(), Ok(()), "{name}");
            assert_eq!(options.settings.serial, "card-1.socket");
            assert_eq!(options.settings.capacity, card.memory.capacity);
        }
    }

    #[test]
    fn a_server_needs_a_new_socket_and_removes_it() {
        let folder = tempfile::tempdir().unwrap();
        let options = options(folder.path());
        let server = CardServer::start(&options).unwrap();
        assert!(options.socket.exists());
        let why = CardServer::start(&options).err().unwrap().to_string();
        assert!(why.contains("socket: a file or a socket is there already"), "{why}");
        drop(server);
        assert!(!options.socket.exists());
        drop(CardServer::start(&options).unwrap());
    }
}
