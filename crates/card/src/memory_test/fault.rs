//! Defines the faults of a memory, and parses them from text.

use core::{fmt, str::FromStr};

/// A cell of the memory: one bit of a 32-bit word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MemoryCell {
    /// The address of the first byte of the word.
    pub address: u64,
    /// The index of the bit in the word, 0 to 31.
    pub bit: u32,
}

/// A class of faults. Names and abbreviations are those of van de Goor (Testing Semiconductor
/// Memories, 1991).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FaultClass {
    /// SAF: a cell always has the same value.
    StuckAt,
    /// TF: a cell cannot change in one direction.
    Transition,
    /// AF: an address accesses no word, another word, or several words.
    AddressDecoder,
    /// CFin: a change of one cell inverts another cell.
    CouplingInversion,
    /// CFid: a change of one cell forces another cell to a value.
    CouplingIdempotent,
    /// CFst: one cell is forced to a value while another cell is in a certain state.
    CouplingState,
    /// A cell loses its content without power.
    Retention,
}

impl FaultClass {
    /// All classes, in the order of the columns of the table in the documentation of `memory_test`.
    pub const ALL: [Self; 7] = [
        Self::StuckAt,
        Self::Transition,
        Self::AddressDecoder,
        Self::CouplingInversion,
        Self::CouplingIdempotent,
        Self::CouplingState,
        Self::Retention,
    ];
}

/// A fault to inject. The documentation of each variant shows the text from which it is parsed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InjectedFault {
    /// `stuck-at:ADDRESS.BIT=0|1`: the cell always has this value.
    StuckAt {
        /// The faulty cell.
        cell: MemoryCell,
        /// The value that the cell always has.
        value: bool,
    },
    /// `transition:ADDRESS.BIT=up|down`: the cell cannot change in this direction.
    Transition {
        /// The faulty cell.
        cell: MemoryCell,
        /// True for the change from 0 to 1, false for the change from 1 to 0.
        up: bool,
    },
    /// `coupling-inversion:ADDRESS.BIT/ADDRESS.BIT=up|down`: a change of the first cell (the
    /// aggressor) in this direction inverts the second cell (the victim).
    CouplingInversion {
        /// The cell that changes.
        aggressor: MemoryCell,
        /// The cell that is inverted.
        victim: MemoryCell,
        /// True if a change of the aggressor from 0 to 1 has the effect, false for 1 to 0.
        up: bool,
    },
    /// `coupling-idempotent:ADDRESS.BIT/ADDRESS.BIT=up|down,0|1`: a change of the first cell (the
    /// aggressor) in this direction forces the second cell (the victim) to this value.
    CouplingIdempotent {
        /// The cell that changes.
        aggressor: MemoryCell,
        /// The cell that is forced to the value.
        victim: MemoryCell,
        /// True if a change of the aggressor from 0 to 1 has the effect, false for 1 to 0.
        up: bool,
        /// The value to which the victim is forced.
        value: bool,
    },
    /// `coupling-state:ADDRESS.BIT/ADDRESS.BIT=0|1,0|1`: while the first cell (the aggressor) has
    /// the first value, the second cell (the victim) is forced to the second value.
    CouplingState {
        /// The cell whose state forces the victim to a value.
        aggressor: MemoryCell,
        /// The cell that is forced to the value.
        victim: MemoryCell,
        /// The state of the aggressor.
        state: bool,
        /// The value that the victim has while the aggressor has the state.
        value: bool,
    },
    /// `address-none:ADDRESS=VALUE`: the address accesses no word and reads as the value.
    AddressNone {
        /// The faulty address.
        address: u64,
        /// The value that a read of the address returns.
        reads: u32,
    },
    /// `address-other:ADDRESS/ADDRESS`: the first address accesses the word of the second.
    AddressOther {
        /// The faulty address.
        address: u64,
        /// The address of the word that is accessed instead.
        other: u64,
    },
    /// `address-many:ADDRESS/ADDRESS=or|and`: the first address accesses the words of both
    /// addresses.
    AddressMany {
        /// The faulty address.
        address: u64,
        /// The address of the second word that is accessed.
        other: u64,
        /// True if a read returns the OR of both words, false if it returns the AND.
        by_or: bool,
    },
    /// `retention:ADDRESS.BIT=0|1`: the cell has this value after a power cycle.
    Retention {
        /// The faulty cell.
        cell: MemoryCell,
        /// The value that the cell has after a power cycle.
        value: bool,
    },
}

impl InjectedFault {
    /// Returns the class to which the fault belongs.
    pub fn class(&self) -> FaultClass {
        match self {
            Self::StuckAt { .. } => FaultClass::StuckAt,
            Self::Transition { .. } => FaultClass::Transition,
            Self::CouplingInversion { .. } => FaultClass::CouplingInversion,
            Self::CouplingIdempotent { .. } => FaultClass::CouplingIdempotent,
            Self::CouplingState { .. } => FaultClass::CouplingState,
            Self::AddressNone { .. } | Self::AddressOther { .. } | Self::AddressMany { .. } => {
                FaultClass::AddressDecoder
            }
            Self::Retention { .. } => FaultClass::Retention,
        }
    }

    /// True if a coupling fault has the same cell as aggressor and as victim.
    fn is_of_one_cell(&self) -> bool {
        match *self {
            Self::CouplingInversion { aggressor, victim, .. }
            | Self::CouplingIdempotent { aggressor, victim, .. }
            | Self::CouplingState { aggressor, victim, .. } => aggressor == victim,
            _ => false,
        }
    }

    /// Returns the addresses of the words that the fault concerns.
    pub fn addresses(&self) -> Vec<u64> {
        match *self {
            Self::StuckAt { cell, .. }
            | Self::Transition { cell, .. }
            | Self::Retention { cell, .. } => vec![cell.address],
            Self::CouplingInversion { aggressor, victim, .. }
            | Self::CouplingIdempotent { aggressor, victim, .. }
            | Self::CouplingState { aggressor, victim, .. } => {
                vec![aggressor.address, victim.address]
            }
            Self::AddressNone { address, .. } => vec![address],
            Self::AddressOther { address, other } | Self::AddressMany { address, other, .. } => {
                vec![address, other]
            }
        }
    }
}

impl fmt::Display for MemoryCell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}.{}", self.address, self.bit)
    }
}

impl fmt::Display for InjectedFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let edge = |up: bool| if up { "up" } else { "down" };
        match *self {
            Self::StuckAt { cell, value } => write!(f, "stuck-at:{cell}={}", u8::from(value)),
            Self::Transition { cell, up } => write!(f, "transition:{cell}={}", edge(up)),
            Self::CouplingInversion { aggressor, victim, up } => {
                write!(f, "coupling-inversion:{aggressor}/{victim}={}", edge(up))
            }
            Self::CouplingIdempotent { aggressor, victim, up, value } => {
                let (edge, value) = (edge(up), u8::from(value));
                write!(f, "coupling-idempotent:{aggressor}/{victim}={edge},{value}")
            }
            Self::CouplingState { aggressor, victim, state, value } => {
                let (state, value) = (u8::from(state), u8::from(value));
                write!(f, "coupling-state:{aggressor}/{victim}={state},{value}")
            }
            Self::AddressNone { address, reads } => {
                write!(f, "address-none:{address:#x}={reads:#x}")
            }
            Self::AddressOther { address, other } => {
                write!(f, "address-other:{address:#x}/{other:#x}")
            }
            Self::AddressMany { address, other, by_or } => {
                let how = if by_or { "or" } else { "and" };
                write!(f, "address-many:{address:#x}/{other:#x}={how}")
            }
            Self::Retention { cell, value } => write!(f, "retention:{cell}={}", u8::from(value)),
        }
    }
}

/// The error for a text that does not describe a fault.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{problem}")]
pub struct FaultSyntax {
    /// The problem, as text for the user.
    pub problem: String,
    /// The remedy, as text for the user.
    pub hint: String,
}

/// Parses a number: decimal, or hexadecimal with `0x`; `None` for any other text.
pub(super) fn number(text: &str) -> Option<u64> {
    match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

fn cell(text: &str) -> Option<MemoryCell> {
    let (address, bit) = text.split_once('.')?;
    let bit = bit.parse().ok().filter(|bit| *bit < 32)?;
    Some(MemoryCell { address: number(address)?, bit })
}

fn edge(text: &str) -> Option<bool> {
    match text {
        "up" => Some(true),
        "down" => Some(false),
        _ => None,
    }
}

fn bit(text: &str) -> Option<bool> {
    match text {
        "1" => Some(true),
        "0" => Some(false),
        _ => None,
    }
}

/// Parses a fault from `kind`, the text before the colon, and `rest`, the text behind the colon.
/// Returns `None` if `rest` does not have the syntax of this kind ([`FORMS`]).
fn parsed(kind: &str, rest: &str) -> Option<InjectedFault> {
    let (place, value) = rest.split_once('=').unwrap_or((rest, ""));
    let cells = || {
        let (aggressor, victim) = place.split_once('/')?;
        Some((cell(aggressor)?, cell(victim)?))
    };
    let addresses = || {
        let (address, other) = place.split_once('/')?;
        Some((number(address)?, number(other)?))
    };
    Some(match kind {
        "stuck-at" => InjectedFault::StuckAt { cell: cell(place)?, value: bit(value)? },
        "transition" => InjectedFault::Transition { cell: cell(place)?, up: edge(value)? },
        "retention" => InjectedFault::Retention { cell: cell(place)?, value: bit(value)? },
        "coupling-inversion" => {
            let ((aggressor, victim), up) = (cells()?, edge(value)?);
            InjectedFault::CouplingInversion { aggressor, victim, up }
        }
        "coupling-idempotent" => {
            let ((aggressor, victim), (up, value)) = (cells()?, value.split_once(',')?);
            let (up, value) = (edge(up)?, bit(value)?);
            InjectedFault::CouplingIdempotent { aggressor, victim, up, value }
        }
        "coupling-state" => {
            let ((aggressor, victim), (state, value)) = (cells()?, value.split_once(',')?);
            let (state, value) = (bit(state)?, bit(value)?);
            InjectedFault::CouplingState { aggressor, victim, state, value }
        }
        "address-none" => {
            let reads = u32::try_from(number(value)?).ok()?;
            InjectedFault::AddressNone { address: number(place)?, reads }
        }
        "address-other" if !rest.contains('=') => {
            let (address, other) = addresses()?;
            InjectedFault::AddressOther { address, other }
        }
        "address-many" => {
            let (address, other) = addresses()?;
            let by_or = match value {
                "or" => true,
                "and" => false,
                _ => return None,
            };
            InjectedFault::AddressMany { address, other, by_or }
        }
        _ => return None,
    })
}

/// The name of each kind of fault, and an example of its syntax.
const FORMS: [(&str, &str); 9] = [
    ("stuck-at", "stuck-at:0x80.3=1"),
    ("transition", "transition:0x80.3=up"),
    ("coupling-inversion", "coupling-inversion:0x80.3/0x90.7=up"),
    ("coupling-idempotent", "coupling-idempotent:0x80.3/0x90.7=up,1"),
    ("coupling-state", "coupling-state:0x80.3/0x90.7=1,0"),
    ("address-none", "address-none:0x80=0xffffffff"),
    ("address-other", "address-other:0x80/0x90"),
    ("address-many", "address-many:0x80/0x90=or"),
    ("retention", "retention:0x80.3=0"),
];

impl FromStr for InjectedFault {
    type Err = FaultSyntax;

    fn from_str(text: &str) -> Result<Self, FaultSyntax> {
        let (kind, rest) = text.split_once(':').unwrap_or((text, ""));
        let Some((_, form)) = FORMS.iter().find(|(name, _)| *name == kind) else {
            let names: Vec<&str> = FORMS.iter().map(|(name, _)| *name).collect();
            let problem = format!("there is no fault \"{kind}\"");
            return Err(FaultSyntax { problem, hint: format!("write {}", names.join(", ")) });
        };
        let fault = parsed(kind, rest).ok_or_else(|| FaultSyntax {
            problem: format!("\"{text}\" is not a valid {kind} fault"),
            hint: format!("write it as \"{form}\"; a word has the bits 0 to 31"),
        })?;
        if fault.is_of_one_cell() {
            let problem = format!("\"{text}\": both cells are the same");
            return Err(FaultSyntax { problem, hint: "write two different cells".into() });
        }
        Ok(fault)
    }
}
