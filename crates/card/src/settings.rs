//! Defines choices of a run that are not properties of the card: host, arbitration, ablations.

/// The kind of host: its processors wait for interrupts, poll, or are not simulated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HostMode {
    /// The processor of each queue waits for interrupts.
    #[default]
    Interrupts,
    /// The processor of each queue polls its completion queue; the card sends no interrupts.
    Polling,
    /// A real or emulated host submits the commands, so the engine adds no time for processors. A
    /// command completes when its interrupt arrives.
    External,
}

/// The priority class of a submission queue (NVMe 1.1, 4.11.2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Priority {
    /// The class is served before all other classes, without a weight.
    Urgent,
    /// A weighted class. Its weight is at index 0 of the weights of [`Arbitration::Weighted`].
    High,
    /// A weighted class. Its weight is at index 1 of the weights of [`Arbitration::Weighted`].
    #[default]
    Medium,
    /// A weighted class. Its weight is at index 2 of the weights of [`Arbitration::Weighted`].
    Low,
}

/// Arbitration among submission queues (NVMe 1.1, 4.11).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Arbitration {
    /// Round robin over all queues.
    #[default]
    RoundRobin,
    /// Urgent queues come first. Then weighted round robin applies among three classes, and round
    /// robin within each class.
    Weighted {
        /// The class of each queue; a queue without an entry is of medium priority.
        priorities: Vec<Priority>,
        /// The weights of the high, the medium and the low class: the maximum number of commands
        /// that arbitration takes from a class in a round, 1 to 256.
        weights: [u32; 3],
    },
}

/// A component that may be the bottleneck.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Component {
    /// The host's processors.
    Host,
    /// The link from the card to the host.
    LinkUp,
    /// The link from the host to the card.
    LinkDown,
    /// The controller's cores.
    Cores,
    /// The controller's DMA engines.
    DmaEngines,
    /// The controller's data buffers.
    Buffers,
    /// Tags of outstanding read requests for the data of writes.
    ReadTags,
    /// Flow control credits of the receiving port: the host's for NVMe, the card's for BAR stores.
    Credits,
    /// The memory channels.
    Memory,
}

impl Component {
    /// All components. Arrays with an element for each component have this order.
    pub const ALL: [Self; 9] = [
        Self::Host,
        Self::LinkUp,
        Self::LinkDown,
        Self::Cores,
        Self::DmaEngines,
        Self::Buffers,
        Self::ReadTags,
        Self::Credits,
        Self::Memory,
    ];

    /// Returns the name of the component in JSON records, such as `link up` or `memory`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Host => "host",
            Self::LinkUp => "link up",
            Self::LinkDown => "link down",
            Self::Cores => "cores",
            Self::DmaEngines => "DMA engines",
            Self::Buffers => "buffers",
            Self::ReadTags => "read tags",
            Self::Credits => "credits",
            Self::Memory => "memory",
        }
    }
}

/// A set of components that a run simulates without limits, for ablations. A server in the set is
/// infinitely fast, and a pool in the set has an unlimited number of units.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ideal(u16);

impl Ideal {
    /// Returns the set that contains only `component`.
    pub const fn of(component: Component) -> Self {
        Self(1 << component as u16)
    }

    /// Returns this set with `component` added.
    #[must_use]
    pub const fn and(self, component: Component) -> Self {
        Self(self.0 | 1 << component as u16)
    }

    /// Returns true if the set contains `component`.
    pub const fn has(self, component: Component) -> bool {
        self.0 & (1 << component as u16) != 0
    }
}

/// Choices of a run that are not properties of the card.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// The way in which the host learns of completions.
    pub host: HostMode,
    /// Arbitration among submission queues.
    pub arbitration: Arbitration,
    /// The components that are simulated without limits.
    pub ideal: Ideal,
    /// A deliberate error, for tests of power failure: a write is acknowledged when all its data
    /// are in buffers of the controller, and not yet safe in the memory.
    pub acknowledge_early: bool,
}
