//! Describes the algorithms of the memory test as data: steps, operations and backgrounds.

use super::fault::FaultClass;
use core::str::FromStr;

/// An algorithm of the memory test.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Algorithm {
    /// Writes the pattern to all words, switches the power off and on, and reads the words back.
    Pattern,
    /// Writes and reads, at each address, each of the 32 values with a single set bit, then zero.
    WalkingOnes,
    /// The march test MATS+. Its elements are in the documentation of the [module](super).
    MatsPlus,
    /// The march test March C-. Its elements are in the documentation of the [module](super).
    MarchCMinus,
    /// Writes to each word its own address, then the inverse of it, and reads the words back.
    AddressInAddress,
    /// Writes and reads back alternating bits, inverted from word to word; then their inverse.
    Checkerboard,
    /// Writes random values that depend on seed, address and cycle, and reads the words back.
    Random,
}

/// The fraction of the faults of a class that an algorithm finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Detection {
    /// The algorithm finds all faults of the class.
    All,
    /// The algorithm finds some faults of the class, depending on their cells and values.
    Some,
    /// The algorithm finds no fault of the class.
    None,
}

/// The direction in which an element of a march test walks over the addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MarchOrder {
    /// From the start address to the stop address.
    Up,
    /// From the stop address to the start address.
    Down,
}

/// The value that an operation writes or expects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Background {
    /// The background of the algorithm at this address: `0` in the notation of march tests.
    Direct,
    /// The inverse of the background: `1` in the notation of march tests.
    Inverse,
    /// A word in which only the bit with this index is set.
    Bit(u32),
    /// A word of zeros.
    Zero,
}

/// An operation that a march element does at each address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TestOperation {
    /// Reads the word, and compares it with the value of this background.
    Read(Background),
    /// Writes the value of this background to the word.
    Write(Background),
}

/// A step of an algorithm: a march element or a power cycle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TestStep {
    /// Does the same operations at each address, in one direction.
    March(MarchOrder, Vec<TestOperation>),
    /// Switches the power off and on.
    PowerCycle,
}

const NAMES: [(&str, Algorithm); 7] = [
    ("pattern", Algorithm::Pattern),
    ("walking-ones", Algorithm::WalkingOnes),
    ("mats+", Algorithm::MatsPlus),
    ("march-c-", Algorithm::MarchCMinus),
    ("address-in-address", Algorithm::AddressInAddress),
    ("checkerboard", Algorithm::Checkerboard),
    ("random", Algorithm::Random),
];

impl Algorithm {
    /// All algorithms, in the order of the table in the documentation of the [module](super).
    pub const ALL: [Self; 7] = [
        Self::Pattern,
        Self::WalkingOnes,
        Self::MatsPlus,
        Self::MarchCMinus,
        Self::AddressInAddress,
        Self::Checkerboard,
        Self::Random,
    ];

    /// Returns the name of the algorithm in command-line options and JSON records.
    pub fn name(self) -> &'static str {
        NAMES.iter().find(|(_, algorithm)| *algorithm == self).map_or("", |(name, _)| name)
    }

    /// Returns the steps of one cycle of the algorithm.
    pub fn steps(self) -> Vec<TestStep> {
        use Background::{Bit, Direct, Inverse, Zero};
        use MarchOrder::{Down, Up};
        use TestOperation::{Read, Write};
        let march =
            |order, operations: &[TestOperation]| TestStep::March(order, operations.to_vec());
        let (r0, r1, w0, w1) = (Read(Direct), Read(Inverse), Write(Direct), Write(Inverse));
        match self {
            Self::Pattern => vec![march(Up, &[w0]), TestStep::PowerCycle, march(Up, &[r0])],
            Self::WalkingOnes => {
                let mut operations: Vec<TestOperation> =
                    (0..32).flat_map(|bit| [Write(Bit(bit)), Read(Bit(bit))]).collect();
                operations.extend([Write(Zero), Read(Zero)]);
                vec![TestStep::March(Up, operations)]
            }
            Self::MatsPlus => {
                vec![march(Up, &[w0]), march(Up, &[r0, w1]), march(Down, &[r1, w0])]
            }
            Self::MarchCMinus => vec![
                march(Up, &[w0]),
                march(Up, &[r0, w1]),
                march(Up, &[r1, w0]),
                march(Down, &[r0, w1]),
                march(Down, &[r1, w0]),
                march(Up, &[r0]),
            ],
            Self::AddressInAddress | Self::Checkerboard => {
                vec![march(Up, &[w0]), march(Up, &[r0]), march(Up, &[w1]), march(Up, &[r1])]
            }
            Self::Random => vec![march(Up, &[w0]), march(Up, &[r0])],
        }
    }

    /// Returns the background of the algorithm at `address`. Only [`Self::Pattern`] uses `pattern`,
    /// and only [`Self::Random`] uses `seed` and `cycle`.
    pub fn background(self, address: u64, pattern: u32, seed: u64, cycle: u64) -> u32 {
        match self {
            Self::Pattern => pattern,
            Self::WalkingOnes | Self::MatsPlus | Self::MarchCMinus => 0,
            Self::AddressInAddress => address as u32,
            Self::Checkerboard if (address / 4).is_multiple_of(2) => 0xAAAA_AAAA,
            Self::Checkerboard => 0x5555_5555,
            Self::Random => mixed(seed ^ mixed(address ^ mixed(cycle))) as u32,
        }
    }

    /// Returns the fraction of the faults of `class` that one cycle of the algorithm finds. The
    /// result is for a memory that has a single fault and whose words are all 0 before the cycle.
    /// The cells of a coupling fault are in different words.
    pub fn detects(self, class: FaultClass) -> Detection {
        use Detection::{All, None, Some};
        use FaultClass as Class;
        match (self, class) {
            (Self::Pattern, _) => Some,
            (_, Class::Retention) => None,
            (Self::MarchCMinus, _) => All,
            (Self::WalkingOnes, Class::StuckAt | Class::Transition) => All,
            (Self::WalkingOnes, Class::AddressDecoder | Class::CouplingState) => Some,
            (Self::WalkingOnes, _) => None,
            (Self::Random, Class::AddressDecoder) => All,
            (Self::Random, _) => Some,
            (_, Class::StuckAt) => All,
            (Self::MatsPlus | Self::AddressInAddress, Class::AddressDecoder) => All,
            _ => Some,
        }
    }
}

/// Returns a bijective hash of `value` (the finaliser of SplitMix64; Steele, Lea, Flood 2014).
const fn mixed(value: u64) -> u64 {
    let value = value.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let value = (value ^ (value >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    value ^ (value >> 31)
}

impl FromStr for Algorithm {
    type Err = String;

    /// Reads the name of an algorithm. The error lists all names.
    fn from_str(text: &str) -> Result<Self, String> {
        NAMES.iter().find(|(name, _)| *name == text).map(|(_, algorithm)| *algorithm).ok_or_else(
            || {
                let names: Vec<&str> = NAMES.iter().map(|(name, _)| *name).collect();
                format!("there is no algorithm \"{text}\": write {}", names.join(", "))
            },
        )
    }
}
