//! Traffic mixes: the read share, the kind of stores and the order of the accesses in the traffic
//! that crosses the memory controller.
//!
//! The names of the mixes are those of Intel's Memory Latency Checker (`-W` in its public help).
//! The mixes count traffic at the memory controller. An ordinary store reads its line first (read
//! for ownership) and writes it back later, so a loop that only stores is `W5`: half reads and half
//! writes. A non-temporal store writes without reading.

use std::{fmt, str::FromStr};

/// Read share, kind of stores, and order of accesses of some traffic. Two mixes are equal if they
/// describe the same traffic: for mixes of reads only, the kind of stores is not compared.
#[derive(Clone, Copy, Debug)]
pub struct Mix {
    read_share: f64,
    nontemporal: bool,
    random: bool,
}

impl PartialEq for Mix {
    fn eq(&self, other: &Self) -> bool {
        self.read_share == other.read_share
            && (self.nontemporal == other.nontemporal || self.read_share >= 1.0)
            && self.random == other.random
    }
}

/// The named mixes: the name, the fraction of reads in the bytes, and true if the stores are
/// non-temporal.
///
/// For a mix with two names, such as `W10` and `W7`, the first name is printed. In MLC, `W3` and
/// `W11` differ only in the number of buffers.
pub const NAMED: [(&str, f64, bool); 13] = [
    ("R", 1.0, false),
    ("W2", 2.0 / 3.0, false),
    ("W3", 3.0 / 4.0, false),
    ("W4", 3.0 / 5.0, false),
    ("W5", 1.0 / 2.0, false),
    ("W6", 0.0, true),
    ("W10", 2.0 / 3.0, true),
    ("W7", 2.0 / 3.0, true),
    ("W8", 1.0 / 2.0, true),
    ("W9", 3.0 / 4.0, true),
    ("W11", 3.0 / 4.0, false),
    ("W12", 4.0 / 5.0, false),
    ("W19", 9.0 / 10.0, false),
];

/// The reason why a text or a read share is not a mix.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum MixError {
    /// A read share outside 0 to 1.
    #[error("a read share of {0} is not between 0 and 1")]
    ReadShare(f64),
    /// A text that names no mix.
    #[error("there is no mix \"{0}\"")]
    Name(String),
}

impl MixError {
    /// The remedy that error messages print: the valid names, and other ways to write a mix.
    pub fn hint() -> String {
        let names: Vec<_> = NAMED.iter().map(|(name, ..)| *name).collect();
        format!(
            "write one of {} (as MLC names them), reads to writes such as 2:1, or a read share \
             such as 0.62, 62% or 0.62nt, followed by /random for random order",
            names.join(", ")
        )
    }
}

impl Mix {
    /// Reads only, in sequential order.
    pub const READ: Self = Self { read_share: 1.0, nontemporal: false, random: false };

    /// Creates a mix of sequential accesses with a read share of `read_share` (0 to 1). Its stores
    /// bypass the caches if `nontemporal` is true.
    ///
    /// # Errors
    /// If `read_share` is not between 0 and 1.
    pub fn new(read_share: f64, nontemporal: bool) -> Result<Self, MixError> {
        if (0.0..=1.0).contains(&read_share) {
            Ok(Self { read_share, nontemporal, random: false })
        } else {
            Err(MixError::ReadShare(read_share))
        }
    }

    /// This mix with accesses in random order.
    pub const fn in_random_order(self) -> Self {
        Self { random: true, ..self }
    }

    /// The fraction of reads in the bytes, 0 to 1.
    pub const fn read_share(self) -> f64 {
        self.read_share
    }

    /// True if stores bypass the caches. The value has no meaning for a mix without writes.
    pub const fn nontemporal(self) -> bool {
        self.nontemporal
    }

    /// True if lines are accessed in random order.
    pub const fn random(self) -> bool {
        self.random
    }

    /// True if curves may be interpolated between the mixes `self` and `other`: both have the same
    /// order of accesses, and the same kind of stores unless one of the mixes has reads only.
    pub fn is_of_family(self, other: Self) -> bool {
        let writes = self.read_share < 1.0 && other.read_share < 1.0;
        (!writes || self.nontemporal == other.nontemporal) && self.random == other.random
    }

    /// This mix with the read share `read_share`.
    ///
    /// # Errors
    ///
    /// If `read_share` is not between 0 and 1.
    pub fn with_read_share(self, read_share: f64) -> Result<Self, MixError> {
        Ok(Self { random: self.random, ..Self::new(read_share, self.nontemporal)? })
    }
}

impl FromStr for Mix {
    type Err = MixError;

    fn from_str(text: &str) -> Result<Self, MixError> {
        let (name, random) = match text.strip_suffix("/random") {
            Some(name) => (name, true),
            None => (text, false),
        };
        let named = NAMED.iter().find(|(known, ..)| known.eq_ignore_ascii_case(name));
        let mix = match named {
            Some(&(_, read_share, nontemporal)) => Self { read_share, nontemporal, random: false },
            None => {
                let (number, nontemporal) = match name.strip_suffix("nt") {
                    Some(number) => (number, true),
                    None => (name, false),
                };
                let read_share = share(number).ok_or_else(|| MixError::Name(text.into()))?;
                Self::new(read_share, nontemporal)?
            }
        };
        Ok(Self { random, ..mix })
    }
}

/// Parses the read share in `text`: `0.62`, `62%`, or a ratio of reads to writes such as `2:1`;
/// `None` for any other text.
fn share(text: &str) -> Option<f64> {
    if let Some((reads, writes)) = text.split_once(':') {
        let [reads, writes]: [f64; 2] = [reads.parse().ok()?, writes.parse().ok()?];
        let is_ratio = reads >= 0.0 && writes >= 0.0 && reads + writes > 0.0;
        return is_ratio.then(|| reads / (reads + writes));
    }
    match text.strip_suffix('%') {
        Some(percent) => percent.parse::<f64>().ok().map(|percent| percent / 100.0),
        None => text.parse().ok(),
    }
}

impl fmt::Display for Mix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let same = |&&(_, read_share, nontemporal): &&(&str, f64, bool)| {
            (read_share - self.read_share).abs() < 5e-4
                && (nontemporal == self.nontemporal || read_share == 1.0)
        };
        match NAMED.iter().find(same) {
            Some((name, ..)) => f.write_str(name)?,
            None => {
                write!(f, "{:.3}{}", self.read_share, if self.nontemporal { "nt" } else { "" })?;
            }
        }
        f.write_str(if self.random { "/random" } else { "" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_numbers_percentages_or_ratios() {
        let mix = |text: &str| text.parse::<Mix>();
        assert_eq!(mix("2:1").unwrap().to_string(), "W2");
        assert_eq!(mix("3:1nt/random").unwrap().read_share, 0.75);
        assert_eq!(mix("62%"), mix("0.62"));
        assert_eq!(mix("1.0nt"), mix("R"));
        assert_ne!(mix("0.5nt"), mix("0.5"));
        assert_ne!(mix("1.0nt/random"), mix("R"));
        for wrong in ["0:0", "-1:2", "1:", ":", "2:1:1", "101%", "%", "NaN:1", "inf:1"] {
            assert!(mix(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn names() {
        let table = [
            ("R", 1.0, false, false, "R"),
            ("w2", 2.0 / 3.0, false, false, "W2"),
            ("W10", 2.0 / 3.0, true, false, "W10"),
            ("W7", 2.0 / 3.0, true, false, "W10"),
            ("0.62", 0.62, false, false, "0.620"),
            ("0.62nt", 0.62, true, false, "0.620nt"),
            ("R/random", 1.0, false, true, "R/random"),
        ];
        for (text, read_share, nontemporal, random, shown) in table {
            let mix: Mix = text.parse().unwrap();
            assert_eq!(
                (mix.read_share(), mix.nontemporal(), mix.random()),
                (read_share, nontemporal, random)
            );
            assert_eq!(mix.to_string(), shown);
        }
        for bad in ["", "W1", "1.1", "-0.1", "nt", "R/seq", "NaN"] {
            assert!(bad.parse::<Mix>().is_err(), "{bad}");
        }
    }

    #[test]
    fn families() {
        let of = |a: &str, b: &str| a.parse::<Mix>().unwrap().is_of_family(b.parse().unwrap());
        assert!(of("R", "W10") && of("R", "W2") && of("W2", "W5"));
        assert!(!of("W2", "W10") && !of("R", "R/random"));
    }
}
