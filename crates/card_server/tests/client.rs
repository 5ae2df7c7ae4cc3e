//! Tests the server with a client of the crate `vfio_user` in place of QEMU. Each test is a small
//! driver.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{
    fs::File,
    io::{Read, Write},
    os::{
        fd::AsRawFd,
        unix::{fs::FileExt, net::UnixStream},
    },
    path::Path,
    sync::{
        Arc,
        mpsc::{Receiver, Sender, channel},
    },
    thread,
};

use interleaf_card::{
    card,
    nvme::{NvmeSettings, SubmissionEntry},
};
use interleaf_card_server::{
    CardServer, Clock, Event, Latency, PowerCut, ServeOptions, Storage, guest_clock::socket_of,
};
use rustix::{
    event::{EventfdFlags, eventfd},
    fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create},
};
use vfio_user::Client;

const BAR: u32 = 0;
const CONFIG: u32 = 7;
const MSIX: u32 = 2;
/// Flags of a message that has one descriptor for each vector: the eventfd that receives the
/// interrupts of the vector (`VFIO_IRQ_SET_DATA_EVENTFD` and `VFIO_IRQ_SET_ACTION_TRIGGER`).
const TRIGGER_BY_EVENTFD: u32 = 0x24;

/// The bus address at which the driver's memory begins.
const MEMORY: u64 = 0x10_0000;
const BYTES: u64 = 0x1_0000;

/// A running card server, the events that it reports, and the folder of its socket.
struct Bench {
    server: CardServer,
    events: Receiver<Event>,
    folder: tempfile::TempDir,
}

impl Bench {
    fn new(latency: Latency) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (sender, events): (Sender<Event>, _) = channel();
        let server = CardServer::start(&options(folder.path(), latency, sender)).unwrap();
        Self { server, events, folder }
    }

    fn connect(&self) -> Driver {
        Driver::new(self.server.socket())
    }

    /// Waits for the next event.
    fn event(&self) -> Event {
        self.events.recv().unwrap()
    }
}

/// A server with an invalid slow-down is refused before its file for the contents is created.
#[test]
fn a_slow_down_of_zero_is_refused_and_leaves_no_file() {
    let folder = tempfile::tempdir().unwrap();
    let card = Box::new(card::by_name("flashtec-dram").unwrap());
    let latency = Latency::Card { card, slow_down: 0, clock: Clock::Host };
    let why = CardServer::start(&options(folder.path(), latency, channel().0)).err().unwrap();
    assert_eq!(why.to_string(), "slow_down = 0: at least 1 is allowed");
    assert_eq!(folder.path().read_dir().unwrap().count(), 0);
}

fn options(folder: &Path, latency: Latency, sender: Sender<Event>) -> ServeOptions {
    let card = card::by_name("flashtec-dram").unwrap();
    let served = ServeOptions::of(&card, &folder.join("card"));
    ServeOptions {
        settings: NvmeSettings { write_cache: true, ..served.settings },
        storage: Storage::File(folder.join("contents")),
        latency,
        // Ignore a failed send: after the end of the test, the receiver is dropped.
        listener: Arc::new(move |event| drop(sender.send(event))),
        ..served
    }
}

/// A driver with the admin queue, and I/O queue 1 on vector 1.
struct Driver {
    client: Client,
    memory: File,
    /// The eventfds of vectors 0 and 1.
    vectors: [File; 2],
    /// The number of commands submitted so far to the admin queue, and to I/O queue 1.
    commands: [u32; 2],
}

/// Offsets in the driver's memory. For the admin queue and I/O queue 1, `SUBMISSIONS` has the
/// offsets of the submission queues, and `COMPLETIONS` those of the completion queues. `DATA` is
/// the offset of the data of commands.
const SUBMISSIONS: [u64; 2] = [0x1000, 0x3000];
const COMPLETIONS: [u64; 2] = [0x2000, 0x4000];
const DATA: u64 = 0x8000;

impl Driver {
    fn new(socket: &Path) -> Self {
        let mut client = Client::new(socket).unwrap();
        let memory = File::from(memfd_create("memory", MemfdFlags::empty()).unwrap());
        memory.set_len(BYTES).unwrap();
        client.dma_map(0, MEMORY, BYTES, memory.as_raw_fd()).unwrap();
        let vector = || File::from(eventfd(0, EventfdFlags::empty()).unwrap());
        let vectors = [vector(), vector()];
        for (number, vector) in (0..).zip(&vectors) {
            let descriptors = [vector.as_raw_fd()];
            client.set_irqs(MSIX, TRIGGER_BY_EVENTFD, number, 1, &descriptors).unwrap();
        }
        Self { client, memory, vectors, commands: [0; 2] }
    }

    fn register(&mut self, offset: u64, value: u32) {
        self.client.region_write(BAR, offset, &value.to_le_bytes()).unwrap();
    }

    fn read(&mut self, region: u32, offset: u64) -> u32 {
        let mut data = [0; 4];
        self.client.region_read(region, offset, &mut data).unwrap();
        u32::from_le_bytes(data)
    }

    fn enable(&mut self) {
        self.register(0x24, 15 << 16 | 15);
        self.register(0x28, (MEMORY + SUBMISSIONS[0]) as u32);
        self.register(0x30, (MEMORY + COMPLETIONS[0]) as u32);
        self.register(0x14, 0x0046_0001);
        assert_eq!(self.read(BAR, 0x1c), 1);
    }

    fn create_queues(&mut self) {
        let create =
            |opcode, page, dword_11| entry(opcode, MEMORY + page, [15 << 16 | 1, dword_11, 0]);
        assert_eq!(self.execute(0, create(5, COMPLETIONS[1], 1 << 16 | 3)), 0);
        assert_eq!(self.execute(0, create(1, SUBMISSIONS[1], 1 << 16 | 1)), 0);
    }

    /// Executes a command, waits for its interrupt, and returns the status field.
    fn execute(&mut self, queue: usize, entry: SubmissionEntry) -> u16 {
        let number = self.commands[queue];
        self.commands[queue] += 1;
        let slot = u64::from(number % 16);
        let entry = SubmissionEntry { identifier: number as u16, ..entry };
        self.memory.write_all_at(&entry.bytes(), SUBMISSIONS[queue] + 64 * slot).unwrap();
        self.register(0x1000 + 8 * queue as u64, (number + 1) % 16);
        self.vectors[queue].read_exact(&mut [0; 8]).unwrap();
        let mut completion = [0; 16];
        self.memory.read_exact_at(&mut completion, COMPLETIONS[queue] + 16 * slot).unwrap();
        self.register(0x1004 + 8 * queue as u64, (number + 1) % 16);
        let word = |at| u16::from_le_bytes([completion[at], completion[at + 1]]);
        assert_eq!(word(12), number as u16);
        assert_eq!(word(14) & 1, u16::from((number / 16).is_multiple_of(2)));
        word(14) >> 1
    }

    /// Writes the logical block `block`, with all bytes equal to `value`. Returns the status field.
    fn write(&mut self, block: u32, value: u8) -> u16 {
        self.memory.write_all_at(&[value; 512], DATA).unwrap();
        self.execute(1, entry(1, MEMORY + DATA, [block, 0, 0]))
    }

    fn block(&mut self, block: u32) -> u8 {
        assert_eq!(self.execute(1, entry(2, MEMORY + DATA, [block, 0, 0])), 0);
        let mut data = [0; 512];
        self.memory.read_exact_at(&mut data, DATA).unwrap();
        assert!(data.iter().all(|byte| *byte == data[0]));
        data[0]
    }
}

fn entry(opcode: u8, prp1: u64, [ten, eleven, twelve]: [u32; 3]) -> SubmissionEntry {
    let dwords = [ten, eleven, twelve, 0, 0, 0];
    SubmissionEntry { opcode, flags: 0, identifier: 0, namespace: 1, prp1, prp2: 0, dwords }
}

#[test]
fn contents_outlive_connections_and_volatile_writes_do_not_outlive_power() {
    let bench = Bench::new(Latency::None);
    let mut driver = bench.connect();
    driver.enable();
    driver.create_queues();
    // Execute more commands than the queue has entries, so that the phase bit changes.
    for block in 0..20 {
        assert_eq!(driver.write(block, block as u8 + 1), 0);
    }
    assert_eq!((driver.block(0), driver.block(19), driver.block(20)), (1, 20, 0));
    assert_eq!(driver.execute(1, entry(0, 0, [0; 3])), 0);
    drop(driver);
    assert_eq!([bench.event(), bench.event()], [Event::Connected, Event::Disconnected(None)]);

    let mut driver = bench.connect();
    driver.enable();
    driver.create_queues();
    assert_eq!(driver.block(19), 20);
    assert_eq!(driver.write(0, 99), 0);
    assert_eq!(driver.block(0), 99);
    bench.server.cut_power(PowerCut { after: 0, survives: Box::new(|| false) });
    assert!(!bench.server.has_power());
    assert_eq!(driver.read(BAR, 0), u32::MAX);
    driver.register(0x14, 0);
    drop(driver);
    let lost = [Event::Connected, Event::PowerLost(512), Event::Disconnected(None)];
    assert_eq!([bench.event(), bench.event(), bench.event()], lost);

    let mut driver = bench.connect();
    driver.enable();
    driver.create_queues();
    assert_eq!((driver.block(0), driver.block(1)), (1, 2));
}

#[test]
fn a_power_failure_reports_a_unit_that_cannot_be_written() {
    let contents = memfd_create("contents", MemfdFlags::ALLOW_SEALING).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let (sender, events) = channel();
    let server = CardServer::start(&ServeOptions {
        storage: Storage::File(format!("/proc/self/fd/{}", contents.as_raw_fd()).into()),
        ..options(folder.path(), Latency::None, sender)
    });
    let server = server.unwrap();
    let mut driver = Driver::new(server.socket());
    driver.enable();
    driver.create_queues();
    assert_eq!(driver.write(3, 7), 0);
    fcntl_add_seals(&contents, SealFlags::WRITE).unwrap();
    server.cut_power(PowerCut { after: 0, survives: Box::new(|| true) });
    let failed = [Event::Connected, Event::PowerLost(512), Event::WriteFailed(3 * 512)];
    assert_eq!([(); 3].map(|()| events.recv().unwrap()), failed);
}

#[test]
fn a_paced_card_completes_all_commands() {
    let card = Box::new(card::by_name("all-mram").unwrap());
    let bench = Bench::new(Latency::Card { card, slow_down: 1, clock: Clock::Host });
    let mut driver = bench.connect();
    driver.enable();
    driver.create_queues();
    for block in 0..40 {
        assert_eq!(driver.write(block, 7), 0);
        assert_eq!(driver.block(block), 7);
    }
    assert_eq!(driver.execute(1, entry(0, 0, [0; 3])), 0);
    // Reset the controller while nothing is outstanding, and start it again: the contents must be
    // kept.
    driver.register(0x14, 0);
    driver.memory.write_all_at(&[0; 0x5000], 0).unwrap();
    driver.commands = [0; 2];
    driver.enable();
    driver.create_queues();
    assert_eq!(driver.block(39), 7);
}

/// A substitute for QEMU's plugin that reports the guest's clock. The clock advances by 1 us at
/// each doorbell, and then jumps to the time of each next completion.
struct Plugin {
    doorbells: UnixStream,
    clock: UnixStream,
    /// The eventfds of vectors 0 and 1.
    vectors: [File; 2],
    now: u64,
}

impl Plugin {
    fn connect(bench: &Bench, driver: &Driver) -> Self {
        let connect = |kind: u8| {
            let mut stream = UnixStream::connect(socket_of(bench.server.socket())).unwrap();
            stream.write_all(&[kind]).unwrap();
            stream
        };
        let vectors = driver.vectors.each_ref().map(|vector| vector.try_clone().unwrap());
        let mut plugin = Self { doorbells: connect(b'D'), clock: connect(b'C'), vectors, now: 0 };
        // The server accepts connections in order. Its answer on the second connection therefore
        // shows that it has accepted the first connection.
        assert_eq!(plugin.tell(), None);
        plugin
    }

    /// Tells the server the time, and raises the vectors that the server returns. Returns the time
    /// of the next completion, ns; `None` if no command is outstanding.
    fn tell(&mut self) -> Option<u64> {
        self.clock.write_all(&self.now.to_le_bytes()).unwrap();
        let (mut next, mut count) = ([0; 8], [0; 2]);
        self.clock.read_exact(&mut next).unwrap();
        self.clock.read_exact(&mut count).unwrap();
        for _ in 0..u16::from_le_bytes(count) {
            let mut vector = [0; 2];
            self.clock.read_exact(&mut vector).unwrap();
            let vector = &mut self.vectors[usize::from(u16::from_le_bytes(vector))];
            vector.write_all(&1_u64.to_ne_bytes()).unwrap();
        }
        let next = u64::from_le_bytes(next);
        (next != u64::MAX).then_some(next)
    }

    /// Answers doorbells until the server ends, and sends the latency of each I/O to `latencies`,
    /// ns.
    fn run(mut self, latencies: &Sender<u64>) {
        let mut byte = [0];
        while self.doorbells.read_exact(&mut byte).is_ok() {
            self.now += 1000;
            self.doorbells.write_all(&byte).unwrap();
            let doorbell = self.now;
            while let Some(next) = self.tell() {
                assert!(next > self.now);
                self.now = next;
            }
            if self.now > doorbell && latencies.send(self.now - doorbell).is_err() {
                return;
            }
        }
    }
}

#[test]
fn with_the_guests_clock_latencies_are_those_of_the_model() {
    let of_card = |slow_down| {
        let card = Box::new(card::by_name("flashtec-dram").unwrap());
        let bench = Bench::new(Latency::Card { card, slow_down, clock: Clock::Guest });
        let mut driver = bench.connect();
        let (sender, latencies) = channel();
        let plugin = Plugin::connect(&bench, &driver);
        thread::spawn(move || plugin.run(&sender));
        driver.enable();
        driver.create_queues();
        assert_eq!(driver.write(3, 9), 0);
        assert_eq!((driver.block(3), driver.block(3)), (9, 9));
        latencies.iter().take(3).collect::<Vec<_>>()
    };
    let model = of_card(1);
    assert_eq!(model, of_card(1));
    assert!(model.iter().all(|latency| (1_000..10_000).contains(latency)), "{model:?} ns");
    let ratios = model.iter().zip(of_card(1000)).map(|(one, slow)| slow as f64 / *one as f64);
    // The card with a slow-down of 1000 must be 1000 times slower. The tolerance covers the
    // rounding to nanoseconds, and refreshes that occur at other times.
    assert!(ratios.clone().all(|ratio| (900.0..1100.0).contains(&ratio)), "{model:?} ns");
}

#[test]
fn without_the_guests_clock_doorbells_are_reported() {
    let card = Box::new(card::by_name("flashtec-dram").unwrap());
    let bench = Bench::new(Latency::Card { card, slow_down: 1, clock: Clock::Guest });
    let mut driver = bench.connect();
    driver.enable();
    assert_eq!(bench.event(), Event::Connected);
    assert_eq!(bench.event(), Event::ClockMissing);
    assert_eq!(driver.read(BAR, 0x1c), 1);
    // The plugin's connections begin with the byte `D` or `C`. A connection that begins with
    // another byte, or sends nothing, must not disturb the server.
    for first in [b"X".as_slice(), b""] {
        let mut stream = UnixStream::connect(socket_of(bench.server.socket())).unwrap();
        stream.write_all(first).unwrap();
    }
    let sockets = [bench.server.socket().to_path_buf(), socket_of(bench.server.socket())];
    let why = CardServer::start(&options(bench.folder.path(), Latency::None, channel().0));
    assert!(why.is_err());
    drop((driver, bench.server));
    assert!(sockets.iter().all(|socket| !socket.exists()));
}

#[test]
fn faults_of_the_guest_are_reported() {
    let bench = Bench::new(Latency::None);
    let mut driver = bench.connect();
    assert_eq!(driver.read(CONFIG, 8) >> 8, 0x01_0802);
    driver.enable();
    // Ring a doorbell without a new entry. The server finds zeros in the queue, as it would if the
    // guest's memory were not shared, and reports that the memory is not shared.
    driver.register(0x1000, 1);
    assert_eq!([bench.event(), bench.event()], [Event::Connected, Event::MemoryNotShared]);
    driver.create_queues();
    driver.memory.set_len(0).unwrap();
    driver.register(0x1008, 1);
    assert_eq!(bench.event(), Event::ControllerFailed);
    assert_eq!(driver.read(BAR, 0x1c), 3);
    // When the memory exists again, the device works after a reset.
    driver.memory.set_len(BYTES).unwrap();
    driver.client.reset().unwrap();
    driver.commands = [0; 2];
    driver.enable();
    driver.create_queues();
    assert_eq!(driver.block(0), 0);
    driver.client.dma_unmap(MEMORY, BYTES).unwrap();
    driver.register(0x1008, 2);
    assert_eq!(bench.event(), Event::ControllerFailed);
}

/// A malformed message ends at most its own connection. The server accepts the next connection.
#[test]
fn malformed_messages_do_not_end_the_server() {
    let bench = Bench::new(Latency::None);
    // The header of a vfio-user message: identifier, command, size, flags and error.
    let header = |command: u16, bytes: u32| {
        let words = [u32::from(command) << 16, bytes, 0, 0];
        words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<u8>>()
    };
    let version_without_end = [header(1, 24), vec![0, 0, 0, 0], b"{}{}".to_vec()].concat();
    let version_too_short = [header(1, 16), vec![0; 4]].concat();
    let unknown_command = header(99, 16);
    let half_a_header = vec![1, 2, 3];
    let far_read = [header(9, 32), vec![0xff; 8], vec![7, 0, 0, 0], vec![0, 0x10, 0, 0]].concat();
    let messages =
        [version_without_end, version_too_short, unknown_command, half_a_header, far_read];
    for message in messages {
        let mut stream = UnixStream::connect(bench.server.socket()).unwrap();
        // Ignore a failed write, because the server may have closed the connection already.
        let _ = stream.write_all(&message);
        drop(stream);
    }
    let mut driver = bench.connect();
    driver.enable();
    driver.create_queues();
    assert_eq!(driver.write(0, 1), 0);
    assert!(bench.folder.path().join("contents").exists());
}
