//! Simulates a sub-channel that serves row accesses in order of arrival.
//!
//! A *row access* is an activation, consecutive reads or writes in one row, and an auto-precharge
//! with the last read or write:
//!
//! ```text
//! access 1  ACT ... tRCD ... WR WR WR WRA ... tWR, tRP: durable in STT-MRAM
//! access 2          ACT ... tRCD ...     WR WR WR WRA ...
//! ```
//!
//! The storage controller of a card transfers hundreds of bytes at once, in the order in which its
//! DMA engines request the transfers. The data bus keeps this order. The activation of an access
//! does not wait for the data of up to [`LOOKAHEAD`] earlier accesses, so the delays of different
//! banks overlap. No row stays open after its access.
//!
//! [`controller`](super::controller) searches its queues for the best next command, which takes
//! 3500 instructions for each burst of 64 bytes. Here an access of 512 bytes is computed as a whole
//! at its arrival. The constraints are the rules of [`super::constraint`] (see `timing`), with
//! tFAW, refresh and the slots of the command bus. An observer receives the single commands in
//! order of time, and [`super::check`] verifies them.

mod timing;

use super::{
    command::{Command, Kind, Observer},
    device::Device,
    geometry::{BANKS_MAX, Geometry, RANKS_MAX},
    timing_state::NEVER,
};
use std::collections::VecDeque;
use timing::RowTiming;

/// Maximum number of accesses that are activated and still wait for their first read or write, a
/// power of two. The activation of an access waits until the first read or write of the access that
/// arrived `LOOKAHEAD` accesses earlier. Assumed: the transaction queue of a small controller.
pub const LOOKAHEAD: usize = 16;

/// A row access: an activation, consecutive bursts of one row, and an auto-precharge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowAccess {
    /// The bank, numbered over all ranks and groups.
    pub bank: u8,
    /// The row within the bank.
    pub row: u32,
    /// The first burst within the row.
    pub column: u16,
    /// The number of bursts: at least 1, and not beyond the end of the row.
    pub bursts: u16,
    /// True for a write, false for a read.
    pub write: bool,
}

/// The clocks of a row access. `activated < first < data <= closed` holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowTimes {
    /// The clock of the activation command.
    pub activated: u64,
    /// The clock of the first read or write command.
    pub first: u64,
    /// The clock at which the last burst ends on the data bus: read data are at the controller,
    /// write data are in the row buffers.
    pub data: u64,
    /// The clock at which the precharge ends (tRP has passed): write data are in the cells.
    pub closed: u64,
}

/// Commands and busy clocks of a channel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RowCounts {
    /// Number of bursts read.
    pub reads: u64,
    /// Number of bursts written.
    pub writes: u64,
    /// Number of activations: one for each row access.
    pub activates: u64,
    /// Number of refresh commands.
    pub refreshes: u64,
    /// Clocks from each activation to the end of the precharge, summed over all banks.
    pub open_clocks: u64,
    /// Clocks of the data bus from the start of the first burst to the end of the last burst of an
    /// access, summed over all accesses.
    pub bus_clocks: u64,
    /// `bus_clocks`, plus the clocks for which the data bus was idle although an access had arrived
    /// at least tRCD before. Bank conflicts, changes of direction or rank, and refreshes cause such
    /// idle clocks. The channel is saturated if this count equals the elapsed clocks.
    pub occupied_clocks: u64,
}

/// The commands of a row access on the command bus: the clock of the activation (`activated`), the
/// clocks of the `first` and the `last` read or write, and the number of clocks from one read or
/// write to the next (`stride`).
#[derive(Clone, Copy, Debug, Default)]
struct Columns {
    first: u64,
    last: u64,
    stride: u32,
    activated: u64,
}

/// The refreshes of a rank: `due` is the clock at which the next refresh is due, `issued` the clock
/// of the last refresh. `issued` is 0 before the first refresh.
#[derive(Clone, Copy, Debug)]
struct RefreshTimes {
    due: u64,
    issued: u64,
}

/// A sub-channel, and a controller that serves row accesses in order of arrival.
#[derive(Clone, Debug)]
pub struct RowChannel {
    geometry: Geometry,
    timing: RowTiming,
    /// For reads and for writes: the clocks between two consecutive commands of an access, which
    /// are tCCD within a bank group.
    strides: [u32; 2],
    /// For reads and for writes: clocks from the command to the end of its data.
    latency: [u64; 2],
    burst: u64,
    /// Clocks for which a command occupies the command bus: an activation, and a read or write.
    slots: [u64; 2],
    /// `window` has the commands of the last [`LOOKAHEAD`] accesses; `next` is the index of the
    /// next access.
    window: [Columns; LOOKAHEAD],
    next: usize,
    ranks: usize,
    refreshes: [RefreshTimes; RANKS_MAX],
    next_due: u64,
    last_refresh: u64,
    last_activation: u64,
    interval: u64,
    t_rfc: u64,
    t_rcd: u64,
    arrival: u64,
    counts: RowCounts,
    /// Commands, in order of time, that are not yet reported to the observer, because a later
    /// access may have an earlier command. The list is empty without an observer.
    pending: VecDeque<Command>,
}

impl RowChannel {
    /// Creates an idle sub-channel of `device`, whose refreshes are staggered over its ranks.
    ///
    /// # Panics
    /// If the device is multiplexed: see [`supports`](Self::supports).
    pub fn new(device: &Device) -> Self {
        assert!(Self::supports(device), "a row channel has one pseudo-channel");
        let t = &device.timing;
        let ranks = device.ranks as usize;
        let interval = u64::from(t.t_refi);
        let mut refreshes = [RefreshTimes { due: NEVER, issued: 0 }; RANKS_MAX];
        if interval > 0 {
            for (rank, refresh) in refreshes.iter_mut().enumerate().take(ranks) {
                refresh.due = interval * (rank as u64 + 1) / ranks as u64;
            }
        }
        let burst = u64::from(t.burst);
        Self {
            geometry: Geometry::new(device),
            timing: RowTiming::new(device),
            strides: [t.t_ccd_l, device.same_group_writes()],
            latency: [u64::from(t.cl) + burst, u64::from(t.cwl) + burst],
            burst,
            slots: [u64::from(device.activate_slots), u64::from(device.access_slots)],
            window: [Columns { stride: 1, ..Columns::default() }; LOOKAHEAD],
            next: 0,
            ranks,
            next_due: refreshes.iter().map(|refresh| refresh.due).min().unwrap_or(NEVER),
            refreshes,
            last_refresh: 0,
            last_activation: 0,
            interval,
            t_rfc: u64::from(t.t_rfc),
            t_rcd: u64::from(t.t_rcd),
            arrival: 0,
            counts: RowCounts::default(),
            pending: VecDeque::new(),
        }
    }

    /// Returns true if the device has one pseudo-channel, the only kind that this type simulates.
    pub fn supports(device: &Device) -> bool {
        device.pseudo_channels == 1
    }

    /// Returns the commands and busy clocks since the sub-channel was created.
    pub fn counts(&self) -> &RowCounts {
        &self.counts
    }

    /// Serves an access that arrives at clock `at`, or at the arrival of the previous access if
    /// that is later. The bank, the row and the bursts of the access must exist in the device.
    #[inline]
    pub fn serve<O: Observer>(&mut self, at: u64, access: RowAccess, observer: &mut O) -> RowTimes {
        // Clock 0 stands for "never issued", so no access arrives before clock 1.
        self.arrival = self.arrival.max(at).max(1);
        if observer.observes() {
            self.emit(self.arrival.min(self.next_due), observer);
        }
        let bank = usize::from(access.bank) % BANKS_MAX;
        let (rank, group) = (self.geometry.rank(bank), self.geometry.group(bank));
        let slot = self.next % LOOKAHEAD;
        let start = self.arrival.max(self.window[slot].first);
        let mut activated = start.max(self.timing.activation(bank, group, rank));
        while self.next_due <= activated {
            self.refresh(observer.observes());
            activated = start.max(self.timing.activation(bank, group, rank));
        }
        activated = self.free_slot(activated, self.slots[0]);
        self.timing.activate(group, rank, activated);
        self.last_activation = self.last_activation.max(activated);

        let stride = self.strides[usize::from(access.write)];
        let bursts = u64::from(access.bursts.max(1));
        let span = (bursts - 1) * u64::from(stride);
        // The constraints may allow a read before a write that arrived earlier, if the read goes to
        // another rank. But the data bus keeps the order of arrival, so the access waits for the
        // last command of the access in front.
        let in_front = self.window[self.next.wrapping_sub(1) % LOOKAHEAD].last + self.slots[1];
        let earliest = self.timing.access(access.write, activated, group, rank);
        let mut first = earliest.max(in_front);
        while self.last_refresh >= first && self.meets_refresh(first, first + span, stride) {
            first += 1;
        }
        let last = first + span;
        let closed = self.timing.close(access.write, (bank, group, rank), activated, last);
        self.window[slot] = Columns { first, last, stride, activated };
        self.next = self.next.wrapping_add(1);
        let times = RowTimes {
            activated,
            first,
            data: last + self.latency[usize::from(access.write)],
            closed,
        };
        let idle_until = in_front.max(self.arrival + self.t_rcd);
        self.count(&access, &times, span + self.burst, first.saturating_sub(idle_until));
        if observer.observes() {
            self.enumerate(&access, &times, u64::from(stride), bursts);
        }
        times
    }

    /// Reports all pending commands to the observer. No access may follow.
    pub fn finish<O: Observer>(&mut self, observer: &mut O) {
        self.emit(NEVER, observer);
    }

    #[inline]
    fn count(&mut self, access: &RowAccess, times: &RowTimes, bus_clocks: u64, stalled: u64) {
        let bursts = u64::from(access.bursts);
        if access.write {
            self.counts.writes += bursts;
        } else {
            self.counts.reads += bursts;
        }
        self.counts.activates += 1;
        self.counts.bus_clocks += bus_clocks;
        self.counts.occupied_clocks += bus_clocks + stalled;
        self.counts.open_clocks += times.closed - times.activated;
    }

    /// Issues the refresh that is due first, once the banks of its rank are precharged. `observed`
    /// is true if an observer receives the commands.
    #[cold]
    fn refresh(&mut self, observed: bool) {
        let ranks = &self.refreshes[..self.ranks];
        let Some(rank) = (0..ranks.len()).min_by_key(|rank| ranks[*rank].due) else { return };
        let banks = self.geometry.rank_banks(rank);
        let refresh = self.refreshes[rank];
        let over = if refresh.issued > 0 { refresh.issued + self.t_rfc } else { 0 };
        let ready = refresh.due.max(self.timing.closed(banks)).max(over);
        let at = self.free_slot(ready, 1);
        self.timing.block_banks(banks, at + self.t_rfc);
        self.refreshes[rank] = RefreshTimes { due: refresh.due + self.interval, issued: at };
        self.last_refresh = self.last_refresh.max(at);
        self.next_due = self.refreshes.iter().map(|refresh| refresh.due).min().unwrap_or(NEVER);
        self.counts.refreshes += 1;
        if observed {
            let (rank, kind) = (rank as u8, Kind::RefreshAll);
            self.push(Command {
                at,
                kind,
                pseudo: 0,
                rank,
                bank_group: 0,
                bank: 0,
                row: 0,
                column: 0,
            });
        }
    }

    /// Returns the first clock, not before `at`, from which the command bus is free for `slots`
    /// clocks.
    #[inline]
    fn free_slot(&self, mut at: u64, slots: u64) -> u64 {
        loop {
            match self.occupied_until(at, slots) {
                Some(until) => at = until,
                None => return at,
            }
        }
    }

    /// If a command occupies the command bus during the `slots` clocks from `at`, returns the clock
    /// at which this command ends. Returns `None` if the bus is free during these clocks.
    #[inline]
    fn occupied_until(&self, at: u64, slots: u64) -> Option<u64> {
        let end = at + slots;
        let [activate, column] = self.slots;
        // The reads and writes of accesses are in order of time. So the search begins with the
        // newest access, and stops at an access whose last command ends before or at `at`.
        for back in 1..=LOOKAHEAD {
            let columns = &self.window[self.next.wrapping_sub(back) % LOOKAHEAD];
            if columns.last + column <= at {
                break;
            }
            if columns.first < end {
                let steps = (end - 1 - columns.first).min(columns.last - columns.first) as u32;
                let nearest = columns.first + u64::from(steps - steps % columns.stride);
                if nearest + column > at {
                    return Some(nearest + column);
                }
            }
        }
        if self.ranks > 1 && self.last_activation + activate > at {
            // Activations of one rank are at least tRRD apart, so their command slots cannot
            // overlap. The search for an overlapping activation is therefore needed only with
            // several ranks.
            let meets =
                |columns: &&Columns| columns.activated < end && columns.activated + activate > at;
            if let Some(columns) = self.window.iter().find(meets) {
                return Some(columns.activated + activate);
            }
        }
        if self.last_refresh >= at {
            let meets = |refresh: &&RefreshTimes| refresh.issued >= at && refresh.issued < end;
            return self.refreshes.iter().find(meets).map(|refresh| refresh.issued + 1);
        }
        None
    }

    /// Returns true if a refresh occupies a command slot of an access that issues a read or write
    /// every `stride` clocks, from clock `first` to clock `last`.
    fn meets_refresh(&self, first: u64, last: u64, stride: u32) -> bool {
        let slots = self.slots[1];
        self.refreshes[..self.ranks].iter().any(|refresh| {
            let at = refresh.issued;
            (first..last + slots).contains(&at) && (at - first) % u64::from(stride) < slots
        })
    }

    fn enumerate(&mut self, access: &RowAccess, times: &RowTimes, stride: u64, bursts: u64) {
        let (rank, bank_group, bank) = self.geometry.address(usize::from(access.bank));
        let command = Command {
            at: times.activated,
            kind: Kind::Activate,
            pseudo: 0,
            rank,
            bank_group,
            bank,
            row: access.row,
            column: 0,
        };
        self.push(command);
        for burst in 0..bursts {
            let kind = match (access.write, burst + 1 == bursts) {
                (false, false) => Kind::Read,
                (false, true) => Kind::ReadAuto,
                (true, false) => Kind::Write,
                (true, true) => Kind::WriteAuto,
            };
            let column = access.column + burst as u16;
            self.push(Command { at: times.first + burst * stride, kind, column, ..command });
        }
    }

    /// Adds a command to `pending`, in order of time. The observer receives the command once no
    /// later access can have an earlier command.
    fn push(&mut self, command: Command) {
        let later = self.pending.iter().rev().take_while(|other| other.at > command.at).count();
        self.pending.insert(self.pending.len() - later, command);
    }

    /// Reports pending commands before clock `until`.
    fn emit<O: Observer>(&mut self, until: u64, observer: &mut O) {
        while let Some(command) = self.pending.pop_front_if(|command| command.at < until) {
            observer.command(&command);
        }
    }
}

#[cfg(test)]
mod tests;
