//! Applies the requests of a connection to the controller.
//!
//! The server answers no request with an error: the error reply of the crate `vfio_user` has no
//! error number, and QEMU mistakes such a reply for a short read. As on a PCI bus, reads outside of
//! all registers return ones, and writes outside of all registers are ignored.

use std::{
    fs::File,
    io::{self, Write},
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use interleaf_card::{
    io::IoCommand,
    nvme::{Attachments, HostMemory, NvmeController},
};
use vfio_bindings::bindings::vfio::{
    VFIO_IRQ_SET_DATA_EVENTFD, VFIO_PCI_BAR0_REGION_INDEX, VFIO_PCI_CONFIG_REGION_INDEX,
    VFIO_PCI_MSIX_IRQ_INDEX,
};
use vfio_user::{DmaMapFlags, DmaUnmapFlags, ServerBackend};

use crate::{
    config_space::{ConfigEffect, ConfigSpace},
    contents::WriteBack,
    guest_clock::{Answer, GuestClock},
    guest_memory::GuestMemory,
    pacer::{Clock, Pacer},
};

/// An event that the server reports to its user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// QEMU has connected.
    Connected,
    /// QEMU has disconnected. The text is the reason, if the end was unexpected.
    Disconnected(Option<String>),
    /// The guest's memory is not shared with the server: QEMU needs
    /// `-object memory-backend-memfd,share=on`.
    MemoryNotShared,
    /// The power of the card failed, with this number of bytes in the volatile write cache.
    PowerLost(u64),
    /// A unit of the volatile write cache that survives the power failure could not be written to
    /// the contents. The number is the unit's offset in bytes. This unit and all later units are
    /// lost.
    WriteFailed(u64),
    /// The guest has rung a doorbell, and no plugin reports the guest's clock: QEMU needs
    /// `-plugin`.
    ClockMissing,
    /// A queue was in memory that does not exist; the guest must reset the controller.
    ControllerFailed,
}

/// A failure of the card's power. Commands that are not completed are lost. Any set of units of the
/// volatile write cache may survive, because a cache may write its units back in any order. From
/// the failure to the next connection, reads return ones and writes are ignored.
pub struct PowerCut {
    /// The power fails after this number of I/O commands has completed; 0 for a failure at once. A
    /// command that the host aborts, and a command of a queue that the host deletes, count too.
    pub after: u64,
    /// Is called for each unit of the volatile write cache, and returns true if the unit survives.
    pub survives: Box<dyn FnMut() -> bool + Send>,
}

/// A function that receives the events of a server.
pub type Listener = Arc<dyn Fn(Event) + Send + Sync>;

/// A card, with the state of its connection to QEMU.
pub struct Device {
    controller: NvmeController,
    contents: WriteBack,
    memory: GuestMemory,
    /// Decides when commands complete. Without a pacer, commands complete at once.
    pacer: Option<Pacer>,
    /// The number of resets of the controller when the pacer was last reset. If the controller has
    /// been reset since then, the pacer still has commands from before that reset.
    resets: u64,
    config: ConfigSpace,
    /// The configuration space after power-on, which a reset of the device restores.
    initial_config: ConfigSpace,
    /// The eventfd of each MSI-X vector; `None` if QEMU has sent no eventfd for the vector.
    vectors: Vec<Option<File>>,
    /// MSI-X vectors that are due, if the card follows the guest's clock. The server does not raise
    /// them: the next answer to QEMU's plugin lists them, and the plugin raises them.
    raised: Vec<u16>,
    has_power: bool,
    cut: Option<PowerCut>,
    has_failed: bool,
    listener: Listener,
}

impl Device {
    /// Creates a card whose power is off.
    #[must_use]
    pub(crate) fn new(
        controller: NvmeController,
        contents: WriteBack,
        config: ConfigSpace,
        pacer: Option<Pacer>,
        listener: Listener,
    ) -> Self {
        let vectors = (0..controller.settings().vectors).map(|_| None).collect();
        Self {
            controller,
            contents,
            memory: GuestMemory::default(),
            pacer,
            resets: 0,
            initial_config: config.clone(),
            config,
            vectors,
            raised: vec![],
            has_power: false,
            cut: None,
            has_failed: false,
            listener,
        }
    }

    /// Switches the power on, at the start of a connection. The registers get their initial values.
    pub fn power_on(&mut self) {
        self.disconnect();
        self.config = self.initial_config.clone();
        self.controller.reset_function();
        self.has_power = true;
    }

    /// Removes the guest's memory and interrupts, and resets the controller, at the end of a
    /// connection.
    pub fn disconnect(&mut self) {
        self.memory.clear();
        self.vectors.fill_with(|| None);
        self.raised.clear();
        self.controller.reset_function();
        self.has_failed = false;
    }

    /// Schedules a power failure after a number of further I/O commands: see [`PowerCut`].
    pub fn cut_power(&mut self, cut: PowerCut) {
        self.cut = Some(cut);
        self.lose_power_if_due();
    }

    /// Returns true if the power is on. A power failure switches the power off. The power is on
    /// again when the server waits for the next connection.
    #[must_use]
    pub fn has_power(&self) -> bool {
        self.has_power
    }

    fn lose_power_if_due(&mut self) {
        let Some(mut cut) = self.cut.take_if(|cut| cut.after == 0) else { return };
        self.has_power = false;
        let volatile = self.contents.volatile_bytes();
        self.disconnect();
        let written = self.contents.power_failure(&mut cut.survives);
        (self.listener)(Event::PowerLost(volatile));
        if let Err(fault) = written {
            (self.listener)(Event::WriteFailed(fault.offset));
        }
    }

    fn attached(&mut self) -> (&mut NvmeController, Attachments<'_>) {
        let attached = Attachments { memory: &mut self.memory, contents: &mut self.contents };
        (&mut self.controller, attached)
    }

    /// Writes a register or doorbell. Then fetches all waiting commands, unless the card follows
    /// the guest's clock. If the guest's memory is not shared, ignores the doorbell of the admin
    /// queue and reports [`Event::MemoryNotShared`].
    fn write_register(&mut self, offset: u64, data: &[u8]) {
        if offset == ADMIN_DOORBELL && self.memory_is_private() {
            (self.listener)(Event::MemoryNotShared);
            return;
        }
        let (controller, mut attached) = self.attached();
        controller.register_write(offset, data, &mut attached);
        // With the guest's clock, commands are fetched later: when the plugin reports the time of
        // the doorbell.
        if !self.follows_guest() {
            self.fetch_all();
        }
    }

    /// Returns true if the card follows the guest's clock, which a plugin of QEMU reports, and not
    /// the clock of this machine.
    fn follows_guest(&self) -> bool {
        self.pacer.as_ref().is_some_and(|pacer| pacer.clock() == Clock::Guest)
    }

    /// Sets the guest's time to `guest`, which QEMU's plugin has reported. Completes the commands
    /// that are due, and fetches new commands. Returns the answer to the plugin.
    pub(crate) fn tell(&mut self, guest: Duration) -> Answer {
        self.pacer.iter_mut().for_each(|pacer| pacer.tell(guest));
        self.advance();
        self.fetch_all();
        let next = self.pacer.as_ref().and_then(Pacer::next_completion);
        Answer { next, vectors: std::mem::take(&mut self.raised) }
    }

    /// Fetches all waiting commands, then signals interrupts. The pacer delays the completion of
    /// each command. Without a pacer, or if the pacer refuses a command, the command completes at
    /// once.
    fn fetch_all(&mut self) {
        while let Some(command) = self.fetch() {
            self.forget_after_reset();
            let arbitration = self.controller.arbitration();
            self.pacer.iter_mut().for_each(|pacer| pacer.arbitrate(arbitration));
            let is_delayed = self.pacer.as_mut().is_some_and(|pacer| pacer.submit(command));
            if !is_delayed {
                self.complete(command.tag);
            }
        }
        self.signal();
    }

    /// Completes the commands that are due. Returns the time until the pacer's next event, on the
    /// clock that the card follows; `None` without a pacer or without an outstanding command.
    pub(crate) fn advance(&mut self) -> Option<Duration> {
        self.forget_after_reset();
        let tags = self.pacer.as_mut()?.completed();
        for tag in &tags {
            self.complete(*tag);
        }
        if !tags.is_empty() {
            // The controller limits the outstanding commands of each queue. Commands may have
            // waited for these completions, so fetch again.
            self.fetch_all();
        }
        self.pacer.as_ref()?.wait()
    }

    /// Drops all commands of the pacer if the controller was reset since the last call. They are
    /// from the time before the reset.
    fn forget_after_reset(&mut self) {
        let resets = self.controller.resets();
        if resets != self.resets {
            self.resets = resets;
            self.pacer.iter_mut().for_each(Pacer::reset);
        }
    }

    fn fetch(&mut self) -> Option<IoCommand> {
        let (controller, mut attached) = self.attached();
        controller.fetch(&mut attached)
    }

    fn complete(&mut self, tag: u32) {
        let (controller, mut attached) = self.attached();
        controller.complete(tag, &mut attached);
        if let Some(cut) = &mut self.cut {
            cut.after -= 1;
            self.lose_power_if_due();
        }
    }

    /// Signals the interrupts of the controller. Reports a failure of the controller once.
    fn signal(&mut self) {
        let follows_guest = self.follows_guest();
        let (vectors, raised) = (&self.vectors, &mut self.raised);
        self.controller.take_interrupts(|vector| {
            if follows_guest {
                raised.push(vector);
            } else if let Some(Some(eventfd)) = vectors.get(usize::from(vector)) {
                // Ignore the result: an eventfd refuses a write only if its counter would exceed
                // 2^64 - 2.
                let _ = (&*eventfd).write(&1_u64.to_ne_bytes());
            }
        });
        let has_failed = self.controller.has_failed();
        if has_failed && !self.has_failed {
            (self.listener)(Event::ControllerFailed);
        }
        self.has_failed = has_failed;
    }

    /// Returns true if the guest writes to a private copy of its memory file. The sign of a private
    /// copy is that the first entry of the admin queue is zero, although the guest has rung the
    /// doorbell of that queue. No driver writes such an entry, because zeros are the command
    /// "delete queue 0".
    fn memory_is_private(&self) -> bool {
        let mut base = [0; 8];
        self.controller.register_read(ADMIN_QUEUE, &mut base);
        let mut entry = [0; 64];
        let read = self.memory.read(u64::from_le_bytes(base), &mut entry);
        read.is_ok() && entry == [0; 64]
    }
}

const ADMIN_QUEUE: u64 = 0x28;
const ADMIN_DOORBELL: u64 = 0x1000;

/// Offset in BAR 0 at which the registers and doorbells end, and the MSI-X table begins.
const REGISTERS_END: u64 = 0x2000;

/// Maximum size of a read that the server answers with the contents of registers, bytes. Larger
/// reads return ones. Accesses of a guest have at most 8 bytes.
const ACCESS_MAX: usize = 4096;

/// A device that is shared with the thread that completes its commands.
pub(crate) struct Shared {
    device: Mutex<Device>,
    /// Signalled after a write to BAR 0, which may have submitted commands, and when the server
    /// ends.
    submitted: Condvar,
    clock: Arc<GuestClock>,
}

impl Shared {
    pub(crate) fn new(device: Device) -> Self {
        let (submitted, clock) = (Condvar::new(), Arc::default());
        Self { device: Mutex::new(device), submitted, clock }
    }

    /// Returns the connection to the plugin that reports the guest's clock. The server announces
    /// doorbells on this connection.
    pub(crate) fn clock(&self) -> &Arc<GuestClock> {
        &self.clock
    }

    /// Announces a doorbell to the plugin that reports the guest's clock. If no plugin answers,
    /// reports [`Event::ClockMissing`].
    fn ring(&self) {
        if !self.clock.ring() {
            let device = self.lock();
            (device.listener)(Event::ClockMissing);
        }
    }

    /// Locks the device, even after a panic of another thread, because each access leaves the
    /// device consistent.
    pub(crate) fn lock(&self) -> MutexGuard<'_, Device> {
        self.device.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes the thread that completes commands. Taking the lock ensures that the thread does not
    /// miss the wake-up: the thread either waits already, or will look for due commands after the
    /// lock is released.
    pub(crate) fn wake(&self) {
        drop(self.lock());
        self.submitted.notify_one();
    }

    /// Completes commands when they are due, until `ends` returns true.
    pub(crate) fn complete(&self, ends: impl Fn() -> bool) {
        let mut device = self.lock();
        while !ends() {
            device = match device.advance() {
                None => self.submitted.wait(device).unwrap_or_else(PoisonError::into_inner),
                Some(wait) if wait > SPIN => {
                    let waited = self.submitted.wait_timeout(device, wait - SPIN);
                    waited.unwrap_or_else(PoisonError::into_inner).0
                }
                Some(_) => {
                    drop(device);
                    std::thread::yield_now();
                    self.lock()
                }
            };
        }
    }
}

/// Length of the last part of each wait, in which the thread polls instead of sleeping. Linux by
/// default wakes a sleeping thread up to 50 us late (prctl(2), PR_SET_TIMERSLACK).
const SPIN: Duration = Duration::from_micros(60);

/// Applies the requests of one vfio-user connection to the device.
pub(crate) struct Connection {
    pub(crate) shared: Arc<Shared>,
    /// True if QEMU has sent a request on this connection.
    pub(crate) connected: bool,
}

impl Connection {
    /// Locks the device for a request. At the first request of the connection, reports
    /// [`Event::Connected`].
    fn device(&mut self) -> MutexGuard<'_, Device> {
        let device = self.shared.lock();
        if !std::mem::replace(&mut self.connected, true) {
            (device.listener)(Event::Connected);
        }
        device
    }
}

impl ServerBackend for Connection {
    fn region_read(&mut self, region: u32, offset: u64, data: &mut [u8]) -> io::Result<()> {
        let device = self.device();
        match region {
            _ if !device.has_power || data.len() > ACCESS_MAX => data.fill(0xff),
            VFIO_PCI_CONFIG_REGION_INDEX => device.config.read(offset, data),
            VFIO_PCI_BAR0_REGION_INDEX if offset < REGISTERS_END => {
                device.controller.register_read(offset, data);
            }
            // QEMU emulates the MSI-X table and the pending bits for the guest, so the server
            // stores neither, and returns zeros.
            VFIO_PCI_BAR0_REGION_INDEX => data.fill(0),
            _ => data.fill(0xff),
        }
        Ok(())
    }

    fn region_write(&mut self, region: u32, offset: u64, data: &[u8]) -> io::Result<()> {
        let mut device = self.device();
        match region {
            _ if !device.has_power => {}
            VFIO_PCI_CONFIG_REGION_INDEX => match device.config.write(offset, data) {
                ConfigEffect::FunctionReset => device.controller.reset_function(),
                ConfigEffect::None => {}
            },
            VFIO_PCI_BAR0_REGION_INDEX if offset < REGISTERS_END => {
                device.write_register(offset, data);
                let follows_guest = device.follows_guest();
                drop(device);
                if follows_guest { self.shared.ring() } else { self.shared.wake() }
            }
            _ => {}
        }
        Ok(())
    }

    fn dma_map(
        &mut self,
        flags: DmaMapFlags,
        offset: u64,
        address: u64,
        size: u64,
        file: Option<File>,
    ) -> io::Result<()> {
        // Do not map ranges that have no file or are read-only (firmware, devices), because they
        // cannot hold queues or data.
        if let Some(file) = file.filter(|_| flags.contains(DmaMapFlags::READ_WRITE)) {
            self.device().memory.map(address, size, file, offset);
        }
        Ok(())
    }

    fn dma_unmap(&mut self, flags: DmaUnmapFlags, address: u64, size: u64) -> io::Result<()> {
        let memory = &mut self.device().memory;
        if flags.contains(DmaUnmapFlags::UNMAP_ALL) {
            memory.clear();
        } else {
            memory.unmap(address, size);
        }
        Ok(())
    }

    fn reset(&mut self) -> io::Result<()> {
        let mut device = self.device();
        device.config = device.initial_config.clone();
        device.controller.reset_function();
        Ok(())
    }

    fn set_irqs(
        &mut self,
        index: u32,
        flags: u32,
        start: u32,
        count: u32,
        files: Vec<File>,
    ) -> io::Result<()> {
        if index != VFIO_PCI_MSIX_IRQ_INDEX {
            return Ok(());
        }
        let vectors = &mut self.device().vectors;
        if count == 0 {
            vectors.fill_with(|| None);
        } else if flags & VFIO_IRQ_SET_DATA_EVENTFD != 0 {
            let mut files = files.into_iter();
            let range = vectors.iter_mut().skip(start as usize).take(count as usize);
            range.for_each(|vector| *vector = files.next());
        }
        Ok(())
    }
}
