//! Weights of interleaved pages: the number of pages on each tier in one round.

use core::ops::Rem;
use std::{fmt, str::FromStr};

/// Maximum number of pages of one tier in a round: the kernel's limit for a weight.
pub const WEIGHT_MAX: u16 = 255;

/// The number of pages on each tier in one round, such as `3:1`. The weights are kept as given:
/// `6:2` is not reduced to `3:1`. At least one weight is not zero. A tier with the weight zero gets
/// no pages. The kernel has no weight of zero: there, a node mask excludes such a tier.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Weights(Vec<u16>);

/// The reason why a text or a list of numbers is not a set of weights.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WeightsError {
    /// One of the weights is not a whole number from 0 to 255.
    #[error("\"{part}\"{} is not a whole number from 0 to 255", within(part, text))]
    Part {
        /// The whole text.
        text: String,
        /// The invalid weight, as written.
        part: String,
    },
    /// All weights are zero.
    #[error("\"{0}\" puts no page anywhere: all weights are zero")]
    AllZero(String),
    /// The number of weights differs from the number of tiers.
    #[error(
        "\"{weights}\" has {given} weight{}, but there are {tiers} tiers: {names}",
        if *given == 1 { "" } else { "s" }
    )]
    Count {
        /// The weights, as text.
        weights: String,
        /// The number of weights given.
        given: usize,
        /// The number of tiers.
        tiers: usize,
        /// The names of the tiers, separated by commas.
        names: String,
    },
}

/// Returns the part of an error message that quotes the whole `text` after the invalid weight
/// `part`; empty if `part` is the whole text.
fn within(part: &str, text: &str) -> String {
    if part == text { String::new() } else { format!(" in \"{text}\"") }
}

impl Weights {
    /// Creates weights from one number for each tier, in the order of the tiers.
    ///
    /// # Errors
    /// If a weight is above 255, or if all weights are zero.
    pub fn new(weights: Vec<u16>) -> Result<Self, WeightsError> {
        let text = || join(&weights);
        if let Some(part) = weights.iter().find(|weight| **weight > WEIGHT_MAX) {
            return Err(WeightsError::Part { text: text(), part: part.to_string() });
        }
        if weights.iter().all(|weight| *weight == 0) {
            return Err(WeightsError::AllZero(text()));
        }
        Ok(Self(weights))
    }

    /// Returns the whole percentages nearest to `shares`, which sum to 1. The percentages sum to
    /// 100: those with the largest remainders are rounded up.
    pub fn percent(shares: &[f64]) -> Self {
        let exact: Vec<f64> = shares.iter().map(|share| 100.0 * share.clamp(0.0, 1.0)).collect();
        let mut points: Vec<u16> = exact.iter().map(|points| (points + 1e-9) as u16).collect();
        let mut order: Vec<usize> = (0..points.len()).collect();
        let rest = |at: &usize| exact[*at] - f64::from(points[*at]);
        let rests: Vec<f64> = order.iter().map(rest).collect();
        order.sort_by(|a, b| rests[*b].total_cmp(&rests[*a]).then(a.cmp(b)));
        let missing = 100u16.saturating_sub(points.iter().sum());
        for at in order.into_iter().cycle().take(usize::from(missing)) {
            points[at] += 1;
        }
        Self(points)
    }

    /// Returns the weights with all pages on the first of `tiers` tiers.
    pub fn first_tier(tiers: usize) -> Self {
        Self((0..tiers.max(1)).map(|tier| u16::from(tier == 0)).collect())
    }

    /// Returns weights for every distinct ratio of `tiers` whole numbers from 0 to `limit`, in
    /// falling order of the first tier's share.
    pub fn every_ratio(tiers: usize, limit: u16) -> Vec<Self> {
        let mut all = vec![vec![]];
        for _ in 0..tiers {
            all = all
                .into_iter()
                .flat_map(|head: Vec<u16>| {
                    (0..=limit).map(move |weight| [head.as_slice(), &[weight]].concat())
                })
                .collect();
        }
        let coprime = |weights: &Vec<u16>| weights.iter().copied().fold(0, gcd) == 1;
        let with_shares = |weights: Vec<u16>| {
            let own = Self(weights);
            (own.shares(), own)
        };
        let mut all: Vec<_> = all.into_iter().filter(coprime).map(with_shares).collect();
        all.sort_by(|(a, _), (b, _)| b.partial_cmp(a).expect("shares are finite"));
        all.into_iter().map(|(_, own)| own).collect()
    }

    /// The weights in the order of the tiers.
    pub fn as_slice(&self) -> &[u16] {
        &self.0
    }

    /// True if all pages are on one tier.
    pub fn one_tier(&self) -> bool {
        self.0.iter().filter(|weight| **weight > 0).count() == 1
    }

    /// The share of pages on each tier, 0 to 1. The shares sum to 1.
    pub fn shares(&self) -> Vec<f64> {
        let sum: f64 = self.0.iter().map(|weight| f64::from(*weight)).sum();
        self.0.iter().map(|weight| f64::from(*weight) / sum).collect()
    }

    /// Checks that there is one weight for each of `names`, the names of the tiers.
    ///
    /// # Errors
    ///
    /// If the number of weights differs from the number of names.
    pub fn for_tiers(self, names: &[&str]) -> Result<Self, WeightsError> {
        if self.0.len() == names.len() {
            return Ok(self);
        }
        Err(WeightsError::Count {
            weights: self.to_string(),
            given: self.0.len(),
            tiers: names.len(),
            names: names.join(", "),
        })
    }
}

impl FromStr for Weights {
    type Err = WeightsError;

    fn from_str(text: &str) -> Result<Self, WeightsError> {
        let part =
            |part: &str| {
                part.trim().parse::<u16>().ok().filter(|weight| *weight <= WEIGHT_MAX).ok_or_else(
                    || WeightsError::Part { text: text.into(), part: part.trim().into() },
                )
            };
        Self::new(text.split(':').map(part).collect::<Result<_, _>>()?)
    }
}

impl fmt::Display for Weights {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&join(&self.0))
    }
}

fn join(weights: &[u16]) -> String {
    weights.iter().map(u16::to_string).collect::<Vec<_>>().join(":")
}

/// Returns the greatest common divisor of two whole numbers; if one of them is 0, the other number.
pub fn gcd<T: Copy + Default + PartialEq + Rem<Output = T>>(a: T, b: T) -> T {
    if b == T::default() { a } else { gcd(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text() {
        for good in ["3:1", "65:35", "1:0", "0:1", "4:2:1", "255:1"] {
            assert_eq!(good.parse::<Weights>().unwrap().to_string(), good);
        }
        for bad in ["", ":", "3:", "3:-1", "256:1", "0:0", "3/1", "a:b", "1.5:1"] {
            assert!(bad.parse::<Weights>().is_err(), "{bad}");
        }
    }

    #[test]
    fn percent() {
        let table: [(&[f64], &str); 5] = [
            (&[1.0, 0.0], "100:0"),
            (&[0.655, 0.345], "66:34"),
            (&[2.0 / 3.0, 1.0 / 3.0], "67:33"),
            (&[1.0 / 3.0; 3], "34:33:33"),
            (&[0.65, 0.35], "65:35"),
        ];
        for (shares, text) in table {
            assert_eq!(Weights::percent(shares).to_string(), text, "{shares:?}");
        }
    }

    #[test]
    fn every_ratio_is_distinct_and_ordered() {
        let all = Weights::every_ratio(2, 10);
        assert_eq!(all.len(), 65, "63 coprime pairs up to 10, and the two ends");
        assert_eq!(all.first().unwrap().to_string(), "1:0");
        assert_eq!(all.last().unwrap().to_string(), "0:1");
        assert!(all.windows(2).all(|pair| pair[0].shares()[0] > pair[1].shares()[0]));
    }
}
