//! Defines the commands of a sub-channel, and the trait of their observers.

/// A command on the command bus of a sub-channel.
///
/// A command that occupies several slots of the bus has the clock of the first slot. Clocks are
/// clocks of the host. On a multiplexed module, a clock of the DRAM has two clocks of the host
/// ([`Device::host_clocks`](super::device::Device::host_clocks)). Pseudo-channel p issues at the
/// clocks `2 t + p`, where t is a clock of its DRAM, so commands of the two pseudo-channels never
/// collide.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Command {
    /// The clock of the host at which the command begins.
    pub at: u64,
    /// The operation that the command requests.
    pub kind: Kind,
    /// The pseudo-channel; 0 on a module that is not multiplexed.
    pub pseudo: u8,
    /// The rank within the pseudo-channel.
    pub rank: u8,
    /// The bank group within the rank. It has no meaning for commands to all banks.
    pub bank_group: u8,
    /// The index of the bank within its group; for [`Kind::RefreshSame`] the same index in every
    /// group.
    pub bank: u8,
    /// The row that is opened or accessed.
    pub row: u32,
    /// The burst within the row. Bursts are counted, not columns of the DRAM.
    pub column: u16,
}

/// The operation of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// Opens a row of a bank.
    Activate,
    /// Reads a burst from the open row.
    Read,
    /// Reads a burst, with auto-precharge.
    ReadAuto,
    /// Writes a burst to the open row.
    Write,
    /// Writes a burst, with auto-precharge.
    WriteAuto,
    /// Closes the row of a bank.
    Precharge,
    /// Closes the rows of all banks of a rank.
    PrechargeAll,
    /// Refreshes all banks of a rank, which must be closed.
    RefreshAll,
    /// Refreshes one bank of each group of a rank: the bank with the same index in each group.
    RefreshSame,
}

impl Kind {
    /// All kinds of commands.
    pub const ALL: [Self; 9] = [
        Self::Activate,
        Self::Read,
        Self::ReadAuto,
        Self::Write,
        Self::WriteAuto,
        Self::Precharge,
        Self::PrechargeAll,
        Self::RefreshAll,
        Self::RefreshSame,
    ];

    /// Returns the mnemonic of the command in JEDEC's data sheets, such as `ACT`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Activate => "ACT",
            Self::Read => "RD",
            Self::ReadAuto => "RDA",
            Self::Write => "WR",
            Self::WriteAuto => "WRA",
            Self::Precharge => "PRE",
            Self::PrechargeAll => "PREab",
            Self::RefreshAll => "REFab",
            Self::RefreshSame => "REFsb",
        }
    }
}

/// Receives the commands of a sub-channel in order of time. The observer `()` ignores all commands
/// at no cost.
pub trait Observer {
    /// Called with each command as it is issued.
    fn command(&mut self, command: &Command) {
        let _ = command;
    }

    /// Called at the end of the warm-up; `clock` is the clock of the host at that time.
    fn start_counting(&mut self, clock: u64) {
        let _ = clock;
    }

    /// Returns false if the observer ignores all commands. The caller may then skip the calls.
    fn observes(&self) -> bool {
        true
    }
}

impl Observer for () {
    #[inline]
    fn observes(&self) -> bool {
        false
    }
}

impl<A: Observer, B: Observer> Observer for (A, B) {
    #[inline]
    fn command(&mut self, command: &Command) {
        self.0.command(command);
        self.1.command(command);
    }

    fn start_counting(&mut self, clock: u64) {
        self.0.start_counting(clock);
        self.1.start_counting(clock);
    }

    #[inline]
    fn observes(&self) -> bool {
        self.0.observes() || self.1.observes()
    }
}

impl<O: Observer> Observer for &mut O {
    #[inline]
    fn command(&mut self, command: &Command) {
        (**self).command(command);
    }

    fn start_counting(&mut self, clock: u64) {
        (**self).start_counting(clock);
    }

    #[inline]
    fn observes(&self) -> bool {
        (**self).observes()
    }
}

/// Records every command, for tests and traces.
impl Observer for Vec<Command> {
    fn command(&mut self, command: &Command) {
        self.push(*command);
    }
}
