//! Tests the NVMe controller with a small driver.

mod arbitration;
mod hostile;
mod transfers;

use super::{registers, *};

/// The memory of the host, which begins at the address 0.
struct Host(Vec<u8>);

impl Host {
    fn range(&self, address: u64, bytes: usize) -> Result<std::ops::Range<usize>, Outside> {
        let outside = Outside { address };
        let start = usize::try_from(address).map_err(|_| outside)?;
        let end = start.checked_add(bytes).filter(|end| *end <= self.0.len());
        end.map(|end| start..end).ok_or(outside)
    }
}

impl HostMemory for Host {
    fn read(&self, address: u64, data: &mut [u8]) -> Result<(), Outside> {
        data.copy_from_slice(&self.0[self.range(address, data.len())?]);
        Ok(())
    }

    fn write(&mut self, address: u64, data: &[u8]) -> Result<(), Outside> {
        let range = self.range(address, data.len())?;
        self.0[range].copy_from_slice(data);
        Ok(())
    }
}

/// Contents of the namespace that count flushes and durable writes, and that can fail.
#[derive(Default)]
struct Counting {
    contents: MemoryContents,
    flushes: u32,
    durable: u32,
    fails: bool,
}

impl Counting {
    fn checked(&self, offset: u64) -> Result<(), ContentsFault> {
        if self.fails { Err(ContentsFault { offset }) } else { Ok(()) }
    }
}

impl Contents for Counting {
    fn read(&mut self, offset: u64, data: &mut [u8]) -> Result<(), ContentsFault> {
        self.checked(offset)?;
        self.contents.read(offset, data)
    }

    fn write(&mut self, offset: u64, data: &[u8], durable: bool) -> Result<(), ContentsFault> {
        self.checked(offset)?;
        self.durable += u32::from(durable);
        self.contents.write(offset, data, durable)
    }

    fn zero(&mut self, offset: u64, bytes: u64, durable: bool) -> Result<(), ContentsFault> {
        self.checked(offset)?;
        self.contents.zero(offset, bytes, durable)
    }

    fn flush(&mut self) -> Result<(), ContentsFault> {
        self.checked(0)?;
        self.flushes += 1;
        Ok(())
    }
}

fn settings() -> NvmeSettings {
    NvmeSettings {
        version: NvmeVersion::V1_4,
        vendor: 0x11f8,
        subsystem_vendor: 0x11f8,
        model: "Card".to_string(),
        serial: "7".to_string(),
        firmware: "1".to_string(),
        capacity: 1 << 20,
        block_bytes: 512,
        queues: 2,
        queue_entries: 64,
        vectors: 3,
        transfer_bytes: 128 << 10,
        atomic_bytes: 4096,
        write_cache: true,
    }
}

/// Size of the memory of the host, bytes.
const MEMORY: usize = 1 << 20;
/// Submission queue `n` is at the address `QUEUES_AT * (1 + 2 n)`. Completion queue `n` is in the
/// next page of 4 KiB.
const QUEUES_AT: u64 = 0x1000;
/// The address in host memory at which the data of commands begin.
const DATA_AT: u64 = 0x1_0000;
/// Number of entries of each queue of the driver.
const ENTRIES: u32 = 8;

/// The result of a command, or its status as a pair of status code type and status code.
type Executed = Result<u32, (u8, u8)>;

/// A driver with the admin queue, and optionally I/O queue 1.
struct Driver {
    controller: NvmeController,
    host: Host,
    contents: Counting,
    /// For each queue: the tail of the submission queue, the head of the completion queue, and the
    /// expected phase bit.
    queues: [(u32, u32, bool); 2],
    identifier: u16,
}

impl Driver {
    /// Creates a driver with an enabled controller and no I/O queue.
    fn enabled(settings: NvmeSettings) -> Self {
        let mut driver = Self {
            controller: NvmeController::new(settings).unwrap(),
            host: Host(vec![0; MEMORY]),
            contents: Counting::default(),
            queues: [(0, 0, true); 2],
            identifier: 0,
        };
        driver.enable();
        driver
    }

    fn enable(&mut self) {
        self.queues = [(0, 0, true); 2];
        self.host.0[QUEUES_AT as usize..DATA_AT as usize].fill(0);
        self.register(registers::AQA, (ENTRIES - 1) << 16 | (ENTRIES - 1));
        self.register(registers::ASQ, QUEUES_AT as u32);
        self.register(registers::ACQ, 2 * QUEUES_AT as u32);
        self.register(registers::CC, 0x0046_0001);
        assert_eq!(self.status(), registers::READY);
    }

    /// Creates a driver with I/O queue 1 on vector 1.
    fn new() -> Self {
        let mut driver = Self::enabled(settings());
        driver.create_queue();
        driver
    }

    fn create_queue(&mut self) {
        let size = (ENTRIES - 1) << 16 | 1;
        assert_eq!(self.admin(5, 0, 4 * QUEUES_AT, [size, 1 << 16 | 3, 0]), Ok(0));
        assert_eq!(self.admin(1, 0, 3 * QUEUES_AT, [size, 1 << 16 | 1, 0]), Ok(0));
    }

    fn attached(&mut self) -> (&mut NvmeController, Attachments<'_>) {
        let attached = Attachments { memory: &mut self.host, contents: &mut self.contents };
        (&mut self.controller, attached)
    }

    fn register(&mut self, offset: u64, value: u32) {
        let (controller, mut attached) = self.attached();
        controller.register_write(offset, &value.to_le_bytes(), &mut attached);
    }

    fn status(&self) -> u32 {
        let mut status = [0; 4];
        self.controller.register_read(registers::CSTS, &mut status);
        u32::from_le_bytes(status)
    }

    /// Writes an entry into a submission queue, without the doorbell.
    fn put(&mut self, queue: usize, entry: &SubmissionEntry) {
        let tail = &mut self.queues[queue].0;
        let base = QUEUES_AT * (1 + 2 * queue as u64);
        let at = base + u64::from(*tail) * 64;
        *tail = (*tail + 1) % ENTRIES;
        self.host.write(at, &entry.bytes()).unwrap();
    }

    fn ring(&mut self, queue: usize) {
        let tail = self.queues[queue].0;
        self.register(registers::DOORBELLS + 8 * queue as u64, tail);
    }

    /// Fetches and completes all commands. Returns the tags of the I/O commands.
    fn work(&mut self) -> Vec<u32> {
        let mut tags = vec![];
        let (controller, mut attached) = self.attached();
        while let Some(command) = controller.fetch(&mut attached) {
            tags.push(command.tag);
            controller.complete(command.tag, &mut attached);
        }
        tags
    }

    /// Takes the next completion of a queue: command identifier, and result or status. `None` if
    /// the queue has no new entry.
    fn take(&mut self, queue: usize) -> Option<(u16, Executed)> {
        let base = QUEUES_AT * (2 + 2 * queue as u64);
        let (_, head, phase) = &mut self.queues[queue];
        let mut entry = [0; 16];
        self.host.read(base + u64::from(*head) * 16, &mut entry).unwrap();
        if (entry[14] & 1 == 1) != *phase {
            return None;
        }
        *head = (*head + 1) % ENTRIES;
        *phase ^= *head == 0;
        let head = *head;
        self.register(registers::DOORBELLS + 8 * queue as u64 + 4, head);
        let status = u16::from_le_bytes([entry[14], entry[15]]) >> 1;
        let result = u32::from_le_bytes([entry[0], entry[1], entry[2], entry[3]]);
        let code = ((status >> 8 & 7) as u8, status as u8);
        let identifier = u16::from_le_bytes([entry[12], entry[13]]);
        Some((identifier, if code == (0, 0) { Ok(result) } else { Err(code) }))
    }

    fn execute(&mut self, queue: usize, entry: SubmissionEntry) -> Executed {
        self.identifier += 1;
        self.put(queue, &SubmissionEntry { identifier: self.identifier, ..entry });
        self.ring(queue);
        self.work();
        let (identifier, outcome) = self.take(queue).expect("a command is completed");
        assert_eq!(identifier, self.identifier);
        outcome
    }

    fn admin(&mut self, opcode: u8, namespace: u32, prp1: u64, dwords: [u32; 3]) -> Executed {
        self.execute(0, SubmissionEntry { namespace, prp1, ..command(opcode, dwords) })
    }

    /// Executes a command of I/O queue 1 on `blocks` blocks of namespace 1, beginning with the
    /// block `block`. The data are at `DATA_AT`.
    fn io(&mut self, opcode: u8, block: u32, blocks: u32) -> Executed {
        let entry = command(opcode, [block, 0, blocks - 1]);
        self.execute(1, SubmissionEntry { prp2: DATA_AT + 4096, ..entry })
    }
}

/// Returns a command for namespace 1 with the given dwords 10 to 12, and its data at `DATA_AT`.
fn command(opcode: u8, [ten, eleven, twelve]: [u32; 3]) -> SubmissionEntry {
    SubmissionEntry {
        opcode,
        flags: 0,
        identifier: 0,
        namespace: 1,
        prp1: DATA_AT,
        prp2: 0,
        dwords: [ten, eleven, twelve, 0, 0, 0],
    }
}
