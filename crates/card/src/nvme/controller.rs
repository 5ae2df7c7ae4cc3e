//! Implements the NVMe controller: handles the writes of a driver to registers and doorbells,
//! writes completions, and signals interrupts.

mod admin;
pub(super) mod error_log;
mod log_page;
mod nvm;

use self::{
    error_log::{AsyncEvents, ErrorLog, EventKind},
    log_page::HealthCounters,
    nvm::PendingCommand,
};
use super::{
    command::{CompletionEntry, SubmissionEntry},
    contents::{Contents, HostMemory},
    features::Features,
    queue::{CompletionRing, SubmissionRing},
    registers::{self, Registers},
    settings::{NvmeSettings, SettingsError},
    status::NvmeStatus,
};
use crate::{
    arbiter::Arbiter,
    io::IoCommand,
    settings::{Arbitration, Priority},
};

/// The memories that a controller reaches during a call.
pub struct Attachments<'a> {
    /// The memory of the host.
    pub memory: &'a mut dyn HostMemory,
    /// The contents of the namespace.
    pub contents: &'a mut dyn Contents,
}

/// An NVMe controller with one namespace, number 1.
#[derive(Clone, Debug)]
pub struct NvmeController {
    settings: NvmeSettings,
    registers: Registers,
    features: Features,
    /// The submission queues. The index is the queue identifier; 0 is the admin queue.
    submissions: Vec<Option<SubmissionRing>>,
    /// The completion queues. The index is the queue identifier; 0 is the admin queue.
    completions: Vec<Option<CompletionRing>>,
    /// Arbitration among the I/O queues only: the priority at index 0 is that of I/O queue 1.
    arbitration: Arbitration,
    /// Arbitration among all submission queues, with the admin queue.
    arbiter: Arbiter,
    /// The submission queue that arbitration chose last, and the number of commands that may still
    /// be fetched from that queue before arbitration chooses again.
    turn: (usize, u32),
    slots: Vec<CommandSlot>,
    free: Vec<u16>,
    events: AsyncEvents,
    errors: ErrorLog,
    usage: HealthCounters,
    /// The MSI-X vectors signalled since the last [`Self::take_interrupts`]: bit b of element i is
    /// vector 64 i + b.
    signalled: [u64; 4],
    resets: u64,
    /// Buffers for the data of commands, kept so that a transfer need not allocate memory.
    buffers: [Vec<u8>; 2],
}

/// A slot for a command that waits for its completion. The caller of [`NvmeController::complete`]
/// may still hold tags of earlier commands in the same slot. The generation in a tag distinguishes
/// the present command of the slot from these earlier commands.
#[derive(Clone, Debug, Default)]
struct CommandSlot {
    generation: u16,
    command: Option<PendingCommand>,
}

/// Maximum number of outstanding commands: a tag has 16 bits for the index of the slot.
const PENDING_MAX: usize = 1 << 16;

impl NvmeController {
    /// Creates a controller in the state after power-on.
    ///
    /// # Errors
    /// If a field of the settings is out of its range.
    pub fn new(settings: NvmeSettings) -> Result<Self, SettingsError> {
        settings.check()?;
        let queues = usize::from(settings.queues) + 1;
        Ok(Self {
            features: Features::new(&settings),
            registers: Registers::default(),
            submissions: vec![None; queues],
            completions: vec![None; queues],
            arbitration: Arbitration::RoundRobin,
            arbiter: Arbiter::new(&Arbitration::RoundRobin, queues),
            turn: (0, 0),
            slots: vec![],
            free: vec![],
            events: AsyncEvents::default(),
            errors: ErrorLog::default(),
            usage: HealthCounters::default(),
            signalled: [0; 4],
            resets: 0,
            buffers: [vec![], vec![]],
            settings,
        })
    }

    /// Returns the settings with which the controller was created.
    #[must_use]
    pub fn settings(&self) -> &NvmeSettings {
        &self.settings
    }

    /// Returns the number of resets so far. The component that decides when commands complete (a
    /// pacer) must drop the commands that it received before the latest reset.
    #[must_use]
    pub fn resets(&self) -> u64 {
        self.resets
    }

    /// Returns true if the controller has failed (`CSTS.CFS`). The host must then reset it.
    #[must_use]
    pub fn has_failed(&self) -> bool {
        self.registers.status & registers::FATAL != 0
    }

    /// Reads `data.len()` bytes of registers from the byte `offset` of BAR 0 on. Doorbells and
    /// reserved registers read as zero.
    pub fn register_read(&self, offset: u64, data: &mut [u8]) {
        let image = self.registers.image(&self.settings);
        let offset = usize::try_from(offset).unwrap_or(usize::MAX);
        for (at, byte) in data.iter_mut().enumerate() {
            *byte = image.get(offset.saturating_add(at)).copied().unwrap_or(0);
        }
    }

    /// Writes a register or doorbell. A write has no effect if it has neither 4 nor 8 bytes, if its
    /// offset is not a multiple of 4, or if the register is read-only.
    pub fn register_write(&mut self, offset: u64, data: &[u8], attached: &mut Attachments<'_>) {
        let dword =
            |at: usize| u32::from_le_bytes([data[at], data[at + 1], data[at + 2], data[at + 3]]);
        if !offset.is_multiple_of(4) {
            return;
        }
        match data.len() {
            4 => self.write_dword(offset, dword(0), attached),
            8 => {
                self.write_dword(offset, dword(0), attached);
                self.write_dword(offset.wrapping_add(4), dword(4), attached);
            }
            _ => {}
        }
    }

    fn write_dword(&mut self, offset: u64, value: u32, attached: &mut Attachments<'_>) {
        let low = |old: u64| old & !0xffff_ffff | u64::from(value);
        let high = |old: u64| old & 0xffff_ffff | u64::from(value) << 32;
        // The 12 low bits of the base address of a queue are reserved: queues are page aligned.
        let aligned = |address: u64| address & !0xfff;
        let registers = &mut self.registers;
        match offset {
            registers::INTMS => registers.mask |= value,
            registers::INTMC => registers.mask &= !value,
            registers::CC => self.configure(value, attached),
            registers::AQA => registers.admin_attributes = value & 0x0fff_0fff,
            registers::ASQ => registers.admin_submission = aligned(low(registers.admin_submission)),
            0x2c => registers.admin_submission = high(registers.admin_submission),
            registers::ACQ => registers.admin_completion = aligned(low(registers.admin_completion)),
            0x34 => registers.admin_completion = high(registers.admin_completion),
            registers::DOORBELLS.. => self.doorbell(offset, value, attached),
            _ => {}
        }
    }

    fn configure(&mut self, value: u32, attached: &mut Attachments<'_>) {
        let (was_enabled, old_notice) =
            (self.registers.enabled(), self.registers.shutdown_notice());
        self.registers.configuration = value & 0x00ff_fff1;
        match (was_enabled, self.registers.enabled()) {
            (false, true) => self.enable(),
            (true, false) => self.reset(),
            _ => {}
        }
        let notice = self.registers.shutdown_notice();
        if notice != 0 && notice != old_notice {
            self.shut_down(attached);
        } else if notice == 0 {
            self.registers.status &= !(3 << 2);
        }
    }

    /// Enables the controller after the host has set CC.EN to 1: creates the admin queues, or sets
    /// the fatal status if their sizes or the configuration are not supported.
    fn enable(&mut self) {
        let (submissions, completions) = self.registers.admin_entries();
        let sizes_fit = submissions >= 2 && completions >= 2;
        if !sizes_fit || !self.registers.configuration_is_supported() {
            self.registers.status |= registers::FATAL;
            return;
        }
        let (submission, completion) =
            (self.registers.admin_submission, self.registers.admin_completion);
        self.submissions[0] =
            Some(SubmissionRing::new(submission, submissions, Priority::Urgent, 0));
        self.completions[0] = Some(CompletionRing::new(completion, completions, Some(0)));
        self.arbitrate();
        self.registers.status |= registers::READY;
    }

    /// Resets the controller, as a change of CC.EN to 0 does. Queues and commands are lost, and
    /// features return to their defaults; the addresses of the admin queues and the counters of the
    /// log pages are kept (NVMe 1.4, section 7.3.2).
    fn reset(&mut self) {
        self.resets += 1;
        self.registers.status = 0;
        self.registers.mask = 0;
        self.submissions.fill(None);
        self.completions.fill(None);
        self.events = AsyncEvents::default();
        self.features = Features::new(&self.settings);
        self.arbitrate();
        self.signalled = [0; 4];
        for at in 0..self.slots.len() {
            self.vacate(at);
        }
    }

    /// Resets the controller as a reset of the PCI function does: all registers get the values that
    /// they have after power-on.
    pub fn reset_function(&mut self) {
        self.reset();
        self.registers = Registers::default();
    }

    /// Handles a shutdown notice (CC.SHN): makes all data durable, and reports that the shutdown is
    /// complete.
    fn shut_down(&mut self, attached: &mut Attachments<'_>) {
        if attached.contents.flush().is_err() {
            self.registers.status |= registers::FATAL;
        }
        self.registers.status |= registers::SHUTDOWN_COMPLETE;
    }

    /// Sets the fatal status (CSTS.CFS), because the memory of a queue does not exist. The host
    /// must then reset the controller.
    fn fail(&mut self) {
        self.registers.status |= registers::FATAL;
    }

    fn is_ready(&self) -> bool {
        self.registers.status & (registers::READY | registers::FATAL) == registers::READY
    }

    fn doorbell(&mut self, offset: u64, value: u32, attached: &mut Attachments<'_>) {
        if !self.is_ready() {
            return;
        }
        let number = (offset - registers::DOORBELLS) / 4;
        let queue = usize::try_from(number / 2).unwrap_or(usize::MAX);
        let written = if number.is_multiple_of(2) {
            let ring = self.submissions.get_mut(queue).and_then(Option::as_mut);
            ring.map(|ring| ring.set_tail(value))
        } else {
            let ring = self.completions.get_mut(queue).and_then(Option::as_mut);
            ring.map(|ring| ring.set_head(value))
        };
        match written {
            None => self.raise(EventKind::InvalidDoorbellRegister, attached),
            Some(Err(_)) => self.raise(EventKind::InvalidDoorbellValue, attached),
            // The host rang the doorbell of a completion queue, so entries of the queue are free.
            // Completions that waited for a free entry can now be written.
            Some(Ok(())) if number % 2 == 1 => self.post(queue as u16, attached),
            Some(Ok(())) => {}
        }
    }

    /// Returns the arbitration among the I/O queues, which the host has chosen. The priority at
    /// index 0 is that of I/O queue 1.
    #[must_use]
    pub fn arbitration(&self) -> &Arbitration {
        &self.arbitration
    }

    /// Begins a new round of arbitration (NVMe 1.4, section 4.13), after a change of queues or
    /// weights.
    fn arbitrate(&mut self) {
        let rings = self.submissions.iter();
        let priorities = rings.map(|ring| ring.as_ref().map_or(Priority::Low, |it| it.priority));
        let priorities: Vec<_> = priorities.collect();
        let weights = self.features.arbitration_weights();
        let (all, of_io) = if self.registers.arbitration_is_weighted() {
            let of_io = priorities[1..].to_vec();
            let of = |priorities| Arbitration::Weighted { priorities, weights };
            (of(priorities), of(of_io))
        } else {
            (Arbitration::RoundRobin, Arbitration::RoundRobin)
        };
        self.arbiter = Arbiter::new(&all, self.submissions.len());
        self.arbitration = of_io;
        self.turn = (0, 0);
    }

    /// Fetches commands in the order of arbitration, and returns the first valid I/O command;
    /// `None` if no command can be fetched. Admin commands that come earlier are executed, and
    /// invalid commands are completed with an error.
    pub fn fetch(&mut self, attached: &mut Attachments<'_>) -> Option<IoCommand> {
        while self.is_ready() {
            let queue = self.next_to_fetch()?;
            let ring = self.submissions.get_mut(queue).and_then(Option::as_mut)?;
            let Ok(entry) = ring.fetch(attached.memory) else {
                self.fail();
                return None;
            };
            if queue == 0 {
                self.execute_admin(&entry, attached);
            } else if let Some(command) = self.accept(queue as u16, &entry, attached) {
                return Some(command);
            }
        }
        None
    }

    fn next_to_fetch(&mut self) -> Option<usize> {
        if self.free.is_empty() && self.slots.len() == PENDING_MAX {
            return None;
        }
        let submissions = &self.submissions;
        let fetchable = |at: usize| submissions[at].as_ref().map_or(0, SubmissionRing::fetchable);
        // With weighted arbitration the admin queue comes before I/O queues of any class.
        if self.registers.arbitration_is_weighted() && fetchable(0) > 0 {
            return Some(0);
        }
        let (queue, left) = self.turn;
        if left == 0 || fetchable(queue) == 0 {
            let burst = self.features.arbitration_burst();
            self.turn = self.arbiter.next(burst, fetchable)?;
        }
        self.turn.1 -= 1;
        Some(self.turn.0)
    }

    // --- Outstanding commands -------------------------------------------------------------------

    /// Keeps a command until its completion. Returns the tag by which [`Self::take`] finds it.
    fn keep(&mut self, command: PendingCommand) -> u32 {
        let at = self.free.pop().unwrap_or_else(|| {
            self.slots.push(CommandSlot::default());
            (self.slots.len() - 1) as u16
        });
        let slot = &mut self.slots[usize::from(at)];
        slot.command = Some(command);
        u32::from(slot.generation) << 16 | u32::from(at)
    }

    /// Removes the command with the tag `tag` and returns it; `None` if the command was aborted, or
    /// lost by a reset.
    fn take(&mut self, tag: u32) -> Option<PendingCommand> {
        let at = (tag & 0xffff) as usize;
        let slot = self.slots.get(at)?;
        if u32::from(slot.generation) != tag >> 16 {
            return None;
        }
        self.vacate(at)
    }

    /// Removes all outstanding commands for which `named` returns true, and returns the last of
    /// these commands; `None` if `named` is true for no command.
    fn remove(&mut self, named: impl Fn(&PendingCommand) -> bool) -> Option<PendingCommand> {
        let mut last = None;
        for at in 0..self.slots.len() {
            if self.slots[at].command.as_ref().is_some_and(&named) {
                last = self.vacate(at);
            }
        }
        last
    }

    fn vacate(&mut self, at: usize) -> Option<PendingCommand> {
        let slot = &mut self.slots[at];
        let command = slot.command.take()?;
        slot.generation = slot.generation.wrapping_add(1);
        self.free.push(at as u16);
        Some(command)
    }

    // --- Completions ----------------------------------------------------------------------------

    /// Completes a command of the submission queue `queue` with its result or error status, and
    /// adds a failed command to the error log. Does nothing if the queue no longer exists.
    fn finish(
        &mut self,
        queue: u16,
        entry: &SubmissionEntry,
        outcome: Result<u32, NvmeStatus>,
        attached: &mut Attachments<'_>,
    ) {
        let Some(ring) = self.submissions.get(usize::from(queue)).and_then(Option::as_ref) else {
            return;
        };
        let (submission_head, completions) = (ring.head(), ring.completions);
        let status = outcome.err().unwrap_or(NvmeStatus::Success);
        if status != NvmeStatus::Success {
            self.errors.add(queue, entry, status);
        }
        let completion = CompletionEntry {
            result: outcome.unwrap_or(0),
            submission_head,
            submission_queue: queue,
            identifier: entry.identifier,
            status,
        };
        if let Some(ring) = self.completions.get_mut(usize::from(completions)) {
            ring.iter_mut().for_each(|ring| ring.push(completion));
        }
        self.post(completions, attached);
    }

    /// Writes the waiting completions that fit into a completion queue. If at least one was
    /// written, signals the MSI-X vector of the queue.
    fn post(&mut self, queue: u16, attached: &mut Attachments<'_>) {
        let Some(ring) = self.completions.get_mut(usize::from(queue)).and_then(Option::as_mut)
        else {
            return;
        };
        let mut posted = vec![];
        let written = ring.post(attached.memory, &mut posted);
        if let Some(vector) = ring.vector.filter(|_| !posted.is_empty()) {
            self.signalled[usize::from(vector / 64) % 4] |= 1 << (vector % 64);
        }
        for entry in posted {
            let ring = self.submissions.get_mut(usize::from(entry.submission_queue));
            if let Some(ring) = ring.and_then(Option::as_mut) {
                ring.outstanding = ring.outstanding.saturating_sub(1);
            }
        }
        if written.is_err() {
            self.fail();
        }
    }

    /// Calls `signal` with each MSI-X vector that was signalled since the last call.
    pub fn take_interrupts(&mut self, mut signal: impl FnMut(u16)) {
        for (word, bits) in self.signalled.iter_mut().enumerate() {
            while *bits != 0 {
                signal(word as u16 * 64 + bits.trailing_zeros() as u16);
                *bits &= *bits - 1;
            }
        }
    }
}
