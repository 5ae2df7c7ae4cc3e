//! Draws a picture of a run's commands in the trace format of Chrome, which Perfetto shows.
//!
//! In the picture a sub-channel is a process. Its threads are the command bus, the data bus of each
//! pseudo-channel, a line for the refreshes of each rank, and a line for each used bank, with bars
//! for its open rows. Times are exact to the ps.

use super::{
    command::{Command, Kind, Observer},
    device::Device,
};
use core::fmt::Write;
use std::collections::BTreeMap;

/// Default maximum number of drawn commands: about 25 MB of text, which viewers still handle.
pub const COMMANDS_MAX: u64 = 100_000;

/// Draws the first commands of one sub-channel.
#[derive(Clone, Debug)]
pub struct Drawing {
    device: Device,
    process: u32,
    limit: u64,
    seen: u64,
    events: String,
    /// For each open bank, by its line in the picture: the command that opened the row.
    open: BTreeMap<Line, Command>,
    /// The lines of the picture that have at least one event, and are thus shown.
    lines: BTreeMap<Line, ()>,
    last: u64,
}

/// A line of the picture, in the order of display.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Line {
    Commands,
    Data { pseudo: u8 },
    Refresh { pseudo: u8, rank: u8 },
    Bank { pseudo: u8, rank: u8, group: u8, bank: u8 },
}

impl Line {
    const fn of_bank(command: &Command) -> Self {
        let Command { pseudo, rank, bank_group: group, bank, .. } = *command;
        Self::Bank { pseudo, rank, group, bank }
    }

    /// Returns a thread number for the line, unique in the picture, in the order in which lines are
    /// shown.
    fn thread(self) -> u32 {
        let place = |parts: [u8; 4]| parts.iter().fold(0, |sum, part| sum << 4 | u32::from(*part));
        match self {
            Self::Commands => 1,
            Self::Data { pseudo } => 2 + u32::from(pseudo),
            Self::Refresh { pseudo, rank } => 0x10 + place([0, 0, pseudo, rank]),
            Self::Bank { pseudo, rank, group, bank } => {
                0x1_0000 + place([pseudo, rank, group, bank])
            }
        }
    }

    fn name(self) -> String {
        match self {
            Self::Commands => "commands".into(),
            Self::Data { pseudo } => format!("data {pseudo}"),
            Self::Refresh { pseudo, rank } => format!("refresh {pseudo}, rank {rank}"),
            Self::Bank { pseudo, rank, group, bank } => {
                format!("pseudo-channel {pseudo}, rank {rank}, bank {group}.{bank}")
            }
        }
    }
}

impl Drawing {
    /// Draws up to `limit` commands of the sub-channel with the number `process`.
    pub fn new(device: &Device, process: u32, limit: u64) -> Self {
        Self {
            device: device.clone(),
            process,
            limit,
            seen: 0,
            events: String::new(),
            open: BTreeMap::new(),
            lines: BTreeMap::new(),
            last: 0,
        }
    }

    /// Returns the number of commands received, and the number of commands beyond the limit, which
    /// are not drawn.
    pub const fn commands(&self) -> (u64, u64) {
        (self.seen, self.seen.saturating_sub(self.limit))
    }

    /// Returns the events of this sub-channel as JSON, each followed by a comma and a newline.
    fn into_events(mut self) -> String {
        // Rows that are still open at the end of the run are drawn to the end of the picture.
        for (line, command) in core::mem::take(&mut self.open) {
            self.row(line, &command, self.last);
        }
        let process = self.process;
        for line in core::mem::take(&mut self.lines).into_keys() {
            let (thread, name) = (line.thread(), line.name());
            for (what, value) in [
                ("thread_name", format!("\"name\":\"{name}\"")),
                ("thread_sort_index", format!("\"sort_index\":{thread}")),
            ] {
                let _ = writeln!(
                    self.events,
                    "{{\"ph\":\"M\",\"name\":\"{what}\",\"pid\":{process},\"tid\":{thread},\
                     \"args\":{{{value}}}}},"
                );
            }
        }
        let _ = writeln!(
            self.events,
            "{{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":{process},\
             \"args\":{{\"name\":\"sub-channel {process}\"}}}},"
        );
        self.events
    }

    /// Draws a bar named `name` on `line`, from the host's clock `from`, for `clocks` clocks of the
    /// host. The bar shows the address of `command`.
    fn bar(&mut self, line: Line, name: &str, from: u64, clocks: u64, command: &Command) {
        self.lines.insert(line, ());
        let Command { pseudo, rank, bank_group, bank, row, column, .. } = *command;
        let (start, length) = (self.us(from), self.us(clocks));
        let (process, thread) = (self.process, line.thread());
        // Writing to a string does not fail.
        let _ = writeln!(
            self.events,
            "{{\"ph\":\"X\",\"name\":\"{name}\",\"pid\":{process},\"tid\":{thread},\
             \"ts\":{start},\"dur\":{length},\"args\":{{\"clock\":{from},\"pseudo\":{pseudo},\
             \"rank\":{rank},\"group\":{bank_group},\"bank\":{bank},\"row\":{row},\
             \"column\":{column}}}}},"
        );
    }

    fn row(&mut self, line: Line, opened: &Command, until: u64) {
        let name = format!("row {}", opened.row);
        self.bar(line, &name, opened.at, until.saturating_sub(opened.at), opened);
    }

    /// Draws the open rows of the banks for which `closes` holds, up to the clock `until`.
    fn close(&mut self, until: u64, closes: impl Fn(&Line) -> bool) {
        let closed: Vec<Line> = self.open.keys().filter(|line| closes(line)).copied().collect();
        for line in closed {
            if let Some(opened) = self.open.remove(&line) {
                self.row(line, &opened, until);
            }
        }
    }

    /// Returns the duration of `clocks` clocks of the host in us, with six decimals.
    fn us(&self, clocks: u64) -> String {
        let rate = u128::from(self.device.kilotransfers) * u128::from(self.device.host_clocks);
        let ps = (u128::from(clocks) * 2_000_000_000 + rate / 2) / rate;
        format!("{}.{:06}", ps / 1_000_000, ps % 1_000_000)
    }

    fn draw(&mut self, command: &Command) {
        let host = |clocks: u32| u64::from(clocks) * self.device.host_clocks;
        let t = self.device.timing;
        let Command { at, kind, pseudo, rank, .. } = *command;
        let (burst, read, write) = (host(t.burst), at + host(t.cl), at + host(t.cwl));
        let written = write + burst + host(t.t_wr);
        let (read_out, slots) = (at + host(t.t_rtp), host(self.device.slots(kind)));
        let (all, same) = (host(t.t_rfc), host(t.t_rfc_sb));
        self.bar(Line::Commands, kind.name(), at, slots, command);
        self.last = self.last.max(at + slots);
        let bank = Line::of_bank(command);
        match kind {
            Kind::Activate => drop(self.open.insert(bank, *command)),
            Kind::Read | Kind::ReadAuto => {
                self.bar(Line::Data { pseudo }, "read", read, burst, command);
            }
            Kind::Write | Kind::WriteAuto => {
                self.bar(Line::Data { pseudo }, "write", write, burst, command);
            }
            Kind::Precharge | Kind::PrechargeAll => {}
            Kind::RefreshAll => {
                self.bar(Line::Refresh { pseudo, rank }, "REFab", at, all, command);
            }
            Kind::RefreshSame => {
                self.bar(Line::Refresh { pseudo, rank }, "REFsb", at, same, command);
            }
        }
        match kind {
            Kind::Precharge => self.close(at, |line| *line == bank),
            Kind::PrechargeAll => self.close(at, |line| match line {
                Line::Bank { pseudo: p, rank: r, .. } => (*p, *r) == (pseudo, rank),
                _ => false,
            }),
            Kind::ReadAuto => self.close(read_out, |line| *line == bank),
            Kind::WriteAuto => self.close(written, |line| *line == bank),
            _ => {}
        }
    }
}

impl Observer for Drawing {
    fn command(&mut self, command: &Command) {
        self.seen += 1;
        if self.seen <= self.limit {
            self.draw(command);
        }
    }
}

/// Returns the complete picture, as a JSON object. `drawings` has one drawing for each sub-channel.
pub fn json(drawings: impl IntoIterator<Item = Drawing>) -> String {
    let mut text = String::from("{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n");
    for drawing in drawings {
        text.push_str(&drawing.into_events());
    }
    // JSON allows no comma after the last event.
    text.truncate(text.trim_end_matches([',', '\n']).len());
    text.push_str("\n]}\n");
    text
}

#[cfg(test)]
mod tests;
