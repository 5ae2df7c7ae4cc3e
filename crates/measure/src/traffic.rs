//! Defines the loads and stores of a traffic kernel for each mix, and the resulting reads and
//! writes of the memory controller.
//!
//! The mixes are those of Intel's Memory Latency Checker (`-W` of its public help), which names
//! them by the traffic "observed on the memory controller". An ordinary store counts twice, because
//! it reads its line first and writes it back later; a non-temporal store counts once.
//!
//! ```text
//! W2, 2R:1W     1 load + 1 store:                 lines read 1 + 1, written 1
//! W10, 2R:1NT   2 loads + 1 non-temporal store:   lines read 2,     written 1
//! ```
//!
//! The table is a model. Some processors avoid the read for ownership and therefore read less
//! (SpecI2M of Intel's Ice Lake and later under load, several Arm cores). Only counters give the
//! actual reads.

use interleaf_model::mix::{Mix, MixError, NAMED};
use std::{fmt, str::FromStr};

pub const LINE_BYTES: u64 = 64;

/// The order of accesses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pattern {
    /// Consecutive lines.
    Sequential,
    /// All lines in random order, each once per pass.
    Random,
}

/// The ratio of the loads and stores of a traffic kernel: in each group, the kernel loads a
/// multiple of `loads` lines and stores the same multiple of `stores` lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Traffic {
    pub name: Name,
    /// The first term of the ratio: lines that are loaded.
    pub loads: u32,
    /// The number of buffers that the loads use in turn; 0 without loads.
    pub read_buffers: u32,
    /// The second term of the ratio: lines that are stored.
    pub stores: u32,
    /// True if stores bypass the caches.
    pub nontemporal: bool,
}

/// The name of traffic: the name of its mix, or its share of reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Name {
    /// The name of the mix in the Memory Latency Checker, such as `W2`.
    Mlc(&'static str),
    /// The share of reads in the traffic of the memory controller, percent. It is written `70%`, or
    /// `70%nt` if stores bypass the caches.
    Share(u32),
}

/// A requested share of reads that is impossible: below 50 % with ordinary stores, or above 100 %.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no traffic has {percent} % reads: there is {least} to 100 %{}", if *.least > 0 {
    ", since an ordinary store reads its line too; with stores past the caches from 0 %"
} else {
    ""
})]
pub struct ShareError {
    /// The requested share of reads, percent.
    pub percent: u32,
    /// The lowest possible share of reads, percent.
    pub least: u32,
}

/// The error of a text that names no traffic.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum TrafficError {
    /// The text is neither the name of a mix nor a share of reads.
    #[error(transparent)]
    Mix(#[from] MixError),
    /// The text is a share of reads that no traffic has.
    #[error(transparent)]
    Share(#[from] ShareError),
}

/// The loads and stores of each mix. [`NAMED`] has the read share of each mix, by the same names.
const TABLE: [(&str, u32, u32, u32); 13] = [
    // The columns: name of the mix, lines that are loaded, buffers that are loaded from, lines that
    // are stored.
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
    /// Returns the traffic of each mix, in the order of MLC's numbers.
    pub fn all() -> Vec<Self> {
        let stores_pass =
            |name: &str| NAMED.iter().any(|(known, _, nontemporal)| *known == name && *nontemporal);
        TABLE
            .iter()
            .map(|&(name, loads, read_buffers, stores)| {
                let nontemporal = stores_pass(name);
                Self { name: Name::Mlc(name), loads, read_buffers, stores, nontemporal }
            })
            .collect()
    }

    /// Traffic of reads only.
    pub const READ: Self =
        Self { name: Name::Mlc("R"), loads: 1, read_buffers: 1, stores: 0, nontemporal: false };

    /// Returns traffic with `percent` % reads at the memory controller: 50 to 100 with ordinary
    /// stores, 0 to 100 with non-temporal stores.
    ///
    /// # Errors
    /// When no traffic has this share of reads.
    pub fn of_read_share(percent: u32, nontemporal: bool) -> Result<Self, ShareError> {
        let least = if nontemporal { 0 } else { 50 };
        if !(least..=100).contains(&percent) {
            return Err(ShareError { percent, least });
        }
        // The share of reads is (loads + stores) / (loads + 2 stores) with ordinary stores, and
        // loads / (loads + stores) with non-temporal stores.
        let (loads, stores) =
            (if nontemporal { percent } else { 2 * percent - 100 }, 100 - percent);
        let common = greatest_common_divisor(loads, stores);
        let (loads, stores) = (loads / common, stores / common);
        let name = Name::Share(percent);
        Ok(Self { name, loads, read_buffers: loads.min(1), stores, nontemporal })
    }

    /// Returns the number of lines that the program loads and stores in a group.
    pub const fn program_lines(&self) -> u32 {
        self.loads + self.stores
    }

    /// Returns the number of lines that the memory controller reads for a group, including reads
    /// for ownership.
    pub const fn controller_reads(&self) -> u32 {
        self.loads + if self.nontemporal { 0 } else { self.stores }
    }

    /// Returns the number of lines that the memory controller writes for a group.
    pub const fn controller_writes(&self) -> u32 {
        self.stores
    }

    /// Returns the number of bytes that the memory controller reads and writes for each byte that
    /// the program loads or stores.
    pub fn controller_factor(&self) -> f64 {
        let lines = self.controller_reads() + self.controller_writes();
        f64::from(lines) / f64::from(self.program_lines())
    }

    /// Returns the mix of the traffic at the memory controller.
    ///
    /// # Errors
    /// Never for the values that [`Self::all`] and [`Self::of_read_share`] return.
    pub fn mix(&self) -> Result<Mix, MixError> {
        let (reads, writes) =
            (f64::from(self.controller_reads()), f64::from(self.controller_writes()));
        Mix::new(reads / (reads + writes), self.nontemporal)
    }
}

impl fmt::Display for Traffic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.name, self.nontemporal) {
            (Name::Mlc(name), _) => f.write_str(name),
            (Name::Share(percent), false) => write!(f, "{percent}%"),
            (Name::Share(percent), true) => write!(f, "{percent}%nt"),
        }
    }
}

const fn greatest_common_divisor(a: u32, b: u32) -> u32 {
    if b == 0 { a } else { greatest_common_divisor(b, a % b) }
}

impl FromStr for Traffic {
    type Err = TrafficError;

    fn from_str(text: &str) -> Result<Self, TrafficError> {
        let unknown = || MixError::Name(text.into());
        if let Some((percent, end)) = text.split_once('%') {
            let nontemporal = match end {
                "" => false,
                "nt" => true,
                _ => return Err(unknown().into()),
            };
            let percent = percent.parse().map_err(|_| unknown())?;
            return Ok(Self::of_read_share(percent, nontemporal)?);
        }
        let named = |it: &Self| it.to_string().eq_ignore_ascii_case(text);
        Ok(Self::all().into_iter().find(named).ok_or_else(unknown)?)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;

    #[test]
    fn each_traffic_has_the_mix_of_its_name() {
        let all = Traffic::all();
        assert_eq!(all.len(), NAMED.len());
        for traffic in all {
            let named = NAMED.iter().find(|(name, ..)| *name == traffic.to_string()).unwrap();
            let mix = traffic.mix().unwrap();
            assert!((mix.read_share() - named.1).abs() < 1e-12, "{traffic:?}");
            assert_eq!(mix.nontemporal(), named.2, "{traffic}");
            assert_eq!(traffic.to_string().to_lowercase().parse::<Traffic>().unwrap(), traffic);
            assert!(traffic.read_buffers <= traffic.loads, "{traffic}");
        }
        assert!("W1".parse::<Traffic>().is_err());
    }

    #[test]
    fn every_possible_share_of_reads_has_a_traffic() {
        for (nontemporal, least) in [(false, 50), (true, 0)] {
            for percent in least..=100 {
                let traffic = Traffic::of_read_share(percent, nontemporal).unwrap();
                let share = traffic.mix().unwrap().read_share();
                assert!((share - f64::from(percent) / 100.0).abs() < 1e-12, "{traffic:?}");
                assert_eq!(traffic.to_string().parse(), Ok(traffic));
            }
        }
        let issued = |percent, nontemporal| {
            let traffic = Traffic::of_read_share(percent, nontemporal).unwrap();
            (traffic.loads, traffic.stores)
        };
        assert_eq!(
            (issued(50, false), issued(75, false), issued(80, true)),
            ((0, 1), (2, 1), (4, 1))
        );
        let why = Traffic::of_read_share(49, false).unwrap_err().to_string();
        assert!(why.contains("50 to 100 %"), "{why}");
        let why = Traffic::of_read_share(101, true).unwrap_err().to_string();
        assert!(why.ends_with("0 to 100 %"), "{why}");
        let why = "30%".parse::<Traffic>().unwrap_err().to_string();
        assert!(why.starts_with("no traffic has 30 % reads: there is 50 to 100 %"), "{why}");
        assert!(["49%", "70%x", "%", "x%nt"].iter().all(|text| text.parse::<Traffic>().is_err()));
    }

    #[test]
    fn a_store_counts_twice_and_a_nontemporal_store_once() {
        let factor = |name: &str| name.parse::<Traffic>().unwrap().controller_factor();
        assert_eq!((factor("R"), factor("W5"), factor("W6")), (1.0, 2.0, 1.0));
        assert_eq!((factor("W2"), factor("W10")), (1.5, 1.0));
    }
}
