//! What a kernel issues for each mix, and what a memory controller sees of it.
//!
//! The mixes are those of Intel's Memory Latency Checker (`-W` of its public help), which names
//! them by what is "observed on the memory controller": an ordinary store reads its line first and
//! writes it back later, so it counts twice, and a non-temporal store once.
//!
//! ```text
//! W2, 2R:1W     1 load + 1 store:                 lines read 1 + 1, written 1
//! W10, 2R:1NT   2 loads + 1 non-temporal store:   lines read 2,     written 1
//! ```
//!
//! That is a model: processors that evade the read for ownership (SpecI2M of Intel's Ice Lake and
//! later under load, several Arm cores) read less. Only counters can say what was read in truth.

use interleaf_model::mix::{Mix, MixError, NAMED};
use std::{fmt, str::FromStr};

/// Bytes of a line.
pub const LINE_BYTES: u64 = 64;

/// What a kernel issues for one group of lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Traffic {
    /// What it is called.
    pub name: &'static str,
    /// Lines that are loaded.
    pub loads: u32,
    /// Buffers that they are loaded from, in turn; 0 without loads.
    pub read_buffers: u32,
    /// Lines that are stored.
    pub stores: u32,
    /// Whether stores go past the caches.
    pub nontemporal: bool,
}

/// What each mix issues; the names and shares are those of [`NAMED`].
const TABLE: [(&str, u32, u32, u32); 13] = [
    // Name, loads, buffers that are read, stores.
    ("R", 1, 1, 0),
    ("W2", 1, 1, 1),
    ("W3", 2, 1, 1),
    ("W4", 1, 1, 2),
    ("W5", 0, 0, 1),
    ("W6", 0, 0, 1),
    ("W7", 2, 1, 1),
    ("W8", 1, 1, 1),
    ("W9", 3, 1, 1),
    ("W10", 2, 2, 1),
    ("W11", 2, 2, 1),
    ("W12", 3, 1, 1),
    ("W19", 8, 1, 1),
];

impl Traffic {
    /// All of them, in the order of their numbers.
    pub fn all() -> Vec<Self> {
        let stores_pass =
            |name: &str| NAMED.iter().any(|(known, _, nontemporal)| *known == name && *nontemporal);
        TABLE
            .iter()
            .map(|&(name, loads, read_buffers, stores)| {
                let nontemporal = stores_pass(name);
                Self { name, loads, read_buffers, stores, nontemporal }
            })
            .collect()
    }

    /// Reads only.
    pub const READ: Self =
        Self { name: "R", loads: 1, read_buffers: 1, stores: 0, nontemporal: false };

    /// Lines that the program loads and stores in a group.
    pub const fn program_lines(&self) -> u32 {
        self.loads + self.stores
    }

    /// Lines that a controller reads for a group, those for ownership too.
    pub const fn controller_reads(&self) -> u32 {
        self.loads + if self.nontemporal { 0 } else { self.stores }
    }

    /// Lines that a controller writes for a group.
    pub const fn controller_writes(&self) -> u32 {
        self.stores
    }

    /// Bytes that a controller moves for each byte of the program.
    pub fn controller_factor(&self) -> f64 {
        let lines = self.controller_reads() + self.controller_writes();
        f64::from(lines) / f64::from(self.program_lines())
    }

    /// The mix at the controller.
    ///
    /// # Errors
    /// Never of those in the table.
    pub fn mix(&self) -> Result<Mix, MixError> {
        let (reads, writes) =
            (f64::from(self.controller_reads()), f64::from(self.controller_writes()));
        Mix::new(reads / (reads + writes), self.nontemporal)
    }
}

impl fmt::Display for Traffic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

impl FromStr for Traffic {
    type Err = MixError;

    fn from_str(text: &str) -> Result<Self, MixError> {
        let found = Self::all().into_iter().find(|it| it.name.eq_ignore_ascii_case(text));
        found.ok_or_else(|| MixError::Name(text.into()))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;

    #[test]
    fn each_gives_the_mix_that_it_is_named_for() {
        let all = Traffic::all();
        assert_eq!(all.len(), NAMED.len());
        for traffic in all {
            let named = NAMED.iter().find(|(name, ..)| *name == traffic.name).unwrap();
            let mix = traffic.mix().unwrap();
            assert!((mix.read_share() - named.1).abs() < 1e-12, "{traffic:?}");
            assert_eq!(mix.nontemporal(), named.2, "{traffic}");
            assert_eq!(traffic.name.to_lowercase().parse::<Traffic>().unwrap(), traffic);
            assert!(traffic.read_buffers <= traffic.loads, "{traffic}");
        }
        assert!("W1".parse::<Traffic>().is_err());
    }

    #[test]
    fn a_store_counts_twice_and_one_past_the_caches_once() {
        let factor = |name: &str| name.parse::<Traffic>().unwrap().controller_factor();
        assert_eq!((factor("R"), factor("W5"), factor("W6")), (1.0, 2.0, 1.0));
        assert_eq!((factor("W2"), factor("W10")), (1.5, 1.0));
    }
}
